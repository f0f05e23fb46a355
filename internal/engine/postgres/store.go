// Package postgres is hub.Store on PostgreSQL 15 or later: one database for any
// number of hubs.
//
// It keeps the promises of hub.Store across processes. Updates of one hub that arrive
// together share a transaction (package rows). Transactions of several hubs run one
// after the other: each begins with the database's write lock, so that the journal is
// one chain in the order of its commits, and a reader that sees an entry sees every
// entry before it. A hub that stops in the middle of a transaction loses it after
// idleLimit, so that it holds up the others no longer than that.
//
// A transaction whose connection breaks before its commit runs again on another one.
// If the connection breaks during the commit, the hub asks the database whether it was
// made (see writer.go). While the database is away, calls wait for a few seconds and
// report CodeDegraded; the hub goes on by itself when it is back.
//
// Every commit is as durable as the server's synchronous_commit says, which Open sets
// to on.
package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

const (
	connectWait = 3 * time.Second  // for a connection, while the database is away
	idleLimit   = 5 * time.Second  // a transaction in which a hub does nothing ends after that
	sendLimit   = 20 * time.Second // for an answer of the database to a transaction
	closeWait   = 2 * time.Second  // for the farewell on a connection
	retryAfter  = time.Second      // callers may try again after that
)

// PasswordVariable is the environment variable with the password of the database.
const PasswordVariable = "PARLEY_STORE_PASSWORD"

// Options are the choices that Open leaves to its caller. The zero value works.
type Options struct {
	PasswordFile string       // holds the password; else PasswordVariable, PGPASSWORD and ~/.pgpass are asked
	NoTLSBecause string       // why a server beyond loopback may be called without verified TLS
	Machine      string       // whose folders the hub reads; the name of the host if empty
	Readers      int          // connections for View; 8 if zero, and 1 in tests
	Log          *slog.Logger // silent if nil
}

// A Store is a hub.Store in a PostgreSQL database.
type Store struct {
	config  *pgconn.Config
	machine string
	bus     *Bus
	id      string // of this process, in leases and among the writers
	log     *slog.Logger

	gate   rows.Gate
	conn   *writer
	writer *rows.Writer
	slots  *rows.Slots // admits a call for each connection of pool
	pool   *pgxpool.Pool

	fault atomic.Pointer[error]     // why changes fail
	away  atomic.Pointer[hub.Error] // why the last try for a connection was given up

	leaseMu sync.Mutex // guards leases
	leases  map[string]time.Time
	hubsMu  sync.Mutex // guards the two below
	waiting func() []hub.AgentID
	others  others
	stop    context.CancelFunc // ends the work beside calls
	working sync.WaitGroup
}

var _ hub.Store = (*Store)(nil)

// Open opens the database at an address postgres://USER@HOST:PORT/NAME and brings its
// tables up to date. opts may be nil. It reports CodeInvalid for an address that is
// none or holds a password, CodePolicy for a server beyond loopback whose certificate would
// not be verified, CodeConflict when a newer version made the tables, and CodeDegraded when
// the database cannot be used.
func Open(ctx context.Context, address string, opts *Options) (*Store, error) {
	const op = "postgres.Open"
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Readers = rows.Readers(o.Readers, 8)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	pooled, err := parse(address, o.PasswordFile)
	if err != nil {
		return nil, err
	}
	config := &pooled.ConnConfig.Config
	if host := exposed(config); host != "" {
		if o.NoTLSBecause == "" {
			return nil, hub.Errorf(hub.CodePolicy, op, "the PostgreSQL server %s is not on this machine and its certificate would not be verified: others could read and change the hub's data", host).
				WithHint("add sslmode=verify-full to the address, or give a reason with --store-no-tls-because")
		}
		o.Log.Warn("the certificate of the PostgreSQL server is not verified", "host", host, "because", o.NoTLSBecause)
	}

	s := &Store{
		config: config, id: string(hub.NewIDs(time.Now).Next()), log: o.Log, leases: map[string]time.Time{},
		slots: rows.NewSlots(o.Readers, o.Log),
	}
	s.conn = &writer{s: s}
	if err := s.openPool(pooled, o.Readers); err != nil {
		return nil, named(op, err)
	}

	// A failure before the store is complete closes the pool.
	opened := false
	defer func() {
		if !opened {
			s.pool.Close()
		}
	}()
	if s.machine = o.Machine; s.machine == "" {
		if s.machine, err = os.Hostname(); err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, op, "this machine has no name: %v", err)
		}
	}

	schema, err := s.migrate(ctx)
	if err != nil {
		return nil, named(op, err)
	}
	s.writer = rows.NewWriter(&s.gate, s.conn, time.Hour, s.log)
	_, tx := s.conn.Tx()
	if err := s.writer.Alone(tx.FillSums); err != nil {
		s.conn.disconnect()
		return nil, named(op, err)
	}

	work, stop := context.WithCancel(context.Background())
	s.stop = stop
	opened = true // Close closes the pool from here on
	s.startBus(work, schema)
	go s.writer.Run()
	if err := s.announce(ctx); err != nil {
		s.Close()
		return nil, named(op, err)
	}
	s.working.Go(func() { s.keepLeases(work) })
	return s, nil
}

// parse reads an address. The password comes from a file or the environment: what
// stands in an address can be read in the list of processes.
func parse(address, passwordFile string) (*pgxpool.Config, error) {
	const op = "postgres.Open"
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, hub.Errorf(hub.CodeInvalid, op, "the store's address must be postgres://USER@HOST:PORT/NAME")
	}

	_, inUser := u.User.Password()
	if inUser || u.Query().Has("password") {
		return nil, hub.Errorf(hub.CodeInvalid, op, "the store's address contains a password, which every process on this machine could read").
			WithHint("put it into a file and use --store-password-file, or into the environment variable %s", PasswordVariable)
	}
	pooled, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "cannot parse the store's address").WithHint("use postgres://USER@HOST:PORT/NAME?sslmode=verify-full")
	}

	config := &pooled.ConnConfig.Config
	if passwordFile != "" {
		b, err := os.ReadFile(passwordFile)
		if err != nil {
			return nil, hub.Errorf(hub.CodeInvalid, op, "cannot read the file with the store's password: %v", err)
		}
		config.Password = strings.TrimSpace(string(b))
	} else if p := os.Getenv(PasswordVariable); p != "" {
		config.Password = p
	}

	// An address may override each of these parameters.
	config.ConnectTimeout = connectWait
	for name, value := range map[string]string{
		"application_name": "parley", "client_encoding": "UTF8", "timezone": "UTC", "synchronous_commit": "on", "jit": "off",
		"idle_in_transaction_session_timeout": "5s", "default_transaction_isolation": "read committed",
		// Each statement is there for an index, and is planned once.
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	} {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	return pooled, nil
}

// exposed returns the first server of a configuration that would be called beyond loopback
// without verified TLS, "" if there is none. A mode such as prefer has a second try without
// TLS, which counts like the first.
func exposed(config *pgconn.Config) string {
	tries := []*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}
	for _, t := range append(tries, config.Fallbacks...) {
		network, _ := pgconn.NetworkAddress(t.Host, t.Port)
		ip := net.ParseIP(t.Host)
		local := network == "unix" || t.Host == "localhost" || (ip != nil && ip.IsLoopback())
		if !local && !verifies(t.TLSConfig) {
			return t.Host
		}
	}
	return ""
}

// verifies reports whether a connection with a configuration of TLS ends if the server's
// certificate is not one of a known authority. pgconn leaves the check to crypto/tls
// (verify-full), or does it in a function (verify-ca).
func verifies(c *tls.Config) bool {
	return c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil)
}

// named gives an error the name of the operation that failed.
func named(op string, err error) error {
	if e, ok := errors.AsType[*hub.Error](err); ok && e.Op == "" {
		e.Op = op
	}
	return err
}

// Close implements hub.Store. Closing again does nothing.
func (s *Store) Close() error {
	if !s.gate.Close() {
		return nil
	}
	s.writer.Stop()
	s.stop()
	s.working.Wait()
	s.release()
	s.pool.Close()
	s.conn.disconnect()
	return nil
}

// Update implements hub.Store.
func (s *Store) Update(ctx context.Context, d hub.Durability, fn func(tx hub.Tx) error) error {
	return s.behind(s.writer.Update(ctx, d, fn))
}

// behind returns the reason why a call waited too long for a connection. While the database
// is away, the calls before it are not slow: they wait for the database themselves.
func (s *Store) behind(err error) error {
	if away := s.away.Load(); away != nil && hub.CodeOf(err) == hub.CodeOverloaded {
		known := *away
		return &known
	}
	return err
}

// Machine returns the name of the machine whose folders this hub can read.
func (s *Store) Machine() string { return s.machine }

// IndexText implements hub.Store: words are indexed with their message.
func (s *Store) IndexText(context.Context) error { return nil }

// A reader is a connection of the pool with its reader.
type reader struct {
	*rows.Reader
	c       *conn
	px      *pgx.Conn // the connection of c, for statements of the engine's own
	machine string
}

// readerKey is the name of the reader in the custom data of its connection.
const readerKey = "parley.reader"

// openPool makes the pool of the connections for reading. It connects to nothing yet. The
// pool keeps the connections, each with the statements that are prepared on it, and takes
// the one that was used last; slots admits the calls, so that one waits for ConnectionWait
// at most and calls in the background leave some connections to others.
func (s *Store) openPool(config *pgxpool.Config, readers int) error {
	config.MaxConns = int32(readers)
	config.MinConns = 0
	config.MinIdleConns = 0
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // lend begins with a round trip
	config.AfterConnect = func(_ context.Context, px *pgx.Conn) error {
		c := newConn(px.PgConn())
		c.pg.CustomData()[readerKey] = &reader{rows.NewReader(c), c, px, s.machine}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return engineError(err)
	}
	s.pool = pool
	return nil
}

var (
	beginRead = rows.Statement(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	snapshot  = rows.Statement(`SELECT 1`)
	endRead   = rows.Statement(`COMMIT`)
)

// View implements hub.Store.
func (s *Store) View(ctx context.Context, fn func(hub.Reader) error) error {
	return s.read(ctx, "store.View", func(r *reader) error { return fn(r) })
}

// read calls fn with a reader that stands on a snapshot.
func (s *Store) read(ctx context.Context, op string, fn func(*reader) error) error {
	begin := func(c *conn) error {
		_, err := c.ask(beginRead, snapshot)
		return err
	}
	return s.lend(ctx, op, begin, func(r *reader) error {
		err := fn(r)
		r.c.ask(endRead) // a failure of it costs the connection
		return err
	})
}

// borrow calls fn with a connection for reading.
func (s *Store) borrow(ctx context.Context, op string, fn func(*reader) error) error {
	return s.lend(ctx, op, func(c *conn) error { return c.pg.Ping(ctx) }, fn)
}

// lend calls fn with a connection for reading on which begin succeeded. A connection that
// was lost while it was not in use fails there, and another one takes its place.
func (s *Store) lend(ctx context.Context, op string, begin func(*conn) error, fn func(*reader) error) error {
	if err := s.gate.Enter(op); err != nil {
		return err
	}
	defer s.gate.Leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.slots.Do(ctx, op, func() error { return s.lendReader(ctx, op, begin, fn) })
	return s.behind(err)
}

// lendReader calls fn with a connection of the pool.
func (s *Store) lendReader(ctx context.Context, op string, begin func(*conn) error, fn func(*reader) error) error {
	lent, r, err := s.reader(ctx, begin)
	if err != nil {
		return named(op, err)
	}
	clean := false
	defer func() {
		if !clean || r.c.failed != nil { // or fn ended in a panic, which goes on
			r.c.close()
		}
		lent.Release() // and the pool drops a connection that is closed
	}()
	err = fn(r)
	clean = true
	if errors.Is(err, rows.ErrInterrupted) && ctx.Err() != nil {
		return ctx.Err()
	}
	return named(op, err)
}

// reader takes a reader from the pool on whose connection begin succeeded. Connections that
// were lost while they were not in use are dropped, until there is one that was made for
// this call.
func (s *Store) reader(ctx context.Context, begin func(*conn) error) (*pgxpool.Conn, *reader, error) {
	for {
		var lent *pgxpool.Conn
		err := s.reach(ctx, func(wait context.Context) (err error) {
			lent, err = s.pool.Acquire(wait)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		r := lent.Conn().PgConn().CustomData()[readerKey].(*reader)
		fresh := !r.c.used
		r.c.used = true
		r.c.ctx = ctx
		if err = begin(r.c); err == nil {
			s.away.Store(nil)
			return lent, r, nil
		}

		r.c.close()
		lent.Release()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if fresh {
			return nil, nil, engineError(err)
		}
	}
}

// connect makes a connection beside the pool.
func (s *Store) connect(ctx context.Context) (c *conn, err error) {
	err = s.reach(ctx, func(wait context.Context) (err error) {
		c, err = connect(wait, s.config)
		return err
	})
	if err == nil {
		s.away.Store(nil)
	}
	return c, err
}

// reach calls connect, which makes a connection. If the database is away it tries for a
// while, or once if an earlier call waited in vain: the calls behind this one wait, too.
func (s *Store) reach(ctx context.Context, connect func(context.Context) error) error {
	known := s.away.Load() != nil
	wait, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()

	// The pauses double until connectWait is over.
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		err := connect(wait)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}

		err = engineError(err)
		e, ok := errors.AsType[*hub.Error](err)
		if !ok || e.RetryAfter == 0 {
			return err // no wait helps
		}
		if known {
			return err
		}

		select {
		case <-time.After(pause):
		case <-wait.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			given := *e
			s.away.Store(&given)
			return err
		}
	}
}
