package proof_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/service/proof"
)

// The forms that in-toto describes: Statement v1, and the predicate test-result v0.1.
const (
	inTotoStatement = `{
	"type": "object", "required": ["_type", "subject", "predicateType"],
	"properties": {
		"_type": {"const": "https://in-toto.io/Statement/v1"},
		"subject": {"type": "array", "minItems": 1, "items": {
			"type": "object", "required": ["digest"],
			"properties": {"name": {"type": "string"}, "digest": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]+$"}}},
			"additionalProperties": false
		}},
		"predicateType": {"type": "string", "pattern": "^[a-z][a-z0-9+.-]*:"},
		"predicate": {"type": "object"}
	},
	"additionalProperties": false
}`
	inTotoTestResult = `{
	"type": "object", "required": ["result", "configuration"],
	"properties": {
		"result": {"enum": ["PASSED", "WARNED", "FAILED"]},
		"configuration": {"type": "array", "items": {
			"type": "object",
			"properties": {"name": {"type": "string"}, "uri": {"type": "string"}, "digest": {"type": "object", "additionalProperties": {"type": "string"}}, "annotations": {"type": "object"}},
			"additionalProperties": false
		}},
		"url": {"type": "string"},
		"passedTests": {"type": "array"}, "warnedTests": {"type": "array"}, "failedTests": {"type": "array"}
	},
	"additionalProperties": false
}`
)

// conforms requires that a document has the form of a schema.
func conforms(t *testing.T, name, schema string, document []byte) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:test", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestSchemas holds that files have the published form, and their statements that of in-toto.
func TestSchemas(t *testing.T) {
	w := newWorld(t)
	published := func(name string) string {
		text, err := schema.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	made, err := w.log.Prove(t.Context(), operator, proof.Request{ID: "l1", WithText: true})
	if err != nil {
		t.Fatal(err)
	}
	conforms(t, "the file", published("proof-file"), bytesOf(t, made.File))

	seen := map[string]bool{}
	for _, e := range append(made.File.Statements, made.File.Manifest) {
		payload := payloadOf(t, e)
		conforms(t, "a statement", inTotoStatement, payload)
		var s struct {
			PredicateType string          `json:"predicateType"`
			Predicate     json.RawMessage `json:"predicate"`
		}
		if err := json.Unmarshal(payload, &s); err != nil {
			t.Fatal(err)
		}
		seen[s.PredicateType] = true
		form := inTotoTestResult
		if noun, own := strings.CutPrefix(s.PredicateType, "urn:parley:attestation:"); own {
			form = published("attestation/" + strings.TrimSuffix(noun, ":v1"))
		}
		conforms(t, s.PredicateType, form, s.Predicate)
	}
	if len(seen) != 5 {
		t.Errorf("types of statements: %v", seen)
	}
}
