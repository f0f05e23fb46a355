package journal

import (
	"encoding/json"
	"sync"

	"github.com/parley-agents/parley/hub"
)

// maxFresh is how many bytes of messages are remembered.
const maxFresh = 8 << 20

// fresh remembers messages between the moment they were kept and the next copy,
// so that the trail need not read them again. It may forget any of them: the
// store has them all.
type fresh struct {
	mu       sync.Mutex // guards what follows
	messages map[hub.EnvelopeID]json.RawMessage
	bytes    int
}

// put remembers a message as a line of the trail has it, if there is room.
func (f *fresh) put(id hub.EnvelopeID, message json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes+len(message) > maxFresh {
		return
	}
	if f.messages == nil {
		f.messages = map[hub.EnvelopeID]json.RawMessage{}
	}
	f.messages[id] = message
	f.bytes += len(message)
}

// take returns a message and forgets it, or nil.
func (f *fresh) take(id hub.EnvelopeID) json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	message := f.messages[id]
	delete(f.messages, id)
	f.bytes -= len(message)
	return message
}

// forget forgets everything.
func (f *fresh) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.messages)
	f.bytes = 0
}
