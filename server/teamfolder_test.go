package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/team"
)

// The lines about a handoff in the folder of its team have the task and the reason; those of a
// restricted one say only that.
func TestHandoffsOfATeamInItsFolder(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	keys := r.team(t, "auth", nil, team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor}, team.Seat{Agent: "di", Role: hub.RoleExecutor})
	task := map[bool]string{}
	for _, secret := range []bool{false, true} {
		p := api.HandoffParams{
			Action: "initiate", To: "di", Team: "auth", Title: "rotate the keys", Objective: "o", Summary: "the old ones leaked", Reason: "the old ones leaked", NextStep: "n", Criteria: api.Criteria{"c"},
		}
		if secret {
			p.Title, p.Reason, p.Classification, p.NeedsHuman = "SESAME", "SESAME", "restricted", true
		}
		task[secret] = string(r.teamDo(t, keys["ana"], api.TeamParams{Action: "task", Team: "auth", Title: "rotate the keys", Owner: "bo"}).Task.ID)
		p.TaskID = task[secret]
		mustCall(t, r.as(keys["bo"]), api.Handoff, p)
	}
	lines := func() string {
		raw, _ := os.ReadFile(filepath.Join(r.home, "_shared", "teamspaces", "auth", "handoffs", "handoffs.jsonl"))
		return string(raw)
	}
	eventually(t, "both handoffs are in the folder", func() bool { return strings.Contains(lines(), task[true]) })
	t.Run("R3-066 a handoff has its task and its reason", func(t *testing.T) {
		has(t, lines(), `"task_id":"`+task[false]+`","title":"rotate the keys","reason":"the old ones leaked"`)
	})
	t.Run("R3-066 R3-065 a restricted one has neither", func(t *testing.T) {
		has(t, lines(), `"task_id":"`+task[true]+`","title":"restricted","reason":"restricted"`)
		if strings.Contains(lines(), "SESAME") {
			t.Error("the folder has the text of a restricted handoff")
		}
	})
}
