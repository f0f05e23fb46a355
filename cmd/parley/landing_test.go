package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// The exit code of a change that lands, and of its undo, is 1 if a part is missing that the hub does not
// supply by itself.
func TestExitCodesOfLanding(t *testing.T) {
	h := newHouse(t)
	repo := t.TempDir()
	commit := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, name), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		inGit(t, repo, "add", ".")
		inGit(t, repo, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", name)
	}
	inGit(t, repo, "init", "-q", "-b", "main")
	commit("first")
	for _, name := range []string{"a", "b"} {
		inGit(t, repo, "switch", "-q", "-c", name, "main")
		commit(name)
	}
	inGit(t, repo, "switch", "-q", "main")
	h.ok(h.operator("hub", "folder", "add", repo), nil)
	h.ok(h.operator("land", "policy", "set", "--repo", repo, "--into", "main", "--no-checks", "--no-review", "--by", "auto"), nil)
	ends := func(r result, code int, part string) {
		t.Helper()
		if r.code != code || !strings.Contains(r.out+r.err, part) {
			t.Errorf("got %d: %s%s, want %d: %s", r.code, r.out, r.err, code, part)
		}
	}
	state := func(id string, want hub.LandingState) {
		t.Helper()
		h.patient(id+" is "+string(want), func() bool {
			var got struct{ Entries []hub.LandingEntry }
			h.ok(h.operator("show", id, "--json"), &got)
			return len(got.Entries) == 1 && got.Entries[0].State == want
		})
	}

	ends(h.as("builder", "land", "a", "--repo", repo), exitDone, "queued")
	state("l1", hub.EntryLanded)
	ends(h.as("builder", "land", "undo", "l1"), exitCheck, "l2 waits for operator: parley land review l2 approve")
	ends(h.as("builder", "land", "undo", "l1"), exitMissing, "it waits for operator: parley land review l2 approve")
	ends(h.operator("land", "undo", "l1", "--because", "slow"), exitDone, "l2")
	state("l2", hub.EntryLanded)
	state("l1", hub.EntryUndone)

	h.ok(h.operator("land", "policy", "set", "--repo", repo, "--by", "operator"), nil)
	ends(h.as("builder", "land", "b", "--repo", repo), exitCheck, "l3 waits for operator: parley approve l3")
}
