package demo

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/server"
)

// Coordination shows two hubs: they agree on a contract, one of them stops while
// the other works on, and both hold the same data at the end.
func Coordination(ctx context.Context, dir, version string, tell func(actor, text string)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d := &pairDemo{script: script{dir: dir, version: version, print: tell}}
	return d.run(ctx, d.meet, d.negotiate, d.separate, d.reunite, d.finish)
}

type pairDemo struct {
	script
	back, front     *node
	project         coord.ProjectID
	profile, logout coord.ContractID
}

// on calls an operation on a hub as its operator.
func on[S, P, R any](ctx context.Context, d *pairDemo, n *node, o rpc.Operation[S, P, R], params P) R {
	return call(ctx, &d.script, n.client, o, params)
}

// in returns the project as part of parameters.
func (d *pairDemo) in() coordination.InProject { return coordination.InProject{Project: d.project} }

// of returns a contract of the project as part of parameters.
func (d *pairDemo) of(id coord.ContractID) coordination.InContract {
	return coordination.InContract{InProject: d.in(), Contract: id}
}

// until waits for a condition on a hub. It checks the condition after each change
// there. An object that has not arrived yet does not meet the condition.
func (d *pairDemo) until(ctx context.Context, n *node, ok func() (bool, error)) {
	after := int64(0)
	for d.err == nil {
		done, err := ok()
		if hub.CodeOf(err) == hub.CodeNotFound {
			done, err = false, nil
		}
		if d.err = err; done || err != nil {
			return
		}
		after = on(ctx, d, n, coordination.ListChanges, coordination.ChangesParams{After: &after, WaitS: 1}).Next
	}
}

// reaches waits until a version of a contract has a status on a hub.
func (d *pairDemo) reaches(ctx context.Context, n *node, id coord.ContractID, version int, want coord.ContractStatus) {
	d.until(ctx, n, func() (bool, error) {
		c, err := rpc.Call(ctx, n.client, coordination.GetContract, coordination.GetParams{InContract: d.of(id)})
		return c.Version == version && c.Status == want, err
	})
}

// begin starts the hub of one repository.
func (d *pairDemo) begin(ctx context.Context, name, repo, language string) *node {
	return d.node(ctx, name, server.Options{NoInboxFiles: true, Coordination: server.Coordination{
		AID: coord.AID("aid://" + name + ".example/hub@1.0.0"), Repo: repo, Role: name, Language: language,
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}})
}

// meet starts two hubs and makes them peers.
func (d *pairDemo) meet(ctx context.Context) {
	d.back = d.begin(ctx, "backend", "backend-api", "go")
	d.front = d.begin(ctx, "frontend", "frontend-app", "typescript")
	d.tell("", "Two hubs start: one for backend-api, one for frontend-app.")
	d.project = on(ctx, d, d.back, coordination.CreateProject, coordination.NewProject{
		Name: "User profile", Objective: "show who is logged in", Repos: []coordination.NewRepo{
			{Name: "backend-api", Role: "backend", Language: "go"}, {Name: "frontend-app", Role: "frontend", Language: "typescript"},
		},
	}).Project
	invite := on(ctx, d, d.back, coordination.CreateInvite, coordination.InviteParams{InProject: d.in(), Repo: "frontend-app"})
	d.tell("backend", "creates a project, and an invite for frontend-app")
	on(ctx, d, d.front, coordination.JoinHub, coordination.JoinHubParams{Invite: invite.Text, Hub: d.back.url})
	d.until(ctx, d.front, func() (bool, error) {
		_, err := rpc.Call(ctx, d.front.client, coordination.JoinProject, coordination.JoinParams{InProject: d.in(), Repo: "frontend-app"})
		return err == nil, err
	})
	d.tell("frontend", "redeems the invite: keys are exchanged, the project arrives, frontend-app is claimed")
}

// endpoint returns the content of the profile contract.
func endpoint(avatar string) json.RawMessage {
	return json.RawMessage(`{"method":"GET","path":"/profile","responseBody":{"name":"string","avatar":"` + avatar + `"}}`)
}

// propose proposes an endpoint on the backend and returns the id of its contract.
func (d *pairDemo) propose(ctx context.Context, name string, content json.RawMessage) coord.ContractID {
	return on(ctx, d, d.back, coordination.Propose, contract.Proposal{InProject: d.in(), Type: coord.ContractAPI, Name: name, Content: content}).Contract
}

// negotiate brings a contract to its agreement, after a change.
func (d *pairDemo) negotiate(ctx context.Context) {
	d.profile = d.propose(ctx, "Get Profile", endpoint("string"))
	d.tell("backend", `proposes "Get Profile", version 1`)
	d.reaches(ctx, d.front, d.profile, 1, coord.ContractProposed)
	const comment = "old users have no avatar: it may be null"
	on(ctx, d, d.front, coordination.Respond, contract.Response{InContract: d.of(d.profile), Action: contract.ActionRequestChange, Comment: comment})
	d.tell("frontend", "asks for a change: %s", comment)
	d.reaches(ctx, d.back, d.profile, 1, coord.ContractNegotiating)
	on(ctx, d, d.back, coordination.Update, contract.Revision{InContract: d.of(d.profile), Content: endpoint("string or null"), Note: "avatar may be null"})
	d.reaches(ctx, d.front, d.profile, 2, coord.ContractProposed)
	d.tell("backend", "updates it to version 2. frontend sees the change:")
	for _, c := range on(ctx, d, d.front, coordination.DiffContract, coordination.DiffParams{InContract: d.of(d.profile)}).Changes {
		d.tell("", "           %s: %s is now %s", c.Path, c.Old, c.New)
	}
	on(ctx, d, d.front, coordination.Respond, contract.Response{InContract: d.of(d.profile), Action: contract.ActionAgree})
	d.tell("frontend", "agrees")
	d.reaches(ctx, d.back, d.profile, 2, coord.ContractAgreed)
}

// separate stops one hub; the other continues.
func (d *pairDemo) separate(ctx context.Context) {
	d.start(ctx, d.front, d.profile)
	d.until(ctx, d.back, func() (bool, error) {
		got, err := rpc.Call(ctx, d.back.client, coordination.WorkStatus, coordination.ContractParams{InContract: d.of(d.profile)})
		return len(got.Implementations) == 1, err
	})
	d.try(func() error { return d.front.stop() })
	d.tell("frontend", "starts to implement it; then its hub goes down")
	d.start(ctx, d.back, d.profile)
	d.complete(ctx, d.back, d.profile, "profile.go")
	d.logout = d.propose(ctx, "Log Out", json.RawMessage(`{"method":"POST","path":"/logout"}`))
	on(ctx, d, d.back, coordination.AskQuestion, contract.Question{InProject: d.in(), Question: "Log out of all devices, or of this one?"})
	d.tell("backend", `continues meanwhile: completes its part, proposes "Log Out", asks a question. Nothing waits for the other hub.`)
	d.check(ctx, d.back)
}

// check tells whether all contracts are verified, as a hub sees it.
func (d *pairDemo) check(ctx context.Context, n *node) {
	v := on(ctx, d, n, coordination.Check, contract.Gate{InProject: d.in(), Require: coord.ContractVerified})
	if v.OK {
		d.tell("", "           contract check --require verified: green, %d contracts", v.Checked)
		return
	}
	d.tell("", "           contract check --require verified: red")
	for _, f := range v.Failures {
		d.tell("", "             %s version %d is %s", f.Name, f.Version, f.Reason)
	}
}

func (d *pairDemo) start(ctx context.Context, n *node, id coord.ContractID) {
	on(ctx, d, n, coordination.StartWork, contract.Work{InContract: d.of(id), Plan: "one handler"})
}

func (d *pairDemo) complete(ctx context.Context, n *node, id coord.ContractID, files ...string) {
	on(ctx, d, n, coordination.CompleteWork, contract.Work{InContract: d.of(id), Files: files})
}

func (d *pairDemo) verify(ctx context.Context, n *node, id coord.ContractID, notes string) {
	on(ctx, d, n, coordination.VerifyWork, contract.Verification{InContract: d.of(id), Result: contract.VerifySuccess, Notes: notes})
}

// reunite starts the stopped hub again; both receive the changes that they missed.
func (d *pairDemo) reunite(ctx context.Context) {
	d.open(ctx, d.front)
	d.reaches(ctx, d.front, d.logout, 1, coord.ContractProposed)
	d.complete(ctx, d.front, d.profile, "profile.ts")
	for _, n := range d.hubs {
		d.reaches(ctx, n, d.profile, 2, coord.ContractImplemented)
	}
	d.tell("frontend", "is back: it catches up and completes its part. Both hubs say: implemented.")
}

// finish verifies the contracts, and compares the two hubs.
func (d *pairDemo) finish(ctx context.Context) {
	d.verify(ctx, d.front, d.profile, "both sides together")
	d.tell("frontend", `verifies "Get Profile"; for "Log Out" both agree, implement and verify as well`)
	on(ctx, d, d.front, coordination.Respond, contract.Response{InContract: d.of(d.logout), Action: contract.ActionAgree})
	for _, n := range d.hubs {
		d.reaches(ctx, n, d.logout, 1, coord.ContractAgreed)
		d.start(ctx, n, d.logout)
		d.complete(ctx, n, d.logout)
	}
	d.reaches(ctx, d.back, d.logout, 1, coord.ContractImplemented)
	d.verify(ctx, d.back, d.logout, "")
	for _, n := range d.hubs {
		d.reaches(ctx, n, d.profile, 2, coord.ContractVerified)
		d.reaches(ctx, n, d.logout, 1, coord.ContractVerified)
	}
	d.check(ctx, d.front)
	d.compare(ctx)
}

// compare waits until both hubs export the same bytes.
func (d *pairDemo) compare(ctx context.Context) {
	var export json.RawMessage
	d.until(ctx, d.back, func() (bool, error) {
		p := coordination.ProjectParams{InProject: d.in()}
		export = on(ctx, d, d.back, coordination.ExportProject, p)
		return string(export) == string(on(ctx, d, d.front, coordination.ExportProject, p)), d.err
	})
	var project federation.ProjectCopy
	d.try(func() error { return json.Unmarshal(export, &project) })
	d.tell("", "Both hubs have identical copies: %d contracts, %d packets of context, the project is %s.", len(project.Contracts), len(project.Packets), project.Status)
}
