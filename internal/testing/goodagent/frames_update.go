package goodagent

// empty returns a change that removes the content of a piece of a message.
func empty(tag string) filter { return onUpdate(tag, unset("content")) }

// updateFrameMutants is the part of the table of mutants that is about updates.
func updateFrameMutants() []*Mutant {
	return []*Mutant{
		// The rules for updates.
		{Rule: "UPD-22", Does: "sends the text of all sessions under the id of the first", Breaks: []string{"PRM-15", "PRM-13", "PRM-16", "SNEW-04", "UPD-18", "PRM-14", "CAN-05"}, Out: func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == "session/new" && m.Result() != nil && w.Note["first"] == nil {
				w.Note["first"] = m.Result()["sessionId"]
			}
			if m.Tag() == "agent_message_chunk" && w.Note["first"] != nil {
				m.Params()["sessionId"] = w.Note["first"]
			}
			return keep(m)
		}},
		{Rule: "UPD-01", Does: "has a kind of update of its own", Out: onUpdate("usage_update", set("sessionUpdate", "tokens"))},
		{Rule: "UPD-01", Name: "v2", V2: true, Does: "has updates of version 1 in version 2", Out: onUpdate("usage_update", set("sessionUpdate", "plan"))},
		{Rule: "UPD-02", Does: "repeats prompts without content", Out: empty("user_message_chunk")},
		{Rule: "UPD-03", Does: "says nothing in its messages", Out: empty("agent_message_chunk")},
		{Rule: "UPD-04", Does: "says nothing in its thoughts", Out: empty("agent_thought_chunk")},
		{Rule: "UPD-05", Does: "has tool calls without a title", Out: onUpdate("tool_call", unset("title"))},
		{Rule: "UPD-06", Does: "has locations that are no list", Out: onUpdate("tool_call_update", set("locations", "here"))},
		{Rule: "UPD-07", Does: "has plans whose entries are no list", Out: onUpdate("plan", set("entries", object{}))},
		{Rule: "UPD-08", Does: "has commands that are no list", Out: onUpdate("available_commands_update", set("availableCommands", object{}))},
		{Rule: "UPD-09", Does: "does not say which mode", Out: onUpdate("current_mode_update", unset("currentModeId"))},
		{Rule: "UPD-10", Does: "does not say which options", Breaks: []string{"CFG-09", "MODE-07"}, Out: onUpdate("config_option_update", unset("configOptions"))},
		{Rule: "UPD-11", Does: "tells a folder where it tells a title", Out: onUpdate("session_info_update", set("cwd", "/"))},
		{Rule: "UPD-12", Does: "does not say how much there is", Out: onUpdate("usage_update", unset("size"))},
		{Rule: "UPD-13", Does: "sends plans with an id to everybody", Breaks: []string{"UPD-20"}, Out: followed(tagged("plan"), func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "plan_update", "plan": object{"type": "items", "planId": "p", "entries": []any{}}})
		})},
		{Rule: "UPD-14", Does: "removes a plan without saying which", Breaks: []string{"UPD-20"}, Out: followed(tagged("plan"), func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "plan_removed"})
		})},
		{Rule: "UPD-15", Does: "has notices without a title", Out: onUpdate("notice", set("title", ""))},
		{Rule: "UPD-16", Does: "does not say how a compaction ended", Out: onUpdate("compaction_update", when("status", "completed", unset("status")))},
		{Rule: "UPD-17", Does: "goes on with the summary after the compaction", Out: func(w *Wire, m Message) []Message {
			if m.Tag() == "compaction_update" && m.Update()["status"] == "completed" {
				return []Message{m, update(m.session(), object{"sessionUpdate": "compaction_summary_chunk", "compactionId": m.Update()["compactionId"], "content": object{"type": "text", "text": "x"}})}
			}
			return keep(m)
		}},
		{Rule: "UPD-18", Does: "has one id for its thoughts and its answer", Out: func(w *Wire, m Message) []Message {
			if tag := m.Tag(); tag == "agent_thought_chunk" || tag == "agent_message_chunk" {
				m.Update()["messageId"] = "one"
			}
			return keep(m)
		}},
		{Rule: "UPD-19", Does: "has an id in an update", Out: once(tagged("usage_update"), func(_ *Wire, m Message) []Message {
			m.Object["id"] = stray + "update"
			return keep(m)
		}), In: dropStray},
		{Rule: "UPD-20", Does: "shows notices to everybody", Out: followed(tagged("usage_update"), func(_ *Wire, m Message) Message {
			return update(m.session(), object{"sessionUpdate": "notice", "severity": "info", "title": "Look"})
		})},
		{Rule: "UPD-21", Does: "has members of its own in updates", Out: onUpdate("usage_update", set("tokens", 5))},

		// The rules for content.
		{Rule: "CNT-01", Does: "has a type of content of its own", Out: block("audio", set("type", "sound"))},
		{Rule: "CNT-02", Does: "has text content without text", Out: block("text", unset("text"))},
		{Rule: "CNT-03", Does: "has images without a media type", Out: block("image", unset("mimeType"))},
		{Rule: "CNT-04", Does: "has audio without data", Out: block("audio", unset("data"))},
		{Rule: "CNT-05", Does: "embeds text and data at once", Out: block("resource", within("resource", func(r map[string]any) { r["text"], r["blob"] = "a", "YQ==" }))},
		{Rule: "CNT-06", Does: "has links without a name", Out: block("resource_link", unset("name"))},
		{Rule: "CNT-07", Does: "speaks to an unknown audience", Out: block("text", within("annotations", set("audience", []any{"robots"})))},
		{Rule: "CNT-08", Does: "links to addresses without a scheme", Out: block("resource_link", set("uri", "a.txt"))},
		{Rule: "CNT-09", Does: "sends data that are no base64", Out: block("image", set("data", "***"))},
		{Rule: "CNT-10", Does: "has media types without a subtype", Out: block("image", set("mimeType", "png"))},
		{Rule: "CNT-11", Does: "has lists of blocks in pieces of messages", Out: onUpdate("agent_message_chunk", func(u map[string]any) { u["content"] = []any{u["content"]} })},

		// The rules for commands.
		{Rule: "CMD-02", Does: "has commands without a description", Out: onUpdate("available_commands_update", each("availableCommands", unset("description")))},
		{Rule: "CMD-03", Does: "has commands with an input without a hint", Out: onUpdate("available_commands_update", each("availableCommands", within("input", unset("hint"))))},
		{Rule: "CMD-03", Name: "renamed", Does: "calls the hint of a command's input a placeholder", Breaks: []string{"UPD-21"}, Out: onUpdate("available_commands_update", each("availableCommands", within("input", func(input map[string]any) {
			input["placeholder"] = input["hint"]
			delete(input, "hint")
		})))},
		{Rule: "CMD-04", Does: "writes the slash into the names of commands", Out: onUpdate("available_commands_update", first("availableCommands", set("name", "/review")))},

		// The rules for usage.
		{Rule: "USE-01", Does: "uses less than nothing", Out: onUpdate("usage_update", set("used", -1))},
		{Rule: "USE-02", Does: "names currencies as people do", Out: onUpdate("usage_update", within("cost", set("currency", "dollars")))},
		{Rule: "USE-03", Does: "uses more than there is", Out: onUpdate("usage_update", set("used", 10*contextSize))},
		{Rule: "USE-04", Does: "has the usage of a turn without totals", Out: onResult("session/prompt", set("usage", object{"tokens": 5}))},
	}
}
