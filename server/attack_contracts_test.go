package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

// contracts tries to talk the gates of contracts round, as the agent of a consumer: mallory makes
// itself the provider, lends the evidence of one commit to another, and lies about deployments.
func (s *scene) contracts() {
	ctx := s.t.Context()
	operator, alice, mallory := s.as(s.operator), s.as(s.alice), s.as(s.mallory)
	in := coordination.InProject{Project: must(rpc.Call(ctx, operator, coordination.CreateProject, coordination.NewProject{
		Name: "shop", Objective: "sell", Repos: []coordination.NewRepo{{Name: "api", Role: "backend", Language: "go"}, {Name: "web", Role: "frontend", Language: "ts"}},
	}))(s.t).Project}
	must(rpc.Call(ctx, alice, coordination.JoinProject, coordination.JoinParams{InProject: in, Repo: "api"}))(s.t)
	must(rpc.Call(ctx, mallory, coordination.JoinProject, coordination.JoinParams{InProject: in, Repo: "web"}))(s.t)
	const user = `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`
	made := must(rpc.Call(ctx, alice, coordination.Propose, contract.Proposal{
		InProject: in, Type: coord.ContractModel, Name: "User", Content: []byte(user), Direction: contract.Direction{Provider: "api", Flow: "response"},
	}))(s.t)
	of := contract.Of(in.Project, made.Contract)
	must(rpc.Call(ctx, mallory, coordination.Respond, contract.Response{InContract: of, Action: contract.ActionAgree}))(s.t)
	must(rpc.Call(ctx, mallory, coordination.Use, contract.Declaration{InContract: of}))(s.t)
	must(rpc.Call(ctx, operator, coordination.AddEnvironment, contract.EnvironmentChange{InProject: in, Name: "prod"}))(s.t)

	// A consumer that changes the contract of another repository.
	for _, d := range []contract.Direction{{Provider: "web"}, {Provider: "."}, {Flow: "request"}, {Flow: "both"}, {Format: "custom"}} {
		_, err := rpc.Call(ctx, mallory, coordination.Update, contract.Revision{InContract: of, Content: []byte(`{"anything":true}`), Direction: d})
		s.try(err == nil, "an update of a consumer with %+v was taken", d)
	}
	got, err := rpc.Call(ctx, mallory, coordination.Provide, contract.ProviderChange{InContract: of, Provider: "web"})
	s.try(err != nil || got.Provider != "api", "a consumer provides the contract by its own word: %+v %v", got, err)

	// The repository web: one good commit that was checked, and a bad one that nobody checked.
	good, bad := s.commits()
	must(rpc.Call(ctx, operator, api.AddCheck, api.AddCheckParams{RepositoryParams: api.RepositoryParams{Repository: s.web()}, Name: "test", Command: []string{"sh", "-c", "test ! -e bad"}, Required: true, Unconfined: true}))(s.t)
	wait := 60
	ran := must(rpc.Call(ctx, operator, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: s.web()}, Name: "test"}, Commit: good, Wait: &wait}))(s.t)
	if ran.Result.State != hub.ResultPassed {
		s.t.Fatalf("the check of the good commit: %+v", ran.Result)
	}
	for _, commit := range []string{bad, strings.Repeat("f", 40)} {
		for _, tree := range []string{ran.Result.Tree, ""} {
			s.call(s.t, s.mallory, "cacp/implementation/verify", fmt.Sprintf(`{"projectId":%q,"contractId":%q,"result":"success","commit":%q,"tree":%q,"check":"test"}`, in.Project, made.Contract, commit, tree))
			var answer contract.Readiness
			raw := s.call(s.t, s.mallory, "parley/contract/canMerge", fmt.Sprintf(`{"projectId":%q,"repoName":"web","commit":%q,"tree":%q}`, in.Project, commit, tree)).Result
			s.try(json.Unmarshal(raw, &answer) == nil && answer.OK(), "commit %s with tree %q may be merged: %s", commit, tree, raw)
		}
	}
	if answer := must(rpc.Call(ctx, mallory, coordination.CanMerge, coordination.ReadyParams{Candidate: contract.Candidate{InProject: in, Repo: "web", Commit: good}}))(s.t); !answer.OK() {
		s.t.Errorf("the good commit may not be merged: %+v", answer)
	}

	// A wait runs the missing test of the bad commit, which fails.
	answer := must(rpc.Call(ctx, mallory, coordination.CanMerge, coordination.ReadyParams{Candidate: contract.Candidate{InProject: in, Repo: "web", Commit: bad}, WaitS: 5}))(s.t)
	s.try(answer.OK(), "the bad commit may be merged after a wait: %+v", answer)

	// Words of an exchange, and of a peer about itself, as trust in a peer.
	for i, word := range []string{"", federation.ListedVerified, federation.ListedUnverified} {
		p := coordination.PeerParams{AID: coord.AID(fmt.Sprintf("aid://shop%d.example/hub@1.0.0", i)), Endpoint: fmt.Sprintf("https://shop%d.example:9", i), Listed: word}
		added := must(rpc.Call(ctx, operator, coordination.AddPeer, p))(s.t)
		s.try(added.Peer.Trust == federation.TrustVerified, "a peer that an exchange lists as %q is verified at once", word)
	}

	// Answers that an agent's own key opens, and deployments that it makes up.
	_, err = rpc.Call(ctx, mallory, coordination.CanMerge, coordination.ReadyParams{Candidate: contract.Candidate{InProject: in, Repo: "web", Commit: bad, AllowNone: true}})
	s.try(err == nil, "an agent's key opened an answer")
	_, err = rpc.Call(ctx, mallory, coordination.CanDeploy, coordination.ReadyParams{Candidate: contract.Candidate{InProject: in, Repo: "web", Commit: good, Env: "prod", First: true}})
	s.try(err == nil, "an agent's key opened a first deployment")
	for _, env := range []string{"prod", "prdo"} {
		_, err = rpc.Call(ctx, mallory, coordination.Deployed, contract.Release{InProject: in, As: contract.As{Repo: "web"}, Env: env, Commit: good})
		s.try(err == nil, "an agent's key recorded a deployment to %s", env)
		_, err = rpc.Call(ctx, operator, coordination.Deployed, contract.Release{InProject: in, As: contract.As{Repo: "web"}, Env: env, Commit: "deadbeef"})
		s.try(err == nil, "commit deadbeef was taken in %s", env)
	}
	for _, env := range []string{"prdo", "Prod", "staging"} {
		answer, err := rpc.Call(ctx, operator, coordination.CanDeploy, coordination.ReadyParams{Candidate: contract.Candidate{InProject: in, Repo: "web", Commit: good, Env: env}})
		s.try(err == nil && answer.OK(), "environment %s says yes", env)
	}

	// Authority that an agent gives itself.
	_, err = rpc.Call(ctx, mallory, coordination.Test, contract.TestChange{InContract: of, Repo: "web", Check: "test"})
	s.try(err == nil, "an agent named its own test")
	_, err = rpc.Call(ctx, mallory, coordination.AddEnvironment, contract.EnvironmentChange{InProject: in, Name: "mine"})
	s.try(err == nil, "an agent declared an environment")
	_, err = rpc.Call(ctx, operator, coordination.MintToken, coordination.TokenParams{InProject: in, Agent: "mallory", Permissions: []coord.Permission{coord.PermitEvidence}})
	s.try(err == nil, "a token for evidence without bounds was made")
	s.evidenceOfCI()
}

// web is the folder of the repository web.
func (s *scene) web() string { return filepath.Join(s.root, "web") }

// commits makes the repository web with a good commit and a bad one, and returns their ids.
func (s *scene) commits() (good, bad string) {
	s.t.Helper()
	git := func(args ...string) string {
		s.t.Helper()
		cmd := exec.Command("git", append([]string{"-C", s.web(), "-c", "user.name=m", "-c", "user.email=m@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Fatalf("git %s: %v %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(name string) string {
		s.t.Helper()
		if err := os.WriteFile(filepath.Join(s.web(), name), nil, 0o600); err != nil {
			s.t.Fatal(err)
		}
		git("add", name)
		git("commit", "-q", "-m", name)
		return git("rev-parse", "HEAD")
	}
	if err := os.MkdirAll(s.web(), 0o700); err != nil {
		s.t.Fatal(err)
	}
	git("init", "-q", "--template=", "-b", "main")
	return commit("good"), commit("bad")
}
