// Package api holds every operation of the hub once: its name, parameters,
// result and who may call it. The JSON-RPC handler, the typed client and the
// MCP tools are all made from that one table.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/strictjson"
)

// Services is what the operations work on.
type Services struct {
	Mail     *mailroom.Mailroom
	Handoffs *handoff.Service
	Runs     *run.Service
	Access   *access.Access
	Journal  *journal.Journal
	Records  Records

	// Coordinator does what is about contracts between repositories.
	Coordinator Coordinator

	// Log is told of failures that are not the caller's; may be nil.
	Log *slog.Logger

	// Observe is told of every call that was answered; may be nil.
	Observe func(method string, code hub.Code, took time.Duration)
}

// A Coordinator performs the methods of coordination.
type Coordinator interface {
	// Coordinate performs an action, which is the name of a method without its
	// protocol, for an agent of this hub.
	Coordinate(ctx context.Context, actor hub.Caller, action string, params json.RawMessage) (json.RawMessage, error)
}

// A Permission says who may call an operation. Services check authority over
// the thing touched in any case.
type Permission string

// The permissions.
const (
	Anyone       Permission = "anyone" // whoever has authenticated
	OperatorOnly Permission = "operator"
)

// An Operation is something that a caller can ask of the hub.
type Operation struct {
	Method     string // in JSON-RPC
	Tool       string // as an MCP tool; "" if it is none
	Doc        string // for people and models
	Permission Permission
	Input      json.RawMessage // JSON Schema of the parameters; nil if it is no tool

	// Changes says that the operation is not a mere look.
	Changes bool

	call   func(context.Context, *Services, hub.Caller, []byte) (any, error)
	result func(json.RawMessage) (any, error) // reads what call returned
}

// operation makes an Operation whose parameters are decoded strictly into P.
func operation[P, R any](method string, p Permission, changes bool, doc string, call func(context.Context, *Services, hub.Caller, P) (R, error)) Operation {
	return Operation{
		Method: method, Doc: doc, Permission: p, Changes: changes,
		call: func(ctx context.Context, s *Services, a hub.Caller, raw []byte) (any, error) {
			var params P
			if err := decode(method, raw, &params); err != nil {
				return nil, err
			}
			return call(ctx, s, a, params)
		},
		result: func(raw json.RawMessage) (any, error) {
			var out R
			err := json.Unmarshal(raw, &out)
			return out, err
		},
	}
}

// tool makes an operation available as an MCP tool.
func (o Operation) tool(name, schema string) Operation {
	o.Tool, o.Input = name, json.RawMessage(schema)
	return o
}

// decode reads parameters. Unknown members are refused, except where P keeps
// them; so are members that differ from each other in case only.
func decode(op string, raw []byte, into any) error {
	return decodeObject(op, raw, into, strictjson.Decode)
}

// DecodeLoose reads parameters of a protocol that others speak too: names may be
// written in camelCase or snake_case, and what is unknown is left alone.
func DecodeLoose(op string, raw []byte, into any) error {
	return decodeObject(op, raw, into, strictjson.DecodeTolerant)
}

func decodeObject(op string, raw []byte, into any, decode func([]byte, any) error) error {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		return hub.Errorf(hub.CodeInvalid, op, "params must be an object")
	}
	if err := decode(raw, into); err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	return nil
}

// Call performs an operation for an actor. Every surface comes through here:
// this is where a refusal is recorded and a panic ends.
func (s *Services) Call(ctx context.Context, actor hub.Caller, o Operation, params []byte) (result any, err error) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, hub.Errorf(hub.CodeInternal, o.Method, "panic: %v", p)
		}
		code := hub.CodeOf(err)
		switch {
		case err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()): // done, or the caller is gone
		case code == hub.CodeDegraded || code == hub.CodeInternal:
			if s.Log != nil {
				s.Log.Error("call failed", "actor", actor.ID, "op", o.Method, "code", code, "err", err)
			}
		default:
			s.Journal.Refused(ctx, actor.ID, o.Method, code)
		}
		if s.Observe != nil {
			s.Observe(o.Method, code, time.Since(began))
		}
		if err != nil {
			err = &Failure{Err: err, Capabilities: s.Mail.Capabilities()}
		}
	}()
	if o.Permission == OperatorOnly && !actor.IsOperator() {
		return nil, hub.Errorf(hub.CodeDenied, o.Method, "only the operator may do this, and you are %s", actor.ID).
			WithHint("the operator runs it on a terminal without PARLEY_KEY, or with --as-operator")
	}
	return o.call(ctx, s, actor, params)
}

// Lookup returns the operation of a JSON-RPC method.
func Lookup(method string) (Operation, bool) {
	o, ok := byMethod[method]
	return o, ok
}

// A MethodInfo describes a method to those who ask what there is.
type MethodInfo struct {
	Method     string     `json:"method"`
	Tool       string     `json:"tool,omitempty"`
	Doc        string     `json:"doc"`
	Permission Permission `json:"permission"`
}

// Methods lists every method.
func Methods() []MethodInfo {
	list := make([]MethodInfo, len(Operations))
	for i, o := range Operations {
		list[i] = MethodInfo{o.Method, o.Tool, o.Doc, o.Permission}
	}
	return list
}

var byMethod = func() map[string]Operation {
	m := make(map[string]Operation, len(Operations))
	for _, o := range Operations {
		m[o.Method] = o
	}
	return m
}()

// SessionHeader names the caller's session for callers that have no MCP
// session. It says what belongs together, not who is asking.
const SessionHeader = "Parley-Session"

// Session returns the session that a request belongs to, cut to a safe form.
func Session(h http.Header) string {
	s := h.Get(SessionHeader)
	if s == "" {
		s = h.Get("Mcp-Session-Id")
	}
	if len(s) > 128 {
		s = s[:128]
	}
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return -1
	}, s)
}
