package compat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
)

// doubling returns a schema whose definitions name each other twice, levels deep.
func doubling(levels int, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/l0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#/$defs/l%d"}}},{"type":"object","properties":{"b":{"$ref":"#/$defs/l%d"}}}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":{"type":"%s"}}}`, levels, leaf)
	return b.String()
}

// doublingBy is doubling for one value, by a keyword of alternatives.
func doublingBy(word string, levels int, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{"%s":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, word, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":{"type":"%s"}}}`, levels, leaf)
	return b.String()
}

// doublingMembers is doubling for two properties of each object.
func doublingMembers(levels int, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/l%d"},"b":{"$ref":"#/$defs/l%d"}},"required":["a","b"]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":{"type":"%s"}}}`, levels, leaf)
	return b.String()
}

// constants returns a schema with n constants as alternatives, without one of them.
func constants(n int, skip int) string {
	var parts []string
	for i := range n {
		if i != skip {
			parts = append(parts, fmt.Sprintf(`{"const":"value%d"}`, i))
		}
	}
	return `{"type":"object","properties":{"kind":{"anyOf":[` + strings.Join(parts, ",") + `]}}}`
}

// enum returns a schema with n listed values, without one of them.
func enum(n int, skip int) string {
	var parts []string
	for i := range n {
		if i != skip {
			parts = append(parts, fmt.Sprintf(`"value%d"`, i))
		}
	}
	return `{"enum":[` + strings.Join(parts, ",") + `]}`
}

// members returns a schema with n properties.
func members(n int, prefix string) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"%s%d":{"type":"string"}`, prefix, i))
	}
	return `{"type":"object","properties":{` + strings.Join(parts, ",") + `}}`
}

// kinds returns a union of n kinds told apart by a constant, without one of them.
func kinds(n, skip int) string {
	var parts []string
	for i := range n {
		if i != skip {
			parts = append(parts, fmt.Sprintf(`{"type":"object","properties":{"kind":{"const":"k%d"},"v%d":{"type":"string"}},"required":["kind","v%d"]}`, i, i, i))
		}
	}
	return `{"oneOf":[` + strings.Join(parts, ",") + `]}`
}

// TestStepsAreBounded compares documents that were made to take long. Each costs at most the
// steps of a comparison, however it is answered; a comparison that is given up says so.
func TestStepsAreBounded(t *testing.T) {
	const most = compat.MaxSteps + compat.MaxExampleSteps
	for _, c := range []struct {
		name     string
		old, new string
		verdict  compat.Word
		rule     string
		steps    int // at most
	}{
		{"definitions that name each other twice, in alternatives of objects", doubling(18, "string"), doubling(18, "integer"), compat.Unknown, "", most},
		{"definitions that name each other twice, in allOf", doublingBy("allOf", 24, "string"), doublingBy("allOf", 24, "integer"), "", "", most},
		{"definitions that name each other twice, in anyOf", doublingBy("anyOf", 24, "string"), doublingBy("anyOf", 24, "integer"), "", "", most},
		{"definitions that name each other twice, in oneOf", doublingBy("oneOf", 24, "string"), doublingBy("oneOf", 24, "integer"), compat.Unknown, "BOTH-comparison-bound", most},
		{"definitions that name each other twice, in properties", doublingMembers(24, "string"), doublingMembers(24, "integer"), compat.Breaking, "REQ-type-narrowed", most},
		{"400 constants", constants(400, -1), constants(400, 7), compat.Breaking, "REQ-enum-value-removed", 100_000},
		{"1,000 constants", constants(1000, -1), constants(1000, 7), compat.Breaking, "REQ-enum-value-removed", 250_000},
		{"3,000 listed values", enum(3000, -1), enum(3000, 7), compat.Breaking, "REQ-enum-value-removed", 200_000},
		{"3,000 renamed properties", members(3000, "a"), members(3000, "b"), "", "", most},
		{"a union of 8 kinds", kinds(8, -1), kinds(8, 7), compat.Breaking, "REQ-alternatives-narrowed", 60_000},
		{"a union of 200 kinds", kinds(200, -1), kinds(200, 150), compat.Breaking, "REQ-alternatives-narrowed", 300_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := compat.Compare(read(t, c.old), read(t, c.new), compat.Options{})
			t.Logf("%d bytes, %d steps: %s", len(c.old), v.Steps, v.Verdict)
			if v.Steps > c.steps {
				t.Errorf("the comparison took %d steps, at most %d are allowed", v.Steps, c.steps)
			}
			isWanted := v.Verdict == c.verdict || (c.verdict == "" && v.Verdict != compat.Compatible)
			if !isWanted {
				t.Errorf("the verdict is %s, want %q\n%.2000s", v.Verdict, c.verdict, findings(v))
			}
			if c.rule != "" && !slices.ContainsFunc(v.Findings, func(f compat.Finding) bool { return f.Rule == c.rule }) {
				t.Errorf("no finding by %s\n%.2000s", c.rule, findings(v))
			}
			mustShow := c.rule == "REQ-enum-value-removed" || c.rule == "REQ-alternatives-narrowed"
			if mustShow && !slices.ContainsFunc(v.Findings, func(f compat.Finding) bool { return f.Example != nil }) {
				t.Errorf("no document shows that it breaks\n%.2000s", findings(v))
			}
		})
	}
}

// TestStop gives a comparison up whose caller went away.
func TestStop(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	v := compat.Compare(read(t, members(50, "a")), read(t, members(50, "b")), compat.Options{Stop: stop})
	if v.Verdict != compat.Unknown || v.Findings[0].Rule != "BOTH-comparison-bound" {
		t.Errorf("got\n%s", findings(v))
	}
}

// TestLargeExpressions checks that an expression with more instructions than the bound is not
// compiled: the document is unknown.
func TestLargeExpressions(t *testing.T) {
	large := func(n int) string {
		return fmt.Sprintf(`{"type":"string","pattern":"%s","maxLength":%d}`, strings.Repeat(".{1000}", 40), n)
	}
	v := compat.Compare(read(t, large(5)), read(t, large(6)), compat.Options{})
	if v.Verdict == compat.Compatible || !slices.ContainsFunc(v.Findings, func(f compat.Finding) bool { return f.Rule == "BOTH-pattern-unsupported" }) {
		t.Errorf("got\n%s", findings(v))
	}
}

// TestPartsOfTangledDocuments looks for a field in definitions that name each other twice.
func TestPartsOfTangledDocuments(t *testing.T) {
	d := read(t, doubling(24, "string"))
	if d.Has("l0.missing.field") {
		t.Error("a field was found that is not there")
	}
	if !d.Has("l0.a.b.a") {
		t.Error("l0.a.b.a was not found")
	}
}

// read reads a JSON Schema.
func read(t testing.TB, text string) compat.Document {
	t.Helper()
	d, err := compat.Read([]byte(text), &compat.ReadOptions{Format: compat.FormatJSONSchema})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
