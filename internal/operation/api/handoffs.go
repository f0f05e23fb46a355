package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// HandoffParams are the parameters of acp/handoff. A package is given whole, or
// by its most important members, or both: members beside the package are put
// into it.
type HandoffParams struct {
	Action string        `json:"action"`
	ID     hub.HandoffID `json:"handoff_id,omitempty"`

	// To initiate.
	To             hub.AgentID       `json:"to,omitempty"`
	Package        json.RawMessage   `json:"package,omitempty"`
	TaskID         string            `json:"task_id,omitempty"`
	Title          string            `json:"title,omitempty"`
	Objective      string            `json:"objective,omitempty"` // default the title
	Summary        string            `json:"summary,omitempty"`   // of the context; to complete: of the finished work
	NextStep       string            `json:"next_step,omitempty"`
	Criteria       Criteria          `json:"success_criteria,omitempty"`
	Artifacts      []hub.ArtifactRef `json:"artifacts,omitempty"` // to complete: results of the work
	Worktree       string            `json:"worktree_path,omitempty"`
	Branch         string            `json:"branch,omitempty"`
	Priority       hub.Priority      `json:"priority,omitempty"`
	Deadline       hub.Time          `json:"deadline,omitzero"`
	NeedsHuman     bool              `json:"requires_human_approval,omitempty"`
	Classification string            `json:"classification,omitempty"`
	ThreadID       string            `json:"thread_id,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Team           hub.TeamID        `json:"team,omitempty"` // whose task it is; beside the package, not in it

	Reason    string `json:"reason,omitempty"` // why the task changes hands, or why it is rejected
	Detail    string `json:"detail,omitempty"`
	NoChanges bool   `json:"no_changes,omitempty"`
	Trivial   string `json:"trivial,omitempty"` // to complete: why a trivial change is the task

	Expect        shape.Expectation `json:"expect,omitzero"`          // to initiate: what the work must change
	Scope         []string          `json:"scope,omitempty"`          // to initiate: files that are reserved for the receiver
	Checks        []string          `json:"checks,omitempty"`         // to initiate: names of checks that must pass
	Review        string            `json:"review,omitempty"`         // to initiate: the reviewer, an agent, role:ROLE or operator
	Commit        string            `json:"commit,omitempty"`         // to complete: that has the work; default the one that is checked out
	Wait          *int              `json:"wait_s,omitempty"`         // to complete: seconds to wait for the checks; default 20, at most 100
	CommitMessage string            `json:"commit_message,omitempty"` // to complete: the hub commits the artifacts with it
	SameChangeAs  hub.HandoffID     `json:"same_change_as,omitempty"` // to complete: the handoff whose change did this task, too
	Done          bool              `json:"done,omitempty"`           // to settle an item of a queue: it was moved by hand
	Unproven      string            `json:"unproven,omitempty"`       // to initiate: why the hub cannot check the files that the package names

	// To list.
	Mine   bool             `json:"mine,omitempty"`
	State  hub.HandoffState `json:"state,omitempty"`
	Limit  strictjson.Count `json:"limit,omitzero"`
	Cursor hub.HandoffID    `json:"cursor,omitempty"`

	Command string `json:"command,omitempty"` // to check: the name of a check; to run: a line of the shell

	// To review.
	Verdict  string              `json:"verdict,omitempty"` // approve or changes
	Findings []hub.ReviewFinding `json:"findings,omitempty"`

	From json.RawMessage `json:"from,omitempty"` // to list: the agent that hands over; else refused, because the sender is the authenticated caller
}

// Criteria are given as an array of texts, or as one text.
type Criteria []string

// UnmarshalJSON reads an array of strings or one string.
func (c *Criteria) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*c = Criteria{one}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(c)) != nil {
		return errors.New("must be a string or an array of strings")
	}
	return nil
}

// A HandoffAnswer is one handoff or, for the action list, a page of them. The action review is
// answered with the review, the action land with the entry of the landing queue, the actions check
// and run with the outcome of a command.
type HandoffAnswer struct {
	Report  *handoff.Report
	Listing *handoff.Listing
	Review  *hub.Review
	Landing *landing.Listing
	Outcome *keeper.Outcome

	// Deliveries forecasts when the receiver of a new handoff will see it.
	Deliveries []mailroom.Forecast
	// Spend is the cost of the work on a handoff that is shown; nil if none was recorded.
	Spend *usage.Total
}

// A proposed handoff is a report with the forecast for its receiver and the cost of the work.
type proposed struct {
	*handoff.Report
	Deliveries []mailroom.Forecast `json:"deliveries,omitempty"`
	Spend      *usage.Total        `json:"spend,omitempty"`
}

// An outcomeAnswer is the outcome of a command on the wire.
type outcomeAnswer struct {
	Outcome *keeper.Outcome `json:"outcome"`
}

// MarshalJSON writes whichever is there.
func (h HandoffAnswer) MarshalJSON() ([]byte, error) {
	switch {
	case h.Listing != nil:
		return json.Marshal(h.Listing)
	case h.Review != nil:
		return json.Marshal(ReviewAnswer{*h.Review})
	case h.Landing != nil:
		return json.Marshal(h.Landing)
	case h.Outcome != nil:
		return json.Marshal(outcomeAnswer{h.Outcome})
	}
	return json.Marshal(proposed{h.Report, h.Deliveries, h.Spend})
}

// UnmarshalJSON reads either.
func (h *HandoffAnswer) UnmarshalJSON(b []byte) error {
	var page struct {
		Handoffs json.RawMessage `json:"handoffs"`
		Entries  json.RawMessage `json:"entries"`
		ID       json.RawMessage `json:"handoff_id"`
		Review   json.RawMessage `json:"review"`
		Outcome  json.RawMessage `json:"outcome"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		return err
	}
	if page.Handoffs != nil {
		h.Listing = new(handoff.Listing)
		return json.Unmarshal(b, h.Listing)
	}
	if page.Entries != nil {
		h.Landing = new(landing.Listing)
		return json.Unmarshal(b, h.Landing)
	}
	if page.Review != nil && page.ID == nil {
		h.Review = new(hub.Review)
		return json.Unmarshal(page.Review, h.Review)
	}
	if page.Outcome != nil && page.ID == nil {
		h.Outcome = new(keeper.Outcome)
		return json.Unmarshal(page.Outcome, h.Outcome)
	}
	got := proposed{Report: new(handoff.Report)}
	if err := json.Unmarshal(b, &got); err != nil {
		return err
	}
	h.Report = got.Report
	h.Deliveries = got.Deliveries
	h.Spend = got.Spend
	return nil
}

// A handoffAction performs one action on a handoff. It turns the members that belong to
// the action into the request of the service and ignores the others.
type handoffAction func(context.Context, *handoff.Service, hub.Caller, HandoffParams) (handoff.Report, error)

// handoffActions has every action but list, which answers with a page.
var handoffActions = map[string]handoffAction{
	"initiate": initiateHandoff,
	"complete": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		c, err := p.completion()
		if err != nil {
			return handoff.Report{}, err
		}
		return s.Complete(ctx, a, p.ID, c)
	},
	"reject": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Reject(ctx, a, p.ID, hub.RejectReason(p.Reason), p.Detail)
	},
	"workq": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.MoveItem(ctx, a, p.ID, p.Done)
	},

	"accept":   withDetail((*handoff.Service).Accept),
	"withdraw": withDetail((*handoff.Service).Withdraw),
	"release":  withDetail((*handoff.Service).Release),

	"approve":  withID((*handoff.Service).ApproveTeam),
	"activate": withID((*handoff.Service).Activate),
	"close":    withID((*handoff.Service).Close),
	"show":     withID((*handoff.Service).Show),
}

// withID returns the action that needs the id of a handoff and nothing else.
func withID(do func(*handoff.Service, context.Context, hub.Caller, hub.HandoffID) (handoff.Report, error)) handoffAction {
	return func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return do(s, ctx, a, p.ID)
	}
}

// withDetail returns the action that needs the id of a handoff and takes a text.
func withDetail(do func(*handoff.Service, context.Context, hub.Caller, hub.HandoffID, string) (handoff.Report, error)) handoffAction {
	return func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return do(s, ctx, a, p.ID, p.Detail)
	}
}

func initiateHandoff(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
	pkg, err := p.packageParts().assemble()
	if err != nil {
		return handoff.Report{}, err
	}
	return s.Initiate(ctx, a, handoff.Proposal{To: p.To, Package: pkg, Reason: p.Reason, IdempotencyKey: p.IdempotencyKey, Team: p.Team})
}

// completion returns the members of the action complete.
func (p HandoffParams) completion() (handoff.Completion, error) {
	wait, err := waitOf("acp/handoff", p.Wait)
	return handoff.Completion{
		Commit:        p.Commit,
		Wait:          wait,
		Summary:       p.Summary,
		Artifacts:     p.Artifacts,
		NoChanges:     p.NoChanges,
		Trivial:       p.Trivial,
		SameChange:    p.SameChangeAs,
		CommitMessage: p.CommitMessage,
	}, err
}

// query returns the members of the action list.
func (p HandoffParams) query() (hub.HandoffQuery, error) {
	q := hub.HandoffQuery{Task: p.TaskID, Cursor: p.Cursor, Limit: int(p.Limit), To: p.To}
	if p.State != "" {
		q.States = []hub.HandoffState{p.State}
	}
	if p.From != nil && json.Unmarshal(p.From, &q.From) != nil {
		return q, hub.Errorf(hub.CodeInvalid, "acp/handoff", "from must be the name of an agent")
	}
	return q, nil
}

// packageParts returns the members of the action initiate that are put into the package.
func (p HandoffParams) packageParts() packageParts {
	return packageParts{
		Package:        p.Package,
		TaskID:         p.TaskID,
		Title:          p.Title,
		Objective:      p.Objective,
		Summary:        p.Summary,
		NextStep:       p.NextStep,
		Criteria:       p.Criteria,
		Artifacts:      p.Artifacts,
		Worktree:       p.Worktree,
		Branch:         p.Branch,
		Priority:       p.Priority,
		Deadline:       p.Deadline,
		NeedsHuman:     p.NeedsHuman,
		Classification: p.Classification,
		ThreadID:       p.ThreadID,
		Expect:         p.Expect,
		Scope:          p.Scope,
		Checks:         p.Checks,
		Review:         p.Review,
		Unproven:       p.Unproven,
	}
}

func handoffs(ctx context.Context, s *Services, a hub.Caller, p HandoffParams) (HandoffAnswer, error) {
	const op = "acp/handoff"
	if p.From != nil && p.Action != "list" {
		return HandoffAnswer{}, hub.Errorf(hub.CodeTampering, op, "\"from\" is not allowed: the hub sets the sender").
			WithHint("leave \"from\" out: you are %s", a.ID)
	}
	if a.Kind == hub.CallerViewer && p.Action != "list" && p.Action != "show" {
		return HandoffAnswer{}, hub.Errorf(hub.CodeDenied, op, "a viewer can read handoffs, not change them")
	}

	switch p.Action {
	case "list":
		return listHandoffs(ctx, s, a, p)
	case "review": // of a handoff, or of an entry of a landing queue
		got, err := reviewGive(ctx, s, a, ReviewParams{ID: string(p.ID), Verdict: p.Verdict, Findings: p.Findings})
		return HandoffAnswer{Review: &got.Review}, err
	case "check", "run":
		return runCommand(ctx, s, a, p)
	case "land":
		ref := string(p.ID)
		if ref == "" {
			ref = p.Branch
		}
		got, err := land(ctx, s, a, LandParams{Ref: ref, Repo: p.Worktree})
		return HandoffAnswer{Landing: &got}, err
	}

	// The other actions need full ids; the caller may give short ones.
	var err error
	if p.ID, err = s.Handoffs.Resolve(ctx, op, a, p.ID); err == nil {
		p.SameChangeAs, err = s.Handoffs.Resolve(ctx, op, a, p.SameChangeAs)
	}
	if err == nil {
		p.ThreadID, err = s.Mail.ResolveThread(ctx, op, a, p.ThreadID)
	}
	if err != nil {
		return HandoffAnswer{}, err
	}

	act, ok := handoffActions[p.Action]
	if !ok {
		return HandoffAnswer{}, hub.Errorf(hub.CodeInvalid, op, "unknown action %q", p.Action).
			WithHint("use initiate, approve, accept, reject, withdraw, complete, review, land, activate, close, show or list")
	}
	if p.Action != "initiate" && !p.ID.Valid() {
		return HandoffAnswer{}, hub.Errorf(hub.CodeInvalid, op, "handoff_id %q is not valid", p.ID).
			WithHint("to list your handoffs: {handoff.list}")
	}

	r, err := act(ctx, s.Handoffs, a, p)
	answer := HandoffAnswer{Report: &r}
	if err == nil && p.Action != "initiate" {
		s.focus(ctx, a, p.ID, "")
	}
	if err == nil {
		err = s.Handoffs.Name(ctx, &r)
		r.Unread, r.Warnings = s.unread(ctx, a, r.Warnings)
	}

	if err == nil && p.Action == "show" {
		answer.Spend, err = s.spendOf(ctx, a, usage.Query{Handoff: r.ID})
	}

	// A new offer is answered with a forecast of when the receiver sees it.
	if err == nil && p.Action == "initiate" {
		var unknown error
		if answer.Deliveries, unknown = s.Mail.ForecastOffer(ctx, a, r.ThreadID); unknown != nil {
			r.Warnings = append(r.Warnings, "cannot forecast when the receiver will see it")
		}
	}
	return answer, err
}

// runCommand runs a check or a command in the folder of a kept agent.
func runCommand(ctx context.Context, s *Services, a hub.Caller, p HandoffParams) (HandoffAnswer, error) {
	wait, err := waitOf("acp/handoff", p.Wait)
	if err != nil {
		return HandoffAnswer{}, err
	}
	c := keeper.Command{Wait: wait}
	if p.Action == "check" {
		c.Check = p.Command
	} else {
		c.Line = p.Command
	}
	got, err := s.Keeper.RunCommand(ctx, a, c)
	return HandoffAnswer{Outcome: &got}, err
}

func listHandoffs(ctx context.Context, s *Services, a hub.Caller, p HandoffParams) (HandoffAnswer, error) {
	q, err := p.query()
	if err != nil {
		return HandoffAnswer{}, err
	}
	page, err := s.Handoffs.List(ctx, a, q, p.Mine)
	if err != nil {
		return HandoffAnswer{Listing: &page}, err
	}

	reports := make([]*handoff.Report, len(page.Handoffs))
	for i := range page.Handoffs {
		reports[i] = &page.Handoffs[i]
	}
	err = s.Handoffs.Name(ctx, reports...)
	page.Unread, page.Warnings = s.unread(ctx, a, page.Warnings)
	return HandoffAnswer{Listing: &page}, err
}

// unread returns the number of messages in the caller's inbox, and adds the
// warnings of every answer. A failure to count is a warning, because the answer
// must report the finished change.
func (s *Services) unread(ctx context.Context, a hub.Caller, warnings []string) (int, []string) {
	warnings = append(warnings, s.Mail.Warnings()...)
	n, err := s.Mail.Unread(ctx, a.ID)
	if err != nil {
		warnings = append(warnings, "cannot count the messages in your inbox")
	}
	return n, warnings
}
