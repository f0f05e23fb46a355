package keptwork

import (
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// aloneAfter is the time without an act of another agent after which an agent is alone in a
// repository.
const aloneAfter = time.Hour

// Known returns the tops of the working trees of the repository of a tree, and of trees in which
// agents were at work.
func (s *Service) Known(t hub.WorkingTree) []string {
	out := s.trees.Siblings(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	for top := range s.acted {
		if !slices.Contains(out, top) {
			out = append(out, top)
		}
	}
	return out
}

// A visit is the last act of an agent in a tree.
type visit struct {
	repository string
	at         time.Time
}

// visited notes that an act of an agent in a tree begins or ends. The caller holds mu.
func (s *Service) visited(t hub.WorkingTree, agent hub.AgentID) {
	if s.acted[t.Path] == nil {
		s.acted[t.Path] = map[hub.AgentID]visit{}
	}
	s.acted[t.Path][agent] = visit{t.Repository, s.o.Clock()}
}

// hasActed reports whether an agent acts in a tree, or did since a time. The caller holds mu.
func (s *Service) hasActed(t hub.WorkingTree, agent hub.AgentID, since time.Time) bool {
	if v, isKnown := s.acted[t.Path][agent]; isKnown && v.at.After(since) {
		return true
	}
	for act, one := range s.running {
		isRecent := s.o.Clock().Sub(one.at) < aloneAfter // the end of an act can be missed
		isCommand := isRecent && !act.Edits
		if isCommand && act.Agent == agent && act.Tree == t.Path {
			return true
		}
	}
	return false
}

// Denied forgets an act that was refused, and does not run.
func (s *Service) Denied(act Act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, act)
}

// hasOtherActed reports whether another agent acted in a repository since a time. The caller holds mu.
func (s *Service) hasOtherActed(repository string, agent hub.AgentID, since time.Time) bool {
	for _, agents := range s.acted {
		for other, v := range agents {
			if other != agent && v.repository == repository && v.at.After(since) {
				return true
			}
		}
	}
	return false
}

// isAlone reports whether no other agent acted in a repository for some time. The caller holds mu.
func (s *Service) isAlone(repository string, agent hub.AgentID) bool {
	now := s.o.Clock()
	for _, agents := range s.acted {
		for other, v := range agents {
			if other != agent && v.repository == repository && now.Sub(v.at) < aloneAfter {
				return false
			}
		}
	}
	return true
}

// MayUnstash reports whether an agent may remove an entry of the stash, the newest if entry is empty,
// or all of them: its own, those that its command adds before that, and any while it is alone in the
// repository. Entries of which the hub did not see who made them are a person's.
func (s *Service) MayUnstash(t hub.WorkingTree, agent hub.AgentID, all bool, pushed int) bool {
	entries := s.trees.Stash(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isAlone(t.Repository, agent), pushed > 0 && !all, len(entries) == 0:
		return true
	case all:
		return !slices.ContainsFunc(entries, func(id string) bool { return s.stashed[id] != agent })
	}
	return s.stashed[entries[0]] == agent
}

// noteStash notes that the entries of the stash that appeared during an act are those of its agent.
func (s *Service) noteStash(t hub.WorkingTree, agent hub.AgentID, before []string) {
	now := s.trees.Stash(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range now {
		if !slices.Contains(before, id) {
			s.stashed[id] = agent
		}
	}
}
