package reservation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// The files of the model. Most steps are about the first; the second file and the second working
// tree are edited in one step.
const (
	first  = iota // x in the working tree one
	second        // y in the working tree one
	linked        // x in the working tree two of the same repository
	files
)

var places = [files]struct{ tree, path string }{{"/w/one", "x"}, {"/w/one", "y"}, {"/w/two", "x"}}

// pattern is what agents reserve ahead: both files of the working tree one.
const pattern = "?"

// placeOf returns the number of a file.
func placeOf(tree, path string) int {
	for i, p := range places {
		if p.tree == tree && p.path == path {
			return i
		}
	}
	return files
}

var names = [2]hub.AgentID{"ada", "bob"}

// The writers of contents that are not agents.
const (
	person  = 2
	unknown = 3 // a command whose text does not name the file, or an edit while the hub was away
)

// A content is the number of a content that a file had. Each edit makes a new one.
type content int16

const never content = -1

// A moment is a time of the virtual clock.
type moment = time.Duration

const (
	unset    moment = -1 << 62
	editTime        = time.Minute
	idleTime        = reservation.DefaultIdle
	ahead           = 10 * time.Minute // for which a pattern is reserved
)

// A world is a state of the model: the files, the agents, the clock and the store of the
// service. An assignment copies it.
type world struct {
	store   memory
	now     moment
	files   [files]content
	head    [files]content // committed
	back    [files]bool    // the file was restored to what is committed, and not changed since
	writers []uint8        // of each content
	agents  [2]agent
	away    bool   // the hub does not answer
	overlap moment // when agents were told that they change x in both working trees

	watched reservation.Watched // what the service keeps in memory
	trail   []uint8             // the steps that led here
}

// An agent is the model's own record of an agent.
type agent struct {
	session  int
	alive    bool
	active   moment // its last question that the hub answered
	pattern  moment // the end of its reservation of the pattern; unset if it has none
	since    int    // the number of the step that reserved the pattern
	runs     bool   // a command runs whose text names no file
	compared bool   // the hub compares x when that command ends: another agent held it
	again    bool   // the hub has started again since
	blamed   bool   // the hub may say that the command changed x: a person did while it ran
	files    [files]claim
}

// A claim is what an agent does with a file, as far as the hub was told.
type claim struct {
	asked  moment  // when an edit was allowed that has not been made; unset if there is none
	base   content // of the file when it was reserved
	holds  bool    // the hub has reserved the file for the agent
	wrote  bool    // the agent has changed the file since
	saw    content // that it read or wrote last
	warned content // about which it was refused once
	waits  bool    // it was refused the file and has not been told that it is free
	left   bool    // it is gone and left changes
	lapsed bool    // it has not been told that its reservation ended
	unseen bool    // its reservation ended by a commit that the hub may not have seen
	hidden bool    // the file has changes that the hub has not seen: the agent made them while the hub was away, or a person after the file was restored
	broken bool    // a command of the other agent restored the file, and the hub has seen that
	kept   bool    // the hub says that another agent has changed the file or may have, or waits for an edit
}

// sees notes the content that an agent reads or writes.
func (c *claim) sees(now content) {
	c.saw = now
	c.warned = never
}

// free notes that the hub has ended the reservation.
func (c *claim) free() {
	c.holds = false
	c.wrote = false
	c.unseen = false
	c.broken = false
	c.kept = false
}

var noClaim = claim{asked: unset, saw: never, warned: never}

func newWorld() world {
	w := world{writers: []uint8{person}, overlap: unset}
	for i := range w.agents {
		a := agent{alive: true, pattern: unset}
		for p := range a.files {
			a.files[p] = noClaim
		}
		w.agents[i] = a
	}
	return w
}

// put gives a file new content.
func (w *world) put(p, writer int) {
	if w.away {
		writer = unknown
	}
	w.writers = append(slices.Clip(w.writers), uint8(writer))
	w.files[p] = content(len(w.writers) - 1)
	w.changed(p, writer)
}

// restore gives a file the content that is committed.
func (w *world) restore(p, writer int) {
	w.files[p] = w.head[p]
	w.back[p] = true
	w.changed(p, writer)
	w.back[p] = true
}

// changed notes that a file has other content.
func (w *world) changed(p, writer int) {
	w.back[p] = false
	for i := range w.agents {
		c := &w.agents[i].files[p]
		c.hidden = c.hidden || (c.broken && w.isDirty(p)) // the hub was told of a file without changes
		c.broken = false
		if p == first && writer != i {
			w.agents[i].blamed = w.agents[i].runs || w.agents[i].blamed
		}
	}
}

func (w *world) isDirty(p int) bool { return w.files[p] != w.head[p] }

// edits reports whether an agent is changing a file: its edit was allowed a moment ago, or it
// has made one that is not committed, and it has shown a sign of life within the time of idleness.
func (w *world) edits(i, p int) bool {
	a := &w.agents[i]
	c := &a.files[p]
	isPending := c.asked != unset && w.now-c.asked < editTime
	isLive := a.alive && w.now-a.active < idleTime
	return isLive && c.holds && (isPending || c.broken || (c.wrote && w.isDirty(p)))
}

// hasPattern reports whether an agent has reserved the pattern that covers a file.
func (w *world) hasPattern(i, p int) bool {
	a := &w.agents[i]
	return p != linked && a.alive && a.pattern != unset && w.now < a.pattern
}

// holds reports whether an agent keeps the other one from a file. A file belongs to the agent that
// changes it, else to the agent that reserved the pattern first.
func (w *world) holds(i, p int) bool {
	if w.edits(i, p) {
		return true
	}
	other := 1 - i
	isOlder := !w.hasPattern(other, p) || w.agents[i].since < w.agents[other].since
	c := &w.agents[other].files[p]
	return w.hasPattern(i, p) && !c.holds && !c.unseen && !c.kept && isOlder
}

// mayHold reports whether the service may say that an agent holds a file.
func (w *world) mayHold(i, p int) bool {
	a := &w.agents[i]
	c := &a.files[p]
	isPending := c.asked != unset && w.now-c.asked < editTime
	isChanged := w.isDirty(p) && (c.wrote || w.files[p] != c.base)
	other := 1 - i
	isOlder := !w.hasPattern(other, p) || a.since < w.agents[other].since // the other one waits
	return a.alive && (c.unseen || c.kept || (c.holds && (isPending || isChanged)) || (w.hasPattern(i, p) && isOlder))
}

// wasToldOverlap reports whether the agents were told within a day that they change x in both
// working trees.
func (w *world) wasToldOverlap() bool {
	return w.overlap != unset && w.now-w.overlap < 24*time.Hour
}

// A stage runs steps of a world against a service. It is the Trees, the Sessions and the Mail of
// the service.
type stage struct {
	w       world
	store   hub.Store
	service *reservation.Service
	key     keyMaker
	told    [2][files]bool // agents that were told that a file is free
	broken  string         // a promise that a step broke
	answers func(any)      // gets answers and messages; may be nil
}

// newStage returns a stage whose service works on the store of the world.
func newStage() *stage {
	s := &stage{w: newWorld()}
	s.store = newMemoryStore(&s.w.store)
	s.restart()
	return s
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// restart makes a new service on the store, as a hub that starts again does. What the service
// keeps in memory is lost.
func (s *stage) restart() {
	var err error
	s.service, err = reservation.New(s.store, s, s, s, &reservation.Options{Clock: func() time.Time { return epoch.Add(s.w.now) }})
	if err != nil {
		panic(err)
	}
	s.w.watched = nil
}

// run makes one step from a world. It returns false if the step is not possible there.
func (s *stage) run(w *world, step int) bool {
	if !steps[step].can(w) {
		return false
	}
	s.w = *w
	s.w.now += time.Millisecond
	s.w.trail = append(slices.Clip(w.trail), uint8(step))
	s.resume()
	steps[step].do(s)
	s.w.watched = nil
	if calls := s.service.Commands(); len(calls) > 0 {
		s.w.watched = calls
	}
	return true
}

// resume gives the service what it kept in memory in this state of the world. The last calls of
// agents are known from their sessions, too.
func (s *stage) resume() {
	s.service.ForgetCalls()
	if len(s.w.watched) == 0 && len(s.service.Commands()) == 0 {
		return
	}
	calls := make(reservation.Watched, len(s.w.watched))
	for k, v := range s.w.watched {
		calls[k] = v
	}
	s.service.SetCommands(calls)
}

// breaks notes a broken promise.
func (s *stage) breaks(format string, args ...any) {
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
	}
}

func (s *stage) Tree(_ context.Context, path string) (hub.WorkingTree, error) {
	return hub.WorkingTree{Path: path, Repository: "/w/one/.git"}, nil
}

func (s *stage) Names(_ context.Context, t hub.WorkingTree, paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = strings.TrimPrefix(filepath.ToSlash(p), t.Path+"/")
	}
	return out, nil
}

// digest returns the digest of a content.
func digest(c content) string { return digests[c] }

// digests and sessions are texts that the service compares.
var (
	digests  = numbered("d", 512)
	sessions = [2][]string{numbered("ada-", 512), numbered("bob-", 512)}
)

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = prefix + strconv.Itoa(i)
	}
	return out
}

func (s *stage) Files(_ context.Context, t hub.WorkingTree, names []string) (map[string]reservation.File, error) {
	out := make(map[string]reservation.File, len(names))
	for _, n := range names {
		if p := placeOf(t.Path, n); p < files {
			out[n] = reservation.File{
				Digest: digest(s.w.files[p]), Clean: !s.w.isDirty(p), Tracked: true, Object: digest(s.w.files[p]), Head: digest(s.w.head[p]),
			}
		}
	}
	return out, nil
}

func (s *stage) Count(context.Context, hub.WorkingTree, string, int) (int, error) { return 2, nil }

func (s *stage) Differs(context.Context, hub.WorkingTree, string, []string) ([]string, error) {
	return nil, nil
}

func (s *stage) Staged(context.Context, hub.WorkingTree) ([]string, error) { return nil, nil }

func (s *stage) Difference(context.Context, hub.WorkingTree, string) (reservation.Difference, error) {
	return reservation.Difference{Text: "-a\n+b\n", Lines: 2}, nil
}

func (w *world) session(i int) string { return sessions[i][w.agents[i].session] }

func (s *stage) Life(_ hub.Reader, name hub.AgentID, session string) (reservation.Life, error) {
	i := slices.Index(names[:], name)
	a := &s.w.agents[i]
	isOld := session != s.w.session(i)
	return reservation.Life{Known: true, Over: isOld || !a.alive, Busy: a.runs && !isOld, Seen: hub.At(epoch.Add(a.active))}, nil
}

// Notify reads the messages of the hub.
func (s *stage) Notify(_ hub.Tx, e hub.Envelope) (hub.Message, error) {
	i := slices.Index(names[:], e.To[0])
	var m struct {
		Tree, Summary string
		Paths         []string
	}
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return hub.Message{}, err
	}
	if s.answers != nil {
		s.answers([]any{e.To, e.Priority, m.Summary})
	}
	if i >= 0 && (strings.HasSuffix(m.Summary, "is free") || strings.HasSuffix(m.Summary, "are free")) {
		for _, path := range m.Paths {
			p := placeOf(m.Tree, path)
			s.w.agents[i].files[p].waits = false
			s.told[i][p] = true
		}
	}
	return hub.Message{}, nil
}

func (s *stage) KeepText(string) (hub.ArtifactRef, error) {
	return hub.ArtifactRef{SHA256: "kept"}, nil
}

func (s *stage) Announce(...hub.Message) {}

func agentCaller(i int) hub.Caller { return hub.Caller{Kind: hub.CallerAgent, ID: names[i]} }

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}

// ask asks the service as an agent about files of one working tree. A hub that is away answers
// nothing, and the guard allows.
func (s *stage) ask(i int, k reservation.Kind, command string, about ...int) reservation.Answer {
	if s.w.away {
		return reservation.Answer{Decision: reservation.Allow}
	}
	a := &s.w.agents[i]
	a.active = s.w.now
	q := reservation.Question{Tree: places[first].tree, Kind: k, Session: s.w.session(i), Command: command}
	for _, p := range about {
		q.Tree = places[p].tree
		if command == "" {
			q.Paths = append(q.Paths, places[p].path)
		}
	}

	got, err := s.service.Ask(context.Background(), agentCaller(i), q)
	if err != nil {
		s.breaks("%s asks: %v", names[i], err)
	}
	if s.answers != nil {
		s.answers(got)
	}
	for _, p := range about {
		s.look(p)
		s.missed(1-i, p)
	}
	for p := range files {
		if places[p].tree != q.Tree {
			continue
		}
		s.missed(i, p)
		if command != "" { // the hub looks at all files that are held in the tree
			s.look(p)
			s.missed(1-i, p)
		}
	}
	s.expire(q.Tree)
	s.lapses()
	s.hears(i, got)
	return got
}

// expire notes the end of patterns, which the hub has seen in a working tree.
func (s *stage) expire(tree string) {
	for i := range s.w.agents {
		a := &s.w.agents[i]
		if tree == places[first].tree && a.pattern <= s.w.now {
			a.pattern = unset
		}
	}
}

// look notes that the hub has seen a file, and with it the commits of contents that it knows.
func (s *stage) look(p int) {
	for i := range s.w.agents {
		c := &s.w.agents[i].files[p]
		c.hidden = false
		c.unseen = c.unseen && s.w.isDirty(p) && s.isChanging(i, p)
		isTold := s.hasReservation(i, p, func(r hub.Reservation) bool { return r.Found != r.Digest || !r.Asked.IsZero() })
		mayBe := s.isReserved(i, p) && s.hasCommand(1-i)
		isLater := c.kept && s.w.isDirty(p) && s.isChanging(i, p)
		c.kept = isTold || mayBe || isLater
	}
}

// isChanging reports whether the hub says that an agent has changed a file that it holds.
func (s *stage) isChanging(i, p int) bool {
	return s.hasReservation(i, p, func(r hub.Reservation) bool { return r.Changed })
}

// lapses notes the reservations of live agents that ended because the agent was idle. It has to be
// told of them.
func (s *stage) lapses() {
	for i := range s.w.agents {
		a := &s.w.agents[i]
		for p := range a.files {
			c := &a.files[p]
			hasIdled := a.alive && (c.holds || c.unseen) && s.w.now-a.active >= idleTime
			if !hasIdled || s.isReserved(i, p) {
				continue
			}
			if c.wrote && s.w.isDirty(p) {
				c.left = true
				c.lapsed = true
			}
			c.free()
		}
	}
}

// missed notes the end of a reservation whose edit has not come. Of a file that others have changed
// since, the hub has the reservation no more; a clock that jumps back does not bring it back.
func (s *stage) missed(i, p int) {
	c := &s.w.agents[i].files[p]
	isPending := c.asked != unset && s.w.now-c.asked < editTime
	if isPending || c.wrote {
		return
	}
	if s.w.files[p] == c.base || !s.isReserved(i, p) {
		c.holds = false
	}
}

// isReserved reports whether the store has a reservation of a file for an agent.
func (s *stage) isReserved(i, p int) bool {
	return s.hasReservation(i, p, func(hub.Reservation) bool { return true })
}

// hasReservation reports whether the store has a reservation of a file for an agent that is
// held and of some kind.
func (s *stage) hasReservation(i, p int, isChosen func(hub.Reservation) bool) (found bool) {
	err := s.store.View(context.Background(), func(r hub.Reader) error {
		rows, err := r.Reservations().OfAgent(names[i])
		for _, v := range rows {
			isOf := v.State == hub.ReservationHeld && !v.Pattern && placeOf(v.Tree.Path, v.Path) == p
			found = found || (isOf && isChosen(v))
		}
		return err
	})
	if err != nil {
		s.breaks("read reservations: %v", err)
	}
	return found
}

// hasCommand reports whether the store has a command of an agent as running.
func (s *stage) hasCommand(i int) (found bool) {
	err := s.store.View(context.Background(), func(r hub.Reader) error {
		for _, c := range reservation.StoredCommands(r) {
			found = found || c.Agent == names[i]
		}
		return nil
	})
	if err != nil {
		s.breaks("read commands: %v", err)
	}
	return found
}

// hears checks the notes of an answer that the agent is owed.
func (s *stage) hears(i int, got reservation.Answer) {
	a := &s.w.agents[i]
	for p := range a.files {
		if a.files[p].lapsed && !hasNote(got, reservation.NoteLapsed, p) {
			s.breaks("%s was not told that its reservation of %s ended", names[i], places[p].path)
		}
		a.files[p].lapsed = false
	}
	if hasNote(got, reservation.NoteOverlap, first) && !s.w.wasToldOverlap() {
		s.w.overlap = s.w.now
	}
}

// hasNote reports whether an answer has a note about a file.
func hasNote(got reservation.Answer, kind string, p int) bool {
	return slices.ContainsFunc(got.Notes, func(n reservation.Note) bool { return n.Kind == kind && n.Path == places[p].path })
}

// isViolator reports whether an answer tells an agent that it changed a file of another one, by an
// edit or by a command.
func isViolator(got reservation.Answer, i, p int, byCommand bool) bool {
	isBy := func(text string) bool {
		if byCommand {
			return strings.Contains(text, "while a command of "+string(names[i]))
		}
		return strings.HasPrefix(text, string(names[i])+" changed")
	}
	return slices.ContainsFunc(got.Notes, func(n reservation.Note) bool {
		return n.Kind == reservation.NoteViolation && n.Path == places[p].path && isBy(n.Text)
	})
}

// request asks for an edit of files as an agent, and compares the answer with the promises.
func (s *stage) request(i int, command string, about ...int) bool {
	before := s.w
	var isKnown [files]bool // a reservation that is renewed brings no note about an overlap
	for _, p := range about {
		isKnown[p] = before.edits(1-i, twins[p]) && s.isReserved(i, p)
	}
	got := s.ask(i, reservation.Edit, command, about...)
	isAllowed := got.Decision == reservation.Allow
	tree := places[first].tree
	for _, p := range about {
		tree = places[p].tree
		if isAllowed {
			s.checkAllowed(&before, i, p, got)
			s.checkOverlap(&before, i, p, isKnown[p], got)
		}
		c := &s.w.agents[i].files[p]
		switch {
		case isAllowed:
			s.allowed(i, p)
		case got.Reason == reservation.ReasonStale:
			s.checkStale(&before, i, p)
			c.warned = s.w.files[p]
		}
	}
	s.checkDenied(&before, i, tree, got)
	return isAllowed
}

// allowed notes an edit that the agent may make.
func (s *stage) allowed(i, p int) {
	c := &s.w.agents[i].files[p]
	if !s.w.away {
		if !c.holds {
			c.base = s.w.files[p]
		}
		c.holds = true
		c.waits = false
		for j := range s.w.agents {
			s.w.agents[j].files[p].left = false
		}
	}
	if !s.w.away || !c.holds || c.asked == unset { // else the hub counts from the question before
		c.asked = s.w.now
	}
}

// checkAllowed compares the permission of an edit with the promises. before is the world in which
// it was asked for.
func (s *stage) checkAllowed(before *world, i, p int, got reservation.Answer) {
	if before.away {
		return
	}
	other := 1 - i
	if before.holds(other, p) {
		s.breaks("%s may change %s in %s, which %s is changing", names[i], places[p].path, places[p].tree, names[other])
	}

	c := &before.agents[i].files[p]
	current := before.files[p]
	isForeign := int(before.writers[current]) == other && !before.back[p]
	hasMissed := c.saw != never && c.saw != current && c.warned != current
	if isForeign && hasMissed {
		s.breaks("%s may change %s, which %s changed since it read it", names[i], places[p].path, names[other])
	}

	if before.agents[other].files[p].left && before.isDirty(p) && !hasNote(got, reservation.NoteOrphan, p) {
		s.breaks("%s was not told that %s left changes in %s", names[i], names[other], places[p].path)
	}
}

// twins are the files of one path in the other working tree; y has none.
var twins = [files]int{first: linked, second: second, linked: first}

// checkOverlap compares the notes of a permission with the promise that an agent is told of the
// other one that changes the path in another working tree.
func (s *stage) checkOverlap(before *world, i, p int, isKnown bool, got reservation.Answer) {
	other := 1 - i
	isOverlap := twins[p] != p && !before.away && before.edits(other, twins[p])
	mustTell := isOverlap && !isKnown && !before.wasToldOverlap()
	if mustTell && !hasNote(got, reservation.NoteOverlap, p) {
		s.breaks("%s was not told that %s changes %s in another working tree", names[i], names[other], places[p].path)
	}
}

// checkStale compares a refusal because of unseen content with the promises.
func (s *stage) checkStale(before *world, i, p int) {
	c := &before.agents[i].files[p]
	current := before.files[p]
	if before.back[p] { // the agent may be said to have restored it
		return
	}
	if c.saw == current || c.warned == current {
		s.breaks("%s is refused %s, whose content it knows", names[i], places[p].path)
	}
}

// checkDenied compares a denial with the promises, and notes that the agent waits. before is the
// world in which it asked about files of a tree.
func (s *stage) checkDenied(before *world, i int, tree string, got reservation.Answer) {
	for _, d := range got.Denied {
		p := placeOf(tree, d.Path)
		other := slices.Index(names[:], d.Holder)
		if other == i || !before.mayHold(other, p) {
			s.breaks("%s is refused %s, which %s does not hold", names[i], d.Path, d.Holder)
		}
		if before.holds(i, p) {
			s.breaks("%s is refused %s, which it holds itself", names[i], d.Path)
		}
		s.w.agents[i].files[p].waits = true
	}
}

// write makes an edit that was allowed, by a command if it is not empty, and reports its end. An
// edit that comes too late, while another agent holds the file, is a violation.
func (s *stage) write(i, p int, command string) {
	c := &s.w.agents[i].files[p]
	wasHeld := s.w.holds(1-i, p)
	c.asked = unset
	s.w.put(p, i)
	if o := &s.w.agents[1-i].files[p]; o.hidden && !s.w.away { // the hub never sees that content
		o.wrote = false
	}
	got := s.ask(i, reservation.After, command, p)

	isViolation := isViolator(got, i, p, false)
	switch {
	case s.w.away:
		c.wrote = c.holds
		c.hidden = c.holds
		return
	case wasHeld && !isViolation:
		s.breaks("%s changed %s, which %s is changing, and nothing was said", names[i], places[p].path, names[1-i])
	case isViolation && !s.isReserved(i, p):
		c.holds = false
		c.wrote = false
	default:
		c.holds = true
		c.wrote = true
	}
	c.sees(s.w.files[p])
}

// Commands of agents.
const (
	namedCommand = "echo 1 > x"
	script       = "make" // its text names no file
)

// begin runs a command whose text names no file.
func (s *stage) begin(i int) {
	a := &s.w.agents[i]
	s.request(i, script)
	a.runs = true
	a.compared = !s.w.away && s.w.edits(1-i, first)
	a.again = false
	a.blamed = false
}

// What a script does to x.
const (
	leaves   = iota
	changes  // x has new content
	restores // x has the content that is committed
)

// end ends the command.
func (s *stage) end(i, does int) {
	a := &s.w.agents[i]
	other := 1 - i
	c := &s.w.agents[other].files[first]
	isHeld := s.w.edits(other, first) && c.asked == unset
	isKnown := a.compared && !(a.again && s.w.agents[other].runs)
	isLost := does == changes || (does == restores && !c.hidden) // content that the hub has seen
	mustTell := isKnown && isHeld && isLost && !s.w.away
	switch does {
	case changes:
		s.w.put(first, unknown)
	case restores:
		s.restored(first, i)
	}
	isExplained := int(s.w.writers[s.w.files[first]]) == other && does != restores && !a.blamed
	a.runs = false
	a.compared = false
	a.blamed = false
	if does == restores && mustTell { // the other agent keeps the file
		c.free()
		c.holds = true
		c.wrote = true
		c.broken = true
	}

	got := s.ask(i, reservation.After, script)
	isTold := isViolator(got, i, first, true)
	switch {
	case mustTell && !isTold:
		s.breaks("a command of %s changed x, which %s is changing, and nothing was said", names[i], names[other])
	case isExplained && isTold:
		s.breaks("%s is said to have changed x, which %s changed itself", names[i], names[other])
	}
}

// edit asks for a file and changes it in one step, by a command if it is not empty.
func (s *stage) edit(i, p int, command string) {
	if s.request(i, command, p) {
		s.write(i, p, command)
	}
}

func (s *stage) read(i, p int) {
	s.ask(i, reservation.Read, "", p)
	if !s.w.away {
		s.w.agents[i].files[p].sees(s.w.files[p])
	}
}

func (s *stage) commit(i, p int) {
	before := s.w
	got := s.ask(i, reservation.Commit, "", p)
	other := 1 - i
	if got.Decision == reservation.Deny {
		s.checkDenied(&before, i, places[p].tree, got)
		return
	}
	if !before.away && before.holds(other, p) {
		s.breaks("%s may commit %s, which %s is changing", names[i], places[p].path, names[other])
	}
	s.committed(p)
	s.ask(i, reservation.After, "git commit -m done", p)
}

// committed notes that a file is committed. The reservations of agents that have changed it end.
func (s *stage) committed(p int) {
	if !s.w.isDirty(p) {
		return
	}
	s.w.head[p] = s.w.files[p]
	for i := range s.w.agents {
		c := &s.w.agents[i].files[p]
		c.left = false
		c.mayEnd(s.w.files[p])
	}
}

// mayEnd notes that a reservation ends when the hub looks: its content, the one of before, is
// committed or gone. One that the hub kept after another agent may have changed the file still has the
// holder's earlier changes, so that it ends, too, also if the holder has asked for an edit since.
func (c *claim) mayEnd(before content) {
	hasChanges := c.wrote || c.unseen || c.kept
	if c.holds && (hasChanges || c.base != before) {
		c.free()
		c.unseen = true
	}
}

// restored notes that a file is restored by a person, or by an agent itself.
func (s *stage) restored(p, writer int) {
	before := s.w.files[p]
	s.w.restore(p, writer)
	for i := range s.w.agents {
		c := &s.w.agents[i].files[p]
		c.left = false
		c.mayEnd(before)
		if c.holds { // for an edit that has not come
			c.base = s.w.files[p]
		}
	}
}

// restoreCommand throws the changes of x away.
const restoreCommand = "git checkout -- x"

// restore throws changes away by a command.
func (s *stage) restore(i, p int) {
	before := s.w
	got := s.ask(i, reservation.Edit, restoreCommand)
	if got.Decision == reservation.Deny {
		s.checkDenied(&before, i, places[p].tree, got)
		return
	}
	other := 1 - i
	if !before.away && before.isDirty(p) && before.edits(other, p) {
		s.breaks("%s may throw away %s, which %s is changing", names[i], places[p].path, names[other])
	}
	s.restored(p, i)
	s.ask(i, reservation.After, restoreCommand)
}

func (s *stage) personCommits(p int) {
	if !s.w.away {
		got, err := s.service.Ask(context.Background(), operator, reservation.Question{Tree: places[p].tree, Paths: []string{places[p].path}, Kind: reservation.Commit})
		if err != nil || got.Decision != reservation.Allow {
			s.breaks("a person may not commit %s: %v %v", places[p].path, got, err)
		}
		if s.answers != nil {
			s.answers(got)
		}
		s.look(p)
		for i := range names {
			s.missed(i, p)
		}
		s.expire(places[p].tree)
		s.lapses()
	}
	s.committed(p)
}

// personReleases releases a file as the operator.
func (s *stage) personReleases(p int) {
	got, err := s.service.Release(context.Background(), operator, reservation.Release{Tree: places[p].tree, Paths: []string{places[p].path}})
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		s.breaks("a person releases %s: %v", places[p].path, err)
	}
	if s.answers != nil {
		s.answers(got)
	}
	for i := range s.w.agents {
		c := &s.w.agents[i].files[p]
		c.free()
		c.left = false
	}
}

// release releases all files of the first working tree that an agent has.
func (s *stage) release(i int) {
	a := &s.w.agents[i]
	a.active = s.w.now
	got, err := s.service.Release(context.Background(), agentCaller(i), reservation.Release{Tree: places[first].tree})
	if err != nil {
		s.breaks("%s releases its files: %v", names[i], err)
	}
	if s.answers != nil {
		s.answers(got)
	}
	a.pattern = unset
	for p := range linked {
		c := &a.files[p]
		c.free()
		c.left = false
	}
}

// reserve reserves the pattern.
func (s *stage) reserve(i int) {
	a := &s.w.agents[i]
	a.active = s.w.now
	got, err := s.service.Reserve(context.Background(), agentCaller(i), reservation.Request{
		Tree: places[first].tree, Patterns: []string{pattern}, For: ahead, Session: s.w.session(i),
	})
	if err != nil {
		s.breaks("%s reserves %s: %v", names[i], pattern, err)
	}
	if s.answers != nil {
		s.answers(got)
	}
	s.expire(places[first].tree)
	if !s.w.hasPattern(i, first) {
		a.since = len(s.w.trail)
	}
	a.pattern = s.w.now + ahead
}

func (s *stage) die(i int) {
	a := &s.w.agents[i]
	a.alive = false
	a.pattern = unset
	a.runs = false
	a.compared = false
	for p := range a.files {
		c := &a.files[p]
		c.left = c.left || (c.holds && c.wrote && s.w.isDirty(p))
		c.asked = unset
		c.free()
		c.waits = false
		c.lapsed = false
	}
}

func (s *stage) comeBack(i int) {
	a := &s.w.agents[i]
	a.alive = true
	a.session++
	a.active = s.w.now
}

// pass lets time pass, at the end of which the hub sweeps.
func (s *stage) pass(d time.Duration) {
	s.w.now += d
	if s.w.away {
		return
	}
	s.told = [2][files]bool{}
	if err := s.service.Sweep(context.Background()); err != nil {
		s.breaks("sweep: %v", err)
	}
	s.expire(places[first].tree)
	s.lapses()
	for i := range names {
		for p := range files {
			s.missed(i, p)
			s.look(p)
			if s.told[i][p] && s.w.holds(1-i, p) {
				s.breaks("%s was told that %s is free, which %s is changing", names[i], places[p].path, names[1-i])
			}
		}
	}
}
