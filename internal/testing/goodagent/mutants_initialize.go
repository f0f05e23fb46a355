package goodagent

import "encoding/json"

// version chooses params of initialize that ask for a version.
func version(v string) condition {
	return func(p map[string]any) bool {
		n, ok := number(p["protocolVersion"])
		return ok && n == v
	}
}

// unadvertised removes a capability from the answer to initialize.
func unadvertised(group, name string) filter {
	return onResult("initialize", within("agentCapabilities", within(group, unset(name))))
}

// newSessionMutants is the part of the table of mutants that is about new sessions and their folders.
func newSessionMutants() []*Mutant {
	return []*Mutant{
		// The rules for new sessions.
		{Rule: "SNEW-01", Does: "makes sessions without an id", Breaks: []string{"SNEW-02"}, Out: onResult("session/new", set("sessionId", ""))},
		{Rule: "SNEW-02", Does: "makes one session only", Out: func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == "session/new" && m.Result() != nil {
				if w.Note["id"] == nil {
					w.Note["id"] = m.Result()["sessionId"]
				}
				m.Result()["sessionId"] = w.Note["id"]
			}
			return keep(m)
		}},
		{Rule: "SNEW-03", Does: "works in the folder that it was started in", Change: func(a *Agent) { a.Traits.IgnoreDir = true }},
		{Rule: "SNEW-04", Name: "settings", Does: "has one mode for all sessions", Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil || m.Answers.Method() != "session/set_config_option" {
				return keep(m)
			}
			if p := m.Answers.Params(); p["configId"] == "mode" {
				w.Note["mode"] = p["value"]
			}
			each("configOptions", func(o map[string]any) {
				if o["id"] == "mode" && w.Note["mode"] != nil {
					o["currentValue"] = w.Note["mode"]
				}
			})(m.Result())
			return keep(m)
		}},
		{Rule: "SNEW-04", Name: "modes", Does: "changes the mode of all sessions", In: func(w *Wire, m Message) []Message {
			if m.Method() == "session/set_mode" {
				w.Note["mode"] = m.Params()["modeId"]
			}
			return keep(m)
		}, Breaks: []string{"MODE-07", "MODE-10", "CFG-11"}, Out: onResultWith("session/load", func(w *Wire, r map[string]any) {
			if w.Note["mode"] != nil {
				within("modes", set("currentModeId", w.Note["mode"]))(r)
			}
		})},
		{Rule: "SNEW-04", Name: "history", Does: "knows what was said in other sessions", In: notesTold, Out: knowsAll},
		{Rule: "SNEW-05", Does: "accepts a relative folder", Out: accept("session/new", is("cwd", "some/folder"), object{"sessionId": "relative"})},
		{Rule: "SNEW-06", Does: "makes a session without a folder", Breaks: []string{"RPC-08", "ERR-05"}, Out: accept("session/new", lacks("cwd"), object{"sessionId": "nowhere"})},
		{Rule: "SNEW-07", Does: "does not answer a session/new without mcpServers", Breaks: []string{"RPC-03"}, Out: ignore("session/new", lacks("mcpServers"))},
		{Rule: "SNEW-11", Does: "does not answer for a folder that does not exist", Breaks: []string{"RPC-03"}, Out: ignore("session/new", says("/no/such/folder"))},
		{Rule: "SNEW-12", Does: "refuses members that it does not know", Out: refuse("session/new", has("parleyTest"), -32602)},

		// The rules for additional folders.
		{Rule: "ADIR-01", Does: "does not answer when it is given folders that it cannot take", Breaks: []string{"RPC-03"}, Out: both(unadvertised("sessionCapabilities", "additionalDirectories"), ignore("session/new", has("additionalDirectories")))},
		{Rule: "ADIR-02", Does: "refuses more folders", Out: refuse("session/new", has("additionalDirectories"), -32602)},
		{Rule: "ADIR-03", Does: "accepts relative folders", Out: accept("session/new", says(`["some/folder"]`), object{"sessionId": "relative"})},
		{Rule: "ADIR-04", Does: "accepts a folder without a name", Out: accept("session/new", says(`"additionalDirectories":[""]`), object{"sessionId": "empty"})},
		{Rule: "ADIR-05", Does: "accepts numbers as folders", Out: accept("session/new", says(`"additionalDirectories":[17]`), object{"sessionId": "number"})},
		{Rule: "ADIR-06", Does: "drops all folders but the first", In: asks("session/new", has("additionalDirectories"), func(p map[string]any) {
			if list, ok := p["additionalDirectories"].([]any); ok && len(list) > 1 {
				p["additionalDirectories"] = list[:1]
			}
		})},
		{Rule: "ADIR-07", Does: "keeps folders that were not named again", Breaks: []string{"SFRK-05"}, Out: after("session/load", onResult("session/list", each("sessions", set("additionalDirectories", []any{"/kept"}))))},
		{Rule: "ADIR-08", Does: "looks into added folders first", In: both(notesTold, notes("session/new", has("additionalDirectories"))), Out: noted(looksElsewhere)},
		{Rule: "ADIR-10", Does: "wants the member once it was used", Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil || m.Answers.Method() != "session/new" {
				return keep(m)
			}
			if has("additionalDirectories")(m.Answers.Params()) {
				w.Note["used"] = true
			} else if w.Note["used"] == true {
				fail(m.Object, -32602)
			}
			return keep(m)
		}},
	}
}

// authMutants is the part of the table of mutants that is about logins and errors.
func authMutants() []*Mutant {
	const initialize = "initialize"
	return []*Mutant{
		{Rule: "AUTH-01", Does: "offers a login in a terminal to every client", Out: onResult(initialize, when("protocolVersion", json.Number("1"), func(r map[string]any) {
			list, _ := r["authMethods"].([]any)
			r["authMethods"] = append(list, object{"type": "terminal", "id": "shell", "name": "Log in"})
		}))},
		{Rule: "AUTH-03", Does: "answers authenticate with a text", Out: accept("authenticate", is("methodId", "token"), "welcome")},
		{Rule: "AUTH-04", Does: "accepts a login that it does not have", Out: accept("authenticate", is("methodId", "no-such-method"), object{})},
		{Rule: "AUTH-05", Does: "has another code for a missing login", Breaks: []string{"ERR-03"}, Out: onError(func(e map[string]any) {
			if code, _ := number(e["code"]); code == "-32000" {
				e["code"] = -32603
			}
		})},
		{Rule: "AUTH-06", Does: "forgets the login at once", Out: after("authenticate", refuse("session/new", every, codeAuth))},
		{Rule: "AUTH-07", Does: "answers logout with null", Out: accept("logout", every, nil)},
		{Rule: "AUTH-08", Does: "does not log out", Suspected: true, In: func(w *Wire, m Message) []Message {
			if m.Method() == "logout" {
				w.Send(Message{Object: object{"jsonrpc": "2.0", "id": m.Object["id"], "result": object{}}})
				return nil
			}
			return keep(m)
		}},
		{Rule: "AUTH-09", Does: "has a logout that it does not advertise", Out: unadvertised("auth", "logout")},
		{Rule: "AUTH-12", Does: "does a login in a terminal without one", Out: accept("authenticate", is("methodId", "login"), object{})},
		{Rule: "ERR-03", Does: "has a code of HTTP for a missing login", Breaks: []string{"AUTH-05", "ERR-08"}, Out: onError(func(e map[string]any) {
			if code, _ := number(e["code"]); code == "-32000" {
				e["code"] = 401
			}
		})},

		{Rule: "AUTH-14", Does: "offers no way to log in, and wants a login", Breaks: []string{"AUTH-07", "AUTH-08", "AUTH-03", "AUTH-06", "AUTH-05", "ERR-03", "SNEW-01"}, Out: onResult("initialize", set("authMethods", []any{})), Change: loggedOut},
	}
}

// initializeMutants is the part of the table of mutants that is about initialize.
func initializeMutants() []*Mutant {
	const initialize = "initialize"
	return []*Mutant{
		{Rule: "INIT-01", Does: "says nothing about its capabilities", Breaks: []string{"AUTH-09", "INIT-06", "INIT-11", "INIT-17", "INIT-21", "MCP-07"}, Out: onResult(initialize, unset("agentCapabilities"))},
		{Rule: "INIT-03", Does: "answers with a version that nobody asked for", Breaks: []string{"INIT-06"}, Out: func(_ *Wire, m Message) []Message {
			if q := m.Answers; q != nil && q.Method() == initialize && version("1")(q.Params()) && m.Result() != nil {
				m.Result()["protocolVersion"] = 0
			}
			return keep(m)
		}},
		{Rule: "INIT-04", Does: "refuses versions from the future", Out: refuse(initialize, version("65535"), -32602)},
		{Rule: "INIT-05", Does: "refuses version 0", Out: refuse(initialize, version("0"), -32602)},
		{Rule: "INIT-07", Does: "does not say who it is", Out: onResult(initialize, unset("agentInfo"))},
		{Rule: "INIT-08", Does: "wants to know the client's capabilities", Out: refuse(initialize, lacks("clientCapabilities"), -32602)},
		{Rule: "INIT-09", Does: "refuses capabilities that it does not know", Out: refuse(initialize, says("parleyTest"), -32602)},
		{Rule: "INIT-10", Does: "refuses clients that read and do not write", Out: refuse(initialize, says(`"readTextFile":true,"writeTextFile":false`), -32603)},
		{Rule: "INIT-13", Does: "has another code for what is no version", Out: refuse(initialize, is("protocolVersion", "one"), -32603)},
		{Rule: "INIT-14", Does: "makes sessions before initialize", Out: func(w *Wire, m Message) []Message {
			switch {
			case m.Answers == nil:
			case m.Answers.Method() == initialize:
				w.Note["met"] = true
			case m.Answers.Method() == "session/new" && w.Note["met"] == nil:
				delete(m.Object, "error")
				m.Object["result"] = object{"sessionId": "early"}
			}
			return keep(m)
		}},
		{Rule: "INIT-15", Does: "does not answer a second initialize", Breaks: []string{"RPC-03"}, Out: func(w *Wire, m Message) []Message {
			if m.Answers != nil && m.Answers.Method() == initialize {
				if w.Note["met"] == true {
					return nil
				}
				w.Note["met"] = true
			}
			return keep(m)
		}},
		{Rule: "INIT-16", Does: "advertises a method that is not there", Out: refuse("session/resume", unknownSession, -32601)},
		{Rule: "INIT-17", Does: "has a method that it does not advertise", Out: unadvertised("sessionCapabilities", "close")},
		{Rule: "INIT-20", Does: "wants a login before initialize", Breaks: []string{"INIT-01"}, Out: refuse(initialize, every, -32000)},
		{Rule: "INIT-21", Does: "does not say what prompts it takes", Out: onResult(initialize, within("agentCapabilities", unset("promptCapabilities")))},

		// Rules of other areas that concern the answer to initialize or its request.
		{Rule: "MCP-07", Does: "cannot reach MCP servers over HTTP", Out: onResult(initialize, within("agentCapabilities", within("mcpCapabilities", set("http", false))))},
		{Rule: "SDEL-05", Does: "can delete sessions and not list them", Breaks: []string{"INIT-17"}, Out: unadvertised("sessionCapabilities", "list")},
		{Rule: "EXT-10", Does: "wants _meta", Out: func(w *Wire, m Message) []Message {
			if m.Answers == nil {
				return keep(m)
			}
			if m.Answers.Method() == initialize && lacks("clientInfo")(m.Answers.Params()) {
				w.Note["bare"] = true
			}
			if m.Answers.Method() == "session/new" && w.Note["bare"] == true {
				fail(m.Object, -32602)
			}
			return keep(m)
		}},
	}
}
