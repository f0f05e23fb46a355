//go:build unix

package evidence_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/protocol/report"
)

// reportOf reads a report in its text form.
func reportOf(t testing.TB, text string) report.Report {
	t.Helper()
	r, err := report.Parse(text, nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return r.Report
}

// kinds lists what was found: contradictions as they are, what is open with a
// question mark, notes in brackets.
func kinds(v evidence.Judgment) string {
	var all []string
	for _, list := range []struct {
		form     string
		findings []evidence.Finding
	}{{"%s", v.Contradictions}, {"%s?", v.Unverified}, {"(%s)", v.Notes}} {
		for _, f := range list.findings {
			all = append(all, fmt.Sprintf(list.form, f.Kind))
		}
	}
	return strings.Join(all, " ")
}

func TestJudge(t *testing.T) {
	pass := &evidence.Outcome{OutputTail: "=== RUN TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.00s)\nPASS\n"}
	fail := &evidence.Outcome{ExitCode: 1, OutputTail: "1 failed, 3 passed in 0.1s\n"}
	late := &evidence.Outcome{ExitCode: -1, TimedOut: true}
	stopped := &evidence.Outcome{ExitCode: -1, Cancelled: true}
	broken := &evidence.Outcome{ExitCode: -1, Failure: "no shell"}

	none := evidence.Changes{Folder: ".", Named: map[string]evidence.NamedPath{
		"a": {Name: "a", Exists: true}, "gone": {Name: "gone", Ignored: true}, "x.log": {Name: "x.log", Exists: true, Ignored: true, Touched: true},
	}}
	some := evidence.Changes{
		Top: "/repo", Folder: ".",
		Created: []string{"new"}, Modified: []string{"src/mod"}, Deleted: []string{"old"},
		Named: map[string]evidence.NamedPath{
			"a":         {Name: "a", Exists: true},
			"gone":      {Name: "gone", Ignored: true},
			"x.log":     {Name: "x.log", Exists: true, Ignored: true, Touched: true},
			"y.log":     {Name: "y.log", Exists: true, Ignored: true},
			"out":       {Name: "out", Exists: true, Folder: true, Ignored: true, Touched: true},
			"src":       {Name: "src", Exists: true, Folder: true, Ignored: true},
			".":         {Name: ".", Exists: true, Folder: true, Ignored: true},
			"/repo/new": {Name: "new", Exists: true},
		},
	}
	moved := evidence.Changes{Folder: ".", Created: []string{"to"}, Deleted: []string{"from"}, Moved: map[string]string{"from": "to"}}
	submodule := evidence.Changes{Folder: ".", Submodules: []string{"sub"}, Named: map[string]evidence.NamedPath{"sub": {Name: "sub", Exists: true, Folder: true, Ignored: true}}}
	cleared := evidence.Changes{Folder: ".", Deleted: []string{"lib/x"}, Named: map[string]evidence.NamedPath{"lib": {Name: "lib", Ignored: true}}}
	inside := evidence.Changes{Folder: "cmd", Created: []string{"cmd/x.go", "lib/y.go"}}
	const truth = "FILES_CREATED:new\nFILES_MODIFIED:src/mod,old\n"

	for _, tt := range []struct {
		name          string
		text          string
		changes       *evidence.Changes
		verify, build *evidence.Outcome
		scope         []string
		want          hub.RunVerdict
		kinds         string
	}{
		{name: "everything is so", text: "STATUS:ok\n" + truth + "TESTS:pass\nBUILD:pass", changes: &some, verify: pass, build: pass, want: "confirmed"},
		{name: "a failure that is so", text: "STATUS:fail\n" + truth + "TESTS:fail\nBUILD:fail", changes: &some, verify: fail, build: fail, want: "confirmed"},
		{name: "nothing to do", text: "STATUS:no_changes", changes: &none, want: "confirmed"},
		{name: "an answer without work", text: "STATUS:ok", changes: &none, want: "unverified", kinds: "nothing_done?"},
		{name: "an unknown status", text: "STATUS:great\n" + truth, changes: &some, want: "confirmed"},

		{name: "a file that is not there", text: "STATUS:ok\nFILES_CREATED:new,gone\nFILES_MODIFIED:src/mod,old", changes: &some, want: "contradicted", kinds: "file_missing"},
		{name: "a file said to be created that was deleted", text: "STATUS:ok\nFILES_CREATED:new,old\nFILES_MODIFIED:src/mod", changes: &some, want: "contradicted", kinds: "file_missing"},
		{name: "a file that is as it was", text: "STATUS:ok\nFILES_CREATED:new\nFILES_MODIFIED:src/mod,old,a", changes: &some, want: "contradicted", kinds: "file_unchanged"},
		{name: "a file that was there before", text: "STATUS:ok\nFILES_CREATED:new,src/mod\nFILES_MODIFIED:old", changes: &some, want: "contradicted", kinds: "not_created"},
		{name: "a new file said to be modified", text: "STATUS:ok\nFILES_MODIFIED:new,src/mod,old", changes: &some, want: "confirmed", kinds: "(not_modified)"},
		{name: "files that are not named", text: "STATUS:ok\nFILES_CREATED:new", changes: &some, want: "contradicted", kinds: "undeclared undeclared"},
		{name: "files that are not named in a failure", text: "STATUS:fail\nFILES_CREATED:new", changes: &some, want: "confirmed", kinds: "(undeclared) (undeclared)"},
		{name: "a deleted file in a field of its own", text: "STATUS:ok\nFILES_CREATED:new\nFILES_MODIFIED:src/mod\nFILES_DELETED:old", changes: &some, want: "confirmed"},
		{name: "a file said to be deleted that is there", text: "STATUS:ok\n" + truth + "FILES_DELETED:a, src/mod", changes: &some, want: "contradicted", kinds: "file_unchanged file_unchanged"},
		{name: "a file said to be deleted that nobody saw", text: "STATUS:ok\n" + truth + "FILES_DELETED:gone", changes: &some, want: "unverified", kinds: "files_unproven?"},
		{name: "a file that was moved", text: "STATUS:ok\nFILES_CREATED:to", changes: &moved, want: "confirmed"},
		{name: "a move of which nothing is named", text: "STATUS:ok", changes: &moved, want: "contradicted", kinds: "undeclared undeclared"},
		{name: "no edits at all", text: "STATUS:ok\nFILES_MODIFIED:a\nFILES_CREATED:gone", changes: &none, want: "contradicted", kinds: "file_missing file_unchanged no_edits"},
		{name: "no edits but of what is ignored", text: "STATUS:ok\nFILES_CREATED:x.log", changes: &none, want: "confirmed"},
		{name: "an ignored file that was not written", text: "STATUS:ok\n" + truth + "FILES_MODIFIED:y.log", changes: &some, want: "contradicted", kinds: "file_unchanged"},
		{name: "an ignored folder", text: "STATUS:ok\nFILES_CREATED:new,out\nFILES_MODIFIED:src/mod,old", changes: &some, want: "unverified", kinds: "files_unproven?"},
		{name: "edits under no_changes", text: "STATUS:no_changes", changes: &some, want: "contradicted", kinds: "edits_with_no_changes"},
		{name: "a folder for its files", text: "STATUS:ok\nFILES_CREATED:new\nFILES_MODIFIED:src,old", changes: &some, want: "confirmed", kinds: "(folder_named)"},
		{name: "a folder whose files were deleted", text: "STATUS:ok\nFILES_DELETED:lib", changes: &cleared, want: "confirmed", kinds: "(folder_named)"},
		{name: "a folder said to be created whose files were deleted", text: "STATUS:ok\nFILES_CREATED:lib", changes: &cleared, want: "contradicted", kinds: "file_missing undeclared"},
		{name: "everything is no file", text: "STATUS:ok\n" + truth + "FILES_CREATED:new,.", changes: &some, want: "contradicted", kinds: "file_missing"},
		{name: "a submodule at another commit", text: "STATUS:ok\nFILES_MODIFIED:sub", changes: &submodule, want: "confirmed"},
		{name: "an absolute path inside", text: "STATUS:ok\nFILES_CREATED:/repo/new\nFILES_MODIFIED:src/mod,old", changes: &some, want: "confirmed", kinds: "(absolute_path)"},
		{name: "paths that lead out", text: "STATUS:ok\n" + truth + "FILES_CREATED:new,/etc/passwd,../x", changes: &some, want: "contradicted", kinds: "path_escape path_escape"},
		{name: "a path that was not looked at", text: "STATUS:ok\nFILES_CREATED:new,who\nFILES_MODIFIED:src/mod,old", changes: &some, want: "unverified", kinds: "files_unproven?"},
		{name: "files that could not be compared", text: "STATUS:ok\nFILES_CREATED:new", want: "unverified", kinds: "files_unproven?"},

		{name: "in the scope", text: "STATUS:ok\n" + truth, changes: &some, scope: []string{"src/", "new", "o*"}, want: "confirmed"},
		{name: "outside the scope", text: "STATUS:ok\n" + truth, changes: &some, scope: []string{"src"}, want: "contradicted", kinds: "outside_scope outside_scope"},
		{name: "a folder of which a part is in the scope", text: "STATUS:ok\nFILES_CREATED:new\nFILES_MODIFIED:src,old", changes: &some, scope: []string{"src/mod", "new", "old"}, want: "confirmed", kinds: "(folder_named)"},
		{name: "outside the scope and not named", text: "STATUS:fail", changes: &some, scope: []string{"src"}, want: "contradicted", kinds: "outside_scope outside_scope (undeclared) (undeclared) (undeclared)"},
		{name: "from within a folder", text: "STATUS:ok\nFILES_CREATED:x.go,../lib/y.go", changes: &inside, scope: []string{"."}, want: "contradicted", kinds: "outside_scope"},
		{name: "an empty scope", text: "STATUS:ok\n" + truth, changes: &some, scope: []string{" "}, want: "confirmed"},

		{name: "tests that fail", text: "STATUS:ok\nTESTS:pass", changes: &none, verify: fail, want: "contradicted", kinds: "tests_failed nothing_done?"},
		{name: "tests that fail in a partial report", text: "STATUS:partial\nTESTS:pass", changes: &none, verify: fail, want: "contradicted", kinds: "tests_failed"},
		{name: "tests that pass after all", text: "STATUS:fail\nTESTS:fail", changes: &none, verify: pass, want: "unverified", kinds: "tests_passed?"},
		{name: "done, and VERIFY fails", text: "STATUS:no_changes", changes: &none, verify: fail, want: "contradicted", kinds: "verify_failed"},
		{name: "done without tests, and VERIFY fails", text: "STATUS:no_changes\nTESTS:skip", changes: &none, verify: fail, want: "contradicted", kinds: "verify_failed"},
		{name: "done with tests that fail", text: "STATUS:no_changes\nTESTS:fail", changes: &none, verify: fail, want: "contradicted", kinds: "verify_failed"},
		{name: "not done, and VERIFY fails", text: "STATUS:partial", changes: &none, verify: fail, want: "confirmed"},
		{name: "tests that nobody ran", text: "STATUS:no_changes\nTESTS:pass", changes: &none, want: "unverified", kinds: "tests_not_run?"},
		{name: "tests that were skipped", text: "STATUS:no_changes\nTESTS:skip:3", changes: &none, want: "confirmed"},
		{name: "tests that took too long", text: "STATUS:no_changes\nTESTS:pass", changes: &none, verify: late, want: "unverified", kinds: "tests_not_run?"},
		{name: "done, and VERIFY was stopped", text: "STATUS:no_changes", changes: &none, verify: stopped, want: "unverified", kinds: "tests_not_run?"},
		{name: "not done, and VERIFY cannot be run", text: "STATUS:fail", changes: &none, verify: broken, want: "confirmed"},
		{name: "a number that is shown", text: "STATUS:no_changes\nTESTS:pass:2", changes: &none, verify: pass, want: "confirmed"},
		{name: "a number that is not shown", text: "STATUS:no_changes\nTESTS:pass:12", changes: &none, verify: pass, want: "unverified", kinds: "count_unproven?"},
		{name: "a number of failures that is shown", text: "STATUS:fail\nTESTS:fail:1", changes: &none, verify: fail, want: "confirmed"},

		{name: "a build that fails", text: "STATUS:fail\nBUILD:pass", changes: &none, build: fail, want: "contradicted", kinds: "build_failed"},
		{name: "done, and the build fails", text: "STATUS:no_changes", changes: &none, build: fail, want: "contradicted", kinds: "build_failed"},
		{name: "a build that passes after all", text: "STATUS:fail\nBUILD:fail", changes: &none, build: pass, want: "unverified", kinds: "build_passed?"},
		{name: "a build that nobody ran", text: "STATUS:no_changes\nBUILD:pass", changes: &none, want: "unverified", kinds: "build_not_run?"},
		{name: "a build that cannot be run", text: "STATUS:no_changes\nBUILD:pass", changes: &none, build: broken, want: "unverified", kinds: "build_not_run?"},
		{name: "what is refuted goes before what is open", text: "STATUS:ok\nFILES_CREATED:gone\nTESTS:pass\nBUILD:pass", changes: &none, build: fail, want: "contradicted", kinds: "file_missing no_edits build_failed tests_not_run?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := evidence.Judge(reportOf(t, tt.text), evidence.Facts{Changes: tt.changes, Verify: tt.verify, Build: tt.build}, tt.scope)
			if v.Verdict != tt.want || kinds(v) != tt.kinds {
				t.Errorf("got %s: %s\nwant %s: %s\n%+v", v.Verdict, kinds(v), tt.want, tt.kinds, v)
			}
		})
	}
	t.Run("of very many findings some are listed", func(t *testing.T) {
		var many evidence.Changes
		for i := range 10_000 {
			many.Created = append(many.Created, fmt.Sprint("file", i))
		}
		slices.Sort(many.Created)
		v := evidence.Judge(report.Report{Status: report.StatusOK}, evidence.Facts{Changes: &many}, nil)
		if n := len(v.Contradictions); n != 51 || !strings.Contains(v.Contradictions[50].Found, "9950 more") {
			t.Errorf("got %d findings, the last one %v, want 50 and that there are more", n, v.Contradictions[n-1])
		}
	})
}

func TestTestCounts(t *testing.T) {
	none := evidence.Changes{}
	for _, tt := range []struct {
		output string
		claim  string
		want   bool
	}{
		{"===== 12 passed, 1 skipped in 0.03s =====\n", "pass:12", true},
		{"Tests:       12 passed, 12 total\n", "pass:12", true},
		{"  12 passing (3ms)\n", "pass:12", true},
		{"test result: ok. 5 passed; 0 failed\ntest result: ok. 7 passed; 0 failed\n", "pass:12", true},
		{"Ran 12 tests in 0.001s\n\nOK\n", "pass:12", true},
		{"# tests 12\n# pass 12\n# fail 0\n", "pass:12", true},
		{"ok 1 - a\nok 2 - b\n1..2\n", "pass:2", true},
		{"ok  \texample.org/x\t0.012s\n", "pass:12", false},
		{"13 passed\n", "pass:12", false},
		{"112 passed\n", "pass:12", false},
		{"99999999999999999999 passed\n", "pass:12", false},
		{"", "pass:0", false},
	} {
		rep := reportOf(t, "STATUS:no_changes\nTESTS:"+tt.claim)
		v := evidence.Judge(rep, evidence.Facts{Changes: &none, Verify: &evidence.Outcome{OutputTail: tt.output}}, nil)
		if got := v.Verdict == hub.RunConfirmed; got != tt.want {
			t.Errorf("%s after %q: got %v, want %v", tt.claim, tt.output, got, tt.want)
		}
	}
}

func TestScope(t *testing.T) {
	for _, tt := range []struct {
		scope, name string
		want        bool
	}{
		{"src", "src/a.go", true},
		{"src/", "src/x/a.go", true},
		{"./src", "src/a.go", true},
		{"src", "srcs/a.go", false},
		{"src/a.go", "src/a.go", true},
		{"src/*.go", "src/a.go", true},
		{"src/*.go", "src/x/a.go", false},
		{"src/**/*.go", "src/a.go", true},
		{"src/**/*.go", "src/x/y/a.go", true},
		{"src/**/*.go", "src/x/y/a.js", false},
		{"**/*_test.go", "a_test.go", true},
		{"src/**", "src/x/a.go", true},
		{"**", "anything", true},
		{".", "anything", true},
		{"*", "any/thing", true},
		{"[", "[", true},
		{"[", "x", false},
		{"/repo/src", "src/a.go", true},
		{"/elsewhere", "src/a.go", false},
		{"..", "src/a.go", false},
		{strings.Repeat("**/", 100) + "x", strings.Repeat("a/", 100) + "y", false},
	} {
		changes := evidence.Changes{Top: "/repo", Folder: ".", Created: []string{tt.name}}
		v := evidence.Judge(report.Report{Status: report.StatusFail}, evidence.Facts{Changes: &changes}, []string{tt.scope})
		if got := v.Verdict == hub.RunConfirmed; got != tt.want {
			t.Errorf("%.20q covers %.20q: got %v, want %v", tt.scope, tt.name, got, tt.want)
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("STATUS:ok\nFILES_CREATED:a,b/c,../d,/e\nTESTS:pass:3", "a\nb/c\n../x\n/\n.", "b\n**/[", 0)
	f.Add("STATUS:no_changes\nFILES_DELETED:x,,\nBUILD:pass", "", "", 1)
	f.Add("STATUS:fail\nTESTS:fail:99999999999999999999", "//\n..", "/", -1)
	f.Add("weird:3", "x", "", 1)
	f.Fuzz(func(t *testing.T, text, names, scope string, code int) {
		res, err := report.ParseAny(text, nil)
		if err != nil { // a program may fill in anything
			res.Report = report.Report{Status: report.Status(text), FilesCreated: strings.Split(text, "\n"), Tests: report.Tests(text), Build: report.State(text)}
		}
		lines := strings.Split(names, "\n")
		third := len(lines) / 3
		changes := evidence.Changes{
			Top: "/repo", Folder: ".", Created: lines[:third], Modified: lines[third : 2*third], Deleted: lines[2*third:],
			Submodules: lines, Named: map[string]evidence.NamedPath{},
		}
		for i, name := range evidence.NamedFiles(res.Report) {
			changes.Named[name] = evidence.NamedPath{Name: lines[i%len(lines)], Exists: i%2 == 0, Folder: i%3 == 0, Ignored: i%5 == 0, Touched: i%7 == 0}
		}
		outcome := &evidence.Outcome{ExitCode: code, OutputTail: names, TimedOut: code == 7}
		v := evidence.Judge(res.Report, evidence.Facts{Changes: &changes, Verify: outcome, Build: outcome}, strings.Split(scope, "\n"))
		want := hub.RunConfirmed
		if len(v.Unverified) > 0 {
			want = hub.RunUnverified
		}
		if len(v.Contradictions) > 0 {
			want = hub.RunContradicted
		}
		if v.Verdict != want {
			t.Errorf("got %s with %d contradictions and %d open, want %s", v.Verdict, len(v.Contradictions), len(v.Unverified), want)
		}
		if again := evidence.Judge(res.Report, evidence.Facts{Changes: &changes, Verify: outcome, Build: outcome}, strings.Split(scope, "\n")); kinds(again) != kinds(v) {
			t.Errorf("got %s and then %s", kinds(v), kinds(again))
		}
	})
}

// examine checks a report as its readers do. build and verify may be empty.
func examine(t *testing.T, b *evidence.Base, dir, text, build, verify string, scope ...string) (evidence.Judgment, evidence.Record) {
	t.Helper()
	rep := reportOf(t, text)
	j, r, err := b.Check(t.Context(), &rep, evidence.CheckOptions{Scope: scope, Build: build, Verify: verify})
	if err != nil {
		t.Fatal(err)
	}
	return j, r
}

func TestReportsAreCheckedAgainstTheRepository(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "repo")
	newRepository(t, dir)
	b := snapshot(t, dir, nil)
	write(t, filepath.Join(dir, "new.txt"), "1\n2\n")
	write(t, filepath.Join(dir, "a.txt"), "one\n")

	v, record := examine(t, b, dir, "STATUS:ok\nFILES_CREATED:new.txt\nFILES_MODIFIED:a.txt\nTESTS:pass\nBUILD:pass",
		"test -f new.txt && echo made > made.txt", "grep -q made made.txt && echo tested", "*.txt")
	if v.Verdict != hub.RunConfirmed {
		t.Errorf("a true report: got %+v", v)
	}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Before, After struct {
			Commit, Tree, Branch string
			Dirty                bool
		}
		Diff struct {
			Files, Insertions, Deletions int
			Created, Modified, Deleted   []string
			Truncated                    bool
		}
		Verify, Build struct {
			Command string
			Code    int    `json:"exit_code"`
			Digest  string `json:"output_digest"`
			Bytes   int    `json:"output_bytes"`
			Tail    string `json:"output_tail"`
		}
		Changed []string `json:"verify_changed"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		t.Fatal(err)
	}
	head := git(t, dir, "rev-parse", "HEAD")
	switch d := form.Diff; {
	case form.Before.Commit != head || form.After.Commit != head || form.Before.Dirty || !form.After.Dirty || form.Before.Branch != "main":
		t.Errorf("before and after: got %s", text)
	case d.Files != 2 || d.Insertions != 2 || d.Deletions != 1 || d.Truncated:
		t.Errorf("figures: got %s", text)
	case !slices.Equal(d.Created, []string{"new.txt"}) || !slices.Equal(d.Modified, []string{"a.txt"}) || d.Deleted == nil:
		t.Errorf("names: got %s", text)
	case !slices.Equal(form.Changed, []string{"made.txt"}):
		t.Errorf("what the commands changed: got %s", text)
	case form.Verify.Tail != "tested\n" || form.Verify.Digest != "sha256:"+sum("tested\n") || form.Verify.Bytes != 7 || form.Build.Command == "":
		t.Errorf("commands: got %s", text)
	}

	v, _ = examine(t, b, dir, "STATUS:ok\nFILES_MODIFIED:src/b.txt\nTESTS:pass", "", "exit 1")
	if got, want := kinds(v), "file_unchanged undeclared undeclared undeclared tests_failed"; got != want {
		t.Errorf("a lie: got %s, want %s", got, want)
	}
}

func TestRecordsAreBounded(t *testing.T) {
	var c evidence.Changes
	for i := range 1001 {
		c.Created = append(c.Created, fmt.Sprintf("%04d", i))
	}
	r := evidence.NewRecord(evidence.Moment{}, &c, nil, nil, nil)
	if len(r.Diff.Created) != 1000 || !r.Diff.Truncated || r.Diff.Files != 1001 {
		t.Errorf("got %d of %d names, truncated %v", len(r.Diff.Created), r.Diff.Files, r.Diff.Truncated)
	}
	text, err := json.Marshal(evidence.NewRecord(evidence.Moment{}, nil, nil, nil, nil))
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("nothing: got %s, %v, want lists without names", text, err)
	}
}
