package compat_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// A schemaMaker makes random schemas over few names and values, so that two of them often
// speak of the same.
type schemaMaker struct{ r *rand.Rand }

func (m schemaMaker) pick(list ...any) any { return list[m.r.IntN(len(list))] }

func (m schemaMaker) name() string { return string(rune('a' + m.r.IntN(4))) }

func (m schemaMaker) names() []any {
	var out []any
	for _, name := range []string{"a", "b", "c", "d"} {
		if m.r.IntN(3) == 0 {
			out = append(out, name)
		}
	}
	return out
}

// schema returns a schema with at most depth levels.
func (m schemaMaker) schema(depth int) any {
	switch n := m.r.IntN(40); {
	case n == 0:
		return true
	case n == 1 && depth < 3:
		return false
	}
	s := map[string]any{}
	if m.r.IntN(5) > 0 {
		s["type"] = m.pick("string", "integer", "number", "object", "object", "array", []any{"string", "null"}, []any{"object", "null"}, []any{"integer", "string"}, "boolean")
	}
	for range 1 + m.r.IntN(3) {
		m.keyword(s, depth)
	}
	return s
}

// keyword adds one keyword to a schema.
func (m schemaMaker) keyword(s map[string]any, depth int) {
	if depth > 0 && m.r.IntN(2) == 0 {
		m.nested(s, depth-1)
		return
	}
	switch m.r.IntN(17) {
	case 0:
		s["minimum"] = m.r.IntN(4)
	case 1:
		s["maximum"] = m.r.IntN(4) + 1
	case 2:
		s["exclusiveMinimum"] = m.r.IntN(3)
	case 3:
		s["multipleOf"] = m.pick(1, 2, 3, 0.5)
	case 4:
		s["minLength"] = m.r.IntN(3)
	case 5:
		s["maxLength"] = m.r.IntN(4)
	case 6:
		s["pattern"] = m.pick("^a", "a", "^[a-z]+$", "")
	case 7:
		s["minItems"] = m.r.IntN(3)
	case 8:
		s["maxItems"] = m.r.IntN(3)
	case 9:
		s["uniqueItems"] = true
	case 10:
		s["required"] = m.names()
		if s["required"] == nil || len(s["required"].([]any)) == 0 {
			s["required"] = []any{m.name()}
		}
	case 11:
		s["minProperties"] = m.r.IntN(3)
	case 12:
		s["maxProperties"] = m.r.IntN(3)
	case 13:
		s["enum"] = []any{m.pick("a", 1, nil), m.pick("b", 2, true), m.pick(map[string]any{"a": 1}, []any{1}, 1.5)}
	case 14:
		s["const"] = m.pick("a", 1, nil, map[string]any{"a": "a"})
	case 15:
		s["dependentRequired"] = map[string]any{m.name(): []any{m.name()}}
	case 16:
		s["maxContains"] = 1
		s["minContains"] = m.r.IntN(2)
	}
}

// nested adds one keyword that holds schemas.
func (m schemaMaker) nested(s map[string]any, depth int) {
	switch m.r.IntN(19) {
	case 0, 1, 2, 3:
		properties := map[string]any{}
		for _, name := range m.names() {
			properties[name.(string)] = m.schema(depth)
		}
		s["properties"] = properties
	case 4, 5:
		s["additionalProperties"] = m.pick(false, true, m.schema(depth))
	case 6:
		s["patternProperties"] = map[string]any{m.pick("^a", "b", "[cd]").(string): m.schema(depth)}
	case 7, 8:
		s["items"] = m.schema(depth)
	case 9:
		s["prefixItems"] = []any{m.schema(depth), m.schema(depth)}
	case 10:
		s["contains"] = m.schema(depth)
	case 11, 12:
		s["anyOf"] = []any{m.schema(depth), m.schema(depth)}
	case 13:
		s["oneOf"] = []any{m.schema(depth), m.schema(depth)}
	case 14:
		s["allOf"] = []any{m.schema(depth), m.schema(depth)}
	case 15:
		s["not"] = m.schema(depth)
	case 16:
		s["if"] = m.schema(depth)
		s[m.pick("then", "else").(string)] = m.schema(depth)
	case 17:
		s["dependentSchemas"] = map[string]any{m.name(): m.schema(depth)}
	case 18:
		s[m.pick("propertyNames", "unevaluatedProperties", "unevaluatedItems").(string)] = m.schema(depth)
	}
	if m.r.IntN(12) == 0 {
		s[m.pick("allOf", "anyOf").(string)] = []any{map[string]any{"$ref": "#/$defs/A"}}
	}
}

// change returns a copy of a schema with a few small changes.
func (m schemaMaker) change(v any, depth int) any {
	s, ok := v.(map[string]any)
	if !ok {
		if m.r.IntN(8) == 0 {
			return m.schema(depth)
		}
		return v
	}
	out := map[string]any{}
	for name, value := range s {
		switch {
		case m.r.IntN(12) == 0: // dropped
		default:
			out[name] = m.changeMember(name, value, depth-1)
		}
	}
	if m.r.IntN(5) == 0 {
		m.keyword(out, max(depth, 0))
	}
	return out
}

// changeMember returns a changed value of a keyword.
func (m schemaMaker) changeMember(name string, v any, depth int) any {
	switch x := v.(type) {
	case int:
		if m.r.IntN(4) == 0 {
			return max(0, x+m.r.IntN(3)-1+isStep(name))
		}
	case []any:
		switch name {
		case "anyOf", "oneOf", "allOf", "prefixItems":
			out := []any{}
			for _, item := range x {
				out = append(out, m.change(item, depth))
			}
			if m.r.IntN(6) == 0 {
				out = append(out, m.schema(max(depth, 0)))
			}
			return out
		}
	case map[string]any:
		switch name {
		case "properties", "patternProperties", "dependentSchemas", "$defs":
			out := map[string]any{}
			for key, item := range x {
				if m.r.IntN(12) > 0 || name == "$defs" {
					out[key] = m.change(item, depth)
				}
			}
			if name == "properties" && m.r.IntN(6) == 0 {
				out[m.name()] = m.schema(max(depth, 0))
			}
			return out
		case "enum", "const", "dependentRequired":
			return v
		}
		return m.change(v, depth)
	}
	return v
}

// isStep keeps multipleOf above 0.
func isStep(name string) int {
	if name == "multipleOf" {
		return 1
	}
	return 0
}

// value returns a random document over the same names and values.
func (m schemaMaker) value(depth int) any {
	n := m.r.IntN(12)
	if depth == 0 {
		n = m.r.IntN(8)
	}
	switch {
	case n < 3:
		return m.pick("", "a", "b", "ab", "abc", "B1", "abcd")
	case n < 6:
		return m.pick(0, 1, 2, 3, 4, 5, 6, 1.5, -1, 0.5)
	case n == 6:
		return m.pick(true, false)
	case n == 7:
		return nil
	case n < 10:
		out := map[string]any{}
		for _, name := range m.names() {
			out[name.(string)] = m.value(depth - 1)
		}
		if m.r.IntN(6) == 0 {
			out["e"] = m.value(depth - 1)
		}
		return out
	}
	out := []any{}
	for range m.r.IntN(4) {
		out = append(out, m.value(depth-1))
	}
	return out
}

// mentioned adds the names in properties of a schema, at any depth.
func mentioned(v any, into map[string]bool) {
	switch x := v.(type) {
	case map[string]any:
		if properties, ok := x["properties"].(map[string]any); ok {
			for name := range properties {
				into[name] = true
			}
		}
		for _, item := range x {
			mentioned(item, into)
		}
	case []any:
		for _, item := range x {
			mentioned(item, into)
		}
	}
}

// hasName reports whether a document has a member with one of the names.
func hasName(v any, names map[string]bool) bool {
	switch x := v.(type) {
	case map[string]any:
		for name, item := range x {
			if names[name] || hasName(item, names) {
				return true
			}
		}
	case []any:
		for _, item := range x {
			if hasName(item, names) {
				return true
			}
		}
	}
	return false
}

// compile returns a validator that the package under test did not make.
func compile(t testing.TB, text []byte) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:schema", doc); err != nil {
		t.Fatal(err)
	}
	sch, err := c.Compile("urn:schema")
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

// documentsOf returns random documents, and parts of the two schemas themselves: lists of
// values and constants are the values at which schemas differ.
func documentsOf(m schemaMaker) []any {
	var out []any
	for range 150 {
		raw, _ := json.Marshal(m.value(3))
		v, _ := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		out = append(out, v)
	}
	return out
}

// checkPair compares two schemas and, if the verdict is compatible, looks for a document that
// one takes and the other refuses. It returns how many of the two directions are compatible.
func checkPair(t *testing.T, seed uint64) int {
	m := schemaMaker{rand.New(rand.NewPCG(seed, 1))}
	first := m.schema(3)
	old, ok := first.(map[string]any)
	if !ok {
		return 0
	}
	old["$defs"] = map[string]any{"A": m.schema(1)}
	old["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	new, _ := m.change(old, 3).(map[string]any)
	new["$schema"] = old["$schema"]
	if new["$defs"] == nil {
		new["$defs"] = old["$defs"]
	}
	oldText, _ := json.Marshal(old)
	newText, _ := json.Marshal(new)
	a, err := compat.Read(oldText, nil)
	if err != nil {
		return 0
	}
	b, err := compat.Read(newText, nil)
	if err != nil {
		return 0
	}

	compatible := 0
	validOld := compile(t, oldText)
	validNew := compile(t, newText)
	for _, direction := range []compat.Direction{compat.Request, compat.Response} {
		v := compat.Compare(a, b, compat.Options{Direction: direction})
		giver, taker := validOld, validNew
		from, to := old, new
		if direction == compat.Response {
			giver, taker = validNew, validOld
			from, to = new, old
		}
		for _, f := range v.Findings {
			checkExample(t, f, validOld, validNew, oldText, newText)
		}
		if v.Verdict != compat.Compatible {
			continue
		}
		compatible++
		known := map[string]bool{}
		mentioned(from, known)
		added := map[string]bool{}
		mentioned(to, added)
		for name := range known {
			delete(added, name)
		}
		for _, f := range v.Findings {
			if f.Rule == "REQ-property-added" {
				added[path.Base(f.Pointer)] = true
			}
		}
		for _, document := range documentsOf(m) {
			if hasName(document, added) || giver.Validate(document) != nil {
				continue
			}
			if err := taker.Validate(document); err != nil {
				text, _ := json.Marshal(document)
				t.Fatalf("%s is compatible, but %s is refused: %v\nold %s\nnew %s\n%s", direction, text, err, oldText, newText, findings(v))
			}
		}
	}
	return compatible
}

// checkExample checks the example of a finding with validators of the test.
func checkExample(t *testing.T, f compat.Finding, old, new *jsonschema.Schema, oldText, newText []byte) {
	t.Helper()
	if f.Example == nil || f.Example.Where != "document" {
		return
	}
	taken, refused := old, new
	if f.Example.TakenBy == "new" {
		taken, refused = new, old
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(f.Example.Document))
	if err != nil {
		t.Fatal(err)
	}
	if taken.Validate(document) != nil || refused.Validate(document) == nil {
		t.Fatalf("the example %s of %s shows nothing\nold %s\nnew %s", f.Example.Document, f.Rule, oldText, newText)
	}
}

// FuzzCompatible looks for a pair of schemas that is called compatible although a document
// breaks. Names of properties that only the new side describes are left out, as the rule
// about added optional properties has it.
func FuzzCompatible(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkPair(t, seed) })
}

var (
	pairs    = flag.Uint64("pairs", 300, "random pairs of schemas that TestRandomPairs compares")
	firstOne = flag.Uint64("first", 1000, "seed of the first pair")
)

// TestRandomPairs is FuzzCompatible over the first seeds, for machines on which the fuzzer is
// too slow.
func TestRandomPairs(t *testing.T) {
	compatible, tried := 0, 0
	for seed := range *pairs {
		if patience.Chosen(int(seed), "") {
			tried++
			compatible += checkPair(t, *firstOne+seed)
		}
	}
	t.Logf("%d pairs in two directions: %d times compatible", tried, compatible)
	if compatible == 0 {
		t.Error("no pair is compatible, so that nothing was tried")
	}
}

// FuzzRead checks that no text makes the reader or the comparer fail in another way than
// with a refusal.
func FuzzRead(f *testing.F) {
	for _, p := range readCorpus(f) {
		f.Add([]byte(p.Old))
	}
	f.Add([]byte("openapi: 3.0.3\npaths: {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := compat.Read(text, nil)
		if err != nil {
			return
		}
		if v := compat.Compare(d, d, compat.Options{}); v.Verdict != compat.Compatible {
			t.Errorf("a document is not compatible with itself\n%s", findings(v))
		}
		if text := fmt.Sprint(d.Format()); text == "" {
			t.Error("a document without a format")
		}
	})
}
