package landing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// The states of the head of a target branch.
const (
	TargetGreen     = "green"
	TargetRed       = "red"
	TargetUnchecked = "unchecked" // no check is asked for, or the checks could not run
)

// maxHeadLandings bounds the landings that are compared with a head that something else moved.
const maxHeadLandings = 50

// A Target is the head of a target branch, as its checks judge it.
type Target struct {
	Commit string   `json:"commit"`
	State  string   `json:"state"`
	Since  hub.Time `json:"since,omitzero"`  // of the state
	Check  string   `json:"check,omitempty"` // that fails
	By     string   `json:"by,omitempty"`    // the authors of the commits that something else than the queue brought
	Reason string   `json:"reason,omitempty"`

	judged hub.Time // when the checks were last asked
}

// targetOf returns the head of the target of a policy; nil if it was not judged yet.
func (s *Service) targetOf(p hub.LandingPolicy) *Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.target[p.ID()]
	if !ok {
		return nil
	}
	return &t
}

// setTarget records the state of the head of a target. Since stays while the state does.
func (s *Service) setTarget(id string, t Target) (before Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.target[id]
	t.judged = s.clock.Now()
	t.Since = t.judged
	if before.State == t.State && !before.Since.IsZero() {
		t.Since = before.Since
	}
	s.target[id] = t
	return before
}

// watch judges the head of the target if something else than the queue moved it: it runs the checks on
// it, tells the operator and the author of a red head, and notes landings that it takes back. It is
// called when the queue has nothing else to do. A head that was there when the hub began is judged by
// kept results alone, unless entries wait.
func (w *worker) watch(ctx context.Context, hasOpen bool) error {
	head, err := w.s.git.Branch(ctx, w.policy.Repository, w.policy.Into)
	if err != nil {
		return nil // entries that wait say so
	}
	before := w.s.targetOf(w.policy)
	if before != nil && before.Commit == head.ID {
		isEarly := w.s.clock.Now().Sub(before.judged.Time) < againAfter
		if before.State != TargetUnchecked || isEarly || !hasOpen {
			return nil
		}
	}
	if head, err = w.s.git.Resolve(ctx, w.policy.Repository, head.ID); err != nil {
		return ignoreMissing(err)
	}
	if err := w.judge(ctx, head, before == nil && !hasOpen); err != nil {
		return err
	}
	old := ""
	if before != nil {
		old = before.Commit
	} else if old, err = w.lastHead(ctx); err != nil { // it may have been moved while the hub was stopped
		return err
	}
	if old == "" || old == head.ID {
		return nil
	}
	return w.noteMoved(ctx, old, head, before != nil)
}

// lastHead returns the commit to which the queue moved the target last, as far as the newest landings
// say; "" if there is none.
func (w *worker) lastHead(ctx context.Context) (string, error) {
	landed, err := w.newestLanded(ctx, maxHeadLandings)
	if err != nil || len(landed) == 0 {
		return "", err
	}
	last := slices.MaxFunc(landed, func(a, b hub.LandingEntry) int { return a.MovedAt.Compare(b.MovedAt.Time) })
	return last.Head, nil
}

// judge runs the checks of the policy and of the repository on a head of the target.
func (w *worker) judge(ctx context.Context, head Commit, kept bool) error {
	t := Target{Commit: head.ID, State: TargetUnchecked}
	known, err := w.s.checks.Known(ctx, w.policy.Repository)
	if err != nil {
		return err
	}
	names, _, missing := w.wanted(hub.LandingEntry{}, known)
	if missing != "" || len(names) == 0 {
		t.Reason = missing
		w.s.setTarget(w.id, t)
		return nil
	}
	w.s.beginLive(w.id, nil, head)
	report, err := w.s.checks.Run(ctx, CheckRun{Repository: w.policy.Repository, Names: names, Commit: head, Target: true, Repeat: w.policy.Repeat, Kept: kept})
	w.s.endLive(w.id)
	if ctx.Err() != nil || hub.Unavailable(err) {
		return err
	}
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound && kept:
	case err != nil:
		t.Reason = shorten.Bytes("the checks cannot run: "+err.Error(), maxReason)
	case report.Passed:
		t.State = TargetGreen
		w.green = head.ID
		w.greenNames = names
	default:
		t.State = TargetRed
		t.Check = report.Failed
	}
	w.s.setTarget(w.id, t)
	return nil
}

// noteMoved tells the operator and the authors that something else than the queue made the target red,
// if the hub saw it move, and the owners of landings that it took back.
func (w *worker) noteMoved(ctx context.Context, before string, head Commit, wasSeen bool) error {
	landed, err := w.newestLanded(ctx, maxHeadLandings)
	if err != nil {
		return err
	}
	isOwn := func(l hub.LandingEntry) bool { return l.Head == head.ID }
	if slices.ContainsFunc(landed, isOwn) { // the queue brought it, without checks by the operator's word
		return nil
	}
	now := w.s.targetOf(w.policy)
	moved, err := w.s.git.Change(ctx, w.policy.Repository, before, head.ID, 0)
	if err != nil {
		return nil // the branch was set to another history
	}
	w.s.mu.Lock()
	t := w.s.target[w.id]
	t.By = shorten.Bytes(strings.Join(moved.Authors, ", "), maxRef)
	w.s.target[w.id] = t
	w.s.mu.Unlock()

	gone, err := w.takenBack(ctx, before, head.ID, landed)
	if err != nil {
		return err
	}
	isRed := wasSeen && now.State == TargetRed
	if !isRed && len(gone) == 0 {
		return nil
	}
	return w.update(ctx, func(c *change) error {
		for _, l := range gone {
			if err := c.noteUndone(l.ID, nil, fmt.Sprintf("a commit by %s took it back (%.12s)", t.By, head.ID)); err != nil {
				return err
			}
		}
		if !isRed {
			return nil
		}
		summary := fmt.Sprintf("%s of %s is red at %.12s, which %s brought: the check %s fails", w.policy.Into, shortName(w.policy.Repository), head.ID, t.By, now.Check)
		next := fmt.Sprintf("repair %s; entries that pass with it still land", w.policy.Into)
		return c.post(notice{
			to: append([]hub.AgentID{hub.Operator}, c.agentsNamed(moved.Authors)...), priority: hub.PriorityHigh, summary: summary, next: next,
			members: map[string]any{"repository": w.policy.Repository, "into": w.policy.Into, "commit": head.ID, "check": now.Check},
		})
	})
}

// agentsNamed returns the agents whose names some authors have exactly.
func (c *change) agentsNamed(authors []string) (out []hub.AgentID) {
	for _, name := range authors {
		id := hub.AgentID(name)
		isHubs := id == hub.Operator || id == hub.Self
		if !id.Valid() || slices.Contains(out, id) || isHubs {
			continue
		}
		if _, err := c.tx.Agent(id); err == nil {
			out = append(out, id)
		}
	}
	return out
}

// A Note is a line about a policy that a person should see.
type Note struct {
	Text string   `json:"text"` // such as "main of shop lands without checks: operator"
	At   hub.Time `json:"at,omitzero"`
	Bad  bool     `json:"bad,omitempty"` // nothing lands, or the target is red
	Next string   `json:"next,omitempty"`
}

// inherited returns the notes about gates that no operator opened by name, and about what keeps everything
// from landing.
func (v View) inherited() (out []Note) {
	own := slices.DeleteFunc(slices.Clone(v.Open), func(o hub.OpenGate) bool { return o.By != "" })
	return View{LandingPolicy: v.LandingPolicy, Open: own, Unchecked: v.Unchecked, Absent: v.Absent}.Notes()
}

// Notes returns what a person should see about a policy: the gates that are open, a policy under which
// nothing lands, and the state of the target.
func (v View) Notes() (out []Note) {
	where := v.Into + " of " + shortName(v.Repository)
	for _, o := range v.Open {
		by := string(o.By)
		if by == "" {
			by = "a policy of an earlier version"
		}
		out = append(out, Note{Text: fmt.Sprintf("%s lands without %s: %s", where, o.Gate, by), At: o.At})
	}
	if v.Unchecked != "" {
		at := hub.LandingEntry{Repository: v.Repository, Into: v.Into}
		out = append(out, Note{Text: fmt.Sprintf("nothing lands in %s: %s", where, v.Unchecked), Bad: true, Next: nextForChecks(at, v.Unchecked)})
	}
	if v.Absent != "" {
		next := fmt.Sprintf("parley land policy set --repo %s --into %s --review WHO", v.Repository, v.Into)
		out = append(out, Note{Text: fmt.Sprintf("nothing lands in %s: it waits for the review of %s: %s", where, v.Review, v.Absent), Bad: true, Next: next})
	}
	if t := v.Target; t != nil {
		n := Note{Text: fmt.Sprintf("%s is %s at %.12s", where, t.State, t.Commit), At: t.Since, Bad: t.State == TargetRed}
		if t.Check != "" {
			n.Text += ": the check " + t.Check + " fails"
			n.Next = "parley check run " + t.Check + " --repo " + v.Repository
		}
		if t.By != "" {
			n.Text += "; moved by " + t.By
		}
		out = append(out, n)
	}
	return out
}
