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

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// Bounds of one conversation. The runner stops reading an agent that exceeds them.
const (
	maxEntries  = 20_000        // messages
	perRequest  = 1000          // more messages for each request to the agent: a hundred sessions have a hundred times as much to say
	maxLog      = 64 << 20      // bytes
	maxFrame    = 32 << 20      // bytes
	maxServed   = 64            // requests of the agent that are served at the same time
	firstOwnID  = 1_000_000_000 // of the runner's own requests; tests use small ids
	outboxSlots = 256           // lines that wait to be written
)

// closeGrace is how long an agent may take to end after its input was closed, and
// again after a signal. Each test ends an agent, so a long grace would be paid often.
const closeGrace = 500 * time.Millisecond

// orphanGrace is how long a process that outlives its agent may take to end, such as
// an MCP server that sees the end of its input.
const orphanGrace = 200 * time.Millisecond

var (
	// The reasons why a wait ends without its frame, beside those of the agent.
	errFlood   = fmt.Errorf("the agent sent more than %d messages, and %d for each request, or %d MiB in one test", maxEntries, perRequest, maxLog>>20)
	errTimeout = errors.New("time ran out")
)

// A request is a call that the client makes to the agent.
// Answer is set once, by the reader, under the conversation's lock.
type request struct {
	rules.Call
	step      *jsont.Step // nil for the runner's own requests
	wantError bool        // the answer must be an error
	patience  time.Duration
	deadline  time.Time // patience after it was sent
}

// A conversation is the exchange of frames with one instance of an agent.
//
// One goroutine reads lines of the agent and appends them to the log, one writes
// lines from the outbox, and one for each request of the agent serves it. The
// goroutine of the test waits for changes of the log. A frame is in the log before
// its effects are: before it is written to the agent, and before its answer is. So the
// order of the log is an order that the client could have seen, and a frame is never
// missing when the frame that it caused is there. When the outbox is full, the reader
// waits: an agent that sends requests but does not read answers is not read either.
// close ends all goroutines.
type conversation struct {
	agent    program
	services *services
	// startup is read and cleared under mu, by allowance.
	startup time.Duration      // added to the wait for the first frame; 0 once it was used
	trace   func(*rules.Entry) // may be nil
	clock   *clock             // the time spent waiting

	ctx    context.Context // ends with the conversation
	cancel context.CancelFunc
	work   sync.WaitGroup
	serve  chan struct{} // a slot for each request that is being served
	outbox chan []byte

	mu           sync.Mutex // guards the fields below; never held while waiting
	log          []*rules.Entry
	size         int
	heard        bool // at least one frame came
	requests     []*request
	nextID       int
	streams      rules.Streams
	loggedIn     bool // the runner has tried to log in; of the goroutine of the test
	vars         jsont.Variables
	expectations []*openExpectation // all expectations of the test, in their order
	// changed is closed and replaced at every change. A waiter takes it under the
	// lock before it waits, so no change is lost between its look at the log and
	// its wait.
	changed chan struct{}
	held    map[string]*rules.Entry // requests of the agent that wait for a reply step, by name
	over    error                   // why no more frames come; nil while more may
}

// converse starts a conversation with a running agent. The caller must close it, which
// ends the agent.
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

// close ends the agent and all goroutines of the conversation. It returns how the agent
// ended.
// The agent is closed before the goroutines are waited for: the reader ends with
// its output, and a write that blocks ends with its input.
func (c *conversation) close() error {
	defer c.clock.wait()()
	c.cancel()
	err := c.agent.Close()
	c.work.Wait()
	return err
}

// read appends the frames of the agent to the log until its output ends.
func (c *conversation) read() {
	r := jsonrpc.NewReader(c.agent, maxFrame)
	for {
		f, err := r.Next()
		// A problem is one refused frame; any other error is the end of the output.
		var problem *jsonrpc.Problem
		if err != nil && !errors.As(err, &problem) {
			c.end(err)
			return
		}
		for _, e := range rules.Entries(f, problem) {
			if !c.arrive(e) {
				c.end(errFlood)
				io.Copy(io.Discard, c.agent) // an agent that blocks on its output would not see the end of its input
				return
			}
		}
	}
}

// end records why no more frames come.
func (c *conversation) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = err
	c.notify()
}

// notify wakes all waiters. The lock is held.
func (c *conversation) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// note appends an entry to the log. The lock is held.
func (c *conversation) note(e *rules.Entry) {
	e.Seq = len(c.log) + 1
	c.log = append(c.log, e)
	c.streams.Join(e)
	c.size += len(e.Raw)
	c.notify()
}

// show passes an entry to the tracer. It is called without the lock, so entries of
// several goroutines may be traced in another order than they have in the log.
func (c *conversation) show(e *rules.Entry) {
	if c.trace != nil {
		c.trace(e)
	}
}

// arrive appends an entry of the agent to the log, gives a response to its request, and
// answers a request. It reports false if the conversation exceeds its bounds.
// Everything that depends on the order of frames happens here, on the one goroutine
// that reads: which request a response belongs to, and which expectation a request
// meets.
func (c *conversation) arrive(e *rules.Entry) bool {
	c.mu.Lock()
	c.heard = true
	c.note(e)
	// The entry is in the log already, so that a report can show the last one.
	if len(c.log) > maxEntries+perRequest*len(c.requests) || c.size > maxLog {
		c.mu.Unlock()
		return false
	}

	var reply json.RawMessage
	var held bool
	switch e.Class {
	case jsont.Response:
		if q := c.waiting(e.ID); q != nil {
			q.Answer = e
		} else {
			// The answer to raw text has no request; it may come after the wait for it.
			e.Taken = slices.ContainsFunc(c.expectations, func(x *openExpectation) bool { return x.closed && x.met == nil && x.fits(e, c.vars) })
		}
	case jsont.ClientRequest:
		reply, held = c.cannedReply(e)
	}

	c.mu.Unlock()
	c.show(e)
	// Outside of the lock: the outbox may be full.
	if e.Class == jsont.ClientRequest && !held {
		c.respond(e, reply)
	}
	return true
}

// waiting returns the first unanswered request with that id, nil if there is none. The
// lock is held.
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

// twisted returns a response whose id is that of q with another type, a string in place
// of a number or the other way round; nil if there is none. The lock is held.
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
		// The same text with another type; an answer that belongs to another request does
		// not count.
		if jsont.Stringify(got) == jsont.Stringify(sent) && !slices.ContainsFunc(c.requests, func(other *request) bool { return other.Answer == e }) {
			return e
		}
	}
	return nil
}

// cannedReply gives a request of the agent to the first expectation that it meets. It
// returns the reply of the test, nil if the test has none, and whether the request is
// held for a reply step. All expectations of the test are tried, not only those of the
// current step: a request that comes early still gets its reply. The lock is held.
// Expectations whose step is over are skipped: their frames were due earlier.
func (c *conversation) cannedReply(e *rules.Entry) (_ json.RawMessage, held bool) {
	for _, a := range c.expectations {
		isOpen := a.Class == jsont.ClientRequest && a.met == nil && !a.closed
		if !isOpen || !a.fits(e, c.vars) {
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

// set gives a variable a value. Patterns that were compiled with the old values are
// dropped.
func (c *conversation) set(name string, value json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vars = c.vars.With(name, value)
	for _, a := range c.expectations {
		a.matcher = nil
	}
}

// respond answers a request of the agent with reply, or from the services if reply is
// nil.
// A request beyond maxServed is answered with an error at once, so an agent that
// floods the runner with requests cannot make it start goroutines without end.
func (c *conversation) respond(e *rules.Entry, reply json.RawMessage) {
	if reply != nil {
		c.services.replied(e, reply)
		c.send(c.ctx, answerLine(e.ID, reply))
		return
	}
	// A slot is taken without waiting: the reader must go on.
	select {
	case c.serve <- struct{}{}:
	default:
		c.send(c.ctx, answerLine(e.ID, errorReply(jsonrpc.CodeServer, fmt.Sprintf("too many requests at once (limit %d)", maxServed))))
		return
	}
	c.work.Go(func() {
		defer func() { <-c.serve }()
		c.send(c.ctx, answerLine(e.ID, c.services.answer(c.ctx, e)))
	})
}

// answerLine returns the response to a request. reply is an object with nothing but a
// result or an error, or the result itself.
func answerLine(id json.RawMessage, reply json.RawMessage) []byte {
	part, value := "result", reply
	var object map[string]json.RawMessage
	// A reply of a test may be written with its result or error, or be the result.
	if json.Unmarshal(reply, &object) == nil && len(object) == 1 {
		for _, name := range []string{"result", "error"} {
			if v, ok := object[name]; ok {
				part, value = name, v
			}
		}
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"%s":%s}`, id, part, value)
}

// errorReply returns a reply with an error.
func errorReply(code int, message string) json.RawMessage {
	return jsont.Encode(map[string]any{"error": jsonrpc.Error{Code: code, Message: message}})
}

// send logs a frame and puts it into the outbox with a line end.
func (c *conversation) send(ctx context.Context, raw []byte) (*rules.Entry, error) {
	return c.sendEntry(ctx, raw, withLineEnd(raw), nil)
}

// withLineEnd returns a copy of a frame with a line feed.
func withLineEnd(frame []byte) []byte { return append(frame[:len(frame):len(frame)], '\n') }

// sendEntry logs raw and puts line into the outbox. If q is not nil, the frame is that
// request, and a response may be given to it from now on.
func (c *conversation) sendEntry(ctx context.Context, raw, line []byte, q *request) (*rules.Entry, error) {
	// The services learn of the frame before the agent can answer it.
	e := rules.NewEntry(jsonrpc.Out, raw)
	c.services.observe(e)
	c.mu.Lock()
	// Only a request with an id gets an answer that could be given to it.
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

// write writes the lines of the outbox until the conversation ends. A nil line closes
// the input of the agent. After a failed write it drops all lines: the reader reports
// that the agent has ended.
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

// call sends a request of the runner itself and waits for the answer.
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
		err = fmt.Errorf("%s was not answered within %v", method, rounded(timeout))
	}
	return answer, err
}

// wait returns nil once done reports true, errTimeout when the time is over, and another
// error when no more frames come. done is called under the lock, at first and after each
// change of the log, so no change is missed: the channel that announces the next change
// is taken under the same lock. Before its first frame the agent may still be starting,
// and the time is extended once by the startup time.
func (c *conversation) wait(ctx context.Context, timeout time.Duration, done func() bool) error {
	defer c.clock.wait()()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok := done()
		over := c.over
		changed := c.changed
		c.mu.Unlock()
		switch {
		case ok:
			return nil
		case over != nil:
			return fmt.Errorf("the agent sends no more frames: %w", over)
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

// allowance returns the startup time once, and only before the first frame.
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

// silent reports whether no frame has come yet.
func (c *conversation) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.heard
}

// state returns the reason why no more frames come, nil if more may.
func (c *conversation) state() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// spoke reports whether the agent has sent something.
func (c *conversation) spoke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.log, func(e *rules.Entry) bool { return e.Direction == jsonrpc.In })
}

// ending describes the end of the agent for people.
func ending(err error) string {
	var exit *jsonrpc.ExitError
	switch {
	case err == nil:
		return "it exited with status 0"
	case errors.As(err, &exit):
		return strings.TrimSpace(exit.Error())
	}
	return err.Error()
}
