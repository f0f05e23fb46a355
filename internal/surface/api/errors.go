package api

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/jsonrpc"
)

// callerFixes lists the codes for what the caller can put right by asking
// otherwise. All others are about authority, limits or the hub itself.
var callerFixes = map[hub.Code]bool{
	hub.CodeInvalid: true, hub.CodePayloadTooLarge: true, hub.CodeTooLarge: true, hub.CodeUnknownType: true,
	hub.CodeReservedType: true, hub.CodeUnknownRecipient: true, hub.CodeNotFound: true, hub.CodeConflict: true,
	hub.CodeSequence: true, hub.CodeNotEnabled: true,
}

// A Reason is the data of a JSON-RPC error: what the hub's own error says.
type Reason struct {
	Reason      hub.Code `json:"reason"`
	Hint        string   `json:"hint,omitempty"`
	RetryAfterS float64  `json:"retry_after_s,omitempty"`

	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
}

// A Failure is an error of an operation with the capabilities of the hub, which
// every answer carries, also one that is a refusal.
type Failure struct {
	Err          error
	Capabilities hub.Capabilities
}

// Error returns the text of what went wrong.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns what went wrong.
func (f *Failure) Unwrap() error { return f.Err }

// WireError turns a failure into a JSON-RPC error.
func WireError(err error) *jsonrpc.Error {
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) {
		return rpc
	}
	e := Describe(err)
	code := jsonrpc.CodeServer
	if callerFixes[e.Code] {
		code = jsonrpc.CodeInvalidParams
	}
	data, _ := json.Marshal(Reason{Reason: e.Code, Hint: e.Hint, RetryAfterS: e.RetryAfterS, Capabilities: e.Capabilities}) // plain values: cannot fail
	return &jsonrpc.Error{Code: code, Message: e.Message, Data: data}
}

// hubError turns a JSON-RPC error back into what the hub said.
func hubError(method string, e *jsonrpc.Error) error {
	var r Reason
	if json.Unmarshal(e.Data, &r) != nil || r.Reason == "" {
		r.Reason = hub.CodeInternal
		if e.Code == jsonrpc.CodeParse || e.Code == jsonrpc.CodeInvalidRequest || e.Code == jsonrpc.CodeInvalidParams || e.Code == jsonrpc.CodeMethodNotFound {
			r.Reason = hub.CodeInvalid
		}
	}
	return &Failure{Capabilities: r.Capabilities, Err: &hub.Error{
		Code: r.Reason, Op: method, Err: errors.New(e.Message), Hint: r.Hint,
		RetryAfter: time.Duration(r.RetryAfterS * float64(time.Second)),
	}}
}

// A Description is a failure as scripts and models see it.
type Description struct {
	Code        hub.Code `json:"code"`
	Message     string   `json:"message"`
	Hint        string   `json:"hint,omitempty"`
	RetryAfterS float64  `json:"retry_after_s,omitempty"`

	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
}

// Describe returns what may be told of a failure: all of it, unless it is
// internal.
func Describe(err error) Description {
	var d Description
	var f *Failure
	if errors.As(err, &f) {
		d.Capabilities = f.Capabilities
	}
	var e *hub.Error
	if !errors.As(err, &e) || e.Code == hub.CodeInternal {
		d.Code, d.Message, d.Hint = hub.CodeInternal, "internal error", "this is a bug in the hub; its log says more"
		return d
	}
	d.Code, d.Message, d.Hint, d.RetryAfterS = e.Code, e.Error(), e.Hint, e.RetryAfter.Seconds()
	return d
}
