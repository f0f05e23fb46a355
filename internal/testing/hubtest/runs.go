package hubtest

import (
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/hub"
)

// newRun returns a run that is ready to be stored.
func (w *world) newRun(agent, by hub.AgentID) hub.Run {
	id := hub.RunID(w.ids.Next())
	return hub.Run{
		ID: id, Agent: agent, By: by, Task: "say \"hello\"\nnow", Dir: "/src", ThreadID: string(id), Key: hub.KeyID(string(agent) + "/run-" + string(id)),
		State: hub.RunStarting, Contradictions: []hub.Contradiction{}, StartedAt: id.Time(), ExpiresAt: id.Time().Add(time.Hour),
	}
}

// begin stores a run that begins.
func (w *world) begin(agent, by hub.AgentID) hub.Run {
	w.Helper()
	r := w.newRun(agent, by)
	w.update(func(tx hub.Tx) error { return tx.PutRun(r, "") })
	return r
}

// people adds agents.
func (w *world) people(ids ...hub.AgentID) {
	w.Helper()
	for _, id := range ids {
		w.update(func(tx hub.Tx) error {
			return tx.PutAgent(hub.Agent{ID: id, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}, "")
		})
	}
}

func runIDs(all []hub.Run) []hub.RunID {
	ids := []hub.RunID{}
	for _, r := range all {
		ids = append(ids, r.ID)
	}
	return ids
}

var runTests = []storeTest{
	{"a run is found as it was added", func(w *world) {
		w.people("ada", "bob")
		r := w.newRun("ada", "bob")
		r.Handoff = w.hand("T", "bob", "ada").ID
		w.update(func(tx hub.Tx) error { return tx.PutRun(r, "") })
		w.store = w.reopen()
		w.view(func(rd hub.Reader) error {
			got, err := rd.Run(r.ID)
			w.equal("run", got, r)
			return err
		})
		w.miss(hub.CodeNotFound, func(rd hub.Reader) error { _, err := rd.Run(hub.RunID(w.ids.Next())); return err })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutRun(r, "") })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.PutRun(w.newRun("nobody", "bob"), "") })
	}},
	{"a run moves along its arrows and not when somebody was faster", func(w *world) {
		w.people("ada")
		r := w.begin("ada", "ada")
		for _, next := range []hub.RunState{hub.RunRunning, hub.RunChecking, hub.RunDone} {
			moved, err := r.Advance(next, epoch.Add(time.Minute))
			if err != nil {
				w.Fatal(err)
			}
			moved.Session = "s"
			if next == hub.RunDone {
				moved = moved.Judged(hub.RunContradicted, hub.Self)
				moved.StopReason, moved.Message = "end_turn", w.ids.Next()
				moved.Report, moved.Evidence = json.RawMessage(`{"status":"ok"}`), json.RawMessage(`{"diff":{"files":1}}`)
				moved.Contradictions = []hub.Contradiction{{Kind: "k", Claim: "c", Found: "f"}}
			}
			w.update(func(tx hub.Tx) error { return tx.PutRun(moved, r.State) })
			w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutRun(moved, r.State) })
			r = moved
		}
		w.view(func(rd hub.Reader) error {
			got, err := rd.Run(r.ID)
			w.equal("run", got, r)
			w.equal("digest", got.Digest(), r.Digest())
			return err
		})
		claimed := w.begin("ada", "ada")
		over, err := claimed.Advance(hub.RunFailed, epoch.Add(time.Minute))
		if err != nil {
			w.Fatal(err)
		}
		over = over.Judged(hub.RunConfirmed, "ada")
		w.update(func(tx hub.Tx) error { return tx.PutRun(over, hub.RunStarting) })
		w.view(func(rd hub.Reader) error {
			got, err := rd.Run(over.ID)
			w.equal("claimed run", got, over)
			w.equal("claimed verdict", got.VerdictText(), "claimed (says ada, not checked)")
			return err
		})
		old := w.begin("ada", "ada")
		if over, err = old.Advance(hub.RunFailed, epoch.Add(time.Minute)); err != nil {
			w.Fatal(err)
		}
		over.Verdict = hub.RunConfirmed // earlier versions recorded no author
		w.update(func(tx hub.Tx) error { return tx.PutRun(over, hub.RunStarting) })
		w.view(func(rd hub.Reader) error {
			got, err := rd.Run(over.ID)
			w.equal("old verdict", got.VerdictText(), "confirmed (by the rules of then)")
			w.equal("old digest", got.Digest(), over.Digest())
			return err
		})
		other := w.begin("ada", "ada")
		other.State = hub.RunDone // there is no such arrow
		w.refuse(hub.CodeInvalid, func(tx hub.Tx) error { return tx.PutRun(other, hub.RunStarting) })
	}},
	{"runs are listed newest first, by who is asked for", func(w *world) {
		w.people("ada", "bob", "eve")
		a := w.begin("ada", "ada")
		b := w.begin("ada", "bob")
		c := w.begin("bob", "bob")
		over, err := b.Advance(hub.RunFailed, epoch)
		if err != nil {
			w.Fatal(err)
		}
		w.update(func(tx hub.Tx) error { return tx.PutRun(over, hub.RunStarting) })
		h := w.hand("T", "ada", "eve")
		d := w.newRun("eve", "eve")
		d.Handoff = h.ID
		w.update(func(tx hub.Tx) error { return tx.PutRun(d, "") })
		for _, test := range []struct {
			name string
			q    hub.RunQuery
			want []hub.RunID
		}{
			{"all", hub.RunQuery{Limit: 9}, []hub.RunID{d.ID, c.ID, b.ID, a.ID}},
			{"a page", hub.RunQuery{Limit: 2, Cursor: d.ID}, []hub.RunID{c.ID, b.ID}},
			{"those that bob sees", hub.RunQuery{Limit: 9, Viewer: "bob"}, []hub.RunID{c.ID, b.ID}},
			{"those of ada", hub.RunQuery{Limit: 9, Agent: "ada"}, []hub.RunID{b.ID, a.ID}},
			{"those of ada that bob sees", hub.RunQuery{Limit: 9, Agent: "ada", Viewer: "bob"}, []hub.RunID{b.ID}},
			{"those that bob began", hub.RunQuery{Limit: 9, By: "bob"}, []hub.RunID{c.ID, b.ID}},
			{"those that are not over", hub.RunQuery{Limit: 9, Open: true}, []hub.RunID{d.ID, c.ID, a.ID}},
			{"those of a handoff", hub.RunQuery{Limit: 9, Handoff: h.ID}, []hub.RunID{d.ID}},
			{"those of a handoff that bob sees", hub.RunQuery{Limit: 9, Handoff: h.ID, Viewer: "bob"}, []hub.RunID{}},
		} {
			w.view(func(rd hub.Reader) error {
				got, err := rd.Runs(test.q)
				w.equal(test.name, runIDs(got), test.want)
				return err
			})
		}
	}},
}
