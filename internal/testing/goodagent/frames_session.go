package goodagent

import "encoding/json"

// sessionFrameMutants is the part of the table of mutants that is about answers about sessions.
func sessionFrameMutants() []*Mutant {
	return []*Mutant{
		// The rules for initialize.
		{Rule: "INIT-02", Does: "has a fraction as version", Out: onResult("initialize", when("protocolVersion", json.Number("1"), set("protocolVersion", json.Number("1.0"))))},
		{Rule: "INIT-06", Does: "answers with members of both versions", Out: onResult("initialize", set("info", object{"name": "x", "version": "1"}))},
		{Rule: "INIT-06", Name: "v2", V2: true, Does: "answers with members of both versions", Out: onResult("initialize", set("agentInfo", object{"name": "x", "version": "1"}))},
		{Rule: "INIT-11", Does: "has a capability of the wrong type", Out: onResult("initialize", within("agentCapabilities", within("mcpCapabilities", set("sse", "yes"))))},
		{Rule: "INIT-12", Does: "has two ways to log in with the same id", Out: onResult("initialize", func(r map[string]any) {
			methods, _ := r["authMethods"].([]any)
			r["authMethods"] = append(methods, methods[0])
		})},
		{Rule: "INIT-18", Does: "has a capability of its own outside of _meta", Out: onResult("initialize", within("agentCapabilities", set("goodagent", true)))},
		{Rule: "INIT-19", Does: "says something before it answers initialize", Out: func(_ *Wire, m Message) []Message {
			if answering("initialize")(m) {
				return []Message{notification("_goodagent/early", object{}), m}
			}
			return keep(m)
		}},

		// The rules for logins.
		{Rule: "AUTH-02", Does: "has a command for the login in a terminal", Breaks: []string{"EXT-05"}, Out: onResult("initialize", each("authMethods", when("type", "terminal", set("command", "login"))))},
		{Rule: "AUTH-13", Does: "uses -32000 for anything", Out: code("-32000", set("message", "no"))},

		// The rules for new sessions.
		{Rule: "SNEW-08", Does: "leaves out the current mode", Breaks: []string{"MODE-01"}, Out: onResult("session/new", within("modes", unset("currentModeId")))},
		{Rule: "SNEW-09", Does: "has an option without a name", Breaks: []string{"CFG-01"}, Out: onResult("session/new", first("configOptions", unset("name")))},
		{Rule: "SNEW-10", Does: "tells about a session that nobody has opened", Out: func(_ *Wire, m Message) []Message {
			if m.Tag() == "usage_update" {
				m.Params()["sessionId"] = "somebody-else"
			}
			return keep(m)
		}},
		{Rule: "SNEW-10", Name: "v2", V2: true, Does: "tells about a session that nobody has opened", Out: func(_ *Wire, m Message) []Message {
			if m.Tag() == "usage_update" {
				m.Params()["sessionId"] = "somebody-else"
			}
			return keep(m)
		}},

		// The rules for stored sessions and their folders.
		{Rule: "SLOAD-04", Does: "answers session/load with a list", Out: results("session/load", []any{})},
		{Rule: "SLOAD-06", Does: "uses a message id again when it loads", Out: func(w *Wire, m Message) []Message {
			if m.Tag() != "agent_message_chunk" || w.Open("session/load") == nil {
				return keep(m)
			}
			other := m.Copy()
			other.Update()["messageId"] = "other"
			return []Message{m, other, m.Copy()}
		}},
		{Rule: "SRES-03", Does: "has an option without a name when it resumes", Breaks: []string{"CFG-01"}, Out: onResult("session/resume", first("configOptions", unset("name")))},
		{Rule: "SLIST-03", Does: "lists sessions with relative folders", Out: onResult("session/list", each("sessions", set("cwd", "here")))},
		{Rule: "SLIST-09", Does: "lists sessions with times for people", Out: onResult("session/list", each("sessions", set("updatedAt", "yesterday")))},
		{Rule: "SLIST-12", Does: "lists additional folders that it does not offer", Out: onResult("initialize", within("agentCapabilities", within("sessionCapabilities", unset("additionalDirectories"))))},
		{Rule: "ADIR-09", Does: "runs a command outside of the session", Out: onceCall("terminal/create", set("cwd", "/"))},
	}
}
