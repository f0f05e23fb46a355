package run_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// TestGuard has an agent change a file that another agent holds.
func TestGuard(t *testing.T) {
	const refusal = "hello.txt is being changed by planner for 3 min"
	for _, tt := range []struct {
		name, mode string
		noHub      bool
		written    bool
		learned    string // by the agent
		told       string // to people
		asked      int    // questions about the file
	}{
		{name: "an edit through the client is refused with the reason", mode: "edits", learned: "planner", told: refusal, asked: 1},
		{name: "an edit that is made without asking is a violation", mode: "reports", written: true, told: "which planner holds", asked: 1},
		{name: "without a hub nobody is asked", mode: "edits", noHub: true, written: true, learned: "written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex // guards the two below
			var questions []reservation.Question
			var problems []string
			ask := func(r hub.Run, key string) acpguard.Ask {
				return func(_ context.Context, q reservation.Question) (reservation.Answer, error) {
					mu.Lock()
					defer mu.Unlock()
					if key != "the key of the run" || r.Agent != "worker" || !strings.HasPrefix(q.Session, string(r.ID)) {
						t.Errorf("asked by %q with key %q in session %q", r.Agent, key, q.Session)
					}
					answer := reservation.Answer{Decision: reservation.Allow}
					if len(q.Paths) == 0 {
						return answer, nil
					}
					questions = append(questions, q)
					if q.Kind == reservation.Edit {
						answer.Decision, answer.Text = reservation.Deny, refusal
					} else {
						answer.Notes = []reservation.Note{{Kind: reservation.NoteViolation, Path: "hello.txt", Text: "worker changed hello.txt, which planner holds"}}
					}
					return answer, nil
				}
			}
			opts := &run.Options{Agent: withPolicy(sandbox.PolicyWrite), Hub: &fakeHub{}, Ask: ask, On: run.Events{Problem: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, err.Error())
			}}}
			if tt.noHub {
				opts.Hub = nil
			}

			s := spec(t, tt.mode)
			r, err := run.Execute(t.Context(), t.TempDir(), s, opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "hello.txt")); (err == nil) != tt.written {
				t.Errorf("hello.txt: %v", err)
			}
			if !strings.Contains(string(r.Report), tt.learned) {
				t.Errorf("the agent reports %s", r.Report)
			}
			if !strings.Contains(strings.Join(problems, "\n"), tt.told) {
				t.Errorf("people are told %q", problems)
			}
			if len(questions) != tt.asked {
				t.Errorf("got the questions %+v", questions)
			}
		})
	}
}
