package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/report"
)

// A Reply is how an agent answered to a dispatch.
type Reply struct {
	StopReason acp.StopReason
	Report     *report.Result // nil if it gave none
	Asked      bool           // it had to be asked for the report
	Said       string         // the end of what it said in its last turn
}

// maxSaid is how much of what an agent says in one turn is kept, the end of it:
// that is where reports stand.
const maxSaid = 1 << 20

// Work gives the agent a task and returns what it reports. An agent that ends its
// turn without a report is asked for it once more, with no other work to do;
// after that the reply has none, which is no error. When ctx ends the agent is
// asked to stop; the error then is that of the context.
func (a *Agent) Work(ctx context.Context, d report.Dispatch) (Reply, error) {
	text, err := d.Text()
	if err != nil {
		return Reply{}, fmt.Errorf("fleet: %w", err)
	}
	var reply Reply
	if reply.Said, reply.StopReason, err = a.prompt(ctx, text, instruction()); err != nil {
		return reply, err
	}
	found, err := report.ParseAny(reply.Said, nil)
	if err == nil {
		reply.Report = &found
		return reply, nil
	}
	if !reply.StopReason.Success() { // it refused, or ran into a limit: there is nothing more to be had
		return reply, nil
	}
	reply.Asked = true
	var stop acp.StopReason
	if reply.Said, stop, err = a.prompt(ctx, report.Closure(nil).Text); err != nil {
		return reply, err
	}
	if found, err = report.ParseAny(reply.Said, nil); err == nil {
		reply.Report = &found
	} else {
		reply.StopReason = stop
	}
	return reply, nil
}

// instruction returns what tells an agent how to report.
func instruction() string {
	for _, p := range report.Prompts() {
		if p.Name == "system" {
			return p.Text
		}
	}
	return ""
}

// prompt gives the agent a turn and returns what it says in it.
func (a *Agent) prompt(ctx context.Context, texts ...string) (string, acp.StopReason, error) {
	blocks := make([]acpv2.ContentBlock, len(texts))
	for i, text := range texts {
		blocks[i] = acp.Text(text)
	}
	turn, err := a.session.Prompt(ctx, blocks...)
	if err != nil {
		return "", "", fmt.Errorf("fleet: %w", err)
	}
	var said speech
	for u := range turn.Updates() {
		if u.Kind() == acp.KindAgentMessage {
			said.add(u)
		}
		if a.opts.OnUpdate != nil {
			a.opts.OnUpdate(u)
		}
	}
	result, err := turn.Wait()
	switch {
	case ctx.Err() != nil:
		return said.String(), result.StopReason, context.Cause(ctx)
	case err != nil:
		return said.String(), result.StopReason, fmt.Errorf("fleet: %w", err)
	}
	return said.String(), result.StopReason, nil
}

// maxMessages is how many messages of one turn are kept apart.
const maxMessages = 256

// A speech is the end of what an agent says in a turn, message by message.
type speech struct {
	messages []message
	size     int
}

type message struct {
	id   string
	text []byte
}

// add takes in an update about a message.
func (s *speech) add(u *acp.Update) {
	id, whole := u.Message()
	text := u.Text()
	m := s.find(id)
	if whole {
		s.size -= len(m.text)
		m.text = m.text[:0]
	}
	m.text = append(m.text, text...)
	s.size += len(text)
	for s.size > 2*maxSaid || len(s.messages) > maxMessages {
		s.shorten()
	}
}

// find returns the message of that id, a new one if there is none.
func (s *speech) find(id string) *message {
	for i := len(s.messages) - 1; i >= 0; i-- {
		if s.messages[i].id == id {
			return &s.messages[i]
		}
	}
	s.messages = append(s.messages, message{id: id})
	return &s.messages[len(s.messages)-1]
}

// shorten drops what was said first, in lots so that it costs little.
func (s *speech) shorten() {
	if len(s.messages) > 1 {
		s.size -= len(s.messages[0].text)
		s.messages = s.messages[1:]
		return
	}
	m := &s.messages[0]
	kept := append([]byte(nil), m.text[len(m.text)-maxSaid:]...)
	s.size, m.text = len(kept), kept
}

// String returns the text without what a cut left of a character.
func (s *speech) String() string {
	var all strings.Builder
	for _, m := range s.messages {
		all.Write(m.text)
	}
	return strings.ToValidUTF8(all.String(), "")
}
