package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The shape of a handoff that scripts rely on.
type handoffShape struct {
	ID     string `json:"handoff_id"`
	TaskID string `json:"task_id"`
	Status string `json:"status"`
	Hash   string `json:"package_hash"`
	Claims []struct {
		What   string `json:"what"`
		Result string `json:"result"`
		Detail string `json:"detail"`
	} `json:"claims"`
	Checks  string           `json:"checks"`
	Review  string           `json:"review"`
	Landing string           `json:"landing"`
	Stage   string           `json:"stage"`
	Results []map[string]any `json:"results"`
	Package map[string]any   `json:"package"`
	History []struct {
		State string `json:"state"`
	} `json:"history"`
}

// flags of a handoff that has all it needs.
func handoffFlags(task string, more ...string) []string {
	return append([]string{"handoff", "new", "--to", "builder", "--task", task, "--title", "Nullable avatar", "--summary", "schema is frozen",
		"--next", "run it", "--criterion", "old rows load", "--json"}, more...)
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

func TestDemoAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "agents"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	page, err := os.ReadFile("../../docs/agents-kept.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := res.out[:strings.Index(res.out, "Everything is in a journal")] // the number of entries differs
	if !strings.Contains(string(page), "$ parley demo agents\n"+shown) {
		t.Errorf("docs/agents-kept.md shows something else than\n%s", res.out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want an empty folder", left, err)
	}
}

func TestDemoTeam(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "team"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	page, err := os.ReadFile("../../docs/teams.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := res.out[:strings.Index(res.out, "Everything is in a journal")] // the number of entries differs
	if !strings.Contains(string(page), "$ parley demo team\n"+shown) {
		t.Errorf("docs/teams.md shows something else than\n%s", res.out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want an empty folder", left, err)
	}
}

func TestDemoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "files"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	page, err := os.ReadFile("../../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`for [0-9]+ s`).ReplaceAllString(res.out, "for 1 s") // the time differs
	if !strings.Contains(string(page), "$ parley demo files\n"+shown) {
		t.Errorf("docs/files.md shows something else than\n%s", shown)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want an empty folder", left, err)
	}
}

func TestDemoContracts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "contracts"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	page, err := os.ReadFile("../../docs/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "$ parley demo contracts\n"+res.out) {
		t.Errorf("docs/contracts.md shows something else than\n%s", res.out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want an empty folder", left, err)
	}
}

func TestDemoLanding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := do(t, parley(t, []string{"TMPDIR=" + dir}, "demo", "landing"))
	if res.code != 0 {
		t.Fatalf("got %d: %s%s", res.code, res.out, res.err)
	}
	page, err := os.ReadFile("../../docs/landing.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "$ parley demo landing\n"+res.out) {
		t.Errorf("docs/landing.md shows something else than\n%s", res.out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want an empty folder", left, err)
	}
}
