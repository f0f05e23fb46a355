package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// A pair is an object with two members and what else there is.
type pair struct {
	a      string
	b      int64
	extras []string
}

var pairNames = []string{"a", "b"}

func (p *pair) decode(s *Scanner) {
	o := s.Object()
	for o.Next() {
		switch string(o.Name()) {
		case "a":
			o.Once(0)
			p.a = s.String()
		case "b":
			o.Once(1)
			p.b = s.Int(64)
		default:
			if name, value, ok := o.Extra(pairNames); ok {
				p.extras = append(p.extras, name+"="+string(value))
			}
		}
	}
	o.Need(0, "a")
}

func TestObject(t *testing.T) {
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	tests := []struct {
		name, raw string
		reason    string // "" if it can be read
		path      string
	}{
		{"members in any order, with blanks", " { \"b\" : 1 ,\n\"a\":\"x\" } ", "", ""},
		{"extras keep their order", `{"z":1.0,"a":"x","y":{"k":1,"k":2}}`, "", ""},
		{"escapes are read", `{"\u0061":"\ud83d\ude00\n\"\\\/\b\f\r\t"}`, "", ""},
		{"a name twice", `{"a":"x","a":"y"}`, "appears twice", "/a"},
		{"a name twice, once escaped", `{"a":"x","\u0061":"y"}`, "appears twice", "/a"},
		{"an extra name twice", `{"a":"x","c":1,"c":2}`, "appears twice", "/c"},
		{"a case twin of a known name", `{"a":"x","B":1}`, "only in case", "/B"},
		{"a case twin of an extra name", `{"a":"x","key":1,"Key":1}`, "only in case", "/Key"},
		{"a case twin beyond ASCII", `{"a":"x","ſ":1,"s":1}`, "only in case", "/s"},
		{"a required member is missing", `{"b":1}`, `"a" is missing`, ""},
		{"a wrong type", `{"a":5}`, "must be a string, not a number", "/a"},
		{"not an object", `[]`, "must be an object, not an array", ""},
		{"a fraction for an integer", `{"a":"","b":1.0}`, "must be an integer", "/b"},
		{"an exponent for an integer", `{"a":"","b":1e2}`, "must be an integer", "/b"},
		{"a negative zero for an integer", `{"a":"","b":-0}`, "must be an integer", "/b"},
		{"an integer out of range", `{"a":"","b":9223372036854775808}`, "does not fit", "/b"},
		{"half of a surrogate pair", `{"a":"\ud83d"}`, "surrogate", "/a"},
		{"half of a surrogate pair before other text", `{"a":"\ud83dxxxxxx"}`, "surrogate", "/a"},
		{"half of a surrogate pair in what is opaque", `{"a":"","c":"\ud83d"}`, "surrogate", "/c"},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "invalid UTF-8", "/a"},
		{"invalid UTF-8 in what is opaque", "{\"a\":\"\",\"c\":\"\xff\"}", "invalid UTF-8", "/c"},
		{"a control character", "{\"a\":\"\x01\"}", "not valid JSON", "/a"},
		{"a bad escape", `{"a":"\x"}`, "not valid JSON", "/a"},
		{"a bad number", `{"a":"","b":01}`, "not valid JSON", ""},
		{"a comma at the end", `{"a":"",}`, "not valid JSON", ""},
		{"a colon is missing", `{"a" ""}`, "not valid JSON", "/a"},
		{"something after the end", `{"a":""} x`, "unexpected data after", ""},
		{"the end is missing", `{"a":"x"`, "is incomplete", ""},
		{"the end of a string is missing", `{"a":"x`, "is incomplete", "/a"},
		{"nothing", ``, "is incomplete", ""},
		{"a zero byte", "\x00", "not valid JSON", ""},
		{"a zero byte after the end", "{\"a\":\"\"}\x00", "unexpected data after", ""},
		{"too deep", `{"a":"","c":` + deep + `}`, "max depth", "/c" + strings.Repeat("/0", 39) + "..."},
		{"a slash in a name", `{"a":"","c/d~e":[1,]}`, "not valid JSON", "/c~1d~0e/1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var p pair
			s := NewScanner([]byte(test.raw))
			p.decode(s)
			got := s.End()
			switch {
			case got == nil && test.reason == "":
			case got == nil || test.reason == "":
				t.Errorf("got %v, want %q", got, test.reason)
			case !strings.Contains(got.Reason, test.reason) || got.Path != test.path:
				t.Errorf("got %q at %q, want %q at %q", got.Reason, got.Path, test.reason, test.path)
			}
		})
	}
	t.Run("what is read", func(t *testing.T) {
		var p pair
		s := NewScanner([]byte(`{"z":1.0,"a":"\ud83d\ude00\t","y":{"k":1, "k":2},"b":-7}`))
		p.decode(s)
		if s.End() != nil || p.a != "😀\t" || p.b != -7 || strings.Join(p.extras, " ") != `z=1.0 y={"k":1, "k":2}` {
			t.Errorf("got %+v, %v", p, s.End())
		}
	})
}

func TestArrayPath(t *testing.T) {
	s := NewScanner([]byte(`[{"a":"x"},{"a":1}]`))
	for a := s.Array(); a.Next(); {
		var p pair
		p.decode(s)
	}
	if got := s.End(); got == nil || got.Path != "/1/a" {
		t.Errorf("got %+v, want the path /1/a", got)
	}
}

func TestTag(t *testing.T) {
	tests := []struct{ name, raw, want, reason string }{
		{"first", `{"type":"x","a":1}`, "x", ""},
		{"last", `{"a":{"type":"y"},"type":"x"}`, "x", ""},
		{"escaped", `{"\u0074ype":"\u0078"}`, "x", ""},
		{"missing", `{"a":1}`, "", "missing"},
		{"null", `{"type":null}`, "", "must be a string"},
		{"a number", `{"type":1}`, "", "must be a string"},
		{"empty", `{"type":""}`, "", "must not be empty"},
		{"twice", `{"type":"x","type":"y"}`, "x", "appears twice"},
		{"with a case twin", `{"type":"x","Type":"y"}`, "x", "only in case"},
		{"no object", `5`, "", "must be an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := NewScanner([]byte(test.raw))
			got := string(s.Tag("type"))
			if got == test.want {
				s.Unknown()
			}
			p := s.End()
			if got != test.want || (p == nil) != (test.reason == "") || p != nil && !strings.Contains(p.Reason, test.reason) {
				t.Errorf("got %q, %+v, want %q, %q", got, p, test.want, test.reason)
			}
		})
	}
}

func TestEncoder(t *testing.T) {
	tests := []struct {
		name  string
		write func(e *Encoder)
		want  string
		path  string // of the problem, if there is one
	}{
		{"strings are escaped as little as possible", func(e *Encoder) { e.String("a\"\\\n\r\t\x01<é\u2028") }, `"a\"\\\n\r\t\u0001<é` + "\u2028" + `"`, ""},
		{"an opaque value is written as it is", func(e *Encoder) { e.Raw(json.RawMessage(`{ "a" : 1.0 }`)) }, `{ "a" : 1.0 }`, ""},
		{"but on one line", func(e *Encoder) { e.Raw(json.RawMessage("{\n \"a\" : \"x y\"\r\n}")) }, `{"a":"x y"}`, ""},
		{"a number is written as it is", func(e *Encoder) { e.Number("1.50e+10") }, `1.50e+10`, ""},
		{"an object", func(e *Encoder) {
			e.Begin()
			e.Tag("type", "x")
			e.Name("list")
			e.BeginArray()
			e.Item(0)
			e.Null()
			e.Item(1)
			e.Bool(true)
			e.CloseArray()
			e.Extra("q\"", json.RawMessage("[]"))
			e.Close()
		}, `{"type":"x","list":[null,true],"q\"":[]}`, ""},
		{"invalid UTF-8 is no text", func(e *Encoder) { e.Begin(); e.Name("a"); e.String("\xff"); e.Close() }, "", "/a"},
		{"an opaque value must be JSON", func(e *Encoder) { e.Begin(); e.Name("a"); e.Raw(json.RawMessage("{")); e.Close() }, "", "/a"},
		{"an opaque value must be one value", func(e *Encoder) { e.Begin(); e.Name("a"); e.Raw(json.RawMessage("1,\"b\":2")); e.Close() }, "", "/a"},
		{"a number must be one", func(e *Encoder) { e.Begin(); e.Name("a"); e.Number("1 "); e.Close() }, "", "/a"},
		{"an extra member must not repeat the tag", func(e *Encoder) { e.Begin(); e.Tag("type", "x"); e.Extra("Type", json.RawMessage("1")); e.Close() }, "", "/Type"},
		{"an extra member must not repeat a known one", func(e *Encoder) { e.Begin(); e.Extra("A", json.RawMessage("1"), []string{"a"}); e.Close() }, "", "/A"},
		{"the path goes through arrays", func(e *Encoder) {
			e.Begin()
			e.Name("list")
			e.BeginArray()
			e.Item(0)
			e.Null()
			e.Item(1)
			e.Begin()
			e.Name("a")
			e.Number("x")
			e.Close()
			e.CloseArray()
			e.Close()
		}, "", "/list/1/a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := NewEncoder()
			test.write(e)
			got, p := e.End()
			switch {
			case test.path != "" && (p == nil || p.Path != test.path):
				t.Errorf("got %+v, want a problem at %s", p, test.path)
			case test.path == "" && (p != nil || string(got) != test.want):
				t.Errorf("got %s, %+v, want %s", got, p, test.want)
			}
		})
	}
}

func TestRange(t *testing.T) {
	for v, want := range map[json.Number]bool{"0": true, "1": true, "0.5": true, "1e-400": true, "1.0000000000000000001": false, "-1e-9": false, "1e400": false, "1e999999999999": false, "1e99999999999999999999": false, "-1e99999999999999999999": false, "1e-99999999999999999999": true, "0e99999999999999999999": true, "x": false, "": false} {
		c := &Checker{}
		c.Range(v, "0", "1")
		if got := len(c.Problems) == 0; got != want {
			t.Errorf("%s: got %v, want %v", v, got, want)
		}
	}
}

func TestCheckerBound(t *testing.T) {
	c := &Checker{}
	for range 10 * maxProblems {
		c.Report("", "x")
	}
	if got := len(c.Problems); got != maxProblems {
		t.Errorf("got %d, want %d", got, maxProblems)
	}
}

func FuzzSkip(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+3,"\u00e9\n",null,true,false,{}]}`, ` [ ] `, `"\ud800"`, `{"a":}`, "\x00", `1.`, `[1,]`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner(data)
		raw := s.Raw()
		p := s.End()
		want := json.Valid(data) && utf8.Valid(data) && !bytes.Contains(bytes.ToLower(data), []byte(`\ud`))
		if half := json.Valid(data) && !want; !half && (p == nil) != want {
			t.Fatalf("%q: got %+v, want valid %v", data, p, want)
		}
		if p != nil {
			return
		}
		e := NewEncoder()
		e.Raw(raw)
		if out, p := e.End(); p != nil || !json.Valid(out) || strings.ContainsAny(string(out), "\r\n") {
			t.Fatalf("%q: got %q, %+v", data, out, p)
		}
	})
}

// FuzzTrusting gives a scanner text that it must not get: nothing may panic or hang.
func FuzzTrusting(f *testing.F) {
	for _, seed := range []string{`{"a":`, `{"a"`, `{`, ``, `{"a":"x",`, `{"c":[1,2`, `{"a":"\`, `}`, `{"b":-}`, `{:}`, `["`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p pair
		p.decode(NewTrusting(data))
		s := NewTrusting(data)
		for a := s.Array(); a.Next(); {
			s.Raw()
		}
		s = NewTrusting(data)
		s.Tag("type")
		s.Unknown()
	})
}

func FuzzString(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\u0000\/"`, `"`, `"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner(data)
		got := s.String()
		if s.End() != nil {
			return
		}
		var want string
		if err := json.Unmarshal(data, &want); err != nil || got != want {
			t.Fatalf("%q: got %q, want %q, %v", data, got, want, err)
		}
		e := NewEncoder()
		e.String(got)
		out, p := e.End()
		var again string
		if err := json.Unmarshal(out, &again); p != nil || err != nil || again != got {
			t.Fatalf("%q became %q: %v, %+v", data, out, err, p)
		}
	})
}
