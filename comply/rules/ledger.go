package rules

import (
	"slices"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/jsonrpc"

	"github.com/parley-agents/parley/comply/jsont"
)

// A check is a rule that any conversation can show to be broken.
type check struct {
	rule  string
	level jsont.Level // "" for that of the rule
	on    selector
	in    schema.Version // the only version it is for; 0 for both

	// flaw says what is wrong about an event, "" if nothing is.
	flaw func(s *state, e *event) string
}

// A selector reports whether a duty is about an event.
type selector func(e *event) bool

// checks are all of them besides those about frames, by area.
var checks = slices.Concat(
	errorChecks, extensionChecks, initializeChecks, sessionChecks, turnChecks, updateChecks, contentChecks,
	toolChecks, planChecks, settingChecks, permissionChecks, fileChecks, terminalChecks, elicitationChecks,
)

// LedgerIDs returns the ids of the rules that every conversation is checked
// against, sorted as the rules are.
func LedgerIDs() (ids []string) {
	claimed := map[string]bool{}
	for _, c := range slices.Concat(frameChecks, checks) {
		claimed[c.rule] = true
	}
	for _, f := range flawRules {
		claimed[f.rule] = true
	}
	for _, rule := range problemRules {
		claimed[rule] = true
	}
	for _, s := range shapeRules {
		claimed[s.rule] = true
	}
	for _, rule := range []string{ruleOneAnswer, ruleSameID, ruleArray, ruleCase, ruleOwnMember, ruleOwnUpdateMember, ruleOwnCapability} {
		claimed[rule] = true
	}
	for _, r := range table() {
		if claimed[r.ID] {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// Rules that are not in the table of checks, because their checks are not about
// one event alone.
const (
	ruleOneAnswer       = "RPC-03"
	ruleSameID          = "RPC-02"
	ruleArray           = "TRN-13"
	ruleCase            = "RPC-17"
	ruleOwnMember       = "EXT-05"
	ruleOwnUpdateMember = "UPD-21"
	ruleOwnCapability   = "INIT-18"
)

// A ledger goes through a conversation and notes what breaks a rule on its own,
// whatever the test was about. Each rule is noted once, with its first proof.
type ledger struct {
	test  *jsont.Test
	state *state
	seen  map[string]bool
	found []Finding
	noted int // how many flaws were found so far, repeated ones included
}

func newLedger(t *jsont.Test, version schema.Version, requests []*Call) *ledger {
	return &ledger{test: t, state: newState(version, requests), seen: map[string]bool{}}
}

// Audit returns what a ledger finds.
func Audit(t *jsont.Test, version schema.Version, log []*Entry, requests []*Call) []Finding {
	l := newLedger(t, version, requests)
	for _, e := range log {
		event := l.state.event(e)
		if e.Direction == jsonrpc.In {
			l.inspect(event, requests)
		}
		l.state.apply(event)
	}
	if !t.Lax {
		l.run(checks, &event{Entry: &Entry{}, end: true})
	}
	return l.found
}

// inspect judges one thing that the agent said.
func (l *ledger) inspect(e *event, requests []*Call) {
	l.framing(e.Entry)
	if e.object == nil {
		return
	}
	before := l.noted
	l.run(frameChecks, e)
	if e.Class == jsont.Response && e.request == nil && !e.Taken {
		l.strayResponse(e.Entry, requests)
	}
	if e.Class == jsont.NoMessage || e.Problem != nil || l.test.Lax {
		return
	}
	l.run(checks, e)
	l.lint(e)
	if l.noted == before { // else what is wrong is known already
		l.shape(e)
	}
}

// run applies a table.
func (l *ledger) run(table []check, e *event) {
	for i := range table {
		c := &table[i]
		if c.in != 0 && c.in != l.state.version || !c.on(e) {
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
	l.found = append(l.found, *f)
}

// Rules about the form of answers that shapeRules does not list.
const (
	ruleResponse   = "RPC-04"
	ruleStopReason = "PRM-01"
)

// MalformedAnswer returns the finding that the answer of a call breaks a rule about the
// form of answers to its method, nil if it does not. The log is replayed up to the
// answer, because some forms depend on the state of the conversation.
func MalformedAnswer(t *jsont.Test, version schema.Version, log []*Entry, calls []*Call, c *Call) *Finding {
	l := newLedger(t, version, calls)
	for _, e := range log {
		event := l.state.event(e)
		if e == c.Answer {
			l.inspect(event, calls)
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
	return rule == ruleResponse || method == MethodPrompt && rule == ruleStopReason ||
		slices.ContainsFunc(shapeRules, func(r shapeRule) bool { return r.is == method && r.rule == rule })
}
