package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process/confine"
)

// A bench is a hub, a repository under its root, and a builder who works there. The check test of the
// repository passes if no file says bad; its command waits while a file is there.
type bench struct {
	*house
	repo string
	wait string // the file for which the check slow waits to go away
}

func newBench(t *testing.T, flags ...string) *bench {
	t.Helper()
	if err := confine.Supported(); err != nil {
		t.Skipf("this system cannot confine checks: %v", err)
	}
	root := t.TempDir()
	repo, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{repo: repo, wait: filepath.Join(t.TempDir(), "wait")}
	b.house = newHouse(t, append(flags, "--root", repo)...)
	b.git("init", "-q", "-b", "main")
	b.write("app.txt", "good\n")
	b.commit("first")
	return b
}

// operator runs a command as the operator does in a script. Flags after -- are those of the command
// that is allowed.
func (b *bench) operator(args ...string) result {
	b.t.Helper()
	return b.as("", append([]string{"--as-operator"}, args...)...)
}

// git runs git in the repository and returns its output.
func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = b.repo
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=builder", "GIT_AUTHOR_EMAIL=builder@example.org", "GIT_COMMITTER_NAME=builder", "GIT_COMMITTER_EMAIL=builder@example.org", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.repo, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// commit commits everything and returns the commit.
func (b *bench) commit(message string) string {
	b.t.Helper()
	b.git("add", "-A")
	b.git("commit", "-q", "-m", message)
	return b.git("rev-parse", "HEAD")
}

// add adds the check test, or slow, which waits for the file.
func (b *bench) add(flags ...string) {
	b.t.Helper()
	line := `echo checking app.txt; ! grep -q bad app.txt`
	b.ok(b.operator(append(append([]string{"check", "add", "test", "--repo", b.repo}, flags...), "--", "sh", "-c", line)...), nil)
}

// slow adds a required check that runs until the file is removed.
func (b *bench) slow() {
	b.t.Helper()
	line := `echo begun; while [ -e ` + b.wait + ` ]; do sleep 0.05; done; echo over`
	if err := os.WriteFile(b.wait, nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.ok(b.operator("check", "add", "slow", "--required", "--repo", b.repo, "--", "sh", "-c", line), nil)
}

// accepted offers a task to the builder, which accepts it, and returns its id.
func (b *bench) accepted(task string, flags ...string) string {
	b.t.Helper()
	var made handoffShape
	b.ok(b.as("planner", append(handoffFlags(task, "--worktree", b.repo), flags...)...), &made)
	b.ok(b.as("builder", "handoff", "accept", made.ID, "--json"), nil)
	return made.ID
}

// complete completes a task as the builder.
func (b *bench) complete(id string, flags ...string) (handoffShape, result) {
	b.t.Helper()
	r := b.as("builder", append([]string{"handoff", "complete", id, "--summary", "done", "--json"}, flags...)...)
	var got handoffShape
	if r.out != "" {
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			b.t.Fatalf("%v in %s", err, r.out)
		}
	}
	return got, r
}

// checkResultShape is the result of a run as scripts read it.
type checkResultShape struct {
	Result struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Commit   string `json:"commit"`
		Tree     string `json:"tree"`
		State    string `json:"state"`
		ExitCode int    `json:"exit_code"`
		Duration *int   `json:"duration_ms"`
		Kept     bool   `json:"kept"`
		Flaky    bool   `json:"flaky"`
		Confined bool   `json:"confined"`
		Level    int    `json:"level"`
		InPlace  bool   `json:"in_place"`
		Output   struct {
			Bytes    int    `json:"bytes"`
			SHA256   string `json:"sha256"`
			Tail     string `json:"tail"`
			Artifact string `json:"artifact"`
		} `json:"output"`
	} `json:"result"`
}

func (b *bench) run(exit int, args ...string) checkResultShape {
	b.t.Helper()
	r := b.as("builder", append([]string{"check", "run", "--repo", b.repo, "--json"}, args...)...)
	if r.code != exit {
		b.t.Fatalf("check run %v: exit %d, want %d: %s%s", args, r.code, exit, r.out, r.err)
	}
	var got checkResultShape
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		b.t.Fatalf("%v in %s", err, r.out)
	}
	return got
}

func TestCheckCommands(t *testing.T) {
	b := newBench(t)
	t.Run("only the operator adds checks", func(t *testing.T) {
		refused(t, b.as("builder", "check", "add", "test", "--repo", b.repo, "--json", "--", "true"), exitRefused, "forbidden")
	})
	var added struct {
		Check struct {
			Name, Repository, Digest, Timeout string
			Command, When                     []string
			Required                          bool
		}
	}
	b.ok(b.operator("check", "add", "test", "--repo", b.repo, "--timeout", "1m", "--required", "--when", "*.txt", "--json", "--", "sh", "-c", "echo checking; ! grep -q bad app.txt"), &added)
	if c := added.Check; c.Name != "test" || c.Repository != b.repo || len(c.Digest) != 64 || c.Timeout != "1m" || !c.Required || len(c.When) != 1 || len(c.Command) != 3 {
		t.Errorf("got %+v", c)
	}

	t.Run("a check runs on the committed files, confined, and its result is kept", func(t *testing.T) {
		b.write("app.txt", "bad, and not committed\n")
		first := b.run(0, "test").Result
		if first.State != "passed" || first.Kept || !first.Confined || first.InPlace || first.Output.Tail != "checking\n" || first.Output.Artifact != first.Output.SHA256 || first.Commit != b.git("rev-parse", "HEAD") {
			t.Errorf("got %+v", first)
		}
		level := fmt.Sprintf("level %d", first.Level)
		if list := b.as("builder", "check", "results"); first.Level == 0 || !strings.Contains(list.out, level) {
			t.Errorf("the list of results does not name the %s: %s%s", level, list.out, list.err)
		}
		if doctor := b.operator("doctor"); !strings.Contains(doctor.out, "confined at "+level) {
			t.Errorf("doctor does not name the %s: %s%s", level, doctor.out, doctor.err)
		}
		b.git("checkout", "-q", "app.txt")
		if again := b.run(0, "test").Result; again.ID != first.ID || !again.Kept {
			t.Errorf("the second time: got %+v", again)
		}
		if again := b.run(0, "test", "--again").Result; again.ID == first.ID || again.Kept {
			t.Errorf("again: got %+v", again)
		}
	})
	t.Run("a failed check exits with 1 and its exit code is in the result", func(t *testing.T) {
		b.git("checkout", "-q", "-b", "broken")
		b.write("app.txt", "bad\n")
		bad := b.commit("broken")
		b.git("checkout", "-q", "main")
		got := b.run(1, "test", "--commit", "broken").Result
		if got.State != "failed" || got.ExitCode != 1 || got.Commit != bad {
			t.Errorf("got %+v", got)
		}
		text := b.as("builder", "check", "run", "test", "--repo", b.repo, "--commit", bad)
		if text.code != 1 || !strings.Contains(text.out, "test failed on "+bad[:12]) || !strings.Contains(text.out, "exit code 1") {
			t.Errorf("got %d: %s%s", text.code, text.out, text.err)
		}
	})
	t.Run("an unknown check and an unknown commit are refused with the way out", func(t *testing.T) {
		got := refused(t, b.as("builder", "check", "run", "tests", "--repo", b.repo, "--json"), exitMissing, "not_found")
		if got.Error.Hint != "its checks are test" {
			t.Errorf("got %+v", got)
		}
		refused(t, b.as("builder", "check", "run", "test", "--repo", b.repo, "--commit", "nowhere", "--json"), exitMissing, "not_found")
	})
	t.Run("a check cannot write to the repository of the user, nor read the hub's home", func(t *testing.T) {
		line := "echo x > " + filepath.Join(b.repo, ".git", "poisoned") + "; cat " + filepath.Join(b.home, "*") + "; echo y > " + filepath.Join(b.repo, "poisoned")
		b.ok(b.operator("check", "add", "evil", "--repo", b.repo, "--", "sh", "-c", line), nil)
		b.run(1, "evil")
		for _, name := range []string{".git/poisoned", "poisoned"} {
			if _, err := os.Stat(filepath.Join(b.repo, name)); err == nil {
				t.Errorf("%s was written", name)
			}
		}
		b.ok(b.operator("check", "remove", "evil", "--repo", b.repo), nil)
	})
	t.Run("the records are as the journal says", func(t *testing.T) {
		b.ok(b.operator("hub", "verify"), nil)
	})
}

func TestCheckTrust(t *testing.T) {
	b := newBench(t)
	b.write("parley.yaml", "checks:\n  - name: test\n    command: test -e app.txt\n    required: true\n")
	var list struct {
		Checks    []struct{ Name string }
		Untrusted []struct {
			Name    string
			Command []string
		}
	}
	b.ok(b.operator("check", "list", "--repo", b.repo, "--json"), &list)
	if len(list.Untrusted) != 0 {
		t.Errorf("a file that is not committed proposes: got %+v", list)
	}
	b.commit("propose a check")
	b.ok(b.operator("check", "list", "--repo", b.repo, "--json"), &list)
	if len(list.Checks) != 0 || len(list.Untrusted) != 1 || list.Untrusted[0].Name != "test" {
		t.Fatalf("got %+v", list)
	}
	t.Run("without a yes nothing is trusted", func(t *testing.T) {
		r := b.operator("check", "trust", b.repo)
		if r.code != exitUsage || !strings.Contains(r.err, "test: test -e app.txt") {
			t.Errorf("got %d: %s", r.code, r.err)
		}
	})
	b.ok(b.operator("check", "trust", b.repo, "--yes"), nil)
	b.run(0, "test")

	t.Run("a branch that changes the file runs the trusted check, and says so", func(t *testing.T) {
		id := b.accepted("T-1")
		b.write("parley.yaml", "checks:\n  - name: test\n    command: touch /tmp/never\n    required: true\n")
		b.write("app.txt", "better\n")
		b.commit("change the check")
		got, r := b.complete(id)
		if r.code != 0 || got.Checks != "passed" || !strings.Contains(r.out, "checks changed, not trusted: parley check trust") {
			t.Errorf("got %d %+v: %s", r.code, got, r.out)
		}
		if cmd := got.Results[0]["command"]; !strings.Contains(strings.Join(texts(cmd), " "), "test -e app.txt") {
			t.Errorf("another command ran: %v", cmd)
		}
	})
	t.Run("parley up knows and ignores the checks", func(t *testing.T) {
		r := b.operator("up", filepath.Join(b.repo, "parley.yaml"), "--dry-run")
		if r.code != 0 {
			t.Errorf("got %d: %s%s", r.code, r.out, r.err)
		}
	})
}

// texts returns the strings of a decoded array.
func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, e := range list {
		s, _ := e.(string)
		out = append(out, s)
	}
	return out
}

func TestCompletionWithChecks(t *testing.T) {
	b := newBench(t)
	b.add()
	t.Run("an unknown check is refused when the task is offered, with the known ones", func(t *testing.T) {
		got := refused(t, b.as("planner", handoffFlags("T-0", "--worktree", b.repo, "--check", "tests")...), exitUsage, "schema_invalid")
		if got.Error.Hint != "its checks are test" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("work whose checks pass is completed, and its sender reads the stage", func(t *testing.T) {
		id := b.accepted("T-1", "--check", "test")
		b.write("one.txt", "one\n")
		commit := b.commit("one")
		got, r := b.complete(id)
		if r.code != 0 || got.Status != "closed" || got.Checks != "passed" || got.Review != "none" || got.Landing != "none" || got.Stage != "passes" || len(got.Results) != 1 {
			t.Fatalf("got %d %+v: %s", r.code, got, r.err)
		}
		if got.Results[0]["state"] != "passed" || got.Results[0]["commit"] != commit {
			t.Errorf("results: got %v", got.Results)
		}
		inbox := b.as("planner", "inbox", "--json").out
		if !strings.Contains(inbox, `"stage":"passes"`) || !strings.Contains(inbox, `"checks":"passed"`) {
			t.Errorf("the sender got %s", inbox)
		}
		list := b.as("planner", "handoff", "list", "--json").out
		if !strings.Contains(list, `"stage":"passes"`) {
			t.Errorf("the list has %s", list)
		}
	})
	t.Run("work whose check fails goes back to its owner, and a repaired commit completes it", func(t *testing.T) {
		id := b.accepted("T-2", "--check", "test")
		b.write("app.txt", "bad\n")
		b.commit("broken")
		got, r := b.complete(id)
		if r.code != 1 || got.Status != "activated" || got.Checks != "failed" || got.Stage != "there" {
			t.Fatalf("got %d %+v: %s", r.code, got, r.err)
		}
		b.write("app.txt", "good again\n")
		b.commit("repaired")
		if got, r := b.complete(id); r.code != 0 || got.Status != "closed" || got.Stage != "passes" {
			t.Errorf("repaired: got %d %+v: %s", r.code, got, r.err)
		}
	})
	t.Run("work that is not committed cannot be checked", func(t *testing.T) {
		id := b.accepted("T-3", "--check", "test")
		b.write("two.txt", "two\n")
		_, r := b.complete(id)
		refused(t, r, exitCheck, "unproven")
		if got, r := b.complete(id, "--commit-message", "two"); r.code != 0 || got.Stage != "passes" {
			t.Errorf("committed by the hub: got %d %+v: %s", r.code, got, r.err)
		}
	})
	t.Run("a commit of whitespace is no work, unless its owner says why", func(t *testing.T) {
		id := b.accepted("T-4", "--check", "test")
		b.write("app.txt", "good   again\n\n")
		b.commit("spaces")
		_, r := b.complete(id)
		refused(t, r, exitCheck, "unproven")
		if got, r := b.complete(id, "--trivial", "the task is to format the file"); r.code != 0 || got.Checks != "passed" {
			t.Errorf("declared: got %d %+v: %s", r.code, got, r.err)
		}
	})
	t.Run("a commit that has no work of the task is refused", func(t *testing.T) {
		id := b.accepted("T-5", "--check", "test")
		base := b.git("rev-parse", "HEAD")
		b.git("checkout", "-q", "-b", "elsewhere")
		b.write("three.txt", "three\n")
		other := b.commit("three")
		b.git("checkout", "-q", "main")
		b.write("four.txt", "four\n")
		b.commit("four")
		for name, commit := range map[string]string{"before the task": base, "another branch": other} {
			if _, r := b.complete(id, "--commit", commit); r.code != exitCheck {
				t.Errorf("%s: got %d: %s%s", name, r.code, r.out, r.err)
			}
		}
		if got, r := b.complete(id, "--commit", "main"); r.code != 0 || got.Stage != "passes" {
			t.Errorf("the branch: got %d %+v: %s", r.code, got, r.err)
		}
	})
	t.Run("the records are as the journal says", func(t *testing.T) { b.ok(b.operator("hub", "verify"), nil) })
}

func TestCompletionThatWaits(t *testing.T) {
	b := newBench(t)
	b.slow()
	id := b.accepted("T-1")
	b.write("one.txt", "one\n")
	b.commit("one")
	got, r := b.complete(id, "--wait", "0s")
	if r.code != 0 || got.Status != "activated" || got.Checks != "running" || got.Stage != "there" || !strings.Contains(r.out, `"checking":true`) {
		t.Fatalf("got %d %+v: %s", r.code, got, r.err)
	}

	t.Run("a hub that is killed while a check runs says that it was interrupted, and runs it when it is asked", func(t *testing.T) {
		b.hub.signal(t, syscall.SIGKILL)
		b.start("--root", b.repo)
		if err := os.Remove(b.wait); err != nil {
			t.Fatal(err)
		}
		mail := b.as("builder", "inbox", "--wait", "60s", "--json").out
		if !strings.Contains(mail, "was interrupted") || !strings.Contains(mail, "parley check run slow --again") {
			t.Errorf("the owner got %s", mail)
		}
		if kept := b.as("builder", "check", "run", "slow", "--repo", b.repo); kept.code != 1 || !strings.Contains(kept.out, "interrupted") {
			t.Errorf("without --again: got %d, %s%s", kept.code, kept.out, kept.err)
		}
		b.ok(b.as("builder", "check", "run", "slow", "--again", "--repo", b.repo), nil)
		if got, r := b.complete(id); r.code != 0 || got.Stage != "passes" {
			t.Errorf("got %d %+v: %s", r.code, got, r.err)
		}
		var shown handoffShape
		b.ok(b.as("planner", "show", id, "--json"), &shown)
		if shown.Status != "closed" || shown.Stage != "passes" || len(shown.Results) != 1 {
			t.Errorf("got %+v", shown)
		}
	})
	t.Run("a failure that comes later is told to owner and sender, with the end of the output", func(t *testing.T) {
		b.ok(b.operator("check", "remove", "slow", "--repo", b.repo), nil)
		if err := os.WriteFile(b.wait, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		b.ok(b.operator("check", "add", "fails", "--required", "--repo", b.repo, "--", "sh", "-c", `while [ -e `+b.wait+` ]; do sleep 0.05; done; echo the reason; exit 7`), nil)
		id := b.accepted("T-2")
		b.write("two.txt", "two\n")
		b.commit("two")
		if got, r := b.complete(id, "--wait", "0s"); r.code != 0 || got.Checks != "running" {
			t.Fatalf("got %d %+v", r.code, got)
		}
		if err := os.Remove(b.wait); err != nil {
			t.Fatal(err)
		}
		if r := b.as("builder", "check", "run", "fails", "--repo", b.repo); r.code != 1 {
			t.Errorf("got %d: %s%s", r.code, r.out, r.err)
		}
		for _, who := range []string{"builder", "planner"} {
			mail := b.as(who, "log", "--whole", "--text", "failed", "--json").out
			if !strings.Contains(mail, "check fails failed with exit code 7") || !strings.Contains(mail, "the reason") {
				t.Errorf("%s got %s", who, mail)
			}
		}
	})
}

func TestRequireChecks(t *testing.T) {
	b := newBench(t, "--require-checks")
	id := b.accepted("T-1")
	b.write("one.txt", "one\n")
	b.commit("one")
	_, r := b.complete(id)
	refused(t, r, exitCheck, "unproven")
	b.add("--required")
	if got, r := b.complete(id); r.code != 0 || got.Stage != "passes" {
		t.Errorf("got %d %+v: %s", r.code, got, r.err)
	}
}

// A verification of a run that is a check of the repository runs on the commit of the work, in a
// clean worktree, and its result is kept. Work that is not committed is verified in its folder.
func TestRunVerifiesOnTheCommit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := newProject(t)
	h.ok(h.operator("hub", "folder", "add", dir), nil)
	h.ok(h.as("", "--as-operator", "check", "add", "unit", "--repo", dir, "--unconfined", "--", "sh", "-c", "test ! -e loose.log && test -e hello.txt"), nil)
	const write = "echo hello > hello.txt; echo x > loose.log"
	const commit = write + "; git add hello.txt; git -c user.name=t -c user.email=t@example.org commit -qm hello"
	const says = "STATUS:ok\nFILES_CREATED:hello.txt\nTESTS:pass"
	verify := func(dir, script, line string) ran {
		t.Helper()
		return outcome(t, do(t, parley(t, h.env(""), scripted(t, dir, script, says, "--verify", line, "--home", h.home, "--as-operator")...)))
	}

	// The ignored file is in the folder of the work and not in the commit.
	got := verify(dir, commit, "unit")
	v := got.Evidence.Verify
	if got.Verdict != hub.RunConfirmed || v == nil || v.InPlace || v.Check == nil || v.Check.Name != "unit" || v.Check.Commit != got.Evidence.After.Commit || v.Check.Kept {
		t.Fatalf("by name: got %s, %+v", got.Verdict, v)
	}
	var run struct{ Result hub.CheckResult }
	h.ok(h.operator("check", "run", "unit", "--repo", dir, "--json"), &run)
	if string(run.Result.ID) != v.Check.Result || !run.Result.Kept {
		t.Errorf("the result of the run is not kept: %+v", run.Result)
	}

	again := verify(dir, "echo more > more.log", "test ! -e loose.log && test -e hello.txt")
	if v := again.Evidence.Verify; v == nil || v.Check == nil || !v.Check.Kept || v.Check.Result != string(run.Result.ID) {
		t.Errorf("by the text of its command: got %+v", v)
	}
	loose := verify(dir, "echo loose >> main.go", "unit || test -e loose.log")
	if v := loose.Evidence.Verify; v == nil || !v.InPlace || v.Check != nil {
		t.Errorf("another command: got %+v", v)
	}
	if v := verify(dir, "true", "unit").Evidence.Verify; v == nil || !v.InPlace || v.Check != nil {
		t.Errorf("work that is not committed: got %+v", v)
	}
}
