package keys

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// AID returns the name across hubs of an agent of this hub, made from the hub's own
// AID. The name in an AID is made of words joined by dashes: for an agent whose name
// has a dot or an underscore it is those words and the beginning of the name's hash,
// so that "a.b", "a_b" and "a-b" are three agents.
func (s *Service) AID(id hub.AgentID) coord.AID {
	domain := s.domain()
	if id == hub.Operator || domain == "" {
		return s.self
	}
	name := string(id)
	if strings.ContainsAny(name, "._") {
		words := strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '_' || r == '-' })
		sum := sha256.Sum256([]byte(name))
		name = strings.Join(append(words, hex.EncodeToString(sum[:5])), "-")
	}
	return coord.AID("aid://" + domain + "/" + name + "@1.0.0")
}

// Local returns the agent of this hub that has the AID, if there is one. The AID
// of the hub itself is that of its operator.
func (s *Service) Local(aid coord.AID) (hub.AgentID, bool) {
	if aid != "" && aid == s.self {
		return hub.Operator, true
	}
	_, name := aid.Split()
	if id := hub.AgentID(name); id.Valid() && s.AID(id) == aid {
		if _, _, err := s.Lookup(context.Background(), id); err == nil {
			return id, true
		}
	}
	id, ok := s.dotted()[aid]
	return id, ok
}

// dotted returns the agents whose names cannot be read from their AIDs.
func (s *Service) dotted() map[coord.AID]hub.AgentID {
	s.mu.RLock()
	known, epoch := s.byAID, s.epoch
	s.mu.RUnlock()
	if known != nil {
		return known
	}
	agents, err := hub.Read(context.Background(), s.store, hub.Reader.Agents)
	if err != nil {
		return nil // as if there were none, until the store can be read again
	}
	known = map[coord.AID]hub.AgentID{}
	for _, a := range agents {
		if strings.ContainsAny(string(a.ID), "._") {
			known[s.AID(a.ID)] = a.ID
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shared && s.epoch == epoch {
		s.byAID = known
	}
	return known
}

// Taken reports whether an AID, in whichever version, is that of this hub or of one of
// its agents. So is the plain name of an agent.
func (s *Service) Taken(aid coord.AID) bool {
	if aid.Same(s.self) {
		return true
	}
	if domain, name := aid.Split(); domain != "" {
		own, _ := s.self.Split()
		_, ok := s.Local(coord.AID("aid://" + s.domain() + "/" + name + "@1.0.0"))
		return ok && domain == own
	}
	_, _, err := s.Lookup(context.Background(), hub.AgentID(aid))
	return hub.AgentID(aid).Valid() && err == nil
}

// domain returns the domain of this hub as its AID spells it, "" if it has none.
func (s *Service) domain() string {
	if domain, _ := s.self.Split(); domain == "" {
		return ""
	}
	domain, _, _ := strings.Cut(strings.TrimPrefix(string(s.self), "aid://"), "/")
	return domain
}
