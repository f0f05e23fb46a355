package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
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
		WithHint("free space on the disk of the hub's home, or move old records to another disk with parley hub archive; the hub then continues by itself")
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
// The driver reports writes to a read-only disk, and some to a full one, as an I/O
// error.
func (s *Store) failed(err error) error {
	full := errors.Is(err, errFull)
	if !full && s.room() < fullBelow {
		full, err = true, fullError("sqlite.Update", err)
	}
	if full {
		s.askCheckpoint() // gives the space of the log back, if it can
	} else if cause := s.writable(); cause != nil {
		err = hub.Errorf(hub.CodeDegraded, "sqlite.Update", "the hub's home cannot be written: %v", cause).
			WithHint("make its files writable for the user that runs the hub, which then continues by itself; if its disk failed, remount it and restart the hub")
	}
	s.fault.Store(&fault{err, full})
	return err
}

// writable tries to make a file beside the database, and returns why it cannot.
func (s *Store) writable() error {
	f, err := os.CreateTemp(filepath.Dir(s.path), ".write-*")
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err // the name of the file says nothing
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
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
