package contract_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
)

// id returns a commit id that a name stands for.
func id(name string) string {
	sum := sha1.Sum([]byte(name))
	return hex.EncodeToString(sum[:])
}

// ci returns the holder of a project token with some permissions.
func (k *crew) ci(permissions ...coord.Permission) hub.Caller {
	return hub.Caller{Kind: hub.CallerToken, ID: "peer:ci", AID: "aid://example.com/ci@1.0.0", Scope: []coord.Grant{{Project: k.project.ID, Permissions: permissions}}}
}

// bound returns the holder of a token for the results of checks of a repository.
func (k *crew) bound(b coord.EvidenceBounds) hub.Caller {
	caller := k.ci(coord.PermitEvidence)
	caller.Scope[0].Evidence = &b
	return caller
}

// contractTests is the check that is the test of the crew's contract in every repository.
const contractTests = "contract-tests"

// gates names the tests of a contract in all repositories, and declares prod.
func (k *crew) gates(c coord.Contract) {
	k.Helper()
	for _, r := range k.project.Repos {
		repo := r.Name
		k.ok(k.store.Update(k.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			return tx.AddToken(hub.Token{
				ID: repo + " " + string(c.ID), Agent: "aid://example.com/ci@1.0.0", Project: k.project.ID, Permissions: []coord.Permission{coord.PermitEvidence}, By: hub.Operator,
				CreatedAt: hub.At(start), ExpiresAt: hub.At(start.Add(1000 * time.Hour)), Evidence: &coord.EvidenceBounds{Repo: repo, Checks: []string{contractTests, "lint"}, Branch: "main"},
			})
		}))
		_, err := k.Test(k.Context(), k.back, contract.TestChange{InContract: contract.Of(k.project.ID, c.ID), Repo: repo, Check: contractTests})
		k.ok(err)
	}
	_, err := k.AddEnvironment(k.Context(), k.back, contract.EnvironmentChange{InProject: contract.In(k.project.ID), Name: "prod"})
	k.ok(err)
}

// run records a run of CI for the target branch of a repository at a commit.
func (k *crew) run(repo, commit, result string, version int) contract.Result {
	k.Helper()
	r, err := k.send(coord.EvidenceBounds{Repo: repo, Checks: []string{contractTests}, Branch: "main"}, commit, contractTests, result, version)
	k.ok(err)
	return r
}

// send sends a result with a token of some bounds.
func (k *crew) send(b coord.EvidenceBounds, commit, check, result string, version int) (contract.Result, error) {
	k.Helper()
	return k.Verify(k.Context(), k.bound(b), contract.Verification{
		InContract: contract.Of(k.project.ID, k.c.ID), As: contract.As{Repo: b.Repo}, Result: result, Evidence: contract.Evidence{Commit: id(commit), Check: check, Against: version},
	})
}

// deploy records a deployment of CI.
func (k *crew) deploy(repo, env, commit string) {
	k.Helper()
	_, err := k.Deployed(k.Context(), k.ci(coord.PermitDeploy), contract.Release{InProject: contract.In(k.project.ID), As: contract.As{Repo: repo}, Env: env, Commit: id(commit)})
	k.ok(err)
}

// merge asks whether a commit may be merged, and checks the answer and the first reason.
func (k *crew) merge(repo, commit, answer, reason string) contract.Readiness {
	k.Helper()
	got, err := k.CanMerge(k.Context(), k.back, contract.Candidate{InProject: contract.In(k.project.ID), Repo: repo, Commit: id(commit)})
	k.ok(err)
	k.answered(got, answer, reason)
	return got
}

// deployable asks whether a commit may be deployed to prod.
func (k *crew) deployable(repo, commit, answer, reason string) {
	k.Helper()
	got, err := k.CanDeploy(k.Context(), k.back, contract.Candidate{InProject: contract.In(k.project.ID), Repo: repo, Commit: id(commit), Env: "prod"})
	k.ok(err)
	k.answered(got, answer, reason)
}

// answered checks an answer and the first reason.
func (k *crew) answered(got contract.Readiness, answer, reason string) {
	k.Helper()
	first := ""
	if len(got.Reasons) > 0 {
		first = got.Reasons[0].Reason
		if got.Reasons[0].Who == "" || got.Reasons[0].Next == "" {
			k.Errorf("nobody is to do anything: %+v", got.Reasons[0])
		}
	}
	if len(got.Missing) != len(got.Reasons) {
		k.Errorf("missing and reasons differ: %+v", got)
	}
	if got.Answer != answer || !strings.Contains(first, reason) || (answer == hub.AnswerYes) != (len(got.Reasons) == 0) {
		k.Errorf("got %+v, want %s with %q", got, answer, reason)
	}
}

func TestCanMerge(t *testing.T) {
	t.Run("yes comes from a run on that commit alone", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		k.merge("frontend-app", "c1", hub.AnswerNo, "no test was run")
		said, err := k.Verify(k.Context(), k.front, contract.Verification{InContract: contract.Of(k.project.ID, k.c.ID), Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("c1"), Check: "unit"}})
		k.ok(err)
		equal(k.desk, "kind", said.Recorded.Kind, coord.ResultSaid)
		k.merge("frontend-app", "c1", hub.AnswerNo, "said, not run")
		got := k.run("frontend-app", "c1", contract.VerifySuccess, 0)
		equal(k.desk, "kind", got.Recorded.Kind, coord.ResultRun)
		k.merge("frontend-app", "c1", hub.AnswerYes, "")
		k.merge("frontend-app", "c2", hub.AnswerNo, "no test was run")
		k.run("frontend-app", "c1", contract.VerifyFailure, 0)
		k.merge("frontend-app", "c1", hub.AnswerNo, "ended with failure")
		equal(k.desk, "last entry", k.journal()[len(k.journal())-1], actions.ResultRecorded)
	})
	t.Run("a provider waits for the consumers that a breaking change concerns", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.name")
		k.use(k.mobile, "User.avatar")
		k.run("backend-api", "b1", contract.VerifySuccess, 0)
		k.merge("backend-api", "b1", hub.AnswerYes, "")
		r, err := k.update(userSchema("name"))
		k.ok(err)
		k.run("backend-api", "b2", contract.VerifySuccess, 2)
		k.merge("backend-api", "b2", hub.AnswerNo, "version 2, which is not agreed yet: waiting for mobile-app")
		_, err = k.respond(k.mobile, r.Contract, contract.ActionAgree, "")
		k.ok(err)
		got := k.merge("backend-api", "b2", hub.AnswerNo, "breaking for mobile-app")
		equal(k.desk, "reasons", len(got.Reasons), 1)
		equal(k.desk, "who", got.Reasons[0].Who, "operator")
		k.run("mobile-app", "m1", contract.VerifySuccess, 2)
		k.merge("backend-api", "b2", hub.AnswerYes, "")
		k.merge("backend-api", "b1", hub.AnswerNo, "version 1, and version 2 is in force")
	})
	t.Run("a consumer that came after the release is pending: it is named and does not block", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		k.run("backend-api", "b1", contract.VerifySuccess, 0)
		k.deploy("backend-api", "prod", "b1")
		k.use(k.mobile)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		for _, who := range []hub.Caller{k.front, k.mobile} {
			_, err = k.respond(who, r.Contract, contract.ActionAgree, "")
			k.ok(err)
		}
		k.run("backend-api", "b2", contract.VerifySuccess, 2)
		k.merge("backend-api", "b2", hub.AnswerNo, "breaking for frontend-app")
		k.run("frontend-app", "f2", contract.VerifySuccess, 2)
		got := k.merge("backend-api", "b2", hub.AnswerYes, "")
		if len(got.Notes) != 1 || !strings.Contains(got.Notes[0].Reason, "pending") || got.Notes[0].Who != "operator" {
			t.Errorf("notes: %+v", got.Notes)
		}
	})
	t.Run("a contract that is not agreed, and a repository without contracts", func(t *testing.T) {
		k := newCrew(t)
		k.merge("mobile-app", "m1", hub.AnswerNo, "no contract of mobile-app is known here")
		d := newDesk(t, nil).begin()
		c := d.propose()
		got, err := d.CanMerge(d.Context(), d.back, contract.Candidate{InProject: contract.In(c.Project), Repo: "frontend-app", Commit: id("c1")})
		d.ok(err)
		equal(d, "reason", got.Reasons[0].Reason, "it is not agreed yet: waiting for frontend-app")
		_, err = d.CanMerge(d.Context(), d.back, contract.Candidate{InProject: contract.In(c.Project), Repo: "nobody", Commit: id("c1")})
		d.refused(err, hub.CodeInvalid, "no repository named \"nobody\"")
	})
	t.Run("a report with a commit also moves the contract, where its status allows that", func(t *testing.T) {
		k := newCrew(t)
		for _, who := range []hub.Caller{k.back, k.front, k.mobile} {
			w := k.work(k.c)
			_, err := k.Start(k.Context(), who, w)
			k.ok(err)
			w.Files = []string{}
			w.Commit = id("c1")
			r, err := k.Complete(k.Context(), who, w)
			k.ok(err)
			equal(k.desk, "result", r.Recorded.Result, contract.VerifySuccess)
		}
		r, err := k.Verify(k.Context(), k.front, contract.Verification{InContract: contract.Of(k.project.ID, k.c.ID), Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("c1")}})
		k.ok(err)
		equal(k.desk, "status", r.Contract.Status, coord.ContractVerified)
		r, err = k.Verify(k.Context(), k.front, contract.Verification{InContract: contract.Of(k.project.ID, k.c.ID), Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: id("c2")}})
		k.ok(err)
		equal(k.desk, "outcome", r.Outcome, "recorded")
		r = k.run("mobile-app", "c3", contract.VerifyFailure, 0)
		equal(k.desk, "status", r.Contract.Status, coord.ContractVerified)
	})
}

func TestCanDeploy(t *testing.T) {
	k := newCrew(t)
	k.use(k.front, "User.name")
	k.use(k.mobile, "User.avatar")
	k.run("backend-api", "b1", contract.VerifySuccess, 0)
	k.run("frontend-app", "f1", contract.VerifySuccess, 0)
	k.run("mobile-app", "m1", contract.VerifySuccess, 0)
	k.deployable("frontend-app", "f1", hub.AnswerNo, "backend-api is not deployed to prod")
	k.deployable("backend-api", "b1", hub.AnswerNo, "frontend-app or mobile-app is not deployed to prod")
	k.deploy("backend-api", "prod", "b1")
	k.deployable("frontend-app", "f1", hub.AnswerYes, "")
	k.deploy("frontend-app", "prod", "f1")
	k.deploy("mobile-app", "prod", "m1")

	// Version 2 breaks the deployed commit of the mobile app and fits that of the frontend.
	r, err := k.update(userSchema("name"))
	k.ok(err)
	_, err = k.respond(k.mobile, r.Contract, contract.ActionAgree, "")
	k.ok(err)
	k.run("backend-api", "b2", contract.VerifySuccess, 0)
	k.deployable("backend-api", "b2", hub.AnswerNo, "breaking for commit "+id("m1")[:12]+" of mobile-app")
	k.run("mobile-app", "m2", contract.VerifySuccess, 0)
	k.deploy("mobile-app", "prod", "m2")
	k.deployable("backend-api", "b2", hub.AnswerYes, "")

	// A consumer that was tested against version 2 fits version 1, which has more.
	k.deployable("mobile-app", "m2", hub.AnswerYes, "")
	_, err = k.CanDeploy(k.Context(), k.back, contract.Candidate{InProject: contract.In(k.project.ID), Repo: "mobile-app", Commit: id("m2")})
	k.refused(err, hub.CodeInvalid, "env")

	// A token needs the permission of its own.
	_, err = k.Deployed(k.Context(), k.ci(coord.PermitEvidence), contract.Release{InProject: contract.In(k.project.ID), As: contract.As{Repo: "mobile-app"}, Env: "prod", Commit: id("m2")})
	if err == nil {
		t.Error("a token without the permission deploy recorded a deployment")
	}
}

// short shortens a commit id.
func short(commit string) string { return commit[:min(len(commit), 12)] }

func TestMatrix(t *testing.T) {
	k := newCrew(t)
	k.use(k.front, "User.name")
	k.use(k.mobile, "User.avatar")
	k.run("frontend-app", "f1", contract.VerifySuccess, 0)
	k.run("mobile-app", "m1", contract.VerifyFailure, 0)
	k.deploy("frontend-app", "prod", "f1")
	r, err := k.update(userSchema("name"))
	k.ok(err)
	_, err = k.respond(k.mobile, r.Contract, contract.ActionAgree, "")
	k.ok(err)

	got, err := k.Matrix(k.Context(), k.back, contract.MatrixQuery{InProject: contract.In(k.project.ID)})
	k.ok(err)
	var rows []string
	for _, r := range got.Rows {
		rows = append(rows, fmt.Sprintf("%s %s %d %s %s %s %s", r.Repository, r.Role, r.Version, short(r.Commit), r.Kind, r.Result, r.Verdict))
	}
	equal(k.desk, "rows", rows, []string{
		"backend-api provider 0    unknown", "frontend-app consumer 1 " + short(id("f1")) + " run success compatible", "mobile-app consumer 1 " + short(id("m1")) + " run failure breaking",
	})

	got, err = k.Matrix(k.Context(), k.back, contract.MatrixQuery{InProject: contract.In(k.project.ID), Env: "prod"})
	k.ok(err)
	if len(got.Rows) != 1 || got.Rows[0].Repository != "frontend-app" || got.Rows[0].Verdict != compat.Compatible {
		t.Errorf("prod: %+v", got.Rows)
	}

	// The pages together have every contract once.
	for range 4 {
		k.clock.add(time.Second)
		k.provide("More", userSchema("name"))
	}
	seen := map[coord.ContractID]bool{}
	q := contract.MatrixQuery{InProject: contract.In(k.project.ID), Limit: 2}
	for more := true; more; {
		got, err := k.Matrix(k.Context(), k.back, q)
		k.ok(err)
		for _, r := range got.Rows {
			seen[r.ID] = true
		}
		q.After = got.Next
		more = got.Next != ""
	}
	equal(k.desk, "contracts", len(seen), 5)
}
