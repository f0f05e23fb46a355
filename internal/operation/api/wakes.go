package api

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/usage"
)

// Parameters and results of the operations about wakes.
type (
	WakeWaitParams   = wake.Waiter
	WakeCall         = wake.Call
	WakeHandedParams = wake.Handing
	WakeReportParams = wake.Report
	WakeAdvice       = wake.Advice
	WakeAllowParams  = wake.Permission
	ProbeReport      = wake.ProbeReport
	Session          = wake.Session
)

func wakeWait(ctx context.Context, s *Services, a hub.Caller, p WakeWaitParams) (WakeCall, error) {
	out, err := s.Wakes.Wait(ctx, a, p)
	if err == nil && out.Wake != nil && s.Usage != nil {
		s.Usage.Count(a.ID, usage.Notices, 1, len(out.Wake.Notice))
	}
	return out, err
}

func wakeHanded(ctx context.Context, s *Services, a hub.Caller, p WakeHandedParams) (None, error) {
	return None{}, s.Wakes.Handed(ctx, a, p)
}

func wakeReport(ctx context.Context, s *Services, a hub.Caller, p WakeReportParams) (WakeAdvice, error) {
	out, err := s.Wakes.Report(ctx, a, p)
	if err == nil && s.Onward != nil {
		err = s.followSession(ctx, a, p, &out)
	}
	if out.Notice != "" && s.Usage != nil {
		s.Usage.Count(a.ID, usage.Notices, 1, len(out.Notice))
	}
	return out, err
}

// AgentWakes says how the wakes of an agent stand, with its sessions.
type AgentWakes struct {
	Agent    hub.AgentID `json:"agent"`
	Reach    hub.Reach   `json:"reach"`
	Reason   string      `json:"reason"` // of the forecast
	Sessions []Session   `json:"sessions"`
	wake.Standing
}

// WakeList lists agents that have sessions, or that mail may wake.
type WakeList struct {
	Paused bool         `json:"paused"` // the wakes of all agents
	Agents []AgentWakes `json:"agents"`
}

// wakes returns how the wakes of one agent stand.
func (s *Services) wakes(r hub.Reader, agent hub.AgentID) (AgentWakes, error) {
	out := AgentWakes{Agent: agent}
	var err error
	if out.Sessions, err = s.Wakes.List(r, agent); err != nil {
		return out, err
	}
	if out.Standing, err = s.Wakes.Standing(r, agent); err != nil {
		return out, err
	}
	for _, kind := range []hub.Channel{hub.ChannelSession, hub.ChannelWake} {
		when, _, reason, err := s.Wakes.Reach(r, kind, agent, hub.Message{})
		if err != nil {
			return out, err
		}
		isBetter := when == hub.ReachNow || (out.Reach == hub.ReachUnreachable && when != hub.ReachUnreachable)
		if out.Reach == "" || isBetter {
			out.Reach, out.Reason = when, reason
		}
		if when == hub.ReachNow {
			break
		}
	}
	return out, nil
}

// liveSessions returns the live session of each agent that was used last.
func (s *Services) liveSessions(ctx context.Context, agents []hub.AgentID) (map[hub.AgentID]*Session, error) {
	out := map[hub.AgentID]*Session{}
	err := s.Store.View(ctx, func(r hub.Reader) error {
		for _, id := range agents {
			list, err := s.Wakes.List(r, id)
			if err != nil {
				return err
			}
			if len(list) > 0 && list[0].State != wake.SessionEnded {
				out[id] = &list[0]
			}
		}
		return nil
	})
	return out, err
}

// AgentNameParams name an agent; empty for all that the caller may see.
type AgentNameParams struct {
	Agent hub.AgentID `json:"agent,omitempty"`
}

func wakeSessions(ctx context.Context, s *Services, a hub.Caller, p AgentNameParams) (WakeList, error) {
	out := WakeList{Agents: []AgentWakes{}, Paused: s.Wakes.Paused()}
	// The channels are asked before the transaction, because they may use the store themselves.
	if err := s.Wakes.Survey(ctx); err != nil {
		return out, err
	}

	err := s.Store.View(ctx, func(r hub.Reader) error {
		agents, err := r.Agents()
		if err != nil {
			return err
		}

		// Agents see their own sessions; auditors see those of all agents.
		found := p.Agent == ""
		for _, agent := range agents {
			maySee := a.Audits() || agent.ID == a.ID
			isWanted := p.Agent == "" || p.Agent == agent.ID
			if !maySee || !isWanted {
				continue
			}
			found = true

			w, err := s.wakes(r, agent.ID)
			if err != nil {
				return err
			}
			if p.Agent != "" || len(w.Sessions) > 0 || w.Allowed {
				out.Agents = append(out.Agents, w)
			}
		}

		if !found {
			return hub.Errorf(hub.CodeNotFound, "wake/sessions", "no agent named %q that you can see", p.Agent).WithHint("to list the agents: {agents}")
		}
		return nil
	})
	return out, err
}

func wakeAllow(ctx context.Context, s *Services, a hub.Caller, p WakeAllowParams) (AgentWakes, error) {
	if err := s.Wakes.Allow(ctx, a, p); err != nil {
		return AgentWakes{}, err
	}
	if err := s.Wakes.Survey(ctx, p.Agent); err != nil {
		return AgentWakes{}, err
	}
	return hub.Read(ctx, s.Store, func(r hub.Reader) (AgentWakes, error) { return s.wakes(r, p.Agent) })
}

// WakePauseParams name an agent, or all.
type WakePauseParams struct {
	Agent hub.AgentID `json:"agent,omitempty"`
	All   bool        `json:"all,omitempty"`
}

// PauseState says whether wakes are paused.
type PauseState struct {
	Agent  hub.AgentID `json:"agent,omitempty"` // empty for all
	Paused bool        `json:"paused"`
}

func wakePause(paused bool) func(context.Context, *Services, hub.Caller, WakePauseParams) (PauseState, error) {
	return func(ctx context.Context, s *Services, a hub.Caller, p WakePauseParams) (PauseState, error) {
		if (p.Agent == "") != p.All {
			return PauseState{}, hub.Errorf(hub.CodeInvalid, "wake/pause", "name one agent, or give all")
		}
		change := s.Wakes.Resume
		if paused {
			change = s.Wakes.Pause
		}
		return PauseState{p.Agent, paused}, change(ctx, a, p.Agent)
	}
}

// WakeTestParams name an agent and the time to wait for the proof.
type WakeTestParams struct {
	Agent   hub.AgentID      `json:"agent"`
	Seconds strictjson.Count `json:"seconds,omitzero"` // default 60, at most 300
}

func wakeTest(ctx context.Context, s *Services, a hub.Caller, p WakeTestParams) (ProbeReport, error) {
	return s.Wakes.Probe(ctx, a, p.Agent, time.Duration(p.Seconds)*time.Second)
}
