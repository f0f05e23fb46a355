package comply

import (
	"slices"

	"github.com/parley-agents/parley/acp/schema"
	"github.com/parley-agents/parley/jsonrpc"
)

// A duty is a rule that any conversation can show to be broken.
type duty struct {
	rule  string
	level Level // "" for that of the rule
	on    selector
	in    schema.Version // the only version it is for; 0 for both

	// flaw says what is wrong about an event, "" if nothing is.
	flaw func(s *scene, e *event) string
}

// A selector reports whether a duty is about an event.
type selector func(e *event) bool

// duties are all of them besides those about frames, by area.
var duties = slices.Concat(
	errorDuties, extensionDuties, initializeDuties, sessionDuties, turnDuties, updateDuties, contentDuties,
	toolDuties, planDuties, settingDuties, permissionDuties, fileDuties, terminalDuties, elicitationDuties,
)

// LedgerRules returns the ids of the rules that every conversation is checked
// against, sorted as the rules are.
func LedgerRules() (ids []string) {
	claimed := map[string]bool{}
	for _, c := range slices.Concat(frameDuties, duties) {
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
	for _, r := range ruleTable() {
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
	test  *Test
	scene *scene
	seen  map[string]bool
	found []Finding
	noted int // how many flaws were found so far, repeated ones included
}

func newLedger(t *Test, version schema.Version, requests []*asked) *ledger {
	return &ledger{test: t, scene: newScene(version, requests), seen: map[string]bool{}}
}

// audit returns what a ledger finds.
func audit(t *Test, version schema.Version, log []*entry, requests []*asked) []Finding {
	l := newLedger(t, version, requests)
	for _, e := range log {
		event := l.scene.event(e)
		if e.dir == jsonrpc.In {
			l.look(event, requests)
		}
		l.scene.follow(event)
	}
	if !t.lax {
		l.run(duties, &event{entry: &entry{}, end: true})
	}
	return l.found
}

// look judges one thing that the agent said.
func (l *ledger) look(e *event, requests []*asked) {
	l.framing(e.entry)
	if e.object == nil {
		return
	}
	before := l.noted
	l.run(frameDuties, e)
	if e.class == classResponse && e.request == nil && !e.taken {
		l.unasked(e.entry, requests)
	}
	if e.class == classNone || e.problem != nil || l.test.lax {
		return
	}
	l.run(duties, e)
	l.lint(e)
	if l.noted == before { // else what is wrong is known already
		l.shape(e)
	}
}

// run applies a table.
func (l *ledger) run(table []duty, e *event) {
	for i := range table {
		c := &table[i]
		if c.in != 0 && c.in != l.scene.version || !c.on(e) {
			continue
		}
		e.because = nil
		if flaw := c.flaw(l.scene, e); flaw != "" {
			proof := e.because
			if !e.end {
				proof = append(proof, e.entry)
			}
			l.note(c.rule, c.level, flaw, proof...)
		}
	}
}

func (l *ledger) note(rule string, level Level, actual string, proof ...*entry) {
	l.noted++
	r := ruleOf(rule)
	if level != "" {
		r.Level = level
	}
	key := rule + string(r.Level)
	if l.seen[key] {
		return
	}
	l.seen[key] = true
	f := newFinding(r, l.test, r.Text, cut(actual, 500), proof...)
	f.Test = l.test.ID
	l.found = append(l.found, *f)
}
