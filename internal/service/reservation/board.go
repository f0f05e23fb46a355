package reservation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A board has the reservations of one working tree inside a transaction, for one caller.
type board struct {
	s     *Service
	tx    hub.Tx
	actor hub.Caller
	tree  hub.WorkingTree
	now   hub.Time
	all   []hub.Reservation
	waits []hub.FileWait

	covered *coverage

	answer Answer
	posted []hub.Message
	facts  facts

	violations []violation   // of this look, not told yet
	restored   []restoration // the same

	counts    map[hub.AgentID]*count
	elsewhere map[string][]hub.Reservation // files that are held in other working trees of the repository, by path; nil before they are read
	line      string                       // brings back what the command of the question destroyed; empty for nothing
}

// load reads the reservations of a working tree, whose patterns were compared before.
func (s *Service) load(tx hub.Tx, actor hub.Caller, tree hub.WorkingTree, covered *coverage) (*board, error) {
	b := &board{s: s, tx: tx, actor: actor, tree: tree, now: s.clock.Now(), covered: covered, counts: map[hub.AgentID]*count{}}
	covered.begin()
	var err error
	if b.all, err = reservationsOf(tx, tree); err != nil {
		return nil, err
	}
	b.waits, err = tx.Reservations().Waits(keyOf(tree))
	return b, err
}

// reservationsOf returns the reservations of a working tree of one machine.
func reservationsOf(r hub.Reader, tree hub.WorkingTree) ([]hub.Reservation, error) {
	all, err := r.Reservations().OfTree(tree.Path)
	return slices.DeleteFunc(all, func(v hub.Reservation) bool { return v.Tree.Machine != tree.Machine }), err
}

// announce publishes the messages of a committed transaction.
func (b *board) announce() {
	b.s.mail.Announce(b.posted...)
	if b.s.bus != nil {
		b.s.bus.Publish(hub.TopicJournal)
	}
}

// settle ends the reservations whose end has come. It judges those whose files are known.
func (b *board) settle(known facts) error {
	running, err := b.s.running(b.tx, b.tree)
	if err != nil {
		return err
	}
	known.running = append(slices.Clip(known.running), running...) // one may have begun or ended since the files were read
	b.facts = known
	sessions := b.s.lives(b.tx)
	for i := range b.all {
		r := b.all[i]
		f, isKnown := known.files[r.Path]
		isUnseen := !isKnown || known.isOutdated(r)
		if !r.Pattern && !known.gone && isUnseen {
			continue
		}
		life, err := sessions.of(r)
		if err != nil {
			return err
		}
		seen, end := known.judge(r, f, life, b.s.idleIn(b.tree), b.now)
		isDone, err := isDone(b.tx, r)
		if err != nil {
			return err
		}
		if isDone {
			end = over(whyDone)
		}
		if end.next == r.State && seen == r {
			continue
		}
		if err := b.move(i, seen, end); err != nil {
			return err
		}
		switch {
		case end.by != "":
			if err := b.violated(r.Path, r, f, end.by, end.during); err != nil {
				return err
			}
		case end.why == whyRestored && r.State == hub.ReservationHeld:
			b.restore(r)
		}
	}
	return b.freed()
}

// freed goes on after reservations ended: those that waited for them are held, and agents that
// wait for files hear of it.
func (b *board) freed() error {
	b.all = slices.DeleteFunc(b.all, func(r hub.Reservation) bool { return r.State == hub.ReservationOver })
	for i, r := range b.all { // by fences
		if r.State != hub.ReservationWaiting {
			continue
		}
		if _, isHeld := b.holderOfSame(r); isHeld {
			continue
		}
		r.Since = b.now
		if err := b.move(i, r, ending{next: hub.ReservationHeld}); err != nil {
			return err
		}
		if err := b.notify(r.Holder, hub.PriorityHigh, r.Path+" is yours now", "read it again, then change it", r.Path); err != nil {
			return err
		}
	}
	return b.tellWaiting()
}

// holderOfSame returns the reservation of another agent that has the path or pattern of r.
func (b *board) holderOfSame(r hub.Reservation) (hub.Reservation, bool) {
	i := slices.IndexFunc(b.all, func(o hub.Reservation) bool { return o.Path == r.Path && binds(o, r.Holder, r.Shared) })
	if i < 0 {
		return hub.Reservation{}, false
	}
	return b.all[i], true
}

// move stores a reservation in its next state, with the journal entry and the notes about it.
func (b *board) move(i int, r hub.Reservation, end ending) error {
	was := b.all[i].State
	if end.next == was {
		b.all[i] = r
		return b.tx.WriteReservations().Put(r, was)
	}
	next, err := r.Advance(end.next, b.now)
	if err != nil {
		return err
	}

	action := actions.ReservationReleased
	if end.next == hub.ReservationHeld {
		action = actions.ReservationTaken
	}
	facts := map[string]any{"tree": b.tree.Path, "path": r.Path, "holder": r.Holder}
	if end.why != "" {
		facts["why"] = end.why
	}
	if end.next == hub.ReservationOrphan {
		action = actions.ReservationOrphaned
		next.Left, next.Lines = b.facts.left[r.Path].sha256, b.facts.left[r.Path].lines
		facts["left"] = next.Left
		if err := b.share(next.Left, r.Holder); err != nil {
			return err
		}
	}
	if err := b.tx.WriteReservations().Put(next, was); err != nil {
		return err
	}
	b.all[i] = next
	if end.why == whyIdle && r.Changed {
		text := fmt.Sprintf("your reservation of %s ended after %s without activity", r.Path, spoken(b.s.idleIn(b.tree)))
		if err := b.tx.WriteReservations().AddNote(hub.FileNote{Agent: r.Holder, Kind: NoteLapsed, Path: r.Path, Text: text}); err != nil {
			return err
		}
	}
	_, err = b.tx.Append(b.actor.Entry(b.now, action, string(r.ID), facts))
	return err
}

// share lets an agent read the difference that an orphan left.
func (b *board) share(sha256 string, with hub.AgentID) error {
	if sha256 == "" {
		return nil
	}
	return b.tx.AddArtifactReader(sha256, with)
}

// holderOf returns the reservation of another agent that keeps the caller from a file.
func (b *board) holderOf(name string) (hub.Reservation, bool) { return b.keeps(name, b.actor.ID) }

// keeps returns the reservation of another agent that keeps an agent from a file. A file belongs
// to the agent that changes it. Of two agents with patterns that overlap, each may change a file
// of both, and the first that does has it.
func (b *board) keeps(name string, agent hub.AgentID) (hub.Reservation, bool) {
	isHeld := func(r hub.Reservation) bool { return r.State == hub.ReservationHeld && b.covered.covers(r, name) }
	shared := slices.ContainsFunc(b.all, func(r hub.Reservation) bool { return r.Holder == agent && r.Shared && isHeld(r) })
	best := -1
	for i, r := range b.all { // by fences
		isOwn := r.Holder == agent && isHeld(r)
		isForeign := binds(r, agent, shared) && b.covered.covers(r, name)
		if !isOwn && !isForeign {
			continue
		}
		isStronger := best >= 0 && b.all[best].Pattern && (!r.Pattern || isOwn)
		if best < 0 || isStronger {
			best = i
		}
	}
	if best < 0 || b.all[best].Holder == agent {
		return hub.Reservation{}, false
	}
	return b.all[best], true
}

// denial returns the denial of a file, with the number of the task for which it is held.
func (b *board) denial(r hub.Reservation, name string) Denial {
	task := string(r.Task)
	if r.Handoff != "" {
		if h, err := b.tx.Handoff(r.Handoff); err == nil {
			task = h.TaskID
		}
	}
	return Denial{Path: name, Holder: r.Holder, Since: r.Since, Task: task, Fence: r.Fence}
}

// take reserves a file for the caller, or renews its reservation. Changes that a former holder
// left are noted.
func (b *board) take(name string, f File, session string) error {
	var left hub.Reservation
	for i, r := range b.all {
		if r.Pattern || r.Path != name {
			continue
		}
		switch {
		case r.State == hub.ReservationOrphan:
			left = r
			if r.Holder != b.actor.ID {
				b.note(Note{Kind: NoteOrphan, Path: name, Agent: r.Holder, Text: orphanText(r)})
				if err := b.share(r.Left, b.actor.ID); err != nil {
					return err
				}
			}
			if err := b.move(i, r, over(whySession)); err != nil {
				return err
			}
		case r.Holder == b.actor.ID:
			r.Asked, r.Active = b.now, b.now
			r.Session = session
			b.reason(ReasonOwn, r.Fence)
			return b.move(i, r, goesOn(r))
		default:
			b.reason(ReasonShared, r.Fence)
		}
	}
	return b.add(hub.Reservation{Path: name, Session: session, Base: f.Digest, Digest: f.Digest, Object: f.Object, Found: f.Digest, Head: f.Head, Asked: b.now, Left: left.Left, Lines: left.Lines})
}

// reason notes why an edit is allowed.
func (b *board) reason(reason string, fence int64) {
	b.answer.Reason = reason
	b.answer.Fence = max(b.answer.Fence, fence)
}

// add stores a new reservation, of the caller if it names no holder.
func (b *board) add(r hub.Reservation) error {
	if r.Holder == "" {
		r.Holder = b.actor.ID
	}
	n, err := b.counted(r.Holder)
	if err != nil {
		return err
	}
	isFull := n.paths >= maxPaths
	if r.Pattern {
		isFull = n.patterns >= maxPatterns
	}
	if isFull {
		return hub.Errorf(hub.CodeTooLarge, "reservation.add", "%s already holds %d files and %d patterns", r.Holder, n.paths, n.patterns).WithHint("release some with {release}")
	}

	fence, err := nextFence(b.tx)
	if err != nil {
		return err
	}
	isSharedWith := func(o hub.Reservation) bool {
		return o.Holder == b.actor.ID && o.State == hub.ReservationHeld && o.Shared && b.covered.covers(o, r.Path)
	}
	if !r.Pattern { // a file of a shared pattern is shared
		r.Shared = slices.ContainsFunc(b.all, isSharedWith)
	}
	r.ID = hub.NewReservationID(fence)
	r.Fence = fence
	r.Tree = b.tree
	r.State = cmp.Or(r.State, hub.ReservationHeld)
	r.Since, r.Active = b.now, b.now
	if err := b.tx.WriteReservations().Put(r, ""); err != nil {
		return err
	}
	b.all = append(b.all, r)
	n.add(r)
	b.answer.Fence = max(b.answer.Fence, fence)
	if r.State == hub.ReservationHeld {
		if err := b.leaveWait(r.Holder, r.Path); err != nil {
			return err
		}
	}
	if err := b.overlaps(r); err != nil {
		return err
	}
	facts := map[string]any{"tree": b.tree.Path, "path": r.Path, "holder": r.Holder}
	if r.State == hub.ReservationWaiting {
		facts["waits"] = true
	}
	if r.Left != "" {
		facts["left"] = r.Left
	}
	_, err = b.tx.Append(b.actor.Entry(b.now, actions.ReservationTaken, string(r.ID), facts))
	return err
}

// A count is the number of reservations of an agent in all working trees.
type count struct{ paths, patterns int }

func (c *count) add(r hub.Reservation) {
	if r.Pattern {
		c.patterns++
	} else {
		c.paths++
	}
}

// counted returns the number of reservations of an agent. They are read once in a transaction.
func (b *board) counted(agent hub.AgentID) (*count, error) {
	if n := b.counts[agent]; n != nil {
		return n, nil
	}
	own, err := b.tx.Reservations().OfAgent(agent)
	if err != nil {
		return nil, err
	}
	n := &count{}
	for _, r := range own {
		n.add(r)
	}
	b.counts[agent] = n
	return n, nil
}

// fenceKey is where the last fence is stored.
const fenceKey = "reservations/fence"

// nextFence returns a number that is larger than that of every earlier reservation.
func nextFence(tx hub.Tx) (int64, error) {
	last, err := hub.ReadMeta[int64](tx, fenceKey)
	if err != nil {
		return 0, err
	}
	return last + 1, hub.WriteMeta(tx, fenceKey, last+1)
}

// edited notes the end of an edit of the caller. An edit that came later than its reservation
// lasted, because a person was asked about it, reserves the file now; if another agent has taken
// the file meanwhile, it is a violation.
func (b *board) edited(name string, f File, session string) error {
	isOwn := false
	for i, r := range b.all {
		isHeld := r.Holder == b.actor.ID && r.State == hub.ReservationHeld
		if !isHeld || r.Pattern || r.Path != name {
			continue
		}
		isOwn = true
		r = observe(r, f, b.now)
		r.Asked, r.Active = hub.Time{}, b.now
		if err := b.move(i, r, goesOn(r)); err != nil {
			return err
		}
	}
	if _, isForeign := b.holderOf(name); isForeign && !isOwn {
		return b.wrote(name, f, false)
	}
	if !isOwn && !f.Clean {
		if err := b.add(hub.Reservation{Path: name, Session: session, Digest: f.Digest, Object: f.Object, Found: f.Digest, Head: f.Head, Changed: true}); err != nil {
			return err
		}
	}
	return b.see(b.actor.ID, name, f.Digest, true)
}

// see stores what an agent saw of a file. An agent that reads its own edit stays its writer.
func (b *board) see(agent hub.AgentID, name, digest string, wrote bool) error {
	views, err := b.tx.Reservations().Views(keyOf(b.tree), name)
	if err != nil {
		return err
	}
	for _, v := range views {
		isOwnEdit := v.Agent == agent && v.Wrote && v.Digest == digest
		wrote = wrote || isOwnEdit
	}
	return b.tx.WriteReservations().PutView(hub.FileView{Tree: keyOf(b.tree), Path: name, Agent: agent, Digest: digest, Wrote: wrote, At: b.now})
}

// note adds a note to the answer.
func (b *board) note(n Note) {
	if len(b.answer.Notes) < maxNotes {
		b.answer.Notes = append(b.answer.Notes, n)
	}
}

// deliverNotes puts the notes that wait for the caller into the answer.
func (b *board) deliverNotes() error {
	waiting, err := b.tx.Reservations().Notes(b.actor.ID)
	if err != nil || len(waiting) == 0 {
		return err
	}
	for _, n := range waiting {
		text := n.Text
		if r, ok := b.holderOf(n.Path); ok && n.Kind == NoteLapsed {
			text += fmt.Sprintf("; %s has it now", r.Holder)
		}
		b.note(Note{Kind: n.Kind, Path: n.Path, Agent: n.Other, Text: text})
	}
	return b.tx.WriteReservations().RemoveNotes(b.actor.ID)
}

// isDone reports whether the task or handoff is over for which a file was reserved.
func isDone(r hub.Reader, v hub.Reservation) (bool, error) {
	if v.Handoff != "" {
		h, err := r.Handoff(v.Handoff)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return true, nil
		}
		return err == nil && h.Status.Ended(), err
	}
	if v.Task != "" {
		t, err := r.Teamspaces().Task(v.Task)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return true, nil
		}
		return err == nil && t.State.Over(), err
	}
	return false, nil
}
