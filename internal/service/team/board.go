package team

import (
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// begin returns a change of a team for another service, inside its transaction.
func (s *Service) begin(tx hub.Tx, op string, actor hub.Caller, id hub.TeamID) (*change, error) {
	t, err := tx.Team(id)
	if err == nil && t.ReadOnly() {
		err = hub.Errorf(hub.CodeConflict, op, "the team %s is %s: it can be read and not changed", id, t.Lifecycle)
	}
	return &change{s: s, tx: tx, op: op, actor: actor, now: s.clock.Now(), team: t}, err
}

// Offerable refuses an offer of a task in a team whose sender may not create tasks
// there, or which one of those asked may not accept.
func (s *Service) Offerable(r hub.Reader, id hub.TeamID, from hub.AgentID, asked []hub.AgentID) error {
	const op = "team.Offerable"
	t, err := r.Team(id)
	if err != nil {
		return err
	}
	if t.ReadOnly() {
		return hub.Errorf(hub.CodeConflict, op, "the team %s is %s", id, t.Lifecycle)
	}
	if from != hub.Operator {
		role, err := roleOf(r, id, from)
		if err != nil {
			return err
		}
		if !t.May(role, hub.MayCreateTask, hub.ClassNormal) {
			return refusal(op, t, from, role, hub.MayCreateTask, hub.ClassNormal)
		}
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
		return hub.Errorf(hub.CodeDenied, op, "%s may not accept an execution task in the team %s", joined(unable), id).
			WithHint("the matrix lets %s do it (%s)", joined(t.RolesFor(hub.MayAcceptTask, hub.ClassNormal)), hub.MayAcceptTask)
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
// the board, and the sender has the task or may assign it.
func (s *Service) Handable(r hub.Reader, h hub.Handoff) error {
	const op = "team.Handable"
	t, err := r.Team(h.Team)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Errorf(hub.CodeNotFound, op, "no team %q that you can see", h.Team).WithHint("{team.list} lists yours")
	}
	if err != nil {
		return err
	}
	from, err := roleOf(r, h.Team, h.From)
	if err != nil {
		return err
	}
	if from == "" && h.From != hub.Operator {
		return hub.Errorf(hub.CodeNotFound, op, "no team %q that you can see", h.Team).WithHint("{team.list} lists yours")
	}
	to, err := roleOf(r, h.Team, h.To)
	if err != nil {
		return err
	}
	task, err := taskOf(r, op, h.Team, hub.TaskID(h.TaskID))
	switch {
	case err != nil:
		return err
	case t.ReadOnly():
		return hub.Errorf(hub.CodeConflict, op, "the team %s is %s", t.ID, t.Lifecycle)
	case to == "":
		return hub.Errorf(hub.CodePolicy, op, "%s is no member of the team %s", h.To, t.ID)
	case !t.May(to, hub.MayAcceptTask, task.Class):
		return refusal(op, t, h.To, to, hub.MayAcceptTask, task.Class)
	case task.State.Over():
		return hub.Errorf(hub.CodeConflict, op, "the task %s is %s", task.ID, task.State)
	case task.Owner != h.From && h.From != hub.Operator && !t.May(from, hub.MayAssign, task.Class):
		return refusal(op, t, h.From, from, hub.MayAssign, task.Class)
	}
	return nil
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
		return hub.Errorf(hub.CodeDenied, op, "%s is a side of the handoff %s and cannot approve it", actor.ID, h.ID)
	case actor.IsOperator() || t.May(role, hub.MayApproveHandoff, task.Class):
		return nil
	}
	return refusal(op, t, actor.ID, role, hub.MayApproveHandoff, task.Class)
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
	was := t.State
	t.Owner = h.To
	if err := c.mayRun(t); err != nil {
		return nil, err
	}
	if t, err = t.Advance(hub.TaskInProgress, c.now); err != nil {
		return nil, err
	}
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
// back to the backlog. The caller announces the messages after the commit.
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
	case h.Ending == hub.EndedDone:
		all, err := roster(tx, h.Team)
		if err != nil {
			return nil, err
		}
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
