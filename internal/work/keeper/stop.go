package keeper

import (
	"context"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A running is an attempt at a turn of the kept session that runs.
type running struct {
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when it has ended
	answered bool          // the agent has answered, and its usage is recorded; guarded by mu of the agent
}

// running notes that an attempt at a turn runs, which cancel ends. A turn that a window cancelled
// before is ended at once. The function that it returns notes the end.
func (a *agent) running(turn string, cancel context.CancelCauseFunc) (end func()) {
	t := &running{cancel: cancel, done: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trying = t
	if a.unwanted == turn {
		cancel(errCancelled)
	}
	return func() {
		a.mu.Lock()
		a.trying = nil
		a.mu.Unlock()
		close(t.done)
	}
}

// answered notes that the agent has answered the prompt of its turn.
func (a *agent) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trying != nil {
		a.trying.answered = true
	}
}

// Cancel ends the turns of a kept agent whose budget is spent, in all its sessions: the agent is
// asked to stop, and killed if it does not. A turn in which the agent has answered spends no more and
// ends by itself.
func (k *Keeper) Cancel(name hub.AgentID) { k.cancel(name, false) }

// cancel ends the turns of a kept agent that run, those that it has answered only if answered is
// true. It returns a channel for each turn, which is closed when the turn has ended.
func (k *Keeper) cancel(name hub.AgentID, answered bool) (done []<-chan struct{}) {
	k.mu.Lock()
	a := k.agents[name]
	k.mu.Unlock()
	if a != nil {
		a.mu.Lock()
		t := a.trying
		if t != nil && (answered || !t.answered) {
			t.cancel(errStop)
		}
		a.mu.Unlock()
		if t != nil {
			done = append(done, t.done)
		}
	}
	for _, s := range k.sidesOf(name) {
		if ended := s.stopTurn(answered); ended != nil {
			done = append(done, ended)
		}
	}
	return done
}

// StopTurn ends the turns of a kept agent, and waits for their ends at most for a time. It reports whether a turn ran, and whether all have ended.
func (k *Keeper) StopTurn(ctx context.Context, name hub.AgentID, within time.Duration) (ran, ended bool) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	running := k.cancel(name, true)
	for _, done := range running {
		select {
		case <-done:
		case <-timer.C:
			return true, false
		case <-ctx.Done():
			return true, false
		}
	}
	ran = len(running) > 0 || k.underWay(name)
	return ran, ran
}

// underWay reports whether a kept agent has a turn that is not over, also between two attempts at it. No
// further attempt begins after a stop.
func (k *Keeper) underWay(name hub.AgentID) bool {
	k.mu.Lock()
	a := k.agents[name]
	k.mu.Unlock()
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.turn != ""
}

// halted returns why no turn of an agent may begin: its operator stopped it, or a budget is spent; ""
// if one may.
func (k *Keeper) halted(ctx context.Context, name hub.AgentID) string {
	if reason := k.stopped(ctx, name); reason != "" {
		return reason
	}
	return k.blocked(ctx, name)
}

// stopped returns why the operator's stop lets no turn of an agent begin; "" if one may.
func (k *Keeper) stopped(ctx context.Context, name hub.AgentID) string {
	if k.o.Stopped == nil {
		return ""
	}
	return k.o.Stopped(ctx, name)
}

// barred returns why an attempt at a turn may not begin; "" if it may. It is asked after the attempt was noted: a
// stop in between finds the attempt and cancels it. Budgets are compared again before a turn is tried
// again, by an agent that failed or a hub that was started again.
func (a *agent) barred(ctx context.Context, t turn) string {
	if t.Tries > 0 {
		return a.halted(ctx, a.name)
	}
	return a.stopped(ctx, a.name)
}

// InTurn reports whether a turn of a kept agent runs, in its kept session or in a further one.
func (k *Keeper) InTurn(name hub.AgentID) bool {
	return k.Busy(name) || slices.ContainsFunc(k.sidesOf(name), (*side).inTurn)
}

// inTurn reports whether a turn runs.
func (s *side) inTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn != ""
}

// Names returns the kept agents that this process serves.
func (k *Keeper) Names() (out []hub.AgentID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.agents {
		out = append(out, name)
	}
	return out
}
