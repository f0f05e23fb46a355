// Package run decides about the runs of agents on the hub: it records which agent works on
// which task, lends the agent a key, and records the report, the evidence and the
// verdict at the end.
//
// The key is lent when the run begins and dies with it: when the run ends, or at the
// latest when its time is over. Every move is one guarded write with a journal
// entry; the end is written with its message in one transaction.
//
// Only the caller that began a run changes it, and never with the key that was lent. A
// verdict names its author: that of an agent on its own work is claimed, never confirmed.
package run

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// Keys lends keys to agents. Package access implements it.
type Keys interface {
	// Lend makes a key for an agent inside tx that is valid until a time, and
	// returns its id and secret.
	Lend(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string, until hub.Time) (hub.KeyID, string, error)
	// Withdraw ends the key of that label inside tx, if it is still valid.
	Withdraw(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string) error
	// Changed applies the changes of a committed transaction.
	Changed()
	// Enlist adds an agent inside tx unless there is one of that name.
	Enlist(tx hub.Tx, actor hub.Caller, agent hub.Agent) error
}

// A Sender writes the messages about runs. The mailroom implements it.
type Sender interface {
	// Post writes a message from actor inside tx. fresh makes the limits of the
	// actor apply.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Announce wakes the waiters of committed messages.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Log   *slog.Logger // default silent

	// Blocked returns why no run of an agent may begin; "" if one may. It may be nil.
	Blocked func(rd hub.Reader, agent hub.AgentID) (reason string, err error)
}

// A Service is safe for concurrent use.
type Service struct {
	store  hub.Store
	keys   Keys
	sender Sender
	clock  hub.Clock
	log    *slog.Logger

	blocked func(rd hub.Reader, agent hub.AgentID) (string, error)
}

// New returns a service that keeps runs in store, lends keys through keys and sends
// messages about their ends through sender. opts may be nil.
func New(store hub.Store, keys Keys, sender Sender, opts *Options) *Service {
	s := &Service{store: store, keys: keys, sender: sender, clock: time.Now, log: slog.New(slog.DiscardHandler)}
	s.blocked = func(hub.Reader, hub.AgentID) (string, error) { return "", nil }
	if opts != nil {
		if opts.Clock != nil {
			s.clock = opts.Clock
		}
		if opts.Log != nil {
			s.log = opts.Log
		}
		if opts.Blocked != nil {
			s.blocked = opts.Blocked
		}
	}
	return s
}

// Limits of the members of a run, in bytes unless noted.
const (
	maxTask     = 64 << 10
	maxReport   = 256 << 10
	maxEvidence = 1 << 20
	maxText     = 4 << 10       // a path, a reason
	maxClaims   = 1000          // number of contradictions
	maxTime     = 7 * 24 * 3600 // seconds
	maxOpen     = 8             // runs of its own that an agent has open, each with a key

	// slack is the time after the timeout in which a run is checked and ended.
	slack = 30 * time.Minute
)

// A Beginning describes a run that begins, on the wire, too.
type Beginning struct {
	ID       hub.RunID     `json:"run_id"` // made by the caller, so that the files of the run have it, too
	Agent    hub.AgentID   `json:"agent"`
	Task     string        `json:"task"`
	Dir      string        `json:"dir,omitempty"`
	ThreadID string        `json:"thread_id,omitempty"`  // default that of the handoff, else the run's id
	Handoff  hub.HandoffID `json:"handoff_id,omitempty"` // of the task
	TimeoutS int           `json:"timeout_s"`            // seconds for the work of the agent
}

// Begin records a run and lends its agent a key, which it returns. The operator may
// begin a run of any agent, which is added if there is none of that name; an agent
// only of itself.
func (s *Service) Begin(ctx context.Context, actor hub.Caller, b Beginning) (hub.Run, string, error) {
	const op = "run.Begin"
	if err := b.check(op, actor); err != nil {
		return hub.Run{}, "", err
	}

	var r hub.Run
	var secret string
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		now := s.clock.Now()
		r = hub.Run{
			ID: b.ID, Agent: b.Agent, By: actor.ID, Task: b.Task, Dir: b.Dir, ThreadID: b.ThreadID, Handoff: b.Handoff,
			State: hub.RunStarting, StartedAt: now, ExpiresAt: now.Add(time.Duration(b.TimeoutS)*time.Second + slack),
		}

		// A run for a handoff belongs to the thread of the handoff.
		if b.Handoff != "" {
			h, err := tx.Handoff(b.Handoff)
			if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				return err
			}
			if err != nil || (!h.Concerns(actor.ID) && !actor.Audits()) {
				return hub.Errorf(hub.CodeNotFound, op, "no handoff %q that you can see", b.Handoff)
			}
			if h.To != b.Agent {
				return hub.Errorf(hub.CodeConflict, op, "handoff %s is for %s, not for %s", h.ID, h.To, b.Agent)
			}
			r.ThreadID = h.ThreadID
		}
		if r.ThreadID == "" {
			r.ThreadID = string(r.ID)
		}

		// The operator may name a new agent; an agent has a limited number of open runs.
		if actor.IsOperator() {
			err = s.keys.Enlist(tx, actor, hub.Agent{ID: b.Agent})
		} else {
			err = bound(tx, op, actor)
		}
		if err != nil {
			return err
		}
		reason, err := s.blocked(tx, b.Agent)
		if err != nil {
			return err
		}
		if reason != "" {
			return hub.Errorf(hub.CodeRateLimited, op, "%s", reason)
		}

		if r.Key, secret, err = s.keys.Lend(tx, actor, b.Agent, label(b.ID), r.ExpiresAt); err != nil {
			return err
		}
		if err := tx.PutRun(r, ""); err != nil {
			return err
		}
		return record(tx, actor, now, r)
	})
	if err != nil {
		return hub.Run{}, "", fmt.Errorf("run: begin: %w", err)
	}

	s.keys.Changed()
	return r, secret, nil
}

// bound refuses a run of an agent that has as many of its own open as it may have. Each
// lends it a key, so that the bound is one for its keys, too.
func bound(tx hub.Tx, op string, actor hub.Caller) error {
	open, err := tx.Runs(hub.RunQuery{By: actor.ID, Open: true, Limit: maxOpen})
	if err != nil || len(open) < maxOpen {
		return err
	}
	return hub.Errorf(hub.CodeRateLimited, op, "%s reached the limit of %d open runs of its own", actor.ID, maxOpen).
		WithHint("end one of them first: {runs.list} shows them")
}

// Record stores a run that the hub executed itself and that is over. It lends no key.
func (s *Service) Record(ctx context.Context, b Beginning, e Ending) (hub.Run, error) {
	const op = "run.Record"
	self := hub.Caller{ID: hub.Self, Auditor: true}
	if err := e.check(op); err != nil {
		return hub.Run{}, err
	}
	var r hub.Run
	var msg hub.Message
	err := s.store.Update(ctx, hub.SurvivesPowerLoss, func(tx hub.Tx) (err error) {
		now := s.clock.Now()
		r = hub.Run{
			ID: b.ID, Agent: b.Agent, By: b.Agent, Task: b.Task, Dir: b.Dir, ThreadID: string(b.ID),
			State: hub.RunStarting, StartedAt: b.ID.Time(), ExpiresAt: now.Add(slack),
		}
		if err := tx.PutRun(r, ""); err != nil {
			return err
		}
		if err := record(tx, self, now, r); err != nil {
			return err
		}
		r, msg, err = s.finish(tx, self, r, e)
		return err
	})
	if err != nil {
		return hub.Run{}, fmt.Errorf("run: record: %w", err)
	}
	s.sender.Announce(msg)
	return r, nil
}

// label returns the label of the key that a run lends.
func label(id hub.RunID) string { return hub.RunKeyLabel + string(id) }

func (b Beginning) check(op string, actor hub.Caller) error {
	switch {
	case actor.Paused:
		return hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot begin a run", actor.ID)
	case lent(actor):
		return hub.Errorf(hub.CodeDenied, op, "a key lent for a run cannot begin another run")
	case !actor.IsOperator() && actor.ID != b.Agent:
		return hub.Errorf(hub.CodeDenied, op, "only the operator can begin a run of %s; you are %s", b.Agent, actor.ID).
			WithHint("{as_operator}")
	case !b.Agent.Valid() || b.Agent == hub.Operator || b.Agent == hub.Self:
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a valid agent name", b.Agent)
	case !b.ID.Valid():
		return hub.Errorf(hub.CodeInvalid, op, "run_id %q is not a UUIDv7", b.ID)
	case strings.TrimSpace(b.Task) == "":
		return hub.Errorf(hub.CodeInvalid, op, "task is required")
	case len(b.Task) > maxTask:
		return hub.Errorf(hub.CodeTooLarge, op, "task must be at most %d bytes, got %d", maxTask, len(b.Task))
	case len(b.Dir) > maxText || len(b.ThreadID) > maxText:
		return hub.Errorf(hub.CodeTooLarge, op, "dir and thread_id must be at most %d bytes each", maxText)
	case b.TimeoutS <= 0 || b.TimeoutS > maxTime:
		return hub.Errorf(hub.CodeInvalid, op, "timeout_s must be between 1 and %d", maxTime)
	}
	return nil
}

// lent reports whether the actor holds the key of a run.
func lent(actor hub.Caller) bool {
	_, name, _ := strings.Cut(string(actor.Key), "/")
	return strings.HasPrefix(name, hub.RunKeyLabel)
}

// actionOf is the action of the journal entry for each state.
var actionOf = map[hub.RunState]actions.Action{
	hub.RunStarting:    actions.RunStarting,
	hub.RunRunning:     actions.RunRunning,
	hub.RunChecking:    actions.RunChecking,
	hub.RunDone:        actions.RunDone,
	hub.RunFailed:      actions.RunFailed,
	hub.RunInterrupted: actions.RunInterrupted,
}

// facts are the facts of a journal entry about a run: never a report or evidence.
type facts struct {
	Agent          hub.AgentID    `json:"agent"`
	By             hub.AgentID    `json:"by"`
	ThreadID       string         `json:"thread_id"`
	Handoff        hub.HandoffID  `json:"handoff_id,omitempty"`
	Session        string         `json:"session_id,omitempty"`
	StopReason     string         `json:"stop_reason,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Verdict        hub.RunVerdict `json:"verdict,omitempty"`
	VerdictBy      hub.AgentID    `json:"verdict_by,omitempty"`
	ClaimedVerdict hub.RunVerdict `json:"claimed_verdict,omitempty"`
	Contradictions int            `json:"contradictions,omitempty"`
	Message        hub.EnvelopeID `json:"message_id,omitempty"`
	Digest         string         `json:"sha256"` // of the run as it is now
}

// record writes the journal entry for a run as it is now.
func record(tx hub.Tx, actor hub.Caller, at hub.Time, r hub.Run) error {
	f := facts{
		Agent: r.Agent, By: r.By, ThreadID: r.ThreadID, Handoff: r.Handoff, Session: r.Session, StopReason: r.StopReason, Reason: r.Reason,
		Verdict: r.Verdict, VerdictBy: r.VerdictBy, ClaimedVerdict: r.ClaimedVerdict, Contradictions: len(r.Contradictions), Message: r.Message, Digest: r.Digest(),
	}
	_, err := tx.Append(actor.Entry(at, actionOf[r.State], string(r.ID), f))
	return err
}

// Move records that a run is running, in a session of its agent, or is being
// checked.
func (s *Service) Move(ctx context.Context, actor hub.Caller, id hub.RunID, next hub.RunState, session string) (hub.Run, error) {
	const op = "run.Move"
	if next != hub.RunRunning && next != hub.RunChecking {
		return hub.Run{}, hub.Errorf(hub.CodeInvalid, op, "state must be running or checking, got %q", next)
	}
	if len(session) > maxText {
		return hub.Run{}, hub.Errorf(hub.CodeTooLarge, op, "session_id must be at most %d bytes, got %d", maxText, len(session))
	}

	var r hub.Run
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
		if r, err = writable(tx, op, actor, id); err != nil {
			return err
		}

		was, now := r.State, s.clock.Now()
		if r, err = r.Advance(next, now); err != nil {
			return err
		}
		if session != "" {
			r.Session = session
		}
		if err := tx.PutRun(r, was); err != nil {
			return err
		}
		return record(tx, actor, now, r)
	})
	if err != nil {
		return hub.Run{}, fmt.Errorf("run: move: %w", err)
	}
	s.sender.Announce()
	return r, nil
}

// writable returns a run that the actor may change.
func writable(r hub.Reader, op string, actor hub.Caller, id hub.RunID) (hub.Run, error) {
	run, err := visible(r, op, actor, id)
	switch {
	case err != nil:
		return run, err
	case lent(actor) || (!actor.IsOperator() && actor.ID != hub.Self && actor.ID != run.By):
		return run, hub.Errorf(hub.CodeDenied, op, "only %[2]s can change run %[1]s, and not with the key lent for it", id, run.By)
	}
	return run, nil
}

// visible returns a run that the actor may see. For any other run it reports
// CodeNotFound, as if there were none.
func visible(r hub.Reader, op string, actor hub.Caller, id hub.RunID) (hub.Run, error) {
	run, err := r.Run(id)
	isHidden := err == nil && !run.Concerns(actor.ID) && !actor.Audits()
	if isHidden || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Run{}, hub.Errorf(hub.CodeNotFound, op, "no run %q that you can see", id).WithHint("{runs.list} lists your runs")
	}
	return run, err
}
