package records_test

import (
	"fmt"
	"testing"

	"github.com/parley-agents/parley/hub"
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
	do := func(r team.Request) {
		t.Helper()
		r.Team = "core"
		_, err := teams.Perform(t.Context(), operator, r)
		told.must(nil, err)
	}
	do(team.Request{Action: "create", Objective: "o", Members: []team.Seat{{Agent: "ada", Role: hub.RoleCoordinator}, {Agent: "bob", Role: hub.RoleExecutor}}})
	do(team.Request{Action: "status", Lifecycle: hub.TeamActive})
	do(team.Request{Action: "task", Title: "t", Owner: "bob"})
	for _, text := range []string{"1\n", "2\n", "3\n"} {
		do(team.Request{Action: "artifact", Artifact: "a", ParentVersion: new(min(1, int64(text[0]-'1'))), Content: &text})
	}
	told.copy()
	told.wantClean()
	for _, test := range []struct {
		sql, thing string
		row        int64
		missing    bool
	}{
		{`UPDATE teams SET lifecycle = 'closed', body_json = replace(body_json, '"active"', '"closed"')`, "team core", told.rowOf(hub.ActionTeamMoved, 0), false},
		{`UPDATE team_tasks SET body_json = replace(body_json, '"bob"', '"ada"')`, "task T-1", told.rowOf(hub.ActionTeamTask, 1), false},
		{`DELETE FROM team_tasks`, "task T-1", told.rowOf(hub.ActionTeamTask, 1), true},
		{`UPDATE team_versions SET body_json = replace(body_json, substr(sha256, 1, 4), 'beef') WHERE n = 3`, "version 3 of a in team core", told.rowOf(hub.ActionTeamArtifact, 2), false},
		{`UPDATE team_conflicts SET state = 'resolved', body_json = replace(body_json, 'manual_merge', 'resolved')`, "conflict 3 of a in team core", told.rowOf(hub.ActionTeamConflict, 0), false},
	} {
		t.Run("what was changed beside the hub is found: "+test.sql, func(t *testing.T) {
			w := told.duplicate(t)
			w.raw(test.sql)
			w.open()
			want := fmt.Sprintf("%s: it differs from what journal row %d recorded", test.thing, test.row)
			if test.missing {
				want = fmt.Sprintf("%s: it is missing, though journal row %d records it", test.thing, test.row)
			}
			w.wantFound(want)
		})
	}
}
