package acp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/jsonrpc"
	"github.com/parley-agents/parley/sandbox"
)

// Files are what an agent reads and writes through us. Paths are absolute.
type Files interface {
	// Read returns limit lines from the given line on, counted from 1; a limit
	// of sandbox.AllLines means up to the end.
	Read(ctx context.Context, path string, line, limit int) (string, error)

	// Write makes text the whole content of the file.
	Write(ctx context.Context, path, text string) error
}

// Terminals run commands for an agent.
type Terminals interface {
	Create(ctx context.Context, c sandbox.Command) (id string, err error)
	Output(ctx context.Context, id string) (sandbox.Output, error)
	Wait(ctx context.Context, id string) (sandbox.Exit, error)
	Kill(ctx context.Context, id string) error
	Release(ctx context.Context, id string) error
}

// A workspace is what an agent gets of this machine in one session.
type workspace struct {
	files     Files     // nil if it gets none
	terminals Terminals // nil if it gets none
	close     func() error
}

// openWorkspace opens the workspace of a session in dirs. What is not replaced
// comes from the sandbox, each use of it as far as the policy lets it.
func (c *Client) openWorkspace(dirs []string) (*workspace, error) {
	w := &workspace{files: c.opts.Files, terminals: c.opts.Terminals, close: func() error { return nil }}
	files := w.files == nil && (c.opts.offersRead() || c.opts.offersWrite())
	terminals := w.terminals == nil && c.opts.offersTerminals()
	if c.profile.Version != 1 || !files && !terminals {
		return w, nil
	}
	roots, err := sandbox.Open(dirs...)
	if err != nil {
		return nil, err
	}
	permissions := sandbox.NewPermissions(c.opts.Policy, c.opts.Ask)
	if files {
		w.files = guardedFiles{sandbox.NewFiles(roots, nil), permissions}
	}
	w.close = roots.Close
	if terminals {
		t := sandbox.NewTerminals(roots, &c.opts.Terminal)
		w.terminals = guardedTerminals{t, permissions}
		w.close = func() error { return errors.Join(t.Close(), roots.Close()) }
	}
	return w, nil
}

// guardedFiles are files that are used only if the policy lets it.
type guardedFiles struct {
	files       *sandbox.Files
	permissions *sandbox.Permissions
}

func (g guardedFiles) Read(ctx context.Context, path string, line, limit int) (string, error) {
	if err := g.permissions.Permit(ctx, sandbox.KindRead, "read "+path); err != nil {
		return "", err
	}
	return g.files.Read(ctx, path, line, limit)
}

func (g guardedFiles) Write(ctx context.Context, path, text string) error {
	if err := g.permissions.Permit(ctx, sandbox.KindEdit, "write "+path); err != nil {
		return err
	}
	return g.files.Write(ctx, path, text)
}

// guardedTerminals are terminals in which commands run only if the policy lets
// them.
type guardedTerminals struct {
	*sandbox.Terminals
	permissions *sandbox.Permissions
}

func (g guardedTerminals) Create(ctx context.Context, c sandbox.Command) (string, error) {
	title := "run " + c.Name
	for _, arg := range c.Args {
		title += " " + arg
	}
	if err := g.permissions.Permit(ctx, sandbox.KindExecute, title); err != nil {
		return "", err
	}
	return g.Terminals.Create(ctx, c)
}

// service returns the handler of a request about the workspace of a session.
func service[T any, P interface {
	*T
	acpv1.Message
}](do func(c *Client, ctx context.Context, m P) (acpv1.Message, error)) func(*Client, context.Context, int, json.RawMessage) (any, error) {
	return func(c *Client, ctx context.Context, _ int, params json.RawMessage) (any, error) {
		m := P(new(T))
		if err := m.UnmarshalJSON(params); err != nil {
			return nil, invalidParams(err)
		}
		answer, err := do(c, ctx, m)
		if err != nil {
			return nil, serviceError(err)
		}
		return encoded(answer)
	}
}

// serviceCodes maps the codes of the sandbox. What is not in it is internal.
var serviceCodes = map[sandbox.Code]int{
	sandbox.CodeInvalid:    jsonrpc.CodeInvalidParams,
	sandbox.CodeOutside:    jsonrpc.CodeInvalidParams,
	sandbox.CodeDirectory:  jsonrpc.CodeInvalidParams,
	sandbox.CodeNotRegular: jsonrpc.CodeInvalidParams,
	sandbox.CodeNotText:    jsonrpc.CodeInvalidParams,
	sandbox.CodeTooLarge:   jsonrpc.CodeInvalidParams,
	sandbox.CodeNotFound:   int(acpv1.ErrorCodeResourceNotFound),
	sandbox.CodeRefused:    jsonrpc.CodeInvalidRequest,
	sandbox.CodeLimit:      jsonrpc.CodeInvalidRequest,
}

// notFoundWords begin the answer about what is not there. Agents look for them
// rather than at the code, to tell a file that is new from one that is broken.
const notFoundWords = "Resource not found"

// serviceError tells the agent why something could not be done.
func serviceError(err error) error {
	var answer *jsonrpc.Error
	if errors.As(err, &answer) {
		return answer
	}
	word := sandbox.CodeOf(err)
	code, ok := serviceCodes[word]
	if !ok {
		code = jsonrpc.CodeInternal
	}
	message := err.Error()
	if word == sandbox.CodeNotFound {
		message = notFoundWords + ": " + message
	}
	data, _ := json.Marshal(map[string]sandbox.Code{"reason": word}) // a string: cannot fail
	return &jsonrpc.Error{Code: code, Message: message, Data: data}
}

// filesOf returns the files of a session, and a context that also ends when its
// turn is cancelled: somebody may have to be asked.
func (c *Client) filesOf(ctx context.Context, id acpv1.SessionID, offered bool, method string) (_ context.Context, done func(), _ Files, err error) {
	s := c.session(SessionID(id))
	switch {
	case !offered:
		return nil, nil, nil, jsonrpc.MethodNotFound(method)
	case s == nil:
		return nil, nil, nil, sessionNotFound(SessionID(id))
	}
	ctx, done = s.whileRunning(ctx)
	return ctx, done, s.workspace.files, nil
}

func (c *Client) readFile(ctx context.Context, m *acpv1.ReadTextFileRequest) (acpv1.Message, error) {
	ctx, done, files, err := c.filesOf(ctx, m.SessionID, c.opts.offersRead(), m.Method())
	if err != nil {
		return nil, err
	}
	defer done()
	limit := sandbox.AllLines
	if n, ok := m.Limit.Get(); ok {
		limit = int(n)
	}
	text, err := files.Read(ctx, m.Path, int(m.Line.Or(1)), limit)
	return &acpv1.ReadTextFileResponse{Content: text}, err
}

func (c *Client) writeFile(ctx context.Context, m *acpv1.WriteTextFileRequest) (acpv1.Message, error) {
	ctx, done, files, err := c.filesOf(ctx, m.SessionID, c.opts.offersWrite(), m.Method())
	if err != nil {
		return nil, err
	}
	defer done()
	return &acpv1.WriteTextFileResponse{}, files.Write(ctx, m.Path, m.Content)
}

// terminalsOf returns the terminals of a session.
func (c *Client) terminalsOf(id acpv1.SessionID, method string) (Terminals, error) {
	s := c.session(SessionID(id))
	switch {
	case !c.opts.offersTerminals():
		return nil, jsonrpc.MethodNotFound(method)
	case s == nil:
		return nil, sessionNotFound(SessionID(id))
	}
	return s.workspace.terminals, nil
}

func (c *Client) createTerminal(ctx context.Context, m *acpv1.CreateTerminalRequest) (acpv1.Message, error) {
	terminals, err := c.terminalsOf(m.SessionID, m.Method())
	if err != nil {
		return nil, err
	}
	command := sandbox.Command{Name: m.Command, Args: m.Args.Or(nil), Dir: m.Cwd.Or("")}
	for _, v := range m.Env.Or(nil) {
		if command.Env == nil {
			command.Env = map[string]string{}
		}
		command.Env[v.Name] = v.Value
	}
	if n, ok := m.OutputByteLimit.Get(); ok {
		limit := int(min(n, 1<<31-1))
		command.OutputLimit = &limit
	}
	if s := c.session(SessionID(m.SessionID)); s != nil { // somebody may have to be asked
		var done func()
		ctx, done = s.whileRunning(ctx)
		defer done()
	}
	id, err := terminals.Create(ctx, command)
	return &acpv1.CreateTerminalResponse{TerminalID: acpv1.TerminalID(id)}, err
}

func (c *Client) terminalOutput(ctx context.Context, m *acpv1.TerminalOutputRequest) (acpv1.Message, error) {
	terminals, err := c.terminalsOf(m.SessionID, m.Method())
	if err != nil {
		return nil, err
	}
	out, err := terminals.Output(ctx, string(m.TerminalID))
	answer := &acpv1.TerminalOutputResponse{Output: out.Text, Truncated: out.Truncated}
	if out.Exit != nil {
		code, signal := exitStatus(*out.Exit)
		answer.ExitStatus = acpv1.Set(acpv1.TerminalExitStatus{ExitCode: code, Signal: signal})
	}
	return answer, err
}

func (c *Client) waitForExit(ctx context.Context, m *acpv1.WaitForTerminalExitRequest) (acpv1.Message, error) {
	terminals, err := c.terminalsOf(m.SessionID, m.Method())
	if err != nil {
		return nil, err
	}
	exit, err := terminals.Wait(ctx, string(m.TerminalID))
	code, signal := exitStatus(exit)
	return &acpv1.WaitForTerminalExitResponse{ExitCode: code, Signal: signal}, err
}

// exitStatus returns how a command ended: by itself or by a signal.
func exitStatus(e sandbox.Exit) (code acpv1.Optional[uint32], signal acpv1.Optional[string]) {
	if e.Signal != "" {
		return acpv1.Null[uint32](), acpv1.Set(e.Signal)
	}
	return acpv1.Set(uint32(e.Code)), acpv1.Null[string]()
}

func (c *Client) killTerminal(ctx context.Context, m *acpv1.KillTerminalRequest) (acpv1.Message, error) {
	terminals, err := c.terminalsOf(m.SessionID, m.Method())
	if err != nil {
		return nil, err
	}
	return &acpv1.KillTerminalResponse{}, terminals.Kill(ctx, string(m.TerminalID))
}

func (c *Client) releaseTerminal(ctx context.Context, m *acpv1.ReleaseTerminalRequest) (acpv1.Message, error) {
	terminals, err := c.terminalsOf(m.SessionID, m.Method())
	if err != nil {
		return nil, err
	}
	return &acpv1.ReleaseTerminalResponse{}, terminals.Release(ctx, string(m.TerminalID))
}
