// Package rules has the rules that the Agent Client Protocol asks of an agent, and
// the ledger: the checks that every conversation passes, whatever its test is
// about.
//
//	for _, f := range rules.Audit(test, schema.V1, log, calls) {
//		fmt.Printf("%s (%s): %s\n", f.Rule, f.Level, f.Actual)
//	}
//
// A conversation is a log of entries in both directions. [Audit] goes through the
// log once, keeps the state that a client could know at each point (open sessions,
// running turns, tool calls, terminals), and asks each check about each frame of
// the agent. A check is one entry in a table: the id of a rule, the frames it is
// about, and a function that describes the flaw. The tables stand in one file per
// area of the protocol. Behind the checks stands the schema: a message in which no
// check found a flaw is validated, and a departure is a finding under the rule that
// schemaRules names.
//
// The files rules.json and examples.txt hold the rules and their examples. A new
// rule needs an example in which an agent keeps it, and one in which an agent
// breaks it unless none can. Tests let the ledger judge the examples, behind an
// opening that they leave out.
//
// The same log always gives the same findings, in the same order. The package does
// not use our own types of the protocol, so that a mistake in them cannot hide a
// mistake of an agent.
//
// # How to add a check
//
// Write the rule in rules.json and its examples in examples.txt, add an entry to
// the table of its area, and put the text of the rule above the entry as a comment;
// a test compares the two. The function describes the flaw from the point of view
// of a reader who sees the frame: which member has which value, or which frame came
// when. It returns "" if it cannot tell, because a wrong finding costs an author
// more than a missing one. A rule about a sequence needs a fact in state; facts are
// changed in apply only, after the checks of the frame have run.
//
// A rule that only a test can show, because the agent must first be brought into a
// situation, has no check here. Its class says so.
package rules
