package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A line is one line of the trail: a journal entry, and beside it what was sent
// or handed over.
type line struct {
	hub.Entry
	Message json.RawMessage `json:"message,omitempty"` // the envelope as it was sent
	Handoff *handoffCopy    `json:"handoff,omitempty"`
}

// A handoffCopy is what the trail keeps of a handoff. A restricted package must
// not leave the store.
type handoffCopy struct {
	From       hub.AgentID     `json:"from"`
	To         hub.AgentID     `json:"to"`
	TaskID     string          `json:"task_id"`
	Title      string          `json:"title"`
	Reason     string          `json:"reason"`
	Hash       string          `json:"package_hash"`
	Restricted bool            `json:"restricted,omitempty"`
	Package    json.RawMessage `json:"package,omitempty"`
}

// The families of entries that the trail copies, each into a file of its own.
var families = []string{"messages", "handoffs"}

// familyOf returns which of families an action belongs to, or "".
func familyOf(a hub.Action) string {
	switch noun, _, _ := strings.Cut(string(a), "."); noun {
	case "message":
		return "messages"
	case "handoff":
		return "handoffs"
	}
	return ""
}

// begins reports whether an action is the first about a message.
func begins(a hub.Action) bool { return a == hub.ActionMessageSent || a == hub.ActionMessageHeld }

// appendLine writes the line for an entry to buf. The same entry gives the same
// bytes, as long as what it is about is in the store.
func appendLine(buf *bytes.Buffer, r hub.Reader, e hub.Entry) error {
	l := line{Entry: e}
	switch {
	case begins(e.Action):
		m, err := r.Message(hub.EnvelopeID(e.Subject))
		if hub.CodeOf(err) == hub.CodeNotFound {
			break // it lies in an archive
		}
		if err != nil {
			return err
		}
		message, err := sentMessage(m.Envelope)
		if err != nil {
			return err
		}
		return appendMessage(buf, e, message)
	case e.Action == hub.ActionHandoffProposed:
		h, err := r.Handoff(hub.HandoffID(e.Subject))
		if hub.CodeOf(err) == hub.CodeNotFound {
			break
		}
		if err != nil {
			return err
		}
		title := h.Title
		if h.Restricted {
			title = "restricted"
		}
		l.Handoff = &handoffCopy{From: h.From, To: h.To, TaskID: h.TaskID, Title: title, Reason: h.Reason, Hash: h.Hash, Restricted: h.Restricted}
		if !h.Restricted {
			l.Handoff.Package = h.Package
		}
	}
	return encodeLine(buf, l)
}

// sentMessage returns a message as it was sent, the way a line has it.
func sentMessage(e hub.Envelope) (json.RawMessage, error) {
	e.Status, e.UpdatedAt = hub.StatusPending, hub.Time{}
	message, err := e.MarshalJSON()
	if err != nil || len(e.Extra) == 0 {
		return message, err
	}
	var buf bytes.Buffer // what nobody knows here is spaced as it came
	err = json.Compact(&buf, message)
	return buf.Bytes(), err
}

// appendMessage writes the line for an entry and the message that it begins. It
// puts the two together itself: encodeLine would look through the whole message
// once more.
func appendMessage(buf *bytes.Buffer, e hub.Entry, message json.RawMessage) error {
	if err := encodeLine(buf, e); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - len("}\n"))
	buf.WriteString(`,"message":`)
	buf.Write(message)
	buf.WriteString("}\n")
	return nil
}

// encodeLine writes v as JSON, without escapes for HTML, and a newline.
func encodeLine(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// decodeLine reads a line of the trail. It refuses what appendLine would not
// have written.
func decodeLine(raw []byte) (line, error) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return line{}, err
	}
	if l.Seq <= 0 {
		return line{}, errors.New("it has no number")
	}
	var again bytes.Buffer
	if err := encodeLine(&again, l); err != nil {
		return line{}, fmt.Errorf("it cannot be written again: %w", err)
	}
	if !bytes.Equal(bytes.TrimSuffix(again.Bytes(), []byte("\n")), raw) {
		return line{}, errors.New("it is not as the hub writes it")
	}
	return l, nil
}

// same reports whether two entries say the same.
func same(a, b hub.Entry) bool {
	return a.Seq == b.Seq && a.At.Equal(b.At.Time) && a.Actor == b.Actor && a.Action == b.Action && a.Subject == b.Subject &&
		a.Outcome == b.Outcome && bytes.Equal(a.Facts, b.Facts) && a.Hash == b.Hash
}
