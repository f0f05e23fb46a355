package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/confine"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
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
		return v.What == "check test" && strings.HasSuffix(v.Evidence, " passed") && v.Of == good.LandedCommit
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
	for who, text := range map[string]string{"critc": "no agent named critc on this hub", "builder": "cannot review it", "none": "must be an agent"} {
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
