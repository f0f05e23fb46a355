package server

import (
	"context"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/transcript"
	"github.com/parley-agents/parley/internal/service/usage"
)

// PricesFile is the name of the operator's file of prices in the home.
const PricesFile = "prices.json"

// openUsage builds the service that keeps tokens, costs and budgets.
func (s *Server) openUsage(context.Context) error {
	s.usage = usage.New(s.store, s.mail, &usage.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Prices: filepath.Join(s.opts.Home, PricesFile),
		Read: readTranscripts, Opened: s.wakes.VisitAll,
		Spent: func(b hub.Budget, agents []hub.AgentID) { s.keeper.BudgetSpent(b, agents) },
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

// barred returns why no run of an agent may begin: its operator stopped it, or a budget is spent; "" if
// one may.
func (s *Server) barred(rd hub.Reader, agent hub.AgentID) (string, error) {
	reason, err := s.wakes.StoppedIn(rd, agent)
	if err != nil || reason != "" {
		return reason, err
	}
	reason, _, err = s.usage.Blocked(rd, agent)
	return reason, err
}
