package hub_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

// message returns an envelope that is valid.
func message() hub.Envelope {
	return hub.Envelope{
		ID: "01920f3c-5a6b-7c8d-9e0f-1a2b3c4d5e6f", Protocol: hub.Protocol, Version: hub.Version,
		From: "ada", To: []hub.AgentID{"bob"}, ThreadID: "01920f3c-5a6b-7c8d-9e0f-1a2b3c4d5e6f",
		Type: hub.TypeStatusUpdate, Priority: hub.PriorityNormal, Status: hub.StatusPending,
		Payload: json.RawMessage(`{"summary":"tests pass","progress_pct":80}`), Policy: hub.DefaultPolicy,
		Context:   &hub.Context{SessionID: "s-1"},
		CreatedAt: hub.At(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)),
	}
}

func TestValidate(t *testing.T) {
	if err := message().Validate(); err != nil {
		t.Fatalf("refused: %v", err)
	}
	set := func(change func(e *hub.Envelope)) hub.Envelope {
		e := message()
		change(&e)
		return e
	}
	payload := func(s string) hub.Envelope {
		return set(func(e *hub.Envelope) { e.Payload = json.RawMessage(s) })
	}
	extra := func(s string) hub.Envelope {
		return set(func(e *hub.Envelope) { e.Extra = json.RawMessage(s) })
	}
	ref := func(x hub.ExternalRef) hub.Envelope {
		return set(func(e *hub.Envelope) { e.Context.ExternalRefs = []hub.ExternalRef{x} })
	}
	artifact := func(a hub.ArtifactRef) hub.Envelope {
		return set(func(e *hub.Envelope) { e.Context.Artifacts = []hub.ArtifactRef{a} })
	}
	negative := int64(-1)
	for _, tt := range []struct {
		name string
		e    hub.Envelope
		code hub.Code // "" if valid
		at   string
	}{
		{"R3-016 a payload of 4096 bytes is accepted", payload(padded(4096)), "", ""},
		{"R3-016 a payload of 4097 bytes is refused", payload(padded(4097)), hub.CodePayloadTooLarge, "payload"},
		{"a payload that is an array is refused", payload(`[]`), hub.CodeInvalid, "payload"},
		{"a payload that is null is refused", payload(`null`), hub.CodeInvalid, "payload"},
		{"a payload that is missing is refused", payload(``), hub.CodeInvalid, "payload"},
		{"R3-015 the zero policy is refused", set(func(e *hub.Envelope) { e.Policy = hub.Policy{} }), hub.CodeInvalid, "policy"},
		{"R3-011 no recipients are refused", set(func(e *hub.Envelope) { e.To = nil }), hub.CodeInvalid, "to"},
		{"R3-012 a star among names is refused", set(func(e *hub.Envelope) { e.To = []hub.AgentID{"bob", "*"} }), hub.CodeInvalid, "to[1]"},
		{"R3-047 an unknown type is refused", set(func(e *hub.Envelope) { e.Type = "status.progress" }), hub.CodeUnknownType, "type"},
		{"R3-033 a missing time of creation is refused", set(func(e *hub.Envelope) { e.CreatedAt = hub.Time{} }), hub.CodeInvalid, "created_at"},
		{"R3-033 a year of five digits is refused", set(func(e *hub.Envelope) { e.UpdatedAt = hub.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) }), hub.CodeInvalid, "updated_at"},
		{"R3-029 a year of three digits is refused", set(func(e *hub.Envelope) { e.ExpiresAt = hub.At(time.Date(999, 1, 1, 0, 0, 0, 0, time.UTC)) }), hub.CodeInvalid, "expires_at"},
		{"a negotiation without sequence is refused", set(func(e *hub.Envelope) { e.Type = hub.TypeTaskOffer }), hub.CodeInvalid, "sequence"},
		{"a negative sequence is refused", set(func(e *hub.Envelope) { e.Sequence = &negative }), hub.CodeInvalid, "sequence"},
		{"a topic that is not UTF-8 is refused", set(func(e *hub.Envelope) { e.Topic = "\xff" }), hub.CodeInvalid, "topic"},
		{"a session that is not UTF-8 is refused", set(func(e *hub.Envelope) { e.Context.SessionID = "\xff" }), hub.CodeInvalid, "context.session_id"},
		{"a reference that is not UTF-8 is refused", ref(hub.ExternalRef{Type: "other", Value: "\xff"}), hub.CodeInvalid, "context.external_refs[0].value"},
		{"a description that is not UTF-8 is refused", ref(hub.ExternalRef{Type: "other", Value: "x", Description: "\xff"}), hub.CodeInvalid, "context.external_refs[0].description"},
		{"R3-032 a reference without value is refused", ref(hub.ExternalRef{Type: "other"}), hub.CodeInvalid, "context.external_refs[0].value"},
		{"R3-048 an artifact of another type is refused", artifact(hub.ArtifactRef{Type: "ticket", Path: "x"}), hub.CodeInvalid, "context.artifacts[0].type"},
		{"R3-048 a version that is not UTF-8 is refused", artifact(hub.ArtifactRef{Type: "pr", Path: "x", Version: "\xff"}), hub.CodeInvalid, "context.artifacts[0].version"},
		{"R3-048 a negative size is refused", artifact(hub.ArtifactRef{Type: "pr", Path: "x", SizeBytes: &negative}), hub.CodeInvalid, "context.artifacts[0].size_bytes"},
		{"R3-049 a relative path is refused", artifact(hub.ArtifactRef{Type: "file", Path: "a/b"}), hub.CodeInvalid, "context.artifacts[0].path"},
		{"R3-049 a teamspace address is refused", artifact(hub.ArtifactRef{Type: "url", Path: "teamspace://a/b"}), hub.CodeInvalid, "context.artifacts[0].path"},
		{"an envelope without context is accepted", set(func(e *hub.Envelope) { e.Context = nil }), "", ""},
		{"R3-003 unknown members are accepted", extra(`{"mood":"calm"}`), "", ""},
		{"R3-122 signed_by among the unknown members is refused", extra(`{"signed_by":"x"}`), hub.CodeInvalid, "signed_by"},
		{"R3-014 work_item among the unknown members is refused", extra(`{"Work_item":"x"}`), hub.CodeInvalid, "Work_item"},
		{"a known member among the unknown is refused", extra(`{"from":"eve"}`), hub.CodeInvalid, "from"},
		{"a case twin of a known member among the unknown is refused", extra(`{"From":"eve"}`), hub.CodeInvalid, "From"},
		{"unknown members that are no object are refused", extra(`[1]`), hub.CodeInvalid, "extra"},
		{"unknown members that are none are refused", extra(`{ }`), hub.CodeInvalid, "extra"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.e.Validate()
			if got := hub.CodeOf(err); got != tt.code {
				t.Errorf("got %q (%v), want %q", got, err, tt.code)
			}
			if err != nil && !strings.HasPrefix(err.Error(), tt.at+": ") {
				t.Errorf("got %q, want an error about %s", err, tt.at)
			}
		})
	}
	t.Run("R3-017 a payload that is too large is answered with the way to send it", func(t *testing.T) {
		checkTooLarge(t, payload(padded(5000)).Validate())
	})
	t.Run("R3-022 every id that the hub makes is valid", func(t *testing.T) {
		ids := hub.NewIDs(time.Now)
		for range 1000 {
			e := message()
			e.ID = ids.Next()
			e.ReplyTo, e.ThreadID = e.ID, string(e.ID)
			if err := e.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// padded returns a payload of n bytes.
func padded(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }

func checkTooLarge(t *testing.T, err error) {
	t.Helper()
	var e *hub.Error
	if !errors.As(err, &e) || e.Code != hub.CodePayloadTooLarge {
		t.Fatalf("got %v, want %s", err, hub.CodePayloadTooLarge)
	}
	for _, want := range []string{"{artifact.put}", "context.artifacts"} {
		if !strings.Contains(e.Hint, want) {
			t.Errorf("got the hint %q, want %q in it", e.Hint, want)
		}
	}
}

func TestSearchText(t *testing.T) {
	for _, tt := range []struct{ name, topic, payload, want string }{
		{"the topic comes first", "release", `{"summary":"tests pass"}`, "release\ntests pass"},
		{"values at any depth are found, names are not", "", `{"a":{"b":["x",{"c":"y"}],"d":1},"e":true,"f":null,"g":"z"}`, "x\ny\nz"},
		{"escapes are read", "", `{"a":"caf\u00e9 \"x\""}`, `café "x"`},
		{"empty strings make no lines", "", `{"a":"","b":"x","c":""}`, "x"},
		{"a topic alone is enough", "t", `{}`, "t"},
		{"nothing gives nothing", "", ``, ""},
		{"what is no JSON ends the search", "t", `{"a":"x",!`, "t\nx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hub.SearchText(tt.topic, json.RawMessage(tt.payload)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("the text is bounded and cut between characters", func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 3} {
			got := hub.SearchText(strings.Repeat("x", n), json.RawMessage(`{"a":"`+strings.Repeat("€", 9000)+`","b":"`+strings.Repeat("y", 9000)+`"}`))
			if len(got) > 8<<10 || len(got) < 8000 || !utf8.ValidString(got) {
				t.Errorf("with a topic of %d got %d bytes", n, len(got))
			}
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	e := message()
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearchText(b *testing.B) {
	e := message()
	b.ReportAllocs()
	for b.Loop() {
		if hub.SearchText("release", e.Payload) == "" {
			b.Fatal("nothing found")
		}
	}
}
