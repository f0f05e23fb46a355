package usage

import (
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// bound limits the cost that an agent states for a call to what its tokens cost at most by the prices. A
// cost in a currency in which nothing has a price is left out: the tokens are estimated.
func (p *Prices) bound(c *hub.ModelCall) {
	if c.Currency == "" {
		return
	}
	top, ok := p.highest("", c.Currency)
	if !ok {
		c.Cost = 0
		c.Currency = ""
		return
	}
	c.Cost = min(c.Cost, top.cost(c.Tokens))
}

// A change is one row of usage before and after a report. Before is zero if the row is new.
type change struct{ before, after hub.Usage }

// A changeList stores the calls of a report, and remembers what changed.
//
// A call has one row for each agent that reported it. Of two reports of one agent the larger counts, and
// the hub's own reading instead of any word. Of several agents the one whose call the hub knows keeps
// it: the rows of the others are emptied, and their word is dropped. Agents that only say so keep a row
// each, which counts for themselves.
type changeList struct {
	tx      hub.Tx
	all     []change
	grown   int           // calls of the report that count more than before
	dropped []hub.AgentID // agents whose word about a call was dropped
}

// put stores a call.
func (l *changeList) put(u hub.Usage) error {
	stored, err := l.tx.Usage().Calls(u.ID)
	if err != nil {
		return err
	}
	var mine *hub.Usage
	isOthers := false
	for _, o := range stored {
		isContested := o.Known || u.Known
		switch {
		case o.Agent == u.Agent:
			mine = &o
		case !isContested:
		case u.Exceeds(o):
			if err := l.empty(o); err != nil {
				return err
			}
		default:
			isOthers = true
		}
	}

	switch {
	case isOthers && !u.Known:
		l.drop(u.Agent)
		return nil
	case isOthers: // a copy of a transcript
		return nil
	case mine == nil:
		l.grown++
		l.all = append(l.all, change{after: u})
		_, err := l.tx.WriteUsage().Add(u)
		return err
	case !u.Exceeds(*mine):
		return nil
	}
	l.grown++
	after := *mine
	after.Source = u.Source
	after.Model = u.Model
	after.Tokens = u.Tokens
	after.Cost = u.Cost
	after.Currency = u.Currency
	after.Known = u.Known
	return l.replace(*mine, after)
}

// empty takes the counts of a row away: the call is another agent's.
func (l *changeList) empty(o hub.Usage) error {
	if !o.Known {
		l.drop(o.Agent)
	}
	isEmpty := o.Tokens == hub.Tokens{} && o.Cost == 0
	if isEmpty {
		return nil
	}
	after := o
	after.Tokens = hub.Tokens{}
	after.Cost = 0
	after.Currency = ""
	return l.replace(o, after)
}

// drop remembers an agent whose word was dropped.
func (l *changeList) drop(agent hub.AgentID) {
	if !slices.Contains(l.dropped, agent) {
		l.dropped = append(l.dropped, agent)
	}
}

// replace stores other counts of a row.
func (l *changeList) replace(before, after hub.Usage) error {
	l.all = append(l.all, change{before, after})
	return l.tx.WriteUsage().Replace(after)
}

// rows returns the rows that changed, as they are now.
func (l *changeList) rows() (out []hub.Usage) {
	for _, c := range l.all {
		out = append(out, c.after)
	}
	return out
}

// record returns the record of the newest change of an agent's rows.
func (l *changeList) record(agent hub.AgentID) (number int64) {
	for _, c := range l.all {
		if c.after.Agent == agent {
			number = max(number, c.after.Record)
		}
	}
	return number
}

// recordFacts are the facts of a journal entry about a record.
type recordFacts struct {
	subject string
	members map[string]any
}

// facts returns the facts of the journal entries: for each record by how much its sums changed.
func (l *changeList) facts() (out []recordFacts) {
	records := map[int64][]change{}
	for _, c := range l.all {
		records[c.after.Record] = append(records[c.after.Record], c)
	}
	done := map[int64]bool{}
	for _, c := range l.all {
		if number := c.after.Record; !done[number] {
			done[number] = true
			out = append(out, recordFacts{hub.NewUsageID(number), factsOf(records[number])})
		}
	}
	return out
}

// factsOf returns the facts of the journal entry about the changes of a record: by how much its sums
// grew, or shrank.
func factsOf(changes []change) map[string]any {
	var sum hub.Tokens
	cost := int64(0)
	calls := 0
	for _, c := range changes {
		sum = sum.Plus(c.after.Tokens).Minus(c.before.Tokens)
		cost += c.after.Cost - c.before.Cost
		if c.before.ID == "" {
			calls++
		}
	}
	last := changes[len(changes)-1].after
	facts := map[string]any{
		"agent": last.Agent, "source": last.Source, "cli": last.CLI, "calls": calls,
		"input": sum.Input, "output": sum.Output, "cached_read": sum.CachedRead, "cached_write": sum.CachedWrite, "reasoning": sum.Reasoning,
	}
	if cost != 0 {
		facts["cost"] = cost
	}
	if !last.Known {
		facts["said"] = true
	}
	return facts
}

const (
	droppedDoc  = "usage/dropped/"
	droppedTime = 24 * time.Hour // between two messages about the same agent
)

// tellDropped tells the operator, once a day for each agent, that its word about a call was dropped.
func (s *Service) tellDropped(tx hub.Tx, now hub.Time, agents []hub.AgentID) (out []hub.Message, err error) {
	for _, agent := range agents {
		last, err := hub.ReadMeta[hub.Time](tx, droppedDoc+string(agent))
		if err != nil {
			return nil, err
		}
		if !last.IsZero() && now.Sub(last.Time) < droppedTime {
			continue
		}
		if err := hub.WriteMeta(tx, droppedDoc+string(agent), now); err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%s reported a model call that another agent made, as the hub read itself; its report does not count", agent)
		m, err := s.mail.TellOperator(tx, map[string]any{"code": hub.CodeDenied, "message": text})
		if err != nil {
			return nil, err
		}
		if m.ID != "" {
			out = append(out, m)
		}
	}
	return out, nil
}
