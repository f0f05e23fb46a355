package rules

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-agents/parley/comply/jsont"
)

// asksUser selects questions to the user in a mode, "" for any.
func asksUser(mode string) selector {
	return func(e *event) bool { return e.Method == methodElicit && (mode == "" || text(e.params, "mode") == mode) }
}

var (
	fieldTypes = []string{"string", "number", "integer", "boolean", "array"}
	secrets    = regexp.MustCompile(`(?i)passw|secret|api.?key|\btoken\b|access.?token|credential|private.?key|\bpin\b|\bcvv\b|\bssn\b`)
	links      = regexp.MustCompile(`(?i)\bhttps?://\S+|\[[^\]]*\]\([^)]*\)`)
	loopback   = []string{"localhost", "127.0.0.1", "::1"}
)

// fields returns the fields of a form by their names.
func fields(e *event) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, v := range inner(inner(e.params, "requestedSchema"), "properties") {
		field, _ := v.(map[string]any)
		out[name] = field
	}
	return out
}

// words returns what people read of a field.
func words(name string, field map[string]any) string {
	return strings.Join([]string{name, text(field, "title"), text(field, "description")}, " ")
}

var elicitationChecks = []check{
	{rule: "ELI-01", on: asksUser(""), flaw: func(s *state, e *event) string {
		if inner(s.clientCaps, "elicitation") == nil {
			return "the client has no capability elicitation"
		}
		return ""
	}},
	{rule: "ELI-02", on: asksUser(""), flaw: func(s *state, e *event) string {
		mode := text(e.params, "mode")
		if inner(s.clientCaps, "elicitation") != nil && (mode == "form" || mode == "url") && !s.can("elicitation."+mode) {
			return "the client has no capability elicitation." + mode
		}
		return ""
	}},
	{rule: "ELI-03", on: asksUser(""), flaw: func(_ *state, e *event) string {
		_, session := e.params["sessionId"]
		_, request := e.params["requestId"]
		switch {
		case !isWord(e.params["mode"]):
			return "mode is " + jsont.Brief(e.params["mode"])
		case !isText(e.params["message"]):
			return "message is " + jsont.Brief(e.params["message"])
		case session == request && e.params["toolCallId"] == nil:
			return "there is not exactly one of sessionId and requestId"
		}
		return ""
	}},
	{rule: "ELI-04", on: asksUser(""), flaw: func(_ *state, e *event) string {
		if e.params["toolCallId"] != nil && e.sessionID() == "" {
			return "there is a toolCallId and no sessionId"
		}
		return ""
	}},
	{rule: "ELI-05", on: asksUser("form"), flaw: func(_ *state, e *event) string {
		schema := inner(e.params, "requestedSchema")
		if text(schema, "type") != "object" || inner(schema, "properties") == nil {
			return "requestedSchema is " + jsont.Brief(e.params["requestedSchema"])
		}
		return ""
	}},
	{rule: "ELI-06", on: asksUser("form"), flaw: func(_ *state, e *event) string {
		for name, field := range inOrder(fields(e)) {
			kind := text(field, "type")
			items := inner(field, "items")
			plain := kind != "array" || text(items, "type") == "string" || isList(items["anyOf"]) || isList(items["oneOf"])
			if !slices.Contains(fieldTypes, kind) && !strings.HasPrefix(kind, "_") || !plain {
				return fmt.Sprintf("the field %s is %s", jsont.Brief(name), jsont.Brief(field))
			}
		}
		return ""
	}},
	{rule: "ELI-07", on: asksUser("form"), flaw: func(_ *state, e *event) string {
		all := fields(e)
		required, _ := inner(e.params, "requestedSchema")["required"].([]any)
		for _, v := range required {
			if name, _ := v.(string); all[name] == nil {
				return fmt.Sprintf("%s is required, and there is no such field", jsont.Brief(v))
			}
		}
		for name, field := range inOrder(all) {
			for _, word := range []string{"enum", "oneOf"} {
				if values, ok := field[word].([]any); ok && len(values) == 0 {
					return fmt.Sprintf("the field %s has no values to choose from", jsont.Brief(name))
				}
			}
		}
		return ""
	}},
	{rule: "ELI-08", on: asksUser("url"), flaw: func(_ *state, e *event) string {
		address, err := url.Parse(text(e.params, "url"))
		switch {
		case !isWord(e.params["elicitationId"]):
			return "elicitationId is " + jsont.Brief(e.params["elicitationId"])
		case err != nil || address.Scheme == "" || address.Host == "":
			return "url is " + jsont.Brief(e.params["url"])
		case address.Scheme != "https" && !slices.Contains(loopback, address.Hostname()):
			return "url is " + jsont.Brief(e.params["url"]) + ", which is not https"
		}
		return ""
	}},
	{rule: "ELI-09", on: asksUser("url"), flaw: func(_ *state, e *event) string {
		address, err := url.Parse(text(e.params, "url"))
		if err != nil {
			return ""
		}
		if address.User != nil {
			return "url has a user in it"
		}
		for name := range address.Query() {
			if secrets.MatchString(name) {
				return "url has the parameter " + jsont.Brief(name)
			}
		}
		return ""
	}},
	{rule: "ELI-10", on: asksUser("url"), flaw: func(s *state, e *event) string {
		if s.pages[text(e.params, "elicitationId")] {
			return fmt.Sprintf("the id %s is that of a page that still waits", jsont.Brief(e.params["elicitationId"]))
		}
		return ""
	}},
	{rule: "ELI-11", on: asksUser(""), flaw: func(s *state, e *event) string {
		id, ok := e.params["requestId"]
		if !ok {
			return ""
		}
		for request := range s.waiting {
			object, _ := request.Value.(map[string]any)
			if jsont.Stringify(object["id"]) == jsont.Stringify(id) {
				return ""
			}
		}
		return fmt.Sprintf("requestId is %s, and no request of the client with that id waits", jsont.Brief(id))
	}},
	{rule: "ELI-14", on: asks("elicitation/complete"), flaw: func(s *state, e *event) string {
		if _, asked := s.pages[text(e.params, "elicitationId")]; !asked {
			return fmt.Sprintf("no page with the id %s was asked for", jsont.Brief(e.params["elicitationId"]))
		}
		return ""
	}},
	{rule: "ELI-15", on: asksUser("form"), flaw: func(_ *state, e *event) string {
		for name, field := range inOrder(fields(e)) {
			if secrets.MatchString(words(name, field)) || text(field, "format") == "password" {
				return fmt.Sprintf("the field %s asks for a secret", jsont.Brief(name))
			}
		}
		return ""
	}},
	{rule: "ELI-16", on: asksUser("form"), flaw: func(_ *state, e *event) string {
		for name, field := range inOrder(fields(e)) {
			if links.MatchString(words(name, field)) {
				return fmt.Sprintf("the field %s has a link in it", jsont.Brief(name))
			}
		}
		return ""
	}},
}
