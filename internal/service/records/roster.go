package records

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A roster is who may come in, as the journal tells it.
type roster struct {
	agents map[hub.AgentID]*recordedAgent
	keys   map[hub.KeyID]*recordedKey
}

// A recordedAgent is an agent and the entry that records its beginning.
type recordedAgent struct {
	hub.Agent
	row int64
}

// A recordedKey is a key and the entries that record it.
type recordedKey struct {
	hub.Key
	digest  string // "" if the entry has none
	row     int64
	revoked int64 // row
}

func newRoster() *roster {
	return &roster{map[hub.AgentID]*recordedAgent{}, map[hub.KeyID]*recordedKey{}}
}

// replay lets an entry take effect.
func (p *roster) replay(v *verifier, e hub.Entry) {
	var f struct {
		Role    hub.Role    `json:"role"`
		Auditor bool        `json:"auditor"`
		Agent   hub.AgentID `json:"agent"`
		Label   string      `json:"label"`
		Count   int         `json:"count"`
		Digest  string      `json:"sha256"`
	}
	switch e.Action {
	case hub.ActionAgentAdded, hub.ActionKeyMinted, hub.ActionKeyRevoked:
		if err := json.Unmarshal(e.Facts, &f); err != nil {
			v.find(row(e.Seq), "its facts cannot be read: %v", err)
			return
		}
	}
	switch e.Action {
	case hub.ActionAgentAdded:
		id := hub.AgentID(e.Subject)
		p.agents[id] = &recordedAgent{hub.Agent{ID: id, Role: f.Role, Auditor: f.Auditor, State: hub.AgentActive, CreatedAt: e.At}, e.Seq}
	case hub.ActionAgentPaused:
		p.set(hub.AgentID(e.Subject), hub.AgentPaused)
	case hub.ActionAgentResumed:
		p.set(hub.AgentID(e.Subject), hub.AgentActive)
	case hub.ActionKeyMinted:
		if f.Agent == hub.Operator { // has one key at a time
			p.revoke(f.Agent, "", e)
		}
		id := hub.KeyID(e.Subject)
		p.keys[id] = &recordedKey{Key: hub.Key{ID: id, Agent: f.Agent, Label: f.Label, CreatedAt: e.At}, digest: f.Digest, row: e.Seq}
	case hub.ActionKeyRevoked:
		if n := p.revoke(hub.AgentID(e.Subject), f.Label, e); n != f.Count && v.complete {
			v.find(row(e.Seq), "it says that %d keys were revoked, by the journal it was %d", f.Count, n)
		}
	}
}

func (p *roster) set(id hub.AgentID, s hub.AgentState) {
	if a := p.agents[id]; a != nil {
		a.State = s
	}
}

// revoke ends the keys of an agent, those with a label or all.
func (p *roster) revoke(agent hub.AgentID, label string, e hub.Entry) int {
	n := 0
	for _, k := range p.keys {
		if k.Agent == agent && k.RevokedAt.IsZero() && (label == "" || k.Label == label) {
			k.RevokedAt, k.revoked = e.At, e.Seq
			n++
		}
	}
	return n
}

// checkPeople compares agents and keys with the roster.
func (v *verifier) checkPeople(r hub.Reader) error {
	agents, err := r.Agents()
	if err != nil {
		return err
	}
	if !v.complete {
		v.out.Unchecked = append(v.out.Unchecked, "agents and keys: what archives record about them was not read")
		return nil
	}
	for _, a := range agents {
		v.out.Agents++
		v.checkAgent(a)
		keys, err := r.Keys(a.ID)
		if err != nil {
			return err
		}
		for _, k := range keys {
			v.out.Keys++
			v.checkKey(k)
			delete(v.people.keys, k.ID)
		}
		delete(v.people.agents, a.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(v.people.agents)) {
		v.find("agent "+string(id), "it is missing, though journal row %d records it", v.people.agents[id].row)
	}
	for _, id := range slices.Sorted(maps.Keys(v.people.keys)) {
		v.find("key "+string(id), "it is missing, though journal row %d records it", v.people.keys[id].row)
	}
	return nil
}

func (v *verifier) checkAgent(a hub.Agent) {
	where := "agent " + string(a.ID)
	want := v.people.agents[a.ID]
	switch {
	case want == nil:
		v.find(where, "no journal row records it")
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
	want := v.people.keys[k.ID]
	switch {
	case want == nil:
		v.find(where, "no journal row records it")
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
