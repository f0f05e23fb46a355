package sqlite

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/rows"
)

// wantPlan keeps a statement on the index it is there for: nothing may scan a
// table that grows, and no long list may be sorted. The handoffs that are open
// are few.
func wantPlan(t *testing.T, c *conn, sql string) {
	t.Helper()
	st, _, err := c.db.Prepare(`EXPLAIN QUERY PLAN ` + sql)
	if err != nil {
		t.Errorf("%s: %v", sql, err)
		return
	}
	var plan []string
	for st.Step() {
		plan = append(plan, st.ColumnText(3))
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	for _, step := range plan {
		walks := strings.HasPrefix(step, "SCAN ") && !strings.Contains(step, "VIRTUAL TABLE") && !strings.Contains(step, "VALUES CLAUSE") &&
			!strings.Contains(step, "(subquery") && !slices.Contains(plan, "CO-ROUTINE "+strings.TrimPrefix(step, "SCAN ")) && !strings.Contains(step, "CONSTANT ROW")
		walks = walks && !strings.Contains(sql, "WHERE 1 = 1 ORDER BY") // a page of everything
		if walks || !strings.Contains(sql, "escalated_at <") && step == "USE TEMP B-TREE FOR ORDER BY" {
			t.Errorf("statement:\n%s\nhas the plan\n%s", sql, strings.Join(plan, "\n"))
		}
	}
}

func TestPlans(t *testing.T) {
	s := openTest(t, nil)
	r := <-s.readers
	defer func() { s.readers <- r }()
	few := regexp.MustCompile(`FROM (agents|agent_keys|roots|peers|journal_archives|budgets|event_sources|schedules|repository_checks|landing_policies|progress WHERE checks = 'running') .*ORDER BY|^(BEGIN|COMMIT|ROLLBACK)|sqlite_schema`) // a few rows
	for _, sql := range rows.Statements(rows.SQLite) {
		if !few.MatchString(sql) {
			wantPlan(t, r.c, sql)
		}
	}
	check := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for sql := range r.c.made {
			wantPlan(t, r.c, sql)
		}
		for _, st := range r.c.made {
			st.Close()
		}
		clear(r.c.made)
	}
	sets := []func(q *hub.Query){
		func(q *hub.Query) { q.Agent = "cleo" }, func(q *hub.Query) { q.Thread = "t" }, func(q *hub.Query) { q.Team = "core" }, func(q *hub.Query) { q.Type = hub.TypeStatusUpdate },
		func(q *hub.Query) { q.Status = hub.StatusRead }, func(q *hub.Query) { q.Since = hub.At(time.Now()) }, func(q *hub.Query) { q.Text = "x" },
	}
	for mask := range 1 << len(sets) {
		for _, viewer := range []hub.AgentID{"", "ada"} {
			q := hub.Query{Viewer: viewer, Audit: viewer == "", Limit: 9}
			for i, set := range sets {
				if mask>>i&1 == 1 {
					set(&q)
				}
			}
			_, err := r.Query(q)
			check(fmt.Sprintf("%+v", q), err)
		}
	}
	for _, f := range []hub.HandoffQuery{
		{}, {Task: "T"}, {Task: "T", Owned: true}, {Task: "T", States: hub.ActiveHandoffs}, {Viewer: "ada", Cursor: "x"}, {From: "ada"}, {To: "ada"}, {Late: &hub.Lateness{}},
	} {
		f.Limit = 9
		_, err := r.Handoffs(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []hub.TeamQuery{{Member: "ada"}, {Lifecycle: hub.TeamActive, Cursor: "x"}, {All: true}} {
		f.Limit = 9
		_, err := r.Teams(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []hub.MemberQuery{{Team: "core"}, {Team: "core", Agent: "ada", Ended: true}, {Agent: "ada"}} {
		f.Limit = 9
		_, err := r.Members(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []hub.TaskQuery{{Team: "core", Cursor: "T-4"}, {Team: "core", States: []hub.TaskState{hub.TaskInProgress}}, {Team: "core", Owner: "ada"}, {Owner: "ada"},
		{Item: "app#1"}, {Queue: true, Cursor: "T-4"}, {Queue: true, States: []hub.TaskState{hub.TaskBacklog}}, {Queue: true, States: []hub.TaskState{hub.TaskInProgress}, ByName: true},
		{Queue: true, Owner: "ada", States: []hub.TaskState{hub.TaskInProgress}, ByName: true}} {
		f.Limit = 9
		_, err := r.Tasks(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []hub.RunQuery{{}, {Viewer: "ada"}, {Agent: "ada"}, {Handoff: "h"}, {Open: true}, {Open: true, Agent: "ada", Cursor: "x"}} {
		f.Limit = 9
		_, err := r.Runs(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []coord.PacketQuery{{Project: "p"}, {Project: "p", Newest: true}, {Project: "p", ReplyTo: "q"}, {Project: "p", Type: coord.ContextQuestion}} {
		f.Limit = 9
		_, err := r.Packets(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []coord.ContractQuery{{Project: "p"}, {Project: "p", Conflicted: true}, {Project: "p", Status: coord.ContractAgreed}} {
		f.Limit = 9
		_, err := r.Contracts(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []coord.ResultQuery{
		{Project: "p", Repo: "r", Commit: "c"}, {Project: "p", Repo: "r", Tree: "t"}, {Project: "p", Repo: "r", Contract: "c", Kind: coord.ResultRun, Commit: "x"},
		{Project: "p", Contract: "c", Repo: "r", Version: 2, Kind: coord.ResultRun}, {Project: "p", Before: 7},
	} {
		f.Limit = 9
		_, err := r.Coordination().Results(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []coord.DeploymentQuery{{Project: "p", Repo: "r"}, {Project: "p", Before: 7}} {
		f.Limit = 9
		_, err := r.Coordination().Deployments(f)
		check(fmt.Sprintf("%+v", f), err)
	}
	for _, f := range []hub.InviteQuery{{ID: "i"}, {Hash: "h"}, {Project: "p"}} {
		f.Limit = 9
		_, err := r.Invites(f)
		check(fmt.Sprintf("%+v", f), err)
	}
}
