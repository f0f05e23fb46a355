package report

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// A Mode is a way to read a text.
type Mode string

// The modes.
const (
	// Tolerant recovers the meaning of other forms, and has a diagnostic wherever
	// Reference reads something else. It is the default.
	Tolerant Mode = "tolerant"

	// Reference reads as the protocol's public parser does: one field per line
	// at the beginning of the line, the first usable one counts, anywhere in
	// the text.
	Reference Mode = "reference"
)

// Options changes how a text is read. The zero value works.
type Options struct {
	Mode Mode // default Tolerant

	// Of a text over the limits only the end is read, where agents report.
	// The limits bound the memory and the time of one text, which may come from a
	// hostile agent.
	MaxBytes int // default 1 MiB, at most 2 GiB
	MaxLines int // default 20,000
}

// withDefaults returns a copy of the options with the defaults filled in.
func (o *Options) withDefaults() (Options, error) {
	out := Options{Mode: Tolerant, MaxBytes: 1 << 20, MaxLines: 20_000}
	if o == nil {
		return out, nil
	}
	switch o.Mode {
	case "", Tolerant:
	case Reference:
		out.Mode = Reference
	default:
		return out, fmt.Errorf("report: unknown mode %q: use %q or %q", o.Mode, Tolerant, Reference)
	}
	if o.MaxBytes > 0 {
		out.MaxBytes = min(o.MaxBytes, math.MaxInt32)
	}
	if o.MaxLines > 0 {
		out.MaxLines = o.MaxLines
	}
	return out, nil
}

// ErrNotReport is the error for a text without a report. Most texts have none.
var ErrNotReport = errors.New("report: the text is not a report")

// A Result is the report of a text, with its origin in the text.
// The strings are parts of the input; a caller that keeps one for long should copy
// it.
type Result struct {
	Report
	StatusDetail string // the rest of the value behind the status
	TestsDetail  string // the rest of the value behind the tests, or the counts that were read

	Fields      []TextField // the fields of the report in the order of the text
	Blocks      []Block     // all reports of the text; none in Reference mode and for JSON
	Conflict    bool        // the blocks have different statuses
	Diagnostics []Diagnostic
}

// A TextField is a field of a report with its place in the text.
// Name is the protocol's spelling for a field that it defines. Col counts bytes, so
// it can index the line.
type TextField struct {
	Name      string // upper case
	RawName   string // as in the text
	Value     string // as in the text, trimmed, with the lines that continue it
	Line, Col int    // of the name, from 1; Col in bytes
}

// A Block is a part of a text that is a report: lines of fields, at least one
// of them a STATUS, with no other text and at most one empty line in between.
type Block struct {
	Text        string
	First, Last int // lines
	Status      Status
	Fenced      bool // STATUS is in a code block
	Chosen      bool // the result is that of this block

	// The indexes are those of blockFinder.fields and are of no use after parsing.
	from, to int  // the indexes of its fields
	statusAt int  // the index of the field with the status
	sentence bool // it may be prose that begins with "status:"
}

// Parse reads a report in its text form. It returns ErrNotReport if there is none;
// the result then has diagnostics only. opts may be nil.
func Parse(text string, opts *Options) (Result, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return Result{}, err
	}
	return parse(text, o)
}

// parse reads the part of a text within the limits.
func parse(text string, o Options) (Result, error) {
	text, skipped, cut := window(text, o)
	var d diagnostics
	if cut {
		d.add(CodeTruncated, 0, "the text exceeds %d bytes or %d lines; only line %d and later were read", o.MaxBytes, o.MaxLines, skipped+1)
	}
	var r Result
	if o.Mode == Reference {
		r = readReference(text, skipped)
	} else {
		r, d = readTolerant(text, skipped, d)
	}
	if r.Status != "" {
		r.Diagnostics = d.sorted()
		return r, nil
	}
	if looksLikeDispatch(text, o) {
		d.add(CodeIsDispatch, 0, "the text is a dispatch, not a report: it has no STATUS field")
	}
	d.add(CodeNotReport, 0, "no STATUS field with a value")
	return Result{Diagnostics: d.sorted()}, ErrNotReport
}

// window returns the part of a text within the limits, and the number of lines before
// it. The part begins at the beginning of a line: half a line could mean the opposite
// of the whole.
// The limit on lines is applied after that on bytes and costs one scan of the part
// that is left.
func window(text string, o Options) (part string, skipped int, cut bool) {
	part = text
	if over := len(part) - o.MaxBytes; over > 0 {
		_, part, _ = strings.Cut(part[over-1:], "\n")
	}
	if len(part) > o.MaxLines {
		full := strings.TrimSuffix(part, "\n")
		for n := strings.Count(full, "\n") + 1; n > o.MaxLines; n-- {
			part = part[strings.IndexByte(part, '\n')+1:]
		}
	}
	return part, strings.Count(text[:len(text)-len(part)], "\n"), len(part) < len(text)
}
