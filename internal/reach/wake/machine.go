// Package wake tells agents that mail waits for them: which messages are announced over
// which channel, when and how often, in which sessions agents run, and what is the proof
// that a notice became a turn.
//
// The inbox of an agent is the truth: the machine looks at the unread messages of a
// recipient and at the rows of the delivery ledger that say which of them were
// announced. So nothing is lost when the hub stops between a message and its wake, and
// nothing is announced twice. An announcement carries counts, never a text; see
// package channel.
//
// Turns cost the recipient's tokens. A channel that starts one (session, wake) is used
// only for agents whose user allowed it, for messages of normal priority and above,
// one wake at a time, within budgets, and never while a turn runs unless a critical
// message of a coordinator may interrupt. A message that was announced and not fetched
// is announced once more after 15 minutes, and then only with the next message.
//
// The hub never starts a program of an agent. A waiter beside the agent's CLI holds
// one request to the hub (Wait), gets a notice when a turn is due, writes it by its
// mechanism and tells the result (Handed). Hooks and plugins of the CLI tell what the
// session does (Report): that is where presence comes from, and the proof that a
// notice became a turn. Their answers can carry a notice, too.
//
// A session is known by its id and its process together: a headless run of a CLI can
// have the id of a session that is open in a terminal. Each session has one armed
// mechanism; a newer waiter ends the older one. Sessions that a person attends are one
// channel of the machine, those without a person are another.
//
// Everything is kept in the store, so that a wake survives the end of the process and
// several hubs on one store can serve one agent: a document with the permission of each
// agent, one with the presence of its sessions, and a row for each wake (hub.Wake). One
// transaction reads them as an agentRecord, whose method move is the only writer of wakes:
// by the state machine of hub.Wake, together with the ledger and the journal.
//
// # Files
//
// The machine: machine.go puts it together, run.go follows the journal and makes the attempts,
// visit.go considers one agent and reserves a wake, and record.go moves wakes. wake.go has what
// follows from the wakes of an agent, and takeover.go turns those of an older version into rows.
//
// The rules before a wake: permission.go and account.go (may the agent be woken), budget.go (is
// there money for a turn), loop.go (do agents answer each other), notice.go (which messages are
// announced), and forecast.go, which says the same before a message is sent.
//
// The sessions: presence.go has them and their states, life.go whether one lives, report.go takes
// the reports of hooks, wait.go the requests of waiters, and sessionchannel.go delivers a wake to
// them. probe.go tests the whole way with a notice without a message; all.go visits and stops all
// agents.
//
// The tests here hold tables, bounds, states of sessions and hubs that share a store. What
// agents and sessions see is tested through the operations of a hub: server/wake_test.go
// (one message, budgets, loops, forecasts), server/wake_rules_test.go (unlucky orders),
// server/ghost_linux_test.go (windows that were killed), server/alarm_test.go and
// server/channels_test.go (channels of others); hooks and waiters as commands in
// cmd/parley/launch_linux_test.go, and with real CLIs in
// cmd/parley/desk_wake_linux_test.go.
package wake

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// Limits bound the turns that mail may start. Zero members mean the default.
type Limits struct {
	Gap         time.Duration // between two wakes of one agent; default 30 seconds
	PerHour     int           // wakes of one agent; default 20
	PairPerHour int           // wakes of one agent for messages of one sender; default 20
}

// complete fills in the defaults.
func (l Limits) complete() (Limits, error) {
	if l.Gap < 0 || l.PerHour < 0 || l.PairPerHour < 0 {
		return l, hub.Errorf(hub.CodeInvalid, "wake.New", "wake limits must not be negative")
	}
	if l.Gap == 0 {
		l.Gap = 30 * time.Second
	}
	if l.PerHour == 0 {
		l.PerHour = 20
	}
	if l.PairPerHour == 0 {
		l.PairPerHour = 20
	}
	return l, nil
}

const (
	debounce     = 500 * time.Millisecond // a burst of messages is one wake
	burstGap     = 3 * time.Second        // without an event from outside, after which a burst of them is over
	burstTime    = 30 * time.Second       // after which a burst of events starts a turn though it goes on
	repeatAfter  = 15 * time.Minute       // an announcement that led to nothing is made again once
	turnTime     = 10 * time.Minute       // after which a turn whose end was not reported counts as over
	proofTime    = 30 * time.Second       // for an outcome that names no time
	hookProof    = 2 * time.Minute        // for a session to go on that a hook told at the end of a turn
	busyRetry    = 30 * time.Second       // between two looks at a recipient whose turn runs
	recheckAfter = 5 * time.Minute        // between two checks of a channel that failed
	toldAgain    = 24 * time.Hour         // between two messages to the operator about budgets
	maxBarren    = 3                      // wakes in a row that led to nothing, before an agent is woken no more
	maxWakes     = 64                     // kept for one agent
	budgetRetry  = 15 * time.Minute       // between two looks at an agent whose budget has no end
	maxUnread    = 200                    // unread messages that are considered at once
	leaseTime    = time.Minute
)

// Options changes how a Machine works.
type Options struct {
	Clock    hub.Clock
	Bus      hub.Bus
	Log      *slog.Logger // default silent
	Limits   Limits
	Stopping <-chan struct{} // ends every wait when it is closed; may be nil

	// Ended reports whether the process of a number and a stamp is known to have
	// ended. It is nil where processes cannot be looked at; then the last request of
	// a session decides. The same holds for sessions on other machines.
	Ended func(process int, stamp string) bool

	// Budget returns why no turn of an agent may begin, and until when; "" if one may, and a zero
	// time if only a person can change that. It may be nil.
	Budget func(rd hub.Reader, agent hub.AgentID) (reason string, until hub.Time, err error)

	// AsksTrust reports whether a CLI runs hooks only after its user has trusted them. It may be nil.
	AsksTrust func(cli string) bool

	// Machine is the name of this machine where hubs of others have the same store, else
	// "". Away reports whether no hub runs on a machine; nil without a Machine.
	Machine string
	Away    func(machine string) bool
}

// A Machine brings notices of messages to agents, and knows the sessions in which agents
// run. It forecasts, answers waiters and hooks, and changes permissions from the store
// alone; Run makes the attempts. It is safe for concurrent use.
type Machine struct {
	store    hub.Store
	channels map[hub.Channel][]carrier
	foreign  bool // some channels are not the hub's own
	o        Options

	kick       chan struct{} // receives when an agent is to be visited
	wg         sync.WaitGroup
	refreshing sync.Mutex // held while common is read from the store

	mu      sync.Mutex                     // guards the fields below
	due     map[hub.AgentID]hub.Time       // agents to visit, and when
	flying  map[hub.AgentID]bool           // agents with a wake that a goroutine delivers
	checked map[hub.Channel]hub.Capability // the results of the last checks
	checkAt hub.Time                       // of channels that failed
	common  common                         // as last read
	answers map[answerKey]answer           // see Survey
	waits   map[waitKey]chan struct{}      // the wait under way in this process for each session; closed by a newer one
}

// A waitKey names a session among those of all agents.
type waitKey struct {
	agent hub.AgentID
	Key
}

// common is the stored state that concerns all agents.
type common struct {
	Paused  bool          `json:"paused,omitempty"`
	Stopped bool          `json:"stopped,omitempty"` // tool calls of all agents are denied, too
	Allowed []hub.AgentID `json:"allowed,omitempty"` // agents that mail may wake
	Told    hub.Time      `json:"told,omitzero"`     // when the operator was last told about a budget
}

const commonKey = "router"

// New returns a machine over the sessions of agents and the channels that others wrote.
// The channels of one kind are tried in order, sessions first.
func New(store hub.Store, others []channel.Channel, o Options) (*Machine, error) {
	limits, err := o.Limits.complete()
	if err != nil {
		return nil, err
	}
	o.Limits = limits
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	g := &Machine{
		store: store, channels: map[hub.Channel][]carrier{}, foreign: len(others) > 0, o: o, kick: make(chan struct{}, 1),
		due: map[hub.AgentID]hub.Time{}, flying: map[hub.AgentID]bool{}, checked: map[hub.Channel]hub.Capability{},
		waits: map[waitKey]chan struct{}{},
	}
	for _, c := range []*sessionChannel{{g, true}, {g, false}} {
		g.channels[c.Name()] = []carrier{c}
	}

	for _, c := range others {
		name := c.Name()
		if name == hub.ChannelInbox || !slices.Contains(hub.Channels, name) {
			return nil, hub.Errorf(hub.CodeInvalid, "wake.New", "cannot add channel %q", name).WithHint("the channels are %s", hub.JoinWords(hub.Channels[1:]))
		}
		g.channels[name] = append(g.channels[name], c)
	}
	return g, nil
}

// Check checks every channel and reads the state of all agents. The hub calls it when
// it starts; a channel that cannot work stays off.
func (g *Machine) Check(ctx context.Context) error {
	for kind, list := range g.channels {
		g.check(ctx, kind, list)
	}
	return g.refresh(ctx)
}

// check checks the channels of one kind. The kind works if one of them does.
func (g *Machine) check(ctx context.Context, kind hub.Channel, list []carrier) {
	result := hub.Capability{}
	for _, c := range list {
		err := safely(c, func() error { return c.Check(ctx) })
		if err == nil {
			result = hub.Capability{State: hub.Verified, Detail: "checked " + g.o.Clock.Now().String()}
			break
		}
		result = hub.Capability{State: hub.Failed, Detail: err.Error()}
		g.o.Log.Warn("channel is not usable, messages stay in the inbox", "channel", kind, "err", err)
	}
	g.mu.Lock()
	g.checked[kind] = result
	g.mu.Unlock()
}

// safely calls a method of a channel. One that panics has failed.
func safely(c carrier, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("channel %s panicked: %v", c.Name(), p)
		}
	}()
	return f()
}

// refresh reads the common state again: another hub on the same store may have
// changed it. One call at a time does, so that an older state never replaces a newer
// one.
func (g *Machine) refresh(ctx context.Context) error {
	g.refreshing.Lock()
	defer g.refreshing.Unlock()
	got, err := hub.Read(ctx, g.store, func(rd hub.Reader) (common, error) { return hub.ReadMeta[common](rd, commonKey) })
	if err != nil {
		return fmt.Errorf("wake: cannot read the state: %w", err)
	}
	g.mu.Lock()
	g.common = got
	g.mu.Unlock()
	return nil
}

// Capability returns how the channels of a kind stand. Those of the hub itself are on
// while an agent may be woken; those of others are on while their last check is good
// and their last attempt did not fail.
func (g *Machine) Capability(kind hub.Channel) hub.Capability {
	list := g.channels[kind]
	if len(list) == 0 {
		return hub.Capability{State: hub.Unverified}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	out, ok := g.checked[kind]
	switch {
	case !ok:
		return hub.Capability{State: hub.Unverified, Detail: "not checked yet"}
	case startsTurns(kind) && len(g.common.Allowed) == 0:
		return hub.Capability{State: hub.Unverified, Detail: "no agent may be woken yet: parley agent wake NAME --on"}
	case startsTurns(kind) && g.common.Paused:
		out.Detail = "paused by the operator" // each row of the ledger says so
	}
	out.Enabled = out.State == hub.Verified
	return out
}

// Recheck makes Run check the channels that failed: one of them may work now.
func (g *Machine) Recheck() {
	g.mu.Lock()
	g.checkAt = hub.Time{}
	g.mu.Unlock()
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// Visit makes the machine consider an agent at once.
func (g *Machine) Visit(agent hub.AgentID) { g.visitAt(agent, g.o.Clock.Now()) }

// visitAt makes the machine consider an agent at a time, or earlier if it is due.
func (g *Machine) visitAt(agent hub.AgentID, at hub.Time) {
	g.mu.Lock()
	if was, ok := g.due[agent]; !ok || at.Before(was.Time) {
		g.due[agent] = at
	}
	g.mu.Unlock()
	select {
	case g.kick <- struct{}{}:
	default:
	}
}
