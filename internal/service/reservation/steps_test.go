package reservation_test

import (
	"fmt"
	"time"
)

// A step is one thing that can happen.
type step struct {
	name string
	can  func(*world) bool
	do   func(*stage)
}

var steps = allSteps()

// allSteps returns the steps of the model. An edit of x has two steps, the question and the edit,
// so that those of two agents mix; so has a command whose text names no file. The clock jumps once
// at most.
func allSteps() (out []step) {
	add := func(name string, can func(*world) bool, do func(*stage)) {
		out = append(out, step{name, can, do})
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
		agent("reads x", alive, func(s *stage) { s.read(i, first) })
		agent("commits x", alive, func(s *stage) { s.commit(i, first) })
		agent("edits y", alive, func(s *stage) { s.edit(i, second, "") })
		agent("edits x in the other tree", alive, func(s *stage) { s.edit(i, linked, "") })

		agent("runs a script", func(w *world) bool { return w.agents[i].alive && !w.agents[i].runs }, func(s *stage) { s.begin(i) })
		agent("ends its script", runs, func(s *stage) { s.end(i, false) })
		agent("ends its script, which changed x", runs, func(s *stage) { s.end(i, true) })

		agent("releases its files", online, func(s *stage) { s.release(i) })
		agent("reserves "+pattern, online, func(s *stage) { s.reserve(i) })
		agent("dies", alive, func(s *stage) { s.die(i) })
		agent("comes back", func(w *world) bool { return !w.agents[i].alive }, func(s *stage) { s.comeBack(i) })
	}

	always := func(*world) bool { return true }
	online := func(w *world) bool { return !w.away }
	add("a person changes x", always, func(s *stage) { s.w.put(first, person) })
	add("a person commits x", always, func(s *stage) { s.personCommits(first) })
	add("a person releases x", online, func(s *stage) { s.personReleases(first) })

	add("a minute passes", always, func(s *stage) { s.pass(61 * time.Second) })
	add("16 minutes pass", always, func(s *stage) { s.pass(16 * time.Minute) })
	jump := func(name string, d time.Duration) {
		add("the clock jumps "+name, func(w *world) bool { return !w.jumped }, func(s *stage) {
			s.w.now += d
			s.w.jumped = true
		})
	}
	jump("a day ahead", 25*time.Hour)
	jump("an hour back", -time.Hour)

	isRunning := func(w *world) bool { return !w.away && (w.agents[0].runs || w.agents[1].runs) }
	add("the hub starts again", isRunning, func(s *stage) {
		s.restart()
		for i := range s.w.agents {
			s.w.agents[i].compared = false
		}
	})
	add("the hub goes away", online, func(s *stage) { s.w.away = true })
	add("the hub answers again", func(w *world) bool { return w.away }, func(s *stage) { s.w.away = false })
	return out
}
