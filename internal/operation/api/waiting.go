package api

import (
	"context"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A HeldList lists messages, handoffs and questions that wait for a human.
type HeldList struct {
	mailroom.Listing
	Handoffs []handoff.Report `json:"handoffs"`
	Teams    []hub.HeldAction `json:"team_actions"`
	Asks     []KeptAgent      `json:"asks,omitempty"` // kept agents with questions
}

// Waiting is everything that waits for a person. Items lists it.
type Waiting struct {
	HeldList
	Talks     []hub.Deliberation      `json:"talks,omitempty"`
	Peers     []federation.PeerStatus `json:"peers,omitempty"`
	Troubled  []AgentNow              `json:"troubled,omitempty"` // agents that are stuck or suspended
	Blocked   []reservation.Blocked   `json:"blocked,omitempty"`  // agents that have waited for files of others for long
	Late      []handoff.Report        `json:"late,omitempty"`
	Overdue   []mailroom.Overdue      `json:"overdue,omitempty"`    // messages that were not acknowledged in time
	Conflicts []ConflictedContract    `json:"conflicts,omitempty"`  // contracts with a content that lost, until they are agreed
	Merges    []hub.Conflict          `json:"merges,omitempty"`     // versions of teams' artifacts whose conflict is escalated
	Landings  []hub.LandingEntry      `json:"landings,omitempty"`   // changes that wait for the operator before they land
	Reviews   []hub.Review            `json:"reviews,omitempty"`    // that wait for the operator
	Free      int64                   `json:"free_bytes,omitempty"` // on the disk of the home, if that is low
	Inbox     []hub.Envelope          `json:"inbox,omitempty"`      // of the operator
	More      int                     `json:"more,omitempty"`       // messages in the inbox that are not among these
	Notices   []hub.Envelope          `json:"notices,omitempty"`    // of the hub in the inbox, about the other members
}

// A ConflictedContract names a contract of a project, one content of which lost.
type ConflictedContract struct {
	Project coord.ProjectID  `json:"project_id"`
	ID      coord.ContractID `json:"contract_id"`
	Name    string           `json:"name"`
	Version int              `json:"version"`
}

// Around adds the part of Waiting that belongs to other rooms.
type Around interface {
	// Pending returns the peers that wait for the operator.
	Pending(ctx context.Context) ([]federation.PeerStatus, error)
	// Free returns the free bytes on the disk of the home; negative if unknown.
	Free() int64
}

// Items returns everything that waits, the most pressing kinds first.
func (w Waiting) Items() []attention.Item {
	return w.nouns().Items(mailroom.ShortIDs(w.ShortIDs).Headline)
}

// About returns the ids of the hub's notices about an item. They are read once it is
// answered.
func (w Waiting) About(i attention.Item) []hub.EnvelopeID {
	return attention.Waiting{Notices: w.Notices}.About(i)
}

// Find returns the item of an id or short id; false if nothing with that id is in the list.
func (l HeldList) Find(id string) (attention.Item, bool) {
	items := Waiting{HeldList: l}.Items()
	n := slices.IndexFunc(items, func(i attention.Item) bool { return i.ID == id || string(i.ShortID) == id })
	if n < 0 {
		return attention.Item{}, false
	}
	return items[n], true
}

// nouns returns what waits in the form of attention, which a client makes of the answer of a
// hub as the hub itself does.
func (w Waiting) nouns() attention.Waiting {
	out := attention.Waiting{
		Questions: questions(w.Asks), Messages: w.Messages, Operations: w.Teams, Talks: w.Talks, Troubled: troubles(w.Troubled), Blocked: blockedAgents(w.Blocked),
		Late: lateTasks(w.Late), Overdue: overdueMessages(w.Overdue), Merges: w.Merges, Landings: w.Landings, Reviews: w.Reviews, Free: w.Free, Inbox: w.Inbox, More: w.More, Notices: w.Notices, ShortIDs: w.ShortIDs,
	}
	for _, h := range w.Handoffs {
		out.Handoffs = append(out.Handoffs, hub.Handoff{ID: h.ID, From: h.From, To: h.To, Title: h.Title, Restricted: h.Restricted, InitiatedAt: h.InitiatedAt})
	}
	for _, p := range w.Peers {
		out.Peers = append(out.Peers, p.AID)
	}
	for _, c := range w.Conflicts {
		out.Contracts = append(out.Contracts, attention.Contract(c))
	}
	return out
}

// questions returns the questions of kept agents.
func questions(kept []KeptAgent) (out []attention.Question) {
	for _, k := range kept {
		for _, q := range k.Asks {
			one := attention.Question{Agent: k.Agent, Number: q.ID, Since: k.Since, Text: q.Text}
			if c := slices.IndexFunc(q.Choices, func(c keeper.Choice) bool { return c.Kind == sandbox.AllowOnce }); c >= 0 {
				one.Once = q.Choices[c].ID
			}
			out = append(out, one)
		}
	}
	return out
}

// troubles returns the agents that are stuck or suspended.
func troubles(agents []AgentNow) (out []attention.Trouble) {
	for _, a := range agents {
		kind := attention.Kind(a.Word)
		if kind == attention.KindStuck || kind == attention.KindSuspended {
			out = append(out, attention.Trouble{Agent: a.ID, Kind: kind, Why: a.Why, Since: a.LastSeen})
		}
	}
	return out
}

// blockedAgents returns the agents that have waited for files of others for long.
func blockedAgents(list []reservation.Blocked) (out []attention.Blocked) {
	for _, b := range list {
		out = append(out, attention.Blocked(b))
	}
	return out
}

// lateTasks returns handoffs as tasks that were not done in time.
func lateTasks(late []handoff.Report) (out []attention.Task) {
	for _, h := range late {
		out = append(out, attention.Task{ID: h.ID, ShortID: h.ShortID, To: h.To, Title: h.Title, Restricted: h.Restricted, Due: h.DueAt})
	}
	return out
}

// overdueMessages returns the messages that were not acknowledged in time.
func overdueMessages(list []mailroom.Overdue) (out []attention.Overdue) {
	for _, o := range list {
		out = append(out, attention.Overdue{Message: o.Message, By: o.By, Missing: o.Missing})
	}
	return out
}

// A sources answers attention about the services beside the store, and keeps their answers in
// the form of the wire.
type sources struct {
	s     *Services
	actor hub.Caller
	now   Overview
	kept  []KeptAgent

	blocked []reservation.Blocked
	late    []handoff.Report
	overdue []mailroom.Overdue
	mail    mailroom.Inbox
}

// all returns every source that the services have.
func (x *sources) all() attention.Sources {
	out := attention.Sources{Keeper: x, Agents: x, Files: x, Tasks: x, Mail: x}
	if x.s.Around != nil {
		out.Disk = x.s.Around
	}
	return out
}

// Questions returns the questions of kept agents.
func (x *sources) Questions(context.Context) ([]attention.Question, error) {
	return questions(x.kept), nil
}

// Troubled returns the agents that are stuck or suspended.
func (x *sources) Troubled(context.Context) ([]attention.Trouble, error) {
	return troubles(x.now.Agents), nil
}

// Blocked returns the agents that have waited for files of others for long.
func (x *sources) Blocked(ctx context.Context) (_ []attention.Blocked, err error) {
	x.blocked, err = x.s.Files.Blocked(ctx)
	return blockedAgents(x.blocked), err
}

// Late returns the tasks that were not done in time.
func (x *sources) Late(context.Context) ([]attention.Task, error) {
	now := x.s.Clock.Now()
	for _, t := range x.now.Tasks {
		if !t.DueAt.IsZero() && t.DueAt.Before(now.Time) {
			x.late = append(x.late, t)
		}
	}
	return lateTasks(x.late), nil
}

// Overdue returns the messages that were not acknowledged in time.
func (x *sources) Overdue(ctx context.Context) (_ []attention.Overdue, err error) {
	x.overdue, err = x.s.Mail.Overdue(ctx, x.actor)
	return overdueMessages(x.overdue), err
}

// Inbox returns the first page of the actor's inbox, and the number of messages after it.
func (x *sources) Inbox(ctx context.Context) (_ []hub.Envelope, more int, err error) {
	x.mail, err = inbox(ctx, x.s, x.actor, InboxParams{Peek: true, Limit: 20})
	return x.mail.Messages, max(0, x.mail.Unread-len(x.mail.Messages)), err
}

// waiting returns everything that waits for a person.
func (s *Services) waiting(ctx context.Context, a hub.Caller, now Overview, kept []KeptAgent) (Waiting, error) {
	x := &sources{s: s, actor: a, now: now, kept: kept}
	got, err := s.Attention.Waiting(ctx, a, x.all())
	if err != nil {
		return Waiting{}, err
	}
	out := Waiting{
		Talks: got.Talks, Blocked: x.blocked, Late: x.late, Overdue: x.overdue, Merges: got.Merges, Landings: got.Landings, Reviews: got.Reviews, Free: got.Free, Inbox: got.Inbox, More: got.More, Notices: got.Notices,
	}
	if out.HeldList, err = s.heldList(ctx, a, got, kept); err != nil {
		return Waiting{}, err
	}

	for _, p := range now.Agents {
		if slices.ContainsFunc(got.Troubled, func(t attention.Trouble) bool { return t.Agent == p.ID }) {
			out.Troubled = append(out.Troubled, p)
		}
	}
	for _, c := range got.Contracts {
		out.Conflicts = append(out.Conflicts, ConflictedContract(c))
	}
	if len(got.Peers) > 0 && s.Around != nil {
		if out.Peers, err = s.Around.Pending(ctx); err != nil {
			return Waiting{}, err
		}
	}
	return out, nil
}

// heldList returns the part of what waits that a person approves, denies or answers, and the
// short ids of everything.
func (s *Services) heldList(ctx context.Context, a hub.Caller, got attention.Waiting, kept []KeptAgent) (HeldList, error) {
	out := HeldList{
		Listing:  mailroom.Listing{Messages: append([]hub.Envelope{}, got.Messages...), Warnings: s.Mail.Warnings(), Capabilities: s.Mail.Capabilities()},
		Handoffs: s.Handoffs.Reports(a, got.Handoffs),
		Teams:    append([]hub.HeldAction{}, got.Operations...),
	}
	for _, k := range kept {
		if len(k.Asks) > 0 {
			out.Asks = append(out.Asks, k)
		}
	}

	named := slices.Concat(got.Messages, got.Inbox, got.Notices)
	for _, o := range got.Overdue {
		named = append(named, o.Message)
	}
	short, err := s.Mail.ShortIDs(ctx, named)
	if err != nil {
		return HeldList{}, err
	}
	maps.Copy(short, got.ShortIDs)
	out.ShortIDs = short
	return out, nil
}

// held lists what a person approves, denies or answers.
func held(ctx context.Context, s *Services, a hub.Caller, _ None) (HeldList, error) {
	x := &sources{s: s, actor: a}
	if s.Keeper != nil && a.Audits() {
		var err error
		if x.kept, err = s.Keeper.List(ctx); err != nil {
			return HeldList{}, err
		}
	}
	got, err := s.Attention.Waiting(ctx, a, attention.Sources{Keeper: x})
	if err != nil {
		return HeldList{}, err
	}
	return s.heldList(ctx, a, got, x.kept)
}

// approve lets a held message, a handoff or an operation of a team pass.
func approve(ctx context.Context, s *Services, a hub.Caller, p IDParams) (Decision, error) {
	i, err := s.Attention.Find(ctx, "parley/approve", a, string(p.ID))
	if err != nil {
		return Decision{}, err
	}
	switch {
	case i.Thing == attention.ThingHandoff:
		h, err := s.Handoffs.Approve(ctx, a, hub.HandoffID(i.ID))
		return handoffDecision(i, "approved", h), err
	case i.Thing == attention.ThingLanding:
		e, err := s.Landings.Retry(ctx, a, hub.LandingID(i.ID))
		return landingDecision("approved", e), err
	case i.Thing == attention.ThingOperation && s.Teams != nil:
		o, err := s.Teams.Approve(ctx, a, i.ID)
		return operationDecision(i, "approved", o), err
	}
	v, err := s.Mail.Approve(ctx, a, hub.EnvelopeID(i.ID))
	return messageDecision(v), err
}

// deny ends a held message, a handoff or an operation of a team.
func deny(ctx context.Context, s *Services, a hub.Caller, p IDParams) (Decision, error) {
	i, err := s.Attention.Find(ctx, "parley/deny", a, string(p.ID))
	if err != nil {
		return Decision{}, err
	}
	switch {
	case i.Thing == attention.ThingHandoff:
		h, err := s.Handoffs.Deny(ctx, a, hub.HandoffID(i.ID), p.Reason)
		return handoffDecision(i, "denied", h), err
	case i.Thing == attention.ThingLanding:
		e, err := s.Landings.Cancel(ctx, a, hub.LandingID(i.ID), p.Reason)
		return landingDecision("denied", e), err
	case i.Thing == attention.ThingOperation && s.Teams != nil:
		o, err := s.Teams.Deny(ctx, a, i.ID, p.Reason)
		return operationDecision(i, "denied", o), err
	}
	v, err := s.Mail.Deny(ctx, a, hub.EnvelopeID(i.ID), p.Reason)
	return messageDecision(v), err
}

// A Decision is the answer to approve and deny: the thing that was decided about and its
// state after the decision. One of MessageStatus, HandoffStatus, ActionVerdict and LandingState is
// set.
type Decision struct {
	ID       hub.EnvelopeID `json:"id"`
	Status   string         `json:"status"`   // the one that is set of the three below, for programs that ask for no kind
	Decision string         `json:"decision"` // approved or denied
	From     hub.AgentID    `json:"from"`
	To       []hub.AgentID  `json:"to"`

	MessageStatus hub.MessageStatus `json:"message_status,omitempty"` // of a held message
	HandoffStatus hub.HandoffState  `json:"handoff_status,omitempty"` // of a handoff
	ActionVerdict string            `json:"action_verdict,omitempty"` // of the held operation of a team: approved or denied
	LandingState  hub.LandingState  `json:"landing_state,omitempty"`  // of an entry of a landing queue
}

// messageDecision returns the decision about a message.
func messageDecision(v mailroom.Verdict) Decision {
	return Decision{ID: v.ID, Status: string(v.Status), MessageStatus: v.Status, Decision: v.Decision, From: v.From, To: v.To}
}

// handoffDecision returns the decision about a handoff.
func handoffDecision(i attention.Item, word string, h handoff.Report) Decision {
	return Decision{ID: hub.EnvelopeID(i.ID), Status: string(h.Status), HandoffStatus: h.Status, Decision: word, From: h.From, To: []hub.AgentID{h.To}}
}

// landingDecision returns the decision about an entry of a landing queue.
func landingDecision(word string, e hub.LandingEntry) Decision {
	return Decision{ID: hub.EnvelopeID(e.ID), Status: string(e.State), LandingState: e.State, Decision: word, From: e.Owner, To: []hub.AgentID{}}
}

// operationDecision returns the decision about an operation of a team.
func operationDecision(i attention.Item, word string, o hub.HeldAction) Decision {
	return Decision{ID: hub.EnvelopeID(i.ID), Status: o.Verdict, ActionVerdict: o.Verdict, Decision: word, From: o.Actor, To: []hub.AgentID{}}
}
