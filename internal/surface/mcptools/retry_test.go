package mcptools_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// TestRetry lets an agent send a message again that expired, with nothing but what its tools show.
func TestRetry(t *testing.T) {
	clock := new(hubtest.Clock)
	r := start(t, server.Options{Clock: clock.Now})
	planner, builder := r.overHTTP(t, r.add(t, "planner")), r.overHTTP(t, r.add(t, "builder"))
	planner.ok(t, "acp_send", map[string]any{"to": "builder", "text": "the schema is frozen", "expires_at": clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	clock.Pass(2 * time.Hour)

	got := planner.text(t, "acp_inbox", map[string]any{"wait_s": 60}).text
	if !strings.Contains(got, "→ acp_send retry m1, or acp_inbox ack [m2]") {
		t.Fatalf("the sender reads %q, want the call that sends it again", got)
	}
	if got := planner.text(t, "acp_send", map[string]any{"retry": "m1", "text": "other words"}); !got.isError || !strings.Contains(got.text, "leave the other members out") {
		t.Errorf("a retry with other words: got %q, want it refused", got.text)
	}
	planner.ok(t, "acp_send", map[string]any{"retry": "m1"})
	if got := builder.text(t, "acp_inbox", nil).text; !strings.Contains(got, "from planner, thread m1, retry of m1, expires ") || !strings.Contains(got, "the schema is frozen") {
		t.Errorf("the recipient reads %q, want the text with a reference", got)
	}
	if got := planner.text(t, "acp_send", map[string]any{"retry": "m1"}); !got.isError || !strings.Contains(got.text, "was already sent again as m3") {
		t.Errorf("a second retry: got %q, want it refused", got.text)
	}
}
