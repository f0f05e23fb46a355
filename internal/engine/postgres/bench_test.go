//go:build unix

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/pgtest"
)

const benchCallers = 192

// benchSend is what one send writes.
func benchSend(s hub.Store, ids *hub.IDs, from, to hub.AgentID) error {
	id := ids.Next()
	m := hub.Message{Envelope: hub.Envelope{
		ID: id, Protocol: hub.Protocol, Version: hub.Version, From: from, To: []hub.AgentID{to}, ThreadID: string(id),
		Type: hub.TypeStatusUpdate, Topic: "build", Priority: hub.PriorityNormal, Status: hub.StatusPending,
		Payload: json.RawMessage(`{"summary":"all tests of the parser pass, two of the printer do not","progress_pct":70}`),
		Policy:  hub.DefaultPolicy, CreatedAt: id.Time(),
	}}
	return s.Update(context.Background(), hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		if err := tx.AddMessage(m, []hub.Party{{Agent: from, State: hub.PartySender}, {Agent: to, State: hub.PartyUnread}}); err != nil {
			return err
		}
		if _, err := tx.PutDelivery(hub.Delivery{MessageID: m.ID, Recipient: to, Channel: hub.ChannelInbox, Status: hub.DeliveryStored}); err != nil {
			return err
		}
		_, err := tx.Append(hub.Entry{
			At: m.CreatedAt, Actor: from, Action: hub.ActionMessageSent, Subject: string(m.ID), Outcome: hub.OutcomeOK,
			Facts: json.RawMessage(`{"to":["bob"],"type":"status.update","bytes":80}`),
		})
		return err
	})
}

// BenchmarkSend has many callers that each wait for an answer, on one hub and on
// three, beside the same rows in bare batches of 64 messages.
func BenchmarkSend(b *testing.B) {
	server := pgtest.Own(b)
	for _, hubs := range []int{1, 3} {
		b.Run(fmt.Sprintf("%d hubs", hubs), func(b *testing.B) {
			address := server.Schema(b)
			var stores []hub.Store
			for range hubs {
				s, err := postgres.Open(context.Background(), address, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				stores = append(stores, s)
			}
			work := make(chan int)
			var wg sync.WaitGroup
			b.ResetTimer()
			for c := range benchCallers {
				ids := hub.NewIDs(time.Now)
				wg.Go(func() {
					for i := range work {
						if err := benchSend(stores[c%hubs], ids, "ada", hub.AgentID(fmt.Sprintf("agent-%d", i%16))); err != nil {
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
	b.Run("bare batches", func(b *testing.B) {
		address := server.Schema(b)
		s, err := postgres.Open(context.Background(), address, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := benchSend(s, hub.NewIDs(time.Now), "ada", "bob"); err != nil { // the rows that follow are copies of these
			b.Fatal(err)
		}
		s.Close()
		c, err := pgconn.Connect(context.Background(), address)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close(context.Background())
		statements := []string{
			`INSERT INTO messages SELECT $1, protocol, version, from_agent, to_agents_json, team, reply_to, $1, type, topic, priority, status, payload_json, policy_json,
				context_json, external_refs_json, sequence, expires_at, payload_bytes, created_at, updated_at FROM (SELECT * FROM messages ORDER BY id LIMIT 1) AS m`,
			`INSERT INTO message_meta (seq, message_id) VALUES ($1, $2)`,
			`INSERT INTO message_party VALUES ('ada', $1, 'sender', 2, 'status.update', 0)`,
			`INSERT INTO message_party VALUES ('agent-1', $1, 'unread', 2, 'status.update', 0)`,
			`INSERT INTO message_text SELECT $1::bigint, words FROM (SELECT words FROM message_text ORDER BY seq LIMIT 1) AS w`,
			`INSERT INTO short_ids VALUES ('m', $1, $2)`,
			`INSERT INTO delivery_log (message_id, recipient, channel, status) VALUES ($1, 'agent-1', 'inbox', 'stored')`,
			`INSERT INTO journal SELECT $1::bigint, at, actor, action, $2, outcome, facts_json, hash FROM (SELECT * FROM journal ORDER BY seq LIMIT 1) AS j`,
		}
		for i, sql := range statements {
			if _, err := c.Prepare(context.Background(), fmt.Sprint("b", i), sql, nil); err != nil {
				b.Fatal(err)
			}
		}
		ids := hub.NewIDs(time.Now)
		b.ResetTimer()
		for sent := 0; sent < b.N; {
			p := c.StartPipeline(context.Background())
			p.SendQueryParams(`BEGIN`, nil, nil, nil, nil)
			for range min(64, b.N-sent) {
				sent++
				id, n := []byte(ids.Next()), fmt.Appendf(nil, "%d", time.Now().UnixMilli()<<12+int64(sent))
				next := fmt.Appendf(nil, "%d", sent+1)
				for i, params := range [][][]byte{{id}, {n, id}, {n}, {n}, {n}, {next, id}, {id}, {next, id}} {
					p.SendQueryPrepared(fmt.Sprint("b", i), params, nil, nil)
				}
			}
			p.SendQueryParams(`COMMIT`, nil, nil, nil, nil)
			if err := p.Sync(); err != nil {
				b.Fatal(err)
			}
			for {
				got, err := p.GetResults()
				if err != nil {
					b.Fatal(err)
				}
				r, ok := got.(*pgconn.ResultReader)
				if !ok {
					break
				}
				if _, err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
}
