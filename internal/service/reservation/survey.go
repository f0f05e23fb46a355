package reservation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// facts are what the files of a working tree show, read before a transaction.
type facts struct {
	files map[string]File    // by name
	held  []hub.Reservation  // of the tree, when the files were read
	left  map[string]remains // differences that orphans leave, by name
	gone  bool               // the working tree was moved or deleted
}

// judge returns a reservation as its file shows it, and its end if that has come. A working tree
// that is gone has no files: its reservations end with the sessions of their holders, and nothing
// is left in it.
func (k facts) judge(r hub.Reservation, f File, life Life, idle time.Duration, now hub.Time) (hub.Reservation, ending) {
	if !k.gone && isCommitted(r, f) {
		return r, ending{hub.ReservationOver, whyCommit}
	}
	if !k.gone {
		r = observe(r, f, now)
		return r, judge(r, f, life, idle, now)
	}
	end := judge(r, File{Digest: r.Digest}, life, idle, now)
	if end.next == hub.ReservationOrphan {
		return r, ending{hub.ReservationOver, whySession}
	}
	return r, end
}

// remains are changes that a holder left and that are not committed, as an artifact.
type remains struct {
	sha256 string
	lines  int
}

// survey reads files of a working tree: those of names, and those of reservations that concern
// the caller. The difference of a file whose reservation becomes an orphan is kept as an artifact,
// so that it is not lost when the next agent changes the file.
func (s *Service) survey(ctx context.Context, tree hub.WorkingTree, names []string, concerned func(hub.Reservation) bool) (facts, error) {
	known := facts{left: map[string]remains{}}
	lives := map[hub.ReservationID]Life{}
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if known.held, err = reservationsOf(r, tree); err != nil {
			return err
		}
		sessions := s.lives(r)
		for _, v := range known.held {
			if lives[v.ID], err = sessions.of(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return known, err
	}

	names = slices.Clone(names)
	for _, r := range known.held {
		if !r.Pattern && concerned(r) {
			names = append(names, r.Path)
		}
	}
	slices.Sort(names)
	known.files, err = s.trees.Files(ctx, tree, slices.Compact(names))
	if hub.CodeOf(err) == hub.CodeNotFound {
		known.gone = true
		return known, nil
	}
	if err != nil {
		return known, fmt.Errorf("reservation: read the files: %w", err)
	}

	now := s.clock.Now()
	for _, r := range known.held {
		f, ok := known.files[r.Path]
		if !ok || r.State != hub.ReservationHeld {
			continue
		}
		if _, end := known.judge(r, f, lives[r.ID], s.idleIn(tree), now); end.next != hub.ReservationOrphan {
			continue
		}
		if known.left[r.Path], err = s.keep(ctx, tree, r.Path); err != nil {
			return known, err
		}
	}
	return known, nil
}

// keep stores the difference of a file as an artifact. A difference that cannot be read or kept
// is no reason to refuse anything: the file itself is still there.
func (s *Service) keep(ctx context.Context, tree hub.WorkingTree, name string) (remains, error) {
	d, err := s.trees.Difference(ctx, tree, name)
	if err != nil {
		s.log.Warn("cannot read the difference of a file", "op", "reservation.keep", "err", err)
		return remains{}, ctx.Err()
	}
	ref, err := s.mail.KeepText(d.Text)
	if err != nil {
		s.log.Warn("cannot keep the difference of a file", "op", "reservation.keep", "code", hub.CodeOf(err), "err", err)
		return remains{}, ctx.Err()
	}
	return remains{sha256: ref.SHA256, lines: d.Lines}, nil
}
