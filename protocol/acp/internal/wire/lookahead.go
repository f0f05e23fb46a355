package wire

import (
	"encoding/json"
	"slices"
	"strconv"
)

// find looks for a member of the object that comes next and, if it is there,
// leaves the scanner before its value.
// A union has to look ahead, because its discriminator may be the last member. The
// cost is a second pass over the members before it. A caller that only looks
// restores the position, but not after a problem, whose place is where it was
// found.
func (s *Scanner) find(name string) bool {
	if !s.want('{') {
		return false
	}
	o := Object{s: s}
	for o.advance() {
		if string(o.name) == name {
			return true
		}
		s.Skip()
	}
	return false
}

// Has reports whether the object that comes next has a member of that name.
func (s *Scanner) Has(name string) bool {
	at := s.pos
	found := s.find(name)
	if s.problem == nil {
		s.pos = at
	}
	return found
}

// ItemHas reports whether the array that comes next begins with an object that
// has a member of that name.
func (s *Scanner) ItemHas(name string) bool {
	at := s.pos
	a := s.Array()
	found := a.Next() && s.Kind() == '{' && s.find(name)
	if s.problem != nil {
		a.Next()
		return false
	}
	s.pos = at
	return found
}

// AllStrings reports whether the array that comes next holds nothing but strings.
func (s *Scanner) AllStrings() bool {
	at := s.pos
	all := true
	for a := s.Array(); a.Next(); s.Skip() {
		all = all && s.Kind() == '"'
	}
	if s.problem == nil {
		s.pos = at
	}
	return all
}

// Tag reads the discriminator of the object that comes next, without moving on.
// It must be there, and a string that is not empty. The bytes may be those of the
// input.
func (s *Scanner) Tag(name string) []byte {
	tag, ok := s.OptionalTag(name)
	if !ok {
		s.Fail("the discriminator " + strconv.Quote(name) + " is missing")
	}
	return tag
}

// OptionalTag is like Tag for an object that may do without a discriminator.
func (s *Scanner) OptionalTag(name string) (tag []byte, ok bool) {
	if tag, ok = s.discriminator(name, false); ok {
		s.tags.add(name)
	}
	return tag, ok
}

// OptionalValue is like OptionalTag for a discriminator that is also an ordinary
// member, and may be null.
func (s *Scanner) OptionalValue(name string) (value string, ok bool) {
	text, ok := s.discriminator(name, true)
	return string(text), ok
}

func (s *Scanner) discriminator(name string, nullable bool) (value []byte, ok bool) {
	at := s.pos
	if !s.find(name) {
		if s.problem == nil {
			s.pos = at
		}
		return nil, false
	}
	if nullable && s.Null() {
		s.pos = at
		return nil, false
	}
	value = s.text()
	if s.problem == nil && len(value) == 0 {
		s.Fail("a discriminator must not be empty")
	}
	if s.problem != nil {
		s.problem.Path = within(name, s.problem.Path)
		return nil, true
	}
	s.pos = at
	return value, true
}

// Untag makes the discriminator that was read last an ordinary member again.
func (s *Scanner) Untag() {
	if s.tags.n > 0 {
		s.tags.n--
	}
}

// Unknown reads an object with an unknown discriminator, and returns a copy of it. Each of the names must be there once, with a string; other names
// may repeat.
func (s *Scanner) Unknown(required ...string) json.RawMessage {
	raw := s.Peek()
	o := s.Object()
	for o.Next() {
		if i := slices.Index(required, string(o.name)); i >= 0 {
			o.Once(i)
			s.want('"')
		}
		o.Skip(required)
	}
	for i, name := range required {
		o.Need(i, name)
	}
	return raw
}

// Require records a problem unless the object that comes next has a member of
// that name.
func (s *Scanner) Require(name string) {
	if !s.Has(name) {
		s.Fail("the required member " + strconv.Quote(name) + " is missing")
	}
}

// Inspect reads the value of a member of the object that comes next into x, a
// pointer, if the member is there, without moving on.
func (s *Scanner) Inspect(name string, nullable bool, x any) {
	at := s.pos
	hasValue := s.problem == nil && s.find(name) && !(nullable && s.Null())
	if hasValue {
		Decode(s, x)
		if s.problem != nil {
			s.problem.Path = within(name, s.problem.Path)
		}
	}
	if s.problem == nil {
		s.pos = at
	}
}

// Choose returns which of the names the object that comes next has: the first
// one, or if exclusive the only one.
func (s *Scanner) Choose(exclusive bool, names ...string) string {
	chosen := ""
	for _, name := range names {
		if s.problem != nil || !s.Has(name) {
			continue
		}
		if chosen == "" {
			chosen = name
		} else if exclusive {
			s.Fail("only one of the members " + strconv.Quote(chosen) + " and " + strconv.Quote(name) + " is allowed")
		}
	}
	if chosen == "" {
		list := strconv.Quote(names[0])
		for _, name := range names[1:] {
			list += " or " + strconv.Quote(name)
		}
		s.Fail("the required member " + list + " is missing")
	}
	return chosen
}
