package report

import "strings"

// An extent is a part of a text, by its offsets.
type extent struct{ from, to int32 }

func (e extent) of(text string) string { return text[e.from:e.to] }

// A written field was seen in a text and is not yet read. There may be many, so
// it is small and has no pointers.
type written struct {
	name, value extent
	more        extent // the lines that go on with it
	line, col   int32
	indent      int32
	place       int8 // among reportTerms; -1 if it is none of them
	odd         oddity
}

func (w *written) known() bool { return w.place >= 0 }

func (w *written) shape() shape {
	if w.known() {
		return reportTerms[w.place].shape
	}
	return aText
}

// A sorter finds the blocks of a text. To it a line is empty, a fence, a field,
// one that goes on with the field before it, or prose.
type sorter struct {
	text   string
	fields []written
	blocks []Block
	run    Block // under way, if it has fields
	start  int   // offset of the run
	open   int   // field that the next line may go on with; -1 if there is none
	blanks int   // empty lines in a row
	fenced bool

	oddEnd                int // first line with an odd end; 0 if there is none
	firstProse, lastProse int // lines; 0 if there is none
	d                     diagnostics
}

// sort finds the blocks.
func (s *sorter) sort(skipped int) {
	s.open = -1
	s.fields = make([]written, 0, 8)
	for all := linesOf(s.text, skipped); ; {
		l, ok := all.next()
		if !ok {
			break
		}
		s.line(&l)
	}
	s.endRun()
}

func (s *sorter) line(l *line) {
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
	case s.goesOn(l.text, h.name, place):
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

// goesOn reports whether a line belongs to the field before it: an item of a
// list that is not finished, or a line of text further to the right. A field of
// the protocol begins anew; in a text it must be in capitals, because what is
// quoted there often begins with "error:".
func (s *sorter) goesOn(text, name string, place int) bool {
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

func (s *sorter) field(l *line, h *head, place int) {
	if s.run.from == len(s.fields) {
		s.start, s.run.First = l.at, l.number
	}
	if s.fenced {
		h.odd |= fenced
	}
	at := l.at + h.valueAt
	w := written{
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

// inline looks for further fields in the value of the last field, which should
// be a word. Their names must be known and in capitals.
func (s *sorter) inline(l *line) {
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

// trimmed returns the extent without blanks around it, and without any byte of
// the cutset at its end.
func trimmed(text string, e extent, cutset string) extent {
	s := strings.TrimRight(e.of(text), cutset)
	e.to = e.from + int32(len(s))
	t := strings.TrimLeft(s, " \t")
	e.from += int32(len(s) - len(t))
	return e
}

// nameBefore returns where the name of a field that ends at the given colon
// begins, and which it is; -1 if there is none.
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

func (s *sorter) prose(l *line, h head) {
	s.endRun()
	s.outside(l.number, l.number)
	if nearMiss(h) {
		s.d.add(CodeNearMiss, l.number, "this is almost a field: write %s:value", h.name)
	}
}

// outside notes lines that belong to no block.
func (s *sorter) outside(first, last int) {
	if s.firstProse == 0 {
		s.firstProse = first
	}
	s.lastProse = last
}

// endRun ends the block under way. Fields without a status are no block.
func (s *sorter) endRun() {
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
			continue // the less successful one counts, lest a quoted success hide a failure
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

// choose returns the block that counts: the last one with a known status, else
// the last one, and a sentence only if there is nothing else. It is nil if there
// is no block.
func (s *sorter) choose() (best *Block) {
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

// nearMiss reports whether a line that is no field names one in capitals, and
// lacks only the colon.
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
