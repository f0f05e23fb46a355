package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// The causes with which the context of a turn ends.
var (
	errTurnCancelled = errors.New("the turn was cancelled")
	errTurnOver      = errors.New("the turn is over")
)

// ErrBusy is the error of a prompt in a session whose turn is not over.
var ErrBusy = errors.New("the previous turn is not over")

// A Result says how a turn ended.
type Result struct {
	StopReason StopReason

	// The message that ended the turn. Exactly one is set.
	V1 *acpv1.PromptResponse
	V2 *acpv2.IdleStateUpdate
}

// A Turn is a prompt and the agent's work on it. It begins with Session.Prompt and
// is over exactly once: with the agent's result, its failure or its end, the end of
// the session, or CancelGrace after a cancellation. It is safe for concurrent use,
// but only one goroutine can usefully take the updates.
type Turn struct {
	session *Session
	queue   *queue
	sent    chan struct{} // closed when the prompt was sent: later frames follow it
	done    chan struct{} // closed when the turn is over

	// life ends when the turn is cancelled or over. It limits the requests that
	// the agent makes during the turn.
	life   context.Context
	cancel context.CancelCauseFunc

	// mu is never held while a lock of the session or the client is taken. result
	// and err do not change after done is closed, and are then read without mu.
	mu         sync.Mutex  // guards the fields below
	abandon    func()      // stops waiting for the answer to the prompt; nil until it was sent
	unwatch    func() bool // stops watching the caller's context; may be nil
	over       bool
	cancelSent chan struct{} // closed when session/cancel was sent; nil if the turn is not cancelled
	result     Result
	err        error
	accepted   bool                   // version 2: the agent has accepted the prompt
	running    bool                   // version 2: the agent has said that it runs
	idle       *acpv2.IdleStateUpdate // version 2: the last state if that is idle
}

// Prompt sends a prompt and returns at once. When ctx ends, the turn is cancelled
// and goes on until the agent has stopped.
//
// The caller must take the updates, or waive them with [Turn.Wait]: while updates
// wait to be taken, the agent has to wait.
func (s *Session) Prompt(ctx context.Context, prompt ...acpv2.ContentBlock) (*Turn, error) {
	var m acpv2.Message = &acpv2.PromptRequest{SessionID: s.ID, Prompt: prompt}
	var err error
	if slices.ContainsFunc(prompt, needsConversion) {
		if m, err = s.client.outgoing(m); err != nil {
			return nil, err
		}
	}

	params, err := m.MarshalJSON()
	if err != nil {
		return nil, err
	}

	if ctx.Err() != nil {
		return nil, fmt.Errorf("acp: session/prompt: %w", context.Cause(ctx))
	}

	t := &Turn{session: s, queue: &queue{backlog: s.client.backlog}, sent: make(chan struct{}), done: make(chan struct{})}
	t.life, t.cancel = context.WithCancelCause(context.Background())

	// The turn is registered before its prompt is sent, so that two turns cannot overlap.
	s.mu.Lock()
	if err = s.ended; err == nil && s.turn != nil {
		err = fmt.Errorf("acp: session %q: %w", s.ID, ErrBusy)
	}
	if err != nil {
		s.mu.Unlock()
		t.cancel(err)
		return nil, err
	}
	s.turn = t
	s.calls = ToolCalls{}
	s.mu.Unlock()

	t.send(params)
	if ctx.Done() != nil {
		t.watch(ctx)
	}
	return t, nil
}

// needsConversion reports whether a block may differ between the versions. Plain
// text does not; leaving out its conversion keeps BenchmarkPrompts above half the
// speed of a bare loop.
func needsConversion(b acpv2.ContentBlock) bool {
	return b.Text == nil || !b.Text.Annotations.IsAbsent() || b.Text.Meta != nil || b.Text.Extra != nil
}

// send sends the prompt. A session has one turn at a time, so the prompt need not
// wait for room in the write queue.
// The answer may arrive, and end the turn, before Begin returns; the turn is then
// abandoned here, because finish had nothing to abandon yet.
func (t *Turn) send(params json.RawMessage) {
	c := t.session.client
	// The channel is closed in any case: a cancellation waits for it.
	abandon, err := c.conn.Begin(acpv1.MethodSessionPrompt, params, t.takeAnswer)
	close(t.sent)
	if err != nil {
		t.finish(Result{}, c.explain(acpv1.MethodSessionPrompt, err))
		return
	}
	t.mu.Lock()
	over := t.over
	t.abandon = abandon
	t.mu.Unlock()
	if over {
		abandon()
	}
}

// watch cancels the turn when ctx ends.
func (t *Turn) watch(ctx context.Context) {
	unwatch := context.AfterFunc(ctx, func() { t.requestCancel() })
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		unwatch()
	} else {
		t.unwatch = unwatch
	}
}

// takeAnswer handles the answer to the prompt. In version 1 it ends the turn.
// In version 2 it means that the agent accepted the prompt; the turn goes on until
// the agent reports that it is idle, and a goroutine watches for the end of the
// connection, which no call in flight would notice.
func (t *Turn) takeAnswer(raw json.RawMessage, err error) {
	c := t.session.client
	if err != nil {
		t.finish(Result{}, c.explain(acpv1.MethodSessionPrompt, err))
		return
	}
	answer, err := c.readAnswer(acpv1.MethodSessionPrompt, raw)
	if err != nil {
		if c.profile.Version == 1 || !draftAnswer(raw) {
			t.finish(Result{}, err)
			return
		}
		c.reportProblem(err)
	}
	if m, ok := answer.(*acpv1.PromptResponse); ok {
		t.finish(Result{StopReason: StopReason(m.StopReason), V1: m}, nil)
		return
	}
	t.accept()
	c.work.Go(func() {
		select {
		case <-t.done:
		case <-c.conn.Done():
			t.finish(Result{}, c.ended(acpv1.MethodSessionPrompt, c.conn.Err()))
		}
	})
}

// draftAnswer reports whether an answer to a prompt of version 2 is that of an
// earlier draft, which has no messageId.
func draftAnswer(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(raw, &members) == nil && members["messageId"] == nil
}

// accept records that the agent has accepted the prompt. The answer that says so
// may come after the agent has stopped.
func (t *Turn) accept() {
	t.mu.Lock()
	t.accepted = true
	idle := t.idle
	t.mu.Unlock()
	if idle != nil {
		t.finishIdle(idle)
	}
}

// update queues an update of the turn, and follows the agent's state.
// The only update that cannot be queued is one beyond maxBehind; the turn then
// fails instead of using more memory.
func (t *Turn) update(u *Update, size int) {
	if !t.queue.put(u, size) {
		t.requestCancel()
		t.finish(Result{}, &Fault{Code: FaultFlood, Text: fmt.Sprintf("the agent sends updates faster than they are read; %d MiB are waiting", maxBehind>>20)})
		return
	}
	// The update is queued first: all updates of a turn come before its result.
	if u.V2 != nil && u.V2.Update.StateUpdate != nil {
		t.setState(u.V2.Update.StateUpdate)
	}
}

// setState follows the state of an agent of version 2. Idle without a reason counts
// only after running: an agent may report that it is idle before it begins.
func (t *Turn) setState(m *acpv2.StateUpdate) {
	t.mu.Lock()
	switch {
	case m.Running != nil || m.RequiresAction != nil:
		t.running, t.idle = true, nil
	case m.Idle != nil && (t.running || m.Idle.StopReason.IsSet()):
		t.idle = m.Idle
	}
	idle := t.idle
	if !t.accepted {
		idle = nil
	}
	t.mu.Unlock()
	if idle != nil {
		t.finishIdle(idle)
	}
}

// finishIdle ends the turn of an agent of version 2 that became idle.
func (t *Turn) finishIdle(m *acpv2.IdleStateUpdate) {
	result := Result{StopReason: m.StopReason.Or(""), V2: m}
	switch e, ok := m.Error.Get(); {
	case result.StopReason == acpv2.StopReasonError && ok:
		t.finish(result, fmt.Errorf("acp: the turn failed: %w", &jsonrpc.Error{Code: int(e.Code), Message: e.Message, Data: e.Data}))
	case result.StopReason == acpv2.StopReasonError:
		t.finish(result, errors.New("acp: the turn failed without a reason from the agent"))
	case result.StopReason == "":
		t.finish(result, &Fault{Code: FaultMalformed, Text: "the agent stopped working on a prompt without a stop reason"})
	default:
		t.finish(result, nil)
	}
}

// finish ends the turn, once.
// The order of its steps is part of the guarantees: the session is free for the
// next prompt before done is closed, and done is closed before the reader of the
// updates learns that there are no more.
func (t *Turn) finish(r Result, err error) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.over = true
	t.result = r
	t.err = err
	if t.unwatch != nil {
		t.unwatch()
	}
	abandon := t.abandon
	t.mu.Unlock()
	s := t.session
	s.mu.Lock()
	if s.turn == t {
		s.turn = nil
	}
	s.mu.Unlock()
	t.cancel(errTurnOver)
	if abandon != nil {
		abandon()
	}
	close(t.done)
	t.queue.close() // last: it wakes the reader of the updates, which then finds the turn done
}

// Updates yields the updates of the turn, as they come, until it is over. Each
// update is yielded once. Stopping early waives the rest.
func (t *Turn) Updates() iter.Seq[*Update] {
	return func(yield func(*Update) bool) {
		for {
			batch := t.queue.take()
			if len(batch) == 0 {
				return
			}
			for _, u := range batch {
				if !yield(u) {
					t.queue.drain()
					return
				}
			}
		}
	}
}

// Wait waits for the end of the turn and returns its result. Updates that were not
// taken are discarded. A stop reason other than success is not an error; see
// StopReason.Success.
func (t *Turn) Wait() (Result, error) {
	t.queue.drain()
	<-t.done
	return t.result, t.err
}

// Text takes the updates and returns the text of the agent's messages, each on lines
// of its own, and the result of the turn.
func (t *Turn) Text() (string, Result, error) {
	var text Transcript
	for u := range t.Updates() {
		text.Add(u)
	}
	r, err := t.Wait()
	return text.String(), r, err
}

// Done is closed when the turn is over.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Cancel asks the agent to stop the turn of the session, if there is one, and
// returns when session/cancel was sent. Requests that the agent makes in this turn
// are answered as cancelled. The turn is over when the agent has stopped, or after
// [Options.CancelGrace]. It is safe to call at any time and more than once.
func (s *Session) Cancel(ctx context.Context) error {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	select {
	case <-t.requestCancel():
		return nil
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("acp: session/cancel: %w", context.Cause(ctx))
	}
}

// requestCancel cancels the turn. It returns the channel that is closed when
// session/cancel was sent, which is after the prompt: a cancellation that overtakes
// its prompt is lost. The channel is nil if the turn was over.
// The first call starts two goroutines: one sends the cancellation, the other gives
// the turn up after CancelGrace. Later calls return the same channel.
func (t *Turn) requestCancel() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.cancelSent != nil {
		return t.cancelSent
	}
	t.cancelSent = make(chan struct{})
	t.cancel(errTurnCancelled)
	work := &t.session.client.work
	work.Go(func() {
		defer close(t.cancelSent)
		<-t.sent
		t.sendCancel()
	})
	work.Go(t.giveUp)
	return t.cancelSent
}

// awaitCancel waits until session/cancel was sent, if the turn is cancelled. A
// request of the agent is answered after that: an answer that comes before belongs,
// to the agent, to a turn that goes on.
func (t *Turn) awaitCancel(ctx context.Context) {
	t.mu.Lock()
	sent := t.cancelSent
	t.mu.Unlock()
	if sent == nil {
		return
	}
	select {
	case <-sent:
	case <-ctx.Done():
	}
}

// sendCancel sends session/cancel.
// It has a deadline of its own, since the caller's context may be the one that
// ended.
func (t *Turn) sendCancel() {
	c := t.session.client
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.CancelGrace)
	defer cancel()
	m := &acpv1.CancelNotification{SessionID: t.session.ID} // the same in both versions
	params, err := m.MarshalJSON()
	if err == nil {
		err = c.conn.Notify(ctx, acpv1.MethodSessionCancel, json.RawMessage(params))
	}
	if err != nil {
		c.reportProblem(c.explain(acpv1.MethodSessionCancel, err))
	}
}

// giveUp ends the turn if the agent does not stop in time.
func (t *Turn) giveUp() {
	c := t.session.client
	timer := time.NewTimer(c.opts.CancelGrace)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
		t.finish(Result{}, c.silent(fmt.Sprintf("the cancelled turn did not end within %v", c.opts.CancelGrace), errTurnCancelled))
	}
}
