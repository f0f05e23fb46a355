package comply

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/jsonrpc"
)

// A class is what kind of message a frame is. The names are those of expected
// messages in a test.
type class string

const (
	classResponse     class = "response"
	classNotification class = "notification"
	classRequest      class = "clientRequest"
	classNone         class = "" // no message at all
)

// An entry is one line of a conversation's log: a message, or bytes that are
// none.
type entry struct {
	seq     int
	dir     jsonrpc.Direction
	raw     []byte
	time    time.Time
	flaws   []jsonrpc.Flaw
	problem *jsonrpc.Problem // why the reader refused it; nil if it did not
	batched bool             // it was an element of an array

	class  class
	method string
	id     json.RawMessage // nil if there is none
	params json.RawMessage
	value  any // all of it, decoded; nil for what is no JSON

	taken  bool // an expectation was met by it
	judged bool // an expectation was about it, met or not
}

// newEntry looks at what was sent or received, as forgiving as can be: it is
// for others to judge.
func newEntry(dir jsonrpc.Direction, raw []byte) *entry {
	e := &entry{dir: dir, raw: raw}
	var ok bool
	if e.value, ok = decode(raw); !ok {
		e.value = nil
		return e
	}
	object, ok := e.value.(map[string]any)
	if !ok {
		return e
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return e
	}
	e.id, e.params = parts["id"], parts["params"]
	method, hasMethod := object["method"].(string)
	_, hasResult := object["result"]
	_, hasError := object["error"]
	switch {
	case hasMethod && e.id != nil:
		e.class, e.method = classRequest, method
	case hasMethod:
		e.class, e.method = classNotification, method
	case hasResult || hasError:
		e.class = classResponse
	}
	return e
}

// entries returns the messages of a frame: one, or the elements of an array.
func entries(f jsonrpc.Frame, problem *jsonrpc.Problem) []*entry {
	var items []json.RawMessage
	if len(f.Raw) > 0 && f.Raw[0] == '[' && json.Unmarshal(f.Raw, &items) == nil && len(items) > 0 && len(items) <= jsonrpc.MaxBatch {
		var out []*entry
		for _, item := range items {
			e := newEntry(jsonrpc.In, item)
			e.time, e.flaws, e.problem, e.batched = f.Time, f.Flaws, problem, true
			out = append(out, e)
		}
		return out
	}
	e := newEntry(jsonrpc.In, f.Raw)
	e.time, e.flaws, e.problem = f.Time, f.Flaws, problem
	return []*entry{e}
}

// failure returns the error of a response, nil if it has none.
func (e *entry) failure() any {
	object, _ := e.value.(map[string]any)
	return object["error"]
}

// idKey returns the same text for ids that are the same: strings that say the
// same, numbers with the same digits.
func idKey(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return `"` + s
	}
	return string(bytes.TrimSpace(id))
}

// frame returns the entry for a report.
func (e *entry) frame() Frame {
	return Frame{Seq: e.seq, Direction: e.dir, Text: cut(string(bytes.ToValidUTF8(e.raw, []byte("\uFFFD"))), maxShown)}
}

// maxShown is how much of a frame a report shows.
const maxShown = 2000
