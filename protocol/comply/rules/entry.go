package rules

import (
	"bytes"
	"encoding/json"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A Call is a request of the client with its answer. The runner pairs them while it
// reads, because ids may be used again.
type Call struct {
	Request *Entry
	Answer  *Entry // nil until it comes
}

// An Entry is one message in the log of a conversation, or bytes that are none. It
// does not change once it is in the log, except for Taken and Judged, which the
// runner sets.
type Entry struct {
	Seq       int // its place in the log, from 1
	Direction jsonrpc.Direction
	Raw       []byte // as received or sent, without the line end
	flaws     []jsonrpc.Flaw
	Problem   *jsonrpc.Problem // why the reader refused it; nil if it did not
	batched   bool             // it was an element of an array

	Class  jsont.MessageClass
	Method string          // "" for responses
	ID     json.RawMessage // nil if there is none
	Params json.RawMessage
	Value  any // all of it, decoded; nil for bytes that are not JSON

	joined any  // Value with the text of its message so far; nil for the first piece, and for other entries
	whole  bool // the entry names its message

	Taken  bool // an expectation that consumes its frame was met by it
	Judged bool // an expectation was about it, met or not
}

// NewEntry returns the entry for a line. It accepts anything: checks judge it.
func NewEntry(dir jsonrpc.Direction, raw []byte) *Entry {
	e := &Entry{Direction: dir, Raw: raw}
	value, ok := jsont.Decode(raw)
	if !ok {
		return e
	}
	e.Value = value
	o, _ := value.(object)
	var parts map[string]json.RawMessage
	if o == nil || json.Unmarshal(raw, &parts) != nil {
		return e
	}
	e.ID, e.Params = parts["id"], parts["params"]
	method, hasMethod := o["method"].(string)
	_, hasResult := o["result"]
	_, hasError := o["error"]
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

// Entries returns the entries of a frame of the agent: one, or one for each element
// of an array.
// All elements of an array share the flaws of their line. An array beyond the bound
// stays one entry, whose bytes prove the flaw.
func Entries(f jsonrpc.Frame, problem *jsonrpc.Problem) (out []*Entry) {
	var items []json.RawMessage
	array := len(f.Raw) > 0 && f.Raw[0] == '[' && json.Unmarshal(f.Raw, &items) == nil && len(items) > 0 && len(items) <= jsonrpc.MaxBatch
	if !array {
		items = []json.RawMessage{f.Raw}
	}
	for _, item := range items {
		e := NewEntry(jsonrpc.In, item)
		e.flaws = f.Flaws
		e.Problem = problem
		e.batched = array
		out = append(out, e)
	}
	return out
}

// Failure returns the error of a response, nil if it has none.
func (e *Entry) Failure() any {
	o, _ := e.Value.(object)
	return o["error"]
}

// IDKey returns a key that is equal for equal ids: strings with the same
// characters, numbers with the same digits.
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
