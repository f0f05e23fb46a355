package handoff

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Diff is the difference of the worktree of a handoff from the commit that was checked
// out when the task was accepted, or that was checked out last if it is not.
type Diff struct {
	Worktree string   `json:"worktree,omitempty"` // empty if the package names none
	Commit   string   `json:"commit,omitempty"`
	Text     string   `json:"text,omitempty"`    // a unified diff; empty without a change
	More     int      `json:"more,omitempty"`    // files that differ and are not in the text
	Problem  string   `json:"problem,omitempty"` // why there is none, for people
	At       hub.Time `json:"at,omitzero"`       // when the files were compared
}

const (
	diffTime = 20 * time.Second // for one difference
	maxDiffs = 32               // that are kept
)

// diffs keeps the differences of handoffs that have ended, in memory: a worktree goes on
// after a task, and its difference from then is not that of the task any more. The oldest
// gives way. A value of busy is held while a difference is made, so that views of several
// pages cost one core at most, and the second view of one handoff finds what the first has
// made.
type diffs struct {
	busy chan struct{}
	kept map[hub.HandoffID]Diff // guarded by busy
	age  []hub.HandoffID        // of kept, the oldest first
}

func newDiffs() diffs {
	return diffs{busy: make(chan struct{}, 1), kept: map[hub.HandoffID]Diff{}}
}

// keep keeps a difference. The caller holds busy.
func (d *diffs) keep(id hub.HandoffID, diff Diff) {
	if _, again := d.kept[id]; again {
		d.kept[id] = diff
		return
	}
	if len(d.age) == maxDiffs {
		delete(d.kept, d.age[0])
		d.age = slices.Delete(d.age, 0, 1)
	}
	d.kept[id] = diff
	d.age = append(d.age, id)
}

// Diff returns the difference of the worktree that the package of a handoff names: as it
// is now, or, if the handoff has ended, as it was when it was asked for first after that.
// It is for the operator: files may hold text that no message has.
func (s *Service) Diff(ctx context.Context, actor hub.Caller, id hub.HandoffID) (Diff, error) {
	const op = "handoff.Diff"
	if err := actor.OperatorOnly(op); err != nil {
		return Diff{}, err
	}
	var h hub.Handoff
	var steps []hub.HandoffStep
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if h, err = visible(r, op, actor, id); err == nil {
			steps, err = readSteps(r, id)
		}
		return err
	})
	if err != nil {
		return Diff{}, fmt.Errorf("handoff: diff of %s: %w", id, err)
	}

	_, pkg, ok := provePackage(h)
	out := Diff{Worktree: pkg.WorkState.Worktree}
	switch {
	case !ok || out.Worktree == "":
		return out, nil
	case s.inspector == nil:
		out.Problem = noInspector
		return out, nil
	}

	// The hub makes one difference at a time.
	select {
	case s.diffs.busy <- struct{}{}:
		defer func() { <-s.diffs.busy }()
	case <-ctx.Done():
		return Diff{}, fmt.Errorf("handoff: diff of %s: %w", id, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, diffTime)
	defer cancel()

	// A kept difference is shown only while its worktree lies under a root.
	if kept, ok := s.diffs.kept[id]; ok {
		if rooted, err := s.inspector.Rooted(bounded, out.Worktree); err == nil && rooted {
			return kept, nil
		}
	}

	patch, err := s.inspector.Diff(bounded, out.Worktree, acceptedAt(steps))
	out.At = s.clock.Now()
	out.Text = patch.Text
	out.Commit = patch.Commit
	out.More = patch.More
	if err != nil {
		out.Problem = err.Error()
	}

	// The difference of a handoff that ended is kept, because the worktree changes after it.
	over := h.Status == hub.HandoffCompleted || h.Status == hub.HandoffClosed || h.Status == hub.HandoffRejected
	if over && (err == nil || hub.CodeOf(err) == hub.CodeTooLarge) {
		s.diffs.keep(id, out)
	}
	return out, nil
}

// acceptedAt returns the commit that the worktree was compared with when the task was
// accepted, which the hub's own check names.
func acceptedAt(steps []hub.HandoffStep) string {
	if state, ok := acceptedState(steps); ok {
		return state.Commit
	}
	for _, step := range steps {
		for _, c := range step.Checks {
			if c.Compared.Commit != "" {
				return c.Compared.Commit
			}
		}
	}
	return ""
}
