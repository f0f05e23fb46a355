package comply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// An agent may take allowanceFactor times as long in a test as it took for the probe. The
// protocol has no deadlines: an agent that was slow once is slow, not wrong.
const (
	allowanceFactor = 4
	minAllowance    = 5 * time.Second  // for a start or a session, however fast the probe was
	aloneFactor     = 3                // of all times when a test runs again alone
	probeSession    = time.Minute      // how long the probe waits for a session
	probeTurn       = 30 * time.Second // how long the probe waits for a prompt to show something
)

// allowances are how long one agent may take, from the times that the probe
// measured. They are per agent, not per test. A fast agent is still given
// minAllowance for a start and for a session.
type allowances struct {
	start   time.Duration // until the answer to initialize
	session time.Duration // until a session is open
	update  time.Duration // until a prompt shows something
}

// times returns the allowances multiplied by n.
func (a allowances) times(n int) allowances {
	d := time.Duration(n)
	return allowances{a.start * d, a.session * d, a.update * d}
}

// forRequest returns how long the answer to a request may take: what the test says, or
// what this agent needs for such a request if that is longer.
func (a allowances) forRequest(method string, timeout time.Duration) time.Duration {
	switch {
	case slices.Contains(rules.Openers, method):
		return max(timeout, a.session)
	case method == rules.MethodPrompt:
		return timeout + a.update
	}
	return timeout
}

// soon reports whether less time has passed since a request than this agent needs to open a session:
// the wait for its answer says nothing. A change of a setting is not slower than that.
func (a allowances) soon(q *request) bool {
	passed := q.patience - time.Until(q.deadline)
	return passed < a.session/allowanceFactor
}

// patience returns how long a step may wait, for the speed of this machine, and of this agent
// with the requests that it has not answered. A timeout of 0 stays one.
func (r *testRun) patience(timeout time.Duration) time.Duration {
	d := r.scaled(timeout)
	if d == 0 {
		return 0
	}
	longest := d
	for _, q := range r.unanswered() {
		longest = max(longest, r.allowed.forRequest(q.Request.Method, d))
	}
	return longest
}

// maxConfirmed is how many tests in a row must confirm their findings when they run alone,
// until the runner believes the others that rest on time: an agent that never answers
// would keep it busy for hours otherwise.
const maxConfirmed = 3

// again runs the tests with findings that rest on time alone once more: one after the
// other, nothing beside them, with three times the time. The second result counts.
// A finding on time can come from a busy machine: many tests run at once. The
// second run rules that out. Results of all other tests stay as they are.
func (r *runner) again(ctx context.Context, agents []Agent, tests []*jsont.Test, probes []*probe, report *render.Report, ledgers [][]rules.Finding) (failed error) {
	alone := &runner{opts: r.opts, version: r.version, alone: true}
	alone.opts.TimeoutScale *= aloneFactor
	alone.opts.Jobs = 1

	for agent := range agents {
		confirmed := 0
		patient := *probes[agent]
		patient.allowed = patient.allowed.times(aloneFactor)

		// After enough confirmed results, the other timed tests of the agent keep their first one.
		for test := range tests {
			res := &report.Agents[agent].Tests[test]
			if !res.Timed() || ctx.Err() != nil {
				continue
			}
			if confirmed >= maxConfirmed {
				remark(res, fmt.Sprintf("not repeated: %d other tests of this agent gave the same result alone with %d times the time", confirmed, aloneFactor))
				continue
			}

			second, ledger, err := alone.test(ctx, agents[agent], tests[test], &patient)
			if failed == nil {
				failed = err
			}
			if second.Status == render.Errored {
				continue
			}

			// A finding on time that is gone now was due to the load: the count restarts.
			if confirmed++; !second.Timed() {
				confirmed = 0
			}
			*res, ledgers[agent*len(tests)+test] = second, ledger
			remark(res, fmt.Sprintf("confirmed when the test ran alone with %d times the time", aloneFactor))
		}
	}
	return failed
}

// remark adds a remark to the findings that rest on time alone.
func remark(res *render.Result, text string) {
	for i := range res.Findings {
		if f := &res.Findings[i]; f.Timed {
			f.Actual += " (" + text + ")"
		}
	}
}
