// Package usage keeps the tokens and costs of model calls, says which work they were for, and
// bounds them by budgets.
//
// A CLI, an agent over ACP or a plugin tells its counts at the end of each turn: [Service.Record]
// stores one row for each model call, once for its agent and id, and one journal entry with the
// sums of the turn. No text of a prompt or an answer is part of it.
//
// What the hub read itself is known: the protocol of an agent that it runs, and the transcripts of
// CLIs. The rest is the word of an agent. It counts for the budgets of that agent and its handoffs
// alone, and never hides or replaces what is known. said.go has these rules.
//
// attribute.go decides for which run, handoff, task or thread a call was made; sums.go adds up
// what was stored, with estimates by the table of prices.go for calls without a stated cost;
// budget.go compares the sums with the budgets and says which agents must not begin a turn.
//
// The package reads no transcripts and stops no agents: internal/desk/transcript reads, and the
// wake machine, the keeper and the guard ask [Service.Blocked]. It is tested here and through a hub in
// package server.
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
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

const (
	maxCalls   = 5000 // of one report
	maxFiles   = 200  // of one report
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

	// Read returns the calls that the hub finds in the transcripts of a report, by their ids. Default:
	// none, and everything that agents report is their word.
	Read func(context.Context, Report) map[string]hub.ModelCall

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

	// Files are the places in transcripts from which the calls were read, so that the hub can read them
	// itself.
	Files []TranscriptPart `json:"files,omitempty"`

	// Kept says that Run is a turn of an agent that the hub runs: the work is the one that the
	// agent has accepted, not the run.
	Kept bool `json:"-"`

	// Own says that the calls are for no task: they are of a session that has none.
	Own bool `json:"-"`
}

// A TranscriptPart is a place in a transcript.
type TranscriptPart struct {
	Path  string `json:"path"`
	From  int64  `json:"from"`            // bytes before it
	Model string `json:"model,omitempty"` // of the lines before it
}

// A Receipt says what was recorded.
type Receipt struct {
	Record string `json:"record,omitempty"` // of the turn; empty if it has none
	New    int    `json:"new"`              // calls that are new, or have larger counts than before
	Known  int    `json:"known"`            // calls that changed nothing
}

// Record stores the usage of a turn. Of two reports of one call the larger counts. A turn that ended
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

	rows := s.rowsOf(ctx, actor, agent, r)
	var out Receipt
	var c consequences
	read := s.counts.take(agent)
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		out, c = Receipt{}, consequences{}
		if err := s.storeCounts(tx, agent, read, s.o.Clock.Now()); err != nil {
			return err
		}
		out, c, err = s.record(tx, actor, r, slices.Clone(rows))
		return err
	})
	if err != nil {
		s.counts.giveBack(agent, read)
		return Receipt{}, fmt.Errorf("usage: record: %w", err)
	}
	s.follow(c)
	return out, nil
}

// rowsOf returns the calls of a report as rows, before it is known which work they were for. The hub
// reads the transcripts itself, which are files, so it does so outside of a transaction.
func (s *Service) rowsOf(ctx context.Context, actor hub.Caller, agent hub.AgentID, r Report) []hub.Usage {
	isOurs := ours(actor)
	var read map[string]hub.ModelCall
	if s.o.Read != nil && !isOurs && len(r.Files) > 0 {
		read = s.o.Read(ctx, r)
	}
	prices := s.currentPrices()
	rows := make([]hub.Usage, len(r.Calls))
	for i, call := range r.Calls {
		u := hub.Usage{ModelCall: call, Source: r.Source, Agent: agent, CLI: r.CLI, Session: r.Session, Run: r.Run, Known: isOurs}
		if seen, ok := read[call.ID]; ok {
			u.ModelCall = seen
			u.Known = true
		}
		if !u.Known {
			prices.bound(&u.ModelCall)
		}
		rows[i] = u
	}
	return rows
}

// record stores the usage inside a transaction.
func (s *Service) record(tx hub.Tx, actor hub.Caller, r Report, rows []hub.Usage) (out Receipt, c consequences, err error) {
	now := s.o.Clock.Now()
	agent := actor.ID
	if ours(actor) {
		agent = r.Agent
	}
	if _, err := tx.Agent(agent); err != nil {
		return out, c, err
	}
	w, err := s.loadWork(tx, actor, agent, r)
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
	isEmpty := len(rows) == 0 && r.Ended && !isJoined
	if isEmpty {
		rows = []hub.Usage{{ModelCall: hub.ModelCall{ID: emptyTurn(r, number)}, Source: r.Source, Agent: agent, CLI: r.CLI, Session: r.Session, Run: r.Run, Known: ours(actor)}}
	}
	changes := changeList{tx: tx}
	for _, u := range rows {
		u.Record = number
		u.At = recordedAt(u.At, now)
		w.attribute(&u)
		if err := changes.put(u); err != nil {
			return out, c, err
		}
	}
	c.messages, err = s.tellDropped(tx, now, changes.dropped)
	if err != nil {
		return out, c, err
	}
	out.New = min(changes.grown, len(r.Calls))
	out.Known = len(r.Calls) - out.New
	if len(changes.all) == 0 {
		out.Record, err = knownRecord(tx, agent, r)
		return out, c, err
	}

	out.Record = hub.NewUsageID(changes.record(agent))
	for _, facts := range changes.facts() {
		if _, err := tx.Append(actor.Entry(now, actions.UsageRecorded, facts.subject, facts.members)); err != nil {
			return out, c, err
		}
	}
	judged, err := s.compare(tx, now, changes.rows())
	judged.messages = append(c.messages, judged.messages...)
	return out, judged, err
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
	all, err := rd.Usage().Calls(r.Calls[0].ID)
	i := slices.IndexFunc(all, func(u hub.Usage) bool { return u.Agent == agent && u.Session == r.Session })
	if err != nil || i < 0 {
		return "", err
	}
	return hub.NewUsageID(all[i].Record), nil
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

// ours reports whether a caller is the hub or its operator, whose programs read the protocol of agents.
func ours(actor hub.Caller) bool { return actor.IsOperator() || actor.ID == hub.Self }

// reportedAgent returns the agent whose usage a report is about. An agent reports its own.
func reportedAgent(op string, actor hub.Caller, r Report) (hub.AgentID, error) {
	switch {
	case ours(actor):
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
	case len(r.Files) > maxFiles:
		return hub.Errorf(hub.CodeTooLarge, op, "too many files: %d, limit %d", len(r.Files), maxFiles)
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
