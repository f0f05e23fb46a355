package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A handoffRow is a handoff as it was proposed, without the package of a
// restricted one: that must not leave the store.
type handoffRow struct {
	From       hub.AgentID     `json:"from"`
	To         hub.AgentID     `json:"to"`
	TaskID     string          `json:"task_id"`
	Title      string          `json:"title"`
	Reason     string          `json:"reason"`
	Hash       string          `json:"package_hash"`
	Restricted bool            `json:"restricted,omitempty"`
	Package    json.RawMessage `json:"package,omitempty"`
}

// A messageRow is a message that leaves the store: the envelope with its last
// status, its parties and its delivery ledger.
type messageRow struct {
	ID         hub.EnvelopeID  `json:"id"`
	Envelope   json.RawMessage `json:"envelope"`
	Hop        int             `json:"hop,omitempty"`
	Cause      hub.EnvelopeID  `json:"cause,omitempty"`
	Parties    []partyRow      `json:"parties"`
	Deliveries []hub.Delivery  `json:"deliveries"`
}

// A partyRow is the sender or a recipient of a message.
type partyRow struct {
	Agent  hub.AgentID    `json:"agent"`
	State  hub.PartyState `json:"state"`
	Hidden bool           `json:"hidden,omitempty"`
}

// beginsMessage reports whether an action is the first one about a message.
func beginsMessage(a actions.Action) bool {
	return a == actions.MessageSent || a == actions.MessageHeld
}

// entryLine returns the line of an entry with the handoff that it proposes and,
// if envelopes is set, the envelope that it sends. The same entry gives the same
// line as long as the store holds the thing it is about.
func entryLine(r hub.Reader, e hub.Entry, envelopes bool) (line, error) {
	l := line{Entry: &e}
	switch {
	case envelopes && beginsMessage(e.Action):
		m, err := r.Message(hub.EnvelopeID(e.Subject))
		if hub.CodeOf(err) == hub.CodeNotFound {
			return l, nil // an archive holds it
		}
		if err != nil {
			return l, err
		}

		// The envelope is written as it was sent, before any delivery.
		m.Status, m.UpdatedAt = hub.StatusPending, hub.Time{}
		l.Envelope, err = m.Envelope.MarshalJSON()
		return l, err

	case e.Action == actions.HandoffProposed:
		h, err := r.Handoff(hub.HandoffID(e.Subject))
		if hub.CodeOf(err) == hub.CodeNotFound {
			return l, nil
		}
		if err != nil {
			return l, err
		}
		l.Handoff = &handoffRow{From: h.From, To: h.To, TaskID: h.TaskID, Title: h.Title, Reason: h.Reason, Hash: h.Hash, Restricted: h.Restricted}
		if h.Restricted {
			l.Handoff.Title, l.Handoff.Reason = "restricted", "restricted"
		} else {
			l.Handoff.Package = h.Package
		}
	}
	return l, nil
}

// newMessageRow returns a message as it goes into an archive.
func newMessageRow(r hub.Reader, m hub.Message) (*messageRow, error) {
	row := &messageRow{ID: m.ID, Hop: m.Hop, Cause: m.Cause}
	parties, err := r.Parties(m.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range parties {
		row.Parties = append(row.Parties, partyRow{p.Agent, p.State, p.Hidden})
	}
	slices.SortFunc(row.Parties, func(a, b partyRow) int { return cmp.Compare(a.Agent, b.Agent) })
	if row.Deliveries, err = r.Deliveries(m.ID); err != nil {
		return nil, err
	}
	row.Envelope, err = m.Envelope.MarshalJSON()
	return row, err
}

// entryAt returns the entry with a number, or one with number 0 if the store
// does not hold it.
func entryAt(r hub.Reader, seq int64) (hub.Entry, error) {
	entries, err := r.Journal(hub.JournalQuery{After: seq - 1, Limit: 1})
	if err != nil || len(entries) == 0 || entries[0].Seq != seq {
		return hub.Entry{}, err
	}
	return entries[0], nil
}

// inPages calls read in one snapshot after the other until it reports that there is no
// more: a snapshot that is held for long keeps the store from truncating its log.
func inPages(ctx context.Context, store hub.Store, read func(hub.Reader) (more bool, err error)) error {
	for more := true; more; {
		err := store.View(ctx, func(r hub.Reader) (err error) {
			more, err = read(r)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// archivesIn returns the archives that the store lists, oldest first, and the newest of
// them, which is zero if there is none.
func archivesIn(r hub.Reader) (all []hub.Archive, newest hub.Archive, err error) {
	all, err = r.Archives()
	if n := len(all); n > 0 {
		newest = all[n-1]
	}
	return all, newest, err
}

// sameEntry reports whether two entries are equal in every member.
func sameEntry(a, b hub.Entry) bool {
	return a.Seq == b.Seq && a.At.Equal(b.At.Time) && a.Actor == b.Actor && a.Action == b.Action && a.Subject == b.Subject &&
		a.Outcome == b.Outcome && bytes.Equal(a.Facts, b.Facts) && a.Hash == b.Hash
}
