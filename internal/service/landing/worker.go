package landing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Run works on the queues of this machine until ctx ends, each beside the others.
func (s *Service) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	running := map[string]context.CancelFunc{}
	if err := s.nameInherited(ctx); err != nil {
		s.failed("landing.Run")(err)
	}
	s.follow(ctx, hub.Consumer{
		Name: "landing.Run",
		Gap:  20 * time.Millisecond,
		Step: func(ctx context.Context, _ hub.Store) (time.Duration, error) {
			policies, err := s.policies(ctx)
			if err != nil {
				return hub.FollowRest, err
			}
			known := map[string]bool{}
			for _, p := range policies {
				known[p.ID()] = p.Machine == s.machine
				if running[p.ID()] != nil || p.Machine != s.machine {
					continue
				}
				work, stop := context.WithCancel(ctx)
				running[p.ID()] = stop
				group.Go(func() { s.tend(work, p.ID()) })
			}
			for id, stop := range running {
				if !known[id] {
					stop()
					delete(running, id)
				}
			}
			if err := s.lookForReviews(ctx, policies); err != nil {
				return hub.FollowRest, err
			}
			if err := s.lookForOthers(ctx); err != nil {
				return hub.FollowRest, err
			}
			return hub.FollowRest, s.sweepReviews(ctx)
		},
		Failed: s.failed("landing.Run"),
	})
	return ctx.Err()
}

// nameInherited tells the operator once what is open in policies of an earlier version, and under which
// policies nothing lands. Nothing is opened or changed by that.
func (s *Service) nameInherited(ctx context.Context) error {
	all, err := s.Views(ctx)
	if err != nil {
		return err
	}
	var lines, ids []string
	next := ""
	for _, v := range all {
		isKnown := !v.NamedAt.IsZero()
		for _, n := range v.inherited() {
			if !isKnown {
				lines = append(lines, n.Text)
				ids = append(ids, v.ID())
				next = cmp.Or(next, n.Next)
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(ids)
	return s.update(ctx, self, nil, func(c *change) error {
		for _, id := range slices.Compact(ids) {
			p, err := policyOf(c.tx, id)
			if err != nil {
				return ignoreMissing(err)
			}
			p.NamedAt = c.now
			if err := c.tx.WriteLandings().PutPolicy(p); err != nil {
				return err
			}
			if err := c.recordPolicy(p, p.Digest()); err != nil {
				return err
			}
		}
		return c.post(notice{
			to: []hub.AgentID{hub.Operator}, priority: hub.PriorityHigh, summary: "landing policies need your decision: " + strings.Join(lines, "; "),
			next: cmp.Or(next, "parley land policy; close a gate with parley land policy set"), members: map[string]any{"policies": lines},
		})
	})
}

func (s *Service) failed(op string) func(error) {
	return func(err error) {
		s.log.Warn("cannot work on a landing queue", "op", op, "code", hub.CodeOf(err), "err", err)
	}
}

// policies returns all policies.
func (s *Service) policies(ctx context.Context) ([]hub.LandingPolicy, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.LandingPolicy, error) { return r.Landings().Policies() })
}

// tend works on one queue until ctx ends.
func (s *Service) tend(ctx context.Context, id string) {
	w := &worker{s: s, id: id}
	s.follow(ctx, hub.Consumer{
		Name:   "landing/" + id,
		Gap:    20 * time.Millisecond,
		Step:   func(ctx context.Context, _ hub.Store) (time.Duration, error) { return w.turn(ctx) },
		Failed: s.failed("landing.tend"),
	})
}

// A worker does the work of one queue. Its attempt is in memory alone: after a kill the entries
// that were being tried are tried again.
type worker struct {
	s          *Service
	id         string
	policy     hub.LandingPolicy
	lease      hub.Lease
	attempt    attempt
	results    map[string]CheckReport // of the attempt, by the commits that were tried
	green      string                 // the last head of the target whose checks passed
	greenNames []string               // those checks
	looked     hub.Time               // when branches and finished work were last looked at
	passed     []Finished             // finished work that needs nothing more
}

// turn works on the queue until there is nothing to do, under its lease, and returns the time to
// rest.
func (w *worker) turn(ctx context.Context) (time.Duration, error) {
	lease, err := w.s.store.Lease(ctx, "landing/"+w.id, leaseTime)
	if hub.CodeOf(err) == hub.CodeConflict {
		w.attempt = attempt{}
		return hub.FollowRest, nil
	}
	if err != nil {
		return hub.FollowRest, err
	}
	if lease != w.lease { // another process worked meanwhile
		w.lease = lease
		w.attempt = attempt{}
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	go w.renew(work, stop)

	for {
		more, err := w.work(work)
		if err != nil {
			w.attempt = attempt{}
		}
		if hub.CodeOf(err) == hub.CodeConflict {
			return 0, nil // an entry was changed meanwhile, or the lease is lost
		}
		if err != nil {
			return hub.FollowRest, err
		}
		if !more {
			return hub.FollowRest, nil
		}
	}
}

// renew keeps the lease while the queue is worked on. If it is lost, the work ends.
func (w *worker) renew(ctx context.Context, stop context.CancelFunc) {
	tick := time.NewTicker(leaseTime / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		lease, err := w.s.store.Lease(ctx, "landing/"+w.id, leaseTime)
		isLost := hub.CodeOf(err) == hub.CodeConflict || (err == nil && lease != w.lease)
		if isLost {
			stop()
			return
		}
	}
}

// update changes the store as the holder of the lease.
func (w *worker) update(ctx context.Context, fn func(*change) error) error {
	return w.s.update(ctx, self, &w.lease, fn)
}

// work does one step of the queue and reports whether there may be more to do.
func (w *worker) work(ctx context.Context) (more bool, err error) {
	err = w.s.store.View(ctx, func(r hub.Reader) (err error) {
		w.policy, err = policyOf(r, w.id)
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, nil // landing is off
	}
	if err != nil {
		return false, err
	}
	if err := w.look(ctx); err != nil {
		return false, err
	}

	open, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.LandingEntry, error) {
		return r.Landings().Entries(hub.LandingQuery{Queue: w.id, States: hub.OpenLandings, Limit: maxOpen})
	})
	if err != nil {
		return false, err
	}
	if len(open) == 0 {
		w.attempt = attempt{}
		return false, w.watch(ctx, false)
	}
	head, err := w.s.git.Branch(ctx, w.policy.Repository, w.policy.Into)
	if err != nil {
		return false, w.holdAll(ctx, open, err)
	}
	if changed, err := w.recover(ctx, head, open); err != nil || changed {
		return changed, err
	}

	todo := next(situation{Head: head.ID, Open: w.ready(open, head.ID), Attempt: w.attempt})
	if todo.Move == moveRest {
		return false, w.watch(ctx, true)
	}
	return true, w.do(ctx, todo, head)
}

// do performs a step.
func (w *worker) do(ctx context.Context, todo step, head Commit) error {
	switch todo.Move {
	case moveAgain:
		w.attempt = attempt{}
		return nil
	case moveTake:
		return w.take(ctx, head, todo.Order)
	case moveTry:
		return w.try(ctx, todo.N)
	case moveTarget:
		return w.tryTarget(ctx, head)
	case moveLand:
		return w.land(ctx, head, todo.N)
	case moveReturn:
		return w.giveBack(ctx, todo.N)
	case moveHold:
		return w.holdForTarget(ctx)
	}
	return nil
}

// ready returns the entries that may be taken up: queued ones, those that are being tried, and
// waiting ones for which it is worth trying again.
func (w *worker) ready(open []hub.LandingEntry, head string) []hub.LandingEntry {
	now := w.s.clock.Now()
	return slices.DeleteFunc(slices.Clone(open), func(e hub.LandingEntry) bool {
		if e.State != hub.EntryWaiting {
			return false
		}
		isLater := now.Sub(e.MovedAt.Time) >= againAfter
		switch e.Waits {
		case hub.WaitsForFolder:
			return e.Step != "" || !isLater
		case hub.WaitsForTarget:
			return e.Head == head
		case hub.WaitsForChecks:
			return !isLater && w.policy.SetAt.Before(e.MovedAt.Time)
		}
		return true
	})
}

// recover finds entries that were about to land: those that the target has have landed. The
// target of the others is moved now, if it only waited for a working tree; else they are tried
// again.
func (w *worker) recover(ctx context.Context, head Commit, open []hub.LandingEntry) (changed bool, err error) {
	byStep := map[string][]hub.LandingEntry{}
	for _, e := range open {
		if e.Step != "" {
			byStep[e.Step] = append(byStep[e.Step], e)
		}
	}
	for tip, group := range byStep {
		isIn, err := w.s.git.Contains(ctx, w.policy.Repository, head.ID, tip)
		if err != nil {
			return false, err
		}
		switch {
		case isIn:
			err = w.landed(ctx, group, tip)
		case group[0].State == hub.EntryWaiting && group[0].Head == head.ID:
			changed, err = w.forwardAgain(ctx, group, tip)
			if err != nil || !changed {
				return changed, err
			}
			continue
		case group[0].State == hub.EntryWaiting:
			err = w.wait(ctx, group, hub.WaitsForFolder, group[0].Reason, "")
		default:
			err = w.forget(ctx, group)
		}
		if err != nil {
			return false, err
		}
		changed = true
	}
	if changed {
		w.attempt = attempt{}
	}
	return changed, nil
}

// forwardAgain moves the target for entries that waited for a working tree. While the reason is
// the same, nothing is written.
func (w *worker) forwardAgain(ctx context.Context, group []hub.LandingEntry, tip string) (changed bool, err error) {
	defer w.s.move(group)()
	got, err := w.s.git.Forward(ctx, w.policy.Repository, w.policy.Into, group[0].Head, tip)
	if err != nil {
		if got.Waits, err = w.cannotMove(ctx, err); err != nil {
			return false, err
		}
	}
	switch {
	case got.Moved:
		return true, w.landed(ctx, group, tip)
	case got.Stale:
		return true, w.wait(ctx, group, hub.WaitsForFolder, group[0].Reason, "")
	case got.Waits == group[0].Reason:
		return false, nil
	}
	return true, w.wait(ctx, group, hub.WaitsForFolder, got.Waits, tip)
}

// forget takes up entries again that were about to land and did not.
func (w *worker) forget(ctx context.Context, group []hub.LandingEntry) error {
	return w.update(ctx, func(c *change) error {
		for _, e := range group {
			if _, err := c.advance(e, hub.EntryTrying, actions.LandingTried, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// take begins an attempt: it merges entries onto the head, one after the other, until the batch
// is full. An entry that conflicts with the target goes back; one that conflicts with another
// entry of the batch stays in the queue until that one has landed.
func (w *worker) take(ctx context.Context, head Commit, entries []hub.LandingEntry) error {
	if returned, err := w.returnBroken(ctx, entries[:min(len(entries), max(1, w.policy.Batch))]); err != nil || returned {
		return err
	}

	known, err := w.s.checks.Known(ctx, w.policy.Repository)
	if err != nil {
		return err
	}
	a := attempt{Head: head.ID}
	tip := head
	for _, e := range entries {
		if len(a.Members) == max(1, w.policy.Batch) {
			break
		}
		names, notAsked, missing := w.wanted(e, known)
		if missing != "" {
			return w.holdForPolicy(ctx, e, missing)
		}
		made, err := w.merge(ctx, tip, e)
		if err != nil {
			return w.cannotMerge(ctx, e, err)
		}
		switch {
		case len(made.Conflicts) > 0 && len(a.Members) > 0:
			continue
		case len(made.Conflicts) > 0:
			return w.returnConflict(ctx, e, made.Conflicts)
		case made.Commit.ID == tip.ID || made.Commit.Tree == tip.Tree:
			if len(a.Members) > 0 {
				continue
			}
			return w.alreadyThere(ctx, e, head)
		}
		if waits, err := w.admitAgain(ctx, tip, made.Commit, e); err != nil || waits {
			return err
		}
		run, others, err := w.concern(ctx, e, tip.ID, made.Commit.ID, names)
		if err != nil {
			return w.cannotMerge(ctx, e, err)
		}
		if len(names) > 0 && len(run) == 0 && !w.policy.UnconcernedLands {
			return w.holdForPolicy(ctx, e, fmt.Sprintf("no check concerns the change: %s", strings.Join(names, ", ")))
		}
		e.NotAsked = append(notAsked, others...)
		a.Members = append(a.Members, member{e, made.Commit, run})
		tip = made.Commit
	}

	a.Red = len(a.Members) + 1
	a.HeadKnow = w.green == head.ID && !slices.ContainsFunc(a.names(len(a.Members)), func(name string) bool { return !slices.Contains(w.greenNames, name) })
	if err := w.begin(ctx, &a); err != nil {
		return err
	}
	w.attempt = a
	w.results = map[string]CheckReport{}
	return nil
}

// returnBroken returns the entries that the contracts of the repository do not allow, and reports
// whether there were some. An entry that undoes a landing has no commit of its own to ask about.
func (w *worker) returnBroken(ctx context.Context, entries []hub.LandingEntry) (returned bool, err error) {
	if w.s.contracts == nil {
		return false, nil
	}
	if w.policy.NoContracts {
		return false, nil
	}
	for _, e := range entries {
		if e.Waives(hub.GateContracts) {
			continue
		}
		candidate := Commit{ID: e.Commit, Tree: e.Tree}
		if e.Undoes != "" {
			candidate = Commit{}
		}
		broken, err := w.s.contracts.Broken(ctx, w.policy.Repository, candidate)
		if err == nil && broken != "" {
			returned = true
			err = w.returnAll(ctx, []hub.LandingEntry{e}, broken)
		}
		if err != nil {
			return returned, err
		}
	}
	return returned, nil
}

// merge merges an entry onto a commit, or takes back the landing that it undoes. The copy lacks the
// commit if another hub queued it: then it is brought.
func (w *worker) merge(ctx context.Context, onto Commit, e hub.LandingEntry) (Merge, error) {
	made, err := w.mergeHere(ctx, onto, e)
	if err == nil || ctx.Err() != nil {
		return made, err
	}
	if _, missing := w.s.git.Resolve(ctx, w.policy.Repository, e.Commit); missing != nil {
		return made, err
	}
	return w.mergeHere(ctx, onto, e)
}

// mergeHere is merge with the commits that the copy has.
func (w *worker) mergeHere(ctx context.Context, onto Commit, e hub.LandingEntry) (Merge, error) {
	if e.Undoes != "" {
		return w.s.git.Revert(ctx, w.policy.Repository, onto, e.Commit, undoMessage(e))
	}
	undone, err := w.undoneWork(ctx, onto.ID, e)
	if err != nil {
		return Merge{}, err
	}
	if len(undone) > 0 {
		return w.mergeAgain(ctx, onto, e, undone)
	}
	return w.s.git.Merge(ctx, w.policy.Repository, onto, Commit{ID: e.Commit, Tree: e.Tree}, mergeMessage(e))
}

// begin records that the members of an attempt are being tried.
func (w *worker) begin(ctx context.Context, a *attempt) error {
	tip := a.Members[len(a.Members)-1].Made
	if err := w.s.git.Keep(ctx, w.policy.Repository, keptName(a.Members[0].Entry), tip.ID); err != nil {
		return err
	}
	members := slices.Clone(a.Members)
	err := w.update(ctx, func(c *change) error {
		for i, m := range members {
			isSame := m.Entry.State == hub.EntryTrying && m.Entry.Merged == m.Made.ID
			if isSame {
				continue
			}
			e, err := c.advance(m.Entry, hub.EntryTrying, actions.LandingTried, func(e *hub.LandingEntry) {
				e.Merged = m.Made.ID
				e.Head = a.Head
				e.NotAsked = m.Entry.NotAsked
			})
			if err != nil {
				return err
			}
			a.Members[i].Entry = e
		}
		return nil
	})
	return err
}

// keptName names the commits of the copy that are tried.
func keptName(e hub.LandingEntry) string { return "landing/" + string(e.ID) }

// try runs the checks on the first n members together.
func (w *worker) try(ctx context.Context, n int) error {
	got, err := w.check(ctx, w.attempt.Members[n-1].Made, w.attempt.names(n), CheckRun{})
	if err != nil {
		return w.cannotCheck(ctx, err)
	}
	if got.Fewer, err = w.fewerTests(ctx, n, got); err != nil {
		return w.cannotCheck(ctx, err)
	}
	w.results[w.attempt.Members[n-1].Made.ID] = got
	w.attempt = w.attempt.tried(n, got.Passed && got.Fewer == "")
	return nil
}

// fewerTests returns a text if the target would have fewer tests with the first n members than it
// has. Such a batch counts as red, so that it is divided until the member is alone that removes
// tests; that one needs a review. One that was reviewed lands alone.
func (w *worker) fewerTests(ctx context.Context, n int, got CheckReport) (string, error) {
	if !got.Passed || len(got.Tests) == 0 {
		return "", nil
	}
	if n == 1 {
		isReviewed, err := w.isReviewed(ctx, w.attempt.Members[0].Entry)
		if err != nil || isReviewed {
			return "", err
		}
	}
	before, ok := w.results[w.attempt.Head]
	if !ok {
		head, err := w.s.git.Resolve(ctx, w.policy.Repository, w.attempt.Head)
		if err != nil {
			return "", err
		}
		if before, err = w.check(ctx, head, w.attempt.names(n), CheckRun{Target: true}); err != nil {
			return "", err
		}
		w.results[w.attempt.Head] = before
		w.attempt.HeadKnow = before.Passed
	}
	if !before.Passed {
		return "", nil
	}
	return fell(before, got), nil
}

// fell returns a text if fewer tests of a check passed than before; "" if none did.
func fell(before, now CheckReport) string {
	for _, name := range slices.Sorted(maps.Keys(before.Tests)) {
		if text := now.Tests[name].Fewer(before.Tests[name]); text != "" {
			return text
		}
	}
	return ""
}

// isReviewed reports whether the reviewer who gives the word approved the commit of an entry, or the
// operator lets it land without a review. An entry that undoes a landing needs none.
func (w *worker) isReviewed(ctx context.Context, e hub.LandingEntry) (bool, error) {
	if e.Undoes != "" || e.Waives(hub.GateReview) {
		return true, nil
	}
	all, err := hub.Read(ctx, w.s.store, func(r hub.Reader) ([]hub.Review, error) { return reviewsOf(r, e) })
	word := wordOf(w.policy, nil)
	isApproval := func(v hub.Review) bool {
		return v.Commit == e.Commit && v.State == hub.ReviewStateApproved && v.Answers(word)
	}
	return slices.ContainsFunc(all, isApproval), err
}

// askAboutTests lets the first member wait for a review, because the target would have fewer tests
// with it, as its report says. It lands if it was reviewed, or if a member before it removed the
// tests, which landed meanwhile.
func (w *worker) askAboutTests(ctx context.Context, report CheckReport) error {
	e := w.attempt.Members[0].Entry
	isReviewed, err := w.isReviewed(ctx, e)
	if err != nil {
		return err
	}
	fewer := report.Fewer
	if before, ok := w.results[w.attempt.Head]; ok {
		fewer = fell(before, report)
	}
	if isReviewed || fewer == "" {
		w.attempt.Green = 1
		w.attempt.Red = len(w.attempt.Members) + 1
		return nil
	}
	w.attempt = attempt{}
	e.Fewer = fewer
	return w.askForWord(ctx, e)
}

// tryTarget runs the checks on the head of the target.
func (w *worker) tryTarget(ctx context.Context, head Commit) error {
	got, err := w.check(ctx, head, w.attempt.names(1), CheckRun{Target: true, Since: w.attempt.Members[0].Entry.QueuedAt})
	if err != nil {
		return w.cannotCheck(ctx, err)
	}
	w.results[head.ID] = got
	if !got.Passed {
		w.s.setTarget(w.id, Target{Commit: head.ID, State: TargetRed, Check: got.Failed})
	}
	w.attempt.HeadKnow = got.Passed
	w.attempt.HeadRed = !got.Passed
	return nil
}

// check runs checks on a commit of the copy, in the way that run says.
func (w *worker) check(ctx context.Context, c Commit, names []string, run CheckRun) (CheckReport, error) {
	if len(names) == 0 {
		return CheckReport{Passed: true}, nil
	}
	w.s.beginLive(w.id, w.attempt.Members, c)
	defer w.s.endLive(w.id)
	run.Repository = w.policy.Repository
	run.Names = names
	run.Commit = c
	run.Repeat = w.policy.Repeat
	return w.s.checks.Run(ctx, run)
}

// A live is the commit whose checks a queue runs now.
type live struct {
	entries []hub.LandingID
	commit  Commit
	since   hub.Time
}

func (s *Service) beginLive(queue string, members []member, c Commit) {
	l := &live{commit: c, since: s.clock.Now()}
	for _, m := range members {
		l.entries = append(l.entries, m.Entry.ID)
		if m.Made.ID == c.ID {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[queue] = l
}

func (s *Service) endLive(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, queue)
}

// land moves the target to the first n members, which passed the checks together. Each records
// the commit before.
func (w *worker) land(ctx context.Context, head Commit, n int) error {
	tip := w.attempt.Members[n-1].Made
	report := w.results[tip.ID]
	answers := make([]hub.GateAnswer, n)
	for i, m := range w.attempt.Members[:n] {
		asked, notAsked, err := w.evidence(ctx, m.Entry)
		if err != nil {
			return err
		}
		answers[i] = hub.GateAnswer{Asked: append(evidenceOf(report, m.Names), asked...), NotAsked: append(slices.Clone(m.Entry.NotAsked), notAsked...)}
	}
	var group []hub.LandingEntry
	err := w.update(ctx, func(c *change) error {
		group = nil
		for i, m := range w.attempt.Members[:n] {
			e, err := c.advance(m.Entry, hub.EntryTrying, actions.LandingTried, func(e *hub.LandingEntry) {
				e.Step = tip.ID
				e.Merged = m.Made.ID
				e.Head = head.ID
				e.Results = report.Results
				e.GateAnswer = answers[i]
			})
			if err != nil {
				return err
			}
			group = append(group, e)
		}
		return nil
	})
	if err != nil {
		return err
	}

	got, err := w.s.git.Forward(ctx, w.policy.Repository, w.policy.Into, head.ID, tip.ID)
	if err != nil {
		if got.Waits, err = w.cannotMove(ctx, err); err != nil {
			return err
		}
	}
	switch {
	case got.Moved:
		names := w.attempt.names(n)
		w.attempt = w.attempt.landed(n)
		w.green = tip.ID
		w.greenNames = names
		if len(names) > 0 {
			w.s.setTarget(w.id, Target{Commit: tip.ID, State: TargetGreen})
		}
		return w.landed(ctx, group, tip.ID)
	case got.Stale:
		w.attempt = attempt{}
		return w.forget(ctx, group)
	}
	w.attempt = attempt{}
	return w.waitForTree(ctx, group, tip.ID, got)
}

// evidenceOf returns the evidence of some checks.
func evidenceOf(report CheckReport, names []string) (out []hub.GateEvidence) {
	for _, asked := range report.Asked {
		if slices.Contains(names, strings.TrimPrefix(asked.What, "check ")) {
			out = append(out, asked)
		}
	}
	return out
}

// goneWith returns the landings that a group of entries took back with the word of a reviewer, by the
// entries.
func (w *worker) goneWith(ctx context.Context, group []hub.LandingEntry, tip string) (map[hub.LandingID][]hub.LandingEntry, error) {
	out := map[hub.LandingID][]hub.LandingEntry{}
	for _, e := range group {
		if len(e.Takes) == 0 {
			continue
		}
		landed, err := w.newestLanded(ctx, maxLandings)
		if err != nil {
			return nil, err
		}
		landed = slices.DeleteFunc(landed, func(l hub.LandingEntry) bool { return !slices.Contains(e.Takes, l.ID) })
		if out[e.ID], err = w.takenBack(ctx, e.Merged+"^1", tip, landed); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// landed records that the target has entries, and which others it does not have any more.
func (w *worker) landed(ctx context.Context, group []hub.LandingEntry, tip string) error {
	gone, err := w.goneWith(ctx, group, tip)
	if err != nil {
		return err
	}
	err = w.update(ctx, func(c *change) error {
		for _, e := range group {
			landed := e.Merged
			results := e.Results
			answer := e.GateAnswer
			e, err := c.advance(e, hub.EntryLanded, actions.LandingLanded, func(e *hub.LandingEntry) {
				e.LandedCommit = landed
				e.Head = tip
				e.Results = results
				e.GateAnswer = answer
			})
			if err != nil {
				return err
			}
			if err := c.noteGone(e, gone[e.ID]); err != nil {
				return err
			}
			if e.Handoff != "" && w.s.work != nil {
				posted, err := w.s.work.Reviewed(c.tx, e.Handoff, nil)
				if err != nil {
					return err
				}
				c.posted = append(c.posted, posted...)
			}
			if err := c.tellLanded(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range group {
		if err := w.s.git.Drop(ctx, w.policy.Repository, keptName(e)); err != nil {
			return err
		}
	}
	return nil
}

// noteGone records the landings that an entry took back: the one that it undoes, and others.
func (c *change) noteGone(e hub.LandingEntry, gone []hub.LandingEntry) error {
	for _, l := range gone {
		if err := c.noteUndone(l.ID, &e, "it "+e.TakesBack); err != nil {
			return err
		}
	}
	if e.Undoes == "" {
		return nil
	}
	undone, err := c.tx.Landings().Entry(e.Undoes)
	if err != nil {
		return ignoreMissing(err)
	}
	if err := c.noteUndone(undone.ID, &e, e.Because); err != nil || undone.Undoes == "" {
		return err
	}
	return c.noteRestored(undone.Undoes, e)
}

// waitForTree lets entries wait for a working tree in which the target is checked out. Members
// whose own files are not in the way go on without the others.
func (w *worker) waitForTree(ctx context.Context, group []hub.LandingEntry, tip string, got Forwarding) error {
	var blocked, free []hub.LandingEntry
	before := group[0].Head
	for _, e := range group {
		files, err := w.s.git.Files(ctx, w.policy.Repository, before, e.Merged)
		if err != nil {
			return err
		}
		before = e.Merged
		isInTheWay := slices.ContainsFunc(files, func(f File) bool { return slices.Contains(got.Paths, f.Path) })
		if isInTheWay {
			blocked = append(blocked, e)
		} else {
			free = append(free, e)
		}
	}
	if len(blocked) == 0 || len(free) == 0 {
		return w.wait(ctx, group, hub.WaitsForFolder, got.Waits, tip)
	}
	if err := w.forget(ctx, free); err != nil {
		return err
	}
	return w.wait(ctx, blocked, hub.WaitsForFolder, got.Waits, "")
}
