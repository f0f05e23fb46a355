package compat

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Format is the language in which a document is written.
type Format string

// The formats.
const (
	FormatShape      Format = "shape"       // the small shape of contracts between repositories
	FormatJSONSchema Format = "json-schema" // 2020-12 or draft-07
	FormatOpenAPI    Format = "openapi"     // 3.0 or 3.1, whole or only its paths and components
	FormatCustom     Format = "custom"      // any JSON value; it has no rules
)

// Formats lists the formats in the order of the documentation.
var Formats = []Format{FormatShape, FormatJSONSchema, FormatOpenAPI, FormatCustom}

// Types of contracts that decide how a document is read and in which direction it flows.
const (
	typeEndpoint = "api_endpoint"
	typeEvent    = "event_schema"
	typeModel    = "data_model"
)

// A Document is one version of a contract: its text was read, its format is known, and it
// keeps the rules of that format. The zero Document is an empty custom one. A Document is
// never changed; it may be used by several goroutines.
type Document struct{ s *source }

// A source is the content of a Document.
type source struct {
	tree   *tree
	format Format
	kind   string // type of the contract, "" if it was not given

	// base is the value with its schemas in the form of JSON Schema; for OpenAPI 3.0 and the
	// small shape it differs from the text. requests and responses are base for one
	// direction: without demands for properties that only the other direction has.
	base      any
	requests  any
	responses any
	draft7    bool

	anchors     map[string]string // plain names of schemas, with their pointers
	unsupported []place           // keywords and expressions that make the verdict unknown
	origin      map[string]string // for shapes: pointers into base with those into the text
	patterns    expressions
}

// A place is a pointer into a document with a remark.
type place struct{ pointer, text string }

// ReadOptions say what is known about a text.
type ReadOptions struct {
	Format Format // "" finds the format out
	Type   string // type of the contract: api_endpoint, event_schema, data_model; "" if unknown
}

// Read reads one version of a contract from a text of JSON or YAML. opts may be nil. A text
// that is beyond the bounds or breaks its format is refused with a *[Refusal].
func Read(text []byte, opts *ReadOptions) (Document, error) {
	var o ReadOptions
	if opts != nil {
		o = *opts
	}
	if o.Format != "" && !slices.Contains(Formats, o.Format) {
		return Document{}, &Refusal{Reason: fmt.Sprintf("unknown format %q; the formats are shape, json-schema, openapi and custom", o.Format)}
	}
	t, err := parse(text)
	if err != nil {
		return Document{}, err
	}
	s := &source{tree: t, format: o.Format, kind: o.Type, base: t.value}
	if s.format == "" {
		s.format = detect(t.value, o.Type)
	}

	// Each format has its own check; a custom document has none.
	switch s.format {
	case FormatJSONSchema:
		err = s.readSchema()
	case FormatOpenAPI:
		err = s.readOpenAPI()
	case FormatShape:
		err = s.readShape()
	}
	if err != nil {
		var refused *Refusal
		if errors.As(err, &refused) {
			refused.Format = s.format
		}
		return Document{}, err
	}
	if s.requests == nil {
		s.requests = s.base
		s.responses = s.base
	}
	return Document{s}, nil
}

// Format returns the format of d.
func (d Document) Format() Format {
	if d.s == nil {
		return FormatCustom
	}
	return d.s.format
}

// Value returns the value of the text as encoding/json would decode it, with json.Number for
// numbers. The caller must not change it.
func (d Document) Value() any {
	if d.s == nil {
		return nil
	}
	return d.s.tree.value
}

// Line returns the line of the value at a JSON pointer, 0 if it is not known.
func (d Document) Line(pointer string) int {
	if d.s == nil {
		return 0
	}
	return d.s.tree.line(pointer)
}

// schemaWords are keywords whose presence at the root makes an object a JSON Schema if
// nothing else says what it is.
var schemaWords = []string{"properties", "$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf", "enum", "const", "items", "prefixItems", "required", "additionalProperties", "patternProperties"}

// typeWords are the types of JSON Schema.
var typeWords = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// Names in the usual content of an event or a model.
var (
	eventNames  = []string{"event", "eventName", "event_name", "name", "topic", "channel"}
	payloadName = []string{"payload", "schema", "properties"}
)

// detect returns the format of a value.
func detect(value any, kind string) Format {
	doc, ok := value.(map[string]any)
	if !ok {
		return FormatCustom
	}
	if _, ok := doc["openapi"].(string); ok {
		return FormatOpenAPI
	}
	if name, ok := doc["$schema"].(string); ok {
		if dialectOf(name) == "" {
			return FormatCustom
		}
		return FormatJSONSchema
	}

	return detectByMembers(doc, kind)
}

// detectByMembers returns the format of an object that names none: the members decide, as
// the hub knows the usual content of each type of contract.
func detectByMembers(doc map[string]any, kind string) Format {
	isAnyKind := kind == ""
	schema := isSchema(doc)
	switch kind {
	case typeEvent:
		if !schema && hasAny(doc, eventNames) && hasAny(doc, payloadName) {
			return FormatShape
		}
	case typeModel:
		if !schema && hasAny(doc, []string{"fields", "schema", "properties"}) {
			return FormatShape
		}
	}

	// Without a type, an operation, fields or an event are known by their members.
	switch {
	case isEndpoint(doc) && (isAnyKind || kind == typeEndpoint):
		return FormatShape
	case isAnyKind && !schema && (isFields(doc) || isEvent(doc)):
		return FormatShape
	case schema && slices.Contains([]string{"", typeEvent, typeModel}, kind):
		return FormatJSONSchema
	}
	return FormatCustom
}

// isEndpoint reports whether an object describes one operation in the small shape.
func isEndpoint(doc map[string]any) bool {
	_, method := doc["method"].(string)
	_, path := doc["path"].(string)
	return method && path
}

// isFields reports whether an object describes a model as a list of fields.
func isFields(doc map[string]any) bool {
	_, ok := doc["fields"].(map[string]any)
	return ok
}

// isEvent reports whether an object describes an event by its name and its payload.
func isEvent(doc map[string]any) bool {
	_, payload := doc["payload"].(map[string]any)
	return payload && hasAny(doc, eventNames)
}

// isSchema reports whether an object has keywords of JSON Schema at its root.
func isSchema(doc map[string]any) bool {
	switch t := doc["type"].(type) {
	case string:
		if slices.Contains(typeWords, t) {
			return true
		}
	case []any:
		return true
	}
	words := hasAny(doc, schemaWords)
	return words && !hasAny(doc, []string{"event", "eventName", "event_name", "topic", "channel", "payload", "fields"})
}

// hasAny reports whether an object has a member with one of the names.
func hasAny(doc map[string]any, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := doc[name]
		return ok
	})
}

// dialectOf returns the dialect that a value of $schema names, "" for one that is not read.
func dialectOf(name string) string {
	switch strings.TrimSuffix(name, "#") {
	case "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft/2020-12/schema":
		return "2020-12"
	case "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema":
		return "draft-07"
	}
	return ""
}

// readSchema checks a JSON Schema.
func (s *source) readSchema() error {
	switch v := s.tree.value.(type) {
	case bool:
		return nil
	case map[string]any:
		if name, ok := v["$schema"]; ok {
			text, _ := name.(string)
			switch dialectOf(text) {
			case "draft-07":
				s.draft7 = true
			case "":
				return s.tree.refuse("/$schema", "the dialect %v is not read; use 2020-12 or draft-07", name)
			}
		}
	default:
		return s.tree.refuse("", "a JSON Schema must be an object, true or false")
	}
	if err := s.checkSchemas([]string{""}); err != nil {
		return err
	}
	return s.compileAll([]string{""})
}

// The keywords that hold schemas, by the form of their value. A keyword of lists may also
// hold one schema, as items does.
var (
	inOne  = []string{"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
	inList = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	inMap  = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)

// eachSchema calls f for the schema at a pointer and every schema inside it, in a fixed
// order. References are not followed.
func eachSchema(raw any, pointer string, f func(pointer string, schema map[string]any)) {
	schema, ok := raw.(map[string]any)
	if !ok {
		return
	}
	f(pointer, schema)
	for _, name := range inOne {
		if _, ok := schema[name].(map[string]any); ok {
			eachSchema(schema[name], join(pointer, name), f)
		}
	}
	for _, name := range inList {
		list, _ := schema[name].([]any)
		for i, item := range list {
			eachSchema(item, fmt.Sprintf("%s/%d", join(pointer, name), i), f)
		}
	}
	for _, name := range inMap {
		members, _ := schema[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(members)) {
			eachSchema(members[key], join(pointer, name, key), f)
		}
	}
}

// checkSchemas checks the references and regular expressions of the schemas at the pointers:
// a reference must lead to a value of the same document, and a chain of references must not
// come back to its start without a step into a property or an item.
func (s *source) checkSchemas(roots []string) error {
	var first *Refusal
	fail := func(pointer, format string, args ...any) {
		if first == nil {
			first = s.tree.refuse(s.original(pointer), format, args...)
		}
	}
	s.anchors = map[string]string{}
	for _, root := range roots {
		raw, _ := lookup(s.base, root)
		eachSchema(raw, root, func(pointer string, schema map[string]any) {
			if name, ok := schema["$anchor"].(string); ok {
				s.anchors[name] = pointer
			}
			if id, ok := schema["$id"].(string); ok && s.draft7 && strings.HasPrefix(id, "#") {
				s.anchors[id[1:]] = pointer
			}
		})
	}

	// Every reference needs the anchors, so it is looked at in a second walk.
	for _, root := range roots {
		raw, _ := lookup(s.base, root)
		eachSchema(raw, root, func(pointer string, schema map[string]any) {
			s.checkKeywords(pointer, schema, fail)
		})
	}
	if first != nil {
		return first
	}
	if at := s.referenceLoop(roots); at != "" {
		return s.tree.refuse(s.original(at), "the reference leads back to itself")
	}
	return nil
}

// checkKeywords checks the references of one schema and notes what has no rules.
func (s *source) checkKeywords(pointer string, schema map[string]any, fail func(pointer, format string, args ...any)) {
	if ref, ok := schema["$ref"].(string); ok {
		if !strings.HasPrefix(ref, "#") {
			fail(join(pointer, "$ref"), "the reference %q leads out of the document; references to other files are never fetched", ref)
		} else if _, ok := s.target(ref); !ok {
			fail(join(pointer, "$ref"), "the reference %q leads nowhere", ref)
		}
	}
	for _, name := range []string{"$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"} {
		if _, ok := schema[name]; ok {
			s.unsupported = append(s.unsupported, place{join(pointer, name), "the keyword " + name + " has no rules"})
		}
	}
	if name, ok := schema["$schema"].(string); ok && pointer != "" && !s.hasDialect(name) {
		s.unsupported = append(s.unsupported, place{join(pointer, "$schema"), "a schema of another dialect inside a document has no rules"})
	}
	if id, ok := schema["$id"].(string); ok && pointer != "" && !strings.HasPrefix(id, "#") {
		s.unsupported = append(s.unsupported, place{join(pointer, "$id"), "a schema with an $id inside another schema has no rules"})
	}

	// Expressions of RE2 alone are compared and tried.
	if pattern, ok := schema["pattern"].(string); ok && s.patterns.get(pattern).re == nil {
		s.unsupported = append(s.unsupported, place{join(pointer, "pattern"), unsupportedText(pattern)})
	}
	patterns, _ := schema["patternProperties"].(map[string]any)
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		if s.patterns.get(pattern).re == nil {
			s.unsupported = append(s.unsupported, place{join(pointer, "patternProperties", pattern), unsupportedText(pattern)})
		}
	}
}

// hasDialect reports whether a value of $schema names the dialect of the document.
func (s *source) hasDialect(name string) bool {
	if s.draft7 {
		return dialectOf(name) == "draft-07"
	}
	return dialectOf(name) == "2020-12" || strings.Contains(name, "/oas/3.1/")
}

// referenceLoop returns the pointer of a reference that comes back to its own schema without
// a step into a property or an item, "" if there is none.
func (s *source) referenceLoop(roots []string) string {
	const walking, done = 1, 2
	state := map[string]int{}
	var visit func(pointer string, hops int) string
	visit = func(pointer string, hops int) string {
		switch {
		case state[pointer] == walking || hops > 4*MaxDepth:
			return pointer
		case state[pointer] == done:
			return ""
		}
		state[pointer] = walking
		defer func() { state[pointer] = done }()
		for _, next := range s.inPlace(pointer) {
			if at := visit(next, hops+1); at != "" {
				return at
			}
		}
		return ""
	}
	for _, root := range roots {
		raw, _ := lookup(s.base, root)
		found := ""
		eachSchema(raw, root, func(pointer string, _ map[string]any) {
			if found == "" {
				found = visit(pointer, 0)
			}
		})
		if found != "" {
			return found
		}
	}
	return ""
}

// inPlace returns the pointers of the schemas that the schema at a pointer applies to the
// same value.
func (s *source) inPlace(pointer string) []string {
	raw, _ := lookup(s.base, pointer)
	schema, ok := raw.(map[string]any)
	if !ok {
		return nil
	}
	var out []string
	if ref, ok := schema["$ref"].(string); ok {
		if target, ok := s.target(ref); ok {
			out = append(out, target)
		}
		if s.draft7 {
			return out
		}
	}
	for _, name := range []string{"not", "if", "then", "else"} {
		if _, ok := schema[name]; ok {
			out = append(out, join(pointer, name))
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[name].([]any)
		for i := range list {
			out = append(out, fmt.Sprintf("%s/%d", join(pointer, name), i))
		}
	}
	for _, name := range []string{"dependentSchemas", "dependencies"} {
		members, _ := schema[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(members)) {
			out = append(out, join(pointer, name, key))
		}
	}
	return out
}

// target returns the pointer that a reference into the same document leads to.
func (s *source) target(ref string) (string, bool) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return "", false
	}
	fragment = decodePercent(fragment)
	if fragment != "" && fragment[0] != '/' {
		pointer, ok := s.anchors[fragment]
		return pointer, ok
	}
	_, ok = lookup(s.base, fragment)
	return fragment, ok
}

// original returns the pointer into the text for a pointer into base.
func (s *source) original(pointer string) string {
	if s.origin == nil {
		return pointer
	}
	rest := ""
	for {
		if at, ok := s.origin[pointer]; ok {
			return at + rest
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return rest
		}
		rest = pointer[i:] + rest
		pointer = pointer[:i]
	}
}
