package jsont

import (
	"slices"
	"strconv"
	"strings"
)

// Lookup returns the value at a path such as result.items.0.name. A part of the path
// is the name of a member, or, in an array, the number of an element, conditions in
// braces such as {type=select,value!=x} for the first element that meets them, or *
// for the list of the values that all elements have at the rest of the path.
// A path that does not fit the value has none; it is never an error.
func Lookup(v any, path string) (any, bool) { return find(v, parts(path)) }

// Lookup returns the value at a path whose parts may contain variables.
func (v Variables) Lookup(value any, path string) (any, bool) {
	list := parts(path)
	for i := range list {
		list[i] = v.Expand(list[i])
	}
	return find(value, list)
}

// parts splits a path at its dots, except for dots in braces.
func parts(path string) (out []string) {
	depth, start := 0, 0
	for i, c := range path {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '.' && depth == 0:
			out = append(out, path[start:i])
			start = i + 1
		}
	}
	return append(out, path[start:])
}

// find follows the parts of a path.
// The star collects from all elements and therefore always has a value in an array,
// perhaps an empty list.
func find(v any, path []string) (any, bool) {
	if len(path) == 0 {
		return v, true
	}
	switch inner := v.(type) {
	case map[string]any:
		v, ok := inner[path[0]]
		if !ok {
			return nil, false
		}
		return find(v, path[1:])
	case []any:
		if path[0] == "*" {
			all := []any{}
			for _, item := range inner {
				if v, ok := find(item, path[1:]); ok {
					all = append(all, v)
				}
			}
			return all, true
		}
		if i := choose(inner, path[0]); i >= 0 && i < len(inner) {
			return find(inner[i], path[1:])
		}
	}
	return nil, false
}

// choose returns the index of the element that a part of a path names, -1 if
// there is none.
func choose(list []any, part string) int {
	conditions, ok := strings.CutPrefix(part, "{")
	if !ok {
		i, err := strconv.Atoi(part)
		if err != nil {
			return -1
		}
		return i
	}
	return slices.IndexFunc(list, func(item any) bool {
		for condition := range strings.SplitSeq(strings.TrimSuffix(conditions, "}"), ",") {
			name, value, _ := strings.Cut(condition, "=")
			name, unequal := strings.CutSuffix(name, "!")
			if v, ok := Lookup(item, name); !ok || (Stringify(v) == value) == unequal {
				return false
			}
		}
		return true
	})
}
