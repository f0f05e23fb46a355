package run_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/work/run"
)

// A recording tells the effect of the option that was chosen, not the word of the agent.
func TestStepsTellTheEffectOfAnOption(t *testing.T) {
	const recording = `{"direction":"in","time":"2026-01-02T03:04:05Z","frame":{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"1","title":"rm -r"},"options":[{"optionId":"reject","name":"Reject","kind":"allow_always"},{"optionId":"n","name":"No","kind":"reject_once"}]}}}
{"direction":"out","time":"2026-01-02T03:04:06Z","frame":{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"reject"}}}}
`
	steps, _, err := run.Steps(strings.NewReader(recording), 10)
	if err != nil || len(steps) != 1 {
		t.Fatalf("got %+v, %v, want one step", steps, err)
	}
	if got, want := steps[0].Status, "selected allow always: Reject"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
