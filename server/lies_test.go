package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// A workshop is a hub with a repository in which bob works for alice. Mallory is another
// agent of the hub.
type workshop struct {
	*running
	t                   *testing.T
	alice, bob, mallory string // keys
	root, template      string // folders: the hub checks those in the root
	repo                string
	tasks               int
	task                hub.HandoffID // the last one that bob accepted
	side                hub.HandoffID // the task in the second worktree
}

// workText is the content of the file of the tasks.
const workText = "package auth\n\n// Allowed reports whether a user may enter.\nfunc Allowed(user string) bool {\n\treturn user != \"\"\n}\n\n// Name returns the name of the package.\nfunc Name() string {\n\treturn \"auth\"\n}\n"

// newTemplate makes a repository with a branch on which others finished work, of which each
// repository of a workshop is a copy.
func newTemplate(t *testing.T) string {
	t.Helper()
	w := &workshop{t: t, repo: t.TempDir()}
	w.git("init", "-q", "--template=", "-b", "main")
	w.write("auth.go", workText)
	w.write("README.md", "# Auth\n\nIt decides who enters.\n")
	w.write("run.sh", "#!/bin/sh\ngo test ./...\n")
	w.write(".gitignore", "*.log\n")
	w.commit("first")
	w.git("checkout", "-q", "-b", "feature")
	w.write("auth.go", strings.Replace(workText, `user != ""`, `len(user) > 2`, 1))
	w.write("feature.go", "package auth\n\n// Feature is finished work of others.\nconst Feature = true\n")
	w.commit("the feature")
	w.git("checkout", "-q", "main")
	return w.repo
}

// newRepository makes a repository under the root.
func (w *workshop) newRepository() {
	w.t.Helper()
	repo, err := os.MkdirTemp(w.root, "repo")
	if err == nil {
		err = os.CopyFS(repo, os.DirFS(w.template))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.repo = repo
}

func (w *workshop) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", w.repo, "-c", "user.name=Jane Doe", "-c", "user.email=jane@example.com", "-c", "commit.gpgSign=false", "-c", "gc.auto=0"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *workshop) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.repo, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.repo, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) commit(message string, more ...string) {
	w.t.Helper()
	w.git("add", "-A")
	w.git(append([]string{"commit", "-q", "-m", message}, more...)...)
}

// fix is honest work.
func (w *workshop) fix() {
	w.t.Helper()
	w.write("auth.go", strings.Replace(workText, `user != ""`, `user == "root"`, 1))
}

// handOver hands a task in the repository to an agent, which accepts it. more are further
// members of the call.
func (w *workshop) handOver(to hub.AgentID, key string, more map[string]any) hub.HandoffID {
	w.t.Helper()
	w.tasks++
	params := map[string]any{
		"action": "initiate", "to": to, "task_id": fmt.Sprintf("%s-%d", filepath.Base(w.repo), w.tasks), "title": "Let only root enter", "summary": "s", "next_step": "change who may enter",
		"success_criteria": []string{"auth.go refuses users"}, "worktree_path": w.repo,
	}
	for name, value := range more {
		params[name] = value
	}
	var made handoff.Report
	w.handoff(w.alice, params).wantOK(w.t, &made)
	w.handoff(key, map[string]any{"action": "accept", "handoff_id": made.ID}).wantOK(w.t, &made)
	if made.Status != hub.HandoffActivated {
		w.t.Fatalf("accept: got %s, %+v", made.Status, made.Claims)
	}
	return made.ID
}

func (w *workshop) handoff(key string, params map[string]any) answer {
	w.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.call(w.t, key, "acp/handoff", string(raw))
}

// complete says that a task of bob's is done, and returns the outcome in words.
func (w *workshop) complete(id hub.HandoffID, more map[string]any) string {
	w.t.Helper()
	params := map[string]any{"action": "complete", "handoff_id": id, "summary": "DONE"}
	for name, value := range more {
		params[name] = value
	}
	a := w.handoff(w.bob, params)
	if a.Error != nil {
		return "refused: " + a.Error.Message
	}
	return w.outcome(id)
}

// outcome returns the proof of a handoff as lists show it.
func (w *workshop) outcome(id hub.HandoffID) string {
	w.t.Helper()
	var shown handoff.Report
	w.handoff(w.alice, map[string]any{"action": "show", "handoff_id": id}).wantOK(w.t, &shown)
	var page handoff.Listing
	w.handoff(w.alice, map[string]any{"action": "list", "task_id": shown.TaskID}).wantOK(w.t, &page)
	if len(page.Handoffs) != 1 || page.Handoffs[0].ProofText() != shown.ProofText() || page.Handoffs[0].Change != shown.Change {
		w.t.Errorf("the list has %+v, and show %s: %s", page.Handoffs, shown.ProofText(), shown.Change)
	}
	return fmt.Sprintf("%s: %s", shown.ProofText(), shown.ChangeText())
}

// file is a reference to a file of the repository.
func (w *workshop) file(name string) []any {
	return []any{map[string]any{"type": "file", "path": filepath.Join(w.repo, name)}}
}

// A lie is a way to say "done" without the work of the task.
type lie struct {
	name   string
	task   map[string]any  // further members of initiate
	before func(*workshop) // before the task is accepted
	do     func(*workshop)
	done   func(*workshop) map[string]any // further members of complete
	after  func(*workshop)                // after the completion
	want   string                         // begins the outcome
	strict string                         // the same on a hub with --require-proof; as want if it is empty
}

const (
	refusedNothing = "refused: work: nothing has changed in "
	refusedStrict  = "refused: this hub requires proof, and the work is unproven: "
)

// lies are the lies about the work of a handoff. None of them ends as verified without the
// qualification that a reader needs.
var lies = []lie{
	{name: "nothing at all", want: refusedNothing},
	{name: "an empty commit", do: func(w *workshop) { w.git("commit", "-q", "--allow-empty", "-m", "done") }, want: refusedNothing},
	{name: "another message for the last commit", do: func(w *workshop) { w.git("commit", "-q", "--amend", "-m", "done") }, want: refusedNothing},
	{name: "a change and its revert", do: func(w *workshop) { w.fix(); w.commit("fix"); w.git("revert", "--no-edit", "HEAD") }, want: refusedNothing},
	{name: "a commit of what lay there uncommitted", before: (*workshop).fix, do: func(w *workshop) { w.commit("mine") }, want: refusedNothing},
	{name: "files that git ignores", do: func(w *workshop) { w.write("build.log", "built\n") }, want: refusedNothing},

	{name: "a checkout of others' branch", do: func(w *workshop) { w.git("checkout", "-q", "feature") }, want: "refused: work: no work of this task in REPO: 1 commit, 1 was there before"},
	{name: "a merge of others' work that moves the branch", do: func(w *workshop) { w.git("merge", "-q", "feature") }, want: "refused: work: no work of this task in REPO: 1 commit, 1 was there before"},
	{name: "a merge commit of others' work", do: func(w *workshop) { w.git("merge", "-q", "--no-ff", "--no-edit", "feature") }, want: "refused: work: no work of this task in REPO: 2 commits, 1 was there before"},
	{name: "a merge into a file that changed on both sides", before: func(w *workshop) {
		w.write("auth.go", strings.Replace(workText, `return "auth"`, `return "authority"`, 1))
		w.commit("name")
	},
		do: func(w *workshop) { w.git("merge", "-q", "--no-edit", "feature") }, want: "refused: work: no work of this task in REPO: 2 commits, 1 was there before"},
	{name: "a squashed merge under one's own name", do: func(w *workshop) {
		w.git("merge", "-q", "--squash", "feature")
		w.commit("mine", "--author", "bob <bob@example.com>")
	}, want: "refused: work: no work of this task in REPO: 2 files, there before"},
	{name: "a commit that is picked from another branch", do: func(w *workshop) { w.git("cherry-pick", "-x", "feature") }, want: "refused: work: no work of this task in REPO: 2 files, there before"},
	{name: "a file of another branch with one more space", do: func(w *workshop) {
		w.git("checkout", "-q", "feature", "--", "feature.go")
		w.write("feature.go", "package auth\n\n// Feature is finished work of others. \nconst Feature = true\n")
	}, want: "refused: work: no work of this task in REPO: 1 file, there before"},
	{name: "a stash from before", before: func(w *workshop) { w.fix(); w.git("stash", "-q") }, do: func(w *workshop) { w.git("stash", "apply", "-q") }, want: "refused: work: no work of this task in REPO: 1 file, there before"},
	{name: "a stash below another", before: func(w *workshop) {
		w.fix()
		w.git("stash", "-q")
		w.write("README.md", "# Other\n")
		w.git("stash", "-q")
	}, do: func(w *workshop) { w.git("stash", "apply", "-q", "stash@{1}") }, want: "refused: work: no work of this task in REPO: 1 file, there before"},
	{name: "a commit that no branch has any more", before: func(w *workshop) { w.fix(); w.commit("fix"); w.git("reset", "-q", "--hard", "HEAD~1") },
		do: func(w *workshop) { w.git("merge", "-q", "HEAD@{1}") }, want: "refused: work: no work of this task in REPO: 1 commit, 1 was there before"},
	{name: "a reset to an older commit", before: func(w *workshop) { w.fix(); w.commit("fix") }, do: func(w *workshop) { w.git("reset", "-q", "--hard", "HEAD~1") }, want: "refused: work: no work of this task in REPO: 1 file, there before"},
	{name: "a pull of work that others pushed before", before: (*workshop).pushedElsewhere, do: func(w *workshop) { w.git("pull", "-q", "--ff-only", "origin", "main") }, want: "refused: work: no work of this task in REPO: 1 commit, 1 was there before"},
	{name: "uncommitted changes that are thrown away", before: (*workshop).fix, do: func(w *workshop) { w.git("checkout", "-q", "--", ".") }, want: "refused: work: no work of this task in REPO: 1 file, there before"},

	{name: "one space in README", do: func(w *workshop) { w.write("README.md", "# Auth\n\nIt decides who enters. \n") },
		want: "unproven (trivial: README.md: whitespace only): README.md: whitespace only", strict: refusedStrict + "trivial: README.md: whitespace only"},
	{name: "a character that cannot be seen", do: func(w *workshop) { w.write("README.md", "# Auth\u200b\n\nIt decides who enters.\n") },
		want: "unproven (trivial: README.md: whitespace only)", strict: refusedStrict},
	{name: "other line ends", do: func(w *workshop) { w.write("auth.go", strings.ReplaceAll(workText, "\n", "\r\n")); w.commit("fix") },
		want: "unproven (trivial: auth.go: line ends only)", strict: refusedStrict},
	{name: "chmod", do: func(w *workshop) {
		w.git("update-index", "--chmod=+x", "run.sh")
		os.Chmod(filepath.Join(w.repo, "run.sh"), 0o755)
	},
		want: "unproven (trivial: run.sh: mode only)", strict: refusedStrict},
	{name: "an empty file", do: func(w *workshop) { w.write("done.go", ""); w.commit("done") }, want: "unproven (trivial: done.go: empty file only)", strict: refusedStrict},
	{name: "another commit of a submodule", before: (*workshop).withSubmodule, do: func(w *workshop) { w.git("-C", "sub", "checkout", "-q", "HEAD~1"); w.commit("sub") },
		want: "unproven (trivial: sub: submodule only)", strict: refusedStrict},
	{name: "a file that git ignores, named as the product", do: func(w *workshop) { w.write("build.log", "built\n") }, done: func(w *workshop) map[string]any { return map[string]any{"artifacts": w.file("build.log")} },
		want: "unproven (trivial: build.log: ignored by git only)", strict: refusedStrict},
	{name: "one space, said to be the task", do: func(w *workshop) { w.write("README.md", "# Auth\n\nIt decides who enters. \n"); w.commit("space") },
		done: func(*workshop) map[string]any { return map[string]any{"trivial": "it was asked for"} }, want: `verified, trivial: "it was asked for", says bob: README.md: whitespace only`},

	{name: "one change for five tasks", before: func(w *workshop) {
		for range 4 {
			w.handOver("bob", w.bob, nil)
		}
	}, do: func(w *workshop) { w.fix(); w.commit("fix"); w.completeOthers() }, want: refusedNothing},
	{name: "one change for two tasks, and said so", before: func(w *workshop) { w.handOver("bob", w.bob, nil) },
		do:   func(w *workshop) { w.fix(); w.commit("fix"); w.completeOthers() },
		done: func(w *workshop) map[string]any { return map[string]any{"same_change_as": w.others()[0]} }, want: "verified, same change as h"},
	{name: "the same change as a task of another agent", before: func(w *workshop) { w.handOver("mallory", w.mallory, nil) }, do: (*workshop).fix,
		done: func(w *workshop) map[string]any { return map[string]any{"same_change_as": "h1"} }, want: "refused: "},
	{name: "one change, merged into the worktree of another task", before: func(w *workshop) {
		w.beside(func() { w.beginBeside("bob", w.bob) })
	}, do: func(w *workshop) {
		w.beside(func() { w.fix(); w.commit("fix"); w.completeOthers() })
		w.git("merge", "-q", "side")
	}, want: "refused: work: no work of this task in REPO: 1 commit, 1 was there before"},
	{name: "another agent's commit in the same folder", before: func(w *workshop) { w.handOver("mallory", w.mallory, nil) },
		do: func(w *workshop) { w.fix(); w.commit("fix") }, want: "verified, shared with mallory: 1 file +1 -1"},
	{name: "another agent's run in the same folder, which has ended",
		do: func(w *workshop) { w.run("mallory"); w.fix(); w.commit("fix") }, want: "verified, shared with mallory: 1 file +1 -1"},
	{name: "a merge of work that another agent finished meanwhile in a worktree of its own", before: func(w *workshop) {
		w.beside(func() { w.beginBeside("mallory", w.mallory) })
	}, do: func(w *workshop) {
		w.beside(func() { w.fix(); w.commit("fix"); w.completeAs(w.mallory, w.side) })
		w.git("merge", "-q", "--no-ff", "--no-edit", "side")
	}, want: "verified, shared with mallory: 1 file +1 -1"},
	{name: "a merge of work that another agent has not finished", before: func(w *workshop) {
		w.beside(func() { w.beginBeside("mallory", w.mallory) })
	}, do: func(w *workshop) {
		w.beside(func() { w.fix(); w.commit("fix") })
		w.git("merge", "-q", "side")
		w.beside(func() { w.write("more.go", "package auth\n"); w.commit("more") })
	}, want: "verified, shared with mallory: 1 file +1 -1"},
	{name: "another agent's commit under its name", before: func(w *workshop) { w.handOver("mallory", w.mallory, nil) },
		do: func(w *workshop) { w.fix(); w.commit("fix", "--author", "mallory <m@example.com>") }, want: "refused: work: the change in "},
	{name: "a commit under the name of an agent that has no task there", do: func(w *workshop) { w.fix(); w.commit("fix", "--author", "Mallory <m@example.com>") }, want: "verified, shared with mallory: 1 file +1 -1"},

	{name: "a change outside of what is expected", task: map[string]any{"expect": map[string]any{"paths": []string{"auth.go"}}},
		do: func(w *workshop) { w.write("notes.md", "done\n"); w.commit("notes") }, want: "refused: work: expected to change, and did not: auth.go"},
	{name: "one space in the expected file", task: map[string]any{"expect": map[string]any{"paths": []string{"auth.go"}}},
		do: func(w *workshop) { w.write("notes.md", "done\n"); w.write("auth.go", workText+"\n"); w.commit("notes") }, want: "refused: work: expected to change, and did not: auth.go"},
	{name: "no change where one is expected", task: map[string]any{"expect": map[string]any{"paths": []string{"*.go"}}},
		done: func(*workshop) map[string]any { return map[string]any{"no_changes": true} }, want: "refused: work: expected to change, and did not: *.go"},
	{name: "a file that is named and did not change", do: func(w *workshop) { w.write("notes.md", "done\n"); w.commit("notes") },
		done: func(w *workshop) map[string]any { return map[string]any{"artifacts": w.file("auth.go")} }, want: "unproven (auth.go: named, not changed)", strict: refusedStrict},
	{name: "a file that is named and does not exist", do: (*workshop).fix,
		done: func(w *workshop) map[string]any { return map[string]any{"artifacts": w.file("none.go")} }, want: "refused: file "},
	{name: "deleting the very file of the task", do: func(w *workshop) { w.remove("auth.go"); w.commit("clean") }, want: "verified, removes auth.go, which the task names: auth.go deleted"},
	{name: "emptying the very file of the task", do: func(w *workshop) { w.write("auth.go", "\n"); w.commit("clean") }, want: "verified, removes auth.go, which the task names: auth.go emptied"},
	{name: "work that is not committed", do: (*workshop).fix, want: "verified, not committed: 1 file +1 -1"},
	{name: "work of which a part is not committed", do: func(w *workshop) { w.fix(); w.commit("fix"); w.write("more.go", "package auth\n") }, want: "verified, 1 of 2 files not committed: 2 files +2 -1"},
	{name: "work that is taken back a second later", do: func(w *workshop) { w.fix(); w.commit("fix") }, after: func(w *workshop) { w.git("reset", "-q", "--hard", "HEAD~1") }, want: "verified, gone since "},
	{name: "work that is taken back before it was committed", do: (*workshop).fix, after: func(w *workshop) { w.git("checkout", "-q", "--", ".") }, want: "verified, gone since "},
	{name: "no change, by the owner's word", done: func(*workshop) map[string]any { return map[string]any{"no_changes": true} },
		want: "unproven (nothing to change, says bob)", strict: refusedStrict},
}

// pushedElsewhere adds a remote whose branch has a commit that this repository lacks.
func (w *workshop) pushedElsewhere() {
	origin := filepath.Join(w.t.TempDir(), "origin")
	w.git("clone", "-q", w.repo, origin)
	w.git("remote", "add", "origin", origin)
	w.git("fetch", "-q", "origin")
	here := w.repo
	w.repo = origin
	w.write("pushed.go", "package auth\n\n// Pushed is work of others.\nconst Pushed = true\n")
	w.git("add", "-A")
	cmd := exec.Command("git", "-C", origin, "-c", "user.name=o", "-c", "user.email=o@example.com", "commit", "-q", "-m", "pushed")
	cmd.Env = append(os.Environ(), fmt.Sprintf("GIT_COMMITTER_DATE=@%d +0000", time.Now().Add(-time.Hour).Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("commit: %v %s", err, out)
	}
	w.repo = here
}

// withSubmodule adds a submodule with two commits.
func (w *workshop) withSubmodule() {
	library, err := os.MkdirTemp(filepath.Dir(w.repo), "library")
	if err != nil {
		w.t.Fatal(err)
	}
	here := w.repo
	w.repo = library
	w.git("init", "-q", "-b", "main")
	w.write("lib.go", "package lib\n")
	w.commit("first")
	w.write("lib.go", "package lib\n\nconst Second = true\n")
	w.commit("second")
	w.repo = here
	w.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", library, "sub")
	w.commit("sub")
}

// beside does something in a second worktree of the repository.
func (w *workshop) beside(do func()) {
	w.t.Helper()
	main := w.repo
	w.repo += "-side"
	do()
	w.repo = main
}

// beginBeside makes the second worktree, and hands a task there to an agent.
func (w *workshop) beginBeside(to hub.AgentID, key string) {
	w.t.Helper()
	side := w.repo
	w.repo = strings.TrimSuffix(side, "-side")
	w.git("worktree", "add", "-q", "-b", "side", side)
	w.repo = side
	w.side = w.handOver(to, key, nil)
}

// completeAs completes the task of another agent, whose work is verified.
func (w *workshop) completeAs(key string, id hub.HandoffID) {
	w.t.Helper()
	w.handoff(key, map[string]any{"action": "complete", "handoff_id": id}).wantOK(w.t, nil)
}

// run has another agent run in the repository, and ends the run.
func (w *workshop) run(agent hub.AgentID) {
	w.t.Helper()
	id := hub.NewIDs(time.Now).Next()
	w.call(w.t, w.operator, "parley/run/begin", fmt.Sprintf(`{"run_id":%q,"agent":%q,"task":"t","dir":%q,"timeout_s":60}`, id, agent, w.repo)).wantOK(w.t, nil)
	w.call(w.t, w.operator, "parley/run/end", fmt.Sprintf(`{"run_id":%q,"state":"done","verdict":"unverified","report":{"status":"ok"}}`, id)).wantOK(w.t, nil)
}

// others returns bob's tasks in the repository but for the last one.
func (w *workshop) others() (ids []hub.HandoffID) {
	var page handoff.Listing
	w.handoff(w.bob, map[string]any{"action": "list", "to": "bob"}).wantOK(w.t, &page)
	for _, h := range page.Handoffs {
		if strings.HasPrefix(h.TaskID, filepath.Base(w.repo)+"-") && h.ID != w.task {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// completeOthers completes bob's other tasks there: the first is verified, and each further
// one is refused.
func (w *workshop) completeOthers() {
	w.t.Helper()
	for i, id := range w.others() {
		got := w.complete(id, nil)
		if begin := []string{"verified: 1 file +1 -1", refusedNothing}[min(i, 1)]; !strings.HasPrefix(got, begin) {
			w.t.Errorf("completion %d of one change: got %s, want %s", i+1, got, begin)
		}
	}
}

// tell plays a lie in a repository of its own and returns the outcome.
func (w *workshop) tell(l lie) string {
	w.t.Helper()
	w.newRepository()
	step := func(do func(*workshop)) {
		if do != nil {
			do(w)
		}
	}
	step(l.before)
	w.task = w.handOver("bob", w.bob, l.task)
	step(l.do)
	var more map[string]any
	if l.done != nil {
		more = l.done(w)
	}
	got := w.complete(w.task, more)
	if l.after != nil && !strings.HasPrefix(got, "refused") {
		l.after(w)
		got = w.outcome(w.task)
	}
	return strings.ReplaceAll(got, w.repo, "REPO")
}

// newWorkshop starts a hub that checks handoffs under a root.
func newWorkshop(t *testing.T, template string, strict bool) *workshop {
	t.Helper()
	root := realTempDir(t)
	o := unlimited()
	o.Roots, o.RequireProof = []string{root}, strict
	r := start(t, o)
	keys := r.add(t, "alice", "bob", "mallory")
	return &workshop{running: r, t: t, alice: keys[0], bob: keys[1], mallory: keys[2], root: root, template: template}
}

// TestLies tells every lie to a hub, and to one that requires proof. make attack prints the
// table.
func TestLies(t *testing.T) {
	patience.NotUnderRace(t)
	t.Parallel()
	template := newTemplate(t)
	var told []lie
	for i, l := range lies {
		if patience.Chosen(i, l.name) {
			told = append(told, l)
		}
	}
	var outcomes [2][]string
	t.Run("no lie ends as verified without its qualification", func(t *testing.T) {
		for i, name := range []string{"on a hub", "on a hub that requires proof"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorkshop(t, template, i == 1)
				for _, l := range told {
					want, got := l.want, w.tell(l)
					if i == 1 && l.strict != "" {
						want = l.strict
					}
					_, bare := strings.CutPrefix(got, "verified: ")
					if bare || !strings.HasPrefix(got, want) {
						t.Errorf("%s: got %s, want %s", l.name, got, want)
					}
					outcomes[i] = append(outcomes[i], got)
				}
			})
		}
	})
	if t.Failed() {
		return
	}

	var table strings.Builder
	for i, l := range told {
		strict := outcomes[1][i]
		if strict == outcomes[0][i] {
			strict = "the same"
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", l.name, outcomes[0][i], strict)
	}
	t.Logf("%d lies about work, told to two hubs, 0 got through\n| lie about work | outcome | with --require-proof |\n|---|---|---|\n%s", len(told), &table)
}

// TestHonestWork completes work that has the shape of a lie and is none: it is verified, on
// a hub that requires proof.
func TestHonestWork(t *testing.T) {
	patience.NotUnderRace(t)
	t.Parallel()
	w := newWorkshop(t, newTemplate(t), true)
	for i, l := range []lie{
		{name: "a fix of one line", do: func(w *workshop) { w.fix(); w.commit("fix") }, want: "verified: 1 file +1 -1"},
		{name: "a fix by the author bob beside another agent", before: func(w *workshop) { w.handOver("mallory", w.mallory, nil) },
			do: func(w *workshop) { w.fix(); w.commit("fix", "--author", "bob <bob@example.com>") }, want: "verified: 1 file +1 -1"},
		{name: "work beside another agent in a worktree of its own", before: func(w *workshop) { w.beside(func() { w.beginBeside("mallory", w.mallory) }) },
			do: func(w *workshop) {
				w.beside(func() { w.write("more.go", "package auth\n"); w.commit("more"); w.completeAs(w.mallory, w.side) })
				w.fix()
				w.commit("fix")
			}, want: "verified: 1 file +1 -1"},
		{name: "work that another agent merged before it was completed", before: func(w *workshop) { w.beside(func() { w.beginBeside("mallory", w.mallory) }) },
			do: func(w *workshop) {
				w.fix()
				w.commit("fix")
				w.beside(func() {
					w.write("more.go", "package auth\n")
					w.commit("more")
					w.git("merge", "-q", "--no-edit", "main")
					w.completeAs(w.mallory, w.side)
				})
			}, want: "verified: 1 file +1 -1"},
		{name: "a deletion", do: func(w *workshop) { w.remove("run.sh"); w.commit("unused") }, want: "verified: run.sh deleted"},
		{name: "a rename", do: func(w *workshop) { w.git("mv", "README.md", "ABOUT.md"); w.commit("about") }, want: "verified: README.md renamed to ABOUT.md"},
		{name: "a revert of a commit from before", before: func(w *workshop) { w.fix(); w.commit("fix") }, do: func(w *workshop) { w.git("revert", "--no-edit", "HEAD") }, want: "verified: 1 file +1 -1"},
		{name: "a merge that the task expects", task: map[string]any{"expect": map[string]any{"merge": true}}, do: func(w *workshop) { w.git("merge", "-q", "--no-ff", "--no-edit", "feature") },
			want: "verified, a merge, as the task expects: 2 files +5 -1, 2 commits, 1 was there before"},
		{name: "work upon a branch of others", do: func(w *workshop) {
			w.git("merge", "-q", "feature")
			w.write("feature.go", "package auth\n\n// Feature is finished work of others.\nconst Feature = false\n")
			w.commit("switch it off")
		}, want: "verified: 1 file +1 -1, 2 commits, 1 was there before"},
		{name: "an indentation that is the task", do: func(w *workshop) { w.write("auth.go", strings.ReplaceAll(workText, "\t", "    ")); w.commit("indent") },
			done: func(*workshop) map[string]any { return map[string]any{"trivial": "the style wants blanks"} }, want: `verified, trivial: "the style wants blanks", says bob: auth.go: whitespace only`},
		{name: "an expected file among others", task: map[string]any{"expect": map[string]any{"paths": []string{"auth.go", "docs"}}},
			do: func(w *workshop) { w.fix(); w.write("docs/auth.md", "Only root enters.\n"); w.commit("fix") }, want: "verified: 2 files +2 -1"},
		{name: "files that are named and changed", do: func(w *workshop) { w.fix(); w.write("new.go", "package auth\n"); w.commit("fix") },
			done: func(w *workshop) map[string]any {
				return map[string]any{"artifacts": append(w.file("auth.go"), w.file("new.go")...)}
			}, want: "verified: 2 files +2 -1"},
		{name: "a rebase with work", before: func(w *workshop) { w.write("draft.go", "package auth\n"); w.commit("draft") },
			do: func(w *workshop) {
				w.git("rebase", "-q", "feature")
				w.write("draft.go", "package auth\n\nconst Draft = false\n")
				w.commit("finish")
			}, want: "verified: 1 file +2 -0"},
		{name: "work that the hub commits for an agent that cannot", do: func(w *workshop) { w.fix(); w.remove("run.sh"); w.git("mv", "README.md", "ABOUT.md") },
			done: func(*workshop) map[string]any {
				return map[string]any{"commit_message": "auth: only root enters\n\nNobody else did."}
			},
			after: func(w *workshop) {
				if got := w.git("status", "--porcelain"); got != "" {
					w.t.Errorf("git status: got %q, want a clean worktree", got)
				}
				const want = "auth: only root enters|bob|bob@parley.invalid|parley"
				if got := w.git("log", "-1", "--format=%s|%an|%ae|%cn"); got != want {
					w.t.Errorf("the commit: got %s, want %s", got, want)
				}
				w.git("fsck", "--strict")
			}, want: "verified: 3 files +1 -3, 1 renamed, run.sh deleted"},
		{name: "work that goes on in the same file", do: func(w *workshop) { w.fix(); w.commit("fix") },
			after: func(w *workshop) {
				w.write("auth.go", strings.Replace(workText, `user != ""`, `user == "admin"`, 1))
				w.commit("admin")
			}, want: "verified: 1 file +1 -1"},
		{name: "two tasks on two branches, begun before the first is completed", before: func(w *workshop) { w.handOver("bob", w.bob, nil) }, do: func(w *workshop) {
			w.git("checkout", "-q", "-b", "second")
			w.write("more.go", "package auth\n\nconst More = true\n")
			w.commit("more")
			w.git("checkout", "-q", "-b", "first", "main")
			w.fix()
			w.commit("fix")
			w.completeOthers()
			w.git("checkout", "-q", "second")
		}, want: "verified: 1 file +3 -0"},
		{name: "two tasks with a change each", before: func(w *workshop) { w.handOver("bob", w.bob, nil) }, do: func(w *workshop) {
			w.fix()
			w.commit("fix")
			w.completeOthers()
			w.write("more.go", "package auth\n\nconst More = true\n")
			w.commit("more")
		}, want: "verified: 1 file +3 -0"},
	} {
		if !patience.Chosen(i, l.name) {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			w.t = t
			if got := w.tell(l); !strings.HasPrefix(got, l.want) {
				t.Errorf("got %s, want %s", got, l.want)
			}
		})
	}
}

// realTempDir returns a temporary folder without links in its path.
func realTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
