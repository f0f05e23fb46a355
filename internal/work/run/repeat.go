package run

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/report"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// An Order is everything that a run was given and that its record does not say
// otherwise.
type Order struct {
	Dispatch report.Dispatch `json:"dispatch"`
	Verify   string          `json:"verify,omitempty"`
	Build    string          `json:"build,omitempty"`
	Tests    bool            `json:"allow_test_changes,omitempty"` // the task is to change tests
	Policy   sandbox.Policy  `json:"policy"`
	TimeoutS int64           `json:"timeout_s"`
}

// order returns the order of a run, nil if a secret stands in it: a run without the
// secret would be another one.
func (e *execution) order(secrets *Redactor) *Order {
	o := &Order{Dispatch: e.spec.Dispatch, Verify: e.spec.Verify, Build: e.spec.Build, Tests: e.spec.AllowTestChanges, Policy: e.opts.Agent.Policy, TimeoutS: int64(e.spec.Timeout.Seconds())}
	raw, err := json.Marshal(o)
	if err != nil || string(secrets.Redact(raw)) != string(raw) {
		return nil
	}
	return o
}

// Policies are the permissions that an agent may have in a run that no person watches.
var Policies = []sandbox.Policy{sandbox.PolicyNone, sandbox.PolicyRead, sandbox.PolicyWrite}

// maxRepeats is the number of runs that a Repeater executes at a time.
const maxRepeats = 4

// A Repeater executes runs again inside a hub. It is safe for concurrent use.
type Repeater struct {
	home, version string
	hub           func(actor hub.Caller) Hub
	ask           func(r hub.Run, key string) acpguard.Ask

	mu      sync.Mutex      // guards what follows
	ctx     context.Context // while Run works; else nil
	working int
	wg      sync.WaitGroup
}

// NewRepeater returns a repeater of the runs whose files are in home. hub returns the
// hub as a caller reaches it; ask is that of [Options], and may be nil.
func NewRepeater(home, version string, hub func(actor hub.Caller) Hub, ask func(r hub.Run, key string) acpguard.Ask) *Repeater {
	return &Repeater{home: home, version: version, hub: hub, ask: ask}
}

// Run lets runs work until ctx ends, and returns when they have ended.
func (p *Repeater) Run(ctx context.Context) {
	p.mu.Lock()
	p.ctx = ctx
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.wg.Wait()
}

// Repeat executes a run again, in the same folder, with the same command, task and
// checks, and with the given permissions. It returns the id of the new run when that has
// begun. The order is taken from the files of the run and never from the hub's store,
// to which agents report runs of their own.
func (p *Repeater) Repeat(ctx context.Context, actor hub.Caller, id hub.RunID, policy sandbox.Policy) (hub.RunID, error) {
	const op = "run.Repeat"
	if err := actor.OperatorOnly(op); err != nil {
		return "", err
	}
	if !slices.Contains(Policies, policy) {
		return "", hub.Errorf(hub.CodeInvalid, op, "unknown policy %q: use one of %s", policy, hub.JoinWords(Policies)).WithHint("an unattended agent is never allowed everything")
	}

	r, err := NewFiles(p.home).Record(id)
	if err != nil {
		return "", err
	}
	switch {
	case !r.State.Over():
		return "", hub.Errorf(hub.CodeConflict, op, "run %s has not ended yet", id)
	case r.Order == nil:
		return "", hub.Errorf(hub.CodeConflict, op, "run %s cannot be repeated: its record is incomplete", id).
			WithHint("repeat a turn of a kept agent with: parley agent prompt; any other run with: parley run")
	}

	spec := Spec{
		Agent: r.Agent, Command: r.Command, Dir: r.Dir, Dispatch: r.Order.Dispatch, Verify: r.Order.Verify, Build: r.Order.Build, AllowTestChanges: r.Order.Tests,
		Handoff: r.Handoff, Timeout: time.Duration(r.Order.TimeoutS) * time.Second,
	}

	// The first state of the new run has its id; an error at its end says why it did not begin.
	begun, ended := make(chan hub.RunID, 1), make(chan error, 1)
	opts := &Options{
		Agent: fleet.Options{Options: acp.Options{Name: "parley", Version: p.version, Policy: policy}}, Hub: p.hub(actor), Ask: p.ask,
		On: Events{State: func(r hub.Run) {
			if r.State == hub.RunStarting {
				begun <- r.ID
			}
		}},
	}
	if err := p.start(op, spec, opts, ended); err != nil {
		return "", err
	}

	select {
	case next := <-begun:
		return next, nil
	case err := <-ended: // a run that began is told of before its end
		if err == nil {
			return <-begun, nil
		}
		return "", err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// start executes a run beside the caller.
func (p *Repeater) start(op string, spec Spec, opts *Options, ended chan<- error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx == nil:
		return hub.Errorf(hub.CodeDegraded, op, "the hub is stopping")
	case p.working == maxRepeats:
		return hub.Errorf(hub.CodeRateLimited, op, "%d runs are already in progress", maxRepeats).WithHint("wait until one has ended")
	}
	p.working++
	ctx := p.ctx
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	opts.Kill = alive
	p.wg.Go(func() {
		defer kill()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTime, kill) })()
		_, err := Execute(ctx, p.home, spec, opts)
		p.mu.Lock()
		p.working--
		p.mu.Unlock()
		ended <- err
	})
	return nil
}

// stopTime is the time that an agent has to stop when the hub does.
const stopTime = 5 * time.Second
