package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// An AgentTurn is a prompt that an agent works on. It embeds its session, whose
// methods send updates and ask the client. It is valid until Agent.Prompt returns.
type AgentTurn struct {
	*AgentSession
	// Prompt is the user's message, and Meta the _meta of the request.
	Prompt []acpv2.ContentBlock
	Meta   json.RawMessage

	id     acpv2.MessageID // of the user's message; the others are derived from it
	ctx    context.Context // ends when the turn is cancelled or the client is gone
	cancel context.CancelCauseFunc
	before <-chan struct{} // closed when the turn before this one is over; may be nil
	done   chan struct{}   // closed when the turn is over
	ending bool            // version 2: the client may know that it is over; guarded by the session's mu
}

// Text returns the text of the prompt. Content that is not text is a placeholder
// with its type.
func (t *AgentTurn) Text() string { return textV2(t.Prompt...) }

// Say sends the client a piece of the agent's message.
func (t *AgentTurn) Say(ctx context.Context, text string) error {
	return t.Update(ctx, acpv2.SessionUpdate{AgentMessageChunk: &acpv2.ContentChunk{MessageID: t.id + "-answer", Content: Text(text)}})
}

// Think sends the client a piece of the agent's thoughts.
func (t *AgentTurn) Think(ctx context.Context, text string) error {
	return t.Update(ctx, acpv2.SessionUpdate{AgentThoughtChunk: &acpv2.ContentChunk{MessageID: t.id + "-thought", Content: Text(text)}})
}

// ToolCall sends the client a new tool call or the change of an earlier one.
func (t *AgentTurn) ToolCall(ctx context.Context, m acpv2.ToolCallUpdate) error {
	return t.Update(ctx, acpv2.SessionUpdate{ToolCallUpdate: &m})
}

// beginTurn reads session/prompt and makes it the turn of its session. It runs in
// the order of arrival, so a cancellation that comes later finds the turn.
func (a *agentConn) beginTurn(r jsonrpc.Request) (*AgentTurn, error) {
	client, err := a.initialized()
	if err != nil {
		return nil, err
	}
	_, request, err := client.readRequest(r)
	if err != nil {
		return nil, err
	}
	m := request.(*acpv2.PromptRequest)
	s := a.session(m.SessionID)
	switch {
	case m.SessionID == "" && client.profile.Version == 1:
		return nil, invalidParams(errors.New("sessionId is required"))
	case s == nil:
		return nil, sessionNotFound(m.SessionID)
	}
	t := &AgentTurn{AgentSession: s, Prompt: m.Prompt, Meta: m.Meta, id: acpv2.MessageID(newID()), done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(a.life)
	if !t.enter() {
		t.cancel(nil)
		return nil, invalidRequest("session %q already works on a prompt", m.SessionID)
	}
	return t, nil
}

// enter makes t the turn of its session. It reports false if another turn runs. A
// turn whose end the client may know already does not count: t begins after it.
// This matters in version 2 only, where the client learns of the end by a
// notification: its next prompt may arrive before the goroutine of the old turn has
// called leave. There is at most one such predecessor, since its successor is not
// ending when the next prompt comes.
func (t *AgentTurn) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != nil {
		if !t.turn.ending {
			return false
		}
		t.before = t.turn.done
	}
	t.turn = t
	return true
}

// leave ends the turn. The session may have its next turn already; see enter.
func (t *AgentTurn) leave() {
	t.mu.Lock()
	if t.turn == t {
		t.turn = nil
	}
	t.mu.Unlock()
	t.cancel(nil)
	close(t.done)
}

// run answers session/prompt: in version 1 when the turn is over, in version 2 at
// once, and then the turn runs after the response. ctx is that of the request,
// whose cancellation cancels a turn of version 1.
func (t *AgentTurn) run(ctx context.Context) (any, error) {
	if t.before != nil {
		<-t.before
	}
	if t.client.profile.Version == 1 {
		defer t.leave()
		stop := context.AfterFunc(ctx, func() { t.cancel(errTurnCancelled) })
		defer stop()
		return t.answerV1()
	}
	// After gets an error if the response could not be sent; the client then knows
	// no turn, and none is started.
	result, err := encoded(&acpv2.PromptResponse{MessageID: t.id})
	return jsonrpc.Answer{Result: result, After: func(err error) {
		if err != nil {
			t.leave()
			return
		}
		t.conn.work.Go(t.runV2)
	}}, err
}

// work calls Agent.Prompt and returns the idle state with which the turn ends.
// A cancelled turn is reported as cancelled whatever Prompt returns, because the
// protocol requires it; an invalid stop reason is the agent's own error.
func (t *AgentTurn) work() *acpv2.IdleStateUpdate {
	reason, err := t.conn.agent.Prompt(t.ctx, t)
	var failure *jsonrpc.Error
	switch {
	case t.ctx.Err() != nil:
		reason, err = acpv2.StopReasonCancelled, nil
	case err == nil && !reason.Known() && !reason.IsExtension():
		err = fmt.Errorf("unknown stop reason %q", reason)
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

// answerV1 works on the prompt and returns the answer of version 1.
// The bridge follows the same steps as in version 2 (prompt, acceptance, updates,
// idle) and makes the answer to session/prompt out of the idle state.
func (t *AgentTurn) answerV1() (any, error) {
	bridge := t.client.bridge
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

// runV2 works on the prompt, after the response to it was sent.
// The order of notifications is the protocol's: the user's message, running, the
// agent's updates, idle. ending is set before idle is sent, because the client may
// send its next prompt as soon as it reads idle.
func (t *AgentTurn) runV2() {
	defer t.leave()
	// A cancelled turn still has to report its end.
	say := func(u acpv2.SessionUpdate) {
		t.client.notify(context.WithoutCancel(t.ctx), &acpv2.UpdateSessionNotification{SessionID: t.ID, Update: u}) // fails only with the connection
	}
	say(acpv2.SessionUpdate{UserMessage: &acpv2.UserMessage{MessageID: t.id, Content: acpv2.Set(t.Prompt)}})
	say(acpv2.SessionUpdate{StateUpdate: &acpv2.StateUpdate{Running: &acpv2.RunningStateUpdate{}}})
	idle := t.work()
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	say(acpv2.SessionUpdate{StateUpdate: &acpv2.StateUpdate{Idle: idle}})
}
