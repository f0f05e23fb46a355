package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// TestLog reads the tree over the journal as a stranger does: over HTTP, without a key, and with the
// libraries of Go's checksum database.
func TestLog(t *testing.T) {
	r := start(t, unlimited())
	keys := r.add(t, "alice", "bob")
	for i := range 300 {
		r.send(t, keys[0], "bob", fmt.Sprint("message ", i))
	}
	head := r.journalHead(t)

	var signed string
	var size int64
	eventually(t, "a checkpoint with all rows", func() bool {
		a := r.do(t, "GET", "/checkpoint", "", nil)
		signed = string(a.body)
		lines := strings.Split(signed, "\n")
		if a.status != http.StatusOK || len(lines) < 4 {
			return false
		}
		n, err := strconv.Atoi(lines[1])
		return err == nil && n >= head
	})
	verifier, err := note.NewVerifier(strings.TrimSpace(string(r.do(t, "GET", "/.well-known/parley-keys", "", nil).body)))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := note.Open([]byte(signed), note.VerifierList(verifier))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(opened.Text, "\n")
	fmt.Sscan(lines[1], &size)
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		t.Fatal(err)
	}

	t.Run("the tiles have the leaf of each row, and lead to the root", func(t *testing.T) {
		tiles := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, &tileReader{t, r})
		for _, seq := range []int64{1, 255, 256, 257, size} {
			hash := r.rows(t, fmt.Sprintf(`SELECT hash FROM journal WHERE seq = %d`, seq))[0]
			raw, err := hex.DecodeString(hash)
			if err != nil || len(raw) != sha256.Size {
				t.Fatalf("row %d: %q", seq, hash)
			}
			p, err := tlog.ProveRecord(size, seq-1, tiles)
			if err == nil {
				err = tlog.CheckRecord(p, size, root, seq-1, tlog.RecordHash(raw))
			}
			if err != nil {
				t.Errorf("row %d: %v", seq, err)
			}
		}
	})
	t.Run("a checkpoint with the proof that the log goes on from a row", func(t *testing.T) {
		a := r.do(t, "GET", "/checkpoint?since=3", "", nil)
		lines := strings.Split(string(a.body), "\n")
		if a.status != http.StatusOK || lines[0] != "old 3" {
			t.Fatalf("got %d, %s", a.status, a.body)
		}
		var proof tlog.TreeProof
		for _, line := range lines[1:slices.Index(lines, "")] {
			h, err := tlog.ParseHash(line)
			if err != nil {
				t.Fatal(err)
			}
			proof = append(proof, h)
		}
		_, signed, _ := strings.Cut(string(a.body), "\n\n")
		n, err := note.Open([]byte(signed), note.VerifierList(verifier))
		if err != nil {
			t.Fatal(err)
		}
		var now tlog.Tree
		note := strings.Split(n.Text, "\n")
		fmt.Sscan(note[1], &now.N)
		if now.Hash, err = tlog.ParseHash(note[2]); err != nil {
			t.Fatal(err)
		}
		before, err := tlog.TreeHash(3, tlog.TileHashReader(now, &tileReader{t, r}))
		if err == nil {
			err = tlog.CheckTree(proof, now.N, now.Hash, 3, before)
		}
		if err != nil {
			t.Error(err)
		}
		for since, want := range map[string]int{"0": http.StatusOK, "x": http.StatusBadRequest, "-1": http.StatusNotFound, "999999": http.StatusNotFound} {
			if a := r.do(t, "GET", "/checkpoint?since="+since, "", nil); a.status != want {
				t.Errorf("since=%s: got %d, want %d", since, a.status, want)
			}
		}
	})
	t.Run("a path that is none is not found", func(t *testing.T) {
		for _, path := range []string{"/tile/0/999", "/tile/-1/000", "/tile/data/000", "/tile/0/000.p/0", "/tile/0/x", "/tile/9/000"} {
			if a := r.do(t, "GET", path, "", nil); a.status != http.StatusNotFound {
				t.Errorf("%s: got %d", path, a.status)
			}
		}
	})
	t.Run("the log lasts over a restart, and the operator proves a message", func(t *testing.T) {
		id := r.send(t, keys[0], "bob", "the last one")
		made, err := rpc.Call(t.Context(), r.as(keys[0]), api.Prove, api.ProveParams{ID: string(id)})
		if err != nil || made.Noun != "message" || made.File.Key != strings.TrimSpace(string(r.do(t, "GET", "/.well-known/parley-keys", "", nil).body)) {
			t.Fatalf("got %+v, %v", made, err)
		}
		r.stop()
		again := start(t, server.Options{Home: r.home})
		made2, err := rpc.Call(t.Context(), again.as(keys[1]), api.Prove, api.ProveParams{ID: string(id)})
		if err != nil || made2.File.Key != made.File.Key {
			t.Errorf("got %+v, %v", made2, err)
		}
		audit, err := rpc.Call(t.Context(), again.as(again.operator), api.Verify, api.VerifyParams{})
		if err != nil || len(audit.Findings) > 0 || audit.Leaves <= size || audit.Checkpoints == 0 {
			t.Errorf("audit verify: %+v, %v", audit, err)
		}
	})
}

// A tileReader reads tiles of a hub.
type tileReader struct {
	t *testing.T
	r *running
}

func (tr *tileReader) Height() int { return 8 }

func (tr *tileReader) ReadTiles(tiles []tlog.Tile) (out [][]byte, err error) {
	for _, tile := range tiles {
		a := tr.r.do(tr.t, "GET", "/"+strings.Replace(tile.Path(), "tile/8/", "tile/", 1), "", nil)
		if a.status != http.StatusOK {
			return nil, fmt.Errorf("%s: %d", tile.Path(), a.status)
		}
		out = append(out, []byte(a.body))
	}
	return out, nil
}

func (tr *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}
