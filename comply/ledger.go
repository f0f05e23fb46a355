package comply

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/jsonrpc"
)

// flawRules says what is broken by a departure from one message per line.
var flawRules = map[jsonrpc.Flaw]struct {
	rule   string
	level  Level // "" for that of the rule
	actual string
}{
	jsonrpc.FlawBOM:          {"TRN-03", "", "the line starts with a byte order mark"},
	jsonrpc.FlawSeveralLines: {"TRN-02", "", "the message is spread over several lines"},
	jsonrpc.FlawSameLine:     {"TRN-02", "", "the message follows another one on the same line"},
	jsonrpc.FlawNoLineEnd:    {"TRN-04", "", "no line feed follows the message"},
	jsonrpc.FlawCRLF:         {"TRN-04", Advisory, "the line ends in CR LF, where LF is enough"},
	jsonrpc.FlawBlankLines:   {"TRN-01", Advisory, "there are blank lines before the message"},
}

// problemRules says what is broken by bytes that are no frame. What is not in it
// breaks TRN-01.
var problemRules = map[jsonrpc.ProblemCode]string{
	jsonrpc.ProblemUTF8:      "TRN-03",
	jsonrpc.ProblemSurrogate: "TRN-03",
}

// A ledger goes through a conversation and notes what breaks a rule on its own,
// whatever the test was about. Each rule is noted once, with its first proof.
type ledger struct {
	test    *Test
	version schema.Version
	seen    map[string]bool
	found   []Finding
}

// audit returns what a ledger finds.
func audit(t *Test, version schema.Version, log []*entry, requests []*asked) []Finding {
	l := &ledger{test: t, version: version, seen: map[string]bool{}}
	open := map[string]bool{} // ids of the agent's requests that wait
	answers := map[*entry]bool{}
	for _, q := range requests {
		answers[q.answer] = true
	}
	for _, e := range log {
		if e.dir == jsonrpc.Out {
			if e.class == classResponse {
				delete(open, idKey(e.id))
			}
			continue
		}
		l.framing(e)
		l.message(e)
		switch e.class {
		case classRequest:
			l.requestID(e, open)
		case classResponse:
			if !answers[e] && !e.taken {
				l.unasked(e, requests)
			}
		}
	}
	return l.found
}

func (l *ledger) note(rule string, level Level, actual string, proof ...*entry) {
	r := ruleOf(rule)
	if level != "" {
		r.Level = level
	}
	key := rule + string(r.Level)
	if l.seen[key] {
		return
	}
	l.seen[key] = true
	f := newFinding(r, l.test, r.Text, actual, proof...)
	f.Test = l.test.ID
	l.found = append(l.found, *f)
}

func (l *ledger) framing(e *entry) {
	if p := e.problem; p != nil {
		rule, level := "TRN-01", Level("")
		if r, ok := problemRules[p.Code]; ok {
			rule = r
		}
		if p.Code == jsonrpc.ProblemDuplicate {
			level = Should // readers disagree about such an object, but it is JSON
		}
		l.note(rule, level, p.Text, e)
	}
	for _, flaw := range e.flaws {
		f := flawRules[flaw]
		l.note(f.rule, f.level, f.actual, e)
	}
	if e.batched && l.version == schema.V1 {
		l.note("TRN-13", "", "the message is part of an array", e)
	}
}

func (l *ledger) message(e *entry) {
	object, ok := e.value.(map[string]any)
	if !ok {
		if e.value != nil && e.problem == nil {
			l.note("TRN-01", "", "a JSON value that is no message", e)
		}
		return
	}
	if object["jsonrpc"] != "2.0" {
		l.note("RPC-01", "", fmt.Sprintf("jsonrpc is %s", brief(object["jsonrpc"])), e)
	}
	failure, failed := object["error"]
	_, succeeded := object["result"]
	switch {
	case e.class == classNone:
		l.note("RPC-04", "", "a message with neither method nor result nor error", e)
	case e.class != classResponse:
	case failed && succeeded:
		l.note("RPC-04", "", "the response has both", e)
	case failed:
		inner, _ := failure.(map[string]any)
		code, _ := inner["code"].(json.Number)
		_, isText := inner["message"].(string)
		if _, err := code.Int64(); err != nil || !isText {
			l.note("RPC-05", "", "the error is "+brief(failure), e)
		}
	}
}

func (l *ledger) requestID(e *entry, open map[string]bool) {
	object, _ := e.value.(map[string]any)
	switch id := object["id"].(type) {
	case string:
	case json.Number:
		if strings.ContainsAny(id.String(), ".eE") {
			l.note("RPC-12", "", "the id is "+id.String(), e)
		}
	default:
		l.note("RPC-12", "", "the id is "+brief(id), e)
		return
	}
	key := idKey(e.id)
	if open[key] {
		l.note("RPC-12", "", "the id is that of a request that still waits", e)
	}
	open[key] = true
}

// unasked judges a response that belongs to no request.
func (l *ledger) unasked(e *entry, requests []*asked) {
	object, _ := e.value.(map[string]any)
	if object["id"] == nil && e.failure() != nil {
		return // how JSON-RPC says that something could not be read
	}
	for _, q := range requests {
		sent, _ := q.entry.value.(map[string]any)
		switch {
		case idKey(q.entry.id) == idKey(e.id):
			l.note("RPC-03", "", "a request was answered twice", q.entry, e)
			return
		case stringify(sent["id"]) == stringify(object["id"]):
			l.note("RPC-02", "", fmt.Sprintf("a request with the id %s was answered with the id %s", q.entry.id, e.id), q.entry, e)
			return
		}
	}
	l.note("RPC-03", "", "a response to nothing that was asked", e)
}
