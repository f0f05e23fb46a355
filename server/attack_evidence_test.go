package server_test

import (
	"context"
	"strings"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A shopOfCI is a project whose repositories are tested by CI alone: alice's agent claimed ciapi, the
// provider, mallory's claimed ciweb, its consumer, and bob's claimed cimob, which takes no part.
type shopOfCI struct {
	*scene
	in coordination.InProject
	of contract.InContract
	ci map[string]*rpc.Client // tokens for the results of the target branch, by repository; deploy: for deployments

	operator, alice, bob, mallory *rpc.Client
}

// commitNamed returns a full commit id that begins with a name in hexadecimal digits.
func commitNamed(name string) string { return name + strings.Repeat("0", 40-len(name)) }

// schemaOf returns a contract that requires some properties.
func schemaOf(names ...string) []byte {
	var described []string
	for _, name := range names {
		described = append(described, `"`+name+`":{"type":"string"}`)
	}
	return []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["` + strings.Join(names, `","`) + `"],"properties":{` + strings.Join(described, ",") + `}}`)
}

// newShopOfCI returns a shop with version 1 of the contract User on both sides in prod: a1 and c1.
func (s *scene) newShopOfCI() *shopOfCI {
	ctx := s.t.Context()
	k := &shopOfCI{scene: s, ci: map[string]*rpc.Client{}, operator: s.as(s.operator), alice: s.as(s.alice), bob: s.as(s.bob), mallory: s.as(s.mallory)}
	k.in = coordination.InProject{Project: must(rpc.Call(ctx, k.operator, coordination.CreateProject, coordination.NewProject{Name: "ci", Objective: "sell", Repos: []coordination.NewRepo{
		{Name: "ciapi", Role: "backend", Language: "go"}, {Name: "ciweb", Role: "frontend", Language: "ts"}, {Name: "cimob", Role: "mobile", Language: "ts"},
	}}))(s.t).Project}
	for repo, who := range map[string]*rpc.Client{"ciapi": k.alice, "ciweb": k.mallory, "cimob": k.bob} {
		must(rpc.Call(ctx, who, coordination.JoinProject, coordination.JoinParams{InProject: k.in, Repo: repo}))(s.t)
	}
	k.of = k.propose("User", "ciapi")
	must(rpc.Call(ctx, k.mallory, coordination.Use, contract.Declaration{InContract: k.of}))(s.t)
	for _, repo := range []string{"ciapi", "ciweb"} {
		k.ci[repo] = k.token(repo, "main", "tests", "lint")
		must(rpc.Call(ctx, k.operator, coordination.Test, contract.TestChange{InContract: k.of, Repo: repo, Check: "tests"}))(s.t)
	}
	deploy := coordination.TokenParams{InProject: k.in, Agent: "aid://ci.example/ci@1.0.0", Permissions: []coord.Permission{coord.PermitRead, coord.PermitDeploy}}
	k.ci["deploy"] = k.operator.As(must(rpc.Call(ctx, k.operator, coordination.MintToken, deploy))(s.t).Token, "")
	for _, env := range []string{"prod", "staging"} {
		must(rpc.Call(ctx, k.operator, coordination.AddEnvironment, contract.EnvironmentChange{InProject: k.in, Name: env}))(s.t)
	}
	k.sent("ciapi", "a1", "tests", contract.VerifySuccess, 1)
	k.sent("ciweb", "c1", "tests", contract.VerifySuccess, 1)
	k.deployed("ciapi", "prod", "a1")
	k.deployed("ciweb", "prod", "c1")
	return k
}

// propose makes a contract with a provider, or without one, that ciweb agrees to.
func (k *shopOfCI) propose(name, provider string) contract.InContract {
	ctx := k.t.Context()
	p := contract.Proposal{InProject: k.in, Type: coord.ContractModel, Name: name, Content: schemaOf("name", "avatar")}
	if provider != "" {
		p.Direction = contract.Direction{Provider: provider, Flow: "response"}
	}
	made := must(rpc.Call(ctx, k.alice, coordination.Propose, p))(k.t)
	of := contract.Of(k.in.Project, made.Contract)
	must(rpc.Call(ctx, k.mallory, coordination.Respond, contract.Response{InContract: of, Action: contract.ActionAgree}))(k.t)
	return of
}

// token returns a client with a token of CI for a repository, a branch and checks.
func (k *shopOfCI) token(repo, branch string, checks ...string) *rpc.Client {
	p := coordination.TokenParams{InProject: k.in, Agent: "aid://ci.example/ci@1.0.0", Permissions: []coord.Permission{coord.PermitRead, coord.PermitEvidence}, Repo: repo, Branch: branch, Checks: checks}
	return k.operator.As(must(rpc.Call(k.t.Context(), k.operator, coordination.MintToken, p))(k.t).Token, "")
}

// send sends the result of a check on a commit with a token.
func (k *shopOfCI) send(by *rpc.Client, of contract.InContract, repo, commit, check, result string, version int) error {
	_, err := rpc.Call(k.t.Context(), by, coordination.VerifyWork, contract.Verification{
		InContract: of, As: contract.As{Repo: repo}, Result: result, Evidence: contract.Evidence{Commit: commitNamed(commit), Check: check, Against: version},
	})
	return err
}

// sent is send with the repository's own token of CI about the contract User.
func (k *shopOfCI) sent(repo, commit, check, result string, version int) {
	k.t.Helper()
	if err := k.send(k.ci[repo], k.of, repo, commit, check, result, version); err != nil {
		k.t.Fatal(err)
	}
}

func (k *shopOfCI) deployed(repo, env, commit string) {
	k.t.Helper()
	must(rpc.Call(k.t.Context(), k.ci["deploy"], coordination.Deployed, contract.Release{InProject: k.in, As: contract.As{Repo: repo}, Env: env, Commit: commitNamed(commit)}))(k.t)
}

// asks asks as mallory whether a commit may be merged or, with an environment, deployed.
func (k *shopOfCI) asks(repo, commit, env string) contract.Readiness {
	k.t.Helper()
	p := coordination.ReadyParams{Candidate: contract.Candidate{InProject: k.in, Repo: repo, Commit: commitNamed(commit), Env: env}}
	if env == "" {
		return must(rpc.Call(k.t.Context(), k.mallory, coordination.CanMerge, p))(k.t)
	}
	return must(rpc.Call(k.t.Context(), k.mallory, coordination.CanDeploy, p))(k.t)
}

// closed is a try that a commit may not be merged or deployed.
func (k *shopOfCI) closed(what, repo, commit, env string) {
	k.t.Helper()
	answer := k.asks(repo, commit, env)
	k.try(answer.OK(), "%s: %s %s to %q is a yes: %+v", what, repo, commit, env, answer)
}

// open fails unless a commit may be merged or deployed: a gate that is always closed proves nothing.
func (k *shopOfCI) open(repo, commit, env string) {
	k.t.Helper()
	if answer := k.asks(repo, commit, env); !answer.OK() {
		k.t.Errorf("%s %s to %q: %+v", repo, commit, env, answer)
	}
}

// evidenceOfCI tries to pass the gates with evidence of another name, version, commit or environment.
func (s *scene) evidenceOfCI() {
	ctx := s.t.Context()
	k := s.newShopOfCI()
	k.open("ciweb", "c1", "prod")
	k.open("ciweb", "c1", "")

	// Another check, and tokens for another repository, check or project.
	k.sent("ciweb", "c2", "tests", contract.VerifyFailure, 1)
	k.sent("ciweb", "c2", "lint", contract.VerifySuccess, 1)
	for _, by := range []*rpc.Client{k.ci["ciapi"], k.ci["deploy"], k.token("ciweb", "main", "lint")} {
		err := k.send(by, k.of, "ciweb", "c2", "tests", contract.VerifySuccess, 1)
		s.try(err == nil, "a result outside of the bounds of a token was taken")
	}
	for _, env := range []string{"", "prod"} {
		k.closed("a green lint beside a failed test", "ciweb", "c2", env)
	}

	// A third repository changes the provider, and a breaking version is agreed by its old number.
	got, err := rpc.Call(ctx, k.bob, coordination.Provide, contract.ProviderChange{InContract: k.of, Provider: "cimob"})
	s.try(err == nil && got.Provider != "ciapi", "a third repository provides the contract: %+v", got)
	must(rpc.Call(ctx, k.alice, coordination.Update, contract.Revision{InContract: k.of, Content: schemaOf("name", "picture")}))(s.t)
	_, err = rpc.Call(ctx, k.mallory, coordination.Respond, contract.Response{InContract: k.of, Action: contract.ActionAgree, Version: 1})
	s.try(err == nil, "version 1 was agreed to while version 2 is the newest")
	k.sent("ciapi", "a2", "tests", contract.VerifySuccess, 2)
	k.closed("a version that is not agreed", "ciapi", "a2", "prod")
	must(rpc.Call(ctx, k.mallory, coordination.Respond, contract.Response{InContract: k.of, Action: contract.ActionAgree, Version: 2}))(s.t)

	// The provider's breaking change: a run for the old version, a release to another environment, a
	// throwaway branch of the consumer, and its old result for the new version.
	if err := k.send(k.token("ciapi", "", "tests"), k.of, "ciapi", "a3", "tests", contract.VerifySuccess, 2); err != nil {
		s.t.Fatal(err)
	}
	k.closed("a breaking change", "ciapi", "a3", "prod")
	k.sent("ciapi", "a3", "tests", contract.VerifySuccess, 1)
	k.closed("a breaking change with a run for the old version", "ciapi", "a3", "prod")
	k.deployed("ciapi", "staging", "a3")
	k.closed("a breaking change that is in staging", "ciapi", "a3", "")
	if err := k.send(k.token("ciweb", "", "tests"), k.of, "ciweb", "c9", "tests", contract.VerifySuccess, 2); err != nil {
		s.t.Fatal(err)
	}
	k.closed("a throwaway branch of the consumer", "ciapi", "a3", "")
	if err := k.send(k.mallory, k.of, "ciweb", "c1", "tests", contract.VerifySuccess, 2); err != nil { // taken as said
		s.t.Fatal(err)
	}
	k.closed("an old result that is reported for version 2", "ciweb", "c1", "")
	k.sent("ciweb", "c3", "tests", contract.VerifySuccess, 2)
	k.open("ciapi", "a3", "")
	k.deployed("ciweb", "prod", "c3")
	k.open("ciapi", "a3", "prod")

	// A failure against the version that runs there.
	k.deployed("ciapi", "prod", "a3")
	must(rpc.Call(ctx, k.alice, coordination.Update, contract.Revision{InContract: k.of, Content: schemaOf("name", "picture", "mail")}))(s.t)
	k.sent("ciapi", "a4", "tests", contract.VerifySuccess, 3)
	k.deployed("ciapi", "prod", "a4")
	k.open("ciweb", "c3", "prod")
	k.sent("ciweb", "c3", "tests", contract.VerifyFailure, 3)
	k.closed("a failure against what runs there", "ciweb", "c3", "prod")

	// A contract without a provider, whose other side does not run.
	k.without(ctx)
}

// without tries the gates with a contract that has no provider, and with one that was withdrawn.
func (k *shopOfCI) without(ctx context.Context) {
	all := k.in
	k.in = coordination.InProject{Project: must(rpc.Call(ctx, k.operator, coordination.CreateProject, coordination.NewProject{Name: "plain", Objective: "sell", Repos: []coordination.NewRepo{
		{Name: "ciapi", Role: "backend", Language: "go"}, {Name: "ciweb", Role: "frontend", Language: "ts"},
	}}))(k.t).Project}
	defer func() { k.in = all }()
	must(rpc.Call(ctx, k.alice, coordination.JoinProject, coordination.JoinParams{InProject: k.in, Repo: "ciapi"}))(k.t)
	must(rpc.Call(ctx, k.mallory, coordination.JoinProject, coordination.JoinParams{InProject: k.in, Repo: "ciweb"}))(k.t)
	must(rpc.Call(ctx, k.operator, coordination.AddEnvironment, contract.EnvironmentChange{InProject: k.in, Name: "prod"}))(k.t)
	of := k.propose("Both", "")
	ci := k.token("ciweb", "main", "tests")
	must(rpc.Call(ctx, k.operator, coordination.Test, contract.TestChange{InContract: of, Repo: "ciweb", Check: "tests"}))(k.t)
	if err := k.send(ci, of, "ciweb", "c1", "tests", contract.VerifySuccess, 1); err != nil {
		k.t.Fatal(err)
	}
	k.closed("the other party does not run there", "ciweb", "c1", "prod")
	k.deployedIn("ciapi", "a1")
	k.closed("the other party was never tested", "ciweb", "c1", "prod")

	// A withdrawn contract is no evidence, and is not used again.
	gone := k.propose("Gone", "ciapi")
	must(rpc.Call(ctx, k.alice, coordination.Withdraw, contract.Announcement{InContract: gone, Anyway: true}))(k.t)
	_, err := rpc.Call(ctx, k.mallory, coordination.Use, contract.Declaration{InContract: gone})
	k.try(err == nil, "a withdrawn contract is used")
	_, err = rpc.Call(ctx, k.alice, coordination.Update, contract.Revision{InContract: gone, Content: schemaOf("name")})
	k.try(err == nil, "a withdrawn contract is updated")
	_, err = rpc.Call(ctx, k.mallory, coordination.StartWork, contract.Work{InContract: gone})
	k.try(err == nil, "work on a withdrawn contract is started")
	must(rpc.Call(ctx, k.alice, coordination.Withdraw, contract.Announcement{InContract: of, Anyway: true}))(k.t)
	for _, env := range []string{"", "prod"} {
		k.closed("a withdrawn contract alone", "ciapi", "a1", env)
	}
}

// deployedIn records a deployment to prod as the operator.
func (k *shopOfCI) deployedIn(repo, commit string) {
	k.t.Helper()
	must(rpc.Call(k.t.Context(), k.operator, coordination.Deployed, contract.Release{InProject: k.in, As: contract.As{Repo: repo}, Env: "prod", Commit: commitNamed(commit)}))(k.t)
}
