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
	err := g.withAccount(ctx, agent, func(_ hub.Tx, a *account) error {
		if t := a.find(id); t == nil || t.Closed {
			a.add(&attempt{ID: id, Channel: hub.ChannelSession, At: now, Until: now.Add(proofTime), Probe: true})
		}
		return nil
	})
	if err != nil {
		return err
	}
	over := &sessionChannel{g, true}
	return g.fly(ctx, g.store, flight{over: over, batch: channel.Batch{ID: id, Recipient: agent, Probe: true}}, nil)
}

// WakeState returns the state of an attempt.
func (g *Machine) WakeState(ctx context.Context, agent hub.AgentID, id string) (channel.State, error) {
	a, err := hub.Read(ctx, g.store, func(rd hub.Reader) (account, error) { return hub.ReadMeta[account](rd, accountKey(agent)) })
	if t := a.find(id); t != nil {
		return t.State, err
	}
	return "", err
}

// ForecastAttended returns the forecast from the attended sessions of an agent.
func (g *Machine) ForecastAttended(rd hub.Reader, agent hub.AgentID) (channel.Reach, error) {
	return (&sessionChannel{g, true}).forecast(rd, agent)
}
