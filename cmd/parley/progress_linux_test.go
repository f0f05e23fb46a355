package main

import (
	"os"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestRunProgress(t *testing.T) {
	t.Parallel()
	t.Run("at a terminal a tool call is one line that is rewritten", func(t *testing.T) {
		s := sit(t, parley(t, []string{"TERM=xterm"}, runArgs(t, "busy", newRepository(t), "--no-hub", "--policy", "write", "--home", t.TempDir())...))
		code, screen := s.leaves(t)
		if code != exitDone {
			t.Fatalf("exit %d\n%s", code, screen)
		}
		for _, id := range []string{"first", "second"} {
			before, after, found := strings.Cut(screen, "completed: the "+id+" call")
			if !found || !strings.HasPrefix(after, "\r\n") {
				t.Errorf("the %s call does not end a line: %q", id, screen)
			}
			line := before[strings.LastIndex(before, "\n")+1:]
			if !strings.Contains(line, "\r\x1b[K0:") || !strings.Contains(line, "pending: the "+id+" call") || !strings.Contains(line, "in_progress: the "+id+" call") {
				t.Errorf("the %s call is not one line: %q", id, line)
			}
		}
		contains(t, screen, "starting", "running", "changed: 1 files, +1 -0 lines\r\n    + hello.txt\r\n", "tokens: 1200 of 200000\r\n")
	})
	t.Run("elsewhere each change is a line", func(t *testing.T) {
		home := t.TempDir()
		r := do(t, parley(t, nil, runArgs(t, "busy", newRepository(t), "--no-hub", "--policy", "write", "--home", home)...))
		contains(t, r.err, "pending: the first call\nin_progress: the first call\ncompleted: the first call\npending: the second call\n")
		if strings.ContainsAny(r.err+r.out, "\r\x1b") {
			t.Errorf("a control character was written: %q %q", r.err, r.out)
		}
		contains(t, r.out, "changed: 1 files, +1 -0 lines\n    + hello.txt\n", "tokens: 1200 of 200000\n")
		shown := do(t, parley(t, nil, "show", string(onlyRun(t, home).RunID), "--home", home))
		contains(t, shown.out, "tokens: 1200 of 200000\n")
	})
}

func TestRunPrintsEachMessageOnLinesOfItsOwn(t *testing.T) {
	t.Parallel()
	r := do(t, parley(t, nil, runArgs(t, "looking first", newRepository(t), "--no-hub", "--policy", "write", "--home", t.TempDir())...))
	contains(t, r.out, "I will look first.\nSTATUS:ok\n")
}

func TestRunSaysWhyAnAgentFailed(t *testing.T) {
	t.Parallel()
	t.Run("it refuses a session", func(t *testing.T) { sayWhy(t, "refusing", hub.RunNotStarted, exitDegraded) })
	t.Run("it fails in its turn", func(t *testing.T) { sayWhy(t, "failing", hub.RunBroke, exitCheck) })
}

// sayWhy runs an agent that has no credits, and looks for its words in every account of
// the run.
func sayWhy(t *testing.T, mode, reason string, code int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, dir := t.TempDir(), newRepository(t)
	run := func(flags ...string) result {
		args := append([]string{"run", "--task", "x", "--name", "worker", "--no-hub", "--repo", dir, "--home", home}, flags...)
		return do(t, parley(t, nil, append(args, "--", "env", asAgent+"="+mode, self)...))
	}
	why := []string{"Internal error", "the account has no credits", "its standard error ends with:", "reading settings", "for [redacted]", "giving up", "start it by hand"}
	r := run()
	if r.code != code || strings.Contains(r.err+r.out, "sk-0123456789") || strings.Contains(r.err+r.out, "\x1b") {
		t.Errorf("exit %d, want %d, without the secret and escapes\n%s%s", r.code, code, r.out, r.err)
	}
	contains(t, r.err+r.out, why...)
	kept := onlyRun(t, home)
	if kept.State != hub.RunFailed || kept.Reason != reason {
		t.Errorf("got %+v", kept)
	}
	shown := do(t, parley(t, nil, "show", string(kept.RunID), "--home", home))
	contains(t, shown.out, why...)
	contains(t, run("--json").out, why...)
}
