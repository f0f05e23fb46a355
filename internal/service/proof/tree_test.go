package proof_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// rootOf returns the root over the journal as the library alone computes it.
func rootOf(t *testing.T, store hub.Store) (int64, tlog.Hash) {
	t.Helper()
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, hashes[i])
		}
		return out, nil
	})
	n := int64(0)
	err := store.View(t.Context(), func(r hub.Reader) error {
		rows, err := r.Journal(hub.JournalQuery{Limit: 100_000})
		for _, e := range rows {
			raw, err := hex.DecodeString(e.Hash)
			if err != nil {
				return err
			}
			more, err := tlog.StoredHashes(n, raw, reader)
			if err != nil {
				return err
			}
			hashes = append(hashes, more...)
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	root, err := tlog.TreeHash(n, reader)
	if err != nil {
		t.Fatal(err)
	}
	return n, root
}

// wantRoot requires that the newest checkpoint is that of the whole journal.
func wantRoot(t *testing.T, store hub.Store, log *proof.Log) {
	t.Helper()
	size, root := rootOf(t, store)
	c, err := log.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(c.Note, "\n"); c.Size != size || lines[2] != root.String() {
		t.Errorf("the checkpoint is of %d rows, %s; the journal has %d, %s", c.Size, lines[2], size, root)
	}
}

// wantFindings requires that a check finds exactly these things, each named by a part of its sentence.
func wantFindings(t *testing.T, store hub.Store, want ...string) {
	t.Helper()
	got, err := proof.Check(t.Context(), store)
	if err != nil || len(got.Findings) != len(want) {
		t.Fatalf("got %q, %v; want %q", got.Findings, err, want)
	}
	for i, text := range want {
		if all := fmt.Sprint(got.Findings[i]); !strings.Contains(all, text) {
			t.Errorf("got %q, want %q", all, text)
		}
	}
}

func TestTree(t *testing.T) {
	t.Run("grown in steps it is the tree over the whole journal", func(t *testing.T) {
		w := newWorld(t)
		for _, n := range []int{1, 230, 1, 1, 1, 255, 256, 257, 4095} {
			w.noise(n)
			w.grow()
			wantRoot(t, w.store, w.log)
		}
		wantFindings(t, w.store)
	})
	t.Run("an old journal gets it in one pass", func(t *testing.T) {
		w := newWorld(t)
		w.noise(9000)
		w.grow()
		wantRoot(t, w.store, w.log)
	})
	t.Run("a journal whose beginning is in an archive alone gets it from there", func(t *testing.T) {
		home := storetest.NewHome(t, t.TempDir())
		store := home.Open()
		defer store.Close()
		old := &world{TB: t, store: store}
		old.noise(600)
		rows, err := hub.Read(t.Context(), store, func(r hub.Reader) ([]hub.Entry, error) { return r.Journal(hub.JournalQuery{Limit: 1000}) })
		if err != nil {
			t.Fatal(err)
		}
		size, root := rootOf(t, store)
		home.Exec(`DELETE FROM journal WHERE seq <= 300`)
		log := proof.New(store, key("hub"), &proof.Options{Archived: func(_ context.Context, after int64, each func(hub.Entry) error) error {
			for _, e := range rows[after:300] {
				if err := each(e); err != nil {
					return err
				}
			}
			return nil
		}})
		if err := log.Grow(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := log.Newest(t.Context())
		if lines := strings.Split(c.Note, "\n"); err != nil || c.Size != size || lines[2] != root.String() {
			t.Errorf("got %d rows, %v, %v", c.Size, lines, err)
		}
		wantFindings(t, store)
	})
	t.Run("the newest checkpoint of each minute stays", func(t *testing.T) {
		w := newWorld(t)
		for range 150 { // the clock of the test moves a second at each checkpoint
			w.noise(1)
			w.grow()
		}
		all, err := hub.Read(t.Context(), w.store, func(r hub.Reader) ([]hub.Checkpoint, error) { return r.Tree().Checkpoints(0, false, 1000) })
		if err != nil || len(all) != 3 {
			t.Errorf("%d checkpoints are kept (%v)", len(all), err)
		}
	})
	t.Run("three processes on one store make one tree", func(t *testing.T) {
		w := newWorld(t)
		var wg sync.WaitGroup
		for range 3 {
			log := proof.New(w.store, key("hub"), nil)
			wg.Go(func() {
				for range 20 {
					if err := log.Grow(t.Context()); err != nil && hub.CodeOf(err) != hub.CodeConflict {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			w.noise(40)
		}
		wg.Wait()
		w.grow()
		wantRoot(t, w.store, w.log)
		wantFindings(t, w.store)
	})
}

// TestGrowthFails holds that a growth which ends at any call of the store leaves nothing half done.
func TestGrowthFails(t *testing.T) {
	inner := storetest.Open(t, t.TempDir())
	store := &hubtest.Store{Store: inner}
	log := proof.New(store, key("hub"), nil)
	w := &world{TB: t, store: store, log: log}
	calls := 0
	for ends := false; !ends; calls++ {
		store.Before = nil
		w.noise(300)
		n := 0
		store.Before = func(string) error {
			if n++; n > calls {
				return hub.Errorf(hub.CodeDegraded, "test", "killed")
			}
			return nil
		}
		err := log.Grow(t.Context())
		ends = err == nil
		store.Before = nil
		wantFindings(t, inner)
		log = proof.New(store, key("hub"), nil) // the next process
	}
	if err := log.Grow(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRoot(t, inner, log)
	if calls < 10 {
		t.Errorf("it failed at %d calls", calls)
	}
}

func TestTampering(t *testing.T) {
	setup := func(t *testing.T) (*storetest.Home, *world) {
		home := storetest.NewHome(t, t.TempDir())
		store := home.Open()
		t.Cleanup(func() { store.Close() })
		w := &world{TB: t, store: store, log: proof.New(store, key("hub"), nil)}
		w.noise(600)
		w.grow()
		return home, w
	}

	t.Run("a row that was changed behind the hub is named, and the tree is not made again over it", func(t *testing.T) {
		home, w := setup(t)
		home.Exec(`UPDATE journal SET hash = '` + strings.Repeat("ab", 32) + `' WHERE seq = 300`)
		wantFindings(t, w.store, "journal row 300")
		if _, err := w.log.Rebuild(t.Context()); hub.CodeOf(err) != hub.CodeConflict || !strings.Contains(err.Error(), "checkpoint of row 600") {
			t.Errorf("rebuild: %v", err)
		}
	})
	t.Run("a tile that was changed stops the tree, not the hub; it is made again", func(t *testing.T) {
		home, w := setup(t)
		home.Exec(`UPDATE tree_tiles SET hashes = '` + strings.Repeat("QUFB", 32*88/3) + `' WHERE level = 0 AND n = 2`)
		w.noise(5)
		if err := w.log.Grow(t.Context()); err == nil {
			t.Error("the tree grows")
		}
		w.noise(5)
		if n, err := w.log.Rebuild(t.Context()); n != 610 || err != nil {
			t.Errorf("rebuild: %d, %v", n, err)
		}
		w.grow()
		w.noise(1)
		w.grow()
		wantRoot(t, w.store, w.log)
		wantFindings(t, w.store)
	})
	t.Run("an upper tile that was removed is found and made again", func(t *testing.T) {
		home, w := setup(t)
		home.Exec(`DELETE FROM tree_tiles WHERE level = 1`)
		wantFindings(t, w.store, "tile 1/0")
		if _, err := w.log.Rebuild(t.Context()); err != nil {
			t.Error(err)
		}
		wantFindings(t, w.store)
	})
	t.Run("a checkpoint of another key, or of another tree, is found", func(t *testing.T) {
		home, w := setup(t)
		c, err := w.log.Newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		home.Exec(`UPDATE tree_checkpoints SET note = '` + strings.Replace(c.Note, "600", "599", 1) + `'`)
		wantFindings(t, w.store, "checkpoint of row 600")
	})
}

func TestCopies(t *testing.T) {
	home := storetest.NewHome(t, t.TempDir())
	store := home.Open()
	w := &world{TB: t, store: store, log: proof.New(store, key("hub"), nil)}
	w.noise(600)
	w.grow()
	before, err := w.log.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	other := home.Copy(t, t.TempDir()).Open()
	defer other.Close()
	t.Run("a copy has the same tree", func(t *testing.T) {
		log := proof.New(other, key("hub"), nil)
		if err := log.Grow(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, err := log.Newest(t.Context())
		if err != nil || after != before {
			t.Errorf("got %+v, %v; want %+v", after, err, before)
		}
	})
	t.Run("with another key it goes on, the row of the new key names the last checkpoint, and both keys are listed", func(t *testing.T) {
		log := proof.New(other, key("new"), nil)
		for range 2 { // the row of the key itself is in the second
			if err := log.Grow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		wantRoot(t, other, log)
		wantFindings(t, other)
		keys, err := log.Keys(t.Context())
		if err != nil || len(keys) != 2 || keys[0].Name != keys[1].Name {
			t.Errorf("got %v, %v", keys, err)
		}
		rows, err := hub.Read(t.Context(), other, func(r hub.Reader) ([]hub.Entry, error) { return r.Journal(hub.JournalQuery{Newest: true, Limit: 1}) })
		if err != nil || rows[0].Action != "log.key" || !strings.Contains(string(rows[0].Facts), `\n600\n`) {
			t.Errorf("got %+v, %v", rows, err)
		}
	})
}

// TestRun holds that a contradiction stops the tree alone: the operator is told once.
func TestRun(t *testing.T) {
	home := storetest.NewHome(t, t.TempDir())
	store := home.Open()
	defer store.Close()
	w := &world{TB: t, store: store, log: proof.New(store, key("hub"), nil)}
	w.noise(300)
	w.grow()
	home.Exec(`UPDATE tree_tiles SET hashes = '` + strings.Repeat("QUFB", 32*44/3) + `' WHERE level = 0 AND n = 1`)
	w.noise(1)

	told := make(chan string, 10)
	log := proof.New(store, key("hub"), &proof.Options{TellOperator: func(_ hub.Tx, payload any) (hub.Message, error) {
		told <- fmt.Sprint(payload)
		return hub.Message{}, nil
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		log.Run(ctx)
	}()
	if text := <-told; !strings.Contains(text, "makes no new proofs") || !strings.Contains(text, "--rebuild-tree") {
		t.Errorf("the operator reads %q", text)
	}
	w.noise(1) // the hub goes on
	if _, err := log.Prove(t.Context(), operator, proof.Request{ID: "l1"}); hub.CodeOf(err) != hub.CodeDegraded {
		t.Errorf("prove: %v", err)
	}
	cancel(errors.New("the end of the test"))
	<-done
	if len(told) > 0 {
		t.Error("the operator was told twice")
	}
}

// A growingStore lets the tree grow before one of the views of a check.
type growingStore struct {
	hub.Store
	left int // views before that
	grow func()
}

func (s *growingStore) View(ctx context.Context, fn func(hub.Reader) error) error {
	if s.left--; s.left == 0 {
		s.grow()
	}
	return s.Store.View(ctx, fn)
}

// TestCheckOfAGrowingTree holds that a tree which grows during a check is no finding, at whichever of its
// views that happens.
func TestCheckOfAGrowingTree(t *testing.T) {
	for n := 1; n <= 4; n++ {
		w := newWorld(t)
		w.noise(20)
		w.grow()
		store := &growingStore{Store: w.store, left: n, grow: func() {
			w.noise(5)
			w.now = w.now.Add(time.Minute)
			w.grow()
		}}
		got, err := proof.Check(t.Context(), store)
		if err != nil || len(got.Findings) > 0 || got.Checkpoints == 0 {
			t.Errorf("before view %d: got %+v, %v", n, got, err)
		}
	}
}

// TestRenew holds that a new log has a name and a key of its own, that its first row names the last
// checkpoint of the log before, and that it goes on where a checkpoint contradicts the journal.
func TestRenew(t *testing.T) {
	w := newWorld(t)
	before, err := w.log.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := w.prove("l1")
	oldKey := w.trusted()[0]
	if _, err := w.log.Renew(t.Context(), builder); hub.CodeOf(err) != hub.CodeDenied {
		t.Errorf("by an agent: %v", err)
	}
	renewed, err := w.log.Renew(t.Context(), operator)
	if err != nil || renewed.Name == oldKey.Name || string(renewed.Public()) == string(oldKey.Public()) {
		t.Fatalf("got %+v, %v", renewed, err)
	}
	rows := rowsOf(t, w)
	last := rows[len(rows)-1]
	var facts struct{ Key, After string }
	if err := json.Unmarshal(last.Facts, &facts); err != nil || facts.Key != renewed.Text || facts.After != before.Note {
		t.Errorf("the row is %s, %v", last.Facts, err)
	}
	w.grow()
	wantRoot(t, w.store, w.log)
	wantFindings(t, w.store)
	keys, err := w.log.Keys(t.Context())
	if err != nil || len(keys) != 2 || !keys[0].Is(renewed) || !keys[1].Is(oldKey) {
		t.Errorf("got %v, %v", keys, err)
	}

	file := w.prove("l1")
	if file.Key != renewed.Text {
		t.Errorf("the file has the key %s", file.Key)
	}
	if _, err := proof.Verify(bytesOf(t, file), []attest.Key{renewed}); err != nil {
		t.Error(err)
	}
	if _, err := proof.Verify(bytesOf(t, old), []attest.Key{oldKey}); err != nil {
		t.Errorf("a file of the log before: %v", err)
	}
	again := proof.New(w.store, key("hub"), nil) // as after a restart
	if k, err := again.Key(t.Context()); err != nil || !k.Is(renewed) {
		t.Errorf("after a restart: %v, %v", k, err)
	}
}
