package acp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// doing is an agent that does one thing and says what came of it.
func doing(f func(ctx context.Context, t *acp.AgentTurn) (string, error)) *acp.Agent {
	return &acp.Agent{V2: true, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
		text, err := f(ctx, t)
		if err != nil {
			return "", err
		}
		return acpv2.StopReasonEndTurn, t.Say(ctx, text)
	}}
}

func TestFiles(t *testing.T) {
	agent := doing(func(ctx context.Context, t *acp.AgentTurn) (string, error) {
		files := t.Files()
		if files == nil {
			return "no files", nil
		}
		verb, path, _ := strings.Cut(t.Text(), " ")
		if !filepath.IsAbs(path) {
			path = filepath.Join(t.Dir, path)
		}
		if verb == "write" {
			return "written", files.Write(ctx, path, "new\n")
		}
		return files.Read(ctx, path, 2, 1)
	})
	for _, test := range []struct {
		name   string
		opts   acp.Options
		prompt string
		want   string
		code   int // of the error
	}{
		{"nothing is offered by default", acp.Options{}, "read a.txt", "no files", 0},
		{"a policy that reads lets it read lines", acp.Options{Policy: sandbox.PolicyRead}, "read a.txt", "two\n", 0},
		{"a policy that reads does not offer to write", acp.Options{Policy: sandbox.PolicyRead}, "write a.txt", "", jsonrpc.CodeInternal},
		{"a policy that writes lets it write", acp.Options{Policy: sandbox.PolicyWrite}, "write a.txt", "written", 0},
		{"a policy that writes does not let it write commands that git runs", acp.Options{Policy: sandbox.PolicyWrite}, "write .git/config", "", jsonrpc.CodeInvalidRequest},
		{"nor instructions that agents obey", acp.Options{Policy: sandbox.PolicyWrite}, "write CLAUDE.md", "", jsonrpc.CodeInvalidRequest},
		{"unless a person allows it", acp.Options{Policy: sandbox.PolicyWrite, Ask: func(_ context.Context, r sandbox.Request) (string, error) { return r.Options[0].ID, nil }}, "write CLAUDE.md", "written", 0},
		{"what is outside the folder is refused", acp.Options{Policy: sandbox.PolicyYolo}, "read /etc/hostname", "", jsonrpc.CodeInvalidParams},
		{"a missing file is told as missing", acp.Options{Policy: sandbox.PolicyRead}, "read none.txt", "", -32002},
		{"a person who is asked can refuse", acp.Options{Policy: sandbox.PolicyAsk, Ask: func(context.Context, sandbox.Request) (string, error) { return "", nil }},
			"read a.txt", "", jsonrpc.CodeInvalidRequest},
		{"files can be replaced", acp.Options{Files: noFiles{}}, "read a.txt", "from memory", 0},
		{"version 2 has no files", acp.Options{V2: true, Policy: sandbox.PolicyYolo}, "read a.txt", "no files", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, connect(t, agent, &test.opts))
			path := filepath.Join(s.Dir, "a.txt")
			if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			text, _, err := prompt(t, s, test.prompt).Text()
			var answer *jsonrpc.Error
			switch {
			case test.code != 0 && (!errors.As(err, &answer) || answer.Code != test.code):
				t.Errorf("got %q, %v; want an error with the code %d", text, err, test.code)
			case test.code == 0 && (err != nil || text != test.want):
				t.Errorf("got %q, %v; want %q", text, err, test.want)
			}
			if strings.HasPrefix(test.prompt, "write") {
				got, _ := os.ReadFile(filepath.Join(s.Dir, strings.TrimPrefix(test.prompt, "write ")))
				if wrote := string(got) == "new\n"; wrote != (test.code == 0) {
					t.Errorf("the file holds %q", got)
				}
			}
		})
	}
}

func TestTerminals(t *testing.T) {
	agent := doing(func(ctx context.Context, t *acp.AgentTurn) (string, error) {
		terminals := t.Terminals()
		if terminals == nil {
			return "no terminals", nil
		}
		limit := 1000
		id, err := terminals.Create(ctx, sandbox.Command{Name: "sh", Args: []string{"-c", t.Text()}, Dir: t.Dir, Env: map[string]string{"WHO": "agent"}, OutputLimit: &limit})
		if err != nil {
			return "", err
		}
		if strings.Contains(t.Text(), "sleep") {
			if err := terminals.Kill(ctx, id); err != nil {
				return "", err
			}
		}
		exit, err := terminals.Wait(ctx, id)
		if err != nil {
			return "", err
		}
		out, err := terminals.Output(ctx, id)
		if err != nil || out.Exit == nil || *out.Exit != exit {
			return "", errors.Join(err, errors.New("the output does not tell the exit"))
		}
		if err := terminals.Release(ctx, id); err != nil {
			return "", err
		}
		if _, err := terminals.Output(ctx, id); err == nil {
			return "", errors.New("a released terminal has output")
		}
		if exit.Signal != "" {
			return "signal", nil
		}
		return out.Text + string(rune('0'+exit.Code)), nil
	})
	for _, test := range []struct {
		policy sandbox.Policy
		prompt string
		want   string
	}{
		{sandbox.PolicyWrite, "echo hi", "no terminals"},
		{sandbox.PolicyYolo, "echo hi $WHO; exit 3", "hi agent\n3"},
		{sandbox.PolicyYolo, "sleep 100", "signal"},
	} {
		t.Run(string(test.policy)+" "+test.prompt, func(t *testing.T) {
			c := connect(t, agent, &acp.Options{Policy: test.policy})
			if text, _, err := prompt(t, open(t, c), test.prompt).Text(); err != nil || text != test.want {
				t.Errorf("got %q, %v; want %q", text, err, test.want)
			}
		})
	}
	t.Run("no command is left when the client is closed", func(t *testing.T) {
		started := make(chan struct{})
		c := connect(t, doing(func(ctx context.Context, t *acp.AgentTurn) (string, error) {
			_, err := t.Terminals().Create(ctx, sandbox.Command{Name: "sleep", Args: []string{"1000"}})
			close(started)
			<-ctx.Done()
			return "", err
		}), &acp.Options{Policy: sandbox.PolicyYolo})
		turn := prompt(t, open(t, c), "go")
		<-started
		if err := c.Close(); err != nil { // waits for the command
			t.Error(err)
		}
		turn.Wait()
	})
}

func TestPermissions(t *testing.T) {
	options := []acpv2.PermissionOption{
		{OptionID: "yes", Name: "Yes", Kind: acpv2.PermissionOptionKindAllowOnce},
		{OptionID: "no", Name: "No", Kind: acpv2.PermissionOptionKindRejectOnce},
	}
	ask := func(kind acpv2.ToolKind, paths ...string) *acp.Agent { // in the working folder
		return doing(func(ctx context.Context, t *acp.AgentTurn) (string, error) {
			var locations []acpv2.ToolCallLocation
			for _, p := range paths {
				locations = append(locations, acpv2.ToolCallLocation{Path: acpv2.AbsolutePath(filepath.Join(t.Dir, p))})
			}
			outcome, err := t.AskPermission(ctx, &acpv2.RequestPermissionRequest{
				Title: "do it", Options: options,
				Subject: acpv2.Set(acpv2.RequestPermissionSubject{ToolCall: &acpv2.ToolCallPermissionSubject{
					ToolCall: acpv2.ToolCallUpdate{ToolCallID: "c", Kind: acpv2.Set(kind), Locations: acpv2.Set(locations)},
				}}),
			})
			switch {
			case err != nil:
				return "", err
			case outcome.Approves(options):
				return "approved", nil
			}
			return outcome.Tag(), nil
		})
	}
	for _, test := range []struct {
		name string
		kind acpv2.ToolKind
		opts acp.Options
		want string
	}{
		{"by default everything is rejected", acpv2.ToolKindRead, acp.Options{}, "selected"},
		{"read allows reading", acpv2.ToolKindRead, acp.Options{Policy: sandbox.PolicyRead}, "approved"},
		{"read rejects editing", acpv2.ToolKindEdit, acp.Options{Policy: sandbox.PolicyRead}, "selected"},
		{"write allows editing", acpv2.ToolKindEdit, acp.Options{Policy: sandbox.PolicyWrite}, "approved"},
		{"yolo allows running", acpv2.ToolKindExecute, acp.Options{Policy: sandbox.PolicyYolo}, "approved"},
		{"a person who is asked can allow", acpv2.ToolKindExecute, acp.Options{Policy: sandbox.PolicyAsk, Ask: func(context.Context, sandbox.Request) (string, error) { return "yes", nil }}, "approved"},
		{"R2-032 an option that was not offered is no consent", acpv2.ToolKindRead, acp.Options{Permissions: decide(func(context.Context, *acp.PermissionRequest) (sandbox.Decision, error) {
			return sandbox.Decision{OptionID: "always", Allowed: true}, nil
		})}, "cancelled"},
		{"an error is no consent", acpv2.ToolKindRead, acp.Options{Permissions: decide(func(context.Context, *acp.PermissionRequest) (sandbox.Decision, error) {
			return sandbox.Decision{OptionID: "yes", Allowed: true}, errors.New("nobody is there")
		})}, "cancelled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			both(t, func(t *testing.T, v2 bool) {
				opts := test.opts
				opts.V2 = v2
				if text, _, err := prompt(t, open(t, connect(t, ask(test.kind), &opts)), "go").Text(); err != nil || text != test.want {
					t.Errorf("got %q, %v; want %q", text, err, test.want)
				}
			})
		})
	}
	t.Run("write rejects editing of files that programs run or obey, and outside of the folder", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			for path, want := range map[string]string{"a.go": "approved", ".git/hooks/pre-commit": "selected", "crush.json": "selected", "AGENTS.md": "selected", "../a.go": "selected"} {
				c := connect(t, ask(acpv2.ToolKindEdit, "b.go", path), &acp.Options{Policy: sandbox.PolicyWrite, V2: v2})
				if text, _, err := prompt(t, open(t, c), "go").Text(); err != nil || text != want {
					t.Errorf("%s: got %q, %v; want %q", path, text, err, want)
				}
			}
		})
	})
	t.Run("R2-032 no rule allows what is not known", func(t *testing.T) {
		outcome := make(chan string, 1)
		c := played(t, &acp.Options{V2: true, Policy: sandbox.PolicyYolo}, func(s *script) {
			s.beginV2()
			p := s.next()
			s.say(`{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s1","title":"launch","subject":{"type":"rocket"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}`)
			outcome <- string(s.next().Result)
			s.answer(p, `{"messageId":"m"}`)
			s.update(`{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
		})
		turn := prompt(t, open(t, c), "go")
		if got, want := <-outcome, `{"outcome":{"outcome":"cancelled"}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		turn.Wait()
	})
}

func TestElicitation(t *testing.T) {
	agent := doing(func(ctx context.Context, t *acp.AgentTurn) (string, error) {
		answer, err := t.Elicit(ctx, &acpv2.CreateElicitationRequest{Message: "name?", Form: &acpv2.ElicitationFormMode{
			Session: &acpv2.ElicitationSessionScope{SessionID: t.ID},
			RequestedSchema: acpv2.ElicitationSchema{
				Type:       acpv2.ElicitationSchemaTypeObject,
				Properties: acpv2.Members[acpv2.ElicitationPropertySchema]{{Name: "name", Value: acpv2.ElicitationPropertySchema{String: &acpv2.StringPropertySchema{}}}},
			},
		}})
		if err != nil {
			return "", err
		}
		if answer.Accept != nil {
			name, _ := answer.Accept.Content.Or(nil).Get("name")
			return *name.String, nil
		}
		return answer.Tag(), nil
	})
	ada := "Ada"
	for name, test := range map[string]struct {
		answer *acpv2.CreateElicitationResponse
		err    error
		want   string
	}{
		"what the user says reaches the agent": {answer: &acpv2.CreateElicitationResponse{Accept: &acpv2.ElicitationAcceptAction{
			Content: acpv2.Set(acpv2.Members[acpv2.ElicitationContentValue]{{Name: "name", Value: acpv2.ElicitationContentValue{String: &ada}}}),
		}}, want: "Ada"},
		"a user who cannot be asked has cancelled": {err: errors.New("no terminal"), want: "cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, v2 bool) {
				c := connect(t, agent, &acp.Options{V2: v2, Elicit: func(_ context.Context, r *acpv2.CreateElicitationRequest) (*acpv2.CreateElicitationResponse, error) {
					if r.Message != "name?" {
						return nil, errors.New("another question")
					}
					return test.answer, test.err
				}})
				if text, _, err := prompt(t, open(t, c), "go").Text(); err != nil || text != test.want {
					t.Errorf("got %q, %v; want %q", text, err, test.want)
				}
			})
		})
	}
	t.Run("a client that cannot ask is not asked", func(t *testing.T) {
		_, err := prompt(t, open(t, connect(t, agent, nil)), "go").Wait()
		if err == nil || !strings.Contains(err.Error(), "cannot ask its user questions") {
			t.Errorf("got %v, want that it cannot", err)
		}
	})
}
