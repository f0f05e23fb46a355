package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/wake"
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
// Its inspector has the operator's roots alone: the folder of artifacts is no working tree.
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

	in, err := evidence.New(nil, &evidence.Options{Roots: s.roots.Paths})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	o := &reservation.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Idle: s.opts.Reservations.Idle,
		IdleOf: func(t hub.WorkingTree) time.Duration { return s.rulesOf(t).Idle },
		Off:    func(t hub.WorkingTree) bool { return !s.rulesOf(t).Guarded() },
	}
	var trees reservation.Trees = evidence.NewTrees(in, "")
	if s.postgres != nil {
		o.Machine = s.postgres.Machine()
		trees = distantTrees{evidence.NewTrees(in, o.Machine), s.distant}
	}
	s.trees = trees
	s.files, err = reservation.New(s.store, trees, lives{s.clock, s.wakes, func(agent hub.AgentID) bool { return s.keeper.Busy(agent) }}, s.mail, o)
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

// A distantTrees reads working trees where hubs of several machines share a store. Only the hub
// of its machine answers for a tree.
type distantTrees struct {
	*evidence.Trees
	distant *distantInspector
}

// Tree implements reservation.Trees.
func (d distantTrees) Tree(ctx context.Context, path string) (hub.WorkingTree, error) {
	t, err := d.Trees.Tree(ctx, path)
	if hub.CodeOf(err) != hub.CodeOutsideRoots {
		return t, err
	}
	machine, findErr := d.distant.machine(ctx, path)
	if findErr == nil && machine != "" {
		return t, hub.Errorf(hub.CodeUnreachable, "server.Tree", "%s is on %s: only the hub of that machine answers for it", path, machine)
	}
	return t, err
}

// lives knows the sessions of agents: those in terminals and of kept agents by their presence,
// those of runs by the runs.
type lives struct {
	clock hub.Clock
	wakes *wake.Machine
	kept  func(hub.AgentID) bool // whether a turn of a kept agent runs
}

// openRuns bounds the runs of one agent that are considered.
const openRuns = 20

// Life implements reservation.Sessions.
func (l lives) Life(r hub.Reader, agent hub.AgentID, session string) (hub.SessionLife, error) {
	if isRevoked, err := l.isRevoked(r, agent); err != nil || isRevoked {
		return hub.SessionLife{Known: isRevoked, Over: isRevoked}, err
	}
	if l.kept(agent) {
		return hub.SessionLife{Known: true, Busy: true}, nil
	}
	if session == "" {
		return l.wakes.Life(r, agent, session)
	}
	runs, err := r.Runs(hub.RunQuery{Agent: agent, Limit: openRuns})
	if err != nil {
		return hub.SessionLife{}, err
	}
	for _, v := range runs {
		if v.Session == session || string(v.ID) == session {
			return hub.SessionLife{Known: true, Over: v.State.Over(), Busy: v.State == hub.RunRunning, Seen: v.StartedAt}, nil
		}
	}
	return l.wakes.Life(r, agent, session)
}

// isRevoked reports whether an agent had a key of its own and has no valid one any more: none of
// its sessions can go on.
func (l lives) isRevoked(r hub.Reader, agent hub.AgentID) (bool, error) {
	keys, err := r.Keys(agent)
	if err != nil {
		return false, err
	}
	now := l.clock.Now()
	isLive := func(k hub.Key) bool { return k.Live(now) }
	isOwn := func(k hub.Key) bool { return !k.Lent() }
	return slices.ContainsFunc(keys, isOwn) && !slices.ContainsFunc(keys, isLive), nil
}
