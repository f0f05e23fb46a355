package rpc

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// badParams lists the codes that a caller can avoid with other parameters. All
// other codes are about authority, limits or the hub itself.
var badParams = map[hub.Code]bool{
	hub.CodeInvalid: true, hub.CodePayloadTooLarge: true, hub.CodeTooLarge: true, hub.CodeUnknownType: true,
	hub.CodeReservedType: true, hub.CodeUnknownRecipient: true, hub.CodeNotFound: true, hub.CodeConflict: true,
	hub.CodeSequence: true, hub.CodeOutsideRoots: true, hub.CodeNotEnabled: true,
}

// A Reason is the data of a JSON-RPC error: the hub's code, and how to go on.
type Reason struct {
	Reason      hub.Code `json:"reason"`
	Hint        string   `json:"hint,omitempty"`
	Template    string   `json:"hint_template,omitempty"` // the hint with its references, for a client that is a surface of its own
	RetryAfterS float64  `json:"retry_after_s,omitempty"`

	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
}

// A Failure is the error of an operation with the capabilities of the hub, which
// every answer of the strict dialect carries.
type Failure struct {
	Err          error
	Capabilities hub.Capabilities
}

// Error returns the text of the error inside.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error inside.
func (f *Failure) Unwrap() error { return f.Err }

// A Description is an error as scripts and models read it.
type Description struct {
	Code        hub.Code `json:"code"`
	Message     string   `json:"message"`
	Hint        string   `json:"hint,omitempty"`
	RetryAfterS float64  `json:"retry_after_s,omitempty"`

	Capabilities hub.Capabilities `json:"capabilities,omitempty"`
}

// Describe returns the part of an error that a caller may read on a surface: all of
// it, unless it is internal.
func Describe(err error, s Surface) Description {
	var d Description
	var f *Failure
	if errors.As(err, &f) {
		d.Capabilities = f.Capabilities
	}
	var e *hub.Error
	if !errors.As(err, &e) || e.Code == hub.CodeInternal {
		d.Code = hub.CodeInternal
		d.Message = "internal error"
		d.Hint = "this is a bug in the hub; see its log"
		return d
	}
	d.Code = e.Code
	d.Message = e.Error()
	d.Hint = RenderHint(e.Hint, s)
	d.RetryAfterS = e.RetryAfter.Seconds()
	return d
}

const (
	paramsPrefix = "Invalid params: "
	serverPrefix = "Server error: "
)

// wireError returns an error as JSON-RPC writes it in a dialect.
func wireError(d Dialect, err error) *jsonrpc.Error {
	e := Describe(err, Methods)
	data := Reason{Reason: e.Code, Hint: e.Hint, RetryAfterS: e.RetryAfterS, Capabilities: e.Capabilities}
	var cause *hub.Error
	if errors.As(err, &cause) && e.Code != hub.CodeInternal && cause.Hint != e.Hint {
		data.Template = cause.Hint
	}
	out := &jsonrpc.Error{Code: jsonrpc.CodeServer, Message: e.Message, Data: reason(data)}
	prefix := serverPrefix
	if badParams[e.Code] {
		out.Code, prefix = jsonrpc.CodeInvalidParams, paramsPrefix
	}
	if d == Tolerant {
		out.Message = prefix + out.Message
	}
	return out
}

func reason(r Reason) json.RawMessage {
	data, _ := json.Marshal(r) // plain values: cannot fail
	return data
}

// unknownMethod is the answer to a method that is in no table.
func unknownMethod(method string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("Method not found: %.200s", method),
		Data: reason(Reason{Reason: hub.CodeNotFound, Hint: "GET /methods lists the methods"}),
	}
}

// frameError adds the hub's code to an error of the JSON-RPC frame itself.
func frameError(err error) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "not valid JSON"}
	errors.As(err, &e)
	return &jsonrpc.Error{
		Code: e.Code, Message: e.Message,
		Data: reason(Reason{Reason: hub.CodeInvalid, Hint: "send one JSON-RPC 2.0 request in UTF-8 without duplicate member names"}),
	}
}

// hubError turns a JSON-RPC error back into the hub's error.
func hubError(method string, e *jsonrpc.Error) error {
	var r Reason
	if json.Unmarshal(e.Data, &r) != nil || r.Reason == "" {
		r.Reason = hub.CodeInternal
		switch e.Code {
		case jsonrpc.CodeParse, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound:
			r.Reason = hub.CodeInvalid
		}
	}
	text := strings.TrimPrefix(strings.TrimPrefix(e.Message, paramsPrefix), serverPrefix)
	return &Failure{Capabilities: r.Capabilities, Err: &hub.Error{
		Code: r.Reason, Op: method, Err: errors.New(text), Hint: cmp.Or(r.Template, r.Hint),
		RetryAfter: time.Duration(r.RetryAfterS * float64(time.Second)),
	}}
}
