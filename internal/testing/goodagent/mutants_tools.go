package goodagent

import "strings"

// selected chooses answers of the client that have chosen an option.
func selected(option string) func(response map[string]any) bool {
	return func(r map[string]any) bool {
		return child(child(r, "result"), "outcome")["optionId"] == option
	}
}

// hears makes some answers to questions mean something else.
func hears(c func(response map[string]any) bool, option string) filter {
	return func(_ *Wire, m Message) []Message {
		if m.Answers != nil && m.Answers.Method() == "session/request_permission" && c(m.Object) {
			delete(m.Object, "error")
			m.Object["result"] = outcome(option)
		}
		return keep(m)
	}
}

// outcomeIs chooses answers of the client with an outcome.
func outcomeIs(name string) func(response map[string]any) bool {
	return func(r map[string]any) bool { return child(child(r, "result"), "outcome")["outcome"] == name }
}

// takesCancelled does not hear that a turn is cancelled while it asks, and takes the
// question that is cancelled with it for permission.
func takesCancelled(w *Wire, m Message) []Message {
	if m.Method() == "session/cancel" && w.asks("session/request_permission") {
		w.Note["noted"] = true
		return nil
	}
	return hears(outcomeIs("cancelled"), "once")(w, m)
}

// hidesFailure reports failed calls as completed.
var hidesFailure = onUpdate("tool_call_update", func(u map[string]any) {
	if u["status"] == "failed" {
		u["status"] = "completed"
	}
})

// elicited chooses answers to questions that have an action.
func elicited(action string) func(response map[string]any) bool {
	return func(r map[string]any) bool { return child(r, "result")["action"] == action }
}

// toolsMutants is the part of the table of mutants that is about tools, permissions and questions.
func toolsMutants() []*Mutant {
	const (
		permission  = "session/request_permission"
		elicitation = "elicitation/create"
	)

	return []*Mutant{
		// The rules for tool calls.
		{Rule: "TOOL-01", Does: "does not report tool calls", Breaks: []string{"TOOL-19"}, Change: func(a *Agent) { a.Traits.QuietTools = true }},
		{Rule: "TOOL-08", Does: "does not say that a call runs", Out: func(_ *Wire, m Message) []Message {
			if m.Update()["status"] == "in_progress" {
				return nil
			}
			return keep(m)
		}},
		{Rule: "TOOL-12", Does: "shows a diff of something else", Out: onUpdate("tool_call_update", each("content", func(c map[string]any) {
			if c["type"] == "diff" {
				c["newText"] = "something else"
			}
		}))},
		{Rule: "TOOL-15", Does: "reports failed calls as completed", Breaks: []string{"FS-10", "TERM-07", "TERM-09"}, Out: hidesFailure},
		{Rule: "TOOL-17", Does: "asks before it says for what", Breaks: []string{"TOOL-19", "TOOL-03"}, Out: func(w *Wire, m Message) []Message {
			if m.Tag() == "tool_call" && m.Update()["kind"] == "edit" {
				w.Note["held"] = m
				return nil
			}
			if held, ok := w.Note["held"].(Message); ok && m.Method() == permission {
				return []Message{m, held}
			}
			return keep(m)
		}},

		// The rules for permissions.
		{Rule: "PERM-05", Does: "does not do what was allowed", In: hears(selected("once"), "no")},
		{Rule: "PERM-06", Does: "does what was refused", In: hears(selected("no"), "once")},
		{Rule: "PERM-07", Does: "takes a cancelled question for permission", In: takesCancelled, Out: noted(stops("end_turn", "cancelled"))},
		{Rule: "PERM-08", Does: "takes an error for permission", In: hears(failed, "once")},
		{Rule: "PERM-09", Does: "takes an option that it did not offer for permission", In: hears(selected("no-such-option"), "once")},
		{Rule: "PERM-10", Does: "takes an unknown outcome for permission", In: hears(outcomeIs("parley_test_postponed"), "once")},
		{Rule: "PERM-11", Does: "does not remember a permission for always", In: hears(selected("always"), "once")},

		// The rules for files and terminals.
		{Rule: "FS-07", Does: "reads something else than the client says", In: func(_ *Wire, m Message) []Message {
			content, _ := m.Result()["content"].(string)
			if m.Answers != nil && m.Answers.Method() == "fs/read_text_file" && strings.HasPrefix(content, "hello from x") {
				m.Result()["content"] = "hello from zanzibar\n"
			}
			return keep(m)
		}},
		{Rule: "FS-08", Does: "writes only what has changed", Out: onCall("fs/write_text_file", func(p map[string]any) {
			if text, _ := p["content"].(string); strings.Contains(text, "deux") {
				p["content"] = "deux\n"
			}
		})},
		{Rule: "FS-09", Does: "fails when a write is answered with null", In: replied("fs/write_text_file", func(r map[string]any) bool { return r["result"] == nil && !failed(r) }), Out: thenFails},
		{Rule: "FS-09", Name: "call", Does: "reports a call as failed when its write is answered with null", In: replied("fs/write_text_file", func(r map[string]any) bool { return r["result"] == nil && !failed(r) }), Out: noted(onUpdate("tool_call_update", when("status", "completed", set("status", "failed"))))},
		{Rule: "FS-10", Does: "reports calls as completed that the client refused", Breaks: []string{"TOOL-15"}, In: replied("fs/", failed), Out: noted(hidesFailure)},
		{Rule: "TERM-07", Does: "fails when a command was killed", In: replied("terminal/wait_for_exit", func(r map[string]any) bool { return child(r, "result")["signal"] != nil }), Out: thenFails},
		{Rule: "TERM-07", Name: "turn", Does: "breaks the turn off when a command was killed", Breaks: []string{"TERM-03", "TERM-06"}, In: func(w *Wire, m Message) []Message {
			prompt := w.Open("session/prompt")
			killed := m.Answers != nil && m.Answers.Method() == "terminal/wait_for_exit" && m.Result()["signal"] != nil
			if !killed || prompt == nil {
				return keep(m)
			}
			w.Send(Message{Object: object{"jsonrpc": "2.0", "id": prompt.Object["id"], "error": object{"code": -32603, "message": "the command has no exit code"}}})
			return nil // the agent waits on
		}},
		{Rule: "TERM-07", Name: "completed", Does: "reports a command as completed that was killed", Breaks: []string{"TOOL-15"}, In: replied("terminal/wait_for_exit", func(r map[string]any) bool { return child(r, "result")["signal"] != nil }), Out: noted(hidesFailure)},
		{Rule: "TERM-08", Does: "fails when output was cut", In: replied("terminal/output", func(r map[string]any) bool { return child(r, "result")["truncated"] == true }), Out: thenFails},
		{Rule: "TERM-09", Does: "reports a command as completed that did not start", Breaks: []string{"TOOL-15"}, In: replied("terminal/create", failed), Out: noted(hidesFailure)},

		// The rules for plans and commands.
		{Rule: "PLAN-01", Does: "does not show its plan", Breaks: []string{"PLAN-04"}, Out: without("plan")},
		{Rule: "PLAN-04", Does: "shows its plan once", Out: func(w *Wire, m Message) []Message {
			if m.Tag() == "plan" {
				if w.Note["planned"] == true {
					return nil
				}
				w.Note["planned"] = true
			}
			return keep(m)
		}},
		{Rule: "CMD-05", Does: "refuses commands", Breaks: []string{"CMD-07"}, Out: refuse("session/prompt", says(`"text":"/`), -32602)},
		{Rule: "CMD-07", Does: "refuses commands with more than text", Out: refuse("session/prompt", func(p map[string]any) bool { return blocks(p) > 1 && says(`"text":"/`)(p) }, -32602)},

		// The rules for questions to the user.
		{Rule: "ELI-12", Does: "fails when a question is declined", In: replied(elicitation, elicited("decline")), Out: thenFails},
		{Rule: "ELI-13", Does: "fails when nothing was filled in", In: replied(elicitation, func(r map[string]any) bool {
			return elicited("accept")(r) && child(r, "result")["content"] == nil
		}), Out: thenFails},
		{Rule: "ELI-17", Does: "gives up when it cannot ask", In: notesSayings, Out: func(w *Wire, m Message) []Message {
			last, _ := w.Note["last"].(string)
			if m.Tag() == "agent_message_chunk" && last != "" && says(last)(m.Update()) {
				return nil
			}
			return keep(m)
		}},
		{Rule: "ELI-18", Does: "uses what does not fit the question", Out: misspeaks("The answer is not valid.", "The user accepted with 17.")},
		{Rule: "ELI-19", Does: "takes an unknown action for accept", Out: misspeaks("The answer means nothing to me.", "The user accepted.")},
	}
}
