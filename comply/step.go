package comply

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a test may ask for.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 10 * time.Minute
	maxSteps       = 10_000 // repeated ones counted each time
	maxDepth       = 8      // of repeats in repeats
)

// A step is one thing that a test does or waits for.
type step struct {
	rule  string         // what is broken when it fails; "" for what the test is about
	level Level          // how bad that is; "" for what the rule says
	fix   string         // what to do then
	moot  string         // why the test says nothing about the agent if it fails; "" if it does
	when  []precondition // the step is left out unless all of them hold
	action

	times int // how often inner is done
	inner []step
}

// actions are the steps there are. A step has exactly one of these members.
var actions = map[string]func(p *parser, n *node) action{
	"newSession": (*parser).newSession,
	"send":       (*parser).send,
	"expect":     (*parser).expect,
	"forbid":     (*parser).forbid,
	"delayMs":    (*parser).delay,
	"sendRaw":    (*parser).sendRaw,
	"process":    (*parser).process,
	"reply":      (*parser).reply,
	"check":      (*parser).check,
	"file":       (*parser).fileStep,
}

// steps reads the steps of a test, or those of one that repeats them.
func (p *parser) steps(n *node, depth int) (out []step) {
	if depth > maxDepth {
		p.fail(n, "repeats are at most %d deep", maxDepth)
		return nil
	}
	for n := range p.each(n, "steps") {
		if n.kind != isObject {
			p.fail(n, "a step is an object, not %s", n.kind)
			return nil
		}
		s := step{rule: p.text(n, "rule"), fix: p.text(n, "fix"), moot: p.text(n, "moot"), times: 1}
		if level := p.text(n, "level"); level != "" {
			var ok bool
			if s.level, ok = parseLevel(level); !ok {
				p.fail(n.get("level"), "the level is MUST, SHOULD, MAY or ADV, not %q", level)
			}
		}
		for c := range p.each(n, "when") {
			if c, ok := p.precondition(c); ok {
				s.when = append(s.when, c)
			}
		}
		var found []string
		for _, m := range n.members {
			if read, ok := actions[m.name]; ok {
				found = append(found, m.name)
				s.action = read(p, n)
			}
		}
		if v := p.object(n, "repeat"); v != nil {
			found = append(found, "repeat")
			s.inner = p.steps(v, depth+1)
			s.times = int(p.number(v, "times", 1, 0, maxSteps))
		}
		switch len(found) {
		case 0:
			p.remark(n, "the step has no member that is known here, and does nothing")
		case 1:
			out = append(out, s)
		default:
			p.fail(n, "a step does one thing; this one has %s", strings.Join(found, " and "))
		}
	}
	if depth == 0 && countSteps(out) > maxSteps {
		p.fail(n, "a test has at most %d steps, repeated ones counted each time", maxSteps)
	}
	return out
}

// countSteps returns how many steps are done in the end, or somewhat more than
// are allowed.
func countSteps(steps []step) int {
	n := 0
	for _, s := range steps {
		if s.inner == nil {
			n++
		} else {
			n += s.times * (1 + countSteps(s.inner))
		}
		n = min(n, 2*maxSteps)
	}
	return n
}

// number returns a number within bounds, and otherwise if it is not there.
func (p *parser) number(n *node, name string, otherwise, least, most float64) float64 {
	v := p.typed(n, name, isNumber)
	if v == nil {
		return otherwise
	}
	f, err := strconv.ParseFloat(v.text, 64)
	if err != nil || f < least || f > most {
		p.fail(v, "%q must be a number from %g to %g, not %s", name, least, most, v.text)
		return otherwise
	}
	return f
}

// duration returns what a member says in milliseconds.
func (p *parser) duration(n *node, name string, otherwise time.Duration) time.Duration {
	const ms = float64(time.Millisecond)
	return time.Duration(ms * p.number(n, name, float64(otherwise)/ms, 0, float64(maxTimeout)/ms))
}

func (p *parser) newSession(n *node) action {
	v := p.object(n, "newSession")
	return &newSession{
		servers: p.typed(v, "mcpServers", isArray),
		extra:   p.object(v, "params"),
		name:    p.text(v, "capture"),
		timeout: p.duration(v, "timeoutMs", 0),
	}
}

func (p *parser) send(n *node) action {
	v := p.object(n, "send")
	if v == nil {
		return nil
	}
	return &send{
		frame:     v.without("expectError", "timeoutMs"),
		waiting:   n.get("whileWaiting"),
		wantError: p.flag(v, "expectError") || p.flag(n, "expectError"),
		timeout:   p.duration(n, "timeoutMs", p.duration(v, "timeoutMs", defaultTimeout)),
	}
}

func (p *parser) sendRaw(n *node) action {
	v := p.object(n, "sendRaw")
	s := &sendRaw{text: p.typed(v, "text", isString)}
	if b := p.typed(v, "base64", isString); b != nil {
		var err error
		if s.data, err = base64.StdEncoding.DecodeString(b.text); err != nil {
			p.fail(b, "not base64: %v", err)
		}
	}
	s.times = int(p.number(v, "times", 1, 0, 1<<20))
	return s
}

func (p *parser) expect(n *node) action {
	v := p.object(n, "expect")
	e := &expect{timeout: p.duration(v, "timeoutMs", defaultTimeout), ordered: p.flag(v, "ordered"), until: p.until(v), captures: p.captures(v)}
	for m := range p.each(v, "messages") {
		e.messages = append(e.messages, p.envelope(m))
	}
	return e
}

// envelope reads one expected message.
func (p *parser) envelope(n *node) *envelope {
	e := &envelope{
		keep: n.get("consume") != nil && !p.flag(n, "consume"), absent: p.texts(n, "absent"), unlike: p.object(n, "unlike"),
		hold: p.text(n, "hold"), captures: p.captures(n),
	}
	for either := range p.each(n, "anyOf") {
		e.anyOf = append(e.anyOf, either)
	}
	for _, class := range []class{classResponse, classNotification, classRequest} {
		v := p.object(n, string(class))
		if v == nil {
			continue
		}
		if e.body != nil {
			p.fail(v, "an expected message is one of response, notification and clientRequest")
		}
		e.class, e.body = class, v
	}
	if e.body == nil {
		p.fail(n, "an expected message is a response, a notification or a clientRequest")
		e.body = n
	}
	if e.class == classRequest {
		e.reply = n.get("reply")
		if inner := e.body.get("reply"); inner != nil {
			e.reply, e.body = inner, e.body.without("reply")
		}
	}
	literals(e.body, func(n *node, err error) {
		p.remark(n, "%q is compared as it is, because it is no regular expression here: %v", n.text, err)
	})
	return e
}

// until reads the message that ends a window before its time.
func (p *parser) until(n *node) *envelope {
	v := p.object(n, "until")
	if v == nil {
		return nil
	}
	return p.envelope(v)
}

func (p *parser) captures(n *node) (out []capture) {
	for c := range p.each(n, "captures") {
		out = append(out, capture{p.text(c, "path"), p.text(c, "var")})
		if last := out[len(out)-1]; last.path == "" || !variable.MatchString("${"+last.name+"}") {
			p.fail(c, `a capture has a "path" and a "var" that is a name`)
		}
	}
	return out
}

func (p *parser) forbid(n *node) action {
	v := p.object(n, "forbid")
	f := &forbid{timeout: p.duration(v, "timeoutMs", defaultTimeout), methods: p.texts(v, "methods"), full: p.flag(v, "full"), until: p.until(v)}
	for m := range p.each(v, "messages") {
		f.messages = append(f.messages, p.envelope(m))
	}
	return f
}

func (p *parser) delay(n *node) action { return delay(p.duration(n, "delayMs", 0)) }

func (p *parser) process(n *node) action {
	v := p.object(n, "process")
	x := &process{closeInput: p.flag(v, "closeInput"), terminate: p.flag(v, "terminate"), restart: p.flag(v, "restart"), alone: p.flag(v, "alone"), readable: p.flag(v, "readableStderr")}
	if v.get("exitsWithinMs") != nil {
		x.exits, x.within = true, p.duration(v, "exitsWithinMs", 0)
	}
	if code := v.get("exitCode"); code != nil {
		x.code = code
	}
	return x
}

// sendsInitialize reports whether the test itself opens the conversation.
func sendsInitialize(s step) bool {
	if slices.ContainsFunc(s.inner, sendsInitialize) {
		return true
	}
	out, ok := s.action.(*send)
	if !ok || out == nil {
		return false
	}
	method := out.frame.get("method")
	return method != nil && method.text == methodInitialize
}
