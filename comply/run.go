package comply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/acp/schema"
)

// Options changes how tests are run. The zero value works.
type Options struct {
	Protocol     int           // version of the protocol to speak; default 1
	Jobs         int           // tests run at the same time; default the number of processors
	TimeoutScale float64       // all timeouts are multiplied with it; default 1
	Startup      time.Duration // how long an agent may take to start, before scaling; default 30 s
	Record       string        // folder to write all conversations to; "" for none
	Temp         string        // folder for workspaces; "" for the system's
	Home         string        // home folder of the agents; "" for an empty one per test
	ModelURL     string        // address of a model for agents that ask for one; "" for none
	MCPServer    string        // program that is an MCP server when called with "comply mcp-server"; "" for this one

	// Progress is told what happens, one event after the other.
	Progress func(Event)

	// Trace sees every frame of every conversation, one after the other. Those
	// of one conversation are numbered; an answer may be shown before what went
	// out at the same moment. The conversation before the tests is "_probe".
	Trace func(agent, test string, f Frame)
}

// An Event is something that a run has to tell while it goes on.
type Event struct {
	Agent, Test string
	Result      *Result // nil when the test starts

	// Wall is how long the test took, and Waited how much of that it waited for the
	// agent or because a rule wants it to. The difference is the runner's own time.
	Wall, Waited time.Duration
}

// A runner is one run.
type runner struct {
	opts    Options
	version schema.Version
	mu      sync.Mutex // for Progress and Trace
}

// Run tests agents and returns what came out. It fails if it was told something
// that makes no sense, cannot write records, or ctx ends. opts may be nil.
func Run(ctx context.Context, agents []Agent, tests []*Test, opts *Options) (*Report, error) {
	r := &runner{}
	if opts != nil {
		r.opts = *opts
	}
	o := &r.opts
	if o.Protocol == 0 {
		o.Protocol = 1
	}
	if o.Jobs <= 0 {
		o.Jobs = runtime.NumCPU()
	}
	if o.TimeoutScale <= 0 {
		o.TimeoutScale = 1
	}
	if o.Startup <= 0 {
		o.Startup = 30 * time.Second
	}
	if r.version = schema.Version(o.Protocol); r.version != schema.V1 && r.version != schema.V2 {
		return nil, fmt.Errorf("comply: there is no protocol version %d", o.Protocol)
	}
	for _, a := range agents {
		if err := a.fits(o); err != nil {
			return nil, err
		}
	}
	return r.run(ctx, agents, tests)
}

func (r *runner) run(ctx context.Context, agents []Agent, tests []*Test) (*Report, error) {
	report := &Report{Agents: make([]AgentReport, len(agents))}
	probes := make([]*probe, len(agents))
	failed := r.parallel(len(agents), func(i int) error {
		probes[i] = r.probe(ctx, agents[i])
		report.Agents[i] = probes[i].report
		report.Agents[i].Tests = make([]Result, len(tests))
		return probes[i].recorded
	})
	ledgers := make([][]Finding, len(agents)*len(tests))
	failed = errors.Join(failed, r.parallel(len(ledgers), func(i int) error {
		agent, test := i/len(tests), i%len(tests)
		result, found, err := r.test(ctx, agents[agent], tests[test], probes[agent])
		report.Agents[agent].Tests[test], ledgers[i] = result, found
		return err
	}))
	for i := range report.Agents {
		a := &report.Agents[i]
		a.Ledger = append(slices.Concat(probes[i].ledger), slices.Concat(ledgers[i*len(tests):(i+1)*len(tests)]...)...)
		a.count()
	}
	if ctx.Err() != nil {
		return report, ctx.Err()
	}
	return report, failed
}

// count makes the totals.
func (a *AgentReport) count() {
	if a.Ledger == nil {
		a.Ledger = []Finding{}
	}
	a.Totals = map[Status]int{}
	for _, s := range Statuses() {
		a.Totals[s] = 0
	}
	for _, t := range a.Tests {
		a.Totals[t.Status]++
	}
}

// parallel calls f with 0 to n-1, as many at once as there are jobs.
func (r *runner) parallel(n int, f func(int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var work sync.WaitGroup
	for range min(n, r.opts.Jobs) {
		work.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	work.Wait()
	return errors.Join(errs...)
}

func (r *runner) progress(e Event) {
	if r.opts.Progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opts.Progress(e)
	}
}

// tracer returns what sees the entries of a conversation, nil if nobody wants
// to.
func (r *runner) tracer(agent, test string) func(*entry) {
	if r.opts.Trace == nil {
		return nil
	}
	return func(e *entry) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opts.Trace(agent, test, e.frame())
	}
}

// A room is a workspace with an agent in it.
type room struct {
	*conversation
	*workspace
}

// open starts an agent in a workspace of its own.
func (r *runner) open(ctx context.Context, a Agent, t *Test, w *workspace, vars variables, startup time.Duration, clock *clock) (*room, error) {
	home := r.opts.Home
	if home == "" {
		home = w.home
	}
	a, err := a.settle(home, r.opts.ModelURL)
	if err != nil {
		return nil, err
	}
	env := baseEnv(home, w.temp)
	services, err := newServices(r.version, w.sandbox, t.policy, env)
	if err != nil {
		return nil, err
	}
	started := clock.wait()
	agent, err := a.start(env)
	started()
	if err != nil {
		services.close()
		return nil, err
	}
	return &room{converse(ctx, agent, services, startup, vars, r.tracer(a.Name, t.ID), clock), w}, nil
}

// leave ends the agent and returns what was said until then.
func (r *room) leave() []*entry {
	select {
	case <-r.agent.Done(): // its last words may just be being read
		r.wait(r.ctx, closeGrace, func() bool { return false })
	default:
	}
	r.mu.Lock()
	log := slices.Clone(r.log)
	r.mu.Unlock()
	r.conversation.close()
	r.services.close()
	return log
}

// test runs one test. The error is about the runner, not the agent.
func (r *runner) test(ctx context.Context, a Agent, t *Test, p *probe) (res Result, ledger []Finding, err error) {
	res = Result{ID: t.ID, Title: t.Title, Description: t.Description, Area: t.Area, Severity: t.Severity, Findings: []Finding{}, Docs: append([]string{}, t.Docs...)}
	errored := func(err error) (Result, []Finding, error) {
		res.Status, res.Reason = Errored, err.Error()
		return res, nil, nil
	}
	if ctx.Err() != nil {
		return errored(ctx.Err())
	}
	r.progress(Event{Agent: a.Name, Test: t.ID})
	began, clock := time.Now(), &clock{}
	defer func() {
		r.progress(Event{Agent: a.Name, Test: t.ID, Result: &res, Wall: time.Since(began), Waited: time.Duration(clock.waited.Load())})
	}()
	w, failed := newWorkspace(r.opts.Temp, nil)
	if failed != nil {
		return errored(failed)
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	vars := builtins(r.version, w.sandbox)
	filled, failed := parse(t.Path, t.source, vars)
	if failed != nil {
		return errored(failed)
	}
	vars = vars.with(varCapabilities, filled.capabilities(vars))
	if reason := p.unmet(filled, r.version, vars); reason != "" {
		res.Status, res.Reason = NA, reason
		return res, nil, nil
	}
	if failed := w.fill(filled.files); failed != nil {
		return errored(failed)
	}
	vars, closeServer, failed := r.mcpServer(filled, w, vars)
	if failed != nil {
		return errored(failed)
	}
	defer closeServer()
	open := func(ctx context.Context) (*room, error) { return r.open(ctx, a, filled, w, vars, p.startup, clock) }
	room, failed := open(ctx)
	if failed != nil {
		return errored(failed)
	}
	s := &stage{test: filled, version: r.version, dir: w.sandbox, open: open, room: room, c: room.conversation, scale: r.opts.TimeoutScale, patience: p.patience}
	s.applies = func(st *step) bool { return p.reason(st.when, vars) == "" }
	s.play(ctx)
	s.leave()
	for i, talk := range s.spoken {
		name := t.ID
		if i > 0 {
			name = fmt.Sprintf("%s.%d", t.ID, i+1)
		}
		err = errors.Join(err, r.record(a.Name, name, talk.log))
	}
	if s.err != nil {
		res.Status, res.Reason = Errored, s.err.Error()
		return res, nil, err
	}
	for _, talk := range s.spoken {
		ledger = append(ledger, audit(filled, r.version, talk.log, talk.asked)...)
	}
	res.Findings = append(res.Findings, s.findings...)
	for _, f := range ledger {
		if filled.concerns(f.Rule) {
			f.Test = ""
			res.Findings = append(res.Findings, f)
		}
	}
	if res.judge(s.met > 0); res.Status == Pass && s.moot != "" {
		res.Status, res.Reason = NA, s.moot
	}
	return res, ledger, err
}

// record writes a conversation to the folder for records.
func (r *runner) record(agent, test string, log []*entry) error {
	if r.opts.Record == "" {
		return nil
	}
	var b bytes.Buffer
	for _, e := range log {
		line := map[string]any{"seq": e.seq, "direction": e.dir}
		if e.value != nil && e.problem == nil {
			line["frame"] = json.RawMessage(e.raw)
		} else {
			line["bytes"] = string(e.raw)
		}
		b.Write(encoded(line))
		b.WriteByte('\n')
	}
	path := filepath.Join(r.opts.Record, fileName(agent), fileName(test)+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("comply: record: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("comply: record: %w", err)
	}
	return nil
}

// fileName returns a name that is safe for a file.
func fileName(s string) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c) {
			return c
		}
		return '_'
	}, s)
	if strings.Trim(s, ".") == "" {
		return "_" + s
	}
	return s
}
