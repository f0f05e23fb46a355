package proof

import (
	"fmt"

	"github.com/parley-agents/parley/internal/ground/attest"
)

// A Continued is what a later checkpoint of the same log says about a file.
type Continued struct {
	Size int64 `json:"size"` // rows, up to the later checkpoint
	More int64 `json:"more"` // rows that follow the checkpoint of the file
}

// TwoHistories is the finding that a log has two histories. Both notes are signed by its key: together
// they are the proof.
type TwoHistories struct{ Notes [2]string }

func (t *TwoHistories) Error() string {
	return "the hub shows two histories: the checkpoint of the file and its present one contradict each other, and both are signed by it"
}

// Continue checks that a log goes on from the checkpoint of a file, which Verify has read. note is a
// checkpoint of the log, and read returns the hashes of its tiles by their paths.
func Continue(f File, note string, read func(path string) ([]byte, error)) (Continued, error) {
	key, err := attest.ParseKey(f.Key)
	if err != nil {
		return Continued{}, err
	}
	older, err := key.OpenCheckpoint(f.Checkpoint)
	if err != nil {
		return Continued{}, fmt.Errorf("the checkpoint of the file: %w", err)
	}
	newer, err := key.OpenCheckpoint(note)
	if err != nil {
		return Continued{}, fmt.Errorf("the checkpoint of the hub: %w", err)
	}
	if newer.Size < older.Size {
		return Continued{}, fmt.Errorf("the hub went back: its checkpoint ends at row %d, and that of the file at row %d", newer.Size, older.Size)
	}

	// The hub may not have the tiles that a true continuation needs: what it has is compared with its
	// own root first.
	tiles := func(id attest.TileID) ([]byte, error) {
		width := attest.WidthOf(id, newer.Size)
		hashes, err := read(attest.TilePath(id, width))
		if err == nil && len(hashes) != width*attest.HashSize {
			err = fmt.Errorf("tile %d/%d of the hub has %d bytes", id.Level, id.N, len(hashes))
		}
		return hashes, err
	}
	root, err := attest.Root(newer.Size, tiles)
	if err != nil {
		return Continued{}, err
	}
	if root != newer.Root {
		return Continued{}, fmt.Errorf("the tiles of the hub do not lead to its checkpoint")
	}
	before, err := attest.Root(older.Size, tiles)
	if err != nil {
		return Continued{}, err
	}
	if before != older.Root {
		return Continued{}, &TwoHistories{[2]string{f.Checkpoint, note}}
	}
	proof, err := attest.ProveGrowth(newer.Size, older.Size, tiles)
	if err == nil {
		err = attest.CheckGrowth(proof, newer, older)
	}
	if err != nil {
		return Continued{}, fmt.Errorf("the hub does not prove that its log goes on from the file: %w", err)
	}
	return Continued{newer.Size, newer.Size - older.Size}, nil
}
