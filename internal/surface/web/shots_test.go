package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/demo"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/server"
)

// demoSite is a hub with the data of the demo, and a few more agents with things that
// wait for a person.
func demoSite(t testing.TB) *site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // a root is not reached through a link
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Task(t.Context(), dir, "demo", func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, server.Options{Home: filepath.Join(dir, demo.Home)}, "reviewer", "tester", "docs-writer")
	for _, id := range []hub.AgentID{"planner", "builder"} {
		s.keys[id] = do(s, s.operator, api.AddKey, api.AgentParams{ID: id, Label: "page"}).Key
	}
	s.send("planner", "reviewer", "Please look at the migration before it goes out.")
	s.send("reviewer", "builder", "The migration lacks an index on users.avatar. Is that on purpose?")
	s.send("builder", "reviewer", "Yes: nobody searches by avatar.")
	s.send("tester", "builder", "14 tests of the loader pass with avatar set to null.")
	s.send("reviewer", "planner", "Looks good. One question is with the operator.")
	s.send("reviewer", "operator", "Should old clients get an empty string or null for a missing avatar?")
	s.hold("builder", "tester", "Drop the table users_old on the test database: it is not needed any more.")
	do(s, s.as("planner"), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "docs-writer", TaskID: "T-2", Title: "Describe the nullable avatar", Summary: "The schema changed: avatar may be null.",
		NextStep: "update docs/schema.md", Criteria: []string{"the page names the change"}, NeedsHuman: true, Reason: "the docs are read by customers",
	})
	runDemo(s)
	return s
}

// pairSite is a hub with the data of the demo of two hubs.
func pairSite(t testing.TB) *site {
	t.Helper()
	folder := t.TempDir()
	if err := demo.Coordination(t.Context(), folder, "demo", func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	return newSite(t, server.Options{Home: filepath.Join(folder, "backend"), Coordination: server.Coordination{AID: "aid://backend.example/hub@1.0.0", Repo: "backend-api"}})
}

// shots are the pages that stand in the docs.
var shots = []struct{ name, path string }{
	{"now", "/"}, {"conversations", "/conversations"}, {"conversation", "/conversations"}, {"handoffs", "/handoffs"}, {"handoff", "/handoffs"},
	{"runs", "/runs"}, {"contracts", "/contracts"}, {"contract", "/contracts"}, {"journal", "/journal"}, {"health", "/health"},
}

// TestScreenshots writes a picture of each page, light and dark, into the folder in
// PARLEY_SCREENSHOTS; scripts/screenshots calls it.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("PARLEY_SCREENSHOTS")
	if dir == "" {
		t.Skip("PARLEY_SCREENSHOTS names no folder")
	}
	s, browser := demoSite(t), newBrowser(t)
	p := browser.tab()
	p.signIn(s.link())
	for _, shot := range shots {
		if shot.name == "contracts" { // of the demo of two hubs
			s = pairSite(t)
			p.signIn(s.link())
		}
		if shot.name == "journal" {
			s = demoSite(t)
			p.signIn(s.link())
		}
		for _, scheme := range []string{"light", "dark"} {
			command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			p.run(chromedp.EmulateViewport(1200, 780))
			p.open(s.page + shot.path)
			p.sees("live")
			if shot.name == "handoff" || shot.name == "contract" || shot.name == "conversation" {
				address := eval[string](p, fmt.Sprintf("[...document.querySelectorAll('main a')].findLast(a => a.pathname.startsWith(%q + '/')).href", shot.path))
				p.open(address)
				p.sees("live")
			}
			p.shoot(filepath.Join(dir, shot.name+"-"+scheme+".png"))
			if scheme == "light" && os.Getenv("PARLEY_SCREENSHOTS_ALL") != "" {
				p.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
				p.shoot(filepath.Join(dir, shot.name+"-phone.png"))
			}
		}
	}
}

func (p *tab) shoot(file string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
