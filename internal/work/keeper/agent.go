package keeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/sandbox"
)

const (
	longestWait = 60                     // seconds of one wait for a wake
	maxTries    = 3                      // of a turn that breaks off
	maxFailures = 5                      // starts in a row that fail, before the agent is stopped
	firstRest   = 200 * time.Millisecond // before an agent is started again; doubled for each further failure
	longestRest = 5 * time.Minute        // between two starts
	startTime   = 90 * time.Second       // for an agent to answer initialize and to open a session
	maxPrompts  = 16                     // words of the operator that wait
)

// An agent serves one kept agent. One goroutine runs serve; the others read what mu
// guards.
type agent struct {
	*Keeper
	name    hub.AgentID
	actor   hub.Caller
	cancel  context.CancelFunc
	done    chan struct{} // closed when serve has returned
	prompts chan struct{} // receives when words of the operator are stored
	log     *lines
	feed    *feed           // of the kept session
	desk    *desk           // the questions of all sessions of the agent
	consent sandbox.Consent // the permissions that a person gave

	// Of the goroutine of serve alone.
	record   record
	process  *fleet.Agent // nil while it sleeps
	key      string       // of the process
	failures int          // starts in a row that failed
	fresh    bool         // no turn was given in this session yet
	tap      tap
	guard    *acpguard.Guard // of the files that it changes; nil for none
	unlock   func()          // gives the lock of its folder back; nil if it has none
	couldNot bool            // its last turn ended because it could not go on, or is not known
	usage    string          // the record of the model calls of the turn under way; "" for none yet

	mu       sync.Mutex // guards what follows
	state    State
	since    hub.Time
	pid      int
	resident int
	run      hub.RunID
	plan     string    // the last plan that it sent in a turn
	alive    time.Time // the last sign of life in a turn
	turn     string    // the id of the turn under way; "" between turns
	unwanted string    // the id of the turn that was cancelled last
	trying   *running  // the attempt at the turn; nil between attempts
	yielding bool      // it has given its folder free, and waits until the hub has looked for a successor

	shellless bool         // a command of its own was refused, and it has not read since what the hub runs for it
	steered   string       // the id of the last turn in which it got words about that
	working   *fleet.Agent // the process of the turn under way; nil between turns
}

func newAgent(k *Keeper, name hub.AgentID, cancel context.CancelFunc) *agent {
	return &agent{
		Keeper: k, name: name, actor: hub.Caller{Kind: hub.CallerAgent, ID: name}, cancel: cancel,
		done: make(chan struct{}), prompts: make(chan struct{}, 1), log: k.linesOf(name), feed: k.feedOf(name, ""), desk: k.deskOf(name), couldNot: true, state: Sleeping, since: k.o.Clock.Now(),
	}
}

// show adds how the agent stands now.
func (a *agent) show(s *Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.State = a.state
	s.Since = a.since
	s.Process = a.pid
	s.Resident = a.resident
	s.Run = a.run
}

func (a *agent) move(next State) {
	a.mu.Lock()
	before := a.state
	if before != next {
		a.state, a.since = next, a.o.Clock.Now()
	}
	a.mu.Unlock()
	if !before.leads(next) {
		a.o.Log.Error("a kept agent made a step that its state machine does not have", "agent", a.name, "from", before, "to", next)
	}
	a.log.add("state", string(next))
}

// SessionID is the id of the one session of a kept agent.
const SessionID = "kept"

// sessionKey names the one session of a kept agent.
func (a *agent) sessionKey() wake.Key {
	cli := a.record.CLI
	if cli == "" {
		cli = "acp"
	}
	return wake.Key{CLI: cli, ID: SessionID}
}

// serve keeps the agent until ctx ends: it waits for wakes and for words of the
// operator, gives turns, and ends the process when it is idle.
func (a *agent) serve(ctx context.Context) (err error) {
	if a.record, err = a.find(ctx, "keeper.serve", a.name); err != nil {
		return err
	}
	if a.record.Stopped && a.record.Cannot == nil {
		return nil
	}
	if a.private(a.record.Dir) { // a link may lead there since it was kept
		a.giveUp(ctx, fmt.Sprintf("%s contains files of the hub's home", a.record.Dir))
		return nil
	}

	// A hub that was killed may have left processes, a task to hand on, and a turn to continue. Only
	// one program keeps an agent in a folder at a time.
	if id := a.record.Launch; id != "" {
		a.problem(ctx, run.KillLeft(hub.RunID(id)))
	}
	a.guard = a.makeGuard()
	defer a.unlockFolder()
	defer a.end()
	switch {
	case a.record.Cannot != nil:
		a.cannotGoOn(ctx, *a.record.Cannot)
	case a.record.Rest != nil:
		a.rests(ctx)
	default:
		if err := a.lockFolder(); err != nil {
			a.giveUp(ctx, fmt.Sprintf("another program keeps an agent in %s", a.record.Dir))
		}
	}
	if t := a.record.Turn; t != nil && !a.record.Stopped && a.record.Rest == nil {
		if !t.Stopped {
			t.Tries++
		}
		a.work(ctx, *t)
	}

	for ctx.Err() == nil && !a.record.Stopped {
		if a.record.Rest != nil {
			a.rests(ctx)
			continue
		}
		if t := a.record.Turn; t != nil {
			a.goOn(ctx, *t)
			continue
		}
		t, err := a.next(ctx)
		if err != nil && ctx.Err() == nil {
			a.o.Log.Warn("a kept agent waits in vain", "agent", a.name, "err", err)
			a.rest(ctx, time.Second)
		}
		if t != nil {
			a.work(ctx, *t)
		}
	}

	if ctx.Err() != nil { // its session is not armed any more
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		a.report(leave, wake.EventEnd, "")
	}
	return nil
}

// next returns the next turn, nil if there is none yet. It ends a process that was
// idle for too long, has grown too large or has broken down.
func (a *agent) next(ctx context.Context) (*turn, error) {
	if t, err := a.takePrompt(ctx); t != nil || err != nil {
		return t, err
	}

	// The session waits for a wake in the background, beside the other events below.
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		call wake.Call
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		call, err := a.sessions.Wait(waiting, a.actor, wake.Waiter{Key: a.sessionKey(), Cwd: a.record.Dir, Mechanism: "acp", Seconds: longestWait, Inside: true})
		answers <- answer{call, err}
	}()

	// Only a running process can end or be idle.
	var ended <-chan struct{}
	var idle <-chan time.Time
	if a.process != nil {
		ended = a.process.Done()
		timer := time.NewTimer(a.record.Idle.or(defaultIdle))
		defer timer.Stop()
		idle = timer.C
	}

	var t *turn
	var err error
	select {
	case got := <-answers:
		if err = got.err; err == nil && got.call.Wake != nil {
			t = &turn{Wake: got.call.Wake.ID, Prompt: got.call.Wake.Notice}
		}
		a.measure()
		return t, err
	case <-a.prompts: // the next call takes it
	case <-idle:
		a.log.add("stop", "idle")
		a.end()
		a.retire(ctx)
	case <-ended:
		a.log.add("stop", "the process ended")
		a.end()
	case <-ctx.Done():
	}

	cancel()
	<-answers // a wake that it may have got is given again
	return t, nil
}

// takePrompt makes the first words of the operator that wait the turn under way, nil if
// there are none, a budget is spent or the operator stopped the agent.
func (a *agent) takePrompt(ctx context.Context) (t *turn, err error) {
	r, err := a.find(ctx, "keeper.next", a.name)
	if err != nil || len(r.Prompts) == 0 || a.halted(ctx, a.name) != "" {
		return nil, err
	}
	err = a.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		r, err := hub.ReadMeta[record](tx, recordKey(a.name))
		if t = nil; err != nil || len(r.Prompts) == 0 {
			return err
		}
		next := r.Prompts[0]
		t = &turn{ID: next.Turn, By: next.By, Prompt: next.Text}
		r.Prompts, r.Turn = r.Prompts[1:], t
		return hub.WriteMeta(tx, recordKey(a.name), r)
	})
	return t, err
}

// restTime returns the pause before an agent is started again.
func restTime(failures, tries int) time.Duration {
	return min(firstRest<<min(max(failures, tries), 20), longestRest)
}

// rest waits, but not longer than ctx.
func (a *agent) rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// work gives the agent a turn, and the turns that follow from it: one for messages that
// came meanwhile, and one for a report that was contradicted or a command that was refused.
func (a *agent) work(ctx context.Context, t turn) {
	if t.Wake != "" {
		if a.process == nil {
			a.report(ctx, wake.EventStart, "") // the wake has the time of a start
		}
		a.handed(ctx, t.Wake, channel.Handed, "given to the agent")
	}

	repairs := 0
	for {
		a.beginTurn(&t)
		a.keepTurn(ctx, &t)
		result, given := a.attempt(ctx, t)
		switch {
		case ctx.Err() != nil:
			return // the next start continues it
		case result.stopped:
			a.stopTurn(ctx, t, result)
			a.spentTurn(ctx)
			return
		case result.cancelled:
		case result.ok():
			a.failures = 0
			if !result.full() {
				a.workedOn(ctx)
			}
		case a.final(ctx, result):
			a.dropTurn(ctx, t, given, result)
			return
		case !given && a.failures < maxFailures, given && t.Tries < maxTries:
			if given {
				t.Tries++
			}
			a.move(Failing)
			a.rest(ctx, restTime(a.failures, t.Tries))
			continue

		default:
			// An agent that does not start is given up; a turn that broke off too often is dropped.
			if !given && t.Wake != "" {
				a.handed(ctx, t.Wake, channel.Failed, result.problem)
			}
			e := a.endedBy(result)
			a.cannot(e)
			if !given {
				a.giveUp(ctx, result.problem)
			} else {
				a.record.Turn = nil
				a.saveAndTell(ctx, func(r *record) {
					r.Turn = nil
					r.Cannot = a.record.Cannot
				},
					fmt.Sprintf("%s %s; its turn was interrupted %d times: %s", a.name, e.Reason.Text(), maxTries, result.problem))
			}
			a.reportTurn(ctx, wake.Report{Event: wake.EventTurnEnd, NoQuota: quota.Spent(result.problem)})
			a.endTurn(result)
			a.cannotGoOn(ctx, e)
			return
		}

		// The report that the turn ended returns a notice if messages came meanwhile.
		a.move(a.between())
		a.keepTurn(ctx, nil)
		a.endTurn(result)
		notice := a.report(ctx, wake.EventTurnEnd, "")
		mayFollow := repairs < maxRepairs && a.halted(ctx, a.name) == ""
		if mayFollow && result.refusal == "" {
			result.refusal = a.unexplained(ctx, result)
		}
		refusal := a.aboutFiles() + result.refusal
		switch {
		case result.refusal != "" && mayFollow:
			repairs++
			t = turn{Prompt: refusal + notice, Noted: notice != ""}
		case notice != "":
			a.setTell(ctx, refusal)
			t = turn{Prompt: notice, Noted: true}
		default:
			a.setTell(ctx, refusal)
			if result.full() {
				a.cannotGoOn(ctx, Ended{Agent: a.name, Reason: hub.ContinueContext, Said: a.said()})
				return
			}
			a.spentTurn(ctx)
			return
		}
	}
}

// stopTurn ends a turn that a person or a budget stopped. A turn that the operator stopped goes on when
// turns may begin again, unless it is that of a window, whose user saw its end. Any other is not tried
// again, and the next turn begins with that word.
func (a *agent) stopTurn(ctx context.Context, t turn, r result) {
	a.move(a.between())
	isOperators := a.stopped(ctx, a.name) != "" && a.blocked(ctx, a.name) == ""
	if isOperators && (t.By == "" || t.By == ByHub) {
		t.Stopped = true
		a.keepTurn(ctx, &t)
	} else {
		a.keepTurn(ctx, nil)
		a.setTell(ctx, "[parley] Your last turn was stopped before it ended. Look at your work so far before you continue.")
	}
	a.reportTurn(ctx, wake.Report{Event: wake.EventTurnEnd, Quiet: true})
	a.endTurn(r)
}

// goOn gives the agent a turn again that its operator stopped, when turns may begin.
func (a *agent) goOn(ctx context.Context, t turn) {
	for a.halted(ctx, a.name) != "" {
		if a.rest(ctx, folderEvery); ctx.Err() != nil {
			return // the next start continues it
		}
	}
	a.work(ctx, t)
}

// beginTurn makes a turn the one under way, and tells the windows of it once. A hub that was
// restarted in the middle of a turn has told them already.
func (a *agent) beginTurn(t *turn) {
	a.mu.Lock()
	isNew := t.Tries == 0 && (t.ID == "" || t.ID != a.turn)
	if t.ID == "" {
		t.ID = string(hub.NewIDs(a.o.Clock).Next())
	}
	a.turn = t.ID
	a.mu.Unlock()
	if isNew {
		a.feed.add(Event{Kind: EventPrompt, Turn: t.ID, By: t.by(), Text: t.Prompt})
	}
}

// between returns the state between two turns.
func (a *agent) between() State {
	if a.process == nil {
		return Sleeping
	}
	return Idle
}

// endTurn tells the windows that the turn is over.
func (a *agent) endTurn(r result) {
	a.mu.Lock()
	id := a.turn
	a.turn = ""
	a.mu.Unlock()
	a.feed.add(r.event(id))
}

// maxRepairs is the number of turns that follow at once on a report that was
// contradicted, or on a refused command. A refusal after them begins the next turn.
const maxRepairs = 2

// keepTurn stores the turn that is under way, nil for none, so that a crash does not
// lose it.
func (a *agent) keepTurn(ctx context.Context, t *turn) {
	a.record.Turn = t
	a.save(ctx, func(r *record) { r.Turn = t })
}

// setTell stores the refusals that the next turn begins with.
func (a *agent) setTell(ctx context.Context, text string) {
	if a.record.Tell != text {
		a.record.Tell = text
		a.save(ctx, func(r *record) { r.Tell = text })
	}
}

// save changes the stored state.
func (a *agent) save(ctx context.Context, change func(*record)) { a.saveAndTell(ctx, change, "") }

// tell tells the operator.
func (a *agent) tell(ctx context.Context, text string) { a.saveAndTell(ctx, func(*record) {}, text) }

// saveAndTell changes the stored state and writes the text, if there is one, to the
// operator in the same transaction: a crash loses both or neither. It goes on when
// ctx ends, because the end of a turn must be stored.
func (a *agent) saveAndTell(ctx context.Context, change func(*record), text string) {
	var write func(tx hub.Tx) (hub.Message, error)
	if text != "" {
		write = func(tx hub.Tx) (hub.Message, error) {
			return a.o.Tell(tx, map[string]any{"code": hub.CodeDegraded, "message": text, "agent": a.name})
		}
	}
	a.saveAndWrite(ctx, change, write)
}

// saveAndWrite is saveAndTell for any message to the operator; write is nil for none.
func (a *agent) saveAndWrite(ctx context.Context, change func(*record), write func(tx hub.Tx) (hub.Message, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	var msg hub.Message
	err := a.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		msg = hub.Message{}
		r, err := hub.ReadMeta[record](tx, recordKey(a.name))
		if err != nil || r.Agent == "" { // not kept any more
			return err
		}
		if write != nil {
			if msg, err = write(tx); err != nil {
				return err
			}
		}
		change(&r)
		return hub.WriteMeta(tx, recordKey(a.name), r)
	})
	if a.problem(ctx, err); err == nil && msg.ID != "" {
		a.o.Announce(msg)
	}
}

// giveUp stops the agent after too many failures and tells the operator.
func (a *agent) giveUp(ctx context.Context, problem string) {
	a.record.Stopped, a.record.Turn = true, nil
	a.log.add("stop", problem)
	a.saveAndTell(ctx, func(r *record) {
		r.Stopped = true
		r.Problem = problem
		r.Turn = nil
		r.Cannot = a.record.Cannot
		r.Since = a.o.Clock.Now()
	},
		fmt.Sprintf("%s is stopped and its mail is kept: %s; parley agent restart %s", a.name, problem, a.name))
}

// problem logs an error after which the agent is served on; nil is none.
func (a *agent) problem(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		a.o.Log.Warn("kept agent", "agent", a.name, "err", err)
	}
}

// handed tells the wake machine the outcome of a wake.
func (a *agent) handed(ctx context.Context, id string, state channel.State, detail string) {
	err := a.sessions.Handed(ctx, a.actor, wake.Handing{Wake: id, Outcome: state, Detail: detail})
	if hub.CodeOf(err) != hub.CodeNotFound { // proven already, or of a time before a crash
		a.problem(ctx, err)
	}
}

// report tells the wake machine the activity of the session, and returns the notice that it
// answers at the end of a turn.
func (a *agent) report(ctx context.Context, e wake.Event, id string) string {
	r := wake.Report{Event: e}
	if id != "" {
		r.Wakes = []string{id}
	}
	return a.reportTurn(ctx, r)
}

// reportTurn tells the wake machine what the agent does, and returns the notice to show.
func (a *agent) reportTurn(ctx context.Context, r wake.Report) string {
	no := false
	r.Key = a.sessionKey()
	r.Cwd = a.record.Dir
	r.Attended = &no
	r.Quiet = r.Quiet || r.Event != wake.EventTurnEnd
	advice, err := a.sessions.Report(ctx, a.actor, r)
	a.problem(ctx, err)
	return advice.Notice
}
