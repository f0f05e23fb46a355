package records

import (
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A recordedContinuation has the members of a continuation that the journal records.
type recordedContinuation struct {
	Handoff hub.HandoffID          `json:"handoff"`
	Task    string                 `json:"task"`
	Of      hub.AgentID            `json:"of"`
	To      hub.AgentID            `json:"to"`
	Next    hub.HandoffID          `json:"next"`
	Reason  hub.ContinuationReason `json:"reason"`
	State   hub.ContinuationState  `json:"state"`
	Rescue  hub.RescueID           `json:"rescue"`
}

// A recordedRescue has the members of a rescue that the journal records.
type recordedRescue struct {
	Agent      hub.AgentID   `json:"agent"`
	Handoff    hub.HandoffID `json:"handoff"`
	Commit     string        `json:"commit"`
	Files      int           `json:"files"`
	Insertions int           `json:"insertions"`
	Deletions  int           `json:"deletions"`
}

// recordContinuation applies an entry about a task that goes on, or about work that is kept.
func (v *verifier) recordContinuation(e hub.Entry) {
	if v.Continuations == nil || v.Rescues == nil { // a verification that an earlier version paused
		v.Continuations = register[recordedContinuation]{}
		v.Rescues = register[recordedRescue]{}
	}
	switch e.Action {
	case actions.ContinuationMade, actions.ContinuationTaken:
		var want recordedContinuation
		if v.decodeFacts(e, &want) {
			v.Continuations.put(e.Subject, want, e)
		}
	case actions.RescueMade:
		var want recordedRescue
		if v.decodeFacts(e, &want) {
			v.Rescues.put(e.Subject, want, e)
		}
	case actions.RescueDropped:
		delete(v.Rescues, e.Subject)
	}
}

// continuationPage is the number of continuations that are read at once.
const continuationPage = 500

// maxRescues is the number of rescues that are compared: more than a hub keeps in 14 days.
const maxRescues = 100_000

// checkContinuations compares the continuations and the rescues with the journal.
func (v *verifier) checkContinuations(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "continuations and rescues: their records in archives were not read")
		return nil
	}
	q := hub.ContinuationQuery{Limit: continuationPage}
	for {
		page, err := r.Continuations().Continuations(q)
		if err != nil {
			return err
		}
		for _, c := range page {
			if err := v.checkContinuation(r, c); err != nil {
				return err
			}
			q.Cursor = c.ID
		}
		if len(page) < continuationPage {
			break
		}
	}
	v.Continuations.missing(v, "continuation")

	rescues, err := r.Continuations().Rescues(maxRescues)
	if err != nil {
		return err
	}
	for _, stored := range rescues {
		v.Rescues.check(v, "rescue", string(stored.ID), func(want recordedRescue, row int64) string {
			got := recordedRescue{stored.Agent, stored.Handoff, stored.Commit, stored.Files, stored.Insertions, stored.Deletions}
			return unless(got == want, differsFrom, row)
		})
	}
	v.Rescues.missing(v, "rescue")
	return nil
}

// checkContinuation compares one continuation with its newest record. The refusal of a task is
// recorded by its handoff alone.
func (v *verifier) checkContinuation(r hub.Reader, c hub.Continuation) error {
	v.Out.Continuations++
	got := recordedContinuation{Handoff: c.Handoff, Task: c.Task, Of: c.Of, To: c.To, Next: c.Next, Reason: c.Reason, State: c.State}
	if c.Rescue != nil {
		got.Rescue = c.Rescue.ID
	}
	if c.State == hub.ContinuationRefused {
		next, err := r.Handoff(c.Next)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		if err == nil && next.Status.Ended() {
			got.State = hub.ContinuationOffered
		}
	}
	v.Continuations.check(v, "continuation", string(c.ID), func(want recordedContinuation, row int64) string {
		return unless(got == want, differsFrom, row)
	})
	return nil
}
