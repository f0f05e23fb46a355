package landing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// wait lets entries wait for an event. step is the commit that the target is moved to then, or
// "" if they must be tried again. The operator is told once.
func (w *worker) wait(ctx context.Context, group []hub.LandingEntry, kind hub.LandingWait, reason, step string) error {
	return w.update(ctx, func(c *change) error {
		isTold := false
		for _, e := range group {
			told := e.Told
			head := e.Head
			e, err := c.advance(e, hub.EntryWaiting, actions.LandingQueued, func(e *hub.LandingEntry) {
				e.Waits = kind
				e.Reason = reason
				e.Step = step
				e.Head = head
				e.Told = string(kind)
				e.Missing = missingFor(kind, *e, reason)
			})
			if err != nil {
				return err
			}
			if told == string(kind) || isTold {
				continue
			}
			isTold = true
			about := hub.NoticeSubject{Kind: hub.NoticeLanding, ID: string(e.ID)}
			if err := c.tellOperator(fmt.Sprintf("%s cannot land in %s now: %s", e.ID, e.Into, reason), e.Missing[0].Next, about); err != nil {
				return err
			}
		}
		return nil
	})
}

// waitHint returns the next step of the operator for an entry that waits.
func waitHint(kind hub.LandingWait, e hub.LandingEntry) string {
	switch kind {
	case hub.WaitsForFolder:
		return "commit, stash or move the files in that folder; the entry then lands by itself"
	case hub.WaitsForTarget:
		return fmt.Sprintf("repair %s; the entry is tried again after its next commit", e.Into)
	}
	return fmt.Sprintf("parley show %s", e.ID)
}

// holdForTarget lets the first member wait, because the target fails its own checks. The others may
// repair it: they are tried without it.
func (w *worker) holdForTarget(ctx context.Context) error {
	report := w.results[w.attempt.Head]
	group := []hub.LandingEntry{w.attempt.Members[0].Entry}
	reason := fmt.Sprintf("%s itself fails the check %s at %.12s", w.policy.Into, report.Failed, w.attempt.Head)
	w.attempt = attempt{}
	return w.wait(ctx, group, hub.WaitsForTarget, reason, "")
}

// cannotCheck lets the members wait after their checks could not run.
func (w *worker) cannotCheck(ctx context.Context, cause error) error {
	if ctx.Err() != nil || hub.Unavailable(cause) {
		return cause
	}
	var group []hub.LandingEntry
	for _, m := range w.attempt.Members {
		group = append(group, m.Entry)
	}
	w.attempt = attempt{}
	return w.wait(ctx, group, hub.WaitsForChecks, "the checks cannot run: "+cause.Error(), "")
}

// cannotMerge lets an entry wait whose commit could not be merged for another reason than a
// conflict.
func (w *worker) cannotMerge(ctx context.Context, e hub.LandingEntry, cause error) error {
	if ctx.Err() != nil || hub.Unavailable(cause) {
		return cause
	}
	return w.wait(ctx, []hub.LandingEntry{e}, hub.WaitsForChecks, "git cannot merge it: "+cause.Error(), "")
}

// cannotMove returns the reason to wait after the target could not be moved, such as a file whose
// content the user's filter cannot get. It is tried again from time to time.
func (w *worker) cannotMove(ctx context.Context, cause error) (reason string, err error) {
	if ctx.Err() != nil || hub.Unavailable(cause) {
		return "", fmt.Errorf("landing: move %s: %w", w.policy.Into, cause)
	}
	return fmt.Sprintf("%s cannot be moved: %v", w.policy.Into, cause), nil
}

// holdAll lets all entries wait while the target cannot be read.
func (w *worker) holdAll(ctx context.Context, open []hub.LandingEntry, cause error) error {
	if ctx.Err() != nil || hub.Unavailable(cause) {
		return cause
	}
	reason := fmt.Sprintf("the branch %s cannot be read: %v", w.policy.Into, cause)
	group := slices.DeleteFunc(open, func(e hub.LandingEntry) bool { return e.State == hub.EntryWaiting })
	if len(group) == 0 {
		return nil
	}
	return w.wait(ctx, group, hub.WaitsForChecks, reason, "")
}

// alreadyThere ends an entry that would change nothing: the target has its commit, or its
// content.
func (w *worker) alreadyThere(ctx context.Context, e hub.LandingEntry, head Commit) error {
	isIn, err := w.s.git.Contains(ctx, w.policy.Repository, head.ID, e.Commit)
	if err != nil {
		return err
	}
	isIn = isIn && e.Undoes == ""
	if isIn {
		if isIn, err = w.stillThere(ctx, e, head); err != nil {
			return err
		}
		if !isIn {
			return w.returned(ctx, e, refusal{
				reason: fmt.Sprintf("%s has its commits, and not their content any more: it was changed or taken back since", e.Into),
				repair: "look at what changed there, and make a new commit with what is missing",
			})
		}
	}
	if !isIn {
		return w.returned(ctx, e, refusal{reason: fmt.Sprintf("it changes nothing in %s", e.Into), repair: "if the work is there already, cancel the entry with parley land cancel " + string(e.ID) + "; else do the work"})
	}
	return w.update(ctx, func(c *change) error {
		e, err := c.advance(e, hub.EntryLanded, actions.LandingLanded, func(e *hub.LandingEntry) {
			e.Reason = fmt.Sprintf("%s had it already", e.Into)
			e.LandedCommit = e.Commit
			e.Head = head.ID
		})
		if err != nil {
			return err
		}
		return c.tellLanded(e)
	})
}

// stillThere reports whether the target still has the content of an entry whose commits it has, as far
// as the queue brought them.
func (w *worker) stillThere(ctx context.Context, e hub.LandingEntry, head Commit) (bool, error) {
	all, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Queue: w.id, States: []hub.LandingState{hub.EntryLanded, hub.EntryUndone}, Newest: true, Limit: maxListed})
	})
	i := slices.IndexFunc(all, func(l hub.LandingEntry) bool {
		return l.Commit == e.Commit && l.LandedCommit != l.Commit && l.LandedCommit != ""
	})
	if err != nil || i < 0 {
		return err == nil, err
	}
	return w.isThere(ctx, head, all[i])
}

// A refusal is the reason with which an entry goes back to its owner.
type refusal struct {
	reason    string
	repair    string // what the owner does before the next try
	isSame    bool   // the next try may be with the same commit
	check     string
	output    string // the end of the output of the check
	results   []string
	conflicts []string
	artifacts []hub.ArtifactRef
	findings  []hub.ReviewFinding
}

// giveBack returns the member n, with the check that failed.
func (w *worker) giveBack(ctx context.Context, n int) error {
	m := w.attempt.Members[n-1]
	report := w.results[m.Made.ID]
	if report.State == string(hub.ResultInterrupted) { // once more, now that the entry is alone
		var err error
		report, err = w.check(ctx, m.Made, w.attempt.names(n), CheckRun{Since: m.Entry.QueuedAt})
		if err == nil {
			report.Fewer, err = w.fewerTests(ctx, n, report)
		}
		if err != nil {
			return w.cannotCheck(ctx, err)
		}
		w.results[m.Made.ID] = report
		if report.Passed && report.Fewer == "" {
			w.attempt.Green = n
			w.attempt.Red = len(w.attempt.Members) + 1
			return nil
		}
	}
	if report.Passed && report.Fewer != "" {
		return w.askAboutTests(ctx, report)
	}
	w.attempt = attempt{}

	f := refusal{
		reason: fmt.Sprintf("with it, %s fails the check %s", w.policy.Into, report.Failed),
		repair: fmt.Sprintf("merge %s into your branch and repair what %s reports", w.policy.Into, report.Failed),
		check:  report.Failed, output: report.Output, results: report.Results,
	}
	switch report.State {
	case "", string(hub.ResultFailed):
	case string(hub.ResultInterrupted):
		f.reason = fmt.Sprintf("the hub was killed twice while the check %s ran", report.Failed)
		f.repair = fmt.Sprintf("find out what ended the hub, then queue it again: parley land retry %s", m.Entry.ID)
	default:
		f.reason += " (" + strings.ReplaceAll(report.State, "_", " ") + ")"
	}
	if report.Output != "" {
		ref, err := w.s.mail.KeepText(report.Output)
		if err == nil {
			ref.Description = "output of " + report.Failed
			f.artifacts = append(f.artifacts, ref)
		}
	}
	return w.returned(ctx, m.Entry, f)
}

// returnConflict returns an entry that conflicts with the target, with the three texts of each
// file.
func (w *worker) returnConflict(ctx context.Context, e hub.LandingEntry, conflicts []Conflict) error {
	f := refusal{}
	for _, c := range conflicts {
		f.conflicts = append(f.conflicts, c.Path)
	}
	for _, c := range conflicts[:min(len(conflicts), maxTexts)] {
		ref, err := w.s.mail.KeepText(threeTexts(c, e.Into))
		if err != nil {
			w.s.log.Warn("cannot keep the texts of a conflict", "op", "landing.Return", "err", err)
			break
		}
		ref.Description = "the three texts of " + shorten.Bytes(c.Path, 100)
		f.artifacts = append(f.artifacts, ref)
	}
	f.reason = fmt.Sprintf("it conflicts with %s in %s", e.Into, listed(f.conflicts))
	f.repair = fmt.Sprintf("merge %s into your branch and resolve the conflicts", e.Into)
	return w.returned(ctx, e, f)
}

// threeTexts returns the texts of a conflict as one document.
func threeTexts(c Conflict, into string) string {
	var b strings.Builder
	for _, t := range []struct{ name, text string }{{"base", c.Base}, {into, c.Ours}, {"change", c.Theirs}} {
		fmt.Fprintf(&b, "======= %s: %s\n%s\n", t.name, c.Path, shorten.Bytes(t.text, maxText))
	}
	return b.String()
}

// returnAll returns entries because a contract does not hold.
func (w *worker) returnAll(ctx context.Context, entries []hub.LandingEntry, reason string) error {
	for _, e := range entries {
		f := refusal{reason: reason, repair: "agree on the contract with the repositories that use it", isSame: true}
		if err := w.returned(ctx, e, f); err != nil {
			return err
		}
	}
	return nil
}

// returned gives an entry back to its owner.
func (w *worker) returned(ctx context.Context, e hub.LandingEntry, f refusal) error {
	if err := w.update(ctx, func(c *change) error { return c.returned(e, f) }); err != nil {
		return err
	}
	return w.s.git.Drop(ctx, w.policy.Repository, keptName(e))
}

// returned gives an entry back to its owner, with a message that may wake it.
func (c *change) returned(e hub.LandingEntry, f refusal) error {
	wasTried := e.State == hub.EntryTrying
	e, err := c.advance(e, hub.EntryReturned, actions.LandingReturned, func(e *hub.LandingEntry) {
		if !wasTried { // a conflict takes no attempt, but it counts as one
			e.Tries++
		}
		e.Reason = f.reason
		e.Check = f.check
		e.Conflicts = f.conflicts
		e.Results = f.results
		e.Missing = []hub.GateMissing{{What: f.reason, Who: string(e.Owner), Next: f.repair}}
		if len(f.artifacts) > 0 {
			e.Output = f.artifacts[0].SHA256
		}
		if e.Returns >= maxReturns { // a former yes of the operator does not count any more
			e.Approved = ""
		}
	})
	if err != nil {
		return err
	}
	next, err := c.giveBack(e, f)
	if err != nil {
		return err
	}

	members := map[string]any{"landing": e.ID, "ref": e.Ref, "commit": e.Commit, "into": e.Into, "repository": e.Repository, "reason": e.Reason, "tries": e.Tries}
	if e.Handoff != "" {
		members["handoff_id"] = e.Handoff
	}
	if e.Task != "" {
		members["task_id"] = e.Task
	}
	if e.Check != "" {
		members["check"] = e.Check
		members["output"] = lastBytes(f.output, maxTail)
	}
	if len(e.Conflicts) > 0 {
		members["conflicts"] = e.Conflicts[:min(len(e.Conflicts), maxTexts)]
	}
	if len(f.findings) > 0 {
		members["findings"] = f.findings[:min(len(f.findings), maxTexts)]
	}
	err = c.post(notice{
		to: []hub.AgentID{e.Owner}, priority: hub.PriorityHigh, summary: fmt.Sprintf("%s (%s) did not land: %s", e.ID, c.refName(e), e.Reason), next: next,
		members: members, artifacts: f.artifacts,
	})
	if err != nil || e.Returns < maxReturns {
		return err
	}
	return c.tellOperator(fmt.Sprintf("%s of %s was returned %d times: %s", e.ID, e.Owner, e.Returns, e.Reason),
		"parley land retry "+string(e.ID)+", or cancel it", hub.NoticeSubject{Kind: hub.NoticeLanding, ID: string(e.ID)})
}

// giveBack makes the task of returned work active again, and returns the next step of its owner.
func (c *change) giveBack(e hub.LandingEntry, f refusal) (next string, err error) {
	if e.Subject() == "" && f.isSame {
		return fmt.Sprintf("%s, then queue the entry again: parley land retry %s", f.repair, e.ID), nil
	}
	if e.Subject() == "" || c.s.work == nil {
		return f.repair + ", then commit: the entry is queued again", nil
	}
	active, posted, err := c.s.work.Return(c.tx, Subject{e.Handoff, e.Task}, f.reason)
	if err != nil {
		return "", err
	}
	c.posted = append(c.posted, posted...)

	commit := "commit"
	if f.isSame {
		commit = "commit if you changed something"
	}
	name := c.refName(e)
	switch {
	case !active:
		return fmt.Sprintf("%s, then %s and land the branch: parley land BRANCH", f.repair, commit), nil
	case e.Handoff != "":
		return fmt.Sprintf("the task is yours again: %s, then %s and complete it: acp_handoff with action complete and handoff_id %s, or parley handoff complete %s", f.repair, commit, name, name), nil
	}
	return fmt.Sprintf("the task is yours again: take up %s, %s, then %s and submit it: state in_review", name, f.repair, commit), nil
}

// refName returns the name of an entry's work for people: the short id of a handoff, or the name
// that was given.
func (c *change) refName(e hub.LandingEntry) string {
	if e.Handoff == "" {
		return cmp.Or(e.Ref, string(e.Task))
	}
	short, err := c.tx.ShortID(string(e.Handoff))
	if err != nil || short == "" {
		return string(e.Handoff)
	}
	return string(short)
}

// tellLanded tells the owner of an entry, and the others who hear of it, that it has landed.
func (c *change) tellLanded(e hub.LandingEntry) error {
	return c.tellHearers(e, notice{
		priority: hub.PriorityNormal, summary: fmt.Sprintf("%s (%s) landed in %s as %.12s", e.ID, c.refName(e), e.Into, e.LandedCommit),
		members: map[string]any{"landing": e.ID, "ref": e.Ref, "commit": e.Commit, "landed_commit": e.LandedCommit, "into": e.Into, "repository": e.Repository},
	})
}

// tellHearers tells the owner of an entry about it, the sender of its handoff, and the owner of work that
// another agent landed. The next step and a high priority are for its owner alone.
func (c *change) tellHearers(e hub.LandingEntry, n notice) error {
	var others []hub.AgentID
	if e.Handoff != "" {
		n.members["handoff_id"] = e.Handoff
		h, err := c.tx.Handoff(e.Handoff)
		if ignoreMissing(err) != nil {
			return err
		}
		if err == nil && h.From != e.Owner {
			others = append(others, h.From)
		}
	}
	if e.Holder != "" {
		h, err := c.tx.Handoff(e.Holder)
		if ignoreMissing(err) != nil {
			return err
		}
		if err == nil && h.To != e.Owner && !slices.Contains(others, h.To) {
			others = append(others, h.To)
		}
	}
	n.to = []hub.AgentID{e.Owner}
	if n.next == "" {
		n.to = append(n.to, others...)
		return c.post(n)
	}
	if err := c.post(n); err != nil {
		return err
	}
	n.to = others
	n.next = ""
	n.priority = hub.PriorityNormal
	return c.post(n)
}
