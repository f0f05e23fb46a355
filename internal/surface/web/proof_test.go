package web_test

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/server"
)

// TestQualificationsOfProof reads the proof of shared work that is taken back later, and of
// restricted work, as an operator and as a viewer.
func TestQualificationsOfProof(t *testing.T) {
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=m", "-c", "user.email=m@example.com"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n")
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	s := newSite(t, server.Options{Roots: []string{repo}}, "planner", "builder", "mallory")
	take := func(to hub.AgentID, task, classification string) hub.HandoffID {
		t.Helper()
		id := do(s, s.as("planner"), api.Handoff, api.HandoffParams{
			Action: "initiate", To: to, TaskID: task, Title: "change it", Summary: "a summary of it", NextStep: "change", Criteria: api.Criteria{"changed"}, Reason: "because", Worktree: repo,
			Classification: classification,
		}).Report.ID
		do(s, s.as(to), api.Handoff, api.HandoffParams{Action: "accept", ID: id})
		return id
	}
	take("mallory", "T-1", "")
	open, restricted := take("builder", "T-2", ""), take("builder", "T-3", "restricted")
	write("after\n")
	do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "complete", ID: open})
	write("after\ntoo\n")
	do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "complete", ID: restricted})

	operator, viewer := s.visitor(), s.visitor()
	operator.signIn(s.link())
	viewer.signIn(s.invite("ben"))
	tags := regexp.MustCompile(`<[^>]*>`)
	read := func(v *visitor, page string) string {
		t.Helper()
		return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(v.get(page).body, " "))), " ")
	}
	want := func(body string, all ...string) {
		t.Helper()
		for _, text := range all {
			if !strings.Contains(body, text) {
				t.Errorf("the page has no %q:\n%s", text, body)
			}
		}
	}
	want(read(operator, "/handoffs"), "verified not committed, shared with mallory 1 file +1 -1")
	want(read(operator, "/handoffs/"+string(open)), "verified not committed, shared with mallory 1 file +1 -1", "Also involved: mallory (handoff h1).")
	want(read(viewer, "/handoffs/"+string(restricted)), "verified qualified: read it on the hub")
	told := false
	for _, m := range do(s, s.as("planner"), api.Inbox, api.InboxParams{}).Messages {
		told = told || (m.Type == hub.TypeHandoffComplete && strings.Contains(string(m.Payload), `"proof_note":"qualified: read it on the hub"`))
	}
	if !told {
		t.Error("no message about restricted work says that its proof is qualified")
	}

	git("checkout", "-q", "--", ".")
	want(read(operator, "/handoffs/"+string(open)), "gone since ")
	want(read(operator, "/handoffs"), "gone since ")
}
