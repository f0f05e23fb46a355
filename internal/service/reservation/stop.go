package reservation

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// Stops knows which agents must stop. The zero value stops none.
type Stops struct {
	Stopped  func(rd hub.Reader, agent hub.AgentID) (bool, error)   // a person stopped the agent
	Works    func(rd hub.Reader, agent hub.AgentID) (bool, error)   // the hub runs a turn of it, or a session of it everySession
	Exceeded func(rd hub.Reader, agent hub.AgentID) (string, error) // why its budget is spent; "" if it is not
}

// ReasonStopped is the reason of a denial of every tool call, because the agent must stop.
const ReasonStopped = "stopped"

// Guard answers a question of the guard beside an agent. An agent that must stop is denied before its files
// are considered.
func (s *Service) Guard(ctx context.Context, actor hub.Caller, q Question) (Answer, error) {
	begins := q.Kind == Edit || q.Kind == Commit
	if begins && s.must.Stopped != nil {
		if text := s.stopped(ctx, actor.ID); text != "" {
			return Answer{Decision: Deny, Reason: ReasonStopped, Text: text, Denied: []Denial{}, Notes: []Note{}}, nil
		}
	}
	return s.Ask(ctx, actor, q)
}

// stopped returns why a tool call of an agent is denied, whatever it changes: a person stopped the
// agent, or a budget of an agent in a turn of the hub or in a session is spent. It is "" if the call
// may run.
func (s *Service) stopped(ctx context.Context, agent hub.AgentID) string {
	reason, err := hub.Read(ctx, s.store, func(rd hub.Reader) (string, error) {
		isStopped, err := s.must.Stopped(rd, agent)
		if isStopped || err != nil {
			return stoppedText, err
		}
		works, err := s.must.Works(rd, agent)
		if !works || err != nil {
			return "", err
		}
		reason, err := s.must.Exceeded(rd, agent)
		if reason != "" {
			reason += "; end your turn now with a short summary of what is done and what is left"
		}
		return reason, err
	})
	if err != nil {
		s.log.Warn("whether an agent must stop cannot be read", "agent", agent, "err", err)
		return ""
	}
	return reason
}

// stoppedText is read by a model after the words of its CLI about a refused call.
const stoppedText = "your operator stopped this agent; end your turn now, without further tool calls, until the operator lets you go on"

// NewSessions returns the sessions of agents: those in terminals and of kept agents by their presence in
// sessions, those of runs by the runs, and the turns of agents for which kept is true.
func NewSessions(clock hub.Clock, sessions Sessions, kept func(hub.AgentID) bool) Sessions {
	return everySession{clock, sessions, kept}
}

// everySession knows the sessions of agents: those in terminals and of kept agents by their presence,
// those of runs by the runs.
type everySession struct {
	clock    hub.Clock
	sessions Sessions
	kept     func(hub.AgentID) bool // whether a turn of a kept agent runs
}

// openRuns bounds the runs of one agent that are considered.
const openRuns = 20

// Life implements Sessions.
func (l everySession) Life(r hub.Reader, agent hub.AgentID, session string) (hub.SessionLife, error) {
	if isRevoked, err := l.isRevoked(r, agent); err != nil || isRevoked {
		return hub.SessionLife{Known: isRevoked, Over: isRevoked}, err
	}
	if l.kept(agent) {
		return hub.SessionLife{Known: true, Busy: true}, nil
	}
	if session == "" {
		return l.sessions.Life(r, agent, session)
	}
	runs, err := r.Runs(hub.RunQuery{Agent: agent, Limit: openRuns})
	if err != nil {
		return hub.SessionLife{}, err
	}
	for _, v := range runs {
		if v.Session == session || string(v.ID) == session {
			return hub.SessionLife{Known: true, Over: v.State.Over(), Busy: v.State == hub.RunRunning, Seen: v.StartedAt}, nil
		}
	}
	return l.sessions.Life(r, agent, session)
}

// isRevoked reports whether an agent had a key of its own and has no valid one any more: none of
// its sessions can go on.
func (l everySession) isRevoked(r hub.Reader, agent hub.AgentID) (bool, error) {
	keys, err := r.Keys(agent)
	if err != nil {
		return false, err
	}
	now := l.clock.Now()
	isLive := func(k hub.Key) bool { return k.Live(now) }
	isOwn := func(k hub.Key) bool { return !k.Lent() }
	return slices.ContainsFunc(keys, isOwn) && !slices.ContainsFunc(keys, isLive), nil
}
