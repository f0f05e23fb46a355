package mcptools

import (
	"net/http"
	"slices"
	"sync"

	"github.com/parley-agents/parley/hub"
)

// maxPerAgent is how many sessions an agent may have at a time. A client that
// ends without a word leaves its session behind until it expires, so that the
// oldest gives way to a new one.
const maxPerAgent = 32

// sessions knows the sessions of each agent, the oldest first. Some may have
// expired.
type sessions struct {
	mu     sync.Mutex // guards of
	of     map[hub.AgentID][]string
	ending sync.WaitGroup // sessions that are being closed
}

// add notes a session of an agent, and returns the one that must end for it, or
// "".
func (s *sessions) add(agent hub.AgentID, id string) (surplus string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[hub.AgentID][]string{}
	}
	all := append(s.of[agent], id)
	if len(all) > maxPerAgent {
		surplus, all = all[0], slices.Delete(all, 0, 1)
	}
	s.of[agent] = all
	return surplus
}

func (s *sessions) remove(agent hub.AgentID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[agent] = slices.DeleteFunc(s.of[agent], func(other string) bool { return other == id })
}

// began notes the session that an answer has begun, if it has, and ends the one
// that is too many.
func (h *Handler) began(answer http.Header, agent hub.AgentID) {
	id := answer.Get(sessionHeader)
	if id == "" {
		return
	}
	surplus := h.sessions.add(agent, id)
	if surplus == "" {
		return
	}
	h.passes.revoke(surplus)
	for s := range h.server.Sessions() {
		if s.ID() == surplus {
			h.sessions.ending.Go(func() { s.Close() }) // waits for calls under way
			return
		}
	}
}
