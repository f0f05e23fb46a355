package records

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

const (
	// trailCursor names the trail among the consumers of the journal.
	trailCursor = "records.trail"

	trailPage  = 2048    // entries that are copied at a time at most
	trailBytes = 4 << 20 // bytes after which a page ends

	trailGap  = time.Second      // between two copies, so that entries gather
	trailPoll = time.Minute      // in case a hint was lost
	trailLast = 10 * time.Second // for the copy when the hub stops

	sealAfter = 64 << 20 // bytes
)

// A trail copies the journal into segments outside the store: every entry, with
// the envelope that it sent or the handoff that it proposed. Beside them lies
// the head of the journal.
//
// Segments are only ever added to. The newest one has no seal until it is long
// enough. The trail holds every entry up to the cursor that no archive holds;
// segments whose entries archives hold are removed.
//
// The order of writes is: lines, head, cursor, each on disk before the next.
// So a trail that was killed at any instant ends at its cursor or after it. The
// last line says where to go on: a torn one is cut and written again. A segment
// that contradicts the store is evidence: it is renamed, never overwritten.
type trail struct {
	store     hub.Store
	cursor    string // its name among the consumers of the journal
	dir       string
	sealAfter int64
	log       *slog.Logger

	mu     sync.Mutex // held during a copy; guards the fields below
	known  bool       // the files were read; a failure clears it
	last   hub.Head   // the last entry in the trail; At may not be set
	open   string     // the segment without a seal, or ""
	size   int64      // its bytes
	sum    hash.Hash  // of its bytes
	seal   seal       // of its lines, without their sum
	head   hub.Head   // as in the head file
	pruned int64      // number up to which segments were removed
}

// run copies until ctx ends, and once more then. It lets entries gather, so that
// a busy hub is not held up. A failure is logged and tried again. Each hub has a trail of
// its own, so that it needs no lease.
func (t *trail) run(ctx context.Context, bus hub.Bus) {
	hub.Follow(ctx, t.store, bus, hub.Consumer{
		Name: "records.Trail", Gap: trailGap,
		Step: func(ctx context.Context, _ hub.Store) (time.Duration, error) { return trailPoll, t.copy(ctx) },
		Failed: func(err error) {
			t.log.Warn("cannot write the trail, will retry", "op", "records.Trail", "err", err)
		},
	})

	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), trailLast)
	defer cancel()
	if err := t.copy(last); err != nil {
		t.log.Warn("the trail is not complete, the next start completes it", "op", "records.Trail", "err", err)
	}
}

// copy brings the segments and the head file up to the journal.
func (t *trail) copy(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := hub.Contain("records.Trail", func() error { return t.copyAll(ctx) })
	if err != nil {
		t.known = false
		return fmt.Errorf("records: trail: %w", diskError("records.Trail", err))
	}
	return nil
}

func (t *trail) copyAll(ctx context.Context) error {
	if !t.known {
		if err := t.recover(ctx); err != nil {
			return err
		}
		t.known = true
	}
	for more := true; more; {
		var err error
		if more, err = t.page(ctx); err != nil {
			return err
		}
	}
	return t.retire(ctx)
}

// page copies some of the entries after the last one, and reports whether there
// are more.
func (t *trail) page(ctx context.Context) (more bool, err error) {
	var lines bytes.Buffer
	last := hub.Head{}
	if t.open == "" {
		t.sum, t.seal = sha256.New(), seal{}
	}

	err = t.store.View(ctx, func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{After: t.last.Seq, Limit: trailPage})
		if err != nil {
			return err
		}
		more = len(entries) == trailPage
		for _, e := range entries {
			l, err := entryLine(r, e, true)
			if err == nil {
				err = l.encode(&lines)
			}
			if err != nil {
				return fmt.Errorf("journal row %d: %w", e.Seq, err)
			}
			t.seal.add(l)
			last = headAt(e)
			if lines.Len() >= trailBytes {
				more = true
				break
			}
		}

		if last.Seq == 0 && t.head.Seq < t.last.Seq { // the head file was lost or set aside
			e, err := entryAt(r, t.last.Seq)
			last = headAt(e)
			return err
		}
		return nil
	})
	if err != nil || last.Seq == 0 {
		return false, err
	}

	// The segment is written first, then the head, then the cursor. Each of them names only
	// entries that are on disk.
	if lines.Len() > 0 {
		if err := t.add(lines.Bytes()); err != nil {
			return false, err
		}
		t.last = last
	}
	if last.Seq > t.head.Seq {
		if err := writeHead(filepath.Join(t.dir, headName), last); err != nil {
			return false, err
		}
		t.head = last
	}

	err = t.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutCursor(t.cursor, last.Seq) })
	if err == nil && t.open != "" && t.size >= t.sealAfter {
		err = t.close()
	}
	return more, err
}

// headAt returns an entry as a head.
func headAt(e hub.Entry) hub.Head { return hub.Head{Seq: e.Seq, Hash: e.Hash, At: e.At} }

// add appends whole lines to the open segment, which it begins if there is none,
// and returns when they are on disk.
func (t *trail) add(lines []byte) error {
	flags := os.O_WRONLY | os.O_APPEND
	begins := t.open == ""
	if begins {
		var header bytes.Buffer
		if err := t.header().encode(&header); err != nil {
			return err
		}
		lines = append(header.Bytes(), lines...)
		t.open, t.size = filepath.Join(t.dir, segmentName(t.last.Seq+1)), 0
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(t.open, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(lines)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	t.size += int64(len(lines))
	t.sum.Write(lines)
	if begins {
		return durable.SyncDir(t.dir)
	}
	return nil
}

// header returns the first line of a segment that begins after the last entry.
func (t *trail) header() line {
	return line{Format: segmentFormat, Version: segmentVersion, After: t.last.Seq, Hash: t.last.Hash}
}

// close seals the open segment. The seal speaks of the bytes that were given to
// the disk, not of those that it returns: a difference is found by a reader.
func (t *trail) close() error {
	t.seal.SHA256 = hex.EncodeToString(t.sum.Sum(nil))
	var buf bytes.Buffer
	err := line{Seal: &t.seal}.encode(&buf)
	if err == nil {
		err = t.add(buf.Bytes())
	}
	t.open = ""
	return err
}

// segmentName returns the name of the segment that begins with an entry.
func segmentName(first int64) string { return fmt.Sprintf("segment-%012d.jsonl", first) }

// segmentsIn returns the paths of the segments of a trail in order.
func segmentsIn(dir string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), "segment-*.jsonl")
	slices.Sort(names)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, err
}

// recover finds out where the trail ends.
func (t *trail) recover(ctx context.Context) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}

	return t.store.View(ctx, func(r hub.Reader) error {
		archives, archived, err := archivesIn(r)
		if err != nil {
			return err
		}

		if err := t.convertOldTrail(r, archived.Seq); err != nil {
			return err
		}
		if err := t.recoverHead(r, archives); err != nil {
			return err
		}
		if err := t.recoverSegments(r, archived.Seq); err != nil {
			return err
		}

		cursor, err := r.Cursor(t.cursor)
		if err != nil {
			return err
		}
		if t.last.Seq < cursor {
			t.log.Warn("the trail has become shorter, it is written again", "op", "records.Trail", "has", t.last.Seq, "had", cursor)
		}

		// A part that only archives hold is not copied. A new segment begins after it.
		if t.last.Seq < archived.Seq {
			t.log.Warn("a part of the trail is only in archives", "op", "records.Trail", "after", t.last.Seq, "up_to", archived.Seq)
			if t.open != "" {
				if err := t.close(); err != nil {
					return err
				}
			}
			t.last = hub.Head{Seq: archived.Seq, Hash: archived.Hash}
		}
		return nil
	})
}

// recoverHead reads the head file. One that contradicts the store is set aside:
// it proves that entries are missing.
func (t *trail) recoverHead(r hub.Reader, archives []hub.Archive) error {
	path := filepath.Join(t.dir, headName)
	t.head = hub.Head{}
	head, err := readHead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fault := "it cannot be read"
	if err == nil {
		if fault, err = checkHead(head, r, archives); err != nil {
			return err
		}
	}
	if fault != "" {
		return t.setAside(path, fmt.Sprint(path, conflict, head.Seq), fault)
	}
	t.head = head
	return nil
}

// recoverSegments finds the last entry of the trail, from the newest segment
// back. It cuts a torn line, and sets segments aside that contradict the store.
func (t *trail) recoverSegments(r hub.Reader, archived int64) error {
	t.last = hub.Head{}
	t.open = ""
	t.size = 0
	all, err := segmentsIn(t.dir)
	if err != nil {
		return err
	}

	for _, path := range slices.Backward(all) {
		var last hub.Entry
		s, err := readSegment(path, func(l line) error {
			if l.Entry != nil {
				last = *l.Entry
			}
			return nil
		})
		switch {
		case errors.Is(err, errUnsealed) && s == nil: // not even a header
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		case errors.As(err, new(*fs.PathError)):
			return err
		}

		// The last entry of a segment must be the one in the journal, unless it was archived.
		fits := err == nil || errors.Is(err, errUnsealed)
		if fits && last.Seq > archived {
			e, err := entryAt(r, last.Seq)
			if err != nil {
				return err
			}
			fits = sameEntry(e, last)
		}
		if !fits {
			if err := t.setAside(path, fmt.Sprint(path, conflict, last.Seq), "it does not match the journal"); err != nil {
				return err
			}
			continue
		}

		// The newest segment that fits is the end of the trail. An open segment goes on after its
		// last whole line.
		t.last = hub.Head{Seq: s.seal.Last, Hash: s.seal.Hash}
		if s.sealed {
			return nil
		}
		t.open = path
		t.size = s.size
		t.sum = s.sum
		t.seal = s.seal
		if s.size == s.length {
			return nil
		}
		t.log.Warn("a torn line is written again", "op", "records.Trail", "file", path, "bytes", s.length-s.size)
		return os.Truncate(path, s.size)
	}
	return nil
}

// retire removes segments whose entries archives hold. The newest one stays.
func (t *trail) retire(ctx context.Context) error {
	var newest hub.Archive
	err := t.store.View(ctx, func(r hub.Reader) (err error) {
		_, newest, err = archivesIn(r)
		return err
	})
	archived := newest.Seq
	if err != nil || archived <= t.pruned {
		return err
	}
	all, err := segmentsIn(t.dir)
	if err != nil {
		return err
	}
	for i := range len(all) - 1 {
		if filepath.Base(all[i+1]) > segmentName(archived+1) {
			break
		}
		if err := os.Remove(all[i]); err != nil {
			return err
		}
	}
	t.pruned = archived
	return nil
}

// conflict is part of the name of a file that was set aside.
const conflict = ".conflict-"

// setAside renames a file that contradicts the store, so that it is neither
// written to nor lost.
func (t *trail) setAside(path, target, why string) error {
	name := target
	for n := 1; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s.%d", target, n)
	}
	t.log.Error("a file of the trail was set aside", "op", "records.Trail", "why", why, "file", name)
	return durable.Rename(path, name)
}
