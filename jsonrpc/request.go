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

// errCancelled is why the context of a request ends that the other side
// cancelled.
var errCancelled = errors.New("the other side cancelled the request")

// request starts the handler of a request of so many bytes.
func (c *Conn) request(ctx context.Context, m message, size int, b *batch) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, handlerKey{}, nil))
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
	task := func() {
		response := c.handle(ctx, m)
		c.forget(key)
		c.send(ctx, response, b)
		if b != nil {
			c.finish(ctx, b)
		}
		cancel(nil)
		c.release(size)
	}
	select {
	case c.tasks <- task:
	default:
		c.count(+1)
		go c.work(task)
	}
}

// work runs a task, and those that come while its goroutine is idle.
func (c *Conn) work(task func()) {
	defer c.count(-1)
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

// count counts the goroutines that work.
func (c *Conn) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers += n
	if c.ended && c.workers == 0 {
		close(c.handled)
	}
}

// inputEnded notes that no request will come.
func (c *Conn) inputEnded() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.count(0)
}

// admit takes a request in, unless there are too many.
func (c *Conn) admit(m message, size int, cancel context.CancelCauseFunc) (key string, problem *Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key = idKey(m.id)
	if key == "null" { // any number may have it
		c.nullIDs++
		key += strconv.Itoa(c.nullIDs)
	}
	switch _, used := c.requests[key]; {
	case used:
		return "", problemf(ProblemReusedID, m.id, "a request has the id of one that is not answered yet")
	case c.running >= c.opts.MaxRequests:
		return "", problemf(ProblemBusy, m.id, "there are %d requests that are not answered yet, and no more are taken", c.running)
	case c.running > 0 && c.held+size > 2*c.opts.MaxFrame:
		return "", problemf(ProblemBusy, m.id, "there are %d bytes of requests that are not answered yet, and no more are taken", c.held)
	}
	c.requests[key] = cancel
	c.running++
	c.held += size
	return key, nil
}

// forget lets the id of a request be used again. Its answer comes next.
func (c *Conn) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, key)
}

// release makes room for other requests.
func (c *Conn) release(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.held -= size
}

// cancelRequests ends the contexts of all requests that are handled.
func (c *Conn) cancelRequests(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.requests {
		cancel(cause)
	}
}

// handle runs the handler of a request.
func (c *Conn) handle(ctx context.Context, m message) Response {
	r := Response{ID: m.id}
	if c.opts.Request == nil {
		r.Error = MethodNotFound(m.method)
		return r
	}
	result, err := c.opts.Request(ctx, c, Request{ID: m.id, Method: m.method, Params: m.params})
	if err == nil {
		r.Result, err = encode(result)
	}
	switch {
	case err == nil:
	case errors.As(err, &r.Error):
	case context.Cause(ctx) == errCancelled:
		r.Error = &Error{Code: CodeCancelled, Message: "the request was cancelled"}
	default:
		c.opts.Logger.Error("a request failed", "op", m.method, "err", err)
		r.Error = &Error{Code: CodeInternal, Message: "internal error"}
	}
	return r
}

// MethodNotFound returns the error that answers a request for a method that
// does not exist.
func MethodNotFound(method string) *Error {
	return &Error{Code: CodeMethodNotFound, Message: fmt.Sprintf("there is no method %q", method)}
}

// cancel ends the context of the request that a notification names. One that
// was answered, or never made, is not an error.
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
	c.mu.Lock()
	cancel := c.requests[idKey(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// send sends an answer, later if it is one of a batch. It waits for room; if
// the connection is closed or broken, nobody can be told.
func (c *Conn) send(ctx context.Context, r Response, b *batch) {
	if b != nil {
		b.append(r)
		return
	}
	line := r.AppendTo(make([]byte, 0, 64+len(r.Result)))
	c.out.put(context.WithoutCancel(ctx), append(line, '\n'))
}
