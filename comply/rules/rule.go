package rules

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/parley-agents/parley/comply/jsont"
)

// A Rule is something the protocol asks of an agent.
type Rule struct {
	ID    string      `json:"id"`
	Level jsont.Level `json:"level"`
	Text  string      `json:"text"`
	Docs  string      `json:"docs,omitempty"` // a link
	Fix   string      `json:"fix,omitempty"`  // what to do about a violation

	Class    Class `json:"class,omitempty"`    // how it can be checked
	Implied  bool  `json:"implied,omitempty"`  // it follows from the schema or from JSON-RPC, not from a sentence
	Unstable bool  `json:"unstable,omitempty"` // it is about a draft
}

// A Class says what it takes to check a rule.
type Class string

// The classes.
const (
	ByFrame      Class = "S" // any conversation shows it
	ByTest       Class = "D" // a test shows it
	ByCapability Class = "C" // a test shows it of an agent with a capability
	ByModel      Class = "M" // a test shows it if the model does as it is told
	ByFixture    Class = "F" // a test shows it with something beside the agent: a server, an empty home
	Unchecked    Class = "N" // nothing can be held against an agent
)

//go:embed rules.json
var ruleFile []byte

var table = sync.OnceValue(func() []Rule {
	var rules []Rule
	if err := json.Unmarshal(ruleFile, &rules); err != nil {
		panic(fmt.Sprintf("comply: the built-in rules are broken: %v", err)) // a test would have shown
	}
	return rules
})

// All returns the rules that are known here. Tests may name others.
func All() []Rule { return append([]Rule(nil), table()...) }

// Find returns the rule with that id; one that is not known is a MUST.
func Find(id string) Rule {
	for _, r := range table() {
		if r.ID == id {
			return r
		}
	}
	return Rule{ID: id, Level: jsont.Must}
}

// Known reports whether the table has a rule with that id.
func Known(id string) bool { return Find(id).Text != "" }

// unbreakable says of rules that leave something free why no agent can break them.
var unbreakable = map[string]string{
	"AUTH-10": "either is fine",
	"AUTH-11": "a person would have to log in",
	"CAN-19":  "nothing makes an agent give up something by itself",
	"CMD-01":  "either is fine",
	"CMD-06":  "commands may change at any time",
	"ELI-20":  "what happens on a page cannot be seen from here",
	"ERR-09":  "data may be anything",
	"MODE-06": "either is fine",
	"PERM-15": "either is fine",
	"PLAN-05": "plans may change in any way",
	"PRM-22":  "either is fine",
	"SDEL-04": "either is fine",
	"TERM-12": "either is fine",
}

// Unbreakable returns why nothing can be held against an agent by a rule, "" if
// something can.
func Unbreakable(id string) string { return unbreakable[id] }
