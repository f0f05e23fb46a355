// Package acp speaks the Agent Client Protocol: as the client, which starts an
// agent and gives it work, and as the agent.
//
// # Client
//
// [Start] starts an agent and agrees with it on a version; [Connect] does so over
// streams that are there already. Both return a [Client], whose [Client.Agent]
// says what the agent can do. A [Session] is a conversation in some folders, a
// [Turn] is a prompt and what the agent does about it:
//
//	turn, err := session.Prompt(ctx, acp.Text("fix the build"))
//	...
//	for u := range turn.Updates() {
//		io.WriteString(out, u.Text())
//	}
//	result, err := turn.Wait()
//
// The API is the same for both versions of the protocol. What is sent is built
// with the types of version 2 and converted for an agent of version 1; what
// version 1 cannot say fails with its path and value, and nothing is sent. What
// comes in is read in the version that was agreed on, and stays reachable as it
// came: see [Update].
//
// What an agent gets of this machine follows from [Options.Policy]. By default
// that is nothing. Files are confined to the folders of the session, and each of
// files, terminals and permissions can be replaced.
//
// What can be relied on:
//
//   - A turn can be cancelled at any moment, by its context or [Session.Cancel].
//     The agent hears of it after the prompt, never before. Requests for
//     permission that are open, and those that still come, are answered as
//     cancelled. An agent that does not stop is given up after a while.
//   - All updates of a turn come before its result, in their order.
//   - A reader that is slow holds up the agent; nothing grows without bound.
//   - What an agent does wrong ends in a [Fault] that says what it was, never in
//     a hang, and one malformed message does not end the connection.
//   - An unknown value never counts as consent or as success.
//   - After [Client.Close] no process, goroutine or file is left.
//
// # Agent
//
// [Serve] is the other side: an [Agent] is a few functions, of which only one for
// prompts is needed, and what it can do is told to the client from which of them
// are there. It speaks in the types of version 2 and serves clients of both.
package acp
