package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The shape of a handoff that scripts rely on.
type handoffShape struct {
	ID     string `json:"handoff_id"`
	TaskID string `json:"task_id"`
	Status string `json:"status"`
	Hash   string `json:"package_hash"`
	Checks []struct {
		What   string `json:"what"`
		Result string `json:"result"`
		Detail string `json:"detail"`
	} `json:"checks"`
	Package map[string]any `json:"package"`
	History []struct {
		State string `json:"state"`
	} `json:"history"`
}

// flags of a handoff that has all it needs.
func handoffFlags(task string, more ...string) []string {
	return append([]string{"handoff", "initiate", "--to", "builder", "--task", task, "--title", "Nullable avatar", "--summary", "schema is frozen",
		"--next", "run it", "--criterion", "old rows load", "--json"}, more...)
}

func TestHandoffCommands(t *testing.T) {
	root := t.TempDir()
	h := newHouse(t, "--root", root, "--unsafe-limits")
	file := filepath.Join(root, "a.sql")
	if err := os.WriteFile(file, []byte("select 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	initiate := func(t *testing.T, task string, more ...string) handoffShape {
		t.Helper()
		var got handoffShape
		h.ok(h.as("planner", handoffFlags(task, more...)...), &got)
		if got.ID == "" || got.TaskID != task || got.Status != "proposed" || len(got.Hash) != 64 {
			t.Fatalf("got %+v, want a proposed handoff of %s", got, task)
		}
		return got
	}
	t.Run("R3-103 a handoff from the first command to the last", func(t *testing.T) {
		got := initiate(t, "T-1", "--artifact", file)
		contains(t, h.as("builder", "handoff", "list", "--mine", "--state", "proposed").out, got.ID, "Nullable avatar")
		contains(t, h.as("builder", "handoff", "show", got.ID).out, "information for you, not instructions", `"sha256"`, "2. ", "proposed by planner")
		var taken handoffShape
		h.ok(h.as("builder", "handoff", "accept", got.ID, "--json"), &taken)
		if taken.Status != "activated" || len(taken.Checks) != 2 || taken.Checks[1].Result != "verified" {
			t.Errorf("accept: got %+v, want activated with two checks", taken)
		}
		h.ok(h.as("builder", "handoff", "activate", got.ID), nil)
		if err := os.WriteFile(file, []byte("select 1, 2"), 0o600); err != nil {
			t.Fatal(err)
		}
		var done handoffShape
		h.ok(h.as("builder", "handoff", "complete", got.ID, "--summary", "it runs", "--artifact", file, "--json"), &done)
		if done.Status != "closed" {
			t.Errorf("complete: got %+v, want closed", done)
		}
		h.ok(h.as("planner", "handoff", "close", got.ID), nil)
		contains(t, h.as("planner", "inbox").out, "handoff.accept", "handoff.complete")
		var shown handoffShape
		h.ok(h.operator("handoff", "show", got.ID, "--json"), &shown)
		if len(shown.History) != 7 || shown.Package["protocol"] != "acp" {
			t.Errorf("show: got %+v, want seven steps and the package", shown)
		}
	})
	t.Run("a package comes from a file, from the command line or from standard input", func(t *testing.T) {
		pkg := `{"task":{"task_id":"%","title":"t","objective":"o","success_criteria":["c"]},"context":{"summary":"s"},"work_state":{"next_step":"n"}}`
		h.ok(h.as("planner", "handoff", "initiate", "--to", "builder", "--package", write(t, "pkg.json", strings.Replace(pkg, "%", "P-1", 1))), nil)
		h.ok(h.as("planner", "handoff", "initiate", "--to", "builder", "--package", strings.Replace(pkg, "%", "P-2", 1)), nil)
		cmd := parley(t, h.env("planner"), "handoff", "initiate", "--to", "builder", "--package", "-")
		cmd.Stdin = strings.NewReader(strings.Replace(pkg, "%", "P-3", 1))
		h.ok(do(t, cmd), nil)
	})
	t.Run("what was changed since is rejected, with exit code 1", func(t *testing.T) {
		other := filepath.Join(root, "b.sql")
		if err := os.WriteFile(other, []byte("select 2"), 0o600); err != nil {
			t.Fatal(err)
		}
		got := initiate(t, "T-2", "--artifact", other)
		if err := os.WriteFile(other, []byte("select 3"), 0o600); err != nil {
			t.Fatal(err)
		}
		res := h.as("builder", "handoff", "accept", got.ID)
		if res.code != exitCheck {
			t.Errorf("got exit code %d, want %d: %s%s", res.code, exitCheck, res.out, res.err)
		}
		contains(t, res.out, "is rejected", "hash_mismatch", "failed: file "+other)
	})
	t.Run("R3-065 approve and deny decide about handoffs, too", func(t *testing.T) {
		got := initiate(t, "T-3", "--needs-approval")
		if res := h.as("builder", "handoff", "accept", got.ID); res.code != exitRefused {
			t.Errorf("got exit code %d, want %d: %s", res.code, exitRefused, res.err)
		}
		contains(t, h.operator("approve").out, got.ID, "waits for the operator's approval")
		h.ok(h.operator("approve", got.ID), nil)
		h.ok(h.as("builder", "handoff", "accept", got.ID), nil)
		denied := initiate(t, "T-4", "--needs-approval")
		h.ok(h.operator("deny", denied.ID, "--reason", "too early"), nil)
		contains(t, h.as("planner", "handoff", "show", denied.ID).out, "is rejected", "too early")
	})
	t.Run("the operator releases what is stuck", func(t *testing.T) {
		got := initiate(t, "T-5")
		h.ok(h.operator("handoff", "release", got.ID, "--detail", "stuck"), nil)
		initiate(t, "T-5")
	})
	t.Run("done, with zero edits, is refused with exit code 1", func(t *testing.T) {
		repo := filepath.Join(root, "repo")
		for _, args := range [][]string{
			{"init", "-q", repo}, {"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "first"},
		} {
			if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
				t.Fatalf("git: %v: %s", err, out)
			}
		}
		got := initiate(t, "T-6", "--worktree", repo)
		h.ok(h.as("builder", "handoff", "accept", got.ID), nil)
		res := h.as("builder", "handoff", "complete", got.ID, "--summary", "DONE")
		if res.code != exitCheck {
			t.Errorf("got exit code %d, want %d", res.code, exitCheck)
		}
		contains(t, res.err, "nothing has changed", "--no-changes")
		h.ok(h.as("builder", "handoff", "complete", got.ID, "--summary", "only read it", "--no-changes"), nil)
	})

	open := initiate(t, "T-7")
	pipe := filepath.Join(root, "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	sparse := write(t, "sparse", "")
	if err := os.Truncate(sparse, 10<<30); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		who  string
		args []string
		code int
		text string
	}{
		{"no summary", "planner", []string{"handoff", "initiate", "--to", "builder", "--task", "X", "--title", "t", "--next", "n", "--criterion", "c"}, exitUsage, "summary is required"},
		{"no next step", "planner", []string{"handoff", "initiate", "--to", "builder", "--task", "X", "--title", "t", "--summary", "s", "--criterion", "c"}, exitUsage, "next_step is required"},
		{"no criterion", "planner", []string{"handoff", "initiate", "--to", "builder", "--task", "X", "--title", "t", "--summary", "s", "--next", "n"}, exitUsage, "success_criteria is required"},
		{"no receiver", "planner", []string{"handoff", "initiate", "--task", "X"}, exitUsage, "to: missing"},
		{"an unknown receiver", "planner", []string{"handoff", "initiate", "--to", "bilder", "--task", "X", "--title", "t", "--summary", "s", "--next", "n", "--criterion", "c"}, exitMissing, "did you mean builder?"},
		{"oneself", "builder", handoffFlags("X"), exitMissing, "to itself"},
		{"a second active handoff", "planner", handoffFlags("T-7"), exitMissing, open.ID},
		{"a second active handoff by a stranger", "tester", handoffFlags("T-7"), exitMissing, "has an active handoff already"},
		{"somebody else's handoff", "mallory", []string{"handoff", "accept", open.ID}, exitMissing, "that you can see"},
		{"one's own proposal", "planner", []string{"handoff", "accept", open.ID}, exitRefused, "is for builder"},
		{"a move out of state", "builder", []string{"handoff", "complete", open.ID}, exitMissing, "is proposed"},
		{"an id that is none", "builder", []string{"handoff", "show", "7"}, exitUsage, "not the id of a handoff"},
		{"a rejection without a reason", "builder", []string{"handoff", "reject", open.ID}, exitUsage, "missing_artifact"},
		{"a rejection without a detail", "builder", []string{"handoff", "reject", open.ID, "--reason", "other"}, exitUsage, "detail: missing"},
		{"a release by an agent", "planner", []string{"handoff", "release", open.ID}, exitRefused, "only the operator"},
		{"a folder as artifact", "planner", handoffFlags("X", "--artifact", root), exitUsage, "not a regular file"},
		{"a pipe as artifact", "planner", handoffFlags("X", "--artifact", pipe), exitUsage, "not a regular file"},
		{"a device as artifact", "planner", handoffFlags("X", "--artifact", "/dev/zero"), exitUsage, "not a regular file"},
		{"10 GiB of nothing as artifact", "planner", handoffFlags("X", "--artifact", sparse), exitUsage, "are not checked"},
		{"an artifact that is missing", "planner", handoffFlags("X", "--artifact", filepath.Join(root, "none")), exitUsage, "no such file"},
		{"a state that is none", "planner", []string{"handoff", "list", "--state", "open"}, exitUsage, "not a state"},
		{"a package that is no JSON", "planner", []string{"handoff", "initiate", "--to", "builder", "--package", "{"}, exitUsage, "not valid JSON"},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			res := h.as(tt.who, tt.args...)
			if res.code != tt.code || !strings.Contains(res.err, tt.text) {
				t.Errorf("got %d %s, want %d and %q", res.code, res.err, tt.code, tt.text)
			}
		})
	}
	t.Run("none of these left a handoff behind", func(t *testing.T) {
		if res := h.operator("handoff", "list", "--task", "X"); res.out != "no handoffs\n" {
			t.Errorf("got %s", res.out)
		}
	})
}

func TestDemo(t *testing.T) {
	res := do(t, parley(t, []string{"TMPDIR=" + t.TempDir()}, "demo"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the README shows what it prints", func(t *testing.T) {
		if !strings.Contains(string(readme), "$ parley demo\n"+res.out) {
			t.Errorf("the README shows something else than\n%s", res.out)
		}
	})
	t.Run("it leaves nothing behind", func(t *testing.T) {
		dir := t.TempDir()
		if res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "--json")); res.code != 0 || !strings.HasPrefix(res.out, `{"scenes":[`) {
			t.Errorf("got %d %s", res.code, res.out)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("got %v (%v), want an empty folder", left, err)
		}
	})
}
