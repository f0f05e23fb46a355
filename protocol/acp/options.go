package acp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Options changes how a Client works. The zero value works: it offers version 1,
// offers the agent neither files nor terminals, and grants no permission.
type Options struct {
	// V2 offers version 2 of the protocol, which is a draft. With an agent that
	// does not know it the client uses version 1.
	V2 bool

	Name, Version string // of this program, sent to the agent; default parley

	// Policy decides which actions are allowed without a question, and so which
	// capabilities are offered: to read files, to write them, to run commands. Ask
	// asks a person, as sandbox.NewPermissions says.
	Policy sandbox.Policy
	Ask    sandbox.Asker

	// Each of these replaces the sandbox or the policy in all sessions. Files and
	// Terminals that are set are offered to the agent, and their use is not checked
	// against the policy.
	Files       Files
	Terminals   Terminals
	Permissions Permissions

	// Guard is asked about each write, command and request for permission that the policy
	// allows; nil for none. Files and Terminals that are set above are not guarded.
	Guard Guard

	// Elicit puts a question of the agent to the user. It must return when ctx ends.
	// Without it elicitations are refused. ElicitDone is called when the user has
	// finished a URL elicitation.
	Elicit     func(ctx context.Context, r *acpv2.CreateElicitationRequest) (*acpv2.CreateElicitationResponse, error)
	ElicitDone func(id string)

	// TerminalAuth tells the agent that the user can log in on a terminal.
	TerminalAuth bool

	// Extension answers requests, and ExtensionNotice handles notifications, whose
	// method begins with _. Other unknown methods belong to the protocol and are
	// refused.
	Extension       func(ctx context.Context, method string, params json.RawMessage) (any, error)
	ExtensionNotice func(ctx context.Context, method string, params json.RawMessage)

	// OnUpdate gets the updates outside turns: those that a loaded session repeats,
	// and those between turns. OnProblem gets errors that the connection survives,
	// from several goroutines at once. Nothing is read while they run: both must
	// return soon, and must not wait for a call on the Client.
	OnUpdate  func(u *Update)
	OnProblem func(err error)

	// Tap sees every frame; see jsonrpc.Options.
	Tap func(d jsonrpc.Direction, f jsonrpc.Frame)

	StartTimeout time.Duration // how long the agent may take to answer initialize; default 1 min
	CancelGrace  time.Duration // how long it may take to stop after a cancellation; default 30 s
	MaxFrame     int           // bytes of a message; default jsonrpc.DefaultMaxFrame

	Process  jsonrpc.ProcessOptions  // the start and the end of the agent's process
	Terminal sandbox.TerminalOptions // the commands that the agent runs in the sandbox
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

// offers reports whether the policy allows a kind of action, at least after a
// question.
// A policy that asks offers nothing without a person to ask.
func (o *Options) offers(kind sandbox.Kind) bool {
	return o.Policy.Verdict(kind) == sandbox.Allow || (o.Policy.Verdict(kind) == sandbox.Ask && o.Ask != nil)
}

// Files and terminals that replace those of the sandbox are always offered.
func (o *Options) offersRead() bool      { return o.Files != nil || o.offers(sandbox.KindRead) }
func (o *Options) offersWrite() bool     { return o.Files != nil || o.offers(sandbox.KindEdit) }
func (o *Options) offersTerminals() bool { return o.Terminals != nil || o.offers(sandbox.KindExecute) }

// SessionOptions changes how a session is opened. The zero value works.
type SessionOptions struct {
	Directories []string // folders beside the working folder; absolute
	MCPServers  []acpv2.MCPServer
	Meta        json.RawMessage // the _meta of the request
}
