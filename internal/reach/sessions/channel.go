package sessions

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// Channels returns the register as channels of the router: session for sessions that
// a person attends, wake for those without.
func (g *Register) Channels() []channel.Channel {
	return []channel.Channel{registered{g, true}, registered{g, false}}
}

// A registered channel reaches the sessions of the register that are attended, or
// those that are not.
type registered struct {
	*Register
	attended bool
}

// Name returns the kind of the channel.
func (c registered) Name() hub.Channel {
	if c.attended {
		return hub.ChannelSession
	}
	return hub.ChannelWake
}

// Check reads the register. Sessions are checked one by one, when they are armed.
func (c registered) Check(ctx context.Context) error {
	return c.store.View(ctx, func(r hub.Reader) error {
		_, err := c.List(r, hub.Operator)
		return err
	})
}

// Reach forecasts from the best session of an agent.
func (c registered) Reach(ctx context.Context, to hub.AgentID) (out channel.Reach) {
	err := c.store.View(ctx, func(r hub.Reader) error {
		d, err := hub.ReadMeta[document](r, metaKey(to))
		if err == nil {
			out = c.reach(to, d, c.clock.Now())
		}
		return err
	})
	if err != nil {
		return channel.Reach{When: hub.ReachUnreachable, Reason: "its sessions cannot be read now"}
	}
	return out
}

func (c registered) reach(to hub.AgentID, d document, now hub.Time) channel.Reach {
	s := c.choose(to, d, now)
	switch {
	case s == nil && c.attended:
		return channel.Reach{When: hub.ReachUnreachable, Reason: "it has no live session in a terminal"}
	case s == nil:
		return channel.Reach{When: hub.ReachUnreachable, Reason: "it has no live session without a terminal"}
	case !c.armed(to, s, now) && s.busy(now):
		return channel.Reach{When: hub.ReachOnPoll, Reason: describe(*s, now) + ", cannot be woken: it sees the message at its next step"}
	case !c.armed(to, s, now):
		return channel.Reach{When: hub.ReachOnPoll, Reason: describe(*s, now) + ", cannot be woken: it sees the message at its next prompt"}
	case s.busy(now):
		return channel.Reach{When: hub.ReachOnPoll, Reason: describe(*s, now) + ", will see it after this turn", Mechanism: s.Mechanism, Later: true}
	}
	return channel.Reach{When: hub.ReachNow, Reason: describe(*s, now) + ", reachable by " + s.Mechanism, Mechanism: s.Mechanism}
}

// choose returns the session that a notice goes to: an armed one before others, an
// idle one before a busy one, the one that was used last among equals; nil if none
// is live.
func (c registered) choose(to hub.AgentID, d document, now hub.Time) *Session {
	var best *Session
	rank := func(s *Session) int {
		n := 0
		if c.armed(to, s, now) {
			n += 2
		}
		if !s.busy(now) {
			n++
		}
		return n
	}
	for _, s := range d.Sessions {
		if !s.live() || s.Attended != c.attended || s.Armed.IsZero() && now.Sub(s.Seen.Time) > keepEnded {
			continue
		}
		if best == nil || rank(s) > rank(best) || rank(s) == rank(best) && s.Seen.After(best.Seen.Time) {
			best = s
		}
	}
	return best
}

// Deliver leaves a batch for the waiter of the best session, which takes it with its
// next or present Wait.
func (c registered) Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error) {
	out := channel.Outcome{State: channel.Refused}
	err := c.update(ctx, b.Recipient, func(_ hub.Tx, d *document, now hub.Time) error {
		to := b.Recipient
		s := c.choose(to, *d, now)
		switch {
		case s == nil || !c.armed(to, s, now):
			out = channel.Outcome{State: channel.Refused, Detail: c.reach(to, *d, now).Reason}
			return nil
		case s.Wake == nil || s.Wake.ID != b.ID:
			s.Wake = &wake{ID: b.ID, Interrupt: b.Interrupt, Repeat: b.Repeat, Probe: b.Probe}
		}
		out = channel.Outcome{State: channel.Waiting, Mechanism: s.Mechanism, Detail: "for the waiter of its session", Proof: takeWithin}
		return nil
	})
	if err != nil {
		return channel.Outcome{}, fmt.Errorf("sessions: deliver: %w", err)
	}
	return out, nil
}
