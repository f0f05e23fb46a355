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
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/coordination"
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
			p := &pair{teller: &teller{app: a, colours: map[string]string{"backend": "36", "frontend": "35"}}, dir: dir}
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
	*teller
	dir             string
	back, front     *neighbour
	project         hub.ProjectID
	profile, logout hub.ContractID
}

// A neighbour is one hub of a pair.
type neighbour struct {
	opts   server.Options
	client *api.Client
	url    string
	stop   func() error // nil while it is away
}

// open starts a hub, at the address that it had before if it was there.
func (n *neighbour) open(ctx context.Context) error {
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
	n.client = api.NewClient(n.url, strings.TrimSpace(string(key)), "demo", nil)
	return nil
}

// end stops the hubs that are still there.
func (p *pair) end() {
	for _, n := range []*neighbour{p.back, p.front} {
		if n != nil && n.stop != nil {
			n.stop()
		}
	}
}

// on makes a call on a hub.
func on[T any](ctx context.Context, n *neighbour, method string, params map[string]any) (T, error) {
	var out T
	raw, err := json.Marshal(params)
	if err != nil {
		return out, err
	}
	answer, err := n.client.Call(ctx, method, raw)
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return out, err
}

// in adds the project, and a contract if there is one, to parameters.
func (p *pair) in(id hub.ContractID, params map[string]any) map[string]any {
	params["projectId"] = p.project
	set(params, "contractId", id)
	return params
}

// until waits until something is so on a hub, looking whenever something has
// changed there.
func (p *pair) until(ctx context.Context, n *neighbour, ok func() (bool, error)) error {
	after := int64(0)
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		got, err := on[coordination.Changes](ctx, n, "cacp/project/changes", map[string]any{"after": after, "waitS": 1})
		if err != nil {
			return err
		}
		after = got.Next
	}
}

// reaches waits until a contract has come to a status on a hub.
func (p *pair) reaches(ctx context.Context, n *neighbour, id hub.ContractID, version int, want hub.ContractStatus) error {
	return p.until(ctx, n, func() (bool, error) {
		c, err := on[coordination.Contract](ctx, n, "cacp/contract/get", p.in(id, map[string]any{}))
		if hub.CodeOf(err) == hub.CodeNotFound {
			return false, nil
		}
		return c.Version == version && c.Status == want, err
	})
}

// meet starts two hubs and makes them peers.
func (p *pair) meet(ctx context.Context) error {
	begin := func(name, repo, language string) (*neighbour, error) {
		n := &neighbour{opts: server.Options{
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
	made, err := on[coordination.ProjectCreated](ctx, p.back, "cacp/project/create", map[string]any{
		"name": "User profile", "objective": "show who is logged in", "repos": []coordination.NewRepo{
			{Name: "backend-api", Role: "backend", Language: "go"}, {Name: "frontend-app", Role: "frontend", Language: "typescript"},
		},
	})
	if err != nil {
		return err
	}
	p.project = made.Project
	invite, err := on[coordination.Invited](ctx, p.back, "cacp/invite/create", p.in("", map[string]any{"repoName": "frontend-app"}))
	if err != nil {
		return err
	}
	p.tell("backend  makes a project and an invite for frontend-app")
	if _, err := on[hub.Welcome](ctx, p.front, "parley/peer/join", map[string]any{"invite": invite.Text, "hub": p.back.url}); err != nil {
		return err
	}
	err = p.until(ctx, p.front, func() (bool, error) {
		_, err := on[coordination.Joined](ctx, p.front, "cacp/project/join", p.in("", map[string]any{"repoName": "frontend-app"}))
		if hub.CodeOf(err) == hub.CodeNotFound {
			return false, nil
		}
		return err == nil, err
	})
	p.tell("frontend  redeems it: keys are exchanged, the project arrives, frontend-app is claimed")
	return err
}

// content is an endpoint for the story.
func content(avatar string) json.RawMessage {
	return json.RawMessage(`{"method":"GET","path":"/profile","responseBody":{"name":"string","avatar":"` + avatar + `"}}`)
}

// negotiate agrees on a contract, after a change.
func (p *pair) negotiate(ctx context.Context) error {
	made, err := on[coordination.Proposed](ctx, p.back, "cacp/contract/propose", p.in("", map[string]any{"type": "api_endpoint", "name": "Get Profile", "content": content("string")}))
	if err != nil {
		return err
	}
	p.profile = made.Contract
	p.tell("backend  proposes \"Get Profile\", version 1")
	if err := p.reaches(ctx, p.front, p.profile, 1, hub.ContractProposed); err != nil {
		return err
	}
	const comment = "old users have no avatar: it may be null"
	if _, err := on[coordination.Responded](ctx, p.front, "cacp/contract/respond", p.in(p.profile, map[string]any{"action": contract.ActionRequestChange, "comment": comment})); err != nil {
		return err
	}
	p.tell("frontend  asks for a change: %s", comment)
	if err := p.reaches(ctx, p.back, p.profile, 1, hub.ContractNegotiating); err != nil {
		return err
	}
	if _, err := on[coordination.Proposed](ctx, p.back, "cacp/contract/update", p.in(p.profile, map[string]any{"content": content("string or null"), "changeNote": "avatar may be null"})); err != nil {
		return err
	}
	if err := p.reaches(ctx, p.front, p.profile, 2, hub.ContractProposed); err != nil {
		return err
	}
	changed, err := on[contract.Diff](ctx, p.front, "cacp/contract/diff", p.in(p.profile, map[string]any{}))
	if err != nil {
		return err
	}
	p.tell("backend  updates it to version 2. What changed, as frontend sees it:")
	for _, c := range changed.Changes {
		p.tell("           %s: %s is now %s", c.Path, c.Old, c.New)
	}
	if _, err := on[coordination.Responded](ctx, p.front, "cacp/contract/respond", p.in(p.profile, map[string]any{"action": contract.ActionAgree})); err != nil {
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
		got, err := on[coordination.Progress](ctx, p.back, "cacp/implementation/getStatus", p.in(p.profile, map[string]any{}))
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
	made, err := on[coordination.Proposed](ctx, p.back, "cacp/contract/propose", p.in("", map[string]any{
		"type": "api_endpoint", "name": "Log Out", "content": json.RawMessage(`{"method":"POST","path":"/logout"}`),
	}))
	if err != nil {
		return err
	}
	p.logout = made.Contract
	if _, err := on[coordination.Shared](ctx, p.back, "cacp/context/askQuestion", p.in("", map[string]any{"question": "Log out of all devices, or of this one?"})); err != nil {
		return err
	}
	p.tell("backend  goes on meanwhile: completes its part, proposes \"Log Out\", asks a question. Nothing waits for the other hub.")
	got, err := on[contract.Verdict](ctx, p.back, "cacp/contract/check", p.in("", map[string]any{"require": "verified"}))
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

func (p *pair) start(ctx context.Context, n *neighbour) error {
	_, err := on[coordination.Worked](ctx, n, "cacp/implementation/start", p.in(p.profile, map[string]any{"plan": "one handler"}))
	return err
}

func (p *pair) complete(ctx context.Context, n *neighbour, file string) error {
	_, err := on[coordination.Worked](ctx, n, "cacp/implementation/complete", p.in(p.profile, map[string]any{"files": []string{file}}))
	return err
}

// reunite brings the hub back; both find out what they missed.
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
	for _, n := range []*neighbour{p.front, p.back} {
		if err := p.reaches(ctx, n, p.profile, 2, hub.ContractImplemented); err != nil {
			return err
		}
	}
	p.tell("frontend  is back: it hears what it missed and completes its part. Both hubs say: implemented.")
	return nil
}

// finish does what is left, and compares the two hubs.
func (p *pair) finish(ctx context.Context) error {
	if _, err := on[coordination.Worked](ctx, p.front, "cacp/implementation/verify", p.in(p.profile, map[string]any{"result": contract.VerifySuccess, "notes": "both sides together"})); err != nil {
		return err
	}
	p.tell("frontend  verifies \"Get Profile\"; for \"Log Out\" both agree, implement and verify as well")
	if _, err := on[coordination.Responded](ctx, p.front, "cacp/contract/respond", p.in(p.logout, map[string]any{"action": contract.ActionAgree})); err != nil {
		return err
	}
	for _, n := range []*neighbour{p.front, p.back} {
		if err := p.reaches(ctx, n, p.logout, 1, hub.ContractAgreed); err != nil {
			return err
		}
		if _, err := on[coordination.Worked](ctx, n, "cacp/implementation/start", p.in(p.logout, map[string]any{})); err != nil {
			return err
		}
		if _, err := on[coordination.Worked](ctx, n, "cacp/implementation/complete", p.in(p.logout, map[string]any{"files": []string{}})); err != nil {
			return err
		}
	}
	if err := p.reaches(ctx, p.back, p.logout, 1, hub.ContractImplemented); err != nil {
		return err
	}
	if _, err := on[coordination.Worked](ctx, p.back, "cacp/implementation/verify", p.in(p.logout, map[string]any{"result": contract.VerifySuccess})); err != nil {
		return err
	}
	for _, n := range []*neighbour{p.back, p.front} {
		for id, version := range map[hub.ContractID]int{p.profile: 2, p.logout: 1} {
			if err := p.reaches(ctx, n, id, version, hub.ContractVerified); err != nil {
				return err
			}
		}
	}
	got, err := on[contract.Verdict](ctx, p.front, "cacp/contract/check", p.in("", map[string]any{"require": "verified"}))
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
		ours, errs[0] = on[json.RawMessage](ctx, p.back, "cacp/project/get", p.in("", map[string]any{}))
		theirs, errs[1] = on[json.RawMessage](ctx, p.front, "cacp/project/get", p.in("", map[string]any{}))
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
