package wake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// A ProbeReport is the result of a probe: one notice without a message, and whether it
// became a turn. A delivery with a proof counts as one.
type ProbeReport struct {
	Agent     hub.AgentID `json:"agent"`
	At        hub.Time    `json:"at,omitzero"`
	Wake      string      `json:"wake"`
	Channel   hub.Channel `json:"channel,omitempty"`
	Mechanism string      `json:"mechanism,omitempty"`
	State     string      `json:"state"`   // turn_started if it is proven
	Seconds   float64     `json:"seconds"` // until the proof; 0 without one
	Proven    bool        `json:"proven"`
	Detail    string      `json:"detail,omitempty"`
	Machine   string      `json:"machine,omitempty"` // of the hub that the CLI answered, where hubs of several share a store
}

// machineAway is the state in which a report is shown while no hub runs on its machine.
const machineAway = "machine away"

// Away reports whether no hub runs on the machine of the probe.
func (p *ProbeReport) Away() bool { return p.State == machineAway }

const (
	maxProbes  = 20 // reports kept for one agent
	maxProbing = 5 * time.Minute
)

func probesKey(agent hub.AgentID) string { return "probes/" + string(agent) }

// Reports returns the stored reports of an agent, oldest first.
func (g *Machine) Reports(rd hub.Reader, agent hub.AgentID) ([]ProbeReport, error) {
	return hub.ReadMeta[[]ProbeReport](rd, probesKey(agent))
}

// Probe shows a notice without a message to an agent, waits for the proof and stores
// the report. It starts one turn; only the operator may. The budgets do not apply to
// it, and it counts against none.
func (g *Machine) Probe(ctx context.Context, actor hub.Caller, agent hub.AgentID, wait time.Duration) (ProbeReport, error) {
	const op = "wake.Probe"
	if err := actor.OperatorOnly(op); err != nil {
		return ProbeReport{}, err
	}
	if wait = cmp.Or(wait, time.Minute); wait < 0 || wait > maxProbing {
		return ProbeReport{}, hub.Errorf(hub.CodeInvalid, op, "seconds: not between 0 and %d", int(maxProbing.Seconds()))
	}
	if _, err := hub.Read(ctx, g.store, func(rd hub.Reader) (hub.Agent, error) { return rd.Agent(agent) }); err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			return ProbeReport{}, hub.Errorf(hub.CodeNotFound, op, "no agent named %q on this hub", agent).WithHint("{agents} lists them")
		}
		return ProbeReport{}, err
	}
	now := g.o.Clock.Now()
	report := ProbeReport{Agent: agent, At: now, Wake: channel.NewID(string(agent), "probe", now.String()), State: string(channel.Refused), Machine: g.o.Machine}
	f, reason, err := g.probeFlight(ctx, agent, report.Wake)
	if err != nil {
		return ProbeReport{}, fmt.Errorf("wake: probe: %w", err)
	}
	report.Detail = reason
	if f.over != nil {
		t := &attempt{ID: report.Wake, Channel: f.over.Name(), At: now, Until: now.Add(proofTime), Probe: true}
		err := g.withAccount(ctx, agent, func(_ hub.Tx, a *account) error {
			if a.open(t.Channel) != nil {
				return hub.Errorf(hub.CodeConflict, op, "a wake of %s is under way", agent).WithHint("try again when it has ended")
			}
			a.add(t)
			return nil
		})
		if err == nil {
			err = g.fly(ctx, g.store, f, nil)
		}
		if err == nil {
			err = g.await(ctx, agent, wait, &report)
		}
		if err != nil {
			return ProbeReport{}, fmt.Errorf("wake: probe: %w", err)
		}
	}
	err = g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return g.keep(tx, actor, report) })
	if err != nil {
		return ProbeReport{}, fmt.Errorf("wake: probe: %w", err)
	}
	g.o.Bus.Publish(hub.TopicJournal)
	return report, nil
}

// probeFlight returns the attempt of a probe, or why there is none.
func (g *Machine) probeFlight(ctx context.Context, agent hub.AgentID, id string) (f flight, reason string, err error) {
	if err := g.Survey(ctx, agent); err != nil {
		return flight{}, "", err
	}
	err = g.store.View(ctx, func(rd hub.Reader) error {
		for _, kind := range turnKinds {
			c, err := g.best(rd, kind, agent)
			if err != nil {
				return err
			}
			if c.over != nil && c.reach.When == hub.ReachNow {
				f = flight{over: c.over, batch: channel.Batch{ID: id, Recipient: agent, Probe: true}}
				reason = ""
				return nil
			}
			if kind == turnKinds[0] {
				reason = c.reach.Reason
			}
		}
		return nil
	})
	return f, reason, err
}

// await waits until a probe is proven or has failed, at most for a time, and ends it.
func (g *Machine) await(ctx context.Context, agent hub.AgentID, wait time.Duration, report *ProbeReport) error {
	hints, cancel := g.o.Bus.Subscribe(hub.TopicJournal, "sessions/"+string(agent))
	defer cancel()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for over := false; ; {
		a, err := hub.Read(ctx, g.store, func(rd hub.Reader) (account, error) { return hub.ReadMeta[account](rd, accountKey(agent)) })
		if err != nil {
			return err
		}
		t := a.find(report.Wake)
		if t == nil {
			return nil
		}
		report.Channel, report.Mechanism, report.State, report.Detail = t.Channel, t.Mechanism, string(t.State), t.Detail
		report.Machine = cmp.Or(t.Machine, report.Machine)
		if !t.Proven.IsZero() || t.State == channel.Accepted {
			report.Proven, report.Seconds = true, max(t.Proven.Sub(t.At.Time).Seconds(), 0)
			return nil
		}
		if t.Closed {
			return nil
		}
		if over {
			report.State, report.Detail = string(channel.Failed), "no turn showed the notice in time"
			return g.withAccount(ctx, agent, func(tx hub.Tx, a *account) error {
				if t := a.find(report.Wake); t != nil && !t.Closed {
					return g.move(tx, agent, a, t, channel.Outcome{State: channel.Failed, Detail: report.Detail})
				}
				return nil
			})
		}
		select {
		case <-hints:
		case <-timeout.C:
			over = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// withAccount changes the account of an agent.
func (g *Machine) withAccount(ctx context.Context, agent hub.AgentID, do func(hub.Tx, *account) error) error {
	return g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		a, err := hub.ReadMeta[account](tx, accountKey(agent))
		if err == nil {
			err = do(tx, &a)
		}
		if err != nil {
			return err
		}
		return hub.WriteMeta(tx, accountKey(agent), a)
	})
}

// keep stores a report, with a journal entry.
func (g *Machine) keep(tx hub.Tx, actor hub.Caller, report ProbeReport) error {
	reports, err := g.Reports(tx, report.Agent)
	if err != nil {
		return err
	}
	reports = append(reports, report)
	reports = slices.Delete(reports, 0, max(len(reports)-maxProbes, 0))
	if err := hub.WriteMeta(tx, probesKey(report.Agent), reports); err != nil {
		return err
	}
	facts := map[string]any{"wake": report.Wake, "state": report.State, "proven": report.Proven, "mechanism": report.Mechanism}
	_, err = tx.Append(actor.Entry(report.At, hub.ActionWakeProbed, "wake/"+string(report.Agent), facts))
	return err
}
