package sandbox

import (
	"slices"
	"strings"
)

// A Kind says what a tool call does. Agents may use other kinds than these;
// an unknown kind is taken for the most dangerous.
type Kind string

// The kinds.
const (
	KindRead    Kind = "read"    // reads files or data
	KindSearch  Kind = "search"  // looks for something
	KindThink   Kind = "think"   // has no effect
	KindEdit    Kind = "edit"    // changes or makes files
	KindMove    Kind = "move"    // renames files
	KindDelete  Kind = "delete"  // removes files
	KindExecute Kind = "execute" // runs a command
	KindFetch   Kind = "fetch"   // goes to the network, where it may also carry data out
	KindOther   Kind = "other"   // says nothing
)

// A Policy says which tool calls are let through without a question.
type Policy string

// The policies.
const (
	PolicyNone  Policy = "none"  // nothing
	PolicyRead  Policy = "read"  // what only looks
	PolicyWrite Policy = "write" // what looks at or changes files
	PolicyAsk   Policy = "ask"   // whatever the person who is asked lets through
	PolicyYolo  Policy = "yolo"  // everything
)

// Policies lists the policies.
func Policies() []Policy {
	return []Policy{PolicyNone, PolicyRead, PolicyWrite, PolicyAsk, PolicyYolo}
}

// ParsePolicy returns the policy of that name.
func ParsePolicy(name string) (Policy, error) {
	if p := Policy(name); slices.Contains(Policies(), p) {
		return p, nil
	}
	var names []string
	for _, p := range Policies() {
		names = append(names, string(p))
	}
	return "", errorf(CodeInvalid, "no policy %q; use one of %s", name, strings.Join(names, ", "))
}

// A Verdict is what a policy says about a tool call.
type Verdict string

// The verdicts.
const (
	Allow  Verdict = "allow"
	Reject Verdict = "reject"
	Ask    Verdict = "ask"
)

// verdicts is the whole policy: what each says about each kind, and under
// unknown about every other kind.
var verdicts = map[Policy]map[Kind]Verdict{
	PolicyNone: {unknown: Reject},
	PolicyRead: {
		KindRead: Allow, KindSearch: Allow, KindThink: Allow,
		unknown: Reject,
	},
	PolicyWrite: {
		KindRead: Allow, KindSearch: Allow, KindThink: Allow,
		KindEdit: Allow, KindMove: Allow, KindDelete: Allow,
		unknown: Reject,
	},
	PolicyAsk:  {unknown: Ask},
	PolicyYolo: {unknown: Allow},
}

// unknown stands for every kind that a policy does not name.
const unknown Kind = ""

// Verdict returns what p says about a tool call of that kind. A policy that
// does not exist lets nothing through.
func (p Policy) Verdict(kind Kind) Verdict {
	rules, ok := verdicts[p]
	if !ok {
		return Reject
	}
	if v, ok := rules[kind]; ok {
		return v
	}
	return rules[unknown]
}
