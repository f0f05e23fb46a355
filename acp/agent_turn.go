package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
)

// An AgentTurn is a prompt that an agent works on.
type AgentTurn struct {
	*AgentSession
	Prompt []acpv2.ContentBlock
	Meta   json.RawMessage

	id     acpv2.MessageID // of the user's message; the others are derived from it
	ctx    context.Context // ends when the turn is cancelled
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the turn is over
	ending bool          // version 2: the client may know that it is over; guarded by the session's mu
}

// Text returns the text of the prompt. Content that is no text is a placeholder.
func (t *AgentTurn) Text() string { return textV2(t.Prompt...) }

// Say tells the client a piece of what the agent answers.
func (t *AgentTurn) Say(ctx context.Context, text string) error {
	return t.Update(ctx, acpv2.SessionUpdate{AgentMessageChunk: &acpv2.ContentChunk{MessageID: t.id + "-answer", Content: Text(text)}})
}

// Think tells the client a piece of what the agent thinks.
func (t *AgentTurn) Think(ctx context.Context, text string) error {
	return t.Update(ctx, acpv2.SessionUpdate{AgentThoughtChunk: &acpv2.ContentChunk{MessageID: t.id + "-thought", Content: Text(text)}})
}

// ToolCall tells the client about a tool call, a new one or one that it knows.
func (t *AgentTurn) ToolCall(ctx context.Context, m acpv2.ToolCallUpdate) error {
	return t.Update(ctx, acpv2.SessionUpdate{ToolCallUpdate: &m})
}

// prompt answers session/prompt: in version 1 when the turn is over, in version 2
// at once.
func (h *host) prompt(ctx context.Context, id json.RawMessage, m *acpv2.PromptRequest) (any, error) {
	t := &AgentTurn{AgentSession: h.session(m.SessionID), Prompt: m.Prompt, Meta: m.Meta, id: acpv2.MessageID(newID()), done: make(chan struct{})}
	v1 := h.met().Version == 1
	if !v1 { // the request is answered long before the turn is over
		ctx = context.WithoutCancel(ctx)
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.life, func() { t.cancel(errTurnCancelled) })
	context.AfterFunc(t.ctx, func() { stop() })
	if t.AgentSession != nil {
		t.awaitEnding()
	}
	busy := false
	cancelled := h.arrivals.begin(id, func() { busy = t.AgentSession != nil && !t.enter() })
	switch {
	case t.AgentSession == nil:
		t.cancel(nil)
		return nil, sessionNotFound(m.SessionID)
	case busy:
		t.cancel(nil)
		return nil, invalidRequest("the session %q works on a prompt already", m.SessionID)
	case cancelled:
		t.cancel(errTurnCancelled)
	}
	if v1 {
		defer t.leave()
		return t.answerV1()
	}
	answer, err := (&acpv2.PromptResponse{MessageID: t.id}).MarshalJSON()
	if err != nil {
		t.leave()
		return nil, err
	}
	h.after(answer, t.runV2, t.leave)
	return json.RawMessage(answer), nil
}

// awaitEnding waits for the end of a turn before this one that only has to be
// cleared away.
func (t *AgentTurn) awaitEnding() {
	t.mu.Lock()
	before := t.turn
	if before != nil && !before.ending {
		before = nil
	}
	t.mu.Unlock()
	if before != nil {
		<-before.done
	}
}

// enter makes t the turn of its session, unless there is one.
func (t *AgentTurn) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != nil {
		return false
	}
	t.turn = t
	return true
}

func (t *AgentTurn) leave() {
	t.mu.Lock()
	t.turn = nil
	t.mu.Unlock()
	t.cancel(nil)
	close(t.done)
}

// work has the agent work on the prompt, and returns what it says in the end.
func (t *AgentTurn) work() *acpv2.IdleStateUpdate {
	reason, err := t.host.agent.Prompt(t.ctx, t)
	var failure *jsonrpc.Error
	switch {
	case t.ctx.Err() != nil:
		reason, err = acpv2.StopReasonCancelled, nil
	case err == nil && !reason.Known() && !reason.IsExtension():
		err = fmt.Errorf("the agent stopped for the reason %q, which does not exist", reason)
	}
	if err == nil {
		return &acpv2.IdleStateUpdate{StopReason: acpv2.Set(reason)}
	}
	if !errors.As(err, &failure) {
		failure = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()}
	}
	return &acpv2.IdleStateUpdate{
		StopReason: acpv2.Set(acpv2.StopReasonError),
		Error:      acpv2.Set(acpv2.Error{Code: acpv2.ErrorCode(failure.Code), Message: failure.Message, Data: failure.Data}),
	}
}

// answerV1 works on the prompt and answers it.
func (t *AgentTurn) answerV1() (any, error) {
	bridge := t.host.bridge
	if err := bridge.Prompt(t.ID); err != nil {
		return nil, err
	}
	if err := bridge.Accepted(t.ID); err != nil {
		return nil, err
	}
	idle := acpv2.SessionUpdate{StateUpdate: &acpv2.StateUpdate{Idle: t.work()}}
	step, err := bridge.Update(&acpv2.UpdateSessionNotification{SessionID: t.ID, Update: idle})
	switch {
	case err != nil:
		return nil, err
	case step.Answer.Error != nil:
		e := step.Answer.Error
		return nil, &jsonrpc.Error{Code: int(e.Code), Message: e.Message, Data: e.Data}
	}
	return encoded(step.Answer.Result)
}

// runV2 works on the prompt. The client has its answer by then.
func (t *AgentTurn) runV2() {
	defer t.leave()
	say := func(u acpv2.SessionUpdate) {
		t.notify(context.WithoutCancel(t.ctx), &acpv2.UpdateSessionNotification{SessionID: t.ID, Update: u}) // fails only with the connection
	}
	say(acpv2.SessionUpdate{UserMessage: &acpv2.UserMessage{MessageID: t.id, Content: acpv2.Set(t.Prompt)}})
	say(acpv2.SessionUpdate{StateUpdate: &acpv2.StateUpdate{Running: &acpv2.RunningStateUpdate{}}})
	idle := t.work()
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	say(acpv2.SessionUpdate{StateUpdate: &acpv2.StateUpdate{Idle: idle}})
}
