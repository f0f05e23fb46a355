package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// process runs the parts of a process step in the order of its fields. Once the step has
// closed the input or sent a signal, the end of the agent is not a finding.
func (r *testRun) process(ctx context.Context, x *jsont.Process) *rules.Finding {
	// The writer closes the input behind all frames that wait, so none is lost.
	if x.CloseInput {
		r.leaving = true
		select {
		case r.c.outbox <- nil:
		case <-ctx.Done():
			return r.abort(ctx.Err())
		}
	}

	if x.Terminate {
		r.leaving = true
		if r.c.agent.Terminate() != nil {
			r.moot = "the agent cannot be sent a signal"
			return nil
		}
	}

	if x.Exits {
		if f := r.exit(ctx, x); f != nil || r.err != nil {
			return f
		}
	}

	if x.Alone {
		if r.c.agent.HadOrphans() {
			return r.finding(r.now.step, "no process that outlives the agent", "a child process was still running after the agent ended")
		}
		r.met++
	}

	if x.ReadableStderr {
		if text := r.c.agent.Stderr(); !utf8.Valid(text) {
			return r.finding(r.now.step, "UTF-8 on standard error", fmt.Sprintf("it contains invalid bytes: %q", jsont.Shorten(string(text), 200)))
		}
		r.met++
	}

	if x.Restart {
		return r.restart(ctx)
	}
	return nil
}

// exit waits until the agent has ended, and compares its exit code.
func (r *testRun) exit(ctx context.Context, x *jsont.Process) *rules.Finding {
	r.leaving = true
	defer r.c.clock.wait()()

	within := r.scaled(x.Within)
	if r.c.silent() { // it may still be starting
		within = max(within, r.allowed.start)
	}

	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-r.c.agent.Done():
	case <-ctx.Done():
		return r.abort(ctx.Err())
	case <-timer.C:
		return r.timed(r.finding(r.now.step, fmt.Sprintf("the agent ends within %v", rounded(within)), "it is still running"))
	}

	r.met++
	if x.ExitCode == nil {
		return nil
	}

	err := r.c.agent.Wait()
	code := 0
	// An agent in this process has no code: its error stands for 1.
	if exit := (*jsonrpc.ExitError)(nil); errors.As(err, &exit) {
		code = exit.State.ExitCode()
	} else if err != nil {
		code = 1
	}

	if bad := jsont.NewPattern(x.ExitCode, r.vars()).Match(json.Number(fmt.Sprint(code))); bad != nil {
		return r.finding(r.now.step, "an exit code like "+bad.Want, ending(err))
	}
	return nil
}

// restartGrace is how long an agent may take to end by itself before it is started again.
const restartGrace = time.Second

// restart ends the agent and starts it again. Its answers are judged before. Each
// process has a conversation of its own; variables and expectations go on.
// Frames of the old process are judged as a conversation of their own, with the
// requests that it answered; ids may begin again in the new one.
func (r *testRun) restart(ctx context.Context) *rules.Finding {
	r.judgeAnswers(ctx)
	if r.err != nil {
		return nil
	}
	old := r.c
	// An agent may keep its sessions only now.
	r.c.agent.CloseInput()
	select {
	case <-r.c.agent.Done():
	case <-time.After(r.scaled(restartGrace)):
	}
	r.stop()
	next, err := r.start(ctx)
	if err != nil {
		return r.abort(err)
	}
	r.instance, r.c = next, next.conversation
	r.c.mu.Lock()
	// Expectations of later steps must meet the frames of the new process.
	r.c.vars, r.c.expectations = old.vars, old.expectations
	r.c.mu.Unlock()
	r.lastSend, r.leaving = 0, false
	if r.test.Manual {
		return nil
	}
	return r.initialize(ctx)
}

// stop ends the agent and keeps its transcript.
func (r *testRun) stop() { r.ended = append(r.ended, r.instance.stop()) }
