package landing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// wanted returns the names of the checks that decide about an entry, and the parts that were not asked.
// missing is why the entry has to wait: a check that is not there any more, or none at all.
func (w *worker) wanted(e hub.LandingEntry, known []Check) (names, notAsked []string, missing string) {
	for _, name := range union(w.policy, known, e.Checks) {
		i := slices.IndexFunc(known, func(k Check) bool { return k.Name == name })
		switch {
		case e.Waives(name) || e.Waives(hub.GateChecks):
			notAsked = append(notAsked, "check "+name+": without it by the word of the operator")
		case i < 0:
			return nil, nil, fmt.Sprintf("the check %s was removed or renamed: %s has %s", name, shortName(w.policy.Repository), cmp.Or(strings.Join(namesOf(known), ", "), "none"))
		case known[i].InPlace:
			return nil, nil, fmt.Sprintf("the check %s runs in place, which does not count for landing", name)
		default:
			names = append(names, name)
		}
	}
	switch {
	case len(names)+len(notAsked) > 0:
	case w.policy.NoChecks:
		notAsked = append(notAsked, openText(w.policy, hub.GateChecks))
	case e.Waives(hub.GateChecks):
		notAsked = append(notAsked, "checks: without them by the word of the operator")
	default:
		return nil, nil, noCheck(w.policy, known)
	}
	return names, notAsked, ""
}

// shortName returns the last part of the folder of a repository.
func shortName(repository string) string {
	return repository[strings.LastIndexAny(repository, `/\\`)+1:]
}

// openText returns a gate that the operator opened, in words.
func openText(p hub.LandingPolicy, gate string) string {
	g, _ := p.Opened(gate)
	if g.By == "" {
		return gate + ": the policy asks for none"
	}
	return fmt.Sprintf("%s: opened by %s", gate, g.By)
}

// concern divides the checks of an entry into those that its change concerns and the others, which are
// named. Checks that its package or task asks for run in any case.
func (w *worker) concern(ctx context.Context, e hub.LandingEntry, from, to string, names []string) (run, notAsked []string, err error) {
	concerned, err := w.s.checks.Concerned(ctx, w.policy.Repository, from, to, names)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if slices.Contains(concerned, name) || slices.Contains(e.Checks, name) {
			run = append(run, name)
		} else {
			notAsked = append(notAsked, "check "+name+": the change does not concern it")
		}
	}
	return run, notAsked, nil
}

// holdForPolicy lets an entry wait because a part of its policy is missing: the operator can supply it.
func (w *worker) holdForPolicy(ctx context.Context, e hub.LandingEntry, reason string) error {
	return w.wait(ctx, []hub.LandingEntry{e}, hub.WaitsForChecks, reason, "")
}

// policyLine returns the line that changes the policy of an entry.
func policyLine(e hub.LandingEntry, more string) string {
	return fmt.Sprintf("parley land policy set --repo %s --into %s %s", e.Repository, e.Into, more)
}

// missingReview is the missing review of an entry.
func missingReview(e hub.LandingEntry, who, why string) []hub.GateMissing {
	what := "review"
	if why != "" {
		what += ": " + why
	}
	return []hub.GateMissing{{What: what, Who: who, Next: fmt.Sprintf("parley land review %s approve", cmp.Or(string(e.ID), string(e.Handoff)))}}
}

// missingFor returns the part that an entry waits for, with the one who can supply it.
func missingFor(kind hub.LandingWait, e hub.LandingEntry, reason string) []hub.GateMissing {
	m := hub.GateMissing{What: reason, Who: string(hub.Operator), Next: waitHint(kind, e)}
	switch kind {
	case hub.WaitsForOperator:
		m.Next = "parley approve " + string(e.ID)
	case hub.WaitsForChecks:
		m.Next = nextForChecks(e, reason)
	}
	return []hub.GateMissing{m}
}

// nextForChecks returns the line that ends the wait of an entry whose checks cannot decide.
func nextForChecks(e hub.LandingEntry, reason string) string {
	switch {
	case strings.Contains(reason, "no check is allowed"):
		return fmt.Sprintf("parley check add test --repo %s -- make test, or %s", e.Repository, policyLine(e, "--no-checks"))
	case strings.Contains(reason, "no check is asked for"), strings.Contains(reason, "was removed or renamed"), strings.Contains(reason, "runs in place"):
		return policyLine(e, "--check NAME")
	case strings.Contains(reason, "no check concerns"):
		return fmt.Sprintf("%s, or for this one alone: parley land approve %s --without checks --because TEXT", policyLine(e, "--unconcerned-lands"), e.ID)
	}
	return "parley show " + string(e.ID)
}

// answered completes the answer of the gate for an entry in its state.
func answered(e hub.LandingEntry) hub.LandingEntry {
	switch e.State {
	case hub.EntryLanded:
		e.Answer = hub.AnswerYes
		e.Missing = nil
	case hub.EntryReturned, hub.EntryCancelled, hub.EntryUndone:
		e.Answer = hub.AnswerNo
		if e.State == hub.EntryReturned && len(e.Missing) == 0 {
			e.Missing = []hub.GateMissing{{What: e.Reason, Who: string(e.Owner), Next: "repair it, commit, and land it again"}}
		}
	default:
		e.Answer = hub.AnswerWait
		if e.State == hub.EntryWaiting && len(e.Missing) == 0 {
			e.Missing = missingFor(e.Waits, e, e.Reason)
		}
	}
	for i := range e.Missing {
		e.Missing[i].What = cut(e.Missing[i].What)
		e.Missing[i].Next = cut(e.Missing[i].Next)
	}
	return e
}

// cut bounds a text of an answer, so that the whole stays short.
func cut(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// evidence returns everything that lets an entry land, but for its checks: its reviews, its contracts
// and the word of the operator.
func (w *worker) evidence(ctx context.Context, e hub.LandingEntry) (asked []hub.GateEvidence, notAsked []string, err error) {
	reviews, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.Review, error) { return reviewsOf(r, e) })
	if err != nil {
		return nil, nil, err
	}
	for _, v := range reviews {
		if v.Commit == e.Commit && v.State == hub.ReviewStateApproved {
			asked = append(asked, hub.GateEvidence{What: "review", Evidence: string(v.ID) + " " + v.Verdict, Of: v.Commit, By: v.By, At: v.GivenAt})
		}
	}
	if len(asked) == 0 {
		notAsked = append(notAsked, openText(w.policy, hub.GateReview))
	}
	switch {
	case w.s.contracts == nil:
	case w.policy.NoContracts, e.Waives(hub.GateContracts):
		notAsked = append(notAsked, openText(w.policy, hub.GateContracts))
	default:
		contracts, err := w.s.contracts.Names(ctx, w.policy.Repository)
		if err != nil {
			return nil, nil, err
		}
		if len(contracts) == 0 {
			notAsked = append(notAsked, hub.GateContracts+": this repository has none")
			break
		}
		asked = append(asked, hub.GateEvidence{What: hub.GateContracts, Evidence: cut(strings.Join(contracts, ", ")) + ": none is broken", Of: e.Commit, By: hub.Self, At: w.s.clock.Now()})
	}
	if e.Approved != "" {
		asked = append(asked, hub.GateEvidence{What: "yes", Evidence: "approved", Of: e.Commit, By: e.Approved, At: e.QueuedAt})
	}
	for _, v := range e.Without {
		if v.Commit == e.Commit {
			asked = append(asked, hub.GateEvidence{What: "without " + v.What, Evidence: cut(v.Because), Of: v.Commit, By: v.By, At: v.At})
		}
	}
	return asked, notAsked, nil
}

// Waive lets one commit of an entry land without a part: a check, all checks, its review or its
// contracts. It is the word of a person, so only the operator may.
func (s *Service) Waive(ctx context.Context, actor hub.Caller, id hub.LandingID, what, because string) (out hub.LandingEntry, err error) {
	const op = "landing.Waive"
	if err := actor.OperatorOnly(op); err != nil {
		return out, err
	}
	if strings.TrimSpace(because) == "" || len(because) > maxReason {
		return out, hub.Errorf(hub.CodeInvalid, op, "because is required: the reason, at most %d bytes", maxReason)
	}
	e, p, err := s.entryWithPolicy(ctx, op, id)
	if err != nil {
		return e, err
	}
	known, err := s.checks.Known(ctx, e.Repository)
	if err != nil {
		return e, err
	}
	parts := append(union(p, known, e.Checks), hub.GateChecks, hub.GateReview, hub.GateContracts)
	if !slices.Contains(parts, what) {
		return e, hub.Errorf(hub.CodeInvalid, op, "%s asks for no %.100q", id, what).WithHint("without one of %s", hub.JoinWords(parts))
	}

	e.Without = append(slices.Clone(e.Without), hub.Waiver{What: what, Because: because, Commit: e.Commit, By: actor.ID, At: s.clock.Now()})
	piece, err := s.pieceOf(ctx, e)
	if err != nil {
		return e, err
	}
	ask, err := s.question(ctx, p, e, piece)
	if err != nil {
		return e, err
	}
	err = s.update(ctx, actor, nil, func(c *change) error {
		now, err := c.owned(op, id)
		if err != nil {
			return err
		}
		if now.State != hub.EntryReturned && !now.State.Open() {
			return hub.Errorf(hub.CodeConflict, op, "%s is %s: only entries that wait or were returned can be let through", id, now.State)
		}
		if s.isMoving(now) || now.Commit != e.Commit {
			return hub.Errorf(hub.CodeConflict, op, "%s changed meanwhile", id).WithHint("look at it again: parley show %s", id)
		}
		now.Without = e.Without
		now.Approved = actor.ID
		now.QueuedAt = c.now
		out, err = c.admit(p, now, ask)
		return err
	})
	return out, err
}

// entryWithPolicy returns an entry with the policy of its queue.
func (s *Service) entryWithPolicy(ctx context.Context, op string, id hub.LandingID) (e hub.LandingEntry, p hub.LandingPolicy, err error) {
	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		if e, err = r.Landings().Entry(id); hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeNotFound, op, "no landing %.50q", id).WithHint("{landings} lists them")
		}
		if err != nil {
			return err
		}
		p, err = policyOf(r, e.Queue())
		return err
	})
	return e, p, err
}

// noteUndone records that the target does not have a landed change any more, and tells the agents that
// heard of the landing. by is the entry that took it back, nil for a commit of a person; reason may be "".
func (c *change) noteUndone(id hub.LandingID, by *hub.LandingEntry, reason string) error {
	e, err := c.tx.Landings().Entry(id)
	if err != nil || e.State != hub.EntryLanded {
		return ignoreMissing(err)
	}
	because := reason
	took := "was taken back from " + e.Into
	if by != nil {
		because = cmp.Or(reason, whose(*by)+" undoes it")
		took += " by " + whose(*by)
	}
	if reason != "" {
		took += ": " + reason
	}

	e, err = c.advance(e, hub.EntryUndone, actions.LandingUndone, func(e *hub.LandingEntry) {
		if by != nil {
			e.UndoneBy = by.ID
		}
		e.Because = because
		e.Reason = because
	})
	if err != nil {
		return err
	}
	members := map[string]any{"landing": e.ID, "ref": e.Ref, "commit": e.Commit, "into": e.Into, "because": because}
	if by != nil {
		members["undone_by"] = by.ID
	}
	return c.tellHearers(e, notice{
		priority: hub.PriorityHigh, summary: fmt.Sprintf("%s (%s) %s", e.ID, c.refName(e), took),
		next: "read why; to bring it back, repair it, commit, and land the branch again", members: members,
	})
}

// whose names an entry with its owner, for a text.
func whose(e hub.LandingEntry) string {
	if e.Owner == hub.Operator {
		return string(e.ID) + " of the operator"
	}
	return fmt.Sprintf("%s of %s", e.ID, e.Owner)
}

// noteRestored records that the undo of a change was undone, by another entry, and tells the agents that
// heard of the undo.
func (c *change) noteRestored(id hub.LandingID, by hub.LandingEntry) error {
	e, err := c.tx.Landings().Entry(id)
	if err != nil || e.State != hub.EntryUndone {
		return ignoreMissing(err)
	}
	e, err = c.advance(e, hub.EntryLanded, actions.LandingLanded, func(e *hub.LandingEntry) { e.Reason = "its undo was taken back" })
	if err != nil {
		return err
	}
	return c.tellHearers(e, notice{
		priority: hub.PriorityNormal, summary: fmt.Sprintf("%s (%s) is in %s again: its undo was taken back by %s", e.ID, c.refName(e), e.Into, whose(by)),
		members: map[string]any{"landing": e.ID, "ref": e.Ref, "commit": e.Commit, "into": e.Into},
	})
}
