package hub

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A TeamID names a team on this hub. It has the form of an agent's name.
type TeamID string

// Valid reports whether id has the form of a team's name.
func (id TeamID) Valid() bool { return AgentID(id).Valid() }

// teamPrefix begins the recipient that stands for the members of a team.
const teamPrefix = "team:"

// Team returns the team whose members a recipient stands for, as in team:auth.
func (id AgentID) Team() (TeamID, bool) {
	team, ok := strings.CutPrefix(string(id), teamPrefix)
	return TeamID(team), ok
}

// A Lifecycle says how far a team has come.
type Lifecycle string

// The lifecycles.
const (
	TeamForming     Lifecycle = "forming" // tasks are planned, none is started
	TeamActive      Lifecycle = "active"
	TeamIncident    Lifecycle = "incident"
	TeamStabilizing Lifecycle = "stabilizing"
	TeamClosed      Lifecycle = "closed"   // read-only
	TeamArchived    Lifecycle = "archived" // read-only, and out of the lists
)

// Lifecycles lists every lifecycle in order.
var Lifecycles = []Lifecycle{TeamForming, TeamActive, TeamIncident, TeamStabilizing, TeamClosed, TeamArchived}

// teamNext is the whole state machine of a team. A lifecycle without an entry is final.
var teamNext = map[Lifecycle][]Lifecycle{
	TeamForming:     {TeamActive},
	TeamActive:      {TeamIncident, TeamStabilizing, TeamClosed},
	TeamIncident:    {TeamActive},
	TeamStabilizing: {TeamClosed},
	TeamClosed:      {TeamArchived},
}

// Next returns the lifecycles that may follow l.
func (l Lifecycle) Next() []Lifecycle { return teamNext[l] }

// A TeamAction is one of the eight things in a team that need authority.
type TeamAction string

// The actions.
const (
	MayCreateTask     TeamAction = "create_task"
	MayAssign         TeamAction = "assign"
	MayApproveHandoff TeamAction = "approve_handoff"
	MayAcceptTask     TeamAction = "accept_task"
	MayFinishHighRisk TeamAction = "high_risk_done"
	MayBlock          TeamAction = "block"
	MayChangeMembers  TeamAction = "members"
	MayClose          TeamAction = "close"
)

// TeamActions lists every action.
var TeamActions = []TeamAction{
	MayCreateTask, MayAssign, MayApproveHandoff, MayAcceptTask, MayFinishHighRisk, MayBlock, MayChangeMembers, MayClose,
}

// A Permit says whether a role may do an action.
type Permit string

// The permits.
const (
	PermitAllow   Permit = "allow"
	PermitDeny    Permit = "deny"
	PermitMerge   Permit = "merge"   // for tasks of class merge
	PermitGuarded Permit = "guarded" // for tasks of the classes guarded and high_risk
)

// Permits lists every permit.
var Permits = []Permit{PermitAllow, PermitDeny, PermitMerge, PermitGuarded}

// authority is the default matrix. A role without an entry may not do the action.
var authority = Matrix{
	MayCreateTask:     {RoleCoordinator: PermitAllow},
	MayAssign:         {RoleCoordinator: PermitAllow, RoleIntegrator: PermitMerge},
	MayApproveHandoff: {RoleCoordinator: PermitAllow, RoleIntegrator: PermitAllow, RoleReviewer: PermitGuarded},
	MayAcceptTask:     {RoleExecutor: PermitAllow, RoleIntegrator: PermitAllow},
	MayFinishHighRisk: {RoleCoordinator: PermitAllow, RoleReviewer: PermitAllow, RoleIntegrator: PermitAllow},
	MayBlock:          {RoleCoordinator: PermitAllow, RoleReviewer: PermitAllow, RoleIntegrator: PermitAllow},
	MayChangeMembers:  {RoleCoordinator: PermitAllow},
	MayClose:          {RoleCoordinator: PermitAllow},
}

// A Matrix says which role may do which action.
type Matrix map[TeamAction]map[Role]Permit

// With returns a copy of m with one cell changed.
func (m Matrix) With(r Role, a TeamAction, p Permit) Matrix {
	out := Matrix{}
	for action, row := range m {
		out[action] = maps.Clone(row)
	}
	if out[a] == nil {
		out[a] = map[Role]Permit{}
	}
	out[a][r] = p
	return out
}

// A TeamPolicy bounds the work of a team.
type TeamPolicy struct {
	DefaultVisibility Visibility `json:"default_visibility"` // of messages with the team that name none
	HumanGateActions  []string   `json:"human_gate_actions"` // operations that wait for the operator
	MaxParallelTasks  int        `json:"max_parallel_tasks"` // in progress at a time

	// Successors are the members that take over tasks whose owner cannot go on, in this order.
	Successors []AgentID `json:"successors,omitempty"`
}

// DefaultTeamPolicy is the policy of a team whose creator gave none.
var DefaultTeamPolicy = TeamPolicy{DefaultVisibility: VisibilityTeam, HumanGateActions: []string{}, MaxParallelTasks: 6}

// A Team is a group of agents with a goal, roles and tasks.
type Team struct {
	ID        TeamID         `json:"teamspace_id"`
	Name      string         `json:"name"`
	Objective string         `json:"objective"`
	Lifecycle Lifecycle      `json:"lifecycle"`
	Policy    TeamPolicy     `json:"policy"`
	Overrides Matrix         `json:"overrides,omitempty"` // cells of the matrix that the operator changed
	Proposals []RoleProposal `json:"proposals,omitempty"` // roles that wait for a yes
	CreatedBy AgentID        `json:"created_by"`
	CreatedAt Time           `json:"created_at,omitzero"`
	UpdatedAt Time           `json:"updated_at,omitzero"`
	ClosedAt  Time           `json:"closed_at,omitzero"`
	Revision  int64          `json:"-"` // of the row; 0 for one that is not stored
}

// canBecome names the states that follow on one, for a hint.
func canBecome[S ~string](next []S) string {
	if len(next) == 0 {
		return "it is final"
	}
	return "it can become " + JoinWords(next)
}

// Advance returns t moved to next at the given time. It reports CodeConflict when the
// state machine has no such move, and then returns t unchanged.
func (t Team) Advance(next Lifecycle, now Time) (Team, error) {
	if !slices.Contains(teamNext[t.Lifecycle], next) {
		return t, Errorf(CodeConflict, "hub.Advance", "team %s is %s and cannot become %s", t.ID, t.Lifecycle, next).
			WithHint("%s", canBecome(teamNext[t.Lifecycle]))
	}
	t.Lifecycle, t.UpdatedAt = next, now
	if next == TeamClosed {
		t.ClosedAt = now
	}
	return t, nil
}

// ReadOnly reports whether t is closed or archived.
func (t Team) ReadOnly() bool { return t.Lifecycle == TeamClosed || t.Lifecycle == TeamArchived }

// Permit returns the cell of the matrix of t.
func (t Team) Permit(r Role, a TeamAction) Permit {
	for _, m := range []Matrix{t.Overrides, authority} {
		if p, ok := m[a][r]; ok {
			return p
		}
	}
	return PermitDeny
}

// May reports whether a role may do an action to a task of a class, which is "" for an
// action without a task.
func (t Team) May(r Role, a TeamAction, class TaskClass) bool {
	switch t.Permit(r, a) {
	case PermitAllow:
		return true
	case PermitMerge:
		return class == ClassMerge
	case PermitGuarded:
		return class.Guarded()
	}
	return false
}

// RolesFor returns the roles that may do an action to a task of a class.
func (t Team) RolesFor(a TeamAction, class TaskClass) []Role {
	return slices.DeleteFunc(slices.Clone(Roles), func(r Role) bool { return !t.May(r, a, class) })
}

// A RoleProposal is a role that an agent is to have once the agents in Needs agreed.
type RoleProposal struct {
	Agent AgentID   `json:"agent"`
	Role  Role      `json:"role"`
	Swap  AgentID   `json:"swap_with,omitempty"` // gets the role that Agent has
	By    AgentID   `json:"by"`
	Needs []AgentID `json:"needs"` // those that have not agreed; empty if any coordinator may
	At    Time      `json:"at,omitzero"`
}

// RoleReasons are the reasons with which a coordinator changes a role at once.
var RoleReasons = []string{"load_balance", "coverage", "handoff", "incident", "conflict_of_interest"}

// A Member is the time in which an agent has one role in a team. The ended and the
// present ones together are the ledger of roles.
type Member struct {
	Team   TeamID  `json:"team"`
	Agent  AgentID `json:"agent"`
	Role   Role    `json:"role"`
	Since  Time    `json:"since,omitzero"`
	By     AgentID `json:"by"`
	Reason string  `json:"reason"`         // joined, agreed, or one of RoleReasons
	Until  Time    `json:"until,omitzero"` // zero while it lasts
	Ending string  `json:"ending,omitempty"`
	N      int64   `json:"n"` // its place in the ledger of the team; 0 for one that is not stored
}

// Reads reports whether m lets its agent read a message of the team that was sent at a
// time: while it lasts all, then those of its time.
func (m Member) Reads(at Time) bool {
	return m.Until.IsZero() || (!at.Before(m.Since.Time) && at.Before(m.Until.Time))
}

// A TaskID names a task on this hub, as in T-12.
type TaskID string

var taskPattern = pattern.New(`^T-[1-9][0-9]{0,17}$`)

// Valid reports whether id has the form of a task's name.
func (id TaskID) Valid() bool { return taskPattern().MatchString(string(id)) }

// A TaskState says how far a task has come.
type TaskState string

// The states.
const (
	TaskBacklog    TaskState = "backlog"  // without an owner
	TaskAssigned   TaskState = "assigned" // its owner has not begun
	TaskInProgress TaskState = "in_progress"
	TaskInReview   TaskState = "in_review"
	TaskRework     TaskState = "rework" // the review asks for more
	TaskBlocked    TaskState = "blocked"
	TaskDone       TaskState = "done"
	TaskDropped    TaskState = "dropped"
)

// TaskStates lists every state in the order of a task's life.
var TaskStates = []TaskState{TaskBacklog, TaskAssigned, TaskInProgress, TaskInReview, TaskRework, TaskBlocked, TaskDone, TaskDropped}

// taskNext is the whole state machine of a task. A state without an entry is final. A
// blocked task goes back to the state in which it was blocked, or to a new owner. A task that
// is done goes to rework only if a landing queue returns its work.
var taskNext = map[TaskState][]TaskState{
	TaskBacklog:    {TaskAssigned, TaskInProgress, TaskDropped},
	TaskAssigned:   {TaskAssigned, TaskInProgress, TaskBlocked, TaskBacklog, TaskDropped},
	TaskInProgress: {TaskInReview, TaskDone, TaskBlocked, TaskAssigned, TaskInProgress, TaskBacklog, TaskDropped},
	TaskInReview:   {TaskRework, TaskDone, TaskBlocked, TaskBacklog, TaskDropped},
	TaskRework:     {TaskInProgress, TaskAssigned, TaskBacklog, TaskDropped},
	TaskBlocked:    {TaskAssigned, TaskInProgress, TaskInReview, TaskBacklog, TaskDropped},
	TaskDone:       {TaskRework},
}

// Over reports whether a task in the state has ended.
func (s TaskState) Over() bool { return s == TaskDone || s == TaskDropped }

// A TaskClass says how careful a team is with a task.
type TaskClass string

// The classes.
const (
	ClassNormal   TaskClass = "normal"
	ClassMerge    TaskClass = "merge"   // an integrator finishes it
	ClassGuarded  TaskClass = "guarded" // finished by a reviewer or coordinator that did not work on it
	ClassHighRisk TaskClass = "high_risk"
)

// TaskClasses lists every class.
var TaskClasses = []TaskClass{ClassNormal, ClassMerge, ClassGuarded, ClassHighRisk}

// Guarded reports whether tasks of class c are reviewed by another agent.
func (c TaskClass) Guarded() bool { return c == ClassGuarded || c == ClassHighRisk }

// BlockReasons are the reasons for which a task is blocked.
var BlockReasons = []string{"dependency", "access", "decision", "review", "failing_checks", "capacity", "other"}

// A Task is a piece of work with at most one owner. It belongs to a team, or else to the
// hub's own queue: then it is an item, and its title is the name of the item. No two items
// that are not over have the same name.
type Task struct {
	ID           TaskID        `json:"task_id"`
	Team         TeamID        `json:"team"` // empty for an item of the hub's queue
	Title        string        `json:"title"`
	Class        TaskClass     `json:"class"`
	State        TaskState     `json:"state"`
	Was          TaskState     `json:"was,omitempty"` // the state in which it was blocked
	Owner        AgentID       `json:"owner,omitempty"`
	Reviewer     AgentID       `json:"reviewer,omitempty"`
	Executors    []AgentID     `json:"executors,omitempty"` // those that have worked on it
	DependsOn    []TaskID      `json:"depends_on,omitempty"`
	ExternalRefs []ExternalRef `json:"external_refs,omitempty"`
	Worktree     string        `json:"worktree_path,omitempty"` // in which the files of Scope are
	Checks       []string      `json:"checks,omitempty"`        // names of checks of the repository of Worktree that must pass
	Scope        []string      `json:"scope,omitempty"`         // files, folders or pathspecs of git that are reserved for the owner at work
	Reason       string        `json:"reason,omitempty"`        // of the state blocked, rework or dropped
	Offer        string        `json:"offer,omitempty"`         // the negotiation that it was agreed in
	Handoff      HandoffID     `json:"handoff,omitempty"`       // by which its owner got it
	Queue        Ownership     `json:"queue"`                   // whether a queue outside the hub knows its owner
	QueueOwner   AgentID       `json:"queue_owner,omitempty"`   // the owner that it knows
	CreatedBy    AgentID       `json:"created_by"`
	CreatedAt    Time          `json:"created_at,omitzero"` // zero for an item that was claimed and never added to the queue
	StartedAt    Time          `json:"started_at,omitzero"`
	DoneAt       Time          `json:"done_at,omitzero"`
	UpdatedAt    Time          `json:"updated_at,omitzero"`
	Revision     int64         `json:"-"` // of the row; 0 for one that is not stored
}

// QueueNone says that no queue outside the hub has a task.
const QueueNone Ownership = "not_applicable"

// Advance returns t moved to next at the given time. It reports CodeConflict when the
// state machine has no such move, and then returns t unchanged.
func (t Task) Advance(next TaskState, now Time) (Task, error) {
	allowed := slices.Contains(taskNext[t.State], next)
	if t.State == TaskBlocked && (next == TaskInProgress || next == TaskInReview) {
		allowed = next == t.Was
	}
	if !allowed {
		return t, Errorf(CodeConflict, "hub.Advance", "task %s is %s and cannot become %s", t.ID, t.State, next).
			WithHint("%s", canBecome(taskNext[t.State]))
	}
	was := t.State
	t.State = next
	t.Was = ""
	t.Reason = ""
	t.UpdatedAt = now
	switch next {
	case TaskBlocked:
		t.Was = was
	case TaskBacklog:
		t.Owner, t.Handoff = "", ""
	case TaskInProgress:
		if t.StartedAt.IsZero() {
			t.StartedAt = now
		}
		if !slices.Contains(t.Executors, t.Owner) {
			t.Executors = append(slices.Clone(t.Executors), t.Owner)
		}
	case TaskDone:
		t.DoneAt = now
	case TaskRework:
		t.DoneAt = Time{}
	}
	return t, nil
}

// A TeamQuery chooses teams, by name. Empty members do not restrict.
type TeamQuery struct {
	Member    AgentID // is a member now
	Lifecycle Lifecycle
	All       bool   // archived ones, too
	Cursor    TeamID // the last one of the page before
	Limit     int    // how many at most; positive
}

// A MemberQuery chooses members in the order of the ledger. Empty members do not
// restrict.
type MemberQuery struct {
	Team  TeamID
	Agent AgentID
	Ended bool // those that have ended, too
	After int64
	Limit int // how many at most; positive
}

// A TaskQuery chooses tasks of teams or, with Queue or Item, items of the hub's queue that
// are not over. They come oldest first. Empty members do not restrict.
type TaskQuery struct {
	Team   TeamID
	Queue  bool   // items, and no tasks of teams
	Item   string // the item with this name
	ByName bool   // items by name, without a cursor
	Owner  AgentID
	States []TaskState
	Newest bool   // the newest first, without a cursor
	Cursor TaskID // the last one of the page before
	Limit  int    // how many at most; positive
}

// A HeldAction is an operation of a team that waits for the operator.
type HeldAction struct {
	ID      string          `json:"id"` // that of the message that asks the operator
	Team    TeamID          `json:"team"`
	Actor   AgentID         `json:"actor"`
	Action  string          `json:"action"`
	Request json.RawMessage `json:"request"`
	At      Time            `json:"at,omitzero"`
	Verdict string          `json:"verdict,omitempty"` // approved or denied
	By      AgentID         `json:"by,omitempty"`
	EndedAt Time            `json:"ended_at,omitzero"`
}
