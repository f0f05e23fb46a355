package hub

import "slices"

// A WakeState says how far a wake has come.
type WakeState string

// The states of a wake. Those after WakeStarted are final.
const (
	WakeReserved WakeState = "reserved"     // stored, before its channel is called
	WakeWaiting  WakeState = "waiting"      // kept by its channel until the recipient can take it
	WakeTaken    WakeState = "taken"        // the waiter of a session has got it
	WakeHanded   WakeState = "handed"       // written to a pipe, socket or queue: no proof that it was noticed
	WakeOffered  WakeState = "offered"      // shown at the end of a turn, which has not gone on yet
	WakeStarted  WakeState = "turn_started" // a turn that it started runs

	WakeShown    WakeState = "shown"      // shown where the recipient may not notice it
	WakeAccepted WakeState = "accepted"   // taken by the recipient's runtime
	WakeEnded    WakeState = "turn_ended" // the turn that it started is over
	WakeRead     WakeState = "read"       // the recipient has processed the messages
	WakeHeld     WakeState = "held"       // a person must approve it at the recipient's runtime
	WakeRefused  WakeState = "refused"    // the recipient does not take it; nothing was shown
	WakeFailed   WakeState = "failed"     // shown or written, and no proof came
)

// wakeEnds are the final states.
var wakeEnds = []WakeState{WakeShown, WakeAccepted, WakeEnded, WakeRead, WakeHeld, WakeRefused, WakeFailed}

// wakeNext is the state machine. A state without an entry is final. A move to the same
// state gives a wake more time.
var wakeNext = map[WakeState][]WakeState{
	WakeReserved: append([]WakeState{WakeWaiting, WakeTaken, WakeHanded, WakeOffered, WakeStarted}, wakeEnds...),
	WakeWaiting:  append([]WakeState{WakeWaiting, WakeTaken, WakeHanded, WakeOffered, WakeStarted}, wakeEnds...),
	WakeTaken:    append([]WakeState{WakeTaken, WakeHanded, WakeStarted}, wakeEnds...),
	WakeHanded:   append([]WakeState{WakeHanded, WakeStarted}, wakeEnds...),
	WakeOffered:  append([]WakeState{WakeStarted}, wakeEnds...),
	WakeStarted:  append([]WakeState{WakeStarted}, wakeEnds...),
}

// Open reports whether a wake in this state is under way.
func (s WakeState) Open() bool { return len(wakeNext[s]) > 0 }

// A SessionKey names a session of an agent. One without a process is known by its id
// alone.
type SessionKey struct {
	CLI     string `json:"cli"`
	ID      string `json:"session"`
	Process int    `json:"process,omitempty"`
}

// A Wake is one notice on its way to an agent: about messages that wait in its inbox, or a
// probe without any. It is open until its outcome is known.
type Wake struct {
	ID        string    `json:"id"` // w_ and twelve digits, made of what it announces
	Agent     AgentID   `json:"agent"`
	N         int       `json:"n"` // orders the wakes of an agent
	Channel   Channel   `json:"channel"`
	Mechanism string    `json:"mechanism,omitempty"` // the way within the channel, such as monitor
	State     WakeState `json:"state"`
	Detail    string    `json:"detail,omitempty"`  // of the last move, for people
	Machine   string    `json:"machine,omitempty"` // of the hub that learned its state

	// Sessions are those whose waiters may take it while it waits, then the one that has
	// it. It has none over channels that are not the hub's own.
	Sessions []SessionKey `json:"sessions,omitempty"`

	At     Time `json:"at,omitzero"`
	Until  Time `json:"until,omitzero"`  // when it ends without a proof; zero after its end
	Taken  Time `json:"taken,omitzero"`  // when a waiter got it
	Handed Time `json:"handed,omitzero"` // when it was written
	Proven Time `json:"proven,omitzero"` // when the recipient showed that it noticed

	Messages []EnvelopeID `json:"messages,omitempty"` // that it announces, while it is open
	Senders  []AgentID    `json:"senders,omitempty"`
	Roots    []EnvelopeID `json:"roots,omitempty"` // messages that began the conversations of Messages

	Cost      int  `json:"cost,omitempty"` // turns against the budgets; 0 for context
	Interrupt bool `json:"interrupt,omitempty"`
	Repeat    bool `json:"repeat,omitempty"` // its messages were announced before and not fetched
	Probe     bool `json:"probe,omitempty"`
	Hook      bool `json:"hook,omitempty"` // shown by a hook, not by a waiter
}

// Advance returns w moved to next at the given time. It reports CodeConflict when the
// state machine has no such move, as for a report that comes late, and then returns w
// unchanged.
func (w Wake) Advance(next WakeState, now Time) (Wake, error) {
	if !slices.Contains(wakeNext[w.State], next) {
		return w, Errorf(CodeConflict, "hub.Wake", "wake %s is %s and cannot become %s", w.ID, w.State, next)
	}

	first := w.State != next
	w.State = next
	switch {
	case !next.Open():
		w.Until = Time{}
	case first && next == WakeTaken:
		w.Taken = now
	case first && next == WakeHanded:
		w.Handed = now
	case first && next == WakeStarted:
		w.Proven = now
	}
	return w, nil
}

// InSession reports whether a session may take the wake, or has it.
func (w Wake) InSession(k SessionKey) bool { return slices.Contains(w.Sessions, k) }

// A WakeReader reads wakes.
type WakeReader interface {
	// OfAgent returns the wakes of an agent by their numbers, so oldest first.
	OfAgent(agent AgentID) ([]Wake, error)
}

// A WakeWriter writes wakes.
type WakeWriter interface {
	// Put stores a new wake if was is empty, and reports CodeConflict when the agent has
	// one of that id. Else it stores w provided the stored state is still was; otherwise
	// it reports CodeConflict.
	Put(w Wake, was WakeState) error
	// Remove removes a wake, and reports CodeNotFound when there is none.
	Remove(agent AgentID, id string) error
}
