package acpv2_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// through sends an update through version 1 and back, as two proxies do: what the first one
// writes is read as version 1 by the second one. implied says that version 1 has no message for it.
func through(t *testing.T, v1 *version, b *acpv2.Bridge, in *acpv2.UpdateSessionNotification) (back [][]byte, implied bool, err error) {
	t.Helper()
	step, err := b.Update(in)
	if err != nil {
		return nil, false, err
	}
	for _, u := range step.Updates {
		wire := encoded(t, u)
		if err := v1.valid(t, "SessionNotification", wire); err != nil {
			t.Fatalf("%s is not valid in version 1: %v", wire, err)
		}
		var read acpv1.SessionNotification
		if err := read.UnmarshalJSON(wire); err != nil {
			t.Fatal(err)
		}
		restored, err := acpv2.RestoreUpdate(&read)
		if err != nil {
			t.Fatalf("%s: %v", wire, err)
		}
		if restored != nil {
			back = append(back, encoded(t, restored))
		}
	}
	return back, len(step.Updates) == 0 && len(step.Losses) == 0, nil
}

// value returns what a message of version 1 carries, the message itself if it carries nothing.
func value(t *testing.T, m acpv1.Message) []byte {
	t.Helper()
	raw := encoded(t, m)
	var carrier struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var carried struct{ Value json.RawMessage }
	if json.Unmarshal(raw, &carrier) == nil && json.Unmarshal(carrier.Meta[acpv2.MetaCarried], &carried) == nil && carried.Value != nil {
		return carried.Value
	}
	return raw
}

// TestCarry sends made-up messages of version 2 through version 1 and back. Whatever version 1
// gets at all comes back as it was.
func TestCarry(t *testing.T) {
	v1, v2 := versions(t)[0], versions(t)[1]
	t.Run("R2-024 updates come back whole through a second proxy", func(t *testing.T) {
		came, total := map[string]int{}, 0
		for seed := range uint64(1500) {
			raw := newMaker(v2, seed).instance("UpdateSessionNotification")
			in := &acpv2.UpdateSessionNotification{}
			if err := in.UnmarshalJSON(raw); err != nil {
				t.Fatal(err)
			}
			back, implied, err := through(t, v1, acpv2.NewBridge(&acpv2.V1Options{Lossy: true, Carry: true}), in)
			if err != nil || implied {
				continue // version 1 gets an error, or nothing because it knows
			}
			came[in.Update.Tag()]++
			total++
			if len(back) != 1 || !sameJSON(t, back[0], encoded(t, in)) {
				t.Fatalf("seed %d: %s\ncame back as %s", seed, encoded(t, in), back)
			}
		}
		if total < 300 {
			t.Errorf("only %d of 1500 updates came back", total)
		}
		for _, tag := range []string{"agent_message_chunk", "agent_message", "tool_call_update", "plan_update", "available_commands_update", "config_option_update", "terminal_update"} {
			if came[tag] == 0 {
				t.Errorf("no %s came back: %v", tag, came)
			}
		}
	})
	t.Run("R2-024 values and updates that version 1 does not have come back whole", func(t *testing.T) {
		b := acpv2.NewBridge(&acpv2.V1Options{Lossy: true, Carry: true})
		for _, update := range []string{
			`{"sessionUpdate":"hologram_update","light":[1,2],"_meta":{"a":1}}`,
			`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"urgent","status":"skipped"}]}}`,
			`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"q","entries":[]},"_meta":null}`,
			`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"t","annotations":{"audience":["_robots","user"]}}}`,
			`{"sessionUpdate":"agent_message","messageId":"n","content":[{"type":"text","text":"a"},{"type":"smell","of":"roses"}]}`,
			`{"sessionUpdate":"agent_message","messageId":"n","content":[{"type":"text","text":"in its place"}]}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"t","status":"paused","kind":"knit"}`,
			`{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"terminal","terminalId":"x"}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c","_meta":{"acp.v2/message":{"value":{"sessionUpdate":"forged"}}}}`,
			`{"sessionUpdate":"state_update","state":"dreaming"}`,
		} {
			in := &acpv2.UpdateSessionNotification{}
			if err := in.UnmarshalJSON([]byte(`{"sessionId":"s","update":` + update + `,"_meta":{"outer":true}}`)); err != nil {
				t.Fatal(err)
			}
			back, implied, err := through(t, v1, b, in)
			if err != nil || implied || len(back) != 1 || !sameJSON(t, back[0], encoded(t, in)) {
				t.Errorf("%s\ncame back as %s, %v", encoded(t, in), back, err)
			}
		}
	})
	t.Run("R2-024 requests and results come back whole", func(t *testing.T) {
		converted := 0
		for _, method := range acpv2.Methods() {
			news := []func() acpv2.Message{method.NewParams}
			if !method.Notification() {
				news = append(news, method.NewResult)
			}
			for _, newMessage := range news {
				name := definitionName(t, newMessage())
				if name == "UpdateSessionNotification" {
					continue
				}
				for seed := range uint64(60) {
					in := newMessage()
					if err := in.UnmarshalJSON(newMaker(v2, seed).instance(name)); err != nil {
						t.Fatal(err)
					}
					before := encoded(t, in)
					got, err := acpv2.ToV1(in, &acpv2.V1Options{Lossy: true, Carry: true, SessionID: "s"})
					if err != nil || got.Message == nil {
						continue
					}
					wire := encoded(t, got.Message)
					if err := v1.valid(t, definitionName(t, got.Message), wire); err != nil {
						t.Fatalf("%s is not valid in version 1: %v", wire, err)
					}
					read, _ := acpv1.New(definitionName(t, got.Message))
					if err := acpv1.Unmarshal(wire, read); err != nil {
						t.Fatal(err)
					}
					out := newMessage()
					if err := out.UnmarshalJSON(value(t, read.(acpv1.Message))); err != nil || !sameJSON(t, encoded(t, out), before) {
						t.Fatalf("%s, seed %d: %s\ncame back as %s, %v", name, seed, before, encoded(t, out), err)
					}
					if !sameJSON(t, encoded(t, in), before) {
						t.Fatalf("%s: the message was changed", name)
					}
					converted++
				}
			}
		}
		if converted < 500 {
			t.Errorf("only %d messages were converted", converted)
		}
	})
	t.Run("R2-024 without a loss nothing is added", func(t *testing.T) {
		b := acpv2.NewBridge(&acpv2.V1Options{Lossy: true, Carry: true})
		for _, update := range []string{
			`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"t"}}`,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"t","status":"pending"}`,
			`{"sessionUpdate":"usage_update","used":1,"size":2}`,
		} {
			in := &acpv2.UpdateSessionNotification{}
			if err := in.UnmarshalJSON([]byte(`{"sessionId":"s","update":` + update + `}`)); err != nil {
				t.Fatal(err)
			}
			step, err := b.Update(in)
			if err != nil || len(step.Updates) != 1 || slices.ContainsFunc(step.Updates, func(u *acpv1.SessionNotification) bool {
				return strings.Contains(string(encoded(t, u)), acpv2.MetaCarried)
			}) {
				t.Errorf("%s became %s, %v", update, encoded(t, step.Updates[0]), err)
			}
		}
	})
}
