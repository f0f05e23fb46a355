package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// CancelMethod is the notification that asks the other side to give up a
// request. A Conn sends and obeys it by itself.
const CancelMethod = "$/cancel_request"

// ErrHandlerWait is why a call fails that a handler of notifications makes on
// its own connection: the answer would be handed over only after the handler
// has returned. Start a goroutine for the call, with a context of its own or
// from Detach.
var ErrHandlerWait = errors.New("a notification handler must not wait for a call on its own connection: start a goroutine with a context from jsonrpc.Detach")

// Call makes a request and returns the result as it came. The params are
// encoded with encoding/json and must be an object or array; a json.RawMessage
// is sent as it is, nil is left out. All notifications that came before the
// answer have been handled when Call returns.
//
// The error is an *Error if the other side answered with one, a *Problem if it
// answered in a way that is not allowed, and ErrClosed if it can no longer
// answer. When ctx ends, the other side is asked to give up, and Call returns
// the cause at once; what is answered later is dropped.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	result, err := c.call(ctx, method, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return result, nil
}

func (c *Conn) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if handling(ctx) == c || c.busy.Load() && goroutineID() == c.reader {
		return nil, ErrHandlerWait
	}
	raw, err := encodeParams(params)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ch := make(chan answer, 1) // has room for the one answer
	id, err := c.enter(func(a answer) { ch <- a })
	if err != nil {
		return nil, err
	}
	if err := c.out.put(ctx, requestLine(id, method, raw)); err != nil {
		c.settle(id, answer{err: c.cause(err)})
	}
	select {
	case a := <-ch:
		return a.result, a.err
	case <-ctx.Done():
	}
	if !c.abandon(id) { // it was answered meanwhile
		a := <-ch
		return a.result, a.err
	}
	return nil, context.Cause(ctx)
}

// Begin makes a request as Call does and does not wait: neither for the answer,
// which is handed to done, nor for room. Whoever begins requests has to limit how
// many there are.
//
// done is called once unless abandon was called before, which asks the other side
// to give up. Like a handler of notifications it runs in its turn, after those
// for what came before the answer, and must not wait for a call on the connection.
// If Begin fails, nothing was sent and done is not called.
func (c *Conn) Begin(method string, params any, done func(result json.RawMessage, err error)) (abandon func(), err error) {
	raw, err := encodeParams(params)
	var id string
	if err == nil {
		id, err = c.enter(func(a answer) {
			if a.err != nil {
				a.err = fmt.Errorf("%s: %w", method, a.err)
			}
			c.busy.Store(true)
			done(a.result, a.err)
			c.busy.Store(false)
		})
	}
	if err == nil {
		if err = c.out.offer(requestLine(id, method, raw)); err != nil && !c.giveUp(id) {
			return func() {}, nil // done was told that the connection has ended
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, c.cause(err))
	}
	return func() { c.abandon(id) }, nil
}

// abandon makes a call wait no longer, and asks the other side to give it up. It
// reports whether the call still waited.
func (c *Conn) abandon(id string) bool {
	if !c.giveUp(id) {
		return false
	}
	c.out.offer(requestLine("", CancelMethod, json.RawMessage(`{"requestId":`+id+`}`)))
	return true
}

// Notify sends a notification. It waits until there is room for it, not until
// it is written; ctx limits the wait. The params are as for Call.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	raw, err := encodeParams(params)
	if err == nil {
		err = c.out.put(ctx, requestLine("", method, raw))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, c.cause(err))
	}
	return nil
}

// cause returns why the connection cannot be used, if err comes from writing.
func (c *Conn) cause(err error) error {
	if c.out.failure() == nil {
		return err
	}
	if cause := c.Err(); cause != nil {
		return cause
	}
	return closedBy(err)
}

// An answer is what a call gets.
type answer struct {
	result json.RawMessage
	err    error
}

// enter makes a call wait for its answer, which it gets with done.
func (c *Conn) enter(done func(answer)) (id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return "", c.err
	}
	c.lastID++
	id = strconv.FormatUint(c.lastID, 10)
	c.calls[id] = done
	return id, nil
}

// settle hands a call its answer. It reports whether one waited.
func (c *Conn) settle(id string, a answer) bool {
	c.mu.Lock()
	done := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if done == nil {
		return false
	}
	done(a)
	return true
}

// giveUp makes a call wait no longer. It reports whether it still did.
func (c *Conn) giveUp(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.calls[id]; !ok {
		return false
	}
	delete(c.calls, id)
	c.late[c.lateNext] = id
	c.lateNext = (c.lateNext + 1) % len(c.late)
	return true
}

// failCalls hands an error to all calls that wait.
func (c *Conn) failCalls(err error) {
	c.mu.Lock()
	calls := c.calls
	c.calls = make(map[string]func(answer))
	c.mu.Unlock()
	for _, done := range calls {
		done(answer{err: err})
	}
}

// handlerKey is under which the context of a notification handler has its Conn.
type handlerKey struct{}

// handling returns the connection whose notification handler ctx comes from.
func handling(ctx context.Context) *Conn {
	c, _ := ctx.Value(handlerKey{}).(*Conn)
	return c
}

// Detach returns a context with the values of ctx for a goroutine that a
// notification handler starts and does not wait for. It does not end with ctx,
// and calls can be made with it.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), handlerKey{}, nil)
}
