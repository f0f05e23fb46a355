package comply

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWindow(t *testing.T) {
	t.Run("R4-056 a window is open for ten seconds unless it says otherwise", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"expect": {"messages": [{"response": {"id": 1}}]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietStage(test)
			began := time.Now()
			s.now = plan(test.steps, always, nil)[0]
			f := test.steps[0].play(t.Context(), s)
			if got, want := time.Since(began), 10*time.Second; f == nil || got != want {
				t.Errorf("got %v after %v, want a finding after %v", f, got, want)
			}
		})
	})
	t.Run("a window closes when the frame comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"expect": {"messages": [{"notification": {"method": "x"}}]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietStage(test)
			began := time.Now()
			time.AfterFunc(3*time.Second, func() { s.c.arrive(newEntry("in", []byte(`{"method":"x"}`))) })
			s.now = plan(test.steps, always, nil)[0]
			if f := test.steps[0].play(t.Context(), s); f != nil || time.Since(began) != 3*time.Second {
				t.Errorf("got %v after %v", f, time.Since(began))
			}
		})
	})
	t.Run("an agent that has not said anything yet may still be starting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"expect": {"timeoutMs": 1000, "messages": [{"response": {"id": 1}}]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietStage(test)
			s.c.startup, s.scale = 20*time.Second, 2
			began := time.Now()
			s.now = plan(test.steps, always, nil)[0]
			test.steps[0].play(t.Context(), s)
			if got, want := time.Since(began), 22*time.Second; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	})
	t.Run("R4-058 watching ends soon after everything is answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"forbid": {"timeoutMs": 9000, "methods": ["x"]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietStage(test)
			s.now = plan(test.steps, always, nil)[0]
			question := newEntry("out", []byte(`{"id":1,"method":"y"}`))
			s.c.asked = append(s.c.asked, &asked{entry: question, step: &test.steps[0]})
			began := time.Now()
			time.AfterFunc(time.Second, func() { s.c.arrive(newEntry("in", []byte(`{"id":1,"result":{}}`))) })
			if f := test.steps[0].play(t.Context(), s); f != nil || time.Since(began) != time.Second+graceAfterAnswer {
				t.Errorf("got %v after %v", f, time.Since(began))
			}
		})
	})
}

// quietStage returns a stage on which no agent says anything.
func quietStage(test *Test) *stage {
	return &stage{test: test, scale: 1, c: &conversation{clock: &clock{}, changed: make(chan struct{}), vars: variables{}}}
}

func TestVariables(t *testing.T) {
	vars := variables{"dir": quote(`C:\a.b`), "n": []byte("3"), "o": []byte(`{"a":1}`)}
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
		if got := vars.expand(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got, want := vars.expandPattern("^${dir}$"), `^C:\\a\.b$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add(`{"a": "^x$", "b": [1, {"c": null}]}`, `{"a": "x", "b": [{"c": null}, 1.0]}`)
	f.Add(`"("`, `"("`)
	f.Add(`[]`, `{}`)
	f.Fuzz(func(t *testing.T, want, got string) {
		n, err := parseNode([]byte(want))
		if err != nil {
			return
		}
		v, ok := decode([]byte(got))
		if !ok {
			return
		}
		p := newPattern(n, variables{})
		if bad := p.match(v); bad != nil && (bad.want == "" || strings.Contains(bad.String(), "%!")) {
			t.Errorf("got %v", bad)
		}
		e := newEntry("in", []byte(got))
		audit(&Test{}, 1, []*entry{e}, nil)
	})
}

// always says that a step is done.
func always(*step) bool { return true }
