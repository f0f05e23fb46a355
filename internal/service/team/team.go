// Package team keeps teams: their members and roles, their tasks, their artifacts with
// versions, their lifecycle.
//
// Inside a team the role that an agent has there decides its permissions, by a matrix of
// eight actions and five roles that the operator can override for a team; the role of the
// agent on the hub counts for the creation of a team alone. Every change is one
// transaction with its journal entry and the messages to those who must know. An
// operation that the policy of the team gates is checked, held, and performed when the
// operator approves it.
package team

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A Mail writes the messages of the hub. The mailroom is one.
type Mail interface {
	// Recipient returns an agent, or reports CodeUnknownRecipient.
	Recipient(ctx context.Context, id hub.AgentID) (hub.Agent, error)
	// Notify writes a message of the hub inside tx. It is never dropped.
	Notify(tx hub.Tx, e hub.Envelope) (hub.Message, error)
	// Announce wakes the long polls of the recipients of committed messages.
	Announce(...hub.Message)
}

// Files reserves the files that tasks name, so that other agents do not change them.
type Files interface {
	// ReserveScope reserves files for the owner of a task. It returns the paths that it
	// reserved, and sentences about files that it could not reserve or that others change.
	ReserveScope(ctx context.Context, actor hub.Caller, s hub.FileScope) (reserved, warnings []string)
	// Done frees the files that were reserved for a task or handoff, inside tx. The caller
	// announces the messages after the commit.
	Done(tx hub.Tx, actor hub.Caller, task hub.TaskID, handoff hub.HandoffID) ([]hub.Message, error)
}

// Checks runs the checks of repositories on the work of tasks.
type Checks interface {
	// Known returns the names of the checks of the repository around a folder.
	Known(ctx context.Context, folder string) ([]string, error)
	// CheckTask runs the checks of a task on the commit in its worktree, and waits for a while. A
	// repeated call gets the results that ended meanwhile.
	CheckTask(ctx context.Context, actor hub.Caller, t hub.Task) (hub.Progress, []hub.CheckResult, error)
}

// Works compares the worktrees of tasks with their states from before.
type Works interface {
	// State records the files of a worktree under a name. It reports CodeUnreachable or CodeNotEnabled if
	// the hub cannot read them.
	State(ctx context.Context, path string, name hub.HandoffID) (hub.WorkState, error)
	// Compare returns the change of a worktree since a state.
	Compare(ctx context.Context, q hub.Comparison) (hub.WorkChange, error)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock     hub.Clock     // default time.Now
	Checks    Checks        // without it no checks run
	Works     Works         // without it the work on tasks is not compared
	Files     Files         // without it no files are reserved
	Log       *slog.Logger  // default silent
	Artifacts Artifacts     // without it teams have no artifacts
	Queue     Queue         // without one the board is the queue
	Bus       hub.Bus       // whose hints tell of changes; with a queue it must be there
	MergeSLA  time.Duration // after which a conflict is escalated; default and most DefaultMergeSLA
}

// A Service keeps the teams of a hub. It is safe for concurrent use.
type Service struct {
	store hub.Store
	mail  Mail
	clock hub.Clock
	ids   *hub.IDs
	log   *slog.Logger

	artifacts Artifacts
	files     Files
	checks    Checks
	works     Works
	queue     Queue
	bus       hub.Bus
	mergeSLA  time.Duration
	seed      maphash.Seed
	putting   [64]chan struct{} // each holds a value during a put of some artifacts
}

// New returns a service. opts may be nil. It reports CodeInvalid when an option is looser
// than the default.
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
	if o.MergeSLA == 0 {
		o.MergeSLA = DefaultMergeSLA
	}
	if o.MergeSLA < 0 || o.MergeSLA > DefaultMergeSLA {
		return nil, hub.Errorf(hub.CodeInvalid, "team.New", "merge-sla must be between 0 and %s, got %s", DefaultMergeSLA, o.MergeSLA).WithHint("limits can be tightened, not loosened")
	}
	s := &Service{
		store: store, mail: mail, clock: o.Clock, ids: hub.NewIDs(o.Clock), log: o.Log, artifacts: o.Artifacts, files: o.Files, checks: o.Checks, works: o.Works, queue: o.Queue, bus: o.Bus, mergeSLA: o.MergeSLA, seed: maphash.MakeSeed(),
	}
	for i := range s.putting {
		s.putting[i] = make(chan struct{}, 1)
	}
	return s, nil
}

// A Seat is an agent with its role in a team.
type Seat struct {
	Agent hub.AgentID `json:"agent"`
	Role  hub.Role    `json:"role"`
	Since hub.Time    `json:"since,omitzero"` // not in a request
}

// A Policy is the part of a team's policy that its creator chooses.
type Policy struct {
	DefaultVisibility hub.Visibility   `json:"default_visibility,omitempty"`
	HumanGateActions  []string         `json:"human_gate_actions,omitempty"`
	MaxParallelTasks  strictjson.Count `json:"max_parallel_tasks,omitzero"`
}

// An Answer is the result of a request. Only the members that the request produces are
// set.
type Answer struct {
	Status   string        `json:"status,omitempty"`   // held, if the operation waits for the operator
	ID       string        `json:"id,omitempty"`       // of the held operation
	ShortID  hub.ShortID   `json:"short_id,omitempty"` // of the held operation
	Team     *View         `json:"team,omitempty"`
	Teams    []View        `json:"teams,omitzero"`
	Task     *hub.Task     `json:"task,omitempty"`
	Reserved []string      `json:"reserved,omitempty"` // the files of the task that are reserved for its owner; after a start alone
	Decision *hub.Decision `json:"decision,omitempty"`

	// Of a task whose owner submitted it for review.
	Checks  hub.ChecksWord    `json:"checks,omitempty"`
	Stage   hub.Stage         `json:"stage,omitempty"`
	Results []hub.CheckResult `json:"results,omitempty"`

	Decisions []hub.Decision `json:"decisions,omitzero"` // newest first

	Artifact  *hub.TeamArtifact     `json:"artifact,omitempty"` // after a put, with its newest version
	Version   *hub.ArtifactVersion  `json:"version,omitempty"`  // that was put or read
	Content   *string               `json:"content,omitempty"`
	Part      *Part                 `json:"part,omitempty"`     // if Content is a part
	Encoding  string                `json:"encoding,omitempty"` // base64 for content that is no text
	Artifacts []hub.TeamArtifact    `json:"artifacts,omitzero"`
	Versions  []hub.ArtifactVersion `json:"versions,omitzero"` // newest first
	Conflicts []hub.Conflict        `json:"conflicts,omitempty"`

	Next     string   `json:"next,omitempty"` // cursor for the page after this one
	Warnings []string `json:"warnings,omitempty"`

	// In the answers of tools.
	Unread       int              `json:"unread"`
	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
}

// A View is a team as a caller sees it.
type View struct {
	hub.Team
	You        hub.Role              `json:"your_role,omitempty"`
	Members    []Seat                `json:"members"`
	TaskCounts map[hub.TaskState]int `json:"task_counts"`
	Tasks      []hub.Task            `json:"tasks,omitzero"`      // a page, in show alone
	Conflicts  []hub.Conflict        `json:"conflicts,omitempty"` // open ones, by artifact and version, at most MaxConflicts; in list and show alone
	Decisions  []hub.Decision        `json:"decisions,omitempty"` // the newest, at most shownDecisions; in show alone
}

// A change is one transaction on a team.
type change struct {
	s      *Service
	tx     hub.Tx
	op     string
	actor  hub.Caller
	role   hub.Role // of the actor in the team; "" if it is no member
	now    hub.Time
	team   hub.Team
	posted []hub.Message
}

// update runs fn in one transaction on a team that the actor sees and that is not
// closed. An operation that is gated is rolled back after its checks, with errHeld.
func (s *Service) update(ctx context.Context, in call, fn func(*change) error) error {
	op := "team." + in.action
	var c *change
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		c = &change{s: s, tx: tx, op: op, actor: in.actor, now: s.clock.Now()}
		if c.team, c.role, err = visible(tx, op, in.actor, in.team); err != nil {
			return err
		}
		if c.team.ReadOnly() && in.action != "archive" {
			return hub.Errorf(hub.CodeConflict, op, "team %s is %s and cannot be changed", c.team.ID, c.team.Lifecycle)
		}
		if err := fn(c); err != nil {
			return err
		}
		switch {
		case in.approval != nil:
			return c.decideHeld(in.approval)
		case gated(c.team, in.actor.ID, in.action) || gated(c.team, in.actor.ID, in.via):
			return errHeld
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mail.Announce(c.posted...)
	return nil
}

// visible returns a team that the actor may see, and its role there. To others it
// reports the same error as for one that does not exist.
func visible(r hub.Reader, op string, actor hub.Caller, id hub.TeamID) (hub.Team, hub.Role, error) {
	t, err := r.Teamspaces().Team(id)
	var role hub.Role
	if err == nil {
		role, err = roleOf(r, id, actor.ID)
	}
	isHidden := err == nil && role == "" && !actor.Audits()
	if isHidden || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Team{}, "", hub.Errorf(hub.CodeNotFound, op, "no team named %q that you can see", id).WithHint("to list your teams: {team.list}")
	}
	return t, role, err
}

// roleOf returns the role of an agent in a team, "" if it is no member.
func roleOf(r hub.Reader, id hub.TeamID, agent hub.AgentID) (hub.Role, error) {
	m, err := r.Teamspaces().Members(hub.MemberQuery{Team: id, Agent: agent, Limit: 1})
	if err != nil || len(m) == 0 {
		return "", err
	}
	return m[0].Role, nil
}

// MaxConflicts is the most open conflicts in an answer.
const MaxConflicts = 20

// maxMembers is the most members of a team.
const maxMembers = 200

// roster returns the members of a team now.
func roster(r hub.Reader, id hub.TeamID) ([]hub.Member, error) {
	return r.Teamspaces().Members(hub.MemberQuery{Team: id, Limit: maxMembers + 1})
}

// with returns the agents of a roster that have one of the roles; all if there are none.
func with(all []hub.Member, roles ...hub.Role) []hub.AgentID {
	var out []hub.AgentID
	for _, m := range all {
		if len(roles) == 0 || slices.Contains(roles, m.Role) {
			out = append(out, m.Agent)
		}
	}
	return out
}

// doing is the wording of each action of the matrix in a refusal.
var doing = map[hub.TeamAction]string{
	hub.MayCreateTask: "create a task", hub.MayAssign: "assign a task", hub.MayApproveHandoff: "approve a handoff into the team", hub.MayAcceptTask: "accept an execution task",
	hub.MayFinishHighRisk: "finish a high-risk task", hub.MayBlock: "block a task", hub.MayChangeMembers: "change members and roles", hub.MayClose: "close or archive the team",
}

// allow refuses an actor whose role does not permit an action. The operator may do
// everything.
func (c *change) allow(a hub.TeamAction, class hub.TaskClass) error {
	if c.actor.IsOperator() || (c.role != "" && c.team.May(c.role, a, class)) {
		return nil
	}
	return refusal(c.op, c.team, c.actor.ID, c.role, a, class)
}

// refusal names the action, the role, and the roles that could do it.
func refusal(op string, t hub.Team, agent hub.AgentID, role hub.Role, a hub.TeamAction, class hub.TaskClass) error {
	of := ""
	if class != "" {
		of = fmt.Sprintf(" of class %s", class)
	}
	err := hub.Errorf(hub.CodeDenied, op, "%s is %s and cannot %s%s", agent, roleIn(role, t.ID), doing[a], of)
	if could := t.RolesFor(a, class); len(could) > 0 {
		return err.WithHint("these roles can: %s (%s)", joined(could), a)
	}
	return err.WithHint("only the operator can (%s)", a)
}

// leads refuses an actor that is neither a coordinator of the team nor the operator.
func (c *change) leads(what string) error {
	if c.actor.IsOperator() || c.role == hub.RoleCoordinator {
		return nil
	}
	return hub.Errorf(hub.CodeDenied, c.op, "%s is %s and cannot %s", c.actor.ID, roleIn(c.role, c.team.ID), what).WithHint("ask a coordinator of the team")
}

// roleIn says which role an agent has in a team.
func roleIn(r hub.Role, id hub.TeamID) string {
	if r == "" {
		return fmt.Sprintf("not a member of team %s", id)
	}
	return fmt.Sprintf("%s in team %s", r, id)
}

// put stores the team.
func (c *change) put() error {
	c.team.UpdatedAt = c.now
	err := c.tx.WriteTeamspaces().PutTeam(c.team)
	c.team.Revision++
	return err
}

// record writes a journal entry about the team.
func (c *change) record(a actions.Action, facts map[string]any) error {
	_, err := c.tx.Append(c.actor.Entry(c.now, a, subject(c.team.ID), facts))
	return err
}

// subject is the subject of journal entries about a team.
func subject(id hub.TeamID) string { return "team/" + string(id) }

// tell writes a message of the hub to agents, without repetitions and without the
// actor.
func (c *change) tell(to []hub.AgentID, t hub.MessageType, payload map[string]any) error {
	return c.tellAs(hub.PriorityNormal, "", to, t, payload)
}

// tellIn is tell in a thread that exists.
func (c *change) tellIn(thread string, to []hub.AgentID, t hub.MessageType, payload map[string]any) error {
	return c.tellAs(hub.PriorityNormal, thread, to, t, payload)
}

// tellAs is tell with a priority, high makes the message an alarm, and a thread, "" for a new one.
func (c *change) tellAs(priority hub.Priority, thread string, to []hub.AgentID, t hub.MessageType, payload map[string]any) error {
	var others []hub.AgentID
	for _, id := range to {
		if id != "" && id != c.actor.ID && !slices.Contains(others, id) {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return nil
	}
	payload["team"] = c.team.ID
	raw, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	policy := hub.DefaultPolicy
	policy.Visibility = hub.VisibilityTeam
	msg, err := c.s.mail.Notify(c.tx, hub.Envelope{To: others, Type: t, Priority: priority, ThreadID: thread, Team: string(c.team.ID), Payload: raw, Policy: policy})
	c.posted = append(c.posted, msg)
	return err
}

// view returns the team as the actor sees it.
func view(r hub.Reader, t hub.Team, role hub.Role) (View, error) {
	v := View{Team: t, You: role, Members: []Seat{}}
	all, err := roster(r, t.ID)
	for _, m := range all {
		v.Members = append(v.Members, Seat{m.Agent, m.Role, m.Since})
	}
	if err == nil {
		v.TaskCounts, err = r.Teamspaces().CountTasks(t.ID)
	}
	return v, err
}

// read is view with the open conflicts of the team.
func read(r hub.Reader, t hub.Team, role hub.Role) (View, error) {
	v, err := view(r, t, role)
	if err == nil {
		v.Conflicts, err = r.Teamspaces().Conflicts(hub.ConflictQuery{Team: t.ID, Open: true, Limit: MaxConflicts})
	}
	return v, err
}

// answer returns the team after a change.
func (c *change) answer() (Answer, error) {
	role, err := roleOf(c.tx, c.team.ID, c.actor.ID)
	if err != nil {
		return Answer{}, err
	}
	v, err := view(c.tx, c.team, role)
	return Answer{Team: &v}, err
}

// checkText refuses a text that is blank, too long or not UTF-8.
func checkText(op, name, text string, most int) error {
	switch {
	case strings.TrimSpace(text) == "":
		return hub.Errorf(hub.CodeInvalid, op, "%s is required", name)
	case !utf8.ValidString(text):
		return hub.Errorf(hub.CodeInvalid, op, "%s is not valid UTF-8", name)
	case len(text) > most:
		return hub.Errorf(hub.CodeTooLarge, op, "%s must be at most %d bytes, got %d", name, most, len(text))
	}
	return nil
}

func joined[S ~string](all []S) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}
