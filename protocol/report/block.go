package report

import "strings"

// A rawField is a field whose value is not read yet.
// Values are read after a block was chosen, because most fields of a long text
// belong to no block, or to one that does not count.
type rawField struct {
	TextField        // without its Name
	more      string // the lines that continue it
	moreAt    int    // their offset in the text
	indent    int
	place     int // the index in reportTerms; -1 for an extra field
	odd       fieldStyle
}

// shape returns the form of the value. An extra field is a text.
func (w *rawField) shape() shape {
	if w.place >= 0 {
		return reportTerms[w.place].shape
	}
	return aText
}

// A blockFinder finds the blocks of a text. It classifies each line once: empty, a
// fence, a field, the continuation of the field before it, or prose. A run of fields
// ends at prose, at two empty lines and at the end of the text; a run with a status is
// a block. The cost is linear in the text.
//
// Invariant: the fields from run.from on belong to the current run, and those
// before it to blocks. A run without a status gives its fields back when it ends,
// so fields holds nothing but fields of blocks.
type blockFinder struct {
	text   string
	fields []rawField
	blocks []Block
	run    Block // the current run; no block if it has no fields
	start  int   // the offset of the current run
	open   int   // the field that the next line may continue; -1 if there is none
	blanks int   // empty lines in a row
	fenced bool

	oddEnd                int // the first line with an odd end; 0 if there is none
	firstProse, lastProse int // lines; 0 if there is none
	d                     diagnostics
}

// sort finds the blocks.
// skipped is the number of lines before the text, for the numbers in diagnostics.
func (s *blockFinder) sort(skipped int) {
	s.open = -1
	for l := range linesOf(s.text, skipped) {
		s.line(l)
	}
	s.endRun()
}

// line classifies one line.
func (s *blockFinder) line(l line) {
	if l.odd && s.oddEnd == 0 {
		s.oddEnd = l.number
	}

	if trim(l.text) == "" {
		s.open = -1
		if s.blanks++; s.blanks == 2 {
			s.endRun()
		}
		return
	}

	s.blanks = 0
	if fence(l.text) {
		s.open, s.fenced = -1, !s.fenced
		return
	}

	h, ok := split(l.text)
	place := -1
	if ok {
		place = find(reportTerms, h.name)
		ok = place >= 0 || extraName(h.name)
	}

	switch {
	// A continuing line is tried first: a list may have items that look like fields.
	case s.continues(l.text, h.name, place):
		f := &s.fields[s.open]
		if f.more == "" {
			f.moreAt = l.at
		}
		f.more = s.text[f.moreAt : l.at+len(l.text)]
	case ok:
		s.field(l, h, place)
	default:
		s.prose(l, h)
		return
	}

	s.run.Text, s.run.Last = s.text[s.start:l.at+len(l.text)], l.number
}

// continues reports whether a line continues the field before it: with an item of an
// unfinished list, or with a text that is indented more. A field of the protocol does
// not continue another one; within a text its name must be in capitals, because quoted
// output often begins with "error:".
func (s *blockFinder) continues(text, name string, place int) bool {
	if s.open < 0 {
		return false
	}
	f := &s.fields[s.open]
	i := indent(text)
	deeper := i > f.indent
	if f.shape() == aList {
		return place < 0 && (deeper || bullet(text[i:]) > 0)
	}
	return deeper && (place < 0 || (place != statusPlace && name != reportTerms[place].name))
}

// field adds a field to the current run, and opens it for continuation if its shape
// allows that.
func (s *blockFinder) field(l line, h head, place int) {
	if s.run.from == len(s.fields) {
		s.start, s.run.First = l.at, l.number
	}
	if s.fenced {
		h.odd |= fenced
	}
	w := rawField{
		TextField: TextField{RawName: h.name, Value: h.value, Line: l.number, Col: h.at + 1},
		indent:    indent(l.text), place: place, odd: h.odd,
	}
	s.fields = append(s.fields, w)
	s.open = -1
	switch shape := w.shape(); {
	case shape == aWord:
		s.inline(h.valueAt)
	case shape == aText, h.value == "", strings.HasSuffix(h.value, ","):
		s.open = len(s.fields) - 1
	}
}

// inline splits further fields off the value of the last field, which should be a
// word and begins at the given offset of its line. Their names must be known and in
// capitals.
// Models write values such as "ok TESTS:pass" when they put a report on one line. The
// search is for colons, so a value without one costs a single scan.
func (s *blockFinder) inline(at int) {
	w := s.fields[len(s.fields)-1]
	rest := w.Value
	for from := 0; ; {
		colon := strings.IndexByte(rest[from:], ':')
		if colon < 0 {
			return
		}
		colon += from
		start, place := nameBefore(rest, colon)
		if place < 0 {
			from = colon + 1
			continue
		}
		last := &s.fields[len(s.fields)-1]
		last.Value = strings.TrimLeft(strings.TrimRight(rest[:start], " \t|;,"), " \t")
		w.RawName = rest[start:colon]
		w.Col = at + start + 1
		w.place = place
		w.odd = w.odd&fenced | inline
		rest = rest[colon+1:]
		at += colon + 1
		from = 0
		w.Value = strings.Trim(rest, " \t")
		s.fields = append(s.fields, w)
	}
}

// nameBefore returns the beginning and the index of the name of a field that ends at
// the given colon; the index is -1 if there is none.
func nameBefore(s string, colon int) (start, place int) {
	start = colon
	for start > 0 && colon-start < 16 && nameByte(s[start-1]) {
		start--
	}
	if start == 0 || (s[start-1] != ' ' && s[start-1] != '\t') {
		return 0, -1
	}
	name := s[start:colon]
	if place = find(reportTerms, name); place < 0 || reportTerms[place].name != name {
		return 0, -1
	}
	return start, place
}

// prose ends the current run.
func (s *blockFinder) prose(l line, h head) {
	s.endRun()
	s.outside(l.number, l.number)
	if nearMiss(h) {
		s.d.add(CodeNearMiss, l.number, "the line is almost a field: write %s:value", h.name)
	}
}

// outside records lines that belong to no block.
func (s *blockFinder) outside(first, last int) {
	if s.firstProse == 0 {
		s.firstProse = first
	}
	s.lastProse = last
}

// endRun ends the current run. Of several statuses the least successful one counts, so
// that a quoted success cannot hide a failure.
func (s *blockFinder) endRun() {
	s.open = -1
	run := s.run
	if run.to = len(s.fields); run.to == run.from {
		return
	}
	for i := run.from; i < run.to; i++ {
		w := &s.fields[i]
		if w.place != statusPlace {
			continue
		}
		status, detail, _ := readStatus(w.Value)
		// The first of equal statuses keeps its place in the text.
		if status == "" || (run.Status != "" && status.rank() >= run.Status.rank()) {
			continue
		}
		// A run of one line outside of a code block may be a sentence: its name is not in
		// capitals, or text follows the word.
		run.Status = status
		run.Fenced = w.odd&fenced != 0
		run.statusAt = i
		run.sentence = run.to-run.from == 1 && !run.Fenced && (w.RawName != "STATUS" || detail != "")
	}
	if run.Status != "" {
		s.blocks = append(s.blocks, run)
	} else {
		s.outside(run.First, run.Last)
		s.fields = s.fields[:run.from]
	}
	s.run = Block{from: len(s.fields)}
}

// choose returns the block that counts: the last one with a known status, else the
// last one, and a sentence only if there is no other. It returns nil without a block.
func (s *blockFinder) choose() (best *Block) {
	bestGrade := 0
	for i := range s.blocks {
		b, grade := &s.blocks[i], 2
		switch {
		case b.sentence:
			grade = 0
		case !b.Status.Known():
			grade = 1
		}
		if grade >= bestGrade {
			best, bestGrade = b, grade
		}
	}
	return best
}

// nearMiss reports whether a line has the name of a field in capitals and lacks only
// the colon.
func nearMiss(h head) bool {
	place := find(reportTerms, h.name)
	if place < 0 || reportTerms[place].name != h.name {
		return false
	}
	rest := trim(h.value)
	for _, sign := range [...]string{"=", "->", "→", ":"} {
		if strings.HasPrefix(rest, sign) {
			return true
		}
	}
	status, _, _ := readStatus(rest)
	return place == statusPlace && status.Known()
}
