// Package jsont is the language of compliance tests: files with the ending .jsont
// that say which frames to send to an agent, and which must come, or must not.
// docs/comply.md describes the format for authors of tests.
//
//	{
//	  "title": "prompt: an answer",
//	  "severity": "required",
//	  "rules": ["PRM-01"],
//	  "steps": [
//	    {"newSession": {"capture": "session"}},
//	    {"send": {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "${session}", "prompt": []}}},
//	    {"expect": {"messages": [{"response": {"id": 1, "result": {"stopReason": "end_turn"}}}]}}
//	  ]
//	}
//
// A test is a JSON template. Parse reads it in three passes: variables outside of
// strings are replaced, so that the text becomes JSON; the JSON becomes nodes that
// know their lines; the nodes become a [Test] with its steps. Variables in strings
// stay, because their values may be captured only while the test runs. A [Pattern]
// is a node that a value is compared with, and an [Expectation] is a frame that a
// step waits for.
//
// Guarantees: a file that is not a test is an error with its line, found before any
// agent is started. Members that this version does not know are remarks or are
// ignored, so a test for a later version still runs as far as it is understood.
// Sizes, depths, times and numbers of steps are bounded. Nothing in a test can name
// a file outside of the sandbox to be written.
//
// The package runs nothing and knows no rule. Of the protocol it knows the method that
// opens a conversation and the message that ends a turn, which differs between the
// versions. Package comply runs tests.
package jsont
