// Package goodclient is a client of the Agent Client Protocol that keeps every rule, and
// mutants of it that break one rule each. The compliance tests of clients are tested with it.
//
// It is written by hand, on nothing but the standard library: our own client could share a
// mistake with the tests. It starts an agent, sends one prompt, answers every request of
// the agent, and ends. Ctrl-C cancels the turn.
//
// A mutant is named after the rule that it breaks. Each line with the word breaks is one
// mutant; everything else is the good client.
package goodclient
