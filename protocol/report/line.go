package report

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A line is one line of a text, without its end.
type line struct {
	text   string
	at     int  // offset in the text
	number int  // from 1
	odd    bool // it ends with a lone CR, U+2028 or U+2029
}

// linesOf yields the lines of a text with skipped lines before it. LF and CRLF end a
// line, and so do the odd line ends. It finds the next LF first and then the odd line
// ends before that, so that each byte is scanned twice with any line ends.
func linesOf(text string, skipped int) iter.Seq[line] {
	return func(yield func(line) bool) {
		number := skipped
		for at := 0; at < len(text); {
			stop, after := len(text), len(text)
			if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
				stop, after = at+i, at+i+1
				if i > 0 && text[stop-1] == '\r' {
					stop--
				}
			}

			for i := at; i < stop; i++ {
				if text[i] != '\r' && text[i] != "\u2028"[0] {
					continue
				}
				if n := oddLineEnd(text[i:stop]); n > 0 {
					number++
					if !yield(line{text: text[at:i], at: at, number: number, odd: true}) {
						return
					}
					at = i + n
					i = at - 1
				}
			}

			// An odd line end at the end of the text leaves no last line.
			if at == len(text) {
				return
			}

			number++
			if !yield(line{text: text[at:stop], at: at, number: number}) {
				return
			}
			at = after
		}
	}
}

// oddLineEnd returns the length of the odd line end at the beginning of s.
func oddLineEnd(s string) int {
	switch {
	case s[0] == '\r':
		return 1
	case strings.HasPrefix(s, "\u2028"), strings.HasPrefix(s, "\u2029"):
		return len("\u2028")
	}
	return 0
}

// A fieldStyle is a set of departures from the canonical form of a field. It is
// collected while a line is split and becomes diagnostics only if the field belongs
// to the block that counts.
type fieldStyle uint8

const (
	// Each has a diagnostic of its own; see styleCodes.
	decorated fieldStyle = 1 << iota // it has Markdown marks
	separated                        // its separator is not a colon, blanks and tabs
	zeroWidth                        // characters without width precede it
	inline                           // it is not the first on its line
	fenced                           // it is in a code block
)

// A head is a line, split at the separator of its field.
type head struct {
	name    string // as in the text
	value   string // trimmed
	at      int    // the offset of the name in the line
	valueAt int    // the offset of the value
	odd     fieldStyle
}

// split splits a line into name and value. The name may be any word. If there is a
// name without a separator, split reports false, and the value is the text behind it.
// The canonical form is decided by the first colon, without any allocation; all
// other lines go to splitOdd.
func split(s string) (head, bool) {
	i := indent(s)
	j := nameEnd(s, i)
	switch {
	case j == i:
	case j == len(s):
		return head{name: s[i:j], at: i}, false
	case s[j] == ':':
		h := head{name: s[i:j], at: i}
		h.setValue(s, j+1)
		return h, true
	}
	return splitOdd(s)
}

// setValue sets the value to the rest of a line.
func (h *head) setValue(s string, at int) {
	h.valueAt = at + indent(s[at:])
	h.value = trim(s[h.valueAt:])
	if !strings.HasPrefix(s[h.valueAt:], h.value) {
		h.odd |= separated
		h.valueAt = len(s) - len(strings.TrimLeftFunc(s[h.valueAt:], space))
	}
}

// splitOdd splits a line with Markdown marks, or whose separator is not a plain colon
// right behind the name.
//
// The steps follow a line from left to right: the marks of quotes, bullets and
// headings, the bar of a table, the marks of emphasis or code, the name, the
// separator, the value, and the marks and the bar that close. It reports false as
// soon as a step fails, with the name found so far, which nearMiss looks at.
func splitOdd(s string) (h head, ok bool) {
	rest, odd := trimPrefix(s)
	h.odd = odd
	cell := strings.HasPrefix(rest, "|")
	if cell {
		h.odd |= decorated
		rest = strings.TrimLeftFunc(rest[1:], space)
	}
	// Marks may close before the separator, after it, or behind the value.
	open := markers(rest)
	rest = rest[len(open):]
	end := nameEnd(rest, 0)
	for end > 0 && rest[end-1] == '_' {
		end-- // emphasis, as in __STATUS__
	}
	if end == 0 {
		return h, false
	}
	h.name, h.at = rest[:end], len(s)-len(rest)
	rest = rest[end:]
	h.value = rest

	shut := reversed(open)
	closed := open == ""
	closing := func() {
		if !closed && strings.HasPrefix(rest, shut) {
			rest, closed = rest[len(shut):], true
		}
	}
	closing()
	if t := strings.TrimLeftFunc(rest, space); len(t) < len(rest) && !cell {
		rest, h.odd = t, h.odd|separated
	} else {
		rest = t
	}
	switch {
	case cell && strings.HasPrefix(rest, "|"):
		rest = rest[1:]
	case cell:
		return h, false
	case strings.HasPrefix(rest, ":"):
		rest = rest[1:]
	case strings.HasPrefix(rest, wideColon):
		rest, h.odd = rest[len(wideColon):], h.odd|separated
	default:
		return h, false
	}
	closing()
	h.setValue(s, len(s)-len(rest))
	if cell {
		if h.value = trim(strings.TrimSuffix(h.value, "|")); strings.Contains(h.value, "|") {
			return h, false // a row of more than two cells
		}
	}
	if !closed {
		h.value, closed = strings.CutSuffix(h.value, shut)
		h.value = trim(h.value)
	}
	if open != "" {
		h.odd |= decorated
	}
	return h, closed
}

// wideColon is the colon of East Asian scripts.
const wideColon = "\uff1a"

// maxPrefix is the largest number of marks before a field.
// It bounds the time for a line of nothing but marks.
const maxPrefix = 16

// trimPrefix returns s without the Markdown marks before a field: blanks, quote marks,
// bullets, numbers and heading marks.
// Marks may be nested and repeated, as in "> - **STATUS", so the loop goes on until
// a round removes nothing.
func trimPrefix(s string) (string, fieldStyle) {
	var odd fieldStyle
	for range maxPrefix {
		t := strings.TrimLeft(s, " \t")
		for _, zero := range []string{"\ufeff", "\u200b", "\u2060"} {
			if strings.HasPrefix(t, zero) {
				t, odd = t[len(zero):], odd|zeroWidth
			}
		}
		if strings.HasPrefix(t, "\u00a0") {
			t, odd = t[len("\u00a0"):], odd|separated
		}
		switch b := bullet(t); {
		case b > 0:
			t, odd = t[b:], odd|decorated
		case strings.HasPrefix(t, ">"):
			t, odd = t[1:], odd|decorated
		case strings.HasPrefix(t, "#"):
			t, odd = strings.TrimLeft(t, "#"), odd|decorated
		}
		if len(t) == len(s) {
			break
		}
		s = t
	}
	return s, odd
}

// bullet returns the length of the bullet or number at the beginning of s.
func bullet(s string) int {
	n := 0
	for n < len(s) && n < 9 && digit(s[n]) {
		n++
	}
	switch {
	case n > 0 && n < len(s) && (s[n] == '.' || s[n] == ')'):
		n++
	case n > 0 || s == "":
		return 0
	case strings.IndexByte("-*+", s[0]) >= 0:
		n = 1
	case strings.HasPrefix(s, "•"):
		n = len("•")
	default:
		return 0
	}
	if n < len(s) && (s[n] == ' ' || s[n] == '\t') {
		return n + 1
	}
	return 0
}

// markers returns the emphasis or code marks at the beginning of s.
func markers(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "*_`"))]
}

// reversed returns the marks that close the given ones.
func reversed(open string) string {
	if len(open) < 2 || strings.Count(open, open[:1]) == len(open) {
		return open
	}
	b := []byte(open)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// quotesOrIndents reports whether c is a blank, a tab or the sign of a quotation.
func quotesOrIndents(c byte) bool { return c == ' ' || c == '\t' || c == '>' }

// fence reports whether a line opens or closes a code block.
// A fence may be quoted. A line with further backticks behind the first ones is
// code within a line, not a fence.
func fence(s string) bool {
	i := 0
	for i < len(s) && quotesOrIndents(s[i]) {
		i++
	}
	s = s[i:]
	return strings.HasPrefix(s, "~~~") ||
		(strings.HasPrefix(s, "```") && !strings.Contains(strings.TrimLeft(s, "`"), "`"))
}

// indent returns the number of blanks and tabs at the beginning of s.
func indent(s string) int {
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

// nameEnd returns the end of the name at i; i if there is none.
func nameEnd(s string, i int) int {
	if i >= len(s) || !letter(s[i]) {
		return i
	}
	for i < len(s) && nameByte(s[i]) {
		i++
	}
	return i
}

// space reports the characters that are trimmed around values: white space of Unicode
// and the four separators of ASCII, as in the protocol's public parser.
func space(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

// trim returns s without the space around it. Most values have none, and are returned
// after a check of two bytes.
func trim(s string) string {
	if s == "" || (solid(s[0]) && solid(s[len(s)-1])) {
		return s
	}
	return strings.TrimFunc(s, space)
}

// solid reports an ASCII byte that is not space.
func solid(b byte) bool { return b > ' ' && b < utf8.RuneSelf }

// wordRune reports whether r is part of a word.
func wordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// ends reports whether a word that reaches s[i:] ends there.
func ends(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return i >= len(s) || !wordRune(r)
}

// ParseLine reads one line of a report. The name is in upper case. The value of
// STATUS, TESTS and BUILD is the protocol's word in lower case; any other value is
// that of the line, trimmed. A field that the protocol does not define must have a
// name in capitals. A STATUS without a value is not a field.
func ParseLine(s string) (field, value string, ok bool) {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
	if strings.ContainsAny(s, "\n\r\u2028\u2029") {
		return "", "", false
	}

	h, ok := split(s)
	if !ok {
		return "", "", false
	}

	place := find(reportTerms, h.name)
	if place < 0 {
		return h.name, h.value, extraName(h.name)
	}
	t := reportTerms[place]
	if t.shape != aWord {
		return t.name, h.value, true
	}

	switch t.name {
	case "STATUS":
		status, _, _ := readStatus(h.value)
		return t.name, string(status), status != ""
	case "TESTS":
		if tests, _, _ := readTests(h.value); tests != "" {
			return t.name, string(tests), true
		}
	case "BUILD":
		if build, _, _ := readBuild(h.value); build != "" {
			return t.name, string(build), true
		}
	}

	// A word that the protocol does not define is kept, in lower case.
	return t.name, lower(h.value), true
}
