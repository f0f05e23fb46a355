package rules

import (
	"encoding/json"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/comply/jsont"
)

// wrongMembers are the members of an answer to initialize that belong to the
// other version.
var wrongMembers = map[schema.Version][]string{
	schema.V1: {"capabilities", "info"},
	schema.V2: {"agentCapabilities", "agentInfo"},
}

// capabilityTypes has the type of each capability of an agent in version 1.
var capabilityTypes = map[string]func(any) bool{
	"loadSession": isFlag, "promptCapabilities.image": isFlag, "promptCapabilities.audio": isFlag, "promptCapabilities.embeddedContext": isFlag,
	"mcpCapabilities.http": isFlag, "mcpCapabilities.sse": isFlag,
	"promptCapabilities": isMap, "mcpCapabilities": isMap, "sessionCapabilities": isMap, "auth": isMap, "auth.logout": isMap,
	"sessionCapabilities.list": isMap, "sessionCapabilities.resume": isMap, "sessionCapabilities.close": isMap, "sessionCapabilities.delete": isMap,
	"sessionCapabilities.fork": isMap, "sessionCapabilities.additionalDirectories": isMap,
}

func authMethods(e *event) []object { return objects(e.result, "authMethods") }

// initializeChecks are about the answer to initialize, from which the client learns the
// version, the capabilities and the ways to log in.
var initializeChecks = []check{
	{rule: "INIT-02", on: resultOf(MethodInitialize), flaw: func(_ *state, e *event) string {
		v, ok := e.result["protocolVersion"]
		n, _ := v.(json.Number)
		i, err := n.Int64()
		return whenIs(ok && (!isInteger(v) || err != nil || i < 0 || i > 65535), "protocolVersion", v)
	}},
	{rule: "INIT-06", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		for _, name := range wrongMembers[s.version] {
			if _, ok := e.result[name]; ok {
				return when(true, "the answer is for version %d and has the member %s", s.version, name)
			}
		}
		return ""
	}},
	{rule: "INIT-11", on: resultOf(MethodInitialize), in: schema.V1, flaw: func(_ *state, e *event) string {
		for path, fits := range inOrder(capabilityTypes) {
			if v, _ := jsont.Lookup(any(inner(e.result, "agentCapabilities")), path); !absentOr(fits)(v) {
				return whenIs(true, "the capability "+path, v)
			}
		}
		return ""
	}},
	{rule: "INIT-12", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		id := named("id")
		if s.version == schema.V2 {
			id = named("methodId")
		}
		seen := map[string]bool{}
		for _, m := range authMethods(e) {
			switch {
			case id(m) == "" || text(m, "name") == "":
				return whenIs(true, "a way to log in", m)
			case seen[id(m)]:
				return when(true, "two ways to log in have the id %s", show(id(m)))
			}
			seen[id(m)] = true
		}
		return ""
	}},
	{rule: "INIT-19", on: calls, flaw: func(s *state, e *event) string {
		return when(!s.initialized, "%s came before the answer to initialize", e.Method)
	}},
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
			return "the login in a terminal has a command, where it is the agent's own with other args"
		case !absentOr(isList)(m["args"]):
			return whenIs(true, "args", m["args"])
		}
		return whenIs(!env(m["env"]), "env", m["env"])
	})},
}
