package model

import (
	"encoding/json"
	"sync"
)

// An Exchange is a request that the model got, and what came of it.
type Exchange struct {
	Seq     int             `json:"seq"` // from 1
	API     string          `json:"api"` // "" if the path belongs to none
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Model   string          `json:"model,omitempty"`
	Stream  bool            `json:"stream,omitempty"`
	Side    bool            `json:"side,omitempty"` // it is none of the user's conversation
	Prompt  string          `json:"prompt,omitempty"`
	Results int             `json:"results,omitempty"` // of tool calls since the prompt
	Tools   []string        `json:"tools,omitempty"`   // what the agent offers
	Status  int             `json:"status"`            // of HTTP
	Answer  string          `json:"answer,omitempty"`  // its parts and why it ended
	Body    json.RawMessage `json:"body,omitempty"`    // what the agent sent; not there if it was long, or no JSON
}

// Bounds of the log. What is too much pushes out the oldest.
const (
	maxExchanges = 1000
	maxLogged    = 16 << 20 // bytes of all bodies
	maxLogBody   = 1 << 20  // bytes of one
)

// exchanges is the log.
type exchanges struct {
	mu    sync.Mutex
	list  []Exchange
	seq   int
	bytes int
}

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

// all returns what is in the log.
func (l *exchanges) all() []Exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Exchange{}, l.list...)
}

func (l *exchanges) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.bytes = nil, 0
}
