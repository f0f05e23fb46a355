package mailroom

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A recipient of many notices of the hub gets noticesPerMinute of them as messages. The
// rest are entries of the journal, which one message lists at most listAfter and a sweep
// later.
const (
	noticesPerMinute = 60
	listAfter        = 30 * time.Second
	listBatch        = 1000
	lateKey          = "late notices"
)

// A late says which notices of a recipient wait to be listed.
type late struct {
	Since hub.Time `json:"since,omitzero"` // the time of the first
	After int64    `json:"after"`          // the journal entry before the first
}

// postpone returns the recipients of a notice that get it now. For the others it is
// noted in the journal. A notice with an artifact is no line of a list: all get it now.
func (m *Mailroom) postpone(tx hub.Tx, e hub.Envelope) ([]hub.AgentID, error) {
	if e.Context != nil {
		return e.To, nil
	}

	// Below the limit for all notices together, no recipient can be over its own.
	recent, err := tx.Sent(hub.SentFilter{From: hub.Self, Since: e.CreatedAt.Add(-time.Minute), Limit: listBatch})
	if err != nil || len(recent) < noticesPerMinute {
		return e.To, err
	}

	count := map[hub.AgentID]int{}
	for _, s := range recent {
		for _, id := range s.To {
			count[id]++
		}
	}

	var now []hub.AgentID
	waiting, err := hub.ReadMeta[map[hub.AgentID]late](tx, lateKey)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, id := range e.To {
		if count[id] < noticesPerMinute {
			now = append(now, id)
			continue
		}
		// Past its limit, a recipient gets an entry in the journal, which a later list includes.
		entry, err := tx.Append(hub.Caller{ID: hub.Self}.Entry(e.CreatedAt, actions.NoticeLate, lateSubject(id), lateFacts(e)))
		if err != nil {
			return nil, err
		}
		if _, ok := waiting[id]; !ok {
			if waiting == nil {
				waiting = map[hub.AgentID]late{}
			}
			waiting[id], changed = late{e.CreatedAt, entry.Seq - 1}, true
		}
	}

	if changed {
		err = hub.WriteMeta(tx, lateKey, waiting)
	}
	return now, err
}

func lateSubject(id hub.AgentID) string { return "notices/" + string(id) }

// lateFacts are the members of a notice that name things, never its text.
func lateFacts(e hub.Envelope) map[string]any {
	facts := map[string]any{"type": e.Type}
	var payload map[string]any
	if json.Unmarshal(e.Payload, &payload) == nil {
		for _, name := range []string{"team", "task_id", "agent", "role", "state", "status", "lifecycle", "message_id", "decision_id", "id", "handoff_id", "offer_id", "artifact_id", "version", "newest", "author"} {
			switch v := payload[name].(type) {
			case string:
				if v != "" {
					facts[name] = v
				}
			case float64:
				facts[name] = v
			}
		}
	}
	if e.ThreadID != "" && e.ThreadID != string(e.ID) {
		facts["thread_id"] = e.ThreadID
	}
	return facts
}

// lateLine returns the facts of a notice as words, its type first.
func lateLine(facts json.RawMessage) string {
	var all map[string]json.RawMessage
	var kind string
	if json.Unmarshal(facts, &all) != nil || json.Unmarshal(all["type"], &kind) != nil {
		return Text{}.Facts(facts)
	}
	delete(all, "type")
	rest, err := json.Marshal(all)
	if err != nil || len(all) == 0 {
		return kind
	}
	return strings.TrimSuffix(kind+": "+Text{}.Facts(rest), ": ")
}

// listLate sends each recipient whose notices wait one message that lists them.
func (m *Mailroom) listLate(ctx context.Context, store hub.Store, now hub.Time) error {
	waiting, err := hub.Read(ctx, store, func(r hub.Reader) (map[hub.AgentID]late, error) {
		return hub.ReadMeta[map[hub.AgentID]late](r, lateKey)
	})
	if err != nil {
		return fmt.Errorf("mailroom: late notices: %w", err)
	}
	for id, l := range waiting {
		if now.Sub(l.Since.Time) < listAfter {
			continue
		}
		if err := m.list(ctx, store, id, l.After, now); err != nil {
			return fmt.Errorf("mailroom: late notices of %s: %w", id, err)
		}
	}
	return nil
}

// list sends an agent a message about the notices after a journal entry. Those that do
// not fit follow with the next one.
func (m *Mailroom) list(ctx context.Context, store hub.Store, id hub.AgentID, after int64, now hub.Time) error {
	entries, err := hub.Read(ctx, store, func(r hub.Reader) ([]hub.Entry, error) {
		return r.Journal(hub.JournalQuery{After: after, Subject: lateSubject(id), Limit: listBatch})
	})
	if err != nil || len(entries) == 0 {
		return err
	}

	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&text, "%s %s\n", e.At, lateLine(e.Facts))
	}

	// A list that is too long for the payload becomes an artifact of the message.
	e := hub.Envelope{To: []hub.AgentID{id}, Type: hub.TypeStatusUpdate}
	noun := "notices"
	if len(entries) == 1 {
		noun = "notice"
	}
	payload := map[string]any{"summary": fmt.Sprintf("%d %s from the hub, after more than %d in a minute", len(entries), noun, noticesPerMinute), "notices": len(entries)}
	if text.Len() <= 3000 || m.artifacts == nil {
		payload["detail"] = text.String()[:min(text.Len(), 3000)]
	} else {
		ref, err := m.KeepText(text.String())
		if err != nil {
			return err
		}
		payload["detail"] = "The list is the whole text of this message."
		e.Context = &hub.Context{Artifacts: []hub.ArtifactRef{ref}}
	}
	if e.Payload, err = json.Marshal(payload); err != nil {
		return err
	}

	// The notice and the position of the next list are written together.
	var told hub.Message
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		waiting, err := hub.ReadMeta[map[hub.AgentID]late](tx, lateKey)
		if err != nil || waiting[id].After != after {
			return err // another process was first
		}
		rest, err := tx.Journal(hub.JournalQuery{After: entries[len(entries)-1].Seq, Subject: lateSubject(id), Limit: 1})
		if err != nil {
			return err
		}

		delete(waiting, id)
		if len(rest) > 0 {
			waiting[id] = late{now, entries[len(entries)-1].Seq}
		}
		if err := hub.WriteMeta(tx, lateKey, waiting); err != nil {
			return err
		}
		told, err = m.notify(tx, byList, e)
		return err
	})
	if err == nil && told.ID != "" {
		m.Announce(told)
	}
	return err
}
