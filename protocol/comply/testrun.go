package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// The rules that an agent breaks before it gets to the point of a test.
const (
	ruleInitialize = "INIT-01"
	ruleNewSession = "SNEW-01"
	ruleAnswer     = "RPC-03"
	ruleID         = "RPC-02"
	ruleGoesOn     = "RPC-11"
)

// A stepRun is a step at its place in one run of a test.
type stepRun struct {
	step         *jsont.Step
	local        jsont.Variables    // the variables of the repeat around it; may be nil
	expectations []*openExpectation // of an expect step
}

// plan lists the steps in the order in which they run, repetitions unrolled. It
// leaves out the steps that apply refuses.
// The variable n counts the rounds of the innermost repeat, from 1.
func plan(steps []jsont.Step, apply func(*jsont.Step) bool, local jsont.Variables) (out []*stepRun) {
	for i := range steps {
		s := &steps[i]
		if !apply(s) {
			continue
		}
		if s.Action == nil {
			for n := range s.Times {
				out = append(out, plan(s.Inner, apply, jsont.Variables{"n": jsont.Encode(n + 1)})...)
			}
			continue
		}
		p := &stepRun{step: s, local: local}
		if x, ok := s.Action.(*jsont.Expect); ok {
			for _, m := range x.Messages {
				p.expectations = append(p.expectations, &openExpectation{Expectation: m, local: local})
			}
		}
		out = append(out, p)
	}
	return out
}

// A testRun is one run of a test with one agent. It belongs to one goroutine; only
// the conversation is shared.
type testRun struct {
	test     *jsont.Test
	version  schema.Version
	sandbox  string // the folder that the agent works in
	start    func(context.Context) (*instance, error)
	instance *instance     // the agent that runs
	c        *conversation // with that instance
	ended    []transcript  // of the instances that have ended
	scale    float64       // of timeouts
	allowed  allowances    // the time that this agent needs
	auth     string        // the way to log in; "" for none
	logins   bool          // the agent offers ways to log in
	applies  func(*jsont.Step) bool

	tokens jsont.Variables // the texts that only an agent has that obeys
	files  []string        // the texts of files that the test looked at

	now      *stepRun
	lastSend int  // the length of the log before the last step that sent something
	met      int  // how many expectations were met
	leaving  bool // the agent may end
	findings []rules.Finding
	moot     string // why the test says nothing about the agent; "" if it does
	err      error  // why the test could not be run to its end; not the fault of the agent
}

// A transcript is the log of one instance with the requests in it.
type transcript struct {
	log   []*rules.Entry
	calls []*rules.Call
}

// run runs the whole test.
// It ends with the first finding of level MUST, with an error of the runner, or
// when the test turns out to be moot; otherwise all steps run and the remaining
// answers are judged.
func (r *testRun) run(ctx context.Context) {
	steps := plan(r.test.Steps, r.applies, nil)

	// All expectations are known from the beginning, so that a request which comes
	// early gets its reply.
	r.c.mu.Lock()
	for _, p := range steps {
		r.c.expectations = append(r.c.expectations, p.expectations...)
	}
	r.c.mu.Unlock()

	if !r.test.Manual {
		if f := r.initialize(ctx); f != nil {
			r.add(f)
			return
		}
	}

	for _, p := range steps {
		r.now = p
		if f := r.do(ctx, p.step.Action); f != nil {
			// An agent that has ended is at fault whatever the step was about.
			if p.step.Moot != "" && r.c.state() == nil {
				r.giveUp(ctx, p.step.Moot)
				return
			}
			r.add(f)
			// After a broken MUST the rest would only repeat it.
			if f.Level == jsont.Must || f.Level == jsont.OfTest {
				return
			}
		}

		if r.err != nil || r.moot != "" {
			return
		}
	}

	r.judgeAnswers(ctx)
	if over := r.c.state(); over != nil && !r.leaving && r.err == nil {
		r.add(r.setup(ruleGoesOn, "the agent runs until its input ends", r.endingText(over)))
	}
}

// giveUp ends a test that cannot get to the behaviour that it is about. The agent must
// still answer its requests, unless it waits for a held request itself.
func (r *testRun) giveUp(ctx context.Context, why string) {
	r.moot = why
	r.c.mu.Lock()
	held := len(r.c.held)
	r.c.mu.Unlock()
	if held == 0 {
		r.awaitAnswers(ctx)
	}
}

// initialize opens the conversation.
func (r *testRun) initialize(ctx context.Context) *rules.Finding {
	answer, err := r.c.call(ctx, rules.MethodInitialize, initializeParams(r.version, r.vars()), r.allowed.start)
	switch {
	case ctx.Err() != nil:
		return r.abort(ctx.Err())
	case answer == nil:
		return r.timed(r.setup(ruleInitialize, "an answer to initialize", r.endingText(err)))
	case answer.Failure() != nil:
		return r.setup(ruleInitialize, "a result of initialize", "initialize failed: "+jsont.Brief(answer.Failure()), answer)
	}
	return nil
}

// initializeParams returns the params of the runner's own initialize.
func initializeParams(version schema.Version, vars jsont.Variables) map[string]any {
	info := map[string]any{"name": "parley-comply", "title": "Parley compliance tests", "version": "1.0.0"}
	if version == schema.V1 {
		return map[string]any{"protocolVersion": int(version), "clientCapabilities": vars[jsont.VarCapabilities], "clientInfo": info}
	}
	return map[string]any{"protocolVersion": int(version), "capabilities": vars[jsont.VarCapabilities], "info": info}
}

// judgeAnswers waits for the missing answers, and judges the answers that no
// expectation was about. An agent that has ended owes no answers: its end is a finding
// of its own.
func (r *testRun) judgeAnswers(ctx context.Context) {
	if !r.awaitAnswers(ctx) {
		return
	}
	for _, f := range r.unexpected() {
		r.add(f)
	}
}

// unexpected returns findings about answers that no expectation was about.
func (r *testRun) unexpected() (found []*rules.Finding) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, q := range r.c.requests {
		if q.step == nil || q.Answer == nil || q.Answer.Judged {
			continue
		}
		switch failed := q.Answer.Failure(); {
		case failed != nil && !q.wantError && r.wantsLogin(q.Request.Method, q.Answer):
			r.moot = needsLogin
		case failed != nil && !q.wantError:
			found = append(found, r.refused(q, jsont.Brief(failed)))
		case failed == nil && q.wantError:
			found = append(found, r.finding(q.step, q.Request.Method+" fails", "it succeeded", q.Request, q.Answer))
		}
	}
	return found
}

// awaitAnswers waits for the answers to all requests. It reports false if ctx ends.
// Each request has its own deadline from when it was sent, so the waits overlap:
// the time in all is that of the slowest.
func (r *testRun) awaitAnswers(ctx context.Context) bool {
	for _, q := range r.unanswered() {
		rest := max(0, time.Until(q.deadline))
		var twisted *rules.Entry // its answer, with an id of another type
		err := r.c.wait(ctx, rest, func() bool {
			twisted = r.c.twisted(q)
			return q.Answer != nil || twisted != nil
		})
		switch {
		case ctx.Err() != nil:
			r.abort(ctx.Err())
			return false
		case twisted != nil:
			r.add(r.setup(ruleID, "a response with the id of its request", fmt.Sprintf("the id %s came back as %s", q.Request.ID, twisted.ID), q.Request, twisted))
		case errors.Is(err, errTimeout) && q.step.Moot != "":
			r.moot = q.step.Moot
		case errors.Is(err, errTimeout):
			r.add(r.timed(r.setup(ruleAnswer, "an answer to every request", fmt.Sprintf("%s was not answered within %v", q.Request.Method, rounded(q.patience)), q.Request)))
		}
	}
	return true
}

// refused returns the finding that a request failed and should not have. Unless the
// step names a rule, the finding is about the test itself, not about the test's rule: an
// agent may fail for a reason that the rule has nothing to do with.
func (r *testRun) refused(q *request, failed string) *rules.Finding {
	rule := rules.Find(q.step.Rule)
	if rule.ID == "" {
		rule.ID = r.test.ID
	}
	return rules.NewFinding(rule, r.test, q.Request.Method+" succeeds", "it failed: "+failed, q.Request, q.Answer)
}

// vars returns the variables of the current step.
func (r *testRun) vars() jsont.Variables {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.now == nil {
		return r.c.vars
	}
	return r.c.vars.Join(r.now.local)
}

// mark records that the current step is about to send a frame.
func (r *testRun) mark() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.lastSend = len(r.c.log)
}

// since returns the length of the log from which on a forbidden frame counts: that
// before the last step that sent a frame, or before the first unanswered request.
func (r *testRun) since() int {
	from := r.lastSend
	for _, q := range r.unanswered() {
		from = min(from, q.Request.Seq)
	}
	return from
}

// unanswered returns the requests of the test without an answer.
func (r *testRun) unanswered() []*request {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.c.requests), func(q *request) bool { return q.step == nil || q.Answer != nil })
}

// waits reports whether a request of the test with that id is unanswered.
func (r *testRun) waits(id json.RawMessage) bool {
	return slices.ContainsFunc(r.unanswered(), func(q *request) bool { return rules.IDKey(q.Request.ID) == rules.IDKey(id) })
}

// turnRuns reports whether the turn of a prompt with that id has not ended, in version 2: no
// update since the prompt says that its session is idle.
func (r *testRun) turnRuns(id json.RawMessage) bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	i := slices.IndexFunc(r.c.requests, func(q *request) bool {
		return q.step != nil && q.Request.Method == rules.MethodPrompt && rules.IDKey(q.Request.ID) == rules.IDKey(id)
	})
	if i < 0 {
		return true // it was not a prompt
	}
	prompt := r.c.requests[i].Request
	session, _ := jsont.Lookup(prompt.Value, "params.sessionId")
	return !slices.ContainsFunc(r.c.log[prompt.Seq:], func(e *rules.Entry) bool {
		state, _ := jsont.Lookup(e.Value, "params.update.state")
		where, _ := jsont.Lookup(e.Value, "params.sessionId")
		return e.Direction == jsonrpc.In && state == "idle" && where == session
	})
}

// timed marks a finding that rests on time alone. An agent that has ended would not have
// answered in any time.
func (r *testRun) timed(f *rules.Finding) *rules.Finding {
	f.Timed = r.c.state() == nil
	return f
}

// scaled returns a timeout of a test for the speed of this machine.
func (r *testRun) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * r.scale) }

// abort records why the test cannot go on. It returns nil, as that is no fault of the
// agent.
func (r *testRun) abort(err error) *rules.Finding {
	r.err = err
	return nil
}

// add keeps a finding, if there is one, with the messages that led to it.
func (r *testRun) add(f *rules.Finding) {
	if f == nil {
		return
	}
	if f.Level == jsont.Must || f.Level == jsont.OfTest || f.Level == jsont.Should {
		f.Context = r.context(f.Frames)
	}
	r.findings = append(r.findings, *f)
}

// contextLength is how many messages before its proof a finding shows.
const contextLength = 8

// context returns the last messages before the end of a proof that are no part of it: all of
// the client, requests and answers of the agent.
func (r *testRun) context(proof []rules.Frame) (out []rules.Frame) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, e := range r.c.log {
		if len(proof) > 0 && e.Seq >= proof[len(proof)-1].Seq {
			break
		}
		shown := e.Direction == jsonrpc.Out || e.Class != jsont.Notification
		if shown && !slices.ContainsFunc(proof, func(f rules.Frame) bool { return f.Seq == e.Seq }) {
			out = append(out, e.Frame())
		}
	}
	return out[max(0, len(out)-contextLength):]
}

// endingText describes for people why no more frames come.
func (r *testRun) endingText(err error) string {
	if over := r.c.state(); over != nil {
		return "the agent exited early: " + ending(over)
	}
	return ending(err)
}

// finding returns a finding at a step, under the rule of the step or the first rule of
// the test, or under the id of the test if there is neither.
// A step can override the rule, the level and the advice; the rest comes from the
// rule.
func (r *testRun) finding(st *jsont.Step, expected, actual string, proof ...*rules.Entry) *rules.Finding {
	id := st.Rule
	if id == "" && len(r.test.Rules) > 0 {
		id = r.test.Rules[0]
	}
	rule := rules.Find(id)
	if id == "" {
		rule.ID = r.test.ID
		if r.test.Severity == jsont.Optional {
			rule.Level = jsont.OfTest
		}
	}
	if st.Level != "" {
		rule.Level = st.Level
	}
	if st.Fix != "" {
		rule.Fix = st.Fix
	}
	return rules.NewFinding(rule, r.test, expected, actual, proof...)
}

// setup returns the finding that kept the agent from getting to the point of the test.
func (r *testRun) setup(rule, expected, actual string, proof ...*rules.Entry) *rules.Finding {
	return rules.NewFinding(rules.Find(rule), r.test, expected, actual, proof...)
}
