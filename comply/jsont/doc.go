// Package jsont is the language of compliance tests: files with the ending .jsont
// that say which frames to send to an agent, and which must come, or must not.
// docs/comply.md describes the format for authors of tests.
//
// A test is a JSON template. Parse reads it in three passes: variables outside of
// strings are replaced, so that the text becomes JSON; the JSON becomes nodes that
// know their lines; the nodes become a [Test] with its steps. Variables in strings
// stay, because their values may be captured only while the test runs. A [Pattern]
// is a node that a value is compared with, and an [Expectation] is a frame that a
// step waits for.
//
// The package runs nothing, knows no rule and no method of the protocol but the
// one that opens a conversation. Package comply runs tests.
package jsont
