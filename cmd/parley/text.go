package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// when returns a moment as a person reads it. Every command writes times with it; JSON has
// them in UTC.
func when(t hub.Time) string { return clockText(t.Local(), now().Local()) }

// whenInstant returns an instant of a project as a person reads it.
func whenInstant(i coord.Instant) string { return when(hub.At(i.Time())) }

// clockText returns a moment in its zone: the time of day for today, the day with it for this
// year, else the date with it; a dash for the zero time.
func clockText(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	layout := "2006-01-02 15:04"
	if t.Year() == now.Year() {
		layout = "2 Jan 15:04"
		if t.YearDay() == now.YearDay() {
			layout = "15:04"
		}
	}
	return t.Format(layout)
}

// hashLength is the number of digits of a hash that a person reads.
const hashLength = 12

// longHash finds a SHA-256, or the id of a commit, in a text.
var longHash = pattern.New(`\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b`)

// cutHashes returns a text of the hub with shortened hashes.
func cutHashes(s string) string {
	return longHash().ReplaceAllStringFunc(s, func(h string) string { return h[:hashLength] })
}

// hubTime finds a time in a text, as the hub writes it.
var hubTime = pattern.New(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

// localTimes returns a text of the hub with times as a person reads them.
func localTimes(s string) string {
	return hubTime().ReplaceAllStringFunc(s, func(text string) string {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return text
		}
		return when(hub.At(t))
	})
}

// stateColours are the colours of states on a terminal: green for a good end, red for a bad
// one, yellow for a state that waits for somebody. Other states have none.
var stateColours = map[string]string{
	"verified": "32", "confirmed": "32", "accepted": "32", "approved": "32", "decided": "32", "done": "32", "completed": "32", "read": "32",
	"rejected": "31", "refused": "31", "denied": "31", "failed": "31", "expired": "31", "contradicted": "31", "suspended": "31",
	"proposed": "33", "held": "33", "unproven": "33", "unverified": "33", "claimed": "33", "blocked": "33", "escalated": "33", "interrupted": "33", "rework": "33",
}

// A state is text that begins with the word for a state. On a terminal the word has a colour.
type state string

// on returns s for a stream, with its colour if that is a terminal.
func (s state) on(w io.Writer) string {
	end := strings.IndexFunc(string(s), func(r rune) bool { return r == ' ' || r == ',' })
	if end < 0 {
		end = len(s)
	}
	word := string(s[:end])
	colour, ok := stateColours[word]
	if !ok {
		return string(s)
	}
	return paint(w, colour, word) + string(s[end:])
}

// paint colours text on a terminal, unless NO_COLOR is set.
func paint(w io.Writer, colour, text string) string {
	if !isTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return colourMark + colour + "m" + text + colourMark + "0m"
}

// facts are lines below a sentence, each with a name and a value.
type facts [][2]string

// add appends a value, unless it is empty. Values of one name follow each other.
func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, [2]string{name, value})
	}
}

// write writes the facts in two columns. Lines of a value stand below each other, so that no
// text of others can pass for a name.
func (f facts) write(w io.Writer) {
	width := 0
	for _, fact := range f {
		width = max(width, utf8.RuneCountInString(fact[0]))
	}

	last := ""
	for _, fact := range f {
		name := fact[0]
		if name == last {
			name = ""
		}
		last = fact[0]
		for line := range strings.SplitSeq(strings.TrimRight(plaintext.Text(fact[1]), "\n"), "\n") {
			fmt.Fprintf(w, "  %-*s  %s\n", width, name, line)
			name = ""
		}
	}
}

// writeTable writes a header, unless it is empty, and one row for each item, in aligned
// columns. Times are those of this machine.
func writeTable[T any](w io.Writer, header string, items []T, row func(T) []any) {
	var rows [][]string
	if header != "" {
		rows = append(rows, strings.Split(header, ", "))
	}
	colours := map[[2]int]state{} // by row and column
	for _, item := range items {
		var cells []string
		for i, cell := range row(item) {
			text := cellText(cell)
			if s, ok := cell.(state); ok && text == string(s) {
				colours[[2]int{len(rows), i}] = s
			}
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}

	// A column is as wide as its widest cell; a colour has no width.
	var widths []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}

	for n, cells := range rows {
		last := len(cells) - 1
		for last > 0 && cells[last] == "" {
			last--
		}
		for i, cell := range cells[:last+1] {
			space := widths[i] + 2 - utf8.RuneCountInString(cell)
			if s, ok := colours[[2]int{n, i}]; ok {
				cell = s.on(w)
			}
			if i < last {
				cell += strings.Repeat(" ", space)
			}
			io.WriteString(w, cell)
		}
		fmt.Fprintln(w)
	}
}

// cellText returns the value of a cell on one line.
func cellText(cell any) string {
	switch t := cell.(type) {
	case hub.Time:
		return when(t)
	case coord.Instant:
		return whenInstant(t)
	}
	return strings.ReplaceAll(plaintext.Line(fmt.Sprint(cell)), "\t", " ")
}

// writeList writes a table, or that there are no items.
func writeList[T any](w io.Writer, noun, header string, items []T, row func(T) []any) {
	if len(items) == 0 {
		fmt.Fprintf(w, "no %s\n", noun)
		return
	}
	writeTable(w, header, items, row)
}
