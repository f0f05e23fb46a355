package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

const (
	// filesCursor is how far the trail has come in the journal, and the name of
	// the fact that says what its files hold.
	filesCursor = FilesConsumer

	filesPage  = 2048    // entries that are copied at a time at most
	filesBytes = 4 << 20 // bytes after which fewer are

	filesPause = 500 * time.Millisecond // without a hint, before a copy begins
	filesDelay = time.Second            // after which it begins in any case
	filesPoll  = time.Minute            // in case a hint was lost
	filesLast  = 10 * time.Second       // for the copy when the hub ends
)

// FilesConsumer names Files among the consumers of the journal.
const FilesConsumer = "journal.files"

// FilesOptions changes how Files work. The zero value works.
type FilesOptions struct {
	Bus  hub.Bus      // gives hints that the journal has moved; without one Run looks every minute
	Log  *slog.Logger // default silent
	Seal int64        // bytes after which a file is sealed and the next begun; default 64 MiB
}

// Files copy the journal's entries about messages and handoffs, with what was
// sent and handed over, into JSONL files that are only ever added to: the
// trail. Beside them lies the head of the journal.
//
// They follow the journal from a durable cursor. Killed at any instant, they go
// on where the files end: a torn last line is cut and written again, and none
// is written twice. A file that has become shorter or is gone is written again
// as far as the store still holds it. A file that says something else than the
// store is set aside, never overwritten.
type Files struct {
	store hub.Store
	dir   string
	bus   hub.Bus
	log   *slog.Logger

	mu      sync.Mutex // held during a copy; guards what follows
	tracks  map[string]*track
	held    holdings // nil until it was looked at what is there
	cursor  int64
	head    hub.Head // as in the head file
	retired int64
}

// holdings is what the files hold, by family, as the store remembers it.
type holdings map[string]holding

// A holding says that a file has a line for every entry of its family with a
// number greater than After, up to the cursor.
type holding struct {
	After int64 `json:"after"`
	Last  int64 `json:"last"` // number of the last line
}

// NewFiles returns the trail of a store in dir, which is made when it is
// needed. opts may be nil.
func NewFiles(store hub.Store, dir string, opts *FilesOptions) *Files {
	var o FilesOptions
	if opts != nil {
		o = *opts
	}
	if o.Seal <= 0 {
		o.Seal = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Files{store: store, dir: dir, bus: o.Bus, log: o.Log, tracks: map[string]*track{}}
	for _, family := range families {
		f.tracks[family] = &track{family: family, dir: filepath.Join(dir, family), seal: o.Seal}
	}
	return f
}

// Run copies until ctx ends, and once more then. It lets entries gather, so
// that a busy hub is not held up. A failure is logged and tried again.
func (f *Files) Run(ctx context.Context) {
	var hints <-chan struct{}
	if f.bus != nil {
		var cancel func()
		hints, cancel = f.bus.Subscribe(hub.TopicJournal)
		defer cancel()
	}
	poll := time.NewTicker(filesPoll)
	defer poll.Stop()
	for ctx.Err() == nil {
		if err := f.Copy(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("the trail stands still, it will be tried again", "op", "records.Trail", "err", err)
		}
		select {
		case <-hints:
			f.gather(ctx, hints)
		case <-poll.C:
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), filesLast)
	defer cancel()
	if err := f.Copy(last); err != nil {
		f.log.Warn("the trail is not complete, it goes on at the next start", "op", "records.Trail", "err", err)
	}
}

// gather waits for a pause in which no hint comes.
func (f *Files) gather(ctx context.Context, hints <-chan struct{}) {
	for waited := time.Duration(0); waited < filesDelay; waited += filesPause {
		select {
		case <-time.After(filesPause):
		case <-ctx.Done():
			return
		}
		select {
		case <-hints:
		default:
			return
		}
	}
}

// Copy brings the files up to the journal and replaces the head file.
func (f *Files) Copy(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.copy(ctx)
	if err != nil {
		f.held = nil // the next one looks at what is there
		return fmt.Errorf("records: files: %w", diskError("records.Trail", err))
	}
	return nil
}

func (f *Files) copy(ctx context.Context) error {
	if f.held == nil {
		if err := f.recover(ctx); err != nil {
			return err
		}
	}
	for more := true; more; {
		var err error
		if more, err = f.page(ctx); err != nil {
			return err
		}
	}
	if err := f.restoreHead(ctx); err != nil {
		return err
	}
	return f.retire(ctx)
}

// restoreHead writes the head file if it is behind the cursor: it was lost, or
// set aside.
func (f *Files) restoreHead(ctx context.Context) error {
	if f.head.Seq >= f.cursor {
		return nil
	}
	var head hub.Head
	err := f.store.View(ctx, func(r hub.Reader) error {
		e, err := entryAt(r, f.cursor)
		head = hub.Head{Seq: e.Seq, Hash: e.Hash, At: e.At}
		return err
	})
	if err != nil || head.Seq == 0 {
		return err
	}
	return f.putHead(head)
}

// putHead replaces the head file.
func (f *Files) putHead(head hub.Head) error {
	if err := writeHead(filepath.Join(f.dir, headName), head); err != nil {
		return err
	}
	f.head = head
	return nil
}

// page copies the entries after the cursor, some of them, replaces the head and
// moves the cursor, in this order. It returns whether there are more: those that
// come meanwhile wait for the next copy.
func (f *Files) page(ctx context.Context) (more bool, err error) {
	var head hub.Head
	lines, ends := map[string]*bytes.Buffer{}, map[string]int64{}
	err = f.store.View(ctx, func(r hub.Reader) error {
		entries, err := r.Journal(hub.JournalQuery{After: f.cursor, Limit: filesPage})
		if err != nil {
			return err
		}
		more = len(entries) == filesPage
		total := 0
		for _, e := range entries {
			family := familyOf(e.Action)
			if t := f.tracks[family]; t != nil && e.Seq > t.skip {
				if lines[family] == nil {
					lines[family] = new(bytes.Buffer)
				}
				before := lines[family].Len()
				if err := appendLine(lines[family], r, e); err != nil {
					return fmt.Errorf("the line of row %d: %w", e.Seq, err)
				}
				ends[family] = e.Seq
				total += lines[family].Len() - before
			}
			head = hub.Head{Seq: e.Seq, Hash: e.Hash, At: e.At}
			if total >= filesBytes {
				more = true
				break
			}
		}
		return nil
	})
	if err != nil || head.Seq == 0 {
		return false, err
	}
	for family, buf := range lines {
		if err := f.tracks[family].add(buf.Bytes(), ends[family]); err != nil {
			return false, err
		}
		h := f.held[family]
		h.Last = ends[family]
		f.held[family] = h
	}
	if head.Seq > f.head.Seq {
		if err := f.putHead(head); err != nil {
			return false, err
		}
	}
	f.cursor = head.Seq
	return more, f.remember(ctx)
}

// remember stores the cursor and what the files hold.
func (f *Files) remember(ctx context.Context) error {
	raw, err := json.Marshal(f.held) // keys are sorted
	if err != nil {
		return err
	}
	return f.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		if err := tx.PutMeta(filesCursor, string(raw)); err != nil {
			return err
		}
		return tx.PutCursor(filesCursor, f.cursor)
	})
}

// holdingsOf returns the cursor and what the files held then.
func holdingsOf(r hub.Reader) (int64, holdings, error) {
	cursor, err := r.Cursor(filesCursor)
	if err != nil {
		return 0, nil, err
	}
	held := holdings{}
	raw, err := r.Meta(filesCursor)
	switch {
	case hub.CodeOf(err) == hub.CodeNotFound:
		return cursor, held, nil
	case err != nil:
		return 0, nil, err
	}
	if err := json.Unmarshal([]byte(raw), &held); err != nil || held == nil {
		return 0, holdings{}, nil // not of ours: as if there had never been a trail
	}
	return cursor, held, nil
}

// recover finds out where the files end and where copying goes on.
func (f *Files) recover(ctx context.Context) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return f.store.View(ctx, func(r hub.Reader) error {
		cursor, held, err := holdingsOf(r)
		if err != nil {
			return err
		}
		archives, err := r.Archives()
		if err != nil {
			return err
		}
		archived := int64(0)
		if len(archives) > 0 {
			archived = archives[len(archives)-1].Seq
		}
		if err := f.recoverHead(r, archives); err != nil {
			return err
		}
		f.cursor = -1
		for _, family := range families {
			h := held[family]
			from, err := f.recoverTrack(r, f.tracks[family], &h, cursor, archived)
			if err != nil {
				return err
			}
			held[family] = h
			if f.cursor < 0 || from < f.cursor {
				f.cursor = from
			}
		}
		f.held, f.retired = held, 0
		return nil
	})
}

// recoverHead reads the head file. One that contradicts the store is set aside:
// it proves that something is gone.
func (f *Files) recoverHead(r hub.Reader, archives []hub.Archive) error {
	path := filepath.Join(f.dir, headName)
	head, err := readHead(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.head = hub.Head{}
		return nil
	}
	verdict := headVerdict("the head file is broken")
	if err == nil {
		if verdict, err = judge(head, r, archives); err != nil {
			return err
		}
	}
	if verdict == headHolds {
		f.head = head
		return nil
	}
	f.head = hub.Head{}
	aside, err := setAside(path, head.Seq)
	if err != nil {
		return err
	}
	f.log.Error("the head does not fit the journal, it was set aside", "op", "records.Trail", "why", verdict, "seq", head.Seq, "file", aside)
	return nil
}

// recoverTrack finds where a track ends and returns after which entry copying
// goes on for it.
func (f *Files) recoverTrack(r hub.Reader, t *track, h *holding, cursor, archived int64) (int64, error) {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return 0, err
	}
	last, err := f.lastLine(r, t, archived)
	if err != nil {
		return 0, err
	}
	from := max(last, cursor)
	if last < h.Last {
		f.log.Warn("the trail has become shorter, it is written again", "op", "records.Trail", "file", t.path(), "has", last, "had", h.Last)
		from = last
	}
	if from < archived {
		f.log.Warn("a part of the trail lies in archives alone", "op", "records.Trail", "file", t.path(), "after", from, "up_to", archived)
		from, h.After = archived, archived
	}
	t.skip, h.Last = from, last
	return from, nil
}

// lastLine returns the number of a track's last line. It cuts a torn line, and
// sets files aside that do not follow the store.
func (f *Files) lastLine(r hub.Reader, t *track, archived int64) (int64, error) {
	for {
		path, err := t.newest()
		if err != nil || path == "" {
			return 0, err
		}
		l, size, err := tail(path)
		switch {
		case errors.Is(err, errBroken):
		case err != nil:
			return 0, err
		case l.Seq == 0 && path == t.path(): // there may be sealed files
			if err := f.cut(path, 0); err != nil {
				return 0, err
			}
			continue
		case l.Seq > 0 && l.Seq <= archived:
			return l.Seq, f.cut(path, size)
		default:
			e, err := entryAt(r, l.Seq)
			if err != nil {
				return 0, err
			}
			if same(e, l.Entry) {
				return l.Seq, f.cut(path, size)
			}
		}
		aside, err := setAside(path, l.Seq)
		if err != nil {
			return 0, err
		}
		f.log.Error("a file of the trail does not fit the journal, it was set aside", "op", "records.Trail", "seq", l.Seq, "file", aside)
	}
}

// cut removes what follows the last complete line.
func (f *Files) cut(path string, size int64) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() == size {
		return err
	}
	f.log.Warn("a torn line is written again", "op", "records.Trail", "file", path, "bytes", info.Size()-size)
	return os.Truncate(path, size)
}

// retire removes sealed files of messages that archives hold as a whole. Those
// of handoffs are kept for ever.
func (f *Files) retire(ctx context.Context) error {
	const family = "messages"
	archived := int64(0)
	err := f.store.View(ctx, func(r hub.Reader) error {
		archives, err := r.Archives()
		if len(archives) > 0 {
			archived = archives[len(archives)-1].Seq
		}
		return err
	})
	if err != nil || archived <= f.retired {
		return err
	}
	all, err := f.tracks[family].sealed()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.last > archived {
			break
		}
		// The store forgets the file first: what it does not know of is not
		// missed.
		if h := f.held[family]; s.last > h.After {
			h.After = s.last
			f.held[family] = h
			if err := f.remember(ctx); err != nil {
				return err
			}
		}
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	f.retired = archived
	return nil
}
