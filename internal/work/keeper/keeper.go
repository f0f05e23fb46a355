// Package keeper runs agents for the hub: it starts a kept agent over the Agent Client
// Protocol when mail comes for it, gives it the notice as a prompt, and stops it when
// it has been idle for some time.
//
// A kept agent is reached as an agent in a terminal is: the keeper is the waiter of its
// one session in the wake machine, whose permissions, budgets and proofs hold
// for it, too. The keeper never gives a second prompt while one runs. The session of the
// agent outlives its process: the next start takes it up again if the agent can, else a
// new session begins with a summary of the agent's open work.
//
// Every turn is recorded as a run is: its frames and a comparison of the folder before
// and after it are kept in files, and a turn whose answer is a compact report becomes a
// run on the hub, with its verdict. A report that the files contradict is told to the
// agent, in a turn that follows at once.
//
// Definitions are kept in the store. A turn under way is, too: after a crash of the
// agent or of the hub the next start continues it.
//
// # Files
//
// In the order in which a message passes through them:
//
//   - keeper.go has the operator's side: what a kept agent is (Definition, State), how it is
//     kept, stopped and started again, and the list of them.
//   - agent.go serves one agent: its loop waits for a wake or a word of the operator, starts the
//     process, gives it one turn after the other, and rests after failures.
//   - turn.go is one turn: the prompt, the signs of life, the attempts, the report and its
//     verdict.
//   - guard.go and ask.go answer the requests of the agent during a turn: whether it may change a
//     file, and what a person decides; command.go runs commands for it, confined.
//   - feed.go has the events of a session for the windows that show it, and log.go the lines of
//     an agent for the operator; prompts of the operator come in there.
//   - session.go and side.go are further sessions: conversations that windows open beside the kept
//     session, each with a process of its own.
//   - stop.go ends turns: of an agent that must stop, and of a budget that is spent.
//   - onward.go says that an agent cannot go on and gives its folder to a stand-in;
//     successor.go knows the agents that may take over a task, kept and in terminals.
//   - system_*.go has what differs between systems: locks of folders and memory of processes.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A Definition describes a kept agent. It is stored.
type Definition struct {
	Agent   hub.AgentID `json:"agent"`
	CLI     string      `json:"cli,omitempty"`     // its name in package cli; empty for another command
	Command []string    `json:"command"`           // program, by its path, and arguments; it speaks ACP
	Path    string      `json:"path,omitempty"`    // the PATH under which the command was found
	Dir     string      `json:"dir"`               // the folder in which it works
	Branch  string      `json:"branch,omitempty"`  // of the worktree that was made for it
	Machine string      `json:"machine,omitempty"` // that it runs on, where hubs of several share a store; set by the hub

	V2       bool             `json:"v2,omitempty"`       // version 2 of the protocol is offered to it, before version 1
	Policy   sandbox.Policy   `json:"policy"`             // read, write, build or ask
	Network  bool             `json:"network,omitempty"`  // commands that the policy build lets it run have the network
	Idle     Seconds          `json:"idle_s,omitempty"`   // after which its process is stopped; default 5 minutes
	Hang     Seconds          `json:"hang_s,omitempty"`   // without a sign of life in a turn, after which that is cancelled; default 10 minutes
	Memory   strictjson.Count `json:"memory,omitzero"`    // MiB that its processes may have; default 4096
	PerHour  int              `json:"per_hour,omitempty"` // turns that mail may start within an hour, which the wake machine counts; 0 for the limit of the hub
	Question Seconds          `json:"answer_s,omitempty"` // for a person to answer a question of the agent; default 10 minutes

	Or  []Successor `json:"or,omitempty"`  // who takes over its tasks when it cannot go on, in this order
	For hub.AgentID `json:"for,omitempty"` // the agent in whose folder it works for it; empty for most
}

// A Successor takes over the tasks of a kept agent that cannot go on.
type Successor struct {
	Name    string   `json:"name"`              // of a CLI or an agent, or self
	Command []string `json:"command,omitempty"` // of a CLI: its program, by its path, and arguments
}

// Seconds is a span of time; 0 stands for a default.
type Seconds int64

func (s Seconds) or(d time.Duration) time.Duration {
	if s == 0 {
		return d
	}
	return time.Duration(s) * time.Second
}

const (
	defaultIdle     = 5 * time.Minute
	defaultHang     = 10 * time.Minute
	defaultQuestion = 10 * time.Minute
	defaultMemory   = 4096 // MiB
)

// check refuses a definition that cannot be kept.
func (d Definition) check(op string) error {
	switch {
	case !d.Agent.Valid() || d.Agent == hub.Operator || d.Agent == hub.Self:
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a valid agent name", d.Agent)
	case len(d.Command) == 0 || !filepath.IsAbs(d.Command[0]):
		return hub.Errorf(hub.CodeInvalid, op, "command is required: the path of a program")
	case !slices.Contains(policies, d.Policy):
		return hub.Errorf(hub.CodeInvalid, op, "unknown policy %q: use one of %v", d.Policy, policies).
			WithHint("an unattended agent is never allowed everything")
	case d.Network && d.Policy != PolicyBuild:
		return hub.Errorf(hub.CodeInvalid, op, "network is for commands, which only the policy build lets the agent run, not %s", d.Policy)
	case d.Idle < 0 || d.Hang < 0 || d.Question < 0 || d.Memory < 0:
		return hub.Errorf(hub.CodeInvalid, op, "idle_s, hang_s, answer_s and memory must not be negative")
	case !filepath.IsAbs(d.Dir):
		return hub.Errorf(hub.CodeInvalid, op, "dir must be an absolute path, got %q", d.Dir)
	}
	if info, err := os.Stat(d.Dir); err != nil || !info.IsDir() {
		return hub.Errorf(hub.CodeInvalid, op, "dir: %s is not a folder on the hub's machine", d.Dir)
	}
	if info, err := os.Stat(d.Command[0]); err != nil || info.IsDir() {
		return hub.Errorf(hub.CodeInvalid, op, "command: no program named %s on the hub's machine", d.Command[0])
	}
	return nil
}

var policies = []sandbox.Policy{sandbox.PolicyRead, sandbox.PolicyWrite, PolicyBuild, sandbox.PolicyAsk}

// A record is the stored state of a kept agent.
type record struct {
	Definition
	Stopped bool     `json:"stopped,omitempty"` // by the operator, or after too many failures
	Problem string   `json:"problem,omitempty"` // why it does not run, for people
	Session string   `json:"session,omitempty"` // of the agent, to be taken up again
	Turn    *turn    `json:"turn,omitempty"`    // under way
	Prompts []prompt `json:"prompts,omitempty"` // words of the operator that wait, at most maxPrompts
	Tell    string   `json:"tell,omitempty"`    // the refusal that its next turn begins with
	Launch  string   `json:"launch,omitempty"`  // the id that its processes carry in their environment
	Rest    *rest    `json:"rest,omitempty"`    // it cannot go on for some time
	Cannot  *Ended   `json:"cannot,omitempty"`  // it cannot go on, and the hub has not continued its tasks yet
	Label   string   `json:"label,omitempty"`   // of its key
	Since   hub.Time `json:"since,omitzero"`
}

// A turn is one that was begun and may have to be continued.
type turn struct {
	ID     string `json:"id,omitempty"`   // for windows; set when it begins
	By     string `json:"by,omitempty"`   // the name of the window that prompted
	Wake   string `json:"wake,omitempty"` // that started it; empty for words of the operator
	Prompt string `json:"prompt"`
	Onward string `json:"onward,omitempty"` // the text about a task that the agent takes over, which it begins with
	Noted  bool   `json:"noted,omitempty"`  // the wake machine gave the notice in it and counts the turn already
	Tries  int    `json:"tries,omitempty"`  // how often it was begun again

	Stopped bool `json:"stopped,omitempty"` // by the operator, before it ended
}

// by returns who prompted.
func (t turn) by() string {
	switch {
	case t.By != "":
		return t.By
	case t.Wake != "" || t.Noted:
		return ByMail
	}
	return ByOperator
}

// A prompt has words of the operator that wait for their turn.
type prompt struct {
	Text string `json:"text"`
	Turn string `json:"turn,omitempty"` // the id that the turn gets
	By   string `json:"by,omitempty"`   // the name of the window; empty for the operator
}

// UnmarshalJSON reads a prompt; earlier versions stored the text alone.
func (p *prompt) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &p.Text)
	}
	type plain prompt
	return json.Unmarshal(raw, (*plain)(p))
}

// A rest is the time in which an agent cannot go on.
type rest struct {
	Reason hub.ContinuationReason `json:"reason"`
	Until  hub.Time               `json:"until,omitzero"` // zero if only its folder must become free
}

// recordKey is the key of the stored state of one agent; listKey that of the names.
func recordKey(agent hub.AgentID) string { return "kept/" + string(agent) }

const listKey = "kept"

// maxKept is the number of agents that a hub keeps.
const maxKept = 64

// A State says how a kept agent stands.
type State string

// The states.
const (
	Stopped  State = "stopped"  // mail waits in its inbox until it is restarted
	Sleeping State = "sleeping" // it has no process; mail starts one
	Starting State = "starting"
	Working  State = "working" // a turn runs
	Asking   State = "asking"  // the turn waits for a person
	Idle     State = "idle"    // its process waits for mail
	Failing  State = "failing" // it is started again after a pause
	Resting  State = "resting" // it cannot go on for some time, or another agent works in its folder for it

	// Of agents on other machines, where hubs of several share a store.
	Elsewhere State = "elsewhere"    // the hub of its machine knows more
	Away      State = "machine away" // no hub runs on its machine; its mail waits
)

// stateNext is the state machine of an agent that is served. Its process can end at any
// time. Stopped is no state of a served agent: its record says so.
var stateNext = map[State][]State{
	Sleeping: {Starting, Failing, Resting},
	Starting: {Working, Idle, Failing, Sleeping},
	Working:  {Asking, Idle, Failing, Sleeping},
	Asking:   {Working, Idle, Sleeping},
	Idle:     {Working, Sleeping},
	Failing:  {Starting, Sleeping},
	Resting:  {Sleeping},
}

// leads reports whether the state machine has a step from s to next, or none is needed.
func (s State) leads(next State) bool { return s == next || slices.Contains(stateNext[s], next) }

// A Status is a kept agent as people see it.
type Status struct {
	Definition
	State    State      `json:"state"`
	Since    hub.Time   `json:"since,omitzero"`
	Problem  string     `json:"problem,omitempty"`
	Session  string     `json:"session,omitempty"`
	Process  int        `json:"process,omitempty"`
	Resident int        `json:"resident,omitempty"` // MiB of its processes, as last seen
	Run      hub.RunID  `json:"run_id,omitempty"`   // the turn that runs, or the last one
	Asks     []Question `json:"asks,omitempty"`
	Windows  []Window   `json:"windows,omitempty"`
}

// A Window is a program of the operator that shows the sessions of a kept agent with a key of
// its own.
type Window struct {
	Name  string   `json:"name"`
	Hint  string   `json:"hint"` // the last four characters of its key
	Since hub.Time `json:"since,omitzero"`
}

// Sessions is the part of the wake machine that a waiter needs.
type Sessions interface {
	Wait(ctx context.Context, actor hub.Caller, w wake.Waiter) (wake.Call, error)
	Handed(ctx context.Context, actor hub.Caller, h wake.Handing) error
	Report(ctx context.Context, actor hub.Caller, r wake.Report) (wake.Advice, error)
}

// Keys lends keys to agents. Service keys implements it.
type Keys interface {
	Lend(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string, until hub.Time) (hub.KeyID, string, error)
	Withdraw(tx hub.Tx, actor hub.Caller, agent hub.AgentID, label string) error
	Changed()
	Enlist(tx hub.Tx, actor hub.Caller, agent hub.Agent) error
}

// Options changes how a Keeper works.
type Options struct {
	Home    string // for the files of runs
	URL     string // of the hub
	Bridge  []string
	Version string
	Clock   hub.Clock
	Log     *slog.Logger
	Bus     hub.Bus

	Tools   map[string]string // the titles of the hub's tools, by their names
	Running int               // processes at a time; default 8

	// Machine is the name of this machine where hubs of others have the same store, else
	// "". Only agents of this machine are served. Away reports whether no hub runs on a
	// machine.
	Machine string
	Away    func(machine string) bool

	// Record makes a turn with a report a run on the hub.
	Record func(ctx context.Context, r hub.Run) (hub.Run, error)
	// Summary returns the open work of an agent, for a session that begins anew.
	Summary func(ctx context.Context, agent hub.AgentID) (string, error)
	// AskFiles asks about files that an agent changes; nil if nothing guards them.
	// DenyUnanswered reports whether changes of files in a folder are refused while there is no
	// answer.
	AskFiles       func(ctx context.Context, actor hub.Caller, q reservation.Question) (reservation.Answer, error)
	DenyUnanswered func(dir string) bool
	// Commands runs commands for agents, in their folders.
	Commands Commands
	// RecordUsage records the model calls of a turn, and returns the name of their record; nil if
	// nothing does.
	RecordUsage func(ctx context.Context, u TurnUsage) (record string, err error)
	// Blocked returns why no turn of an agent may begin; "" if one may. It is nil without budgets.
	Blocked func(ctx context.Context, agent hub.AgentID) string
	// Stopped returns why an agent must not work until its operator lets it go on; "" if it may. It is
	// nil if nothing stops agents.
	Stopped func(ctx context.Context, agent hub.AgentID) string
	// CannotGoOn continues the tasks of an agent that cannot go on; it may keep another agent in the
	// folder of the first one. Returned notes that the agent can go on again, and returns the text
	// about its open tasks; Onward returns a text that the next turn of an agent begins with, once.
	// They are nil if nothing continues tasks.
	CannotGoOn func(ctx context.Context, e Ended)
	Returned   func(ctx context.Context, agent hub.AgentID) string
	Onward     func(ctx context.Context, agent hub.AgentID) string
	// Exceeded returns why the turn of an agent that runs must end, because a budget is spent; "" if it may
	// go on.
	Exceeded func(rd hub.Reader, agent hub.AgentID) (string, error)
	// VendorOf returns the vendor of a model by its name; "" if it is unknown.
	VendorOf func(model string) string
	// OpenTasks reports whether an agent owns a task or was offered one; nil if nothing knows.
	OpenTasks func(ctx context.Context, agent hub.AgentID) bool
	// HasSuccessor reports whether the team of a task of an agent names successors; nil if nothing
	// knows.
	HasSuccessor func(ctx context.Context, agent hub.AgentID) bool
	// Patience is the time without a sign of life after which the turn of an agent with successors
	// is ended; 0 for the time of the agent.
	Patience time.Duration
	// Tell writes a message of the hub to the operator inside a transaction;
	// Announce wakes its reader after the commit.
	// Ask writes a question to the operator, about the thing that waits for the answer.
	Tell     func(tx hub.Tx, payload any) (hub.Message, error)
	Ask      func(tx hub.Tx, question string, about hub.NoticeSubject) (hub.Message, error)
	Announce func(...hub.Message)
}

// A Keeper keeps agents. It is safe for concurrent use.
type Keeper struct {
	store     hub.Store
	sessions  Sessions
	keys      Keys
	o         Options
	slots     chan struct{} // one for each process that runs
	questions atomic.Int64  // the number of the newest question

	mu       sync.Mutex      // guards what follows
	ctx      context.Context // while Run works; else nil
	agents   map[hub.AgentID]*agent
	commands map[hub.AgentID]*commandRun // the commands that agents asked for
	logs     map[hub.AgentID]*lines      // they outlive a stop
	desks    map[hub.AgentID]*desk
	feeds    map[string]*feed // of sessions, by the paths of their files
	sides    map[string]*side // the further sessions, by their ids
	wg       sync.WaitGroup
}

// New returns a keeper. Run makes it work.
func New(store hub.Store, s Sessions, keys Keys, o Options) *Keeper {
	if o.Running <= 0 {
		o.Running = 8
	}
	return &Keeper{store: store, sessions: s, keys: keys, o: o, slots: make(chan struct{}, o.Running), agents: map[hub.AgentID]*agent{}, commands: map[hub.AgentID]*commandRun{}, logs: map[hub.AgentID]*lines{}, desks: map[hub.AgentID]*desk{}, feeds: map[string]*feed{}, sides: map[string]*side{}}
}

// linesOf returns the lines of an agent. The caller holds mu.
func (k *Keeper) linesOf(name hub.AgentID) *lines {
	if k.logs[name] == nil {
		k.logs[name] = newLines()
	}
	return k.logs[name]
}

// Run keeps the agents that are defined until ctx ends, and returns when their
// processes have ended.
func (k *Keeper) Run(ctx context.Context) {
	if !k.awaitTurn(ctx) {
		return
	}
	records, err := hub.Read(ctx, k.store, readAll)
	if err != nil && ctx.Err() == nil {
		k.o.Log.Error("cannot read the kept agents", "op", "keeper.Run", "err", err)
	}
	k.mu.Lock()
	k.ctx = ctx
	for _, r := range records {
		if k.here(r) {
			k.start(r.Agent)
		}
	}
	k.mu.Unlock()
	<-ctx.Done()
	k.mu.Lock()
	k.ctx = nil
	k.mu.Unlock()
	k.wg.Wait()
	k.releaseFeeds()
}

// awaitTurn returns when this process keeps the agents of its machine: at once where the
// store is of one hub, else when it has the lease of the machine, which it then renews
// until ctx ends. It reports false if ctx ended first.
func (k *Keeper) awaitTurn(ctx context.Context) bool {
	if k.o.Machine == "" {
		return true
	}

	take := func() error {
		_, err := k.store.Lease(ctx, "keeper/"+k.o.Machine, 3*leaseEvery)
		return err
	}

	tick := time.NewTicker(leaseEvery)
	for take() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return false
		}
	}

	// The lease lasts for three ticks, so that a renewal that failed can be tried again.
	k.wg.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := take(); err != nil && ctx.Err() == nil {
					k.o.Log.Warn("renewing the lease of kept agents", "op", "keeper.Run", "err", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return true
}

// leaseEvery is how often a keeper asks for the lease of its machine.
const leaseEvery = 10 * time.Second

// start begins to serve an agent, unless Run does not work. The caller holds mu.
func (k *Keeper) start(name hub.AgentID) {
	if k.ctx == nil {
		return
	}
	ctx, cancel := context.WithCancel(k.ctx)
	a := newAgent(k, name, cancel)
	k.agents[name] = a
	k.wg.Go(func() {
		defer close(a.done)
		err := hub.Contain("kept agent "+string(name), func() error { return a.serve(ctx) })
		if err != nil && ctx.Err() == nil {
			k.o.Log.Error("a kept agent is no longer served", "agent", name, "err", err)
		}
	})
}

// halt ends the service of an agent and waits until its process has ended.
func (k *Keeper) halt(name hub.AgentID) {
	k.mu.Lock()
	a := k.agents[name]
	delete(k.agents, name)
	k.mu.Unlock()
	if a != nil {
		a.cancel()
		<-a.done
	}
	k.endCommand(name)
}

// Keep keeps an agent, or changes how it is kept. An agent that does not exist is added
// as in profile. With worktree it works in a git worktree that is made for it.
func (k *Keeper) Keep(ctx context.Context, actor hub.Caller, d Definition, profile hub.Agent, worktree bool) (Status, error) {
	const op = "keeper.Keep"
	if err := actor.OperatorOnly(op); err != nil {
		return Status{}, err
	}
	if _, err := k.own(ctx, op, d.Agent); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return Status{}, err
	}
	if d.For != "" {
		return Status{}, hub.Errorf(hub.CodeInvalid, op, "for is set by the hub")
	}
	return k.keep(ctx, op, actor, d, profile, worktree)
}

// keep is Keep for a caller that may.
func (k *Keeper) keep(ctx context.Context, op string, actor hub.Caller, d Definition, profile hub.Agent, worktree bool) (Status, error) {
	// The folder is kept under its real path, so that a second agent in it is refused.
	d.Machine = k.o.Machine
	if real, err := filepath.EvalSymlinks(d.Dir); err == nil {
		d.Dir = real
	}
	if err := d.check(op); err != nil {
		return Status{}, err
	}
	if err := checkSuccessors(op, d.Or); err != nil {
		return Status{}, err
	}
	if d.Policy == PolicyBuild && k.o.Commands != nil {
		if err := k.o.Commands.Confines(); err != nil {
			return Status{}, err
		}
	}

	// A worktree that is made here is removed again if the agent cannot be kept.
	unmake := func() {}
	if worktree {
		var err error
		if unmake, err = k.worktree(ctx, &d); err != nil {
			return Status{}, err
		}
	}
	if k.private(d.Dir) {
		return Status{}, hub.Errorf(hub.CodePolicy, op, "dir: %s contains files of the hub's home %s, which has its keys", d.Dir, k.o.Home).
			WithHint("use the project's folder")
	}

	// The agent does not run while its record changes.
	profile.ID = d.Agent
	k.halt(d.Agent)
	err := k.change(ctx, actor, d.Agent, actions.AgentKept, func(tx hub.Tx, r *record) error {
		if err := k.keys.Enlist(tx, actor, profile); err != nil {
			return err
		}
		names, err := hub.ReadMeta[[]hub.AgentID](tx, listKey)
		if err != nil {
			return err
		}
		if err := apart(tx, op, names, d); err != nil {
			return err
		}

		if r.Dir != d.Dir || !slices.Equal(r.Command, d.Command) {
			r.Session = "" // it belongs to another agent or folder
		}
		r.Definition = d
		r.Stopped = false
		r.Problem = ""
		r.Rest = nil
		r.Cannot = nil
		r.Since = k.o.Clock.Now()

		// An agent that is kept for the first time gets a key and a place in the list.
		if slices.Contains(names, d.Agent) {
			return nil
		}
		if len(names) == maxKept {
			return hub.Errorf(hub.CodeTooLarge, op, "this hub already keeps %d agents, the maximum", maxKept).WithHint("parley agent stop NAME --forget")
		}
		if _, err := k.newKey(tx, actor, r); err != nil { // mail wakes no agent without a key
			return err
		}
		return hub.WriteMeta(tx, listKey, append(names, d.Agent))
	})

	if err != nil {
		unmake()
	}
	k.restart(d.Agent)
	if err != nil {
		return Status{}, err
	}
	k.keys.Changed()
	return k.one(ctx, d.Agent)
}

// private reports whether an agent in a folder has the hub's keys within reach.
func (k *Keeper) private(dir string) bool {
	paths := []string{k.o.Home, dir}
	for i, path := range paths {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			paths[i] = real
		}
	}
	return roots.Private(paths[0], paths[1])
}

// worktree makes the worktree of an agent, or takes the one that was made for it. It
// returns the function that removes a worktree that it made.
func (k *Keeper) worktree(ctx context.Context, d *Definition) (unmake func(), err error) {
	d.Branch = "parley/" + string(d.Agent)
	made := filepath.Join(k.o.Home, "worktrees", "kept-"+string(d.Agent))
	was, err := hub.Read(ctx, k.store, func(r hub.Reader) (record, error) { return hub.ReadMeta[record](r, recordKey(d.Agent)) })
	if err != nil {
		return nil, err
	}
	if was.Branch == d.Branch && within(was.Dir, made) {
		d.Dir = was.Dir
		return func() {}, nil
	}
	d.Dir, unmake, err = run.MakeWorktree(ctx, d.Dir, made, d.Branch)
	return unmake, err
}

// newKey replaces the key of an agent and returns the new one.
func (k *Keeper) newKey(tx hub.Tx, actor hub.Caller, r *record) (string, error) {
	if r.Label != "" {
		if err := k.keys.Withdraw(tx, actor, r.Agent, r.Label); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return "", err
		}
	}
	now := k.o.Clock.Now()
	r.Label = "kept-" + string(hub.NewIDs(k.o.Clock).Next())
	_, secret, err := k.keys.Lend(tx, actor, r.Agent, r.Label, now.Add(keyTime))
	return secret, err
}

// keyTime is the time that the key of a kept agent is valid. Each start of its process
// has a new one.
const keyTime = 365 * 24 * time.Hour

// apart refuses a definition whose folder another kept agent works in.
func apart(r hub.Reader, op string, names []hub.AgentID, d Definition) error {
	for _, name := range names {
		if name == d.Agent {
			continue
		}
		other, err := hub.ReadMeta[record](r, recordKey(name))
		if err != nil {
			return err
		}
		isOneTeam := d.For != "" && (other.Agent == d.For || other.For == d.For) // only one of them works at a time
		isOneTeam = isOneTeam || other.For == d.Agent
		shareFolder := other.Machine == d.Machine && (within(d.Dir, other.Dir) || within(other.Dir, d.Dir))
		if shareFolder && !isOneTeam {
			return hub.Errorf(hub.CodeConflict, op, "%s already works in %s", name, other.Dir).WithHint("give each agent a worktree of its own: --worktree")
		}
	}
	return nil
}

// within reports whether a folder is another one or lies in it.
func within(dir, of string) bool {
	rel, err := filepath.Rel(of, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// restart serves an agent again that was halted, if it is kept.
func (k *Keeper) restart(name hub.AgentID) {
	r, err := k.find(context.Background(), "keeper.restart", name)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.here(r) && k.agents[name] == nil {
		k.start(name)
	}
}

// Stop stops a kept agent: its process ends, its mail waits. With forget it is not kept
// any more.
func (k *Keeper) Stop(ctx context.Context, actor hub.Caller, name hub.AgentID, forget bool) error {
	const op = "keeper.Stop"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	if r, err := k.own(ctx, op, name); err != nil && (r.Agent == "" || !k.o.Away(r.Machine)) { // one whose machine is gone can be forgotten
		return err
	}

	k.halt(name)
	k.mu.Lock()
	k.linesOf(name).add("stop", "by the operator")
	if forget {
		delete(k.logs, name)
	}
	k.mu.Unlock()
	k.endSides(name)
	if forget {
		k.forgetSessions(ctx, name)
	}

	err := k.change(ctx, actor, name, actions.AgentStopped, func(tx hub.Tx, r *record) error {
		r.Stopped = true
		r.Problem = ""
		r.Since = k.o.Clock.Now()
		if r.Turn != nil {
			r.Turn.Stopped = true // the next start continues it
		}

		// A forgotten agent loses its key, its record and its place in the list.
		if !forget {
			return nil
		}
		names, err := hub.ReadMeta[[]hub.AgentID](tx, listKey)
		if err != nil {
			return err
		}
		if err := k.keys.Withdraw(tx, actor, name, r.Label); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
		*r = record{}
		return hub.WriteMeta(tx, listKey, slices.DeleteFunc(names, func(id hub.AgentID) bool { return id == name }))
	})

	k.keys.Changed()
	k.restart(name)
	return err
}

// Restart ends the process of a kept agent and lets mail start it again, also one that
// was stopped. With fresh the next session is a new one.
func (k *Keeper) Restart(ctx context.Context, actor hub.Caller, name hub.AgentID, fresh bool) (Status, error) {
	const op = "keeper.Restart"
	if err := actor.OperatorOnly(op); err != nil {
		return Status{}, err
	}
	if _, err := k.own(ctx, op, name); err != nil {
		return Status{}, err
	}
	k.halt(name)
	err := k.change(ctx, actor, name, actions.AgentRestarted, func(_ hub.Tx, r *record) error {
		r.Stopped = false
		r.Problem = ""
		r.Rest = nil
		r.Cannot = nil
		r.Since = k.o.Clock.Now()
		if fresh {
			r.Session, r.Turn = "", nil
		}
		return nil
	})
	if fresh && err == nil {
		k.mu.Lock()
		history := k.feedOf(name, "")
		k.mu.Unlock()
		history.forget()
	}
	k.restart(name)
	if err != nil {
		return Status{}, err
	}
	return k.one(ctx, name)
}

// find returns the stored state of a kept agent.
func (k *Keeper) find(ctx context.Context, op string, name hub.AgentID) (record, error) {
	r, err := hub.Read(ctx, k.store, func(r hub.Reader) (record, error) { return hub.ReadMeta[record](r, recordKey(name)) })
	if err == nil && r.Agent == "" {
		err = hub.Errorf(hub.CodeNotFound, op, "this hub keeps no agent named %q", name).WithHint("parley agent keep NAME --cli CLI --dir FOLDER")
	}
	return r, err
}

// here reports whether an agent runs on this machine.
func (k *Keeper) here(r record) bool { return k.o.Machine == "" || r.Machine == k.o.Machine }

// own returns the stored state of an agent that is kept on this machine. It reports
// CodeConflict, with the state, for one that is kept on another.
func (k *Keeper) own(ctx context.Context, op string, name hub.AgentID) (record, error) {
	r, err := k.find(ctx, op, name)
	if err == nil && !k.here(r) && r.Machine != "" {
		err = hub.Errorf(hub.CodeConflict, op, "%s is kept on the machine %s", name, r.Machine).WithHint("call the hub on that machine")
	}
	return r, err
}

// change changes the stored state of an agent with a journal entry.
func (k *Keeper) change(ctx context.Context, actor hub.Caller, name hub.AgentID, action actions.Action, do func(hub.Tx, *record) error) error {
	err := k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		r, err := hub.ReadMeta[record](tx, recordKey(name))
		if err == nil {
			err = do(tx, &r)
		}
		if err == nil {
			err = hub.WriteMeta(tx, recordKey(name), r)
		}
		if err == nil {
			_, err = tx.Append(actor.Entry(k.o.Clock.Now(), action, "kept/"+string(name), map[string]any{"cli": r.CLI, "policy": r.Policy, "session": r.Session}))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	k.o.Bus.Publish(hub.TopicJournal)
	return nil
}

func readAll(r hub.Reader) (all []record, err error) {
	names, err := hub.ReadMeta[[]hub.AgentID](r, listKey)
	for _, name := range names {
		one, readErr := hub.ReadMeta[record](r, recordKey(name))
		err = errors.Join(err, readErr)
		all = append(all, one)
	}
	return all, err
}

// List returns the kept agents.
func (k *Keeper) List(ctx context.Context) ([]Status, error) {
	out := []Status{}
	windows := map[hub.AgentID][]Window{}
	records, err := hub.Read(ctx, k.store, func(r hub.Reader) ([]record, error) {
		records, err := readAll(r)
		for _, one := range records {
			if err == nil {
				windows[one.Agent], err = windowsOf(r, one.Agent, k.o.Clock.Now())
			}
		}
		return records, err
	})
	if err != nil {
		return nil, fmt.Errorf("keeper: list: %w", err)
	}
	for _, r := range records {
		s := k.status(r)
		s.Windows = windows[r.Agent]
		out = append(out, s)
	}
	return out, nil
}

func (k *Keeper) one(ctx context.Context, name hub.AgentID) (Status, error) {
	r, err := k.find(ctx, "keeper.List", name)
	return k.status(r), err
}

func (k *Keeper) status(r record) Status {
	s := Status{Definition: r.Definition, State: Sleeping, Since: r.Since, Problem: r.Problem, Session: r.Session}
	k.mu.Lock()
	a := k.agents[r.Agent]
	k.mu.Unlock()
	switch {
	case a != nil:
		a.show(&s)
		s.Asks = a.desk.list()
	case !k.here(r) && k.o.Away(r.Machine):
		s.State, s.Problem = Away, "no hub runs on "+r.Machine
	case !k.here(r):
		s.State = Elsewhere
	}
	if r.Stopped {
		s.State = Stopped
	}
	return s
}

// serving returns the service of an agent that is kept and not stopped.
func (k *Keeper) serving(ctx context.Context, op string, name hub.AgentID) (*agent, error) {
	r, err := k.own(ctx, op, name)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	a := k.agents[name]
	k.mu.Unlock()
	if r.Stopped || a == nil {
		return nil, hub.Errorf(hub.CodeConflict, op, "%s is stopped", name).WithHint("parley agent restart %s", name)
	}
	return a, nil
}

// Busy reports whether a turn of a kept agent runs in a process of this machine.
func (k *Keeper) Busy(name hub.AgentID) bool {
	k.mu.Lock()
	a := k.agents[name]
	k.mu.Unlock()
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pid != 0 && (a.state == Working || a.state == Asking)
}
