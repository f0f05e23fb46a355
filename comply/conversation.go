package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/jsonrpc"

	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/rules"
)

// Bounds of one conversation. An agent that goes beyond them is cut off.
const (
	maxEntries  = 20_000
	maxLog      = 64 << 20 // bytes
	maxFrame    = 32 << 20 // bytes
	maxServed   = 64       // requests of the agent that are answered at once
	firstOwnID  = 1_000_000_000
	outboxSlots = 256
)

// closeGrace is how long an agent may take to end by itself, and again after a
// signal. There is one such end for each test.
const closeGrace = 500 * time.Millisecond

// orphanGrace is how long what an agent leaves behind may take to end, such as
// a server that sees the end of its input.
const orphanGrace = 200 * time.Millisecond

var (
	errFlood   = fmt.Errorf("the agent sent more than %d messages or %d MiB in one test", maxEntries, maxLog>>20)
	errTimeout = errors.New("the time is over")
)

// A request is a call that the client makes to the agent.
type request struct {
	rules.Call
	step      *jsont.Step // nil for the runner's own requests
	wantError bool        // the answer must be an error
	deadline  time.Time
}

// A conversation is one run of an agent with everything that was said.
//
// One goroutine reads, one writes, and one for each request of the agent
// answers it. A full outbox holds up the reader, and so an agent that asks but
// does not read. close ends all of them.
type conversation struct {
	agent    program
	services *services
	startup  time.Duration      // what is added to the first wait
	trace    func(*rules.Entry) // may be nil
	clock    *clock

	ctx    context.Context // ends with the conversation
	cancel context.CancelFunc
	work   sync.WaitGroup
	serve  chan struct{} // a slot for each request that may be answered at once
	outbox chan []byte

	mu           sync.Mutex // guards what follows; nothing is waited for under it
	log          []*rules.Entry
	size         int
	heard        bool // something came in
	requests     []*request
	nextID       int
	vars         jsont.Variables
	expectations []*openExpectation // all expectations of the test, in their order
	changed      chan struct{}
	held         map[string]*rules.Entry // requests of the agent that wait for a reply step, by name
	over         error                   // why nothing more comes; nil while more may
}

// converse begins a conversation with an agent that was started. It ends the
// agent when it is closed, which it must be.
func converse(ctx context.Context, agent program, s *services, startup time.Duration, vars jsont.Variables, trace func(*rules.Entry), clock *clock) *conversation {
	c := &conversation{
		agent: agent, services: s, startup: startup, trace: trace, clock: clock, vars: vars, nextID: firstOwnID, held: map[string]*rules.Entry{},
		serve: make(chan struct{}, maxServed), outbox: make(chan []byte, outboxSlots), changed: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.work.Go(c.read)
	c.work.Go(c.write)
	return c
}

// close ends the agent and everything that was done for it. It returns how the
// agent ended.
func (c *conversation) close() error {
	defer c.clock.wait()()
	c.cancel()
	err := c.agent.Close()
	c.work.Wait()
	return err
}

// read takes in what the agent says until it ends.
func (c *conversation) read() {
	r := jsonrpc.NewReader(c.agent, maxFrame)
	for {
		f, err := r.Next()
		var problem *jsonrpc.Problem
		if err != nil && !errors.As(err, &problem) {
			c.end(err)
			return
		}
		for _, e := range rules.Entries(f, problem) {
			if !c.arrive(e) {
				c.end(errFlood)
				io.Copy(io.Discard, c.agent) // so that the agent can see the end of its input
				return
			}
		}
	}
}

// end notes why nothing more comes.
func (c *conversation) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = err
	c.notify()
}

// notify wakes who waits for a change. The lock is held.
func (c *conversation) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// note appends to the log. The lock is held.
func (c *conversation) note(e *rules.Entry) {
	e.Seq = len(c.log) + 1
	c.log = append(c.log, e)
	c.size += len(e.Raw)
	c.notify()
}

// show lets the tracer see an entry. Those of several goroutines may come in
// another order than in the log.
func (c *conversation) show(e *rules.Entry) {
	if c.trace != nil {
		c.trace(e)
	}
}

// arrive takes in one entry. It reports false when there were too many.
func (c *conversation) arrive(e *rules.Entry) bool {
	c.mu.Lock()
	c.heard = true
	c.note(e)
	if len(c.log) > maxEntries || c.size > maxLog {
		c.mu.Unlock()
		return false
	}
	var reply json.RawMessage
	var held bool
	switch e.Class {
	case jsont.Response:
		if q := c.waiting(e.ID); q != nil {
			q.Answer = e
		}
	case jsont.ClientRequest:
		reply, held = c.cannedReply(e)
	}
	c.mu.Unlock()
	c.show(e)
	if e.Class == jsont.ClientRequest && !held {
		c.respond(e, reply)
	}
	return true
}

// waiting returns the first request with that id that was not answered yet.
// The lock is held.
func (c *conversation) waiting(id json.RawMessage) *request {
	for _, q := range c.requests {
		if q.Answer == nil && rules.IDKey(q.Request.ID) == rules.IDKey(id) {
			return q
		}
	}
	return nil
}

// calls returns all requests to the agent with their answers.
func (c *conversation) calls() (out []*rules.Call) {
	for _, q := range c.requests {
		out = append(out, &q.Call)
	}
	return out
}

// twisted returns a response that would answer q if its id were not a string in
// place of a number, or the other way round; nil if there is none. The lock is
// held.
func (c *conversation) twisted(q *request) *rules.Entry {
	if q.Answer != nil {
		return nil
	}
	sent, _ := jsont.Lookup(q.Request.Value, "id")
	for _, e := range c.log[q.Request.Seq:] {
		if e.Direction != jsonrpc.In || e.Class != jsont.Response || string(e.ID) == "null" {
			continue
		}
		got, _ := jsont.Lookup(e.Value, "id")
		if jsont.Stringify(got) == jsont.Stringify(sent) && !slices.ContainsFunc(c.requests, func(other *request) bool { return other.Answer == e }) {
			return e
		}
	}
	return nil
}

// cannedReply gives a request of the agent to the first expectation that it
// meets, and returns the reply that the test has for it, nil if it has none, or
// that it is to wait. So a request is answered as the test wants also if it
// comes before the step that expects it. The lock is held.
func (c *conversation) cannedReply(e *rules.Entry) (_ json.RawMessage, held bool) {
	for _, a := range c.expectations {
		if a.Class != jsont.ClientRequest || a.met != nil || a.closed || !a.fits(e, c.vars) {
			continue
		}
		a.take(e)
		switch {
		case a.Hold != "":
			c.held[a.Hold] = e
			return nil, true
		case a.Reply == nil:
			return nil, false
		}
		return a.Reply.Encode(c.vars.Join(a.local).Expand), false
	}
	return nil, false
}

// set gives a variable its value.
func (c *conversation) set(name string, value json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vars = c.vars.With(name, value)
	for _, a := range c.expectations {
		a.matcher = nil
	}
}

// respond answers a request of the agent: with reply, or with what the services
// say.
func (c *conversation) respond(e *rules.Entry, reply json.RawMessage) {
	if reply != nil {
		c.send(c.ctx, answerLine(e.ID, reply))
		return
	}
	select {
	case c.serve <- struct{}{}:
	default:
		c.send(c.ctx, answerLine(e.ID, errorReply(jsonrpc.CodeServer, fmt.Sprintf("more than %d requests at once", maxServed))))
		return
	}
	c.work.Go(func() {
		defer func() { <-c.serve }()
		c.send(c.ctx, answerLine(e.ID, c.services.answer(c.ctx, e)))
	})
}

// answerLine returns a response with the given result or error.
func answerLine(id json.RawMessage, reply json.RawMessage) []byte {
	part, value := "result", reply
	var object map[string]json.RawMessage
	if json.Unmarshal(reply, &object) == nil && len(object) == 1 {
		for _, name := range []string{"result", "error"} {
			if v, ok := object[name]; ok {
				part, value = name, v
			}
		}
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"%s":%s}`, id, part, value)
}

// errorReply returns a reply that is an error.
func errorReply(code int, message string) json.RawMessage {
	return jsont.Encode(map[string]any{"error": jsonrpc.Error{Code: code, Message: message}})
}

// send notes a frame and puts it into the outbox, followed by a line end.
func (c *conversation) send(ctx context.Context, raw []byte) (*rules.Entry, error) {
	return c.sendEntry(ctx, raw, withLineEnd(raw), nil)
}

// withLineEnd returns a copy of a frame with a line feed.
func withLineEnd(frame []byte) []byte { return append(frame[:len(frame):len(frame)], '\n') }

// sendEntry notes raw and sends line. If q is not nil an answer to it is waited
// for from now on.
func (c *conversation) sendEntry(ctx context.Context, raw, line []byte, q *request) (*rules.Entry, error) {
	e := rules.NewEntry(jsonrpc.Out, raw)
	c.services.observe(e)
	c.mu.Lock()
	if q != nil && e.Class == jsont.ClientRequest && string(e.ID) != "null" {
		q.Request = e
		c.requests = append(c.requests, q)
	}
	c.note(e)
	c.mu.Unlock()
	c.show(e)
	select {
	case c.outbox <- line:
		return e, nil
	case <-ctx.Done():
		return e, ctx.Err()
	case <-c.ctx.Done():
		return e, c.ctx.Err()
	}
}

// write writes what is in the outbox until the conversation ends, and closes the
// agent's input for a nil. Once the agent reads no more, the rest is dropped:
// that it ended shows elsewhere.
func (c *conversation) write() {
	var failed error
	for {
		select {
		case line := <-c.outbox:
			switch {
			case line == nil:
				c.agent.CloseInput()
			case failed == nil:
				_, failed = c.agent.Write(line)
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// call asks by the runner itself, and waits for the answer.
func (c *conversation) call(ctx context.Context, method string, params any, timeout time.Duration) (*rules.Entry, error) {
	c.mu.Lock()
	id := c.nextID
	c.nextID++
	c.mu.Unlock()
	q := &request{}
	raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, strconv.Itoa(id), jsont.Encode(method), jsont.Encode(params))
	if _, err := c.sendEntry(ctx, raw, withLineEnd(raw), q); err != nil {
		return nil, err
	}
	var answer *rules.Entry
	err := c.wait(ctx, timeout, func() bool { answer = q.Answer; return answer != nil })
	if errors.Is(err, errTimeout) {
		err = fmt.Errorf("%s was not answered within %v", method, timeout)
	}
	return answer, err
}

// wait returns nil once done reports true, errTimeout when the time is over, and
// another error when nothing more comes. done is called under the lock, again
// after each change. As long as the agent has not said anything it may still be
// starting, and the time is longer by what that may take.
func (c *conversation) wait(ctx context.Context, timeout time.Duration, done func() bool) error {
	defer c.clock.wait()()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok, over, changed := done(), c.over, c.changed
		c.mu.Unlock()
		switch {
		case ok:
			return nil
		case over != nil:
			return fmt.Errorf("nothing more comes: %w", over)
		}
		select {
		case <-changed:
		case <-timer.C:
			if extra := c.allowance(); extra > 0 {
				timer.Reset(extra)
				continue
			}
			return errTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// allowance returns what is left of the time an agent may need to start, once.
func (c *conversation) allowance() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	extra := c.startup
	c.startup = 0
	if c.heard {
		return 0
	}
	return extra
}

// state returns whether the agent can still say something, and if not, why.
func (c *conversation) state() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// ending says for people how the agent ended.
func ending(err error) string {
	var exit *jsonrpc.ExitError
	switch {
	case err == nil:
		return "it ended with status 0"
	case errors.As(err, &exit):
		return strings.TrimSpace(exit.Error())
	}
	return err.Error()
}
