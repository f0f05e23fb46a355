package team

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// begin returns a change of a team for another service, inside its transaction.
func (s *Service) begin(tx hub.Tx, op string, actor hub.Caller, id hub.TeamID) (*change, error) {
	t, err := tx.Teamspaces().Team(id)
	if err == nil && t.ReadOnly() {
		err = hub.Errorf(hub.CodeConflict, op, "team %s is %s and cannot be changed", id, t.Lifecycle)
	}
	return &change{s: s, tx: tx, op: op, actor: actor, now: s.clock.Now(), team: t}, err
}

// ungated refuses the offer of an agent in a team whose tasks wait for the operator.
func ungated(op string, t hub.Team, by hub.AgentID) error {
	if !gated(t, by, "task") {
		return nil
	}
	return hub.Errorf(hub.CodePolicy, op, "the operator must approve tasks of team %s, so they cannot be offered", t.ID).WithHint("propose the task with its owner: {team.task} %s", t.ID)
}

// Offerable refuses an offer of a task in a team whose sender may not create tasks
// there, or not without the operator, or which one of those asked may not accept.
func (s *Service) Offerable(r hub.Reader, id hub.TeamID, from hub.AgentID, asked []hub.AgentID) error {
	const op = "team.Offerable"
	t, err := r.Teamspaces().Team(id)
	if err != nil {
		return err
	}
	if t.ReadOnly() {
		return hub.Errorf(hub.CodeConflict, op, "team %s is %s", id, t.Lifecycle)
	}

	// The operator needs no role in the team.
	if from != hub.Operator {
		role, err := roleOf(r, id, from)
		if err != nil {
			return err
		}
		if !t.May(role, hub.MayCreateTask, hub.ClassNormal) {
			return refusal(op, t, from, role, hub.MayCreateTask, hub.ClassNormal)
		}
	}
	if err := ungated(op, t, from); err != nil {
		return err
	}

	var unable []hub.AgentID
	for _, agent := range asked {
		role, err := roleOf(r, id, agent)
		if err != nil {
			return err
		}
		if !t.May(role, hub.MayAcceptTask, hub.ClassNormal) {
			unable = append(unable, agent)
		}
	}

	if len(unable) > 0 {
		return hub.Errorf(hub.CodeDenied, op, "%s cannot accept an execution task in team %s", joined(unable), id).
			WithHint("these roles can: %s (%s)", joined(t.RolesFor(hub.MayAcceptTask, hub.ClassNormal)), hub.MayAcceptTask)
	}
	return nil
}

// Agreed makes the task of an accepted offer, inside the transaction that accepts it.
// The caller announces the messages after the commit.
func (s *Service) Agreed(tx hub.Tx, actor hub.Caller, d hub.Deliberation) (hub.Task, []hub.Message, error) {
	c, err := s.begin(tx, "team.Agreed", actor, hub.TeamID(d.Team))
	if err != nil {
		return hub.Task{}, nil, err
	}
	if err := ungated(c.op, c.team, d.From); err != nil {
		return hub.Task{}, nil, err
	}
	t := hub.Task{
		Team: c.team.ID, Title: cut(d.Title, maxTitle), Class: hub.ClassNormal, State: hub.TaskAssigned, Owner: d.ClaimedBy, Offer: d.ID, CreatedBy: d.From, CreatedAt: c.now,
	}
	first, err := tx.Message(d.First)
	if err != nil {
		return t, nil, err
	}
	if first.Context != nil {
		t.ExternalRefs = first.Context.ExternalRefs
	}
	if err := c.enqueue(&t); err != nil {
		return t, nil, err
	}
	if err := c.putTask(&t); err != nil {
		return t, nil, err
	}
	err = c.tell([]hub.AgentID{d.From, d.ClaimedBy}, hub.TypeStatusUpdate, map[string]any{
		"summary": cut(fmt.Sprintf("%s belongs to %s: %s", t.ID, t.Owner, t.Title), 270), "task_id": t.ID, "state": t.State, "offer_id": d.ID,
	})
	return t, c.posted, err
}

// Handable refuses a handoff into a team unless both sides are members, its task is on
// the board, and the sender has the task or may assign it. It reports whether the handoff
// waits for the operator, because the tasks of the team do.
func (s *Service) Handable(r hub.Reader, h hub.Handoff) (waits bool, err error) {
	const op = "team.Handable"
	t, err := r.Teamspaces().Team(h.Team)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return false, hub.Errorf(hub.CodeNotFound, op, "no team named %q that you can see", h.Team).WithHint("to list your teams: {team.list}")
	}
	if err != nil {
		return false, err
	}

	// A sender outside the team gets the same answer as for an unknown team.
	from, err := roleOf(r, h.Team, h.From)
	if err != nil {
		return false, err
	}
	if from == "" && h.From != hub.Operator {
		return false, hub.Errorf(hub.CodeNotFound, op, "no team named %q that you can see", h.Team).WithHint("to list your teams: {team.list}")
	}

	to, err := roleOf(r, h.Team, h.To)
	if err != nil {
		return false, err
	}
	task, err := taskOf(r, op, h.Team, hub.TaskID(h.TaskID))
	switch {
	case err != nil:
		return false, err
	case t.ReadOnly():
		return false, hub.Errorf(hub.CodeConflict, op, "team %s is %s", t.ID, t.Lifecycle)
	case to == "":
		return false, hub.Errorf(hub.CodePolicy, op, "%s is not a member of team %s", h.To, t.ID)
	case !t.May(to, hub.MayAcceptTask, task.Class):
		return false, refusal(op, t, h.To, to, hub.MayAcceptTask, task.Class)
	case task.State.Over():
		return false, hub.Errorf(hub.CodeConflict, op, "task %s is already %s", task.ID, task.State)
	case task.Owner != h.From && h.From != hub.Operator && !t.May(from, hub.MayAssign, task.Class):
		return false, refusal(op, t, h.From, from, hub.MayAssign, task.Class)
	}
	return gated(t, h.From, "task"), nil
}

// Approvable refuses an actor that may not approve a handoff into its team: its sender,
// its receiver, and members whose role does not permit it.
func (s *Service) Approvable(r hub.Reader, actor hub.Caller, h hub.Handoff) error {
	const op = "handoff.ApproveTeam"
	t, role, err := visible(r, op, actor, h.Team)
	if err != nil {
		return err
	}
	task, err := taskOf(r, op, h.Team, hub.TaskID(h.TaskID))
	switch {
	case err != nil:
		return err
	case h.Concerns(actor.ID):
		return hub.Errorf(hub.CodeDenied, op, "%s takes part in handoff %s and cannot approve it", actor.ID, h.ID)
	case actor.IsOperator() || t.May(role, hub.MayApproveHandoff, task.Class):
		return nil
	}
	return refusal(op, t, actor.ID, role, hub.MayApproveHandoff, task.Class)
}

// Succeeds reports whether the policy of a team names the receiver of a handoff into it as a
// successor.
func (s *Service) Succeeds(r hub.Reader, h hub.Handoff) (bool, error) {
	t, err := r.Teamspaces().Team(h.Team)
	return slices.Contains(t.Policy.Successors, h.To), err
}

// Approvers returns the members that may approve a handoff into their team.
func (s *Service) Approvers(r hub.Reader, h hub.Handoff) ([]hub.AgentID, error) {
	team, err := r.Teamspaces().Team(h.Team)
	if err != nil {
		return nil, err
	}
	t, err := taskOf(r, "team.Approvers", h.Team, hub.TaskID(h.TaskID))
	if err != nil {
		return nil, err
	}
	all, err := roster(r, h.Team)
	if err != nil {
		return nil, err
	}
	var able []hub.AgentID
	for _, m := range all {
		if !h.Concerns(m.Agent) && team.May(m.Role, hub.MayApproveHandoff, t.Class) {
			able = append(able, m.Agent)
		}
	}
	return able, nil
}

// Ask asks the members that may approve a handoff into their team, and the operator, to
// approve it, inside the transaction that proposes it. The caller announces the messages
// after the commit.
func (s *Service) Ask(tx hub.Tx, actor hub.Caller, h hub.Handoff) ([]hub.Message, error) {
	c, err := s.begin(tx, "handoff.Propose", actor, h.Team)
	if err != nil {
		return nil, err
	}
	t, err := taskOf(tx, c.op, h.Team, hub.TaskID(h.TaskID))
	if err != nil {
		return nil, err
	}
	able, err := s.Approvers(tx, h)
	if err != nil {
		return nil, err
	}
	short, err := tx.ShortID(string(h.ID))
	if err != nil {
		return nil, err
	}
	id := cmp.Or(string(short), string(h.ID))

	// Approvers are told the tool and the command, the operator only the command.
	ask := func(to []hub.AgentID, how string) error {
		summary := fmt.Sprintf("handoff %s of %s from %s to %s waits for your approval: %s", id, t.ID, h.From, h.To, t.Title)
		return c.tellIn(h.ThreadID, to, hub.TypeStatusBlocked, map[string]any{"summary": cut(summary, 270), "reason": how, "handoff_id": h.ID, "blockers": []string{"approval"}})
	}
	if err := ask(able, fmt.Sprintf("acp_handoff with action approve and handoff_id %[1]s, or parley approve %[1]s", id)); err != nil {
		return nil, err
	}
	if !h.NeedsHuman && !h.Concerns(hub.Operator) { // else the operator is asked anyway
		err = ask([]hub.AgentID{hub.Operator}, fmt.Sprintf("parley approve %[1]s, or parley deny %[1]s", id))
	}
	return c.posted, err
}

// Taken gives the task of a handoff to its receiver, in progress, inside the transaction
// that accepts the handoff. The caller announces the messages after the commit.
func (s *Service) Taken(tx hub.Tx, actor hub.Caller, h hub.Handoff) ([]hub.Message, error) {
	c, err := s.begin(tx, "handoff.Accept", actor, h.Team)
	if err != nil {
		return nil, err
	}
	t, err := taskOf(tx, c.op, h.Team, hub.TaskID(h.TaskID))
	if err != nil {
		return nil, err
	}

	// The team may have got its gate after the handoff was proposed.
	if h.ApprovedAt.IsZero() && gated(c.team, h.From, "task") {
		return nil, hub.Errorf(hub.CodePolicy, c.op, "the operator must approve tasks of team %s and has not approved handoff %s", c.team.ID, h.ID).WithHint("ask its sender to propose it again, so the operator is asked")
	}

	was := t.State
	t.Owner = h.To
	if err := c.mayRun(t); err != nil {
		return nil, err
	}
	if t, err = t.Advance(hub.TaskInProgress, c.now); err != nil {
		return nil, err
	}

	// The reviewer of a guarded task cannot be its owner.
	if t.Class.Guarded() && t.Reviewer == t.Owner {
		t.Reviewer = ""
	}

	t.Handoff = h.ID
	if err := c.enqueue(&t); err != nil {
		return nil, err
	}
	if err := c.putTask(&t); err != nil {
		return nil, err
	}
	err = c.tellMove(t, was)
	return c.posted, err
}

// Ended moves the task of a handoff that has ended: one that is done goes to review, or is
// done if it is normal and the team has no reviewer; one that the operator released goes
// back to the backlog. In a team whose tasks wait for the operator, the move to review
// does. The caller announces the messages after the commit.
func (s *Service) Ended(tx hub.Tx, actor hub.Caller, h hub.Handoff) ([]hub.Message, error) {
	c, err := s.begin(tx, "handoff.Complete", actor, h.Team)
	if hub.CodeOf(err) == hub.CodeConflict {
		return nil, nil // the team is closed: the handoff ends without it
	}
	if err != nil {
		return nil, err
	}
	t, err := taskOf(tx, c.op, h.Team, hub.TaskID(h.TaskID))
	if err != nil {
		return nil, err
	}
	if t.Handoff != h.ID || t.State.Over() {
		return nil, nil // it has another owner by now
	}

	was, next := t.State, hub.TaskBacklog
	switch {
	case h.Ending == hub.EndedHandedOn:
		return nil, nil // it stays with its owner until the next one accepts
	case h.Ending == hub.EndedDone && was != hub.TaskInProgress:
		return nil, nil // it is blocked, or was moved by hand
	case h.Ending == hub.EndedDone && gated(c.team, actor.ID, "task"):
		_, err := c.hold(MoveTask{Task: t.ID, State: hub.TaskInReview})
		return c.posted, err
	case h.Ending == hub.EndedDone:
		all, err := roster(tx, h.Team)
		if err != nil {
			return nil, err
		}
		// A normal task of a team without a reviewer needs no review.
		if next = hub.TaskInReview; t.Class == hub.ClassNormal && len(with(all, hub.RoleReviewer)) == 0 {
			next = hub.TaskDone
		}
	}

	if t, err = t.Advance(next, c.now); err != nil {
		return nil, err
	}
	if err := c.putTask(&t); err != nil {
		return nil, err
	}
	err = c.tellMove(t, was)
	return c.posted, err
}

// Returned moves the task of a handoff that is active again, because its work was returned: the
// task goes through rework back into progress, inside tx. The caller announces the messages after
// the commit.
func (s *Service) Returned(tx hub.Tx, actor hub.Caller, h hub.Handoff, reason string) ([]hub.Message, error) {
	t, err := tx.Teamspaces().Task(hub.TaskID(h.TaskID))
	if err != nil || t.Handoff != h.ID {
		return nil, ignoreMissing(err) // it has another owner by now
	}
	if t.State != hub.TaskInReview && t.State != hub.TaskDone {
		return nil, nil
	}
	c, err := s.begin(tx, "handoff.Return", actor, h.Team)
	if hub.CodeOf(err) == hub.CodeConflict {
		return nil, nil // the team is closed: the handoff goes on without it
	}
	if err != nil {
		return nil, err
	}
	if t, err = c.rework(t, reason); err != nil {
		return nil, err
	}
	if t, err = t.Advance(hub.TaskInProgress, c.now); err != nil {
		return nil, err
	}
	err = c.putTask(&t)
	return c.posted, err
}

// Return sends a task that is done to rework, because a landing queue returned its work, inside
// tx. It reports whether the owner of the task has to work on it. The caller tells the owner, and
// announces the messages after the commit.
func (s *Service) Return(tx hub.Tx, id hub.TaskID, reason string) (active bool, posted []hub.Message, err error) {
	t, err := tx.Teamspaces().Task(id)
	if err != nil || t.State != hub.TaskDone {
		return err == nil && !t.State.Over(), nil, ignoreMissing(err)
	}
	c, err := s.begin(tx, "team.Return", hub.Caller{ID: hub.Self}, t.Team)
	if hub.CodeOf(err) == hub.CodeConflict {
		return false, nil, nil // the team is closed
	}
	if err != nil {
		return false, nil, err
	}
	_, err = c.rework(t, reason)
	return err == nil, c.posted, err
}

// Readable returns a task of a team that the actor may see.
func (s *Service) Readable(r hub.Reader, actor hub.Caller, id hub.TaskID) (hub.Task, error) {
	const op = "team.task"
	missing := hub.Errorf(hub.CodeNotFound, op, "no task %.50q of a team that you can see", id).WithHint("to list your teams: {team.list}")
	t, err := r.Teamspaces().Task(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return t, missing
	}
	if err != nil || actor.ID == hub.Self {
		return t, err
	}
	if _, _, err := visible(r, op, actor, t.Team); err != nil {
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = missing
		}
		return hub.Task{}, err
	}
	return t, nil
}

// rework sends a task to rework for a reason.
func (c *change) rework(t hub.Task, reason string) (hub.Task, error) {
	t, err := t.Advance(hub.TaskRework, c.now)
	if err != nil {
		return t, err
	}
	t.Reason = cut(reason, 500)
	err = c.putTask(&t)
	return t, err
}

func ignoreMissing(err error) error {
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil
	}
	return err
}
