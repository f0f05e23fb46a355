package acpv2_test

import (
	"bytes"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// FuzzValue decodes anything as anything, in both versions: what decodes must
// encode, and must then decode to the same.
func FuzzValue(f *testing.F) {
	all := versions(f)
	var news []func() any
	for _, v := range all {
		for i, name := range v.values() {
			news = append(news, func() any { value, _ := v.newValue(name); return value })
			f.Add(uint16(len(news)-1), newMaker(v, uint64(i)).instance(name))
		}
	}
	f.Add(uint16(0), []byte(`{"sessionUpdate":"state_update","state":"idle","stopReason":"_x","error":1}`))
	f.Fuzz(func(t *testing.T, n uint16, data []byte) {
		newValue := news[int(n)%len(news)]
		value := newValue()
		if acpv1.Unmarshal(data, value) != nil {
			return
		}
		first, err := acpv1.Marshal(value)
		if err != nil {
			t.Fatalf("%T: %q decodes but does not encode: %v", value, data, err)
		}
		again := newValue()
		if err := acpv1.Unmarshal(first, again); err != nil {
			t.Fatalf("%T: %q became %q: %v", value, data, first, err)
		}
		second, err := acpv1.Marshal(again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%T: %q became %q and then %q, %v", value, data, first, second, err)
		}
		valid := acpv1.Check(value, nil)
		if (valid == nil) != (acpv1.Check(again, nil) == nil) {
			t.Fatalf("%T: %q: got %v, then %v", value, data, valid, acpv1.Check(again, nil))
		}
		if m, ok := value.(acpv2.Message); ok && valid == nil {
			if c, err := acpv2.ToV1(m, nil); err == nil && c.Message != nil {
				if _, err := c.Message.MarshalJSON(); err != nil {
					t.Fatalf("%T: %q cannot be sent in version 1: %v", value, data, err)
				}
			}
		}
	})
}

// FuzzUpdate is FuzzValue for the message that is sent most, with a bridge.
func FuzzUpdate(f *testing.F) {
	v := versions(f)[1]
	for seed := range uint64(40) {
		f.Add(newMaker(v, seed).instance("UpdateSessionNotification"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var n acpv2.UpdateSessionNotification
		if n.UnmarshalJSON(data) != nil {
			return
		}
		b := acpv2.NewBridge(&acpv2.V1Options{Lossy: true})
		if err := b.Prompt(n.SessionID); err != nil {
			t.Fatal(err)
		}
		if err := b.Accepted(n.SessionID); err != nil {
			t.Fatal(err)
		}
		step, err := b.Update(&n)
		if err != nil {
			return
		}
		for _, u := range step.Updates {
			if _, err := u.MarshalJSON(); err != nil {
				t.Fatalf("%q cannot be sent in version 1: %v", data, err)
			}
		}
	})
}
