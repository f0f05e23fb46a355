package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Request asks for one run of a check.
type Request struct {
	Folder   string // in the repository
	Name     string
	Commit   string        // a revision; the commit that is checked out if empty
	Contract string        // a version of a contract to test, such as User@2; may be empty
	Again    bool          // run it though there is a kept result
	Wait     time.Duration // for the result; at most MaxWait
}

// Run runs a check on a commit, or returns the result that is kept for the same tree and the same
// check. It waits as long as the request says; then the result may still be queued or running.
func (s *Service) Run(ctx context.Context, actor hub.Caller, q Request) (hub.CheckResult, error) {
	const op = "check.Run"
	if q.Commit == "" {
		q.Commit = "HEAD"
	}
	plan, err := s.plan(ctx, q.Folder, q.Commit)
	if err != nil {
		return hub.CheckResult{}, err
	}
	c := named(plan.Checks, q.Name)
	if c == nil {
		return hub.CheckResult{}, unknown(op, plan.Repository, q.Name, plan.Checks)
	}
	plan.Checks = []hub.RepositoryCheck{*c}

	if q.Contract != "" {
		if s.contracts == nil {
			return hub.CheckResult{}, hub.Errorf(hub.CodeNotEnabled, op, "this hub knows no contracts")
		}
		ref, err := s.contracts.Version(ctx, plan.Repository, q.Contract)
		if err != nil {
			return hub.CheckResult{}, err
		}
		plan.Contract = &ref
	}

	begun := s.clock.Now() // a short run may be over before this call goes on
	var ids []hub.CheckResultID
	err = s.update(ctx, func(tx hub.Tx) (err error) {
		ids, err = s.queue(tx, actor, plan, "", repetition{all: q.Again})
		return err
	})
	if err != nil {
		return hub.CheckResult{}, err
	}
	if err := s.Wait(ctx, ids, q.Wait); err != nil {
		return hub.CheckResult{}, err
	}
	out, err := s.Result(ctx, ids[0])
	out.Kept = out.State.Over() && out.EndedAt.Before(begun.Time)
	return out, err
}

// plan returns a commit of the repository around a folder, with all checks of the repository. The
// commit is in the hub's copy afterwards, and stays there.
func (s *Service) plan(ctx context.Context, folder, revision string) (hub.CheckPlan, error) {
	p := hub.CheckPlan{Worktree: folder}
	var err error
	if p.Repository, err = s.repos.Find(ctx, folder); err != nil {
		return p, err
	}
	commit, err := s.repos.Fetch(ctx, folder, revision)
	if err != nil {
		return p, err
	}
	p.Commit = commit.ID
	p.Tree = commit.Tree
	if err := s.repos.Keep(ctx, folder, "checked/"+commit.ID, commit.ID); err != nil {
		return p, err
	}
	if p.Fills, err = s.repos.OnTarget(ctx, folder, commit.ID); err != nil {
		return p, err
	}

	err = s.store.View(ctx, func(r hub.Reader) (err error) {
		policy, err := r.Checks().Policy(p.Repository)
		if err != nil {
			return err
		}
		p.Require = s.required(policy)
		p.Checks, err = r.Checks().OfRepository(p.Repository)
		return err
	})
	return p, err
}

// queue stores a run for each check of a plan whose result is not known, and returns the ids of all
// results in the order of the checks.
func (s *Service) queue(tx hub.Tx, actor hub.Caller, p hub.CheckPlan, handoff hub.HandoffID, again repetition) (ids []hub.CheckResultID, err error) {
	for _, c := range p.Checks {
		same, err := sameRuns(tx, c, p)
		if err != nil {
			return nil, err
		}
		known := answerOf(same, s.hub)
		isRepeated := again.all || again.mayRepeat(same, known)
		if known != "" && !isRepeated && !c.InPlace {
			ids = append(ids, known)
			continue
		}
		r := hub.CheckResult{
			Repository: p.Repository, Name: c.Name, Command: c.Command, Digest: c.Digest, Commit: p.Commit, Tree: p.Tree, State: hub.ResultQueued, InPlace: c.InPlace,
			Again: again.all, Fills: p.Fills, By: actor.ID, Handoff: handoff, Contract: p.Contract, QueuedAt: s.clock.Now(),
		}
		if p.Repository.Machine == s.machine {
			r.Hub = s.hub // a run on another machine is for any hub there
		}
		if c.InPlace {
			r.Worktree = p.Worktree
		}
		id, err := tx.WriteChecks().PutResult(r, "")
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// sameRuns returns the runs of the same check on the same tree, for the same version of a contract,
// newest first.
func sameRuns(r hub.Reader, c hub.RepositoryCheck, p hub.CheckPlan) ([]hub.CheckResult, error) {
	found, err := r.Checks().Results(hub.CheckResultQuery{Repository: p.Repository, Tree: p.Tree, Digest: c.Digest, Limit: maxListed})
	return slices.DeleteFunc(found, func(v hub.CheckResult) bool { return !hub.SameContract(v.Contract, p.Contract) }), err
}

// A repetition says which checks run though they have a result.
type repetition struct {
	all              bool
	interruptedSince hub.Time // those whose run was interrupted, unless two were since then; zero for none
}

// mayRepeat reports whether an answer is a run that was interrupted, and may be made again.
func (r repetition) mayRepeat(same []hub.CheckResult, answer hub.CheckResultID) bool {
	n := 0
	isAnswer := false
	for _, v := range same {
		if v.State != hub.ResultInterrupted {
			continue
		}
		isAnswer = isAnswer || v.ID == answer
		if !v.QueuedAt.Before(r.interruptedSince.Time) {
			n++
		}
	}
	return isAnswer && n < 2 && !r.interruptedSince.IsZero()
}

// answerOf chooses, from the runs of one check on one tree, the result that answers a request; ""
// if none does. A failure counts until the operator runs the check again: repeating a check until
// it passes proves nothing. A run that is under way on this hub answers if no run ended with a result:
// one of another hub may have ended with it. The last answer is a run that was interrupted: it may have
// killed the hub.
func answerOf(same []hub.CheckResult, here string) (id hub.CheckResultID) {
	var open, interrupted hub.CheckResultID
	for _, r := range same {
		byOperator := r.Again && r.By == hub.Operator
		switch {
		case r.InPlace:
		case !r.State.Over():
			if open == "" && (r.Hub == here || r.Hub == "") {
				open = r.ID
			}
		case r.State == hub.ResultInterrupted:
			interrupted = cmp.Or(interrupted, r.ID)
		case r.State == hub.ResultFailed:
			return r.ID
		case r.State == hub.ResultPassed && byOperator: // what was before it does not count
			return cmp.Or(id, r.ID)
		case r.State == hub.ResultPassed && id == "":
			id = r.ID
		}
	}
	return cmp.Or(id, open, interrupted)
}

// seen returns a result as readers see it: whether its check is flaky and, if they want it, the end of
// its output, which for a run under way comes as it is written.
func (s *Service) seen(r hub.Reader, v hub.CheckResult, withTail bool) (hub.CheckResult, error) {
	same, err := r.Checks().Results(hub.CheckResultQuery{
		Repository: v.Repository, Tree: v.Tree, Digest: v.Digest, States: []hub.CheckState{hub.ResultPassed, hub.ResultFailed}, Limit: maxListed,
	})
	if err != nil {
		return v, err
	}
	v.Flaky = v.State.Decided() && slices.ContainsFunc(same, func(o hub.CheckResult) bool {
		return o.State != v.State && o.InPlace == v.InPlace && hub.SameContract(o.Contract, v.Contract)
	})
	if !withTail {
		return v, nil
	}
	if v.Output.Tail, err = r.Checks().Tail(v.ID); err != nil || v.State != hub.ResultRunning {
		return v, err
	}
	s.mu.Lock()
	live := s.live[v.ID]
	s.mu.Unlock()
	if live != nil {
		last, _ := live.Bytes()
		v.Output.Tail = text(last)
	}
	return v, nil
}

// text returns output as text that can be stored and sent.
func text(output []byte) string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(output), "\x00", "\uFFFD"), "\uFFFD")
}

// Result returns a result with the end of its output.
func (s *Service) Result(ctx context.Context, id hub.CheckResultID) (hub.CheckResult, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (hub.CheckResult, error) {
		v, err := r.Checks().Result(id)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return v, hub.Errorf(hub.CodeNotFound, "check.Result", "no result %.50q", id)
		}
		if err != nil {
			return v, err
		}
		return s.seen(r, v, true)
	})
}

// Seen returns results by their ids, in the same order, as readers see them.
func (s *Service) Seen(r hub.Reader, ids []hub.CheckResultID, withTails bool) (out []hub.CheckResult, err error) {
	for _, id := range ids {
		v, err := r.Checks().Result(id)
		if err == nil {
			v, err = s.seen(r, v, withTails)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// A Page is a page of results, newest first.
type Page struct {
	Results []hub.CheckResult `json:"results"`
	Next    hub.CheckResultID `json:"next,omitempty"` // cursor of the page after this one
}

// Results returns results without the ends of their outputs.
func (s *Service) Results(ctx context.Context, q hub.CheckResultQuery) (Page, error) {
	if q.Limit <= 0 || q.Limit > maxListed {
		q.Limit = 50
	}
	q.Limit++
	return hub.Read(ctx, s.store, func(r hub.Reader) (Page, error) {
		found, err := r.Checks().Results(q)
		out := Page{Results: []hub.CheckResult{}}
		if len(found) == q.Limit {
			found = found[:q.Limit-1]
			out.Next = found[len(found)-1].ID
		}
		for _, v := range found {
			if err == nil {
				v, err = s.seen(r, v, false)
			}
			out.Results = append(out.Results, v)
		}
		return out, err
	})
}

// Wait waits until results are over, at most as long as it says.
func (s *Service) Wait(ctx context.Context, ids []hub.CheckResultID, most time.Duration) error {
	hints, cancel := s.bus.Subscribe(hub.TopicChecks)
	defer cancel()
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		over, err := s.over(ctx, ids)
		if err != nil || over {
			return err
		}
		select {
		case <-hints:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// over reports whether all results are.
func (s *Service) over(ctx context.Context, ids []hub.CheckResultID) (bool, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (bool, error) {
		for _, id := range ids {
			v, err := r.Checks().Result(id)
			if err != nil || !v.State.Over() {
				return false, err
			}
		}
		return true, nil
	})
}

// Allowed returns a check of the repository around a folder by its name.
func (s *Service) Allowed(ctx context.Context, folder, name string) (hub.RepositoryCheck, error) {
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return hub.RepositoryCheck{}, err
	}
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(repo) })
	if err != nil {
		return hub.RepositoryCheck{}, err
	}
	if c := named(all, name); c != nil {
		return *c, nil
	}
	return hub.RepositoryCheck{}, unknown("check.Allowed", repo, name, all)
}

// Known returns the names of the checks of the repository around a folder.
func (s *Service) Known(ctx context.Context, folder string) ([]string, error) {
	repo, err := s.repos.Find(ctx, folder)
	if err != nil {
		return nil, err
	}
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.RepositoryCheck, error) { return r.Checks().OfRepository(repo) })
	return hub.CheckPlan{Checks: all}.Names(), err
}

// Sum returns the word for results, and the first one that did not pass.
func Sum(results []hub.CheckResult) (hub.ChecksWord, *hub.CheckResult) {
	word := hub.ChecksNone
	for i := range results {
		r := &results[i]
		switch {
		case !r.State.Over():
			word = hub.ChecksRunning
		case r.State != hub.ResultPassed:
			return hub.ChecksFailed, r
		case word == hub.ChecksNone:
			word = hub.ChecksPassed
		}
	}
	return word, nil
}

// Try runs checks on a commit and returns when all are over: the word for them, and their results
// with the ends of their outputs. Kept results are used, unless the checks are to run again; a run that
// was interrupted is made again, unless two were since a time; never for the zero time.
func (s *Service) Try(ctx context.Context, actor hub.Caller, p hub.CheckPlan, again bool, since hub.Time) (hub.ChecksWord, []hub.CheckResult, error) {
	var ids []hub.CheckResultID
	err := s.update(ctx, func(tx hub.Tx) (err error) {
		ids, err = s.queue(tx, actor, p, "", repetition{all: again, interruptedSince: since})
		return err
	})
	for over := false; err == nil && !over; {
		if err = s.Wait(ctx, ids, time.Hour); err == nil {
			over, err = s.over(ctx, ids)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("check: try %s: %w", p.Commit, err)
	}
	results, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.CheckResult, error) { return s.Seen(r, ids, true) })
	word, _ := Sum(results)
	return word, results, err
}
