package reservation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// facts are what the files of a working tree show, read before a transaction, and which agents
// may have changed them.
type facts struct {
	files   map[string]File    // by name
	held    []hub.Reservation  // of the tree, when the files were read
	left    map[string]remains // differences that orphans leave, by name
	gone    bool               // the working tree was moved or deleted
	running []command          // in the tree
	report  report

	covered *coverage                           // the patterns that cover files of a question
	sharers map[hub.ReservationID][]hub.AgentID // agents that share the file of a reservation
	named   map[hub.ReservationID]bool          // reservations whose file the reported command names
}

// fileOf returns the absolute path of a reserved file, with slashes.
func (k facts) fileOf(r hub.Reservation) string {
	return filepath.ToSlash(filepath.Join(r.Tree.Path, r.Path))
}

// isOutdated reports whether another question has told something about a file since it was read.
func (k facts) isOutdated(r hub.Reservation) bool {
	if r.Pattern {
		return false // its file is not looked at
	}
	i := slices.IndexFunc(k.held, func(o hub.Reservation) bool { return o.ID == r.ID })
	if i < 0 {
		return true
	}
	o := k.held[i]
	return o.State != r.State || o.Digest != r.Digest || o.Found != r.Found || o.Head != r.Head || o.Asked != r.Asked
}

// judge returns a reservation as its file shows it, and its end if that has come. A working tree
// that is gone has no files: its reservations end with the sessions of their holders, and nothing
// is left in it.
func (k facts) judge(r hub.Reservation, f File, life Life, idle time.Duration, now hub.Time) (hub.Reservation, ending) {
	if k.gone {
		end := judge(r, File{Digest: r.Digest}, life, idle, now)
		if end.next == hub.ReservationOrphan {
			end = over(whySession)
		}
		return r, end
	}
	seen, end := look(r, f, k.originOf(r), now)
	if end.next == r.State {
		broken := end
		end = judge(seen, f, life, idle, now)
		if end.next == r.State || r.Changed { // else nothing of the holder was there
			end.by, end.during = broken.by, broken.during
		}
	}
	return seen, end
}

// remains are changes that a holder left and that are not committed, as an artifact.
type remains struct {
	sha256 string
	lines  int
}

// A survey says what a question needs to know of the files of a working tree.
type survey struct {
	agent     hub.AgentID                // the caller
	names     []string                   // files that are read
	compared  []string                   // more files that are compared with patterns
	by        report                     // what the caller reports
	concerned func(hub.Reservation) bool // whether the file of a reservation is read, too
}

// survey reads files of a working tree, and compares them with the reserved patterns. The
// difference of a file whose reservation becomes an orphan is kept as an artifact, so that it is
// not lost when the next agent changes the file.
func (s *Service) survey(ctx context.Context, tree hub.WorkingTree, q survey) (facts, error) {
	known := facts{left: map[string]remains{}, report: q.by}
	lives := map[hub.ReservationID]Life{}
	compared := slices.Concat(q.names, q.compared)
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if known.held, err = reservationsOf(r, tree); err != nil {
			return err
		}
		if known.running, err = s.running(r, tree); err != nil {
			return err
		}
		late, err := namesOf(r, tree, q.agent)
		if err != nil {
			return err
		}
		compared = append(compared, late...)
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

	if err := s.compare(ctx, &known, compared); err != nil {
		return known, err
	}

	names := slices.Clone(q.names)
	for _, r := range known.held {
		if !r.Pattern && q.concerned(r) {
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

// namesOf returns the files of a working tree for which agents wait, and those that the notes for an
// agent are about.
func namesOf(r hub.Reader, tree hub.WorkingTree, agent hub.AgentID) (names []string, err error) {
	waits, err := r.Reservations().Waits(keyOf(tree))
	if err != nil {
		return nil, err
	}
	notes, err := r.Reservations().Notes(agent)
	if err != nil {
		return nil, err
	}
	for _, w := range waits {
		names = append(names, w.Path)
	}
	for _, n := range notes {
		names = append(names, n.Path)
	}
	return names, nil
}

// compare compares files with the patterns of a working tree, and its reservations with each other
// and with the command that was reported.
func (s *Service) compare(ctx context.Context, known *facts, names []string) (err error) {
	for _, r := range known.held {
		if r.Shared {
			names = append(names, r.Path)
		}
	}
	if known.covered, err = s.prepare(ctx, known.held, names); err != nil {
		return err
	}

	known.named = map[hub.ReservationID]bool{}
	isNamed := known.report.names()
	var shared []hub.Reservation
	for _, r := range known.held {
		if err := ctx.Err(); err != nil {
			return err
		}
		known.named[r.ID] = !r.Pattern && isNamed(known.fileOf(r))
		if r.Shared {
			shared = append(shared, r)
		}
	}

	known.sharers = map[hub.ReservationID][]hub.AgentID{}
	for _, r := range shared {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := range shared {
			o := &shared[i]
			isSharer := o.State == hub.ReservationHeld && known.covered.covers(*o, r.Path)
			if isSharer && !slices.Contains(known.sharers[r.ID], o.Holder) {
				known.sharers[r.ID] = append(known.sharers[r.ID], o.Holder)
			}
		}
	}
	return nil
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
