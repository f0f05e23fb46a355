package keptwork

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
)

// How long kept work stays: from before a destruction two weeks; other work for two hours, then one
// state in ten minutes for a day, then one a day for two weeks.
const (
	keepsDestroyed = 14 * 24 * time.Hour
	keepsAll       = 2 * time.Hour
	keepsSome      = 24 * time.Hour
	someEvery      = 10 * time.Minute
	fewEvery       = 24 * time.Hour
	maxBytes       = 2 << 30 // of one repository
	thinEvery      = time.Hour
	lookEvery      = 30 * time.Second
	maxRows        = 10_000 // that a sweep looks at
)

// Over returns the kept work of one tree, the newest first, whose time is over.
func Over(all []hub.KeptWork, now time.Time) (out []hub.KeptWork) {
	var last time.Time // of the ordinary work that stays
	for _, w := range all {
		age := now.Sub(w.At.Time)
		isSpecial := w.After != "" || w.Why == hub.KeptContinuation || w.Why == hub.KeptBeforeBack
		every := time.Duration(0)
		switch {
		case isSpecial || age < keepsAll:
		case age < keepsSome:
			every = someEvery
		default:
			every = fewEvery
		}
		isTooNear := every > 0 && !last.IsZero() && last.Sub(w.At.Time) < every
		if age > keepsDestroyed || isTooNear {
			out = append(out, w)
			continue
		}
		if !isSpecial {
			last = w.At.Time
		}
	}
	return out
}

// Run keeps the trees in which agents work while work goes on, and removes kept work whose time is
// over, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	thin := time.NewTicker(thinEvery)
	defer thin.Stop()
	s.Thin(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			s.KeepRecent(ctx)
		case <-thin.C:
			s.Thin(ctx)
		}
	}
}

// KeepRecent keeps the trees in which something happened since the last look.
func (s *Service) KeepRecent(ctx context.Context) {
	s.mu.Lock()
	recent := s.recent
	s.recent = map[string]hub.WorkingTree{}
	s.mu.Unlock()
	for _, t := range recent {
		_, err := s.Keep(ctx, t, "", hub.KeptInterval)
		if err != nil && ctx.Err() == nil {
			s.cannot(t, err)
		}
	}
}

// Keep keeps a tree for another reason than a command, such as the beginning of a turn.
func (s *Service) Keep(ctx context.Context, t hub.WorkingTree, agent hub.AgentID, why hub.KeptWhy) (hub.KeptID, error) {
	rules := s.rules(t)
	if rules.Off || t.Repository == "" {
		return "", nil
	}
	s.sweeping.RLock()
	defer s.sweeping.RUnlock()
	state, err := s.trees.Keep(ctx, t, Options{NoIgnored: rules.NoIgnored})
	if err != nil {
		return "", err
	}
	return s.add(ctx, hub.KeptWork{Tree: t, Agent: agent, Why: why, State: state})
}

// Thin removes the kept work whose time is over, and content that no kept work has.
func (s *Service) Thin(ctx context.Context) {
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.KeptWork, error) { return rd.Kept().KeptWorks(hub.KeptQuery{Limit: maxRows}) })
	if err != nil {
		if ctx.Err() == nil {
			s.o.Log.Warn("kept work cannot be read", "op", "keptwork.Thin", "err", err)
		}
		return
	}
	trees := map[string][]hub.KeptWork{}
	repositories := map[string]hub.WorkingTree{}
	for _, w := range all {
		trees[w.Tree.Path] = append(trees[w.Tree.Path], w)
		repositories[w.Tree.Repository+" "+w.Tree.Machine] = w.Tree
	}
	for _, some := range trees {
		for _, w := range Over(some, s.o.Clock()) {
			if err := s.remove(ctx, hub.Caller{ID: hub.Self}, w); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("old kept work was not removed", "op", "keptwork.Thin", "err", err)
			}
		}
	}
	for _, t := range repositories {
		bytes, err := s.sweep(ctx, t)
		for err == nil && bytes > maxBytes && s.dropOldest(ctx, t) {
			bytes, err = s.sweep(ctx, t)
		}
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("the store of kept work was not swept", "op", "keptwork.Thin", "err", err)
		}
	}
}

// dropOldest removes the oldest ordinary kept work of a repository, and reports whether there was
// any.
func (s *Service) dropOldest(ctx context.Context, t hub.WorkingTree) bool {
	all, err := s.ofRepository(ctx, t)
	if err != nil {
		return false
	}
	for i := len(all) - 1; i > 0; i-- {
		if all[i].After == "" {
			return s.remove(ctx, hub.Caller{ID: hub.Self}, all[i]) == nil
		}
	}
	return false
}

// ofRepository returns the kept work of the repository of a tree; of the folder itself without git.
func (s *Service) ofRepository(ctx context.Context, t hub.WorkingTree) ([]hub.KeptWork, error) {
	q := hub.KeptQuery{Repository: t.Repository, Limit: maxRows}
	if t.Repository == "" {
		q.Tree = t.Path
	}
	return hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.KeptWork, error) { return rd.Kept().KeptWorks(q) })
}

// sweep removes the content that no kept work of a repository has, and no act that runs.
func (s *Service) sweep(ctx context.Context, t hub.WorkingTree) (int64, error) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	live, err := s.live(ctx, t, "")
	if err != nil {
		return 0, err
	}
	return s.trees.Sweep(ctx, t, live)
}

// live returns the states that the kept work of a repository has, but for one, and the acts that run.
// The caller holds sweeping.
func (s *Service) live(ctx context.Context, t hub.WorkingTree, but hub.KeptID) (live []string, err error) {
	all, err := s.ofRepository(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if w.ID != but {
			live = append(live, w.State.ID, w.After)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.running {
		live = append(live, one.state.ID)
	}
	return live, nil
}
