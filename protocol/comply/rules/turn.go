package rules

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

var (
	messageTags = []string{"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}

	// turnTags are the updates that belong to a turn. The others are about the
	// session, and may come at any time.
	turnTags = append([]string{"tool_call", "tool_call_update", "plan"}, messageTags...)

	stopReasons = []string{"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)

// idleSession returns the session of an update if no turn runs in it, else nil.
func idleSession(s *state, e *event) *session {
	if x := s.session(e); x != nil && !x.loading && len(x.turns) == 0 {
		return x
	}
	return nil
}

// elsewhere reports whether a turn runs in another session.
// An update that names an idle session while another one works has probably the
// wrong id, which is a rule of its own.
func (s *state) elsewhere(x *session) bool {
	for _, other := range s.sessions {
		if other != x && len(other.turns) > 0 {
			return true
		}
	}
	return false
}

// stopped returns the stop reason of a turn that ends with the event, in either
// version.
func stopped(s *state, e *event) (reason any, t *turn) {
	answersPrompt := e.request != nil && e.succeeded && e.request.Method == MethodPrompt
	if s.version == schema.V1 && answersPrompt {
		return e.result["stopReason"], s.turns[e.request]
	}
	becomesIdle := e.tag == "state_update" && text(e.update, "state") == "idle"
	if s.version == schema.V2 && becomesIdle && e.update["stopReason"] != nil {
		return e.update["stopReason"], s.session(e).running()
	}
	return nil, nil
}

// turnEnds selects the events that may end a turn.
var turnEnds selector = func(e *event) bool { return results(e) || e.tag == "state_update" }

// turnChecks are about turns. In version 1 the answer to session/prompt ends a turn; in
// version 2 a state_update with a stop reason does. Updates of a turn come before its end,
// and its tool calls have ended by then.
var turnChecks = []check{
	// PRM-01: every prompt is answered
	{rule: "PRM-01", on: resultOf(MethodPrompt), in: schema.V1, flaw: func(_ *state, e *event) string {
		return when(e.result != nil && e.result["stopReason"] == nil, "the result has no stopReason")
	}},
	// PRM-02: the stop reason is one of the protocol's
	{rule: "PRM-02", on: updates("state_update"), in: schema.V2, flaw: func(s *state, e *event) string {
		reason, _ := stopped(s, e)
		word, _ := reason.(string)
		known := word == "error" || slices.Contains(stopReasons, word) || strings.HasPrefix(word, "_")
		return whenIs(reason != nil && !known, "stopReason", reason)
	}},
	// PRM-14: the updates of a turn come before its end
	{rule: "PRM-14", on: updates(turnTags...), in: schema.V1, flaw: func(s *state, e *event) string {
		x := idleSession(s, e)
		switch {
		case x == nil || (x.last == nil && s.elsewhere(x)) || (x.last != nil && x.last.stop == "cancelled"):
			return ""
		case x.last == nil:
			return e.tag + " came without a prompt"
		}
		return e.with(x.last.request, e.tag+" came after the prompt was answered")
	}},
	// PRM-15: updates of a turn name its session
	{rule: "PRM-15", on: updates(turnTags...), in: schema.V1, flaw: func(s *state, e *event) string {
		if x := idleSession(s, e); x != nil && x.last == nil && s.elsewhere(x) {
			return when(true, "%s names the session %s, which is idle while another session has a running turn", e.tag, show(x.id))
		}
		return ""
	}},
	// CAN-04: updates of a cancelled turn come before its end
	{rule: "CAN-04", on: updates("tool_call_update"), in: schema.V1, flaw: afterCancelled},
	// CAN-05: a cancelled turn sends nothing after its end
	{rule: "CAN-05", on: updates(slices.DeleteFunc(slices.Clone(turnTags), func(tag string) bool { return tag == "tool_call_update" })...), in: schema.V1, flaw: afterCancelled},
	// PRM-19: a prompt is answered with an object
	{rule: "PRM-19", on: resultOf(MethodPrompt), flaw: func(_ *state, e *event) string {
		return whenIs(e.result == nil, "the result", e.object["result"])
	}},
	// STOP-05: only a turn that was cancelled stops with cancelled
	{rule: "STOP-05", on: turnEnds, flaw: func(s *state, e *event) string {
		reason, t := stopped(s, e)
		if reason != "cancelled" || t == nil {
			return ""
		}
		// A second prompt may end the turn before it.
		if !t.cancelled && !t.joined {
			return e.with(t.request, "the turn stopped with cancelled, but the client did not cancel it")
		}
		return ""
	}},
	// CAN-17: the agent cancels only its own waiting requests
	{rule: "CAN-17", on: asks("$/cancel_request"), flaw: func(s *state, e *event) string {
		id := e.params["requestId"]
		known := s.agentIDs[IDKey(jsont.Encode(id))] // an answer may be on its way
		return when(!known, "the agent cancelled the request %s, but never made one with that id", show(id))
	}},
	// CAN-21: tool calls of a cancelled turn are ended before it
	{rule: "CAN-21", on: turnEnds, flaw: func(s *state, e *event) string {
		if reason, t := stopped(s, e); reason == "cancelled" && t != nil {
			return unfinished(t)
		}
		return ""
	}},
	// TOOL-09: all tool calls have ended when their turn does
	{rule: "TOOL-09", on: turnEnds, flaw: func(s *state, e *event) string {
		if reason, t := stopped(s, e); reason != nil && reason != "cancelled" && t != nil {
			return unfinished(t)
		}
		return ""
	}},
}

// afterCancelled returns the flaw that an update came after a turn ended as cancelled.
func afterCancelled(s *state, e *event) string {
	if x := idleSession(s, e); x != nil && x.last != nil && x.last.stop == "cancelled" {
		e.proof = []*Entry{x.last.request, x.last.ended}
		return e.tag + " came after the cancelled turn ended"
	}
	return ""
}

// unfinished names a tool call of the turn that has not ended.
func unfinished(t *turn) string {
	for id, c := range inOrder(t.session.calls) {
		if c.turn == t && !final(c.status) {
			return when(true, "the tool call %s is still %s", show(id), c.status)
		}
	}
	return ""
}
