package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// A ran is what run --json ends with.
type ran struct {
	RunID          hub.RunID           `json:"run_id"`
	Agent          hub.AgentID         `json:"agent"`
	State          hub.RunState        `json:"state"`
	StopReason     string              `json:"stop_reason"`
	Reason         string              `json:"reason"`
	Verdict        hub.RunVerdict      `json:"verdict"`
	Contradictions []hub.Contradiction `json:"contradictions"`
	Report         *struct {
		Status string `json:"status"`
	} `json:"report"`
	Evidence struct {
		Before, After struct{ Commit, Tree, Branch string }
		Diff          struct{ Created, Modified, Deleted []string }
		Verify        *struct {
			ExitCode int    `json:"exit_code"`
			Digest   string `json:"output_digest"`
		}
	} `json:"evidence"`
	Worktree string         `json:"worktree"`
	Branch   string         `json:"branch"`
	Frames   string         `json:"frames"`
	Message  hub.EnvelopeID `json:"message_id"`
	ThreadID string         `json:"thread_id"`
	Told     bool           `json:"told"`
	Error    string         `json:"error"`
}

// kinds are those of the contradictions.
func (r ran) kinds() string {
	var all []string
	for _, c := range r.Contradictions {
		all = append(all, c.Kind)
	}
	return strings.Join(all, " ")
}

// newRepository makes a git repository with one commit.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("read me\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	inGit(t, dir, "init", "-q", "-b", "main")
	inGit(t, dir, "add", ".")
	inGit(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first")
	return dir
}

func inGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// worker returns the command that is an agent of the given mode.
func worker(t *testing.T, mode string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", asWorker + "=" + mode, self}
}

// runArgs returns the arguments of a run with a worker.
func runArgs(t *testing.T, mode, dir string, flags ...string) []string {
	t.Helper()
	args := append([]string{"run", "--task", "say hello", "--name", "worker", "--repo", dir}, flags...)
	return append(append(args, "--"), worker(t, mode)...)
}

// outcome reads the last line of a run with --json.
func outcome(t *testing.T, r result) ran {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var got ran
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || !got.RunID.Valid() {
		t.Fatalf("exit %d, the last line is no result: %v\n%s\n%s", r.code, err, lines[len(lines)-1], r.err)
	}
	return got
}

func TestRunVerdicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mode string
		flags      []string
		code       int
		state      hub.RunState
		reason     string
		verdict    hub.RunVerdict
		kinds      string
	}{
		{"a report that is true is confirmed", "polite", []string{"--verify", "test -f hello.txt", "--scope", "hello.txt"}, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"nothing to do and nothing done is confirmed", "idle", nil, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"a report between decorations is read", "decorated", nil, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"R0-030 an agent without a report is asked once more for that alone", "late", nil, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"an agent that commits is not convicted", "committing", nil, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"many words before the report do not hide it", "flooding", nil, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"an agent that says nothing has given no report", "silent", nil, exitCheck, hub.RunFailed, hub.RunNoReport, hub.RunUnverified, ""},
		{"prose is no report", "prose", nil, exitCheck, hub.RunFailed, hub.RunNoReport, hub.RunUnverified, ""},
		{"files that are not there are a contradiction", "lying about files", nil, exitCheck, hub.RunDone, "", hub.RunContradicted, "file_missing file_unchanged no_edits"},
		{"tests that fail are a contradiction", "lying about tests", []string{"--verify", "exit 3", "--build", "exit 4"}, exitCheck, hub.RunDone, "", hub.RunContradicted, "tests_failed build_failed"},
		{"what was changed and not named is a contradiction", "secretive", nil, exitCheck, hub.RunDone, "", hub.RunContradicted, "undeclared"},
		{"what is outside the scope is a contradiction", "polite", []string{"--scope", "src/"}, exitCheck, hub.RunDone, "", hub.RunContradicted, "outside_scope"},
		{"tests that nobody ran are unverified", "lying about tests", nil, exitCheck, hub.RunDone, "", hub.RunUnverified, ""},
		{"another status than success is exit code 1, however true", "undecided", nil, exitCheck, hub.RunDone, "", hub.RunConfirmed, ""},
		{"an agent that breaks down has failed", "crashing", nil, exitCheck, hub.RunFailed, hub.RunBroke, hub.RunUnverified, ""},
		{"an agent that asks for ever is stopped when its time is over", "nagging", []string{"--timeout", "300ms"}, exitCheck, hub.RunFailed, hub.RunTimeout, hub.RunUnverified, ""},
		{"an agent that may write does", "careful", []string{"--policy", "write"}, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
		{"an agent that may only read does not write", "careful", []string{"--policy", "read"}, exitCheck, hub.RunDone, "", hub.RunConfirmed, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, home := newRepository(t), t.TempDir()
			status := inGit(t, dir, "status", "--porcelain")
			args := append(test.flags, "--no-hub", "--json", "--home", home)
			r := do(t, parley(t, nil, runArgs(t, test.mode, dir, args...)...))
			got := outcome(t, r)
			if r.code != test.code || got.State != test.state || got.Reason != test.reason || got.Verdict != test.verdict || got.kinds() != test.kinds {
				t.Errorf("exit %d, %s, reason %q, %s, %q\nwant %d, %s, %q, %s, %q\n%+v\n%s", r.code, got.State, got.Reason, got.Verdict, got.kinds(),
					test.code, test.state, test.reason, test.verdict, test.kinds, got.Contradictions, r.err)
			}
			if (got.Report == nil) != (test.state != hub.RunDone) {
				t.Errorf("report %v in a run that is %s", got.Report, test.state)
			}
			if got.Evidence.Before.Tree == "" || got.Evidence.Before.Commit == "" {
				t.Errorf("the evidence has no beginning: %+v", got.Evidence)
			}
			if status != "" {
				t.Errorf("the repository was not clean: %s", status)
			}
			var kept ran
			strictRecord(t, home, got.RunID, &kept)
			if kept.State != got.State || kept.Verdict != got.Verdict {
				t.Errorf("the record says %s, %s", kept.State, kept.Verdict)
			}
		})
	}
}

// strictRecord reads the record of a run, which only its owner may read.
func strictRecord(t *testing.T, home string, id hub.RunID, into any) {
	t.Helper()
	path := filepath.Join(home, "runs", string(id), "run.json")
	for _, name := range []string{path, filepath.Join(filepath.Dir(path), "frames.jsonl")} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
