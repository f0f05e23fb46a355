package acp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Files returns the files of the client, nil if it offers neither to read nor to
// write them. An operation that the client does not offer fails.
func (s *AgentSession) Files() Files {
	if c := s.Client(); !c.ReadFiles && !c.WriteFiles {
		return nil
	}
	return remoteFiles{s}
}

// Terminals returns the terminals of the client, nil if it offers none.
func (s *AgentSession) Terminals() Terminals {
	if !s.Client().Terminals {
		return nil
	}
	return remoteTerminals{s}
}

// ask makes a request that clients of version 1 answer, and returns the answer.
// A is the type of the answer, and P its pointer, which has the methods of a
// message.
func ask[A any, P interface {
	*A
	acpv1.Message
}](ctx context.Context, s *AgentSession, m acpv1.Message) (answer A, err error) {
	params, err := m.MarshalJSON()
	if err != nil {
		return answer, err
	}
	raw, err := s.client.conn.Call(ctx, m.Method(), json.RawMessage(params))
	if err != nil {
		return answer, fmt.Errorf("acp: %w", err)
	}
	if string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if err := P(&answer).UnmarshalJSON(raw); err != nil {
		return answer, fmt.Errorf("acp: cannot read the client's answer to %s: %w", m.Method(), err)
	}
	return answer, nil
}

// remoteFiles are files that the client reads and writes.
type remoteFiles struct{ session *AgentSession }

// Read and the methods below are requests to the client, whose user may refuse them.
func (f remoteFiles) Read(ctx context.Context, path string, line, limit int) (string, error) {
	if !f.session.Client().ReadFiles {
		return "", fmt.Errorf("acp: read %s: the client does not support reading files", path)
	}
	m := &acpv1.ReadTextFileRequest{SessionID: f.session.ID, Path: path}
	if line > 0 {
		m.Line = acpv1.Set(uint32(line))
	}
	if limit != sandbox.AllLines {
		m.Limit = acpv1.Set(uint32(limit))
	}
	answer, err := ask[acpv1.ReadTextFileResponse](ctx, f.session, m)
	return answer.Content, err
}

func (f remoteFiles) Write(ctx context.Context, path, text string) error {
	if !f.session.Client().WriteFiles {
		return fmt.Errorf("acp: write %s: the client does not support writing files", path)
	}
	m := &acpv1.WriteTextFileRequest{SessionID: f.session.ID, Path: path, Content: text}
	_, err := ask[acpv1.WriteTextFileResponse](ctx, f.session, m)
	return err
}

// remoteTerminals are terminals at the client.
type remoteTerminals struct{ session *AgentSession }

func (t remoteTerminals) Create(ctx context.Context, c sandbox.Command) (string, error) {
	m := &acpv1.CreateTerminalRequest{SessionID: t.session.ID, Command: c.Name, Args: acpv1.Set(append([]string{}, c.Args...))}
	if c.Dir != "" {
		m.Cwd = acpv1.Set(c.Dir)
	}
	env := []acpv1.EnvVariable{}
	for name, value := range c.Env {
		env = append(env, acpv1.EnvVariable{Name: name, Value: value})
	}
	m.Env = acpv1.Set(env)
	if c.OutputLimit != nil {
		m.OutputByteLimit = acpv1.Set(uint64(*c.OutputLimit))
	}
	answer, err := ask[acpv1.CreateTerminalResponse](ctx, t.session, m)
	return string(answer.TerminalID), err
}

func (t remoteTerminals) Output(ctx context.Context, id string) (sandbox.Output, error) {
	m := &acpv1.TerminalOutputRequest{SessionID: t.session.ID, TerminalID: acpv1.TerminalID(id)}
	answer, err := ask[acpv1.TerminalOutputResponse](ctx, t.session, m)
	out := sandbox.Output{Text: answer.Output, Truncated: answer.Truncated}
	if e, ok := answer.ExitStatus.Get(); ok {
		out.Exit = &sandbox.Exit{Code: int(e.ExitCode.Or(0)), Signal: e.Signal.Or("")}
	}
	return out, err
}

func (t remoteTerminals) Wait(ctx context.Context, id string) (sandbox.Exit, error) {
	m := &acpv1.WaitForTerminalExitRequest{SessionID: t.session.ID, TerminalID: acpv1.TerminalID(id)}
	answer, err := ask[acpv1.WaitForTerminalExitResponse](ctx, t.session, m)
	return sandbox.Exit{Code: int(answer.ExitCode.Or(0)), Signal: answer.Signal.Or("")}, err
}

func (t remoteTerminals) Kill(ctx context.Context, id string) error {
	m := &acpv1.KillTerminalRequest{SessionID: t.session.ID, TerminalID: acpv1.TerminalID(id)}
	_, err := ask[acpv1.KillTerminalResponse](ctx, t.session, m)
	return err
}

func (t remoteTerminals) Release(ctx context.Context, id string) error {
	m := &acpv1.ReleaseTerminalRequest{SessionID: t.session.ID, TerminalID: acpv1.TerminalID(id)}
	_, err := ask[acpv1.ReleaseTerminalResponse](ctx, t.session, m)
	return err
}
