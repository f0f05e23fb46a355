package reservation

import (
	"context"
	"crypto/sha256"
	"slices"

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

// Late compares a file with reservations inside a transaction: the first ones were stored before,
// and compared then. It returns which of all cover it, with the steps inside the transaction.
func (s *Service) Late(ctx context.Context, before, later []hub.Reservation, name string) (covered []bool, steps int, err error) {
	c, err := s.prepare(ctx, before, []string{name})
	if err != nil {
		return nil, 0, err
	}
	c.begin()
	for _, r := range slices.Concat(before, later) {
		covered = append(covered, c.covers(r, name))
	}
	return covered, c.steps, c.check("reservation.Late")
}

// MaxLateSteps is the number of steps inside a transaction.
const MaxLateSteps = maxLateSteps
