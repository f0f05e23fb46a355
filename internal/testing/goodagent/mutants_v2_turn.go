package goodagent

import "slices"

// isIdle chooses updates that a session is idle.
func isIdle(m Message) bool { return m.Tag() == "state_update" && m.Update()["state"] == "idle" }

// v2PromptMutants is the part of the table of mutants that is about prompts in version 2 of the
// protocol.
func v2PromptMutants() []*Mutant {
	const prompt = "session/prompt"

	// busy returns the name of the note that a turn runs in the session of a message.
	busy := func(m Message) string {
		session, _ := m.session().(string)
		return "busy " + session
	}

	return slices.Concat(
		alsoInV2(promptMutants(), "PRM-03", "PRM-04", "PRM-05", "PRM-06", "PRM-07", "PRM-08", "PRM-12", "PRM-20", "PRM-21", "PRM-23", "ERR-04"),
		inV2([]*Mutant{
			{Rule: "PRM-09", Does: "does not answer images that it does not take", Breaks: []string{"RPC-03"},
				Out: both(onResult("initialize", within("capabilities", within("session", within("prompt", unset("image"))))), ignore(prompt, says(`"image"`)))},
			{Rule: "PRM-05", Name: "end", Does: "ends turns with images as invalid", In: notes(prompt, says(`"image"`)), Out: noted(func(_ *Wire, m Message) []Message {
				if isIdle(m) {
					m.Update()["stopReason"] = "error"
					m.Update()["error"] = object{"code": -32602, "message": "no images"}
				}
				return keep(m)
			})},
			{Rule: "PRM-18", Does: "does not answer a prompt to a busy session", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
				if m.Method() != prompt {
					return keep(m)
				}
				if w.Note[busy(m)] == true {
					return nil
				}
				w.Note[busy(m)] = true
				return keep(m)
			}, Out: func(w *Wire, m Message) []Message {
				if isIdle(m) || (answering(prompt)(m) && failed(m.Object)) {
					delete(w.Note, busy(m))
				}
				return keep(m)
			}},
			{Rule: "ERR-10", Does: "hangs when the model fails", In: notes(prompt, says("refused-by-provider")), Out: noted(drop(isIdle))},
		}),
	)
}

// v2ExchangeMutants is the part of the table of mutants that is about requests of both sides and
// tool calls in version 2 of the protocol.
func v2ExchangeMutants() []*Mutant {
	const (
		prompt     = "session/prompt"
		permission = "session/request_permission"
	)

	// diffs changes the diffs that tool calls show.
	diffs := func(change func(map[string]any)) filter {
		return onUpdate("tool_call_update", each("content", when("type", "diff", change)))
	}

	return slices.Concat(
		alsoInV2(cancelRequestMutants(), "CAN-16", "CAN-18"),
		alsoInV2(exchangeMutants(), "RPC-19"),
		inV2([]*Mutant{
			{Rule: "CAN-14", Does: "does not answer a prompt that was cancelled by its id", Breaks: []string{"RPC-03"}, In: func(w *Wire, m Message) []Message {
				held, _ := w.Note["held"].(*Message)
				delete(w.Note, "held")
				switch {
				case m.Method() == prompt && says("chunks=10 ")(m.Params()):
					w.Note["held"] = &m
					return nil
				case m.Method() == "$/cancel_request" && held != nil:
					return nil
				case held != nil:
					return []Message{*held, m}
				}
				return keep(m)
			}},
			{Rule: "RPC-14", Does: "mixes up the answers to questions that it asked at the same time", Out: func(w *Wire, m Message) []Message {
				if m.Method() == permission {
					ids, _ := w.Note["ids"].([]any)
					w.Note["ids"] = append(ids, m.Object["id"])
				}
				return keep(m)
			}, In: func(w *Wire, m Message) []Message {
				ids, _ := w.Note["ids"].([]any)
				if m.Answers == nil || m.Answers.Method() != permission || len(ids) == 0 {
					return keep(m)
				}
				i := 0
				if len(ids) > 1 && ids[0] == m.Object["id"] {
					i = 1
				}
				m.Object["id"] = ids[i]
				w.Note["ids"] = slices.Delete(ids, i, i+1)
				return keep(m)
			}},
			{Rule: "TOOL-12", Does: "shows a patch of something else", Out: diffs(within("patch", set("text", "something else")))},
			{Rule: "TOOL-12", Name: "file", Does: "shows a diff of another file", Out: diffs(each("changes", set("path", "/somewhere/else.txt")))},
		}),
	)
}
