package hubtest

import (
	"time"

	"github.com/parley-agents/parley/hub"
)

var claimTests = []storeTest{
	{"an item has one owner", func(w *world) {
		for i, c := range []hub.ItemClaim{{Item: "b", Owner: "bob"}, {Item: "a", Owner: "alice"}, {Item: "c", Owner: "bob"}, {Item: "b", Owner: "alice"}} {
			c.At = epoch.Add(time.Duration(i) * time.Second)
			w.update(func(tx hub.Tx) error { return tx.PutItemClaim(c) })
		}
		w.update(func(tx hub.Tx) error { return tx.RemoveItemClaim("c") })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			all, err := r.ItemClaims("", 10)
			if err == nil && (len(all) != 2 || all[0].Item != "a" || all[1].Owner != "alice" || !all[1].At.Equal(epoch.Add(3*time.Second).Time)) {
				w.Errorf("ItemClaims: got %v, want a and b of alice, b as it was claimed last", all)
			}
			one, err2 := r.ItemClaims("alice", 1)
			if len(one) != 1 || one[0].Item != "a" {
				w.Errorf("ItemClaims of alice, one: got %v", one)
			}
			if none, _ := r.ItemClaims("bob", 10); len(none) != 0 {
				w.Errorf("ItemClaims of bob: got %v, want none", none)
			}
			if c, err := r.ItemClaim("b"); err != nil || c.Owner != "alice" {
				w.Errorf("ItemClaim: got %v (%v), want alice", c, err)
			}
			if _, err := r.ItemClaim("c"); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("ItemClaim of a free item: got %v, want %s", err, hub.CodeNotFound)
			}
			if err == nil {
				err = err2
			}
			return err
		})
	}},
	{"a free item cannot be released", func(w *world) {
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.RemoveItemClaim("a") })
	}},
}
