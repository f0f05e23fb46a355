package keeper

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// An EventKind says what happened in a session of a kept agent.
type EventKind string

// The kinds.
const (
	EventPrompt  EventKind = "prompt"  // a turn begins: Turn, By and Text
	EventUpdate  EventKind = "update"  // of the agent: Update
	EventAsk     EventKind = "ask"     // a question waits for a person: Ask
	EventDecided EventKind = "decided" // the question does not wait any more: Question
	EventEnd     EventKind = "end"     // of a turn: Turn, and Stop or Problem
)

// An Event is something that happened in a session of a kept agent, for the windows that show
// it.
type Event struct {
	N    int64     `json:"n"`
	At   time.Time `json:"at,omitzero"`
	Kind EventKind `json:"kind"`
	Turn string    `json:"turn,omitempty"`

	By       string          `json:"by,omitempty"`       // ByMail, ByOperator, ByHub, or the name of the window that prompted
	Text     string          `json:"text,omitempty"`     // of the prompt
	Update   json.RawMessage `json:"update,omitempty"`   // the member update of session/update, in version 1 of ACP
	Ask      *Ask            `json:"ask,omitempty"`      // the question
	Question int             `json:"question,omitempty"` // the number of the question that was decided
	Stop     string          `json:"stop,omitempty"`     // the stop reason of the turn
	Problem  string          `json:"problem,omitempty"`  // why the turn did not end well
}

// The prompts that no window gave.
const (
	ByMail     = "mail"
	ByOperator = "operator"
	ByHub      = "hub"
)

// An Ask is a question with the request that it came in.
type Ask struct {
	Question
	Request json.RawMessage `json:"request,omitempty"` // the params of session/request_permission, in version 1 of ACP
}

// kept reports whether the event is a part of the history.
func (e Event) kept() bool {
	return e.Kind == EventPrompt || e.Kind == EventUpdate || e.Kind == EventEnd
}

// maxHistory is the number of bytes of a session's history. When it is exceeded, the older half
// is dropped.
const maxHistory = 8 << 20

// A feed has the events of one session. Prompts, updates and ends of turns are in a file, too,
// so that a window that is opened later shows them.
type feed struct {
	path    string // of the file; "" for none
	log     func(error)
	secrets *run.Redactor // of the file: a person at a window sees everything

	bridge *acpv2.Bridge // for the updates of an agent of version 2: windows speak version 1

	mu      sync.Mutex // guards what follows
	events  []Event
	size    int // bytes of events, about
	last    int64
	file    *os.File      // nil before the first event
	changed chan struct{} // closed when an event is added
}

// openFeed returns the feed whose history is in the file of a path. A file that cannot be read
// is reported to log, and the history begins anew.
func openFeed(path string, log func(error)) *feed {
	f := &feed{bridge: acpv2.NewBridge(&acpv2.V1Options{Lossy: true}), path: path, log: log, secrets: run.NewRedactor(), changed: make(chan struct{})}
	if path == "" {
		return f
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, maxHistory)
	for lines.Scan() {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line may be cut
			f.events = append(f.events, e)
			f.size += len(lines.Bytes())
			f.last = max(f.last, e.N)
		}
	}

	// A turn that a hub did not end goes on, or was given up, after its last event.
	f.last++
	return f
}

// add adds an event.
func (f *feed) add(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	e.N = f.last
	e.At = time.Now().UTC()
	line, err := strictjson.Encode(e)
	if err != nil {
		f.log(err)
		return
	}

	f.events = append(f.events, e)
	f.size += len(line)
	if e.kept() {
		f.write(append(line, '\n'))
	}
	if f.size > maxHistory {
		f.halve()
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// write appends a line to the file. The caller holds mu.
func (f *feed) write(line []byte) {
	if f.path == "" {
		return
	}
	if f.file == nil {
		err := os.MkdirAll(filepath.Dir(f.path), 0o700)
		if err == nil {
			f.file, err = os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}
		if err != nil {
			f.log(err)
			return
		}
	}
	if _, err := f.file.Write(f.secrets.Redact(line)); err != nil {
		f.log(err)
	}
}

// halve drops the older half of the events and writes the file anew. The caller holds mu.
func (f *feed) halve() {
	f.events = append([]Event(nil), f.events[len(f.events)/2:]...)
	f.size = 0
	f.close()
	os.Remove(f.path) // it is written anew below
	for _, e := range f.events {
		line, err := strictjson.Encode(e)
		if err != nil {
			continue // it was encoded before
		}
		f.size += len(line)
		if e.kept() {
			f.write(append(line, '\n'))
		}
	}
}

// close closes the file until the next event. The caller holds mu.
func (f *feed) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// forget drops the history.
func (f *feed) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
	f.events, f.size = nil, 0
	if f.path != "" {
		os.Remove(f.path) // it may never have been written
	}
}

// release closes the file, which the next event opens again.
func (f *feed) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
}

// after returns at most maxEvents events after a number, and a channel that is closed when there
// are more.
func (f *feed) after(n int64) ([]Event, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.events)
	for i > 0 && f.events[i-1].N > n {
		i--
	}
	rest := f.events[i:]
	return append([]Event(nil), rest[:min(len(rest), maxEvents)]...), f.changed
}

// end returns the number of the last event.
func (f *feed) end() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// maxEvents is the number of events of one answer.
const maxEvents = 500

// update adds an update of the agent.
func (f *feed) update(turn string, u *acp.Update) {
	if u.Kind() == acp.KindUserMessage {
		return // the prompt is an event of its own
	}
	list := []*acpv1.SessionNotification{u.V1}
	if u.V2 != nil {
		step, err := f.bridge.Update(u.V2)
		if err != nil {
			f.log(err)
			return
		}
		list = step.Updates
	}
	for _, one := range list {
		raw, err := one.Update.MarshalJSON()
		if err != nil {
			f.log(err)
			return
		}
		f.add(Event{Kind: EventUpdate, Turn: turn, Update: raw})
	}
}
