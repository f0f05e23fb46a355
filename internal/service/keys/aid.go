package keys

import (
	"context"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// AID returns the name across hubs of an agent of this hub, made from the hub's
// own AID, or "" for an agent that cannot have one.
func (s *Service) AID(id hub.AgentID) hub.AID {
	rest, ok := strings.CutPrefix(string(s.self), "aid://")
	domain, _, named := strings.Cut(rest, "/")
	switch {
	case id == hub.Operator || !ok || !named:
		return s.self
	case strings.ContainsAny(string(id), "._"):
		return "" // an AID has no such characters in its name
	}
	return hub.AID("aid://" + domain + "/" + string(id) + "@1.0.0")
}

// NameOf returns the name that an agent with the AID has on this hub. The agent
// need not exist.
func (s *Service) NameOf(aid hub.AID) (hub.AgentID, bool) {
	name, _, _ := strings.Cut(string(aid)[strings.LastIndex(string(aid), "/")+1:], "@")
	id := hub.AgentID(name)
	return id, id.Valid() && s.AID(id) == aid && aid != s.self
}

// Local returns the agent of this hub that has the AID, if there is one. The AID
// of the hub itself is that of its operator.
func (s *Service) Local(aid hub.AID) (hub.AgentID, bool) {
	if aid != "" && aid == s.self {
		return hub.Operator, true
	}
	id, ok := s.NameOf(aid)
	if !ok {
		return "", false
	}
	_, _, err := s.Lookup(context.Background(), id)
	return id, err == nil
}
