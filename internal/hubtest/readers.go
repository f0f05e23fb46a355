package hubtest

import (
	"errors"

	"github.com/parley-agents/parley/hub"
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
			e, err := tx.Append(hub.Entry{At: m.CreatedAt, Actor: "ada", Action: hub.ActionMessageSent, Subject: string(m.ID), Outcome: hub.OutcomeOK})
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
	}},
}
