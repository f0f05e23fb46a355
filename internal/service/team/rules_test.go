package team_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
)

// Rules that keep an agent from more than its team gave it.
func TestAuthorityIsKept(t *testing.T) {
	t.Run("a paused agent changes no team, and can read it", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		paused := ana
		paused.Paused = true
		r.refuse(paused, team.CreateTask{Title: "t"}, hub.CodeDenied, "paused")
		r.refuse(paused, team.Close{}, hub.CodeDenied, "paused")
		r.must(paused, team.Show{})
	})
	t.Run("a gated close waits for the operator, also when it is asked for as a status", func(t *testing.T) {
		for _, gate := range []string{"close", "status"} {
			r := open(t)
			r.form(&team.Policy{HumanGateActions: []string{gate}})
			r.must(operator, team.Move{Lifecycle: hub.TeamActive})
			if got := r.must(ana, team.Move{Lifecycle: hub.TeamClosed}); got.Status != "held" {
				t.Errorf("gate %s: got %+v", gate, got)
			}
			if got := r.must(ana, team.Show{}).Team.Lifecycle; got != hub.TeamActive {
				t.Errorf("gate %s: the team is %s", gate, got)
			}
		}
	})
	t.Run("the operation of an agent that was paused since is not approved, and waits on", func(t *testing.T) {
		r := open(t)
		r.work(&team.Policy{HumanGateActions: []string{"add"}})
		held := r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleExecutor})
		_, err := r.keys.SetState(t.Context(), operator, "ana", hub.AgentPaused)
		wantCode(t, err, "", "")
		_, err = r.teams.Approve(t.Context(), operator, held.ID)
		wantCode(t, err, hub.CodeDenied, "paused")
		if waiting, err := r.held(t.Context(), operator); err != nil || len(waiting) != 1 {
			t.Errorf("got %v (%v)", waiting, err)
		}
		r.refuse(eve, team.Show{}, hub.CodeNotFound, "no team")

		_, err = r.keys.SetState(t.Context(), operator, "ana", hub.AgentActive)
		wantCode(t, err, "", "")
		_, err = r.teams.Approve(t.Context(), operator, held.ID)
		wantCode(t, err, "", "")
		r.must(eve, team.Show{})
	})
	t.Run("an agent that made a merge cannot sign it as a reviewer", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		q := put("a", 0, "1\n")
		q.Sensitivity = hub.SensitivityHigh
		r.must(bo, q)
		r.must(bo, put("a", 1, "2\n"))
		r.must(cy, put("a", 1, "3\n"))
		r.must(di, merge("a", "2 3\n"))
		r.must(ana, team.ChangeRole{Agent: "di", Role: hub.RoleReviewer, Reason: "coverage"})
		sign := team.SignMerge{Artifact: "a"}
		r.refuse(di, sign, hub.CodeDenied, "made the merge")
		r.must(cy, sign)
	})
	t.Run("an agent that worked on a guarded task is not named as its reviewer", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleExecutor})
		id := r.newTask(hub.ClassGuarded, true)
		r.move(bo, id, hub.TaskInProgress, "")
		r.move(ana, id, hub.TaskBacklog, "bo reviews from now on")
		r.must(ana, team.ChangeTask{Task: id, Owner: "eve"})
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer, Reason: "coverage"})
		r.refuse(ana, team.ChangeTask{Task: id, Reviewer: "bo"}, hub.CodePolicy, "cannot review")
		r.must(ana, team.ChangeTask{Task: id, Reviewer: "cy"})
	})
	t.Run("a role that was proposed for an agent ends with its membership", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer})
		r.must(ana, team.RemoveMember{Agent: "bo"})
		r.must(ana, team.AddMember{Agent: "bo", Role: hub.RoleExecutor})
		r.refuse(bo, team.AnswerRole{Agent: "bo", Accept: true}, hub.CodeNotFound, "no role is proposed")
	})
}

// Rules for what a team keeps when something changes around it.
func TestNothingIsForgotten(t *testing.T) {
	t.Run("an agent that leaves gives back all of its tasks", func(t *testing.T) {
		const tasks = 201 // more than a page
		r := open(t)
		r.work(nil)
		err := r.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for i := range tasks {
				at := r.clock.Now()
				task := hub.Task{Team: "auth", Title: fmt.Sprint("t", i), Class: hub.ClassNormal, State: hub.TaskAssigned, Owner: "bo", Queue: hub.QueueNone, CreatedBy: "ana", CreatedAt: at, UpdatedAt: at}
				if _, err := tx.WriteTeamspaces().PutTask(task); err != nil {
					return err
				}
			}
			return nil
		})
		wantCode(t, err, "", "")
		r.must(bo, team.RemoveMember{Agent: "bo"})
		if got := r.must(ana, team.Show{}).Team.TaskCounts; got[hub.TaskBacklog] != tasks {
			t.Errorf("got %v, want %d in the backlog", got, tasks)
		}
	})
	t.Run("a put that another hub overtakes is made again, from what is there now", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n2\n3\n"))
		slow := &overtaken{Store: r.store, first: func() { r.must(cy, put("a", 1, "one\n2\n3\n")) }}
		second, err := team.New(slow, r.mail, &team.Options{Clock: r.clock, Artifacts: r.content})
		wantCode(t, err, "", "")
		q := put("a", 1, "1\n2\nthree\n")
		got, err := second.Perform(t.Context(), bo, "auth", q)
		wantCode(t, err, "", "")
		if got.Artifact.State != hub.MergeResolved || len(got.Artifact.Beside) != 0 {
			t.Errorf("got %+v, want both merged", got.Artifact)
		}
		if text := r.text("a", got.Artifact.Version); text != "one\n2\nthree\n" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("an artifact has at most 1000 versions beside the newest", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n"))
		r.must(bo, put("a", 1, "2\n"))
		err := r.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			a, err := tx.Teamspaces().TeamArtifact("auth", "a")
			for i := range 1000 {
				a.Beside = append(a.Beside, int64(i)+3)
			}
			if err != nil {
				return err
			}
			return tx.WriteTeamspaces().PutTeamArtifact(a)
		})
		wantCode(t, err, "", "")
		r.refuse(cy, put("a", 1, "3\n"), hub.CodeTooLarge, "(1000)")
		r.must(cy, put("a", 2, "3\n"))
	})
	t.Run("a conflict of a team that an earlier version closed is not escalated", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(bo, put("a", 0, "1\n"))
		r.must(bo, put("a", 1, "2\n"))
		r.must(cy, put("a", 1, "3\n"))
		err := r.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			was, err := tx.Teamspaces().Team("auth")
			if err != nil {
				return err
			}
			closed, err := was.Advance(hub.TeamClosed, r.clock.Now())
			if err != nil {
				return err
			}
			return tx.WriteTeamspaces().PutTeam(closed)
		})
		wantCode(t, err, "", "")
		r.inbox(ana)
		r.now = r.now.Add(5 * time.Hour)
		wantCode(t, r.teams.Sweep(t.Context()), "", "")
		if _, told := r.inbox(ana); len(told) > 0 {
			t.Errorf("ana was told %s", strings.Join(told, " "))
		}
		if got := r.must(ana, team.ReadArtifact{Artifact: "a"}).Artifact.State; got != hub.MergeManual {
			t.Errorf("the artifact is %s", got)
		}
	})
}

// Rules about negotiations and disagreements of a team.
func TestDecisionsOfATeam(t *testing.T) {
	disagree := func(r *room, policy hub.Policy) string {
		r.Helper()
		d := mailroom.Draft{To: to("bo"), Type: hub.TypePositionState, Team: "auth", Policy: &policy}
		p := r.sent(ana, d, `{"topic":"db","position":"p","reasoning":"r","confidence":"low","open_to_revision":true}`)
		two := int64(2)
		r.sent(bo, mailroom.Draft{To: to("ana"), Type: hub.TypePositionChallenge, Team: "auth", Sequence: &two}, fmt.Sprintf(`{"position_id":%q,"counter_position":"c","reasoning":"r","severity":"blocking"}`, p.ID))
		return string(p.ID)
	}
	t.Run("the end of a private disagreement is told to those who took part alone", func(t *testing.T) {
		for visibility, wantTold := range map[hub.Visibility]bool{hub.VisibilityPrivate: false, hub.VisibilityTeam: true} {
			r := open(t)
			r.work(nil)
			id := disagree(r, hub.Policy{Visibility: visibility})
			r.inbox(cy)
			_, err := r.talks.Decide(t.Context(), operator, id, "we keep it", "one file")
			wantCode(t, err, "", "")
			if _, told := r.inbox(cy); (len(told) > 0) != wantTold {
				t.Errorf("%s: cy was told %q", visibility, told)
			}
			if _, told := r.inbox(bo); !strings.Contains(strings.Join(told, ""), "we keep it") {
				t.Errorf("%s: bo was told %q", visibility, told)
			}
		}
	})
	t.Run("a decision gives no task to an agent whose role forbids it", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		o, err := r.offer(ana, "bo")
		wantCode(t, err, "", "")
		for n := int64(2); n <= 5; n++ {
			who, whom := bo, hub.AgentID("ana")
			if n%2 == 1 {
				who, whom = ana, "bo"
			}
			_, err := r.tell(who, o.ID, hub.TypeTaskCounter, n, `,"proposed_changes":"later"`, whom)
			wantCode(t, err, "", "")
		}
		r.must(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleResearcher, Reason: "coverage"})
		_, err = r.talks.Decide(t.Context(), operator, string(o.ID), "accept", "do it")
		wantCode(t, err, hub.CodeDenied, "bo")
		if d, err := r.talks.Show(t.Context(), ana, string(o.ID)); err != nil || d.State != hub.TalkEscalated {
			t.Errorf("got %+v (%v)", d.Deliberation, err)
		}
	})
	t.Run("a coordinator of the team that is paused is not asked to decide", func(t *testing.T) {
		r := open(t)
		r.work(nil)
		r.must(ana, team.AddMember{Agent: "eve", Role: hub.RoleCoordinator})
		_, err := r.keys.SetState(t.Context(), operator, "eve", hub.AgentPaused)
		wantCode(t, err, "", "")
		id := disagree(r, hub.Policy{})
		if d, err := r.talks.Show(t.Context(), ana, id); err != nil || !slices.Equal(d.Deciders, to(hub.Operator)) {
			t.Errorf("deciders: got %v (%v)", d.Deciders, err)
		}
	})
}

// An overtaken store lets something happen before its first change.
type overtaken struct {
	hub.Store
	first func()
}

func (o *overtaken) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	if first := o.first; first != nil {
		o.first = nil
		first()
	}
	return o.Store.Update(ctx, d, fn)
}
