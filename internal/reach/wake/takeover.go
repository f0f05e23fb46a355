package wake

import (
	"slices"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// An oldAttempt is a wake as accounts had it before wakes were stored by themselves.
type oldAttempt struct {
	hub.Wake
	State  channel.State `json:"state,omitempty"` // "" until its channel was called
	Closed bool          `json:"closed,omitempty"`
}

// wake returns the attempt as a wake.
func (t oldAttempt) wake(agent hub.AgentID) *hub.Wake {
	w := t.Wake
	w.Agent = agent
	switch state := hub.WakeState(t.State); {
	case t.State == "" && !t.Closed:
		w.State = hub.WakeReserved
	case t.State == channel.Offered && t.Closed:
		w.State = hub.WakeShown
	case state.Open() == t.Closed || statusOf[state] == "":
		w.State = hub.WakeFailed // no version wrote that
	default:
		w.State = state
	}
	return &w
}

// takeOver takes wakes over from documents of the version before: attempts of the account,
// and what its sessions say about them.
func (a *agentRecord) takeOver() {
	for _, t := range a.account.Attempts {
		if a.wakes.find(t.ID) == nil {
			a.wakes.append(t.wake(a.agent))
		}
	}
	a.account.Attempts = nil

	for _, s := range a.presence.Sessions {
		if s.Wake != nil {
			a.takeOverSession(s.Key, s.Wake)
		}
		if w := a.wakes.find(s.Turn); s.Turn != "" && w != nil && !w.InSession(s.Key) {
			w.Sessions = append(w.Sessions, s.Key)
		}
		s.Wake = nil
		s.Turn = ""
	}
}

// takeOverSession takes over what a session says about the wake that is on its way into it.
func (a *agentRecord) takeOverSession(k Key, old *sessionWake) {
	w := a.wakes.find(old.ID)
	if w == nil || slices.Contains(w.Sessions, k) {
		return
	}
	w.Sessions = append(w.Sessions, k)
	w.Taken = old.Taken
	w.Handed = old.Handed
	if w.State == hub.WakeHanded && old.Handed.IsZero() {
		w.State = hub.WakeTaken
	}
}
