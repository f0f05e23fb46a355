package reservation

import (
	"time"

	"github.com/parley-agents/parley/hub"
)

// The reasons for which a reservation ends, in the journal.
const (
	whyCommit   = "commit"   // the checked-out commit has the holder's content, or the holder committed the file
	whyUndone   = "undone"   // the holder itself made the file as the commit has it
	whyRestored = "restored" // a person or the hub did, while no agent's command ran
	whyRelease  = "release"
	whyDone     = "done"
	whySession  = "session"
	whyIdle     = "idle"
	whyOperator = "operator"
)

// An ending is the end of a reservation, or its change into an orphan.
type ending struct {
	next   hub.ReservationState // the state of now if it goes on
	why    string
	by     hub.AgentID // another agent that changed the file, which goes on; else empty
	during bool        // the file changed while a command of that agent ran whose text does not name it
}

// goesOn is the ending of a reservation that does not end.
func goesOn(r hub.Reservation) ending { return ending{next: r.State} }

// over is the end of a reservation.
func over(why string) ending { return ending{next: hub.ReservationOver, why: why} }

// look returns a reservation with what its file shows, and its end if the file brings it. The
// content of the holder and the content that is there are kept apart, so that a file which
// another agent restored does not count as committed.
func look(r hub.Reservation, f File, o origin, now hub.Time) (hub.Reservation, ending) {
	if r.Pattern || r.State != hub.ReservationHeld {
		return r, goesOn(r)
	}
	if isCommitted(r, f) {
		return r, over(whyCommit)
	}
	isForeign := r.Found != r.Digest // the content that was there is of another agent
	isNews := f.Digest != r.Found || f.Head != r.Head
	if f.Clean && (isNews || !isForeign) {
		return cleaned(r, f, o, isForeign, now)
	}
	if f.Digest == r.Found {
		r.Head = f.Head
		return r, goesOn(r)
	}

	isNamed := o.reports && !o.during
	isOfOther := o.other != "" && !o.holder && (isNamed || !o.runs)
	if isOfOther {
		return broken(r, f, o)
	}
	return observe(r, f, now), goesOn(r)
}

// cleaned returns a reservation whose file is as the checked-out commit has it, though the commit
// does not have the content that the hub last saw of the holder.
func cleaned(r hub.Reservation, f File, o origin, isForeign bool, now hub.Time) (hub.Reservation, ending) {
	isMoved := f.Head != r.Head // another commit is checked out, with another content of the file
	isAlone := o.other == "" && o.runs
	isPending := !r.Asked.IsZero() && !o.edited
	switch {
	case !r.Changed && (!o.holder || isPending): // the commit has moved below an edit that has not come
		r.Base, r.Digest = f.Digest, f.Digest
		r.Object = f.Object
		r.Found, r.Head = f.Digest, f.Head
		return r, goesOn(r)
	case f.Digest == r.Base && f.Digest == r.Found && !r.Changed: // the holder reports an edit that changed nothing
		return r, goesOn(r)
	case isMoved && (o.holder || isAlone || o.commits):
		return r, over(whyCommit)
	case o.holder || isAlone:
		return r, over(whyUndone)
	case o.other == "" && !isForeign:
		return r, over(whyRestored)
	case o.other == "":
		r.Found, r.Head = f.Digest, f.Head
		return r, goesOn(r)
	case o.runs && !o.reports: // the end of a command tells which one it was
		return r, goesOn(r)
	case f.Digest == r.Found:
		return r, goesOn(r)
	}
	return broken(r, f, o)
}

// broken returns a reservation whose file another agent changed. It stays held.
func broken(r hub.Reservation, f File, o origin) (hub.Reservation, ending) {
	r.Found, r.Head = f.Digest, f.Head
	return r, ending{next: r.State, by: o.other, during: o.during}
}

// observe returns a reservation with the content of its holder. A file that changed is a sign of
// life of its holder.
func observe(r hub.Reservation, f File, now hub.Time) hub.Reservation {
	if r.Pattern || (f.Digest == r.Digest && f.Digest == r.Found) {
		return r
	}
	r.Digest = f.Digest
	r.Object = f.Object
	r.Found = f.Digest
	r.Head = f.Head
	r.Changed = r.Changed || f.Digest != r.Base
	r.Asked = hub.Time{}
	r.Active = now
	return r
}

// isCommitted reports whether the checked-out commit has the changes of a holder, as the hub last
// saw them. The file may differ by now: then another agent or a person has changed it since.
func isCommitted(r hub.Reservation, f File) bool {
	return r.Changed && r.Object != "" && r.Object == f.Head
}

// judge returns the end of a reservation that goes on by what its file shows, if its time has come.
func judge(r hub.Reservation, f File, life Life, idle time.Duration, now hub.Time) ending {
	if r.State == hub.ReservationOrphan {
		switch {
		case f.Clean && r.Object == f.Head:
			return over(whyCommit)
		case f.Clean: // the changes that it left are thrown away
			return over(whyRestored)
		case now.Sub(r.Active.Time) >= keepOrphans:
			return over(whyIdle)
		}
		return goesOn(r)
	}
	switch {
	case !r.Until.IsZero() && !now.Before(r.Until.Time):
		return leave(r, f, whyIdle)
	case life.Known && life.Over:
		return leave(r, f, whySession)
	case neverEdited(r, now):
		return over(whyIdle)
	case isIdle(r, life, idle, now):
		return leave(r, f, whyIdle)
	}
	return goesOn(r)
}

// leave returns the end of a reservation whose holder is gone: changes that are not committed
// make it an orphan. Without git there are no commits, and nothing is left to tell.
func leave(r hub.Reservation, f File, why string) ending {
	if r.Changed && !f.Clean && r.Tree.Repository != "" {
		return ending{next: hub.ReservationOrphan, why: why}
	}
	return over(why)
}

// neverEdited reports whether the edit for which a file was reserved did not come.
func neverEdited(r hub.Reservation, now hub.Time) bool {
	return !r.Asked.IsZero() && !r.Changed && now.Sub(r.Asked.Time) >= editWithin
}

// isIdle reports whether the holder has shown no sign of life for too long. A reservation for a
// task or handoff ends with that, and one that was asked ahead at its time.
func isIdle(r hub.Reservation, life Life, idle time.Duration, now hub.Time) bool {
	hasOwnEnd := r.Task != "" || r.Handoff != "" || !r.Until.IsZero()
	if life.Busy || hasOwnEnd {
		return false
	}
	last := r.Active
	if life.Seen.After(last.Time) {
		last = life.Seen
	}
	return now.Sub(last.Time) >= idle
}

// binds reports whether a reservation keeps another agent from a file: it is held, and not
// shared with one that says shared as well.
func binds(r hub.Reservation, agent hub.AgentID, shared bool) bool {
	return r.State == hub.ReservationHeld && r.Holder != agent && !(r.Shared && shared)
}

// A staleness is content of another agent that an agent has not seen.
type staleness struct {
	by hub.AgentID
	at hub.Time
}

// stale reports whether the content of a file is another agent's edit that comes after what the
// agent last saw of it. It is reported once for each content: the second try goes on.
func stale(views []hub.FileView, agent hub.AgentID, digest string) (staleness, bool) {
	var own *hub.FileView
	var writer *hub.FileView
	for i, v := range views {
		switch {
		case v.Agent == agent:
			own = &views[i]
		case v.Wrote && v.Digest == digest:
			writer = &views[i]
		}
	}
	if own == nil || writer == nil {
		return staleness{}, false
	}
	if own.Digest == digest || own.Stale == digest {
		return staleness{}, false
	}
	return staleness{by: writer.Agent, at: writer.At}, true
}
