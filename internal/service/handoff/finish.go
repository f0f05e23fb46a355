package handoff

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// A Completion is the claim of the owner that the task is done.
type Completion struct {
	Summary   string
	Artifacts []hub.ArtifactRef // the products; each is checked
	NoChanges bool              // the owner declares that the task needed no change
	Trivial   string            // why a change of whitespace, line ends, modes or empty files is the task

	Commit string        // that has the work; the one that is checked out in the worktree if it is empty
	Wait   time.Duration // for the checks of the work

	// SameChange is a completed handoff of the owner whose change did this task, too.
	SameChange hub.HandoffID

	// CommitMessage asks the hub to commit the files that Artifacts names or, if it names
	// none, all that changed. It is for owners that may not write to the repository.
	CommitMessage string
}

// Complete ends a task that the actor owns. The claims are checked first: one that
// does not hold is refused, and so is a completion without any change in the
// worktree since acceptance, unless the owner declares NoChanges. The progress of the
// handoff records why the work was refused, so that its parties read it, too.
func (s *Service) Complete(ctx context.Context, actor hub.Caller, id hub.HandoffID, c Completion) (Report, error) {
	const op = "handoff.Complete"
	if err := c.check(op); err != nil {
		return Report{}, err
	}
	x := completing{s: s, op: op, actor: actor, id: id, claim: c}
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if x.h, err = ownedBy(r, op, actor, id); err != nil {
			return err
		}
		x.setting, err = readSetting(r, op, x.h, c.SameChange)
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: complete: %w", err)
	}

	out, err := x.end(ctx)
	if hub.CodeOf(err) == hub.CodeUnproven {
		x.refused(ctx, err)
	}
	return out, err
}

// end proves the claim and ends the handoff, or queues its checks.
func (x *completing) end(ctx context.Context) (Report, error) {
	// The checks read the worktree, so they run before the transaction.
	if err := x.prove(ctx); err != nil {
		return Report{}, err
	}
	if err := x.choose(ctx); err != nil {
		return Report{}, err
	}
	if len(x.plan.Checks) > 0 {
		return x.check(ctx)
	}
	if err := x.s.update(ctx, x.op, x.actor, x.store); err != nil {
		return Report{}, err
	}
	return x.answer(), nil
}

// refused records why the work of a completion was refused.
func (x *completing) refused(ctx context.Context, refusal error) {
	reason := refusal.Error()
	if e, ok := errors.AsType[*hub.Error](refusal); ok {
		reason = e.Error() // without the words of the callers
	}
	ctx = context.WithoutCancel(ctx) // the answer may not reach the owner
	err := x.s.update(ctx, x.op, x.actor, func(m *mover) error {
		if _, err := ownedBy(m.tx, x.op, x.actor, x.id); err != nil {
			return err
		}
		p, err := m.tx.Checks().Progress(string(x.id))
		if err != nil {
			return err
		}
		p.Actor = x.actor.ID
		p.Refuse(cut(reason, maxReason), m.now)
		return m.tx.WriteChecks().PutProgress(p)
	})
	if err != nil {
		x.s.log.Warn("a refused completion could not be recorded", "op", x.op, "handoff", x.id, "code", hub.CodeOf(err), "err", err)
	}
}

// answer is the report of a completion with what its owner must know.
func (x *completing) answer() Report {
	out := x.s.answer(x.h, x.checks)
	out.Warnings = append(out.Warnings, x.plan.Notes...)
	switch {
	case x.waitsForReview():
		out.Warnings = append(out.Warnings, x.outcome())
	case x.review != "" && x.progress.Review != hub.ReviewApproved:
		out.Warnings = append(out.Warnings, "the package asks for a review by "+x.review+", and the hub found no commit that could be reviewed: the task was closed without it")
	}
	return out
}

// check refuses a claim whose texts or artifacts are not well formed.
func (c Completion) check(op string) error {
	if err := checkText(op, "summary", c.Summary); err != nil {
		return err
	}
	if err := checkArtifacts(op, c.Artifacts); err != nil {
		return err
	}
	if err := checkReason(op, "trivial", c.Trivial); c.Trivial != "" && err != nil {
		return err
	}
	return checkMessage(op, c.CommitMessage)
}

// A completing is one call of Complete: the claim, the task as it was read, and what the
// checks found. The last check is that of the work.
type completing struct {
	s       *Service
	op      string
	actor   hub.Caller
	id      hub.HandoffID
	claim   Completion
	setting setting
	plan    hub.CheckPlan // without a commit if nothing is to be checked

	h      hub.Handoff
	checks []hub.Check
	proof  proven

	review   string            // the reviewer that the package asks for; "" for none
	progress hub.Progress      // as it is stored with the completion
	results  []hub.CheckResult // of the checks that passed
}

// work is the check of the change in the worktree.
func (x *completing) work() *hub.Check { return &x.checks[len(x.checks)-1] }

// prove checks the claim against the worktree, and commits the work if the owner asked for
// that.
func (x *completing) prove(ctx context.Context) error {
	x.checks = x.s.proveWork(ctx, x.h, x.setting, x.claim)
	if err := ctx.Err(); err != nil {
		return err
	}
	if bad, ok := failed(x.checks); ok {
		return hub.Errorf(hub.CodeUnproven, x.op, "%s: %s", bad.What, bad.Detail).WithHint("%s", completionHint(x.h, x.setting, x.claim, bad))
	}

	x.proof = proofOf(hub.Handoff{Ending: hub.EndedDone}, x.checks)
	if x.s.requireProof && x.proof.Proof != hub.ProofVerified {
		hint := "name files that were changed as artifacts, or ask the operator to release the task"
		if x.proof.Change != nil && x.proof.Change.Trivial {
			hint = "do the work, or explain why this change is the task: {trivial}"
		}
		return hub.Errorf(hub.CodeUnproven, x.op, "this hub requires proof, and the work is unproven: %s", x.proof.Reason).WithHint("%s", hint)
	}

	if x.claim.CommitMessage != "" {
		if err := x.s.commitWork(ctx, x.op, x.h, x.setting, x.claim, x.work()); err != nil {
			return fmt.Errorf("handoff: complete: %w", err)
		}
		x.proof = proofOf(hub.Handoff{Ending: hub.EndedDone}, x.checks)
	}
	x.work().Change.Loose = nil // for the commit alone
	return nil
}

// store ends the handoff and tells the agents that asked for the work. It refuses to do so if the owner completed
// another task in the repository since the checks began: they compared with an older state.
func (x *completing) store(m *mover) (err error) {
	if x.h, err = ownedBy(m.tx, x.op, x.actor, x.id); err != nil {
		return err
	}
	now, err := readBase(m.tx, x.op, x.h, x.claim.SameChange)
	if err != nil {
		return err
	}
	if now.base != x.setting.base || len(now.commits) != len(x.setting.commits) {
		return hub.Errorf(hub.CodeConflict, x.op, "you completed another task in this repository meanwhile").WithHint("complete this one again")
	}

	if err := x.s.dealtWith(m, x.actor, x.h); err != nil {
		return err
	}
	hear, err := audience(m.tx, x.actor, x.h, hub.TypeHandoffComplete)
	if err != nil {
		return err
	}
	if err := x.s.sender.Share(m.tx, x.actor, x.claim.Artifacts, hear); err != nil {
		return err
	}

	// A completed handoff is closed at once, unless its work is to be reviewed.
	x.h.Ending = hub.EndedDone
	x.h.Notes = x.claim.Summary
	if x.claim.NoChanges {
		x.h.Notes = strings.TrimPrefix(x.h.Notes+"; nothing was changed", "; ")
	}
	if err := m.move(&x.h, hub.HandoffCompleted, x.h.Notes, x.checks); err != nil {
		return err
	}
	if err := x.progressed(m); err != nil {
		return err
	}
	if !x.waitsForReview() {
		if err := m.move(&x.h, hub.HandoffClosed, "", nil); err != nil {
			return err
		}
		if err := x.s.moveTask(m, x.h, true); err != nil {
			return err
		}
	}
	return x.s.post(m, x.actor, x.h, hub.TypeHandoffComplete, hub.PriorityNormal, x.payload(), false)
}

// payload is the message to the agents that asked for the work. That of a restricted handoff has no text
// of its owner. Artifacts that would exceed the limit of a payload are left to the history.
func (x *completing) payload() map[string]any {
	work := x.work()
	out := map[string]any{"handoff_id": x.h.ID, "work": work.Result, "proof": x.proof.Proof}
	addProgress(out, x.progress, x.proof.Proof, x.results)
	if x.h.Restricted {
		out["summary"] = onTheHub
		if x.proof.Note != "" {
			out["proof_note"] = withheldNote
		}
		return out
	}

	texts := map[string]string{"proof_reason": x.proof.Reason, "proof_note": x.proof.Note, "change": work.Change.Text}
	for name, text := range texts {
		if text != "" {
			out[name] = cut(text, 500)
		}
	}
	if x.h.Notes != "" {
		out["summary"] = cut(x.h.Notes, 1500)
	}
	if len(x.claim.Artifacts) > 0 {
		out["artifacts"] = x.claim.Artifacts
	}
	if len(encode(out)) > hub.MaxPayload {
		delete(out, "artifacts")
		out["detail"] = fmt.Sprintf("%d artifacts: see the history of the handoff", len(x.claim.Artifacts))
	}
	return out
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
		return hub.Errorf(hub.CodeTooLarge, op, "at most %d artifacts are allowed, got %d", maxArtifacts, len(refs))
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
func withoutState(h hub.Handoff, pkg shape.Package, x setting, c Completion, made []hub.Check) hub.Check {
	same, named := len(c.Artifacts) > 0, false
	for i, a := range c.Artifacts {
		named = named || a.Type == "file" || a.Type == "branch"
		came := slices.IndexFunc(pkg.Artifacts, func(p shape.PackageArtifact) bool {
			return p.Ref.Type == a.Type && p.Ref.Path == a.Path && p.Ref.SHA256 != "" && a.SHA256 != ""
		})
		if came >= 0 && pkg.Artifacts[came].Ref.SHA256 != a.SHA256 && made[i].Result == hub.CheckVerified {
			return changedFile(h, x, c, a.Path, made[i])
		}
		same = same && came >= 0 && pkg.Artifacts[came].Ref.SHA256 == a.SHA256
	}
	switch {
	case same:
		return hub.Check{What: checkWork, Kind: hub.CheckKindWork, Result: hub.CheckFailed, Detail: "nothing has changed: every file is the one that came with the package"}
	case pkg.Unproven != "":
		return unverifiable(hub.CheckKindWork, checkWork, fmt.Sprintf("%q, says %s", pkg.Unproven, h.From))
	case pkg.WorkState.Worktree == "" && !named:
		return unverifiable(hub.CheckKindWork, checkWork, "nothing named")
	}
	return unverifiable(hub.CheckKindWork, checkWork, "the hub cannot compare a worktree with the time of acceptance")
}

// changedFile is the check of work without a worktree: a file that is not the one that came with the
// package. If only blanks and line ends of it changed, the change is trivial.
func changedFile(h hub.Handoff, x setting, c Completion, path string, made hub.Check) hub.Check {
	check := hub.Check{
		What: checkWork, Kind: hub.CheckKindWork, Result: hub.CheckVerified, Detail: path + " is not the file that came with the package",
		Change: &hub.WorkChange{Text: "1 file", Files: 1},
	}
	came := x.visible[path]
	isTrivial := came != "" && came == made.Compared.Visible
	switch {
	case isTrivial && c.Trivial == "":
		check.Change.Trivial = true
		check.Change.Text = filepath.Base(path) + ": whitespace only"
		check.Result = hub.CheckUnverifiable
		check.Detail = check.Change.OnlyTrivial()
	case isTrivial:
		check.Change.Trivial = true
		check.Change.Text = filepath.Base(path) + ": whitespace only"
		check.Change.TrivialWhy = c.Trivial
		check.Change.Notes = []string{fmt.Sprintf("%s, says %s", trivialNote(c.Trivial), h.To)}
	default:
		check.Change.Notes = []string{"only its hash was compared"}
	}
	return check
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
			return hub.Errorf(hub.CodeDenied, op, "handoff %s is for %s, not for %s", id, h.To, actor.ID)
		}
		if h.Status != hub.HandoffAccepted && h.Status != hub.HandoffActivated {
			return outOfState(m.tx, op, h, "it is not accepted")
		}
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	if h.Status == hub.HandoffActivated {
		return s.answer(h, nil), nil
	}

	if h, _, err = s.takeOver(ctx, op, actor, h); err != nil {
		return Report{}, err
	}
	return s.withFiles(ctx, actor, h, s.answer(h, nil))
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

		// The answer shows the last checks, which are part of the steps.
		if steps, err = readSteps(m.tx, id); err != nil {
			return err
		}

		switch h.Status {
		case hub.HandoffClosed:
			return nil
		case hub.HandoffCompleted:
			if err := mayClose(m, op, h); err != nil {
				return err
			}
			if err := m.move(&h, hub.HandoffClosed, "", nil); err != nil {
				return err
			}
			return s.moveTask(m, h, true)
		case hub.HandoffRejected:
			return m.move(&h, hub.HandoffClosed, "", nil)
		}
		return outOfState(m.tx, op, h, "it has not ended").WithHint("complete it, or ask the operator to release it")
	})
	if err != nil {
		return Report{}, err
	}
	return s.answer(h, lastChecks(steps)), nil
}

// mayClose refuses to close a task whose work waits for a review. The operator may.
func mayClose(m *mover, op string, h hub.Handoff) error {
	p, err := m.tx.Checks().Progress(string(h.ID))
	if err != nil || m.actor.IsOperator() || p.Review != hub.ReviewWaiting {
		return err
	}
	return hub.Errorf(hub.CodeConflict, op, "handoff %s waits for the review of its work, and is closed when it was approved", h.ID).
		WithHint("the operator can close it without a review")
}

// Reviewed closes a completed handoff whose work was approved, inside tx: by the reviewer that the
// package asks for, or without a review if the work landed. The caller announces the messages after the
// commit.
func (s *Service) Reviewed(tx hub.Tx, id hub.HandoffID, review *hub.Review) (posted []hub.Message, err error) {
	h, err := tx.Handoff(id)
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && h.Status != hub.HandoffCompleted) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pkg, err := shape.DecodePackage(h.Package)
	if err != nil {
		return nil, err
	}
	if review != nil && !review.Answers(pkg.Review) {
		return nil, nil
	}
	m := &mover{tx: tx, actor: hub.Caller{ID: hub.Self}, now: s.clock.Now(), files: s.files}
	if err := m.move(&h, hub.HandoffClosed, "", nil); err != nil {
		return nil, err
	}
	err = s.moveTask(m, h, true)
	return m.posted, err
}
