package jsonrpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
)

// read is the goroutine that reads, and that runs the handlers of
// notifications with ctx.
func (c *Conn) read(ctx context.Context) {
	defer close(c.inputDone)
	ctx = context.WithValue(ctx, handlerKey{}, c)
	c.reader = goroutineID()
	for {
		f, err := c.in.Next()
		var problem *Problem
		if err != nil && !errors.As(err, &problem) {
			c.end(closedBy(err))
			c.inputEnded()
			return
		}
		if c.opts.Tap != nil {
			c.busy.Store(true)
			c.opts.Tap(In, f)
			c.busy.Store(false)
		}
		switch {
		case c.closed.Load():
			// It is read only so that the other side can write, and end.
		case problem != nil:
			c.refuse(ctx, problem, salvage(f.Raw), nil)
		case f.Raw[0] == '[':
			c.batch(ctx, f.Raw)
		default:
			c.message(ctx, f.Raw, nil)
		}
	}
}

// message handles one message, of a batch if b is not nil.
func (c *Conn) message(ctx context.Context, raw []byte, b *batch) {
	m, problem := parseMessage(raw)
	if problem == nil {
		problem = cmp.Or(checkNames("params", m.params), checkNames("result", m.result))
	}
	switch {
	case problem != nil:
		c.refuse(ctx, problem, m, b)
	case m.isAnswer():
		c.answered(m, raw)
	case m.id != nil:
		c.request(ctx, m, len(raw), b)
	case m.method == CancelMethod:
		c.cancel(m)
	case c.opts.Notification != nil:
		c.busy.Store(true)
		c.opts.Notification(ctx, c, Request{Method: m.method, Params: m.params})
		c.busy.Store(false)
	}
}

// refuse reports a problem and tells whoever waits for the message: the caller
// that it answers, or the other side if it is a request.
func (c *Conn) refuse(ctx context.Context, problem *Problem, m message, b *batch) {
	c.report(problem)
	failure := &Error{Code: problem.rpcCode(), Message: problem.Text}
	switch {
	case !m.isAnswer() && m.id != nil:
		c.send(ctx, Response{ID: m.id, Error: failure}, b)
	case !m.isAnswer():
		// Nobody waits for the answer to a notification.
	case m.id != nil:
		c.settle(string(m.id), answer{err: problem})
	case problem.Code == ProblemTooLarge && bytes.HasPrefix(problem.Excerpt, []byte("{")):
		// Whose answer it is comes after what is too large.
		c.failCalls(problem)
	case c.opts.AnswerUnreadable:
		c.send(ctx, Response{Error: failure}, b)
	}
}

func (c *Conn) report(p *Problem) {
	if c.opts.Problem != nil {
		c.busy.Store(true)
		c.opts.Problem(p)
		c.busy.Store(false)
		return
	}
	c.opts.Logger.Warn("the other side broke the protocol", "code", p.Code)
}

// answered hands an answer to the call that waits for it.
func (c *Conn) answered(m message, raw []byte) {
	a := answer{result: m.result}
	if m.err != nil {
		a.err = m.err
	}
	id := string(m.id)
	if m.id != nil && c.settle(id, a) {
		return
	}
	switch sent, late := c.recall(m.id); {
	case late:
	case sent != "":
		problem := problemf(ProblemIDChanged, raw, "an answer has the id %s; the id of the call is %s, and must be sent back as it is", id, sent)
		c.report(problem)
		c.settle(sent, answer{err: problem})
	case (id == "" || id == "null") && m.err != nil:
		c.report(problemf(ProblemRefused, raw, "the other side could not read a message: %s", m.err.Message))
	case id == "" || id == "null":
		c.report(problemf(ProblemNullID, raw, "an answer without an id: notifications are not answered, and every request has an id"))
	default:
		c.report(problemf(ProblemUnknownID, raw, "an answer with the id %s, which no call has that waits: it was answered before, or never made", id))
	}
}

// recall finds out about an id that no call has. It may be that of a call that
// was given up, or be written differently from the one that was sent.
func (c *Conn) recall(id json.RawMessage) (sent string, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.late[:], string(id)) {
		return "", len(id) > 0
	}
	number, ok := text(id)
	if !ok {
		number = string(id)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return "", false
	}
	sent = strconv.FormatFloat(f, 'f', -1, 64)
	if _, ok := c.calls[sent]; !ok {
		return "", false
	}
	return sent, false
}
