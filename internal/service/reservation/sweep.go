package reservation

import (
	"context"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Run ends reservations in the background, so that every file becomes free after its holder is
// gone, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot end reservations", "op", "reservation.Sweep", "code", hub.CodeOf(err), "err", err)
		}
		select {
		case <-tick.C:
		case <-s.hurry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Hurry lets Run look at once, after an agent lost its last key.
func (s *Service) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default: // it will look
	}
}

// Sweep ends the reservations whose end has come, tells agents that wait, and forgets what agents
// saw long ago. A working tree of another machine is left to the hub there.
func (s *Service) Sweep(ctx context.Context) error {
	trees, err := s.reservedTrees(ctx)
	if err != nil {
		return err
	}
	for _, t := range trees {
		if err := s.sweepTree(ctx, t); err != nil {
			return err
		}
	}
	return s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.WriteReservations().RemoveViews(s.clock.Now().Add(-keepViews), maxListed)
		return err
	})
}

// reservedTrees returns the working trees with reservations or waiting agents.
func (s *Service) reservedTrees(ctx context.Context) ([]hub.WorkingTree, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.WorkingTree, error) {
		all, err := r.Reservations().OfAgent("")
		if err != nil {
			return nil, err
		}
		var out []hub.WorkingTree
		seen := map[string]bool{}
		add := func(t hub.WorkingTree) {
			if !seen[t.Path] && len(out) < sweepLimit {
				seen[t.Path] = true
				out = append(out, t)
			}
		}
		for _, v := range all {
			if v.Tree.Machine == s.machine {
				add(v.Tree)
			}
		}
		waits, err := r.Reservations().Waits("")
		for _, w := range waits {
			t := hub.WorkingTree{Machine: s.machine}
			var isHere bool
			if t.Path, isHere = strings.CutPrefix(w.Tree, keyOf(t)); isHere {
				add(t)
			}
		}
		return out, err
	})
}

// sweepTree ends the reservations of one working tree. One that was moved or deleted has no files
// any more: its reservations end with the sessions of their holders.
func (s *Service) sweepTree(ctx context.Context, t hub.WorkingTree) error {
	known, err := s.survey(ctx, t, survey{agent: hub.Self, concerned: func(hub.Reservation) bool { return true }})
	if err != nil {
		return err
	}
	var b *board
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		var err error
		if b, err = s.load(tx, hub.Caller{ID: hub.Self}, t, known.covered); err != nil {
			return err
		}
		if err := b.settle(known); err != nil {
			return err
		}
		if err := b.tellChanges(); err != nil {
			return err
		}
		return b.warnOperator()
	})
	if err == nil && len(b.posted) > 0 {
		b.announce()
	}
	return err
}
