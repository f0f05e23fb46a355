package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// busyEntries is the number of entries that are open before each kill of TestLandingKills.
const busyEntries = 8

// A killedQueue is a hub that is killed while its queue is busy, with a person who has changes in
// the working tree of the target.
type killedQueue struct {
	*chaos
	repo   *landingRepo
	landed int // branches that were queued
	most   int // branches that there are
}

// name returns the name of a branch. One of ten breaks the check.
func (q *killedQueue) name(i int) (name string, isBad bool) {
	if i%10 == 3 {
		return fmt.Sprint("bad", i), true
	}
	return fmt.Sprint("good", i), false
}

// personal are the files of the person, none of which a branch touches.
var personal = map[string]string{"notes.txt": "changed\n", "staged.txt": "staged\n", "untracked.txt": "mine\n", "ignored.tmp": "mine\n", "mod/.draft": "mine\n"}

// begin makes the repository with its branches, and the hub.
func (q *killedQueue) begin(ctx context.Context) {
	q.t.Helper()
	q.repo.write("notes.txt", "notes\n")
	q.repo.write(".gitignore", "*.tmp\n")
	q.repo.commit("notes")
	var branches []plantedBranch
	for i := range q.most {
		name, isBad := q.name(i)
		text := "ok\n"
		if isBad {
			text = "broken\n"
		}
		branches = append(branches, plantedBranch{name: name, files: map[string]string{"mod/" + name: text}})
	}
	q.repo.plant(branches)
	for name, text := range personal {
		q.repo.write(name, text)
	}
	q.repo.git("add", "staged.txt")

	q.start(ctx)
	must(rpc.Call(ctx, q.operator(), api.AddRoot, api.RootParams{Path: filepath.Dir(q.repo.dir)}))(q.t)
	q.repo.allow(ctx, q.operator(), api.LandingParams{By: hub.LandingAuto, Batch: 2})
}

// feed queues branches until enough entries are open.
func (q *killedQueue) feed(ctx context.Context) {
	q.t.Helper()
	open := 0
	for _, e := range q.repo.entries(ctx, q.operator()) {
		if e.State.Open() {
			open++
		}
	}
	for ; open < busyEntries; open++ {
		if q.landed == q.most {
			q.t.Fatalf("%d branches are too few", q.most)
		}
		name, _ := q.name(q.landed)
		must(rpc.Call(ctx, q.operator(), api.Land, api.LandParams{Ref: name, Repo: q.repo.dir}))(q.t)
		q.landed++
	}
}

// TestLandingKills kills a hub at random moments of a busy queue: each entry lands once or not at
// all, nothing of the person is touched, and nothing is left behind.
//
// PARLEY_LANDING_KILLS says how often (3), PARLEY_CHAOS_SEED repeats a run.
func TestLandingKills(t *testing.T) {
	t.Parallel()
	kills := fromEnv(t, "PARLEY_LANDING_KILLS", 3)
	patience.Random(t, uint64(fromEnv(t, "PARLEY_CHAOS_SEED", 0)), 1, func(random *rand.Rand) { killLandings(t, kills, random) })
}

// killLandings kills a hub with a busy queue at random moments.
func killLandings(t *testing.T, kills int, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute+time.Duration(kills)*10*time.Second))
	defer cancel()
	c := &chaos{chaosHub: &chaosHub{t: t, binary: program(t), home: filepath.Join(t.TempDir(), "home")}, transport: &http.Transport{}}
	q := &killedQueue{chaos: c, repo: newLandingRepo(t), most: busyEntries * (kills + 1)}
	q.begin(ctx)

	for range kills {
		q.feed(ctx)
		q.pause(ctx, time.Duration(random.IntN(700))*time.Millisecond, "the moment of the kill")
		q.chaosHub.kill()
		if random.IntN(3) == 0 { // also while it starts, when it finishes what the kill cut off
			q.spawn(ctx)
			q.pause(ctx, time.Duration(random.IntN(150))*time.Millisecond, "the moment of the second kill")
			q.chaosHub.kill()
		}
		q.start(ctx)
	}
	q.verify(ctx)
	q.stop()
	q.verifyLeftovers()
}

// pause waits for a moment, which nothing announces; the test fails if it has waited too long for
// the thing that is named.
func (q *killedQueue) pause(ctx context.Context, d time.Duration, what string) {
	q.t.Helper()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		q.t.Fatalf("waited in vain for %s; the entries are %s", what, statesOf(q.repo.seen))
	}
}

// verify waits for the end of all entries, and compares them with the repository and the journal.
func (q *killedQueue) verify(ctx context.Context) {
	q.t.Helper()
	entries := q.repo.finish(ctx, q.operator())
	for q.queueAgain(ctx, entries) {
		entries = q.repo.finish(ctx, q.operator())
	}
	if len(entries) != q.landed {
		q.t.Errorf("the queue has %d entries, want %d", len(entries), q.landed)
	}
	q.verifyEntries(entries)
	q.verifyPerson()
	if got := must(rpc.Call(ctx, q.operator(), api.Verify, api.VerifyParams{}))(q.t); len(got.Findings) > 0 {
		q.t.Errorf("audit: %v", got.Findings)
	}
}

// queueAgain queues the entries again whose checks were cut off by two kills, and reports whether there
// were some.
func (q *killedQueue) queueAgain(ctx context.Context, entries []hub.LandingEntry) (some bool) {
	q.t.Helper()
	for _, e := range entries {
		if e.State == hub.EntryReturned && strings.Contains(e.Reason, "the hub was killed twice") {
			some = true
			must(rpc.Call(ctx, q.operator(), api.RetryLanding, api.EntryParams{ID: e.ID}))(q.t)
		}
	}
	return some
}

// verifyEntries compares the entries with the commits of main.
func (q *killedQueue) verifyEntries(entries []hub.LandingEntry) {
	q.t.Helper()
	merges := map[string]int{}
	for _, id := range strings.Fields(q.repo.git("log", "--merges", "--format=%(trailers:key=Parley-Landing,valueonly)", "main")) {
		merges[id]++
	}
	for _, e := range entries {
		want := hub.EntryLanded
		times := 1
		if strings.HasPrefix(e.Ref, "bad") {
			want = hub.EntryReturned
			times = 0
		}
		if e.State != want || merges[string(e.ID)] != times {
			q.t.Errorf("%s (%s) is %s (%s) and main has %d commits of it, want %s and %d", e.ID, e.Ref, e.State, e.Reason, merges[string(e.ID)], want, times)
		}
		if e.State == hub.EntryLanded {
			q.repo.git("merge-base", "--is-ancestor", e.LandedCommit, "main")
			if of := strings.TrimSpace(q.repo.git("log", "-1", "--format=%(trailers:key=Parley-Landing,valueonly)", e.LandedCommit)); of != string(e.ID) {
				q.t.Errorf("%s says that it landed with %s, which is the commit of %q", e.ID, e.LandedCommit, of)
			}
		}
	}
	for _, head := range q.repo.heads(2) {
		if out, passed := q.repo.check(head, moduleCheck); !passed {
			q.t.Errorf("the queue gave main the head %s, which fails: %s", head, out)
		}
	}
}

// verifyPerson compares the working tree with the target and the files of the person.
func (q *killedQueue) verifyPerson() {
	q.t.Helper()
	for name, want := range personal {
		if got, err := os.ReadFile(filepath.Join(q.repo.dir, name)); err != nil || string(got) != want {
			q.t.Errorf("%s of the person is %q (%v), want %q", name, got, err, want)
		}
	}
	if got := q.repo.git("status", "--porcelain"); got != "M notes.txt\nA  staged.txt\n?? mod/.draft\n?? untracked.txt" {
		q.t.Errorf("the status of the working tree is %q", got)
	}
	q.repo.git("fsck", "--strict")
}

// verifyLeftovers fails if a worktree, a record, a lock or a process is left after the end of the
// hub.
func (q *killedQueue) verifyLeftovers() {
	q.t.Helper()
	if got := q.repo.git("worktree", "list"); strings.Contains(got, "\n") {
		q.t.Errorf("working trees are left: %s", got)
	}
	for _, pattern := range []string{"workshop/runs/*", "repositories/*.git/worktrees/*", "repositories/steps/*", "repositories/draft-*", "repositories/parley-worktree-*"} {
		if left, _ := filepath.Glob(filepath.Join(q.home, pattern)); len(left) > 0 {
			q.t.Errorf("left: %v", left)
		}
	}
	for _, dir := range []string{filepath.Join(q.repo.dir, ".git"), filepath.Join(q.home, "repositories")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".lock") || strings.HasPrefix(d.Name(), "parley-") {
				q.t.Errorf("left: %s", path)
			}
			return err
		})
		if err != nil {
			q.t.Error(err)
		}
	}
	for pid, line := range processesOf(q.home) {
		q.t.Errorf("process %s is left: %s", pid, line)
	}
}

// processesOf returns the command lines of processes that name a folder in their arguments or
// environment, by their numbers. It finds none where there is no /proc.
func processesOf(folder string) map[string]string {
	found := map[string]string{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if bytes.Contains(line, []byte(folder)) || bytes.Contains(environment, []byte(folder)) {
			found[filepath.Base(dir)] = string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
	maps.DeleteFunc(found, func(pid, _ string) bool { return pid == fmt.Sprint(os.Getpid()) })
	return found
}
