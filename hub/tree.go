package hub

// A Tile is a part of the Merkle tree over the journal: at level 0 the hashes of leaves, at each
// level above the roots of whole tiles of the one below. Leaf i is that of journal row i+1.
type Tile struct {
	Level  int
	N      int64
	Hashes []byte // at most 256 hashes of 32 bytes each; fewer at the right edge of the tree
}

// A Checkpoint is the size and root of the tree at a moment, as the note that the hub signed.
type Checkpoint struct {
	Size int64  `json:"size"` // leaves, which is the number of the last row
	At   Time   `json:"at,omitzero"`
	Note string `json:"note"` // with the signatures of witnesses behind that of the hub
}

// A TreeReader reads the tree over the journal.
type TreeReader interface {
	// Tile reports CodeNotFound if the tree has no such tile.
	Tile(level int, n int64) (Tile, error)
	// Checkpoint returns the oldest one of at least a size. It reports CodeNotFound if there is none.
	Checkpoint(size int64) (Checkpoint, error)
	// Checkpoints returns those after a size, oldest first, or the newest first.
	Checkpoints(after int64, newest bool, limit int) ([]Checkpoint, error)
}

// A TreeWriter writes the tree over the journal.
type TreeWriter interface {
	// PutTile stores a tile, new or known.
	PutTile(Tile) error
	// PutCheckpoint stores a checkpoint, new or known, by its size.
	PutCheckpoint(Checkpoint) error
	// DropCheckpoint reports CodeNotFound if there is none of the size.
	DropCheckpoint(size int64) error
}
