package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/comply/client"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
)

// broken are the rules with MUST that clients of other projects are known to break; the frames
// of each were read. The example client of the Go SDK announces terminals and has none: it
// returns an id and an empty output for everything.
var broken = map[string][]string{
	"go-sdk": {"CL-TERM-02", "CL-TERM-03"},
}

// own returns the clients of this repository that other programs do not drive: parley acp exec, in
// both versions of the protocol, and the keeper.
func own(t *testing.T) []client.Client {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "../../../cmd/parley", "../../../scripts/keptclient")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	parley := filepath.Join(bin, "parley")
	run := func(flags ...string) []string {
		return slices.Concat([]string{parley, "acp", "exec", "--policy", "yolo"}, flags, []string{"--", "{agent}", "{prompt}"})
	}
	login := []string{"--auth", "{method}"}
	return []client.Client{
		{Name: "parley", Command: run(), When: map[client.Need][]string{client.NeedLogin: run(login...)}},
		{Name: "parley-v2", Command: run("--v2"), When: map[client.Need][]string{client.NeedLogin: run(append(login, "--v2")...)}},
		{Name: "keeper", Command: []string{filepath.Join(bin, "keptclient"), "{agent}", "{prompt}"}},
	}
}

// TestOwnClients runs the tests with our own clients, which must keep every rule.
func TestOwnClients(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("set PARLEY_REAL=1 to test our own clients with all tests")
	}
	for _, c := range own(t) {
		t.Run(c.Name, func(t *testing.T) {
			version := 1
			if strings.HasSuffix(c.Name, "-v2") {
				version = 2
			}
			report := run(t, c, version, 2)
			for _, f := range report.Index() {
				t.Errorf("%s %s in %s: %s", f.Rule, f.Level, f.Test, f.Actual)
			}
			if report.Agents[0].Totals[render.Pass] < 30 {
				t.Errorf("got %v", report.Agents[0].Totals)
			}
		})
	}
}

// TestRealClients runs the tests with the clients that scripts/clients fetched. A finding of a
// MUST that is not known fails, until somebody has read its frames.
func TestRealClients(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("set PARLEY_REAL=1 to test clients of other projects; scripts/clients fetches them")
	}
	dir := os.Getenv("PARLEY_CLIENTS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", ".cache", "clients")
	}
	pins, err := filepath.Glob(filepath.Join("..", "clients", "*"))
	if err != nil || len(pins) == 0 {
		t.Fatalf("no pinned clients: %v", err)
	}
	for _, pin := range pins {
		name := filepath.Base(pin)
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name, "client.json")
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.ParseClient(file, source)
			if err != nil {
				t.Fatal(err)
			}
			report := run(t, c, 1, 2)
			for _, f := range report.Index() {
				line := strings.Join([]string{f.Rule, string(f.Level), f.Actual}, " ")
				if f.Level == jsont.Must && !slices.Contains(broken[name], f.Rule) {
					t.Errorf("not known: %s", line)
					continue
				}
				t.Log(line)
			}
		})
	}
}
