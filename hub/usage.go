package hub

import (
	"slices"
	"strconv"
	"time"
)

// A UsageSource says where the counts of a model call were read.
type UsageSource string

// The sources of usage.
const (
	UsageACP        UsageSource = "acp"        // the answer to a prompt, and updates during it
	UsageTranscript UsageSource = "transcript" // the file that a CLI writes of its session
	UsagePlugin     UsageSource = "plugin"     // an event inside of a CLI
	UsageHook       UsageSource = "hook"       // the input of a hook
)

// UsageSources lists the sources.
var UsageSources = []UsageSource{UsageACP, UsageTranscript, UsagePlugin, UsageHook}

// Tokens are counts of a model's tokens. The parts of the input do not overlap: each token is
// in one of Input, CachedRead and CachedWrite. Output includes Reasoning.
type Tokens struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	CachedRead  int64 `json:"cached_read"`
	CachedWrite int64 `json:"cached_write"`
	Reasoning   int64 `json:"reasoning"`
}

// Sum returns all tokens, each counted once.
func (t Tokens) Sum() int64 { return t.Input + t.Output + t.CachedRead + t.CachedWrite }

// Plus returns the sums of the parts.
func (t Tokens) Plus(o Tokens) Tokens {
	return Tokens{t.Input + o.Input, t.Output + o.Output, t.CachedRead + o.CachedRead, t.CachedWrite + o.CachedWrite, t.Reasoning + o.Reasoning}
}

// Minus returns the differences of the parts.
func (t Tokens) Minus(o Tokens) Tokens {
	return Tokens{t.Input - o.Input, t.Output - o.Output, t.CachedRead - o.CachedRead, t.CachedWrite - o.CachedWrite, t.Reasoning - o.Reasoning}
}

// Bounds of the counts of one model call or one turn. Larger ones are refused: no model has them.
const (
	MaxTokens = 1_000_000_000
	MaxCost   = 100_000 * Million // in millionths of a currency's unit
)

// Million is the number of parts in which money is counted: 1 USD is stored as 1,000,000.
const Million = 1_000_000

// Valid reports whether the counts are such as a model can have: none is negative or absurdly
// large, and reasoning is a part of the output.
func (t Tokens) Valid() bool {
	for _, n := range []int64{t.Input, t.Output, t.CachedRead, t.CachedWrite, t.Reasoning} {
		if n < 0 || n > MaxTokens {
			return false
		}
	}
	return t.Reasoning <= t.Output
}

// A ModelCall is the usage of one call of a model, or of several that its source does not tell
// apart.
type ModelCall struct {
	ID       string `json:"id"` // names the call among all of its agent; the same in a copy of its source
	Model    string `json:"model,omitempty"`
	Tokens          // members of the call
	Cost     int64  `json:"cost,omitempty"`     // that the agent states, in millionths
	Currency string `json:"currency,omitempty"` // of Cost, such as USD; empty if the agent states no cost
	At       Time   `json:"at,omitzero"`
}

// A Usage is the stored usage of one model call: who made it, and for which work.
type Usage struct {
	ModelCall
	Record  int64       `json:"record"` // the number of the turn's record, one for each turn
	Source  UsageSource `json:"source"`
	Agent   AgentID     `json:"agent"`
	CLI     string      `json:"cli"`
	Session string      `json:"session,omitempty"`
	Run     RunID       `json:"run,omitempty"`
	Handoff HandoffID   `json:"handoff,omitempty"`
	Task    TaskID      `json:"task,omitempty"`
	Team    TeamID      `json:"team,omitempty"`
	Wake    string      `json:"wake,omitempty"`
	Thread  string      `json:"thread,omitempty"`

	// Known says that the hub read the counts itself: from the protocol of an agent that it runs, or
	// from the transcript of a CLI. Others are the word of the agent.
	Known bool `json:"known,omitempty"`
}

// Exceeds reports whether the counts of u take the place of those of another report of the same call: the
// hub's own reading does, and of two readings or two words the larger one.
func (u Usage) Exceeds(o Usage) bool {
	switch {
	case u.Known != o.Known:
		return u.Known
	case u.Tokens.Sum() != o.Tokens.Sum():
		return u.Tokens.Sum() > o.Tokens.Sum()
	}
	return u.Cost > o.Cost
}

// A UsageKind is a member by which usage is summed up.
type UsageKind string

// The kinds of sums.
const (
	ByAgent   UsageKind = "agent"
	ByTask    UsageKind = "task" // a handoff, run or thread where there is no task
	ByHandoff UsageKind = "handoff"
	ByTeam    UsageKind = "team"
	ByModel   UsageKind = "model"
	ByDay     UsageKind = "day" // in UTC
	ByRun     UsageKind = "run"
)

// UsageKinds lists the kinds of sums.
var UsageKinds = []UsageKind{ByAgent, ByTask, ByHandoff, ByTeam, ByModel, ByDay, ByRun}

// Known reports whether k is one of UsageKinds.
func (k UsageKind) Known() bool { return slices.Contains(UsageKinds, k) }

// OwnWork is the key of usage that belongs to no run, handoff, task or thread.
const OwnWork = "own work"

// A UsageQuery selects usage. Empty members do not restrict it.
type UsageQuery struct {
	By      UsageKind // empty for one sum
	Since   Time
	Agent   AgentID
	Handoff HandoffID
	Task    TaskID
	Team    TeamID
	Run     RunID
	Known   bool // only what the hub read itself
}

// A UsageSum is the usage of one key with one model, with or without a stated cost.
type UsageSum struct {
	Key      string
	Model    string
	Currency string // of Cost; empty if no cost was stated
	Calls    int64
	Tokens
	Cost int64
	Said int64 // tokens that only the agent's word says
}

// A UsageRecord is the sum of one turn's record, as the journal has it.
type UsageRecord struct {
	Record int64   `json:"-"`
	Agent  AgentID `json:"agent"`
	Calls  int64   `json:"calls"`
	Tokens
	Cost int64 `json:"cost,omitempty"` // in millionths, over all currencies
}

// NewUsageID returns the name of a record in the journal: u and its number.
func NewUsageID(record int64) string { return "u" + strconv.FormatInt(record, 10) }

// UsageNumber returns the number of a record by its name; 0 if it is not the name of one.
func UsageNumber(id string) int64 { return numberAfter("u", id) }

// A BudgetUnit is what a budget counts.
type BudgetUnit string

// The units of budgets.
const (
	BudgetTokens BudgetUnit = "tokens" // all kinds, each counted once
	BudgetMoney  BudgetUnit = "money"  // stated and estimated
	BudgetTurns  BudgetUnit = "turns"
)

// A BudgetPeriod is the time after which a budget begins anew.
type BudgetPeriod string

// The periods of budgets, in UTC.
const (
	PerHour  BudgetPeriod = "hour"
	PerDay   BudgetPeriod = "day"
	PerTotal BudgetPeriod = "total" // never
)

// A BudgetState says how much of a budget is used.
type BudgetState string

// The states of a budget.
const (
	BudgetOpen   BudgetState = "open"
	BudgetWarned BudgetState = "told"  // 80 % are used, and its holder and the operator were told
	BudgetSpent  BudgetState = "spent" // no turn begins
)

// A Budget bounds the usage of an agent, a team, a handoff or the whole hub.
type Budget struct {
	ID       string       `json:"id"` // b and a number
	N        int64        `json:"-"`
	Of       string       `json:"of"`    // an agent's name, team:NAME, handoff:ID or hub
	Limit    int64        `json:"limit"` // tokens, turns, or millionths of Currency
	Unit     BudgetUnit   `json:"unit"`
	Currency string       `json:"currency,omitempty"` // of money
	Per      BudgetPeriod `json:"per"`
	Hard     bool         `json:"hard,omitempty"` // a running turn is cancelled, not asked to stop
	SetAt    Time         `json:"set_at,omitzero"`
	SetBy    AgentID      `json:"set_by"`

	// Unpriced says that models without a price are free for a budget of money. Others count at the
	// highest price of their vendor.
	Unpriced bool `json:"unpriced,omitempty"`

	// WarnedFor and SpentFor are the beginnings of the periods in which the notices about 80 and
	// 100 % were sent; zero before the first.
	WarnedFor Time `json:"-"`
	SpentFor  Time `json:"-"`
}

// NewBudgetID returns the id of the budget with a number.
func NewBudgetID(n int64) string { return "b" + strconv.FormatInt(n, 10) }

// Period returns the beginning of the period at a time, and its end; zero if it never ends.
func (b Budget) Period(now Time) (from, until Time) {
	switch b.Per {
	case PerHour:
		from = At(now.Truncate(time.Hour))
		return from, from.Add(time.Hour)
	case PerDay:
		from = At(now.Truncate(24 * time.Hour))
		return from, from.Add(24 * time.Hour)
	}
	return b.SetAt, Time{}
}

// State returns the state of the budget when some of it is used. Hundredths of the limit are
// rounded down, so that a budget is never spent too early.
func (b Budget) State(used int64) BudgetState {
	switch {
	case used >= b.Limit:
		return BudgetSpent
	case used >= b.Limit-b.Limit/5:
		return BudgetWarned
	}
	return BudgetOpen
}

// A UsageReader reads usage and budgets.
type UsageReader interface {
	// Sums returns the matching usage by key, model and currency, in that order.
	Sums(q UsageQuery) ([]UsageSum, error)
	// Turns returns how many turns the matching usage has, by key.
	Turns(q UsageQuery) (map[string]int64, error)
	// Records returns the sums of the records after a number, in order, at most limit.
	Records(after int64, limit int) ([]UsageRecord, error)
	// First returns a call of a record. It reports CodeNotFound when there is no such record.
	First(record int64) (Usage, error)
	// Calls returns the calls with an id, one of each agent that reported it, by their names.
	Calls(id string) ([]Usage, error)
	// LastRecord returns the number of the newest record; 0 if there is none.
	LastRecord() (int64, error)
	// Budgets returns the budgets by their numbers.
	Budgets() ([]Budget, error)
}

// A UsageWriter writes usage and budgets.
type UsageWriter interface {
	// Add stores the usage of a call, and reports whether it is new: a call whose agent and id are
	// stored is left as it is.
	Add(Usage) (bool, error)
	// Replace gives the stored call of an agent other counts, with their source. Its record and the work
	// that it was for stay. It reports CodeNotFound when there is no such call.
	Replace(Usage) error
	// PutBudget stores a budget, new or known.
	PutBudget(Budget) error
	// RemoveBudget removes a budget, and reports CodeNotFound when there is none.
	RemoveBudget(n int64) error
}
