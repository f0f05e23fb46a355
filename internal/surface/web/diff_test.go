package web_test

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/server"
)

// TestHandoffDiffIsBounded has an agent leave many files in its worktree. The page shows
// some of them and counts the rest, and keeps the difference of a task that is done.
// PARLEY_DIFF_FILES is the number of files.
func TestHandoffDiffIsBounded(t *testing.T) {
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("z.txt", "before\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=m", "-c", "user.email=m@example.com", "commit", "-qm", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	s := newSite(t, server.Options{Roots: []string{repo}}, "planner", "builder")
	id := do(s, s.as("planner"), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-1", Title: "fill it", Summary: "a summary of it", NextStep: "fill", Criteria: api.Criteria{"full"}, Reason: "because", Worktree: repo,
	}).Report.ID
	do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "accept", ID: id})
	files := 500
	if n, err := strconv.Atoi(os.Getenv("PARLEY_DIFF_FILES")); err == nil {
		files = n
	}
	for i := range files {
		write(fmt.Sprintf("new-%05d.txt", i), fmt.Sprintf("file %d\n", i))
	}
	write("z.txt", "after\n")

	v := s.visitor()
	v.signIn(s.link())
	page := "/handoffs/" + string(id)
	look := func() string {
		t.Helper()
		began := time.Now()
		got := v.get(page)
		t.Logf("the page took %s", time.Since(began))
		return html.UnescapeString(got.body)
	}
	has := func(body string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(body, want) {
				t.Errorf("the page has no %q:\n%.1500s", want, body[strings.Index(body, `id="diff"`):])
			}
		}
	}
	body := look()
	has(body, "new-00000.txt", "+file 0<", "-before", "+after", "as it is now", fmt.Sprintf("and %d more files", files-199))
	if n := strings.Count(body, `class="file"`); n != 200 {
		t.Errorf("%d files are shown, want 200", n)
	}
	write("z.txt", "later\n")
	has(look(), "+later")

	do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "complete", ID: id, Summary: "full"})
	has(look(), "+later", "the first check after the task ended")
	write("z.txt", "the next task\n")
	first := do(s, s.operator, api.DiffHandoff, api.HandoffIDParams{ID: id})
	if body := look(); strings.Contains(body, "the next task") || first.More != files-199 || first.At.IsZero() {
		t.Errorf("the difference of the task that is done was made again: %d more, at %s", first.More, first.At)
	}
	do(s, s.operator, api.RemoveRoot, api.RootParams{Path: repo})
	if got := do(s, s.operator, api.DiffHandoff, api.HandoffIDParams{ID: id}); got.Text != "" || got.Problem == "" {
		t.Errorf("without the root: got %d bytes and the problem %q, want a problem alone", len(got.Text), got.Problem)
	}
	if h := do(s, s.operator, api.Handoff, api.HandoffParams{Action: "show", ID: id}).Report; h.Status != hub.HandoffClosed {
		t.Errorf("the handoff is %s", h.Status)
	}
}
