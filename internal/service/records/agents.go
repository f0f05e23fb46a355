package records

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A recordedAgent is an agent as it follows from the journal.
type recordedAgent struct {
	hub.Agent
	row int64 // of the entry that added it
}

// A recordedKey is a key as it follows from the journal.
type recordedKey struct {
	hub.Key
	digest  string // "" if the entry has none
	row     int64  // of the entry that minted it
	revoked int64  // row of the entry that revoked it
}

// recordAgent applies an entry about an agent or a key.
func (v *verifier) recordAgent(e hub.Entry) {
	var f struct {
		Role    hub.Role    `json:"role"`
		Auditor bool        `json:"auditor"`
		Agent   hub.AgentID `json:"agent"`
		Label   string      `json:"label"`
		Count   int         `json:"count"`
		Digest  string      `json:"sha256"`
	}
	id := hub.AgentID(e.Subject)
	switch e.Action {
	case hub.ActionAgentAdded:
		if v.decodeFacts(e, &f) {
			v.agents[id] = &recordedAgent{hub.Agent{ID: id, Role: f.Role, Auditor: f.Auditor, State: hub.AgentActive, CreatedAt: e.At}, e.Seq}
		}
	case hub.ActionAgentPaused, hub.ActionAgentResumed:
		if a := v.agents[id]; a != nil {
			a.State = map[hub.Action]hub.AgentState{hub.ActionAgentPaused: hub.AgentPaused, hub.ActionAgentResumed: hub.AgentActive}[e.Action]
		}
	case hub.ActionKeyMinted:
		if !v.decodeFacts(e, &f) {
			return
		}
		if f.Agent == hub.Operator { // has one key at a time
			v.revoke(f.Agent, "", e)
		}
		key := hub.KeyID(e.Subject)
		v.keys[key] = &recordedKey{Key: hub.Key{ID: key, Agent: f.Agent, Label: f.Label, CreatedAt: e.At}, digest: f.Digest, row: e.Seq}
	case hub.ActionKeyRevoked:
		if !v.decodeFacts(e, &f) {
			return
		}
		if n := v.revoke(id, f.Label, e); n != f.Count && v.complete {
			v.find(row(e.Seq), "it says that %d keys were revoked, by the journal it was %d", f.Count, n)
		}
	}
}

// revoke ends the keys of an agent that have a label, or all of them, and
// returns how many.
func (v *verifier) revoke(agent hub.AgentID, label string, e hub.Entry) int {
	n := 0
	for _, k := range v.keys {
		if k.Agent == agent && k.RevokedAt.IsZero() && (label == "" || k.Label == label) {
			k.RevokedAt, k.revoked = e.At, e.Seq
			n++
		}
	}
	return n
}

// checkAgents compares the agents and keys in the store with the journal.
func (v *verifier) checkAgents(r hub.Reader) error {
	agents, err := r.Agents()
	if err != nil {
		return err
	}
	if !v.complete {
		v.out.Unchecked = append(v.out.Unchecked, "agents, keys and roots: what archives record about them was not read")
		return nil
	}
	for _, a := range agents {
		v.out.Agents++
		v.checkAgent(a)
		delete(v.agents, a.ID)
		keys, err := r.Keys(a.ID)
		if err != nil {
			return err
		}
		for _, k := range keys {
			v.out.Keys++
			v.checkKey(k)
			delete(v.keys, k.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.agents)) {
		v.find("agent "+string(id), missingThough, v.agents[id].row)
	}
	for _, id := range slices.Sorted(maps.Keys(v.keys)) {
		v.find("key "+string(id), missingThough, v.keys[id].row)
	}
	return nil
}

func (v *verifier) checkAgent(a hub.Agent) {
	where := "agent " + string(a.ID)
	want := v.agents[a.ID]
	switch {
	case want == nil:
		v.find(where, notRecorded)
	case a.Role != want.Role:
		v.find(where, "its role is %s, journal row %d recorded %s", a.Role, want.row, want.Role)
	case a.Auditor != want.Auditor:
		v.find(where, "whether it is an auditor differs from what journal row %d recorded", want.row)
	case !a.CreatedAt.Equal(want.CreatedAt.Time):
		v.find(where, "its time of creation differs from what journal row %d recorded", want.row)
	case a.State != want.State:
		v.find(where, "it is %s, by the journal it is %s", a.State, want.State)
	}
}

func (v *verifier) checkKey(k hub.Key) {
	where := "key " + string(k.ID)
	want := v.keys[k.ID]
	switch {
	case want == nil:
		v.find(where, notRecorded)
	case k.Agent != want.Agent || k.Label != want.Label || !k.CreatedAt.Equal(want.CreatedAt.Time) || want.digest != "" && k.Digest() != want.digest:
		v.find(where, "it differs from what journal row %d recorded", want.row)
	case want.RevokedAt.IsZero() && !k.RevokedAt.IsZero():
		v.find(where, "it is revoked, of which the journal does not know")
	case !want.RevokedAt.IsZero() && k.RevokedAt.IsZero():
		v.find(where, "it is not revoked, though journal row %d records that it was", want.revoked)
	case !k.RevokedAt.Equal(want.RevokedAt.Time):
		v.find(where, "it was revoked at another time than journal row %d says", want.revoked)
	}
}
