package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A tomlFormat edits the file of Codex, where each MCP server is a table
// [mcp_servers.name].
type tomlFormat struct{}

// maxParts is how many parts of a document may be ours: each is edited on its
// own, which copies the document.
const maxParts = 1000

const tomlContainer = "mcp_servers"

// An item is a table's header or a key with its value.
type item struct {
	table      []string // the table it heads or belongs to
	key        []string // empty for a header
	array      bool     // a header in double brackets
	start, end int      // its lines, without the last line's end
}

// path returns the item's whole key.
func (i item) path() []string { return slices.Concat(i.table, i.key) }

// within reports whether path is under.
func within(path, under []string) bool {
	return len(path) >= len(under) && slices.Equal(path[:len(under)], under)
}

// ours returns the items of the server's own tables. It refuses a file in
// which the server, or the table around it, is written in another way.
func (tomlFormat) ours(doc []byte, name string) ([]item, error) {
	s := tomlScanner{src: doc}
	items, err := s.items()
	if err != nil {
		return nil, err
	}

	server := []string{tomlContainer, name}
	var found []item
	heads := map[string]bool{}
	for _, it := range items {
		path := it.path()
		switch {
		case it.array && (within(server, path) || within(path, server)):
			return nil, &flaw{it.start, "MCP servers in a list of tables cannot be edited: write them as [mcp_servers.name]"}
		case len(it.key) > 0 && !within(it.table, server) && (within(server, path) || within(path, server)):
			return nil, &flaw{it.start, "MCP servers on one line or with dotted keys cannot be edited: write them as [mcp_servers.name]"}
		case !within(it.table, server):
			continue
		case len(it.key) == 0:
			head := strings.Join(it.table, "\x00")
			if heads[head] {
				return nil, &flaw{it.start, "duplicate table name"}
			}
			heads[head] = true
		}

		if len(found) == maxParts {
			return nil, &flaw{it.start, "too many entries for this server to edit"}
		}
		found = append(found, it)
	}

	return found, nil
}

func (f tomlFormat) has(doc []byte, name string) (bool, error) {
	items, err := f.ours(doc, name)
	return len(items) > 0, err
}

func (f tomlFormat) put(doc []byte, name string, s server) ([]byte, error) {
	all := codexMembers(s)
	doc, err := f.clear(doc, name, all)
	if err != nil {
		return nil, err
	}
	rest, err := f.ours(doc, name)
	if err != nil {
		return nil, err
	}
	nl := newline(doc)
	lines := strings.Join(tomlLines(all), nl)
	for _, it := range rest {
		if len(it.path()) == 2 {
			return splice(doc, it.end, it.end, nl+lines), nil
		}
	}
	block := tomlHeader(name) + nl + lines
	if len(rest) > 0 { // tables below the server's own, which is missing
		return splice(doc, rest[0].start, rest[0].start, block+nl+nl), nil
	}
	return appendBlock(doc, block), nil
}

// clear takes the given members out of the server's tables, and leaves what
// else the user has put there.
func (f tomlFormat) clear(doc []byte, name string, all []member) ([]byte, error) {
	items, err := f.ours(doc, name)
	if err != nil {
		return nil, err
	}
	for _, it := range slices.Backward(items) {
		path := it.path()
		owned := len(path) > 2 && slices.ContainsFunc(all, func(m member) bool { return m.name == path[2] })
		switch {
		case owned && len(it.key) == 0:
			doc = cutBlock(doc, it.start, it.end)
		case owned:
			doc = cutLine(doc, it.start, it.end)
		}
	}
	return doc, nil
}

// cutLine takes lines out of doc with one line end, so that the last line of
// doc ends as it did.
func cutLine(doc []byte, start, end int) []byte {
	nl := []byte(newline(doc))
	before, after := doc[:start], doc[end:]
	if bytes.HasPrefix(after, nl) {
		return slices.Concat(before, after[len(nl):])
	}
	return slices.Concat(bytes.TrimSuffix(before, nl), after)
}

func (f tomlFormat) drop(doc []byte, name string) ([]byte, error) {
	items, err := f.ours(doc, name)
	if err != nil {
		return nil, err
	}
	for len(items) > 0 {
		last := len(items) - 1
		for len(items[last].key) > 0 {
			last--
		}
		doc = cutBlock(doc, items[last].start, items[len(items)-1].end)
		items = items[:last]
	}
	return doc, nil
}

func (tomlFormat) show(name string, s server) string {
	return tomlHeader(name) + "\n" + strings.Join(tomlLines(codexMembers(s)), "\n")
}

func tomlHeader(name string) string { return "[" + tomlContainer + "." + name + "]" }

// tomlLines writes one line for each member that has a value.
func tomlLines(all []member) (lines []string) {
	var l style
	for _, m := range written(all) {
		text := ""
		if table, ok := m.value.(map[string]string); ok {
			var parts []string
			for _, key := range slices.Sorted(maps.Keys(table)) {
				parts = append(parts, key+" = "+l.quote(table[key]))
			}
			text = "{ " + strings.Join(parts, ", ") + " }"
		} else {
			text = l.render(m.value, "")
		}
		lines = append(lines, m.name+" = "+text)
	}
	return lines
}

// A tomlScanner finds the headers and keys of a TOML file. Of the values it
// reads only where they end.
type tomlScanner struct {
	src []byte
	pos int
}

func (s *tomlScanner) flaw(problem string) error { return &flaw{offset: s.pos, problem: problem} }

func (s *tomlScanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// eat skips text if it comes next.
func (s *tomlScanner) eat(text string) bool {
	if bytes.HasPrefix(s.src[s.pos:], []byte(text)) {
		s.pos += len(text)
		return true
	}
	return false
}

// space skips blanks and tabs.
func (s *tomlScanner) space() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.pos++
	}
}

// blank skips space, comments and lines' ends.
func (s *tomlScanner) blank() {
	for {
		s.space()
		switch {
		case s.peek() == '#':
			s.comment()
		case !s.eat("\n") && !s.eat("\r\n"):
			return
		}
	}
}

func (s *tomlScanner) comment() {
	n := bytes.IndexByte(s.src[s.pos:], '\n')
	if n < 0 {
		n = len(s.src) - s.pos
	}
	s.pos += n
	if s.pos < len(s.src) && s.src[s.pos-1] == '\r' {
		s.pos--
	}
}

// items reads the headers and the pairs of a file.
func (s *tomlScanner) items() (items []item, err error) {
	if err := s.checkReturns(); err != nil {
		return nil, err
	}
	s.eat("\ufeff")
	var table []string
	for {
		s.blank()
		if s.pos == len(s.src) {
			return items, nil
		}
		it := item{start: s.lineStart(), table: table}
		if s.eat("[") {
			err = s.header(&it)
			table = it.table
		} else {
			err = s.pair(&it)
		}
		if err != nil {
			return nil, err
		}
		if it.end, err = s.lineEnd(); err != nil {
			return nil, err
		}
		items = append(items, it)
	}
}

// checkReturns refuses a carriage return within a line.
func (s *tomlScanner) checkReturns() error {
	for i, c := range s.src {
		if c == '\r' && !bytes.HasPrefix(s.src[i+1:], []byte("\n")) {
			return &flaw{i, "carriage return without a line feed"}
		}
	}
	return nil
}

// lineStart returns the position of the space before the current position.
func (s *tomlScanner) lineStart() int {
	start := s.pos
	for start > 0 && (s.src[start-1] == ' ' || s.src[start-1] == '\t') {
		start--
	}
	return start
}

// header reads the header of a table behind its first bracket.
func (s *tomlScanner) header(it *item) (err error) {
	it.array = s.eat("[")
	if it.table, err = s.key(); err != nil {
		return err
	}
	closed := s.eat("]") && (!it.array || s.eat("]"))
	if !closed {
		return s.flaw("expected the closing bracket of the table header")
	}
	return nil
}

// pair reads a key and its value.
func (s *tomlScanner) pair(it *item) (err error) {
	if it.key, err = s.key(); err != nil {
		return err
	}
	if !s.eat("=") {
		return s.flaw("expected an equals sign after the key")
	}
	s.space()
	return s.value(0)
}

// lineEnd reads the comment behind an item and the end of its line, and returns the
// position before that.
func (s *tomlScanner) lineEnd() (end int, err error) {
	s.space()
	if s.peek() == '#' {
		s.comment()
	}
	end = s.pos
	if end < len(s.src) && !s.eat("\n") && !s.eat("\r\n") {
		return end, s.flaw("expected the end of the line")
	}
	return end, nil
}

// key reads a key and the dots in it.
func (s *tomlScanner) key() (key []string, err error) {
	for {
		s.space()
		part := ""
		switch c := s.peek(); c {
		case '"', '\'':
			if part, err = s.line(c); err != nil {
				return nil, err
			}
		default:
			start := s.pos
			for isBare(s.peek()) {
				s.pos++
			}
			if part = string(s.src[start:s.pos]); part == "" {
				return nil, s.flaw("expected a key")
			}
		}
		key = append(key, part)
		s.space()
		if !s.eat(".") {
			return key, nil
		}
	}
}

func isBare(c byte) bool {
	return c == '_' || c == '-' || ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')
}

// isScalar reports whether c may be part of a number, a boolean, a date or a time.
func isScalar(c byte) bool {
	return isBare(c) || c == '+' || c == '.' || c == ':'
}

// line reads a string on one line and returns its text.
func (s *tomlScanner) line(quote byte) (string, error) {
	start := s.pos
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == quote:
			s.pos++
			text := string(s.src[start+1 : s.pos-1])
			if quote == '\'' || !strings.Contains(text, `\`) {
				return text, nil
			}
			var read string
			if json.Unmarshal(s.src[start:s.pos], &read) != nil {
				return text, nil // an escape that JSON does not have: only in names that are not ours
			}
			return read, nil
		case c == '\\' && quote == '"':
			s.pos++
		case c == '\n':
			s.pos = start
			return "", s.flaw("this string is not closed on its line")
		}
	}
	s.pos = start
	return "", s.flaw("this string is not closed")
}

// value skips a value.
func (s *tomlScanner) value(depth int) error {
	if depth > maxDepth {
		return s.flaw("values are nested too deeply")
	}
	switch c := s.peek(); c {
	case '"', '\'':
		return s.text(c)
	case '[':
		return s.list(depth)
	case '{':
		return s.inline(depth)
	}
	start := s.pos
	for isScalar(s.peek()) {
		s.pos++
		// A date and its time may have a space between them.
		afterDate := s.peek() == ' ' && s.pos-start == len("2006-01-02")
		beforeDigit := s.pos+1 < len(s.src) && '0' <= s.src[s.pos+1] && s.src[s.pos+1] <= '9'
		if afterDate && beforeDigit {
			s.pos++
		}
	}
	if s.pos == start {
		return s.flaw("expected a value")
	}
	return nil
}

// text skips a string, which may go over several lines.
func (s *tomlScanner) text(quote byte) error {
	triple := strings.Repeat(string(quote), 3)
	start := s.pos
	if !s.eat(triple) {
		_, err := s.line(quote)
		return err
	}
	for s.pos < len(s.src) {
		switch {
		case s.eat(triple):
			for range 2 { // quotes of its own ahead of the closing three
				s.eat(triple[:1])
			}
			return nil
		case quote == '"' && s.peek() == '\\':
			s.pos++
		}
		s.pos++
	}
	s.pos = start
	return s.flaw("this string is not closed")
}

func (s *tomlScanner) list(depth int) error {
	s.pos++
	for comma := true; ; {
		s.blank()
		switch {
		case s.eat("]"):
			return nil
		case !comma:
			return s.flaw("expected a comma or the closing bracket of an array")
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.blank()
		comma = s.eat(",")
	}
}

func (s *tomlScanner) inline(depth int) error {
	s.pos++
	for comma := true; ; {
		s.blank() // TOML 1.1 has lines here too
		switch {
		case s.eat("}"):
			return nil
		case !comma:
			return s.flaw("expected a comma or the closing brace of a table")
		}
		if _, err := s.key(); err != nil {
			return err
		}
		if !s.eat("=") {
			return s.flaw("expected an equals sign after the key")
		}
		s.space()
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.blank()
		comma = s.eat(",")
	}
}
