package acpv2_test

import (
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
					if err := value.UnmarshalJSON(raw); err != nil {
						t.Errorf("%s: %s: %v", name, raw, err)
						break
					}
					got, err := value.MarshalJSON()
					if err != nil {
						t.Errorf("%s: %s: %v", name, raw, err)
						break
					}
					if !sameJSON(t, got, raw) {
						t.Errorf("%s: got %s, want %s", name, got, raw)
						break
					}
					if err := value.Validate(); err != nil {
						t.Errorf("%s: %s: %v", name, raw, err)
						break
					}
				}
			}
		})
	}
}
