package wake

import (
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// stateOf is the state of a wake for each outcome that a channel reports. A channel that
// offers a notice has shown it and learns no more; a hook of a session learns whether the
// turn goes on (hub.WakeOffered).
var stateOf = map[channel.State]hub.WakeState{
	channel.Waiting:     hub.WakeWaiting,
	channel.Handed:      hub.WakeHanded,
	channel.Offered:     hub.WakeShown,
	channel.Accepted:    hub.WakeAccepted,
	channel.TurnStarted: hub.WakeStarted,
	channel.TurnEnded:   hub.WakeEnded,
	channel.Read:        hub.WakeRead,
	channel.Held:        hub.WakeHeld,
	channel.Refused:     hub.WakeRefused,
	channel.Failed:      hub.WakeFailed,
}

// statusOf is the status of the rows of the delivery ledger for each state of their wake.
var statusOf = map[hub.WakeState]hub.DeliveryStatus{
	hub.WakeReserved: hub.DeliveryPending,
	hub.WakeWaiting:  hub.DeliveryPending,
	hub.WakeTaken:    hub.DeliveryPending,
	hub.WakeHanded:   hub.DeliveryPending,
	hub.WakeOffered:  hub.DeliveryOffered,
	hub.WakeStarted:  hub.DeliveryAccepted,
	hub.WakeShown:    hub.DeliveryOffered,
	hub.WakeAccepted: hub.DeliveryAccepted,
	hub.WakeEnded:    hub.DeliveryAccepted,
	hub.WakeRead:     hub.DeliveryRead,
	hub.WakeHeld:     hub.DeliveryHeld,
	hub.WakeRefused:  hub.DeliverySkipped,
	hub.WakeFailed:   hub.DeliveryFailed,
}

// outcomeOf returns the word for a state in the journal and in answers to people: that of
// the outcome with which a channel reports it, "" before the first.
func outcomeOf(s hub.WakeState) channel.State {
	switch s {
	case hub.WakeReserved:
		return ""
	case hub.WakeTaken:
		return channel.Handed
	case hub.WakeShown:
		return channel.Offered
	}
	return channel.State(s)
}

// turnKinds are the channels that start turns, in the order in which they are tried.
var turnKinds = []hub.Channel{hub.ChannelSession, hub.ChannelWake}

// kinds are all channels besides the inbox, those that start turns first.
var kinds = append(slices.Clone(turnKinds), hub.ChannelNotify)

// startsTurns reports whether a channel starts turns.
func startsTurns(c hub.Channel) bool { return slices.Contains(turnKinds, c) }

// A history is the wakes of one agent, oldest first: those under way, and those of the
// last hour.
type history []*hub.Wake

// open returns the wake under way over the channels of a kind, or over all that start
// turns if the kind is one of them; nil if there is none.
func (h history) open(kind hub.Channel) *hub.Wake {
	for _, w := range h {
		same := w.Channel == kind || (startsTurns(kind) && startsTurns(w.Channel))
		if w.State.Open() && same {
			return w
		}
	}
	return nil
}

// left returns the wakes over a kind of channel that were reserved before now and not handed to
// their channel: the hub stopped in between.
func (h history) left(kind hub.Channel, now hub.Time) (out []*hub.Wake) {
	for _, w := range h {
		if w.State == hub.WakeReserved && w.Channel == kind && w.At.Before(now.Time) {
			out = append(out, w)
		}
	}
	return out
}

// announces reports whether a wake under way over a kind of channel announces a message.
func (h history) announces(id hub.EnvelopeID, kind hub.Channel) bool {
	return slices.ContainsFunc(h, func(w *hub.Wake) bool {
		return w.State.Open() && w.Channel == kind && slices.Contains(w.Messages, id)
	})
}

// find returns the newest wake of an id; nil if there is none.
func (h history) find(id string) *hub.Wake {
	for _, w := range slices.Backward(h) {
		if w.ID == id {
			return w
		}
	}
	return nil
}

// inSession returns the wake that is in one of some states and in a session; nil if there
// is none.
func (h history) inSession(k Key, states ...hub.WakeState) *hub.Wake {
	for _, w := range slices.Backward(h) {
		if w.InSession(k) && slices.Contains(states, w.State) {
			return w
		}
	}
	return nil
}

// offered returns the wake that is on its way into a session; nil if there is none.
func (h history) offered(k Key) *hub.Wake {
	return h.inSession(k, hub.WakeWaiting, hub.WakeTaken, hub.WakeHanded)
}

// turn returns the wake whose turn runs in a session, or may: a hook gave its notice at the
// end of the turn before. It returns nil if there is none.
func (h history) turn(k Key) *hub.Wake {
	return h.inSession(k, hub.WakeOffered, hub.WakeStarted)
}

// add appends a wake. It forgets those that no budget needs, and beyond maxWakes the oldest.
// A wake of the same id gives way; if it was under way, its cost stays.
func (h *history) add(w *hub.Wake) {
	if old := h.find(w.ID); old != nil && old.State.Open() {
		w.Cost = max(w.Cost, old.Cost)
	}
	*h = slices.DeleteFunc(*h, func(old *hub.Wake) bool {
		isOver := !old.State.Open() && w.At.Sub(old.At.Time) >= time.Hour
		return isOver || old.ID == w.ID
	})
	h.append(w)
	if n := len(*h); n > maxWakes {
		*h = (*h)[n-maxWakes:]
	}
}

// append appends a wake and gives it its number.
func (h *history) append(w *hub.Wake) {
	w.N = 1
	if n := len(*h); n > 0 {
		w.N = (*h)[n-1].N + 1
	}
	*h = append(*h, w)
}

// last returns the newest wake that announced messages; nil if there is none.
func (h history) last() *hub.Wake {
	for _, w := range slices.Backward(h) {
		if !w.Probe && w.State != hub.WakeRefused {
			return w
		}
	}
	return nil
}

// turnsFor returns the turns of the last hour for messages of the conversation that a
// message began, of any conversation for "".
func (h history) turnsFor(root hub.EnvelopeID) (n int) {
	for _, w := range h {
		if w.Cost > 0 && (root == "" || slices.Contains(w.Roots, root)) {
			n++
		}
	}
	return n
}

// spent returns the turns of the last hour, all of them or those for messages of one
// sender, and when the first of them leaves the hour.
func (h history) spent(now hub.Time, sender hub.AgentID) (n int, until hub.Time) {
	for _, w := range h {
		other := sender != "" && !slices.Contains(w.Senders, sender)
		if w.Cost == 0 || now.Sub(w.At.Time) >= time.Hour || other {
			continue
		}
		n += w.Cost
		if until.IsZero() {
			until = w.At.Add(time.Hour)
		}
	}
	return n, until
}

// carry adds a message to a wake.
func carry(w *hub.Wake, m inboxMessage) {
	w.Messages = append(w.Messages, m.ID)
	if !slices.Contains(w.Senders, m.From) {
		w.Senders = append(w.Senders, m.From)
	}
	if m.root != "" && !slices.Contains(w.Roots, m.root) {
		w.Roots = append(w.Roots, m.root)
	}
}
