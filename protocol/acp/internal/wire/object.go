package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// tags are the discriminators of the unions that an object is a variant of. A
// variant may itself be a union, so that there can be more than one.
type tags struct {
	names [3]string
	n     int
}

func (t *tags) add(name string) {
	if t.n < len(t.names) {
		t.names[t.n] = name
		t.n++
	}
}

// index returns which tag has that name, -1 if none.
func (t *tags) index(name []byte) int {
	for i := range t.n {
		if t.names[i] == string(name) {
			return i
		}
	}
	return -1
}

// An Object is an object being read. Its members are gone through with Next. seen
// has one bit for each defined member, which bounds a struct, with its fragments,
// to 64 members.
type Object struct {
	s       *Scanner
	name    []byte
	seen    uint64
	started bool
	inside  bool // a member's value is being read
	tags    tags
	tagSeen [3]bool
	extras  map[string]string // folded name to name
}

// Object begins to read an object. Discriminators that were read with Tag
// belong to it, and Next passes over them.
func (s *Scanner) Object() Object {
	o := Object{s: s, tags: s.tags}
	s.tags = tags{}
	return o
}

// Next goes on to the next member and reports whether there is one.
func (o *Object) Next() bool {
	for {
		if !o.advance() {
			return false
		}
		i := o.tags.index(o.name)
		if i < 0 {
			return true
		}
		if o.tagSeen[i] {
			o.fail("the name appears twice")
			continue
		}
		o.tagSeen[i] = true
		o.s.Skip()
	}
}

// advance goes on to the next member, discriminators included. A problem in the value
// of the member before gets the name of that member in its path.
// Paths are built this way from the inside out, on the way back, so a message
// without a problem pays nothing for them.
func (o *Object) advance() bool {
	s := o.s
	if o.inside && s.problem != nil {
		s.problem.Path = within(string(o.name), s.problem.Path)
	}
	o.inside = false
	hasMember := s.problem == nil && (o.started || s.want('{')) && s.more(!o.started)
	if !hasMember {
		return false
	}
	o.started = true
	o.name = s.text()
	s.next() // the colon
	s.pos++
	o.inside = s.problem == nil
	return o.inside
}

func (o *Object) fail(reason string) { o.s.Fail(reason) }

// Name returns the name of the member at hand. The bytes may be those of the input.
func (o *Object) Name() []byte { return o.name }

// Once notes that the member with that number was seen. A second time is a
// problem.
func (o *Object) Once(i int) {
	if o.seen&(1<<i) != 0 {
		o.fail("the name appears twice")
	}
	o.seen |= 1 << i
}

// Need records a problem if the member with that number was not seen.
func (o *Object) Need(i int, name string) {
	if o.s.problem == nil && o.seen&(1<<i) == 0 {
		o.fail("the required member " + strconv.Quote(name) + " is missing")
	}
}

// Skip passes over the value of the member at hand, of which nothing is known
// but that it must not pass for one of the members that are.
func (o *Object) Skip(known ...[]string) {
	if o.distinct(string(o.name), known) {
		o.s.Skip()
	}
}

// Extra reads a member that the protocol does not define. Its name must not
// differ only in case from that of another member or of one that is known.
func (o *Object) Extra(known ...[]string) (name string, value json.RawMessage, ok bool) {
	name = string(o.name)
	if !o.distinct(name, known) {
		return "", nil, false
	}
	folded := fold(name)
	if before, twice := o.extras[folded]; twice {
		if before == name {
			o.fail("the name appears twice")
		} else {
			o.fail("the name differs from " + shown(before) + " only in case")
		}
		return "", nil, false
	}
	if o.extras == nil {
		o.extras = map[string]string{}
	}
	o.extras[folded] = name
	value = o.s.Raw()
	return name, value, o.s.problem == nil
}

// distinct reports whether a name is no twin of one that is known; if it is,
// that is a problem.
func (o *Object) distinct(name string, known [][]string) bool {
	other := twin(name, o.tags.names[:o.tags.n])
	for _, names := range known {
		if other == "" {
			other = twin(name, names)
		}
	}
	if other != "" {
		o.fail("the name differs from " + shown(other) + " only in case")
		return false
	}
	return true
}

// twin returns the name that differs from the given one in case only.
func twin(name string, names []string) string {
	for _, n := range names {
		if n != name && strings.EqualFold(n, name) {
			return n
		}
	}
	return ""
}

// fold returns the same text for all names that differ in case only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// An Array is an array being read.
type Array struct {
	s *Scanner
	n int // items that were begun
}

// Array begins to read an array.
func (s *Scanner) Array() Array { return Array{s: s} }

// Next goes on to the next item and reports whether there is one. A problem in the
// item before gets the index of that item in its path.
func (a *Array) Next() bool {
	s := a.s
	if s.problem != nil && a.n > 0 {
		s.problem.Path = within(strconv.Itoa(a.n-1), s.problem.Path)
	}
	hasItem := s.problem == nil && (a.n > 0 || s.want('[')) && s.more(a.n == 0)
	if !hasItem {
		return false
	}
	a.n++
	return true
}

// Each calls f for every member of an object whose names are data, in their
// order. A name that comes twice is a problem.
func (s *Scanner) Each(f func(name string)) {
	seen := map[string]bool{}
	o := Object{s: s}
	for o.Next() {
		name := string(o.name)
		if seen[name] {
			o.fail("the name appears twice")
			continue
		}
		seen[name] = true
		f(name)
	}
}
