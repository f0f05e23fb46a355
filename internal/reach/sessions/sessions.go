// Package sessions is the hub's register of the sessions in which agents run: which
// program has one, where, what it does now, and by which mechanism a notice gets into
// it.
//
// The hub never starts a program of an agent. A waiter beside the agent's CLI holds
// one request to the hub (Wait), gets a notice when a turn is due, writes it by its
// mechanism and tells the result (Handed). Hooks and plugins of the CLI tell what the
// session does (Report): that is where presence comes from, and the proof that a
// notice became a turn. Their answers can carry a notice, too.
//
// A session is known by its id and its process together: a headless run of a CLI can
// have the id of a session that is open in a terminal. Each session has one armed
// mechanism; a newer waiter ends the older one.
//
// Everything is kept in the store, one small document for each agent, so that a wake
// survives the end of the process and several hubs on one store can serve one agent.
// The register starts nothing by itself: it is two channels of the router, one for
// sessions that a person attends and one for those without.
//
// The tests here hold states, bounds and hubs that share a store. What a session sees is
// tested through the operations of a hub, in server/wake_test.go, server/wake_rules_test.go
// and server/ghost_linux_test.go; hooks and waiters as commands in
// cmd/parley/launch_linux_test.go, and with real CLIs in
// cmd/parley/desk_wake_linux_test.go.
package sessions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/plaintext"
)

// A State is the activity of a session.
type State string

// The states. StateEnded is "gone" on the wire.
const (
	StateStarting State = "starting"
	StateWorking  State = "working" // a turn runs
	StateWaiting  State = "waiting" // for a person: a permission, an answer
	StateIdle     State = "idle"
	StateEnded    State = "gone"
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
	maxUnread    = 200              // unread messages that a notice considers
	longestWait  = time.Minute      // of one Wait
	maxReplaced  = 8                // waiters of a session that are remembered, so that they do not come back
	longText     = 512              // bytes of any text in a report
)

// A Key names a session of an agent. One without a process is known by its id alone.
type Key struct {
	CLI     string `json:"cli"`
	ID      string `json:"session"`
	Process int    `json:"process,omitempty"`
}

// A Session is one session of an agent.
type Session struct {
	Key
	Stamp     string   `json:"stamp,omitempty"` // of its process, see package process; empty if it is not known
	Cwd       string   `json:"cwd,omitempty"`
	Version   string   `json:"version,omitempty"`   // of the CLI; empty if it is not known
	Mechanism string   `json:"mechanism,omitempty"` // by which its waiter writes notices
	State     State    `json:"state"`
	Since     hub.Time `json:"since,omitzero"` // in that state
	Attended  bool     `json:"attended,omitempty"`
	Armed     hub.Time `json:"armed,omitzero"`      // since when a waiter serves it; zero if none does
	Seen      hub.Time `json:"seen,omitzero"`       // the last request of its waiter or hooks
	Reported  hub.Time `json:"reported,omitzero"`   // the last report of its hooks; zero if it has none
	NoQuota   hub.Time `json:"no_quota,omitzero"`   // since when its turns fail because its account is out of quota
	LastProof hub.Time `json:"last_proof,omitzero"` // the last turn that a notice started
	Proven    string   `json:"proven,omitempty"`    // version of the CLI in the last such turn of any session

	Shown     int64  `json:"shown,omitempty"`     // messages up to this entry of the journal were announced in it
	Told      int64  `json:"told,omitempty"`      // the same by hooks in the turn that runs; forgotten at its end
	Wake      *wake  `json:"wake,omitempty"`      // the one under way
	Turn      string `json:"turn,omitempty"`      // the wake whose turn runs
	Continued bool   `json:"continued,omitempty"` // the turn that runs was continued with a notice
	Unproven  bool   `json:"unproven,omitempty"`  // the session has not shown since then that it goes on

	Waiter   string   `json:"waiter,omitempty"`   // the waiter that serves it
	Replaced []string `json:"replaced,omitempty"` // waiters that served it before, the newest last
}

// A wake is a batch on its way into a session. Its messages are those that wait when
// it leaves.
type wake struct {
	ID        string   `json:"id"`
	Interrupt bool     `json:"interrupt,omitempty"`
	Repeat    bool     `json:"repeat,omitempty"`
	Probe     bool     `json:"probe,omitempty"`
	Taken     hub.Time `json:"taken,omitzero"`  // its waiter has got it
	Handed    hub.Time `json:"handed,omitzero"` // its waiter has written it
}

// live reports whether the session still is there, as far as the hub knows.
func (s Session) live() bool { return s.State != StateEnded }

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
func (g *Register) armed(agent hub.AgentID, s *Session, now hub.Time) bool {
	if !s.live() {
		return false
	}
	recent := !s.Armed.IsZero() && now.Sub(s.Seen.Time) < staleAfter
	return recent || g.waiting(agent, s.Key)
}

// waiting reports whether a request of a waiter of the session waits in this process.
func (g *Register) waiting(agent hub.AgentID, k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits[waitKey{agent, k}] != nil
}

// bury ends the sessions whose process is known to have ended without a word, and
// returns them as they were. A look costs the read of one small file of the system.
func (g *Register) bury(d *document, now hub.Time) (buried []Session) {
	for _, s := range d.Sessions {
		if !s.live() || g.ended == nil || s.Stamp == "" || !g.ended(s.Process, s.Stamp) {
			continue
		}
		buried = append(buried, *s)
		s.move(StateEnded, now)
		s.Armed = hub.Time{}
		s.Wake = nil
		s.Turn = ""
	}
	return buried
}

// endBuried ends the wakes and turns that were under way in buried sessions: the router
// announces their messages again.
func (g *Register) endBuried(tx hub.Tx, agent hub.AgentID, buried []Session) error {
	const detail = "its process ended"
	for _, s := range buried {
		if s.Wake != nil {
			if err := g.turns.Record(tx, agent, s.Wake.ID, channel.Outcome{State: channel.Refused, Mechanism: s.Mechanism, Detail: detail}); err != nil {
				return err
			}
		}
		if s.Turn == "" {
			continue
		}
		if err := g.turns.Record(tx, agent, s.Turn, channel.Outcome{State: channel.TurnEnded, Mechanism: s.Mechanism, Detail: detail}); err != nil {
			return err
		}
	}
	return nil
}

// busy reports whether a turn runs that a notice should not disturb.
func (s Session) busy(now hub.Time) bool {
	silent := now.Sub(s.Reported.Time)
	return (s.State == StateWorking && silent < silentAfter) || (s.State == StateWaiting && silent < askingAfter)
}

// silent reports whether a turn runs, by the last report, that has given no sign of life
// since. It counts as over: it may have failed, or its user may have interrupted it.
func (s Session) silent(now hub.Time) bool {
	return (s.State == StateWorking || s.State == StateWaiting) && !s.busy(now)
}

// proof returns the time that the session has to show a notice.
func (s Session) proof(now hub.Time) time.Duration {
	switch {
	case s.Reported.IsZero(), s.State == StateStarting:
		return proofUnknown
	case s.busy(now):
		return proofBusy
	}
	return proofIdle
}

// move sets the state of the session.
func (s *Session) move(next State, now hub.Time) {
	if s.State != next {
		s.State, s.Since = next, now
	}
}

// A document is the stored part of the register for one agent.
type document struct {
	Sessions []*Session        `json:"sessions"`
	Proven   map[string]string `json:"proven,omitempty"` // version of each CLI in which a notice last started a turn
}

func metaKey(agent hub.AgentID) string { return "sessions/" + string(agent) }

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
func (d *document) ensure(k Key, now hub.Time) *Session {
	if s := d.find(k); s != nil {
		return s
	}
	if s := d.find(Key{CLI: k.CLI, ID: Opening, Process: k.Process}); s != nil && s.live() {
		s.Key = k
		return s
	}
	d.Sessions = slices.DeleteFunc(d.Sessions, func(s *Session) bool {
		return !s.live() && now.Sub(s.Seen.Time) > keepEnded
	})
	if len(d.Sessions) >= maxSessions {
		oldest := slices.MinFunc(d.Sessions, func(a, b *Session) int { return a.Seen.Compare(b.Seen.Time) })
		d.Sessions = slices.DeleteFunc(d.Sessions, func(s *Session) bool { return s == oldest })
	}
	s := &Session{Key: k, State: StateStarting, Since: now, Seen: now}
	d.Sessions = append(d.Sessions, s)
	return s
}

// Turns is the part of the router that the register needs. All of it runs inside the
// transaction that changes a session.
type Turns interface {
	// Valid reports why an attempt must not be shown any more, "" if it may: its
	// messages still wait, and its recipient may be woken.
	Valid(r hub.Reader, agent hub.AgentID, id string) (string, error)
	// Started reports whether the turn of an attempt has begun.
	Started(r hub.Reader, agent hub.AgentID, id string) (bool, error)
	// Record records how far an attempt has come.
	Record(tx hub.Tx, agent hub.AgentID, id string, o channel.Outcome) error
	// Show reports whether a hook may show a batch, and records it as offered. turn
	// says that showing it makes the model go on, which costs a turn.
	Show(tx hub.Tx, b channel.Batch, mechanism string, turn bool) (bool, error)
	// CarriesText reports whether the user of an agent allowed that a notice has the
	// text of a short message of the operator.
	CarriesText(r hub.Reader, agent hub.AgentID) (bool, error)
	// Visit makes the router consider an agent again.
	Visit(agent hub.AgentID)
}

// Options changes how a Register works.
type Options struct {
	Clock    hub.Clock
	Bus      hub.Bus
	Stopping <-chan struct{} // ends every wait when it is closed; may be nil

	// Ended reports whether the process of a number and a stamp is known to have
	// ended. It is nil where processes cannot be looked at; then the last request of
	// a session decides. The same holds for sessions on other machines.
	Ended func(process int, stamp string) bool
}

// A Register knows the sessions of the agents of a hub. It is safe for concurrent
// use.
type Register struct {
	store    hub.Store
	clock    hub.Clock
	bus      hub.Bus
	stopping <-chan struct{}
	ended    func(process int, stamp string) bool
	turns    Turns

	mu    sync.Mutex                // guards waits
	waits map[waitKey]chan struct{} // the wait under way in this process for each session; closed by a newer one
}

type waitKey struct {
	agent hub.AgentID
	Key
}

// New returns a register that keeps sessions in store. Connect must be called before
// it is used.
func New(store hub.Store, o Options) *Register {
	return &Register{store: store, clock: o.Clock, bus: o.Bus, stopping: o.Stopping, ended: o.Ended, waits: map[waitKey]chan struct{}{}}
}

// Connect gives the register the router that decides about turns.
func (g *Register) Connect(t Turns) { g.turns = t }

// update changes the document of one agent.
func (g *Register) update(ctx context.Context, agent hub.AgentID, change func(tx hub.Tx, d *document, now hub.Time) error) error {
	err := g.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		d, err := hub.ReadMeta[document](tx, metaKey(agent))
		if err != nil {
			return err
		}
		now := g.clock.Now()
		if err := g.endBuried(tx, agent, g.bury(&d, now)); err != nil {
			return err
		}
		if err := change(tx, &d, now); err != nil {
			return err
		}
		return hub.WriteMeta(tx, metaKey(agent), d)
	})
	if err == nil {
		g.bus.Publish(topic(agent))
	}
	return err
}

// topic is where a hint goes when the sessions of an agent change.
func topic(agent hub.AgentID) string { return "sessions/" + string(agent) }

// List returns the sessions of an agent, the newest first.
func (g *Register) List(r hub.Reader, agent hub.AgentID) ([]Session, error) {
	d, err := hub.ReadMeta[document](r, metaKey(agent))
	if err != nil {
		return nil, err
	}
	now := g.clock.Now()
	g.bury(&d, now)
	out := []Session{}
	for _, s := range d.Sessions {
		if s.silent(now) {
			s.State = StateIdle
			s.Since = s.Reported
		}
		if g.armed(agent, s, now) {
			s.Armed = cmp.Or(s.Armed, s.Seen)
		} else {
			s.Armed = hub.Time{}
		}
		s.Proven = d.Proven[s.CLI]
		out = append(out, *s)
	}
	slices.SortStableFunc(out, func(a, b Session) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), b.Seen.Compare(a.Seen.Time))
	})
	return out, nil
}

// order puts ended sessions last.
func order(s Session) int {
	if s.live() {
		return 0
	}
	return 1
}

// An unreadMail is the unread mail of an agent as one session sees it.
type unreadMail struct {
	all   []hub.Envelope
	fresh []hub.Envelope // not announced in the session
	upTo  int64          // the entry of the journal with which the newest arrived
}

// readMail returns the unread mail of an agent for a session in which messages up to
// an entry of the journal were announced. A message arrives with the entry that sent
// or approved it; ids would not do, because messages may be committed in another
// order than their ids were made. It costs one read of the inbox and one index read
// for each unread message.
func readMail(r hub.Reader, agent hub.AgentID, shown int64, now hub.Time) (unreadMail, error) {
	out := unreadMail{upTo: shown}
	page, err := r.Inbox(agent, hub.InboxFilter{NewOnly: true, Limit: maxUnread, Now: now})
	if err != nil {
		return out, err
	}
	for _, m := range page.Messages {
		seq, err := arrival(r, m.ID)
		if err != nil {
			return out, err
		}
		out.all = append(out.all, m.Envelope)
		if seq > shown {
			out.fresh = append(out.fresh, m.Envelope)
		}
		out.upTo = max(out.upTo, seq)
	}
	return out, nil
}

// arrival returns the number of the journal entry with which a message came into its
// inboxes; 0 if the entry was archived.
func arrival(r hub.Reader, id hub.EnvelopeID) (int64, error) {
	entries, err := r.Journal(hub.JournalQuery{Subject: string(id), Limit: 8})
	seq := int64(0)
	for _, e := range entries {
		if e.Action == actions.MessageSent || e.Action == actions.MessageApproved {
			seq = e.Seq
		}
	}
	return seq, err
}

// maxOrder is the most bytes of a text of the operator in a notice.
const maxOrder = 280

// writeNotice returns the notice of a batch for a session. It has the text of the only
// message if that is a short line of the operator, not sensitive, and the agent's user
// allowed it.
func (g *Register) writeNotice(r hub.Reader, b channel.Batch) (string, error) {
	if len(b.Messages) != 1 || b.Repeat || b.Probe {
		return b.Notice(inboxTool), nil
	}
	e := b.Messages[0]
	text, plain := e.PlainText()
	refers := e.Context != nil && len(e.Context.Artifacts)+len(e.Context.ExternalRefs) > 0
	isShort := plain && !refers && len(text) <= maxOrder && !strings.Contains(text, "\n")
	if e.From != hub.Operator || e.Policy.Sensitivity == hub.SensitivityHigh || !isShort {
		return b.Notice(inboxTool), nil
	}
	allowed, err := g.turns.CarriesText(r, b.Recipient)
	if err != nil || !allowed {
		return b.Notice(inboxTool), err
	}
	b.OrderID, err = r.ShortID(string(e.ID))
	b.Order = plaintext.Line(text)
	return b.Notice(inboxTool), err
}

// inboxTool is the name of the inbox tool in a notice. CLIs put a prefix before it in the
// list of their tools; the name alone is six tokens shorter and names one tool.
const inboxTool = "acp_inbox"

// check refuses a key that cannot name a session.
func (k Key) check(op string) error {
	switch {
	case k.CLI == "" || k.ID == "":
		return hub.Errorf(hub.CodeInvalid, op, "cli and session must be given")
	case len(k.CLI) > 64 || len(k.ID) > longText:
		return hub.Errorf(hub.CodeTooLarge, op, "cli has at most 64 bytes, session at most %d", longText)
	case k.Process < 0:
		return hub.Errorf(hub.CodeInvalid, op, "process: %d is negative", k.Process)
	}
	return nil
}

func checkTexts(op string, texts ...string) error {
	for _, t := range texts {
		if len(t) > 4*longText {
			return hub.Errorf(hub.CodeTooLarge, op, "a text has at most %d bytes", 4*longText)
		}
	}
	return nil
}

// describe returns how a session stands, for people and senders.
func describe(s Session, now hub.Time) string {
	if s.busy(now) {
		if s.State == StateWaiting {
			return fmt.Sprintf("waits for a person in %s", s.CLI)
		}
		return fmt.Sprintf("busy in %s", s.CLI)
	}
	return fmt.Sprintf("idle in %s", s.CLI)
}
