// Package usage keeps the tokens and costs of model calls, says which work they were for, and
// bounds them by budgets.
//
// A CLI, an agent over ACP or a plugin tells its counts at the end of each turn: [Service.Record]
// stores one row for each model call, once for its CLI and id, and one journal entry with the
// sums of the turn. No text of a prompt or an answer is part of it.
//
// attribute.go decides for which run, handoff, task or thread a call was made; sums.go adds up
// what was stored, with estimates by the table of prices.go for calls without a stated cost;
// budget.go compares the sums with the budgets and says which agents must not begin a turn.
//
// The package reads no transcripts and stops no agents: internal/reach/transcript reads, and the
// wake machine, the keeper and the guard ask [Service.Blocked]. It believes the counts that an
// agent tells about itself, within bounds. It is tested here and through a hub in package server.
package usage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/pattern"
)

const (
	maxCalls   = 5000 // of one report
	maxID      = 256  // bytes of the id of a call
	maxSession = 512  // bytes
	pastTime   = 24 * time.Hour
)

// Mail writes messages of the hub.
type Mail interface {
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// TellOperator writes a message of the hub to the operator inside tx.
	TellOperator(tx hub.Tx, payload any) (hub.Message, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock  hub.Clock    // default time.Now
	Bus    hub.Bus      // gets a hint after every change; may be nil
	Log    *slog.Logger // default silent
	Prices string       // path of the operator's prices; "" for none

	// Spent is called after a budget became spent, with the agents that must stop: nil for all agents
	// of the hub. It may be nil.
	Spent func(b hub.Budget, agents []hub.AgentID)
	// Opened is called after a budget was changed or removed. It may be nil.
	Opened func()
}

// A Service keeps usage in a store. It is safe for concurrent use.
type Service struct {
	store hub.Store
	mail  Mail
	o     Options
	focus focusCache

	counts counting

	pricing sync.Mutex // guards prices
	prices  *Prices
}

// New returns a Service. opts may be nil.
func New(store hub.Store, mail Mail, opts *Options) *Service {
	s := &Service{store: store, mail: mail, focus: focusCache{last: map[hub.AgentID]focusPoint{}}, counts: counting{pending: map[hub.AgentID]map[Part]tally{}}}
	if opts != nil {
		s.o = *opts
	}
	if s.o.Clock == nil {
		s.o.Clock = time.Now
	}
	if s.o.Log == nil {
		s.o.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// A Report is the usage of a turn, or of a part of it.
type Report struct {
	Agent   hub.AgentID     `json:"agent,omitempty"` // default the caller; another one only for the operator
	Source  hub.UsageSource `json:"source"`
	CLI     string          `json:"cli"`
	Session string          `json:"session,omitempty"`
	Run     hub.RunID       `json:"run,omitempty"`    // in which the calls were made
	Turn    string          `json:"turn,omitempty"`   // names the turn, so that it is counted once even without calls
	Record  string          `json:"record,omitempty"` // that the turn has already, from the receipt of an earlier report
	Ended   bool            `json:"ended,omitempty"`
	Calls   []hub.ModelCall `json:"calls"`

	// Kept says that Run is a turn of an agent that the hub runs: the work is the one that the
	// agent has accepted, not the run.
	Kept bool `json:"-"`

	// Own says that the calls are for no task: they are of a session that has none.
	Own bool `json:"-"`
}

// A Receipt says what was recorded.
type Receipt struct {
	Record string `json:"record,omitempty"` // of the turn; empty if it has none
	New    int    `json:"new"`              // calls
	Known  int    `json:"known"`            // calls that were recorded before
}

// Record stores the usage of a turn. Calls that are known change nothing. A turn that ended
// without any call counts as a turn without tokens. Calls that come later than the others are
// added to the record of their turn, with a journal entry of their own.
func (s *Service) Record(ctx context.Context, actor hub.Caller, r Report) (Receipt, error) {
	const op = "usage.Record"
	agent, err := reportedAgent(op, actor, r)
	if err != nil {
		return Receipt{}, err
	}
	if err := checkReport(op, r); err != nil {
		return Receipt{}, err
	}

	var out Receipt
	var c consequences
	read := s.counts.take(agent)
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		out, c = Receipt{}, consequences{}
		if err := s.storeCounts(tx, agent, read, s.o.Clock.Now()); err != nil {
			return err
		}
		out, c, err = s.record(tx, actor, agent, r)
		return err
	})
	if err != nil {
		s.counts.giveBack(agent, read)
		return Receipt{}, fmt.Errorf("usage: record: %w", err)
	}
	s.follow(c)
	return out, nil
}

// record stores the usage inside a transaction.
func (s *Service) record(tx hub.Tx, actor hub.Caller, agent hub.AgentID, r Report) (out Receipt, c consequences, err error) {
	now := s.o.Clock.Now()
	if _, err := tx.Agent(agent); err != nil {
		return out, c, err
	}
	w, err := s.loadWork(tx, agent, r)
	if err != nil {
		return out, c, err
	}
	number, isJoined, err := joined(tx, agent, r, w)
	if err == nil && !isJoined {
		number, err = nextNumber(tx, recordKey)
	}
	if err != nil {
		return out, c, err
	}

	// Every call is a row of its own, attributed by its time. A turn without calls is one, too.
	calls := r.Calls
	isEmpty := len(calls) == 0 && r.Ended && !isJoined
	if isEmpty {
		calls = []hub.ModelCall{{ID: emptyTurn(r, number)}}
	}
	rows := make([]hub.Usage, len(calls))
	for i, call := range calls {
		u := hub.Usage{ModelCall: call, Record: number, Source: r.Source, Agent: agent, CLI: r.CLI, Session: r.Session, Run: r.Run}
		u.At = recordedAt(call.At, now)
		w.attribute(&u)
		rows[i] = u
	}
	added, err := addRows(tx, rows)
	if err != nil {
		return out, c, err
	}
	out.New = min(len(added), len(r.Calls))
	out.Known = len(r.Calls) - out.New
	if len(added) == 0 {
		out.Record, err = knownRecord(tx, agent, r)
		return out, c, err
	}

	out.Record = hub.NewUsageID(number)
	if _, err := tx.Append(actor.Entry(now, actions.UsageRecorded, out.Record, factsOf(added))); err != nil {
		return out, c, err
	}
	c, err = s.compare(tx, now, added)
	return out, c, err
}

// addRows stores usage and returns the rows that are new.
func addRows(tx hub.Tx, rows []hub.Usage) (added []hub.Usage, err error) {
	for _, u := range rows {
		isNew, err := tx.WriteUsage().Add(u)
		if err != nil {
			return nil, err
		}
		if isNew {
			added = append(added, u)
		}
	}
	return added, nil
}

// factsOf returns the facts of the journal entry about the rows of a turn: their sums.
func factsOf(rows []hub.Usage) map[string]any {
	var sum hub.Tokens
	cost := int64(0)
	for _, u := range rows {
		sum = sum.Plus(u.Tokens)
		cost += u.Cost
	}
	facts := map[string]any{
		"agent": rows[0].Agent, "source": rows[0].Source, "cli": rows[0].CLI, "calls": len(rows),
		"input": sum.Input, "output": sum.Output, "cached_read": sum.CachedRead, "cached_write": sum.CachedWrite, "reasoning": sum.Reasoning,
	}
	if cost > 0 {
		facts["cost"] = cost
	}
	return facts
}

// joined returns the record that a report is added to, and whether there is one: it must be of the
// same agent, CLI and session. The calls have the wake and the conversation of the others there.
func joined(rd hub.Reader, agent hub.AgentID, r Report, w *work) (number int64, isJoined bool, err error) {
	if number = hub.UsageNumber(r.Record); number == 0 {
		return 0, false, nil
	}
	first, err := rd.Usage().First(number)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return 0, false, nil
	}
	isSame := first.Agent == agent && first.CLI == r.CLI && first.Session == r.Session
	if err != nil || !isSame {
		return 0, false, err
	}
	w.wake = first.Wake
	w.thread = first.Thread
	w.team = ""
	if first.Thread != "" {
		w.team = first.Team
	}
	return number, true, nil
}

// knownRecord returns the record of a report whose calls were all recorded before: its receipt may
// have been lost. It is "" for calls of another session, as in a copied transcript.
func knownRecord(rd hub.Reader, agent hub.AgentID, r Report) (string, error) {
	if len(r.Calls) == 0 {
		return "", nil
	}
	u, err := rd.Usage().Call(r.CLI, r.Calls[0].ID)
	isSame := err == nil && u.Agent == agent && u.Session == r.Session
	if !isSame {
		return "", err
	}
	return hub.NewUsageID(u.Record), nil
}

// emptyTurn returns the id of the row of a turn without calls.
func emptyTurn(r Report, number int64) string {
	if r.Turn != "" {
		return "turn:" + r.Turn
	}
	return "turn:" + hub.NewUsageID(number)
}

// recordedAt returns the time of a call, if its source tells a plausible one: clocks of agents
// may be wrong, and usage of long ago must not escape a budget.
func recordedAt(at, now hub.Time) hub.Time {
	if at.IsZero() || at.After(now.Time) || now.Sub(at.Time) > pastTime {
		return now
	}
	return at
}

// recordKey is where the number of the newest record is stored, and budgetKey that of the
// newest budget.
const (
	recordKey = "usage/record"
	budgetKey = "usage/budget"
)

// nextNumber returns the next number of a counter.
func nextNumber(tx hub.Tx, key string) (int64, error) {
	n, err := hub.ReadMeta[int64](tx, key)
	if err != nil {
		return 0, err
	}
	return n + 1, hub.WriteMeta(tx, key, n+1)
}

// reportedAgent returns the agent whose usage a report is about. An agent reports its own.
func reportedAgent(op string, actor hub.Caller, r Report) (hub.AgentID, error) {
	switch {
	case actor.IsOperator() || actor.ID == hub.Self:
		if r.Agent == "" {
			return "", hub.Errorf(hub.CodeInvalid, op, "agent is required")
		}
		return r.Agent, nil
	case r.Agent != "" && r.Agent != actor.ID:
		return "", hub.Errorf(hub.CodeDenied, op, "%s may not report the usage of %s", actor.ID, r.Agent)
	}
	return actor.ID, nil
}

var (
	modelForm    = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:/@+\[\]() -]{0,127}$`)
	idForm       = pattern.New(`^[A-Za-z0-9._:/@+=#-]+$`)
	cliForm      = pattern.New(`^[a-z0-9-]{1,32}$`)
	currencyForm = pattern.New(`^[A-Z]{3}$`)
)

// checkReport refuses a report that is not well formed. A hostile count refuses all of it, so
// that no sum is half right.
func checkReport(op string, r Report) error {
	switch {
	case !slices.Contains(hub.UsageSources, r.Source):
		return hub.Errorf(hub.CodeInvalid, op, "unknown source %.50q: use %s", r.Source, hub.JoinWords(hub.UsageSources))
	case !cliForm().MatchString(r.CLI):
		return hub.Errorf(hub.CodeInvalid, op, "cli must be the name of a CLI, got %.50q", r.CLI)
	case len(r.Session) > maxSession || len(r.Turn) > maxID || len(r.Run) > maxID:
		return hub.Errorf(hub.CodeTooLarge, op, "session, turn or run is too long")
	case r.Record != "" && hub.UsageNumber(r.Record) == 0:
		return hub.Errorf(hub.CodeInvalid, op, "record must be one of a receipt, got %.50q", r.Record)
	case r.Turn != "" && !idForm().MatchString(r.Turn):
		return hub.Errorf(hub.CodeInvalid, op, "turn has characters that ids do not have")
	case len(r.Calls) > maxCalls:
		return hub.Errorf(hub.CodeTooLarge, op, "too many calls: %d, limit %d", len(r.Calls), maxCalls)
	}
	for i, c := range r.Calls {
		if err := checkCall(op, i, c); err != nil {
			return err
		}
	}
	return nil
}

// checkCall refuses a call that no model can have made.
func checkCall(op string, i int, c hub.ModelCall) error {
	isNamed := idForm().MatchString(c.ID) && len(c.ID) <= maxID
	hasCost := c.Cost != 0 || c.Currency != ""
	switch {
	case !isNamed:
		return hub.Errorf(hub.CodeInvalid, op, "calls[%d].id must be at most %d letters, digits and punctuation, got %.50q", i, maxID, c.ID)
	case c.Model != "" && !modelForm().MatchString(c.Model):
		return hub.Errorf(hub.CodeInvalid, op, "calls[%d].model is not the name of a model: %.50q", i, c.Model)
	case !c.Tokens.Valid():
		return hub.Errorf(hub.CodeInvalid, op, "calls[%d] has counts that no model has: %+v", i, c.Tokens)
	case hasCost && (c.Cost < 0 || c.Cost > hub.MaxCost || !currencyForm().MatchString(c.Currency)):
		return hub.Errorf(hub.CodeInvalid, op, "calls[%d] has a cost that no call has: %d %.8q", i, c.Cost, c.Currency)
	}
	return nil
}
