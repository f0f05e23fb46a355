package comply

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/jsonrpc"
)

// The rules that explain an answer which no step was about.
const (
	ruleResponse   = "RPC-04"
	ruleLogin      = "INIT-20"
	ruleStopReason = "PRM-01"
	ruleEndTurn    = "STOP-01"
	ruleCancelled  = "STOP-05"
)

// cause returns what explains that the answer to q is not what a step waits for,
// whatever the step is about: it does not have the form of an answer to such a
// request, or initialize wants a login, or the turn behind it did not come to its
// end. It is nil if nothing does. The conversation's lock is held.
//
// To a test a prompt or a list is often only a means. An agent that answers all
// prompts with null breaks one rule, and its author should not read of thirty.
func (s *stage) cause(a *awaited, q *asked) *Finding {
	if f := s.malformed(q); f != nil {
		return f
	}
	answer, _ := q.answer.value.(map[string]any)
	if code := inner(answer, "error")["code"]; q.entry.method == methodInitialize && stringify(code) == loginCode {
		return s.setup(ruleLogin, "initialize needs no login", "it failed: "+brief(answer["error"]), q.entry, q.answer)
	}
	result := inner(answer, "result")
	if q.entry.method != methodPrompt || result == nil {
		return nil
	}
	ended := maps.Clone(answer)
	ended["result"] = maps.Clone(result)
	inner(ended, "result")["stopReason"] = "end_turn"
	if a.try(&entry{value: ended}, s.c.vars) != nil {
		return nil // it is not only the reason
	}
	rule := ""
	switch reason := text(result, "stopReason"); {
	case slices.Contains(shortStops, reason):
		rule = ruleEndTurn
	case reason == "cancelled" && !slices.ContainsFunc(s.c.log, cancels):
		rule = ruleCancelled
	default:
		return nil
	}
	return s.setup(rule, "a turn that ends with end_turn", "it ended with "+brief(result["stopReason"]), q.entry, q.answer)
}

// loginCode is the code of errors that say that a login is missing.
const loginCode = "-32000"

// shortStops are the reasons of turns that end before their time, and that nobody
// has cancelled.
var shortStops = []string{"max_tokens", "max_turn_requests", "refusal"}

// cancels reports whether the client gives up a turn with an entry.
func cancels(e *entry) bool {
	return e.dir == jsonrpc.Out && slices.Contains([]string{methodCancel, "session/close", jsonrpc.CancelMethod}, e.method)
}

// malformed returns that the answer to q breaks a rule about the form of answers to
// its method, nil if it does not.
func (s *stage) malformed(q *asked) *Finding {
	l := newLedger(s.test, s.version, s.c.asked)
	for _, e := range s.c.log {
		event := l.scene.event(e)
		if e == q.answer {
			l.look(event, s.c.asked)
			break
		}
		l.scene.follow(event)
	}
	for _, f := range l.found {
		if isForm(q.entry.method, f.Rule) {
			f.Test, f.Frames = "", []Frame{q.entry.frame(), q.answer.frame()}
			return &f
		}
	}
	return nil
}

// isForm reports whether a rule is about the form of answers to a method.
func isForm(method, rule string) bool {
	return rule == ruleResponse || method == methodPrompt && rule == ruleStopReason ||
		slices.ContainsFunc(shapeRules, func(r shapeRule) bool { return r.is == method && r.rule == rule })
}
