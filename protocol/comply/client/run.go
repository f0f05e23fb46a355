package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// Options changes how a run works. Only Relay is required.
type Options struct {
	Relay        []string // the command of the relay, without the address, which is added
	Jobs         int      // scenarios at the same time; default the number of processors
	TimeoutScale float64  // a factor for all waits; default 1
	Home         string   // the home folder of the client; default an empty one
	Protocol     int      // the version that the agent speaks if the client offers it; default 1

	Progress func(e Event)                        // is told about each result
	Trace    func(test string, frame rules.Frame) // sees every frame
}

// An Event is the result of one scenario.
type Event struct {
	Result *render.Result
	Again  bool // the scenario was played a second time, alone
	Wall   time.Duration
}

// A StartError says that a client did not start the agent at all.
type StartError struct{ Text string }

// Error returns the text.
func (e *StartError) Error() string { return e.Text }

// answerLimit is how long a client may take for an answer that needs no person.
const answerLimit = 5 * time.Second

// startLimit is how long a client may take until its first prompt, at the first start.
const startLimit = 45 * time.Second

// patience is the factor for a scenario that is played again because a finding rests on time.
const patience = 3

// Run plays scenarios with a client and returns the report. The first conversation is always
// the usual one, which shows what the client does by itself. The error is a *StartError if
// the client does not start the agent.
func Run(ctx context.Context, c Client, scenarios []*Scenario, opts *Options) (*render.Report, error) {
	r := &runner{client: c, opts: *opts}
	if r.opts.Jobs <= 0 {
		r.opts.Jobs = runtime.NumCPU()
	}
	if r.opts.TimeoutScale <= 0 {
		r.opts.TimeoutScale = 1
	}
	started := time.Now()
	report := newReport(c.Name, scenarios, opts, started)
	about := &report.Agents[0]

	// The first scenario teaches the facts; it counts if it was chosen.
	usual := Scenarios()[0]
	first, err := r.try(ctx, usual)
	if err != nil {
		return nil, err
	}
	if first.conversations == 0 {
		return nil, &StartError{fmt.Sprintf("%s did not start the agent: %s", c.Name, first.about())}
	}
	r.learn(first)
	about.ProtocolVersion = jsont.Encode(first.offer)
	about.ClientCapabilities = first.caps
	about.ClientInfo = first.info
	if len(first.plays) == 0 {
		about.Notes = append(about.Notes, "the client did not send a prompt: "+first.about())
	}

	outcomes := r.playAll(ctx, scenarios, usual, first)
	for i, o := range outcomes {
		about.Tests = append(about.Tests, o.result(scenarios[i], ctx.Err() != nil))
		about.AddLedger(o.ledger(scenarios[i].ID))
	}
	if !slices.Contains(scenarios, usual) {
		about.AddLedger(first.ledger(render.ProbeID))
	}
	about.Count()
	report.Interrupted = ctx.Err() != nil
	report.DurationMs = time.Since(started).Milliseconds()
	return report, nil
}

// newReport returns a report without results.
func newReport(name string, scenarios []*Scenario, opts *Options, started time.Time) *render.Report {
	version := int(opts.versionOf())
	h := sha256.New()
	for _, s := range scenarios {
		fmt.Fprintln(h, s.ID, strings.Join(s.Rules, " "))
	}
	for _, rule := range rules.ForClients() {
		fmt.Fprintln(h, rule.ID, rule.Level, rule.Text)
	}
	return &render.Report{
		Schema: render.ReportSchema, Subject: render.SubjectClient, Protocol: version, Started: started.UTC().Format(time.RFC3339),
		Suite:    fmt.Sprintf("%d client tests, %d client rules, %x", len(scenarios), len(rules.ForClients()), h.Sum(nil)[:6]),
		Selected: len(scenarios) < len(Applicable(Scenarios(), version)),
		Agents:   []render.AgentReport{{Name: name, ProtocolVersion: json.RawMessage("null"), AgentCapabilities: json.RawMessage("null"), Ledger: []rules.Finding{}, Tests: []render.Result{}}},
	}
}

// A runner runs scenarios with one client.
type runner struct {
	client Client
	opts   Options
	facts  facts
	start  time.Duration // that the client took until its first prompt
}

// scaled returns a wait of this run.
func (r *runner) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * r.opts.TimeoutScale)
}

// learn keeps the facts of the first conversation.
func (r *runner) learn(o *outcome) {
	r.facts = facts{known: true, prompts: len(o.plays) > 0, stays: o.forced, pings: o.pinged}
	r.start = o.prompted
}

// playAll plays scenarios, several at the same time, and again alone where a finding rests on
// time.
func (r *runner) playAll(ctx context.Context, scenarios []*Scenario, usual *Scenario, first *outcome) []*outcome {
	outcomes := make([]*outcome, len(scenarios))
	var told sync.Mutex
	tell := func(s *Scenario, o *outcome, again bool) {
		if r.opts.Progress == nil {
			return
		}
		result := o.result(s, false)
		told.Lock()
		defer told.Unlock()
		r.opts.Progress(Event{Result: &result, Again: again, Wall: o.wall})
	}

	var wg sync.WaitGroup
	slots := make(chan struct{}, r.opts.Jobs)
	for i, s := range scenarios {
		if s == usual {
			outcomes[i] = first
			tell(s, first, false)
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			outcomes[i] = r.attempt(ctx, s)
			tell(s, outcomes[i], false)
		})
	}
	wg.Wait()

	again := &runner{client: r.client, opts: r.opts, facts: r.facts, start: r.start}
	again.opts.TimeoutScale *= patience
	for i, s := range scenarios {
		if outcomes[i].timed() && ctx.Err() == nil {
			outcomes[i] = again.attempt(ctx, s)
			tell(s, outcomes[i], true)
		}
	}
	return outcomes
}

// attempt plays a scenario; an error becomes its outcome.
func (r *runner) attempt(ctx context.Context, s *Scenario) *outcome {
	if ctx.Err() != nil {
		return &outcome{err: ctx.Err()}
	}
	o, err := r.try(ctx, s)
	if err != nil {
		return &outcome{err: err}
	}
	return o
}
