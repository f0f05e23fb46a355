package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/report"
)

// A Reply is an agent's answer to a dispatch.
type Reply struct {
	StopReason acp.StopReason
	Report     *report.Result // nil if the agent gave none
	Repeated   bool           // the agent gave no report at first and was prompted for it
	Text       string         // the end of the agent's text in its last turn
}

// maxText is the number of bytes of the agent's text that are kept at the end of a
// turn, where reports stand.
const maxText = 1 << 20

// Work gives the agent a task and returns its report. An agent that ends its turn
// without a report is prompted for the report alone, once; a reply without a report
// after that is no error. When ctx ends the agent is asked to stop, and the error
// is the cause of the context.
func (a *Agent) Work(ctx context.Context, d report.Dispatch) (Reply, error) {
	text, err := d.Text()
	if err != nil {
		return Reply{}, fmt.Errorf("fleet: %w", err)
	}
	var reply Reply
	if reply.Text, reply.StopReason, err = a.prompt(ctx, text, instruction()); err != nil {
		return reply, err
	}
	found, err := report.ParseAny(reply.Text, nil)
	if err == nil {
		reply.Report = &found
		return reply, nil
	}
	if !reply.StopReason.Success() { // it refused or reached a limit: a second prompt would not help
		return reply, nil
	}
	reply.Repeated = true
	var stop acp.StopReason
	if reply.Text, stop, err = a.prompt(ctx, report.Closure(nil).Text); err != nil {
		return reply, err
	}
	if found, err = report.ParseAny(reply.Text, nil); err == nil {
		reply.Report = &found
	} else {
		reply.StopReason = stop
	}
	return reply, nil
}

// instruction returns the prompt that explains the report format.
func instruction() string {
	for _, p := range report.Prompts() {
		if p.Name == "system" {
			return p.Text
		}
	}
	return ""
}

// prompt gives the agent a turn and returns its text.
func (a *Agent) prompt(ctx context.Context, texts ...string) (string, acp.StopReason, error) {
	blocks := make([]acpv2.ContentBlock, len(texts))
	for i, t := range texts {
		blocks[i] = acp.Text(t)
	}
	turn, err := a.session.Prompt(ctx, blocks...)
	if err != nil {
		return "", "", fmt.Errorf("fleet: %w", err)
	}
	var text turnText
	for u := range turn.Updates() {
		if u.Kind() == acp.KindAgentMessage {
			text.add(u)
		}
		if a.opts.OnUpdate != nil {
			a.opts.OnUpdate(u)
		}
	}
	result, err := turn.Wait()
	switch {
	case ctx.Err() != nil:
		return text.String(), result.StopReason, context.Cause(ctx)
	case err != nil:
		return text.String(), result.StopReason, fmt.Errorf("fleet: %w", err)
	}
	return text.String(), result.StopReason, nil
}

// maxMessages is the number of messages of one turn that are kept apart.
const maxMessages = 256

// A turnText is the end of an agent's text in a turn, message by message: an update
// may replace the whole text of an earlier message. It holds at most twice maxText
// bytes, so that a long message is copied once for every maxText bytes added.
type turnText struct {
	messages []message
	size     int
}

type message struct {
	id   string
	text []byte
}

// add applies an update of a message.
func (t *turnText) add(u *acp.Update) {
	id, whole := u.Message()
	text := u.Text()
	m := t.find(id)
	if whole {
		t.size -= len(m.text)
		m.text = m.text[:0]
	}
	m.text = append(m.text, text...)
	t.size += len(text)
	for t.size > 2*maxText || len(t.messages) > maxMessages {
		t.shorten()
	}
}

// find returns the message of that id, a new one if there is none.
func (t *turnText) find(id string) *message {
	for i := len(t.messages) - 1; i >= 0; i-- {
		if t.messages[i].id == id {
			return &t.messages[i]
		}
	}
	t.messages = append(t.messages, message{id: id})
	return &t.messages[len(t.messages)-1]
}

// shorten drops the first message, or the beginning of the only one.
func (t *turnText) shorten() {
	if len(t.messages) > 1 {
		t.size -= len(t.messages[0].text)
		t.messages = t.messages[1:]
		return
	}
	m := &t.messages[0]
	kept := append([]byte(nil), m.text[len(m.text)-maxText:]...)
	t.size, m.text = len(kept), kept
}

// String returns the text without a character that was cut.
func (t *turnText) String() string {
	var all strings.Builder
	for _, m := range t.messages {
		all.Write(m.text)
	}
	return strings.ToValidUTF8(all.String(), "")
}
