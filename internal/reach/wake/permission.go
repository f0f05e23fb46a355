package wake

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Permission is the yes or no of an agent's user to wakes.
type Permission struct {
	Agent     hub.AgentID `json:"agent"`
	Allow     bool        `json:"allow"`               // mail may start turns, which cost tokens
	Interrupt bool        `json:"interrupt,omitempty"` // critical mail of a coordinator may interrupt a turn
	WithText  bool        `json:"with_text,omitempty"` // a notice may have the text of a short message of the operator
	PerHour   int         `json:"per_hour,omitempty"`  // wakes within an hour; 0 for the limit of the hub
}

// Check refuses a budget that cannot be counted.
func (p Permission) Check(op string) error {
	if p.PerHour < 0 || p.PerHour > maxWakes {
		return hub.Errorf(hub.CodeInvalid, op, "per_hour must be between 1 and %d, got %d", maxWakes, p.PerHour)
	}
	return nil
}

// A Standing says how the wakes of an agent stand.
type Standing struct {
	Allowed   bool          `json:"allowed"`
	Interrupt bool          `json:"interrupt,omitempty"`
	WithText  bool          `json:"with_text,omitempty"`
	Paused    bool          `json:"paused,omitempty"` // for this agent, or for all
	Disarmed  string        `json:"disarmed,omitempty"`
	PerHour   int           `json:"per_hour,omitempty"`  // turns that mail may start within an hour; 0 for the limit of the hub
	LastHour  int           `json:"last_hour,omitempty"` // turns within the last hour, as the budget counts them
	Spent     string        `json:"spent,omitempty"`     // why the budget allows no turn now
	Looped    int           `json:"looped,omitempty"`    // unread messages that are held as the end of a loop
	Last      *Announcement `json:"last,omitempty"`
	Probe     *ProbeReport  `json:"probe,omitempty"` // the last one, or the last delivery with a proof
}

// An Announcement is a wake, as people read it.
type Announcement struct {
	ID        string      `json:"id"`
	At        hub.Time    `json:"at,omitzero"`
	Channel   hub.Channel `json:"channel"`
	Mechanism string      `json:"mechanism,omitempty"`
	State     string      `json:"state"`
	Detail    string      `json:"detail,omitempty"`
	Proven    hub.Time    `json:"proven,omitzero"`
}

// Paused reports whether the wakes of all agents are paused.
func (g *Machine) Paused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.common.Paused
}

// Standing returns how the wakes of an agent stand.
func (g *Machine) Standing(rd hub.Reader, agent hub.AgentID) (Standing, error) {
	a, err := g.load(rd, agent)
	if err != nil {
		return Standing{}, err
	}
	all, err := hub.ReadMeta[common](rd, commonKey)
	if err != nil {
		return Standing{}, err
	}
	p := a.account
	out := Standing{Allowed: p.Allowed, Interrupt: p.Interrupt, WithText: p.WithText, PerHour: p.PerHour, Paused: p.Paused || all.Paused, Disarmed: p.Disarmed}
	out.LastHour, _ = a.wakes.spent(a.now, "")
	out.Spent, _ = a.budget("")

	// Messages that a loop holds back are counted.
	unread, err := readInbox(rd, agent, a.now)
	if err != nil {
		return out, err
	}
	for _, m := range unread {
		if slices.ContainsFunc(m.rows, func(d hub.Delivery) bool { return d.Status == hub.DeliveryHeld && startsTurns(d.Channel) }) {
			out.Looped++
		}
	}
	if n := len(a.wakes); n > 0 {
		w := a.wakes[n-1]
		out.Last = &Announcement{w.ID, w.At, w.Channel, w.Mechanism, string(outcomeOf(w.State)), w.Detail, w.Proven}
	}
	out.Probe, err = a.lastProof()
	return out, err
}

// lastProof returns the report of the last probe, or of a later delivery with a proof; nil if
// there is neither.
func (a *agentRecord) lastProof() (*ProbeReport, error) {
	var out *ProbeReport
	reports, err := a.Reports(a.rd, a.agent)
	if n := len(reports); n > 0 {
		out = &reports[n-1]
	}

	for _, w := range slices.Backward(a.wakes) {
		isNewer := !w.Proven.IsZero() && (out == nil || w.Proven.After(out.At.Time))
		if isNewer && !w.Probe {
			out = &ProbeReport{
				Agent: a.agent, At: w.At, Wake: w.ID, Channel: w.Channel, Mechanism: w.Mechanism, State: string(outcomeOf(w.State)),
				Seconds: w.Proven.Sub(w.At.Time).Seconds(), Proven: true, Detail: "a delivery", Machine: w.Machine,
			}
			break
		}
	}

	isAway := out != nil && out.Machine != "" && a.o.Away != nil && a.o.Away(out.Machine)
	if isAway {
		out.State = machineAway
		out.Detail = "no hub runs on " + out.Machine
	}
	return out, err
}

// Allow records the answer of an agent's user to the question whether mail may start
// turns. Only the operator gives it.
func (g *Machine) Allow(ctx context.Context, actor hub.Caller, p Permission) error {
	const op = "wake.Allow"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	if err := p.Check(op); err != nil {
		return err
	}
	return g.allow(ctx, op, actor, p)
}

// Inherit lets mail start turns of an agent that stands in for another one, as often as for that
// one. The operator allowed it by naming the successors of the agent.
func (g *Machine) Inherit(ctx context.Context, agent, of hub.AgentID) error {
	const op = "wake.Inherit"
	before, err := hub.Read(ctx, g.store, func(rd hub.Reader) (account, error) { return hub.ReadMeta[account](rd, accountKey(of)) })
	if err != nil {
		return err
	}
	return g.allow(ctx, op, hub.Caller{ID: hub.Self}, Permission{Agent: agent, Allow: true, PerHour: before.PerHour})
}

// allow stores a permission.
func (g *Machine) allow(ctx context.Context, op string, actor hub.Caller, p Permission) error {
	data := map[string]any{"allow": p.Allow, "interrupt": p.Interrupt, "per_hour": p.PerHour}
	if p.WithText {
		data["with_text"] = true
	}
	return g.change(ctx, op, actor, p.Agent, actions.WakeAllowed, data, func(a *agentRecord, all *common) error {
		a.account.Allowed = p.Allow
		a.account.Interrupt = p.Allow && p.Interrupt
		a.account.WithText = p.Allow && p.WithText
		a.account.PerHour = p.PerHour
		all.Allowed = slices.DeleteFunc(all.Allowed, func(id hub.AgentID) bool { return id == p.Agent })
		if p.Allow {
			all.Allowed = append(all.Allowed, p.Agent)
		}
		return nil
	})
}

// Pause stops the wakes of an agent, or of all agents if there is no name. Mail goes
// on.
func (g *Machine) Pause(ctx context.Context, actor hub.Caller, agent hub.AgentID) error {
	return g.pause(ctx, "wake.Pause", actor, agent, actions.WakePaused, pausing{paused: true})
}

// Stop pauses an agent as Pause does, or all agents if there is no name, and has tool calls of
// their running turns denied until Resume.
func (g *Machine) Stop(ctx context.Context, actor hub.Caller, agent hub.AgentID) error {
	return g.pause(ctx, "wake.Stop", actor, agent, actions.WakePaused, pausing{paused: true, stopped: true})
}

// Stopped reports whether tool calls of an agent are denied, because a person stopped it.
func (g *Machine) Stopped(rd hub.Reader, agent hub.AgentID) (bool, error) {
	all, err := hub.ReadMeta[common](rd, commonKey)
	if err != nil || all.Stopped {
		return all.Stopped, err
	}
	p, err := hub.ReadMeta[account](rd, accountKey(agent))
	return p.Stopped, err
}

// A pausing says what a pause, or its end, does. A pause of wakes alone leaves a stop as it is.
type pausing struct{ paused, stopped bool }

// Resume ends a pause, arms an agent again that was disarmed, and lets messages start
// turns that are held as the end of a loop.
func (g *Machine) Resume(ctx context.Context, actor hub.Caller, agent hub.AgentID) error {
	return g.pause(ctx, "wake.Resume", actor, agent, actions.WakeResumed, pausing{})
}

func (g *Machine) pause(ctx context.Context, op string, actor hub.Caller, agent hub.AgentID, action actions.Action, p pausing) error {
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	var facts map[string]any
	if p.stopped {
		facts = map[string]any{"now": true}
	}
	return g.change(ctx, op, actor, agent, action, facts, func(a *agentRecord, all *common) error {
		if a == nil {
			all.Paused = p.paused
			all.Stopped = p.paused && (p.stopped || all.Stopped)
			return nil
		}
		a.account.Stopped = p.paused && (p.stopped || a.account.Stopped)
		if a.account.Paused = p.paused; p.paused {
			return nil
		}
		a.account.Disarmed = ""
		a.account.Barren = 0
		return a.release()
	})
}

// change changes the record of an agent, or the common state alone if there is no name, with
// a journal entry, and visits the agents concerned. do gets no record without a name.
func (g *Machine) change(ctx context.Context, op string, actor hub.Caller, agent hub.AgentID, action actions.Action, facts map[string]any, do func(*agentRecord, *common) error) error {
	var visits []hub.AgentID
	err := g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[common](tx, commonKey)
		if err != nil {
			return err
		}
		subject := "wake/*"
		if agent == "" {
			err = do(nil, &all)
			visits = all.Allowed
		} else {
			subject = "wake/" + string(agent)
			err = g.changeOne(tx, op, agent, func(a *agentRecord) error { return do(a, &all) })
			visits = []hub.AgentID{agent}
		}
		if err != nil {
			return err
		}

		if err := hub.WriteMeta(tx, commonKey, all); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(g.o.Clock.Now(), action, subject, facts))
		return err
	})
	if err != nil {
		return fmt.Errorf("wake: %w", err)
	}

	// The visits come after the commit, so that they see the change.
	if err := g.refresh(ctx); err != nil {
		return err
	}
	g.o.Bus.Publish(hub.TopicJournal)
	for _, id := range visits {
		g.Visit(id)
	}
	return nil
}

// changeOne changes the record of an agent of this hub.
func (g *Machine) changeOne(tx hub.Tx, op string, agent hub.AgentID, do func(*agentRecord) error) error {
	if _, err := tx.Agent(agent); err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeNotFound, op, "no agent named %q on this hub", agent).WithHint("{agents} lists the agents")
		}
		return err
	}
	return g.edit(tx, agent, do)
}
