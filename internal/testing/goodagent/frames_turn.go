package goodagent

// turnFrameMutants is the part of the table of mutants that is about turns.
func turnFrameMutants() []*Mutant {
	return []*Mutant{
		// The rules for prompts.
		{Rule: "PRM-02", Does: "stops for a reason of its own", Out: onResult("session/prompt", set("stopReason", "done"))},
		{Rule: "PRM-02", Name: "v2", V2: true, Does: "stops for a reason of its own", Out: onUpdate("state_update", when("stopReason", "end_turn", set("stopReason", "done")))},
		{Rule: "PRM-14", Does: "goes on talking after the turn", Out: followed(saidBye, func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": "Oh, and"}})
		})},
		{Rule: "PRM-15", Does: "tells another session what it says", Breaks: []string{"PRM-14", "UPD-22"}, Out: func(w *Wire, m Message) []Message {
			if answering("session/new")(m) && m.Result() != nil {
				w.Note["last"] = m.Result()["sessionId"]
			}
			if last := w.Note["last"]; last != nil && m.Tag() == "agent_message_chunk" && w.Open("session/prompt") != nil && m.session() != last {
				m.Params()["sessionId"] = last
				delete(m.Update(), "messageId")
			}
			return keep(m)
		}},
		{Rule: "PRM-19", Does: "answers prompts with null", Out: results("session/prompt", nil)},

		// The rules for stop reasons.
		{Rule: "STOP-05", Does: "says that turns were cancelled when nobody ever cancels", In: notes("session/cancel", every), Out: unnoted(stops("end_turn", "cancelled"))},
		{Rule: "STOP-05", Name: "reject", Does: "says that a turn was cancelled whose question was answered with no", In: replied("session/request_permission", func(r map[string]any) bool {
			return child(child(r, "result"), "outcome")["optionId"] == "no"
		}), Out: noted(stops("end_turn", "cancelled"))},
		{Rule: "STOP-05", Name: "v2", V2: true, Does: "says that turns were cancelled when nobody ever cancels", In: notes("session/cancel", every), Out: unnoted(onUpdate("state_update", when("stopReason", "end_turn", set("stopReason", "cancelled"))))},

		// The rules for cancelled turns.
		{Rule: "CAN-04", Does: "tells about tool calls after the cancelled turn", Out: func(w *Wire, m Message) []Message {
			if id, ok := m.Update()["toolCallId"]; ok {
				w.Note["call"] = id
			}
			if !ends("cancelled")(m) || w.Note["call"] == nil {
				return keep(m)
			}
			return []Message{m, update(m.session(), object{"sessionUpdate": "tool_call_update", "toolCallId": w.Note["call"], "status": "failed"})}
		}},
		{Rule: "CAN-05", Does: "goes on talking after the cancelled turn", Out: followed(ends("cancelled"), func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": "Oh, and"}})
		})},
		{Rule: "CAN-17", Does: "cancels what it has not asked for", Out: followed(calling("_goodagent/bye"), func(_ *Wire, m Message) Message {
			return notification("$/cancel_request", object{"requestId": 4711})
		})},
		{Rule: "CAN-21", Does: "leaves tool calls open when it is cancelled", In: notes("session/cancel", every), Out: noted(drop(func(m Message) bool {
			return m.Tag() == "tool_call_update" && m.Update()["status"] == "failed"
		}))},
	}
}
