package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// A liar is an agent that says that its work is done, in a working tree of its own.
type liar struct {
	*desk
	t       *testing.T
	planner string // keys
	builder string
	work    string
	task    int
}

// begin gives the liar a branch in a working tree of its own.
func (l *liar) begin(t *testing.T) {
	t.Helper()
	l.t = t
	l.desk.t = t
	l.task++
	l.work = filepath.Join(filepath.Dir(l.dir), fmt.Sprint("work", l.task))
	l.git("worktree", "add", "-q", "-b", fmt.Sprint("task", l.task), l.work, "main")
}

// add lets the operator allow a check.
func (l *liar) add(name, line string, more func(*api.AddCheckParams)) {
	l.t.Helper()
	p := api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: l.dir}, Name: name, Command: []string{"sh", "-c", line}, Unconfined: confine.Supported() != nil}
	if more != nil {
		more(&p)
	}
	must(rpc.Call(l.ctx, l.operator, api.AddCheck, p))(l.t)
}

// accept lets the liar accept a task with checks.
func (l *liar) accept(checks ...string) hub.HandoffID {
	l.t.Helper()
	id := must(rpc.Call(l.ctx, l.hub.as(l.planner), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: fmt.Sprint("T-", l.task), Title: "t", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: l.work, Checks: checks,
	}))(l.t).Report.ID
	must(rpc.Call(l.ctx, l.hub.as(l.builder), api.Handoff, api.HandoffParams{Action: "accept", ID: id}))(l.t)
	return id
}

// put writes a file of the working tree.
func (l *liar) put(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.work, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// save commits the working tree.
func (l *liar) save() {
	l.t.Helper()
	l.git("-C", l.work, "add", "-A")
	l.git("-C", l.work, "commit", "-q", "-m", "work")
}

// complete says that the task is done.
func (l *liar) complete(id hub.HandoffID) (handoff.Report, error) {
	l.t.Helper()
	wait := 100
	got, err := rpc.Call(l.ctx, l.hub.as(l.builder), api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "DONE, all tests pass", Wait: &wait})
	if err != nil {
		return handoff.Report{}, err
	}
	return *got.Report, nil
}

// refused fails unless a completion was refused as unproven, with a text.
func (l *liar) refused(id hub.HandoffID, text string) {
	l.t.Helper()
	got, err := l.complete(id)
	if hub.CodeOf(err) != hub.CodeUnproven || !strings.Contains(err.Error(), text) {
		l.t.Errorf("got %s, %v, want it refused: %s", got.Stage, err, text)
	}
}

// returned fails unless a completion was returned to its owner after a check, and returns the result.
func (l *liar) returned(id hub.HandoffID, reason string) hub.CheckResult {
	l.t.Helper()
	got, err := l.complete(id)
	if err != nil || got.Status != hub.HandoffActivated || got.Checks != hub.ChecksFailed || !strings.Contains(got.Returned, reason) || len(got.Results) != 1 {
		l.t.Fatalf("got %s, checks %s, returned %q, %v, want it returned: %s", got.Status, got.Checks, got.Returned, err, reason)
	}
	if _, err := rpc.Call(l.ctx, l.operator, api.Land, api.LandParams{Ref: string(id)}); hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), "its checks failed") {
		l.t.Errorf("land: got %v, want that its checks failed", err)
	}
	return got.Results[0]
}

// countedTests is a check that reports one test for each file.
const countedTests = `{ echo '<testsuite>'; for f in tests/*; do echo "<testcase name='$f'/>"; done; echo '</testsuite>'; } > report.xml`

// cheapLies are the lies of the table in docs/landing.md.
var cheapLies = []struct {
	lie, outcome string
	tell         func(l *liar)
}{
	{"touches a file", "refused: the commit has no change", func(l *liar) {
		id := l.accept("test")
		now := time.Now()
		if err := os.Chtimes(filepath.Join(l.work, "doc.txt"), now, now); err != nil {
			l.t.Fatal(err)
		}
		l.refused(id, "")
		l.git("-C", l.work, "commit", "-q", "--allow-empty", "-m", "done")
		l.refused(id, "")
	}},
	{"commits whitespace, line ends, modes or empty files", "refused, unless its owner says why that is the task", func(l *liar) {
		id := l.accept("test")
		l.put("doc.txt", "doc  \r\n\n")
		l.put("empty.txt", "")
		l.save()
		l.refused(id, "changes only whitespace")
	}},
	{"brings commits that another branch had before the task", "refused: they do not count as its work", func(l *liar) {
		l.put("feature.go", "package feature\n\n// Of somebody else.\n")
		l.save()
		l.git("branch", "-q", fmt.Sprint("others", l.task), fmt.Sprint("task", l.task))
		l.git("-C", l.work, "reset", "-q", "--hard", "main")
		id := l.accept("test")
		l.git("-C", l.work, "merge", "-q", "--ff-only", fmt.Sprint("others", l.task))
		l.refused(id, "")
	}},
	{"deletes tests", "shown: `tests: 3 before, 1 now`, and a review is asked for", func(l *liar) {
		l.add("count", countedTests, func(p *api.AddCheckParams) { p.JUnit = "report.xml" })
		must(rpc.Call(l.ctx, l.operator, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: l.dir}, Name: "count"}, Commit: "main"}))(l.t)
		id := l.accept("count")
		l.git("-C", l.work, "rm", "-q", "tests/two", "tests/three")
		l.put("doc.txt", "faster\n")
		l.save()
		got, err := l.complete(id)
		if err != nil || len(got.Results) != 1 || got.Results[0].Note != "tests: 3 before, 1 now" {
			l.t.Fatalf("got %+v, %v", got.Results, err)
		}
		for {
			waiting := must(rpc.Call(l.ctx, l.operator, api.ListReviews, api.ReviewsParams{}))(l.t)
			if len(waiting.Reviews) > 0 {
				if r := waiting.Reviews[0]; r.Handoff != id || !strings.Contains(r.Note, "tests: 3 before, 1 now") {
					l.t.Errorf("the review is %+v", r)
				}
				return
			}
			must(rpc.Call(l.ctx, l.operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(l.t)
		}
	}},
	{"lets its tests fail and the command end with 0", "returned: the file of `junit` has a failed test", func(l *liar) {
		l.add("lenient", `echo '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>' > report.xml; exit 0`, func(p *api.AddCheckParams) { p.JUnit = "report.xml" })
		id := l.accept("lenient")
		l.put("doc.txt", "lenient\n")
		l.save()
		l.returned(id, "1 of 2 tests failed")
	}},
	{"brings a `GNUmakefile` beside the `Makefile`", "shown: a check uses it instead", func(l *liar) {
		l.put("Makefile", "all:\n\ttrue\n")
		l.save()
		l.git("merge", "-q", "--ff-only", fmt.Sprint("task", l.task))
		l.add("make", "make -n >/dev/null || true", nil)
		id := l.accept("make")
		l.put("GNUmakefile", "all:\n")
		l.save()
		got, err := l.complete(id)
		if text := strings.Join(got.Warnings, "\n"); err != nil || !strings.Contains(strings.ReplaceAll(text, `"`, ""), "GNUmakefile was created, and a check uses it instead of Makefile") {
			l.t.Errorf("got warnings %q, %v", text, err)
		}
	}},
	{"edits the check in the same change", "returned: the trusted check runs, from the operator's store, and the completion says `checks changed, not trusted`", func(l *liar) {
		l.put("parley.yaml", "checks:\n  - name: strict\n    command: \"! grep -q broken doc.txt\"\n")
		l.save()
		l.git("merge", "-q", "--ff-only", fmt.Sprint("task", l.task))
		known := must(rpc.Call(l.ctx, l.operator, api.ListChecks, api.RepositoryParams{Repository: l.dir}))(l.t)
		must(rpc.Call(l.ctx, l.operator, api.TrustChecks, api.TrustParams{RepositoryParams: api.RepositoryParams{Repository: l.dir}, Digest: known.Digest}))(l.t)
		id := l.accept("strict")
		l.put("doc.txt", "broken\n")
		l.put("parley.yaml", "checks:\n  - name: strict\n    command: \"true\"\n")
		l.save()
		if r := l.returned(id, "check strict failed with exit code 1"); !strings.Contains(strings.Join(r.Command, " "), "grep -q broken") {
			l.t.Errorf("the command was %v", r.Command)
		}
	}},
	{"edits the tree while the check runs", "thrown away: the next run has the files of the commit again", func(l *liar) {
		l.add("edits", `cat doc.txt; echo edited > doc.txt; git add -A; git commit -q -m edited; exit 1`, nil)
		id := l.accept("edits")
		l.put("doc.txt", "of the commit\n")
		l.save()
		l.returned(id, "check edits failed")
		again := must(rpc.Call(l.ctx, l.operator, api.RunCheck, api.RunCheckParams{
			CheckParams: api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: l.work}, Name: "edits"}, Commit: "HEAD", Again: true,
		}))(l.t).Result
		if !strings.HasPrefix(again.Output.Tail, "of the commit\n") || l.git("-C", l.work, "status", "--porcelain") != "" {
			l.t.Errorf("the next run printed %q", again.Output.Tail)
		}
	}},
	{"makes a check that never ends", "returned after the time of the check: `check forever did not end in time`", func(l *liar) {
		l.add("forever", "while :; do sleep 1000; done", func(p *api.AddCheckParams) { p.Timeout = "1s" })
		id := l.accept("forever")
		l.put("doc.txt", "forever\n")
		l.save()
		l.returned(id, "check forever did not end in time")
	}},
	{"is a fork bomb", "returned: all its processes are ended at more than 1,024", func(l *liar) {
		l.add("bomb", `i=0; while [ $i -lt 3000 ]; do sleep 1000 & i=$((i+1)); done; wait`, nil)
		id := l.accept("bomb")
		l.put("doc.txt", "bomb\n")
		l.save()
		if r := l.returned(id, "check bomb failed"); !strings.Contains(r.Reason, "more than 1024 processes") {
			l.t.Errorf("the reason is %q", r.Reason)
		}
	}},
	{"writes 1 GB of output", "the last 64 KiB and an artifact of 8 MiB are kept; the verdict is that of the check", func(l *liar) {
		l.add("loud", `head -c 1000000000 /dev/zero; echo; echo the reason; exit 9`, nil)
		id := l.accept("loud")
		l.put("doc.txt", "loud\n")
		l.save()
		r := l.returned(id, "check loud failed with exit code 9")
		if got := must(rpc.Call(l.ctx, l.operator, api.ShowResult, api.ResultParams{ID: r.ID}))(l.t).Result.Output; got.Bytes != 1_000_000_012 || len(got.Tail) > 3*(64<<10) || !strings.HasSuffix(got.Tail, "the reason\n") {
			l.t.Errorf("the output has %d bytes, its end %d", got.Bytes, len(got.Tail))
		}
	}},
}

// TestHostileCompletions tells each of the cheap lies to a hub. The table in docs/landing.md has the
// same rows.
func TestHostileCompletions(t *testing.T) {
	patience.NotUnderRace(t)
	d := newDesk(t)
	for _, name := range []string{"one", "two", "three"} {
		d.write("tests/"+name, "1\n")
	}
	d.commit("tests")
	l := &liar{desk: d, t: t}
	keys := d.hub.add(t, "planner", "builder")
	l.planner = keys[0]
	l.builder = keys[1]
	l.add("test", "true", nil)
	raw, err := os.ReadFile(filepath.Join("..", "docs", "landing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "## What a lie costs")
	table, _, _ = strings.Cut(table, "\n## ")
	for i, lie := range cheapLies {
		row := fmt.Sprintf("| %s | %s |\n", lie.lie, lie.outcome)
		if !strings.Contains(table, row) {
			t.Errorf("docs/landing.md has no row %s", row)
		}
		table = strings.Replace(table, row, "", 1)
		if !patience.Chosen(i, lie.lie) {
			continue
		}
		t.Run(lie.lie, func(t *testing.T) {
			l.begin(t)
			lie.tell(l)
		})
	}
	if rest := strings.Count(table, "\n| "); rest != 1 { // its head
		t.Errorf("docs/landing.md has rows without a test:\n%s", table)
	}
}
