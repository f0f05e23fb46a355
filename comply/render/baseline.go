package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/rules"
)

// A Baseline lists failures that are expected.
type Baseline struct{ entries []knownFailure }

type knownFailure struct{ what, agent string } // a test or a rule; agent is "" for all

// ParseBaseline reads a baseline: the id of a test or of a rule in the ledger a
// line, followed by the name of the agent if it is not for all. Empty lines and what starts with # is ignored. The
// path is named in errors, which are of type *FileError.
func ParseBaseline(path string, text []byte) (*Baseline, error) {
	b := &Baseline{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, agent, _ := strings.Cut(line, " ")
		known := knownFailure{what, strings.TrimSpace(agent)}
		for _, k := range b.entries {
			if k == known {
				return nil, &jsont.FileError{Path: path, Line: n, Err: fmt.Errorf("%s is there twice", line)}
			}
		}
		b.entries = append(b.entries, known)
	}
	if err := lines.Err(); err != nil {
		return nil, &jsont.FileError{Path: path, Line: 1, Err: errors.New("a line is too long")}
	}
	return b, nil
}

// Apply marks the results and findings that the baseline expects, and notes
// entries that are stale because the test was run and did not fail, or the rule is
// not in the ledger.
func (b *Baseline) Apply(r *Report) {
	for i := range r.Agents {
		a := &r.Agents[i]
		for _, k := range b.entries {
			if k.agent != "" && k.agent != a.Name {
				continue
			}
			if rules.Known(k.what) {
				a.expect(k.what)
			}
			for j := range a.Tests {
				t := &a.Tests[j]
				switch {
				case t.ID != k.what:
				case t.Status == Pass || t.Status == NA:
					a.Stale = append(a.Stale, t.ID)
				default:
					t.Known = true
				}
			}
		}
	}
}

// expect marks the findings in the ledger about a rule, and notes that it is stale
// if there are none.
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
