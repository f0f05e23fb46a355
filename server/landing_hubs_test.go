//go:build unix

package server_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/server"
)

// tried returns the commits that a hub tried: those that its copy keeps for their results.
func (r *running) tried(t *testing.T, repo *landingRepo) (commits []string) {
	t.Helper()
	copies, err := filepath.Glob(filepath.Join(r.home, "repositories", "*.git"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range copies {
		commits = append(commits, strings.Fields(repo.git("--git-dir="+dir, "for-each-ref", "--format=%(objectname)", "refs/parley/checked"))...)
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
		for _, commit := range h.tried(t, r) {
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
	if len(b.tried(t, r)) > 0 {
		worker, other = b, a
	}
	queue(10, 20, a, b)
	worker.stop()
	verify(r.settle(ctx, other.as(other.operator)))
	if len(other.tried(t, r)) == 0 {
		t.Error("the other hub tried nothing")
	}
	if got := must(rpc.Call(ctx, other.as(other.operator), api.Verify, api.VerifyParams{}))(t); len(got.Findings) > 0 {
		t.Errorf("audit: %v", got.Findings)
	}
}
