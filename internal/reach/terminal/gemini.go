package terminal

// gemini is Gemini CLI. A turn of an idle session begins with keys only, so the
// agent sees mail with its next prompt, after a tool call and at the end of a turn.
var gemini = CLI{
	Name: "gemini", Title: "Gemini CLI", Tells: true, RootOnly: true,
	Stays: "Gemini CLI cannot be woken while it is idle: it sees mail with your next prompt, after a tool call and at the end of a turn",
	hooks: []Hook{
		{"SessionStart", Start}, {"BeforeAgent", Prompt}, {"AfterTool", Tool}, {"AfterAgent", TurnEnd}, {"Notification", Waiting}, {"SessionEnd", End},
	},
	answer: func(h Hook, text string) any {
		if h.Event == TurnEnd {
			return map[string]string{"decision": "deny", "reason": text}
		}
		return claudeAnswer(h, text)
	},
	stay: hookFile("settings.json", hookSeconds*1000), // milliseconds
	plan: func(c CLI, p *planner) {
		s := p.server()
		s["trust"] = true
		p.defaults("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "/etc/gemini-cli/system-defaults.json", object{
			"hooks":      c.hookSettings(p.Program, hookSeconds*1000), // milliseconds
			"mcpServers": object{"parley": s},
		})
		p.plan.Notes = []string{"Gemini CLI cannot be woken while it is idle: it sees mail with your next prompt and at the end of a turn"}
	},
}
