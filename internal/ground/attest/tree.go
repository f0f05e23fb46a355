package attest

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A Hash is a hash of a tree.
type Hash = tlog.Hash

// A Proof has the hashes that lead from one hash to a root: from a leaf, or from an older root.
type Proof = []Hash

// TileHeight is the height of tiles, and TileWidth the number of hashes in a whole one.
const (
	TileHeight = 8
	TileWidth  = 1 << TileHeight
)

// HashSize is the number of bytes of a hash.
const HashSize = tlog.HashSize

// Leaf returns the hash of the leaf of a journal row: that of the 32 bytes of the row's hash.
func Leaf(rowHash string) (Hash, error) {
	raw, err := hex.DecodeString(rowHash)
	if err != nil || len(raw) != HashSize || hex.EncodeToString(raw) != rowHash {
		return Hash{}, fmt.Errorf("%.70q is not a hash of a journal row", rowHash)
	}
	return tlog.RecordHash(raw), nil
}

// A TileID names a tile: at level 0 it has leaves, at each level above the roots of whole tiles of
// the one below.
type TileID struct {
	Level int
	N     int64
}

// Tiles returns the hashes of a tile, one after the other; the tile at the right edge of the tree
// has fewer than the others.
type Tiles func(TileID) ([]byte, error)

// A Growth adds leaves to a tree. It reads the tiles at the right edge and keeps those that change.
type Growth struct {
	Size    int64
	Changed map[TileID][]byte
	tiles   Tiles
}

// Grow begins at a tree with size leaves.
func Grow(size int64, tiles Tiles) *Growth {
	return &Growth{size, map[TileID][]byte{}, tiles}
}

// Load reads the tiles at the right edge of the tree, so that the growth reads no more.
func (g *Growth) Load(tiles Tiles) error {
	n := g.Size
	for level := 0; n > 0; level++ {
		id := TileID{level, n / TileWidth}
		if at := int(n % TileWidth); at > 0 {
			hashes, err := tiles(id)
			if err != nil {
				return err
			}
			if len(hashes) < at*HashSize {
				return fmt.Errorf("tile %d/%d has %d hashes instead of %d", level, id.N, len(hashes)/HashSize, at)
			}
			g.Changed[id] = slices.Clone(hashes[:at*HashSize])
		}
		n /= TileWidth
	}
	return nil
}

// Add appends a leaf.
func (g *Growth) Add(leaf Hash) error {
	n := g.Size
	for level := 0; ; level++ {
		id := TileID{level, n / TileWidth}
		at := int(n % TileWidth)
		hashes, known := g.Changed[id]
		if !known && at > 0 {
			stored, err := g.tile(id)
			if err != nil {
				return err
			}
			if len(stored) < at*HashSize {
				return fmt.Errorf("tile %d/%d has %d hashes instead of %d", level, id.N, len(stored)/HashSize, at)
			}
			hashes = slices.Clone(stored[:at*HashSize]) // a longer one is of a step that was not completed
		}
		hashes = append(hashes, leaf[:]...)
		g.Changed[id] = hashes
		if at < TileWidth-1 {
			break
		}
		leaf = tileRoot(hashes)
		n /= TileWidth
	}
	g.Size++
	return nil
}

// tileRoot returns the hash of a whole tile.
func tileRoot(tile []byte) Hash {
	level := make([]Hash, len(tile)/HashSize)
	for i := range level {
		copy(level[i][:], tile[i*HashSize:])
	}
	for len(level) > 1 {
		for i := range len(level) / 2 {
			level[i] = tlog.NodeHash(level[2*i], level[2*i+1])
		}
		level = level[:len(level)/2]
	}
	return level[0]
}

// tile returns a tile as it is after the growth.
func (g *Growth) tile(id TileID) ([]byte, error) {
	if hashes, ok := g.Changed[id]; ok {
		return hashes, nil
	}
	return g.tiles(id)
}

// Root returns the root of the tree after the growth.
func (g *Growth) Root() (Hash, error) { return Root(g.Size, g.tile) }

// RootAt returns the root of the first size leaves of the tree.
func (g *Growth) RootAt(size int64) (Hash, error) { return Root(size, g.tile) }

// IDs returns the names of the tiles that changed, in order.
func (g *Growth) IDs() []TileID {
	return slices.SortedFunc(maps.Keys(g.Changed), func(a, b TileID) int { return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.N, b.N)) })
}

// reader reads hashes out of tiles; each tile is read once.
func (t Tiles) reader() tlog.HashReader {
	known := map[TileID][]byte{}
	return tlog.HashReaderFunc(func(indexes []int64) ([]Hash, error) {
		out := make([]Hash, len(indexes))
		for i, index := range indexes {
			tile := tlog.TileForIndex(TileHeight, index)
			id := TileID{tile.L, tile.N}
			data, ok := known[id]
			if !ok {
				var err error
				if data, err = t(id); err != nil {
					return nil, err
				}
				known[id] = data
			}
			if len(data) < tile.W*HashSize {
				return nil, fmt.Errorf("tile %d/%d has %d hashes instead of %d", id.Level, id.N, len(data)/HashSize, tile.W)
			}
			hash, err := tlog.HashFromTile(tile, data[:tile.W*HashSize], index)
			if err != nil {
				return nil, err
			}
			out[i] = hash
		}
		return out, nil
	})
}

// Root returns the root of a tree of a size.
func Root(size int64, tiles Tiles) (Hash, error) { return tlog.TreeHash(size, tiles.reader()) }

// ProveLeaf returns the proof that the leaf n, counted from 0, is in the tree of a size.
func ProveLeaf(size, n int64, tiles Tiles) (Proof, error) {
	return tlog.ProveRecord(size, n, tiles.reader())
}

// ProveGrowth returns the proof that the tree of a size begins with the tree of an older one.
func ProveGrowth(size, older int64, tiles Tiles) (Proof, error) {
	if older == size {
		return nil, nil
	}
	return tlog.ProveTree(size, older, tiles.reader())
}

// CheckLeaf checks the proof of ProveLeaf.
func CheckLeaf(p Proof, c Checkpoint, n int64, leaf Hash) error {
	return tlog.CheckRecord(p, c.Size, c.Root, n, leaf)
}

// CheckGrowth checks the proof of ProveGrowth.
func CheckGrowth(p Proof, newer, older Checkpoint) error {
	if newer.Size == older.Size {
		if newer.Root != older.Root {
			return errors.New("two trees of one size have different roots")
		}
		return nil
	}
	return tlog.CheckTree(p, newer.Size, newer.Root, older.Size, older.Root)
}

// TilePath returns the path of a tile as C2SP names it, below /tile; width is its number of hashes.
func TilePath(id TileID, width int) string {
	path := tlog.Tile{H: TileHeight, L: id.Level, N: id.N, W: width}.Path() // tile/8/L/...
	return path[len("tile/8/"):]
}

// ParseTilePath reads a path of TilePath. It returns the number of hashes that it asks for.
func ParseTilePath(path string) (id TileID, width int, err error) {
	t, err := tlog.ParseTilePath("tile/8/" + path)
	if err != nil || t.L < 0 {
		return TileID{}, 0, fmt.Errorf("%.80q is not the path of a tile", path)
	}
	return TileID{t.L, t.N}, t.W, nil
}

// A Checkpoint is the size and root of a tree, signed by the hub that keeps it.
type Checkpoint struct {
	Origin string
	Size   int64
	Root   Hash
}

// text returns the text of the note.
func (c Checkpoint) text() string { return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root) }

// Checkpoint returns the signed note of a tree.
func (s *Signer) Checkpoint(size int64, root Hash) (string, error) {
	signed, err := note.Sign(&note.Note{Text: Checkpoint{s.Key.Name, size, root}.text()}, s.note)
	if err != nil {
		return "", fmt.Errorf("attest: checkpoint: %w", err)
	}
	return string(signed), nil
}

// OpenCheckpoint returns the checkpoint of a note that this key signed.
func (k Key) OpenCheckpoint(signed string) (Checkpoint, error) {
	n, err := note.Open([]byte(signed), note.VerifierList(k.verifier))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := ReadCheckpoint(n.Text)
	if err == nil && c.Origin != k.Name {
		err = fmt.Errorf("the checkpoint is of %s, not of %s", c.Origin, k.Name)
	}
	return c, err
}

// ReadCheckpoint reads the text of a note, whose signature is not looked at.
func ReadCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return c, errors.New("the note is not a checkpoint")
	}
	c.Origin = lines[0]
	c.Size, err = strconv.ParseInt(lines[1], 10, 64)
	if err == nil {
		c.Root, err = tlog.ParseHash(lines[2])
	}
	isPlain := err == nil && c.Size >= 0 && c.text() == text
	if !isPlain {
		return Checkpoint{}, errors.New("the note is not a checkpoint")
	}
	return c, nil
}

// A Growing is a checkpoint with the proof that its tree begins with that of an older one.
type Growing struct {
	Old   int64  // size of the older tree
	Proof Proof  // nil if no proof was given
	Note  string // the newer checkpoint, signed
}

// String returns g as C2SP tlog-witness sends it to a witness.
func (g Growing) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "old %d\n", g.Old)
	for _, h := range g.Proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	return b.String() + "\n" + g.Note
}

// maxGrowing is the most hashes of a proof of growth: one for each level of a tree, as C2SP has it.
const maxGrowing = 63

// ParseGrowing reads the form of String.
func ParseGrowing(text string) (g Growing, err error) {
	head, note, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	size, isOld := strings.CutPrefix(lines[0], "old ")
	if !ok || !isOld || len(lines) > 1+maxGrowing {
		return g, errors.New("it is not a checkpoint with a proof")
	}
	g.Note = note
	if g.Old, err = strconv.ParseInt(size, 10, 64); err != nil || g.Old < 0 || strconv.FormatInt(g.Old, 10) != size {
		return g, fmt.Errorf("%.40q is not the size of a tree", size)
	}
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil || h.String() != line {
			return g, fmt.Errorf("%.60q is not a hash", line)
		}
		g.Proof = append(g.Proof, h)
	}
	return g, nil
}

// WidthOf returns the number of hashes that a tile has in a tree of a size.
func WidthOf(id TileID, size int64) int {
	hashes := size >> (TileHeight * id.Level) // of its level
	return int(min(TileWidth, max(0, hashes-id.N*TileWidth)))
}
