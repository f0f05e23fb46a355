package rules

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/jsonrpc"

	"github.com/parley-agents/parley/comply/jsont"
)

// A Call is a request with its answer.
type Call struct {
	Request *Entry
	Answer  *Entry // nil until it comes
}

// An Entry is one line of a conversation's log: a message, or bytes that are
// none.
type Entry struct {
	Seq       int
	Direction jsonrpc.Direction
	Raw       []byte
	Time      time.Time
	flaws     []jsonrpc.Flaw
	Problem   *jsonrpc.Problem // why the reader refused it; nil if it did not
	batched   bool             // it was an element of an array

	Class  jsont.MessageClass
	Method string
	ID     json.RawMessage // nil if there is none
	Params json.RawMessage
	Value  any // all of it, decoded; nil for what is no JSON

	Taken  bool // an expectation was met by it
	Judged bool // an expectation was about it, met or not
}

// NewEntry looks at what was sent or received, as forgiving as can be: it is
// for others to judge.
func NewEntry(dir jsonrpc.Direction, raw []byte) *Entry {
	e := &Entry{Direction: dir, Raw: raw}
	var ok bool
	if e.Value, ok = jsont.Decode(raw); !ok {
		e.Value = nil
		return e
	}
	object, ok := e.Value.(map[string]any)
	if !ok {
		return e
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return e
	}
	e.ID, e.Params = parts["id"], parts["params"]
	method, hasMethod := object["method"].(string)
	_, hasResult := object["result"]
	_, hasError := object["error"]
	switch {
	case hasMethod && e.ID != nil:
		e.Class, e.Method = jsont.ClientRequest, method
	case hasMethod:
		e.Class, e.Method = jsont.Notification, method
	case hasResult || hasError:
		e.Class = jsont.Response
	}
	return e
}

// Entries returns the messages of a frame: one, or the elements of an array.
func Entries(f jsonrpc.Frame, problem *jsonrpc.Problem) []*Entry {
	var items []json.RawMessage
	if len(f.Raw) > 0 && f.Raw[0] == '[' && json.Unmarshal(f.Raw, &items) == nil && len(items) > 0 && len(items) <= jsonrpc.MaxBatch {
		var out []*Entry
		for _, item := range items {
			e := NewEntry(jsonrpc.In, item)
			e.Time, e.flaws, e.Problem, e.batched = f.Time, f.Flaws, problem, true
			out = append(out, e)
		}
		return out
	}
	e := NewEntry(jsonrpc.In, f.Raw)
	e.Time, e.flaws, e.Problem = f.Time, f.Flaws, problem
	return []*Entry{e}
}

// Failure returns the error of a response, nil if it has none.
func (e *Entry) Failure() any {
	object, _ := e.Value.(map[string]any)
	return object["error"]
}

// IDKey returns the same text for ids that are the same: strings that say the
// same, numbers with the same digits.
func IDKey(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return `"` + s
	}
	return string(bytes.TrimSpace(id))
}

// Frame returns the entry for a report.
func (e *Entry) Frame() Frame {
	return Frame{Seq: e.Seq, Direction: e.Direction, Text: jsont.Shorten(string(bytes.ToValidUTF8(e.Raw, []byte("\uFFFD"))), maxShown)}
}

// maxShown is how much of a frame a report shows.
const maxShown = 2000
