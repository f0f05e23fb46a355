package handoff_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/service/handoff"
)

func TestProofOfHandoff(t *testing.T) {
	edit := func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path, "a.go"), []byte("package b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	for _, tt := range []struct {
		name   string
		change func(path string) func(map[string]any)
		done   func(t *testing.T, d *desk, path string) handoff.Completion
		proof  hub.Proof
		why    string
	}{
		{"a worktree that changed is verified", func(path string) func(map[string]any) { return with("work_state.worktree_path", path) },
			func(t *testing.T, _ *desk, path string) handoff.Completion {
				edit(t, path)
				return handoff.Completion{}
			}, hub.ProofVerified, ""},
		{"a web address beside a worktree that changed changes nothing", func(path string) func(map[string]any) { return with("work_state.worktree_path", path) },
			func(t *testing.T, _ *desk, path string) handoff.Completion {
				edit(t, path)
				return handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "url", Path: "https://example.com/pr/7"}}}
			}, hub.ProofVerified, ""},
		{"a file outside the roots beside a worktree that changed is unproven", func(path string) func(map[string]any) { return with("work_state.worktree_path", path) },
			func(t *testing.T, _ *desk, path string) handoff.Completion {
				edit(t, path)
				return handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "file", Path: filepath.Join(outside, "x")}}}
			}, hub.ProofUnproven, "file " + filepath.Join(outside, "x") + ": "},
		{"nothing to change is the owner's word", func(path string) func(map[string]any) { return with("work_state.worktree_path", path) },
			func(*testing.T, *desk, string) handoff.Completion { return handoff.Completion{NoChanges: true} }, hub.ProofUnproven, "nothing to change, says builder"},
		{"a package that names nothing is unproven", func(string) func(map[string]any) { return func(map[string]any) {} },
			func(*testing.T, *desk, string) handoff.Completion { return handoff.Completion{} }, hub.ProofUnproven, "nothing named"},
		{"a new file alone does not show that it is new", func(string) func(map[string]any) { return func(map[string]any) {} },
			func(_ *testing.T, d *desk, _ string) handoff.Completion {
				path, sum := d.file("new.txt", "content")
				return handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "file", Path: path, SHA256: sum}}}
			}, hub.ProofUnproven, "cannot compare"},
		{"a declared handoff is unproven in the words of its sender", func(string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", outside)(m)
				with("unproven", "it is on another disk")(m)
			}
		}, func(*testing.T, *desk, string) handoff.Completion { return handoff.Completion{} }, hub.ProofUnproven, `"it is on another disk", says planner`},
		{"a declared handoff whose work can be checked is verified", func(path string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", path)(m)
				with("unproven", "I did not know the roots")(m)
			}
		}, func(t *testing.T, _ *desk, path string) handoff.Completion {
			edit(t, path)
			return handoff.Completion{}
		}, hub.ProofVerified, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t)
			path, _ := d.repository("repo")
			h := d.propose(planner, "builder", pkg("T", tt.change(path)))
			if got := d.accept(builder, h.ID); got.Proof != hub.ProofNone || h.Proof != hub.ProofNone {
				t.Errorf("before completion: got %q and %q, want -", h.Proof, got.Proof)
			}
			got, err := d.Complete(t.Context(), builder, h.ID, tt.done(t, d, path))
			if err != nil {
				t.Fatal(err)
			}
			want := func(where string, r handoff.Report) {
				t.Helper()
				if r.Proof != tt.proof || !strings.HasPrefix(r.ProofReason, tt.why) && !strings.Contains(r.ProofReason, tt.why) || (r.ProofReason == "") != (tt.why == "") {
					t.Errorf("%s: got %s (%s), want %s (%s)", where, r.Proof, r.ProofReason, tt.proof, tt.why)
				}
			}
			want("complete", got)
			shown, err := d.Show(t.Context(), planner, h.ID)
			if err != nil {
				t.Fatal(err)
			}
			want("show", shown)
			page, err := d.List(t.Context(), planner, hub.HandoffQuery{}, false)
			if err != nil || len(page.Handoffs) != 1 {
				t.Fatalf("got %v (%v), want one handoff", page.Handoffs, err)
			}
			want("list", page.Handoffs[0])
			closed, err := d.Close(t.Context(), planner, h.ID)
			if err != nil {
				t.Fatal(err)
			}
			want("close", closed)
		})
	}
	t.Run("a package whose claim does not hold is refused", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", with("artifacts", []any{artifact("a", file(filepath.Join(d.dir, "none")))})))
		got, err := d.Accept(t.Context(), builder, h.ID, "")
		if err != nil || got.Proof != hub.ProofRefused || !strings.Contains(got.ProofReason, "none") {
			t.Errorf("got %s (%s), %v, want refused", got.Proof, got.ProofReason, err)
		}
	})
	t.Run("a handoff that the receiver does not want proves nothing", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		got, err := d.Reject(t.Context(), builder, h.ID, hub.RejectCapacity, "until Monday")
		if err != nil || got.Proof != hub.ProofNone {
			t.Errorf("got %s (%v), want -", got.Proof, err)
		}
	})
	t.Run("a handoff of an earlier version gets its proof from its recorded checks", func(t *testing.T) {
		d := open(t)
		path, _ := d.repository("repo")
		h := d.propose(planner, "builder", pkg("T", with("work_state.worktree_path", path)))
		d.accept(builder, h.ID)
		edit(t, path)
		if _, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{}); err != nil {
			t.Fatal(err)
		}
		for detail, want := range map[string]hub.Proof{
			"nothing has changed in /x since the task was accepted, as the owner declared": hub.ProofUnproven,
			"the worktree /x has changed since the task was accepted":                      hub.ProofVerified,
		} {
			d.home.Exec(`UPDATE handoff_history SET checks_json = '[{"what":"package","result":"verified","detail":"x"},{"what":"work","result":"verified","detail":"` + detail + `"}]' WHERE state = 'completed'`)
			if got, err := d.Show(t.Context(), planner, h.ID); err != nil || got.Proof != want || got.ProofNote != "by the rules of then" {
				t.Errorf("%s: got %s, %s (%v), want %s, by the rules of then", detail, got.Proof, got.ProofNote, err, want)
			}
		}
	})
}

func TestOutsideTheRoots(t *testing.T) {
	outside := t.TempDir()
	for name, change := range map[string]func(map[string]any){
		"a worktree":                with("work_state.worktree_path", outside),
		"a file with any hash":      with("artifacts", []any{artifact("a", map[string]any{"type": "file", "path": "/nowhere/x", "sha256": strings.Repeat("0", 64)})}),
		"a file that may be absent": with("artifacts", []any{artifact("a", map[string]any{"type": "file", "path": "/nowhere/x", "required": false})}),
		"the evidence of a run":     with("evidence", []any{map[string]any{"worktree_path": outside, "diff": map[string]any{"created": []any{"a"}}}}),
	} {
		t.Run(name+" under no root is refused, with the command that adds one", func(t *testing.T) {
			d := open(t)
			e := d.refused(hub.CodeOutsideRoots, func() (handoff.Report, error) {
				return d.Initiate(t.Context(), planner, handoff.Proposal{To: "builder", Package: pkg("T", change)})
			})
			if e != nil && (!strings.Contains(e.Hint, "{root.add} /") || !strings.Contains(e.Hint, "{unproven}")) {
				t.Errorf("hint: got %q, want the command and the way around", e.Hint)
			}
		})
	}
	t.Run("a root that was removed after the proposal keeps the handoff from being accepted", func(t *testing.T) {
		d := open(t)
		path, _ := d.repository("repo")
		roots := []string{d.dir}
		look, err := evidence.New(nil, &evidence.Options{Kept: d.kept, Roots: func(context.Context) ([]string, error) { return roots, nil }})
		if err != nil {
			t.Fatal(err)
		}
		d.Service = handoff.New(d.store, d.mail, &handoff.Options{Clock: d.clock, Inspector: look})
		h := d.propose(planner, "builder", pkg("T", with("work_state.worktree_path", path)))
		roots = nil
		d.refused(hub.CodeOutsideRoots, func() (handoff.Report, error) { return d.Accept(t.Context(), builder, h.ID, "") })
		roots = []string{d.dir}
		if got := d.accept(builder, h.ID); got.Status != hub.HandoffActivated {
			t.Errorf("got %s, want activated once the folder is a root again", got.Status)
		}
	})
	for name, why := range map[string]any{"an empty reason": " \u200b", "a number": 7, "a long text": strings.Repeat("x", 501)} {
		t.Run(name+" declares nothing", func(t *testing.T) {
			d := open(t)
			d.refused(hub.CodeInvalid, func() (handoff.Report, error) {
				return d.Initiate(t.Context(), planner, handoff.Proposal{To: "builder", Package: pkg("T", with("unproven", why))})
			})
		})
	}
}

func TestLongestInvitation(t *testing.T) {
	d := open(t)
	wide := func(n int) string { return strings.Repeat("\U0001F600", n) } // four bytes each
	h := d.propose(planner, "builder", pkg(wide(200), func(m map[string]any) {
		with("task.title", wide(200))(m)
		with("context.summary", wide(2000))(m)
		with("work_state.next_step", wide(2000))(m)
		with("unproven", wide(125))(m)
	}))
	if h.Status != hub.HandoffProposed {
		t.Errorf("got %s, want proposed", h.Status)
	}
}

func TestRequireProof(t *testing.T) {
	d := open(t)
	path, _ := d.repository("repo")
	look, err := evidence.New([]string{d.dir}, &evidence.Options{Kept: d.kept})
	if err != nil {
		t.Fatal(err)
	}
	old := d.propose(planner, "builder", pkg("old", func(m map[string]any) {
		with("work_state.worktree_path", t.TempDir())(m)
		with("unproven", "it is on another disk")(m)
	}))
	d.Service = handoff.New(d.store, d.mail, &handoff.Options{Clock: d.clock, Inspector: look, RequireProof: true})
	d.refused(hub.CodePolicy, func() (handoff.Report, error) {
		return d.Initiate(t.Context(), planner, handoff.Proposal{To: "builder", Package: pkg("T", with("unproven", "it is on another disk"))})
	})
	d.refused(hub.CodeOutsideRoots, func() (handoff.Report, error) { return d.Accept(t.Context(), builder, old.ID, "") })
	bare := d.propose(planner, "builder", pkg("bare", nil))
	d.accept(builder, bare.ID)
	e := d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
		return d.Complete(t.Context(), builder, bare.ID, handoff.Completion{Summary: "DONE"})
	})
	if e != nil && !strings.Contains(e.Error(), "nothing named") {
		t.Errorf("got %v, want the reason", e)
	}
	h := d.propose(planner, "builder", pkg("T", with("work_state.worktree_path", path)))
	d.accept(builder, h.ID)
	d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
		return d.Complete(t.Context(), builder, h.ID, handoff.Completion{NoChanges: true})
	})
	d.edit(path, "second")
	if got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{}); err != nil || got.Proof != hub.ProofVerified {
		t.Errorf("got %s (%v), want verified", got.Proof, err)
	}
}

func TestChecksHaveFacts(t *testing.T) {
	d := open(t)
	path, commit := d.repository("repo")
	accept := func(name string) []hub.Check {
		h := d.propose(planner, "builder", pkg(name, with("work_state.worktree_path", path)))
		return d.accept(builder, h.ID).Claims
	}
	compared := func(checks []hub.Check) (found []hub.ComparedFiles) {
		for _, c := range checks {
			if c.Kind == "" {
				t.Errorf("the check of %q has no kind", c.What)
			}
			if c.Kind == hub.CheckKindFiles {
				found = append(found, c.Compared)
			}
		}
		return found
	}
	if got, want := compared(accept("clean")), (hub.ComparedFiles{Path: path, Commit: commit, Clean: true}); !slices.Equal(got, []hub.ComparedFiles{want}) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.WriteFile(filepath.Join(path, "b.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := compared(accept("changed")), (hub.ComparedFiles{Path: path, Commit: commit}); !slices.Equal(got, []hub.ComparedFiles{want}) {
		t.Errorf("with a new file: got %v, want %v", got, want)
	}
}

func TestTaskOfEarlierVersion(t *testing.T) {
	for _, tt := range []struct {
		name, files string
		proof       hub.Proof
	}{
		{"whose files were those of a commit is compared with the commit", "clean: the files are those of %s", hub.ProofVerified},
		{"whose files were changed is unproven", "not clean, compared with %s: 1 changed", hub.ProofUnproven},
	} {
		t.Run("a task that an earlier version accepted and "+tt.name, func(t *testing.T) {
			d := open(t)
			path, commit := d.repository("repo")
			h := d.propose(planner, "builder", pkg("T", with("work_state.worktree_path", path)))
			d.accept(builder, h.ID)
			files := strings.ReplaceAll(tt.files, "%s", commit)
			d.home.Exec(`UPDATE handoff_history SET checks_json = '[{"what":"files in ` + path + `","result":"verified","detail":"` + files + `"},` +
				`{"what":"worktree state","result":"verified","detail":"sha256:0"}]' WHERE state = 'validating'`)
			if tt.proof == hub.ProofVerified {
				d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
					return d.Complete(t.Context(), builder, h.ID, handoff.Completion{})
				})
			}
			d.edit(path, "second")
			if got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{}); err != nil || got.Proof != tt.proof || got.ProofNote != "" {
				t.Errorf("got %s (%v), want %s", got.ProofText(), err, tt.proof)
			}
		})
	}
}

func TestOneChangeForTwoTasksAtOnce(t *testing.T) {
	d := open(t)
	path, _ := d.repository("repo")
	var ids []hub.HandoffID
	for _, task := range []string{"A", "B", "C", "D"} {
		h := d.propose(planner, "builder", pkg(task, with("work_state.worktree_path", path)))
		ids = append(ids, d.accept(builder, h.ID).ID)
	}
	d.edit(path, "second")
	done := make(chan error, len(ids))
	for _, id := range ids {
		go func() {
			_, err := d.Complete(t.Context(), builder, id, handoff.Completion{})
			done <- err
		}()
	}
	verified := 0
	for range ids {
		switch err := <-done; hub.CodeOf(err) {
		case "":
			verified++
		case hub.CodeConflict, hub.CodeUnproven:
		default:
			t.Errorf("got %v, want a conflict or no work", err)
		}
	}
	if verified != 1 {
		t.Errorf("one change verified %d tasks, want 1", verified)
	}
}
