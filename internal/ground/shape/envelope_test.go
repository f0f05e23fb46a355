package shape_test

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
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/ground/shape"
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
	e, err := shape.DecodeEnvelope(raw)
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
	got := value(t, out)
	if extra, ok := got["extra"].(map[string]any); ok { // unknown members are written under one
		delete(got, "extra")
		maps.Copy(got, extra)
	}
	if want := value(t, raw); !equal(got, want) {
		t.Errorf("encoded again:\n got %s\nwant %s", out, raw)
	}
	out, err = e.MarshalJSON() // which json.Marshal would only escape further
	if err != nil {
		t.Fatal(err)
	}
	again, err := shape.DecodeEnvelope(out)
	if err != nil {
		t.Fatalf("what was encoded cannot be decoded: %v", err)
	}
	if twice, err := again.MarshalJSON(); err != nil || !bytes.Equal(twice, out) || !bytes.Equal(again.Extra, e.Extra) {
		t.Errorf("decoded and encoded again:\n got %s\nwant %s", twice, out)
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
		e, err := shape.DecodeEnvelope([]byte(raw))
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
		if !strings.HasSuffix(string(out), `,"extra":{"zeta":[ 1.50, "\u00e9" ],"\u0061lpha":{ "b":1e2 },"mid":null}}`) {
			t.Errorf("got %s", out)
		}
	})
	t.Run("an envelope without unknown members has no extra", func(t *testing.T) {
		e, err := shape.DecodeEnvelope([]byte(head + payload + policy + "}"))
		if err != nil || e.Extra != nil {
			t.Errorf("got %q, %v", e.Extra, err)
		}
	})
	t.Run("the payload keeps its digits and escapes and loses its blanks", func(t *testing.T) {
		e, err := shape.DecodeEnvelope([]byte(head + `,"payload":{ "n" : 1.0e+2 , "s":"\u003c \/ <", "l":[ 1 , 2 ] }` + policy + "}"))
		if got, want := string(e.Payload), `{"n":1.0e+2,"s":"\u003c \/ <","l":[1,2]}`; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
	t.Run("what is decoded does not change with the input", func(t *testing.T) {
		raw := []byte(head + payload + policy + `,"x":"y"}`)
		e, err := shape.DecodeEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		clear(raw)
		if e.From != "ada" || string(e.Payload) != `{"summary":"x"}` || string(e.Extra) != `{"x":"y"}` {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("R3-033 times are cut to the millisecond", func(t *testing.T) {
		e, err := shape.DecodeEnvelope([]byte(head + payload + policy + "}"))
		if got, want := e.CreatedAt.String(), "2026-01-02T15:04:05.123Z"; err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
	t.Run("the text names the member, the value and what would do", func(t *testing.T) {
		_, err := shape.DecodeEnvelope([]byte(head + payload + strings.Replace(policy, "private", "secret", 1) + "}"))
		if want := `policy.visibility: "secret" is not one of private, team, human-audit`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("a long value is cut in the text", func(t *testing.T) {
		_, err := shape.DecodeEnvelope([]byte(head + payload + strings.Replace(policy, "private", strings.Repeat("ü", 9000), 1) + "}"))
		if err == nil || len(err.Error()) > 300 || !utf8.ValidString(err.Error()) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("R3-017 a payload that is too large is answered with the way to send it", func(t *testing.T) {
		_, err := shape.DecodeEnvelope([]byte(head + `,"payload":{"a":"` + strings.Repeat("x", 5000) + `"}` + policy + "}"))
		checkTooLarge(t, err)
	})
}

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

func FuzzDecodeEnvelope(f *testing.F) {
	for _, dir := range []string{"envelopes", "strict"} {
		for _, c := range readCases(f, dir) {
			f.Add(c.bytes(f))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := shape.DecodeEnvelope(raw)
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
		again, err := shape.DecodeEnvelope(out)
		if err != nil {
			t.Fatalf("%s cannot be decoded: %v", out, err)
		}
		if twice, err := again.MarshalJSON(); err != nil || !bytes.Equal(twice, out) || !bytes.Equal(again.Extra, e.Extra) {
			t.Fatalf("decoded and encoded again:\n got %s\nwant %s", twice, out)
		}
	})
}

func BenchmarkDecodeEnvelope(b *testing.B) {
	raw := readCases(b, "envelopes")[0].bytes(b)
	var err error
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := shape.DecodeEnvelope(raw); err != nil {
			b.Fatal(err)
		}
	}
}
