package main

import (
	"strings"
	"unicode"
)

// initialisms keep one case in Go names.
var initialisms = map[string]string{
	"id": "ID", "uri": "URI", "url": "URL", "mcp": "MCP", "http": "HTTP", "sse": "SSE", "mime": "MIME", "fs": "FS",
}

// goName returns the exported Go name for a name of the schema, be it written in
// camelCase, snake_case, with slashes or as a title.
func goName(name string) string {
	var b strings.Builder
	for _, word := range words(name) {
		if up, ok := initialisms[word]; ok {
			b.WriteString(up)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// words splits a name and lowers its words.
func words(name string) []string {
	var out []string
	word := ""
	flush := func() {
		if word != "" {
			out = append(out, strings.ToLower(word))
		}
		word = ""
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r):
			flush()
		}
		word += string(r)
	}
	flush()
	return out
}

// lowerName returns the unexported form of a Go name.
func lowerName(name string) string {
	i := 0
	for i < len(name) && unicode.IsUpper(rune(name[i])) {
		i++
	}
	if i > 1 && i < len(name) {
		i-- // the last capital begins the next word
	}
	return strings.ToLower(name[:i]) + name[i:]
}

// inlineNames are names for variants that the schema does not name.
var inlineNames = map[string]string{
	"RequestPermissionOutcome/cancelled":     "CancelledPermissionOutcome",
	"CreateElicitationResponse/decline":      "ElicitationDeclineAction",
	"CreateElicitationResponse/cancel":       "ElicitationCancelAction",
	"SetSessionConfigOptionRequest/id":       "SessionConfigIDValue",
	"SetSessionConfigOptionRequest/value_id": "SessionConfigIDValue",
	"SetSessionConfigOptionRequest/boolean":  "SessionConfigBooleanValue",
}
