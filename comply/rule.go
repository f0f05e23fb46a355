package comply

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// A Rule is something the protocol asks of an agent.
type Rule struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Docs  string `json:"docs,omitempty"` // a link
	Fix   string `json:"fix,omitempty"`  // what to do about a violation
}

//go:embed rules.json
var ruleFile []byte

var ruleTable = sync.OnceValue(func() []Rule {
	var rules []Rule
	if err := json.Unmarshal(ruleFile, &rules); err != nil {
		panic(fmt.Sprintf("comply: the built-in rules are broken: %v", err)) // a test would have shown
	}
	return rules
})

// Rules returns the rules that are known here. Tests may name others.
func Rules() []Rule { return append([]Rule(nil), ruleTable()...) }

// ruleOf returns the rule with that id; one that is not known is a MUST.
func ruleOf(id string) Rule {
	for _, r := range ruleTable() {
		if r.ID == id {
			return r
		}
	}
	return Rule{ID: id, Level: Must}
}
