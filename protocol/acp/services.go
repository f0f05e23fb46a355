package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Files reads and writes files for an agent. Paths are absolute. The methods are
// called at the same time. An error with a [sandbox.Code] reaches the agent with
// the matching code of JSON-RPC; any other error is internal.
type Files interface {
	// Read returns limit lines from the given line on, counted from 1; a limit
	// of sandbox.AllLines means up to the end.
	Read(ctx context.Context, path string, line, limit int) (string, error)

	// Write makes text the whole content of the file.
	Write(ctx context.Context, path, text string) error
}

// Terminals run commands for an agent. A terminal lives from Create until Release
// or the end of its session. The methods are called at the same time.
type Terminals interface {
	// Create starts a command and returns without waiting for it.
	Create(ctx context.Context, c sandbox.Command) (id string, err error)

	// Output returns the output until now, and the exit if the command has ended.
	Output(ctx context.Context, id string) (sandbox.Output, error)

	// Wait waits for the end of the command.
	Wait(ctx context.Context, id string) (sandbox.Exit, error)

	// Kill ends the command and keeps the terminal.
	Kill(ctx context.Context, id string) error

	// Release ends the command and removes the terminal.
	Release(ctx context.Context, id string) error
}

// A workspace holds the files and terminals that an agent may use in one session.
type workspace struct {
	files     Files     // nil if they are not offered
	terminals Terminals // nil if they are not offered
	// close ends the commands and closes the folders. It is called once, when no
	// handler uses the workspace.
	close func() error
}

// openWorkspace opens the workspace of a session in dirs. Files and terminals that
// the options do not replace are those of a sandbox, and each use of them is
// checked against the policy. Version 2 has neither.
// Folders are opened only if something of the sandbox is offered: a session without
// files and terminals works in a folder that this process need not be able to read.
func (c *Client) openWorkspace(dirs []string) (*workspace, error) {
	w := &workspace{files: c.opts.Files, terminals: c.opts.Terminals, close: func() error { return nil }}
	files := w.files == nil && (c.opts.offersRead() || c.opts.offersWrite())
	terminals := w.terminals == nil && c.opts.offersTerminals()
	if c.profile.Version != 1 || (!files && !terminals) {
		return w, nil
	}
	roots, err := sandbox.Open(dirs...)
	if err != nil {
		return nil, err
	}
	permissions := sandbox.NewPermissions(c.opts.Policy, c.opts.Ask)
	if files {
		guarded := sandbox.NewGuarded(sandbox.NewFiles(roots), permissions)
		if c.opts.Guard != nil {
			guarded.Around(guardWrites(c.opts.Guard, dirs[0]))
		}
		w.files = guarded
	}
	w.close = roots.Close
	if terminals {
		t := &guardedTerminals{Terminals: sandbox.NewTerminals(roots, &c.opts.Terminal), permissions: permissions, guard: c.opts.Guard, dir: dirs[0]}
		w.terminals = t
		w.close = func() error { return errors.Join(t.Close(), roots.Close()) }
	}
	return w, nil
}

// guardedTerminals checks each command against the policy, and asks the guard about it.
type guardedTerminals struct {
	*sandbox.Terminals
	permissions *sandbox.Permissions
	guard       Guard  // nil for none
	dir         string // of commands that name none

	commands sync.WaitGroup // whose end the guard is told
}

// Create starts a command that the policy and the guard allow.
func (g *guardedTerminals) Create(ctx context.Context, c sandbox.Command) (string, error) {
	title := "run " + c.Name
	for _, arg := range c.Args {
		title += " " + arg
	}
	if err := g.permissions.Permit(ctx, sandbox.KindExecute, title); err != nil {
		return "", err
	}
	if g.guard == nil {
		return g.Terminals.Create(ctx, c)
	}

	change := Change{Command: commandLine(c), Dir: cmp.Or(c.Dir, g.dir)}
	if reason := g.guard.Before(ctx, change); reason != "" {
		return "", refused(reason)
	}
	id, err := g.Terminals.Create(ctx, c)
	if err != nil {
		return "", err
	}

	// The guard is told when the command has ended, even if its terminal is released first.
	ctx = context.WithoutCancel(ctx)
	ended := g.Terminals.Ended(id)
	g.commands.Go(func() {
		<-ended
		g.guard.After(ctx, change)
	})
	return id, nil
}

// Close ends all commands, and returns when the guard was told.
func (g *guardedTerminals) Close() error {
	err := g.Terminals.Close()
	g.commands.Wait()
	return err
}

// service returns the handler of a request about the files or terminals of a
// session. It refuses the request if the client does not offer them.
func service[T any, P interface {
	*T
	acpv1.Message
}](offered func(*Options) bool, do func(s *Session, ctx context.Context, m P) (acpv1.Message, error)) clientMethod {
	return clientMethod{onlyV1: true, do: func(c *Client, ctx context.Context, _ int, params json.RawMessage) (any, error) {
		m := P(new(T))
		if err := m.UnmarshalJSON(params); err != nil {
			return nil, invalidParams(err)
		}
		if !offered(&c.opts) {
			return nil, jsonrpc.MethodNotFound(m.Method())
		}
		var of struct {
			SessionID SessionID `json:"sessionId"`
		}
		json.Unmarshal(params, &of) // it was decoded as a part of m
		s := c.session(of.SessionID)
		if s == nil {
			return nil, sessionNotFound(of.SessionID)
		}
		answer, err := do(s, ctx, m)
		if err != nil {
			return nil, serviceError(err)
		}
		return encoded(answer)
	}}
}

// serviceCodes holds the JSON-RPC code for each code of the sandbox. A code that is
// missing here is internal.
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

// notFoundWords begin the message for a file that does not exist. Agents search for
// these words, not for the code, to distinguish a new file from a broken one.
const notFoundWords = "Resource not found"

// serviceError returns the error that answers the agent.
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

// The methods below translate a request of the agent for the workspace. Those that may
// ask a person end with the turn.
func (s *Session) readFile(ctx context.Context, m *acpv1.ReadTextFileRequest) (acpv1.Message, error) {
	ctx, done := s.turnContext(ctx) // a person may have to be asked
	defer done()
	limit := sandbox.AllLines
	if n, ok := m.Limit.Get(); ok {
		limit = int(n)
	}
	text, err := s.workspace.files.Read(ctx, m.Path, int(m.Line.Or(1)), limit)
	return &acpv1.ReadTextFileResponse{Content: text}, err
}

func (s *Session) writeFile(ctx context.Context, m *acpv1.WriteTextFileRequest) (acpv1.Message, error) {
	ctx, done := s.turnContext(ctx)
	defer done()
	return &acpv1.WriteTextFileResponse{}, s.workspace.files.Write(ctx, m.Path, m.Content)
}

func (s *Session) createTerminal(ctx context.Context, m *acpv1.CreateTerminalRequest) (acpv1.Message, error) {
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
	ctx, done := s.turnContext(ctx)
	defer done()
	id, err := s.workspace.terminals.Create(ctx, command)
	return &acpv1.CreateTerminalResponse{TerminalID: acpv1.TerminalID(id)}, err
}

// terminalOutput, like the requests below, is not bound to the turn: a command may
// outlive the turn that started it.
func (s *Session) terminalOutput(ctx context.Context, m *acpv1.TerminalOutputRequest) (acpv1.Message, error) {
	out, err := s.workspace.terminals.Output(ctx, string(m.TerminalID))
	answer := &acpv1.TerminalOutputResponse{Output: out.Text, Truncated: out.Truncated}
	if out.Exit != nil {
		code, signal := exitStatus(*out.Exit)
		answer.ExitStatus = acpv1.Set(acpv1.TerminalExitStatus{ExitCode: code, Signal: signal})
	}
	return answer, err
}

func (s *Session) waitForExit(ctx context.Context, m *acpv1.WaitForTerminalExitRequest) (acpv1.Message, error) {
	exit, err := s.workspace.terminals.Wait(ctx, string(m.TerminalID))
	code, signal := exitStatus(exit)
	return &acpv1.WaitForTerminalExitResponse{ExitCode: code, Signal: signal}, err
}

// exitStatus returns the code of a command that ended by itself, or the signal that
// ended it. The other one is null.
func exitStatus(e sandbox.Exit) (code acpv1.Optional[uint32], signal acpv1.Optional[string]) {
	if e.Signal != "" {
		return acpv1.Null[uint32](), acpv1.Set(e.Signal)
	}
	return acpv1.Set(uint32(e.Code)), acpv1.Null[string]()
}

func (s *Session) killTerminal(ctx context.Context, m *acpv1.KillTerminalRequest) (acpv1.Message, error) {
	return &acpv1.KillTerminalResponse{}, s.workspace.terminals.Kill(ctx, string(m.TerminalID))
}

func (s *Session) releaseTerminal(ctx context.Context, m *acpv1.ReleaseTerminalRequest) (acpv1.Message, error) {
	return &acpv1.ReleaseTerminalResponse{}, s.workspace.terminals.Release(ctx, string(m.TerminalID))
}
