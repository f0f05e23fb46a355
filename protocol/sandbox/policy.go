package sandbox

import "slices"

// A Kind is the effect of an action. Agents may use other kinds than these; an
// unknown kind counts as the most dangerous.
type Kind string

// The kinds.
const (
	KindRead    Kind = "read"    // reads files or data
	KindSearch  Kind = "search"  // searches files or data
	KindThink   Kind = "think"   // has no effect
	KindEdit    Kind = "edit"    // changes or makes files
	KindMove    Kind = "move"    // renames files
	KindDelete  Kind = "delete"  // removes files
	KindExecute Kind = "execute" // runs a command
	KindFetch   Kind = "fetch"   // uses the network, which may also send data out
	KindOther   Kind = "other"   // does not say
)

// A Policy decides which actions are allowed without a question.
type Policy string

// The policies.
const (
	PolicyNone  Policy = "none"  // no action
	PolicyRead  Policy = "read"  // reading and searching
	PolicyWrite Policy = "write" // reading, searching and changing files
	PolicyAsk   Policy = "ask"   // the actions that a person allows
	PolicyYolo  Policy = "yolo"  // every action
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
	return "", errorf(CodeInvalid, "unknown policy %q: use one of %v", name, Policies())
}

// A Verdict is the decision of a policy about an action.
type Verdict string

// The verdicts.
const (
	Allow  Verdict = "allow"
	Reject Verdict = "reject"
	Ask    Verdict = "ask"
)

// verdicts holds the verdict of each policy on each kind. The entry unknown is for
// all kinds that the policy does not name.
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

// Verdict returns the decision of p about an action. An unknown policy allows
// nothing.
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
