package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// leaseTime is the time until another process takes over from one that died, and
// renewEvery how often a process that lives renews its leases.
const (
	leaseTime  = 10 * time.Second
	renewEvery = 3 * time.Second
)

var (
	takeLease = rows.Statement(`INSERT INTO leases (name, number, holder, until) VALUES (?1, 1, ?2, clock_timestamp() + interval '10 seconds')
		ON CONFLICT (name) DO UPDATE SET number = leases.number + CASE WHEN leases.holder = ?2 THEN 0 ELSE 1 END, holder = ?2, until = excluded.until
		WHERE leases.holder = ?2 OR leases.until < clock_timestamp() RETURNING number`)
	renewLease = rows.Statement(`UPDATE leases SET until = clock_timestamp() + interval '10 seconds'
		WHERE name = ?1 AND holder = ?2`)
	releaseLeases = rows.Statement(`UPDATE leases SET until = clock_timestamp() WHERE holder = ?1`)
	forgetWriter  = rows.Statement(`DELETE FROM writers WHERE id = ?1 OR at < now() - interval '1 day'`)
)

// Lease implements hub.Store. A lease is kept for ttl by renewing it: in the database
// it never lasts longer than leaseTime, by the database's clock.
func (s *Store) Lease(ctx context.Context, name string, ttl time.Duration) (l hub.Lease, err error) {
	const op = "store.Lease"
	l.Name = name
	err = s.borrow(ctx, op, func(r *reader) error {
		q := r.Ask(takeLease, name, s.id)
		if q.Next() {
			l.Number = q.Row().ColumnInt64(0)
		}
		return q.Done()
	})
	switch {
	case err != nil:
		return hub.Lease{}, err
	case l.Number == 0:
		return hub.Lease{}, hub.Errorf(hub.CodeConflict, op, "another hub has the lease of %s", name)
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	s.leases[name] = time.Now().Add(ttl)
	return l, nil
}

// keepLeases renews the leases of this process until ctx ends.
func (s *Store) keepLeases(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		if err := s.announce(ctx); err != nil && ctx.Err() == nil && hub.CodeOf(err) != hub.CodeDegraded {
			s.log.Warn("announcing this hub to the others", "err", err)
		}

		// A lease is renewed until the ttl of its last call is over.
		s.leaseMu.Lock()
		var due []string
		for name, until := range s.leases {
			if time.Now().After(until) {
				delete(s.leases, name)
				continue
			}
			due = append(due, name)
		}
		s.leaseMu.Unlock()

		err := s.borrow(ctx, "store.Lease", func(r *reader) error {
			for _, name := range due {
				q := r.Ask(renewLease, name, s.id)
				if err := q.Exec(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && ctx.Err() == nil && hub.CodeOf(err) != hub.CodeDegraded {
			s.log.Warn("renewing leases", "err", err)
		}
	}
}

// release gives the leases of this process back. Another process gets them at once.
func (s *Store) release() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	c, err := connect(ctx, s.config)
	if err != nil {
		return // they expire
	}
	defer c.close()
	c.ctx = ctx
	r := rows.NewReader(c)
	for _, id := range []rows.StmtID{releaseLeases, forgetWriter, leaveHubs} {
		q := r.Ask(id, s.id)
		if err := q.Exec(); err != nil {
			s.log.Warn("giving leases back", "err", err)
		}
	}
}

// digits writes a whole number.
func digits(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// number reads a whole number; NULL is 0.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}
