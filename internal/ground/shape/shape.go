// Package shape checks JSON against the published schemas, and says in
// a sentence why it does not fit. The schemas are those of hub/schema; the verdict is that
// of any validator on the same files.
package shape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// compiled holds the published schemas by name, compiled at first use. That one
// of them does not compile is a mistake in this program.
var compiled = sync.OnceValue(func() map[string]*jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	all := map[string]*jsonschema.Schema{}
	for _, name := range schema.Names() {
		text, err := schema.Text(name)
		if err != nil {
			panic(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			panic(fmt.Sprintf("shape: schema %s: %v", name, err))
		}
		url := "urn:parley:schema:" + strings.ReplaceAll(name, "/", ":") + ":1.0.0"
		if err := c.AddResource(url, doc); err != nil {
			panic(fmt.Sprintf("shape: schema %s: %v", name, err))
		}
		all[name] = c.MustCompile(url)
	}
	return all
})

// CheckPayload reports CodeInvalid unless the payload fits the schema of type
// t carry; a type without a schema takes any object. It takes for granted that
// the payload is strict JSON and within hub.MaxPayload, as hub.CompactPayload
// makes it.
func CheckPayload(t hub.MessageType, payload json.RawMessage) error {
	return check("payload", "payload/"+string(t), payload)
}

// CheckPackage reports CodeInvalid unless the JSON is a complete handoff
// package. It takes for granted that it is strict JSON of bounded size.
func CheckPackage(raw json.RawMessage) error {
	return check("package", "handoff-package", raw)
}

// Check reports CodeInvalid unless the JSON is a document of the published schema with that
// name. An envelope is checked as the hub checks those that it gets.
func Check(name string, raw []byte) error {
	if name == "envelope" {
		_, err := DecodeEnvelope(raw)
		return err
	}
	var open struct{}
	if _, err := strictjson.DecodeOpen(raw, &open); err != nil {
		return hub.Errorf(hub.CodeInvalid, "shape.Check", "%s: %v", name, err)
	}
	return check(name, name, bytes.TrimSpace(raw))
}

// check compares raw with a published schema. Errors call raw by the name what.
func check(what, name string, raw json.RawMessage) error {
	const op = "shape.check"
	if len(raw) == 0 || raw[0] != '{' {
		return hub.Errorf(hub.CodeInvalid, op, "%s: must be an object", what)
	}
	s := compiled()[name]
	if s == nil {
		return nil
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "%s: is not JSON: %v", what, err)
	}
	err := s.Validate(tame(v))
	if err == nil {
		return nil
	}
	var broken *jsonschema.ValidationError
	if !errors.As(err, &broken) {
		return hub.Errorf(hub.CodeInvalid, op, "%s: %v", what, err)
	}
	path, rule := firstFault(broken)
	return hub.Errorf(hub.CodeInvalid, op, "%s: %s", strings.TrimPrefix(what+path, "."), rule).
		WithHint("the rules: {schema}%s", name)
}

// tame replaces the numbers in v that have an exponent by the nearest float64.
// The validator computes with exact fractions, in which 1e999999 is a number
// of a million digits, and it gives up on greater ones by a panic.
func tame(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			switch inner.(type) {
			case json.Number, map[string]any, []any:
				v[name] = tame(inner)
			}
		}
	case []any:
		for i, inner := range v {
			v[i] = tame(inner)
		}
	case json.Number:
		if strings.ContainsAny(string(v), "eE") {
			f, _ := v.Float64() // infinite if it is out of range
			return min(max(f, -math.MaxFloat64), math.MaxFloat64)
		}
	}
	return v
}

// firstFault returns where a document breaks its schema and how, always the
// same of several.
func firstFault(e *jsonschema.ValidationError) (path, rule string) {
	for i, f := range leaves(nil, e) {
		p, r := pathOf(f.InstanceLocation), ruleText(f)
		isBefore := p < path || (p == path && r < rule)
		if i == 0 || isBefore {
			path, rule = p, r
		}
	}
	return path, rule
}

// leaves appends the errors in e that say something by themselves.
func leaves(to []*jsonschema.ValidationError, e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, c := range e.Causes {
			to = leaves(to, c)
		}
		return to
	}
	return append(to, e)
}

func pathOf(location []string) string {
	var b strings.Builder
	for _, name := range location {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			b.WriteString("[" + name + "]")
		} else {
			b.WriteString("." + name)
		}
	}
	return b.String()
}

// patternRules has the patterns of the schemas' definitions in words.
var patternRules = map[string]string{
	"uuid7":       "must be a lower-case UUIDv7",
	"text":        "must not be blank",
	"label":       "must not be blank",
	"sha256":      "must be 64 lower-case hexadecimal digits",
	"packageHash": "must be a SHA-256 in lower-case hexadecimal",
	"time":        "must be a time in UTC, such as 2026-01-02T15:04:05Z",
	"span":        "must be a duration, such as PT2H or P3D",
	"name":        "must be a valid agent or team name",
}

// ruleText says in a few words which rule was broken.
func ruleText(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Not:
		return "is not allowed"
	case *kind.Required:
		missing := slices.Sorted(slices.Values(k.Missing))
		if len(missing) == 1 {
			return missing[0] + " is required"
		}
		return strings.Join(missing, ", ") + " are required"

	case *kind.Type:
		return fmt.Sprintf("must be of type %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		var want []string
		for _, v := range k.Want {
			want = append(want, fmt.Sprint(v))
		}
		return fmt.Sprintf("%s is not one of %s", quote(k.Got), strings.Join(want, ", "))
	case *kind.Pattern:
		_, name, _ := strings.Cut(e.SchemaURL, "/$defs/")
		if rule := patternRules[name]; rule != "" {
			return rule
		}
		return fmt.Sprintf("%s does not match %s", quote(k.Got), k.Want)

	case *kind.MinLength:
		return fmt.Sprintf("must have %d or more characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, at most %d are allowed", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have %d or more entries", k.Want)
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()

	case *kind.AnyOf:
		// Each alternative is described by its first fault.
		var ways []string
		for _, c := range e.Causes {
			p, r := firstFault(c)
			if rest := strings.TrimPrefix(p, pathOf(e.InstanceLocation)); rest != "" {
				r = strings.TrimPrefix(rest, ".") + " " + r
			}
			ways = append(ways, r)
		}
		return strings.Join(ways, ", or ")
	}

	return "breaks the rule " + strings.Join(e.ErrorKind.KeywordPath(), "/")
}

// quote shows a value in a message.
func quote(v any) string {
	if s, ok := v.(string); ok {
		return shorten.Quote(s)
	}
	return fmt.Sprintf("a value of type %T", v)
}
