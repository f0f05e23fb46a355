package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// Reservations are the rules about files that agents reserve. Zero members mean the default.
type Reservations struct {
	Idle        time.Duration // after which a reservation ends without a sign of life of its holder; default 15 minutes, one minute to 24 hours
	Unreachable string        // UnreachableAllow or UnreachableDeny: the decision about an edit while the hub does not answer; default allow
	Guard       *bool         // whether agents are kept from files that others change; default true
}

// The decisions about an edit while the hub does not answer.
const (
	UnreachableAllow = "allow"
	UnreachableDeny  = "deny"
)

// Guarded reports whether agents are kept from files that others change.
func (r Reservations) Guarded() bool { return r.Guard == nil || *r.Guard }

// A Repository has the rules for one repository of this machine.
type Repository struct {
	Path          string // absolute path of its working tree; linked working trees follow the same rules
	Reservations  Reservations
	KeptWork      KeptWork
	RequireChecks bool // refuse completions in it without passed checks
}

// ReservationsIn returns the rules for the files of a folder: those of the repository whose path
// is nearest above it, completed by those of the hub.
func (o Options) ReservationsIn(folder string) Reservations {
	out := o.Reservations
	nearest := ""
	for _, r := range o.Repositories {
		rel, err := filepath.Rel(r.Path, folder)
		if err != nil || !filepath.IsLocal(rel) || len(r.Path) <= len(nearest) {
			continue
		}
		nearest = r.Path
		out = o.Reservations.with(r.Reservations)
	}
	if out.Unreachable == "" {
		out.Unreachable = UnreachableAllow
	}
	return out
}

// with returns the rules with the members of others that are set.
func (r Reservations) with(others Reservations) Reservations {
	if others.Idle != 0 {
		r.Idle = others.Idle
	}
	if others.Unreachable != "" {
		r.Unreachable = others.Unreachable
	}
	if others.Guard != nil {
		r.Guard = others.Guard
	}
	return r
}

// check reports CodeInvalid for rules that do not exist.
func (r Reservations) check() error {
	if r.Idle != 0 {
		if err := reservation.CheckIdle(r.Idle); err != nil {
			return err
		}
	}
	switch r.Unreachable {
	case "", UnreachableAllow, UnreachableDeny:
		return nil
	}
	return hub.Errorf(hub.CodeInvalid, "server.Reservations", "reservations.unreachable must be %s or %s, got %q", UnreachableAllow, UnreachableDeny, r.Unreachable)
}

// openFiles builds the service that decides which agent may change which file.
func (s *Server) openFiles(context.Context) error {
	if err := s.opts.Reservations.check(); err != nil {
		return err
	}
	for i, r := range s.opts.Repositories {
		if err := r.Reservations.check(); err != nil {
			return fmt.Errorf("server: repository %s: %w", r.Path, err)
		}
		if real, err := filepath.EvalSymlinks(r.Path); err == nil {
			s.opts.Repositories[i].Path = real
		}
	}

	sessions := reservation.NewSessions(s.clock, s.wakes, func(agent hub.AgentID) bool { return s.keeper.Busy(agent) })
	service, err := reservation.New(s.store, s.trees, sessions, s.mail, &reservation.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Idle: s.opts.Reservations.Idle, Machine: s.machine(),
		IdleOf: func(t hub.WorkingTree) time.Duration { return s.rulesOf(t).Idle },
		Off:    func(t hub.WorkingTree) bool { return !s.rulesOf(t).Guarded() },
		Stops: reservation.Stops{
			Stopped: s.wakes.Stopped,
			Works: func(r hub.Reader, agent hub.AgentID) (bool, error) {
				return s.keeper.Successors(s.wakes).Works(r, agent)
			},
			Exceeded: func(r hub.Reader, agent hub.AgentID) (string, error) { return s.usage.Exceeded(r, agent) },
		},
	})
	s.files = service
	return err
}

// rulesOf returns the rules of a working tree. A linked one follows those of its repository, if
// none are for itself.
func (s *Server) rulesOf(t hub.WorkingTree) Reservations {
	if t.Repository == "" {
		return s.opts.ReservationsIn(t.Path)
	}
	return s.opts.ReservationsIn(filepath.Dir(t.Repository)).with(s.opts.own(t.Path))
}

// own returns the rules of the repository with exactly that path.
func (o Options) own(path string) Reservations {
	for _, r := range o.Repositories {
		if r.Path == path {
			return r.Reservations
		}
	}
	return Reservations{}
}
