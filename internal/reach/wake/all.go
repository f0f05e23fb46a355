package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-agents/parley/hub"
)

// VisitAll considers all agents, because a budget was changed.
func (g *Machine) VisitAll() {
	ctx, cancel := context.WithTimeout(context.Background(), visitTime)
	defer cancel()
	err := g.store.View(ctx, func(r hub.Reader) error {
		agents, err := r.Agents()
		for _, a := range agents {
			g.Visit(a.ID)
		}
		return err
	})
	if err != nil { // they are visited with their next message
		g.o.Log.Warn("agents were not visited after a change of budgets", "err", err)
	}
}

// visitTime bounds the reading of the agents that are visited.
const visitTime = 10 * time.Second

// WhyStopped returns why no turn of an agent may begin since its operator stopped it; "" if one may.
func (g *Machine) WhyStopped(ctx context.Context, agent hub.AgentID) string {
	reason, err := hub.Read(ctx, g.store, func(rd hub.Reader) (string, error) { return g.StoppedIn(rd, agent) })
	if err != nil {
		g.o.Log.Warn("whether an agent is stopped cannot be read", "agent", agent, "err", err)
	}
	return reason
}

// StoppedIn is WhyStopped in a snapshot.
func (g *Machine) StoppedIn(rd hub.Reader, agent hub.AgentID) (string, error) {
	isStopped, err := g.Stopped(rd, agent)
	if err != nil || !isStopped {
		return "", err
	}
	return fmt.Sprintf("the operator stopped %s; parley agent wake %[1]s --on undoes it, or parley agent wake --all --on if all agents were stopped", agent), nil
}
