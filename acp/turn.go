package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
)

// Why what belongs to a turn ends.
var (
	errTurnCancelled = errors.New("the turn was cancelled")
	errTurnOver      = errors.New("the turn is over")
)

// ErrBusy is why a prompt fails while the one before it is not done.
var ErrBusy = errors.New("the turn before it is not over")

// A Result is how a turn ended.
type Result struct {
	StopReason StopReason

	// The message that said so. Exactly one is set.
	V1 *acpv1.PromptResponse
	V2 *acpv2.IdleStateUpdate
}

// A Turn is a prompt and what the agent does about it.
type Turn struct {
	session *Session
	queue   *queue
	sent    chan struct{} // closed when the prompt was sent, so that what is sent now comes after it
	done    chan struct{} // closed when the turn is over

	// life ends when the turn is cancelled or over, and with it what the agent
	// has asked for meanwhile.
	life   context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex  // guards what follows
	hangUp   func()      // gives up waiting for the answer to the prompt; nil until it was sent
	unwatch  func() bool // ends the watch over the caller's context; may be nil
	over     bool
	told     chan struct{} // closed when the agent was told of the cancellation; nil if there is none
	result   Result
	err      error
	accepted bool                   // version 2: the agent has taken the prompt
	running  bool                   // version 2: it has said that it works
	idle     *acpv2.IdleStateUpdate // version 2: it has stopped, and not gone on since
}

// Prompt gives the agent something to do and returns at once. When ctx ends the
// turn is cancelled, and goes on until the agent has stopped.
//
// The updates must be taken, or waived with [Turn.Wait]: an agent whose updates
// nobody takes has to wait.
func (s *Session) Prompt(ctx context.Context, prompt ...acpv2.ContentBlock) (*Turn, error) {
	params, err := s.promptParams(prompt)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acp: session/prompt: %w", context.Cause(ctx))
	}
	t := &Turn{session: s, queue: &queue{gate: s.client.gate}, sent: make(chan struct{}), done: make(chan struct{})}
	t.life, t.cancel = context.WithCancelCause(context.Background())
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
	s.mu.Unlock()
	t.send(params)
	if ctx.Done() != nil {
		t.watch(ctx)
	}
	return t, nil
}

// send sends the prompt. There is one at a time in a session, so it need not wait
// for room.
func (t *Turn) send(params json.RawMessage) {
	c := t.session.client
	hangUp, err := c.conn.Begin(acpv1.MethodSessionPrompt, params, t.answered)
	close(t.sent)
	if err != nil {
		t.finish(Result{}, c.explain(acpv1.MethodSessionPrompt, err))
		return
	}
	t.mu.Lock()
	over := t.over
	t.hangUp = hangUp
	t.mu.Unlock()
	if over {
		hangUp()
	}
}

// promptParams returns the params of session/prompt. Text, which is most of what
// is ever sent, needs no conversion.
func (s *Session) promptParams(prompt []acpv2.ContentBlock) (json.RawMessage, error) {
	request := &acpv2.PromptRequest{SessionID: s.ID, Prompt: prompt}
	if slices.ContainsFunc(prompt, func(b acpv2.ContentBlock) bool {
		return b.Text == nil || !b.Text.Annotations.IsAbsent() || b.Text.Meta != nil || b.Text.Extra != nil
	}) {
		m, err := s.client.outgoing(request)
		if err != nil {
			return nil, err
		}
		return m.MarshalJSON()
	}
	return request.MarshalJSON()
}

// watch cancels the turn when ctx ends.
func (t *Turn) watch(ctx context.Context) {
	unwatch := context.AfterFunc(ctx, func() { t.abort() })
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		unwatch()
	} else {
		t.unwatch = unwatch
	}
}

// answered takes the answer to the prompt. In version 1 that is the end of the turn.
func (t *Turn) answered(raw json.RawMessage, err error) {
	c := t.session.client
	if err != nil {
		t.finish(Result{}, c.explain(acpv1.MethodSessionPrompt, err))
		return
	}
	answer, err := c.readAnswer(acpv1.MethodSessionPrompt, raw)
	if err != nil {
		if c.profile.Version == 1 || !acceptedAnyhow(raw) {
			t.finish(Result{}, err)
			return
		}
		c.noteProblem(err)
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

// acceptedAnyhow reports whether an answer to a prompt of version 2 is one of an
// earlier draft, which has no members.
func acceptedAnyhow(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(raw, &members) == nil && members["messageId"] == nil
}

// accept notes that the agent has taken the prompt. It may say so after it has
// stopped.
func (t *Turn) accept() {
	t.mu.Lock()
	t.accepted = true
	idle := t.idle
	t.mu.Unlock()
	if idle != nil {
		t.stopped(idle)
	}
}

// update takes in an update of the turn.
func (t *Turn) update(u *Update, size int) {
	if !t.queue.put(u, size) {
		t.abort()
		t.finish(Result{}, &Fault{Code: FaultFlood, Text: fmt.Sprintf("the agent sends updates faster than they are taken, and %d MiB of them wait", maxBehind>>20)})
		return
	}
	if u.V2 != nil && u.V2.Update.StateUpdate != nil {
		t.state(u.V2.Update.StateUpdate)
	}
}

// state follows the state that an agent of version 2 is in.
func (t *Turn) state(m *acpv2.StateUpdate) {
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
		t.stopped(idle)
	}
}

// stopped ends the turn as an agent of version 2 says.
func (t *Turn) stopped(m *acpv2.IdleStateUpdate) {
	result := Result{StopReason: m.StopReason.Or(""), V2: m}
	switch e, ok := m.Error.Get(); {
	case result.StopReason == acpv2.StopReasonError && ok:
		t.finish(result, fmt.Errorf("acp: the turn failed: %w", &jsonrpc.Error{Code: int(e.Code), Message: e.Message, Data: e.Data}))
	case result.StopReason == acpv2.StopReasonError:
		t.finish(result, errors.New("acp: the turn failed, and the agent does not say why"))
	case result.StopReason == "":
		t.finish(result, &Fault{Code: FaultMalformed, Text: "the agent stopped working on a prompt without a stop reason"})
	default:
		t.finish(result, nil)
	}
}

// finish ends the turn, once.
func (t *Turn) finish(r Result, err error) {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.over, t.result, t.err = true, r, err
	if t.unwatch != nil {
		t.unwatch()
	}
	hangUp := t.hangUp
	t.mu.Unlock()
	s := t.session
	s.mu.Lock()
	if s.turn == t {
		s.turn = nil
	}
	s.mu.Unlock()
	t.cancel(errTurnOver)
	if hangUp != nil {
		hangUp()
	}
	close(t.done)
	t.queue.close() // last: it wakes those who take the updates, and who then find the turn done
}

// Updates returns the updates of the turn, as they come, until it is over. They
// can be had once. Who stops early waives the rest.
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

// Wait waits for the end of the turn and returns how it ended. Updates that were
// not taken are thrown away. A turn that ends for another reason than success is
// no error; see StopReason.Success.
func (t *Turn) Wait() (Result, error) {
	t.queue.drain()
	<-t.done
	return t.result, t.err
}

// Text takes the updates and returns what the agent said in them, one message
// after the other, with how the turn ended.
func (t *Turn) Text() (string, Result, error) {
	var order []string
	said := map[string]*strings.Builder{}
	for u := range t.Updates() {
		if u.Kind() != KindAgentMessage {
			continue
		}
		id, whole := u.Message()
		if said[id] == nil {
			said[id] = &strings.Builder{}
			order = append(order, id)
		}
		if whole {
			said[id].Reset()
		}
		said[id].WriteString(u.Text())
	}
	var all strings.Builder
	for _, id := range order {
		all.WriteString(said[id].String())
	}
	r, err := t.Wait()
	return all.String(), r, err
}

// Done is closed when the turn is over.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Cancel asks the agent to stop the turn that runs, if any, and returns when it was
// told. What it has asked for and still asks for in this turn is answered as
// cancelled. The turn is over when the agent has stopped, or does not within
// [Options.CancelGrace]. It is safe to call at any time and more than once.
func (s *Session) Cancel(ctx context.Context) error {
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	told := t.abort()
	select {
	case <-told:
		return nil
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("acp: session/cancel: %w", context.Cause(ctx))
	}
}

// abort cancels the turn, and returns what is closed when the agent was told.
func (t *Turn) abort() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.told != nil {
		return t.told // nil for a turn that is over: nobody has to be told
	}
	t.told = make(chan struct{})
	t.cancel(errTurnCancelled)
	work := &t.session.client.work
	work.Go(func() {
		defer close(t.told)
		if t.wasSent() {
			t.tellCancelled()
		}
	})
	work.Go(t.giveUp)
	return t.told
}

// settle waits until the agent was told, if the turn was cancelled: what it has
// asked for is answered after that, or it would take the answer for one of a turn
// that goes on.
func (t *Turn) settle(ctx context.Context) {
	t.mu.Lock()
	told := t.told
	t.mu.Unlock()
	if told == nil {
		return
	}
	select {
	case <-told:
	case <-ctx.Done():
	}
}

// wasSent waits until the prompt goes out, because a cancellation that overtakes
// its prompt is lost. It reports false if the turn is over before.
func (t *Turn) wasSent() bool {
	select {
	case <-t.sent:
		return true
	default:
	}
	select {
	case <-t.sent:
		return true
	case <-t.done:
		return false
	}
}

// tellCancelled tells the agent that the turn is cancelled.
func (t *Turn) tellCancelled() {
	c := t.session.client
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.CancelGrace)
	defer cancel()
	m := &acpv1.CancelNotification{SessionID: acpv1.SessionID(t.session.ID)} // the same in both versions
	params, err := m.MarshalJSON()
	if err == nil {
		err = c.conn.Notify(ctx, acpv1.MethodSessionCancel, json.RawMessage(params))
	}
	if err != nil {
		c.noteProblem(c.explain(acpv1.MethodSessionCancel, err))
	}
}

// giveUp ends the turn if the agent does not in time.
func (t *Turn) giveUp() {
	c := t.session.client
	timer := time.NewTimer(c.opts.CancelGrace)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
		t.finish(Result{}, c.silent(fmt.Sprintf("the turn was cancelled, and goes on after %v", c.opts.CancelGrace), errTurnCancelled))
	}
}
