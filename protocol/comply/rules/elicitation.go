package rules

import (
	"net/url"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// asksUser selects questions to the user in a mode, "" for any.
func asksUser(mode string) selector {
	return func(e *event) bool { return e.Method == MethodElicit && (mode == "" || text(e.params, "mode") == mode) }
}

// secrets and links match text of a field that should not be in a form. They match words,
// not intent.
var (
	fieldTypes = []string{"string", "number", "integer", "boolean", "array"}
	secrets    = pattern.New(`(?i)passw|secret|api.?key|\btoken\b|access.?token|credential|private.?key|\bpin\b|\bcvv\b|\bssn\b`)
	links      = pattern.New(`(?i)\bhttps?://\S+|\[[^\]]*\]\([^)]*\)`)
	loopback   = []string{"localhost", "127.0.0.1", "::1"}
)

// fields returns the fields of a form by their names.
func fields(e *event) map[string]object {
	out := map[string]object{}
	for name, v := range inner(inner(e.params, "requestedSchema"), "properties") {
		field, _ := v.(object)
		out[name] = field
	}
	return out
}

// eachField returns the flaw of the first field for which broken holds. The format
// takes the name of the field.
// Fields are visited in the order of their names, so the same form gives the same
// finding.
func eachField(format string, broken func(name string, field object) bool) flaw {
	return func(_ *state, e *event) string {
		for name, field := range inOrder(fields(e)) {
			if broken(name, field) {
				return when(true, format, show(name))
			}
		}
		return ""
	}
}

// words returns the text of a field that people read.
func words(name string, field object) string {
	return strings.Join([]string{name, text(field, "title"), text(field, "description")}, " ")
}

// elicitationChecks are about questions to the user: forms, which must not ask for secrets or
// carry links, and pages, which the client opens in a browser. A page waits from its
// request until the client has answered.
var elicitationChecks = []check{
	// ELI-01: questions to the user are sent only to clients with the capability
	{rule: "ELI-01", on: asksUser(""), flaw: func(s *state, e *event) string {
		return s.lacks(e, when(inner(s.clientCaps, "elicitation") == nil, "the client has no capability elicitation"))
	}},
	// ELI-02: a form or page is requested only with the client's capability for it
	{rule: "ELI-02", on: asksUser(""), flaw: func(s *state, e *event) string {
		mode := text(e.params, "mode")
		asked := inner(s.clientCaps, "elicitation") != nil && (mode == "form" || mode == "url")
		return s.lacks(e, when(asked && !s.can("elicitation."+mode), "the client has no capability elicitation.%s", mode))
	}},
	// ELI-03: a question to the user has a mode, a message and one scope
	{rule: "ELI-03", on: asksUser(""), flaw: firstOf(member(paramsOf, "mode", isWord), member(paramsOf, "message", isText), func(_ *state, e *event) string {
		_, session := e.params["sessionId"]
		_, request := e.params["requestId"]
		return when(session == request && e.params["toolCallId"] == nil, "exactly one of sessionId and requestId must be set")
	})},
	// ELI-04: a question that names a tool call names its session
	{rule: "ELI-04", on: asksUser(""), flaw: func(_ *state, e *event) string {
		return when(e.params["toolCallId"] != nil && e.sessionID() == "", "toolCallId is set, but sessionId is not")
	}},
	// ELI-05: a form is an object with properties
	{rule: "ELI-05", on: asksUser("form"), flaw: member(paramsOf, "requestedSchema", func(v any) bool {
		schema, _ := v.(object)
		return schema["type"] == "object" && isMap(schema["properties"])
	})},
	// ELI-06: fields of a form have simple types
	{rule: "ELI-06", on: asksUser("form"), flaw: func(_ *state, e *event) string {
		for name, field := range inOrder(fields(e)) {
			kind, items := text(field, "type"), inner(field, "items")
			plain := kind != "array" || text(items, "type") == "string" || isList(items["anyOf"]) || isList(items["oneOf"])
			if (!slices.Contains(fieldTypes, kind) && !strings.HasPrefix(kind, "_")) || !plain {
				return when(true, "the field %s is %s", show(name), show(field))
			}
		}
		return ""
	}},
	// ELI-07: a form demands only fields that it has, and choices are not empty
	{rule: "ELI-07", on: asksUser("form"), flaw: firstOf(func(_ *state, e *event) string {
		all := fields(e)
		required, _ := inner(e.params, "requestedSchema")["required"].([]any)
		for _, v := range required {
			if name, _ := v.(string); all[name] == nil {
				return when(true, "%s is required, but the form has no such field", show(v))
			}
		}
		return ""
	}, eachField("the field %s has an empty list of choices", func(_ string, field object) bool {
		isEmpty := func(v any) bool { values, ok := v.([]any); return ok && len(values) == 0 }
		return isEmpty(field["enum"]) || isEmpty(field["oneOf"])
	}))},
	// ELI-08: a page has an id and an absolute URL
	{rule: "ELI-08", on: asksUser("url"), flaw: firstOf(member(paramsOf, "elicitationId", isWord), func(_ *state, e *event) string {
		address, err := url.Parse(text(e.params, "url"))
		if err != nil || address.Scheme == "" || address.Host == "" {
			return whenIs(true, "url", e.params["url"])
		}
		return when(address.Scheme != "https" && !slices.Contains(loopback, address.Hostname()), "url is %s, which is not https", show(e.params["url"]))
	})},
	// ELI-09: the URL of a page contains no credentials
	{rule: "ELI-09", on: asksUser("url"), flaw: func(_ *state, e *event) string {
		address, err := url.Parse(text(e.params, "url"))
		if err != nil {
			return ""
		}
		for name := range inOrder(address.Query()) {
			if secrets().MatchString(name) && address.User == nil {
				return when(true, "url has the parameter %s", show(name))
			}
		}
		return when(address.User != nil, "url contains a user name")
	}},
	// ELI-10: pages have unique ids
	{rule: "ELI-10", on: asksUser("url"), flaw: func(s *state, e *event) string {
		id := e.params["elicitationId"]
		return when(s.pages[text(e.params, "elicitationId")], "the id %s belongs to a page that still waits", show(id))
	}},
	// ELI-11: a question about a request names a waiting request
	{rule: "ELI-11", on: asksUser(""), flaw: func(s *state, e *event) string {
		id, ok := e.params["requestId"]
		for request := range s.waiting {
			o, _ := request.Value.(object)
			ok = ok && jsont.Stringify(o["id"]) != jsont.Stringify(id)
		}
		return when(ok, "requestId is %s, but no client request with that id is waiting", show(id))
	}},
	// ELI-14: only requested pages are reported as complete
	{rule: "ELI-14", on: asks("elicitation/complete"), flaw: func(s *state, e *event) string {
		_, asked := s.pages[text(e.params, "elicitationId")]
		return when(!asked, "no page with the id %s was requested", show(e.params["elicitationId"]))
	}},
	// ELI-15: a form does not ask for secrets
	{rule: "ELI-15", on: asksUser("form"), flaw: eachField("the field %s asks for a secret", func(name string, field object) bool {
		return secrets().MatchString(words(name, field)) || text(field, "format") == "password"
	})},
	// ELI-16: a form contains no links
	{rule: "ELI-16", on: asksUser("form"), flaw: eachField("the field %s contains a link", func(name string, field object) bool {
		return links().MatchString(words(name, field))
	})},
}
