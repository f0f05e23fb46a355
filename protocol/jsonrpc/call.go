package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// CancelMethod is the notification that asks the other side to give up a request.
// A Conn sends and obeys it by itself.
const CancelMethod = "$/cancel_request"

// ErrHandlerWait is the error of a call that a notification handler, or the first
// part of an ordered handler, makes on its own connection with its own context.
// The response would be read only after the handler returns. Make the call on a
// goroutine with a context from Detach.
var ErrHandlerWait = errors.New("a notification handler must not wait for a call on its own connection: start a goroutine with a context from jsonrpc.Detach")

// Call makes a request and returns the result as it came. The params are encoded
// with encoding/json and must be an object or array; a json.RawMessage is sent as
// it is, nil is left out. All notifications that arrived before the response have
// been handled when Call returns.
//
// The error is an *Error if the other side answered with one, a *Problem if its
// response is invalid, and ErrClosed if it can no longer answer. When ctx ends, the
// other side is asked to give up, and Call returns the cause at once; a later
// response is dropped.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	result, err := c.call(ctx, method, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return result, nil
}

func (c *Conn) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if ctx.Value(handlerKey{}) == c {
		return nil, ErrHandlerWait
	}

	raw, err := encodeParams(params)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}

	ch := make(chan outcome, 1) // has room for the one outcome
	id, err := c.addCall(func(o outcome) { ch <- o })
	if err != nil {
		return nil, err
	}
	if err := c.out.put(ctx, requestLine(id, method, raw)); err != nil {
		c.resolve(id, outcome{err: c.sendError(err)})
	}

	select {
	case o := <-ch:
		return o.result, o.err
	case <-ctx.Done():
	}

	// An outcome that came together with the end of the context wins.
	if !c.abandon(id) { // it was answered meanwhile
		o := <-ch
		return o.result, o.err
	}
	return nil, context.Cause(ctx)
}

// Begin makes a request as Call does and waits neither for the response, which is
// handed to done, nor for room in the write queue. The caller has to limit how many
// requests it begins.
//
// done is called once, unless abandon was called before, which asks the other side
// to give up. Like a notification handler, done runs after the handlers of all
// notifications that arrived before the response, and must not wait for a call on
// the connection. If Begin fails, nothing was sent and done is not called.
func (c *Conn) Begin(method string, params any, done func(result json.RawMessage, err error)) (abandon func(), err error) {
	raw, err := encodeParams(params)
	var id string
	if err == nil {
		id, err = c.addCall(func(o outcome) {
			if o.err != nil {
				o.err = fmt.Errorf("%s: %w", method, o.err)
			}
			done(o.result, o.err)
		})
	}
	if err == nil {
		if err = c.out.offer(requestLine(id, method, raw)); err != nil && !c.removeCall(id) {
			return func() {}, nil // done was told that the connection has ended
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, c.sendError(err))
	}
	return func() { c.abandon(id) }, nil
}

// Notify sends a notification. It waits until there is room in the write queue,
// not until the notification is written; ctx limits the wait. The params are as for
// Call.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	raw, err := encodeParams(params)
	if err == nil {
		err = c.out.put(ctx, requestLine("", method, raw))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, c.sendError(err))
	}
	return nil
}

// sendError returns the reason why a frame was not sent: the end of the connection
// if writing failed, else err.
func (c *Conn) sendError(err error) error {
	if c.out.failure() == nil {
		return err
	}
	if cause := c.Err(); cause != nil {
		return cause
	}
	return closedBy(err)
}

// An outcome is the result of a call or the reason why there is none.
type outcome struct {
	result json.RawMessage
	err    error
}

// addCall registers a call whose outcome is handed to done.
func (c *Conn) addCall(done func(outcome)) (id string, err error) {
	c.update(func(s *state) {
		if err = s.err; err != nil {
			return
		}
		s.lastID++
		id = strconv.FormatUint(s.lastID, 10)
		s.calls[id] = done
	})
	return id, err
}

// resolve hands a call its outcome. It reports whether the call still waited.
func (c *Conn) resolve(id string, o outcome) bool {
	var done func(outcome)
	c.update(func(s *state) {
		done = s.calls[id]
		delete(s.calls, id)
	})
	if done == nil {
		return false
	}
	done(o)
	return true
}

// removeCall unregisters a call without an outcome. It reports whether the call
// still waited.
func (c *Conn) removeCall(id string) (waited bool) {
	c.update(func(s *state) {
		if waited = s.calls[id] != nil; waited {
			delete(s.calls, id)
			s.abandoned[s.abandons%len(s.abandoned)] = id
			s.abandons++
		}
	})
	return waited
}

// abandon unregisters a call and asks the other side to give it up. It reports
// whether the call still waited.
func (c *Conn) abandon(id string) bool {
	if !c.removeCall(id) {
		return false
	}
	c.out.offer(requestLine("", CancelMethod, json.RawMessage(`{"requestId":`+id+`}`)))
	return true
}

// failCalls hands an error to all calls that wait and, if forever is set, to all
// later ones. The first error for later calls stays.
func (c *Conn) failCalls(err error, forever bool) {
	var calls map[string]func(outcome)
	c.update(func(s *state) {
		calls, s.calls = s.calls, make(map[string]func(outcome))
		if forever && s.err == nil {
			s.err = err
		} else if forever {
			err = s.err
		}
	})
	for _, done := range calls {
		done(outcome{err: err})
	}
}

// handlerKey is the key under which the context of a notification handler holds
// its Conn.
type handlerKey struct{}

// Detach returns a context with the values of ctx for a goroutine that a
// notification handler starts and does not wait for. It does not end with ctx, and
// calls can be made with it.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), handlerKey{}, nil)
}
