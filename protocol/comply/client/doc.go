// Package client tests clients of the Agent Client Protocol: it starts a client, plays an agent
// for it, and reports the rules that the client breaks with the frames that prove it.
//
//	c := client.Client{Name: "mine", Command: []string{"my-client", "--agent", "{agent}", "{prompt}"}}
//	report, err := client.Run(ctx, c, client.Scenarios(), &client.Options{Relay: relay})
//	...
//	err = report.Markdown(os.Stdout, nil)
//
// A [Scenario] is one test: a start of the client, one conversation, and the rules that the
// conversation can show to be broken. The client starts the agent itself, as it starts every
// agent: the word {agent} of its command is a program. That program is a relay, see [Relay],
// which connects its standard streams to a socket of the runner. So the agent is played in
// this process, which sees both directions and decides what the process of the agent does:
// it exits, writes to standard error, or closes a stream.
//
// # Findings
//
// Findings come from three places: from the steps of a scenario, from the ledger, which
// checks every frame of the client, and from the end of the processes. A frame of the
// client has the direction out and one of the agent the direction in, as in reports about
// agents.
//
// Whether a client survived a message is proven by a request for an unknown method, which
// every client must answer. A client that is never brought to the point of a scenario gets
// NA, never a finding: it did not prompt, announced no capability, refused by policy, or has
// no way to load a session.
//
// A finding that rests on time alone is tried again, with nothing beside it and three times
// the time, before it counts.
//
// # Limits
//
// The client is not confined. It runs with the rights of the caller, with few variables and
// an empty home folder. The types of package acp are deliberately not used here: a mistake
// in them must not hide a mistake of a client.
package client
