package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/sandbox"
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
