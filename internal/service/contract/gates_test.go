package contract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/testing/doctable"
)

// A copied is the hub's own copy of frontend-app: its commits with their trees, the head of its
// target branch, and lock files by commit.
type copied struct {
	trees map[string]string
	head  string
	locks map[string]string
}

var home = hub.Repository{Path: "/src/frontend-app"}

func (c *copied) Find(_ context.Context, r coord.Repo) (hub.Repository, bool, error) {
	return home, r.Name == "frontend-app", nil
}

func (c *copied) Commit(_ context.Context, _ hub.Repository, revision string) (contract.Commit, error) {
	tree, ok := c.trees[revision]
	if !ok {
		return contract.Commit{}, hub.Errorf(hub.CodeNotFound, "copied", "no commit %s", revision)
	}
	return contract.Commit{ID: revision, Tree: tree}, nil
}

func (c *copied) Target(context.Context, hub.Repository) (contract.Commit, error) {
	return contract.Commit{ID: c.head, Tree: c.trees[c.head]}, nil
}

func (c *copied) File(_ context.Context, _ hub.Repository, commit, _ string) ([]byte, error) {
	if text, ok := c.locks[commit]; ok {
		return []byte(text), nil
	}
	return nil, nil
}

// A gatehouse is a crew whose hub has a copy of frontend-app.
type gatehouse struct {
	*crew
	copy *copied
}

// newGatehouse returns a gatehouse with two commits of different trees, a1 and a2, of which a1 is
// the head. The check contract-tests of the hub is the frontend's test of the contract.
func newGatehouse(t *testing.T) *gatehouse {
	t.Helper()
	g := &gatehouse{copy: &copied{trees: map[string]string{id("a1"): "t1", id("a2"): "t2"}, head: id("a1"), locks: map[string]string{}}}
	g.crew = newCrewWith(t, func(o *contract.Options) { o.Repositories = g.copy })
	for _, name := range []string{contractTests, "lint"} {
		g.allow(hub.RepositoryCheck{Repository: home, Name: name, Digest: "d"})
	}
	return g
}

func (g *gatehouse) allow(c hub.RepositoryCheck) {
	g.Helper()
	g.ok(g.store.Update(g.Context(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.WriteChecks().PutCheck(c) }))
}

// ran stores the result of a run of this hub on a commit, made now unless it has a time.
func (g *gatehouse) ran(commit string, change func(*hub.CheckResult)) {
	g.Helper()
	r := hub.CheckResult{
		Repository: home, Name: contractTests, Commit: id(commit), Tree: g.copy.trees[id(commit)], State: hub.ResultPassed, Digest: "d", By: hub.Operator,
		StartedAt: hub.At(g.clock.read()), EndedAt: hub.At(g.clock.read()),
	}
	if change != nil {
		change(&r)
	}
	g.ok(g.store.Update(g.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.WriteChecks().PutResult(r, "")
		return err
	}))
}

// ref names a version of the contract for a run.
func (g *gatehouse) ref(version int) *hub.ContractRef {
	g.Helper()
	ref, err := g.Version(g.Context(), g.project.ID, fmt.Sprintf("User@%d", version))
	g.ok(err)
	return &ref
}

// break2 makes version 2, which breaks the frontend, and has it agreed.
func (g *gatehouse) break2() {
	g.Helper()
	r, err := g.update(userSchema("name"))
	g.ok(err)
	_, err = g.respond(g.front, r.Contract, contract.ActionAgree, "")
	g.ok(err)
}

// provided has a commit of the provider in prod that passed for the version in force.
func (g *gatehouse) provided() {
	g.Helper()
	g.run("backend-api", "b9", contract.VerifySuccess, 0)
	g.deploy("backend-api", "prod", "b9")
}

// A red gate: no evidence of another kind, commit, branch, version or author opens can-merge or
// can-deploy.
func TestCanMergeIsClosed(t *testing.T) {
	failed := func(r *hub.CheckResult) { r.State = hub.ResultFailed }
	for _, test := range []struct {
		name   string
		do     func(g *gatehouse)
		reason string
	}{
		{"no evidence", func(g *gatehouse) {}, "no test was run"},
		{"an agent's word", func(g *gatehouse) {
			_, err := g.Verify(g.Context(), g.front, contract.Verification{InContract: contract.Of(g.project.ID, g.c.ID), Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("a1")}})
			g.ok(err)
		}, "said, not run"},
		{"an agent's word for the tree of a good commit", func(g *gatehouse) {
			g.ran("a2", nil)
			var v contract.Verification
			g.ok(json.Unmarshal([]byte(fmt.Sprintf(`{"projectId":%q,"contractId":%q,"result":"success","commit":%q,"tree":"t2","check":"contract-tests"}`, g.project.ID, g.c.ID, id("a1"))), &v))
			_, err := g.Verify(g.Context(), g.front, v)
			g.ok(err)
		}, "said, not run"},
		{"a green lint", func(g *gatehouse) { g.ran("a1", func(r *hub.CheckResult) { r.Name = "lint" }) }, "no test was run"},
		{"a green lint beside a failed test", func(g *gatehouse) {
			g.ran("a1", failed)
			g.ran("a1", func(r *hub.CheckResult) { r.Name = "lint" })
		}, "ended with failure"},
		{"a run that an agent asked for after a failure", func(g *gatehouse) {
			g.ran("a1", failed)
			g.ran("a1", func(r *hub.CheckResult) { r.By = "bob" })
		}, "ended with failure"},
		{"a failure after a success", func(g *gatehouse) { g.ran("a1", nil); g.ran("a1", failed) }, "ended with failure"},
		{"a run that timed out", func(g *gatehouse) { g.ran("a1", func(r *hub.CheckResult) { r.State = hub.ResultTimedOut }) }, "timed_out"},
		{"a run of another commit", func(g *gatehouse) { g.ran("a2", nil) }, "no test was run"},
		{"a run of another command", func(g *gatehouse) { g.ran("a1", func(r *hub.CheckResult) { r.Digest = "true" }) }, "no test was run"},
		{"a run in the agent's working tree", func(g *gatehouse) { g.ran("a1", func(r *hub.CheckResult) { r.InPlace = true }) }, "no test was run"},
		{"a run of another repository", func(g *gatehouse) { g.ran("a1", func(r *hub.CheckResult) { r.Path = "/src/elsewhere" }) }, "no test was run"},
		{"a run from before the contract", func(g *gatehouse) {
			g.ran("a1", func(r *hub.CheckResult) { r.StartedAt = hub.At(start.Add(-time.Hour)) })
		}, "no test was run"},
		{"a run for another version", func(g *gatehouse) {
			ref := g.ref(1)
			g.break2()
			g.ran("a1", func(r *hub.CheckResult) { r.Contract = ref })
		}, "version 1, and version 2 is in force"},
		{"a run that began before the version was in force", func(g *gatehouse) { g.ran("a1", nil); g.break2() }, "version 1, and version 2 is in force"},
		{"an old run that is reported again", func(g *gatehouse) {
			g.ran("a1", nil)
			g.break2()
			_, err := g.Verify(g.Context(), g.front, contract.Verification{InContract: contract.Of(g.project.ID, g.c.ID), Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("a1"), Check: contractTests}})
			g.ok(err)
			_, err = g.Verify(g.Context(), g.front, contract.Verification{InContract: contract.Of(g.project.ID, g.c.ID), Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("a1"), Check: contractTests, Against: 2}})
			g.refused(err, hub.CodeConflict, "tested version 1 of User, not 2")
		}, "version 1, and version 2 is in force"},
		{"a lock file that names the version of another content", func(g *gatehouse) {
			g.break2()
			g.copy.locks[id("a1")] = `{"contracts":[{"name":"User","version":1,"digest":"` + coord.ContentHash(userSchema("name", "avatar")) + `"}]}`
			g.ran("a1", nil)
		}, "version 1, and version 2 is in force"},
		{"a token that is not bound", func(g *gatehouse) {
			_, err := g.Verify(g.Context(), g.ci(coord.PermitEvidence), contract.Verification{
				InContract: contract.Of(g.project.ID, g.c.ID), As: contract.As{Repo: "frontend-app"}, Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("a1"), Check: "elsewhere"},
			})
			g.ok(err)
		}, "said, not run"},
		{"a token for another check", func(g *gatehouse) {
			_, err := g.send(coord.EvidenceBounds{Repo: "frontend-app", Checks: []string{"lint"}}, "a1", contractTests, contract.VerifySuccess, 0)
			g.refused(err, hub.CodeDenied, "bound to the checks lint")
			_, err = g.send(coord.EvidenceBounds{Repo: "frontend-app", Checks: []string{"lint"}}, "a1", "lint", contract.VerifySuccess, 0)
			g.ok(err)
		}, "said, not run"},
		{"a check whose name was taken back, and none that is required", func(g *gatehouse) {
			g.ran("a1", nil)
			_, err := g.Test(g.Context(), g.back, contract.TestChange{InContract: contract.Of(g.project.ID, g.c.ID), Repo: "frontend-app", Check: contractTests, Remove: true})
			g.ok(err)
		}, "no check of frontend-app is its test"},
		{"one of two required checks", func(g *gatehouse) {
			_, err := g.Test(g.Context(), g.back, contract.TestChange{InContract: contract.Of(g.project.ID, g.c.ID), Repo: "frontend-app", Check: contractTests, Remove: true})
			g.ok(err)
			for _, name := range []string{contractTests, "lint"} {
				g.allow(hub.RepositoryCheck{Repository: home, Name: name, Digest: "d", Required: true})
			}
			g.ran("a1", nil)
		}, "no test was run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGatehouse(t)
			g.use(g.front)
			test.do(g)
			g.merge("frontend-app", "a1", hub.AnswerNo, test.reason)

			// The provider runs a commit that passed for the version in force.
			g.provided()
			g.deployable("frontend-app", "a1", hub.AnswerNo, "")
		})
	}
	t.Run("what fits another environment", func(t *testing.T) {
		g := newGatehouse(t)
		g.use(g.front)
		_, err := g.AddEnvironment(g.Context(), g.back, contract.EnvironmentChange{InProject: contract.In(g.project.ID), Name: "staging"})
		g.ok(err)
		g.ran("a1", nil)
		g.run("backend-api", "b1", contract.VerifySuccess, 1)
		g.deploy("backend-api", "staging", "b1")
		g.break2()
		g.provided()
		g.deployable("frontend-app", "a1", hub.AnswerNo, "backend-api has version 2 in prod")
		got, err := g.CanDeploy(g.Context(), g.front, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "frontend-app", Commit: id("a1"), Env: "staging"})
		g.ok(err)
		g.answered(got, hub.AnswerYes, "")
	})
	t.Run("bounds of a token hold", func(t *testing.T) {
		g := newGatehouse(t)
		bounds := coord.EvidenceBounds{Repo: "frontend-app", Checks: []string{contractTests}, Branch: "main"}
		for _, test := range []struct {
			repo string
			e    contract.Evidence
			code hub.Code
			text string
		}{
			{"mobile-app", contract.Evidence{Commit: id("a1"), Check: contractTests}, hub.CodeDenied, "bound to repository frontend-app"},
			{"frontend-app", contract.Evidence{Commit: id("a1")}, hub.CodeInvalid, "check required"},
			{"frontend-app", contract.Evidence{Commit: id("a1"), Check: contractTests, Branch: "throwaway"}, hub.CodeDenied, "bound to branch main"},
			{"frontend-app", contract.Evidence{Commit: "a1a1a1", Check: contractTests}, hub.CodeInvalid, "not a full commit id"},
		} {
			_, err := g.Verify(g.Context(), g.bound(bounds), contract.Verification{InContract: contract.Of(g.project.ID, g.c.ID), As: contract.As{Repo: test.repo}, Result: contract.VerifySuccess, Evidence: test.e})
			g.refused(err, test.code, test.text)
		}
	})
	t.Run("unknown names are errors with the known ones", func(t *testing.T) {
		g := newGatehouse(t)
		_, err := g.CanMerge(g.Context(), g.back, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "nowhere", Commit: id("a1")})
		g.refused(err, hub.CodeInvalid, "nowhere")
		_, err = g.CanMerge(g.Context(), g.back, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "mobile-app", Commit: "beef"})
		g.refused(err, hub.CodeInvalid, "not a full commit id")
		_, err = g.Test(g.Context(), g.back, contract.TestChange{InContract: contract.Of(g.project.ID, g.c.ID), Repo: "frontend-app", Check: "contract-test"})
		g.refused(err, hub.CodeInvalid, "no check named")
		_, err = g.Test(g.Context(), g.front, contract.TestChange{InContract: contract.Of(g.project.ID, g.c.ID), Repo: "frontend-app", Check: "lint"})
		g.refused(err, hub.CodeDenied, "only the owner")
		for _, who := range []hub.Caller{g.back, g.front} { // an agent's own key opens nothing
			_, err = g.CanMerge(g.Context(), who, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "mobile-app", Commit: id("m1"), AllowNone: true})
			g.refused(err, hub.CodeDenied, "allow-none")
		}
	})
}

// honestRows are what honest users rely on before they merge or deploy a commit of a consumer.
var honestRows = []struct {
	name string
	do   func(g *gatehouse)
}{
	{"a run of the hub", func(g *gatehouse) { g.ran("a1", nil) }},
	{"a run that an agent asked for, without a failure before", func(g *gatehouse) { g.ran("a1", func(r *hub.CheckResult) { r.By = "bob" }) }},
	{"a run of another commit with the same tree", func(g *gatehouse) { g.copy.trees[id("a2")] = "t1"; g.ran("a2", nil) }},
	{"a failure that the operator had run again", func(g *gatehouse) {
		g.ran("a1", func(r *hub.CheckResult) { r.State = hub.ResultFailed })
		g.ran("a1", func(r *hub.CheckResult) { r.Again = true })
	}},
	{"a flaky check that a completion ran again", func(g *gatehouse) {
		g.ran("a1", func(r *hub.CheckResult) { r.State = hub.ResultFailed })
		g.ran("a1", func(r *hub.CheckResult) { r.By = "bob"; r.Handoff = "h1" })
	}},
	{"a run for the version that it names", func(g *gatehouse) {
		g.break2()
		ref := g.ref(2)
		g.ran("a1", func(r *hub.CheckResult) { r.Contract = ref })
	}},
	{"the version of the lock file", func(g *gatehouse) {
		g.break2()
		g.copy.locks[id("a1")] = `{"contracts":[{"name":"User","version":2,"digest":"` + coord.ContentHash(userSchema("name")) + `"}]}`
		g.ran("a1", nil)
	}},
	{"a run for an earlier version, and a compatible change", func(g *gatehouse) {
		g.ran("a1", nil)
		_, err := g.update(userSchema("name", "avatar", "mail"))
		g.ok(err)
	}},
	{"a repository in CI alone", func(g *gatehouse) { g.run("frontend-app", "a1", contract.VerifySuccess, 0) }},
	{"all required checks, without a name", func(g *gatehouse) {
		_, err := g.Test(g.Context(), g.back, contract.TestChange{InContract: contract.Of(g.project.ID, g.c.ID), Repo: "frontend-app", Check: contractTests, Remove: true})
		g.ok(err)
		g.allow(hub.RepositoryCheck{Repository: home, Name: contractTests, Digest: "d", Required: true})
		g.ran("a1", nil)
	}},
}

// Honest users get their yes. The table of the documents has the rows.
func TestCanMergeOpens(t *testing.T) {
	var text strings.Builder
	text.WriteString("| an honest user has | `can-merge` | `can-deploy` |\n|---|---|---|\n")
	for _, test := range honestRows {
		fmt.Fprintf(&text, "| %s | yes | yes |\n", test.name)
		t.Run(test.name, func(t *testing.T) {
			g := newGatehouse(t)
			g.use(g.front)
			test.do(g)
			got := g.merge("frontend-app", "a1", hub.AnswerYes, "")
			if len(got.Asked) != 1 || got.Asked[0].Evidence == "" || got.Asked[0].By == "" {
				t.Errorf("a yes without evidence: %+v", got)
			}
			entries := g.journal()
			equal(g.desk, "last entry", entries[len(entries)-1], actions.ContractsReady)

			g.provided()
			g.deployable("frontend-app", "a1", hub.AnswerYes, "")
		})
	}
	doctable.Check(t, contractsDoc, "honest users", text.String(), *updateTable)
	t.Run("a repository without contracts, by the operator", func(t *testing.T) {
		g := newGatehouse(t)
		got, err := g.CanMerge(g.Context(), operator, contract.Candidate{InProject: contract.In(g.project.ID), Repo: "mobile-app", Commit: id("m1"), AllowNone: true})
		g.ok(err)
		if !got.OK() || len(got.Opened) != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

// Only the head of a consumer's target branch counts for the provider's merge.
func TestHeadOfConsumer(t *testing.T) {
	t.Run("in the hub's copy", func(t *testing.T) {
		g := newGatehouse(t)
		g.use(g.front)
		g.break2()
		g.run("backend-api", "b2", contract.VerifySuccess, 2)
		ref := g.ref(2)
		g.ran("a2", func(r *hub.CheckResult) { r.Contract = ref }) // a throwaway branch
		g.merge("backend-api", "b2", hub.AnswerNo, "breaking for frontend-app, which has no run result for it at the head of its target branch")
		g.ran("a1", func(r *hub.CheckResult) { r.Contract = ref })
		g.merge("backend-api", "b2", hub.AnswerYes, "")
	})
	t.Run("of CI alone", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.mobile)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		_, err = k.respond(k.mobile, r.Contract, contract.ActionAgree, "")
		k.ok(err)
		k.run("backend-api", "b2", contract.VerifySuccess, 2)
		_, err = k.send(coord.EvidenceBounds{Repo: "mobile-app", Checks: []string{contractTests}}, "throwaway", contractTests, contract.VerifySuccess, 2)
		k.ok(err)
		k.merge("backend-api", "b2", hub.AnswerNo, "its target branch is not known here")
		k.run("mobile-app", "m2", contract.VerifySuccess, 2)
		k.merge("backend-api", "b2", hub.AnswerYes, "")
		k.run("mobile-app", "m3", contract.VerifyFailure, 2) // the newest commit of the branch counts
		k.merge("backend-api", "b2", hub.AnswerNo, "breaking for mobile-app")
	})
	t.Run("a deployment says nothing about the branch", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		k.run("backend-api", "b1", contract.VerifySuccess, 1)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		_, err = k.respond(k.front, r.Contract, contract.ActionAgree, "")
		k.ok(err)
		branch := coord.EvidenceBounds{Repo: "backend-api", Checks: []string{contractTests}}
		_, err = k.send(branch, "b2", contractTests, contract.VerifySuccess, 2)
		k.ok(err)
		_, err = k.AddEnvironment(k.Context(), k.back, contract.EnvironmentChange{InProject: contract.In(k.project.ID), Name: "staging"})
		k.ok(err)
		k.deploy("backend-api", "staging", "b2")
		k.merge("backend-api", "b2", hub.AnswerNo, "version 2 is breaking for frontend-app")
		_, err = k.send(branch, "b3", contractTests, contract.VerifySuccess, 2)
		k.ok(err)
		k.merge("backend-api", "b3", hub.AnswerNo, "version 2 is breaking for frontend-app")
		k.run("backend-api", "b2", contract.VerifySuccess, 2) // merged by a person
		k.merge("backend-api", "b3", hub.AnswerYes, "")
		k.merge("backend-api", "b2", hub.AnswerNo, "version 2 is breaking for frontend-app")
	})
	t.Run("a run that an agent asked for on the provider's branch says nothing about it", func(t *testing.T) {
		g := newGatehouse(t)
		_, err := g.hand(operator, "frontend-app", "")
		g.ok(err)
		g.use(g.mobile)
		r, err := g.revise(g.front, userSchema("name"), contract.Direction{})
		g.ok(err)
		_, err = g.respond(g.mobile, r.Contract, contract.ActionAgree, "")
		g.ok(err)
		ref := g.ref(2)
		g.ran("a2", func(r *hub.CheckResult) { r.Contract = ref })
		g.ran("a1", func(r *hub.CheckResult) { r.Contract = ref; r.By = "bob" })
		g.merge("frontend-app", "a2", hub.AnswerNo, "version 2 is breaking for mobile-app")
		g.ran("a1", func(r *hub.CheckResult) { r.Contract = ref })
		g.merge("frontend-app", "a2", hub.AnswerYes, "")
	})
	t.Run("a compatible change asks no consumer", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		_, err := k.update(userSchema("name", "avatar", "mail"))
		k.ok(err)
		k.run("backend-api", "b2", contract.VerifySuccess, 2)
		got := k.merge("backend-api", "b2", hub.AnswerYes, "")
		equal(k.desk, "not asked", got.NotAsked, []string{"frontend-app: compatible with version 2 of User"})
	})
}

// A breaking change in the order in which nothing breaks: each step is a yes, each other order a no.
func TestBreakingChangeIsDeployed(t *testing.T) {
	k := newCrew(t)
	k.use(k.front)
	ask := func(who hub.Caller, repo, commit string, first bool) (contract.Readiness, error) {
		return k.CanDeploy(k.Context(), who, contract.Candidate{InProject: contract.In(k.project.ID), Repo: repo, Commit: id(commit), Env: "prod", First: first})
	}
	first := func(repo, commit string) {
		t.Helper()
		k.deployable(repo, commit, hub.AnswerNo, "is not deployed to prod")
		_, err := ask(k.back, repo, commit, true)
		k.refused(err, hub.CodeDenied, "first")
		got, err := ask(operator, repo, commit, true)
		k.ok(err)
		if !got.OK() || len(got.Opened) != 1 {
			t.Errorf("the first deployment of %s: %+v", repo, got)
		}
	}

	// Version 1 runs on both sides.
	k.run("backend-api", "b1", contract.VerifySuccess, 1)
	k.run("frontend-app", "f1", contract.VerifySuccess, 1)
	first("backend-api", "b1")
	k.deploy("backend-api", "prod", "b1")
	k.deployable("frontend-app", "f1", hub.AnswerYes, "")
	k.deploy("frontend-app", "prod", "f1")
	_, err := ask(operator, "frontend-app", "f1", true)
	k.refused(err, hub.CodeConflict, "--first")

	// Version 2 renames a property: it breaks both ways. f2 works with both versions.
	r, err := k.update(userSchema("name", "picture"))
	k.ok(err)
	k.run("backend-api", "b2", contract.VerifySuccess, 2)
	k.deployable("backend-api", "b2", hub.AnswerNo, "version 2, which is not agreed yet")
	_, err = k.respond(k.front, r.Contract, contract.ActionAgree, "")
	k.ok(err)
	k.run("frontend-app", "f2", contract.VerifySuccess, 1)
	k.run("frontend-app", "f2", contract.VerifySuccess, 2)
	k.run("frontend-app", "f3", contract.VerifySuccess, 2)

	breaks := "version 2 is breaking for commit " + short(id("f1")) + " of frontend-app"
	k.deployable("backend-api", "b2", hub.AnswerNo, breaks)
	k.deployable("frontend-app", "f3", hub.AnswerNo, "it was tested against version 2; backend-api has version 1 in prod")
	k.deployable("frontend-app", "f2", hub.AnswerYes, "")
	k.deploy("frontend-app", "prod", "f2")

	k.deployable("frontend-app", "f3", hub.AnswerNo, "backend-api has version 1 in prod")
	k.deployable("backend-api", "b2", hub.AnswerYes, "")

	// A commit of the provider has one version: runs against older ones open nothing.
	k.run("backend-api", "b3", contract.VerifySuccess, 2)
	k.run("backend-api", "b3", contract.VerifySuccess, 1)
	k.run("frontend-app", "f4", contract.VerifySuccess, 1)
	k.run("frontend-app", "f4", contract.VerifyFailure, 2)
	k.deploy("frontend-app", "prod", "f1")
	k.deployable("backend-api", "b3", hub.AnswerNo, breaks)
	k.deploy("backend-api", "prod", "b3")
	k.deployable("frontend-app", "f1", hub.AnswerNo, "backend-api has version 2 in prod")
	k.deployable("frontend-app", "f4", hub.AnswerNo, "ended with failure; backend-api has version 2 in prod")
	k.deploy("frontend-app", "prod", "f2")
	k.deploy("backend-api", "prod", "b2")

	k.deployable("frontend-app", "f1", hub.AnswerNo, "backend-api has version 2 in prod")
	k.deployable("frontend-app", "f3", hub.AnswerYes, "")
	k.deploy("frontend-app", "prod", "f3")
	k.deployable("backend-api", "b1", hub.AnswerNo, "version 1 is")
}

// A failure against the version that runs there is a no, although the change to it is compatible.
func TestFailureIsNotRepairedByCompatible(t *testing.T) {
	k := newCrew(t)
	k.use(k.front)
	_, err := k.update(userSchema("name", "avatar", "mail"))
	k.ok(err)
	for _, v := range []int{1, 2} {
		k.run("backend-api", "b2", contract.VerifySuccess, v)
	}
	k.deploy("backend-api", "prod", "b2")
	k.run("frontend-app", "f1", contract.VerifySuccess, 1)
	k.deployable("frontend-app", "f1", hub.AnswerYes, "")
	k.run("frontend-app", "f1", contract.VerifyFailure, 2)
	k.deployable("frontend-app", "f1", hub.AnswerNo, "ended with failure; backend-api has version 2 in prod")

	k.run("frontend-app", "f2", contract.VerifyFailure, 2)
	k.deploy("frontend-app", "prod", "f2")
	k.deployable("backend-api", "b2", hub.AnswerNo, "version 2 is breaking for commit "+short(id("f2")))
}

// A commit whose lock file names a version has that one.
func TestLockFileDecidesVersion(t *testing.T) {
	g := newGatehouse(t)
	_, err := g.hand(operator, "frontend-app", "")
	g.ok(err)
	g.use(g.mobile)
	r, err := g.revise(g.front, userSchema("name"), contract.Direction{})
	g.ok(err)
	_, err = g.respond(g.mobile, r.Contract, contract.ActionAgree, "")
	g.ok(err)
	g.run("mobile-app", "m1", contract.VerifySuccess, 1)
	g.deploy("mobile-app", "prod", "m1")
	one, two := g.ref(1), g.ref(2)
	g.copy.locks[id("a2")] = `{"contracts":[{"name":"User","version":2,"digest":"` + coord.ContentHash(userSchema("name")) + `"}]}`
	g.ran("a2", func(r *hub.CheckResult) { r.Contract = one })
	g.deployable("frontend-app", "a2", hub.AnswerNo, "it was tested against version 1")
	g.ran("a2", func(r *hub.CheckResult) { r.Contract = two })
	g.deployable("frontend-app", "a2", hub.AnswerNo, "version 2 is breaking for commit "+short(id("m1")))
}

// Without a provider each other party has to run a commit that passed for the same version.
func TestDeployWithoutProvider(t *testing.T) {
	d := newDesk(t, nil).begin()
	k := &crew{desk: d, c: d.bring(coord.ContractAgreed)}
	k.gates(k.c)
	k.run("backend-api", "b1", contract.VerifySuccess, 1)
	k.deployable("backend-api", "b1", hub.AnswerNo, "frontend-app is not deployed to prod")
	k.deploy("frontend-app", "prod", "f1")
	k.deployable("backend-api", "b1", hub.AnswerNo, "has no passed run for version 1")
	k.run("frontend-app", "f1", contract.VerifyFailure, 1)
	k.deployable("backend-api", "b1", hub.AnswerNo, "has no passed run for version 1")
	k.run("frontend-app", "f2", contract.VerifySuccess, 1)
	k.deploy("frontend-app", "prod", "f2")
	k.deployable("backend-api", "b1", hub.AnswerYes, "")
}

func TestEnvironments(t *testing.T) {
	k := newCrew(t)
	k.use(k.front)
	in := contract.In(k.project.ID)
	k.run("backend-api", "b1", contract.VerifySuccess, 0)
	for _, env := range []string{"prdo", "Prod", "staging", "prod "} {
		_, err := k.CanDeploy(k.Context(), k.back, contract.Candidate{InProject: in, Repo: "backend-api", Commit: id("b1"), Env: env})
		if hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%q: got %v", env, err)
		}
		_, err = k.Deployed(k.Context(), operator, contract.Release{InProject: in, As: contract.As{Repo: "backend-api"}, Env: env, Commit: id("b1")})
		if hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("deployed to %q: got %v", env, err)
		}
	}

	release := contract.Release{InProject: in, As: contract.As{Repo: "backend-api"}, Env: "prod", Commit: id("b1")}
	for _, who := range []hub.Caller{k.back, k.front, k.ci(coord.PermitEvidence)} {
		_, err := k.Deployed(k.Context(), who, release)
		k.refused(err, hub.CodeDenied, "only the operator and tokens")
	}
	short := release
	short.Commit = "deadbeef"
	_, err := k.Deployed(k.Context(), operator, short)
	k.refused(err, hub.CodeInvalid, "not a full commit id")
	got, err := k.Deployed(k.Context(), k.ci(coord.PermitDeploy), release)
	k.ok(err)
	if got.Verified || got.Source != coord.SourceCI {
		t.Errorf("got %+v", got)
	}
	got, err = k.Deployed(k.Context(), operator, release)
	k.ok(err)
	equal(k.desk, "source", got.Source, coord.SourceHub)

	_, err = k.RemoveEnvironment(k.Context(), k.back, contract.EnvironmentChange{InProject: in, Name: "prod"})
	k.refused(err, hub.CodeConflict, "backend-api is deployed to prod")
	_, err = k.RemoveEnvironment(k.Context(), k.front, contract.EnvironmentChange{InProject: in, Name: "prod", Anyway: true})
	k.refused(err, hub.CodeDenied, "only the owner")
	all, err := k.RemoveEnvironment(k.Context(), k.back, contract.EnvironmentChange{InProject: in, Name: "prod", Anyway: true})
	k.ok(err)
	if len(all.Environments) != 1 || all.Environments[0].Declared {
		t.Errorf("got %+v", all)
	}
	_, err = k.CanDeploy(k.Context(), k.back, contract.Candidate{InProject: in, Repo: "backend-api", Commit: id("b1"), Env: "prod"})
	k.refused(err, hub.CodeInvalid, "no environment named")
}

// A store of before environments were declared: those that CI or the operator used are declared
// once, and those of agents stay unknown.
func TestEnvironmentsOfBefore(t *testing.T) {
	d := newDesk(t, nil).begin()
	back, _ := d.project.RepoNamed("backend-api")
	d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		for env, by := range map[string]string{"prod": "peer:aid://ci.example/ci@1.0.0", "staging": string(hub.Operator), "prdo": "bob"} {
			if _, err := tx.WriteCoordination().AddDeployment(coord.Deployment{Project: d.project.ID, Repo: back.ID, Env: env, Commit: "c1", By: by, At: coord.InstantAt(start)}); err != nil {
				return err
			}
		}
		return nil
	}))
	for i, want := range []string{"prod staging / prdo", " / "} {
		declared, others, err := d.DeclareDeployed(t.Context())
		d.ok(err)
		got := strings.Join(declared[d.project.ID], " ") + " / " + strings.Join(others[d.project.ID], " ")
		equal(d, fmt.Sprint("start ", i), got, want)
	}
	all, err := d.Environments(t.Context(), d.back, contract.In(d.project.ID))
	d.ok(err)
	var names []string
	for _, e := range all.Environments {
		names = append(names, fmt.Sprint(e.Name, " ", e.Declared))
	}
	equal(d, "environments", names, []string{"prod true", "staging true", "prdo false"})
}
