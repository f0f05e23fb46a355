package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// A workshop is a site with a repository that has two working trees, app and copy.
type workshop struct {
	*site
	clock     *hubtest.Clock
	app, copy string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{clock: new(hubtest.Clock)}
	w.site = newSite(t, server.Options{Clock: w.clock.Now, Roots: []string{root}, Limits: server.Limits{Unsafe: true}}, "builder", "tester")
	w.layOut(root)
	return w
}

// layOut makes the repository and its two working trees in a folder.
func (w *workshop) layOut(root string) {
	w.t.Helper()
	w.app = filepath.Join(root, "app")
	w.copy = filepath.Join(root, "copy")
	if err := os.Mkdir(w.app, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.app, "a.go"), []byte("package a\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "first"}, {"worktree", "add", "-q", w.copy}} {
		git := append([]string{"-C", w.app, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)
		if out, err := exec.Command("git", git...).CombinedOutput(); err != nil {
			w.t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
}

// filesDemo has agents of the demo change files: one waits, two change the same file in two working
// trees, and a command of one changes a file of another.
func filesDemo(s *site, dir string) {
	s.t.Helper()
	root := filepath.Join(dir, "src")
	if err := os.Mkdir(root, 0o700); err != nil {
		s.t.Fatal(err)
	}
	do(s, s.operator, api.AddRoot, api.RootParams{Path: root})
	w := &workshop{site: s}
	w.layOut(root)

	w.edit("builder", w.app, "loader.go", "package loader\n")
	w.edit("builder", w.app, "a.go", "package b\n")
	w.edit("tester", w.app, "loader_test.go", "package loader\n")
	w.edit("reviewer", w.copy, "a.go", "package c\n")
	w.ask("tester", w.app, reservation.Edit, "loader.go")
	do(s, s.as("docs-writer"), api.ReserveFiles, api.ReserveParams{Request: reservation.Request{Tree: w.app, Patterns: []string{"docs/*.md"}, Why: "describe the nullable avatar"}})

	command := reservation.Question{Tree: w.app, Kind: reservation.Edit, Command: "make generate"}
	do(s, s.as("tester"), api.AskFiles, command)
	if err := os.WriteFile(filepath.Join(w.app, "a.go"), []byte("package generated\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	command.Kind = reservation.After
	do(s, s.as("tester"), api.AskFiles, command)
}

// ask asks the hub about files as the guard of an agent does, and returns the decision.
func (w *workshop) ask(agent hub.AgentID, tree string, kind reservation.Kind, paths ...string) string {
	w.t.Helper()
	return do(w.site, w.as(agent), api.AskFiles, reservation.Question{Tree: tree, Paths: paths, Kind: kind}).Decision
}

// edit changes a file as an agent, with the questions of its guard before and after.
func (w *workshop) edit(agent hub.AgentID, tree, name, text string) {
	w.t.Helper()
	if got := w.ask(agent, tree, reservation.Edit, name); got != reservation.Allow {
		w.t.Fatalf("%s may not change %s: %s", agent, name, got)
	}
	if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.ask(agent, tree, reservation.After, name)
}

var tags = regexp.MustCompile(`<[^>]*>|\s+`)

// wordsOf returns the text of a page without its tags, with one space between words.
func wordsOf(body string) string {
	return html.UnescapeString(strings.Join(strings.Fields(tags.ReplaceAllString(body, " ")), " "))
}

// rows returns the ids of the reservations on a page.
func rows(body string) (ids []string) {
	for _, m := range regexp.MustCompile(`<tr id="(r\d+)">`).FindAllStringSubmatch(body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestFiles(t *testing.T) {
	w := newWorkshop(t)
	operator, viewer := w.visitor(), w.visitor()
	operator.signIn(w.link())
	viewer.signIn(w.invite("ben"))
	if body := operator.get("/files").body; !strings.Contains(body, "No agent holds a file.") || strings.Contains(operator.get("/").body, "changes 1 file") {
		t.Errorf("files are held at the start:\n%s", body)
	}

	w.edit("builder", w.app, "a.go", "package b\n")
	if got := w.ask("tester", w.app, reservation.Edit, "a.go"); got != reservation.Deny {
		t.Fatalf("tester may change the file of builder: %s", got)
	}
	held := rows(operator.get("/files").body)

	t.Run("a file with its holder and the agent that waits, for operators and viewers", func(t *testing.T) {
		for _, v := range []*visitor{operator, viewer} {
			body := v.get("/files").body
			has(t, wordsOf(body), w.app, "a.go builder", "held tester")
			if len(held) != 1 || len(rows(body)) != 1 {
				t.Errorf("got the rows %v, want one", rows(body))
			}
			has(t, wordsOf(v.get("/").body), "changes 1 file")
			has(t, wordsOf(v.get("/agents/builder").body), "changes 1 file")
			if _, main := v.event("/files"); !strings.Contains(main, "a.go") {
				t.Errorf("the live page has no file:\n%s", main)
			}
		}
		if strings.Contains(viewer.get("/files").body, "/do/") {
			t.Error("a viewer is offered a change")
		}
	})

	t.Run("words of agents are text", func(t *testing.T) {
		do(w.site, w.as("builder"), api.ReserveFiles, api.ReserveParams{Request: reservation.Request{Tree: w.app, Patterns: []string{"<b>*.go"}, Why: "<script>alert(1)</script>"}})
		body := operator.get("/files").body
		has(t, wordsOf(body), "<b>*.go pattern", "<script>alert(1)</script>")
		if strings.Contains(body, "<b>*") || strings.Contains(body, "<script>alert") {
			t.Errorf("text of an agent is HTML:\n%s", body)
		}
		do(w.site, w.as("builder"), api.ReleaseFiles, reservation.Release{Tree: w.app, Paths: []string{"<b>*.go"}})
	})

	t.Run("the same file in two working trees is an overlap", func(t *testing.T) {
		has(t, operator.get("/files").body, "No file is changed in two working trees")
		w.edit("tester", w.copy, "a.go", "package c\n")
		body := wordsOf(operator.get("/files").body)
		has(t, body, "a.go builder tester "+w.app, w.copy)
		if got := rows(operator.get("/files?agent=tester").body); len(got) != 1 || got[0] == held[0] {
			t.Errorf("the files of tester: got %v", got)
		}
	})

	t.Run("a violation is on the page, and waits until it is read", func(t *testing.T) {
		has(t, operator.get("/files").body, "No agent changed a file that another one held.")
		command := reservation.Question{Tree: w.app, Kind: reservation.Edit, Command: "make generate"}
		do(w.site, w.as("tester"), api.AskFiles, command)
		write(t, filepath.Join(w.app, "a.go"), "package generated\n")
		command.Kind = reservation.After
		do(w.site, w.as("tester"), api.AskFiles, command)
		for _, v := range []*visitor{operator, viewer} {
			has(t, wordsOf(v.get("/files").body), "a.go changed during a command of tester while builder held it")
		}
		body := operator.get("/").body
		has(t, wordsOf(body), "a.go, which builder holds, changed while a command of tester ran")
		waiting := do(w.site, w.operator, api.Now, api.None{}).Waiting.Items()
		if len(waiting) != 1 || waiting[0].Kind != "violation" {
			t.Fatalf("got %+v, want one violation", waiting)
		}
		operator.do("done", url.Values{"id": {waiting[0].ID}})
		if left := do(w.site, w.operator, api.Now, api.None{}).Waiting.Items(); len(left) != 0 {
			t.Errorf("after it was read: got %+v", left)
		}
	})

	t.Run("the operator releases a file, and the agents are told", func(t *testing.T) {
		form := url.Values{"id": {held[0]}, "back": {"/files"}}
		viewer.do("release-file", form)
		if got := viewer.get("/").body; !strings.Contains(got, "viewers can only read") {
			t.Error("a viewer is not refused")
		}
		got := operator.do("release-file", form)
		if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/files" {
			t.Errorf("got %d to %q", got.StatusCode, got.Header.Get("Location"))
		}
		body := operator.get("/files").body
		has(t, body, "The file is released, and its holder is notified.")
		if strings.Contains(body, `id="`+held[0]+`"`) {
			t.Errorf("the file is still held:\n%s", body)
		}
		for agent, want := range map[hub.AgentID]string{"builder": "the operator released a.go", "tester": "a.go is free"} {
			text := ""
			for _, m := range do(w.site, w.as(agent), api.Inbox, api.InboxParams{Peek: true}).Messages {
				text += string(m.Payload) + "\n"
			}
			has(t, text, want)
		}
		operator.do("release-file", form)
		has(t, operator.get("/files").body, "no reservation")
	})
}

// The page has at most 200 files, and leads to the others.
func TestManyFiles(t *testing.T) {
	w := newWorkshop(t)
	var names []string
	for n := range 230 {
		names = append(names, fmt.Sprintf("folder/file-%d.go", n))
	}
	w.ask("builder", w.app, reservation.Edit, names...)
	v := w.visitor()
	v.signIn(w.link())
	has(t, wordsOf(v.get("/").body), "changes 230 files")
	first := v.get("/files?agent=builder").body
	next := regexp.MustCompile(`href="(/files\?[^"]*cursor=[^"]*)"`).FindStringSubmatch(first)
	if len(rows(first)) != 200 || next == nil {
		t.Fatalf("%d files on the first page, link to the next %v", len(rows(first)), next)
	}
	last := v.get(strings.ReplaceAll(next[1], "&amp;", "&")).body
	if len(rows(last)) != 30 || strings.Contains(last, "More files") {
		t.Errorf("%d files on the last page, want 30", len(rows(last)))
	}
}

// An agent that has waited for a file for 30 minutes waits for a person.
func TestBlockedAgentWaitsForAPerson(t *testing.T) {
	w := newWorkshop(t)
	v := w.visitor()
	v.signIn(w.link())
	do(w.site, w.as("builder"), api.ReserveFiles, api.ReserveParams{Request: reservation.Request{Tree: w.app, Patterns: []string{"a.go"}}})
	w.ask("tester", w.app, reservation.Edit, "a.go")
	const sentence = "for a file that builder holds"
	if body := v.get("/").body; strings.Contains(body, sentence) {
		t.Errorf("it waits for a person at once:\n%s", body)
	}
	w.clock.Pass(31 * time.Minute)
	v.signIn(w.link())
	has(t, wordsOf(v.get("/").body), sentence+": a.go", "parley files release --id r1")
	do(w.site, w.as("builder"), api.ReleaseFiles, reservation.Release{Tree: w.app})
	if body := v.get("/").body; strings.Contains(body, sentence) {
		t.Errorf("it waits, though the file is free:\n%s", body)
	}
}
