package compat

import (
	"maps"
	"slices"
	"strings"
)

// The small shape describes an operation, an event or a model in a few members. Bodies and
// parameters are JSON Schemas, or lists of fields such as {"name": "string", "avatar":
// "string or null"}. readShape rewrites both as an OpenAPI document with one operation, or as
// one schema, and the comparers for those formats decide. Text that is no type stays text:
// two different texts are unknown.

// textWord is the keyword that holds text of a shape that is not a type.
const textWord = "x-parley-text"

// restWord is the member of a rewritten shape that has the members without rules.
const restWord = "x-parley-rest"

// modelPointer is the schema of a rewritten event or model.
const modelPointer = "/x-parley-model"

// readShape rewrites a document of the small shape.
func (s *source) readShape() error {
	doc, ok := s.tree.value.(map[string]any)
	if !ok {
		return s.tree.refuse("", "a contract must be an object")
	}
	s.origin = map[string]string{"": ""}
	switch {
	case isEndpoint(doc):
		return s.readEndpoint(doc)
	case isFields(doc):
		s.readModel(doc, "fields")
	default:
		name := ""
		for _, candidate := range []string{"payload", "schema", "properties"} {
			if _, ok := doc[candidate]; ok && name == "" {
				name = candidate
			}
		}
		if name == "" {
			return s.tree.refuse("", "the shape has neither method and path, nor fields, payload, schema or properties")
		}
		s.readModel(doc, name)
	}
	return nil
}

// readModel takes the fields of an event or a model from one member.
func (s *source) readModel(doc map[string]any, member string) {
	rest := maps.Clone(doc)
	delete(rest, member)
	for _, name := range []string{"description", "title"} {
		delete(rest, name)
	}
	w := shapeWriter{s}
	s.base = map[string]any{
		modelPointer[1:]: w.schema(doc[member], modelPointer, "/"+member),
		restWord:         rest,
	}
	s.origin["/"+restWord] = ""
}

// readEndpoint rewrites an operation.
func (s *source) readEndpoint(doc map[string]any) error {
	method := strings.ToLower(doc["method"].(string))
	path := doc["path"].(string)
	if !strings.HasPrefix(path, "/") {
		return s.tree.refuse("/path", "the path %q does not begin with /", path)
	}
	at := join("/paths", path, method)
	w := shapeWriter{s}
	operation := map[string]any{}
	s.origin["/paths"] = "/path"
	s.origin[at] = ""

	// Parameters, in a fixed order.
	parameters := []any{}
	for _, kind := range [][2]string{{"pathParams", "path"}, {"queryParams", "query"}, {"headers", "header"}} {
		fields, ok := doc[kind[0]].(map[string]any)
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			plain, optional := strings.CutSuffix(name, "?")
			pointer := join(at, "parameters", itoa(len(parameters)))
			original := join("/"+kind[0], name)
			s.origin[pointer] = original
			field, isOptional := w.field(fields[name], pointer+"/schema", original)
			parameters = append(parameters, map[string]any{
				"in": kind[1], "name": plain, "schema": field, "required": kind[1] == "path" || !(optional || isOptional),
			})
		}
	}
	operation["parameters"] = parameters

	// Bodies are JSON.
	media := func(member, pointer string) map[string]any {
		pointer = join(pointer, "content", "application/json")
		s.origin[pointer] = "/" + member
		return map[string]any{"application/json": map[string]any{"schema": w.schema(doc[member], pointer+"/schema", "/"+member)}}
	}
	if body, ok := doc["requestBody"]; ok && body != nil {
		operation["requestBody"] = map[string]any{"required": true, "content": media("requestBody", at+"/requestBody")}
		s.origin[at+"/requestBody"] = "/requestBody"
	}
	response := map[string]any{"description": ""}
	if body, ok := doc["responseBody"]; ok && body != nil {
		response["content"] = media("responseBody", at+"/responses/200")
	}
	s.origin[at+"/responses"] = "/responseBody"
	s.origin[at+"/responses/200"] = "/responseBody"
	operation["responses"] = map[string]any{"200": response}

	rest := maps.Clone(doc)
	for _, name := range []string{"method", "path", "pathParams", "queryParams", "headers", "requestBody", "responseBody", "description", "summary"} {
		isFree := slices.Contains([]string{"pathParams", "queryParams", "headers"}, name)
		if _, read := rest[name].(map[string]any); !isFree || read {
			delete(rest, name)
		}
	}
	operation[restWord] = rest
	s.origin[join(at, restWord)] = ""
	s.base = map[string]any{"openapi": "3.1.0", "paths": map[string]any{path: map[string]any{method: operation}}}
	return nil
}

// A shapeWriter rewrites the bodies and fields of one shape.
type shapeWriter struct{ s *source }

// schema returns the schema of a body or field.
func (w shapeWriter) schema(value any, pointer, original string) any {
	out, _ := w.field(value, pointer, original)
	return out
}

// field returns the schema of a field, and whether the field is marked as optional. pointer
// is the place of the schema in the rewritten document, original that of the field.
func (w shapeWriter) field(value any, pointer, original string) (any, bool) {
	w.s.origin[pointer] = original
	switch v := value.(type) {
	case string:
		return typeOf(v)
	case []any:
		if len(v) == 1 {
			items, _ := w.field(v[0], pointer+"/items", original+"/0")
			return map[string]any{"type": "array", "items": items}, false
		}
	case map[string]any:
		optional := false
		plain := maps.Clone(v)
		if required, ok := v["required"].(bool); ok {
			optional = !required
			delete(plain, "required")
		}
		if mark, ok := v["optional"].(bool); ok {
			optional = mark
			delete(plain, "optional")
		}
		if isPlainSchema(plain) {
			return plain, optional
		}
		return w.fields(v, pointer, original), false
	}
	return map[string]any{textWord: value}, false
}

// fields returns the schema of an object that is described as a list of fields. A field is
// required unless its name ends with a question mark or its text says optional.
func (w shapeWriter) fields(v map[string]any, pointer, original string) any {
	properties := map[string]any{}
	required := []any{}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		plain, mark := strings.CutSuffix(name, "?")
		field, optional := w.field(v[name], join(pointer, "properties", plain), join(original, name))
		properties[plain] = field
		if !mark && !optional {
			required = append(required, plain)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// isPlainSchema reports whether an object is a JSON Schema without references: it has
// keywords alone, and the validator takes it.
func isPlainSchema(v map[string]any) bool {
	for name := range v {
		if !slices.Contains(keywords, name) {
			return false
		}
	}
	if len(v) == 0 || isFieldList(v) {
		return false
	}
	plain := true
	patterns := &expressions{}
	eachSchema(v, "", func(_ string, schema map[string]any) {
		pattern, _ := schema["pattern"].(string)
		if _, ok := schema["$ref"]; ok || patterns.get(pattern).re == nil {
			plain = false
		}
	})
	if !plain {
		return false
	}
	_, err := newChecker(v, false, patterns, nil).compile("")
	return err == nil
}

// isFieldList reports whether an object whose names are keywords is a list of fields
// nevertheless: one of its words for readers is a type, as in {"title": "string"}. Examples and
// defaults of a type may have such a value.
func isFieldList(v map[string]any) bool {
	_, isTyped := v["type"]
	for name, value := range v {
		isValue := isTyped && slices.Contains([]string{"default", "example"}, name)
		isWord := slices.Contains(annotations, name) || slices.Contains(watched, name)
		text, isText := value.(string)
		if !isWord || isValue || !isText {
			continue
		}
		schema, _ := typeOf(text)
		if m, _ := schema.(map[string]any); m[textWord] == nil {
			return true
		}
	}
	return false
}

// otherTypes are usual words for types that JSON Schema calls otherwise.
var otherTypes = map[string]string{"int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean", "str": "string", "text": "string", "list": "array", "map": "object"}

// typeOf returns the schema of a text such as "string", "string or null", "integer[]" or
// "string?", and whether it says that the field is optional. Other text is kept as text.
func typeOf(text string) (any, bool) {
	plain := strings.TrimSpace(text)
	optional := false
	for _, mark := range []string{"?", "(optional)", " optional"} {
		if rest, ok := strings.CutSuffix(plain, mark); ok {
			plain = strings.TrimSpace(rest)
			optional = true
		}
	}
	if plain == "any" {
		return map[string]any{}, optional
	}
	var types []any
	for _, word := range strings.Split(strings.ReplaceAll(plain, " or ", "|"), "|") {
		word = strings.TrimSpace(word)
		if item, ok := strings.CutSuffix(word, "[]"); ok && !strings.Contains(plain, "|") && !strings.Contains(plain, " or ") {
			items, _ := typeOf(item)
			return map[string]any{"type": "array", "items": items}, optional
		}
		if other, ok := otherTypes[word]; ok {
			word = other
		}
		if !slices.Contains(typeWords, word) {
			return map[string]any{textWord: text}, false
		}
		if !slices.Contains(types, any(word)) {
			types = append(types, word)
		}
	}
	return map[string]any{"type": types}, optional
}
