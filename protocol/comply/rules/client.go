package rules

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
)

func permissionOptions(e *event) []object { return objects(e.params, "options") }

// permissionChecks are about session/request_permission: a question is asked in a running
// turn, about a tool call, with options that can be told apart and do not all refuse.
var permissionChecks = []check{
	// PERM-01: a permission request has a session, a tool call and options
	{rule: "PERM-01", on: asks(MethodPermission), flaw: func(s *state, e *event) string {
		options, _ := e.params["options"].([]any)
		switch {
		case e.sessionID() == "":
			return whenIs(true, "sessionId", e.params["sessionId"])
		case len(options) == 0:
			return whenIs(true, "options", e.params["options"])
		case s.version == schema.V1 && text(permissionSubject(e), "toolCallId") == "":
			return whenIs(true, "toolCall", e.params["toolCall"])
		}
		return whenIs(s.version == schema.V2 && !isText(e.params["title"]), "title", e.params["title"])
	}},
	// PERM-03: the options of a permission request have unique ids
	{rule: "PERM-03", on: asks(MethodPermission), flaw: func(_ *state, e *event) string {
		id, twice := repeated(permissionOptions(e), named("optionId"))
		return when(twice, "two options have the same id %s", show(id))
	}},
	// PERM-04: permission is requested only while a turn of the session runs
	{rule: "PERM-04", on: asks(MethodPermission), flaw: func(s *state, e *event) string {
		return when(s.session(e).running() == nil, "permission was requested in the session %s, which has no running turn", show(e.params["sessionId"]))
	}},
	// PERM-12: a tool call stays pending until the user decides
	{rule: "PERM-12", on: updates("tool_call_update"), flaw: func(s *state, e *event) string {
		if status := text(e.update, "status"); status == "in_progress" || status == "completed" {
			return e.with(s.permitted[e.sessionID()+"\n"+text(e.update, "toolCallId")], "the tool call is "+status+", but its permission request still waits")
		}
		return ""
	}},
	// PERM-12: a tool call stays pending until the user decides
	{rule: "PERM-12", on: asks(MethodPermission), flaw: (*state).begun},
	// PERM-14: at least one option allows the tool call
	{rule: "PERM-14", on: asks(MethodPermission), flaw: func(_ *state, e *event) string {
		options := permissionOptions(e)
		allowed := slices.ContainsFunc(options, func(o object) bool { return !strings.HasPrefix(text(o, "kind"), "reject") })
		return when(len(options) > 0 && !allowed, "all options refuse")
	}},
}

// begun returns the flaw that a question is about a tool call that has begun. A question that
// says that the call is pending comes too late: the person has seen the call run before being
// asked, and no status takes that back.
func (s *state) begun(e *event) string {
	call, _ := s.known(e)
	if call == nil || (call.status != "in_progress" && call.status != "completed") {
		return ""
	}
	return e.with(call.changed, "the permission request is about a tool call that is already "+call.status)
}

// needsCapability returns the flaw that the client does not have a capability.
// The initialize request in the proof shows the capabilities that the client had
// announced.
func needsCapability(path string) flaw {
	return func(s *state, e *event) string {
		return s.lacks(e, when(!s.can(path), "the agent called %s, but the client has no capability %s", e.Method, path))
	}
}

// fileChecks are about files that the agent reads and writes through the client. Version 2
// has no such methods, so most rules are for version 1 only.
var fileChecks = []check{
	// FS-01: files are read through the client only with its capability
	{rule: "FS-01", on: asks(MethodReadFile), in: schema.V1, flaw: needsCapability("fs.readTextFile")},
	// FS-02: files are written through the client only with its capability
	{rule: "FS-02", on: asks(MethodWriteFile), in: schema.V1, flaw: needsCapability("fs.writeTextFile")},
	// FS-03: a client that can only read or only write is asked for just that
	{rule: "FS-03", on: asks(MethodReadFile, MethodWriteFile), in: schema.V1, flaw: func(s *state, e *event) string {
		read, write := s.can("fs.readTextFile"), s.can("fs.writeTextFile")
		wrong := (e.Method == MethodReadFile && !read) || (e.Method == MethodWriteFile && !write)
		return s.lacks(e, when(read != write && wrong, "the client supports only one of reading and writing, but the agent called %s", e.Method))
	}},
	// FS-04: paths of files are absolute
	{rule: "FS-04", on: asks(MethodReadFile, MethodWriteFile), flaw: member(paramsOf, "path", isPath)},
	// FS-05: line and limit are integers, and lines begin with 1
	{rule: "FS-05", on: asks(MethodReadFile), flaw: firstOf(member(paramsOf, "line", absentOr(isLine)), member(paramsOf, "limit", absentOr(isCount)))},
	// FS-06: files are requested in an open session
	{rule: "FS-06", on: asks(MethodReadFile, MethodWriteFile), in: schema.V1, flaw: func(s *state, e *event) string {
		return when(s.session(e) == nil, "sessionId is %s, which is not an open session", show(e.params["sessionId"]))
	}},
	// FS-11: files are inside the folders of the session
	{rule: "FS-11", on: asks(MethodReadFile, MethodWriteFile), flaw: outside("path")},
}

// terminalUses are the methods that name a terminal.
var terminalUses = []string{"terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}

// terminalChecks are about terminals of the client: the agent uses only terminals that the
// client made and that it has not released, and releases each one. Whether one was left
// open is known only at the end of the conversation.
var terminalChecks = []check{
	// TERM-01: the client's terminals are used only with its capability
	{rule: "TERM-01", on: asks(append([]string{"terminal/create"}, terminalUses...)...), in: schema.V1, flaw: needsCapability("terminal")},
	// TERM-02: a terminal is made with a command, and in an absolute folder
	{rule: "TERM-02", on: asks("terminal/create"), flaw: firstOf(
		member(paramsOf, "sessionId", isWord), member(paramsOf, "command", isWord), member(paramsOf, "cwd", absentOr(isPath)),
	)},
	// TERM-03: every terminal is released
	{rule: "TERM-03", on: atEnd, flaw: func(s *state, e *event) string { return s.unreleased(e, false) }},
	// TERM-06: a killed terminal is released
	{rule: "TERM-06", on: atEnd, flaw: func(s *state, e *event) string { return s.unreleased(e, true) }},
	// TERM-04: a released terminal is not used
	{rule: "TERM-04", on: asks(terminalUses...), flaw: func(s *state, e *event) string {
		t := s.terminals[text(e.params, "terminalId")]
		return when(t != nil && t.released, "%s names %s, which was released", e.Method, show(e.params["terminalId"]))
	}},
	// TERM-05: only the client's terminals are used
	{rule: "TERM-05", on: asks(terminalUses...), flaw: func(s *state, e *event) string {
		id := text(e.params, "terminalId")
		return when(id != "" && s.terminals[id] == nil, "%s names %s, which the client never created", e.Method, show(id))
	}},
	// TERM-13: requests about a terminal name its id
	{rule: "TERM-13", on: asks(terminalUses...), flaw: func(_ *state, e *event) string {
		return whenIs(!isWord(e.params["terminalId"]) || e.sessionID() == "", "params", e.object["params"])
	}},
}

// unreleased names a terminal that was made in a turn which is over, and not
// released.
func (s *state) unreleased(e *event, killed bool) string {
	for id, t := range inOrder(s.terminals) {
		x := s.sessions[t.session]
		turnIsOver := x != nil && len(x.turns) == 0 && x.last != nil
		if turnIsOver && !t.released && t.killed == killed {
			return e.with(t.made, when(true, "the terminal %s was not released before the turn ended", show(id)))
		}
	}
	return ""
}
