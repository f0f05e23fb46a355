package hub

import (
	"slices"
	"strings"
)

// A DeliberationKind is the subject of a deliberation: a task or an opinion.
type DeliberationKind string

// The kinds.
const (
	KindNegotiation  DeliberationKind = "negotiation"  // who does a task, and on which terms
	KindDisagreement DeliberationKind = "disagreement" // which of several positions holds
)

// A DeliberationState says how far a deliberation, or one pair of it, has come.
type DeliberationState string

// The states. Escalated is a state of both kinds.
const (
	TalkOffered     DeliberationState = "offered"
	TalkCountered   DeliberationState = "countered"
	TalkConditional DeliberationState = "conditional" // accepted with conditions, which the offerer has not confirmed
	TalkAccepted    DeliberationState = "accepted"
	TalkDeclined    DeliberationState = "declined"
	TalkExpired     DeliberationState = "expired"

	TalkOpen       DeliberationState = "open" // a position is stated, or a challenge is answered
	TalkChallenged DeliberationState = "challenged"
	TalkConceded   DeliberationState = "conceded"
	TalkDecided    DeliberationState = "decided"
	TalkLapsed     DeliberationState = "lapsed"

	TalkEscalated DeliberationState = "escalated" // waits for a decision
)

// deliberationNext is the whole state machine of both kinds. A state without an entry
// is final.
var deliberationNext = map[DeliberationKind]map[DeliberationState][]DeliberationState{
	KindNegotiation: {
		TalkOffered:     {TalkOffered, TalkCountered, TalkConditional, TalkAccepted, TalkDeclined, TalkEscalated, TalkExpired},
		TalkCountered:   {TalkOffered, TalkCountered, TalkConditional, TalkAccepted, TalkDeclined, TalkEscalated, TalkExpired},
		TalkConditional: {TalkAccepted, TalkDeclined},
		TalkEscalated:   {TalkAccepted, TalkDeclined, TalkExpired},
	},
	KindDisagreement: {
		TalkOpen:       {TalkOpen, TalkChallenged, TalkConceded, TalkEscalated, TalkLapsed},
		TalkChallenged: {TalkOpen, TalkChallenged, TalkConceded, TalkEscalated, TalkLapsed},
		TalkEscalated:  {TalkEscalated, TalkDecided}, // again: the decider was silent, and a person decides
	},
}

// A Pair is the exchange between the agent that opened a deliberation and one of those
// addressed.
type Pair struct {
	Agent    AgentID           `json:"agent"` // the one addressed
	State    DeliberationState `json:"state"`
	Sequence int64             `json:"sequence"` // of its last message
	Turn     AgentID           `json:"turn"`     // the author of its last message
	Last     EnvelopeID        `json:"last"`     // its last message
	Rounds   int               `json:"rounds"`   // counters, or challenges
	Severity string            `json:"severity,omitempty"`
	At       Time              `json:"at,omitzero"` // of its last message

	// The sequences up to which each side has read.
	OpenerRead    int64 `json:"opener_read"`
	AddressedRead int64 `json:"addressed_read"`
}

// A Deliberation is a thread in which agents negotiate about a task or disagree about
// a position, with the state that the hub keeps of it. Messages move it, a decision
// ends one that is escalated.
type Deliberation struct {
	ID        string            `json:"id"` // the thread
	Kind      DeliberationKind  `json:"kind"`
	State     DeliberationState `json:"state"`
	Title     string            `json:"title"`
	Team      string            `json:"team,omitempty"`
	Policy    Policy            `json:"policy"` // of its first message
	From      AgentID           `json:"from"`   // who opened it
	Asked     []AgentID         `json:"asked"`
	Pairs     []Pair            `json:"pairs"` // those in which something was said since the opening
	First     EnvelopeID        `json:"first"` // the message that opened it
	RespondBy Time              `json:"respond_by,omitzero"`

	ClaimedBy  AgentID  `json:"claimed_by,omitempty"`
	ClaimedAt  Time     `json:"claimed_at,omitzero"`
	Conditions []string `json:"conditions,omitempty"`
	Task       TaskID   `json:"task_id,omitempty"` // that an accepted offer into a team became

	EscalatedFor AgentID   `json:"escalated_for,omitempty"` // the pair that escalated
	EscalatedAt  Time      `json:"escalated_at,omitzero"`
	Deciders     []AgentID `json:"deciders,omitempty"` // to whom it was escalated
	Untold       bool      `json:"-"`                  // the deciders have no message about it yet

	Outcome   string  `json:"outcome,omitempty"` // how it ended, in a sentence
	Reason    string  `json:"reason,omitempty"`  // of a decision
	DecidedBy AgentID `json:"decided_by,omitempty"`
	DueAt     Time    `json:"due_at,omitzero"` // when it ends, or moves, without a message
	CreatedAt Time    `json:"created_at,omitzero"`
	UpdatedAt Time    `json:"updated_at,omitzero"`
	Revision  int64   `json:"-"` // of the row; 0 for one that is not stored
}

// Advance returns d moved to next at the given time. It reports CodeConflict when the
// state machine has no such move, and then returns d unchanged.
func (d Deliberation) Advance(next DeliberationState, now Time) (Deliberation, error) {
	if !slices.Contains(deliberationNext[d.Kind][d.State], next) {
		return d, Errorf(CodeConflict, "hub.Advance", "the %s %s is %s and cannot become %s", d.Kind, d.ID, d.State, next)
	}
	d.State, d.UpdatedAt = next, now
	if d.Over() {
		d.DueAt = Time{}
	}
	return d, nil
}

// Over reports whether d has ended.
func (d Deliberation) Over() bool { return len(deliberationNext[d.Kind][d.State]) == 0 }

// Concerns reports whether an agent takes part in d or decides it.
func (d Deliberation) Concerns(agent AgentID) bool {
	return agent == d.From || slices.Contains(d.Asked, agent) || slices.Contains(d.Deciders, agent)
}

// SensitiveText replaces a text of high sensitivity for readers that may know of it and not read it.
const SensitiveText = "high-sensitivity text"

// WithheldFrom reports whether c may read d only without its texts: d has high sensitivity, and c
// reads it as an auditor that takes no part.
func (d Deliberation) WithheldFrom(c Caller) bool {
	return c.ReadsAsAuditor() && d.Policy.Sensitivity == SensitivityHigh && !d.Concerns(c.ID)
}

// For returns d as c may read it.
func (d Deliberation) For(c Caller) Deliberation {
	if !d.WithheldFrom(c) {
		return d
	}
	d.Title = SensitiveText
	d.Conditions = nil
	d.Outcome, d.Reason = "", ""
	return d
}

// Pair returns the pair with one of those asked. The opening message is the first of
// every pair.
func (d Deliberation) Pair(agent AgentID) Pair {
	for _, p := range d.Pairs {
		if p.Agent == agent {
			return p
		}
	}
	state := TalkOffered
	if d.Kind == KindDisagreement {
		state = TalkOpen
	}
	return Pair{Agent: agent, State: state, Sequence: 1, Turn: d.From, Last: d.First, At: d.CreatedAt, OpenerRead: 1}
}

// WithPair returns d with one of its pairs replaced.
func (d Deliberation) WithPair(p Pair) Deliberation {
	d.Pairs = slices.Clone(d.Pairs)
	if i := slices.IndexFunc(d.Pairs, func(old Pair) bool { return old.Agent == p.Agent }); i >= 0 {
		d.Pairs[i] = p
		return d
	}
	d.Pairs = append(d.Pairs, p)
	return d
}

// Severities are the severities of a challenge, least first.
var Severities = []string{"minor", "significant", "blocking"}

// A Turn is one of the messages that a member of a pair may send.
type Turn struct {
	Type      MessageType
	Addressed bool // by the agent that was addressed, not by the one that opened
	Own       bool // also after a message of its own
}

// turns are the messages that are possible in a state of a pair, and the state after
// them. It is the whole rule of turns; limits of rounds come on top.
var turns = map[DeliberationState]map[Turn]DeliberationState{
	TalkOffered: {
		{TypeTaskAccept, true, false}: TalkAccepted, {TypeTaskCounter, true, false}: TalkCountered,
		{TypeTaskDecline, true, true}: TalkDeclined, {TypeTaskDecline, false, true}: TalkDeclined,
	},
	TalkCountered: {
		{TypeTaskAccept, true, false}: TalkAccepted, {TypeTaskCounter, true, false}: TalkCountered, {TypeTaskDecline, true, true}: TalkDeclined,
		{TypeTaskAccept, false, false}: TalkAccepted, {TypeTaskCounter, false, false}: TalkCountered, {TypeTaskDecline, false, true}: TalkDeclined,
	},
	TalkConditional: {{TypeTaskAccept, false, false}: TalkAccepted, {TypeTaskDecline, false, false}: TalkDeclined},
	TalkOpen: {
		{TypePositionChallenge, true, false}: TalkChallenged,
		{TypePositionConcede, false, true}:   TalkConceded, {TypePositionConcede, true, true}: TalkConceded,
		{TypePositionEscalate, false, true}: TalkEscalated, {TypePositionEscalate, true, true}: TalkEscalated,
	},
	TalkChallenged: {
		{TypePositionState, false, false}:  TalkOpen,
		{TypePositionConcede, false, true}: TalkConceded, {TypePositionConcede, true, true}: TalkConceded,
		{TypePositionEscalate, false, true}: TalkEscalated, {TypePositionEscalate, true, true}: TalkEscalated,
	},
}

// Possible returns the messages that one side of a pair may send now. rounds is the
// most counters or challenges of a pair.
func (d Deliberation) Possible(p Pair, by AgentID, rounds int) []MessageType {
	var out []MessageType
	if d.Over() || d.State == TalkEscalated {
		return out
	}
	for turn := range turns[p.State] {
		if turn.Addressed != (by == p.Agent) || (p.Turn == by && !turn.Own) {
			continue
		}
		switch turn.Type {
		case TypePositionState: // an answer to the last challenge would begin a further round
			if p.Rounds >= rounds {
				continue
			}
		case TypePositionChallenge:
			if p.Rounds >= rounds {
				continue
			}
		case TypePositionConcede, TypePositionEscalate:
			if p.Rounds == 0 {
				continue // there is nothing to concede yet
			}
		}
		out = append(out, turn.Type)
	}
	slices.SortFunc(out, func(a, b MessageType) int { return strings.Compare(string(a), string(b)) })
	return out
}

// After returns the state of a pair after a message of one side, which Possible lists.
func (p Pair) After(t MessageType, by AgentID) DeliberationState {
	for turn, next := range turns[p.State] {
		if turn.Type == t && turn.Addressed == (by == p.Agent) {
			return next
		}
	}
	return p.State
}

// A DeliberationQuery chooses deliberations, newest first. Empty members do not
// restrict.
type DeliberationQuery struct {
	Viewer AgentID // takes part in it or decides it
	Kind   DeliberationKind
	Team   string
	Open   bool // is not over
	Due    Time // was to end, or to move, by then
	Untold bool
	Cursor string // the id of the last one of the page before
	Limit  int    // how many at most; positive
}

// A Decision ends a deliberation, or is made by a team. It is kept for ever.
type Decision struct {
	ID        string    `json:"decision_id"`
	Team      string    `json:"team,omitempty"`
	Title     string    `json:"title"`
	Decision  string    `json:"decision"`
	Rationale string    `json:"rationale,omitempty"`
	Deciders  []AgentID `json:"deciders"`
	Status    string    `json:"status"` // proposed, decided or superseded
	Refs      []string  `json:"context_refs,omitempty"`
	At        Time      `json:"at,omitzero"`
}

// DecisionFor returns d as c may read it: the words of a decision on a deliberation whose texts are
// withheld from c are withheld, too.
func DecisionFor(r Reader, c Caller, d Decision) (Decision, error) {
	if !c.ReadsAsAuditor() {
		return d, nil
	}
	for _, ref := range d.Refs {
		talk, err := r.Deliberation(ref)
		if CodeOf(err) == CodeNotFound {
			continue
		}
		if err != nil {
			return d, err
		}
		if talk.WithheldFrom(c) {
			d.Title = SensitiveText
			d.Decision = SensitiveText
			d.Rationale = ""
		}
	}
	return d, nil
}

// A DecisionQuery chooses decisions, newest first. Empty members do not restrict.
type DecisionQuery struct {
	Team   string
	Cursor string // the id of the last one of the page before
	Limit  int    // how many at most; positive
}

// An Admission is the ruling of a deliberation about one message.
type Admission struct {
	Deliberation Deliberation // after the message
	Claimed      bool         // another accept came first, or the same one again: the message is not stored
	Warnings     []string
	Notices      []Message // written by the hub in the same transaction
}
