package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/durable"
)

// A fault is the reason why changes fail.
type fault struct {
	err  error
	full bool // the disk is full
}

// fullBelow is the number of free bytes below which a change that failed did so
// because the disk is full. The largest change of one caller needs less.
const fullBelow = 1 << 20

// errFull is the cause of every error about a full disk.
var errFull = errors.New("the disk is full")

func fullError(op string, err error) error {
	return hub.Errorf(hub.CodeDegraded, op, "%w: %v", errFull, err).
		WithHint("free space on the disk of the hub's home, or move old records to another disk with parley archive; the hub goes on by itself")
}

// room returns the free bytes on the disk of the database; as many as there can be
// where that is not known.
func (s *Store) room() uint64 {
	if free, known := durable.Free(filepath.Dir(s.path)); known {
		return free
	}
	return 1 << 62
}

// failed notes that a change failed with err, and returns the error for its caller.
// The driver reports some writes to a full disk as an I/O error.
func (s *Store) failed(err error) error {
	full := errors.Is(err, errFull)
	if !full && s.room() < fullBelow {
		full, err = true, fullError("sqlite.Update", err)
	}
	if full {
		s.askCheckpoint() // gives the space of the log back, if it can
	}
	s.fault.Store(&fault{err, full})
	return err
}

// succeeded notes that a change was committed. On a full disk small changes may
// succeed while others fail, so that Fault alone ends that fault.
func (s *Store) succeeded() {
	if f := s.fault.Load(); f != nil && !f.full {
		s.fault.CompareAndSwap(f, nil)
	}
}

// Fault reports why the store cannot be changed, or that it is damaged, and nil if
// neither is known. It tries a change only if the newest one failed, so it costs
// nothing while all is well.
func (s *Store) Fault(ctx context.Context) error {
	f := s.fault.Load()
	switch {
	case f == nil:
		if damage := s.damage.Load(); damage != nil {
			return *damage
		}
		return nil
	case f.full && s.room() < fullBelow:
		return f.err
	}
	err := s.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta("fault.tried", hub.At(time.Now()).String()) })
	if err == nil {
		s.fault.CompareAndSwap(f, nil)
	}
	return err
}
