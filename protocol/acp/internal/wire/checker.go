package wire

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxProblems is how many problems a Checker reports.
const maxProblems = 20

// A Checker collects the problems of a value that was decoded, or that the program
// made itself.
type Checker struct {
	// Own is for messages that the program makes itself: an unknown value must be
	// one that Registered reports.
	Own        bool
	Registered func(name, value string) bool

	// Closed reports whether an enum or union may have no unknown values although
	// the protocol leaves it open.
	Closed func(name string) bool

	path     []place
	Problems []Problem
}

// Enter goes into a member.
func (c *Checker) Enter(name string) { c.path = append(c.path, place{name: name}) }

// Item goes into an item of an array.
func (c *Checker) Item(i int) { c.path = append(c.path, place{item: i}) }

// Leave goes back to the object or array of the member or item.
func (c *Checker) Leave() { c.path = c.path[:len(c.path)-1] }

// Report adds a problem with the current value.
func (c *Checker) Report(value, reason string) {
	if len(c.Problems) == maxProblems {
		return
	}
	var path strings.Builder
	for _, p := range c.path {
		path.WriteString(within(p.String(), ""))
	}
	c.Problems = append(c.Problems, Problem{Path: path.String(), Value: value, Reason: reason})
}

// Text checks a string.
func (c *Checker) Text(v string) {
	if !utf8.ValidString(v) {
		c.Report("", "invalid UTF-8")
	}
}

// Value checks the value of an enum, or the discriminator of a union.
func (c *Checker) Value(name, value string, known, open bool) {
	c.Text(value)
	switch {
	case known:
	case !open:
		c.Report(shown(value), "is not a value of "+name+", which is closed")
	case c.Closed != nil && c.Closed(name):
		c.Report(shown(value), "is not a known value of "+name)
	case c.Own && !strings.HasPrefix(value, "_"):
		c.Report(shown(value), "is not a value of "+name+": extensions begin with _")
	case c.Own && (c.Registered == nil || !c.Registered(name, value)):
		c.Report(shown(value), "is not registered as an extension of "+name)
	}
}

// Union checks that exactly one variant is set.
func (c *Checker) Union(name string, variants ...bool) {
	if n := count(variants); n != 1 {
		c.Report("", "must be exactly one variant of "+name+", not "+strconv.Itoa(n))
	}
}

// Length checks the length of an array or string.
func (c *Checker) Length(n, least int) {
	if n < least {
		c.Report("", "must have a length of at least "+strconv.Itoa(least))
	}
}

// Range checks a number. An empty bound is none.
func (c *Checker) Range(v json.Number, least, most string) {
	if !isNumber(string(v)) {
		c.Report(shown(string(v)), "is not a number")
		return
	}
	if least != "" && compare(string(v), least) < 0 {
		c.Report(shown(string(v)), "must be at least "+least)
	}
	if most != "" && compare(string(v), most) > 0 {
		c.Report(shown(string(v)), "must be at most "+most)
	}
}

// compare compares two numbers.
func compare(a, b string) int { return float(a).Cmp(float(b)) }

// float reads a number. One whose exponent is beyond all bounds is zero or
// infinite.
func float(v string) *big.Float {
	if f, _, err := big.ParseFloat(v, 10, 256, big.ToNearestEven); err == nil {
		return f
	}
	digits, exponent, _ := strings.Cut(strings.ToLower(v), "e")
	if strings.HasPrefix(exponent, "-") || !strings.ContainsAny(digits, "123456789") {
		return new(big.Float)
	}
	return new(big.Float).SetInf(strings.HasPrefix(v, "-"))
}

// Unknown checks a variant that this version does not define.
func (c *Checker) Unknown(name, discriminator, tag string, raw json.RawMessage, open bool, tags []string) {
	if reason := unknownReason(discriminator, tag, raw, tags); reason != "" {
		c.Report("", reason)
	}
	c.Enter(discriminator)
	c.Value(name, tag, false, open)
	c.Leave()
}

// Distinct checks that none of n names comes twice.
func (c *Checker) Distinct(n int, name func(int) string) {
	seen := make(map[string]bool, n)
	for i := range n {
		if seen[name(i)] {
			c.Report("", "the name "+shown(name(i))+" appears twice")
		}
		seen[name(i)] = true
	}
}

// Raw checks an opaque value.
func (c *Checker) Raw(v json.RawMessage) {
	if validate(v) != nil {
		c.Report("", "is not a JSON value")
	}
}

// RawObject checks an opaque value that must be an object or null.
func (c *Checker) RawObject(v json.RawMessage) {
	s := NewScanner(v)
	s.RawObject()
	if s.End() != nil {
		c.Report("", "is neither an object nor null")
	}
}

// Extra checks a member that the protocol does not define.
func (c *Checker) Extra(name string, v json.RawMessage, known ...[]string) {
	c.Enter(name)
	defer c.Leave()
	if knownName(name, known) {
		c.Report("", "has the name of a defined member, or differs from it only in case")
	}
	c.Raw(v)
}
