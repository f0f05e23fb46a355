package acp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// A register is a guard that remembers its calls and refuses changes of some text.
type register struct {
	refuses string // part of a path or command

	mu    sync.Mutex // guards calls
	calls []string
}

func (r *register) note(when string, c acp.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, len(c.Paths))
	for i, p := range c.Paths {
		names[i] = filepath.Base(p)
	}
	by := "client"
	if c.ByAgent {
		by = "agent"
	}
	r.calls = append(r.calls, fmt.Sprintf("%s %s %s%s", when, by, strings.Join(names, " "), c.Command))
}

func (r *register) Before(_ context.Context, c acp.Change) string {
	r.note("before", c)
	if r.refuses != "" && strings.Contains(strings.Join(c.Paths, " ")+c.Command, r.refuses) {
		return "planner is changing it"
	}
	return ""
}

func (r *register) After(_ context.Context, c acp.Change) { r.note("after", c) }

func TestGuard(t *testing.T) {
	options := []acpv2.PermissionOption{{OptionID: "never", Kind: acpv2.PermissionOptionKindRejectAlways}, {OptionID: "no", Kind: acpv2.PermissionOptionKindRejectOnce}, {OptionID: "yes", Kind: acpv2.PermissionOptionKindAllowOnce}}
	ask := func(ctx context.Context, t *acp.AgentTurn, call acpv2.ToolCallUpdate) (string, error) {
		out, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
			Title: "change", Options: options, Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{ToolCall: call}}),
		})
		if err != nil || out.Selected == nil {
			return "cancelled", err
		}
		return string(out.Selected.OptionID), nil
	}
	agent := doing(func(ctx context.Context, t *acp.AgentTurn) (string, error) {
		path := filepath.Join(t.Dir, "a.txt")
		edit := acpv2.ToolCallUpdate{
			ToolCallID: "1", Title: acpv2.Set("change a.txt"), Kind: acpv2.Set(acpv2.ToolKindEdit),
			Locations: acpv2.Set([]acpv2.ToolCallLocation{{Path: acpv2.AbsolutePath(path)}}),
		}
		switch t.Text() {
		case "write":
			return "written", t.Files().Write(ctx, path, "new\n")
		case "run":
			id, err := t.Terminals().Create(ctx, sandbox.Command{Name: "echo", Args: []string{"a b"}})
			if err != nil {
				return "", err
			}
			_, err = t.Terminals().Wait(ctx, id)
			return "ran", errors.Join(err, t.Terminals().Release(ctx, id))
		case "ask":
			return ask(ctx, t, edit)
		case "announce": // and ask without the files
			if err := t.ToolCall(ctx, edit); err != nil {
				return "", err
			}
			return ask(ctx, t, acpv2.ToolCallUpdate{ToolCallID: "1"})
		case "command":
			return ask(ctx, t, acpv2.ToolCallUpdate{ToolCallID: "2", Kind: acpv2.Set(acpv2.ToolKindExecute), RawInput: []byte(`{"command":["rm","a b"],"cwd":"/w"}`)})
		}
		return ask(ctx, t, acpv2.ToolCallUpdate{ToolCallID: "3", Kind: acpv2.Set(acpv2.ToolKindRead), Locations: edit.Locations})
	})
	for _, tt := range []struct {
		name, prompt, refuses string
		want                  string // answer, or reason of the error
		calls                 []string
	}{
		{"a write is made between the two calls", "write", "", "written", []string{"before client a.txt", "after client a.txt"}},
		{"a refused write is an error with the reason", "write", "a.txt", "planner is changing it", []string{"before client a.txt"}},
		{"a command is run between them", "run", "", "ran", []string{"before client echo 'a b'", "after client echo 'a b'"}},
		{"a refused command is not run", "run", "echo", "planner is changing it", []string{"before client echo 'a b'"}},
		{"a request for permission is allowed", "ask", "", "yes", []string{"before agent a.txt"}},
		{"or rejected once", "ask", "a.txt", "no", []string{"before agent a.txt"}},
		{"the files may be in the tool call before", "announce", "a.txt", "no", []string{"before agent a.txt"}},
		{"a request for a command has its text", "command", "'a b'", "no", []string{"before agent rm 'a b'"}},
		{"the guard is not asked about reading", "read", "a.txt", "yes", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &register{refuses: tt.refuses}
			client := connect(t, agent, &acp.Options{Policy: sandbox.PolicyYolo, Guard: g})
			s := open(t, client)
			got, _, err := prompt(t, s, tt.prompt).Text()
			var answer *jsonrpc.Error
			if errors.As(err, &answer) {
				got = answer.Message
			}
			if !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if err := client.Close(); err != nil { // the guard was told of the end of commands
				t.Error(err)
			}
			if !slices.Equal(g.calls, tt.calls) {
				t.Errorf("got the calls %q, want %q", g.calls, tt.calls)
			}
			if text, err := os.ReadFile(filepath.Join(s.Dir, "a.txt")); (err == nil) != (got == "written") {
				t.Errorf("a.txt: %q, %v", text, err)
			}
		})
	}
	t.Run("it is not asked about an action that the policy refuses", func(t *testing.T) {
		g := &register{}
		if got, _, err := prompt(t, open(t, connect(t, agent, &acp.Options{Policy: sandbox.PolicyRead, Guard: g})), "ask").Text(); got != "no" && got != "never" {
			t.Errorf("got %q, %v", got, err)
		}
		if g.calls != nil {
			t.Errorf("got the calls %q", g.calls)
		}
	})
}
