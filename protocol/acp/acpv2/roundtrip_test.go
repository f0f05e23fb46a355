package acpv2_test

import (
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	for _, v := range versions(t) {
		t.Run("R2-006 what is read comes out again, version "+string(rune('0'+v.Version)), func(t *testing.T) {
			for _, name := range v.values() {
				if _, ok := v.defs[name]; !ok {
					continue
				}
				for seed := range uint64(30) {
					m := newMaker(v, seed)
					raw := m.instance(name)
					if err := v.valid(t, name, raw); err != nil {
						t.Fatalf("%s: the instance is not valid: %s: %v", name, raw, err)
					}
					value, _ := v.newValue(name)
					if err := acpv1.Unmarshal(raw, value); err != nil {
						t.Errorf("%s: %s: %v", name, raw, err)
						break
					}
					got, err := acpv1.Marshal(value)
					if err != nil {
						t.Errorf("%s: %s: %v", name, raw, err)
						break
					}
					if !sameJSON(t, got, raw) {
						t.Errorf("%s: got %s, want %s", name, got, raw)
						break
					}
					if err := acpv1.Check(value, nil); err != nil {
						t.Errorf("%s: %s: %v", name, raw, err)
						break
					}
				}
			}
		})
	}
}
