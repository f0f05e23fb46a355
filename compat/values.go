package compat

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A values says which values a schema takes, if it is a list: enum, const, or alternatives of
// those. Such a schema needs no proof and no validator: a value is looked up by its key.
type values struct {
	isList bool
	list   []any
	keys   map[string]bool
}

// newValues returns a list of values, each once.
func newValues(list []any) values {
	v := values{isList: true, keys: make(map[string]bool, len(list))}
	for _, value := range list {
		key := keyOf(value)
		if !v.keys[key] {
			v.keys[key] = true
			v.list = append(v.list, value)
		}
	}
	return v
}

// and returns the values that both take. One of them that is no list takes everything.
func (v values) and(w values) values {
	switch {
	case !v.isList:
		return w
	case !w.isList:
		return v
	}
	return newValues(slices.DeleteFunc(slices.Clone(v.list), func(value any) bool { return !w.keys[keyOf(value)] }))
}

// text returns the first values for people.
func (v values) text() string {
	var out []string
	for _, value := range v.list[:min(len(v.list), 5)] {
		out = append(out, shortText(string(rawOf(value))))
	}
	if len(v.list) > len(out) {
		out = append(out, "...")
	}
	return strings.Join(out, ", ")
}

// keyOf returns a text that is equal for equal values.
func keyOf(value any) string { return string(rawOf(plainNumbers(value))) }

// plainNumbers returns a value whose numbers are written in one way.
func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		return json.RawMessage(rat(v).RatString())
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = plainNumbers(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = plainNumbers(member)
		}
		return out
	}
	return value
}

// listWords are the keywords that a list of values may have, besides those for readers.
var listWords = []string{"$defs", "$ref", "allOf", "anyOf", "const", "definitions", "enum", "oneOf", "type"}

// values returns the values that a schema takes. Each schema is looked at once.
func (s schema) values() values {
	if known, ok := s.side.listed[s.pointer]; ok {
		return known
	}
	s.side.listed[s.pointer] = values{} // one that leads back to itself is no list
	out := s.readValues()
	s.side.meter.spend(1 + len(out.list))
	s.side.listed[s.pointer] = out
	return out
}

// readValues is values for a schema that was not looked at before.
func (s schema) readValues() values {
	m, ok := s.raw.(map[string]any)
	if !ok {
		if takesAll, isBool := s.raw.(bool); isBool && !takesAll {
			return newValues(nil)
		}
		return values{}
	}
	if ref, ok := m["$ref"].(string); ok && s.side.src.draft7 {
		at, _ := s.side.src.target(ref)
		return s.side.at(at).values()
	}
	for name := range m {
		if !slices.Contains(listWords, name) && !slices.Contains(annotations, name) {
			return values{}
		}
	}

	var out values
	if list, ok := m["enum"].([]any); ok {
		out = out.and(newValues(list))
	}
	if value, ok := m["const"]; ok {
		out = out.and(newValues([]any{value}))
	}
	var parts []schema
	if ref, ok := m["$ref"].(string); ok {
		at, _ := s.side.src.target(ref)
		parts = append(parts, s.side.at(at))
	}
	all, _ := m["allOf"].([]any)
	for i := range all {
		parts = append(parts, s.child("allOf", itoa(i)))
	}
	for _, part := range parts {
		v := part.values()
		if !v.isList {
			return values{}
		}
		out = out.and(v)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		list, ok := m[name].([]any)
		if !ok {
			continue
		}
		u := union{one: name == "oneOf"}
		for i := range list {
			u.branches = append(u.branches, s.child(name, itoa(i)))
		}
		v := u.values()
		if !v.isList {
			return values{}
		}
		out = out.and(v)
	}
	if types := typesOf(map[string]any{"type": m["type"]}); m["type"] != nil && out.isList {
		out = newValues(slices.DeleteFunc(slices.Clone(out.list), func(value any) bool { return typeOfValue(value)&types == 0 }))
	}
	return out
}

// values returns the values that the branches of a union list: of oneOf those that one branch
// alone takes. It is no list if a branch is none.
func (u union) values() values {
	count := map[string]int{}
	var all []any
	for _, b := range u.branches {
		v := b.values()
		if !v.isList {
			return values{}
		}
		for _, value := range v.list {
			count[keyOf(value)]++
			all = append(all, value)
		}
	}
	if u.one {
		all = slices.DeleteFunc(all, func(value any) bool { return count[keyOf(value)] > 1 })
	}
	return newValues(all)
}

// A choice is a property by which the branches of a union are told apart: all of them are
// objects that require it, and no two list a common value for it.
type choice struct {
	path     []string       // names of properties, one inside the other
	branches map[string]int // by the key of a value
}

// choiceOf returns the choice of a union, nil if there is none. Its cost is linear in the
// number of branches for each property that the first one requires.
func (u union) choiceOf() *choice {
	if len(u.branches) < 2 || u.branches[0].side.lane == nil {
		return nil
	}
	first := u.branches[0]
	key := first.side.name + u.at
	if known, ok := first.side.lane.choices[key]; ok {
		return known
	}
	found := u.choiceUnder(nil, normalise(conjunction{first}))
	first.side.lane.choices[key] = found
	return found
}

// maxChoice is the number of properties inside one another by which branches are told apart.
const maxChoice = 2

// choiceUnder returns the first choice by a property that objects at a path in the first branch
// require: by a property there, else by one inside of it.
func (u union) choiceUnder(path []string, at *normal) *choice {
	if at.types != isObject || len(path) == maxChoice {
		return nil
	}
	names := slices.Sorted(maps.Keys(at.required))
	for _, name := range names {
		if found := u.choiceBy(append(slices.Clip(path), name)); found != nil {
			return found
		}
	}
	for _, name := range names {
		if found := u.choiceUnder(append(slices.Clip(path), name), normalise(at.property(name))); found != nil {
			return found
		}
	}
	return nil
}

// choiceBy returns the choice by one property, nil if it does not tell the branches apart.
func (u union) choiceBy(path []string) *choice {
	out := &choice{path, map[string]int{}}
	for i, b := range u.branches {
		listed, ok := listedIn(normalise(conjunction{b}), path)
		if !ok {
			return nil
		}
		for key := range listed {
			if _, taken := out.branches[key]; taken {
				return nil
			}
			out.branches[key] = i
		}
		b.side.meter.spend(1 + len(listed))
	}
	return out
}

// listedAt returns the values that objects list for a property which they require, as they require
// each object around it.
func listedAt(n *normal, path []string) ([]any, bool) {
	for _, name := range path {
		if _, isRequired := n.required[name]; n.types != isObject || !isRequired {
			return nil, false
		}
		n = normalise(n.property(name))
	}
	return n.values, n.values != nil
}

// listedIn returns the keys of the values of listedAt.
func listedIn(n *normal, path []string) (map[string]bool, bool) {
	listed, ok := listedAt(n, path)
	keys := map[string]bool{}
	for _, value := range listed {
		keys[keyOf(value)] = true
	}
	return keys, ok
}

// candidates returns the branches of u that may take all values of a conjunction, as far as the
// choice of u shows it.
func (u union) candidates(c conjunction) []schema {
	by := u.choiceOf()
	if by == nil {
		return u.branches
	}
	listed, ok := listedIn(normalise(c), by.path)
	if !ok {
		return u.branches
	}
	only := -1
	for key := range listed {
		i, known := by.branches[key]
		if !known || (only >= 0 && i != only) {
			return nil
		}
		only = i
	}
	if only < 0 {
		return u.branches
	}
	return u.branches[only : only+1]
}

// removedKind returns the first alternative of a conjunction whose kind u does not have, and
// which has values, with the choice by which u tells its branches apart. A union that was split
// already is left out.
func (u union) removedKind(sub conjunction, ns *normal, split []string) (schema, *choice, bool) {
	by := u.choiceOf()
	if by == nil {
		return schema{}, nil, false
	}
	if len(ns.unions) != 1 || slices.Contains(split, ns.unions[0].at) { // another union may exclude the kind
		return schema{}, nil, false
	}
	isKnown := func(key string) bool { _, ok := by.branches[key]; return ok }
	for _, branch := range ns.unions[0].branches {
		// The list of an alternative alone is read first: it costs little, and sub adds no value to it.
		alone, ok := listedIn(normalise(conjunction{branch}), by.path)
		if ok && slices.ContainsFunc(slices.Collect(maps.Keys(alone)), isKnown) {
			continue
		}
		all := sub.with(branch)
		listed, ok := listedIn(normalise(all), by.path)
		isRemoved := ok && len(listed) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(listed)), isKnown)
		if isRemoved && !impossible(all) {
			return branch, by, true
		}
	}
	return schema{}, nil, false
}
