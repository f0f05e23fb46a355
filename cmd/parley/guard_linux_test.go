package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// A workshop is a repository in which agents of a hub work.
type workshop struct {
	*house
	dir string
}

// newWorkshop makes a repository with one commit under a root of a hub.
func newWorkshop(t *testing.T, h *house) *workshop {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h.ok(h.operator("hub", "folder", "add", dir), nil)
	w := &workshop{h, dir}
	w.repository()
	return w
}

// repository makes the folder a repository with one commit.
func (w *workshop) repository() {
	w.t.Helper()
	w.change("a.txt")
	w.change("b.txt")
	w.ok(w.git(nil, "init", "-q", "-b", "main"), nil)
	w.ok(w.git(nil, "add", "-A"), nil)
	w.ok(w.git(nil, "commit", "-q", "-m", "first"), nil)
}

// change adds a line to a file.
func (w *workshop) change(name string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString("line\n")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// git runs git in the repository, as a person if env is nil.
func (w *workshop) git(env []string, args ...string) result {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "PARLEY_URL=" + w.url, "GIT_CONFIG_NOSYSTEM=1", "GORACE=atexit_sleep_ms=0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.com", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.com",
	}, env...)
	return do(w.t, cmd)
}

// launched returns the environment below a launch of an agent.
func (w *workshop) launched(agent string) []string {
	w.t.Helper()
	folder := w.t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, cli.KeyFile), []byte(w.keys[agent]+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return []string{launch.Variable + "=" + folder, "PARLEY_HOME=" + w.home}
}

// before is an event of Claude Code before an edit, and after one after it.
func (w *workshop) before(session, name string) string {
	return fmt.Sprintf(`{"session_id":%q,"cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":%q}}`, session, w.dir, name)
}

func (w *workshop) after(session, name string) string {
	return strings.Replace(w.before(session, name), "PreToolUse", "PostToolUse", 1)
}

// edit has an agent edit a file as a CLI does.
func (w *workshop) edit(agent, name string) {
	w.t.Helper()
	if r := w.stdin(agent, w.before(agent, name), "guard", "hook", "claude"); r != (result{}) {
		w.t.Fatalf("%s may not edit %s: %+v", agent, name, r)
	}
	w.change(name)
	if r := w.stdin(agent, w.after(agent, name), "guard", "hook", "claude"); r.code != 0 || r.err != "" {
		w.t.Fatalf("after the edit: %+v", r)
	}
}

// TestGuard has two agents in one repository, with the hooks of every CLI, and git.
func TestGuard(t *testing.T) {
	w := newWorkshop(t, newHouse(t))
	w.edit("planner", "a.txt")

	t.Run("every CLI refuses the edit of a file that another agent changes, in its own words", func(t *testing.T) {
		for name, test := range map[string]struct{ input, want string }{
			"claude":   {w.before("s", "a.txt"), `"permissionDecision":"deny"`},
			"codex":    {fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: a.txt\n*** End Patch"}}`, w.dir), `"permissionDecision":"deny"`},
			"qwen":     {fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"edit","tool_input":{"file_path":"a.txt"}}`, w.dir), `"permissionDecision":"deny"`},
			"opencode": {fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"before","tool_name":"edit","tool_input":{"filePath":"a.txt"}}`, w.dir), `{"deny":"`},
			"copilot":  {fmt.Sprintf(`{"sessionId":"s","cwd":%q,"toolName":"edit","toolArgs":{"path":"a.txt"}}`, w.dir), `"permissionDecision":"deny"`},
			"gemini":   {fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"BeforeTool","tool_name":"replace","tool_input":{"file_path":"a.txt"}}`, w.dir), `"decision":"deny"`},
			"pi":       {fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"before","tool_name":"write","tool_input":{"path":"a.txt"}}`, w.dir), `{"deny":"`},
		} {
			r := w.stdin("builder", test.input, "guard", "hook", name)
			if r.code != 0 || r.err != "" {
				t.Errorf("%s: %+v", name, r)
			}
			contains(t, r.out, test.want, "a.txt", "planner")

			// The hook of a launch, which also reports the session, gives the same answer.
			event := map[string]string{"copilot": "preToolUse"}[name]
			args := []string{"wake", "hook", name}
			if event != "" {
				args = append(args, event)
			}
			if again := w.stdin("builder", test.input, args...); !strings.Contains(again.out, test.want) {
				t.Errorf("%s: %v: got %+v", name, args, again)
			}
			if own := w.stdin("planner", test.input, "guard", "hook", name); own != (result{}) {
				t.Errorf("%s: the holder: %+v", name, own)
			}
		}
	})
	t.Run("commands are refused by their text, and others run", func(t *testing.T) {
		bash := func(command string) result {
			return w.stdin("builder", fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%q}}`, w.dir, command), "guard", "hook", "codex")
		}
		for _, command := range []string{"git checkout .", "git add -A", "rm a.txt", "echo x > a.txt", "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n*** End Patch\nEOF"} {
			contains(t, bash(command).out, `"deny"`, "planner")
		}
		for _, command := range []string{"ls", "git status", "git add b.txt", "cat a.txt"} {
			if r := bash(command); r != (result{}) {
				t.Errorf("%s: %+v", command, r)
			}
		}
	})
	t.Run("guard check names the holder", func(t *testing.T) {
		check := func(agent string, files ...string) result {
			cmd := parley(t, w.env("tester"), append([]string{"files", "check", "--agent", agent}, files...)...)
			cmd.Dir = w.dir
			return do(t, cmd)
		}
		r := check("builder", "a.txt", "b.txt")
		if r.code != exitCheck || strings.Contains(r.out, "b.txt") {
			t.Errorf("got %+v", r)
		}
		contains(t, r.out, "planner", "a.txt")
		w.ok(check("planner", "a.txt"), nil)
		w.ok(check("builder", "b.txt"), nil)
	})
	t.Run("a file outside of every root, and an agent without a key, are not refused", func(t *testing.T) {
		if r := w.stdin("builder", fmt.Sprintf(`{"session_id":"s","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"x"}}`, t.TempDir()), "guard", "hook", "claude"); r != (result{}) {
			t.Errorf("got %+v", r)
		}
		if r := w.stdin("", w.before("s", "a.txt"), "guard", "hook", "claude"); r != (result{}) {
			t.Errorf("got %+v", r)
		}
	})
}

// TestGuardOfCommits has agents and a person commit in one repository.
func TestGuardOfCommits(t *testing.T) {
	w := newWorkshop(t, newHouse(t))
	install := parley(t, w.env(""), "files", "guard", "on", w.dir)
	contains(t, do(t, install).out, "checks the commits of agents")
	contains(t, do(t, parley(t, w.env(""), "files", "guard", w.dir)).out, "commits:", "checks the commits of agents")
	w.edit("planner", "a.txt")
	w.change("b.txt")

	all := []string{"commit", "-q", "-a", "-m", "all"}
	r := w.git(w.launched("builder"), all...)
	if r.code == 0 {
		t.Errorf("an agent commits the file of another: %+v", r)
	}
	contains(t, r.err, "planner", "a.txt")
	w.ok(w.git(w.launched("builder"), "commit", "-q", "-m", "own", "b.txt"), nil)

	// A run whose agent is not known is not refused; a person reads one line.
	w.ok(w.git([]string{fleet.RunVariable + "=unknown"}, "commit", "-q", "--allow-empty", "-m", "run"), nil)
	w.ok(w.git(nil, "stash"), nil)
	w.ok(w.git(nil, "stash", "pop"), nil)
	r = w.git(nil, all...)
	w.ok(r, nil)
	contains(t, r.err, "planner is changing a.txt; your commit goes on")
	if strings.Count(r.err, "\n") != 1 {
		t.Errorf("a person reads %q", r.err)
	}

	// Without the guard every agent commits.
	w.edit("planner", "a.txt")
	w.ok(do(t, parley(t, w.env(""), "files", "guard", "off", w.dir)), nil)
	w.ok(w.git(w.launched("builder"), all...), nil)
}

// TestGuardWithoutAHub has hubs that are stopped, hang, and come back.
func TestGuardWithoutAHub(t *testing.T) {
	w := newWorkshop(t, newHouse(t))
	w.edit("planner", "a.txt")
	w.ok(do(t, parley(t, w.env(""), "files", "guard", "on", w.dir)), nil)
	w.change("b.txt")
	goesOn := func(when string) {
		t.Helper()
		for _, args := range [][]string{{"guard", "hook", "claude"}, {"wake", "hook", "claude", "PreToolUse"}} {
			if r := w.stdin("builder", w.before("s", "a.txt"), args...); r != (result{}) {
				t.Errorf("%s: %v: got %+v", when, args, r)
			}
		}
		w.change("b.txt")
		w.ok(w.git(w.launched("builder"), "commit", "-q", "-m", when, "b.txt"), nil)
	}

	// A process that is stopped keeps its connections and never answers.
	if err := w.hub.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goesOn("a hub that hangs")
	if err := w.hub.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	contains(t, w.stdin("builder", w.before("s", "a.txt"), "guard", "hook", "claude").out, `"deny"`)

	w.stop()
	goesOn("a hub that is stopped")

	// Another program listens and never answers.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	w.url = "http://" + silent.Addr().String()
	goesOn("a listener that does not answer")

	// Where the operator wants it, edits and commits of agents wait for the hub.
	settings := fmt.Sprintf("repositories:\n  - path: %s\n    reservations: {unreachable: deny}\n", w.dir)
	if err := os.WriteFile(filepath.Join(w.home, "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"guard", "hook", "claude"}, {"wake", "hook", "claude", "PreToolUse"}} {
		contains(t, w.stdin("builder", w.before("s", "a.txt"), args...).out, `"permissionDecision":"deny"`, "did not answer")
	}
	w.change("b.txt")
	if r := w.git(w.launched("builder"), "commit", "-q", "-m", "no hub", "b.txt"); r.code == 0 {
		t.Errorf("an agent commits without a hub: %+v", r)
	}
	w.ok(w.git(nil, "commit", "-q", "-m", "a person", "b.txt"), nil)

	w.start()
	contains(t, w.stdin("builder", w.before("s", "a.txt"), "guard", "hook", "claude").out, `"deny"`, "planner")
}

// TestGuardIsOffered has a launch name the state of the guard of a CLI whose user has to trust
// hooks, and leaves the check of commits to guard status and doctor.
func TestGuardIsOffered(t *testing.T) {
	w := newWorkshop(t, newHouse(t))
	path := fakeCLI(t, "codex")
	start := func() result {
		t.Helper()
		cmd := parley(t, append(w.env(""), "PATH="+path, "HOME="+t.TempDir(), "FAKE_VERSION=1.0.0"), "codex", "--as-operator", "--as", "builder", "--no-wake")
		cmd.Dir = w.dir
		return do(t, cmd)
	}
	first := start()
	contains(t, first.err, "until then the guard is not active")
	if strings.Contains(first.err, "parley files guard on") {
		t.Errorf("the first screen names the check of commits: %s", first.err)
	}
	status := do(t, parley(t, w.env(""), "files", "guard", w.dir))
	contains(t, status.out, "commits: not checked", "codex: asks before edits and commands; not active until you trust Parley's hooks in Codex")

	t.Run("uninstall takes the guard out", func(t *testing.T) {
		env := append(w.env(""), "HOME="+t.TempDir())
		hook := filepath.Join(w.dir, ".git", "hooks", "pre-commit")
		w.ok(do(t, parley(t, env, "files", "guard", "on", w.dir)), nil)
		if _, err := os.Stat(hook); err != nil {
			t.Fatal(err)
		}
		contains(t, do(t, parley(t, env, "uninstall", "--print")).out, "remove the guard from the pre-commit hook in "+filepath.Dir(hook))
		w.ok(do(t, parley(t, env, "uninstall", "--yes")), nil)
		if _, err := os.Stat(hook); !os.IsNotExist(err) {
			t.Errorf("the hook is still there: %v", err)
		}
	})
}
