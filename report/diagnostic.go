package report

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
)

// A Code names something about a text. Codes are a contract; the messages
// beside them are not.
type Code string

// What a reader has to say about a text. All but the first group leave a
// report that can be used.
const (
	CodeNotReport    Code = "not_a_report"        // there is no STATUS field
	CodeIsDispatch   Code = "looks_like_dispatch" // and it reads like a dispatch
	CodeNotDispatch  Code = "not_a_dispatch"      // there is no TASK field
	CodeNearMiss     Code = "near_miss"           // a line that is almost a field
	CodeTruncated    Code = "truncated"           // over the limit: only the end was read
	CodeStrippedBOM  Code = "stripped_bom"        // characters without width before a name
	CodeOddLineEnd   Code = "odd_line_end"        // a lone CR, U+2028 or U+2029 ends a line
	CodeFenced       Code = "fenced"              // inside a block of code
	CodeProseBefore  Code = "prose_before"        // other text before the report
	CodeProseAfter   Code = "prose_after"         // other text after it
	CodeBlocks       Code = "multiple_blocks"     // several reports in one text
	CodeConflict     Code = "conflicting_status"  // which say different things
	CodeDuplicate    Code = "duplicate_field"     // a field twice
	CodeDecorated    Code = "decorated"           // bold, code, bullet, quote, heading, table
	CodeSeparator    Code = "odd_separator"       // not a colon, blanks and tabs
	CodeTrailing     Code = "trailing_text"       // more than a word where a word is due
	CodeNormalised   Code = "normalised_value"    // another spelling of a word
	CodeUnknownField Code = "unknown_field"       // kept in Extra
	CodeUnknownValue Code = "unknown_value"       // taken as absent
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

// What Check and the lint functions add.
const (
	CodeContradiction   Code = "contradiction"    // the status and the rest do not fit
	CodeMissingReason   Code = "missing_reason"   // it did not work, and nothing says why
	CodeUnexpectedError Code = "unexpected_error" // it worked, and yet there is an error
	CodeListedTwice     Code = "listed_twice"     // a file twice
	CodeAbsolutePath    Code = "absolute_path"    // a file not below the work folder
	CodeParentPath      Code = "parent_path"      // a path with ".." in it
	CodeOutsideScope    Code = "outside_scope"    // a file that the scope does not cover
	CodeMissingField    Code = "missing_field"    // a dispatch that leaves something open
	CodeNotCanonical    Code = "not_canonical"    // could be written shorter
)

// A Severity says how much a diagnostic matters.
type Severity string

// The severities. A gate should let no error pass.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// severities holds what is more than a note.
var severities = map[Code]Severity{
	CodeNotReport: SeverityError, CodeIsDispatch: SeverityError, CodeNotDispatch: SeverityError,
	CodeConflict: SeverityError, CodeUnknown: SeverityError, CodeContradiction: SeverityError,
	CodeAbsolutePath: SeverityError, CodeParentPath: SeverityError, CodeOutsideScope: SeverityError,

	CodeNearMiss: SeverityWarning, CodeTruncated: SeverityWarning, CodeBlocks: SeverityWarning, CodeDuplicate: SeverityWarning,
	CodeUnknownValue: SeverityWarning, CodeMissingReason: SeverityWarning, CodeUnexpectedError: SeverityWarning,
	CodeListedTwice: SeverityWarning, CodeMissingField: SeverityWarning,
}

// Severity returns how much the code matters.
func (c Code) Severity() Severity {
	if s, ok := severities[c]; ok {
		return s
	}
	return SeverityNote
}

// A Diagnostic says one thing about a text.
type Diagnostic struct {
	Code    Code   `json:"code"`
	Line    int    `json:"line"` // from 1; 0 for the text as a whole
	Message string `json:"message"`
}

// HasError reports whether one of the diagnostics is an error.
func HasError(all []Diagnostic) bool {
	return slices.ContainsFunc(all, func(d Diagnostic) bool { return d.Code.Severity() == SeverityError })
}

// maxPerCode bounds how often the same is said about one text.
const maxPerCode = 8

// diagnostics gathers what is said about one text.
type diagnostics struct {
	all    []Diagnostic
	counts map[Code]int
}

// full reports whether enough was said with a code.
func (d *diagnostics) full(code Code) bool { return d.counts[code] >= maxPerCode }

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

// brief returns the beginning of what somebody else wrote, for a message.
func brief(s string) string {
	end := 60
	if len(s) <= end {
		return s
	}
	for !utf8.RuneStart(s[end]) && end > 50 {
		end--
	}
	return s[:end] + "…"
}
