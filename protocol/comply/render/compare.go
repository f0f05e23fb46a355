package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// ParseReport reads a report that [Report.JSON] wrote. Errors are of type [*jsont.FileError]
// and name the path.
// A report of another schema is refused as a whole, since its members could have
// another meaning.
func ParseReport(path string, text []byte) (*Report, error) {
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, &jsont.FileError{Path: path, Line: 1, Err: fmt.Errorf("not a report from parley comply --format json: %w", err)}
	}
	if r.Schema != ReportSchema {
		return nil, &jsont.FileError{Path: path, Line: 1, Err: fmt.Errorf("the report has schema %q, want %q", r.Schema, ReportSchema)}
	}
	return r, nil
}

// An IndexedFinding is a finding with an id in its report. The id is stable for one
// report; another run may number the findings differently.
type IndexedFinding struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	rules.Finding
}

// Index returns the findings of the report without repetitions, with ids in their order: F1,
// F2 and so on. A finding of several tests stands there once.
// The cost is linear in the findings, apart from the lists of tests, which are
// short.
func (r *Report) Index() []IndexedFinding {
	out := []IndexedFinding{}
	for i := range r.Agents {
		a := &r.Agents[i]
		seen := map[string]int{}

		// Findings of one agent are the same if they agree in rule, level and text.
		add := func(f rules.Finding, tests ...string) {
			key := f.Rule + "\n" + string(f.Level) + "\n" + f.Actual
			at, ok := seen[key]
			if !ok {
				at, f.Tests = len(out), nil
				seen[key] = at
				out = append(out, IndexedFinding{ID: fmt.Sprintf("F%d", at+1), Agent: a.Name, Finding: f})
			}
			for _, test := range tests {
				if !slices.Contains(out[at].Tests, test) {
					out[at].Tests = append(out[at].Tests, test)
				}
			}
		}

		for _, t := range a.Tests {
			for _, f := range t.Findings {
				add(f, t.ID)
			}
		}
		for _, f := range a.Ledger {
			add(f, f.Tests...)
		}
	}
	return out
}

// kept returns the title of an example in which an agent or a client keeps a rule.
func kept(r rules.Rule) string {
	if r.ForClient() {
		return "A client that keeps the rule, with > before its messages:"
	}
	return "An agent that keeps the rule, with > before the messages of the client:"
}

// Explain returns how the finding came about, for people.
// The text is for a terminal. It holds frames of the agent as they came, so the
// caller must write it as plain text.
func (f *IndexedFinding) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s broke %s (%s)\n\n", f.ID, f.Agent, f.Rule, f.Level)

	r := rules.Find(f.Rule)
	if r.Text != "" {
		fmt.Fprintf(&b, "The rule:   %s\n", r.Text)
	}

	fmt.Fprintf(&b, "Expected:   %s\nCame:       %s\n", f.Expected, f.Actual)
	if f.Timed {
		b.WriteString("This finding depends on time: nothing came while the runner waited.\n")
	}

	frames := func(title string, list []rules.Frame) {
		fmt.Fprintf(&b, "\n%s:\n", title)
		for _, frame := range list {
			who := "agent  -> client"
			if frame.Direction == "out" {
				who = "client -> agent "
			}
			fmt.Fprintf(&b, "  %4d %s %s\n", frame.Seq, who, frame.Text)
		}
	}

	if len(f.Context) > 0 {
		frames("The messages that led to it", f.Context)
	}
	frames("The frames, in the order of the conversation; the last one decides", f.Frames)
	if len(f.Frames) == 0 {
		b.WriteString("  none: no frame came, or the finding concerns the process or a file\n")
	}

	fmt.Fprintf(&b, "\nSeen in:    %s\n", strings.Join(f.Tests, ", "))
	if r.Harm != "" {
		fmt.Fprintf(&b, "What breaks: %s\n", r.Harm)
	}
	fmt.Fprintf(&b, "To do:      %s\n", f.Fix)
	for _, link := range f.Docs {
		fmt.Fprintf(&b, "            %s\n", link)
	}

	if x := rules.ExampleOf(f.Rule); x.Good != "" {
		fmt.Fprintf(&b, "\n%s\n  %s\n", kept(r), strings.ReplaceAll(x.Good, "\n", "\n  "))
	}
	return b.String()
}

// A Change is a difference between two reports: the status of a test, or the level
// at which a rule is broken.
type Change struct {
	Agent string `json:"agent"`
	What  string `json:"what"` // the id of a test or a rule
	Old   string `json:"old"`  // a status, or the level of a broken rule; "" if there was none
	New   string `json:"new"`
	Worse bool   `json:"worse"` // a MUST is newly broken
}

// String describes the change for people.
func (c Change) String() string {
	word := func(s string) string {
		if s == "" {
			return "nothing"
		}
		return s
	}
	return fmt.Sprintf("%s: %s: %s -> %s", c.Agent, c.What, word(c.Old), word(c.New))
}

// Compare returns the changes from one report to another: statuses of tests, and rules that
// are broken or not any more. Agents and tests that only one report has are left out.
// Compare takes the worst level at which a rule was broken. A rule that was broken
// at a lower level before and is a MUST now counts as worse, a new failure of a
// test alone does not: its finding does.
func Compare(before, after *Report) []Change {
	changes := []Change{}
	for i := range after.Agents {
		now := &after.Agents[i]
		at := slices.IndexFunc(before.Agents, func(a AgentReport) bool { return a.Name == now.Name })
		if at < 0 {
			continue
		}
		was := &before.Agents[at]
		for _, t := range now.Tests {
			k := slices.IndexFunc(was.Tests, func(o Result) bool { return o.ID == t.ID })
			if k >= 0 && was.Tests[k].Status != t.Status {
				changes = append(changes, Change{Agent: now.Name, What: t.ID, Old: string(was.Tests[k].Status), New: string(t.Status)})
			}
		}
		old, new := was.brokenLevels(), now.brokenLevels()
		for _, r := range slices.Concat(rules.All(), rules.ForClients()) {
			if old[r.ID] != new[r.ID] {
				changes = append(changes, Change{Agent: now.Name, What: r.ID, Old: string(old[r.ID]), New: string(new[r.ID]), Worse: new[r.ID] == jsont.Must})
			}
		}
	}
	return changes
}

// brokenLevels returns the worst level at which each rule was found to be broken.
// Findings that the baseline accepts count as well: they are still deviations.
func (a *AgentReport) brokenLevels() map[string]jsont.Level {
	out := map[string]jsont.Level{}
	for f := range a.findings() {
		if out[f.Rule] != jsont.Must {
			out[f.Rule] = f.Level
		}
	}
	return out
}
