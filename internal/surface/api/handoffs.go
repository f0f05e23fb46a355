package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/shape"
	"github.com/parley-agents/parley/internal/strictjson"
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
	CommitMessage string            `json:"commit_message,omitempty"` // to complete: the hub commits the artifacts with it
	SameChangeAs  hub.HandoffID     `json:"same_change_as,omitempty"` // to complete: the handoff whose change did this task, too
	Done          bool              `json:"done,omitempty"`           // to settle an item of a queue: it was moved by hand
	Unproven      string            `json:"unproven,omitempty"`       // to initiate: why the hub cannot check the files that the package names

	// To list.
	Mine   bool             `json:"mine,omitempty"`
	State  hub.HandoffState `json:"state,omitempty"`
	Limit  strictjson.Count `json:"limit,omitzero"`
	Cursor hub.HandoffID    `json:"cursor,omitempty"`

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
		return errors.New("must be a text or an array of texts")
	}
	return nil
}

// A HandoffAnswer is one handoff or, for the action list, a page of them.
type HandoffAnswer struct {
	Report  *handoff.Report
	Listing *handoff.Listing

	// Deliveries forecasts when the receiver of a new handoff will see it.
	Deliveries []mailroom.Forecast
}

// A proposed handoff is a report with the forecast for its receiver.
type proposed struct {
	*handoff.Report
	Deliveries []mailroom.Forecast `json:"deliveries,omitempty"`
}

// MarshalJSON writes whichever is there.
func (h HandoffAnswer) MarshalJSON() ([]byte, error) {
	if h.Listing != nil {
		return json.Marshal(h.Listing)
	}
	return json.Marshal(proposed{h.Report, h.Deliveries})
}

// UnmarshalJSON reads either.
func (h *HandoffAnswer) UnmarshalJSON(b []byte) error {
	var page struct {
		Handoffs json.RawMessage `json:"handoffs"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		return err
	}
	if page.Handoffs != nil {
		h.Listing = new(handoff.Listing)
		return json.Unmarshal(b, h.Listing)
	}
	got := proposed{Report: new(handoff.Report)}
	if err := json.Unmarshal(b, &got); err != nil {
		return err
	}
	h.Report = got.Report
	h.Deliveries = got.Deliveries
	return nil
}

// handoffActions is everything that can be done with a handoff.
var handoffActions = map[string]func(context.Context, *handoff.Service, hub.Caller, HandoffParams) (handoff.Report, error){
	"initiate": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		pkg, err := p.fullPackage()
		if err != nil {
			return handoff.Report{}, err
		}
		return s.Initiate(ctx, a, handoff.Proposal{To: p.To, Package: pkg, Reason: p.Reason, IdempotencyKey: p.IdempotencyKey, Team: p.Team})
	},
	"approve": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.ApproveTeam(ctx, a, p.ID)
	},
	"accept": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Accept(ctx, a, p.ID, p.Detail)
	},
	"reject": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Reject(ctx, a, p.ID, hub.RejectReason(p.Reason), p.Detail)
	},
	"withdraw": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Withdraw(ctx, a, p.ID, p.Detail)
	},
	"complete": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Complete(ctx, a, p.ID, handoff.Completion{
			Summary: p.Summary, Artifacts: p.Artifacts, NoChanges: p.NoChanges, Trivial: p.Trivial, SameChange: p.SameChangeAs,
			CommitMessage: p.CommitMessage,
		})
	},
	"activate": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Activate(ctx, a, p.ID)
	},
	"close": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Close(ctx, a, p.ID)
	},
	"release": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Release(ctx, a, p.ID, p.Detail)
	},
	"workq": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.MoveItem(ctx, a, p.ID, p.Done)
	},
	"show": func(ctx context.Context, s *handoff.Service, a hub.Caller, p HandoffParams) (handoff.Report, error) {
		return s.Show(ctx, a, p.ID)
	},
}

func handoffs(ctx context.Context, s *Services, a hub.Caller, p HandoffParams) (HandoffAnswer, error) {
	const op = "acp/handoff"
	if p.From != nil && p.Action != "list" {
		return HandoffAnswer{}, hub.Errorf(hub.CodeTampering, op, "the sender is the authenticated caller; the input must not carry \"from\"").
			WithHint("leave \"from\" out: you are %s", a.ID)
	}
	if a.Kind == hub.CallerViewer && p.Action != "list" && p.Action != "show" {
		return HandoffAnswer{}, hub.Errorf(hub.CodeDenied, op, "a viewer reads handoffs and changes none")
	}

	// In a list, from and to choose the handoffs that it holds.
	if p.Action == "list" {
		q := hub.HandoffQuery{Task: p.TaskID, Cursor: p.Cursor, Limit: int(p.Limit), To: p.To}
		if p.From != nil {
			if err := json.Unmarshal(p.From, &q.From); err != nil {
				return HandoffAnswer{}, hub.Errorf(hub.CodeInvalid, op, "from: must be a name")
			}
		}
		if p.State != "" {
			q.States = []hub.HandoffState{p.State}
		}
		page, err := s.Handoffs.List(ctx, a, q, p.Mine)
		if err == nil {
			reports := make([]*handoff.Report, len(page.Handoffs))
			for i := range page.Handoffs {
				reports[i] = &page.Handoffs[i]
			}
			err = s.Handoffs.Name(ctx, reports...)
			page.Unread, page.Warnings = s.unread(ctx, a, page.Warnings)
		}
		return HandoffAnswer{Listing: &page}, err
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
		return HandoffAnswer{}, hub.Errorf(hub.CodeInvalid, op, "action: %q is not one", p.Action).
			WithHint("use initiate, approve, accept, reject, withdraw, complete, activate, close, show or list")
	}
	if p.Action != "initiate" && !p.ID.Valid() {
		return HandoffAnswer{}, hub.Errorf(hub.CodeInvalid, op, "handoff_id: %q is not the id of a handoff", p.ID).
			WithHint("{handoff.list} lists yours")
	}

	r, err := act(ctx, s.Handoffs, a, p)
	answer := HandoffAnswer{Report: &r}
	if err == nil {
		err = s.Handoffs.Name(ctx, &r)
		r.Unread, r.Warnings = s.unread(ctx, a, r.Warnings)
	}

	// A new offer is answered with a forecast of when the receiver sees it.
	if err == nil && p.Action == "initiate" {
		var unknown error
		if answer.Deliveries, unknown = s.Mail.ForecastOffer(ctx, a, r.ThreadID); unknown != nil {
			r.Warnings = append(r.Warnings, "when the receiver will see it could not be forecast")
		}
	}
	return answer, err
}

// unread returns the number of messages in the caller's inbox, and adds the
// warnings of every answer. A failure to count is a warning, because the answer
// must report the finished change.
func (s *Services) unread(ctx context.Context, a hub.Caller, warnings []string) (int, []string) {
	warnings = append(warnings, s.Mail.Warnings()...)
	n, err := s.Mail.Unread(ctx, a.ID)
	if err != nil {
		warnings = append(warnings, "the messages in your inbox could not be counted")
	}
	return n, warnings
}

// fullPackage returns the package with the members that were given beside it. A
// member must not be given twice.
func (p HandoffParams) fullPackage() (json.RawMessage, error) {
	if p.plain() {
		return p.Package, nil // as it came, so that a hash in it holds
	}
	members, err := p.packageMembers()
	if err != nil {
		return nil, err
	}

	b := packageBuilder{members: members}
	p.addTask(&b)

	b.addTo("context", "summary", p.Summary, p.Summary != "")
	b.addTo("work_state", "next_step", p.NextStep, p.NextStep != "")
	b.addTo("work_state", "worktree_path", p.Worktree, p.Worktree != "")
	b.addTo("work_state", "branch", p.Branch, p.Branch != "")
	b.addTo("policy", "requires_human_approval", true, p.NeedsHuman)
	b.addTo("policy", "classification", p.Classification, p.Classification != "")

	if len(p.Artifacts) > 0 {
		list := make([]shape.PackageArtifact, len(p.Artifacts))
		for i, ref := range p.Artifacts {
			list[i] = shape.PackageArtifact{ID: artifactID(ref, i), Ref: ref}
		}
		b.add("artifacts", list, "artifacts: are in the package already", "give them once")
	}
	if p.expects() {
		b.add("expect", p.Expect, "expect: is in the package already", "give it once")
	}

	// A given thread_id or unproven replaces the member of the package.
	b.replace("thread_id", p.ThreadID)
	b.replace("unproven", p.Unproven)
	if b.err != nil {
		return nil, b.err
	}
	return json.Marshal(b.members)
}

// packageMembers returns the members of the package as it was given; none if it was not.
func (p HandoffParams) packageMembers() (map[string]json.RawMessage, error) {
	const op = "acp/handoff"
	members := map[string]json.RawMessage{}
	if len(p.Package) == 0 {
		return members, nil
	}
	if p.Package[0] != '{' {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: must be an object")
	}
	if _, err := strictjson.ParseObject(p.Package); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	if err := json.Unmarshal(p.Package, &members); err != nil {
		return nil, hub.Errorf(hub.CodeInvalid, op, "package: %v", err)
	}
	return members, nil
}

// addTask adds the members of the task. Without a package, its title is its objective as
// well.
func (p HandoffParams) addTask(b *packageBuilder) {
	objective := p.Objective
	if objective == "" && len(b.members) == 0 {
		objective = p.Title
	}
	b.addTo("task", "task_id", p.TaskID, p.TaskID != "")
	b.addTo("task", "title", p.Title, p.Title != "")
	b.addTo("task", "objective", objective, objective != "")
	b.addTo("task", "success_criteria", p.Criteria, len(p.Criteria) > 0)
	b.addTo("task", "priority", p.Priority, p.Priority != "")
	b.addTo("task", "deadline", p.Deadline, !p.Deadline.IsZero())
}

// A packageBuilder adds members to a package until the first error.
type packageBuilder struct {
	members map[string]json.RawMessage
	err     error
}

// addTo adds a member to an object of the package, if it was given.
func (b *packageBuilder) addTo(object, name string, value any, given bool) {
	const op = "acp/handoff"
	if !given || b.err != nil {
		return
	}
	inner := map[string]json.RawMessage{}
	if raw, ok := b.members[object]; ok && json.Unmarshal(raw, &inner) != nil {
		b.err = hub.Errorf(hub.CodeInvalid, op, "package.%s: must be an object", object)
		return
	}
	if _, twice := inner[name]; twice {
		b.err = hub.Errorf(hub.CodeInvalid, op, "%s: is in the package already", name).WithHint("give it once")
		return
	}
	if inner[name], b.err = json.Marshal(value); b.err == nil {
		b.members[object], b.err = json.Marshal(inner)
	}
}

// add adds a member to the package, which must not have it already.
func (b *packageBuilder) add(name string, value any, twice, hint string) {
	if b.err != nil {
		return
	}
	if _, has := b.members[name]; has {
		b.err = hub.Errorf(hub.CodeInvalid, "acp/handoff", "%s", twice).WithHint("%s", hint)
		return
	}
	b.members[name], b.err = json.Marshal(value)
}

// replace sets a member of the package to a text, if that was given.
func (b *packageBuilder) replace(name, text string) {
	if text != "" && b.err == nil {
		b.members[name], b.err = json.Marshal(text)
	}
}

// plain reports whether no member was given beside the package.
func (p HandoffParams) plain() bool {
	return p.TaskID == "" && p.Title == "" && p.Objective == "" && len(p.Criteria) == 0 && p.Priority == "" && p.Deadline.IsZero() &&
		p.Summary == "" && p.NextStep == "" && p.Worktree == "" && p.Branch == "" && !p.NeedsHuman && p.Classification == "" &&
		len(p.Artifacts) == 0 && p.ThreadID == "" && p.Unproven == "" && !p.expects()
}

// expects reports whether an expectation was given beside the package.
func (p HandoffParams) expects() bool { return len(p.Expect.Paths) > 0 || p.Expect.Merge }

// artifactID names an artifact after its place in the list and the last part
// of its path.
func artifactID(ref hub.ArtifactRef, i int) string {
	name := ref.Path[strings.LastIndexAny(ref.Path, `/\`)+1:]
	if name == "" || len(name) > 100 {
		name = ref.Type
	}
	return fmt.Sprintf("%d-%s", i+1, name)
}
