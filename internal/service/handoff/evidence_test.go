package handoff_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
)

func TestEvidenceOfRunsIsLookedAtAgain(t *testing.T) {
	d := open(t)
	tree := filepath.Join(d.dir, "tree")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", tree, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(filepath.Join(tree, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.file("tree/src/new.go", "package src\n")
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "first")
	commit, ran := git("rev-parse", "HEAD"), filepath.Join(d.dir, "ran")
	for i, test := range []struct {
		name   string
		entry  map[string]any
		state  hub.HandoffState
		reason hub.RejectReason
		detail string
	}{
		{"what is as recorded is verified", map[string]any{"after": map[string]any{"commit": commit}, "diff": map[string]any{"created": []any{"src/new.go"}, "deleted": []any{"old.go"}}},
			hub.HandoffActivated, "", "1 exist, 1 do not"},
		{"a file that is missing rejects", map[string]any{"diff": map[string]any{"modified": []any{"src/ghost.go"}}},
			hub.HandoffRejected, hub.RejectMissingArtifact, "src/ghost.go"},
		{"a file that should be gone rejects", map[string]any{"diff": map[string]any{"deleted": []any{"src/new.go"}}},
			hub.HandoffRejected, hub.RejectOther, "was deleted, but exists"},
		{"a commit that is missing rejects", map[string]any{"after": map[string]any{"commit": strings.Repeat("ab", 20)}},
			hub.HandoffRejected, hub.RejectMissingArtifact, "commit abab"},
		{"a path that leads out rejects", map[string]any{"diff": map[string]any{"created": []any{"../../etc/passwd"}}},
			hub.HandoffRejected, hub.RejectSchemaInvalid, "not a path in the worktree"},
		{"its commands are not run", map[string]any{"verify": map[string]any{"command": "touch " + ran, "exit_code": 0}, "diff": map[string]any{"created": []any{"src/new.go"}}},
			hub.HandoffActivated, "", "commands were not run"},
		{"outside the roots it cannot be told", map[string]any{"worktree_path": "/nowhere", "diff": map[string]any{"created": []any{"a"}}},
			hub.HandoffActivated, "", "unverifiable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.on(t)
			test.entry["run_id"] = "01a1de72-8033-741c-8775-3c09bab7fecc"
			h := d.propose(planner, "builder", pkg(fmt.Sprint("E-", i), func(m map[string]any) {
				with("work_state.worktree_path", tree)(m)
				with("evidence", []any{test.entry})(m)
				if test.entry["worktree_path"] == "/nowhere" {
					with("unproven", "it is on another disk")(m)
				}
			}))
			got, err := d.Accept(t.Context(), builder, h.ID, "")
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != test.state || got.RejectReason != test.reason {
				t.Errorf("got %s, %s: %s", got.Status, got.RejectReason, got.Notes)
			}
			if text := fmt.Sprint(got.Notes, got.Checks); !strings.Contains(text, test.detail) || !strings.Contains(text, "evidence of run 01a1de72") {
				t.Errorf("%q is missing in %s", test.detail, text)
			}
		})
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a command that came in a package was run")
	}
	t.Run("what is no evidence of runs is left alone", func(t *testing.T) {
		d.on(t)
		h := d.propose(planner, "builder", pkg("E-x", with("evidence", "trust me")))
		if got := d.accept(builder, h.ID); got.Status != hub.HandoffActivated {
			t.Errorf("got %s: %s", got.Status, got.Notes)
		}
	})
}
