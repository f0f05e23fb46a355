// Package proof proves the compliance tests: it runs them against mutants of the good agent
// and compares the rules that were found broken with the rules that are. Only tests and
// tools import it.
package proof

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/plainagent"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// Agent returns the good agent, or a mutant of it if m is not nil, as a function
// of this process.
func Agent(m *goodagent.Mutant) comply.Agent {
	name := "goodagent"
	if m != nil {
		name = m.ID()
	}
	return comply.Agent{Name: name, Serve: func(ctx context.Context, s *comply.Stdio) error {
		return goodagent.Serve(ctx, m, s.Env, s.In, s.Out, s.Err)
	}}
}

// Plain returns the second good agent, as a function of this process.
func Plain() comply.Agent {
	return comply.Agent{Name: "plainagent", Serve: func(ctx context.Context, s *comply.Stdio) error {
		return plainagent.Serve(ctx, s.In, s.Out)
	}}
}

// A Verdict is the result of all tests of a mutant.
type Verdict struct {
	Found     map[string][]string // the tests that found a rule to be broken, by its id
	Caught    bool                // its own rule is among them
	Gate      bool                // the run failed if a broken rule is a MUST, and not otherwise
	Unrelated []string            // rules that were found to be broken, and are not
}

// Found returns the rules that were found broken, with the tests that found them. Findings
// about a test itself are left out.
func Found(report comply.AgentReport) map[string][]string {
	out := map[string][]string{}
	note := func(rule, test string) {
		if rule != test && !slices.Contains(out[rule], test) {
			out[rule] = append(out[rule], test)
		}
	}
	for _, r := range report.Tests {
		for _, f := range r.Findings {
			note(f.Rule, r.ID)
		}
	}
	for _, f := range report.Ledger { // with the findings of the probe
		for _, test := range f.Tests {
			note(f.Rule, test)
		}
	}
	return out
}

// Against returns what a report holds against a good agent: every finding, except advice about
// speed, which a busy machine gives, and MCP-07, which asks for a capability.
func Against(report comply.AgentReport) (out []string) {
	held := func(where string, f comply.Finding) {
		if f.Rule != "MCP-07" && (!f.Timed || f.Level == comply.Must) {
			out = append(out, fmt.Sprintf("%s: %s: want %s, got %s", where, f.Rule, f.Expected, f.Actual))
		}
	}
	for _, r := range report.Tests {
		for _, f := range r.Findings {
			held(r.ID, f)
		}
	}
	for _, f := range report.Broken() {
		held("all tests", f)
	}
	return out
}

// Clean reports whether the mutant was found to break its rule, and no rule that does not
// follow from that.
func (v Verdict) Clean() bool { return v.Caught && v.Gate && len(v.Unrelated) == 0 }

// String describes the verdict for people, with the tests that found an unrelated rule.
func (v Verdict) String() string {
	if !v.Caught {
		return "NOT CAUGHT"
	}
	text, sep := "caught", ", and also found: "
	if !v.Gate {
		text += ", but NOT BY THE EXIT CODE"
	}
	for _, rule := range v.Unrelated {
		text += fmt.Sprintf("%s%s (%s)", sep, rule, strings.Join(v.Found[rule], " "))
		sep = ", "
	}
	return text
}

// patience is the factor of all timeouts when a mutant is tried again: on a busy machine an
// agent may have been too slow the first time.
const patience = 5

// Try runs tests against a mutant, which a is, and once more with longer windows if
// the verdict is not clean. opts may be nil; the version is that of the mutant.
func Try(ctx context.Context, m *goodagent.Mutant, a comply.Agent, tests []*comply.Test, opts *comply.Options) (Verdict, error) {
	var o comply.Options
	if opts != nil {
		o = *opts
	}
	if o.TimeoutScale == 0 {
		o.TimeoutScale = 1
	}
	if o.Protocol = 1; m.V2 {
		o.Protocol = 2
	}
	tests = Applicable(tests, o.Protocol)
	v, err := try(ctx, m, a, tests, &o)
	if err == nil && !v.Clean() {
		o.TimeoutScale *= patience
		v, err = try(ctx, m, a, tests, &o)
	}
	return v, err
}

func try(ctx context.Context, m *goodagent.Mutant, a comply.Agent, tests []*comply.Test, opts *comply.Options) (Verdict, error) {
	report, err := comply.Run(ctx, []comply.Agent{a}, tests, opts)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Found: Found(report.Agents[0])}
	broken := m.Broken()
	for rule := range v.Found {
		if !slices.Contains(broken, rule) {
			v.Unrelated = append(v.Unrelated, rule)
		}
	}
	slices.Sort(v.Unrelated)
	v.Caught = v.Found[m.Rule] != nil
	v.Gate = report.Failed() == broke(report.Agents[0], broken)
	if rules.Find(m.Rule).Level == comply.Must && !m.Suspected {
		v.Gate = report.Failed()
	}
	return v, nil
}

// broke reports whether one of the rules was found to be broken as a MUST.
func broke(report comply.AgentReport, broken []string) bool {
	must := func(f comply.Finding) bool { return f.Level == comply.Must && slices.Contains(broken, f.Rule) }
	return slices.ContainsFunc(report.Ledger, must) ||
		slices.ContainsFunc(report.Tests, func(r comply.Result) bool { return slices.ContainsFunc(r.Findings, must) })
}

// Applicable returns the tests that are for a version of the protocol.
func Applicable(tests []*comply.Test, version int) (out []*comply.Test) {
	for _, t := range tests {
		if len(t.Protocols) == 0 || slices.Contains(t.Protocols, version) {
			out = append(out, t)
		}
	}
	return out
}

// About returns the tests that are about a rule.
func About(tests []*comply.Test, rule string) (out []*comply.Test) {
	for _, t := range tests {
		if slices.Contains(t.Rules, rule) {
			out = append(out, t)
		}
	}
	return out
}
