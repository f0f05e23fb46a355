package handoff

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
)

const (
	maxAsked      = 64
	maxReviewer   = 200              // bytes
	checksTopic   = "checks"         // where a hint goes after every change of a result
	lookForChecks = 15 * time.Second // between two looks without a hint
	tailInMessage = 1500             // bytes of the output of a failed check
)

// checkAsked refuses checks and a reviewer of another form than shape.Package has.
func (p *packageBuilder) checkAsked(op string) error {
	if given, ok := p.members["review"]; ok {
		who, _ := given.(string)
		if who == "" || len(who) > maxReviewer || strings.ContainsFunc(who, invisible) {
			return hub.Errorf(hub.CodeInvalid, op, "package.review: must be an agent, role:ROLE, @ABILITY or operator")
		}
		if err := p.checkWorktree(op, "review"); err != nil {
			return err
		}
	}
	given, ok := p.members["checks"]
	if !ok {
		return nil
	}
	names, isList := given.([]any)
	if !isList || len(names) == 0 || len(names) > maxAsked {
		return hub.Errorf(hub.CodeInvalid, op, "package.checks: must be a list of 1 to %d names", maxAsked)
	}
	for _, entry := range names {
		if name, _ := entry.(string); name == "" || len(name) > maxReviewer || strings.ContainsFunc(name, invisible) {
			return hub.Errorf(hub.CodeInvalid, op, "package.checks: every entry must be the name of a check")
		}
	}
	return p.checkWorktree(op, "checks")
}

// checkKnown refuses checks that the repository of the worktree does not have.
func (s *Service) checkKnown(ctx context.Context, op string, pkg shape.Package) error {
	if len(pkg.Checks) == 0 {
		return nil
	}
	if s.checks == nil {
		return hub.Errorf(hub.CodeNotEnabled, op, "this hub does not run checks")
	}
	known, err := s.checks.Known(ctx, pkg.WorkState.Worktree)
	if err != nil {
		return fmt.Errorf("handoff: find the checks: %w", err)
	}
	for _, name := range pkg.Checks {
		if slices.Contains(known, name) {
			continue
		}
		return hub.UnknownCheck(hub.CodeInvalid, op, "package.checks: the repository of "+pkg.WorkState.Worktree, name, known)
	}
	return nil
}

// checkReviewer refuses a reviewer who is not on this hub, or who is to do the work.
func (s *Service) checkReviewer(ctx context.Context, op string, to hub.AgentID, pkg shape.Package) error {
	who := pkg.Review
	switch {
	case who == "" || who == string(hub.Operator):
		return nil
	case who == string(to):
		return hub.Errorf(hub.CodeInvalid, op, "package.review: %s is to do the work, and cannot review it", who).WithHint("name another agent, or operator")
	case who == hub.ReviewerOtherVendor:
		return hub.Errorf(hub.CodeInvalid, op, "package.review: other-vendor is for the policy of a branch").WithHint("name an agent, role:ROLE, @ABILITY or operator")
	case !hub.ValidReviewer(who) || who == hub.ReviewerNone:
		return hub.Errorf(hub.CodeInvalid, op, "package.review: must be an agent, role:ROLE, @ABILITY or operator, got %.100q", who)
	case strings.HasPrefix(who, hub.ReviewerRolePrefix) || strings.HasPrefix(who, hub.ReviewerAbilityPrefix):
		return nil // one may come until the work is done
	}
	_, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Agent, error) { return r.Agent(hub.AgentID(who)) })
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Errorf(hub.CodeInvalid, op, "package.review: no agent named %s on this hub", who).WithHint("{agents} lists them")
	}
	return err
}

// asked returns the names of the checks that a package and, for a task of a team, its task ask for.
func (s *Service) asked(ctx context.Context, h hub.Handoff, pkg shape.Package) ([]string, error) {
	names := slices.Clone(pkg.Checks)
	if h.Team == "" {
		return names, nil
	}
	t, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Task, error) { return r.Teamspaces().Task(hub.TaskID(h.TaskID)) })
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return nil, err
	}
	for _, name := range t.Checks {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// choose finds the commit of the work and the checks that are to run on it. A commit that has no work
// of the task is refused. Where the hub cannot look, it refuses only what was asked for.
func (x *completing) choose(ctx context.Context) error {
	pkg, err := shape.DecodePackage(x.h.Package)
	if err != nil {
		return fmt.Errorf("handoff: complete: %w", err)
	}
	names, err := x.s.asked(ctx, x.h, pkg)
	if err != nil {
		return fmt.Errorf("handoff: complete: %w", err)
	}
	folder := pkg.WorkState.Worktree
	x.review = pkg.Review
	if err := x.committed(); err != nil {
		return err
	}
	if x.s.checks == nil || folder == "" {
		if x.claim.Commit != "" {
			return hub.Errorf(hub.CodeInvalid, x.op, "commit: the task has no worktree in which the hub could find it")
		}
		return x.requirePassed()
	}

	// A folder in which the hub cannot look has no checks. Elsewhere every error refuses the completion,
	// so that none of it is a way around the checks.
	relevant, err := x.s.checks.Relevant(ctx, folder)
	must := x.claim.Commit != "" || len(names) > 0 || x.s.requireChecks
	if !must && (err != nil || !relevant) {
		return nil
	}
	x.plan, err = x.s.checks.Plan(ctx, folder, x.claim.Commit, x.setting.since.Commit, names)
	if err != nil {
		return fmt.Errorf("handoff: complete: %w", err)
	}
	if x.claim.Commit != "" || len(x.plan.Checks) > 0 {
		if err := x.checkCommit(ctx, folder); err != nil {
			return err
		}
	}
	if change := x.work().Change; len(x.plan.Notes) > 0 && x.work().Result == hub.CheckVerified {
		change.Notes = append(change.Notes, x.plan.Notes...)
		x.proof = proofOf(hub.Handoff{Ending: hub.EndedDone}, x.checks)
	}
	return x.requirePassed()
}

// committed refuses work that is to be reviewed and is not committed: a review is of a commit.
func (x *completing) committed() error {
	change := x.work().Change
	isLoose := change != nil && change.Uncommitted > 0 && change.Now.Commit != ""
	if x.review == "" || x.claim.Commit != "" || !isLoose {
		return nil
	}
	return hub.Errorf(hub.CodeUnproven, x.op, "%s reviews the work, a review is of a commit, and %s not committed", x.review, filesAre(change.Uncommitted)).
		WithHint("commit your work, then complete the task again; where you cannot commit, let the hub do it: {commit_message}")
}

// filesAre returns a number of files with its verb.
func filesAre(n int) string {
	if n == 1 {
		return "1 file is"
	}
	return fmt.Sprintf("%d files are", n)
}

// outcome says in a few words what became of the task.
func (x *completing) outcome() string {
	if x.waitsForReview() {
		return "the task is completed once " + x.review + " has approved it"
	}
	return "the task is completed"
}

// waitsForReview reports whether the task stays open until its work was reviewed.
func (x *completing) waitsForReview() bool {
	return x.review != "" && x.progress.Review == hub.ReviewWaiting
}

// requirePassed refuses a completion without checks where the operator wants some.
func (x *completing) requirePassed() error {
	if len(x.plan.Checks) > 0 || (!x.plan.Require && !x.s.requireChecks) {
		return nil
	}
	return hub.Errorf(hub.CodeUnproven, x.op, "passed checks are required, and no check is set for this work").
		WithHint("{check.add}")
}

// checkCommit refuses a commit that does not have the work: one that is not in the history of the
// worktree, or whose difference from the acceptance of the task is trivial.
func (x *completing) checkCommit(ctx context.Context, folder string) error {
	commit := x.plan.Commit
	within, err := x.s.checks.Within(ctx, folder, commit, "HEAD")
	if err != nil {
		return fmt.Errorf("handoff: complete: %w", err)
	}
	if !within {
		return hub.Errorf(hub.CodeUnproven, x.op, "commit %.12s is not in the history of the branch that is checked out in %s", commit, folder).
			WithHint("check out the branch that has it, or name another commit")
	}
	if x.claim.NoChanges || x.plan.Base == "" {
		return nil
	}

	work := func(c hub.CommitChange) bool { return !c.Trivial }
	switch change := x.work().Change; {
	case len(x.plan.Changes) == 0 && change.Uncommitted > 0:
		return hub.Errorf(hub.CodeUnproven, x.op, "checks run on a commit, and %s not committed", filesAre(change.Uncommitted)).
			WithHint("commit your work, or let the hub commit: {commit_message}; then complete the task again")
	case len(x.plan.Changes) == 0:
		return hub.Errorf(hub.CodeUnproven, x.op, "commit %.12s has no change since the task was accepted", commit).WithHint("name the commit that has your work")
	case !slices.ContainsFunc(x.plan.Changes, work) && x.claim.Trivial == "":
		return hub.Errorf(hub.CodeUnproven, x.op, "commit %.12s changes only whitespace, line ends, modes or empty files", commit).
			WithHint("do the work, or explain why this change is the task: {trivial}")
	}
	return nil
}

// A pendingClaim is a completion that waits for its checks, as it is stored.
type pendingClaim struct {
	Claim  Completion     `json:"claim"`
	Checks []hub.Check    `json:"checks"`         // of its claims
	Base   hub.ShortID    `json:"base,omitempty"` // see setting
	Known  int            `json:"known"`          // commits of the owner's other tasks in the repository
	Kind   hub.CallerKind `json:"kind"`           // of the owner's call
	Notes  []string       `json:"notes,omitempty"`
}

// check queues the checks of a completion, waits for them as long as the call says, and returns the
// handoff: completed, with failed checks, or with checks that still run.
func (x *completing) check(ctx context.Context) (Report, error) {
	claim, err := json.Marshal(pendingClaim{
		Claim: x.claim, Checks: x.checks, Base: x.setting.base, Known: len(x.setting.commits), Kind: x.actor.Kind, Notes: x.plan.Notes,
	})
	if err != nil {
		return Report{}, err
	}

	// The runs are queued in the transaction that records the claim.
	s := x.s
	s.checking.begin(x.id)
	err = s.update(ctx, x.op, x.actor, func(m *mover) (err error) {
		if x.h, err = ownedBy(m.tx, x.op, x.actor, x.id); err != nil {
			return err
		}
		p, err := m.tx.Checks().Progress(string(x.id))
		if err != nil {
			return err
		}
		if p.Results, err = s.checks.Queue(m.tx, x.actor, x.plan, x.id); err != nil {
			return err
		}
		p = p.At(x.plan)
		p.Proof = x.proof.Proof
		p.Checks = hub.ChecksRunning
		p.Names = x.plan.Names()
		p.Actor = x.actor.ID
		p.Claim = claim
		p.Admit(m.now)
		return m.tx.WriteChecks().PutProgress(p)
	})
	if err != nil {
		s.checking.end(x.id)
		return Report{}, err
	}

	s.checks.Start()
	s.awaitChecks(ctx, x.id, x.claim.Wait)
	return s.afterChecks(ctx, x)
}

// afterChecks returns the handoff of a completion after its call waited for the checks.
func (s *Service) afterChecks(ctx context.Context, x *completing) (Report, error) {
	var out Report
	err := s.store.View(ctx, func(r hub.Reader) error {
		h, err := r.Handoff(x.id)
		if err != nil {
			return err
		}
		steps, err := readSteps(r, x.id)
		if err != nil {
			return err
		}
		p, err := r.Checks().Progress(string(x.id))
		if err != nil {
			return err
		}

		out = s.answer(h, lastChecks(steps))
		out.Checking = p.Checks == hub.ChecksRunning
		if p.Checks != hub.ChecksPassed {
			out.Claims = x.checks
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: complete: %w", err)
	}

	out.Warnings = append(out.Warnings, x.plan.Notes...)
	if out.Checking {
		out.Warnings = append(out.Warnings, "the checks still run; you and "+string(out.From)+" get a message with the result")
	}
	return out, nil
}

// checkingCalls counts the calls that wait for the checks of handoffs. While one waits, its answer tells
// the owner the result; else a message does.
type checkingCalls struct {
	mu    sync.Mutex // held while a completion is ended, too, so that a call either waits or gets a message
	calls map[hub.HandoffID]int
}

func (c *checkingCalls) begin(id hub.HandoffID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[hub.HandoffID]int{}
	}
	c.calls[id]++
}

func (c *checkingCalls) end(id hub.HandoffID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[id]--; c.calls[id] <= 0 {
		delete(c.calls, id)
	}
}

// awaitChecks waits until the checks of a handoff do not run any more, at most as long as it says.
func (s *Service) awaitChecks(ctx context.Context, id hub.HandoffID, most time.Duration) {
	defer s.checking.end(id)
	hints, cancel := s.bus.Subscribe(hub.TopicJournal, checksTopic)
	defer cancel()
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		p, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Progress, error) { return r.Checks().Progress(string(id)) })
		if err != nil || p.Checks != hub.ChecksRunning {
			return
		}
		select {
		case <-hints:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// runChecked ends completions whose checks have ended, until ctx ends.
func (s *Service) runChecked(ctx context.Context) {
	hints, cancel := s.bus.Subscribe(checksTopic)
	defer cancel()
	tick := time.NewTicker(lookForChecks)
	defer tick.Stop()
	for {
		if err := s.EndChecked(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("completions could not be ended", "op", "handoff.EndChecked", "code", hub.CodeOf(err), "err", err)
		}
		select {
		case <-hints:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// EndChecked ends the completions whose checks have ended: the work is done if all passed, else it goes
// back to its owner.
func (s *Service) EndChecked(ctx context.Context) error {
	open, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Progress, error) { return r.Checks().Checking() })
	if err != nil {
		return err
	}
	for _, p := range open {
		if !hub.HandoffID(p.Subject).Valid() {
			continue // a task of a team
		}
		if err := s.endChecked(ctx, hub.HandoffID(p.Subject)); err != nil {
			return err
		}
	}
	return nil
}

// endChecked ends one completion if its checks have ended.
func (s *Service) endChecked(ctx context.Context, id hub.HandoffID) error {
	const op = "handoff.Complete"
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	waits := s.checking.calls[id] > 0

	err := s.update(ctx, op, hub.Caller{ID: hub.Self}, func(m *mover) error {
		p, err := m.tx.Checks().Progress(string(id))
		if err != nil || p.Checks != hub.ChecksRunning {
			return err
		}
		results, err := s.checks.Seen(m.tx, p.Results, true)
		if err != nil {
			return err
		}
		word, bad := sum(results)
		if word == hub.ChecksRunning {
			return nil
		}
		h, err := m.tx.Handoff(id)
		if err != nil {
			return err
		}
		return s.conclude(m, op, h, p, results, word, bad, waits)
	})
	if err == nil {
		s.bus.Publish(hub.TopicJournal)
	}
	return err
}

// sum returns the word for results, and the first one that did not pass. While one runs, nothing is
// decided: its owner gets all results at once.
func sum(results []hub.CheckResult) (word hub.ChecksWord, bad *hub.CheckResult) {
	word = hub.ChecksPassed
	for i := range results {
		r := &results[i]
		if !r.State.Over() {
			return hub.ChecksRunning, nil
		}
		if r.State != hub.ResultPassed && bad == nil {
			word = hub.ChecksFailed
			bad = r
		}
	}
	return word, bad
}

// conclude stores the end of a completion's checks, inside the transaction of m. The owner gets a message
// unless its call waits.
func (s *Service) conclude(m *mover, op string, h hub.Handoff, p hub.Progress, results []hub.CheckResult, word hub.ChecksWord, bad *hub.CheckResult, waits bool) error {
	var claim pendingClaim
	if err := json.Unmarshal(p.Claim, &claim); err != nil {
		return err
	}
	p.Checks = word
	p.Claim = nil
	p.UpdatedAt = m.now
	if h.Status != hub.HandoffActivated { // it ended meanwhile in another way
		return m.tx.WriteChecks().PutProgress(p)
	}
	if bad != nil {
		p.Refuse(bad.Failure(), m.now)
		if err := m.tx.WriteChecks().PutProgress(p); err != nil || waits {
			return err
		}
		return s.tellReturned(m, h, p, results, bad)
	}

	// The claim is stored as the call of the owner would have done it.
	agent, err := m.tx.Agent(h.To)
	if err != nil {
		return err
	}
	owner := hub.Caller{Kind: claim.Kind, ID: agent.ID, Role: agent.Role}
	pkg, err := shape.DecodePackage(h.Package)
	if err != nil {
		return err
	}
	x := completing{s: s, op: op, actor: owner, id: h.ID, claim: claim.Claim, h: h, checks: claim.Checks, progress: p, results: results, review: pkg.Review}
	x.setting.base = claim.Base
	x.setting.commits = make([]string, claim.Known)
	x.proof = proofOf(hub.Handoff{Ending: hub.EndedDone}, x.checks)
	m.actor = owner
	switch err := x.store(m); hub.CodeOf(err) {
	case "":
	case hub.CodeConflict:
		p.Checks = hub.ChecksFailed
		p.Refuse("you completed another task in this repository meanwhile: complete this one again", m.now)
		if err := m.tx.WriteChecks().PutProgress(p); err != nil || waits {
			return err
		}
		return s.tellReturned(m, h, p, results, nil)
	default:
		return err
	}
	if waits {
		return nil
	}
	return s.tellOwner(m, x.h, p, results, hub.TypeStatusComplete, hub.PriorityNormal, "the checks of "+h.TaskID+" passed: "+x.outcome(), "")
}

// tellReturned tells the parties of a handoff that the work went back to its owner, with the next step.
func (s *Service) tellReturned(m *mover, h hub.Handoff, p hub.Progress, results []hub.CheckResult, bad *hub.CheckResult) error {
	detail := "the task is still yours: repair it, commit, and complete it again"
	if bad != nil && bad.Output.Tail != "" {
		tail := bad.Output.Tail
		detail += "\n\nthe end of the output:\n" + tail[max(0, len(tail)-tailInMessage):]
	}
	return s.tellOwner(m, h, p, results, hub.TypeStatusBlocked, hub.PriorityHigh, p.Reason, strings.ToValidUTF8(detail, ""))
}

// tellOwner writes a message of the hub to the owner of a handoff and, if the work went back, to its
// sender.
func (s *Service) tellOwner(m *mover, h hub.Handoff, p hub.Progress, results []hub.CheckResult, t hub.MessageType, priority hub.Priority, summary, detail string) error {
	payload := map[string]any{"summary": cut(summary, 270), "handoff_id": h.ID, "task_id": h.TaskID, "reason": cut(summary, 270)}
	addProgress(payload, p, p.Proof, results)
	policy := hub.DefaultPolicy
	if h.Restricted {
		policy.Sensitivity = hub.SensitivityHigh
		payload["summary"] = onTheHub
		delete(payload, "reason")
		delete(payload, "results")
		detail = ""
	}
	if detail != "" {
		payload["detail"] = detail
	}
	to := []hub.AgentID{h.To}
	if t == hub.TypeStatusBlocked && h.From != h.To {
		to = append(to, h.From)
	}
	msg, err := s.sender.Notify(m.tx, hub.Envelope{To: to, Type: t, ThreadID: h.ThreadID, Priority: priority, Payload: encode(payload), Policy: policy})
	if err == nil {
		m.posted = append(m.posted, msg)
	}
	return err
}

// progressed stores how far the work of a completion has come: its checks passed, or there are none.
func (x *completing) progressed(m *mover) error {
	p, err := m.tx.Checks().Progress(string(x.id))
	if err != nil {
		return err
	}
	if x.s.checks == nil {
		x.progress = hub.NewProgress(string(x.id))
		if p.RefusedAt.IsZero() {
			return nil
		}
		p.Admit(m.now)
		return m.tx.WriteChecks().PutProgress(p)
	}

	if x.progress.Subject != "" { // its checks have just passed
		revision := p.Revision
		p = x.progress
		p.Revision = revision
	} else {
		plan := x.plan
		switch change := x.work().Change; {
		case x.claim.Commit != "":
		case change.Uncommitted > 0: // the commit that is checked out has not all of the work
			plan.Commit = ""
			plan.Tree = ""
		case plan.Commit == "":
			plan.Worktree = change.Now.Path
			plan.Commit = change.Now.Commit
		}
		if plan.Base == "" {
			plan.Base = x.setting.since.Commit
		}
		p = p.At(plan)
		p.Checks = hub.ChecksNone
		p.Names, p.Results = nil, nil
		p.Actor = x.actor.ID
	}

	p.Proof = x.proof.Proof
	p.Admit(m.now)
	if x.review != "" && p.Commit != "" && p.Review != hub.ReviewApproved {
		p.Review = hub.ReviewWaiting
	}
	x.progress = p
	return m.tx.WriteChecks().PutProgress(p)
}

// addProgress adds the words for the progress of work to a payload, and each result in a few words.
func addProgress(payload map[string]any, p hub.Progress, proof hub.Proof, results []hub.CheckResult) {
	if p.Subject == "" {
		p = hub.NewProgress("")
	}
	payload["checks"] = p.Checks
	payload["review"] = p.Review
	payload["landing"] = p.LandingText()
	payload["stage"] = p.Stage(proof)
	short := []map[string]any{}
	for _, r := range results {
		one := map[string]any{"id": r.ID, "name": r.Name, "state": r.State}
		if r.Note != "" {
			one["note"] = r.Note
		}
		short = append(short, one)
	}
	payload["results"] = short
}

// addProgress adds how far the work of a handoff has come to its report.
func (s *Service) addProgress(r hub.Reader, report *Report) error {
	p, err := r.Checks().Progress(string(report.ID))
	if err != nil {
		return err
	}
	report.Checks = p.Checks
	report.Review = p.Review
	report.Landing = p.LandingText()

	// Work that was not claimed has no stage.
	claimed := p.Subject != "" && p.Revision > 0
	proof := report.Proof
	if proof == hub.ProofNone && claimed {
		proof = p.Proof
	}
	if claimed || report.Ending == hub.EndedDone {
		report.Stage = p.Stage(proof)
	}

	if report.Results == nil {
		report.Results = []hub.CheckResult{}
	}
	isWithheld := report.Title == hub.RestrictedText
	if !isWithheld {
		report.Returned = p.Reason
	}
	if s.checks == nil || len(p.Results) == 0 || isWithheld {
		return nil
	}
	if report.Commit == "" {
		report.Commit = p.Commit
	}
	report.Results, err = s.checks.Seen(r, p.Results, report.History != nil || report.Capabilities != nil)
	return err
}
