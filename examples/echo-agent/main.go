// Command echo-agent is an agent that repeats each prompt, one word at a time.
// An agent needs little more than a function for prompts. Before it repeats
// something that begins with "shout" it asks for permission.
//
// Try it with
//
//	parley acp exec --policy yolo -- go run ./examples/echo-agent "shout hello there"
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// Standard output belongs to the protocol; text for people goes to
	// standard error.
	if err := acp.Serve(ctx, newAgent(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "echo-agent:", err)
		os.Exit(1)
	}
}

// newAgent returns the agent.
func newAgent() *acp.Agent {
	return &acp.Agent{Name: "echo-agent", Title: "Echo", Version: "1.0.0", V2: true, Prompt: echo}
}

// echo works on one prompt. When the turn is cancelled ctx ends, and Say fails.
func echo(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
	text := t.Text()
	if rest, ok := strings.CutPrefix(text, "shout "); ok {
		allowed, err := mayShout(ctx, t)
		if err != nil {
			return "", err
		}
		if !allowed {
			return acpv2.StopReasonRefusal, t.Say(ctx, "I was told not to shout.")
		}
		text = strings.ToUpper(rest)
	}
	for _, word := range strings.SplitAfter(text, " ") {
		if err := t.Say(ctx, word); err != nil {
			return "", err
		}
	}
	return acpv2.StopReasonEndTurn, nil
}

// mayShout asks for permission. Only an outcome that approves is consent: an error
// or a cancelled question is not.
func mayShout(ctx context.Context, t *acp.AgentTurn) (bool, error) {
	options := []acpv2.PermissionOption{
		{OptionID: "yes", Name: "Let it shout", Kind: acpv2.PermissionOptionKindAllowOnce},
		{OptionID: "no", Name: "Keep quiet", Kind: acpv2.PermissionOptionKindRejectOnce},
	}
	call := acpv2.ToolCallUpdate{ToolCallID: "shout", Title: acpv2.Set("Shout"), Kind: acpv2.Set(acpv2.ToolKindOther)}
	if err := t.ToolCall(ctx, call); err != nil {
		return false, err
	}
	outcome, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
		Title:   "Shout",
		Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: call}}),
		Options: options,
	})
	if err != nil {
		return false, err
	}
	allowed := outcome.Approves(options)
	status := acpv2.ToolCallStatusFailed
	if allowed {
		status = acpv2.ToolCallStatusCompleted
	}
	return allowed, t.ToolCall(ctx, acpv2.ToolCallUpdate{ToolCallID: "shout", Status: acpv2.Set(status)})
}
