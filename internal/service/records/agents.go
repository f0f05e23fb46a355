package records

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A recordedKey is a key as it follows from the journal.
type recordedKey struct {
	hub.Key
	Sum     string `json:"sum"`     // the digest; "" if the entry has none
	Revoked int64  `json:"revoked"` // row of the entry that revoked it
}

// recordAgent applies an entry about an agent, a key or a root.
func (v *verifier) recordAgent(e hub.Entry) {
	var f struct {
		Role    hub.Role    `json:"role"`
		Auditor bool        `json:"auditor"`
		Can     []string    `json:"can"`
		Agent   hub.AgentID `json:"agent"`
		Label   string      `json:"label"`
		Count   int         `json:"count"`
		Digest  string      `json:"sha256"`
	}

	id := hub.AgentID(e.Subject)
	switch e.Action {
	case actions.AgentAdded:
		if v.decodeFacts(e, &f) {
			v.Agents.put(e.Subject, hub.Agent{ID: id, Role: f.Role, Auditor: f.Auditor, State: hub.AgentActive, CreatedAt: e.At, Can: f.Can}, e)
		}
	case actions.AgentPaused, actions.AgentResumed:
		if a := v.Agents[e.Subject]; a != nil {
			a.Want.State = map[actions.Action]hub.AgentState{actions.AgentPaused: hub.AgentPaused, actions.AgentResumed: hub.AgentActive}[e.Action]
		}
	case actions.AgentRole:
		if a := v.Agents[e.Subject]; a != nil && v.decodeFacts(e, &f) {
			a.Want.Role = f.Role
		}

	case actions.KeyMinted:
		if !v.decodeFacts(e, &f) {
			return
		}
		if f.Agent == hub.Operator && strings.HasPrefix(f.Label, hub.HomeKeyLabel) { // the home has one key at a time
			v.revoke(f.Agent, e, func(label string) bool { return strings.HasPrefix(label, hub.HomeKeyLabel) })
		}
		v.Keys.put(e.Subject, recordedKey{Key: hub.Key{Agent: f.Agent, Label: f.Label, CreatedAt: e.At}, Sum: f.Digest}, e)
	case actions.KeyRevoked:
		if !v.decodeFacts(e, &f) {
			return
		}
		// If an archive was not read, some of the keys are not known here.
		if n := v.revoke(id, e, func(label string) bool { return f.Label == "" || label == f.Label }); n != f.Count && v.Complete {
			v.find(row(e.Seq), "it records %d revoked keys, but the journal has %d", f.Count, n)
		}

	case actions.RootAdded:
		v.Roots.put(e.Subject, hub.Root{Path: e.Subject, AddedBy: e.Actor, AddedAt: e.At}, e)
	case actions.RootRemoved:
		delete(v.Roots, e.Subject)
	}
}

// revoke ends the keys of an agent whose label matches, and returns how many.
func (v *verifier) revoke(agent hub.AgentID, e hub.Entry, match func(label string) bool) int {
	n := 0
	for _, r := range v.Keys {
		if k := &r.Want; k.Agent == agent && k.RevokedAt.IsZero() && match(k.Label) {
			k.RevokedAt, k.Revoked = e.At, e.Seq
			n++
		}
	}
	return n
}

// checkAgents compares the agents, keys and roots in the store with the journal.
func (v *verifier) checkAgents(r hub.Reader) error {
	if !v.Complete {
		v.Out.Unchecked = append(v.Out.Unchecked, "agents and keys: their records in archives were not read")
		return nil
	}

	agents, err := r.Agents()
	if err != nil {
		return err
	}
	for _, a := range agents {
		v.Out.Agents++
		v.Agents.check(v, "agent", string(a.ID), func(want hub.Agent, row int64) string { return agentDiffers(a, want, row) })
		keys, err := r.Keys(a.ID)
		if err != nil {
			return err
		}
		for _, k := range keys {
			v.Out.Keys++
			v.Keys.check(v, "key", string(k.ID), func(want recordedKey, row int64) string { return keyDiffers(k, want, row) })
		}
	}

	roots, err := r.Roots()
	for _, root := range roots {
		v.Roots.check(v, "root", root.Path, func(want hub.Root, row int64) string {
			return unless(root.AddedBy == want.AddedBy && root.AddedAt.Equal(want.AddedAt.Time), differsFrom, row)
		})
	}

	// The checks remove the records that they use. The rest is about things that the store lacks.
	v.Agents.missing(v, "agent")
	v.Keys.missing(v, "key")
	v.Roots.missing(v, "root")
	return err
}

// differsFrom is the sentence about a thing that is not as an entry recorded it.
const differsFrom = "it differs from journal row %d"

// unless returns a sentence about a row, or nothing if ok.
func unless(ok bool, sentence string, row int64) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(sentence, row)
}

func agentDiffers(a, want hub.Agent, row int64) string {
	switch {
	case a.Role != want.Role:
		return fmt.Sprintf("its role is %s, but journal row %d recorded %s", a.Role, row, want.Role)
	case !slices.Equal(a.Can, want.Can):
		return fmt.Sprintf("its abilities differ from journal row %d", row)
	case a.State != want.State:
		return fmt.Sprintf("it is %s, but the journal says %s", a.State, want.State)
	case a.Auditor != want.Auditor:
		return fmt.Sprintf("its auditor flag differs from journal row %d", row)
	}
	return unless(a.CreatedAt.Equal(want.CreatedAt.Time), "its time of creation differs from journal row %d", row)
}

func keyDiffers(k hub.Key, want recordedKey, row int64) string {
	switch {
	case k.Agent != want.Agent || k.Label != want.Label || !k.CreatedAt.Equal(want.CreatedAt.Time) || (want.Sum != "" && k.Digest() != want.Sum):
		return fmt.Sprintf(differsFrom, row)
	case want.RevokedAt.IsZero() && !k.RevokedAt.IsZero():
		return "it is revoked, but the journal does not record that"
	case !want.RevokedAt.IsZero() && k.RevokedAt.IsZero():
		return fmt.Sprintf("it is not revoked, but journal row %d records that it was", want.Revoked)
	}
	return unless(k.RevokedAt.Equal(want.RevokedAt.Time), "its time of revocation differs from journal row %d", want.Revoked)
}
