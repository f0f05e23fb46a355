package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// asAgent in the environment makes the test binary be an agent.
const asAgent = "PARLEY_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	err := acp.Serve(context.Background(), &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
		err := t.ToolCall(ctx, acpv2.ToolCallUpdate{ToolCallID: "c", Title: acpv2.Set("Think hard")})
		if t.Text() == "give up" {
			return acpv2.StopReasonRefusal, err
		}
		return acpv2.StopReasonEndTurn, errors.Join(err, t.Say(ctx, "done: "+t.Text()))
	}}, os.Stdin, os.Stdout)
	if err != nil {
		os.Exit(1)
	}
}

func TestRun(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := func() *exec.Cmd {
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), asAgent+"=1", "GORACE=atexit_sleep_ms=0")
		return cmd
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute))
	defer cancel()
	var out strings.Builder
	if err := run(ctx, "the dishes", agent(), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "[Think hard]\ndone: the dishes\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := run(ctx, "give up", agent(), &out); err == nil || !strings.Contains(err.Error(), "refusal") {
		t.Errorf("got %v, want the refusal", err)
	}
}

func TestRunWithAnAgentOfSomebodyElse(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute))
	defer cancel()
	var out strings.Builder
	if err := run(ctx, "hi", acptest.TypeScriptDual.Command(t), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "Hello from the v2 implementation.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
