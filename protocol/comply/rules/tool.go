package rules

import (
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// The words of the protocol for tool calls. Version 2 allows others.
var (
	toolTags     = []string{"tool_call", "tool_call_update"}
	toolKinds    = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
	toolStatuses = []string{"pending", "in_progress", "completed", "failed"}
	toolShows    = []string{"content", "diff", "terminal"}
)

// toolCall returns the tool call that an event is about, nil if none.
func toolCall(e *event) object {
	if slices.Contains(toolTags, e.tag) {
		return e.update
	}
	if e.Method == MethodPermission {
		return permissionSubject(e)
	}
	return nil
}

// toolContent returns the content that a tool call shows.
func toolContent(e *event) []object { return objects(toolCall(e), "content") }

// shownOf returns the content of one type that a tool call shows.
func shownOf(kind string) func(*event) []object {
	return func(e *event) []object {
		return slices.DeleteFunc(toolContent(e), func(c object) bool { return text(c, "type") != kind })
	}
}

// aboutTools selects the events that are about tool calls.
var aboutTools selector = func(e *event) bool { return toolCall(e) != nil }

// oneOf returns the flaw that a member of a tool call is not among the words.
// A member that is absent is fine: an update has only the members that change.
func oneOf(name string, words []string) flaw {
	return func(s *state, e *event) string {
		v := toolCall(e)[name]
		return whenIs(v != nil && !isOneOf(s, v, words), name, v)
	}
}

// known returns the state of the tool call that an event is about, nil if it was
// not announced, and its session.
func (s *state) known(e *event) (*toolState, *session) {
	x := s.session(e)
	if x == nil {
		return nil, nil
	}
	return x.calls[text(toolCall(e), "toolCallId")], x
}

// isLine reports whether v is the number of a line, from 1.
func isLine(v any) bool { return isCount(v) && jsont.Stringify(v) != "0" }

// toolChecks are about tool calls, in updates and in questions for permission. A call is
// announced once by tool_call and changed by tool_call_update; its status only moves
// forward, and the content that it shows must be complete. A loaded session repeats its
// calls, so order does not count while it loads.
var toolChecks = []check{
	// TOOL-02: every tool call has a unique id
	{rule: "TOOL-02", on: updates("tool_call"), in: schema.V1, flaw: func(s *state, e *event) string {
		c, x := s.known(e)
		if c == nil || x.loading || c.announced == nil { // TOOL-03 is about a late announcement
			return ""
		}
		return e.with(c.announced, when(true, "the id %s belongs to an earlier tool call", show(e.update["toolCallId"])))
	}},
	// TOOL-03: a tool call is announced before it is updated
	{rule: "TOOL-03", on: updates("tool_call_update"), in: schema.V1, flaw: func(s *state, e *event) string {
		c, x := s.known(e)
		id := e.update["toolCallId"]
		return when(x != nil && c == nil && isWord(id), "no tool call with the id %s was announced", show(id)) // UPD-06 is about a missing one
	}},
	// TOOL-04: a tool call has a title
	{rule: "TOOL-04", on: updates(toolTags...), flaw: func(_ *state, e *event) string {
		title, ok := e.update["title"].(string)
		return whenIs(ok && strings.TrimSpace(title) == "", "title", title)
	}},
	// TOOL-05: the kind of a tool call is one of the protocol's
	{rule: "TOOL-05", on: aboutTools, flaw: oneOf("kind", toolKinds)},
	// TOOL-06: the status of a tool call is one of the protocol's
	{rule: "TOOL-06", on: aboutTools, flaw: oneOf("status", toolStatuses)},
	// TOOL-07: a tool call that has ended does not go on
	{rule: "TOOL-07", on: updates("tool_call_update"), flaw: func(s *state, e *event) string {
		c, x := s.known(e)
		if c == nil || x.loading || !final(c.status) {
			return ""
		}
		status := text(e.update, "status")
		return when(status != "" && status != c.status, "the tool call was %s and is now %s", c.status, status)
	}},
	// TOOL-10: a tool call shows content, a diff or a terminal
	{rule: "TOOL-10", on: aboutTools, flaw: each(toolContent, "the content", func(s *state, c object) bool {
		return isOneOf(s, c["type"], toolShows) && (c["type"] != "content" || isMap(c["content"]))
	})},
	// TOOL-11: a diff has an absolute path and the new text
	{rule: "TOOL-11", on: aboutTools, in: schema.V1, flaw: each(shownOf("diff"), "the diff", func(_ *state, c object) bool {
		return isPath(c["path"]) && isText(c["newText"]) && absentOr(isText)(c["oldText"])
	})},
	// TOOL-11: a diff has an absolute path and the new text
	{rule: "TOOL-11", on: aboutTools, in: schema.V2, flaw: each(shownOf("diff"), "the diff", func(_ *state, c object) bool {
		return !slices.ContainsFunc(objects(c, "changes"), func(change object) bool { return !isPath(change["path"]) })
	})},
	// TOOL-13: locations have an absolute path and lines starting at 1
	{rule: "TOOL-13", on: aboutTools, flaw: each(func(e *event) []object { return objects(toolCall(e), "locations") }, "the location", func(_ *state, l object) bool {
		return isPath(l["path"]) && absentOr(isLine)(l["line"])
	})},
	// TOOL-14: a tool call shows only terminals of the client that are not released
	{rule: "TOOL-14", on: aboutTools, in: schema.V1, flaw: eachFlaw(shownOf("terminal"), func(s *state, c object) string {
		return when(s.terminals[text(c, "terminalId")] == nil, "the client has no terminal %s", show(c["terminalId"]))
	})},
	// TERM-10: a terminal is shown before it is released
	{rule: "TERM-10", on: aboutTools, in: schema.V1, flaw: func(s *state, e *event) string {
		if c, _ := s.known(e); c != nil && repeats(c, e) {
			return "" // it was shown before
		}
		for _, c := range shownOf("terminal")(e) {
			if t := s.terminals[text(c, "terminalId")]; t != nil && t.released {
				return when(true, "the terminal %s was released before it was shown", show(c["terminalId"]))
			}
		}
		return ""
	}},
	// TOOL-16: the raw input and output of a tool call are objects
	{rule: "TOOL-16", on: aboutTools, flaw: firstOf(member(toolCall, "rawInput", absentOr(isMap)), member(toolCall, "rawOutput", absentOr(isMap)))},
	// TOOL-18: the name of a tool is a string
	{rule: "TOOL-18", on: aboutTools, flaw: member(toolCall, "name", absentOr(isText))},
	// TOOL-19: a permission request names a known tool call
	{rule: "TOOL-19", on: asks(MethodPermission), flaw: func(s *state, e *event) string {
		c, x := s.known(e)
		about := permissionSubject(e)
		return when(x != nil && c == nil && about != nil && text(about, "title") == "", "the tool call %s was not announced or described", show(about))
	}},
}

// repeats reports whether all terminals that a tool call shows were shown in it
// before.
func repeats(c *toolState, e *event) bool {
	return !slices.ContainsFunc(shownOf("terminal")(e), func(item object) bool { return !slices.Contains(c.terminals, text(item, "terminalId")) })
}

// planChecks are about plans. Each update has the whole plan.
var planChecks = []check{
	// An update has all entries of the plan. One in which every entry is known and
	// changed, and others are missing, looks like a difference. The agent may have
	// left entries out on purpose, so it does not fail.
	// PLAN-03: every plan update has the whole plan
	{rule: "PLAN-03", level: jsont.Should, on: updates("plan"), in: schema.V1, flaw: func(s *state, e *event) string {
		x, now := s.session(e), objects(e.update, "entries")
		if x == nil || len(now) == 0 || len(now) >= len(x.plan) {
			return ""
		}
		before := map[string]string{}
		for _, entry := range x.plan {
			before[text(entry, "content")] = text(entry, "status")
		}
		for _, entry := range now {
			if was, known := before[text(entry, "content")]; !known || was == text(entry, "status") {
				return ""
			}
			delete(before, text(entry, "content"))
		}
		for content, status := range inOrder(before) {
			if status != "completed" {
				return when(true, "the plan had %d entries, but the update has only changed ones; %s is missing", len(x.plan), show(content))
			}
		}
		return ""
	}},
}
