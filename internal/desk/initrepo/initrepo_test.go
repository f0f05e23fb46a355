package initrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// repository makes a repository with one commit of files.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, dir, "init", "-q", "-b", "trunk")
	if len(files) > 0 {
		gitIn(t, dir, "add", ".")
		gitIn(t, dir, "commit", "-qm", "one")
	}
	return dir
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestChecksAreFound(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // names and commands
	}{
		{"a Makefile with a target test", map[string]string{"Makefile": "all:\n\ntest: all\n\ttrue\n", "go.mod": "module m\n"}, "test=make test"},
		{"a Makefile without one", map[string]string{"Makefile": "tests:\n\ttrue\ntest := 1\n"}, ""},
		{"a CI script", map[string]string{".ci/run": "#!/bin/sh\n", "go.mod": "module m\n"}, "test=./.ci/run"},
		{"Go", map[string]string{"go.mod": "module m\n"}, "test=go test ./..."},
		{"Rust", map[string]string{"Cargo.toml": ""}, "test=cargo test"},
		{"Python", map[string]string{"pyproject.toml": ""}, "test=python3 -m pytest"},
		{"npm with a lock file", map[string]string{"package.json": `{"scripts":{"test":"jest"}}`, "package-lock.json": "{}"}, "test=npm ci; npm test"},
		{"npm without a test", map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, ""},
		{"a package.json that is no JSON", map[string]string{"package.json": "{"}, ""},
		{"two languages", map[string]string{"package.json": `{"scripts":{"test":"jest"}}`, "go.mod": "module m\n"}, "npm=npm test go=go test ./..."},
		{"proposals of its own", map[string]string{"parley.yaml": "checks:\n  unit: {command: [make, unit]}\n  here: {command: [make, here], in_place: true}\n", "Makefile": "test:\n"}, "unit=make unit"},
		{"a file of proposals that cannot be read", map[string]string{"parley.yaml": "checks: [", "go.mod": "module m\n"}, "test=go test ./..."},
		{"nothing that is known", map[string]string{"README": ""}, ""},
		{"no commit", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := repository(t, tt.files)
			r, err := Find(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range r.Checks(t.Context()) {
				line := hub.CommandText(c.Command)
				if len(c.Setup) > 0 {
					line = hub.CommandText(c.Setup) + "; " + line
				}
				got = append(got, c.Name+"="+line)
			}
			if all := strings.Join(got, " "); all != tt.want {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
}

func TestChecksAreThoseOfTheCommit(t *testing.T) {
	dir := repository(t, map[string]string{"README": ""})
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Find(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Checks(t.Context()); len(got) > 0 {
		t.Errorf("got %v for a file that is not committed", got)
	}
}

func TestLook(t *testing.T) {
	dir := repository(t, map[string]string{"a/b": ""})
	linked := filepath.Join(t.TempDir(), "linked")
	gitIn(t, dir, "worktree", "add", "-q", "-b", "other", linked)
	for _, from := range []string{dir, filepath.Join(dir, "a"), linked} {
		r, err := Find(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		if r.Path != dir || r.Branch != "trunk" || r.Name != filepath.Base(dir) || len(r.Commit) != 40 {
			t.Errorf("from %s: got %+v", from, r)
		}
	}

	gitIn(t, dir, "checkout", "-q", "--detach")
	if r, err := Find(t.Context(), dir); err != nil || r.Branch != "" {
		t.Errorf("a detached HEAD: got %+v, %v", r, err)
	}
	if _, err := Find(t.Context(), t.TempDir()); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("outside of a repository: got %v", err)
	}
}

func TestHintsComeOnceADay(t *testing.T) {
	home := t.TempDir()
	a := Repository{Path: "/src/a"}
	b := Repository{Path: "/src/b"}
	for _, tt := range []struct {
		r    Repository
		day  string
		want bool
	}{{a, "2026-11-19", true}, {a, "2026-11-19", false}, {b, "2026-11-19", true}, {a, "2026-11-20", true}, {a, "2026-11-20", false}, {b, "2026-11-20", true}} {
		if got := TakeHint(home, tt.r, tt.day); got != tt.want {
			t.Errorf("%s on %s: got %t", tt.r.Path, tt.day, got)
		}
	}
	if err := note(home, entry{Repository: "/src/a", Root: true}); err != nil {
		t.Fatal(err)
	}
	if TakeHint(home, a, "2026-11-21") {
		t.Error("a repository that init set up needs no hint")
	}
	if TakeHint(filepath.Join(home, "missing"), b, "2026-11-21") {
		t.Error("a home that cannot be written has no hints")
	}
}

func TestNotesOfOneRepositoryAreJoined(t *testing.T) {
	home := t.TempDir()
	for _, e := range []entry{{Repository: "/a", Root: true, Checks: []string{"test"}}, {Repository: "/b", Guard: true}, {Repository: "/a", Checks: []string{"lint", "test"}, Landing: "main"}} {
		if err := note(home, e); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readRecord(home)
	if err != nil || len(all) != 2 {
		t.Fatalf("got %v, %v", all, err)
	}
	a := all[1]
	if !a.Root || a.Guard || a.Landing != "main" || strings.Join(a.Checks, " ") != "lint test" {
		t.Errorf("got %+v", a)
	}
	if err := os.WriteFile(filepath.Join(home, recordName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := note(home, entry{Repository: "/a"}); hub.CodeOf(err) != hub.CodeInvalid {
		t.Errorf("a record that cannot be read: got %v", err)
	}
}
