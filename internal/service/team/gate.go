package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// errHeld ends the transaction of an operation that is allowed and gated.
var errHeld = errors.New("the operation waits for the operator")

// gated reports whether an action of an agent in a team waits for the operator. It is the
// one reader of the gates: every way to a change of a team that they name asks it.
func gated(t hub.Team, actor hub.AgentID, action string) bool {
	return actor != hub.Operator && slices.Contains(t.Policy.HumanGateActions, action)
}

// hold stores an operation that waits for the operator, and tells the operator.
func (s *Service) hold(ctx context.Context, in call, r Request) (Answer, error) {
	var c *change
	var out Answer
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		c = &change{s: s, tx: tx, actor: in.actor, now: s.clock.Now(), team: hub.Team{ID: in.team}}
		h, err := c.hold(r)
		if err != nil {
			return err
		}
		out = Answer{Status: "held", ID: h.ID}
		out.ShortID, err = tx.ShortID(h.ID)
		return err
	})
	if err != nil {
		return Answer{}, fmt.Errorf("team: hold: %w", err)
	}
	s.mail.Announce(c.posted...)
	return out, nil
}

// hold stores a request of the actor, which waits for the operator, and tells the operator.
// The operation has the id of that message, so that a person names both by one short id.
func (c *change) hold(r Request) (hub.HeldAction, error) {
	raw, err := heldRequest(c.team.ID, r)
	if err != nil {
		return hub.HeldAction{}, err
	}
	err = c.tell([]hub.AgentID{hub.Operator}, hub.TypeStatusBlocked, map[string]any{
		"summary": fmt.Sprintf("%s asks to %s in team %s", c.actor.ID, r.action(), c.team.ID), "reason": "parley approve, or parley deny, with the id of this message",
	})
	if err != nil {
		return hub.HeldAction{}, err
	}
	question := c.posted[len(c.posted)-1]

	h := hub.HeldAction{ID: string(question.ID), Team: c.team.ID, Actor: c.actor.ID, Action: r.action(), Request: raw, At: c.now}
	if err := c.tx.WriteTeamspaces().PutHeldAction(h); err != nil {
		return h, err
	}
	return h, c.record(actions.TeamHeld, map[string]any{"id": h.ID, "action": h.Action})
}

// heldRequest returns a request as a held operation stores it: an object with the action,
// the team and the members of the request.
func heldRequest(id hub.TeamID, r Request) (json.RawMessage, error) {
	head, err := json.Marshal(struct {
		Action string     `json:"action"`
		Team   hub.TeamID `json:"team"`
	}{r.action(), id})
	if err != nil {
		return nil, err
	}
	members, err := json.Marshal(r)
	if err != nil || string(members) == "{}" {
		return head, err
	}
	return slices.Concat(head[:len(head)-1], []byte(","), members[1:]), nil
}

// parseHeld returns the request of a held operation. Where several requests have the same
// action, the members that are given tell which it is. Members of other actions, which
// earlier releases stored too, are ignored.
func parseHeld(h hub.HeldAction) (Request, error) {
	var given struct {
		Accept  *bool         `json:"accept"`
		Task    hub.TaskID    `json:"task"`
		State   hub.TaskState `json:"state"`
		SignOff bool          `json:"sign_off"`
	}
	if err := json.Unmarshal(h.Request, &given); err != nil {
		return nil, err
	}

	switch h.Action {
	case "add":
		return parse[AddMember](h.Request)
	case "remove":
		return parse[RemoveMember](h.Request)
	case "role":
		if given.Accept != nil {
			return parse[AnswerRole](h.Request)
		}
		return parse[ChangeRole](h.Request)

	case "task":
		if given.Task == "" {
			return parse[CreateTask](h.Request)
		}
		if given.State != "" {
			return parse[MoveTask](h.Request)
		}
		return parse[ChangeTask](h.Request)
	case "decide":
		return parse[Decide](h.Request)

	case "artifact":
		return parse[PutArtifact](h.Request)
	case "merge":
		if given.SignOff {
			return parse[SignMerge](h.Request)
		}
		return parse[Merge](h.Request)

	case "status":
		return parse[Move](h.Request)
	case "close":
		return parse[Close](h.Request)
	case "archive":
		return parse[Archive](h.Request)
	}
	return nil, fmt.Errorf("held operation %s has the unknown action %q", h.ID, h.Action)
}

// parse reads a request of a known type.
func parse[R Request](raw json.RawMessage) (Request, error) {
	var r R
	err := json.Unmarshal(raw, &r)
	return r, err
}

// A heldChange is a held operation with the verdict about it.
type heldChange struct {
	hub.HeldAction
	operator hub.Caller
	verdict  string
	reason   string
}

// Approve performs a held operation as the agent that asked for it, in one transaction
// with the verdict. Its authority is checked again; an operation that is refused waits
// on. Only the operator may.
func (s *Service) Approve(ctx context.Context, actor hub.Caller, id string) (hub.HeldAction, error) {
	const op = "team.Approve"
	h, err := s.waiting(ctx, op, actor, id)
	if err != nil {
		return h, err
	}
	r, err := parseHeld(h)
	if err != nil {
		return h, fmt.Errorf("%s: %w", op, err)
	}
	asker, err := hub.Read(ctx, s.store, func(rd hub.Reader) (hub.Agent, error) { return rd.Agent(h.Actor) })
	if err != nil {
		return h, err
	}
	held := &heldChange{h, actor, "approved", ""}
	caller := hub.Caller{Kind: hub.CallerAgent, ID: asker.ID, Role: asker.Role, Auditor: asker.Auditor, Paused: asker.State == hub.AgentPaused}
	_, err = s.perform(ctx, call{actor: caller, team: h.Team, action: r.action(), approval: held}, r)
	return held.HeldAction, err
}

// Deny ends a held operation without performing it. Only the operator may.
func (s *Service) Deny(ctx context.Context, actor hub.Caller, id, reason string) (hub.HeldAction, error) {
	const op = "team.Deny"
	h, err := s.waiting(ctx, op, actor, id)
	if err != nil {
		return h, err
	}
	held := &heldChange{h, actor, "denied", reason}
	var c *change
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) error {
		c = &change{s: s, tx: tx, op: op, actor: actor, now: s.clock.Now(), team: hub.Team{ID: h.Team}}
		return c.decideHeld(held)
	})
	if err == nil {
		s.mail.Announce(c.posted...)
	}
	return held.HeldAction, err
}

// waiting returns a held operation that waits for the operator.
func (s *Service) waiting(ctx context.Context, op string, actor hub.Caller, id string) (hub.HeldAction, error) {
	h, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.HeldAction, error) { return r.Teamspaces().HeldAction(id) })
	switch {
	case err != nil:
		return h, err
	case !actor.IsOperator():
		return h, actor.OperatorOnly(op)
	case h.Verdict != "":
		return h, hub.Errorf(hub.CodeConflict, op, "operation %s was already %s at %s", id, h.Verdict, h.EndedAt)
	}
	return h, nil
}

// decideHeld stores the verdict about a held operation and tells the agent that asked.
func (c *change) decideHeld(h *heldChange) error {
	h.Verdict = h.verdict
	h.By = h.operator.ID
	h.EndedAt = c.now
	if err := c.tx.WriteTeamspaces().PutHeldAction(h.HeldAction); err != nil {
		return err
	}
	c.actor = h.operator
	if err := c.record(actions.TeamGate, map[string]any{"id": h.ID, "verdict": h.Verdict}); err != nil {
		return err
	}
	payload := map[string]any{"summary": fmt.Sprintf("the operator %s: %s in team %s", h.Verdict, h.Action, h.Team), "id": h.ID}
	if h.reason != "" {
		payload["detail"] = cut(h.reason, 1000)
	}
	return c.tell([]hub.AgentID{h.Actor}, hub.TypeStatusUpdate, payload)
}

// A Cell is one cell of the matrix of a team.
type Cell struct {
	Role   hub.Role       `json:"role"`
	Action hub.TeamAction `json:"action"`
	Permit hub.Permit     `json:"permit"`
}

// A Grid is the whole matrix of a team.
type Grid struct {
	Team       hub.TeamID `json:"team"`
	Cells      []Cell     `json:"cells"`      // by action, then by role
	Overridden []Cell     `json:"overridden"` // those that the operator changed

	Successors []hub.AgentID `json:"successors,omitempty"` // of owners that cannot go on
}

// Authority returns the matrix of a team, after the cells of set were changed, which
// only the operator may.
func (s *Service) Authority(ctx context.Context, actor hub.Caller, id hub.TeamID, set []Cell) (Grid, error) {
	const op = "team.Authority"
	for _, c := range set {
		if err := actor.OperatorOnly(op); err != nil {
			return Grid{}, err
		}
		if err := c.check(op); err != nil {
			return Grid{}, err
		}
	}

	var t hub.Team
	var err error
	if len(set) == 0 {
		err = s.store.View(ctx, func(r hub.Reader) (err error) {
			t, _, err = visible(r, op, actor, id)
			return err
		})
	} else {
		err = s.update(ctx, call{actor: actor, team: id, action: "policy"}, func(c *change) error {
			for _, cell := range set {
				was := c.team.Permit(cell.Role, cell.Action)
				c.team.Overrides = c.team.Overrides.With(cell.Role, cell.Action, cell.Permit)
				if err := c.record(actions.TeamPolicy, map[string]any{"role": cell.Role, "action": cell.Action, "from": was, "to": cell.Permit}); err != nil {
					return err
				}
			}
			err := c.put()
			t = c.team
			return err
		})
	}
	if err != nil {
		return Grid{}, fmt.Errorf("team: policy: %w", err)
	}

	// The grid has all cells, and once more those that the team overrides.
	g := Grid{Team: t.ID, Overridden: []Cell{}, Successors: t.Policy.Successors}
	for _, a := range hub.TeamActions {
		for _, r := range hub.Roles {
			cell := Cell{r, a, t.Permit(r, a)}
			g.Cells = append(g.Cells, cell)
			if _, ok := t.Overrides[a][r]; ok {
				g.Overridden = append(g.Overridden, cell)
			}
		}
	}
	return g, nil
}

// maxSuccessors is the most successors that a team names.
const maxSuccessors = 10

// SetSuccessors names the members of a team that take over tasks whose owner cannot go on, in the
// order in which they are asked; none lets such tasks wait for a person. Only the operator may.
func (s *Service) SetSuccessors(ctx context.Context, actor hub.Caller, id hub.TeamID, names []hub.AgentID) error {
	const op = "team.SetSuccessors"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	if len(names) > maxSuccessors {
		return hub.Errorf(hub.CodeTooLarge, op, "a team has at most %d successors", maxSuccessors)
	}
	err := s.update(ctx, call{actor: actor, team: id, action: "policy"}, func(c *change) error {
		for i, name := range names {
			if err := c.checkSuccessor(name); err != nil {
				return err
			}
			if slices.Contains(names[:i], name) {
				return hub.Errorf(hub.CodeInvalid, op, "successors: %s appears twice", name)
			}
		}
		c.team.Policy.Successors = names
		if err := c.record(actions.TeamPolicy, map[string]any{"successors": names, "sha256": c.team.Policy.Digest()}); err != nil {
			return err
		}
		return c.put()
	})
	if err != nil {
		return fmt.Errorf("team: policy: %w", err)
	}
	return nil
}

// checkSuccessor refuses an agent that could not accept a task of the team.
func (c *change) checkSuccessor(agent hub.AgentID) error {
	role, err := roleOf(c.tx, c.team.ID, agent)
	switch {
	case err != nil:
		return err
	case role == "":
		return hub.Errorf(hub.CodeInvalid, c.op, "successors: %s is not a member of team %s", agent, c.team.ID)
	case !c.team.May(role, hub.MayAcceptTask, hub.ClassNormal):
		return refusal(c.op, c.team, agent, role, hub.MayAcceptTask, hub.ClassNormal)
	}
	return nil
}

// check refuses a cell with a word that the matrix does not have.
func (c Cell) check(op string) error {
	switch {
	case !c.Role.Known():
		return hub.Errorf(hub.CodeInvalid, op, "unknown role %q", c.Role).WithHint("the roles are %s", joined(hub.Roles))
	case !slices.Contains(hub.TeamActions, c.Action):
		return hub.Errorf(hub.CodeInvalid, op, "unknown action %q", c.Action).WithHint("the actions are %s", joined(hub.TeamActions))
	case !slices.Contains(hub.Permits, c.Permit):
		return hub.Errorf(hub.CodeInvalid, op, "unknown permit %q", c.Permit).WithHint("use %s", joined(hub.Permits))
	}
	return nil
}

// A Log is a page of the journal of a team.
type Log struct {
	Entries []hub.Entry `json:"entries"` // oldest first
	Next    int64       `json:"next,omitempty"`
}

// Log returns the journal entries about a team.
func (s *Service) Log(ctx context.Context, actor hub.Caller, id hub.TeamID, after int64, limit int) (Log, error) {
	const op = "team.Log"
	limit, err := page(op, limit)
	if err != nil {
		return Log{}, err
	}
	out := Log{Entries: []hub.Entry{}}
	err = s.store.View(ctx, func(r hub.Reader) error {
		if _, _, err := visible(r, op, actor, id); err != nil {
			return err
		}
		all, err := r.Journal(hub.JournalQuery{After: after, Subject: subject(id), Limit: limit})
		out.Entries = append(out.Entries[:0], all...)
		if len(all) == limit {
			out.Next = all[limit-1].Seq
		}
		return err
	})
	return out, err
}
