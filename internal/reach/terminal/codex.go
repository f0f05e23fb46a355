package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// codexSeconds is the limit of a hook. Codex warns of a longer one at the end of a
// session.
const codexSeconds = 3

// codex is Codex CLI. Hooks of its shared server would run with the variables of the
// window that started that server first, and so with the key of another agent.
// Therefore each launch has a server of its own, which the terminal and the queue are
// pointed at and which ends with the launch.
var codex = CLI{
	Name: "codex", Title: "Codex CLI", Mechanism: "queue", Detached: true,
	Stays: "Codex asks once whether you trust the hooks; without that the hub cannot see its sessions or wake them",
	hooks: []Hook{
		{"SessionStart", Start}, {"UserPromptSubmit", Prompt}, {"PostToolUse", Tool}, {"Stop", TurnEnd}, {"PermissionRequest", Waiting}, {"SessionEnd", End},
	},
	answer: claudeAnswer,
	hand:   queue,
	stay:   hookFile("hooks.json", codexSeconds),
	plan: func(c CLI, p *planner) {
		socket := filepath.Join(p.Folder, "codex.sock")
		p.plan.Launch.Socket = "unix://" + socket
		s := p.server()
		overrides := []string{
			"mcp_servers.parley.command=" + toml(s["command"]),
			"mcp_servers.parley.args=" + toml(s["args"]),
			"developer_instructions=" + toml(Instruction(p.Agent)),
		}
		for name, value := range s["env"].(map[string]string) {
			overrides = append(overrides, "mcp_servers.parley.env."+name+"="+toml(value))
		}
		slices.Sort(overrides)
		for _, h := range c.hooks {
			overrides = append(overrides, fmt.Sprintf(`hooks.%s=[{hooks=[{type="command",command=%s,timeout=%d}]}]`, h.Name, toml(c.command(p.Program, h)), codexSeconds))
		}
		p.plan.Beside = []string{"app-server", "--listen", p.plan.Launch.Socket}
		for _, o := range overrides {
			p.plan.Beside = append(p.plan.Beside, "-c", o)
		}
		p.plan.Beside = append(p.plan.Beside, shared(p.Args)...)
		p.plan.Args = []string{"--remote", p.plan.Launch.Socket}
		p.plan.Notes = []string{"Codex asks once whether you trust Parley's hooks; without them the hub cannot see the session or wake it"}
	},
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
		return fmt.Errorf("terminal: codex queue: %w: %s", err, lastLine(string(out)))
	}
	return nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
