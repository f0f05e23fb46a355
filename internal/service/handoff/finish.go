package handoff

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// A Completion is what the owner says when the task is done.
type Completion struct {
	Summary   string
	Artifacts []hub.ArtifactRef // what was made; each is looked at
	NoChanges bool              // the owner says himself that nothing was changed
}

// Complete ends a task that the actor owns. What it claims to have made is
// looked at first: a claim that does not hold is refused, and so is "done" in a
// place of work where nothing has changed since the task was taken, unless the
// owner says so himself.
func (s *Service) Complete(ctx context.Context, actor hub.Caller, id hub.HandoffID, c Completion) (Report, error) {
	const op = "handoff.Complete"
	if err := checkText(op, "summary", c.Summary); err != nil {
		return Report{}, err
	}
	if err := checkArtifacts(op, c.Artifacts); err != nil {
		return Report{}, err
	}
	var h hub.Handoff
	var steps []hub.HandoffStep
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if h, err = ownedBy(r, op, actor, id); err != nil {
			return err
		}
		steps, err = r.HandoffSteps(id)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: complete: %w", err)
	}
	checks := s.proveWork(ctx, h, steps, c)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	if bad, ok := failed(checks); ok {
		e := hub.Errorf(hub.CodeUnproven, op, "%s: %s", bad.What, bad.Detail)
		if bad.What == checkWork {
			return Report{}, e.WithHint("do the work, or say that there was nothing to change: no_changes (--no-changes)")
		}
		return Report{}, e.WithHint("name only what is there; the handoff is still %s", h.Status)
	}

	var msg hub.Message
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if h, err = ownedBy(tx, op, actor, id); err != nil {
			return err
		}
		m := mover{tx, actor.ID, s.clock.Now()}
		h.Ending, h.Notes = hub.EndedDone, c.Summary
		if c.NoChanges {
			h.Notes = strings.TrimPrefix(h.Notes+"; nothing was changed", "; ")
		}
		if err := m.move(&h, hub.HandoffCompleted, h.Notes, checks); err != nil {
			return err
		}
		if err := m.move(&h, hub.HandoffClosed, "", nil); err != nil {
			return err
		}
		work := checks[len(checks)-1]
		payload := map[string]any{"handoff_id": h.ID, "work": work.Result} // the sender must not have to ask
		switch {
		case h.Restricted:
			payload["summary"] = onTheHub
		case h.Notes != "":
			payload["summary"] = cut(h.Notes, 1500)
		}
		if len(c.Artifacts) > 0 && !h.Restricted {
			payload["artifacts"] = c.Artifacts
		}
		if len(encode(payload)) > hub.MaxPayload {
			delete(payload, "artifacts")
			payload["detail"] = fmt.Sprintf("%d artifacts: see the history of the handoff", len(c.Artifacts))
		}
		msg, err = s.post(tx, actor, h, hub.TypeHandoffComplete, hub.PriorityNormal, payload, false)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: complete: %w", err)
	}
	s.sender.Announce(msg)
	return s.answer(h, checks), nil
}

// end completes and closes an active handoff whose task is not done, and tells
// the others concerned how it ended.
func (s *Service) end(m mover, actor hub.Caller, h *hub.Handoff) (hub.Message, error) {
	if err := m.move(h, hub.HandoffCompleted, h.Notes, nil); err != nil {
		return hub.Message{}, err
	}
	if err := m.move(h, hub.HandoffClosed, "", nil); err != nil {
		return hub.Message{}, err
	}
	return s.post(m.tx, actor, *h, hub.TypeHandoffComplete, hub.PriorityNormal, map[string]any{
		"handoff_id": h.ID, "summary": cut(h.Notes, 1500), "ending": h.Ending,
	}, false)
}

// maxArtifacts is how many things one completion may name.
const maxArtifacts = 200

// checkArtifacts refuses references that are not what the protocol calls one.
func checkArtifacts(op string, refs []hub.ArtifactRef) error {
	if len(refs) > maxArtifacts {
		return hub.Errorf(hub.CodeTooLarge, op, "artifacts: at most %d", maxArtifacts)
	}
	if len(refs) == 0 {
		return nil
	}
	return shape.CheckPayload(hub.TypeHandoffComplete, encode(map[string]any{"handoff_id": anyID, "artifacts": refs}))
}

// anyID stands for an id where only the rest is checked.
const anyID = "00000000-0000-7000-8000-000000000000"

// ownedBy returns a handoff by which the actor owns its task.
func ownedBy(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID) (hub.Handoff, error) {
	return receivedBy(r, op, actor, id, hub.HandoffActivated, "only a task that was accepted and is under way can be completed")
}

// proveWork looks at what the owner claims to have done.
func (s *Service) proveWork(ctx context.Context, h hub.Handoff, steps []hub.HandoffStep, c Completion) []hub.Check {
	ctx, cancel := context.WithTimeout(ctx, s.inspect)
	defer cancel()
	checks, pkg, ok := provePackage(h)
	if !ok {
		return checks
	}
	checks = append(checks, s.proveArtifacts(ctx, c.Artifacts, pkg.WorkState.Worktree)...)
	before := ""
	for _, check := range lastChecks(steps) {
		if check.What == checkState && check.Result == hub.CheckVerified {
			before = check.Detail
		}
	}
	path := pkg.WorkState.Worktree
	if before == "" || s.inspector == nil {
		return append(checks, withoutState(pkg, c))
	}
	now, ok := s.inspector.State(ctx, path)
	work := hub.Check{What: checkWork, Result: hub.CheckVerified}
	switch {
	case ok && now != before:
		work.Detail = "the worktree " + path + " has changed since the task was accepted"
	case c.NoChanges:
		work.Detail = "nothing has changed in " + path + " since the task was accepted, as the owner says"
	case ok:
		work.Result, work.Detail = hub.CheckFailed, "nothing has changed in "+path+" since the task was accepted"
	default:
		work.Result, work.Detail = hub.CheckFailed, "the worktree "+path+" could be looked at when the task was accepted, and cannot any more"
	}
	return append(checks, work)
}

// withoutState judges work that no worktree can be asked about: files that are
// offered as proof must not all be those that came with the package.
func withoutState(pkg hub.Package, c Completion) hub.Check {
	same := len(c.Artifacts) > 0
	for _, made := range c.Artifacts {
		same = same && made.SHA256 != "" && slices.ContainsFunc(pkg.Artifacts, func(a hub.PackageArtifact) bool {
			return a.Ref.Type == made.Type && a.Ref.Path == made.Path && a.Ref.SHA256 == made.SHA256
		})
	}
	switch {
	case !same:
		return unverifiable(checkWork, "the hub cannot compare a worktree with the time of acceptance")
	case c.NoChanges:
		return hub.Check{What: checkWork, Result: hub.CheckVerified, Detail: "the files are those of the package, as the owner says"}
	}
	return hub.Check{What: checkWork, Result: hub.CheckFailed, Detail: "nothing has changed: every file that is named came like this with the package"}
}

// Activate makes an accepted task its receiver's. Accepting does so by itself,
// so that this is a success that changes nothing; except that the operator
// confirms by it that the item was moved in a queue outside the hub.
func (s *Service) Activate(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.Activate"
	var h hub.Handoff
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if err := active(op, actor); err != nil {
			return err
		}
		if h, err = visible(tx, op, actor, id); err != nil {
			return err
		}
		if h.To != actor.ID && !actor.IsOperator() {
			return hub.Errorf(hub.CodeDenied, op, "handoff %s is for %s, and you are %s", id, h.To, actor.ID)
		}
		m := mover{tx, actor.ID, s.clock.Now()}
		switch {
		case h.Status == hub.HandoffAccepted:
			return m.move(&h, hub.HandoffActivated, "", nil)
		case h.Status != hub.HandoffActivated:
			return outOfState(op, h, "it is not accepted")
		case actor.IsOperator() && h.Ownership == hub.OwnershipManual:
			h.Ownership = hub.OwnershipConfirmed
			if err := tx.NoteHandoff(h); err != nil {
				return err
			}
			return m.entry(hub.ActionHandoffOwned, h, map[string]any{"task_id": h.TaskID, "to": h.To})
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: activate: %w", err)
	}
	s.sender.Announce()
	return s.answer(h, nil), nil
}

// Close puts away a handoff that is over. Completing does so by itself; what
// was rejected is closed by either side. Closing again changes nothing.
func (s *Service) Close(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.Close"
	var h hub.Handoff
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if err := active(op, actor); err != nil {
			return err
		}
		if h, err = visible(tx, op, actor, id); err != nil {
			return err
		}
		if !h.Concerns(actor.ID) && !actor.IsOperator() {
			return hub.Errorf(hub.CodeDenied, op, "handoff %s is between %s and %s", id, h.From, h.To)
		}
		switch h.Status {
		case hub.HandoffClosed:
			return nil
		case hub.HandoffRejected, hub.HandoffCompleted:
			return mover{tx, actor.ID, s.clock.Now()}.move(&h, hub.HandoffClosed, "", nil)
		}
		return outOfState(op, h, "it is not over").WithHint("complete it, or let the operator release it")
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: close: %w", err)
	}
	s.sender.Announce()
	return s.answer(h, nil), nil
}
