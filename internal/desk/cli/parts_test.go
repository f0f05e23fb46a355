package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

// without names the parts that a CLI lacks, with the reason.
var without = map[string]map[string]string{
	"pi":     {"acp": "it does not speak ACP", "connecting": "it has no MCP and no file of hooks"},
	"gemini": {"mechanism": "a turn of an idle session begins with keys only", "resume": "no argument is known that takes a conversation up by its id"},
}

// TestEveryCLIHasItsParts holds that each CLI of the table can be found, started over ACP,
// held to a policy, connected, launched, seen by its hooks and woken, unless the list above
// says why not.
func TestEveryCLIHasItsParts(t *testing.T) {
	if !slices.IsSortedFunc(clis, func(a, b CLI) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not in the order of the names")
	}
	for _, c := range clis {
		t.Run(c.Name, func(t *testing.T) {
			part := func(name string, there bool) {
				t.Helper()
				switch reason := without[c.Name][name]; {
				case !there && reason == "":
					t.Errorf("%s is missing", name)
				case there && reason != "":
					t.Errorf("%s is there, though %s", name, reason)
				}
			}
			part("name", c.Name != "" && c.Title != "" && len(c.Binaries) > 0)
			part("acp", len(c.ACP) > 0 && hasModes(c))
			part("connecting", c.format != nil && hasFiles(c.user) && hasFiles(c.project) && c.stay != nil)
			part("launch", c.plan != nil)
			part("answer", c.answer != nil)
			part("mechanism", c.Mechanism != "")
			part("resume", c.resume != nil)
			part("guard", c.Guards() && hasTools(c))
			checkHooks(t, c)

			// A waiter that the hooks start has to write notices itself.
			if c.Detached && (c.hand == nil || len(c.Variables) == 0) {
				t.Error("a detached CLI needs a way to hand notices, and variables by which its waiter finds it")
			}
		})
	}
}

// TestVendors holds that each CLI names its vendor, but for those that work with models of many.
func TestVendors(t *testing.T) {
	want := map[string]string{"claude": "anthropic", "codex": "openai", "copilot": "github", "gemini": "google", "opencode": "", "pi": "", "qwen": "alibaba"}
	for _, c := range clis {
		if vendor, isKnown := want[c.Name]; !isKnown || c.Vendor != vendor {
			t.Errorf("%s is of %q, want %q", c.Name, c.Vendor, vendor)
		}
	}
}

// hasModes reports whether a CLI has a mode for each policy that does not allow everything.
func hasModes(c CLI) bool {
	for _, p := range []sandbox.Policy{sandbox.PolicyNone, sandbox.PolicyRead, sandbox.PolicyWrite, sandbox.PolicyAsk} {
		if _, ok := c.modes[p]; !ok {
			return false
		}
	}
	return true
}

// hasFiles reports whether a layout names files for servers and instructions.
func hasFiles(l layout) bool { return len(l.config.paths) > 0 && len(l.instruction.paths) > 0 }

// hasTools reports whether the tools that edit files and run commands are known, each with a
// member that says which.
func hasTools(c CLI) bool {
	found := map[ToolKind]bool{}
	for _, t := range c.tools {
		if len(t.members()) == 0 {
			return false
		}
		found[t.kind] = true
	}
	return found[EditTool] && found[ShellTool]
}

// TestHooksBeforeTools holds that reads and tools of MCP servers start no process where the CLI
// takes matchers, that a CLI which asks its user for trust has one command line for all hooks,
// and that no failure of a hook of Copilot refuses a call.
func TestHooksBeforeTools(t *testing.T) {
	program := []string{"/opt/parley"}
	for name, want := range map[string]string{
		"claude": "Bash|Edit|MultiEdit|NotebookEdit|Write", "codex": "Bash|apply_patch",
		"gemini": "replace|run_shell_command|write_file", "qwen": "edit|notebook_edit|run_shell_command|write_file",
	} {
		c, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range c.hooks {
			entry := c.hookEntry(program, h, 5)
			got, _ := entry["matcher"].(string)
			switch {
			case h.Event == Before && got != want:
				t.Errorf("%s %s: matcher %q, want %q", name, h.Name, got, want)
			case h.Event == After && !slices.Contains([]string{"Bash", "run_shell_command"}, got):
				t.Errorf("%s %s: matcher %q", name, h.Name, got)
			case h.Event != Before && h.Event != After && got != "":
				t.Errorf("%s %s has the matcher %q", name, h.Name, got)
			}
		}
	}

	for _, h := range codex.hooks {
		if got := codex.command(program, h); got != "/opt/parley wake hook codex" {
			t.Errorf("%s: got %s", h.Name, got)
		}
	}
	if got := codex.codexHook(program, Hook{"PreToolUse", Before}); got != `hooks.PreToolUse=[{matcher="Bash|apply_patch",hooks=[{type="command",command="/opt/parley wake hook codex",timeout=3}]}]` {
		t.Errorf("got %s", got)
	}
	raw, err := json.Marshal(copilot.copilotHooks(program))
	if err != nil || !strings.Contains(string(raw), "wake hook copilot preToolUse || :") {
		t.Errorf("got %s, %v", raw, err)
	}
}

// checkHooks holds that the hooks of a CLI tell the whole of a session, each once.
func checkHooks(t *testing.T, c CLI) {
	t.Helper()
	for _, event := range []Event{Start, Prompt, Before, Tool, TurnEnd, Waiting, End} {
		if !slices.ContainsFunc(c.hooks, func(h Hook) bool { return h.Event == event }) {
			t.Errorf("no hook tells %s", event)
		}
	}
	for _, h := range c.hooks {
		if got, ok := c.Hook(h.Name); !ok || got != h {
			t.Errorf("the hook %s is there twice", h.Name)
		}
	}
}

// TestPermanentFilesAreKnownAgain holds that the files with hooks have the mark by which
// they are taken out again.
func TestPermanentFilesAreKnownAgain(t *testing.T) {
	for _, c := range Connectable() {
		additions, err := c.Permanent([]string{"/opt/parley", "--home", "/h"})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range additions {
			if a.Mark == "" || (a.Hooks == nil && !strings.Contains(a.Text, a.Mark)) {
				t.Errorf("%s: %s has no mark", c.Name, a.Path)
			}
			for event, entry := range a.Hooks {
				if !strings.Contains(string(entry), a.Mark) || !json.Valid(entry) {
					t.Errorf("%s: the hook %s has no mark: %s", c.Name, event, entry)
				}
			}
		}
	}
}

// TestCLIAsJSON holds that the JSON of a CLI has the members that parley agent clis
// documents and no others.
func TestCLIAsJSON(t *testing.T) {
	for _, c := range Agents() {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !slices.Contains([]string{"name", "title", "binaries", "acp", "adapter"}, name) {
				t.Errorf("%s has the member %s", c.Name, name)
			}
		}
	}
}
