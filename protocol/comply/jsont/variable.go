package jsont

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// Variables has the value of each ${name} as compact JSON. A value is never changed:
// With and Join return copies, so a set of variables may be shared by goroutines.
type Variables map[string]json.RawMessage

// The names of the variables that every test has.
const (
	// The exported ones are given their values by the runner; a test that names one
	// of the MCP servers makes it start.
	varSandbox      = "sandbox"
	varTemp         = "temp"
	VarMCPServer    = "mcpServer"
	VarMCPURL       = "mcpURL"
	VarMCPStreamURL = "mcpStreamURL"
	varVersion      = "protocolVersionDefault"
	varToolCall     = "toolCall" // the kind of the update that announces a tool call
	VarCapabilities = "clientCapabilitiesDefault"
)

// variable matches a reference. Names may have dots and dashes after the first
// character.
var variable = pattern.New(`\$\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// With returns a copy of v in which name has the given value.
func (v Variables) With(name string, value json.RawMessage) Variables {
	out := maps.Clone(v)
	out[name] = value
	return out
}

// Join returns a copy of v with the variables of local added, which may be nil.
func (v Variables) Join(local Variables) Variables {
	for name, value := range local {
		v = v.With(name, value)
	}
	return v
}

// text returns the replacement of ${name} inside a string: the characters of a
// string, and JSON for any other value.
func (v Variables) text(reference string) (string, bool) {
	raw, ok := v[reference[2:len(reference)-1]]
	if !ok {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && raw[0] == '"' {
		return s, true
	}
	return string(raw), true
}

// Expand replaces the variables in a string. An unknown variable stays as it is: the
// agent or a pattern may mean the characters.
func (v Variables) Expand(s string) string { return v.replace(s, v.text) }

// Scripted ends the name of the second value of a variable that has two: ${token} in a
// pattern matches the value of token or of token.scripted.
const Scripted = ".scripted"

// expandPattern is Expand for a regular expression: the value of a variable is
// matched literally, and so is either value of a variable that has two.
func (v Variables) expandPattern(s string) string {
	return v.replace(s, func(reference string) (string, bool) {
		text, ok := v.text(reference)
		if !ok {
			return "", false
		}
		other, two := v.text(strings.TrimSuffix(reference, "}") + Scripted + "}")
		if two {
			return "(?:" + regexp.QuoteMeta(text) + "|" + regexp.QuoteMeta(other) + ")", true
		}
		return regexp.QuoteMeta(text), true
	})
}

// replace replaces each reference in s with its value. A reference without a value stays.
// A value that contains the name of another variable is not expanded again.
func (v Variables) replace(s string, value func(reference string) (string, bool)) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return variable().ReplaceAllStringFunc(s, func(reference string) string {
		if text, ok := value(reference); ok {
			return text
		}
		return reference
	})
}

// fill turns the text of a template into JSON: it replaces the variables outside of
// strings. Variables in strings stay until the string is used, because only then
// their values are captured, and only then it is known whether the string is a
// regular expression. The pass reads each byte once and tracks nothing but whether
// it is inside a string. Values are compact JSON, so lines keep their numbers.
func (v Variables) fill(text []byte) ([]byte, error) {
	var out bytes.Buffer
	line, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			line++
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted && i+1 < len(text) && text[i+1] != '\n':
			out.WriteByte(c)
			i++
		case c == '$' && !quoted:
			if at := variable().FindIndex(text[i:]); at != nil && at[0] == 0 {
				raw, ok := v[string(text[i+2:i+at[1]-1])]
				if !ok {
					return nil, linef(line, "unknown variable %s: outside of strings only built-in variables work", text[i:i+at[1]])
				}
				out.Write(raw)
				i += at[1] - 1
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.Bytes(), nil
}
