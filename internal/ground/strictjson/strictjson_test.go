package strictjson_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-agents/parley/internal/ground/strictjson"
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
		{"an unknown member", `{"txt":"a"}`, "txt: unknown member; did you mean text?"},
		{"an unknown member that is near nothing", `{"something":"a"}`, "something: unknown member"},
		{"an unknown member inside", `{"all":[{},{"retrys":1}]}`, "all[1].retrys: unknown member; did you mean retries?"},
		{"another case", `{"Text":"a"}`, "Text: unknown member; did you mean text?"},
		{"a wrong type", `{"policy":{"retries":"1"}}`, "policy.retries: must be an integer, not a string"},
		{"a fraction", `{"policy":{"retries":1.5}}`, `policy.retries: must be an integer, not "1.5"`},
		{"no object", `[1]`, "must be an object, not an array"},
		{"a repeated name", `{"text":"a","text":"b"}`, "text: the name appears twice"},
		{"a repeated name in an opaque value", `{"payload":{"a":{"b":1,"b":2}}}`, "payload.a.b: the name appears twice"},
		{"a repeated name in a raw message", `{"raw":[{"b":1,"b":2}]}`, "raw[0].b: the name appears twice"},
		{"two values", `{} {}`, "invalid character '{' after top-level value at byte 3"},
		{"the end is missing", `{"text":"a"`, "unexpected end of JSON"},
		{"nothing", ``, "unexpected end of JSON"},
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
	check(t, strictjson.Decode([]byte(`{"text":"a","Text":"b"}`), &k), "Text: differs only in case from text")
}

func TestDecodeOpen(t *testing.T) {
	for _, c := range []struct{ name, raw, problem string }{
		{"unknown members", `{"new":1,"policy":{"newer":[{"a":1,"A":2}]}}`, ""},
		{"another case", `{"policy":{"Mode":"a"}}`, "policy.Mode: differs only in case from mode"},
		{"two unknown ones", `{"policy":{"new":1,"NEW":2}}`, "policy.NEW: differs only in case from new"},
		{"another spelling is another name", `{"threadId":"a"}`, ""},
		{"a null is the zero value", `{"all":[{"mode":null}]}`, ""},
		{"no object", `{"policy":1}`, "policy: must be an object, not a number"},
		{"a repeated name", `{"new":{"a":1,"a":2}}`, "new.a: the name appears twice"},
		{"more text", `{} x`, "there is more text after the JSON value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p params
			_, err := strictjson.DecodeOpen([]byte(c.raw), &p)
			check(t, err, c.problem)
		})
	}
}

func TestDecodeOpenReturnsUnknownMembers(t *testing.T) {
	var p struct {
		N    int64 `json:"n"`
		Here struct{}
	}
	unknown, err := strictjson.DecodeOpen([]byte(`{"n":1.0, "\u0061": [ 1 ], "Here":{"b":1},"c":null}`), &p)
	if want := `{"\u0061":[ 1 ],"c":null}`; err != nil || string(unknown) != want || p.N != 1 {
		t.Errorf("got %s and %d, %v, want %s and 1", unknown, p.N, err, want)
	}
	for raw, problem := range map[string]string{
		`{"n":1.5}`:              `n: "1.5" is not an integer`,
		`{"n":1e999}`:            `n: "1e999" is not an integer`,
		`{"n":"1"}`:              "n: must be an integer, not a string",
		`{"n":9007199254740993}`: `n: "9007199254740993" is not an integer`,
	} {
		_, err := strictjson.DecodeOpen([]byte(raw), &p)
		check(t, err, problem)
	}
}

func TestMembers(t *testing.T) {
	var got []string
	for name, value := range strictjson.Members([]byte(`{"a": [1], "\u0062":{"c":2}}`)) {
		got = append(got, name, value.String())
	}
	if want := []string{"a", "[1]", "b", `{"c":2}`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeTolerant(t *testing.T) {
	for _, c := range []struct{ name, raw, problem string }{
		{"camelCase", `{"threadId":"a"}`, ""},
		{"snake_case", `{"thread_id":"a"}`, ""},
		{"both", `{"thread_id":"a","threadId":"b"}`, "threadId: the member appears twice, in two spellings"},
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
	check(t, err, "a.b: the name appears twice")
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

func TestParseObject(t *testing.T) {
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
		{"an array is refused", `[]`, false, ""},
		{"null is refused", `null`, false, ""},
		{"nothing is refused", ``, false, ""},
		{"an object that is cut is refused", `{"a":[`, false, ""},
		{"two objects are refused", `{} {}`, false, ""},
		{"nesting without end is refused", `{"a":` + strings.Repeat("[", 1<<20), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := strictjson.ParseObject([]byte(tt.in))
			if (err == nil) != tt.ok {
				t.Fatalf("got %v, want ok %v", err, tt.ok)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), tt.at) || len(err.Error()) > 500) {
				t.Errorf("got %.600q, want an error about %s", err, tt.at)
			}
		})
	}
}

func TestCompact(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"blanks between parts go", " {\n\t\"a\" : [ 1 , { } ] }\r\n", `{"a":[1,{}]}`},
		{"blanks in strings stay", `{ "a b" : " c \" d " }`, `{"a b":" c \" d "}`},
		{"a backslash before a quote does not end a string", `{"a\\": "\\\" x" }`, `{"a\\":"\\\" x"}`},
		{"numbers keep their digits", `{"a":1.0,"b":1E400,"c":-0,"d":12345678901234567890.10}`, `{"a":1.0,"b":1E400,"c":-0,"d":12345678901234567890.10}`},
		{"escapes stay as they are", `{"a":"\u003cé\u00e9<\/\u2028"}`, `{"a":"\u003cé\u00e9<\/\u2028"}`},
		{"case twins stay", `{"a":1,"A":2}`, `{"a":1,"A":2}`},
		{"an empty object is a payload", `{}`, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := strictjson.Parse([]byte(tt.in))
			if got := v.Compact().String(); err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
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
}

func TestCanonical(t *testing.T) {
	got, err := strictjson.Canonical([]byte(`{"b": 1.0, "a": "\u00e9"}`))
	if want := `{"a":"é","b":1}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestWithin(t *testing.T) {
	_, err := strictjson.Parse([]byte(`{"b":1,"b":2}`))
	check(t, strictjson.Within("package", err), "package.b: the name appears twice")
	_, err = strictjson.Parse([]byte(`[{"b":1,"b":2}]`))
	check(t, strictjson.Within("package", err), "package[0].b: the name appears twice")
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
		strictErr := strictjson.Decode(raw, &strict)
		_, openErr := strictjson.DecodeOpen(raw, &open)
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
			var compact bytes.Buffer
			if v, err := strictjson.Parse(raw); err != nil || json.Compact(&compact, raw) != nil || v.Compact().String() != compact.String() {
				t.Errorf("%s is compacted to %s", raw, v.Compact())
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
