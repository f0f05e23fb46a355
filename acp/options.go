package acp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
	"github.com/parley-agents/parley/sandbox"
)

// Options changes how a Client works. The zero value works: it offers version 1,
// gives the agent nothing of this machine and refuses what it asks for.
type Options struct {
	// V2 offers version 2 of the protocol, which is a draft. An agent that does
	// not speak it is spoken to in version 1.
	V2 bool

	Name, Version string // of this program, as the agent is told; default parley

	// Policy says what the agent gets without a question. It also decides what
	// is offered: to read files, to write them, to run commands. Ask is who is
	// asked under sandbox.PolicyAsk.
	Policy sandbox.Policy
	Ask    sandbox.Asker

	// Each of these replaces what the policy gives, for all sessions, and is
	// offered to the agent because it is there. Files and commands need no
	// further permission then.
	Files       Files
	Terminals   Terminals
	Permissions Permissions

	// Elicit asks the user on behalf of the agent. It must return when ctx ends.
	// Without it nothing can be asked. ElicitDone is told that something the user
	// was sent away for is complete.
	Elicit     func(ctx context.Context, r *acpv2.CreateElicitationRequest) (*acpv2.CreateElicitationResponse, error)
	ElicitDone func(id string)

	// TerminalAuth tells the agent that the user can be sent to a terminal to log
	// in, so that it offers such methods.
	TerminalAuth bool

	// Extension answers requests, and ExtensionNotice hears notifications, for
	// methods that begin with _. Other methods that are not known belong to the
	// protocol and never come here.
	Extension       func(ctx context.Context, method string, params json.RawMessage) (any, error)
	ExtensionNotice func(ctx context.Context, method string, params json.RawMessage)

	// OnUpdate is told the updates that belong to no turn: what a loaded session
	// repeats, and what comes between turns. OnProblem is told what went wrong
	// and the connection survives, also from several goroutines at once. Nothing
	// else is read meanwhile: both must return soon and not make calls.
	OnUpdate  func(u *Update)
	OnProblem func(err error)

	// Tap sees every frame; see jsonrpc.Options.
	Tap func(d jsonrpc.Direction, f jsonrpc.Frame)

	StartTimeout time.Duration // how long the agent may take to answer initialize; default 1 min
	CancelGrace  time.Duration // how long it may take to stop after a cancellation; default 30 s
	MaxFrame     int           // bytes of a message; default jsonrpc.DefaultMaxFrame

	Process  jsonrpc.ProcessOptions  // how the agent's process is ended
	Terminal sandbox.TerminalOptions // how commands run that the policy lets through
}

// fill sets defaults.
func (o *Options) fill() {
	if o.Name == "" {
		o.Name, o.Version = "parley", "0"
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = time.Minute
	}
	if o.CancelGrace <= 0 {
		o.CancelGrace = 30 * time.Second
	}
}

// offers reports whether the policy does not rule out a kind of action.
func (o *Options) offers(kind sandbox.Kind) bool {
	return o.Policy.Verdict(kind) == sandbox.Allow || o.Policy.Verdict(kind) == sandbox.Ask && o.Ask != nil
}

func (o *Options) offersRead() bool      { return o.Files != nil || o.offers(sandbox.KindRead) }
func (o *Options) offersWrite() bool     { return o.Files != nil || o.offers(sandbox.KindEdit) }
func (o *Options) offersTerminals() bool { return o.Terminals != nil || o.offers(sandbox.KindExecute) }

// SessionOptions changes how a session is made. The zero value works.
type SessionOptions struct {
	Directories []string // further folders, beside the one it works in; absolute
	MCPServers  []acpv2.MCPServer
	Meta        json.RawMessage // goes to the agent as _meta
}
