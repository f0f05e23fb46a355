// Package report parses, writes and checks compact reports: the few lines in which
// a coding agent says how its work ended, and the dispatch that gave it the work.
//
//	STATUS:ok
//	FILES_CREATED:limit.go,limit_test.go
//	TESTS:pass:12
//	BUILD:pass
//
// [Parse] reads the text form, [ParseJSON] the JSON form, and [ParseAny] any answer
// of an agent. [Report.Text] writes the canonical form. [Lint] returns all findings
// about a text, and [Report.Check] those about its content.
//
//	r, err := report.ParseAny(answer, nil)
//	if errors.Is(err, report.ErrNotReport) {
//		// send report.Closure(r.Diagnostics) as one more turn
//	}
//	if r.OK() && !report.HasError(r.Diagnostics) {
//		// the agent claims success; verify its claims
//	}
//
// There are two modes. Reference reads as the protocol's public parser does, with
// all its losses. Tolerant, the default, also understands the forms that models
// write around and instead of the canonical one, and reports each of them as a
// [Diagnostic]. A text that Tolerant reads without a diagnostic has the same seven
// values in both modes, and Tolerant accepts every text that Reference accepts.
//
// A text in Tolerant mode is read in three steps. It is split into lines; each line
// is empty, a fence, a field, the continuation of a field, or prose. Consecutive
// fields with a STATUS are a [Block]; the last block with a known status counts,
// because agents report at the end. Then the fields of that block are read, each by
// the shape of its value: a word of the vocabulary, a list, or a text.
//
// Where a text is ambiguous, the reading that claims less success wins: of several
// statuses in a block the least successful one, of several test results a failure,
// and an unknown status is never a success.
//
// Parsing takes time linear in the input, is bounded by [Options] and never panics.
// Names and words of the protocol are compared in ASCII: a letter that only Unicode
// folds to one of them is another letter. The strings of a result are parts of the
// input and keep it in memory.
//
// The package reads no file and verifies no claim: a report is a statement of an
// agent. Paths in it may lead anywhere.
package report
