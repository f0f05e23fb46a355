package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// stepFacts are the facts of an entry about a handoff's move that are compared.
type stepFacts struct {
	TaskID string           `json:"task_id"`
	From   hub.AgentID      `json:"from"`
	To     hub.AgentID      `json:"to"`
	Hash   string           `json:"package_hash"`
	Step   string           `json:"step_sha256"`
	Digest string           `json:"sha256"` // of the handoff; only the first step may have it
	Reason hub.RejectReason `json:"reject_reason"`
	Ending hub.Ending       `json:"ending"`
}

// stateOf returns the state that an action moves a handoff to, or "".
func stateOf(a actions.Action) hub.HandoffState {
	name, ok := strings.CutPrefix(string(a), "handoff.")
	if s := hub.HandoffState(name); ok && s.Known() {
		return s
	}
	return ""
}

// checkHandoffs compares every handoff with its history and both with the
// journal.
func (v *verifier) checkHandoffs(ctx context.Context) error {
	q := hub.HandoffQuery{Limit: pageSize, Cursor: v.HandoffCursor}
	return v.pages(ctx, "handoffs", func(r hub.Reader) (bool, error) {
		handoffs, err := r.Handoffs(q)
		for _, h := range handoffs {
			if err == nil {
				v.Out.Handoffs++
				err = v.checkHandoff(r, h)
				q.Cursor, v.HandoffCursor = h.ID, h.ID
			}
		}
		return len(handoffs) == pageSize, err
	})
}

func (v *verifier) checkHandoff(r hub.Reader, h hub.Handoff) error {
	where := "handoff " + string(h.ID)
	v.checkPackage(where, h)
	if err := v.checkProgress(r, h.ID); err != nil {
		return err
	}
	steps, err := r.HandoffSteps(h.ID)
	if err != nil {
		return v.unreadable(where, err)
	}
	v.checkHistory(where, h, steps)

	entries, err := v.about(r, string(h.ID))
	if err != nil {
		return err
	}

	// The newest entry of an action has the value that the handoff must have.
	var moves []hub.Entry
	var approved, escalated hub.Time
	settled := hub.OwnershipHub
	for _, e := range entries {
		switch e.Action {
		case actions.HandoffApproved:
			approved = e.At
		case actions.HandoffEscalated:
			escalated = e.At
		case actions.HandoffOwned:
			var f struct {
				Ownership hub.Ownership `json:"ownership"`
			}
			if !v.decodeFacts(e, &f) {
				return nil
			}
			settled = cmp.Or(f.Ownership, hub.OwnershipConfirmed) // earlier versions wrote no word
		}
		if stateOf(e.Action) != "" {
			moves = append(moves, e)
		}
	}

	if len(moves) < len(steps) && !v.Complete {
		return nil // an archive that was not read holds the others
	}
	if len(moves) == 0 {
		v.find(where, notRecorded)
		return nil
	}

	for _, name := range differing(
		field{"approval", approved.IsZero() == h.ApprovedAt.IsZero()},
		field{"time of approval", approved.IsZero() != h.ApprovedAt.IsZero() || approved.Equal(h.ApprovedAt.Time)},
		field{"time of the notice that it is late", escalated.Equal(h.Escalated.Time)},
		field{"ownership", settled == h.Ownership || (settled == hub.OwnershipHub && h.Ownership != hub.OwnershipConfirmed)},
	) {
		v.find(where, "its %s differs from the journal", name)
	}

	reopened := lastReturn(steps)
	for i := range max(len(moves), len(steps)) {
		switch {
		case i >= len(moves):
			v.find(where, "no journal row records step %d (%s) of its history", steps[i].N, steps[i].State)
		case i >= len(steps):
			v.find(where, "its history has no step %d (%s), though journal row %d records it", i+1, stateOf(moves[i].Action), moves[i].Seq)
		default:
			v.checkStep(where, h, steps[i], moves[i], i >= reopened)
		}
	}
	return nil
}

// checkPackage compares a package with its hash.
func (v *verifier) checkPackage(where string, h hub.Handoff) {
	if withheldPackage(h) {
		v.Withheld++
		return
	}
	hash, err := shape.PackageHash(h.Package)
	switch {
	case err != nil:
		v.find(where, "its package cannot be read: %v", err)
	case !shape.SameHash(hash, h.Hash):
		v.find(where, "its package was changed: the hash is %.12s, but %.12s was recorded", hash, strings.TrimPrefix(h.Hash, "sha256:"))
	}
}

// checkHistory compares a handoff with its own history: the steps must be moves
// of the state machine, and the members of the handoff follow from them.
func (v *verifier) checkHistory(where string, h hub.Handoff, steps []hub.HandoffStep) {
	if len(steps) == 0 {
		v.find(where, "it has no history")
		return
	}
	v.checkMoves(where, steps)
	if last := steps[len(steps)-1]; h.Status != last.State {
		v.find(where, "its status is %s, but its history says %s", h.Status, last.State)
	}

	is := outcomeOf(steps)
	over := !is.resolved.IsZero()
	withheld := withheldPackage(h)
	sameOwnership := h.Ownership == is.owned || (is.owned.NeedsOperator() && h.Ownership != hub.OwnershipHub)
	for _, name := range differing(
		field{"time of acceptance", is.accepted.Equal(h.AcceptedAt.Time)},
		field{"time of completion or rejection", is.resolved.Equal(h.ResolvedAt.Time)},
		field{"closing note", is.notes == h.Notes || withheld},
		field{"ending", over || h.Ending == ""},
		field{"reason for rejection", over || h.RejectReason == ""},
		field{"ownership", sameOwnership || withheld},
	) {
		v.find(where, "its %s does not follow from its history", name)
	}
}

// checkMoves compares the steps of a handoff with the state machine.
func (v *verifier) checkMoves(where string, steps []hub.HandoffStep) {
	for i, s := range steps {
		if s.N != i+1 {
			v.find(where, "its history has no step %d", i+1)
			return
		}
		if i > 0 && !steps[i-1].State.CanBecome(s.State) {
			v.find(where, "step %d of its history leads from %s to %s, which is not a valid move", s.N, steps[i-1].State, s.State)
		}
	}
}

// An outcome has the members of a handoff that follow from its history.
type outcome struct {
	accepted hub.Time
	resolved hub.Time // zero while the handoff is open
	notes    string
	owned    hub.Ownership
}

// outcomeOf reads the outcome of a handoff from its steps.
func outcomeOf(steps []hub.HandoffStep) outcome {
	is := outcome{owned: hub.OwnershipHub}
	for i, s := range steps {
		switch s.State {
		case hub.HandoffAccepted:
			is.accepted = s.At
		case hub.HandoffActivated:
			if i == 0 || steps[i-1].State != hub.HandoffClosed {
				is.owned = ownershipOf(s)
				continue
			}
			is.resolved = hub.Time{} // its work was returned
			is.notes = ""
		case hub.HandoffRejected, hub.HandoffCompleted:
			is.resolved = s.At
			is.notes = s.Note
		}
	}
	return is
}

// ownershipOf returns the ownership of a task in its queue after the step that activated
// its handoff. A step of an earlier version says it at the end of its note alone: the note
// is part of the digest in the journal, so that it is as good a witness as the member.
func ownershipOf(s hub.HandoffStep) hub.Ownership {
	if n := len(s.Checks); n > 0 && s.Checks[n-1].Ownership != "" {
		return s.Checks[n-1].Ownership
	}
	for _, o := range []hub.Ownership{hub.OwnershipTransferred, hub.OwnershipDegraded, hub.OwnershipManual} {
		if strings.HasSuffix(s.Note, ": "+string(o)) {
			return o
		}
	}
	return hub.OwnershipHub
}

// lastReturn returns the index of the last step by which a closed handoff became active again; 0
// if there is none.
func lastReturn(steps []hub.HandoffStep) int {
	for i := len(steps) - 1; i > 0; i-- {
		if steps[i].State == hub.HandoffActivated && steps[i-1].State == hub.HandoffClosed {
			return i
		}
	}
	return 0
}

// checkStep compares a step with the entry that records it, and the handoff with
// the facts of that entry. The ending of a step before the work was returned is not that of the
// handoff: then ends is false.
func (v *verifier) checkStep(where string, h hub.Handoff, s hub.HandoffStep, e hub.Entry, ends bool) {
	var f stepFacts
	if !v.decodeFacts(e, &f) {
		return
	}
	switch {
	case s.State != stateOf(e.Action):
		v.find(where, "step %d of its history is %s, but journal row %d recorded %s", s.N, s.State, e.Seq, stateOf(e.Action))
	case s.Actor != e.Actor || !s.At.Equal(e.At.Time) || (f.Step != "" && s.Digest() != f.Step && !withheldPackage(h)):
		v.find(where, "step %d (%s) of its history differs from journal row %d", s.N, s.State, e.Seq)
	}
	differ := differing(
		field{"task", h.TaskID == f.TaskID},
		field{"sender", h.From == f.From},
		field{"receiver", h.To == f.To},
		field{"package hash", shape.SameHash(h.Hash, f.Hash)},
		field{"reason for rejection", f.Reason == "" || h.RejectReason == f.Reason},
		field{"ending", f.Ending == "" || h.Ending == f.Ending || !ends},
	)
	onlyContentDiffers := len(differ) == 0 && f.Digest != "" && h.Digest() != f.Digest && !withheldPackage(h)
	if onlyContentDiffers {
		differ = append(differ, "content (title, reason, deadline, thread or a policy)")
	}
	if len(differ) > 0 {
		v.find(where, "its %s differs from journal row %d", strings.Join(differ, ", "), e.Seq)
	}
}

// withheldPackage reports whether a package is the mark that an export puts in
// place of a restricted one.
func withheldPackage(h hub.Handoff) bool {
	var mark struct {
		Restricted bool   `json:"restricted"`
		Hash       string `json:"package_hash"`
	}
	dec := json.NewDecoder(bytes.NewReader(h.Package))
	dec.DisallowUnknownFields()
	return h.Restricted && dec.Decode(&mark) == nil && mark.Restricted && shape.SameHash(mark.Hash, h.Hash)
}
