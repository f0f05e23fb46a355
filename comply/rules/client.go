package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

var optionKinds = []string{"allow_once", "allow_always", "reject_once", "reject_always"}

var permissionChecks = []check{
	{rule: "PERM-01", on: asks(methodPermission), flaw: func(s *state, e *event) string {
		about := askedAbout(e)
		items, _ := e.params["options"].([]any)
		switch {
		case e.sessionID() == "":
			return "sessionId is " + jsont.Brief(e.params["sessionId"])
		case len(items) == 0:
			return "options is " + jsont.Brief(e.params["options"])
		case s.version == schema.V1 && text(about, "toolCallId") == "":
			return "toolCall is " + jsont.Brief(e.params["toolCall"])
		case s.version == schema.V2 && !isText(e.params["title"]):
			return "title is " + jsont.Brief(e.params["title"])
		}
		return ""
	}},
	{rule: "PERM-02", on: asks(methodPermission), flaw: func(s *state, e *event) string {
		for _, o := range objects(e.params, "options") {
			kind := text(o, "kind")
			known := slices.Contains(optionKinds, kind) || s.version == schema.V2 && kind != "" || caseVariant(kind)
			if !isWord(o["optionId"]) || !isText(o["name"]) || !known {
				return "an option is " + jsont.Brief(o)
			}
		}
		return ""
	}},
	{rule: "PERM-03", on: asks(methodPermission), flaw: func(_ *state, e *event) string {
		seen := map[string]bool{}
		for _, o := range objects(e.params, "options") {
			if id := text(o, "optionId"); seen[id] {
				return "two options have the id " + jsont.Brief(id)
			}
			seen[text(o, "optionId")] = true
		}
		return ""
	}},
	{rule: "PERM-04", on: asks(methodPermission), flaw: func(s *state, e *event) string {
		if x := s.session(e); x == nil || x.running() == nil {
			return fmt.Sprintf("a question was asked in the session %s, in which no turn runs", jsont.Brief(e.params["sessionId"]))
		}
		return ""
	}},
	{rule: "PERM-12", on: updates("tool_call_update"), flaw: func(s *state, e *event) string {
		question := s.permitted[e.sessionID()+"\n"+text(e.update, "toolCallId")]
		if status := text(e.update, "status"); question != nil && (status == "in_progress" || status == "completed") {
			e.proof = []*Entry{question}
			return fmt.Sprintf("the tool call is %s, and the question about it still waits", status)
		}
		return ""
	}},
	{rule: "PERM-14", on: asks(methodPermission), flaw: func(_ *state, e *event) string {
		options := objects(e.params, "options")
		if len(options) > 0 && !slices.ContainsFunc(options, func(o map[string]any) bool { return !strings.HasPrefix(text(o, "kind"), "reject") }) {
			return "all options refuse"
		}
		return ""
	}},
}

// needsCapability says that the client cannot do what it is asked for.
func needsCapability(path string) func(*state, *event) string {
	return func(s *state, e *event) string {
		if !s.can(path) {
			return fmt.Sprintf("the agent called %s, and the client has no capability %s", e.Method, path)
		}
		return ""
	}
}

var fileChecks = []check{
	{rule: "FS-01", on: asks(methodReadFile), in: schema.V1, flaw: needsCapability("fs.readTextFile")},
	{rule: "FS-02", on: asks(methodWriteFile), in: schema.V1, flaw: needsCapability("fs.writeTextFile")},
	{rule: "FS-03", on: asks(methodReadFile, methodWriteFile), in: schema.V1, flaw: func(s *state, e *event) string {
		read, write := s.can("fs.readTextFile"), s.can("fs.writeTextFile")
		if read != write && (e.Method == methodReadFile && !read || e.Method == methodWriteFile && !write) {
			return fmt.Sprintf("the client can only do one of the two, and the agent called %s", e.Method)
		}
		return ""
	}},
	{rule: "FS-04", on: asks(methodReadFile, methodWriteFile), flaw: func(_ *state, e *event) string {
		if !absolute(text(e.params, "path")) {
			return "path is " + jsont.Brief(e.params["path"])
		}
		return ""
	}},
	{rule: "FS-05", on: asks(methodReadFile), flaw: func(_ *state, e *event) string {
		for _, name := range []string{"line", "limit"} {
			if v := e.params[name]; v != nil && (!isCount(v) || name == "line" && jsont.Stringify(v) == "0") {
				return name + " is " + jsont.Brief(v)
			}
		}
		return ""
	}},
	{rule: "FS-06", on: asks(methodReadFile, methodWriteFile), in: schema.V1, flaw: func(s *state, e *event) string {
		if s.session(e) == nil {
			return "sessionId is " + jsont.Brief(e.params["sessionId"]) + ", which is no session that is open"
		}
		return ""
	}},
	{rule: "FS-11", on: asks(methodReadFile, methodWriteFile), flaw: func(s *state, e *event) string {
		return leavesRoots(s, e, text(e.params, "path"))
	}},
}

// terminalUses are the methods that name a terminal.
var terminalUses = []string{"terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}

var terminalChecks = []check{
	{rule: "TERM-01", on: asks(append([]string{"terminal/create"}, terminalUses...)...), in: schema.V1, flaw: needsCapability("terminal")},
	{rule: "TERM-02", on: asks("terminal/create"), flaw: func(_ *state, e *event) string {
		p := e.params
		switch {
		case e.sessionID() == "":
			return "sessionId is " + jsont.Brief(p["sessionId"])
		case !isWord(p["command"]):
			return "command is " + jsont.Brief(p["command"])
		case p["cwd"] != nil && !absolute(text(p, "cwd")):
			return "cwd is " + jsont.Brief(p["cwd"])
		case p["outputByteLimit"] != nil && !isCount(p["outputByteLimit"]):
			return "outputByteLimit is " + jsont.Brief(p["outputByteLimit"])
		}
		args, _ := p["args"].([]any)
		if p["args"] != nil && !isList(p["args"]) || slices.ContainsFunc(args, func(v any) bool { return !isText(v) }) {
			return "args is " + jsont.Brief(p["args"])
		}
		for _, v := range objects(p, "env") {
			if !isText(v["name"]) || !isText(v["value"]) {
				return "env is " + jsont.Brief(p["env"])
			}
		}
		if p["env"] != nil && !isList(p["env"]) {
			return "env is " + jsont.Brief(p["env"])
		}
		return ""
	}},
	{rule: "TERM-03", on: atEnd, flaw: func(s *state, e *event) string { return s.unreleased(e, false) }},
	{rule: "TERM-06", on: atEnd, flaw: func(s *state, e *event) string { return s.unreleased(e, true) }},
	{rule: "TERM-04", on: asks(terminalUses...), flaw: func(s *state, e *event) string {
		if t := s.terminals[text(e.params, "terminalId")]; t != nil && t.released {
			return fmt.Sprintf("%s names %s, which was released", e.Method, jsont.Brief(e.params["terminalId"]))
		}
		return ""
	}},
	{rule: "TERM-05", on: asks(terminalUses...), flaw: func(s *state, e *event) string {
		if id := text(e.params, "terminalId"); id != "" && s.terminals[id] == nil {
			return fmt.Sprintf("%s names %s, which the client never made", e.Method, jsont.Brief(id))
		}
		return ""
	}},
	{rule: "TERM-13", on: asks(terminalUses...), flaw: func(_ *state, e *event) string {
		if !isWord(e.params["terminalId"]) || e.sessionID() == "" {
			return "params is " + jsont.Brief(e.object["params"])
		}
		return ""
	}},
}

// unreleased names a terminal that was made in a turn which is over, and not
// released.
func (s *state) unreleased(e *event, killed bool) string {
	for id, t := range inOrder(s.terminals) {
		x := s.sessions[t.session]
		if !t.released && t.killed == killed && x != nil && len(x.turns) == 0 && x.last != nil {
			e.proof = []*Entry{t.made}
			return fmt.Sprintf("the terminal %s was not released when the turn was over", jsont.Brief(id))
		}
	}
	return ""
}
