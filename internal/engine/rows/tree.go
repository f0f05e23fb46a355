package rows

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/parley-agents/parley/hub"
)

var treeTiles = newTable("tree_tiles", "tile of the tree", "level, n, hashes", func(c *codec, t *hub.Tile) {
	c.int(&t.Level)
	c.int64(&t.N)
	text := base64.StdEncoding.EncodeToString(t.Hashes)
	c.text(&text)
	if c.q == nil && c.err == nil {
		t.Hashes, c.err = base64.StdEncoding.DecodeString(text)
	}
})

var treeCheckpoints = newTable("tree_checkpoints", "checkpoint of the tree", "size, at, note", func(c *codec, p *hub.Checkpoint) {
	c.int64(&p.Size)
	c.stamp(&p.At)
	c.text(&p.Note)
})

var (
	tileByName = treeTiles.query(`WHERE level = ?1 AND n = ?2`)
	putTile    = statement(`INSERT INTO tree_tiles (level, n, hashes) VALUES (?1, ?2, ?3) ON CONFLICT (level, n) DO UPDATE SET hashes = excluded.hashes`)

	checkpointFrom    = treeCheckpoints.query(`WHERE size >= ?1 ORDER BY size LIMIT 1`)
	checkpointsAfter  = treeCheckpoints.query(`WHERE size > ?1 ORDER BY size LIMIT ?2`)
	checkpointsNewest = treeCheckpoints.query(`WHERE size > ?1 ORDER BY size DESC LIMIT ?2`)
	putCheckpoint     = statement(`INSERT INTO tree_checkpoints (size, at, note) VALUES (?1, ?2, ?3) ON CONFLICT (size) DO UPDATE SET at = excluded.at, note = excluded.note`)
	dropCheckpoint    = statement(`DELETE FROM tree_checkpoints WHERE size = ?1`)
)

// A treeReader is the hub.TreeReader of a reader.
type treeReader struct{ r *reader }

// A treeWriter is the hub.TreeWriter of a transaction.
type treeWriter struct{ t *tx }

func (r *reader) Tree() hub.TreeReader { return treeReader{r} }

func (t *tx) WriteTree() hub.TreeWriter { return treeWriter{t} }

func (v treeReader) Tile(level int, n int64) (hub.Tile, error) {
	return treeTiles.one(v.r, fmt.Sprintf("%d/%d", level, n), tileByName, level, n)
}

func (v treeReader) Checkpoint(size int64) (hub.Checkpoint, error) {
	return treeCheckpoints.one(v.r, strconv.FormatInt(size, 10), checkpointFrom, size)
}

func (v treeReader) Checkpoints(after int64, newest bool, limit int) ([]hub.Checkpoint, error) {
	if newest {
		return treeCheckpoints.all(v.r, checkpointsNewest, after, max(limit, 0))
	}
	return treeCheckpoints.all(v.r, checkpointsAfter, after, max(limit, 0))
}

func (w treeWriter) PutTile(t hub.Tile) error {
	_, err := treeTiles.write(w.t, putTile, &t)
	return err
}

func (w treeWriter) PutCheckpoint(p hub.Checkpoint) error {
	_, err := treeCheckpoints.write(w.t, putCheckpoint, &p)
	return err
}

func (w treeWriter) DropCheckpoint(size int64) error {
	n, err := w.t.run(treeCheckpoints.op(), dropCheckpoint, size)
	if err == nil && n == 0 {
		return notFound(treeCheckpoints.op(), treeCheckpoints.noun, strconv.FormatInt(size, 10))
	}
	return err
}
