package cli

// gemini is Gemini CLI. A turn of an idle session begins with keys only, so the
// agent sees mail with its next prompt, after a tool call and at the end of a turn.
var gemini = CLI{
	Name: "gemini", Title: "Gemini CLI", Vendor: "google", Binaries: []string{"gemini"},
	ACP:   []string{"gemini", "--acp"},
	modes: careful(Mode{Args: []string{"--approval-mode", "default"}}),

	connecting: connecting{
		format: jsonFormat{container: "mcpServers", comments: true, members: geminiMembers},
		user: layout{
			base:        base{env: "GEMINI_CLI_HOME"},
			config:      choice{paths: []string{"{root}/.gemini/settings.json"}},
			instruction: choice{paths: []string{"{root}/.gemini/GEMINI.md"}},
			note:        "Gemini CLI starts no MCP servers, not even yours, in a folder that you do not trust",
		},
		project: layout{
			config:      choice{paths: []string{"{base}/.gemini/settings.json"}},
			instruction: choice{paths: []string{"{base}/GEMINI.md"}},
			note:        "Gemini CLI uses the settings of a project only if you trust its folder",
		},
		Stays: "Gemini CLI cannot be woken while it is idle: it sees mail with your next prompt, after a tool call and at the end of a turn",
		stay:  hookFile("settings.json", hookSeconds*1000), // milliseconds
	},

	launching: launching{
		Tells: true, RootOnly: true,
		hooks: []Hook{
			{"SessionStart", Start}, {"BeforeAgent", Prompt}, {"BeforeTool", Before}, {"AfterTool", Tool}, {"AfterAgent", TurnEnd}, {"Notification", Waiting}, {"SessionEnd", End},
		},
		Says: true,
		answer: func(h Hook, text string) any {
			if h.Event == TurnEnd {
				return map[string]string{"decision": "deny", "reason": text}
			}
			return claudeAnswer(h, text)
		},
		plan: func(c CLI, p *planner) {
			s := p.server()
			s["trust"] = true
			p.defaults("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "/etc/gemini-cli/system-defaults.json", object{
				"hooks":      c.hookSettings(p.Program, hookSeconds*1000), // milliseconds
				"mcpServers": object{"parley": s},
			})
			if p.Getenv("CLI_TITLE") == "" { // shown in the window's title, instead of the folder's name
				p.plan.Env = append(p.plan.Env, "CLI_TITLE="+p.shownName())
			}
			p.plan.Notes = []string{"Gemini CLI cannot be woken while it is idle: it sees mail with your next prompt and at the end of a turn"}
		},
	},

	guarding: guarding{
		tools: map[string]tool{
			"write_file":        {kind: EditTool, paths: []string{"file_path"}},
			"replace":           {kind: EditTool, paths: []string{"file_path"}},
			"read_file":         {kind: ReadTool, paths: []string{"file_path", "absolute_path"}},
			"run_shell_command": {kind: ShellTool, command: "command", dir: "dir_path"},
		},
		deny: func(reason string) any { return map[string]string{"decision": "deny", "reason": reason} },
	},
	spending: geminiUsage,
}

// geminiMembers returns the entry of an MCP server for Gemini CLI and for Qwen Code, which
// comes from it. Both also know url, whose meaning depends on their version; httpUrl's does
// not.
func geminiMembers(s server) []member {
	return []member{
		{name: "command", value: s.program}, {name: "args", value: s.args}, {name: "env", value: s.env},
		{name: "httpUrl", value: s.url}, {name: "headers", value: s.headers},
		{name: "url", value: ""}, {name: "type", value: ""},
	}
}
