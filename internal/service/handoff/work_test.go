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
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// repository makes a git repository with one commit in the folder that is
// looked at, and returns its path and the commit.
func (d *desk) repository(name string) (path, commit string) {
	d.t.Helper()
	path = filepath.Join(d.dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		d.t.Fatal(err)
	}
	d.git(path, "init", "-q", "-b", "main")
	if err := os.WriteFile(filepath.Join(path, "a.go"), []byte("package a\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.commit(path, "first")
	return path, d.git(path, "rev-parse", "HEAD")
}

func (d *desk) commit(path, message string) {
	d.t.Helper()
	d.git(path, "add", "-A")
	d.git(path, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", message)
}

// edit changes a file and commits it.
func (d *desk) edit(path, message string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(path, "a.go"), []byte("package a\n\n// "+message+"\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.commit(path, message)
}

func (d *desk) git(dir string, args ...string) string {
	d.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestWorktree(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(d *desk, path, commit string) func(map[string]any)
		reject hub.RejectReason
	}{
		{"a worktree on its branch is verified", func(_ *desk, path, _ string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", path)(m)
				with("work_state.branch", "main")(m)
			}
		}, ""},
		{"a branch at its commit is verified", func(_ *desk, path, commit string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", path)(m)
				with("artifacts", []any{artifact("b", map[string]any{"type": "branch", "path": "main", "version": commit})})(m)
			}
		}, ""},
		{"R3-058 a branch that is not there rejects", func(_ *desk, path, _ string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", path)(m)
				with("work_state.branch", "feature")(m)
			}
		}, hub.RejectMissingArtifact},
		{"R3-058 a commit that is not there rejects", func(_ *desk, path, _ string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", path)(m)
				with("artifacts", []any{artifact("b", map[string]any{"type": "branch", "path": "main", "version": strings.Repeat("ab", 20)})})(m)
			}
		}, hub.RejectMissingArtifact},
		{"R3-058 a commit that the branch does not have rejects", func(d *desk, path, _ string) func(map[string]any) {
			d.git(path, "checkout", "-q", "-b", "side")
			d.commit(path, "aside")
			side := d.git(path, "rev-parse", "HEAD")
			return func(m map[string]any) {
				with("work_state.worktree_path", path)(m)
				with("artifacts", []any{artifact("b", map[string]any{"type": "branch", "path": "main", "version": side})})(m)
			}
		}, hub.RejectMissingArtifact},
		{"R3-058 a folder that is no worktree rejects", func(d *desk, _, _ string) func(map[string]any) {
			return with("work_state.worktree_path", d.dir)
		}, hub.RejectMissingArtifact},
		{"a worktree outside the roots is unverifiable", func(d *desk, _, _ string) func(map[string]any) {
			return func(m map[string]any) {
				with("work_state.worktree_path", t.TempDir())(m)
				with("unproven", "it is on another disk")(m)
			}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t)
			path, commit := d.repository("repo")
			h := d.propose(planner, "builder", pkg("T", tt.change(d, path, commit)))
			got, err := d.Accept(t.Context(), builder, h.ID, "")
			if err != nil || got.RejectReason != tt.reject || (got.Status == hub.HandoffActivated) != (tt.reject == "") {
				t.Errorf("got %s, rejected for %q, %v (%v); want rejected for %q", got.Status, got.RejectReason, got.Claims, err, tt.reject)
			}
		})
	}
}

func TestDone(t *testing.T) {
	begin := func(t *testing.T) (*desk, string, handoff.Report) {
		d := open(t)
		path, _ := d.repository("repo")
		h := d.propose(planner, "builder", pkg("T", with("work_state.worktree_path", path)))
		return d, path, d.accept(builder, h.ID)
	}
	work := func(t *testing.T, r handoff.Report) hub.Check {
		t.Helper()
		for _, c := range r.Claims {
			if c.What == "work" {
				return c
			}
		}
		t.Fatalf("got %v, want a check of the work", r.Claims)
		return hub.Check{}
	}
	t.Run("done, with zero edits, is refused", func(t *testing.T) {
		d, _, h := begin(t)
		e := d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
			return d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "DONE"})
		})
		if e == nil || !strings.Contains(e.Error(), "nothing has changed") || !strings.Contains(e.Hint, "no_changes") {
			t.Errorf("got %v (%v), want what is wrong and what to do", e, e.Hint)
		}
	})
	t.Run("the parties read why a completion was refused, until one is not", func(t *testing.T) {
		d, path, h := begin(t)
		shown := func() handoff.Report {
			got, err := d.Show(t.Context(), planner, h.ID)
			if err == nil {
				err = d.Name(t.Context(), &got)
			}
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := shown(); got.ProgressText() != "" {
			t.Errorf("before the completion: got %q", got.ProgressText())
		}
		_, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "DONE"})
		if hub.CodeOf(err) != hub.CodeUnproven {
			t.Fatalf("got %v, want %s", err, hub.CodeUnproven)
		}
		if got := shown(); got.ProgressText() != "claimed (refused)" || !strings.HasPrefix(got.Returned, "work: nothing has changed") || got.Status != hub.HandoffActivated {
			t.Errorf("refused: got %s, %q, %q", got.Status, got.ProgressText(), got.Returned)
		}
		d.edit(path, "second")
		if _, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "done"}); err != nil {
			t.Fatal(err)
		}
		if got := shown(); got.ProgressText() != "there" || got.Returned != "" {
			t.Errorf("completed: got %q, %q", got.ProgressText(), got.Returned)
		}
	})
	t.Run("done, with zero edits, is taken if the owner says so", func(t *testing.T) {
		d, _, h := begin(t)
		got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "read it", NoChanges: true})
		if err != nil || got.Status != hub.HandoffClosed || !strings.Contains(got.Notes, "nothing was changed") {
			t.Errorf("got %+v (%v), want closed with a note", got, err)
		}
	})
	for name, edit := range map[string]func(t *testing.T, d *desk, path string){
		"a commit": func(_ *testing.T, d *desk, path string) { d.edit(path, "second") },
		"an edit that is not committed": func(t *testing.T, _ *desk, path string) {
			if err := os.WriteFile(filepath.Join(path, "a.go"), []byte("package b\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a new file": func(t *testing.T, _ *desk, path string) {
			if err := os.WriteFile(filepath.Join(path, "b.go"), []byte("package a\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a file that is gone": func(t *testing.T, _ *desk, path string) {
			if err := os.Remove(filepath.Join(path, "a.go")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name+" is work", func(t *testing.T) {
			d, path, h := begin(t)
			edit(t, d, path)
			got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "done"})
			if err != nil || got.Status != hub.HandoffClosed {
				t.Fatalf("got %+v (%v), want closed", got, err)
			}
			if c := work(t, got); c.Result != hub.CheckVerified {
				t.Errorf("got %+v, want verified", c)
			}
		})
	}
	t.Run("a file that was already changed, and is changed further, is work", func(t *testing.T) {
		d := open(t)
		path, _ := d.repository("repo")
		write := func(s string) {
			if err := os.WriteFile(filepath.Join(path, "a.go"), []byte(s), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("package one\n")
		h := d.propose(planner, "builder", pkg("T", with("work_state.worktree_path", path)))
		d.accept(builder, h.ID)
		write("package two\n")
		got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{})
		if err != nil || work(t, got).Result != hub.CheckVerified {
			t.Errorf("got %+v (%v), want the work verified", got, err)
		}
	})
	t.Run("what is claimed to be made must be there", func(t *testing.T) {
		d, path, h := begin(t)
		d.edit(path, "second")
		claim := handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "file", Path: filepath.Join(path, "new.go")}}}
		d.refused(hub.CodeUnproven, func() (handoff.Report, error) { return d.Complete(t.Context(), builder, h.ID, claim) })
		if err := os.WriteFile(claim.Artifacts[0].Path, []byte("package a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Complete(t.Context(), builder, h.ID, claim); err != nil || got.Status != hub.HandoffClosed {
			t.Errorf("got %+v (%v), want closed", got, err)
		}
	})
	t.Run("a change that another branch has is refused with the name of the branch, and of the task that made it", func(t *testing.T) {
		d := open(t)
		path, _ := d.repository("repo")
		trees := map[string]string{}
		var all []handoff.Report
		for _, name := range []string{"one", "two"} {
			trees[name] = filepath.Join(d.dir, name)
			d.git(path, "worktree", "add", "-q", "-b", name, trees[name])
			all = append(all, d.propose(planner, "builder", pkg(name, with("work_state.worktree_path", trees[name]))))
		}
		for _, h := range all {
			d.accept(builder, h.ID)
		}
		d.edit(trees["one"], "the fix")
		if _, err := d.Complete(t.Context(), builder, all[0].ID, handoff.Completion{}); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(trees["two"], "a.go"), []byte("package a\n\n// the fix\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.commit(trees["two"], "the same by hand")
		e := d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
			return d.Complete(t.Context(), builder, all[1].ID, handoff.Completion{})
		})
		if !strings.Contains(e.Error(), "1 file, there before: the branch one has the same change") {
			t.Errorf("got %v, want the name of the branch", e)
		}
		if !strings.HasPrefix(e.Hint, "if the change of h1 did this task, too: {same_change_as} h1; ") || !strings.Contains(e.Hint, "{no_changes}") {
			t.Errorf("got the hint %q", e.Hint)
		}
		got, err := d.Complete(t.Context(), builder, all[1].ID, handoff.Completion{SameChange: all[0].ID})
		if err != nil || got.Proof != hub.ProofVerified || !strings.Contains(got.ProofNote, "same change as h1") {
			t.Errorf("got %s, %q (%v)", got.Proof, got.ProofNote, err)
		}
	})
	t.Run("a worktree that is gone when the task is done proves nothing", func(t *testing.T) {
		d, path, h := begin(t)
		if err := os.Rename(path, path+"-gone"); err != nil {
			t.Fatal(err)
		}
		d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
			return d.Complete(t.Context(), builder, h.ID, handoff.Completion{Summary: "DONE"})
		})
	})
	t.Run("files that came with the package are no proof of work", func(t *testing.T) {
		d := open(t)
		path, sum := d.file("a.txt", "content")
		h := d.propose(planner, "builder", pkg("T", with("artifacts", []any{artifact("a", map[string]any{"type": "file", "path": path, "sha256": sum})})))
		d.accept(builder, h.ID)
		d.refused(hub.CodeUnproven, func() (handoff.Report, error) {
			return d.Complete(t.Context(), builder, h.ID, handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "file", Path: path, SHA256: sum}}})
		})
		path, sum = d.file("a.txt", "changed")
		got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "file", Path: path, SHA256: sum}}})
		if err != nil || got.Status != hub.HandoffClosed {
			t.Errorf("got %+v (%v), want closed", got, err)
		}
		d.view(func(r hub.Reader) error {
			page, err := r.Query(hub.Query{Audit: true, Type: hub.TypeHandoffComplete, Limit: 1})
			if err == nil && !strings.Contains(string(page.Messages[0].Payload), `"proof":"verified","proof_note":"only its hash was compared","results":[],"review":"none","stage":"there","work":"verified"`) {
				t.Errorf("the sender is told %s, want that the change of the file is verified by its hash", page.Messages[0].Payload)
			}
			return err
		})
	})
	t.Run("an artifact that is no reference is refused", func(t *testing.T) {
		d, _, h := begin(t)
		d.refused(hub.CodeInvalid, func() (handoff.Report, error) {
			return d.Complete(t.Context(), builder, h.ID, handoff.Completion{Artifacts: []hub.ArtifactRef{{Type: "cake", Path: "/x"}}})
		})
	})
	t.Run("without a worktree the work is unverifiable, and said to be", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", nil))
		d.accept(builder, h.ID)
		got, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{})
		if err != nil || work(t, got).Result != hub.CheckUnverifiable {
			t.Errorf("got %+v (%v), want unverifiable", got, err)
		}
	})
}

func TestApproval(t *testing.T) {
	human := with("policy.requires_human_approval", true)
	t.Run("R3-065 what needs a human cannot be accepted before the operator approves", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", human))
		if len(h.Warnings) == 0 || !strings.Contains(h.Warnings[0], "approve") {
			t.Errorf("got %v, want a word about the approval", h.Warnings)
		}
		d.refused(hub.CodePolicy, func() (handoff.Report, error) { return d.Accept(t.Context(), builder, h.ID, "") })
		for _, who := range []hub.Caller{planner, builder, auditor} {
			d.refused(hub.CodeDenied, func() (handoff.Report, error) { return d.Approve(t.Context(), who, h.ID) })
		}
		waiting, err := d.waiting(t.Context(), operator)
		if err != nil || len(waiting) != 1 || waiting[0].ID != h.ID {
			t.Errorf("waiting: got %v (%v), want %s", waiting, err, h.ID)
		}
		if got, err := d.Approve(t.Context(), operator, h.ID); err != nil || !got.Approved {
			t.Fatalf("got %+v (%v), want approved", got, err)
		}
		d.refused(hub.CodeConflict, func() (handoff.Report, error) { return d.Approve(t.Context(), operator, h.ID) })
		same(t, "inbox of the receiver", d.inbox(builder), "[handoff.initiate status.update]")
		d.accept(builder, h.ID)
		if waiting, err = d.waiting(t.Context(), operator); err != nil || len(waiting) != 0 {
			t.Errorf("waiting: got %v (%v), want nothing", waiting, err)
		}
		same(t, "journal", d.journal(h.ID)[2], "operator handoff.approved")
	})
	t.Run("R3-065 what the operator denies is rejected, and both sides are told", func(t *testing.T) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", human))
		got, err := d.Deny(t.Context(), operator, h.ID, "too early")
		if err != nil || got.Status != hub.HandoffRejected || got.RejectReason != hub.RejectPolicyViolation || !strings.Contains(got.Notes, "too early") {
			t.Errorf("got %+v (%v), want rejected for policy_violation", got, err)
		}
		same(t, "inbox of the sender", d.inbox(planner), "[handoff.reject]") // the message that asked for the approval is read
		same(t, "inbox of the receiver", d.inbox(builder), "[handoff.initiate handoff.reject]")
	})
	for name, change := range map[string]func(map[string]any){
		"classification":      with("policy.classification", "restricted"),
		"export restrictions": with("policy.export_restrictions", []any{"no cloud"}),
	} {
		t.Run("R3-065 a package restricted by "+name+" leaves nothing in its message", func(t *testing.T) {
			d := open(t)
			h := d.propose(planner, "builder", pkg("T", change))
			if !h.Restricted {
				t.Error("it is not marked as restricted")
			}
			d.view(func(r hub.Reader) error {
				page, err := r.Inbox("builder", hub.InboxFilter{Limit: 1, Now: hub.At(d.clock())})
				if err != nil {
					return err
				}
				m := page.Messages[0]
				if strings.Contains(string(m.Payload), "Nullable") || strings.Contains(string(m.Payload), "frozen") || strings.Contains(string(m.Payload), "migration") || m.Policy.Sensitivity != hub.SensitivityHigh {
					t.Errorf("got %s with %+v, want nothing of the package, and high sensitivity", m.Payload, m.Policy)
				}
				return nil
			})
		})
	}
}

func TestPages(t *testing.T) {
	d := open(t)
	d.Service = handoff.New(d.store, d.mail, &handoff.Options{Clock: d.clock, Page: 2})
	human := with("policy.requires_human_approval", true)
	var want []hub.HandoffID
	for i := range 7 {
		change := human
		if i%3 == 1 {
			change = nil
		}
		h := d.propose(planner, "builder", pkg(fmt.Sprint("T-", i), change))
		if change != nil {
			want = append(want, h.ID)
		} else {
			d.accept(builder, h.ID)
		}
	}
	t.Run("approvals on later pages are listed", func(t *testing.T) {
		waiting, err := d.waiting(t.Context(), operator)
		var got []hub.HandoffID
		for _, h := range waiting {
			got = append(got, h.ID)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v (%v), want %v", got, err, want)
		}
	})
	t.Run("late tasks on later pages are told", func(t *testing.T) {
		for i := range 3 {
			d.accept(builder, d.propose(tester, "builder", pkg(fmt.Sprint("L-", i), nil)).ID)
		}
		d.pass(25 * time.Hour)
		if n, err := d.Escalate(t.Context()); err != nil || n != 5 {
			t.Errorf("got %d (%v), want 5", n, err)
		}
	})
}

func TestQueue(t *testing.T) {
	d := open(t)
	item := with("task.external_refs", []any{map[string]any{"type": "workq_item", "value": "42"}})
	h := d.propose(planner, "builder", pkg("T", item))
	t.Run("R3-097 a task in a queue that the hub cannot reach is marked manual_required", func(t *testing.T) {
		got := d.accept(builder, h.ID)
		if got.Ownership != hub.OwnershipManual || len(got.Warnings) != 1 || got.Capabilities["workq"].State != hub.Unverified {
			t.Errorf("got %+v, want manual_required, a warning, and workq unverified", got)
		}
		page, err := d.List(t.Context(), operator, hub.HandoffQuery{}, false)
		if err != nil || len(page.Handoffs) != 1 || page.Handoffs[0].Ownership != hub.OwnershipManual {
			t.Errorf("the operator's list: got %+v (%v), want it there", page.Handoffs, err)
		}
		same(t, "inbox of the coordinator", d.inbox(planner), "[status.blocked handoff.accept]")
	})
	t.Run("R3-097 the operator confirms that it was moved by hand", func(t *testing.T) {
		if got, err := d.Activate(t.Context(), builder, h.ID); err != nil || got.Ownership != hub.OwnershipManual {
			t.Errorf("by the owner: got %+v (%v), want no change", got, err)
		}
		if _, err := d.MoveItem(t.Context(), builder, h.ID, true); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("settled by the owner: got %v, want %s", err, hub.CodeDenied)
		}
		got, err := d.MoveItem(t.Context(), operator, h.ID, true)
		if err != nil || got.Ownership != hub.OwnershipConfirmed || len(got.Warnings) != 0 {
			t.Errorf("got %+v (%v), want confirmed", got, err)
		}
		all := d.journal(h.ID)
		same(t, "journal", all[len(all)-1], "operator handoff.owned")
	})
}

func TestLate(t *testing.T) {
	late := func(t *testing.T, change func(map[string]any)) (*desk, handoff.Report) {
		d := open(t)
		h := d.propose(planner, "builder", pkg("T", change))
		return d, d.accept(builder, h.ID)
	}
	// count looks for late tasks and expects want more messages about them in the
	// inboxes of those who coordinate.
	count := func(t *testing.T, d *desk, want int) {
		t.Helper()
		told := func() (n int) {
			for _, who := range []hub.Caller{planner, operator} {
				for _, kind := range d.inbox(who) {
					if kind == string(hub.TypeStatusBlocked) {
						n++
					}
				}
			}
			return n
		}
		before := told()
		if got, err := d.Escalate(t.Context()); err != nil || got != want {
			t.Errorf("at %v: escalated %d (%v), want %d", d.clock(), got, err, want)
		}
		if got := told() - before; got != want {
			t.Errorf("at %v: %d messages to those who coordinate, want %d", d.clock(), got, want)
		}
	}
	t.Run("R3-059 a task that takes more than a day is escalated to the coordinator, at most once a day", func(t *testing.T) {
		d, h := late(t, nil)
		d.pass(24*time.Hour - time.Millisecond)
		count(t, d, 0)
		d.pass(2 * time.Millisecond)
		count(t, d, 1)
		count(t, d, 0)
		d.pass(23 * time.Hour)
		count(t, d, 0)
		d.pass(time.Hour + time.Millisecond)
		count(t, d, 1)
		same(t, "inbox of the coordinator", d.inbox(planner), "[status.blocked status.blocked handoff.accept]")
		got, err := d.Show(t.Context(), builder, h.ID)
		if err != nil || got.Status != hub.HandoffActivated {
			t.Errorf("got %s (%v), want it to stay activated", got.Status, err)
		}
		all := d.journal(h.ID)
		same(t, "journal", all[len(all)-1], "hub handoff.escalated")
	})
	t.Run("R3-059 an earlier deadline counts", func(t *testing.T) {
		d, h := late(t, with("task.deadline", "2026-02-21T10:00:00Z"))
		same(t, "due", h.DueAt, "2026-02-21T10:00:00.000Z")
		d.pass(59 * time.Minute)
		count(t, d, 0)
		d.pass(time.Minute)
		count(t, d, 1)
	})
	t.Run("R3-059 a later deadline does not", func(t *testing.T) {
		d, _ := late(t, with("task.deadline", "2026-03-21T10:00:00Z"))
		d.pass(25 * time.Hour)
		count(t, d, 1)
	})
	t.Run("what is completed is not late", func(t *testing.T) {
		d, h := late(t, nil)
		if _, err := d.Complete(t.Context(), builder, h.ID, handoff.Completion{}); err != nil {
			t.Fatal(err)
		}
		d.pass(48 * time.Hour)
		count(t, d, 0)
	})
	t.Run("what is not accepted is not late", func(t *testing.T) {
		d := open(t)
		d.propose(planner, "builder", pkg("T", nil))
		d.pass(48 * time.Hour)
		count(t, d, 0)
	})
	t.Run("R3-059 a clock that goes back makes nothing be told twice", func(t *testing.T) {
		d, _ := late(t, nil)
		d.pass(25 * time.Hour)
		count(t, d, 1)
		d.pass(-20 * time.Hour)
		count(t, d, 0)
		d.pass(20 * time.Hour)
		count(t, d, 0)
		d.pass(24*time.Hour + time.Millisecond)
		count(t, d, 1)
	})
	t.Run("R3-059 those beyond the hub's own limit are not counted as told, and are told later", func(t *testing.T) {
		d := open(t)
		for i := range 70 {
			h := d.propose(tester, "builder", pkg(fmt.Sprint("T-", i), nil))
			d.accept(builder, h.ID)
		}
		d.pass(25 * time.Hour)
		first, err := d.Escalate(t.Context())
		if err != nil || first == 0 || first >= 70 {
			t.Fatalf("got %d (%v), want some of 70", first, err)
		}
		same(t, "inbox of the coordinator", len(d.inbox(planner)), first)
		d.pass(2 * time.Minute)
		count(t, d, 70-first)
		count(t, d, 0)
	})
	t.Run("R3-059 nor does a restart", func(t *testing.T) {
		d, _ := late(t, nil)
		d.pass(25 * time.Hour)
		count(t, d, 1)
		d.Service = handoff.New(d.store, d.mail, &handoff.Options{Clock: d.clock})
		count(t, d, 0)
	})
	t.Run("R3-059 without a coordinator the operator is told", func(t *testing.T) {
		d := open(t)
		h := d.propose(tester, "planner", pkg("T", nil))
		d.accept(planner, h.ID)
		d.pass(25 * time.Hour)
		count(t, d, 1)
		same(t, "inbox of the operator", d.inbox(operator), "[status.blocked]")
	})
}

func TestList(t *testing.T) {
	d := open(t)
	var ids []hub.HandoffID
	for _, task := range []string{"A", "B", "C"} {
		ids = append(ids, d.propose(planner, "builder", pkg(task, nil)).ID)
		d.pass(time.Second)
	}
	d.accept(builder, ids[1])
	for _, tt := range []struct {
		name  string
		actor hub.Caller
		q     hub.HandoffQuery
		mine  bool
		want  []hub.HandoffID
	}{
		{"newest first", planner, hub.HandoffQuery{}, false, []hub.HandoffID{ids[2], ids[1], ids[0]}},
		{"those in a state", builder, hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffProposed}}, true, []hub.HandoffID{ids[2], ids[0]}},
		{"those of a task", builder, hub.HandoffQuery{Task: "B"}, false, []hub.HandoffID{ids[1]}},
		{"a stranger sees none", tester, hub.HandoffQuery{}, false, nil},
		{"an auditor sees all", auditor, hub.HandoffQuery{}, false, []hub.HandoffID{ids[2], ids[1], ids[0]}},
		{"an auditor asks for his own", auditor, hub.HandoffQuery{}, true, nil},
		{"a page", planner, hub.HandoffQuery{Limit: 2}, false, []hub.HandoffID{ids[2], ids[1]}},
		{"the page after it", planner, hub.HandoffQuery{Limit: 2, Cursor: ids[1]}, false, []hub.HandoffID{ids[0]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, err := d.List(t.Context(), tt.actor, tt.q, tt.mine)
			if err != nil {
				t.Fatal(err)
			}
			var got []hub.HandoffID
			for _, h := range page.Handoffs {
				got = append(got, h.ID)
			}
			same(t, "handoffs", got, tt.want)
			if more := page.Next != ""; more != (tt.q.Limit == 2 && tt.q.Cursor == "") {
				t.Errorf("next: got %q", page.Next)
			}
		})
	}
	for name, q := range map[string]hub.HandoffQuery{"a state": {States: []hub.HandoffState{"open"}}, "a limit": {Limit: 1000}, "a cursor": {Cursor: "x"}} {
		t.Run(name+" that is none is refused", func(t *testing.T) {
			if _, err := d.List(t.Context(), planner, q, false); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("got %v, want schema_invalid", err)
			}
		})
	}
}

func FuzzPackage(f *testing.F) {
	f.Add([]byte(pkg("T", nil)))
	f.Add([]byte(pkg("T", with("verification.package_hash", "x"))))
	f.Add([]byte(`{"task":{"task_id":1e999999},"provenance":[]}`))
	f.Add([]byte(`{"provenance":{"handoff_chain":null},"verification":{"package_hash":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		sealed, err := handoff.Seal(raw)
		if err != nil {
			return
		}
		p, err := shape.DecodePackage(sealed)
		if err != nil {
			t.Fatalf("what was sealed cannot be read: %v: %s", err, sealed)
		}
		hash, err := shape.PackageHash(sealed)
		if err != nil || hash != p.Verification.Hash {
			t.Fatalf("the hash is %s (%v), and %s in the package", hash, err, p.Verification.Hash)
		}
		var v any
		if json.Unmarshal(sealed, &v) != nil {
			t.Fatalf("not JSON: %s", sealed)
		}
	})
}

func TestLimits(t *testing.T) {
	d := open(t)
	strict, err := mailroom.New(d.store, d.who, &mailroom.Options{Clock: d.clock})
	if err != nil {
		t.Fatal(err)
	}
	d.Service = handoff.New(d.store, strict, &handoff.Options{Clock: d.clock})
	say := func(text string) error {
		_, err := strict.Send(t.Context(), builder, mailroom.Draft{To: []hub.AgentID{"planner"}, Type: hub.TypeStatusUpdate, Text: text})
		return err
	}
	t.Run("R3-091 an agent begins at most ten handoffs a minute", func(t *testing.T) {
		d.on(t)
		for i := range 10 {
			d.propose(planner, "builder", pkg(fmt.Sprint("T", i), nil))
		}
		d.refused(hub.CodeRateLimited, func() (handoff.Report, error) {
			return d.Initiate(t.Context(), planner, handoff.Proposal{To: "builder", Package: pkg("T10", nil)})
		})
	})
	t.Run("what the hub writes for a handoff counts against nobody", func(t *testing.T) {
		page, err := d.List(t.Context(), builder, hub.HandoffQuery{}, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range page.Handoffs {
			if _, err := d.Reject(t.Context(), builder, h.ID, hub.RejectCapacity, "busy"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			if err := say(fmt.Sprint("message ", i)); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if err := say("one more"); hub.CodeOf(err) != hub.CodeRateLimited {
			t.Errorf("got %v, want rate_limited", err)
		}
	})
}
