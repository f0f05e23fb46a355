package records

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// stepFacts is what the journal keeps of a handoff's move, as far as it is
// compared.
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
func stateOf(a hub.Action) hub.HandoffState {
	s := hub.HandoffState(strings.TrimPrefix(string(a), "handoff."))
	if string(s) == string(a) || !s.Known() {
		return ""
	}
	return s
}

// exists reports a thing that an entry records and the store has lost. err is what
// reading it gave.
func (v *verifier) exists(what string, e hub.Entry, err error) error {
	switch hub.CodeOf(err) {
	case "":
	case hub.CodeNotFound:
		v.find(what+" "+e.Subject, "it is missing, though journal row %d records it", e.Seq)
	case hub.CodeDegraded:
		v.find(what+" "+e.Subject, "it cannot be read: %v", err)
	default:
		return err
	}
	return nil
}

// pageSize is how many things are looked at in one snapshot.
const pageSize = 50

// checkHandoffs compares every handoff with its history and both with the
// journal.
func (v *verifier) checkHandoffs(ctx context.Context) error {
	q := hub.HandoffQuery{Limit: pageSize}
	return v.pages(ctx, "handoffs", func(r hub.Reader) (int, error) {
		handoffs, err := r.Handoffs(q)
		for _, h := range handoffs {
			if err == nil {
				v.out.Handoffs++
				err = v.checkHandoff(r, h)
				q.Cursor = h.ID
			}
		}
		return len(handoffs), err
	})
}

// pages calls check for one page after the other, each in a snapshot of its own,
// until one is not full. What cannot be read is a finding.
func (v *verifier) pages(ctx context.Context, what string, check func(hub.Reader) (found int, err error)) error {
	for more := true; more; {
		err := v.store.View(ctx, func(r hub.Reader) error {
			if err := v.refresh(r); err != nil {
				return err
			}
			found, err := check(r)
			more = found == pageSize
			if hub.CodeOf(err) == hub.CodeDegraded {
				v.find(what, "they cannot be read on: %v", err)
				more = false
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) checkHandoff(r hub.Reader, h hub.Handoff) error {
	where := "handoff " + string(h.ID)
	v.checkPackage(where, h)
	steps, err := r.HandoffSteps(h.ID)
	if hub.CodeOf(err) == hub.CodeDegraded {
		v.find(where, "its history cannot be read: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	v.checkHistory(where, h, steps)
	entries, err := v.about(r, string(h.ID))
	if err != nil {
		return err
	}
	var moves []hub.Entry
	var approved, escalated hub.Time
	owned := false
	for _, e := range entries {
		switch e.Action {
		case hub.ActionHandoffApproved:
			approved = e.At
		case hub.ActionHandoffEscalated:
			escalated = e.At
		case hub.ActionHandoffOwned:
			owned = true
		}
		if stateOf(e.Action) != "" {
			moves = append(moves, e)
		}
	}
	if len(moves) < len(steps) && !v.complete {
		return nil // the rest lies in an archive that was not read
	}
	if len(moves) == 0 {
		v.find(where, "no journal row records it")
		return nil
	}
	switch {
	case approved.IsZero() != h.ApprovedAt.IsZero():
		v.find(where, "whether the operator approved it is not as in the journal")
	case !approved.Equal(h.ApprovedAt.Time):
		v.find(where, "the time of its approval is not the one in the journal")
	}
	if !escalated.Equal(h.Escalated.Time) {
		v.find(where, "when the coordinators were told that it is late is not as in the journal")
	}
	if owned != (h.Ownership == hub.OwnershipConfirmed) {
		v.find(where, "whether its ownership was confirmed is not as in the journal")
	}
	for i := range max(len(moves), len(steps)) {
		switch {
		case i >= len(moves):
			v.find(where, "no journal row records step %d (%s) of its history", steps[i].N, steps[i].State)
		case i >= len(steps):
			v.find(where, "its history has no step %d (%s), though journal row %d records it", i+1, stateOf(moves[i].Action), moves[i].Seq)
		default:
			v.checkStep(where, h, steps[i], moves[i])
		}
	}
	return nil
}

// checkPackage compares a package with its hash.
func (v *verifier) checkPackage(where string, h hub.Handoff) {
	if withheldPackage(h) {
		v.withheld++
		return
	}
	hash, err := hub.PackageHash(h.Package)
	switch {
	case err != nil:
		v.find(where, "its package cannot be read: %v", err)
	case !hub.SameHash(hash, h.Hash):
		v.find(where, "its package was changed: the hash is %.12s, recorded was %.12s", hash, strings.TrimPrefix(h.Hash, "sha256:"))
	}
}

// checkHistory compares a handoff with its own history.
func (v *verifier) checkHistory(where string, h hub.Handoff, steps []hub.HandoffStep) {
	if len(steps) == 0 {
		v.find(where, "it has no history")
		return
	}
	for i, s := range steps {
		if s.N != i+1 {
			v.find(where, "its history has no step %d", i+1)
			break
		}
		if i > 0 && !steps[i-1].State.CanBecome(s.State) {
			v.find(where, "step %d of its history leads from %s to %s, which is no move", s.N, steps[i-1].State, s.State)
		}
	}
	if last := steps[len(steps)-1]; h.Status != last.State {
		v.find(where, "its status is %s, by its history it is %s", h.Status, last.State)
	}
	v.checkEnd(where, h, steps)
}

// checkEnd compares what a handoff says about itself with the steps that made
// it so.
func (v *verifier) checkEnd(where string, h hub.Handoff, steps []hub.HandoffStep) {
	var accepted, resolved hub.Time
	notes, manual := "", false
	for _, s := range steps {
		switch s.State {
		case hub.HandoffAccepted:
			accepted = s.At
		case hub.HandoffActivated:
			manual = strings.Contains(s.Note, string(hub.OwnershipManual))
		case hub.HandoffRejected, hub.HandoffCompleted:
			resolved, notes = s.At, s.Note
		}
	}
	over := !resolved.IsZero()
	for _, c := range []struct {
		name string
		same bool
	}{
		{"time of acceptance", accepted.Equal(h.AcceptedAt.Time)},
		{"time of completion or rejection", resolved.Equal(h.ResolvedAt.Time)},
		{"closing note", notes == h.Notes || withheldPackage(h)},
		{"ending", over || h.Ending == ""},
		{"reason for rejection", over || h.RejectReason == ""},
		{"ownership", (h.Ownership != hub.OwnershipHub) == manual || withheldPackage(h)},
	} {
		if !c.same {
			v.find(where, "its %s does not follow from its history", c.name)
		}
	}
}

// checkStep compares a step with the entry that records it, and the handoff with
// what that entry says about it.
func (v *verifier) checkStep(where string, h hub.Handoff, s hub.HandoffStep, e hub.Entry) {
	var f stepFacts
	if err := json.Unmarshal(e.Facts, &f); err != nil {
		v.find(row(e.Seq), "its facts cannot be read: %v", err)
		return
	}
	switch {
	case s.State != stateOf(e.Action):
		v.find(where, "step %d of its history is %s, journal row %d recorded %s", s.N, s.State, e.Seq, stateOf(e.Action))
	case s.Actor != e.Actor || !s.At.Equal(e.At.Time) || f.Step != "" && s.Digest() != f.Step && !withheldPackage(h):
		v.find(where, "step %d (%s) of its history differs from what journal row %d recorded", s.N, s.State, e.Seq)
	}
	var differ []string
	for _, c := range []struct {
		name string
		same bool
	}{
		{"task", h.TaskID == f.TaskID},
		{"sender", h.From == f.From},
		{"receiver", h.To == f.To},
		{"package hash", hub.SameHash(h.Hash, f.Hash)},
		{"reason for rejection", f.Reason == "" || h.RejectReason == f.Reason},
		{"ending", f.Ending == "" || h.Ending == f.Ending},
	} {
		if !c.same {
			differ = append(differ, c.name)
		}
	}
	if len(differ) == 0 && f.Digest != "" && h.Digest() != f.Digest && !withheldPackage(h) {
		differ = append(differ, "content (title, reason, deadline, thread or a policy)")
	}
	if len(differ) > 0 {
		v.find(where, "its %s differs from what journal row %d recorded", strings.Join(differ, ", "), e.Seq)
	}
}

// withheldPackage reports whether a package is what an export puts in place of
// a restricted one.
func withheldPackage(h hub.Handoff) bool {
	var mark struct {
		Restricted bool   `json:"restricted"`
		Hash       string `json:"package_hash"`
	}
	dec := json.NewDecoder(bytes.NewReader(h.Package))
	dec.DisallowUnknownFields()
	return h.Restricted && dec.Decode(&mark) == nil && mark.Restricted && hub.SameHash(mark.Hash, h.Hash)
}
