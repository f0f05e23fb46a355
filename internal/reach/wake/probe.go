package wake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
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
		return ProbeReport{}, hub.Errorf(hub.CodeInvalid, op, "seconds must be between 0 and %d", int(maxProbing.Seconds()))
	}
	if _, err := hub.Read(ctx, g.store, func(rd hub.Reader) (hub.Agent, error) { return rd.Agent(agent) }); err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			return ProbeReport{}, hub.Errorf(hub.CodeNotFound, op, "no agent named %q on this hub", agent).WithHint("{agents} lists the agents")
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

	// The probe is a wake of its own, and a channel has one wake of an agent at a time.
	if f.over != nil {
		err := g.update(ctx, agent, func(a *agentRecord) error {
			if a.wakes.open(f.over.Name()) != nil {
				return hub.Errorf(hub.CodeConflict, op, "a wake of %s is already in progress", agent).WithHint("try again later")
			}
			a.wakes.add(&hub.Wake{ID: report.Wake, Agent: agent, Channel: f.over.Name(), State: hub.WakeReserved, At: now, Until: now.Add(proofTime), Probe: true})
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
		a, err := hub.Read(ctx, g.store, func(rd hub.Reader) (*agentRecord, error) { return g.load(rd, agent) })
		if err != nil {
			return err
		}
		w := a.wakes.find(report.Wake)
		if w == nil {
			return nil
		}
		report.follow(w)
		if report.Proven || !w.State.Open() {
			return nil
		}

		// A probe that nothing proved in time has failed.
		if over {
			o := channel.Outcome{State: channel.Failed, Detail: "no turn showed the notice in time"}
			report.State = string(o.State)
			report.Detail = o.Detail
			return g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return g.Record(tx, agent, report.Wake, o) })
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

// follow sets the report to the state of its wake.
func (p *ProbeReport) follow(w *hub.Wake) {
	p.Channel = w.Channel
	p.Mechanism = w.Mechanism
	p.State = string(outcomeOf(w.State))
	p.Detail = w.Detail
	p.Machine = cmp.Or(w.Machine, p.Machine)
	if !w.Proven.IsZero() || w.State == hub.WakeAccepted {
		p.Proven = true
		p.Seconds = max(w.Proven.Sub(w.At.Time).Seconds(), 0)
	}
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
	_, err = tx.Append(actor.Entry(report.At, actions.WakeProbed, "wake/"+string(report.Agent), facts))
	return err
}
