package wake

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// A sessionChannel reaches the sessions of agents that a person attends, or those without
// a person. Its forecast is a read of the store, so that it can be made inside of a
// transaction.
type sessionChannel struct {
	*Machine
	attended bool
}

// Name returns the kind of the channel.
func (c *sessionChannel) Name() hub.Channel {
	if c.attended {
		return hub.ChannelSession
	}
	return hub.ChannelWake
}

// Check reads the sessions of an agent. Sessions are checked one by one, when they are armed.
func (c *sessionChannel) Check(ctx context.Context) error {
	return c.store.View(ctx, func(r hub.Reader) error {
		_, err := c.List(r, hub.Operator)
		return err
	})
}

// forecast returns the forecast from the best session of an agent.
func (c *sessionChannel) forecast(r hub.Reader, to hub.AgentID) (channel.Reach, error) {
	d, err := hub.ReadMeta[document](r, sessionsKey(to))
	if err != nil {
		return channel.Reach{}, err
	}
	now := c.o.Clock.Now()
	c.bury(&d, now)
	return c.outlook(r, to, d, now)
}

func (c *sessionChannel) outlook(r hub.MetaReader, to hub.AgentID, d document, now hub.Time) (channel.Reach, error) {
	s := c.choose(to, d, now)
	switch {
	case s == nil && c.attended:
		return channel.Reach{When: hub.ReachUnreachable, Reason: "it has no live session in a terminal"}, nil
	case s == nil:
		return channel.Reach{When: hub.ReachUnreachable, Reason: "it has no live session without a terminal"}, nil
	case !c.armed(to, s, now) && s.busy(now):
		return channel.Reach{When: hub.ReachOnPoll, Reason: activity(*s, now) + ", cannot be woken: it sees the message at its next step"}, nil
	case !c.armed(to, s, now):
		return channel.Reach{When: hub.ReachOnPoll, Reason: activity(*s, now) + ", cannot be woken: it sees the message at its next prompt"}, nil
	case s.busy(now):
		return channel.Reach{When: hub.ReachOnPoll, Reason: activity(*s, now) + ", will see it after this turn", Mechanism: s.Mechanism, Later: true}, nil
	}
	untrusted, err := c.untrusted(r, *s)
	if err != nil {
		return channel.Reach{}, err
	}
	return channel.Reach{When: hub.ReachNow, Reason: activity(*s, now) + ", reachable by " + s.Mechanism + untrusted, Mechanism: s.Mechanism}, nil
}

// untrusted returns a warning about a session whose CLI runs hooks only after its user has
// trusted them, while no hook of that CLI has ever reported to this hub.
func (c *sessionChannel) untrusted(r hub.MetaReader, s Session) (string, error) {
	if !s.Reported.IsZero() || c.o.AsksTrust == nil || !c.o.AsksTrust(s.CLI) {
		return "", nil
	}
	trusted, err := hub.ReadMeta[map[string]bool](r, trustedKey)
	if err != nil || trusted[s.CLI] {
		return "", err
	}
	return "; its hooks have not run yet: not active until trusted", nil
}

// trustedKey holds the names of the CLIs that ask for trust and whose hooks have reported.
const trustedKey = "trusted-hooks"

// noteTrust stores that a hook of a CLI has run, which its user must have trusted.
func (a *agentRecord) noteTrust(cli string) error {
	if a.o.AsksTrust == nil || !a.o.AsksTrust(cli) {
		return nil
	}
	trusted, err := hub.ReadMeta[map[string]bool](a.rd, trustedKey)
	if err != nil || trusted[cli] {
		return err
	}
	if trusted == nil {
		trusted = map[string]bool{}
	}
	trusted[cli] = true
	return hub.WriteMeta(a.tx, trustedKey, trusted)
}

// order ranks sessions for a notice: armed ones before others, idle ones before busy
// ones.
func (c *sessionChannel) order(to hub.AgentID, s *Session, now hub.Time) int {
	n := 0
	if c.armed(to, s, now) {
		n += 2
	}
	if !s.busy(now) {
		n++
	}
	return n
}

// candidates returns the live sessions of the channel that rank first, the one that was
// used last at their head.
func (c *sessionChannel) candidates(to hub.AgentID, d document, now hub.Time) (out []*Session) {
	for _, s := range d.Sessions {
		isSilent := s.Armed.IsZero() && now.Sub(s.Seen.Time) > keepEnded
		if !s.live() || s.Attended != c.attended || isSilent {
			continue
		}
		if len(out) > 0 && c.order(to, s, now) > c.order(to, out[0], now) {
			out = nil
		}
		if len(out) == 0 || c.order(to, s, now) == c.order(to, out[0], now) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *Session) int { return b.Seen.Compare(a.Seen.Time) })
	return out
}

// choose returns the session for which a forecast speaks; nil if none is live.
func (c *sessionChannel) choose(to hub.AgentID, d document, now hub.Time) *Session {
	if all := c.candidates(to, d, now); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Deliver leaves a wake for the waiters of the sessions that rank first. The first of them
// that comes takes it. A turn is interrupted in one session alone.
func (c *sessionChannel) Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error) {
	var out channel.Outcome
	err := c.update(ctx, b.Recipient, func(a *agentRecord) error {
		s := c.choose(a.agent, a.presence, a.now)
		if s == nil || !c.armed(a.agent, s, a.now) {
			reach, err := c.outlook(a.rd, a.agent, a.presence, a.now)
			out = channel.Outcome{State: channel.Refused, Detail: reach.Reason}
			return err
		}
		out = channel.Outcome{State: channel.Waiting, Mechanism: s.Mechanism, Detail: "for its session's waiter", Proof: takeWithin}
		w := a.wakes.find(b.ID)
		if w == nil || (w.State != hub.WakeReserved && w.State != hub.WakeWaiting) {
			return nil // it was delivered before
		}

		offers := c.candidates(a.agent, a.presence, a.now)
		if b.Interrupt {
			offers = offers[:1]
		}
		w.Sessions = nil
		for _, o := range offers {
			w.Sessions = append(w.Sessions, o.Key)
		}
		return a.move(w, step{stateOf[out.State], out.Mechanism, out.Detail, out.Proof})
	})
	if err != nil {
		return channel.Outcome{}, fmt.Errorf("wake: deliver: %w", err)
	}
	return out, nil
}
