package proof_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/service/proof"
)

func TestContinue(t *testing.T) {
	w := newWorld(t)
	file := w.prove("l1")
	w.noise(700)
	w.grow()
	newest := func(w *world) string {
		c, err := w.log.Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Note
	}
	read := func(w *world) func(string) ([]byte, error) {
		return func(path string) ([]byte, error) { return w.log.Tile(t.Context(), path) }
	}

	t.Run("rows that follow are counted", func(t *testing.T) {
		got, err := proof.Continue(file, newest(w), read(w))
		if err != nil || got.More != 700 {
			t.Errorf("got %+v, %v", got, err)
		}
		same, err := proof.Continue(file, file.Checkpoint, read(w))
		if err != nil || same.More != 0 {
			t.Errorf("the same checkpoint: %+v, %v", same, err)
		}
	})
	t.Run("a log that goes back is found", func(t *testing.T) {
		later := w.prove("l1")
		if _, err := proof.Continue(later, file.Checkpoint, read(w)); err == nil || !strings.Contains(err.Error(), "went back") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("two histories are found, and both notes are the proof", func(t *testing.T) {
		signer, err := attest.NewSigner(w.trusted()[0].Name, key("hub"))
		if err != nil {
			t.Fatal(err)
		}
		forged := file
		if forged.Checkpoint, err = signer.Checkpoint(5, attest.Hash{1}); err != nil {
			t.Fatal(err)
		}
		_, err = proof.Continue(forged, newest(w), read(w))
		two, ok := errors.AsType[*proof.TwoHistories](err)
		if !ok || two.Notes != [2]string{forged.Checkpoint, newest(w)} {
			t.Errorf("got %v", err)
		}
	})
	t.Run("tiles that are not those of the checkpoint are found", func(t *testing.T) {
		wrong := func(path string) ([]byte, error) {
			raw, err := read(w)(path)
			if err == nil {
				raw[0] ^= 1
			}
			return raw, err
		}
		if _, err := proof.Continue(file, newest(w), wrong); err == nil {
			t.Error("they pass")
		}
	})
}
