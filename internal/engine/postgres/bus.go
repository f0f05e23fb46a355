package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/internal/engine/bus"
)

const (
	// pollEvery is how often a hub looks whether the journal has grown without a
	// notification: that of a hub which died after its commit is missing.
	pollEvery = 5 * time.Second
	// relisten is the pause after which a lost connection is made again. Subscribers
	// are woken each time, since nothing tells of changes meanwhile.
	relisten = 500 * time.Millisecond

	maxPayload = 7000 // bytes of one notification; the server allows 7999
)

// A Bus is a hub.Bus across the hubs of one database. A hint goes to the subscribers of
// this process at once, and to the other hubs as a notification of the database. A
// notification may be lost; subscribers read the store, and are woken whenever one may
// have been.
type Bus struct {
	bus.Local
	s       *Store
	channel string

	mu     sync.Mutex // guards topics
	topics map[string]bool
	some   chan struct{} // receives when there are topics to tell
}

// Publish wakes the subscribers of topic, here and on the other hubs.
func (b *Bus) Publish(topic string) {
	b.Local.Publish(topic)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics[topic] = true
	select {
	case b.some <- struct{}{}:
	default:
	}
}

// Bus returns the bus of the store. It works until the store is closed.
func (s *Store) Bus() *Bus { return s.bus }

// startBus begins to tell and to listen.
func (s *Store) startBus(ctx context.Context, schema string) {
	s.bus = &Bus{s: s, channel: "parley_" + schema, topics: map[string]bool{}, some: make(chan struct{}, 1)}
	s.working.Go(func() { s.bus.tell(ctx) })
	s.working.Go(func() { s.bus.listen(ctx) })
}

// tell sends hints to the other hubs, those that came together in one notification.
func (b *Bus) tell(ctx context.Context) {
	var c *conn
	defer func() {
		if c != nil {
			c.close()
		}
	}()

	for {
		select {
		case <-ctx.Done():
			return
		case <-b.some:
		}

		// All topics since the last notification go out together, in as few payloads as their
		// length allows.
		b.mu.Lock()
		var payloads []string
		payload := b.s.id
		for topic := range b.topics {
			if len(payload)+len(topic) > maxPayload {
				payloads, payload = append(payloads, payload), b.s.id
			}
			payload += "\n" + topic
		}
		payloads = append(payloads, payload)
		clear(b.topics)
		b.mu.Unlock()

		for _, p := range payloads {
			if c == nil || c.lost() {
				var err error
				if c, err = connect(ctx, b.s.config); err != nil {
					c = nil
					break // the database is away; who waits is woken when it is back
				}
			}
			c.pg.ExecParams(ctx, `SELECT pg_notify($1, $2)`, [][]byte{[]byte(b.channel), []byte(p)}, nil, nil, nil).Read()
		}
	}
}

// listen wakes the subscribers of this process when another hub tells of a change.
func (b *Bus) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.hear(ctx); err != nil && ctx.Err() == nil {
			b.s.log.Info("no notifications of the database for now", "err", engineError(err))
		}
		b.PublishAll()
		select {
		case <-ctx.Done():
		case <-time.After(relisten):
		}
	}
}

// hear listens on one connection until it is lost.
func (b *Bus) hear(ctx context.Context) error {
	config := b.s.config.Copy()
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		from, topics, _ := strings.Cut(n.Payload, "\n")
		if from == b.s.id {
			return
		}
		for topic := range strings.SplitSeq(topics, "\n") {
			b.Local.Publish(topic)
		}
	}

	c, err := connect(ctx, config)
	if err != nil {
		return err
	}
	defer c.close()

	if _, err := c.pg.Exec(ctx, `LISTEN "`+strings.ReplaceAll(b.channel, `"`, `""`)+`"`).ReadAll(); err != nil {
		return err
	}
	b.PublishAll() // what happened before is not told

	// A notification can be lost, so that the journal is also read at intervals.
	var seen int64
	for due := time.Now(); ; {
		if !time.Now().Before(due) {
			due = time.Now().Add(pollEvery)
			got := c.pg.ExecParams(ctx, `SELECT max(seq) FROM journal`, nil, nil, nil, nil).Read()
			if got.Err != nil {
				return got.Err
			}
			if n := number(got.Rows[0][0]); n != seen {
				seen = n
				b.PublishAll()
			}
		}

		wait, cancel := context.WithDeadline(ctx, due)
		err := c.pg.WaitForNotification(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
}
