package cli

import (
	_ "embed"
	"strings"

	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/internal/ground/text/shell"
)

//go:embed plugin/pi.ts
var piExtension string

// pi is the coding agent of that name. It has no MCP: its agent runs parley in the
// shell.
var pi = CLI{
	Name: "pi", Title: "pi", Binaries: []string{"pi"},

	launching: launching{
		resume: []string{"--session"}, Mechanism: "extension",
		hooks:  pluginHooks,
		answer: pluginAnswer,
		plan: func(c CLI, p *planner) {
			p.plan.Args = []string{"-e", p.file("parley.ts", strings.ReplaceAll(c.Script(piExtension, p.Program, p.Wake), "PARLEY_SHOWN", literal(p.shownName()))), "--append-system-prompt", briefing.ShellInstruction(p.Agent, commandLine(p.Program))}
		},
	},

	guarding: guarding{
		tools: map[string]tool{
			"write": {kind: EditTool, paths: []string{"path"}},
			"edit":  {kind: EditTool, paths: []string{"path"}},
			"read":  {kind: ReadTool, paths: []string{"path"}},
			"bash":  {kind: ShellTool, command: "command"},
		},
		deny: pluginDenial,
	},
}

// commandLine returns a command of parley for a shell.
func commandLine(program []string, words ...string) string {
	var out []string
	for _, w := range append(append([]string{}, program...), words...) {
		out = append(out, shell.Word(w))
	}
	return strings.Join(out, " ")
}
