package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A part is a piece of a hub with a beginning and an end. Functions that a part does not
// need are nil.
// Open of a part may use all parts before it, Run all parts: it begins when every
// part is open. A part is closed only if its Open succeeded.
type part struct {
	Name  string
	Off   bool                        // the options leave it out: nothing of it is called
	Open  func(context.Context) error // builds it from the parts before it
	Run   func(context.Context)       // works beside requests until its context ends
	Close func() error                // releases what Open took
}

// parts returns the parts of the hub in the order of their dependencies: each is built
// from those before it. They are closed in the opposite order, after the work of all has
// ended.
//
// The order has a few reasons that the functions do not show. The store comes
// before the listener, so that a home in use is reported before a port in use. The
// clock needs the store, because it must not fall behind the newest entry. The
// listener comes before the identity, which contains the port. The beginning comes
// after all services: it records in the journal that the hub has started.
func (s *Server) parts() []part {
	onSQLite := s.opts.Store == ""
	noTeams := !slices.Contains(s.features, hub.FeatureTeamspaces)
	return []part{
		{Name: "home", Off: onSQLite, Open: s.openHome, Close: func() error { return s.home.Close() }},
		{Name: "spans", Off: s.opts.Traces == nil, Open: s.openTracer, Close: s.closeTracer},
		{Name: "store", Open: s.openStore, Close: func() error { return s.store.Close() }},
		{Name: "check of the database", Off: !onSQLite, Run: func(ctx context.Context) { s.sqlite.CheckBeside(ctx) }}, // PostgreSQL checks its own pages
		{Name: "listener", Open: s.openListener, Close: s.closeListener},
		{Name: "socket", Open: s.openSocket, Close: s.closeSocket},
		{Name: "clock", Open: s.openClock},

		{Name: "identity", Open: s.openIdentity},
		{Name: "client", Open: s.openClient, Close: s.closeClient},
		{Name: "callers", Open: s.openCallers},
		{Name: "artifacts", Open: s.openArtifacts},

		{Name: "gateway", Off: s.opts.Gateway == nil, Open: s.openGateway, Run: func(ctx context.Context) { s.gateway.Run(ctx) }, Close: s.closeGateway},
		{Name: "notices", Open: s.openNotifier, Run: s.runNotifier},
		{Name: "channels", Open: s.openWakes, Run: func(ctx context.Context) { s.wakes.Run(ctx, s.mail) }},
		{Name: "channels of the gateway", Off: s.opts.Gateway == nil, Run: s.recheckChannels},
		{Name: "messages", Open: s.openMessages, Run: func(ctx context.Context) { s.mail.Run(ctx) }},
		{Name: "waiting agents", Off: onSQLite, Run: func(ctx context.Context) { s.postgres.AnnounceWaiting(ctx, s.mail.Waiting) }},

		{Name: "journal", Open: s.openJournal, Run: func(ctx context.Context) { s.journal.Run(ctx) }},
		{Name: "roots", Open: s.openRoots},
		{Name: "states of worktrees", Open: s.openInspector, Run: func(ctx context.Context) { s.inspector.Run(ctx) }},
		{Name: "questions of other machines", Off: onSQLite, Open: s.openDistant, Run: func(ctx context.Context) { s.distant.Answer(ctx, s.repos) }},
		{Name: "repositories", Open: s.openRepositories, Close: func() error { return s.copies.Close() }},
		{Name: "records", Open: s.openRecords, Run: func(ctx context.Context) { s.records.Run(ctx) }},
		{Name: "proofs", Open: s.openProofs, Run: func(ctx context.Context) { s.proofs.Run(ctx) }},
		{Name: "witnesses", Run: func(ctx context.Context) { s.proofs.RunWitnesses(ctx) }},
		{Name: "reservations", Open: s.openFiles, Run: func(ctx context.Context) { s.files.Run(ctx) }},
		{Name: "kept work", Open: s.openKept, Run: func(ctx context.Context) { s.kept.Run(ctx) }, Close: func() error { return s.kept.Close() }},
		{Name: "shared files", Open: s.openShared, Close: func() error { return s.shared.Close() }},
		{Name: "contracts", Open: s.openContracts, Run: func(ctx context.Context) { s.contracts.Run(ctx) }},
		{Name: "checks", Open: s.openChecks, Run: s.runChecks},
		{Name: "teams", Off: noTeams, Open: s.openTeams, Run: func(ctx context.Context) { s.teams.Run(ctx) }},
		{Name: "folders of teams", Off: noTeams, Open: s.openFolders, Run: func(ctx context.Context) { s.folders.Run(ctx) }},
		{Name: "deliberations", Open: s.openTalks, Run: func(ctx context.Context) { s.talks.Run(ctx) }},
		{Name: "usage", Open: s.openUsage},
		{Name: "handoffs", Open: s.openHandoffs, Run: func(ctx context.Context) { s.handoffs.Run(ctx) }},
		{Name: "metrics", Open: s.openMetrics, Run: func(ctx context.Context) { s.metrics.Run(ctx) }},
		{Name: "runs", Open: s.openRuns, Run: func(ctx context.Context) { s.runs.Run(ctx) }},
		{Name: "runs again", Open: s.openRepeater, Run: func(ctx context.Context) { s.repeater.Run(ctx) }},
		{Name: "kept agents", Open: s.openKeeper, Run: func(ctx context.Context) { s.keeper.Run(ctx) }},
		{Name: "continuations", Open: s.openContinuations, Run: func(ctx context.Context) { s.continuations.Run(ctx) }},

		{Name: "landings", Open: s.openLandings, Run: func(ctx context.Context) { s.landings.Run(ctx) }},
		{Name: "events", Open: s.openEvents, Run: func(ctx context.Context) { s.outside.Run(ctx) }},
		{Name: "polls of events", Run: func(ctx context.Context) { s.polls.Run(ctx) }},
		{Name: "webhooks", Off: s.opts.InAddr == "", Open: s.openIntake, Run: s.runIntake, Close: s.closeIntake},
		{Name: "schedules", Open: s.openSchedules, Run: func(ctx context.Context) { s.schedules.Run(ctx) }},
		{Name: "peers", Open: s.openSyncer, Run: func(ctx context.Context) { s.syncer.Run(ctx) }},

		{Name: "beginning", Open: s.begin},
		{Name: "sign-in", Open: s.openSignIn},
		{Name: "operations", Open: s.openOperations},
		{Name: "page", Open: s.openSite, Run: func(ctx context.Context) { s.site.Run(ctx) }},
		{Name: "door", Open: s.openDoor},
	}
}

// open opens the parts in order. After an error it closes those that it opened.
func (s *Server) open(ctx context.Context) error {
	for _, p := range s.parts() {
		if p.Off {
			continue
		}
		if p.Open != nil {
			if err := p.Open(ctx); err != nil {
				s.Close()
				return err
			}
		}
		s.opened = append(s.opened, p)
	}
	return nil
}

// run starts the work of the parts beside requests. The function that it returns ends the
// work and waits for it.
func (s *Server) run(ctx context.Context) (stop func()) {
	work, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	for _, p := range s.opened {
		if p.Run != nil {
			background.Go(func() { s.keepRunning(work, p.Name, p.Run) })
		}
	}
	return func() {
		cancel()
		background.Wait()
	}
}

// Close releases the home and the listener. Serve does so by itself.
// It may be called more than once, and after New failed.
func (s *Server) Close() error {
	var failed []error
	for _, p := range slices.Backward(s.opened) {
		if p.Close != nil {
			failed = append(failed, p.Close())
		}
	}
	s.opened = nil
	return errors.Join(failed...)
}

// keepRunning runs work that goes on beside requests until ctx ends. After a panic it
// begins again, after a pause: it goes on from what is stored.
func (s *Server) keepRunning(ctx context.Context, name string, run func(context.Context)) {
	for {
		err := hub.Contain(name, func() error {
			run(ctx)
			return nil
		})
		if err == nil {
			return
		}
		s.log.Error("work beside requests failed, it begins again", "op", name, "err", err)
		select {
		case <-time.After(panicPause):
		case <-ctx.Done():
			return
		}
	}
}

// panicPause is the time until work that panicked begins again.
const panicPause = time.Second
