package goodagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A server is an MCP server that the agent is connected to.
type server struct {
	name  string
	tools []string
	call  func(ctx context.Context, method string, params any) (json.RawMessage, error)
	tell  func(ctx context.Context, method string) error
	close func()
}

// How long the agent waits for a server before it does without, and for an
// answer of a tool.
const (
	serverWait = 2 * time.Second
	toolWait   = 30 * time.Second
	maxBody    = 4 << 20
)

// connect connects to servers, all at once. Those that do not answer are left
// out.
func connect(ctx context.Context, list []acpv2.MCPServer, env []string) (out []*server) {
	found := make([]*server, len(list))
	var work sync.WaitGroup
	for i, m := range list {
		work.Go(func() { found[i] = greet(ctx, m, env) })
	}
	work.Wait()
	return slices.DeleteFunc(found, func(s *server) bool { return s == nil })
}

// greet connects to one server, nil if it does not answer.
func greet(ctx context.Context, m acpv2.MCPServer, env []string) *server {
	ctx, cancel := context.WithTimeout(ctx, serverWait)
	defer cancel()

	var s *server
	switch {
	case m.Stdio != nil:
		s = startServer(m.Stdio, env)
	case m.HTTP != nil:
		s = reachServer(m.HTTP)
	case m.Unknown != nil:
		s = streamServer(ctx, m.Unknown)
	}
	if s == nil {
		return nil
	}

	info := object{"name": "goodagent", "version": "1.0.0"}
	_, err := s.call(ctx, "initialize", object{"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": info})
	if err == nil {
		err = s.tell(ctx, "notifications/initialized")
	}
	var listed json.RawMessage
	if err == nil {
		listed, err = s.call(ctx, "tools/list", object{})
	}

	var tools struct {
		Tools []struct{ Name string }
	}
	if err != nil || json.Unmarshal(listed, &tools) != nil {
		s.close()
		return nil
	}

	for _, t := range tools.Tools {
		s.tools = append(s.tools, t.Name)
	}
	return s
}

// startServer starts a server that speaks over its standard streams.
func startServer(m *acpv2.MCPServerStdio, env []string) *server {
	cmd := exec.Command(string(m.Command), m.Args.Or(nil)...)
	cmd.Env = slices.Clone(env)
	for _, v := range m.Env.Or(nil) {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	p, err := jsonrpc.Start(cmd, nil)
	if err != nil {
		return nil
	}
	conn := jsonrpc.Open(p, p, nil)
	return &server{
		name: m.Name,
		call: func(ctx context.Context, method string, params any) (json.RawMessage, error) {
			return conn.Call(ctx, method, params)
		},
		tell:  func(ctx context.Context, method string) error { return conn.Notify(ctx, method, object{}) },
		close: func() { conn.Close(); p.Close() }, // it has ended one way or another
	}
}

// reachServer speaks to a server over HTTP.
func reachServer(m *acpv2.MCPServerHTTP) *server {
	var next atomic.Int64
	var session atomic.Value

	// The server names its session in an answer, and each later request repeats the name.
	post := func(ctx context.Context, body object) (json.RawMessage, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(encode(body)))
		if err != nil {
			return nil, err
		}
		for _, h := range m.Headers.Or(nil) {
			r.Header.Set(h.Name, h.Value)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if id, _ := session.Load().(string); id != "" {
			r.Header.Set("Mcp-Session-Id", id)
		}

		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()

		if id := answer.Header.Get("Mcp-Session-Id"); id != "" {
			session.Store(id)
		}
		if answer.StatusCode >= 300 {
			return nil, fmt.Errorf("the server answered with %s", answer.Status)
		}
		return firstMessage(io.LimitReader(answer.Body, maxBody))
	}

	return &server{
		name: m.Name,
		call: func(ctx context.Context, method string, params any) (json.RawMessage, error) {
			raw, err := post(ctx, object{"jsonrpc": "2.0", "id": next.Add(1), "method": method, "params": params})
			if err != nil {
				return nil, err
			}
			var answer struct {
				Result json.RawMessage
				Error  *jsonrpc.Error
			}
			if err := json.Unmarshal(raw, &answer); err != nil {
				return nil, err
			}
			if answer.Error != nil {
				return nil, answer.Error
			}
			return answer.Result, nil
		},
		tell: func(ctx context.Context, method string) error {
			_, err := post(ctx, object{"jsonrpc": "2.0", "method": method})
			return err
		},
		close: func() {},
	}
}

// firstMessage returns the JSON of a body, which may be that of an event.
func firstMessage(r io.Reader) (json.RawMessage, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxBody)
	for lines.Scan() {
		line := strings.TrimPrefix(lines.Text(), "data:")
		if json.Valid([]byte(line)) {
			return json.RawMessage(line), nil
		}
	}
	return nil, lines.Err()
}

// use calls a tool of one of the servers. It returns the output of the tool as
// blocks of content.
func (c *conversation) use(ctx context.Context, serverName, tool string, args json.RawMessage) (blocks []any, failed bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, toolWait)
	defer cancel()
	for _, s := range c.servers {
		if (serverName != "" && s.name != serverName) || !slices.Contains(s.tools, tool) {
			continue
		}
		if args == nil {
			args = json.RawMessage("{}")
		}
		raw, err := s.call(ctx, "tools/call", object{"name": tool, "arguments": args})
		if err != nil {
			return nil, true, err
		}
		var result struct {
			Content []any `json:"content"`
			IsError bool  `json:"isError"`
		}
		err = json.Unmarshal(raw, &result)
		return result.Content, result.IsError || err != nil, err
	}
	return nil, true, fmt.Errorf("no server has a tool %q", tool)
}
