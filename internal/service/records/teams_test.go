package records_test

import (
	"fmt"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/service/team"
)

func TestTeams(t *testing.T) {
	t.Parallel()
	told := newWorld(t)
	content, err := blobs.Open(t.TempDir(), nil)
	told.must(nil, err)
	teams, err := team.New(told.store, told.mail, &team.Options{Clock: told.clock, Artifacts: content})
	told.must(nil, err)
	do := func(r team.Request) team.Answer {
		t.Helper()
		a, err := teams.Perform(t.Context(), operator, "core", r)
		told.must(nil, err)
		return a
	}
	do(team.Create{Objective: "o", Members: []team.Seat{{Agent: "ada", Role: hub.RoleCoordinator}, {Agent: "bob", Role: hub.RoleExecutor}}})
	do(team.Move{Lifecycle: hub.TeamActive})
	do(team.CreateTask{Title: "t", Owner: "bob"})
	do(team.ChangeRole{Agent: "bob", Role: hub.RoleReviewer, Reason: "coverage"})
	do(team.AddMember{Agent: "eve", Role: hub.RoleResearcher})
	do(team.RemoveMember{Agent: "eve"})
	decided := do(team.Decide{Decision: "we use tabs", Rationale: "they are there"}).Decision.ID
	_, err = teams.Authority(t.Context(), operator, "core", []team.Cell{{Role: hub.RoleReviewer, Action: hub.MayBlock, Permit: hub.PermitDeny}})
	told.must(nil, err)
	do(team.AddMember{Agent: "eve", Role: hub.RoleExecutor})
	told.must(nil, teams.SetSuccessors(t.Context(), operator, "core", []hub.AgentID{"eve"}))
	for _, text := range []string{"1\n", "2\n", "3\n"} {
		do(team.PutArtifact{Artifact: "a", Parent: min(1, int64(text[0]-'1')), Content: team.Text(text)})
	}
	told.must(nil, told.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		item := hub.Task{Title: "queue:1", State: hub.TaskInProgress, Owner: "ada", UpdatedAt: hub.At(told.clock())}
		if _, err := tx.WriteTeamspaces().PutTask(item); err != nil {
			return err
		}
		_, err := tx.Append(operator.Entry(hub.At(told.clock()), actions.Claimed, "queue:1", map[string]any{"owner": "ada"}))
		return err
	}))
	told.copy()
	told.wantClean()
	for _, test := range []struct {
		sql, thing string
		row        int64
		missing    bool
	}{
		{`UPDATE teams SET lifecycle = 'closed', body_json = replace(body_json, '"active"', '"closed"')`, "team core", told.rowOf(actions.TeamMoved, 0), false},
		{`UPDATE tasks SET body_json = replace(body_json, '"bob"', '"ada"')`, "task T-1", told.rowOf(actions.TeamTask, 1), false},
		{`UPDATE tasks SET body_json = replace(body_json, '"title":"t"', '"title":"u"')`, "task T-1", told.rowOf(actions.TeamTask, 1), false},
		{`UPDATE teams SET body_json = replace(body_json, '"human_gate_actions":[]', '"human_gate_actions":["close"]')`, "policy of team core", told.rowOf(actions.TeamPolicy, 1), false},
		{`UPDATE teams SET body_json = replace(body_json, '"successors":["eve"]', '"successors":["bob"]')`, "policy of team core", told.rowOf(actions.TeamPolicy, 1), false},
		{`UPDATE teams SET body_json = replace(body_json, '"deny"', '"allow"')`, "permit reviewer:block of team core", told.rowOf(actions.TeamPolicy, 0), false},
		{`UPDATE team_members SET role = 'coordinator' WHERE agent = 'bob' AND until IS NULL`, "member bob of team core", told.rowOf(actions.TeamRole, 0), false},
		{`DELETE FROM team_members WHERE agent = 'bob'`, "member bob of team core", told.rowOf(actions.TeamRole, 0), true},
		{`UPDATE decisions SET body_json = replace(body_json, 'tabs', 'dots')`, "decision " + decided, told.rowOf(actions.TeamDecided, 0), false},
		{`UPDATE tasks SET owner = 'bob', body_json = replace(body_json, '"ada"', '"bob"') WHERE item = 'queue:1'`, "claim queue:1", told.rowOf(actions.Claimed, 0), false},
		{`DELETE FROM tasks WHERE team IS NOT NULL`, "task T-1", told.rowOf(actions.TeamTask, 1), true},
		{`DELETE FROM tasks WHERE team IS NULL`, "claim queue:1", told.rowOf(actions.Claimed, 0), true},
		{`UPDATE team_versions SET body_json = replace(body_json, substr(sha256, 1, 4), 'beef') WHERE n = 3`, "version 3 of a in team core", told.rowOf(actions.TeamArtifact, 2), false},
		{`UPDATE team_conflicts SET state = 'resolved', body_json = replace(body_json, 'manual_merge', 'resolved')`, "conflict 3 of a in team core", told.rowOf(actions.TeamConflict, 0), false},
	} {
		t.Run("what was changed beside the hub is found: "+test.sql, func(t *testing.T) {
			w := told.duplicate(t)
			w.raw(test.sql)
			w.open()
			want := fmt.Sprintf("%s: it differs from journal row %d", test.thing, test.row)
			if test.missing {
				want = fmt.Sprintf("%s: it is missing, though journal row %d records it", test.thing, test.row)
			}
			w.wantFound(want)
		})
	}
}
