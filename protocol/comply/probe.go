package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// commandsWait is how long the probe waits for the update with the commands of an
// agent, which need not come.
const commandsWait = 300 * time.Millisecond

// A probe is the result of the conversation before the tests.
type probe struct {
	report  render.AgentReport
	caps    any // the agent's capabilities
	allowed allowances
	login   string   // why no session can be opened without a login; "" if one can, or for other reasons not
	logins  []string // ids of the ways to log in that the agent offers
	ledger  []rules.Finding

	// unstarted ends the run: no test could say anything. recorded is reported at
	// the end.
	unstarted error // why its program could not be started
	recorded  error // why the conversation could not be recorded
}

// probe starts the agent, initializes it and opens a session. An agent that fails here is
// tested all the same; the report has the reason as a note.
func (r *runner) probe(ctx context.Context, a Agent) *probe {
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) * r.opts.TimeoutScale) }
	longest := scaled(r.opts.Startup)
	least := min(scaled(minAllowance), longest)

	p := &probe{
		report:  render.AgentReport{Name: a.Name, ProtocolVersion: json.RawMessage("null"), AgentCapabilities: json.RawMessage("null")},
		allowed: allowances{start: least, session: least},
	}
	fail := func(format string, args ...any) *probe {
		p.report.Notes = append(p.report.Notes, fmt.Sprintf(format, args...))
		return p
	}

	w, err := newWorkspace(r.opts.Temp, nil)
	if err != nil {
		return fail("make a workspace: %v", err)
	}
	defer w.remove()

	vars := jsont.Builtins(r.version, w.sandbox, w.temp)
	t := &jsont.Test{ID: render.ProbeID, Policy: sandbox.PolicyNone}
	agent, err := r.start(ctx, a, t, w, vars, 0, &clock{})
	if err != nil {
		p.unstarted = err
		return fail("the agent could not be started: %v", err)
	}

	// The conversation is judged and recorded also if the probe failed.
	defer func() {
		talk := agent.stop()
		p.ledger = rules.Audit(t, r.version, talk.log, talk.calls)
		p.recorded = r.record(a.Name, render.ProbeID, talk.log)
	}()

	began := time.Now()
	if r.version == schema.V1 {
		p.report.Offered, _ = json.Marshal(vars[jsont.VarCapabilities]) // a built-in value
	}
	answer, err := agent.call(ctx, rules.MethodInitialize, initializeParams(r.version, vars), longest)
	if err != nil {
		// A program that fails without a word was no agent: a missing file, a wrong flag.
		if exit := (*jsonrpc.ExitError)(nil); errors.As(err, &exit) && exit.State.ExitCode() > 0 && !agent.spoke() {
			p.unstarted = errors.New(ending(err))
		}
		return fail("initialize: %s", ending(err))
	}
	if failed := answer.Failure(); failed != nil {
		return fail("initialize failed: %s", jsont.Brief(failed))
	}

	// The first start warms caches, so a later one should not take longer than this
	// allows.
	p.allowed.start = max(least, allowanceFactor*time.Since(began))
	p.header(answer)
	p.session(ctx, agent, r.opts.Auth, least, min(longest, scaled(probeSession)), min(longest, scaled(probeTurn)))
	return p
}

// header sets the part of the report that the agent says about itself.
func (p *probe) header(answer *rules.Entry) {
	// The versions have different names for the same members.
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
	p.logins = append(names(answer.Value, "result.authMethods", "id"), names(answer.Value, "result.authMethods", "methodId")...)
}

// session opens a session to learn the modes and commands, whether a login is needed, and
// how long a session takes.
// least and longest bound the time that a session may take: least is allowed even
// to an agent that was faster, and after longest the probe goes on without a
// session.
func (p *probe) session(ctx context.Context, agent *instance, auth string, least, longest, turn time.Duration) {
	if auth != "" {
		if err := logIn(ctx, agent.conversation, auth, longest); err != nil {
			p.report.Notes = append(p.report.Notes, fmt.Sprintf("the login with %s failed: %v", auth, err))
		}
	}

	began := time.Now()
	answer, err := agent.call(ctx, rules.MethodNewSession, map[string]any{"cwd": agent.sandbox, "mcpServers": []any{}}, longest)
	if err == nil {
		p.allowed.session = max(least, allowanceFactor*time.Since(began))
	}

	if err == nil && answer.Failure() != nil {
		if rules.WantsLogin(answer, len(p.logins) > 0) {
			p.login = loginReason(p.logins)
		}
		err = fmt.Errorf("%s", jsont.Brief(answer.Failure()))
	}

	if err != nil {
		p.report.Notes = append(p.report.Notes, "no session could be opened: "+ending(err))
		return
	}

	p.report.Modes = names(answer.Value, "result.modes.availableModes", "id")
	p.report.Commands = names(answer.Value, "result.availableCommands", "name")
	if id, ok := sessionID(answer); ok {
		p.turn(ctx, agent, id, turn)
	}

	// Some agents send their commands in an update after the session is open.
	if p.report.Commands != nil {
		return
	}
	const update = "params.update."
	agent.wait(ctx, commandsWait, func() bool { // an agent need not have any
		for _, e := range agent.log {
			if p.report.Commands = names(e.Value, update+"availableCommands", "name"); p.report.Commands != nil {
				return true
			}
		}
		return false
	})
}

// turn sends a prompt to learn how long this agent, with its model, takes until it shows
// or answers something. The turn is not waited for: the process ends with the probe.
func (p *probe) turn(ctx context.Context, agent *instance, session string, longest time.Duration) {
	began := time.Now()
	asked := &request{}
	raw := jsont.Encode(map[string]any{"jsonrpc": "2.0", "id": firstOwnID - 1, "method": rules.MethodPrompt, "params": map[string]any{
		"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": "Hello."}},
	}})
	sent, err := agent.sendEntry(ctx, raw, withLineEnd(raw), asked)
	if err != nil {
		return
	}
	var answer *rules.Entry
	err = agent.wait(ctx, longest, func() bool {
		answer = asked.Answer
		return answer != nil || slices.ContainsFunc(agent.log[sent.Seq:], func(e *rules.Entry) bool { return e.Chunk() != nil })
	})
	if err == nil {
		p.allowed.update = allowanceFactor * time.Since(began)
	}
	if answer != nil && rules.WantsLogin(answer, len(p.logins) > 0) {
		p.login = loginReason(p.logins)
	}
}

// names returns a member of each element of a list, nil if there is no list.
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

// unmet returns the reason why a test does not apply to the agent, "" if it does.
func (p *probe) unmet(t *jsont.Test, version schema.Version, vars jsont.Variables) string {
	if len(t.Protocols) > 0 && !slices.Contains(t.Protocols, int(version)) {
		return fmt.Sprintf("the test is for protocol version %d", t.Protocols[0])
	}
	return p.reason(t.Preconditions, vars)
}

// reason returns the reason why a precondition does not hold, "" if all do.
func (p *probe) reason(conds []jsont.Precondition, vars jsont.Variables) string {
	client, _ := jsont.Decode(vars[jsont.VarCapabilities])
	for _, c := range conds {
		if reason := c.Unmet(p.caps, client); reason != "" {
			return reason
		}
	}
	return ""
}
