// Package comply tests agents that speak the Agent Client Protocol over standard
// input and output. It reports the rules that an agent breaks, and the frames that
// prove it.
//
//	tests, err := comply.Suite()
//	...
//	agent := comply.Agent{Name: "mine", Command: "./my-agent", Args: []string{"--acp"}}
//	report, err := comply.Run(ctx, []comply.Agent{agent}, tests, nil)
//	...
//	err = report.Markdown(os.Stdout, nil)
//
// A test is a JSON template with the ending .jsont: files for a folder to work in,
// frames to send, and patterns for the frames that must come, or must not. No code
// is about one test: a new file needs no new code. Package jsont is the language of
// tests, package rules has the rules and checks every frame, package render has the
// verdicts and writes reports. This package runs tests: it starts agents, talks to
// them, and answers their requests.
//
// Guarantees:
//
//   - Each test has a process, a workspace and a home folder of its own. At its end
//     the process group is dead and the folders are gone, whatever the agent did.
//     An agent that crashes, hangs or floods spoils one test.
//   - Frames go out as the file has them, ids included, and every frame of the
//     agent is kept and judged as it came.
//   - Requests of the agent are answered: from the test if it has a reply, else
//     with real files, terminals and permissions confined to the workspace.
//   - A wait ends when the awaited frame arrives. Only files are polled.
//
// # Findings
//
// A finding has a rule, a level, and the frames that prove it. It comes from a step
// of a test, from an answer that no step was about, or from the audit of the whole
// log, which checks every frame against every rule that frames alone can break. One
// mistake should be one finding: an agent that fails before the point of a test
// breaks the rule about that failure, not the rule of the test; see cause.
//
// The protocol has no deadlines. The first conversation, the probe, measures how
// long an agent takes to start, to open a session and to show something; tests
// allow a multiple of that. A finding that rests on time alone is tried again, with
// nothing beside it and three times the time, before it counts.
//
// # Limits
//
// The agent itself is not confined. It runs with the rights of the caller, only
// with few variables and an empty home folder. Its requests for files and commands
// are confined; its own system calls are not.
//
// The types of package acp are deliberately not used here: a mistake in them must
// not hide a mistake of an agent.
package comply
