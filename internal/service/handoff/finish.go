package handoff

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// A Completion is the claim of the owner that the task is done.
type Completion struct {
	Summary   string
	Artifacts []hub.ArtifactRef // the products; each is checked
	NoChanges bool              // the owner declares that the task needed no change
	Trivial   string            // why a change of whitespace, line ends, modes or empty files is the task

	// SameChange is a completed handoff of the owner whose change did this task, too.
	SameChange hub.HandoffID

	// CommitMessage asks the hub to commit the files that Artifacts names or, if it names
	// none, all that changed. It is for owners that may not write to the repository.
	CommitMessage string
}

// Complete ends a task that the actor owns. The claims are checked first: one that
// does not hold is refused, and so is a completion without any change in the
// worktree since acceptance, unless the owner declares NoChanges.
func (s *Service) Complete(ctx context.Context, actor hub.Caller, id hub.HandoffID, c Completion) (Report, error) {
	const op = "handoff.Complete"
	if err := checkText(op, "summary", c.Summary); err != nil {
		return Report{}, err
	}
	if err := checkArtifacts(op, c.Artifacts); err != nil {
		return Report{}, err
	}
	if err := checkReason(op, "trivial", c.Trivial); c.Trivial != "" && err != nil {
		return Report{}, err
	}
	if err := checkMessage(op, c.CommitMessage); err != nil {
		return Report{}, err
	}
	var h hub.Handoff
	var x setting
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if h, err = ownedBy(r, op, actor, id); err != nil {
			return err
		}
		x, err = readSetting(r, op, h, c.SameChange)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: complete: %w", err)
	}
	checks := s.proveWork(ctx, h, x, c)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	if bad, ok := failed(checks); ok {
		return Report{}, hub.Errorf(hub.CodeUnproven, op, "%s: %s", bad.What, bad.Detail).WithHint("%s", completionHint(h, bad))
	}

	proof := proofOf(hub.Handoff{Ending: hub.EndedDone}, checks)
	if s.requireProof && proof.Proof != hub.ProofVerified {
		hint := "name files that were changed as artifacts, or ask the operator to release the task"
		if proof.Change != nil && proof.Change.Trivial {
			hint = "do the work, or say why such a change is the task: {trivial}"
		}
		return Report{}, hub.Errorf(hub.CodeUnproven, op, "this hub requires proof, and the work is unproven: %s", proof.Reason).WithHint("%s", hint)
	}
	if c.CommitMessage != "" {
		if err := s.commitWork(ctx, op, h, x, c, &checks[len(checks)-1]); err != nil {
			return Report{}, fmt.Errorf("handoff: complete: %w", err)
		}
		proof = proofOf(hub.Handoff{Ending: hub.EndedDone}, checks)
	}
	checks[len(checks)-1].Change.Loose = nil // for the commit alone

	err = s.update(ctx, op, actor, func(m *mover) (err error) {
		if h, err = ownedBy(m.tx, op, actor, id); err != nil {
			return err
		}
		now, err := readBase(m.tx, op, h, c.SameChange)
		if err != nil {
			return err
		}
		if now.base != x.base || len(now.commits) != len(x.commits) {
			return hub.Errorf(hub.CodeConflict, op, "you completed another task in this repository meanwhile").WithHint("complete this one again")
		}
		if err := s.dealtWith(m, actor, h); err != nil {
			return err
		}
		if err := s.sender.Share(m.tx, actor, c.Artifacts, []hub.AgentID{h.From}); err != nil {
			return err
		}
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
		if err := s.moveTask(m, h, true); err != nil {
			return err
		}
		work := checks[len(checks)-1]
		payload := map[string]any{"handoff_id": h.ID, "work": work.Result, "proof": proof.Proof}
		for name, text := range map[string]string{"proof_reason": proof.Reason, "proof_note": proof.Note, "change": work.Change.Text} {
			if text != "" && !h.Restricted {
				payload[name] = cut(text, 500)
			}
		}
		if h.Restricted && proof.Note != "" {
			payload["proof_note"] = withheldNote
		}
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
		return s.post(m, actor, h, hub.TypeHandoffComplete, hub.PriorityNormal, payload, false)
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, checks), nil
}

// end completes and closes an active handoff whose task is not done, and notifies
// the other parties.
func (s *Service) end(m *mover, actor hub.Caller, h *hub.Handoff) error {
	if err := m.move(h, hub.HandoffCompleted, h.Notes, nil); err != nil {
		return err
	}
	if err := m.move(h, hub.HandoffClosed, "", nil); err != nil {
		return err
	}
	if err := s.moveTask(m, *h, true); err != nil {
		return err
	}
	summary := cut(h.Notes, 1500)
	if h.Restricted {
		summary = onTheHub
	}
	return s.post(m, actor, *h, hub.TypeHandoffComplete, hub.PriorityNormal, map[string]any{
		"handoff_id": h.ID, "summary": summary, "ending": h.Ending,
	}, false)
}

// maxArtifacts is the most artifacts of one completion.
const maxArtifacts = 200

// checkArtifacts refuses references that the schema does not allow.
func checkArtifacts(op string, refs []hub.ArtifactRef) error {
	if len(refs) > maxArtifacts {
		return hub.Errorf(hub.CodeTooLarge, op, "artifacts: at most %d", maxArtifacts)
	}
	if len(refs) == 0 {
		return nil
	}
	return shape.CheckPayload(hub.TypeHandoffComplete, encode(map[string]any{"handoff_id": anyID, "artifacts": refs}))
}

// anyID is a placeholder for the id of a payload of which only the rest is checked.
const anyID = "00000000-0000-7000-8000-000000000000"

// ownedBy returns a handoff by which the actor owns its task.
func ownedBy(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID) (hub.Handoff, error) {
	return receivedBy(r, op, actor, id, hub.HandoffActivated, "only an accepted task can be completed")
}

// withoutState checks work without a worktree to compare. A file that came with the
// package and has another content now proves a change; files that are all those of the
// package prove that there is none. made are the checks of the artifacts.
func withoutState(h hub.Handoff, pkg shape.Package, c Completion, made []hub.Check) hub.Check {
	same, named := len(c.Artifacts) > 0, false
	for i, a := range c.Artifacts {
		named = named || a.Type == "file" || a.Type == "branch"
		came := slices.IndexFunc(pkg.Artifacts, func(p shape.PackageArtifact) bool {
			return p.Ref.Type == a.Type && p.Ref.Path == a.Path && p.Ref.SHA256 != "" && a.SHA256 != ""
		})
		if came >= 0 && pkg.Artifacts[came].Ref.SHA256 != a.SHA256 && made[i].Result == hub.CheckVerified {
			return hub.Check{
				What: checkWork, Result: hub.CheckVerified, Detail: a.Path + " is not the file that came with the package",
				Change: &hub.WorkChange{Text: "1 file", Files: 1, Notes: []string{"only its hash was compared"}},
			}
		}
		same = same && came >= 0 && pkg.Artifacts[came].Ref.SHA256 == a.SHA256
	}
	switch {
	case same:
		return hub.Check{What: checkWork, Result: hub.CheckFailed, Detail: "nothing has changed: every file is the one that came with the package"}
	case pkg.Unproven != "":
		return unverifiable(checkWork, fmt.Sprintf("%q, says %s", pkg.Unproven, h.From))
	case pkg.WorkState.Worktree == "" && !named:
		return unverifiable(checkWork, "nothing named")
	}
	return unverifiable(checkWork, "the hub cannot compare a worktree with the time of acceptance")
}

// Activate makes the receiver of an accepted handoff the owner of its task. Accept
// does so already, unless the hub was stopped before the queue answered; then Activate
// goes on from there. Else it succeeds without a change.
func (s *Service) Activate(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.Activate"
	var h hub.Handoff
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if err := active(op, actor); err != nil {
			return err
		}
		if h, err = visible(m.tx, op, actor, id); err != nil {
			return err
		}
		if h.To != actor.ID && !actor.IsOperator() {
			return hub.Errorf(hub.CodeDenied, op, "handoff %s is for %s, and you are %s", id, h.To, actor.ID)
		}
		if h.Status != hub.HandoffAccepted && h.Status != hub.HandoffActivated {
			return outOfState(op, h, "it is not accepted")
		}
		return nil
	})
	if err == nil && h.Status == hub.HandoffAccepted {
		h, _, err = s.takeOver(ctx, op, actor, h)
	}
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, nil), nil
}

// Close closes a handoff that has ended. Complete does so already; a rejected
// handoff is closed by either side. Closing a closed handoff changes nothing.
func (s *Service) Close(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	const op = "handoff.Close"
	var h hub.Handoff
	var steps []hub.HandoffStep
	err := s.update(ctx, op, actor, func(m *mover) (err error) {
		if err := active(op, actor); err != nil {
			return err
		}
		if h, err = visible(m.tx, op, actor, id); err != nil {
			return err
		}
		if !h.Concerns(actor.ID) && !actor.IsOperator() {
			return hub.Errorf(hub.CodeDenied, op, "handoff %s is between %s and %s", id, h.From, h.To)
		}
		if steps, err = m.tx.HandoffSteps(id); err != nil {
			return err
		}
		switch h.Status {
		case hub.HandoffClosed:
			return nil
		case hub.HandoffRejected, hub.HandoffCompleted:
			return m.move(&h, hub.HandoffClosed, "", nil)
		}
		return outOfState(op, h, "it has not ended").WithHint("complete it, or ask the operator to release it")
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, lastChecks(steps)), nil
}
