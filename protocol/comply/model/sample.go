package model

import (
	"slices"
	"strings"
)

// maxDepth is the depth at which a sample ends.
const maxDepth = 8

// typeOf returns the type in a JSON Schema, in lower case; "string" if it has none.
func typeOf(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return strings.ToLower(t) // Gemini writes STRING
	case []any:
		for _, option := range t {
			if name, ok := option.(string); ok && name != "null" {
				return name
			}
		}
	}
	// Of several schemas the first that is not for null decides.
	for _, word := range []string{"anyOf", "oneOf"} {
		options, _ := schema[word].([]any)
		for _, option := range options {
			if option, ok := option.(map[string]any); ok && option["type"] != "null" {
				return typeOf(option)
			}
		}
	}
	switch {
	case schema["properties"] != nil:
		return "object"
	case schema["items"] != nil:
		return "array"
	}
	return "string"
}

// choices returns the values that a schema allows, nil for all.
func choices(schema any) []any {
	object, _ := schema.(map[string]any)
	if c, ok := object["const"]; ok {
		return []any{c}
	}
	values, _ := object["enum"].([]any)
	return values
}

// sample returns a small value that a JSON Schema allows, as far as types, choices
// and required members go.
// Formats, patterns and most bounds are ignored. The value is for arguments that no
// step is about, and for requests in which only the form counts.
func sample(schema any, depth int) any {
	object, _ := schema.(map[string]any)
	if values := choices(object); len(values) > 0 {
		return values[0]
	}
	if object == nil || depth > maxDepth {
		return "scripted"
	}

	switch typeOf(object) {
	case "object":
		out := map[string]any{}
		properties, _ := object["properties"].(map[string]any)
		required, _ := object["required"].([]any)
		// Optional members stay out: the fewer there are, the less can be wrong with them.
		for name := range properties {
			if slices.Contains(required, any(name)) {
				out[name] = sample(properties[name], depth+1)
			}
		}
		return out

	case "array":
		if least, _ := object["minItems"].(float64); least >= 1 {
			return []any{sample(object["items"], depth+1)}
		}
		return []any{}

	case "integer", "number":
		if least, ok := object["minimum"].(float64); ok {
			return least
		}
		return 1
	case "boolean":
		return false
	case "null":
		return nil
	}
	return "scripted"
}
