package hubtest

import (
	"errors"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

var readerTests = []storeTest{
	{"messages and handoffs get short ids in order, each kind its own", func(w *world) {
		first, second := w.send("ada", "bob"), w.send("bob", "ada")
		h := w.hand("T-1", "ada", "bob")
		third := w.send("ada", "bob")
		w.view(func(r hub.Reader) error {
			for id, want := range map[string]hub.ShortID{
				string(first.ID): "m1", string(second.ID): "m2", string(third.ID): "m3", string(h.ID): "h1",
			} {
				short, err := r.ShortID(id)
				long, err2 := r.LongID(want)
				w.equal("short id", short, want)
				w.equal("long id", long, id)
				if err := errors.Join(err, err2); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{"a short id that was not given is not found", func(w *world) {
		w.send("ada", "bob")
		for _, s := range []hub.ShortID{"m2", "h1", "m0", "m01", "m", "x1", "1", "", "m-1", "m1 ", "m99999999999999999999"} {
			w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.LongID(s); return err })
		}
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.ShortID("nothing"); return err })
	}},
	{"a short id is not given again after its message was removed", func(w *world) {
		m := w.send("ada", "bob")
		w.update(func(tx hub.Tx) error {
			e, err := tx.Append(hub.Entry{At: m.CreatedAt, Actor: "ada", Action: actions.MessageSent, Subject: string(m.ID), Outcome: hub.OutcomeOK})
			if err != nil {
				return err
			}
			return tx.AddArchive(hub.Archive{Seq: e.Seq, Hash: e.Hash, Cutoff: m.CreatedAt.Add(1e9), File: "f", SHA256: "s", At: m.CreatedAt})
		})
		w.update(func(tx hub.Tx) error { _, err := tx.Prune(10); return err })
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Message(m.ID); return err })
		w.store = w.reopen()
		next := w.send("ada", "bob")
		w.view(func(r hub.Reader) error {
			got, err := r.ShortID(string(next.ID))
			w.equal("short id", got, hub.ShortID("m2"))
			return err
		})
	}},
	{"an artifact has the readers that were added", func(w *world) {
		w.update(func(tx hub.Tx) error {
			return errors.Join(tx.AddArtifactReader("abc", "ada"), tx.AddArtifactReader("abc", "ada"), tx.AddArtifactReader("def", "bob"))
		})
		w.view(func(r hub.Reader) error {
			ada, err := r.ReadsArtifact("abc", "ada")
			bob, err2 := r.ReadsArtifact("abc", "bob")
			w.equal("ada, bob", []bool{ada, bob}, []bool{true, false})
			return errors.Join(err, err2)
		})
		w.update(func(tx hub.Tx) error { return tx.RemoveArtifactReaders("abc") })
		w.readers("abc", "ada", false)
		w.readers("def", "bob", true)
	}},
	{"the readers of an artifact leave with the last message that names it", func(w *world) {
		naming := func(sums ...string) hub.Message {
			m := w.message("ada", "bob")
			m.Context = &hub.Context{}
			for _, sum := range sums {
				m.Context.Artifacts = append(m.Context.Artifacts, hub.ArtifactRef{Type: "file", Path: "/x", SHA256: sum})
			}
			return w.add(m)
		}
		old := naming("old", "again", "kept")
		var end hub.Entry
		put := func(tx hub.Tx, sum string) (e hub.Entry, err error) {
			return tx.Append(hub.Entry{At: old.CreatedAt, Actor: "ada", Action: actions.ArtifactPut, Subject: sum, Outcome: hub.OutcomeOK})
		}
		w.update(func(tx hub.Tx) (err error) {
			for _, sum := range []string{"old", "again", "kept", "unsent"} {
				if err := errors.Join(tx.AddArtifactReader(sum, "ada"), tx.AddArtifactReader(sum, "bob")); err != nil {
					return err
				}
			}
			if end, err = put(tx, "old"); err != nil {
				return err
			}
			_, err = put(tx, "again")
			return err
		})
		naming("kept")
		w.update(func(tx hub.Tx) error {
			return tx.AddArchive(hub.Archive{Seq: end.Seq, Hash: end.Hash, Cutoff: old.CreatedAt.Add(1e6), File: "f", SHA256: "s", At: old.CreatedAt})
		})
		w.update(func(tx hub.Tx) error { _, err := tx.Prune(10); return err })
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Message(old.ID); return err })
		w.readers("old", "ada", false)
		w.readers("old", "bob", false)
		w.readers("again", "ada", true) // stored after the archive
		w.readers("again", "bob", false)
		w.readers("kept", "bob", true)
		w.readers("unsent", "ada", true)
	}},
}

// readers checks whether an agent may read an artifact.
func (w *world) readers(sum string, agent hub.AgentID, want bool) {
	w.Helper()
	w.view(func(r hub.Reader) error {
		got, err := r.ReadsArtifact(sum, agent)
		w.equal(string(agent)+" reads "+sum, got, want)
		return err
	})
}
