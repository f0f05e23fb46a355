package cli

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/protocol/sandbox"
)

//go:embed plugin/opencode.js
var opencodePlugin string

// opencode is OpenCode. Its plugin runs in the CLI's own process.
var opencode = CLI{
	Name: "opencode", Title: "opencode", Binaries: []string{"opencode"},
	ACP:      []string{"opencode", "acp"},
	installs: []string{".opencode/bin/opencode"},
	noReject: true, // ends the turn
	lastCall: true,
	modes: modes{
		sandbox.PolicyNone:  {Env: []string{opencodePermission("deny")}},
		sandbox.PolicyRead:  {Env: []string{opencodePermission("deny")}},
		sandbox.PolicyWrite: {Env: []string{opencodePermission("ask")}},
		sandbox.PolicyAsk:   {Env: []string{opencodePermission("ask")}},
	},

	connecting: connecting{
		format: jsonFormat{container: "mcp", comments: true, trailingCommas: true, members: opencodeMembers},
		user: layout{
			base:   base{env: "XDG_CONFIG_HOME", below: ".config"},
			config: choice{paths: []string{"{base}/opencode/opencode.json", "{base}/opencode/opencode.jsonc"}},
			// It reads the first of these and no other: a new AGENTS.md would hide
			// a CLAUDE.md that is in use.
			instruction: choice{paths: []string{"{base}/opencode/AGENTS.md", "{home}/.claude/CLAUDE.md"}},
		},
		project: layout{
			config: choice{paths: []string{
				"{base}/opencode.json", "{base}/opencode.jsonc",
				"{base}/.opencode/opencode.json", "{base}/.opencode/opencode.jsonc",
			}},
			instruction: choice{paths: []string{"{base}/AGENTS.md", "{base}/CLAUDE.md", "{base}/CONTEXT.md"}},
		},
		stay: func(c CLI, program []string) []file {
			return []file{{Path: "plugin/parley.js", Text: c.Script(opencodePlugin, program, true), Mark: "Parley in opencode"}}
		},
	},

	launching: launching{
		resume: []string{"--session"}, Mechanism: "plugin",
		hooks:  pluginHooks,
		answer: pluginAnswer,
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
			config["plugin"] = append(plugins, "file://"+p.file("parley.js", c.Script(opencodePlugin, p.Program, p.Wake)))
			instructions, _ := config["instructions"].([]any)
			config["instructions"] = append(instructions, p.file("instructions.md", briefing.Instruction(p.Agent)+"\n"))
			raw, err := json.Marshal(config)
			if err != nil {
				p.err = err
			}
			p.plan.Env = append(p.plan.Env, opencodeConfig+"="+string(raw))
		},
	},

	guarding: guarding{
		tools: map[string]tool{
			"write":       {kind: EditTool, paths: []string{"filePath"}},
			"edit":        {kind: EditTool, paths: []string{"filePath"}},
			"apply_patch": {kind: EditTool, patch: "patchText"}, // with some models, instead of the two above
			"read":        {kind: ReadTool, paths: []string{"filePath"}},
			"bash":        {kind: ShellTool, command: "command", dir: "workdir"},
		},
		deny: pluginDenial,
	},
}

// opencodeConfig is the variable with a configuration that is merged over the files.
const opencodeConfig = "OPENCODE_CONFIG_CONTENT"

// pluginHooks are the hooks that our own plugins call.
var pluginHooks = []Hook{{"start", Start}, {"prompt", Prompt}, {"before", Before}, {"tool", Tool}, {"after", After}, {"turn_end", TurnEnd}, {"waiting", Waiting}, {"end", End}}

// pluginAnswer is the output that our own plugins read.
func pluginAnswer(_ Hook, text string) any { return map[string]string{"notice": text} }

// Script fills the places of a plugin: the words of the parley command, whether mail may
// start turns, and the tools that the guard is asked about.
func (c CLI) Script(text string, program []string, wake bool) string {
	return strings.NewReplacer(
		"PARLEY_COMMAND", literal(program), "PARLEY_WAKE", literal(wake),
		"PARLEY_ASKED", literal(c.askedTools()), "PARLEY_MEMBERS", literal(c.watchedMembers()),
	).Replace(text)
}

// literal returns a value as JavaScript.
func literal(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}

// opencodeMembers returns the entry of an MCP server, as opencode writes it.
func opencodeMembers(s server) []member {
	members := []member{
		{name: "type", value: s.either("local", "remote")},
		{name: "command", value: []string{}}, {name: "environment", value: s.env},
		{name: "url", value: s.url}, {name: "headers", value: s.headers},
		{name: "oauth", value: ""},
		{name: "enabled", value: true, once: true},
	}
	if s.url != "" {
		members[5].value = false // a key that is refused is not a reason to open a browser
	} else {
		members[1].value = append([]string{s.program}, s.args...)
	}
	return members
}

// opencodePermission returns the variable with permissions of opencode, which take the
// place of those in every configuration. The star is for tools that have no name here,
// those of MCP servers included.
func opencodePermission(edit string) string {
	return `OPENCODE_PERMISSION={"*":"ask","read":{"*":"allow","*.env":"ask","*.env.*":"ask","*.env.example":"allow"},` +
		`"glob":"allow","grep":"allow","list":"allow","lsp":"allow","skill":"allow","task":"allow","todoread":"allow","todowrite":"allow",` +
		`"edit":"` + edit + `","bash":"ask","external_directory":"ask"}`
}
