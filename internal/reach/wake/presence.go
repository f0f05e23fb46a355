package wake

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A SessionState is the activity of a session.
type SessionState string

// The states of a session. SessionEnded is "gone" on the wire.
const (
	SessionStarting SessionState = "starting"
	SessionWorking  SessionState = "working" // a turn runs
	SessionWaiting  SessionState = "waiting" // for a person: a permission, an answer
	SessionIdle     SessionState = "idle"
	SessionEnded    SessionState = "gone"
)

// An Event is something that a hook or plugin of a CLI reports.
type Event string

// The events.
const (
	EventStart   Event = "start"    // the session began, or was taken up again
	EventPrompt  Event = "prompt"   // a prompt was given: a turn begins
	EventTool    Event = "tool"     // a tool call of the turn has ended
	EventTurnEnd Event = "turn_end" // the turn is over unless the answer continues it
	EventWaiting Event = "waiting"  // a person is asked
	EventEnd     Event = "end"      // the session ended
)

var events = []Event{EventStart, EventPrompt, EventTool, EventTurnEnd, EventWaiting, EventEnd}

const (
	staleAfter   = 3 * time.Minute  // without a request of its waiter a session is not armed any more
	silentAfter  = 2 * time.Minute  // without a report a turn counts as over: a user who interrupts it causes none
	askingAfter  = 15 * time.Minute // the same for a question to a person
	takeWithin   = 2 * time.Minute  // the time that a waiter has to come for a wake; it comes again after a restart of the hub
	proofIdle    = 30 * time.Second // for a turn to begin in an idle session
	proofBusy    = 10 * time.Minute // for a turn to begin after the one that runs
	proofUnknown = 5 * time.Minute  // in a session without hooks
	keepEnded    = 24 * time.Hour   // ended sessions stay in the list so long
	maxSessions  = 16               // for one agent; the oldest leaves first
	longestWait  = time.Minute      // of one Wait
	maxReplaced  = 8                // waiters of a session that are remembered, so that they do not come back
	longText     = 512              // bytes of any text in a report
)

// A Key names a session of an agent.
type Key = hub.SessionKey

// A Session is one session of an agent.
type Session struct {
	Key
	Stamp     string       `json:"stamp,omitempty"` // of its process, see package process; empty if it is not known
	Cwd       string       `json:"cwd,omitempty"`
	Version   string       `json:"version,omitempty"`   // of the CLI; empty if it is not known
	Mechanism string       `json:"mechanism,omitempty"` // by which its waiter writes notices
	State     SessionState `json:"state"`
	Since     hub.Time     `json:"since,omitzero"` // in that state
	Attended  bool         `json:"attended,omitempty"`
	Armed     hub.Time     `json:"armed,omitzero"`      // since when a waiter serves it; zero if none does
	Seen      hub.Time     `json:"seen,omitzero"`       // the last request of its waiter or hooks
	Reported  hub.Time     `json:"reported,omitzero"`   // the last report of its hooks; zero if it has none
	NoQuota   hub.Time     `json:"no_quota,omitzero"`   // since when its turns fail because its account is out of quota
	LastProof hub.Time     `json:"last_proof,omitzero"` // the last turn that a notice started
	Proven    string       `json:"proven,omitempty"`    // version of the CLI in the last such turn of any session

	Shown     int64        `json:"shown,omitempty"`     // messages up to this entry of the journal were announced in it
	Told      int64        `json:"told,omitempty"`      // the same by hooks in the turn that runs; forgotten at its end
	Wake      *sessionWake `json:"wake,omitempty"`      // the one under way; set in lists alone
	Turn      string       `json:"turn,omitempty"`      // the wake whose turn runs; set in lists alone
	Continued bool         `json:"continued,omitempty"` // the turn that runs was continued with a notice
	Spent     bool         `json:"spent,omitempty"`     // its person was told that a budget is spent
	Unproven  bool         `json:"unproven,omitempty"`  // the session has not shown since then that it goes on

	Waiter   string   `json:"waiter,omitempty"`   // the waiter that serves it
	Replaced []string `json:"replaced,omitempty"` // waiters that served it before, the newest last
}

// A sessionWake is the wake on its way into a session, as people read it.
type sessionWake struct {
	ID        string   `json:"id"`
	Interrupt bool     `json:"interrupt,omitempty"`
	Repeat    bool     `json:"repeat,omitempty"`
	Probe     bool     `json:"probe,omitempty"`
	Taken     hub.Time `json:"taken,omitzero"`  // its waiter has got it
	Handed    hub.Time `json:"handed,omitzero"` // its waiter has written it
}

// live reports whether the session still is there, as far as the hub knows.
func (s Session) live() bool { return s.State != SessionEnded }

// serve makes a waiter the one of the session, unless a newer one took its place; then
// it reports false. Waiters may come to several hubs on one store, so the session says
// who serves it. A waiter without a name is the newest while its request lasts.
func (s *Session) serve(name string) bool {
	switch {
	case name == "" || name == s.Waiter:
		return true
	case slices.Contains(s.Replaced, name):
		return false
	}
	s.replace(name)
	return true
}

// replace puts a waiter into the place of the one that serves the session; "" leaves
// the place free. The one before gets no more wakes and ends.
func (s *Session) replace(name string) {
	if s.Waiter != "" {
		s.Replaced = append(s.Replaced, s.Waiter)
		s.Replaced = slices.Delete(s.Replaced, 0, max(len(s.Replaced)-maxReplaced, 0))
	}
	s.Waiter = name
}

// armed reports whether a waiter serves a session now: its request waits in this
// process, or it was here a short time ago and did not break off.
func (g *Machine) armed(agent hub.AgentID, s *Session, now hub.Time) bool {
	if !s.live() {
		return false
	}
	recent := !s.Armed.IsZero() && now.Sub(s.Seen.Time) < staleAfter
	return recent || g.hasWaiter(agent, s.Key)
}

// hasWaiter reports whether a request of a waiter of the session waits in this process.
func (g *Machine) hasWaiter(agent hub.AgentID, k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits[waitKey{agent, k}] != nil
}

// bury ends the sessions whose process is known to have ended without a word, and
// returns their keys. A look costs the read of one small file of the system.
func (g *Machine) bury(d *document, now hub.Time) (buried []Key) {
	for _, s := range d.Sessions {
		hasEnded := s.live() && g.o.Ended != nil && s.Stamp != "" && g.o.Ended(s.Process, s.Stamp)
		if !hasEnded {
			continue
		}
		buried = append(buried, s.Key)
		s.move(SessionEnded, now)
		s.Armed = hub.Time{}
	}
	return buried
}

// endDead ends the sessions whose process is known to have ended, with the wakes and turns
// that were under way in them: the next visit announces their messages again.
func (a *agentRecord) endDead() error {
	const detail = "its process ended"
	for _, k := range a.bury(&a.presence, a.now) {
		if w := a.wakes.offered(k); w != nil {
			if err := a.withdraw(w, k, detail); err != nil {
				return err
			}
		}
		if err := a.endTurn(k, detail); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes a wake from a session that cannot show it any more. It is refused unless
// another session may take it.
func (a *agentRecord) withdraw(w *hub.Wake, k Key, reason string) error {
	return a.leave(w, k, step{state: hub.WakeRefused, mechanism: a.mechanism(k), detail: reason})
}

// leave takes a wake from a session. It ends with a step unless another session may take it.
func (a *agentRecord) leave(w *hub.Wake, k Key, end step) error {
	left := slices.DeleteFunc(slices.Clone(w.Sessions), func(other Key) bool { return other == k })
	if len(left) > 0 && w.State == hub.WakeWaiting {
		w.Sessions = left
		return nil
	}
	return a.move(w, end)
}

// endTurn records the end of the turn that a wake started in a session.
func (a *agentRecord) endTurn(k Key, detail string) error {
	w := a.wakes.turn(k)
	if w == nil {
		return nil
	}
	return a.move(w, step{state: hub.WakeEnded, mechanism: a.mechanism(k), detail: detail})
}

// mechanism returns the mechanism of a session, "" if it is not known.
func (a *agentRecord) mechanism(k Key) string {
	if s := a.presence.find(k); s != nil {
		return s.Mechanism
	}
	return ""
}

// busy reports whether a turn runs that a notice should not disturb.
func (s Session) busy(now hub.Time) bool {
	silent := now.Sub(s.Reported.Time)
	return (s.State == SessionWorking && silent < silentAfter) || (s.State == SessionWaiting && silent < askingAfter)
}

// silent reports whether a turn runs, by the last report, that has given no sign of life
// since. It counts as over: it may have failed, or its user may have interrupted it.
func (s Session) silent(now hub.Time) bool {
	return (s.State == SessionWorking || s.State == SessionWaiting) && !s.busy(now)
}

// proof returns the time that the session has to show a notice.
func (s Session) proof(now hub.Time) time.Duration {
	switch {
	case s.Reported.IsZero(), s.State == SessionStarting:
		return proofUnknown
	case s.busy(now):
		return proofBusy
	}
	return proofIdle
}

// move sets the state of the session.
func (s *Session) move(next SessionState, now hub.Time) {
	if s.State != next {
		s.State, s.Since = next, now
	}
}

// A document is the stored presence of one agent.
type document struct {
	Sessions []*Session        `json:"sessions,omitempty"`
	Proven   map[string]string `json:"proven,omitempty"` // version of each CLI in which a notice last started a turn
}

func sessionsKey(agent hub.AgentID) string { return "sessions/" + string(agent) }

// find returns the session of a key, nil if there is none.
func (d *document) find(k Key) *Session {
	for _, s := range d.Sessions {
		if s.Key == k {
			return s
		}
	}
	return nil
}

// Opening is the id of the session of a CLI that has none yet. The first session that its
// process reports takes its place, with the wake that began it.
const Opening = "opening"

// ensure returns the session of a key and adds it if there is none. It forgets
// sessions that ended long ago and, beyond maxSessions, those not seen for longest.
func (a *agentRecord) ensure(k Key) *Session {
	d := &a.presence
	if s := d.find(k); s != nil {
		return s
	}
	if s := d.find(Key{CLI: k.CLI, ID: Opening, Process: k.Process}); s != nil && s.live() {
		for _, w := range a.wakes {
			if i := slices.Index(w.Sessions, s.Key); i >= 0 {
				w.Sessions[i] = k
			}
		}
		s.Key = k
		return s
	}

	d.Sessions = slices.DeleteFunc(d.Sessions, func(s *Session) bool {
		return !s.live() && a.now.Sub(s.Seen.Time) > keepEnded
	})
	if len(d.Sessions) >= maxSessions {
		oldest := slices.MinFunc(d.Sessions, func(x, y *Session) int { return x.Seen.Compare(y.Seen.Time) })
		d.Sessions = slices.DeleteFunc(d.Sessions, func(s *Session) bool { return s == oldest })
	}
	s := &Session{Key: k, State: SessionStarting, Since: a.now, Seen: a.now}
	d.Sessions = append(d.Sessions, s)
	return s
}

// topic is where a hint goes when the sessions of an agent change.
func topic(agent hub.AgentID) string { return "sessions/" + string(agent) }

// List returns the sessions of an agent, the newest first.
func (g *Machine) List(r hub.Reader, agent hub.AgentID) ([]Session, error) {
	a, err := g.load(r, agent)
	if err != nil {
		return nil, err
	}
	g.bury(&a.presence, a.now)
	out := []Session{}
	for _, s := range a.presence.Sessions {
		out = append(out, a.describe(*s))
	}
	slices.SortStableFunc(out, func(x, y Session) int {
		return cmp.Or(cmp.Compare(order(x), order(y)), y.Seen.Compare(x.Seen.Time))
	})
	return out, nil
}

// describe returns a session as people read it: as it is now, with its wake and its turn.
func (a *agentRecord) describe(s Session) Session {
	if s.silent(a.now) {
		s.State = SessionIdle
		s.Since = s.Reported
	}
	if a.armed(a.agent, &s, a.now) {
		s.Armed = cmp.Or(s.Armed, s.Seen)
	} else {
		s.Armed = hub.Time{}
	}
	s.Proven = a.presence.Proven[s.CLI]

	if !s.live() {
		return s
	}
	if w := a.wakes.offered(s.Key); w != nil {
		s.Wake = &sessionWake{ID: w.ID, Interrupt: w.Interrupt, Repeat: w.Repeat, Probe: w.Probe, Taken: w.Taken, Handed: w.Handed}
	}
	if w := a.wakes.turn(s.Key); w != nil {
		s.Turn = w.ID
	}
	return s
}

// order puts ended sessions last.
func order(s Session) int {
	if s.live() {
		return 0
	}
	return 1
}

// checkKey refuses a key that cannot name a session.
func checkKey(op string, k Key) error {
	switch {
	case k.CLI == "" || k.ID == "":
		return hub.Errorf(hub.CodeInvalid, op, "cli and session are required")
	case len(k.CLI) > 64 || len(k.ID) > longText:
		return hub.Errorf(hub.CodeTooLarge, op, "cli is limited to 64 bytes, session to %d", longText)
	case k.Process < 0:
		return hub.Errorf(hub.CodeInvalid, op, "process must not be negative, got %d", k.Process)
	}
	return nil
}

func checkTexts(op string, texts ...string) error {
	for _, t := range texts {
		if len(t) > 4*longText {
			return hub.Errorf(hub.CodeTooLarge, op, "a text is longer than %d bytes", 4*longText)
		}
	}
	return nil
}

// activity returns how a session stands, for people and senders.
func activity(s Session, now hub.Time) string {
	if s.busy(now) {
		if s.State == SessionWaiting {
			return fmt.Sprintf("waits for a person in %s", s.CLI)
		}
		return fmt.Sprintf("busy in %s", s.CLI)
	}
	return fmt.Sprintf("idle in %s", s.CLI)
}
