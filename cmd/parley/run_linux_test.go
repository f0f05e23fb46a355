package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// gone reports whether a process has ended, buried or not.
func gone(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	return fields[0] == "Z" || fields[0] == "X"
}

// pids are those of a stubborn worker and its child.
func pids(t *testing.T, p *job) (agent, child int) {
	t.Helper()
	line := p.stdout.await(t, "working ")
	if _, err := fmt.Sscanf(line[strings.Index(line, "working "):], "working %d %d", &agent, &child); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return agent, child
}

// onlyRun returns the one run in a home, as runs list sees it.
func onlyRun(t *testing.T, home string) ran {
	t.Helper()
	var got struct{ Runs []ran }
	(&house{t: t}).ok(do(t, parley(t, nil, "run", "list", "--json", "--home", home)), &got)
	if len(got.Runs) != 1 {
		t.Fatalf("got %+v, want one run", got.Runs)
	}
	return got.Runs[0]
}

func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("once asks the agent to stop", func(t *testing.T) {
		t.Parallel()
		home, env := newHome(t)
		p := spawn(t, parley(t, env, runArgs(t, "endless", newRepository(t), "--home", home, "--json")...))
		p.stdout.await(t, "working")
		if code := p.signal(t, syscall.SIGINT); code != exitSignal {
			t.Errorf("exit %d, want %d: %s", code, exitSignal, p.stderr)
		}
		p.stdout.await(t, `"stopReason":"cancelled"`)
		if got := onlyRun(t, home); got.State != hub.RunInterrupted || got.Reason != hub.RunCancelled || !got.Told {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("twice kills it with its children", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		p := spawn(t, parley(t, nil, runArgs(t, "stubborn", newRepository(t), "--home", home, "--no-hub")...))
		agent, child := pids(t, p)
		p.cmd.Process.Signal(syscall.SIGINT)
		p.stdout.await(t, "no")
		if code := p.signal(t, syscall.SIGINT); code != exitSignal {
			t.Errorf("exit %d, want %d: %s", code, exitSignal, p.stderr)
		}
		for _, pid := range []int{agent, child} {
			poll(t, fmt.Sprintf("the end of %d", pid), func() bool { return gone(pid) })
		}
		if got := onlyRun(t, home); got.State != hub.RunInterrupted {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRunKilled(t *testing.T) {
	t.Parallel()
	home, env := newHome(t)
	p := spawn(t, parley(t, env, runArgs(t, "stubborn", newRepository(t), "--home", home)...))
	agent, child := pids(t, p)
	p.signal(t, syscall.SIGKILL)
	poll(t, "the end of the agent", func() bool { return gone(agent) })

	got := onlyRun(t, home)
	if got.State != hub.RunInterrupted || got.Reason != hub.RunLost || !got.Told {
		t.Errorf("got %+v", got)
	}
	poll(t, "the end of its child", func() bool { return gone(child) })
	frames, err := os.ReadFile(filepath.Join(home, "runs", string(got.RunID), "frames.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(frames), "TASK:say hello", fmt.Sprintf("working %d", agent))

	h := &house{t: t, home: home, keys: map[string]string{}}
	contains(t, h.operator("show", string(got.RunID)).out, "interrupted, unverified", " running", " interrupted")
	var audit struct{ Findings []any }
	h.ok(h.operator("hub", "verify", "--json"), &audit)
	if len(audit.Findings) != 0 {
		t.Errorf("verify: %v", audit.Findings)
	}
}

func TestRunAsks(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"1\n": "\x1b[32mconfirmed", "\n": "STATUS:rejected"} {
		s := sit(t, parley(t, nil, runArgs(t, "asking", newRepository(t), "--no-hub", "--home", t.TempDir())...))
		s.types(t, "Enter a number, or press Enter to refuse: ", answer)
		contains(t, s.screen.String(), "1  allow once: Yes", "2  reject once: No", "3  allow always: Reject")
		s.screen.await(t, want)
		s.cmd.Wait() // the exit code has a test of its own
	}
}

// No process of a run is alive when VERIFY begins, whatever it did to be overlooked.
func TestRunEndsItsProcesses(t *testing.T) {
	t.Parallel()
	const (
		write = `'echo $$ > .git/new && mv .git/new .git/pid && exec sleep 1000' >/dev/null 2>&1 & until test -s .git/pid; do :; done`
		gone  = `! kill -0 $(cat .git/pid)`
	)
	for _, test := range []struct{ name, script, build string }{
		{"a child", "sh -c " + write, ""},
		{"one in a session of its own", "setsid sh -c " + write, ""},
		{"one whose parents have ended", "(setsid nohup sh -c " + write + ")", ""},
		{"one that cleared its environment", "env -i PATH=$PATH setsid sh -c " + write, ""},
		{"one that the build left", "true", "env -i PATH=$PATH setsid sh -c " + write},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--verify", gone, "--no-hub", "--home", t.TempDir()}
			if test.build != "" {
				flags = append(flags, "--build", test.build)
			}
			r := do(t, parley(t, nil, scripted(t, newProject(t), test.script, "STATUS:no_changes\nTESTS:pass", flags...)...))
			if got := outcome(t, r); got.Verdict != hub.RunConfirmed {
				t.Errorf("got %s, want confirmed: the process is alive\n%+v\n%s", got.Verdict, got, r.err)
			}
		})
	}
	t.Run("a process of somebody else goes on", func(t *testing.T) {
		t.Parallel()
		home, env := newHome(t)
		r := do(t, parley(t, env, scripted(t, newProject(t), "true", "STATUS:no_changes\nTESTS:pass", "--verify", "true", "--home", home)...))
		if got := outcome(t, r); got.Verdict != hub.RunConfirmed || !got.Told {
			t.Errorf("the hub that the run started has ended: %+v\n%s", got, r.err)
		}
		contains(t, do(t, parley(t, env, "run", "list", "--home", home)).out, "confirmed")
	})
}
