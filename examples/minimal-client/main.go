// Command minimal-client starts an agent, gives it one prompt and prints the text that it
// says:
//
//	go run ./examples/minimal-client "say hello" go run ./examples/echo-agent
//
// The agent may read files in the current folder, and nothing else.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: minimal-client PROMPT COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], exec.Command(os.Args[2], os.Args[3:]...), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "minimal-client:", err)
		os.Exit(1)
	}
}

// run gives the agent one prompt and writes the answer to w.
func run(ctx context.Context, prompt string, agent *exec.Cmd, w io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	client, err := acp.Start(ctx, agent, &acp.Options{V2: true, Policy: sandbox.PolicyRead})
	if err != nil {
		return err
	}
	defer client.Close() // ends the agent

	session, err := client.NewSession(ctx, dir, nil)
	if err != nil {
		return err
	}
	turn, err := session.Prompt(ctx, acp.Text(prompt)) // the end of ctx cancels it
	if err != nil {
		return err
	}

	// The loop ends when the turn is over.
	for u := range turn.Updates() {
		switch u.Kind() {
		case acp.KindAgentMessage:
			fmt.Fprint(w, u.Text())
		case acp.KindToolCall:
			if call := u.ToolCall(); call.Title != "" {
				fmt.Fprintf(w, "[%s]\n", call.Title)
			}
		}
	}

	result, err := turn.Wait()
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	if !result.StopReason.Success() {
		return fmt.Errorf("the agent stopped: %s", result.StopReason)
	}
	return nil
}
