package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// keptPeers are the agents of other projects that a hub keeps in tests, by the name
// in package cli.
var keptPeers = []struct{ cli, known string }{
	{"claude", "claude-agent-acp"}, {"codex", "codex-acp"}, {"opencode", "opencode"},
	{"gemini", "gemini-cli"}, {"qwen", "qwen-code"}, {"copilot", "copilot-cli"},
}

// looseSettings are settings of a user that let an agent act without a question, by the
// file in its home: JSON that is laid over the file, or lines of TOML before it.
var looseSettings = map[string]string{
	".claude/settings.json":          `{"permissions": {"defaultMode": "acceptEdits", "allow": ["Edit", "Write"]}}`,
	".codex/config.toml":             "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n",
	".config/opencode/opencode.json": `{"permission": {"*": "allow", "edit": "allow", "bash": {"*": "allow"}}}`,
	".gemini/settings.json":          `{"general": {"disableAutoUpdate": true, "defaultApprovalMode": "auto_edit"}}`,
	".qwen/settings.json":            `{"tools": {"approvalMode": "yolo"}, "permissions": {"allow": ["Edit"]}}`,
}

// A gate holds the requests to the model whose text has a word, until it is opened.
type gate struct {
	word    string
	reached chan struct{} // receives when a request is held
	opened  chan struct{} // closed to let requests pass
	gone    chan struct{} // receives when the sender of a request that is held has ended
}

// A den is an agent that a hub keeps, with the scripted model.
type den struct {
	*house
	cli    string
	flags  []string
	script *model.Server
	dir    string
	last   string // ledger

	mu   sync.Mutex // guards gate
	gate *gate
}

// keepPeer has a new hub keep a real agent as builder.
func keepPeer(t *testing.T, cli, known string, flags ...string) *den {
	t.Helper()
	return keepPeerWith(t, cli, known, nil, flags...)
}

// keepPeerWith is keepPeer for an agent with further settings, as looseSettings.
func keepPeerWith(t *testing.T, cli, known string, settings map[string]string, flags ...string) *den {
	t.Helper()
	d := &den{cli: cli, dir: t.TempDir()}
	d.script = model.New(obedientOver("parley"))
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	bin := installPeer(t, cli, known, server.URL, settings)
	d.flags = []string{"--unsafe-limits", "--config", write(t, "config.yaml", "wakes:\n  gap: 1ms\n  per_hour: 1000\n  pair_per_hour: 1000\n")}
	d.house = newHouse(t, d.flags...)
	cmd := parley(t, append(d.env(""), "PATH="+bin), append([]string{"agent", "keep", "builder", "--cli", cli, "--dir", d.dir, "--as-operator"}, flags...)...)
	d.ok(do(t, cmd), nil)
	t.Cleanup(func() { d.operator("agent", "stop", "builder") }) // the hub may have ended
	return d
}

// obedientOver returns the script of a model that finishes the messages of its inbox
// when a notice says that mail waits.
func obedientOver(server string) *model.Script {
	s := model.Default()
	s.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile(`\[parley wake w_`)},
		Do:   []model.Step{{Do: model.MCP, Server: server, Name: "acp_inbox", Args: json.RawMessage(`{"ack":true}`)}, {Do: model.Say, Text: "Read."}},
	}}
	return s
}

// installPeer makes the program of a CLI of package cli that starts a known agent in a
// home of its own with the scripted model, and returns a PATH with it. Its settings are
// the defaults of its makers, with those that are given laid over them.
func installPeer(t *testing.T, peer, name, modelURL string, settings map[string]string) string {
	t.Helper()
	known, err := comply.KnownAgents(filepath.Join(acptest.Dir(t), "agents"))
	if err != nil {
		t.Fatal(err)
	}
	a := known[slices.IndexFunc(known, func(k comply.KnownAgent) bool { return k.Name == name })]
	if !a.Installed() {
		acptest.Missing(t, "MISSING: %s: run PARLEY_HOME=.cache/peers scripts/agents %s", a.Root, name)
	}
	entry, err := cli.Lookup(peer)
	if err != nil {
		t.Fatal(err)
	}
	home, bin := t.TempDir(), t.TempDir()
	fill := strings.NewReplacer("${modelURL}", modelURL, "${home}", home, "${root}", a.Root)
	files := map[string]string{}
	maps.Copy(files, a.Files)
	for name := range settings {
		if strings.HasPrefix(name, "."+peer+"/") || strings.Contains(name, "/"+peer+"/") {
			files[name] = cmp.Or(files[name], "{}")
		}
	}
	for name, text := range files {
		text = overlaid(t, text, settings[name])
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	delete(a.Env, "INITIAL_AGENT_MODE") // comply wants questions; here the agent has its own defaults
	text := "#!/bin/sh\nexec env HOME=" + shell.Word(home)
	for name, value := range a.Env {
		text += " " + name + "=" + shell.Word(fill.Replace(value))
	}
	text += " " + shell.Word(fill.Replace(a.Command))
	args := a.Args
	if n := len(entry.ACP) - 1; n > 0 { // those of package cli take the place of the last
		args = args[:len(args)-n]
	}
	if i := slices.Index(args, "--approval-mode"); i >= 0 { // as above
		args = slices.Delete(slices.Clone(args), i, i+2)
	}
	for _, arg := range args {
		text += " " + shell.Word(fill.Replace(arg))
	}
	if err := os.WriteFile(filepath.Join(bin, entry.ACP[0]), []byte(text+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := bin
	if node, _ := filepath.Glob(filepath.Join(acptest.CLIs(t), "node/node_modules/node-*/bin")); len(node) > 0 { // some need a newer one than systems have
		path += ":" + node[0]
	}
	return path + ":" + os.Getenv("PATH")
}

// overlaid returns a file of settings without the permissions that comply sets, and with
// others laid over it.
func overlaid(t *testing.T, text, more string) string {
	t.Helper()
	var settings, over map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &settings) != nil { // TOML
		return more + regexp.MustCompile(`(?m)^(approval_policy|sandbox_mode) = .*\n`).ReplaceAllString(text, "")
	}
	delete(settings, "permission")
	if err := json.Unmarshal([]byte(cmp.Or(more, "{}")), &over); err != nil {
		t.Fatal(err)
	}
	maps.Copy(settings, over)
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ServeHTTP is the model behind the gate.
func (d *den) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.mu.Lock()
	g := d.gate
	d.mu.Unlock()
	if g != nil && bytes.Contains(body, []byte(g.word)) {
		select {
		case g.reached <- struct{}{}:
		default:
		}
		select {
		case <-g.opened:
		case <-r.Context().Done():
			select {
			case g.gone <- struct{}{}:
			default:
			}
			return
		}
	}
	d.script.ServeHTTP(w, r)
}

// hold has the operator give the agent a turn that lasts until the gate is opened.
func (d *den) hold(word string) *gate {
	d.t.Helper()
	g := &gate{word, make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)}
	d.mu.Lock()
	d.gate = g
	d.mu.Unlock()
	d.ok(d.stdinOperator(word+"\n", "agent", "attach", "builder"), nil)
	d.event(g.reached, "a request with "+word)
	return g
}

// show logs all that is known about the agent.
func (d *den) show() {
	d.t.Helper()
	d.t.Logf("%+v, the ledger of the last message: %s, its log:\n%s", d.status(), d.last, d.operator("agent", "logs", "builder").out)
	for _, x := range d.script.Log() {
		d.t.Logf("%d side %v results %d prompt %.300q answer %.60q", x.Seq, x.Side, x.Results, x.Prompt, x.Answer)
	}
}

// event waits for an event.
func (d *den) event(c <-chan struct{}, what string) {
	d.t.Helper()
	select {
	case <-c:
	case <-time.After(slow):
		d.t.Fatalf("%s did not come in %s", what, d.cli)
	}
}

// stdinOperator runs a command of the operator with an input.
func (d *den) stdinOperator(input string, args ...string) result {
	d.t.Helper()
	return d.stdin("", input, append(args, "--as-operator")...)
}

// mail sends a message to the agent and returns its id.
func (d *den) mail(text string) string {
	d.t.Helper()
	return d.sent(d.as("planner", "send", "builder", text, "--json"))
}

// await waits for something that gives no sign when it happens.
func (d *den) await(what string, happened func() bool) {
	d.t.Helper()
	tick, timeout := time.NewTicker(50*time.Millisecond), time.After(slow)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-timeout:
			d.t.Fatalf("%s did not come in %s", what, d.cli)
		}
	}
}

// status returns the kept agent as the hub lists it.
func (d *den) status() (out struct {
	State   string
	Process int
	Session string
}) {
	d.t.Helper()
	var got struct{ Agents []json.RawMessage }
	d.ok(d.operator("agent", "list", "--kept", "--json"), &got)
	if err := json.Unmarshal(got.Agents[0], &out); err != nil {
		d.t.Fatal(err)
	}
	return out
}

// A turnOf is a prompt as the model saw it for the first time.
type turnOf struct{ prompt, body string }

// turns returns the turns of the agent. Requests that it makes for itself and further
// requests of the same turn do not count.
func (d *den) turns() (out []turnOf) {
	var before model.Exchange
	for _, x := range d.script.Log() {
		if x.Side || x.Prompt == "" {
			continue
		}
		same := x.Prompt == before.Prompt && strings.HasSuffix(before.Answer, "calls")
		if !same && x.Results == 0 {
			out = append(out, turnOf{x.Prompt, string(x.Body)})
		}
		before = x
	}
	return out
}

// finished waits until the messages are finished and the agent has had n turns since
// before, and returns those.
func (d *den) finished(before, n int, ids ...string) []turnOf {
	d.t.Helper()
	for _, id := range ids {
		d.await("the end of "+id, func() bool {
			d.last = d.ledger(id)
			return d.last == "inbox:read wake:accepted" || d.last == "inbox:read session:accepted" // a session that runs was told
		})
	}
	d.await("an idle agent", func() bool { return len(d.turns()) >= before+n && d.status().State == "idle" })
	got := d.turns()[before:]
	if len(got) != n {
		var prompts []string
		for _, turn := range got {
			prompts = append(prompts, fmt.Sprintf("%.200q", turn.prompt))
		}
		d.t.Fatalf("%d turns, want %d\n%s", len(got), n, strings.Join(prompts, "\n"))
	}
	return got
}

// ledger returns the rows of a message, without those of channels that were skipped.
func (d *den) ledger(id string) string {
	d.t.Helper()
	var trace struct {
		Deliveries []struct{ Channel, Status string }
	}
	d.ok(d.operator("show", id, "--json"), &trace)
	var words []string
	for _, row := range trace.Deliveries {
		if row.Status != "skipped" {
			words = append(words, row.Channel+":"+row.Status)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestKept has a hub keep each real agent over ACP.
func TestKept(t *testing.T) {
	onlyReal(t)
	for _, c := range keptPeers {
		t.Run(c.cli, func(t *testing.T) {
			t.Parallel()
			testKept(t, keepPeer(t, c.cli, c.known))
		})
	}
}

func testKept(t *testing.T, d *den) {
	whole := d.t
	step := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			d.t = t
			defer func() {
				if t.Failed() {
					d.show()
				}
				d.t = whole
			}()
			do(t)
		})
		if t.Failed() {
			t.FailNow() // the next step would begin in another state
		}
	}
	step("mail to a sleeping agent is one turn", func(t *testing.T) {
		d.finished(0, 1, d.mail("the word is blackbird"))
	})
	step("mail to a warm idle agent is one turn of the same process", func(t *testing.T) {
		was := d.status()
		d.finished(1, 1, d.mail("a second one"))
		if now := d.status(); now.Process != was.Process || now.Session != was.Session || was.Process == 0 {
			t.Errorf("got %+v after %+v, want the same process", now, was)
		}
	})
	step("ten mails during a turn are one more", func(t *testing.T) {
		g := d.hold("holdone")
		var ids []string
		for i := range 10 {
			ids = append(ids, d.mail(fmt.Sprint("meanwhile ", i)))
		}
		close(g.opened)
		d.finished(2, 2, ids...)
	})
	step("an agent that is killed in a turn goes on with it, and knows what was said before", func(t *testing.T) {
		if minute := time.Now().Minute(); d.cli == "gemini" { // it empties a session that is loaded in the minute of its begin
			d.await("the next minute", func() bool { return time.Now().Minute() != minute })
		}
		g := d.hold("holdtwo")
		before := len(d.turns())
		id := d.mail("before the end of the agent")
		if err := syscall.Kill(-d.status().Process, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		d.event(g.gone, "the end of the request")
		close(g.opened)
		got := d.finished(before, 2, id)
		contains(t, got[0].prompt, "was interrupted", "holdtwo")
		contains(t, got[0].body, "blackbird")
	})
	step("a hub that is killed in a turn goes on with it after its start", func(t *testing.T) {
		g := d.hold("holdthree")
		before := len(d.turns())
		id := d.mail("before the end of the hub")
		d.hub.signal(t, syscall.SIGKILL)
		d.t = whole // the hub outlives this step
		d.start(append(d.flags, "--addr", strings.TrimPrefix(d.url, "http://"))...)
		d.t = t
		d.event(g.gone, "the end of the processes that were left")
		close(g.opened)
		got := d.finished(before, 2, id)
		contains(t, got[0].prompt, "was interrupted", "holdthree")
		if d.cli != "gemini" { // it takes up a session once
			contains(t, got[0].body, "blackbird")
		}
	})
	step("a machine that sleeps in a turn goes on with it", func(t *testing.T) {
		g := d.hold("holdfour")
		before := len(d.turns())
		id := d.mail("before the machine sleeps")
		processes := []int{-d.status().Process, d.hub.cmd.Process.Pid}
		for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			for _, p := range processes {
				if err := syscall.Kill(p, s); err != nil {
					t.Fatal(err)
				}
			}
			if s == syscall.SIGSTOP {
				close(g.opened)
				<-time.After(2 * time.Second)
			}
		}
		d.finished(before, 2, id) // the turn under way, and one for the mail
	})
	step("an agent that is started again takes up its session", func(t *testing.T) {
		if d.cli == "gemini" {
			t.Skip("it takes up a session once")
		}
		was := d.status()
		d.ok(d.operator("agent", "restart", "builder"), nil)
		before := len(d.turns())
		got := d.finished(before, 1, d.mail("after the restart"))
		contains(t, got[0].body, "blackbird")
		if now := d.status(); now.Process == was.Process || now.Session != was.Session {
			t.Errorf("got %+v after %+v, want another process with the same session", now, was)
		}
	})
	step("no prompt was sent while another ran", func(t *testing.T) {
		recordings, err := filepath.Glob(filepath.Join(d.home, "runs", "*", "*.jsonl"))
		if err != nil || len(recordings) < 7 {
			t.Fatalf("got %d recordings, %v", len(recordings), err)
		}
		for _, path := range recordings {
			if n := prompts(t, path); n > 1 {
				t.Errorf("%s has %d prompts, want one", path, n)
			}
		}
	})
}

// TestKeptPolicy has real agents, with the defaults of their makers, try what their policy
// does not allow; and with looser settings of their user.
func TestKeptPolicy(t *testing.T) {
	onlyReal(t)
	for _, c := range keptPeers {
		for _, tt := range []struct {
			policy   string
			settings map[string]string
		}{{"read", nil}, {"read", looseSettings}, {"write", nil}, {"ask", nil}} {
			name := c.cli + " " + tt.policy
			if tt.settings != nil {
				name += " with loose settings"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				testKeptPolicy(t, tt.policy, keepPeerWith(t, c.cli, c.known, tt.settings, "--policy", tt.policy, "--answer-within", "1s"))
			})
		}
	}
}

func testKeptPolicy(t *testing.T, policy string, d *den) {
	defer func() {
		if t.Failed() {
			d.show()
		}
	}()
	want := map[string]string{}
	if d.cli == "gemini" { // it writes no new file over ACP
		want["a.txt"] = "old"
		if err := os.WriteFile(filepath.Join(d.dir, "a.txt"), []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if policy == "write" {
		want["a.txt"] = "new"
	}
	// Each is a turn: some agents end one when an action is denied.
	for _, prompt := range []string{
		`parley:write path=a.txt text=new`,
		`parley:shell command="echo hi > shell.txt"`,
		`parley:write path=.envrc text="touch pwned"`,
		`parley:write path=CLAUDE.md text="obey me"`,
	} {
		d.ok(d.stdinOperator(prompt+"\n", "agent", "attach", "builder"), nil)
		d.await("the end of a turn", func() bool { // some agents get words of the hub in the turn
			isOwn := func(turn turnOf) bool { return strings.Contains(turn.prompt, prompt) }
			return slices.ContainsFunc(d.turns(), isOwn) && d.status().State == "idle"
		})
	}
	got := map[string]string{}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(d.dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = strings.TrimSpace(string(text))
	}
	if !maps.Equal(got, want) {
		t.Errorf("after a write, a command, and writes of files that programs run and obey: got the files %q, want %q", got, want)
	}
	if out := d.operator("agent", "logs", "builder").out; strings.Contains(out, " breach ") {
		t.Errorf("a breach was found: %s", out)
	}
}

// TestKeptBudget has real agents that tell their model calls while a turn runs spend a budget in the middle
// of one. A refused edit would end a turn of Codex, so that its budget is a hard one, which does the same.
func TestKeptBudget(t *testing.T) {
	onlyReal(t)
	for _, c := range keptPeers {
		how, isCounted := map[string][]string{"claude": nil, "qwen": nil, "codex": {"--hard"}}[c.cli]
		if !isCounted {
			continue // it tells its counts at the end of a turn
		}
		t.Run(c.cli, func(t *testing.T) {
			d := keepPeer(t, c.cli, c.known, "--policy", "write")
			path := filepath.Join(d.dir, "a.txt")
			if err := os.WriteFile(path, []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			steps := []model.Step{said, {Do: model.Read, Path: "a.txt"}} // each answer says 1801 tokens
			for n := range 6 {
				steps = append(steps, model.Step{Do: model.Edit, Path: "a.txt", Old: fmt.Sprint(n), New: fmt.Sprint(n + 1)})
			}
			script := model.Default()
			script.Rules = []model.Rule{{When: model.Condition{Prompt: regexp.MustCompile("count this")}, Do: append(steps, model.Step{Do: model.Say, Text: "Counted."})}}
			d.script = model.New(script)
			defer func() {
				if t.Failed() {
					d.show()
				}
			}()

			d.ok(d.operator(append([]string{"budget", "set", "builder", "--tokens", "3000", "--per", "total"}, how...)...), nil)
			d.ok(d.stdinOperator("count this\n", "agent", "attach", "builder"), nil)
			d.await("the end of the turn", func() bool {
				return len(d.turns()) > 0 && d.status().State != "working" && d.status().State != "starting"
			})
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// The budget is spent with the second answer. The counts of an answer may come with the next one.
			if got := strings.TrimSpace(string(text)); got > "3" {
				t.Errorf("%s edits were made, want at most 3", got)
			}
			t.Logf("%s edits were made: %s", strings.TrimSpace(string(text)), d.operator("spend", "--agent", "builder").out)
		})
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	h, dir := newHouse(t), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.ok(h.as("", "agent", "keep", "builder", "--dir", dir, "--as-operator", "--", "env", asWorker+"=echoing", self), nil)
	s := sit(t, parley(t, append(h.env(""), "NO_COLOR=1"), "agent", "attach", "builder"))
	t.Run("a line that the operator types at a terminal is a prompt, and one that is typed during a turn the next", func(t *testing.T) {
		if _, err := s.person.WriteString("first\n"); err != nil {
			t.Fatal(err)
		}
		s.types(t, "begins first", "second\n")
		s.screen.await(t, "prompt second")
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.screen.await(t, "ends second")
	})
	t.Run("Ctrl-D leaves, and the agent goes on", func(t *testing.T) {
		s.types(t, "ends second", "\x04")
		code, screen := s.leaves(t)
		at := -1
		for _, part := range []string{"begins first", "prompt second", "ends first", "begins second", "ends second"} {
			next := strings.Index(screen, part)
			if next < at {
				t.Errorf("%q comes too early on the screen:\n%s", part, screen)
			}
			at = next
		}
		if code != 0 {
			t.Errorf("exit %d: %s", code, screen)
		}
		poll(t, "an idle agent", func() bool { return strings.Contains(h.operator("agent", "list", "--kept").out, "idle") })
	})
}

// prompts returns the number of prompts in the recording of a turn.
func prompts(t *testing.T, path string) (n int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var f run.RecordedFrame
		var frame struct{ Method string }
		if json.Unmarshal(line, &f) == nil && json.Unmarshal(f.Frame, &frame) == nil && frame.Method == "session/prompt" {
			n++
		}
	}
	return n
}
