package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/folder"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/service/run"
)

// openJournal builds the journal.
func (s *Server) openJournal(context.Context) error {
	s.journal = journal.New(s.store, &journal.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Slate: filepath.Join(s.opts.Home, home.CountsFile),
	})
	return nil
}

// openRoots opens the service of roots and adds those of the options. The operator
// who starts the hub chose them, so that a path of them may lead through a link.
func (s *Server) openRoots(ctx context.Context) (err error) {
	if s.roots, err = roots.New(s.store, s.opts.Home, &roots.Options{Clock: s.clock, Bus: s.hints, Secrets: confine.Secrets()}); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	for _, path := range s.opts.Roots {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if _, err := s.roots.Add(ctx, hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}, path); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	return nil
}

// openRecords builds the records of the journal outside of the store. An entry stays in
// the store until every consumer has read it.
// A consumer that is left out here could miss entries that were archived before it
// read them.
func (s *Server) openRecords(context.Context) error {
	consumers := slices.Concat(s.mail.Consumers(), []string{wake.Cursor, metrics.Cursor, proof.Cursor}, s.notifier.Cursors())
	if slices.Contains(s.features, hub.FeatureTeamspaces) {
		consumers = append(consumers, folder.Cursor)
	}
	if slices.ContainsFunc(contract.EventKinds, s.notifier.Wants) {
		consumers = append(consumers, contract.EventCursor)
	}
	s.records = home.NewRecords(s.store, s.sqlite, s.opts.Home, s.hubName(), records.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Consumers: consumers, Artifacts: s.content, Refs: s.repos,
	})
	return nil
}

// openProofs builds the tree over the journal, from which files for strangers are made.
func (s *Server) openProofs(context.Context) error {
	s.proofs = proof.New(s.store, s.vault.LogKey(), &proof.Options{
		Clock: s.clock, Bus: s.hints, Log: s.log, Archived: s.records.Archived, Call: s.client.Call, TellOperator: s.mail.TellOperator, Announce: s.mail.Announce,
	})
	s.records.Proofs = s.proofs
	return nil
}

// openInspector builds the part that checks claims against files and repositories.
// The folder of artifacts is always readable for it: references to stored content
// are claims as well.
func (s *Server) openInspector(context.Context) (err error) {
	s.inspector, err = evidence.New([]string{s.artifactDir}, &evidence.Options{
		Roots: s.roots.Paths, Kept: filepath.Join(s.opts.Home, home.WorksDir),
	})
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// openDistant builds the inspector that asks hubs on other machines.
func (s *Server) openDistant(context.Context) error {
	s.distant = evidence.NewDistant(s.inspector, s.postgres)
	return nil
}

// openHandoffs builds the service of handoffs.
// Optional parts are set only if they exist: a nil pointer in an interface would
// not be nil.
func (s *Server) openHandoffs(context.Context) error {
	o := &handoff.Options{Clock: s.clock, Log: s.log, SLA: s.opts.SLA, RequireProof: s.opts.RequireProof, Inspector: s.inspector}
	if s.distant != nil {
		o.Inspector = s.distant
	}
	if s.hasQueue() {
		o.Queue = s.gateway
	}
	if s.teams != nil {
		o.Board = s.teams
	}
	o.Files = s.files
	o.Onward = movedHandoffs{s}
	o.Checks = s.checks
	o.Bus = s.hints
	o.RequireChecks = s.opts.Checks.Require
	s.handoffs = handoff.New(s.store, s.mail, o)
	return nil
}

// hasQueue reports whether handoffs go through the queue of the gateway.
func (s *Server) hasQueue() bool { return s.gateway != nil && s.opts.Gateway.Workq }

// openMetrics builds the consumer that computes figures from the journal.
func (s *Server) openMetrics(context.Context) error {
	s.metrics = metrics.New(s.store, &metrics.Options{Clock: s.clock, Log: s.log})
	return nil
}

// openRuns builds the service of runs.
func (s *Server) openRuns(context.Context) error {
	s.runs = run.New(s.store, s.keys, s.mail, &run.Options{Clock: s.clock, Log: s.log, Blocked: s.barred})
	return nil
}
