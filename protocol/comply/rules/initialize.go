package rules

import (
	"github.com/parley-agents/parley/protocol/acp/schema"
)

// wrongMembers are the members of an answer to initialize that belong to the
// other version.
var wrongMembers = map[schema.Version][]string{
	schema.V1: {"capabilities", "info"},
	schema.V2: {"agentCapabilities", "agentInfo"},
}

// authMethods returns the ways to log in that an answer to initialize offers.
func authMethods(e *event) []object { return objects(e.result, "authMethods") }

// initializeChecks are about the answer to initialize, from which the client learns the
// version, the capabilities and the ways to log in.
var initializeChecks = []check{
	// INIT-02: the protocol version is an integer from 0 to 65535
	{rule: "INIT-02", on: resultOf(MethodInitialize), flaw: member(resultOfCall, "protocolVersion", absentOr(isCount))}, // the schema lets 1.0 pass
	// INIT-06: the answer has the members of the agreed version
	{rule: "INIT-06", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		for _, name := range wrongMembers[s.version] {
			if _, ok := e.result[name]; ok {
				return when(true, "the answer is for version %d but has the member %s", s.version, name)
			}
		}
		return ""
	}},
	// INIT-12: every login method has a name and a unique id
	{rule: "INIT-12", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		id := named("id")
		if s.version == schema.V2 {
			id = named("methodId")
		}
		twin, twice := repeated(authMethods(e), id)
		return when(twice, "two login methods have the same id %s", show(twin))
	}},
	// INIT-19: the agent sends nothing before it has answered initialize
	{rule: "INIT-19", on: calls, flaw: func(s *state, e *event) string {
		// A client that asks for a session before gets its updates.
		for q := range s.waiting {
			if q.Method != MethodInitialize {
				return ""
			}
		}
		return when(!s.initialized && s.session(e) == nil, "%s came before the answer to initialize", e.Method)
	}},
	// AUTH-02: a login in a terminal has an id, a name, args and env, and no command
	{rule: "AUTH-02", on: resultOf(MethodInitialize), flaw: eachFlaw(authMethods, func(s *state, m object) string {
		if text(m, "type") != "terminal" {
			return ""
		}
		_, hasCommand := m["command"]
		env := absentOr(isMap)
		if s.version == schema.V2 {
			env = absentOr(isList)
		}
		switch {
		case hasCommand:
			return "a terminal login must not have a command: the client starts the agent with other args"
		case !absentOr(isList)(m["args"]):
			return whenIs(true, "args", m["args"])
		}
		return whenIs(!env(m["env"]), "env", m["env"])
	})},
}
