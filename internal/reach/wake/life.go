package wake

import (
	"github.com/parley-agents/parley/hub"
)

// Life returns what is known about a session of an agent, by the id that its CLI gave it. A
// session that no hook has reported may belong to a subagent or to a program without hooks: then
// the live sessions of the agent count, and none of them ends it.
//
// The last sign of life is the last report of a hook, not the last request of the waiter: that
// one asks as long as the window is open.
func (g *Machine) Life(r hub.Reader, agent hub.AgentID, session string) (hub.SessionLife, error) {
	d, err := hub.ReadMeta[document](r, sessionsKey(agent))
	if err != nil {
		return hub.SessionLife{}, err
	}
	now := g.o.Clock.Now()
	g.bury(&d, now)

	named := hub.SessionLife{}
	any := hub.SessionLife{}
	isLive := false
	for _, s := range d.Sessions {
		if session != "" && s.ID == session {
			named = join(named, g.life(s, now))
			isLive = isLive || s.live()
		}
		if s.live() {
			any = join(any, g.life(s, now))
		}
	}
	if !named.Known {
		return any, nil
	}
	named.Over = !isLive
	return named, nil
}

// life returns what is known about one session. A turn that runs in a process that is known to
// live counts as busy however long its hooks are silent; one whose process cannot be looked at
// counts as long as it reports.
func (g *Machine) life(s *Session, now hub.Time) hub.SessionLife {
	hasTurn := s.State == SessionWorking || s.State == SessionWaiting
	isWatched := g.o.Ended != nil && s.Stamp != "" // else bury would have ended it
	return hub.SessionLife{
		Known: true,
		Over:  !s.live(),
		Busy:  hasTurn && (isWatched || s.busy(now)),
		Seen:  s.Reported,
	}
}

// join returns what is known about several sessions together. One process may take a session up
// again that another left.
func join(a, b hub.SessionLife) hub.SessionLife {
	a.Known = a.Known || b.Known
	a.Busy = a.Busy || b.Busy
	if b.Seen.After(a.Seen.Time) {
		a.Seen = b.Seen
	}
	return a
}

// Folders returns the folders in which live sessions of an agent work.
func (g *Machine) Folders(r hub.Reader, agent hub.AgentID) ([]string, error) {
	d, err := hub.ReadMeta[document](r, sessionsKey(agent))
	if err != nil {
		return nil, err
	}
	g.bury(&d, g.o.Clock.Now())
	var out []string
	for _, s := range d.Sessions {
		if s.live() && s.Cwd != "" {
			out = append(out, s.Cwd)
		}
	}
	return out, nil
}
