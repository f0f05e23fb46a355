package terminal

import (
	_ "embed"
	"encoding/json"

	"github.com/parley-agents/parley/internal/briefing"
)

//go:embed plugin/copilot.mjs
var copilotExtension string

// copilot is GitHub Copilot CLI. Its plugin holds the hooks and an extension, a
// process that the CLI runs beside the session; extensions are experimental there.
var copilot = CLI{
	Name: "copilot", Title: "GitHub Copilot CLI", resume: []string{"--resume"}, Mechanism: "extension",
	Stays: "mail starts a turn of sessions that run with copilot --experimental, which its extensions need",
	hooks: []Hook{
		{"sessionStart", Start}, {"userPromptSubmitted", Prompt}, {"postToolUse", Tool}, {"agentStop", TurnEnd}, {"errorOccurred", Failed}, {"notification", Waiting}, {"sessionEnd", End},
	},
	answer: func(h Hook, text string) any {
		if h.Event == TurnEnd {
			return map[string]string{"decision": "block", "reason": text}
		}
		return map[string]string{"additionalContext": text}
	},
	stay: func(c CLI, program []string) []File {
		hooks, err := json.MarshalIndent(c.copilotHooks(program), "", "  ")
		if err != nil {
			panic(err) // strings always encode
		}
		return []File{
			{Path: "hooks/parley.json", Text: string(hooks) + "\n", Mark: " wake hook copilot"},
			{Path: "extensions/parley/extension.mjs", Text: Script(copilotExtension, program, true), Mark: "Parley in Copilot"},
		}
	},
	plan: func(c CLI, p *planner) {
		manifest := object{"name": "parley", "version": "1.0.0", "description": "Mail of a Parley hub", "hooks": "hooks/hooks.json"}
		p.plan.Args = []string{"--additional-mcp-config", "@" + p.servers(object{"type": "local", "tools": []string{"*"}}), "--allow-tool=parley"}
		if p.Wake {
			manifest["extensions"] = "extensions"
			p.file("plugin/extensions/parley/extension.mjs", p.script(copilotExtension))
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
}

// copilotHooks returns the file with the hooks.
func (c CLI) copilotHooks(program []string) object {
	hooks := object{}
	for _, h := range c.hooks {
		hooks[h.Name] = []object{{"type": "command", "bash": c.command(program, h), "timeoutSec": hookSeconds}}
	}
	return object{"version": 1, "hooks": hooks}
}
