package render

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/parley-agents/parley/comply/jsont"
	"github.com/parley-agents/parley/comply/rules"
)

// A Status is the verdict on one test with one agent.
type Status string

// The statuses. Only FAIL and ERROR of a required test make a run a failure.
const (
	Pass    Status = "PASS"
	Fail    Status = "FAIL"
	Warn    Status = "WARN"    // a SHOULD was broken, and no MUST
	Partial Status = "PARTIAL" // a MUST was broken in an optional test, after an expectation was met
	NA      Status = "NA"      // a precondition does not hold, or the test could not get to its point
	Errored Status = "ERROR"   // the runner could not run the test
)

// Statuses lists the statuses, the best first.
func Statuses() []Status { return []Status{Pass, Warn, Partial, NA, Fail, Errored} }

// A Result is the outcome of one test with one agent.
type Result struct {
	ID          string          `json:"id"`
	Title       string          `json:"title"`
	Description string          `json:"description,omitempty"`
	Area        string          `json:"area"`
	Severity    jsont.Severity  `json:"severity"`
	Status      Status          `json:"status"`
	Reason      string          `json:"reason"` // why the status is not PASS; "" if it is
	Findings    []rules.Finding `json:"findings"`
	Docs        []string        `json:"docs"`
	Known       bool            `json:"known,omitempty"` // the baseline expects the failure
}

// Failed reports whether the result makes the whole run a failure.
func (r Result) Failed() bool {
	return r.Severity == jsont.Required && (r.Status == Fail || r.Status == Errored) && !r.Known
}

// Judge sets status and reason from the findings. The worst level decides, and its first
// finding is the reason. met tells whether at least one expectation was met.
func (r *Result) Judge(met bool) {
	r.Status = Pass
	rank := map[jsont.Level]int{jsont.Should: 1, jsont.Must: 2}
	worst := 0
	for _, f := range r.Findings {
		if rank[f.Level] > worst {
			worst = rank[f.Level]
			r.Reason = f.Actual
		}
	}
	switch {
	case worst == 2 && r.Severity == jsont.Optional && met:
		r.Status = Partial
	case worst == 2:
		r.Status = Fail
	case worst == 1:
		r.Status = Warn
	}
}

// ProbeID is the test id of the conversation before the tests, in which the runner learns
// the capabilities of the agent.
const ProbeID = "_probe"

// An AgentReport has the results of all tests of one agent.
type AgentReport struct {
	Name              string          `json:"name"`
	ProtocolVersion   json.RawMessage `json:"protocolVersion"`   // as the agent answered; null if it did not
	AgentCapabilities json.RawMessage `json:"agentCapabilities"` // as the agent answered; null if it did not
	AgentInfo         json.RawMessage `json:"agentInfo,omitempty"`
	Modes             []string        `json:"modes,omitempty"`
	Commands          []string        `json:"commands,omitempty"`
	Notes             []string        `json:"notes,omitempty"` // problems before the tests
	Tests             []Result        `json:"tests"`
	Ledger            []rules.Finding `json:"ledger"` // from the checks of every frame, in the order of the tests
	Totals            map[Status]int  `json:"totals"`
	Stale             []string        `json:"stale,omitempty"` // entries of the baseline that did not fail
}

// Count sets the totals from the results.
func (a *AgentReport) Count() {
	if a.Ledger == nil {
		a.Ledger = []rules.Finding{}
	}
	a.Totals = map[Status]int{}
	for _, s := range Statuses() {
		a.Totals[s] = 0
	}
	for _, t := range a.Tests {
		a.Totals[t.Status]++
	}
}

// A Report has the results of a run.
type Report struct {
	Agents []AgentReport `json:"agents"`
}

// Broken returns the findings of the ledger that make the whole run a failure: the first
// finding of each MUST that was broken in a test and is not in the baseline. Findings
// of the probe do not count, because the same frames come again in each test.
func (a *AgentReport) Broken() (out []rules.Finding) {
	for _, f := range a.Ledger {
		if f.Level == jsont.Must && !f.Known && f.Test != ProbeID && !slices.ContainsFunc(out, func(o rules.Finding) bool { return o.Rule == f.Rule }) {
			out = append(out, f)
		}
	}
	return out
}

// Failed reports whether a required test failed, a MUST was broken, both unless the
// baseline expects it, or the baseline has a stale entry.
func (r *Report) Failed() bool {
	for _, a := range r.Agents {
		if len(a.Stale) > 0 || len(a.Broken()) > 0 {
			return true
		}
		for _, t := range a.Tests {
			if t.Failed() {
				return true
			}
		}
	}
	return false
}

// JSON writes the report for programs, in the form that docs/comply.md documents.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
