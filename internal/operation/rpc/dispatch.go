package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/spans"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// A Recorder says where the outcome of every call goes. It is the only place
// from which a refusal reaches the journal.
type Recorder struct {
	// Refused journals a refusal. A refusal is an error that is not the hub's own
	// failure.
	Refused func(ctx context.Context, caller hub.AgentID, op string, code hub.Code)

	// Used journals the use of a project token; may be nil.
	Used func(ctx context.Context, caller hub.AgentID, op, token string)

	// Log gets the failures of the hub itself; may be nil.
	Log *slog.Logger

	// Observe gets every performed call with its code, "" for success; may be nil.
	Observe func(method string, code hub.Code, took time.Duration)

	// Called gets the agent of every call but those of the waiters beside it; may be nil.
	Called func(agent hub.AgentID)

	// Capabilities returns the capabilities that errors of the strict dialect
	// carry; may be nil.
	Capabilities func() hub.Capabilities
}

// record writes down how a call ended: nothing but its duration if it succeeded
// or its caller went away, a line of the log for a failure of the hub, a journal
// entry for a refusal and for the use of a project token.
func (r *Recorder) record(ctx context.Context, caller hub.Caller, op string, err error) {
	code := hub.CodeOf(err)
	switch {
	case err == nil && caller.Token != "" && r.Used != nil:
		r.Used(ctx, caller.ID, op, caller.Token)
	case err == nil || (ctx.Err() != nil && errors.Is(err, ctx.Err())):
	case hub.Unavailable(err) || code == hub.CodeInternal:
		if r.Log != nil {
			r.Log.Error("call failed", "actor", caller.ID, "op", op, "code", code, "err", err)
		}
	case caller.Kind == hub.CallerAnyone:
		// Nothing proves the name of such a caller: refusals are counted together, so
		// that made-up names do not fill the journal.
		r.Refused(ctx, hub.OutsideCaller(caller.Kind, "", "").ID, op, code)
	default:
		r.Refused(ctx, caller.ID, op, code)
	}
}

// A Dispatcher performs the methods of its tables.
type Dispatcher struct {
	recorder Recorder
	methods  []*Method // in the order of the tables
	byName   map[string]*Method
	maxBody  int64 // of the method that may have the largest
}

// NewDispatcher returns a dispatcher over the methods of all tables. It panics
// if two of them have the same name.
func NewDispatcher(r Recorder, tables ...[]*Method) *Dispatcher {
	d := &Dispatcher{recorder: r, methods: slices.Concat(tables...), byName: map[string]*Method{}}
	for _, m := range d.methods {
		if d.byName[m.Method] != nil {
			panic("rpc: two operations are called " + m.Method)
		}
		d.byName[m.Method] = m
		d.maxBody = max(d.maxBody, m.MaxBody)
	}
	return d
}

// Methods returns every method, in the order of the tables.
func (d *Dispatcher) Methods() []*Method { return d.methods }

// Call performs a method that is a tool and returns its result as its own type.
func (d *Dispatcher) Call(ctx context.Context, caller hub.Caller, m *Method, params []byte) (result any, err error) {
	err = d.perform(ctx, caller, m, func(ctx context.Context) (err error) {
		result, err = m.do(ctx, caller, params)
		return err
	})
	return result, err
}

// Perform performs an operation of d's tables in this process: it is checked and
// recorded as one that came over HTTP.
func Perform[S, P, R any](ctx context.Context, d *Dispatcher, caller hub.Caller, o Operation[S, P, R], params P) (R, error) {
	var out R
	raw, err := jsonv2.Marshal(params)
	if err != nil {
		return out, hub.Errorf(hub.CodeInvalid, o.Method, "%v", err)
	}
	m := d.byName[o.Method]
	if m.stream != nil {
		if raw, err = d.marshal(ctx, caller, m, raw); err == nil {
			err = json.Unmarshal(raw, &out)
		}
		return out, err
	}
	result, err := d.Call(ctx, caller, m, raw)
	if err == nil {
		out = result.(R)
	}
	return out, err
}

// marshal performs a method and returns its result as JSON.
func (d *Dispatcher) marshal(ctx context.Context, caller hub.Caller, m *Method, params []byte) (raw json.RawMessage, err error) {
	err = d.perform(ctx, caller, m, func(ctx context.Context) (err error) {
		raw, err = m.JSON(ctx, caller, params, maxAnswer)
		return err
	})
	return raw, err
}

// JSON performs a method of an operation that is done or streamed, and returns
// its result as JSON of at most so many bytes. It checks and records nothing.
func (m *Method) JSON(ctx context.Context, caller hub.Caller, params []byte, most int) (json.RawMessage, error) {
	if m.stream != nil {
		b := bounded{most: most}
		err := m.stream(ctx, caller, params, &b)
		return b.buf.Bytes(), err
	}
	result, err := m.do(ctx, caller, params)
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(result)
}

// allowed reports CodeDenied unless the caller is of one of the kinds.
func allowed(kinds []hub.CallerKind, op string, caller hub.Caller) error {
	switch {
	case slices.Contains(kinds, caller.Kind):
		return nil
	case len(kinds) == 1 && kinds[0] == hub.CallerOperator:
		return hub.Errorf(hub.CodeDenied, op, "only the operator can do this; you are %s", caller.ID).
			WithHint("run it as the operator: on a terminal without PARLEY_KEY, or with --as-operator")
	}
	return hub.Errorf(hub.CodeDenied, op, "only this hub's agents can call %s", op)
}

// perform runs do as a call of m: it checks the caller's kind, ends a panic,
// records the outcome, and returns the error as m's dialect carries it.
func (d *Dispatcher) perform(ctx context.Context, caller hub.Caller, m *Method, do func(context.Context) error) (err error) {
	d.called(caller, m)
	began := time.Now()
	ctx, span := startSpan(ctx, caller, m)
	err = allowed(m.Callers, m.Method, caller)
	if err == nil {
		err = hub.Contain(m.Method, func() error { return m.timed(ctx, do) })
	}
	span.End(err)
	return d.finish(ctx, caller, m, began, err)
}

// called tells of a call of an agent. A waiter calls as long as its window is open, whether the agent
// works or not.
func (d *Dispatcher) called(caller hub.Caller, m *Method) {
	isAgent := caller.Kind == hub.CallerAgent || caller.Kind == hub.CallerRun
	isWaiter := strings.HasPrefix(m.Method, "wake/")
	if isAgent && !isWaiter && d.recorder.Called != nil {
		d.recorder.Called(caller.ID)
	}
}

// startSpan begins the span of a call of m.
func startSpan(ctx context.Context, caller hub.Caller, m *Method) (context.Context, spans.Span) {
	ctx, span := spans.Call(ctx, m.Method)
	span.Set("rpc.system", "jsonrpc")
	span.Set("parley.caller", string(caller.Kind))
	return ctx, span
}

// finish records the outcome of a call, and returns its error as the method's
// dialect carries it.
func (d *Dispatcher) finish(ctx context.Context, caller hub.Caller, m *Method, began time.Time, err error) error {
	d.recorder.record(ctx, caller, m.Method, err)
	if d.recorder.Observe != nil {
		d.recorder.Observe(m.Method, hub.CodeOf(err), time.Since(began))
	}
	if err != nil && m.Dialect == Strict && d.recorder.Capabilities != nil {
		err = &Failure{Err: err, Capabilities: d.recorder.Capabilities()}
	}
	return err
}

// performGroup performs requests of one group together.
func (d *Dispatcher) performGroup(ctx context.Context, caller hub.Caller, m *Method, calls []call) {
	d.called(caller, m)
	began := time.Now()
	ctx, span := startSpan(ctx, caller, m)
	span.Count("parley.requests", len(calls))
	err := allowed(m.Callers, m.Method, caller)
	if err == nil {
		err = hub.Contain(m.Method, func() error {
			return m.timed(ctx, func(ctx context.Context) error {
				m.together(ctx, caller, calls)
				return nil
			})
		})
	}
	span.End(err)
	for i := range calls {
		if err != nil {
			calls[i].err = err
		}
		calls[i].err = d.finish(ctx, caller, d.byName[calls[i].spec.Method], began, calls[i].err)
	}
}

// bounded holds written bytes, up to a number.
type bounded struct {
	buf  bytes.Buffer
	most int
}

var _ io.Writer = (*bounded)(nil)

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.most {
		return 0, hub.Errorf(hub.CodeTooLarge, "rpc", "the answer is larger than %d bytes", b.most).
			WithHint("request it outside a batch, or page by page")
	}
	return b.buf.Write(p)
}
