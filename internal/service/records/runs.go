package records

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// aboutRun reports whether an action is about a run.
func aboutRun(a hub.Action) bool { return strings.HasPrefix(string(a), "run.") }

// checkRuns compares every run with the newest entry about it.
func (v *verifier) checkRuns(ctx context.Context) error {
	q := hub.RunQuery{Limit: pageSize}
	return v.pages(ctx, "runs", func(r hub.Reader) (int, error) {
		runs, err := r.Runs(q)
		for _, run := range runs {
			if err == nil {
				v.out.Runs++
				err = v.checkRun(r, run)
				q.Cursor = run.ID
			}
		}
		return len(runs), err
	})
}

func (v *verifier) checkRun(r hub.Reader, run hub.Run) error {
	where := "run " + string(run.ID)
	entries, err := v.about(r, string(run.ID))
	if err != nil {
		return err
	}
	var newest hub.Entry
	for _, e := range entries {
		if aboutRun(e.Action) {
			newest = e
		}
	}
	if newest.Seq == 0 {
		if v.complete {
			v.find(where, "no journal row records it")
		}
		return nil
	}
	var facts struct {
		Digest string `json:"sha256"`
	}
	if err := json.Unmarshal(newest.Facts, &facts); err != nil {
		v.find(row(newest.Seq), "its facts cannot be read: %v", err)
	} else if facts.Digest != run.Digest() {
		if withheldRun(r, run) {
			v.withheld++
			return nil
		}
		v.find(where, "it differs from what journal row %d recorded", newest.Seq)
	}
	return nil
}

// withheldRun reports whether an export has left out what a run is about, because
// its task came by a restricted handoff.
func withheldRun(r hub.Reader, run hub.Run) bool {
	if run.Handoff == "" || run.Task != "restricted" || run.Report != nil || run.Evidence != nil {
		return false
	}
	h, err := r.Handoff(run.Handoff)
	return err == nil && h.Restricted
}
