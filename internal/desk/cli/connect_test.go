package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/briefing"
	"github.com/parley-agents/parley/internal/testing/patience"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// none is an environment in which nothing is set.
func none(string) string { return "" }

// at returns a place with an empty home and project.
func at(t *testing.T, scope cli.Scope) cli.Place {
	t.Helper()
	return cli.Place{Scope: scope, Home: t.TempDir(), Dir: t.TempDir(), Getenv: none}
}

// forced returns e for a machine without the CLI.
func forced(e cli.Entry) cli.Entry {
	e.Force = true
	return e
}

func plan(t *testing.T, name string, e cli.Entry, p cli.Place) cli.Change {
	t.Helper()
	c, err := cli.PlanConnection(lookup(t, name), forced(e), p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func apply(t *testing.T, c cli.Change) []cli.SavedFile {
	t.Helper()
	done, err := c.Apply(noon, "")
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func undo(t *testing.T, name string, p cli.Place) cli.Change {
	t.Helper()
	c, err := cli.PlanRemoval(lookup(t, name), "", p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s: got %q (%v), want %q", path, got, err, want)
	}
}

func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("error: got %q (%v), want %q", got, err, want)
	}
}

// tree returns every file under the folders with what it holds, backups aside.
func tree(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, ".parley-backup-") {
				return err
			}
			text, err := os.ReadFile(path)
			out[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestLookup(t *testing.T) {
	for _, c := range cli.Connectable() {
		t.Run("a CLI is found by its name in any case", func(t *testing.T) {
			got, err := cli.Lookup(strings.ToUpper(c.Name))
			if err != nil || got.Name != c.Name || len(got.ACP) == 0 || len(got.Binaries) == 0 {
				t.Errorf("lookup: got %+v (%v), want %s", got, err, c.Name)
			}
		})
	}
	for name, want := range map[string]string{
		"cluade": "claude", "claude-code": "claude", "gemni": "gemini", "opncode": "opencode", "Kwen": "qwen", "codx": "codex",
		"vim": "", "": "", strings.Repeat("claude", 1000): "",
	} {
		t.Run("an unknown name gets the nearest known one", func(t *testing.T) {
			_, err := cli.Lookup(name)
			wantCode(t, err, hub.CodeNotFound)
			hint := "did you mean " + want + "?"
			if want == "" {
				hint = "use one of claude, codex"
			}
			if e, ok := errors.AsType[*hub.Error](err); !ok || !strings.HasPrefix(e.Hint, hint) || len(err.Error()) > 200 {
				t.Errorf("%.20q: got %v, want a short error with the hint %q", name, err, hint)
			}
		})
	}
}

// The files in testdata are what each CLI gets in an empty home. That the CLIs
// read them is what TestInstalled proves.
func TestEntries(t *testing.T) {
	for _, c := range cli.Connectable() {
		for _, e := range []cli.Entry{byStdio, byHTTP} {
			transport := e.Transport
			if transport == "" {
				transport = cli.Stdio
			}
			t.Run(c.Name+" over "+string(transport), func(t *testing.T) {
				edits := plan(t, c.Name, e, at(t, cli.ScopeUser)).Edits
				if len(edits) != 1 {
					t.Fatalf("edits: got %d, want 1", len(edits))
				}
				golden := filepath.Join("testdata", c.Name+"-"+string(transport)+filepath.Ext(edits[0].Path))
				if *update {
					write(t, golden, string(edits[0].After))
				}
				wantFile(t, golden, string(edits[0].After))
				if filepath.Ext(golden) == ".json" && !json.Valid(edits[0].After) {
					t.Errorf("got %s, want JSON", edits[0].After)
				}
			})
		}
	}
}

func TestPlaces(t *testing.T) {
	env := func(name, value string) func(string) string {
		return func(n string) string {
			if n == name {
				return value
			}
			return ""
		}
	}
	for _, c := range []struct {
		cli                 string
		getenv              func(string) string
		user, userNote      string // under the home
		project, projectOne string // under the project
	}{
		{"claude", none, ".claude.json", ".claude/CLAUDE.md", ".mcp.json", "CLAUDE.md"},
		{"claude", env("CLAUDE_CONFIG_DIR", "{home}/c"), "c/.claude.json", "c/CLAUDE.md", ".mcp.json", "CLAUDE.md"},
		{"codex", none, ".codex/config.toml", ".codex/AGENTS.md", ".codex/config.toml", "AGENTS.md"},
		{"codex", env("CODEX_HOME", "{home}/c"), "c/config.toml", "c/AGENTS.md", ".codex/config.toml", "AGENTS.md"},
		{"copilot", none, ".copilot/mcp-config.json", ".copilot/copilot-instructions.md", ".github/mcp.json", "AGENTS.md"},
		{"copilot", env("COPILOT_HOME", "{home}/c"), "c/mcp-config.json", "c/copilot-instructions.md", ".github/mcp.json", "AGENTS.md"},
		{"gemini", none, ".gemini/settings.json", ".gemini/GEMINI.md", ".gemini/settings.json", "GEMINI.md"},
		{"gemini", env("GEMINI_CLI_HOME", "{home}/c"), "c/.gemini/settings.json", "c/.gemini/GEMINI.md", ".gemini/settings.json", "GEMINI.md"},
		{"opencode", none, ".config/opencode/opencode.json", ".config/opencode/AGENTS.md", "opencode.json", "AGENTS.md"},
		{"opencode", env("XDG_CONFIG_HOME", "{home}/c"), "c/opencode/opencode.json", "c/opencode/AGENTS.md", "opencode.json", "AGENTS.md"},
		{"qwen", none, ".qwen/settings.json", ".qwen/QWEN.md", ".qwen/settings.json", "QWEN.md"},
		{"qwen", env("QWEN_HOME", "{home}/c"), "c/settings.json", "c/QWEN.md", ".qwen/settings.json", "QWEN.md"},
	} {
		t.Run(c.cli+" is connected where it looks", func(t *testing.T) {
			e := byStdio
			e.Instruction = briefing.Connected
			for scope, want := range map[cli.Scope][]string{cli.ScopeUser: {c.user, c.userNote}, cli.ScopeProject: {c.project, c.projectOne}} {
				p := at(t, scope)
				p.Getenv = func(name string) string { return strings.ReplaceAll(c.getenv(name), "{home}", p.Home) }
				root := map[cli.Scope]string{cli.ScopeUser: p.Home, cli.ScopeProject: p.Dir}[scope]
				change := plan(t, c.cli, e, p)
				if len(change.Edits) != 2 {
					t.Fatalf("edits: got %v, want 2", change.Edits)
				}
				for i, edit := range change.Edits {
					if want := filepath.Join(root, want[i]); edit.Path != want {
						t.Errorf("%s: got %s, want %s", scope, edit.Path, want)
					}
				}
				if len(tree(t, p.Home, p.Dir)) != 0 {
					t.Error("planning wrote something")
				}
				apply(t, change)
				apply(t, undo(t, c.cli, p))
				if left := tree(t, p.Home, p.Dir); len(left) != 0 {
					t.Errorf("after undo: got %v, want nothing", left)
				}
			}
		})
	}
	t.Run("a variable with a relative path is refused", func(t *testing.T) {
		p := at(t, "")
		p.Getenv = env("CODEX_HOME", "codex")
		_, err := cli.PlanConnection(lookup(t, "codex"), forced(byStdio), p)
		wantCode(t, err, hub.CodeInvalid)
	})
	t.Run("without Getenv the process's own variables count", func(t *testing.T) {
		moved := t.TempDir()
		t.Setenv("CODEX_HOME", moved)
		p := at(t, "")
		p.Getenv = nil
		if got, want := plan(t, "codex", byStdio, p).Edits[0].Path, filepath.Join(moved, "config.toml"); got != want {
			t.Errorf("path: got %s, want %s", got, want)
		}
	})
	for _, bad := range []cli.Place{{}, {Home: "home"}, {Scope: cli.ScopeProject, Home: "/h"}, {Scope: "world", Home: "/h"}} {
		t.Run("a place without a folder is refused", func(t *testing.T) {
			_, err := cli.PlanConnection(lookup(t, "codex"), forced(byStdio), bad)
			wantCode(t, err, hub.CodeInvalid)
			_, err = cli.PlanRemoval(lookup(t, "codex"), "", bad)
			wantCode(t, err, hub.CodeInvalid)
		})
	}
	t.Run("a CLI that is not from the catalog is refused", func(t *testing.T) {
		_, err := cli.PlanConnection(cli.CLI{}, forced(byStdio), at(t, ""))
		wantCode(t, err, hub.CodeInvalid)
	})
}

func TestChoices(t *testing.T) {
	e := byStdio
	e.Instruction = briefing.Connected
	for _, c := range []struct {
		rule, cli string
		there     map[string]string
		want      []string
	}{
		{"an old file that is still read is taken", "claude", map[string]string{".claude/.config.json": "{}"}, []string{".claude/.config.json", ".claude/CLAUDE.md"}},
		{"the file with comments is taken if it is there", "opencode", map[string]string{".config/opencode/opencode.jsonc": "{}"}, []string{".config/opencode/opencode.jsonc", ".config/opencode/AGENTS.md"}},
		{"the file that has the entry is taken", "opencode", map[string]string{
			".config/opencode/opencode.json": "{}", ".config/opencode/opencode.jsonc": `{"mcp":{"parley":{}}}`,
		}, []string{".config/opencode/opencode.jsonc", ".config/opencode/AGENTS.md"}},
		{"an instruction file in use is not hidden by a new one", "opencode", map[string]string{".claude/CLAUDE.md": "hi\n"}, []string{".config/opencode/opencode.json", ".claude/CLAUDE.md"}},
		{"an override is where the instruction is read", "codex", map[string]string{".codex/AGENTS.override.md": "hi\n"}, []string{".codex/config.toml", ".codex/AGENTS.override.md"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p := at(t, "")
			for name, text := range c.there {
				write(t, filepath.Join(p.Home, name), text)
			}
			before := tree(t, p.Home)
			change := plan(t, c.cli, e, p)
			for i, want := range c.want {
				if got, want := change.Edits[i].Path, filepath.Join(p.Home, want); got != want {
					t.Errorf("path: got %s, want %s", got, want)
				}
			}
			apply(t, change)
			apply(t, undo(t, c.cli, p))
			after := tree(t, p.Home)
			for name, text := range before {
				if !strings.Contains(text, "parley") && after[name] != text {
					t.Errorf("%s after undo: got %q, want %q", name, after[name], text)
				}
			}
		})
	}
}

func TestConnect(t *testing.T) {
	t.Run("formatting, order, comments and unknown members stay", func(t *testing.T) {
		p := at(t, "")
		path := write(t, filepath.Join(p.Home, ".config/opencode/opencode.json"), `{
	// my model
	"model": "x/y", /* fast */
	"mcp": {
		"search": {"type": "remote", "url": "https://s.example"}, // keep
	},
	"unknown": [1.0, 2e3],
}
`)
		apply(t, plan(t, "opencode", byHTTP, p))
		wantFile(t, path, `{
	// my model
	"model": "x/y", /* fast */
	"mcp": {
		"search": {"type": "remote", "url": "https://s.example"}, // keep
		"parley": {
			"type": "remote",
			"url": "http://127.0.0.1:7420/mcp",
			"headers": {
				"Authorization": "Bearer cacp_sk_live_secret"
			},
			"oauth": false,
			"enabled": true
		},
	},
	"unknown": [1.0, 2e3],
}
`)
	})
	t.Run("a file on one line stays on one line", func(t *testing.T) {
		p := at(t, cli.ScopeProject)
		path := write(t, filepath.Join(p.Dir, ".mcp.json"), `{"mcpServers":{"x":{"command":"y"}}}`)
		apply(t, plan(t, "claude", cli.Entry{KeyFile: "/k"}, p))
		wantFile(t, path, `{"mcpServers":{"x":{"command":"y"}, "parley": { "type": "stdio", "command": "parley", "args": ["mcp", "--key-file", "/k"] }}}`)
	})
	t.Run("a second connect updates in place and keeps what the user added", func(t *testing.T) {
		p := at(t, "")
		path := write(t, filepath.Join(p.Home, ".gemini/settings.json"), `{
  "mcpServers": {
    "parley": {
      "httpUrl": "http://old", // old
      "headers": {"Authorization": "Bearer old"},
      "timeout": 5000, // slow network
      "trust": true
    },
    "x": {}
  }
}`)
		apply(t, plan(t, "gemini", byStdio, p))
		wantFile(t, path, `{
  "mcpServers": {
    "parley": { // old
      "timeout": 5000, // slow network
      "trust": true,
      "command": "/usr/bin/parley",
      "args": ["mcp", "--key-file", "/home/a b/key"],
      "env": {
        "PARLEY_URL": "http://127.0.0.1:7420"
      }
    },
    "x": {}
  }
}`)
	})
	t.Run("a choice of the user's inside the entry is not taken back", func(t *testing.T) {
		p := at(t, "")
		apply(t, plan(t, "copilot", byStdio, p))
		path := filepath.Join(p.Home, ".copilot/mcp-config.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		narrowed := strings.Replace(string(text), `["*"]`, `["acp_inbox"]`, 1)
		write(t, path, narrowed)
		if c := plan(t, "copilot", byStdio, p); len(c.Edits) != 0 {
			t.Errorf("edits: got %v, want none", c.Edits)
		}
	})
	t.Run("an entry that its CLI wrote anew in other words is as it should be", func(t *testing.T) {
		p := at(t, "")
		e := byStdio
		e.URL = ""
		write(t, filepath.Join(p.Home, ".claude.json"), "{\"mcpServers\":{\"parley\":{\"args\":[\n\"mcp\",\"--key-file\",\"/home/a\\u0020b/key\"],\"command\":\"/usr/bin/parley\",\"type\":\"stdio\"}}}")
		if c := plan(t, "claude", e, p); len(c.Edits) != 0 {
			t.Errorf("edits: got %v, want none", c.Edits)
		}
	})
	t.Run("tables that codex wrote are updated, with what the user added", func(t *testing.T) {
		p := at(t, "")
		path := write(t, filepath.Join(p.Home, ".codex/config.toml"), `model = "m"

[mcp_servers.parley.env]
PARLEY_KEY = "old"

[mcp_servers.parley]
command = "old" # mine
args = [
  "mcp",
]
startup_timeout_sec = 20

[mcp_servers.parley.tools.acp_inbox]
approval_mode = "approve"

[tui]
`)
		apply(t, plan(t, "codex", byHTTP, p))
		wantFile(t, path, `model = "m"

[mcp_servers.parley]
url = "http://127.0.0.1:7420/mcp"
http_headers = { Authorization = "Bearer cacp_sk_live_secret" }
startup_timeout_sec = 20

[mcp_servers.parley.tools.acp_inbox]
approval_mode = "approve"

[tui]
`)
		apply(t, undo(t, "codex", p))
		wantFile(t, path, "model = \"m\"\n\n[tui]\n")
	})
	t.Run("a table that only has tables below it gets its own", func(t *testing.T) {
		p := at(t, "")
		path := write(t, filepath.Join(p.Home, ".codex/config.toml"), "[mcp_servers.parley.tools.x]\na = 1\n")
		apply(t, plan(t, "codex", cli.Entry{KeyFile: "/k"}, p))
		wantFile(t, path, "[mcp_servers.parley]\ncommand = \"parley\"\nargs = [\"mcp\", \"--key-file\", \"/k\"]\n\n[mcp_servers.parley.tools.x]\na = 1\n")
	})
	t.Run("two hubs stand side by side under two names", func(t *testing.T) {
		p := at(t, "")
		other := byHTTP
		other.Name, other.Instruction = "staging", "Look there too."
		mine := byStdio
		mine.Instruction = briefing.Connected
		apply(t, plan(t, "qwen", mine, p))
		first := tree(t, p.Home)
		apply(t, plan(t, "qwen", other, p))
		c, err := cli.PlanRemoval(lookup(t, "qwen"), "staging", p)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c)
		wantFile(t, filepath.Join(p.Home, ".qwen/settings.json"), first[filepath.Join(p.Home, ".qwen/settings.json")])
	})
	for _, e := range []cli.Entry{
		{}, {Key: "k", KeyFile: "/k"}, {Key: "a\nb"}, {Key: "a b"}, {Key: "ключ"}, {KeyFile: "k"}, {KeyFile: "/k\n"}, {KeyFile: "/k\xff"},
		{Key: "secret-k", Name: "a b"}, {Key: "secret-k", Name: "-"}, {Key: "secret-k", Name: strings.Repeat("a", 65)},
		{Key: "secret-k", Transport: "sse"}, {Key: "secret-k", Transport: cli.HTTP}, {KeyFile: "/k", Transport: cli.HTTP, URL: "http://h"},
		{Key: "secret-k", Transport: cli.HTTP, URL: "ftp://h"}, {Key: "secret-k", URL: "127.0.0.1:7420"}, {Key: "secret-k", URL: "http://u:secret-k@h"},
		{Key: "secret-k", URL: "http://h?key=secret-k"}, {Key: "secret-k", Instruction: "two\nlines"}, {Key: "secret-k", Instruction: "a --> b"}, {Key: "secret-k", Command: "a\x00"},
	} {
		t.Run("an entry that cannot be written is refused without its key", func(t *testing.T) {
			_, err := cli.PlanConnection(lookup(t, "claude"), forced(e), at(t, ""))
			wantCode(t, err, hub.CodeInvalid)
			if err != nil && strings.Contains(err.Error(), "secret-k") {
				t.Errorf("error: got %v, want no key in it", err)
			}
		})
	}
}

func TestUndo(t *testing.T) {
	e := byStdio
	e.Instruction = briefing.Connected
	for _, c := range cli.Connectable() {
		t.Run(c.Name+": what was there stays byte for byte, also what was added meanwhile", func(t *testing.T) {
			p := at(t, cli.ScopeProject)
			for _, edit := range plan(t, c.Name, e, p).Edits {
				text := map[string]string{
					".md": "# Rules\r\n\r\nBe kind.", ".json": "{\n    \"a\": 1,\n    \"b\": {}\n}\n", ".toml": "a = 1\n\n[b]\n",
				}[filepath.Ext(edit.Path)]
				write(t, edit.Path, text)
			}
			before := tree(t, p.Dir)
			connect := plan(t, c.Name, e, p)
			apply(t, connect)
			apply(t, undo(t, c.Name, p))
			if after := tree(t, p.Dir); !equal(after, before) {
				t.Errorf("after undo: got %q, want %q", after, before)
			}
			apply(t, plan(t, c.Name, e, p))
			changed := func(text string) string {
				text = strings.Replace(text, "\"a\": 1", "\"a\": [2]", 1)
				text = strings.Replace(text, "a = 1", "a = 2\nc = 3", 1)
				return strings.Replace(text, "Be kind.", "Be brief.", 1)
			}
			for path, text := range tree(t, p.Dir) {
				write(t, path, changed(text))
			}
			apply(t, undo(t, c.Name, p))
			for path, text := range before {
				wantFile(t, path, changed(text))
			}
			if again := undo(t, c.Name, p); len(again.Edits) != 0 {
				t.Errorf("undo again: got %v, want nothing", again)
			}
			if done := apply(t, undo(t, c.Name, p)); len(done) != 0 {
				t.Errorf("undo again: got %v written, want nothing", done)
			}
		})
	}
	for text, want := range map[string]string{
		"{\"mcpServers\": {\n  \"parley\": {},\n  \"x\": 1\n}}":            "{\"mcpServers\": {\n  \"x\": 1\n}}",
		`{"mcpServers": {"a": 1, /* b */ "parley": {} /* c */ }}`:          `{"mcpServers": {"a": 1 /* b */ /* c */ }}`,
		"{\"mcpServers\": { // b\n\"parley\": {} }}":                       "{\"mcpServers\": { // b\n }}",
		"{\"mcpServers\": {\n  // b\n  \"parley\": {}, // c\n  \"x\": 1}}": "{\"mcpServers\": {\n  // b\n   // c\n  \"x\": 1}}",
		"{\n  \"mcpServers\": {\n    \"parley\": {} // b\n  }\n}\n":        "{\n  \"mcpServers\": { // b\n  }\n}\n",
		`{"mcpServers": {"parley": {}}}`:                                   `{"mcpServers": {}}`,
		"{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"parley\": {}\n  }\n}":  "{\n  \"a\": 1\n}",
	} {
		t.Run("what the user wrote around the entry stays", func(t *testing.T) {
			p := at(t, "")
			path := write(t, filepath.Join(p.Home, ".gemini/settings.json"), text)
			apply(t, undo(t, "gemini", p))
			wantFile(t, path, want)
		})
	}
	t.Run("an instruction that two CLIs share stays until the last is gone", func(t *testing.T) {
		p := at(t, cli.ScopeProject)
		path := write(t, filepath.Join(p.Dir, "AGENTS.md"), "hi\n")
		for _, cli := range []string{"codex", "opencode", "copilot"} {
			apply(t, plan(t, cli, e, p))
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Count(string(text), "acp_inbox") != 1 {
			t.Errorf("instruction: got %q (%v), want it once", text, err)
		}
		for _, cli := range []string{"opencode", "codex"} {
			apply(t, undo(t, cli, p))
		}
		wantFile(t, path, "hi\n\n<!-- parley: copilot/parley -->\n"+briefing.Connected+"\n<!-- /parley -->\n")
		apply(t, undo(t, "copilot", p))
		wantFile(t, path, "hi\n")
	})
	t.Run("two names of one file are one file", func(t *testing.T) {
		p := at(t, cli.ScopeProject)
		path := write(t, filepath.Join(p.Dir, "AGENTS.md"), "hi\n")
		if err := os.Symlink("AGENTS.md", filepath.Join(p.Dir, "CLAUDE.md")); err != nil {
			t.Fatal(err)
		}
		apply(t, plan(t, "opencode", e, p))
		if done := apply(t, undo(t, "opencode", p)); len(done) != 2 {
			t.Errorf("written: got %+v, want the configuration and one instruction file", done)
		}
		wantFile(t, path, "hi\n")
	})
	t.Run("a name that is none is refused", func(t *testing.T) {
		_, err := cli.PlanRemoval(lookup(t, "codex"), "a.b", at(t, ""))
		wantCode(t, err, hub.CodeInvalid)
	})
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func TestMalformed(t *testing.T) {
	e := byStdio
	e.Instruction = briefing.Connected
	for _, c := range []struct {
		rule, cli, path, text string
		line, column          int
	}{
		{"a comma is missing", "claude", ".claude.json", "{\n  \"token\": \"s3cret\"\n  \"b\": 2\n}", 3, 3},
		{"strict JSON has no comments", "claude", ".claude.json", "{\n  // s3cret\n}", 2, 3},
		{"strict JSON has no trailing commas", "claude", ".claude.json", "{\"s3cret\": 1,\n}", 2, 1},
		{"columns are counted in characters", "claude", ".claude.json", "\ufeff{\"ключ\": s3cret}", 1, 10},
		{"the container is no object", "gemini", ".gemini/settings.json", "{\"mcpServers\": [\"s3cret\"]}", 1, 16},
		{"a name is there twice", "gemini", ".gemini/settings.json", "{\"mcpServers\": {},\n\"mcpServers\": {\"s3cret\": 1}}", 2, 1},
		{"the document is no object", "qwen", ".qwen/settings.json", "[\"s3cret\"]", 1, 1},
		{"a string is not closed", "opencode", ".config/opencode/opencode.json", "{\"a\": \"s3cret}", 1, 7},
		{"nesting has an end", "opencode", ".config/opencode/opencode.json", strings.Repeat("[", 1<<20), 1, 1001},
		{"servers in an inline table", "codex", ".codex/config.toml", "a = 1\nmcp_servers = { x = { command = \"s3cret\" } }\n", 2, 1},
		{"the server in an inline table", "codex", ".codex/config.toml", "[mcp_servers]\nparley = { command = \"s3cret\" }\n", 2, 1},
		{"the server in dotted keys", "codex", ".codex/config.toml", "mcp_servers.parley.command = \"s3cret\"\n", 1, 1},
		{"servers in a list of tables", "codex", ".codex/config.toml", "[[mcp_servers]]\na = \"s3cret\"\n", 1, 1},
		{"a table is there twice", "codex", ".codex/config.toml", "[mcp_servers.parley]\n[mcp_servers.'parley']\n", 2, 1},
		{"a TOML string is not closed", "codex", ".codex/config.toml", "a = \"s3cret\n", 1, 5},
		{"TOML nesting has an end", "codex", ".codex/config.toml", "a=" + strings.Repeat("[", 1<<20), 1, 1004},
		{"a server has only so many parts", "codex", ".codex/config.toml", "[mcp_servers.parley.env]\n" + strings.Repeat("A=1\n", 2000), 1001, 1},
		{"a file has only so many instructions", "claude", ".claude/CLAUDE.md", strings.Repeat("<!-- parley: claude/parley -->\n<!-- /parley -->\n", 2000), 2001, 1},
		{"a marker is not closed", "claude", ".claude/CLAUDE.md", "hi\n<!-- parley: claude/parley -->\ns3cret\n", 2, 1},
		{"a marker closes nothing", "claude", ".claude/CLAUDE.md", "s3cret\n<!-- /parley -->\n", 2, 1},
		{"a marker is opened twice", "claude", ".claude/CLAUDE.md", "<!-- parley: a -->\n<!-- parley: s3cret -->\n<!-- /parley -->\n", 1, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p := at(t, "")
			path := write(t, filepath.Join(p.Home, c.path), c.text)
			_, planErr := cli.PlanConnection(lookup(t, c.cli), forced(e), p)
			_, undoErr := cli.PlanRemoval(lookup(t, c.cli), "", p)
			for _, err := range []error{planErr, undoErr} {
				wantCode(t, err, hub.CodeInvalid)
				m, ok := errors.AsType[*cli.MalformedError](err)
				if !ok || m.Path != path || m.Line != c.line || m.Column != c.column {
					t.Errorf("error: got %v, want %s:%d:%d", err, path, c.line, c.column)
				}
				if err != nil && strings.Contains(err.Error(), "s3cret") {
					t.Errorf("error: got %v, want nothing of the file in it", err)
				}
			}
			if got := tree(t, p.Home); len(got) != 1 || got[path] != c.text {
				t.Error("something was written")
			}
		})
	}
	t.Run("what is no file is refused", func(t *testing.T) {
		p := at(t, "")
		if err := os.Mkdir(filepath.Join(p.Home, ".claude.json"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := cli.PlanConnection(lookup(t, "claude"), forced(e), p)
		wantCode(t, err, hub.CodeInvalid)
	})
	t.Run("a link to nothing is refused", func(t *testing.T) {
		p := at(t, "")
		if err := os.Symlink("nowhere", filepath.Join(p.Home, ".claude.json")); err != nil {
			t.Fatal(err)
		}
		_, err := cli.PlanConnection(lookup(t, "claude"), forced(e), p)
		wantCode(t, err, hub.CodeInvalid)
	})
	t.Run("a file that is too large is refused", func(t *testing.T) {
		p := at(t, "")
		if err := os.Truncate(write(t, filepath.Join(p.Home, ".claude.json"), ""), 33<<20); err != nil {
			t.Fatal(err)
		}
		_, err := cli.PlanConnection(lookup(t, "claude"), forced(e), p)
		wantCode(t, err, hub.CodeTooLarge)
	})
}

func TestApply(t *testing.T) {
	mode := func(t *testing.T, path string) fs.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	t.Run("the backup is what was there, under a name with the time", func(t *testing.T) {
		p := at(t, "")
		path := write(t, filepath.Join(p.Home, ".claude.json"), "{ }")
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		done := apply(t, plan(t, "claude", byHTTP, p))
		want := path + ".parley-backup-20260304T120000Z"
		if len(done) != 1 || done[0].Path != path || done[0].Backup != want {
			t.Fatalf("written: got %+v, want %s with backup %s", done, path, want)
		}
		wantFile(t, want, "{ }")
		if got := mode(t, want); got != 0o640 {
			t.Errorf("mode of the backup: got %o, want 640", got)
		}
		if got := mode(t, path); got != 0o640 {
			t.Errorf("mode: got %o, want 640", got)
		}
		held, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		done = apply(t, undo(t, "claude", p))
		if want += "-2"; len(done) != 1 || done[0].Backup != want {
			t.Fatalf("second in one second: got %+v, want %s", done, want)
		}
		wantFile(t, want, string(held))
		wantFile(t, path, "{ }")
	})
	t.Run("a new file with a key is for its owner alone", func(t *testing.T) {
		for _, scope := range []cli.Scope{cli.ScopeUser, cli.ScopeProject} {
			p := at(t, scope)
			done := apply(t, plan(t, "gemini", byHTTP, p))
			if got := mode(t, done[0].Path); got != 0o600 || done[0].Backup != "" {
				t.Errorf("%s: got mode %o and backup %q, want 600 and none", scope, got, done[0].Backup)
			}
		}
	})
	t.Run("a link stays a link, and its target keeps its mode", func(t *testing.T) {
		p := at(t, "")
		target := write(t, filepath.Join(p.Home, "dotfiles", "settings.json"), "{}")
		link := filepath.Join(p.Home, ".qwen", "settings.json")
		if err := os.Mkdir(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		c := plan(t, "qwen", byStdio, p)
		if !strings.Contains(c.String(), "is a link: the change is made in "+target) {
			t.Errorf("notes: got %q, want the link's target", c.Notes)
		}
		apply(t, c)
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("link: got %q (%v), want %q", got, err, target)
		}
		wantFile(t, target, string(c.Edits[0].After))
		if got := mode(t, target); got != 0o644 {
			t.Errorf("mode: got %o, want 644", got)
		}
	})
	t.Run("a file that was made meanwhile is left alone", func(t *testing.T) {
		for _, text := range []string{"", "{\"a\": 1}"} {
			p := at(t, "")
			c := plan(t, "claude", byStdio, p)
			path := write(t, filepath.Join(p.Home, ".claude.json"), text)
			_, err := c.Apply(noon, "")
			wantCode(t, err, hub.CodeConflict)
			wantFile(t, path, text)
		}
	})
	t.Run("a file that was edited meanwhile is left alone", func(t *testing.T) {
		p := at(t, "")
		path := write(t, filepath.Join(p.Home, ".claude.json"), "{}")
		c := plan(t, "claude", byStdio, p)
		write(t, path, "{\"a\": 1}")
		_, err := c.Apply(noon, "")
		wantCode(t, err, hub.CodeConflict)
		wantFile(t, path, "{\"a\": 1}")
	})
	t.Run("if one file cannot be written the others are put back", func(t *testing.T) {
		for _, there := range []bool{true, false} {
			p := at(t, "")
			e := byStdio
			e.Instruction = briefing.Connected
			rules := write(t, filepath.Join(p.Home, ".claude", "CLAUDE.md"), "hi\n")
			want := map[string]string{rules: "hi\n"}
			if there {
				want[write(t, filepath.Join(p.Home, ".claude.json"), "{}")] = "{}"
			}
			for n := range 100 { // no name is left for another backup
				name := rules + ".parley-backup-" + noon.Format("20060102T150405Z")
				if n > 0 {
					name += fmt.Sprintf("-%d", n+1)
				}
				write(t, name, "")
			}
			_, err := plan(t, "claude", e, p).Apply(noon, "")
			wantCode(t, err, hub.CodeDegraded)
			if got := tree(t, p.Home); !equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if left, _ := filepath.Glob(filepath.Join(p.Home, ".*parley*")); len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
		}
	})
}

func TestRendering(t *testing.T) {
	t.Run("the key is not shown", func(t *testing.T) {
		for _, c := range cli.Connectable() {
			for _, e := range []cli.Entry{byHTTP, {Key: byHTTP.Key}} {
				p := at(t, cli.ScopeProject)
				change := plan(t, c.Name, e, p)
				if got := change.String(); strings.Contains(got, e.Key) || !strings.Contains(got, "<key>") || !strings.Contains(got, "version control") {
					t.Errorf("%s: got %s, want the key masked and a warning", c.Name, got)
				}
				raw, err := json.Marshal(change)
				if err != nil || bytes.Contains(raw, []byte(e.Key)) {
					t.Errorf("%s: got %s (%v), want no key", c.Name, raw, err)
				}
				apply(t, change)
				e.Key = "cacp_sk_live_new"
				if got := plan(t, c.Name, e, p).String() + undo(t, c.Name, p).String(); strings.Contains(got, byHTTP.Key) {
					t.Errorf("%s: got %s, want the old key out of it", c.Name, got)
				}
			}
		}
	})
	t.Run("a key in a file that others can read is pointed out", func(t *testing.T) {
		p := at(t, "")
		write(t, filepath.Join(p.Home, ".claude.json"), "{}")
		if got := plan(t, "claude", byHTTP, p).String(); !strings.Contains(got, "other users") {
			t.Errorf("got %s, want a warning", got)
		}
	})
	t.Run("it says what happens to each file", func(t *testing.T) {
		p := at(t, "")
		e := cli.Entry{KeyFile: "/k", Instruction: "Look."}
		write(t, filepath.Join(p.Home, ".codex/AGENTS.md"), "hi")
		got := strings.ReplaceAll(plan(t, "codex", e, p).String(), p.Home, "~")
		want := `create ~/.codex/config.toml: the MCP server parley
    [mcp_servers.parley]
    command = "parley"
    args = ["mcp", "--key-file", "/k"]
change ~/.codex/AGENTS.md: the instruction for parley
    Look.
`
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := undo(t, "codex", p).String(); got != "codex: nothing to change\n" {
			t.Errorf("got %q", got)
		}
		apply(t, plan(t, "codex", e, p))
		got = strings.ReplaceAll(undo(t, "codex", p).String(), p.Home, "~")
		want = "remove ~/.codex/config.toml: the MCP server parley\nchange ~/.codex/AGENTS.md: the instruction for parley\n"
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestDetect(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	install := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(self, path); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a CLI that is not installed is connected only by force", func(t *testing.T) {
		_, err := cli.PlanConnection(lookup(t, "codex"), byStdio, at(t, ""))
		wantCode(t, err, hub.CodeNotFound)
		if missing, ok := errors.AsType[*cli.NotInstalledError](err); !ok || missing.CLI != "Codex CLI" {
			t.Errorf("error: got %v, want NotInstalledError", err)
		}
		plan(t, "codex", byStdio, at(t, ""))
	})
	home := t.TempDir()
	install(t, filepath.Join(bin, "codex"))
	install(t, filepath.Join(bin, "gemini"))
	install(t, filepath.Join(bin, "qwen"))
	install(t, filepath.Join(home, ".claude/local/claude"))
	t.Run("an installed CLI is connected", func(t *testing.T) {
		if _, err := cli.PlanConnection(lookup(t, "codex"), byStdio, at(t, "")); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(asCLI, "codex=codex-cli 0.166.0\ngemini=1.2.3-nightly.4 (x)\nqwen=flood\nclaude=Claude 2.1.197.")
	t.Run("each is found with its version, wherever its installer put it", func(t *testing.T) {
		got := cli.Detect(t.Context(), home)
		want := []cli.Installation{
			{CLI: lookup(t, "claude"), Path: filepath.Join(home, ".claude/local/claude"), Version: "2.1.197"},
			{CLI: lookup(t, "codex"), Path: filepath.Join(bin, "codex"), Version: "0.166.0"},
			{CLI: lookup(t, "gemini"), Path: filepath.Join(bin, "gemini"), Version: "1.2.3-nightly.4"},
			{CLI: lookup(t, "qwen"), Path: filepath.Join(bin, "qwen"), Problem: "its version command printed no version"},
		}
		if len(got) != len(want) {
			t.Fatalf("got %+v, want %d", got, len(want))
		}
		for i := range want {
			if got[i].Name != want[i].Name || got[i].Path != want[i].Path || got[i].Version != want[i].Version || got[i].Problem != want[i].Problem {
				t.Errorf("got %+v, want %+v", got[i], want[i])
			}
		}
	})
	t.Run("one that fails or hangs does not keep the others", func(t *testing.T) {
		ready := filepath.Join(t.TempDir(), "ready")
		switch err := mkfifo(ready); {
		case errors.Is(err, errors.ErrUnsupported):
			t.Skip("the system has no named pipes in folders")
		case err != nil:
			t.Fatal(err)
		}
		t.Setenv(asCLI, "codex=fail\ngemini=no idea\nqwen=hang "+ready+"\nclaude=Claude 2.1.197")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			defer cancel()
			pipe, err := os.Open(ready)
			if err != nil {
				gone <- err
				return
			}
			defer pipe.Close()
			_, err = pipe.Read(make([]byte, 1)) // waits until the program that the script started writes
			cancel()
			if err == nil {
				_, err = io.Copy(io.Discard, pipe) // waits until that program is gone
			}
			gone <- err
		}()
		got := cli.Detect(ctx, home)
		select {
		case err := <-gone:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience.For(time.Minute)):
			t.Error("what the CLI started still runs")
		}
		for _, i := range got {
			switch i.Name {
			case "codex", "gemini", "qwen":
				if i.Version != "" || i.Problem == "" {
					t.Errorf("%s: got %q, want a problem", i.Name, i.Version)
				}
			}
		}
	})
}
