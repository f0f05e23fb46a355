package comply

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

func TestWindow(t *testing.T) {
	t.Run("R4-056 a window is open for ten seconds unless it says otherwise", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := jsont.Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"expect": {"messages": [{"response": {"id": 1}}]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietRun(test)
			began := time.Now()
			s.now = plan(test.Steps, always, nil)[0]
			f := s.do(t.Context(), test.Steps[0].Action)
			if got, want := time.Since(began), 10*time.Second; f == nil || got != want {
				t.Errorf("got %v after %v, want a finding after %v", f, got, want)
			}
		})
	})
	t.Run("a window closes when the frame comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := jsont.Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"expect": {"messages": [{"notification": {"method": "x"}}]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietRun(test)
			began := time.Now()
			time.AfterFunc(3*time.Second, func() { s.c.arrive(rules.NewEntry("in", []byte(`{"method":"x"}`))) })
			s.now = plan(test.Steps, always, nil)[0]
			if f := s.do(t.Context(), test.Steps[0].Action); f != nil || time.Since(began) != 3*time.Second {
				t.Errorf("got %v after %v", f, time.Since(began))
			}
		})
	})
	t.Run("an agent that has not said anything yet may still be starting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := jsont.Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"expect": {"timeoutMs": 1000, "messages": [{"response": {"id": 1}}]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietRun(test)
			s.c.startup, s.scale = 20*time.Second, 2
			began := time.Now()
			s.now = plan(test.Steps, always, nil)[0]
			s.do(t.Context(), test.Steps[0].Action)
			if got, want := time.Since(began), 22*time.Second; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	})
	t.Run("R4-058 watching ends soon after everything is answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test, err := jsont.Parse("x.jsont", []byte(`{"title": "t", "severity": "required", "steps": [{"forbid": {"timeoutMs": 9000, "methods": ["x"]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			s := quietRun(test)
			s.now = plan(test.Steps, always, nil)[0]
			question := rules.NewEntry("out", []byte(`{"id":1,"method":"y"}`))
			s.c.requests = append(s.c.requests, &request{Call: rules.Call{Request: question}, step: &test.Steps[0]})
			began := time.Now()
			time.AfterFunc(time.Second, func() { s.c.arrive(rules.NewEntry("in", []byte(`{"id":1,"result":{}}`))) })
			if f := s.do(t.Context(), test.Steps[0].Action); f != nil || time.Since(began) != time.Second+graceAfterAnswer {
				t.Errorf("got %v after %v", f, time.Since(began))
			}
		})
	})
}

// quietRun returns a run in which the agent says nothing.
func quietRun(test *jsont.Test) *testRun {
	return &testRun{test: test, scale: 1, c: &conversation{clock: &clock{}, changed: make(chan struct{}), vars: jsont.Variables{}}}
}

// always says that a step is done.
func always(*jsont.Step) bool { return true }

// TestSoon shows that the wait for an answer says nothing before the time that the agent needs for a session.
func TestSoon(t *testing.T) {
	a := allowances{session: allowanceFactor * 8 * time.Second}
	asked := func(method string, ago time.Duration) *request {
		q := &request{patience: time.Minute, deadline: time.Now().Add(time.Minute - ago)}
		q.Request = &rules.Entry{Method: method}
		return q
	}
	for _, c := range []struct {
		name string
		q    *request
		want bool
	}{
		{"a session may take as long as the agent needs", asked("session/new", time.Second), true},
		{"then the wait is over", asked("session/new", 20*time.Second), false},
		{"a change of a setting may take as long", asked("session/set_config_option", time.Second), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := a.soon(c.q); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
