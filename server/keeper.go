package server

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/workshop"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// openKeeper builds the keeper of agents over the wake machine. It is a waiter of the
// machine, as the programs beside agents in terminals are.
// Functions of the mailroom and of runs are passed one by one, because the keeper
// imports neither service.
func (s *Server) openKeeper(context.Context) error {
	o := keeper.Options{
		Home: s.opts.Home, URL: s.url, Version: s.opts.Version, Clock: s.clock, Log: s.log, Bus: s.hints, Running: s.opts.Kept,
		Tools:  rpc.Titles(api.Operations.Bind(nil), coordination.Operations.Bind(nil)),
		Record: s.recordTurn, Summary: s.handoffs.OpenWork, AskFiles: s.files.Guard, Exceeded: s.usage.Exceeded, RecordUsage: s.recordTurnUsage, Blocked: s.usage.WhyBlocked, Stopped: s.wakes.WhyStopped, VendorOf: usage.VendorOf, CannotGoOn: s.cannotGoOn, Returned: s.returned, Onward: s.onward, OpenTasks: func(ctx context.Context, agent hub.AgentID) bool { return s.continuations.HasTasks(ctx, agent) }, HasSuccessor: s.hasSuccessor, Patience: s.opts.Patience, DenyUnanswered: s.deniesUnanswered, Tell: s.mail.TellOperator, Ask: s.mail.AskOperator, Announce: s.mail.Announce,
	}
	if s.postgres != nil {
		o.Machine = s.postgres.Machine()
		o.Away = s.postgres.Away
	}
	o.Commands = agentCommands{s}
	if s.opts.Bridge != "" {
		o.Bridge = []string{s.opts.Bridge, "mcp"}
	}
	s.keeper = keeper.New(s.store, s.wakes, s.keys, o)
	return nil
}

// deniesUnanswered reports whether changes of files in a folder are refused while the hub gives no
// answer.
func (s *Server) deniesUnanswered(dir string) bool {
	return s.opts.ReservationsIn(dir).Unreachable == UnreachableDeny
}

// recordTurnUsage records the model calls of a turn of a kept agent.
func (s *Server) recordTurnUsage(ctx context.Context, u keeper.TurnUsage) (record string, err error) {
	return s.usage.RecordTurn(ctx, usage.Turn(u))
}

// recordTurn records a turn of a kept agent that ended with a report as a run, whose
// verdict is the hub's own.
func (s *Server) recordTurn(ctx context.Context, r hub.Run) (hub.Run, error) {
	return s.runs.Record(ctx, run.Beginning{ID: r.ID, Agent: r.Agent, Task: r.Task, Dir: r.Dir}, endingOf(r))
}

// agentCommands runs the commands of kept agents in the workshop of checks.
type agentCommands struct{ s *Server }

// Allowed implements keeper.Commands.
func (c agentCommands) Allowed(ctx context.Context, folder, name string) (hub.RepositoryCheck, error) {
	return c.s.checks.Allowed(ctx, folder, name)
}

// Confines implements keeper.Commands.
func (c agentCommands) Confines() error {
	err := c.s.shop.Confines()
	if !errors.Is(err, workshop.ErrUnconfined) {
		return err
	}
	return hub.Errorf(hub.CodeNotEnabled, "server.Confines", "the hub cannot confine a command on this machine, so the policy build lets an agent run nothing").
		WithHint("keep it with --policy write, or ask for each command: --policy ask")
}

// RunIn implements keeper.Commands.
func (c agentCommands) RunIn(ctx context.Context, agent hub.AgentID, folder string, command hub.RepositoryCheck) (keeper.Outcome, error) {
	got, err := c.s.shop.Run(ctx, workshop.Job{InPlace: folder, Home: string(agent), Check: checkOf(command)})
	if errors.Is(err, workshop.ErrUnconfined) {
		return keeper.Outcome{}, hub.Errorf(hub.CodeNotEnabled, "server.RunIn", "the hub cannot confine a command on this machine, so it runs none for you").
			WithHint("ask your operator to run it")
	}
	if err != nil {
		return keeper.Outcome{}, err
	}
	os.Remove(got.Output.File) // the agent gets the end of the output
	return keeper.Outcome{
		State: hub.CheckState(got.State), ExitCode: got.ExitCode, DurationMS: got.Duration.Milliseconds(),
		Output: strings.ToValidUTF8(string(got.Output.Tail), "\uFFFD"), Reason: got.Reason,
	}, nil
}
