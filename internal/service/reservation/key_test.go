package reservation_test

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// A keyMaker makes the key of a state: equal for states that behave alike.
//
//   - Both agents follow one program: of the two descriptions of a state, with ada first and with
//     bob first, the smaller one counts.
//   - A content is only compared with the present content of its file and with the committed one, to
//     which no older content returns: each content is the present one, the committed one, or an old one.
//   - Times are ages in classes that no sequence of steps within the depth tells apart. Ages above
//     every bound are one class, although a clock that is set back could tell them apart.
//
// The key of a future leaves out what no longer matters after the time that passes first: ages
// below it, and edits and commands that were begun.
//
// The key is a hash of 64 bits. Among a million states two with one key have a probability below
// one in ten million.
type keyMaker struct {
	w      *world
	future bool // make the key of a future
	out    []byte
	swap   []byte
}

var keySeed = maphash.MakeSeed()

// of returns the key of a world.
func (k *keyMaker) of(w *world) uint64 {
	k.w = w
	k.out = k.describe(k.out[:0], 0)
	k.swap = k.describe(k.swap[:0], 1)
	if bytes.Compare(k.out, k.swap) > 0 {
		return maphash.Bytes(keySeed, k.swap)
	}
	return maphash.Bytes(keySeed, k.out)
}

// ofFuture returns the key of a future of a world.
func (k *keyMaker) ofFuture(w *world) uint64 {
	k.future = true
	defer func() { k.future = false }()
	return k.of(w)
}

// describe appends a description of the world in which the agent with the given number is first.
func (k *keyMaker) describe(b []byte, lead int) []byte {
	w := k.w
	b = append(b, bits(w.away, w.wasToldOverlap()))
	for p := range files {
		b = append(b, k.writer(w.files[p], lead), bits(w.isDirty(p), w.back[p]))
	}
	for n := range w.agents {
		b = k.agent(b, n^lead)
	}
	isFirst := w.agents[lead].since < w.agents[1-lead].since
	hasBoth := w.agents[0].pattern != unset && w.agents[1].pattern != unset && !k.future
	b = append(b, bits(hasBoth && isFirst))
	return k.stored(b, lead)
}

// bits returns up to eight truths as a byte.
func bits(list ...bool) (b byte) {
	for i, v := range list {
		if v {
			b |= 1 << i
		}
	}
	return b
}

// writer returns the class of the writer of a content: the first agent, the second, or others.
func (k *keyMaker) writer(c content, lead int) byte {
	n := int(k.w.writers[c])
	if n >= person {
		return person
	}
	return byte(n ^ lead)
}

// content returns the class of a content of a file.
func (k *keyMaker) content(c content, p int) byte {
	switch {
	case c == never:
		return 0
	case c == k.w.files[p]:
		return 1
	case c == k.w.head[p]:
		return 3
	}
	return 2
}

// digest returns the class of the digest of a content.
func (k *keyMaker) digest(d string, p int) byte {
	if d == "" {
		return 0
	}
	n, _ := strconv.Atoi(d[1:])
	return k.content(content(n), p)
}

// age returns the class of a moment: the number of bounds that its age has reached. The age of a
// moment in the future is counted in steps of 16 minutes.
func (k *keyMaker) age(at moment, bounds ...time.Duration) byte {
	if at == unset {
		return 255
	}
	if k.future {
		return 0
	}
	age := k.w.now - at
	if age < 0 {
		return 128 + byte(-age/(16*time.Minute))
	}
	class := byte(0)
	for _, bound := range bounds {
		if age >= bound {
			class++
		}
	}
	return class
}

func (k *keyMaker) stamp(t hub.Time, bounds ...time.Duration) byte {
	if t.IsZero() {
		return 255
	}
	return k.age(t.Sub(epoch), bounds...)
}

// left returns the class of the time until a moment, in steps of 16 minutes.
func (k *keyMaker) left(until moment) byte {
	if until == unset || until <= k.w.now || k.future {
		return 0
	}
	return 1 + byte((until-k.w.now)/(16*time.Minute))
}

// agent appends the model's record of an agent.
func (k *keyMaker) agent(b []byte, i int) []byte {
	a := &k.w.agents[i]
	b = append(b, bits(a.alive, a.runs && !k.future, a.compared && !k.future, a.blamed && !k.future, a.again && !k.future), k.left(a.pattern))
	if a.alive && k.w.isEngaged(i) {
		b = append(b, k.age(a.active, idleTime))
	}
	for p := range a.files {
		c := &a.files[p]
		base, asked := byte(0), byte(0)
		if !k.future {
			asked = k.age(c.asked, editTime)
		}
		if c.holds {
			base = k.content(c.base, p)
		}
		b = append(b, bits(c.holds, c.wrote, c.waits, c.left, c.lapsed, c.unseen, c.broken, c.kept), bits(c.hidden), asked, base, k.content(c.saw, p), k.content(c.warned, p))
	}

	if k.future || len(k.w.watched) == 0 {
		return b
	}
	watched := reservation.Watching(k.w.watched, names[i], k.w.session(i), places[first].tree, script)
	for p := range linked {
		d, ok := watched[places[p].path]
		if ok {
			b = append(b, 'w', k.digest(d, p))
		}
	}
	return b
}

// number returns the number of an agent in a description.
func number(name hub.AgentID, lead int) byte {
	if name == names[lead] {
		return 0
	}
	return 1
}

// stored appends what the service has stored.
func (k *keyMaker) stored(b []byte, lead int) []byte {
	m := &k.w.store
	for i := range m.rows {
		b = k.row(b, &m.rows[i], lead)
	}
	for i := range m.waits {
		v := &m.waits[i]
		b = append(b, 'q', byte(placeOf(v.Tree, v.Path)), number(v.Agent, lead), bits(v.Warned))
		b = append(b, k.stamp(v.Since, 14*time.Minute, 30*time.Minute), k.stamp(v.Told, 59*time.Second, 2*time.Minute))
	}
	for p := range files {
		for n := range names {
			b = k.view(b, p, n^lead)
		}
	}
	for n := range names {
		b = append(b, k.lapsed(names[n^lead]))
	}
	return k.commands(b, lead)
}

// commands appends the commands that the service has stored.
func (k *keyMaker) commands(b []byte, lead int) []byte {
	if k.future {
		return b
	}
	for _, c := range reservation.StoredCommands(&memoryTx{memory: &k.w.store}) {
		i := slices.Index(names[:], c.Agent)
		isPresent := c.Session == k.w.session(i)
		b = append(b, 'c', number(c.Agent, lead), bits(isPresent, c.Commits), k.stamp(c.Since, time.Hour))
	}
	return b
}

// row appends a reservation. Nothing but its file and holder matters of an orphan.
func (k *keyMaker) row(b []byte, r *hub.Reservation, lead int) []byte {
	p := placeOf(r.Tree.Path, r.Path)
	holder := number(r.Holder, lead)
	if r.State == hub.ReservationOrphan {
		return append(b, 'o', byte(p), holder)
	}
	i := slices.Index(names[:], r.Holder)
	isPresent := r.Session == k.w.session(i)
	b = append(b, 'r', byte(p), holder, bits(r.Changed, isPresent, r.State == hub.ReservationWaiting))
	if r.Pattern {
		return append(b, k.left(r.Until.Sub(epoch)))
	}
	isAtHead := r.Head == digest(k.w.head[p])
	return append(b, bits(isAtHead), k.stamp(r.Active, idleTime), k.stamp(r.Asked, editTime), k.digest(r.Base, p), k.digest(r.Digest, p), k.digest(r.Found, p))
}

// view appends what the store says an agent saw of a file.
func (k *keyMaker) view(b []byte, p, i int) []byte {
	for n := range k.w.store.views {
		v := &k.w.store.views[n]
		if v.Agent == names[i] && placeOf(v.Tree, v.Path) == p {
			return append(b, bits(v.Wrote), k.digest(v.Stale, p), k.digest(v.Digest, p))
		}
	}
	return append(b, 255)
}

// lapsed returns the files about whose end an agent will be told.
func (k *keyMaker) lapsed(name hub.AgentID) (b byte) {
	for i := range k.w.store.notes {
		n := &k.w.store.notes[i]
		if n.Agent == name && n.Kind == reservation.NoteLapsed {
			b |= 1 << (n.Path[0] - 'x')
		}
	}
	return b
}
