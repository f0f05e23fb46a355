package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// landings has agents open the gates of a landing queue: no commit that fails the check, or that was
// not reviewed, comes into main.
func (s *scene) landings() {
	r := &landingRepo{t: s.t, dir: filepath.Join(s.root, "shop")}
	r.write("mod/base", "ok\n")
	r.git("init", "-q", "-b", "main")
	r.commit("first")
	operator := s.as(s.operator)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience.For(5*time.Minute))
	defer cancel()
	must(rpc.Call(ctx, operator, api.AddCheck, api.AddCheckParams{
		RepositoryParams: api.RepositoryParams{Repository: r.dir}, Name: "test", Command: []string{"sh", "-c", moduleCheck}, Required: true, Unconfined: confine.Supported() != nil,
	}))(s.t)
	must(rpc.Call(ctx, operator, api.SetLanding, api.LandingParams{Repo: r.dir, Into: "main", Review: "alice", By: hub.LandingAuto}))(s.t)
	policy := func() string {
		return must(rpc.Call(ctx, operator, api.ShowLanding, api.LandingParams{Repo: r.dir}))(s.t).Landing.Digest()
	}
	before := policy()

	// Policies and words belong to the operator.
	for _, more := range []string{`"no_checks":true`, `"review":"none"`, `"review":"mallory"`, `"by":"operator"`, `"no_contracts":true`, `"unconcerned_lands":true`, `"repeat":3`, `"reset":true`, `"checks":null`} {
		a := s.call(s.t, s.mallory, "parley/landing/set", fmt.Sprintf(`{"repo":%q,"into":"main",%s}`, r.dir, more))
		s.try(a.Error == nil || policy() != before, "mallory set %s", more)
	}
	a := s.call(s.t, s.mallory, "parley/landing/off", fmt.Sprintf(`{"repo":%q}`, r.dir))
	s.try(a.Error == nil, "mallory turned landing off")

	// Branches that are red, that were approved by their author, or that nobody reviewed.
	head := r.git("rev-parse", "main")
	got := func() bool { return r.git("rev-parse", "main") != head }
	entry := func(branch string) string {
		a := s.call(s.t, s.mallory, "parley/landings/land", fmt.Sprintf(`{"ref":%q,"repo":%q}`, branch, r.dir))
		var made struct{ Entries []hub.LandingEntry }
		json.Unmarshal(a.Result, &made)
		if len(made.Entries) != 1 {
			s.t.Fatalf("%s was not queued: %s", branch, a.body)
		}
		return string(made.Entries[0].ID)
	}
	for i, author := range []string{"mallory", "alice", "someone"} {
		branch := fmt.Sprint("branch-", i)
		r.git("switch", "-q", "-c", branch, "main")
		r.write("mod/"+branch, "ok\n")
		r.git("add", "-A")
		r.git("commit", "-q", "-m", "work\n\nCo-authored-by: "+author+" <"+author+"@localhost>")
		r.git("switch", "-q", "main")
		id := entry(branch)
		for _, key := range []string{s.mallory, s.bob, s.alice} { // alice fetched nothing, and is a co-author of one
			for _, verdict := range []string{"approve", "APPROVE", "approved", "yes", ""} {
				a := s.call(s.t, key, "parley/landings/review", fmt.Sprintf(`{"id":%q,"verdict":%q}`, id, verdict))
				s.try(a.Error == nil || got(), "%s: a review %q counts", branch, verdict)
			}
		}
		for _, method := range []string{"parley/landings/retry", "parley/approve"} {
			s.call(s.t, s.mallory, method, fmt.Sprintf(`{"id":%q}`, id))
			s.try(got(), "%s landed by %s", branch, method)
		}
		for _, what := range []string{"review", "test", "checks", "contracts", ""} {
			a := s.call(s.t, s.mallory, "parley/landings/approve", fmt.Sprintf(`{"id":%q,"without":%q,"because":"it is good"}`, id, what))
			s.try(a.Error == nil || got(), "%s: mallory lets it land without %s", branch, what)
		}
		for _, key := range []string{s.bob, s.alice} {
			for _, method := range []string{"parley/landings/cancel", "parley/landings/undo"} {
				a := s.call(s.t, key, method, fmt.Sprintf(`{"id":%q}`, id))
				s.try(a.Error == nil, "%s of another agent: %s", branch, method)
			}
		}
		for _, state := range r.settle(ctx, operator) {
			s.try(state.State == hub.EntryLanded, "%s landed", state.ID)
		}
	}

	// A review that fits the branch is no check: red work does not land.
	r.branch("red", "mod/red", "broken\n")
	id := entry("red")
	s.fetch(s.t, s.alice)
	s.call(s.t, s.alice, "parley/landings/review", fmt.Sprintf(`{"id":%q,"verdict":"approve"}`, id))
	for _, e := range r.settle(ctx, operator) {
		isRed := string(e.ID) == id
		s.try(e.State == hub.EntryLanded || (isRed && !strings.Contains(e.Reason, "fails the check test")), "%s is %s: %s", e.ID, e.State, e.Reason)
	}
	s.try(got(), "main moved")
}

// judges has an agent change what judges its work, and then say yes to it: none of that lands.
func (s *scene) judges() {
	r := &landingRepo{t: s.t, dir: filepath.Join(s.root, "judged")}
	for name, text := range map[string]string{"mod/base": "ok\n", "test.sh": moduleCheck + "\n", "lib.sh": "true\n", "a_test.go": "package a\n"} {
		r.write(name, text)
	}
	r.git("init", "-q", "-b", "main")
	r.commit("first")
	operator := s.as(s.operator)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience.For(5*time.Minute))
	defer cancel()
	must(rpc.Call(ctx, operator, api.AddCheck, api.AddCheckParams{
		RepositoryParams: api.RepositoryParams{Repository: r.dir}, Name: "test", Command: []string{"sh", "test.sh"}, Setup: []string{"sh", "lib.sh"}, Required: true, Unconfined: confine.Supported() != nil,
	}))(s.t)
	must(rpc.Call(ctx, operator, api.SetLanding, api.LandingParams{Repo: r.dir, Into: "main", Review: hub.ReviewerNone, By: hub.LandingAuto}))(s.t)
	head := r.git("rev-parse", "main")
	for name, files := range map[string][]string{
		"script": {"test.sh", "exit 0\n"}, "setup": {"lib.sh", "echo exit 0 > test.sh\n"}, "proposal": {"parley.yaml", "checks: []\n"}, "key": {".parley/keys/mallory.pub", "mine\n"}, "test": {"a_test.go", ""},
		"moved": {"test.sh", "", "scripts/test.sh", "exit 0\n"}, "beside": {"test.sh", "exit 0\n", "README", "words\n"},
	} {
		r.git("switch", "-q", "-c", name, "main")
		for i := 0; i < len(files); i += 2 {
			if files[i+1] == "" {
				r.git("rm", "-q", files[i])
				continue
			}
			r.write(files[i], files[i+1])
		}
		r.commit(name)
		r.git("switch", "-q", "main")
		a := s.call(s.t, s.mallory, "parley/landings/land", fmt.Sprintf(`{"ref":%q,"repo":%q}`, name, r.dir))
		var made struct{ Entries []hub.LandingEntry }
		json.Unmarshal(a.Result, &made)
		if len(made.Entries) != 1 {
			s.t.Fatalf("%s was not queued: %s", name, a.body)
		}
		id := made.Entries[0].ID
		s.try(made.Entries[0].State != hub.EntryWaiting, "%s is %s", name, made.Entries[0].State)
		for _, key := range []string{s.mallory, s.bob, s.alice} {
			s.fetch(s.t, key)
			for method, more := range map[string]string{"landings/review": `,"verdict":"approve"`, "landings/retry": "", "approve": "", "landings/approve": `,"without":"review","because":"it is good"`} {
				s.call(s.t, key, "parley/"+method, fmt.Sprintf(`{"id":%q%s}`, id, more))
				now := must(rpc.Call(ctx, operator, api.ShowEntry, api.EntryParams{ID: id}))(s.t).Entries[0]
				s.try(now.State != hub.EntryWaiting || now.Waits != hub.WaitsForReview, "%s by %s: %s %s", name, method, now.State, now.Reason)
			}
		}
	}
	s.colludes(ctx, r)
	r.settle(ctx, operator)
	s.try(r.git("rev-parse", "main") != head, "main moved")
}

// colludes has three agents give one another a task, its work and the review that its package asks for.
func (s *scene) colludes(ctx context.Context, r *landingRepo) {
	work := filepath.Join(s.root, "colluded")
	r.git("worktree", "add", "-q", "-b", "colluded", work, "main")
	bob := s.as(s.bob)
	id := must(rpc.Call(ctx, s.as(s.mallory), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "bob", TaskID: "J-1", Title: "t", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Worktree: work, Branch: "colluded", Review: "alice",
	}))(s.t).Report.ID
	must(rpc.Call(ctx, bob, api.Handoff, api.HandoffParams{Action: "accept", ID: id}))(s.t)
	for name, text := range map[string]string{"test.sh": "exit 0\n", "mod/colluded": "broken\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	r.git("-C", work, "add", "-A")
	r.git("-C", work, "commit", "-q", "-m", "work")
	wait := 60
	must(rpc.Call(ctx, bob, api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "done", Wait: &wait}))(s.t)
	var asked []hub.Review
	for len(asked) == 0 { // the queue asks for the review
		must(rpc.Call(ctx, s.as(s.alice), api.Inbox, api.InboxParams{WaitS: 1}))(s.t)
		asked = must(rpc.Call(ctx, s.as(s.alice), api.ListReviews, api.ReviewsParams{}))(s.t).Reviews
		asked = slices.DeleteFunc(asked, func(v hub.Review) bool { return v.Handoff != id })
	}
	for range 2 {
		s.fetch(s.t, s.alice)
		s.call(s.t, s.alice, "parley/landings/review", fmt.Sprintf(`{"id":%q,"verdict":"approve"}`, id))
		s.call(s.t, s.bob, "parley/landings/land", fmt.Sprintf(`{"ref":%q}`, id))
		for _, e := range r.settle(ctx, s.as(s.operator)) {
			isTheirs := e.Handoff == id
			s.try(isTheirs && (e.State != hub.EntryWaiting || !slices.Contains(e.Reviewers, string(hub.Operator))), "colluded: %s %s", e.State, e.Reason)
		}
	}
}
