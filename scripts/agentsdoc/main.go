// Command agentsdoc writes docs/agents.md: the results of the known agents. Standard input
// has the reports of one or several runs of "parley comply --format json"; the file in the
// argument has the output of "parley comply --list-agents --json". A status that differs
// between runs is shown as such.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// A known is an agent of the list, tested or not.
type known struct{ Name, Title, Version, Licence, API string }

// An agent is an agent with its results.
type agent struct {
	Name            string
	ProtocolVersion json.RawMessage
	Tests           []test
}

type test struct {
	ID, Severity, Status string
	Findings             []finding
	runs                 int
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
	tested, err := merge(json.NewDecoder(in))
	if err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	var b strings.Builder
	b.WriteString("# Agents\n\n" +
		"What the built-in tests that are listed below find in agents of other projects, in versions that are pinned. Those that need a model asked the\n" +
		"[scripted one](model.md), which does what the prompts of the tests say. Where runs came to different verdicts all are shown, and the\n" +
		"test counts as one that varies: it depends on the moment, and on how busy the machine is. Written by `make agents`; do not edit.\n\n")
	writeAgents(&b, all.Agents, tested)
	writeTests(&b, tested)
	writeFindings(&b, tested)
	_, err = io.WriteString(out, b.String())
	return err
}

// merge reads reports, one after the other, and makes one of them. The first has
// all agents and tests.
func merge(in *json.Decoder) ([]agent, error) {
	var merged []agent
	for {
		var report struct{ Agents []agent }
		if err := in.Decode(&report); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if merged == nil {
			merged = report.Agents
			for _, a := range merged {
				for i := range a.Tests {
					a.Tests[i].runs = 1
				}
			}
			continue
		}
		for _, again := range report.Agents {
			at := slices.IndexFunc(merged, func(a agent) bool { return a.Name == again.Name })
			if at < 0 {
				return nil, fmt.Errorf("the first run has no agent %s", again.Name)
			}
			merged[at].add(again.Tests)
		}
	}
	if len(merged) == 0 {
		return nil, fmt.Errorf("there are no agents")
	}
	return merged, nil
}

// add adds the results of another run.
func (a *agent) add(tests []test) {
	for _, t := range tests {
		at := slices.IndexFunc(a.Tests, func(x test) bool { return x.ID == t.ID })
		if at < 0 {
			continue
		}
		x := &a.Tests[at]
		x.runs++
		x.Findings = append(x.Findings, t.Findings...)
		seen := strings.Split(x.Status, separator)
		if !slices.Contains(seen, t.Status) {
			seen = append(seen, t.Status)
			slices.Sort(seen)
			x.Status = strings.Join(seen, separator)
		}
	}
}

// separator stands between the statuses of different runs.
const separator = "/"

const varies = "varies"

var statuses = []string{"PASS", "WARN", "PARTIAL", "FAIL", "NA", "ERROR", varies}

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
		totals := map[string]int{}
		for _, t := range tested[at].Tests {
			if strings.Contains(t.Status, separator) {
				t.Status = varies
			}
			totals[t.Status]++
		}
		for _, s := range statuses {
			fmt.Fprintf(b, " %d |", totals[s])
		}
		b.WriteString("\n")
	}
}

// writeTests writes a row per test, with a status for each agent.
func writeTests(b *strings.Builder, tested []agent) {
	b.WriteString("\n## Tests\n\nRequired tests come first, in bold.\n\n| test | runs |")
	for _, a := range tested {
		fmt.Fprintf(b, " %s |", a.Name)
	}
	fmt.Fprintf(b, "\n|---|---:%s|\n", strings.Repeat("|---", len(tested)))
	for i, t := range tested[0].Tests {
		id := t.ID
		if t.Severity == "required" {
			id = "**" + id + "**"
		}
		fmt.Fprintf(b, "| %s | %d |", id, t.runs)
		for _, a := range tested {
			fmt.Fprintf(b, " %s |", a.Tests[i].Status)
		}
		b.WriteString("\n")
	}
}

// writeFindings writes the rules that each agent breaks.
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
