package continuation

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// runningTasks are the states in which the owner of a team's task works on it.
var runningTasks = []hub.TaskState{hub.TaskInProgress, hub.TaskRework}

// owned returns the work of an agent, of all agents if it is "": its active handoffs, and the tasks
// of teams that it works on without one. limit bounds each of the two.
func owned(rd hub.Reader, agent hub.AgentID, limit int) ([]hub.Handoff, error) {
	out, err := rd.Handoffs(hub.HandoffQuery{To: agent, States: []hub.HandoffState{hub.HandoffActivated}, Limit: limit})
	if err != nil {
		return nil, err
	}
	tasks, err := rd.Teamspaces().Tasks(hub.TaskQuery{Owner: agent, States: runningTasks, Limit: limit})
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		isHandedOver := slices.ContainsFunc(out, func(h hub.Handoff) bool { return h.Team == t.Team && h.TaskID == string(t.ID) && h.To == t.Owner })
		if t.Team != "" && !isHandedOver {
			out = append(out, asHandoff(t))
		}
	}
	return out, nil
}

// ownedWork returns the work of a handoff, or of a task of a team if the handoff is "". It reports
// CodeConflict if no agent owns it.
func ownedWork(rd hub.Reader, op string, id hub.HandoffID, task hub.TaskID) (hub.Handoff, error) {
	if id != "" {
		h, err := rd.Handoff(id)
		if err != nil || h.Status == hub.HandoffActivated {
			return h, err
		}
		isBack, err := cameBack(rd, h)
		if err == nil && !isBack {
			err = hub.Errorf(hub.CodeConflict, op, "%s is %s: only a task that an agent works on can be continued", id, h.Status)
		}
		return h, err
	}
	t, err := rd.Teamspaces().Task(task)
	switch {
	case err != nil:
		return hub.Handoff{}, err
	case t.Team == "" || t.Owner == "" || !slices.Contains(runningTasks, t.State):
		return hub.Handoff{}, hub.Errorf(hub.CodeConflict, op, "%s is %s: only a task that an agent works on can be continued", t.ID, t.State)
	}

	// A task that its owner got by a handoff goes on by that one.
	if t.Handoff != "" {
		h, err := rd.Handoff(t.Handoff)
		isOpen := err == nil && h.Status == hub.HandoffActivated && h.To == t.Owner
		if isOpen || (err != nil && hub.CodeOf(err) != hub.CodeNotFound) {
			return h, err
		}
	}
	return asHandoff(t), nil
}

// cameBack reports whether the task of a handoff that was handed on belongs to its owner again,
// because the next agent refused it.
func cameBack(rd hub.Reader, h hub.Handoff) (bool, error) {
	if h.Ending != hub.EndedHandedOn {
		return false, nil
	}
	active, err := rd.Handoffs(hub.HandoffQuery{Task: h.TaskID, States: hub.ActiveHandoffs, Limit: 1})
	if err != nil || len(active) > 0 {
		return false, err
	}
	owned, err := rd.Handoffs(hub.HandoffQuery{Task: h.TaskID, Owned: true, Limit: maxPage})
	last := slices.IndexFunc(owned, func(one hub.Handoff) bool { return one.Team == h.Team })
	return last >= 0 && owned[last].ID == h.ID, err
}

// asHandoff returns a task of a team as the handoff by which its owner could have got it. It has no
// id.
func asHandoff(t hub.Task) hub.Handoff {
	work := map[string]any{}
	pkg := map[string]any{
		"task":       map[string]any{"task_id": t.ID, "title": t.Title, "objective": t.Title, "success_criteria": []string{"the team accepts the task"}, "external_refs": t.ExternalRefs},
		"work_state": work,
	}
	if len(t.ExternalRefs) == 0 {
		delete(pkg["task"].(map[string]any), "external_refs")
	}
	if t.Worktree != "" {
		work["worktree_path"] = t.Worktree
		if len(t.Scope) > 0 {
			pkg["scope"] = t.Scope
		}
		if len(t.Checks) > 0 {
			pkg["checks"] = t.Checks
		}
	}
	raw, err := json.Marshal(pkg)
	if err != nil { // texts and lists of texts
		raw = []byte(`{}`)
	}
	return hub.Handoff{TaskID: string(t.ID), Title: t.Title, From: t.CreatedBy, To: t.Owner, Team: t.Team, Status: hub.HandoffActivated, AcceptedAt: t.StartedAt, Package: raw}
}

// newest returns the newest continuation of some work in one of some states, in any if none is
// given; nil if there is none.
func newest(rd hub.Reader, h hub.Handoff, states ...hub.ContinuationState) (*hub.Continuation, error) {
	q := hub.ContinuationQuery{Handoff: h.ID, States: states, Limit: 1}
	if h.ID == "" {
		q = hub.ContinuationQuery{Of: h.To, Task: h.TaskID, States: states, Limit: maxPage}
	}
	found, err := rd.Continuations().Continuations(q)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found, func(c hub.Continuation) bool { return c.Handoff == h.ID })
	if i < 0 {
		return nil, nil
	}
	return &found[i], nil
}

// settle ends the continuations that no agent took and whose task went on in another way: its owner
// ended it or handed it on, the operator released it, or a team gave it to another member.
func (s *Service) settle(ctx context.Context) {
	open, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.Continuation, error) {
		return rd.Continuations().Continuations(hub.ContinuationQuery{States: statesOn(goesOn), Limit: maxPage})
	})
	for _, c := range open {
		if err == nil {
			err = s.settleOne(ctx, c)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("continuations cannot be compared with their tasks", "op", "continuation.settle", "err", err)
	}
}

// settleOne ends a continuation whose task has another owner, or none any more.
func (s *Service) settleOne(ctx context.Context, c hub.Continuation) error {
	owner, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.AgentID, error) { return nextOwner(rd, c) })
	if err != nil || owner == "" {
		return err
	}
	return s.update(ctx, hub.Caller{ID: hub.Self}, func(x *change) error {
		stored, err := x.tx.Continuations().Continuation(c.ID)
		if err != nil || actOn(stored.State, goesOn) != takeTask {
			return err
		}
		owner, err := nextOwner(x.tx, stored)
		if err != nil || owner == "" {
			return err
		}
		_, err = x.take(stored, owner, s.o.Clock.Now())
		return err
	})
}

// nextOwner returns the agent with which a task went on that no agent took by its continuation:
// another one, or the same one if it ended the task. It returns "" as long as the task waits.
func nextOwner(rd hub.Reader, c hub.Continuation) (hub.AgentID, error) {
	if c.Handoff == "" {
		t, err := rd.Teamspaces().Task(hub.TaskID(c.Task))
		isOver := t.Owner != c.Of || !slices.Contains(runningTasks, t.State)
		if err != nil || !isOver {
			return "", err
		}
		return cmp.Or(t.Owner, c.Of), nil
	}

	h, err := rd.Handoff(c.Handoff)
	if err != nil {
		return "", err
	}
	active, err := rd.Handoffs(hub.HandoffQuery{Task: c.Task, States: hub.ActiveHandoffs, Limit: maxPage})
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(active, func(one hub.Handoff) bool { return one.Team == h.Team })
	switch {
	case i >= 0 && active[i].ID != h.ID && active[i].Status == hub.HandoffActivated:
		return active[i].To, nil
	case i >= 0: // its agent has it, or another one is asked
		return "", nil
	}
	isBack, err := cameBack(rd, h)
	if err != nil || isBack {
		return "", err
	}
	return c.Of, nil
}

// handoffNames has handoffs as people and agents name them.
type handoffNames map[hub.HandoffID]string

// namesOf returns the names of handoffs.
func namesOf(rd hub.Reader, ids ...hub.HandoffID) (handoffNames, error) {
	out := handoffNames{}
	for _, id := range ids {
		name, err := nameOf(rd, id)
		if err != nil {
			return nil, err
		}
		out[id] = name
	}
	return out, nil
}

// nameOf returns the short id of a handoff, or its id if it has none.
func nameOf(rd hub.Reader, id hub.HandoffID) (string, error) {
	if id == "" {
		return "", nil
	}
	short, err := rd.ShortID(string(id))
	if hub.CodeOf(err) == hub.CodeNotFound {
		return string(id), nil
	}
	return string(short), err
}

// HasTasks reports whether an agent owns a task or was offered one.
func (s *Service) HasTasks(ctx context.Context, agent hub.AgentID) bool {
	has, err := hub.Read(ctx, s.store, func(rd hub.Reader) (bool, error) {
		open, err := rd.Handoffs(hub.HandoffQuery{To: agent, States: hub.ActiveHandoffs, Limit: 1})
		if err != nil || len(open) > 0 {
			return true, err
		}
		tasks, err := rd.Teamspaces().Tasks(hub.TaskQuery{Owner: agent, States: []hub.TaskState{hub.TaskAssigned, hub.TaskInProgress, hub.TaskRework}, Limit: 1})
		return len(tasks) > 0, err
	})
	return err != nil || has
}
