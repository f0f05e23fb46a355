package goodagent

import (
	"strings"
	"time"
)

// blocks returns the number of blocks of a prompt.
func blocks(params map[string]any) int {
	list, _ := params["prompt"].([]any)
	return len(list)
}

// active returns the name of the note that a turn runs in the session of a message.
func active(m Message) string {
	session, _ := m.session().(string)
	return "active " + session
}

// noteActive notes that the agent says something, or asks the client.
func noteActive(w *Wire, m Message) {
	if m.Tag() == "agent_message_chunk" || (m.Method() != "" && m.Object["id"] != nil) {
		w.Note[active(m)] = true
	}
}

// failsCancelled makes cancelled turns fail.
var failsCancelled = onAnswer("session/prompt", func(response map[string]any) {
	if child(response, "result")["stopReason"] == "cancelled" {
		fail(response, -32603)
	}
})

// cancelMutants is the part of the table of mutants that is about turns that are cancelled.
func cancelMutants() []*Mutant {
	const (
		prompt = "session/prompt"
		cancel = "session/cancel"
	)

	return []*Mutant{
		{Rule: "CAN-01", Does: "ends a cancelled turn as if nothing had been", Breaks: []string{"CAN-12"}, In: notes(cancel, every), Out: noted(stops("cancelled", "end_turn"))},
		{Rule: "CAN-02", Does: "fails a cancelled turn", Breaks: []string{"CAN-01", "CAN-09", "CAN-10", "CAN-12", "SCLO-02", "ERR-06"}, Out: failsCancelled},
		{Rule: "CAN-03", Does: "takes its time to stop", Out: onRequest(prompt, every, func(r map[string]any) {
			if child(r, "result")["stopReason"] == "cancelled" {
				time.Sleep(4500 * time.Millisecond)
			}
		})},
		{Rule: "CAN-06", Does: "cancels the next turn when none runs", In: func(w *Wire, m Message) []Message {
			if m.Method() == cancel && w.Open(prompt) == nil {
				w.Note["early"] = true
			}
			return keep(m)
		}, Out: func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == prompt && w.Note["early"] == true {
				delete(w.Note, "early")
				m.Result()["stopReason"] = "cancelled"
			}
			return keep(m)
		}, Breaks: []string{"STOP-05"}},
		{Rule: "CAN-08", Does: "cancels all sessions", In: func(w *Wire, m Message) (out []Message) {
			if m.Method() != cancel {
				return keep(m)
			}
			for _, q := range w.in {
				if q.Method() == prompt {
					out = append(out, Message{Object: object{"jsonrpc": "2.0", "method": cancel, "params": object{"sessionId": q.Params()["sessionId"]}}})
				}
			}
			return out
		}, Breaks: []string{"STOP-05"}},
		{Rule: "CAN-09", Does: "hangs when it is cancelled before it has said or asked something", Breaks: []string{"RPC-03"}, Out: func(w *Wire, m Message) []Message {
			noteActive(w, m)
			if ends("cancelled")(m) && w.Note[active(m)] == nil {
				return nil
			}
			return keep(m)
		}},
		{Rule: "CAN-10", Does: "fails when it is cancelled again, the first time for nothing", Breaks: []string{"CAN-02"}, In: func(w *Wire, m Message) []Message {
			if m.Method() == cancel && w.Open(prompt) == nil {
				w.Note["noted"] = true
			}
			return keep(m)
		}, Out: noted(failsCancelled)},
		{Rule: "CAN-11", Does: "stays cancelled", Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil || m.Answers.Method() != prompt || m.Result() == nil {
				return keep(m)
			}
			session, _ := m.session().(string)
			if w.Note[session] == true {
				m.Result()["stopReason"] = "cancelled"
			}
			w.Note[session] = m.Result()["stopReason"] == "cancelled"
			return keep(m)
		}, Breaks: []string{"STOP-05"}},
	}
}

// cancelRequestMutants is the part of the table of mutants that is about questions, commands and requests that are cancelled.
func cancelRequestMutants() []*Mutant {
	const (
		prompt = "session/prompt"
		cancel = "session/cancel"
	)

	return []*Mutant{
		// Turns that are cancelled at a question or during a command.
		{Rule: "CAN-12", Does: "ends a turn that was cancelled at a question as if nothing had been", Breaks: []string{"CAN-01"}, Out: func(w *Wire, m Message) []Message {
			if m.Method() == "session/request_permission" {
				w.Note["noted"] = true
			}
			return noted(stops("cancelled", "end_turn"))(w, m)
		}},
		{Rule: "CAN-13", Name: "own", Does: "leaves a command of its own running when the turn is cancelled", Change: func(a *Agent) { a.Traits.KeepCommands = true }},
		{Rule: "CAN-13", Does: "leaves the command of a cancelled turn running", Breaks: []string{"TERM-03", "TERM-11"}, In: notes(cancel, every), Out: noted(func(_ *Wire, m Message) []Message {
			if strings.HasPrefix(m.Method(), "terminal/") {
				m.Object["method"] = "terminal/output"
			}
			return keep(m)
		})},

		// Requests that are cancelled by their id.
		{Rule: "CAN-14", Does: "does not answer a prompt that was cancelled by its id", Breaks: []string{"RPC-03"}, In: notes("$/cancel_request", every), Out: noted(ignore(prompt, every))},
		{Rule: "CAN-16", Does: "does not answer a session/new that was cancelled by its id", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
			held, _ := w.Note["held"].(*Message)
			delete(w.Note, "held")
			switch {
			case m.Method() == "$/cancel_request" && held != nil:
				return nil
			case m.Method() == "$/cancel_request":
				w.Note["cancels"] = true
			case m.Method() == "session/new" && w.Note["cancels"] == true:
				w.Note["held"] = &m
				return nil
			}
			if held != nil {
				return []Message{*held, m}
			}
			return keep(m)
		}},
		{Rule: "CAN-18", Does: "is dead after a request of its own was cancelled", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
			if e := child(m.Object, "error"); e != nil {
				if code, _ := number(e["code"]); code == "-32800" {
					w.Note["dead"] = true
				}
			}
			if w.Note["dead"] == true {
				return nil
			}
			return keep(m)
		}},
	}
}

// promptMutants is the part of the table of mutants that is about prompts.
func promptMutants() []*Mutant {
	const (
		prompt = "session/prompt"
		cancel = "session/cancel"
	)

	return []*Mutant{
		// The rules for prompts.
		{Rule: "PRM-01", Does: "ends turns without a reason", Out: onResult(prompt, unset("stopReason"))},
		{Rule: "PRM-03", Does: "refuses text", In: notes(cancel, every), Out: unnoted(refuse(prompt, says("'hello {proof:"), -32602))},
		{Rule: "PRM-04", Does: "refuses links", Breaks: []string{"PRM-21", "CMD-07"}, Out: refuse(prompt, says("resource_link"), -32602)},
		{Rule: "PRM-05", Does: "refuses images", Out: refuse(prompt, says(`"image"`), -32602)},
		{Rule: "PRM-06", Does: "refuses sound", Out: refuse(prompt, says(`"audio"`), -32602)},
		{Rule: "PRM-07", Does: "refuses embedded text", Out: refuse(prompt, says(`"resource":{"mimeType":"text/plain"`), -32602)},
		{Rule: "PRM-08", Does: "refuses embedded bytes", Out: refuse(prompt, says(`"blob"`), -32602)},
		{Rule: "PRM-09", Does: "does not answer images that it does not take", Breaks: []string{"RPC-03"},
			Out: both(onResult("initialize", within("agentCapabilities", within("promptCapabilities", set("image", false)))), ignore(prompt, says(`"image"`)))},
		{Rule: "PRM-10", Does: "takes prompts for a session that never was", Out: accept(prompt, unknownSession, object{"stopReason": "end_turn"})},
		{Rule: "PRM-11", Does: "takes text without text", Out: accept(prompt, says(`[{"type":"text"}]`), object{"stopReason": "end_turn"})},
		{Rule: "PRM-12", Does: "does not answer an empty prompt", Breaks: []string{"RPC-03"}, Out: ignore(prompt, says(`"prompt":[]`))},
		{Rule: "PRM-23", Does: "is dead after an empty prompt", In: notes(prompt, says(`"prompt":[]`)), Out: noted(refuse(prompt, says(`"text"`), -32603)), Breaks: []string{"ERR-06"}},
		{Rule: "PRM-13", Does: "keeps what the model says to itself", Out: without("agent_message_chunk")},
		{Rule: "PRM-16", Does: "forgets the turn before", Change: func(a *Agent) { a.Traits.Forgetful = true }},
		{Rule: "PRM-17", Does: "runs one turn at a time", In: func(w *Wire, m Message) []Message {
			if open := w.Note["turn"]; m.Method() == prompt && open == nil {
				w.Note["turn"] = m.Object["id"]
			} else if m.Method() == prompt {
				w.Note["late"] = m.Object["id"]
				return nil
			}
			return keep(m)
		}, Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil || m.Answers.Method() != prompt {
				return keep(m)
			}
			late := w.Note["late"]
			delete(w.Note, "turn")
			delete(w.Note, "late")
			if late == nil {
				return keep(m)
			}
			return []Message{m, {Object: object{"jsonrpc": "2.0", "id": late, "result": object{"stopReason": "end_turn"}}}}
		}},
		{Rule: "PRM-18", Does: "does not answer a prompt to a busy session", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
			if session, _ := m.session().(string); m.Method() == prompt {
				if w.Note[session] == true {
					return nil
				}
				w.Note[session] = true
			}
			return keep(m)
		}, Out: func(w *Wire, m Message) []Message {
			if session, _ := m.session().(string); answering(prompt)(m) {
				delete(w.Note, session)
			}
			return keep(m)
		}},
		{Rule: "PRM-20", Does: "refuses prompts with a trace", Out: refuse(prompt, func(p map[string]any) bool { return child(p, "_meta")["traceparent"] != nil }, -32602)},
		{Rule: "PRM-21", Does: "refuses prompts of many blocks", Out: refuse(prompt, func(p map[string]any) bool { return blocks(p) > 3 }, -32602)},

		// The rules for stop reasons.
		{Rule: "STOP-01", Does: "always says that it ran out of tokens", Out: stops("end_turn", "max_tokens")},
		{Rule: "STOP-02", Does: "does not say that it ran out of tokens", Out: stops("max_tokens", "end_turn")},
		{Rule: "STOP-03", Does: "does not say that it ran out of steps", Out: stops("max_turn_requests", "end_turn")},
		{Rule: "STOP-04", Does: "does not say that it refuses", Out: stops("refusal", "end_turn")},

		// The rules for errors.
		{Rule: "ERR-04", Does: "calls a session that does not exist an internal failure", Breaks: []string{"ERR-06"}, Out: onError(func(e map[string]any) {
			if code, _ := number(e["code"]); code == "-32002" {
				e["code"] = -32603
			}
		})},
		{Rule: "ERR-10", Does: "hangs when the model fails", Breaks: []string{"RPC-03"}, Out: ignore(prompt, says("refused-by-provider"))},

		{Rule: "TERM-11", Does: "does not release the terminal of a cancelled turn", Breaks: []string{"TERM-03", "TERM-06"}, In: notes(cancel, every), Out: noted(func(_ *Wire, m Message) []Message {
			if m.Method() == "terminal/release" {
				m.Object["method"] = "terminal/output"
			}
			return keep(m)
		})},
	}
}
