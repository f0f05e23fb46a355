package render

import (
	"encoding/json"
	"io"
	"iter"
	"slices"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// A Status is the verdict on one test with one agent.
// The words are stored in reports and compared by programs; they do not change.
type Status string

// The statuses. FAIL, PARTIAL and ERROR make a run a failure.
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

// A Result is the outcome of one test with one agent. Findings and Docs are never
// nil, so that the JSON has lists. Known belongs to the baseline and is set by
// Apply alone.
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
	DurationMs  int64           `json:"durationMs"`
	Known       bool            `json:"known,omitempty"` // the baseline expects the failure

	// Obeyed is the form of the prompts that the agent followed; "" if it followed none, or the
	// test has no prompt that shows it.
	Obeyed Form `json:"obeyed,omitempty"`

	// Advisory says that the test is one of the user, and optional: the run does not fail because
	// it could not be run. A MUST of a rule that it finds broken fails the run, as anywhere.
	Advisory bool `json:"advisory,omitempty"`

	// Ignored are the parts of the test that this version does not know and did not perform, each
	// with its line.
	Ignored []string `json:"ignored,omitempty"`
}

// A Form is the language of the part of a prompt that an agent followed. A prompt of a
// test has the same request in both.
type Form string

// The forms of prompts.
const (
	InEnglish   Form = "english"
	ByDirective Form = "directive" // in the language of the scripted model
)

// Failed reports whether the result makes the whole run a failure: a MUST was broken, or
// the test could not be run and is not optional and of the user. The severity of a test does
// not matter for a MUST.
func (r Result) Failed() bool {
	if r.Known {
		return false
	}
	return (r.Status == Errored && !r.Advisory) || slices.ContainsFunc(r.Findings, func(f rules.Finding) bool { return f.Fails() })
}

// Timed reports whether a finding that decides the status rests on time alone.
func (r Result) Timed() bool {
	return slices.ContainsFunc(r.Findings, func(f rules.Finding) bool {
		return f.Timed && (f.Level == jsont.Must || f.Level == jsont.OfTest)
	})
}

// Judge sets status and reason from the findings. The worst level decides, and its first
// finding is the reason. met tells whether at least one expectation was met.
// The severity of the test matters for PARTIAL alone. MAY and ADV never change a
// status.
func (r *Result) Judge(met bool) {
	r.Status = Pass
	rank := map[jsont.Level]int{jsont.Should: 1, jsont.Must: 2, jsont.OfTest: 2}
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

// An AgentReport has the results of all tests of one agent. The members up to
// Commands are statements of the agent about itself, from the conversation before
// the tests.
type AgentReport struct {
	Name              string          `json:"name"`
	ProtocolVersion   json.RawMessage `json:"protocolVersion"`   // as the agent answered; null if it did not
	AgentCapabilities json.RawMessage `json:"agentCapabilities"` // as the agent answered; null if it did not
	AgentInfo         json.RawMessage `json:"agentInfo,omitempty"`

	// Offered are the capabilities of the client in that conversation; nil in a report about clients.
	Offered json.RawMessage `json:"offered,omitempty"`

	// Of a client, in a report about clients.
	ClientCapabilities json.RawMessage `json:"clientCapabilities,omitempty"`
	ClientInfo         json.RawMessage `json:"clientInfo,omitempty"`

	Modes    []string        `json:"modes,omitempty"`
	Commands []string        `json:"commands,omitempty"`
	Notes    []string        `json:"notes,omitempty"` // problems before the tests
	Tests    []Result        `json:"tests"`
	Ledger   []rules.Finding `json:"ledger"` // from the checks of every frame: each rule once, with the tests that found it
	Totals   map[Status]int  `json:"totals"`
	Stale    []string        `json:"stale,omitempty"` // entries of the baseline that did not fail
}

// Count sets the totals from the results.
func (a *AgentReport) Count() {
	a.Totals = map[Status]int{}
	for _, s := range Statuses() {
		a.Totals[s] = 0
	}
	for _, t := range a.Tests {
		a.Totals[t.Status]++
	}
}

// AddLedger adds findings of the ledger. A rule with a level stands there once, with its
// first proof and the tests of all.
// The search is linear in the ledger, which has at most a few entries per rule.
func (a *AgentReport) AddLedger(found []rules.Finding) {
	for _, f := range found {
		i := slices.IndexFunc(a.Ledger, func(o rules.Finding) bool { return o.Rule == f.Rule && o.Level == f.Level })
		if i < 0 {
			i = len(a.Ledger)
			a.Ledger = append(a.Ledger, f)
		}
		if known := &a.Ledger[i]; !slices.Contains(known.Tests, f.Test) {
			known.Tests = append(known.Tests, f.Test)
		}
	}
}

// findings iterates over the findings of all tests and of the ledger, which may be changed.
// A finding of a test that the ledger has as well is yielded twice.
func (a *AgentReport) findings() iter.Seq[*rules.Finding] {
	return func(yield func(*rules.Finding) bool) {
		for i := range a.Tests {
			for j := range a.Tests[i].Findings {
				if !yield(&a.Tests[i].Findings[j]) {
					return
				}
			}
		}
		for i := range a.Ledger {
			if !yield(&a.Ledger[i]) {
				return
			}
		}
	}
}

// A Report has the results of a run. Agents stand in the order of the run, and all
// have the same tests in the same order, which the table of the Markdown report
// relies on.
type Report struct {
	Schema      string        `json:"schema"`            // ReportSchema
	Subject     string        `json:"subject,omitempty"` // SubjectClient if the report is about clients, which are then in Agents
	Tool        string        `json:"tool"`              // the program and its version
	Suite       string        `json:"suite"`             // how many tests and rules it has, and a hash of both
	Protocol    int           `json:"protocol"`          // the version that the client spoke
	Started     string        `json:"started"`           // as RFC 3339 has it
	DurationMs  int64         `json:"durationMs"`
	Interrupted bool          `json:"interrupted,omitempty"` // the run ended before all tests had run
	Agents      []AgentReport `json:"agents"`
	Selected    bool          `json:"selected,omitempty"` // only some tests of the suite were to run
}

// ReportSchema names the form of the JSON report, which docs/comply.md describes.
const ReportSchema = "parley-comply-report/1"

// SubjectClient is the subject of a report about clients.
const SubjectClient = "client"

// Broken returns the findings of the ledger that make the whole run a failure and are not
// findings of a test as well, which fails by them.
// Without that exception one mistake would be counted as a failed test and as a
// failed frame. Findings that only optional tests of the user led to are left out.
func (a *AgentReport) Broken() (out []rules.Finding) {
	for _, f := range a.Ledger {
		inTest := func(t Result) bool {
			return t.Failed() && slices.ContainsFunc(t.Findings, func(o rules.Finding) bool { return o.Rule == f.Rule && o.Fails() })
		}
		if f.Fails() && !slices.ContainsFunc(a.Tests, inTest) {
			out = append(out, f)
		}
	}
	return out
}

// Failed reports whether a MUST was broken, wherever it was seen, or a test could not be run,
// both unless the baseline accepts it, or the baseline has a stale entry.
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
// Text of agents is written as JSON strings, with the escapes that JSON needs and
// no others.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
