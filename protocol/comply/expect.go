package comply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// An openExpectation is an expectation in one run of a test.
type openExpectation struct {
	*jsont.Expectation
	local jsont.Variables // the variables of the repeat around the step; may be nil

	matcher *jsont.Matcher // nil until needed, and after a variable has changed
	met     *rules.Entry   // the frame that met it; nil while none has
	closed  bool           // its step is over
}

// bound returns the matcher for the current variables.
func (x *openExpectation) bound(vars jsont.Variables) *jsont.Matcher {
	if x.matcher == nil {
		x.matcher = x.Bind(vars.Join(x.local))
	}
	return x.matcher
}

// fits reports whether e meets the expectation.
// An entry has several views if it is a part of a streamed message: the piece
// itself, and the text so far.
func (x *openExpectation) fits(e *rules.Entry, vars jsont.Variables) bool {
	if e.Direction != jsonrpc.In || e.Class != x.Class {
		return false
	}
	m := x.bound(vars)
	return slices.ContainsFunc(e.Views(), func(v any) bool { return m.Match(v) == nil })
}

// take records e as the frame that met the expectation.
func (x *openExpectation) take(e *rules.Entry) {
	x.met = e
	e.Taken, e.Judged = e.Taken || !x.Keep, true
}

// An untilFrame is the frame that ends a wait before its time, such as the answer
// to a prompt: a frame that comes later does not belong to that turn. A nil
// *untilFrame never comes.
type untilFrame struct {
	openExpectation
	from int // frames up to this number are too old, unless they are responses
}

// untilFrame returns the frame that ends the current step, nil if there is none.
func (r *testRun) untilFrame(x *jsont.Expectation) *untilFrame {
	if x == nil {
		return nil
	}
	return &untilFrame{openExpectation{Expectation: x, local: r.now.local}, r.since()}
}

// see compares the next entry of the log. The conversation's lock is held.
func (u *untilFrame) see(e *rules.Entry, vars jsont.Variables) {
	if u == nil || u.met != nil {
		return
	}
	isNew := e.Class == jsont.Response || e.Seq > u.from
	if isNew && u.fits(e, vars) {
		u.met = e
	}
}

// came reports whether the frame has come.
func (u *untilFrame) came() bool { return u != nil && u.met != nil }

// An assignment gives frames to the expectations of one expect step, so that as
// many expectations as possible are met.
//
// Expectations may overlap: of "any update" and "an update with text" the frame
// with text must go to the second, in whatever order the two came. Unordered
// expectations are therefore a bipartite matching, found with augmenting paths:
// an expectation that finds its frames owned asks each owner for another one. The
// invariant is that a frame has at most one owner and an expectation, once placed,
// never loses its place. With e expectations and f candidate frames one assign
// costs at most e*e*f steps; it runs again for each frame that comes, over
// candidates that were compared once. Ordered expectations take the earliest
// candidate after the one before them, which is optimal for a chain.
type assignment struct {
	c          *conversation
	ordered    bool
	until      *untilFrame // may be nil
	list       []*openExpectation
	compared   int // this many entries of the log were compared
	candidates map[*openExpectation][]*rules.Entry
}

// update compares the new entries of the log. It reports whether the wait is
// over: all expectations are met, one never can be, or the until frame has come.
// The conversation's lock is held.
func (a *assignment) update() bool {
	for _, e := range a.c.log[a.compared:] {
		if a.until.came() {
			break
		}
		for _, x := range a.list {
			if x.met == nil && !e.Taken && x.fits(e, a.c.vars) {
				a.candidates[x] = append(a.candidates[x], e)
			}
		}
		a.until.see(e, a.c.vars)
	}
	a.compared = len(a.c.log)
	return a.until.came() || len(a.assign()) == len(a.list) || slices.ContainsFunc(a.list, a.hopeless)
}

// assign returns the frame of each expectation, without those that get none.
func (a *assignment) assign() map[*openExpectation]*rules.Entry {
	got := map[*openExpectation]*rules.Entry{}
	if a.ordered {
		// Greedy is right for a chain: an earlier frame never blocks a later expectation.
		last := 0
		for _, x := range a.list {
			e := x.met
			for _, candidate := range a.candidates[x] {
				if e == nil && candidate.Seq > last {
					e = candidate
				}
			}
			if e == nil || e.Seq <= last {
				return got
			}
			got[x], last = e, e.Seq
		}
		return got
	}

	owner := map[*rules.Entry]*openExpectation{}
	for _, x := range a.list {
		switch {
		case x.met != nil:
			got[x] = x.met
		// A frame that is kept needs no owner.
		case x.Keep && len(a.candidates[x]) > 0:
			got[x] = a.candidates[x][0]
		case !x.Keep:
			a.place(x, owner, map[*rules.Entry]bool{})
		}
	}

	for e, x := range owner {
		got[x] = e
	}
	return got
}

// place finds a frame for x, and moves other owners to another frame if they have
// one. It reports whether x has a frame. Each frame is tried once per call.
func (a *assignment) place(x *openExpectation, owner map[*rules.Entry]*openExpectation, tried map[*rules.Entry]bool) bool {
	for _, e := range a.candidates[x] {
		if tried[e] || e.Taken {
			continue
		}
		tried[e] = true
		if other := owner[e]; other == nil || a.place(other, owner, tried) {
			owner[e] = x
			return true
		}
	}
	return false
}

// hopeless reports whether x is about the response to a request that already has
// another response. A request has one, so there is nothing to wait for.
func (a *assignment) hopeless(x *openExpectation) bool {
	if x.met != nil || len(a.candidates[x]) > 0 {
		return false
	}
	about := a.about(x)
	return len(about) > 0 && !slices.ContainsFunc(about, func(q *request) bool { return q.Answer == nil })
}

// about returns the requests whose responses x is about.
func (a *assignment) about(x *openExpectation) (out []*request) {
	id := x.Body.Get("id")
	if x.Class != jsont.Response || id == nil {
		return nil
	}
	// Ids are compared as patterns, because a test may write them so.
	wanted := jsont.NewPattern(id, a.c.vars.Join(x.local))
	for _, q := range a.c.requests {
		if sent, _ := jsont.Lookup(q.Request.Value, "id"); q.step != nil && wanted.Match(sent) == nil {
			out = append(out, q)
		}
	}
	return out
}

// close ends the step's wait: it records the frames and returns the expectations
// that got none. The conversation's lock is held.
func (a *assignment) close() (missing []*openExpectation) {
	got := a.assign()
	for _, x := range a.list {
		x.closed = true
		if e := got[x]; e != nil {
			x.take(e)
			continue
		}
		missing = append(missing, x)
		for _, q := range a.about(x) {
			if q.Answer != nil {
				q.Answer.Judged = true
			}
		}
	}
	return missing
}

// expect waits for the frames of a step, then captures values from them. It fails with the
// first expectation that no frame has met.
func (r *testRun) expect(ctx context.Context, step *jsont.Expect) *rules.Finding {
	c := r.c
	a := &assignment{c: c, ordered: step.Ordered, until: r.untilFrame(step.Until), list: r.now.expectations, candidates: map[*openExpectation][]*rules.Entry{}}
	wait := r.patience(step.Timeout)
	err := c.wait(ctx, wait, a.update)
	if ctx.Err() != nil {
		return r.abort(ctx.Err())
	}
	c.mu.Lock()
	a.update() // with frames that came after the wait and before the lock
	missing := a.close()
	r.met += len(a.list) - len(missing)
	c.mu.Unlock()
	if len(missing) > 0 {
		return r.missing(step, a, missing[0], wait, err)
	}
	return r.capture(step, a.list)
}

// missing returns the finding about an expectation that no frame has met. It names
// the frame of the same class that matched the most leaves of the pattern.
// It tries to explain the absence before it states it, in this order: a login is
// missing, another rule was broken by the answer, the agent was given too little
// time. Each of these would otherwise look like a violation of the rule of the
// test.
func (r *testRun) missing(step *jsont.Expect, a *assignment, x *openExpectation, waited time.Duration, why error) *rules.Finding {
	ended := ""
	if why != nil && !errors.Is(why, errTimeout) {
		ended = "; " + r.endingText(why)
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()

	// An answer to one of its requests explains it, or is the frame that should have met it.
	asked := a.about(x)
	answers := map[*rules.Entry]bool{} // to them, and whether they can be near
	for _, q := range asked {
		if q.Answer == nil {
			continue
		}
		answers[q.Answer] = !q.Answer.Taken
		if r.wantsLogin(q.Request.Method, q.Answer) {
			r.moot = needsLogin
			return nil
		}
		if f := r.cause(x, q); f != nil {
			return f
		}
	}
	unanswered := len(asked) > 0 && len(answers) == 0
	if unanswered && a.until.came() && r.allowed.soon(asked[0]) {
		r.moot = fmt.Sprintf("the wait ended before the agent, at its speed, could answer %s", asked[0].Request.Method)
		return nil
	}

	m := x.bound(r.c.vars)
	var actual string
	var frames []*rules.Entry
	if unanswered {
		actual = "the request has no answer"
		frames = append(frames, asked[0].Request)
	} else {
		actual, frames = r.instead(step, x, m, answers)
	}
	f := r.finding(r.now.step, fmt.Sprintf("within %v, %s", rounded(waited), m), actual+ended, frames...)
	f.Timed = errors.Is(why, errTimeout)
	return f
}

// instead describes the frame that came nearest to an expectation, with the request that it
// answers; if there is none, the last request of the test. If answers has any, no other frame
// is near.
func (r *testRun) instead(step *jsont.Expect, x *openExpectation, m *jsont.Matcher, answers map[*rules.Entry]bool) (actual string, frames []*rules.Entry) {
	own := map[*rules.Entry]bool{} // answers to requests of the runner, which no test is about
	var last *request              // of the test
	for _, q := range r.c.requests {
		own[q.Answer] = q.step == nil
		if q.step != nil {
			last = q
		}
	}

	// A message that nearly matched explains more than the silence does.
	if near, mismatch := r.nearest(x, m, own, last, answers); near != nil {
		for _, q := range r.c.requests {
			if q.Answer == near {
				frames = append(frames, q.Request)
			}
		}
		return fmt.Sprintf("in the closest message %s", mismatch), append(frames, near)
	}

	actual = "no such message came"
	if step.Ordered {
		actual = "no such message came after the previous ones"
	}
	if last != nil {
		frames = append(frames, last.Request)
		if last.Answer != nil {
			frames = append(frames, last.Answer)
		}
	}
	return actual, frames
}

// nearest returns the frame that matched the most of a pattern, nil if there is none, and
// what it lacks. The later of two equally near frames is the likelier one. An update from
// before the last request of the test is not near.
func (r *testRun) nearest(x *openExpectation, m *jsont.Matcher, own map[*rules.Entry]bool, last *request, answers map[*rules.Entry]bool) (near *rules.Entry, lacks *jsont.Mismatch) {
	for _, e := range r.c.log {
		candidate := e.Direction == jsonrpc.In && e.Class == x.Class && !e.Taken && !own[e]
		early := x.Class == jsont.Notification && last != nil && e.Seq < last.Request.Seq
		otherAnswer := len(answers) > 0 && !answers[e]
		if !candidate || early || otherAnswer {
			continue
		}
		bad := m.Match(e.Value)
		if bad != nil && (lacks == nil || bad.Met >= lacks.Met) {
			near, lacks = e, bad
		}
	}
	return near, lacks
}

// capture gives variables the values that the frames of a step have. A path without a value
// fails a step that names the rule it is about or the reason why a failure is moot; in any
// other step the variable stays unknown.
func (r *testRun) capture(step *jsont.Expect, list []*openExpectation) *rules.Finding {
	fails := r.now.step.Rule != "" || r.now.step.Moot != ""
	for _, x := range list {
		for _, c := range x.Captures {
			if !r.captureFrom(c, x.met) && fails {
				return r.finding(r.now.step, fmt.Sprintf("a value at %s, to go on with", c.Path), "the message has none", x.met)
			}
		}
	}
	// A capture of the whole step takes the first frame that has the path.
	for _, c := range step.Captures {
		if !slices.ContainsFunc(list, func(x *openExpectation) bool { return r.captureFrom(c, x.met) }) && fails {
			return r.finding(r.now.step, fmt.Sprintf("a value at %s, to go on with", c.Path), "none of the messages has one")
		}
	}
	return nil
}

// captureFrom gives a variable the value at a path of e. It reports false if there is none.
func (r *testRun) captureFrom(c jsont.Capture, e *rules.Entry) bool {
	v, ok := r.vars().Lookup(e.Views()[0], c.Path)
	if ok {
		// The second variable has the value as JSON text, for bytes that a test puts together.
		r.c.set(c.Name, jsont.Encode(v))
		r.c.set(c.Name+"JSON", jsont.Encode(string(jsont.Encode(v))))
	}
	return ok
}
