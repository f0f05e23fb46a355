package hubtest

import (
	"reflect"

	"github.com/parley-agents/parley/hub"
)

// aContinuation returns a continuation whose members are set.
func aContinuation(handoff hub.HandoffID, of hub.AgentID) hub.Continuation {
	return hub.Continuation{
		Handoff: handoff, Task: "T-1", Title: "parser", Of: of, Reason: hub.ContinueQuota, Until: epoch, Folder: "/src", Head: "c1", Tree: "t1",
		Rescue: &hub.Rescue{ID: "s1", Ref: "rescue/x", Commit: "c2", Agent: of, Files: 1}, State: hub.ContinuationWaiting, At: epoch,
	}
}

var continuationTests = []storeTest{
	{"a continuation is found by its agent, task and handoffs, and changes by compare-and-set", func(w *world) {
		var id hub.ContinuationID
		w.update(func(tx hub.Tx) (err error) {
			if id, err = tx.WriteContinuations().PutContinuation(aContinuation("h1", "builder")); err != nil {
				return err
			}
			_, err = tx.WriteContinuations().PutContinuation(aContinuation("h2", "tester"))
			return err
		})
		w.store = w.reopen()

		w.update(func(tx hub.Tx) error {
			c, err := tx.Continuations().Continuation(id)
			if err != nil {
				return err
			}
			want := aContinuation("h1", "builder")
			want.ID, want.Revision = "k1", 1
			if !reflect.DeepEqual(c, want) {
				w.Errorf("got %+v, want %+v", c, want)
			}
			old := c
			if c, err = c.Advance(hub.ContinuationOffered, epoch); err != nil {
				return err
			}
			c.Next, c.To = "h3", "helper"
			if _, err := tx.WriteContinuations().PutContinuation(c); err != nil {
				return err
			}
			if _, err := tx.WriteContinuations().PutContinuation(old); hub.CodeOf(err) != hub.CodeConflict {
				w.Errorf("an old revision: %v", err)
			}
			return nil
		})

		w.view(func(r hub.Reader) error {
			for _, q := range []struct {
				hub.ContinuationQuery
				want int
			}{
				{hub.ContinuationQuery{}, 2},
				{hub.ContinuationQuery{Of: "builder"}, 1},
				{hub.ContinuationQuery{Handoff: "h2"}, 1},
				{hub.ContinuationQuery{Next: "h3"}, 1},
				{hub.ContinuationQuery{Task: "T-1"}, 2},
				{hub.ContinuationQuery{States: []hub.ContinuationState{hub.ContinuationWaiting}}, 1},
				{hub.ContinuationQuery{Cursor: "k2"}, 1},
			} {
				q.Limit = 10
				got, err := r.Continuations().Continuations(q.ContinuationQuery)
				if err != nil {
					return err
				}
				if len(got) != q.want {
					w.Errorf("%+v: got %d, want %d", q.ContinuationQuery, len(got), q.want)
				}
			}
			return nil
		})
	}},
	{"kept work is found by its tree, changes by compare-and-set, and shares its numbers with rescues", func(w *world) {
		work := hub.KeptWork{Tree: hub.WorkingTree{Path: "/src/app", Repository: "/src/app/.git"}, Agent: "builder", Why: hub.KeptBeforeCommand, At: epoch, State: hub.KeptState{ID: "x1", Files: 2}}
		var rescue hub.RescueID
		w.update(func(tx hub.Tx) (err error) {
			if work.ID, err = tx.WriteKept().PutKeptWork(work); err != nil {
				return err
			}
			if rescue, err = tx.WriteContinuations().AddRescue(hub.Rescue{Ref: "rescue/x", Commit: "c1", Agent: "builder", At: epoch}); err != nil {
				return err
			}
			_, err = tx.WriteKept().PutKeptWork(hub.KeptWork{Tree: hub.WorkingTree{Path: "/other"}, Why: hub.KeptTurn, At: epoch})
			return err
		})
		if work.ID.Number()+1 != rescue.Number() {
			w.Errorf("got %s and %s", work.ID, rescue)
		}
		w.store = w.reopen()
		w.update(func(tx hub.Tx) error {
			got, err := tx.Kept().KeptWork(work.ID)
			if err != nil {
				return err
			}
			work.Revision = 1
			if !reflect.DeepEqual(got, work) {
				w.Errorf("got %+v, want %+v", got, work)
			}
			got.After = "x2"
			if _, err := tx.WriteKept().PutKeptWork(got); err != nil {
				return err
			}
			if _, err := tx.WriteKept().PutKeptWork(got); hub.CodeOf(err) != hub.CodeConflict {
				w.Errorf("an old revision: %v", err)
			}
			for _, q := range []struct {
				hub.KeptQuery
				want int
			}{{hub.KeptQuery{}, 2}, {hub.KeptQuery{Tree: "/src/app"}, 1}, {hub.KeptQuery{Repository: "/src/app/.git"}, 1}, {hub.KeptQuery{Agent: "builder"}, 1}, {hub.KeptQuery{Cursor: work.ID}, 0}} {
				q.Limit = 10
				got, err := tx.Kept().KeptWorks(q.KeptQuery)
				if err != nil || len(got) != q.want {
					w.Errorf("%+v: got %+v, %v, want %d", q.KeptQuery, got, err, q.want)
				}
			}
			if err := tx.WriteKept().RemoveKeptWork(work.ID); err != nil {
				return err
			}
			if err := tx.WriteKept().RemoveKeptWork(work.ID); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("a second time: %v", err)
			}
			return nil
		})
	}},
	{"the number of a dropped rescue is not given again", func(w *world) {
		add := func() (id hub.RescueID) {
			w.update(func(tx hub.Tx) (err error) {
				id, err = tx.WriteContinuations().AddRescue(hub.Rescue{Ref: "rescue/x", Commit: "c1", Agent: "builder", Paths: []string{"a"}, At: epoch})
				return err
			})
			return id
		}
		first := add()
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteContinuations().RemoveRescue(first); err != nil {
				return err
			}
			if err := tx.WriteContinuations().RemoveRescue(first); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("a second time: %v", err)
			}
			return nil
		})
		second := add()
		w.view(func(r hub.Reader) error {
			got, err := r.Continuations().Rescues(10)
			if err != nil {
				return err
			}
			if len(got) != 1 || got[0].ID != second || second == first {
				w.Errorf("got %+v after %s", got, first)
			}
			_, err = r.Continuations().Rescue(second)
			return err
		})
	}},
}
