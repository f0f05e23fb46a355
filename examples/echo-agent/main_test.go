package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// asAgent in the environment makes the test binary be the agent.
const asAgent = "PARLEY_TEST_AS_ECHO_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEcho(t *testing.T) {
	for _, test := range []struct {
		prompt string
		policy sandbox.Policy
		want   string
		reason acp.StopReason
	}{
		{"hello there", sandbox.PolicyNone, "hello there", acpv2.StopReasonEndTurn},
		{"shout hello there", sandbox.PolicyYolo, "HELLO THERE", acpv2.StopReasonEndTurn},
		{"shout hello there", sandbox.PolicyRead, "I was told not to shout.", acpv2.StopReasonRefusal},
	} {
		for _, v2 := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute))
			defer cancel()
			path, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(path)
			cmd.Env = append(os.Environ(), asAgent+"=1", "GORACE=atexit_sleep_ms=0")
			client, err := acp.Start(ctx, cmd, &acp.Options{V2: v2, Policy: test.policy})
			if err != nil {
				t.Fatal(err)
			}
			session, err := client.NewSession(ctx, t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			turn, err := session.Prompt(ctx, acp.Text(test.prompt))
			if err != nil {
				t.Fatal(err)
			}
			text, result, err := turn.Text()
			if err != nil || text != test.want || result.StopReason != test.reason {
				t.Errorf("%s under %s, version 2 %v: got %q, %q, %v; want %q, %q", test.prompt, test.policy, v2, text, result.StopReason, err, test.want, test.reason)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestComply shows that the agent is found to break no rule that it must keep, although it does
// nothing that the prompts ask for.
func TestComply(t *testing.T) {
	tests, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	agent := comply.Agent{Name: "echo-agent", Serve: func(ctx context.Context, s *comply.Stdio) error {
		return acp.Serve(ctx, newAgent(), s.In, s.Out)
	}}
	for version := 1; version <= 2; version++ {
		report, err := comply.Run(t.Context(), []comply.Agent{agent}, tests, &comply.Options{Protocol: version, Jobs: 16, TimeoutScale: float64(patience.For(time.Minute)) / float64(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Agents[0].Tests {
			for _, f := range r.Findings {
				if f.Level == comply.Must {
					t.Errorf("version %d, %s: %s: want %s, got %s", version, r.ID, f.Rule, f.Expected, f.Actual)
				}
			}
		}
		if report.Failed() {
			t.Errorf("version %d: the run failed: %v", version, report.Agents[0].Totals)
		}
	}
}
