package records_test

import (
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
)

func TestVerifyOfChannels(t *testing.T) {
	// Hubs before the router delivered a message with the attempt that a runtime took.
	t.Run("a message that a runtime has taken counts as delivered", func(t *testing.T) {
		w := newWorld(t)
		id := w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		err := w.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			facts := map[string]any{"channel": hub.ChannelSession, "recipient": "bob", "status": hub.DeliveryAccepted}
			e := hub.Caller{ID: hub.Self}.Entry(hub.At(w.clock()), actions.ChannelTried, string(id), facts)
			if _, err := tx.Append(e); err != nil {
				return err
			}
			if err := tx.PutParty(id, "bob", hub.PartyDelivered, hub.PartyUnread); err != nil {
				return err
			}
			m, err := tx.Message(id)
			if err != nil {
				return err
			}
			moved, err := m.Envelope.Advance(hub.StatusDelivered, e.At)
			if err != nil {
				return err
			}
			return tx.PutStatus(moved, m.Status)
		})
		if err != nil {
			t.Fatal(err)
		}
		w.wantClean()
	})
}

func TestVerifyWhileInUse(t *testing.T) {
	t.Run("a hub that is in use is clean at any moment", func(t *testing.T) {
		w := newWorld(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 40 {
				a, err := w.records.Verify(t.Context())
				if err != nil || !a.Clean() {
					t.Errorf("audit: got %v (%v), want it clean", a.Findings, err)
				}
			}
		}()
		files := w.recordsWith(w.store, records.Options{Seal: 4000})
		h := w.propose("parser", false)
		for _, next := range []hub.HandoffState{hub.HandoffValidating, hub.HandoffAccepted, hub.HandoffActivated, hub.HandoffCompleted, hub.HandoffClosed} {
			h = w.move(h, next)
		}
		for running := true; running; {
			w.pass(6 * time.Hour)
			w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
			w.fetch(bob, true)
			w.must(nil, files.Copy(t.Context()))
			w.archive(records.ArchiveOptions{Keep: day})
			select {
			case <-done:
				running = false
			default:
			}
		}
	})
}
