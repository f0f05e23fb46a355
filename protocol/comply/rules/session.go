package rules

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// moment matches times of ISO 8601. Seconds and zone may be missing.
var moment = pattern.New(`^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$`)

// isMoment reports whether v is a time.
func isMoment(v any) bool {
	s, _ := v.(string)
	if !moment().MatchString(s) {
		return false
	}
	_, err := time.Parse(time.DateOnly, s[:len(time.DateOnly)])
	return err == nil
}

// inside reports whether a path is in one of the folders.
// Paths are compared as text. Both kinds of slash count, since agents run on any
// system.
func inside(name string, roots []string) bool {
	name = path.Clean(strings.ReplaceAll(name, `\`, "/"))
	return slices.ContainsFunc(roots, func(root string) bool {
		root = path.Clean(strings.ReplaceAll(root, `\`, "/"))
		return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
	})
}

// outside returns the flaw that a param is a path outside of the folders of its
// session.
func outside(param string) flaw {
	return func(s *state, e *event) string {
		x, name := s.session(e), text(e.params, param)
		if x == nil || !absolute(name) || inside(name, x.roots) {
			return ""
		}
		return when(true, "%s is outside %s", show(name), strings.Join(x.roots, ", "))
	}
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

func listedSessions(e *event) []object { return objects(e.result, "sessions") }

const notOpened = "the update names the session %s, which the client has not opened"

// sessionChecks are about opening, loading and listing sessions. An update may name a session
// before the answer that opens it; only if that answer never comes is the session unknown.
var sessionChecks = []check{
	// SNEW-01: session/new is answered with a session id that is a non-empty string
	{rule: "SNEW-01", on: resultOf(MethodNewSession), flaw: func(_ *state, e *event) string {
		return when(e.result["sessionId"] == "", "sessionId is empty")
	}},
	// SNEW-10: updates name sessions that the client has opened
	{rule: "SNEW-10", on: updates(), flaw: func(s *state, e *event) string {
		unknown := s.session(e) == nil && e.sessionID() != ""
		return when(unknown && !s.opening(), notOpened, show(e.sessionID())) // an answer that is due may name it
	}},
	// SNEW-10: updates name sessions that the client has opened
	{rule: "SNEW-10", on: atEnd, flaw: func(s *state, e *event) string {
		for id, first := range inOrder(s.early) {
			if id != "" && !s.opening() {
				return e.with(first, when(true, notOpened, show(id)))
			}
		}
		return ""
	}},
	// SLOAD-06: each message of a loaded session has a unique id
	{rule: "SLOAD-06", on: updates(messageTags...), flaw: func(s *state, e *event) string {
		x, id := s.session(e), text(e.update, "messageId")
		if x == nil || !x.loading || id == "" {
			return ""
		}
		ids := x.streams[e.tag]
		return when(slices.Contains(ids, id) && ids[len(ids)-1] != id, "the id %s belongs to an earlier message", show(id))
	}},
	// SLIST-03: every session in the list has an id and an absolute folder
	{rule: "SLIST-03", on: resultOf("session/list"), flaw: each(listedSessions, "a session in the list", func(_ *state, o object) bool {
		return isWord(o["sessionId"]) && isPath(o["cwd"])
	})},
	// SLIST-09: times in the list are in ISO 8601 format
	{rule: "SLIST-09", on: resultOf("session/list"), flaw: eachFlaw(listedSessions, func(_ *state, o object) string {
		return whenIs(!absentOr(isMoment)(o["updatedAt"]), "updatedAt", o["updatedAt"])
	})},
	// SLIST-12: additional folders in the list are absolute, and come only from agents with the capability
	{rule: "SLIST-12", on: resultOf("session/list"), flaw: eachFlaw(listedSessions, func(s *state, o object) string {
		path := "sessionCapabilities.additionalDirectories"
		if s.version == schema.V2 {
			path = "session.additionalDirectories"
		}
		folders, _ := o["additionalDirectories"].([]any)
		if offered, _ := jsont.Lookup(any(s.agentCaps), path); len(folders) > 0 && offered == nil {
			return "additionalDirectories is set, but the capability is not"
		}
		for _, f := range folders {
			if !isPath(f) {
				return whenIs(true, "an additional folder", f)
			}
		}
		return ""
	})},
	// ADIR-09: an agent works inside the folders of the session
	{rule: "ADIR-09", on: asks(MethodReadFile, MethodWriteFile), flaw: outside("path")},
	// ADIR-09: an agent works inside the folders of the session
	{rule: "ADIR-09", on: asks("terminal/create"), flaw: outside("cwd")},
}
