package wake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// A Waiter describes the program that waits for wakes beside a CLI.
type Waiter struct {
	Key
	Stamp     string `json:"stamp,omitempty"` // of the process, see package process
	Cwd       string `json:"cwd,omitempty"`
	Version   string `json:"version,omitempty"`  // of the CLI
	Mechanism string `json:"mechanism"`          // by which it writes a notice into the session
	Waiter    string `json:"waiter,omitempty"`   // its name, the same in all its requests and in no other waiter's
	Attended  bool   `json:"attended,omitempty"` // a person has the session in a terminal
	Seconds   int    `json:"seconds,omitempty"`  // the longest wait, at most 60; 0 means 30

	// Began is when the waiter was started. A session that ended later does not come back
	// for it.
	Began hub.Time `json:"began,omitzero"`

	// Inside says that the waiter is a part of the hub: a wait that it ends has not
	// broken off.
	Inside bool `json:"-"`
}

// A Call is the answer to a wait.
type Call struct {
	Wake *Notice `json:"wake,omitempty"` // nil if none was due in time
	Gone bool    `json:"gone,omitempty"` // another waiter serves the session, or it has ended; this waiter ends
}

// A Notice is the notice of a wake that is due.
type Notice struct {
	ID        string `json:"id"`
	Notice    string `json:"notice"`
	Interrupt bool   `json:"interrupt,omitempty"` // the turn that runs may be interrupted
}

// Wait registers a session of the actor as armed and returns when a wake is due in
// it. It marks no message as delivered. A wake that was returned and not reported as
// handed is returned again: the connection may have broken.
func (g *Machine) Wait(ctx context.Context, actor hub.Caller, w Waiter) (Call, error) {
	const op = "wake.Wait"
	if err := checkKey(op, w.Key); err != nil {
		return Call{}, err
	}
	if err := checkTexts(op, w.Cwd, w.Stamp, w.Version, w.Mechanism, w.Waiter); err != nil {
		return Call{}, err
	}
	if w.Seconds == 0 {
		w.Seconds = 30
	}
	if w.Mechanism == "" || w.Seconds < 1 || time.Duration(w.Seconds)*time.Second > longestWait {
		return Call{}, hub.Errorf(hub.CodeInvalid, op, "mechanism is required, and seconds must be between 1 and %d", int(longestWait.Seconds()))
	}

	// A waiter whose request broke off gets no wake until it comes again.
	defer func() {
		if ctx.Err() != nil && !w.Inside {
			g.disarm(context.WithoutCancel(ctx), actor.ID, w)
		}
	}()
	hints, cancel := g.o.Bus.Subscribe(topic(actor.ID)) // before the first read, so that no wake is missed
	defer cancel()
	served, err := g.arm(ctx, actor.ID, w)
	if err != nil {
		return Call{}, fmt.Errorf("wake: wait: %w", err)
	}
	if !served {
		return Call{Gone: true}, nil
	}
	replaced, leave := g.enter(actor.ID, w.Key) // not before: a waiter that was replaced must not end the one that serves
	defer leave()

	timeout := time.NewTimer(time.Duration(w.Seconds) * time.Second)
	defer timeout.Stop()

	for {
		if err := g.admitted(ctx, op, actor); err != nil {
			return Call{}, err
		}
		if call, err := g.take(ctx, actor.ID, w); err != nil || call != (Call{}) {
			return call, err
		}
		select {
		case <-hints:
		case <-replaced:
			return Call{Gone: true}, nil
		case <-timeout.C:
			return Call{}, nil
		case <-g.o.Stopping:
			return Call{}, nil
		case <-ctx.Done():
			return Call{}, ctx.Err()
		}
	}
}

// enter makes this wait the one of its session and ends the one before. A waiter with a name
// finds out by its session, too; this is the only end of one without.
func (g *Machine) enter(agent hub.AgentID, k Key) (replaced <-chan struct{}, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key, mine := waitKey{agent, k}, make(chan struct{})
	if older := g.waits[key]; older != nil {
		close(older)
	}
	g.waits[key] = mine
	return mine, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.waits[key] == mine {
			delete(g.waits, key)
		}
	}
}

// disarmTime is the time for recording that the request of a waiter broke off.
const disarmTime = 5 * time.Second

// disarm records that the request of a waiter broke off: no wake is left for the session
// until the waiter comes again. A wake that it took and did not report stays for it. A
// failure is left to staleAfter.
func (g *Machine) disarm(ctx context.Context, agent hub.AgentID, w Waiter) {
	select {
	case <-g.o.Stopping:
		return // all waiters come to the next hub
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, disarmTime)
	defer cancel()
	err := g.update(ctx, agent, func(a *agentRecord) error {
		s := a.presence.find(w.Key)
		if s == nil || s.Waiter != w.Waiter || g.hasWaiter(agent, w.Key) {
			return nil
		}
		s.Armed = hub.Time{}
		if due := a.wakes.offered(w.Key); due != nil && due.State == hub.WakeWaiting {
			return a.withdraw(due, w.Key, "its waiter's request ended early")
		}
		return nil
	})
	if err == nil {
		g.Visit(agent)
	}
}

// armRefresh is the time after which a wait is recorded again though nothing changed.
const armRefresh = 30 * time.Second

// arm records that a waiter serves a session, and reports false if a newer one does. A
// wait that changes nothing is written down at most every armRefresh, so that an idle
// hub stays idle.
func (g *Machine) arm(ctx context.Context, agent hub.AgentID, w Waiter) (served bool, err error) {
	known := false
	err = g.store.View(ctx, func(r hub.Reader) error {
		d, err := hub.ReadMeta[document](r, sessionsKey(agent))
		s := d.find(w.Key)
		known = s != nil && s.armedBy(w) && g.o.Clock.Now().Sub(s.Seen.Time) < armRefresh
		return err
	})
	if err != nil || known {
		return known, err
	}
	visit := false
	err = g.update(ctx, agent, func(a *agentRecord) error {
		s := a.ensure(w.Key)
		visit = false
		if served = !s.endedSince(w.Began) && s.serve(w.Waiter); served {
			visit = s.arm(w, a.now)
		}
		return nil
	})
	if err == nil && visit {
		g.Visit(agent)
	}
	return served, err
}

// endedSince reports whether the session ended after a time; false for no time.
func (s *Session) endedSince(t hub.Time) bool {
	return s.State == SessionEnded && !t.IsZero() && s.Since.After(t.Time)
}

// armedBy reports whether the session is stored as a waiter describes it.
func (s *Session) armedBy(w Waiter) bool {
	served := s.Waiter == w.Waiter && !s.Armed.IsZero() && s.State != SessionStarting
	return served && s.Mechanism == w.Mechanism && s.Attended == w.Attended && s.Stamp == w.Stamp
}

// arm notes that a waiter serves the session, and reports whether none did before.
func (s *Session) arm(w Waiter, now hub.Time) (first bool) {
	first = s.Armed.IsZero() || !s.live() || now.Sub(s.Seen.Time) >= staleAfter
	if first || s.Mechanism != w.Mechanism {
		s.Armed = now
	}
	s.Seen = now
	s.Mechanism = w.Mechanism
	s.Attended = w.Attended
	s.Stamp = w.Stamp
	s.Cwd = cmp.Or(w.Cwd, s.Cwd)
	s.Version = cmp.Or(w.Version, s.Version)
	if s.State == SessionStarting || s.State == SessionEnded {
		s.move(SessionIdle, now)
	}
	return first
}

// admitted checks that the key of a caller that has waited is still valid.
func (g *Machine) admitted(ctx context.Context, op string, actor hub.Caller) error {
	if actor.Key == "" {
		return nil
	}
	keys, err := hub.Read(ctx, g.store, func(r hub.Reader) ([]hub.Key, error) { return r.Keys(actor.ID) })
	if err != nil {
		return err
	}
	now := g.o.Clock.Now()
	if !slices.ContainsFunc(keys, func(k hub.Key) bool { return k.ID == actor.Key && k.Live(now) }) {
		return hub.Errorf(hub.CodeUnauthenticated, op, "the key of %s is no longer valid", actor.ID)
	}
	return nil
}

// take returns the wake that is due in a session, or that another waiter serves it; the
// zero Call if neither.
func (g *Machine) take(ctx context.Context, agent hub.AgentID, waiter Waiter) (out Call, err error) {
	due := false
	err = g.store.View(ctx, func(r hub.Reader) error {
		a, err := g.load(r, agent)
		if err != nil {
			return err
		}
		w, call := a.dueIn(waiter)
		due = w != nil
		out = call
		return nil
	})
	if err != nil || !due {
		return out, err
	}

	err = g.update(ctx, agent, func(a *agentRecord) error {
		w, call := a.dueIn(waiter)
		if out = call; w == nil {
			return nil
		}
		out.Wake, err = a.give(w, a.presence.find(waiter.Key))
		return err
	})
	return out, err
}

// dueIn returns the wake that the waiter of a session is to write: one that waits for it, or
// that it took and did not report, because its connection broke. The call says that another
// waiter serves the session.
func (a *agentRecord) dueIn(waiter Waiter) (*hub.Wake, Call) {
	s := a.presence.find(waiter.Key)
	if s == nil {
		return nil, Call{}
	}
	if waiter.Waiter != "" && s.Waiter != waiter.Waiter {
		return nil, Call{Gone: true}
	}
	return a.wakes.inSession(s.Key, hub.WakeWaiting, hub.WakeTaken), Call{}
}

// give gives a wake to the waiter of a session and returns its notice; nil if the wake must
// not be shown any more. Just before it leaves, it is looked up whether its messages still
// wait; the counts in the notice are those of now.
func (a *agentRecord) give(w *hub.Wake, s *Session) (*Notice, error) {
	reason, err := a.invalid(w)
	if err != nil {
		return nil, err
	}
	isNew := w.State == hub.WakeWaiting && !w.Probe
	if reason == "" && isNew { // a turn that ended since may have spent a budget
		reason, _ = a.spentBudget()
	}
	if reason != "" {
		return nil, a.move(w, step{state: hub.WakeRefused, mechanism: s.Mechanism, detail: reason})
	}
	mail, err := readMail(a.rd, a.agent, s.Shown, a.now)
	if err != nil {
		return nil, err
	}
	first := w.State == hub.WakeWaiting
	needsFreshMail := !w.Repeat && !w.Probe
	if first && needsFreshMail && len(mail.fresh) == 0 {
		return nil, a.leave(w, s.Key, step{state: hub.WakeShown, mechanism: s.Mechanism, detail: "announced earlier in its session"})
	}

	s.Shown = mail.upTo
	if first {
		w.Sessions = []Key{s.Key} // no other may take it
		if err := a.move(w, step{hub.WakeTaken, s.Mechanism, "given to its waiter", s.proof(a.now)}); err != nil {
			return nil, err
		}
	}
	b := channel.Batch{ID: w.ID, Recipient: a.agent, Messages: mail.all, Interrupt: w.Interrupt, Repeat: w.Repeat, Probe: w.Probe}
	notice, err := a.writeNotice(b)
	return &Notice{ID: w.ID, Notice: notice, Interrupt: w.Interrupt}, err
}

// A Handing is the waiter's word on a wake that it got.
type Handing struct {
	Wake    string        `json:"wake"`
	Outcome channel.State `json:"outcome"` // handed, held, refused or failed
	Detail  string        `json:"detail,omitempty"`
}

// Handed records the outcome of a wake that Wait returned. That it was written is no
// proof that a turn began.
func (g *Machine) Handed(ctx context.Context, actor hub.Caller, h Handing) error {
	const op = "wake.Handed"
	if !slices.Contains([]channel.State{channel.Handed, channel.Held, channel.Refused, channel.Failed}, h.Outcome) {
		return hub.Errorf(hub.CodeInvalid, op, "unknown outcome %q: use handed, held, refused or failed", h.Outcome)
	}
	if err := checkTexts(op, h.Detail); err != nil {
		return err
	}

	found := false
	err := g.update(ctx, actor.ID, func(a *agentRecord) error {
		w := a.wakes.find(h.Wake)
		if found = w != nil && len(w.Sessions) > 0; !found {
			return nil
		}
		k := w.Sessions[0]
		if a.wakes.offered(k) != w {
			return nil // a hook was faster than the waiter, or its time has passed
		}

		next := step{state: stateOf[h.Outcome], mechanism: a.mechanism(k), detail: h.Detail}
		if s := a.presence.find(k); s != nil && h.Outcome == channel.Handed {
			next.proof = s.proof(a.now)
		}
		return a.move(w, next)
	})
	if err != nil {
		return fmt.Errorf("wake: handed: %w", err)
	}
	if !found {
		return hub.Errorf(hub.CodeNotFound, op, "no wake with id %q is in progress in a session of %s", h.Wake, actor.ID)
	}

	g.Visit(actor.ID)
	return nil
}
