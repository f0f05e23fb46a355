package acp_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// An agent and a client in one program. Usually each is a process of its own: the
// client calls [acp.Start], and the agent serves its standard streams.
func Example() {
	ctx := context.Background()
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	served := make(chan error)
	go func() {
		agent := &acp.Agent{Name: "shouter", Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			return acpv2.StopReasonEndTurn, t.Say(ctx, strings.ToUpper(t.Text()))
		}}
		served <- acp.Serve(ctx, agent, fromClient, toClient)
	}()

	client, err := acp.Connect(ctx, fromAgent, toAgent, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	session, err := client.NewSession(ctx, os.TempDir(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	turn, err := session.Prompt(ctx, acp.Text("good morning"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for u := range turn.Updates() {
		fmt.Println(u.Kind(), u.Text())
	}
	result, err := turn.Wait()
	fmt.Println(client.Agent().Name, result.StopReason, err)
	client.Close()
	<-served
	// Output:
	// agent_message GOOD MORNING
	// shouter end_turn <nil>
}
