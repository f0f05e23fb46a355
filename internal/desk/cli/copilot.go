package cli

import (
	_ "embed"
	"encoding/json"

	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/protocol/sandbox"
)

//go:embed plugin/copilot.mjs
var copilotExtension string

// copilot is GitHub Copilot CLI. Its plugin holds the hooks and an extension, a
// process that the CLI runs beside the session; extensions are experimental there.
var copilot = CLI{
	Name: "copilot", Title: "GitHub Copilot CLI", Vendor: "github", Binaries: []string{"copilot"},
	ACP:      []string{"copilot", "--acp"},
	noReject: true, // ends the turn
	modes: careful(Mode{Env: []string{"COPILOT_ALLOW_ALL="}}).
		with(sandbox.PolicyNone, Mode{Args: []string{"--deny-tool=shell", "--deny-tool=write"}}).
		with(sandbox.PolicyRead, Mode{Args: []string{"--deny-tool=write"}}),

	connecting: connecting{
		format: jsonFormat{container: "mcpServers", members: copilotMembers},
		user: layout{
			base:        base{env: "COPILOT_HOME", below: ".copilot"},
			config:      choice{paths: []string{"{base}/mcp-config.json"}},
			instruction: choice{paths: []string{"{base}/copilot-instructions.md"}},
		},
		project: layout{
			// It reads .mcp.json too, but there Claude Code keeps its own entry.
			config:      choice{paths: []string{"{base}/.github/mcp.json"}},
			instruction: choice{paths: []string{"{base}/AGENTS.md"}},
			note:        "Copilot reads the configuration of a project only if you trust its folder",
		},
		Stays: "mail starts a turn of sessions that run with copilot --experimental, which its extensions need",
		stay: func(c CLI, program []string) []file {
			hooks, err := json.MarshalIndent(c.copilotHooks(program), "", "  ")
			if err != nil {
				panic(err) // strings always encode
			}
			return []file{
				{Path: "hooks/parley.json", Text: string(hooks) + "\n", Mark: " wake hook copilot"},
				{Path: "extensions/parley/extension.mjs", Text: c.Script(copilotExtension, program, true), Mark: "Parley in Copilot"},
			}
		},
	},

	launching: launching{
		resume: []string{"--resume"}, Mechanism: "extension",
		hooks: []Hook{
			{"sessionStart", Start}, {"userPromptSubmitted", Prompt}, {"preToolUse", Before}, {"postToolUse", Tool}, {"agentStop", TurnEnd}, {"errorOccurred", Failed}, {"notification", Waiting}, {"sessionEnd", End},
		},
		answer: func(h Hook, text string) any {
			if h.Event == TurnEnd {
				return map[string]string{"decision": "block", "reason": text}
			}
			return map[string]string{"additionalContext": text}
		},
		plan: func(c CLI, p *planner) {
			manifest := object{"name": "parley", "version": "1.0.0", "description": "Mail of a Parley hub", "hooks": "hooks/hooks.json"}
			p.plan.Args = []string{"--additional-mcp-config", "@" + p.servers(object{"type": "local", "tools": []string{"*"}}), "--allow-tool=parley"}
			if p.Wake {
				manifest["extensions"] = "extensions"
				p.file("plugin/extensions/parley/extension.mjs", c.Script(copilotExtension, p.Program, p.Wake))
				p.plan.Args = append(p.plan.Args, "--experimental")
				p.plan.Notes = []string{"Copilot runs with --experimental, which its extensions need"}
			}
			p.json("plugin/hooks/hooks.json", c.copilotHooks(p.Program))
			p.plan.Args = append(p.plan.Args, "--plugin-dir", parent(parent(p.json("plugin/.plugin/plugin.json", manifest))))
			dirs := parent(p.file("instructions/AGENTS.md", briefing.Instruction(p.Agent)+"\n"))
			if old := p.Getenv("COPILOT_CUSTOM_INSTRUCTIONS_DIRS"); old != "" {
				dirs = old + "," + dirs
			}
			p.plan.Env = append(p.plan.Env, "COPILOT_CUSTOM_INSTRUCTIONS_DIRS="+dirs)
		},
	},

	guarding: guarding{
		tools: map[string]tool{
			"create": {kind: EditTool, paths: []string{"path"}},
			"edit":   {kind: EditTool, paths: []string{"path"}},
			"view":   {kind: ReadTool, paths: []string{"path"}},
			"bash":   {kind: ShellTool, command: "command"},
		},
		deny: func(reason string) any {
			return map[string]string{"permissionDecision": "deny", "permissionDecisionReason": reason}
		},
	},
	spending: copilotUsage,
}

// copilotHooks returns the file with the hooks. A hook before a tool that fails would refuse
// the call, so that its exit code is always 0.
func (c CLI) copilotHooks(program []string) object {
	hooks := object{}
	for _, h := range c.hooks {
		command := c.command(program, h)
		if h.Event == Before {
			command += " || :"
		}
		hooks[h.Name] = []object{{"type": "command", "bash": command, "timeoutSec": hookSeconds}}
	}
	return object{"version": 1, "hooks": hooks}
}

// copilotMembers returns the entry of an MCP server, as Copilot writes it.
func copilotMembers(s server) []member {
	return []member{
		{name: "type", value: s.either("local", "http")},
		{name: "command", value: s.program}, {name: "args", value: s.args}, {name: "env", value: s.env},
		{name: "url", value: s.url}, {name: "headers", value: s.headers},
		{name: "tools", value: []string{"*"}, once: true},
	}
}
