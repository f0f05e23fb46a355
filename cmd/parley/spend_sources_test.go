package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A usageSource is a CLI that leaves counts, in the form that the CLI was seen to write.
type usageSource struct {
	cli              string
	start, stop, end string // its hooks
	main             string // the transcript, below a folder; "" if our plugin tells the counts
	sub              string // the transcript of a subagent; "" if it writes into the same one
	head             string // the first lines of each transcript
	call             func(id, at string, t hub.Tokens) string
}

// usageSession is the id of the sessions of these tests.
const usageSession = "5e55"

// usageSources are all CLIs with counts. Of the two numbers that some write for a call, and of the
// lines that repeat one, only one counts.
var usageSources = []usageSource{
	{
		cli: "claude", start: "SessionStart", stop: "Stop", end: "SessionEnd", main: usageSession + ".jsonl", sub: usageSession + "/subagents/agent-1.jsonl",
		call: func(id, at string, t hub.Tokens) string {
			line := fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"id":%q,"model":"claude-sonnet-4-5","content":[{"type":"text","text":%q}],"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}}}`+"\n",
				at, id, plantedWord, t.Input, t.CachedWrite, t.CachedRead, t.Output)
			return line + line
		},
	},
	{
		cli: "codex", start: "SessionStart", stop: "Stop", end: "SessionEnd", main: "2026/11/18/rollout-a.jsonl", sub: "2026/11/19/rollout-b.jsonl",
		head: `{"type":"session_meta","payload":{"id":"` + usageSession + `"}}` + "\n" + `{"type":"turn_context","payload":{"model":"gpt-5-codex"}}` + "\n",
		call: func(id, at string, t hub.Tokens) string {
			counts := fmt.Sprintf(`{"input_tokens":%d,"cached_input_tokens":%d,"cache_write_input_tokens":0,"output_tokens":%d,"reasoning_output_tokens":%d}`, t.Input+t.CachedRead, t.CachedRead, t.Output, t.Reasoning)
			return fmt.Sprintf(`{"type":"token_usage_record","timestamp":%q,"payload":{"thread_id":"t","response_id":%q,"usage":%s,"turn_token_usage":%[3]s}}`+"\n", at, id, counts) +
				fmt.Sprintf(`{"type":"event_msg","timestamp":%q,"payload":{"type":"token_count","info":{"last_token_usage":%s}}}`+"\n", at, counts)
		},
	},
	{
		cli: "qwen", start: "SessionStart", stop: "Stop", end: "SessionEnd", main: "chats/" + usageSession + ".jsonl", sub: "subagents/" + usageSession + "/agent-1.jsonl",
		call: func(id, at string, t hub.Tokens) string {
			return fmt.Sprintf(`{"uuid":"ui-%s","timestamp":%q,"type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"input_token_count":%d}}}`+"\n", id, at, t.Input) +
				fmt.Sprintf(`{"uuid":%q,"timestamp":%q,"type":"assistant","model":"qwen3-coder-plus","message":{"parts":[{"text":%q}]},"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"cachedContentTokenCount":%d}}`+"\n",
					id, at, plantedWord, t.Input+t.CachedRead, t.Output, t.Reasoning, t.CachedRead)
		},
	},
	{
		cli: "gemini", start: "SessionStart", stop: "AfterAgent", end: "SessionEnd", main: "chats/s.jsonl", sub: "chats/" + usageSession + "/a.jsonl",
		call: func(id, at string, t hub.Tokens) string {
			line := fmt.Sprintf(`{"id":%q,"timestamp":%q,"type":"gemini","content":%q,"tokens":{"input":%d,"output":%d,"cached":%d,"thoughts":%d,"tool":0},"model":"gemini-2.5-pro"}`+"\n",
				id, at, plantedWord, t.Input+t.CachedRead, t.Output-t.Reasoning, t.CachedRead, t.Reasoning)
			return line + line
		},
	},
	{
		cli: "copilot", start: "sessionStart", stop: "agentStop", end: "sessionEnd", main: "session-state/" + usageSession + "/events.jsonl",
		call: func(id, at string, t hub.Tokens) string {
			return fmt.Sprintf(`{"type":"session.usage_record","timestamp":%q,"id":"e-%s","data":{"usage":{"model":"gpt-5","inputTokens":%d,"outputTokens":%d,"cacheReadTokens":%d,"cacheWriteTokens":0,"reasoningTokens":%d,"cost":1,"apiCallId":%[2]q}}}`+"\n",
				at, id, t.Input+t.CachedRead, t.Output, t.CachedRead, t.Reasoning)
		},
	},
	{cli: "opencode", start: "start", stop: "turn_end", end: "end", call: pluginCall},
	{cli: "pi", start: "start", stop: "turn_end", end: "end", call: pluginCall},
}

// pluginCall is a call as our plugins tell it.
func pluginCall(id, _ string, t hub.Tokens) string {
	return fmt.Sprintf(`{"id":%q,"model":"gpt-5","input":%d,"output":%d,"cached_read":%d,"cached_write":0,"reasoning":%d,"cost":0.001,"at":%d}`, id, t.Input, t.Output, t.CachedRead, t.Reasoning, time.Now().UnixMilli())
}

// A usageCount is a session of a source, and what its model said.
type usageCount struct {
	*house
	usageSource
	folder string
	told   []string // calls that the plugin tells with the next hook
	late   func()   // writes a call that was made before the last hook; nil for none
	want   hub.Tokens
	calls  int
}

// hook runs a hook of the CLI.
func (c *usageCount) hook(name string) {
	c.t.Helper()
	c.hookWith(name, nil)
}

// hookWith runs a hook of the CLI with more members of its input, and returns its output.
func (c *usageCount) hookWith(name string, more map[string]any) string {
	c.t.Helper()
	input := map[string]any{"session_id": usageSession, "cwd": "/d", "hook_event_name": name}
	maps.Copy(input, more)
	if c.main != "" && c.cli != "copilot" { // whose hooks do not name it
		input["transcript_path"] = filepath.Join(c.folder, c.main)
	}
	if len(c.told) > 0 && more == nil { // the plugin tells them at the end of the turn
		input["usage"] = json.RawMessage("[" + strings.Join(c.told, ",") + "]")
		c.told = nil
	}
	raw, err := json.Marshal(input)
	if err != nil {
		c.t.Fatal(err)
	}
	args := []string{"wake", "hook", c.cli, name}
	if c.cli == "codex" { // one command for all hooks, which its user trusts once
		args = args[:3]
	}
	cmd := parley(c.t, append(c.env("builder"), "COPILOT_HOME="+c.folder), args...)
	cmd.Stdin = strings.NewReader(string(raw))
	r := do(c.t, cmd)
	if r.code != 0 || r.err != "" {
		c.t.Fatalf("%s %s: exit %d: %s", c.cli, name, r.code, r.err)
	}
	if c.late != nil {
		c.late()
		c.late = nil
	}
	return r.out
}

// answers has the model answer once more, with odd counts; in a subagent if there is one.
func (c *usageCount) answers(inSubagent bool) {
	c.t.Helper()
	c.answer(inSubagent)()
}

// answer is answers of which the CLI tells later, with the function that it returns.
func (c *usageCount) answer(inSubagent bool) (tell func()) {
	c.t.Helper()
	n := int64(c.calls)
	c.calls++
	t := hub.Tokens{Input: 1 + n*37%911, Output: 60 + n*53%701, CachedRead: n * 91 % 5003, Reasoning: n % 59}
	if c.cli == "claude" {
		t.CachedWrite = n * 7 % 211
		t.Reasoning = 0 // a part of its output that it does not tell
	}
	c.want = c.want.Plus(t)
	lines := c.call(fmt.Sprintf("call-%s-%d", c.cli, n), hub.At(time.Now()).String(), t)
	if c.main == "" {
		return func() { c.told = append(c.told, lines) }
	}
	name := c.main
	if inSubagent && c.sub != "" {
		name = c.sub
	}
	return func() { c.append(name, lines) }
}

// append adds lines to a transcript of the session.
func (c *usageCount) append(name, lines string) {
	c.t.Helper()
	path := filepath.Join(c.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		lines = c.head + lines
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(lines)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	f.Close()
}

// TestCountsOfEveryCLI compares what a model said in 10 turns of 10 answers, in make test-real in 100
// turns, with the sums on the hub, for every
// CLI that leaves counts: with cached input, subagents, lines that repeat a call, calls that are
// written after the hook at the end of their turn, a session that is taken up again and a CLI that is
// killed in the middle of a turn.
func TestCountsOfEveryCLI(t *testing.T) {
	for _, s := range usageSources {
		t.Run(s.cli, func(t *testing.T) {
			t.Parallel()
			c := &usageCount{house: newHouse(t), usageSource: s, folder: t.TempDir()}
			c.hook(s.start)
			turns := 10
			if os.Getenv("PARLEY_REAL") != "" {
				turns = 100
			}
			for turn := range turns {
				for i := range 9 {
					c.answers(i%4 == 3)
				}
				c.late = c.answer(false)
				repeated := append([]string{}, c.told...)
				switch turn {
				case 4: // the window is closed and opened again
					c.hook(s.stop)
					c.hook(s.end)
					c.hook(s.start)
				case 7: // killed: no hook tells of the end, and the conversation is taken up again
					c.hook(s.start)
				default:
					c.hook(s.stop)
				}
				c.told = append(c.told, repeated...) // a plugin that tells them again
			}
			c.hook(s.end)

			got := c.spend("").Total
			if got.Tokens != c.want {
				t.Errorf("got %+v, the model said %+v", got.Tokens, c.want)
			}
			if got.Turns != int64(turns) {
				t.Errorf("%d turns, want %d", got.Turns, turns)
			}
			c.ok(c.operator("hub", "verify"), nil)
			c.house.stop()
			noFileHas(t, c.home, plantedWord)
		})
	}
}

// TestBadTranscripts has a CLI leave files that cannot be right. Each is followed by a good line, which
// counts.
func TestBadTranscripts(t *testing.T) {
	h := newHouse(t)
	good := func() string {
		return fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"id":"good","model":"m","usage":{"input_tokens":7,"output_tokens":5}}}`+"\n", hub.At(time.Now()))
	}
	one := hub.Tokens{Input: 7, Output: 5}
	var total hub.Tokens
	for i, tt := range []struct {
		name string
		text string
	}{
		{"negative", `{"type":"assistant","message":{"id":"n","usage":{"input_tokens":-7,"output_tokens":5}}}`},
		{"absurd", `{"type":"assistant","message":{"id":"a","usage":{"input_tokens":99999999999999,"output_tokens":5}}}`},
		{"of another version", `{"type":"assistant","version":99,"message":{"id":"v","usage":[{"tokens":"many"}]}}`},
		{"no JSON", `{"type":"assistant","usage" nonsense`},
		{"without an id", `{"type":"assistant","message":{"usage":{"input_tokens":7,"output_tokens":5}}}`},
		{"a line of 9 MB", `{"type":"assistant","usage":"` + strings.Repeat("x", 9<<20) + `"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSession(h, "builder", fmt.Sprint("bad", i))
			text := tt.text + "\n" + strings.ReplaceAll(good(), `"good"`, fmt.Sprintf(`"good%d"`, i))
			if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s.hook("Stop")
			total = total.Plus(one)
			if got := h.spend("").Total.Tokens; got != total {
				t.Errorf("got %+v, want %+v", got, total)
			}
		})
	}

	t.Run("doctor names the sessions with lines that cannot be right", func(t *testing.T) {
		contains(t, h.operator("doctor").out, "session bad0: 1 line with counts that no model has", "session bad4: 1 line with")
	})
	t.Run("a transcript that was cut counts from its next whole line", func(t *testing.T) {
		s := newSession(h, "builder", "cut")
		line := strings.ReplaceAll(good(), `"good"`, `"whole"`)
		for _, text := range []string{line[:len(line)/2], line} {
			if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s.hook("Stop")
		}
		total = total.Plus(one)
		if got := h.spend("").Total.Tokens; got != total {
			t.Errorf("got %+v, want %+v", got, total)
		}
	})
	t.Run("a transcript that was replaced is read anew", func(t *testing.T) {
		s := newSession(h, "builder", "replaced")
		for _, id := range []string{"first", "second"} {
			if err := os.WriteFile(s.path, []byte(strings.ReplaceAll(good(), `"good"`, fmt.Sprintf("%q", id))), 0o600); err != nil {
				t.Fatal(err)
			}
			s.hook("Stop")
			total = total.Plus(one)
		}
		if got := h.spend("").Total.Tokens; got != total {
			t.Errorf("got %+v, want %+v", got, total)
		}
	})
	t.Run("a link is not followed, and doctor says so", func(t *testing.T) {
		s := newSession(h, "builder", "link")
		target := filepath.Join(t.TempDir(), "secret.jsonl")
		if err := os.WriteFile(target, []byte(good()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, s.path); err != nil {
			t.Skip(err)
		}
		s.hook("Stop")
		if got := h.spend("").Total.Tokens; got != total {
			t.Errorf("got %+v, want %+v", got, total)
		}
		contains(t, h.operator("doctor").out, "usage of claude", "is a link or no file, and is not read")
	})
	t.Run("a transcript of 1 GB is read from its end", func(t *testing.T) {
		s := &claudeSession{h, "large", "builder", filepath.Join(t.TempDir(), "large.jsonl")}
		if err := os.WriteFile(s.path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(s.path, 1<<30); err != nil { // a file with a hole takes no room
			t.Skip(err)
		}
		s.hook("SessionStart")
		s.answers("of-large")
		s.hook("Stop")
		s.answers("of-large-too")
		s.hook("Stop")
		if got := h.spend("").Total.Tokens; got.Output != total.Output+800 {
			t.Errorf("got %+v, want two calls more than %+v", got, total)
		}
	})
}

// terminalHooks are the hooks of each CLI at a prompt and before a tool, and its tool for commands.
var terminalHooks = map[string]struct {
	prompt, before, shell string
	says                  bool // it shows a sentence of a hook to its user
}{
	"claude":   {"UserPromptSubmit", "PreToolUse", "Bash", true},
	"codex":    {"UserPromptSubmit", "PreToolUse", "Bash", true},
	"qwen":     {"UserPromptSubmit", "PreToolUse", "run_shell_command", true},
	"gemini":   {"BeforeAgent", "BeforeTool", "run_shell_command", true},
	"copilot":  {"userPromptSubmitted", "preToolUse", "bash", false},
	"opencode": {"prompt", "before", "bash", false},
	"pi":       {"prompt", "before", "bash", false},
}

// TestBudgetsInTerminals has a person prompt each CLI past a budget: the turn that spends it is refused
// its next command where the transcript has the counts, else the next turn is; the first prompt after it
// says so once, on the screen where the CLI can.
func TestBudgetsInTerminals(t *testing.T) {
	for _, s := range usageSources {
		t.Run(s.cli, func(t *testing.T) {
			t.Parallel()
			c := &usageCount{house: newHouse(t), usageSource: s, folder: t.TempDir()}
			of := terminalHooks[s.cli]
			command := map[string]any{"command": "touch a.txt"}
			call := map[string]any{"tool_name": of.shell, "tool_input": command}
			if s.cli == "copilot" {
				call = map[string]any{"toolName": of.shell, "toolArgs": command}
			}
			tool := func() string {
				t.Helper()
				return c.hookWith(of.before, call)
			}
			const spent = "budget b1 of builder"

			c.hook(s.start)
			c.ok(c.operator("spend", "budget", "set", "builder", "--tokens", "100", "--per", "day"), nil)
			prompt := func() string { return c.hookWith(of.prompt, map[string]any{"prompt": plantedWord}) }
			if out := prompt(); strings.Contains(out, spent) {
				t.Errorf("before anything was spent: %s", out)
			}
			c.answers(false) // 61 tokens
			if out := tool(); out != "" {
				t.Errorf("within the budget: %s", out)
			}
			c.answers(false)
			isTranscript := s.main != ""
			out := tool()
			if got := strings.Contains(out, spent); got != isTranscript {
				t.Errorf("the command after the spent budget: %q", out)
			}
			if isTranscript {
				contains(t, out, "parley spend budget remove b1")
			}
			c.hook(s.stop)

			first, second := prompt(), prompt()
			contains(t, first, spent)
			if got := strings.Contains(first, `"systemMessage":"Parley: budget b1`); got != of.says {
				t.Errorf("on the screen: %s", first)
			}
			if strings.Contains(second, spent) {
				t.Errorf("it is said twice: %s", second)
			}
			contains(t, tool(), spent)

			c.ok(c.operator("spend", "budget", "remove", "b1"), nil)
			if out := tool(); out != "" {
				t.Errorf("after the budget was removed: %s", out)
			}
			c.hook(s.stop)
			c.hook(s.end)
			if got := c.spend("").Total; got.Tokens != c.want {
				t.Errorf("got %+v, the model said %+v", got.Tokens, c.want)
			}
		})
	}
}
