// Package handoff moves tasks from one agent to another, with proof.
//
// A package that is wrong in itself is refused and leaves nothing behind. Once
// it is proposed nothing of it changes; every move is one guarded write with a
// step in the handoff's history, a journal entry and, where the other side must
// know, a message, all in one transaction. What a package claims is looked at
// before the receiver takes it over, by an Inspector that never runs anything.
//
// At any time at most one handoff claims a task. Who has owned a task before
// is counted by the hub, whatever a package says, and does not get it again.
package handoff

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Sender writes the messages that handoffs make. The mailroom is one.
type Sender interface {
	// Recipient returns an agent, or reports CodeUnknownRecipient.
	Recipient(ctx context.Context, id hub.AgentID) (hub.Agent, error)
	// Post writes a message from actor inside tx. fresh says that the actor
	// begins something with it, so that its limits count.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Tell writes a message from the hub to the coordinators, except the agent
	// it is about. Over the hub's own limit nothing is written, and the message
	// returned has no id.
	Tell(tx hub.Tx, about hub.AgentID, t hub.MessageType, thread string, payload any) (hub.Message, error)
	// Announce wakes those who wait for messages that are committed now.
	Announce(...hub.Message)
	// Capabilities says what the hub can do.
	Capabilities() hub.Capabilities
}

// An Inspector looks at what is claimed. It never runs anything that came in a
// claim, and says nothing about what lies outside the roots it was given.
type Inspector interface {
	// Artifact looks at one artifact. worktree is the folder that the claim
	// names as the place of work, or "".
	Artifact(ctx context.Context, ref hub.ArtifactRef, worktree string) hub.Check
	// Commit looks for a commit in the repository of a place of work.
	Commit(ctx context.Context, worktree, commit string) hub.Check
	// Worktree looks at a place of work and at the branch it should be on, if
	// one is named.
	Worktree(ctx context.Context, path, branch string) []hub.Check
	// State returns a digest of what lies in a place of work now, so that two
	// times can be compared; ok is false if it cannot be looked at.
	State(ctx context.Context, path string) (digest string, ok bool)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock     hub.Clock     // default time.Now
	Log       *slog.Logger  // default silent
	Inspector Inspector     // without one every claim is unverifiable
	SLA       time.Duration // from acceptance to completion; default DefaultSLA
	Inspect   time.Duration // how long looking at one package may take; default a minute
}

// DefaultSLA is how long a task may take before the coordinators are told.
const DefaultSLA = 24 * time.Hour

// A Service is safe for concurrent use.
type Service struct {
	store     hub.Store
	sender    Sender
	inspector Inspector
	clock     hub.Clock
	ids       *hub.IDs
	log       *slog.Logger
	sla       time.Duration
	inspect   time.Duration
}

// New returns a service that keeps handoffs in store and tells the agents
// concerned through sender. opts may be nil.
func New(store hub.Store, sender Sender, opts *Options) *Service {
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
	if o.SLA <= 0 {
		o.SLA = DefaultSLA
	}
	if o.Inspect <= 0 {
		o.Inspect = time.Minute
	}
	return &Service{
		store: store, sender: sender, inspector: o.Inspector, clock: o.Clock, ids: hub.NewIDs(o.Clock), log: o.Log,
		sla: o.SLA, inspect: o.Inspect,
	}
}

// A Report is a handoff as its parties see it.
type Report struct {
	ID           hub.HandoffID    `json:"handoff_id"`
	TaskID       string           `json:"task_id"`
	Title        string           `json:"title"`
	From         hub.AgentID      `json:"from"`
	To           hub.AgentID      `json:"to"`
	Status       hub.HandoffState `json:"status"`
	Hash         string           `json:"package_hash"`
	ThreadID     string           `json:"thread_id"`
	Reason       string           `json:"reason"` // why the task changes hands
	Checks       []hub.Check      `json:"checks"` // what was looked at last
	NeedsHuman   bool             `json:"approval_required"`
	Approved     bool             `json:"approved"`
	Ownership    hub.Ownership    `json:"ownership,omitempty"`
	Previous     hub.HandoffID    `json:"previous_handoff_id,omitempty"`
	Restricted   bool             `json:"restricted,omitempty"`
	Ending       hub.Ending       `json:"ending,omitempty"`
	RejectReason hub.RejectReason `json:"reject_reason,omitempty"`
	Notes        string           `json:"resolution_notes,omitempty"`
	InitiatedAt  hub.Time         `json:"initiated_at"`
	AcceptedAt   hub.Time         `json:"accepted_at,omitzero"`
	DueAt        hub.Time         `json:"due_at,omitzero"` // when the coordinators are told, while it is under way
	ResolvedAt   hub.Time         `json:"resolved_at,omitzero"`

	Package json.RawMessage   `json:"package,omitempty"` // only where one handoff is asked for
	History []hub.HandoffStep `json:"history,omitempty"` // likewise
	Runs    []hub.Run         `json:"runs,omitempty"`    // likewise: runs on the task, with their evidence

	Warnings     []string         `json:"warnings"`
	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
	Unread       int              `json:"unread"` // in the caller's own inbox; filled in by who answers
}

// report returns a handoff as its parties see it, without package and history.
func (s *Service) report(h hub.Handoff, checks []hub.Check) Report {
	r := Report{
		ID: h.ID, TaskID: h.TaskID, Title: h.Title, From: h.From, To: h.To, Status: h.Status, Hash: h.Hash, ThreadID: h.ThreadID,
		Reason: h.Reason, Checks: checks, NeedsHuman: h.NeedsHuman, Approved: !h.ApprovedAt.IsZero(), Ownership: h.Ownership,
		Previous: h.Previous, Restricted: h.Restricted, Ending: h.Ending, RejectReason: h.RejectReason, Notes: h.Notes,
		InitiatedAt: h.InitiatedAt, AcceptedAt: h.AcceptedAt, ResolvedAt: h.ResolvedAt, Warnings: []string{},
	}
	if r.Checks == nil {
		r.Checks = []hub.Check{}
	}
	if h.Status == hub.HandoffAccepted || h.Status == hub.HandoffActivated {
		r.DueAt = s.due(h)
	}
	if h.Ownership == hub.OwnershipManual {
		r.Warnings = append(r.Warnings, "the task is in a queue that this hub cannot reach: the operator must move it there by hand, then run parley handoff activate "+string(h.ID))
	}
	return r
}

// answer is a report with what every answer carries.
func (s *Service) answer(h hub.Handoff, checks []hub.Check) Report {
	r := s.report(h, checks)
	r.Capabilities = s.sender.Capabilities()
	return r
}

// visible returns a handoff that the actor may see. What it may not see does
// not exist for it.
func visible(r hub.Reader, op string, actor hub.Caller, id hub.HandoffID) (hub.Handoff, error) {
	h, err := r.Handoff(id)
	if err == nil && !h.Concerns(actor.ID) && !actor.Audits() || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Handoff{}, hub.Errorf(hub.CodeNotFound, op, "there is no handoff %q that you can see", id).
			WithHint("parley handoff list, or acp_handoff with action list, shows yours")
	}
	return h, err
}

// Show returns a handoff with its package and history.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Report, error) {
	var out Report
	err := s.store.View(ctx, func(r hub.Reader) error {
		h, err := visible(r, "handoff.Show", actor, id)
		if err != nil {
			return err
		}
		steps, err := r.HandoffSteps(id)
		if err != nil {
			return err
		}
		out = s.answer(h, lastChecks(steps))
		out.Package, out.History = h.Package, steps
		out.Runs, err = r.Runs(hub.RunQuery{Handoff: id, Limit: maxRuns})
		return err
	})
	if err != nil {
		return Report{}, fmt.Errorf("handoff: show %s: %w", id, err)
	}
	return out, nil
}

// lastChecks returns what was looked at in the newest step that looked at
// anything.
func lastChecks(steps []hub.HandoffStep) []hub.Check {
	for _, step := range slices.Backward(steps) {
		if len(step.Checks) > 0 {
			return step.Checks
		}
	}
	return nil
}

// A Listing is a page of handoffs, newest first.
type Listing struct {
	Handoffs     []Report         `json:"handoffs"`
	Next         string           `json:"next"` // cursor for the page after this one, or ""
	Warnings     []string         `json:"warnings"`
	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
	Unread       int              `json:"unread"` // as in a Report
}

// maxRuns is how many runs are shown with a handoff, the newest.
const maxRuns = 20

const (
	defaultPage = 50
	maxPage     = 200
)

// List returns handoffs. Those who audit see all of them, others their own;
// mine asks for one's own in any case.
func (s *Service) List(ctx context.Context, actor hub.Caller, q hub.HandoffQuery, mine bool) (Listing, error) {
	const op = "handoff.List"
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	if q.Limit < 0 || q.Limit > maxPage {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "limit: %d is not between 1 and %d", q.Limit, maxPage)
	}
	for _, st := range q.States {
		if !st.Known() {
			return Listing{}, hub.Errorf(hub.CodeInvalid, op, "state: %q is not a state of a handoff", st).WithHint("the states are %v", hub.HandoffStates)
		}
	}
	if q.Cursor != "" && !q.Cursor.Valid() {
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "cursor: not one that a listing gave")
	}
	if mine || !actor.Audits() {
		q.Viewer = actor.ID
	}
	limit := q.Limit
	q.Limit++ // one more tells whether there are more
	out := Listing{Handoffs: []Report{}, Warnings: []string{}, Capabilities: s.sender.Capabilities()}
	err := s.store.View(ctx, func(r hub.Reader) error {
		found, err := r.Handoffs(q)
		if err != nil {
			return err
		}
		if len(found) > limit {
			found = found[:limit]
			out.Next = string(found[limit-1].ID)
		}
		out.Handoffs = out.Handoffs[:0]
		for _, h := range found {
			out.Handoffs = append(out.Handoffs, s.report(h, nil))
		}
		return nil
	})
	if err != nil {
		return Listing{}, fmt.Errorf("handoff: list: %w", err)
	}
	return out, nil
}

// actionOf is the journal's word for each move.
var actionOf = map[hub.HandoffState]hub.Action{
	hub.HandoffDraft:      hub.ActionHandoffDrafted,
	hub.HandoffProposed:   hub.ActionHandoffProposed,
	hub.HandoffValidating: hub.ActionHandoffValidating,
	hub.HandoffAccepted:   hub.ActionHandoffAccepted,
	hub.HandoffRejected:   hub.ActionHandoffRejected,
	hub.HandoffActivated:  hub.ActionHandoffActivated,
	hub.HandoffCompleted:  hub.ActionHandoffCompleted,
	hub.HandoffClosed:     hub.ActionHandoffClosed,
}

// stepFacts is what the journal keeps of a move: never a package.
type stepFacts struct {
	TaskID string           `json:"task_id"`
	From   hub.AgentID      `json:"from"`
	To     hub.AgentID      `json:"to"`
	Hash   string           `json:"package_hash"`
	Step   string           `json:"step_sha256"`
	Digest string           `json:"sha256,omitempty"` // of the handoff, with its first step
	Reason hub.RejectReason `json:"reject_reason,omitempty"`
	Ending hub.Ending       `json:"ending,omitempty"`
}

// A mover makes the moves of one transaction.
type mover struct {
	tx    hub.Tx
	actor hub.AgentID
	now   hub.Time
}

// move advances h to next with a step in its history and a journal entry.
func (m mover) move(h *hub.Handoff, next hub.HandoffState, note string, checks []hub.Check) error {
	moved, err := h.Advance(next, m.now)
	if err != nil {
		return err
	}
	step := hub.HandoffStep{State: next, At: m.now, Actor: m.actor, Note: note, Checks: checks}
	if err := m.tx.PutHandoff(moved, h.Status, step); err != nil {
		return err
	}
	*h = moved
	return m.record(*h, step)
}

// record writes the journal entry for a step.
func (m mover) record(h hub.Handoff, step hub.HandoffStep) error {
	f := stepFacts{TaskID: h.TaskID, From: h.From, To: h.To, Hash: h.Hash, Step: step.Digest()}
	switch step.State {
	case hub.HandoffDraft:
		f.Digest = h.Digest()
	case hub.HandoffRejected:
		f.Reason, f.Ending = h.RejectReason, h.Ending
	case hub.HandoffCompleted:
		f.Ending = h.Ending
	}
	return m.entry(actionOf[step.State], h, f)
}

// entry writes a journal entry about a handoff.
func (m mover) entry(a hub.Action, h hub.Handoff, facts any) error {
	raw, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	_, err = m.tx.Append(hub.Entry{At: m.now, Actor: m.actor, Action: a, Subject: string(h.ID), Outcome: hub.OutcomeOK, Facts: raw})
	return err
}

// active refuses actors that may look but not act.
func active(op string, actor hub.Caller) error {
	if actor.Paused {
		return hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot move a handoff", actor.ID).
			WithHint("the operator can lift this with: parley agent resume %s", actor.ID)
	}
	return nil
}

// post writes the message that tells those concerned, except the actor, of a
// move.
func (s *Service) post(tx hub.Tx, actor hub.Caller, h hub.Handoff, t hub.MessageType, priority hub.Priority, payload any, fresh bool) (hub.Message, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return hub.Message{}, err
	}
	policy := hub.DefaultPolicy
	if h.Restricted {
		policy.Sensitivity = hub.SensitivityHigh // notices outside the hub carry nothing of it
	}
	if priority == hub.PriorityCritical {
		policy.Visibility = hub.VisibilityAudit
	}
	to := slices.DeleteFunc([]hub.AgentID{h.From, h.To}, func(id hub.AgentID) bool { return id == actor.ID })
	return s.sender.Post(tx, actor, hub.Envelope{
		To: to, Type: t, ThreadID: h.ThreadID, Priority: priority, Payload: raw, Policy: policy,
	}, fresh)
}
