package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// commitAttacks are lines of code in a commit that must fail; each has a name in the output. HUB is the
// hub's home, APP the user's repository, DEPS a kept folder.
var commitAttacks = []struct{ name, line string }{
	{"reads the operator's key", `cat "$HUB/` + server.OperatorKeyFile + `"`},
	{"lists the hub's home", `ls "$HUB"`},
	{"reads the environment of the hub", `grep -a . "/proc/$HUB_PID/environ"`},
	{"writes a hook of the user", `echo evil > "$APP/.git/hooks/post-merge"`},
	{"writes the configuration of the user's git", `git -C "$APP" config core.fsmonitor evil`},
	{"moves a branch of the user", `git -C "$APP" update-ref refs/heads/stolen HEAD`},
	{"writes to the working tree of the user", `echo evil > "$APP/evil"`},
	{"writes beside its worktree", `echo evil > ../../evil`},
	{"writes to the hub's copy", `git update-ref refs/heads/evil HEAD`},
	{"writes elsewhere", `echo evil > "$OUTSIDE/evil"`},
}

// leftTime is the argument by which the process that the test leaves is found: its number may be that
// of a namespace of its own.
const leftTime = "98765.4321"

// hostileTest is the test of the commit, which the operator's check runs: it tries every attack, poisons
// the kept folder, leaves a process behind, and passes.
func hostileTest() string {
	var b strings.Builder
	for _, a := range commitAttacks {
		fmt.Fprintf(&b, "if ( %s ) 2>/dev/null; then echo \"DID: %s\"; fi\n", a.line, a.name)
	}
	b.WriteString("cat deps/good 2>/dev/null\nmkdir -p deps; echo poison > deps/good; echo poison > ~/.profile\n")
	b.WriteString("setsid sh -c 'echo $$ > left; exec sleep " + leftTime + "' >/dev/null 2>&1 &\nwhile ! test -s left; do :; done; echo \"left $(cat left)\"\n")
	return b.String()
}

// TestHostileCommitLands lands a branch whose commit does all that a commit can to run code elsewhere
// or to reach what is not its own. The queue runs its test, confined, and nothing else of it.
func TestHostileCommitLands(t *testing.T) {
	patience.NotUnderRace(t)
	if err := confine.Supported(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	d := newDesk(t)
	outside := t.TempDir()
	marks := t.TempDir()
	evil := filepath.Join(marks, "evil.sh")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\ntouch "+marks+"/ran-$1\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	// The operator's check runs the commit's own test. It has a kept folder, filled by main.
	d.write("test.sh", "mkdir -p deps; echo good > deps/good\n")
	d.commit("a test")
	must(rpc.Call(d.ctx, d.operator, api.AddCheck, api.AddCheckParams{
		RepositoryParams: api.RepositoryParams{Repository: d.dir}, Name: "test", Command: []string{"sh", "test.sh"}, Keep: []string{"deps"}, SetupKey: []string{"doc.txt"},
		Env: map[string]string{"HUB": d.hub.home, "APP": d.dir, "OUTSIDE": outside, "HUB_PID": fmt.Sprint(os.Getpid())},
	}))(t)
	must(rpc.Call(d.ctx, d.operator, api.SetLanding, api.LandingParams{Repo: d.dir, Into: "main", Checks: []string{"test"}, Review: hub.ReviewerNone, By: hub.LandingAuto}))(t)
	run := func(commit string) hub.CheckResult {
		t.Helper()
		q := api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: d.dir}, Name: "test"}, Commit: commit, Again: true}
		return must(rpc.Call(d.ctx, d.operator, api.RunCheck, q))(t).Result
	}
	if r := run("main"); r.State != hub.ResultPassed {
		t.Fatalf("got %+v", r)
	}

	// The branch names programs wherever a repository can, and so does the configuration of the user's
	// repository, which another agent of the user may have written.
	d.plant([]plantedBranch{{name: "evil", files: map[string]string{
		"test.sh":           hostileTest(),
		"parley.yaml":       "checks:\n  - name: test\n    command: " + evil + " checks\nagents: []\n",
		".gitattributes":    "* filter=evil diff=evil merge=evil\n",
		".gitmodules":       "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::" + evil + " submodule\n",
		"package.json":      `{"scripts": {"preinstall": "` + evil + ` preinstall", "test": "` + evil + ` npm"}}`,
		".githooks/post":    "#!/bin/sh\n" + evil + " hook\n",
		".envrc":            evil + " envrc\n",
		".vscode/task.json": `{"tasks": [{"command": "` + evil + `"}]}`,
	}}})
	for name, value := range map[string]string{
		"filter.evil.smudge": evil + " smudge", "filter.evil.clean": evil + " clean", "core.fsmonitor": evil + " monitor", "core.hooksPath": marks,
		"diff.evil.textconv": evil + " textconv", "merge.evil.driver": evil + " driver",
	} {
		cfg := filepath.Join(d.dir, ".git", "config")
		d.git("config", "--file", cfg, name, value)
	}
	for _, hook := range []string{"post-checkout", "post-merge", "reference-transaction", "post-index-change"} {
		if err := os.WriteFile(filepath.Join(marks, hook), []byte("#!/bin/sh\ntouch "+marks+"/ran-"+hook+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(marks, "ran-*")) // the user's own git may have run them
	for _, mark := range left {
		os.Remove(mark)
	}

	e := d.land("evil")
	if e.State != hub.EntryWaiting || !strings.Contains(e.Reason, "test.sh") {
		t.Fatalf("got %s (%s), want it to wait for a word: it changes the test", e.State, e.Reason)
	}
	must(rpc.Call(d.ctx, d.operator, api.GiveReview, api.ReviewParams{ID: string(e.ID), Verdict: hub.VerdictApprove}))(t)
	e = d.outcome(e.ID)
	if ran, _ := filepath.Glob(filepath.Join(marks, "ran-*")); len(ran) > 0 {
		t.Errorf("programs of the repository ran: %v", ran)
	}
	if e.State != hub.EntryLanded || len(e.Results) != 1 {
		t.Fatalf("got %s (%s), want it landed: its test passes", e.State, e.Reason)
	}
	got := must(rpc.Call(d.ctx, d.operator, api.ShowResult, api.ResultParams{ID: hub.CheckResultID(e.Results[0])}))(t).Result
	if !got.Confined || strings.Contains(got.Output.Tail, "DID:") || !strings.Contains(got.Output.Tail, "good\n") {
		t.Errorf("the check (confined: %v) printed\n%s", got.Confined, got.Output.Tail)
	}
	if !strings.Contains(got.Output.Tail, "left ") || isAlive(t, "sleep\x00"+leftTime+"\x00") {
		t.Errorf("the check left no process, or it is alive:\n%s", got.Output.Tail)
	}
	for _, name := range []string{filepath.Join(d.dir, "evil"), filepath.Join(d.dir, ".git/refs/heads/stolen"), filepath.Join(d.dir, ".git/hooks/post-merge"), filepath.Join(outside, "evil")} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was written", name)
		}
	}

	// The changes of the run on the branch to its kept folder and its home are not there for others.
	d.plant([]plantedBranch{{name: "next", files: map[string]string{"test.sh": "cat deps/good; cat ~/.profile; exit 1\n"}}})
	if r := run("next"); strings.Contains(r.Output.Tail, "poison") || !strings.Contains(r.Output.Tail, "good\n") {
		t.Errorf("the kept folder has\n%s", r.Output.Tail)
	}
}

// isAlive reports whether a process of this machine has a command line.
func isAlive(t *testing.T, line string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		got, err := os.ReadFile(name) // it may have ended
		return err == nil && string(got) == line
	})
}
