package reservation_test

import (
	"cmp"
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A memory is the part of a store that reservations need. Its lists are never changed in place:
// a writer replaces them, so that an assignment copies a memory. TestModelOnSQLite compares it
// with a real store.
type memory struct {
	rows  []hub.Reservation // by fences
	waits []hub.FileWait    // those that wait longest first, then by agent
	views []hub.FileView    // by tree, path and agent
	notes []hub.FileNote    // in order
	meta  []fact
}

// A fact is a key with its value.
type fact struct{ key, value string }

// A memoryStore is the hub.Store of a memory.
type memoryStore struct {
	hub.Store
	tx memoryTx
}

func newMemoryStore(m *memory) *memoryStore { return &memoryStore{tx: memoryTx{memory: m}} }

func (s *memoryStore) View(_ context.Context, fn func(hub.Reader) error) error { return fn(&s.tx) }

func (s *memoryStore) Update(_ context.Context, _ hub.Durability, fn func(hub.Tx) error) error {
	before := *s.tx.memory
	err := fn(&s.tx)
	if err != nil {
		*s.tx.memory = before
	}
	return err
}

// A memoryTx is a transaction on a memory. The journal is not kept.
type memoryTx struct {
	hub.Tx
	memory *memory
}

func (t *memoryTx) Reservations() hub.ReservationReader      { return t.memory }
func (t *memoryTx) WriteReservations() hub.ReservationWriter { return t.memory }
func (t *memoryTx) Append(e hub.Entry) (hub.Entry, error)    { return e, nil }

func (t *memoryTx) Meta(key string) (string, error) {
	for _, f := range t.memory.meta {
		if f.key == key {
			return f.value, nil
		}
	}
	return "", errNoMeta
}

var errNoMeta = hub.Errorf(hub.CodeNotFound, "memory.Meta", "no such fact")

func (t *memoryTx) PutMeta(key, value string) error {
	t.memory.meta = put(t.memory.meta, fact{key, value}, func(a, b fact) int { return cmp.Compare(a.key, b.key) })
	return nil
}

// put returns a copy of a sorted list in which v replaces the value that is equal in order, or is
// new.
func put[T any](list []T, v T, order func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(list, v, order)
	out := make([]T, 0, len(list)+1)
	out = append(out, list[:i]...)
	out = append(out, v)
	if found {
		i++
	}
	return append(out, list[i:]...)
}

// without returns the values of a list that remove does not report; the list itself if there is
// nothing to remove.
func without[T any](list []T, remove func(*T) bool) []T {
	n := 0
	for i := range list {
		if remove(&list[i]) {
			n++
		}
	}
	if n == 0 {
		return list
	}
	return matching(list, func(v *T) bool { return !remove(v) })
}

// matching returns the values of a list that keep reports, as a new list.
func matching[T any](list []T, keep func(*T) bool) (out []T) {
	for i := range list {
		if !keep(&list[i]) {
			continue
		}
		if out == nil {
			out = make([]T, 0, len(list)+1)
		}
		out = append(out, list[i])
	}
	return out
}

func (m *memory) OfTree(tree string) ([]hub.Reservation, error) {
	return matching(m.rows, func(r *hub.Reservation) bool { return r.Tree.Path == tree }), nil
}

func (m *memory) OfAgent(agent hub.AgentID) ([]hub.Reservation, error) {
	return matching(m.rows, func(r *hub.Reservation) bool { return agent == "" || r.Holder == agent }), nil
}

func (m *memory) Counts() (map[hub.AgentID]int, error) {
	out := map[hub.AgentID]int{}
	for _, r := range m.rows {
		if r.State == hub.ReservationHeld && !r.Pattern {
			out[r.Holder]++
		}
	}
	return out, nil
}

func (m *memory) Waits(tree string) ([]hub.FileWait, error) {
	return matching(m.waits, func(w *hub.FileWait) bool { return tree == "" || w.Tree == tree }), nil
}

func (m *memory) Views(tree, path string) ([]hub.FileView, error) {
	return matching(m.views, func(v *hub.FileView) bool { return v.Tree == tree && v.Path == path }), nil
}

func (m *memory) Notes(agent hub.AgentID) ([]hub.FileNote, error) {
	return matching(m.notes, func(n *hub.FileNote) bool { return n.Agent == agent }), nil
}

func (m *memory) Put(r hub.Reservation, was hub.ReservationState) error {
	i := slices.IndexFunc(m.rows, func(o hub.Reservation) bool { return o.Fence == r.Fence })
	isNew := was == "" && i < 0
	isThere := was != "" && i >= 0 && m.rows[i].State == was
	if !isNew && !isThere {
		return hub.Errorf(hub.CodeConflict, "memory.Put", "reservation %s has changed", r.ID)
	}
	if r.State == hub.ReservationOver {
		m.rows = without(m.rows, func(o *hub.Reservation) bool { return o.Fence == r.Fence })
		return nil
	}
	m.rows = put(m.rows, r, func(a, b hub.Reservation) int { return cmp.Compare(a.Fence, b.Fence) })
	return nil
}

func (m *memory) PutWait(w hub.FileWait) error {
	_ = m.RemoveWait(w.Tree, w.Path, w.Agent)
	m.waits = put(m.waits, w, func(a, b hub.FileWait) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Path, b.Path))
	})
	return nil
}

func (m *memory) RemoveWait(tree, path string, agent hub.AgentID) error {
	m.waits = without(m.waits, func(o *hub.FileWait) bool { return o.Tree == tree && o.Path == path && o.Agent == agent })
	return nil
}

func (m *memory) PutView(v hub.FileView) error {
	m.views = put(m.views, v, func(a, b hub.FileView) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Agent, b.Agent))
	})
	return nil
}

func (m *memory) RemoveViews(before hub.Time, _ int) (int, error) {
	n := len(m.views)
	m.views = without(m.views, func(v *hub.FileView) bool { return v.At.Before(before.Time) })
	return n - len(m.views), nil
}

func (m *memory) AddNote(n hub.FileNote) error {
	m.notes = append(slices.Clip(m.notes), n)
	return nil
}

func (m *memory) RemoveNotes(agent hub.AgentID) error {
	m.notes = without(m.notes, func(n *hub.FileNote) bool { return n.Agent == agent })
	return nil
}
