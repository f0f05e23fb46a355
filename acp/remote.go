package acp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/sandbox"
)

// Files returns the files of the client, nil if it offers neither to read nor to
// write them. What it does not offer fails.
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

// ask makes a request that only clients of version 1 answer.
func (s *AgentSession) ask(ctx context.Context, m, answer acpv1.Message) error {
	params, err := m.MarshalJSON()
	if err != nil {
		return err
	}
	raw, err := s.client.conn.Call(ctx, m.Method(), json.RawMessage(params))
	if err != nil {
		return fmt.Errorf("acp: %w", err)
	}
	if string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if err := answer.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("acp: the client's answer to %s cannot be read: %w", m.Method(), err)
	}
	return nil
}

// remoteFiles are files that the client reads and writes.
type remoteFiles struct{ session *AgentSession }

func (f remoteFiles) Read(ctx context.Context, path string, line, limit int) (string, error) {
	if !f.session.Client().ReadFiles {
		return "", fmt.Errorf("acp: read %s: the client does not offer it", path)
	}
	m := &acpv1.ReadTextFileRequest{SessionID: acpv1.SessionID(f.session.ID), Path: path}
	if line > 0 {
		m.Line = acpv1.Set(uint32(line))
	}
	if limit != sandbox.AllLines {
		m.Limit = acpv1.Set(uint32(limit))
	}
	var answer acpv1.ReadTextFileResponse
	err := f.session.ask(ctx, m, &answer)
	return answer.Content, err
}

func (f remoteFiles) Write(ctx context.Context, path, text string) error {
	if !f.session.Client().WriteFiles {
		return fmt.Errorf("acp: write %s: the client does not offer it", path)
	}
	m := &acpv1.WriteTextFileRequest{SessionID: acpv1.SessionID(f.session.ID), Path: path, Content: text}
	return f.session.ask(ctx, m, &acpv1.WriteTextFileResponse{})
}

// remoteTerminals are terminals at the client.
type remoteTerminals struct{ session *AgentSession }

func (t remoteTerminals) Create(ctx context.Context, c sandbox.Command) (string, error) {
	m := &acpv1.CreateTerminalRequest{SessionID: acpv1.SessionID(t.session.ID), Command: c.Name, Args: acpv1.Set(append([]string{}, c.Args...))}
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
	var answer acpv1.CreateTerminalResponse
	err := t.session.ask(ctx, m, &answer)
	return string(answer.TerminalID), err
}

func (t remoteTerminals) Output(ctx context.Context, id string) (sandbox.Output, error) {
	m := &acpv1.TerminalOutputRequest{SessionID: acpv1.SessionID(t.session.ID), TerminalID: acpv1.TerminalID(id)}
	var answer acpv1.TerminalOutputResponse
	if err := t.session.ask(ctx, m, &answer); err != nil {
		return sandbox.Output{}, err
	}
	out := sandbox.Output{Text: answer.Output, Truncated: answer.Truncated}
	if e, ok := answer.ExitStatus.Get(); ok {
		out.Exit = &sandbox.Exit{Code: int(e.ExitCode.Or(0)), Signal: e.Signal.Or("")}
	}
	return out, nil
}

func (t remoteTerminals) Wait(ctx context.Context, id string) (sandbox.Exit, error) {
	m := &acpv1.WaitForTerminalExitRequest{SessionID: acpv1.SessionID(t.session.ID), TerminalID: acpv1.TerminalID(id)}
	var answer acpv1.WaitForTerminalExitResponse
	err := t.session.ask(ctx, m, &answer)
	return sandbox.Exit{Code: int(answer.ExitCode.Or(0)), Signal: answer.Signal.Or("")}, err
}

func (t remoteTerminals) Kill(ctx context.Context, id string) error {
	m := &acpv1.KillTerminalRequest{SessionID: acpv1.SessionID(t.session.ID), TerminalID: acpv1.TerminalID(id)}
	return t.session.ask(ctx, m, &acpv1.KillTerminalResponse{})
}

func (t remoteTerminals) Release(ctx context.Context, id string) error {
	m := &acpv1.ReleaseTerminalRequest{SessionID: acpv1.SessionID(t.session.ID), TerminalID: acpv1.TerminalID(id)}
	return t.session.ask(ctx, m, &acpv1.ReleaseTerminalResponse{})
}
