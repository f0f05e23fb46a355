package landing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// errKilled is the end of a process.
var errKilled = errors.New("killed")

// A mortal is a repository whose process dies at one call: before its effect, or after it. From
// then on every call fails, until the process begins again.
type mortal struct {
	*repository
	calls int
	dies  int  // at this call; 0 for never
	after bool // the call has its effect
	dead  bool
}

// pass counts a call, and reports whether it has its effect and its answer.
func (m *mortal) pass() (acts, answers bool) {
	m.calls++
	if m.dead {
		return false, false
	}
	m.dead = m.calls == m.dies
	return !m.dead || m.after, !m.dead
}

func mortally[T any](m *mortal, do func() (T, error)) (T, error) {
	var out T
	var err error
	acts, answers := m.pass()
	if acts {
		out, err = do()
	}
	if !answers {
		var none T
		return none, errKilled
	}
	return out, err
}

func (m *mortal) Branch(ctx context.Context, a, b string) (landing.Commit, error) {
	return mortally(m, func() (landing.Commit, error) { return m.repository.Branch(ctx, a, b) })
}

func (m *mortal) Contains(ctx context.Context, a, b, c string) (bool, error) {
	return mortally(m, func() (bool, error) { return m.repository.Contains(ctx, a, b, c) })
}

func (m *mortal) Merge(ctx context.Context, a string, b, c landing.Commit, d string) (landing.Merge, error) {
	return mortally(m, func() (landing.Merge, error) { return m.repository.Merge(ctx, a, b, c, d) })
}

func (m *mortal) Forward(ctx context.Context, a, b, c, d string) (landing.Forwarding, error) {
	return mortally(m, func() (landing.Forwarding, error) { return m.repository.Forward(ctx, a, b, c, d) })
}

func (m *mortal) Keep(ctx context.Context, a, b, c string) error {
	_, err := mortally(m, func() (int, error) { return 0, m.repository.Keep(ctx, a, b, c) })
	return err
}

func (m *mortal) Drop(ctx context.Context, a, b string) error {
	_, err := mortally(m, func() (int, error) { return 0, m.repository.Drop(ctx, a, b) })
	return err
}

// A mortalStore dies before or after a transaction.
type mortalStore struct {
	hub.Store
	m *mortal
}

func (s mortalStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	_, err := mortally(s.m, func() (int, error) { return 0, s.Store.Update(ctx, d, fn) })
	return err
}

func TestKills(t *testing.T) {
	for i, after := range []bool{false, true} {
		step := patience.Every(2)
		for dies := 1 + i%step; ; dies += step {
			w := newWorld(t, plain)
			w.good("a")
			w.branch("b", map[string]string{"mod/b": "wrong\n"})
			a, b := w.land(ada, "a"), w.land(bob, "b")

			m := &mortal{repository: w.repo, dies: dies, after: after}
			first := landing.New(mortalStore{w.store, m}, m, w.check, w.mail, &landing.Options{Clock: w.clock()})
			if err := first.NewWorker(w.policy).Turn(w.ctx); err == nil {
				if dies < 10 {
					t.Errorf("only %d calls could fail", dies)
				}
				break
			}
			w.turn() // of another process

			what := fmt.Sprintf("killed at call %d (after its effect: %v)", dies, after)
			if w.entry(a.ID).State != hub.EntryLanded || w.entry(b.ID).State != hub.EntryReturned {
				t.Errorf("%s: %s, %s", what, w.entry(a.ID).State, w.entry(b.ID).State)
			}
			if got := w.repo.git("", "rev-list", "--merges", "--count", "main"); got != "1" {
				t.Errorf("%s: main has %s merge commits, want 1", what, got)
			}
			merge := w.repo.git("", "rev-list", "--merges", "main")
			if got := w.entry(a.ID).LandedCommit; got != merge {
				t.Errorf("%s: %s landed with %s, want the merge commit %s", what, a.ID, got, merge)
			}
		}
	}
}
