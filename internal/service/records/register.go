package records

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A register holds the things of one kind as they follow from the journal, by name:
// agents, keys, roots, archives, and items, of which it holds the digest. Entries fill
// it; the things in the store are then checked one by one, and the rest is missing.
type register[T any] map[string]*recorded[T]

// A recorded is one thing, and the number of the entry that recorded it.
type recorded[T any] struct {
	Want T     `json:"want"`
	Row  int64 `json:"row"`
}

// put records a thing in its newest state.
func (g register[T]) put(id string, want T, e hub.Entry) { g[id] = &recorded[T]{want, e.Seq} }

// check compares a thing in the store with its record, and removes the record. differs
// returns a sentence about the difference, empty if there is none.
func (g register[T]) check(v *verifier, kind, id string, differs func(want T, row int64) string) {
	r, ok := g[id]
	delete(g, id)
	what := ""
	switch {
	case ok:
		what = differs(r.Want, r.Row)
	case v.Complete:
		what = notRecorded
	}
	if what != "" {
		v.find(kind+" "+id, "%s", what)
	}
}

// missing reports the things that the store does not have.
func (g register[T]) missing(v *verifier, kind string) {
	for _, id := range slices.Sorted(maps.Keys(g)) {
		v.find(kind+" "+id, missingThough, g[id].Row)
	}
}
