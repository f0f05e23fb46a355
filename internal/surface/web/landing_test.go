package web_test

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

// branch makes a branch of the repository with one file, and checks out the first branch again.
func (w *workshop) branch(name, file, text string) {
	w.t.Helper()
	run := func(args ...string) {
		w.t.Helper()
		git := append([]string{"-C", w.app, "-c", "user.name=builder", "-c", "user.email=x@example.com"}, args...)
		if out, err := exec.Command("git", git...).CombinedOutput(); err != nil {
			w.t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	run("switch", "-q", "-c", name)
	if err := os.WriteFile(filepath.Join(w.app, file), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	run("add", ".")
	run("commit", "-qm", name)
	run("switch", "-q", "-")
}

// target returns the name of the branch that is checked out.
func (w *workshop) target() string {
	w.t.Helper()
	out, err := exec.Command("git", "-C", w.app, "symbolic-ref", "--short", "HEAD").Output()
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestLandingPage(t *testing.T) {
	w := newWorkshop(t)
	operator, viewer := w.visitor(), w.visitor()
	operator.signIn(w.link())
	viewer.signIn(w.invite("vera"))
	has(t, operator.get("/landing").body, "No change waits to land", "No change has landed")
	policy := api.LandingParams{Repo: w.app, Into: w.target(), Review: "operator", NoChecks: new(true)}
	do(w.site, w.operator, api.SetLanding, policy)
	w.branch("work", "b.go", "package a\n\nvar b = 1\n")
	do(w.site, w.as("builder"), api.Land, api.LandParams{Ref: "work", Repo: w.app})

	t.Run("a review waits for the operator, with the difference", func(t *testing.T) {
		has(t, wordsOf(operator.get("/").body), "a change waits for the review of operator")
		has(t, wordsOf(operator.get("/landing").body), "Reviews that wait", "waits for the review of operator")
		body := operator.get("/landing/l1?path=b.go&line=3").body
		has(t, body, "b.go", "var b = 1", "b.go:3: </textarea>", `href="?path=b.go&line=3#findings"`)
		if got := viewer.get("/landing/l1").body; strings.Contains(got, "give-review") || strings.Contains(got, "#findings") {
			t.Error("a viewer gets the form of the review, or links to it")
		}
	})
	t.Run("findings are shown beside their lines", func(t *testing.T) {
		form := url.Values{"id": {"v1"}, "verdict": {"changes"}, "findings": {"b.go:3: name it\n\n"}, "back": {"/landing/l1"}}
		viewer.do("give-review", form)
		has(t, viewer.get("/").body, "viewers can only read")
		operator.do("give-review", form)
		body := operator.get("/landing/l1").body
		has(t, body, "The owner is notified", `<span class="hunk">finding: name it</span>`, "returned")
	})
	t.Run("a change of an agent waits for a yes, and the button lands it", func(t *testing.T) {
		policy.Review = hub.ReviewerNone
		do(w.site, w.operator, api.SetLanding, policy)
		w.branch("more", "c.go", "package a\n")
		do(w.site, w.as("tester"), api.Land, api.LandParams{Ref: "more", Repo: w.app})
		has(t, wordsOf(operator.get("/").body), "a change of tester waits for your yes to land")
		has(t, operator.get("/landing").body, "Land it")
		operator.do("retry-landing", url.Values{"id": {"l2"}, "back": {"/landing"}})
		w.wait("the change to land", func() bool {
			got := do(w.site, w.operator, api.ListLandings, api.LandingsParams{Repo: w.app, State: hub.EntryLanded})
			return len(got.Entries) == 1
		})
		if _, err := os.Stat(filepath.Join(w.app, "c.go")); err != nil {
			t.Error(err)
		}
		has(t, operator.get("/landing/l2").body, `<a href="/proof/l2">Download the proof</a>`)
		has(t, wordsOf(operator.get("/proof/l2").body), "these leave the hub", "Folders", "Download the proof")
		var file struct{ Schema, Of string }
		if err := json.Unmarshal([]byte(operator.get("/journal/proof/l2").body), &file); err != nil || file.Of != "l2" || file.Schema != "parley-proof/1" {
			t.Errorf("the download is %+v, %v", file, err)
		}
		has(t, operator.get("/landing/l2").body, "landed as", "Undo")
		operator.do("undo-landing", url.Values{"id": {"l2"}, "back": {"/landing"}})
		has(t, operator.get("/landing").body, "l3 takes back l2", "undo l2")
	})
}

// TestPageOfChecksNamesTheLevel runs a check. Its page and the list say how it was confined.
func TestPageOfChecksNamesTheLevel(t *testing.T) {
	w := newWorkshop(t)
	operator := w.visitor()
	operator.signIn(w.link())
	in := api.RepositoryParams{Repository: w.app}
	do(w.site, w.operator, api.AddCheck, api.AddCheckParams{RepositoryParams: in, Name: "test", Command: []string{"true"}, Unconfined: true})
	r := do(w.site, w.operator, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: in, Name: "test"}}).Result
	level := r.Confinement()
	if level == "" {
		t.Fatalf("the result names no level: %+v", r)
	}
	has(t, wordsOf(operator.get("/checks/"+string(r.ID)).body), level)
	has(t, wordsOf(operator.get("/checks").body), level)
}
