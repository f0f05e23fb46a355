package check_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Auditor: true}
	builder  = hub.Caller{Kind: hub.CallerAgent, ID: "builder", Role: hub.RoleExecutor}
)

// A world is a service with repositories in memory and a runner that the test leads.
type world struct {
	*testing.T
	ctx   context.Context
	store hub.Store
	bus   *bus.Local
	blobs *blobs.Store
	now   time.Time
	*check.Service
	kill func() // ends the service that was started last as a kill of the hub does
	stop func() // ends it as SIGTERM does

	mu    sync.Mutex
	files map[string]string             // parley.yaml by commit
	head  string                        // the commit that is checked out
	diffs map[string][]hub.CommitChange // by old..new
	run   func(check.Job) check.Outcome // the runner; passes if nil
	runs  []string                      // names and commits of the jobs that ran
	gate  map[string]chan check.Outcome // by name: the job waits for its outcome
	begun chan string                   // names of jobs that wait at a gate
	kept  map[string]string             // names in the copy
	base  map[string][]string           // by commit: those of the target branch before it
}

// newWorld returns a service whose executor runs until the test ends.
func newWorld(t *testing.T, opts *check.Options) *world {
	w := &world{
		T: t, ctx: t.Context(), store: storetest.Open(t, t.TempDir()), bus: new(bus.Local), now: time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC),
		files: map[string]string{}, head: "c1", diffs: map[string][]hub.CommitChange{}, gate: map[string]chan check.Outcome{}, begun: make(chan string, 100), kept: map[string]string{},
	}
	var err error
	if w.blobs, err = blobs.Open(t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	w.kill = w.serve(opts)
	return w
}

// serve starts a service on the store. The function that it returns kills it: its work ends, and
// nothing of it is stored any more.
func (w *world) serve(opts *check.Options) (kill func()) {
	o := check.Options{}
	if opts != nil {
		o = *opts
	}
	o.Clock = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now = w.now.Add(time.Second)
		return w.now
	}
	o.Content = w.blobs
	dead := &mortal{Store: w.store}
	w.Service = check.New(dead, w, w, w.bus, &o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Service.Serve(ctx)
	}()
	var once sync.Once
	kill = func() {
		once.Do(func() {
			dead.kill()
			cancel()
			<-done
		})
	}
	w.stop = func() {
		cancel()
		<-done
	}
	w.Cleanup(kill)
	return kill
}

// A mortal is a store that refuses updates after its process was killed.
type mortal struct {
	hub.Store
	mu   sync.Mutex
	dead bool
}

func (m *mortal) kill() {
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
}

func (m *mortal) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	m.mu.Lock()
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return hub.Errorf(hub.CodeDegraded, "test", "killed")
	}
	return m.Store.Update(ctx, d, fn)
}

// The world is the repositories: a folder is a repository of its own, a commit has itself as tree
// unless its name has a ^.

func (w *world) Find(_ context.Context, folder string) (hub.Repository, error) {
	if !strings.HasPrefix(folder, "/") {
		return hub.Repository{}, hub.Errorf(hub.CodeInvalid, "test", "%s is in no repository", folder)
	}
	return hub.Repository{Path: folder}, nil
}

func (w *world) Fetch(_ context.Context, _, revision string) (check.Commit, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision == "HEAD" {
		revision = w.head
	}
	tree, _, _ := strings.Cut(revision, "^") // c1^2 is another commit with the tree of c1
	return check.Commit{ID: revision, Tree: "tree of " + tree}, nil
}

func (w *world) Keep(_ context.Context, _, name, commit string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept[name] = commit
	return nil
}

func (w *world) Changes(_ context.Context, _, old, new string) ([]hub.CommitChange, error) {
	return w.diffs[old+".."+new], nil
}

func (w *world) Within(_ context.Context, _, commit, of string) (bool, error) {
	return commit == of, nil
}

func (w *world) File(_ context.Context, _, commit, name string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text, ok := w.files[commit]; ok && name == "parley.yaml" {
		return []byte(text), nil
	}
	return nil, nil
}

func (w *world) OnTarget(_ context.Context, _, commit string) (bool, error) {
	return commit == "main", nil
}

func (w *world) Before(_ context.Context, _, commit string, _ int) (out []check.Commit, _ error) {
	for _, c := range w.base[commit] {
		out = append(out, check.Commit{ID: c, Tree: "tree of " + c})
	}
	return out, nil
}

// run of a job: a function of the test decides, or a gate.

func (w *world) Run(ctx context.Context, j check.Job) (check.Outcome, error) {
	w.mu.Lock()
	w.runs = append(w.runs, j.Check.Name+" "+j.Commit.ID)
	gate, run := w.gate[j.Check.Name], w.run
	w.mu.Unlock()
	if gate != nil {
		fmt.Fprintf(j.Live, "working on %s\n", j.Commit.ID)
		w.begun <- j.Check.Name
		select {
		case out := <-gate:
			return out, nil
		case <-ctx.Done():
			return check.Outcome{State: hub.ResultCancelled, Abandoned: true}, nil
		}
	}
	if run != nil {
		return run(j), nil
	}
	return outcome(hub.ResultPassed, 0, "ok\n"), nil
}

// outcome returns the end of a run with an output.
func outcome(s hub.CheckState, code int, output string) check.Outcome {
	sum := sha256.Sum256([]byte(output))
	return check.Outcome{
		State: s, ExitCode: code, Duration: 1500 * time.Millisecond, Tail: []byte(output), Bytes: int64(len(output)), SHA256: hex.EncodeToString(sum[:]),
		Output: io.NopCloser(bytes.NewReader([]byte(output))), Confined: true,
	}
}

// add adds a check to the repository /shop.
func (w *world) add(name string, change func(*hub.RepositoryCheck)) hub.RepositoryCheck {
	w.Helper()
	c := hub.RepositoryCheck{Name: name, Command: []string{"make", name}}
	if change != nil {
		change(&c)
	}
	got, err := w.Add(w.ctx, operator, "/shop", c)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// result runs a check to its end.
func (w *world) result(actor hub.Caller, name, commit string, again bool) hub.CheckResult {
	w.Helper()
	r, err := w.Service.Run(w.ctx, actor, check.Request{Folder: "/shop", Name: name, Commit: commit, Again: again, Wait: patience.For(time.Minute)})
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// ran returns the jobs that ran so far.
func (w *world) ran() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

// set changes what the runner and the repositories do.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// journal returns the actions of the journal about checks with their outcomes.
func (w *world) journal() (out []string) {
	w.Helper()
	err := w.store.View(w.ctx, func(r hub.Reader) error {
		all, err := r.Journal(hub.JournalQuery{Limit: 1000})
		for _, e := range all {
			out = append(out, string(e.Action)+" "+e.Subject)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return out
}
