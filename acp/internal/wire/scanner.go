// Package wire reads and writes the JSON of protocol objects, member by member,
// for code that is generated from the protocol's schemas.
//
// A Scanner takes any bytes: it never panics, and stops at the first problem,
// whose path it tells. In objects that the protocol defines it refuses a name
// that comes twice or differs from another in case only. Values that are opaque
// to the protocol are copied as they are.
package wire

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested.
const maxDepth = 10_000

// A Scanner reads one JSON value. After a problem every method does nothing and
// returns zero.
type Scanner struct {
	data    []byte
	pos     int
	problem *Problem
	scratch []byte // the last name that had escapes
	tags    tags   // the discriminators read ahead of the object that begins next
}

// NewScanner returns a scanner of data, which must not change until it is done.
func NewScanner(data []byte) *Scanner {
	s := &Scanner{data: data}
	if !utf8.Valid(data) {
		s.Fail("invalid UTF-8")
	}
	return s
}

// End returns the problem found, if any. Nothing but blanks may be left.
func (s *Scanner) End() *Problem {
	if s.problem == nil && s.next() != 0 {
		s.Fail("more text follows the value")
	}
	return s.problem
}

// Fail records a problem with the current value, unless there is one already.
func (s *Scanner) Fail(reason string) {
	if s.problem == nil {
		s.problem = &Problem{Reason: reason}
	}
}

// Failed reports whether there was a problem.
func (s *Scanner) Failed() bool { return s.problem != nil }

// next skips blanks and returns the byte that follows, 0 at the end.
func (s *Scanner) next() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		case 0:
			return 1 // no value begins with it, and 0 is the end
		default:
			return c
		}
	}
	return 0
}

// Kind returns the kind of the value that comes next: one of { [ " 0 t n, with
// t for both booleans and 0 for any number, or ? if no value begins here.
func (s *Scanner) Kind() byte {
	switch c := s.next(); c {
	case '{', '[', '"', 'n', 't':
		return c
	case 'f':
		return 't'
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return '?'
}

var kindNames = map[byte]string{
	'{': "an object", '[': "an array", '"': "a string", '0': "a number", 't': "a boolean", 'n': "null",
}

// want reports whether a value of the given kind comes next; if not, that is a
// problem.
func (s *Scanner) want(kind byte) bool {
	if s.problem != nil {
		return false
	}
	got := s.Kind()
	switch {
	case got == kind:
		return true
	case got != '?':
		s.Fail("must be " + kindNames[kind] + ", not " + kindNames[got])
	case s.next() == 0:
		s.Fail("the message ends too early")
	default:
		s.syntax()
	}
	return false
}

func (s *Scanner) syntax() { s.Fail("not valid JSON at byte " + strconv.Itoa(s.pos)) }

// Null reports whether null comes next, and skips it if so.
func (s *Scanner) Null() bool {
	if s.problem != nil || s.next() != 'n' {
		return false
	}
	return s.literal("null")
}

func (s *Scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		s.syntax()
		return false
	}
	s.pos += len(word)
	return true
}

// Bool reads a boolean.
func (s *Scanner) Bool() bool {
	if !s.want('t') {
		return false
	}
	if s.data[s.pos] == 't' {
		return s.literal("true")
	}
	s.literal("false")
	return false
}

// String reads a string.
func (s *Scanner) String() string {
	return string(s.text())
}

// text reads a string and returns its bytes, which may be those of the input.
func (s *Scanner) text() []byte {
	if !s.want('"') {
		return nil
	}
	plain, escaped := s.span()
	if !escaped {
		return plain
	}
	return s.unescape(make([]byte, 0, len(plain)), plain)
}

// name reads a string that is valid until the next call.
func (s *Scanner) name() []byte {
	if s.next() != '"' {
		s.syntax()
		return nil
	}
	plain, escaped := s.span()
	if !escaped {
		return plain
	}
	s.scratch = s.unescape(s.scratch[:0], plain)
	return s.scratch
}

// span skips a string and returns the text between its quotes, and whether there
// are escapes in it. Only the form of escapes is checked.
func (s *Scanner) span() (text []byte, escaped bool) {
	start := s.pos + 1
	for i := start + plain(s.data[start:]); i < len(s.data); i += 1 + plain(s.data[i+1:]) {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[start:i], escaped
		case c < ' ':
			s.pos = i
			s.syntax()
			return nil, false
		case c == '\\':
			escaped = true
			n := escapeLen(s.data[i:])
			if n == 0 {
				s.pos = i
				s.syntax()
				return nil, false
			}
			i += n - 1
		}
	}
	s.pos = len(s.data)
	s.Fail("the message ends too early")
	return nil, false
}

// plain returns how many bytes at the start of a text are neither a quote nor a
// backslash nor a control character, or a few less near its end. It tests eight
// bytes at a time: subtracting n from each byte of a word borrows into the high
// bit of those below n. A borrow may spill into higher bytes, but never into
// lower ones, so that the lowest bit found is exact.
func plain[T string | []byte](text T) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		b := text[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, backslash := w^ones*'"', w^ones*'\\'
		found := (w-ones*' ')&^w | (quote-ones)&^quote | (backslash-ones)&^backslash
		if found &= high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	return i
}

// escapeLen returns the length of the escape that b begins with, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 returns the code unit of a \uXXXX escape, -1 if b does not begin with one.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends the text of a span to dst. Half of a surrogate pair is no
// text, and a replacement would change the text.
func (s *Scanner) unescape(dst, plain []byte) []byte {
	for {
		i := bytes.IndexByte(plain, '\\')
		if i < 0 {
			return append(dst, plain...)
		}
		dst = append(dst, plain[:i]...)
		plain = plain[i:]
		if plain[1] != 'u' {
			dst = append(dst, unescaped[plain[1]])
			plain = plain[2:]
			continue
		}
		r := hex4(plain)
		plain = plain[6:]
		if utf16.IsSurrogate(r) {
			r = utf16.DecodeRune(r, hex4(plain))
			if r == utf8.RuneError {
				s.Fail("half of a surrogate pair is not text")
				return nil
			}
			plain = plain[6:]
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// digits skips a number and returns its text, and whether it is written as an
// integer.
func (s *Scanner) digits() (text []byte, integer bool) {
	start, i := s.pos, s.pos
	run := func() bool {
		from := i
		for i < len(s.data) && '0' <= s.data[i] && s.data[i] <= '9' {
			i++
		}
		return i > from
	}
	at := func(set string) bool {
		for j := range len(set) {
			if i < len(s.data) && s.data[i] == set[j] {
				i++
				return true
			}
		}
		return false
	}
	at("-")
	ok, integer := at("0"), true
	if !ok {
		ok = run()
	}
	if ok && at(".") {
		ok, integer = run(), false
	}
	if ok && at("eE") {
		at("+-")
		ok, integer = run(), false
	}
	s.pos = i
	if !ok {
		s.syntax()
		return nil, false
	}
	return s.data[start:i], integer
}

// Number reads a number and keeps its digits.
func (s *Scanner) Number() json.Number {
	if !s.want('0') {
		return ""
	}
	text, _ := s.digits()
	return json.Number(text)
}

// Int reads an integer of so many bits.
func (s *Scanner) Int(bits int) int64 {
	text := s.integer()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		s.Fail("does not fit into an integer of " + strconv.Itoa(bits) + " bits")
	}
	return n
}

// Uint reads an integer of so many bits that is not negative.
func (s *Scanner) Uint(bits int) uint64 {
	text := s.integer()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		s.Fail("does not fit into an unsigned integer of " + strconv.Itoa(bits) + " bits")
	}
	return n
}

// integer reads the digits of an integer. A fraction, an exponent or a sign
// before zero would not come out again as it came.
func (s *Scanner) integer() string {
	if !s.want('0') {
		return ""
	}
	text, integer := s.digits()
	if s.problem == nil && (!integer || string(text) == "-0") {
		s.Fail("must be an integer without fraction, exponent or negative zero")
	}
	if s.problem != nil {
		return ""
	}
	return string(text)
}

// Raw reads any value and returns a copy of its bytes.
func (s *Scanner) Raw() json.RawMessage {
	if s.problem != nil {
		return nil
	}
	s.next()
	start := s.pos
	s.Skip()
	if s.problem != nil {
		return nil
	}
	return append(json.RawMessage(nil), s.data[start:s.pos]...)
}

// RawObject reads an object or null and returns a copy of its bytes.
func (s *Scanner) RawObject() json.RawMessage {
	if s.problem == nil && s.next() != 'n' && !s.want('{') {
		return nil
	}
	return s.Raw()
}

// Peek returns a copy of the value that comes next.
func (s *Scanner) Peek() json.RawMessage {
	at := s.pos
	raw := s.Raw()
	s.pos = at
	return raw
}

// Skip reads any value. Names are not compared: an opaque value may repeat them.
//
// It keeps a stack of the closing brackets in place of recursion, so that deep input
// cannot exhaust the stack of the goroutine; maxDepth bounds it.
func (s *Scanner) Skip() {
	var nest [64]byte // the closing bracket of each level
	open := nest[:0]
	for s.problem == nil {
		switch kind := s.Kind(); kind {
		case '{', '[':
			if len(open) == maxDepth {
				s.Fail("nested deeper than " + strconv.Itoa(maxDepth) + " levels")
				return
			}
			s.pos++
			end := kind + 2 // in ASCII, } and ] follow { and [ at that distance
			open = append(open, end)
			if s.next() == end {
				break
			}
			if kind == '{' {
				s.key()
			}
			continue
		case '"':
			s.span()
		case '0':
			s.digits()
		case 't':
			if s.data[s.pos] == 't' {
				s.literal("true")
			} else {
				s.literal("false")
			}
		case 'n':
			s.literal("null")
		default:
			s.want(0)
			return
		}
		for s.problem == nil { // a comma or a closing bracket follows a value
			if len(open) == 0 {
				return
			}
			end := open[len(open)-1]
			c := s.next()
			if c == end {
				s.pos++
				open = open[:len(open)-1]
				continue
			}
			if c != ',' {
				s.punctuation()
				return
			}
			s.pos++
			if end == '}' {
				s.key()
			}
			break
		}
	}
}

// key skips a name and its colon.
func (s *Scanner) key() {
	if s.next() != '"' {
		s.punctuation()
		return
	}
	s.span()
	s.colon()
}

func (s *Scanner) colon() {
	if s.problem != nil {
		return
	}
	if s.next() != ':' {
		s.punctuation()
		return
	}
	s.pos++
}

// punctuation records that a comma, colon or bracket is missing here.
func (s *Scanner) punctuation() {
	if s.next() == 0 {
		s.Fail("the message ends too early")
		return
	}
	s.syntax()
}
