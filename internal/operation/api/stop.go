package api

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// StopTurnsParams are the parameters of parley/pause: an agent, team:NAME, or all.
type StopTurnsParams struct {
	Of  string `json:"of,omitempty"`
	All bool   `json:"all,omitempty"`
}

// A TurnEnding says what happened to the running turn of an agent that was paused.
type TurnEnding string

// The endings of turns.
const (
	TurnEnded   TurnEnding = "ended"   // the hub ran it, and it is over
	TurnDenied  TurnEnding = "denied"  // the guard denies its next tool call
	TurnNone    TurnEnding = "none"    // no turn ran
	TurnUnknown TurnEnding = "unknown" // the turn did not end in time
)

// A StoppedAgent is the result for one agent.
type StoppedAgent struct {
	Agent  hub.AgentID `json:"agent"`
	Turn   TurnEnding  `json:"turn"`
	Paused bool        `json:"paused"`
}

// StoppedAgents is the result for all agents.
type StoppedAgents struct {
	Agents []StoppedAgent `json:"agents"`
}

const (
	stopWithin = 8 * time.Second // for a turn to end: the agent is asked, then killed
	maxStopped = 1000            // agents of one call
)

// stopTurns pauses agents and ends their turns.
func stopTurns(ctx context.Context, s *Services, a hub.Caller, p StopTurnsParams) (StoppedAgents, error) {
	const op = "parley/pause"
	out := StoppedAgents{Agents: []StoppedAgent{}}
	if (p.Of == "") != p.All {
		return out, hub.Errorf(hub.CodeInvalid, op, "name an agent or team:NAME, or give all")
	}
	agents, err := s.agentsOf(ctx, op, p)
	if err != nil {
		return out, err
	}
	if p.All {
		err = s.Wakes.Stop(ctx, a, "")
	} else {
		for _, id := range agents {
			if err = s.Wakes.Stop(ctx, a, id); err != nil {
				break
			}
		}
	}
	if err != nil {
		return out, err
	}

	// Turns end at the same time, so that the answer takes the time of one.
	out.Agents = make([]StoppedAgent, len(agents))
	var stopping sync.WaitGroup
	for i, id := range agents {
		stopping.Go(func() { out.Agents[i] = StoppedAgent{Agent: id, Turn: s.stopTurn(ctx, id), Paused: true} })
	}
	stopping.Wait()
	return out, s.noteStops(ctx, a, out.Agents)
}

// agentsOf returns the agents that a stop is about.
func (s *Services) agentsOf(ctx context.Context, op string, p StopTurnsParams) (out []hub.AgentID, err error) {
	team, isTeam := strings.CutPrefix(p.Of, "team:")
	err = s.Store.View(ctx, func(r hub.Reader) error {
		out = nil
		switch {
		case isTeam:
			if _, err := r.Teamspaces().Team(hub.TeamID(team)); err != nil {
				return err
			}
			members, err := r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(team), Limit: maxStopped})
			for _, m := range members {
				isNew := m.Until.IsZero() && m.Agent != hub.Operator && !slices.Contains(out, m.Agent)
				if isNew {
					out = append(out, m.Agent)
				}
			}
			return err
		case p.All:
			agents, err := r.Agents()
			for _, one := range agents {
				if one.ID != hub.Operator && one.ID != hub.Self {
					out = append(out, one.ID)
				}
			}
			return err
		}
		out = []hub.AgentID{hub.AgentID(p.Of)}
		_, err := r.Agent(hub.AgentID(p.Of))
		return err
	})
	if hub.CodeOf(err) == hub.CodeNotFound {
		err = hub.Errorf(hub.CodeNotFound, op, "nothing named %.80q on this hub", p.Of).WithHint("{agents} lists the agents")
	}
	return out, err
}

// stopTurn ends the turn of an agent that runs. The guard denies the next tool call of a turn
// that the hub does not run itself.
func (s *Services) stopTurn(ctx context.Context, agent hub.AgentID) TurnEnding {
	if ran, ended := s.Keeper.StopTurn(ctx, agent, stopWithin); ran {
		if ended {
			return TurnEnded
		}
		return TurnUnknown
	}
	life, err := hub.Read(ctx, s.Store, func(r hub.Reader) (hub.SessionLife, error) { return s.lifeOf(r, agent) })
	switch {
	case err != nil:
		return TurnUnknown
	case life.Busy:
		return TurnDenied
	}
	return TurnNone
}

// lifeOf returns what is known about the sessions and runs of an agent.
func (s *Services) lifeOf(r hub.Reader, agent hub.AgentID) (hub.SessionLife, error) {
	life, err := s.Wakes.Life(r, agent, "")
	if err != nil || life.Busy {
		return life, err
	}
	runs, err := r.Runs(hub.RunQuery{Agent: agent, Limit: 20})
	life.Busy = slices.ContainsFunc(runs, func(v hub.Run) bool { return v.State == hub.RunRunning })
	return life, err
}

// noteStops records what happened to the turns.
func (s *Services) noteStops(ctx context.Context, a hub.Caller, stopped []StoppedAgent) error {
	return s.Store.Update(context.WithoutCancel(ctx), hub.SurvivesKill, func(tx hub.Tx) error {
		for _, one := range stopped {
			if one.Turn == TurnNone {
				continue
			}
			if _, err := tx.Append(a.Entry(s.Clock.Now(), actions.AgentStopped, string(one.Agent), map[string]any{"turn": one.Turn})); err != nil {
				return err
			}
		}
		return nil
	})
}
