package router

import (
	"cmp"
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
	PerHour   int        `json:"per_hour,omitempty"`  // wakes of this agent; 0 for the limit of the hub
	Paused    bool       `json:"paused,omitempty"`
	Disarmed  string     `json:"disarmed,omitempty"` // why the agent is woken no more
	Barren    int        `json:"barren,omitempty"`   // wakes in a row that led to nothing
	Released  hub.Time   `json:"released,omitzero"`  // messages up to then start turns, of any cause
	Attempts  []*attempt `json:"attempts,omitempty"` // oldest first

	// Shown lists unread messages that a hook has shown and that may start a turn
	// nevertheless: as context of a turn, or at the end of one that did not go on.
	Shown []hub.EnvelopeID `json:"shown,omitempty"`
}

func accountKey(agent hub.AgentID) string { return "router/" + string(agent) }

// An attempt is one batch on its way to an agent. It is open until its outcome is
// known.
type attempt struct {
	ID        string           `json:"id"`
	Channel   hub.Channel      `json:"channel"`
	Mechanism string           `json:"mechanism,omitempty"`
	At        hub.Time         `json:"at"`
	State     channel.State    `json:"state,omitempty"` // "" until Deliver has returned
	Until     hub.Time         `json:"until,omitzero"`  // when an open attempt ends without a proof
	Proven    hub.Time         `json:"proven,omitzero"` // when the recipient showed that it noticed
	Messages  []hub.EnvelopeID `json:"messages,omitempty"`
	Senders   []hub.AgentID    `json:"senders,omitempty"`
	Cost      int              `json:"cost,omitempty"` // turns against the budgets; 0 for context
	Interrupt bool             `json:"interrupt,omitempty"`
	Repeat    bool             `json:"repeat,omitempty"`
	Probe     bool             `json:"probe,omitempty"`
	Hook      bool             `json:"hook,omitempty"` // shown by a hook, not by a wake
	Detail    string           `json:"detail,omitempty"`
	Machine   string           `json:"machine,omitempty"` // of the hub that learned its state
	Closed    bool             `json:"closed,omitempty"`
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

// spent returns the turns of the last hour, all of them or those for messages of one
// sender, and when the first of them leaves the hour.
func (a *account) spent(now hub.Time, sender hub.AgentID) (n int, until hub.Time) {
	for _, t := range a.Attempts {
		if t.Cost == 0 || now.Sub(t.At.Time) >= time.Hour || sender != "" && !slices.Contains(t.Senders, sender) {
			continue
		}
		n += t.Cost
		if until.IsZero() {
			until = t.At.Add(time.Hour)
		}
	}
	return n, until
}

// budget returns why no turn may be started for messages of a sender now, and until
// when; "" if one may. Without a sender only the budget of the agent counts.
func (r *Router) budget(a *account, now hub.Time, sender hub.AgentID) (string, hub.Time) {
	spentInHour, until := a.spent(now, "")
	if limit := cmp.Or(a.PerHour, r.o.Limits.PerHour); limit <= spentInHour {
		return fmt.Sprintf("rate: %d wakes within an hour, so it waits in the inbox", limit), until
	}
	if sender == "" {
		return "", hub.Time{}
	}
	if n, until := a.spent(now, sender); n >= r.o.Limits.PairPerHour {
		return fmt.Sprintf("rate: %d wakes for messages of %s within an hour, so it waits in the inbox", r.o.Limits.PairPerHour, sender), until
	}
	return "", hub.Time{}
}

// freeAt returns when the gap after the last turn that mail started before now ends.
func (r *Router) freeAt(a *account, now hub.Time) hub.Time {
	for _, t := range slices.Backward(a.Attempts) { // a notice of a hook within a turn costs nothing
		if t.Cost > 0 && t.At.Before(now.Time) {
			return t.At.Add(r.o.Limits.Gap)
		}
	}
	return hub.Time{}
}

// blocked returns why an agent must not be woken at all, "" if it may.
func (r *Router) blocked(rd hub.Reader, agent hub.AgentID, a account) (string, error) {
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
	now := r.o.Clock.Now()
	if !slices.ContainsFunc(keys, func(k hub.Key) bool { return k.Live(now) }) {
		return "it has no valid key", nil
	}
	return "", nil
}

// Reach forecasts a message to an agent over the channels of one kind. later says that
// an attempt waits for the end of a turn.
func (r *Router) Reach(rd hub.Reader, kind hub.Channel, to hub.AgentID, m hub.Message) (when hub.Reach, later bool, reason string, err error) {
	if startsTurns(kind) {
		a, err := hub.ReadMeta[account](rd, accountKey(to))
		if err != nil {
			return "", false, "", err
		}
		reason, err := r.blocked(rd, to, a)
		if err != nil || reason != "" {
			return hub.ReachUnreachable, false, reason, err
		}
		if reason, err := r.loop(rd, a, m, to); err != nil || reason != "" {
			return hub.ReachHeld, false, reason, err
		}
		if reason, _ := r.budget(&a, r.o.Clock.Now(), m.From); reason != "" {
			return hub.ReachOnPoll, false, reason, nil
		}
	}
	_, best := r.best(kind, to)
	return best.When, best.Later, best.Reason, nil
}

// best returns the first channel of a kind that reaches an agent now, else the first
// that will soon, else the reason of the first.
func (r *Router) best(kind hub.Channel, to hub.AgentID) (channel.Channel, channel.Reach) {
	list := r.channels[kind]
	if len(list) == 0 {
		return nil, channel.Reach{When: hub.ReachUnreachable, Reason: "this hub does not have the channel any more"}
	}
	var soon, first *channel.Reach
	var soonChannel channel.Channel
	for _, c := range list {
		var got channel.Reach
		err := safely(c, func() error {
			got = c.Reach(background, to)
			return nil
		})
		if err != nil {
			got = channel.Reach{When: hub.ReachUnreachable, Reason: err.Error()}
		}
		if got.When == hub.ReachNow {
			return c, got
		}
		if got.Later && soon == nil {
			soon, soonChannel = &got, c
		}
		if first == nil {
			first = &got
		}
	}
	if soon != nil {
		return soonChannel, *soon
	}
	return nil, *first
}
