package hubtest

import (
	"bytes"
	"reflect"

	"github.com/parley-agents/parley/hub"
)

var treeTests = []storeTest{
	{"a tile is replaced by its longer form and kept over a restart", func(w *world) {
		short := hub.Tile{Level: 1, N: 3, Hashes: bytes.Repeat([]byte{7}, 32)}
		long := hub.Tile{Level: 1, N: 3, Hashes: bytes.Repeat([]byte{0, 255}, 128*32)}
		w.update(func(tx hub.Tx) error { return tx.WriteTree().PutTile(short) })
		w.update(func(tx hub.Tx) error { return tx.WriteTree().PutTile(long) })
		w.store = w.reopen()

		w.view(func(r hub.Reader) error {
			got, err := r.Tree().Tile(1, 3)
			if err != nil || !reflect.DeepEqual(got, long) {
				w.Errorf("got %d hashes, %v", len(got.Hashes)/32, err)
			}
			for _, other := range []hub.Tile{{Level: 0, N: 3}, {Level: 1, N: 2}} {
				if _, err := r.Tree().Tile(other.Level, other.N); hub.CodeOf(err) != hub.CodeNotFound {
					w.Errorf("tile %d/%d: %v", other.Level, other.N, err)
				}
			}
			return nil
		})
	}},
	{"checkpoints are found by size, oldest or newest first, and replaced", func(w *world) {
		w.update(func(tx hub.Tx) error {
			for _, size := range []int64{30, 10, 20} {
				if err := tx.WriteTree().PutCheckpoint(hub.Checkpoint{Size: size, At: epoch, Note: "old\n"}); err != nil {
					return err
				}
			}
			if err := tx.WriteTree().PutCheckpoint(hub.Checkpoint{Size: 20, At: epoch, Note: "new\n"}); err != nil {
				return err
			}
			if err := tx.WriteTree().DropCheckpoint(25); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("one that is not there is dropped: %v", err)
			}
			return tx.WriteTree().DropCheckpoint(30)
		})
		w.view(func(r hub.Reader) error {
			got, err := r.Tree().Checkpoint(11)
			if want := (hub.Checkpoint{Size: 20, At: epoch, Note: "new\n"}); err != nil || !reflect.DeepEqual(got, want) {
				w.Errorf("of at least 11: got %+v, %v", got, err)
			}
			if _, err := r.Tree().Checkpoint(21); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("of at least 21: %v", err)
			}
			for newest, want := range map[bool]int64{false: 10, true: 20} {
				some, err := r.Tree().Checkpoints(0, newest, 1)
				if err != nil || len(some) != 1 || some[0].Size != want {
					w.Errorf("newest %v: got %v, %v", newest, some, err)
				}
			}
			if some, err := r.Tree().Checkpoints(20, false, 10); err != nil || len(some) != 0 {
				w.Errorf("after the last: got %v, %v", some, err)
			}
			return nil
		})
	}},
}
