package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// qwen is Qwen Code. It reads prompts from a file that launch names.
var qwen = CLI{
	Name: "qwen", Title: "Qwen Code", Vendor: "alibaba", Binaries: []string{"qwen"},
	ACP:      []string{"qwen", "--acp"},
	noReject: true, // writes through its client
	// Rules of its user that allow tools count even so, unless it does not have the tool.
	// Without the variable its first turn may begin before it has the tools of its MCP servers.
	modes: careful(Mode{Args: []string{"--approval-mode", "default"}, Env: []string{"QWEN_CODE_LEGACY_MCP_BLOCKING=1"}}).
		with(sandbox.PolicyNone, Mode{Args: []string{"--exclude-tools", "edit", "--exclude-tools", "write_file", "--exclude-tools", "run_shell_command"}}).
		with(sandbox.PolicyRead, Mode{Args: []string{"--exclude-tools", "edit", "--exclude-tools", "write_file"}}),

	connecting: connecting{
		format: jsonFormat{container: "mcpServers", comments: true, members: geminiMembers},
		user: layout{
			base:        base{env: "QWEN_HOME", below: ".qwen"},
			config:      choice{paths: []string{"{base}/settings.json"}},
			instruction: choice{paths: []string{"{base}/QWEN.md"}},
		},
		project: layout{
			config:      choice{paths: []string{"{base}/.qwen/settings.json"}},
			instruction: choice{paths: []string{"{base}/QWEN.md"}},
		},
		Stays: "Qwen Code announces mail with your next prompt, after a tool call and at the end of a turn; to wake it while it is idle, start it with parley qwen",
		stay:  hookFile("settings.json", hookSeconds),
	},

	launching: launching{
		resume: []string{"--resume"}, Mechanism: "input-file", Detached: true, Variables: []string{"QWEN_HOME"},
		hooks: []Hook{
			{"SessionStart", Start}, {"UserPromptSubmit", Prompt}, {"PreToolUse", Before}, {"PostToolUse", Tool}, {"PostToolUseFailure", After}, {"Stop", TurnEnd}, {"StopFailure", Failed}, {"Notification", Waiting}, {"SessionEnd", End},
		},
		Says:   true,
		answer: claudeAnswer,
		hand: func(_ context.Context, t Target, n Notice) error {
			if t.Launch.Input == "" {
				return errors.New("cli: qwen was not started with an input file: start it with parley qwen")
			}
			line, err := json.Marshal(map[string]string{"type": "submit", "text": n.Line()})
			if err != nil {
				return err
			}
			f, err := os.OpenFile(t.Launch.Input, os.O_WRONLY|os.O_APPEND, 0) // one write is one line
			if err != nil {
				return err
			}
			_, err = f.Write(append(line, '\n'))
			return errors.Join(err, f.Close())
		},
		plan: func(c CLI, p *planner) {
			p.defaults("QWEN_CODE_SYSTEM_DEFAULTS_PATH", "/etc/qwen-code/system-defaults.json", object{
				"hooks": c.hookSettings(p.Program, hookSeconds), "ui": object{"statusLine": p.statusLine()},
			})
			p.plan.Args = []string{"--mcp-config", p.servers(object{"trust": true})}
			if !p.given("--append-system-prompt") {
				p.plan.Args = append(p.plan.Args, "--append-system-prompt", briefing.Instruction(p.Agent))
			}
			if p.Wake && !p.given("--input-file") {
				p.plan.Launch.Input = p.file("input.jsonl", "")
				p.plan.Args = append(p.plan.Args, "--input-file", p.plan.Launch.Input)
			}
		},
	},

	guarding: guarding{
		tools: map[string]tool{
			"write_file":        {kind: EditTool, paths: []string{"file_path"}},
			"edit":              {kind: EditTool, paths: []string{"file_path"}},
			"notebook_edit":     {kind: EditTool, paths: []string{"notebook_path"}},
			"read_file":         {kind: ReadTool, paths: []string{"file_path", "absolute_path"}},
			"run_shell_command": {kind: ShellTool, command: "command", dir: "directory"},
		},
		deny: claudeDenial,
	},
	spending: qwenUsage,
}

// defaults adds settings to the system's defaults, the settings that every other one
// overrides, and points the CLI at the result. The system's own file, which the
// variable or the usual path names, is a part of it.
func (p *planner) defaults(variable, usual string, more object) {
	path := p.Getenv(variable)
	if path == "" {
		path = usual
	}

	all := object{}
	if raw, err := p.Read(path); err == nil {
		if err := json.Unmarshal(raw, &all); err != nil {
			p.err = err
		}
	}

	// Settings of the system stay, unless the plan sets the same key; lists are joined.
	for name, value := range more {
		old, _ := all[name].(object)
		merged := object{}
		for key, v := range old {
			merged[key] = v
		}
		for key, v := range value.(object) {
			if list, ok := merged[key].([]any); ok { // hooks of the system stay
				for _, entry := range v.([]object) {
					list = append(list, entry)
				}
				merged[key] = list
				continue
			}
			merged[key] = v
		}
		all[name] = merged
	}

	p.plan.Env = append(p.plan.Env, variable+"="+p.json("defaults.json", all))
}

func parent(path string) string { return filepath.Dir(path) }
