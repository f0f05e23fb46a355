package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// A Request is one operation on a team: a value of one of the types below. Teams are
// listed by Service.List, because a list is about no single team.
type Request interface {
	// action returns the word for the operation on the wire, in the gates of a team's
	// policy and in a held operation. Several types can have the same word; they differ
	// in the members that are given.
	action() string
	perform(context.Context, *Service, call) (Answer, error)
}

// Requests about the team itself. Requests that can be held have JSON members.
type (
	// Create makes a team.
	Create struct {
		Name      string // default the id of the team
		Objective string
		Members   []Seat
		Policy    *Policy // default hub.DefaultTeamPolicy
	}

	// Show reads a team with a page of its tasks.
	Show struct {
		Owner  hub.AgentID   // of the tasks; "" for all
		State  hub.TaskState // of the tasks; "" for all
		Cursor string
		Limit  int // default 50
	}

	// Move moves the lifecycle of a team. To closed and archived it does the same as
	// Close and Archive.
	Move struct {
		Lifecycle hub.Lifecycle `json:"lifecycle,omitempty"`
		Anyway    bool          `json:"anyway,omitempty"` // as in Close
	}

	// Close ends the work of a team whose tasks are all over.
	Close struct {
		Anyway bool `json:"anyway,omitempty"` // abandon the versions that are not merged
	}

	// Archive takes a closed team out of the lists.
	Archive struct{}
)

// Requests about members and roles.
type (
	// AddMember makes an agent a member.
	AddMember struct {
		Agent hub.AgentID `json:"agent,omitempty"`
		Role  hub.Role    `json:"role,omitempty"` // default executor
	}

	// RemoveMember ends a membership.
	RemoveMember struct {
		Agent  hub.AgentID `json:"agent,omitempty"`
		Reason string      `json:"reason,omitempty"`
	}

	// ChangeRole proposes a role for a member or, with a reason, changes it at once.
	ChangeRole struct {
		Agent    hub.AgentID `json:"agent,omitempty"`
		Role     hub.Role    `json:"role,omitempty"`
		SwapWith hub.AgentID `json:"swap_with,omitempty"` // the member with that role, which gets the other one
		Reason   string      `json:"reason,omitempty"`    // one of hub.RoleReasons
	}

	// AnswerRole accepts or refuses a proposed role.
	AnswerRole struct {
		Agent  hub.AgentID `json:"agent,omitempty"`
		Role   hub.Role    `json:"role,omitempty"` // "" for whichever is proposed
		Accept bool        `json:"accept"`
	}
)

// Requests about tasks and decisions.
type (
	// CreateTask creates a task, and assigns it if it names an owner.
	CreateTask struct {
		Title        string            `json:"title,omitempty"`
		Class        hub.TaskClass     `json:"class,omitempty"` // default normal
		Owner        hub.AgentID       `json:"owner,omitempty"`
		Reviewer     hub.AgentID       `json:"reviewer,omitempty"`
		DependsOn    []hub.TaskID      `json:"depends_on,omitempty"`
		ExternalRefs []hub.ExternalRef `json:"external_refs,omitempty"`
		Worktree     string            `json:"worktree_path,omitempty"` // absolute; in which the files of Scope are
		Scope        []string          `json:"scope,omitempty"`         // see hub.Task
		Checks       []string          `json:"checks,omitempty"`        // likewise
	}

	// ReadTask reads a task.
	ReadTask struct {
		Task hub.TaskID
	}

	// ChangeTask assigns a task, or replaces its dependencies.
	ChangeTask struct {
		Task      hub.TaskID    `json:"task,omitempty"`
		Owner     hub.AgentID   `json:"owner,omitempty"`
		Reviewer  hub.AgentID   `json:"reviewer,omitempty"`
		DependsOn *[]hub.TaskID `json:"depends_on,omitempty"` // nil leaves them
	}

	// MoveTask moves a task to another state.
	MoveTask struct {
		Task   hub.TaskID    `json:"task,omitempty"`
		State  hub.TaskState `json:"state,omitempty"`
		Reason string        `json:"reason,omitempty"` // one of hub.BlockReasons for blocked, else a text
	}

	// Decide records a decision of a coordinator, or the proposal of another member.
	Decide struct {
		Title     string `json:"title,omitempty"` // default the decision
		Decision  string `json:"decision,omitempty"`
		Rationale string `json:"rationale,omitempty"`
	}

	// ListDecisions reads a page of decisions, newest first.
	ListDecisions struct {
		Cursor string
		Limit  int
	}
)

// Requests about artifacts.
type (
	// ListArtifacts reads a page of the artifacts of a team.
	ListArtifacts struct {
		Cursor string
		Limit  int
	}

	// ListVersions reads a page of the versions of an artifact, newest first, and its
	// open conflicts.
	ListVersions struct {
		Artifact string
		Cursor   string
		Limit    int
	}

	// ReadArtifact reads a version of an artifact, or a part of it.
	ReadArtifact struct {
		Artifact string
		Version  int64 // default the newest
		Part     int   // from 1; default the whole
	}

	// PutArtifact puts a version of an artifact.
	PutArtifact struct {
		Artifact string `json:"artifact,omitempty"`
		Parent   int64  `json:"parent_version"` // the version that was changed; 0 for a new artifact
		Content
		Note        string          `json:"note,omitempty"`
		Sensitivity hub.Sensitivity `json:"sensitivity,omitempty"` // default that of the artifact
		Of          Digests         `json:"of,omitempty"`          // of the version that was changed
	}

	// Merge puts the merge of the newest version and one beside it.
	Merge struct {
		Artifact string `json:"artifact,omitempty"`
		Content
		Note    string  `json:"note,omitempty"`
		Of      Digests `json:"of,omitempty"`      // of the merged versions
		Parents []int64 `json:"parents,omitempty"` // default the newest and the only one beside it
	}

	// SignMerge signs the merge of an artifact of high sensitivity.
	SignMerge struct {
		Artifact string `json:"artifact,omitempty"`
	}
)

// A Content is the content of a version: given as text, or stored before and named by its
// hash.
type Content struct {
	Text     *string `json:"content,omitempty"`
	Encoding string  `json:"encoding,omitempty"` // of Text: utf-8, the default, or base64
	SHA256   string  `json:"sha256,omitempty"`
}

// Text returns a text as content.
func Text(s string) Content { return Content{Text: &s} }

// Given reports whether there is a content.
func (c Content) Given() bool { return c.Text != nil || c.SHA256 != "" }

// MarshalJSON adds the member that tells a signature from a merge.
func (r SignMerge) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Artifact string `json:"artifact,omitempty"`
		SignOff  bool   `json:"sign_off"`
	}{r.Artifact, true})
}

func (Create) action() string        { return "create" }
func (Show) action() string          { return "show" }
func (Move) action() string          { return "status" }
func (Close) action() string         { return "close" }
func (Archive) action() string       { return "archive" }
func (AddMember) action() string     { return "add" }
func (RemoveMember) action() string  { return "remove" }
func (ChangeRole) action() string    { return "role" }
func (AnswerRole) action() string    { return "role" }
func (CreateTask) action() string    { return "task" }
func (ReadTask) action() string      { return "task" }
func (ChangeTask) action() string    { return "task" }
func (MoveTask) action() string      { return "task" }
func (Decide) action() string        { return "decide" }
func (ListDecisions) action() string { return "decisions" }
func (ListArtifacts) action() string { return "artifact" }
func (ListVersions) action() string  { return "artifact" }
func (ReadArtifact) action() string  { return "artifact" }
func (PutArtifact) action() string   { return "artifact" }
func (Merge) action() string         { return "merge" }
func (SignMerge) action() string     { return "merge" }

// Gateable lists the actions that the policy of a team can gate.
var Gateable = []string{"add", "archive", "artifact", "close", "decide", "merge", "remove", "role", "status", "task"}

// Changes reports whether a request changes something.
func Changes(r Request) bool {
	switch r.(type) {
	case Show, ReadTask, ListDecisions, ListArtifacts, ListVersions, ReadArtifact:
		return false
	}
	return true
}

// A call is a request under way.
type call struct {
	actor    hub.Caller
	team     hub.TeamID
	action   string
	via      string      // the action of the caller, if it is another: status for close
	approval *heldChange // set while a held operation is performed
}

// as returns the call under the word of another request that does the same.
func (c call) as(r Request) call {
	c.via = c.action
	c.action = r.action()
	return c
}

// Perform performs a request on a team. An operation that the policy of the team gates is
// stored, and the answer has the status held.
func (s *Service) Perform(ctx context.Context, actor hub.Caller, id hub.TeamID, r Request) (Answer, error) {
	return s.perform(ctx, call{actor: actor, team: id, action: r.action()}, r)
}

func (s *Service) perform(ctx context.Context, c call, r Request) (Answer, error) {
	const op = "acp/team"
	if !c.team.Valid() {
		return Answer{}, hub.Errorf(hub.CodeInvalid, op, "team name %q is not valid", c.team).WithHint("use lower-case letters, digits and . _ -, at most 64")
	}
	if Changes(r) && c.actor.Paused {
		return Answer{}, hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot change a team", c.actor.ID).WithHint("to end the pause, {agent.resume} %s", c.actor.ID)
	}

	out, err := r.perform(ctx, s, c)
	if errors.Is(err, errHeld) {
		return s.hold(ctx, c, r)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("team: %s: %w", r.action(), err)
	}
	return out, nil
}

// TeamOf returns the team of a task.
func (s *Service) TeamOf(ctx context.Context, id hub.TaskID) (hub.TeamID, error) {
	t, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.Task, error) { return rd.Teamspaces().Task(id) })
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", hub.Errorf(hub.CodeNotFound, "acp/team", "no task with id %s that you can see", id)
	}
	return t.Team, err
}
