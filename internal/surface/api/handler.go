package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/jsonrpc"
)

const (
	maxBody     = 1 << 20          // bytes of a request
	maxAnswer   = 8 << 20          // bytes of answers after which the rest of a batch is refused
	bodyTimeout = 15 * time.Second // from header to the end of the body
)

// A Handler answers JSON-RPC over HTTP.
type Handler struct {
	services *Services
	log      *slog.Logger
	done     <-chan struct{}
}

// NewHandler returns a handler for POST / and GET /events. log may be nil.
// Event streams end when done is closed.
func NewHandler(s *Services, log *slog.Logger, done <-chan struct{}) *Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Handler{services: s, log: log, done: done}
}

// Actor finds out who sent a request.
func (h *Handler) Actor(r *http.Request) (hub.Caller, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = ""
	}
	actor, err := h.services.Access.Authenticate(r.Context(), strings.TrimSpace(secret))
	if err != nil {
		return hub.Caller{}, err
	}
	actor.Session = Session(r.Header)
	return actor, nil
}

// Admit finds out who sent a request and answers those who are not admitted.
func (h *Handler) Admit(w http.ResponseWriter, r *http.Request) (hub.Caller, bool) {
	actor, err := h.Actor(r)
	if err == nil {
		return actor, true
	}
	status := http.StatusUnauthorized
	if hub.CodeOf(err) != hub.CodeUnauthenticated {
		status = http.StatusServiceUnavailable
	} else {
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley"`)
		h.services.Journal.Refused(r.Context(), "", "authenticate", hub.CodeUnauthenticated)
	}
	WriteError(w, status, err)
	return hub.Caller{}, false
}

// WriteError answers with a JSON-RPC error that belongs to no request.
func WriteError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(jsonrpc.Response{Error: WireError(err)}.AppendTo(nil))
}

// buffers holds what requests are read into and answers are written from.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// ServeHTTP answers one request or batch. Whoever is admitted gets status 200,
// whatever the answer says.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	actor, ok := h.Admit(w, r)
	if !ok {
		return
	}
	h.Exchange(w, r, actor.ID, Exchange{Answer: func(rest []jsonrpc.Request, _ int) []jsonrpc.Response {
		return []jsonrpc.Response{h.Answer(r.Context(), actor, rest[0])}
	}})
}

// An Exchange says how the requests in one body are answered.
type Exchange struct {
	MaxBody int64 // bytes; default 1 MiB

	// Answer answers one or more of the requests at the front, in order, in a
	// body of so many bytes.
	Answer func(rest []jsonrpc.Request, size int) []jsonrpc.Response

	// Alone is asked first when there is a single request that wants an answer,
	// and reports whether it has written one; may be nil.
	Alone func(req jsonrpc.Request, size int) bool
}

// Exchange reads one request or batch and writes the answers to it. Whatever
// they say, the status is 200, or 204 if there are none.
func (h *Handler) Exchange(w http.ResponseWriter, r *http.Request, who hub.AgentID, x Exchange) {
	if x.MaxBody == 0 {
		x.MaxBody = maxBody
	}
	buf := buffers.Get().(*[]byte)
	body, err := readBody(w, r, (*buf)[:0], x.MaxBody)
	if cap(body) <= 2*maxBody { // what is larger is not kept for later
		*buf = body
	}
	defer buffers.Put(buf)
	if err != nil {
		h.services.Journal.Refused(r.Context(), who, "http", hub.CodeOf(err))
		h.write(w, jsonrpc.Response{Error: WireError(err)}.AppendTo(nil))
		return
	}
	requests, batch, err := jsonrpc.ParseRequests(body)
	if err != nil {
		h.services.Journal.Refused(r.Context(), who, "http", hub.CodeInvalid)
		h.write(w, jsonrpc.Response{Error: withReason(err)}.AppendTo(nil))
		return
	}
	if !batch && !requests[0].Notification() && x.Alone != nil && x.Alone(requests[0], len(body)) {
		return
	}

	var out []byte
	for rest := requests; len(rest) > 0; {
		answers := []jsonrpc.Response{{ID: rest[0].ID, Error: fullAnswer()}}
		if len(out) <= maxAnswer {
			answers = x.Answer(rest, len(body))
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
	h.write(w, out)
}

func fullAnswer() *jsonrpc.Error {
	return WireError(hub.Errorf(hub.CodeTooLarge, "http", "the answers to this batch have more than %d bytes", maxAnswer).
		WithHint("this call was not made; send it again, in a smaller batch"))
}

func (h *Handler) write(w http.ResponseWriter, b []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Write(b) // a caller that is gone needs no answer
}

// withReason adds the hub's code word to an error of the frame itself.
func withReason(err error) *jsonrpc.Error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		e = &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "not valid JSON"}
	}
	out := *e
	out.Data, _ = json.Marshal(Reason{Reason: hub.CodeInvalid, Hint: "send one JSON-RPC 2.0 request in UTF-8, each name once"}) // strings: cannot fail
	return &out
}

// ReadBody reads a request's body within its limits of size and time.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	return readBody(w, r, nil, most)
}

func readBody(w http.ResponseWriter, r *http.Request, buf []byte, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return buf, TooLarge(most)
	}
	arriveWithin(w, bodyTimeout)
	body := http.MaxBytesReader(w, r.Body, most)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var over *http.MaxBytesError
		switch {
		case err == nil:
		case err == io.EOF:
			return buf, nil
		case errors.As(err, &over):
			return buf, TooLarge(most)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return buf, hub.Errorf(hub.CodeInvalid, "http", "the request did not arrive within %s", bodyTimeout)
		default:
			return buf, hub.Errorf(hub.CodeInvalid, "http", "the request broke off")
		}
	}
}

// arriveWithin bounds how long the body of a request may take. The server lifts
// the deadline itself when the body has ended; one that has not ended keeps it,
// or the server would wait without an end for the rest of it.
func arriveWithin(w http.ResponseWriter, d time.Duration) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(d)) // where there is no connection there is nothing to wait for
}

// TooLarge is the failure of a request with more bytes than it may have.
func TooLarge(most int64) error {
	return hub.Errorf(hub.CodeTooLarge, "http", "a request has at most %d bytes", most).
		WithHint("store what is large with: parley artifact put FILE")
}

// Answer performs one request.
func (h *Handler) Answer(ctx context.Context, actor hub.Caller, req jsonrpc.Request) jsonrpc.Response {
	res := jsonrpc.Response{ID: req.ID}
	if req.Invalid != nil {
		res.Error = withReason(req.Invalid)
		return res
	}
	raw, err := h.Call(ctx, actor, req.Method, req.Params)
	if err != nil {
		res.Error = WireError(err)
		return res
	}
	res.Result = raw
	return res
}

// Call performs an operation by name and returns its result as JSON.
func (h *Handler) Call(ctx context.Context, actor hub.Caller, method string, params []byte) (json.RawMessage, error) {
	o, ok := Lookup(method)
	if !ok {
		h.services.Journal.Refused(ctx, actor.ID, "unknown method", hub.CodeNotFound)
		data, _ := json.Marshal(Reason{Reason: hub.CodeNotFound, Hint: "GET /methods lists the methods"}) // strings: cannot fail
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("there is no method %q", method), Data: data}
	}
	result, err := h.services.Call(ctx, actor, o, params)
	if err != nil {
		return nil, err
	}
	raw, err := Marshal(result)
	if err != nil {
		h.log.Error("result cannot be written", "actor", actor.ID, "op", method, "code", hub.CodeInternal, "err", err)
	}
	return raw, err
}

// Marshal writes a result without escaping what is only special in HTML.
func Marshal(v any) (json.RawMessage, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("api: encode result: %w", err)
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), nil
}
