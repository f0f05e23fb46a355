package terminal

import (
	"cmp"

	"github.com/parley-agents/parley/internal/briefing"
)

// claude is Claude Code. Its plugin holds the hooks and a monitor: a command that
// runs as long as the session and whose lines start turns.
var claude = CLI{
	Name: "claude", Title: "Claude Code", resume: []string{"--resume"}, Mechanism: "monitor", ProcessVariable: "CLAUDE_PID",
	hooks: []Hook{
		{"SessionStart", Start}, {"UserPromptSubmit", Prompt}, {"PostToolUse", Tool}, {"Stop", TurnEnd}, {"StopFailure", Failed}, {"Notification", Waiting}, {"SessionEnd", End},
	},
	answer: claudeAnswer,
	stay: func(c CLI, program []string) []File {
		files := hookFile("settings.json", hookSeconds)(c, program)
		arm := object{"type": "command", "command": commandLine(program, "wake", "arm", c.Name), "asyncRewake": true, "timeout": 86400}
		for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop"} { // it fires once, and no Stop comes after Esc
			entry := files[0].Hooks[event]
			entry["hooks"] = append(entry["hooks"].([]object), arm)
		}
		return files
	},
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
			p.plan.Args = append(p.plan.Args, "--settings", p.json("settings.json", object{"permissions": object{"allow": []string{"mcp__parley"}}}))
		}
		if !p.given("--append-system-prompt") {
			p.plan.Args = append(p.plan.Args, "--append-system-prompt", briefing.Instruction(p.Agent))
		}
	},
}

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
