package effects

import "strings"

// withoutDocuments returns a command without the bodies of its here-documents, and the bodies in
// the order of the text. A body is data of the command: it is not parsed, and it does not count
// against the bounds of the text.
func withoutDocuments(command string) (text string, bodies []string) {
	if !strings.Contains(command, "<<") {
		return command, nil
	}
	var b strings.Builder
	var quote byte // that is open at the end of a line; 0 for none
	for rest := command; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		b.WriteString(line)
		if len(line) < len(rest) {
			b.WriteByte('\n')
		}
		var marks []mark
		marks, quote = marksOf(line, quote)
		for _, m := range marks {
			body, end, found := m.body(after)
			if !found { // the text ends inside of the document, as a shell allows
				body, end = after, len(after)
			}
			bodies = append(bodies, body)
			b.WriteString(after[min(len(body), end):end])
			after = after[end:]
		}
		rest = after
	}
	return b.String(), bodies
}

// A mark announces a here-document: the line that ends it, and whether tabs before it count.
type mark struct {
	end  string
	tabs bool // <<-
}

// marksOf returns the here-documents that a line announces. quote is the quote that is open
// where the line begins; the one that is open where it ends is returned.
func marksOf(line string, quote byte) (marks []mark, open byte) {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
		case c == '\\':
			i++
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t' || line[i-1] == ';'):
			return marks, 0
		case quote == 0 && strings.HasPrefix(line[i:], "<<<"):
			i += 2
		case quote == 0 && strings.HasPrefix(line[i:], "<<"):
			m, length := markAt(line[i:])
			if length > 0 {
				marks = append(marks, m)
				i += length - 1
			} else {
				i++
			}
		}
	}
	return marks, quote
}

// markAt returns the here-document that a text announces at its beginning, and the length of the
// announcement; 0 if it is none, as in a shift of numbers.
func markAt(text string) (m mark, length int) {
	i := len("<<")
	if strings.HasPrefix(text[i:], "-") {
		m.tabs = true
		i++
	}
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	var end strings.Builder
	var quote byte
	for ; i < len(text); i++ {
		c := text[i]
		if quote == 0 && strings.IndexByte(" \t;&|<>()", c) >= 0 {
			break
		}
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '\\':
		default:
			end.WriteByte(c)
		}
	}
	m.end = end.String()
	isNumber := m.end == "" || (m.end[0] >= '0' && m.end[0] <= '9')
	if isNumber {
		return m, 0
	}
	return m, i
}

// body returns the document at the beginning of a text, and where the line that ends it ends.
func (m mark) body(text string) (body string, end int, found bool) {
	for at := 0; at < len(text); {
		line, _, _ := strings.Cut(text[at:], "\n")
		word := line
		if m.tabs {
			word = strings.TrimLeft(line, "\t")
		}
		next := min(at+len(line)+1, len(text))
		if word == m.end {
			return text[:at], next, true
		}
		at = next
	}
	return "", 0, false
}

// nesting returns the largest number of brackets that are open at one place of a text, quoted
// or not.
func nesting(text string) (most int) {
	open := 0
	for _, c := range []byte(text) {
		switch c {
		case '(', '{', '[':
			open++
			most = max(most, open)
		case ')', '}', ']':
			open = max(open-1, 0)
		}
	}
	return most
}
