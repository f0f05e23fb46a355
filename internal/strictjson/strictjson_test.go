package strictjson_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/strictjson"
)

type inner struct {
	Retries int    `json:"retries"`
	Mode    string `json:"mode"`
}

type params struct {
	Text     string           `json:"text"`
	ThreadID string           `json:"thread_id"`
	Policy   *inner           `json:"policy"`
	All      []inner          `json:"all"`
	Payload  strictjson.Value `json:"payload"`
	Raw      json.RawMessage  `json:"raw"`
}

type keeping struct {
	Text    string         `json:"text"`
	Unknown jsontext.Value `json:",embed"`
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name    string
		raw     string
		problem string // "" if it is taken
	}{
		{"all members", `{"text":"a","policy":{"retries":1},"all":[{"mode":"x"}],"payload":{"a":1},"raw":[1]}`, ""},
		{"null is the zero value", `{"text":null,"policy":null}`, ""},
		{"blanks around it", " \n{} \t", ""},
		{"names in an opaque value may differ in case only", `{"payload":{"a":1,"A":2},"raw":{"b":1,"B":2}}`, ""},
		{"an unknown member", `{"txt":"a"}`, "txt: no such member; did you mean text?"},
		{"an unknown member that is near nothing", `{"something":"a"}`, "something: no such member"},
		{"an unknown member inside", `{"all":[{},{"retrys":1}]}`, "all[1].retrys: no such member; did you mean retries?"},
		{"another case", `{"Text":"a"}`, "Text: no such member; did you mean text?"},
		{"a wrong type", `{"policy":{"retries":"1"}}`, "policy.retries: must be an integer, not a string"},
		{"a fraction", `{"policy":{"retries":1.5}}`, `policy.retries: must be an integer, not "1.5"`},
		{"no object", `[1]`, "must be an object, not an array"},
		{"a repeated name", `{"text":"a","text":"b"}`, "text: the name is there twice"},
		{"a repeated name in an opaque value", `{"payload":{"a":{"b":1,"b":2}}}`, "payload.a.b: the name is there twice"},
		{"a repeated name in a raw message", `{"raw":[{"b":1,"b":2}]}`, "raw[0].b: the name is there twice"},
		{"two values", `{} {}`, "invalid character '{' after top-level value at byte 3"},
		{"the end is missing", `{"text":"a"`, "the JSON ends too early"},
		{"nothing", ``, "the JSON ends too early"},
		{"invalid UTF-8", "{\"text\":\"\xff\"}", "text: invalid UTF-8 at byte 9"},
		{"half a surrogate pair", `{"payload":"\ud800"}`, `payload: invalid surrogate pair`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p params
			check(t, strictjson.Decode([]byte(c.raw), &p), c.problem)
		})
	}
}

func TestDecodeKeepsUnknownMembers(t *testing.T) {
	var k keeping
	check(t, strictjson.Decode([]byte(`{"text":"a", "x": 1,"y":{"b":1,"B":2}}`), &k), "")
	if got, want := string(k.Unknown), `{"x":1,"y":{"b":1,"B":2}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	check(t, strictjson.Decode([]byte(`{"x":1,"X":2}`), &k), "X: differs only in case from x")
	check(t, strictjson.Decode([]byte(`{"Text":"a"}`), &k), "Text: differs only in case from text")
}

func TestDecodeOpen(t *testing.T) {
	for _, c := range []struct{ name, raw, problem string }{
		{"unknown members", `{"new":1,"policy":{"newer":[{"a":1,"A":2}]}}`, ""},
		{"another case", `{"policy":{"Mode":"a"}}`, "policy.Mode: differs only in case from mode"},
		{"two unknown ones", `{"policy":{"new":1,"NEW":2}}`, "policy.NEW: differs only in case from new"},
		{"another spelling is another name", `{"threadId":"a"}`, ""},
		{"a null", `{"all":[{"mode":null}]}`, "all[0].mode: must not be null"},
		{"a null in an opaque value", `{"payload":{"a":null}}`, ""},
		{"no object", `{"policy":1}`, "policy: must be an object, not a number"},
		{"a repeated name", `{"new":{"a":1,"a":2}}`, "new.a: the name is there twice"},
		{"more text", `{} x`, "the JSON value is followed by more text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p params
			check(t, strictjson.DecodeOpen([]byte(c.raw), &p), c.problem)
		})
	}
}

func TestDecodeTolerant(t *testing.T) {
	for _, c := range []struct{ name, raw, problem string }{
		{"camelCase", `{"threadId":"a"}`, ""},
		{"snake_case", `{"thread_id":"a"}`, ""},
		{"both", `{"thread_id":"a","threadId":"b"}`, "threadId: the member is there twice, in two spellings"},
		{"unknown members", `{"new":1}`, ""},
		{"two unknown ones", `{"new":1,"New":2}`, "New: differs only in case from new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p params
			check(t, strictjson.DecodeTolerant([]byte(c.raw), &p), c.problem)
			if c.problem == "" && strings.Contains(c.raw, "thread") && p.ThreadID != "a" {
				t.Errorf("thread_id is %q", p.ThreadID)
			}
		})
	}
}

// check fails unless err is a *strictjson.Error that begins with the problem.
func check(t *testing.T, err error, problem string) {
	t.Helper()
	switch {
	case err == nil && problem != "":
		t.Errorf("it was taken, want %q", problem)
	case err == nil:
	case problem == "":
		t.Errorf("it was refused: %v", err)
	case !strings.HasPrefix(err.Error(), problem):
		t.Errorf("got  %q\nwant %q", err, problem)
	default:
		if _, ok := err.(*strictjson.Error); !ok {
			t.Errorf("the error is a %T", err)
		}
	}
}

func TestValue(t *testing.T) {
	raw := `{ "a" : [ 1.0 , "\u00e9 <b>" ] }`
	v, err := strictjson.Parse([]byte(raw))
	if err != nil || v.String() != raw || !v.IsObject() || v.IsZero() {
		t.Fatalf("got %s, %v", v, err)
	}
	if got, want := v.Compact().String(), `{"a":[1.0,"\u00e9 <b>"]}`; got != want {
		t.Errorf("compact: got %s, want %s", got, want)
	}
	if v.String() != raw {
		t.Errorf("Compact changed the value to %s", v)
	}
	_, err = strictjson.Parse([]byte(`{"a":{"b":1,"b":2}}`))
	check(t, err, "a.b: the name is there twice")
	_, err = strictjson.ParseObject([]byte(`{"a":{"b":1,"B":2},"A":1}`))
	check(t, err, "A: differs only in case from a")
	_, err = strictjson.ParseObject([]byte(` [1]`))
	check(t, err, "must be an object, not an array")

	// A value that encoding/json reads is checked too.
	var p struct{ V strictjson.Value }
	if err := json.Unmarshal([]byte(`{"V":{"b":1,"b":2}}`), &p); err == nil {
		t.Errorf("got %s", p.V)
	}
	if got, err := json.Marshal(p); err != nil || string(got) != `{"V":null}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestStrings(t *testing.T) {
	got := slices.Collect(strictjson.Strings([]byte(`{"a":"one","b":[{"c":"two"},3,"three"],"d":null}`)))
	if want := []string{"one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEncode(t *testing.T) {
	v := map[string]string{"a": "<b> & c"}
	if got, err := strictjson.Encode(v); err != nil || string(got) != `{"a":"<b> & c"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := strictjson.EncodeIndent(v); err != nil || string(got) != "{\n  \"a\": \"<b> & c\"\n}" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestCanonical(t *testing.T) {
	got, err := strictjson.Canonical([]byte(`{"b": 1.0, "a": "\u00e9"}`))
	if want := `{"a":"é","b":1}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestWithin(t *testing.T) {
	_, err := strictjson.Parse([]byte(`{"b":1,"b":2}`))
	check(t, strictjson.Within("package", err), "package.b: the name is there twice")
	_, err = strictjson.Parse([]byte(`[{"b":1,"b":2}]`))
	check(t, strictjson.Within("package", err), "package[0].b: the name is there twice")
}

// What is taken encodes again to the same value, and what one mode takes has
// one meaning: no reader finds another value for a member.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"text":"a","policy":{"retries":1,"mode":"x"},"all":[{}],"payload":{"a":1,"A":2}}`,
		`{"threadId":"a","thread_id":"b"}`, `{"Text":"a","text":"b"}`, `{"payload":{"a":1,"a":2}}`, `[`, `{"ſ":1,"S":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var strict, open, tolerant params
		strictErr, openErr := strictjson.Decode(raw, &strict), strictjson.DecodeOpen(raw, &open)
		tolerantErr := strictjson.DecodeTolerant(raw, &tolerant)
		if strictErr == nil && openErr == nil {
			a, _ := strictjson.Encode(strict)
			b, _ := strictjson.Encode(open)
			if !bytes.Equal(a, b) {
				t.Errorf("%s is read as %s and as %s", raw, a, b)
			}
		}
		if strictErr == nil {
			var std params
			if err := json.Unmarshal(raw, &std); err != nil {
				t.Errorf("encoding/json refuses %s: %v", raw, err)
			}
			if _, err := strictjson.Parse(raw); err != nil {
				t.Errorf("Parse refuses %s: %v", raw, err)
			}
			if !strict.Payload.IsZero() {
				if _, err := strictjson.Parse(strict.Payload.Compact().Raw()); err != nil {
					t.Errorf("the payload of %s is not strict: %v", raw, err)
				}
			}
		}
		for _, err := range []error{strictErr, openErr, tolerantErr} {
			if err == nil {
				continue
			}
			if _, ok := err.(*strictjson.Error); !ok {
				t.Errorf("%s: the error is a %T: %v", raw, err, err)
			}
		}
	})
}
