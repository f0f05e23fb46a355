package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/reach/terminal"
)

// TestReach measures the time from send to the model request that the mail causes,
// and writes the table of docs/agents-running.md. make reach runs it; PARLEY_REACH
// is the number of mails for each CLI and PARLEY_REACH_CLIS names some of them.
func TestReach(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("PARLEY_REACH"))
	if err != nil || times < 1 {
		t.Skip("make reach runs it")
	}
	only := strings.Fields(os.Getenv("PARLEY_REACH_CLIS"))
	var rows []string
	for _, c := range realCLIs {
		if len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			d := c.open(t, "wakes:\n  gap: 1ms\n  per_hour: 1000\n  pair_per_hour: 1000\n")
			known, err := terminal.Lookup(c.name)
			if err != nil {
				t.Fatal(err)
			}
			var took []time.Duration
			for i := range times {
				d.await("an idle session", d.idle)
				d.ok(d.as(d.agent, "inbox"), nil) // mail that is read counts as a useful turn
				before := len(d.wakes())
				began := time.Now()
				d.mail(fmt.Sprintf("measured %d", i))
				d.await("the model request", func() bool { return len(d.wakes()) > before })
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			row := fmt.Sprintf("| %s | %s | %.1f s | %d |", known.Title, known.Mechanism, took[len(took)/2].Seconds(), times)
			t.Log(row)
			rows = append(rows, row)
		})
	}
	if t.Failed() || len(rows) == 0 {
		return
	}
	page := filepath.Join("..", "..", "docs", "agents-running.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const open, end = "<!-- reach -->\n", "<!-- /reach -->"
	head, rest, found := strings.Cut(string(raw), open)
	_, foot, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	table := "| CLI | mechanism | median | runs |\n|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	if err := os.WriteFile(page, []byte(head+open+table+end+foot), 0o644); err != nil {
		t.Fatal(err)
	}
}
