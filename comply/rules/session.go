package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/acp/schema"

	"github.com/parley-agents/parley/comply/jsont"
)

// moment matches times as ISO 8601 has them. Seconds and zone may be missing.
var moment = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$`)

func isMoment(s string) bool {
	if !moment.MatchString(s) {
		return false
	}
	_, err := time.Parse(time.DateOnly, s[:len(time.DateOnly)])
	return err == nil
}

// inside reports whether a path is in one of the folders.
func inside(name string, roots []string) bool {
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	return slices.ContainsFunc(roots, func(root string) bool {
		root = path.Clean(strings.ReplaceAll(root, `\`, "/"))
		return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
	})
}

// leavesRoots says that an event names a path outside of the folders of its
// session.
func leavesRoots(s *state, e *event, name string) string {
	x := s.session(e)
	if x == nil || name == "" || !absolute(name) || inside(name, x.roots) {
		return ""
	}
	return fmt.Sprintf("%s is outside of %s", jsont.Brief(name), strings.Join(x.roots, ", "))
}

// badModes says what is wrong with the shape of modes.
func badModes(v any) string {
	modes, ok := v.(map[string]any)
	if v == nil {
		return ""
	}
	_, isList := modes["availableModes"].([]any)
	if !ok || !isList || text(modes, "currentModeId") == "" {
		return "modes is " + jsont.Brief(v)
	}
	for _, m := range objects(modes, "availableModes") {
		if _, named := m["name"].(string); text(m, "id") == "" || !named {
			return "a mode is " + jsont.Brief(m)
		}
	}
	return ""
}

// badOptions says what is wrong with the shape of options.
func badOptions(s *state, v any) string {
	if v == nil {
		return ""
	}
	items, ok := v.([]any)
	if !ok {
		return "configOptions is " + jsont.Brief(v)
	}
	for _, item := range items {
		o, _ := item.(map[string]any)
		_, on := o["currentValue"].(bool)
		_, value := o["currentValue"].(string)
		_, choices := o["options"].([]any)
		kind := text(o, "type")
		known := kind == "select" && value && choices || kind == "boolean" && on
		if s.version == schema.V2 && kind != "select" && kind != "boolean" {
			known = kind != ""
		}
		if optionID(o) == "" || text(o, "name") == "" || !known {
			return "an option is " + jsont.Brief(item)
		}
	}
	return ""
}

// opening reports whether the client waits for a new session.
func (s *state) opening() bool {
	for request := range s.waiting {
		if request.Method == MethodNewSession || request.Method == "session/fork" {
			return true
		}
	}
	return false
}

var sessionChecks = []check{
	{rule: "SNEW-01", on: resultOf(MethodNewSession), flaw: func(_ *state, e *event) string {
		if id, ok := e.result["sessionId"].(string); ok && id == "" {
			return "sessionId is empty"
		}
		return ""
	}},
	{rule: "SNEW-08", on: resultOf(MethodNewSession), in: schema.V1, flaw: func(_ *state, e *event) string { return badModes(e.result["modes"]) }},
	{rule: "SNEW-09", on: resultOf(MethodNewSession), flaw: func(s *state, e *event) string { return badOptions(s, e.result["configOptions"]) }},
	{rule: "SRES-03", on: resultOf("session/resume"), flaw: func(s *state, e *event) string {
		if bad := badModes(e.result["modes"]); bad != "" {
			return bad
		}
		return badOptions(s, e.result["configOptions"])
	}},
	{rule: "SNEW-10", on: updates(), flaw: func(s *state, e *event) string {
		id := e.sessionID()
		if s.session(e) != nil || id == "" {
			return ""
		}
		if s.opening() {
			return "" // its answer may tell
		}
		return fmt.Sprintf("an update names the session %s, which the client has not opened", jsont.Brief(id))
	}},
	{rule: "SNEW-10", on: atEnd, flaw: func(s *state, e *event) string {
		for id, first := range inOrder(s.early) {
			if id != "" && !s.opening() {
				e.proof = []*Entry{first}
				return fmt.Sprintf("an update names the session %s, which the client has not opened", jsont.Brief(id))
			}
		}
		return ""
	}},
	{rule: "SLOAD-04", on: resultOf("session/load"), in: schema.V1, flaw: func(s *state, e *event) string {
		if v := e.object["result"]; v != nil && e.result == nil {
			return "the result is " + jsont.Brief(v)
		}
		if bad := badModes(e.result["modes"]); bad != "" {
			return bad
		}
		return badOptions(s, e.result["configOptions"])
	}},
	{rule: "SLOAD-06", on: updates(messageTags...), flaw: func(s *state, e *event) string {
		x, id := s.session(e), text(e.update, "messageId")
		if x == nil || !x.loading || id == "" {
			return ""
		}
		ids := x.streams[e.tag]
		if slices.Contains(ids, id) && ids[len(ids)-1] != id {
			return fmt.Sprintf("the id %s was that of an earlier message", jsont.Brief(id))
		}
		return ""
	}},
	{rule: "SLIST-03", on: resultOf("session/list"), flaw: func(_ *state, e *event) string {
		for _, item := range objects(e.result, "sessions") {
			if text(item, "sessionId") == "" || !absolute(text(item, "cwd")) {
				return "a session in the list is " + jsont.Brief(item)
			}
		}
		return ""
	}},
	{rule: "SLIST-09", on: resultOf("session/list"), flaw: func(_ *state, e *event) string {
		for _, item := range objects(e.result, "sessions") {
			if v := item["updatedAt"]; v != nil && !isMoment(text(item, "updatedAt")) {
				return "updatedAt is " + jsont.Brief(v)
			}
		}
		return ""
	}},
	{rule: "SLIST-12", on: resultOf("session/list"), flaw: func(s *state, e *event) string {
		path := "sessionCapabilities.additionalDirectories"
		if s.version == schema.V2 {
			path = "session.additionalDirectories"
		}
		offered, _ := jsont.Lookup(any(s.agentCaps), path)
		for _, item := range objects(e.result, "sessions") {
			dirs, ok := item["additionalDirectories"].([]any)
			if ok && len(dirs) > 0 && offered == nil {
				return "additionalDirectories is there, and the capability is not"
			}
			for _, d := range dirs {
				if name, _ := d.(string); !absolute(name) {
					return "an additional folder is " + jsont.Brief(d)
				}
			}
		}
		return ""
	}},
	{rule: "ADIR-09", on: asks("fs/read_text_file", "fs/write_text_file"), flaw: func(s *state, e *event) string {
		return leavesRoots(s, e, text(e.params, "path"))
	}},
	{rule: "ADIR-09", on: asks("terminal/create"), flaw: func(s *state, e *event) string { return leavesRoots(s, e, text(e.params, "cwd")) }},
}
