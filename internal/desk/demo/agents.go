package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// Agents shows an agent that the hub keeps: a handoff starts its process, its first
// report is a lie and is refused, and it repairs that in a turn that follows at once.
// builder is the command of the agent: a program that calls Builder.
func Agents(builder ...string) Demo {
	return func(ctx context.Context, dir, version string, tell func(actor, text string)) error {
		d := &agentsDemo{taskDemo: taskDemo{script: script{dir: dir, version: version, print: tell}, repo: filepath.Join(dir, "app")}, command: builder}
		return d.run(ctx, d.keep, d.propose, d.watch, d.prove)
	}
}

type agentsDemo struct {
	taskDemo
	command []string
}

func (d *agentsDemo) keep(ctx context.Context) {
	d.try(func() error { return os.Mkdir(d.repo, 0o700) })
	d.operator = d.node(ctx, Home, server.Options{Roots: []string{d.repo}}).client
	d.planner = d.add(ctx, "planner", hub.RoleCoordinator)
	got := call(ctx, &d.script, d.operator, api.KeepAgent, api.KeepParams{
		Definition: keeper.Definition{Agent: "builder", Command: d.command, Dir: d.repo, Policy: sandbox.PolicyWrite},
	})
	d.tell("", "A hub keeps the agent builder in a folder. It is %s: no process, no tokens.", got.State)
}

// watch narrates the log of builder until the task is closed.
func (d *agentsDemo) watch(ctx context.Context) {
	p, refused := api.KeptLogParams{Agent: "builder", WaitS: 5}, false
	for d.err == nil {
		got := call(ctx, &d.script, d.operator, api.LogAgent, p)
		for _, l := range got.Lines {
			p.After = l.N
			text := strings.Join(strings.Fields(l.Text), " ")
			switch l.Kind {
			case "start":
				d.tell("builder", "is started by the mail, reads it, and accepts.")
			case "text":
				if refused {
					d.tell("builder", "gets another turn at once with the reason. It edits schema.sql and commits.")
				}
				d.tell("builder", "reports: %s", text)
			case "refused":
				refused = true
				d.tell("", "           refused   %s", text)
			case "problem":
				d.failf("builder: %s", text)
			}
		}
		all := d.handoff(ctx, d.planner, api.HandoffParams{Action: "list", State: hub.HandoffClosed})
		if d.err == nil && len(all.Listing.Handoffs) == 1 && slices.ContainsFunc(got.Lines, func(l keeper.Line) bool { return l.Kind == "state" && l.Text == string(keeper.Idle) }) {
			return
		}
	}
}

// prove compares the story with the records of the hub.
func (d *agentsDemo) prove(ctx context.Context) {
	var verdicts []hub.RunVerdict
	for _, r := range call(ctx, &d.script, d.operator, api.ListRuns, api.RunListParams{}).Runs {
		verdicts = append(verdicts, r.Verdict)
	}
	if d.err == nil && !slices.Equal(verdicts, []hub.RunVerdict{hub.RunConfirmed, hub.RunContradicted}) { // the newest first
		d.failf("the turns of builder are %v", verdicts)
	}
	call(ctx, &d.script, d.planner, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
	d.tell("planner", "is notified that T-1 is done, with proof. builder's two turns are recorded as runs: contradicted, then confirmed.")
	d.check(ctx)
}

// Builder serves ACP as the agent of Agents. It follows a script: no model is asked.
func Builder(ctx context.Context, in io.Reader, out io.Writer) error {
	agent := &acp.Agent{Name: "builder", Version: "1", Capabilities: []acp.Capability{acp.CanMCPHTTP}}
	agent.Prompt = func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
		if len(t.MCPServers) != 1 || t.MCPServers[0].HTTP == nil {
			return "", errors.New("demo: the hub gave no tools")
		}
		at := t.MCPServers[0].HTTP
		key := strings.TrimPrefix(at.Headers.Or(nil)[0].Value, "Bearer ")
		d := &taskDemo{script: script{print: func(string, string) {}}, repo: t.Dir, builder: rpc.NewClient(strings.TrimSuffix(at.URL, "/mcp"), key, "", nil)}
		if strings.Contains(t.Text(), "was refused") {
			refs := d.commit(ctx, "avatar may be null", "CREATE TABLE users (id INTEGER, avatar TEXT);\n")
			d.handoff(ctx, d.builder, api.HandoffParams{Action: "complete", ID: d.task(ctx, hub.HandoffActivated), Summary: "avatar may be null", Artifacts: refs})
		} else {
			call(ctx, &d.script, d.builder, api.Inbox, api.InboxParams{Ack: api.AckSet{All: true}})
			d.handoff(ctx, d.builder, api.HandoffParams{Action: "accept", ID: d.task(ctx, hub.HandoffProposed)})
		}
		if d.err != nil {
			return "", fmt.Errorf("demo: builder: %w", d.err)
		}
		return acpv2.StopReasonEndTurn, t.Say(ctx, "STATUS:ok\nFILES_MODIFIED:schema.sql\n")
	}
	return acp.Serve(ctx, agent, in, out)
}
