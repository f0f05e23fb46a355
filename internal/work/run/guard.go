package run

import (
	"errors"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// makeGuard returns the guard of the files that the agent changes: that of the caller, or one
// that asks the hub, also before a person is asked. Without a hub that lends the agent a key it
// is nil.
func (e *execution) makeGuard(opts *fleet.Options) *acpguard.Guard {
	if e.opts.Guard != nil || e.opts.Ask == nil || e.key == "" {
		return e.opts.Guard
	}
	r := e.folder.Record().Run
	guard := acpguard.New(e.spec.Dir, e.opts.Ask(r, e.key), acpguard.Options{
		Session: string(r.ID), NoReject: cli.NoReject(e.spec.Command), DenyUnanswered: e.opts.DenyUnanswered,
		Notice: func(text string) { e.problem(errors.New(text)) },
	})
	opts.Ask = guard.Asker(opts.Ask)
	return guard
}
