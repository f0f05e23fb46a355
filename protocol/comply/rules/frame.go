package rules

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// flawRules names the rule that a departure from one message per line breaks.
var flawRules = map[jsonrpc.Flaw]struct {
	rule   string
	level  jsont.Level // "" for the level of the rule
	actual string
}{
	jsonrpc.FlawBOM:          {"TRN-03", "", "the line starts with a byte order mark"},
	jsonrpc.FlawSeveralLines: {"TRN-02", "", "the message is spread over several lines"},
	jsonrpc.FlawSameLine:     {"TRN-02", "", "the line holds more than one message"},
	jsonrpc.FlawNoLineEnd:    {"TRN-04", "", "no line feed follows the message"},
	jsonrpc.FlawCRLF:         {"TRN-04", jsont.Advisory, "the line ends in CR LF instead of LF"},
	jsonrpc.FlawBlankLines:   {"TRN-01", jsont.Advisory, "there are blank lines before the message"},
}

// problemRules names the rule that bytes break which are not a frame. A problem
// that is not in it breaks TRN-01.
var problemRules = map[jsonrpc.ProblemCode]string{
	jsonrpc.ProblemUTF8:      "TRN-03",
	jsonrpc.ProblemSurrogate: "TRN-03",
}

// framing checks an entry as a line of bytes.
// It comes before all other checks: an entry that is not a message has nothing else
// that could be judged.
func (l *ledger) framing(e *Entry) {
	if p := e.Problem; p != nil {
		rule, level := "TRN-01", jsont.Level("")
		if r, ok := problemRules[p.Code]; ok {
			rule = r
		}
		if p.Code == jsonrpc.ProblemDuplicate {
			level = jsont.Should // readers disagree about such an object, but it is JSON
		}
		l.note(rule, level, p.Text, e)
	}
	for _, flaw := range e.flaws {
		f := flawRules[flaw]
		l.note(f.rule, f.level, f.actual, e)
	}
	if e.batched && l.state.version == schema.V1 {
		l.note(ruleArray, "", "the message is part of an array", e)
	}
	if !isMap(e.Value) && e.Value != nil && e.Problem == nil {
		l.note("TRN-01", "", "the JSON value is not a message", e)
	}
}

// strayResponse judges a response that belongs to no request.
// An id that differs in type only is told apart from an answer without a request,
// because the fix is another one: the agent must not convert ids.
func (l *ledger) strayResponse(e *Entry) {
	o, _ := e.Value.(object)
	if o["id"] == nil && e.Failure() != nil {
		return // JSON-RPC reports this way that a message could not be read
	}
	for _, q := range l.calls {
		sent, _ := q.Request.Value.(object)
		switch {
		case IDKey(q.Request.ID) == IDKey(e.ID):
			l.note(ruleOneAnswer, "", "the request was answered twice", q.Request, e)
			return
		case jsont.Stringify(sent["id"]) == jsont.Stringify(o["id"]):
			l.note(ruleSameID, "", when(true, "a request with the id %s was answered with the id %s", q.Request.ID, e.ID), q.Request, e)
			return
		}
	}
	l.note(ruleOneAnswer, "", "the response has no request", e)
}

// frameChecks are about JSON-RPC. They run also for tests whose methods are not of the
// protocol, for which the other checks are off.
var frameChecks = []check{
	// RPC-01: every message has "jsonrpc": "2.0"
	{rule: "RPC-01", on: anything, flaw: member(messageOf, "jsonrpc", func(v any) bool { return v == "2.0" })},
	// RPC-02: a response has the id of its request, in the same type
	{rule: "RPC-02", on: anything, flaw: func(_ *state, e *event) string {
		_, has := e.object["id"]
		return when(e.Class == jsont.Response && !has, "the response has no id")
	}},
	// RPC-04: a response has a result or an error, never both
	{rule: "RPC-04", on: anything, flaw: func(_ *state, e *event) string {
		_, failed := e.object["error"]
		switch {
		case e.Class == jsont.NoMessage:
			return "the message has no method, result or error"
		case e.Class == jsont.Response && failed && e.succeeded:
			return "the response has both a result and an error"
		}
		return ""
	}},
	// RPC-05: an error has an integer code and a string message
	{rule: "RPC-05", on: failures, flaw: func(_ *state, e *event) string {
		failure := inner(e.object, "error")
		return whenIs(!isText(failure["message"]) || !isInteger(failure["code"]), "the error", e.Failure())
	}},
	// RPC-12: the agent's requests have string or integer ids that are unique while they wait
	{rule: "RPC-12", on: requests, flaw: func(s *state, e *event) string {
		id := e.object["id"]
		if !isText(id) && !isInteger(id) {
			return whenIs(true, "the id", id)
		}
		return e.with(s.agentAsks[IDKey(e.ID)], "the id belongs to a request that still waits")
	}},
	// RPC-20: params are an object
	{rule: "RPC-20", on: calls, flaw: func(_ *state, e *event) string {
		v, ok := e.object["params"]
		return whenIs(ok && e.params == nil, "params", v)
	}},
}

func messageOf(e *event) object { return e.object }

// with returns a flaw that an earlier entry proves, "" if there is no such entry.
func (e *event) with(proof *Entry, flaw string) string {
	if proof == nil {
		return ""
	}
	e.proof = []*Entry{proof}
	return flaw
}

// lacks returns a flaw together with the initialize request, which proves that the client
// lacks a capability.
// An agent that never saw initialize has no such proof; the flaw stands without it.
func (s *state) lacks(e *event, flaw string) string {
	if flaw != "" && s.hello != nil {
		e.proof = []*Entry{s.hello}
	}
	return flaw
}

// Codes from lowestCode to highestCode are reserved by JSON-RPC, and have room for
// codes of an implementation.
const (
	lowestCode  = -32768
	highestCode = -32000
)

// The codes of the protocol that checks know.
const (
	codeAuth      = -32000
	codeCancelled = -32800
)

// These match the text of errors about a login, about a mistake of the caller, and about work
// that the agent itself gave up. The texts are free, so a check lets through what it cannot tell.
var (
	aboutLogin    = pattern.New(`(?i)auth|log ?in|login|sign|credential|token|key|account|session expired`)
	aboutCaller   = pattern.New(`(?i)not found|no such|unknown|does not exist|invalid (param|argument|request)|missing (param|field)|required`)
	aboutOwnEnd   = pattern.New(`(?i)cancel|abort|interrupt|shut|stopp|gave up|limit|resource|time[d ]?out`)
	maxErrorWords = 300
)

// code returns the code of an error, and whether it is an integer.
func (e *event) code() (int64, bool) {
	n, _ := inner(e.object, "error")["code"].(json.Number)
	code, err := n.Int64()
	return code, err == nil
}

func (e *event) message() string { return text(inner(e.object, "error"), "message") }

// WantsLogin reports whether an answer is the error that a login is missing: it has the code
// for that, and offered is true or the message speaks of a login. Many programs use the
// same code for any failure.
func WantsLogin(answer *Entry, offered bool) bool {
	e := &event{Entry: answer}
	e.object, _ = answer.Value.(object)
	code, _ := e.code()
	return code == codeAuth && (offered || aboutLogin().MatchString(e.message()))
}

// errorChecks are about error responses: codes within their ranges, one short line of text,
// and a code that fits the text.
var errorChecks = []check{
	// ERR-01: the code of an error is a 32 bit integer
	{rule: "ERR-01", on: failures, flaw: func(_ *state, e *event) string {
		n, isNumber := inner(e.object, "error")["code"].(json.Number)
		code, ok := e.code()
		return when(isNumber && (!ok || code < math.MinInt32 || code > math.MaxInt32), "the code is %s", n)
	}},
	// ERR-02: the message of an error is a short sentence
	{rule: "ERR-02", on: failures, flaw: func(_ *state, e *event) string {
		text := strings.TrimSpace(e.message())
		if strings.Contains(text, "\n") {
			return when(true, "the message has more than one line: %s", show(text))
		}
		return when(len(text) > maxErrorWords, "the message has %d bytes", len(text))
	}},
	// ERR-06: -32603 is for failures of the agent itself
	{rule: "ERR-06", on: failures, flaw: func(_ *state, e *event) string {
		code, _ := e.code()
		return when(code == jsonrpc.CodeInternal && aboutCaller().MatchString(e.message()), "-32603 says: %s", show(e.message()))
	}},
	// ERR-07: -32800 is for requests that were cancelled
	{rule: "ERR-07", on: failures, flaw: func(s *state, e *event) string {
		if code, _ := e.code(); code != codeCancelled || e.request == nil {
			return ""
		}
		isAllowed := s.cancelled(e.request) || aboutOwnEnd().MatchString(e.message())
		if isAllowed {
			return ""
		}
		return e.with(e.request, e.request.Method+" was answered with -32800, but the client did not cancel it and the message does not say that the agent gave up")
	}},
	// ERR-08: codes are those of JSON-RPC or the protocol
	{rule: "ERR-08", on: failures, flaw: func(_ *state, e *event) string {
		code, ok := e.code()
		return when(ok && code != codeCancelled && (code < lowestCode || code > highestCode), "the code is %d", code)
	}},
	// AUTH-13: -32000 is used only for a missing login
	{rule: "AUTH-13", on: failures, flaw: func(_ *state, e *event) string {
		code, _ := e.code()
		return when(code == codeAuth && e.message() != "" && !aboutLogin().MatchString(e.message()), "-32000 says: %s", show(e.message()))
	}},
	// AUTH-14: an agent that needs a login offers a login method
	{rule: "AUTH-14", on: failures, flaw: func(s *state, e *event) string {
		code, _ := e.code()
		needsLogin := code == codeAuth && (e.message() == "" || aboutLogin().MatchString(e.message()))
		if !needsLogin || e.request == nil {
			return ""
		}
		if s.welcome == nil || s.logins > 0 {
			return ""
		}
		e.proof = append(e.proof, s.welcome, e.request)
		return e.request.Method + " was refused with -32000, but initialize offered no login method"
	}},
}

// traceSyntax is the syntax of the members of _meta that carry a trace.
var traceSyntax = map[string]pattern.Pattern{
	"traceparent": pattern.New(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`),
	"tracestate":  pattern.New(`^[a-z0-9][a-z0-9_*/@-]*=[^,=]*(,\s*[a-z0-9][a-z0-9_*/@-]*=[^,=]*)*$`),
	"baggage":     pattern.New(`^[^\s,;=]+\s*=[^,;]*(;[^,]*)?(,\s*[^\s,;=]+\s*=[^,;]*(;[^,]*)?)*$`),
}

// extensionChecks are about names that the protocol does not define: they begin with an
// underscore and are announced, and _meta is an object.
var extensionChecks = []check{
	// EXT-03: custom methods begin with _
	{rule: "EXT-03", on: calls, flaw: func(s *state, e *event) string {
		m, known := s.version.Method(e.Method)
		if known {
			return when(m.Side == "agent", "%s is a method of agents", e.Method)
		}
		return when(!strings.HasPrefix(e.Method, "_") && !strings.HasPrefix(e.Method, "$/"), "the protocol has no method %s", show(e.Method))
	}},
	// EXT-06: _meta is an object
	{rule: "EXT-06", on: anything, flaw: func(_ *state, e *event) string {
		return walk(e.object, func(o object) string { return whenIs(!absentOr(isMap)(o["_meta"]), "_meta", o["_meta"]) })
	}},
	// EXT-08: trace context in _meta follows the W3C format
	{rule: "EXT-08", on: anything, flaw: func(_ *state, e *event) string {
		return walk(e.object, func(o object) string {
			for name, syntax := range inOrder(traceSyntax) {
				v, ok := inner(o, "_meta")[name]
				if text, isText := v.(string); ok && (!isText || !syntax().MatchString(text)) {
					return whenIs(true, name, v)
				}
			}
			return ""
		})
	}},
	// EXT-09: extensions are advertised in _meta of the capabilities
	{rule: "EXT-09", on: calls, flaw: func(s *state, e *event) string {
		own := strings.HasPrefix(e.Method, "_") && s.agentCaps != nil
		return when(own && walk(s.agentCaps, hasMeta) == "", "the agent uses %s, but its capabilities do not announce it in _meta", show(e.Method))
	}},
}

func hasMeta(o object) string { return when(len(inner(o, "_meta")) > 0, "yes") }

// freeForm are the members whose content the protocol does not define.
var freeForm = []string{"_meta", "rawInput", "rawOutput", "data"}

// walk calls f for all objects in v until it returns a text. It leaves out members
// of free form.
// Names are visited in order, so the first text is always the same one.
func walk(v any, f func(object) string) string {
	switch v := v.(type) {
	case object:
		if s := f(v); s != "" {
			return s
		}
		for name, inner := range inOrder(v) {
			if slices.Contains(freeForm, name) {
				continue
			}
			if s := walk(inner, f); s != "" {
				return s
			}
		}
	case []any:
		for _, item := range v {
			if s := walk(item, f); s != "" {
				return s
			}
		}
	}
	return ""
}
