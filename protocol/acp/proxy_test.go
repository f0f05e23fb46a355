package acp_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

func init() {
	agents["version 2"] = func() {
		extensions := &acpv2.Extensions{}
		if err := extensions.Register("ToolKind", "_knit"); err != nil {
			panic(err)
		}
		acp.Serve(context.Background(), &acp.Agent{V2: true, Name: "second", Extensions: extensions, Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			if t.Text() == "wait" {
				if err := t.Say(ctx, "working"); err != nil {
					return "", err
				}
				return untilCancelled(ctx, t)
			}
			if t.Text() == "knit" {
				for _, id := range []string{"a", "b"} {
					call := acpv2.ToolCallUpdate{ToolCallID: acpv2.ToolCallID(id), Title: acpv2.Set("Knit"), Kind: acpv2.Set(acpv2.ToolKind("_knit")), Status: acpv2.Set(acpv2.ToolCallStatusCompleted)}
					if err := t.ToolCall(ctx, call); err != nil {
						return "", err
					}
				}
			}
			return echo(ctx, t)
		}}, os.Stdin, os.Stdout)
	}
	agents["version 1"] = func() { acp.Serve(context.Background(), &acp.Agent{Prompt: echo}, os.Stdin, os.Stdout) }
}

// proxied returns a client of version 1 that is connected to an agent through a proxy.
func proxied(t *testing.T, mode string) (*acp.Client, error) {
	t.Helper()
	fromClient, toProxy := io.Pipe()
	fromProxy, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- (&acp.Proxy{}).Serve(context.Background(), self(t, mode), fromClient, toClient)
		toClient.Close()
	}()
	c, err := acp.Connect(within(t), fromProxy, toProxy, nil)
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		toProxy.Close()
		if err := <-served; err != nil && !strings.Contains(err.Error(), "closed pipe") {
			t.Errorf("Serve: %v", err)
		}
	})
	return c, err
}

func TestProxy(t *testing.T) {
	t.Run("a client of version 1 talks to an agent of version 2", func(t *testing.T) {
		c, err := proxied(t, "version 2")
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Agent(); p.Version != 1 || p.Name != "second" {
			t.Errorf("got %+v", p)
		}
		s := open(t, c)
		for range 2 { // a session has one prompt after the other
			turn := prompt(t, s, "one two three")
			var said strings.Builder
			for u := range turn.Updates() {
				said.WriteString(u.Text())
			}
			if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonEndTurn || said.String() != "one two three" {
				t.Errorf("got %q, %v, %v", said.String(), r, err)
			}
		}
	})
	t.Run("a cancelled turn ends as cancelled", func(t *testing.T) {
		c, err := proxied(t, "version 2")
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, c)
		for range 50 {
			turn := prompt(t, s, "wait")
			if err := s.Cancel(within(t)); err != nil {
				t.Fatal(err)
			}
			if r, err := turn.Wait(); err != nil || r.StopReason != acpv2.StopReasonCancelled {
				t.Fatalf("got %v, %v", r, err)
			}
		}
	})
	t.Run("an agent of version 1 needs no proxy", func(t *testing.T) {
		if _, err := proxied(t, "version 1"); err == nil || !strings.Contains(err.Error(), "start it without the proxy") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an agent that ends is an error with its standard error", func(t *testing.T) {
		in, w := io.Pipe()
		defer w.Close()
		err := (&acp.Proxy{}).Serve(within(t), self(t, "exits at once"), in, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "no API key") {
			t.Errorf("got %v", err)
		}
	})
}

// TestProxyLosses shows that a proxy tells of values that version 1 does not have, and that a
// strict one fails there, and only there.
func TestProxyLosses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		text   string
		strict bool
		losses int
		ends   string // a part of the error that ends the proxy
	}{
		{name: "nothing is lost of plain text", text: "one two", strict: true, losses: 1}, // the agent lacks a capability
		{name: "a replaced value is told", text: "knit", losses: 3},
		{name: "a strict proxy fails", text: "knit", strict: true, losses: 2, ends: "/update/kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var losses []error
			proxy := &acp.Proxy{Strict: tt.strict, OnLoss: func(err error) { losses = append(losses, err) }}
			fromClient, toProxy := io.Pipe()
			fromProxy, toClient := io.Pipe()
			served := make(chan error, 1)
			go func() {
				served <- proxy.Serve(context.Background(), self(t, "version 2"), fromClient, toClient)
				toClient.Close()
			}()
			c, err := acp.Connect(within(t), fromProxy, toProxy, nil)
			if err != nil {
				t.Fatal(err)
			}

			turn := prompt(t, open(t, c), tt.text)
			for range turn.Updates() {
			}
			_, err = turn.Wait()
			if (err != nil) != (tt.ends != "") {
				t.Errorf("the turn ended with %v", err)
			}

			if tt.ends == "" {
				c.Close()
				toProxy.Close()
			}
			err = <-served
			switch {
			case tt.ends != "" && (err == nil || !strings.Contains(err.Error(), tt.ends)):
				t.Errorf("got %v, want an error with %q", err, tt.ends)
			case tt.ends == "" && err != nil && !strings.Contains(err.Error(), "closed pipe"):
				t.Errorf("got %v", err)
			}
			if len(losses) != tt.losses {
				t.Errorf("got the losses %v, want %d", losses, tt.losses)
			}
			c.Close()
			toProxy.Close()
		})
	}
}

func TestValidator(t *testing.T) {
	for name, tt := range map[string]struct {
		v2   bool
		want string // a part of the last error; "" if there is none
		in   []string
	}{
		"a conversation": {in: []string{
			`out {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`, `in {"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`,
			`in {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}}}`,
		}},
		"params":                       {want: `/params of session/new: acp: `, in: []string{`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"mcpServers":[]}}`}},
		"a result":                     {want: `/result of session/new: acp: `, in: []string{`out {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`, `in {"jsonrpc":"2.0","id":1,"result":{}}`}},
		"ids of two sides":             {in: []string{`out {"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`, `in {"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/a"}}`, `out {"jsonrpc":"2.0","id":1,"result":{"content":"c"}}`}},
		"an unknown method":            {want: `unknown method "session/knit"`, in: []string{`{"jsonrpc":"2.0","id":1,"method":"session/knit"}`}},
		"a method of version 1":        {v2: true, want: `unknown method "fs/read_text_file"`, in: []string{`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file"}`}},
		"a request without an id":      {want: "must have an id", in: []string{`{"jsonrpc":"2.0","method":"session/new","params":{"cwd":"/","mcpServers":[]}}`}},
		"an extension":                 {in: []string{`{"jsonrpc":"2.0","id":1,"method":"_x","params":[1]}`}},
		"not JSON-RPC":                 {want: `"jsonrpc"`, in: []string{`{"id":1,"method":"session/new"}`}},
		"a response without a request": {in: []string{`{"jsonrpc":"2.0","id":9,"result":{}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			v := &acp.Validator{V2: tt.v2}
			var last error
			for _, line := range tt.in {
				from, raw := "", line
				if !strings.HasPrefix(line, "{") {
					from, raw, _ = strings.Cut(line, " ")
				}
				last = v.Check(from, []byte(raw))
			}
			if tt.want == "" && last != nil || tt.want != "" && (last == nil || !strings.Contains(last.Error(), tt.want)) {
				t.Errorf("got %v, want %q", last, tt.want)
			}
		})
	}
}
