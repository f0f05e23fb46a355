package records

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// sentFacts is what the journal keeps of a message, as far as it is compared.
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
	Digest     string          `json:"sha256"` // of the envelope; older entries have none
}

// differences returns what of a message is not as the entry about its sending
// recorded.
func (f sentFacts) differences(m hub.Message, e hub.Entry) []string {
	sum := sha256.Sum256(m.Payload)
	var out []string
	for _, c := range []struct {
		name string
		same bool
	}{
		{"sender", m.From == e.Actor},
		{"time of creation", m.CreatedAt.Equal(e.At.Time)},
		{"type", m.Type == f.Type},
		{"recipients", slices.Equal(m.To, f.To)},
		{"thread_id", m.ThreadID == f.ThreadID},
		{"reply_to", m.ReplyTo == f.ReplyTo},
		{"priority", m.Priority == f.Priority},
		{"policy", m.Policy == f.Policy},
		{"payload", hex.EncodeToString(sum[:]) == f.Payload},
		{"hop", m.Hop == f.Hop},
		{"cause", m.Cause == f.Cause},
	} {
		if !c.same {
			out = append(out, c.name)
		}
	}
	if len(out) == 0 && f.Digest != "" && m.Digest() != f.Digest {
		out = append(out, "envelope (team, topic, sequence, expiry, context or an unknown member)")
	}
	return out
}

// checkMessage compares a message with the entry about its sending, and what
// became of it with the entries that follow.
func (v *verifier) checkMessage(r hub.Reader, e hub.Entry) error {
	id := hub.EnvelopeID(e.Subject)
	where := "message " + e.Subject
	var facts sentFacts
	if err := json.Unmarshal(e.Facts, &facts); err != nil {
		v.find(row(e.Seq), "its facts cannot be read: %v", err)
		return nil
	}
	m, err := r.Message(id)
	switch hub.CodeOf(err) {
	case "":
	case hub.CodeNotFound:
		if !v.mayBeArchived(id, facts.Type) {
			v.find(where, "it is missing, though journal row %d records it", e.Seq)
		}
		return nil
	case hub.CodeDegraded:
		v.find(where, "it cannot be read: %v", err)
		return nil
	default:
		return err
	}
	for _, d := range facts.differences(m, e) {
		v.find(where, "its %s differs from what journal row %d recorded", d, e.Seq)
	}
	entries, err := v.about(r, e.Subject)
	if err != nil {
		return err
	}
	parties, err := r.Parties(id)
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	f := newExpectation(e, facts, parties)
	for _, d := range f.unfit {
		v.find(where, "%s", d)
	}
	for _, next := range entries {
		if beginsMessage(next.Action) && next.Seq != e.Seq {
			v.find(where, "journal row %d records it a second time, after row %d", next.Seq, e.Seq)
		} else if next.Seq > e.Seq {
			f.replay(next)
		}
	}
	return v.checkExpectation(r, where, m, parties, f)
}

// maxSubject is how many entries about one thing are read.
const maxSubject = 1_000_000

// about returns the entries about one thing, those in archives included.
func (v *verifier) about(r hub.Reader, subject string) ([]hub.Entry, error) {
	entries, err := r.Journal(hub.JournalQuery{Subject: subject, Limit: maxSubject})
	all := slices.Clone(v.kept[subject])
	for _, e := range entries {
		if len(all) == 0 || e.Seq > all[len(all)-1].Seq { // not yet removed from the store
			all = append(all, e)
		}
	}
	return all, err
}

// An expectation is what became of a message, as the journal tells it.
type expectation struct {
	status  hub.MessageStatus
	updated hub.Time
	parties map[hub.AgentID]*hub.Party
	unfit   []string // what the list of those concerned has wrong
}

// newExpectation returns the fate of a message that was just sent. Who a broadcast went
// to is known from the store alone; the journal knows how many they were.
func newExpectation(e hub.Entry, facts sentFacts, stored []hub.Party) *expectation {
	f := &expectation{status: hub.StatusPending, parties: map[hub.AgentID]*hub.Party{}}
	first := hub.Party{State: hub.PartyUnread}
	if e.Action == hub.ActionMessageHeld {
		first = hub.Party{State: hub.PartyHeld, Hidden: true}
	}
	to := facts.To
	if len(to) == 1 && to[0] == hub.Everyone {
		to = nil
		for _, p := range stored {
			if p.State != hub.PartySender {
				to = append(to, p.Agent)
			}
		}
		if len(to) != facts.Recipients {
			f.unfit = append(f.unfit, fmt.Sprintf("it concerns %d recipients, journal row %d recorded %d", len(to), e.Seq, facts.Recipients))
		}
	}
	f.parties[e.Actor] = &hub.Party{Agent: e.Actor, State: hub.PartySender}
	for _, agent := range to {
		p := first
		p.Agent = agent
		f.parties[agent] = &p
	}
	return f
}

// replay lets an entry take effect.
func (f *expectation) replay(e hub.Entry) {
	move := func(p *hub.Party, next hub.PartyState) {
		if p == nil || !p.State.CanBecome(next) {
			return
		}
		p.State = next
		if next == hub.PartyUnread {
			p.Hidden = false
		}
	}
	all := func(from func(hub.PartyState) bool, next hub.PartyState) {
		for _, p := range f.parties {
			if from(p.State) {
				move(p, next)
			}
		}
	}
	held := func(s hub.PartyState) bool { return s == hub.PartyHeld }
	switch e.Action {
	case hub.ActionMessageApproved:
		all(held, hub.PartyUnread)
	case hub.ActionMessageDenied:
		all(held, hub.PartyFailed)
	case hub.ActionMessageDelivered:
		move(f.parties[e.Actor], hub.PartyDelivered)
	case hub.ActionMessageRead:
		move(f.parties[e.Actor], hub.PartyRead)
	case hub.ActionMessageExpired:
		all(func(hub.PartyState) bool { return true }, hub.PartyExpired)
	case hub.ActionChannelTried:
		var facts struct {
			Recipient hub.AgentID        `json:"recipient"`
			Status    hub.DeliveryStatus `json:"status"`
		}
		if json.Unmarshal(e.Facts, &facts) != nil || facts.Status != hub.DeliveryAccepted {
			return
		}
		move(f.parties[facts.Recipient], hub.PartyDelivered)
	default:
		return
	}
	parties := make([]hub.Party, 0, len(f.parties))
	for _, p := range f.parties {
		parties = append(parties, *p)
	}
	moved, err := hub.Envelope{Status: f.status}.Advance(hub.StatusFor(parties), e.At)
	if err == nil {
		f.status, f.updated = moved.Status, moved.UpdatedAt
	}
}

// checkExpectation compares what became of a message with what the store says.
func (v *verifier) checkExpectation(r hub.Reader, where string, m hub.Message, stored []hub.Party, f *expectation) error {
	if m.Status != f.status {
		v.find(where, "its status is %s, by the journal it is %s", m.Status, f.status)
	} else if !m.UpdatedAt.Equal(f.updated.Time) {
		v.find(where, "the time of its last change is not the one in the journal")
	}
	seen := map[hub.AgentID]bool{}
	for _, p := range stored {
		seen[p.Agent] = true
		want := f.parties[p.Agent]
		switch {
		case want == nil:
			v.find(where, "it concerns %s, of whom the journal does not know", p.Agent)
			continue
		case p.State != want.State:
			v.find(where, "it is %s for %s, by the journal it is %s", p.State, p.Agent, want.State)
		case p.Hidden != want.Hidden:
			v.find(where, "whether %s may see it is not as in the journal", p.Agent)
		}
		done, err := r.Processed(m.ID, p.Agent)
		if err != nil {
			return err
		}
		if done != (want.State == hub.PartyRead) {
			v.find(where, "whether %s has processed it is not as in the journal", p.Agent)
		}
	}
	if err := v.checkLedger(r, where, m.ID, f); err != nil {
		return err
	}
	var missing []string
	for agent := range f.parties {
		if !seen[agent] {
			missing = append(missing, string(agent))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		v.find(where, "it does not concern %s any more", strings.Join(missing, ", "))
	}
	return nil
}

// ledgerWords is what the row of an inbox may say about a recipient in each
// state. What expired or failed may have got anywhere before.
var ledgerWords = map[hub.PartyState][]hub.DeliveryStatus{
	hub.PartyHeld:      {hub.DeliveryHeld},
	hub.PartyUnread:    {hub.DeliveryStored},
	hub.PartyDelivered: {hub.DeliveryOffered, hub.DeliveryStored}, // stored, if another channel was faster
	hub.PartyRead:      {hub.DeliveryRead},
}

// checkLedger compares the inbox rows of the delivery ledger with what became
// of the message. Attempts over other channels are not compared.
func (v *verifier) checkLedger(r hub.Reader, where string, id hub.EnvelopeID, f *expectation) error {
	ledger, err := r.Deliveries(id)
	if err != nil {
		return err
	}
	inbox := map[hub.AgentID]hub.DeliveryStatus{}
	for _, d := range ledger {
		if p := f.parties[d.Recipient]; p == nil || p.State == hub.PartySender {
			v.find(where, "row %d of the delivery ledger is about %s, whom it was not sent to", d.ID, d.Recipient)
		}
		if d.Channel == hub.ChannelInbox {
			inbox[d.Recipient] = d.Status
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(f.parties)) {
		words := ledgerWords[f.parties[agent].State]
		switch status, ok := inbox[agent]; {
		case words == nil:
		case !ok:
			v.find(where, "the delivery ledger has no row about the inbox of %s", agent)
		case !slices.Contains(words, status):
			v.find(where, "the delivery ledger says %s about the inbox of %s, by the journal it is %s", status, agent, f.parties[agent].State)
		}
	}
	return nil
}
