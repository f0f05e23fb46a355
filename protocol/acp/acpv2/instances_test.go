package acpv2_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/acp/schema"
)

// A version is one version of the protocol with its schema and its Go types.
type version struct {
	schema.Version
	newValue func(definition string) (any, bool)
	defs     map[string]map[string]any
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// versions returns both versions.
func versions(t testing.TB) []*version {
	t.Helper()
	out := []*version{
		{Version: schema.V1, newValue: acpv1.New},
		{Version: schema.V2, newValue: acpv2.New},
	}
	for _, v := range out {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(v.Document()))
		if err != nil {
			t.Fatal(err)
		}
		v.defs = map[string]map[string]any{}
		for name, def := range doc.(map[string]any)["$defs"].(map[string]any) {
			v.defs[name] = def.(map[string]any)
		}
		v.compiler, v.compiled = jsonschema.NewCompiler(), map[string]*jsonschema.Schema{}
		if err := v.compiler.AddResource("acp.json", doc); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// values returns the names of the definitions that are Go types with an object of
// their own.
func (v *version) values() []string {
	return slices.DeleteFunc(v.Definitions(), func(name string) bool {
		_, ok := v.newValue(name)
		return !ok
	})
}

// valid asks the schema.
func (v *version) valid(t testing.TB, definition string, raw []byte) error {
	t.Helper()
	s, ok := v.compiled[definition]
	if !ok {
		var err error
		if s, err = v.compiler.Compile("acp.json#/$defs/" + definition); err != nil {
			t.Fatal(err)
		}
		v.compiled[definition] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

// A maker makes up instances of definitions.
type maker struct {
	*version
	rand   *rand.Rand
	strict bool // no members that the schema does not define
}

func newMaker(v *version, seed uint64) *maker {
	return &maker{version: v, rand: rand.New(rand.NewPCG(seed, uint64(v.Version)))}
}

// instance returns a valid instance with its members in any order.
func (m *maker) instance(definition string) []byte {
	return m.encode(m.make(m.defs[definition], true))
}

func pick[T any](m *maker, list ...T) T { return list[m.rand.IntN(len(list))] }

// make returns a value that a schema allows. Of an object, whole says whether
// nothing will be added to it by an enclosing schema.
func (m *maker) make(s map[string]any, whole bool) any {
	if ref, ok := s["$ref"].(string); ok {
		return m.make(m.defs[strings.TrimPrefix(ref, "#/$defs/")], whole)
	}
	if c, ok := s["const"]; ok {
		return c
	}
	out := map[string]any{}
	object := s["type"] == "object"
	merge := func(part any) (any, bool) {
		if members, ok := part.(map[string]any); ok {
			maps.Copy(out, members)
			object = true
			return nil, false
		}
		return part, true
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := s[key].([]any)
		if len(branches) == 0 {
			continue
		}
		if key != "allOf" {
			branches = []any{pick(m, branches...)}
		}
		for _, b := range branches {
			if v, done := merge(m.make(b.(map[string]any), false)); done {
				return v
			}
		}
	}
	props, ok := s["properties"].(map[string]any)
	if _, data := s["additionalProperties"]; !ok && (!object || data) {
		return m.scalar(s)
	}
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if _, there := out[name]; there && !slices.Contains(required, any(name)) {
			continue // a variant has said what it is
		}
		if slices.Contains(required, any(name)) || m.rand.IntN(2) == 0 {
			prop, _ := props[name].(map[string]any)
			out[name] = m.make(prop, true)
			if _, excluded := s["not"]; excluded && prop["type"] == "string" && len(prop) == 1 && required[0] == name {
				out[name] = pick(m, "_vendor", "later", "__", "Text")
			}
		}
	}
	if whole && !m.strict {
		for range m.rand.IntN(3) {
			out["x-"+strconv.Itoa(m.rand.IntN(9))] = m.anything(2)
		}
	}
	return out
}

func (m *maker) scalar(s map[string]any) any {
	kinds := []string{}
	switch t := s["type"].(type) {
	case string:
		kinds = append(kinds, t)
	case []any:
		for _, k := range t {
			kinds = append(kinds, k.(string))
		}
	}
	if len(kinds) == 0 {
		return m.anything(2)
	}
	switch pick(m, kinds...) {
	case "string":
		return pick(m, "x", "later", "_vendor", "a \"quoted\"\n\u2028 <b>é😀", "0123456789")
	case "integer":
		return m.integer(s)
	case "number":
		if _, ok := s["maximum"]; ok {
			return json.Number(pick(m, "0", "1", "0.50", "1e-3", "1.0"))
		}
		return json.Number(pick(m, "0.10", "-1E+2", "12345678901234567890.123456789", "7", "1e400"))
	case "boolean":
		return m.rand.IntN(2) == 0
	case "array":
		least, _ := s["minItems"].(json.Number)
		n, _ := strconv.Atoi(string(least))
		list := []any{}
		for range n + m.rand.IntN(3) {
			list = append(list, m.make(s["items"].(map[string]any), true))
		}
		return list
	case "object":
		values, _ := s["additionalProperties"].(map[string]any)
		out := map[string]any{}
		for range m.rand.IntN(3) {
			name := pick(m, "PATH", "Path", "", "a/b~c", "type")
			if values == nil {
				out[name] = m.anything(2)
			} else {
				out[name] = m.make(values, true)
			}
		}
		return out
	}
	return nil
}

func (m *maker) integer(s map[string]any) any {
	texts := map[string][]string{
		"int32":  {"-2147483648", "0", "7"},
		"int64":  {"-9223372036854775808", "9007199254740993", "1"},
		"uint16": {"1", "65535"},
		"uint32": {"1", "4294967295"},
		"uint64": {"1", "18446744073709551615"},
	}
	return json.Number(pick(m, texts[s["format"].(string)]...))
}

// anything returns a value that is opaque to the protocol.
func (m *maker) anything(depth int) any {
	switch n := m.rand.IntN(8); {
	case n == 0 && depth > 0:
		return map[string]any{"Name": m.anything(depth - 1), "name": m.anything(depth - 1)}
	case n == 1 && depth > 0:
		return []any{m.anything(depth - 1), nil}
	default:
		return pick[any](m, json.Number("123456789012345678901234567890"), json.Number("1.0"), json.Number("-0"), "text", nil, true, []any{}, map[string]any{})
	}
}

// encode writes a value with the members of objects in any order.
func (m *maker) encode(v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		m.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		b := []byte{'{'}
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, m.encode(name)...), ':'), m.encode(v[name])...)
		}
		return append(b, '}')
	case []any:
		b := []byte{'['}
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, m.encode(item)...)
		}
		return append(b, ']')
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cannot write %v: %v", v, err))
	}
	return b
}

// sameJSON reports whether two texts are the same JSON: order of members and
// blanks aside, with numbers compared digit by digit.
func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(exact(t, a), exact(t, b))
}

func exact(t testing.TB, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}
