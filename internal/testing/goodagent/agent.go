package goodagent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/comply/model"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// An object is a JSON object.
type object = map[string]any

// codeAuth is the code of the protocol for a login that is missing.
const codeAuth = -32000

// An Agent is the good agent. A mutant may replace its functions and traits
// before it is served.
type Agent struct {
	*acp.Agent
	Traits Traits
	Stderr io.Writer // for people; a good agent has nothing to tell them

	// Understand returns the steps that the agent takes for a prompt; nil for those that the
	// directives in the prompt ask for.
	Understand func(prompt string) []model.Step

	env   []string
	store *store

	mu     sync.Mutex // guards the fields below
	logout bool       // no user is logged in
	open   map[acp.SessionID]*conversation
}

// Traits are habits of the agent. All are off in a good one.
type Traits struct {
	IgnoreCancel  bool // a turn goes on when it is cancelled
	NeverAsk      bool // it does not ask before it acts
	TakeAnyAnswer bool // whatever answers a question counts as yes
	Forgetful     bool // earlier turns are not remembered
	IgnoreDir     bool // relative paths are meant from the folder of the process
	NoMCP         bool // MCP servers are not started
	QuietTools    bool // tool calls are not reported
	KeepTerminals bool // terminals are not released
	KeepCommands  bool // commands that the agent runs itself go on when the turn is cancelled
	KeepKilled    bool // terminals that were killed are not released
	FixedReads    bool // files are read from the disk, whatever the client says
}

// New returns the agent. env are the variables of its process: HOME is where it
// keeps sessions.
func New(env []string) *Agent {
	a := &Agent{env: env, store: newStore(variable(env, "HOME")), open: map[acp.SessionID]*conversation{}}

	extensions := &acpv2.Extensions{}
	if err := extensions.Register("SessionConfigOptionCategory", ownCategory); err != nil {
		panic("goodagent: " + err.Error()) // only a mistake here
	}

	a.Agent = &acp.Agent{
		Extensions: extensions, Meta: encode(object{"goodagent": object{"hello": true}}),
		Name: "goodagent", Title: "Good agent", Version: "1.0.0", V2: true, Lossy: true,
		Capabilities:  []acp.Capability{acp.CanDirectories, acp.CanImage, acp.CanAudio, acp.CanEmbed, acp.CanMCPStdio, acp.CanMCPHTTP, acp.CanMCPSSE},
		Prompt:        a.prompt,
		NewSession:    a.newSession,
		LoadSession:   a.loadSession,
		ForkSession:   a.forkSession,
		ListSessions:  a.listSessions,
		CloseSession:  a.closeSession,
		DeleteSession: a.deleteSession,
		SetOption:     a.setOption,
		AuthMethods: []acpv2.AuthMethod{
			{Agent: &acpv2.AuthMethodAgent{MethodID: "token", Name: "A token that is always there"}},
			{Terminal: &acpv2.AuthMethodTerminal{MethodID: "login", Name: "Log in", Args: acpv2.Set([]string{"--login"})}},
		},
		Authenticate: a.authenticate,
		Logout: func(context.Context) error {
			a.setLogout(true)
			return nil
		},
	}
	return a
}

// Serve is the agent, as a mutant if m is not nil, until in ends or ctx does.
func Serve(ctx context.Context, m *Mutant, env []string, in io.Reader, out, stderr io.Writer) error {
	a := New(env)
	a.Stderr = stderr
	defer a.end()
	if m == nil {
		return acp.Serve(ctx, a.Agent, in, out)
	}
	if m.Change != nil {
		m.Change(a)
	}
	if m.Out == nil && m.In == nil && m.Bytes == nil && m.Begin == nil {
		return acp.Serve(ctx, a.Agent, in, out)
	}
	in, out, stop := m.filter(in, out)
	defer stop()
	return acp.Serve(ctx, a.Agent, in, out)
}

// end ends the turns of all sessions.
func (a *Agent) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.open {
		c.close()
	}
}

func variable(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func notFound(id acp.SessionID) error {
	return &jsonrpc.Error{Code: int(acpv1.ErrorCodeResourceNotFound), Message: fmt.Sprintf("there is no session %q", id)}
}

func (a *Agent) setLogout(out bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logout = out
}

func (a *Agent) authenticate(_ context.Context, method string) error {
	if method != "token" {
		return invalid("there is no login %q over the protocol", method)
	}
	a.setLogout(false)
	return nil
}

// A conversation is the state of an open session.
type conversation struct {
	*record
	servers []*server

	mu sync.Mutex // guards the record
}

func (c *conversation) close() {
	for _, s := range c.servers {
		s.close()
	}
}

// join makes s a session of the agent, with a record of its earlier messages.
func (a *Agent) join(ctx context.Context, s *acp.AgentSession, r *record) error {
	c := &conversation{record: r}
	r.Dir, r.Directories = s.Dir, s.Directories
	s.Options = options(r)
	s.Commands = commands()
	s.State = c
	if !a.Traits.NoMCP {
		c.servers = connect(ctx, s.MCPServers, a.env)
	}
	a.mu.Lock()
	old := a.open[s.ID]
	a.open[s.ID] = c
	a.mu.Unlock()
	if old != nil {
		old.close()
	}
	return a.store.put(r)
}

func (a *Agent) newSession(ctx context.Context, s *acp.AgentSession) error {
	a.mu.Lock()
	out := a.logout
	a.mu.Unlock()
	if out {
		return &jsonrpc.Error{Code: codeAuth, Message: "log in first"}
	}
	return a.join(ctx, s, &record{ID: s.ID, Mode: modeAsk, Model: "small"})
}

func (a *Agent) loadSession(ctx context.Context, s *acp.AgentSession, replay bool) error {
	r, err := a.store.get(s.ID)
	if err != nil {
		return err
	}
	if replay {
		for _, m := range r.Said {
			chunk := object{"sessionUpdate": m.Role + "_message_chunk", "messageId": m.ID, "content": object{"type": "text", "text": m.Text}}
			if err := tell(ctx, s, chunk, chunk); err != nil {
				return err
			}
		}
	}
	return a.join(ctx, s, r)
}

func (a *Agent) forkSession(ctx context.Context, from acp.SessionID, s *acp.AgentSession) error {
	r, err := a.store.get(from)
	if err != nil {
		return err
	}
	r.ID, r.Created = s.ID, 0
	return a.join(ctx, s, r)
}

func (a *Agent) closeSession(_ context.Context, s *acp.AgentSession) error {
	a.mu.Lock()
	c := a.open[s.ID]
	delete(a.open, s.ID)
	a.mu.Unlock()
	if c != nil {
		c.close()
	}
	return nil
}

func (a *Agent) deleteSession(_ context.Context, id acp.SessionID) error { return a.store.remove(id) }

// pageSize is how many sessions a page has.
const pageSize = 20

func (a *Agent) listSessions(_ context.Context, dir, cursor string) (page []acp.SessionInfo, next string, _ error) {
	if dir != "" && !filepath.IsAbs(dir) {
		return nil, "", invalid("the folder %q is not an absolute path", dir)
	}
	all, err := a.store.all()
	if err != nil {
		return nil, "", err
	}
	after, err := cursorOf(cursor)
	if err != nil {
		return nil, "", invalid("the cursor %q is not one of ours", cursor)
	}
	for _, r := range all {
		switch {
		case dir != "" && r.Dir != dir, r.Created <= after:
		case len(page) == pageSize:
			return page, next, nil
		default:
			page = append(page, acp.SessionInfo{ID: r.ID, Dir: r.Dir, Title: r.Title, UpdatedAt: r.UpdatedAt, Directories: r.Directories})
			next = r.cursor()
		}
	}
	return page, "", nil
}

// tell sends an update: v1 to a client of version 1, else v2.
func tell(ctx context.Context, s *acp.AgentSession, v1, v2 object) error {
	if s.Client().Version == 1 {
		if v1 == nil {
			return nil
		}
		var u acpv1.SessionUpdate
		if err := u.UnmarshalJSON(encode(v1)); err != nil {
			return err
		}
		return s.UpdateV1(ctx, u)
	}
	if v2 == nil {
		return nil
	}
	var u acpv2.SessionUpdate
	if err := u.UnmarshalJSON(encode(v2)); err != nil {
		return err
	}
	return s.Update(ctx, u)
}

// encode returns the JSON of a value that was made here.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("goodagent: " + err.Error()) // only a mistake in this package
	}
	return raw
}
