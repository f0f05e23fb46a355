package client_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/comply/client"
	"github.com/parley-agents/parley/comply/jsont"
)

// broken are the rules with MUST that clients of other projects are known to break; the frames
// of each were read. The example client of the Go SDK announces terminals and has none: it
// returns an id and an empty output for everything.
var broken = map[string][]string{
	"go-sdk": {"CL-TERM-02", "CL-TERM-03"},
}

// TestRealClients runs the tests with the clients that scripts/clients fetched. A finding of a
// MUST that is not known fails, until somebody has read its frames.
func TestRealClients(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("set PARLEY_REAL=1 to test clients of other projects; scripts/clients fetches them")
	}
	dir := os.Getenv("PARLEY_CLIENTS")
	if dir == "" {
		dir = filepath.Join("..", "..", ".cache", "clients")
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
			report := run(t, c, client.Scenarios(), 2)
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
