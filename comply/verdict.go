package comply

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/parley-agents/parley/jsonrpc"
)

// A Status is the verdict on one test.
type Status string

// The statuses.
const (
	Pass    Status = "PASS"
	Fail    Status = "FAIL"
	Warn    Status = "WARN"    // only what an agent should do was not done
	Partial Status = "PARTIAL" // an optional test that was met in part
	NA      Status = "NA"      // a precondition does not hold, or the test could not come to its point
	Errored Status = "ERROR"   // the test could not be run
)

// Statuses lists the statuses, the best first.
func Statuses() []Status { return []Status{Pass, Warn, Partial, NA, Fail, Errored} }

// A Level says how binding a rule is.
type Level string

// The levels. Only what breaks a MUST fails a test.
const (
	Must     Level = "MUST"
	Should   Level = "SHOULD"
	May      Level = "MAY"
	Advisory Level = "ADV" // the protocol is silent; reported, never held against an agent
)

func parseLevel(s string) (Level, bool) {
	switch l := Level(strings.ToUpper(s)); l {
	case Must, Should, May, Advisory:
		return l, true
	}
	return "", false
}

// A Frame is a message that proves something.
type Frame struct {
	Seq       int               `json:"seq"` // its place in the conversation, from 1
	Direction jsonrpc.Direction `json:"direction"`
	Text      string            `json:"text"` // the beginning, if it is long
}

// A Finding is one departure from what was expected.
type Finding struct {
	Rule     string   `json:"rule"` // the id of the rule, or of the test if it names none
	Level    Level    `json:"level"`
	Expected string   `json:"expected"`
	Actual   string   `json:"actual"`
	Frames   []Frame  `json:"frames"`
	Docs     []string `json:"docs"`
	Fix      string   `json:"fix"`             // what to do
	Test     string   `json:"test,omitempty"`  // the id of the test, where findings of several stand together
	Known    bool     `json:"known,omitempty"` // the baseline expects it
}

// A Result is what came out of one test.
type Result struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Description string    `json:"description,omitempty"`
	Area        string    `json:"area"`
	Severity    Severity  `json:"severity"`
	Status      Status    `json:"status"`
	Reason      string    `json:"reason"` // why it is not PASS
	Findings    []Finding `json:"findings"`
	Docs        []string  `json:"docs"`
	Known       bool      `json:"known,omitempty"` // the baseline expects the failure
}

// Failed reports whether the result makes the whole run a failure.
func (r Result) Failed() bool {
	return r.Severity == Required && (r.Status == Fail || r.Status == Errored) && !r.Known
}

// judge sets status and reason from the findings. met says whether at least one
// expectation was met.
func (r *Result) judge(met bool) {
	r.Status = Pass
	rank := map[Level]int{Should: 1, Must: 2}
	worst := 0
	for _, f := range r.Findings {
		if rank[f.Level] > worst {
			worst = rank[f.Level]
			r.Reason = f.Actual
		}
	}
	switch {
	case worst == 2 && r.Severity == Optional && met:
		r.Status = Partial
	case worst == 2:
		r.Status = Fail
	case worst == 1:
		r.Status = Warn
	}
}

// An AgentReport is what came out of all tests of one agent.
type AgentReport struct {
	Name              string          `json:"name"`
	ProtocolVersion   json.RawMessage `json:"protocolVersion"`   // as the agent answered; null if it did not
	AgentCapabilities json.RawMessage `json:"agentCapabilities"` // as the agent answered; null if it did not
	AgentInfo         json.RawMessage `json:"agentInfo,omitempty"`
	Modes             []string        `json:"modes,omitempty"`
	Commands          []string        `json:"commands,omitempty"`
	Notes             []string        `json:"notes,omitempty"` // what went wrong before the tests
	Tests             []Result        `json:"tests"`
	Ledger            []Finding       `json:"ledger"` // from the checks that every frame of every test passes
	Totals            map[Status]int  `json:"totals"`
	Stale             []string        `json:"stale,omitempty"` // what the baseline expects to fail, and does not
}

// A Report is what came out of a run.
type Report struct {
	Agents []AgentReport `json:"agents"`
}

// Broken returns what stands in the ledger and makes the whole run a failure: the
// first finding of each MUST that was broken in a test and not expected to be. What
// was said before the tests is said again in them.
func (a *AgentReport) Broken() (out []Finding) {
	for _, f := range a.Ledger {
		if f.Level == Must && !f.Known && f.Test != probeName && !slices.ContainsFunc(out, func(o Finding) bool { return o.Rule == f.Rule }) {
			out = append(out, f)
		}
	}
	return out
}

// Failed reports whether a required test failed or a MUST was broken that was not
// expected to, or the baseline is stale.
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

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
