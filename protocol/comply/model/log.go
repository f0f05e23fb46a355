package model

import (
	"encoding/json"
	"sync"
)

// An Exchange is a request to the model with a summary of its answer, for the log.
// Results and Tools show how far the agent is and what it could have called, which
// is mostly enough to see why an answer was another one than expected.
type Exchange struct {
	Seq     int             `json:"seq"` // from 1
	API     string          `json:"api"` // "" if the path belongs to none
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Model   string          `json:"model,omitempty"`
	Stream  bool            `json:"stream,omitempty"`
	Side    bool            `json:"side,omitempty"` // the agent made it for itself
	Prompt  string          `json:"prompt,omitempty"`
	Results int             `json:"results,omitempty"` // of tool calls since the prompt
	Tools   []string        `json:"tools,omitempty"`   // names of the tools that the agent offers
	Status  int             `json:"status"`            // of HTTP
	Answer  string          `json:"answer,omitempty"`  // its parts and its end
	Body    json.RawMessage `json:"body,omitempty"`    // of the request; absent if it was long or not JSON
}

// Bounds of the log. The oldest exchanges go first.
const (
	maxExchanges = 1000
	maxLogged    = 16 << 20 // bytes of all bodies
	maxLogBody   = 1 << 20  // bytes of one
)

// exchanges is the log.
// mu guards the fields. Bodies are shared with the request and do not change.
type exchanges struct {
	mu    sync.Mutex
	list  []Exchange
	seq   int
	bytes int
}

// add appends an exchange and drops the oldest ones over the bounds. The numbers go on,
// so that a reader sees that some are missing.
func (l *exchanges) add(x Exchange) {
	if len(x.Body) > maxLogBody || !json.Valid(x.Body) {
		x.Body = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	x.Seq = l.seq
	l.list = append(l.list, x)
	l.bytes += len(x.Body)
	for len(l.list) > maxExchanges || l.bytes > maxLogged {
		l.bytes -= len(l.list[0].Body)
		l.list = l.list[1:]
	}
}

// all returns a copy of the log.
func (l *exchanges) all() []Exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Exchange{}, l.list...)
}

// clear empties the log and keeps counting.
func (l *exchanges) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.bytes = nil, 0
}
