//go:build unix

package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/server"
)

// tried returns the commits that the hub with a home tried: those that its copy keeps for their
// results.
func (r *landingRepo) tried(home string) (commits []string) {
	r.t.Helper()
	copies, err := filepath.Glob(filepath.Join(home, "repositories", "*.git"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, dir := range copies {
		commits = append(commits, strings.Fields(r.git("--git-dir="+dir, "for-each-ref", "--format=%(objectname)", "refs/parley/checked"))...)
	}
	return commits
}

// TestLandingOnSeveralHubs has two hubs of one machine on one database, and branches that are queued
// through both. Each entry is tried by one of them; when that one ends, the other one goes on.
func TestLandingOnSeveralHubs(t *testing.T) {
	t.Parallel()
	r := newLandingRepo(t)
	o := unlimited()
	o.Store = pgtest.Address(t)
	o.Roots = []string{filepath.Dir(r.dir)}
	o.Checks = server.Checks{Program: program(t)}
	a := start(t, o)
	b := furtherHub(t, a, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(3*time.Minute))
	defer cancel()
	r.allow(ctx, a.as(a.operator), api.LandingParams{By: hub.LandingAuto, Batch: 2})

	// queue plants branches and queues them through both hubs in turns.
	good := 0
	queue := func(from, to int, hubs ...*running) {
		t.Helper()
		var branches []plantedBranch
		for i := from; i < to; i++ {
			text := "ok\n"
			if i%5 == 3 {
				text = "broken\n"
			} else {
				good++
			}
			branches = append(branches, plantedBranch{name: fmt.Sprint("b", i), files: map[string]string{fmt.Sprint("mod/m", i): text}})
		}
		r.plant(branches)
		for i, p := range branches {
			h := hubs[i%len(hubs)]
			must(rpc.Call(ctx, h.as(h.operator), api.Land, api.LandParams{Ref: p.name, Repo: r.dir}))(t)
		}
	}
	verify := func(entries []hub.LandingEntry) {
		t.Helper()
		for _, e := range entries {
			want := hub.EntryLanded
			if strings.HasSuffix(e.Ref, "3") || strings.HasSuffix(e.Ref, "8") {
				want = hub.EntryReturned
			}
			if e.State != want {
				t.Errorf("%s is %s (%s), want %s", e.Ref, e.State, e.Reason, want)
			}
		}
		if got := r.git("rev-list", "--merges", "--count", "main"); got != fmt.Sprint(good) {
			t.Errorf("main has %s merge commits, want %d", got, good)
		}
	}
	queue(0, 10, a, b)
	verify(r.settle(ctx, a.as(a.operator)))
	byBoth := map[string]int{}
	for _, h := range []*running{a, b} {
		for _, commit := range r.tried(h.home) {
			byBoth[commit]++
		}
	}
	for commit, n := range byBoth {
		if n > 1 {
			t.Errorf("both hubs tried %s", commit)
		}
	}
	if runs := queueRuns(ctx, t, a.as(a.operator)); runs != len(byBoth) {
		t.Errorf("%d runs of checks for %d commits", runs, len(byBoth))
	}

	// The hub that had the queue ends while it is busy.
	worker, other := a, b
	if len(r.tried(b.home)) > 0 {
		worker, other = b, a
	}
	queue(10, 20, a, b)
	worker.stop()
	verify(r.settle(ctx, other.as(other.operator)))
	if len(r.tried(other.home)) == 0 {
		t.Error("the other hub tried nothing")
	}
	if got := must(rpc.Call(ctx, other.as(other.operator), api.Verify, api.VerifyParams{}))(t); len(got.Findings) > 0 {
		t.Errorf("audit: %v", got.Findings)
	}
}

// working feeds the queue until one of two hubs has tried another commit, and returns this hub first.
func (q *killedQueue) working(ctx context.Context, a, b *chaosHub) (worker, other *chaosHub) {
	q.t.Helper()
	triedByA := len(q.repo.tried(a.home))
	triedByB := len(q.repo.tried(b.home))
	for {
		q.feed(ctx)
		switch {
		case len(q.repo.tried(a.home)) > triedByA:
			return a, b
		case len(q.repo.tried(b.home)) > triedByB:
			return b, a
		}
		q.pause(ctx, 20*time.Millisecond, "one of two hubs to try another commit")
	}
}

// TestLandingKillsOfTwoHubs kills that one of two hubs on one database which works on the queue. The
// other one goes on when the lease has ended, also while the first one starts again and finishes
// what the kill cut off: each entry lands once or not at all.
//
// PARLEY_LANDING_HUB_KILLS says how often (1).
func TestLandingKillsOfTwoHubs(t *testing.T) {
	t.Parallel()
	kills := fromEnv(t, "PARLEY_LANDING_HUB_KILLS", 1)
	patience.Random(t, uint64(fromEnv(t, "PARLEY_CHAOS_SEED", 0)), 1, func(random *rand.Rand) { killLandingHubs(t, kills, random) })
}

// killLandingHubs kills that one of two hubs which works on a busy queue at random moments.
func killLandingHubs(t *testing.T, kills int, random *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute+time.Duration(kills)*time.Minute))
	defer cancel()
	a := &chaosHub{t: t, binary: program(t), home: filepath.Join(t.TempDir(), "home"), store: pgtest.Address(t)}
	b := &chaosHub{t: t, binary: a.binary, home: filepath.Join(t.TempDir(), "home"), store: a.store}
	q := &killedQueue{chaos: &chaos{chaosHub: a, transport: &http.Transport{}}, repo: newLandingRepo(t), most: 4 * busyEntries * (kills + 1)}
	q.begin(ctx)
	copyKeys(t, a.home, b.home)
	b.start(ctx)

	for range kills {
		worker, other := q.working(ctx, a, b)
		q.pause(ctx, time.Duration(random.IntN(300))*time.Millisecond, "the moment of the kill")
		worker.kill()
		q.chaosHub = other
		isUpAtOnce := random.IntN(2) == 0
		if isUpAtOnce {
			worker.start(ctx)
		}
		q.working(ctx, a, b)
		if !isUpAtOnce {
			worker.start(ctx)
		}
	}
	q.verify(ctx)
	for _, h := range []*chaosHub{a, b} {
		h.stop()
		q.chaosHub = h
		q.verifyLeftovers()
	}
}
