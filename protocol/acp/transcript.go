package acp

import "strings"

// maxMessages is the number of messages that a Transcript keeps apart.
const maxMessages = 256

// A Transcript collects the text of an agent's messages in one turn. A new message
// begins with every new message id and after every tool call, and begins on a line
// of its own in the whole text: an agent that speaks, uses a tool and speaks again
// has said two things. An update may replace the whole text of an earlier message.
//
// The zero value is an empty transcript without a limit.
type Transcript struct {
	// Limit is the number of bytes at the end of the text that are kept at least;
	// 0 keeps all of it. The transcript holds at most three times as many, so that a long
	// message is copied once for every Limit bytes added.
	Limit int

	messages []transcriptMessage
	size     int  // bytes of all messages
	closed   bool // a tool call came after the last message
}

// A transcriptMessage is the text of one message so far.
type transcriptMessage struct {
	id   string // empty in version 1
	text []byte
}

// Add applies an update. Updates other than messages of the agent and tool calls
// change nothing.
func (t *Transcript) Add(u *Update) {
	switch u.Kind() {
	case KindToolCall:
		t.closed = true
	case KindAgentMessage:
		id, whole := u.Message()
		if whole {
			t.remove(id)
		}
		m := t.message(id)
		m.text = append(m.text, u.Text()...)
		t.size += len(u.Text())
		t.shorten()
	}
}

// remove empties the messages of an id. They keep their place for the text that
// replaces them.
func (t *Transcript) remove(id string) {
	for i := range t.messages {
		if m := &t.messages[i]; m.id == id {
			t.size -= len(m.text)
			m.text = nil
			t.closed = false
		}
	}
}

// message returns the message that a chunk of the given id belongs to.
func (t *Transcript) message(id string) *transcriptMessage {
	for i := range t.messages {
		// An older message of that id is complete if a tool call followed it. Without
		// ids, every message but the last one is complete.
		isOpen := !t.closed && (id != "" || i == len(t.messages)-1)
		if m := &t.messages[i]; m.id == id && isOpen {
			return m
		}
	}
	t.closed = false
	t.messages = append(t.messages, transcriptMessage{id: id})
	return &t.messages[len(t.messages)-1]
}

// canDropFirst reports whether there are too many messages, or the messages after the
// first one have at least as many bytes as are kept.
func (t *Transcript) canDropFirst() bool {
	if len(t.messages) <= 1 {
		return false
	}
	return len(t.messages) > maxMessages || (t.Limit > 0 && t.size-len(t.messages[0].text) >= t.Limit)
}

// shorten drops the first messages, or the beginning of the only one, while the
// transcript holds more than its limits.
func (t *Transcript) shorten() {
	for t.canDropFirst() {
		t.size -= len(t.messages[0].text)
		t.messages = t.messages[1:]
	}
	if m := &t.messages[0]; t.Limit > 0 && len(t.messages) == 1 && len(m.text) > 2*t.Limit {
		m.text = append([]byte(nil), m.text[len(m.text)-t.Limit:]...)
		t.size = len(m.text)
	}
}

// String returns the text of all messages. A character that was cut at the limit is
// left out.
func (t *Transcript) String() string {
	var all strings.Builder
	for _, m := range t.messages {
		if s := all.String(); s != "" && !strings.HasSuffix(s, "\n") && len(m.text) > 0 {
			all.WriteByte('\n')
		}
		all.Write(m.text)
	}
	return strings.ToValidUTF8(all.String(), "")
}
