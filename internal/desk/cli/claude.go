package cli

import (
	"cmp"
	"encoding/json"
	"path/filepath"

	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// claude is Claude Code. Its plugin holds the hooks and a monitor: a command that
// runs as long as the session and whose lines start turns.
var claude = CLI{
	Name: "claude", Title: "Claude Code", Vendor: "anthropic", Binaries: []string{"claude"},
	ACP: []string{"claude-agent-acp"}, Adapter: "@agentclientprotocol/claude-agent-acp",
	installs: []string{".local/bin/claude", ".claude/local/claude"},
	levels:   true,
	// Rules of its user that allow commands count even so.
	modes: careful(Mode{Session: "default"}).
		with(sandbox.PolicyNone, Mode{Meta: claudeWithout(`"Bash","Edit","NotebookEdit","Write"`)}).
		with(sandbox.PolicyRead, Mode{Meta: claudeWithout(`"Edit","NotebookEdit","Write"`)}),

	connecting: connecting{
		format: jsonFormat{container: "mcpServers", members: claudeMembers},
		user: layout{
			base: base{env: "CLAUDE_CONFIG_DIR", below: ".claude"},
			// A file of this older name is the one that is read, if it exists.
			config:      choice{paths: []string{"{base}/.config.json", "{root}/.claude.json"}, made: 1},
			instruction: choice{paths: []string{"{base}/CLAUDE.md"}},
		},
		project: layout{
			config:      choice{paths: []string{"{base}/.mcp.json"}},
			instruction: choice{paths: []string{"{base}/CLAUDE.md"}},
			note:        "Claude Code asks once whether it may use the MCP servers of a project",
		},
		allowFile: claudeSettings,
		stay: func(c CLI, program []string) []file {
			files := hookFile("settings.json", hookSeconds)(c, program)
			arm := object{"type": "command", "command": commandLine(program, "wake", "arm", c.Name), "asyncRewake": true, "timeout": 86400}
			for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop"} { // it fires once, and no Stop comes after Esc
				entry := files[0].Hooks[event]
				entry["hooks"] = append(entry["hooks"].([]object), arm)
			}
			return files
		},
	},

	launching: launching{
		login:  "claude auth login",
		resume: []string{"--resume"}, Mechanism: "monitor", ProcessVariable: "CLAUDE_PID",
		hooks: []Hook{
			{"SessionStart", Start}, {"UserPromptSubmit", Prompt}, {"PreToolUse", Before}, {"PostToolUse", Tool}, {"PostToolUseFailure", After}, {"Stop", TurnEnd}, {"StopFailure", Failed}, {"Notification", Waiting}, {"PreCompact", Compact}, {"SessionEnd", End},
		},
		Says:   true,
		answer: claudeAnswer,
		plan: func(c CLI, p *planner) {
			manifest := p.json("plugin/.claude-plugin/plugin.json", object{"name": "parley", "version": "1.0.0", "description": "Mail of a Parley hub"})
			p.json("plugin/hooks/hooks.json", object{"hooks": c.hookSettings(p.Program, hookSeconds)})
			if p.Wake {
				p.json("plugin/monitors/monitors.json", []object{{
					"name": "parley-mail", "description": "Parley mail", "command": commandLine(p.Program, "wake", "watch", c.Name),
				}})
			}
			// --mcp-config takes any number of values: a flag has to follow it.
			p.plan.Args = []string{"--mcp-config", p.servers(nil), "--plugin-dir", parent(parent(manifest))}
			if !p.given("--settings") {
				p.plan.Args = append(p.plan.Args, "--settings", p.json("settings.json", p.claudeLaunchSettings()))
			}
			if !p.given("--append-system-prompt") {
				p.plan.Args = append(p.plan.Args, "--append-system-prompt", briefing.Instruction(p.Agent))
			}
		},
	},

	guarding: guarding{
		tools: map[string]tool{
			"Write":        {kind: EditTool, paths: []string{"file_path"}},
			"Edit":         {kind: EditTool, paths: []string{"file_path"}},
			"MultiEdit":    {kind: EditTool, paths: []string{"file_path"}}, // of earlier versions
			"NotebookEdit": {kind: EditTool, paths: []string{"notebook_path"}},
			"Read":         {kind: ReadTool, paths: []string{"file_path"}},
			"Bash":         {kind: ShellTool, command: "command"},
		},
		deny: claudeDenial,
	},
	spending: claudeUsage,
}

// claudeLaunchSettings returns the settings of a launch: the hub's tools need no question, and the agent's
// name is on the screen, below the prompt, unless the user shows something else there.
func (p *planner) claudeLaunchSettings() object {
	all := object{"permissions": object{"allow": []string{"mcp__parley"}}}
	base := p.Getenv("CLAUDE_CONFIG_DIR")
	if base == "" {
		base = filepath.Join(p.Getenv("HOME"), ".claude")
	}
	for _, path := range []string{filepath.Join(base, "settings.json"), ".claude/settings.json", ".claude/settings.local.json"} {
		var own object
		if raw, err := p.Read(path); err == nil && json.Unmarshal(raw, &own) == nil && own["statusLine"] != nil {
			return all
		}
	}
	all["statusLine"] = p.statusLine()
	return all
}

// ClaudeSession is the variable in which Claude Code tells its hooks and monitors the id of
// the session.
const ClaudeSession = "CLAUDE_CODE_SESSION_ID"

const (
	claudeEntrypoint = "CLAUDE_CODE_ENTRYPOINT" // the variable with the way in which it was started
	claudeAttended   = "cli"                    // its value in a terminal with a person
)

// Attended reports whether a person has the session of a hook in a terminal. Claude Code
// says so itself; of other CLIs it is assumed.
func Attended(getenv func(string) string) bool {
	return cmp.Or(getenv(claudeEntrypoint), claudeAttended) == claudeAttended
}

// AttendedByClaude reports whether Claude Code says that a person has the session of a hook
// in a terminal.
func AttendedByClaude(getenv func(string) string) bool {
	return getenv(claudeEntrypoint) == claudeAttended
}

// claudeMembers returns the entry of an MCP server, as Claude Code writes it.
func claudeMembers(s server) []member {
	return []member{
		{name: "type", value: s.either("stdio", "http")},
		{name: "command", value: s.program}, {name: "args", value: s.args}, {name: "env", value: s.env},
		{name: "url", value: s.url}, {name: "headers", value: s.headers},
	}
}

// claudeWithout returns the meta with which Claude Code does not have some tools.
func claudeWithout(tools string) json.RawMessage {
	return json.RawMessage(`{"claudeCode":{"options":{"disallowedTools":[` + tools + `]}}}`)
}

// claudeSettings returns the file with the permissions. It is beside the user's
// instructions; that of a project which is not for version control has a name of its own.
func claudeSettings(files layout, at Place) string {
	if at.Scope == ScopeProject {
		return filepath.Join(at.Dir, ".claude", "settings.local.json")
	}
	return filepath.Join(filepath.Dir(files.instruction.paths[0]), "settings.json")
}
