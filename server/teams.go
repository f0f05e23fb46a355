package server

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/folder"
	"github.com/parley-agents/parley/internal/service/team"
)

// features returns the features that are on in a hub without some.
// The result keeps the order of Features.
func features(without []hub.Feature) ([]hub.Feature, error) {
	on := slices.Clone(Features)
	for _, f := range without {
		if !slices.Contains(Features, f) {
			return nil, hub.Errorf(hub.CodeInvalid, "server.New", "without: unknown feature %q: use one of %v", f, Features)
		}
		on = slices.DeleteFunc(on, func(x hub.Feature) bool { return x == f })
	}
	return on, nil
}

// Features are the parts of the protocol that a hub may be without.
var Features = slices.Clone(hub.Features)

// openTeams builds the service of teams.
// Tasks of teams go through the queue of the gateway if that has one.
func (s *Server) openTeams(context.Context) (err error) {
	o := &team.Options{Clock: s.clock, Log: s.log, Artifacts: s.content, MergeSLA: s.opts.MergeSLA, Bus: s.hints, Files: filesOf{s}, Checks: checksOf{s}, Works: worksOf{s}}
	if s.hasQueue() {
		o.Queue = s.gateway
	}
	s.teams, err = team.New(s.store, s.mail, o)
	return err
}

// openFolders builds the writer of the folders of teams.
func (s *Server) openFolders(context.Context) error {
	root := s.opts.Teamspaces
	if root == "" {
		root = filepath.Join(s.opts.Home, teamspaceDir)
	}
	s.folders = folder.New(s.store, s.content, root, &folder.Options{Clock: s.clock, Bus: s.hints, Log: s.log})
	return nil
}

// filesOf reserves the files of tasks. The service of reservations needs the roots and is opened
// after that of teams.
type filesOf struct{ *Server }

// ReserveScope implements team.Files.
func (f filesOf) ReserveScope(ctx context.Context, actor hub.Caller, scope hub.FileScope) (reserved, warnings []string) {
	return f.files.ReserveScope(ctx, actor, scope)
}

// Done implements team.Files.
func (f filesOf) Done(tx hub.Tx, actor hub.Caller, task hub.TaskID, handoff hub.HandoffID) ([]hub.Message, error) {
	return f.files.Done(tx, actor, task, handoff)
}

// worksOf compares the worktrees of tasks. The inspector is opened after the service of teams.
type worksOf struct{ *Server }

// State implements team.Works.
func (w worksOf) State(ctx context.Context, path string, name hub.HandoffID) (hub.WorkState, error) {
	return w.reader().State(ctx, path, name)
}

// Compare implements team.Works.
func (w worksOf) Compare(ctx context.Context, q hub.Comparison) (hub.WorkChange, error) {
	return w.reader().Compare(ctx, q)
}

// reader returns what reads worktrees: on PostgreSQL also those of other machines.
func (w worksOf) reader() team.Works {
	if w.distant != nil {
		return w.distant
	}
	return w.inspector
}

// checksOf runs the checks of tasks. The service of checks needs the roots and is opened after that of
// teams.
type checksOf struct{ *Server }

// Known implements team.Checks.
func (c checksOf) Known(ctx context.Context, folder string) ([]string, error) {
	return c.checks.Known(ctx, folder)
}

// CheckTask implements team.Checks.
func (c checksOf) CheckTask(ctx context.Context, actor hub.Caller, t hub.Task) (hub.Progress, []hub.CheckResult, error) {
	return c.checks.CheckTask(ctx, actor, t)
}
