// Command compliance writes the table of all rules of the protocol that an agent
// is tested against: how each is checked, and which mutant proves that the check
// works.
//
//	go run ./scripts/compliance > docs/compliance.md
//	go run ./scripts/compliance -rules docs/rules
//
// With -rules it writes a page for each group of rules, which explains them.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/client"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

func main() {
	dir := flag.String("rules", "", "folder for the pages of rules, in place of the table")
	flag.Parse()
	var err error
	if *dir != "" {
		err = writePages(*dir)
	} else {
		w := bufio.NewWriter(os.Stdout)
		err = errors.Join(write(w), w.Flush())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compliance:", err)
		os.Exit(1)
	}
}

const intro = `# Rules and their checks

This file is generated: ` + "`go run ./scripts/compliance > docs/compliance.md`" + `.

Rules have the ids of the table below in reports, tests and baselines. MUST fails a test, SHOULD warns, MAY and ADV inform: ADV is advice
where the protocol is silent. A star marks a MUST that follows from the schema or from JSON-RPC, and not from a sentence of the protocol.

How a rule is checked:

| | |
|---|---|
| frames | every frame of every test passes the check, whatever the test is about |
| test | a test of the suite, by its id |
| test, capability | likewise, for agents that advertise the capability |
| test, model | likewise; the model must do what the prompt says. ` + "`--with-model`" + ` provides one that does |
| test, fixture | likewise, with something beside the agent: an MCP server, an empty home, a scripted model |

Each check is proven by mutants: copies of an agent that keeps all rules, changed so that they break one. The suite must find that rule
broken, and no rule that does not follow from it. A rule without a mutant is unproven: its check may find nothing.

`

// groups are the areas of the rules, in the order of the table.
var groups = []struct{ prefix, title string }{
	{"TRN", "Transport"}, {"RPC", "JSON-RPC"}, {"INIT", "Initialize"}, {"AUTH", "Login"}, {"SNEW", "session/new"}, {"SLOAD", "session/load"},
	{"SRES", "session/resume"}, {"SLIST", "session/list"}, {"SCLO", "session/close"}, {"SDEL", "session/delete"}, {"SFRK", "session/fork (draft)"},
	{"ADIR", "Additional directories"}, {"PRM", "Prompts"}, {"STOP", "Stop reasons"}, {"CAN", "Cancellation"}, {"UPD", "Updates"}, {"CNT", "Content"},
	{"TOOL", "Tool calls"}, {"PERM", "Permissions"}, {"FS", "Files of the client"}, {"TERM", "Terminals of the client"}, {"PLAN", "Plans"},
	{"MODE", "Modes"}, {"CFG", "Options"}, {"CMD", "Commands"}, {"ELI", "Questions to the user"}, {"MCP", "MCP servers"}, {"EXT", "Extensions"},
	{"USE", "Usage"}, {"ERR", "Errors"}, {"LIFE", "Life of the process"}, {"PRV", "Providers (draft)"},
}

var ways = map[rules.Class]string{
	rules.ByFrame: "test", rules.ByTest: "test", rules.ByCapability: "test, capability", rules.ByModel: "test, model", rules.ByFixture: "test, fixture",
}

// A table has the tests, checks and mutants of each rule, by its id.
type table struct {
	tests   map[string][]string
	frames  map[string]bool
	mutants map[string]int
}

func newTable() (*table, error) {
	t := &table{tests: map[string][]string{}, frames: map[string]bool{}, mutants: map[string]int{}}
	suite, err := comply.Suite()
	if err != nil {
		return nil, err
	}
	for _, test := range suite {
		for _, id := range test.Rules {
			t.tests[id] = append(t.tests[id], test.ID)
		}
	}
	for _, id := range rules.LedgerIDs() {
		t.frames[id] = true
	}
	for _, m := range goodagent.Mutants() {
		t.mutants[m.Rule]++
	}
	return t, nil
}

// how returns how a rule is checked, "" if it is not.
func (t *table) how(r comply.Rule) string {
	var parts []string
	if t.frames[r.ID] {
		parts = append(parts, "frames")
	}
	if tests := t.tests[r.ID]; len(tests) > 0 {
		slices.Sort(tests)
		parts = append(parts, ways[r.Class]+": `"+strings.Join(slices.Compact(tests), "`, `")+"`")
	}
	return strings.Join(parts, "; ")
}

// proof returns the mutants that prove the check of a rule.
func (t *table) proof(r comply.Rule) string {
	switch n := t.mutants[r.ID]; {
	case t.how(r) == "":
		return ""
	case n == 0:
		return "**unproven**"
	case n == 1:
		return "1 mutant"
	default:
		return fmt.Sprintf("%d mutants", n)
	}
}

// unchecked returns why a rule is not checked.
func unchecked(r comply.Rule) string {
	switch why := rules.Unbreakable(r.ID); {
	case why != "":
		return "not checked: " + why
	case r.Unstable:
		return "not checked: it is about a draft that the schemas here do not have"
	}
	return "not checked"
}

func write(w io.Writer) error {
	t, err := newTable()
	if err != nil {
		return err
	}

	checked := 0
	proven := 0
	free := 0
	var body strings.Builder
	rules := comply.Rules()

	for _, g := range groups {
		fmt.Fprintf(&body, "\n## %s\n\n| rule | level | what it says | how it is checked | proof |\n|---|---|---|---|---|\n", g.title)
		for _, r := range rules {
			if prefix, _, _ := strings.Cut(r.ID, "-"); prefix != g.prefix {
				continue
			}
			level := string(r.Level)
			if r.Implied {
				level += "*"
			}

			how := t.how(r)
			switch {
			case how == "":
				how = unchecked(r)
				free++
			case t.mutants[r.ID] > 0:
				checked, proven = checked+1, proven+1
			default:
				checked++
			}
			fmt.Fprintf(&body, "| [%s](%s) | %s | %s | %s | %s |\n", r.ID, r.Docs, level, r.Text, how, t.proof(r))
		}
	}

	// The totals stand before the tables and are known only now.
	fmt.Fprint(w, intro)
	fmt.Fprintf(w, "Of %d rules %d are checked, %d of them proven, and %d are not checked.\n", len(rules), checked, proven, free)
	_, err = io.WriteString(w, body.String())
	return err
}

// writePages writes a page for each group of rules.
func writePages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, g := range groups {
		if err := os.WriteFile(filepath.Join(dir, strings.ToLower(g.prefix)+".md"), []byte(page(g.prefix, g.title)), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, clientsPage), []byte(clientPage()), 0o644)
}

// clientsPage is the name of the page of all rules for clients.
const clientsPage = "clients.md"

// clientPage returns the page of the rules for clients: a table, and a section for each.
func clientPage() string {
	var b strings.Builder
	b.WriteString("# Clients\n\nThis file is generated: `go run ./scripts/compliance -rules docs/rules`. `parley comply rules ID` prints one rule. " +
		"[Compliance tests](../comply.md#clients) says how clients are tested.\n\n" +
		"A rule is checked in every frame of the client or by the tests named; a mutant of the good client breaks each. A star marks a MUST that follows from the schema or from\n" +
		"JSON-RPC, and not from a sentence of the protocol.\n\n| rule | level | text | checked by |\n|---|---|---|---|\n")
	for _, r := range rules.ForClients() {
		level := string(r.Level)
		if r.Implied {
			level += "*"
		}
		var by []string
		if client.InLedger(r.ID) {
			by = append(by, "every frame")
		}
		for _, s := range client.Scenarios() {
			if slices.Contains(s.Rules, r.ID) {
				by = append(by, s.ID)
			}
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", r.ID, strings.ToLower(r.ID), level, r.Text, strings.Join(by, ", "))
	}
	for _, r := range rules.ForClients() {
		b.WriteString("\n" + r.Markdown())
	}
	return b.String()
}

// page returns the page of a group.
func page(prefix, title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nThis file is generated: `go run ./scripts/compliance -rules docs/rules`. `parley comply rules ID` prints one rule. [compliance.md](../compliance.md) says how each is checked.\n", title)
	for _, r := range comply.Rules() {
		if r.Group() == prefix {
			b.WriteString("\n" + r.Markdown())
		}
	}
	return b.String()
}
