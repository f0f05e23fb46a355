package reservation_test

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A memory is the part of a store that reservations need, small enough to be copied for every
// state of the model. TestModelOnSQLite compares it with a real store.
type memory struct {
	hub.Store
	rows  []hub.Reservation
	waits []hub.FileWait
	views []hub.FileView
	notes []hub.FileNote
	meta  map[string]string
}

func (m *memory) clone() *memory {
	c := &memory{rows: slices.Clone(m.rows), waits: slices.Clone(m.waits), views: slices.Clone(m.views), notes: slices.Clone(m.notes), meta: make(map[string]string, len(m.meta))}
	for k, v := range m.meta {
		c.meta[k] = v
	}
	return c
}

func (m *memory) View(_ context.Context, fn func(hub.Reader) error) error {
	return fn(memoryTx{memory: m})
}

// Update changes the memory at once; an error of fn ends the test, because no step of the model
// fails inside a transaction.
func (m *memory) Update(_ context.Context, _ hub.Durability, fn func(hub.Tx) error) error {
	return fn(memoryTx{memory: m})
}

type memoryTx struct {
	hub.Tx
	memory *memory
}

func (t memoryTx) Reservations() hub.ReservationReader      { return memoryPart{t.memory} }
func (t memoryTx) WriteReservations() hub.ReservationWriter { return memoryPart{t.memory} }
func (t memoryTx) Append(e hub.Entry) (hub.Entry, error)    { return e, nil }

func (t memoryTx) Meta(key string) (string, error) {
	v, ok := t.memory.meta[key]
	if !ok {
		return "", hub.Errorf(hub.CodeNotFound, "memory.Meta", "no %s", key)
	}
	return v, nil
}

func (t memoryTx) PutMeta(key, value string) error {
	t.memory.meta[key] = value
	return nil
}

// A memoryPart is the reservations of a memory.
type memoryPart struct{ m *memory }

func (p memoryPart) OfTree(tree string) (out []hub.Reservation, _ error) {
	for _, r := range p.m.rows {
		if r.Tree.Path == tree {
			out = append(out, r)
		}
	}
	return out, nil
}

func (p memoryPart) OfAgent(agent hub.AgentID) (out []hub.Reservation, _ error) {
	for _, r := range p.m.rows {
		if agent == "" || r.Holder == agent {
			out = append(out, r)
		}
	}
	return out, nil
}

func (p memoryPart) Counts() (map[hub.AgentID]int, error) {
	out := map[hub.AgentID]int{}
	for _, r := range p.m.rows {
		if r.State == hub.ReservationHeld && !r.Pattern {
			out[r.Holder]++
		}
	}
	return out, nil
}

func (p memoryPart) Waits(tree string) (out []hub.FileWait, _ error) {
	for _, w := range p.m.waits {
		if tree == "" || w.Tree == tree {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(a, b hub.FileWait) int { return a.Since.Compare(b.Since.Time) })
	return out, nil
}

func (p memoryPart) Views(tree, path string) (out []hub.FileView, _ error) {
	for _, v := range p.m.views {
		if v.Tree == tree && v.Path == path {
			out = append(out, v)
		}
	}
	return out, nil
}

func (p memoryPart) Notes(agent hub.AgentID) (out []hub.FileNote, _ error) {
	for _, n := range p.m.notes {
		if n.Agent == agent {
			out = append(out, n)
		}
	}
	return out, nil
}

func (p memoryPart) Put(r hub.Reservation, was hub.ReservationState) error {
	i := slices.IndexFunc(p.m.rows, func(o hub.Reservation) bool { return o.Fence == r.Fence })
	switch {
	case was == "" && i < 0:
		p.m.rows = append(p.m.rows, r)
	case was == "" || i < 0 || p.m.rows[i].State != was:
		return hub.Errorf(hub.CodeConflict, "memory.Put", "reservation %s has changed", r.ID)
	case r.State == hub.ReservationOver:
		p.m.rows = slices.Delete(p.m.rows, i, i+1)
	default:
		p.m.rows[i] = r
	}
	return nil
}

func (p memoryPart) PutWait(w hub.FileWait) error {
	i := slices.IndexFunc(p.m.waits, func(o hub.FileWait) bool { return o.Tree == w.Tree && o.Path == w.Path && o.Agent == w.Agent })
	if i < 0 {
		p.m.waits = append(p.m.waits, w)
	} else {
		p.m.waits[i] = w
	}
	return nil
}

func (p memoryPart) RemoveWait(tree, path string, agent hub.AgentID) error {
	p.m.waits = slices.DeleteFunc(p.m.waits, func(o hub.FileWait) bool { return o.Tree == tree && o.Path == path && o.Agent == agent })
	return nil
}

func (p memoryPart) PutView(v hub.FileView) error {
	i := slices.IndexFunc(p.m.views, func(o hub.FileView) bool { return o.Tree == v.Tree && o.Path == v.Path && o.Agent == v.Agent })
	if i < 0 {
		p.m.views = append(p.m.views, v)
	} else {
		p.m.views[i] = v
	}
	return nil
}

func (p memoryPart) RemoveViews(before hub.Time, _ int) (int, error) {
	n := len(p.m.views)
	p.m.views = slices.DeleteFunc(p.m.views, func(v hub.FileView) bool { return v.At.Before(before.Time) })
	return n - len(p.m.views), nil
}

func (p memoryPart) AddNote(n hub.FileNote) error {
	p.m.notes = append(p.m.notes, n)
	return nil
}

func (p memoryPart) RemoveNotes(agent hub.AgentID) error {
	p.m.notes = slices.DeleteFunc(p.m.notes, func(n hub.FileNote) bool { return n.Agent == agent })
	return nil
}
