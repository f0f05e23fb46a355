package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

var (
	toolTags     = []string{"tool_call", "tool_call_update"}
	toolKinds    = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
	toolStatuses = []string{"pending", "in_progress", "completed", "failed"}
	toolShows    = []string{"content", "diff", "terminal"}
)

// toolCallOf returns the tool call that an event tells about, nil if none.
func toolCallOf(e *event) map[string]any {
	if slices.Contains(toolTags, e.tag) {
		return e.update
	}
	if e.Method == "session/request_permission" {
		return askedAbout(e)
	}
	return nil
}

// toolContent returns what a tool call shows.
func toolContent(e *event) []map[string]any { return objects(toolCallOf(e), "content") }

// aboutTools selects what tells about tool calls.
var aboutTools selector = func(e *event) bool { return toolCallOf(e) != nil }

// oneOf says that a member of a tool call is not among the values. In version 2
// all values are legal.
func oneOf(name string, values []string) func(*state, *event) string {
	return func(s *state, e *event) string {
		v := toolCallOf(e)[name]
		word, _ := v.(string)
		open := s.version == schema.V2 && word != ""
		if v != nil && !slices.Contains(values, word) && !open && !caseVariant(word) {
			return name + " is " + jsont.Brief(v)
		}
		return ""
	}
}

// shows returns the first flaw of what a tool call shows of a type.
func shows(kind string, flaw func(s *state, c map[string]any) string) func(*state, *event) string {
	return func(s *state, e *event) string {
		for _, c := range toolContent(e) {
			if text(c, "type") != kind {
				continue
			}
			if bad := flaw(s, c); bad != "" {
				return bad
			}
		}
		return ""
	}
}

var toolChecks = []check{
	{rule: "TOOL-02", on: updates("tool_call"), in: schema.V1, flaw: func(s *state, e *event) string {
		if x := s.session(e); x != nil && !x.loading && x.calls[text(e.update, "toolCallId")] != nil {
			return "the id " + jsont.Brief(e.update["toolCallId"]) + " was that of an earlier tool call"
		}
		return ""
	}},
	{rule: "TOOL-03", on: updates("tool_call_update"), in: schema.V1, flaw: func(s *state, e *event) string {
		if x := s.session(e); x != nil && x.calls[text(e.update, "toolCallId")] == nil {
			return "no tool call with the id " + jsont.Brief(e.update["toolCallId"]) + " was announced"
		}
		return ""
	}},
	{rule: "TOOL-04", on: updates(toolTags...), flaw: func(_ *state, e *event) string {
		if title, ok := e.update["title"].(string); ok && strings.TrimSpace(title) == "" {
			return "title is " + jsont.Brief(title)
		}
		return ""
	}},
	{rule: "TOOL-05", on: aboutTools, flaw: oneOf("kind", toolKinds)},
	{rule: "TOOL-06", on: aboutTools, flaw: oneOf("status", toolStatuses)},
	{rule: "TOOL-07", on: updates("tool_call_update"), flaw: func(s *state, e *event) string {
		x, status := s.session(e), text(e.update, "status")
		if x == nil || x.loading {
			return ""
		}
		if c := x.calls[text(e.update, "toolCallId")]; c != nil && final(c.status) && status != "" && status != c.status {
			return fmt.Sprintf("the tool call was %s, and is %s now", c.status, status)
		}
		return ""
	}},
	{rule: "TOOL-10", on: aboutTools, flaw: func(s *state, e *event) string {
		for _, c := range toolContent(e) {
			kind := text(c, "type")
			open := s.version == schema.V2 && kind != ""
			if !slices.Contains(toolShows, kind) && !open && !caseVariant(kind) {
				return "the content is " + jsont.Brief(c)
			}
			if kind == "content" && inner(c, "content") == nil {
				return "the content is " + jsont.Brief(c)
			}
		}
		return ""
	}},
	{rule: "TOOL-11", on: aboutTools, in: schema.V1, flaw: shows("diff", func(_ *state, c map[string]any) string {
		if old := c["oldText"]; !absolute(text(c, "path")) || !isText(c["newText"]) || old != nil && !isText(old) {
			return "the diff is " + jsont.Brief(c)
		}
		return ""
	})},
	{rule: "TOOL-11", on: aboutTools, in: schema.V2, flaw: shows("diff", func(_ *state, c map[string]any) string {
		for _, change := range objects(c, "changes") {
			if !absolute(text(change, "path")) {
				return "the diff is " + jsont.Brief(c)
			}
		}
		return ""
	})},
	{rule: "TOOL-13", on: aboutTools, flaw: func(_ *state, e *event) string {
		for _, l := range objects(toolCallOf(e), "locations") {
			if line := l["line"]; !absolute(text(l, "path")) || line != nil && (!isCount(line) || jsont.Stringify(line) == "0") {
				return "the location is " + jsont.Brief(l)
			}
		}
		return ""
	}},
	{rule: "TOOL-14", on: aboutTools, in: schema.V1, flaw: shows("terminal", func(s *state, c map[string]any) string {
		if t := s.terminals[text(c, "terminalId")]; t == nil {
			return "the client has no terminal " + jsont.Brief(c["terminalId"])
		}
		return ""
	})},
	{rule: "TERM-10", on: aboutTools, in: schema.V1, flaw: func(s *state, e *event) string {
		if x := s.session(e); x != nil && len(x.calls) > 0 && x.calls[text(toolCallOf(e), "toolCallId")] != nil && repeats(x, e) {
			return "" // it was shown before
		}
		return shows("terminal", func(s *state, c map[string]any) string {
			if t := s.terminals[text(c, "terminalId")]; t != nil && t.released {
				return "the terminal " + jsont.Brief(c["terminalId"]) + " was released before it is shown"
			}
			return ""
		})(s, e)
	}},
	{rule: "TOOL-16", on: aboutTools, flaw: func(_ *state, e *event) string {
		for _, name := range []string{"rawInput", "rawOutput"} {
			if v := toolCallOf(e)[name]; v != nil && !isMap(v) {
				return name + " is " + jsont.Brief(v)
			}
		}
		return ""
	}},
	{rule: "TOOL-18", on: aboutTools, flaw: func(_ *state, e *event) string {
		if v := toolCallOf(e)["name"]; v != nil && !isText(v) {
			return "name is " + jsont.Brief(v)
		}
		return ""
	}},
	{rule: "TOOL-19", on: asks("session/request_permission"), flaw: func(s *state, e *event) string {
		about := askedAbout(e)
		x := s.session(e)
		if x != nil && about != nil && x.calls[text(about, "toolCallId")] == nil && text(about, "title") == "" {
			return "the tool call " + jsont.Brief(about) + " was neither announced nor described"
		}
		return ""
	}},
}

// repeats reports whether all terminals that a tool call shows were shown in it
// before.
func repeats(x *session, e *event) bool {
	c := x.calls[text(toolCallOf(e), "toolCallId")]
	for _, item := range toolContent(e) {
		if text(item, "type") == "terminal" && !slices.Contains(c.terminals, text(item, "terminalId")) {
			return false
		}
	}
	return true
}

var planChecks = []check{
	{rule: "PLAN-02", on: updates("plan", "plan_update"), flaw: func(s *state, e *event) string {
		for _, entry := range append(objects(e.update, "entries"), objects(inner(e.update, "plan"), "entries")...) {
			priority, status := text(entry, "priority"), text(entry, "status")
			if s.version == schema.V2 && priority != "" && status != "" {
				continue
			}
			if !slices.Contains([]string{"high", "medium", "low"}, priority) || !slices.Contains([]string{"pending", "in_progress", "completed"}, status) {
				return "an entry is " + jsont.Brief(entry)
			}
		}
		return ""
	}},
	// Whether entries were left out on purpose cannot be known, so it does not fail.
	{rule: "PLAN-03", level: jsont.Should, on: updates("plan"), in: schema.V1, flaw: func(s *state, e *event) string {
		x := s.session(e)
		if x == nil {
			return ""
		}
		before := map[string]string{}
		for _, entry := range x.plan {
			before[text(entry, "content")] = text(entry, "status")
		}
		now := objects(e.update, "entries")
		if len(now) == 0 || len(now) >= len(x.plan) {
			return ""
		}
		for _, entry := range now {
			if was, known := before[text(entry, "content")]; !known || was == text(entry, "status") {
				return ""
			}
			delete(before, text(entry, "content"))
		}
		for content, status := range inOrder(before) {
			if status != "completed" {
				return fmt.Sprintf("the plan had %d entries, and the update has only those that changed; %s is missing", len(x.plan), jsont.Brief(content))
			}
		}
		return ""
	}},
}
