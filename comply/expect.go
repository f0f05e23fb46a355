package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/jsonrpc"
)

// An expect step waits until all its messages have come.
type expect struct {
	timeout  time.Duration
	ordered  bool      // they must come in this order
	until    *envelope // nothing counts that comes after it; may be nil
	messages []*envelope
	captures []capture
}

// An envelope is one expected message.
type envelope struct {
	class    class
	body     *node
	absent   []string // paths at which nothing may be
	unlike   *node    // a pattern that must not match; may be nil
	anyOf    []*node  // patterns of which one must match; empty for none
	reply    *node    // what to answer a request with; nil for what the services say
	hold     string   // the name under which a request waits for a reply step; "" to answer it
	keep     bool     // the frame that meets it may meet others, too
	captures []capture
}

// A capture gives a variable the value at a path of a message.
type capture struct{ path, name string }

// An awaited is an expected message in one run of a test.
type awaited struct {
	*envelope
	local variables // those of the repeat it stands in; may be nil

	pattern *pattern // nil until needed, and after a variable has changed
	met     *entry   // the frame that met it
	closed  bool     // its step is over
}

// scope returns the variables that it sees.
func (a *awaited) scope(vars variables) variables {
	for name, value := range a.local {
		vars = vars.with(name, value)
	}
	return vars
}

// try returns nil if e is what is awaited, else where it is not.
func (a *awaited) try(e *entry, vars variables) *mismatch {
	if a.pattern == nil {
		a.pattern = newPattern(a.body, a.scope(vars))
	}
	if bad := a.pattern.match(e.value); bad != nil {
		return bad
	}
	for _, path := range a.absent {
		if v, ok := lookup(e.value, path); ok {
			return &mismatch{path: path, want: "absent", got: brief(v)}
		}
	}
	fits := func(n *node) bool { return newPattern(n, a.scope(vars)).match(e.value) == nil }
	if len(a.anyOf) > 0 && !slices.ContainsFunc(a.anyOf, fits) {
		return &mismatch{want: "like one of " + strconv.Itoa(len(a.anyOf)) + " patterns", got: "like none of them"}
	}
	if a.unlike != nil {
		if p := newPattern(a.unlike, a.scope(vars)); p.match(e.value) == nil {
			return &mismatch{want: "unlike it", got: "like " + p.String()}
		}
	}
	return nil
}

// take notes that e is what was awaited.
func (a *awaited) take(e *entry) {
	a.met = e
	e.taken, e.judged = e.taken || !a.keep, true
}

func (a *awaited) String() string {
	names := map[class]string{classResponse: "a response", classNotification: "a notification", classRequest: "a request"}
	s := names[a.class] + " like " + a.pattern.String()
	if len(a.absent) > 0 {
		s += " without " + strings.Join(a.absent, ", ")
	}
	return cut(s, 500)
}

// A window gives frames to the messages of an expect step so that as many as
// possible are met.
type window struct {
	c       *conversation
	ordered bool
	until   *limit // may be nil
	list    []*awaited
	looked  int // so many entries of the log were looked at
	fits    map[*awaited][]*entry
}

// look takes in what is new in the log. It reports whether every message has
// come, or one never can. The conversation's lock is held.
func (w *window) look() bool {
	for _, e := range w.c.log[w.looked:] {
		if w.until.passed() {
			break
		}
		if e.dir != jsonrpc.In {
			continue
		}
		for _, a := range w.list {
			if a.met == nil && a.class == e.class && !e.taken && a.try(e, w.c.vars) == nil {
				w.fits[a] = append(w.fits[a], e)
			}
		}
		w.until.see(e, w.c.vars)
	}
	w.looked = len(w.c.log)
	return w.until.passed() || len(w.assign()) == len(w.list) || slices.ContainsFunc(w.list, w.hopeless)
}

// assign returns which frame each message gets, without those that get none.
func (w *window) assign() map[*awaited]*entry {
	got := map[*awaited]*entry{}
	if w.ordered {
		last := 0
		for _, a := range w.list {
			e := a.met
			for _, fit := range w.fits[a] {
				if e == nil && fit.seq > last {
					e = fit
				}
			}
			if e == nil || e.seq <= last {
				return got
			}
			got[a], last = e, e.seq
		}
		return got
	}
	owner := map[*entry]*awaited{}
	for _, a := range w.list {
		switch {
		case a.met != nil:
			got[a] = a.met
		case a.keep && len(w.fits[a]) > 0:
			got[a] = w.fits[a][0]
		case !a.keep:
			w.place(a, owner, map[*entry]bool{})
		}
	}
	for e, a := range owner {
		got[a] = e
	}
	return got
}

// place finds a frame for a, moving others to another frame if they have one.
func (w *window) place(a *awaited, owner map[*entry]*awaited, tried map[*entry]bool) bool {
	for _, e := range w.fits[a] {
		if tried[e] || e.taken {
			continue
		}
		tried[e] = true
		if other := owner[e]; other == nil || w.place(other, owner, tried) {
			owner[e] = a
			return true
		}
	}
	return false
}

// hopeless reports whether a is the response to a request that was answered
// otherwise: a request has one response, so there is nothing to wait for.
func (w *window) hopeless(a *awaited) bool {
	if a.met != nil || len(w.fits[a]) > 0 {
		return false
	}
	about := w.about(a)
	return len(about) > 0 && !slices.ContainsFunc(about, func(q *asked) bool { return q.answer == nil })
}

// about returns the requests whose responses a is about.
func (w *window) about(a *awaited) (out []*asked) {
	id := a.body.get("id")
	if a.class != classResponse || id == nil {
		return nil
	}
	wanted := newPattern(id, a.scope(w.c.vars))
	for _, q := range w.c.asked {
		if sent, _ := lookup(q.entry.value, "id"); q.step != nil && wanted.match(sent) == nil {
			out = append(out, q)
		}
	}
	return out
}

// settle closes the window: it notes who got what and returns who got nothing.
// The conversation's lock is held.
func (w *window) settle() (missing []*awaited) {
	got := w.assign()
	for _, a := range w.list {
		a.closed = true
		if e := got[a]; e != nil {
			a.take(e)
		} else {
			missing = append(missing, a)
			for _, q := range w.about(a) {
				if q.answer != nil {
					q.answer.judged = true
				}
			}
		}
	}
	return missing
}

func (x *expect) play(ctx context.Context, s *stage) *Finding {
	c := s.c
	w := &window{c: c, ordered: x.ordered, until: s.limit(x.until), list: s.now.awaited, fits: map[*awaited][]*entry{}}
	err := c.wait(ctx, s.scaled(x.timeout), w.look)
	if ctx.Err() != nil {
		return s.abort(ctx.Err())
	}
	c.mu.Lock()
	missing := w.settle()
	s.met += len(w.list) - len(missing)
	c.mu.Unlock()
	if len(missing) > 0 {
		return s.missed(x, w, missing[0], err)
	}
	return s.capture(x, w.list)
}

// missed says what is known about a message that did not come.
func (s *stage) missed(x *expect, w *window, a *awaited, why error) *Finding {
	ended := ""
	if why != nil && !errors.Is(why, errTimeout) {
		ended = "; " + s.endingText(why)
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if a.pattern == nil {
		a.pattern = newPattern(a.body, a.scope(s.c.vars))
	}
	for _, q := range w.about(a) {
		if q.answer != nil {
			if f := s.cause(a, q); f != nil {
				return f
			}
		}
	}
	var near *entry
	var nearest *mismatch
	own := map[*entry]bool{} // answers to what the runner asked by itself
	for _, q := range s.c.asked {
		own[q.answer] = q.step == nil
	}
	for _, e := range s.c.log {
		if e.dir != jsonrpc.In || e.class != a.class || e.taken || own[e] {
			continue
		}
		if bad := a.try(e, s.c.vars); bad != nil && (nearest == nil || bad.met >= nearest.met) {
			near, nearest = e, bad
		}
	}
	actual := "no such message came"
	var frames []*entry
	if near != nil {
		actual = fmt.Sprintf("in the nearest message %s", nearest)
		for _, q := range s.c.asked {
			if q.answer == near {
				frames = append(frames, q.entry)
			}
		}
		frames = append(frames, near)
	}
	if x.ordered && near == nil {
		actual = "no such message came after the ones before it"
	}
	return s.finding(s.now.step, fmt.Sprintf("within %v, %s", s.scaled(x.timeout), a), actual+ended, frames...)
}

// capture gives variables the values that the messages of a step have.
func (s *stage) capture(x *expect, list []*awaited) *Finding {
	for _, a := range list {
		for _, c := range a.captures {
			if !s.captureFrom(c, a.met) {
				return s.finding(s.now.step, fmt.Sprintf("a value at %s, to go on with", c.path), "there is none", a.met)
			}
		}
	}
	for _, c := range x.captures {
		if !slices.ContainsFunc(list, func(a *awaited) bool { return s.captureFrom(c, a.met) }) {
			return s.finding(s.now.step, fmt.Sprintf("a value at %s, to go on with", c.path), "none of the messages has one")
		}
	}
	return nil
}

func (s *stage) captureFrom(c capture, e *entry) bool {
	path := parts(c.path)
	for i := range path {
		path[i] = s.vars().expand(path[i])
	}
	v, ok := find(e.value, path)
	if ok {
		s.c.set(c.name, json.RawMessage(encoded(v)))
	}
	return ok
}
