//go:build unix

package evidence_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

// Names of handoffs.
const (
	firstTask  hub.HandoffID = "01a1dde9-129d-7313-b363-67fb482571a1"
	secondTask hub.HandoffID = "01a1dde9-129d-7313-b363-67fb482571a2"
)

func TestState(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	write(t, filepath.Join(repo, ".gitignore"), "*.log\n")
	commitAll(t, repo, "rules")
	in := inspector(t, &evidence.Options{Kept: t.TempDir()}, root)
	state := func(t *testing.T) string {
		t.Helper()
		s, err := in.State(t.Context(), repo, firstTask)
		if err != nil {
			t.Fatalf("the worktree cannot be read: %v", err)
		}
		return s.Tree
	}
	file := filepath.Join(repo, "a.txt")
	for _, tt := range []struct {
		name    string
		edit    func(t *testing.T)
		changes bool
	}{
		{"nothing", func(*testing.T) {}, false},
		{"a file that is ignored", func(t *testing.T) { write(t, filepath.Join(repo, "x.log"), "x") }, false},
		{"an edit", func(t *testing.T) { write(t, file, "edited") }, true},
		{"another edit of the same length", func(t *testing.T) { write(t, file, "Edited") }, true},
		{"the same content again", func(t *testing.T) { write(t, file, "Edited") }, false},
		{"a new file", func(t *testing.T) { write(t, filepath.Join(repo, "new"), "new") }, true},
		{"a new link", func(t *testing.T) { link(t, "new", filepath.Join(repo, "link")) }, true},
		{"staging what is there", func(t *testing.T) { git(t, repo, "add", "-A") }, false},
		{"a commit of what is there", func(t *testing.T) { commitAll(t, repo, "all") }, false},
		{"a commit without a change", func(t *testing.T) { git(t, repo, "commit", "-q", "--allow-empty", "-m", "none") }, false},
		{"a file that is gone", func(t *testing.T) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a pipe", func(t *testing.T) {
			if err := syscall.Mkfifo(filepath.Join(repo, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		before := state(t)
		tt.edit(t)
		if after := state(t); (before != after) != tt.changes {
			t.Errorf("%s: changes the state: got %v, want %v", tt.name, before != after, tt.changes)
		}
	}
	t.Run("a folder that points at somebody else's repository is not its working tree", func(t *testing.T) {
		liar := filepath.Join(root, "liar")
		write(t, filepath.Join(liar, ".git"), "gitdir: "+filepath.Join(repo, ".git")+"\n")
		for _, c := range in.Worktree(t.Context(), liar, "") {
			if strings.HasPrefix(c.What, "worktree ") && c.Result != hub.CheckFailed {
				t.Errorf("got %+v, want failed", c)
			}
		}
		if s, err := in.State(t.Context(), liar, firstTask); err == nil {
			t.Errorf("its state: got %+v", s)
		}
	})
	t.Run("what cannot be looked at has no state", func(t *testing.T) {
		for name, path := range map[string]string{"outside": folder(t), "no repository": root, "missing": filepath.Join(root, "none"), "empty": ""} {
			if s, err := in.State(t.Context(), path, firstTask); err == nil {
				t.Errorf("%s: got %+v", name, s)
			}
		}
	})
	t.Run("a repository without a commit has a state", func(t *testing.T) {
		fresh := filepath.Join(root, "fresh")
		git(t, root, "init", "-q", fresh)
		if s, err := in.State(t.Context(), fresh, firstTask); err != nil || s.Commit != "" || s.Tree == "" {
			t.Errorf("got %+v (%v), want a tree and no commit", s, err)
		}
	})
}

func TestArtifact(t *testing.T) {
	root := folder(t)
	repo := filepath.Join(root, "repo")
	commit := newRepository(t, repo)
	file := write(t, filepath.Join(root, "file"), "content")
	sparse := write(t, filepath.Join(root, "sparse"), "")
	if err := os.Truncate(sparse, 10<<30); err != nil {
		t.Fatal(err)
	}
	in := inspector(t, nil, root)
	for _, tt := range []struct {
		name     string
		ref      hub.ArtifactRef
		worktree string
		want     hub.Verdict
		reason   hub.RejectReason
	}{
		{"a file", hub.ArtifactRef{Type: "file", Path: file, SHA256: sum("content")}, "", hub.CheckVerified, ""},
		{"another hash", hub.ArtifactRef{Type: "file", Path: file, SHA256: sum("other")}, "", hub.CheckFailed, hub.RejectHashMismatch},
		{"a missing file", hub.ArtifactRef{Type: "file", Path: file + "x"}, "", hub.CheckFailed, hub.RejectMissingArtifact},
		{"a folder", hub.ArtifactRef{Type: "file", Path: root}, "", hub.CheckFailed, hub.RejectMissingArtifact},
		{"a link out", hub.ArtifactRef{Type: "file", Path: link(t, "/etc/hostname", filepath.Join(root, "out"))}, "", hub.CheckFailed, hub.RejectPolicyViolation},
		{"a file too large to look at", hub.ArtifactRef{Type: "file", Path: sparse, SHA256: sum("x")}, "", hub.CheckFailed, hub.RejectMissingArtifact},
		{"a file elsewhere", hub.ArtifactRef{Type: "file", Path: "/etc/hostname"}, "", hub.CheckUnverifiable, ""},
		{"a branch", hub.ArtifactRef{Type: "branch", Path: "main", Version: commit}, repo, hub.CheckVerified, ""},
		{"a missing branch", hub.ArtifactRef{Type: "branch", Path: "none"}, repo, hub.CheckFailed, hub.RejectMissingArtifact},
		{"an option as branch", hub.ArtifactRef{Type: "branch", Path: "--upload-pack=x"}, repo, hub.CheckFailed, hub.RejectSchemaInvalid},
		{"a branch of nothing", hub.ArtifactRef{Type: "branch", Path: "main"}, "", hub.CheckUnverifiable, ""},
		{"a pull request", hub.ArtifactRef{Type: "pr", Path: "42"}, "", hub.CheckUnverifiable, ""},
	} {
		t.Run(tt.name+" is "+string(tt.want), func(t *testing.T) {
			got := in.Artifact(t.Context(), tt.ref, tt.worktree)
			if got.Result != tt.want || got.Reason != tt.reason || got.Detail == "" || got.What != tt.ref.Type+" "+tt.ref.Path {
				t.Errorf("got %+v, want %s for %q", got, tt.want, tt.reason)
			}
		})
	}
}
