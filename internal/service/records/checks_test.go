package records_test

import (
	"context"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/service/check"
)

// A bench is one repository with one commit, on which every check passes.
type bench struct{}

func (bench) Find(context.Context, string) (hub.Repository, error) {
	return hub.Repository{Path: "/src"}, nil
}

func (bench) Fetch(context.Context, string, string) (check.Commit, error) {
	return check.Commit{ID: "c1", Tree: "t1"}, nil
}

func (bench) Keep(context.Context, string, string, string) error { return nil }

func (bench) Changes(context.Context, string, string, string) ([]hub.CommitChange, error) {
	return nil, nil
}

func (bench) Within(context.Context, string, string, string) (bool, error) { return true, nil }

func (bench) File(context.Context, string, string, string) ([]byte, error) {
	return []byte("checks: [{name: lint, command: golint}]"), nil
}

func (bench) OnTarget(context.Context, string, string) (bool, error) { return false, nil }

func (bench) Before(context.Context, string, string, int) ([]check.Commit, error) { return nil, nil }

func (bench) Run(context.Context, check.Job) (check.Outcome, error) {
	return check.Outcome{State: hub.ResultPassed, Tail: []byte("ok\n"), Bytes: 3, SHA256: "s"}, nil
}

// check lets the operator add three checks, of which one is removed and one comes from a file, and runs
// one of them.
func (s *story) check(ctx context.Context) {
	s.t.Helper()
	hints := new(bus.Local)
	checks := check.New(s.store, bench{}, bench{}, hints, &check.Options{Clock: s.clock})
	work, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { checks.Serve(work) })
	defer done.Wait()
	defer stop()

	for _, name := range []string{"test", "gone"} {
		s.must(checks.Add(ctx, operator, "/src", hub.RepositoryCheck{Name: name, Command: []string{"make", name}}))
	}
	s.must(checks.Remove(ctx, operator, "/src", "gone"))
	list, err := checks.List(ctx, "/src")
	s.must(list, err)
	s.must(checks.Trust(ctx, operator, "/src", list.Digest))
	s.must(checks.Run(ctx, ada, check.Request{Folder: "/src", Name: "test", Wait: check.MaxWait}))
}
