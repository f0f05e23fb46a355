package hubtest

import (
	"slices"

	"github.com/parley-agents/parley/hub"
)

var rootTests = []storeTest{
	{"roots are kept by path until they are removed", func(w *world) {
		for _, path := range []string{"/b", "/a"} {
			w.update(func(tx hub.Tx) error { return tx.AddRoot(hub.Root{Path: path, AddedBy: hub.Operator, AddedAt: epoch}) })
		}
		w.update(func(tx hub.Tx) error { return tx.AddRoot(hub.Root{Path: "/c", AddedBy: hub.Operator, AddedAt: epoch}) })
		w.update(func(tx hub.Tx) error { return tx.RemoveRoot("/b") })
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Roots()
			want := []hub.Root{{Path: "/a", AddedBy: hub.Operator, AddedAt: epoch}, {Path: "/c", AddedBy: hub.Operator, AddedAt: epoch}}
			if !slices.EqualFunc(got, want, func(a, b hub.Root) bool {
				return a.Path == b.Path && a.AddedBy == b.AddedBy && a.AddedAt.Equal(b.AddedAt.Time)
			}) {
				w.Errorf("Roots: got %v, want %v", got, want)
			}
			return err
		})
	}},
	{"a path is a root once", func(w *world) {
		w.update(func(tx hub.Tx) error { return tx.AddRoot(hub.Root{Path: "/a", AddedBy: hub.Operator, AddedAt: epoch}) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.AddRoot(hub.Root{Path: "/a", AddedBy: hub.Operator, AddedAt: epoch}) })
	}},
	{"a path that is no root cannot be removed", func(w *world) {
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.RemoveRoot("/a") })
	}},
}
