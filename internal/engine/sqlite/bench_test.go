package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// benchMessage returns a message of ordinary size.
func benchMessage(ids *hub.IDs, from, to hub.AgentID) (hub.Message, []hub.Party) {
	id := ids.Next()
	m := hub.Message{
		Envelope: hub.Envelope{
			ID: id, Protocol: hub.Protocol, Version: hub.Version, From: from, To: []hub.AgentID{to}, ThreadID: string(id),
			Type: hub.TypeStatusUpdate, Topic: "build", Priority: hub.PriorityNormal, Status: hub.StatusPending,
			Payload: json.RawMessage(`{"summary":"all tests of the parser pass, two of the printer do not","progress_pct":70}`),
			Policy:  hub.DefaultPolicy, CreatedAt: id.Time(),
		},
	}
	return m, []hub.Party{{Agent: from, State: hub.PartySender}, {Agent: to, State: hub.PartyUnread}}
}

// benchSend is what one send writes.
func benchSend(tx hub.Tx, m hub.Message, parties []hub.Party) error {
	if err := tx.AddMessage(m, parties); err != nil {
		return err
	}
	if err := tx.AddDelivery(hub.Delivery{
		MessageID: m.ID, Recipient: m.To[0], Channel: hub.ChannelInbox, Status: hub.DeliveryStored,
	}); err != nil {
		return err
	}
	_, err := tx.Append(hub.Entry{
		At: m.CreatedAt, Actor: m.From, Action: actions.MessageSent, Subject: string(m.ID), Outcome: hub.OutcomeOK,
		Facts: json.RawMessage(`{"to":["bob"],"type":"status.update","bytes":80}`),
	})
	return err
}

// BenchmarkSend has many callers that each wait for an answer.
func BenchmarkSend(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			s := openTest(b, nil)
			ids := hub.NewIDs(time.Now)
			names := make([]hub.AgentID, 16)
			for i := range names {
				names[i] = hub.AgentID(fmt.Sprintf("agent-%d", i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			work := make(chan int)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for i := range work {
						m, parties := benchMessage(ids, names[i%16], names[(i+1)%16])
						if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
							return benchSend(tx, m, parties)
						}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				work <- i
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// fill puts n messages for one agent into a store.
func fill(b *testing.B, s *Store, n int) (last hub.EnvelopeID) {
	b.Helper()
	ids := hub.NewIDs(time.Now)
	for done := 0; done < n; {
		if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
			for range min(1000, n-done) {
				m, parties := benchMessage(ids, "ada", "bob")
				if err := benchSend(tx, m, parties); err != nil {
					return err
				}
				last = m.ID
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		done += min(1000, n-done)
	}
	return last
}

// BenchmarkRead reads from a small and from a large store; it must not matter
// which.
func BenchmarkRead(b *testing.B) {
	for _, rows := range []int{1_000, 100_000} {
		s := openTest(b, nil)
		last := fill(b, s, rows)
		now := hub.At(time.Now())
		for _, c := range []struct {
			name string
			read func(r hub.Reader) error
		}{
			{"inbox of 50", func(r hub.Reader) error {
				page, err := r.Inbox("bob", hub.InboxFilter{Limit: 50, Now: now})
				if err == nil && len(page.Messages) != 50 {
					err = fmt.Errorf("%d messages", len(page.Messages))
				}
				return err
			}},
			{"message", func(r hub.Reader) error { _, err := r.Message(last); return err }},
			{"query of 50", func(r hub.Reader) error { _, err := r.Query(hub.Query{Viewer: "bob", Limit: 50}); return err }},
			{"text of 50", func(r hub.Reader) error {
				_, err := r.Query(hub.Query{Viewer: "bob", Text: "printer parser", Limit: 50})
				return err
			}},
			{"rare status", func(r hub.Reader) error {
				_, err := r.Query(hub.Query{Viewer: "bob", Status: hub.StatusFailed, Limit: 50})
				return err
			}},
		} {
			b.Run(fmt.Sprintf("%s/%d rows", c.name, rows), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if err := s.View(context.Background(), c.read); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
