package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// nameMaps are members of an OpenAPI document whose own members are named by its author.
var nameMaps = []string{
	"callbacks", "content", "encoding", "examples", "headers", "links", "mapping", "parameters", "pathItems", "paths", "requestBodies",
	"responses", "schemas", "scopes", "securitySchemes", "variables", "webhooks",
}

// dataWords are members that hold values and no description.
var dataWords = []string{"const", "default", "enum", "example", "value"}

// readOpenAPI checks an OpenAPI document and rewrites the schemas of version 3.0 as those of
// 3.1, which are JSON Schemas.
func (s *source) readOpenAPI() error {
	doc, ok := s.tree.value.(map[string]any)
	if !ok {
		return s.tree.refuse("", "an OpenAPI document must be an object")
	}
	version, _ := doc["openapi"].(string)
	old := strings.HasPrefix(version, "3.0.") || version == "3.0"
	if !old && !strings.HasPrefix(version, "3.1.") && version != "3.1" {
		return s.tree.refuse("/openapi", "the version %v is not read; use 3.0 or 3.1", doc["openapi"])
	}
	if dialect, ok := doc["jsonSchemaDialect"].(string); ok && !strings.Contains(dialect, "2020-12") && !strings.Contains(dialect, "/oas/3.1/") {
		s.unsupported = append(s.unsupported, place{"/jsonSchemaDialect", "the dialect " + dialect + " has no rules"})
	}
	if err := s.checkReferences(s.tree.value, "", false); err != nil {
		return err
	}

	// The schemas are found before they are rewritten; the places stay the same.
	roots := apiSchemas(doc)
	s.base = clone(doc)
	for _, root := range roots {
		if err := s.readAPISchema(root, old); err != nil {
			return err
		}
	}
	if err := s.checkSchemas(roots); err != nil {
		return err
	}
	if err := s.compileAll(roots); err != nil {
		return err
	}
	s.requests = s.forDirection(roots, "readOnly")
	s.responses = s.forDirection(roots, "writeOnly")
	return s.checkOpenAPI(doc, old)
}

// readAPISchema checks a schema of an OpenAPI document for what JSON Schema does not know, and
// rewrites one of version 3.0.
func (s *source) readAPISchema(root string, old bool) error {
	raw, _ := lookup(s.base, root)
	if _, isBool := raw.(bool); isBool && old {
		return s.tree.refuse(root, "not valid OpenAPI: a schema that is true or false needs version 3.1")
	}
	var refused error
	eachSchema(raw, root, func(at string, schema map[string]any) {
		if refused == nil {
			refused = s.checkDiscriminator(at, schema)
		}
		if refused == nil && old {
			refused = s.checkOldSchema(at, schema)
		}
		if old {
			modernise(schema)
		}
	})
	return refused
}

// checkReferences refuses references that leave the document or lead nowhere, in every part
// that is no schema. names is true for an object whose members have names of their author.
func (s *source) checkReferences(value any, pointer string, names bool) error {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			if err := s.checkReferences(item, fmt.Sprintf("%s/%d", pointer, i), false); err != nil {
				return err
			}
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !names {
			if err := s.checkReference(ref, pointer); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			isData := !names && (slices.Contains(dataWords, name) || strings.HasPrefix(name, "x-"))
			if isData {
				continue
			}
			isMap := !names && (slices.Contains(nameMaps, name) || slices.Contains(inMap, name))
			if err := s.checkReferences(v[name], join(pointer, name), isMap); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReference checks one reference outside of schemas. A chain of references must end at a
// value of the document.
func (s *source) checkReference(ref, pointer string) error {
	if !strings.HasPrefix(ref, "#") {
		return s.tree.refuse(join(pointer, "$ref"), "the reference %q leads out of the document; references to other files are never fetched", ref)
	}
	at := decodePercent(ref[1:])
	if at != "" && at[0] != '/' {
		return nil // a plain name: checked with the schemas
	}
	seen := map[string]bool{}
	for {
		value, ok := lookup(s.tree.value, at)
		if !ok {
			return s.tree.refuse(join(pointer, "$ref"), "the reference %q leads nowhere", ref)
		}
		members, _ := value.(map[string]any)
		next, isRef := members["$ref"].(string)
		if !isRef || !strings.HasPrefix(next, "#/") {
			return nil
		}
		if seen[at] {
			return s.tree.refuse(join(pointer, "$ref"), "the reference leads back to itself")
		}
		seen[at] = true
		at = decodePercent(next[1:])
	}
}

// apiSchemas returns the pointers of the outermost schemas of an OpenAPI document.
func apiSchemas(doc map[string]any) []string {
	var out []string
	var walk func(value any, pointer string, names bool)
	walk = func(value any, pointer string, names bool) {
		switch v := value.(type) {
		case []any:
			for i, item := range v {
				walk(item, fmt.Sprintf("%s/%d", pointer, i), false)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				at := join(pointer, name)
				isSchema := !names && name == "schema"
				isData := !names && (slices.Contains(dataWords, name) || strings.HasPrefix(name, "x-"))
				switch {
				case pointer == "/components/schemas" || isSchema:
					out = append(out, at)
				case !isData:
					walk(v[name], at, !names && slices.Contains(nameMaps, name))
				}
			}
		}
	}
	walk(doc, "", false)
	return out
}

// modernise rewrites the keywords of one schema of OpenAPI 3.0 as those of 3.1.
func modernise(schema map[string]any) {
	if ref, ok := schema["$ref"]; ok { // its siblings are ignored
		clear(schema)
		schema["$ref"] = ref
		return
	}
	// Without a type, or with a list of values that lacks null, nullable allows nothing, but
	// many programs read it: a change is unknown.
	nullable, _ := schema["nullable"].(bool)
	name, isTyped := schema["type"].(string)
	values, isListed := schema["enum"].([]any)
	if nullable && isTyped {
		schema["type"] = []any{name, "null"}
	}
	isPlain := isTyped && (!isListed || slices.Contains(values, nil))
	if !nullable || isPlain {
		delete(schema, "nullable")
	}
	for _, pair := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		exclusive, isBool := schema[pair[0]].(bool)
		if !isBool {
			continue
		}
		delete(schema, pair[0])
		if bound, ok := schema[pair[1]]; ok && exclusive {
			schema[pair[0]] = bound
			delete(schema, pair[1])
		}
	}
}

// forDirection returns a copy of base whose schemas do not demand the properties that have a
// mark: readOnly for requests, writeOnly for responses.
func (s *source) forDirection(roots []string, mark string) any {
	out := clone(s.base)
	for _, root := range roots {
		raw, _ := lookup(out, root)
		eachSchema(raw, root, func(_ string, schema map[string]any) {
			properties, _ := schema["properties"].(map[string]any)
			required, ok := schema["required"].([]any)
			if !ok || properties == nil {
				return
			}
			left := []any{}
			for _, name := range required {
				text, _ := name.(string)
				if !s.marked(properties[text], mark) {
					left = append(left, name)
				}
			}
			schema["required"] = left
		})
	}
	return out
}

// marked reports whether a schema, or the one that it refers to, has a mark.
func (s *source) marked(raw any, mark string) bool {
	for range 8 {
		schema, _ := raw.(map[string]any)
		if is, _ := schema[mark].(bool); is {
			return true
		}
		ref, ok := schema["$ref"].(string)
		if !ok {
			return false
		}
		at, _ := s.target(ref)
		raw, _ = lookup(s.base, at)
	}
	return false
}

// clone returns a deep copy of a JSON value.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = clone(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = clone(item)
		}
		return out
	}
	return value
}

// equal reports whether two JSON values are the same. Numbers are compared by value.
func equal(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			w, ok := y[name]
			if !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case json.Number:
		y, ok := b.(json.Number)
		return ok && (x == y || rat(x).Cmp(rat(y)) == 0)
	}
	return a == b
}

// rat returns the value of a number. The bounds of tree keep it small.
func rat(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat)
	}
	return r
}
