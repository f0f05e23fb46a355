package jsont

import (
	"strings"
	"testing"
)

func TestVariables(t *testing.T) {
	vars := Variables{"dir": Encode(`C:\a.b`), "n": []byte("3"), "o": []byte(`{"a":1}`)}
	for in, want := range map[string]string{
		`{"a": ${o}, "b": ${n}}`: `{"a": {"a":1}, "b": 3}`,
		`{"a": "${dir}\"${o}"}`:  `{"a": "${dir}\"${o}"}`,
		`{"a": ${dir}}`:          `{"a": "C:\\a.b"}`,
		`{"a": "\\", "b": ${n}}`: `{"a": "\\", "b": 3}`,
	} {
		if got, err := vars.fill([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{"x${dir}y": `xC:\a.by`, "${o}${n}": `{"a":1}3`, "${nope} $n {n}": "${nope} $n {n}"} {
		if got := vars.Expand(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got, want := vars.expandPattern("^${dir}$"), `^C:\\a\.b$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTwoValues shows that a pattern matches either value of a variable that has two.
func TestTwoValues(t *testing.T) {
	vars := Variables{"token": Encode("a.b"), "token" + Scripted: Encode("x1")}
	if got, want := vars.expandPattern("^${token}!$"), `^(?:a\.b|x1)!$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := vars.Expand("${token} ${token.scripted}"), "a.b x1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add(`{"a": "^x$", "b": [1, {"c": null}]}`, `{"a": "x", "b": [{"c": null}, 1.0]}`)
	f.Add(`"("`, `"("`)
	f.Add(`[]`, `{}`)
	f.Fuzz(func(t *testing.T, want, got string) {
		n, err := ParseNode([]byte(want))
		if err != nil {
			return
		}
		v, ok := Decode([]byte(got))
		if !ok {
			return
		}
		p := NewPattern(n, Variables{})
		if bad := p.Match(v); bad != nil && (bad.Want == "" || strings.Contains(bad.String(), "%!")) {
			t.Errorf("got %v", bad)
		}
	})
}
