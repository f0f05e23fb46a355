package reservation

import (
	"sync"

	"github.com/parley-agents/parley/hub"
)

// activity has the last calls of agents. It is kept in memory: after a restart of the hub the
// stored activity of their reservations counts.
type activity struct {
	mu   sync.Mutex // guards last
	last map[hub.AgentID]hub.Time
}

// Active notes that an agent called a tool: its reservations go on.
func (s *Service) Active(agent hub.AgentID) {
	now := s.clock.Now()
	s.activity.mu.Lock()
	defer s.activity.mu.Unlock()
	s.activity.last[agent] = now
}

// lives knows the sessions of reservations inside one transaction. It looks at each once.
type lives struct {
	s     *Service
	r     hub.Reader
	known map[lifeKey]Life
}

type lifeKey struct {
	agent   hub.AgentID
	session string
}

func (s *Service) lives(r hub.Reader) *lives {
	return &lives{s: s, r: r, known: map[lifeKey]Life{}}
}

// of returns what is known about the session of a reservation. A call of its holder is a sign of
// life, too.
func (l *lives) of(v hub.Reservation) (Life, error) {
	key := lifeKey{v.Holder, v.Session}
	if life, isKnown := l.known[key]; isKnown {
		return life, nil
	}
	life, err := l.s.sessions.Life(l.r, v.Holder, v.Session)
	if err != nil {
		return life, err
	}
	l.s.activity.mu.Lock()
	last := l.s.activity.last[v.Holder]
	l.s.activity.mu.Unlock()
	if last.After(life.Seen.Time) {
		life.Seen = last
	}
	l.known[key] = life
	return life, nil
}

// renew notes that the caller is there, in all of its reservations of the tree. It writes a few
// times within the time of idleness, not with each question.
func (b *board) renew() error {
	within := b.s.idleIn(b.tree) / 4
	for i, r := range b.all {
		isOwn := r.Holder == b.actor.ID && r.State == hub.ReservationHeld
		if !isOwn || b.now.Sub(r.Active.Time) < within {
			continue
		}
		r.Active = b.now
		if err := b.move(i, r, ending{next: r.State}); err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns the name of a working tree among those of all machines.
func keyOf(t hub.WorkingTree) string {
	if t.Machine == "" {
		return t.Path
	}
	return t.Machine + ":" + t.Path
}
