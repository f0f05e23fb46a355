package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/briefing"
)

// codexSeconds is the limit of a hook. Codex warns of a longer one at the end of a
// session.
const codexSeconds = 3

// codex is Codex CLI. Hooks of its shared server would run with the variables of the
// window that started that server first, and so with the key of another agent.
// Therefore each launch has a server of its own, which the terminal and the queue are
// pointed at and which ends with the launch.
var codex = CLI{
	Name: "codex", Title: "Codex CLI", Vendor: "openai", Binaries: []string{"codex"},
	ACP: []string{"codex-acp"}, Adapter: "@agentclientprotocol/codex-acp",
	// Its sandbox holds commands that run without a question: they can read.
	noReject: true, // ends the turn as cancelled
	levels:   true,
	boxed:    true,
	modes:    careful(Mode{Env: []string{"INITIAL_AGENT_MODE=read-only"}}),

	connecting: connecting{
		format: tomlFormat{},
		user: layout{
			base:        base{env: "CODEX_HOME", below: ".codex"},
			config:      choice{paths: []string{"{base}/config.toml"}},
			instruction: choice{paths: []string{"{base}/AGENTS.override.md", "{base}/AGENTS.md"}, made: 1},
		},
		project: layout{
			config:      choice{paths: []string{"{base}/.codex/config.toml"}},
			instruction: choice{paths: []string{"{base}/AGENTS.override.md", "{base}/AGENTS.md"}, made: 1},
			note:        "Codex reads the configuration of a project only if you trust that project",
		},
		Stays: "Codex asks once whether you trust the hooks; until then the guard is not active, and the hub cannot see its sessions or wake them",
		stay:  hookFile("hooks.json", codexSeconds),
	},

	launching: launching{
		login:  "codex login",
		resume: []string{"resume"}, Mechanism: "queue", Detached: true, Leaves: true, Variables: []string{"CODEX_HOME"},
		Parting:   "ignore Codex commands that name a server: the server ended with this window",
		Forgotten: "Codex keeps your trust in Parley's hooks in its config.toml, under hooks.state; it has no effect without launch",
		hooks: []Hook{
			{"SessionStart", Start}, {"UserPromptSubmit", Prompt}, {"PreToolUse", Before}, {"PostToolUse", Tool}, {"Stop", TurnEnd}, {"PermissionRequest", Waiting}, {"SessionEnd", End},
		},
		Says:   true,
		answer: claudeAnswer,
		turn:   codexTurn,
		opened: codexOpened,
		hand:   queue,
		plan: func(c CLI, p *planner) {
			socket := filepath.Join(p.Folder, "codex.sock")
			p.plan.Launch.Socket = "unix://" + socket
			s := p.server()
			overrides := []string{
				"mcp_servers.parley.command=" + toml(s["command"]),
				"mcp_servers.parley.args=" + toml(s["args"]),
				"developer_instructions=" + toml(briefing.Instruction(p.Agent)),
			}
			for name, value := range s["env"].(map[string]string) {
				overrides = append(overrides, "mcp_servers.parley.env."+name+"="+toml(value))
			}
			slices.Sort(overrides)
			for _, h := range c.hooks {
				overrides = append(overrides, c.codexHook(p.Program, h))
			}
			p.plan.Beside = []string{"app-server", "--listen", p.plan.Launch.Socket}
			for _, o := range overrides {
				p.plan.Beside = append(p.plan.Beside, "-c", o)
			}
			p.plan.Beside = append(p.plan.Beside, shared(p.Args)...)
			p.plan.Args = []string{"--remote", p.plan.Launch.Socket}
			p.plan.Notes = []string{"Codex asks once whether you trust Parley's hooks; until then the guard is not active, and the hub cannot see the session or wake it"}
		},
	},

	guarding: guarding{
		// A patch inside of a shell command is found in the command. What a running command reads
		// from its input comes without a hook.
		tools: map[string]tool{
			"apply_patch": {kind: EditTool, patch: "command"},
			"Bash":        {kind: ShellTool, command: "command"},
		},
		deny:  claudeDenial,
		Trust: "not active until you trust Parley's hooks in Codex",
	},
	spending: codexUsage,
}

// codexHook returns one hook as a setting of the command line.
func (c CLI) codexHook(program []string, h Hook) string {
	matcher := ""
	if tools := c.matcher(h); tools != "" {
		matcher = "matcher=" + toml(tools) + ","
	}
	return fmt.Sprintf(`hooks.%s=[{%shooks=[{type="command",command=%s,timeout=%d}]}]`, h.Name, matcher, toml(c.command(program, h)), codexSeconds)
}

// errorAge is the age of an error in a transcript that says something about now: a session that is
// taken up again has older ones.
const errorAge = 5 * time.Minute

// codexTurn reads a line of the rollout file. Codex runs no hook at the end of a turn that
// failed or that its user interrupted.
func codexTurn(line []byte) (news Turn, ending quota.Ending) {
	var entry struct {
		At      string `json:"timestamp"`
		Payload struct {
			Type  string          `json:"type"`
			Error json.RawMessage `json:"error"`
		} `json:"payload"`
	}
	if json.Unmarshal(line, &entry) != nil {
		return "", ending
	}
	failure := string(entry.Payload.Error)
	failed := failure != "" && failure != "null"
	at, err := time.Parse(time.RFC3339Nano, entry.At)
	isNew := err == nil && time.Since(at) < errorAge
	if failed && isNew {
		ending = quota.Classify("codex", failure, time.Now())
	}
	switch entry.Payload.Type {
	case "task_started", "user_message":
		return TurnRuns, quota.Ending{}
	case "turn_aborted":
		return TurnBroke, quota.Ending{}
	case "task_complete":
		switch {
		case failed && quota.Spent(failure):
			return TurnSpent, ending
		case failed:
			return TurnBroke, ending
		}
		return TurnRuns, quota.Ending{} // its hook tells the end
	}
	return "", quota.Ending{}
}

// shared returns the flags of the user that also change the configuration of the
// server.
func shared(args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch {
		case !slices.Contains([]string{"-c", "--config", "--enable", "--disable"}, name):
		case joined:
			out = append(out, args[i])
		case i+1 < len(args):
			out = append(out, args[i], args[i+1])
			i++
		}
	}
	return out
}

// toml returns a string or a list of strings as TOML, whose basic strings have the
// escapes of JSON.
func toml(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings always encode
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(raw))
}

// queue puts a notice into the queue of a thread. An idle thread begins a turn with it.
func queue(ctx context.Context, t Target, n Notice) error {
	binary, args := "codex", []string{"queue", "--thread", t.Session, "--message", n.Line()}
	if t.Launch.Binary != "" {
		binary = t.Launch.Binary
	}
	if t.Launch.Socket != "" {
		args = append(args, "--remote", t.Launch.Socket)
	}
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cli: codex queue: %w: %s", err, lastLine(string(out)))
	}
	return nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// codexOpened asks the server of a launch for a thread of its terminal that is not in seen. A
// thread is there before its first prompt, when no hook has run yet. The threads that the
// user left stay loaded. The server speaks JSON-RPC, without the member jsonrpc, in a
// WebSocket.
func codexOpened(ctx context.Context, l Launch, seen map[string]bool) (out Opened, err error) {
	socket := strings.TrimPrefix(l.Socket, "unix://")
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	conn, _, err := websocket.Dial(ctx, "ws://localhost/", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		return Opened{}, fmt.Errorf("cli: codex app-server: %w", err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(16 << 20)

	var loaded struct{ Data []string }
	server := codexServer{conn: conn}
	err = server.call(ctx, "initialize", object{"clientInfo": object{"name": "parley", "version": "1"}}, nil)
	if err == nil {
		err = server.write(ctx, object{"method": "initialized"})
	}
	if err == nil {
		err = server.call(ctx, "thread/loaded/list", object{}, &loaded)
	}

	// A thread with a parent belongs to a subagent. It is marked as seen and not returned.
	for _, id := range loaded.Data {
		if seen[id] || err != nil {
			continue
		}
		var read struct {
			Thread struct {
				Path   string
				Parent string `json:"parentThreadId"`
			}
		}
		if err = server.call(ctx, "thread/read", object{"threadId": id}, &read); err != nil {
			break
		}
		seen[id] = true
		if read.Thread.Parent == "" { // of no subagent
			out = Opened{Session: id, Transcript: read.Thread.Path}
		}
	}
	if err != nil {
		return Opened{}, fmt.Errorf("cli: codex app-server: %w", err)
	}
	return out, nil
}

// A codexServer is a connection to an app server.
type codexServer struct {
	conn *websocket.Conn
	last int // id of the last call
}

func (s *codexServer) write(ctx context.Context, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// call calls a method and reads its result into a value, which may be nil. Other frames that
// come meanwhile are skipped.
func (s *codexServer) call(ctx context.Context, method string, params object, into any) error {
	s.last++
	if err := s.write(ctx, object{"id": s.last, "method": method, "params": params}); err != nil {
		return err
	}
	for {
		_, raw, err := s.conn.Read(ctx)
		if err != nil {
			return err
		}
		var answer struct {
			ID     *int
			Method string
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		err = json.Unmarshal(raw, &answer)
		isAnswer := err == nil && answer.ID != nil && *answer.ID == s.last && answer.Method == ""
		if !isAnswer {
			continue
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case into == nil:
			return nil
		}
		return json.Unmarshal(answer.Result, into)
	}
}

// codexMembers returns the entry of an MCP server, as Codex writes it.
func codexMembers(s server) []member {
	return []member{
		{name: "command", value: s.program}, {name: "args", value: s.args}, {name: "env", value: s.env},
		{name: "url", value: s.url}, {name: "http_headers", value: s.headers},
		{name: "bearer_token_env_var", value: ""},
	}
}
