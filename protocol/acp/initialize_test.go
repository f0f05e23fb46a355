package acp_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestNegotiation(t *testing.T) {
	for _, test := range []struct {
		name    string
		v2      bool // whether version 2 is offered
		answers []string
		want    int // the version; 0 for a fault
		code    acp.FaultCode
		text    string
	}{
		{name: "version 1 is agreed on", answers: []string{`"result":{"protocolVersion":1}`}, want: 1},
		{name: "version 2 is agreed on when it was offered", v2: true,
			answers: []string{`"result":{"protocolVersion":2,"info":{"name":"a","version":"1"}}`}, want: 2},
		{name: "an agent of version 1 answers the offer of version 2", v2: true, answers: []string{`"result":{"protocolVersion":1}`}, want: 1},
		{name: "an agent that refuses the offer is asked again", v2: true,
			answers: []string{`"error":{"code":-32022,"message":"unsupported","data":{"requested":2,"supported":[1]}}`, `"result":{"protocolVersion":1}`}, want: 1},
		{name: "version 2 without an offer is a fault",
			answers: []string{`"result":{"protocolVersion":2,"info":{"name":"a","version":"1"}}`}, code: acp.FaultVersion, text: "only version 1 was offered"},
		{name: "a later version is a fault", v2: true, answers: []string{`"result":{"protocolVersion":3}`}, code: acp.FaultVersion, text: "chose version 3"},
		{name: "an answer without a version is a fault", answers: []string{`"result":{}`}, code: acp.FaultMalformed, text: "protocolVersion is missing"},
		{name: "a version that is a date is a fault", answers: []string{`"result":{"protocolVersion":"2024-11-05"}`}, code: acp.FaultVersion, text: "2024-11-05"},
		{name: "a malformed answer of version 2 is a fault", v2: true, answers: []string{`"result":{"protocolVersion":2}`}, code: acp.FaultMalformed, text: "info"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := play(t, &acp.Options{V2: test.v2}, func(s *script) {
				for _, answer := range test.answers {
					s.say(`{"jsonrpc":"2.0","id":%s,%s}`, s.next().ID, answer)
				}
			})
			if test.want == 0 {
				wantFault(t, err, test.code, test.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Agent().Version; got != test.want {
				t.Errorf("got version %d, want %d", got, test.want)
			}
		})
	}
	t.Run("a refusal of version 1 is an error with the agent's words", func(t *testing.T) {
		_, err := play(t, nil, func(s *script) {
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no license"}}`, s.next().ID)
		})
		var answer *jsonrpc.Error
		if !errors.As(err, &answer) || !strings.Contains(err.Error(), "no license") {
			t.Errorf("got %v, want the agent's error", err)
		}
	})
}

// introduced returns the params of initialize that a client sends.
func introduced(t *testing.T, opts *acp.Options) (params map[string]any) {
	t.Helper()
	played(t, opts, func(s *script) {
		f := s.next()
		if err := json.Unmarshal(f.Params, &params); err != nil {
			t.Error(err)
		}
		s.answer(f, `{"protocolVersion":1}`)
	})
	return params
}

func TestIntroduction(t *testing.T) {
	t.Run("the offer of version 2 has the members of both versions", func(t *testing.T) {
		params := introduced(t, &acp.Options{V2: true, Name: "n", Version: "v"})
		for _, name := range []string{"protocolVersion", "clientCapabilities", "clientInfo", "capabilities", "info"} {
			if params[name] == nil {
				t.Errorf("%s is missing in %v", name, params)
			}
		}
		if got := params["protocolVersion"]; got != 2.0 {
			t.Errorf("got version %v, want 2", got)
		}
	})
	t.Run("the offer of version 1 has only its own", func(t *testing.T) {
		params := introduced(t, nil)
		if params["info"] != nil || params["capabilities"] != nil || params["protocolVersion"] != 1.0 {
			t.Errorf("got %v, want members of version 1 only", params)
		}
	})
	ask := func(context.Context, sandbox.Request) (string, error) { return "", nil }
	for _, test := range []struct {
		opts                  acp.Options
		read, write, terminal bool
	}{
		{opts: acp.Options{}},
		{opts: acp.Options{Policy: sandbox.PolicyNone}},
		{opts: acp.Options{Policy: sandbox.PolicyRead}, read: true},
		{opts: acp.Options{Policy: sandbox.PolicyWrite}, read: true, write: true},
		{opts: acp.Options{Policy: sandbox.PolicyYolo}, read: true, write: true, terminal: true},
		{opts: acp.Options{Policy: sandbox.PolicyAsk}},
		{opts: acp.Options{Policy: sandbox.PolicyAsk, Ask: ask}, read: true, write: true, terminal: true},
		{opts: acp.Options{Files: noFiles{}}, read: true, write: true},
	} {
		t.Run("what is offered follows from the policy "+string(test.opts.Policy), func(t *testing.T) {
			caps := introduced(t, &test.opts)["clientCapabilities"].(map[string]any)
			fs := caps["fs"].(map[string]any)
			got := []any{fs["readTextFile"], fs["writeTextFile"], caps["terminal"]}
			if want := []any{test.read, test.write, test.terminal}; !slices.Equal(got, want) {
				t.Errorf("got read, write, terminal %v, want %v", got, want)
			}
		})
	}
}

type noFiles struct{}

func (noFiles) Read(context.Context, string, int, int) (string, error) { return "from memory", nil }
func (noFiles) Write(context.Context, string, string) error            { return nil }

func TestProfile(t *testing.T) {
	agent := &acp.Agent{
		Name: "tester", Title: "The Tester", Version: "3", V2: true, Prompt: echo,
		Capabilities:  []acp.Capability{acp.CanImage, acp.CanMCPHTTP, acp.CanMCPStdio},
		LoadSession:   func(context.Context, *acp.AgentSession, bool) error { return nil },
		DeleteSession: func(context.Context, acp.SessionID) error { return nil },
		ListSessions:  func(context.Context, string, string) ([]acp.SessionInfo, string, error) { return nil, "", nil },
		Logout:        func(context.Context) error { return nil },
		AuthMethods: []acpv2.AuthMethod{
			{Agent: &acpv2.AuthMethodAgent{MethodID: "key", Name: "Key"}},
			{Terminal: &acpv2.AuthMethodTerminal{MethodID: "tty", Name: "Terminal", Args: acpv2.Set([]string{"login"})}},
		},
	}
	want := []acp.Capability{acp.CanLoad, acp.CanResume, acp.CanList, acp.CanClose, acp.CanDelete, acp.CanImage, acp.CanMCPStdio, acp.CanMCPHTTP, acp.CanLogout}
	both(t, func(t *testing.T, v2 bool) {
		p := connect(t, agent, &acp.Options{V2: v2, TerminalAuth: true}).Agent()
		if p.Name != "tester" || p.Title != "The Tester" || p.Release != "3" {
			t.Errorf("got %q, %q, %q; want what the agent is called", p.Name, p.Title, p.Release)
		}
		if !slices.Equal(p.Capabilities, want) {
			t.Errorf("got %q\nwant %q", p.Capabilities, want)
		}
		if len(p.AuthMethods) != 2 || p.AuthMethods[0].Type != "agent" || p.AuthMethods[1].Type != "terminal" || p.AuthMethods[1].Args[0] != "login" {
			t.Errorf("got %+v, want both methods", p.AuthMethods)
		}
	})
	t.Run("a terminal method is not offered in version 1 to a client without terminals", func(t *testing.T) {
		if got := len(connect(t, agent, nil).Agent().AuthMethods); got != 1 {
			t.Errorf("got %d methods, want 1", got)
		}
	})
	t.Run("R2-026 what the agent does not offer is not asked for", func(t *testing.T) {
		c := connect(t, &acp.Agent{Prompt: echo}, nil)
		_, load := c.LoadSession(within(t), "x", t.TempDir(), nil)
		_, resume := c.ResumeSession(within(t), "x", t.TempDir(), nil)
		_, fork := c.ForkSession(within(t), "x", t.TempDir(), nil)
		_, more := c.NewSession(within(t), t.TempDir(), &acp.SessionOptions{Directories: []string{t.TempDir()}})
		for _, err := range []error{load, resume, fork, more, c.DeleteSession(within(t), "x"), c.Logout(within(t))} {
			if !errors.Is(err, acp.ErrUnsupported) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
		}
		for _, err := range c.Sessions(within(t), "") {
			if !errors.Is(err, acp.ErrUnsupported) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
		}
	})
}
