package rpc

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

const (
	// DefaultBody is how many bytes a request may have unless its operation
	// says otherwise.
	DefaultBody = 1 << 20

	guestBody = 16 << 10 // bytes of a request without a key
	maxAnswer = 8 << 20  // bytes of answers after which the rest of a batch is refused
)

// SessionHeader names the caller's session for callers that have no MCP session.
// It groups calls and proves nothing about the caller.
const SessionHeader = "Parley-Session"

// A Door serves a dispatcher's methods as JSON-RPC over HTTP, and pages beside
// them. It identifies the caller of each request once.
type Door struct {
	*Dispatcher
	callers *callers.Service
	open    bool
}

// NewDoor returns a door. open says that callers need no key.
func NewDoor(d *Dispatcher, c *callers.Service, open bool) *Door {
	return &Door{Dispatcher: d, callers: c, open: open}
}

// Identify returns the caller of a request. With an error, which it does not
// record, it returns a guest.
func (d *Door) Identify(r *http.Request) (hub.Caller, error) {
	return d.callers.Identify(r.Context(), credentials(r))
}

func credentials(r *http.Request) callers.Credentials {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = ""
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	process, _ := r.Context().Value(processKey{}).(int)
	source, _ := netip.ParseAddrPort(r.RemoteAddr) // a request without an address comes from none
	return callers.Credentials{
		Bearer: strings.TrimSpace(secret), AgentID: coord.AID(r.Header.Get("X-Agent-ID")), Token: r.Header.Get("X-Project-Token"),
		Source: source.Addr(), Socket: local != nil && local.Network() == "unix", Process: process, Session: session(r.Header),
	}
}

// processKey is the key of the process at the other end of a connection in its context.
type processKey struct{}

// WithProcess returns the context of a connection to a process of this machine.
func WithProcess(ctx context.Context, process int) context.Context {
	return context.WithValue(ctx, processKey{}, process)
}

// session returns the session of a request, reduced to 128 visible characters.
func session(h http.Header) string {
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

// A Page answers a request of a caller that was identified. The door records the
// error that it returns and answers with it, unless the page has answered.
type Page func(w http.ResponseWriter, r *http.Request, caller hub.Caller) error

// Page returns a handler that identifies the caller and serves a page to callers
// of some kinds. op is its name in the journal.
func (d *Door) Page(op string, kinds []hub.CallerKind, page Page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := d.Identify(r)
		switch {
		case err != nil && (hub.CodeOf(err) != hub.CodeUnauthenticated || !slices.Contains(kinds, hub.CallerGuest)):
			d.fail(w, r, caller, "authenticate", err)
			return
		default:
			err = allowed(kinds, op, caller)
		}
		if err == nil {
			err = page(w, r, caller)
		}
		if err != nil {
			d.fail(w, r, caller, op, err)
		}
	})
}

// fail records an error and answers with it.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, caller hub.Caller, op string, err error) {
	d.recorder.record(r.Context(), caller, op, err)
	WriteError(w, err)
}

// statuses gives the HTTP status of each code; 400 for all others.
var statuses = map[hub.Code]int{
	hub.CodeUnauthenticated: http.StatusUnauthorized, hub.CodeTampering: http.StatusForbidden, hub.CodeDenied: http.StatusForbidden,
	hub.CodeNotFound: http.StatusNotFound, hub.CodeTooLarge: http.StatusRequestEntityTooLarge, hub.CodeRateLimited: http.StatusTooManyRequests,
	hub.CodeUnreachable: http.StatusBadGateway, hub.CodeDegraded: http.StatusServiceUnavailable, hub.CodeOverloaded: http.StatusServiceUnavailable, hub.CodeInternal: http.StatusServiceUnavailable,
}

// WriteError answers with an error that belongs to no JSON-RPC request, and with
// the HTTP status of its code.
func WriteError(w http.ResponseWriter, err error) { answerError(w, nil, err) }

// answerError answers a request that was not performed, whose id is nil if it has
// none, with the HTTP status of the error's code.
func answerError(w http.ResponseWriter, id json.RawMessage, err error) {
	status, ok := statuses[hub.CodeOf(err)]
	if !ok {
		status = http.StatusBadRequest
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley"`)
	}
	writeError(w, status, id, err)
}

func writeError(w http.ResponseWriter, status int, id json.RawMessage, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(jsonrpc.Response{ID: id, Error: wireError(Strict, err)}.AppendTo(nil))
}

// WriteJSON answers with a value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	raw, err := strictjson.Encode(v)
	if err != nil {
		WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(raw) // a caller that went away needs no answer
}

// buffers holds the buffers that requests are read into.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// ServeHTTP answers one JSON-RPC request or batch. A caller that was identified
// gets status 200 for a result and for an error, or 204 if there is no answer. A request
// without a key is refused with status 401, unless it is a single call of an
// operation that is open to guests.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.RequireJSON(w, r) {
		return
	}

	// A caller without a valid key may send guestBody bytes, others DefaultBody unless they
	// announce more.
	caller, refused := d.Identify(r)
	most := int64(DefaultBody)
	switch {
	case refused != nil:
		most = guestBody
	case r.ContentLength > DefaultBody:
		most = d.maxBody
	}

	buf := buffers.Get().(*[]byte)
	body, err := readBody(w, r, (*buf)[:0], most)
	if cap(body) <= 2*DefaultBody { // a larger buffer is not kept
		*buf = body
	}
	defer buffers.Put(buf)

	var requests []jsonrpc.Request
	batch, bad := false, (*jsonrpc.Error)(nil)
	if err != nil {
		bad = wireError(Strict, err)
	} else if requests, batch, err = jsonrpc.ParseRequests(body); err != nil {
		bad, err = frameError(err), hub.Errorf(hub.CodeInvalid, "http", "%w", err)
	}

	// A refusal comes before the errors of a malformed request.
	switch {
	case refused != nil && (hub.CodeOf(refused) != hub.CodeUnauthenticated || err != nil || batch || !d.opensToGuests(requests[0].Method)):
		var id json.RawMessage
		if err == nil && !batch {
			id = requests[0].ID
		}
		d.recorder.record(r.Context(), caller, "authenticate", refused)
		answerError(w, id, refused)

	case err != nil:
		d.recorder.record(r.Context(), caller, "http", err)
		write(w, jsonrpc.Response{Error: bad}.AppendTo(nil))
	case !batch && !requests[0].Notification() && d.stream(w, r, caller, requests[0], len(body)):
	default:
		d.answerAll(w, r, caller, requests, batch, len(body))
	}
}

// opensToGuests reports whether a method may be called without a key.
func (d *Door) opensToGuests(method string) bool {
	m := d.byName[method]
	return m != nil && slices.Contains(m.Callers, hub.CallerGuest)
}

// RequireJSON reports whether a request says that its body is JSON, and answers
// the others with status 415. A request may be silent about the type only where a
// key is needed: a page in a browser can send other types to another site without
// asking first.
func (d *Door) RequireJSON(w http.ResponseWriter, r *http.Request) bool {
	said := r.Header.Get("Content-Type")
	t, _, err := mime.ParseMediaType(said)
	switch {
	case said == "" && !d.open:
	case err == nil && t == "application/json":
	case err == nil && t == "application/x-www-form-urlencoded" && !d.open: // the type that curl -d sends
	default:
		writeError(w, http.StatusUnsupportedMediaType, nil, hub.Errorf(hub.CodeInvalid, "http", "Content-Type must be application/json"))
		return false
	}
	return true
}

// answerAll performs requests in order and writes the answers.
func (d *Door) answerAll(w http.ResponseWriter, r *http.Request, caller hub.Caller, requests []jsonrpc.Request, batch bool, size int) {
	var out []byte
	for rest := requests; len(rest) > 0; {
		answers := []jsonrpc.Response{{ID: rest[0].ID, Error: batchTooLarge()}}
		if len(out) <= maxAnswer {
			answers = d.answer(r.Context(), caller, rest, size)
		}
		for i, res := range answers {
			if rest[i].Notification() {
				continue
			}
			if batch {
				out = append(out, map[bool]byte{true: '[', false: ','}[len(out) == 0])
			}
			out = res.AppendTo(out)
		}
		rest = rest[len(answers):]
	}
	switch {
	case len(out) == 0:
		w.WriteHeader(http.StatusNoContent) // notifications only
		return
	case batch:
		out = append(out, ']')
	}
	write(w, out)
}

func batchTooLarge() *jsonrpc.Error {
	return wireError(Strict, hub.Errorf(hub.CodeTooLarge, "http", "the answers to this batch are larger than %d bytes", maxAnswer).
		WithHint("this call was not performed; send it again in a smaller batch"))
}

func write(w http.ResponseWriter, b []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Write(b) // a caller that went away needs no answer
}

// answer performs the request at the front, or all those at the front that are
// of one group, and returns their answers.
func (d *Door) answer(ctx context.Context, caller hub.Caller, rest []jsonrpc.Request, size int) []jsonrpc.Response {
	req := rest[0]
	res := jsonrpc.Response{ID: req.ID}
	m := d.byName[req.Method]
	switch {
	case req.Invalid != nil:
		res.Error = frameError(req.Invalid)
	case m == nil:
		d.recorder.record(ctx, caller, "unknown method", hub.Errorf(hub.CodeNotFound, "http", "unknown method"))
		res.Error = unknownMethod(req.Method)
	case int64(size) > m.MaxBody:
		err := tooLarge(m.MaxBody)
		d.recorder.record(ctx, caller, m.Method, err)
		res.Error = wireError(m.Dialect, err)
	case m.together != nil:
		return d.answerGroup(ctx, caller, m, rest)
	default:
		raw, err := d.marshal(ctx, caller, m, req.Params)
		if err != nil {
			res.Error = wireError(m.Dialect, err)
		} else {
			res.Result = raw
		}
	}
	return []jsonrpc.Response{res}
}

// answerGroup performs the requests at the front that are of m's group.
func (d *Door) answerGroup(ctx context.Context, caller hub.Caller, m *Method, rest []jsonrpc.Request) []jsonrpc.Response {
	var calls []call
	for _, req := range rest {
		other := d.byName[req.Method]
		if req.Invalid != nil || other == nil || other.Group != m.Group {
			break
		}
		calls = append(calls, call{spec: other.Spec, params: req.Params})
	}
	d.performGroup(ctx, caller, m, calls)
	answers := make([]jsonrpc.Response, len(calls))
	for i, c := range calls {
		answers[i].ID = rest[i].ID
		if c.err == nil {
			answers[i].Result, c.err = strictjson.Encode(c.result)
		}
		if c.err != nil {
			answers[i].Error = wireError(m.Dialect, c.err)
		}
	}
	return answers
}

// stream answers a single request of an operation that streams its result. It
// reports whether the request was one.
func (d *Door) stream(w http.ResponseWriter, r *http.Request, caller hub.Caller, req jsonrpc.Request, size int) bool {
	m := d.byName[req.Method]
	isStream := req.Invalid == nil && m != nil && m.stream != nil && int64(size) <= m.MaxBody
	if !isStream {
		return false
	}
	out := &resultWriter{w: w, id: req.ID}
	err := d.perform(r.Context(), caller, m, func(ctx context.Context) error { return m.stream(ctx, caller, req.Params, out) })
	switch {
	case err != nil && out.begun:
		panic(http.ErrAbortHandler) // the caller must not take a part for the whole
	case err != nil:
		write(w, jsonrpc.Response{ID: req.ID, Error: wireError(m.Dialect, err)}.AppendTo(nil))
	default:
		io.WriteString(w, "}")
	}
	return true
}

// A resultWriter writes the beginning of a response before the result.
type resultWriter struct {
	w     http.ResponseWriter
	id    json.RawMessage
	begun bool
}

func (e *resultWriter) Write(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "application/json")
		head := append([]byte(`{"jsonrpc":"2.0","id":`), e.id...)
		if _, err := e.w.Write(append(head, `,"result":`...)); err != nil {
			return 0, err
		}
	}
	return e.w.Write(p)
}
