package report

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// A Mode says how a text is read.
type Mode string

// The modes.
const (
	// Tolerant recovers what agents mean, and has a diagnostic for whatever
	// Reference would read in another way. It is the default.
	Tolerant Mode = "tolerant"

	// Reference reads as the protocol's public parser does: one field per line
	// at the beginning of the line, the first usable one counts, anywhere in
	// the text.
	Reference Mode = "reference"
)

// Options changes how a text is read. The zero value works.
type Options struct {
	Mode Mode // default Tolerant

	// Of a text over the limits only the end is read, because that is where
	// reports stand.
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
		return out, fmt.Errorf("report: there is no mode %q: use %q or %q", o.Mode, Tolerant, Reference)
	}
	if o.MaxBytes > 0 {
		out.MaxBytes = min(o.MaxBytes, math.MaxInt32)
	}
	if o.MaxLines > 0 {
		out.MaxLines = o.MaxLines
	}
	return out, nil
}

// ErrNotReport is returned for a text that is no report. It does not mean that
// something is wrong: most texts are none.
var ErrNotReport = errors.New("report: the text is not a report")

// A Result is a report as it was found in a text.
type Result struct {
	Report
	StatusDetail string // what follows the status in its value
	TestsDetail  string // what was read in TESTS, or follows it, if that is not canonical

	Fields      []Found // every field of the report in the order of the text
	Blocks      []Block // every report in the text; in Reference mode and for JSON none
	Conflict    bool    // the blocks have different statuses
	Diagnostics []Diagnostic
}

// A Found is a field as it stands in a text.
type Found struct {
	Name      string // upper case
	RawName   string // as written
	Value     string // as written, trimmed; what follows on other lines is in it
	Line, Col int    // of the name, from 1; Col in bytes
}

// A Block is a part of a text that is a report: lines of fields, at least one
// of them a STATUS, with no other text and at most one empty line in between.
type Block struct {
	Text        string
	First, Last int // lines
	Status      Status
	Fenced      bool // STATUS is in a block of code
	Chosen      bool // the result is read from this one

	from, to int  // its fields
	statusAt int  // the field that has the status
	sentence bool // perhaps it is prose that happens to begin with "status:"
}

// Parse reads a report in its text form. It returns ErrNotReport if there is
// none; the result then has nothing but diagnostics. opts may be nil.
func Parse(text string, opts *Options) (Result, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return Result{}, err
	}
	return parse(text, o)
}

func parse(text string, o Options) (Result, error) {
	text, skipped, cut := window(text, o)
	var d diagnostics
	if cut {
		d.add(CodeTruncated, 0, "the text is over the limit of %d bytes or %d lines: only what begins at line %d was read", o.MaxBytes, o.MaxLines, skipped+1)
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
		d.add(CodeIsDispatch, 0, "the text is a dispatch: it gives work, and has no STATUS field")
	}
	d.add(CodeNotReport, 0, "no line has a STATUS field with a value")
	return Result{Diagnostics: d.sorted()}, ErrNotReport
}

// window returns the part of a text that is read, and how many lines come
// before it. It begins at the beginning of a line: half a line could say the
// opposite of the whole.
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
