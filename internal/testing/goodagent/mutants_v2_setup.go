package goodagent

import (
	"path/filepath"
	"slices"
)

// v2SetupMutants is the part of the table of mutants that is about initialize and logins in
// version 2 of the protocol.
func v2SetupMutants() []*Mutant {
	const (
		initialize = "initialize"
		login      = "auth/login"
		logout     = "auth/logout"
	)

	return slices.Concat(
		alsoInV2(initializeMutants(), "INIT-09", "INIT-13", "INIT-16"),
		alsoInV2(questionMutants(), "EXT-07"),
		alsoInV2(newSessionMutants(), "SNEW-12"),
		alsoInV2(authMutants(), "AUTH-05", "ERR-03"),
		inV2([]*Mutant{
			{Rule: "AUTH-01", Does: "offers a login in a terminal to every client", Out: onResult(initialize, func(r map[string]any) {
				list, _ := r["authMethods"].([]any)
				r["authMethods"] = append(list, object{"type": "terminal", "methodId": "shell", "name": "Log in"})
			})},
			{Rule: "AUTH-03", Does: "answers auth/login with a text", Out: accept(login, is("methodId", "token"), "welcome")},
			{Rule: "AUTH-04", Does: "accepts a login that it does not have", Out: accept(login, is("methodId", "no-such-method"), object{})},
			{Rule: "AUTH-06", Does: "forgets the login at once", Out: after(login, refuse("session/new", every, codeAuth))},
			{Rule: "AUTH-07", Does: "answers auth/logout with null", Out: accept(logout, every, nil)},
			{Rule: "AUTH-08", Does: "does not log out", Suspected: true, In: func(w *Wire, m Message) []Message {
				if m.Method() == logout {
					w.Send(Message{Object: object{"jsonrpc": "2.0", "id": m.Object["id"], "result": object{}}})
					return nil
				}
				return keep(m)
			}},
			{Rule: "AUTH-09", Does: "has a logout although it offers no login", Out: onResult(initialize, unset("authMethods"))},
			{Rule: "AUTH-12", Does: "does a login in a terminal without one", Out: accept(login, is("methodId", "login"), object{})},

			{Rule: "INIT-07", Does: "does not say its version", Out: onResult(initialize, within("info", set("version", "")))},
			{Rule: "INIT-08", Does: "wants to know the client's capabilities", Out: refuse(initialize, lacks("capabilities"), -32602)},
			{Rule: "INIT-10", Does: "refuses clients that can open pages and show no forms", Out: refuse(initialize, says(`"elicitation":{"url":{}}`), -32603)},
			{Rule: "INIT-17", Does: "has a method that it does not advertise", Out: onResult(initialize, within("capabilities", within("session", unset("fork"))))},
			{Rule: "EXT-10", Does: "wants _meta", Out: func(w *Wire, m Message) []Message {
				if m.Answers == nil {
					return keep(m)
				}
				if m.Answers.Method() == initialize && lacks("capabilities")(m.Answers.Params()) {
					w.Note["bare"] = true
				}
				if m.Answers.Method() == "session/new" && w.Note["bare"] == true {
					fail(m.Object, -32602)
				}
				return keep(m)
			}},
		}),
	)
}

// v2SessionMutants is the part of the table of mutants that is about sessions and MCP servers in
// version 2 of the protocol.
func v2SessionMutants() []*Mutant {
	const (
		newSession = "session/new"
		resume     = "session/resume"
		list       = "session/list"
	)

	return slices.Concat(
		alsoInV2(loadMutants(), "SLOAD-09"),
		alsoInV2(forkMutants(), "SDEL-03", "SFRK-05"),
		inV2([]*Mutant{
			{Rule: "SNEW-04", Name: "settings", Does: "has one mode for all sessions", Out: func(w *Wire, m Message) []Message {
				if m.Answers == nil || m.Answers.Method() != "session/set_config_option" {
					return keep(m)
				}
				if p := m.Answers.Params(); p["configId"] == "mode" {
					w.Note["mode"] = p["value"]
				}
				each("configOptions", func(o map[string]any) {
					if o["configId"] == "mode" && w.Note["mode"] != nil {
						o["currentValue"] = w.Note["mode"]
					}
				})(m.Result())
				return keep(m)
			}},
			{Rule: "ADIR-07", Does: "keeps folders that were not named again", Breaks: []string{"SFRK-05"}, Out: after(resume, onResult(list, each("sessions", set("additionalDirectories", []any{"/kept"}))))},

			// Sessions that are replayed.
			{Rule: "SLOAD-03", Does: "replays after the answer", Out: func(w *Wire, m Message) []Message {
				held, _ := w.Note["held"].([]Message)
				if m.Tag() == "agent_message_chunk" && w.Open(resume) != nil {
					w.Note["held"] = append(held, m)
					return nil
				}
				if m.Answers != nil && m.Answers.Method() == resume {
					delete(w.Note, "held")
					return append([]Message{m}, held...)
				}
				return keep(m)
			}},
			{Rule: "SLOAD-05", Does: "replays the user's words as its own", Breaks: []string{"UPD-18"}, Out: during(resume, onUpdate("user_message_chunk", set("sessionUpdate", "agent_message_chunk")))},
			{Rule: "SLOAD-07", Does: "replays what never was", Breaks: []string{"SNEW-10"}, Out: accept(resume, func(p map[string]any) bool { return has("replayFrom")(p) && unknownSession(p) }, object{})},
			{Rule: "SLOAD-08", Does: "forgets what it replays", In: both(notesTold, notes(resume, has("replayFrom"))), Out: noted(forgets)},
			{Rule: "SLOAD-10", Does: "asks the user while it replays", Breaks: []string{"PERM-04"}, Out: during(resume, func(_ *Wire, m Message) []Message {
				if m.Tag() != "user_message_chunk" {
					return keep(m)
				}
				options := []any{object{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, object{"optionId": "no", "name": "No", "kind": "reject_once"}}
				params := object{"sessionId": m.session(), "title": "Again?", "options": options}
				return []Message{{Object: object{"jsonrpc": "2.0", "id": stray + "replay", "method": "session/request_permission", "params": params}}, m}
			}), In: dropStray},
			{Rule: "SLOAD-11", Does: "stays in the old folder", In: asks(resume, every, func(p map[string]any) {
				if dir, _ := p["cwd"].(string); filepath.Base(dir) == "a" {
					p["cwd"] = filepath.Dir(dir)
				}
			})},

			// MCP servers.
			{Rule: "MCP-09", Does: "does not answer when it is given an MCP server of a kind that it does not know", Breaks: []string{"RPC-03"}, Out: ignore(newSession, says(`"_parley_test"`))},
			{Rule: "MCP-12", Does: "connects to no MCP servers when it resumes", In: asks(resume, has("mcpServers"), set("mcpServers", []any{}))},
		}),
	)
}
