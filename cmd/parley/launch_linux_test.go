package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/launch"
)

// fakeCLI puts a program with the name of a CLI on a PATH. It tells its arguments and
// variables, the mode of its key file and who it is on the hub, and ends with 7. With
// FAKE_SESSION it runs its hook for the start of a session of that id, which FAKE_HOOK
// names. As a server it makes its socket and waits for its end.
func fakeCLI(t *testing.T, name string) (path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
[ "$1" != --version ] || exec echo "$FAKE_VERSION (fake)"
[ "$1" != app-server ] || { touch "${3#unix://}"; exec sleep 600; }
printf 'arg %%s\n' "$@"
env | sed 's/^/env /'
stat -c 'mode %%a' "$PARLEY_LAUNCH/key"
%s=1 %q status --help >/dev/null && %[1]s=1 %[2]q inbox
[ -z "$FAKE_SESSION" ] || echo "{\"session_id\":\"$FAKE_SESSION\",\"cwd\":\"/\"}" | %[1]s=1 %[2]q wake hook %[3]s "${FAKE_HOOK:-SessionStart}"
exit 7
`, asParley, self, name)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir + ":" + os.Getenv("PATH")
}

func TestLaunch(t *testing.T) {
	h := newHouse(t)
	dir, path, version := t.TempDir(), fakeCLI(t, "claude"), "1.0.0"
	start := func(args ...string) result {
		t.Helper()
		cmd := parley(t, append(h.env(""), "PATH="+path, "HOME="+t.TempDir(), "FAKE_VERSION="+version), append([]string{"claude", "--as-operator"}, args...)...)
		cmd.Dir = dir
		return do(t, cmd)
	}
	keyOf := func(agent string) (labels []string, live int) {
		var got struct {
			Agents []struct {
				ID   string
				Keys []struct {
					Label     string
					RevokedAt string `json:"revoked_at"`
				}
			}
		}
		h.ok(h.operator("agent", "list", "--json"), &got)
		for _, a := range got.Agents {
			for _, k := range a.Keys {
				if a.ID == agent && strings.HasPrefix(k.Label, "launch-") {
					labels = append(labels, k.Label)
					if k.RevokedAt == "" {
						live++
					}
				}
			}
		}
		return labels, live
	}

	r := start("--as", "worker", "--wake", "--", "--model", "x")
	if r.code != 7 {
		t.Fatalf("exit %d, want that of the CLI: %s", r.code, r.err)
	}
	contains(t, r.out, "arg --plugin-dir", "arg --mcp-config", "arg --model\narg x", "mode 600", "No messages.")
	if strings.Contains(r.out+r.err, "cacp_sk_live_") || strings.Contains(r.out, "env PARLEY_KEY=") {
		t.Error("the key is in the arguments, the variables or the output")
	}
	if labels, live := keyOf("worker"); len(labels) != 1 || live != 0 {
		t.Errorf("worker has the keys %v, %d live; want one that is revoked", labels, live)
	}
	left, err := filepath.Glob(filepath.Join(h.home, launch.Dir, "*"))
	if err != nil || !slices.Equal(left, []string{filepath.Join(h.home, launch.Dir, "worker.json")}) {
		t.Errorf("the launch leaves %v, %v", left, err)
	}
	var wakes struct{ Agents []struct{ Allowed bool } }
	h.ok(h.operator("agent", "sessions", "worker", "--json"), &wakes)
	if len(wakes.Agents) != 1 || !wakes.Agents[0].Allowed {
		t.Errorf("got %+v, want wakes that are allowed", wakes)
	}

	t.Run("two launches are two agents, and --resume takes up the last", func(t *testing.T) {
		start("--no-wake")
		start("--no-wake")
		all := launch.Identities(h.home)
		if len(all) != 3 || all[0].Agent == all[1].Agent || !all[0].Made || all[2].Agent != "worker" || all[2].Made {
			t.Fatalf("got %+v", all)
		}
		r := start("--resume")
		contains(t, r.err, string(all[0].Agent)+" on the hub")
		if again := launch.Identities(h.home); len(again) != 3 {
			t.Errorf("got %+v", again)
		}
	})
	t.Run("the end of a conversation names the command that takes it up again", func(t *testing.T) {
		cmd := parley(t, append(h.env(""), "PATH="+path, "HOME="+t.TempDir(), "FAKE_VERSION="+version, "FAKE_SESSION=abc-1"), "claude", "--as-operator", "--as", "worker", "--no-wake")
		cmd.Dir = dir
		contains(t, do(t, cmd).err, "parley claude --as worker -- --resume abc-1\n")
	})
	t.Run("neighbours and a second window of one name are named, and the end tells how to go on", func(t *testing.T) {
		here := launch.Identity{Agent: "claude-coral", CLI: "claude", Dir: dir, Process: os.Getpid(), Last: hub.At(now())}
		twin := launch.Identity{Agent: "worker", CLI: "claude", Dir: dir, Process: os.Getpid(), Last: hub.At(now())}
		if err := errors.Join(here.Save(h.home), twin.Save(h.home)); err != nil {
			t.Fatal(err)
		}
		h.ok(h.as("planner", "send", "worker", "x"), nil)
		r := start("--as", "worker", "--no-wake")
		contains(t, r.err, "also here: claude-coral", "worker is also running in another window", "unread messages: 1", `"parley stop" stops it`)
		if err := os.Remove(filepath.Join(h.home, launch.Dir, "claude-coral.json")); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a terminal gets the name of its agent as title, and no other output does", func(t *testing.T) {
		const title = "\x1b]0;worker\x07"
		cmd := parley(t, append(h.env(""), "PATH="+path, "HOME="+t.TempDir(), "FAKE_VERSION="+version), "claude", "--as-operator", "--as", "worker", "--no-wake")
		cmd.Dir = t.TempDir()
		h.ok(h.operator("hub", "folder", "add", cmd.Dir), nil) // else the person is asked
		_, screen := sit(t, cmd).leaves(t)
		contains(t, screen, title)
		if r := start("--as", "worker", "--no-wake"); strings.Contains(r.out+r.err, title) {
			t.Errorf("without a terminal: got %q", r.err)
		}
	})
	t.Run("a CLI that was changed is named, with both versions", func(t *testing.T) {
		const word = "Claude Code changed from 1.0.0 to 1.1.0; run \"parley agent test worker\""
		version = "1.1.0"
		if r := start("--as", "worker"); strings.Contains(r.err, word) {
			t.Errorf("a file that did not change was started to ask for its version: %s", r.err)
		}
		program, _, _ := strings.Cut(path, ":")
		if err := os.Chtimes(filepath.Join(program, "claude"), time.Time{}, now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		contains(t, start("--as", "worker").err, word)
		if r := start("--as", "worker"); strings.Contains(r.err, word) {
			t.Errorf("it is named again: %s", r.err)
		}
	})
	t.Run("a launch that was killed leaves no key that works", func(t *testing.T) {
		var made struct{ Key string }
		h.ok(h.operator("agent", "key", "worker", "--label", "launch-killed", "--json"), &made)
		folder := filepath.Join(h.home, launch.Dir, "worker.1")
		record, err := json.Marshal(cli.Launch{CLI: "claude", Agent: "worker", Process: 1 << 30, Label: "launch-killed"})
		if err == nil {
			err = os.MkdirAll(folder, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, cli.RecordFile), record, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		start("--as", "worker")
		if _, live := keyOf("worker"); live != 0 {
			t.Errorf("%d keys of launches are live", live)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Error("the folder is still there")
		}
	})
	t.Run("an identity that launch made is retired after 14 days, unless mail waits for it", func(t *testing.T) {
		for _, name := range []string{"claude-old", "claude-wanted"} {
			h.ok(h.operator("agent", "add", name), nil)
			if err := (launch.Identity{Agent: hub.AgentID(name), CLI: "claude", Dir: dir, Made: true, Last: hub.At(now().Add(-15 * 24 * time.Hour))}).Save(h.home); err != nil {
				t.Fatal(err)
			}
		}
		h.ok(h.as("planner", "send", "claude-wanted", "hello"), nil)
		contains(t, start("--as", "worker").err, "claude-old was not used for 14 days")
		if _, err := os.Stat(filepath.Join(h.home, launch.Dir, "claude-old.json")); err == nil {
			t.Error("the record of claude-old is there")
		}
		if _, err := os.Stat(filepath.Join(h.home, launch.Dir, "claude-wanted.json")); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(h.operator("agent", "list").out) {
			if strings.HasPrefix(line, "claude-old") && (!strings.Contains(line, "paused") || !strings.Contains(line, "(revoked)")) ||
				strings.HasPrefix(line, "claude-wanted") && !strings.Contains(line, "active") {
				t.Error(line)
			}
		}
	})
	t.Run("--undo forgets the launches of a CLI", func(t *testing.T) {
		h.ok(start("--undo"), nil)
		if all := launch.Identities(h.home); len(all) != 0 {
			t.Errorf("got %+v", all)
		}
		h.ok(h.operator("agent", "sessions", "worker", "--json"), &wakes)
		if wakes.Agents[0].Allowed {
			t.Error("wakes are still allowed")
		}
	})
	t.Run("a CLI that is not there is named", func(t *testing.T) {
		refused(t, do(t, parley(t, h.env(""), "qwen", "--as-operator", "--json")), exitMissing, "not_found")
	})
}

// TestConversationIsTakenUpAgain has a window of each CLI end, and reads the line that takes
// its conversation up again.
func TestConversationIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for cli, test := range map[string]struct{ hook, line string }{
		"claude":   {"SessionStart", "parley claude --as claude-1 -- --resume abc-1"},
		"codex":    {"SessionStart", "parley codex --as codex-1 -- resume abc-1"},
		"copilot":  {"sessionStart", "parley copilot --as copilot-1 -- --resume abc-1"},
		"opencode": {"start", "parley opencode --as opencode-1 -- --session abc-1"},
		"pi":       {"start", "parley pi --as pi-1 -- --session abc-1"},
		"qwen":     {"SessionStart", "parley qwen --as qwen-1 -- --resume abc-1"},
	} {
		t.Run(cli, func(t *testing.T) {
			end := func(session string) string {
				t.Helper()
				env := append(h.env(""), "PATH="+fakeCLI(t, cli), "HOME="+t.TempDir(), "FAKE_VERSION=1.0.0", "FAKE_SESSION="+session, "FAKE_HOOK="+test.hook)
				cmd := parley(t, env, cli, "--as-operator", "--as", cli+"-1", "--no-wake")
				cmd.Dir = t.TempDir()
				r := do(t, cmd)
				if r.code != 7 {
					t.Fatalf("exit %d, want that of the CLI: %s", r.code, r.err)
				}
				return r.err
			}
			contains(t, end("abc-1"), cli+"-1 is idle on the hub; resume it with: "+test.line+"\n")
			if got := end(""); !strings.Contains(got, "resume it with: parley "+cli+" --as "+cli+"-1\n") {
				t.Errorf("without a conversation: got %s", got)
			}
		})
	}
}

// TestHookFailsOpen has a hook end with 0 and without a word, whatever is wrong.
func TestHookFailsOpen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	input := `{"session_id":"s","cwd":"/","prompt":"hello"}`
	for name, test := range map[string]struct {
		env   []string
		input string
		args  []string
	}{
		"no hub":              {[]string{"PARLEY_URL=http://127.0.0.1:1", "PARLEY_KEY=x"}, input, []string{"claude", "Stop"}},
		"a hub that hangs":    {[]string{"PARLEY_URL=http://" + listener.Addr().String(), "PARLEY_KEY=x"}, input, []string{"claude", "Stop"}},
		"no key":              {nil, input, []string{"codex", "UserPromptSubmit"}},
		"an unknown CLI":      {nil, input, []string{"other", "Stop"}},
		"an unknown hook":     {nil, input, []string{"claude", "Other"}},
		"no input":            {nil, "", []string{"claude", "Stop"}},
		"no arguments":        {nil, input, nil},
		"an unknown flag":     {nil, input, []string{"claude", "Stop", "--other"}},
		"arm under claude -p": {[]string{"PARLEY_URL=http://" + listener.Addr().String(), "PARLEY_KEY=x", "CLAUDE_CODE_ENTRYPOINT=sdk-cli"}, input, nil},
	} {
		t.Run(name, func(t *testing.T) {
			verb := "hook"
			if strings.HasPrefix(name, "arm") {
				verb, test.args = "arm", []string{"claude"}
			}
			cmd := parley(t, append([]string{"PARLEY_HOME=" + t.TempDir()}, test.env...), append([]string{"wake", verb}, test.args...)...)
			cmd.Stdin = strings.NewReader(test.input)
			if r := do(t, cmd); r.code != 0 || r.out != "" || r.err != "" {
				t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
			}
		})
	}
}

// TestHook has the hooks of a session tell the hub what it does, and be told of mail
// once.
func TestHook(t *testing.T) {
	h := newHouse(t)
	hook := func(name, input string) string {
		t.Helper()
		r := h.stdin("builder", input, "wake", "hook", "claude", name)
		if r.code != 0 || r.err != "" {
			t.Fatalf("%s: exit %d: %s", name, r.code, r.err)
		}
		return r.out
	}
	if got := hook("SessionStart", `{"session_id":"s","cwd":"/d"}`); got != "" {
		t.Errorf("without mail the hook says %s", got)
	}
	h.ok(h.as("planner", "send", "builder", "the secret text"), nil)
	got := hook("UserPromptSubmit", `{"session_id":"s","cwd":"/d","prompt":"hello"}`)
	contains(t, got, `"additionalContext":"[parley wake w_`, "1 new message for builder")
	if strings.Contains(got, "secret") {
		t.Error("the notice has the text of the message")
	}
	if got := hook("PostToolUse", `{"session_id":"s","cwd":"/d"}`); got != "" {
		t.Errorf("mail is announced twice: %s", got)
	}
	if got := hook("Stop", `{"session_id":"s","cwd":"/d","stop_hook_active":false}`); got != "" {
		t.Errorf("mail is announced twice: %s", got)
	}
	contains(t, h.operator("agent", "sessions").out, "builder", "claude", "idle", "/d")
}

// TestHookShowsMailBeforeItsWaiter has mail wait when a hook starts the waiter of its session. A report
// of a hook whose waiter runs already is held until the hub gave the mail to the waiter.
func TestHookShowsMailBeforeItsWaiter(t *testing.T) {
	h := newHouse(t)
	h.ok(h.operator("agent", "wake", "builder", "--on"), nil)
	target, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	key := write(t, "key", h.keys["builder"]+"\n") // a waiter gets no key from the environment
	waited := func(cli string) bool { return runs("wake", "watch", cli, "--session", "slow-"+cli) }
	given := make(chan struct{})
	give := sync.OnceFunc(func() { close(given) })
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ModifyResponse = func(r *http.Response) error {
		raw, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if bytes.Contains(raw, []byte(`"wake":{"id"`)) {
			give()
		}
		return err
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		isReport := bytes.Contains(raw, []byte(`"wake/report"`)) && bytes.Contains(raw, []byte(`"prompt"`))
		if isReport && (waited("codex") || waited("qwen")) {
			select {
			case <-given:
			case <-time.After(waitTime):
				t.Error("the waiter that runs did not ask for mail")
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		r.Header.Del("Accept-Encoding") // the answers are read
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)

	for _, cli := range []string{"codex", "qwen"} {
		t.Run(cli, func(t *testing.T) {
			h.ok(h.as("planner", "send", "builder", "for "+cli), nil)
			hook := func(name string) string {
				cmd := parley(t, []string{"PARLEY_HOME=" + h.home, "PARLEY_URL=" + slow.URL, patientHook + "=1"}, "wake", "hook", cli, name, "--key-file", key)
				cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"slow-%s","cwd":"/d","prompt":"hello"}`, cli))
				return do(t, cmd).out
			}
			contains(t, hook("UserPromptSubmit"), "new message", "for builder")
			h.patient("the waiter of the session", func() bool { return waited(cli) })
			h.ok(h.as("builder", "inbox", "--ack"), nil)
			hook("SessionEnd")
			h.patient("the end of the waiter", func() bool { return !waited(cli) })
		})
	}
}

// TestHookOfATurn has hooks report what a CLI does besides the plain order of a turn.
func TestHookOfATurn(t *testing.T) {
	h := newHouse(t)
	key := write(t, "key", h.keys["builder"]+"\n")
	t.Cleanup(func() { // the hooks of codex and qwen started waiters
		h.patient("the end of the waiters", func() bool {
			return !runs("--key-file", key, "wake", "watch") && !launch.Waits(h.home)
		})
	})
	hook := func(cli, name, input string) string {
		t.Helper()
		r := h.stdin("", input, "wake", "hook", cli, name, "--key-file", key)
		if r.code != 0 || r.err != "" {
			t.Fatalf("%s: exit %d: %s", name, r.code, r.err)
		}
		return r.out
	}
	states := func(cli string) (out []string) {
		t.Helper()
		var got struct {
			Agents []struct {
				Sessions []struct {
					CLI, Session, State string
					NoQuota             string `json:"no_quota"`
				}
			}
		}
		h.ok(h.operator("agent", "sessions", "builder", "--json"), &got)
		for _, s := range got.Agents[0].Sessions {
			if s.NoQuota != "" {
				s.State += ", out of quota"
			}
			if s.CLI == cli {
				out = append(out, s.Session+" "+s.State)
			}
		}
		return out
	}
	want := func(cli string, sessions ...string) {
		t.Helper()
		if got := states(cli); !slices.Equal(got, sessions) {
			t.Errorf("got the sessions %q, want %q", got, sessions)
		}
	}

	for cli, names := range map[string][2]string{
		"claude":  {"UserPromptSubmit", "StopFailure"},
		"copilot": {"userPromptSubmitted", "errorOccurred"},
		"qwen":    {"UserPromptSubmit", "StopFailure"},
	} {
		t.Run("a turn of "+cli+" that failed is over, and is told of no mail", func(t *testing.T) {
			input := fmt.Sprintf(`{"session_id":"s-%s","cwd":"/d","prompt":"hello","error":{"message":"quota"}}`, cli)
			hook(cli, names[0], input)
			want(cli, "s-"+cli+" working")
			h.ok(h.as("planner", "send", "builder", "for "+cli), nil)
			if got := hook(cli, names[1], input); got != "" {
				t.Errorf("the hook says %s", got)
			}
			want(cli, "s-"+cli+" idle")
			h.ok(h.as("builder", "inbox", "--ack"), nil)
			if cli == "qwen" {
				hook(cli, "SessionEnd", input)
			}
		})
	}
	t.Run("a failed turn of codex is found in its rollout file", func(t *testing.T) {
		rollout := filepath.Join(t.TempDir(), "rollout.jsonl")
		add := func(line string) {
			t.Helper()
			f, err := os.OpenFile(rollout, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.WriteString(line + "\n")
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		add(`{"type":"event_msg","payload":{"type":"task_complete","error":{"message":"of an earlier turn"}}}`)
		add(`{"type":"event_msg","payload":{"type":"task_started"}}`)
		hook("codex", "UserPromptSubmit", fmt.Sprintf(`{"session_id":"c","cwd":"/d","prompt":"hello","transcript_path":%q}`, rollout))
		want("codex", "c working")
		add(`{"type":"event_msg","payload":{"type":"task_complete","error":{"message":"limit","codex_error_info":"usage_limit_exceeded"}}}`)
		h.patient("the end of the turn", func() bool { return slices.Equal(states("codex"), []string{"c idle, out of quota"}) }) // silence alone would end it, too
		hook("codex", "SessionEnd", `{"session_id":"c","cwd":"/d"}`)
	})
	t.Run("a session of codex that its user left for another one is not woken", func(t *testing.T) {
		armed := func() (out []string) {
			var got struct {
				Agents []struct {
					Sessions []struct{ CLI, Session, State, Armed string }
				}
			}
			h.ok(h.operator("agent", "sessions", "builder", "--json"), &got)
			for _, s := range got.Agents[0].Sessions {
				if s.CLI == "codex" && s.Armed != "" {
					out = append(out, s.Session+" "+s.State)
				}
			}
			return out
		}
		prompt := func(session string) {
			t.Helper()
			hook("codex", "UserPromptSubmit", fmt.Sprintf(`{"session_id":%q,"cwd":"/d","prompt":"hello"}`, session))
			h.patient(session+" is the one that is armed", func() bool { return slices.Equal(armed(), []string{session + " working"}) })
		}
		prompt("old")
		prompt("new") // after /new
		prompt("old") // after /resume
		hook("codex", "SessionEnd", `{"session_id":"old","cwd":"/d"}`)
	})
	t.Run("a prompt hook of qwen without a prompt is no new turn", func(t *testing.T) {
		h.ok(h.as("planner", "send", "builder", "x"), nil)
		contains(t, hook("qwen", "UserPromptSubmit", `{"session_id":"q","cwd":"/d","prompt":"hello"}`), "1 new message")
		if got := hook("qwen", "UserPromptSubmit", `{"session_id":"q","cwd":"/d","prompt":""}`); got != "" {
			t.Errorf("the mail is announced again: %s", got)
		}
		h.ok(h.as("builder", "inbox", "--ack"), nil)
		hook("qwen", "SessionEnd", `{"session_id":"q","cwd":"/d"}`)
	})
	t.Run("a subagent of copilot is no session", func(t *testing.T) {
		hook("copilot", "sessionStart", `{"sessionId":"p","cwd":"/d"}`)
		hook("copilot", "userPromptSubmitted", `{"sessionId":"p","cwd":"/d","prompt":"hello"}`)
		hook("copilot", "postToolUse", `{"sessionId":"sub","agentId":"a","parentAgentId":"p","cwd":"/d"}`)
		hook("copilot", "agentStop", `{"sessionId":"sub","agentId":"a","parentAgentId":"p","cwd":"/d"}`)
		want("copilot", "p working", "s-copilot idle")
	})
	t.Run("a turn of claude that another hook continued is not continued with mail", func(t *testing.T) {
		h.ok(h.operator("agent", "wake", "builder", "--on"), nil)
		hook("claude", "UserPromptSubmit", `{"session_id":"stop","cwd":"/d","prompt":"hello"}`)
		h.ok(h.as("planner", "send", "builder", "x"), nil)
		if got := hook("claude", "Stop", `{"session_id":"stop","cwd":"/d","stop_hook_active":true}`); got != "" {
			t.Errorf("the turn is continued: %s", got)
		}
		contains(t, hook("claude", "Stop", `{"session_id":"stop","cwd":"/d","stop_hook_active":false}`), `"decision":"block"`, "1 new message")
	})
}
