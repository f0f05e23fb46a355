package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/records"
)

// A session is a channel that takes everything.
type session struct{}

func (session) Name() hub.Channel                  { return hub.ChannelSession }
func (session) Probe(context.Context) error        { return nil }
func (session) Reaches(hub.AgentID) (bool, string) { return true, "" }
func (session) Deliver(context.Context, mailroom.Notice) (hub.DeliveryStatus, error) {
	return hub.DeliveryAccepted, nil
}

func TestVerifyOfChannels(t *testing.T) {
	t.Run("a message that a runtime has taken counts as delivered", func(t *testing.T) {
		w := newWorld(t)
		w.close()
		w.open(session{})
		hints, cancel := w.bus.Subscribe(hub.TopicJournal)
		defer cancel()
		id := w.send(ada, mailroom.Draft{To: []hub.AgentID{"bob"}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.mail.Run(ctx); close(done) }()
		defer func() { stop(); <-done }()
		status := hub.StatusPending
		for status != hub.StatusDelivered {
			select {
			case <-hints:
			case <-t.Context().Done():
				t.Fatal("it was not delivered")
			}
			w.view(func(r hub.Reader) error {
				m, err := r.Message(id)
				status = m.Status
				return err
			})
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
