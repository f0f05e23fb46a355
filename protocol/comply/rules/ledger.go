package rules

import (
	"slices"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// checks are the checks of messages, by area. frameChecks run before them.
var checks = slices.Concat(
	errorChecks, extensionChecks, initializeChecks, sessionChecks, turnChecks, updateChecks, contentChecks,
	toolChecks, planChecks, settingChecks, permissionChecks, fileChecks, terminalChecks, elicitationChecks,
)

// Rules that are not in a table of checks, because their checks are not about one
// message alone.
const (
	ruleOneAnswer       = "RPC-03"
	ruleSameID          = "RPC-02"
	ruleArray           = "TRN-13"
	ruleCase            = "RPC-17"
	ruleOwnMember       = "EXT-05"
	ruleOwnUpdateMember = "UPD-21"
	ruleOwnCapability   = "INIT-18"
)

// LedgerIDs returns the ids of the rules that every conversation is checked
// against, in the order of [All].
func LedgerIDs() (ids []string) {
	checked := []string{ruleOneAnswer, ruleSameID, ruleArray, ruleCase, ruleOwnMember, ruleOwnUpdateMember, ruleOwnCapability}
	for _, c := range slices.Concat(frameChecks, checks) {
		checked = append(checked, c.rule)
	}
	for _, f := range flawRules {
		checked = append(checked, f.rule)
	}
	for _, rule := range problemRules {
		checked = append(checked, rule)
	}
	for _, r := range schemaRules {
		checked = append(checked, r.rule)
	}
	for _, r := range table() {
		if slices.Contains(checked, r.ID) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// A ledger goes through the log of one conversation and collects findings.
//
// The order of frames decides. For each entry the frames of the agent are checked
// against the state before them, and then the entry changes the state: an update
// after the end of its turn is late, although one entry earlier it would not have
// been. The log has the frames in the order in which the runner read and wrote
// them, so a frame that crossed another on the way is judged by the facts
// that the client could know. Each rule is noted once per level, with its first proof: an agent
// that makes one mistake in each of a thousand updates has one finding. One pass
// costs a run of all checks for each frame of the agent, and a validation of those
// in which no check found a flaw.
type ledger struct {
	test  *jsont.Test
	calls []*Call
	state *state
	// calls pairs requests of the client with their answers; state knows the rest.
	seen  map[string]bool // rules with their level
	found []Finding
	noted int // how many flaws were found so far, repeated ones included

	unknown []unknownMember // of the entry that is being judged
}

// An unknownMember is a member that the protocol does not define.
type unknownMember struct {
	rule  string
	level jsont.Level // "" for that of the rule
	text  string
}

func newLedger(t *jsont.Test, version schema.Version, calls []*Call) *ledger {
	return &ledger{test: t, calls: calls, state: newState(version, calls), seen: map[string]bool{}}
}

// Audit returns a finding for each rule that the agent broke in a conversation,
// whatever its test is about. calls are the requests of the client in the log.
// At the end of the log the checks run once more with an event that has no entry,
// for rules about things that were left undone. A lax test is judged by the checks
// of frames alone.
func Audit(t *jsont.Test, version schema.Version, log []*Entry, calls []*Call) []Finding {
	l := newLedger(t, version, calls)
	for _, e := range log {
		event := l.state.event(e)
		if e.Direction == jsonrpc.In {
			l.inspect(event)
		}
		l.state.apply(event)
	}
	if !t.Lax {
		l.run(checks, &event{Entry: &Entry{}, end: true})
	}
	return l.found
}

// inspect judges one entry of the agent.
// Checks run from the form to the meaning. The schema comes last and only without a
// flaw, so a mistake is named by the rule about it and not by the place in a
// schema.
func (l *ledger) inspect(e *event) {
	l.framing(e.Entry)
	if e.object == nil {
		return
	}
	before := l.noted
	l.run(frameChecks, e)
	if e.Class == jsont.Response && e.request == nil && !e.Taken {
		l.strayResponse(e.Entry)
	}
	if e.Class == jsont.NoMessage || e.Problem != nil || l.test.Lax {
		return
	}
	l.run(checks, e)
	l.checkMembers(e)
	if l.noted == before { // a check describes a flaw better than the schema
		l.checkSchema(e)
	}

	// A member with another name is missing under its own, which the schema names first.
	for _, actual := range l.unknown {
		l.note(actual.rule, actual.level, actual.text, e.Entry)
	}
	l.unknown = nil
}

// run applies a table of checks to an event.
func (l *ledger) run(table []check, e *event) {
	for i := range table {
		c := &table[i]
		if (c.in != 0 && c.in != l.state.version) || !c.on(e) {
			continue
		}
		e.proof = nil
		if flaw := c.flaw(l.state, e); flaw != "" {
			proof := e.proof
			if !e.end {
				proof = append(proof, e.Entry)
			}
			l.note(c.rule, c.level, flaw, proof...)
		}
	}
}

// note adds a finding unless the rule has one. level is "" for that of the rule.
func (l *ledger) note(rule string, level jsont.Level, actual string, proof ...*Entry) {
	l.noted++
	r := Find(rule)
	if level != "" {
		r.Level = level
	}
	key := rule + string(r.Level)
	if l.seen[key] {
		return
	}
	l.seen[key] = true
	f := NewFinding(r, l.test, r.Text, jsont.Shorten(actual, 500), proof...)
	f.Test = l.test.ID
	for _, q := range l.calls {
		if len(proof) > 0 && q.Answer == proof[len(proof)-1] && !slices.Contains(proof, q.Request) {
			f.Context = []Frame{q.Request.Frame()}
		}
	}
	l.found = append(l.found, *f)
}

// Rules about the form of answers that schemaRules does not list.
const (
	ruleResponse   = "RPC-04"
	ruleStopReason = "PRM-01"
)

// MalformedAnswer returns the finding that the answer of a call breaks a rule about
// the form of answers to its method, nil if it does not. It replays the log up to
// the answer, because some forms depend on the state of the conversation.
func MalformedAnswer(t *jsont.Test, version schema.Version, log []*Entry, calls []*Call, c *Call) *Finding {
	l := newLedger(t, version, calls)
	for _, e := range log {
		event := l.state.event(e)
		if e == c.Answer {
			l.inspect(event)
			break
		}
		l.state.apply(event)
	}
	for _, f := range l.found {
		if isForm(c.Request.Method, f.Rule) {
			f.Test, f.Frames = "", []Frame{c.Request.Frame(), c.Answer.Frame()}
			return &f
		}
	}
	return nil
}

// isForm reports whether a rule is about the form of answers to a method.
func isForm(method, rule string) bool {
	return rule == ruleResponse || (method == MethodPrompt && rule == ruleStopReason) ||
		slices.ContainsFunc(schemaRules, func(r schemaRule) bool { return r.message == method && r.rule == rule })
}
