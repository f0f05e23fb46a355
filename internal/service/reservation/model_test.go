package reservation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// TestModel runs every sequence of steps of two agents, a person, a hub and a clock, up to a
// depth, against the real service, and checks in every state what the service promises. Equal
// states are visited once. PARLEY_MODEL_DEPTH sets the depth.
func TestModel(t *testing.T) {
	depth := 5
	if v, err := strconv.Atoi(os.Getenv("PARLEY_MODEL_DEPTH")); err == nil {
		depth = v
	}
	e := &explorer{t: t, seen: map[string]bool{}}
	start := newWorld()
	e.seen[start.key()] = true
	level := []*world{start}
	for d := 1; d <= depth && len(level) > 0 && !t.Failed(); d++ {
		level = e.next(level)
		t.Logf("depth %d: %d new states, %d steps so far", d, len(level), e.steps)
	}
	t.Logf("%d states, %d steps, depth %d", len(e.seen), e.steps, depth)
}

// An explorer visits the states of the model.
type explorer struct {
	t     *testing.T
	seen  map[string]bool
	steps int
}

// next returns the new states that one step from a level leads to.
func (e *explorer) next(level []*world) (out []*world) {
	for _, w := range level {
		for _, s := range steps {
			if s.can != nil && !s.can(w) {
				continue
			}
			next := w.clone()
			next.path = append(slices.Clip(w.path), s.name)
			s.do(next)
			e.steps++
			if next.broken != "" {
				e.t.Fatalf("%s\nafter: %s", next.broken, strings.Join(next.path, ", "))
			}
			key := next.key()
			if e.seen[key] {
				continue
			}
			e.seen[key] = true
			if why := next.promises(); why != "" {
				e.t.Fatalf("%s\nafter: %s", why, strings.Join(next.path, ", "))
			}
			out = append(out, next)
		}
	}
	return out
}

const (
	one    = "/w/one"
	two    = "/w/two" // another working tree of the same repository
	person = "person"
	script = "script" // a command whose text does not say what it writes
)

// A place is a file of a working tree.
type place struct{ tree, path string }

var places = []place{{one, "x"}, {one, "y"}, {two, "x"}}

// A world is a state of the model: files, agents, the clock, and the store of the service. Contents
// of files are numbers; author says who wrote each.
type world struct {
	mem    *memory
	now    time.Time
	files  map[place]int // content
	head   map[place]int // committed content
	author []string
	agents map[hub.AgentID]*agent

	watching map[string]map[string]int // contents before a command of an agent, by agent
	service  *reservation.Service
	path     []string
	broken   string // a promise that a step broke
	told     []hub.AgentID
}

// An agent is the model's own record of an agent: what it did and saw.
type agent struct {
	name    hub.AgentID
	session int
	alive   bool
	active  time.Time
	allowed map[place]time.Time // edits that were allowed and not made yet
	wrote   map[place]time.Time // edits that are not committed, released or left
	saw     map[place]int       // content that it read or wrote last
	warned  map[place]int       // content about which it was warned
	waits   map[place]bool      // files that it was refused and has not been told about
}

func newWorld() *world {
	w := &world{
		mem: &memory{meta: map[string]string{}}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		files: map[place]int{}, head: map[place]int{}, author: []string{person}, agents: map[hub.AgentID]*agent{},
	}
	for _, name := range []hub.AgentID{"ada", "bob"} {
		w.agents[name] = &agent{name: name, alive: true, active: w.now, allowed: map[place]time.Time{}, wrote: map[place]time.Time{}, saw: map[place]int{}, warned: map[place]int{}, waits: map[place]bool{}}
	}
	w.restart()
	return w
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func (w *world) clone() *world {
	c := &world{mem: w.mem.clone(), now: w.now, files: cloneMap(w.files), head: cloneMap(w.head), author: slices.Clip(w.author), agents: map[hub.AgentID]*agent{}}
	for name, a := range w.agents {
		b := *a
		b.allowed = cloneMap(a.allowed)
		b.wrote = cloneMap(a.wrote)
		b.saw = cloneMap(a.saw)
		b.warned = cloneMap(a.warned)
		b.waits = cloneMap(a.waits)
		c.agents[name] = &b
	}
	c.restart()
	return c
}

// restart makes a new service on the store, as a hub that starts again does. What the service
// keeps in memory is lost; the model's commands begin and end within one step.
func (w *world) restart() {
	s, err := reservation.New(w.mem, w, w, w, &reservation.Options{Clock: func() time.Time { return w.now }})
	if err != nil {
		panic(err)
	}
	w.service = s
}

// The world is the Trees, the Sessions and the Mail of the service.

func (w *world) Tree(_ context.Context, path string) (hub.WorkingTree, error) {
	return hub.WorkingTree{Path: path, Repository: "/w/one/.git"}, nil
}

func (w *world) Names(_ context.Context, t hub.WorkingTree, paths []string) (out []string, _ error) {
	for _, p := range paths {
		out = append(out, strings.TrimPrefix(filepath.ToSlash(p), t.Path+"/"))
	}
	return out, nil
}

func digest(content int) string { return fmt.Sprintf("d%d", content) }

func (w *world) Files(_ context.Context, t hub.WorkingTree, names []string) (map[string]reservation.File, error) {
	out := map[string]reservation.File{}
	for _, n := range names {
		p := place{t.Path, n}
		out[n] = reservation.File{Digest: digest(w.files[p]), Clean: w.files[p] == w.head[p], Tracked: true}
	}
	return out, nil
}

func (w *world) Count(context.Context, hub.WorkingTree, string, int) (int, error) { return 1, nil }
func (w *world) Differs(context.Context, hub.WorkingTree, string, []string) ([]string, error) {
	return nil, nil
}
func (w *world) Staged(context.Context, hub.WorkingTree) ([]string, error) { return nil, nil }
func (w *world) Difference(context.Context, hub.WorkingTree, string) (reservation.Difference, error) {
	return reservation.Difference{Text: "-a\n+b\n", Lines: 2}, nil
}

func session(a *agent) string { return fmt.Sprintf("%s-%d", a.name, a.session) }

func (w *world) Life(_ hub.Reader, name hub.AgentID, s string) (reservation.Life, error) {
	a := w.agents[name]
	isOld := s != session(a)
	return reservation.Life{Known: true, Over: isOld || !a.alive, Seen: hub.At(a.active)}, nil
}

func (w *world) Notify(_ hub.Tx, e hub.Envelope) (hub.Message, error) {
	var p struct{ Tree, Path, Summary string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return hub.Message{}, err
	}
	if a := w.agents[e.To[0]]; a != nil && strings.HasSuffix(p.Summary, "is free") {
		delete(a.waits, place{p.Tree, p.Path})
	}
	return hub.Message{}, nil
}

func (w *world) KeepText(string) (hub.ArtifactRef, error) {
	return hub.ArtifactRef{SHA256: "kept"}, nil
}
func (w *world) Announce(...hub.Message) {}

// breaks notes a broken promise.
func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// ask asks the service as an agent.
func (w *world) ask(a *agent, p place, k reservation.Kind, command string) reservation.Answer {
	a.active = w.now
	q := reservation.Question{Tree: p.tree, Kind: k, Session: session(a), Command: command}
	if command == "" {
		q.Paths = []string{p.path}
	}
	got, err := w.service.Ask(context.Background(), hub.Caller{Kind: hub.CallerAgent, ID: a.name}, q)
	if err != nil {
		w.breaks("%s asks about %s: %v", a.name, p.path, err)
	}
	return got
}

// put gives a file new content.
func (w *world) put(p place, by string) {
	w.author = append(w.author, by)
	w.files[p] = len(w.author) - 1
}

// protected reports whether an agent holds a file by the promises: its edit was allowed a moment
// ago, or it has made one that is not committed, and it has shown a sign of life within the time
// of idleness.
func (w *world) protected(a *agent, p place) bool {
	at, isAllowed := a.allowed[p]
	_, hasWritten := a.wrote[p]
	isFresh := isAllowed && w.now.Sub(at) < time.Minute
	isActive := w.now.Sub(a.active) < reservation.DefaultIdle
	return a.alive && isActive && (isFresh || (hasWritten && w.files[p] != w.head[p]))
}

// judge compares the answer to an edit with the promises.
func (w *world) judge(a *agent, p place, got reservation.Answer) {
	current := w.files[p]
	for _, other := range w.agents {
		if other != a && w.protected(other, p) && got.Decision == reservation.Allow {
			w.breaks("%s may change %s in %s, which %s is changing", a.name, p.path, p.tree, other.name)
		}
	}
	writer := w.author[current]
	saw, hasSeen := a.saw[p]
	isForeign := writer != person && writer != script && writer != string(a.name)
	if hasSeen && saw != current && isForeign && a.warned[p] != current && got.Decision == reservation.Allow {
		w.breaks("%s may change %s, which %s changed since it read it", a.name, p.path, writer)
	}
	switch got.Reason {
	case reservation.ReasonStale:
		a.warned[p] = current
	case reservation.ReasonHeld, reservation.ReasonShell:
		a.waits[p] = true
	}
	if got.Decision == reservation.Allow {
		delete(a.waits, p)
	}
}

// release ends what the model's agent holds of a file.
func (a *agent) release(p place) {
	delete(a.allowed, p)
	delete(a.wrote, p)
}

// committed notes that a file is committed. The reservations of agents that have changed it end.
func (w *world) committed(p place) {
	hasChanged := w.head[p] != w.files[p]
	w.head[p] = w.files[p]
	for _, a := range w.agents {
		if _, hasWritten := a.wrote[p]; hasWritten || hasChanged {
			a.release(p)
		}
	}
}

// A step is one thing that can happen.
type step struct {
	name string
	can  func(*world) bool
	do   func(*world)
}

var steps = allSteps()

func allSteps() (out []step) {
	add := func(name string, can func(*world) bool, do func(*world)) { out = append(out, step{name, can, do}) }
	for _, name := range []hub.AgentID{"ada", "bob"} {
		alive := func(w *world) bool { return w.agents[name].alive }
		for _, p := range places {
			label := func(verb string) string {
				return fmt.Sprintf("%s %s %s in %s", name, verb, p.path, filepath.Base(p.tree))
			}
			granted := func(w *world) bool { _, ok := w.agents[name].allowed[p]; return ok && w.agents[name].alive }
			add(label("asks for"), alive, func(w *world) { w.asks(w.agents[name], p) })
			add(label("writes"), granted, func(w *world) { w.writes(w.agents[name], p) })
			if p.tree == two {
				continue // enough to see overlaps
			}
			add(label("reads"), alive, func(w *world) { w.reads(w.agents[name], p) })
			add(label("writes by a command"), alive, func(w *world) { w.runs(w.agents[name], p, "echo x > "+p.path) })
			add(label("writes by a script"), alive, func(w *world) { w.runs(w.agents[name], p, "make") })
			add(label("commits"), alive, func(w *world) { w.commits(w.agents[name], p) })
			add(label("releases"), alive, func(w *world) { w.releases(w.agents[name], p) })
		}
		add(string(name)+" dies", alive, func(w *world) { w.dies(w.agents[name]) })
		add(string(name)+" comes back", func(w *world) bool { return !w.agents[name].alive }, func(w *world) { w.back(w.agents[name]) })
	}
	for _, p := range places[:1] {
		add("a person changes "+p.path, nil, func(w *world) { w.put(p, person) })
		add("a person commits "+p.path, nil, func(w *world) { w.personCommits(p) })
	}
	add("a minute passes", nil, func(w *world) { w.passes(61 * time.Second) })
	add("16 minutes pass", nil, func(w *world) { w.passes(16 * time.Minute) })
	add("the hub starts again", nil, func(w *world) { w.restart() })
	return out
}

func (w *world) asks(a *agent, p place) {
	got := w.ask(a, p, reservation.Edit, "")
	w.judge(a, p, got)
	if got.Decision == reservation.Allow {
		a.allowed[p] = w.now
	}
}

// writes makes an edit that was allowed and reports its end.
func (w *world) writes(a *agent, p place) {
	w.put(p, string(a.name))
	a.saw[p] = w.files[p]
	delete(a.allowed, p)
	a.wrote[p] = w.now
	w.ask(a, p, reservation.After, "")
}

func (w *world) reads(a *agent, p place) {
	a.saw[p] = w.files[p]
	w.ask(a, p, reservation.Read, "")
}

// runs runs a command that writes a file. The text of a script does not say so.
func (w *world) runs(a *agent, p place, command string) {
	got := w.ask(a, p, reservation.Edit, command)
	isScript := command == "make"
	for _, other := range w.agents {
		if !isScript && other != a && w.protected(other, p) && got.Decision == reservation.Allow {
			w.breaks("a command of %s may change %s, which %s is changing", a.name, p.path, other.name)
		}
	}
	if got.Decision == reservation.Deny {
		a.waits[p] = true
		return
	}

	var holder *agent
	for _, other := range w.agents {
		_, isWriting := other.allowed[p]
		if other != a && w.protected(other, p) && !isWriting {
			holder = other
		}
	}
	if isScript {
		w.put(p, script)
	} else {
		w.put(p, string(a.name))
		a.saw[p] = w.files[p]
	}
	after := w.ask(a, p, reservation.After, command)
	isTold := slices.ContainsFunc(after.Notes, func(n reservation.Note) bool { return n.Kind == reservation.NoteViolation && n.Path == p.path })
	if holder != nil && !isTold {
		w.breaks("a script of %s changed %s, which %s is changing, and nothing was said", a.name, p.path, holder.name)
	}
}

func (w *world) commits(a *agent, p place) {
	got := w.ask(a, p, reservation.Commit, "")
	for _, other := range w.agents {
		if other != a && w.protected(other, p) && got.Decision == reservation.Allow {
			w.breaks("%s may commit %s, which %s is changing", a.name, p.path, other.name)
		}
	}
	if got.Decision == reservation.Deny {
		a.waits[p] = true
		return
	}
	w.committed(p)
	w.ask(a, p, reservation.After, "")
	a.saw[p] = w.files[p]
}

func (w *world) personCommits(p place) {
	got, err := w.service.Ask(context.Background(), hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}, reservation.Question{Tree: p.tree, Paths: []string{p.path}, Kind: reservation.Commit})
	if err != nil || got.Decision != reservation.Allow {
		w.breaks("a person may not commit %s: %v %v", p.path, got, err)
	}
	w.committed(p)
}

func (w *world) releases(a *agent, p place) {
	a.active = w.now
	a.release(p)
	_, err := w.service.Release(context.Background(), hub.Caller{Kind: hub.CallerAgent, ID: a.name}, reservation.Release{Tree: p.tree, Paths: []string{p.path}})
	if code := hub.CodeOf(err); err != nil && code != hub.CodeNotFound && code != hub.CodeDenied {
		w.breaks("%s releases %s: %v", a.name, p.path, err)
	}
}

func (w *world) dies(a *agent) {
	a.alive = false
	for _, p := range places {
		a.release(p)
		delete(a.waits, p)
	}
}

func (w *world) back(a *agent) {
	a.alive = true
	a.session++
	a.active = w.now
}

func (w *world) passes(d time.Duration) {
	w.now = w.now.Add(d)
	w.sweep()
}

func (w *world) sweep() {
	if err := w.service.Sweep(context.Background()); err != nil {
		w.breaks("sweep: %v", err)
	}
}

// promises returns a promise about the future that does not hold in the state: after every other
// agent is gone, an agent may change every file, at the second try at the latest, and agents that
// wait were told.
func (w *world) promises() string {
	for _, name := range []hub.AgentID{"ada", "bob"} {
		later := w.clone()
		for other, a := range later.agents {
			if other != name && a.alive {
				later.dies(a)
			}
		}
		a := later.agents[name]
		if !a.alive {
			later.back(a)
		}
		for range 3 {
			later.passes(61 * time.Second)
		}
		if len(a.waits) > 0 {
			return fmt.Sprintf("%s waits for %v and was not told", name, a.waits)
		}
		for _, p := range places {
			if later.ask(a, p, reservation.Edit, "").Decision == reservation.Deny && later.ask(a, p, reservation.Edit, "").Decision == reservation.Deny {
				return fmt.Sprintf("%s may not change %s in %s after the others are gone", name, p.path, p.tree)
			}
		}
		if later.broken != "" {
			return later.broken
		}
	}
	return ""
}

// key names a state. Contents are numbered in the order of their first appearance and times are
// ages, so that states which behave alike have one name.
func (w *world) key() string {
	k := &namer{w: w, numbers: map[int]int{}}
	for _, p := range places {
		k.content(w.files[p])
		k.content(w.head[p])
	}
	for _, name := range []hub.AgentID{"ada", "bob"} {
		a := w.agents[name]
		k.add(a.alive, k.age(hub.At(a.active)))
		for _, p := range places {
			k.time(a.allowed, p)
			k.time(a.wrote, p)
			k.known(a.saw, p)
			k.known(a.warned, p)
			k.add(a.waits[p])
		}
	}
	k.store()
	return k.b.String()
}

// A namer writes the name of a state.
type namer struct {
	w       *world
	b       strings.Builder
	numbers map[int]int
}

func (k *namer) add(values ...any) { fmt.Fprint(&k.b, values...); k.b.WriteByte(' ') }

func (k *namer) content(c int) {
	n, ok := k.numbers[c]
	if !ok {
		n = len(k.numbers)
		k.numbers[c] = n
		k.b.WriteString(k.w.author[c][:1])
	}
	k.add(n)
}

func (k *namer) known(m map[place]int, p place) {
	if c, ok := m[p]; ok {
		k.content(c)
	} else {
		k.add("-")
	}
}

func (k *namer) time(m map[place]time.Time, p place) {
	if at, ok := m[p]; ok {
		k.add(k.age(hub.At(at)))
	} else {
		k.add("-")
	}
}

// age is the class of a time: those that no rule tells apart are one.
func (k *namer) age(t hub.Time) int {
	if t.IsZero() {
		return -1
	}
	age := k.w.now.Sub(t.Time)
	for i, bound := range []time.Duration{time.Second, time.Minute, 2 * time.Minute, 15 * time.Minute, 30 * time.Minute} {
		if age < bound {
			return i
		}
	}
	return 9
}

func (k *namer) digest(d string) {
	if n, err := strconv.Atoi(strings.TrimPrefix(d, "d")); err == nil {
		k.content(n)
	} else {
		k.add("-")
	}
}

// store writes what the service has stored.
func (k *namer) store() {
	m := k.w.mem
	for _, r := range m.rows {
		k.add("r", r.Tree.Path[3:4], r.Path, r.Holder, r.State, r.Changed, r.Session == session(k.w.agents[r.Holder]), k.age(r.Active), k.age(r.Asked))
		k.digest(r.Base)
		k.digest(r.Digest)
	}
	for _, v := range m.waits {
		k.add("w", v.Tree[3:4], v.Path, v.Agent, k.age(v.Since), k.age(v.Told))
	}
	for _, v := range m.views {
		k.add("v", v.Tree[3:4], v.Path, v.Agent, v.Wrote)
		k.digest(v.Digest)
		k.digest(v.Stale)
	}
	for _, n := range m.notes {
		k.add("n", n.Agent, n.Kind, n.Path)
	}
	k.add(m.meta["reservations/overlaps"] != "")
}
