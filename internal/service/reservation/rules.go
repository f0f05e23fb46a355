package reservation

import (
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/effects"
)

// The reasons for which a reservation ends, in the journal.
const (
	whyCommit   = "commit"
	whyRelease  = "release"
	whyDone     = "done"
	whySession  = "session"
	whyIdle     = "idle"
	whyOperator = "operator"
)

// An ending is the end of a reservation, or its change into an orphan.
type ending struct {
	next hub.ReservationState // ReservationHeld if it goes on
	why  string
}

// observe returns r with what a file shows: whether it has changed since it was reserved. A file
// that changed is a sign of life of its holder.
func observe(r hub.Reservation, f File, now hub.Time) hub.Reservation {
	if r.Pattern || f.Digest == r.Digest {
		return r
	}
	r.Digest = f.Digest
	r.Object = f.Object
	r.Changed = r.Changed || f.Digest != r.Base
	r.Asked = hub.Time{}
	r.Active = now
	return r
}

// isCommitted reports whether the checked-out commit has the changes of a holder, as the hub last
// saw them. The file may differ by now: then another agent or a person has changed it since.
func isCommitted(r hub.Reservation, f File) bool {
	return r.State == hub.ReservationHeld && r.Changed && r.Object != "" && r.Object == f.Head
}

// judge returns the end of a reservation that observe has seen, if it has come.
func judge(r hub.Reservation, f File, life Life, idle time.Duration, now hub.Time) ending {
	if r.State != hub.ReservationHeld {
		if f.Clean { // the changes that an orphan left are committed or thrown away
			return ending{hub.ReservationOver, whyCommit}
		}
		if now.Sub(r.Active.Time) >= keepOrphans {
			return ending{hub.ReservationOver, whyIdle}
		}
		return ending{next: r.State}
	}
	switch {
	case r.Changed && f.Clean:
		return ending{hub.ReservationOver, whyCommit}
	case !r.Until.IsZero() && !now.Before(r.Until.Time):
		return leave(r, f, whyIdle)
	case life.Known && life.Over:
		return leave(r, f, whySession)
	case neverEdited(r, now):
		return ending{hub.ReservationOver, whyIdle}
	case isIdle(r, life, idle, now):
		return leave(r, f, whyIdle)
	}
	return ending{next: hub.ReservationHeld}
}

// leave returns the end of a reservation whose holder is gone: changes that are not committed
// make it an orphan. Without git there are no commits, and nothing is left to tell.
func leave(r hub.Reservation, f File, why string) ending {
	if r.Changed && !f.Clean && r.Tree.Repository != "" {
		return ending{hub.ReservationOrphan, why}
	}
	return ending{hub.ReservationOver, why}
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

// covers reports whether a reservation covers a file of its working tree.
func covers(r hub.Reservation, name string) bool {
	if !r.Pattern {
		return r.Path == name
	}
	return effects.Pathspec(r.Path).Matches("/" + name)
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
