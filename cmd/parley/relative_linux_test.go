package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/process/confine"
)

// A lane is a folder in which a user works with paths that are relative to it.
type lane struct {
	t   *testing.T
	dir string
	env []string
}

// in returns a command of this program that runs in the folder.
func (l lane) in(args ...string) *exec.Cmd {
	cmd := parley(l.t, l.env, args...)
	cmd.Dir = l.dir
	return cmd
}

// ok runs a command that must succeed and returns its output.
func (l lane) ok(args ...string) string {
	l.t.Helper()
	r := do(l.t, l.in(args...))
	if r.code != 0 {
		l.t.Fatalf("parley %v: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// git runs git in the folder.
func (l lane) git(args ...string) {
	l.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=builder", "GIT_AUTHOR_EMAIL=builder@example.org", "GIT_COMMITTER_NAME=builder", "GIT_COMMITTER_EMAIL=builder@example.org", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// TestRelativePaths hands a task over and proves its completion with every path relative to the folder
// of the caller: the home, the configuration, the key files, the repository and the worktree.
func TestRelativePaths(t *testing.T) {
	if err := confine.Supported(); err != nil {
		t.Skipf("this system cannot confine checks: %v", err)
	}
	for name, hub := range map[string]struct {
		flags []string
		env   []string
	}{
		"by flags":     {flags: []string{"--home", "./h", "--config", "etc/hub.yaml"}},
		"by variables": {env: []string{"PARLEY_HOME=./h", "PARLEY_CONFIG=etc/hub.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"etc", "app"} {
				if err := os.Mkdir(filepath.Join(top, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("etc/hub.yaml", "addr: 127.0.0.1:0\nlog_file: hub.log\n")
			write("app/app.txt", "good\n")

			above := lane{t, top, hub.env}
			inside := lane{t, filepath.Join(top, "app"), nil} // the same hub from another folder
			inside.git("init", "-q", "-b", "main")
			inside.git("add", "-A")
			inside.git("commit", "-q", "-m", "first")

			serving := spawn(t, above.in(append([]string{"serve"}, hub.flags...)...))
			serving.stderr.await(t, "listening on ")
			operator := func(args ...string) { above.ok(append(append([]string{"--as-operator"}, hub.flags...), args...)...) }
			for _, agent := range []string{"planner", "builder"} {
				key := above.ok(append([]string{"agent", "add", agent, "--json", "--as-operator"}, hub.flags...)...)
				_, rest, _ := strings.Cut(key, `"key":"`)
				secret, _, _ := strings.Cut(rest, `"`)
				write(agent+".key", secret+"\n")
			}
			operator("hub", "folder", "add", "app")
			operator("check", "add", "test", "--repo", "app", "--required", "--", "sh", "-c", "! grep -q bad app.txt")

			made := above.ok(append(append(handoffFlags("change app.txt", "--worktree", "app"), "--key-file", "planner.key"), hub.flags...)...)
			_, rest, _ := strings.Cut(made, `"handoff_id":"`)
			id, _, _ := strings.Cut(rest, `"`)
			inside.ok("handoff", "accept", id, "--home", "../h", "--key-file", "../builder.key")
			write("app/app.txt", "better\n")
			inside.git("commit", "-qam", "second")

			done := inside.ok("handoff", "complete", id, "--summary", "done", "--json", "--home", "../h", "--key-file", "../builder.key")
			if !strings.Contains(done, `"proof":"verified"`) || !strings.Contains(done, `"checks":"passed"`) {
				t.Errorf("got %s", done)
			}
		})
	}
}
