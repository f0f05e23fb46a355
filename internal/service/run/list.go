package run

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

const (
	defaultPage = 50
	maxPage     = 200
	maxJournal  = 1000 // entries about one run; it has a handful
)

// A Trace is a run with its journal entries.
type Trace struct {
	hub.Run
	Journal []hub.Entry `json:"journal"`
}

// Show returns a run with its journal entries.
func (s *Service) Show(ctx context.Context, actor hub.Caller, id hub.RunID) (Trace, error) {
	var out Trace
	err := s.store.View(ctx, func(r hub.Reader) (err error) {
		if out.Run, err = visible(r, "run.Show", actor, id); err != nil {
			return err
		}
		if err := withhold(r, actor, &out.Run); err != nil {
			return err
		}
		out.Journal, err = r.Journal(hub.JournalQuery{Subject: string(id), Limit: maxJournal})
		return err
	})
	if err != nil {
		return Trace{}, fmt.Errorf("run: show: %w", err)
	}
	return out, nil
}

// withhold takes the text of a run on a restricted handoff out of it for an
// actor that reads it as an auditor.
func withhold(r hub.Reader, actor hub.Caller, run *hub.Run) error {
	if !actor.ReadsAsAuditor() || run.Handoff == "" || run.Concerns(actor.ID) {
		return nil
	}
	h, err := r.Handoff(run.Handoff)
	if err == nil && h.Restricted && !h.Concerns(actor.ID) {
		*run = run.Withheld()
	}
	return err
}

// A Listing is a page of runs, newest first, without their reports and evidence.
type Listing struct {
	Runs []hub.Run `json:"runs"`
	Next hub.RunID `json:"next"` // cursor for the page after this one, or ""
}

// List returns runs. Auditors see all runs, others those that they began or work
// in.
func (s *Service) List(ctx context.Context, actor hub.Caller, q hub.RunQuery) (Listing, error) {
	const op = "run.List"
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	switch {
	case q.Limit < 0 || q.Limit > maxPage:
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "limit must be between 1 and %d, got %d", maxPage, q.Limit)
	case q.Cursor != "" && !q.Cursor.Valid():
		return Listing{}, hub.Errorf(hub.CodeInvalid, op, "cursor is not from a listing; leave it out to start at the newest run")
	}

	if q.Viewer = ""; !actor.Audits() {
		q.Viewer = actor.ID
	}
	limit := q.Limit
	q.Limit++ // one more shows whether there is a next page

	var out Listing
	err := s.store.View(ctx, func(r hub.Reader) error {
		out = Listing{Runs: []hub.Run{}}
		found, err := r.Runs(q)
		if err != nil {
			return err
		}
		if len(found) > limit {
			found = found[:limit]
			out.Next = found[limit-1].ID
		}

		// A listing leaves out reports and evidence, which can be long.
		for _, run := range found {
			run.Report, run.Evidence = nil, nil
			if err := withhold(r, actor, &run); err != nil {
				return err
			}
			out.Runs = append(out.Runs, run)
		}
		return nil
	})
	if err != nil {
		return Listing{}, fmt.Errorf("run: list: %w", err)
	}
	return out, nil
}
