// Package goodagent is an agent that keeps every rule of the Agent Client
// Protocol, and variants of it that break one each. It is how the compliance
// tests are tested: the agent must pass all of them, and each variant, a
// [Mutant], must be caught by those that are about its rule.
//
// The agent has no model. It does what directives in its prompts say, in the
// language of package model, as an agent would whose model was told so:
//
//	parley:write path=a.txt text=hello
//
// Its own tools, for `parley:tool name=NAME`, say what no model would make it
// say: see [Tools]. It asks before it writes or runs something, unless the mode
// of the session is auto. Sessions are kept in the home folder.
//
// Only tests and tools import this package.
//
// It is tested by protocol/comply/suite_test.go and package proof, which run every compliance test
// against it and its variants.
package goodagent
