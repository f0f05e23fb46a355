package proof

import (
	"bytes"
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/attest"
)

// A Finding is a difference between the journal, the tree and the checkpoints that the hub signed.
type Finding struct {
	Where string
	What  string
}

// maxFindings is the number of findings after which a check ends.
const maxFindings = 100

// A Checked is the result of Check.
type Checked struct {
	Size        int64 // leaves
	Checkpoints int
	Findings    []Finding
	Unchecked   []string
}

func (c *Checked) find(where, format string, args ...any) {
	if len(c.Findings) < maxFindings {
		c.Findings = append(c.Findings, Finding{where, fmt.Sprintf(format, args...)})
	}
}

// Check compares the tree with the journal, and every kept checkpoint with the tree. It holds no
// snapshot for long.
func Check(ctx context.Context, store hub.Store) (Checked, error) {
	var out Checked
	who, err := hub.Read(ctx, store, func(r hub.Reader) (identity, error) {
		size, err := r.Cursor(Cursor)
		out.Size = size
		if err != nil {
			return identity{}, err
		}
		return hub.ReadMeta[identity](r, logKey)
	})
	if err != nil {
		return out, fmt.Errorf("proof: check: %w", err)
	}
	if who.ID == "" {
		out.Unchecked = append(out.Unchecked, "the tree over the journal: the hub begins it when it runs")
		return out, nil
	}

	// The tree is computed again from its leaves, and the leaves are compared with the rows.
	growth := attest.Grow(0, nil)
	if err := out.leaves(ctx, store, growth); err != nil {
		return out, fmt.Errorf("proof: check: %w", err)
	}
	if growth.Size < out.Size {
		return out, nil // a tile is missing or too short, which is a finding
	}
	if err := out.tiles(ctx, store, growth); err != nil {
		return out, fmt.Errorf("proof: check: %w", err)
	}
	if err := out.checkpoints(ctx, store, growth, who, ""); err != nil {
		return out, fmt.Errorf("proof: check: %w", err)
	}
	return out, nil
}

// leaves adds the leaves of the stored tree to growth and compares them with the rows of the journal.
func (c *Checked) leaves(ctx context.Context, store hub.Store, growth *attest.Growth) error {
	archived := int64(0)
	for n := int64(0); n*attest.TileWidth < c.Size; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin := n * attest.TileWidth
		want := int(min(attest.TileWidth, c.Size-begin))
		err := store.View(ctx, func(r hub.Reader) error {
			t, err := r.Tree().Tile(0, n)
			if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				return err
			}
			if len(t.Hashes) < want*attest.HashSize {
				c.find("the tree over the journal", "the hashes of rows %d to %d are not all there", begin+1, begin+int64(want))
				return nil
			}
			rows, err := r.Journal(hub.JournalQuery{After: begin, Limit: want})
			if err != nil {
				return err
			}
			next := 0
			for i := range want {
				leaf := attest.Hash(t.Hashes[i*attest.HashSize : (i+1)*attest.HashSize])
				if err := growth.Add(leaf); err != nil {
					return err
				}
				seq := begin + int64(i) + 1
				if next == len(rows) || rows[next].Seq > seq {
					archived++
					continue
				}
				if got, err := attest.Leaf(rows[next].Hash); err != nil || got != leaf {
					c.find(row(seq), "the tree has another hash for it: the row was changed after the hub added it to the tree")
				}
				next++
			}
			return nil
		})
		if err != nil || growth.Size < begin+int64(want) {
			return err
		}
	}
	if archived > 0 {
		c.Unchecked = append(c.Unchecked, fmt.Sprintf("the tree's hashes of %d archived rows: they were compared with the checkpoints alone", archived))
	}
	return nil
}

func row(seq int64) string { return fmt.Sprintf("journal row %d", seq) }

// tiles compares the stored tiles above the leaves with those that follow from the leaves.
func (c *Checked) tiles(ctx context.Context, store hub.Store, growth *attest.Growth) error {
	return store.View(ctx, func(r hub.Reader) error {
		for _, id := range growth.IDs() {
			if id.Level == 0 {
				continue
			}
			t, err := r.Tree().Tile(id.Level, id.N)
			if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				return err
			}
			if !bytes.HasPrefix(t.Hashes, growth.Changed[id]) {
				c.find("the tree over the journal", "tile %d/%d does not follow from the hashes below it", id.Level, id.N)
			}
		}
		return nil
	})
}

// checkpoints checks the signature and the root of every kept checkpoint, or of those of one log. All of
// them are roots of one tree, so that each continues those before it.
func (c *Checked) checkpoints(ctx context.Context, store hub.Store, growth *attest.Growth, who identity, origin string) error {
	var keys []attest.Key
	for _, s := range who.Keys {
		k, err := attest.ParseKey(s.Key)
		if err != nil {
			c.find("the tree over the journal", "its key cannot be read: %v", err)
			continue
		}
		keys = append(keys, k)
	}
	for after, more := int64(0), true; more; {
		size := int64(0) // of the tree by now
		page, err := hub.Read(ctx, store, func(r hub.Reader) (page []hub.Checkpoint, err error) {
			if size, err = r.Cursor(Cursor); err != nil {
				return nil, err
			}
			return r.Tree().Checkpoints(after, false, growPage)
		})
		if err != nil {
			return err
		}
		for _, stored := range page {
			after = stored.Size
			if stored.Size > growth.Size && stored.Size <= size {
				return nil // the tree has grown since this check began, and so have the checkpoints that follow
			}
			if other, err := readNote(stored.Note); err == nil && origin != "" && other.Origin != origin {
				continue
			}
			where := fmt.Sprintf("checkpoint of row %d", stored.Size)
			got, err := openAny(keys, stored.Note)
			if err != nil {
				c.find(where, "%v", err)
				continue
			}
			c.Checkpoints++
			if got.Size != stored.Size || got.Size > growth.Size {
				c.find(where, "it is of %d rows, and the tree has %d", got.Size, growth.Size)
				continue
			}
			root, err := growth.RootAt(got.Size)
			if err != nil {
				return err
			}
			if root != got.Root {
				c.find(where, "the tree up to it is not the one that the hub signed")
			}
		}
		more = len(page) == growPage
	}
	return nil
}

// openAny opens a note with one of the keys of the log.
func openAny(keys []attest.Key, note string) (c attest.Checkpoint, err error) {
	err = fmt.Errorf("no key of the hub is known")
	for _, k := range keys {
		if c, err = k.OpenCheckpoint(note); err == nil {
			return c, nil
		}
	}
	return c, err
}

// Rebuild makes the tree again from the journal. Rows in archives keep their leaves. It refuses a tree
// that a checkpoint contradicts which the hub signed. It returns the number of leaves.
func (l *Log) Rebuild(ctx context.Context) (int64, error) {
	const op = "proof.Rebuild"
	growth := attest.Grow(0, nil)
	begin, err := hub.Read(ctx, l.store, func(r hub.Reader) (int64, error) { return r.Cursor(Cursor) })
	if err != nil {
		return 0, fmt.Errorf("proof: rebuild: %w", err)
	}
	for more := true; more; {
		err := l.store.View(ctx, func(r hub.Reader) error {
			rows, err := r.Journal(hub.JournalQuery{After: growth.Size, Limit: growPage})
			if err != nil {
				return err
			}
			more = len(rows) == growPage
			for _, e := range rows {
				for growth.Size+1 < e.Seq {
					if err := addArchived(r, growth); err != nil {
						return err
					}
				}
				leaf, err := attest.Leaf(e.Hash)
				if err == nil {
					err = growth.Add(leaf)
				}
				if err != nil {
					return hub.Errorf(hub.CodeDegraded, op, "row %d: %w", e.Seq, err)
				}
			}
			return ctx.Err()
		})
		if err != nil {
			return 0, fmt.Errorf("proof: rebuild: %w", err)
		}
	}

	who, err := hub.Read(ctx, l.store, func(r hub.Reader) (identity, error) { return hub.ReadMeta[identity](r, logKey) })
	if err != nil {
		return 0, err
	}
	var found Checked
	if err := found.checkpoints(ctx, l.store, growth, who, who.name()); err != nil {
		return 0, err
	}
	if len(found.Findings) > 0 {
		return 0, hub.Errorf(hub.CodeConflict, op, "the journal contradicts the %s, which the hub signed: %s", found.Findings[0].Where, found.Findings[0].What).
			WithHint("the journal was changed, not the tree; restore a backup of it")
	}
	return growth.Size, l.replace(ctx, growth, begin)
}

// addArchived adds the leaf of a row that only an archive has, from the tree as it is.
func addArchived(r hub.Reader, growth *attest.Growth) error {
	t, err := r.Tree().Tile(0, growth.Size/attest.TileWidth)
	at := int(growth.Size%attest.TileWidth) * attest.HashSize
	if err == nil && len(t.Hashes) < at+attest.HashSize {
		err = hub.Errorf(hub.CodeNotFound, "proof.Rebuild", "the tile is too short")
	}
	if err != nil {
		return hub.Errorf(hub.CodeDegraded, "proof.Rebuild", "row %d is in an archive, and the tree does not have its hash: %w", growth.Size+1, err)
	}
	return growth.Add(attest.Hash(t.Hashes[at : at+attest.HashSize]))
}

// replaceTiles is the number of tiles that one transaction stores.
const replaceTiles = 64

// replace stores the tiles of a tree that was made again. A kill meanwhile leaves some of the tiles as
// they were, and the tree is made again once more.
func (l *Log) replace(ctx context.Context, growth *attest.Growth, begin int64) error {
	ids := growth.IDs()
	for len(ids) > 0 {
		some := ids[:min(replaceTiles, len(ids))]
		ids = ids[len(some):]
		err := l.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
			cursor, err := tx.Cursor(Cursor)
			if err != nil {
				return err
			}
			if cursor != begin {
				return hub.Errorf(hub.CodeConflict, "proof.Rebuild", "the tree grew meanwhile").WithHint("try again")
			}
			for _, id := range some {
				if err := tx.WriteTree().PutTile(hub.Tile{Level: id.Level, N: id.N, Hashes: growth.Changed[id]}); err != nil {
					return err
				}
			}
			if len(ids) == 0 {
				return tx.PutCursor(Cursor, growth.Size)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("proof: rebuild: %w", err)
		}
	}
	l.mu.Lock()
	l.stopped = nil
	l.mu.Unlock()
	return nil
}
