package rules

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

// wrongMembers are the members of an answer to initialize that belong to the
// other version.
var wrongMembers = map[schema.Version][]string{
	schema.V1: {"capabilities", "info"},
	schema.V2: {"agentCapabilities", "agentInfo"},
}

var initializeChecks = []check{
	{rule: "INIT-02", on: resultOf(MethodInitialize), flaw: func(_ *state, e *event) string {
		v, ok := e.result["protocolVersion"]
		n, _ := v.(json.Number)
		if i, err := n.Int64(); ok && (!isInteger(v) || err != nil || i < 0 || i > 65535) {
			return "protocolVersion is " + jsont.Brief(v)
		}
		return ""
	}},
	{rule: "INIT-06", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		for _, name := range wrongMembers[s.version] {
			if _, ok := e.result[name]; ok {
				return fmt.Sprintf("the answer is for version %d and has the member %s", s.version, name)
			}
		}
		return ""
	}},
	{rule: "INIT-11", on: resultOf(MethodInitialize), in: schema.V1, flaw: func(_ *state, e *event) string {
		caps := inner(e.result, "agentCapabilities")
		for path, flag := range inOrder(map[string]bool{
			"loadSession": true, "promptCapabilities.image": true, "promptCapabilities.audio": true, "promptCapabilities.embeddedContext": true,
			"mcpCapabilities.http": true, "mcpCapabilities.sse": true,
			"promptCapabilities": false, "mcpCapabilities": false, "sessionCapabilities": false, "auth": false, "auth.logout": false,
			"sessionCapabilities.list": false, "sessionCapabilities.resume": false, "sessionCapabilities.close": false, "sessionCapabilities.delete": false,
			"sessionCapabilities.fork": false, "sessionCapabilities.additionalDirectories": false,
		}) {
			v, ok := jsont.Lookup(any(caps), path)
			_, isFlag := v.(bool)
			_, isObject := v.(map[string]any)
			if ok && v != nil && (flag && !isFlag || !flag && !isObject) {
				return fmt.Sprintf("the capability %s is %s", path, jsont.Brief(v))
			}
		}
		return ""
	}},
	{rule: "INIT-12", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		seen := map[string]bool{}
		for _, m := range objects(e.result, "authMethods") {
			id := text(m, "id")
			if s.version == schema.V2 {
				id = text(m, "methodId")
			}
			switch {
			case id == "" || text(m, "name") == "":
				return "a way to log in is " + jsont.Brief(m)
			case seen[id]:
				return "two ways to log in have the id " + jsont.Brief(id)
			}
			seen[id] = true
		}
		return ""
	}},
	{rule: "INIT-19", on: calls, flaw: func(s *state, e *event) string {
		if !s.initialized {
			return e.Method + " came before the answer to initialize"
		}
		return ""
	}},
	{rule: "AUTH-02", on: resultOf(MethodInitialize), flaw: func(s *state, e *event) string {
		for _, m := range objects(e.result, "authMethods") {
			if text(m, "type") != "terminal" {
				continue
			}
			if _, ok := m["command"]; ok {
				return "the login in a terminal has a command, where it is the agent's own with other args"
			}
			args, hasArgs := m["args"]
			_, isList := args.([]any)
			_, isObject := m["env"].(map[string]any)
			_, isArray := m["env"].([]any)
			if hasArgs && args != nil && !isList {
				return "args is " + jsont.Brief(args)
			}
			if env := m["env"]; env != nil && (s.version == schema.V1 && !isObject || s.version == schema.V2 && !isArray) {
				return "env is " + jsont.Brief(env)
			}
		}
		return ""
	}},
}

// absolute reports whether a path is absolute, on whatever system.
func absolute(path string) bool {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`) {
		return true
	}
	return len(path) > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}
