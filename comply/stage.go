package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/acp/schema"
)

// The rules that are broken when an agent does not get as far as the test.
const (
	ruleInitialize = "INIT-01"
	ruleNewSession = "SNEW-01"
	ruleAnswer     = "RPC-03"
	ruleID         = "RPC-02"
)

// A planned step is a step at its place in one run.
type planned struct {
	step    *step
	local   variables  // of the repeat it stands in; may be nil
	awaited []*awaited // for an expect step
}

// plan lists the steps in the order in which they are done, without those that
// apply says are left out.
func plan(steps []step, apply func(*step) bool, local variables) (out []*planned) {
	for i := range steps {
		s := &steps[i]
		if !apply(s) {
			continue
		}
		if s.action == nil {
			for n := range s.times {
				out = append(out, plan(s.inner, apply, variables{"n": encoded(n + 1)})...)
			}
			continue
		}
		p := &planned{step: s, local: local}
		if x, ok := s.action.(*expect); ok {
			for _, e := range x.messages {
				p.awaited = append(p.awaited, &awaited{envelope: e, local: local})
			}
		}
		out = append(out, p)
	}
	return out
}

// A stage is where one test is played.
type stage struct {
	test     *Test
	version  schema.Version
	dir      string // the workspace
	open     func(context.Context) (*room, error)
	room     *room         // the agent that runs
	c        *conversation // with that
	spoken   []spoken      // what was said to agents that have ended
	scale    float64       // of timeouts
	patience time.Duration // for what the runner itself asks
	applies  func(*step) bool

	now      *planned
	lastSend int // so many entries were in the log before the last step that sent something
	met      int // expectations that were met
	leaving  bool
	findings []Finding
	moot     string // why the test says nothing about the agent; "" if it does
	err      error  // why the test could not be played
}

// play plays the whole test.
func (s *stage) play(ctx context.Context) {
	steps := plan(s.test.steps, s.applies, nil)
	s.c.mu.Lock()
	for _, p := range steps {
		s.c.awaited = append(s.c.awaited, p.awaited...)
	}
	s.c.mu.Unlock()
	if !s.test.manual {
		if f := s.initialize(ctx); f != nil {
			s.add(f)
			return
		}
	}
	for _, p := range steps {
		s.now = p
		if f := p.step.play(ctx, s); f != nil {
			if p.step.moot != "" && s.c.state() == nil {
				s.giveUp(ctx, p.step.moot)
				return
			}
			s.add(f)
			if f.Level == Must {
				return
			}
		}
		if s.err != nil || s.moot != "" {
			return
		}
	}
	s.judgeAnswers(ctx)
	if over := s.c.state(); over != nil && !s.leaving && s.err == nil {
		s.add(newFinding(Rule{ID: s.test.ID, Level: Must, Fix: "look at its standard error for the reason"}, s.test, "an agent that runs until its input ends", s.endingText(over)))
	}
}

// giveUp ends a test that cannot come to its point. Requests must be answered
// all the same, unless one of the agent's own still waits.
func (s *stage) giveUp(ctx context.Context, why string) {
	s.moot = why
	s.c.mu.Lock()
	held := len(s.c.held)
	s.c.mu.Unlock()
	if held == 0 {
		s.awaitAnswers(ctx)
	}
}

// initialize opens the conversation as the protocol wants.
func (s *stage) initialize(ctx context.Context) *Finding {
	answer, err := s.c.call(ctx, methodInitialize, initializeParams(s.version, s.vars()), s.patience)
	switch {
	case ctx.Err() != nil:
		return s.abort(ctx.Err())
	case answer == nil:
		return s.setup(ruleInitialize, "an answer to initialize", s.endingText(err))
	case answer.failure() != nil:
		return s.setup(ruleInitialize, "a result of initialize", "initialize failed: "+brief(answer.failure()), answer)
	}
	return nil
}

func initializeParams(version schema.Version, vars variables) map[string]any {
	info := map[string]any{"name": "parley-comply", "title": "Parley compliance tests", "version": "1.0.0"}
	if version == schema.V1 {
		return map[string]any{"protocolVersion": int(version), "clientCapabilities": vars[varCapabilities], "clientInfo": info}
	}
	return map[string]any{"protocolVersion": int(version), "capabilities": vars[varCapabilities], "info": info}
}

// judgeAnswers waits for what was asked and not answered yet, and judges answers
// that no expectation has taken. Of an agent that has ended no answers are
// wanted: that it ended is judged on its own.
func (s *stage) judgeAnswers(ctx context.Context) {
	if !s.awaitAnswers(ctx) {
		return
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for _, q := range s.c.asked {
		if q.step == nil || q.answer == nil || q.answer.judged {
			continue
		}
		switch failed := q.answer.failure(); {
		case failed != nil && !q.wantError:
			s.add(s.refused(q, brief(failed)))
		case failed == nil && q.wantError:
			s.add(s.finding(q.step, q.entry.method+" fails", "it succeeded", q.entry, q.answer))
		}
	}
}

// awaitAnswers waits for the answers to all requests. It reports false if the
// test ends meanwhile.
func (s *stage) awaitAnswers(ctx context.Context) bool {
	for _, q := range s.unanswered() {
		rest := max(0, time.Until(q.deadline))
		var twisted *entry // its answer, with an id of another type
		err := s.c.wait(ctx, rest, func() bool {
			twisted = s.c.twisted(q)
			return q.answer != nil || twisted != nil
		})
		switch {
		case ctx.Err() != nil:
			s.abort(ctx.Err())
			return false
		case twisted != nil:
			s.add(s.setup(ruleID, "a response with the id of its request", fmt.Sprintf("the id %s came back as %s", q.entry.id, twisted.id), q.entry, twisted))
		case errors.Is(err, errTimeout) && q.step.moot != "":
			s.moot = q.step.moot
		case errors.Is(err, errTimeout):
			s.add(s.setup(ruleAnswer, "an answer to every request", fmt.Sprintf("%s was not answered in time", q.entry.method), q.entry))
		}
	}
	return true
}

// refused returns that a request failed which should not have. Unless the step
// names a rule it is not held against the one that the test is about.
func (s *stage) refused(q *asked, failed string) *Finding {
	r := ruleOf(q.step.rule)
	if r.ID == "" {
		r.ID = s.test.ID
	}
	return newFinding(r, s.test, q.entry.method+" succeeds", "it failed: "+failed, q.entry, q.answer)
}

// vars returns the variables that the step at hand sees.
func (s *stage) vars() variables {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	vars := s.c.vars
	if s.now != nil {
		for name, value := range s.now.local {
			vars = vars.with(name, value)
		}
	}
	return vars
}

// mark notes that a step is about to send something.
func (s *stage) mark() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.lastSend = len(s.c.log)
}

// since returns from which entry on a forbidden call counts: since the last step
// that sent something, or the first request that is not answered yet.
func (s *stage) since() int {
	from := s.lastSend
	for _, q := range s.unanswered() {
		from = min(from, q.entry.seq)
	}
	return from
}

// unanswered returns the requests of the test that still wait for an answer.
func (s *stage) unanswered() []*asked {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.c.asked), func(q *asked) bool { return q.step == nil || q.answer != nil })
}

// waits reports whether a request of the test with that id still waits for its
// answer.
func (s *stage) waits(id json.RawMessage) bool {
	return slices.ContainsFunc(s.unanswered(), func(q *asked) bool { return idKey(q.entry.id) == idKey(id) })
}

func (s *stage) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * s.scale) }

// abort notes why the test cannot be played on. It returns nil: that is no fault
// of the agent.
func (s *stage) abort(err error) *Finding {
	s.err = err
	return nil
}

func (s *stage) add(f *Finding) {
	if f != nil {
		s.findings = append(s.findings, *f)
	}
}

// endingText says for people why nothing more comes.
func (s *stage) endingText(err error) string {
	if over := s.c.state(); over != nil {
		return "the agent ended too early: " + ending(over)
	}
	return ending(err)
}

// finding returns what is wrong at a step, under the rule that the step or the
// test is about.
func (s *stage) finding(st *step, expected, actual string, proof ...*entry) *Finding {
	id := st.rule
	if id == "" && len(s.test.Rules) > 0 {
		id = s.test.Rules[0]
	}
	r := ruleOf(id)
	if id == "" {
		r.ID = s.test.ID
	}
	if st.level != "" {
		r.Level = st.level
	}
	if st.fix != "" {
		r.Fix = st.fix
	}
	return newFinding(r, s.test, expected, actual, proof...)
}

// setup returns what kept the agent from getting to what the test is about.
func (s *stage) setup(rule, expected, actual string, proof ...*entry) *Finding {
	return newFinding(ruleOf(rule), s.test, expected, actual, proof...)
}

func newFinding(r Rule, t *Test, expected, actual string, proof ...*entry) *Finding {
	f := &Finding{Rule: r.ID, Level: r.Level, Expected: expected, Actual: actual, Fix: r.Fix, Frames: []Frame{}, Docs: []string{}}
	if f.Fix == "" {
		f.Fix = "compare the frames with what was expected; the linked pages say what the protocol asks for"
	}
	if r.Docs != "" {
		f.Docs = append(f.Docs, r.Docs)
	} else {
		f.Docs = append(f.Docs, t.Docs...)
	}
	for _, e := range proof {
		f.Frames = append(f.Frames, e.frame())
	}
	return f
}
