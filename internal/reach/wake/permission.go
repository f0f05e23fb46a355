package wake

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
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
	if p.PerHour < 0 || p.PerHour > maxAttempts {
		return hub.Errorf(hub.CodeInvalid, op, "per_hour: not between 1 and %d", maxAttempts)
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
	LastHour  int           `json:"last_hour,omitempty"` // turns within the last hour, as the budget counts them
	Spent     string        `json:"spent,omitempty"`     // why the budget allows no turn now
	Looped    int           `json:"looped,omitempty"`    // unread messages that are held as the end of a loop
	Last      *Announcement `json:"last,omitempty"`
	Probe     *ProbeReport  `json:"probe,omitempty"` // the last one, or the last delivery with a proof
}

// An Announcement is an attempt, as people read it.
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
	a, err := hub.ReadMeta[account](rd, accountKey(agent))
	if err != nil {
		return Standing{}, err
	}
	all, err := hub.ReadMeta[common](rd, commonKey)
	if err != nil {
		return Standing{}, err
	}
	out := Standing{Allowed: a.Allowed, Interrupt: a.Interrupt, WithText: a.WithText, Paused: a.Paused || all.Paused, Disarmed: a.Disarmed}
	now := g.o.Clock.Now()
	out.LastHour, _ = a.spent(now, "")
	out.Spent, _ = g.budget(&a, now, "")
	unread, err := readInbox(rd, agent, now)
	if err != nil {
		return out, err
	}
	for _, m := range unread {
		if slices.ContainsFunc(m.rows, func(d hub.Delivery) bool { return d.Status == hub.DeliveryHeld && startsTurns(d.Channel) }) {
			out.Looped++
		}
	}
	if n := len(a.Attempts); n > 0 {
		t := a.Attempts[n-1]
		out.Last = &Announcement{t.ID, t.At, t.Channel, t.Mechanism, string(t.State), t.Detail, t.Proven}
	}
	reports, err := hub.ReadMeta[[]ProbeReport](rd, probesKey(agent))
	if n := len(reports); n > 0 {
		out.Probe = &reports[n-1]
	}
	for _, t := range slices.Backward(a.Attempts) {
		if !t.Proven.IsZero() && (out.Probe == nil || t.Proven.After(out.Probe.At.Time)) && !t.Probe {
			out.Probe = &ProbeReport{
				Agent: agent, At: t.At, Wake: t.ID, Channel: t.Channel, Mechanism: t.Mechanism, State: string(t.State),
				Seconds: t.Proven.Sub(t.At.Time).Seconds(), Proven: true, Detail: "a delivery", Machine: t.Machine,
			}
			break
		}
	}
	if p := out.Probe; p != nil && p.Machine != "" && g.o.Away != nil && g.o.Away(p.Machine) {
		p.State, p.Detail = machineAway, "no hub runs on "+p.Machine
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
	data := map[string]any{"allow": p.Allow, "interrupt": p.Interrupt, "per_hour": p.PerHour}
	if p.WithText {
		data["with_text"] = true
	}
	return g.change(ctx, op, actor, p.Agent, hub.ActionWakeAllowed, data, func(_ hub.Tx, a *account, all *common) error {
		a.Allowed = p.Allow
		a.Interrupt = p.Allow && p.Interrupt
		a.WithText = p.Allow && p.WithText
		a.PerHour = p.PerHour
		all.Allowed = slices.DeleteFunc(all.Allowed, func(id hub.AgentID) bool { return id == p.Agent })
		if p.Allow {
			all.Allowed = append(all.Allowed, p.Agent)
		}
		return nil
	})
}

// CarriesText reports whether the user of an agent allowed that a notice has the text of
// a short message of the operator.
func (g *Machine) CarriesText(rd hub.Reader, agent hub.AgentID) (bool, error) {
	a, err := hub.ReadMeta[account](rd, accountKey(agent))
	return a.WithText, err
}

// Pause stops the wakes of an agent, or of all agents if there is no name. Mail goes
// on.
func (g *Machine) Pause(ctx context.Context, actor hub.Caller, agent hub.AgentID) error {
	return g.pause(ctx, "wake.Pause", actor, agent, hub.ActionWakePaused, true)
}

// Resume ends a pause, arms an agent again that was disarmed, and lets messages start
// turns that are held as the end of a loop.
func (g *Machine) Resume(ctx context.Context, actor hub.Caller, agent hub.AgentID) error {
	return g.pause(ctx, "wake.Resume", actor, agent, hub.ActionWakeResumed, false)
}

func (g *Machine) pause(ctx context.Context, op string, actor hub.Caller, agent hub.AgentID, action hub.Action, paused bool) error {
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	return g.change(ctx, op, actor, agent, action, nil, func(tx hub.Tx, a *account, all *common) error {
		if agent == "" {
			all.Paused = paused
			return nil
		}
		if a.Paused = paused; paused {
			return nil
		}
		a.Disarmed, a.Barren = "", 0
		return g.release(tx, agent, a)
	})
}

// change changes the state of an agent, or of all if there is no name, with a journal
// entry, and visits the agents concerned.
func (g *Machine) change(ctx context.Context, op string, actor hub.Caller, agent hub.AgentID, action hub.Action, facts map[string]any, do func(hub.Tx, *account, *common) error) error {
	var visits []hub.AgentID
	err := g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[common](tx, commonKey)
		if err != nil {
			return err
		}
		var a account
		if agent != "" {
			if _, err := tx.Agent(agent); err != nil {
				if hub.CodeOf(err) == hub.CodeNotFound {
					return hub.Errorf(hub.CodeNotFound, op, "no agent named %q on this hub", agent).WithHint("{agents} lists them")
				}
				return err
			}
			if a, err = hub.ReadMeta[account](tx, accountKey(agent)); err != nil {
				return err
			}
		}
		if err := do(tx, &a, &all); err != nil {
			return err
		}
		visits = []hub.AgentID{agent}
		if agent == "" {
			visits = all.Allowed
		} else if err := hub.WriteMeta(tx, accountKey(agent), a); err != nil {
			return err
		}
		if err := hub.WriteMeta(tx, commonKey, all); err != nil {
			return err
		}
		subject := "wake/*"
		if agent != "" {
			subject = "wake/" + string(agent)
		}
		_, err = tx.Append(actor.Entry(g.o.Clock.Now(), action, subject, facts))
		return err
	})
	if err != nil {
		return fmt.Errorf("wake: %w", err)
	}
	if err := g.refresh(ctx); err != nil {
		return err
	}
	g.o.Bus.Publish(hub.TopicJournal)
	for _, id := range visits {
		g.Visit(id)
	}
	return nil
}
