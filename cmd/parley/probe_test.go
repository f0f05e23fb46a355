package main

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

func TestProbeOnAnotherMachine(t *testing.T) {
	at := hub.At(time.Now())
	away := &api.ProbeReport{At: at, State: "machine away", Detail: "no hub runs on alpha", Machine: "alpha"}
	for _, test := range []struct {
		name    string
		probe   *api.ProbeReport
		armed   hub.Time
		problem string // "" for none
		column  string
	}{
		{"none", nil, hub.Time{}, "", "-"},
		{"proven", &api.ProbeReport{At: at, State: "turn_ended", Proven: true}, hub.Time{}, "", "proven now"},
		{"failed", &api.ProbeReport{At: at, State: "failed"}, hub.Time{}, "the last probe (now) did not start a turn: failed", "failed now"},
		{"its machine is away", away, hub.Time{}, "machine away: no hub runs on alpha, where it was last probed (now)", "machine away"},
		{"its machine is away, and it waits at another hub", away, at, "", "machine away"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := api.AgentWakes{Agent: "builder"}
			w.Allowed, w.Probe = true, test.probe
			if !test.armed.IsZero() {
				w.Sessions = []api.Session{{State: "idle", Armed: test.armed}}
			}
			if got, hint := wakeProblem(w); got != test.problem || test.probe == away && got != "" && !strings.Contains(hint, "alpha") {
				t.Errorf("got %q with the hint %q, want %q", got, hint, test.problem)
			}
			if got := lastProbe(test.probe); got != test.column {
				t.Errorf("the column: got %q, want %q", got, test.column)
			}
		})
	}
}
