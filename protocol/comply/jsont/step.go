package jsont

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a test.
const (
	DefaultTimeout = 10 * time.Second
	maxTimeout     = 10 * time.Minute
	maxSteps       = 10_000 // repeated steps count each time
	maxDepth       = 8      // of a repeat in a repeat
)

// A Step is one action of a test, or a repetition of other steps. Action is
// nil for a repetition, and Inner for an action. Rule, Level, Fix and Moot shape the finding if the step
// fails.
type Step struct {
	Rule   string         // the rule that the agent breaks if the step fails; "" for the first rule of the test
	Level  Level          // the level of that finding; "" for the level of the rule
	Fix    string         // advice for the author of the agent; "" for the advice of the rule
	Moot   string         // why a failure says nothing about the agent; "" if it does
	When   []Precondition // the step is left out unless all of them hold
	Action Action         // nil for a repetition

	Times int // how often the inner steps run
	Inner []Step
}

// An Action is the work of a step: a *NewSession, *Send, *SendRaw, *Expect,
// *Forbid, Delay, *Process, *Reply, *Check or *FileCheck.
// It is a closed set without a common method, because the runner executes actions
// and this package only reads them.
type Action any

// A NewSession action sends session/new for the workspace of the test.
type NewSession struct {
	MCPServers *Node         // the MCP servers; nil for none
	Params     *Node         // further params; may be nil
	Capture    string        // the variable that gets the id of the session; may be empty
	Timeout    time.Duration // 0 for the time that an agent may need to start
}

// A Send action sends one frame. It does not wait for the answer.
type Send struct {
	Frame        *Node
	WhileWaiting *Node // the id of a request that must still be unanswered; may be nil
	WantError    bool
	Timeout      time.Duration // for the answer
}

// A SendRaw action sends bytes that need not be a frame.
type SendRaw struct {
	Text  *Node // nil if data is sent
	Data  []byte
	Times int
}

// An Expect action waits until a frame has met each of its expectations.
type Expect struct {
	Timeout  time.Duration
	Ordered  bool         // the frames must come in the order of the expectations
	Until    *Expectation // frames after the one that meets it do not count; may be nil
	Messages []*Expectation
	Captures []Capture
}

// A Forbid action watches that the agent does not send some frames.
type Forbid struct {
	Timeout  time.Duration
	Methods  []string
	Messages []*Expectation
	Full     bool         // watch for the whole time, not only until all requests are answered
	Until    *Expectation // frames after the one that meets it are allowed; may be nil
}

// A Delay action waits for a fixed time.
type Delay time.Duration

// A Process action is about the agent as a process. Its fields take effect in
// their order.
type Process struct {
	CloseInput     bool
	Terminate      bool // the agent is sent SIGTERM
	Exits          bool // the agent must end
	Within         time.Duration
	ExitCode       *Node // a pattern for the exit code; nil for any
	Alone          bool  // no process that the agent started may outlive it
	ReadableStderr bool  // standard error must be UTF-8
	Restart        bool  // the agent is stopped and started again in the same folders
}

// A Reply action answers a request of the agent that an expectation holds.
type Reply struct {
	To   string // the name of the held request
	Body *Node  // an object with a result or an error
}

// A Check action compares a value made of variables with patterns.
type Check struct{ Value, Like, Unlike *Node }

// A FileCheck action compares a file in the workspace with patterns.
type FileCheck struct {
	Path    string
	Is      string // what the file is, for findings, as "the record of the server"; may be ""
	Absent  bool
	Like    *Node // a pattern for the text; may be nil
	Unlike  *Node // a pattern that must not match the text; may be nil
	Timeout time.Duration
}

// A Capture gives a variable the value at a path of a frame.
type Capture struct{ Path, Name string }

// actions has the reader of each action by the member that a step has for it. A step
// has exactly one of these members, or repeat.
var actions = map[string]func(p *Reader, n *Node) Action{
	"newSession": (*Reader).newSession,
	"send":       (*Reader).send,
	"expect":     (*Reader).expect,
	"forbid":     (*Reader).forbid,
	"delayMs":    (*Reader).delay,
	"sendRaw":    (*Reader).sendRaw,
	"process":    (*Reader).process,
	"reply":      (*Reader).reply,
	"check":      (*Reader).check,
	"file":       (*Reader).fileCheck,
}

// steps reads the steps of a test, or those of a repeat, which is depth deep.
// An unknown action is a remark and no error: the file may be for a later version.
func (p *Reader) steps(n *Node, depth int) (out []Step) {
	if depth > maxDepth {
		p.Fail(n, "repeats can be nested at most %d deep", maxDepth)
		return nil
	}

	for n := range p.each(n, "steps") {
		if n.Kind != Object {
			p.Fail(n, "a step must be an object, not %s", n.Kind)
			return nil
		}

		s := Step{Rule: p.Text(n, "rule"), Fix: p.Text(n, "fix"), Moot: p.Text(n, "moot"), Times: 1}
		if level := p.Text(n, "level"); level != "" {
			var ok bool
			if s.Level, ok = parseLevel(level); !ok {
				p.Fail(n.Get("level"), "unknown level %q: use MUST, SHOULD, MAY or ADV", level)
			}
		}
		for c := range p.each(n, "when") {
			if c, ok := p.precondition(c); ok {
				s.When = append(s.When, c)
			}
		}

		// Each known member of a step is an action, and a step has exactly one.
		var found []string
		for _, m := range n.members {
			if read, ok := actions[m.Name]; ok {
				found = append(found, m.Name)
				s.Action = read(p, n)
			}
		}
		if v := p.Object(n, "repeat"); v != nil {
			found = append(found, "repeat")
			s.Inner = p.steps(v, depth+1)
			s.Times = int(p.number(v, "times", 1, 0, maxSteps))
		}

		switch len(found) {
		case 0:
			p.ignore(n, "the step has no known action and is ignored")
		case 1:
			out = append(out, s)
		default:
			p.Fail(n, "a step must have one action; this one has %s", strings.Join(found, " and "))
		}
	}

	if depth == 0 && countSteps(out) > maxSteps {
		p.Fail(n, "a test can have at most %d steps, counting repetitions", maxSteps)
	}
	return out
}

// countSteps returns how many steps run in all, or some number above the bound: it
// stops counting there, so that nested repeats cannot overflow.
func countSteps(steps []Step) int {
	n := 0
	for _, s := range steps {
		if s.Inner == nil {
			n++
		} else {
			n += s.Times * (1 + countSteps(s.Inner))
		}
		n = min(n, 2*maxSteps)
	}
	return n
}

// number returns a member that is a number from least to most, and otherwise if there
// is none.
func (p *Reader) number(n *Node, name string, otherwise, least, most float64) float64 {
	v := p.typed(n, name, Number)
	if v == nil {
		return otherwise
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || f < least || f > most {
		p.Fail(v, "%q must be a number from %g to %g, not %s", name, least, most, v.Text)
		return otherwise
	}
	return f
}

// duration returns a member that is a number of milliseconds.
// Times of tests are for a fast machine; the runner scales them.
func (p *Reader) duration(n *Node, name string, otherwise time.Duration) time.Duration {
	const ms = float64(time.Millisecond)
	return time.Duration(ms * p.number(n, name, float64(otherwise)/ms, 0, float64(maxTimeout)/ms))
}

func (p *Reader) newSession(n *Node) Action {
	v := p.Object(n, "newSession")
	return &NewSession{
		MCPServers: p.typed(v, "mcpServers", Array),
		Params:     p.Object(v, "params"),
		Capture:    p.Text(v, "capture"),
		Timeout:    p.duration(v, "timeoutMs", 0),
	}
}

// The members expectError and timeoutMs may stand in the frame, from where they are
// taken out before it is sent, or beside it.
func (p *Reader) send(n *Node) Action {
	v := p.Object(n, "send")
	if v == nil {
		return nil
	}
	return &Send{
		Frame:        v.without("expectError", "timeoutMs"),
		WhileWaiting: n.Get("whileWaiting"),
		WantError:    p.flag(v, "expectError") || p.flag(n, "expectError"),
		Timeout:      p.duration(n, "timeoutMs", p.duration(v, "timeoutMs", DefaultTimeout)),
	}
}

func (p *Reader) sendRaw(n *Node) Action {
	v := p.Object(n, "sendRaw")
	s := &SendRaw{Text: p.typed(v, "text", String)}
	if b := p.typed(v, "base64", String); b != nil {
		var err error
		if s.Data, err = base64.StdEncoding.DecodeString(b.Text); err != nil {
			p.Fail(b, "not base64: %v", err)
		}
	}
	s.Times = int(p.number(v, "times", 1, 0, 1<<20))
	return s
}

func (p *Reader) expect(n *Node) Action {
	v := p.Object(n, "expect")
	return &Expect{Timeout: p.duration(v, "timeoutMs", DefaultTimeout), Ordered: p.flag(v, "ordered"), Until: p.until(v), Messages: p.messages(v), Captures: p.captures(v)}
}

// messages reads the frames that a step waits for, or forbids.
func (p *Reader) messages(n *Node) (out []*Expectation) {
	for m := range p.each(n, "messages") {
		out = append(out, p.expectation(m))
	}
	return out
}

// expectation reads the description of one frame.
// An error leaves an expectation that can be used without a check for nil.
func (p *Reader) expectation(n *Node) *Expectation {
	e := &Expectation{
		Keep: n.Get("consume") != nil && !p.flag(n, "consume"), absent: p.Texts(n, "absent"), unlike: p.Object(n, "unlike"),
		Hold: p.Text(n, "hold"), Captures: p.captures(n),
	}

	for either := range p.each(n, "anyOf") {
		e.anyOf = append(e.anyOf, either)
	}

	if end := p.Object(n, "turnEnd"); end != nil {
		e.Class, e.Body = p.turnEnd(end)
		return e
	}

	// The body is under the name of the message's class.
	for _, class := range []MessageClass{Response, Notification, ClientRequest} {
		v := p.Object(n, string(class))
		if v == nil {
			continue
		}
		if e.Body != nil {
			p.Fail(v, "an expected message can only be one of response, notification and clientRequest")
		}
		e.Class, e.Body = class, v
	}
	if e.Body == nil {
		p.Fail(n, "an expected message needs a response, a notification or a clientRequest")
		e.Body = n
	}

	// The reply may stand beside the body or in it.
	if e.Class == ClientRequest {
		e.Reply = n.Get("reply")
		if inner := e.Body.Get("reply"); inner != nil {
			e.Reply, e.Body = inner, e.Body.without("reply")
		}
	}

	literals(e.Body, func(n *Node, err error) {
		p.remark(n, "%q is compared literally because it is not a valid regular expression: %v", n.Text, err)
	})
	return e
}

// turnEnd returns the message that ends a turn. In version 1 it is the answer to the prompt
// with the given id; in version 2, whose prompts are answered at once, it is the update that
// the session is idle.
func (p *Reader) turnEnd(n *Node) (MessageClass, *Node) {
	object := func(members ...Member) *Node { return &Node{line: n.line, Kind: Object, members: members} }
	word := func(text string) *Node { return &Node{line: n.line, Kind: String, Text: text} }
	reason := n.Get("stopReason")
	if n.Get("id") == nil || n.Get("session") == nil {
		p.Fail(n, `"turnEnd" needs the "id" of a prompt and its "session"`)
		return Response, n
	}

	if string(p.vars[varVersion]) != "2" {
		answer := object(Member{"id", n.Get("id")})
		if reason != nil {
			answer.members = append(answer.members, Member{"result", object(Member{"stopReason", reason})})
		}
		return Response, answer
	}

	if reason == nil {
		reason = word(".")
	}
	update := object(Member{"sessionUpdate", word("^state_update$")}, Member{"state", word("^idle$")}, Member{"stopReason", reason})
	params := object(Member{"sessionId", word("^" + p.textAsIs(n, "session") + "$")}, Member{"update", update})
	return Notification, object(Member{"method", word("^session/update$")}, Member{"params", params})
}

// until reads the description of the frame that ends a wait before its time.
func (p *Reader) until(n *Node) *Expectation {
	v := p.Object(n, "until")
	if v == nil {
		return nil
	}
	return p.expectation(v)
}

func (p *Reader) captures(n *Node) (out []Capture) {
	for c := range p.each(n, "captures") {
		out = append(out, Capture{p.Text(c, "path"), p.Text(c, "var")})
		if last := out[len(out)-1]; last.Path == "" || !variable().MatchString("${"+last.Name+"}") {
			p.Fail(c, `a capture needs a "path" and a "var" with a valid name`)
		}
	}
	return out
}

func (p *Reader) forbid(n *Node) Action {
	v := p.Object(n, "forbid")
	return &Forbid{Timeout: p.duration(v, "timeoutMs", DefaultTimeout), Methods: p.Texts(v, "methods"), Messages: p.messages(v), Full: p.flag(v, "full"), Until: p.until(v)}
}

func (p *Reader) delay(n *Node) Action { return Delay(p.duration(n, "delayMs", 0)) }

func (p *Reader) process(n *Node) Action {
	v := p.Object(n, "process")
	x := &Process{CloseInput: p.flag(v, "closeInput"), Terminate: p.flag(v, "terminate"), ExitCode: v.Get("exitCode"), Restart: p.flag(v, "restart"), Alone: p.flag(v, "alone"), ReadableStderr: p.flag(v, "readableStderr")}
	if v.Get("exitsWithinMs") != nil {
		x.Exits, x.Within = true, p.duration(v, "exitsWithinMs", 0)
	}
	return x
}

// sendsInitialize reports whether the test itself opens the conversation, so that the
// runner must not.
// A test that sends its own initialize, even inside of a repeat, is manual.
func sendsInitialize(s Step) bool {
	if slices.ContainsFunc(s.Inner, sendsInitialize) {
		return true
	}
	out, ok := s.Action.(*Send)
	if !ok || out == nil {
		return false
	}
	method := out.Frame.Get("method")
	return method != nil && method.Text == "initialize"
}

func (p *Reader) reply(n *Node) Action {
	v := p.Object(n, "reply")
	x := &Reply{To: p.Text(v, "to"), Body: v.without("to")}
	if x.To == "" || (v.Get("result") == nil && v.Get("error") == nil) {
		p.Fail(v, `a reply needs "to", the name of a held request, and a "result" or an "error"`)
	}
	return x
}

func (p *Reader) check(n *Node) Action {
	v := p.Object(n, "check")
	x := &Check{v.Get("value"), v.Get("like"), v.Get("unlike")}
	if x.Value == nil || (x.Like == nil && x.Unlike == nil) {
		p.Fail(n, `a check needs a "value" and a pattern in "like" or "unlike"`)
	}
	return x
}

// A path may name a variable such as the folder for temporary files, so it is
// expanded when the step runs.
func (p *Reader) fileCheck(n *Node) Action {
	v := p.Object(n, "file")
	x := &FileCheck{Path: p.textAsIs(v, "path"), Is: p.textAsIs(v, "is"), Absent: p.flag(v, "absent"), Like: p.typed(v, "text", String), Unlike: p.typed(v, "unlike", String), Timeout: p.duration(v, "timeoutMs", 0)}
	if x.Path == "" {
		p.Fail(n, `a file step needs a "path"`)
	}
	return x
}

// textAsIs returns a member that is a string; its variables are replaced when it is
// used.
func (p *Reader) textAsIs(n *Node, name string) string {
	if v := p.typed(n, name, String); v != nil {
		return v.Text
	}
	return ""
}
