package report

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readStatus reads the value of STATUS: the known status at its beginning, else the
// first word. The status is empty if there is no word. The codes name the departures
// from the canonical form.
// No status is the beginning of another one, so the order of the list does not matter.
func readStatus(value string) (s Status, detail string, codes []Code) {
	value, rest, marked := trimMarks(value)
	if marked {
		codes = append(codes, CodeDecorated)
	}

	for _, known := range statuses {
		n, exact := matchStatus(value, string(known))
		if n == 0 {
			continue
		}
		if !exact {
			codes = append(codes, CodeNormalised)
		}
		s, detail = known, trim(value[n:]+rest)
		break
	}

	// An unknown word is kept: a later version of the protocol may define it.
	if s == "" {
		n := 0
		for n < len(value) {
			r, size := utf8.DecodeRuneInString(value[n:])
			if !wordRune(r) && (r != '-' || n == 0) {
				break
			}
			n += size
		}
		first := strings.TrimRight(value[:n], "-")
		if first == "" {
			return "", "", nil
		}
		s, detail = Status(lower(first)), trim(value[len(first):]+rest)
		codes = append(codes, CodeUnknown)
	}

	if detail != "" {
		codes = append(codes, CodeTrailing)
	}
	return s, detail, codes
}

// matchStatus returns the length of the given status at the beginning of value, 0 if it
// is not there. It is not exact if a dash or a blank stands for an underscore.
func matchStatus(value, status string) (n int, exact bool) {
	if len(value) < len(status) {
		return 0, false
	}
	exact = true
	for i := range len(status) {
		switch b := fold(value[i]); {
		case b == status[i]:
		case status[i] == '_' && (b == '-' || b == ' '):
			exact = false
		default:
			return 0, false
		}
	}
	if !ends(value, len(status)) {
		return 0, false
	}
	return len(status), exact
}

// synonyms holds the words for a state. The first three are the protocol's own.
// The others are words that models use for it. "none" and "n/a" mean that there
// were no tests to run, which is never a pass.
var synonyms = [...]struct {
	word  string
	state State
}{
	{"pass", Pass}, {"fail", Fail}, {"skip", Skip},
	{"passed", Pass}, {"ok", Pass}, {"failed", Fail}, {"skipped", Skip}, {"none", Skip}, {"n/a", Skip},
}

// readState reads the state at the beginning of value, "" if there is none. own reports
// a word of the protocol.
func readState(value string) (s State, n int, own bool) {
	for i, w := range synonyms {
		if foldedPrefix(value, w.word) && ends(value, len(w.word)) {
			return w.state, len(w.word), i < len(states)
		}
	}
	return "", 0, false
}

// readTests reads the value of TESTS. The result is empty if there is no state.
// The forms are tried in order: the canonical one, a state with a count in another
// spelling, a sentence with numbers.
func readTests(value string) (t Tests, detail string, codes []Code) {
	if n := canonicalTests(value); n == len(value) {
		return Tests(lower(value)), "", nil
	}
	value, rest, _ := trimMarks(value)
	state, n, _ := readState(value)
	if state == "" {
		return readCounts(value + rest)
	}
	t, detail = Tests(state), value[n:]
	if digits := count(detail); digits != "" {
		t += Tests(":" + digits)
		detail = strings.TrimPrefix(strings.TrimLeft(detail, ": \t(="), digits)
	}
	return t, trim(detail + rest), []Code{CodeNormalised}
}

// canonicalTests returns the length of the canonical state, with its count if there is
// one, at the beginning of value.
func canonicalTests(value string) int {
	_, n, own := readState(value)
	if !own {
		return 0
	}
	if n < len(value) && value[n] == ':' {
		i := n + 1
		for i < len(value) && digit(value[i]) {
			i++
		}
		if i > n+1 && ends(value, i) {
			return i
		}
	}
	return n
}

// count returns the digits at the beginning of s, behind a separator.
func count(s string) string {
	s = strings.TrimLeft(s, ": \t(=")
	i := 0
	for i < len(s) && digit(s[i]) {
		i++
	}
	if !ends(s, i) {
		return ""
	}
	return s[:i]
}

// readCounts reads a sentence such as "12 passed, 1 failed". It adds up the numbers
// before each word for a state; of "3/5 passed" the other two have failed.
// Words that are no state are skipped, so "12 tests passed in 3 files" is pass:12.
func readCounts(value string) (t Tests, detail string, codes []Code) {
	unknown := []Code{CodeUnknownValue}
	if value == "" || !digit(value[0]) {
		return "", "", unknown
	}

	var c counts
	for s := value; s != ""; {
		if digit(s[0]) {
			s = c.readNumber(s)
			continue
		}
		state, n, _ := readState(s)
		if state == "" {
			n = otherWord(s)
		} else {
			c.add(state)
		}
		s = s[n:]
	}

	// One failure outweighs any number of passed tests.
	for _, i := range [...]int{1, 0, 2} {
		if c.sums[i] > 0 {
			return Tests(string(states[i]) + ":" + strconv.Itoa(c.sums[i])), value, []Code{CodeNormalised}
		}
	}
	return "", "", unknown
}

// counts are the numbers of a sentence while it is read.
// sums has the order of states. total belongs to last and is reset with it.
type counts struct {
	sums  [len(states)]int // passed, failed, skipped
	last  int              // the last number
	total int              // the number behind the slash of the last, 0 if there is none
}

// readNumber reads the number at the beginning of s, with that behind its slash, and
// returns the rest.
func (c *counts) readNumber(s string) string {
	c.last, s = number(s)
	c.total = 0
	if len(s) > 1 && s[0] == '/' && digit(s[1]) {
		c.total, s = number(s[1:])
	}
	return s
}

// add adds the last number to the sum of a state.
func (c *counts) add(s State) {
	switch s {
	case Pass:
		c.sums[0] += c.last
		c.sums[1] += max(0, c.total-c.last)
	case Fail:
		c.sums[1] += c.last
	case Skip:
		c.sums[2] += c.last
	}
}

// number returns the number at the beginning of s, 0 if it is too great, and the rest.
// The bound keeps sums of several numbers from overflowing.
func number(s string) (n int, rest string) {
	i := 0
	for i < len(s) && digit(s[i]) {
		i++
	}
	n, err := strconv.Atoi(s[:i])
	if err != nil || n > 1e9 {
		n = 0
	}
	return n, s[i:]
}

// otherWord returns the length of the word at the beginning of s, with the signs behind it
// up to the next letter or digit.
func otherWord(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return !wordRune(r) })
	if n < 0 {
		return len(s)
	}
	for n < len(s) && !letter(s[n]) && !digit(s[n]) {
		n++
	}
	return n
}

// readBuild reads the value of BUILD. The result is empty if there is no state.
func readBuild(value string) (s State, detail string, codes []Code) {
	value, rest, marked := trimMarks(value)
	s, n, own := readState(value)
	if s == "" {
		return "", "", []Code{CodeUnknownValue}
	}
	if marked {
		codes = append(codes, CodeDecorated)
	}
	if !own {
		codes = append(codes, CodeNormalised)
	}
	detail = value[n:]
	if digits := count(detail); digits != "" && detail[0] == ':' {
		codes = append(codes, CodeIgnoredCount)
		detail = strings.TrimPrefix(strings.TrimLeft(detail, ": \t(="), digits)
	}
	if detail = trim(detail + rest); detail != "" {
		codes = append(codes, CodeTrailing)
	}
	return s, detail, codes
}

// trimMarks splits a value that begins with marked text: "**ok** at last" is "ok" and
// " at last".
// The closing marks are searched from the left, so the marked text is the shortest
// one.
func trimMarks(value string) (inner, rest string, marked bool) {
	if value == "" || letter(value[0]) {
		return value, "", false
	}
	open := value[:len(value)-len(strings.TrimLeft(value, "*_`\"'"))]
	if open == "" {
		return value, "", false
	}
	inner = value[len(open):]
	i := strings.Index(inner, reversed(open))
	if i < 0 {
		return value, "", false
	}
	return trim(inner[:i]), inner[i+len(open):], true
}

// oneLine returns s as one line: trimmed, with " / " in place of line ends.
func oneLine(s string) string {
	s = trim(s)
	if !strings.ContainsAny(s, "\n\r\u2028\u2029") {
		return s
	}
	var b strings.Builder
	for l := range linesOf(s, 0) {
		part := trim(l.text)
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" / ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// referenceTests reads the value of TESTS as the protocol's public parser does, for
// which a digit of any script is a digit.
func referenceTests(value string) Tests {
	state, n, own := readState(value)
	if !own {
		return ""
	}
	if n < len(value) && value[n] == ':' {
		i := n + 1
		for i < len(value) {
			r, size := utf8.DecodeRuneInString(value[i:])
			if !unicode.IsDigit(r) {
				break
			}
			i += size
		}
		if i > n+1 && ends(value, i) {
			return Tests(lower(value[:i]))
		}
	}
	return Tests(state)
}
