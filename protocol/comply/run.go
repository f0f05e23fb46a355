package comply

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
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

	"github.com/parley-agents/parley/internal/ground/process/stray"
	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// Options changes how tests are run. The zero value works.
type Options struct {
	Protocol     int            // version of the protocol; default 1
	Jobs         int            // tests run at the same time; default the number of processors
	TimeoutScale float64        // factor of all timeouts, for slow machines; default 1
	Startup      time.Duration  // how long the first start of an agent may take, before scaling, which may download; default 3 min
	Resume       *render.Report // an earlier report of the same agents and tests: results that it has are not made again
	Once         bool           // findings that rest on time alone are reported without a second run of their tests
	Auth         string         // id of the way to log in that is used before sessions are opened; "" for none
	Record       string         // folder that gets all conversations as JSON lines; "" for none
	Temp         string         // folder for workspaces; "" for the system's
	Home         string         // home folder of the agents; "" for an empty one per test
	ModelURL     string         // address of a model for agents that ask for one; "" for none
	MCPServer    string         // program that serves MCP when called with "comply mcp-server"; "" for this one

	// Progress gets the events of the run, one at a time.
	Progress func(Event)

	// Trace gets every frame of every conversation, one at a time. Seq is the order
	// within a conversation; frames of the two directions may be traced out of order.
	// The test id of the conversation before the tests is "_probe".
	Trace func(agent, test string, f rules.Frame)
}

// An Event is the start or the end of a test.
type Event struct {
	Agent, Test string
	Result      *render.Result // nil at the start

	// Wall is the duration of the test, and Waited the part of it in which the runner
	// waited for the agent, or because a step wants a delay. The difference is the
	// runner's own time.
	Wall, Waited time.Duration

	Again bool // the test runs a second time, alone
}

// A runner is one call of Run.
type runner struct {
	opts    Options
	version schema.Version
	alone   bool       // tests run a second time, one after the other
	mu      sync.Mutex // for Progress and Trace
}

// Run runs all tests with all agents and returns the report. Failures of agents are in
// the report; the error is about invalid options, an agent that cannot be started (a
// *StartError), records that cannot be written, or the end of ctx, with which the report
// has the tests that ran. opts may be nil.
// The order of the report is that of the arguments: agents and tests stand in it as they
// were given, whatever order they ended in.
func Run(ctx context.Context, agents []Agent, tests []*jsont.Test, opts *Options) (*render.Report, error) {
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
		o.Startup = 3 * time.Minute
	}
	if r.version = schema.Version(o.Protocol); r.version != schema.V1 && r.version != schema.V2 {
		return nil, fmt.Errorf("comply: run: unknown protocol version %d: use 1 or 2", o.Protocol)
	}
	for _, a := range agents {
		if err := a.fits(o); err != nil {
			return nil, err
		}
	}
	return r.run(ctx, agents, tests)
}

// run learns about all agents first, so that tests that do not apply cost nothing.
func (r *runner) run(ctx context.Context, agents []Agent, tests []*jsont.Test) (*render.Report, error) {
	began := time.Now()
	report := &render.Report{
		Schema: render.ReportSchema, Protocol: r.opts.Protocol, Started: began.UTC().Format(time.RFC3339), Suite: suiteVersion(tests),
		Agents: make([]render.AgentReport, len(agents)),
	}

	if err := r.resumable(report, agents); err != nil {
		return nil, err
	}

	probes := make([]*probe, len(agents))
	failed := r.parallel(len(agents), func(i int) error {
		probes[i] = r.probe(ctx, agents[i])
		if probes[i].unstarted != nil {
			return &StartError{Agent: agents[i].Name, Err: probes[i].unstarted}
		}
		report.Agents[i] = probes[i].report
		report.Agents[i].Tests = make([]render.Result, len(tests))
		return probes[i].recorded
	})
	if unstarted := (*StartError)(nil); errors.As(failed, &unstarted) {
		return nil, failed
	}

	// Each pair writes to a place of its own, so no lock is needed.
	// One flat list of pairs keeps all jobs busy although agents differ in speed.
	ledgers := make([][]rules.Finding, len(agents)*len(tests))
	failed = errors.Join(failed, r.parallel(len(ledgers), func(i int) error {
		agent, test := i/len(tests), i%len(tests)
		if earlier, found, ok := r.earlier(agents[agent].Name, tests[test].ID); ok {
			report.Agents[agent].Tests[test], ledgers[i] = earlier, found
			return nil
		}
		result, found, err := r.test(ctx, agents[agent], tests[test], probes[agent])
		report.Agents[agent].Tests[test], ledgers[i] = result, found
		return err
	}))

	if !r.opts.Once && ctx.Err() == nil {
		failed = errors.Join(failed, r.again(ctx, agents, tests, probes, report, ledgers))
	}

	for i := range report.Agents {
		a := &report.Agents[i]
		a.Ledger = []rules.Finding{}
		a.AddLedger(slices.Concat(append([][]rules.Finding{probes[i].ledger}, ledgers[i*len(tests):(i+1)*len(tests)]...)...))
		a.Count()
	}

	report.DurationMs = time.Since(began).Milliseconds()
	if ctx.Err() != nil {
		report.Interrupted = true
		return report, ctx.Err()
	}
	return report, failed
}

// resumable returns an error if the earlier report is about other tests or another version.
// Suite contains a hash of all tests and rules, so results are only taken over from
// a run that would have judged them the same way.
func (r *runner) resumable(now *render.Report, agents []Agent) error {
	old := r.opts.Resume
	if old == nil {
		return nil
	}
	if old.Suite != now.Suite || old.Protocol != now.Protocol {
		return fmt.Errorf("comply: resume: the earlier report is for version %d and %s, but this run is for version %d and %s", old.Protocol, old.Suite, now.Protocol, now.Suite)
	}
	for _, a := range agents {
		if !slices.ContainsFunc(old.Agents, func(o render.AgentReport) bool { return o.Name == a.Name }) {
			return fmt.Errorf("comply: resume: the earlier report has no agent %s", a.Name)
		}
	}
	return nil
}

// earlier returns the result of a test in the earlier report, with its findings in the ledger.
// A test that did not run has none.
func (r *runner) earlier(agent, test string) (res render.Result, ledger []rules.Finding, ok bool) {
	if r.opts.Resume == nil {
		return res, nil, false
	}

	// The baseline and the requirements of this run are applied anew.
	fresh := func(f rules.Finding) rules.Finding {
		f.Known = false
		f.Reason = ""
		f.Unasked = false
		return f
	}

	for _, a := range r.opts.Resume.Agents {
		at := slices.IndexFunc(a.Tests, func(t render.Result) bool { return t.ID == test })
		if a.Name != agent || at < 0 || a.Tests[at].Status == render.Errored {
			continue
		}

		res = a.Tests[at]
		res.Known, res.Findings = false, slices.Clone(res.Findings)
		for i := range res.Findings {
			res.Findings[i] = fresh(res.Findings[i])
		}

		for _, f := range a.Ledger {
			if slices.Contains(f.Tests, test) {
				f = fresh(f)
				f.Test, f.Tests = test, nil
				ledger = append(ledger, f)
			}
		}

		return res, ledger, true
	}
	return res, nil, false
}

// A StartError says that an agent could not be started, so that no test ran.
type StartError struct {
	Agent string
	Err   error
}

// Error names the agent and the reason.
func (e *StartError) Error() string { return fmt.Sprintf("comply: run %s: %v", e.Agent, e.Err) }

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// suiteVersion describes tests and rules, with a hash that changes when one of them does.
// The sources count as they are written, before any variable has a value.
func suiteVersion(tests []*jsont.Test) string {
	h := sha256.New()
	for _, t := range tests {
		fmt.Fprintf(h, "%s\n%s\n", t.ID, t.Source())
	}
	for _, rule := range rules.All() {
		fmt.Fprintf(h, "%+v\n", rule)
	}
	return fmt.Sprintf("%d tests, %d rules, %x", len(tests), len(rules.All()), h.Sum(nil)[:6])
}

// parallel calls f with 0 to n-1, at most opts.Jobs at the same time.
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

// progress tells the caller of an event. The lock keeps events in one order.
func (r *runner) progress(e Event) {
	if r.opts.Progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.Again = r.alone
		r.opts.Progress(e)
	}
}

// tracer returns the tracer of a conversation, nil if there is none.
func (r *runner) tracer(agent, test string) func(*rules.Entry) {
	if r.opts.Trace == nil {
		return nil
	}
	return func(e *rules.Entry) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.opts.Trace(agent, test, e.Frame())
	}
}

// An instance is a running agent in a workspace, with the conversation.
type instance struct {
	*conversation
	*workspace
	mark string // NAME=value, in the environment of the agent and of every process that it starts
}

// markVariable is the variable that finds processes of an agent that left its group.
const markVariable = "PARLEY_COMPLY"

// start starts an agent in a workspace. The caller must stop the instance.
func (r *runner) start(ctx context.Context, a Agent, t *jsont.Test, w *workspace, vars jsont.Variables, startup time.Duration, clock *clock) (*instance, error) {
	home := r.opts.Home
	if home == "" {
		home = w.home
	}
	a, err := a.prepare(home, r.opts.ModelURL)
	if err != nil {
		return nil, err
	}
	mark := markVariable + "=" + rand.Text()
	env := append(baseEnv(home, w.temp), mark)
	services, err := newServices(r.version, w.sandbox, t.Policy, env)
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
	return &instance{converse(ctx, agent, services, startup, vars, r.tracer(a.Name, t.ID), clock), w, mark}, nil
}

// stop ends the agent, with the processes that it leaves behind, and returns the
// transcript.
// Processes that left the group of the agent are found by the mark in their
// environment.
func (r *instance) stop() transcript {
	// The log of an agent that has ended is complete only when the reader is done.
	select {
	case <-r.agent.Done(): // the reader may not have reached the end yet
		r.wait(r.ctx, closeGrace, func() bool { return false })
	default:
	}
	r.mu.Lock()
	log := slices.Clone(r.log)
	r.mu.Unlock()
	r.conversation.close()
	r.services.close()
	stray.Kill(r.mark) // one that does not end is out of reach
	return transcript{log, r.calls()}
}

// test runs one test with one agent and returns the result and the ledger. The error is
// about the runner, not the agent.
// The order of the steps keeps costs low: a test that does not apply is found
// before a process is started. Deferred calls undo the steps in the opposite order,
// so the workspace is removed when nothing uses it any more.
func (r *runner) test(ctx context.Context, a Agent, t *jsont.Test, p *probe) (res render.Result, ledger []rules.Finding, err error) {
	res = render.Result{ID: t.ID, Title: t.Title, Description: t.Description, Area: t.Area, Severity: t.Severity, Findings: []rules.Finding{}, Docs: append([]string{}, t.Docs...)}
	res.Advisory = t.Own && t.Severity == jsont.Optional
	res.Ignored = t.Ignored
	errored := func(err error) (render.Result, []rules.Finding, error) {
		res.Status, res.Reason = render.Errored, err.Error()
		return res, nil, nil
	}

	if ctx.Err() != nil {
		return errored(ctx.Err())
	}
	r.progress(Event{Agent: a.Name, Test: t.ID})
	began, clock := time.Now(), &clock{}
	defer func() {
		res.DurationMs = time.Since(began).Milliseconds()
		r.progress(Event{Agent: a.Name, Test: t.ID, Result: &res, Wall: time.Since(began), Waited: time.Duration(clock.waited.Load())})
	}()

	w, failed := newWorkspace(r.opts.Temp, nil)
	if failed != nil {
		return errored(failed)
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	words := tokens()
	vars := jsont.Builtins(r.version, w.sandbox, w.temp).Join(words)
	// The folders are known only now, and the file may name them outside of strings.
	filled, failed := t.Fill(vars)
	if failed != nil {
		return errored(failed)
	}
	vars = vars.With(jsont.VarCapabilities, filled.Capabilities(vars))

	if reason := p.unmet(filled, r.version, vars); reason != "" {
		res.Status, res.Reason = render.NA, reason
		return res, nil, nil
	}
	if p.login != "" && needsSession(filled) {
		res.Status, res.Reason = render.NA, p.login
		return res, nil, nil
	}

	if failed := w.fill(filled.Files); failed != nil {
		return errored(failed)
	}
	vars, closeServer, failed := r.mcpServer(filled, w, vars)
	if failed != nil {
		return errored(failed)
	}
	defer closeServer()

	start := func(ctx context.Context) (*instance, error) {
		return r.start(ctx, a, filled, w, vars, p.allowed.start, clock)
	}
	first, failed := start(ctx)
	if failed != nil {
		return errored(failed)
	}
	s := &testRun{test: filled, version: r.version, sandbox: w.sandbox, tokens: words, start: start, instance: first, c: first.conversation, scale: r.opts.TimeoutScale, allowed: p.allowed, auth: r.opts.Auth, logins: len(p.logins) > 0}
	s.applies = func(st *jsont.Step) bool { return p.reason(st.When, vars) == "" }
	s.run(ctx)
	s.stop()

	for i, talk := range s.ended {
		name := t.ID
		if i > 0 {
			name = fmt.Sprintf("%s.%d", t.ID, i+1)
		}
		err = errors.Join(err, r.record(a.Name, name, talk.log))
	}
	if s.err != nil {
		res.Status, res.Reason = render.Errored, s.err.Error()
		return res, nil, err
	}
	for _, talk := range s.ended {
		ledger = append(ledger, rules.Audit(filled, r.version, talk.log, talk.calls)...)
	}

	res.Obeyed = s.obeyed()
	res.Findings = append(res.Findings, s.findings...)
	for _, f := range ledger {
		if concerns(filled, f.Rule) {
			f.Test = ""
			res.Findings = append(res.Findings, f)
		}
	}

	// A test that could not get to its point neither passes nor fails.
	if res.Judge(s.met > 0); res.Status == render.Pass && s.moot != "" {
		res.Status, res.Reason = render.NA, s.moot
	}
	return res, ledger, err
}

// concerns reports whether a finding of the ledger under this rule fails the test: the
// test is about the rule, or the rule is about transport or JSON-RPC, without which there
// is no conversation. Findings under other rules are in the ledger only. Otherwise one
// mistake that an agent makes in each message would fail all its tests.
func concerns(t *jsont.Test, rule string) bool {
	return slices.Contains(t.Rules, rule) || strings.HasPrefix(rule, "TRN-") || strings.HasPrefix(rule, "RPC-")
}

// record writes a conversation as JSON lines to the folder for records, if there is one.
// Records of agents may hold text of any kind; only the owner can read them.
func (r *runner) record(agent, test string, log []*rules.Entry) error {
	if r.opts.Record == "" {
		return nil
	}
	var b bytes.Buffer
	for _, e := range log {
		line := map[string]any{"seq": e.Seq, "direction": e.Direction}
		// Bytes that are no frame would break the JSON of the record.
		if e.Value != nil && e.Problem == nil {
			line["frame"] = json.RawMessage(e.Raw)
		} else {
			line["bytes"] = string(e.Raw)
		}
		b.Write(jsont.Encode(line))
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

// fileName returns s with the characters replaced that a file name should not have.
func fileName(s string) string {
	s = strings.Map(func(c rune) rune {
		isLetter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		isDigit := c >= '0' && c <= '9'
		if isLetter || isDigit || strings.ContainsRune("._-", c) {
			return c
		}
		return '_'
	}, s)
	if strings.Trim(s, ".") == "" {
		return "_" + s
	}
	return s
}
