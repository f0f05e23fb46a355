package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConnectWake has the hooks of every session of a CLI added to its files, used, and
// taken out again.
func TestConnectWake(t *testing.T) {
	h := newHouse(t)
	t.Cleanup(func() { // the hooks of these CLIs started waiters, which write into the home
		for _, cli := range []string{"codex", "qwen"} {
			h.endRunning("wake", "watch", cli, "--session", cli)
		}
	})
	allowed := func() bool {
		var got struct{ Agents []struct{ Allowed bool } }
		h.ok(h.operator("agent", "sessions", "builder", "--json"), &got)
		return len(got.Agents) == 1 && got.Agents[0].Allowed
	}
	for name, test := range map[string]struct {
		files  []string // that have hooks, below the home
		before string   // of the first; "" if there is none
		hook   string
	}{
		"claude":   {[]string{".claude/settings.json"}, `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}, "theme": "dark"}` + "\n", "UserPromptSubmit"},
		"codex":    {[]string{".codex/hooks.json"}, "", "UserPromptSubmit"},
		"qwen":     {[]string{".qwen/settings.json"}, "{\n  // mine\n  \"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"mine\"}]}]}\n}\n", "UserPromptSubmit"},
		"gemini":   {[]string{".gemini/settings.json"}, "", "BeforeAgent"},
		"opencode": {[]string{".config/opencode/plugin/parley.js"}, "", ""},
		"copilot":  {[]string{".copilot/hooks/parley.json", ".copilot/extensions/parley/extension.mjs"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			user := t.TempDir()
			connect := func(args ...string) result {
				t.Helper()
				return do(t, parley(t, append(h.env(""), "HOME="+user), append([]string{"connect", name, "--as-operator", "--agent", "builder"}, args...)...))
			}
			path := func(file string) string { return filepath.Join(user, filepath.FromSlash(file)) }
			read := func(file string) string {
				raw, err := os.ReadFile(path(file))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return string(raw)
			}
			if test.before != "" {
				if err := os.MkdirAll(filepath.Dir(path(test.files[0])), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path(test.files[0]), []byte(test.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h.ok(connect("--wake", "--force", "--print"), nil)
			if got := read(test.files[0]); got != test.before {
				t.Errorf("--print has changed the file: %s", got)
			}
			r := connect("--wake", "--force")
			h.ok(r, nil)
			for _, file := range test.files {
				contains(t, r.out, path(file))
				if text := read(file); !strings.Contains(text, "wake") || strings.Contains(text, "cacp_sk_live") {
					t.Errorf("%s: got %s", file, text)
				}
			}
			if strings.Contains(test.before, "mine") {
				contains(t, read(test.files[0]), "mine", "wake hook "+name)
			}
			if !allowed() {
				t.Error("wakes are not allowed")
			}
			first := read(test.files[0])
			h.ok(connect("--wake", "--force"), nil)
			if again := read(test.files[0]); again != first {
				t.Errorf("the second time: got %s, want %s", again, first)
			}
			if test.hook != "" {
				h.ok(h.as("planner", "send", "builder", "for "+name), nil)
				var settings struct {
					Hooks map[string][]struct{ Hooks []struct{ Command string } }
				}
				text := strings.ReplaceAll(first, "  // mine\n", "")
				if err := json.Unmarshal([]byte(text), &settings); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				list := settings.Hooks[test.hook]
				cmd := exec.Command("sh", "-c", list[len(list)-1].Hooks[0].Command)
				cmd.Env = append(os.Environ(), asParley+"=1", patientHook+"=1", "GORACE=atexit_sleep_ms=0")
				cmd.Stdin = strings.NewReader(`{"session_id":"` + name + `","cwd":"/d","hook_event_name":"` + test.hook + `","prompt":"hello"}`)
				contains(t, do(t, cmd).out, "new message", "for builder")
			}
			h.ok(connect("--undo"), nil)
			for i, file := range test.files {
				want := test.before
				if i > 0 {
					want = ""
				}
				if got := read(file); got != want {
					t.Errorf("after --undo %s is %q, want %q", file, got, want)
				}
			}
			if allowed() {
				t.Error("wakes are still allowed")
			}
		})
	}
	t.Run("a connection without a key file is refused", func(t *testing.T) {
		refused(t, do(t, parley(t, append(h.env(""), "HOME="+t.TempDir()), "connect", "claude", "--as-operator", "--agent", "builder", "--force", "--wake", "--http", "--json")), exitUsage, "usage")
	})
	t.Run("hooks for a project are refused", func(t *testing.T) {
		refused(t, do(t, parley(t, append(h.env(""), "HOME="+t.TempDir()), "connect", "claude", "--as-operator", "--agent", "builder", "--force", "--wake", "--scope", "project", "--json")), exitUsage, "schema_invalid")
	})
}
