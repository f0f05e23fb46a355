package reservation_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A step is one thing that can happen.
type step struct {
	name string
	can  func(*world) bool
	do   func(*stage)
	core bool // it is among the steps of TestModelCore
}

var steps = allSteps()

// allSteps returns the steps of the model. An edit of x has two steps, the question and the edit,
// so that those of two agents mix; so has a command whose text names no file. Steps that cannot
// matter are left out: a script while the other agent has reserved nothing, the death of an agent
// that has nothing, edits of the other files and jumps of the clock while nothing is reserved, a
// second read of the content of others. The clock is not set back twice before it has gone on.
func allSteps() (out []step) {
	add := func(name string, can func(*world) bool, do func(*stage)) {
		isOther := func(word string) bool { return strings.Contains(name, word) }
		isCore := !slices.ContainsFunc([]string{"edits", "script", "reserves", "person releases", "jumps", "starts again"}, isOther)
		out = append(out, step{name, can, do, isCore})
	}
	for i, name := range names {
		alive := func(w *world) bool { return w.agents[i].alive }
		online := func(w *world) bool { return w.agents[i].alive && !w.away }
		runs := func(w *world) bool { return w.agents[i].runs }
		agent := func(does string, can func(*world) bool, do func(*stage)) {
			add(fmt.Sprintf("%s %s", name, does), can, do)
		}

		agent("asks for x", alive, func(s *stage) { s.request(i, "", first) })
		agent("runs "+namedCommand, alive, func(s *stage) { s.edit(i, first, namedCommand) })
		agent("writes x", func(w *world) bool { return w.agents[i].files[first].asked != unset }, func(s *stage) { s.write(i, first, "") })
		agent("reads x", func(w *world) bool { return w.mayRead(i) }, func(s *stage) { s.read(i, first) })
		agent("commits x", func(w *world) bool { return w.agents[i].alive && w.isDirty(first) }, func(s *stage) { s.commit(i, first) })
		agent("throws x away", func(w *world) bool { return w.agents[i].alive && w.isDirty(first) }, func(s *stage) { s.restore(i, first) })
		agent("edits y", func(w *world) bool { return w.mayEdit(i, second) }, func(s *stage) { s.edit(i, second, "") })
		agent("edits x in the other tree", func(w *world) bool { return w.mayEdit(i, linked) }, func(s *stage) { s.edit(i, linked, "") })

		agent("runs a script", func(w *world) bool { return online(w) && !w.agents[i].runs && w.hasRows(1-i) }, func(s *stage) { s.begin(i) })
		agent("ends its script", runs, func(s *stage) { s.end(i, leaves) })
		agent("ends its script, which changed x", runs, func(s *stage) { s.end(i, changes) })
		agent("ends its script, which restored x", func(w *world) bool { return runs(w) && w.isDirty(first) }, func(s *stage) { s.end(i, restores) })

		agent("releases its files", func(w *world) bool { return online(w) && w.hasRows(i) }, func(s *stage) { s.release(i) })
		agent("reserves "+pattern, online, func(s *stage) { s.reserve(i) })
		agent("dies", func(w *world) bool { return w.agents[i].alive && w.isEngaged(i) }, func(s *stage) { s.die(i) })
		agent("comes back", func(w *world) bool { return !w.agents[i].alive }, func(s *stage) { s.comeBack(i) })
	}

	always := func(*world) bool { return true }
	online := func(w *world) bool { return !w.away }
	add("a person changes x", always, func(s *stage) { s.w.put(first, person) })
	add("a person restores x", func(w *world) bool { return w.isDirty(first) }, func(s *stage) { s.restored(first, person) })
	add("a person commits x", func(w *world) bool { return w.isDirty(first) }, func(s *stage) { s.personCommits(first) })
	add("a person releases x", func(w *world) bool { return !w.away && len(w.store.rows) > 0 }, func(s *stage) { s.personReleases(first) })

	add("a minute passes", always, func(s *stage) { s.pass(61 * time.Second) })
	add("16 minutes pass", always, func(s *stage) { s.pass(16 * time.Minute) })
	add("the clock jumps a day ahead", func(w *world) bool { return len(w.store.rows) > 0 }, func(s *stage) { s.w.now += 25 * time.Hour })
	add("the clock jumps an hour back", func(w *world) bool { return len(w.store.rows) > 0 && !w.isEarly() }, func(s *stage) { s.w.now -= time.Hour })

	isRunning := func(w *world) bool { return !w.away && (w.agents[0].runs || w.agents[1].runs) }
	add("the hub starts again", isRunning, func(s *stage) {
		s.restart()
		for i := range s.w.agents {
			s.w.agents[i].again = true
		}
	})
	add("the hub goes away", online, func(s *stage) { s.w.away = true })
	add("the hub answers again", func(w *world) bool { return w.away }, func(s *stage) { s.w.away = false })
	return out
}

// hasRows reports whether the store has reservations of an agent.
func (w *world) hasRows(i int) bool {
	for n := range w.store.rows {
		if w.store.rows[n].Holder == names[i] {
			return true
		}
	}
	return false
}

// mayRead reports whether an agent may read x: its content is new to the agent, or its own edit.
func (w *world) mayRead(i int) bool {
	current := w.files[first]
	isOwn := int(w.writers[current]) == i
	return w.agents[i].alive && (isOwn || w.agents[i].files[first].saw != current)
}

// mayEdit reports whether an agent may edit one of the other files: something is reserved, and it
// has not changed the file already.
func (w *world) mayEdit(i, p int) bool {
	return w.agents[i].alive && len(w.store.rows) > 0 && !w.agents[i].files[p].wrote
}

// isEngaged reports whether an agent has reserved, asked or begun something.
func (w *world) isEngaged(i int) bool {
	a := &w.agents[i]
	isEngaged := a.runs || w.hasRows(i)
	for p := range a.files {
		c := &a.files[p]
		isEngaged = isEngaged || c.waits || c.lapsed || c.asked != unset
	}
	return isEngaged
}

// isEarly reports whether something was done later than the time that the clock shows.
func (w *world) isEarly() bool {
	for n := range w.store.rows {
		if w.store.rows[n].Active.Sub(epoch) > w.now+time.Minute {
			return true
		}
	}
	for i := range w.agents {
		if w.agents[i].active > w.now+time.Minute {
			return true
		}
	}
	for n := range w.store.waits {
		if w.store.waits[n].Since.Sub(epoch) > w.now+time.Minute {
			return true
		}
	}
	return false
}
