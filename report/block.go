package report

import "strings"

// An extent is a part of a text by its offsets.
type extent struct{ from, to int32 }

func (e extent) of(text string) string { return text[e.from:e.to] }

// A rawField is a field whose value is not read yet. A text may have many, so it is
// small and has no pointers.
type rawField struct {
	name, value extent
	more        extent // the lines that continue it
	line, col   int32
	indent      int32
	place       int8 // the index in reportTerms; -1 for an extra field
	odd         fieldStyle
}

func (w *rawField) known() bool { return w.place >= 0 }

// shape returns the form of the value. An extra field is a text.
func (w *rawField) shape() shape {
	if w.known() {
		return reportTerms[w.place].shape
	}
	return aText
}

// A blockFinder finds the blocks of a text. It classifies each line once: empty, a
// fence, a field, the continuation of the field before it, or prose. A run of fields
// ends at prose, at two empty lines and at the end of the text; a run with a status is
// a block. The cost is linear in the text.
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
func (s *blockFinder) sort(skipped int) {
	s.open = -1
	s.fields = make([]rawField, 0, 8)
	for all := linesOf(s.text, skipped); ; {
		l, ok := all.next()
		if !ok {
			break
		}
		s.line(&l)
	}
	s.endRun()
}

// line classifies one line.
func (s *blockFinder) line(l *line) {
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
	case s.continues(l.text, h.name, place):
		f := &s.fields[s.open]
		if f.more.to == 0 {
			f.more.from = int32(l.at)
		}
		f.more.to = int32(l.at + len(l.text))
	case ok:
		s.field(l, &h, place)
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
	deeper := i > int(f.indent)
	if f.shape() == aList {
		return place < 0 && (deeper || bullet(text[i:]) > 0)
	}
	return deeper && (place < 0 || place != statusPlace && name != reportTerms[place].name)
}

// field adds a field to the current run, and opens it for continuation if its shape
// allows that.
func (s *blockFinder) field(l *line, h *head, place int) {
	if s.run.from == len(s.fields) {
		s.start, s.run.First = l.at, l.number
	}
	if s.fenced {
		h.odd |= fenced
	}
	at := l.at + h.valueAt
	w := rawField{
		name:  extent{int32(l.at + h.at), int32(l.at + h.at + len(h.name))},
		value: extent{int32(at), int32(at + len(h.value))},
		line:  int32(l.number), col: int32(h.at + 1), indent: int32(indent(l.text)),
		place: int8(place), odd: h.odd,
	}
	s.fields = append(s.fields, w)
	s.open = -1
	switch shape := w.shape(); {
	case shape == aWord:
		s.inline(l)
	case shape == aText, h.value == "", strings.HasSuffix(h.value, ","):
		s.open = len(s.fields) - 1
	}
}

// inline splits further fields off the value of the last field, which should be a
// word. Their names must be known and in capitals.
func (s *blockFinder) inline(l *line) {
	w := s.fields[len(s.fields)-1]
	rest := w.value
	value := rest.of(s.text)
	for colon := strings.IndexByte(value, ':'); colon >= 0; {
		start, place := nameBefore(value, colon)
		if place < 0 {
			next := strings.IndexByte(value[colon+1:], ':')
			if next < 0 {
				return
			}
			colon += 1 + next
			continue
		}
		last := &s.fields[len(s.fields)-1]
		last.value = trimmed(s.text, extent{rest.from, rest.from + int32(start)}, " \t|;,")
		w.name = extent{rest.from + int32(start), rest.from + int32(colon)}
		rest.from += int32(colon + 1)
		w.value = trimmed(s.text, rest, " \t")
		w.col, w.place, w.odd = w.name.from-int32(l.at)+1, int8(place), w.odd&fenced|inline
		s.fields = append(s.fields, w)
		value = rest.of(s.text)
		colon = strings.IndexByte(value, ':')
	}
}

// trimmed returns the extent without blanks at its beginning and without the bytes of
// cutset at its end.
func trimmed(text string, e extent, cutset string) extent {
	s := strings.TrimRight(e.of(text), cutset)
	e.to = e.from + int32(len(s))
	t := strings.TrimLeft(s, " \t")
	e.from += int32(len(s) - len(t))
	return e
}

// nameBefore returns the beginning and the index of the name of a field that ends at
// the given colon; the index is -1 if there is none.
func nameBefore(s string, colon int) (start, place int) {
	start = colon
	for start > 0 && colon-start < 16 && nameByte(s[start-1]) {
		start--
	}
	if start == 0 || s[start-1] != ' ' && s[start-1] != '\t' {
		return 0, -1
	}
	name := s[start:colon]
	if place = find(reportTerms, name); place < 0 || reportTerms[place].name != name {
		return 0, -1
	}
	return start, place
}

// prose ends the current run.
func (s *blockFinder) prose(l *line, h head) {
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
		status, detail, _ := readStatus(w.value.of(s.text))
		if status == "" || run.Status != "" && status.rank() >= run.Status.rank() {
			continue
		}
		run.Status, run.Fenced, run.statusAt = status, w.odd&fenced != 0, i
		run.sentence = run.to-run.from == 1 && !run.Fenced && (w.name.of(s.text) != "STATUS" || detail != "")
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
