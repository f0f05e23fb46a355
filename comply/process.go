package comply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/jsonrpc"
)

// A process step is about the agent as a process. What it asks for is done and
// looked at in the order of its members.
type process struct {
	closeInput bool
	terminate  bool // it is sent the signal to end
	exits      bool // it must end
	within     time.Duration
	code       *node // what its exit code must be; nil for any
	alone      bool  // no process that it started may outlive it
	readable   bool  // what it wrote to standard error must be UTF-8
	restart    bool  // it is ended if need be and started again, with the same folders
}

func (x *process) play(ctx context.Context, s *stage) *Finding {
	if x.closeInput {
		s.leaving = true
		select {
		case s.c.outbox <- nil:
		case <-ctx.Done():
			return s.abort(ctx.Err())
		}
	}
	if x.terminate {
		s.leaving = true
		if s.c.agent.Terminate() != nil {
			s.moot = "the agent cannot be sent a signal"
			return nil
		}
	}
	if x.exits {
		if f := x.exit(ctx, s); f != nil || s.err != nil {
			return f
		}
	}
	if x.alone {
		if s.c.agent.Left() {
			return s.finding(s.now.step, "no process that outlives the agent", "what the agent started still ran after its end")
		}
		s.met++
	}
	if x.readable {
		if text := s.c.agent.Stderr(); !utf8.Valid(text) {
			return s.finding(s.now.step, "UTF-8 on standard error", fmt.Sprintf("it has other bytes: %q", cut(string(text), 200)))
		}
		s.met++
	}
	if x.restart {
		return s.restart(ctx)
	}
	return nil
}

// exit waits until the agent has ended.
func (x *process) exit(ctx context.Context, s *stage) *Finding {
	s.leaving = true
	defer s.c.clock.wait()()
	timer := time.NewTimer(s.scaled(x.within))
	defer timer.Stop()
	select {
	case <-s.c.agent.Done():
	case <-ctx.Done():
		return s.abort(ctx.Err())
	case <-timer.C:
		return s.finding(s.now.step, fmt.Sprintf("the agent ends within %v", s.scaled(x.within)), "it still runs")
	}
	s.met++
	if x.code == nil {
		return nil
	}
	err := s.c.agent.Wait()
	code := 0
	if exit := (*jsonrpc.ExitError)(nil); errors.As(err, &exit) {
		code = exit.State.ExitCode()
	} else if err != nil {
		code = 1
	}
	if bad := newPattern(x.code, s.vars()).match(json.Number(fmt.Sprint(code))); bad != nil {
		return s.finding(s.now.step, "an exit code like "+bad.want, ending(err))
	}
	return nil
}

// restart ends the agent and starts it again. What it was asked is judged before
// that, and each process has a conversation of its own.
func (s *stage) restart(ctx context.Context) *Finding {
	s.judgeAnswers(ctx)
	if s.err != nil {
		return nil
	}
	old := s.c
	s.leave()
	room, err := s.open(ctx)
	if err != nil {
		return s.abort(err)
	}
	s.room, s.c = room, room.conversation
	s.c.mu.Lock()
	s.c.vars, s.c.awaited = old.vars, old.awaited
	s.c.mu.Unlock()
	s.lastSend, s.leaving = 0, false
	if s.test.manual {
		return nil
	}
	return s.initialize(ctx)
}

// leave ends the agent and keeps what was said.
func (s *stage) leave() {
	s.spoken = append(s.spoken, spoken{s.room.leave(), s.room.asked})
}

// A spoken is what was said to and by one process.
type spoken struct {
	log   []*entry
	asked []*asked
}
