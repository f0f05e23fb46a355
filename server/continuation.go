package server

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// openContinuations builds the service that lets tasks go on whose agent cannot.
func (s *Server) openContinuations(context.Context) error {
	s.continuations = continuation.New(s.store, continuation.Parts{
		Trees: clone.NewRescues(s.repos, s.keeper.RunsIn), Handoffs: s.handoffs, Agents: s.keeper.Successors(s.wakes), Files: s.files, Mail: s.mail,
	}, &continuation.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Patience: s.opts.Patience})
	return nil
}

// movedHandoffs tells the continuations, which are built after the handoffs, about handoffs that
// moved.
type movedHandoffs struct{ s *Server }

// Moved implements handoff.Continuations.
func (m movedHandoffs) Moved(tx hub.Tx, h hub.Handoff) ([]hub.Message, error) {
	if m.s.continuations == nil {
		return nil, nil
	}
	return m.s.continuations.Moved(tx, h)
}

// cannotGoOn continues the tasks of a kept agent that cannot go on.
func (s *Server) cannotGoOn(ctx context.Context, e keeper.Ended) {
	_, err := s.continuations.Stop(ctx, continuation.Cause{Agent: e.Agent, Reason: e.Reason, Until: e.Until, Said: e.Said})
	if err != nil {
		s.log.Warn("the tasks of an agent that cannot go on were not continued", "agent", e.Agent, "err", err)
	}
}

// returned is told by the keeper that an agent can go on, and returns the text about its tasks.
func (s *Server) returned(ctx context.Context, agent hub.AgentID) string {
	text, err := s.continuations.Returned(ctx, agent)
	if err != nil {
		s.log.Warn("the tasks of an agent that can go on cannot be read", "agent", agent, "err", err)
	}
	return text
}

// onward returns the text that the next turn of an agent begins with, once.
func (s *Server) onward(ctx context.Context, agent hub.AgentID) string {
	text, err := s.continuations.Pending(ctx, agent)
	if err == nil && text == "" {
		text, err = s.continuations.OtherOwners(ctx, agent)
	}
	if err != nil {
		s.log.Warn("the text for an agent that continues a task cannot be read", "agent", agent, "err", err)
	}
	return text
}

// hasSuccessor reports whether the team of a task of an agent names successors.
func (s *Server) hasSuccessor(ctx context.Context, agent hub.AgentID) bool {
	has, err := s.continuations.HasSuccessor(ctx, agent)
	if err != nil {
		s.log.Warn("the successors of an agent cannot be read", "agent", agent, "err", err)
	}
	return has
}
