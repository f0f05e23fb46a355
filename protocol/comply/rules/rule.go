package rules

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// A Rule is one demand of the protocol on agents, or on clients; see [Rule.ForClient].
// IDs are stable: baselines, requirements and reports of users name them. Text is a
// sentence without a full stop that an agent keeps; Fix is an imperative.
type Rule struct {
	ID    string      `json:"id"`
	Level jsont.Level `json:"level"`
	Text  string      `json:"text"`
	Docs  string      `json:"docs,omitempty"` // a link
	Harm  string      `json:"harm,omitempty"` // what breaks for a user of an agent that breaks it
	Fix   string      `json:"fix,omitempty"`  // advice for an agent that breaks it

	Class    Class `json:"class,omitempty"`    // the means to check it
	Implied  bool  `json:"implied,omitempty"`  // it follows from the schema or from JSON-RPC, not from a sentence
	Unstable bool  `json:"unstable,omitempty"` // it is about a draft
}

// A Class names the means that are needed to check a rule.
type Class string

// The classes.
const (
	ByFrame      Class = "S" // any conversation shows it
	ByTest       Class = "D" // a test shows it
	ByCapability Class = "C" // a test shows it of an agent with a capability
	ByModel      Class = "M" // a test shows it if the model obeys the prompt
	ByFixture    Class = "F" // a test shows it with something beside the agent: a server, an empty home
	Unchecked    Class = "N" // no agent can break it
)

//go:embed rules.json
var ruleFile []byte

// table holds the rules in the order of the file, which is that of the pages.
var table = sync.OnceValue(func() []Rule {
	var rules []Rule
	if err := json.Unmarshal(ruleFile, &rules); err != nil {
		panic(fmt.Sprintf("comply: the built-in rules are broken: %v", err)) // a test would have shown
	}
	return rules
})

// All returns the rules for agents of the built-in table. Tests may name others.
func All() []Rule { return append([]Rule(nil), table()...) }

// Find returns the rule with that id, for agents or clients. A rule that is not in the table
// is a MUST.
func Find(id string) Rule {
	list := table()
	if (Rule{ID: id}).ForClient() {
		list = clientTable()
	}
	for _, r := range list {
		if r.ID == id {
			return r
		}
	}
	return Rule{ID: id, Level: jsont.Must}
}

// Known reports whether the table has a rule with that id.
func Known(id string) bool { return Find(id).Text != "" }

// unbreakable has the reason why no agent can break a rule that leaves something
// free.
var unbreakable = map[string]string{
	"AUTH-10": "either is fine",
	"AUTH-11": "a person would have to log in",
	"CAN-19":  "no test can make an agent give up by itself",
	"CMD-01":  "either is fine",
	"CMD-06":  "commands may change at any time",
	"ELI-20":  "the client cannot see what happens on a page",
	"ERR-09":  "data may be anything",
	"MODE-06": "either is fine",
	"PERM-15": "either is fine",
	"PLAN-05": "plans may change in any way",
	"PRM-22":  "either is fine",
	"SDEL-04": "either is fine",
	"TERM-12": "either is fine",
}

// Unbreakable returns the reason why no agent can break a rule, "" if one can.
func Unbreakable(id string) string { return unbreakable[id] }
