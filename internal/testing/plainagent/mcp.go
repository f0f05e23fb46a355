package plainagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/comply/model"
)

// A server is an MCP server that the client has named. Calls go one after the other, so an
// answer is the next line with a result or an error.
type server struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan object
	tools []string
	calls int
}

// serverPatience is how long a server may take to answer.
const serverPatience = 2 * time.Second

// startServer starts a server, nil if it does not work: a session is opened all the same.
func startServer(ctx context.Context, config object) *server {
	var args []string
	list, _ := config["args"].([]any)
	for _, arg := range list {
		args = append(args, fmt.Sprint(arg))
	}

	s := &server{name: text(config, "name"), cmd: exec.Command(text(config, "command"), args...), lines: make(chan object, 100)}
	s.cmd.Env = os.Environ()
	list, _ = config["env"].([]any)
	for _, item := range list {
		if v, ok := item.(object); ok {
			s.cmd.Env = append(s.cmd.Env, text(v, "name")+"="+text(v, "value"))
		}
	}

	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil || s.cmd.Start() != nil {
		return nil
	}
	s.in = in

	// Requests and notifications of the server are ignored.
	go func() {
		defer close(s.lines)
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			var m object
			if json.Unmarshal(scan.Bytes(), &m) == nil && m["method"] == nil {
				s.lines <- m
			}
		}
	}()

	hello := object{"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": object{"name": "plainagent", "version": "0.1.0"}}
	if _, err := s.call(ctx, "initialize", hello); err != nil {
		s.close()
		return nil
	}
	s.send(object{"jsonrpc": "2.0", "method": "notifications/initialized"})

	result, err := s.call(ctx, "tools/list", object{})
	if err != nil {
		s.close()
		return nil
	}

	tools, _ := result["tools"].([]any)
	for _, item := range tools {
		if tool, ok := item.(object); ok {
			s.tools = append(s.tools, text(tool, "name"))
		}
	}
	return s
}

func (s *server) send(m object) {
	raw, err := json.Marshal(m)
	if err == nil {
		s.in.Write(append(raw, '\n')) // the answer does not come then
	}
}

func (s *server) call(ctx context.Context, method string, params object) (object, error) {
	s.calls++
	s.send(object{"jsonrpc": "2.0", "id": s.calls, "method": method, "params": params})
	timer := time.NewTimer(serverPatience)
	defer timer.Stop()
	select {
	case m, ok := <-s.lines:
		if e, failed := m["error"].(object); failed {
			return nil, errors.New(text(e, "message"))
		}
		if !ok {
			return nil, errors.New("the MCP server has ended")
		}
		result, _ := m["result"].(object)
		return result, nil
	case <-timer.C:
		return nil, errors.New("the MCP server does not answer")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *server) close() {
	s.in.Close()
	kill := time.AfterFunc(time.Second, func() { s.cmd.Process.Kill() }) // a server ends with its input
	defer kill.Stop()
	s.cmd.Wait()
}

func (s *session) close() {
	for _, server := range s.servers {
		server.close()
	}
}

// remote calls a tool of an MCP server.
func (t *turn) remote(ctx context.Context, s model.Step) (string, error) {
	i := slices.IndexFunc(t.servers, func(x *server) bool {
		return slices.Contains(x.tools, s.Name) && (s.Server == "" || x.name == s.Server)
	})
	if i < 0 {
		return "", fmt.Errorf("no MCP server has a tool %s", s.Name)
	}
	args := object{}
	if len(s.Args) > 0 && json.Unmarshal(s.Args, &args) != nil {
		return "", errors.New("the arguments are no object")
	}
	result, err := t.servers[i].call(ctx, "tools/call", object{"name": s.Name, "arguments": args})
	if err != nil {
		return "", err
	}
	var words []string
	content, _ := result["content"].([]any)
	for _, item := range content {
		if block, ok := item.(object); ok {
			words = append(words, text(block, "text"))
		}
	}
	if result["isError"] == true {
		return "", errors.New(strings.Join(words, "\n"))
	}
	return strings.Join(words, "\n"), nil
}
