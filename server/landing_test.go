package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// moduleCheck passes if every module says ok.
const moduleCheck = `for f in mod/*; do grep -qx ok "$f" || { echo "FAIL $f"; exit 1; }; done; echo fine`

// A landingRepo is a repository of a user with main checked out.
type landingRepo struct {
	t    *testing.T
	dir  string
	seen []hub.LandingEntry // that the last wait saw
}

func newLandingRepo(t *testing.T) *landingRepo {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &landingRepo{t: t, dir: filepath.Join(root, "app")}
	r.write("mod/base", "ok\n")
	r.git("init", "-q", "-b", "main")
	r.commit("first")
	return r
}

func (r *landingRepo) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *landingRepo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@example.com", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *landingRepo) commit(message string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", message)
}

// branch makes a branch from main with one file, and checks out main again.
func (r *landingRepo) branch(name, file, text string) {
	r.t.Helper()
	r.git("switch", "-q", "-c", name, "main")
	r.write(file, text)
	r.commit(name)
	r.git("switch", "-q", "main")
}

// allow lets the operator allow the check and turn landing on.
func (r *landingRepo) allow(ctx context.Context, operator *rpc.Client, p api.LandingParams) {
	r.t.Helper()
	must(rpc.Call(ctx, operator, api.AddCheck, api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: r.dir}, Name: "test", Command: []string{"sh", "-c", moduleCheck}, Unconfined: confine.Supported() != nil}))(r.t)
	p.Repo = r.dir
	p.Into = "main"
	p.Checks = []string{"test"}
	if p.By == hub.LandingAuto && p.Review == "" {
		p.Review = hub.ReviewerNone
	}
	must(rpc.Call(ctx, operator, api.SetLanding, p))(r.t)
}

// entries returns all entries of the repository.
func (r *landingRepo) entries(ctx context.Context, operator *rpc.Client) (out []hub.LandingEntry) {
	r.t.Helper()
	for cursor := hub.LandingID(""); ; {
		got := must(rpc.Call(ctx, operator, api.ListLandings, api.LandingsParams{Repo: r.dir, Cursor: cursor, Limit: 500}))(r.t)
		out = append(out, got.Entries...)
		if cursor = got.Next; cursor == "" {
			return out
		}
	}
}

// fetch lets an agent fetch the differences of the reviews that wait, whole.
func (h *running) fetch(t *testing.T, key string) {
	t.Helper()
	for _, v := range must(rpc.Call(t.Context(), h.as(key), api.ListReviews, api.ReviewsParams{}))(t).Reviews {
		for _, part := range append([]string{v.Difference}, v.Parts...) {
			res, err := h.as(key).Do(t.Context(), http.MethodGet, "/artifacts/"+part, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
}

// settle waits until no entry is queued or tried, and returns all.
func (r *landingRepo) settle(ctx context.Context, operator *rpc.Client) []hub.LandingEntry {
	r.t.Helper()
	return r.await(ctx, operator, "no entry to be queued or tried", func(s hub.LandingState) bool { return s == hub.EntryQueued || s == hub.EntryTrying })
}

// finish returns all entries when they are at their end. An entry that waits for a working tree in
// which a killed hub left a lock goes on by itself when that hub is back.
func (r *landingRepo) finish(ctx context.Context, operator *rpc.Client) []hub.LandingEntry {
	r.t.Helper()
	return r.await(ctx, operator, "the end of all entries", hub.LandingState.Open)
}

// await returns all entries when none is in a busy state, which is the thing that it waits for.
func (r *landingRepo) await(ctx context.Context, operator *rpc.Client, what string, isBusy func(hub.LandingState) bool) []hub.LandingEntry {
	r.t.Helper()
	for {
		if ctx.Err() != nil {
			r.t.Fatalf("waited in vain for %s; the entries are %s", what, statesOf(r.seen))
		}
		all := r.entries(ctx, operator)
		r.seen = all
		if !slices.ContainsFunc(all, func(e hub.LandingEntry) bool { return isBusy(e.State) }) {
			return all
		}
		if _, err := rpc.Call(ctx, operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}); err != nil && ctx.Err() == nil {
			r.t.Fatal(err)
		}
	}
}

// statesOf returns the branches of entries with their states.
func statesOf(entries []hub.LandingEntry) string {
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s %s %s", e.ID, e.Ref, e.State))
	}
	return strings.Join(out, ", ")
}

// The work of a handoff is reviewed by another agent, and lands by itself in a main that is checked
// out in another working tree.
func TestLandingOfAHandoff(t *testing.T) {
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
	operator := h.as(h.operator)
	r.allow(ctx, operator, api.LandingParams{By: hub.LandingAuto})
	do := func(key string, p api.HandoffParams) api.HandoffAnswer {
		t.Helper()
		return must(rpc.Call(ctx, h.as(key), api.Handoff, p))(t)
	}

	id := do(keys[0], api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "L-1", Title: "login", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: work, Branch: "work",
		Checks: []string{"test"}, Review: "critic",
	}).Report.ID
	do(keys[1], api.HandoffParams{Action: "accept", ID: id})
	if err := os.WriteFile(filepath.Join(work, "mod", "login"), []byte("ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.git("-C", work, "add", "-A")
	r.git("-C", work, "commit", "-q", "-m", "login")
	done := do(keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: "done"})
	if done.Report.Stage != hub.StagePasses {
		t.Fatalf("after the completion: %s", done.Report.Stage)
	}

	// The reviewer is asked once the checks have passed.
	for {
		waiting := must(rpc.Call(ctx, h.as(keys[2]), api.ListReviews, api.ReviewsParams{}))(t)
		if len(waiting.Reviews) == 1 {
			break
		}
		must(rpc.Call(ctx, h.as(keys[2]), api.Inbox, api.InboxParams{WaitS: 1}))(t)
	}
	if _, err := rpc.Call(ctx, h.as(keys[1]), api.Handoff, api.HandoffParams{Action: "review", ID: id, Verdict: "approve"}); hub.CodeOf(err) != hub.CodeDenied {
		t.Errorf("the author approved its own work: %v", err)
	}
	if _, err := rpc.Call(ctx, h.as(keys[2]), api.Handoff, api.HandoffParams{Action: "review", ID: id, Verdict: "approve"}); hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), "has not fetched the whole difference") {
		t.Errorf("it approved what it did not fetch: %v", err)
	}
	h.fetch(t, keys[2])
	if got := do(keys[2], api.HandoffParams{Action: "review", ID: id, Verdict: "approve"}); got.Review == nil || got.Review.Verdict != "approve" {
		t.Errorf("review: got %+v", got)
	}
	entries := r.settle(ctx, operator)
	if len(entries) != 1 || entries[0].State != hub.EntryLanded || entries[0].Owner != "builder" {
		t.Fatalf("entries: %+v", entries)
	}
	if got := do(keys[0], api.HandoffParams{Action: "show", ID: id}).Report; got.Stage != hub.StageLanded || got.Review != hub.ReviewApproved || got.Landing != "landed "+entries[0].LandedCommit {
		t.Errorf("stage %s, review %s, landing %s", got.Stage, got.Review, got.Landing)
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, "mod", "login")); err != nil || string(text) != "ok\n" {
		t.Errorf("the checked-out main has not the file: %v", err)
	}
	if got := r.git("log", "-1", "--format=%s", "main"); got != "Merge work into main" {
		t.Errorf("the merge commit says %q", got)
	}
	if got := must(rpc.Call(ctx, operator, api.Verify, api.VerifyParams{}))(t); len(got.Findings) > 0 {
		t.Errorf("audit: %v", got.Findings)
	}
}

// A handoff whose work breaks main is active again, its owner is told with the next step, and a new
// completion with a new commit lands.
func TestReturnedHandoff(t *testing.T) {
	r := newLandingRepo(t)
	work := filepath.Join(filepath.Dir(r.dir), "work")
	r.git("worktree", "add", "-q", "-b", "work", work)
	o := unlimited()
	o.Roots = []string{filepath.Dir(r.dir)}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "planner", "builder")
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute))
	defer cancel()
	operator := h.as(h.operator)
	r.allow(ctx, operator, api.LandingParams{By: hub.LandingAuto})
	do := func(key string, p api.HandoffParams) api.HandoffAnswer {
		t.Helper()
		return must(rpc.Call(ctx, h.as(key), api.Handoff, p))(t)
	}
	commit := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(work, "mod", "base"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r.git("-C", work, "commit", "-q", "-a", "-m", "work")
	}

	id := do(keys[0], api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "L-2", Title: "login", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: work, Branch: "work",
	}).Report.ID
	do(keys[1], api.HandoffParams{Action: "accept", ID: id})
	commit("broken\n")
	if done := do(keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: "done"}); done.Report.Status != hub.HandoffClosed {
		t.Fatalf("after the completion: %s", done.Report.Status)
	}

	// The message about the return may wake the owner.
	next := ""
	for next == "" {
		for _, m := range must(rpc.Call(ctx, h.as(keys[1]), api.Inbox, api.InboxParams{WaitS: 1}))(t).Messages {
			var p struct {
				Handoff hub.HandoffID `json:"handoff_id"`
				Next    string        `json:"next_step"`
				Check   string        `json:"check"`
			}
			if err := json.Unmarshal(m.Payload, &p); err == nil && p.Handoff == id && p.Check == "test" && m.Priority == hub.PriorityHigh {
				next = p.Next
			}
		}
	}
	if !strings.Contains(next, "complete it: acp_handoff with action complete and handoff_id h1") {
		t.Errorf("the next step is %q", next)
	}
	got := do(keys[1], api.HandoffParams{Action: "show", ID: id}).Report
	if got.Status != hub.HandoffActivated || got.Ending != "" || got.Landing != string(hub.LandingReturned) || !strings.Contains(got.Returned, "main fails the check test") {
		t.Errorf("returned: %s, ending %q, landing %s, %q", got.Status, got.Ending, got.Landing, got.Returned)
	}
	if found := must(rpc.Call(ctx, operator, api.Verify, api.VerifyParams{}))(t); len(found.Findings) > 0 {
		t.Errorf("audit: %v", found.Findings)
	}

	// A completion without the repair is refused by nothing but the queue; the repair lands.
	commit("ok\nok\n")
	do(keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: "repaired"})
	for do(keys[1], api.HandoffParams{Action: "show", ID: id}).Report.Stage != hub.StageLanded {
		must(rpc.Call(ctx, h.as(keys[1]), api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
	}
	entries := r.settle(ctx, operator)
	if len(entries) != 1 || entries[0].State != hub.EntryLanded || entries[0].Returns != 1 || entries[0].Ref != "h1" {
		t.Errorf("entries: %+v", entries)
	}

	// The agents that heard of the landing hear that it was undone, too; the next step is for its owner.
	must(rpc.Call(ctx, operator, api.UndoLanding, api.EntryParams{ID: "l1", Reason: "it slows main down"}))(t)
	for i, hasNext := range []bool{false, true} {
		for isTold := false; !isTold; {
			for _, m := range must(rpc.Call(ctx, h.as(keys[i]), api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t).Messages {
				text := string(m.Payload)
				if strings.Contains(text, "l1 (h1) was taken back from main by l2 of the operator: it slows main down") {
					isTold = true
					if strings.Contains(text, "next_step") != hasNext {
						t.Errorf("agent %d reads %s", i, text)
					}
				}
			}
		}
	}
	if found := must(rpc.Call(ctx, operator, api.Verify, api.VerifyParams{}))(t); len(found.Findings) > 0 {
		t.Errorf("audit: %v", found.Findings)
	}
}

// The work of a task of a team lands by itself when its team has accepted it; work that breaks main
// goes to rework, and lands after it.
func TestLandingOfATask(t *testing.T) {
	r := newLandingRepo(t)
	work := filepath.Join(filepath.Dir(r.dir), "work")
	r.git("worktree", "add", "-q", "-b", "work", work)
	o := unlimited()
	o.Roots = []string{filepath.Dir(r.dir)}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "lead", "builder")
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute))
	defer cancel()
	operator := h.as(h.operator)
	r.allow(ctx, operator, api.LandingParams{By: hub.LandingAuto})
	must(rpc.Call(ctx, operator, api.AddCheck, api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: r.dir}, Name: "there", Command: []string{"test", "-e", "mod/base"}, Unconfined: true}))(t)
	do := func(key string, p api.TeamParams) team.Answer {
		t.Helper()
		p.Team = "core"
		return must(rpc.Call(ctx, h.as(key), api.Team, p))(t)
	}
	state := func() hub.TaskState { return do(keys[1], api.TeamParams{Action: "task", Task: "T-1"}).Task.State }
	commit := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(work, "mod", "base"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r.git("-C", work, "commit", "-q", "-a", "-m", "work")
	}
	finish := func() team.Answer {
		t.Helper()
		do(keys[1], api.TeamParams{Action: "task", Task: "T-1", State: hub.TaskInProgress})
		got := do(keys[1], api.TeamParams{Action: "task", Task: "T-1", State: hub.TaskInReview})
		do(h.operator, api.TeamParams{Action: "task", Task: "T-1", State: hub.TaskDone})
		return got
	}

	do(h.operator, api.TeamParams{Action: "create", Objective: "login", Members: []team.Seat{{Agent: "lead", Role: hub.RoleCoordinator}, {Agent: "builder", Role: hub.RoleExecutor}}})
	do(h.operator, api.TeamParams{Action: "status", Lifecycle: hub.TeamActive})
	do(h.operator, api.TeamParams{Action: "task", Title: "login", Worktree: work, Checks: []string{"there"}, Owner: "builder"})
	commit("broken\n")
	if got := finish(); got.Checks != hub.ChecksPassed {
		t.Errorf("checks: %s", got.Checks)
	}
	for state() != hub.TaskRework {
		must(rpc.Call(ctx, h.as(keys[1]), api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
	}
	if _, err := rpc.Call(ctx, operator, api.RetryLanding, api.EntryParams{ID: "l1"}); hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("a task in rework was queued: %v", err)
	}

	commit("ok\nok\n")
	finish()
	for {
		if e := must(rpc.Call(ctx, operator, api.ShowEntry, api.EntryParams{ID: "l1"}))(t).Entries[0]; e.State == hub.EntryLanded {
			if e.Task != "T-1" || e.Owner != "builder" || e.Returns != 1 {
				t.Errorf("entry: %+v", e)
			}
			break
		}
		must(rpc.Call(ctx, h.as(keys[1]), api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
	}
	if got := must(rpc.Call(ctx, operator, api.Verify, api.VerifyParams{}))(t); len(got.Findings) > 0 {
		t.Errorf("audit: %v", got.Findings)
	}
}

// The branch of a task lands after the review of its team, whoever queues it.
func TestBranchOfATaskWaitsForItsReviewer(t *testing.T) {
	r := newLandingRepo(t)
	work := filepath.Join(filepath.Dir(r.dir), "work")
	r.git("worktree", "add", "-q", "-b", "work", work)
	o := unlimited()
	o.Roots = []string{filepath.Dir(r.dir)}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "lead", "builder", "other")
	ctx := t.Context()
	operator := h.as(h.operator)
	r.allow(ctx, operator, api.LandingParams{By: hub.LandingAuto})
	do := func(key string, p api.TeamParams) {
		t.Helper()
		p.Team = "core"
		must(rpc.Call(ctx, h.as(key), api.Team, p))(t)
	}
	do(h.operator, api.TeamParams{Action: "create", Objective: "login", Members: []team.Seat{{Agent: "other", Role: hub.RoleCoordinator}, {Agent: "lead", Role: hub.RoleReviewer}, {Agent: "builder", Role: hub.RoleExecutor}}})
	do(h.operator, api.TeamParams{Action: "status", Lifecycle: hub.TeamActive})
	do(h.operator, api.TeamParams{Action: "task", Title: "login", Worktree: work, Checks: []string{"test"}, Owner: "builder", Reviewer: "lead"})
	do(keys[1], api.TeamParams{Action: "task", Task: "T-1", State: hub.TaskInProgress})
	if err := os.WriteFile(filepath.Join(work, "mod", "login"), []byte("ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.git("-C", work, "add", "-A")
	r.git("-C", work, "commit", "-q", "-m", "work")
	do(keys[1], api.TeamParams{Action: "task", Task: "T-1", State: hub.TaskInReview})
	for key, ref := range map[string]string{keys[1]: "work", keys[2]: r.git("rev-parse", "work")} {
		e := must(rpc.Call(ctx, h.as(key), api.Land, api.LandParams{Ref: ref, Repo: r.dir}))(t).Entries[0]
		if e.State != hub.EntryWaiting || e.Reason != "waits for the review of lead" {
			t.Errorf("%s of a task before its review: %s %q", ref, e.State, e.Reason)
		}
		must(rpc.Call(ctx, operator, api.CancelLanding, api.EntryParams{ID: e.ID}))(t)
	}
	do(keys[0], api.TeamParams{Action: "task", Task: "T-1", State: hub.TaskDone})
	for {
		all := r.entries(ctx, operator)
		if all[0].State == hub.EntryLanded {
			break
		}
		must(rpc.Call(ctx, operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
	}
}

// A change in a repository with a contract that is not agreed goes back to its owner, with the
// repositories that use it.
func TestLandingAsksContracts(t *testing.T) {
	r := newLandingRepo(t)
	r.branch("b1", "mod/b1", "ok\n")
	r.git("remote", "add", "origin", "git@example.com:acme/shop-api.git")
	o := unlimited()
	o.Roots = []string{r.dir}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "ada")
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(3*time.Minute))
	defer cancel()
	operator := h.as(h.operator)
	r.allow(ctx, operator, api.LandingParams{By: hub.LandingAuto})
	repos := []coordination.NewRepo{{Name: "backend", Role: "backend", Language: "go", URL: "https://example.com/acme/shop-api"}, {Name: "web", Role: "frontend", Language: "go"}}
	project := coordination.InProject{Project: mustCall(t, operator, coordination.CreateProject, coordination.NewProject{Name: "shop", Objective: "sell", Repos: repos}).Project}
	mustCall(t, h.as(keys[0]), coordination.JoinProject, coordination.JoinParams{InProject: project, Repo: "backend"})
	mustCall(t, h.as(keys[0]), coordination.Propose, contract.Proposal{InProject: project, Type: coord.ContractAPI, Name: "orders", Content: []byte(`{"method":"GET","path":"/orders"}`)})

	must(rpc.Call(ctx, h.as(keys[0]), api.Land, api.LandParams{Ref: "b1", Repo: r.dir}))(t)
	entries := r.settle(ctx, operator)
	if len(entries) != 1 || entries[0].State != hub.EntryReturned || !strings.Contains(entries[0].Reason, "the contract orders (version 1)") || !strings.Contains(entries[0].Reason, "used by web") {
		t.Errorf("got %+v", entries)
	}
}

// A branch whose version of a contract breaks a consumer goes back with the reason, and lands once the
// consumer agreed and was tested.
func TestLandingAsksCanMerge(t *testing.T) {
	r := newLandingRepo(t)
	r.branch("b1", "mod/b1", "ok\n")
	o := unlimited()
	o.Roots = []string{r.dir}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "ada", "bob")
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(3*time.Minute))
	defer cancel()
	operator := h.as(h.operator)
	ada := h.as(keys[0])
	bob := h.as(keys[1])
	r.allow(ctx, operator, api.LandingParams{By: hub.LandingAuto})

	// The repository app provides User, of which web uses a property.
	repos := []coordination.NewRepo{{Name: "app", Role: "backend", Language: "go"}, {Name: "web", Role: "frontend", Language: "ts"}}
	project := coordination.InProject{Project: mustCall(t, operator, coordination.CreateProject, coordination.NewProject{Name: "shop", Objective: "sell", Repos: repos}).Project}
	mustCall(t, ada, coordination.JoinProject, coordination.JoinParams{InProject: project, Repo: "app"})
	mustCall(t, bob, coordination.JoinProject, coordination.JoinParams{InProject: project, Repo: "web"})
	const user = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["name","avatar"],"properties":{"name":{"type":"string"},"avatar":{"type":"string"}}}`
	const less = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`
	made := mustCall(t, ada, coordination.Propose, contract.Proposal{
		InProject: project, Type: coord.ContractModel, Name: "User", Content: []byte(user), Direction: contract.Direction{Provider: "app", Flow: "response"},
	})
	of := contract.Of(project.Project, made.Contract)
	agree := contract.Response{InContract: of, Action: contract.ActionAgree}
	mustCall(t, bob, coordination.Respond, agree)
	mustCall(t, bob, coordination.Use, contract.Declaration{InContract: of, Parts: []string{"User.avatar"}})

	// CI sends the results of tests for both repositories.
	tokens := map[string]string{}
	for _, repo := range []string{"app", "web"} {
		tokens[repo] = mustCall(t, operator, coordination.MintToken, coordination.TokenParams{
			InProject: project, Agent: "aid://ci.example/ci@1.0.0", Permissions: []coord.Permission{coord.PermitRead, coord.PermitEvidence},
			Repo: repo, Checks: []string{"contract-tests"}, Branch: "main",
		}).Token
		mustCall(t, operator, coordination.Test, contract.TestChange{InContract: of, Repo: repo, Check: "contract-tests"})
	}
	ran := func(repo, commit string, version int) {
		t.Helper()
		mustCall(t, h.as(tokens[repo]), coordination.VerifyWork, contract.Verification{
			InContract: of, As: contract.As{Repo: repo}, Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: commit, Check: "contract-tests", Against: version},
		})
	}
	returned := func(reason string) {
		t.Helper()
		entries := r.settle(ctx, operator)
		last := entries[0]
		if last.State != hub.EntryReturned || !strings.Contains(last.Reason, reason) {
			t.Errorf("got %s: %s; want it returned with %q", last.State, last.Reason, reason)
		}
	}

	id := must(rpc.Call(ctx, ada, api.Land, api.LandParams{Ref: "b1", Repo: r.dir}))(t).Entries[0].ID
	again := func() {
		t.Helper()
		must(rpc.Call(ctx, ada, api.RetryLanding, api.EntryParams{ID: id}))(t)
	}
	returned("no test was run on this commit")

	mustCall(t, ada, coordination.Update, contract.Revision{InContract: of, Content: []byte(less)})
	commit := r.git("rev-parse", "b1")
	ran("app", commit, 2)
	again()
	returned("it was tested against version 2, which is not agreed yet: waiting for web")

	mustCall(t, bob, coordination.Respond, agree)
	again()
	returned("version 2 is breaking for web, which has no run result for it")

	ran("web", strings.Repeat("c7", 20), 2)
	again()
	if entries := r.settle(ctx, operator); entries[0].State != hub.EntryLanded {
		t.Errorf("got %+v", entries[0])
	}
}

// Work that is not committed does not land: the commit that is checked out has not all of it.
func TestUncommittedWorkDoesNotLand(t *testing.T) {
	r := newLandingRepo(t)
	o := unlimited()
	o.Roots = []string{r.dir}
	o.Checks = server.Checks{Program: program(t)}
	h := start(t, o)
	keys := h.add(t, "planner", "builder")
	ctx := t.Context()
	r.allow(ctx, h.as(h.operator), api.LandingParams{By: hub.LandingAuto})
	id := mustCall(t, h.as(keys[0]), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "L-3", Title: "login", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: r.dir,
	}).Report.ID
	mustCall(t, h.as(keys[1]), api.Handoff, api.HandoffParams{Action: "accept", ID: id})
	r.write("mod/login", "ok\n")
	if got := mustCall(t, h.as(keys[1]), api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "done"}).Report; got.Commit != "" || got.Stage != hub.StageThere {
		t.Errorf("got commit %q, stage %s", got.Commit, got.Stage)
	}
	if _, err := rpc.Call(ctx, h.as(keys[1]), api.Land, api.LandParams{Ref: string(id)}); hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), "its work is not committed") {
		t.Errorf("got %v", err)
	}
}
