package web_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/server"
)

func TestOutsidePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, server.Options{}, "planner", "tester")
	operator := s.visitor()
	operator.signIn(s.link())
	has(t, operator.get("/outside").body, "No event sources", "No schedules")

	do(s, s.operator, api.AddSource, event.Setting{Name: "builds", Vendor: hub.VendorGitHub, Secret: "0123456789abcdef0123", To: "tester"})
	do(s, s.operator, api.AddSchedule, schedule.Setting{Every: "0 9 * * *", Zone: "UTC", To: "tester", Text: "<b>plan</b>"})
	body := operator.get("/outside").body
	has(t, body, "builds", "github", "--in-addr", "0 9 * * *", "<b>plan</b>")
	if strings.Contains(body, "<b>plan") {
		t.Error("the text of a schedule is not escaped")
	}
}
