package server

import (
	"context"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/keep"
	"github.com/parley-agents/parley/internal/service/keptwork"
	"github.com/parley-agents/parley/internal/service/reservation"
)

// KeptWork are the rules for the uncommitted work that the hub keeps of a repository.
type KeptWork struct {
	Enabled *bool // whether work is kept; default true
	Ignored *bool // whether small files that git ignores are kept, too; default true
}

// keptFolder is the folder of kept work in a home.
const keptFolder = "kept"

// openKept builds the service that keeps uncommitted work, and has the guard of files use it.
func (s *Server) openKept(context.Context) error {
	store, err := keep.Open(filepath.Join(s.opts.Home, keptFolder))
	if err != nil {
		return err
	}
	s.kept = keptwork.New(s.store, keptTrees{store}, s.mail, &keptwork.ServiceOptions{Clock: s.clock, Log: s.log, Rules: s.keptRules})
	s.files.KeepWork(guardKeeper{s.kept})
	return nil
}

// keptRules returns the rules for the kept work of a tree.
func (s *Server) keptRules(t hub.WorkingTree) keptwork.Rules {
	of := t.Path
	if t.Repository != "" {
		of = filepath.Dir(t.Repository)
	}
	out := keptwork.Rules{}
	nearest := -1
	for _, r := range s.opts.Repositories {
		for _, folder := range []string{of, t.Path} {
			rel, err := filepath.Rel(r.Path, folder)
			if err != nil || !filepath.IsLocal(rel) || len(r.Path) < nearest {
				continue
			}
			nearest = len(r.Path)
			out.Off = r.KeptWork.Enabled != nil && !*r.KeptWork.Enabled
			out.NoIgnored = r.KeptWork.Ignored != nil && !*r.KeptWork.Ignored
		}
	}
	return out
}

// keptTrees is a keptwork.Trees.
type keptTrees struct{ *keep.Store }

// Keep implements keptwork.Trees.
func (k keptTrees) Keep(ctx context.Context, t hub.WorkingTree, o keptwork.Options) (hub.KeptState, error) {
	return k.Store.Keep(ctx, t, keep.Options(o))
}

// After implements keptwork.Trees.
func (k keptTrees) After(ctx context.Context, t hub.WorkingTree, before string, o keptwork.Options) (hub.KeptState, hub.KeptLoss, error) {
	return k.Store.After(ctx, t, before, keep.Options(o))
}

// Back implements keptwork.Trees.
func (k keptTrees) Back(ctx context.Context, t hub.WorkingTree, r keptwork.Return) ([]string, []hub.KeptLeft, error) {
	return k.Store.Back(ctx, t, keep.Return(r))
}

// guardKeeper is a reservation.Keeper.
type guardKeeper struct{ *keptwork.Service }

// Before implements reservation.Keeper.
func (g guardKeeper) Before(ctx context.Context, t hub.WorkingTree, act reservation.Act, names []string, destroys bool) string {
	return g.Service.Before(ctx, t, keptwork.Act(act), keptwork.Options{Names: names}, destroys)
}

// Denied implements reservation.Keeper.
func (g guardKeeper) Denied(act reservation.Act) { g.Service.Denied(keptwork.Act(act)) }

// After implements reservation.Keeper.
func (g guardKeeper) After(ctx context.Context, t hub.WorkingTree, act reservation.Act, names, held []string) string {
	return g.Service.After(ctx, t, keptwork.Act(act), keptwork.Options{Names: names}, held).Line
}

// Trees implements reservation.Keeper.
func (g guardKeeper) Trees(_ context.Context, t hub.WorkingTree) []string { return g.Known(t) }
