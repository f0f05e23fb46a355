package proof

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/ground/strictjson"
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
	newer, err := later(key, f, older, note)
	if err != nil {
		return Continued{}, err
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

// later reads the later checkpoint of a log. Of two checkpoints of one size, both have one root.
func later(key attest.Key, f File, older attest.Checkpoint, note string) (attest.Checkpoint, error) {
	newer, err := key.OpenCheckpoint(note)
	switch {
	case err != nil:
		return newer, fmt.Errorf("the checkpoint of the hub: %w", err)
	case newer.Size < older.Size:
		return newer, fmt.Errorf("the hub went back: its checkpoint ends at row %d, and that of the file at row %d", newer.Size, older.Size)
	case newer.Size == older.Size && newer.Root != older.Root:
		return newer, &TwoHistories{[2]string{f.Checkpoint, note}}
	}
	return newer, nil
}

// ContinueTo checks that a log goes on from the checkpoint of a file, which Verify has read, to a later
// one: a signed note with the proof of its growth, as a hub serves it at /checkpoint?since=SIZE. A later
// file and a note without a proof contradict the file, or prove nothing but their own size.
func ContinueTo(f File, text []byte) (Continued, error) {
	key, err := attest.ParseKey(f.Key)
	if err != nil {
		return Continued{}, err
	}
	older, err := key.OpenCheckpoint(f.Checkpoint)
	if err != nil {
		return Continued{}, fmt.Errorf("the checkpoint of the file: %w", err)
	}
	growing := attest.Growing{Note: string(text)}
	var other File
	switch {
	case strictjson.Decode(text, &other) == nil && other.Format == Format:
		growing.Note = other.Checkpoint
	case strings.HasPrefix(string(text), "old "):
		if growing, err = attest.ParseGrowing(string(text)); err != nil {
			return Continued{}, err
		}
	}
	newer, err := later(key, f, older, growing.Note)
	if err != nil {
		return Continued{}, err
	}

	isProven := newer.Size == older.Size || (growing.Old == older.Size && len(growing.Proof) > 0)
	if !isProven {
		return Continued{}, fmt.Errorf("nothing proves that the log goes on from the file to row %d: get the checkpoint with its proof from HUB/checkpoint?since=%d", newer.Size, older.Size)
	}
	if err := attest.CheckGrowth(growing.Proof, newer, older); err != nil {
		return Continued{}, fmt.Errorf("the proof does not lead from row %d to row %d: the hub shows another history, or the proof is not its own", older.Size, newer.Size)
	}
	return Continued{newer.Size, newer.Size - older.Size}, nil
}
