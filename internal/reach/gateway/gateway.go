// Package gateway connects a hub to an OpenClaw gateway: over one WebSocket that a
// Client keeps open, or over the hooks of the gateway with a token that allows nothing
// but wakes.
//
// It gives the wake machine channels that bring notices into sessions of OpenClaw agents,
// wake them, and tell people in chat rooms, and it gives handoffs a queue whose items
// belong to agents (workq). A notice is the one of package channel: counts and ids,
// never the text of a message.
//
// An answer of the gateway means that it accepted a request. It is no proof that an
// agent did anything: that is seen by the messages that the agent fetches.
package gateway

import (
	"cmp"
	"crypto/ed25519"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Mode is the way in which a notice comes into a session.
type Mode string

// The modes.
const (
	ModeRun    Mode = "run"    // the agent takes a turn for it: chat.send
	ModeAppend Mode = "append" // it is added to the transcript, and no turn begins: chat.inject
)

// A KeyRule says when a claim in the queue names the session of the new owner. An item
// claimed with a session is released by the queue when a run of that session ends.
type KeyRule string

// The rules.
const (
	KeyCaller KeyRule = "caller" // when the new owner calls from that session
	KeyAlways KeyRule = "always"
	KeyNever  KeyRule = "never"
)

// An Agent is the place of an agent of the hub at the gateway.
type Agent struct {
	ID      string // the agent's id at the gateway
	Session string // key of its session; default agent:ID:main
}

// A Target is a chat room in which people are told.
type Target struct {
	Channel string // such as telegram
	To      string
	Account string // may be empty
}

// Options says how a hub uses a gateway. URL and one of the tokens are required.
type Options struct {
	URL        string // ws://127.0.0.1:18789; wss beyond loopback
	Token      string // shared token of the gateway; "" for a hub that uses hooks alone
	HooksToken string // of its hooks, which then wake agents; may be empty

	Session   Mode // "" for no session channel
	Wake      bool
	Notify    *Target
	Workq     bool
	WorkqKeys KeyRule // default KeyCaller

	Agents map[hub.AgentID]Agent

	Device  ed25519.PrivateKey // identity of the hub at the gateway; required with Token
	Version string
	Clock   hub.Clock
	Log     *slog.Logger // default silent

	// Retry is the pause after the first failed connection; it doubles up to 30 times
	// that. Default a second.
	Retry time.Duration
}

// complete checks o and fills in the defaults.
func (o Options) complete() (Options, error) {
	if err := checkURL(o.URL); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, err
	}
	agents, err := completeAgents(o.Agents)
	if err != nil {
		return o, err
	}

	o.Agents = agents
	o.WorkqKeys = cmp.Or(o.WorkqKeys, KeyCaller)
	o.Retry = cmp.Or(o.Retry, time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// opNew is the operation of errors about options.
const opNew = "gateway.New"

// checkURL refuses an address that is none of a gateway, and one beyond this machine over
// which the token would go in the clear.
func checkURL(text string) error {
	u, err := url.Parse(text)
	plain := err == nil && u.User == nil && u.RawQuery == ""
	isAddress := plain && u.Host != "" && (u.Scheme == "ws" || u.Scheme == "wss")
	if !isAddress {
		return hub.Errorf(hub.CodeInvalid, opNew, "gateway.url: %q is not a gateway address", text).WithHint("use an address such as ws://127.0.0.1:18789")
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
	if u.Scheme == "ws" && !local {
		return hub.Errorf(hub.CodePolicy, opNew, "gateway.url: %s is not on this machine and has no TLS: others could read the token", text).WithHint("use wss://")
	}
	return nil
}

// check refuses options that contradict each other.
func (o Options) check() error {
	switch {
	case o.Token == "" && o.HooksToken == "":
		return hub.Errorf(hub.CodeInvalid, opNew, "gateway: a token is required").WithHint("name its file in token_file, or in hooks_token_file for wakes only")
	case o.Token == "" && (o.Session != "" || o.Notify != nil || o.Workq):
		return hub.Errorf(hub.CodeInvalid, opNew, "gateway: with hooks_token_file alone the hub can only wake agents").WithHint("session_mode, notify and workq need token_file")
	case !slices.Contains([]Mode{"", ModeRun, ModeAppend}, o.Session):
		return hub.Errorf(hub.CodeInvalid, opNew, "gateway.session_mode: unknown mode %q: use run or append", o.Session)
	case !slices.Contains([]KeyRule{"", KeyCaller, KeyAlways, KeyNever}, o.WorkqKeys):
		return hub.Errorf(hub.CodeInvalid, opNew, "gateway.workq_session: unknown value %q: use caller, always or never", o.WorkqKeys)
	case o.Notify != nil && (o.Notify.Channel == "" || o.Notify.To == ""):
		return hub.Errorf(hub.CodeInvalid, opNew, "gateway.notify: channel and to are required")
	}
	return nil
}

// completeAgents returns agents with the sessions that they have by default.
func completeAgents(given map[hub.AgentID]Agent) (map[hub.AgentID]Agent, error) {
	agents := make(map[hub.AgentID]Agent, len(given))
	for name, a := range given {
		if !name.Valid() || a.ID == "" {
			return nil, hub.Errorf(hub.CodeInvalid, opNew, "gateway.agents: %q: an agent of the hub and its id at the gateway are required", name).
				WithHint("such as builder: {agent: main}")
		}
		a.Session = cmp.Or(a.Session, "agent:"+a.ID+":main")
		agents[name] = a
	}
	return agents, nil
}

// The scopes of a connection. Admin includes the others.
const (
	scopeRead  = "operator.read"
	scopeWrite = "operator.write"
	scopeAdmin = "operator.admin"
)

// scopes returns the scopes that the options need, and no more.
func (o Options) scopes() []string {
	out := []string{scopeRead}
	if o.Session != "" || o.Wake || o.Notify != nil {
		out = append(out, scopeWrite)
	}
	if o.Session == ModeAppend || o.Workq { // methods of plugins need it
		out = append(out, scopeAdmin)
	}
	return out
}
