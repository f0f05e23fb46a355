package team_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A room is a hub with agents and teams.
type room struct {
	*testing.T
	store hub.Store
	keys  *keys.Service
	mail  *mailroom.Mailroom
	teams *team.Service
	talks *deliberation.Service
	tasks *handoff.Service
	now   time.Time

	clock   hub.Clock
	content *blobs.Store
}

// held returns the operations that wait for the operator.
func (r *room) held(ctx context.Context, actor hub.Caller) ([]hub.HeldAction, error) {
	got, err := attention.New(r.store, mailroom.Headline).Waiting(ctx, actor, attention.Sources{})
	return got.Operations, err
}

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	ana      = hub.Caller{Kind: hub.CallerAgent, ID: "ana", Role: hub.RoleCoordinator}
	bo       = agent("bo")
	cy       = agent("cy")
	di       = agent("di")
	eve      = agent("eve") // a member of no team
)

func agent(id hub.AgentID) hub.Caller {
	return hub.Caller{Kind: hub.CallerAgent, ID: id, Role: hub.RoleExecutor}
}

func open(t *testing.T) *room {
	t.Helper()
	r := &room{T: t, now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		r.now = r.now.Add(time.Millisecond)
		return r.now
	}
	r.store = storetest.Open(t, t.TempDir())
	r.keys = keys.New(r.store, &keys.Options{Clock: clock, Bus: new(bus.Local)})
	if _, err := r.keys.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, a := range []hub.Caller{ana, bo, cy, di, eve} {
		if _, _, _, err := r.keys.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	r.clock = clock
	content, err := blobs.Open(t.TempDir(), nil)
	r.content = content
	if err != nil {
		t.Fatal(err)
	}
	r.mail, err = mailroom.New(r.store, r.keys, &mailroom.Options{Clock: clock, Artifacts: content, Limits: mailroom.Limits{Unsafe: true}, Features: hub.Features})
	if err != nil {
		t.Fatal(err)
	}
	if r.teams, err = team.New(r.store, r.mail, &team.Options{Clock: clock, Artifacts: content}); err != nil {
		t.Fatal(err)
	}
	if r.talks, err = deliberation.New(r.store, r.mail, &deliberation.Options{Clock: clock, Board: r.teams}); err != nil {
		t.Fatal(err)
	}
	r.mail.Moderate(r.talks)
	r.tasks = handoff.New(r.store, r.mail, &handoff.Options{Clock: clock, Board: r.teams})
	return r
}

// leave takes an agent out of its teams when its last key is revoked.
func (r *room) leave(tx hub.Tx, actor hub.Caller, agent hub.AgentID) (func(), error) {
	posted, err := r.teams.Revoked(tx, actor, agent)
	return func() { r.mail.Announce(posted...) }, err
}

// do performs a request on the team auth.
func (r *room) do(as hub.Caller, q team.Request) (team.Answer, error) {
	return r.teams.Perform(r.Context(), as, "auth", q)
}

// list returns the teams that an actor sees.
func (r *room) list(as hub.Caller, q hub.TeamQuery) []team.View {
	r.Helper()
	got, err := r.teams.List(r.Context(), as, q)
	if err != nil {
		r.Fatal(err)
	}
	return got.Teams
}

func (r *room) must(as hub.Caller, q team.Request) team.Answer {
	r.Helper()
	a, err := r.do(as, q)
	if err != nil {
		r.Fatalf("%s %T %+v: %v", as.ID, q, q, err)
	}
	return a
}

// refuse expects an error with a code and words in its text.
func (r *room) refuse(as hub.Caller, q team.Request, code hub.Code, words string) {
	r.Helper()
	before := r.picture()
	_, err := r.do(as, q)
	if hub.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
		r.Errorf("%s %T: got %v (%s), want %s with %q", as.ID, q, err, hub.CodeOf(err), code, words)
	}
	if r.picture() != before {
		r.Errorf("%s %T: refused, and something was stored", as.ID, q)
	}
}

// picture returns the newest entry of the journal, which every change appends to.
func (r *room) picture() string {
	r.Helper()
	newest, err := hub.Read(r.Context(), r.store, func(rd hub.Reader) ([]hub.Entry, error) {
		return rd.Journal(hub.JournalQuery{Newest: true, Limit: 1})
	})
	if err != nil {
		r.Fatal(err)
	}
	return newest[0].Hash
}

// form creates the team auth: ana coordinates, bo executes, cy reviews, di integrates.
func (r *room) form(p *team.Policy) {
	r.Helper()
	r.must(ana, team.Create{Objective: "log in", Policy: p, Members: []team.Seat{
		{Agent: "bo", Role: hub.RoleExecutor}, {Agent: "cy", Role: hub.RoleReviewer}, {Agent: "di", Role: hub.RoleIntegrator},
	}})
}

// work is form with an active team.
func (r *room) work(p *team.Policy) {
	r.Helper()
	r.form(p)
	r.must(ana, team.Move{Lifecycle: hub.TeamActive})
}

// newTask creates a task, which bo owns if it is assigned.
func (r *room) newTask(class hub.TaskClass, assigned bool) hub.TaskID {
	r.Helper()
	q := team.CreateTask{Title: "t", Class: class}
	if assigned {
		q.Owner = "bo"
	}
	return r.must(ana, q).Task.ID
}

// move moves a task.
func (r *room) move(as hub.Caller, id hub.TaskID, state hub.TaskState, reason string) hub.Task {
	r.Helper()
	return *r.must(as, team.MoveTask{Task: id, State: state, Reason: reason}).Task
}

// inbox returns the types of the messages in an inbox, and reads them.
func (r *room) inbox(as hub.Caller) (types []hub.MessageType, payloads []string) {
	r.Helper()
	got, err := r.mail.Inbox(r.Context(), as, mailroom.InboxRequest{AckAll: true, Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	for _, m := range got.Messages {
		types, payloads = append(types, m.Type), append(payloads, string(m.Payload))
	}
	return types, payloads
}

func TestLifecycle(t *testing.T) {
	t.Run("R3-151 a team is created by the operator or a coordinator of the hub, who coordinates it", func(t *testing.T) {
		r := open(t)
		r.refuse(bo, team.Create{Objective: "o"}, hub.CodeDenied, "coordinators")
		r.refuse(ana, team.Create{Objective: "o", Members: []team.Seat{{Agent: "ana", Role: hub.RoleReviewer}}}, hub.CodeInvalid, "is its coordinator")
		r.refuse(operator, team.Create{Objective: "o", Members: []team.Seat{{Agent: "bo", Role: hub.RoleExecutor}}}, hub.CodeInvalid, "needs a coordinator")
		r.refuse(ana, team.Create{Objective: "o", Members: []team.Seat{{Agent: "bo", Role: "boss"}}}, hub.CodeInvalid, "boss")
		r.refuse(ana, team.Create{Objective: "o", Members: []team.Seat{{Agent: "nobody", Role: hub.RoleExecutor}}}, hub.CodeUnknownRecipient, "nobody")
		r.refuse(ana, team.Create{Objective: " "}, hub.CodeInvalid, "objective")
		r.refuse(ana, team.Create{Objective: "o", Policy: &team.Policy{HumanGateActions: []string{"dance"}}}, hub.CodeInvalid, "dance")
		r.form(nil)
		v := r.must(bo, team.Show{}).Team
		if v.Lifecycle != hub.TeamForming || v.You != hub.RoleExecutor || len(v.Members) != 4 || v.Members[0].Agent != "ana" || v.Policy.MaxParallelTasks != 6 {
			t.Errorf("show: got %+v", v)
		}
		r.refuse(ana, team.Create{Objective: "o"}, hub.CodeConflict, "already")
		r.refuse(eve, team.Show{}, hub.CodeNotFound, "no team")
		r.must(operator, team.Show{})
	})
	t.Run("R3-151 members are added and removed by the coordinator, a member removes itself, and the last coordinator stays", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		r.refuse(bo, team.AddMember{Agent: "eve"}, hub.CodeDenied, "executor")
		r.refuse(bo, team.RemoveMember{Agent: "cy"}, hub.CodeDenied, "change members")
		r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleResearcher})
		r.refuse(ana, team.AddMember{Agent: "eve"}, hub.CodeConflict, "already")
		r.must(eve, team.RemoveMember{Agent: "eve"})
		r.refuse(eve, team.Show{}, hub.CodeNotFound, "")
		r.refuse(ana, team.RemoveMember{Agent: "ana"}, hub.CodeConflict, "last coordinator")
		r.refuse(ana, team.ChangeRole{Agent: "ana", Role: hub.RoleReviewer, Reason: "coverage"}, hub.CodeConflict, "last coordinator")
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleCoordinator, Reason: "handoff"})
		r.must(ana, team.RemoveMember{Agent: "ana"})
		r.must(operator, team.AddMember{Agent: "ana", Role: hub.RoleReviewer})
	})
	t.Run("R3-150 the hub tells the members who joins, leaves and changes role", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleResearcher})
		r.must(ana, team.ChangeRole{Agent: "eve", Role: hub.RoleReviewer, Reason: "coverage"})
		r.must(ana, team.RemoveMember{Agent: "eve"})
		want := []hub.MessageType{hub.TypeTeamJoin, hub.TypeTeamJoin, hub.TypeTeamRoleChange, hub.TypeTeamLeave}
		if got, _ := r.inbox(bo); !slices.Equal(got, want) {
			t.Errorf("bo: got %v, want %v", got, want)
		}
		if got, _ := r.inbox(eve); !slices.Equal(got, want[1:]) {
			t.Errorf("eve: got %v, want %v", got, want[1:])
		}
		if _, err := r.mail.Send(t.Context(), bo, mailroom.Draft{To: []hub.AgentID{"cy"}, Type: hub.TypeTeamJoin, Text: "x"}); hub.CodeOf(err) != hub.CodeReservedType {
			t.Errorf("an agent announces a member: got %v", err)
		}
	})
	t.Run("R3-152 a team goes from forming to archived, and a closed one is read-only", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		id := r.newTask("", true)
		r.refuse(bo, team.MoveTask{Task: id, State: hub.TaskInProgress}, hub.CodeConflict, "forming")
		r.refuse(ana, team.Close{}, hub.CodeConflict, "T-1")
		r.refuse(bo, team.Move{Lifecycle: hub.TeamActive}, hub.CodeDenied, "move the team")
		for _, l := range []hub.Lifecycle{hub.TeamActive, hub.TeamIncident, hub.TeamActive, hub.TeamStabilizing} {
			r.must(ana, team.Move{Lifecycle: l})
		}
		r.refuse(ana, team.Move{Lifecycle: hub.TeamForming}, hub.CodeConflict, "stabilizing")
		r.refuse(ana, team.Close{}, hub.CodeConflict, "open tasks")
		r.refuse(ana, team.Archive{}, hub.CodeConflict, "cannot become archived")
		r.move(ana, id, hub.TaskDropped, "not needed")
		r.must(ana, team.Close{})
		for _, q := range []team.Request{team.CreateTask{Title: "t"}, team.AddMember{Agent: "eve"}, team.Decide{Decision: "d", Rationale: "r"}, team.Move{Lifecycle: hub.TeamActive}} {
			r.refuse(ana, q, hub.CodeConflict, "closed")
		}
		r.must(bo, team.Show{})
		r.must(ana, team.Archive{})
		if got := r.list(ana, hub.TeamQuery{}); len(got) != 0 {
			t.Errorf("list: got %v, want no archived team", got)
		}
		if got := r.list(ana, hub.TeamQuery{Lifecycle: hub.TeamArchived}); len(got) != 1 {
			t.Errorf("list archived: got %v, want one", got)
		}
	})
	t.Run("R3-152 the lifecycle table has every move and no other", func(t *testing.T) {
		want := map[hub.Lifecycle][]hub.Lifecycle{
			hub.TeamForming: {hub.TeamActive}, hub.TeamActive: {hub.TeamIncident, hub.TeamStabilizing, hub.TeamClosed}, hub.TeamIncident: {hub.TeamActive},
			hub.TeamStabilizing: {hub.TeamClosed}, hub.TeamClosed: {hub.TeamArchived},
		}
		for _, from := range hub.Lifecycles {
			for _, to := range hub.Lifecycles {
				_, err := hub.Team{Lifecycle: from}.Advance(to, hub.Time{})
				if ok := slices.Contains(want[from], to); ok != (err == nil) {
					t.Errorf("%s to %s: got %v", from, to, err)
				}
			}
		}
	})
	t.Run("a gated operation is checked, held, and performed when the operator approves it", func(t *testing.T) {
		r := open(t)
		r.form(&team.Policy{HumanGateActions: []string{"add", "status"}})
		r.refuse(bo, team.AddMember{Agent: "eve"}, hub.CodeDenied, "")
		held := r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleResearcher})
		if held.Status != "held" || held.ID == "" {
			t.Fatalf("got %+v, want held", held)
		}
		r.refuse(eve, team.Show{}, hub.CodeNotFound, "")
		if _, err := r.teams.Approve(t.Context(), ana, held.ID); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent approves: got %v", err)
		}
		if _, err := r.teams.Approve(t.Context(), operator, held.ID); err != nil {
			t.Fatal(err)
		}
		if got := r.must(eve, team.Show{}).Team.You; got != hub.RoleResearcher {
			t.Errorf("role: got %q", got)
		}
		if _, err := r.teams.Approve(t.Context(), operator, held.ID); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("approved twice: got %v", err)
		}
		move := r.must(ana, team.Move{Lifecycle: hub.TeamActive})
		if _, err := r.teams.Deny(t.Context(), operator, move.ID, "not today"); err != nil {
			t.Fatal(err)
		}
		if got := r.must(ana, team.Show{}).Team.Lifecycle; got != hub.TeamForming {
			t.Errorf("lifecycle after a denial: got %s", got)
		}
		second := r.must(ana, team.Move{Lifecycle: hub.TeamActive})
		r.must(operator, team.ChangeRole{Agent: "bo", Role: hub.RoleCoordinator, Reason: "incident"})
		r.must(operator, team.ChangeRole{Agent: "ana", Role: hub.RoleResearcher, Reason: "incident"})
		if _, err := r.teams.Approve(t.Context(), operator, second.ID); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("approved after the authority went: got %v", err)
		}
		if all, err := r.held(t.Context(), operator); err != nil || len(all) != 1 {
			t.Errorf("held: got %v (%v), want the refused one", all, err)
		}
	})
}

func TestRoles(t *testing.T) {
	role := func(r *room, agent hub.AgentID) hub.Role {
		for _, m := range r.must(operator, team.Show{}).Team.Members {
			if m.Agent == agent {
				return m.Role
			}
		}
		return ""
	}
	t.Run("R3-153 a proposed role counts when the agent accepts", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer})
		if got := role(r, "bo"); got != hub.RoleExecutor {
			t.Errorf("before: got %s", got)
		}
		r.refuse(cy, team.AnswerRole{Agent: "bo", Accept: true}, hub.CodeDenied, "does not wait")
		r.refuse(ana, team.AnswerRole{Agent: "bo", Accept: true}, hub.CodeDenied, "does not wait")
		r.must(bo, team.AnswerRole{Agent: "bo", Accept: true})
		if got := role(r, "bo"); got != hub.RoleReviewer {
			t.Errorf("after: got %s", got)
		}
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleExecutor})
		r.must(bo, team.AnswerRole{Agent: "bo", Accept: false})
		r.refuse(bo, team.AnswerRole{Agent: "bo", Accept: true}, hub.CodeNotFound, "no role is proposed")
	})
	t.Run("R3-153 what an agent proposes for itself a coordinator accepts, and nobody makes itself coordinator", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		r.refuse(bo, team.ChangeRole{Agent: "cy", Role: hub.RoleExecutor}, hub.CodeDenied, "")
		r.refuse(bo, team.ChangeRole{Agent: "bo", Role: hub.RoleCoordinator}, hub.CodeDenied, "itself")
		r.refuse(bo, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer, Reason: "coverage"}, hub.CodeDenied, "")
		r.must(bo, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer})
		r.refuse(bo, team.AnswerRole{Agent: "bo", Accept: true}, hub.CodeDenied, "")
		r.must(ana, team.AnswerRole{Agent: "bo", Accept: true})
		if got := role(r, "bo"); got != hub.RoleReviewer {
			t.Errorf("got %s", got)
		}
	})
	t.Run("R3-153 what a coordinator proposes for itself another one accepts", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleCoordinator, Reason: "coverage"})
		r.must(ana, team.ChangeRole{Agent: "ana", Role: hub.RoleReviewer})
		r.refuse(ana, team.AnswerRole{Agent: "ana", Accept: true}, hub.CodeDenied, "does not wait")
		r.must(bo, team.AnswerRole{Agent: "ana", Accept: true})
		if got := role(r, "ana"); got != hub.RoleReviewer {
			t.Errorf("got %s", got)
		}
	})
	t.Run("R3-153 a swap needs both, and a reason of the coordinator nobody", func(t *testing.T) {
		r := open(t)
		r.form(nil)
		r.refuse(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleIntegrator, SwapWith: "cy"}, hub.CodeInvalid, "swap roles")
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer, SwapWith: "cy"})
		r.must(bo, team.AnswerRole{Agent: "bo", Accept: true})
		if got := role(r, "bo"); got != hub.RoleExecutor {
			t.Errorf("after one of two: got %s", got)
		}
		r.must(cy, team.AnswerRole{Agent: "bo", Accept: true})
		if role(r, "bo") != hub.RoleReviewer || role(r, "cy") != hub.RoleExecutor {
			t.Errorf("after both: got %s and %s", role(r, "bo"), role(r, "cy"))
		}
		r.refuse(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleExecutor, Reason: "mood"}, hub.CodeInvalid, "mood")
		for _, reason := range hub.RoleReasons {
			r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleExecutor, SwapWith: "cy", Reason: reason})
			r.must(ana, team.ChangeRole{Agent: "cy", Role: hub.RoleExecutor, SwapWith: "bo", Reason: reason})
		}
		ledger, err := hub.Read(t.Context(), r.store, func(rd hub.Reader) ([]hub.Member, error) {
			return rd.Teamspaces().Members(hub.MemberQuery{Team: "auth", Agent: "bo", Ended: true, Limit: 99})
		})
		if err != nil || len(ledger) != 2+2*len(hub.RoleReasons) || ledger[0].Reason != "joined" || ledger[1].Reason != "agreed" || ledger[2].Reason != "load_balance" || ledger[0].Until.IsZero() {
			t.Errorf("ledger: got %v (%v)", ledger, err)
		}
	})
	t.Run("R3-076 the operator overrides a cell of the matrix, an agent cannot, and it is journaled", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", true)
		cell := []team.Cell{{Role: hub.RoleReviewer, Action: hub.MayBlock, Permit: hub.PermitDeny}}
		if _, err := r.teams.Authority(t.Context(), ana, "auth", cell); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent overrides: got %v", err)
		}
		g, err := r.teams.Authority(t.Context(), operator, "auth", cell)
		if err != nil || len(g.Cells) != 40 || !slices.Equal(g.Overridden, cell) {
			t.Errorf("got %v (%v)", g, err)
		}
		r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskBlocked, Reason: "review"}, hub.CodeDenied, "reviewer")
		log, err := r.teams.Log(t.Context(), bo, "auth", 0, 200)
		if err != nil || !slices.ContainsFunc(log.Entries, func(e hub.Entry) bool {
			return e.Action == actions.TeamPolicy && e.Actor == hub.Operator && strings.Contains(string(e.Facts), `"to":"deny"`)
		}) {
			t.Errorf("log: got %v (%v), want the override", log, err)
		}
	})
}

func TestTasks(t *testing.T) {
	t.Run("R3-158 a task walks from the backlog through rework to done", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", false)
		r.refuse(bo, team.MoveTask{Task: id, State: hub.TaskInProgress}, hub.CodeConflict, "cannot become in_progress")
		r.must(ana, team.ChangeTask{Task: id, Owner: "bo", Reviewer: "cy"})
		r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskInProgress}, hub.CodeDenied, "bo")
		r.move(bo, id, hub.TaskInProgress, "")
		r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskDone}, hub.CodeConflict, "in_progress")
		r.move(bo, id, hub.TaskInReview, "")
		r.refuse(bo, team.MoveTask{Task: id, State: hub.TaskDone}, hub.CodeDenied, "finish")
		r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskRework}, hub.CodeInvalid, "reason")
		r.move(cy, id, hub.TaskRework, "two tests are missing")
		r.move(bo, id, hub.TaskInProgress, "")
		r.move(bo, id, hub.TaskInReview, "")
		got := r.move(cy, id, hub.TaskDone, "")
		if got.DoneAt.IsZero() || !slices.Equal(got.Executors, []hub.AgentID{"bo"}) {
			t.Errorf("done: got %+v", got)
		}
		r.refuse(ana, team.MoveTask{Task: id, State: hub.TaskDropped, Reason: "x"}, hub.CodeConflict, "done")
		r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskRework, Reason: "x"}, hub.CodeConflict, "done")
		r.refuse(ana, team.ChangeTask{Task: id, Owner: "bo"}, hub.CodeConflict, "done")
		r.refuse(ana, team.ReadTask{Task: "T-99"}, hub.CodeNotFound, "T-99")
	})
	t.Run("R3-158 a task is blocked with a reason code and unblocked to where it was", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", true)
		r.move(bo, id, hub.TaskInProgress, "")
		r.refuse(bo, team.MoveTask{Task: id, State: hub.TaskBlocked, Reason: "access"}, hub.CodeDenied, "block")
		r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskBlocked, Reason: "boredom"}, hub.CodeInvalid, "boredom")
		for _, reason := range hub.BlockReasons {
			if got := r.move(cy, id, hub.TaskBlocked, reason); got.Was != hub.TaskInProgress || got.Reason != reason {
				t.Errorf("blocked: got %+v", got)
			}
			r.refuse(cy, team.MoveTask{Task: id, State: hub.TaskInReview}, hub.CodeConflict, "blocked")
			r.move(bo, id, hub.TaskInProgress, "")
		}
	})
	t.Run("R3-158 the state table has every move and no other", func(t *testing.T) {
		all := map[hub.TaskState]string{
			hub.TaskBacklog: "assigned in_progress dropped", hub.TaskAssigned: "assigned in_progress blocked backlog dropped",
			hub.TaskInProgress: "in_review done blocked assigned in_progress backlog dropped", hub.TaskInReview: "rework done blocked backlog dropped",
			hub.TaskRework: "in_progress assigned backlog dropped", hub.TaskBlocked: "assigned in_review backlog dropped",
			hub.TaskDone: "rework", // by a landing queue alone
		}
		for _, from := range hub.TaskStates {
			for _, to := range hub.TaskStates {
				_, err := hub.Task{State: from, Was: hub.TaskInReview}.Advance(to, hub.Time{})
				if ok := slices.Contains(strings.Fields(all[from]), string(to)); ok != (err == nil) {
					t.Errorf("%s to %s: got %v", from, to, err)
				}
			}
		}
	})
	t.Run("R3-158 dependencies have no cycle and hold a task until they are over", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		a, b, c := r.newTask("", true), r.newTask("", true), r.newTask("", true)
		on := func(ids ...hub.TaskID) *[]hub.TaskID { return &ids }
		r.must(ana, team.ChangeTask{Task: b, DependsOn: on(a)})
		r.must(ana, team.ChangeTask{Task: c, DependsOn: on(b)})
		r.refuse(ana, team.ChangeTask{Task: a, DependsOn: on(c)}, hub.CodeConflict, "wait for itself")
		r.refuse(ana, team.ChangeTask{Task: a, DependsOn: on(a)}, hub.CodeConflict, "wait for itself")
		r.refuse(ana, team.ChangeTask{Task: a, DependsOn: on("T-77")}, hub.CodeNotFound, "T-77")
		r.refuse(bo, team.ChangeTask{Task: a, DependsOn: on()}, hub.CodeDenied, "create a task")
		r.refuse(bo, team.MoveTask{Task: b, State: hub.TaskInProgress}, hub.CodeConflict, string(a))
		r.move(ana, a, hub.TaskDropped, "not needed")
		r.move(bo, b, hub.TaskInProgress, "")
	})
	t.Run("R3-158 max_parallel_tasks counts on start, unblock and rework", func(t *testing.T) {
		r := open(t)
		r.work(&team.Policy{MaxParallelTasks: 1})
		a, b := r.newTask("", true), r.newTask("", true)
		r.move(bo, a, hub.TaskInProgress, "")
		r.refuse(bo, team.MoveTask{Task: b, State: hub.TaskInProgress}, hub.CodeConflict, "limit")
		r.move(cy, a, hub.TaskBlocked, "access")
		r.move(bo, b, hub.TaskInProgress, "")
		r.refuse(bo, team.MoveTask{Task: a, State: hub.TaskInProgress}, hub.CodeConflict, "limit")
		r.move(bo, b, hub.TaskInReview, "")
		r.move(bo, a, hub.TaskInProgress, "")
		r.move(cy, b, hub.TaskRework, "more")
		r.refuse(bo, team.MoveTask{Task: b, State: hub.TaskInProgress}, hub.CodeConflict, "limit")
	})
	t.Run("R3-158 each class is finished by the roles that the rules name", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		for _, test := range []struct {
			class hub.TaskClass
			as    hub.Caller
			ok    bool
		}{
			{hub.ClassNormal, ana, true}, {hub.ClassNormal, cy, true}, {hub.ClassNormal, di, true}, {hub.ClassNormal, bo, false},
			{hub.ClassMerge, ana, false}, {hub.ClassMerge, cy, false}, {hub.ClassMerge, di, true}, {hub.ClassMerge, bo, false},
			{hub.ClassGuarded, ana, true}, {hub.ClassGuarded, cy, true}, {hub.ClassGuarded, di, false}, {hub.ClassGuarded, bo, false},
			{hub.ClassHighRisk, ana, true}, {hub.ClassHighRisk, cy, true}, {hub.ClassHighRisk, di, true}, {hub.ClassHighRisk, bo, false},
		} {
			id := r.newTask(test.class, true)
			r.move(bo, id, hub.TaskInProgress, "")
			r.move(bo, id, hub.TaskInReview, "")
			_, err := r.do(test.as, team.MoveTask{Task: id, State: hub.TaskDone})
			if (err == nil) != test.ok || err != nil && hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("%s finishes a %s task: got %v, want %v", test.as.ID, test.class, err, test.ok)
			}
		}
	})
	t.Run("R3-153 the reviewer of a guarded task is no executor of it, at assignment and at closure", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask(hub.ClassGuarded, true)
		r.refuse(ana, team.ChangeTask{Task: id, Reviewer: "bo"}, hub.CodeDenied, "cannot review")
		r.move(bo, id, hub.TaskInProgress, "")
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer, Reason: "coverage"})
		r.refuse(ana, team.ChangeTask{Task: id, Reviewer: "bo"}, hub.CodePolicy, "cannot review")
		r.move(bo, id, hub.TaskInReview, "")
		r.refuse(bo, team.MoveTask{Task: id, State: hub.TaskDone}, hub.CodePolicy, "worked on it")
		r.move(cy, id, hub.TaskDone, "")
	})
	t.Run("R3-071 an owner has a role that accepts execution tasks, when it is assigned and when it starts", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", false)
		r.refuse(ana, team.ChangeTask{Task: id, Owner: "cy"}, hub.CodeDenied, "accept an execution task")
		r.refuse(ana, team.ChangeTask{Task: id, Owner: "eve"}, hub.CodeNotFound, "eve")
		r.must(ana, team.ChangeTask{Task: id, Owner: "bo"})
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleResearcher, Reason: "coverage"})
		r.refuse(bo, team.MoveTask{Task: id, State: hub.TaskInProgress}, hub.CodeDenied, "researcher")
	})
	t.Run("R3-151 the tasks of a member that leaves go back to the backlog, and the coordinator is told", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id, second := r.newTask("", true), r.newTask("", true)
		r.move(bo, id, hub.TaskInProgress, "")
		r.inbox(ana)
		r.must(bo, team.RemoveMember{Agent: "bo"})
		for _, id := range []hub.TaskID{id, second} {
			if got := r.must(ana, team.ReadTask{Task: id}).Task; got.State != hub.TaskBacklog || got.Owner != "" {
				t.Errorf("got %+v, want it in the backlog", got)
			}
		}
		types, payloads := r.inbox(ana)
		if !slices.Equal(types, []hub.MessageType{hub.TypeTeamLeave}) || !strings.Contains(payloads[0], `"T-1","T-2"`) {
			t.Errorf("ana: got %v %v", types, payloads)
		}
	})
	t.Run("bad input is refused and changes nothing", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		for _, q := range []team.Request{
			team.CreateTask{}, team.CreateTask{Title: strings.Repeat("x", 201)}, team.CreateTask{Title: "t", Class: "easy"}, team.ReadTask{Task: "12"},
			team.MoveTask{Task: "T-1", State: "gone"}, team.CreateTask{Title: "t", ExternalRefs: []hub.ExternalRef{{Type: "stone", Value: "x"}}},
			team.ChangeRole{Agent: "bo", Role: "king"}, team.Decide{Decision: "d"}, team.Show{Limit: 1000},
		} {
			before := r.picture()
			_, err := r.do(ana, q)
			if code := hub.CodeOf(err); code != hub.CodeInvalid && code != hub.CodeTooLarge {
				t.Errorf("%T %+v: got %v", q, q, err)
			}
			if r.picture() != before {
				t.Errorf("%+v changed something", q)
			}
		}
	})
}
