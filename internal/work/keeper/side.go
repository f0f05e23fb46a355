package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/report"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A sideRecord is the stored state of a further session.
type sideRecord struct {
	ID      string          `json:"id"`
	Agent   hub.AgentID     `json:"agent"`
	Dir     string          `json:"dir"`
	Servers json.RawMessage `json:"mcp_servers,omitempty"` // in version 2 of ACP
	Title   string          `json:"title,omitempty"`
	Session string          `json:"session,omitempty"` // the agent's own id of it, to be taken up again
	Updated hub.Time        `json:"updated,omitzero"`
}

// A side is a further session of a kept agent. It has a process of its own, in a folder of its
// own, with the command and the policy of the agent and without the hub's tools: mail belongs to
// the kept session. Its turns are recorded as runs are.
type side struct {
	*Keeper
	sideRecord // Title, Session and Updated are guarded by mu
	feed       *feed
	consent    sandbox.Consent
	tap        tap

	// Of the goroutine that works, alone.
	process *fleet.Agent // nil while it sleeps
	guard   *acpguard.Guard

	mu       sync.Mutex // guards what follows, and some of the record
	isStored bool
	waiting  []prompt
	working  chan struct{}           // closed when the goroutine has ended; nil while there is none
	more     chan struct{}           // receives when a prompt waits
	leave    context.CancelFunc      // ends the goroutine and its process
	turn     string                  // the id of the turn under way
	stop     context.CancelCauseFunc // cancels it
	answered bool                    // the agent has answered in it, and its usage is recorded
	ended    chan struct{}           // closed when it has ended; nil between turns
	silence  *time.Timer             // cancels it when it gives no sign of life; nil between turns
}

// newSide returns a further session that does nothing yet. The caller need not hold mu of k.
func newSide(k *Keeper, r sideRecord) *side {
	return &side{Keeper: k, sideRecord: r, more: make(chan struct{}, 1)}
}

// stored reports whether the session is in the store.
func (s *side) stored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isStored
}

// describe returns the session for windows.
func (s *side) describe() Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Session{ID: s.ID, Agent: s.Agent, Dir: s.Dir, Title: s.Title, Updated: s.Updated}
	if s.feed != nil {
		d.Last = s.feed.end()
	}
	return d
}

// save writes the session to the list of its agent. Its title is the beginning of its first
// prompt.
func (s *side) save(tx hub.Tx, title string) error {
	s.mu.Lock()
	if s.Title == "" {
		s.Title = shorten.Text(title, 80)
	}
	s.Updated = s.o.Clock.Now()
	s.isStored = true
	current := s.sideRecord
	s.mu.Unlock()

	// The session that was used least recently is dropped. It is first: a session that is used
	// goes to the end.
	all, err := hub.ReadMeta[[]sideRecord](tx, sessionsKey(s.Agent))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r sideRecord) bool { return r.ID == s.ID })
	all = append(all, current)
	if len(all) > maxSides {
		all = all[len(all)-maxSides:]
	}
	return hub.WriteMeta(tx, sessionsKey(s.Agent), all)
}

// give adds a prompt for the session of a, whose process it starts if there is none.
func (s *side) give(a *agent, p prompt) error {
	s.Keeper.mu.Lock()
	history := s.feedOf(s.Agent, s.ID)
	alive := s.ctx
	s.Keeper.mu.Unlock()
	if alive == nil {
		return hub.Errorf(hub.CodeDegraded, "keeper.PromptSession", "the hub is stopping")
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed = history
	if len(s.waiting) == maxPrompts {
		return hub.Errorf(hub.CodeRateLimited, "keeper.PromptSession", "%d prompts are already waiting for session %s", maxPrompts, s.ID)
	}
	s.waiting = append(s.waiting, p)
	if s.working == nil {
		ctx, cancel := context.WithCancel(alive)
		done := make(chan struct{})
		s.working = done
		s.leave = cancel
		s.wg.Go(func() {
			defer close(done)
			defer cancel()
			err := hub.Contain("session "+s.ID, func() error { return s.work(ctx, a) })
			if err != nil && ctx.Err() == nil {
				s.o.Log.Error("a session of a kept agent ended", "session", s.ID, "err", err)
			}
		})
	}
	select {
	case s.more <- struct{}{}:
	default: // it will look
	}
	return nil
}

// cancel cancels a turn that waits or runs.
func (s *side) cancel(turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == turn && s.stop != nil {
		s.stop(errCancelled)
		return
	}
	before := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(p prompt) bool { return p.Turn == turn })
	if len(s.waiting) < before {
		s.feed.add(Event{Kind: EventEnd, Turn: turn, Stop: string(acpv2.StopReasonCancelled)})
	}
}

// stopTurn stops the turn that runs, one that the agent has answered only if answered is true, and
// cancels those that wait. It returns a channel that is closed when the turn has ended; nil if none
// ran.
func (s *side) stopTurn(answered bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelWaiting()
	if s.stop != nil && (answered || !s.answered) {
		s.stop(errStop)
	}
	return s.ended
}

// cancelWaiting cancels the prompts that wait. The caller holds mu.
func (s *side) cancelWaiting() {
	for _, p := range s.waiting {
		if p.Turn != "" {
			s.feed.add(Event{Kind: EventEnd, Turn: p.Turn, Stop: string(acpv2.StopReasonCancelled)})
		}
	}
	s.waiting = nil
}

// halt ends the process and waits for that. Turns that run or wait are cancelled.
func (s *side) halt() {
	s.mu.Lock()
	leave, done := s.leave, s.working
	s.mu.Unlock()
	if done != nil {
		leave()
		<-done
	}
}

// work gives turns until ctx ends. A process that was idle for some time is ended.
func (s *side) work(ctx context.Context, a *agent) error {
	defer s.rest()
	def, err := s.find(ctx, "keeper.PromptSession", s.Agent)
	if err != nil {
		return err
	}
	s.guard = s.makeGuard(a, def.Definition)

	idle := time.NewTimer(def.Idle.or(defaultIdle))
	defer idle.Stop()
	for ctx.Err() == nil {
		if p, within, ok := s.next(ctx); ok {
			s.handle(within, a, def.Definition, p)
			idle.Reset(def.Idle.or(defaultIdle))
			continue
		}
		select {
		case <-s.more:
		case <-idle.C: // the next prompt starts it again
			s.drop()
			s.feed.release()
		case <-ctx.Done():
		}
	}
	return nil
}

// handle gives the agent one prompt. A prompt without text starts the process only.
func (s *side) handle(ctx context.Context, a *agent, d Definition, p prompt) {
	if reason := s.halted(ctx, s.Agent); p.Text != "" && reason != "" { // since the prompt came
		s.end(Event{Kind: EventEnd, Turn: p.Turn, Problem: reason})
		return
	}
	if p.Text != "" {
		s.feed.add(Event{Kind: EventPrompt, Turn: p.Turn, By: turn{By: p.By}.by(), Text: p.Text})
		s.end(s.attempt(ctx, a, d, p).event(p.Turn))
		return
	}
	if s.process == nil {
		mode, _ := cli.ModeOf(d.Command, d.permits())
		o := s.options(a, d)
		err := s.startProcess(ctx, d, fleet.Spec{
			Command: slices.Concat(d.Command, mode.Args), Env: mode.Env, Mode: mode.Session, Meta: mode.Meta,
			Dir: s.Dir, Run: hub.RunID(hub.NewIDs(s.o.Clock).Next()),
		}, &o)
		a.problem(ctx, err) // the next prompt tries again, and reports it
	}
	s.end(Event{})
}

// rest ends the process, cancels the prompts that wait, and lets the next prompt start another
// goroutine.
func (s *side) rest() {
	s.drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelWaiting()
	s.working = nil
	s.feed.release()
}

// drop ends the process, if there is one.
func (s *side) drop() {
	if s.process == nil {
		return
	}
	if err := s.process.Close(); err != nil {
		s.o.Log.Warn("end the process of a session", "session", s.ID, "err", err)
	}
	s.process = nil
	<-s.slots
}

// next takes the first prompt that waits and makes it the turn under way, within a context that
// cancel ends.
func (s *side) next(ctx context.Context) (p prompt, within context.Context, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return prompt{}, nil, false
	}
	p = s.waiting[0]
	s.waiting = s.waiting[1:]
	s.turn = p.Turn
	s.answered = false
	within, s.stop = context.WithCancelCause(ctx)
	s.ended = make(chan struct{})
	return p, within, true
}

// end tells the windows that a turn is over, if it was one.
func (s *side) end(e Event) {
	s.mu.Lock()
	s.stop(nil)
	s.turn, s.stop = "", nil
	ended := s.ended
	s.ended = nil
	s.mu.Unlock()
	if e.Turn != "" {
		s.feed.add(e)
	}
	close(ended)
}

// options returns the options of the process, which serve all its turns.
func (s *side) options(a *agent, d Definition) fleet.Options {
	ask := s.consent.Asker(func(ctx context.Context, r sandbox.Request) (string, error) {
		s.mu.Lock()
		current := s.turn
		s.mu.Unlock()
		return a.hold(ctx, r, holding{
			session: s.ID, feed: s.feed, turn: current, allowed: d.Question.or(defaultQuestion),
			begin: func() { s.await(0) },
			end:   func() { s.await(d.Hang.or(defaultHang)) },
		})
	})
	if s.guard != nil {
		ask = s.guard.Asker(ask)
	}
	return fleet.Options{Options: acp.Options{
		Name: "parley", Version: s.o.Version, V2: d.V2, Policy: d.permits(), Ask: ask, Permissions: permissions{a, d.permits(), ask, ""}, StartTimeout: startTime, CancelGrace: cancelGrace,
	}}
}

// await gives the turn under way some time for its next sign of life; 0 stands for any time,
// while a question waits for a person.
func (s *side) await(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.silence == nil:
	case d == 0:
		s.silence.Stop()
	default:
		s.silence.Reset(d)
	}
}

// attempt gives the agent a prompt as a run and returns how that ended.
func (s *side) attempt(ctx context.Context, a *agent, d Definition, p prompt) (out result) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	kill, killed := context.WithCancel(context.WithoutCancel(ctx))
	defer killed()

	// A turn without a sign of life is cancelled.
	hang := d.Hang.or(defaultHang)
	s.mu.Lock()
	s.silence = time.AfterFunc(hang, func() { cancel(errHang) })
	s.mu.Unlock()
	defer s.await(0)

	options := s.options(a, d)
	options.OnUpdate = func(u *acp.Update) {
		s.await(hang)
		s.feed.update(p.Turn, u)
	}
	spec := run.Spec{Agent: s.Agent, Command: d.Command, Dir: s.Dir, Dispatch: report.Dispatch{Task: firstLine(p.Text)}, Prompt: []string{p.Text}}
	got, err := run.Execute(ctx, s.o.Home, spec, &run.Options{
		Agent: options, Usage: sideUsage{s}, Clock: s.o.Clock, Kill: kill, Consent: &s.consent, Guard: s.guard,
		Start: func(start, _ context.Context, spec fleet.Spec, o *fleet.Options) (*fleet.Agent, func() error, error) {
			return s.launch(start, d, spec, o)
		},
		On: run.Events{Problem: func(err error) { a.problem(ctx, err) }},
	})

	// The process of a turn that failed is ended, so that the next turn starts another one.
	out.Result = got
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errHang), errors.Is(cause, errStop):
		out.problem = cause.Error()
	case ctx.Err() != nil:
		out.cancelled = true
	case err != nil:
		out.problem = err.Error()
	case got.State != hub.RunDone:
		out.problem = problemOf(got)
	}
	if s.process != nil && got.StopReason == "" {
		s.drop()
	}
	return out
}

// A sideUsage records the model calls of further sessions. They are work of their own: the tasks of
// the agent belong to the kept session.
type sideUsage struct{ *side }

// RecordUsage implements run.UsageHub.
func (u sideUsage) RecordUsage(ctx context.Context, turn hub.Run, cli string, calls []hub.ModelCall) error {
	u.mu.Lock()
	u.answered = true
	u.mu.Unlock()
	if u.o.RecordUsage == nil {
		return nil
	}
	_, err := u.o.RecordUsage(ctx, TurnUsage{Run: turn, CLI: cli, Calls: calls, Ended: true})
	return err
}

// launch returns the process of the session, which it starts if there is none.
func (s *side) launch(ctx context.Context, d Definition, spec fleet.Spec, o *fleet.Options) (*fleet.Agent, func() error, error) {
	s.tap.set(o.Tap)
	release := func() error {
		s.tap.set(nil)
		return nil
	}
	if s.process != nil {
		select {
		case <-s.process.Done():
			s.drop()
		default:
		}
	}
	if s.process == nil {
		if err := s.startProcess(ctx, d, spec, o); err != nil {
			release()
			return nil, nil, err
		}
	}
	s.process.OnUpdate(o.OnUpdate)
	return s.process, release, nil
}

// startProcess starts the process, when one of the hub's slots is free.
func (s *side) startProcess(ctx context.Context, d Definition, spec fleet.Spec, o *fleet.Options) error {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	s.mu.Lock()
	spec.Session = s.Session
	s.mu.Unlock()
	if len(s.Servers) > 0 {
		if err := json.Unmarshal(s.Servers, &spec.Servers); err != nil {
			<-s.slots
			return err
		}
	}
	if d.Path != "" {
		spec.Env = append(spec.Env, "PATH="+d.Path)
	}
	bounded, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	opts := *o
	opts.Tap = s.tap.frame // for the turns after this one
	process, err := fleet.Launch(bounded, context.WithoutCancel(ctx), spec, &opts)
	if err != nil {
		<-s.slots
		return err
	}

	s.process = process
	s.mu.Lock()
	s.Session = process.Session()
	s.mu.Unlock()
	return s.store.Update(context.WithoutCancel(ctx), hub.SurvivesKill, func(tx hub.Tx) error { return s.save(tx, "") })
}

// makeGuard returns the guard of the files that the session changes; nil if nothing guards files.
func (s *side) makeGuard(a *agent, d Definition) *acpguard.Guard {
	if s.o.AskFiles == nil {
		return nil
	}
	ask := func(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
		return s.o.AskFiles(ctx, a.actor, q)
	}
	return acpguard.New(s.Dir, ask, acpguard.Options{
		Session:        s.ID,
		NoReject:       cli.NoReject(d.Command),
		DenyUnanswered: s.o.DenyUnanswered != nil && s.o.DenyUnanswered(s.Dir),
		Notice:         func(text string) { a.log.add("files", text) },
	})
}
