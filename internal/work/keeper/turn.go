package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/spans"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/report"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A tap passes the frames of the process on to the recorder of the turn.
type tap struct {
	mu sync.Mutex // guards to
	to func(jsonrpc.Direction, jsonrpc.Frame)
}

func (t *tap) set(to func(jsonrpc.Direction, jsonrpc.Frame)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = to
}

func (t *tap) frame(d jsonrpc.Direction, f jsonrpc.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.to != nil {
		t.to(d, f)
	}
}

// A result is the end of one attempt at a turn.
type result struct {
	run.Result
	problem string // why it did not end well; "" if it did
	refusal string // for the agent, if its report was contradicted

	stopped   bool // a person or a budget ended it
	hung      bool // it gave no sign of life
	crashed   bool // its program ended
	cancelled bool // by the window that prompted
}

// event returns the end of a turn for its windows.
func (r result) event(turn string) Event {
	e := Event{Kind: EventEnd, Turn: turn, Stop: r.StopReason, Problem: r.problem}
	if r.cancelled {
		e.Stop = string(acpv2.StopReasonCancelled)
	}
	return e
}

func (r result) ok() bool { return r.problem == "" }

// full reports whether the turn ended because the model's limit of tokens was reached.
func (r result) full() bool { return r.StopReason == string(acpv2.StopReasonMaxTokens) }

// Why a turn was ended.
var (
	errHang      = errors.New("the agent gave no sign of life")
	errMemory    = errors.New("its processes took too much memory")
	errCancelled = errors.New("a window cancelled the turn")
	errStop      = errors.New("the turn was stopped")
)

// A trial is one attempt at a turn while it runs: the signs that the agent has given so far.
type trial struct {
	agent *agent
	turn  turn
	given bool   // the agent has the prompt
	began bool   // it gave a first sign of the turn
	last  string // its newest message

	runs  string        // the words for an agent whose own commands fail without a question; "" for others
	calls acp.ToolCalls // if runs is set
}

// give notes that the agent has the prompt. The model may take its time until the first sign of
// the turn.
func (tr *trial) give(ctx context.Context) {
	tr.given = true
	tr.agent.move(Working)
	tr.agent.report(ctx, wake.EventTool, "")
	tr.agent.extend(ctx, tr.turn)
}

// sign notes a sign of life. The first one of the turn proves the wake.
func (tr *trial) sign(ctx context.Context) {
	if !tr.began {
		tr.began = true
		event := wake.EventPrompt
		if tr.turn.Noted {
			event = wake.EventTool // a prompt would end the turn that the notice began
		}
		tr.agent.report(ctx, event, tr.turn.Wake)
	}
	tr.agent.live()
}

// update passes an update of the agent to its log and its windows.
func (tr *trial) update(ctx context.Context, u *acp.Update) {
	tr.sign(ctx)
	isText := u.Kind() == acp.KindAgentMessage && strings.TrimSpace(u.Text()) != ""
	if isText {
		tr.last = u.Text()
	}
	if tr.runs != "" && tr.isFailedCommand(u) {
		tr.agent.explainRefusal(ctx, tr.runs)
	}
	tr.agent.log.update(u)
	tr.agent.feed.update(tr.turn.ID, u)
	tr.agent.planned(u)
}

// isFailedCommand reports whether an update is the end of a command that failed.
func (tr *trial) isFailedCommand(u *acp.Update) bool {
	call, ok := tr.calls.Add(u)
	return ok && sandbox.Kind(call.Kind) == sandbox.KindExecute && call.Status == "failed"
}

// attempt gives the agent a prompt as a run and returns how that ended, and whether the
// prompt was given.
func (a *agent) attempt(ctx context.Context, t turn) (out result, given bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer a.running(t.ID, cancel)()

	if reason := a.barred(ctx, t); reason != "" {
		a.log.add("stop", reason)
		out.problem = errStop.Error()
		out.stopped = true
		return out, false
	}

	ctx, span := spans.Work(ctx, "turn")

	// A cancelled turn is not killed: kill ends together with the attempt.
	kill, killed := context.WithCancel(context.WithoutCancel(ctx))
	defer killed()
	stopWatch := a.watch(ctx, t, cancel)

	tr := &trial{agent: a, turn: t}
	if cli.RunsBoxed(a.record.Command) {
		tr.runs = commandsText(a.record.Policy)
	}
	spec := run.Spec{
		Agent: a.name, Command: a.record.Command, Dir: a.record.Dir,
		Dispatch: report.Dispatch{Task: firstLine(t.Prompt)}, Prompt: []string{t.Prompt},
	}
	got, err := run.Execute(ctx, a.o.Home, spec, &run.Options{
		Agent: fleet.Options{Options: acp.Options{
			Name: "parley", Version: a.o.Version, V2: a.record.V2,
			Policy: a.record.permits(), Ask: a.asker(), Permissions: permissions{a, a.record.permits(), a.asker(), commandsText(a.record.Policy)},
			StartTimeout: startTime, CancelGrace: cancelGrace,
		}, OnUpdate: func(u *acp.Update) { tr.update(ctx, u) }},
		Hub: recorder{a}, Clock: a.o.Clock, Kill: kill, Consent: &a.consent, Guard: a.guard,
		Start: func(start, _ context.Context, s fleet.Spec, o *fleet.Options) (*fleet.Agent, func() error, error) {
			process, release, err := a.launch(start, s, o, t, spec.Prompt)
			if err == nil {
				tr.give(ctx)
			}
			return process, release, err
		},
		On: run.Events{Problem: func(err error) { a.problem(ctx, err) }, State: func(r hub.Run) {
			a.mu.Lock()
			a.run = r.ID
			a.mu.Unlock()
		}},
	})

	stopWatch()
	if err == nil && got.State == hub.RunDone && !tr.began {
		tr.sign(ctx) // it answered without an update
	}
	span.Count("parley.tries", t.Tries)
	span.Set("parley.state", string(got.State))
	span.Set("parley.verdict", string(got.Verdict))
	span.End(err)

	out = tr.outcome(context.Cause(ctx), got, err)
	a.note(ctx, out, tr.given)
	return out, tr.given
}

// problemOf says for people why a run failed. For an agent that speaks another version of the
// protocol it has the word that helps: nothing else can make its turns succeed.
func problemOf(got run.Result) string {
	text := cmp.Or(got.Problem, got.Reason, string(got.State))
	if errors.Is(got.Err, acp.ErrNoVersion2) {
		text += "; keep it again: " + got.Hint
	}
	return text
}

// outcome returns how a run ended as the end of its attempt; cause is why it was cancelled, if it
// was. The process of a turn that failed is ended, so that the next turn starts another one. The
// process of a cancelled turn goes on, unless it was too slow to stop.
func (tr *trial) outcome(cause error, got run.Result, err error) result {
	a := tr.agent
	out := result{Result: got}
	switch {
	case errors.Is(cause, errStop):
		out.problem = cause.Error()
		out.stopped = true

	case errors.Is(cause, errCancelled):
		out.cancelled = true
		if tr.given && got.StopReason == "" { // the agent did not stop in time
			a.end()
		}

	case errors.Is(cause, errHang), errors.Is(cause, errMemory):
		out.problem = cause.Error()
		out.hung = errors.Is(cause, errHang)
		out.crashed = errors.Is(cause, errMemory)

	case err != nil:
		out.problem = err.Error()

	case got.State != hub.RunDone:
		out.problem = problemOf(got)
		var exit *jsonrpc.ExitError
		out.crashed = errors.As(got.Err, &exit)

	case quota.LastWords(a.record.CLI, tr.last) != "":
		out.problem = quota.LastWords(a.record.CLI, tr.last)

	case got.Verdict == hub.RunContradicted:
		out.refusal = refusal(got.Contradictions)
	}

	if out.problem != "" {
		a.end()
	}
	return out
}

// note writes the outcome of an attempt into the agent's log.
func (a *agent) note(ctx context.Context, out result, given bool) {
	if out.refusal != "" {
		for _, c := range out.Contradictions[:min(len(out.Contradictions), 10)] {
			a.log.add("refused", fmt.Sprintf("%s: %s; found: %s", c.Kind, c.Claim, c.Found))
		}
	}
	if out.Breach != nil {
		a.log.add("breach", out.Breach.String())
		a.tell(ctx, fmt.Sprintf("in a turn of %s %s; parley show %s", a.name, out.Breach, out.ID))
	}
	if out.problem != "" {
		a.log.add("problem", out.problem)
		if !given {
			a.failures++
		}
	}
}

// refusal returns the text about a report that was contradicted.
func refusal(all []hub.Contradiction) string {
	var b strings.Builder
	b.WriteString("[parley] Your report does not match what the hub found, and was refused:\n")
	for _, c := range all[:min(len(all), 10)] {
		fmt.Fprintf(&b, "- %s: you reported %s; found: %s\n", c.Kind, c.Claim, c.Found)
	}
	b.WriteString("Do the missing work, or correct the report.\n")
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// launch returns the process of the agent for a turn: the one that runs, else one that
// it starts. It completes the prompt with the words that the session needs: prompt is
// the list that the turn gives.
func (a *agent) launch(ctx context.Context, spec fleet.Spec, o *fleet.Options, t turn, prompt []string) (*fleet.Agent, func() error, error) {
	a.tap.set(o.Tap)
	release := func() error {
		a.tap.set(nil)
		a.mu.Lock()
		a.working = nil
		a.mu.Unlock()
		return nil
	}
	if a.process != nil {
		select {
		case <-a.process.Done():
			a.end()
		default:
		}
	}
	if a.process == nil {
		if err := a.startProcess(ctx, spec, o); err != nil {
			release()
			return nil, nil, err
		}
	}
	a.process.OnUpdate(o.OnUpdate)
	a.mu.Lock()
	a.working = a.process
	a.mu.Unlock()
	a.live()
	prompt[0] = a.complete(ctx, t)
	return a.process, release, nil
}

// complete returns the prompt of a turn with the words that it needs besides: that an
// earlier turn broke off, that a report was refused, what other agents do to its files, what
// is open and how to report in a new session.
func (a *agent) complete(ctx context.Context, t turn) string {
	var parts []string
	switch {
	case t.Stopped:
		parts = append(parts, "[parley] The operator stopped your last turn before it ended. Messages that you acknowledged in it are not announced again. Look at them and at your work so far, and continue. The prompt of that turn was:")
	case t.Tries > 0:
		parts = append(parts, "[parley] Your last turn was interrupted. Look at your work so far, and continue. The prompt of that turn was:")
	}
	if text := a.onwardText(ctx, t); text != "" {
		parts = append(parts, text)
	}
	if a.record.Tell != "" {
		parts = append(parts, a.record.Tell)
		a.setTell(ctx, "")
	}
	if text := a.aboutFiles(); text != "" {
		parts = append(parts, text)
	}
	parts = append(parts, t.Prompt)
	if text := a.aboutCommands(); text != "" {
		parts = append(parts, text)
	}
	if a.fresh {
		a.fresh = false
		summary, err := a.o.Summary(ctx, a.name)
		a.problem(ctx, err)
		if summary != "" {
			parts = append(parts, summary)
		}
		parts = append(parts, fleet.Instruction())
	}
	return plaintext.Text(strings.Join(parts, "\n\n")) // a title or a path may hide words from the operator
}

// onwardText returns the text about a task that the agent takes over, which a turn begins with. It is
// kept with the turn, so that another try begins with it, too.
func (a *agent) onwardText(ctx context.Context, t turn) string {
	if a.o.Onward == nil {
		return t.Onward
	}
	text := a.o.Onward(ctx, a.name)
	if text == "" || a.record.Turn == nil {
		return text + t.Onward
	}
	if t.Onward != "" {
		text += "\n\n" + t.Onward
	}
	a.record.Turn.Onward = text
	a.save(ctx, func(r *record) { r.Turn = a.record.Turn })
	return text
}

// startProcess starts the process of the agent, when one of the hub's slots is free.
func (a *agent) startProcess(ctx context.Context, spec fleet.Spec, o *fleet.Options) error {
	a.move(Starting)
	a.report(ctx, wake.EventStart, "")

	// Each running process holds one of the hub's slots until end.
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	spec.Session = a.record.Session
	if a.record.Path != "" {
		spec.Env = append(spec.Env, "PATH="+a.record.Path)
	}
	bounded, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	opts := *o
	opts.Tap = a.tap.frame // for the turns after this one
	a.save(ctx, func(r *record) { r.Launch = string(spec.Run) })
	process, err := fleet.Launch(bounded, context.WithoutCancel(ctx), spec, &opts) // until end
	if err != nil {
		<-a.slots
		return err
	}

	// The log says whether the earlier session goes on.
	resumed, refusal := process.Resumed()
	a.process, a.fresh = process, !resumed
	a.record.Session = process.Session()
	how := "session " + process.Session() + " is new"
	switch {
	case resumed:
		how = "session " + process.Session() + " was taken up again"
	case refusal != nil:
		how += ", because the one before was not taken up: " + refusal.Error()
		if e := (*jsonrpc.Error)(nil); errors.As(refusal, &e) {
			how += shorten.Text(" "+string(e.Data), 300)
		}
	}

	a.log.add("start", how)
	a.save(ctx, func(r *record) { r.Session = process.Session() })
	a.mu.Lock()
	a.pid = process.Pid()
	a.mu.Unlock()
	return nil
}

// end ends the process, if there is one.
func (a *agent) end() {
	if a.process == nil {
		return
	}
	a.problem(context.Background(), a.process.Close())
	a.process = nil
	<-a.slots
	a.mu.Lock()
	a.pid, a.resident = 0, 0
	a.mu.Unlock()
	a.move(Sleeping)
}

// live notes a sign of life of the turn.
func (a *agent) live() {
	a.mu.Lock()
	a.alive = time.Now()
	a.mu.Unlock()
}

// cancelGrace is the time that an agent has to stop when a turn is cancelled; after it
// the process is killed.
const cancelGrace = 5 * time.Second

// watchEvery is the time between two looks at a turn that runs.
const watchEvery = time.Second

// A watched turn holds the visible state of a turn.
type watched struct {
	state  State
	asks   bool      // a person
	alive  time.Time // the last sign of life
	looked time.Time // the look before
}

// slept reports whether the machine, or the hub, was asleep since the look before.
func (w watched) slept(now time.Time) bool { return now.Sub(w.looked) > 10*watchEvery }

// hangs reports whether the turn gives no sign of life for too long. A machine that
// slept gives the agent its time again.
func (w watched) hangs(now time.Time, after time.Duration) bool {
	return w.state == Working && !w.asks && !w.slept(now) && now.Sub(w.alive) > after
}

// extend gives the wake of a turn more time for its proof: the agent has its prompt, and
// waits for its model. A wake that is proven stays as it is.
func (a *agent) extend(ctx context.Context, t turn) {
	if t.Wake != "" {
		a.handed(ctx, t.Wake, channel.Handed, "the agent is waiting for its model")
	}
}

const (
	pulseEvery  = time.Minute     // between two reports of a turn that runs
	extendEvery = 5 * time.Minute // between two extensions of its wake
)

// watch cancels a turn without a sign of life, or whose processes are too large. A
// question that waits for a person is no hang. It tells the wake machine that the turn runs.
func (a *agent) watch(ctx context.Context, t turn, cancel context.CancelCauseFunc) (stop func()) {
	a.live()

	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		looked := time.Now()
		pulse, extended := looked, looked
		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}

			// After a sleep of the machine the agent has its whole time again.
			now := time.Now()
			a.mu.Lock()
			seen := watched{a.state, a.desk.open("") > 0, a.alive, looked}
			a.mu.Unlock()
			if looked = now; seen.slept(now) {
				a.live()
			}

			// The wake machine learns at intervals that a long turn still runs.
			if seen.state == Working && now.Sub(pulse) >= pulseEvery {
				pulse = now
				a.report(ctx, wake.EventTool, "")
			}
			if seen.state == Working && now.Sub(extended) >= extendEvery {
				extended = now
				a.extend(ctx, t)
			}

			switch {
			case a.hangs(ctx, seen, now):
				cancel(errHang)
			case !a.measure():
				cancel(errMemory)
			}
		}
	}()

	return func() {
		close(quit)
		<-done
	}
}

// measure notes the resident size of the processes and reports whether it is within
// bounds.
func (a *agent) measure() bool {
	a.mu.Lock()
	pid := a.pid
	a.mu.Unlock()
	if pid == 0 {
		return true
	}
	size := resident(pid)
	a.mu.Lock()
	a.resident = size
	a.mu.Unlock()
	return size <= int(cmp.Or(a.record.Memory, defaultMemory))
}

// A recorder is the hub of the runs of a kept agent: it gives them the key of the
// process, and makes those with a report runs on the hub.
type recorder struct{ *agent }

// BeginRun returns the key of the process, a new one if the process is to be started. The
// hub begins the turn, and reaches the verdict on it.
func (r recorder) BeginRun(ctx context.Context, begun hub.Run, _ time.Duration) (hub.Run, string, error) {
	begun.By = hub.Self
	if r.process != nil {
		return begun, r.key, nil
	}
	var key string
	err := r.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		stored, err := hub.ReadMeta[record](tx, recordKey(r.name))
		if err != nil {
			return err
		}
		if stored.Agent == "" {
			return hub.Errorf(hub.CodeNotFound, "keeper.BeginRun", "%s is no longer kept", r.name)
		}
		if key, err = r.newKey(tx, hub.Caller{ID: hub.Self}, &stored); err != nil {
			return err
		}
		return hub.WriteMeta(tx, recordKey(r.name), stored)
	})
	if err != nil {
		return begun, "", fmt.Errorf("keeper: lend a key: %w", err)
	}
	r.keys.Changed()
	r.agent.key = key
	return begun, key, nil
}

// MoveRun does nothing: a turn becomes a run on the hub when it has ended.
func (recorder) MoveRun(context.Context, hub.RunID, hub.RunState, string) error { return nil }

// EndRun makes a turn with a report a run on the hub.
func (r recorder) EndRun(ctx context.Context, ended hub.Run) (hub.Run, error) {
	if len(ended.Report) == 0 {
		return ended, nil
	}
	return r.o.Record(ctx, ended)
}

// TurnUsage has the model calls of a turn of an agent.
type TurnUsage struct {
	Run   hub.Run
	CLI   string
	Calls []hub.ModelCall // all so far; the same call has the same id each time
	Kept  bool            // of the kept session, and for the tasks of the agent; else of a further session, which has none
	Ended bool            // the turn

	// Record names the record that earlier calls of the turn have; empty for none.
	Record string
}

// RecordUsage records the model calls of a turn that ended.
func (r recorder) RecordUsage(ctx context.Context, turn hub.Run, cli string, calls []hub.ModelCall) error {
	r.answered()
	err := r.recordUsage(ctx, TurnUsage{Run: turn, CLI: cli, Calls: calls, Ended: true})
	r.usage = ""
	return err
}

// RecordUsageSoFar implements run.LiveUsageHub.
func (r recorder) RecordUsageSoFar(ctx context.Context, turn hub.Run, cli string, calls []hub.ModelCall) error {
	return r.recordUsage(ctx, TurnUsage{Run: turn, CLI: cli, Calls: calls})
}

// recordUsage records model calls of the kept session with those of the turn before them.
func (r recorder) recordUsage(ctx context.Context, u TurnUsage) error {
	if r.o.RecordUsage == nil {
		return nil
	}
	u.Kept, u.Record = true, r.usage
	record, err := r.o.RecordUsage(ctx, u)
	if record != "" {
		r.usage = record
	}
	return err
}

// Tools returns the hub's tools.
func (r recorder) Tools(key string) *fleet.Tools {
	return &fleet.Tools{Name: toolServer, URL: r.o.URL, Key: key, Bridge: r.o.Bridge, BridgeEnv: []string{"PARLEY_HOME=" + r.o.Home}}
}
