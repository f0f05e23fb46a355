package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/tail"
)

const (
	lookEvery = 15 * time.Second // the time between two looks for queued runs without a hint
	retryIn   = time.Second      // after an error of the store
)

// Serve runs the queued checks of this hub until ctx ends, and returns when their processes have
// ended. Runs that an earlier process of the hub left are interrupted first. Another hub on the same
// machine has other copies of repositories, which lack the commits: it does not take them.
func (s *Service) Serve(ctx context.Context) {
	hints, cancel := s.bus.Subscribe(hub.TopicChecks)
	defer cancel()
	var runs sync.WaitGroup
	defer runs.Wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()

	recovered := false
	for {
		err := error(nil)
		if !recovered {
			err = s.recover(ctx)
			recovered = err == nil
		}
		if err == nil {
			err = s.startNext(ctx, &runs)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("checks could not be started", "op", "check.Serve", "code", hub.CodeOf(err), "err", err)
			tick.Reset(retryIn)
		} else {
			tick.Reset(lookEvery)
		}
		select {
		case <-hints:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// open returns the runs of this hub that are in a state, oldest first.
func (s *Service) open(r hub.Reader, state hub.CheckState) (out []hub.CheckResult, err error) {
	found, err := r.Checks().Results(hub.CheckResultQuery{States: []hub.CheckState{state}, Limit: 10_000})
	for i := range found {
		v := found[len(found)-1-i]
		isOurs := v.Hub == s.hub || v.Hub == ""
		if v.Machine == s.machine && isOurs {
			out = append(out, v)
		}
	}
	return out, err
}

// recover ends the runs that a killed process of the hub left. One of them may have killed it, so none
// begins again by itself. The operator is told, the agent that asked for the run, and the owner of the
// handoff whose completion asked for it.
func (s *Service) recover(ctx context.Context) error {
	var told []hub.Message
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		told = nil
		left, err := s.open(tx, hub.ResultRunning)
		if err != nil {
			return err
		}
		for _, v := range left {
			if s.isRunning(v.ID) {
				continue
			}
			over, err := v.Advance(hub.ResultInterrupted, s.clock.Now())
			if err != nil {
				return err
			}
			over.ExitCode = -1
			over.Reason = "the hub was killed during the run"
			if err := s.record(tx, over, v.State); err != nil {
				return err
			}
			messages, err := s.tellInterrupted(tx, over)
			if err != nil {
				return err
			}
			told = append(told, messages...)
		}
		return nil
	})
	if err == nil {
		s.say(told...)
		s.hint()
	}
	return err
}

// tellInterrupted writes the messages about a run that was interrupted.
func (s *Service) tellInterrupted(tx hub.Tx, v hub.CheckResult) (told []hub.Message, err error) {
	to := []hub.AgentID{hub.Operator}
	add := func(agent hub.AgentID) error {
		if agent == "" || agent == hub.Self || slices.Contains(to, agent) {
			return nil
		}
		_, err := tx.Agent(agent)
		if hub.CodeOf(err) == hub.CodeNotFound { // one of another hub, or it was removed
			return nil
		}
		to = append(to, agent)
		return err
	}
	if err := add(v.By); err != nil {
		return nil, err
	}
	if v.Handoff != "" {
		h, err := tx.Handoff(v.Handoff)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound { // a task of a team has a name there
			return nil, err
		}
		if err := add(h.To); err != nil {
			return nil, err
		}
	}

	text := fmt.Sprintf("%s (%s in %s)", v.Failure(), v.ID, v.Path)
	for _, agent := range to {
		m, err := s.tell(tx, agent, map[string]any{"code": hub.CodeDegraded, "message": text, "result": v.ID})
		if err != nil {
			return nil, err
		}
		if m.ID != "" {
			told = append(told, m)
		}
	}
	return told, nil
}

func (s *Service) isRunning(id hub.CheckResultID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.running[id]
	return ok
}

// startNext starts queued runs while there is room for them.
func (s *Service) startNext(ctx context.Context, runs *sync.WaitGroup) error {
	for ctx.Err() == nil {
		queued, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.CheckResult, error) { return s.open(r, hub.ResultQueued) })
		if err != nil {
			return err
		}
		next, ok := s.take(queued)
		if !ok {
			return nil
		}
		started, c, err := s.begin(ctx, next)
		if err != nil || c == nil {
			s.drop(next.ID)
			if err != nil && hub.CodeOf(err) != hub.CodeConflict {
				return err
			}
			continue
		}
		runs.Go(func() { s.execute(ctx, started, *c) })
	}
	return nil
}

// A lane is what runs have in common that wait for each other: those of one repository, and of those
// the ones that a landing queue tries.
type lane struct {
	hub.Repository
	tries bool
}

func laneOf(v hub.CheckResult) lane { return lane{v.Repository, v.By == hub.Self} }

// take chooses the run that is next, and counts it as running: of the repository with the fewest runs
// under way, of the landing queues or of the others, whichever have fewer or did not have the last turn
// in the repository, and of those the oldest. One repository never has all slots: its checks may not
// end. ok is false if there is none, or no room.
func (s *Service) take(queued []hub.CheckResult) (next hub.CheckResult, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) >= s.jobs {
		return next, false
	}
	busy := map[hub.Repository]int{}
	kinds := map[bool]int{}
	for _, l := range s.running {
		busy[l.Repository]++
		kinds[l.tries]++
	}
	hadTurn := func(v hub.CheckResult) int {
		if s.last[v.Repository] == laneOf(v) {
			return 1
		}
		return 0
	}
	order := func(a, b hub.CheckResult) int {
		return cmp.Or(
			cmp.Compare(busy[a.Repository], busy[b.Repository]),
			cmp.Compare(kinds[laneOf(a).tries], kinds[laneOf(b).tries]),
			cmp.Compare(hadTurn(a), hadTurn(b)),
		)
	}
	for _, v := range queued {
		_, isTaken := s.running[v.ID]
		isLastSlot := s.jobs > 1 && busy[v.Repository] >= s.jobs-1
		if isTaken || isLastSlot {
			continue
		}
		if !ok || order(v, next) < 0 {
			next = v
			ok = true
		}
	}
	if ok {
		s.running[next.ID] = laneOf(next)
		s.last[next.Repository] = laneOf(next)
		s.live[next.ID] = tail.NewBuffer(tailBytes)
	}
	return next, ok
}

// drop counts a run as over.
func (s *Service) drop(id hub.CheckResultID) {
	s.mu.Lock()
	delete(s.running, id)
	delete(s.live, id)
	s.mu.Unlock()
}

// begin moves a queued run to running, and returns its check. A run whose check the operator removed
// or changed meanwhile is cancelled: then the check is nil.
func (s *Service) begin(ctx context.Context, v hub.CheckResult) (hub.CheckResult, *hub.RepositoryCheck, error) {
	var c *hub.RepositoryCheck
	started := v
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := tx.Checks().OfRepository(v.Repository)
		if err != nil {
			return err
		}

		// A check that the operator removed or changed meanwhile is not run.
		c = named(all, v.Name)
		if c == nil || c.Digest != v.Digest {
			c = nil
			over, err := v.Advance(hub.ResultCancelled, s.clock.Now())
			if err != nil {
				return err
			}
			over.Reason = "the operator removed or changed the check"
			return s.record(tx, over, v.State)
		}

		if started, err = v.Advance(hub.ResultRunning, s.clock.Now()); err != nil {
			return err
		}
		started.Hub = s.hub
		_, err = tx.WriteChecks().PutResult(started, v.State)
		return err
	})

	if err == nil {
		s.hint()
	}
	return started, c, err
}

// runFacts are the facts of the journal entry about a run.
type runFacts struct {
	Repository string         `json:"repository"`
	Name       string         `json:"name"`
	Commit     string         `json:"commit"`
	Tree       string         `json:"tree"`
	Digest     string         `json:"digest"` // of the check
	State      hub.CheckState `json:"state"`
	ExitCode   int            `json:"exit_code"`
	Output     string         `json:"output_sha256,omitempty"`
	Handoff    hub.HandoffID  `json:"handoff_id,omitempty"`
	SHA256     string         `json:"sha256"` // of the result
}

// record stores the end of a run with its journal entry.
func (s *Service) record(tx hub.Tx, v hub.CheckResult, was hub.CheckState) error {
	if _, err := tx.WriteChecks().PutResult(v, was); err != nil {
		return err
	}
	facts := runFacts{
		Repository: v.Path, Name: v.Name, Commit: v.Commit, Tree: v.Tree, Digest: v.Digest, State: v.State, ExitCode: v.ExitCode,
		Output: v.Output.SHA256, Handoff: v.Handoff, SHA256: v.RecordDigest(),
	}
	by := hub.Caller{ID: v.By}
	_, err := tx.Append(by.Entry(v.EndedAt, actions.CheckRun, string(v.ID), facts))
	return err
}

// execute runs a check to its end and stores the result. A run that the end of the hub cut off is
// queued again.
func (s *Service) execute(ctx context.Context, v hub.CheckResult, c hub.RepositoryCheck) {
	s.mu.Lock()
	live := s.live[v.ID]
	s.mu.Unlock()
	var got Outcome
	err := hub.Contain("check.Run", func() (err error) {
		var content []byte
		if v.Contract != nil {
			if content, err = s.contracts.Content(ctx, *v.Contract); err != nil {
				return err
			}
		}
		got, err = s.runner.Run(ctx, Job{
			Repository: v.Repository, Commit: Commit{ID: v.Commit, Tree: v.Tree}, Check: c, Fills: v.Fills, Folder: v.Worktree, Live: live, Contract: content,
		})
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.log.Warn("a check could not be run", "op", "check.Run", "result", v.ID, "err", err)
		got.State = hub.ResultNotStarted
		got.Reason = reason(err)
	}

	// The end is stored though the hub may be about to end.
	next := v
	if ctx.Err() != nil && (err != nil || got.Abandoned) {
		next.State = hub.ResultQueued
		next.StartedAt = hub.Time{}
	} else {
		next = s.ended(v, got)
	}
	closeOutput(got)
	after := context.WithoutCancel(ctx)
	if next.State == hub.ResultPassed && c.JUnit != "" {
		next.Note = s.fewerTests(after, next)
		next.Fewer = next.Note != ""
	}
	if err := s.finish(after, next, v.State); err != nil {
		s.log.Error("the result of a check could not be stored; it counts as interrupted after the next start", "op", "check.Run", "result", v.ID, "err", err)
	}
	s.drop(v.ID)
	s.hint()
	s.tidy(after)
}

func closeOutput(got Outcome) {
	if got.Output != nil {
		got.Output.Close()
	}
}

// reason returns an error in the words that its user reads.
func reason(err error) string {
	var e *hub.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// ended returns a run with its outcome. Its whole output becomes an artifact, if there is room.
func (s *Service) ended(v hub.CheckResult, got Outcome) hub.CheckResult {
	next, err := v.Advance(got.State, s.clock.Now())
	if err != nil { // a runner that returns another state than it may
		next.State = hub.ResultNotStarted
		next.EndedAt = s.clock.Now()
		got.Reason = fmt.Sprintf("the runner reported %q", got.State)
	}
	next.ExitCode = got.ExitCode
	next.Millis = got.Duration.Milliseconds()
	next.Tests = got.Tests
	next.Confined = got.Confined
	next.Level = got.Level
	next.Not = got.Not
	next.InPlace = got.InPlace
	next.Before = got.Before
	next.After = got.After
	next.Reason = got.Reason
	next.Output = hub.CheckOutput{Bytes: got.Bytes, SHA256: got.SHA256, Tail: text(got.Tail)}
	if got.Output == nil || got.Bytes == 0 || s.content == nil {
		return next
	}
	_, sum, _, err := s.content.Put(got.Output)
	if err != nil {
		s.log.Warn("the output of a check could not be kept", "op", "check.Run", "result", v.ID, "err", err)
		return next
	}
	next.Output.Artifact = sum
	return next
}

// finish stores a run that ended, or one that is queued again.
func (s *Service) finish(ctx context.Context, v hub.CheckResult, was hub.CheckState) error {
	return s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		if !v.State.Over() {
			_, err := tx.WriteChecks().PutResult(v, was)
			return err
		}
		if err := share(tx, v); err != nil {
			return err
		}
		return s.record(tx, v, was)
	})
}

// share lets the agent that asked for a run read its output, and the parties of the handoff.
func share(tx hub.Tx, v hub.CheckResult) error {
	if v.Output.Artifact == "" {
		return nil
	}
	readers := []hub.AgentID{v.By}
	if v.Handoff != "" {
		h, err := tx.Handoff(v.Handoff)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound { // a task of a team has a name there
			return err
		}
		readers = append(readers, h.From, h.To)
	}
	for _, agent := range readers {
		if agent == "" {
			continue
		}
		if err := tx.AddArtifactReader(v.Output.Artifact, agent); err != nil {
			return err
		}
	}
	return nil
}

// maxBefore is the number of commits of the target branch whose results are looked for.
const maxBefore = 50

// fewerTests returns a note if more tests of a check passed on the commit of the target branch on which
// the commit of v is based: work may have removed or skipped some. Of that branch the nearest commit
// with a result counts. The note is empty if no result is known.
func (s *Service) fewerTests(ctx context.Context, v hub.CheckResult) string {
	failed := func(err error) string {
		s.log.Warn("the tests of a check could not be compared with those before", "op", "check.Run", "result", v.ID, "err", err)
		return ""
	}
	base, err := s.repos.Before(ctx, v.Path, v.Commit, maxBefore)
	if err != nil {
		return failed(err)
	}
	var now hub.TestCount
	if v.Tests != nil {
		now = *v.Tests
	}
	before, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.TestCount, error) { return testsBefore(r, v, base) })
	if err != nil {
		return failed(err)
	}
	return now.Fewer(before)
}

// testsBefore returns the tests of the check of v on the first of some commits that has a result; none
// if no commit has.
func testsBefore(r hub.Reader, v hub.CheckResult, base []Commit) (hub.TestCount, error) {
	for _, c := range base {
		if c.Tree == v.Tree {
			continue
		}
		known, err := r.Checks().Results(hub.CheckResultQuery{Repository: v.Repository, Name: v.Name, Tree: c.Tree, States: []hub.CheckState{hub.ResultPassed}, Limit: maxListed})
		if err != nil {
			return hub.TestCount{}, err
		}
		for _, e := range known {
			if e.Tests != nil && !e.InPlace {
				return *e.Tests, nil
			}
		}
	}
	return hub.TestCount{}, nil
}

// tidy removes the oldest outputs from time to time, so that all together stay below the quota. Their
// digests and their ends stay.
func (s *Service) tidy(ctx context.Context) {
	s.mu.Lock()
	s.untidy++
	due := s.untidy >= tidyAfter && s.content != nil
	if due {
		s.untidy = 0
	}
	s.mu.Unlock()
	if !due {
		return
	}
	if err := s.Tidy(ctx, quota); err != nil {
		s.log.Warn("old outputs of checks could not be removed", "op", "check.Tidy", "code", hub.CodeOf(err), "err", err)
	}
}

// Tidy removes the oldest outputs so that the others have at most so many bytes. Outputs that a message
// or a handoff names stay.
func (s *Service) Tidy(ctx context.Context, most int64) error {
	var kept int64
	for cursor := hub.CheckResultID(""); ; {
		page, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.CheckResult, error) {
			return r.Checks().Results(hub.CheckResultQuery{Cursor: cursor, Limit: maxListed})
		})
		if err != nil {
			return err
		}
		for _, v := range page {
			cursor = v.ID
			if v.Output.Artifact == "" {
				continue
			}
			if kept += v.Output.Bytes; kept > most {
				if err := s.removeOutput(ctx, v); err != nil {
					return err
				}
			}
		}
		if len(page) < maxListed {
			return nil
		}
	}
}

// removeOutput removes the artifact of a result, if nothing else names it.
func (s *Service) removeOutput(ctx context.Context, v hub.CheckResult) error {
	sum := v.Output.Artifact
	named := false
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		if named, err = tx.NamesArtifact(sum); err != nil || named {
			return err
		}
		v.Output.Artifact = ""
		if _, err = tx.WriteChecks().PutResult(v, v.State); err != nil {
			return err
		}
		return tx.RemoveArtifactReaders(sum)
	})
	if err != nil || named {
		return err
	}
	return s.content.Remove(sum)
}
