package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// A Baseline lists the deviations that are accepted, so that a run fails only for
// new ones, and for an entry that has become wrong. It is a file that people keep
// in version control, so each entry has a reason and may have an end.
type Baseline struct{ entries []deviation }

// A deviation is the id of a test or a rule, and an agent, "" for all.
// An id may be that of a rule and of a test at once; both are then accepted.
type deviation struct {
	id, agent string
	until     time.Time // the last day on which it is accepted; zero for no end
	reason    string
}

// ParseBaseline reads a baseline. A line is
//
//	ID [AGENT] [until=YYYY-MM-DD] # REASON
//
// with the id of a test or of a rule, and the name of an agent if it is not for all. Empty
// lines and lines that start with # are ignored. Errors are of type [*jsont.FileError]
// and name the path.
func ParseBaseline(path string, text []byte) (*Baseline, error) {
	b := &Baseline{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		d, err := parseDeviation(line)
		if err == nil && slices.ContainsFunc(b.entries, func(o deviation) bool { return o.id == d.id && o.agent == d.agent }) {
			err = fmt.Errorf("%s appears twice", d.id)
		}
		if err != nil {
			return nil, &jsont.FileError{Path: path, Line: n, Err: err}
		}
		b.entries = append(b.entries, d)
	}
	if err := lines.Err(); err != nil {
		return nil, &jsont.FileError{Path: path, Line: 1, Err: errors.New("a line is too long")}
	}
	return b, nil
}

// parseDeviation reads one line of a baseline.
// The reason begins after the first " # ", so an id or a name may contain the
// character. Words that are neither the id nor a date are the name of the agent,
// which may have blanks in it.
func parseDeviation(line string) (d deviation, err error) {
	line, d.reason, _ = strings.Cut(line, " # ")
	if d.reason = strings.TrimSpace(d.reason); d.reason == "" {
		return d, fmt.Errorf("%s has no reason: write one after #", line)
	}
	words := strings.Fields(line)
	d.id, words = words[0], words[1:]
	words = slices.DeleteFunc(words, func(w string) bool {
		date, ok := strings.CutPrefix(w, "until=")
		if ok && err == nil {
			d.until, err = time.Parse(time.DateOnly, date)
		}
		return ok
	})
	if err != nil {
		return d, fmt.Errorf("%s: until= needs a date such as 2027-01-31", d.id)
	}
	d.agent = strings.Join(words, " ")
	return d, nil
}

// Apply marks the results and findings that the baseline accepts at a time. An entry is
// stale if its test ran and did not fail, or if all tests ran and no finding has its rule.
// Dates are days in UTC, and the last day is included. An entry whose time is over
// has no effect, and a note says so. Apply changes the report in place and is
// called once.
func (b *Baseline) Apply(r *Report, now time.Time) {
	for i := range r.Agents {
		a := &r.Agents[i]
		for _, d := range b.entries {
			if d.agent != "" && d.agent != a.Name {
				continue
			}
			if !d.until.IsZero() && !now.Before(d.until.AddDate(0, 0, 1)) {
				a.Notes = append(a.Notes, fmt.Sprintf("the baseline accepted %s only until %s", d.id, d.until.Format(time.DateOnly)))
				continue
			}
			if rules.Known(d.id) {
				a.acceptRule(d, r.Selected)
			}
			a.acceptTest(d)
		}
	}
}

// acceptRule marks the findings of a rule.
// A run of selected tests may not have met the rule at all, so it makes no entry
// stale.
func (a *AgentReport) acceptRule(d deviation, selected bool) {
	found := false
	for f := range a.findings() {
		if f.Rule == d.id {
			f.Known = true
			f.Reason = d.reason
			found = true
		}
	}
	if !found && !selected {
		a.Stale = append(a.Stale, d.id)
	}
}

// acceptTest marks the result of a test.
// An accepted test does not accept its findings elsewhere: a finding of the ledger
// stays unless all tests that found it are accepted.
func (a *AgentReport) acceptTest(d deviation) {
	for i := range a.Tests {
		switch t := &a.Tests[i]; {
		case t.ID != d.id:
		case t.Status == Pass || t.Status == NA:
			a.Stale = append(a.Stale, t.ID)
		default:
			t.Known = true
			for j := range t.Findings {
				t.Findings[j].Known, t.Findings[j].Reason = true, d.reason
			}
		}
	}
	// The ledger has the findings of accepted tests, too.
	for i := range a.Ledger {
		f := &a.Ledger[i]
		accepted := func(id string) bool {
			return slices.ContainsFunc(a.Tests, func(t Result) bool { return t.ID == id && t.Known })
		}
		if !f.Known && len(f.Tests) > 0 && !slices.ContainsFunc(f.Tests, func(id string) bool { return !accepted(id) }) {
			f.Known, f.Reason = true, d.reason
		}
	}
}

// Requirements are the ids of the rules that a run asks for. A MUST that is not among them
// does not fail the run. Nil asks for all.
// The file lists rules, not tests, so a new test of a rule needs no change of it.
type Requirements map[string]bool

// ParseRequirements reads the ids of rules, one per line. Empty lines and lines that start
// with # are ignored. Errors are of type [*jsont.FileError] and name the path.
func ParseRequirements(path string, text []byte) (Requirements, error) {
	r := Requirements{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		id := strings.TrimSpace(line)
		if id == "" || strings.HasPrefix(id, "#") {
			continue
		}
		if !rules.Known(id) {
			return nil, &jsont.FileError{Path: path, Line: n, Err: fmt.Errorf("unknown rule %s", id)}
		}
		r[id] = true
	}
	return r, nil
}

// Apply marks the findings of rules that are not asked for. A finding about a test itself
// is always asked for.
func (q Requirements) Apply(r *Report) {
	for i := range r.Agents {
		for f := range r.Agents[i].findings() {
			f.Unasked = q != nil && rules.Known(f.Rule) && !q[f.Rule]
		}
	}
}
