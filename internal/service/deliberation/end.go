package deliberation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// note returns a message of the hub about d.
func note(d hub.Deliberation, to []hub.AgentID, t hub.MessageType, payload any) (hub.Envelope, error) {
	raw, err := json.Marshal(payload)
	return hub.Envelope{To: to, Type: t, ThreadID: d.ID, ReplyTo: d.First, Payload: raw}, err
}

// tellState tells agents how a deliberation stands.
func (s *Service) tellState(tx hub.Tx, d hub.Deliberation, to []hub.AgentID) (hub.Message, error) {
	e, err := note(d, to, hub.TypeSystemAck, map[string]any{
		"message_id": d.First, "status": d.State, "kind": d.Kind, "title": d.Title, "outcome": d.Outcome, "reason": d.Reason, "decided_by": d.DecidedBy, "deciders": d.Deciders,
	})
	if err != nil {
		return hub.Message{}, err
	}
	return s.mail.Notify(tx, e)
}

// sides returns the opener and those asked whose pair has not ended.
func sides(d hub.Deliberation) []hub.AgentID {
	out := []hub.AgentID{d.From}
	for _, id := range d.Asked {
		if state := d.Pair(id).State; state != hub.TalkDeclined {
			out = append(out, id)
		}
	}
	return out
}

// escalated moves a deliberation to its deciders: the given ones, else the
// coordinators. The message to them is written after the commit, by Tell.
func (s *Service) escalated(tx hub.Tx, actor hub.Caller, d hub.Deliberation, p hub.Pair, to []hub.AgentID, now, due hub.Time, why string, out hub.Admission) (_ hub.Admission, err error) {
	if d, err = d.Advance(hub.TalkEscalated, now); err != nil {
		return out, err
	}
	if d.Deciders = to; to == nil {
		if d.Deciders, err = coordinators(tx, d); err != nil {
			return out, err
		}
	}
	d.EscalatedFor = p.Agent
	d.EscalatedAt = now
	d.Untold = true
	d.Reason = why
	if d.DueAt = due; d.Kind == hub.KindDisagreement && slices.Equal(d.Deciders, []hub.AgentID{hub.Operator}) {
		d.DueAt = hub.Time{} // it waits for a person
	}
	told, err := s.tellState(tx, d, []hub.AgentID{d.From, p.Agent})
	if err != nil {
		return out, err
	}
	out.Deliberation, out.Notices = d, append(out.Notices, told)
	out.Warnings = append(out.Warnings, fmt.Sprintf("the %s %s is escalated because %s; it waits for a decision by %s", d.Kind, called(tx, d.First), strings.TrimSuffix(cut(why, 200), "."), names(d.Deciders)))
	return out, s.put(tx, actor, d)
}

// members returns the members of the team of a deliberation.
func members(r hub.Reader, d hub.Deliberation) ([]hub.Member, error) {
	if d.Team == "" {
		return nil, nil
	}
	return r.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(d.Team), Limit: maxTurns})
}

// coordinators returns the deciders of a deliberation for which no other was named: the
// coordinators of its team, else of the hub, that are active and take no part in it, else
// the operator.
func coordinators(r hub.Reader, d hub.Deliberation) ([]hub.AgentID, error) {
	team, err := members(r, d)
	if err != nil {
		return nil, err
	}
	all, err := r.Agents()
	if err != nil {
		return nil, err
	}
	decides := func(a hub.Agent) bool {
		return a.State == hub.AgentActive && a.ID != hub.Operator && !d.Concerns(a.ID)
	}
	leads := func(a hub.Agent) bool {
		return slices.ContainsFunc(team, func(m hub.Member) bool { return m.Agent == a.ID && m.Role == hub.RoleCoordinator })
	}

	var ofTeam, ofHub []hub.AgentID
	for _, a := range all {
		switch {
		case !decides(a):
		case leads(a):
			ofTeam = append(ofTeam, a.ID)
		case a.Role == hub.RoleCoordinator:
			ofHub = append(ofHub, a.ID)
		}
	}

	// The operator decides if no coordinator can.
	switch {
	case len(ofTeam) > 0:
		return ofTeam, nil
	case len(ofHub) > 0:
		return ofHub, nil
	}
	return []hub.AgentID{hub.Operator}, nil
}

// elapse moves a deliberation whose time has passed, in memory; the caller stores it.
func (s *Service) elapse(tx hub.Tx, d hub.Deliberation, now hub.Time) (_ hub.Deliberation, notices []hub.Message, err error) {
	if d.DueAt.IsZero() || d.DueAt.After(now.Time) {
		return d, nil, nil
	}

	next := hub.TalkExpired
	switch {
	case d.State == hub.TalkConditional:
		next, d.Outcome = hub.TalkAccepted, "the conditions were not refused in time"
		switch err := s.offerable(tx, d, d.ClaimedBy); hub.CodeOf(err) {
		case "":
		case hub.CodeDenied, hub.CodePolicy, hub.CodeConflict, hub.CodeNotFound: // roles or the team forbid it by now
			next, d.Outcome = hub.TalkDeclined, err.Error()
		default:
			return d, nil, err
		}

	case d.Kind == hub.KindNegotiation:
		d.Outcome = "no answer came in time"
	case d.State == hub.TalkEscalated:
		// The agent did not decide in time: a person does.
		d, err = d.Advance(hub.TalkEscalated, now)
		d.Deciders = []hub.AgentID{hub.Operator}
		d.Untold = true
		d.DueAt = hub.Time{}
		return d, nil, err

	case slices.ContainsFunc(d.Pairs, func(p hub.Pair) bool {
		return p.State != hub.TalkConceded && slices.Index(hub.Severities, p.Severity) > 0
	}):
		i := slices.IndexFunc(d.Pairs, func(p hub.Pair) bool {
			return p.State != hub.TalkConceded && slices.Index(hub.Severities, p.Severity) > 0
		})
		if d, err = d.Advance(hub.TalkEscalated, now); err != nil {
			return d, nil, err
		}
		if d.Deciders, err = coordinators(tx, d); err != nil {
			return d, nil, err
		}
		d.EscalatedFor = d.Pairs[i].Agent
		d.EscalatedAt = now
		d.Untold = true
		d.Reason = "one side did not answer"
		d.DueAt = now.Add(s.response)
		told, err := s.tellState(tx, d, []hub.AgentID{d.From, d.EscalatedFor})
		return d, []hub.Message{told}, err

	default:
		next, d.Outcome = hub.TalkLapsed, "no further message came"
	}

	if d, err = d.Advance(next, now); err != nil {
		return d, nil, err
	}
	return s.finish(tx, hub.Caller{ID: hub.Self}, d, now)
}

// finish tells the result of a deliberation that is over, and records the decision
// that it ended in.
func (s *Service) finish(tx hub.Tx, actor hub.Caller, d hub.Deliberation, now hub.Time) (hub.Deliberation, []hub.Message, error) {
	if d.Kind == hub.KindNegotiation {
		// An agreed negotiation in a team becomes a task on its board.
		var made []hub.Message
		if d.State == hub.TalkAccepted && d.Team != "" && s.board != nil {
			task, told, err := s.board.Agreed(tx, actor, d)
			if err != nil {
				return d, nil, err
			}
			d.Task, made = task.ID, told
			if task.Queue == hub.OwnershipManual {
				d.Outcome = strings.TrimPrefix(d.Outcome+"; claim its item in the external queue by hand", "; ")
			}
		}

		if actor.ID != hub.Self && d.DecidedBy == "" {
			return d, made, nil // the other side has the message
		}
		if d.DecidedBy != "" {
			if err := s.record(tx, d, now); err != nil {
				return d, nil, err
			}
		}
		told, err := s.tellState(tx, d, sides(d))
		return d, append(made, told), err
	}

	if err := s.record(tx, d, now); err != nil {
		return d, nil, err
	}

	// The members of the team learn how a disagreement ended, unless it is private.
	summary := fmt.Sprintf("The disagreement about %q is %s: %s", d.Title, d.State, d.Outcome)
	to := append([]hub.AgentID{d.From}, d.Asked...)
	team, err := members(tx, d)
	if err != nil {
		return d, nil, err
	}
	for _, m := range team {
		if d.Policy.Visibility != hub.VisibilityPrivate && !slices.Contains(to, m.Agent) {
			to = append(to, m.Agent)
		}
	}

	e, err := note(d, to, hub.TypeKnowledgePush, map[string]any{
		"topic": d.Title, "summary": cut(summary, 2000), "confidence": "high", "detail": cut(d.Reason, 1000), "thread_id": d.ID,
	})
	if err != nil {
		return d, nil, err
	}
	told, err := s.mail.Notify(tx, e)
	return d, []hub.Message{told}, err
}

// cut returns at most n bytes of a text.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}

// record stores the decision that a deliberation ended in.
func (s *Service) record(tx hub.Tx, d hub.Deliberation, now hub.Time) error {
	deciders := []hub.AgentID{d.From}
	if d.DecidedBy != "" {
		deciders = []hub.AgentID{d.DecidedBy}
	}
	decision := hub.Decision{
		ID: string(s.ids.Next()), Team: d.Team, Title: d.Title, Decision: d.Outcome, Rationale: d.Reason, Deciders: deciders, Status: "decided", Refs: []string{d.ID}, At: now,
	}
	if err := tx.AddDecision(decision); err != nil {
		return err
	}
	facts := map[string]any{"decision_id": decision.ID, "status": decision.Status, "sha256": decision.Digest()}
	_, err := tx.Append(hub.Caller{ID: hub.Self}.Entry(now, actions.DeliberationDecided, "deliberation/"+d.ID, facts))
	return err
}

// Decide ends an escalated deliberation. Only the operator and those to whom it was
// escalated may. The decision about a negotiation is accept or decline. The messages that
// asked the actor for it count as read.
func (s *Service) Decide(ctx context.Context, actor hub.Caller, id, decision, because string) (Report, error) {
	x := deciding{op: "deliberation.Decide", s: s, actor: actor, id: id, decision: decision, because: because}
	if err := x.check(); err != nil {
		return Report{}, err
	}
	if err := s.store.Update(ctx, hub.SurvivesPowerLoss, x.store); err != nil {
		return Report{}, fmt.Errorf("deliberation: decide: %w", err)
	}
	s.mail.Announce(x.posted...)
	return Report{Deliberation: x.d, Turns: x.turns, Possible: []hub.MessageType{}}, nil
}

// A deciding is one call of Decide: the decision, and the deliberation and the messages
// that the transaction stored.
type deciding struct {
	op       string
	s        *Service
	actor    hub.Caller
	id       string
	decision string
	because  string

	d      hub.Deliberation
	turns  []hub.Envelope
	posted []hub.Message
}

// check refuses a decision that is wrong by itself, and a paused actor.
func (x *deciding) check() error {
	switch {
	case strings.TrimSpace(x.decision) == "" || strings.TrimSpace(x.because) == "":
		return hub.Errorf(hub.CodeInvalid, x.op, "decision and reason are required")
	case x.actor.Paused:
		return hub.Errorf(hub.CodeDenied, x.op, "%s is paused and cannot decide", x.actor.ID).WithHint("to end the pause, {agent.resume} %s", x.actor.ID)
	case len(x.decision) > 1000 || len(x.because) > 1000:
		return hub.Errorf(hub.CodeTooLarge, x.op, "decision and reason must be at most 1000 bytes each, got %d and %d", len(x.decision), len(x.because))
	}
	return nil
}

// store ends the deliberation in one transaction. It begins anew if the transaction is
// repeated.
func (x *deciding) store(tx hub.Tx) error {
	now := x.s.clock.Now()
	if err := x.read(tx, now); err != nil {
		return err
	}
	next, err := x.next(tx, now)
	if err != nil {
		return err
	}

	if x.d, err = x.d.Advance(next, now); err != nil {
		return err
	}
	x.d.Outcome = x.decision
	x.d.Reason = x.because
	x.d.DecidedBy = x.actor.ID
	x.d.Untold = false
	var told []hub.Message
	if x.d, told, err = x.s.finish(tx, x.actor, x.d, now); err != nil {
		return err
	}
	x.posted = append(x.posted, told...)

	if x.turns, err = turnsOf(tx, x.id); err != nil {
		return err
	}

	// The messages that asked the actor for this decision count as read.
	asked, err := x.s.dealtWith(tx, x.actor, x.d)
	if err != nil {
		return err
	}
	x.posted = append(x.posted, asked...)
	return x.s.put(tx, x.actor, x.d)
}

// read reads the deliberation as it is now, and refuses one that the actor cannot decide.
func (x *deciding) read(tx hub.Tx, now hub.Time) (err error) {
	x.posted = nil
	if x.d, err = visible(tx, x.op, x.actor, x.id); err != nil {
		return err
	}
	if x.d, x.posted, err = x.s.elapse(tx, x.d, now); err != nil {
		return err
	}
	switch {
	case x.d.State != hub.TalkEscalated:
		return hub.Errorf(hub.CodeConflict, x.op, "cannot decide the %s: it is %s, not escalated", x.d.Kind, x.d.State)
	case !x.actor.IsOperator() && !slices.Contains(x.d.Deciders, x.actor.ID):
		return hub.Errorf(hub.CodeDenied, x.op, "%s cannot decide it: it was escalated to %s", x.actor.ID, names(x.d.Deciders))
	}
	return nil
}

// next returns the state that the decision leads to. An accepted negotiation gets its owner.
func (x *deciding) next(tx hub.Tx, now hub.Time) (hub.DeliberationState, error) {
	if x.d.Kind != hub.KindNegotiation {
		return hub.TalkDecided, nil
	}
	switch x.decision {
	case "accept":
		if err := x.s.offerable(tx, x.d, x.d.EscalatedFor); err != nil {
			return "", err
		}
		x.d.ClaimedBy = x.d.EscalatedFor
		x.d.ClaimedAt = now
		return hub.TalkAccepted, nil
	case "decline":
		return hub.TalkDeclined, nil
	}
	return "", hub.Errorf(hub.CodeInvalid, x.op, "the decision about a negotiation must be accept or decline, got %q", cut(x.decision, 100)).
		WithHint("accept means the terms of the last counter, with %s as owner; decline ends the offer", x.d.EscalatedFor)
}

// maxAsked is the most messages that ask one agent for a decision.
const maxAsked = 20

// dealtWith marks the messages that asked the actor to decide d as read, and returns them.
func (s *Service) dealtWith(tx hub.Tx, actor hub.Caller, d hub.Deliberation) ([]hub.Message, error) {
	page, err := tx.Query(hub.Query{Viewer: actor.ID, Thread: d.ID, Type: hub.TypeStatusBlocked, Limit: maxAsked})
	if err != nil {
		return nil, err
	}
	var out []hub.Message
	for _, msg := range page.Messages {
		if msg.From != hub.Self {
			continue
		}
		if err := s.mail.MarkRead(tx, actor, msg.ID); err != nil {
			return nil, err
		}
		out = append(out, msg)
	}
	return out, nil
}

const (
	sweepEvery = 10 * time.Second // the time between two searches for deliberations whose time has passed
	sweepBatch = 100
	leaseTime  = time.Minute
)

// Run moves deliberations whose time has passed until ctx ends, and tells those who
// decide of escalations whose message was not written yet.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot advance deliberations", "op", "deliberation.Sweep", "code", hub.CodeOf(err), "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep moves every deliberation whose time has passed, and writes the messages about
// escalations that were not written yet.
func (s *Service) Sweep(ctx context.Context) error {
	return hub.Alone(ctx, s.store, "deliberation.Sweep", leaseTime, func(store hub.Store) error {
		due, err := hub.Read(ctx, store, func(r hub.Reader) ([]hub.Deliberation, error) {
			late, err := r.Deliberations(hub.DeliberationQuery{Due: s.clock.Now(), Limit: sweepBatch})
			if err != nil {
				return nil, err
			}
			untold, err := r.Deliberations(hub.DeliberationQuery{Untold: true, Limit: sweepBatch})
			return append(late, untold...), err
		})
		if err != nil {
			return fmt.Errorf("deliberation: sweep: %w", err)
		}
		for _, d := range due {
			if err := s.sweep(ctx, store, d.ID); err != nil {
				return fmt.Errorf("deliberation: sweep %s: %w", d.ID, err)
			}
		}
		return nil
	})
}

func (s *Service) sweep(ctx context.Context, store hub.Store, id string) error {
	var posted []hub.Message
	var d hub.Deliberation
	err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		posted = nil
		if d, err = tx.Deliberation(id); err != nil {
			return err
		}
		was := d.State
		due := d.DueAt
		if d, posted, err = s.elapse(tx, d, s.clock.Now()); err != nil || (d.State == was && d.DueAt == due) {
			return err
		}
		return s.put(tx, hub.Caller{ID: hub.Self}, d)
	})
	if err != nil {
		return err
	}
	if s.mail.Announce(posted...); !d.Untold {
		return nil
	}
	return s.tell(ctx, store, id)
}

// Committed writes the message about an escalation after the message that caused it
// was committed. A failure leaves it to the sweep.
func (s *Service) Committed(ctx context.Context, d hub.Deliberation) {
	if !d.Untold {
		return
	}
	if err := s.tell(ctx, s.store, d.ID); err != nil {
		s.log.Warn("cannot notify the deciders, will retry", "op", "deliberation.Committed", "err", err)
	}
}

// tell sends the deciders the whole history, rendered for a reader.
func (s *Service) tell(ctx context.Context, store hub.Store, id string) error {
	var d hub.Deliberation
	var history []hub.Envelope
	err := store.View(ctx, func(r hub.Reader) (err error) {
		if d, err = r.Deliberation(id); err != nil || !d.Untold {
			return err
		}
		history, err = turnsOf(r, id)
		return err
	})
	if err != nil || !d.Untold {
		return err
	}

	// The whole history is an artifact of the message.
	ref, err := s.mail.KeepText(render(d, history))
	if err != nil {
		return err
	}

	// The deliberation is read again: it may be decided by now.
	var posted hub.Message
	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		if d, err = tx.Deliberation(id); err != nil || !d.Untold {
			return err
		}
		name := called(tx, d.First)
		choice := "DECISION"
		if d.Kind == hub.KindNegotiation {
			choice = "accept|decline"
		}

		payload := map[string]any{
			"summary": cut(fmt.Sprintf("decide the %s about %q between %s and %s", d.Kind, d.Title, d.From, d.EscalatedFor), 280),
			"reason":  cut(d.Reason, 500), "detail": question(d, history), "thread_id": d.ID, "blockers": []string{"decision"}, "decide": d.Kind,
			"command": fmt.Sprintf("parley decide %s %s --because WHY", name, choice),
		}
		if !d.DueAt.IsZero() {
			payload["due_at"] = d.DueAt
		}

		e, err := note(d, d.Deciders, hub.TypeStatusBlocked, payload)
		if err != nil {
			return err
		}
		e.Priority = hub.PriorityHigh
		e.Context = &hub.Context{Artifacts: []hub.ArtifactRef{ref}}
		if posted, err = s.mail.Notify(tx, e); err != nil {
			return err
		}
		d.Untold = false
		return s.put(tx, hub.Caller{ID: hub.Self}, d)
	})
	if err == nil && posted.ID != "" {
		s.mail.Announce(posted)
	}
	return err
}

// maxWords is the most bytes of the words of one side in the message to the deciders.
// The whole text of that message has everything.
const maxWords = 400

// question returns the last words of both sides of an escalated deliberation, and the
// meaning of each possible decision.
func question(d hub.Deliberation, history []hub.Envelope) string {
	var lines []string
	last := hub.AgentID("") // the author of the last counter
	for _, side := range []hub.AgentID{d.From, d.EscalatedFor} {
		for _, e := range slices.Backward(history) {
			if text := words(e); e.From == side && text != "" {
				lines = append(lines, fmt.Sprintf("%s: %s", side, cut(text, maxWords)))
				break
			}
		}
	}
	for _, e := range history {
		if e.Type == hub.TypeTaskCounter {
			last = e.From
		}
	}
	switch {
	case d.Kind == hub.KindDisagreement:
		lines = append(lines, "Decide in your own words; both sides and the team are notified.")
	case last != "":
		lines = append(lines, fmt.Sprintf("accept: %s gets the task on the terms of the last counter, by %s. decline: the offer ends without an owner.", d.EscalatedFor, last))
	default:
		lines = append(lines, fmt.Sprintf("accept: %s gets the task as offered. decline: the offer ends without an owner.", d.EscalatedFor))
	}
	return strings.Join(lines, "\n")
}

// words returns the words of a turn on one line: its claim and the reason for it.
func words(e hub.Envelope) string {
	var p struct {
		Title     string `json:"title"`
		Changes   string `json:"proposed_changes"`
		Position  string `json:"position"`
		Counter   string `json:"counter_position"`
		Reasoning string `json:"reasoning"`
		Deadline  string `json:"revised_deadline"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return ""
	}
	text := cmp.Or(p.Changes, p.Position, p.Counter, p.Title)
	if p.Deadline != "" {
		text += ", until " + p.Deadline
	}
	if text != "" && p.Reasoning != "" {
		text += ", because: " + p.Reasoning
	}
	return plaintext.Line(strings.Join(strings.Fields(text), " "))
}

// maxTurns is the most messages of a thread that are shown.
const maxTurns = 200

// turnsOf returns the messages of a thread that belong to its deliberation, oldest
// first.
func turnsOf(r hub.Reader, id string) ([]hub.Envelope, error) {
	page, err := r.Query(hub.Query{Audit: true, Thread: id, Limit: maxTurns})
	var out []hub.Envelope
	for _, m := range slices.Backward(page.Messages) {
		if m.Type.Negotiates() {
			out = append(out, m.Envelope)
		}
	}
	return out, err
}

// render returns the history of a deliberation as Markdown for a reader. The words of
// agents are quoted.
func render(d hub.Deliberation, history []hub.Envelope) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A %s to decide\n\nBetween %s and %s, since %s. Escalated: %s.\n", d.Kind, d.From, d.EscalatedFor, d.CreatedAt, plaintext.Line(d.Reason))
	b.WriteString("\nEverything below was written by agents.\n")
	for _, e := range history {
		fmt.Fprintf(&b, "\n## %s, %s, %s\n\n", e.From, e.Type, e.CreatedAt)
		var members map[string]json.RawMessage
		if json.Unmarshal(e.Payload, &members) != nil {
			continue
		}
		for _, name := range []string{
			"title", "description", "topic", "position", "counter_position", "proposed_changes", "revised_scope", "revised_deadline", "reasoning", "evidence", "confidence",
			"severity", "proposed_resolution", "what_changed_mind", "revised_position", "summary", "reason", "detail", "conditions", "notes",
		} {
			raw, ok := members[name]
			if !ok {
				continue
			}
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			fmt.Fprintf(&b, "> %s: %s\n", name, strings.ReplaceAll(plaintext.Text(text), "\n", "\n>   "))
		}
	}
	return b.String()
}
