package wake

import (
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// An account is the stored state of one agent: the permissions of its user, and its attempts
// of late.
type account struct {
	Allowed   bool       `json:"allowed,omitempty"`   // mail may start turns
	Interrupt bool       `json:"interrupt,omitempty"` // critical mail of a coordinator may interrupt one
	WithText  bool       `json:"with_text,omitempty"` // a notice may have the text of a short message of the operator
	PerHour   int        `json:"per_hour,omitempty"`  // wakes of this agent; 0 for the limit of the hub
	Paused    bool       `json:"paused,omitempty"`
	Disarmed  string     `json:"disarmed,omitempty"` // why the agent is woken no more
	Barren    int        `json:"barren,omitempty"`   // wakes in a row that led to nothing
	Released  hub.Time   `json:"released,omitzero"`  // messages up to then start turns, of any cause
	Attempts  []*attempt `json:"attempts,omitempty"` // oldest first

	// Shown lists unread messages that a hook has shown and that may start a turn
	// nevertheless: as context of a turn, or at the end of one that did not go on.
	Shown []hub.EnvelopeID `json:"shown,omitempty"`

	// Alarms lists the alarms of the hub that started a turn, oldest first, one for each
	// subject.
	Alarms []alarm `json:"alarms,omitempty"`
}

// An alarm is a message of the hub that started a turn. Its subject is its thread.
type alarm struct {
	Subject string         `json:"subject"`
	Message hub.EnvelopeID `json:"message"`
}

// maxAlarms is the number of alarms that an account remembers.
const maxAlarms = 64

// mayWake reports whether a message may start a turn. Of the alarms about one subject
// only the first does.
func (a *account) mayWake(m inboxMessage) bool {
	if m.quiet || !m.MayWake() {
		return false
	}
	return m.From != hub.Self || !slices.ContainsFunc(a.Alarms, func(old alarm) bool { return old.Subject == m.ThreadID && old.Message != m.ID })
}

// noteAlarms remembers the alarms among messages that start a turn.
func (a *account) noteAlarms(messages []inboxMessage) {
	for _, m := range messages {
		known := slices.ContainsFunc(a.Alarms, func(old alarm) bool { return old.Subject == m.ThreadID })
		if m.From == hub.Self && !known {
			a.Alarms = append(a.Alarms, alarm{m.ThreadID, m.ID})
		}
	}
	a.Alarms = slices.Delete(a.Alarms, 0, max(len(a.Alarms)-maxAlarms, 0))
}

func accountKey(agent hub.AgentID) string { return "router/" + string(agent) }

// An attempt is one batch on its way to an agent. It is open until its outcome is
// known.
type attempt struct {
	ID        string           `json:"id"`
	Channel   hub.Channel      `json:"channel"`
	Mechanism string           `json:"mechanism,omitempty"`
	At        hub.Time         `json:"at,omitzero"`
	State     channel.State    `json:"state,omitempty"` // "" until Deliver has returned
	Until     hub.Time         `json:"until,omitzero"`  // when an open attempt ends without a proof
	Proven    hub.Time         `json:"proven,omitzero"` // when the recipient showed that it noticed
	Messages  []hub.EnvelopeID `json:"messages,omitempty"`
	Senders   []hub.AgentID    `json:"senders,omitempty"`
	Roots     []hub.EnvelopeID `json:"roots,omitempty"` // messages that began the conversations of Messages
	Cost      int              `json:"cost,omitempty"`  // turns against the budgets; 0 for context
	Interrupt bool             `json:"interrupt,omitempty"`
	Repeat    bool             `json:"repeat,omitempty"`
	Probe     bool             `json:"probe,omitempty"`
	Hook      bool             `json:"hook,omitempty"` // shown by a hook, not by a wake
	Detail    string           `json:"detail,omitempty"`
	Machine   string           `json:"machine,omitempty"` // of the hub that learned its state
	Closed    bool             `json:"closed,omitempty"`
}

// carry adds a message to an attempt.
func (t *attempt) carry(m inboxMessage) {
	t.Messages = append(t.Messages, m.ID)
	if !slices.Contains(t.Senders, m.From) {
		t.Senders = append(t.Senders, m.From)
	}
	if m.root != "" && !slices.Contains(t.Roots, m.root) {
		t.Roots = append(t.Roots, m.root)
	}
}

// turnsFor returns the turns of the last hour for messages of the conversation that a
// message began, of any conversation for "".
func (a *account) turnsFor(root hub.EnvelopeID) (n int) {
	for _, t := range a.Attempts {
		if t.Cost > 0 && (root == "" || slices.Contains(t.Roots, root)) {
			n++
		}
	}
	return n
}

// rank orders the states of an attempt. A report that comes late does not move one
// back.
var rank = map[channel.State]int{"": 0, channel.Waiting: 1, channel.Handed: 2, channel.Offered: 3, channel.TurnStarted: 3}

// open returns the attempt under way over the channels of a kind, or over all that
// start turns if the kind is one of them; nil if there is none.
func (a *account) open(kind hub.Channel) *attempt {
	for _, t := range a.Attempts {
		if !t.Closed && (t.Channel == kind || startsTurns(kind) && startsTurns(t.Channel)) {
			return t
		}
	}
	return nil
}

func (a *account) find(id string) *attempt {
	for _, t := range slices.Backward(a.Attempts) {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// add appends an attempt. It forgets those that no budget needs, except the last.
func (a *account) add(t *attempt) {
	a.Attempts = slices.DeleteFunc(a.Attempts, func(old *attempt) bool {
		return old.Closed && (old.ID == t.ID || t.At.Sub(old.At.Time) >= time.Hour)
	})
	a.Attempts = append(a.Attempts, t)
	if n := len(a.Attempts); n > maxAttempts {
		a.Attempts = a.Attempts[n-maxAttempts:]
	}
}

// announced reports whether an attempt of a kind has shown a message, or is about to. A
// row that was skipped shows nothing: it is tried again when that can be.
func (a *account) announced(m inboxMessage, kind hub.Channel) bool {
	if startsTurns(kind) && slices.Contains(a.Shown, m.ID) {
		return false
	}
	same := []hub.Channel{kind}
	if startsTurns(kind) && m.Priority != hub.PriorityCritical {
		same = turnKinds // one of them is enough
	}
	for _, k := range same {
		d := m.newest(k)
		if d != nil && d.Status != hub.DeliverySkipped && (d.Status != hub.DeliveryPending || d.Error != "") {
			return true
		}
	}
	return false
}

// show remembers that a hook showed messages as context, or forgets it because an
// attempt to start a turn for them begins. Messages that were read are forgotten.
func (a *account) show(unread []inboxMessage, ids []hub.EnvelopeID, context bool) {
	a.Shown = slices.DeleteFunc(a.Shown, func(id hub.EnvelopeID) bool {
		return slices.Contains(ids, id) || !slices.ContainsFunc(unread, func(m inboxMessage) bool { return m.ID == id })
	})
	if context {
		a.Shown = append(a.Shown, ids...)
	}
}

// last returns the newest attempt that announced messages; nil if there is none.
func (a *account) last() *attempt {
	for _, t := range slices.Backward(a.Attempts) {
		if !t.Probe && t.State != channel.Refused {
			return t
		}
	}
	return nil
}

// blocked returns why an agent must not be woken at all, "" if it may.
func (g *Machine) blocked(rd hub.Reader, agent hub.AgentID, a account) (string, error) {
	all, err := hub.ReadMeta[common](rd, commonKey)
	if err != nil {
		return "", err
	}
	switch {
	case all.Paused:
		return "the operator has paused all wakes: parley wake resume --all", nil
	case a.Paused:
		return fmt.Sprintf("its wakes are paused: parley wake resume %s", agent), nil
	case !a.Allowed:
		return fmt.Sprintf("its user has not allowed wakes: parley wake allow %s", agent), nil
	case a.Disarmed != "":
		return fmt.Sprintf("disarmed, because %s: parley wake resume %s", a.Disarmed, agent), nil
	}
	who, err := rd.Agent(agent)
	if err != nil {
		return "", err
	}
	if who.State != hub.AgentActive {
		return "the agent is paused", nil
	}
	keys, err := rd.Keys(agent)
	if err != nil {
		return "", err
	}
	now := g.o.Clock.Now()
	if !slices.ContainsFunc(keys, func(k hub.Key) bool { return k.Live(now) }) {
		return "it has no valid key", nil
	}
	return "", nil
}
