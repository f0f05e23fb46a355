package shape

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
)

// A payloadCase is a line of a file in testdata/payload, which is named after
// the type.
type payloadCase struct {
	Name    string          `json:"name"`
	Verdict string          `json:"verdict"`
	At      string          `json:"at"` // where the error must point
	Payload json.RawMessage `json:"payload"`
}

func readPayloadCases(t *testing.T, kind hub.MessageType) []payloadCase {
	t.Helper()
	file := filepath.Join("testdata", "payload", string(kind)+".jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []payloadCase
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var c payloadCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v: %s", file, err, lines.Text())
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return cases
}

func TestPayloads(t *testing.T) {
	for i, kind := range hub.MessageTypes {
		// The requirements count the first types in their order, from 34; the others
		// have one number.
		row := 46
		if kind.Feature() == "" {
			row = 34 + i
		}
		id := fmt.Sprintf("R3-%03d ", row)
		if kind.Family() == hub.FamilyEvent {
			id = "" // types of this hub, not of the protocol's documents
		}
		t.Run(fmt.Sprintf("%sthe payload of %s is checked", id, kind), func(t *testing.T) {
			good, bad := 0, 0
			for _, c := range readPayloadCases(t, kind) {
				t.Run(c.Name, func(t *testing.T) {
					err := CheckPayload(kind, c.Payload)
					if c.Verdict == "valid" {
						good++
						if err != nil {
							t.Errorf("refused %s: %v", c.Payload, err)
						}
						return
					}
					bad++
					if err == nil {
						t.Fatalf("accepted %s", c.Payload)
					}
					if got := hub.CodeOf(err); got != hub.CodeInvalid {
						t.Errorf("got %s, want %s", got, hub.CodeInvalid)
					}
					text := err.Error()
					if !strings.HasPrefix(text, c.At+": ") || len(text) > 250 || strings.Contains(text, "\n") {
						t.Errorf("got %q, want one short sentence about %s", text, c.At)
					}
				})
			}
			if good < 2 || bad < 2 {
				t.Errorf("got %d good and %d bad payloads, want 2 or more of each", good, bad)
			}
		})
	}
}

func TestPayloadSchemas(t *testing.T) {
	for _, kind := range hub.MessageTypes {
		if compiled()["payload/"+string(kind)] == nil {
			t.Errorf("%s has no schema", kind)
		}
	}
	n := 0
	for _, name := range schema.Names() {
		if strings.HasPrefix(name, "payload/") {
			n++
		}
	}
	if got := len(compiled()); got != len(schema.Names()) || n != 26 {
		t.Errorf("got %d compiled of %d published schemas, 26 of them for payloads (%d)", got, len(schema.Names()), n)
	}
	files, err := filepath.Glob("testdata/payload/*")
	if err != nil || len(files) != n {
		t.Errorf("got %d files of cases (%v), want one for each of %d schemas", len(files), err, n)
	}
}

func TestCheckPayload(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kind    hub.MessageType
		payload string
		want    string // the text; "" if it is accepted
	}{
		{"what is missing is named", hub.TypeKnowledgePush, `{"topic":"x"}`, "payload: confidence, summary are required"},
		{"one missing member is named", hub.TypeStatusUpdate, `{}`, "payload: summary is required"},
		{"the words that would do are named", hub.TypeKnowledgePush, `{"topic":"x","summary":"x","confidence":"sure"}`, `payload.confidence: "sure" is not one of low, medium, high`},
		{"both ways to be blocked are named", hub.TypeStatusBlocked, `{"summary":"x"}`, "payload: reason is required, or blockers is required"},
		{"both ways to be blocked are named beside an empty list", hub.TypeStatusBlocked, `{"summary":"x","blockers":[]}`, "payload: reason is required, or blockers must have 1 or more entries"},
		{"a pattern is told in words", hub.TypeHandoffAccept, `{"handoff_id":"x"}`, "payload.handoff_id: must be a lower-case UUIDv7"},
		{"a limit is told", hub.TypeStatusUpdate, `{"summary":"x","progress_pct":101}`, "payload.progress_pct: must be at most 100"},
		{"a length is told", hub.TypeStatusUpdate, `{"summary":"` + strings.Repeat("x", 300) + `"}`, "payload.summary: has 300 characters, at most 280 are allowed"},
		{"of several faults always the same is told", hub.TypeStatusUpdate, `{"summary":1,"detail":1,"blockers":1,"progress_pct":"x"}`, "payload.blockers: must be of type array, not number"},
		{"R3-164 a position without reasoning is refused", hub.TypePositionState, `{"topic":"t","position":"p","confidence":"low","open_to_revision":true}`, "payload: reasoning is required"},
		{"a span is told in words", hub.TypeTaskOffer, `{"title":"t","description":"d","estimated_effort":"2h"}`, "payload.estimated_effort: must be a duration, such as PT2H or P3D"},
		{"a type of a feature takes no array", hub.TypeTeamJoin, `[]`, "payload: must be an object"},
		{"a type of a feature takes no null", hub.TypeTeamLeave, `null`, "payload: must be an object"},
		{"nothing is refused", hub.TypeTeamLeave, ``, "payload: must be an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 {
				got := ""
				if err := CheckPayload(tt.kind, json.RawMessage(tt.payload)); err != nil {
					got = err.Error()
				}
				if got != tt.want {
					t.Fatalf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
	t.Run("what is no JSON is refused", func(t *testing.T) {
		if err := CheckPayload(hub.TypeStatusUpdate, json.RawMessage(`{"summary":`)); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}

func BenchmarkCheckPayload(b *testing.B) {
	for name, payload := range map[string]json.RawMessage{
		"small":    json.RawMessage(`{"summary":"tests pass"}`),
		"progress": json.RawMessage(`{"summary":"tests pass","progress_pct":80,"blockers":["review"]}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := CheckPayload(hub.TypeStatusUpdate, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
