// Package comply tests agents that speak the Agent Client Protocol over standard
// input and output, and says what is broken, by which rule, and which frames
// prove it.
//
// A test is a JSON template with the ending .jsont: files for a folder to work
// in, frames to send, and patterns for what must come, or must not. Nothing in
// this package knows a test: a new file needs no new code. docs/comply.md
// describes the format.
//
// What is promised:
//
//   - Each test has a process, a workspace and a home folder of its own. When it
//     is over the process group is dead and the folders are gone, whatever the
//     agent did. An agent that crashes, hangs or floods spoils one test.
//   - Frames go out as the file has them, ids included, and everything that comes
//     is kept and judged as it came.
//   - What an agent asks of its client is answered: from the test if it says how,
//     else with real files, terminals and permissions confined to the workspace.
//   - Waiting ends when the awaited frame arrives. Nothing is polled.
//
// What is not: the agent itself is not confined. It runs with the rights of the
// caller, only with few variables and an empty home folder.
//
// The types of the protocol are deliberately not used here: a mistake in them
// must not hide a mistake of an agent.
package comply
