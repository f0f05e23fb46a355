package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub/coord"
)

// A shape is the usual content of one type of contract. Other content is accepted
// with a warning: two repositories may agree on anything.
type shape struct {
	texts   []string            // members that must be texts
	objects []string            // optional members that are objects
	oneOf   [][]string          // of each list one member must exist
	words   map[string][]string // members with their usual values
}

var shapes = map[coord.ContractType]shape{
	coord.ContractAPI: {
		texts:   []string{"method", "path"},
		objects: []string{"headers", "queryParams", "pathParams", "requestBody", "responseBody", "errors"},
		words:   map[string][]string{"method": {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}},
	},
	coord.ContractEvent: {
		oneOf:   [][]string{{"event", "eventName", "event_name", "name", "topic", "channel"}, {"payload", "schema", "properties"}},
		objects: []string{"payload", "schema", "properties"},
	},
	coord.ContractModel: {
		oneOf: [][]string{{"fields", "properties", "schema"}},
	},
}

// contentWarnings returns warnings about unusual content of a contract.
func contentWarnings(t coord.ContractType, content json.RawMessage) []string {
	want, ok := shapes[t]
	var members map[string]json.RawMessage
	if !ok || json.Unmarshal(content, &members) != nil {
		return nil
	}

	var out []string
	warn := func(format string, args ...any) { out = append(out, string(t)+": "+fmt.Sprintf(format, args...)) }
	for _, name := range want.texts {
		var s string
		switch raw, there := members[name]; {
		case !there:
			warn("content has no %s", name)
		case json.Unmarshal(raw, &s) != nil || s == "":
			warn("%s must be a non-empty string", name)
		case want.words[name] != nil && !slices.Contains(want.words[name], strings.ToUpper(s)):
			warn("%s %q is not one of %s", name, s, strings.Join(want.words[name], ", "))
		case name == "path" && !strings.HasPrefix(s, "/"):
			warn("path %q does not begin with /", s)
		}
	}

	for _, names := range want.oneOf {
		if !slices.ContainsFunc(names, func(name string) bool { return members[name] != nil }) {
			warn("content has none of %s", strings.Join(names, ", "))
		}
	}

	for _, name := range want.objects {
		raw, there := members[name]
		isScalar := there && raw[0] != '{' && raw[0] != '[' && string(raw) != "null"
		if isScalar {
			warn("%s is neither an object nor a list", name)
		}
	}
	return out
}
