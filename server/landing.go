package server

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/internal/service/landing"
)

// openLandings builds the landing queues. Steps that a killed process had begun in working trees
// are finished first.
func (s *Server) openLandings(ctx context.Context) error {
	recovered, err := s.copies.Recover(ctx)
	if err != nil {
		return fmt.Errorf("server: finish the landings of a killed process: %w", err)
	}
	for _, r := range recovered {
		s.log.Info("a landing of a killed process was finished", "op", "server.openLandings", "repository", r.Repository, "branch", r.Branch, "landed", r.Landed, "failure", r.Failure)
	}

	pieces := landing.Pieces{Handoffs: s.handoffs, Results: s.checks, Git: s.repos}
	if s.teams != nil {
		pieces.Tasks = s.teams
	}
	s.landings = landing.New(s.store, s.repos, s.checks.Landing(s.repos), s.mail, &landing.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Machine: s.machine(),
		Work: landing.NewWork(s.store, pieces), Contracts: s.contracts.ByRepository(), Vendors: s.keeper.Successors(s.wakes),
	})
	return nil
}
