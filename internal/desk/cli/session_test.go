package cli_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
)

// request returns a request in an empty environment.
func request(env map[string]string) cli.Request {
	return cli.Request{
		Program: []string{"/opt/it's here/parley"}, Folder: "/home/u/.parley/launch/worker.7", Env: []string{"PARLEY_HOME=/home/u/.parley", "PARLEY_LAUNCH=/home/u/.parley/launch/worker.7"},
		Agent: "worker", Binary: "/bin/cli", Args: []string{"-c", "model=\"m\"", "hello"}, Wake: true,
		Getenv: func(name string) string { return env[name] },
		Read:   func(string) ([]byte, error) { return nil, fs.ErrNotExist },
	}
}

func launchPlan(t *testing.T, name string, r cli.Request) cli.Plan {
	t.Helper()
	p, err := lookup(t, name).Plan(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlans(t *testing.T) {
	for _, c := range cli.All() {
		t.Run(c.Name, func(t *testing.T) {
			p := launchPlan(t, c.Name, request(nil))
			if !slices.Equal(p.Args[len(p.Args)-3:], []string{"-c", "model=\"m\"", "hello"}) {
				t.Errorf("the user's arguments are not the last: %q", p.Args)
			}
			for name, content := range p.Files {
				if !filepath.IsLocal(name) {
					t.Errorf("%s is outside the folder of the launch", name)
				}
				if strings.HasSuffix(name, ".json") && !json.Valid([]byte(content)) {
					t.Errorf("%s is not JSON:\n%s", name, content)
				}
			}
			all := strings.Join(append(slices.Concat(p.Args, p.Env, p.Beside), sortedFiles(p)...), "\n")
			if !strings.Contains(all, "You are worker, an agent on a Parley hub") && c.Name != "gemini" {
				t.Error("the instruction is missing")
			}
			for _, part := range []string{"mcp", "/home/u/.parley"} {
				if !strings.Contains(all, part) && c.Name != "pi" {
					t.Errorf("%s is missing", part)
				}
			}
			quiet := request(nil)
			quiet.Wake = false
			p = launchPlan(t, c.Name, quiet)
			all = strings.Join(append(slices.Concat(p.Args, p.Env, p.Beside), sortedFiles(p)...), "\n")
			if strings.Contains(all, "monitors.json") || strings.Contains(all, "--input-file") || strings.Contains(all, "--experimental") || p.Launch.Wake {
				t.Errorf("a session that mail may not wake is armed: %s", all)
			}
		})
	}
}

func sortedFiles(p cli.Plan) (out []string) {
	for name, content := range p.Files {
		out = append(out, name+"\n"+content)
	}
	slices.Sort(out)
	return out
}

func TestPlansKeepTheUsersSettings(t *testing.T) {
	t.Run("the system's defaults of qwen stay", func(t *testing.T) {
		r := request(map[string]string{"QWEN_CODE_SYSTEM_DEFAULTS_PATH": "/etc/mine.json"})
		r.Read = func(path string) ([]byte, error) {
			if path != "/etc/mine.json" {
				t.Errorf("read %s", path)
			}
			return []byte(`{"ui":{"theme":"x"},"hooks":{"Stop":[{"hooks":[{"command":"mine"}]}]}}`), nil
		}
		text := launchPlan(t, "qwen", r).Files["defaults.json"]
		for _, part := range []string{`"theme": "x"`, `"command": "mine"`, "wake hook qwen Stop"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s is missing in %s", part, text)
			}
		}
	})
	t.Run("defaults that are not JSON are refused", func(t *testing.T) {
		r := request(nil)
		r.Read = func(string) ([]byte, error) { return []byte("{"), nil }
		if _, err := lookup(t, "gemini").Plan(r); err == nil {
			t.Error("there is no error")
		}
	})
	t.Run("the configuration in a variable of opencode stays", func(t *testing.T) {
		p := launchPlan(t, "opencode", request(map[string]string{"OPENCODE_CONFIG_CONTENT": `{"model":"m","plugin":["mine"],"mcp":{"other":{}}}`}))
		for _, part := range []string{`"model":"m"`, `"mine"`, `"other"`, `"parley"`} {
			if !strings.Contains(p.Env[0], part) {
				t.Errorf("%s is missing in %s", part, p.Env[0])
			}
		}
	})
	t.Run("a flag that the user gave is not given twice", func(t *testing.T) {
		r := request(nil)
		r.Args = []string{"--append-system-prompt=x", "--settings", "y"}
		if p := launchPlan(t, "claude", r); slices.Contains(p.Args[:len(p.Args)-3], "--settings") || slices.Contains(p.Args, "--append-system-prompt") {
			t.Errorf("got %q", p.Args)
		}
	})
	t.Run("the server of codex gets the user's configuration", func(t *testing.T) {
		if p := launchPlan(t, "codex", request(nil)); p.Beside[len(p.Beside)-1] != "model=\"m\"" || p.Args[0] != "--remote" {
			t.Errorf("got %q and %q", p.Beside, p.Args)
		}
	})
}

func TestReadInput(t *testing.T) {
	const id = "w_012345678901"
	for _, raw := range []string{
		`{"session_id":"s","cwd":"/d","prompt":"[parley wake ` + id + `] 1 unread message","stop_hook_active":true}`,
		`{"sessionId":"s","cwd":"/d","prompt":"x ` + id + `","stopHookActive":true,"more":{}}`,
	} {
		got, err := cli.ReadInput([]byte(raw))
		if err != nil || got.Session != "s" || got.Dir != "/d" || !slices.Equal(got.Wakes, []string{id}) || !got.StopActive {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
	}
	for raw, reminds := range map[string]bool{
		`{"notification_type":"idle_prompt","message":"waiting for your input"}`: true,
		`{"notification_type":"permission_prompt"}`:                              false,
		`{"notificationType":"agent_idle"}`:                                      true,
		`{"notification_type":"ToolPermission"}`:                                 false,
		`{"message":"Claude needs your permission to use Bash"}`:                 false,
		`{"tool_name":"shell"}`:                                                  false, // the hook itself is the question
	} {
		if got, err := cli.ReadInput([]byte(raw)); err != nil || got.Reminds != reminds {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
	}
	if _, err := cli.ReadInput([]byte("{")); err == nil {
		t.Error("input that is not JSON is read")
	}
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct{ cli, hook, want string }{
		{"claude", "SessionStart", `{"hookSpecificOutput":{"additionalContext":"N","hookEventName":"SessionStart"}}`},
		{"claude", "Stop", `{"decision":"block","reason":"N"}`},
		{"codex", "UserPromptSubmit", `{"hookSpecificOutput":{"additionalContext":"N","hookEventName":"UserPromptSubmit"}}`},
		{"qwen", "PostToolUse", `{"hookSpecificOutput":{"additionalContext":"N","hookEventName":"PostToolUse"}}`},
		{"gemini", "AfterAgent", `{"decision":"deny","reason":"N"}`},
		{"gemini", "BeforeAgent", `{"hookSpecificOutput":{"additionalContext":"N","hookEventName":"BeforeAgent"}}`},
		{"copilot", "agentStop", `{"decision":"block","reason":"N"}`},
		{"copilot", "postToolUse", `{"additionalContext":"N"}`},
		{"opencode", "turn_end", `{"notice":"N"}`},
		{"pi", "prompt", `{"notice":"N"}`},
		{"claude", "SessionEnd", ""},
		{"claude", "Notification", ""},
	} {
		c := lookup(t, test.cli)
		h, ok := c.Hook(test.hook)
		if got := strings.TrimSpace(string(c.Answer(h, "N"))); !ok || got != test.want {
			t.Errorf("%s %s: got %s, want %s", test.cli, test.hook, got, test.want)
		}
		if got := c.Answer(h, ""); got != nil {
			t.Errorf("%s %s: without a notice the hook says %s", test.cli, test.hook, got)
		}
	}
}

func TestHandQwen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "input.jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := lookup(t, "qwen")
	if err := c.Hand(context.Background(), cli.Target{Launch: cli.Launch{Input: file}}, cli.Notice{Text: "a\nb \"c\""}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if want := `{"text":"a b \"c\"","type":"submit"}` + "\n"; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
	if err := c.Hand(context.Background(), cli.Target{}, cli.Notice{Text: "a"}); err == nil {
		t.Error("a session without an input file takes a notice")
	}
}

func TestLookupForLaunch(t *testing.T) {
	_, err := cli.Lookup("cladue")
	if hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := cli.Lookup("Claude"); err != nil {
		t.Error(err)
	}
}
