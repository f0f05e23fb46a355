package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A Code is the kind of a diagnostic. Codes are a contract; messages are not.
// Programs may compare codes with the constants below; a later version may add
// some.
type Code string

// The codes of the parser. All but not_a_report, looks_like_dispatch and
// not_a_dispatch leave a report that can be used.
const (
	CodeNotReport    Code = "not_a_report"        // there is no STATUS field
	CodeIsDispatch   Code = "looks_like_dispatch" // there is no STATUS field, but those of a dispatch
	CodeNotDispatch  Code = "not_a_dispatch"      // there is no TASK field
	CodeNearMiss     Code = "near_miss"           // a line that is almost a field
	CodeTruncated    Code = "truncated"           // over the limit: only the end was read
	CodeStrippedBOM  Code = "stripped_bom"        // characters without width before a name
	CodeOddLineEnd   Code = "odd_line_end"        // a lone CR, U+2028 or U+2029 ends a line
	CodeFenced       Code = "fenced"              // the report is in a code block
	CodeProseBefore  Code = "prose_before"        // other text before the report
	CodeProseAfter   Code = "prose_after"         // other text after the report
	CodeBlocks       Code = "multiple_blocks"     // several reports in one text
	CodeConflict     Code = "conflicting_status"  // the reports of a text have different statuses
	CodeDuplicate    Code = "duplicate_field"     // a repeated field
	CodeDecorated    Code = "decorated"           // bold, code, bullet, quote, heading, table
	CodeSeparator    Code = "odd_separator"       // not a colon, blanks and tabs
	CodeTrailing     Code = "trailing_text"       // text behind the word of a field
	CodeNormalised   Code = "normalised_value"    // another spelling of a word
	CodeUnknownField Code = "unknown_field"       // kept in Extra
	CodeUnknownValue Code = "unknown_value"       // dropped
	CodeDropped      Code = "dropped_member"      // a JSON member that no report can hold
	CodeIgnoredCount Code = "ignored_count"       // a count behind BUILD
	CodeEmptyMarker  Code = "empty_marker"        // "none" for an empty list
	CodeJSONList     Code = "json_list"           // a list in JSON, or with commas that do not separate
	CodeLongList     Code = "multiline_list"      // a list over several lines
	CodeLongText     Code = "multiline_text"      // a text over several lines
	CodeInline       Code = "inline_fields"       // several fields on one line
	CodeJSONForm     Code = "json_form"           // JSON where text was possible
	CodeOddName      Code = "odd_name"            // a JSON member in the wrong case
	CodeUnknown      Code = "unknown_status"      // kept; never a success
)

// The codes of Check and the lint functions.
const (
	CodeContradiction   Code = "contradiction"    // the status contradicts another field
	CodeMissingReason   Code = "missing_reason"   // a failure without ERROR or LEARNED
	CodeUnexpectedError Code = "unexpected_error" // a success with ERROR
	CodeListedTwice     Code = "listed_twice"     // a repeated file
	CodeAbsolutePath    Code = "absolute_path"    // a path that does not lie below the working folder
	CodeParentPath      Code = "parent_path"      // a path with ".." in it
	CodeOutsideScope    Code = "outside_scope"    // a path outside the scope
	CodeMissingField    Code = "missing_field"    // a dispatch without an important field
	CodeNotCanonical    Code = "not_canonical"    // there is a plainer form
	CodeNoExample       Code = "no_example"       // a prompt without an example of a report
	CodeReference       Code = "reference_reader" // an example that the protocol's public parser reads in another way
)

// A Severity is the weight of a diagnostic. An error means that the report cannot
// be trusted or used as it is, a warning that something of it was lost or is
// missing, a note that the text was understood although it has another form.
type Severity string

// The severities. A check in CI should fail on an error.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// severities holds the codes that are more than a note.
var severities = map[Code]Severity{
	CodeNotReport: SeverityError, CodeIsDispatch: SeverityError, CodeNotDispatch: SeverityError,
	CodeConflict: SeverityError, CodeUnknown: SeverityError, CodeContradiction: SeverityError,
	CodeAbsolutePath: SeverityError, CodeParentPath: SeverityError, CodeOutsideScope: SeverityError,
	CodeNoExample: SeverityError, CodeReference: SeverityError,

	CodeNearMiss: SeverityWarning, CodeTruncated: SeverityWarning, CodeBlocks: SeverityWarning, CodeDuplicate: SeverityWarning,
	CodeUnknownValue: SeverityWarning, CodeDropped: SeverityWarning, CodeMissingReason: SeverityWarning, CodeUnexpectedError: SeverityWarning,
	CodeListedTwice: SeverityWarning, CodeMissingField: SeverityWarning,
}

// Severity returns the weight of the code.
func (c Code) Severity() Severity {
	if s, ok := severities[c]; ok {
		return s
	}
	return SeverityNote
}

// A Diagnostic is one finding about a text.
// Diagnostics are sent to agents in a closing turn and shown to people, so a
// message has no more than 60 characters of foreign text.
type Diagnostic struct {
	Code    Code   `json:"code"`
	Line    int    `json:"line"` // from 1; 0 for the text as a whole
	Message string `json:"message"`
}

// Lost returns the first diagnostic about a value that a report or dispatch does not
// have although its text has it. ok is false if there is none.
func Lost(all []Diagnostic) (d Diagnostic, ok bool) {
	i := slices.IndexFunc(all, func(d Diagnostic) bool { return d.Code == CodeUnknownValue || d.Code == CodeDropped })
	if i < 0 {
		return Diagnostic{}, false
	}
	return all[i], true
}

// HasError reports whether one of the diagnostics is an error.
func HasError(all []Diagnostic) bool {
	return slices.ContainsFunc(all, func(d Diagnostic) bool { return d.Code.Severity() == SeverityError })
}

// maxPerCode is the largest number of diagnostics with one code.
// Further ones would repeat the same advice, and a hostile text could make
// millions.
const maxPerCode = 8

// diagnostics collects the findings about one text.
type diagnostics struct {
	all    []Diagnostic
	counts map[Code]int
}

// full reports whether there are enough diagnostics with a code.
func (d *diagnostics) full(code Code) bool { return d.counts[code] >= maxPerCode }

// add adds a diagnostic, unless there are enough with its code.
func (d *diagnostics) add(code Code, line int, format string, args ...any) {
	if d.full(code) {
		return
	}
	if d.counts == nil {
		d.counts = map[Code]int{}
	}
	d.counts[code]++
	d.all = append(d.all, Diagnostic{Code: code, Line: line, Message: fmt.Sprintf(format, args...)})
}

// sorted returns the diagnostics in the order of the lines.
func (d *diagnostics) sorted() []Diagnostic {
	slices.SortStableFunc(d.all, func(a, b Diagnostic) int { return cmp.Compare(a.Line, b.Line) })
	return d.all
}

// brief returns the beginning of a foreign text, for a message.
func brief(s string) string { return shorten.Text(s, 60) }
