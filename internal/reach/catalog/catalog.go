// Package catalog knows the agent command lines that people have installed:
// how each is found, how it is started over ACP, where it keeps its MCP servers
// and its standing instructions, and how to add a hub to them and take it out
// again.
//
// Plan and Undo only read. They return a Change; its Apply writes. Files are
// edited in place: every other entry keeps
// its bytes, comments and order, and a file that cannot be understood is
// refused, never repaired. No record is kept of what was done: what Undo takes
// out it recognises by name and by marker, so it also works after the file was
// edited by hand or rewritten by the program it belongs to.
//
// The package creates no keys, starts no agents, and asks no questions.
package catalog

import (
	"os/exec"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/nearest"
	"github.com/parley-agents/parley/sandbox"
)

// A CLI is an agent program that people start on a command line.
type CLI struct {
	Name     string   `json:"name"`              // how people call it: claude
	Title    string   `json:"title"`             // how its makers call it: Claude Code
	Binaries []string `json:"binaries"`          // programs on the PATH, in order of preference
	ACP      []string `json:"acp"`               // program and arguments that speak ACP
	Adapter  string   `json:"adapter,omitempty"` // npm package that ACP[0] comes from; empty if it is the CLI itself

	installs []string // where its own installer may put it, under the home folder
	format   format   // of the files with the MCP servers
	user     layout   // the user's own files
	project  layout   // the files of one project
	modes    modes    // how it is held to a policy
}

// The entries were compared with the entries that these versions write or list themselves:
// claude 2.1.197, codex 0.166.0, copilot 1.0.102, gemini 0.61.0,
// opencode 1.18.33, qwen 0.15.10.
var clis = []CLI{
	{
		Name: "claude", Title: "Claude Code", Binaries: []string{"claude"},
		ACP: []string{"claude-agent-acp"}, Adapter: "@agentclientprotocol/claude-agent-acp",
		installs: []string{".local/bin/claude", ".claude/local/claude"},
		// Rules of its user that allow commands count even so.
		modes: careful(Mode{Session: "default"}).
			with(sandbox.PolicyNone, Mode{Meta: claudeWithout(`"Bash","Edit","NotebookEdit","Write"`)}).
			with(sandbox.PolicyRead, Mode{Meta: claudeWithout(`"Edit","NotebookEdit","Write"`)}),
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
	},
	{
		Name: "codex", Title: "Codex CLI", Binaries: []string{"codex"},
		ACP: []string{"codex-acp"}, Adapter: "@agentclientprotocol/codex-acp",
		// Its sandbox holds commands that run without a question: they can read.
		modes:  careful(Mode{Env: []string{"INITIAL_AGENT_MODE=read-only"}}),
		format: tomlFormat{},
		user: layout{
			base:        base{env: "CODEX_HOME", below: ".codex"},
			config:      choice{paths: []string{"{base}/config.toml"}},
			instruction: choice{paths: []string{"{base}/AGENTS.override.md", "{base}/AGENTS.md"}, made: 1},
		},
		project: layout{
			config:      choice{paths: []string{"{base}/.codex/config.toml"}},
			instruction: choice{paths: []string{"{base}/AGENTS.override.md", "{base}/AGENTS.md"}, made: 1},
			note:        "Codex reads the configuration of a project only if you trust that project",
		},
	},
	{
		Name: "copilot", Title: "GitHub Copilot CLI", Binaries: []string{"copilot"},
		ACP: []string{"copilot", "--acp"},
		modes: careful(Mode{Env: []string{"COPILOT_ALLOW_ALL="}}).
			with(sandbox.PolicyNone, Mode{Args: []string{"--deny-tool=shell", "--deny-tool=write"}}).
			with(sandbox.PolicyRead, Mode{Args: []string{"--deny-tool=write"}}),
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
	},
	{
		Name: "gemini", Title: "Gemini CLI", Binaries: []string{"gemini"},
		ACP:    []string{"gemini", "--acp"},
		modes:  careful(Mode{Args: []string{"--approval-mode", "default"}}),
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
	},
	{
		Name: "opencode", Title: "opencode", Binaries: []string{"opencode"},
		ACP:      []string{"opencode", "acp"},
		installs: []string{".opencode/bin/opencode"},
		modes: modes{
			sandbox.PolicyNone:  {Env: []string{opencodePermission("deny")}},
			sandbox.PolicyRead:  {Env: []string{opencodePermission("deny")}},
			sandbox.PolicyWrite: {Env: []string{opencodePermission("ask")}},
			sandbox.PolicyAsk:   {Env: []string{opencodePermission("ask")}},
		},
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
	},
	{
		Name: "qwen", Title: "Qwen Code", Binaries: []string{"qwen"},
		ACP: []string{"qwen", "--acp"},
		// Rules of its user that allow tools count even so, unless it does not have the tool.
		modes: careful(Mode{Args: []string{"--approval-mode", "default"}}).
			with(sandbox.PolicyNone, Mode{Args: []string{"--exclude-tools", "edit", "--exclude-tools", "write_file", "--exclude-tools", "run_shell_command"}}).
			with(sandbox.PolicyRead, Mode{Args: []string{"--exclude-tools", "edit", "--exclude-tools", "write_file"}}),
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
	},
}

// All returns the known CLIs in the order of their names.
func All() []CLI { return slices.Clone(clis) }

// Lookup returns the CLI of that name. It reports CodeNotFound when there is none,
// with the name that was probably meant as a hint.
func Lookup(name string) (CLI, error) {
	for _, c := range clis {
		if strings.EqualFold(c.Name, name) {
			return c, nil
		}
	}
	var names []string
	for _, c := range clis {
		names = append(names, c.Name)
	}
	e := hub.Errorf(hub.CodeNotFound, "catalog.Lookup", "no agent CLI called %.64q is known", name)
	if near := nearestCLI(name, names); near != "" {
		return CLI{}, e.WithHint("did you mean %s?", near)
	}
	return CLI{}, e.WithHint("known are: %s", strings.Join(names, ", "))
}

// nearestCLI returns the name of the CLI that was probably meant, "" if none is
// near.
func nearestCLI(name string, names []string) string {
	name = strings.ToLower(name)
	for _, n := range names {
		if strings.HasPrefix(name, n+"-") { // claude-code, gemini-cli
			return n
		}
	}
	return nearest.Name(name, slices.Values(names))
}

// Command returns the command that starts a known agent over ACP. It reports CodeDegraded
// if the agent is not known, or its program is not on the PATH.
func Command(name string) ([]string, error) {
	c, err := Lookup(name)
	if err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, "catalog.Command", "%w", err).
			WithHint("parley agents detect lists those that are known; others are given as a command, behind two dashes")
	}
	if _, err := exec.LookPath(c.ACP[0]); err != nil {
		e := hub.Errorf(hub.CodeDegraded, "catalog.Command", "%s is not installed: there is no %s on the PATH", c.Title, c.ACP[0])
		if c.Adapter != "" {
			return nil, e.WithHint("it comes with the npm package %s", c.Adapter)
		}
		return nil, e.WithHint("install it, or put it on the PATH")
	}
	return c.ACP, nil
}
