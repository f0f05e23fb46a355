package acp

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A Guard decides about changes of files that the policy allows, for example because another
// agent is changing the same file. Its methods are called at the same time, and must return
// soon.
type Guard interface {
	// Before is asked about a change that is about to be made. It returns the reason to refuse
	// the change, or "" to let it be made. The agent reads the reason if the client makes the
	// change; the protocol has no room for it in the answer to a request for permission.
	Before(ctx context.Context, c Change) (refusal string)

	// After is told that the client made a change that Before allowed.
	After(ctx context.Context, c Change)
}

// A Change is an edit or a command of an agent.
type Change struct {
	ByAgent bool     // the agent makes the change itself, and asks for permission; otherwise the client makes it
	Call    string   // the id of the tool call; empty if it is not known
	Paths   []string // of the files that an edit changes, as the agent wrote them
	Command string   // text for a shell; empty for an edit
	Dir     string   // the folder of the command, or of the session; absolute
}

// IsEmpty reports whether the change names neither files nor a command.
func (c Change) IsEmpty() bool { return len(c.Paths) == 0 && c.Command == "" }

// refused returns the error that answers a change with the reason to refuse it.
func refused(reason string) error {
	return &sandbox.Error{Code: sandbox.CodeRefused, Err: errors.New(reason)}
}

// guardWrites returns a function for [sandbox.Guarded.Around] that asks the guard about each
// write in dir.
func guardWrites(g Guard, dir string) func(ctx context.Context, path string, write func() error) error {
	return func(ctx context.Context, path string, write func() error) error {
		c := Change{Paths: []string{path}, Dir: dir}
		if reason := g.Before(ctx, c); reason != "" {
			return refused(reason)
		}
		if err := write(); err != nil {
			return err
		}
		g.After(context.WithoutCancel(ctx), c)
		return nil
	}
}

// commandLine returns a command as text for a shell.
func commandLine(c sandbox.Command) string {
	if len(c.Args) == 0 {
		return c.Name // a program, or a line for the shell
	}
	words := []string{shell.Word(c.Name)}
	for _, arg := range c.Args {
		words = append(words, shell.Word(arg))
	}
	return strings.Join(words, " ")
}

// guarded returns the decision about a request after the guard was asked about the change that
// the request is for. A refusal chooses the option that rejects the request once: the reason may
// not hold for the next time.
func (s *Session) guarded(ctx context.Context, r *PermissionRequest, d sandbox.Decision) sandbox.Decision {
	g := s.client.opts.Guard
	if g == nil || !d.Allowed {
		return d
	}
	c := s.changeOf(r)
	if c.IsEmpty() {
		return d
	}

	reason := g.Before(ctx, c)
	if reason == "" {
		return d
	}
	d = sandbox.Decision{Reason: reason}
	i := slices.IndexFunc(r.Options, func(o sandbox.Option) bool { return o.Kind == sandbox.RejectOnce })
	if i >= 0 {
		d.OptionID = r.Options[i].ID
	}
	return d
}

// changeOf returns the change that a request is for. Some agents describe it in the tool call
// before the request and not in the request.
func (s *Session) changeOf(r *PermissionRequest) Change {
	var call ToolCall
	switch {
	case r.V1 != nil:
		call = *callV1(&r.V1.ToolCall)
	case r.V2.Subject.Or(noSubject).ToolCall != nil:
		call = *callV2(&r.V2.Subject.Or(noSubject).ToolCall.ToolCall)
	case r.V2.Subject.Or(noSubject).Command != nil:
		subject := r.V2.Subject.Or(noSubject).Command
		call = ToolCall{ID: string(subject.ToolCallID.Or("")), Kind: string(sandbox.KindExecute), Command: subject.Command, Dir: string(subject.Cwd)}
	}

	s.mu.Lock()
	call = s.calls.Get(call.ID).with(&call)
	s.mu.Unlock()
	c := call.Change(s.Dir)
	c.ByAgent = true
	return c
}
