package web

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/coordination"
)

// waits is everything that waits for a person.
type waits struct {
	Held     []message
	Handoffs []handoff.Report // that need approval
	Asks     []api.KeptAgent  // kept agents with questions
	Talks    []hub.Deliberation
	Peers    []federation.PeerStatus
	Inbox    []message // to the operator
	More     int       // messages in the inbox that are not among these

	notices []message // of the hub, about what is listed above
}

// Count returns the number of things that wait.
func (w waits) Count() int {
	n := len(w.Held) + len(w.Handoffs) + len(w.Talks) + len(w.Peers) + len(w.Inbox) + w.More
	for _, a := range w.Asks {
		n += len(a.Asks)
	}
	return n
}

// waiting returns what waits for a person. A rendering asks for it twice, so it is kept.
func (v *visit) waiting(ctx context.Context) (*waits, error) {
	if v.waits != nil {
		return v.waits, nil
	}
	w := &waits{}
	held, err := perform(ctx, v, api.ListHeld, api.None{})
	if err != nil {
		return nil, err
	}
	for _, e := range held.Messages {
		w.Held = append(w.Held, v.message(e, held.ShortIDs))
	}
	w.Handoffs = held.Handoffs
	kept, err := perform(ctx, v, api.ListKept, api.None{})
	if err != nil {
		return nil, err
	}
	for _, a := range kept.Agents {
		if len(a.Asks) > 0 {
			w.Asks = append(w.Asks, a)
		}
	}
	talks, err := perform(ctx, v, api.ListTalks, api.TalkListParams{Open: true, Limit: 200})
	if err != nil {
		return nil, err
	}
	for _, t := range talks.Deliberations {
		if t.State == hub.TalkEscalated && slices.Contains(t.Deciders, hub.Operator) {
			w.Talks = append(w.Talks, t)
		}
	}
	if v.operator() {
		if err := v.mail(ctx, w); err != nil {
			return nil, err
		}
	}
	v.waits = w
	return w, nil
}

// mail adds what only an operator sees: the peers that wait, and the operator's inbox
// without notices of what is listed already.
func (v *visit) mail(ctx context.Context, w *waits) error {
	peers, err := perform(ctx, v, coordination.ListPeers, coordination.None{})
	if err != nil {
		return err
	}
	for _, p := range peers.Peers {
		if p.State == hub.PeerPending {
			w.Peers = append(w.Peers, p)
		}
	}
	inbox, err := perform(ctx, v, api.Inbox, api.InboxParams{Peek: true, Limit: 20})
	if err != nil {
		return err
	}
	for _, e := range inbox.Messages {
		m := v.message(e, inbox.ShortIDs)
		if e.From == hub.Self && w.tells(m) {
			w.notices = append(w.notices, m)
			continue
		}
		w.Inbox = append(w.Inbox, m)
	}
	w.More = max(0, inbox.Unread-len(inbox.Messages))
	return nil
}

// acknowledge marks the hub's notices about something as read.
func (v *visit) acknowledge(ctx context.Context, about func(message) bool) error {
	w, err := v.waiting(ctx)
	if err != nil {
		return err
	}
	var ids []hub.EnvelopeID
	for _, m := range w.notices {
		if about(m) {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err = perform(ctx, v, api.Inbox, api.InboxParams{Peek: true, Limit: 1, Ack: api.AckSet{IDs: ids}})
	return err
}

// tells reports whether a message of the hub is the notice of something that is listed.
func (w *waits) tells(m message) bool {
	for _, t := range w.Talks {
		if m.ThreadID == t.ID {
			return true
		}
	}
	for _, a := range w.Asks {
		for _, q := range a.Asks {
			if m.tellsOf(a.Agent, q.ID) {
				return true
			}
		}
	}
	return false
}

// tellsOf reports whether a message is the hub's notice of a question.
func (m message) tellsOf(agent hub.AgentID, question int) bool {
	text := m.words(1000)
	return strings.HasPrefix(text, fmt.Sprintf("%s asks: ", agent)) && strings.HasSuffix(text, fmt.Sprintf(" %s %d", agent, question))
}
