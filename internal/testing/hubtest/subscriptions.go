package hubtest

import (
	"time"

	"github.com/parley-agents/parley/hub"
)

var subscriptionTests = []storeTest{
	{"a subscription keeps its filter, and its agent removes it", func(w *world) {
		filter := hub.Filter{From: []hub.AgentID{"alice"}, Topics: []string{"auth/*"}, PriorityMin: hub.PriorityHigh}
		one := hub.Subscription{ID: "s1", Agent: "bob", Filter: filter, CreatedAt: epoch}
		w.update(func(tx hub.Tx) error { return tx.AddSubscription(one) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error {
			return tx.AddSubscription(hub.Subscription{ID: "s1", Agent: "alice", Filter: filter, CreatedAt: epoch})
		})
		w.update(func(tx hub.Tx) error {
			return tx.AddSubscription(hub.Subscription{ID: "s2", Agent: "alice", Filter: filter, CreatedAt: epoch})
		})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			all, err := r.Subscriptions("")
			if len(all) != 2 || all[0].ID != "s2" || all[1].Filter.Topics[0] != "auth/*" || !all[1].CreatedAt.Equal(epoch.Time) {
				w.Errorf("Subscriptions: got %v, want that of alice and then that of bob", all)
			}
			if mine, _ := r.Subscriptions("bob"); len(mine) != 1 || mine[0].ID != "s1" {
				w.Errorf("Subscriptions of bob: got %v, want s1", mine)
			}
			return err
		})
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.RemoveSubscription("alice", "s1") })
		w.update(func(tx hub.Tx) error { return tx.RemoveSubscription("bob", "s1") })
	}},
	{"R3-170 an agent gets one copy of a message", func(w *world) {
		at := func(s int) hub.Time { return epoch.Add(time.Duration(s) * time.Second) }
		for i, c := range []hub.Copy{{Agent: "bob", Message: "m1", By: "s1", Text: "t"}, {Agent: "alice", Message: "m1", By: "role"}, {Agent: "bob", Message: "m2", By: "s1"}} {
			c.At, c.DueAt = at(i), at(i+10)
			w.update(func(tx hub.Tx) error { return tx.AddCopy(c) })
		}
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error {
			return tx.AddCopy(hub.Copy{Agent: "bob", Message: "m1", By: "capability", At: at(9), DueAt: at(19)})
		})
		w.update(func(tx hub.Tx) error { return tx.PutCopy("bob", "m1", "c1") })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutCopy("bob", "m1", "c2") })
		w.update(func(tx hub.Tx) error { return tx.PutCopy("bob", "m2", "") })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			for name, q := range map[string]struct {
				hub.CopyQuery
				want int
			}{
				"of a message":          {hub.CopyQuery{Message: "m1"}, 2},
				"waiting":               {hub.CopyQuery{Waiting: true}, 1},
				"due":                   {hub.CopyQuery{Waiting: true, Due: at(10)}, 0},
				"due later":             {hub.CopyQuery{Waiting: true, Due: at(11)}, 1},
				"of a text":             {hub.CopyQuery{Agent: "bob", Text: "t", Since: at(-1)}, 1},
				"of a text of too long": {hub.CopyQuery{Agent: "bob", Text: "t", Since: at(0)}, 0},
			} {
				q.Limit = 10
				got, err := r.Copies(q.CopyQuery)
				if err != nil || len(got) != q.want {
					w.Errorf("copies %s: got %v (%v), want %d", name, got, err, q.want)
				}
			}
			return nil
		})
	}},
}
