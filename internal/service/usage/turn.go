package usage

import (
	"context"

	"github.com/parley-agents/parley/hub"
)

// WhyBlocked returns why no turn of an agent may begin; "" if one may.
func (s *Service) WhyBlocked(ctx context.Context, agent hub.AgentID) string {
	reason, err := hub.Read(ctx, s.store, func(rd hub.Reader) (string, error) {
		reason, _, err := s.Blocked(rd, agent)
		return reason, err
	})
	if err != nil {
		s.o.Log.Warn("the budgets of an agent cannot be read", "agent", agent, "err", err)
	}
	return reason
}

// A Turn has the model calls of a turn of a kept agent.
type Turn struct {
	Run   hub.Run
	CLI   string
	Calls []hub.ModelCall // all so far; the same call has the same id each time
	Kept  bool            // of the kept session, and for the tasks of the agent; else of a further session, which has none
	Ended bool            // the turn

	// Record names the record that earlier calls of the turn have; empty for none.
	Record string
}

// RecordTurn records the model calls of a turn of a kept agent, in its kept session or in a
// further one, which has no tasks. A turn that runs gets a record with its first calls.
func (s *Service) RecordTurn(ctx context.Context, t Turn) (record string, err error) {
	report := usageOf(t.Run, t.CLI, t.Calls)
	report.Ended = t.Ended
	report.Record = t.Record
	report.Kept = t.Kept
	report.Own = !t.Kept
	if !t.Kept {
		report.Run = ""
	}
	receipt, err := s.Record(ctx, hub.Caller{ID: hub.Self}, report)
	return receipt.Record, err
}

// RecordRun records the model calls of a run that the hub executes.
func (s *Service) RecordRun(ctx context.Context, r hub.Run, cli string, calls []hub.ModelCall) error {
	_, err := s.Record(ctx, hub.Caller{ID: hub.Self}, usageOf(r, cli, calls))
	return err
}

// usageOf returns the model calls of a run as a report.
func usageOf(r hub.Run, cli string, calls []hub.ModelCall) Report {
	return Report{Agent: r.Agent, Source: hub.UsageACP, CLI: cli, Session: r.Session, Run: r.ID, Turn: string(r.ID), Ended: true, Calls: calls}
}
