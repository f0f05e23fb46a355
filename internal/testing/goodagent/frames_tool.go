package goodagent

import "fmt"

// shown changes the content of a type in tool calls.
func shown(kind string, change func(map[string]any)) filter {
	return onUpdate("tool_call_update", each("content", when("type", kind, change)))
}

// asked changes questions about tool calls.
func asked(change func(params map[string]any)) filter {
	return onCall("session/request_permission", change)
}

// toolFrameMutants is the part of the table of mutants that is about tool calls and permissions.
func toolFrameMutants() []*Mutant {
	return []*Mutant{
		// The rules for tool calls.
		{Rule: "TOOL-02", Does: "announces tool calls twice", Out: followed(tagged("tool_call"), func(_ *Wire, m Message) Message { return m.Copy() })},
		{Rule: "TOOL-03", Does: "tells about tool calls that it has not announced", Out: followed(tagged("plan"), func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "tool_call_update", "toolCallId": "nobody-knows", "status": "completed"})
		})},
		{Rule: "TOOL-04", Does: "has tool calls with an empty title", Out: onUpdate("tool_call", set("title", ""))},
		{Rule: "TOOL-05", Does: "has a kind of tool calls of its own", Out: onUpdate("tool_call", set("kind", "magic"))},
		{Rule: "TOOL-06", Does: "has a status of tool calls of its own", Breaks: []string{"TOOL-08"}, Out: onUpdate("tool_call_update", when("status", "in_progress", set("status", "running")))},
		{Rule: "TOOL-07", Does: "goes on with tool calls that have ended", Out: func(_ *Wire, m Message) []Message {
			if m.Tag() != "tool_call_update" || m.Update()["status"] != "completed" {
				return keep(m)
			}
			again := update(m.session(), object{"sessionUpdate": "tool_call_update", "toolCallId": m.Update()["toolCallId"], "status": "in_progress"})
			return []Message{m, again, m.Copy()}
		}},
		{Rule: "TOOL-09", Does: "does not say that tool calls have ended", Out: onUpdate("tool_call_update", when("status", "completed", unset("status")))},
		{Rule: "TOOL-10", Does: "shows text without a wrapper", Out: shown("content", func(c map[string]any) {
			c["type"], c["text"] = "text", "x"
			delete(c, "content")
		})},
		{Rule: "TOOL-11", Does: "has relative paths in diffs", Out: shown("diff", set("path", "b.txt"))},
		{Rule: "TOOL-11", Name: "v2", V2: true, Does: "has relative paths in diffs", Out: shown("diff", each("changes", set("path", "b.txt")))},
		{Rule: "TOOL-13", Does: "counts lines from 0", Out: onUpdate("tool_call", each("locations", set("line", 0)))},
		{Rule: "TOOL-14", Does: "shows terminals that do not exist", Out: shown("terminal", set("terminalId", "nowhere"))},
		{Rule: "TERM-10", Does: "shows terminals only after their release", Out: onUpdate("tool_call_update", func(u map[string]any) {
			list, _ := u["content"].([]any)
			if len(list) > 0 && u["status"] == "in_progress" {
				delete(u, "content")
			}
		})},
		{Rule: "TOOL-16", Does: "has text as raw input", Out: onUpdate("tool_call", set("rawInput", "x"))},
		{Rule: "TOOL-18", Does: "has numbers as names of tools", Out: onUpdate("tool_call", set("name", 5))},
		{Rule: "TOOL-19", Does: "asks about tool calls that nobody knows", Out: onceCall("session/request_permission", within("toolCall", func(c map[string]any) {
			c["toolCallId"] = "nobody-knows"
			delete(c, "title")
		}))},

		// The rules for permissions.
		{Rule: "PERM-01", Does: "asks without saying about what", Out: onceCall("session/request_permission", unset("toolCall"))},
		{Rule: "PERM-02", Does: "has a kind of options of its own", Out: asked(each("options", when("kind", "reject_always", set("kind", "perhaps"))))},
		{Rule: "PERM-03", Does: "has two options with the same id", Out: asked(each("options", when("optionId", "never", set("optionId", "no"))))},
		{Rule: "PERM-04", Does: "asks after the turn", In: dropStray, Out: followed(saidBye, func(_ *Wire, m Message) Message {
			q := notification("session/request_permission", object{
				"sessionId": m.session(), "toolCall": object{"toolCallId": "late", "title": "Late"},
				"options": []any{object{"optionId": "yes", "name": "Yes", "kind": "allow_once"}},
			})
			q.Object["id"] = fmt.Sprint(stray, m.session())
			return q
		})},
		{Rule: "PERM-12", Does: "begins before it was allowed to", Out: followed(calling("session/request_permission"), func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "tool_call_update", "toolCallId": child(m.Params(), "toolCall")["toolCallId"], "status": "in_progress"})
		})},
		{Rule: "PERM-12", Name: "early", Does: "begins, and then asks whether it may", Out: func(_ *Wire, m Message) []Message {
			if !calling("session/request_permission")(m) {
				return keep(m)
			}
			call := child(m.Params(), "toolCall")
			delete(call, "status")
			return []Message{update(m.session(), object{"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": "in_progress"}), m}
		}},
		{Rule: "PERM-12", Name: "back", Does: "begins, and then asks about a call that it says is pending", Out: func(_ *Wire, m Message) []Message {
			if !calling("session/request_permission")(m) {
				return keep(m)
			}
			call := child(m.Params(), "toolCall")
			call["status"] = "pending"
			return []Message{update(m.session(), object{"sessionUpdate": "tool_call_update", "toolCallId": call["toolCallId"], "status": "in_progress"}), m}
		}},
		{Rule: "PERM-14", Does: "offers only to refuse", Breaks: []string{"PERM-06"}, Out: asked(each("options", set("kind", "reject_once")))},
	}
}
