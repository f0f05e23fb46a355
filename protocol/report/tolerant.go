package report

import (
	"slices"
	"strings"
)

// readTolerant reads a text in Tolerant mode and adds to the diagnostics. The status is
// empty if there is none.
// Both paths have the same result for a canonical text; the first is the fast one.
func readTolerant(text string, skipped int, d diagnostics) (Result, diagnostics) {
	if r, ok := readCanonical(text, skipped); ok {
		return r, d
	}
	return readBlocks(text, skipped, d)
}

// readBlocks finds the blocks of a text and reads the one that counts.
func readBlocks(text string, skipped int, d diagnostics) (Result, diagnostics) {
	s := blockFinder{text: text, d: d}
	s.sort(skipped)
	if s.oddEnd > 0 {
		s.d.add(CodeOddLineEnd, s.oddEnd, "the line ends with a lone CR, U+2028 or U+2029")
	}
	b := s.choose()
	if b == nil {
		return Result{}, s.d
	}
	b.Chosen = true
	conflict := slices.ContainsFunc(s.blocks, func(other Block) bool { return other.Status != b.Status })
	s.surroundings(b, conflict)
	in := reader{d: s.d}
	in.result.Blocks, in.result.Conflict = s.blocks, conflict
	in.result.Fields = make([]TextField, 0, b.to-b.from)
	for i := b.from; i < b.to; i++ {
		in.rawField(&s.fields[i], i == b.statusAt)
	}
	return in.finish()
}

// surroundings adds the diagnostics about the text around the block that counts.
func (s *blockFinder) surroundings(b *Block, conflict bool) {
	if b.Fenced {
		s.d.add(CodeFenced, b.First, "the report is in a code block")
	}
	if s.firstProse > 0 && s.firstProse < b.First {
		s.d.add(CodeProseBefore, s.firstProse, "other text precedes the report")
	}
	if s.lastProse > b.Last {
		s.d.add(CodeProseAfter, b.Last+1, "other text follows the report")
	}
	if len(s.blocks) > 1 {
		s.d.add(CodeBlocks, b.First, "the text has %d reports; the report that begins here is used", len(s.blocks))
	}
	if conflict {
		s.d.add(CodeConflict, b.First, "the reports in the text have different statuses")
	}
}

// A reader reads the fields of one block, or of one JSON object, into a result.
// Both forms share it so that a value has the same meaning in either.
type reader struct {
	result Result
	d      diagnostics
	seen   [8]bool // by index in reportTerms
	twice  bool    // a field was repeated
}

// messages holds the messages of the codes about one field, with its name and value.
var messages = map[Code]string{
	CodeStrippedBOM:  "zero-width characters precede %[1]s",
	CodeDecorated:    "%[1]s is decorated: write it without markup",
	CodeSeparator:    "%[1]s is not separated from its value by a colon alone",
	CodeInline:       "%[1]s is not on a line of its own",
	CodeDuplicate:    "%[1]s is repeated",
	CodeNearMiss:     "%[1]s has a value that does not begin with a word: %[2]q",
	CodeTrailing:     "%[1]s has more than a word as its value: %[2]q",
	CodeNormalised:   "%[1]s is not spelled as in the protocol: %[2]q",
	CodeUnknown:      "%[1]s is unknown to the protocol and does not count as success: %[2]q",
	CodeUnknownValue: "%[1]s is unknown to the protocol and was dropped: %[2]q",
	CodeUnknownField: "%[1]s is not a field of the protocol; it was kept",
	CodeIgnoredCount: "%[1]s has no count: %[2]q",
	CodeEmptyMarker:  "%[1]s is an empty list: leave the value out instead of %[2]q",
	CodeJSONList:     "%[1]s is not a plain list with commas: %[2]q",
	CodeLongList:     "%[1]s is a list over several lines",
	CodeLongText:     "%[1]s is a text over several lines",
	CodeOddName:      "%[1]s is not in lower case",
}

// say adds diagnostics about a field.
func (in *reader) say(f *TextField, codes ...Code) {
	for _, c := range codes {
		if !in.d.full(c) {
			in.d.add(c, f.Line, messages[c], f.Name, brief(f.Value))
		}
	}
}

// styleCodes holds the code of each departure from the canonical form.
var styleCodes = [...]struct {
	fieldStyle fieldStyle
	code       Code
}{{zeroWidth, CodeStrippedBOM}, {decorated, CodeDecorated}, {separated, CodeSeparator}, {inline, CodeInline}}

// rawField reads a field of the text with the lines that continue it.
func (in *reader) rawField(w *rawField, status bool) {
	var more []string
	for l := range linesOf(w.more, 0) {
		more = append(more, trim(l.text))
	}
	in.field(w.place, &w.TextField, more, w.odd, status)
}

// field reads a field: the value on its line, and the lines that continue it. Only the
// field with the status that counts sets the status.
// The value in the result's Fields has the lines that continue it; that in the
// report has the meaning that was read from them.
func (in *reader) field(place int, f *TextField, more []string, odd fieldStyle, status bool) {
	f.Name = f.RawName
	shape := aText
	if place >= 0 {
		f.Name, shape = reportTerms[place].name, reportTerms[place].shape
		in.see(place, f)
	}
	for _, o := range styleCodes {
		if odd&o.fieldStyle != 0 {
			in.say(f, o.code)
		}
	}
	switch shape {
	case aWord:
		in.word(f, status)
	case aList:
		f.Value = in.list(place, f, more)
	case aText:
		f.Value = in.longText(place, f, more)
	}
	in.result.Fields = append(in.result.Fields, *f)
}

// see records that a field is there.
func (in *reader) see(place int, f *TextField) {
	if in.seen[place] {
		in.twice = true
		in.say(f, CodeDuplicate)
	}
	in.seen[place] = true
}

// word reads STATUS, TESTS or BUILD. An empty value changes nothing.
// A value that cannot be read leaves the result of an earlier field of that name in
// place.
func (in *reader) word(f *TextField, status bool) {
	if f.Value == "" {
		return
	}
	r := &in.result
	var codes []Code
	switch f.Name {
	case "STATUS":
		s, detail, found := readStatus(f.Value)
		switch {
		case s == "":
			codes = []Code{CodeNearMiss}
		case status:
			r.Status = s
			r.StatusDetail = detail
			codes = found
		}
	case "TESTS":
		t, detail, found := readTests(f.Value)
		if codes = found; t != "" {
			r.Tests, r.TestsDetail = t, detail
		}
	case "BUILD":
		b, _, found := readBuild(f.Value)
		if codes = found; b != "" {
			r.Build = b
		}
	}
	in.say(f, codes...)
}

// list reads a list of files, with one or more items per continuing line.
func (in *reader) list(place int, f *TextField, more []string) (value string) {
	items, codes := splitList(f.Value)
	in.say(f, codes...)
	if len(more) > 0 {
		in.say(f, CodeLongList)
	}
	for i, l := range more {
		more[i] = l[bullet(l):]
		found, codes := splitList(more[i])
		in.say(f, codes...)
		items = append(items, found...)
	}
	in.files(place, items)
	return joinLines(f.Value, more)
}

// longText reads ERROR, LEARNED or an extra field.
func (in *reader) longText(place int, f *TextField, more []string) (value string) {
	if len(more) > 0 {
		in.say(f, CodeLongText)
	}
	value = joinLines(f.Value, more)
	switch {
	case place < 0:
		in.say(f, CodeUnknownField)
		in.result.Extra = append(in.result.Extra, Field{Name: f.Name, Value: value})
	case value == "":
	case f.Name == "ERROR":
		in.result.Error = value
	case f.Name == "LEARNED":
		in.result.Learned = value
	}
	return value
}

// joinLines returns a value with the lines that continue it.
func joinLines(value string, more []string) string {
	if len(more) == 0 {
		return value
	}
	return trim(value + "\n" + strings.Join(more, "\n"))
}

// files adds items to one of the two lists.
func (in *reader) files(place int, items []string) {
	target := &in.result.FilesCreated
	if reportTerms[place].name == "FILES_MODIFIED" {
		target = &in.result.FilesModified
	}
	if *target == nil {
		*target = items
		return
	}
	*target = append(*target, items...)
}

// finish returns the result. A repeated list is the union of its occurrences.
func (in *reader) finish() (Result, diagnostics) {
	if in.twice {
		in.result.FilesCreated, in.result.FilesModified = unique(in.result.FilesCreated), unique(in.result.FilesModified)
	}
	return in.result, in.d
}

// unique returns the items in their order, each once.
func unique(items []string) []string {
	seen := make(map[string]bool, len(items))
	return slices.DeleteFunc(items, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}
