package landing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// judged returns what a change does to the things that judge it, the findings that need a word first.
// more are checks that its work asks for.
func (s *Service) judged(ctx context.Context, p hub.LandingPolicy, target, commit string, more []string) ([]hub.JudgeFinding, error) {
	known, err := s.checks.Known(ctx, p.Repository)
	if err != nil {
		return nil, err
	}
	found, err := s.checks.Judged(ctx, p.Repository, target, commit, union(p, known, more))
	if err != nil {
		return nil, err
	}
	needsWord := slices.DeleteFunc(slices.Clone(found), func(f hub.JudgeFinding) bool { return !f.Word })
	named := slices.DeleteFunc(found, func(f hub.JudgeFinding) bool { return f.Word })
	all := append(needsWord, named...)
	return all[:min(len(all), maxJudged)], nil
}

// wordText names the findings that need a word; "" if none does.
func wordText(all []hub.JudgeFinding) string {
	const most = 3
	var parts []string
	for _, f := range all {
		if f.Word {
			parts = append(parts, f.Found)
		}
	}
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("%d more", len(parts)-most))
	}
	return strings.Join(parts, "; ")
}

// admitAgain lets an entry wait if it has not what it needs now to land: the policy, the checks or the
// target may have changed since it was queued, and only the state that will be shows whose work it takes
// back. It reports whether the entry waits. An undo was admitted with the word that it needs.
func (w *worker) admitAgain(ctx context.Context, tip, made Commit, e hub.LandingEntry) (waits bool, err error) {
	if e.Undoes != "" {
		return false, nil
	}
	if e.Judged, err = w.s.judged(ctx, w.policy, tip.ID, made.ID, e.Checks); err != nil {
		return false, err
	}
	taken, err := w.takesBack(ctx, tip, made, e)
	if err != nil {
		return false, err
	}
	if text := taken.text(); text != e.TakesBack {
		if text != "" { // a review was waived without knowing that
			e.Without = slices.DeleteFunc(slices.Clone(e.Without), func(v hub.Waiver) bool { return v.What == hub.GateReview })
		}
		e.TakesBack = text
		e.Takes = taken.by
	}
	piece, err := w.s.pieceOf(ctx, e)
	if err != nil {
		return false, err
	}
	ask, err := w.s.needs(ctx, w.policy, e, piece)
	if err != nil {
		return false, err
	}
	review, err := hub.Read(ctx, w.s.store, func(r hub.Reader) (hub.ReviewState, error) { return reviewed(r, e, ask) })
	if err != nil {
		return false, err
	}
	if wait, _ := admission(w.policy, e, review, ask); wait == "" {
		return false, nil
	}
	return true, w.askForWord(ctx, e)
}

// askForWord lets an entry wait for the word that it needs.
func (w *worker) askForWord(ctx context.Context, e hub.LandingEntry) error {
	piece, err := w.s.pieceOf(ctx, e)
	if err != nil {
		return err
	}
	ask, err := w.s.question(ctx, w.policy, e, piece)
	if err != nil {
		return err
	}
	return w.update(ctx, func(c *change) error {
		_, err := c.admit(w.policy, e, ask)
		return err
	})
}
