package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/rules"
)

// A Baseline lists the failures that are expected, so that a run fails only for new
// ones, and for an entry that has become wrong.
type Baseline struct{ entries []knownFailure }

// A knownFailure is the id of a test or a rule, and an agent, "" for all.
type knownFailure struct{ id, agent string }

// ParseBaseline reads a baseline. A line has the id of a test or of a rule in the ledger,
// and the name of an agent if it is not for all agents. Empty lines and lines that start
// with # are ignored. Errors are of type [*jsont.FileError] and name the path.
func ParseBaseline(path string, text []byte) (*Baseline, error) {
	b := &Baseline{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, agent, _ := strings.Cut(line, " ")
		known := knownFailure{id, strings.TrimSpace(agent)}
		if slices.Contains(b.entries, known) {
			return nil, &jsont.FileError{Path: path, Line: n, Err: fmt.Errorf("%s is there twice", line)}
		}
		b.entries = append(b.entries, known)
	}
	if err := lines.Err(); err != nil {
		return nil, &jsont.FileError{Path: path, Line: 1, Err: errors.New("a line is too long")}
	}
	return b, nil
}

// Apply marks the results and findings that the baseline expects. An entry is stale if its
// test ran and did not fail, or the ledger has no finding of its rule.
func (b *Baseline) Apply(r *Report) {
	for i := range r.Agents {
		a := &r.Agents[i]
		for _, k := range b.entries {
			if k.agent != "" && k.agent != a.Name {
				continue
			}
			if rules.Known(k.id) {
				a.expect(k.id)
			}
			for j := range a.Tests {
				t := &a.Tests[j]
				switch {
				case t.ID != k.id:
				case t.Status == Pass || t.Status == NA:
					a.Stale = append(a.Stale, t.ID)
				default:
					t.Known = true
				}
			}
		}
	}
}

// expect marks the findings of a rule in the ledger. The rule is stale if there are none.
func (a *AgentReport) expect(rule string) {
	found := false
	for i := range a.Ledger {
		if a.Ledger[i].Rule == rule {
			a.Ledger[i].Known, found = true, true
		}
	}
	if !found {
		a.Stale = append(a.Stale, rule)
	}
}
