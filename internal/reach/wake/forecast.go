package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// A carrier is a channel without its forecast.
type carrier interface {
	Name() hub.Channel
	Check(ctx context.Context) error
	Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error)
}

// An answerKey names a recipient over one channel that is not the hub's own.
type answerKey struct {
	kind  hub.Channel
	index int // of the channel among those of its kind
	to    hub.AgentID
}

// An answer is the last forecast of a channel that is not the hub's own.
type answer struct {
	reach channel.Reach
	at    hub.Time
}

// answerFor is the lifetime of an answer.
const answerFor = time.Minute

// unasked is the forecast of a channel that was not asked about a recipient yet. The
// machine asks it before it makes an attempt.
var unasked = channel.Reach{When: hub.ReachOnPoll, Reason: "checked when the message is announced", Later: true}

// Survey asks the channels that are not the hub's own about recipients, all agents of the
// hub if none is named, and remembers their answers for the forecasts of the next
// transactions. Such a channel may be slow, or use the store itself, so it is never asked
// inside of a transaction. On a hub without such channels Survey does nothing.
func (g *Machine) Survey(ctx context.Context, to ...hub.AgentID) error {
	if !g.foreign {
		return nil
	}
	if len(to) == 0 {
		agents, err := hub.Read(ctx, g.store, func(rd hub.Reader) ([]hub.Agent, error) { return rd.Agents() })
		if err != nil {
			return fmt.Errorf("wake: survey: %w", err)
		}
		for _, a := range agents {
			to = append(to, a.ID)
		}
	}

	now := g.o.Clock.Now()
	fresh := map[answerKey]answer{}
	for kind, list := range g.channels {
		for i, c := range list {
			foreign, ok := c.(channel.Channel)
			if !ok {
				continue
			}
			for _, id := range to {
				fresh[answerKey{kind, i, id}] = answer{ask(ctx, foreign, id), now}
			}
		}
	}

	// Earlier answers about other agents stay until they are too old.
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, a := range g.answers {
		if _, again := fresh[k]; !again && now.Sub(a.at.Time) < answerFor {
			fresh[k] = a
		}
	}
	g.answers = fresh
	return nil
}

// ask returns the forecast of a channel. One that panics does not reach anybody.
func ask(ctx context.Context, c channel.Channel, to hub.AgentID) (out channel.Reach) {
	err := safely(c, func() error {
		out = c.Reach(ctx, to)
		return nil
	})
	if err != nil {
		return channel.Reach{When: hub.ReachUnreachable, Reason: err.Error()}
	}
	return out
}

// reach returns the forecast of one channel: of the hub's own from the store, of others
// their last answer.
func (g *Machine) reach(rd hub.Reader, kind hub.Channel, index int, to hub.AgentID) (channel.Reach, error) {
	if own, ok := g.channels[kind][index].(*sessionChannel); ok {
		return own.forecast(rd, to)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a, ok := g.answers[answerKey{kind, index, to}]; ok {
		return a.reach, nil
	}
	return unasked, nil
}

// Reach forecasts a message to an agent over the channels of one kind. later says that
// a wake waits for the end of a turn.
func (g *Machine) Reach(rd hub.Reader, kind hub.Channel, to hub.AgentID, m hub.Message) (when hub.Reach, later bool, reason string, err error) {
	if startsTurns(kind) {
		a, err := g.load(rd, to)
		if err != nil {
			return "", false, "", err
		}
		reason, err := a.blocked()
		if err != nil || reason != "" {
			return hub.ReachUnreachable, false, reason, err
		}
		if _, reason, err := a.loop(m); err != nil || reason != "" {
			return hub.ReachHeld, false, reason, err
		}
		if reason, _ := a.budget(m.From); reason != "" {
			return hub.ReachOnPoll, false, reason, nil
		}
	}
	best, err := g.best(rd, kind, to)
	return best.reach.When, best.reach.Later, best.reach.Reason, err
}

// A choice is the channel of a kind that a notice takes, with its forecast. over is nil if
// none reaches the recipient.
type choice struct {
	over  carrier
	reach channel.Reach
}

// best returns the first channel of a kind that reaches an agent now, else the first
// that will soon, else the reason of the first.
func (g *Machine) best(rd hub.Reader, kind hub.Channel, to hub.AgentID) (choice, error) {
	list := g.channels[kind]
	if len(list) == 0 {
		return choice{reach: channel.Reach{When: hub.ReachUnreachable, Reason: "this hub no longer has the channel"}}, nil
	}

	var soon, first *choice
	for i, c := range list {
		reach, err := g.reach(rd, kind, i, to)
		if err != nil {
			return choice{}, err
		}
		got := choice{c, reach}
		if reach.When == hub.ReachNow {
			return got, nil
		}
		if reach.Later && soon == nil {
			soon = &got
		}
		if first == nil {
			first = &choice{reach: reach}
		}
	}
	if soon != nil {
		return *soon, nil
	}
	return *first, nil
}
