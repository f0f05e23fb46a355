// Package run keeps the runs of agents: who works on what, under which key, what
// the agent reported, what was found when that was checked, and the verdict.
//
// A run is begun with a key that is lent to its agent and dies with it: when the
// run ends, or at the latest when its time is over. Every move is one guarded
// write with a journal entry, and the end with the message that tells of it, in
// one transaction.
//
// Who began a run writes it. The key that was lent never does: an agent cannot
// say how its own work was judged.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Keys lends keys to agents. Access does.
type Keys interface {
	// Lend makes a key for an agent inside tx that is good until a time, and
	// returns its id and secret.
	Lend(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string, until hub.Time) (hub.KeyID, string, error)
	// Withdraw ends the key of that label inside tx, if it is still good.
	Withdraw(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string) error
	// Changed makes changes that are committed now take effect.
	Changed()
	// Enlist adds an agent inside tx if nobody is called that yet.
	Enlist(tx hub.Tx, actor hub.Caller, agent hub.AgentID) error
}

// A Sender writes the messages that runs make. The mailroom is one.
type Sender interface {
	// Post writes a message from actor inside tx. fresh says that the actor
	// begins something with it, so that its limits count.
	Post(tx hub.Tx, actor hub.Caller, e hub.Envelope, fresh bool) (hub.Message, error)
	// Announce wakes those who wait for messages that are committed now.
	Announce(...hub.Message)
}

// Options changes how a Service works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Log   *slog.Logger // default silent
}

// A Service is safe for concurrent use.
type Service struct {
	store  hub.Store
	keys   Keys
	sender Sender
	clock  hub.Clock
	log    *slog.Logger
	wake   chan struct{} // a run may have to be given up sooner than known
}

// New returns a service that keeps runs in store, lends keys through keys and
// tells of their ends through sender. opts may be nil.
func New(store hub.Store, keys Keys, sender Sender, opts *Options) *Service {
	s := &Service{store: store, keys: keys, sender: sender, clock: time.Now, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1)}
	if opts != nil {
		if opts.Clock != nil {
			s.clock = opts.Clock
		}
		if opts.Log != nil {
			s.log = opts.Log
		}
	}
	return s
}

// Bounds of what a run may hold.
const (
	maxTask     = 64 << 10
	maxReport   = 256 << 10
	maxEvidence = 1 << 20
	maxWord     = 4 << 10 // a path, a reason
	maxClaims   = 1000    // contradictions
	maxTime     = 7 * 24 * time.Hour

	// slack is how much longer than its time a run may take: to check, and to
	// say how it ended.
	slack = 30 * time.Minute
)

// A Beginning says what a run is about.
type Beginning struct {
	ID       hub.RunID // made by the caller, so that its own records have it, too
	Agent    hub.AgentID
	Task     string
	Dir      string
	ThreadID string        // default that of the handoff, else the run's id
	Handoff  hub.HandoffID // that the task came by; may be empty
	Timeout  time.Duration // how long the work may take
}

// Begin records a run and lends its agent a key, which it returns. The operator
// may begin a run for anybody, and adds an agent that is not there; an agent only
// for itself.
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
			State: hub.RunStarting, StartedAt: now, ExpiresAt: now.Add(b.Timeout + slack),
		}
		if b.Handoff != "" {
			h, err := tx.Handoff(b.Handoff)
			if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
				return err
			}
			if err != nil || !h.Concerns(actor.ID) && !actor.Audits() {
				return hub.Errorf(hub.CodeNotFound, op, "there is no handoff %q that you can see", b.Handoff)
			}
			if h.To != b.Agent {
				return hub.Errorf(hub.CodeConflict, op, "handoff %s is for %s, not for %s", h.ID, h.To, b.Agent)
			}
			r.ThreadID = h.ThreadID
		}
		if r.ThreadID == "" {
			r.ThreadID = string(r.ID)
		}
		if actor.IsOperator() {
			if err := s.keys.Enlist(tx, actor, b.Agent); err != nil {
				return err
			}
		}
		if r.Key, secret, err = s.keys.Lend(tx, actor, b.Agent, label(b.ID), r.ExpiresAt); err != nil {
			return err
		}
		if err := tx.AddRun(r); err != nil {
			return err
		}
		return record(tx, actor.ID, now, r)
	})
	if err != nil {
		return hub.Run{}, "", fmt.Errorf("run: begin: %w", err)
	}
	s.keys.Changed()
	select {
	case s.wake <- struct{}{}:
	default: // it looks anyway
	}
	return r, secret, nil
}

// label is that of the key that a run lends.
func label(id hub.RunID) string { return hub.RunKeyLabel + string(id) }

func (b Beginning) check(op string, actor hub.Caller) error {
	switch {
	case actor.Paused:
		return hub.Errorf(hub.CodeDenied, op, "%s is paused and cannot begin a run", actor.ID)
	case lent(actor):
		return hub.Errorf(hub.CodeDenied, op, "a run is not begun with a key that another run lends")
	case !actor.IsOperator() && actor.ID != b.Agent:
		return hub.Errorf(hub.CodeDenied, op, "only the operator may begin a run of %s, and you are %s", b.Agent, actor.ID).
			WithHint("run it on a terminal without PARLEY_KEY, or with --as-operator")
	case !b.Agent.Valid() || b.Agent == hub.Operator || b.Agent == hub.Self:
		return hub.Errorf(hub.CodeInvalid, op, "agent: %q cannot be an agent's name", b.Agent)
	case !b.ID.Valid():
		return hub.Errorf(hub.CodeInvalid, op, "run_id: %q is not a UUIDv7", b.ID)
	case strings.TrimSpace(b.Task) == "":
		return hub.Errorf(hub.CodeInvalid, op, "task: missing")
	case len(b.Task) > maxTask:
		return hub.Errorf(hub.CodeTooLarge, op, "task: at most %d bytes", maxTask)
	case len(b.Dir) > maxWord || len(b.ThreadID) > maxWord:
		return hub.Errorf(hub.CodeTooLarge, op, "dir and thread_id have at most %d bytes", maxWord)
	case b.Timeout <= 0 || b.Timeout > maxTime:
		return hub.Errorf(hub.CodeInvalid, op, "timeout_s: not between 1 s and %s", maxTime)
	}
	return nil
}

// lent reports whether the actor came with the key of a run.
func lent(actor hub.Caller) bool {
	_, name, _ := strings.Cut(string(actor.Key), "/")
	return strings.HasPrefix(name, hub.RunKeyLabel)
}

// actionOf is the journal's word for each state.
var actionOf = map[hub.RunState]hub.Action{
	hub.RunStarting:    hub.ActionRunStarting,
	hub.RunRunning:     hub.ActionRunRunning,
	hub.RunChecking:    hub.ActionRunChecking,
	hub.RunDone:        hub.ActionRunDone,
	hub.RunFailed:      hub.ActionRunFailed,
	hub.RunInterrupted: hub.ActionRunInterrupted,
}

// facts is what the journal keeps of a run: never a report or evidence.
type facts struct {
	Agent          hub.AgentID    `json:"agent"`
	By             hub.AgentID    `json:"by"`
	ThreadID       string         `json:"thread_id"`
	Handoff        hub.HandoffID  `json:"handoff_id,omitempty"`
	Session        string         `json:"session_id,omitempty"`
	StopReason     string         `json:"stop_reason,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Verdict        hub.RunVerdict `json:"verdict,omitempty"`
	Contradictions int            `json:"contradictions,omitempty"`
	Message        hub.EnvelopeID `json:"message_id,omitempty"`
	Digest         string         `json:"sha256"` // of the run as it is now
}

// record writes the journal entry for a run as it is now.
func record(tx hub.Tx, actor hub.AgentID, at hub.Time, r hub.Run) error {
	raw, err := json.Marshal(facts{
		Agent: r.Agent, By: r.By, ThreadID: r.ThreadID, Handoff: r.Handoff, Session: r.Session, StopReason: r.StopReason, Reason: r.Reason,
		Verdict: r.Verdict, Contradictions: len(r.Contradictions), Message: r.Message, Digest: r.Digest(),
	})
	if err != nil {
		return err
	}
	_, err = tx.Append(hub.Entry{At: at, Actor: actor, Action: actionOf[r.State], Subject: string(r.ID), Outcome: hub.OutcomeOK, Facts: raw})
	return err
}

// Move notes that a run has come further: it is running in a session of its
// agent, or being checked.
func (s *Service) Move(ctx context.Context, actor hub.Caller, id hub.RunID, next hub.RunState, session string) (hub.Run, error) {
	const op = "run.Move"
	if next != hub.RunRunning && next != hub.RunChecking {
		return hub.Run{}, hub.Errorf(hub.CodeInvalid, op, "state: %q is not running or checking", next)
	}
	if len(session) > maxWord {
		return hub.Run{}, hub.Errorf(hub.CodeTooLarge, op, "session_id: at most %d bytes", maxWord)
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
		return record(tx, actor.ID, now, r)
	})
	if err != nil {
		return hub.Run{}, fmt.Errorf("run: move: %w", err)
	}
	s.sender.Announce()
	return r, nil
}

// writable returns a run that the actor may write.
func writable(r hub.Reader, op string, actor hub.Caller, id hub.RunID) (hub.Run, error) {
	run, err := visible(r, op, actor, id)
	switch {
	case err != nil:
		return run, err
	case lent(actor) || !actor.IsOperator() && actor.ID != hub.Self && actor.ID != run.By:
		return run, hub.Errorf(hub.CodeDenied, op, "run %s is written by %s alone, and never with the key that it lends", id, run.By)
	}
	return run, nil
}

// visible returns a run that the actor may see. What it may not see does not
// exist for it.
func visible(r hub.Reader, op string, actor hub.Caller, id hub.RunID) (hub.Run, error) {
	run, err := r.Run(id)
	if err == nil && !run.Concerns(actor.ID) && !actor.Audits() || hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Run{}, hub.Errorf(hub.CodeNotFound, op, "there is no run %q that you can see", id).WithHint("parley runs list shows yours")
	}
	return run, err
}
