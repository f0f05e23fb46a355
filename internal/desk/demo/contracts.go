package demo

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/server"
)

// Contracts shows two repositories and a breaking change that is stopped: the provider of a
// contract takes a property away that a consumer uses.
func Contracts(ctx context.Context, dir, version string, tell func(actor, text string)) error {
	d := &contractsDemo{taskDemo: taskDemo{script: script{dir: dir, version: version, print: tell}}}
	return d.run(ctx, d.begin, d.agree, d.release, d.ask, d.stop, d.extend, d.audit)
}

type contractsDemo struct {
	taskDemo
	ada, ben, ci *rpc.Client
	tokens       map[string]*rpc.Client // of CI, by repository
	project      coord.ProjectID
	user         coord.ContractID
}

// The versions of the contract.
const (
	userV1 = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object",
	"required":["name","avatar"],"properties":{"name":{"type":"string"},"avatar":{"type":"string"}}}`
	userWithout = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object",
	"required":["name","picture"],"properties":{"name":{"type":"string"},"picture":{"type":"string"}}}`
	userBoth = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object",
	"required":["name","avatar","picture"],"properties":{"name":{"type":"string"},"avatar":{"type":"string"},"picture":{"type":"string"}}}`
)

// in returns the project as part of parameters, and of the contract.
func (d *contractsDemo) in() coordination.InProject {
	return coordination.InProject{Project: d.project}
}
func (d *contractsDemo) of() coordination.InContract {
	return coordination.InContract{InProject: d.in(), Contract: d.user}
}

// begin starts the hub and makes the project with its two repositories.
func (d *contractsDemo) begin(ctx context.Context) {
	d.operator = d.node(ctx, Home, server.Options{NoInboxFiles: true}).client
	d.project = call(ctx, &d.script, d.operator, coordination.CreateProject, coordination.NewProject{
		Name: "Users", Objective: "show who is logged in", Repos: []coordination.NewRepo{
			{Name: "backend-api", Role: "backend", Language: "go"}, {Name: "frontend-app", Role: "frontend", Language: "typescript"},
		},
	}).Project
	d.ada = d.add(ctx, "ada", hub.RoleExecutor)
	d.ben = d.add(ctx, "ben", hub.RoleExecutor)
	call(ctx, &d.script, d.ada, coordination.JoinProject, coordination.JoinParams{InProject: d.in(), Repo: "backend-api"})
	call(ctx, &d.script, d.ben, coordination.JoinProject, coordination.JoinParams{InProject: d.in(), Repo: "frontend-app"})
	d.tell("", "A hub starts. The agent ada works on backend-api, ben on frontend-app.")
}

// agree brings the first version to its agreement, and declares the part that is used.
func (d *contractsDemo) agree(ctx context.Context) {
	d.user = call(ctx, &d.script, d.ada, coordination.Propose, contract.Proposal{
		InProject: d.in(), Type: coord.ContractModel, Name: "User", Content: json.RawMessage(userV1),
		Direction: contract.Direction{Provider: "backend-api", Flow: string(compat.Response)},
	}).Contract
	d.tell("ada", "proposes the contract User, which backend-api provides: a JSON Schema with name and avatar")
	call(ctx, &d.script, d.ben, coordination.Respond, contract.Response{InContract: d.of(), Action: contract.ActionAgree})
	call(ctx, &d.script, d.ben, coordination.Use, contract.Declaration{InContract: d.of(), Parts: []string{"User.avatar"}})
	d.tell("ben", "agrees, and declares that frontend-app uses User.avatar")
}

// release lets CI test both repositories and deploy the provider.
func (d *contractsDemo) release(ctx context.Context) {
	d.tokens = map[string]*rpc.Client{}
	for _, repo := range []string{"frontend-app", "backend-api"} {
		token := call(ctx, &d.script, d.operator, coordination.MintToken, coordination.TokenParams{
			InProject: d.in(), Agent: "aid://ci.example/ci@1.0.0", Permissions: []coord.Permission{coord.PermitRead, coord.PermitEvidence, coord.PermitDeploy},
			Repo: repo, Checks: []string{contractTests}, Branch: "main",
		})
		if d.err != nil {
			return
		}
		d.tokens[repo] = d.operator.As(token.Token, "ci-session")
		call(ctx, &d.script, d.operator, coordination.Test, contract.TestChange{InContract: d.of(), Repo: repo, Check: contractTests})
	}
	d.ci = d.tokens["backend-api"]
	call(ctx, &d.script, d.operator, coordination.AddEnvironment, contract.EnvironmentChange{InProject: d.in(), Name: "prod"})
	d.test(ctx, "backend-api", "b1")
	d.test(ctx, "frontend-app", "f1")
	call(ctx, &d.script, d.ci, coordination.Deployed, contract.Release{InProject: d.in(), As: contract.As{Repo: "backend-api"}, Env: "prod", Commit: commitID("b1")})
	d.tell("", "CI has a token for each repository, which may send results of contract-tests. It tests backend-api at b1 and frontend-app at f1; b1 goes to prod.")
}

// contractTests is the check that is the test of the contract in both repositories.
const contractTests = "contract-tests"

// commitID returns the full id of a commit of the demo.
func commitID(short string) string { return short + strings.Repeat("0", 40-len(short)) }

// test sends the result of a test that passed on a commit.
func (d *contractsDemo) test(ctx context.Context, repo, commit string) {
	call(ctx, &d.script, d.tokens[repo], coordination.VerifyWork, contract.Verification{
		InContract: d.of(), As: contract.As{Repo: repo}, Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: commitID(commit), Check: contractTests},
	})
}

// ask lets the provider ask who breaks, before it changes anything.
func (d *contractsDemo) ask(ctx context.Context) {
	got := call(ctx, &d.script, d.ada, coordination.DiffContract, contract.DiffQuery{InContract: d.of(), Content: json.RawMessage(userWithout)})
	d.tell("ada", "wants to rename avatar to picture, and asks first: parley contract diff User --content @user.json")
	if d.err != nil {
		return
	}
	for _, c := range got.Consumers {
		d.tell("", "           %s: %s", c.Repository, c.Verdict)
		if c.Verdict != compat.Breaking || len(c.Findings) == 0 {
			d.failf("the change is %s for %s, want breaking", c.Verdict, c.Repository)
			return
		}
		f := got.Findings[c.Findings[0]]
		d.tell("", "           %s at %s: %s", f.Rule, f.Pointer, f.Text)
		if f.Example == nil {
			d.failf("the finding has no example")
			return
		}
		d.tell("", "           the new version gives %s, which the old one refuses: %s", f.Example.Document, f.Example.Reason)
	}
}

// stop lets the provider update the contract nevertheless, and shows that it cannot merge.
func (d *contractsDemo) stop(ctx context.Context) {
	got := call(ctx, &d.script, d.ada, coordination.Update, contract.Revision{InContract: d.of(), Content: json.RawMessage(userWithout)})
	d.tell("ada", "updates the contract nevertheless:")
	if d.err == nil && (len(got.PendingRepos) != 1 || got.Status != coord.ContractProposed) {
		d.failf("the breaking update does not wait: %+v", got)
		return
	}
	if d.err == nil {
		d.tell("", "           version %d is %s: %s compared with version %d, still to agree: %s", got.Version, got.Status, got.Verdict, got.Base.Version, got.PendingRepos[0])
	}
	call(ctx, &d.script, d.ci, coordination.VerifyWork, contract.Verification{
		InContract: d.of(), As: contract.As{Repo: "backend-api"}, Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: commitID("b2"), Check: contractTests, Against: got.Version},
	})
	d.tell("", "CI tests the branch at b2 against version 2, and it passes. May it be merged? parley contract can-merge --repo backend-api --commit b2")
	d.merge(ctx, "b2", hub.AnswerNo)
}

// merge asks whether a commit of the provider may be merged, and tells the answer.
func (d *contractsDemo) merge(ctx context.Context, commit, want string) {
	got := call(ctx, &d.script, d.ci, coordination.CanMerge, coordination.ReadyParams{Candidate: contract.Candidate{InProject: d.in(), Repo: "backend-api", Commit: commitID(commit)}})
	if d.err != nil {
		return
	}
	if got.Answer != want {
		d.failf("can-merge says %s for %s, want %s: %+v", got.Answer, commit, want, got.Reasons)
		return
	}
	d.tell("", "           %s", got.Answer)
	for _, r := range got.Reasons {
		d.tell("", "           %s: %s", r.Contract, r.Reason)
		d.tell("", "           %s: %s", r.Who, r.Next)
	}
}

// audit lets the hub compare its records with the journal.
func (d *contractsDemo) audit(ctx context.Context) {
	if got := call(ctx, &d.script, d.operator, api.Verify, api.VerifyParams{}); !got.Clean() {
		d.failf("the records are inconsistent: %v", got.Findings)
	}
	d.tell("", "Every step is in the hub's journal, which parley hub verify compares with the records.")
}

// extend lets the provider make the change without breaking anybody.
func (d *contractsDemo) extend(ctx context.Context) {
	got := call(ctx, &d.script, d.ada, coordination.Update, contract.Revision{InContract: d.of(), Content: json.RawMessage(userBoth)})
	d.tell("ada", "keeps avatar, and adds picture beside it:")
	if d.err == nil {
		d.tell("", "           version %d is %s: %s compared with version %d", got.Version, got.Status, got.Verdict, got.Base.Version)
	}
	d.test(ctx, "backend-api", "b3")
	d.tell("", "CI tests b3 against version 3. May it be merged?")
	d.merge(ctx, "b3", hub.AnswerYes)
	d.tell("", "frontend-app was not touched, and still works.")
}
