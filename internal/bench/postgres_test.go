//go:build unix

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/pgtest"
)

func init() { parts["postgres"] = (*table).postgres }

// A pgHub is the mailroom of a hub on PostgreSQL.
type pgHub struct {
	store *postgres.Store
	mail  *mailroom.Mailroom
}

// pgHubs opens hubs on a new schema, with the senders as agents.
func pgHubs(b *testing.B, address string, n int) (all []pgHub) {
	for range n {
		store, err := postgres.Open(b.Context(), address, nil)
		must(b, err)
		b.Cleanup(func() { store.Close() })
		if all == nil {
			addAgents(b, store)
		}
		mail, err := mailroom.New(store, keys.New(store, &keys.Options{Shared: true}), &mailroom.Options{Limits: mailroom.Limits{Unsafe: true}, Bus: store.Bus()})
		must(b, err)
		all = append(all, pgHub{store, mail})
	}
	return all
}

func pgDraft(to hub.AgentID) mailroom.Draft {
	return mailroom.Draft{To: []hub.AgentID{to}, Type: hub.TypeStatusUpdate, Payload: strictjson.Trust([]byte(benchPayload))}
}

// postgres measures hubs on a PostgreSQL server of their own with durable commits:
// sends through the service, words indexed, beside bare batches of the same rows; three
// hubs beside one; a reader that waits on another hub; an inbox in a large store.
func (t *table) postgres() {
	b := t.b
	server := pgtest.Own(b)
	sends := func(hubs []pgHub) load {
		return func(stop <-chan struct{}) int64 {
			return crowd(senders, stop, func(w int, _ int64) {
				if _, err := hubs[w%len(hubs)].mail.Send(b.Context(), hub.Caller{ID: benchAgent(w), Role: hub.RoleExecutor}, pgDraft(benchAgent(w+1))); err != nil {
					b.Error(err)
				}
			})
		}
	}
	first := server.Schema(b)
	one, three := pgHubs(b, first, 1), pgHubs(b, server.Schema(b), 3)
	address := server.Schema(b)
	_, err := pgHubs(b, address, 1)[0].mail.Send(b.Context(), hub.Caller{ID: benchAgent(0), Role: hub.RoleExecutor}, pgDraft(benchAgent(1)))
	must(b, err)
	t.sustained("PostgreSQL: durable Send, 64 senders / bare batches of 64 with the same rows", sends(one), pgBare(b, address), func() {}, 0.4)
	got, base := turns(sends(three), sends(one))
	t.ratio("PostgreSQL: durable Send through three hubs / through one", got, base, "/s", 0.7, true)

	t.fact("PostgreSQL: bytes of a message with its parties, words, delivery and journal entry", pgtest.Column(b, first, `SELECT sum(pg_total_relation_size(oid)) / (SELECT count(*) FROM messages)
		FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`)[0])

	pair := pgHubs(b, server.Schema(b), 2)
	here, there := pgWake(b, pair[0], pair[0], benchAgent(2)), pgWake(b, pair[0], pair[1], benchAgent(3))
	t.ratio("PostgreSQL: from send to a reader that waits on another hub / on the same hub, median", float64(there.Microseconds()), float64(here.Microseconds()), "µs", 5, false)

	page := func(n int) load {
		address := server.Schema(b)
		h := pgHubs(b, address, 1)[0]
		_, err := h.mail.Send(b.Context(), hub.Caller{ID: benchAgent(0), Role: hub.RoleExecutor}, pgDraft(benchAgent(1)))
		must(b, err)
		pgFill(b, address, n)
		return func(stop <-chan struct{}) int64 {
			return crowd(1, stop, func(int, int64) {
				in, err := h.mail.Inbox(b.Context(), hub.Caller{ID: benchAgent(2), Role: hub.RoleExecutor}, mailroom.InboxRequest{Peek: true})
				must(b, err)
				if len(in.Messages) != 50 {
					b.Fatalf("an inbox of %d messages, want 50", len(in.Messages))
				}
			})
		}
	}
	n := number(b, "PARLEY_BENCH_MESSAGES", 1_000_000)
	large, small := turns(page(n), page(1000))
	t.ratio(fmt.Sprintf("PostgreSQL: inbox of 50 among %d messages / among 1000", n), 1e6/large, 1e6/small, "µs", 2, false)
}

// pgBare inserts the rows of one message after the other in batches of 64, each copied
// from the first message of a schema.
func pgBare(b *testing.B, address string) load {
	c, err := pgconn.Connect(b.Context(), address)
	must(b, err)
	b.Cleanup(func() { c.Close(context.Background()) })
	for i, sql := range []string{
		`INSERT INTO messages SELECT $1, protocol, version, from_agent, to_agents_json, team, reply_to, $1, type, topic, priority, status, payload_json, policy_json,
			context_json, external_refs_json, sequence, expires_at, payload_bytes, created_at, updated_at FROM (SELECT * FROM messages ORDER BY id LIMIT 1) AS m`,
		`INSERT INTO message_meta (seq, message_id) VALUES ($1, $2)`,
		`INSERT INTO message_party VALUES ('ada', $1, 'sender', 2, 'status.update', 0)`,
		`INSERT INTO message_party VALUES ('agent-01', $1, 'unread', 2, 'status.update', 0)`,
		`INSERT INTO message_text SELECT $1::bigint, words FROM (SELECT words FROM message_text ORDER BY seq LIMIT 1) AS w`,
		`INSERT INTO short_ids VALUES ('m', $1, $2)`,
		`INSERT INTO delivery_log (message_id, recipient, channel, status) VALUES ($1, 'agent-01', 'inbox', 'stored')`,
		`INSERT INTO journal SELECT $1::bigint, at, actor, action, $2, outcome, facts_json, hash FROM (SELECT * FROM journal ORDER BY seq LIMIT 1) AS j`,
	} {
		_, err := c.Prepare(b.Context(), fmt.Sprint("b", i), sql, nil)
		must(b, err)
	}
	ids := hub.NewIDs(time.Now)
	number := int64(1 << 20) // beyond those of the schema
	return func(stop <-chan struct{}) (sent int64) {
		for {
			select {
			case <-stop:
				return sent
			default:
			}
			p := c.StartPipeline(b.Context())
			p.SendQueryParams(`BEGIN`, nil, nil, nil, nil)
			for range 64 {
				number++
				sent++
				id, next, seq := []byte(ids.Next()), fmt.Append(nil, number), fmt.Append(nil, time.Now().UnixMilli()<<12+number)
				for i, params := range [][][]byte{{id}, {seq, id}, {seq}, {seq}, {seq}, {next, id}, {id}, {next, id}} {
					p.SendQueryPrepared(fmt.Sprint("b", i), params, nil, nil)
				}
			}
			p.SendQueryParams(`COMMIT`, nil, nil, nil, nil)
			must(b, p.Sync())
			for {
				got, err := p.GetResults()
				must(b, err)
				r, ok := got.(*pgconn.ResultReader)
				if !ok {
					break
				}
				_, err = r.Close()
				must(b, err)
			}
			must(b, p.Close())
		}
	}
}

// pgWake returns the median time from a send on one hub until a reader that waits on
// another, or on the same one, has the message.
func pgWake(b *testing.B, from, at pgHub, reader hub.AgentID) time.Duration {
	const times = 201
	to := hub.Caller{ID: reader, Role: hub.RoleExecutor}
	var all []time.Duration
	var done []hub.EnvelopeID
	for range times {
		received := make(chan time.Time, 1)
		waits := make(chan struct{})
		ack := done
		go func() {
			close(waits)
			in, err := at.mail.Inbox(b.Context(), to, mailroom.InboxRequest{Wait: time.Minute, Ack: ack})
			received <- time.Now()
			if err != nil || len(in.Messages) != 1 {
				b.Errorf("got %d messages (%v), want 1", len(in.Messages), err)
			}
		}()
		<-waits
		for len(at.mail.Waiting()) == 0 {
			<-time.After(time.Millisecond)
		}
		<-time.After(10 * time.Millisecond) // so that the reader waits
		r, err := from.mail.Send(b.Context(), hub.Caller{ID: benchAgent(1), Role: hub.RoleExecutor}, pgDraft(to.ID))
		sent := time.Now()
		must(b, err)
		done = []hub.EnvelopeID{r.ID}
		all = append(all, (<-received).Sub(sent))
	}
	slices.Sort(all)
	return all[times/2]
}

// pgFill fills a schema with copies of its message, 50 of them unread in the inbox of
// agent-02, and the others in those of 1000 other agents.
func pgFill(b *testing.B, address string, n int) {
	pgtest.Exec(b, address, fmt.Sprintf(`SET synchronous_commit = off; SET session_replication_role = replica;
		CREATE TEMP TABLE first AS SELECT m.*, seq FROM messages AS m JOIN message_meta ON message_id = m.id LIMIT 1;
		CREATE TEMP TABLE copies AS SELECT g, left(id, length(id) - 8) || lpad(g::text, 8, '0') AS copy, seq + g AS at,
			CASE WHEN g %% %d = 0 THEN 'agent-02' ELSE 'other-' || g %% 1000 END AS reader FROM first, generate_series(1, %d) AS g;
		INSERT INTO messages SELECT copy, protocol, version, from_agent, to_agents_json, team, reply_to, copy, type, topic, priority, status, payload_json, policy_json,
			context_json, external_refs_json, sequence, expires_at, payload_bytes, created_at, updated_at FROM first, copies;
		INSERT INTO message_meta (seq, message_id) SELECT at, copy FROM copies;
		INSERT INTO message_party SELECT 'agent-00', at, 'sender', 2, 'status.update', 0 FROM copies;
		INSERT INTO message_party SELECT reader, at, 'unread', 2, 'status.update', 0 FROM copies;
		INSERT INTO short_ids SELECT 'm', 1 + g, copy FROM copies;
		INSERT INTO delivery_log (message_id, recipient, channel, status) SELECT copy, reader, 'inbox', 'stored' FROM copies;
		INSERT INTO journal SELECT j.seq + 1000 + g, j.at, actor, action, copy, outcome, facts_json, hash FROM (SELECT * FROM journal ORDER BY seq DESC LIMIT 1) AS j, copies;
		ANALYZE`, n/50, n))
}
