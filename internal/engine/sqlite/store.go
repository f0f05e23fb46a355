// Package sqlite is hub.Store on SQLite: one file in the hub's home, owned by
// one process.
//
// It keeps the promises of hub.Store, and some more: Updates that arrive
// together share one transaction and one commit (group commit), so that many
// callers cost little more than one; readers never wait for the writer nor
// the writer for readers; a database that is damaged or was made by a newer
// version is refused and left as it is.
//
// Package rows has the statements and the queue of changes; writer.go describes the
// connection that changes, wordindex.go the index of words, and schema/*.sql the tables.
//
// The store checks neither values against the protocol nor callers against
// their rights: services do. The only visibility it knows is that of Query.
package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// Files in the hub's home.
const (
	databaseName = "hub.db"

	// LockFile holds the number of the process that has the hub open. It is empty
	// when none has.
	LockFile = "hub.lock"
)

// KiB of page cache per connection.
const (
	writerCache = 8 << 10
	readerCache = 4 << 10
)

// Options are the choices that Open leaves to its caller. The zero value works.
type Options struct {
	Full    bool         // every change survives power loss, even if Update is asked for less
	Readers int          // connections for View; 4 if zero, and 1 in tests. Work in the background uses half of them at most
	Log     *slog.Logger // silent if nil

	Busy time.Duration // how long to wait for another process; 5 s if zero

	// BeforeUpgrade is called with the version of the tables before they are changed to
	// those of this version. backup copies the database into a file that does not exist
	// yet. An error ends Open, and the database stays as it was. It may be nil.
	BeforeUpgrade func(schema int, backup func(path string) error) error

	patience time.Duration // how long the writer waits for changes before it indexes words; 100 ms if zero
}

// A Store is a hub.Store in an SQLite database.
type Store struct {
	path string
	full bool
	busy time.Duration
	log  *slog.Logger
	lock *lock

	patience time.Duration // without changes, after which the writer indexes words

	slots   *rows.Slots  // admits a View for each reader
	readers chan *reader // those not in use
	gate    rows.Gate
	conn    *writer
	writer  *rows.Writer

	// Pages of the log; see walGrew.
	walLimit  int // at which a checkpoint is due
	walLooked int // when walLimit was last computed
	walAsked  int // when a checkpoint was last asked for

	checkpoint      chan struct{}
	checkpointsDone chan struct{}
	logMu           sync.Mutex // held by a checkpoint, and by a backup

	// The lag of the word index after the newest commit; see lag.
	lastRow, indexedRow atomic.Int64

	fault  atomic.Pointer[fault] // why changes fail; see Fault
	damage atomic.Pointer[error] // found by CheckBeside

	leaseMu sync.Mutex // guards leases; held while one is raised
	leases  map[string]hub.Lease
}

var _ hub.Store = (*Store)(nil)

// Open opens the hub's database in dir and makes both if they are missing.
// opts may be nil. It reports CodeConflict when another process has it open or
// when a newer version made it, and CodeDegraded when it cannot be used.
func Open(dir string, opts *Options) (*Store, error) {
	const op = "sqlite.Open"
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Readers = rows.Readers(o.Readers, 4)
	if o.Busy == 0 {
		o.Busy = 5 * time.Second
	}
	if o.patience == 0 {
		o.patience = 100 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	// The lock keeps a second process out of the home.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, engineError(op, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, op, "cannot make the hub's home: %v", err)
	}
	lock, err := lockHome(filepath.Join(dir, LockFile))
	if err != nil {
		return nil, err
	}

	s := &Store{
		path:            filepath.Join(dir, databaseName),
		full:            o.Full,
		busy:            o.Busy,
		patience:        o.patience,
		log:             o.Log,
		leases:          map[string]hub.Lease{},
		lock:            lock,
		readers:         make(chan *reader, o.Readers),
		slots:           rows.NewSlots(o.Readers, o.Log),
		checkpoint:      make(chan struct{}, 1),
		checkpointsDone: make(chan struct{}),
	}

	if err := s.start(o.Readers, o.BeforeUpgrade); err != nil {
		lock.Close()
		return nil, engineError(op, err)
	}
	return s, nil
}

// start makes the database ready and opens the connections. It starts
// goroutines only when nothing can fail any more.
func (s *Store) start(readers int, beforeUpgrade func(int, func(string) error) error) (err error) {
	first, err := s.ready(beforeUpgrade)
	if err != nil {
		return err
	}
	defer func() {
		if err := first.close(); err != nil {
			s.log.Warn("closing the first connection", "err", err)
		}
	}()

	if err := s.trimLog(first); err != nil {
		return err
	}

	// No query finds a message that is not filed, so that all are filed before readers are opened.
	w := &writer{s: s}
	s.conn, s.writer = w, rows.NewWriter(&s.gate, w, s.patience, s.log)
	if err := w.connect(); err != nil {
		return err
	}
	if err := s.writer.Alone(w.tx.fileUnfiled); err != nil {
		w.disconnect()
		return err
	}
	if err := s.writer.Alone(w.tx.FillSums); err != nil {
		w.disconnect()
		return err
	}

	checkpoints, err := openConn(s.path, min(s.busy, checkpointWait), readerCache)
	if err != nil {
		w.disconnect()
		return err
	}
	for range readers {
		c, err := openConn(s.path, s.busy, readerCache)
		if err != nil {
			s.closeReaders(len(s.readers))
			checkpoints.close()
			w.disconnect()
			return err
		}
		s.readers <- &reader{rows.NewReader(c), c}
	}

	go s.writer.Run()
	go s.runCheckpoints(checkpoints)
	return nil
}

// closeReaders waits for n readers and closes them.
func (s *Store) closeReaders(n int) error {
	var errs []error
	for range n {
		errs = append(errs, (<-s.readers).c.close())
	}
	return errors.Join(errs...)
}

// A reader is a connection with its reader.
type reader struct {
	*rows.Reader
	c *conn
}

// Close implements hub.Store. Closing again does nothing.
func (s *Store) Close() error {
	if !s.gate.Close() {
		return nil
	}
	s.writer.Stop()
	err := s.closeReaders(cap(s.readers))
	s.conn.disconnect()
	close(s.checkpoint)
	<-s.checkpointsDone // its connection is the last one, so the log goes with it
	return engineError("sqlite.Close", errors.Join(err, s.lock.Close()))
}

// Update implements hub.Store.
func (s *Store) Update(ctx context.Context, d hub.Durability, fn func(tx hub.Tx) error) error {
	return s.writer.Update(ctx, d, fn)
}

// View implements hub.Store.
func (s *Store) View(ctx context.Context, fn func(hub.Reader) error) error {
	return s.read(ctx, "sqlite.View", func(r *reader) error { return fn(r) })
}

// read calls fn with a reader that stands on a snapshot.
func (s *Store) read(ctx context.Context, op string, fn func(*reader) error) error {
	if err := s.gate.Enter(op); err != nil {
		return err
	}
	defer s.gate.Leave()
	return s.slots.Do(ctx, op, func() error { return s.readWith(ctx, op, <-s.readers, fn) })
}

// readWith calls fn with a reader, which is free again afterwards.
func (s *Store) readWith(ctx context.Context, op string, r *reader, fn func(*reader) error) error {
	clean := false
	defer func() {
		if !clean {
			r.c.reset() // fn ended in a panic, which goes on
		}
		r.c.db.SetInterrupt(context.Background())
		s.readers <- r
	}()
	r.c.db.SetInterrupt(ctx)

	// A statement that has given a row and is not reset holds a snapshot; that
	// is cheaper than a transaction.
	hold, err := r.c.stmt(stmtSnapshot)
	if err == nil {
		hold.Step()
		err = hold.Err()
	}
	if err == nil {
		err = fn(r)
	} else {
		err = engineError(op, err)
	}
	if hold != nil {
		hold.Reset()
	}
	clean = true
	if errors.Is(err, rows.ErrInterrupted) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// texts returns the first column of every row.
func texts(c *conn, sql string) (all []string, err error) {
	st, _, err := c.db.Prepare(sql)
	if err != nil {
		return nil, err
	}
	for st.Step() {
		all = append(all, st.ColumnText(0))
	}
	err = st.Err()
	st.Close()
	return all, err
}

// firstText returns the first column of the first row, or "".
func firstText(c *conn, sql string) (string, error) {
	all, err := texts(c, sql)
	if len(all) == 0 {
		return "", err
	}
	return all[0], err
}

// Size returns how many bytes the database and its log have on disk.
func (s *Store) Size() (int64, error) {
	var n int64
	for _, path := range []string{s.path, s.path + "-wal"} {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, engineError("sqlite.Size", err)
		}
		n += info.Size()
	}
	return n, nil
}
