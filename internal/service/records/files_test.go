package records_test

import (
	"context"
	"path/filepath"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/usage"
)

// A desk is one working tree in which every file is changed by who asks for it, and the sessions
// that work there. The sessions named gone are over.
type desk struct{ changed bool }

func (d *desk) Tree(context.Context, string) (hub.WorkingTree, error) {
	return hub.WorkingTree{Path: "/src", Repository: "/src/.git"}, nil
}

func (d *desk) Names(_ context.Context, _ hub.WorkingTree, paths []string) (out []string, _ error) {
	for _, p := range paths {
		out = append(out, filepath.Base(p))
	}
	return out, nil
}

func (d *desk) Files(_ context.Context, _ hub.WorkingTree, names []string) (map[string]hub.TreeFile, error) {
	out := map[string]hub.TreeFile{}
	for _, n := range names {
		out[n] = hub.TreeFile{Tracked: true}
		if d.changed {
			out[n] = hub.TreeFile{Digest: "new", Tracked: true}
		}
	}
	return out, nil
}

func (d *desk) Count(context.Context, hub.WorkingTree, string, int) (int, error) { return 1, nil }

func (d *desk) Differs(context.Context, hub.WorkingTree, string, []string) ([]string, error) {
	return nil, nil
}

func (d *desk) Staged(context.Context, hub.WorkingTree) ([]string, error) { return nil, nil }

func (d *desk) Difference(context.Context, hub.WorkingTree, string) (hub.TreeDifference, error) {
	return hub.TreeDifference{Text: "+new\n", Lines: 1}, nil
}

// Life implements reservation.Sessions.
func (d *desk) Life(_ hub.Reader, _ hub.AgentID, session string) (hub.SessionLife, error) {
	return hub.SessionLife{Known: true, Over: session == "gone" && d.changed}, nil
}

// reserve lets an agent reserve three files: one is held, one released, one left with changes.
func (s *story) reserve(ctx context.Context) {
	s.t.Helper()
	d := &desk{}
	files, err := reservation.New(s.store, d, d, s.mail, &reservation.Options{Clock: s.clock})
	s.must(nil, err)
	for _, q := range []reservation.Question{{Paths: []string{"held"}}, {Paths: []string{"released"}}, {Paths: []string{"left"}, Session: "gone"}} {
		q.Tree, q.Kind = "/src", reservation.Edit
		s.must(files.Ask(ctx, ada, q))
	}
	s.must(files.Release(ctx, ada, reservation.Release{Tree: "/src", Paths: []string{"released"}}))
	d.changed = true
	s.must(nil, files.Sweep(ctx))
}

// spend lets an agent make two turns with model calls, under a budget. A call of the first turn comes
// late.
func (s *story) spend(ctx context.Context) {
	s.t.Helper()
	u := usage.New(s.store, s.mail, &usage.Options{Clock: s.clock})
	s.must(u.SetBudget(ctx, operator, usage.Limit{Of: "ada", Tokens: 1000, Per: hub.PerDay}))
	for _, id := range []string{"m1", "m2"} {
		call := hub.ModelCall{ID: id, Model: "m", Tokens: hub.Tokens{Input: 10, Output: 5}, Cost: 7, Currency: "USD"}
		s.must(u.Record(ctx, ada, usage.Report{Source: hub.UsagePlugin, CLI: "pi", Ended: true, Calls: []hub.ModelCall{call}}))
	}
	late := hub.ModelCall{ID: "m3", Model: "m", Tokens: hub.Tokens{Input: 1}, Cost: 2, Currency: "USD"}
	s.must(u.Record(ctx, ada, usage.Report{Source: hub.UsagePlugin, CLI: "pi", Record: "u1", Calls: []hub.ModelCall{late}}))
}
