package rules

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// A check is a rule that any conversation can show to be broken. The tables of
// checks are written with the functions below, so that an entry has only the
// events and the condition of its rule.
type check struct {
	rule  string
	level jsont.Level // "" for the level of the rule
	on    selector
	in    schema.Version // the only version that has the rule; 0 for both
	flaw  flaw
}

// A selector reports whether a check is about an event.
// Selectors are cheap and run for every check and frame; a flaw runs only if its
// selector holds.
type selector func(e *event) bool

// A flaw describes how an event breaks a rule, "" if it does not. It may add
// earlier entries to the proof of the event.
// It must not change the state: checks run in any order.
type flaw func(s *state, e *event) string

// The selectors without parameters.
var (
	anything selector = func(e *event) bool { return !e.end }
	atEnd    selector = func(e *event) bool { return e.end }
	requests selector = func(e *event) bool { return e.Class == jsont.ClientRequest }
	calls    selector = func(e *event) bool { return e.Class == jsont.ClientRequest || e.Class == jsont.Notification }
	failures selector = func(e *event) bool { return e.Class == jsont.Response && e.Failure() != nil }
	results  selector = func(e *event) bool { return e.Class == jsont.Response && e.request != nil && e.succeeded }
)

// asks selects requests and notifications of the agent with one of the methods.
func asks(methods ...string) selector {
	return func(e *event) bool { return e.Method != "" && slices.Contains(methods, e.Method) }
}

// resultOf selects answers with a result to one of the methods.
func resultOf(methods ...string) selector {
	return func(e *event) bool { return results(e) && slices.Contains(methods, e.request.Method) }
}

// updates selects updates with one of the tags, all if there is none.
func updates(tags ...string) selector {
	return func(e *event) bool { return e.update != nil && (len(tags) == 0 || slices.Contains(tags, e.tag)) }
}

// object is a decoded JSON object.
type object = map[string]any

// shown is a value that is written as short JSON when, and only when, a flaw is
// formatted.
// Formatting a large value for each check would cost more than the checks
// themselves.
type shown struct{ v any }

func (s shown) String() string { return jsont.Brief(s.v) }

// show returns v for a flaw.
func show(v any) shown { return shown{v} }

// when returns the formatted flaw if broken holds.
func when(broken bool, format string, args ...any) string {
	if !broken {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// whenIs returns the flaw that the member name is v if broken holds.
func whenIs(broken bool, name string, v any) string { return when(broken, "%s is %s", name, show(v)) }

// member returns the flaw that a member of an object does not fit.
func member(of func(*event) object, name string, fits func(any) bool) flaw {
	return func(_ *state, e *event) string { return whenIs(!fits(of(e)[name]), name, of(e)[name]) }
}

// paramsOf, resultOfCall and updateOf return the object in which members are checked; nil
// if the event has none.
func paramsOf(e *event) object     { return e.params }
func resultOfCall(e *event) object { return e.result }
func updateOf(e *event) object     { return e.update }

// each returns the flaw of the first item that does not fit, with a name for an item.
func each(items func(*event) []object, what string, fits func(s *state, o object) bool) flaw {
	return eachFlaw(items, func(s *state, o object) string { return whenIs(!fits(s, o), what, o) })
}

// eachFlaw returns the first flaw of an item.
func eachFlaw(items func(*event) []object, flaw func(s *state, o object) string) flaw {
	return func(s *state, e *event) string {
		for _, o := range items(e) {
			if bad := flaw(s, o); bad != "" {
				return bad
			}
		}
		return ""
	}
}

// firstOf returns the first flaw that is found.
func firstOf(flaws ...flaw) flaw {
	return func(s *state, e *event) string {
		for _, flaw := range flaws {
			if bad := flaw(s, e); bad != "" {
				return bad
			}
		}
		return ""
	}
}

// listOf returns the objects in a list that a member of an update has.
func listOf(name string) func(*event) []object {
	return func(e *event) []object { return objects(e.update, name) }
}

// repeated returns the first id that two items share, and whether there is one.
func repeated(items []object, id func(object) string) (string, bool) {
	seen := map[string]bool{}
	for _, o := range items {
		if seen[id(o)] {
			return id(o), true
		}
		seen[id(o)] = true
	}
	return "", false
}

// named returns the function that reads a member that is a string.
func named(name string) func(object) string { return func(o object) string { return text(o, name) } }

func isText(v any) bool { _, ok := v.(string); return ok }
func isMap(v any) bool  { _, ok := v.(object); return ok }
func isList(v any) bool { _, ok := v.([]any); return ok }

// isWord reports whether v is a string that is not empty.
func isWord(v any) bool { s, ok := v.(string); return ok && s != "" }

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	return ok && !strings.ContainsAny(n.String(), ".eE")
}

// isCount reports whether v is an integer that is not negative.
func isCount(v any) bool { return isInteger(v) && !strings.HasPrefix(string(v.(json.Number)), "-") }

func isNumber(v any) bool { _, ok := number(v); return ok }

// isPath reports whether v is an absolute path of any system.
func isPath(v any) bool { s, _ := v.(string); return absolute(s) }

// absentOr returns the condition that a member is not there, null, or fits.
func absentOr(fits func(any) bool) func(any) bool {
	return func(v any) bool { return v == nil || fits(v) }
}

// isOneOf returns the condition that a member is one of the words, or one of them
// in other letters, about which there is another rule. Version 2 allows any word.
func isOneOf(s *state, v any, words []string) bool {
	word, _ := v.(string)
	return slices.Contains(words, word) || (s.version == schema.V2 && word != "") || caseVariant(word)
}

// number returns a JSON number.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// absolute reports whether a path is absolute on any system.
func absolute(path string) bool {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`) {
		return true
	}
	return len(path) > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// inner returns a member that is an object, nil if it is not one.
func inner(o object, name string) object {
	m, _ := o[name].(object)
	return m
}

// objects returns the objects in a member that is a list.
func objects(o object, name string) (out []object) {
	items, _ := o[name].([]any)
	for _, item := range items {
		if m, ok := item.(object); ok {
			out = append(out, m)
		}
	}
	return out
}

// text returns a member that is a string, "" if it is not one.
func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}

// inOrder iterates over a map in the order of its names, so that the same
// conversation always gives the same findings.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
