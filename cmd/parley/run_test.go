package main

import (
	"encoding/json"
	"errors"
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
	VerdictBy      hub.AgentID         `json:"verdict_by"`
	ClaimedVerdict hub.RunVerdict      `json:"claimed_verdict"`
	VerdictNote    string              `json:"verdict_note"`
	Contradictions []hub.Contradiction `json:"contradictions"`
	Report         *struct {
		Status string `json:"status"`
		Error  string `json:"error"`
	} `json:"report"`
	Evidence struct {
		Before, After struct{ Commit, Tree, Branch string }
		Diff          struct{ Created, Modified, Deleted []string }
		Verify        *struct {
			ExitCode int    `json:"exit_code"`
			Digest   string `json:"output_digest"`
			InPlace  bool   `json:"in_place"`
			Check    *struct {
				Name, Commit, Result string
				Kept                 bool
			} `json:"check"`
		}
		Unverified, Notes []hub.Contradiction
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
		{"a report after words and a tool call is read", "looking first", nil, exitDone, hub.RunDone, "", hub.RunConfirmed, ""},
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

// runAs runs a worker as the operator does in a script.
func (h *house) runAs(mode, dir string, flags ...string) result {
	h.t.Helper()
	return do(h.t, parley(h.t, h.env(""), runArgs(h.t, mode, dir, append(flags, "--json", "--as-operator")...)...))
}

func TestRunOnAHub(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := newRepository(t)
	r := h.runAs("talkative", dir)
	got := outcome(t, r)
	if r.code != exitDone || !got.Told || !got.Message.Valid() {
		t.Fatalf("exit %d, %+v\n%s", r.code, got, r.err)
	}
	t.Run("what the agent sends arrives under its own name", func(t *testing.T) {
		var inbox struct {
			Messages []struct{ From, Type string }
		}
		h.ok(h.as("planner", "inbox", "--json"), &inbox)
		if len(inbox.Messages) != 1 || inbox.Messages[0].From != "worker" {
			t.Errorf("got %+v, want one message from worker", inbox.Messages)
		}
	})
	t.Run("who wanted it done is told, with the verdict", func(t *testing.T) {
		var trace struct {
			Message struct {
				Type, From string
				ThreadID   string `json:"thread_id"`
				Payload    struct {
					RunID   hub.RunID      `json:"run_id"`
					Agent   string         `json:"agent"`
					Verdict hub.RunVerdict `json:"verdict"`
				}
			}
		}
		h.ok(h.operator("show", string(got.Message), "--json"), &trace)
		m := trace.Message
		if m.Type != "status.complete" || m.From != "hub" || m.Payload.Agent != "worker" || m.ThreadID != got.ThreadID || m.Payload.RunID != got.RunID || m.Payload.Verdict != hub.RunConfirmed {
			t.Errorf("got %+v", m)
		}
	})
	t.Run("trace shows the run", func(t *testing.T) {
		text := h.operator("show", string(got.RunID))
		contains(t, text.out, "done, confirmed: \"say hello\" by worker for operator\n", "  operator starting", "  operator running", "  operator checking", "  operator done", string(got.Message))
	})
	t.Run("neither the records nor the output hold the key", func(t *testing.T) {
		frames, err := os.ReadFile(got.Frames)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"frames": string(frames), "output": r.out, "errors": r.err} {
			if strings.Contains(text, "cacp_sk_live_") {
				t.Errorf("a key is in the %s", name)
			}
		}
		contains(t, string(frames), "Bearer [redacted]", "my key is")
	})
	t.Run("the key is dead", func(t *testing.T) {
		var list struct {
			Agents []struct {
				ID   string
				Keys []any
			}
		}
		h.ok(h.operator("agent", "list", "--json"), &list)
		for _, a := range list.Agents {
			if a.ID == "worker" && len(a.Keys) != 0 {
				t.Errorf("worker has %v", a.Keys)
			}
		}
	})
	t.Run("an agent without HTTP gets the tools through a program", func(t *testing.T) {
		bridged := outcome(t, h.runAs("bridged", newRepository(t)))
		if bridged.Verdict != hub.RunConfirmed || bridged.Report.Status != "ok" {
			t.Errorf("got %s, %+v", bridged.Verdict, *bridged.Report)
		}
	})
	t.Run("the hub takes also what is far too much", func(t *testing.T) {
		wordy := outcome(t, h.runAs("wordy", newRepository(t), "--verify", "yes | head -c 1000000"))
		if wordy.Verdict != hub.RunContradicted || !wordy.Told || len(wordy.Contradictions) > 200 {
			t.Errorf("got %s, told %v, %d contradictions", wordy.Verdict, wordy.Told, len(wordy.Contradictions))
		}
		if err := os.RemoveAll(filepath.Join(h.home, "runs", string(wordy.RunID))); err != nil {
			t.Fatal(err)
		}
		contains(t, h.operator("show", string(wordy.RunID)).out, "contradicted", "file_missing")
	})
	t.Run("a decision waits for a human", func(t *testing.T) {
		asked := outcome(t, h.runAs("undecided", newRepository(t)))
		var held struct{ Messages []struct{ ID hub.EnvelopeID } }
		h.ok(h.operator("approve", "--json"), &held)
		if len(held.Messages) != 1 || held.Messages[0].ID != asked.Message {
			t.Errorf("got %+v, want %s", held.Messages, asked.Message)
		}
	})
	t.Run("an agent may not run others", func(t *testing.T) {
		r := do(t, parley(t, h.env("mallory"), runArgs(t, "polite", newRepository(t), "--json")...))
		if r.code != exitRefused {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
	})
	t.Run("without a key nobody is the operator of a hub that others run", func(t *testing.T) {
		r := do(t, parley(t, h.env(""), runArgs(t, "polite", newRepository(t), "--json")...))
		refused(t, r, exitRefused, "unauthenticated")
	})
	var audit struct{ Findings []any }
	h.ok(h.operator("hub", "verify", "--json"), &audit)
	if len(audit.Findings) != 0 {
		t.Errorf("verify: %v", audit.Findings)
	}
}

// newHome returns a home that has no hub yet; the hub that a command starts there
// is stopped with the test.
func newHome(t *testing.T) (home string, env []string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "new")
	env = []string{"PARLEY_ADDR=127.0.0.1:0"}
	t.Cleanup(func() { do(t, parley(t, env, "stop", "--as-operator", "--home", home)) }) // fails if the test stopped it
	return home, env
}

func TestRunStartsAHub(t *testing.T) {
	t.Parallel()
	home, env := newHome(t)
	run := func() (ran, string) {
		t.Helper()
		r := do(t, parley(t, env, runArgs(t, "polite", newRepository(t), "--json", "--home", home)...))
		got := outcome(t, r)
		if r.code != exitDone || !got.Told {
			t.Fatalf("exit %d, %+v\n%s", r.code, got, r.err)
		}
		return got, r.err
	}
	got, said := run()
	h := &house{t: t, home: home, keys: map[string]string{}}
	t.Run("it goes on after the run, logs into the home and is stopped as the run says", func(t *testing.T) {
		contains(t, said, "started a hub: listening on http://127.0.0.1:", filepath.Join(home, logName), "stop it with: ", home+" stop")
		contains(t, h.operator("show", string(got.RunID)).out, "  operator done")
		if _, err := os.Stat(filepath.Join(home, logName)); err != nil {
			t.Error(err)
		}
	})
	t.Run("the next run uses it and needs no key", func(t *testing.T) {
		if _, said := run(); strings.Contains(said, "started a hub") {
			t.Errorf("the second run started another: %s", said)
		}
	})
	t.Run("no other command takes the operator's key by itself", func(t *testing.T) {
		refused(t, do(t, parley(t, h.env(""), "agent", "list", "--json")), exitRefused, "unauthenticated")
	})
	t.Run("parley stop stops it", func(t *testing.T) {
		if r := h.operator("stop"); r.code != exitDone {
			t.Fatalf("exit %d: %s", r.code, r.err)
		}
		if _, err := os.Stat(filepath.Join(home, "url")); err == nil {
			t.Error("the hub has left its address behind")
		}
	})
	t.Run("a hub that serve started after it is nobody's without a key", func(t *testing.T) {
		h.start()
		r := do(t, parley(t, h.env(""), runArgs(t, "polite", newRepository(t), "--json")...))
		refused(t, r, exitRefused, "unauthenticated")
	})
}

func TestRunsAtOnceShareAHub(t *testing.T) {
	t.Parallel()
	home, env := newHome(t)
	for _, name := range []string{"one", "another", "a third"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := do(t, parley(t, env, runArgs(t, "polite", newRepository(t), "--json", "--home", home)...))
			if got := outcome(t, r); r.code != exitDone || !got.Told {
				t.Errorf("exit %d, %+v\n%s", r.code, got, r.err)
			}
		})
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), newRepository(t)
	var ids []hub.RunID
	for range 3 {
		got := outcome(t, do(t, parley(t, nil, runArgs(t, "idle", dir, "--no-hub", "--json", "--home", home)...)))
		ids = append(ids, got.RunID)
	}
	list := func(env []string) (found []hub.RunID) {
		t.Helper()
		var got struct{ Runs []ran }
		(&house{t: t}).ok(do(t, parley(t, env, "run", "list", "--json", "--home", home)), &got)
		for _, r := range got.Runs {
			found = append(found, r.RunID)
		}
		return found
	}
	if got := list(nil); len(got) != 3 || got[0] != ids[2] || got[2] != ids[0] {
		t.Errorf("got %v, want %v with the newest first", got, ids)
	}
	text := do(t, parley(t, nil, "show", string(ids[0]), "--home", home))
	contains(t, text.out, "say hello, by worker", "confirmed", "STATUS:no_changes", "changed: 0 files")
	replay := do(t, parley(t, nil, "run", "replay", string(ids[0]), "--home", home))
	if replay.code != exitDone || replay.out != "STATUS:no_changes\n" {
		t.Errorf("exit %d, got %q", replay.code, replay.out)
	}
	frames := do(t, parley(t, nil, "run", "replay", string(ids[0]), "--home", home, "--json"))
	contains(t, frames.out, `"method":"initialize"`, `"method":"session/prompt"`, "TASK:say hello")
	refused(t, do(t, parley(t, nil, "show", string(hub.NewIDs(now).Next()), "--home", home, "--json")), exitMissing, "not_found")
	refused(t, do(t, parley(t, nil, "run", "replay", "../../etc", "--home", home, "--json")), exitUsage, "schema_invalid")

	t.Run("a copy of a run under another name is no run", func(t *testing.T) {
		runs := filepath.Join(home, "runs")
		other := string(hub.NewIDs(now).Next())
		if err := os.CopyFS(filepath.Join(runs, other), os.DirFS(filepath.Join(runs, string(ids[0])))); err != nil {
			t.Fatal(err)
		}
		if got := list(nil); len(got) != 3 {
			t.Errorf("got %v, want %v", got, ids)
		}
		contains(t, do(t, parley(t, nil, "show", other, "--home", home)).err, "it is the record of run", string(ids[0]))
		if err := os.RemoveAll(filepath.Join(runs, other)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("old runs are removed when another begins", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("runs: {keep: 1, max_age: 1h}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		last := outcome(t, do(t, parley(t, nil, runArgs(t, "idle", dir, "--no-hub", "--json", "--home", home)...)))
		if got := list(nil); len(got) != 2 || got[0] != last.RunID || got[1] != ids[2] {
			t.Errorf("got %v, want the new one and one more", got)
		}
	})
}

func TestRunPlaces(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, mode, dir string, flags ...string) (ran, result) {
		t.Helper()
		r := do(t, parley(t, nil, runArgs(t, mode, dir, append(flags, "--no-hub", "--json", "--home", t.TempDir())...)...))
		return outcome(t, r), r
	}
	t.Run("a folder that is no repository", func(t *testing.T) {
		t.Parallel()
		if got, _ := run(t, "polite", t.TempDir()); got.Verdict != hub.RunConfirmed || len(got.Evidence.Diff.Created) != 1 {
			t.Errorf("got %s, %+v", got.Verdict, got.Evidence)
		}
	})
	t.Run("a repository without a commit", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		inGit(t, dir, "init", "-q")
		if got, _ := run(t, "polite", dir); got.Verdict != hub.RunConfirmed {
			t.Errorf("got %s, %+v", got.Verdict, got.Contradictions)
		}
	})
	t.Run("a repository on no branch", func(t *testing.T) {
		t.Parallel()
		dir := newRepository(t)
		inGit(t, dir, "checkout", "-q", "--detach")
		if got, _ := run(t, "committing", dir); got.Verdict != hub.RunConfirmed || got.Evidence.Before.Branch != "" || got.Evidence.Before.Commit == got.Evidence.After.Commit {
			t.Errorf("got %s, %+v", got.Verdict, got.Evidence)
		}
	})
	t.Run("a repository with a submodule", func(t *testing.T) {
		t.Parallel()
		dir := newRepository(t)
		inGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "add", "-q", newRepository(t), "part")
		inGit(t, dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "with a part")
		if got, _ := run(t, "polite", dir); got.Verdict != hub.RunConfirmed {
			t.Errorf("got %s, %+v", got.Verdict, got.Contradictions)
		}
	})
	t.Run("what was dirty before is not the agent's", func(t *testing.T) {
		t.Parallel()
		dir := newRepository(t)
		os.WriteFile(filepath.Join(dir, "mine.txt"), []byte("mine"), 0o644)
		inGit(t, dir, "add", "mine.txt")
		os.WriteFile(filepath.Join(dir, "README.md"), []byte("mine, too"), 0o644)
		before := inGit(t, dir, "status", "--porcelain")
		got, _ := run(t, "polite", dir)
		if got.Verdict != hub.RunConfirmed {
			t.Errorf("got %s, %+v", got.Verdict, got.Contradictions)
		}
		if after := inGit(t, dir, "status", "--porcelain"); after != before+"\n?? hello.txt" {
			t.Errorf("got %q, want %q and the new file", after, before)
		}
	})
	t.Run("a worktree of its own leaves the repository alone", func(t *testing.T) {
		t.Parallel()
		dir := newRepository(t)
		got, _ := run(t, "polite", dir, "--worktree")
		if got.Verdict != hub.RunConfirmed || got.Branch != "parley/"+string(got.RunID) {
			t.Errorf("got %+v", got)
		}
		if _, err := os.Stat(filepath.Join(got.Worktree, "hello.txt")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "hello.txt")); err == nil {
			t.Error("the agent worked in the repository itself")
		}
	})
	t.Run("a worktree runs no filter that the repository defines", func(t *testing.T) {
		t.Parallel()
		dir, mark := newRepository(t), filepath.Join(t.TempDir(), "mark")
		attributes := filepath.Join(dir, ".git", "info", "attributes")
		if err := errors.Join(os.MkdirAll(filepath.Dir(attributes), 0o700), os.WriteFile(attributes, []byte("* filter=x\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"smudge", "process", "clean"} {
			inGit(t, dir, "config", "filter.x."+command, "touch "+mark+"; cat")
		}
		inGit(t, dir, "config", "filter.x.required", "true")
		if got, _ := run(t, "polite", dir, "--worktree"); got.Verdict != hub.RunConfirmed {
			t.Errorf("got %+v", got)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Error("a filter of the repository was run")
		}
	})
	t.Run("the dispatch is what the agent is given first", func(t *testing.T) {
		t.Parallel()
		dir := newRepository(t)
		_, r := run(t, "dispatch", dir, "--context", "a server", "--accept", "it says hello", "--scope", "dispatch.txt", "--verify", "true", "--done", "report")
		text, err := os.ReadFile(filepath.Join(dir, "dispatch.txt"))
		want := "TASK:say hello\nCONTEXT:a server\nACCEPTANCE:it says hello\nSCOPE:dispatch.txt\nVERIFY:true\nDONE:report\n"
		if err != nil || strings.TrimSpace(string(text)) != strings.TrimSpace(want) {
			t.Errorf("got %q, %v\nwant %q\n%s", text, err, want, r.err)
		}
	})
}

func TestRunCommandLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		args  []string
		code  int
		parts []string
	}{
		{"no agent", []string{"run", "--task", "x"}, exitUsage, []string{"an agent"}},
		{"no task", []string{"run", "--", "agent"}, exitUsage, []string{"a task is required"}},
		{"an empty task", []string{"run", "--task", " ", "--", "agent"}, exitUsage, []string{"the task is empty"}},
		{"a policy that does not exist", []string{"run", "--task", "x", "--policy", "maybe", "--", "agent"}, exitUsage, []string{"maybe"}},
		{"no terminal to ask on", []string{"run", "--task", "x", "--policy", "ask", "--", "agent"}, exitUsage, []string{"needs a terminal"}},
		{"a folder that is not there", []string{"run", "--task", "x", "--repo", "/nowhere", "--", "agent"}, exitUsage, []string{"/nowhere"}},
		{"a time that is none", []string{"run", "--task", "x", "--timeout", "0s", "--", "agent"}, exitUsage, []string{"must be positive"}},
		{"a name that is none", []string{"run", "--task", "x", "--name", "Ä", "--", "agent"}, exitUsage, []string{"--name"}},
		{"a handoff without a hub", []string{"run", "--task", "x", "--no-hub", "--handoff", string(hub.NewIDs(now).Next()), "--", "agent"}, exitUsage, []string{"--handoff"}},
		{"a worktree without a repository", []string{"run", "--task", "x", "--no-hub", "--worktree", "--", "agent"}, exitUsage, []string{"git repository"}},
		{"an agent that nobody knows", []string{"run", "clod", "x"}, exitDegraded, []string{"clod"}},
		{"an agent that is not installed", []string{"run", "qwen", "x"}, exitDegraded, []string{"not installed"}},
		{"a program that is not there", []string{"run", "--task", "x", "--no-hub", "--", "/nowhere/agent"}, exitDegraded, []string{"cannot start the agent"}},
		{"a program that is no agent", []string{"run", "--task", "x", "--no-hub", "--", "true"}, exitDegraded, []string{"cannot start the agent"}},
		{"a program that says nothing", []string{"run", "--task", "x", "--no-hub", "--start-timeout", "200ms", "--", "cat"}, exitDegraded, []string{"cannot start the agent"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := parley(t, []string{"PATH=/usr/bin:/bin"}, append(test.args[:1:1], append([]string{"--home", t.TempDir()}, test.args[1:]...)...)...)
			cmd.Dir = t.TempDir()
			got := do(t, cmd)
			if got.code != test.code {
				t.Errorf("exit %d, want %d: %s", got.code, test.code, got.err)
			}
			contains(t, got.err, test.parts...)
		})
	}
	t.Run("people get a stream and a verdict", func(t *testing.T) {
		t.Parallel()
		got := do(t, parley(t, nil, runArgs(t, "polite", newRepository(t), "--no-hub", "--home", t.TempDir(), "--verify", "true")...))
		contains(t, got.out, "STATUS:ok\nFILES_CREATED:hello.txt\n", "done, confirmed", "VERIFY: true: passes", "changed: 1 files, +1 -0 lines")
		contains(t, got.err, "let me see", "worker works in", "VERIFY: true")
	})
}

func TestAgentsDetect(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	script := "#!/bin/sh\necho 9.8.7\n"
	if err := os.WriteFile(filepath.Join(bin, "qwen"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Agents []struct {
			Name, Version       string
			Installed, Runnable bool
			ACP                 []string
		}
	}
	(&house{t: t}).ok(do(t, parley(t, []string{"PATH=" + bin + ":/usr/bin:/bin"}, "agent", "clis", "--json")), &got)
	known := 0
	for _, a := range got.Agents {
		known++
		if want := a.Name == "qwen"; a.Installed != want || a.Runnable != want || len(a.ACP) == 0 || want && a.Version == "" {
			t.Errorf("got %+v", a)
		}
	}
	if known < 5 {
		t.Errorf("only %d agents are known", known)
	}
	contains(t, do(t, parley(t, []string{"PATH=" + bin + ":/usr/bin:/bin"}, "agent", "clis")).out, "installed 9.8.7", "not installed")
}

func TestRunForAHandoff(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.ok(h.operator("agent", "add", "worker", "--json"), &struct{ Key string }{})
	pkg := `{"task":{"task_id":"T-1","title":"Hello","objective":"say it","success_criteria":["it is said"]},"context":{"summary":"new"},"work_state":{"next_step":"write it"}}`
	var made struct {
		ID       hub.HandoffID `json:"handoff_id"`
		ShortID  string        `json:"short_id"`
		ThreadID string        `json:"thread_id"`
	}
	h.ok(h.stdin("planner", pkg, "handoff", "new", "--to", "worker", "--package", "-", "--reason", "busy", "--json"), &made)
	got := outcome(t, h.runAs("polite", newRepository(t), "--handoff", made.ShortID))
	if got.Verdict != hub.RunConfirmed || got.ThreadID != made.ThreadID {
		t.Errorf("got %s on thread %s, want confirmed on %s", got.Verdict, got.ThreadID, made.ThreadID)
	}
	var shown struct {
		Runs []ran `json:"runs"`
	}
	h.ok(h.as("planner", "show", string(made.ID), "--json"), &shown)
	if len(shown.Runs) != 1 || shown.Runs[0].RunID != got.RunID || shown.Runs[0].Verdict != hub.RunConfirmed || len(shown.Runs[0].Evidence.Diff.Created) != 1 {
		t.Errorf("got %+v, want the run with its evidence", shown.Runs)
	}
	var inbox struct{ Messages []struct{ Type, From string } }
	h.ok(h.as("planner", "inbox", "--json"), &inbox)
	if n := len(inbox.Messages); n == 0 || inbox.Messages[n-1].Type != "status.complete" {
		t.Errorf("who handed the task over got %+v", inbox.Messages)
	}
	other := h.runAs("polite", newRepository(t), "--handoff", string(made.ID), "--name", "builder")
	if other.code != exitMissing {
		t.Errorf("a handoff for somebody else: exit %d: %s", other.code, other.err)
	}
}

func TestRunWhenTheHubGoesAway(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	p := spawn(t, parley(t, h.env(""), runArgs(t, "patient", newRepository(t), "--json", "--as-operator")...))
	line := p.stdout.await(t, "waiting for ")
	h.stop()
	file := strings.Split(line[strings.Index(line, "waiting for ")+len("waiting for "):], "\\n")[0]
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t); code != exitDone {
		t.Fatalf("exit %d: %s", code, p.stderr)
	}
	p.stdout.await(t, "report the end of the run to the hub")
	h.start()
	var list struct{ Runs []ran }
	h.ok(h.operator("run", "list", "--json"), &list)
	if len(list.Runs) != 1 || list.Runs[0].State != hub.RunDone || !list.Runs[0].Told {
		t.Fatalf("got %+v, want one run of which the hub has heard", list.Runs)
	}
	contains(t, h.operator("show", string(list.Runs[0].RunID)).out, "done, confirmed")
}
