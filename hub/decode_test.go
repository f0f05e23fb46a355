package hub_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
)

// An envelopeCase is a line of a file under testdata.
type envelopeCase struct {
	Name     string          `json:"name"` // begins with the requirement it covers, if there is one
	Verdict  string          `json:"verdict"`
	Code     hub.Code        `json:"code"`     // of an invalid one
	At       string          `json:"at"`       // where the error must point; anywhere if empty
	Envelope json.RawMessage `json:"envelope"` // the envelope itself,
	Raw      string          `json:"raw"`      // or its text,
	Hex      string          `json:"hex"`      // or its bytes
}

func (c envelopeCase) valid() bool { return c.Verdict == "valid" }

func (c envelopeCase) bytes(t testing.TB) []byte {
	switch {
	case c.Envelope != nil:
		return c.Envelope
	case c.Hex != "":
		b, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		return b
	}
	return []byte(c.Raw)
}

// readCases returns every case in the files of a directory of testdata.
func readCases(t testing.TB, dir string) []envelopeCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", dir, err)
	}
	var cases []envelopeCase
	names := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var c envelopeCase
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatalf("%s: %v: %s", file, err, lines.Text())
			}
			if c.Verdict != "valid" && c.Verdict != "invalid" || names[c.Name] {
				t.Fatalf("%s: case %q has verdict %q, or its name is taken", file, c.Name, c.Verdict)
			}
			names[c.Name] = true
			cases = append(cases, c)
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return cases
}

// envelopeSchema is the published schema, compiled with formats off.
var envelopeSchema = sync.OnceValue(func() *jsonschema.Schema {
	text, err := schema.Text("envelope")
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:parley:schema:envelope:1.0.0", doc); err != nil {
		panic(err)
	}
	return c.MustCompile("urn:parley:schema:envelope:1.0.0")
})

// accepts reports whether the published schema accepts raw.
func accepts(t testing.TB, raw []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("not JSON: %v: %s", err, raw)
	}
	return envelopeSchema().Validate(v)
}

// checkDecode compares what DecodeEnvelope says about c with what is recorded.
func checkDecode(t *testing.T, c envelopeCase) {
	t.Helper()
	raw := c.bytes(t)
	before := bytes.Clone(raw)
	e, err := hub.DecodeEnvelope(raw)
	if !bytes.Equal(raw, before) {
		t.Error("the input was changed")
	}
	if !c.valid() {
		if err == nil {
			t.Fatalf("accepted %.300s", raw)
		}
		if got := hub.CodeOf(err); got != c.Code {
			t.Errorf("code: got %s, want %s (%v)", got, c.Code, err)
		}
		if c.At != "" && !strings.HasPrefix(err.Error(), c.At+": ") {
			t.Errorf("got %q, want an error about %s", err, c.At)
		}
		if !reflect.DeepEqual(e, hub.Envelope{}) {
			t.Errorf("got an envelope beside the error: %+v", e)
		}
		return
	}
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("what was decoded is not valid: %v", err)
	}
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatalf("what was decoded cannot be encoded: %v", err)
	}
	if err := accepts(t, out); err != nil {
		t.Errorf("the schema refuses what was encoded: %v", err)
	}
	if got, want := value(t, out), value(t, raw); !equal(got, want) {
		t.Errorf("encoded again:\n got %s\nwant %s", out, raw)
	}
	out, err = e.MarshalJSON() // which json.Marshal would only escape further
	if err != nil {
		t.Fatal(err)
	}
	again, err := hub.DecodeEnvelope(out)
	if err != nil {
		t.Fatalf("what was encoded cannot be decoded: %v", err)
	}
	if !reflect.DeepEqual(again, e) {
		t.Errorf("decoded again:\n got %+v\nwant %+v", again, e)
	}
}

// value returns an envelope's JSON value as far as it must survive: times to
// the millisecond, and of policy and context what the protocol defines.
func value(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for _, name := range []string{"created_at", "updated_at", "expires_at"} {
		if s, ok := m[name].(string); ok {
			at, err := hub.ParseTime(s)
			if err != nil {
				t.Fatal(err)
			}
			m[name] = at.String()
		}
	}
	keep := func(v any, names ...string) {
		if m, ok := v.(map[string]any); ok {
			maps.DeleteFunc(m, func(name string, v any) bool {
				list, isList := v.([]any)
				return !slices.Contains(names, name) || v == "" || isList && len(list) == 0
			})
		}
	}
	keep(m["policy"], "visibility", "sensitivity", "human_gate")
	if c, ok := m["context"].(map[string]any); ok {
		keep(c, "session_id", "external_refs", "artifacts")
		for _, list := range []string{"external_refs", "artifacts"} {
			refs, _ := c[list].([]any)
			for _, ref := range refs {
				keep(ref, "type", "value", "path", "description", "version", "sha256", "size_bytes", "required")
			}
		}
	}
	return m
}

// equal compares JSON values, numbers by value.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		if a == b {
			return true
		}
		x, xok := new(big.Rat).SetString(string(a))
		y, yok := new(big.Rat).SetString(string(b))
		if ok && !yok { // an exponent too vast for big.Rat
			return xok && x.Sign() == 0 && strings.HasPrefix(string(b), "0e")
		}
		return ok && xok && yok && x.Cmp(y) == 0
	}
	return a == b
}

func TestEnvelopes(t *testing.T) {
	for _, c := range readCases(t, "envelopes") {
		t.Run(c.Name, func(t *testing.T) { checkDecode(t, c) })
	}
}

// What no schema can say: names that occur twice, bytes, sizes.
func TestStrictEnvelopes(t *testing.T) {
	for _, c := range readCases(t, "strict") {
		t.Run(c.Name, func(t *testing.T) { checkDecode(t, c) })
	}
}

func TestSchemaAndCodeAgree(t *testing.T) {
	cases := readCases(t, "envelopes")
	t.Run("R3-124 the corpus of envelopes is large and has both verdicts", func(t *testing.T) {
		good := 0
		for _, c := range cases {
			if c.valid() {
				good++
			}
		}
		if bad := len(cases) - good; len(cases) < 220 || good < 50 || bad < 50 {
			t.Errorf("got %d good and %d bad envelopes, want 220 or more in all and 50 or more of each", good, bad)
		}
	})
	t.Run("R3-021 the published schema gives the recorded verdict", func(t *testing.T) {
		for _, c := range cases {
			if err := accepts(t, c.Envelope); (err == nil) != c.valid() {
				t.Errorf("%s: got %v, want %s", c.Name, err, c.Verdict)
			}
		}
	})
	t.Run("R3-021 Validate and the schema agree about every envelope that a struct can hold", func(t *testing.T) {
		for _, c := range cases {
			var e hub.Envelope
			if json.Unmarshal(c.Envelope, &e) != nil { // as lenient as it gets
				continue
			}
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			if byCode, bySchema := e.Validate(), accepts(t, raw); (byCode == nil) != (bySchema == nil) {
				t.Errorf("%s: Validate says %v, the schema says %v, about %s", c.Name, byCode, bySchema, raw)
			}
		}
	})
	t.Run("R3-021 what only the decoder can refuse does not hide a fault of the schema", func(t *testing.T) {
		for _, c := range readCases(t, "strict") {
			if c.valid() && !strings.Contains(c.Raw, "e999") { // beyond the validator's own numbers
				if err := accepts(t, c.bytes(t)); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		}
	})
	t.Run("R3-021 the schema lists what the code lists", func(t *testing.T) {
		text, err := schema.Text("envelope")
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		policy := "properties/policy/properties/"
		for path, want := range map[string][]string{
			"properties/type/enum":                   texts(hub.MessageTypes),
			"$defs/priority/enum":                    texts(hub.Priorities),
			"properties/status/enum":                 texts(hub.MessageStatuses),
			policy + "visibility/enum":               texts(hub.Visibilities),
			policy + "sensitivity/enum":              texts(hub.Sensitivities),
			policy + "human_gate/enum":               texts(hub.HumanGates),
			"$defs/externalRef/properties/type/enum": hub.ExternalRefTypes,
			"$defs/artifactRef/properties/type/enum": hub.ArtifactRefTypes,
			"properties/policy/required":             {"visibility", "sensitivity", "human_gate"},
			"$defs/externalRef/required":             {"type", "value"},
			"$defs/artifactRef/required":             {"type", "path"},
		} {
			at := doc
			for name := range strings.SplitSeq(path, "/") {
				at, _ = at.(map[string]any)[name]
			}
			list, _ := at.([]any)
			var got []string
			for _, v := range list {
				got = append(got, v.(string))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", path, got, want)
			}
		}
	})
}

func texts[S ~string](all []S) []string {
	var out []string
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}

func TestDecodeEnvelope(t *testing.T) {
	const head = `{"id":"01920f3c-5a6b-7c8d-9e0f-1a2b3c4d5e6f","protocol":"acp","version":"1.0.0","from":"ada","to":["bob"],` +
		`"type":"status.update","priority":"normal","status":"pending","created_at":"2026-01-02T15:04:05.123987Z"`
	const policy = `,"policy":{"visibility":"private","sensitivity":"low","human_gate":"none"}`
	const payload = `,"payload":{"summary":"x"}`

	t.Run("R3-003 unknown members are kept byte for byte and in order", func(t *testing.T) {
		raw := head + `, "zeta" : [ 1.50, "\u00e9" ],` + payload[1:] + policy + `,"\u0061lpha":{ "b":1e2 },"mid":null}`
		e, err := hub.DecodeEnvelope([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(e.Extra), `{"zeta":[ 1.50, "\u00e9" ],"\u0061lpha":{ "b":1e2 },"mid":null}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		out, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(out), `,"zeta":[ 1.50, "\u00e9" ],"\u0061lpha":{ "b":1e2 },"mid":null}`) {
			t.Errorf("got %s", out)
		}
	})
	t.Run("an envelope without unknown members has no extra", func(t *testing.T) {
		e, err := hub.DecodeEnvelope([]byte(head + payload + policy + "}"))
		if err != nil || e.Extra != nil {
			t.Errorf("got %q, %v", e.Extra, err)
		}
	})
	t.Run("the payload keeps its digits and escapes and loses its blanks", func(t *testing.T) {
		e, err := hub.DecodeEnvelope([]byte(head + `,"payload":{ "n" : 1.0e+2 , "s":"\u003c \/ <", "l":[ 1 , 2 ] }` + policy + "}"))
		if got, want := string(e.Payload), `{"n":1.0e+2,"s":"\u003c \/ <","l":[1,2]}`; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
	t.Run("what is decoded does not change with the input", func(t *testing.T) {
		raw := []byte(head + payload + policy + `,"x":"y"}`)
		e, err := hub.DecodeEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		clear(raw)
		if e.From != "ada" || string(e.Payload) != `{"summary":"x"}` || string(e.Extra) != `{"x":"y"}` {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("R3-033 times are cut to the millisecond", func(t *testing.T) {
		e, err := hub.DecodeEnvelope([]byte(head + payload + policy + "}"))
		if got, want := e.CreatedAt.String(), "2026-01-02T15:04:05.123Z"; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
	t.Run("the text names the member, the value and what would do", func(t *testing.T) {
		_, err := hub.DecodeEnvelope([]byte(head + payload + strings.Replace(policy, "private", "secret", 1) + "}"))
		if want := `policy.visibility: "secret" is not one of private, team, human-audit`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("a long value is cut in the text", func(t *testing.T) {
		_, err := hub.DecodeEnvelope([]byte(head + payload + strings.Replace(policy, "private", strings.Repeat("ü", 9000), 1) + "}"))
		if err == nil || len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R3-017 a payload that is too large is answered with the way to send it", func(t *testing.T) {
		_, err := hub.DecodeEnvelope([]byte(head + `,"payload":{"a":"` + strings.Repeat("x", 5000) + `"}` + policy + "}"))
		checkTooLarge(t, err)
	})
}

func checkTooLarge(t *testing.T, err error) {
	t.Helper()
	var e *hub.Error
	if !errors.As(err, &e) || e.Code != hub.CodePayloadTooLarge {
		t.Fatalf("got %v, want %s", err, hub.CodePayloadTooLarge)
	}
	for _, want := range []string{"parley artifact put", "context.artifacts"} {
		if !strings.Contains(e.Hint, want) {
			t.Errorf("got the hint %q, want %q in it", e.Hint, want)
		}
	}
}

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
		{"R3-016 blanks between the parts of a payload do not count", payload("{" + strings.Repeat(" ", 9000) + padded(4096)[1:]), "", ""},
		{"a payload that is no JSON is refused", payload(`{"a":}`), hub.CodeInvalid, "payload.a"},
		{"a payload that is cut is refused", payload(`{"a":1`), hub.CodeInvalid, "payload"},
		{"a payload followed by something is refused", payload(`{} {}`), hub.CodeInvalid, "payload"},
		{"a payload that is an array is refused", payload(`[]`), hub.CodeInvalid, "payload"},
		{"a payload that is null is refused", payload(`null`), hub.CodeInvalid, "payload"},
		{"a payload that is missing is refused", payload(``), hub.CodeInvalid, "payload"},
		{"a payload with a name twice is refused", payload(`{"a":{"b":1,"b":1}}`), hub.CodeInvalid, "payload.a.b"},
		{"a payload with case twins is accepted", payload(`{"a":1,"A":1}`), "", ""},
		{"a payload that is not UTF-8 is refused", payload("{\"a\":\"\xff\"}"), hub.CodeInvalid, "payload.a"},
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
		{"unknown members with a name twice are refused", extra(`{"a":1,"a":1}`), hub.CodeInvalid, "a"},
		{"unknown members followed by something are refused", extra(`{"a":1}}`), hub.CodeInvalid, "extra"},
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

func TestCompactPayload(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		code           hub.Code
	}{
		{"blanks between parts go", " {\n\t\"a\" : [ 1 , { } ] }\r\n", `{"a":[1,{}]}`, ""},
		{"blanks in strings stay", `{ "a b" : " c \" d " }`, `{"a b":" c \" d "}`, ""},
		{"a backslash before a quote does not end a string", `{"a\\": "\\\" x" }`, `{"a\\":"\\\" x"}`, ""},
		{"numbers keep their digits", `{"a":1.0,"b":1E400,"c":-0,"d":12345678901234567890.10}`, `{"a":1.0,"b":1E400,"c":-0,"d":12345678901234567890.10}`, ""},
		{"escapes stay as they are", `{"a":"\u003cé\u00e9<\/\u2028"}`, `{"a":"\u003cé\u00e9<\/\u2028"}`, ""},
		{"case twins stay", `{"a":1,"A":2}`, `{"a":1,"A":2}`, ""},
		{"an empty object is a payload", `{}`, `{}`, ""},
		{"R3-016 4096 bytes are accepted", padded(4096), padded(4096), ""},
		{"R3-016 4096 bytes are counted without blanks", strings.Repeat(" ", 5000) + padded(4096), padded(4096), ""},
		{"R3-016 4097 bytes are refused", padded(4097), "", hub.CodePayloadTooLarge},
		{"R3-016 characters of several bytes are counted in bytes", `{"a":"` + strings.Repeat("é", 2045) + `"}`, "", hub.CodePayloadTooLarge},
		{"R3-016 2044 characters of two bytes are accepted", `{"a":"` + strings.Repeat("é", 2044) + `"}`, `{"a":"` + strings.Repeat("é", 2044) + `"}`, ""},
		{"a string is refused", `"a"`, "", hub.CodeInvalid},
		{"an array is refused", `[{}]`, "", hub.CodeInvalid},
		{"null is refused", `null`, "", hub.CodeInvalid},
		{"nothing is refused", ``, "", hub.CodeInvalid},
		{"half a payload is refused", `{"a":`, "", hub.CodeInvalid},
		{"a string that does not end is refused", `{"a":"\`, "", hub.CodeInvalid},
		{"two payloads are refused", `{}{}`, "", hub.CodeInvalid},
		{"a name twice is refused", `{"a":1,"a":1}`, "", hub.CodeInvalid},
		{"a name twice is refused however it is written", `{"a":1,"\u0061":1}`, "", hub.CodeInvalid},
		{"a name twice is refused at any depth", `{"x":[[{"a":1,"a":1}]]}`, "", hub.CodeInvalid},
		{"invalid UTF-8 is refused", "{\"a\":\"\xc3\x28\"}", "", hub.CodeInvalid},
		{"half a surrogate pair is refused", `{"a":"\udc00"}`, "", hub.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			got, err := hub.CompactPayload(in)
			if hub.CodeOf(err) != tt.code {
				t.Fatalf("got %v, want code %q", err, tt.code)
			}
			clear(in) // what comes back is a copy
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "payload") {
				t.Errorf("got %q, want an error about the payload", err)
			}
		})
	}
	t.Run("R3-017 a payload that is too large is answered with the way to send it", func(t *testing.T) {
		_, err := hub.CompactPayload([]byte(padded(4097)))
		checkTooLarge(t, err)
	})
}

func TestStrictObject(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		ok       bool
		at       string
	}{
		{"an object is accepted", ` {"a":1,"b":{"c":[{}]}} `, true, ""},
		{"an empty object is accepted", `{}`, true, ""},
		{"a name twice is refused", `{"to":1,"to":2}`, false, "to"},
		{"a name twice is refused however it is written", `{"to":1,"\u0074o":2}`, false, "to"},
		{"a name twice is refused at any depth", `{"a":[0,{"b":{"c":1,"c":1}}]}`, false, "a[1].b.c"},
		{"case twins are refused", `{"to":1,"To":2}`, false, "To"},
		{"case twins are refused however they are written", `{"to":1,"\u0054o":2}`, false, "To"},
		{"case twins beyond ASCII are refused", `{"status":1,"ſtatus":2}`, false, ""},
		{"case twins in an inner object are allowed", `{"payload":{"a":1,"A":2}}`, true, ""},
		{"names that are alike are allowed", `{"to":1,"t_o":2,"too":3,"":4}`, true, ""},
		{"invalid UTF-8 is refused", "{\"a\":{\"b\":\"\xff\"}}", false, "a.b"},
		{"invalid UTF-8 in a name is refused", "{\"\xff\":1}", false, ""},
		{"an array is refused", `[]`, false, "input"},
		{"null is refused", `null`, false, "input"},
		{"nothing is refused", ``, false, "input"},
		{"an object that is cut is refused", `{"a":[`, false, "input"},
		{"two objects are refused", `{} {}`, false, "input"},
		{"nesting without end is refused", `{"a":` + strings.Repeat("[", 1<<20), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := hub.StrictObject([]byte(tt.in))
			if (err == nil) != tt.ok {
				t.Fatalf("got %v, want ok %v", err, tt.ok)
			}
			if err == nil {
				return
			}
			if got := hub.CodeOf(err); got != hub.CodeInvalid {
				t.Errorf("got %s, want %s", got, hub.CodeInvalid)
			}
			if !strings.HasPrefix(err.Error(), tt.at) || len(err.Error()) > 500 {
				t.Errorf("got %.600q, want an error about %s", err, tt.at)
			}
		})
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

func FuzzDecodeEnvelope(f *testing.F) {
	for _, dir := range []string{"envelopes", "strict"} {
		for _, c := range readCases(f, dir) {
			f.Add(c.bytes(f))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := hub.DecodeEnvelope(raw)
		if err != nil {
			if c := hub.CodeOf(err); c != hub.CodeInvalid && c != hub.CodeUnknownType && c != hub.CodePayloadTooLarge {
				t.Fatalf("got %s (%v)", c, err)
			}
			return
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("what was decoded is not valid: %v", err)
		}
		out, err := e.MarshalJSON()
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		if err := accepts(t, out); err != nil {
			t.Fatalf("the schema refuses %s: %v", out, err)
		}
		again, err := hub.DecodeEnvelope(out)
		if err != nil {
			t.Fatalf("%s cannot be decoded: %v", out, err)
		}
		if !reflect.DeepEqual(again, e) {
			t.Fatalf("decoded again:\n got %+v\nwant %+v", again, e)
		}
	})
}

func FuzzStrictObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"A":2}`, `{"a":{"b":1,"b":2}}`, "{\"\xff\":1}", `{"\u0061":[1e9,"\ud83d\ude00"]}`, `[`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := hub.StrictObject(raw); err != nil {
			if hub.CodeOf(err) != hub.CodeInvalid {
				t.Fatalf("got %v", err)
			}
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil || !utf8.Valid(raw) {
			t.Fatalf("accepted what others refuse: %v", err)
		}
		for a := range m {
			for b := range m {
				if a != b && strings.EqualFold(a, b) {
					t.Fatalf("accepted %q beside %q", a, b)
				}
			}
		}
		p, err := hub.CompactPayload(raw)
		if err != nil {
			if hub.CodeOf(err) != hub.CodePayloadTooLarge {
				t.Fatalf("accepted by one, refused by the other: %v", err)
			}
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, raw); err != nil || !bytes.Equal(p, want.Bytes()) {
			t.Fatalf("got %s, want %s (%v)", p, want.Bytes(), err)
		}
		if s := hub.SearchText("", p); !utf8.ValidString(s) {
			t.Fatalf("got %q", s)
		}
	})
}

func BenchmarkDecodeEnvelope(b *testing.B) {
	raw, err := json.Marshal(message())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hub.DecodeEnvelope(raw); err != nil {
			b.Fatal(err)
		}
	}
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

func BenchmarkCompactPayload(b *testing.B) {
	raw := message().Payload
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hub.CompactPayload(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStrictObject(b *testing.B) {
	raw := []byte(`{"to":["bob"],"type":"status.update","payload":{"summary":"tests pass","progress_pct":80},"priority":"normal"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := hub.StrictObject(raw); err != nil {
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
