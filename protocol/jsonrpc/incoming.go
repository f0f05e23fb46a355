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

// read is the goroutine that reads frames and dispatches them. It runs the handlers
// of notifications, and the first part of ordered handlers, itself.
func (c *Conn) read(ctx context.Context) {
	defer close(c.inputDone)
	ctx = context.WithValue(ctx, handlerKey{}, c)
	for {
		f, err := c.in.Next()
		var problem *Problem
		if err != nil && !errors.As(err, &problem) {
			c.failCalls(closedBy(err), true)
			c.update(func(s *state) { s.inputEnded = true })
			return
		}
		if c.opts.Tap != nil {
			c.opts.Tap(In, f)
		}
		switch {
		case c.closed():
			// The frame is read only so that the other side can write, and end.
		case problem != nil:
			c.refuse(ctx, problem, salvage(f.Raw), nil)
		case f.Raw[0] == '[':
			c.batch(ctx, f.Raw)
		default:
			c.message(ctx, f.Raw, nil)
		}
	}
}

// message dispatches one message, of a batch if b is not nil.
func (c *Conn) message(ctx context.Context, raw []byte, b *batch) {
	m, problem := parseMessage(raw)
	if problem == nil {
		problem = cmp.Or(checkNames("params", m.params), checkNames("result", m.result))
	}
	switch {
	case problem != nil:
		c.refuse(ctx, problem, m, b)
	case m.isResponse():
		c.response(m, raw)
	case m.id != nil:
		c.request(ctx, m, len(raw), b)
	case m.method == CancelMethod:
		c.cancel(m)
	case c.opts.Notification != nil:
		c.opts.Notification(ctx, c, Request{Method: m.method, Params: m.params})
	}
}

// refuse reports a problem and passes it to the side that waits for the message:
// to the call if it is a response, to the other side if it is a request.
func (c *Conn) refuse(ctx context.Context, problem *Problem, m message, b *batch) {
	c.report(problem)
	failure := &Error{Code: problem.rpcCode(), Message: problem.Text}
	switch {
	case !m.isResponse() && m.id != nil:
		c.respond(ctx, Response{ID: m.id, Error: failure}, b, nil)
	case !m.isResponse():
		// A notification has no response.
	case m.id != nil:
		c.resolve(string(m.id), outcome{err: problem})
	case problem.Code == ProblemTooLarge && bytes.HasPrefix(problem.Excerpt, []byte("{")):
		// The id of this response was cut off: any call may be the one it answers.
		c.failCalls(problem, false)
	case c.opts.AnswerUnreadable:
		c.respond(ctx, Response{Error: failure}, b, nil)
	}
}

func (c *Conn) report(p *Problem) {
	if c.opts.Problem != nil {
		c.opts.Problem(p)
	}
}

// response hands a response to the call that waits for it.
func (c *Conn) response(m message, raw []byte) {
	o := outcome{result: m.result}
	if m.err != nil {
		o.err = m.err
	}
	id := string(m.id)
	if m.id != nil && c.resolve(id, o) {
		return
	}
	switch sent, abandoned := c.findCall(m.id); {
	case abandoned:
	case sent != "":
		problem := problemf(ProblemIDChanged, raw, "a response has the id %s, but the call has the id %s: send ids back unchanged", id, sent)
		c.report(problem)
		c.resolve(sent, outcome{err: problem})
	case (id == "" || id == "null") && m.err != nil:
		c.report(problemf(ProblemRefused, raw, "the other side could not read a message: %s", m.err.Message))
	case id == "" || id == "null":
		c.report(problemf(ProblemNullID, raw, "a response has no id: do not answer notifications, and send the id of the request back"))
	default:
		c.report(problemf(ProblemUnknownID, raw, "a response has the id %s, but no call waits for it: it was already answered or never made", id))
	}
}

// findCall classifies the id of a response that no call has. It reports whether
// the call was abandoned, or else returns the id of the waiting call whose id has
// the same number in another spelling, "" if there is none.
func (c *Conn) findCall(id json.RawMessage) (sent string, abandoned bool) {
	number, ok := text(id)
	if !ok {
		number = string(id)
	}
	if f, err := strconv.ParseFloat(number, 64); err == nil {
		sent = strconv.FormatFloat(f, 'f', -1, 64)
	}
	c.update(func(s *state) {
		abandoned = len(id) > 0 && slices.Contains(s.abandoned[:], string(id))
		if s.calls[sent] == nil {
			sent = ""
		}
	})
	return sent, abandoned
}
