package goodagent

import "slices"

// settingFrameMutants is the part of the table of mutants that is about modes and options.
func settingFrameMutants() []*Mutant {
	return []*Mutant{
		// The rules for plans.
		{Rule: "PLAN-02", Does: "has a priority of its own", Out: onUpdate("plan", each("entries", set("priority", "urgent")))},
		{Rule: "PLAN-03", Does: "sends only what has changed of a plan", Out: onUpdate("plan", func(u map[string]any) {
			entries, _ := u["entries"].([]any)
			if done, _ := entries[0].(map[string]any); len(entries) == 3 && done["status"] == "completed" {
				u["entries"] = entries[:2]
			}
		})},
		{Rule: "PLAN-03", Name: "done", Does: "leaves the completed entries out of its plan", Breaks: []string{"PLAN-04"}, Out: onUpdate("plan", func(u map[string]any) {
			entries, _ := u["entries"].([]any)
			u["entries"] = slices.DeleteFunc(entries, func(e any) bool {
				entry, _ := e.(map[string]any)
				return entry["status"] == "completed"
			})
		})},

		// The rules for modes.
		{Rule: "MODE-01", Does: "is in a mode that it does not have", Out: onResult("session/new", within("modes", set("currentModeId", "nowhere")))},
		{Rule: "MODE-05", Does: "changes to a mode that it does not have", Out: onUpdate("current_mode_update", set("currentModeId", "nowhere"))},

		// The rules for options.
		{Rule: "CFG-01", Does: "has an option without a name", Out: onUpdate("config_option_update", first("configOptions", unset("name")))},
		{Rule: "CFG-02", Does: "has a value that is none of the values", Breaks: []string{"MODE-07"}, Out: onUpdate("config_option_update", first("configOptions", set("currentValue", "nowhere")))},
		{Rule: "CFG-03", Does: "has options that are on or off for everybody", In: pretend(func(caps map[string]any) {
			caps["session"] = object{"configOptions": object{"boolean": object{}}, "notices": child(caps, "session")["notices"], "compaction": child(caps, "session")["compaction"]}
		})},
		{Rule: "CFG-09", Does: "sends only some of the options", Out: onUpdate("config_option_update", optionList(func(list []any) []any { return list[:1] }))},
		{Rule: "CFG-10", Does: "has a category of its own without an underscore", Out: onUpdate("config_option_update", first("configOptions", set("category", "fancy")))},
		{Rule: "CFG-12", Does: "has two options with the same id", Out: onUpdate("config_option_update", optionList(func(list []any) []any { return append(list, list[0]) }))},
		{Rule: "CFG-15", Does: "shuffles its options", Out: onUpdate("config_option_update", optionList(func(list []any) []any {
			list = slices.Clone(list)
			slices.Reverse(list)
			return list
		}))},
		{Rule: "CFG-16", Does: "has groups without an id", Out: onUpdate("config_option_update", each("configOptions", each("options", unset("group"))))},

		// The rules for extensions.
		{Rule: "EXT-03", Does: "has methods of its own without an underscore", Out: func(_ *Wire, m Message) []Message {
			if m.Method() == "_goodagent/bye" {
				m.Object["method"] = "goodagent/bye"
			}
			return keep(m)
		}},
		{Rule: "EXT-05", Does: "has members of its own in answers", Out: onResult("session/list", set("total", 5))},
		{Rule: "EXT-06", Does: "has text as _meta", Out: onUpdate("usage_update", set("_meta", "x"))},
		{Rule: "EXT-08", Does: "has a trace of its own kind", Out: onUpdate("usage_update", set("_meta", object{"traceparent": "x"}))},
		{Rule: "EXT-09", Does: "does not advertise its extensions", Out: onResult("initialize", within("agentCapabilities", unset("_meta")))},

		// The rules for errors.
		{Rule: "ERR-01", Does: "has codes of more than 32 bits", Breaks: []string{"AUTH-05", "ERR-03", "ERR-08"}, Out: code("-32000", set("code", 5_000_000_000))},
		{Rule: "ERR-02", Does: "has a whole trace as message", Out: onError(set("message", "no login\n\tat main.go:12\n\tat agent.go:40"))},
		{Rule: "ERR-06", Does: "has one code for everything", Breaks: []string{"AUTH-05", "ERR-03"}, Out: code("-32000", func(e map[string]any) { e["code"], e["message"] = -32603, "unknown user" })},
		{Rule: "ERR-07", Does: "says that requests were cancelled", Breaks: []string{"AUTH-05", "ERR-03"}, Out: code("-32000", set("code", -32800))},
		{Rule: "ERR-08", Does: "passes on codes of HTTP", Breaks: []string{"AUTH-05", "ERR-03"}, Out: code("-32000", set("code", 429))},
	}
}
