package continuation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A silence is the time in which an agent cannot answer its mail, because its last turn failed.
type silence struct {
	Reason hub.ContinuationReason `json:"reason"`
	Until  hub.Time               `json:"until,omitzero"` // when the agent can go on, if that is known
	At     hub.Time               `json:"at,omitzero"`
}

// silencesKey is where the agents are stored that cannot answer, until they work again or the senders
// of their mail know.
const silencesKey = "continuation/silent"

// maxUnanswered bounds the messages of which the senders are told at once.
const maxUnanswered = 100

// fails reports whether an agent stopped in a turn that failed. One that was closed, or whose budget
// is spent, has ended its turn.
func fails(reason hub.ContinuationReason) bool {
	return reason != hub.ContinueClosed && reason != hub.ContinueBudget
}

// beginSilence notes that an agent cannot answer its mail.
func (s *Service) beginSilence(ctx context.Context, c Cause) error {
	if !fails(c.Reason) {
		return nil
	}
	s.note(c.Agent, true) // its next sign of life ends the silence
	return s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[map[hub.AgentID]silence](tx, silencesKey)
		if err != nil {
			return err
		}
		if all == nil {
			all = map[hub.AgentID]silence{}
		}
		one := silence{Reason: c.Reason, Until: c.Until, At: s.o.Clock.Now()}
		if before, known := all[c.Agent]; known {
			one.At = before.At // it failed again, and the senders have waited since then
		}
		all[c.Agent] = one
		return hub.WriteMeta(tx, silencesKey, all)
	})
}

// endSilence notes that an agent works again.
func (s *Service) endSilence(ctx context.Context, agent hub.AgentID) error {
	all, err := s.silences(ctx)
	if _, known := all[agent]; err != nil || !known {
		return err
	}
	return s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[map[hub.AgentID]silence](tx, silencesKey)
		if err != nil {
			return err
		}
		delete(all, agent)
		return hub.WriteMeta(tx, silencesKey, all)
	})
}

// silences returns the agents that cannot answer.
func (s *Service) silences(ctx context.Context) (map[hub.AgentID]silence, error) {
	return hub.Read(ctx, s.store, func(rd hub.Reader) (map[hub.AgentID]silence, error) {
		return hub.ReadMeta[map[hub.AgentID]silence](rd, silencesKey)
	})
}

// tellSenders tells the senders of mail to agents that could not answer within the time of patience,
// once for each time that an agent stopped.
func (s *Service) tellSenders(ctx context.Context) {
	all, err := s.silences(ctx)
	for _, agent := range slices.Sorted(maps.Keys(all)) {
		isDue := s.o.Clock.Now().Sub(all[agent].At.Time) >= s.o.Patience
		if err == nil && isDue {
			err = s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) error { return x.tellSenders(agent) })
		}
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("senders of mail to an agent that cannot answer were not told", "op", "continuation.Run", "err", err)
	}
}

// tellSenders tells the senders of an agent's mail that it cannot answer.
func (x *change) tellSenders(agent hub.AgentID) error {
	all, err := hub.ReadMeta[map[hub.AgentID]silence](x.tx, silencesKey)
	one, known := all[agent]
	if err != nil || !known {
		return err
	}
	delete(all, agent)
	if err := hub.WriteMeta(x.tx, silencesKey, all); err != nil {
		return err
	}

	waiting, err := x.unanswered(agent, one)
	if err != nil {
		return err
	}
	for _, sender := range slices.Sorted(maps.Keys(waiting)) {
		ids := waiting[sender]
		text := fmt.Sprintf("%s %s", agent, one.Reason.Text())
		if !one.Until.IsZero() {
			text += " until " + one.Until.String()
		}
		noun := "messages"
		if len(ids) == 1 {
			noun = "message"
		}
		text += fmt.Sprintf(" and has not answered your %s %s; send to another agent what cannot wait", noun, strings.Join(ids, ", "))
		m, err := x.s.mail.Notify(x.tx, notice([]hub.AgentID{sender}, map[string]any{"message": text, "agent": agent}))
		if err != nil {
			return err
		}
		x.posted = append(x.posted, m)
	}
	return nil
}

// unanswered returns the short ids of the messages that wait for an agent, by their senders: the unread
// ones, and those that it read shortly before it stopped and did not answer. Handoffs and messages of the
// hub have their own ways.
func (x *change) unanswered(agent hub.AgentID, since silence) (map[hub.AgentID][]string, error) {
	out := map[hub.AgentID][]string{}
	seen := map[hub.EnvelopeID]bool{}
	add := func(m hub.Envelope) error {
		isPlain := m.From != hub.Self && m.From != agent && !strings.HasPrefix(string(m.Type), "handoff.")
		if !isPlain || seen[m.ID] {
			return nil
		}
		seen[m.ID] = true
		short, err := x.tx.ShortID(string(m.ID))
		if err == nil {
			out[m.From] = append(out[m.From], firstOf(string(short), string(m.ID)))
		}
		return err
	}

	inbox, err := x.tx.Inbox(agent, hub.InboxFilter{Limit: maxUnanswered, Now: x.s.o.Clock.Now()})
	if err != nil {
		return nil, err
	}
	for _, m := range inbox.Messages {
		if err := add(m.Envelope); err != nil {
			return nil, err
		}
	}

	recent, err := x.tx.Query(hub.Query{Viewer: agent, To: agent, Since: since.At.Add(-x.s.o.Patience), Until: since.At, Limit: maxUnanswered})
	if err != nil {
		return nil, err
	}
	for _, m := range recent.Messages {
		if strings.HasPrefix(string(m.Type), "status.") {
			continue // it asks for nothing
		}
		answers, err := x.tx.Query(hub.Query{Viewer: agent, From: agent, Thread: m.ThreadID, Since: m.CreatedAt, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(answers.Messages) > 0 {
			continue
		}
		if err := add(m.Envelope); err != nil {
			return nil, err
		}
	}
	return out, nil
}
