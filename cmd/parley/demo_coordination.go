package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/surface/coordination"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

func (a *app) demoCoordinationCommand() *cobra.Command {
	return &cobra.Command{
		Use: "coordination", Short: "Watch two hubs agree on a contract, also while one of them is away",
		Long: `Watch two hubs agree on a contract, lose each other, and find together again. The
story runs on two hubs of its own in a temporary folder and leaves nothing behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "parley-demo-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			p := &pair{demoLines: &demoLines{app: a, colours: map[string]string{"backend": "36", "frontend": "35"}}, dir: dir}
			defer p.end()
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			for _, scene := range []func(context.Context) error{p.meet, p.negotiate, p.part, p.reunite, p.finish} {
				if err := scene(ctx); err != nil {
					return err
				}
			}
			return a.print(map[string]any{"scenes": p.scenes}, func(io.Writer) {})
		},
	}
}

// A pair is two hubs that coordinate, for a demo.
type pair struct {
	*demoLines
	dir             string
	back, front     *demoHub
	project         hub.ProjectID
	profile, logout hub.ContractID
}

// A demoHub is one hub of a pair.
type demoHub struct {
	opts   server.Options
	client *rpc.Client
	url    string
	stop   func() error // nil while it is away
}

// open starts a hub, at the address that it had before if it was there.
func (n *demoHub) open(ctx context.Context) error {
	s, err := server.New(ctx, n.opts)
	if err != nil {
		return err
	}
	n.url = s.URL()
	n.opts.Addr = strings.TrimPrefix(n.url, "http://")
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(serving) }()
	n.stop = func() error {
		cancel()
		n.stop = nil
		return <-done
	}
	key, err := os.ReadFile(filepath.Join(n.opts.Home, server.OperatorKeyFile))
	if err != nil {
		return err
	}
	n.client = rpc.NewClient(n.url, strings.TrimSpace(string(key)), "demo", nil)
	return nil
}

// end stops the hubs that are still there.
func (p *pair) end() {
	for _, n := range []*demoHub{p.back, p.front} {
		if n != nil && n.stop != nil {
			n.stop()
		}
	}
}

// on calls an operation on a hub.
func on[S, P, R any](ctx context.Context, n *demoHub, o rpc.Operation[S, P, R], params P) (R, error) {
	return rpc.Call(ctx, n.client, o, params)
}

// in returns the project as part of parameters.
func (p *pair) in() coordination.InProject { return coordination.InProject{Project: p.project} }

// of returns a contract of the project as part of parameters.
func (p *pair) of(id hub.ContractID) coordination.InContract {
	return coordination.InContract{InProject: p.in(), Contract: id}
}

// until waits until something is so on a hub, looking whenever something has
// changed there.
func (p *pair) until(ctx context.Context, n *demoHub, ok func() (bool, error)) error {
	after := int64(0)
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		got, err := on(ctx, n, coordination.ListChanges, coordination.ChangesParams{After: &after, WaitS: 1})
		if err != nil {
			return err
		}
		after = got.Next
	}
}

// reaches waits until a contract has come to a status on a hub.
func (p *pair) reaches(ctx context.Context, n *demoHub, id hub.ContractID, version int, want hub.ContractStatus) error {
	return p.until(ctx, n, func() (bool, error) {
		c, err := on(ctx, n, coordination.GetContract, coordination.GetParams{InContract: p.of(id)})
		if hub.CodeOf(err) == hub.CodeNotFound {
			return false, nil
		}
		return c.Version == version && c.Status == want, err
	})
}

// meet starts two hubs and makes them peers.
func (p *pair) meet(ctx context.Context) error {
	begin := func(name, repo, language string) (*demoHub, error) {
		n := &demoHub{opts: server.Options{
			Home: filepath.Join(p.dir, name), Addr: "127.0.0.1:0", Version: version(), NoInboxFiles: true,
			Coordination: server.Coordination{
				AID: hub.AID("aid://" + name + ".example/hub@1.0.0"), Repo: repo, Role: name, Language: language,
				Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			},
		}}
		return n, n.open(ctx)
	}
	var err error
	if p.back, err = begin("backend", "backend-api", "go"); err != nil {
		return err
	}
	if p.front, err = begin("frontend", "frontend-app", "typescript"); err != nil {
		return err
	}
	p.tell("Two hubs start: one speaks for backend-api, one for frontend-app.")
	made, err := on(ctx, p.back, coordination.CreateProject, coordination.NewProject{
		Name: "User profile", Objective: "show who is logged in", Repos: []coordination.NewRepo{
			{Name: "backend-api", Role: "backend", Language: "go"}, {Name: "frontend-app", Role: "frontend", Language: "typescript"},
		},
	})
	if err != nil {
		return err
	}
	p.project = made.Project
	invite, err := on(ctx, p.back, coordination.CreateInvite, coordination.InviteParams{InProject: p.in(), Repo: "frontend-app"})
	if err != nil {
		return err
	}
	p.tell("backend  makes a project and an invite for frontend-app")
	if _, err := on(ctx, p.front, coordination.JoinHub, coordination.JoinHubParams{Invite: invite.Text, Hub: p.back.url}); err != nil {
		return err
	}
	err = p.until(ctx, p.front, func() (bool, error) {
		_, err := on(ctx, p.front, coordination.JoinProject, coordination.JoinParams{InProject: p.in(), Repo: "frontend-app"})
		if hub.CodeOf(err) == hub.CodeNotFound {
			return false, nil
		}
		return err == nil, err
	})
	p.tell("frontend  redeems it: keys are exchanged, the project arrives, frontend-app is claimed")
	return err
}

// content returns an endpoint.
func content(avatar string) json.RawMessage {
	return json.RawMessage(`{"method":"GET","path":"/profile","responseBody":{"name":"string","avatar":"` + avatar + `"}}`)
}

// negotiate agrees on a contract, after a change.
func (p *pair) negotiate(ctx context.Context) error {
	made, err := on(ctx, p.back, coordination.Propose, coordination.Proposal{InProject: p.in(), Type: hub.ContractAPI, Name: "Get Profile", Content: content("string")})
	if err != nil {
		return err
	}
	p.profile = made.Contract
	p.tell("backend  proposes \"Get Profile\", version 1")
	if err := p.reaches(ctx, p.front, p.profile, 1, hub.ContractProposed); err != nil {
		return err
	}
	const comment = "old users have no avatar: it may be null"
	if _, err := on(ctx, p.front, coordination.Respond, coordination.Response{InContract: p.of(p.profile), Action: contract.ActionRequestChange, Comment: comment}); err != nil {
		return err
	}
	p.tell("frontend  asks for a change: %s", comment)
	if err := p.reaches(ctx, p.back, p.profile, 1, hub.ContractNegotiating); err != nil {
		return err
	}
	if _, err := on(ctx, p.back, coordination.Update, coordination.Revision{InContract: p.of(p.profile), Content: content("string or null"), Note: "avatar may be null"}); err != nil {
		return err
	}
	if err := p.reaches(ctx, p.front, p.profile, 2, hub.ContractProposed); err != nil {
		return err
	}
	changed, err := on(ctx, p.front, coordination.DiffContract, coordination.DiffParams{InContract: p.of(p.profile)})
	if err != nil {
		return err
	}
	p.tell("backend  updates it to version 2. What changed, as frontend sees it:")
	for _, c := range changed.Changes {
		p.tell("           %s: %s is now %s", c.Path, c.Old, c.New)
	}
	if _, err := on(ctx, p.front, coordination.Respond, coordination.Response{InContract: p.of(p.profile), Action: contract.ActionAgree}); err != nil {
		return err
	}
	p.tell("frontend  agrees")
	return p.reaches(ctx, p.back, p.profile, 2, hub.ContractAgreed)
}

// part takes one hub down; both go on.
func (p *pair) part(ctx context.Context) error {
	if err := p.start(ctx, p.front); err != nil {
		return err
	}
	if err := p.until(ctx, p.back, func() (bool, error) {
		got, err := on(ctx, p.back, coordination.WorkStatus, coordination.ContractParams{InContract: p.of(p.profile)})
		return len(got.Implementations) == 1, err
	}); err != nil {
		return err
	}
	if err := p.front.stop(); err != nil {
		return err
	}
	p.tell("frontend  begins to implement it; then its hub goes down")
	if err := p.start(ctx, p.back); err != nil {
		return err
	}
	if err := p.complete(ctx, p.back, "profile.go"); err != nil {
		return err
	}
	made, err := on(ctx, p.back, coordination.Propose, coordination.Proposal{
		InProject: p.in(), Type: hub.ContractAPI, Name: "Log Out", Content: json.RawMessage(`{"method":"POST","path":"/logout"}`),
	})
	if err != nil {
		return err
	}
	p.logout = made.Contract
	if _, err := on(ctx, p.back, coordination.AskQuestion, coordination.Question{InProject: p.in(), Question: "Log out of all devices, or of this one?"}); err != nil {
		return err
	}
	p.tell("backend  goes on meanwhile: completes its part, proposes \"Log Out\", asks a question. Nothing waits for the other hub.")
	got, err := on(ctx, p.back, coordination.Check, coordination.CheckParams{InProject: p.in(), Require: hub.ContractVerified})
	if err != nil {
		return err
	}
	p.tellVerdict(got)
	return nil
}

func (p *pair) tellVerdict(v contract.Verdict) {
	if v.OK {
		p.tell("           contract check --require verified: green, %d contracts", v.Checked)
		return
	}
	p.tell("           contract check --require verified: red")
	for _, f := range v.Failures {
		p.tell("             %s version %d is %s", f.Name, f.Version, f.Reason)
	}
}

func (p *pair) start(ctx context.Context, n *demoHub) error {
	_, err := on(ctx, n, coordination.StartWork, coordination.StartParams{InContract: p.of(p.profile), Plan: "one handler"})
	return err
}

func (p *pair) complete(ctx context.Context, n *demoHub, file string) error {
	_, err := on(ctx, n, coordination.CompleteWork, coordination.CompleteParams{InContract: p.of(p.profile), Files: []string{file}})
	return err
}

// reunite brings the hub back; both receive the changes that they missed.
func (p *pair) reunite(ctx context.Context) error {
	if err := p.front.open(ctx); err != nil {
		return err
	}
	if err := p.reaches(ctx, p.front, p.logout, 1, hub.ContractProposed); err != nil {
		return err
	}
	if err := p.complete(ctx, p.front, "profile.ts"); err != nil {
		return err
	}
	for _, n := range []*demoHub{p.front, p.back} {
		if err := p.reaches(ctx, n, p.profile, 2, hub.ContractImplemented); err != nil {
			return err
		}
	}
	p.tell("frontend  is back: it hears what it missed and completes its part. Both hubs say: implemented.")
	return nil
}

// finish verifies the contracts, and compares the two hubs.
func (p *pair) finish(ctx context.Context) error {
	if _, err := on(ctx, p.front, coordination.VerifyWork, coordination.VerifyParams{InContract: p.of(p.profile), Result: contract.VerifySuccess, Notes: "both sides together"}); err != nil {
		return err
	}
	p.tell("frontend  verifies \"Get Profile\"; for \"Log Out\" both agree, implement and verify as well")
	if _, err := on(ctx, p.front, coordination.Respond, coordination.Response{InContract: p.of(p.logout), Action: contract.ActionAgree}); err != nil {
		return err
	}
	for _, n := range []*demoHub{p.front, p.back} {
		if err := p.reaches(ctx, n, p.logout, 1, hub.ContractAgreed); err != nil {
			return err
		}
		if _, err := on(ctx, n, coordination.StartWork, coordination.StartParams{InContract: p.of(p.logout)}); err != nil {
			return err
		}
		if _, err := on(ctx, n, coordination.CompleteWork, coordination.CompleteParams{InContract: p.of(p.logout)}); err != nil {
			return err
		}
	}
	if err := p.reaches(ctx, p.back, p.logout, 1, hub.ContractImplemented); err != nil {
		return err
	}
	if _, err := on(ctx, p.back, coordination.VerifyWork, coordination.VerifyParams{InContract: p.of(p.logout), Result: contract.VerifySuccess}); err != nil {
		return err
	}
	for _, n := range []*demoHub{p.back, p.front} {
		for id, version := range map[hub.ContractID]int{p.profile: 2, p.logout: 1} {
			if err := p.reaches(ctx, n, id, version, hub.ContractVerified); err != nil {
				return err
			}
		}
	}
	got, err := on(ctx, p.front, coordination.Check, coordination.CheckParams{InProject: p.in(), Require: hub.ContractVerified})
	if err != nil {
		return err
	}
	p.tellVerdict(got)
	return p.same(ctx)
}

// same waits until both hubs have the same, to the letter.
func (p *pair) same(ctx context.Context) error {
	var ours, theirs json.RawMessage
	err := p.until(ctx, p.back, func() (bool, error) {
		var errs [2]error
		ours, errs[0] = on(ctx, p.back, coordination.ExportProject, coordination.ProjectParams{InProject: p.in()})
		theirs, errs[1] = on(ctx, p.front, coordination.ExportProject, coordination.ProjectParams{InProject: p.in()})
		return string(ours) == string(theirs), errors.Join(errs[:]...)
	})
	if err != nil {
		return err
	}
	var project hub.ProjectCopy
	if err := json.Unmarshal(ours, &project); err != nil {
		return fmt.Errorf("read the project: %w", err)
	}
	p.tell("Both hubs have the same, to the letter: %d contracts, %d packets of context, the project is %s.", len(project.Contracts), len(project.Packets), project.Status)
	return nil
}
