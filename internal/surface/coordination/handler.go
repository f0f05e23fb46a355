package coordination

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/access"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/jsonrpc"
)

const (
	maxBody      = 1 << 20  // bytes of a request
	maxLargeBody = 16 << 20 // of one that brings a file or a copy
	maxGuestBody = 16 << 10 // of one from somebody who is not known
	maxAnswer    = 8 << 20  // of an answer that is held in memory
	methodRedeem = "cacp/invite/redeem"
)

// large lists the methods whose requests may have maxLargeBody.
var large = map[string]bool{
	"cacp/file/share": true, "cacp/file/fulfillRequest": true,
	"cacp/project/sync": true, "cacp/repo/sync": true, "cacp/contract/sync": true, "cacp/context/sync": true,
}

// A Handler answers JSON-RPC over HTTP: the methods of this package, and for
// agents of this hub those of the api package too.
type Handler struct {
	services *Services
	hub      *api.Handler
	open     bool
}

// NewHandler returns a handler. open says that callers need no key.
func NewHandler(s *Services, hub *api.Handler, open bool) *Handler {
	return &Handler{services: s, hub: hub, open: open}
}

// credentials returns what a request says about who sends it.
func credentials(r *http.Request) access.Credentials {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = ""
	}
	source, _ := netip.ParseAddrPort(r.RemoteAddr) // no address is nobody's
	return access.Credentials{
		Bearer: strings.TrimSpace(secret), AgentID: hub.AID(r.Header.Get("X-Agent-ID")), Token: r.Header.Get("X-Project-Token"), Source: source.Addr(),
		Session: api.Session(r.Header),
	}
}

// Identify finds out who sent a request.
func (h *Handler) Identify(r *http.Request) (hub.Caller, error) {
	c, err := h.services.Access.Identify(r.Context(), credentials(r))
	if code := hub.CodeOf(err); err != nil && code != hub.CodeDegraded && code != hub.CodeInternal {
		h.services.Journal.Refused(r.Context(), c.ID, "authenticate", code)
	}
	return c, err
}

// refuse answers those who are not admitted.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch hub.CodeOf(err) {
	case hub.CodeUnauthenticated:
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley"`)
	case hub.CodeTampering, hub.CodeDenied:
		status = http.StatusForbidden
	}
	api.WriteError(w, status, err)
}

// ServeHTTP answers one request or batch. Whoever is admitted gets status 200,
// whatever the answer says.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.readable(r) {
		notJSON(w)
		return
	}
	v, err := h.Identify(r)
	if err != nil {
		if hub.CodeOf(err) == hub.CodeUnauthenticated {
			h.redeem(w, r, v, err)
		} else {
			refuse(w, err)
		}
		return
	}
	most := int64(maxBody)
	if r.ContentLength > maxBody {
		most = maxLargeBody
	}
	h.hub.Exchange(w, r, v.ID, api.Exchange{
		MaxBody: most,
		Answer: func(rest []jsonrpc.Request, size int) []jsonrpc.Response {
			return h.answer(r.Context(), v, rest, size)
		},
		Alone: func(req jsonrpc.Request, size int) bool { return h.stream(w, r, v, req, size) },
	})
}

func notJSON(w http.ResponseWriter) {
	api.WriteError(w, http.StatusUnsupportedMediaType, hub.Errorf(hub.CodeInvalid, "http", "a request is application/json"))
}

// readable reports whether the type of a request's body is what it should be.
// Where no key is needed it must be said: a page in a browser cannot say it
// without asking first.
func (h *Handler) readable(r *http.Request) bool {
	said := r.Header.Get("Content-Type")
	if said == "" {
		return !h.open
	}
	t, _, err := mime.ParseMediaType(said)
	return err == nil && (t == "application/json" || !h.open && t == "application/x-www-form-urlencoded") // what curl -d sends
}

// answer answers one or more of the requests at the front.
func (h *Handler) answer(ctx context.Context, v hub.Caller, rest []jsonrpc.Request, size int) []jsonrpc.Response {
	req := rest[0]
	res := jsonrpc.Response{ID: req.ID}
	m, ok := Lookup(req.Method)
	switch {
	case req.Invalid == nil && size > maxBody && !large[req.Method]:
		h.services.Journal.Refused(ctx, v.ID, "http", hub.CodeTooLarge)
		res.Error = wireError(api.TooLarge(maxBody))
	case req.Invalid != nil || !ok && !strings.HasPrefix(req.Method, "cacp/"):
		return []jsonrpc.Response{h.other(ctx, v, req)}
	case !ok:
		h.services.Journal.Refused(ctx, v.ID, "unknown method", hub.CodeNotFound)
		res.Error = unknown(req.Method)
	case unpack[req.Method] != nil:
		return h.services.sync(ctx, v, rest)
	case req.Method == methodRedeem:
		return []jsonrpc.Response{h.welcome(ctx, v, req)}
	default:
		var err error
		if res.Result, err = h.services.Call(ctx, v, m, req.Params, maxAnswer); err != nil {
			res.Result, res.Error = nil, wireError(err)
		}
	}
	return []jsonrpc.Response{res}
}

// other answers a request of the hub's own methods, for its own agents.
func (h *Handler) other(ctx context.Context, v hub.Caller, req jsonrpc.Request) jsonrpc.Response {
	if req.Invalid == nil && !v.Local() {
		h.services.Journal.Refused(ctx, v.ID, "http", hub.CodeDenied)
		if _, ok := api.Lookup(req.Method); !ok {
			return jsonrpc.Response{ID: req.ID, Error: unknown(req.Method)}
		}
		return jsonrpc.Response{ID: req.ID, Error: wireError(hub.Errorf(hub.CodeDenied, "http", "only agents of this hub may call %.200s", req.Method))}
	}
	return h.hub.Answer(ctx, v, req)
}

// stream answers a single request whose answer may be large while it is read.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, v hub.Caller, req jsonrpc.Request, size int) bool {
	m, ok := Lookup(req.Method)
	if !ok || m.write == nil || req.Invalid != nil || size > maxBody {
		return false
	}
	out := &envelope{w: w, id: req.ID, pace: http.NewResponseController(w)}
	defer out.pace.SetWriteDeadline(time.Time{}) // for what follows on the connection
	err := h.services.observe(r.Context(), v, req.Method, func() error {
		return m.write(r.Context(), h.services, v, req.Params, out)
	})
	switch {
	case err != nil && out.begun:
		panic(http.ErrAbortHandler) // the caller must not take a part for the whole
	case err != nil:
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.Response{ID: req.ID, Error: wireError(err)}.AppendTo(nil))
	default:
		io.WriteString(w, "}")
	}
	return true
}

// writeTimeout is how long a part of a large answer may wait for its reader.
const writeTimeout = 30 * time.Second

// An envelope writes the beginning of a response before the result. A reader
// that stops reading ends it.
type envelope struct {
	w     http.ResponseWriter
	pace  *http.ResponseController
	id    json.RawMessage
	begun bool
}

func (e *envelope) Write(p []byte) (int, error) {
	e.pace.SetWriteDeadline(time.Now().Add(writeTimeout)) // where there is no connection nobody reads slowly
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

// redeem answers somebody who is not known and may have an invite. Everybody
// else is refused.
func (h *Handler) redeem(w http.ResponseWriter, r *http.Request, c hub.Caller, refused error) {
	body, err := api.ReadBody(w, r, maxGuestBody)
	if err != nil {
		refuse(w, refused)
		return
	}
	requests, batch, err := jsonrpc.ParseRequests(body)
	if err != nil || batch || requests[0].Method != methodRedeem {
		refuse(w, refused)
		return
	}
	res := h.welcome(r.Context(), c, requests[0])
	w.Header().Set("Content-Type", "application/json")
	w.Write(res.AppendTo(nil)) // a caller that is gone needs no answer
}

// welcome lets a hub in that has an invite.
func (h *Handler) welcome(ctx context.Context, v hub.Caller, req jsonrpc.Request) jsonrpc.Response {
	res := jsonrpc.Response{ID: req.ID}
	err := h.services.observe(ctx, v, methodRedeem, func() error {
		var in hub.Redemption
		if err := api.DecodeLoose(methodRedeem, req.Params, &in); err != nil {
			return err
		}
		got, err := h.services.Access.Redeem(ctx, v, in)
		if err == nil {
			res.Result, err = api.Marshal(got)
		}
		return err
	})
	if err != nil {
		res.Error = wireError(err)
	}
	return res
}
