package compat_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
)

// changedPlaces returns the pointers into the old value at which two values differ, the deepest
// ones that hold the whole difference.
func changedPlaces(old, new any, at string) []string {
	a, isObject := old.(map[string]any)
	b, isSame := new.(map[string]any)
	if isObject && isSame {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(a)) {
			here := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if _, ok := b[name]; !ok {
				out = append(out, here)
				continue
			}
			out = append(out, changedPlaces(a[name], b[name], here)...)
		}
		for name := range b {
			if _, ok := a[name]; !ok && !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
		return out
	}
	c, isList := old.([]any)
	d, isSame := new.([]any)
	if isList && isSame && len(c) == len(d) {
		var out []string
		for i := range c {
			out = append(out, changedPlaces(c[i], d[i], fmt.Sprintf("%s/%d", at, i))...)
		}
		return out
	}
	if reflect.DeepEqual(old, new) {
		return nil
	}
	return []string{at}
}

// missedParts returns the parts around the only difference between two documents whose
// consumers would be told that nothing changed for them.
func missedParts(v compat.Verdict, old, new []byte) []string {
	var a, b any
	json.Unmarshal(old, &a)
	json.Unmarshal(new, &b)
	places := changedPlaces(a, b, "")
	if v.Verdict == compat.Compatible || len(places) != 1 {
		return nil
	}
	var out []string
	for part := places[0]; part != ""; part = part[:strings.LastIndexByte(part, '/')] {
		keyword := part[strings.LastIndexByte(part, '/')+1:]
		isPlain := slices.Contains([]string{"$schema", "openapi"}, keyword) // nobody uses these words alone
		if !isPlain && v.For([]string{part}).Verdict == compat.Compatible {
			out = append(out, part)
		}
	}
	return out
}

// TestPartsOfCorpus checks that a consumer which declared a part with the only difference
// inside it gets no better verdict than unknown.
func TestPartsOfCorpus(t *testing.T) {
	for _, p := range readCorpus(t) {
		old, new := p.documents(t)
		v := compat.Compare(old, new, compat.Options{Direction: p.Direction})
		if missed := missedParts(v, p.Old, p.New); len(missed) > 0 {
			t.Errorf("%s/%s: compatible for a consumer of %v\n%s", p.file, p.Name, missed, findings(v))
		}
	}
}

// TestPartsOfRandomPairs is TestPartsOfCorpus for random schemas with one difference.
func TestPartsOfRandomPairs(t *testing.T) {
	tried := 0
	for seed := range *pairs {
		m := schemaMaker{rand.New(rand.NewPCG(*firstOne+seed, 2))}
		old, ok := m.schema(4).(map[string]any)
		if !ok {
			continue
		}
		old["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		old["$defs"] = map[string]any{"A": m.schema(2)}
		new, ok := m.change(old, 4).(map[string]any)
		if !ok {
			continue
		}
		new["$schema"] = old["$schema"]
		if new["$defs"] == nil {
			new["$defs"] = old["$defs"]
		}
		oldText, _ := json.Marshal(old)
		newText, _ := json.Marshal(new)
		a, err := compat.Read(oldText, nil)
		if err != nil {
			continue
		}
		b, err := compat.Read(newText, nil)
		if err != nil {
			continue
		}
		tried++
		v := compat.Compare(a, b, compat.Options{})
		if missed := missedParts(v, oldText, newText); len(missed) > 0 {
			t.Errorf("seed %d: compatible for a consumer of %v\nold %s\nnew %s\n%s", *firstOne+seed, missed, oldText, newText, findings(v))
		}
	}
	t.Logf("%d pairs", tried)
}

// largeAPI returns a document with many operations over schemas that refer to each other. The
// last schema has a bound.
func largeAPI(operations, schemas, bound int) string {
	components := map[string]any{}
	for i := range schemas {
		properties := map[string]any{"id": map[string]any{"type": "integer"}, "name": map[string]any{"type": "string"}}
		for _, next := range []int{i + 1, i*2 + 1, i*3 + 2} {
			properties[fmt.Sprintf("to%d", next%schemas)] = map[string]any{"$ref": fmt.Sprintf("#/components/schemas/S%d", next%schemas)}
		}
		if i == schemas-1 {
			properties["size"] = map[string]any{"type": "integer", "maximum": bound}
		}
		components[fmt.Sprintf("S%d", i)] = map[string]any{"type": "object", "properties": properties, "required": []any{"id"}}
	}
	paths := map[string]any{}
	for i := range operations {
		schema := map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": fmt.Sprintf("#/components/schemas/S%d", i%schemas)}}}
		paths[fmt.Sprintf("/p%d", i)] = map[string]any{"post": map[string]any{
			"requestBody": map[string]any{"content": schema}, "responses": map[string]any{"200": map[string]any{"description": "", "content": schema}},
		}}
	}
	text, _ := json.Marshal(map[string]any{
		"openapi": "3.0.3", "info": map[string]any{"title": "a", "version": "1"}, "paths": paths, "components": map[string]any{"schemas": components},
	})
	return string(text)
}

// TestLargeAPI checks that a difference in a schema which hundreds of operations reach is found
// for the operations that reach it.
func TestLargeAPI(t *testing.T) {
	old, err := compat.Read([]byte(largeAPI(200, 120, 9)), nil)
	if err != nil {
		t.Fatal(err)
	}
	new, err := compat.Read([]byte(largeAPI(200, 120, 5)), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := compat.Compare(old, new, compat.Options{})
	t.Logf("%d findings", len(v.Findings))
	if v.Verdict != compat.Breaking {
		t.Errorf("got %s, want breaking", v.Verdict)
	}
	for _, part := range []string{"POST /p7", "S119.size", "/components/schemas/S119"} {
		if got := v.For([]string{part}); got.Verdict != compat.Breaking {
			t.Errorf("for %s: got %s, want breaking", part, got.Verdict)
		}
	}
}
