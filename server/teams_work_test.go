package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
)

// TestWorkOfTasks submits tasks of a team for which nothing was done, or next to nothing: the questions
// are those that the completion of a handoff answers, in the same words.
func TestWorkOfTasks(t *testing.T) {
	w := newSharedTree(t)
	do := func(key string, p api.TeamParams) (team.Answer, error) {
		p.Team = "core"
		return rpc.Call(t.Context(), w.as(key), api.Team, p)
	}
	operator := func(p api.TeamParams) team.Answer { return must(do(w.operator, p))(t) }
	builder := func(p api.TeamParams) team.Answer { return must(do(w.keys["builder"], p))(t) }
	operator(api.TeamParams{Action: "create", Objective: "login", Members: []team.Seat{{Agent: "tester", Role: hub.RoleCoordinator}, {Agent: "builder", Role: hub.RoleExecutor}}})
	operator(api.TeamParams{Action: "status", Lifecycle: hub.TeamActive})

	for _, tt := range []struct {
		name string
		work func()
		want string // of the refusal; "" if the task is submitted
	}{
		{"nothing", func() {}, "nothing has changed in " + w.repo + " since the work on "},
		{"one space", func() { w.write("repo/a.txt", "one \n") }, "trivial: a.txt: whitespace only"},
		{"an empty file, committed", func() { w.write("repo/empty.txt", ""); w.commit("work") }, "trivial: empty.txt: empty file only"},
		{"a file that another branch has", func() { w.git("checkout", "-q", "old", "--", "older.txt") }, "no work of this task in "},
		{"a word", func() { w.write("repo/a.txt", "one and two\n") }, ""},
		{"a commit", func() { w.write("repo/src/c.txt", "c\n"); w.commit("work") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.git("checkout", "-q", "-f", "-B", "old", "main")
			w.git("clean", "-q", "-f", "-d")
			w.write("repo/older.txt", "older\n")
			w.commit("older")
			w.git("checkout", "-q", "-B", "work", "main")
			task := operator(api.TeamParams{Action: "task", Title: tt.name, Worktree: w.repo, Scope: []string{"."}, Owner: "builder"}).Task.ID
			tt.work() // before the task is said to be in progress, as agents do
			builder(api.TeamParams{Action: "task", Task: task, State: hub.TaskInProgress})
			_, err := do(w.keys["builder"], api.TeamParams{Action: "task", Task: task, State: hub.TaskInReview})
			if tt.want == "" {
				if err != nil {
					t.Errorf("honest work was refused: %v", err)
				}
				return
			}
			if hub.CodeOf(err) != hub.CodeUnproven || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if got := builder(api.TeamParams{Action: "task", Task: task}).Task.State; got != hub.TaskInProgress {
				t.Errorf("the task is %s", got)
			}

			// The owner may say that no more was needed: the reviewer reads that.
			got := builder(api.TeamParams{Action: "task", Task: task, State: hub.TaskInReview, Reason: "it was asked for"})
			if got.Task.Reason != "it was asked for" || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tt.want) {
				t.Errorf("with a reason: got %+v", got)
			}
		})
	}
	if found := must(rpc.Call(t.Context(), w.as(w.operator), api.Verify, api.VerifyParams{}))(t); !found.Clean() {
		t.Errorf("audit verify: %+v", found)
	}
}

// TestFilesWithoutAWorktree completes a handoff whose package has a file and no worktree.
func TestFilesWithoutAWorktree(t *testing.T) {
	w := newSharedTree(t)
	do := func(agent hub.AgentID, p api.HandoffParams) api.HandoffAnswer {
		t.Helper()
		return must(rpc.Call(t.Context(), w.as(w.keys[agent]), api.Handoff, p))(t)
	}
	for _, tt := range []struct {
		name, content, trivial string
		want                   string // the proof, its reason and its note
	}{
		{"one space", "the plan \n", "", "unproven|trivial: plan.md: whitespace only|"},
		{"one space that was asked for", "the plan \n", "the style wants it", `verified||trivial: "the style wants it", says builder`},
		{"a word", "the new plan\n", "", "verified||only its hash was compared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(w.root, "plan.md")
			artifact := func(content string) []hub.ArtifactRef {
				t.Helper()
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256([]byte(content))
				return []hub.ArtifactRef{{Type: "file", Path: path, SHA256: hex.EncodeToString(sum[:])}}
			}
			id := do("mallory", api.HandoffParams{
				Action: "initiate", To: "builder", TaskID: tt.name, Title: "t", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Artifacts: artifact("the plan\n"),
			}).Report.ID
			do("builder", api.HandoffParams{Action: "accept", ID: id})
			got := do("builder", api.HandoffParams{Action: "complete", ID: id, Summary: "done", Trivial: tt.trivial, Artifacts: artifact(tt.content)}).Report
			if text := fmt.Sprintf("%s|%s|%s", got.Proof, got.ProofReason, got.ProofNote); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}
