package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// CodeCancelled is the code of the error that answers a cancelled request.
const CodeCancelled = -32800

// errCancelled is the cause with which the context of a cancelled request ends.
var errCancelled = errors.New("the other side cancelled the request")

// maxIdle is how many workers wait for the next request. They are faster than new
// goroutines, whose stacks have yet to grow: without them prompts fall below half the
// speed of a bare loop (BenchmarkPrompts).
const maxIdle = 4

// request admits a request whose frame has size bytes and starts its handler.
func (c *Conn) request(ctx context.Context, m message, size int, b *batch) {
	requestCtx, cancel := context.WithCancelCause(context.WithValue(ctx, handlerKey{}, nil))
	key, problem := c.admit(m, size, cancel)
	if problem != nil {
		cancel(nil)
		c.refuse(ctx, problem, m, b)
		return
	}

	if err := c.out.failure(); err != nil {
		cancel(closedBy(err))
	}
	if b != nil {
		b.add()
	}
	handler := c.handler(ctx, Request{ID: m.id, Method: m.method, Params: m.params})

	// A request counts against the limits until its response is on its way.
	task := func() {
		response, after := c.run(requestCtx, m.id, handler)
		c.update(func(s *state) { delete(s.requests, key) }) // the other side may reuse the id when it has the response
		c.respond(requestCtx, response, b, after)
		if b != nil {
			c.finish(requestCtx, b)
		}
		cancel(nil)
		c.update(func(s *state) {
			s.running--
			s.held -= size
		})
	}

	// An idle worker takes the task, otherwise a new worker starts.
	select {
	case c.tasks <- task:
	default:
		c.update(func(s *state) { s.workers++ })
		go c.work(task)
	}
}

// work runs a task, and then the tasks that come while it is idle.
func (c *Conn) work(task func()) {
	defer c.update(func(s *state) { s.workers-- })
	for task != nil {
		task()
		task = nil
		select {
		case c.idle <- struct{}{}:
			select {
			case task = <-c.tasks:
			case <-c.inputDone:
			}
			<-c.idle
		default:
		}
	}
}

// admit registers a request under its id. It refuses an id that is in use, and
// requests beyond the limits in number and in bytes.
func (c *Conn) admit(m message, size int, cancel context.CancelCauseFunc) (key string, problem *Problem) {
	c.update(func(s *state) {
		key = idKey(m.id)
		if key == "null" { // any number of requests may have it
			s.nullIDs++
			key += strconv.Itoa(s.nullIDs)
		}
		switch _, used := s.requests[key]; {
		case used:
			problem = problemf(ProblemReusedID, m.id, "a request has the id of an unanswered request")
		case s.running >= c.opts.MaxRequests:
			problem = problemf(ProblemBusy, m.id, "too many unanswered requests (%d)", s.running)
		case s.running > 0 && s.held+size > 2*c.opts.MaxFrame:
			problem = problemf(ProblemBusy, m.id, "too many bytes in unanswered requests (%d)", s.held)
		default:
			s.requests[key] = cancel
			s.running++
			s.held += size
		}
	})
	return key, problem
}

// handler returns the function that answers a request. It enters the handler of an
// ordered method.
func (c *Conn) handler(ctx context.Context, r Request) func(context.Context) (any, error) {
	if enter := c.opts.Ordered[r.Method]; enter != nil {
		return enter(ctx, c, r)
	}
	return func(ctx context.Context) (any, error) {
		if c.opts.Request == nil {
			return nil, MethodNotFound(r.Method)
		}
		return c.opts.Request(ctx, c, r)
	}
}

// run runs a handler and returns its response, and the function to run after it.
func (c *Conn) run(ctx context.Context, id json.RawMessage, handler func(context.Context) (any, error)) (r Response, after func(error)) {
	r.ID = id
	result, err := handler(ctx)
	answer, ok := result.(Answer)
	if !ok {
		answer.Result = result
	}
	if err == nil {
		r.Result, err = encode(answer.Result)
	}
	switch {
	case err == nil:
		return r, answer.After
	case errors.As(err, &r.Error):
	case context.Cause(ctx) == errCancelled:
		r.Error = &Error{Code: CodeCancelled, Message: "the request was cancelled"}
	default:
		r.Error = &Error{Code: CodeInternal, Message: "internal error"}
	}
	if answer.After == nil {
		return r, nil
	}
	return r, func(error) { answer.After(err) }
}

// MethodNotFound returns the error that answers a request for a method that does
// not exist.
func MethodNotFound(method string) *Error {
	return &Error{Code: CodeMethodNotFound, Message: fmt.Sprintf("unknown method %q", method)}
}

// cancel ends the context of the request that a $/cancel_request names. A request
// that was answered, or never made, is not an error.
func (c *Conn) cancel(m message) {
	var id json.RawMessage
	if m.params != nil && m.params[0] == '{' {
		for name, value := range members(m.params) {
			if string(name) == "requestId" {
				id = value
			}
		}
	}
	if id == nil {
		c.report(problemf(ProblemCancel, m.params, "%s must name a request in the member requestId", CancelMethod))
		return
	}
	c.update(func(s *state) {
		if cancel := s.requests[idKey(id)]; cancel != nil {
			cancel(errCancelled)
		}
	})
}

// respond sends a response and calls after, which may be nil. A response of a batch
// is sent later, with the others of its batch. respond waits for room in the write
// queue.
func (c *Conn) respond(ctx context.Context, r Response, b *batch, after func(error)) {
	if b != nil {
		b.append(r, after)
		return
	}
	line := r.AppendTo(make([]byte, 0, 64+len(r.Result)))
	err := c.out.put(context.WithoutCancel(ctx), append(line, '\n'))
	if after != nil {
		after(err)
	}
}
