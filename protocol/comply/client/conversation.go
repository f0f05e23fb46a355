package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// object is a JSON object.
type object = map[string]any

// maxFrame limits a message of the client. A file of 50 MB fits, with escapes.
const maxFrame = 192 << 20

// A logged is an entry with what the reader noticed about its line.
type logged struct {
	*rules.Entry
	flaws   []jsonrpc.Flaw
	problem *jsonrpc.Problem
}

// A call is a request of the agent and the answers that the client gave to it.
type call struct {
	request *rules.Entry
	answers []*rules.Entry
}

// facts are what the first conversation taught about a client. The zero value assumes
// nothing.
type facts struct {
	known   bool // the first conversation is over
	prompts bool // the client sends a prompt
	pings   bool // the client answers unknown requests
	stays   bool // the client does not end by itself after the turn
}

// A verdict is the outcome of a scenario in one conversation.
type verdict struct {
	findings []rules.Finding
	reason   string // why the scenario could not be played; "" if it could
	met      bool   // the client came to the point of the scenario
}

// A conversation is one agent that the runner plays: the log of both directions, and the
// state that the scenario looks at.
type conversation struct {
	link    *link
	limit   time.Duration // how long the client may take for an answer
	facts   facts
	hooks   hooks
	stopped chan struct{} // closed when the test is over

	wanted schema.Version // that the run wants

	helpers sync.WaitGroup // goroutines that answer for the user

	mu       sync.Mutex
	changed  chan struct{} // closed and made anew at every change
	scenario *Scenario
	verdict  *verdict
	log      []logged
	calls    map[string]*call // by the key of the id
	lastID   int
	version  schema.Version // that was agreed
	done     bool           // nothing more comes from the client
	caps     any            // clientCapabilities, as the client sent them
	info     any            // clientInfo
	offer    int            // the version that the client offered last; 0 if it sent none
	most     int            // the highest version that it offered
	cwd      string         // the folder of the last session
	session  string         // the id of the last session
	logins   int            // how often the client authenticated
	refused  int            // how often a session was refused because of a missing login
	prompts  []*rules.Entry // prompts that wait
	cancel   *rules.Entry   // the last session/cancel
	opened   []string       // methods that opened a session, in their order
	spoilt   bool           // the agent sent bytes that are no message

	lastMessage int  // the number of the last message of the user, in version 2
	mayAnswer   bool // the user of a patient scenario may answer
}

// hooks are what the runner can do beside the conversation. A hook may be nil.
type hooks struct {
	interrupt func() error                                                // sends the client SIGINT
	terminate func() error                                                // sends the client SIGTERM
	asked     func(k *call, c *conversation)                              // a question to the user waits
	trace     func(test string, frame rules.Frame)                        // sees every frame
	pick      func(c *conversation) (s *Scenario, record func(v verdict)) // chooses the scenario of a prompt
	limit     func(s *Scenario) time.Duration                             // of the answers in a scenario
}

func newConversation(l *link, s *Scenario, limit time.Duration, f facts, h hooks, stopped chan struct{}) *conversation {
	return &conversation{
		link: l, scenario: s, limit: limit, facts: f, hooks: h, stopped: stopped, wanted: schema.V1, version: schema.V1,
		changed: make(chan struct{}), calls: map[string]*call{}, verdict: &verdict{}, lastID: 4000,
	}
}

// read reads the messages of the client until they end.
func (c *conversation) read() {
	frames := jsonrpc.NewReader(c.link.input, maxFrame)
	for {
		f, err := frames.Next()
		var problem *jsonrpc.Problem
		if err != nil && !errors.As(err, &problem) {
			break
		}
		raw := bytes.Clone(f.Raw)
		if problem != nil && len(raw) == 0 {
			raw = bytes.Clone(problem.Excerpt)
		}
		e := c.add(jsonrpc.Out, raw, f.Flaws, problem)
		if problem == nil {
			c.handle(e)
		}
	}
	c.update(func() { c.done = true })
}

// add adds an entry to the log.
func (c *conversation) add(d jsonrpc.Direction, raw []byte, flaws []jsonrpc.Flaw, problem *jsonrpc.Problem) *rules.Entry {
	e := rules.NewEntry(d, raw)
	c.update(func() {
		e.Seq = len(c.log) + 1
		c.log = append(c.log, logged{e, flaws, problem})
	})
	if c.hooks.trace != nil {
		c.hooks.trace(c.current().ID, e.Frame())
	}
	return e
}

// update changes the state and wakes all who wait for a change.
func (c *conversation) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait waits until a condition about the state holds, and reports whether it does. It gives up
// after d, at the end of the conversation, and at the end of the test.
func (c *conversation) wait(d time.Duration, holds func() bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok := holds()
		changed := c.changed
		over := c.done
		c.mu.Unlock()
		if ok || over {
			return ok
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-c.stopped:
			return false
		}
	}
}

// pause waits for a while, or until the conversation ends.
func (c *conversation) pause(d time.Duration) { c.wait(d, func() bool { return false }) }

// is returns a fact of the state.
func is[T any](c *conversation, value func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return value()
}

// over reports whether nothing more comes from the client.
func (c *conversation) over() bool { return is(c, func() bool { return c.done }) }

// handle reacts to a message of the client as an agent does.
func (c *conversation) handle(e *rules.Entry) {
	switch e.Class {
	case jsont.ClientRequest:
		c.serve(e)
	case jsont.Notification:
		if e.Method == "session/cancel" {
			c.update(func() { c.cancel = e })
		}
	case jsont.Response:
		c.update(func() {
			if k := c.calls[rules.IDKey(e.ID)]; k != nil {
				k.answers = append(k.answers, e)
			}
		})
	}
}

// sendRaw sends bytes to the client, with a line end.
func (c *conversation) sendRaw(raw []byte) *rules.Entry {
	e := c.add(jsonrpc.In, raw, nil, nil)
	c.link.send(partOutput, append(bytes.Clone(raw), '\n'))
	return e
}

// send sends a message to the client.
func (c *conversation) send(message object) *rules.Entry {
	message["jsonrpc"] = jsonrpc.Version
	return c.sendRaw(jsont.Encode(message))
}

// garble sends a line that is no message.
func (c *conversation) garble(line string) *rules.Entry {
	c.update(func() { c.spoilt = true })
	return c.sendRaw([]byte(line))
}

// reply answers a request of the client with a result.
func (c *conversation) reply(e *rules.Entry, result any) {
	c.send(object{"id": e.ID, "result": result})
}

// refuse answers a request of the client with an error.
func (c *conversation) refuse(e *rules.Entry, code int, message string) {
	c.send(object{"id": e.ID, "error": object{"code": code, "message": message}})
}

// notify sends an update of the current session.
func (c *conversation) notify(update object) *rules.Entry {
	return c.send(object{"method": "session/update", "params": object{"sessionId": c.sessionID(), "update": update}})
}

// say sends a piece of the answer of the agent.
func (c *conversation) say(text string) *rules.Entry {
	return c.notify(c.chunk("agent_message_chunk", object{"type": "text", "text": text}))
}

func (c *conversation) sessionID() string { return is(c, func() string { return c.session }) }

// ask makes a request of the client. Its id is a number that clients do not reach.
func (c *conversation) ask(method string, params object) *call {
	id := 0
	c.update(func() {
		c.lastID++
		id = c.lastID
	})
	return c.askAs(id, method, params)
}

// askAs makes a request with an id.
func (c *conversation) askAs(id any, method string, params object) *call {
	k := &call{}
	raw := jsont.Encode(object{"jsonrpc": jsonrpc.Version, "id": id, "method": method, "params": params})
	c.update(func() { c.calls[rules.IDKey(jsont.Encode(id))] = k })
	e := c.sendRaw(raw)
	c.update(func() { k.request = e })
	if c.hooks.asked != nil && slices.Contains([]string{"session/request_permission", "elicitation/create"}, method) {
		c.helpers.Go(func() { c.hooks.asked(k, c) })
	}
	return k
}

// answer waits for the first answer to a request; nil if none comes.
func (c *conversation) answer(k *call) *rules.Entry { return c.answerIn(k, c.limit) }

func (c *conversation) answerIn(k *call, d time.Duration) *rules.Entry {
	if !c.wait(d, func() bool { return len(k.answers) > 0 }) {
		return nil
	}
	return is(c, func() *rules.Entry { return k.answers[0] })
}

// require waits for an answer; its absence breaks a rule.
func (c *conversation) require(rule, expected string, k *call) *rules.Entry {
	e := c.answer(k)
	if e == nil {
		c.missing(rule, expected, k.request)
	}
	return e
}

// missing notes that something did not come from the client, and whether that rests on time.
func (c *conversation) missing(rule, expected string, proof ...*rules.Entry) {
	if c.over() {
		c.broke(rule, expected, "the client closed the connection", proof...)
		return
	}
	f := c.finding(rule, expected, fmt.Sprintf("nothing came in %v", c.limit.Round(100*time.Millisecond)), proof...)
	f.Timed = true
	c.note(f)
}

// broke notes that the client broke a rule.
func (c *conversation) broke(rule, expected, actual string, proof ...*rules.Entry) {
	c.note(c.finding(rule, expected, actual, proof...))
}

func (c *conversation) finding(rule, expected, actual string, proof ...*rules.Entry) *rules.Finding {
	proof = slices.DeleteFunc(proof, func(e *rules.Entry) bool { return e == nil })
	return rules.NewFinding(rules.Find(rule), &jsont.Test{}, expected, actual, proof...)
}

// note adds a finding to the verdict.
func (c *conversation) note(f *rules.Finding) {
	c.update(func() { c.verdict.findings = append(c.verdict.findings, *f) })
}

// skip notes why the scenario could not be played.
func (c *conversation) skip(format string, args ...any) {
	c.update(func() {
		if c.verdict.reason == "" {
			c.verdict.reason = fmt.Sprintf(format, args...)
		}
	})
}

// meet notes that the client came to the point of the scenario.
func (c *conversation) meet() { c.update(func() { c.verdict.met = true }) }

// pingMethod is a method that no client has: each must answer it with an error.
const pingMethod = "_parley/ping"

// alive asks for a sign of life after an event. Its absence breaks a rule.
func (c *conversation) alive(rule, event string, proof ...*rules.Entry) bool {
	c.meet()
	k := c.ask(pingMethod, object{})
	if c.answer(k) != nil {
		return true
	}
	if c.mute() {
		return true
	}
	c.missing(rule, "the client goes on after "+event, append(proof, k.request)...)
	return false
}

// mute reports whether the client is known to answer no unknown request, so that its silence
// proves nothing while it is connected.
func (c *conversation) mute() bool { return c.facts.known && !c.facts.pings && !c.over() }

// can reports whether the client announced a capability: true, or an object.
func (c *conversation) can(path string) bool {
	caps := is(c, func() any { return c.caps })
	v, _ := jsont.Lookup(caps, path)
	if o, ok := v.(object); ok {
		return o != nil
	}
	return v == true
}

// resultOf returns the result of an answer; nil if it is an error, or no object.
func resultOf(e *rules.Entry) object {
	if e == nil {
		return nil
	}
	o, _ := e.Value.(object)
	r, _ := o["result"].(object)
	if r == nil && e.Failure() == nil {
		return object{} // null is taken for an empty object
	}
	return r
}

// codeOf returns the code of the error of an answer; 0 if there is none.
func codeOf(e *rules.Entry) int {
	if e == nil {
		return 0
	}
	failure, _ := e.Failure().(object)
	n, _ := failure["code"].(json.Number)
	code, _ := n.Int64()
	return int(code)
}

// isError reports whether an answer is an error.
func isError(e *rules.Entry) bool { return e != nil && e.Failure() != nil }

// text returns a member that is a string.
func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}

// shown returns a value in short JSON.
func shown(v any) string { return jsont.Brief(v) }

// params returns the params of a message.
func params(e *rules.Entry) object {
	o, _ := e.Value.(object)
	p, _ := o["params"].(object)
	return p
}

// clipped returns text for a finding.
func clipped(s string) string { return jsont.Shorten(strings.ToValidUTF8(s, "?"), 200) }
