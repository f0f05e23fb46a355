package handoff_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/run"
)

// run records a run of builder that an actor began and ended as confirmed, with evidence.
func (d *desk) run(actor hub.Caller, evidence map[string]any) hub.RunID {
	d.t.Helper()
	raw, err := json.Marshal(evidence)
	if err != nil {
		d.t.Fatal(err)
	}
	runs, id := run.New(d.store, d.who, d.mail, &run.Options{Clock: d.clock}), hub.RunID(hub.NewIDs(d.clock).Next())
	if _, _, err := runs.Begin(d.t.Context(), actor, run.Beginning{ID: id, Agent: "builder", Task: "the work", TimeoutS: 60}); err != nil {
		d.t.Fatal(err)
	}
	if _, err := runs.Finish(d.t.Context(), actor, id, run.Ending{State: hub.RunDone, Verdict: hub.RunConfirmed, Report: json.RawMessage(`{"status":"ok"}`), Evidence: raw}); err != nil {
		d.t.Fatal(err)
	}
	return id
}

// Evidence proves nothing unless the hub has the run that it is of, and checked it.
func TestEvidenceIsLookedUpByItsRun(t *testing.T) {
	d := open(t)
	d.file("new.go", "package new\n")
	diff := func(created string) map[string]any {
		return map[string]any{"diff": map[string]any{"created": []any{created}}}
	}
	for i, test := range []struct {
		name    string
		run     hub.RunID
		entry   map[string]any
		state   hub.HandoffState
		results []hub.Verdict // of the run, and of its files
		detail  string
	}{
		{"a run that the operator's command executed", d.run(operator, diff("new.go")), diff("new.go"), hub.HandoffActivated, []hub.Verdict{hub.CheckVerified, hub.CheckVerified}, "the run of builder is confirmed"},
		{"a run that never was", "01a1de72-8033-741c-8775-3c09bab7fecc", diff("new.go"), hub.HandoffActivated, []hub.Verdict{hub.CheckUnverifiable, hub.CheckUnverifiable}, "no such run"},
		{"no run at all", "", diff("new.go"), hub.HandoffActivated, []hub.Verdict{hub.CheckUnverifiable, hub.CheckUnverifiable}, "names no run"},
		{"a run that its agent confirmed", d.run(builder, diff("new.go")), diff("new.go"), hub.HandoffActivated, []hub.Verdict{hub.CheckUnverifiable, hub.CheckUnverifiable}, "claimed (says builder, not checked)"},
		{"a file that the run did not make", d.run(operator, diff("other.go")), diff("new.go"), hub.HandoffRejected, []hub.Verdict{hub.CheckFailed}, "did not record"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d.on(t)
			if test.run != "" {
				test.entry["run_id"] = test.run
			}
			h := d.propose(planner, "builder", pkg(fmt.Sprint("L-", i), func(m map[string]any) {
				test.entry["worktree_path"] = d.dir
				with("evidence", []any{test.entry})(m)
			}))
			got, err := d.Accept(t.Context(), builder, h.ID, "")
			if err != nil || got.Status != test.state {
				t.Fatalf("got %s: %s, %v", got.Status, got.Notes, err)
			}
			var results []hub.Verdict
			for _, c := range got.Claims {
				if strings.HasPrefix(c.What, "evidence") {
					results = append(results, c.Result)
				}
			}
			if text := fmt.Sprint(got.Notes, got.Claims); !strings.Contains(text, test.detail) || !slices.Equal(results[:len(test.results)], test.results) {
				t.Errorf("got %v, want %v with %q in %s", results, test.results, test.detail, text)
			}
		})
	}
}

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
			id := d.run(operator, test.entry)
			test.entry["run_id"] = id
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
			if text := fmt.Sprint(got.Notes, got.Claims); !strings.Contains(text, test.detail) || !strings.Contains(text, "evidence of run "+string(id)) {
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
