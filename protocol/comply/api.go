package comply

import (
	"slices"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// The types that a program meets when it calls Run. They are declared in the
// packages jsont, rules and render, which document them.
type (
	// The three packages are also there for programs that read tests, check recorded
	// logs or write reports without running anything.
	Test            = jsont.Test
	FileError       = jsont.FileError
	Severity        = jsont.Severity
	Level           = jsont.Level
	Rule            = rules.Rule
	Finding         = rules.Finding
	Frame           = rules.Frame
	Report          = render.Report
	AgentReport     = render.AgentReport
	Result          = render.Result
	Status          = render.Status
	Form            = render.Form
	Baseline        = render.Baseline
	MarkdownOptions = render.MarkdownOptions
	Requirements    = render.Requirements
	IndexedFinding  = render.IndexedFinding
	Change          = render.Change
	Example         = rules.Example
)

// Extension ends the name of a test file.
const Extension = jsont.Extension

// The severities of tests.
const (
	Required = jsont.Required
	Optional = jsont.Optional
)

// The levels of rules.
const (
	Must     = jsont.Must
	Should   = jsont.Should
	May      = jsont.May
	Advisory = jsont.Advisory
)

// The statuses of results.
const (
	Pass    = render.Pass
	Fail    = render.Fail
	Warn    = render.Warn
	Partial = render.Partial
	NA      = render.NA
	Errored = render.Errored
)

// The forms of prompts that an agent may follow.
const (
	InEnglish   = render.InEnglish
	ByDirective = render.ByDirective
)

// Parse reads a test; see [jsont.Parse].
func Parse(path string, source []byte) (*Test, error) { return jsont.Parse(path, source) }

// ParseBaseline reads the failures that are expected; see [render.ParseBaseline].
func ParseBaseline(path string, text []byte) (*Baseline, error) {
	return render.ParseBaseline(path, text)
}

// ParseRequirements reads the rules that a run asks for; see [render.ParseRequirements].
func ParseRequirements(path string, text []byte) (Requirements, error) {
	return render.ParseRequirements(path, text)
}

// ParseReport reads a report in JSON; see [render.ParseReport].
func ParseReport(path string, text []byte) (*Report, error) { return render.ParseReport(path, text) }

// Compare returns the changes between two reports; see [render.Compare].
func Compare(before, after *Report) []Change { return render.Compare(before, after) }

// ExampleOf returns the example of a rule; see [rules.ExampleOf].
func ExampleOf(id string) Example { return rules.ExampleOf(id) }

// CheckedInFrames reports whether every frame is checked for the rule with that id.
// Other rules are checked by tests alone.
func CheckedInFrames(id string) bool { return slices.Contains(rules.LedgerIDs(), id) }

// Rules returns the rules that are known here. Tests may name others.
func Rules() []Rule { return rules.All() }
