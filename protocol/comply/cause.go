package comply

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// The rules that explain an unexpected answer.
const (
	ruleLogin     = "INIT-20"
	ruleEndTurn   = "STOP-01"
	ruleCancelled = "STOP-05"
)

// cause returns a finding that explains an unexpected answer to q better than the rule
// of the step, nil if there is none. The conversation's lock is held.
//
// A prompt or a list is often only a means to a test. An agent that answers all prompts
// with null breaks one rule, and its author should read of that rule, not of the thirty
// rules whose tests use a prompt. Three causes are tried in this order: the answer does
// not have the form of answers to the method; initialize demands a login; or the turn
// stopped early, and nothing but the stop reason keeps the answer from matching. The
// last is found by matching the answer again with end_turn in place of its reason. The
// first replays the log up to the answer, so a failed step costs one more audit.
func (r *testRun) cause(x *openExpectation, q *request) *rules.Finding {
	if f := rules.MalformedAnswer(r.test, r.version, r.c.log, r.c.calls(), &q.Call); f != nil {
		return f
	}

	answer, _ := q.Answer.Value.(map[string]any)
	if code, _ := jsont.Lookup(answer, "error.code"); q.Request.Method == rules.MethodInitialize && jsont.Stringify(code) == loginCode {
		return r.setup(ruleLogin, "initialize works without a login", "it failed: "+jsont.Brief(answer["error"]), q.Request, q.Answer)
	}

	result, _ := answer["result"].(map[string]any)
	if q.Request.Method != rules.MethodPrompt || result == nil {
		return nil
	}

	// Copies: the log must keep the answer as it came.
	ended, endedResult := maps.Clone(answer), maps.Clone(result)
	ended["result"], endedResult["stopReason"] = endedResult, "end_turn"
	if x.bound(r.c.vars).Match(ended) != nil {
		return nil // the stop reason is not the only difference
	}

	rule := ""
	switch reason, _ := result["stopReason"].(string); {
	case slices.Contains(shortStops, reason):
		rule = ruleEndTurn
	// A turn that the client did cancel stops so rightly.
	case reason == "cancelled" && !slices.ContainsFunc(r.c.log, cancels):
		rule = ruleCancelled
	default:
		return nil
	}
	return r.setup(rule, "a turn that ends with end_turn", "it ended with "+jsont.Brief(result["stopReason"]), q.Request, q.Answer)
}

// loginCode is the code of the error that a login is missing.
const loginCode = "-32000"

// shortStops are the stop reasons of turns that end early without a cancel.
var shortStops = []string{"max_tokens", "max_turn_requests", "refusal"}

// cancels reports whether an entry cancels a turn.
// Closing a session and cancelling the request itself end its turn as well.
func cancels(e *rules.Entry) bool {
	return e.Direction == jsonrpc.Out && slices.Contains([]string{rules.MethodCancel, rules.MethodClose, jsonrpc.CancelMethod}, e.Method)
}
