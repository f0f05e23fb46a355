// Package mcptools offers operations as MCP tools, over streamable HTTP and over
// stdio. Every operation that has a tool's name in its table is one; this package
// holds only the texts that a model reads.
//
// A model reads text alone: framed, attributed, plain (package plaintext). A program
// asks for format json and gets the same result as JSON in a text, whose first member
// is the frame.
package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/internal/ground/spans"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/usage"
)

// instructions returns the text that a model reads before the tools: who it is, who
// else is there, and what it may do.
func instructions(who api.Identity) string {
	return introduce(who.ID, who.Role, who.Contacts) + "\n" + briefing.Rules
}

// introduce names an agent and the others on its hub.
func introduce(you hub.AgentID, role hub.Role, others []mailroom.Contact) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are %s", you)
	if role != "" {
		fmt.Fprintf(&b, " (%s)", role)
	}
	b.WriteString(".")
	for i, c := range others {
		b.WriteString(map[bool]string{true: " Others: ", false: ", "}[i == 0])
		b.WriteString(profile(c))
		b.WriteString(map[hub.Reach]string{hub.ReachNow: ", listens now)", hub.ReachOnPoll: ")", hub.ReachUnreachable: ", not reachable)"}[c.Reach])
	}
	if len(others) > 0 {
		b.WriteString(".")
	}
	return b.String()
}

// profile returns the lasting facts about a contact, without the closing parenthesis.
func profile(c mailroom.Contact) string {
	text := fmt.Sprintf("%s (%s", c.ID, c.Role)
	if len(c.Can) > 0 {
		text += ": " + strings.Join(c.Can, ", ")
	}
	return text
}

// A backend performs the calls of a server.
type backend struct {
	// perform performs a method as the agent behind a request.
	perform func(ctx context.Context, req *mcp.CallToolRequest, m *rpc.Method, args []byte) (any, error)
	// whoami returns the agent behind a request.
	whoami func(ctx context.Context, req mcp.Request) (api.Identity, error)
	// reader returns the name of the reader of the answers to a request.
	reader func(req mcp.Request) string
	// specs has the operation of each tool.
	specs map[string]rpc.Spec
}

// newServer returns an MCP server with every method that is a tool.
func newServer(version string, methods []*rpc.Method, log *slog.Logger, news *readers, b backend) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "parley", Title: "Parley", Version: version}, &mcp.ServerOptions{
		Instructions: briefing.Rules, Logger: log, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	b.specs = map[string]rpc.Spec{}
	for _, m := range methods {
		b.specs[m.Tool] = m.Spec
	}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if err == nil {
				b.address(ctx, req, result, news)
			}
			return result, err
		}
	})
	for _, m := range methods {
		if m.Tool == "" {
			continue
		}
		var handle mcp.ToolHandler
		handle = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			c := newCall(m, req.Params.Arguments)
			if m.Tool == inboxTool {
				defer c.wait(ctx, req)()
			}
			reader := b.reader(req)
			answer := news.present(reader, c, func(args []byte) (any, error) { return b.perform(ctx, req, m, args) })

			// Adding a tool again is the library's only way to say that the list
			// changed. It says so to every session; each lists its own tools anew.
			if slices.Contains(whole, m.Tool) {
				if who, err := b.whoami(ctx, req); err == nil && news.outdated(reader, who) {
					s.AddTool(Tool(m.Spec), handle)
				}
			}
			return answer, nil
		}
		s.AddTool(Tool(m.Spec), handle)
	}
	return s
}

// address writes the parts of a result that differ from agent to agent: the instructions
// and the list of tools. When the hub is away, it leaves the result as it is: the first
// call of a tool says that.
func (b backend) address(ctx context.Context, req mcp.Request, result mcp.Result, news *readers) {
	var text *string
	list, isList := result.(*mcp.ListToolsResult)
	switch r := result.(type) {
	case *mcp.InitializeResult:
		text = &r.Instructions
	case *mcp.DiscoverResult:
		text = &r.Instructions
	}

	if text == nil && !isList {
		return
	}
	who, err := b.whoami(ctx, req)
	if err != nil {
		return
	}

	if text != nil {
		*text = plaintext.Text(instructions(who))
		news.count(b.reader(req), usage.Instructions, len(*text))
		return
	}

	// A client that reads the list once gets every tool; other clients get the tools for the
	// agent's teams and projects.
	all := listsOnce(req)
	list.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *mcp.Tool) bool {
		listed := all || Listed(t.Name, who)
		return !listed || !rpc.Offered(b.specs[t.Name], who.Without)
	})
	if len(who.Without) > 0 {
		for i, t := range list.Tools {
			list.Tools[i] = Tool(api.Narrow(b.specs[t.Name], who.Without))
		}
	}

	news.listed(b.reader(req), who)
	if raw, err := json.Marshal(list.Tools); err == nil {
		news.count(b.reader(req), usage.Definitions, len(raw))
	}
}

// Listed reports whether a tool is listed to an agent. The tools for teams and projects
// are listed to their members alone, and the one for files to agents that work beside
// others in one working tree, because every request of a model carries every
// listed tool. A tool that is not listed can be called all the same.
func Listed(tool string, who api.Identity) bool {
	switch tool {
	case api.Team.Tool, api.Subscribe.Tool:
		return who.InTeam
	case coordinateTool:
		return who.InProject
	case api.Files.Tool:
		return who.SharesTree
	}
	return true
}

// deferring are the names of clients that ignore tools/list_changed, as measured with real
// ones. Their models search for tools, so that the whole list costs nothing in a request.
var deferring = []string{"codex-mcp-client", "qwen-cli-mcp-client"}

// listsOnce reports whether the client of a request reads the list of tools at its start
// alone. Such a client gets all tools then.
func listsOnce(req mcp.Request) bool {
	session, ok := req.GetSession().(*mcp.ServerSession)
	if !ok || session.InitializeParams() == nil || session.InitializeParams().ClientInfo == nil {
		return false
	}
	name := session.InitializeParams().ClientInfo.Name // Qwen adds the name of the server
	return slices.ContainsFunc(deferring, func(known string) bool { return strings.HasPrefix(name, known) })
}

// coordinateTool is the tool for projects between repositories.
const coordinateTool = "coordinate"

// inboxTool is the tool with which an agent begins.
const inboxTool = "acp_inbox"

// mailTools are the tools with which an agent reads its mail and answers it. Clients that load tools when
// they are searched for load these at once, so that an answer costs no search.
var mailTools = []string{inboxTool, api.Respond.Tool}

// Tool returns the definition of an operation as a model sees it.
func Tool(o rpc.Spec) *mcp.Tool {
	no := false
	t := &mcp.Tool{
		Name: o.Tool, Title: o.Title, Description: o.Doc, InputSchema: o.Input,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: !o.Changes, DestructiveHint: &no, OpenWorldHint: &no},
	}
	if slices.Contains(mailTools, o.Tool) {
		t.Meta = mcp.Meta{"anthropic/alwaysLoad": true}
	}
	return t
}

// idle is how long an MCP session may be silent before it is closed.
const idle = time.Hour

// A Handler offers the tools over streamable HTTP.
type Handler struct {
	library http.Handler
	// Read is told the texts that the models of agents get, with their bytes. It may be nil, and is
	// set before the first request.
	Read func(agent hub.AgentID, part usage.Part, bytes int)

	server     *mcp.Server
	dispatcher *rpc.Dispatcher
	byTool     map[string]*rpc.Method // methods that may take the shortcut, see shortcut.go
	passes     passes
	sessions   sessions
	news       readers
}

// Close ends every session.
func (h *Handler) Close() {
	for s := range h.server.Sessions() {
		s.Close()
	}
	h.sessions.ending.Wait()
}

// NewHandler returns the dispatcher's tools over streamable HTTP. A session
// belongs to the agent that began it. Streams on which a client waits for news
// end when done is closed. log may be nil.
func NewHandler(version string, d *rpc.Dispatcher, log *slog.Logger, done <-chan struct{}) *Handler {
	h := &Handler{dispatcher: d, byTool: quickTools(d)}
	h.news.read = func(reader string, part usage.Part, bytes int) {
		agent, _, _ := strings.Cut(reader, "/")
		if h.Read != nil {
			h.Read(hub.AgentID(agent), part, bytes)
		}
	}
	whoami := d.Methods()[slices.IndexFunc(d.Methods(), func(m *rpc.Method) bool { return m.Method == api.Whoami.Method })]
	h.server = newServer(version, d.Methods(), log, &h.news, backend{
		perform: func(ctx context.Context, req *mcp.CallToolRequest, m *rpc.Method, args []byte) (any, error) {
			caller := callerOf(req)
			if id := req.Session.ID(); id != "" {
				caller.Session = id
			}
			// The context is that of the request with which the session began.
			return d.Call(spans.Below(ctx, req.GetExtra().Header), caller, m, args)
		},
		whoami: func(ctx context.Context, req mcp.Request) (api.Identity, error) {
			result, err := d.Call(ctx, callerOf(req), whoami, nil)
			who, _ := result.(api.Identity)
			return who, err
		},
		reader: func(req mcp.Request) string { return readerName(callerOf(req), req.GetSession().ID()) },
	})
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return h.server }, &mcp.StreamableHTTPOptions{
		Logger: log, SessionTimeout: idle, MaxRequestBodyBytes: rpc.DefaultBody,
	})
	h.library = auth.RequireBearerToken(verify, nil)(endStreams(tools, done))
	return h
}

// callerOf returns the caller that verify put into a request.
func callerOf(req mcp.Request) hub.Caller {
	return req.GetExtra().TokenInfo.Extra[callerKey].(hub.Caller)
}

// readerName names the reader of answers over HTTP: a session of an agent.
func readerName(caller hub.Caller, session string) string { return string(caller.ID) + "/" + session }

// callerKey is where the caller travels from the HTTP request to the tool.
const callerKey = "caller"

type contextKey struct{}

// verify hands the library the caller that the door has identified.
func verify(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
	caller, ok := r.Context().Value(contextKey{}).(hub.Caller)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: string(caller.ID), Expiration: time.Now().Add(idle), Extra: map[string]any{callerKey: caller}}, nil
}

// serveLibrary lets the library answer. It carries the caller in the request's
// context, because the library has no other place for it.
func (h *Handler) serveLibrary(w http.ResponseWriter, r *http.Request, caller hub.Caller) {
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, caller))
	if r.Method != http.MethodPost {
		h.library.ServeHTTP(w, r)
		return
	}
	answer := &answerWriter{ResponseWriter: w}
	h.library.ServeHTTP(answer, r)
	answer.finish()
}

// endStreams ends GET requests, which stay open as long as their session, when
// done is closed. What was asked with POST is answered first.
func endStreams(next http.Handler, done <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			ctx, cancel := context.WithCancel(r.Context())
			var watch sync.WaitGroup
			defer watch.Wait()
			defer cancel()
			watch.Go(func() {
				select {
				case <-done:
					cancel()
				case <-ctx.Done():
				}
			})
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// ServeStdio offers the tools on in and out, and performs them by calling a
// hub. It returns when the input ends or ctx does.
func ServeStdio(ctx context.Context, version string, c *rpc.Client, in io.ReadCloser, out io.WriteCloser) error {
	methods := append(api.Operations.Bind(nil), coordination.Operations.Bind(nil)...)
	counted := &counter{client: c}
	defer counted.tell(context.WithoutCancel(ctx))
	server := newServer(version, methods, nil, &readers{read: counted.add}, backend{
		perform: func(ctx context.Context, _ *mcp.CallToolRequest, m *rpc.Method, args []byte) (any, error) {
			return c.Perform(ctx, m, args)
		},
		whoami: func(ctx context.Context, _ mcp.Request) (api.Identity, error) {
			return rpc.Call(ctx, c, api.Whoami, api.None{})
		},
		reader: func(mcp.Request) string { return "" }, // there is one
	})
	err := server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if errors.Is(err, io.ErrClosedPipe) {
		return nil // the client has gone while an answer was under way
	}
	return err
}
