package reservation

import (
	"crypto/sha256"

	"github.com/parley-agents/parley/hub"
)

// Watched are the contents of files that a Service keeps in memory while commands run.
type Watched = map[callKey]map[string]string

// Watching returns the contents that are kept for a command of an agent.
func Watching(w Watched, agent hub.AgentID, session, tree, command string) map[string]string {
	return w[callKey{agent, session, tree, sha256.Sum256([]byte(command))}]
}

// Commands returns the contents that s keeps. The caller does not change them.
func (s *Service) Commands() Watched { return s.watched.calls }

// SetCommands replaces the contents that s keeps.
func (s *Service) SetCommands(w Watched) { s.watched.calls = w }

// ForgetCalls forgets the last calls of agents, as a hub that starts again does.
func (s *Service) ForgetCalls() { clear(s.activity.last) }

// StoredCommands returns the commands that a store has as running.
func StoredCommands(r hub.Reader) []command {
	all, err := hub.ReadMeta[[]command](r, commandsKey)
	if err != nil {
		panic(err)
	}
	return all
}
