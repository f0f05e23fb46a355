// Package wire reads and writes the JSON of protocol objects, member by member, for
// code that is generated from the protocol's schemas.
//
// A Scanner takes any bytes: it never panics, and stops at the first problem, whose
// path it tells. In objects that the protocol defines it refuses a name that comes
// twice or differs from another in case only. Values that are opaque to the
// protocol are copied as they are.
//
// An Encoder writes a value and refuses one that cannot be read back: two variants
// of a union, an extra member with the name of a defined one, invalid UTF-8. A
// Checker collects the problems of a value against the rules of its schema, all of
// them up to a bound. None of the three knows a message of the protocol. A struct
// type describes its JSON by tags (see structure), enums and unions are registered
// by generated code, and codecOf makes the functions of each type from both, once.
//
// The round trip is exact: a value that was decoded is encoded with the same
// members, the same numbers digit by digit, and unknown members and variants byte
// for byte. The order of members that are defined follows the fields, not the
// input.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A Scanner reads one JSON value. After a problem every method does nothing and
// returns zero.
//
// The methods rely on valid JSON: they move from value to value and check types and
// names only. On other text their results are meaningless, but none of them panics or
// runs on for ever.
type Scanner struct {
	// data is the input, which is not copied; pos is the next byte to read. Values
	// that outlive the scanner are copied by Raw and by the conversion to string.
	data    []byte
	pos     int
	problem *Problem
	tags    tags // the discriminators read ahead of the object that begins next
}

// NewScanner validates data and returns a scanner of it. data must not change until
// the scanner is done.
func NewScanner(data []byte) *Scanner { return &Scanner{data: data, problem: validate(data)} }

// NewTrusting returns a scanner of data that was validated before.
func NewTrusting(data []byte) *Scanner { return &Scanner{data: data} }

// allowRepeats lets an object repeat a name: it may be part of a value that is opaque to
// the protocol. For the objects that the protocol defines, Object checks the names.
var allowRepeats = jsontext.AllowDuplicateNames(true)

// validate returns the problem of text that is not exactly one JSON value.
// The first test is the fast one; only invalid text is read again for the place and
// the reason of its fault.
func validate(data []byte) *Problem {
	if jsontext.Value(data).IsValid(allowRepeats) {
		return nil
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(data), allowRepeats).ReadValue()
	if err == nil {
		return &Problem{Reason: "unexpected data after the value"}
	}
	p := &Problem{Reason: "the message is incomplete"}
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		p.Path = cut(string(syntax.JSONPointer))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			p.Reason = "not valid JSON at byte " + strconv.FormatInt(syntax.ByteOffset, 10) + ": " + syntax.Err.Error()
		}
	}
	return p
}

// End returns the problem found, if any.
func (s *Scanner) End() *Problem { return s.problem }

// Fail records a problem with the current value, unless there is one already.
func (s *Scanner) Fail(reason string) {
	if s.problem == nil {
		s.problem = &Problem{Reason: reason}
	}
}

// Failed reports whether there was a problem.
func (s *Scanner) Failed() bool { return s.problem != nil }

// next skips blanks and returns the byte that follows.
func (s *Scanner) next() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	if s.pos = strictjson.SkipBlanks(s.data, s.pos); s.pos == len(s.data) {
		s.Fail("the message is incomplete")
		return 0
	}
	return s.data[s.pos]
}

// Kind returns the kind of the value that comes next: one of { [ " 0 t n, with
// t for both booleans and 0 for any number, or ? after a problem.
func (s *Scanner) Kind() byte {
	if s.problem != nil {
		return '?'
	}
	switch c := s.next(); c {
	case '{', '[', '"', 'n', 't':
		return c
	case 'f':
		return 't'
	}
	return '0'
}

var kindNames = map[byte]string{
	'{': "an object", '[': "an array", '"': "a string", '0': "a number", 't': "a boolean", 'n': "null",
}

// want reports whether a value of the given kind comes next; if not, that is a
// problem.
func (s *Scanner) want(kind byte) bool {
	got := s.Kind()
	if got == kind {
		return true
	}
	s.Fail("must be " + kindNames[kind] + ", not " + kindNames[got])
	return false
}

// span moves over the value that comes next and returns its bytes.
func (s *Scanner) span() []byte {
	if s.problem != nil {
		return nil
	}
	s.next()
	start := s.pos
	s.pos = strictjson.ValueEnd(s.data, start)
	return s.data[start:s.pos:s.pos]
}

// Skip reads any value. Names are not compared: an opaque value may repeat them.
func (s *Scanner) Skip() { s.span() }

// more moves over the bracket or comma before the next member or item, or over the
// bracket after the last, and reports whether there is a next one.
func (s *Scanner) more(first bool) bool {
	if c := s.next(); first || c == ',' {
		s.pos++
	}
	if c := s.next(); c == '}' || c == ']' {
		s.pos++
		return false
	}
	return true
}

// Null reports whether null comes next, and skips it if so.
func (s *Scanner) Null() bool {
	if s.Kind() != 'n' {
		return false
	}
	s.Skip()
	return true
}

// Bool reads a boolean.
func (s *Scanner) Bool() bool { return s.want('t') && string(s.span()) == "true" }

// String reads a string.
func (s *Scanner) String() string { return string(s.text()) }

// text reads a string and returns its bytes, which may be those of the input.
func (s *Scanner) text() []byte {
	if !s.want('"') {
		return nil
	}
	text, _ := strictjson.Unquote(s.span()) // valid: it was checked
	return text
}

// Number reads a number and keeps its digits.
func (s *Scanner) Number() json.Number {
	if !s.want('0') {
		return ""
	}
	return json.Number(s.span())
}

// Int reads an integer of so many bits.
func (s *Scanner) Int(bits int) int64 {
	n, err := strconv.ParseInt(s.integer(), 10, bits)
	if err != nil {
		s.Fail("does not fit into an integer of " + strconv.Itoa(bits) + " bits")
	}
	return n
}

// Uint reads an integer of so many bits that is not negative.
func (s *Scanner) Uint(bits int) uint64 {
	n, err := strconv.ParseUint(s.integer(), 10, bits)
	if err != nil {
		s.Fail("does not fit into an unsigned integer of " + strconv.Itoa(bits) + " bits")
	}
	return n
}

// integer reads the digits of an integer. A fraction, an exponent or a sign
// before zero would not come out again as it came.
func (s *Scanner) integer() string {
	text := string(s.Number())
	if s.problem == nil && (text == "-0" || bytes.ContainsAny([]byte(text), ".eE")) {
		s.Fail("must be an integer without fraction, exponent or negative zero")
	}
	return text
}

// Raw reads any value and returns a copy of its bytes.
func (s *Scanner) Raw() json.RawMessage { return bytes.Clone(s.span()) }

// RawObject reads an object or null and returns a copy of its bytes.
func (s *Scanner) RawObject() json.RawMessage {
	if s.Kind() != 'n' && !s.want('{') {
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
