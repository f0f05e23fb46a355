package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/attest"
)

const (
	growPage = 4096             // rows that are added to the tree at a time
	growGap  = time.Second      // between two checkpoints
	growFor  = 30 * time.Second // the lease of the one process that adds them
)

// A broken is the finding that tree and journal contradict each other. The tree grows no further:
// a hub signs no checkpoint that an older one contradicts.
type broken struct {
	text string
	ends bool // only a new log can go on
}

func (b *broken) Error() string { return b.text }

func brokenf(format string, args ...any) error { return &broken{text: fmt.Sprintf(format, args...)} }

// hintOf returns the command that helps against the error with which the tree stopped.
func hintOf(err error) string {
	if b, ok := errors.AsType[*broken](err); ok && b.ends {
		return "parley hub key --new"
	}
	return "parley hub verify --rebuild-tree"
}

// Run adds the rows of the journal to the tree until ctx ends. If tree and journal contradict each
// other, it stops and tells the operator.
func (l *Log) Run(ctx context.Context) {
	compared := false // with the checkpoints of the witnesses
	hub.Follow(ctx, l.store, l.o.Bus, hub.Consumer{
		Name: Cursor, Lease: growFor, Gap: growGap,
		Step: func(ctx context.Context, store hub.Store) (time.Duration, error) {
			if l.Stopped() != nil && !l.renewed(ctx) {
				return time.Minute, nil
			}
			if !compared {
				if err := l.compareAll(ctx); err != nil && !errors.Is(err, errNoLog) {
					return hub.FollowRest, err
				}
				compared = true
			}
			return hub.FollowRest, l.grow(ctx, store)
		},
		Failed: func(err error) { l.failed(ctx, err) },
	})
}

// Stopped returns why the tree does not grow any more; nil while it does.
func (l *Log) Stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

// failed logs an error that is tried again, and stops after one that would be the same again.
func (l *Log) failed(ctx context.Context, err error) {
	code := hub.CodeOf(err)
	passes := code == hub.CodeDegraded || code == hub.CodeOverloaded || code == hub.CodeConflict
	if passes && !isBroken(err) {
		l.o.Log.Warn("cannot add to the tree over the journal, will retry", "op", "proof.Run", "err", err)
		return
	}

	who, _ := hub.Read(ctx, l.store, func(r hub.Reader) (identity, error) { return hub.ReadMeta[identity](r, logKey) })
	l.mu.Lock()
	l.stopped, l.stoppedIn = err, who.ID
	l.mu.Unlock()
	l.o.Log.Error("the tree over the journal has stopped; messages and work go on", "op", "proof.Run", "err", err)
	l.tell(ctx, fmt.Sprintf("the hub makes no new proofs: %v; messages and work go on; run: %s", err, hintOf(err)))
}

// renewed reports whether another hub on the store began a new log since the tree stopped.
func (l *Log) renewed(ctx context.Context) bool {
	who, err := hub.Read(ctx, l.store, func(r hub.Reader) (identity, error) { return hub.ReadMeta[identity](r, logKey) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || who.ID == l.stoppedIn {
		return false
	}
	l.stopped = nil
	return true
}

// tell writes a message to the operator.
func (l *Log) tell(ctx context.Context, text string) {
	if l.o.TellOperator == nil {
		return
	}
	var message hub.Message
	err := l.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		message, err = l.o.TellOperator(tx, map[string]any{"code": hub.CodeDegraded, "message": text})
		return err
	})
	switch {
	case err != nil:
		l.o.Log.Warn("cannot tell the operator about the tree", "op", "proof.Run", "err", err)
	case l.o.Announce != nil:
		l.o.Announce(message)
	}
}

// Grow adds all rows of the journal to the tree and signs a checkpoint.
func (l *Log) Grow(ctx context.Context) error { return l.grow(ctx, l.store) }

func (l *Log) grow(ctx context.Context, store hub.Store) error {
	if err := l.begin(ctx, store); err != nil {
		return err
	}
	if err := l.growFromArchives(ctx, store); err != nil {
		return fmt.Errorf("proof: the tree over the archives: %w", err)
	}
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = l.page(ctx, store); err != nil {
			return fmt.Errorf("proof: the tree over the journal: %w", err)
		}
	}
	return nil
}

// growFromArchives adds the rows that archives alone have, of a journal that is older than its tree. The
// oldest row of the store must follow from the last of them.
func (l *Log) growFromArchives(ctx context.Context, store hub.Store) error {
	var begin int64
	var growth *attest.Growth
	oldest, err := hub.Read(ctx, store, func(r hub.Reader) (hub.Entry, error) {
		var err error
		if begin, err = r.Cursor(Cursor); err != nil {
			return hub.Entry{}, err
		}
		rows, err := r.Journal(hub.JournalQuery{After: begin, Limit: 1})
		if err != nil || len(rows) == 0 || rows[0].Seq == begin+1 {
			return hub.Entry{}, err
		}
		growth = attest.Grow(begin, nil)
		return rows[0], growth.Load(tilesOf(r))
	})
	if err != nil || growth == nil {
		return err
	}
	if l.o.Archived == nil {
		return brokenf("rows %d to %d are in archives alone", begin+1, oldest.Seq-1)
	}

	last := ""
	err = l.o.Archived(ctx, begin, func(e hub.Entry) error {
		if e.Seq != growth.Size+1 || e.Seq >= oldest.Seq {
			return nil
		}
		leaf, err := attest.Leaf(e.Hash)
		if err != nil {
			return brokenf("row %d of an archive: %v", e.Seq, err)
		}
		last = e.Hash
		return growth.Add(leaf)
	})
	if err != nil {
		return err
	}
	if growth.Size != oldest.Seq-1 || oldest.Chain(last) != oldest.Hash {
		return brokenf("row %d of the journal does not follow from the archives", oldest.Seq)
	}
	return l.replace(ctx, growth, begin)
}

// tilesOf reads the tiles of a snapshot.
func tilesOf(r hub.Reader) attest.Tiles {
	return func(id attest.TileID) ([]byte, error) {
		t, err := r.Tree().Tile(id.Level, id.N)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return nil, brokenf("the tree has no tile %d/%d", id.Level, id.N)
		}
		return t.Hashes, err
	}
}

// page adds some rows to the tree, with a checkpoint after the last one. It reports whether there are
// more. The rows are read and the hashes computed before the transaction that stores them.
func (l *Log) page(ctx context.Context, store hub.Store) (more bool, err error) {
	signer, err := l.sign(ctx)
	if err != nil {
		return false, err
	}
	var growth *attest.Growth
	var begin int64
	var last []hub.Checkpoint
	var next hub.Checkpoint
	err = store.View(hub.InBackground(ctx), func(r hub.Reader) error {
		if begin, err = r.Cursor(Cursor); err != nil {
			return err
		}
		entries, err := r.Journal(hub.JournalQuery{After: begin, Limit: growPage})
		if err != nil {
			return err
		}
		more = len(entries) == growPage
		if last, err = r.Tree().Checkpoints(0, true, 2); err != nil {
			return err
		}
		head, err := hub.HeadOf(r)
		if err != nil {
			return err
		}
		if head.Seq < begin {
			return brokenf("the journal ends at row %d, and the tree has row %d", head.Seq, begin)
		}

		tiles := tilesOf(r)
		growth = attest.Grow(begin, tiles)
		for _, e := range entries {
			if e.Seq != growth.Size+1 {
				return brokenf("row %d of the journal follows row %d", e.Seq, growth.Size)
			}
			leaf, err := attest.Leaf(e.Hash)
			if err != nil {
				return brokenf("row %d of the journal: %v", e.Seq, err)
			}
			if err := growth.Add(leaf); err != nil {
				return err
			}
		}
		if len(last) > 0 && last[0].Size >= growth.Size {
			return nil
		}
		if !more && growth.Size > 0 {
			next, err = l.checkpoint(signer, growth, last)
		}
		return err
	})
	isUnchanged := growth == nil || (growth.Size == begin && next.Size == 0)
	if err != nil || isUnchanged {
		return false, err
	}

	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		cursor, err := tx.Cursor(Cursor)
		if err != nil {
			return err
		}
		if cursor != begin {
			return hub.Errorf(hub.CodeConflict, "proof.Run", "the tree grew meanwhile from %d to %d", begin, cursor)
		}
		for _, id := range growth.IDs() {
			if err := tx.WriteTree().PutTile(hub.Tile{Level: id.Level, N: id.N, Hashes: growth.Changed[id]}); err != nil {
				return err
			}
		}
		if err := tx.PutCursor(Cursor, growth.Size); err != nil || next.Size == 0 {
			return err
		}

		// The newest checkpoint of each minute stays, and so do the last one of each log and those with
		// cosignatures.
		isSameMinute := len(last) > 0 && minute(last[0].At) == minute(next.At)
		if isSameMinute && isOf(last[0], signer.Key) && !isCosigned(last[0], signer.Key) {
			if err := tx.WriteTree().DropCheckpoint(last[0].Size); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				return err
			}
		}
		return tx.WriteTree().PutCheckpoint(next)
	})
	return more, err
}

func minute(t hub.Time) time.Time { return t.UTC().Truncate(time.Minute) }

// checkpoint signs the tree after a growth, if the newest checkpoint is of its beginning.
func (l *Log) checkpoint(signer *attest.Signer, g *attest.Growth, last []hub.Checkpoint) (hub.Checkpoint, error) {
	root, err := g.Root()
	if err != nil {
		return hub.Checkpoint{}, err
	}
	if len(last) > 0 && isOf(last[0], signer.Key) {
		older, err := readNote(last[0].Note)
		if err != nil {
			return hub.Checkpoint{}, brokenf("the stored checkpoint of row %d cannot be read: %v", last[0].Size, err)
		}
		got, err := g.RootAt(older.Size)
		if err != nil {
			return hub.Checkpoint{}, err
		}
		if got != older.Root {
			return hub.Checkpoint{}, brokenf("its hashes up to row %d are not those of the checkpoint that the hub signed", older.Size)
		}
	}
	note, err := signer.Checkpoint(g.Size, root)
	return hub.Checkpoint{Size: g.Size, At: hub.At(l.o.Clock()), Note: note}, err
}

// isOf reports whether a checkpoint is of the log with a key, or cannot be read.
func isOf(c hub.Checkpoint, key attest.Key) bool {
	got, err := readNote(c.Note)
	return err != nil || got.Origin == key.Name
}

// isCosigned reports whether a checkpoint has signatures besides that of its log.
func isCosigned(c hub.Checkpoint, key attest.Key) bool { return c.Note != key.Own(c.Note) }

// readNote reads the text of a stored checkpoint, whose key may be an older one.
func readNote(note string) (attest.Checkpoint, error) {
	text, _, ok := strings.Cut(note, "\n\n")
	if !ok {
		return attest.Checkpoint{}, fmt.Errorf("it is not a note")
	}
	return attest.ReadCheckpoint(text + "\n")
}

// Newest returns the newest checkpoint.
func (l *Log) Newest(ctx context.Context) (hub.Checkpoint, error) {
	all, err := hub.Read(ctx, l.store, func(r hub.Reader) ([]hub.Checkpoint, error) { return r.Tree().Checkpoints(0, true, 1) })
	if err == nil && len(all) == 0 {
		err = errNoLog
	}
	if err != nil {
		return hub.Checkpoint{}, err
	}
	return all[0], nil
}

// Since returns the newest checkpoint with the proof that its tree begins with the first rows of the
// journal, old of them.
func (l *Log) Since(ctx context.Context, old int64) (g attest.Growing, err error) {
	err = l.store.View(ctx, func(r hub.Reader) error {
		newest, err := r.Tree().Checkpoints(0, true, 1)
		if err == nil && len(newest) == 0 {
			err = errNoLog
		}
		if err != nil {
			return err
		}
		if old < 0 || old > newest[0].Size {
			return hub.Errorf(hub.CodeNotFound, "proof.Since", "the newest checkpoint ends at row %d", newest[0].Size)
		}
		g = attest.Growing{Old: old, Note: newest[0].Note}
		if old > 0 {
			g.Proof, err = attest.ProveGrowth(newest[0].Size, old, tilesOf(r))
		}
		return err
	})
	return g, err
}

// Tile returns the hashes of a tile by its path below /tile. The newest checkpoint has all of them.
func (l *Log) Tile(ctx context.Context, path string) ([]byte, error) {
	id, width, err := attest.ParseTilePath(path)
	if err != nil {
		return nil, hub.Errorf(hub.CodeNotFound, "proof.Tile", "%w", err)
	}
	t, err := hub.Read(ctx, l.store, func(r hub.Reader) (hub.Tile, error) { return r.Tree().Tile(id.Level, id.N) })
	if err != nil {
		return nil, err
	}
	if len(t.Hashes) < width*attest.HashSize {
		return nil, hub.Errorf(hub.CodeNotFound, "proof.Tile", "the tile has %d hashes", len(t.Hashes)/attest.HashSize)
	}
	return t.Hashes[:width*attest.HashSize], nil
}
