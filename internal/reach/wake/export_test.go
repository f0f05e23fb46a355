package wake

import (
	"context"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// TryWake makes an attempt without a message in the attended sessions of an agent, as a probe
// does. An attempt with an id that was used is made again.
func (g *Machine) TryWake(ctx context.Context, agent hub.AgentID, id string) error {
	now := g.o.Clock.Now()
	err := g.update(ctx, agent, func(a *agentRecord) error {
		if w := a.wakes.find(id); w == nil || !w.State.Open() {
			a.wakes.add(&hub.Wake{ID: id, Agent: agent, Channel: hub.ChannelSession, State: hub.WakeReserved, At: now, Until: now.Add(proofTime), Probe: true})
		}
		return nil
	})
	if err != nil {
		return err
	}
	over := &sessionChannel{g, true}
	return g.fly(ctx, g.store, flight{over: over, batch: channel.Batch{ID: id, Recipient: agent, Probe: true}}, nil)
}

// WakeState returns the outcome of an attempt as people read it.
func (g *Machine) WakeState(ctx context.Context, agent hub.AgentID, id string) (channel.State, error) {
	a, err := hub.Read(ctx, g.store, func(rd hub.Reader) (*agentRecord, error) { return g.load(rd, agent) })
	if err != nil {
		return "", err
	}
	if w := a.wakes.find(id); w != nil {
		return outcomeOf(w.State), nil
	}
	return "", nil
}

// ForecastAttended returns the forecast from the attended sessions of an agent.
func (g *Machine) ForecastAttended(rd hub.Reader, agent hub.AgentID) (channel.Reach, error) {
	return (&sessionChannel{g, true}).forecast(rd, agent)
}
