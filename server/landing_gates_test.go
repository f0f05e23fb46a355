package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// The gates of a landing queue as the operator and an agent meet them: what is refused, what a policy
// shows as open, what a change that lands names as its evidence, and what an undo does.
func TestLandingGates(t *testing.T) {
	d := newDesk(t)
	ada := d.hub.as(d.hub.add(t, "ada")[0])
	set := func(raw string) (api.LandingAnswer, error) {
		var p api.LandingParams
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			t.Fatal(err)
		}
		p.Repo = d.dir
		return rpc.Call(d.ctx, d.operator, api.SetLanding, p)
	}
	refused := func(raw, text string) {
		t.Helper()
		if _, err := set(raw); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want %q", raw, err, text)
		}
	}

	refused(`{"repo":"x","into":"main"}`, "no check is allowed in app: parley check add test -- make test, or --no-checks to land unchecked")
	check := api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: d.dir}, Name: "test", Command: []string{"sh", "-c", moduleCheck}, Required: true, Unconfined: confine.Supported() != nil}
	inPlace := check
	inPlace.InPlace = true
	if _, err := rpc.Call(d.ctx, d.operator, api.AddCheck, inPlace); hub.CodeOf(err) != hub.CodeInvalid {
		t.Errorf("a required check in place: %v", err)
	}
	must(rpc.Call(d.ctx, d.operator, api.AddCheck, check))(t)
	refused(`{"repo":"x","into":"main","by":"auto"}`, "--review WHO, or --no-review")
	refused(`{"repo":"x","into":"main","review":"rexx"}`, "no agent named rexx on this hub")
	got := must(set(`{"repo":"x","into":"main","by":"auto","review":"none","batch":2}`))(t)
	if !slices.Equal(got.Landing.Required, []string{"test"}) || len(got.Landing.Open) != 1 || got.Landing.Open[0].Gate != hub.GateReview || got.Landing.Open[0].By != hub.Operator {
		t.Errorf("policy: %+v", got.Landing)
	}
	got = api.LandingAnswer{}
	d.hub.call(t, d.hub.operator, "parley/landing/set", fmt.Sprintf(`{"repo":%q,"into":"main","batch":null}`, d.dir)).wantOK(t, &got) // the typed client writes no null
	if !slices.Equal(got.Changed, []string{"batch"}) || got.Landing.Batch != 4 || got.Landing.By != hub.LandingAuto {
		t.Errorf("changed %v: %+v", got.Changed, got.Landing)
	}

	// The required check is asked, though the policy names none.
	d.branch("red", "mod/red", "broken\n")
	d.branch("good", "mod/good", "ok\n")
	land := func(ref string) hub.LandingEntry {
		t.Helper()
		return d.outcome(must(rpc.Call(d.ctx, ada, api.Land, api.LandParams{Ref: ref, Repo: d.dir}))(t).Entries[0].ID)
	}
	if e := land("red"); e.State != hub.EntryReturned || e.Answer != hub.AnswerNo || len(e.Missing) == 0 || e.Missing[0].Who != "ada" {
		t.Errorf("red work: %+v", e)
	}
	good := land("good")
	isCheck := func(v hub.GateEvidence) bool {
		id, evidence, _ := strings.Cut(v.Evidence, " ")
		result := must(rpc.Call(d.ctx, d.operator, api.ShowResult, api.ResultParams{ID: hub.CheckResultID(id)}))(t).Result
		isNamed := result.Confinement() != "" && evidence == "passed ("+result.Confinement()+")"
		return v.What == "check test" && isNamed && v.Of == good.LandedCommit
	}
	if good.State != hub.EntryLanded || good.Answer != hub.AnswerYes || !slices.ContainsFunc(good.Asked, isCheck) {
		t.Errorf("good work: %+v", good)
	}
	all := must(rpc.Call(d.ctx, d.operator, api.LandingList, api.None{}))(t).Landings
	if len(all) != 1 || all[0].Target == nil || all[0].Target.State != "green" {
		t.Errorf("target: %+v", all)
	}
	if now := must(rpc.Call(d.ctx, d.operator, api.Now, api.None{}))(t); len(now.Landing) != 2 {
		t.Errorf("now: %+v", now.Landing)
	}

	// Undone, and landed again.
	undo := must(rpc.Call(d.ctx, d.operator, api.UndoLanding, api.EntryParams{ID: good.ID, Reason: "slow"}))(t).Entries[0]
	d.outcome(undo.ID)
	if e := d.outcome(good.ID); e.State != hub.EntryUndone || e.UndoneBy != undo.ID || e.Because != "slow" {
		t.Errorf("after the undo: %s %s %q", e.State, e.UndoneBy, e.Because)
	}
	must(rpc.Call(d.ctx, d.operator, api.Land, api.LandParams{Ref: "good", Repo: d.dir}))(t)
	for _, e := range d.settle(d.ctx, d.operator) {
		if e.Ref == "good" && e.ID != good.ID && e.State != hub.EntryLanded {
			t.Errorf("landed again: %+v", e)
		}
	}
	if got := d.git("show", "main:mod/good"); got != "ok" {
		t.Errorf("main has %q", got)
	}

	// The word of a person, for one change.
	if _, err := rpc.Call(d.ctx, ada, api.ApproveEntry, api.WaiveParams{ID: "l1", Without: "test", Because: "it is good"}); hub.CodeOf(err) != hub.CodeDenied {
		t.Errorf("an agent let its work land: %v", err)
	}
	must(rpc.Call(d.ctx, d.operator, api.ApproveEntry, api.WaiveParams{ID: "l1", Without: "test", Because: "hotfix"}))(t)
	if e := d.outcome("l1"); e.State != hub.EntryLanded || len(e.Without) != 1 || e.Without[0].Because != "hotfix" {
		t.Errorf("the hotfix: %+v", e)
	}

	if found := must(rpc.Call(d.ctx, d.operator, api.Verify, api.VerifyParams{}))(t); len(found.Findings) > 0 {
		t.Errorf("audit: %v", found.Findings)
	}
}

// A trailer that names an agent makes it an author, whatever its address, unless it is one that a CLI
// writes by itself.
func TestTrailersNameAuthors(t *testing.T) {
	d := newDesk(t)
	ada := d.hub.as(d.hub.add(t, "ada", "claude")[0])
	d.allow(d.ctx, d.operator, api.LandingParams{Review: "claude"})
	for i, c := range []struct{ trailer, reviewer string }{
		{"claude <claude@localhost>", "operator"},
		{"claude <claude@noreply.example>", "operator"},
		{"claude <noreply@example.com>", "operator"},
		{"claude <1234+claude-agent@users.noreply.github.com>", "operator"},
		{"claude <noreply@anthropic.com>", "claude"},
		{"claude <223556219+Copilot@users.noreply.github.com>", "claude"},
	} {
		branch := fmt.Sprint("by-", i)
		d.git("switch", "-q", "-c", branch, "main")
		d.write("mod/"+branch, "ok\n")
		d.git("add", "-A")
		d.git("commit", "-q", "-m", "work\n\nCo-authored-by: "+c.trailer)
		d.git("switch", "-q", "main")
		id := must(rpc.Call(d.ctx, ada, api.Land, api.LandParams{Ref: branch, Repo: d.dir}))(t).Entries[0].ID
		got := must(rpc.Call(d.ctx, d.operator, api.ShowEntry, api.EntryParams{ID: id}))(t).Reviews
		if len(got) != 1 || got[0].Reviewer != c.reviewer {
			t.Errorf("%s: got %+v, want the review of %s", c.trailer, got, c.reviewer)
		}
	}
}

// A reviewer of another vendor is picked by the programs in which agents are seen to work, when one is.
func TestReviewByAnotherVendor(t *testing.T) {
	d := newDesk(t)
	keys := d.hub.add(t, "ada", "ben", "cleo")
	ada, cleo := d.hub.as(keys[0]), d.hub.as(keys[2])
	set := func() (api.LandingAnswer, error) {
		return rpc.Call(d.ctx, d.operator, api.SetLanding, api.LandingParams{Repo: d.dir, Into: "main", Review: hub.ReviewerOtherVendor, By: hub.LandingAuto})
	}
	in := func(key, cli string, event wake.Event) {
		t.Helper()
		must(rpc.Call(d.ctx, d.hub.as(key), api.ReportWake, wake.Report{Key: wake.Key{CLI: cli, ID: "s-" + cli, Process: os.Getpid()}, Event: event}))(t)
	}
	d.allow(d.ctx, d.operator, api.LandingParams{Review: "operator"}) // for the check
	in(keys[0], "claude", wake.EventStart)
	in(keys[1], "claude", wake.EventStart)
	if _, err := set(); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), "this hub knows anthropic alone") {
		t.Errorf("with one vendor: %v", err)
	}
	in(keys[2], "codex", wake.EventStart)
	must(set())(t)
	in(keys[2], "codex", wake.EventEnd)
	d.branch("words-of-ada", "mod/a", "ok\n")
	id := must(rpc.Call(d.ctx, ada, api.Land, api.LandParams{Ref: "words-of-ada", Repo: d.dir}))(t).Entries[0].ID
	show := func() hub.LandingEntry {
		t.Helper()
		return must(rpc.Call(d.ctx, d.operator, api.ShowEntry, api.EntryParams{ID: id}))(t).Entries[0]
	}
	if e := show(); e.State != hub.EntryWaiting || !strings.Contains(e.Reason, "no agent of another vendor than anthropic is awake") {
		t.Errorf("nobody is awake: %s %q", e.State, e.Reason)
	}

	in(keys[2], "codex", wake.EventStart)
	var asked []hub.Envelope
	for len(asked) == 0 {
		asked = must(rpc.Call(d.ctx, cleo, api.Inbox, api.InboxParams{WaitS: 1}))(t).Messages
	}
	if text := string(asked[0].Payload); strings.Contains(text, "words-of-ada") || !strings.Contains(text, "parley land review v1 approve") {
		t.Errorf("the question: %s", text)
	}
	d.hub.fetch(t, keys[2])
	must(rpc.Call(d.ctx, cleo, api.Handoff, api.HandoffParams{Action: "review", ID: "v1", Verdict: "approve"}))(t)
	if e := d.outcome(id); e.State != hub.EntryLanded {
		t.Errorf("after the review: %s %q", e.State, e.Reason)
	}
}

// A review that a package asks for is asked for without any check and without a landing policy, and the
// task is closed after it.
func TestReviewWithoutAnyCheck(t *testing.T) {
	r := newLandingRepo(t)
	work := filepath.Join(filepath.Dir(r.dir), "work")
	r.git("worktree", "add", "-q", "-b", "work", work)
	o := unlimited()
	o.Roots = []string{filepath.Dir(r.dir)}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "planner", "builder", "critic")
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute))
	defer cancel()
	do := func(key string, p api.HandoffParams) api.HandoffAnswer {
		t.Helper()
		return must(rpc.Call(ctx, h.as(key), api.Handoff, p))(t)
	}
	begin := api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "R-1", Title: "login", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: work, Branch: "work", Review: "critc",
	}
	for who, text := range map[string]string{"critc": "no agent named critc on this hub", "builder": "cannot review it", "none": "must be an agent", "other-vendor": "is for the policy of a branch"} {
		begin.Review = who
		if _, err := rpc.Call(ctx, h.as(keys[0]), api.Handoff, begin); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), text) {
			t.Errorf("review by %s: got %v, want %q", who, err, text)
		}
	}
	begin.Review = "critic"
	id := do(keys[0], begin).Report.ID
	do(keys[1], api.HandoffParams{Action: "accept", ID: id})
	if err := os.WriteFile(filepath.Join(work, "mod", "login"), []byte("ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Call(ctx, h.as(keys[1]), api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "done"}); hub.CodeOf(err) != hub.CodeUnproven || !strings.Contains(err.Error(), "a review is of a commit") {
		t.Errorf("uncommitted work: %v", err)
	}
	r.git("-C", work, "add", "-A")
	r.git("-C", work, "commit", "-q", "-m", "login")
	done := do(keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: "done"}).Report
	if done.Status != hub.HandoffCompleted || done.Review != hub.ReviewWaiting || !slices.Contains(done.Warnings, "the task is completed once critic has approved it") {
		t.Errorf("after the completion: %s, review %s, %q", done.Status, done.Review, done.Warnings)
	}
	if _, err := rpc.Call(ctx, h.as(keys[1]), api.Handoff, api.HandoffParams{Action: "close", ID: id}); hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("its owner closed it: %v", err)
	}
	for len(must(rpc.Call(ctx, h.as(keys[2]), api.ListReviews, api.ReviewsParams{}))(t).Reviews) == 0 {
		must(rpc.Call(ctx, h.as(keys[2]), api.Inbox, api.InboxParams{WaitS: 1}))(t)
	}
	h.fetch(t, keys[2])
	do(keys[2], api.HandoffParams{Action: "review", ID: id, Verdict: "approve"})
	if got := do(keys[0], api.HandoffParams{Action: "show", ID: id}).Report; got.Status != hub.HandoffClosed || got.Review != hub.ReviewApproved || got.Stage != hub.StageReviewed {
		t.Errorf("after the review: %s, %s, %s", got.Status, got.Review, got.Stage)
	}
	if found := must(rpc.Call(ctx, h.as(h.operator), api.Verify, api.VerifyParams{}))(t); len(found.Findings) > 0 {
		t.Errorf("audit: %v", found.Findings)
	}
}

// A change of the things that judge it lands with a word; added and edited tests are named.
func TestChangedJudgesNeedAWord(t *testing.T) {
	d := newDesk(t)
	adaKey := d.hub.add(t, "ada")[0]
	ada := d.hub.as(adaKey)
	report := func(cases ...string) string {
		return "<testsuite>" + strings.Join(cases, "") + "</testsuite>\n"
	}
	passes, skips, fails := `<testcase name="a"/>`, `<testcase name="a"><skipped/></testcase>`, `<testcase name="a"><failure/></testcase>`
	d.write("Makefile", "test:\n\tsh test.sh\n")
	d.write("test.sh", moduleCheck+"\n")
	d.write("mod_test.go", "package mod\n")
	d.write("unit.xml", report(passes, passes))
	d.commit("tests")
	for name, command := range map[string][]string{"test": {"make", "test"}, "unit": {"cp", "unit.xml", "report.xml"}} {
		check := api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: d.dir}, Name: name, Command: command, Required: true, Unconfined: confine.Supported() != nil}
		if name == "unit" {
			check.JUnit = "report.xml"
		}
		must(rpc.Call(d.ctx, d.operator, api.AddCheck, check))(t)
	}
	must(rpc.Call(d.ctx, d.operator, api.SetLanding, api.LandingParams{Repo: d.dir, Into: "main", By: hub.LandingAuto, Review: hub.ReviewerNone}))(t)
	landed := func(ref string) hub.LandingEntry {
		t.Helper()
		return must(rpc.Call(d.ctx, ada, api.Land, api.LandParams{Ref: ref, Repo: d.dir}))(t).Entries[0]
	}

	for _, tt := range []struct{ name, file, text, want string }{
		{"stand-in", "GNUmakefile", "test:\n", "GNUmakefile was created, and a check uses it instead of Makefile"},
		{"makefile", "Makefile", "test:\n", "Makefile was modified, and a check depends on it"},
		{"script", "test.sh", "exit 0\n", "test.sh was modified, and a check depends on it"},
		{"proposal", "parley.yaml", "checks: {}\n", "parley.yaml was created, and proposes the checks"},
		{"key", ".parley/keys/mine.pub", "mine\n", ".parley/keys/mine.pub was created, and says which keys are trusted"},
	} {
		d.branch(tt.name, tt.file, tt.text)
		e := landed(tt.name)
		if e.State != hub.EntryWaiting || strings.ReplaceAll(e.Reason, `"`, "") != "waits for the review of operator: "+tt.want || len(e.Missing) != 1 || e.Missing[0].Who != "operator" {
			t.Errorf("%s: got %s %q, want %q", tt.name, e.State, e.Reason, tt.want)
		}
		d.hub.fetch(t, adaKey)
		if _, err := rpc.Call(d.ctx, ada, api.GiveReview, api.ReviewParams{ID: string(e.ID), Verdict: hub.VerdictApprove}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("%s: its author approved it: %v", tt.name, err)
		}
	}
	for name, want := range map[string]string{"skips": "tests that passed: 2 before, 1 now", "removes": "tests: 2 before, 1 now"} {
		text := report(passes)
		if name == "skips" {
			text = report(passes, skips)
		}
		d.branch(name, "unit.xml", text)
		if e := d.outcome(landed(name).ID); e.State != hub.EntryWaiting || !strings.Contains(e.Reason, want) {
			t.Errorf("%s: got %s %q, want %q", name, e.State, e.Reason, want)
		}
	}
	d.branch("fails", "unit.xml", report(passes, fails))
	if e := d.outcome(landed("fails").ID); e.State != hub.EntryReturned || e.Check != "unit" {
		t.Errorf("a failed test, though the command ended with 0: %s %q", e.State, e.Reason)
	}

	d.branch("edits", "mod_test.go", "package mod // more\n")
	if e := d.outcome(landed("edits").ID); e.State != hub.EntryLanded || len(e.Judged) != 1 || e.Judged[0] != (hub.JudgeFinding{File: "mod_test.go", Found: `"mod_test.go" was modified, and is a test`}) {
		t.Errorf("an edited test: %s %q %+v", e.State, e.Reason, e.Judged)
	}
	for _, e := range d.entries(d.ctx, d.operator) {
		if e.Ref == "script" {
			must(rpc.Call(d.ctx, d.operator, api.GiveReview, api.ReviewParams{ID: string(e.ID), Verdict: hub.VerdictApprove}))(t)
			if e = d.outcome(e.ID); e.State != hub.EntryLanded {
				t.Errorf("with the word of the operator: %s %q", e.State, e.Reason)
			}
		}
	}
	if found := must(rpc.Call(d.ctx, d.operator, api.Verify, api.VerifyParams{}))(t); len(found.Findings) > 0 {
		t.Errorf("audit: %v", found.Findings)
	}
}

// A reviewer sees all of a change: the list of the files that a diff does not show, names of text that
// deceives, and the whole difference since the last approval.
func TestReviewerSeesAll(t *testing.T) {
	d := newDesk(t)
	keys := d.hub.add(t, "ada", "rex")
	ada, rex := d.hub.as(keys[0]), d.hub.as(keys[1])
	d.allow(d.ctx, d.operator, api.LandingParams{By: hub.LandingAuto, Review: "rex"})
	d.git("switch", "-q", "-c", "odd", "main")
	for name, text := range map[string]string{
		"logo.png": "\x89PNG\x00\x01", "vendor/lib/a.go": "package lib\n", "go.sum": "x v1 h1:a\n", "api.go": "// Code generated by x. DO NOT EDIT.\npackage a\n",
		"turned.go": "package a\n// \u202e nimda\n", ".gitattributes": "*.u16 working-tree-encoding=UTF-16\n", "mod/odd": "ok\n",
	} {
		d.write(name, text)
	}
	d.git("add", "-A")
	d.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("ab", 20)+",lib")
	d.git("commit", "-q", "-m", "odd")
	d.git("switch", "-q", "-f", "main")
	review := func() (hub.LandingID, hub.Review, string) {
		t.Helper()
		e := must(rpc.Call(d.ctx, ada, api.Land, api.LandParams{Ref: "odd", Repo: d.dir}))(t).Entries[0]
		all := must(rpc.Call(d.ctx, rex, api.ListReviews, api.ReviewsParams{}))(t).Reviews
		i := slices.IndexFunc(all, func(v hub.Review) bool { return v.Entry == e.ID })
		if i < 0 {
			t.Fatalf("no review of %s: %+v", e.ID, all)
		}
		var text strings.Builder
		for _, part := range append([]string{all[i].Difference}, all[i].Parts...) {
			res, err := rex.Do(t.Context(), http.MethodGet, "/artifacts/"+part, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(&text, res.Body)
			res.Body.Close()
		}
		return e.ID, all[i], text.String()
	}

	id, v, text := review()
	blob := d.git("rev-parse", "odd:logo.png")
	for _, want := range []string{
		"# binary: logo.png, 6 bytes, blob " + blob, "# vendored: vendor/lib/a.go, 12 bytes, blob ", "# generated: go.sum, ", "# generated: api.go, ",
		"# look: lib links to the commit abababababab, which no repository here has", "# look: turned.go:2 has a character that hides or turns text: U+202E",
		"# look: .gitattributes:1 lets working trees have another encoding", "+// Code generated by x. DO NOT EDIT.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the difference lacks %q", want)
		}
	}
	for _, want := range []string{"lib links to", "turned.go:2", ".gitattributes:1"} {
		if !strings.Contains(v.Note, want) {
			t.Errorf("the note %q lacks %q", v.Note, want)
		}
	}
	must(rpc.Call(d.ctx, rex, api.GiveReview, api.ReviewParams{ID: string(id), Verdict: hub.VerdictChanges, Findings: []hub.ReviewFinding{{Path: "lib", Text: "no"}}}))(t)

	// What follows an approval is shown whole, too.
	d.git("branch", "-q", "-D", "odd")
	d.branch("odd", "mod/odd", "ok\n")
	id, _, _ = review()
	d.hub.fetch(t, keys[1])
	must(rpc.Call(d.ctx, d.operator, api.SetLanding, api.LandingParams{Repo: d.dir, Into: "main", By: hub.LandingOperator}))(t)
	must(rpc.Call(d.ctx, rex, api.GiveReview, api.ReviewParams{ID: string(id), Verdict: hub.VerdictApprove}))(t)
	d.git("switch", "-q", "odd")
	d.write("big.txt", strings.Repeat("0123456789\n", 500_000)+"the end\n")
	d.commit("more")
	d.git("switch", "-q", "main")
	if _, v, text = review(); v.Approved == "" || !strings.HasSuffix(strings.TrimSpace(text), "+the end") {
		t.Errorf("since %q: the difference of %d bytes ends with %q", v.Approved, len(text), text[max(0, len(text)-80):])
	}
}

// The branch of a handoff waits for the review that its package asks for, also while the work is under way
// and though the package names no branch. Its owner reads who queued it.
func TestBranchOfAHandoffWaitsForItsReview(t *testing.T) {
	d := newDesk(t)
	keys := d.hub.add(t, "planner", "builder", "other")
	d.allow(d.ctx, d.operator, api.LandingParams{By: hub.LandingAuto})
	work := filepath.Join(filepath.Dir(d.dir), "work")
	d.git("worktree", "add", "-q", "-b", "work", work)
	do := func(key string, p api.HandoffParams) hub.HandoffID {
		t.Helper()
		return must(rpc.Call(d.ctx, d.hub.as(key), api.Handoff, p))(t).Report.ID
	}
	id := do(keys[0], api.HandoffParams{Action: "initiate", To: "builder", TaskID: "R-1", Title: "login", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: work, Review: "operator"})
	do(keys[1], api.HandoffParams{Action: "accept", ID: id})
	if err := os.WriteFile(filepath.Join(work, "mod", "login"), []byte("ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.git("-C", work, "add", "-A")
	d.git("-C", work, "commit", "-q", "-m", "login")
	for _, ref := range []string{"work", d.git("rev-parse", "work")} {
		e := must(rpc.Call(d.ctx, d.hub.as(keys[2]), api.Land, api.LandParams{Ref: ref, Repo: d.dir}))(t).Entries[0]
		if e.State != hub.EntryWaiting || e.Reason != "waits for the review of operator" || e.Missing[0].Next != "parley land review "+string(e.ID)+" approve" {
			t.Errorf("%s: %s %q %+v", ref, e.State, e.Reason, e.Missing)
		}
		must(rpc.Call(d.ctx, d.operator, api.CancelLanding, api.EntryParams{ID: e.ID}))(t)
	}
	mail, err := json.Marshal(must(rpc.Call(d.ctx, d.hub.as(keys[1]), api.Inbox, api.InboxParams{}))(t).Messages)
	if err != nil || !strings.Contains(string(mail), "other queued your work (work) as l1") {
		t.Errorf("its owner reads %s", mail)
	}
}
