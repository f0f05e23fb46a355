package continuation

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// forward offers the tasks that an agent was offered and did not accept to its first successor that may
// have them. kept says why the agent cannot go on, and until when. A task without such a successor stays
// offered to the agent, and so does one that cannot be read now; forwardRest tries it again.
func (s *Service) forward(ctx context.Context, agent hub.AgentID, kept Kept) {
	c := hub.Continuation{Of: agent, Reason: kept.Reason, Until: kept.Until, At: s.o.Clock.Now(), Folder: kept.Folder}
	if c.Reason == hub.ContinueClosed || s.isShort(c) {
		return // the agent answers itself
	}
	offers, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]offer, error) { return offersTo(rd, agent) })
	if err != nil {
		s.warnOfOffers(ctx, err)
		return
	}

	why := fmt.Sprintf("%s %s", agent, kept.Reason.Text())
	if !kept.Until.IsZero() {
		why += " until " + kept.Until.String()
	}
	for _, o := range offers {
		s.forwardOne(ctx, c, o, slices.Concat(kept.Or, o.team), why)
	}
}

// warnOfOffers logs that tasks stay offered to an agent that cannot answer.
func (s *Service) warnOfOffers(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.o.Log.Warn("tasks that were offered to an agent that cannot answer were not forwarded", "op", "continuation.forward", "err", err)
	}
}

// forwardOne offers one task to the first of some successors that may have it.
func (s *Service) forwardOne(ctx context.Context, c hub.Continuation, o offer, successors []string, why string) {
	for _, name := range successors {
		if name == Self || hub.AgentID(name) == c.Of {
			if s.recovered(ctx, c, c.At) == nil {
				return // the agent goes on, and answers itself
			}
			continue
		}
		err := s.give(ctx, c, o.handoff.Team, Program{CLI: name, Folder: c.Folder}, true, func(to hub.AgentID) error {
			if slices.Contains(o.asked, to) {
				return hub.Errorf(hub.CodeConflict, "continuation.forward", "%s had the task before", to)
			}
			return s.handoffs.Forward(ctx, hub.Caller{ID: hub.Self}, o.handoff, to, fmt.Sprintf("%s; the task is offered to %s", why, to))
		})
		if err == nil {
			s.publish()
			return
		}
		s.o.Log.Info("an agent is not offered the task of another one", "op", "continuation.forward", "handoff", o.handoff.ID, "successor", name, "err", err)
	}
}

// An offer is a task that an agent was offered and did not answer.
type offer struct {
	handoff hub.Handoff
	team    []string      // successors that its team names
	asked   []hub.AgentID // agents that were offered it before
}

// offersTo returns the tasks that an agent may accept, of all agents if it is "". Those that wait for an
// approval, that are restricted, or that are the way of a continuation are left out.
func offersTo(rd hub.Reader, agent hub.AgentID) (out []offer, err error) {
	proposed, err := rd.Handoffs(hub.HandoffQuery{To: agent, States: []hub.HandoffState{hub.HandoffProposed}, Limit: maxPage})
	if err != nil {
		return nil, err
	}
	for _, h := range proposed {
		if h.Restricted || h.WaitsForOperator() || h.WaitsForTeam() {
			continue
		}
		continued, err := rd.Continuations().Continuations(hub.ContinuationQuery{Next: h.ID, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(continued) > 0 {
			continue
		}
		o := offer{handoff: h}
		if o.team, err = teamSuccessors(rd, h); err != nil {
			return nil, err
		}
		all, err := rd.Handoffs(hub.HandoffQuery{Task: h.TaskID, Limit: maxPage})
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			o.asked = append(o.asked, one.From, one.To)
		}
		out = append(out, o)
	}
	return out, nil
}

// forwardRest forwards the tasks that were offered to agents that rest: since they stopped, or when no
// successor could have them.
func (s *Service) forwardRest(ctx context.Context) {
	s.making.Lock()
	defer s.making.Unlock()
	offers, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]offer, error) { return offersTo(rd, "") })
	var seen []hub.AgentID
	for _, o := range offers {
		agent := o.handoff.To
		if err != nil || slices.Contains(seen, agent) {
			continue
		}
		seen = append(seen, agent)
		var kept Kept
		if kept, _, err = s.agents.Kept(ctx, agent); err == nil && kept.Rests {
			s.forward(ctx, agent, kept)
		}
	}
	if err != nil {
		s.warnOfOffers(ctx, err)
	}
}
