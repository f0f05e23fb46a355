package wake

import (
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// An account is the stored permission of one agent: the answers of its user, and what wakes
// so far say about the next.
type account struct {
	Allowed   bool     `json:"allowed,omitempty"`   // mail may start turns
	Interrupt bool     `json:"interrupt,omitempty"` // critical mail of a coordinator may interrupt one
	WithText  bool     `json:"with_text,omitempty"` // a notice may have the text of a short message of the operator
	PerHour   int      `json:"per_hour,omitempty"`  // wakes of this agent; 0 for the limit of the hub
	Paused    bool     `json:"paused,omitempty"`
	Stopped   bool     `json:"stopped,omitempty"`  // its tool calls are denied, too, until wakes resume
	Disarmed  string   `json:"disarmed,omitempty"` // why the agent is woken no more
	Barren    int      `json:"barren,omitempty"`   // wakes in a row that led to nothing
	Released  hub.Time `json:"released,omitzero"`  // messages up to then start turns, of any cause

	Attempts []oldAttempt `json:"attempts,omitempty"` // of the version before; see takeOver

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

// announced reports whether a wake of a kind has shown a message, or is about to. A
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
		isAnnounced := d != nil && d.Status != hub.DeliverySkipped && (d.Status != hub.DeliveryPending || d.Error != "")
		if isAnnounced {
			return true
		}
	}
	return false
}

// show remembers that a hook showed messages as context, or forgets it because an
// wake that starts a turn for them begins. Messages that were read are forgotten.
func (a *account) show(unread []inboxMessage, ids []hub.EnvelopeID, context bool) {
	a.Shown = slices.DeleteFunc(a.Shown, func(id hub.EnvelopeID) bool {
		return slices.Contains(ids, id) || !slices.ContainsFunc(unread, func(m inboxMessage) bool { return m.ID == id })
	})
	if context {
		a.Shown = append(a.Shown, ids...)
	}
}

// blocked returns why an agent must not be woken at all, "" if it may.
func (a *agentRecord) blocked() (string, error) {
	all, err := hub.ReadMeta[common](a.rd, commonKey)
	if err != nil {
		return "", err
	}
	switch {
	case all.Paused:
		return "the operator has paused all wakes: parley agent wake --all --on", nil
	case a.account.Paused:
		return fmt.Sprintf("its wakes are paused: parley agent wake %s --on", a.agent), nil
	case !a.account.Allowed:
		return fmt.Sprintf("its user has not allowed wakes: parley agent wake %s --on", a.agent), nil
	case a.account.Disarmed != "":
		return fmt.Sprintf("disarmed, because %s: parley agent wake %s --on", a.account.Disarmed, a.agent), nil
	}

	// The agent must be active, and needs a key to fetch its messages.
	who, err := a.rd.Agent(a.agent)
	if err != nil {
		return "", err
	}
	if who.State != hub.AgentActive {
		return "the agent is paused", nil
	}
	keys, err := a.rd.Keys(a.agent)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(keys, func(k hub.Key) bool { return k.Live(a.now) }) {
		return "it has no valid key", nil
	}
	return "", nil
}
