package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConnect(t *testing.T) {
	h := newHouse(t)
	user := t.TempDir()
	config := filepath.Join(user, ".claude.json")
	const before = `{"numStartups": 3, "mcpServers": {"x": {"command": "y"}}}`
	if err := os.WriteFile(config, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	connect := func(args ...string) result {
		t.Helper()
		env := append(h.env(""), "HOME="+user)
		return do(t, parley(t, env, append(append([]string{"connect"}, args...), "--as-operator")...))
	}
	holds := func(t *testing.T, want string) {
		t.Helper()
		got, err := os.ReadFile(config)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", config, got, err, want)
		}
	}
	t.Run("--print writes nothing and makes no key", func(t *testing.T) {
		res := connect("claude", "--agent", "planner", "--force", "--print")
		h.ok(res, nil)
		contains(t, res.out, "change "+config, `"parley": {`, "acp_inbox")
		contains(t, res.err, "nothing was written")
		holds(t, before)
		if strings.Contains(h.operator("agent", "list").out, "connect-claude") {
			t.Error("a key was made")
		}
	})
	var entry struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcpServers"`
	}
	t.Run("the entry that is written works, under the agent's name", func(t *testing.T) {
		res := connect("claude", "--agent", "planner", "--force")
		h.ok(res, nil)
		contains(t, res.out, "is connected as planner", "--undo", "claude.json is kept as")
		raw, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		s := entry.Servers["parley"]
		if strings.Contains(string(raw), "cacp_sk_live") || len(s.Args) != 3 || entry.Servers["x"].Command != "y" {
			t.Fatalf("got %s, want the key in a file and the rest untouched", raw)
		}
		cmd := parley(t, []string{"PARLEY_URL=" + s.Env["PARLEY_URL"], "PARLEY_HOME=" + t.TempDir()}, "send", "builder", "hello", "--key-file", s.Args[2])
		h.ok(do(t, cmd), nil)
		contains(t, h.as("builder", "inbox").out, "from planner")
		note, err := os.ReadFile(filepath.Join(user, ".claude", "CLAUDE.md"))
		if err != nil || !strings.Contains(string(note), "acp_inbox") {
			t.Errorf("the instruction: got %s (%v)", note, err)
		}
		info, err := os.Stat(s.Args[2])
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key file: got %v (%v), want 0600", info.Mode(), err)
		}
	})
	t.Run("connecting again replaces the key and revokes the old one", func(t *testing.T) {
		var got struct {
			Revoked int `json:"keys_revoked"`
			Written []any
		}
		h.ok(connect("claude", "--agent", "planner", "--force", "--json"), &got)
		if got.Revoked != 1 || got.Written == nil || len(got.Written) != 0 {
			t.Errorf("got %+v, want one key revoked and no file changed", got)
		}
		h.ok(do(t, parley(t, h.env(""), "inbox", "--key-file", entry.Servers["parley"].Args[2])), nil)
	})
	t.Run("an agent that is new is added", func(t *testing.T) {
		res := connect("codex", "--agent", "newcomer", "--role", "reviewer", "--force", "--http")
		h.ok(res, nil)
		contains(t, res.out, "added newcomer to the hub")
		if strings.Contains(res.out, "cacp_sk_live") {
			t.Error("the key is printed")
		}
		contains(t, h.operator("agent", "list").out, "newcomer  reviewer")
		raw, err := os.ReadFile(filepath.Join(user, ".codex", "config.toml"))
		if err != nil || !strings.Contains(string(raw), "Bearer cacp_sk_live_") {
			t.Errorf("got %s (%v), want the key in it", raw, err)
		}
	})
	t.Run("--undo takes out what was added, byte for byte, and revokes the key", func(t *testing.T) {
		key := entry.Servers["parley"].Args[2]
		held, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		res := connect("claude", "--undo")
		h.ok(res, nil)
		contains(t, res.out, "1 keys revoked")
		holds(t, before)
		if _, err := os.Stat(filepath.Join(user, ".claude", "CLAUDE.md")); !os.IsNotExist(err) {
			t.Errorf("the instruction file is still there: %v", err)
		}
		if _, err := os.Stat(key); !os.IsNotExist(err) {
			t.Errorf("the key file is still there: %v", err)
		}
		if res := do(t, parley(t, append(h.env(""), "PARLEY_KEY="+strings.TrimSpace(string(held))), "inbox")); res.code != exitRefused {
			t.Errorf("the key still works: %s", res.out)
		}
		h.ok(connect("claude", "--undo"), nil) // again is fine
	})
	for _, tt := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"a CLI nobody knows", []string{"claud", "--agent", "x"}, exitMissing, "did you mean claude?"},
		{"a CLI that is not installed", []string{"qwen", "--agent", "x"}, exitMissing, "--force"},
		{"no agent", []string{"claude", "--force"}, exitUsage, "--agent"},
		{"an agent's name that is a path", []string{"claude", "--agent", "../x", "--force"}, exitUsage, "is not a valid agent name"},
		{"a scope that is none", []string{"claude", "--agent", "x", "--scope", "world", "--force"}, exitUsage, "scope"},
	} {
		t.Run(tt.name+" is refused and writes nothing", func(t *testing.T) {
			res := connect(tt.args...)
			if res.code != tt.code || !strings.Contains(res.err, tt.text) {
				t.Errorf("got %d %s, want %d and %q", res.code, res.err, tt.code, tt.text)
			}
			holds(t, before)
		})
	}
	t.Run("a configuration that is broken is refused with its place, and left alone", func(t *testing.T) {
		const broken = "{\n  \"mcpServers\": [\n"
		if err := os.WriteFile(config, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		res := connect("claude", "--agent", "planner", "--force")
		if res.code != exitUsage || !strings.Contains(res.err, ".claude.json") {
			t.Errorf("got %d %s, want %d and the place", res.code, res.err, exitUsage)
		}
		holds(t, broken)
	})
}
