package records

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A field is one member of a thing that is compared with the journal.
type field struct {
	name string
	same bool
}

// differing returns the names of the fields that are not the same.
func differing(fields ...field) (names []string) {
	for _, f := range fields {
		if !f.same {
			names = append(names, f.name)
		}
	}
	return names
}

// sentFacts are the facts of an entry about a sending that are compared.
type sentFacts struct {
	Type       hub.MessageType `json:"type"`
	To         []hub.AgentID   `json:"to"`
	Recipients int             `json:"recipients"`
	ThreadID   string          `json:"thread_id"`
	ReplyTo    hub.EnvelopeID  `json:"reply_to"`
	Priority   hub.Priority    `json:"priority"`
	Policy     hub.Policy      `json:"policy"`
	Payload    string          `json:"payload_sha256"`
	Hop        int             `json:"hop"`
	Cause      hub.EnvelopeID  `json:"cause"`
	Digest     string          `json:"sha256"` // of the envelope; entries of early versions have none
}

// forgotten reports whether a message is without the text that it was sent with.
func (f sentFacts) forgotten(e hub.Envelope) bool {
	sum := sha256.Sum256(e.Payload)
	return e.IsForgotten() && hex.EncodeToString(sum[:]) != f.Payload
}

// differences returns the members of a message that are not as the entry about
// its sending recorded. A text that was removed is no difference.
func (f sentFacts) differences(m hub.Message, e hub.Entry) []string {
	sum := sha256.Sum256(m.Payload)
	out := differing(
		field{"sender", m.From == e.Actor},
		field{"time of creation", m.CreatedAt.Equal(e.At.Time)},
		field{"type", m.Type == f.Type},
		field{"recipients", slices.Equal(m.To, f.To)},
		field{"thread_id", m.ThreadID == f.ThreadID},
		field{"reply_to", m.ReplyTo == f.ReplyTo},
		field{"priority", m.Priority == f.Priority},
		field{"policy", m.Policy == f.Policy},
		field{"payload", hex.EncodeToString(sum[:]) == f.Payload || f.forgotten(m.Envelope)},
		field{"hop", m.Hop == f.Hop},
		field{"cause", m.Cause == f.Cause},
	)
	onlyEnvelopeDiffers := len(out) == 0 && f.Digest != "" && m.Digest() != f.Digest && !f.forgotten(m.Envelope)
	if onlyEnvelopeDiffers {
		out = append(out, "envelope (team, topic, sequence, expiry, context or an unknown member)")
	}
	return out
}

// checkMessage compares a message with the entry about its sending, and its
// state with the entries that follow.
func (v *verifier) checkMessage(r hub.Reader, e hub.Entry) error {
	id := hub.EnvelopeID(e.Subject)
	where := "message " + e.Subject
	var facts sentFacts
	if !v.decodeFacts(e, &facts) {
		return nil
	}

	m, err := r.Message(id)
	if hub.CodeOf(err) == hub.CodeNotFound && v.mayBeArchived(id, facts.Type) {
		return nil
	}
	if err != nil {
		return v.exists("message", e, err)
	}

	for _, d := range facts.differences(m, e) {
		v.find(where, "its %s differs from journal row %d", d, e.Seq)
	}
	entries, err := v.about(r, e.Subject)
	if err != nil {
		return err
	}
	if err := v.checkRemoval(r, where, facts, m, entries); err != nil {
		return err
	}

	stored, err := r.Parties(id)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	want := newMessageState(e, facts, stored)
	if want.broadcast != facts.Recipients && facts.broadcast() {
		v.find(where, "it has %d recipients, but journal row %d recorded %d", want.broadcast, e.Seq, facts.Recipients)
	}

	// The entries after the sending lead to the state that the message must have.
	for _, next := range entries {
		if beginsMessage(next.Action) && next.Seq != e.Seq {
			v.find(where, "journal row %d records it a second time, after row %d", next.Seq, e.Seq)
		} else if next.Seq > e.Seq {
			want.apply(next)
		}
	}
	return v.checkState(r, where, m, stored, want)
}

// checkRemoval compares the text of a message with the entries about its removal.
func (v *verifier) checkRemoval(r hub.Reader, where string, facts sentFacts, m hub.Message, entries []hub.Entry) error {
	i := slices.IndexFunc(entries, func(e hub.Entry) bool { return e.Action == actions.MessageForgotten })
	if i >= 0 && !m.IsForgotten() {
		v.find(where, "its text is still there, but journal row %d records that it was removed", entries[i].Seq)
	}
	if i >= 0 || !facts.forgotten(m.Envelope) {
		return nil
	}
	removed, err := v.recordedLater(r, string(m.ID), actions.MessageForgotten)
	if err == nil && removed.Seq == 0 {
		v.find(where, "its text is missing, but no journal row records that it was removed")
	}
	return err
}

// broadcast reports whether a message went to everyone.
func (f sentFacts) broadcast() bool { return len(f.To) == 1 && f.To[0] == hub.Everyone }

// maxSubject is the number of entries about one thing that are read.
const maxSubject = 1_000_000

// about returns the entries about one thing, those in archives included.
func (v *verifier) about(r hub.Reader, subject string) ([]hub.Entry, error) {
	entries, err := r.Journal(hub.JournalQuery{Subject: subject, Limit: maxSubject})
	all := slices.Clone(v.Kept[subject])
	for _, e := range entries {
		if len(all) == 0 || e.Seq > all[len(all)-1].Seq { // not yet removed from the store
			all = append(all, e)
		}
	}
	return all, err
}

// A messageState is the state of a message and of its parties as it follows from
// the journal: the entry about the sending makes it, and later entries move it
// by the same state machines as the services do.
type messageState struct {
	status    hub.MessageStatus
	updated   hub.Time
	parties   map[hub.AgentID]*hub.Party
	broadcast int // recipients of a broadcast in the store
}

// newMessageState returns the state of a message that was just sent. The
// recipients of a broadcast are known from the store alone; the journal has
// their number.
func newMessageState(e hub.Entry, facts sentFacts, stored []hub.Party) *messageState {
	first := hub.Party{State: hub.PartyUnread}
	if e.Action == actions.MessageHeld {
		first = hub.Party{State: hub.PartyHeld, Hidden: true}
	}
	to := facts.To
	if facts.broadcast() {
		to = nil
		for _, p := range stored {
			if p.State != hub.PartySender {
				to = append(to, p.Agent)
			}
		}
	}
	s := &messageState{status: hub.StatusPending, parties: map[hub.AgentID]*hub.Party{}, broadcast: len(to)}
	s.parties[e.Actor] = &hub.Party{Agent: e.Actor, State: hub.PartySender}
	for _, agent := range to {
		p := first
		p.Agent = agent
		s.parties[agent] = &p
	}
	return s
}

// apply moves the state as an entry records.
func (s *messageState) apply(e hub.Entry) {
	move := func(p *hub.Party, next hub.PartyState) {
		if p != nil && p.State.CanBecome(next) {
			p.State = next
			p.Hidden = p.Hidden && next != hub.PartyUnread
		}
	}
	all := func(next hub.PartyState, from ...hub.PartyState) {
		for _, p := range s.parties {
			if len(from) == 0 || slices.Contains(from, p.State) {
				move(p, next)
			}
		}
	}

	switch e.Action {
	case actions.MessageApproved:
		all(hub.PartyUnread, hub.PartyHeld)
	case actions.MessageDenied:
		all(hub.PartyFailed, hub.PartyHeld)
	case actions.MessageDelivered:
		move(s.parties[e.Actor], hub.PartyDelivered)
	case actions.MessageRead:
		move(s.parties[e.Actor], hub.PartyRead)
	case actions.MessageExpired:
		all(hub.PartyExpired)
	case actions.ChannelTried:
		var facts struct {
			Recipient hub.AgentID        `json:"recipient"`
			Status    hub.DeliveryStatus `json:"status"`
		}
		if json.Unmarshal(e.Facts, &facts) != nil || facts.Status != hub.DeliveryAccepted {
			return
		}
		move(s.parties[facts.Recipient], hub.PartyDelivered)
	default:
		return
	}

	// The status follows from the states of all parties, if the message may move to it.
	parties := make([]hub.Party, 0, len(s.parties))
	for _, p := range s.parties {
		parties = append(parties, *p)
	}
	moved, err := hub.Envelope{Status: s.status}.Advance(hub.StatusFor(parties), e.At)
	if err == nil {
		s.status, s.updated = moved.Status, moved.UpdatedAt
	}
}

// checkState compares the state of a message in the store with the one that
// follows from the journal.
func (v *verifier) checkState(r hub.Reader, where string, m hub.Message, stored []hub.Party, want *messageState) error {
	if m.Status != want.status {
		v.find(where, "its status is %s, but the journal says %s", m.Status, want.status)
	} else if !m.UpdatedAt.Equal(want.updated.Time) {
		v.find(where, "its time of last change differs from the journal")
	}

	missing := maps.Clone(want.parties)
	for _, p := range stored {
		w := want.parties[p.Agent]
		delete(missing, p.Agent)
		switch {
		case w == nil:
			v.find(where, "it names %s, which is not in the journal", p.Agent)
			continue
		case p.State != w.State:
			v.find(where, "it is %s for %s, but the journal says %s", p.State, p.Agent, w.State)
		case p.Hidden != w.Hidden:
			v.find(where, "its visibility for %s differs from the journal", p.Agent)
		}

		// A message is processed for exactly those agents that have read it.
		done, err := r.Processed(m.ID, p.Agent)
		if err != nil {
			return err
		}
		if done != (w.State == hub.PartyRead) {
			v.find(where, "its processed mark for %s differs from the journal", p.Agent)
		}
	}

	for _, agent := range slices.Sorted(maps.Keys(missing)) {
		v.find(where, "it no longer names %s", agent)
	}
	return v.checkLedger(r, where, m.ID, want)
}

// ledgerWords are the statuses that the row of an inbox may have in each state
// of the recipient. An expired or failed message may have got anywhere before.
var ledgerWords = map[hub.PartyState][]hub.DeliveryStatus{
	hub.PartyHeld:      {hub.DeliveryHeld},
	hub.PartyUnread:    {hub.DeliveryStored},
	hub.PartyDelivered: {hub.DeliveryOffered, hub.DeliveryStored}, // stored, if another channel was faster
	hub.PartyRead:      {hub.DeliveryRead},
}

// checkLedger compares the inbox rows of the delivery ledger with the states of
// the recipients. Attempts over other channels are not compared.
func (v *verifier) checkLedger(r hub.Reader, where string, id hub.EnvelopeID, want *messageState) error {
	ledger, err := r.Deliveries(id)
	if err != nil {
		return err
	}
	inbox := map[hub.AgentID]hub.DeliveryStatus{}
	for _, d := range ledger {
		if p := want.parties[d.Recipient]; p == nil || p.State == hub.PartySender {
			v.find(where, "row %d of the delivery ledger names %s, which is not a recipient", d.ID, d.Recipient)
		}
		if d.Channel == hub.ChannelInbox {
			inbox[d.Recipient] = d.Status
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(want.parties)) {
		words := ledgerWords[want.parties[agent].State]
		switch status, ok := inbox[agent]; {
		case words == nil:
		case !ok:
			v.find(where, "the delivery ledger has no row for the inbox of %s", agent)
		case !slices.Contains(words, status):
			v.find(where, "the delivery ledger says %s for the inbox of %s, but the journal says %s", status, agent, want.parties[agent].State)
		}
	}
	return nil
}

// findUnrecorded finds messages that no entry records. A message that is older
// than the newest archive is due to be removed, if an archive holds it.
func (v *verifier) findUnrecorded(ctx context.Context) error {
	if v.Due == nil {
		v.Due = map[hub.EnvelopeID]bool{}
	}
	due := v.Due

	q := hub.Query{Audit: true, Limit: pageSize, Cursor: v.MessageCursor}
	err := v.pages(ctx, "messages", func(r hub.Reader) (bool, error) {
		page, err := r.Query(q)
		if err != nil {
			return false, err
		}
		for _, m := range page.Messages {
			v.Out.Messages++
			entries, err := r.Journal(hub.JournalQuery{Subject: string(m.ID), Limit: 1})
			if err != nil {
				return false, err
			}
			recorded := (len(entries) > 0 && beginsMessage(entries[0].Action)) || v.Kept[string(m.ID)] != nil
			switch {
			case recorded || !v.Complete:
			case v.mayBeArchived(m.ID, m.Type):
				due[m.ID] = true
			default:
				v.find("message "+string(m.ID), notRecorded)
			}
		}
		q.Cursor, v.MessageCursor = page.Next, page.Next
		return page.Next != "", nil
	})
	if err != nil || len(due) == 0 {
		return err
	}

	// A message that an archive holds is recorded there.
	for _, a := range v.Archives {
		// A file that cannot be read is a finding of readArchive.
		readSegment(v.archivePath(a), func(l line) error {
			if l.Message != nil {
				delete(due, l.Message.ID)
			}
			return ctx.Err()
		})
	}

	for _, id := range slices.Sorted(maps.Keys(due)) {
		v.find("message "+string(id), notRecorded)
	}
	return ctx.Err()
}
