package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/server"
)

// TestWalk is the way of an operator through the page in a real browser: sign in, see a
// message arrive, approve another.
func TestWalk(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	held := s.hold("planner", "builder", "May I drop the table users?")
	p := newBrowser(t).tab()
	p.signIn(s.link())
	p.sees("May I drop the table users?")
	p.sees("live")
	if got, want := eval[string](p, "document.title"), "(1) Now · Parley"; got != want {
		t.Errorf("title: got %q, want %q", got, want)
	}
	s.send("builder", "planner", "The schema is frozen.")
	p.sees("The schema is frozen.")
	p.click(fmt.Sprintf(`#held-%s form[action="/do/approve"] button`, held))
	p.sees("Nothing waits for you")
	inbox := do(s, s.as("builder"), api.Inbox, api.InboxParams{})
	if len(inbox.Messages) != 1 || inbox.Messages[0].ID != held {
		t.Errorf("the inbox of builder after the approval: got %v, want the message that was held", inbox.Messages)
	}
	if got := eval[string](p, "document.title"); got != "Now · Parley" {
		t.Errorf("title after the approval: got %q", got)
	}
	for _, e := range do(s, s.operator, api.Audit, api.AuditParams{Action: hub.ActionWebSignedIn}).Entries {
		if strings.Contains(string(e.Facts), "code") {
			t.Errorf("the journal holds more than the sign-in: %s", e.Facts)
		}
	}
}
