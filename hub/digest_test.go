package hub_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// fill sets every member of a struct to something that is not its zero value.
func fill(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[hub.Time]():
		v.Set(reflect.ValueOf(hub.At(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// change gives a filled value another one.
func change(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[hub.Time]():
		v.Set(reflect.ValueOf(v.Interface().(hub.Time).Add(time.Millisecond)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a": 1}`)) // the bytes count
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(false)
	case reflect.Int, reflect.Int64:
		v.SetInt(8)
	default:
		v.SetZero()
	}
}

// leaves calls fn with every member of v, also those of its structs.
func leaves(v reflect.Value, path string, fn func(path string, leaf reflect.Value)) {
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
		fn(path, v)
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[hub.Time]() {
		fn(path, v)
		return
	}
	for i := range v.NumField() {
		leaves(v.Field(i), path+"."+v.Type().Field(i).Name, fn)
	}
}

func TestDigest(t *testing.T) {
	for _, tt := range []struct {
		noun   interface{ Digest() string }
		except map[string]bool // members that may change
	}{
		{&hub.Envelope{}, map[string]bool{".Status": true, ".UpdatedAt": true}},
		{&hub.Handoff{}, map[string]bool{
			".Package": true, // its hash is covered
			".Status":  true, ".ApprovedAt": true, ".Ownership": true, ".AcceptedAt": true, ".Escalated": true, ".Ending": true,
			".RejectReason": true, ".ResolvedAt": true, ".Notes": true, ".TeamApprovedBy": true,
		}},
		{&hub.HandoffStep{}, map[string]bool{".N": true}},
		{&hub.Key{}, map[string]bool{".RevokedAt": true}},
	} {
		name := reflect.TypeOf(tt.noun).Elem().Name()
		t.Run(name+" has every member that never changes in its digest", func(t *testing.T) {
			v := reflect.ValueOf(tt.noun).Elem()
			fill(v)
			before := tt.noun.Digest()
			if len(before) != 64 || tt.noun.Digest() != before {
				t.Fatalf("digest: got %q and %q, want the same 64 digits twice", before, tt.noun.Digest())
			}
			leaves(v, "", func(path string, leaf reflect.Value) {
				if leaf.Kind() == reflect.Pointer && leaf.Type().Elem().Kind() == reflect.Struct {
					return // its members are looked at
				}
				was := reflect.New(leaf.Type()).Elem()
				was.Set(leaf)
				change(leaf)
				if got, want := tt.noun.Digest() != before, !tt.except[path]; got != want {
					t.Errorf("%s: changed the digest: got %v, want %v", path, got, want)
				}
				leaf.Set(was)
			})
			if got := tt.noun.Digest(); got != before {
				t.Errorf("digest of the same: got %s, want %s", got, before)
			}
		})
	}
	t.Run("what lies in one member cannot be moved to the next", func(t *testing.T) {
		a, b := hub.Key{Label: "ab", Hash: "c"}, hub.Key{Label: "a", Hash: "bc"}
		if a.Digest() == b.Digest() {
			t.Error("two keys have one digest")
		}
	})
	t.Run("recipients are counted", func(t *testing.T) {
		a, b := hub.Envelope{To: []hub.AgentID{"x"}, Team: "y"}, hub.Envelope{To: []hub.AgentID{"x", "y"}}
		if a.Digest() == b.Digest() {
			t.Error("two envelopes have one digest")
		}
	})
	t.Run("an envelope read back from JSON has the digest it was sent with", func(t *testing.T) {
		size := int64(3)
		e := hub.Envelope{
			ID: hub.NewIDs(time.Now).Next(), Protocol: hub.Protocol, Version: hub.Version, From: "ada", To: []hub.AgentID{"bob"},
			ThreadID: "t", Type: hub.TypeStatusUpdate, Priority: hub.PriorityHigh, Payload: json.RawMessage(`{"summary":"<&>"}`),
			Policy: hub.DefaultPolicy, Context: &hub.Context{Artifacts: []hub.ArtifactRef{{Type: "url", Path: "https://a/b?c=<d>", SizeBytes: &size}}},
		}
		raw, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back hub.Envelope
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if got, want := back.Digest(), e.Digest(); got != want {
			t.Errorf("digest: got %s, want %s", got, want)
		}
	})
}
