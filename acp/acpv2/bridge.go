package acpv2

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/parley-agents/parley/acp/acpv1"
)

// A Bridge stands between a client that speaks version 1 and an agent that speaks
// version 2, and keeps what a conversion must know about a session. An agent of
// version 2 accepts a prompt at once and tells by its state when the work is done;
// a client of version 1 waits for the answer until then.
//
// The program calls Prompt before it sends a prompt on, Accepted or Refused when
// the agent has answered it, and Update for each update, in the order in which they
// arrive. A Bridge is safe for concurrent use.
type Bridge struct {
	opts V1Options

	mu       sync.Mutex // guards sessions
	sessions map[SessionID]*bridged
}

// NewBridge returns a bridge. opts may be nil.
func NewBridge(opts *V1Options) *Bridge {
	b := &Bridge{sessions: map[SessionID]*bridged{}}
	if opts != nil {
		b.opts = *opts
	}
	return b
}

// A Step is what the client gets to hear.
type Step struct {
	Updates []*acpv1.SessionNotification // in this order, before Answer
	Answer  *Answer                      // nil if the prompt stays unanswered
	Notes   []*Problem                   // what was left out
}

// An Answer answers session/prompt. Exactly one of its fields is set.
type Answer struct {
	Result *acpv1.PromptResponse
	Error  *acpv1.Error
}

// A turn is how far a prompt has come.
type turn string

const (
	turnNone turn = "none" // nothing is waiting for an answer
	turnSent turn = "sent" // the agent has not answered
	turnOpen turn = "open" // the agent has accepted the prompt
)

type event string

const (
	eventPrompt   event = "prompt"
	eventAccepted event = "accepted"
	eventRefused  event = "refused"
	eventStopped  event = "stopped"
)

// turnNext is the whole life of a prompt.
var turnNext = map[turn]map[event]turn{
	turnNone: {eventPrompt: turnSent},
	turnSent: {eventAccepted: turnOpen, eventRefused: turnNone},
	turnOpen: {eventStopped: turnNone},
}

// Bounds of what is remembered.
const (
	maxSessions  = 10_000
	maxMessages  = 10_000 // of one session
	maxToolCalls = 1_000  // of one session, in progress
	maxContents  = 1_000  // of one tool call
)

// A bridged is what is known about a session.
type bridged struct {
	turn     turn
	messages map[MessageID]bool // that the client has content of
	calls    map[ToolCallID]*bridgedCall
	plan     PlanID
}

// A bridgedCall is a tool call that the client knows.
type bridgedCall struct {
	content []acpv1.ToolCallContent
}

// session returns what is known about a session, which may be nothing yet.
func (b *Bridge) session(id SessionID) (*bridged, error) {
	s := b.sessions[id]
	if s == nil {
		if len(b.sessions) >= maxSessions {
			return nil, fmt.Errorf("acp: session %s: there are %d others: forget those that have ended", id, maxSessions)
		}
		s = &bridged{turn: turnNone, messages: map[MessageID]bool{}, calls: map[ToolCallID]*bridgedCall{}}
		b.sessions[id] = s
	}
	return s, nil
}

// move makes the move of an event and reports whether there is one.
func (s *bridged) move(e event) bool {
	next, ok := turnNext[s.turn][e]
	if ok {
		s.turn = next
	}
	return ok
}

// Prompt notes that a prompt is sent to the agent. It fails while another one is
// unanswered, since a session of version 1 has one at a time.
func (b *Bridge) Prompt(id SessionID) error {
	return b.step(id, eventPrompt, "the prompt before it is unanswered")
}

// Accepted notes that the agent has taken the prompt. The client hears nothing yet.
func (b *Bridge) Accepted(id SessionID) error {
	return b.step(id, eventAccepted, "no prompt is waiting for that")
}

// Refused notes that the agent has answered the prompt with an error, and returns
// what the client gets.
func (b *Bridge) Refused(id SessionID, e *Error) (*Answer, error) {
	if err := b.step(id, eventRefused, "no prompt is waiting for that"); err != nil {
		return nil, err
	}
	return &Answer{Error: ErrorToV1(e)}, nil
}

func (b *Bridge) step(id SessionID, e event, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.session(id)
	if err == nil && !s.move(e) {
		err = fmt.Errorf("acp: session %s: %s: %s", id, e, reason)
	}
	return err
}

// Forget drops what is known about a session that has ended. It returns the answer
// to its prompt if that is still due.
func (b *Bridge) Forget(id SessionID) *Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[id]
	delete(b.sessions, id)
	if s == nil || s.turn == turnNone {
		return nil
	}
	return &Answer{Error: &acpv1.Error{Code: acpv1.ErrorCodeInternalError, Message: "the session has ended"}}
}

// Update converts an update. If it fails, the client must hear nothing of it.
func (b *Bridge) Update(n *UpdateSessionNotification) (*Step, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.session(n.SessionID)
	if err != nil {
		return nil, err
	}
	c := newConverter(&b.opts)
	step := &Step{}
	var updates []acpv1.SessionUpdate
	var remember func()
	c.at("update", func() { updates, remember = s.update(c, &n.Update, step) })
	var messages []acpv1.Message
	for _, u := range updates {
		m := &acpv1.SessionNotification{SessionID: acpv1.SessionID(n.SessionID), Update: u, Meta: n.Meta, Extra: n.Extra}
		step.Updates = append(step.Updates, m)
		messages = append(messages, m)
	}
	if err := c.finish(messages...); err != nil {
		return nil, err
	}
	if remember != nil {
		remember()
	}
	step.Notes = c.notes
	return step, nil
}

// update returns what the client gets to hear, and what is to be remembered once
// it is known that nothing is wrong with it.
func (s *bridged) update(c *converter, m *SessionUpdate, step *Step) (updates []acpv1.SessionUpdate, remember func()) {
	switch {
	case m.StateUpdate != nil && m.StateUpdate.Idle != nil:
		return nil, s.idle(c, m.StateUpdate.Idle, step)
	case m.UserMessage != nil:
		return s.whole(c, m.UserMessage.MessageID, m.UserMessage.Content, m.UserMessage.Meta, func(v *acpv1.ContentChunk) acpv1.SessionUpdate {
			return acpv1.SessionUpdate{UserMessageChunk: v}
		})
	case m.AgentMessage != nil:
		return s.whole(c, m.AgentMessage.MessageID, m.AgentMessage.Content, m.AgentMessage.Meta, func(v *acpv1.ContentChunk) acpv1.SessionUpdate {
			return acpv1.SessionUpdate{AgentMessageChunk: v}
		})
	case m.AgentThought != nil:
		return s.whole(c, m.AgentThought.MessageID, m.AgentThought.Content, m.AgentThought.Meta, func(v *acpv1.ContentChunk) acpv1.SessionUpdate {
			return acpv1.SessionUpdate{AgentThoughtChunk: v}
		})
	case m.ToolCallUpdate != nil:
		return s.toolCall(c, m.ToolCallUpdate)
	case m.ToolCallContentChunk != nil:
		return s.toolContent(c, m.ToolCallContentChunk)
	case m.PlanUpdate != nil && m.PlanUpdate.Plan.Items != nil:
		remember = s.onePlan(c, m.PlanUpdate.Plan.Items.PlanID)
	}
	if v := c.update(m); v != nil {
		updates = append(updates, *v)
	}
	for _, chunk := range []*ContentChunk{m.UserMessageChunk, m.AgentMessageChunk, m.AgentThoughtChunk} {
		if chunk != nil {
			remember = func() { s.seen(chunk.MessageID) }
		}
	}
	return updates, remember
}

// idle answers the prompt if the work for it is done.
func (s *bridged) idle(c *converter, m *IdleStateUpdate, step *Step) (remember func()) {
	reason, stopped := m.StopReason.Get()
	switch {
	case s.turn != turnOpen:
		c.idle(m)
		return nil
	case !stopped:
		c.at("stopReason", func() { c.fail("", "is missing, but a prompt is waiting for it") })
		return nil
	}
	c.background(m.Background)
	step.Answer = answer(reason, m)
	return func() { s.move(eventStopped) }
}

// answer returns what a stop reason means to a client of version 1. A reason that
// is not known is never success.
func answer(reason StopReason, m *IdleStateUpdate) *Answer {
	v1 := acpv1.StopReason(reason)
	if v1.Known() {
		return &Answer{Result: &acpv1.PromptResponse{StopReason: v1, Meta: m.Meta, Extra: m.Extra}}
	}
	if e, ok := m.Error.Get(); ok && reason == StopReasonError {
		return &Answer{Error: ErrorToV1(&e)}
	}
	data, err := json.Marshal(map[string]StopReason{"stopReason": reason})
	if err != nil {
		data = nil
	}
	return &Answer{Error: &acpv1.Error{Code: acpv1.ErrorCodeInternalError, Message: "the agent stopped for a reason that version 1 does not have", Data: data}}
}

// whole converts a whole message to chunks, if the client has nothing of it yet:
// version 1 can neither replace nor clear what was said.
func (s *bridged) whole(c *converter, id MessageID, content Optional[[]ContentBlock], meta json.RawMessage, chunk func(*acpv1.ContentChunk) acpv1.SessionUpdate) (updates []acpv1.SessionUpdate, remember func()) {
	blocks, ok := content.Get()
	switch {
	case !ok || len(blocks) == 0:
		c.at("content", func() { c.fail("", "is missing or empty, and version 1 cannot clear a message") })
	case s.messages[id]:
		c.at("messageId", func() { c.fail(string(id), "is a message that the client has, and version 1 cannot replace it") })
	case len(s.messages) >= maxMessages:
		c.at("messageId", func() { c.fail(string(id), "may be a message that the client has: there were too many to remember") })
	}
	for _, block := range each(c, "content", blocks, c.block) {
		updates = append(updates, chunk(&acpv1.ContentChunk{Content: block, MessageID: Set(acpv1.MessageID(id)), Meta: c.keepMeta(meta)}))
	}
	return updates, func() { s.seen(id) }
}

// seen notes that the client has content of a message.
func (s *bridged) seen(id MessageID) {
	if len(s.messages) < maxMessages {
		s.messages[id] = true
	}
}

// toolCall converts a change. The first one of a tool call that has a title
// announces it.
func (s *bridged) toolCall(c *converter, m *ToolCallUpdate) ([]acpv1.SessionUpdate, func()) {
	v1 := c.toolCall(m)
	call := s.calls[m.ToolCallID]
	remember := func() {
		if call == nil && len(s.calls) < maxToolCalls {
			call = &bridgedCall{}
			s.calls[m.ToolCallID] = call
		}
		if list, ok := v1.Content.Get(); ok && call != nil {
			call.content = list
		}
		if status, _ := v1.Status.Get(); status == acpv1.ToolCallStatusCompleted || status == acpv1.ToolCallStatusFailed {
			delete(s.calls, m.ToolCallID)
		}
	}
	title, ok := v1.Title.Get()
	if call != nil || !ok {
		return []acpv1.SessionUpdate{{ToolCallUpdate: &v1}}, remember
	}
	return []acpv1.SessionUpdate{{ToolCall: &acpv1.ToolCall{
		ToolCallID: v1.ToolCallID, Title: title, Name: v1.Name, Kind: v1.Kind, Status: v1.Status, Content: v1.Content,
		Locations: v1.Locations, RawInput: v1.RawInput, RawOutput: v1.RawOutput, Meta: v1.Meta, Extra: v1.Extra,
	}}}, remember
}

// toolContent adds to what a tool call has put out, which version 1 can only
// replace as a whole.
func (s *bridged) toolContent(c *converter, m *ToolCallContentChunk) (updates []acpv1.SessionUpdate, remember func()) {
	call := s.calls[m.ToolCallID]
	if call == nil {
		c.at("toolCallId", func() { c.fail(string(m.ToolCallID), "is not a tool call in progress") })
		return nil, nil
	}
	if len(call.content) >= maxContents {
		c.at("content", func() { c.fail("", "is more than is remembered of one tool call") })
		return nil, nil
	}
	var item acpv1.ToolCallContent
	c.at("content", func() { item, _ = c.toolContent(&m.Content) })
	list := append(call.content[:len(call.content):len(call.content)], item)
	update := acpv1.ToolCallUpdate{ToolCallID: acpv1.ToolCallID(m.ToolCallID), Content: Set(list), Meta: m.Meta, Extra: m.Extra}
	return []acpv1.SessionUpdate{{ToolCallUpdate: &update}}, func() { call.content = list }
}

// onePlan fails if the session has another plan, since version 1 would replace it.
func (s *bridged) onePlan(c *converter, id PlanID) (remember func()) {
	if s.plan != "" && s.plan != id {
		c.at("plan", func() {
			c.at("planId", func() { c.fail(string(id), "is a second plan, and version 1 has one") })
		})
	}
	return func() { s.plan = id }
}
