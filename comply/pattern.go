package comply

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A pattern says what a JSON value must be like. An object must have the members
// of the pattern, an array must have an element for each of the pattern's, and a
// string in a pattern is a regular expression that must be found in the value
// written as text. Any other leaf must be written like the value.
type pattern struct {
	kind    kind
	text    string
	regex   *regexp.Regexp // nil if text is no regular expression, and compared
	members []patternMember
	items   []*pattern
}

type patternMember struct {
	name  string
	value *pattern
}

// newPattern returns the pattern that a node is, with the variables replaced.
func newPattern(n *node, vars variables) *pattern {
	p := &pattern{kind: n.kind, text: n.text}
	switch n.kind {
	case isObject:
		for _, m := range n.members {
			p.members = append(p.members, patternMember{vars.expand(m.name), newPattern(m.value, vars)})
		}
	case isArray:
		for _, item := range n.items {
			p.items = append(p.items, newPattern(item, vars))
		}
	case isString:
		var err error
		if p.regex, err = regexp.Compile(vars.expandPattern(n.text)); err != nil {
			p.text = vars.expand(n.text)
		}
	case isNumber:
		p.text = numberText(n.text)
	}
	return p
}

// literals calls f with each string of a pattern that is no regular expression
// of ours.
func literals(n *node, f func(n *node, err error)) {
	for _, m := range n.members {
		literals(m.value, f)
	}
	for _, item := range n.items {
		literals(item, f)
	}
	if n.kind == isString {
		if _, err := regexp.Compile(variable.ReplaceAllLiteralString(n.text, "x")); err != nil {
			f(n, err)
		}
	}
}

// A mismatch is where a value is not as the pattern wants it.
type mismatch struct {
	path string // such as result.stopReason; empty for the whole value
	want string
	got  string
	met  int // how many leaves had matched before
}

func (m *mismatch) String() string {
	where := m.path
	if where == "" {
		where = "the message"
	}
	return fmt.Sprintf("%s is %s, not %s", where, m.got, m.want)
}

// match returns nil if v is as p wants it.
func (p *pattern) match(v any) *mismatch {
	met := 0
	return p.at("", v, &met)
}

func (p *pattern) at(path string, v any, met *int) *mismatch {
	miss := func(want, got string) *mismatch { return &mismatch{path, want, got, *met} }
	switch p.kind {
	case isObject:
		object, ok := v.(map[string]any)
		if !ok {
			return miss("an object", brief(v))
		}
		for _, m := range p.members {
			inner := join(path, m.name)
			value, ok := object[m.name]
			if !ok {
				return &mismatch{inner, m.value.String(), "missing", *met}
			}
			if bad := m.value.at(inner, value, met); bad != nil {
				return bad
			}
		}
		return nil
	case isArray:
		array, ok := v.([]any)
		if !ok {
			return miss("an array", brief(v))
		}
		for _, want := range p.items {
			if !slices.ContainsFunc(array, func(v any) bool { return want.match(v) == nil }) {
				return miss("an array with an element like "+want.String(), brief(v))
			}
			*met++
		}
		return nil
	}
	text := stringify(v)
	ok := text == p.text
	if p.regex != nil {
		ok = p.regex.MatchString(text)
	}
	if !ok {
		return miss(p.String(), brief(v))
	}
	*met++
	return nil
}

// String describes the pattern for people.
func (p *pattern) String() string {
	switch {
	case p.regex != nil:
		return "/" + p.regex.String() + "/"
	case p.kind == isString:
		return strconv.Quote(p.text)
	case p.kind == isObject:
		var parts []string
		for _, m := range p.members {
			parts = append(parts, m.name+": "+m.value.String())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case p.kind == isArray:
		var parts []string
		for _, item := range p.items {
			parts = append(parts, item.String())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return p.text
}

// stringify returns a value as text: what a string says, a number without a
// fraction of zero, anything else as compact JSON.
func stringify(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return numberText(v.String())
	}
	return string(encoded(v))
}

// numberText writes a number without exponent and empty fraction, so that 1.0
// and 1 are the same.
func numberText(digits string) string {
	if !strings.ContainsAny(digits, ".eE") {
		return digits
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return digits
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// brief returns a value as JSON that fits into a sentence.
func brief(v any) string { return cut(string(encoded(v)), 200) }

// cut returns at most n bytes of s, and says when something is missing.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " [...]"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
