// Package rpc is the kernel under the hub's tables of operations.
//
// An Operation is one entry of a table: method, help, callers, tool, decoding and
// limits, with typed parameters and a typed result. Tables bind their operations
// to services and meet in a Dispatcher, which checks the caller's kind, decodes,
// performs, and records refusals, failures and durations in one place. The Door
// serves the merged tables over HTTP and identifies each caller once. The Client
// calls an operation by its entry: Call(ctx, client, api.Send, params).
//
// The package knows no operation and decides nothing about the things that
// operations touch: services do.
package rpc

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// Kinds of callers that operations are often open to.
var (
	// OperatorOnly is for the person who runs the hub.
	OperatorOnly = []hub.CallerKind{hub.CallerOperator}
	// Local is for the operator and for agents of this hub.
	Local = []hub.CallerKind{hub.CallerOperator, hub.CallerAgent, hub.CallerRun}
	// Readers is for those who may read what happens on this hub.
	Readers = append([]hub.CallerKind{hub.CallerViewer}, Local...)
	// Identified is for every caller that the hub knows, other hubs included.
	Identified = []hub.CallerKind{
		hub.CallerOperator, hub.CallerAgent, hub.CallerRun, hub.CallerPeer, hub.CallerLegacyPeer, hub.CallerToken, hub.CallerAnyone,
	}
	// Everybody is for callers without a key, too.
	Everybody = append([]hub.CallerKind{hub.CallerGuest}, Identified...)
)

// A Dialect says how the parameters and errors of an operation are written.
type Dialect string

// The dialects.
const (
	// Strict is the hub's own: names are spelt exactly, unknown members are
	// refused, and an error carries the hub's capabilities.
	Strict Dialect = "strict"
	// Tolerant is that of the coordination protocol, which others speak too: names
	// in camelCase or snake_case, unknown members left alone, five error codes
	// whose texts begin with the code's name.
	Tolerant Dialect = "tolerant"
)

// A Spec is the part of an operation that needs no types.
type Spec struct {
	Method  string // in JSON-RPC
	Doc     string // for people and models
	Callers []hub.CallerKind
	Changes bool // false for an operation that only reads
	Dialect Dialect

	// Permission is needed by callers from other hubs and holders of project
	// tokens. An operation without one is for agents of this hub.
	Permission coord.Permission

	Tool  string          // as an MCP tool; "" if it is none
	Title string          // of the tool, for people and for models that search
	Input json.RawMessage // JSON Schema of the parameters; nil if it is no tool

	// Features are the features of the protocol of which the operation needs one, nil for
	// an operation of the base protocol. A hub that has all of them off does not list it.
	Features []hub.Feature

	Unlisted bool // known, but not built: it is not listed among those that can be called

	MaxBody int64 // bytes of a request; 0 for DefaultBody
	Patient bool  // takes so long that a client waits until its context ends

	// Deadline is the time after which a call ends; see Soon.
	Deadline time.Duration

	Group string // requests of one group that follow each other in a batch are performed together; "" for none
}

// An Operation is one entry of a table: it works on services S, takes parameters
// P and returns a result R. Exactly one of Do and Form is set.
//
// The program has the methods of an Operation once for each operation, because each has its own types. That is why an
// Operation has one method: everything else is a function, or a Form that only the operations that need it have.
type Operation[S, P, R any] struct {
	Spec

	// Do performs the operation.
	Do func(ctx context.Context, services S, caller hub.Caller, params P) (R, error)

	// Form performs an operation in another way: Stream or Together returns it.
	Form Form[S]
}

// A Form is another way to perform an operation than to return its result.
type Form[S any] interface {
	// bind sets the function of m that performs the operation on services.
	bind(m *Method, services S)
}

// Stream returns the form of an operation whose result may be too large to hold: it
// writes the JSON of the result while it reads the store.
func Stream[S, P any](write func(ctx context.Context, services S, caller hub.Caller, params P, w io.Writer) error) Form[S] {
	return stream[S, P](write)
}

// A stream is the form of an operation that writes its result.
type stream[S, P any] func(ctx context.Context, services S, caller hub.Caller, params P, w io.Writer) error

func (write stream[S, P]) bind(m *Method, services S) {
	admitter, _ := any(services).(Admitter)
	m.stream = func(ctx context.Context, caller hub.Caller, raw []byte, w io.Writer) error {
		var p P
		err := Decode(m.Method, m.Dialect, raw, &p)
		if err == nil && admitter != nil {
			err = m.admit(ctx, admitter, caller, p)
		}
		if err != nil {
			return err
		}
		return write(ctx, services, caller, p, w)
	}
}

// Together returns the form of an operation that performs several requests of one
// group, in order, and returns an answer for each.
func Together[S, P, R any](perform func(ctx context.Context, services S, caller hub.Caller, requests []Request[P]) []Answer[R]) Form[S] {
	return together[S, P, R](perform)
}

// A together is the form of an operation that performs requests of a group at once.
type together[S, P, R any] func(ctx context.Context, services S, caller hub.Caller, requests []Request[P]) []Answer[R]

func (perform together[S, P, R]) bind(m *Method, services S) {
	m.together = func(ctx context.Context, caller hub.Caller, calls []call) {
		requests := make([]Request[P], 0, len(calls))
		at := make([]int, 0, len(calls)) // the call of each request
		for i, c := range calls {
			var p P
			if err := Decode(m.Method, m.Dialect, c.params, &p); err != nil {
				calls[i].err = err
				continue
			}
			requests = append(requests, Request[P]{c.spec, p})
			at = append(at, i)
		}

		for k, a := range perform(ctx, services, caller, requests) {
			calls[at[k]].result, calls[at[k]].err = a.Result, a.Err
		}
	}
}

// A Request is one request of a group.
type Request[P any] struct {
	Spec   Spec
	Params P
}

// An Admitter is a set of services that checks permissions. A method that is bound
// to it has every caller admitted after the parameters were decoded. An operation
// that performs requests together calls Admit itself: what a request touches may
// become known while it is read.
type Admitter interface {
	Admit(ctx context.Context, caller hub.Caller, o Spec, params any) error
}

// An Answer is the result of a request, or the error that it ended with.
type Answer[R any] struct {
	Result R
	Err    error
}

// AsTool returns an operation that is also available as an MCP tool.
func AsTool[S, P, R any](o Operation[S, P, R], name, title, schema string) Operation[S, P, R] {
	o.Tool = name
	o.Title = title
	o.Input = json.RawMessage(schema)
	return o
}

// Needs returns an operation that is of no use on a hub without one of the features.
func Needs[S, P, R any](o Operation[S, P, R], features ...hub.Feature) Operation[S, P, R] {
	o.Features = features
	return o
}

// Offered reports whether a hub that has features off lists the operation of a spec.
func Offered(s Spec, off []hub.Feature) bool {
	missing := func(f hub.Feature) bool { return slices.Contains(off, f) }
	return !s.Unlisted && (s.Features == nil || slices.ContainsFunc(s.Features, func(f hub.Feature) bool { return !missing(f) }))
}

// Bind returns the operation as a method that works on services.
func (o Operation[S, P, R]) Bind(services S) *Method {
	m := newMethod(o.Spec)

	// A result that came as JSON is read into the type that the operation returns.
	m.read = func(raw json.RawMessage) (any, error) {
		var out R
		err := json.Unmarshal(raw, &out)
		return out, err
	}
	if o.Form != nil {
		o.Form.bind(m, services)
		return m
	}

	do := o.Do
	admitter, _ := any(services).(Admitter)
	m.do = func(ctx context.Context, caller hub.Caller, raw []byte) (any, error) {
		var p P
		err := Decode(m.Method, m.Dialect, raw, &p)
		if err == nil && admitter != nil {
			err = m.admit(ctx, admitter, caller, p)
		}
		if err != nil {
			return nil, err
		}
		return do(ctx, services, caller, p)
	}
	return m
}

// newMethod returns a method of a spec.
func newMethod(s Spec) *Method {
	m := &Method{Spec: s}
	if m.MaxBody == 0 {
		m.MaxBody = DefaultBody
	}
	return m
}

// admit asks an admitter about a caller of the method.
func (m *Method) admit(ctx context.Context, admitter Admitter, caller hub.Caller, params any) error {
	return admitter.Admit(ctx, caller, m.Spec, params)
}

// A Method is an operation whose types are hidden.
type Method struct {
	Spec
	do       func(ctx context.Context, caller hub.Caller, params []byte) (any, error)
	stream   func(ctx context.Context, caller hub.Caller, params []byte, w io.Writer) error
	together func(ctx context.Context, caller hub.Caller, calls []call)
	read     func(json.RawMessage) (any, error) // returns a result as its own type
}

// A call is one request of a group, and its answer.
type call struct {
	spec   Spec
	params []byte
	result any
	err    error
}

// A Table is a list of operations on the same services.
type Table[S any] []interface{ Bind(services S) *Method }

// Bind returns every operation as a method that works on services. Methods that
// are bound to nothing can be called through a Client only.
func (t Table[S]) Bind(services S) []*Method {
	list := make([]*Method, len(t))
	for i, o := range t {
		list[i] = o.Bind(services)
	}
	return list
}

// Titles returns the titles of the methods that are tools, by the names of the tools.
func Titles(lists ...[]*Method) map[string]string {
	out := map[string]string{}
	for _, m := range slices.Concat(lists...) {
		if m.Tool != "" {
			out[m.Tool] = m.Title
		}
	}
	return out
}
