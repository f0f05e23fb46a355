package mcptools

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// Most requests are tool calls in a session that was used a moment ago, and
// the library spends several times as long on one as the hub does. Calls that
// need nothing of it take a shortcut to the operation, with the same answer.
// The row of make bench for acp_send over MCP needs it (docs/adr/0006).
// All others go the whole way: the first call of a session, one now and
// then so that the library knows that the session lives, calls that may wait
// and so must be cancellable, and every request that is not plainly a tool call.
const (
	sessionHeader  = "Mcp-Session-Id"
	protocolHeader = "Mcp-Protocol-Version"

	// refresh is how long a session may take the shortcut in one go; it is much
	// shorter than idle.
	refresh = idle / 6

	maxSessions = 10_000 // that are known at a time; others go the whole way
)

// A pass says that the library has let a session through, for whom, and when.
type pass struct {
	agent    hub.AgentID
	protocol string // as the header said
	at       time.Time
}

// passes holds the sessions that may take the shortcut.
type passes struct {
	mu  sync.Mutex // guards all
	all map[string]pass
}

// valid reports whether a request may take the shortcut.
func (p *passes) valid(r *http.Request, agent hub.AgentID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	got, ok := p.all[r.Header.Get(sessionHeader)]
	return ok && got.agent == agent && got.protocol == r.Header.Get(protocolHeader) && now.Sub(got.at) < refresh
}

// issue notes that the library has let a request through.
func (p *passes) issue(r *http.Request, agent hub.AgentID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]pass{}
	}
	if len(p.all) >= maxSessions {
		for id, old := range p.all {
			if now.Sub(old.at) >= refresh {
				delete(p.all, id)
			}
		}
	}
	if len(p.all) < maxSessions {
		p.all[r.Header.Get(sessionHeader)] = pass{agent, r.Header.Get(protocolHeader), now}
	}
}

func (p *passes) revoke(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, id)
}

// Serve answers one request of a client. It is an rpc.Page.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, caller hub.Caller) error {
	// Only a POST in a session can be a tool call; the library answers all other requests.
	session := r.Header.Get(sessionHeader)
	if session == "" || r.Method != http.MethodPost {
		if r.Method == http.MethodDelete {
			h.passes.revoke(session)
			h.sessions.remove(caller.ID, session)
		}
		h.serveLibrary(w, r, caller)
		if session == "" {
			h.began(w.Header(), caller.ID)
		}
		return nil
	}

	// A session with a pass takes the shortcut if the call is plain.
	if h.passes.valid(r, caller.ID, time.Now()) && plainHeaders(r.Header) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, rpc.DefaultBody))
		if err == nil {
			if req, m, args, ok := h.plainCall(body); ok {
				caller.Session = session
				h.answer(w, r, caller, req, m, newCall(m, args))
				return nil
			}
		}
		// The library reads the same bytes, and meets the same error.
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), failing{err}), r.Body}
	}

	// A request that the library accepted earns its session a pass.
	seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	h.serveLibrary(seen, r, caller)
	if seen.status == http.StatusOK {
		h.passes.issue(r, caller.ID, time.Now())
	}
	return nil
}

// failing reports the error with which reading ended before.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// A statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer inside, for an http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends the buffered bytes.
func (w *statusWriter) Flush() { http.NewResponseController(w.ResponseWriter).Flush() }

// plainHeaders reports whether the headers are those of an ordinary call. The
// library answers the others.
func plainHeaders(h http.Header) bool {
	accept := strings.Join(h.Values("Accept"), ",")
	return h.Get("Content-Type") == "application/json" && strings.Contains(accept, "application/json") && strings.Contains(accept, "text/event-stream")
}

// whole are the tools whose calls go the whole way: they may take long, or tell an agent
// that it joined or left a team or a project, which changes the list of its tools.
var whole = []string{inboxTool, api.Team.Tool, coordinateTool}

// quickTools returns the methods that may take the shortcut, by tool.
func quickTools(d *rpc.Dispatcher) map[string]*rpc.Method {
	byTool := map[string]*rpc.Method{}
	for _, m := range d.Methods() {
		if m.Tool != "" && !slices.Contains(whole, m.Tool) {
			byTool[m.Tool] = m
		}
	}
	return byTool
}

// plainCall reads a body that is one call of a tool and nothing else.
func (h *Handler) plainCall(body []byte) (req jsonrpc.Request, m *rpc.Method, args json.RawMessage, ok bool) {
	requests, batch, err := jsonrpc.ParseRequests(body)
	if err != nil || batch || len(requests) != 1 {
		return req, nil, nil, false
	}
	req = requests[0]
	isCall := req.Invalid == nil && !req.Notification() && string(req.ID) != "null" && req.Method == "tools/call"
	if !isCall {
		return req, nil, nil, false
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(req.Params, &params) != nil { // jsonrpc has checked the names
		return req, nil, nil, false
	}
	var name string
	if json.Unmarshal(params["name"], &name) != nil {
		return req, nil, nil, false
	}
	args = params["arguments"]
	delete(params, "name")
	delete(params, "arguments")
	m, ok = h.byTool[name]
	return req, m, args, ok && len(params) == 0 // _meta may ask for more than an answer
}

// answer performs a call that took the shortcut.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, caller hub.Caller, req jsonrpc.Request, m *rpc.Method, c *toolCall) {
	raw, err := json.Marshal(h.news.present(readerName(caller, caller.Session), c, func(args []byte) (any, error) {
		return h.dispatcher.Call(r.Context(), caller, m, args)
	}))
	answer := jsonrpc.Response{ID: req.ID, Result: raw}
	if err != nil {
		answer.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "cannot write the result"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.Write(answer.AppendTo(nil)) // a caller that is gone needs no answer
}
