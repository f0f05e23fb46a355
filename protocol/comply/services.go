package comply

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/parley-agents/parley/protocol/acp/schema"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// codeNotFound is the protocol's code for a resource that does not exist.
const codeNotFound = -32002

// notFound begins the message of that error, as in the protocol's libraries. Agents look
// for these words to tell a new file from a broken one.
const notFound = "Resource not found"

// services answer the requests of an agent with real files, terminals and
// permissions, confined to the workspace, as far as the client announced the
// capabilities. They learn of capabilities and cancelled turns from the frames that
// the test sends, since a test may announce anything.
type services struct {
	version     schema.Version
	roots       *sandbox.Roots
	files       *sandbox.Guarded
	terminals   *sandbox.Terminals
	permissions *sandbox.Permissions

	// mu guards the fields below; it is not held while a request is served.
	mu        sync.Mutex
	caps      any             // the capabilities that the client announced
	cancelled map[string]bool // sessions whose turn the client cancelled
	canned    map[string]bool // terminals that a reply of the test has made up
}

// newServices returns the services for an agent in dir. Commands run with env.
func newServices(version schema.Version, dir string, policy sandbox.Policy, env []string) (*services, error) {
	roots, err := sandbox.Open(dir)
	if err != nil {
		return nil, err
	}
	permissions := sandbox.NewPermissions(policy, nil)
	return &services{
		version: version, roots: roots, permissions: permissions,
		files:     sandbox.NewGuarded(sandbox.NewFiles(roots), permissions),
		terminals: sandbox.NewTerminals(roots, &sandbox.TerminalOptions{Env: env}),
		cancelled: map[string]bool{}, canned: map[string]bool{},
	}, nil
}

// close ends the commands that still run.
func (s *services) close() {
	s.terminals.Close()
	s.roots.Close()
}

// A service answers one method.
type service struct {
	capability string // the capability that the client must have announced; "" for none
	answer     func(*services, context.Context, params) (any, error)
}

// provided has the methods that a client serves. Version 2 has only the last of them.
var provided = map[string]service{
	"fs/read_text_file":          {"fs.readTextFile", (*services).readFile},
	"fs/write_text_file":         {"fs.writeTextFile", (*services).writeFile},
	"terminal/create":            {"terminal", (*services).createTerminal},
	"terminal/output":            {"terminal", (*services).terminalOutput},
	"terminal/wait_for_exit":     {"terminal", (*services).waitForTerminal},
	"terminal/kill":              {"terminal", (*services).killTerminal},
	"terminal/release":           {"terminal", (*services).releaseTerminal},
	"session/request_permission": {"", (*services).permission},
}

// params has the members of the params of all methods that are served.
type params struct {
	SessionID       string        `json:"sessionId"`
	Path            string        `json:"path"`
	Line            *int          `json:"line"`
	Limit           *int          `json:"limit"`
	Content         *string       `json:"content"`
	TerminalID      string        `json:"terminalId"`
	Command         string        `json:"command"`
	Args            []string      `json:"args"`
	Env             []envVariable `json:"env"`
	Dir             string        `json:"cwd"`
	OutputByteLimit *int          `json:"outputByteLimit"`
	ToolCall        toolCall      `json:"toolCall"`
	Options         []struct {
		ID   string `json:"optionId"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"options"`
	Subject struct {
		Type     string   `json:"type"`
		ToolCall toolCall `json:"toolCall"`
	} `json:"subject"`
}

type envVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type toolCall struct {
	Kind  string `json:"kind"`
	Title string `json:"title"`
}

// observe learns capabilities and cancelled turns from the frames of the client.
func (s *services) observe(e *rules.Entry) {
	var p struct {
		SessionID string          `json:"sessionId"`
		V1        json.RawMessage `json:"clientCapabilities"`
		V2        json.RawMessage `json:"capabilities"`
	}

	switch e.Method {
	case rules.MethodInitialize, rules.MethodPrompt, rules.MethodCancel:
		if json.Unmarshal(e.Params, &p) != nil {
			return
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	switch e.Method {
	case rules.MethodInitialize:
		raw := p.V1
		if s.version != schema.V1 && p.V2 != nil {
			raw = p.V2
		}
		s.caps, _ = jsont.Decode(raw)
	case rules.MethodPrompt:
		delete(s.cancelled, p.SessionID)
	case rules.MethodCancel:
		// An agent may make up sessions without end.
		if len(s.cancelled) < maxEntries {
			s.cancelled[p.SessionID] = true
		}
	}
}

// answer returns the reply to a request of the agent: a result, or an object with an
// error.
// A method that exists in the protocol but was not announced is refused like one
// that does not exist: an agent must look at the capabilities first.
func (s *services) answer(ctx context.Context, e *rules.Entry) json.RawMessage {
	service, ok := provided[e.Method]
	if _, exists := s.version.Method(e.Method); !ok || !exists {
		return errorReply(jsonrpc.CodeMethodNotFound, fmt.Sprintf("unknown client method %q", jsont.Shorten(e.Method, 100)))
	}
	if c := service.capability; c != "" {
		s.mu.Lock()
		can, _ := jsont.Lookup(s.caps, c)
		s.mu.Unlock()
		if can != true {
			return errorReply(jsonrpc.CodeMethodNotFound, fmt.Sprintf("%s is off: the client's capability %s is not true", e.Method, c))
		}
	}
	var r params
	if err := json.Unmarshal(e.Params, &r); err != nil {
		return errorReply(jsonrpc.CodeInvalidParams, fmt.Sprintf("%s: %v", e.Method, err))
	}
	result, err := service.answer(s, ctx, r)
	if err != nil {
		code, text := replyCode(sandbox.CodeOf(err)), err.Error()
		if code == codeNotFound {
			text = notFound + ": " + text
		}
		return errorReply(code, text)
	}
	return jsont.Encode(result)
}

// replyCodes has the code of JSON-RPC for a failure. Any other failure is internal.
var replyCodes = map[sandbox.Code]int{
	sandbox.CodeInvalid:  jsonrpc.CodeInvalidParams,
	sandbox.CodeOutside:  jsonrpc.CodeInvalidParams,
	sandbox.CodeNotFound: codeNotFound,
}

// replyCode returns the code for a failure of the sandbox.
func replyCode(code sandbox.Code) int {
	if c, ok := replyCodes[code]; ok {
		return c
	}
	return jsonrpc.CodeInternal
}

// The methods below ask the policy first, as a user would be asked; then the sandbox
// decides whether the path or command may be used.
func (s *services) readFile(ctx context.Context, r params) (any, error) {
	line, limit := 1, sandbox.AllLines
	if r.Line != nil {
		line = *r.Line
	}
	if r.Limit != nil {
		limit = *r.Limit
	}
	text, err := s.files.Read(ctx, r.Path, line, limit)
	return map[string]any{"content": text}, err
}

func (s *services) writeFile(ctx context.Context, r params) (any, error) {
	if r.Content == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeInvalid, Err: fmt.Errorf("write %s: content is required", r.Path)}
	}
	return struct{}{}, s.files.Write(ctx, r.Path, *r.Content)
}

func (s *services) createTerminal(ctx context.Context, r params) (any, error) {
	if err := s.permissions.Permit(ctx, sandbox.KindExecute, "run "+r.Command); err != nil {
		return nil, err
	}
	c := sandbox.Command{Name: r.Command, Args: r.Args, Dir: r.Dir, OutputLimit: r.OutputByteLimit, Env: map[string]string{}}
	// The sandbox would resolve it; the protocol wants it refused.
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return nil, &sandbox.Error{Code: sandbox.CodeInvalid, Err: fmt.Errorf("run %s: cwd %q is not absolute", jsont.Shorten(r.Command, 100), jsont.Shorten(r.Dir, 100))}
	}
	for _, v := range r.Env {
		c.Env[v.Name] = v.Value
	}
	id, err := s.terminals.Create(ctx, c)
	return map[string]any{"terminalId": id}, err
}

// replied learns of a reply of the test. A terminal that it makes up is served from then on: its
// command has ended with status 0 and said nothing.
func (s *services) replied(e *rules.Entry, reply json.RawMessage) {
	var made struct {
		TerminalID string `json:"terminalId"`
		Result     struct {
			TerminalID string `json:"terminalId"`
		} `json:"result"`
	}
	if e.Method != "terminal/create" || json.Unmarshal(reply, &made) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canned[made.TerminalID+made.Result.TerminalID] = true
}

// isCanned reports whether a reply of the test has made a terminal up.
func (s *services) isCanned(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id != "" && s.canned[id]
}

func (s *services) terminalOutput(ctx context.Context, r params) (any, error) {
	if s.isCanned(r.TerminalID) {
		return map[string]any{"output": "", "truncated": false, "exitStatus": exitStatus(sandbox.Exit{})}, nil
	}
	out, err := s.terminals.Output(ctx, r.TerminalID)
	reply := map[string]any{"output": out.Text, "truncated": out.Truncated}
	if out.Exit != nil {
		reply["exitStatus"] = exitStatus(*out.Exit)
	}
	return reply, err
}

func (s *services) waitForTerminal(ctx context.Context, r params) (any, error) {
	if s.isCanned(r.TerminalID) {
		return exitStatus(sandbox.Exit{}), nil
	}
	exit, err := s.terminals.Wait(ctx, r.TerminalID)
	return exitStatus(exit), err
}

func (s *services) killTerminal(ctx context.Context, r params) (any, error) {
	if s.isCanned(r.TerminalID) {
		return struct{}{}, nil
	}
	return struct{}{}, s.terminals.Kill(ctx, r.TerminalID)
}

func (s *services) releaseTerminal(ctx context.Context, r params) (any, error) {
	if s.isCanned(r.TerminalID) {
		return struct{}{}, nil
	}
	return struct{}{}, s.terminals.Release(ctx, r.TerminalID)
}

// exitStatus returns the code or the signal; the other one is null, as the protocol has
// it.
func exitStatus(e sandbox.Exit) map[string]any {
	if e.Signal != "" {
		return map[string]any{"exitCode": nil, "signal": e.Signal}
	}
	return map[string]any{"exitCode": e.Code, "signal": nil}
}

// permission answers by the policy of the test, or with cancelled if the client
// cancelled the turn.
func (s *services) permission(ctx context.Context, r params) (any, error) {
	s.mu.Lock()
	cancelled := s.cancelled[r.SessionID]
	s.mu.Unlock()
	q := sandbox.Request{Kind: sandbox.Kind(r.ToolCall.Kind), Title: r.ToolCall.Title}
	switch r.Subject.Type {
	case "tool_call":
		q.Kind = sandbox.Kind(r.Subject.ToolCall.Kind)
	case "command":
		q.Kind = sandbox.KindExecute
	}
	for _, o := range r.Options {
		q.Options = append(q.Options, sandbox.Option{ID: o.ID, Name: o.Name, Kind: sandbox.OptionKind(o.Kind)})
	}
	d, err := s.permissions.Decide(ctx, q)
	if err != nil || cancelled || d.OptionID == "" {
		return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, err
	}
	return map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": d.OptionID}}, nil
}
