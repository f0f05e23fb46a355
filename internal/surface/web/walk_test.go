package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// TestWalk is the way of an operator through the page in a real browser: sign in, see a
// message arrive, approve another, merge a conflict of a team.
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
	p.sees("Nothing is waiting for you")
	inbox := do(s, s.as("builder"), api.Inbox, api.InboxParams{})
	if len(inbox.Messages) != 1 || inbox.Messages[0].ID != held {
		t.Errorf("the inbox of builder after the approval: got %v, want the message that was held", inbox.Messages)
	}
	if got := eval[string](p, "document.title"); got != "Now · Parley" {
		t.Errorf("title after the approval: got %q", got)
	}
	t.Run("R3-161 a merge is typed, overtaken, kept and stored", func(t *testing.T) { walkMerge(s, p) })
	for _, e := range do(s, s.operator, api.Audit, api.AuditParams{Action: actions.WebSignedIn}).Entries {
		if strings.Contains(string(e.Facts), "code") {
			t.Errorf("the journal holds more than the sign-in: %s", e.Facts)
		}
	}
}

// walkMerge merges a conflict while the artifact changes.
func walkMerge(s *site, p *tab) {
	t := s.t
	t.Helper()
	s.newTeam("auth", "log in", team.Seat{Agent: "planner", Role: hub.RoleCoordinator}, team.Seat{Agent: "builder", Role: hub.RoleExecutor})
	s.put("planner", "auth", "keys.toml", 0, "keys = 1\nlimit = 5\n")
	p.click(`nav a[href="/teams"]`)
	p.sees("log in")
	p.click(`main a[href="/teams/auth"]`)
	p.sees("live")
	s.put("planner", "auth", "keys.toml", 1, "keys = 2\nlimit = 5\n")
	s.put("builder", "auth", "keys.toml", 1, "keys = 3\nlimit = 5\n")
	p.sees("made version 3 from version 1")
	p.click(`main a[href*="/merge/keys.toml"]`)
	p.sees("live")
	const field = "document.getElementById('merged')"
	p.until("the conflict is marked", field+".value.startsWith('<<<<<<< version 2')")
	typed := "keys = 23\nlimit = 5\n"
	eval[any](p, field+".value = ''")
	p.run(chromedp.SendKeys(chromedp.CSS("#merged"), typed))
	s.put("planner", "auth", "keys.toml", 2, "keys = 2\nlimit = 5\nadded = 1\n")
	p.until("the pane shows the version that came", "document.querySelector('[aria-label=Newest]').innerText.includes('added = 1')")
	if got := eval[string](p, field+".value + document.querySelector('#merge [name=newest]').value"); got != typed+"2" {
		t.Errorf("the form has %q after another version came, want the words and version 2", got)
	}
	p.click("#merge button.main")
	p.sees("is not the newest version of keys.toml; 4 is")
	p.sees("live")
	s.hold("planner", "builder", "May I go on?")
	p.until("the page was rendered again", "document.title.startsWith('(1) Merge keys.toml')")
	if got := eval[string](p, field+".value"); got != typed {
		t.Errorf("the form has %q after it was refused", got)
	}
	p.click("#merge button.main")
	p.sees("Version 5 of keys.toml is the merge")
	if got := s.team("", api.TeamParams{Action: "artifact", Team: "auth", Artifact: "keys.toml"}); *got.Content != typed || got.Artifact.State != hub.MergeResolved {
		t.Errorf("stored: %q, %s", *got.Content, got.Artifact.State)
	}
}
