// Package metrics computes the figures of a hub from its journal: handoffs, tasks,
// blockers, gates, refusals, deliveries, wakes and runs.
//
// One consumer follows the journal with a durable cursor. Its state is a function of
// the entries up to the cursor: when the state is dropped, a replay gives the same. The
// state is bounded: totals since the beginning, one slot for each hour of the last week,
// and the handoffs, tasks and gates that are open.
package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Cursor is the name of the cursor with which the consumer follows the journal.
const Cursor = "metrics"

const (
	slots     = 7 * 24 // hours that are kept
	maxOpen   = 20_000 // open things; the durations of further ones are not known
	maxScopes = 500    // agents and teams that are counted apart in an hour
	batch     = 2000
	every     = 10 * time.Second
	leaseTime = time.Minute
	stateKey  = "metrics"
)

// MaxPeriod is the longest period that figures can be asked for.
const MaxPeriod = slots * time.Hour

// A Definition describes a metric.
type Definition struct {
	Name   string // on the metrics endpoint with parley_ before it
	Labels []string
	Timed  bool // a distribution in seconds; else a count
	Help   string
}

// Definitions lists every metric that is counted, in the order in which people read them.
var Definitions = []Definition{
	{"handoffs_total", []string{"outcome"}, false, "Handoffs that were proposed, accepted, rejected, completed, withdrawn or late."},
	{"handoff_rejections_total", []string{"reason"}, false, "Rejected handoffs by reason."},
	{"handoff_acceptance_seconds", nil, true, "Time from the proposal of a handoff to its acceptance."},
	{"handoff_proofs_total", []string{"proof"}, false, "Completed handoffs by the hub's proof of the work."},
	{"handoff_context_total", []string{"part"}, false, "Optional context parts of packages, filled or empty."},
	{"task_moves_total", []string{"state"}, false, "Team tasks that entered a state."},
	{"task_cycle_seconds", []string{"class"}, true, "Time from the start of a task to its end."},
	{"conflicts_total", []string{"outcome"}, false, "Artifact conflicts that entered a state."},
	{"conflict_resolution_seconds", nil, true, "Time until a conflict was resolved."},
	{"role_changes_total", []string{"reason"}, false, "Role changes in teams."},
	{"gated_total", []string{"outcome"}, false, "Operations that a person had to approve: held, approved or denied."},
	{"gate_wait_seconds", nil, true, "Time that an operation waited for a person's approval."},
	{"refusals_total", []string{"rule"}, false, "Refused calls by code."},
	{"deliveries_total", []string{"channel", "outcome"}, false, "Delivery steps by channel."},
	{"delivery_seconds", []string{"channel"}, true, "Time from sending a message to its delivery over a channel."},
	{"wakes_total", []string{"mechanism", "outcome"}, false, "Attempts to start a turn, by outcome."},
	{"turns_total", nil, false, "Turns that messages started."},
	{"runs_total", []string{"verdict"}, false, "Runs by verdict, including failed and interrupted runs."},
}

// derived are the metrics that follow from others, and from the open tasks.
var derived = []Definition{
	{"handoff_acceptance_ratio", nil, false, "Share of accepted handoffs among accepted and rejected handoffs."},
	{"handoff_proof_ratio", nil, false, "Share of completed handoffs whose work the hub has checked."},
	{"handoff_completeness_ratio", nil, false, "Share of optional context parts of packages that are filled."},
	{"tasks", []string{"state"}, false, "Open team tasks by state."},
	{"blockers", []string{"reason"}, false, "Blocked tasks by reason."},
	{"blocker_age_seconds", []string{"reason"}, false, "Age of the oldest blocker, by reason."},
}

// Describe returns the definition of a metric.
func Describe(name string) Definition { return definition[name] }

var definition = func() map[string]Definition {
	out := map[string]Definition{}
	for _, d := range append(derived, Definitions...) {
		out[d.Name] = d
	}
	return out
}()

// A cell is one series: a count, and for a distribution its sum and its classes.
type cell struct {
	N   float64     `json:"n"`
	Sum float64     `json:"sum,omitempty"`
	H   map[int]int `json:"h,omitempty"` // by class; see class
}

// classRatio is the ratio of the bounds of a class. A quantile is off by half of that at
// most.
const classRatio = 1.05

// class returns the class of a time; times below a millisecond are in the first one.
func class(seconds float64) int {
	return int(math.Floor(math.Log(max(seconds, 0.001)) / math.Log(classRatio)))
}

// bound returns the upper bound of a class in seconds.
func bound(class int) float64 { return math.Pow(classRatio, float64(class+1)) }

// A table has series by name and label values, separated by a vertical bar.
type table map[string]*cell

func (t table) add(key string, n float64, seconds *float64) {
	c := t[key]
	if c == nil {
		c = &cell{}
		t[key] = c
	}
	c.N += n
	if seconds != nil {
		c.Sum += *seconds
		if c.H == nil {
			c.H = map[int]int{}
		}
		c.H[class(*seconds)]++
	}
}

// merge adds the series of other.
func (t table) merge(other table) {
	for key, o := range other {
		c := t[key]
		if c == nil {
			c = &cell{}
			t[key] = c
		}
		c.N += o.N
		c.Sum += o.Sum
		for k, n := range o.H {
			if c.H == nil {
				c.H = map[int]int{}
			}
			c.H[k] += n
		}
	}
}

// A slot has the series of one hour, of the hub and by agent and team.
type slot struct {
	Hour   int64            `json:"hour"` // since 1970
	All    table            `json:"all"`
	Scopes map[string]table `json:"scopes,omitempty"`
}

func slotKey(hour int64) string { return fmt.Sprintf("%s/%03d", stateKey, hour%slots) }

// An open thing is a handoff, a task or a gate that is not over.
type open struct {
	Kind    string   `json:"kind"`        // handoff, task or gate
	At      hub.Time `json:"at,omitzero"` // when it was proposed, started or held
	State   string   `json:"state,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Blocked hub.Time `json:"blocked,omitzero"` // since when the task is blocked
	Scopes  []string `json:"scopes,omitempty"`
}

// A state is everything that was computed from the journal up to a cursor.
type state struct {
	Totals table           `json:"totals"`
	Open   map[string]open `json:"open"`
	Wake   string          `json:"wake,omitempty"` // attempt and state that were counted last
	slots  map[int64]*slot // that changed, by hour modulo slots
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Log   *slog.Logger // default silent
}

// A Service computes figures. It is safe for concurrent use.
type Service struct {
	store hub.Store
	clock hub.Clock
	log   *slog.Logger
	mu    sync.Mutex // held while entries are handled
}

// New returns a service over a store; opts may be nil.
func New(store hub.Store, opts *Options) *Service {
	s := &Service{store: store, clock: time.Now, log: slog.New(slog.DiscardHandler)}
	if opts != nil && opts.Clock != nil {
		s.clock = opts.Clock
	}
	if opts != nil && opts.Log != nil {
		s.log = opts.Log
	}
	return s
}

// Run follows the journal until ctx ends. It takes no hints: figures may be late.
func (s *Service) Run(ctx context.Context) {
	hub.Follow(ctx, s.store, nil, hub.Consumer{
		Name: lease, Lease: leaseTime,
		Step: func(ctx context.Context, store hub.Store) (time.Duration, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			more, err := s.step(ctx, store)
			if more {
				return 0, err
			}
			return every, err
		},
		Failed: func(err error) {
			s.log.Warn("cannot compute the figures, will retry", "op", "metrics.Run", "code", hub.CodeOf(err), "err", err)
		},
	})
}

// lease is the name of the lease under which one process computes figures.
const lease = "metrics"

// CatchUp handles the journal entries that were not handled yet.
func (s *Service) CatchUp(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return hub.Alone(ctx, s.store, lease, leaseTime, func(store hub.Store) error {
		for {
			more, err := s.step(ctx, store)
			if err != nil || !more {
				return err
			}
		}
	})
}

// step handles the next entries. Only the result is written inside the transaction, so that
// callers do not wait for the work.
func (s *Service) step(ctx context.Context, store hub.Store) (more bool, err error) {
	var st *state
	var from, last int64
	err = store.View(hub.InBackground(ctx), func(r hub.Reader) (err error) {
		if from, err = r.Cursor(Cursor); err != nil {
			return err
		}
		entries, err := r.Journal(hub.JournalQuery{After: from, Limit: batch})
		if err != nil || len(entries) == 0 {
			return err
		}

		last = entries[len(entries)-1].Seq
		if st, err = load(r); err != nil {
			return err
		}
		for _, e := range entries {
			if err := st.handle(r, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || last == 0 {
		return false, err
	}

	// The cursor shows whether another process has handled the entries meanwhile.
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		now, err := tx.Cursor(Cursor)
		if err != nil || now != from {
			return err // another process was first
		}
		if err := hub.WriteMeta(tx, stateKey, st); err != nil {
			return err
		}
		for _, x := range st.slots {
			if err := hub.WriteMeta(tx, slotKey(x.Hour), x); err != nil {
				return err
			}
		}
		return tx.PutCursor(Cursor, last)
	})
	return true, err
}

func load(r hub.Reader) (*state, error) {
	st, err := hub.ReadMeta[*state](r, stateKey)
	if err != nil {
		return nil, err
	}
	if st == nil {
		st = &state{}
	}
	if st.Totals == nil {
		st.Totals, st.Open = table{}, map[string]open{}
	}
	if st.Open == nil {
		st.Open = map[string]open{}
	}
	st.slots = map[int64]*slot{}
	return st, nil
}

// slot returns the slot of an hour, or nil if it was given to a later one.
func (st *state) slot(r hub.Reader, hour int64) (*slot, error) {
	x := st.slots[hour%slots]
	if x == nil {
		var err error
		if x, err = hub.ReadMeta[*slot](r, slotKey(hour)); err != nil {
			return nil, err
		}
	}
	switch {
	case x == nil || x.Hour < hour:
		x = &slot{Hour: hour, All: table{}, Scopes: map[string]table{}}
	case x.Hour > hour:
		return nil, nil
	}
	if x.Scopes == nil {
		x.Scopes = map[string]table{}
	}
	st.slots[hour%slots] = x
	return x, nil
}

// An observation is one thing to count.
type observation struct {
	key     string
	n       float64
	seconds *float64
	scopes  []string
}

func (st *state) count(r hub.Reader, at hub.Time, o observation) error {
	st.Totals.add(o.key, o.n, o.seconds)
	x, err := st.slot(r, at.Unix()/3600)
	if err != nil || x == nil {
		return err
	}
	x.All.add(o.key, o.n, o.seconds)
	for _, scope := range o.scopes {
		t := x.Scopes[scope]
		if t == nil {
			if len(x.Scopes) >= maxScopes {
				continue
			}
			t = table{}
			x.Scopes[scope] = t
		}
		t.add(o.key, o.n, o.seconds)
	}
	return nil
}

// A Figure is one series of a metric.
type Figure struct {
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"` // a count, a share, or the median of a distribution in seconds

	// Of a distribution.
	Count  float64 `json:"count,omitempty"`
	Sum    float64 `json:"sum,omitempty"`
	P95    float64 `json:"p95,omitempty"`
	counts map[int]int
}

// Bounds are the upper bounds of the classes of a distribution on the metrics endpoint.
var Bounds = []float64{.01, .1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 72 * 3600}

// Buckets returns how many times are below each of Bounds.
func (f Figure) Buckets() map[float64]uint64 {
	out := map[float64]uint64{}
	for _, b := range Bounds {
		for c, n := range f.counts {
			if bound(c) <= b*classRatio {
				out[b] += uint64(n)
			}
		}
	}
	return out
}

// Figures are metrics by name.
type Figures map[string][]Figure

// A Report has the figures of a period.
type Report struct {
	Since   hub.Time `json:"since,omitzero"` // the beginning of its first hour
	Until   hub.Time `json:"until,omitzero"`
	Agent   string   `json:"agent,omitempty"`
	Team    string   `json:"team,omitempty"`
	Metrics Figures  `json:"metrics"`
}

// A Query chooses figures. Empty members do not restrict.
type Query struct {
	Period time.Duration // from an hour to MaxPeriod; default 24 hours
	Agent  hub.AgentID
	Team   hub.TeamID
}

// check completes a query and refuses figures that the actor may not see.
func (q *Query) check(op string, actor hub.Caller) error {
	if q.Period == 0 {
		q.Period = 24 * time.Hour
	}
	switch {
	case q.Period < time.Hour || q.Period > MaxPeriod:
		return hub.Errorf(hub.CodeInvalid, op, "period must be between 1h and %s, got %s", MaxPeriod, q.Period)
	case q.Agent != "" && q.Team != "":
		return hub.Errorf(hub.CodeInvalid, op, "agent and team cannot be combined")
	case q.Agent != "" && q.Agent != actor.ID && !actor.Audits():
		return hub.Errorf(hub.CodeDenied, op, "only %s and auditors can see the figures of %s", q.Agent, q.Agent)
	}
	return nil
}

// scope returns the name under which the figures of the query are kept; "" for those of all.
func (q Query) scope() string {
	if q.Team != "" {
		return teamScope(q.Team)
	}
	return string(q.Agent)
}

// Show returns the figures of a period. Those of other agents, and of teams that the
// actor is no member of, are for auditors.
func (s *Service) Show(ctx context.Context, actor hub.Caller, q Query) (Report, error) {
	const op = "metrics.Show"
	if err := q.check(op, actor); err != nil {
		return Report{}, err
	}
	if err := s.CatchUp(ctx); err != nil {
		return Report{}, err
	}

	now := s.clock.Now()
	out := Report{Until: now, Since: hub.At(now.Time.Add(-q.Period).Truncate(time.Hour)), Agent: string(q.Agent), Team: string(q.Team)}
	err := s.store.View(ctx, func(r hub.Reader) error {
		if err := mayRead(r, op, actor, q); err != nil {
			return err
		}
		st, err := load(r)
		if err != nil {
			return err
		}
		sum, err := sumUp(r, out.Since, now, q.scope())
		out.Metrics = figures(sum, st.Open, q.scope(), now)
		return err
	})
	return out, err
}

// sumUp adds the figures of the hours from one time to another.
func sumUp(r hub.Reader, since, until hub.Time, scope string) (table, error) {
	sum := table{}
	for hour := since.Unix() / 3600; hour <= until.Unix()/3600; hour++ {
		x, err := hub.ReadMeta[*slot](r, slotKey(hour))
		if err != nil {
			return nil, err
		}
		switch {
		case x == nil || x.Hour != hour:
		case scope == "":
			sum.merge(x.All)
		default:
			sum.merge(x.Scopes[scope])
		}
	}
	return sum, nil
}

// mayRead refuses figures of an agent that does not exist, and of a team that the actor
// cannot see.
func mayRead(r hub.Reader, op string, actor hub.Caller, q Query) error {
	if q.Agent != "" {
		_, err := r.Agent(q.Agent)
		return err
	}
	if q.Team != "" {
		return mayReadTeam(r, op, actor, q.Team)
	}
	return nil
}

func mayReadTeam(r hub.Reader, op string, actor hub.Caller, id hub.TeamID) error {
	_, err := r.Teamspaces().Team(id)
	if err == nil && !actor.Audits() {
		var mine []hub.Member
		if mine, err = r.Teamspaces().Members(hub.MemberQuery{Team: id, Agent: actor.ID, Limit: 1}); err == nil && len(mine) == 0 {
			err = hub.Errorf(hub.CodeNotFound, op, "no team %q that you can see", id)
		}
	}
	return err
}

// Totals returns the figures since the beginning of the journal, for the metrics
// endpoint. No agent and no team is named in them.
func (s *Service) Totals(ctx context.Context) (Figures, error) {
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) (Figures, error) {
		st, err := load(r)
		if err != nil {
			return nil, err
		}
		return figures(st.Totals, st.Open, "", s.clock.Now()), nil
	})
}

// figures returns series as figures, with the shares that follow from them, and how the
// open tasks stand.
func figures(t table, things map[string]open, scope string, now hub.Time) Figures {
	out := Figures{}
	for _, key := range slices.Sorted(maps.Keys(t)) {
		parts := strings.Split(key, "|")
		d, ok := definition[parts[0]]
		if !ok || len(parts) != len(d.Labels)+1 {
			continue // of another version
		}
		f := Figure{Value: t[key].N}
		for i, name := range d.Labels {
			if f.Labels == nil {
				f.Labels = map[string]string{}
			}
			f.Labels[name] = parts[i+1]
		}
		if d.Timed {
			f.Count = t[key].N
			f.Sum = t[key].Sum
			f.counts = t[key].H
			f.Value, f.P95 = quantile(f.counts, 0.5), quantile(f.counts, 0.95)
		}
		out[d.Name] = append(out[d.Name], f)
	}

	// A ratio without any event is left out.
	value := func(key string) float64 {
		if c := t[key]; c != nil {
			return c.N
		}
		return 0
	}
	share := func(name string, part, other float64) {
		if part+other > 0 {
			out[name] = []Figure{{Value: part / (part + other)}}
		}
	}
	share("handoff_acceptance_ratio", value("handoffs_total|accepted"), value("handoffs_total|rejected"))
	share("handoff_proof_ratio", value("handoff_proofs_total|"+string(hub.ProofVerified)), value("handoff_proofs_total|"+string(hub.ProofUnproven)))
	share("handoff_completeness_ratio", value("handoff_context_total|filled"), value("handoff_context_total|empty"))

	// Open tasks are counted by their state, and the blocked ones by their reason.
	states := map[string]float64{}
	blockers := map[string]float64{}
	oldest := map[string]float64{}
	for _, o := range things {
		if o.Kind != "task" || (scope != "" && !slices.Contains(o.Scopes, scope)) {
			continue
		}
		states[o.State]++
		if !o.Blocked.IsZero() {
			blockers[o.Reason]++
			oldest[o.Reason] = max(oldest[o.Reason], now.Sub(o.Blocked.Time).Seconds())
		}
	}

	for name, m := range map[string]map[string]float64{"tasks|state": states, "blockers|reason": blockers, "blocker_age_seconds|reason": oldest} {
		name, label, _ := strings.Cut(name, "|")
		for _, v := range slices.Sorted(maps.Keys(m)) {
			out[name] = append(out[name], Figure{Labels: map[string]string{label: v}, Value: m[v]})
		}
	}
	return out
}

// quantile returns the time below which a share of the times lie: the middle of its
// class.
func quantile(h map[int]int, q float64) float64 {
	total, seen := 0, 0
	for _, n := range h {
		total += n
	}
	for _, c := range slices.Sorted(maps.Keys(h)) {
		if seen += h[c]; float64(seen) >= q*float64(total) {
			return math.Round(math.Sqrt(bound(c)*bound(c-1))*1000) / 1000
		}
	}
	return 0
}

func teamScope(id hub.TeamID) string { return "team:" + string(id) }

// facts are the members of journal entries that are counted.
type facts struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"task_id"`
	From      string          `json:"from"`
	To        json.RawMessage `json:"to"` // an agent, or the recipients of a message
	Reject    string          `json:"reject_reason"`
	Ending    hub.Ending      `json:"ending"`
	Proof     hub.Proof       `json:"proof"`
	State     string          `json:"state"`
	Class     string          `json:"class"`
	Owner     string          `json:"owner"`
	Agent     string          `json:"agent"`
	Reason    string          `json:"reason"`
	Status    string          `json:"status"`
	Verdict   string          `json:"verdict"`
	Code      string          `json:"code"`
	Count     float64         `json:"count"`
	Channel   string          `json:"channel"`
	Recipient string          `json:"recipient"`
	Mechanism string          `json:"mechanism"`
	Wake      string          `json:"wake"`
	Artifact  string          `json:"artifact_id"`
	Version   int             `json:"version"`
	Missed    float64         `json:"missed_by"`
}

// to returns the one agent in To, or "".
func (f facts) to() (id string) {
	_ = json.Unmarshal(f.To, &id) // a list is none
	return id
}
