package mailroom

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// maxPage is the most messages of one page.
const maxPage = 200

// maxTrace is the most journal entries in the trace of one message.
const maxTrace = 10_000

// A Listing is a page of messages.
type Listing struct {
	Messages     []hub.Envelope   `json:"messages"`
	ShortIDs     ShortIDs         `json:"short_ids"`
	Next         string           `json:"next"` // cursor for the page after this one, or ""
	Unread       int              `json:"unread"`
	Warnings     []string         `json:"warnings"`
	Capabilities hub.Capabilities `json:"capabilities"`
}

// Query returns the messages that match q, newest first: those of the actor, or all of
// them for an auditor. An auditor gets those of high sensitivity without their text, and a
// search for words does not find them. The viewer in q is ignored.
func (m *Mailroom) Query(ctx context.Context, actor hub.Caller, q hub.Query) (Listing, error) {
	const op = "mailroom.Query"
	q.Viewer = actor.ID
	q.Audit = actor.Audits()
	q.Bytes = pageBytes
	if q.Limit == 0 {
		q.Limit = 50
	}

	switch {
	case q.Limit < 1 || q.Limit > maxPage:
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxPage, q.Limit)
	case q.Type != "" && !q.Type.Known():
		return Listing{}, hub.Errorf(hub.CodeUnknownType, op, "unknown message type %q", q.Type)
	case q.Status != "" && !slices.Contains(hub.MessageStatuses, q.Status):
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "unknown status %q: use %s", q.Status, hub.JoinWords(hub.MessageStatuses))
	case q.Agent != "" && !q.Agent.Valid():
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "%q is not a valid agent name", q.Agent)
	case len(q.Text) > 1000:
		return Listing{}, hub.Errorf(hub.CodeTooLarge, op, "text must be at most 1000 bytes, got %d", len(q.Text))
	}
	out := Listing{Messages: []hub.Envelope{}, Warnings: m.warn(nil), Capabilities: m.Capabilities()}

	// The store may index words later than it stores messages.
	if q.Text != "" || q.Topic != "" {
		if err := m.store.IndexText(ctx); err != nil {
			return Listing{}, fmt.Errorf("mailroom: query: %w", err)
		}
	}

	err := m.store.View(ctx, func(r hub.Reader) error {
		if err := out.read(r, actor, q); err != nil {
			return err
		}
		var err error
		if out.ShortIDs, err = shortIDs(r, out.Messages); err != nil {
			return err
		}
		out.Unread, err = r.CountMessages(hub.CountFilter{Inbox: actor.ID, Limit: maxUnread})
		return err
	})
	if err != nil {
		return Listing{}, fmt.Errorf("mailroom: query: %w", err)
	}

	m.seen(ctx, actor, out.Messages)
	return out, nil
}

// read appends the messages that match q, as the actor may read them. A search for words reads
// on in place of messages whose text is withheld: a hit, or a shorter page, would tell of them.
func (l *Listing) read(r hub.Reader, actor hub.Caller, q hub.Query) error {
	searches := q.Text != "" || q.Topic != ""
	for {
		page, err := r.Query(q)
		if err != nil {
			return err
		}
		l.Next = page.Next

		skipped := 0
		for _, msg := range page.Messages {
			isWithheld, err := withheld(r, "mailroom.Query", actor, msg)
			switch {
			case err != nil:
				return err
			case isWithheld && searches:
				skipped++
				continue
			case isWithheld:
				msg.Envelope = msg.Withheld()
			}
			l.Messages = append(l.Messages, msg.Envelope)
		}
		if skipped == 0 || page.Next == "" {
			return nil
		}
		q.Limit, q.Cursor = skipped, page.Next
	}
}

// A Trace is the history of one message.
type Trace struct {
	Message    hub.Envelope   `json:"message"`
	Hop        int            `json:"hop"`
	Cause      hub.EnvelopeID `json:"cause,omitempty"`
	Deliveries []hub.Delivery `json:"deliveries"`
	Journal    []hub.Entry    `json:"journal"`
	Steps      []Step         `json:"steps"` // journal and ledger together, in order
}

// A Step is one event in the history of a message.
type Step struct {
	At     hub.Time `json:"at,omitzero"`
	Kind   string   `json:"kind"` // journal, notice or delivery
	Who    string   `json:"who"`
	What   string   `json:"what"`
	Detail string   `json:"detail,omitempty"`

	Mechanism string `json:"mechanism,omitempty"` // of a notice
}

// noticeStep returns the step of a notice: a channel announced the message.
func noticeStep(e hub.Entry) Step {
	var f struct {
		Channel   hub.Channel `json:"channel"`
		Recipient string      `json:"recipient"`
		State     string      `json:"state"`
		Mechanism string      `json:"mechanism"`
		Detail    string      `json:"detail"`
		Wake      string      `json:"wake"`
	}
	if json.Unmarshal(e.Facts, &f) != nil {
		f.Detail = string(e.Facts)
	}
	if f.Wake != "" {
		f.Detail = strings.TrimSpace(f.Detail + " (" + f.Wake + ")")
	}
	return Step{At: e.At, Kind: "notice", Who: f.Recipient, What: fmt.Sprintf("%s: %s", f.Channel, f.State), Mechanism: f.Mechanism, Detail: f.Detail}
}

// Trace returns every journal entry and delivery attempt of a message.
func (m *Mailroom) Trace(ctx context.Context, actor hub.Caller, id hub.EnvelopeID) (Trace, error) {
	const op = "mailroom.Trace"
	out := Trace{Deliveries: []hub.Delivery{}, Journal: []hub.Entry{}, Steps: []Step{}}

	err := m.store.View(ctx, func(r hub.Reader) error {
		msg, err := m.visible(r, op, actor, id)
		if err != nil {
			return err
		}
		out.Message = msg.Envelope
		out.Hop = msg.Hop
		out.Cause = msg.Cause
		if d, err := r.Deliveries(id); err != nil {
			return err
		} else if d != nil {
			out.Deliveries = d
		}
		if j, err := r.Journal(hub.JournalQuery{Subject: string(id), Limit: maxTrace}); err != nil {
			return err
		} else if j != nil {
			out.Journal = j
		}
		return nil
	})
	if err != nil {
		return Trace{}, fmt.Errorf("mailroom: trace: %w", err)
	}

	// The steps are the journal and the ledger in one list, ordered by time.
	for _, e := range out.Journal {
		if e.Action == actions.DeliveryMoved {
			out.Steps = append(out.Steps, noticeStep(e))
			continue
		}
		out.Steps = append(out.Steps, Step{At: e.At, Kind: "journal", Who: string(e.Actor), What: string(e.Action), Detail: string(e.Facts)})
	}

	for _, d := range out.Deliveries {
		// A row stands at the time of its last change.
		at := max(d.ReadAt.UnixMilli(), d.DeliveredAt.UnixMilli(), out.Message.CreatedAt.UnixMilli())
		detail := d.Error
		if !d.DeliveredAt.IsZero() && d.Channel == hub.ChannelInbox {
			detail = "fetched " + d.DeliveredAt.String()
		}
		if !d.ReadAt.IsZero() {
			detail += ", read " + d.ReadAt.String()
		}
		out.Steps = append(out.Steps, Step{At: hub.AtMilli(at), Kind: "delivery", Who: string(d.Recipient), What: fmt.Sprintf("%s: %s", d.Channel, d.Status), Detail: detail})
	}

	slices.SortStableFunc(out.Steps, func(a, b Step) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	return out, nil
}
