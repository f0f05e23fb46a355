//go:build unix

package evidence_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

func TestMain(m *testing.M) {
	if stand, ok := standIns[filepath.Base(os.Args[0])]; ok {
		stand()
		return
	}
	os.Exit(m.Run())
}

// inspector returns an Inspector for the roots, and fails the test if it
// leaves something behind.
func inspector(t *testing.T, opts *evidence.Options, roots ...string) *evidence.Inspector {
	t.Helper()
	hubtest.NoGoroutinesLeft(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Cleanup(func() {
		if left, _ := os.ReadDir(tmp); len(left) > 0 {
			t.Errorf("%d temporary files are left, such as %s", len(left), left[0].Name())
		}
	})
	in, err := evidence.New(roots, opts)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// folder returns a new folder without links in its path.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func sum(content string) string {
	h := sha256.Sum256([]byte(content))
	return hex.EncodeToString(h[:])
}

// git runs git as a user would, apart from this machine's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitCommand(dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func gitCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
	return cmd
}

// newRepository makes a repository in dir with one commit on main, and returns
// that commit.
func newRepository(t *testing.T, dir string, initArgs ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	write(t, filepath.Join(dir, "a.txt"), "one\ntwo\n")
	write(t, filepath.Join(dir, "src", "b.txt"), "b\n")
	return commitAll(t, dir, "first")
}

func commitAll(t *testing.T, dir, message string) string {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "--no-verify", "--allow-empty", "-m", message)
	return git(t, dir, "rev-parse", "HEAD")
}

// an is what a check is expected to say.
type an struct {
	result hub.Verdict
	code   hub.Code
	text   string // part of the detail
}

func expect(t *testing.T, got evidence.Check, want an) {
	t.Helper()
	if got.Result != want.result || got.Code != want.code || !strings.Contains(got.Detail, want.text) {
		t.Errorf("%s: got %s, code %q: %s\nwant %s, code %q: ...%s...", got.What, got.Result, got.Code, got.Detail, want.result, want.code, want.text)
	}
}

// of returns the check of one part.
func of(t *testing.T, checks []evidence.Check, what string) evidence.Check {
	t.Helper()
	for _, c := range checks {
		if c.What == what {
			return c
		}
	}
	t.Fatalf("got %v, want a check of the %s", checks, what)
	return evidence.Check{}
}

func TestNew(t *testing.T) {
	dir := folder(t)
	for _, tt := range []struct {
		name, root string
	}{
		{"a relative root is refused", "x"},
		{"an empty root is refused", ""},
		{"a root that is not there is refused", filepath.Join(dir, "nowhere")},
		{"a root that is a file is refused", write(t, filepath.Join(dir, "file"), "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := evidence.New([]string{tt.root}, nil); err == nil {
				t.Error("got no error, want one")
			}
		})
	}
}

func TestReference(t *testing.T) {
	for _, kind := range []string{"url", "pr", "session", "workq_item", strings.Repeat("x", 1000)} {
		got := inspector(t, nil).Artifact(t.Context(), hub.ArtifactRef{Type: kind}, "")
		expect(t, evidence.Check{Check: got}, an{hub.CheckUnverifiable, "", "is not checked"})
		if len(got.Detail) > 400 {
			t.Errorf("got a detail of %d bytes, want at most 400", len(got.Detail))
		}
	}
}
