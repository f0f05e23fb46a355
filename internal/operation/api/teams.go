package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/team"
)

// TeamParams are the parameters of acp/team: the members of all its actions. A member
// that does not belong to the action is ignored, unless the action says otherwise.
type TeamParams struct {
	Action string     `json:"action"`
	Team   hub.TeamID `json:"team,omitempty"` // not to list

	// To create.
	Name      string       `json:"name,omitempty"`
	Objective string       `json:"objective,omitempty"`
	Members   []team.Seat  `json:"members,omitempty"`
	Policy    *team.Policy `json:"policy,omitempty"`

	// Members and roles.
	Agent    hub.AgentID `json:"agent,omitempty"`
	Role     hub.Role    `json:"role,omitempty"`
	SwapWith hub.AgentID `json:"swap_with,omitempty"`
	Accept   *bool       `json:"accept,omitempty"`
	Reason   string      `json:"reason,omitempty"` // of a role, of leaving, of a move of a task

	Lifecycle hub.Lifecycle `json:"lifecycle,omitempty"`
	Anyway    bool          `json:"anyway,omitempty"`

	// Tasks and decisions.
	Task         hub.TaskID        `json:"task,omitempty"`
	Title        string            `json:"title,omitempty"`
	Class        hub.TaskClass     `json:"class,omitempty"`
	Owner        hub.AgentID       `json:"owner,omitempty"`
	Reviewer     hub.AgentID       `json:"reviewer,omitempty"`
	State        hub.TaskState     `json:"state,omitempty"`
	DependsOn    *[]hub.TaskID     `json:"depends_on,omitempty"`
	ExternalRefs []hub.ExternalRef `json:"external_refs,omitempty"`
	Worktree     string            `json:"worktree_path,omitempty"` // of a new task with a scope
	Scope        []string          `json:"scope,omitempty"`         // files that are reserved for the owner at work
	Checks       []string          `json:"checks,omitempty"`        // names of checks that must pass before the review of a new task
	Decision     string            `json:"decision,omitempty"`
	Rationale    string            `json:"rationale,omitempty"`

	// Artifacts. Content or SHA256 puts a version, or the merge of two.
	Artifact      string           `json:"artifact,omitempty"`
	ParentVersion *int64           `json:"parent_version,omitempty"`
	Content       *string          `json:"content,omitempty"`
	Encoding      string           `json:"encoding,omitempty"`
	SHA256        string           `json:"sha256,omitempty"`
	Note          string           `json:"note,omitempty"`
	Sensitivity   hub.Sensitivity  `json:"sensitivity,omitempty"`
	Of            team.Digests     `json:"of,omitempty"`
	Version       strictjson.Count `json:"version,omitzero"`
	Part          strictjson.Count `json:"part,omitzero"`
	Log           bool             `json:"log,omitempty"` // list the versions
	Parents       []int64          `json:"parents,omitempty"`
	SignOff       bool             `json:"sign_off,omitempty"`

	// To list and to show.
	Member hub.AgentID      `json:"member,omitempty"`
	Cursor string           `json:"cursor,omitempty"`
	Limit  strictjson.Count `json:"limit,omitzero"`
}

// teamActions has every action but list, which is about no single team. Each reads the
// members that belong to it.
var teamActions = map[string]func(TeamParams) (team.Request, error){
	"create": func(p TeamParams) (team.Request, error) {
		return team.Create{Name: p.Name, Objective: p.Objective, Members: p.Members, Policy: p.Policy}, nil
	},
	"show":   func(p TeamParams) (team.Request, error) { return p.show(), nil },
	"status": statusRequest,
	"close": func(p TeamParams) (team.Request, error) {
		return team.Close{Anyway: p.Anyway}, nil
	},
	"archive": func(TeamParams) (team.Request, error) { return team.Archive{}, nil },

	"add": func(p TeamParams) (team.Request, error) {
		return team.AddMember{Agent: p.Agent, Role: p.Role}, nil
	},
	"remove": func(p TeamParams) (team.Request, error) {
		return team.RemoveMember{Agent: p.Agent, Reason: p.Reason}, nil
	},
	"role": roleRequest,

	"task": taskRequest,
	"decide": func(p TeamParams) (team.Request, error) {
		return team.Decide{Title: p.Title, Decision: p.Decision, Rationale: p.Rationale}, nil
	},
	"decisions": func(p TeamParams) (team.Request, error) {
		return team.ListDecisions{Cursor: p.Cursor, Limit: int(p.Limit)}, nil
	},

	"artifact": artifactRequest,
	"merge":    mergeRequest,
}

func (p TeamParams) show() team.Show {
	return team.Show{Owner: p.Owner, State: p.State, Cursor: p.Cursor, Limit: int(p.Limit)}
}

func (p TeamParams) content() team.Content {
	return team.Content{Text: p.Content, Encoding: p.Encoding, SHA256: p.SHA256}
}

// statusRequest moves the lifecycle of a team or, without one, shows the team.
func statusRequest(p TeamParams) (team.Request, error) {
	if p.Lifecycle == "" {
		return p.show(), nil
	}
	return team.Move{Lifecycle: p.Lifecycle, Anyway: p.Anyway}, nil
}

// roleRequest answers a proposal if accept is given, else it changes a role.
func roleRequest(p TeamParams) (team.Request, error) {
	if p.Accept != nil {
		return team.AnswerRole{Agent: p.Agent, Role: p.Role, Accept: *p.Accept}, team.CheckRoleReason(p.Reason)
	}
	return team.ChangeRole{Agent: p.Agent, Role: p.Role, SwapWith: p.SwapWith, Reason: p.Reason}, nil
}

// taskRequest creates a task if none is named, else it moves, changes or reads that task.
// The members of one form exclude those of the others.
func taskRequest(p TeamParams) (team.Request, error) {
	const op = "team.task"
	changes := p.Owner != "" || p.Reviewer != "" || p.DependsOn != nil
	switch {
	case p.State != "" && changes:
		return nil, hub.Errorf(hub.CodeInvalid, op, "state cannot be combined with owner, reviewer or depends_on").WithHint("move the task and change it in two calls")
	case p.Task != "" && p.describesTask():
		return nil, hub.Errorf(hub.CodeInvalid, op, "title, class, external_refs, worktree_path and scope cannot be changed").WithHint("leave task out to create a task with them")
	case p.Task == "" && p.State != "":
		return nil, hub.Errorf(hub.CodeInvalid, op, "a new task has no state: it starts in the backlog").WithHint("give an owner to assign it")
	}

	switch {
	case p.Task == "":
		r := team.CreateTask{
			Title: p.Title, Class: p.Class, Owner: p.Owner, Reviewer: p.Reviewer, ExternalRefs: p.ExternalRefs,
			Worktree: p.Worktree, Scope: p.Scope, Checks: p.Checks,
		}
		if p.DependsOn != nil {
			r.DependsOn = *p.DependsOn
		}
		return r, nil
	case p.State != "":
		return team.MoveTask{Task: p.Task, State: p.State, Reason: p.Reason}, nil
	case changes:
		return team.ChangeTask{Task: p.Task, Owner: p.Owner, Reviewer: p.Reviewer, DependsOn: p.DependsOn}, nil
	}
	return team.ReadTask{Task: p.Task}, nil
}

// describesTask reports whether members are given that a task has from its creation on.
func (p TeamParams) describesTask() bool {
	hasText := p.Title != "" || p.Class != "" || p.Worktree != ""
	return hasText || len(p.ExternalRefs) > 0 || len(p.Scope) > 0 || len(p.Checks) > 0
}

// artifactRequest puts a version if there is a content, else it reads: the list of
// artifacts, that of versions, or a version.
func artifactRequest(p TeamParams) (team.Request, error) {
	const op = "team.artifact"
	switch content := p.content(); {
	case content.Given() && p.ParentVersion == nil:
		return nil, hub.Errorf(hub.CodeInvalid, op, "parent_version is required").WithHint("give the version that you changed, or 0 for a new artifact")
	case content.Given():
		return team.PutArtifact{Artifact: p.Artifact, Parent: *p.ParentVersion, Content: content, Note: p.Note, Sensitivity: p.Sensitivity, Of: p.Of}, nil
	case p.Artifact == "":
		return team.ListArtifacts{Cursor: p.Cursor, Limit: int(p.Limit)}, nil
	case p.ParentVersion != nil:
		return nil, hub.Errorf(hub.CodeInvalid, op, "content is required").WithHint("give content or sha256 to put a version, or leave parent_version out to read one")
	case p.Log:
		return team.ListVersions{Artifact: p.Artifact, Cursor: p.Cursor, Limit: int(p.Limit)}, nil
	}
	return team.ReadArtifact{Artifact: p.Artifact, Version: int64(p.Version), Part: int(p.Part)}, nil
}

// mergeRequest signs a merge or puts one.
func mergeRequest(p TeamParams) (team.Request, error) {
	switch content := p.content(); {
	case !p.SignOff:
		return team.Merge{Artifact: p.Artifact, Content: content, Note: p.Note, Of: p.Of, Parents: p.Parents}, nil
	case content.Given():
		return nil, hub.Errorf(hub.CodeInvalid, "team.merge", "sign_off and content cannot be combined")
	}
	return team.SignMerge{Artifact: p.Artifact}, nil
}

// teams returns the service of teams, or that this hub has none.
func (s *Services) teams(op string) (*team.Service, error) {
	if s.Teams == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "teamspaces are off on this hub")
	}
	return s.Teams, nil
}

func teamwork(ctx context.Context, s *Services, a hub.Caller, p TeamParams) (team.Answer, error) {
	teams, err := s.teams("acp/team")
	if err != nil {
		return team.Answer{}, err
	}
	out, err := performTeam(ctx, teams, a, p)
	if err != nil {
		return out, err
	}
	if p.Task.Valid() {
		s.focus(ctx, a, "", p.Task)
	}
	var warnings []string
	out.Unread, out.Capabilities, warnings = s.standing(ctx, a)
	out.Warnings = append(out.Warnings, warnings...)
	return out, nil
}

// performTeam performs the action of the parameters.
func performTeam(ctx context.Context, teams *team.Service, a hub.Caller, p TeamParams) (team.Answer, error) {
	const op = "acp/team"
	if p.Action == "list" {
		return teams.List(ctx, a, hub.TeamQuery{Member: p.Member, Lifecycle: p.Lifecycle, Cursor: hub.TeamID(p.Cursor), Limit: int(p.Limit)})
	}
	request, ok := teamActions[p.Action]
	if !ok {
		names := append(slices.Collect(maps.Keys(teamActions)), "list")
		slices.Sort(names)
		return team.Answer{}, hub.Errorf(hub.CodeInvalid, op, "unknown action %q", p.Action).WithHint("use %s", strings.Join(names, ", "))
	}

	r, err := request(p)
	if err != nil {
		return team.Answer{}, err
	}
	if a.Kind == hub.CallerViewer && team.Changes(r) {
		return team.Answer{}, hub.Errorf(hub.CodeDenied, op, "a viewer can read teams, not change them")
	}

	// The id of a task is enough to find its team.
	if p.Action == "task" && p.Team == "" && p.Task.Valid() {
		if p.Team, err = teams.TeamOf(ctx, p.Task); err != nil {
			return team.Answer{}, err
		}
	}
	return teams.Perform(ctx, a, p.Team, r)
}

// TeamPolicyParams name a team, and what the operator changes: cells of its matrix, and the
// successors of owners that cannot go on.
type TeamPolicyParams struct {
	Team       hub.TeamID     `json:"team"`
	Set        []team.Cell    `json:"set,omitempty"`
	Successors *[]hub.AgentID `json:"successors,omitempty"` // nil leaves them
}

func teamPolicy(ctx context.Context, s *Services, a hub.Caller, p TeamPolicyParams) (team.Grid, error) {
	teams, err := s.teams("parley/team/policy")
	if err != nil {
		return team.Grid{}, err
	}
	if p.Successors != nil {
		if err := teams.SetSuccessors(ctx, a, p.Team, *p.Successors); err != nil {
			return team.Grid{}, err
		}
	}
	return teams.Authority(ctx, a, p.Team, p.Set)
}

// TeamLogParams choose journal entries about a team.
type TeamLogParams struct {
	Team  hub.TeamID       `json:"team"`
	After int64            `json:"after,omitempty"`
	Limit strictjson.Count `json:"limit,omitzero"`
}

func teamLog(ctx context.Context, s *Services, a hub.Caller, p TeamLogParams) (team.Log, error) {
	teams, err := s.teams("parley/team/log")
	if err != nil {
		return team.Log{}, err
	}
	return teams.Log(ctx, a, p.Team, p.After, int(p.Limit))
}
