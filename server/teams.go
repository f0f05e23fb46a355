package server

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/home"
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
	o := &team.Options{Clock: s.clock, Log: s.log, Artifacts: s.content, MergeSLA: s.opts.MergeSLA, Bus: s.hints, Files: s.files, Checks: s.checks, Works: s.inspector}
	if s.distant != nil {
		o.Works = s.distant
	}
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
		root = filepath.Join(s.opts.Home, home.TeamspaceDir)
	}
	s.folders = folder.New(s.store, s.content, root, &folder.Options{Clock: s.clock, Bus: s.hints, Log: s.log})
	return nil
}
