package team_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
)

// send sends a message with a payload.
func (r *room) send(as hub.Caller, d mailroom.Draft, payload string) (mailroom.Receipt, error) {
	if payload != "" {
		d.Payload = strictjson.Trust([]byte(payload))
	}
	return r.mail.Send(r.Context(), as, d)
}

// sent is send that must succeed.
func (r *room) sent(as hub.Caller, d mailroom.Draft, payload string) mailroom.Receipt {
	r.Helper()
	got, err := r.send(as, d, payload)
	if err != nil {
		r.Fatalf("%s sends %s: %v", as.ID, d.Type, err)
	}
	return got
}

func to(ids ...hub.AgentID) []hub.AgentID { return ids }

func wantCode(t *testing.T, err error, code hub.Code, words string) {
	t.Helper()
	if hub.CodeOf(err) != code || err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("got %v (%s), want %s with %q", err, hub.CodeOf(err), code, words)
	}
}

// offer offers a task in the team auth.
func (r *room) offer(as hub.Caller, asked ...hub.AgentID) (mailroom.Receipt, error) {
	return r.send(as, mailroom.Draft{To: asked, Type: hub.TypeTaskOffer, Team: "auth"}, `{"title":"rotate","description":"d"}`)
}

// tell answers an offer.
func (r *room) tell(as hub.Caller, offer hub.EnvelopeID, kind hub.MessageType, seq int64, payload string, whom hub.AgentID) (mailroom.Receipt, error) {
	return r.send(as, mailroom.Draft{To: to(whom), Type: kind, Sequence: &seq, Team: "auth"}, fmt.Sprintf(`{"offer_id":%q%s}`, offer, payload))
}

func TestOffers(t *testing.T) {
	t.Run("R3-146 an accepted offer that names a team becomes a task of the asked agent", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		o, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		got, err := r.tell(bo, o.ID, hub.TypeTaskAccept, 2, "", "ana")
		wantCode(t, err, "", "")
		if !strings.Contains(strings.Join(got.Warnings, " "), "T-1 of team auth") {
			t.Errorf("warnings: got %q", got.Warnings)
		}
		task := r.must(bo, team.ReadTask{Task: "T-1"}).Task
		if task.Owner != "bo" || task.State != hub.TaskAssigned || task.Title != "rotate" || task.Offer != string(o.ID) || task.CreatedBy != "ana" || task.Queue != hub.QueueNone {
			t.Errorf("task: got %+v", task)
		}
		if d, err := r.talks.Show(t.Context(), ana, string(o.ID)); err != nil || d.Task != "T-1" {
			t.Errorf("negotiation: got %+v (%v)", d, err)
		}
	})
	t.Run("R3-146 R3-156 also when the offerer accepted the counter of the asked agent; without a gateway the board is the queue", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		o := r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypeTaskOffer, Team: "auth", Context: &hub.Context{ExternalRefs: []hub.ExternalRef{{Type: "workq_item", Value: "WQ-7"}}}}, `{"title":"rotate","description":"d"}`)
		_, err := r.tell(bo, o.ID, hub.TypeTaskCounter, 2, `,"proposed_changes":"later"`, "ana")
		wantCode(t, err, "", "")
		_, err = r.tell(ana, o.ID, hub.TypeTaskAccept, 3, "", "bo")
		wantCode(t, err, "", "")
		if task := r.must(bo, team.ReadTask{Task: "T-1"}).Task; task.Owner != "bo" || task.Queue != hub.QueueNone {
			t.Errorf("task: got %+v", task)
		}
	})
	t.Run("R3-146 roles are checked when the offer is made and when it is accepted", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		_, err := r.offer(bo, "di")
		wantCode(t, err, hub.CodeDenied, "create a task")
		_, err = r.offer(ana, "bo", "cy")
		wantCode(t, err, hub.CodeDenied, "cy")
		_, err = r.offer(eve, "bo")
		wantCode(t, err, hub.CodeNotFound, "not a member of a team")
		o, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleResearcher, Reason: "coverage"})
		_, err = r.tell(bo, o.ID, hub.TypeTaskAccept, 2, "", "ana")
		wantCode(t, err, hub.CodeDenied, "bo")
	})
	t.Run("R3-146 an offer to everyone in a team asks the members who may accept", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		o, err := r.offer(ana, hub.Everyone)
		wantCode(t, err, "", "")
		d, err := r.talks.Show(t.Context(), ana, string(o.ID))
		if err != nil || !slices.Equal(d.Asked, to("bo", "di")) {
			t.Errorf("asked: got %v (%v)", d.Asked, err)
		}
	})
	t.Run("R3-148 R3-146 conditions that nobody refused make no task if roles forbid it by then", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		o, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		_, err = r.tell(bo, o.ID, hub.TypeTaskAccept, 2, `,"conditions":["a day more"]`, "ana")
		wantCode(t, err, "", "")
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleResearcher, Reason: "coverage"})
		r.now = r.now.Add(25 * time.Hour)
		if err := r.talks.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, err := r.talks.Show(t.Context(), ana, string(o.ID)); err != nil || d.State != hub.TalkDeclined || d.Task != "" {
			t.Errorf("got %+v (%v)", d.Deliberation, err)
		}
	})
	t.Run("R3-148 conditions of an offer into a team that was closed since make no task", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		o, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		_, err = r.tell(bo, o.ID, hub.TypeTaskAccept, 2, `,"conditions":["a day more"]`, "ana")
		wantCode(t, err, "", "")
		r.must(ana, team.Close{})
		r.now = r.now.Add(25 * time.Hour)
		if err := r.talks.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, err := r.talks.Show(t.Context(), ana, string(o.ID)); err != nil || d.State != hub.TalkDeclined {
			t.Errorf("got %+v (%v)", d.Deliberation, err)
		}
	})
	t.Run("R3-142 the coordinators of the team decide what its members cannot", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleCoordinator})
		p := r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypePositionState, Team: "auth"}, `{"topic":"db","position":"p","reasoning":"r","confidence":"low","open_to_revision":true}`)
		two := int64(2)
		r.sent(bo, mailroom.Draft{To: to("ana"), Type: hub.TypePositionChallenge, Team: "auth", Sequence: &two}, fmt.Sprintf(`{"position_id":%q,"counter_position":"c","reasoning":"r","severity":"blocking"}`, p.ID))
		d, err := r.talks.Show(t.Context(), eve, string(p.ID))
		if err != nil || !slices.Equal(d.Deciders, to("eve")) {
			t.Fatalf("deciders: got %v (%v)", d.Deciders, err)
		}
		r.inbox(cy)
		if _, err := r.talks.Decide(t.Context(), eve, string(p.ID), "we keep it", "one file"); err != nil {
			t.Fatal(err)
		}
		if types, payloads := r.inbox(cy); !slices.Contains(types, hub.TypeKnowledgePush) || !strings.Contains(strings.Join(payloads, ""), "we keep it") {
			t.Errorf("R3-166: the team was not told: %v", types)
		}
		all, err := r.talks.Decisions(t.Context(), cy, hub.DecisionQuery{Team: "auth"})
		if err != nil || len(all) != 1 || all[0].Decision != "we keep it" {
			t.Errorf("decisions of the team: got %v (%v)", all, err)
		}
	})
}

// handOver proposes a handoff of a task of the team auth.
func (r *room) handOver(as hub.Caller, task hub.TaskID, whom hub.AgentID) (handoff.Report, error) {
	pkg, err := json.Marshal(map[string]any{
		"task":    map[string]any{"task_id": task, "title": "t", "objective": "o", "success_criteria": []string{"c"}},
		"context": map[string]any{"summary": "s"}, "work_state": map[string]any{"next_step": "n"},
	})
	if err != nil {
		r.Fatal(err)
	}
	return r.tasks.Initiate(r.Context(), as, handoff.Proposal{To: whom, Package: pkg, Team: "auth"})
}

func TestHandoffs(t *testing.T) {
	t.Run("R3-159 a handoff into a team is approved, moves the owner with its acceptance, and its completion moves the task", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", false)
		_, err := r.handOver(eve, id, "bo")
		wantCode(t, err, hub.CodeNotFound, "no team")
		_, err = r.handOver(ana, id, "eve")
		wantCode(t, err, hub.CodePolicy, "not a member")
		_, err = r.handOver(ana, id, "cy")
		wantCode(t, err, hub.CodeDenied, "accept an execution task")
		_, err = r.handOver(ana, "T-9", "bo")
		wantCode(t, err, hub.CodeNotFound, "T-9")
		_, err = r.handOver(bo, id, "di")
		wantCode(t, err, hub.CodeDenied, "assign")
		h, err := r.handOver(ana, id, "bo")
		wantCode(t, err, "", "")
		_, err = r.tasks.Accept(t.Context(), bo, h.ID, "")
		wantCode(t, err, hub.CodePolicy, "approves")
		for _, who := range []hub.Caller{ana, bo, cy} { // the sender, the receiver, a reviewer of a normal task
			_, err = r.tasks.ApproveTeam(t.Context(), who, h.ID)
			wantCode(t, err, hub.CodeDenied, "")
		}
		_, err = r.tasks.ApproveTeam(t.Context(), eve, h.ID)
		wantCode(t, err, hub.CodeNotFound, "")
		got, err := r.tasks.ApproveTeam(t.Context(), di, h.ID)
		if err != nil || got.TeamApproved != "di" || got.Team != "auth" {
			t.Fatalf("approved: got %+v (%v)", got, err)
		}
		if _, err = r.tasks.Accept(t.Context(), bo, h.ID, ""); err != nil {
			t.Fatal(err)
		}
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.Owner != "bo" || task.State != hub.TaskInProgress || task.Handoff != h.ID {
			t.Errorf("after the acceptance: got %+v", task)
		}
		if _, err = r.tasks.Complete(t.Context(), bo, h.ID, handoff.Completion{Summary: "done", NoChanges: true}); err != nil {
			t.Fatal(err)
		}
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.State != hub.TaskInReview {
			t.Errorf("after the completion: got %+v", task)
		}
	})
	t.Run("R3-159 R3-158 a refused acceptance leaves the handoff proposed, and a normal task without reviewers is done", func(t *testing.T) {
		r := open(t)
		r.work(&team.Policy{MaxParallelTasks: 1})
		r.must(ana, team.RemoveMember{Agent: "cy"})
		first, second := r.newTask("", true), r.newTask("", true)
		r.move(bo, first, hub.TaskInProgress, "")
		h, err := r.handOver(bo, second, "di")
		wantCode(t, err, "", "")
		_, err = r.tasks.ApproveTeam(t.Context(), ana, h.ID)
		wantCode(t, err, "", "")
		_, err = r.tasks.Accept(t.Context(), di, h.ID, "")
		wantCode(t, err, hub.CodeConflict, "limit")
		if got, err := r.tasks.Show(t.Context(), di, h.ID); err != nil || got.Status != hub.HandoffProposed {
			t.Errorf("got %s (%v), want it proposed", got.Status, err)
		}
		r.move(bo, first, hub.TaskInReview, "")
		_, err = r.tasks.Accept(t.Context(), di, h.ID, "")
		wantCode(t, err, "", "")
		_, err = r.tasks.Complete(t.Context(), di, h.ID, handoff.Completion{Summary: "done", NoChanges: true})
		wantCode(t, err, "", "")
		if task := r.must(ana, team.ReadTask{Task: second}).Task; task.State != hub.TaskDone || task.Owner != "di" {
			t.Errorf("got %+v", task)
		}
	})
	t.Run("a task that the operator releases goes back to the backlog", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask(hub.ClassGuarded, false)
		h, err := r.handOver(ana, id, "bo")
		wantCode(t, err, "", "")
		_, err = r.tasks.ApproveTeam(t.Context(), cy, h.ID) // a reviewer, of a guarded task
		wantCode(t, err, "", "")
		_, err = r.tasks.Accept(t.Context(), bo, h.ID, "")
		wantCode(t, err, "", "")
		_, err = r.tasks.Release(t.Context(), operator, h.ID, "stuck")
		wantCode(t, err, "", "")
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.State != hub.TaskBacklog || task.Owner != "" {
			t.Errorf("got %+v", task)
		}
	})
}

func TestGateOfTasks(t *testing.T) {
	gate := &team.Policy{HumanGateActions: []string{"task"}}
	t.Run("a task that waits for the operator cannot be made by an offer", func(t *testing.T) {
		r := open(t)
		r.work(gate)
		_, err := r.offer(ana, "bo")
		wantCode(t, err, hub.CodePolicy, "the operator must approve tasks")
		_, err = r.offer(ana, "bo", "di")
		wantCode(t, err, hub.CodePolicy, "the operator must approve tasks")
		if held := r.must(ana, team.CreateTask{Title: "rotate", Owner: "bo"}); held.Status != "held" {
			t.Errorf("the way that is left: got %+v, want held", held)
		}
		if n := r.must(ana, team.Show{}).Team.TaskCounts; len(n) != 0 {
			t.Errorf("tasks: got %v", n)
		}
	})
	t.Run("an offer that was made before the gate is declined where it would be accepted", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		plain, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		conditional, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		_, err = r.tell(bo, conditional.ID, hub.TypeTaskAccept, 2, `,"conditions":["two days"]`, "ana")
		wantCode(t, err, "", "")
		r.gate("task")
		_, err = r.tell(bo, plain.ID, hub.TypeTaskAccept, 2, "", "ana")
		wantCode(t, err, hub.CodePolicy, "the operator must approve tasks")
		r.now = r.now.Add(24 * time.Hour)
		wantCode(t, r.talks.Sweep(t.Context()), "", "")
		if d, err := r.talks.Show(t.Context(), ana, string(conditional.ID)); err != nil || d.State != hub.TalkDeclined || d.Task != "" {
			t.Errorf("got %+v (%v)", d, err)
		}
		if n := r.must(ana, team.Show{}).Team.TaskCounts; len(n) != 0 {
			t.Errorf("tasks: got %v", n)
		}
	})
	t.Run("the operator's own offer makes a task", func(t *testing.T) {
		r := open(t)
		r.work(gate)
		o, err := r.offer(operator, "bo")
		wantCode(t, err, "", "")
		_, err = r.tell(bo, o.ID, hub.TypeTaskAccept, 2, "", hub.Operator)
		wantCode(t, err, "", "")
		if task := r.must(bo, team.ReadTask{Task: "T-1"}).Task; task.Owner != "bo" {
			t.Errorf("got %+v", task)
		}
	})
	t.Run("a handoff into the team waits for the operator, and so does the review after it", func(t *testing.T) {
		r := open(t)
		r.work(gate)
		id := r.must(operator, team.CreateTask{Title: "rotate", Owner: "di"}).Task.ID
		h, err := r.handOver(di, id, "bo")
		wantCode(t, err, "", "")
		_, err = r.tasks.ApproveTeam(t.Context(), ana, h.ID)
		wantCode(t, err, "", "")
		_, err = r.tasks.Accept(t.Context(), bo, h.ID, "")
		wantCode(t, err, hub.CodePolicy, "before the operator approves it")
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.Owner != "di" || task.State != hub.TaskAssigned {
			t.Errorf("before: got %+v", task)
		}
		_, err = r.tasks.Approve(t.Context(), operator, h.ID)
		wantCode(t, err, "", "")
		_, err = r.tasks.Accept(t.Context(), bo, h.ID, "")
		wantCode(t, err, "", "")
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.Owner != "bo" || task.State != hub.TaskInProgress {
			t.Errorf("after: got %+v", task)
		}

		_, err = r.tasks.Complete(t.Context(), bo, h.ID, handoff.Completion{Summary: "done", NoChanges: true})
		wantCode(t, err, "", "")
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.State != hub.TaskInProgress {
			t.Errorf("completed: got %+v", task)
		}
		held, err := r.held(t.Context(), operator)
		if err != nil || len(held) != 1 || held[0].Actor != "bo" || held[0].Action != "task" {
			t.Fatalf("held: got %+v (%v)", held, err)
		}
		_, err = r.teams.Approve(t.Context(), operator, held[0].ID)
		wantCode(t, err, "", "")
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.State != hub.TaskInReview {
			t.Errorf("approved: got %+v", task)
		}
	})
	t.Run("a handoff that was proposed before the gate is not accepted without the operator", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", false)
		h, err := r.handOver(ana, id, "bo")
		wantCode(t, err, "", "")
		_, err = r.tasks.ApproveTeam(t.Context(), di, h.ID)
		wantCode(t, err, "", "")
		r.gate("task")
		_, err = r.tasks.Accept(t.Context(), bo, h.ID, "")
		wantCode(t, err, hub.CodePolicy, "the operator must approve tasks")
		if task := r.must(ana, team.ReadTask{Task: id}).Task; task.Owner != "" || task.State != hub.TaskBacklog {
			t.Errorf("got %+v", task)
		}
	})
}

// gate gives the team auth a gate that it was not made with.
func (r *room) gate(actions ...string) {
	r.Helper()
	err := r.store.Update(r.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		t, err := tx.Teamspaces().Team("auth")
		if err != nil {
			return err
		}
		t.Policy.HumanGateActions = actions
		return tx.WriteTeamspaces().PutTeam(t)
	})
	if err != nil {
		r.Fatal(err)
	}
}

func TestMessages(t *testing.T) {
	query := func(r *room, as hub.Caller) (n int) {
		r.Helper()
		got, err := r.mail.Query(r.Context(), as, hub.Query{Team: "auth", Type: hub.TypeKnowledgePush})
		if err != nil {
			r.Fatal(err)
		}
		return len(got.Messages)
	}
	push := `{"topic":"keys","summary":"rotated","confidence":"high"}`
	t.Run("R3-167 a message to team:NAME goes to the members at the time of sending", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		for _, c := range []hub.Caller{bo, cy, di} {
			r.inbox(c)
		}
		_, err := r.send(eve, mailroom.Draft{To: to("team:auth"), Text: "hello", Type: hub.TypeStatusUpdate}, "")
		wantCode(t, err, hub.CodeNotFound, "not a member of a team")
		_, err = r.send(bo, mailroom.Draft{To: to("team:auth", "eve"), Text: "hello", Type: hub.TypeStatusUpdate}, "")
		wantCode(t, err, hub.CodeInvalid, "the only recipient")
		_, err = r.send(bo, mailroom.Draft{To: to("team:nothing"), Text: "hello", Type: hub.TypeStatusUpdate}, "")
		wantCode(t, err, hub.CodeNotFound, "nothing")
		got := r.sent(bo, mailroom.Draft{To: to("team:auth"), Text: "hello", Type: hub.TypeStatusUpdate}, "")
		for _, c := range []hub.Caller{cy, di} {
			if types, _ := r.inbox(c); !slices.Equal(types, []hub.MessageType{hub.TypeStatusUpdate}) {
				t.Errorf("%s: got %v", c.ID, types)
			}
		}
		if types, _ := r.inbox(eve); len(types) != 0 {
			t.Errorf("eve: got %v", types)
		}
		trace, err := r.mail.Trace(t.Context(), cy, got.ID)
		if err != nil || trace.Message.Team != "auth" || trace.Message.Policy.Visibility != hub.VisibilityTeam || slices.Contains(trace.Message.To, "bo") {
			t.Errorf("got %+v (%v)", trace.Message, err)
		}
	})
	t.Run("R3-167 a message with visibility team is read by all members and by nobody else, and by a member that left as far as it was one", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		_, err := r.send(ana, mailroom.Draft{To: to("eve"), Type: hub.TypeKnowledgePush, Team: "auth"}, push)
		wantCode(t, err, hub.CodePolicy, "not a member")
		first := r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypeKnowledgePush, Team: "auth"}, push).ID
		for who, want := range map[*hub.Caller]int{&ana: 1, &bo: 1, &cy: 1, &di: 1, &eve: 0, &operator: 1} {
			if got := query(r, *who); got != want {
				t.Errorf("%s reads %d, want %d", who.ID, got, want)
			}
			_, err := r.mail.Trace(t.Context(), *who, first)
			if (err == nil) != (want == 1) {
				t.Errorf("%s reads it by its id: %v", who.ID, err)
			}
		}
		r.must(cy, team.RemoveMember{Agent: "cy"})
		second := r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypeKnowledgePush, Team: "auth"}, strings.Replace(push, "rotated", "again", 1)).ID
		r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypeKnowledgePush, Team: "auth", Policy: &hub.Policy{Visibility: hub.VisibilityPrivate}}, push)
		if got := query(r, cy); got != 1 {
			t.Errorf("cy left and reads %d, want one", got)
		}
		if _, err := r.mail.Trace(t.Context(), cy, second); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("cy left and reads what was sent later: %v", err)
		}
		if got := query(r, di); got != 2 {
			t.Errorf("di reads %d, want two: the third is private", got)
		}
		r.must(ana, team.AddMember{Agent: "eve"})
		if got := query(r, eve); got != 2 {
			t.Errorf("eve joined and reads %d, want two", got)
		}
		gated := r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypeKnowledgePush, Team: "auth", Policy: &hub.Policy{HumanGate: hub.GateRequired}}, push).ID
		if got := query(r, di); got != 2 {
			t.Errorf("di reads %d, want two: the last is held", got)
		}
		if _, err := r.mail.Trace(t.Context(), di, gated); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("di reads a held message: %v", err)
		}
	})
	t.Run("R3-167 the default visibility is the team's, and a closed team gets no messages", func(t *testing.T) {
		r := open(t)
		r.work(&team.Policy{DefaultVisibility: hub.VisibilityPrivate})
		r.sent(ana, mailroom.Draft{To: to("bo"), Type: hub.TypeKnowledgePush, Team: "auth"}, push)
		if got := query(r, cy); got != 0 {
			t.Errorf("cy reads %d private messages", got)
		}
		r.must(ana, team.Close{})
		_, err := r.send(ana, mailroom.Draft{To: to("team:auth"), Type: hub.TypeKnowledgePush}, push)
		wantCode(t, err, hub.CodeConflict, "closed")
	})
	t.Run("R3-167 a message to more than ten members is for coordinators, or urgent", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		for i := range 8 {
			id := hub.AgentID(fmt.Sprint("m", i))
			if _, _, _, err := r.keys.AddAgent(t.Context(), operator, hub.Agent{ID: id, Role: hub.RoleExecutor}, keys.NewKey{}); err != nil {
				t.Fatal(err)
			}
			r.must(ana, team.AddMember{Agent: id})
		}
		text := mailroom.Draft{To: to("team:auth"), Text: "hello", Type: hub.TypeStatusUpdate}
		_, err := r.send(bo, text, "")
		wantCode(t, err, hub.CodeDenied, "coordinator of team")
		if got := r.sent(ana, text, ""); len(got.Deliveries) != 11 {
			t.Errorf("got %d deliveries, want eleven", len(got.Deliveries))
		}
		text.Priority = hub.PriorityHigh
		r.sent(bo, text, "")
	})
	t.Run("R3-158 an owner that may not block says so, and the coordinators of the team hear it", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.newTask("", true)
		r.inbox(ana)
		for i, d := range []mailroom.Draft{{}, {Team: "auth"}} {
			if _, err := r.mail.Status(t.Context(), bo, mailroom.Report{State: "blocked", Summary: fmt.Sprint("no access ", i), Draft: d}); err != nil {
				t.Fatal(err)
			}
			if types, _ := r.inbox(ana); !slices.Equal(types, []hub.MessageType{hub.TypeStatusBlocked}) {
				t.Errorf("ana: got %v", types)
			}
		}
	})
	t.Run("an agent that is revoked leaves its teams, its tasks go to the backlog, and the coordinator is told", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		id := r.newTask("", true)
		r.inbox(ana)
		if _, err := r.keys.RevokeKeys(t.Context(), operator, "bo", "", r.leave); err != nil {
			t.Fatal(err)
		}
		v := r.must(ana, team.Show{}).Team
		if len(v.Members) != 3 || v.Tasks[0].State != hub.TaskBacklog {
			t.Errorf("got %+v", v)
		}
		if types, payloads := r.inbox(ana); !slices.Equal(types, []hub.MessageType{hub.TypeTeamLeave}) || !strings.Contains(payloads[0], string(id)) {
			t.Errorf("ana: got %v %v", types, payloads)
		}
		if _, err := r.keys.RevokeKeys(t.Context(), operator, "ana", "", r.leave); err != nil {
			t.Fatal(err)
		}
		if _, payloads := r.inbox(operator); !strings.Contains(strings.Join(payloads, ""), "has no coordinator") {
			t.Errorf("the operator is not told that the team has no coordinator: %v", payloads)
		}
	})
}

func TestManyNotices(t *testing.T) {
	t.Run("R3-174 beyond 60 notices a minute one message lists the rest, and none is lost", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.inbox(bo)
		before := 2 // the team, and its lifecycle
		const tasks = 75
		for range tasks {
			r.newTask("", true)
		}
		types, _ := r.inbox(bo)
		if len(types) != 60-before {
			t.Errorf("at once: got %d messages, want %d", len(types), 60-before)
		}
		if err := r.mail.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again, _ := r.inbox(bo); len(again) != 0 {
			t.Errorf("too early: got %v", again)
		}
		r.now = r.now.Add(31 * time.Second)
		for range 2 {
			if err := r.mail.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		again, payloads := r.inbox(bo)
		if len(again) != 1 {
			t.Fatalf("the rest: got %v, want one message", again)
		}
		var list struct {
			Notices int    `json:"notices"`
			Detail  string `json:"detail"`
		}
		if err := json.Unmarshal([]byte(payloads[0]), &list); err != nil || len(types)+list.Notices != tasks || !strings.Contains(list.Detail, "task id T-75") {
			t.Errorf("got %d messages and a list of %d (%v): %s", len(types), list.Notices, err, list.Detail)
		}
		r.now = r.now.Add(time.Minute)
		r.newTask("", true)
		if types, _ := r.inbox(bo); len(types) != 1 {
			t.Errorf("a minute later: got %v, want the notice itself", types)
		}
	})
	t.Run("R3-174 the list of notices names artifacts, versions and authors", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.inbox(bo)
		for n := range int64(75) {
			text := fmt.Sprint(n)
			r.must(ana, team.PutArtifact{Artifact: "docs/plan.md", Parent: n, Content: team.Text(text)})
		}
		r.inbox(bo)
		r.now = r.now.Add(31 * time.Second)
		for range 2 {
			if err := r.mail.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, payloads := r.inbox(bo)
		for _, part := range []string{"artifact id docs/plan.md", "version 75", "author ana"} {
			if !strings.Contains(strings.Join(payloads, ""), part) {
				t.Errorf("no %s in %s", part, payloads)
			}
		}
	})
}
