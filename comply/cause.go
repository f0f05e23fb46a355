package comply

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/jsonrpc"

	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/rules"
)

// The rules that explain an answer which no step was about.
const (
	ruleLogin     = "INIT-20"
	ruleEndTurn   = "STOP-01"
	ruleCancelled = "STOP-05"
)

// cause returns what explains that the answer to q is not what a step waits for,
// whatever the step is about: it does not have the form of an answer to such a
// request, or initialize wants a login, or the turn behind it did not come to its
// end. It is nil if nothing does. The conversation's lock is held.
//
// To a test a prompt or a list is often only a means. An agent that answers all
// prompts with null breaks one rule, and its author should not read of thirty.
func (r *testRun) cause(x *openExpectation, q *request) *rules.Finding {
	if f := rules.MalformedAnswer(r.test, r.version, r.c.log, r.c.calls(), &q.Call); f != nil {
		return f
	}
	answer, _ := q.Answer.Value.(map[string]any)
	if code, _ := jsont.Lookup(answer, "error.code"); q.Request.Method == rules.MethodInitialize && jsont.Stringify(code) == loginCode {
		return r.setup(ruleLogin, "initialize needs no login", "it failed: "+jsont.Brief(answer["error"]), q.Request, q.Answer)
	}
	result, _ := answer["result"].(map[string]any)
	if q.Request.Method != rules.MethodPrompt || result == nil {
		return nil
	}
	ended, endedResult := maps.Clone(answer), maps.Clone(result)
	ended["result"], endedResult["stopReason"] = endedResult, "end_turn"
	if x.bound(r.c.vars).Match(ended) != nil {
		return nil // it is not only the reason
	}
	rule := ""
	switch reason, _ := result["stopReason"].(string); {
	case slices.Contains(shortStops, reason):
		rule = ruleEndTurn
	case reason == "cancelled" && !slices.ContainsFunc(r.c.log, cancels):
		rule = ruleCancelled
	default:
		return nil
	}
	return r.setup(rule, "a turn that ends with end_turn", "it ended with "+jsont.Brief(result["stopReason"]), q.Request, q.Answer)
}

// loginCode is the code of errors that say that a login is missing.
const loginCode = "-32000"

// shortStops are the reasons of turns that end before their time, and that nobody
// has cancelled.
var shortStops = []string{"max_tokens", "max_turn_requests", "refusal"}

// cancels reports whether the client gives up a turn with an entry.
func cancels(e *rules.Entry) bool {
	return e.Direction == jsonrpc.Out && slices.Contains([]string{rules.MethodCancel, rules.MethodClose, jsonrpc.CancelMethod}, e.Method)
}
