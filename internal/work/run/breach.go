package run

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A Breach names files in the folder of an agent that changed in a run although neither
// the policy nor a person let the agent change them. Another program that works in the
// folder may have changed them: the comparison shows that they changed, not by whom.
type Breach struct {
	Policy sandbox.Policy `json:"policy"`
	Files  []string       `json:"files"`          // relative to the folder, with slashes
	More   int            `json:"more,omitempty"` // files that are not named
}

// PolicyBreach is the kind of the finding about a breach.
const PolicyBreach = evidence.PolicyBreach

// maxBreach is the number of files that a breach names.
const maxBreach = 20

// breach returns the breach that the changes of the run show, nil for none. A change
// after which a person allowed a command, or an action for all turns, is none, because it
// may come from that.
func (e *execution) breach(d evidence.Diff) *Breach {
	policy := cmp.Or(e.opts.Agent.Policy, sandbox.PolicyNone)
	files, _ := e.opts.Consent.Uncovered(policy, e.spec.Dir, e.base.InFolder(d))
	if len(files) == 0 {
		return nil
	}
	b := &Breach{Policy: policy, More: max(0, len(files)-maxBreach)}
	for _, file := range files[:len(files)-b.More] {
		if rel, err := filepath.Rel(e.base.Folder(), file); err == nil {
			file = filepath.ToSlash(rel)
		}
		b.Files = append(b.Files, file)
	}
	return b
}

// String returns the breach for people.
func (b *Breach) String() string {
	names := strings.Join(b.Files, ", ")
	if b.More > 0 {
		names += fmt.Sprintf(" and %d more", b.More)
	}
	return fmt.Sprintf("files changed against the policy %s: %s; the agent did not ask, or another program works in its folder", b.Policy, names)
}

// finding returns the breach as a part of the evidence.
func (b *Breach) finding() evidence.Finding {
	return evidence.Finding{Kind: PolicyBreach, Claim: "policy " + string(b.Policy), Found: b.String()}
}
