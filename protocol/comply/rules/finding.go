package rules

import (
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A Frame is an entry of a log as a report shows it, to prove a finding.
type Frame struct {
	Seq       int               `json:"seq"` // its place in the conversation, from 1
	Direction jsonrpc.Direction `json:"direction"`
	Text      string            `json:"text"` // the beginning, if it is long
}

// A Finding is one departure of an agent from a rule.
// Expected and Actual are written for the author of the agent: Expected completes
// "the protocol wants", Actual says what came instead. Known, Reason and Unasked
// belong to the baseline and the requirements of a run, not to the finding itself.
type Finding struct {
	Rule     string      `json:"rule"` // the id of the rule, or of the test if it names none
	Level    jsont.Level `json:"level"`
	Expected string      `json:"expected"`
	Actual   string      `json:"actual"`
	Frames   []Frame     `json:"frames"`            // the proof; the last one decides
	Context  []Frame     `json:"context,omitempty"` // requests, answers and notifications of the client that came before it
	Docs     []string    `json:"docs"`
	Fix      string      `json:"fix"`             // advice for the author of the agent
	Test     string      `json:"test,omitempty"`  // the id of the test, where findings of several stand together
	Tests    []string    `json:"tests,omitempty"` // the ids of all tests that found it, in a list without repetitions

	// Timed says that the finding rests on time alone: nothing came while the runner waited.
	Timed bool `json:"timed,omitempty"`

	Known   bool   `json:"known,omitempty"`   // the baseline accepts it
	Reason  string `json:"reason,omitempty"`  // why the baseline accepts it
	Unasked bool   `json:"unasked,omitempty"` // the requirements of the run do not have its rule
}

// Fails reports whether the finding makes a run fail: a MUST was broken that the run
// asks for, and the baseline does not accept it.
func (f *Finding) Fails() bool { return f.Level == jsont.Must && !f.Known && !f.Unasked }

// NewFinding returns the finding that an agent broke a rule in a test, with the
// entries that prove it. The links of the rule come before those of the test.
func NewFinding(r Rule, t *jsont.Test, expected, actual string, proof ...*Entry) *Finding {
	f := &Finding{Rule: r.ID, Level: r.Level, Expected: expected, Actual: actual, Fix: r.Fix, Frames: []Frame{}, Docs: []string{}}
	if f.Fix == "" {
		f.Fix = "compare the frames with the expectation; the linked pages describe the protocol's rule"
	}
	if r.Docs != "" {
		f.Docs = append(f.Docs, r.Docs)
	} else {
		f.Docs = append(f.Docs, t.Docs...)
	}
	for _, e := range proof {
		f.Frames = append(f.Frames, e.Frame())
	}
	return f
}
