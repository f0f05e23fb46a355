package roots_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}

func TestAdd(t *testing.T) {
	base, user := t.TempDir(), t.TempDir()
	t.Setenv("HOME", user)
	home := filepath.Join(base, "deep", "hub")
	for _, dir := range []string{"deep/hub/keys", "deep/hub/worktrees/run", "app/src"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "app"), filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := roots.New(storetest.Open(t, home), home, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path string
		code       hub.Code // "" if it is added
	}{
		{"a folder", base + "/app/src", ""},
		{"a folder, written with dots", base + "/app/../app/src/", ""},
		{"the folder around it", base + "/app", ""},
		{"a worktree of a run", home + "/worktrees/run", ""},
		{"a relative path", "app", hub.CodeInvalid},
		{"no path", "", hub.CodeInvalid},
		{"a path with a zero byte", "/a\x00b", hub.CodeInvalid},
		{"a path that is too long", "/" + strings.Repeat("x", 5000), hub.CodeInvalid},
		{"a file", base + "/file", hub.CodeInvalid},
		{"a folder that is not there", base + "/none", hub.CodeInvalid},
		{"a link", base + "/link", hub.CodePolicy},
		{"a folder behind a link", base + "/link/src", hub.CodePolicy},
		{"the root of the file system", "/", hub.CodePolicy},
		{"the user's home", user, hub.CodePolicy},
		{"a parent of the user's home", filepath.Dir(user), hub.CodePolicy},
		{"the hub's home", home, hub.CodePolicy},
		{"a parent of the hub's home", base, hub.CodePolicy},
		{"the keys in the hub's home", home + "/keys", hub.CodePolicy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := s.Paths(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Add(t.Context(), operator, tt.path)
			if hub.CodeOf(err) != tt.code {
				t.Fatalf("got %v, want the code %q", err, tt.code)
			}
			after, err := s.Paths(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if tt.code != "" && len(after) != len(before) {
				t.Errorf("roots: got %v, want that nothing changed", after)
			}
			if tt.code == "" && got.Path != filepath.Clean(tt.path) {
				t.Errorf("got %v, want %s", got, tt.path)
			}
		})
	}
	t.Run("only the operator", func(t *testing.T) {
		agent := hub.Caller{Kind: hub.CallerAgent, ID: "builder", Role: hub.RoleCoordinator, Auditor: true}
		if _, err := s.Add(t.Context(), agent, base+"/app"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("add: got %v, want forbidden", err)
		}
		if _, err := s.Remove(t.Context(), agent, base+"/app"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("remove: got %v, want forbidden", err)
		}
	})
}

// A root at the top of a repository stands for its linked working trees.
func TestLinkedTrees(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(base, "user"))
	app := filepath.Join(base, "app")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", app, "-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"app", "user/keys", "hub"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	git("worktree", "add", "-q", filepath.Join(base, "linked"))
	git("worktree", "add", "-q", filepath.Join(base, "user/keys/secret"))
	git("worktree", "add", "-q", filepath.Join(base, "moved"))
	git("worktree", "add", "-q", filepath.Join(base, "other"))

	// Trees that the repository names, and that do not name it back, or that a link leads to.
	worktrees := filepath.Join(app, ".git/worktrees")
	for _, forged := range []string{"", "user", "hub", "plain"} {
		write(filepath.Join(worktrees, "forged"+forged, "gitdir"), filepath.Join(base, forged, ".git")+"\n")
	}
	write(filepath.Join(base, "plain/file"), "")
	write(filepath.Join(base, "user/.git"), "gitdir: "+filepath.Join(worktrees, "forgeduser")+"\n")
	write(filepath.Join(base, "hub/.git"), "gitdir: "+filepath.Join(worktrees, "forgedhub")+"\n")
	if err := os.Rename(filepath.Join(base, "moved"), filepath.Join(base, "real")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(base, "real"), filepath.Join(base, "moved")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(base, "other/.git"), "gitdir: "+filepath.Join(worktrees, "linked")+"\n")

	hubHome := filepath.Join(base, "hub")
	s, err := roots.New(storetest.Open(t, hubHome), hubHome, &roots.Options{Secrets: []string{filepath.Join(base, "user/keys")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), operator, app); err != nil {
		t.Fatal(err)
	}
	want := app + " " + filepath.Join(base, "linked")
	got, err := s.Paths(t.Context())
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}

	// With the root all of them end.
	if _, err := s.Remove(t.Context(), operator, app); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Paths(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("without roots: got %v, %v", got, err)
	}
}
