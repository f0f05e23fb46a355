package terminal

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/internal/briefing"
)

//go:embed plugin/opencode.js
var opencodePlugin string

// opencode is OpenCode. Its plugin runs in the CLI's own process.
var opencode = CLI{
	Name: "opencode", Title: "opencode", resume: []string{"--session"}, Mechanism: "plugin",
	hooks:  pluginHooks,
	answer: pluginAnswer,
	stay: func(_ CLI, program []string) []File {
		return []File{{Path: "plugin/parley.js", Text: Script(opencodePlugin, program, true), Mark: "Parley in opencode"}}
	},
	plan: func(c CLI, p *planner) {
		config := object{}
		if raw := p.Getenv(opencodeConfig); raw != "" {
			if err := json.Unmarshal([]byte(raw), &config); err != nil {
				p.err = err
			}
		}
		s := p.server()
		servers, _ := config["mcp"].(object)
		if servers == nil {
			servers = object{}
		}
		servers["parley"] = object{"type": "local", "command": append([]string{s["command"].(string)}, s["args"].([]string)...), "environment": s["env"], "enabled": true}
		config["mcp"] = servers
		plugins, _ := config["plugin"].([]any)
		config["plugin"] = append(plugins, "file://"+p.file("parley.js", p.script(opencodePlugin)))
		instructions, _ := config["instructions"].([]any)
		config["instructions"] = append(instructions, p.file("instructions.md", briefing.Instruction(p.Agent)+"\n"))
		raw, err := json.Marshal(config)
		if err != nil {
			p.err = err
		}
		p.plan.Env = append(p.plan.Env, opencodeConfig+"="+string(raw))
	},
}

// opencodeConfig is the variable with a configuration that is merged over the files.
const opencodeConfig = "OPENCODE_CONFIG_CONTENT"

// pluginHooks are the hooks that our own plugins call.
var pluginHooks = []Hook{{"start", Start}, {"prompt", Prompt}, {"tool", Tool}, {"turn_end", TurnEnd}, {"waiting", Waiting}, {"end", End}}

// pluginAnswer is the output that our own plugins read.
func pluginAnswer(_ Hook, text string) any { return map[string]string{"notice": text} }

// script returns the text of a plugin with the words of the parley command in it.
func (p *planner) script(text string) string { return Script(text, p.Program, p.Wake) }

// Script fills the places of a plugin.
func Script(text string, program []string, wake bool) string {
	words, err := json.Marshal(program)
	if err != nil {
		panic(err) // strings always encode
	}
	armed := "false"
	if wake {
		armed = "true"
	}
	return strings.NewReplacer("PARLEY_COMMAND", string(words), "PARLEY_WAKE", armed).Replace(text)
}
