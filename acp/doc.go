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
//   - A turn can be cancelled at any moment, by its context or [Session.Cancel]. The
//     cancellation is sent after the prompt, never before. Requests for permission
//     that are open, and later ones, are answered as cancelled. An agent that does
//     not stop is given up after [Options.CancelGrace].
//   - All updates of a turn come before its result, in their order.
//   - A slow reader of updates slows the agent down; no queue grows without bound.
//   - A mistake of the agent ends in a [Fault] that describes it, never in a hang.
//     One malformed message does not end the connection.
//   - An unknown value never counts as consent or as success.
//   - After [Client.Close] no process, goroutine or file is left.
//
// # Agent
//
// [Serve] is the agent side: an [Agent] is a few functions, of which only Prompt is
// required. The capabilities that the client is offered follow from the functions
// that are set. The functions use the types of version 2 and serve clients of both
// versions.
//
// Requests of the client are handled at the same time, with two exceptions that
// package jsonrpc keeps in the order of arrival: initialize, because every later
// request depends on it, and the start of a turn by session/prompt, because a
// session/cancel that follows must find the turn. The updates of a turn in version 2
// are sent after the answer to its prompt.
package acp
