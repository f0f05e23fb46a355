package reservation

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// waitFor puts the caller on the waiting lists of files. Each holder is told once of all of its files.
func (b *board) waitFor(denied []Denial) error {
	if b.actor.IsOperator() {
		return nil
	}
	var holders []hub.AgentID
	files := map[hub.AgentID][]string{}
	for _, d := range denied {
		isNew, err := b.wait(d)
		if err != nil {
			return err
		}
		if isNew {
			if len(files[d.Holder]) == 0 {
				holders = append(holders, d.Holder)
			}
			files[d.Holder] = append(files[d.Holder], d.Path)
		}
	}
	for _, holder := range holders {
		if err := b.tellHolder(holder, b.actor.ID, files[holder]...); err != nil {
			return err
		}
	}
	return nil
}

// wait puts the caller on the waiting list of a file, in its old place if it was told that the
// file is free and another agent was faster. It reports whether the holder has to be told.
func (b *board) wait(d Denial) (isNew bool, err error) {
	w := hub.FileWait{Tree: keyOf(b.tree), Path: d.Path, Agent: b.actor.ID, Since: b.now}
	i := slices.IndexFunc(b.waits, func(w hub.FileWait) bool { return w.Path == d.Path && w.Agent == b.actor.ID })
	switch {
	case i < 0:
		b.waits = append(b.waits, w)
	case b.waits[i].Told.IsZero():
		return false, nil
	default:
		w = b.waits[i]
		w.Told = hub.Time{}
		b.waits[i] = w
	}
	return true, b.tx.WriteReservations().PutWait(w)
}

// tellHolder tells the holder of a file or pattern that an agent waits for it. Two agents that wait
// for each other are both told.
func (b *board) tellHolder(holder, agent hub.AgentID, names ...string) error {
	name := names[0]
	other, isMutual := b.waitsOn(holder, agent)
	if !isMutual {
		return b.notify(holder, hub.PriorityNormal, fmt.Sprintf("%s waits for %s", agent, some(names)), "when you are done with it: acp_files release", name)
	}
	summary := fmt.Sprintf("%s and %s wait for each other: %s holds %s, and %s holds %s", holder, agent, holder, name, agent, other)
	tell := func(to hub.AgentID, path string) error {
		return b.notify(to, hub.PriorityHigh, summary, "agree who goes first; acp_files release frees "+path, path)
	}
	if err := tell(holder, name); err != nil {
		return err
	}
	return tell(agent, other)
}

// waitsOn returns a file or pattern of a holder for which an agent waits.
func (b *board) waitsOn(agent, holder hub.AgentID) (name string, found bool) {
	for _, w := range b.waits {
		if w.Agent != agent {
			continue
		}
		if r, isHeld := b.keeps(w.Path, agent); isHeld && r.Holder == holder {
			return w.Path, true
		}
	}
	for _, v := range b.all {
		if v.Holder != agent || v.State != hub.ReservationWaiting {
			continue
		}
		if r, isHeld := b.holderOfSame(v); isHeld && r.Holder == holder {
			return v.Path, true
		}
	}
	return "", false
}

// leaveWait takes an agent off the waiting list of a file.
func (b *board) leaveWait(agent hub.AgentID, name string) error {
	for i, w := range b.waits {
		if w.Path == name && w.Agent == agent {
			b.waits = slices.Delete(b.waits, i, i+1)
			return b.tx.WriteReservations().RemoveWait(w.Tree, w.Path, w.Agent)
		}
	}
	return nil
}

// tellWaiting tells the agent that waits longest for a file which became free. If it does not
// take the file in time, the next one is told.
func (b *board) tellWaiting() error {
	first := map[string]bool{} // files whose first agent was looked at
	var told []hub.AgentID
	free := map[hub.AgentID][]string{}
	for i := 0; i < len(b.waits); i++ {
		w := b.waits[i]
		if _, isHeld := b.keeps(w.Path, w.Agent); isHeld || first[w.Path] {
			continue
		}
		if !w.Told.IsZero() && b.now.Sub(w.Told.Time) >= takeWithin {
			if err := b.tx.WriteReservations().RemoveWait(w.Tree, w.Path, w.Agent); err != nil {
				return err
			}
			b.waits = slices.Delete(b.waits, i, i+1)
			i--
			continue
		}
		first[w.Path] = true
		if !w.Told.IsZero() {
			continue
		}

		w.Told = b.now
		b.waits[i] = w
		if err := b.tx.WriteReservations().PutWait(w); err != nil {
			return err
		}
		if len(free[w.Agent]) == 0 {
			told = append(told, w.Agent)
		}
		free[w.Agent] = append(free[w.Agent], w.Path)
	}
	for _, agent := range told {
		names := free[agent]
		summary := names[0] + " is free"
		if len(names) > 1 {
			summary = some(names) + " are free"
		}
		about := map[string]any{"summary": summary, "next_step": "read it again, then change it", "path": names[0], "paths": names, "tree": b.tree.Path}
		if err := b.post(agent, hub.PriorityHigh, about); err != nil {
			return err
		}
	}
	return nil
}

// warnOperator tells the operator of agents that have waited for long, once each.
func (b *board) warnOperator() error {
	for i, w := range b.waits {
		if w.Warned || !w.Told.IsZero() || b.now.Sub(w.Since.Time) < warnAfter {
			continue
		}
		w.Warned = true
		b.waits[i] = w
		if err := b.tx.WriteReservations().PutWait(w); err != nil {
			return err
		}
		text := fmt.Sprintf("%s has waited for %s for %s", w.Agent, w.Path, spoken(b.now.Sub(w.Since.Time)))
		about := hub.NoticeSubject{Kind: hub.NoticeBlocked, ID: w.ID()}
		if err := b.tellOperator(text, "parley files release "+w.Path+" frees it", w.Path, about); err != nil {
			return err
		}
	}
	return nil
}

// notify writes a message of the hub about a file.
func (b *board) notify(to hub.AgentID, p hub.Priority, summary, next, name string) error {
	return b.post(to, p, map[string]any{"summary": summary, "next_step": next, "path": name, "tree": b.tree.Path})
}

// tellOperator writes a notice to the operator about something that waits for a person.
func (b *board) tellOperator(summary, next, name string, about hub.NoticeSubject) error {
	return b.post(hub.Operator, hub.PriorityHigh, map[string]any{
		"summary": summary, "next_step": next, "path": name, "tree": b.tree.Path, hub.NoticeMember: about,
	})
}

// post writes a message of the hub.
func (b *board) post(to hub.AgentID, p hub.Priority, members map[string]any) error {
	payload, err := json.Marshal(members)
	if err != nil {
		return err
	}
	m, err := b.s.mail.Notify(b.tx, hub.Envelope{To: []hub.AgentID{to}, Type: hub.TypeStatusUpdate, Priority: p, Topic: noticeTopic, Payload: payload})
	if err == nil && m.ID != "" {
		b.posted = append(b.posted, m)
	}
	return err
}

// overlapsKey is where the overlaps are stored that agents were told of, by repository, path and
// pair, with the times.
const overlapsKey = "reservations/overlaps"

// overlaps tells two agents that change one path in two working trees of one repository.
func (b *board) overlaps(r hub.Reservation) error {
	if b.tree.Repository == "" || r.Pattern {
		return nil
	}
	if err := b.readElsewhere(); err != nil {
		return err
	}
	for _, o := range b.elsewhere[r.Path] {
		if o.Holder == r.Holder || len(b.answer.Notes) >= maxNotes { // more notes than an answer has would not be read
			continue
		}
		if err := b.overlap(r, o); err != nil {
			return err
		}
	}
	return nil
}

// readElsewhere reads the files that are held in other working trees of the repository, once.
func (b *board) readElsewhere() error {
	if b.elsewhere != nil {
		return nil
	}
	all, err := b.tx.Reservations().OfAgent("")
	if err != nil {
		return err
	}
	b.elsewhere = map[string][]hub.Reservation{}
	for _, o := range all {
		isSame := o.Tree.Repository == b.tree.Repository && o.Tree.Machine == b.tree.Machine && o.Tree.Path != b.tree.Path
		if isSame && !o.Pattern && o.State == hub.ReservationHeld {
			b.elsewhere[o.Path] = append(b.elsewhere[o.Path], o)
		}
	}
	return nil
}

// overlap tells the holders of two reservations of one path, once in a day.
func (b *board) overlap(r, o hub.Reservation) error {
	told, err := hub.ReadMeta[map[string]hub.Time](b.tx, overlapsKey)
	if err != nil {
		return err
	}
	pair := []string{string(o.Holder), string(r.Holder)}
	slices.Sort(pair)
	key := b.tree.Repository + "\x00" + r.Path + "\x00" + pair[0] + "\x00" + pair[1]
	if at, ok := told[key]; ok && b.now.Sub(at.Time) < overlapEvery {
		return nil
	}

	if told == nil {
		told = map[string]hub.Time{}
	}
	for k, at := range told {
		if b.now.Sub(at.Time) >= overlapEvery {
			delete(told, k)
		}
	}
	told[key] = b.now
	b.note(Note{Kind: NoteOverlap, Path: r.Path, Agent: o.Holder, Text: overlapText(o.Holder, r.Path, o.Tree.Path)})
	n := hub.FileNote{Agent: o.Holder, Kind: NoteOverlap, Path: r.Path, Other: r.Holder, Text: overlapText(r.Holder, r.Path, b.tree.Path)}
	if err := b.tx.WriteReservations().AddNote(n); err != nil {
		return err
	}
	return hub.WriteMeta(b.tx, overlapsKey, told)
}
