package records

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// recordRoot applies an entry about a root.
func (v *verifier) recordRoot(e hub.Entry) {
	switch e.Action {
	case hub.ActionRootAdded:
		v.roots[e.Subject] = e
	case hub.ActionRootRemoved:
		delete(v.roots, e.Subject)
	}
}

// checkRoots compares the roots in the store with the journal.
func (v *verifier) checkRoots(r hub.Reader) error {
	all, err := r.Roots()
	if err != nil || !v.complete {
		return err
	}
	for _, root := range all {
		switch e, ok := v.roots[root.Path]; {
		case !ok:
			v.find("root "+root.Path, notRecorded)
		case e.Actor != root.AddedBy || !e.At.Equal(root.AddedAt.Time):
			v.find("root "+root.Path, "it differs from what journal row %d recorded", e.Seq)
		}
		delete(v.roots, root.Path)
	}
	for _, path := range slices.Sorted(maps.Keys(v.roots)) {
		v.find("root "+path, missingThough, v.roots[path].Seq)
	}
	return nil
}
