package web_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/demo"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/server"
)

// demoSite is a hub with the data of the demo, and a few more agents with things that
// wait for a person.
func demoSite(t testing.TB) *site {
	t.Helper()
	dir := t.TempDir()
	if os.Getenv("PARLEY_SCREENSHOTS") != "" { // a name that people can read
		dir = filepath.Join(os.TempDir(), "demo")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	dir, err := filepath.EvalSymlinks(dir) // a root is not reached through a link
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
	s.thread = string(s.send("reviewer", "builder", "The migration lacks an index on users.avatar. Is that on purpose?"))
	answer := func(from hub.AgentID, to hub.EnvelopeID, text string) hub.EnvelopeID {
		return do(s, s.as(from), api.Respond, api.SendParams{ReplyTo: to, Text: text}).ID
	}
	said := answer("builder", hub.EnvelopeID(s.thread), "Yes. No query searches by avatar, and an index would cost each write.")
	said = answer("reviewer", said, "Then I agree. Please say so in the migration, so that the next reader need not ask.")
	answer("builder", said, "Done: the comment names this thread.")
	s.send("tester", "builder", "14 tests of the loader pass with avatar set to null.")
	s.send("reviewer", "planner", "Looks good. One question is with the operator.")
	s.send("reviewer", "operator", "Should old clients get an empty string or null for a missing avatar?")
	s.hold("builder", "tester", "Drop the table users_old on the test database: it is not needed any more.")
	do(s, s.as("planner"), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "docs-writer", TaskID: "T-2", Title: "Describe the nullable avatar", Summary: "The schema changed: avatar may be null.",
		NextStep: "update docs/schema.md", Criteria: []string{"the page names the change"}, NeedsHuman: true, Reason: "the docs are read by customers",
	})
	runDemo(s)
	teamDemo(s)
	filesDemo(s, dir)
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

// shots are the pages that stand in the docs. A page below another one is the first that
// the other leads to.
var shots = []struct{ name, path, below string }{
	{"now", "/", ""}, {"agent", "/", "/agents/migrator"}, {"conversations", "/conversations", ""}, {"conversation", "/conversations", "/conversations/"},
	{"handoffs", "/handoffs", ""}, {"handoff", "/handoffs", "/handoffs/"}, {"teams", "/teams", ""}, {"team", "/teams", "/teams/"}, {"merge", "/teams/avatars", "/teams/avatars/merge/"}, {"files", "/files", ""}, {"runs", "/runs", ""}, {"run", "/runs", "/runs/"},
	{"contracts", "/contracts", ""}, {"contract", "/contracts", "/contracts/"}, {"journal", "/journal", ""}, {"health", "/health", ""},
}

// TestScreenshots writes a picture of each page, light and dark, into the folder in
// PARLEY_SCREENSHOTS; scripts/screenshots calls it. PARLEY_PHONE adds pictures at the
// width of a phone.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("PARLEY_SCREENSHOTS")
	if dir == "" {
		t.Skip("PARLEY_SCREENSHOTS names no folder")
	}
	one, two, browser := demoSite(t), pairSite(t), newBrowser(t)
	one.keep("migrator")
	do(one, one.operator, api.PromptAgent, api.PromptParams{Agent: "migrator", Text: "Migrate the test database, and please ask before you do."})
	one.wait("the kept agent asks", func() bool { return len(do(one, one.operator, api.ListKept, api.None{}).Agents[0].Asks) == 1 })
	p := browser.tab()
	p.signIn(two.link())
	p.signIn(one.link())
	for _, shot := range shots {
		if shot.name == "conversation" {
			shot.below += one.thread
		}
		s := one
		if shot.path == "/contracts" {
			s = two
		}
		for _, scheme := range []string{"light", "dark"} {
			command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			p.run(chromedp.EmulateViewport(1200, 780))
			p.open(s.page + shot.path)
			p.sees("live")
			if shot.below != "" {
				p.open(eval[string](p, fmt.Sprintf("[...document.querySelectorAll('main a')].findLast(a => a.pathname.startsWith(%q)).href", shot.below)))
				p.sees("live")
			}
			p.shoot(filepath.Join(dir, shot.name+"-"+scheme+".png"))
			if scheme == "light" && os.Getenv("PARLEY_PHONE") != "" {
				p.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
				p.shoot(filepath.Join(dir, shot.name+"-phone.png"))
			}
		}
	}
}

// tallest is the height of a picture in pixels; the rest of a page is left out.
const tallest = 1300

// shoot writes a small picture of the page: its most frequent colours are its palette.
func (p *tab) shoot(file string) {
	p.t.Helper()
	raw, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		p.t.Fatal(err)
	}
	size := picture.Bounds()
	size.Max.Y = min(size.Max.Y, size.Min.Y+tallest)
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}
	small, index := image.NewPaletted(size, palette), map[color.RGBA]uint8{}
	for _, c := range colors {
		index[c] = uint8(palette.Index(c))
	}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			small.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	if err == nil {
		err = os.WriteFile(file, out.Bytes(), 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
