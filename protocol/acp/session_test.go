package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// keeper is an agent that can do everything with sessions.
func keeper() *acp.Agent {
	loggedIn := false
	return &acp.Agent{
		V2: true, Prompt: echo,
		Capabilities: []acp.Capability{acp.CanDirectories, acp.CanMCPStdio},
		AuthMethods:  []acpv2.AuthMethod{{Agent: &acpv2.AuthMethodAgent{MethodID: "key", Name: "Key"}}},
		Authenticate: func(_ context.Context, method string) error {
			if method != "key" {
				return fmt.Errorf("unknown method %q", method)
			}
			loggedIn = true
			return nil
		},
		Logout: func(context.Context) error { loggedIn = false; return nil },
		NewSession: func(_ context.Context, s *acp.AgentSession) error {
			if !loggedIn {
				return &jsonrpc.Error{Code: -32000, Message: "log in first"}
			}
			s.Options = []acpv2.SessionConfigOption{
				{ConfigID: "mode", Name: "Mode", Category: acpv2.Set(acpv2.SessionConfigOptionCategoryMode), Select: &acpv2.SessionConfigSelect{
					CurrentValue: "ask",
					Options:      acpv2.SessionConfigSelectOptions{Ungrouped: []acpv2.SessionConfigSelectOption{{Value: "ask", Name: "Ask"}, {Value: "code", Name: "Code"}}},
				}},
				{ConfigID: "fast", Name: "Fast", Boolean: &acpv2.SessionConfigBoolean{}},
			}
			s.Commands = []acpv2.AvailableCommand{{Command: &acpv2.Command{Name: "plan", Description: "Plan", Input: acpv2.Set(acpv2.AvailableCommandInput{Text: &acpv2.TextCommandInput{Hint: "what"}})}}}
			return nil
		},
		LoadSession: func(ctx context.Context, s *acp.AgentSession, replay bool) error {
			if s.ID != "old" {
				return fmt.Errorf("no session with id %q", s.ID)
			}
			if replay {
				return s.Update(ctx, acpv2.SessionUpdate{AgentMessageChunk: &acpv2.ContentChunk{MessageID: "m", Content: acp.Text("as I said")}})
			}
			return nil
		},
		ForkSession: func(_ context.Context, from acp.SessionID, s *acp.AgentSession) error {
			s.ID = from + "-fork"
			return nil
		},
		ListSessions: func(_ context.Context, dir, cursor string) ([]acp.SessionInfo, string, error) {
			if cursor == "" {
				return []acp.SessionInfo{{ID: "a", Dir: "/a", Title: "A"}}, "2", nil
			}
			return []acp.SessionInfo{{ID: "b", Dir: "/b", UpdatedAt: "2026-01-02T03:04:05Z"}}, "", nil
		},
		DeleteSession: func(context.Context, acp.SessionID) error { return nil },
		SetOption: func(_ context.Context, s *acp.AgentSession, id string, value any) error {
			switch id {
			case "mode":
				s.Options[0].Select = &acpv2.SessionConfigSelect{CurrentValue: acpv2.SessionConfigValueID(value.(string)), Options: s.Options[0].Select.Options}
			case "fast":
				s.Options[1].Boolean = &acpv2.SessionConfigBoolean{CurrentValue: value.(bool)}
			default:
				return fmt.Errorf("there is no option %q", id)
			}
			return nil
		},
		Extension: func(_ context.Context, method string, params json.RawMessage) (any, error) {
			return map[string]any{"method": method, "params": params}, nil
		},
	}
}

func TestSessions(t *testing.T) {
	both(t, func(t *testing.T, v2 bool) {
		updates := make(chan *acp.Update, 10)
		c := connect(t, keeper(), &acp.Options{V2: v2, OnUpdate: func(u *acp.Update) { updates <- u }})
		ctx := within(t)
		if _, err := c.NewSession(ctx, t.TempDir(), nil); !errors.Is(err, acp.ErrAuthRequired) {
			t.Fatalf("before Authenticate: got %v, want ErrAuthRequired", err)
		}
		if err := c.Authenticate(ctx, "password"); err == nil {
			t.Error("an unknown method was accepted")
		}
		if err := c.Authenticate(ctx, "key"); err != nil {
			t.Fatal(err)
		}
		s, err := c.NewSession(ctx, t.TempDir(), &acp.SessionOptions{
			Directories: []string{t.TempDir()},
			MCPServers:  []acpv2.MCPServer{{Stdio: &acpv2.MCPServerStdio{Name: "tools", Command: "/bin/tools"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !v2 { // there the commands come after the session
			<-updates
		}
		got := s.Settings()
		if got.Mode != "ask" || len(got.Modes) != 2 || got.Modes[1].Name != "Code" {
			t.Errorf("got mode %q of %v, want ask of two", got.Mode, got.Modes)
		}
		if len(got.Options) != 2 || got.Options[1].Type != "boolean" || got.Options[0].Choices[1].Value != "code" {
			t.Errorf("got options %+v", got.Options)
		}
		if want := (acp.Command{Name: "plan", Description: "Plan", Hint: "what"}); len(got.Commands) != 1 || got.Commands[0] != want {
			t.Errorf("got commands %+v, want %+v", got.Commands, want)
		}
		if err := errors.Join(s.SetMode(ctx, "code"), s.SetSwitch(ctx, "fast", true)); err != nil {
			t.Fatal(err)
		}
		if got := s.Settings(); got.Mode != "code" || !got.Options[1].On {
			t.Errorf("got mode %q and options %+v, want code and fast on", got.Mode, got.Options)
		}
		if err := s.SetOption(ctx, "none", "x"); err == nil {
			t.Error("an option was set that does not exist")
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}

		if _, err := c.LoadSession(ctx, "old", t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		if u := <-updates; u.Text() != "as I said" || u.SessionID() != "old" {
			t.Errorf("got %q of %q, want what was said", u.Text(), u.SessionID())
		}
		if _, err := c.LoadSession(ctx, "old", t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "already open") {
			t.Errorf("got %v, want that it is already open", err)
		}
		if _, err := c.ResumeSession(ctx, "never", t.TempDir(), nil); err == nil {
			t.Error("a session was resumed that never was")
		}
		fork, err := c.ForkSession(ctx, "old", t.TempDir(), nil)
		if err != nil || fork.ID != "old-fork" {
			t.Errorf("got %v, %v; want the session old-fork", fork, err)
		}
		var ids []acp.SessionID
		for info, err := range c.Sessions(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, info.ID)
		}
		if want := []acp.SessionID{"a", "b"}; !slices.Equal(ids, want) {
			t.Errorf("got the sessions %v, want %v", ids, want)
		}
		if err := errors.Join(c.DeleteSession(ctx, "a"), c.Logout(ctx)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a list whose cursor comes again is a fault", func(t *testing.T) {
		agent := keeper()
		agent.ListSessions = func(context.Context, string, string) ([]acp.SessionInfo, string, error) { return nil, "again", nil }
		c := connect(t, agent, nil)
		var last error
		for _, err := range c.Sessions(within(t), "") {
			last = err
		}
		wantFault(t, last, acp.FaultMalformed, "has no end")
	})
	t.Run("the folder must be absolute", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: echo}, nil)
		if _, err := c.NewSession(within(t), "here", nil); err == nil || !strings.Contains(err.Error(), "absolute") {
			t.Errorf("got %v, want that it must be absolute", err)
		}
	})
	t.Run("what version 1 cannot say is not sent", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: echo}, nil)
		server, err := acpv2MCP("_carrier-pigeon")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.NewSession(within(t), t.TempDir(), &acp.SessionOptions{MCPServers: []acpv2.MCPServer{server}})
		var problem *acpv2.Problem
		if !errors.As(err, &problem) || problem.Path != "/mcpServers/0/type" {
			t.Errorf("got %v, want the path of what cannot be said", err)
		}
	})
	t.Run("updates that overtake the answer to session/new are not lost", func(t *testing.T) {
		for range 50 {
			c := played(t, nil, func(s *script) {
				s.answer(s.next(), `{"protocolVersion":1}`)
				f := s.next()
				s.update(`{"sessionUpdate":"session_info_update","title":"early"}`)
				s.answer(f, `{"sessionId":"s1"}`)
				s.update(`{"sessionUpdate":"usage_update","used":1,"size":2}`)
				s.answer(s.next(), `{"stopReason":"end_turn"}`)
			})
			s := open(t, c)
			prompt(t, s, "go").Wait()
			if got := s.Settings(); got.Title != "early" || got.Usage == nil || got.Usage.Used != 1 {
				t.Fatalf("got %+v, want the title and the usage", got)
			}
		}
	})
}

func acpv2MCP(tag string) (server acpv2.MCPServer, err error) {
	return server, server.UnmarshalJSON(fmt.Appendf(nil, `{"type":%q,"name":"x"}`, tag))
}

func TestExtensions(t *testing.T) {
	t.Run("requests and notifications go both ways", func(t *testing.T) {
		both(t, func(t *testing.T, v2 bool) {
			heard := make(chan string, 1)
			agent := keeper()
			agent.NewSession = nil
			agent.Prompt = func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
				raw, err := t.Call(ctx, "_acme/ask", map[string]int{"n": 1})
				if err != nil {
					return "", err
				}
				return acpv2.StopReasonEndTurn, errors.Join(t.Notify(ctx, "_acme/tell", nil), t.Say(ctx, string(raw)))
			}
			c := connect(t, agent, &acp.Options{
				V2:              v2,
				Extension:       func(_ context.Context, method string, params json.RawMessage) (any, error) { return params, nil },
				ExtensionNotice: func(_ context.Context, method string, _ json.RawMessage) { heard <- method },
			})
			text, _, err := prompt(t, open(t, c), "go").Text()
			if err != nil || text != `{"n":1}` || <-heard != "_acme/tell" {
				t.Errorf("got %q, %v; want the params back", text, err)
			}
			raw, err := c.Call(within(t), "_acme/hello", map[string]string{"a": "b"})
			if err != nil || string(raw) != `{"method":"_acme/hello","params":{"a":"b"}}` {
				t.Errorf("got %s, %v; want the call back", raw, err)
			}
		})
	})
	t.Run("R2-005 an unknown method of the protocol is never taken for an extension", func(t *testing.T) {
		answers := make(chan string, 2)
		called := false
		c := played(t, &acp.Options{
			Extension:       func(context.Context, string, json.RawMessage) (any, error) { called = true; return nil, nil },
			ExtensionNotice: func(context.Context, string, json.RawMessage) { called = true },
		}, func(s *script) {
			s.begin()
			p := s.next()
			s.say(`{"jsonrpc":"2.0","method":"session/later","params":{}}`)
			s.say(`{"jsonrpc":"2.0","id":"q","method":"session/ask_later","params":{}}`)
			answers <- string(s.next().Error)
			s.answer(p, `{"stopReason":"end_turn"}`)
		})
		if _, err := prompt(t, open(t, c), "go").Wait(); err != nil {
			t.Fatal(err)
		}
		if got := <-answers; !strings.Contains(got, "-32601") || called {
			t.Errorf("got %s, extension called %v; want that the method is not found", got, called)
		}
	})
	t.Run("R2-004 a method of the protocol cannot be called as an extension", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: echo}, nil)
		_, err := c.Call(within(t), "session/new", nil)
		if err == nil || c.Notify(within(t), "acme/tell", nil) == nil {
			t.Errorf("got %v, want a refusal", err)
		}
	})
	t.Run("R2-006 an unknown update is handed on byte for byte, and told by its owner", func(t *testing.T) {
		for tag, want := range map[string]acp.UpdateKind{"_acme/mood": acp.KindExtension, "mood": acp.KindFuture} {
			raw := fmt.Sprintf(`{"sessionUpdate":%q,"n":12345678901234567890,"x":{"b":1,"a":1}}`, tag)
			c := played(t, nil, func(s *script) {
				s.begin()
				p := s.next()
				s.update(raw)
				s.answer(p, `{"stopReason":"end_turn"}`)
			})
			for u := range prompt(t, open(t, c), "go").Updates() {
				if got := string(u.Unknown().Raw); got != raw || u.Kind() != want || u.Tag() != tag {
					t.Errorf("got %s as %s, want %s as %s", got, u.Kind(), raw, want)
				}
			}
		}
	})
	t.Run("R2-027 an agent sends only what the protocol defines or what it has registered", func(t *testing.T) {
		extensions := &acpv2.Extensions{}
		if err := extensions.Register("ToolKind", "_acme"); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 3)
		c := connect(t, &acp.Agent{V2: true, Extensions: extensions, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			for _, kind := range []acpv2.ToolKind{"_acme", "_other", "dance"} {
				results <- t.ToolCall(ctx, acpv2.ToolCallUpdate{ToolCallID: "c", Title: acpv2.Set("x"), Kind: acpv2.Set(kind)})
			}
			return "finished", nil
		}}, &acp.Options{V2: true})
		_, err := prompt(t, open(t, c), "go").Wait()
		if first, second, third := <-results, <-results, <-results; first != nil || second == nil || third == nil {
			t.Errorf("got %v, %v, %v; want only the registered one to be sent", first, second, third)
		}
		if err == nil || !strings.Contains(err.Error(), "unknown stop reason") {
			t.Errorf("got %v, want that the stop reason does not exist", err)
		}
	})
}
