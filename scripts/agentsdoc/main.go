// Command agentsdoc writes docs/agents.md: which agents keep to which rules. It
// reads what "parley comply --format json" found, and from the file that is its
// argument what "parley comply --list-agents --json" says.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// A known agent is one that could have been tested.
type known struct{ Name, Title, Version, Licence, API string }

// An agent is one that was tested.
type agent struct {
	Name            string
	ProtocolVersion json.RawMessage
	Tests           []test
	Totals          map[string]int
}

type test struct {
	ID, Title, Severity, Status string
	Findings                    []finding
}

type finding struct {
	Rule, Level string
	Docs        []string
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "agentsdoc: one argument, the list of agents")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agentsdoc:", err)
		os.Exit(1)
	}
}

func run(list string, in io.Reader, out io.Writer) error {
	raw, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var all struct{ Agents []known }
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	var report struct{ Agents []agent }
	if err := json.NewDecoder(in).Decode(&report); err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	if len(report.Agents) == 0 {
		return fmt.Errorf("the report has no agents")
	}
	var b strings.Builder
	b.WriteString("# Agents\n\n" +
		"What the built-in tests find in agents of other projects, in versions that are pinned. Those that need a model asked the\n" +
		"[scripted one](model.md), which does what the prompts of the tests say. Written by `make agents`; do not edit.\n\n")
	writeAgents(&b, all.Agents, report.Agents)
	writeTests(&b, report.Agents)
	writeFindings(&b, report.Agents)
	_, err = io.WriteString(out, b.String())
	return err
}

var statuses = []string{"PASS", "WARN", "PARTIAL", "FAIL", "NA", "ERROR"}

// writeAgents writes a row per agent.
func writeAgents(b *strings.Builder, all []known, tested []agent) {
	fmt.Fprintf(b, "| agent | version | licence | API of its model | protocol | %s |\n|---|---|---|---|---%s|\n", strings.Join(statuses, " | "), strings.Repeat("|---:", len(statuses)))
	for _, k := range all {
		api := k.API
		if api == "" {
			api = "none"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |", k.Name, k.Version, k.Licence, api)
		at := slices.IndexFunc(tested, func(a agent) bool { return a.Name == k.Name })
		if at < 0 {
			fmt.Fprintf(b, " not installed |%s\n", strings.Repeat(" |", len(statuses)))
			continue
		}
		fmt.Fprintf(b, " %s |", tested[at].ProtocolVersion)
		for _, s := range statuses {
			fmt.Fprintf(b, " %d |", tested[at].Totals[s])
		}
		b.WriteString("\n")
	}
}

// writeTests writes a row per test, and what came out for each agent.
func writeTests(b *strings.Builder, tested []agent) {
	b.WriteString("\n## Tests\n\nRequired tests come first, in bold.\n\n| test |")
	for _, a := range tested {
		fmt.Fprintf(b, " %s |", a.Name)
	}
	fmt.Fprintf(b, "\n|---%s|\n", strings.Repeat("|---", len(tested)))
	for i, t := range tested[0].Tests {
		id := t.ID
		if t.Severity == "required" {
			id = "**" + id + "**"
		}
		fmt.Fprintf(b, "| %s |", id)
		for _, a := range tested {
			fmt.Fprintf(b, " %s |", a.Tests[i].Status)
		}
		b.WriteString("\n")
	}
}

// writeFindings writes the rules that each agent breaks, without what differs from
// run to run.
func writeFindings(b *strings.Builder, tested []agent) {
	b.WriteString("\n## Findings\n\nThe rules that were broken, and in which tests. `parley comply --agent NAME` shows the frames that prove it.\n")
	for _, a := range tested {
		fmt.Fprintf(b, "\n### %s\n\n", a.Name)
		tests := map[string][]string{} // by rule
		links := map[string]string{}
		for _, t := range a.Tests {
			for _, f := range t.Findings {
				rule := fmt.Sprintf("%s (%s)", f.Rule, f.Level)
				if !slices.Contains(tests[rule], t.ID) {
					tests[rule] = append(tests[rule], t.ID)
				}
				if len(f.Docs) > 0 {
					links[rule] = f.Docs[0]
				}
			}
		}
		if len(tests) == 0 {
			b.WriteString("None.\n")
		}
		var rules []string
		for rule := range tests {
			rules = append(rules, rule)
		}
		slices.Sort(rules)
		for _, rule := range rules {
			name := rule
			if links[rule] != "" {
				name = "[" + rule + "](" + links[rule] + ")"
			}
			fmt.Fprintf(b, "- %s: %s\n", name, strings.Join(tests[rule], ", "))
		}
	}
}
