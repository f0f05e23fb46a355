package rules

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/jsonrpc"

	"github.com/parley-agents/parley/comply/jsont"
)

// flawRules says what is broken by a departure from one message per line.
var flawRules = map[jsonrpc.Flaw]struct {
	rule   string
	level  jsont.Level // "" for that of the rule
	actual string
}{
	jsonrpc.FlawBOM:          {"TRN-03", "", "the line starts with a byte order mark"},
	jsonrpc.FlawSeveralLines: {"TRN-02", "", "the message is spread over several lines"},
	jsonrpc.FlawSameLine:     {"TRN-02", "", "the message follows another one on the same line"},
	jsonrpc.FlawNoLineEnd:    {"TRN-04", "", "no line feed follows the message"},
	jsonrpc.FlawCRLF:         {"TRN-04", jsont.Advisory, "the line ends in CR LF, where LF is enough"},
	jsonrpc.FlawBlankLines:   {"TRN-01", jsont.Advisory, "there are blank lines before the message"},
}

// problemRules says what is broken by bytes that are no frame. What is not in it
// breaks TRN-01.
var problemRules = map[jsonrpc.ProblemCode]string{
	jsonrpc.ProblemUTF8:      "TRN-03",
	jsonrpc.ProblemSurrogate: "TRN-03",
}

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
	if _, ok := e.Value.(map[string]any); !ok && e.Value != nil && e.Problem == nil {
		l.note("TRN-01", "", "a JSON value that is no message", e)
	}
}

// strayResponse judges a response that belongs to no request.
func (l *ledger) strayResponse(e *Entry, requests []*Call) {
	object, _ := e.Value.(map[string]any)
	if object["id"] == nil && e.Failure() != nil {
		return // how JSON-RPC says that something could not be read
	}
	for _, q := range requests {
		sent, _ := q.Request.Value.(map[string]any)
		switch {
		case IDKey(q.Request.ID) == IDKey(e.ID):
			l.note(ruleOneAnswer, "", "a request was answered twice", q.Request, e)
			return
		case jsont.Stringify(sent["id"]) == jsont.Stringify(object["id"]):
			l.note(ruleSameID, "", fmt.Sprintf("a request with the id %s was answered with the id %s", q.Request.ID, e.ID), q.Request, e)
			return
		}
	}
	l.note(ruleOneAnswer, "", "a response to nothing that was asked", e)
}

// Which events a check is about.
var (
	anything selector = func(e *event) bool { return !e.end }
	atEnd    selector = func(e *event) bool { return e.end }
	requests selector = func(e *event) bool { return e.Class == jsont.ClientRequest }
	calls    selector = func(e *event) bool { return e.Class == jsont.ClientRequest || e.Class == jsont.Notification }
	failures selector = func(e *event) bool { return e.Class == jsont.Response && e.Failure() != nil }
	results  selector = func(e *event) bool { return e.Class == jsont.Response && e.request != nil && e.succeeded }
)

// asks selects requests and notifications of the agent with one of the methods.
func asks(methods ...string) selector {
	return func(e *event) bool { return e.Method != "" && slices.Contains(methods, e.Method) }
}

// resultOf selects answers with a result to one of the methods.
func resultOf(methods ...string) selector {
	return func(e *event) bool { return results(e) && slices.Contains(methods, e.request.Method) }
}

// updates selects updates with one of the tags, all if there is none.
func updates(tags ...string) selector {
	return func(e *event) bool { return e.update != nil && (len(tags) == 0 || slices.Contains(tags, e.tag)) }
}

var frameChecks = []check{
	{rule: "RPC-01", on: anything, flaw: func(_ *state, e *event) string {
		if e.object["jsonrpc"] != "2.0" {
			return "jsonrpc is " + jsont.Brief(e.object["jsonrpc"])
		}
		return ""
	}},
	{rule: "RPC-04", on: anything, flaw: func(_ *state, e *event) string {
		_, failed := e.object["error"]
		switch {
		case e.Class == jsont.NoMessage:
			return "a message with neither method nor result nor error"
		case e.Class == jsont.Response && failed && e.succeeded:
			return "the response has both"
		}
		return ""
	}},
	{rule: "RPC-05", on: failures, flaw: func(_ *state, e *event) string {
		inner := inner(e.object, "error")
		if _, isText := inner["message"].(string); !isText || !isInteger(inner["code"]) {
			return "the error is " + jsont.Brief(e.Failure())
		}
		return ""
	}},
	{rule: "RPC-12", on: requests, flaw: func(s *state, e *event) string {
		switch id := e.object["id"].(type) {
		case string:
		case json.Number:
			if strings.ContainsAny(id.String(), ".eE") {
				return "the id is " + id.String()
			}
		default:
			return "the id is " + jsont.Brief(id)
		}
		if open := s.agentAsks[IDKey(e.ID)]; open != nil {
			e.proof = []*Entry{open}
			return "the id is that of a request that still waits"
		}
		return ""
	}},
	{rule: "RPC-20", on: calls, flaw: func(_ *state, e *event) string {
		if v, ok := e.object["params"]; ok && e.params == nil {
			return "params is " + jsont.Brief(v)
		}
		return ""
	}},
}

// ownCodes are those of JSON-RPC and of the protocol. Between the two bounds an
// implementation may have codes of its own.
const (
	lowestCode  = -32768
	highestCode = -32000
)

// The codes of the protocol that checks know.
const (
	codeAuth      = -32000
	codeCancelled = -32800
)

var (
	aboutLogin    = regexp.MustCompile(`(?i)auth|log ?in|login|sign|credential|token|key|account|session expired`)
	aboutCaller   = regexp.MustCompile(`(?i)not found|no such|unknown|does not exist|invalid (param|argument|request)|missing (param|field)|required`)
	maxErrorWords = 300
)

// code returns the code of an error, and whether it is an integer.
func (e *event) code() (int64, bool) {
	n, _ := inner(e.object, "error")["code"].(json.Number)
	code, err := n.Int64()
	return code, err == nil
}

func (e *event) message() string {
	text, _ := inner(e.object, "error")["message"].(string)
	return text
}

var errorChecks = []check{
	{rule: "ERR-01", on: failures, flaw: func(_ *state, e *event) string {
		n, isNumber := inner(e.object, "error")["code"].(json.Number)
		code, ok := e.code()
		if isNumber && (!ok || code < math.MinInt32 || code > math.MaxInt32) {
			return "the code is " + n.String()
		}
		return ""
	}},
	{rule: "ERR-02", on: failures, flaw: func(_ *state, e *event) string {
		switch text := strings.TrimSpace(e.message()); {
		case strings.Contains(text, "\n"):
			return "the message has several lines: " + jsont.Brief(text)
		case len(text) > maxErrorWords:
			return fmt.Sprintf("the message has %d bytes", len(text))
		}
		return ""
	}},
	{rule: "ERR-06", on: failures, flaw: func(_ *state, e *event) string {
		if code, _ := e.code(); code == jsonrpc.CodeInternal && aboutCaller.MatchString(e.message()) {
			return "-32603 says: " + jsont.Brief(e.message())
		}
		return ""
	}},
	{rule: "ERR-07", on: failures, flaw: func(s *state, e *event) string {
		if code, _ := e.code(); code == codeCancelled && e.request != nil && !s.cancelled(e.request) {
			e.proof = []*Entry{e.request}
			return e.request.Method + " was answered with -32800, and nobody had cancelled it"
		}
		return ""
	}},
	{rule: "ERR-08", on: failures, flaw: func(_ *state, e *event) string {
		if code, ok := e.code(); ok && code != codeCancelled && (code < lowestCode || code > highestCode) {
			return fmt.Sprintf("the code is %d", code)
		}
		return ""
	}},
	{rule: "AUTH-13", on: failures, flaw: func(_ *state, e *event) string {
		if code, _ := e.code(); code == codeAuth && e.message() != "" && !aboutLogin.MatchString(e.message()) {
			return "-32000 says: " + jsont.Brief(e.message())
		}
		return ""
	}},
}

var (
	traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	tracestate  = regexp.MustCompile(`^[a-z0-9][a-z0-9_*/@-]*=[^,=]*(,\s*[a-z0-9][a-z0-9_*/@-]*=[^,=]*)*$`)
	baggage     = regexp.MustCompile(`^[^\s,;=]+\s*=[^,;]*(;[^,]*)?(,\s*[^\s,;=]+\s*=[^,;]*(;[^,]*)?)*$`)
)

var extensionChecks = []check{
	{rule: "EXT-03", on: calls, flaw: func(s *state, e *event) string {
		m, known := s.version.Method(e.Method)
		if known && m.Side == "agent" {
			return e.Method + " is a method of agents"
		}
		if !known && !strings.HasPrefix(e.Method, "_") && !strings.HasPrefix(e.Method, "$/") {
			return "the method " + jsont.Brief(e.Method) + " is not one of the protocol"
		}
		return ""
	}},
	{rule: "EXT-06", on: anything, flaw: func(_ *state, e *event) string {
		return walk(e.object, func(o map[string]any) string {
			if m, ok := o["_meta"]; ok && m != nil && inner(o, "_meta") == nil {
				return "_meta is " + jsont.Brief(m)
			}
			return ""
		})
	}},
	{rule: "EXT-08", on: anything, flaw: func(_ *state, e *event) string {
		return walk(e.object, func(o map[string]any) string {
			for name, syntax := range inOrder(map[string]*regexp.Regexp{"traceparent": traceparent, "tracestate": tracestate, "baggage": baggage}) {
				v, ok := inner(o, "_meta")[name]
				if text, isText := v.(string); ok && (!isText || !syntax.MatchString(text)) {
					return name + " is " + jsont.Brief(v)
				}
			}
			return ""
		})
	}},
	{rule: "EXT-09", on: calls, flaw: func(s *state, e *event) string {
		if strings.HasPrefix(e.Method, "_") && s.agentCaps != nil && walk(s.agentCaps, hasMeta) == "" {
			return "the agent uses " + jsont.Brief(e.Method) + ", and its capabilities have no _meta that says so"
		}
		return ""
	}},
}

func hasMeta(o map[string]any) string {
	if len(inner(o, "_meta")) > 0 {
		return "yes"
	}
	return ""
}

// freeForm are members that hold whatever somebody puts there.
var freeForm = []string{"_meta", "rawInput", "rawOutput", "data"}

// walk calls f for all objects in v, until it returns something. What is free in
// form is left out.
func walk(v any, f func(map[string]any) string) string {
	switch v := v.(type) {
	case map[string]any:
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

// inOrder goes through a map in the order of its names, so that the same
// conversation always leads to the same findings.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// inner returns a member that is an object, nil if it is not one.
func inner(o map[string]any, name string) map[string]any {
	m, _ := o[name].(map[string]any)
	return m
}

// objects returns the objects in a member that is a list.
func objects(o map[string]any, name string) (out []map[string]any) {
	items, _ := o[name].([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// text returns a member that is a string, "" if it is not one.
func text(o map[string]any, name string) string {
	s, _ := o[name].(string)
	return s
}

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	return ok && !strings.ContainsAny(n.String(), ".eE")
}

// isCount reports whether v is an integer that is not negative.
func isCount(v any) bool { return isInteger(v) && !strings.HasPrefix(string(v.(json.Number)), "-") }
