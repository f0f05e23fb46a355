package compat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
)

// TestRefusals checks that a document which breaks its format is refused with its place.
func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 500) + `{}` + strings.Repeat(`}}`, 500)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		name := string(rune('b' + i))
		bomb += fmt.Sprintf("%s: &%s [%s]\n", name, name, strings.TrimSuffix(strings.Repeat("*"+string(rune('a'+i))+",", 10), ","))
	}
	for _, c := range []struct {
		name, text string
		format     compat.Format
		pointer    string
		line       int
		reason     string
	}{
		{"1,000 levels", deep, compat.FormatJSONSchema, "", 1, "nested deeper"},
		{"1,000 levels of lists", strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "", "", 1, "nested deeper"},
		{"1,000 levels of YAML", "a: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "", "", 1, "nested deeper"},
		{"10 MB", `{"a":"` + strings.Repeat("x", 10<<20) + `"}`, "", "", 0, "at most"},
		{"a name twice", "{\n\"type\":\"string\",\n\"type\":\"integer\"}", "", "/type", 3, "twice"},
		{"a name twice in YAML", "type: string\ntype: integer\n", "", "", 0, ""},
		{"aliases that explode", bomb, "", "", 0, "more than"},
		{"a number that explodes", `{"const":1e999999999}`, compat.FormatJSONSchema, "/const", 1, "too large an exponent"},
		{"not JSON", "{\n\"a\":\n", "", "/a", 0, "unexpected end"},
		{"text after the value", "{}{}", "", "", 1, "more text"},
		{"nothing", "  \n", "", "", 0, "empty"},
		{"bytes that are no text", "{\"a\":\"\xff\"}", "", "", 0, "UTF-8"},
		{"a loop of references", `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/B"},"B":{"allOf":[{"$ref":"#/$defs/A"}]}}}`, compat.FormatJSONSchema, "", 1, "back to itself"},
		{"a reference to another file", "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n\"properties\":{\"a\":\n{\"$ref\":\"other.json\"}}}", "", "/properties/a/$ref", 3, "never fetched"},
		{"a reference to the network", `{"properties":{"a":{"$ref":"https://example.com/a.json"}}}`, "", "/properties/a/$ref", 1, "never fetched"},
		{"a reference to nothing", `{"properties":{"a":{"$ref":"#/$defs/A"}}}`, "", "/properties/a/$ref", 1, "leads nowhere"},
		{"a type that does not exist", "{\n\"properties\":{\n\"a\":{\"type\":\"objekt\"}}}", "", "/properties/a/type", 3, "not a valid schema"},
		{"another dialect", `{"$schema":"http://json-schema.org/draft-04/schema#"}`, compat.FormatJSONSchema, "/$schema", 1, "not read"},
		{"OpenAPI with a type that does not exist", "openapi: 3.0.3\ninfo: {title: a, version: '1'}\npaths: {}\ncomponents:\n  schemas:\n    A:\n      type: objekt\n", "", "/components/schemas/A/type", 7, "not a valid schema"},
		{"OpenAPI with a reference to another file", "openapi: 3.0.3\npaths:\n  /a:\n    $ref: other.yaml\n", "", "/paths/~1a/$ref", 4, "never fetched"},
		{"OpenAPI with a loop of references", `{"openapi":"3.0.3","paths":{},"components":{"parameters":{"a":{"$ref":"#/components/parameters/b"},"b":{"$ref":"#/components/parameters/a"}}}}`, "", "/components/parameters/a/$ref", 1, "back to itself"},
		{"OpenAPI without responses", `{"openapi":"3.0.3","paths":{"/a":{"get":{}}}}`, "", "/paths/~1a/get", 1, "not valid OpenAPI"},
		{"OpenAPI with an unknown member", "openapi: 3.0.3\npaths:\n  /a:\n    get:\n      respones: {}\n", "", "/paths/~1a/get/respones", 5, `"respones" is unknown`},
		{"OpenAPI with a member of 3.1", `{"openapi":"3.0.3","webhooks":{}}`, "", "/webhooks", 1, "unknown"},
		{"OpenAPI with a list of types in 3.0", `{"openapi":"3.0.3","components":{"schemas":{"A":{"type":["string","null"]}}}}`, "", "/components/schemas/A/type", 1, "needs version 3.1"},
		{"OpenAPI with a path that is none", `{"openapi":"3.1.0","paths":{"a":{}}}`, "", "/paths/a", 1, "not allowed here"},
		{"OpenAPI with a status that is none", `{"openapi":"3.1.0","paths":{"/a":{"get":{"responses":{"2000":{"description":"a"}}}}}}`, "", "/paths/~1a/get/responses/2000", 1, "not allowed here"},
		{"OpenAPI with a parameter of the path that is not declared", `{"openapi":"3.1.0","paths":{"/a/{id}":{"get":{"responses":{"200":{"description":"a"}}}}}}`, "", "/paths/~1a~1{id}/get", 1, "is not declared"},
		{"OpenAPI with a parameter in an unknown place", `{"openapi":"3.1.0","components":{"parameters":{"p":{"name":"p","in":"body","schema":{}}}}}`, "", "/components/parameters/p/in", 1, `"body" is not one of`},
		{"OpenAPI with an id twice", `{"openapi":"3.1.0","paths":{"/a":{"get":{"operationId":"x"}},"/b":{"get":{"operationId":"x"}}}}`, "", "/paths/~1b/get/operationId", 1, "has the id"},
		{"OpenAPI with two paths for the same requests", `{"openapi":"3.1.0","paths":{"/a/{x}":{},"/a/{y}":{}}}`, "", "/paths/~1a~1{y}", 1, "the same requests"},
		{"OpenAPI with a reference to another kind of object", `{"openapi":"3.1.0","components":{"headers":{"h":{"schema":{}}},"parameters":{"p":{"$ref":"#/components/headers/h"}}}}`, "", "/components/headers/h", 1, `is missing`},
		{"OpenAPI of another version", `{"openapi":"2.0","paths":{}}`, "", "/openapi", 1, "not read"},
		{"a shape without a path", `{"method":"GET","path":"users"}`, compat.FormatShape, "/path", 1, "does not begin with /"},
		{"a format that does not exist", `{}`, "word", "", 0, "unknown format"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := compat.Read([]byte(c.text), &compat.ReadOptions{Format: c.format})
			var refused *compat.Refusal
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("got %q, want a reason with %q", refused.Reason, c.reason)
			}
			if c.pointer != "" && refused.Pointer != c.pointer {
				t.Errorf("got the pointer %q, want %q", refused.Pointer, c.pointer)
			}
			if c.line != 0 && refused.Line != c.line {
				t.Errorf("got line %d, want %d: %v", refused.Line, c.line, refused)
			}
		})
	}
}

// TestHardDocuments checks that documents which could keep a comparison busy for ever get a
// verdict.
func TestHardDocuments(t *testing.T) {
	wide := func(bound int) string { // alternatives inside alternatives
		schema := fmt.Sprintf(`{"type":"integer","maximum":%d}`, bound)
		for i := range 12 {
			schema = fmt.Sprintf(`{"anyOf":[%s,{"type":"object","properties":{"p%d":%s},"required":["p%d"]},{"type":"array","items":{"const":%d}}]}`, schema, i, schema, i, i)
			if len(schema) > 60_000 {
				break
			}
		}
		return schema
	}
	exploding := func(n int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(((((((a{1,30}){1,30}){1,30}){1,30}){1,30})*)*)*%d$"}}}`, n)
	}
	many := func(bound int) string {
		properties := map[string]any{}
		for i := range 2000 {
			properties[fmt.Sprintf("property%d", i)] = map[string]any{"type": "integer", "maximum": bound}
		}
		text, _ := json.Marshal(map[string]any{"type": "object", "properties": properties})
		return string(text)
	}
	for _, c := range []struct{ name, old, new string }{
		{"an expression that explodes", exploding(1), exploding(2)},
		{"an expression with a back reference", `{"type":"string","pattern":"(a+)+\\1$"}`, `{"type":"string","pattern":"(a+)+\\1"}`},
		{"alternatives inside alternatives", wide(5), wide(4)},
		{"2,000 properties", many(5), many(4)},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, err := compat.Read([]byte(c.old), &compat.ReadOptions{Format: compat.FormatJSONSchema})
			if err != nil {
				t.Fatal(err)
			}
			new, err := compat.Read([]byte(c.new), &compat.ReadOptions{Format: compat.FormatJSONSchema})
			if err != nil {
				t.Fatal(err)
			}
			if v := compat.Compare(old, new, compat.Options{Direction: compat.Request}); v.Verdict == compat.Compatible {
				t.Errorf("the verdict is compatible\n%s", findings(v))
			}
		})
	}
}

// TestSameEverywhere checks that a comparison gives the same bytes each time, however the
// documents are written.
func TestSameEverywhere(t *testing.T) {
	for _, p := range readCorpus(t) {
		old, new := p.documents(t)
		first, err := json.Marshal(compat.Compare(old, new, compat.Options{Direction: p.Direction}))
		if err != nil {
			t.Fatal(err)
		}
		var spaced any
		json.Unmarshal(p.New, &spaced)
		text, _ := json.MarshalIndent(spaced, "", "   ")
		again, err := compat.Read(text, &compat.ReadOptions{Type: p.Type})
		if err != nil {
			t.Fatal(err)
		}
		second, _ := json.Marshal(compat.Compare(old, again, compat.Options{Direction: p.Direction}))
		if string(first) != string(second) {
			t.Errorf("%s: two verdicts\n%s\n%s", p.Name, first, second)
		}
	}
}
