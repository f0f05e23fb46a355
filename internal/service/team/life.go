package team

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	maxName      = 200  // bytes
	maxObjective = 2000 // bytes
	maxParallel  = 1000
	defaultPage  = 50
	maxPage      = 200
)

// perform makes a team. The operator may, and agents that are coordinators on the hub.
func (r Create) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.create"
	actor := in.actor
	if !actor.Coordinates() {
		return out, hub.Errorf(hub.CodeDenied, op, "%s is %s on this hub; only coordinators and the operator can create teams", actor.ID, actor.Role)
	}
	if err := checkText(op, "objective", r.Objective, maxObjective); err != nil {
		return out, err
	}
	if r.Name == "" {
		r.Name = string(in.team)
	}
	if err := checkText(op, "name", r.Name, maxName); err != nil {
		return out, err
	}

	policy, err := r.Policy.complete(op)
	if err != nil {
		return out, err
	}
	seats, err := s.seats(ctx, op, actor, r.Members)
	if err != nil {
		return out, err
	}

	// The team, its first members and the messages to them are stored together.
	var c *change
	err = s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		c = &change{s: s, tx: tx, op: op, actor: actor, now: s.clock.Now()}
		c.team = hub.Team{ID: in.team, Name: r.Name, Objective: r.Objective, Lifecycle: hub.TeamForming, Policy: policy, CreatedBy: actor.ID, CreatedAt: c.now}
		if err := c.put(); hub.CodeOf(err) == hub.CodeConflict {
			return hub.Errorf(hub.CodeConflict, op, "team %s already exists", in.team).WithHint("choose another name")
		} else if err != nil {
			return err
		}
		if err := c.record(actions.TeamCreated, map[string]any{"members": len(seats), "sha256": c.team.Policy.Digest()}); err != nil {
			return err
		}

		for _, seat := range seats {
			if err := c.join(seat, []hub.AgentID{seat.Agent}); err != nil {
				return err
			}
		}
		out, err = c.answer()
		return err
	})
	if err == nil {
		s.mail.Announce(c.posted...)
	}
	return out, err
}

// complete returns the policy with its defaults.
func (p *Policy) complete(op string) (hub.TeamPolicy, error) {
	out := hub.DefaultTeamPolicy
	if p == nil {
		return out, nil
	}
	if p.DefaultVisibility != "" {
		out.DefaultVisibility = p.DefaultVisibility
	}
	if p.MaxParallelTasks != 0 {
		out.MaxParallelTasks = int(p.MaxParallelTasks)
	}
	out.HumanGateActions = append([]string{}, p.HumanGateActions...)
	switch {
	case !slices.Contains(hub.Visibilities, out.DefaultVisibility):
		return out, hub.Errorf(hub.CodeInvalid, op, "policy.default_visibility: unknown visibility %q", p.DefaultVisibility).WithHint("use %s", joined(hub.Visibilities))
	case out.MaxParallelTasks < 1 || out.MaxParallelTasks > maxParallel:
		return out, hub.Errorf(hub.CodeInvalid, op, "policy.max_parallel_tasks must be between 1 and %d, got %d", maxParallel, p.MaxParallelTasks)
	}
	for _, a := range out.HumanGateActions {
		if !slices.Contains(Gateable, a) {
			return out, hub.Errorf(hub.CodeInvalid, op, "policy.human_gate_actions: action %q cannot be gated", a).WithHint("use %s", joined(Gateable))
		}
	}
	return out, nil
}

// seats returns the first members of a team, with its creator as coordinator.
func (s *Service) seats(ctx context.Context, op string, actor hub.Caller, seats []Seat) ([]Seat, error) {
	if len(seats) >= maxMembers {
		return nil, hub.Errorf(hub.CodeTooLarge, op, "a team has at most %d members", maxMembers)
	}
	seen, leads := map[hub.AgentID]bool{}, false
	for _, seat := range seats {
		if err := s.checkSeat(ctx, op, seat); err != nil {
			return nil, err
		}
		switch {
		case seen[seat.Agent]:
			return nil, hub.Errorf(hub.CodeInvalid, op, "members: %s appears twice", seat.Agent)
		case seat.Agent == actor.ID && seat.Role != hub.RoleCoordinator:
			return nil, hub.Errorf(hub.CodeInvalid, op, "members: %s creates the team and is its coordinator, not %s", actor.ID, seat.Role)
		}
		seen[seat.Agent] = true
		leads = leads || seat.Role == hub.RoleCoordinator
	}
	switch {
	case !actor.IsOperator() && !seen[actor.ID]:
		seats = append([]Seat{{Agent: actor.ID, Role: hub.RoleCoordinator}}, seats...)
	case actor.IsOperator() && !leads:
		return nil, hub.Errorf(hub.CodeInvalid, op, "a team needs a coordinator").WithHint("add NAME:coordinator to the members")
	}
	return seats, nil
}

// checkSeat refuses an unknown agent or role.
func (s *Service) checkSeat(ctx context.Context, op string, seat Seat) error {
	if !seat.Role.Known() {
		return hub.Errorf(hub.CodeInvalid, op, "unknown role %q", seat.Role).WithHint("the roles are %s", joined(hub.Roles))
	}
	if seat.Agent == hub.Operator || seat.Agent == hub.Self {
		return hub.Errorf(hub.CodeInvalid, op, "%s cannot be a member of a team", seat.Agent)
	}
	_, err := s.mail.Recipient(ctx, seat.Agent)
	return err
}

// List returns a page of the teams that the actor may see: all of them for auditors, else
// those of the actor. A limit of 0 is the default.
func (s *Service) List(ctx context.Context, actor hub.Caller, q hub.TeamQuery) (Answer, error) {
	const op = "team.list"
	var err error
	if q.Limit, err = page(op, q.Limit); err != nil {
		return Answer{}, err
	}
	if q.Lifecycle != "" && !slices.Contains(hub.Lifecycles, q.Lifecycle) {
		return Answer{}, hub.Errorf(hub.CodeInvalid, op, "unknown lifecycle %q", q.Lifecycle).WithHint("use %s", joined(hub.Lifecycles))
	}

	if !actor.Audits() {
		if q.Member != "" && q.Member != actor.ID {
			return Answer{}, hub.Errorf(hub.CodeDenied, op, "only auditors can list the teams of others")
		}
		q.Member = actor.ID
	}

	out := Answer{Teams: []View{}}
	err = s.store.View(ctx, func(rd hub.Reader) error {
		out.Teams = out.Teams[:0]
		all, err := rd.Teamspaces().Teams(q)
		for _, t := range all {
			role, err := roleOf(rd, t.ID, actor.ID)
			if err != nil {
				return err
			}
			v, err := read(rd, t, role)
			if err != nil {
				return err
			}
			out.Teams = append(out.Teams, v)
		}

		// A full page has a cursor, even if it is the last one.
		if len(all) == q.Limit {
			out.Next = string(all[len(all)-1].ID)
		}
		return err
	})
	return out, err
}

// page returns the limit of a page.
func page(op string, limit int) (int, error) {
	if limit == 0 {
		return defaultPage, nil
	}
	if limit < 1 || limit > maxPage {
		return 0, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxPage, limit)
	}
	return limit, nil
}

func (r Show) perform(ctx context.Context, s *Service, in call) (Answer, error) {
	const op = "team.show"
	limit, err := page(op, r.Limit)
	if err != nil {
		return Answer{}, err
	}
	if r.Cursor != "" && !hub.TaskID(r.Cursor).Valid() {
		return Answer{}, hub.Errorf(hub.CodeInvalid, op, "cursor %q is not valid: use next from the page before", r.Cursor)
	}

	var out Answer
	err = s.store.View(ctx, func(rd hub.Reader) error {
		t, role, err := visible(rd, op, in.actor, in.team)
		if err != nil {
			return err
		}
		v, err := read(rd, t, role)
		if err != nil {
			return err
		}

		q := hub.TaskQuery{Team: t.ID, Owner: r.Owner, Cursor: hub.TaskID(r.Cursor), Limit: limit}
		if r.State != "" {
			q.States = []hub.TaskState{r.State}
		}
		tasks, err := rd.Teamspaces().Tasks(q)
		if err != nil {
			return err
		}
		v.Tasks = append([]hub.Task{}, tasks...)

		decided, err := decisionsOf(rd, in.actor, t.ID, hub.DecisionQuery{Limit: shownDecisions})
		v.Decisions = decided.readable
		out = Answer{Team: &v}
		if len(tasks) == limit {
			out.Next = string(tasks[limit-1].ID)
		}
		return err
	})
	return out, err
}

// perform moves the lifecycle of a team. A coordinator or the operator may.
func (r Move) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	switch r.Lifecycle {
	case hub.TeamClosed:
		end := Close{Anyway: r.Anyway}
		return end.perform(ctx, s, in.as(end))
	case hub.TeamArchived:
		return Archive{}.perform(ctx, s, in.as(Archive{}))
	}
	return out, s.update(ctx, in, func(c *change) (err error) {
		if err := c.leads("move the team"); err != nil {
			return err
		}
		out, err = c.move(r.Lifecycle)
		return err
	})
}

func (r Close) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	return out, s.update(ctx, in, func(c *change) (err error) {
		if err := c.allow(hub.MayClose, ""); err != nil {
			return err
		}
		open, err := c.tx.Teamspaces().Tasks(hub.TaskQuery{Team: c.team.ID, States: openStates, Limit: 5})
		if err != nil {
			return err
		}
		if len(open) > 0 {
			var names []hub.TaskID
			for _, t := range open {
				names = append(names, t.ID)
			}
			return hub.Errorf(hub.CodeConflict, c.op, "team %s has open tasks: %s", c.team.ID, joined(names)).WithHint("finish or drop every task, then close the team")
		}
		if err := c.abandon(r.Anyway); err != nil {
			return err
		}
		out, err = c.move(hub.TeamClosed)
		return err
	})
}

// abandon ends the open conflicts of a team that is closed: its versions cannot be merged
// any more. Unless anyway is set it refuses with their names.
func (c *change) abandon(anyway bool) error {
	open, err := c.tx.Teamspaces().Conflicts(hub.ConflictQuery{Team: c.team.ID, Open: true, Limit: math.MaxInt32})
	if err != nil || len(open) == 0 {
		return err
	}

	if !anyway {
		var names []string
		for _, k := range open[:min(len(open), 5)] {
			names = append(names, fmt.Sprintf("version %d of %s", k.Version, k.Artifact))
		}
		if more := len(open) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		return hub.Errorf(hub.CodeConflict, c.op, "team %s has versions to merge: %s", c.team.ID, strings.Join(names, ", ")).
			WithHint("merge them, or close the team without them: {team.close_anyway} %s", c.team.ID)
	}

	// An artifact keeps its newest version; the versions beside it are given up.
	for _, k := range open {
		if k, err = k.Advance(hub.MergeAbandoned, c.now); err != nil {
			return err
		}
		if err := c.putConflict(k); err != nil {
			return err
		}

		a, err := c.tx.Teamspaces().TeamArtifact(k.Team, k.Artifact)
		if err != nil {
			return err
		}
		a.State = hub.MergeAbandoned
		a.Beside = slices.DeleteFunc(a.Beside, func(n int64) bool { return n == k.Version })
		if err := c.tx.WriteTeamspaces().PutTeamArtifact(a); err != nil {
			return err
		}
	}
	return nil
}

// openStates are the states of tasks that are not over.
var openStates = slices.DeleteFunc(slices.Clone(hub.TaskStates), hub.TaskState.Over)

func (Archive) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	return out, s.update(ctx, in, func(c *change) (err error) {
		if err := c.allow(hub.MayClose, ""); err != nil {
			return err
		}
		out, err = c.move(hub.TeamArchived)
		return err
	})
}

// move moves the lifecycle of the team and tells its members.
func (c *change) move(next hub.Lifecycle) (out Answer, err error) {
	was := c.team.Lifecycle
	if c.team, err = c.team.Advance(next, c.now); err != nil {
		return out, err
	}
	if err := c.put(); err != nil {
		return out, err
	}
	if err := c.record(actions.TeamMoved, map[string]any{"from": was, "to": next}); err != nil {
		return out, err
	}
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return out, err
	}
	if err := c.tell(with(all), hub.TypeStatusUpdate, map[string]any{"summary": fmt.Sprintf("team %s is %s", c.team.ID, next), "lifecycle": next}); err != nil {
		return out, err
	}
	return c.answer()
}

// perform records a decision of the team: a coordinator decides, other members propose.
func (r Decide) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.decide"
	actor := in.actor
	if err := checkText(op, "decision", r.Decision, 1000); err != nil {
		return out, err
	}
	if err := checkText(op, "rationale", r.Rationale, 1000); err != nil {
		return out, err
	}
	if r.Title == "" {
		r.Title = r.Decision
	}

	return out, s.update(ctx, in, func(c *change) error {
		if c.role == "" && !actor.IsOperator() {
			return c.leads("decide")
		}

		d := hub.Decision{
			ID: string(s.ids.Next()), Team: string(c.team.ID), Title: r.Title, Decision: r.Decision, Rationale: r.Rationale, Deciders: []hub.AgentID{actor.ID}, Status: "proposed", At: c.now,
		}
		if c.leads("decide") == nil {
			d.Status = "decided"
		}
		if err := c.tx.AddDecision(d); err != nil {
			return err
		}

		// All members hear of a decision or a proposal.
		all, err := roster(c.tx, c.team.ID)
		if err != nil {
			return err
		}
		err = c.tell(with(all), hub.TypeKnowledgePush, map[string]any{
			"topic": cut(r.Title, 150), "summary": cut(fmt.Sprintf("%s by %s: %s", d.Status, actor.ID, r.Decision), 1200), "confidence": "high", "detail": cut(r.Rationale, 1000), "decision_id": d.ID,
		})
		out = Answer{Decision: &d}
		if err != nil {
			return err
		}
		return c.record(actions.TeamDecided, map[string]any{"decision_id": d.ID, "status": d.Status, "sha256": d.Digest()})
	})
}

// shownDecisions is the most decisions that show returns with a team.
const shownDecisions = 5

// perform lists the decisions of a team, newest first: those of the time in which the actor
// was a member, and all of them for auditors.
func (r ListDecisions) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.decisions"
	limit, err := page(op, r.Limit)
	if err != nil {
		return out, err
	}
	return out, s.store.View(ctx, func(rd hub.Reader) error {
		if _, _, err := visible(rd, op, in.actor, in.team); err != nil {
			return err
		}
		all, err := decisionsOf(rd, in.actor, in.team, hub.DecisionQuery{Cursor: r.Cursor, Limit: limit})
		out = Answer{Decisions: all.readable}
		if all.read == limit {
			out.Next = all.last
		}
		return err
	})
}

// A decisionPage is a page of the decisions of a team.
type decisionPage struct {
	readable []hub.Decision
	read     int    // with those that the actor may not read
	last     string // the id of the last of them
}

// decisionsOf returns the decisions of a team that the actor may read.
func decisionsOf(r hub.Reader, actor hub.Caller, id hub.TeamID, q hub.DecisionQuery) (decisionPage, error) {
	q.Team = string(id)
	all, err := r.Decisions(q)
	out := decisionPage{readable: []hub.Decision{}, read: len(all)}
	if err != nil || len(all) == 0 {
		return out, err
	}
	out.last = all[len(all)-1].ID
	terms, err := r.Teamspaces().Members(hub.MemberQuery{Team: id, Agent: actor.ID, Ended: true, Limit: maxMembers})
	if err != nil {
		return out, err
	}
	for _, d := range all {
		if actor.Audits() || slices.ContainsFunc(terms, func(m hub.Member) bool { return m.Reads(d.At) }) {
			if len(terms) == 0 {
				if d, err = hub.DecisionFor(r, actor, d); err != nil {
					return out, err
				}
			}
			out.readable = append(out.readable, d)
		}
	}
	return out, nil
}
