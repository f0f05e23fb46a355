package mcptools

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
)

// A bomb cannot be written.
type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("boom") }

func TestPanicInAnAnswer(t *testing.T) {
	t.Run("a panic while an answer is written does not end the hub", func(t *testing.T) {
		got := new(readers).present("alice", &toolCall{asJSON: true}, func([]byte) (any, error) { return bomb{}, nil })
		text, ok := got.Content[0].(*mcp.TextContent)
		if !got.IsError || !ok || text.Text != "internal: cannot write the answer: boom\n" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestAnswersNameTheLevel writes answers about work whose checks ran. They say how these were confined.
func TestAnswersNameTheLevel(t *testing.T) {
	results := []hub.CheckResult{
		{Name: "test", State: hub.ResultPassed, Confined: true, Level: 2, Not: []string{"priorities"}},
		{Name: "lint", State: hub.ResultPassed},
		{Name: "docs", State: hub.ResultRunning},
	}
	const want = "test passed (level 2; not: priorities), lint passed (not confined), docs running"
	var running, closed strings.Builder
	writeHandoff(&running, handoff.Report{Status: hub.HandoffActivated, Checking: true, Results: results}, nil)
	writeHandoff(&closed, handoff.Report{Status: hub.HandoffClosed, Results: results}, nil)
	if !strings.Contains(running.String(), "("+want+")") || !strings.Contains(closed.String(), "checks: "+want+".") {
		t.Errorf("got %q and %q, want %q", running.String(), closed.String(), want)
	}
}
