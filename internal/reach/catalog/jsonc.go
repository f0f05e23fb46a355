package catalog

import (
	"bytes"
	"encoding/json"
)

// A value is a JSON value and the bytes it takes up.
type value struct {
	start, end int
	object     bool
	members    []field // of an object
	tail       int     // of an object: the end of the last thing in it that is not space
	tailLine   bool    // that thing is a comment which the line's end closes
}

// A field is a member of an object.
type field struct {
	name    string
	start   int  // of its name
	space   int  // where the space ahead of its name begins
	comment bool // ahead of that space is a comment which the line's end closes
	value   value
	comma   int // the comma behind it, or -1
}

// maxDepth is how deep values may be nested.
const maxDepth = 1000

// A scanner reads JSON, with comments and trailing commas where the file's
// owner reads them too.
type scanner struct {
	src            []byte
	pos            int
	comments       bool
	trailingCommas bool

	depth int
	cr    bool // no line ends but in a carriage return
	solid int  // the end of the last thing that is not space
	line  bool // that thing is a comment which the line's end closes
}

// document reads the one value of a document. There is none in a document of
// nothing but space and comments.
func (s *scanner) document() (v value, ok bool, err error) {
	s.cr = newline(s.src) == "\r"
	s.pos = len(s.src) - len(bytes.TrimPrefix(s.src, []byte("\ufeff")))
	if err := s.blank(); err != nil || s.pos == len(s.src) {
		return value{}, false, err
	}
	if v, err = s.value(); err != nil {
		return value{}, false, err
	}
	if err := s.blank(); err != nil {
		return value{}, false, err
	}
	if s.pos < len(s.src) {
		return value{}, false, s.flaw("something follows the end of the document")
	}
	return v, true, nil
}

func (s *scanner) flaw(problem string) error { return &flaw{offset: s.pos, problem: problem} }

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

// blank skips space and comments.
func (s *scanner) blank() error {
	s.solid, s.line = s.pos, false
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		case '/':
			if err := s.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (s *scanner) comment() error {
	rest := s.src[s.pos:]
	switch {
	case !s.comments:
		return s.flaw("this file cannot have comments")
	case bytes.HasPrefix(rest, []byte("//")):
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest)
		}
		text := bytes.TrimSuffix(rest[:n], []byte("\r"))
		if n == len(rest) {
			text = rest
		}
		if bytes.IndexByte(text, '\r') >= 0 || s.cr {
			return s.flaw("a carriage return ends this comment for some readers and not for others")
		}
		s.pos += n
		s.solid, s.line = s.pos-(n-len(text)), true
	case bytes.HasPrefix(rest, []byte("/*")):
		n := bytes.Index(rest[2:], []byte("*/"))
		if n < 0 {
			return s.flaw("this comment is not closed")
		}
		s.pos += n + 4
		s.solid, s.line = s.pos, false
	default:
		return s.flaw("a value is expected")
	}
	return nil
}

func (s *scanner) value() (value, error) {
	if s.depth++; s.depth > maxDepth {
		return value{}, s.flaw("values are nested too deep")
	}
	defer func() { s.depth-- }()
	v := value{start: s.pos}
	var err error
	switch c := s.peek(); {
	case c == '{':
		err = s.object(&v)
	case c == '[':
		err = s.array()
	case c == '"':
		_, err = s.text()
	default:
		err = s.scalar()
	}
	v.end = s.pos
	return v, err
}

func (s *scanner) object(v *value) error {
	v.object = true
	s.pos++
	comma := true // the last thing was a comma or the opening brace
	for {
		if err := s.blank(); err != nil {
			return err
		}
		f := field{start: s.pos, space: s.solid, comment: s.line, comma: -1}
		switch c := s.peek(); {
		case c == '}' && (!comma || len(v.members) == 0 || s.trailingCommas):
			v.tail, v.tailLine = s.solid, s.line
			s.pos++
			return nil
		case c != '"' && comma:
			return s.flaw("a member's name in double quotes is expected")
		case !comma:
			return s.flaw("a comma or the closing brace of an object is expected")
		}
		var err error
		if f.name, err = s.text(); err != nil {
			return err
		}
		if err = s.blank(); err != nil {
			return err
		}
		if s.peek() != ':' {
			return s.flaw("a colon is expected behind a member's name")
		}
		s.pos++
		if err = s.blank(); err != nil {
			return err
		}
		if f.value, err = s.value(); err != nil {
			return err
		}
		end := s.pos
		if err = s.blank(); err != nil {
			return err
		}
		if comma = s.peek() == ','; comma {
			f.comma = s.pos
			s.pos++
		} else {
			s.pos = end // what is behind the last member is read again, for its tail
		}
		v.members = append(v.members, f)
	}
}

func (s *scanner) array() error {
	s.pos++
	for first, comma := true, true; ; first = false {
		if err := s.blank(); err != nil {
			return err
		}
		switch {
		case s.peek() == ']' && (!comma || first || s.trailingCommas):
			s.pos++
			return nil
		case !comma:
			return s.flaw("a comma or the closing bracket of a list is expected")
		}
		if _, err := s.value(); err != nil {
			return err
		}
		if err := s.blank(); err != nil {
			return err
		}
		if comma = s.peek() == ','; comma {
			s.pos++
		}
	}
}

// text reads a string.
func (s *scanner) text() (string, error) {
	start := s.pos
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			var text string
			if json.Unmarshal(s.src[start:s.pos], &text) != nil {
				s.pos = start
				return "", s.flaw("this string has an escape that is not known")
			}
			return text, nil
		case c == '\\':
			s.pos++
		case c < ' ':
			return "", s.flaw("a string has to end on the line it begins, without control characters")
		}
	}
	s.pos = start
	return "", s.flaw("this string is not closed")
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() error {
	start := s.pos
	for s.pos < len(s.src) && bytes.IndexByte([]byte("+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"), s.src[s.pos]) >= 0 {
		s.pos++
	}
	if !json.Valid(s.src[start:s.pos]) {
		s.pos = start
		return s.flaw("a value is expected")
	}
	return nil
}
