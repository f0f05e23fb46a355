package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/server"
)

func TestSpendPage(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "tester")
	operator, viewer := s.visitor(), s.visitor()
	operator.signIn(s.link())
	viewer.signIn(s.invite("ben"))
	has(t, operator.get("/spend").body, "No usage was recorded", "No budgets")

	call := hub.ModelCall{ID: "m1", Model: "gpt-5", Tokens: hub.Tokens{Input: 1_000_000, Output: 5000}}
	report := usage.Report{Source: hub.UsagePlugin, CLI: "pi", Ended: true, Calls: []hub.ModelCall{call}}
	do(s, s.as("tester"), api.RecordUsage, report)
	do(s, s.operator, api.SetBudget, usage.Limit{Of: "tester", Tokens: 1_000_000, Per: hub.PerDay})
	body := operator.get("/spend?by=model").body
	has(t, body, "gpt-5", "1,000,000", "5,000", "~1.30 USD", "<rect class=\"day\"", "1,005,000 tokens", "spent")

	viewer.do("stop-now", url.Values{"back": {"/spend"}})
	if strings.Contains(viewer.get("/spend").body, "/do/stop-now") || do(s, s.operator, api.ListSessions, api.AgentNameParams{}).Paused {
		t.Error("a viewer can stop agents")
	}
	operator.do("stop-now", url.Values{"back": {"/spend"}})
	if !do(s, s.operator, api.ListSessions, api.AgentNameParams{}).Paused {
		t.Error("the agents are not paused")
	}
}
