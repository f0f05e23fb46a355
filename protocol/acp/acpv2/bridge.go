package acpv2

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
)

// A Bridge converts the updates of an agent that speaks version 2 for a client that
// speaks version 1, and keeps the state that this needs for each session. An agent
// of version 2 accepts a prompt at once and reports with its state when the work is
// done; a client of version 1 waits for the answer until then.
//
// The program calls Prompt before it forwards a prompt, Accepted or Refused when the
// agent has answered it, and Update for each update, in the order in which they
// arrive. A Bridge is safe for concurrent use. It remembers at most the numbers of
// sessions, messages and tool calls below, and refuses more.
type Bridge struct {
	// opts does not change after NewBridge.
	opts V1Options

	// A session appears with its first prompt or update, and goes with Forget.
	mu       sync.Mutex // guards sessions
	sessions map[SessionID]*bridgeSession
}

// NewBridge returns a bridge. opts may be nil.
func NewBridge(opts *V1Options) *Bridge {
	b := &Bridge{sessions: map[SessionID]*bridgeSession{}}
	if opts != nil {
		b.opts = *opts
	}
	return b
}

// A Step is the outcome of one update: the messages for the client.
type Step struct {
	Updates []*acpv1.SessionNotification // in this order, before Answer
	Answer  *Answer                      // nil if the prompt stays unanswered
	Notes   []*Problem                   // the parts that were left out
	Losses  []*Problem                   // those of the notes that are about values which version 1 cannot express
}

// An Answer answers session/prompt. Exactly one of its fields is set.
type Answer struct {
	Result *acpv1.PromptResponse
	Error  *acpv1.Error
}

// A turn is the state of a prompt.
type turn string

const (
	// The states. A session without a prompt is in the first.
	turnNone turn = "none" // no prompt waits for an answer
	turnSent turn = "sent" // the agent has not answered
	turnOpen turn = "open" // the agent has accepted the prompt
)

// An event moves a turn; turnNext says from where to where.
// An event that turnNext does not have for a state is an error of the caller, or of
// the agent, and changes nothing.
type event string

const (
	// Only the agent can cause the last three.
	eventPrompt   event = "prompt"
	eventAccepted event = "accepted"
	eventRefused  event = "refused"
	eventStopped  event = "stopped"
)

// turnNext is the whole state machine of a prompt.
var turnNext = map[turn]map[event]turn{
	turnNone: {eventPrompt: turnSent},
	turnSent: {eventAccepted: turnOpen, eventRefused: turnNone},
	turnOpen: {eventStopped: turnNone},
}

// The most that a Bridge remembers.
const (
	maxSessions  = 10_000
	maxMessages  = 10_000 // per session
	maxToolCalls = 1_000  // per session, in progress
	maxContents  = 1_000  // per tool call
	maxPlans     = 100    // per session
)

// A bridgeSession is the state of one session.
type bridgeSession struct {
	turn turn
	// messages and calls are bounded by the constants above. Beyond them a
	// conversion fails, because it might repeat a message or break a tool call.
	messages map[MessageID]bool // the messages of which the client has content
	calls    map[ToolCallID]*bridgeCall
	plans    []bridgePlan // in the order in which they came; one, unless the conversion is lossy
}

// A bridgePlan is a plan that the client knows. The id of one of an unknown type is its JSON.
type bridgePlan struct {
	id      PlanID
	entries []acpv1.PlanEntry
}

// A bridgeCall is a tool call in progress that the client knows.
type bridgeCall struct {
	content []acpv1.ToolCallContent // all output so far
}

// session returns the state of a session and creates it if there is none.
// The caller holds b.mu.
func (b *Bridge) session(id SessionID) (*bridgeSession, error) {
	s := b.sessions[id]
	if s == nil {
		if len(b.sessions) >= maxSessions {
			return nil, fmt.Errorf("acp: session %s: the bridge already holds %d sessions: call Forget for ended sessions", id, maxSessions)
		}
		s = &bridgeSession{turn: turnNone, messages: map[MessageID]bool{}, calls: map[ToolCallID]*bridgeCall{}}
		b.sessions[id] = s
	}
	return s, nil
}

// move changes the turn as the event demands, and reports whether turnNext has
// such a move.
func (s *bridgeSession) move(e event) bool {
	next, ok := turnNext[s.turn][e]
	if ok {
		s.turn = next
	}
	return ok
}

// Prompt records that a prompt is sent to the agent. It fails while another prompt
// is unanswered: a session of version 1 has one at a time.
func (b *Bridge) Prompt(id SessionID) error {
	return b.step(id, eventPrompt, "the previous prompt is unanswered")
}

// Accepted records that the agent has accepted the prompt. The client gets no
// message yet.
func (b *Bridge) Accepted(id SessionID) error {
	return b.step(id, eventAccepted, "no prompt is waiting for the agent's answer")
}

// Refused records that the agent has answered the prompt with an error, and returns
// the answer for the client.
func (b *Bridge) Refused(id SessionID, e *Error) (*Answer, error) {
	if err := b.step(id, eventRefused, "no prompt is waiting for the agent's answer"); err != nil {
		return nil, err
	}
	return &Answer{Error: ErrorToV1(e)}, nil
}

// step moves the turn of a session, or fails with the reason and leaves it as it is.
func (b *Bridge) step(id SessionID, e event, reason string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.session(id)
	if err == nil && !s.move(e) {
		err = fmt.Errorf("acp: session %s: %s: %s", id, e, reason)
	}
	return err
}

// Forget drops the state of a session that has ended. It returns the answer to its
// prompt if there is none yet.
func (b *Bridge) Forget(id SessionID) *Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[id]
	delete(b.sessions, id)
	if s == nil || s.turn == turnNone {
		return nil
	}
	return &Answer{Error: &acpv1.Error{Code: acpv1.ErrorCodeInternalError, Message: "the session ended"}}
}

// Update converts an update. If it fails, the state is unchanged, and the program
// must not forward any part of the update.
// The cost is that of converting one update, except for output that is appended to
// a tool call: version 1 needs the whole output again, so n appended parts cost
// n*n/2 parts in all. maxContents bounds n.
func (b *Bridge) Update(n *UpdateSessionNotification) (*Step, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.session(n.SessionID)
	if err != nil {
		return nil, err
	}
	// The state changes last: remember runs only if every message is valid in version 1.
	c := newConverter(&b.opts)
	step := &Step{}
	var updates []acpv1.SessionUpdate
	var remember func()
	c.at("update", func() { updates, remember = s.update(c, &n.Update, step) })
	var messages []acpv1.Message
	for _, u := range updates {
		m := &acpv1.SessionNotification{SessionID: n.SessionID, Update: u, Meta: n.Meta, Extra: n.Extra}
		step.Updates = append(step.Updates, m)
		messages = append(messages, m)
	}
	if err := c.finish(messages...); err != nil {
		return nil, err
	}
	step.Notes, step.Losses = c.notes, c.losses
	if c.Carry && c.Lossy {
		if err := carryUpdate(n, step); err != nil {
			return nil, err
		}
	}
	if remember != nil {
		remember()
	}
	return step, nil
}

// update returns the updates for the client, and a function that changes the state.
// The caller runs it only if the conversion had no problems.
func (s *bridgeSession) update(c *converter, m *SessionUpdate, step *Step) (updates []acpv1.SessionUpdate, remember func()) {
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
	case m.PlanUpdate != nil:
		return s.plan(c, m.PlanUpdate)
	}

	if v := c.update(m); v != nil {
		updates = append(updates, *v)
	}

	// A whole message that comes after its first chunk would say it twice.
	if chunk := cmp.Or(m.UserMessageChunk, m.AgentMessageChunk, m.AgentThoughtChunk); chunk != nil {
		remember = func() { s.seen(chunk.MessageID) }
	}
	return updates, remember
}

// idle answers the prompt if the work for it is done.
func (s *bridgeSession) idle(c *converter, m *IdleStateUpdate, step *Step) (remember func()) {
	reason, stopped := m.StopReason.Get()
	switch {
	// An agent may become idle without a prompt, after work that it began itself.
	case s.turn != turnOpen:
		c.idle(m)
		return nil
	case !stopped:
		c.loseAt("stopReason", "", "is missing, but a prompt waits for it")
	}
	c.background(m.Background)
	step.Answer = answer(reason, m)
	return func() { s.move(eventStopped) }
}

// answer returns the answer that a stop reason means to a client of version 1. An
// unknown reason is an error, never a success.
func answer(reason StopReason, m *IdleStateUpdate) *Answer {
	// The words of version 1 are a part of those of version 2.
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
	return &Answer{Error: &acpv1.Error{Code: acpv1.ErrorCodeInternalError, Message: "the agent stopped for a reason unknown to version 1", Data: data}}
}

// whole converts a whole message to chunks, if the client has no part of it yet:
// version 1 can neither replace nor clear a message.
// A message without content is a problem in lossy mode as well: the client would go
// on showing text that the agent has withdrawn.
func (s *bridgeSession) whole(c *converter, id MessageID, content Optional[[]ContentBlock], meta json.RawMessage, chunk func(*acpv1.ContentChunk) acpv1.SessionUpdate) (updates []acpv1.SessionUpdate, remember func()) {
	blocks, ok := content.Get()
	switch {
	case !ok || len(blocks) == 0:
		c.failAt("content", "", "is missing or empty, and version 1 cannot clear a message")
	case s.messages[id]:
		c.loseAt("messageId", string(id), "is a message the client already has, and version 1 cannot replace it")
		return nil, nil
	// Past the bound it is safer to refuse than to repeat a message.
	case len(s.messages) >= maxMessages:
		c.failAt("messageId", string(id), "may be a message the client already has: there were too many to remember")
	}
	for _, block := range each(c, "content", blocks, c.block) {
		updates = append(updates, chunk(&acpv1.ContentChunk{Content: block, MessageID: Set(id), Meta: c.keepMeta(meta)}))
	}
	return updates, func() { s.seen(id) }
}

// seen records that the client has content of a message.
func (s *bridgeSession) seen(id MessageID) {
	if len(s.messages) < maxMessages {
		s.messages[id] = true
	}
}

// toolCall converts a change to a tool call. The first change with a title becomes
// the announcement that version 1 wants.
func (s *bridgeSession) toolCall(c *converter, m *ToolCallUpdate) ([]acpv1.SessionUpdate, func()) {
	v1 := c.toolCall(m)
	call := s.calls[m.ToolCallID]
	remember := func() {
		if call == nil && len(s.calls) < maxToolCalls {
			call = &bridgeCall{}
			s.calls[m.ToolCallID] = call
		}
		if list, ok := v1.Content.Get(); ok && call != nil {
			call.content = list
		}
		// A call that has ended cannot change any more, and need not be remembered.
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

// toolContent appends to the output of a tool call. Version 1 can only replace the
// output as a whole, so the update repeats all of it.
func (s *bridgeSession) toolContent(c *converter, m *ToolCallContentChunk) (updates []acpv1.SessionUpdate, remember func()) {
	call := s.calls[m.ToolCallID]
	if call == nil {
		c.failAt("toolCallId", string(m.ToolCallID), "is not a tool call in progress")
		return nil, nil
	}
	if len(call.content) >= maxContents {
		c.failAt("content", "", "exceeds the output remembered for one tool call")
		return nil, nil
	}
	var item acpv1.ToolCallContent
	c.at("content", func() { item, _ = c.toolContent(&m.Content) })
	// The capacity is cut, so that a failed update leaves the list of the call alone.
	list := append(call.content[:len(call.content):len(call.content)], item)
	update := acpv1.ToolCallUpdate{ToolCallID: m.ToolCallID, Content: Set(list), Meta: m.Meta, Extra: m.Extra}
	return []acpv1.SessionUpdate{{ToolCallUpdate: &update}}, func() { call.content = list }
}

// plan converts a plan. Version 1 has one: a second one fails. In lossy mode the client gets
// the steps of all plans as one, in the order in which the plans came.
func (s *bridgeSession) plan(c *converter, m *PlanUpdate) ([]acpv1.SessionUpdate, func()) {
	out := c.plan(m)
	now := bridgePlan{entries: out.Plan.Entries}
	if m.Plan.Items != nil {
		now.id = m.Plan.Items.PlanID
	} else if m.Plan.Unknown != nil {
		id, _ := m.Plan.Unknown.Member("planId")
		now.id = PlanID(id)
	}

	plans := slices.Clone(s.plans)
	at := slices.IndexFunc(plans, func(p bridgePlan) bool { return p.id == now.id })

	// A plan that is known already is replaced in its place.
	switch {
	case at >= 0:
		plans[at] = now
	case len(plans) >= maxPlans:
		c.failAt("plan", "", "exceeds the number of plans remembered for a session")
	default:
		if len(plans) > 0 {
			c.at("plan", func() {
				c.loseAt("planId", string(now.id), "is a second plan, but version 1 has only one")
			})
		}
		plans = append(plans, now)
	}

	out.Plan.Entries = []acpv1.PlanEntry{}
	for _, p := range plans {
		out.Plan.Entries = append(out.Plan.Entries, p.entries...)
	}
	return []acpv1.SessionUpdate{*out}, func() { s.plans = plans }
}
