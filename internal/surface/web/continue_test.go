package web_test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// TestContinueButton has a person continue the task of an agent without quota on the page of the
// handoff.
func TestContinueButton(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder", "tester")
	operator, viewer := s.visitor(), s.visitor()
	operator.signIn(s.link())
	viewer.signIn(s.invite("ben"))
	made := do(s, s.as("planner"), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-1", Title: "write the parser", Objective: "a parser", Summary: "begin", NextStep: "write it", Criteria: []string{"tests pass"},
	})
	id := made.Report.ID
	do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "accept", ID: id})
	page := "/handoffs/" + string(id)
	if strings.Contains(operator.get(page).body, "/do/continue") {
		t.Error("a task whose agent works can be continued")
	}

	report := wake.Report{Key: wake.Key{CLI: "claude", ID: "s1", Process: os.Getpid()}, Event: wake.EventStart}
	do(s, s.as("builder"), api.ReportWake, report)
	report.Event = wake.EventTurnEnd
	report.Reason = hub.ContinueQuota
	do(s, s.as("builder"), api.ReportWake, report)
	continuations := func() []hub.Continuation {
		return do(s, s.operator, api.Continuations, api.ContinuationListParams{}).Continuations
	}
	s.wait("the task waits", func() bool { return len(continuations()) == 1 })
	has(t, operator.get(page).body, "builder is out of quota", "/do/continue", "<option>tester</option>", "<option>self</option>")

	fields := url.Values{"back": {page}, "id": {string(id)}, "with": {"tester"}}
	if strings.Contains(viewer.get(page).body, "/do/continue") {
		t.Error("a viewer has the button")
	}
	viewer.do("continue", fields)
	if c := continuations()[0]; c.State != hub.ContinuationWaiting {
		t.Errorf("a viewer continued the task: %+v", c)
	}
	operator.do("continue", fields)
	if c := continuations()[0]; c.State != hub.ContinuationOffered || c.To != "tester" {
		t.Errorf("got %+v", c)
	}
	do(s, s.as("tester"), api.Handoff, api.HandoffParams{Action: "accept", ID: continuations()[0].Next})
	if strings.Contains(operator.get(page).body, "/do/continue") {
		t.Error("the button is there after the task went on")
	}
}

// TestContinueTeamTask has a person continue a task of a team that came without a handoff on the
// page of the team.
func TestContinueTeamTask(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder", "tester")
	operator := s.visitor()
	operator.signIn(s.link())
	s.newTeam("core", "work", team.Seat{Agent: "planner", Role: hub.RoleCoordinator}, team.Seat{Agent: "builder", Role: hub.RoleExecutor}, team.Seat{Agent: "tester", Role: hub.RoleExecutor})
	s.newTeam("docs", "write", team.Seat{Agent: "planner", Role: hub.RoleCoordinator})
	task := s.team("", api.TeamParams{Action: "task", Team: "core", Title: "write the parser", Owner: "builder"}).Task.ID
	s.team("builder", api.TeamParams{Action: "task", Team: "core", Task: task, State: hub.TaskInProgress})
	report := wake.Report{Key: wake.Key{CLI: "claude", ID: "s1", Process: os.Getpid()}, Event: wake.EventStart}
	do(s, s.as("builder"), api.ReportWake, report)
	report.Event = wake.EventTurnEnd
	report.Reason = hub.ContinueLogin
	do(s, s.as("builder"), api.ReportWake, report)
	continuations := func() []hub.Continuation {
		return do(s, s.operator, api.Continuations, api.ContinuationListParams{}).Continuations
	}
	s.wait("the task waits", func() bool { return len(continuations()) == 1 })
	has(t, operator.get("/teams/core").body, "builder lost its login", string(task), "/do/continue", "<option>tester</option>")
	if strings.Contains(operator.get("/teams/docs").body, "lost its login") {
		t.Error("the task is on the page of another team")
	}
	operator.do("continue", url.Values{"back": {"/teams/core"}, "id": {string(task)}, "with": {"tester"}})
	if c := continuations()[0]; c.State != hub.ContinuationOffered || c.To != "tester" {
		t.Errorf("got %+v", c)
	}
}
