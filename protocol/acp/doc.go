// Package acp implements the Agent Client Protocol: the client, which starts an
// agent and gives it work, and the agent.
//
// # Client
//
// [Start] starts an agent and agrees with it on a version; [Connect] does so over
// given streams. Both return a [Client], whose [Client.Agent] describes the agent.
// A [Session] is a conversation about some folders, a [Turn] is a prompt and the
// agent's work on it:
//
//	client, err := acp.Start(ctx, exec.Command("some-agent", "--acp"), nil)
//	...
//	defer client.Close()
//	session, err := client.NewSession(ctx, "/home/me/project", nil)
//	...
//	turn, err := session.Prompt(ctx, acp.Text("fix the build"))
//	...
//	for u := range turn.Updates() {
//		io.WriteString(out, u.Text())
//	}
//	result, err := turn.Wait()
//
// The API is the same for both versions of the protocol. Outgoing messages are
// built with the types of version 2 and converted for an agent of version 1; a
// message that version 1 cannot express fails with its path and value, and nothing
// is sent. Incoming messages are decoded in the agreed version and stay available
// as they came: see [Update].
//
// [Options.Policy] decides which files, terminals and permissions an agent gets. By
// default it gets none. Files are confined to the folders of the session. Each of
// files, terminals and permissions can be replaced.
//
// Guarantees:
//
//   - A turn can be cancelled at any moment, by its context or [Session.Cancel].
//     The cancellation is sent after the prompt, never before. Requests for
//     permission that are open, and later ones, are answered as cancelled. An agent
//     that does not stop is given up after [Options.CancelGrace].
//   - All updates of a turn come before its result, in their order.
//   - A slow reader of updates slows the agent down; no queue grows without bound.
//   - A mistake of the agent ends in a [Fault] that describes it, never in a hang.
//     One malformed message does not end the connection.
//   - An unknown value never counts as consent or as success.
//   - After [Client.Close] no process, goroutine or file is left.
//
// Errors have three forms. A [Fault] is a mistake of the agent, with a code for
// programs and a text for the agent's author. A *jsonrpc.Error in the chain is the
// agent's own refusal of a request. [ErrBusy], [ErrUnsupported] and
// [ErrAuthRequired] name calls that a caller can avoid: ask [Profile.Can] first, or
// authenticate and try again.
//
// A Client does not restart an agent that ended, does not retry a call, and keeps
// no transcript: [Transcript] and [Options.Tap] are there for that. The policy and
// the sandbox guard the services that the client offers. They do not confine the
// agent's own process, which has the rights of its user.
//
// # Agent
//
// [Serve] is the agent side: an [Agent] is a few functions, of which only Prompt is
// required. The capabilities that the client is offered follow from the functions
// that are set. The functions use the types of version 2 and serve clients of both
// versions.
//
//	agent := &acp.Agent{
//		Name: "echo", Version: "1.0",
//		Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
//			return acpv2.StopReasonEndTurn, t.Say(ctx, t.Text())
//		},
//	}
//	err := acp.Serve(ctx, agent, os.Stdin, os.Stdout)
//
// Requests of the client are handled at the same time, with two exceptions that
// package jsonrpc keeps in the order of arrival: initialize, because every later
// request depends on it, and the start of a turn by session/prompt, because a
// session/cancel that follows must find the turn. The updates of a turn in version
// 2 are sent after the answer to its prompt.
//
// # Proxy and validation
//
// A [Proxy] lets a client of version 1 use an agent that speaks version 2 alone. A
// [Validator] checks recorded frames against a version of the protocol without a
// connection.
package acp
