package client

import (
	"slices"
	"time"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// A Need is something that a client does only if its user asks for it, so that a scenario may
// need another command.
type Need string

// The needs. A command for one of them may have the words in braces.
const (
	NeedLoad   Need = "load"   // load the stored session {session}
	NeedMode   Need = "mode"   // set the mode {mode}
	NeedOption Need = "option" // set the option {option} to {value}
	NeedLogin  Need = "login"  // log in with the method {method}
)

// Needs returns all needs.
func Needs() []Need { return []Need{NeedLoad, NeedMode, NeedOption, NeedLogin} }

// A Scenario is one test of a client. The fields below Press are the part of the agent; those
// that are functions may be nil.
type Scenario struct {
	ID    string
	Title string
	Area  string
	Rules []string // that the scenario can show to be broken, besides those of every frame
	Need  Need     // "" for a scenario that any prompt starts

	Protocol int // the version that it can be played in; 0 for every version

	Press string // what a person does in a client with a window, besides sending a prompt

	initialize func(c *conversation) object // the result of initialize; nil for an error
	delay      time.Duration                // before initialize is answered
	login      bool                         // sessions need a login
	old        bool                         // the agent speaks version 1, whatever is offered
	early      func(c *conversation)        // before session/new is answered
	modes      object                       // of a new session
	options    bool                         // a new session has options
	members    object                       // further members of the answer to session/new
	replay     func(c *conversation)        // the conversation of a stored session
	reach      string                       // the rule that is broken if no prompt comes

	turn     func(c *conversation, prompt *rules.Entry)
	silent   bool                            // the turn ends the turn itself, or nothing does
	refuses  bool                            // the answer to the prompt is an error
	patient  bool                            // a typed answer waits until the turn allows it
	stubborn bool                            // the agent does not end with its input
	after    func(c *conversation, e ending) // judges after the client has ended
}

// An ending is how a client ended after a scenario.
type ending struct {
	hung bool // it had to be ended by a signal, which other scenarios did not need
}

// alone reports whether the scenario needs an agent process of its own: it differs from the
// others before the prompt, or in the end of the process.
func (s *Scenario) alone() bool {
	differs := s.initialize != nil || s.delay > 0 || s.login || s.early != nil || s.replay != nil
	offers := s.modes != nil || s.options || s.members != nil || s.old
	return differs || offers || s.reach != "" || s.silent || s.stubborn || s.after != nil
}

// Scenarios returns the built-in scenarios. The first one is the usual conversation.
func Scenarios() []*Scenario {
	return slices.Concat(startScenarios, messageScenarios, permissionScenarios, updateScenarios, settingScenarios, fileScenarios, terminalScenarios, processScenarios, versionScenarios)
}

// Select returns the scenarios with one of the ids, or with one of the rules; all if both are
// empty. A rule that every frame is checked for chooses all.
func Select(all []*Scenario, ids, ruleIDs []string) []*Scenario {
	if len(ids)+len(ruleIDs) == 0 {
		return all
	}
	var out []*Scenario
	for _, s := range all {
		byRule := slices.ContainsFunc(ruleIDs, func(id string) bool { return slices.Contains(s.Rules, id) || (inLedger(id) && s == all[0]) })
		if slices.Contains(ids, s.ID) || byRule {
			out = append(out, s)
		}
	}
	return out
}
