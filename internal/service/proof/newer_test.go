package proof_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
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

func TestContinueTo(t *testing.T) {
	w := newWorld(t)
	file := w.prove("l1")
	size := int64(len(rowsOf(t, w)))
	w.noise(700)
	w.grow()
	growing, err := w.log.Since(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := attest.NewSigner(w.trusted()[0].Name, key("hub"))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := signer.Checkpoint(size, attest.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	another := growing
	another.Proof = append(attest.Proof{{1}}, growing.Proof[1:]...)
	bare := growing
	bare.Proof = nil

	for name, c := range map[string]struct {
		text string
		more int64
		want string // part of the sentence; "" if the log goes on
	}{
		"a checkpoint with its proof":          {growing.String(), 700, ""},
		"the checkpoint of the file":           {file.Checkpoint, 0, ""},
		"the file itself":                      {string(bytesOf(t, file)), 0, ""},
		"a checkpoint without a proof":         {growing.Note, 0, "nothing proves that the log goes on"},
		"a later file":                         {string(bytesOf(t, w.prove("l1"))), 0, "nothing proves that the log goes on"},
		"a checkpoint whose proof was cut off": {bare.String(), 0, "nothing proves that the log goes on"},
		"a checkpoint with another proof":      {another.String(), 0, "the proof does not lead from row"},
		"another checkpoint of the same size":  {forged, 0, "two histories"},
		"a proof that is none":                 {"old x\n\n" + growing.Note, 0, "not the size of a tree"},
		"a text":                               {"hello", 0, "the checkpoint of the hub"},
		"an endless proof":                     {"old 5\n" + strings.Repeat("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", 64) + "\n" + growing.Note, 0, "not a checkpoint with a proof"},
	} {
		got, err := proof.ContinueTo(file, []byte(c.text))
		switch {
		case c.want == "" && (err != nil || got.More != c.more):
			t.Errorf("%s: got %+v, %v", name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	later := w.prove("l1")
	if _, err := proof.ContinueTo(later, []byte(file.Checkpoint)); err == nil || !strings.Contains(err.Error(), "went back") {
		t.Errorf("an older checkpoint: %v", err)
	}
}

// rowsOf returns the journal.
func rowsOf(t *testing.T, w *world) []hub.Entry {
	t.Helper()
	rows, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]hub.Entry, error) { return r.Journal(hub.JournalQuery{Limit: 10_000}) })
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
