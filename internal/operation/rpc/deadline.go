package rpc

import (
	"cmp"
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
)

// The deadlines of operations. Each operation has one, after which its context ends; a long poll
// has its own wait and Soon. What an operation computes is bounded by steps, so that it ends with
// its context.
const (
	Soon       = 10 * time.Second // what agents call
	Repository = 2 * time.Minute  // work of the operator on a repository or with a process
	Elsewhere  = time.Minute      // calls to other hubs
	Whole      = 5 * time.Minute  // projects and files that are read or sent whole
	Operator   = time.Hour        // the operator's long work: verify, archive, export, backup, forget
	Run        = 24 * time.Hour   // a run that is executed again
)

// Within gives an operation another deadline than Soon.
func Within[S, P, R any](d time.Duration, o Operation[S, P, R]) Operation[S, P, R] {
	o.Deadline = d
	return o
}

// timed runs a call of m with its deadline. An error after the deadline says so.
func (m *Method) timed(ctx context.Context, do func(context.Context) error) error {
	deadline := cmp.Or(m.Deadline, Soon)
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	err := do(bounded)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return err
	}
	e := hub.Errorf(hub.CodeOverloaded, m.Method, "the call did not end within %s, its deadline: %w", deadline, err)
	if m.Changes {
		return e.WithHint("look whether it took effect before you repeat it")
	}
	return e
}
