package usage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Part is a sort of text that models read because of the hub.
type Part string

// The parts. The definitions of tools are part of every call of a model; the others are read once.
const (
	Definitions  Part = "tool definitions"
	Answers      Part = "tool answers"
	Notices      Part = "notices"
	Instructions Part = "instructions"
)

// Parts lists the parts.
var Parts = []Part{Definitions, Answers, Notices, Instructions}

// ByCoordination is the kind of the sums that Coordination returns.
const ByCoordination hub.UsageKind = "coordination"

const (
	bytesPerToken = 4  // of English and JSON, roughly
	maxDays       = 60 // that are kept
	coordDoc      = "coordination/"
)

// A tally counts texts of one part.
type tally struct {
	Times int64 `json:"times"`
	Bytes int64 `json:"bytes"`
}

// A ledger has the tallies of one agent by day and part.
type ledger map[string]map[Part]tally

// add adds a tally to a day.
func (l ledger) add(day string, p Part, t tally) {
	if l[day] == nil {
		l[day] = map[Part]tally{}
	}
	sum := l[day][p]
	sum.Times += t.Times
	sum.Bytes += t.Bytes
	l[day][p] = sum
}

// trim forgets the oldest days.
func (l ledger) trim() {
	var days []string
	for day := range l {
		days = append(days, day)
	}
	slices.Sort(days)
	for _, day := range days[:max(len(days)-maxDays, 0)] {
		delete(l, day)
	}
}

// counting holds the tallies that are not stored yet. A crash loses them: they are estimates.
type counting struct {
	mu      sync.Mutex // guards pending
	pending map[hub.AgentID]map[Part]tally
}

// addTo adds the tallies of an agent to sums. Definitions count for each model call, not here.
func (c *counting) addTo(agent hub.AgentID, sums map[Part]tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range []Part{Answers, Notices, Instructions} {
		t := sums[p]
		t.Times += c.pending[agent][p].Times
		t.Bytes += c.pending[agent][p].Bytes
		sums[p] = t
	}
}

// take removes and returns the tallies of an agent.
func (c *counting) take(agent hub.AgentID) map[Part]tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.pending[agent]
	delete(c.pending, agent)
	return out
}

// giveBack puts tallies back that were taken and not stored.
func (c *counting) giveBack(agent hub.AgentID, taken map[Part]tally) {
	for p, t := range taken {
		c.add(agent, p, t)
	}
}

// add adds a tally of an agent.
func (c *counting) add(agent hub.AgentID, p Part, t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[agent] == nil {
		c.pending[agent] = map[Part]tally{}
	}
	sum := c.pending[agent][p]
	sum.Times += t.Times
	sum.Bytes += t.Bytes
	c.pending[agent][p] = sum
}

// Count notes that a model read texts of the hub. They are stored with the next turn of the agent.
func (s *Service) Count(agent hub.AgentID, p Part, times, bytes int) {
	if times <= 0 || bytes < 0 || !slices.Contains(Parts, p) {
		return
	}
	s.counts.add(agent, p, tally{int64(times), int64(bytes)})
}

// storeCounts stores the tallies of an agent inside the transaction of its turn.
func (s *Service) storeCounts(tx hub.Tx, agent hub.AgentID, pending map[Part]tally, now hub.Time) error {
	if len(pending) == 0 {
		return nil
	}
	l, err := hub.ReadMeta[ledger](tx, coordDoc+string(agent))
	if err != nil {
		return err
	}
	if l == nil {
		l = ledger{}
	}
	for p, t := range pending {
		l.add(now.Format(time.DateOnly), p, t)
	}
	l.trim()
	return hub.WriteMeta(tx, coordDoc+string(agent), l)
}

// Coordination returns what the hub itself costs: the tokens of its texts that models read, by
// part. They are estimates by the lengths of the texts. The definitions of tools count once for
// every call of a model; most vendors read them from a cache.
func (s *Service) Coordination(ctx context.Context, actor hub.Caller, q Query) (Spend, error) {
	const op = "usage.Coordination"
	if !actor.Audits() {
		if q.Agent != "" && q.Agent != actor.ID {
			return Spend{}, hub.Errorf(hub.CodeDenied, op, "only the operator and auditors see the usage of %s", q.Agent)
		}
		q.Agent = actor.ID
	}
	out, err := hub.Read(ctx, s.store, func(rd hub.Reader) (Spend, error) { return s.coordination(rd, q) })
	if err != nil {
		return Spend{}, fmt.Errorf("usage: %w", err)
	}
	return out, nil
}

// coordination sums up the texts of the hub in a snapshot.
func (s *Service) coordination(rd hub.Reader, q Query) (Spend, error) {
	out := Spend{Since: q.Since, By: ByCoordination, Rows: []Row{}}
	agents, err := rd.Agents()
	if err != nil {
		return out, err
	}
	sums := map[Part]tally{}
	for _, agent := range agents {
		if q.Agent != "" && agent.ID != q.Agent {
			continue
		}
		if err := addLedger(rd, agent.ID, q.Since, sums); err != nil {
			return out, err
		}
		s.counts.addTo(agent.ID, sums)
	}
	for _, p := range Parts {
		row := Row{Key: string(p), Turns: sums[p].Times, Cost: []Cost{}}
		row.Input = sums[p].Bytes / bytesPerToken
		out.Rows = append(out.Rows, row)
		out.Total.Tokens = out.Total.Tokens.Plus(row.Tokens)
	}
	out.Total.Cost = []Cost{}
	turns, err := rd.Usage().Turns(hub.UsageQuery{Since: q.Since, Agent: q.Agent})
	out.Total.Turns = turns[""]
	return out, err
}

// addLedger adds the tallies of one agent. The definitions that it listed last count for each of
// its model calls.
func addLedger(rd hub.Reader, agent hub.AgentID, since hub.Time, sums map[Part]tally) error {
	l, err := hub.ReadMeta[ledger](rd, coordDoc+string(agent))
	if err != nil || len(l) == 0 {
		return err
	}
	first := since.Format(time.DateOnly)
	listed := tally{}
	add := func(p Part, times, bytes int64) {
		sum := sums[p]
		sum.Times += times
		sum.Bytes += bytes
		sums[p] = sum
	}
	for day, parts := range l {
		listed.Times += parts[Definitions].Times
		listed.Bytes += parts[Definitions].Bytes
		if !since.IsZero() && day < first {
			continue
		}
		for _, p := range []Part{Answers, Notices, Instructions} {
			add(p, parts[p].Times, parts[p].Bytes)
		}
	}
	if listed.Times == 0 {
		return nil
	}
	calls, err := rd.Usage().Sums(hub.UsageQuery{Since: since, Agent: agent})
	for _, c := range calls {
		if c.Tokens == (hub.Tokens{}) { // a turn without calls
			continue
		}
		add(Definitions, c.Calls, c.Calls*(listed.Bytes/listed.Times))
	}
	return err
}
