// Package deliberation keeps the state of negotiations (task.*) and disagreements
// (position.*).
//
// Messages move a deliberation, inside the transaction that stores the message; there
// is no other way to move it but a decision about one that is escalated, and time. The
// tables in hub have the turns. A pair has a bounded number of rounds, and every
// state that is not final has a time at which it ends or goes to a person, so that no
// agent can keep a deliberation open by itself.
package deliberation

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Mail writes the messages of the hub. The mailroom is one.
type Mail interface {
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// KeepText stores a text and returns a reference to it, with which Notify makes
	// it readable for the recipients.
	KeepText(text string) (hub.ArtifactRef, error)
	// MarkRead marks a message in the inbox of the actor as read, inside tx.
	MarkRead(tx hub.Tx, actor hub.Caller, id hub.EnvelopeID) error
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// A Board keeps the tasks of teams.
type Board interface {
	// Offerable refuses an offer whose sender may not create tasks in the team, or which
	// one of those asked may not accept.
	Offerable(r hub.Reader, team hub.TeamID, from hub.AgentID, asked []hub.AgentID) error
	// Agreed makes the task of an accepted offer, inside tx.
	Agreed(tx hub.Tx, actor hub.Caller, d hub.Deliberation) (hub.Task, []hub.Message, error)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Board        Board         // without one no offer names a team
	Clock        hub.Clock     // default time.Now
	Log          *slog.Logger  // default silent
	ResponseTime time.Duration // the time for an answer, a confirmation or a decision; default and most DefaultResponseTime
	Counters     int           // the most counters of a pair; default and most 3
	Challenges   int           // the most challenges of a pair; default and most 2
}

// DefaultResponseTime is the time in which an answer is awaited.
const DefaultResponseTime = 24 * time.Hour

// The most rounds of a pair.
const (
	maxCounters   = 3
	maxChallenges = 2
)

// A Service keeps the deliberations of a hub. It is safe for concurrent use.
type Service struct {
	store    hub.Store
	mail     Mail
	clock    hub.Clock
	ids      *hub.IDs
	log      *slog.Logger
	response time.Duration
	board    Board
	rounds   map[hub.DeliberationKind]int
}

// New returns a service. opts may be nil. It reports CodeInvalid when an option is
// looser than the default.
func New(store hub.Store, mail Mail, opts *Options) (*Service, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}

	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ResponseTime == 0 {
		o.ResponseTime = DefaultResponseTime
	}
	if o.Counters == 0 {
		o.Counters = maxCounters
	}
	if o.Challenges == 0 {
		o.Challenges = maxChallenges
	}

	const op = "deliberation.New"
	switch {
	case o.ResponseTime < 0 || o.ResponseTime > DefaultResponseTime:
		return nil, hub.Errorf(hub.CodeInvalid, op, "response-time must be between 0 and %s, got %s", DefaultResponseTime, o.ResponseTime).WithHint("limits can be tightened, not loosened")
	case o.Counters < 0 || o.Counters > maxCounters:
		return nil, hub.Errorf(hub.CodeInvalid, op, "max-counters must be between 1 and %d, got %d", maxCounters, o.Counters).WithHint("limits can be tightened, not loosened")
	case o.Challenges < 0 || o.Challenges > maxChallenges:
		return nil, hub.Errorf(hub.CodeInvalid, op, "disagreement_rounds must be between 1 and %d, got %d", maxChallenges, o.Challenges).WithHint("limits can be tightened, not loosened")
	}

	return &Service{
		store: store, mail: mail, clock: o.Clock, ids: hub.NewIDs(o.Clock), log: o.Log, response: o.ResponseTime, board: o.Board,
		rounds: map[hub.DeliberationKind]int{hub.KindNegotiation: o.Counters, hub.KindDisagreement: o.Challenges},
	}, nil
}

// terms are the members of payloads that a deliberation reads. The schema of each type
// says which of them are there.
type terms struct {
	Title        string         `json:"title"`
	Topic        string         `json:"topic"`
	RespondBy    hub.Time       `json:"respond_by,omitzero"`
	Deadline     hub.Time       `json:"deadline,omitzero"`
	Capabilities []string       `json:"required_capabilities"`
	OfferID      hub.EnvelopeID `json:"offer_id"`
	Conditions   []string       `json:"conditions"`
	Reason       string         `json:"reason"`
	Suggested    hub.AgentID    `json:"suggested_agent"`

	Revises     hub.EnvelopeID   `json:"revises"`
	PositionID  hub.EnvelopeID   `json:"position_id"`
	ChallengeID hub.EnvelopeID   `json:"challenge_id"`
	PositionIDs []hub.EnvelopeID `json:"position_ids"`
	Severity    string           `json:"severity"`
	EscalateTo  hub.AgentID      `json:"escalate_to"`

	Position        string `json:"position"`
	CounterPosition string `json:"counter_position"`
	RevisedPosition string `json:"revised_position"`
	Changed         string `json:"what_changed_mind"`
}

// names returns the messages that the payload names, which must be in the thread.
func (t terms) names() []hub.EnvelopeID {
	all := append([]hub.EnvelopeID{t.OfferID, t.Revises, t.PositionID, t.ChallengeID}, t.PositionIDs...)
	return slices.DeleteFunc(all, func(id hub.EnvelopeID) bool { return id == "" })
}

// Admit judges a task.* or position.* message inside the transaction that stores it:
// first whether the task is claimed, then the state, then the sequence, which it fills
// in if the caller left it out. It moves the deliberation.
func (s *Service) Admit(tx hub.Tx, actor hub.Caller, msg *hub.Message, to []hub.AgentID) (hub.Admission, error) {
	const op = "deliberation.Admit"
	var t terms
	if err := json.Unmarshal(msg.Payload, &t); err != nil {
		return hub.Admission{}, hub.Errorf(hub.CodeInvalid, op, "payload: %v", err)
	}

	alone := msg.ThreadID == string(msg.ID)
	switch {
	case msg.Type == hub.TypeTaskOffer && !alone:
		return hub.Admission{}, hub.Errorf(hub.CodeConflict, op, "an offer must start a new thread").WithHint("leave thread_id and reply_to out; to change terms, send task.counter")
	case msg.Type == hub.TypeTaskOffer, msg.Type == hub.TypePositionState && alone && t.Revises == "":
		return s.open(tx, op, actor, msg, t, to)
	}

	// A message without a thread continues that of the first message that it names.
	if names := t.names(); alone && len(names) > 0 {
		first, err := tx.Message(names[0])
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return hub.Admission{}, err
		}
		msg.ThreadID = first.ThreadID
	}

	d, err := tx.Deliberation(msg.ThreadID)
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && !d.Concerns(actor.ID)) {
		return hub.Admission{}, hub.Errorf(hub.CodeNotFound, op, "this thread is not one of your negotiations or disagreements").
			WithHint("answer the message: {respond} with reply_to")
	}
	if err != nil {
		return hub.Admission{}, err
	}
	if kindOf(msg.Type) != d.Kind {
		return hub.Admission{}, hub.Errorf(hub.CodeConflict, op, "thread %s is a %s and cannot contain %s", called(tx, d.First), d.Kind, msg.Type)
	}
	return s.move(tx, op, actor, msg, t, to, d)
}

func kindOf(t hub.MessageType) hub.DeliberationKind {
	if t.Feature() == hub.FeatureNegotiation {
		return hub.KindNegotiation
	}
	return hub.KindDisagreement
}

// open begins a deliberation.
func (s *Service) open(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message, t terms, to []hub.AgentID) (hub.Admission, error) {
	now := msg.CreatedAt
	if msg.Sequence != nil && *msg.Sequence != 1 {
		return hub.Admission{}, hub.Errorf(hub.CodeSequence, op, "the first message of an exchange must have sequence 1, got %d", *msg.Sequence)
	}
	first := int64(1)
	msg.Sequence = &first

	d := hub.Deliberation{
		ID: string(msg.ID), Kind: kindOf(msg.Type), Team: msg.Team, Policy: msg.Policy, From: actor.ID, Asked: slices.Clone(to), Pairs: []hub.Pair{}, First: msg.ID,
		Title: t.Title, State: hub.TalkOffered, CreatedAt: now, UpdatedAt: now, DueAt: now.Add(s.response),
	}

	// An offer to everyone does not ask the operator.
	if msg.Broadcast() {
		d.Asked = slices.DeleteFunc(d.Asked, func(id hub.AgentID) bool { return id == hub.Operator })
	}
	if d.Kind == hub.KindDisagreement {
		d.Title, d.State = t.Topic, hub.TalkOpen
	}

	if slices.Contains(d.Asked, actor.ID) || len(d.Asked) == 0 {
		return hub.Admission{}, hub.Errorf(hub.CodePolicy, op, "a %s needs another agent: %s cannot address itself", d.Kind, actor.ID)
	}
	if err := s.offerable(tx, d, d.Asked...); err != nil {
		return hub.Admission{}, err
	}

	if !t.RespondBy.IsZero() {
		if !t.RespondBy.After(now.Time) {
			return hub.Admission{}, hub.Errorf(hub.CodeInvalid, op, "payload.respond_by %s is in the past", t.RespondBy).WithHint("it is now %s", now)
		}
		d.RespondBy, d.DueAt = t.RespondBy, t.RespondBy
	}

	out := hub.Admission{Deliberation: d}
	if len(t.Capabilities) > 0 {
		who, err := declaring(tx, d.Asked, t.Capabilities)
		if err != nil {
			return out, err
		}
		out.Warnings = append(out.Warnings, who)
	}
	return out, s.put(tx, actor, d)
}

// offerable refuses an offer into a team that roles forbid.
func (s *Service) offerable(r hub.Reader, d hub.Deliberation, asked ...hub.AgentID) error {
	if d.Team == "" || d.Kind != hub.KindNegotiation || s.board == nil {
		return nil
	}
	return s.board.Offerable(r, hub.TeamID(d.Team), d.From, asked)
}

// declaring says which of the agents declare all of some abilities.
func declaring(r hub.Reader, asked []hub.AgentID, abilities []string) (string, error) {
	var who []string
	for _, id := range asked {
		a, err := r.Agent(id)
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(abilities, func(x string) bool { return !slices.Contains(a.Can, x) }) {
			who = append(who, string(id))
		}
	}
	if len(who) == 0 {
		return "no recipient declares " + strings.Join(abilities, ", "), nil
	}
	return fmt.Sprintf("%s declared by: %s", strings.Join(abilities, ", "), strings.Join(who, ", ")), nil
}

// move judges a message of an open deliberation and applies it.
func (s *Service) move(tx hub.Tx, op string, actor hub.Caller, msg *hub.Message, t terms, to []hub.AgentID, d hub.Deliberation) (out hub.Admission, err error) {
	now := msg.CreatedAt
	by := actor.ID
	if msg.Type == hub.TypeTaskAccept && d.ClaimedBy != "" && slices.Contains(d.Asked, by) {
		return hub.Admission{Deliberation: d, Claimed: true}, nil // nothing may be written before: it would be committed
	}
	if d, out.Notices, err = s.elapse(tx, d, now); err != nil {
		return out, err
	}
	if withdraws(d, msg, t, by) {
		return s.withdraw(tx, actor, msg, d, to, out)
	}

	// Is the message possible now, for this pair, with this content?
	p, err := s.pair(op, d, by, msg.Type, to)
	if err != nil {
		return out, err
	}
	if possible := d.Possible(p, by, s.rounds[d.Kind]); !slices.Contains(possible, msg.Type) {
		return out, refusal(op, d, p, by, msg.Type, possible)
	}
	if err := s.check(tx, op, d, p, msg, t, by); err != nil {
		return out, err
	}
	if err := number(op, d, p, by, msg); err != nil {
		return out, err
	}

	m := moving{s: s, tx: tx, msg: msg, terms: t, by: by, now: now, d: d, p: p}
	m.note()
	if err := m.apply(); err != nil {
		return out, err
	}
	if e := m.escalation; e != nil {
		return s.escalated(tx, actor, m.d, m.p, e.to, now, e.due, e.reason, out)
	}
	return s.advance(tx, actor, m.d, m.next, now, out)
}

// withdraws reports whether a message takes an offer back for all that were asked.
func withdraws(d hub.Deliberation, msg *hub.Message, t terms, by hub.AgentID) bool {
	declines := msg.Type == hub.TypeTaskDecline && msg.Sequence == nil && t.Reason == "other"
	open := d.State == hub.TalkOffered || d.State == hub.TalkCountered
	return by == d.From && declines && open
}

// advance moves a deliberation to its next state and, if that is its last, ends it.
func (s *Service) advance(tx hub.Tx, actor hub.Caller, d hub.Deliberation, next hub.DeliberationState, now hub.Time, out hub.Admission) (_ hub.Admission, err error) {
	if d, err = d.Advance(next, now); err != nil {
		return out, err
	}
	if d.Over() {
		var notices []hub.Message
		if d, notices, err = s.finish(tx, actor, d, now); err != nil {
			return out, err
		}
		out.Notices = append(out.Notices, notices...)
		if d.Task != "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("it is now task %s of team %s", d.Task, d.Team))
		}
	}
	out.Deliberation = d
	return out, s.put(tx, actor, d)
}

// openState returns the state that follows from the states of the pairs.
func openState(d hub.Deliberation) hub.DeliberationState {
	said, ended := hub.TalkCountered, hub.TalkDeclined
	state := hub.TalkOffered
	if d.Kind == hub.KindDisagreement {
		state = hub.TalkOpen
		said = hub.TalkChallenged
		ended = hub.TalkConceded
	}
	over := 0
	for _, p := range d.Pairs {
		switch p.State {
		case said:
			state = said
		case ended:
			over++
		}
	}
	if over == len(d.Asked) {
		return ended
	}
	return state
}

// withdraw ends all pairs of an offer.
func (s *Service) withdraw(tx hub.Tx, actor hub.Caller, msg *hub.Message, d hub.Deliberation, to []hub.AgentID, out hub.Admission) (_ hub.Admission, err error) {
	p := d.Pair(to[0])
	next := p.Sequence + 1
	msg.Sequence = &next
	if d, err = d.Advance(hub.TalkDeclined, msg.CreatedAt); err != nil {
		return out, err
	}
	d.Outcome = fmt.Sprintf("%s withdrew the offer", actor.ID)
	others := slices.DeleteFunc(slices.Clone(d.Asked), func(id hub.AgentID) bool { return slices.Contains(to, id) || d.Pair(id).State == hub.TalkDeclined })
	if len(others) > 0 {
		n, err := s.tellState(tx, d, others)
		if err != nil {
			return out, err
		}
		out.Notices = append(out.Notices, n)
	}
	out.Deliberation = d
	return out, s.put(tx, actor, d)
}

// pair returns the pair that a message of an agent belongs to.
func (s *Service) pair(op string, d hub.Deliberation, by hub.AgentID, t hub.MessageType, to []hub.AgentID) (hub.Pair, error) {
	if by != d.From {
		if !slices.Contains(d.Asked, by) {
			return hub.Pair{}, hub.Errorf(hub.CodeDenied, op, "%s does not take part in the %s %s", by, d.Kind, d.ID)
		}
		if t != hub.TypePositionEscalate && !slices.Equal(to, []hub.AgentID{d.From}) {
			return hub.Pair{}, hub.Errorf(hub.CodeInvalid, op, "a %s in this thread can go only to %s", t, d.From).WithHint("answer the message: {respond} with reply_to")
		}
		return d.Pair(by), nil
	}
	named := slices.DeleteFunc(slices.Clone(to), func(id hub.AgentID) bool { return !slices.Contains(d.Asked, id) })
	if len(named) == 0 && len(d.Asked) == 1 && t == hub.TypePositionEscalate {
		named = d.Asked
	}
	if len(named) != 1 || (len(to) != 1 && t != hub.TypePositionEscalate) {
		return hub.Pair{}, hub.Errorf(hub.CodeInvalid, op, "to must name exactly one of these agents: %s", names(d.Asked)).
			WithHint("to withdraw the offer for all, send task.decline with reason other and no sequence")
	}
	return d.Pair(named[0]), nil
}

func names(ids []hub.AgentID) string {
	out := make([]string, 0, len(ids))
	for _, id := range ids[:min(len(ids), 20)] {
		out = append(out, string(id))
	}
	return strings.Join(out, ", ")
}

// refusal says the state and the possible moves.
func refusal(op string, d hub.Deliberation, p hub.Pair, by hub.AgentID, t hub.MessageType, possible []hub.MessageType) error {
	state := p.State
	if d.Over() || d.State == hub.TalkEscalated {
		state = d.State
	}
	can := "you cannot send anything now"
	if len(possible) > 0 {
		words := make([]string, len(possible))
		for i, x := range possible {
			words[i] = string(x)
		}
		can = "you can send: " + strings.Join(words, ", ")
	}
	e := hub.Errorf(hub.CodeConflict, op, "the %s is %s: %s cannot send %s; %s", d.Kind, state, by, t, can)
	if d.State == hub.TalkEscalated {
		return e.WithHint("it waits for a decision by %s", names(d.Deciders))
	}
	return e
}

// check compares the members of a payload with the deliberation.
func (s *Service) check(r hub.Reader, op string, d hub.Deliberation, p hub.Pair, msg *hub.Message, t terms, by hub.AgentID) error {
	if d.Kind == hub.KindNegotiation && t.OfferID != d.First {
		return hub.Errorf(hub.CodeInvalid, op, "payload.offer_id %s is not the offer in this thread, %s", called(r, t.OfferID), called(r, d.First))
	}
	if err := checkMessages(r, op, d, t); err != nil {
		return err
	}

	switch msg.Type {
	case hub.TypeTaskAccept:
		if len(t.Conditions) > 0 && by == d.From {
			return hub.Errorf(hub.CodeInvalid, op, "payload.conditions: only a recipient of the offer can set conditions").WithHint("send task.counter to change the terms")
		}
	case hub.TypePositionState:
		if t.Revises != p.Last {
			return hub.Errorf(hub.CodeInvalid, op, "payload.revises must be the challenge it answers, %s", called(r, p.Last))
		}
	case hub.TypePositionEscalate:
		if err := checkEscalation(op, d, msg, t); err != nil {
			return err
		}
	}
	return checkAgents(r, op, t)
}

// checkMessages refuses a payload that names a message of another thread.
func checkMessages(r hub.Reader, op string, d hub.Deliberation, t terms) error {
	for _, id := range t.names() {
		named, err := r.Message(id)
		elsewhere := err == nil && named.ThreadID != d.ID
		if hub.CodeOf(err) == hub.CodeNotFound || elsewhere {
			return hub.Errorf(hub.CodeInvalid, op, "payload: no message %s in this thread", called(r, id))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkEscalation refuses a decider that takes part, and a deadline that has passed.
func checkEscalation(op string, d hub.Deliberation, msg *hub.Message, t terms) error {
	if d.Concerns(t.EscalateTo) {
		return hub.Errorf(hub.CodePolicy, op, "payload.escalate_to: %s takes part in the disagreement", t.EscalateTo).WithHint("name another agent, or operator")
	}
	if !t.Deadline.IsZero() && !t.Deadline.After(msg.CreatedAt.Time) {
		return hub.Errorf(hub.CodeInvalid, op, "payload.deadline %s is in the past", t.Deadline).WithHint("it is now %s", msg.CreatedAt)
	}
	return nil
}

// checkAgents refuses a payload that names an agent which is not on this hub.
func checkAgents(r hub.Reader, op string, t terms) error {
	for _, id := range []hub.AgentID{t.Suggested, t.EscalateTo} {
		if id == "" {
			continue
		}
		_, err := r.Agent(id)
		if hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeUnknownRecipient, op, "no agent named %q on this hub", id).WithHint("{agents} lists the agents")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// called returns the name of a message for a reader: its short id, if it has one.
func called(r hub.Reader, id hub.EnvelopeID) string {
	short, err := r.ShortID(string(id))
	if err != nil {
		return string(id)
	}
	return string(short)
}

// number checks the sequence of a message, or fills it in if the author has read
// everything that the other side sent.
func number(op string, d hub.Deliberation, p hub.Pair, by hub.AgentID, msg *hub.Message) error {
	next := p.Sequence + 1
	if msg.Sequence != nil {
		if *msg.Sequence != next {
			return hub.Errorf(hub.CodeSequence, op, "sequence must be %d, the next number of this exchange, got %d", next, *msg.Sequence).
				WithHint("read the thread again and use %d", next)
		}
		return nil
	}
	read := p.AddressedRead
	if by == d.From {
		read = p.OpenerRead
	}
	if p.Turn != by && read < p.Sequence && msg.ReplyTo != p.Last {
		return hub.Errorf(hub.CodeSequence, op, "%s sent message %d of this exchange, which you have not read", p.Turn, p.Sequence).
			WithHint("read it and use sequence %d", next)
	}
	msg.Sequence = &next
	return nil
}

// put stores a deliberation with its journal entry.
func (s *Service) put(tx hub.Tx, actor hub.Caller, d hub.Deliberation) error {
	if err := tx.PutDeliberation(d); err != nil {
		return err
	}
	facts := map[string]any{"kind": d.Kind, "state": d.State, "from": d.From, "asked": len(d.Asked), "claimed_by": d.ClaimedBy, "decided_by": d.DecidedBy}
	_, err := tx.Append(actor.Entry(d.UpdatedAt, actions.DeliberationMoved, "deliberation/"+d.ID, facts))
	return err
}
