package comply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/sandbox"

	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/render"
	"github.com/parley-agents/parley/comply/rules"
)

// How long an agent may take to start in a test, compared with how long it took
// before the tests, and at least.
const (
	startupFactor = 4
	minStartup    = 5 * time.Second
)

// commandsWait is how long the probe waits for an agent to name its commands,
// which it does unasked, or not at all.
const commandsWait = 300 * time.Millisecond

// A probe is what is known about an agent before its tests.
type probe struct {
	report   render.AgentReport
	caps     any           // the agent's capabilities
	startup  time.Duration // what a test adds to its first wait
	patience time.Duration // how long the runner waits for what it asks itself
	ledger   []rules.Finding
	recorded error // why the conversation could not be written down
}

// probe starts the agent once, and initializes it.
func (r *runner) probe(ctx context.Context, a Agent) *probe {
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) * r.opts.TimeoutScale) }
	longest := scaled(r.opts.Startup)
	least := min(scaled(minStartup), longest)
	p := &probe{
		report:  render.AgentReport{Name: a.Name, ProtocolVersion: json.RawMessage("null"), AgentCapabilities: json.RawMessage("null")},
		startup: least, patience: least,
	}
	fail := func(format string, args ...any) *probe {
		p.report.Notes = append(p.report.Notes, fmt.Sprintf(format, args...))
		return p
	}
	w, err := newWorkspace(r.opts.Temp, nil)
	if err != nil {
		return fail("no workspace: %v", err)
	}
	defer w.remove()
	vars := jsont.Builtins(r.version, w.sandbox, w.temp)
	t := &jsont.Test{ID: render.ProbeID, Policy: sandbox.PolicyNone}
	agent, err := r.start(ctx, a, t, w, vars, 0, &clock{})
	if err != nil {
		return fail("it could not be started: %v", err)
	}
	defer func() {
		talk := agent.stop()
		p.ledger = rules.Audit(t, r.version, talk.log, talk.calls)
		p.recorded = r.record(a.Name, render.ProbeID, talk.log)
	}()
	began := time.Now()
	answer, err := agent.call(ctx, rules.MethodInitialize, initializeParams(r.version, vars), longest)
	if err != nil {
		return fail("initialize: %s", ending(err))
	}
	if failed := answer.Failure(); failed != nil {
		return fail("initialize failed: %s", jsont.Brief(failed))
	}
	p.startup = min(max(least, startupFactor*time.Since(began)), longest)
	p.patience = p.startup
	p.header(answer)
	p.session(ctx, agent)
	return p
}

// header takes over what the agent says about itself.
func (p *probe) header(answer *rules.Entry) {
	raw := func(paths ...string) json.RawMessage {
		for _, path := range paths {
			if v, ok := jsont.Lookup(answer.Value, "result."+path); ok {
				return jsont.Encode(v)
			}
		}
		return nil
	}
	if v := raw("protocolVersion"); v != nil {
		p.report.ProtocolVersion = v
	}
	if v := raw("agentCapabilities", "capabilities"); v != nil {
		p.report.AgentCapabilities = v
		p.caps, _ = jsont.Decode(v)
	}
	p.report.AgentInfo = raw("agentInfo", "info")
}

// session makes a session to learn about modes and commands.
func (p *probe) session(ctx context.Context, agent *instance) {
	answer, err := agent.call(ctx, rules.MethodNewSession, map[string]any{"cwd": agent.sandbox, "mcpServers": []any{}}, p.patience)
	if err == nil && answer.Failure() != nil {
		err = fmt.Errorf("%s", jsont.Brief(answer.Failure()))
	}
	if err != nil {
		p.report.Notes = append(p.report.Notes, "no session could be made: "+ending(err))
		return
	}
	p.report.Modes = names(answer.Value, "result.modes.availableModes", "id")
	p.report.Commands = names(answer.Value, "result.availableCommands", "name")
	if p.report.Commands != nil {
		return
	}
	const update = "params.update."
	agent.wait(ctx, commandsWait, func() bool { // it is no fault to have none
		for _, e := range agent.log {
			if p.report.Commands = names(e.Value, update+"availableCommands", "name"); p.report.Commands != nil {
				return true
			}
		}
		return false
	})
}

// names returns a member of all elements of a list. It is nil if there is no
// list.
func names(v any, path, member string) []string {
	list, _ := jsont.Lookup(v, path)
	items, ok := list.([]any)
	if !ok {
		return nil
	}
	out := []string{}
	for _, item := range items {
		if name, ok := jsont.Lookup(item, member); ok {
			out = append(out, jsont.Shorten(jsont.Stringify(name), 100))
		}
	}
	return out
}

// unmet returns why a test does not apply to the agent, "" if it does.
func (p *probe) unmet(t *jsont.Test, version schema.Version, vars jsont.Variables) string {
	if len(t.Protocols) > 0 && !slices.Contains(t.Protocols, int(version)) {
		return fmt.Sprintf("the test is for protocol version %d", t.Protocols[0])
	}
	return p.reason(t.Preconditions, vars)
}

// reason returns which precondition does not hold, "" if all do.
func (p *probe) reason(conds []jsont.Precondition, vars jsont.Variables) string {
	client, _ := jsont.Decode(vars[jsont.VarCapabilities])
	for _, c := range conds {
		if reason := c.Unmet(p.caps, client); reason != "" {
			return reason
		}
	}
	return ""
}
