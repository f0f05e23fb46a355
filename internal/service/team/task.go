package team

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	maxTitle  = 200 // bytes
	maxDepend = 50  // dependencies of a task
	maxRefs   = 20
)

func (r CreateTask) perform(ctx context.Context, s *Service, in call) (Answer, error) {
	if err := s.checkAsked(ctx, "team.task", r); err != nil {
		return Answer{}, err
	}
	begun := s.beginWork(ctx, r.Owner, r.Worktree)
	return s.updateTask(ctx, in, func(c *change) (hub.Task, error) {
		t, err := c.newTask(r)
		if err != nil {
			return t, err
		}
		return t, c.putBeginning(t.ID, begun)
	})
}

func (r ReadTask) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.task"
	if err := checkTaskID(op, r.Task); err != nil {
		return out, err
	}
	return out, s.store.View(ctx, func(rd hub.Reader) error {
		if _, _, err := visible(rd, op, in.actor, in.team); err != nil {
			return err
		}
		t, err := taskOf(rd, op, in.team, r.Task)
		out.Task = &t
		return err
	})
}

func (r ChangeTask) perform(ctx context.Context, s *Service, in call) (Answer, error) {
	if err := checkTaskID("team.task", r.Task); err != nil {
		return Answer{}, err
	}
	var begun beginning
	if r.Owner != "" {
		begun = s.beginAgain(ctx, in, r.Task, r.Owner)
	}
	return s.updateTask(ctx, in, func(c *change) (hub.Task, error) {
		t, err := taskOf(c.tx, c.op, c.team.ID, r.Task)
		if err != nil {
			return t, err
		}
		if t, err = c.changeTask(t, r); err != nil {
			return t, err
		}
		return t, c.putBeginning(t.ID, begun)
	})
}

func (r MoveTask) perform(ctx context.Context, s *Service, in call) (Answer, error) {
	const op = "team.task"
	if err := checkTaskID(op, r.Task); err != nil {
		return Answer{}, err
	}
	if !slices.Contains(hub.TaskStates, r.State) {
		return Answer{}, hub.Errorf(hub.CodeInvalid, op, "unknown task state %q", r.State).WithHint("use %s", joined(hub.TaskStates))
	}
	note, err := s.checkWork(ctx, op, in, r)
	if err != nil {
		return Answer{}, err
	}
	progress, results, err := s.checkSubmitted(ctx, op, in, r)
	if err != nil {
		return Answer{}, err
	}
	var begun beginning
	if r.State == hub.TaskInProgress {
		begun = s.beginAgain(ctx, in, r.Task, "")
	}
	out, err := s.updateTask(ctx, in, func(c *change) (hub.Task, error) {
		t, err := taskOf(c.tx, c.op, c.team.ID, r.Task)
		if err != nil {
			return t, err
		}
		if t, err = c.moveTask(t, r.State, r.Reason); err != nil {
			return t, err
		}
		return t, c.putBeginning(t.ID, begun)
	})
	if err == nil && note != "" {
		out.Warnings = append(out.Warnings, note)
	}
	if err == nil && len(results) > 0 {
		out.Checks = progress.Checks
		out.Stage = hub.StageOf(hub.ProofVerified, progress.Checks, progress.Review, progress.Landing)
		out.Results = results
	}
	if err == nil && out.Task.State == hub.TaskInProgress {
		out.Reserved, out.Warnings = s.reserve(ctx, in.actor, *out.Task)
	}
	return out, err
}

// updateTask runs fn in one transaction and answers with the task that it returns.
func (s *Service) updateTask(ctx context.Context, in call, fn func(*change) (hub.Task, error)) (out Answer, err error) {
	return out, s.update(ctx, in, func(c *change) error {
		t, err := fn(c)
		out.Task = &t
		return err
	})
}

// checkTaskID refuses a text that is not the id of a task.
func checkTaskID(op string, id hub.TaskID) error {
	if !id.Valid() {
		return hub.Errorf(hub.CodeInvalid, op, "task id %q is not valid: use an id such as T-12", id)
	}
	return nil
}

// taskOf returns a task of a team.
func taskOf(r hub.Reader, op string, team hub.TeamID, id hub.TaskID) (hub.Task, error) {
	t, err := r.Teamspaces().Task(id)
	if hub.CodeOf(err) == hub.CodeNotFound || (err == nil && t.Team != team) {
		return hub.Task{}, hub.Errorf(hub.CodeNotFound, op, "team %s has no task %s", team, id).WithHint("to list its tasks: {team.show} %s", team)
	}
	return t, err
}

// newTask creates a task, and assigns it if the request names an owner.
func (c *change) newTask(r CreateTask) (t hub.Task, err error) {
	if r.Class == "" {
		r.Class = hub.ClassNormal
	}
	if err := checkText(c.op, "title", r.Title, maxTitle); err != nil {
		return t, err
	}

	switch {
	case !slices.Contains(hub.TaskClasses, r.Class):
		return t, hub.Errorf(hub.CodeInvalid, c.op, "unknown task class %q", r.Class).WithHint("use %s", joined(hub.TaskClasses))
	case len(r.ExternalRefs) > maxRefs:
		return t, hub.Errorf(hub.CodeTooLarge, c.op, "a task has at most %d external_refs, got %d", maxRefs, len(r.ExternalRefs))
	}
	for _, ref := range r.ExternalRefs {
		if !slices.Contains(hub.ExternalRefTypes, ref.Type) || strings.TrimSpace(ref.Value) == "" || len(ref.Value) > 1000 {
			return t, hub.Errorf(hub.CodeInvalid, c.op, "external_refs: %s %q is not valid", ref.Type, cut(ref.Value, 50)).WithHint("the types are %s", joined(hub.ExternalRefTypes))
		}
	}

	if err := checkScope(c.op, r); err != nil {
		return t, err
	}
	if err := c.allow(hub.MayCreateTask, r.Class); err != nil {
		return t, err
	}

	t = hub.Task{
		Worktree: r.Worktree, Scope: r.Scope, Checks: r.Checks,
		Team: c.team.ID, Title: r.Title, Class: r.Class, State: hub.TaskBacklog, ExternalRefs: r.ExternalRefs, Queue: hub.QueueNone, CreatedBy: c.actor.ID, CreatedAt: c.now, UpdatedAt: c.now,
	}
	if t, err = c.depend(t, r.DependsOn); err != nil {
		return t, err
	}
	if err := c.putTask(&t); err != nil {
		return t, err
	}

	// Assigning an owner or a reviewer is a right of its own, which changeTask checks.
	if r.Owner == "" && r.Reviewer == "" {
		return t, nil
	}
	return c.changeTask(t, ChangeTask{Owner: r.Owner, Reviewer: r.Reviewer})
}

// putTask stores a task with its journal entry. Files that were reserved for it become free if
// its owner does not work on it any more.
func (c *change) putTask(t *hub.Task) (err error) {
	t.UpdatedAt = c.now
	if err := c.freeFiles(*t); err != nil {
		return err
	}
	if t.ID, err = c.tx.WriteTeamspaces().PutTask(*t); err != nil {
		return err
	}
	t.Revision++
	if err := c.noteQueue(*t); err != nil {
		return err
	}
	facts := map[string]any{"task_id": t.ID, "state": t.State, "class": t.Class, "sha256": t.Digest()}
	if t.Owner != "" {
		facts["owner"] = t.Owner
	}
	if t.State == hub.TaskBlocked {
		facts["reason"] = t.Reason
	}
	return c.record(actions.TeamTask, facts)
}

// depend replaces the dependencies of a task. They are tasks of the same team, and no
// chain of them leads back to the task.
func (c *change) depend(t hub.Task, on []hub.TaskID) (hub.Task, error) {
	if len(on) > maxDepend {
		return t, hub.Errorf(hub.CodeTooLarge, c.op, "a task depends on at most %d tasks, got %d", maxDepend, len(on))
	}

	t.DependsOn = nil
	for _, id := range on {
		if !id.Valid() || slices.Contains(t.DependsOn, id) {
			return t, hub.Errorf(hub.CodeInvalid, c.op, "depends_on: %q is not a task id, or appears twice", id)
		}
		t.DependsOn = append(t.DependsOn, id)
	}

	// The walk visits each task that t depends on, directly or not, once.
	seen, todo := map[hub.TaskID]bool{}, slices.Clone(t.DependsOn)
	for len(todo) > 0 {
		id := todo[0]
		if todo = todo[1:]; seen[id] {
			continue
		}
		seen[id] = true
		if id == t.ID {
			return t, hub.Errorf(hub.CodeConflict, c.op, "depends_on: task %s would wait for itself", t.ID)
		}
		d, err := taskOf(c.tx, c.op, c.team.ID, id)
		if err != nil {
			return t, err
		}
		todo = append(todo, d.DependsOn...)
	}
	return t, nil
}

// changeTask replaces dependencies, and assigns owner and reviewer.
func (c *change) changeTask(t hub.Task, r ChangeTask) (_ hub.Task, err error) {
	if t.State.Over() {
		return t, hub.Errorf(hub.CodeConflict, c.op, "task %s is already %s", t.ID, t.State)
	}

	if r.DependsOn != nil {
		if err := c.allow(hub.MayCreateTask, t.Class); err != nil {
			return t, err
		}
		if t, err = c.depend(t, *r.DependsOn); err != nil {
			return t, err
		}
	}

	if r.Owner != "" || r.Reviewer != "" {
		if err := c.allow(hub.MayAssign, t.Class); err != nil {
			return t, err
		}
	}

	if r.Reviewer != "" {
		m, err := c.member(r.Reviewer)
		if err != nil {
			return t, err
		}
		t.Reviewer = m.Agent
		if !slices.Contains(finishers(c.team, t.Class), m.Role) {
			return t, hub.Errorf(hub.CodeDenied, c.op, "%s is %s in team %s and cannot review a task of class %s", m.Agent, m.Role, c.team.ID, t.Class).
				WithHint("these roles can: %s", joined(finishers(c.team, t.Class)))
		}
	}

	if r.Owner != "" {
		if t, err = c.own(t, r.Owner); err != nil {
			return t, err
		}
	}

	// A guarded task is reviewed by an agent that has never worked on it.
	reviewsOwnWork := t.Reviewer != "" && (t.Reviewer == t.Owner || slices.Contains(t.Executors, t.Reviewer))
	if t.Class.Guarded() && reviewsOwnWork {
		return t, hub.Errorf(hub.CodePolicy, c.op, "task %s is %s: %s works on it and cannot review it", t.ID, t.Class, t.Reviewer).WithHint("name another reviewer")
	}

	if err := c.putTask(&t); err != nil || r.Owner == "" {
		return t, err
	}
	return t, c.tell([]hub.AgentID{t.Owner}, hub.TypeStatusUpdate, map[string]any{
		"summary": cut(fmt.Sprintf("%s is yours: %s", t.ID, t.Title), 270), "task_id": t.ID, "class": t.Class, "state": t.State,
	})
}

// own gives a task to a member that may accept it. It is assigned then.
func (c *change) own(t hub.Task, owner hub.AgentID) (hub.Task, error) {
	m, err := c.member(owner)
	if err != nil {
		return t, err
	}
	if !c.team.May(m.Role, hub.MayAcceptTask, t.Class) {
		return t, refusal(c.op, c.team, m.Agent, m.Role, hub.MayAcceptTask, t.Class)
	}
	was := t.State
	if t, err = t.Advance(hub.TaskAssigned, c.now); err != nil {
		return t, hub.Errorf(hub.CodeConflict, c.op, "task %s is %s and cannot be assigned", t.ID, was)
	}
	t.Owner, t.Handoff = owner, ""
	return t, c.enqueue(&t)
}

// finishers returns the roles that finish a task of a class or send it to rework.
func finishers(t hub.Team, class hub.TaskClass) []hub.Role {
	switch class {
	case hub.ClassMerge:
		return []hub.Role{hub.RoleIntegrator}
	case hub.ClassGuarded:
		return []hub.Role{hub.RoleCoordinator, hub.RoleReviewer}
	case hub.ClassHighRisk:
		return t.RolesFor(hub.MayFinishHighRisk, class)
	}
	return []hub.Role{hub.RoleCoordinator, hub.RoleReviewer, hub.RoleIntegrator}
}

// moveTask moves a task for the actor.
func (c *change) moveTask(t hub.Task, next hub.TaskState, reason string) (hub.Task, error) {
	was := t.State
	if was.Over() { // only a landing queue returns a task that is done
		return t, hub.Errorf(hub.CodeConflict, c.op, "task %s is %s and cannot become %s", t.ID, was, next).WithHint("it is final")
	}
	moved, err := t.Advance(next, c.now)
	if err != nil {
		return t, err
	}
	if err := c.mayMove(t, next); err != nil {
		return t, err
	}

	// A blocked task has a reason from a fixed list, a returned or dropped one a free text.
	switch next {
	case hub.TaskBlocked:
		if !slices.Contains(hub.BlockReasons, reason) {
			return t, hub.Errorf(hub.CodeInvalid, c.op, "unknown reason %q to block a task", reason).WithHint("use %s", joined(hub.BlockReasons))
		}
		moved.Reason = reason
	case hub.TaskRework, hub.TaskBacklog, hub.TaskDropped:
		if err := checkText(c.op, "reason", reason, 500); err != nil {
			return t, err
		}
		moved.Reason = reason
	case hub.TaskInReview: // why nothing was to be done
		if reason != "" {
			if err := checkText(c.op, "reason", reason, 500); err != nil {
				return t, err
			}
		}
		moved.Reason = reason
	case hub.TaskInProgress:
		if err := c.mayRun(t); err != nil {
			return t, err
		}
	}

	if err := c.putTask(&moved); err != nil {
		return t, err
	}
	return moved, c.tellMove(moved, was)
}

// mayMove refuses an actor that may not move a task to a state.
func (c *change) mayMove(t hub.Task, next hub.TaskState) error {
	owner := c.actor.ID == t.Owner || c.actor.IsOperator()
	switch {
	case t.State == hub.TaskBlocked && next == t.Was: // unblocked
		if owner {
			return nil
		}
		return c.allow(hub.MayBlock, t.Class)

	// Only the owner and the operator start or submit a task.
	case next == hub.TaskInProgress, next == hub.TaskInReview:
		if t.Owner == "" || (t.State == hub.TaskInProgress && next == hub.TaskInProgress) {
			return hub.Errorf(hub.CodeConflict, c.op, "task %s is %s and cannot become %s", t.ID, t.State, next).WithHint("assign it first")
		}
		if !owner {
			return hub.Errorf(hub.CodeDenied, c.op, "%[3]s does not own task %[1]s and cannot move it to %[4]s; %[2]s does", t.ID, t.Owner, c.actor.ID, next).WithHint("only the owner starts, submits and reworks a task")
		}
		return nil

	case next == hub.TaskBlocked:
		if err := c.allow(hub.MayBlock, t.Class); err != nil {
			if c.actor.ID == t.Owner {
				return hub.Errorf(hub.CodeDenied, c.op, "%v", err).WithHint("report what blocks you to the coordinators of the team: {status.blocked}")
			}
			return err
		}
		return nil

	case next == hub.TaskDone, next == hub.TaskRework:
		return c.mayFinish(t, next)
	case next == hub.TaskDropped:
		return c.leads("drop a task")
	case next == hub.TaskAssigned:
		return hub.Errorf(hub.CodeInvalid, c.op, "a task is assigned by naming its owner").WithHint("give owner instead of state")
	}
	return c.allow(hub.MayAssign, t.Class) // back to the backlog
}

// mayFinish refuses an actor that may not finish a task or send it to rework.
func (c *change) mayFinish(t hub.Task, next hub.TaskState) error {
	if next == hub.TaskDone && t.State != hub.TaskInReview {
		return hub.Errorf(hub.CodeConflict, c.op, "task %s is %s and cannot become done", t.ID, t.State).WithHint("its owner must submit it for review first: state in_review")
	}
	if c.actor.IsOperator() {
		return nil
	}
	roles := finishers(c.team, t.Class)
	if !slices.Contains(roles, c.role) {
		if t.Class == hub.ClassHighRisk {
			return c.allow(hub.MayFinishHighRisk, t.Class)
		}
		return hub.Errorf(hub.CodeDenied, c.op, "%s is %s and cannot finish a task of class %s or send it to rework", c.actor.ID, roleIn(c.role, c.team.ID), t.Class).
			WithHint("these roles can: %s", joined(roles))
	}
	if t.Class.Guarded() && slices.Contains(t.Executors, c.actor.ID) {
		return hub.Errorf(hub.CodePolicy, c.op, "task %s is %s: %s worked on it and cannot review it", t.ID, t.Class, c.actor.ID).WithHint("ask another agent with one of these roles: %s", joined(roles))
	}
	return nil
}

// mayRun refuses a task that cannot be in progress now.
func (c *change) mayRun(t hub.Task) error {
	if c.team.Lifecycle == hub.TeamForming {
		return hub.Errorf(hub.CodeConflict, c.op, "team %s is forming: its tasks cannot be started yet", c.team.ID).WithHint("ask a coordinator to make it active: {team.status} %s active", c.team.ID)
	}
	role, err := roleOf(c.tx, c.team.ID, t.Owner)
	if err != nil {
		return err
	}
	if !c.team.May(role, hub.MayAcceptTask, t.Class) {
		return refusal(c.op, c.team, t.Owner, role, hub.MayAcceptTask, t.Class)
	}
	for _, id := range t.DependsOn {
		d, err := c.tx.Teamspaces().Task(id)
		if err != nil {
			return err
		}
		if !d.State.Over() {
			return hub.Errorf(hub.CodeConflict, c.op, "task %s waits for %s, which is %s", t.ID, d.ID, d.State)
		}
	}
	n, err := c.tx.Teamspaces().CountTasks(c.team.ID)
	if t.State == hub.TaskInProgress {
		n[t.State]-- // it has its place
	}
	if err == nil && n[hub.TaskInProgress] >= c.team.Policy.MaxParallelTasks {
		return hub.Errorf(hub.CodeConflict, c.op, "team %[2]s reached its limit of %[1]d tasks in progress", n[hub.TaskInProgress], c.team.ID).WithHint("finish or block one first")
	}
	return err
}

// tellMove tells those who act next that a task has moved.
func (c *change) tellMove(t hub.Task, was hub.TaskState) error {
	var to []hub.AgentID
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return err
	}
	kind := hub.TypeStatusUpdate
	payload := map[string]any{"task_id": t.ID, "state": t.State, "was": was, "summary": cut(fmt.Sprintf("%s is %s: %s", t.ID, t.State, t.Title), 270)}
	switch t.State {
	case hub.TaskInReview:
		if to = []hub.AgentID{t.Reviewer}; t.Reviewer == "" {
			to = with(all, finishers(c.team, t.Class)...)
		}
	case hub.TaskRework, hub.TaskDone:
		to = []hub.AgentID{t.Owner}
	case hub.TaskDropped:
		to = []hub.AgentID{t.Owner}
	case hub.TaskBlocked:
		kind, to = hub.TypeStatusBlocked, append(with(all, hub.RoleCoordinator), t.Owner)
	case hub.TaskBacklog:
		to = with(all, hub.RoleCoordinator)
	default:
		to = append(with(all, hub.RoleCoordinator), t.Owner)
	}
	if t.Reason != "" {
		payload["reason"] = cut(t.Reason, 500)
	}
	return c.tell(to, kind, payload)
}
