package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/transcript"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// PricesFile is the name of the operator's file of prices in the home.
const PricesFile = "prices.json"

// openUsage builds the service that keeps tokens, costs and budgets.
func (s *Server) openUsage(context.Context) error {
	s.usage = usage.New(s.store, s.mail, &usage.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Prices: filepath.Join(s.opts.Home, PricesFile),
		Read: readTranscripts, Spent: s.budgetSpent, Opened: s.visitAll,
	})
	return nil
}

// transcriptTime bounds the hub's reading of the transcripts of a report.
const transcriptTime = time.Second

// readTranscripts returns the calls that the hub finds in the transcripts of a report, by their ids. It
// reads the files of a CLI that it knows and that this machine has, from the places that the report names.
func readTranscripts(ctx context.Context, r usage.Report) map[string]hub.ModelCall {
	c, err := cli.Lookup(r.CLI)
	if err != nil || !c.Counts() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, transcriptTime)
	defer cancel()
	out := map[string]hub.ModelCall{}
	for _, part := range r.Files {
		isTranscript := filepath.IsAbs(part.Path) && filepath.Ext(part.Path) == ".jsonl"
		if !isTranscript || part.From < 0 {
			continue
		}
		from, err := transcript.At(part.Path, part.From, part.Model)
		for more := true; more && err == nil; { // what cannot be read is the agent's word
			var got transcript.Reading
			got, err = transcript.Read(ctx, part.Path, from, c.Counter())
			for _, call := range got.Calls {
				out[call.ID] = call
			}
			more = got.More && got.Cursor.Offset > from.Offset && ctx.Err() == nil
			from = got.Cursor
		}
	}
	return out
}

// countText counts a text of the hub that the model of an agent read.
func (s *Server) countText(agent hub.AgentID, part usage.Part, bytes int) {
	s.usage.Count(agent, part, 1, bytes)
}

// A spendCollector gives Prometheus the tokens and stated costs of all agents.
type spendCollector struct{ store hub.Store }

var (
	tokensDesc = prometheus.NewDesc("parley_tokens_total", "Tokens of model calls, by kind; the kinds do not overlap.", []string{"kind"}, nil)
	turnsDesc  = prometheus.NewDesc("parley_turns_total", "Turns whose usage was recorded.", nil, nil)
	costDesc   = prometheus.NewDesc("parley_stated_cost_total", "Cost of model calls that agents stated, without estimates.", []string{"currency"}, nil)
)

// Describe implements prometheus.Collector.
func (spendCollector) Describe(out chan<- *prometheus.Desc) {
	out <- tokensDesc
	out <- turnsDesc
	out <- costDesc
}

// Collect sends the totals. While they cannot be read they are missing.
func (c spendCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var sums []hub.UsageSum
	var turns map[string]int64
	err := c.store.View(ctx, func(r hub.Reader) (err error) {
		if sums, err = r.Usage().Sums(hub.UsageQuery{}); err != nil {
			return err
		}
		turns, err = r.Usage().Turns(hub.UsageQuery{})
		return err
	})
	if err != nil {
		return
	}

	var all hub.Tokens
	costs := map[string]int64{}
	for _, s := range sums {
		all = all.Plus(s.Tokens)
		if s.Currency != "" {
			costs[s.Currency] += s.Cost
		}
	}
	for kind, n := range map[string]int64{"input": all.Input, "output": all.Output, "cached_read": all.CachedRead, "cached_write": all.CachedWrite} {
		out <- prometheus.MustNewConstMetric(tokensDesc, prometheus.CounterValue, float64(n), kind)
	}
	out <- prometheus.MustNewConstMetric(turnsDesc, prometheus.CounterValue, float64(turns[""]))
	for currency, n := range costs {
		out <- prometheus.MustNewConstMetric(costDesc, prometheus.CounterValue, float64(n)/hub.Million, currency)
	}
}

// visitAll makes the wake machine consider all agents: a budget was changed.
func (s *Server) visitAll() {
	ctx, cancel := context.WithTimeout(context.Background(), visitTime)
	defer cancel()
	err := s.store.View(ctx, func(r hub.Reader) error {
		agents, err := r.Agents()
		for _, a := range agents {
			s.wakes.Visit(a.ID)
		}
		return err
	})
	if err != nil { // they are visited with their next message
		s.log.Warn("agents were not visited after a change of budgets", "err", err)
	}
}

// budgetSpent cancels the running turns of kept agents when a hard budget is spent. Others are
// asked to stop at their next tool call.
func (s *Server) budgetSpent(b hub.Budget, agents []hub.AgentID) {
	if !b.Hard {
		return
	}
	if agents == nil {
		agents = s.keeper.Names()
	}
	for _, agent := range agents {
		if s.mustEnd(agent) {
			s.keeper.Cancel(agent)
		}
	}
}

// mustEnd reports whether a budget ends the running turn of an agent. The last turn of a budget of
// turns may go on.
func (s *Server) mustEnd(agent hub.AgentID) bool {
	reason, err := hub.Read(context.Background(), s.store, func(rd hub.Reader) (string, error) { return s.usage.Exceeded(rd, agent) })
	if err != nil {
		s.log.Warn("the budgets of an agent cannot be read", "agent", agent, "err", err)
	}
	return reason != "" || err != nil
}

// blocked returns why no turn of an agent may begin; "" if one may.
func (s *Server) blocked(ctx context.Context, agent hub.AgentID) string {
	reason, err := hub.Read(ctx, s.store, func(rd hub.Reader) (string, error) {
		reason, _, err := s.usage.Blocked(rd, agent)
		return reason, err
	})
	if err != nil {
		s.log.Warn("the budgets of an agent cannot be read", "agent", agent, "err", err)
	}
	return reason
}

// recordTurnUsage records the model calls of a turn of a kept agent, in its kept session or in a
// further one, which has no tasks. A turn that runs gets a record with its first calls.
func (s *Server) recordTurnUsage(ctx context.Context, u keeper.TurnUsage) (record string, err error) {
	report := usageOf(u.Run, u.CLI, u.Calls)
	report.Ended = u.Ended
	report.Record = u.Record
	report.Kept = u.Kept
	report.Own = !u.Kept
	if !u.Kept {
		report.Run = ""
	}
	receipt, err := s.usage.Record(ctx, hub.Caller{ID: hub.Self}, report)
	return receipt.Record, err
}

// recordUsage records the model calls of a run that the hub executes.
func (s *Server) recordUsage(ctx context.Context, r hub.Run, cli string, calls []hub.ModelCall) error {
	_, err := s.usage.Record(ctx, hub.Caller{ID: hub.Self}, usageOf(r, cli, calls))
	return err
}

// usageOf returns the model calls of a run as a report.
func usageOf(r hub.Run, cli string, calls []hub.ModelCall) usage.Report {
	return usage.Report{Agent: r.Agent, Source: hub.UsageACP, CLI: cli, Session: r.Session, Run: r.ID, Turn: string(r.ID), Ended: true, Calls: calls}
}

// visitTime bounds the reading of the agents that are visited.
const visitTime = 10 * time.Second

// stopped returns why no turn of an agent may begin since its operator stopped it; "" if one may.
func (s *Server) stopped(ctx context.Context, agent hub.AgentID) string {
	reason, err := hub.Read(ctx, s.store, func(rd hub.Reader) (string, error) { return s.stoppedIn(rd, agent) })
	if err != nil {
		s.log.Warn("whether an agent is stopped cannot be read", "agent", agent, "err", err)
	}
	return reason
}

// stoppedIn is stopped in a snapshot.
func (s *Server) stoppedIn(rd hub.Reader, agent hub.AgentID) (string, error) {
	isStopped, err := s.wakes.Stopped(rd, agent)
	if err != nil || !isStopped {
		return "", err
	}
	return fmt.Sprintf("the operator stopped %s; parley wake resume %[1]s undoes it, or parley wake resume --all if all agents were stopped", agent), nil
}

// barred returns why no run of an agent may begin: its operator stopped it, or a budget is spent; "" if
// one may.
func (s *Server) barred(rd hub.Reader, agent hub.AgentID) (string, error) {
	reason, err := s.stoppedIn(rd, agent)
	if err != nil || reason != "" {
		return reason, err
	}
	reason, _, err = s.usage.Blocked(rd, agent)
	return reason, err
}

// stops returns why a tool call of an agent is denied, whatever it changes: a person stopped the
// agent, or a budget of an agent in a turn of the hub or in a session is spent. It is "" if the call
// may run.
func (s *Server) stops(ctx context.Context, agent hub.AgentID) string {
	reason, err := hub.Read(ctx, s.store, func(rd hub.Reader) (string, error) {
		isStopped, err := s.wakes.Stopped(rd, agent)
		if isStopped || err != nil {
			return stoppedText, err
		}
		works, err := s.works(rd, agent)
		if !works || err != nil {
			return "", err
		}
		reason, err := s.usage.Exceeded(rd, agent)
		if reason != "" {
			reason += "; end your turn now with a short summary of what is done and what is left"
		}
		return reason, err
	})
	if err != nil {
		s.log.Warn("whether an agent must stop cannot be read", "agent", agent, "err", err)
		return ""
	}
	return reason
}

// works reports whether the hub runs a turn of an agent, or a session of it lives.
func (s *Server) works(rd hub.Reader, agent hub.AgentID) (bool, error) {
	if s.keeper.InTurn(agent) {
		return true, nil
	}
	sessions, err := s.wakes.List(rd, agent)
	return slices.ContainsFunc(sessions, func(one wake.Session) bool { return one.State != wake.SessionEnded }), err
}

// stoppedText is read by a model after the words of its CLI about a refused call.
const stoppedText = "your operator stopped this agent; end your turn now, without further tool calls, until the operator lets you go on"

// askFile answers a question of the guard beside an agent that the hub runs: an agent that must
// stop is denied, before its files are considered.
func (s *Server) askFile(ctx context.Context, actor hub.Caller, q reservation.Question) (reservation.Answer, error) {
	return api.AskGuarded(ctx, s.files, s.stops, actor, q)
}
