package acpv2_test

import (
	"encoding/json"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"maps"
	"slices"
	"testing"
)

// TestValidity breaks instances in one place and compares what the Go types and
// the schema say of the result.
func TestValidity(t *testing.T) {
	for _, v := range versions(t) {
		agreed := 0
		for _, name := range v.values() {
			if _, ok := v.defs[name]; !ok {
				continue
			}
			for seed := range uint64(60) {
				m := newMaker(v, seed)
				m.strict = true
				whole := m.make(v.defs[name], true)
				broken := m.encode(m.breakOne(whole))
				want := v.valid(t, name, broken)
				value, _ := v.newValue(name)
				got := acpv1.Unmarshal(broken, value)
				if got == nil {
					got = acpv1.Check(value, nil)
				}
				if got == nil && want != nil && v.valid(t, name, m.encode(m.withDefaults(exact(t, broken)))) == nil {
					continue // null where the schema has readers take the default
				}
				if got != nil && want == nil && shadowed[name] {
					continue
				}
				if (got == nil) != (want == nil) {
					t.Errorf("version %d, %s: %s\ngot  %v\nwant %v", v.Version, name, broken, got, want)
					break
				}
				agreed++
			}
		}
		t.Logf("version %d: %d verdicts agree", v.Version, agreed)
	}
}

// shadowed are the definitions that hold a union with a variant which needs no
// discriminator. To the schema a malformed variant with a discriminator may pass
// for that one; to us it is malformed.
var shadowed = map[string]bool{
	"AuthMethod": true, "InitializeResponse": true,
	"McpServer": true, "NewSessionRequest": true, "LoadSessionRequest": true, "ResumeSessionRequest": true, "ForkSessionRequest": true,
	"SetSessionConfigOptionRequest": true,
	"MultiSelectItems":              true, "MultiSelectPropertySchema": true, "ElicitationPropertySchema": true, "ElicitationSchema": true, "CreateElicitationRequest": true,
}

// withDefaults puts an empty array where one is required and null is to be read
// as the default.
func (m *maker) withDefaults(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			if value == nil && slices.Contains([]string{"mcpServers", "headers", "args", "env"}, name) {
				value = []any{}
			}
			out[name] = m.withDefaults(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = m.withDefaults(v[i])
		}
	}
	return v
}

// breakOne changes one member somewhere in a value.
func (m *maker) breakOne(v any) any {
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if len(names) == 0 {
			break
		}
		out := maps.Clone(v)
		name := pick(m, names...)
		switch m.rand.IntN(4) {
		case 0:
			delete(out, name)
		case 1:
			out[name] = pick[any](m, nil, "later", json.Number("5"), true, map[string]any{}, []any{})
		default:
			out[name] = m.breakOne(v[name])
		}
		return out
	case []any:
		if len(v) == 0 {
			break
		}
		out := slices.Clone(v)
		i := m.rand.IntN(len(v))
		out[i] = m.breakOne(v[i])
		return out
	}
	return pick[any](m, nil, "later", json.Number("-1"), json.Number("5"), true, map[string]any{}, []any{})
}
