package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// A Hub records runs besides the files. CodeDegraded from a method means that
// there was no answer: the call may have taken effect.
type Hub interface {
	// BeginRun records a run whose agent may work for timeout. It returns the
	// run as recorded and the key that the agent is lent.
	BeginRun(ctx context.Context, r hub.Run, timeout time.Duration) (hub.Run, string, error)
	// MoveRun records that a run entered a state; session is that of the agent,
	// empty if it is not new.
	MoveRun(ctx context.Context, id hub.RunID, next hub.RunState, session string) error
	// EndRun records the end of a run and returns the run as recorded. A second
	// call changes nothing.
	EndRun(ctx context.Context, r hub.Run) (hub.Run, error)
	// Tools returns the hub's tools for the agent that holds a key.
	Tools(key string) *fleet.Tools
}

// A UsageHub is a Hub that records usage, too.
type UsageHub interface {
	// RecordUsage records the model calls of a run, which an agent made with a CLI. A second
	// call changes nothing.
	RecordUsage(ctx context.Context, r hub.Run, cli string, calls []hub.ModelCall) error
}

// A LiveUsageHub is a UsageHub that records the usage of a run while it works.
type LiveUsageHub interface {
	UsageHub
	// RecordUsageSoFar records the model calls that a run has made until now. RecordUsage has the
	// same calls again, under the same ids.
	RecordUsageSoFar(ctx context.Context, r hub.Run, cli string, calls []hub.ModelCall) error
}

// Report tells the hub of the ends of runs that Recover returned.
func (f *Files) Report(ctx context.Context, h Hub, unreported []Record) error {
	var errs []error
	for _, r := range unreported {
		ended, err := h.EndRun(ctx, r.Run)
		switch hub.CodeOf(err) {
		case "":
			errs = append(errs, f.reopen(r).Update(func(r *Record) { r.told(ended) }))
		case hub.CodeNotFound: // the hub never knew the run
			errs = append(errs, f.reopen(r).Update(func(r *Record) { r.Told = true }))
		default:
			errs = append(errs, fmt.Errorf("run: report the end of run %s to the hub: %w", r.ID, err))
		}
	}
	return errors.Join(errs...)
}
