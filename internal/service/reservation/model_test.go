package reservation_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// TestModel runs every sequence of steps of two agents, a person, a hub and a clock, up to a
// depth, against the real service, and checks in every state what the service promises. Equal
// states are visited once. PARLEY_MODEL_DEPTH sets the depth.
func TestModel(t *testing.T) {
	depth := 5
	if patience.Race {
		depth = 4 // the race detector makes it ten times slower; scripts/test runs it without, too
	}
	if v, err := strconv.Atoi(os.Getenv("PARLEY_MODEL_DEPTH")); err == nil {
		depth = v
	}
	explore(t, depth, func(step) bool { return true })
}

// TestModelCore runs longer sequences of the steps that concern one file: without scripts,
// patterns, other files and jumps of the clock. It runs with PARLEY_MODEL_CORE, the depth, in
// make model.
func TestModelCore(t *testing.T) {
	depth, err := strconv.Atoi(os.Getenv("PARLEY_MODEL_CORE"))
	if err != nil {
		t.Skip("it takes long: set PARLEY_MODEL_CORE=9, or use make model")
	}
	explore(t, depth, func(s step) bool { return s.core })
}

// explore runs every sequence of some steps up to a depth.
func explore(t *testing.T, depth int, chosen func(step) bool) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most of the memory is used once
	e := newExplorer()
	for i, s := range steps {
		if chosen(s) {
			e.chosen = append(e.chosen, i)
		}
	}
	level := []*world{e.start()}
	for d := 1; d <= depth && len(level) > 0; d++ {
		level = e.expand(level, d < depth)
		if e.broken != "" {
			t.Fatal(e.broken)
		}
		t.Logf("depth %d: %d states, %d steps", d, len(e.seen), e.steps.Load())
	}
	t.Logf("%d states within depth %d, %d steps, all as promised", len(e.seen), depth, e.steps.Load())
}

// An explorer visits the states of the model, breadth first. It divides a level among workers and
// takes their results in the order of the level, so that each run visits the same states.
type explorer struct {
	chosen  []int               // the steps
	seen    map[uint64]struct{} // the keys of all states
	steps   atomic.Int64
	workers []*worker
	broken  string // the first promise that did not hold, with the steps before
}

// A worker has what one goroutine needs.
type worker struct {
	stage    *stage
	promised map[uint64]struct{} // the keys of futures that were looked at
}

func newExplorer() *explorer {
	e := &explorer{seen: map[uint64]struct{}{}}
	for range runtime.GOMAXPROCS(0) {
		e.workers = append(e.workers, &worker{newStage(), map[uint64]struct{}{}})
	}
	return e
}

// start returns the first state.
func (e *explorer) start() *world {
	w := newWorld()
	e.seen[e.workers[0].stage.key.of(&w)] = struct{}{}
	return &w
}

// A found is a state that a step led to.
type found struct {
	key    uint64
	world  *world
	broken string
}

// block is how many states are expanded before their successors are compared.
const block = 4096

// expand returns the new states that one step from a level leads to; none of them if they are not
// kept.
func (e *explorer) expand(level []*world, keep bool) (next []*world) {
	for len(level) > 0 && e.broken == "" {
		n := min(block, len(level))
		list := level[:n]
		results := make([][]found, n)
		e.each(n, func(w *worker, i int) { results[i] = e.successors(w, list[i]) })

		var fresh []*world
		for i := range results {
			list[i] = nil // frees the memory
			fresh = append(fresh, e.merge(results[i])...)
		}
		e.check(fresh)
		if keep {
			next = append(next, fresh...)
		}
		level = level[n:]
	}
	return next
}

// each calls do for the numbers below n, with the workers beside each other.
func (e *explorer) each(n int, do func(w *worker, i int)) {
	var at atomic.Int64
	var group sync.WaitGroup
	for _, w := range e.workers {
		group.Go(func() {
			for {
				i := int(at.Add(1)) - 1
				if i >= n {
					return
				}
				do(w, i)
			}
		})
	}
	group.Wait()
}

// successors makes each step from a state and returns the states that were not seen before this
// block.
func (e *explorer) successors(w *worker, from *world) (out []found) {
	for _, i := range e.chosen {
		s := w.stage
		if !s.run(from, i) {
			continue
		}
		e.steps.Add(1)
		key := s.key.of(&s.w)
		_, isKnown := e.seen[key]
		if isKnown && s.broken == "" {
			continue
		}
		state := s.w
		out = append(out, found{key, &state, s.broken})
		s.broken = ""
	}
	return out
}

// merge returns the states that are new.
func (e *explorer) merge(list []found) (fresh []*world) {
	for _, f := range list {
		if f.broken != "" {
			e.fail(f.broken, f.world)
			return fresh
		}
		if _, isKnown := e.seen[f.key]; !isKnown {
			e.seen[f.key] = struct{}{}
			fresh = append(fresh, f.world)
		}
	}
	return fresh
}

// fail notes a broken promise, unless there is one.
func (e *explorer) fail(why string, w *world) {
	if e.broken == "" {
		e.broken = why + "\nafter: " + story(w.trail)
	}
}

// story returns steps in words.
func story(trail []uint8) string {
	var list []string
	for _, s := range trail {
		list = append(list, steps[s].name)
	}
	return strings.Join(list, ", ")
}

// check compares new states with the promises about their futures.
func (e *explorer) check(list []*world) {
	broken := make([]string, len(list))
	e.each(len(list), func(w *worker, i int) {
		broken[i] = w.afterDeath(list[i])
		if broken[i] == "" {
			broken[i] = w.afterSilence(list[i])
		}
	})
	for i, why := range broken {
		if why != "" {
			e.fail(why, list[i])
			return
		}
	}
}

// The futures of a state.
const (
	death = iota
	silence
	later
)

// isNew reports whether a future of the world of the stage was not looked at before.
func (w *worker) isNew(kind uint64) bool {
	key := w.stage.key.ofFuture(&w.stage.w) ^ kind
	_, isKnown := w.promised[key]
	w.promised[key] = struct{}{}
	return !isKnown
}

// afterDeath returns a promise that does not hold for the last live agent: it hears of the files
// for which it waits, and may change every file. The death was a step.
func (w *worker) afterDeath(from *world) string {
	last := 0
	if !from.agents[0].alive {
		last = 1
	}
	if from.away || !from.agents[last].alive || from.agents[1-last].alive {
		return ""
	}
	s := w.future(from)
	if !w.isNew(death) {
		return ""
	}
	for range 3 {
		s.pass(61 * time.Second)
	}
	if why := s.isFree(last); why != "" {
		return why + " after " + string(names[1-last]) + " is gone"
	}
	return ""
}

// afterSilence returns a promise that does not hold after both agents have shown no sign of life
// for longer than the time of idleness, also if the clock was set back. The hub has seen the
// changes of files.
func (w *worker) afterSilence(from *world) string {
	if from.away || !from.isSeen() {
		return ""
	}
	s := w.future(from)
	for i := range s.w.agents {
		s.w.agents[i].runs = false // its turn is over
	}
	if !w.isNew(silence) {
		return ""
	}
	s.pass(80 * time.Minute)
	if !w.isNew(later) {
		return s.broken
	}
	for range 3 {
		s.pass(61 * time.Second)
	}
	quiet := s.w
	for i := range names {
		if !quiet.agents[i].alive {
			continue
		}
		s := w.future(&quiet)
		if why := s.isFree(i); why != "" {
			return why + " after 80 minutes of silence"
		}
	}
	return s.broken
}

// isSeen reports whether the hub knows the present contents of the files that are reserved.
func (w *world) isSeen() bool {
	for i := range w.store.rows {
		r := &w.store.rows[i]
		if !r.Pattern && r.Found != digest(w.files[placeOf(r.Tree.Path, r.Path)]) {
			return false
		}
	}
	return true
}

// future puts a world on the stage.
func (w *worker) future(from *world) *stage {
	s := w.stage
	s.broken = ""
	s.w = *from
	s.resume()
	return s
}

// isFree returns a promise that does not hold for an agent that no other one disturbs: it was told
// of the files for which it waits, and may change every file, at the second try at the latest.
func (s *stage) isFree(i int) string {
	for p, c := range s.w.agents[i].files {
		if c.waits {
			return fmt.Sprintf("%s waits for %s and was not told", names[i], places[p].path)
		}
	}
	for p := range places {
		isDenied := true
		for try := 0; try < 2 && isDenied; try++ {
			isDenied = s.ask(i, reservation.Edit, "", p).Decision == reservation.Deny
		}
		if isDenied {
			return fmt.Sprintf("%s may not change %s in %s", names[i], places[p].path, places[p].tree)
		}
	}
	return s.broken
}
