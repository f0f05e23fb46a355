package hubtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// handoff returns a proposed handoff that is ready to be stored.
func (w *world) handoff(task string, from, to hub.AgentID) hub.Handoff {
	id := hub.HandoffID(w.ids.Next())
	return hub.Handoff{
		ID: id, ThreadID: string(id), TaskID: task, From: from, To: to, Title: "Title of " + task, Reason: "requested",
		Package: json.RawMessage(`{"provenance":{"origin_session":"s"},"task":{"x":1},"verification":{"package_hash":"abc"}}`), Hash: "abc",
		Status: hub.HandoffProposed, InitiatedAt: hub.EnvelopeID(id).Time(),
	}
}

// step returns the step that leads to where h is.
func step(h hub.Handoff, at hub.Time) *hub.HandoffStep {
	return &hub.HandoffStep{State: h.Status, At: at, Actor: h.From}
}

// hand stores a proposed handoff.
func (w *world) hand(task string, from, to hub.AgentID) hub.Handoff {
	w.Helper()
	h := w.handoff(task, from, to)
	w.update(func(tx hub.Tx) error { return tx.PutHandoff(h, "", step(h, h.InitiatedAt)) })
	return h
}

// walk moves a handoff through states.
func (w *world) walk(h hub.Handoff, at hub.Time, states ...hub.HandoffState) hub.Handoff {
	w.Helper()
	for _, next := range states {
		moved, err := h.Advance(next, at)
		if err != nil {
			w.Fatal(err)
		}
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(moved, h.Status, step(moved, at)) })
		h = moved
	}
	return h
}

func handoffIDs(all []hub.Handoff) []hub.HandoffID {
	ids := []hub.HandoffID{}
	for _, h := range all {
		ids = append(ids, h.ID)
	}
	return ids
}

var handoffTests = []storeTest{
	{"a handoff is found as it was added", func(w *world) {
		h := w.handoff("T", "ada", "bob")
		h.Previous = "0199f000-0000-7000-8000-000000000001"
		h.Restricted = true
		h.NeedsHuman = true
		h.Deadline = epoch.Add(time.Hour)
		first := hub.HandoffStep{N: 1, State: h.Status, At: epoch, Actor: "ada", Note: "note", Checks: []hub.Check{{What: "w", Result: hub.CheckFailed, Detail: "d", Reason: hub.RejectOther}}}
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(h, "", &first) })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Handoff(h.ID)
			w.equal("handoff", got, h)
			active, err2 := r.Handoffs(hub.HandoffQuery{Task: "T", States: hub.ActiveHandoffs, Limit: 9})
			w.equal("active", active, []hub.Handoff{h})
			steps, err3 := r.HandoffSteps(h.ID)
			w.equal("steps", steps, []hub.HandoffStep{first})
			return errors.Join(err, err2, err3)
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Handoff(hub.HandoffID(w.ids.Next())); return err })
	}},
	{"an id is taken once", func(w *world) {
		h := w.hand("T", "ada", "bob")
		h.TaskID = "U"
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutHandoff(h, "", step(h, epoch)) })
	}},
	{"R3-056 one active handoff claims a task", func(w *world) {
		first := w.hand("T", "ada", "bob")
		second := w.handoff("T", "cleo", "bob")
		w.refuse(hub.CodeOwnership, func(tx hub.Tx) error { return tx.PutHandoff(second, "", step(second, epoch)) })
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Handoff(second.ID); return err })
		w.walk(first, epoch, hub.HandoffValidating, hub.HandoffRejected)
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(second, "", step(second, epoch)) })
	}},
	{"R3-056 a draft claims its task when it is proposed, not before", func(w *world) {
		a, b := w.handoff("T", "ada", "bob"), w.handoff("T", "cleo", "bob")
		a.Status, b.Status = hub.HandoffDraft, hub.HandoffDraft
		w.update(func(tx hub.Tx) error {
			return errors.Join(tx.PutHandoff(a, "", step(a, epoch)), tx.PutHandoff(b, "", step(b, epoch)))
		})
		w.walk(a, epoch, hub.HandoffProposed)
		moved, err := b.Advance(hub.HandoffProposed, epoch)
		if err != nil {
			w.Fatal(err)
		}
		w.refuse(hub.CodeOwnership, func(tx hub.Tx) error { return tx.PutHandoff(moved, hub.HandoffDraft, step(moved, epoch)) })
	}},
	{"R3-056 of many who claim a task at once one gets it", func(w *world) {
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		for i := range 50 {
			h := w.handoff("T", hub.AgentID(fmt.Sprintf("agent-%d", i)), "bob")
			wg.Go(func() {
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutHandoff(h, "", step(h, epoch)) })
				switch hub.CodeOf(err) {
				case "":
					won.Add(1)
				case hub.CodeOwnership:
					lost.Add(1)
				default:
					w.Error(err)
				}
			})
		}
		wg.Wait()
		w.equal("won and lost", []int32{won.Load(), lost.Load()}, []int32{1, 49})
	}},
	{"a move is made from the state that was read, and never twice", func(w *world) {
		h := w.hand("T", "ada", "bob")
		moved, err := h.Advance(hub.HandoffValidating, epoch)
		if err != nil {
			w.Fatal(err)
		}
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(moved, h.Status, step(moved, epoch)) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutHandoff(moved, h.Status, step(moved, epoch)) })
		w.view(func(r hub.Reader) error {
			steps, err := r.HandoffSteps(h.ID)
			w.equal("steps", len(steps), 2)
			return err
		})
	}},
	{"R3-053 the store makes no move that the state machine has not", func(w *world) {
		for _, from := range hub.HandoffStates {
			for _, to := range hub.HandoffStates {
				h := w.handoff(string(from)+string(to), "ada", "bob")
				h.Status = from
				w.update(func(tx hub.Tx) error { return tx.PutHandoff(h, "", step(h, epoch)) })
				moved := h
				moved.Status = to
				err := w.store.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutHandoff(moved, from, step(moved, epoch)) })
				if ok := err == nil; ok != (from.CanBecome(to) || from == to) {
					w.Errorf("%s to %s: got %v, the state machine says %v", from, to, err, from.CanBecome(to))
				}
			}
		}
	}},
	{"what was handed over does not change with a move", func(w *world) {
		h := w.hand("T", "ada", "bob")
		moved, err := h.Advance(hub.HandoffValidating, epoch)
		if err != nil {
			w.Fatal(err)
		}
		changed := moved
		changed.To = "eve"
		changed.Title = "x"
		changed.Package = json.RawMessage(`{}`)
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(changed, h.Status, step(moved, epoch)) })
		w.view(func(r hub.Reader) error {
			got, err := r.Handoff(h.ID)
			w.equal("handoff", got, moved)
			return err
		})
	}},
	{"what may change without a move is noted", func(w *world) {
		h := w.hand("T", "ada", "bob")
		h.ApprovedAt = epoch
		h.Ownership = hub.OwnershipManual
		h.Escalated = epoch.Add(time.Second)
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(h, h.Status, nil) })
		w.view(func(r hub.Reader) error {
			got, err := r.Handoff(h.ID)
			w.equal("handoff", got, h)
			return err
		})
		h.ID = hub.HandoffID(w.ids.Next())
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.PutHandoff(h, h.Status, nil) })
	}},
	{"handoffs are listed newest first, by whatever is asked", func(w *world) {
		a := w.hand("A", "ada", "bob")
		b := w.hand("B", "bob", "cleo")
		c := w.hand("C", "ada", "cleo")
		b = w.walk(b, epoch, hub.HandoffValidating)
		for _, tt := range []struct {
			name string
			q    hub.HandoffQuery
			want []hub.HandoffID
		}{
			{"all", hub.HandoffQuery{}, []hub.HandoffID{c.ID, b.ID, a.ID}},
			{"of a viewer", hub.HandoffQuery{Viewer: "bob"}, []hub.HandoffID{b.ID, a.ID}},
			{"of an agent", hub.HandoffQuery{Agent: "cleo"}, []hub.HandoffID{c.ID, b.ID}},
			{"of an agent that a viewer sees", hub.HandoffQuery{Viewer: "bob", Agent: "cleo"}, []hub.HandoffID{b.ID}},
			{"from", hub.HandoffQuery{From: "ada"}, []hub.HandoffID{c.ID, a.ID}},
			{"to", hub.HandoffQuery{To: "cleo"}, []hub.HandoffID{c.ID, b.ID}},
			{"of a task", hub.HandoffQuery{Task: "B"}, []hub.HandoffID{b.ID}},
			{"in a state", hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffProposed}}, []hub.HandoffID{c.ID, a.ID}},
			{"in one of two states", hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffProposed, hub.HandoffValidating}}, []hub.HandoffID{c.ID, b.ID, a.ID}},
			{"after a cursor", hub.HandoffQuery{Cursor: c.ID}, []hub.HandoffID{b.ID, a.ID}},
			{"of nobody", hub.HandoffQuery{Viewer: "eve"}, []hub.HandoffID{}},
		} {
			tt.q.Limit = 10
			w.view(func(r hub.Reader) error {
				got, err := r.Handoffs(tt.q)
				w.equal(tt.name, handoffIDs(got), tt.want)
				return err
			})
		}
		w.view(func(r hub.Reader) error {
			got, err := r.Handoffs(hub.HandoffQuery{Limit: 2})
			w.equal("a page", handoffIDs(got), []hub.HandoffID{c.ID, b.ID})
			return err
		})
	}},
	{"R3-060 those who owned a task are known", func(w *world) {
		a := w.walk(w.hand("T", "ada", "bob"), epoch, hub.HandoffValidating, hub.HandoffAccepted, hub.HandoffActivated, hub.HandoffCompleted)
		w.walk(w.hand("T", "bob", "eve"), epoch, hub.HandoffValidating, hub.HandoffRejected)
		b := w.walk(w.hand("T", "bob", "cleo"), epoch, hub.HandoffValidating, hub.HandoffAccepted)
		w.view(func(r hub.Reader) error {
			got, err := r.Handoffs(hub.HandoffQuery{Task: "T", Owned: true, Limit: 9})
			w.equal("owned", handoffIDs(got), []hub.HandoffID{b.ID, a.ID})
			return err
		})
	}},
	{"R3-059 what is late is found, unless it was told lately", func(w *world) {
		late := w.walk(w.hand("late", "ada", "bob"), epoch, hub.HandoffValidating, hub.HandoffAccepted, hub.HandoffActivated)
		due := w.handoff("due", "ada", "bob")
		due.Deadline = epoch.Add(time.Hour)
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(due, "", step(due, epoch)) })
		due = w.walk(due, epoch.Add(time.Minute), hub.HandoffValidating, hub.HandoffAccepted)
		w.walk(w.hand("done", "ada", "bob"), epoch, hub.HandoffValidating, hub.HandoffAccepted, hub.HandoffActivated, hub.HandoffCompleted)
		w.hand("proposed", "ada", "bob")
		check := func(name string, accepted, deadline, told hub.Time, want ...hub.HandoffID) {
			w.Helper()
			w.view(func(r hub.Reader) error {
				got, err := r.Handoffs(hub.HandoffQuery{Late: &hub.Lateness{AcceptedBefore: accepted, DeadlineBy: deadline, EscalatedBefore: told}, Limit: 10})
				ids := handoffIDs(got)
				slices.Sort(ids)
				slices.Sort(want)
				w.equal(name, ids, append([]hub.HandoffID{}, want...))
				return err
			})
		}
		check("nothing yet", epoch, epoch, epoch)
		check("accepted long ago", epoch.Add(time.Second), epoch, epoch, late.ID)
		check("past its deadline", epoch, epoch.Add(time.Hour), epoch, due.ID)
		check("both", epoch.Add(time.Second), epoch.Add(time.Hour), epoch, late.ID, due.ID)
		late.Escalated = epoch.Add(time.Hour)
		w.update(func(tx hub.Tx) error { return tx.PutHandoff(late, late.Status, nil) })
		check("told lately", epoch.Add(time.Second), epoch, epoch.Add(time.Hour))
		check("told before", epoch.Add(time.Second), epoch, epoch.Add(2*time.Hour), late.ID)
	}},
	{"R3-118 what archives hold is removed, handoffs and their messages are not", func(w *world) {
		old := w.send("ada", "bob")
		about := w.message("ada", "bob")
		about.Type = hub.TypeHandoffInitiate
		w.add(about)
		h := w.hand("T", "ada", "bob")
		young := w.send("ada", "bob")
		w.update(func(tx hub.Tx) error {
			for range 3 {
				if _, err := tx.Append(hub.Entry{At: epoch, Actor: "ada", Action: actions.HubStarted, Outcome: hub.OutcomeOK}); err != nil {
					return err
				}
			}
			n, err := tx.Prune(10)
			w.equal("pruned without an archive", n, 0)
			return err
		})
		w.view(func(r hub.Reader) error {
			got, err := r.MessagesBefore(young.CreatedAt, "", 10)
			w.equal("messages before", idsOf(got), []hub.EnvelopeID{old.ID})
			got, err2 := r.MessagesBefore(young.CreatedAt, old.ID, 10)
			w.equal("messages after that", idsOf(got), []hub.EnvelopeID{})
			return errors.Join(err, err2)
		})
		a := hub.Archive{Seq: 2, Hash: "h", Cutoff: young.CreatedAt, File: "f", SHA256: "s", Entries: 2, Messages: 1, At: epoch}
		w.update(func(tx hub.Tx) error {
			if err := tx.AddArchive(a); err != nil {
				return err
			}
			n, err := tx.Prune(10)
			w.equal("pruned", n, 3)
			return err
		})
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			archives, err := r.Archives()
			w.equal("archives", archives, []hub.Archive{a})
			entries, err2 := r.Journal(hub.JournalQuery{After: 0, Limit: 10})
			if len(entries) != 1 || entries[0].Seq != 3 {
				w.Errorf("journal: got %v, want entry 3 alone", entries)
			}
			_, err3 := r.Handoff(h.ID)
			_, err4 := r.Message(about.ID)
			_, err5 := r.Message(young.ID)
			return errors.Join(err, err2, err3, err4, err5)
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Message(old.ID); return err })
		w.update(func(tx hub.Tx) error {
			e, err := tx.Append(hub.Entry{At: epoch, Actor: "ada", Action: actions.HubStarted, Outcome: hub.OutcomeOK})
			w.equal("the next entry", e.Seq, int64(4))
			return err
		})
	}},
}
