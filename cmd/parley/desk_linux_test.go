package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// A realCLI is an agent CLI of another project as scripts/clis fetches it.
type realCLI struct {
	name    string
	program string   // in its folder; * for the platform
	args    []string // that let its tools run without a question
	env     []string
	files   map[string]string // in the home
	ready   string            // on the screen when it takes a prompt
	dialogs []dialog          // that it may show before
	first   bool              // the hub knows its session after the first prompt only
	asleep  bool              // no mechanism wakes it
	stays   string            // ready, if mail also wakes a session that parley connect has connected
	pause   string            // a command of some seconds, if it refuses sleep
}

// A dialog is a question of a CLI that is answered with keys.
type dialog struct {
	shows string
	keys  []string
}

// realCLIs are the CLIs that parley launch knows. In their texts {model} is the address of
// the scripted model and {dir} the working folder.
var realCLIs = []realCLI{
	{
		name: "claude", program: "node_modules/@anthropic-ai/claude-code-*/claude", args: []string{"--allowedTools", "Bash"},
		env: []string{"ANTHROPIC_API_KEY=none", "ANTHROPIC_BASE_URL={model}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1"},
		files: map[string]string{".claude.json": `{"hasCompletedOnboarding":true,"lastOnboardingVersion":"2.1.325","theme":"dark","numStartups":3,
			"customApiKeyResponses":{"approved":["none"],"rejected":[]},"projects":{"{dir}":{"hasTrustDialogAccepted":true,"allowedTools":[]}}}`},
		ready: "1 monitor", stays: "shift+tab to cycle",
	},
	{
		name: "codex", program: "node_modules/@openai/codex-*/vendor/*/bin/codex", args: []string{"-a", "never", "-s", "danger-full-access"},
		env: []string{"PARLEY_MODEL_KEY=none"},
		files: map[string]string{".codex/config.toml": `model = "gpt-5.5"
model_provider = "parley"
check_for_update_on_startup = false
[model_providers.parley]
name = "Parley"
base_url = "{model}/v1"
env_key = "PARLEY_MODEL_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[projects."{dir}"]
trust_level = "trusted"
`},
		ready: "Ask Codex to do anything", stays: "Ask Codex to do anything",
		dialogs: []dialog{{"Hooks need review", []string{"2", "Enter"}}, {"Use existing model", []string{"2", "Enter"}}},
	},
	{
		name: "qwen", program: "node_modules/.bin/qwen", args: []string{"--yolo"}, pause: "timeout 12 tail -f /dev/null",
		env: []string{"OPENAI_API_KEY=none", "OPENAI_BASE_URL={model}/v1", "OPENAI_MODEL=parley-model"},
		files: map[string]string{".qwen/settings.json": `{"security":{"auth":{"selectedType":"openai"},"folderTrust":{"enabled":false}},
			"general":{"disableAutoUpdate":true,"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}`},
		ready: "Type your message",
	},
	{
		name: "opencode", program: "node_modules/opencode-linux-*64/bin/opencode",
		env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"},
		files: map[string]string{".config/opencode/opencode.json": `{"autoupdate":false,"model":"parley/parley-model","small_model":"parley/parley-model","provider":{"parley":{
			"npm":"@ai-sdk/openai-compatible","name":"Parley","options":{"baseURL":"{model}/v1","apiKey":"none"},
			"models":{"parley-model":{"name":"Scripted model","tool_call":true,"limit":{"context":100000,"output":8000}}}}}}`},
		ready: "Ask anything", stays: "Ask anything",
	},
	{
		name: "copilot", program: "node_modules/@github/copilot-linux-*64/copilot", args: []string{"--allow-all-tools"},
		env: []string{
			"COPILOT_AUTO_UPDATE=false", "COPILOT_OFFLINE=true", "COPILOT_MODEL=gpt-4.1", "COPILOT_PROVIDER_API_KEY=none", "COPILOT_PROVIDER_BASE_URL={model}/v1",
		},
		files: map[string]string{".copilot/config.json": `{"trusted_folders":["{dir}"],"trustedFolders":["{dir}"],"banner":"never"}`},
		ready: "Interactive", stays: "Interactive",
	},
	{
		name: "pi", program: "node_modules/.bin/pi", args: []string{"--model", "parley/parley-model"},
		env:   []string{"PI_OFFLINE=1"},
		files: map[string]string{".pi/agent/models.json": `{"providers":{"parley":{"baseUrl":"{model}/v1","api":"openai-completions","apiKey":"none","models":[{"id":"parley-model"}]}}}`},
		ready: "parley-model",
	},
	{
		name: "gemini", program: "node_modules/.bin/gemini", asleep: true,
		env: []string{"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL={model}", "GEMINI_CLI_TRUST_WORKSPACE=true"},
		files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}},
			"general":{"disableAutoUpdate":true,"enableAutoUpdate":false},"privacy":{"usageStatisticsEnabled":false}}`},
		ready: "Type your message",
	},
}

// command finds the program of a CLI. Where it is missing the test is skipped, and
// fails with CI=true and in make test-real.
func (c realCLI) command(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(acptest.CLIs(t), c.name, c.program))
	if err != nil {
		t.Fatal(err)
	}
	found = slices.DeleteFunc(found, func(p string) bool { return strings.Contains(p, "musl") && c.name != "codex" })
	if _, err := exec.LookPath("tmux"); err != nil {
		acptest.Missing(t, "MISSING: tmux, in which the CLIs run")
	}
	if len(found) == 0 {
		acptest.Missing(t, "MISSING: %s: run scripts/clis %s", c.program, c.name)
	}
	return found[0]
}

// A desk is a CLI in a window of a terminal multiplexer, started by parley launch,
// with the scripted model and a hub of its own.
type desk struct {
	*house
	cli    realCLI
	model  *httptest.Server
	flags  []string // of the hub
	socket string   // of the multiplexer
	agent  string
	dir    string
}

// obedient returns the script of a model that reads its inbox when a notice says that
// mail waits.
func (c realCLI) obedient(t *testing.T) *model.Script {
	t.Helper()
	read := model.Step{Do: model.MCP, Server: "parley", Name: "acp_inbox", Args: json.RawMessage("{}")}
	if c.name == "pi" { // it has no MCP
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		read = model.Step{Do: model.Shell, Command: asParley + "=1 " + self + " inbox"}
	}
	s := model.Default()
	s.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile(`\[parley wake w_`)},
		Do:   []model.Step{read, {Do: model.Say, Text: "Read."}},
	}}
	return s
}

// slow is how long a CLI may take for anything: the machine may be busy.
const slow = 4 * time.Minute

// prepare returns a desk whose CLI does not run yet, with a hub of its own, and the words
// that start a program in its environment.
func (c realCLI) prepare(t *testing.T, settings string) (d *desk, start []string) {
	t.Helper()
	c.command(t) // before a hub is started in vain
	flags := []string{"--unsafe-limits", "--config", write(t, "config.yaml", settings)}
	d = &desk{house: newHouse(t, flags...), cli: c, agent: "builder", dir: folderOfCLI(t), flags: flags}
	d.ok(d.operator("hub", "folder", "add", d.dir), nil)
	return d, d.furnish(c.obedient(t))
}

// folderOfCLI returns a folder that a CLI writes into. A CLI may write its last records while it
// ends, so the folder is removed again until that succeeds.
func folderOfCLI(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "parley-cli")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		late := time.After(patience.For(30 * time.Second))
		for err := os.RemoveAll(dir); err != nil; err = os.RemoveAll(dir) {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-late:
				t.Errorf("the folder of the CLI is still written to: %v", err)
				return
			}
		}
	})
	return dir
}

// furnish gives a desk a model and a home with the CLI, and returns the words that start a
// program there.
func (d *desk) furnish(script *model.Script) (start []string) {
	t, c := d.t, d.cli
	t.Helper()
	program := c.command(t)
	d.socket = filepath.Join(t.TempDir(), "tmux")
	d.model = httptest.NewServer(model.New(script))
	t.Cleanup(d.model.Close)
	home, bin := folderOfCLI(t), t.TempDir()
	fill := strings.NewReplacer("{model}", d.model.URL, "{dir}", d.dir)
	for name, text := range c.files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(program, filepath.Join(bin, c.name)); err != nil {
		t.Fatal(err)
	}
	node, err := filepath.Glob(filepath.Join(acptest.CLIs(t), "node/node_modules/node-*/bin"))
	if err != nil || len(node) == 0 {
		acptest.Missing(t, "MISSING: a node that is new enough: run scripts/clis")
	}
	start = []string{
		"env", "-i", "HOME=" + home, "PATH=" + bin + ":" + node[0] + ":" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0",
		"PARLEY_HOME=" + d.home, asParley + "=1",
	}
	for _, e := range c.env {
		start = append(start, fill.Replace(e))
	}
	return start
}

// connect adds the hooks of every session to the CLI's files.
func (d *desk) connect(start []string) {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	args := append(slices.Clone(start[1:]), self, "connect", d.cli.name, "--agent", d.agent, "--wake", "--allow-tools", "--as-operator")
	d.ok(do(d.t, exec.Command(start[0], args...)), nil)
}

// open launches a CLI as the agent builder and waits until it takes a prompt and the
// hub can wake it.
func (c realCLI) open(t *testing.T, settings string) *desk {
	t.Helper()
	if c.asleep { // its launch needs folders that only root can write
		return c.openConnected(t, settings)
	}
	d, command := c.prepare(t, settings)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return d.show(append(append(command, self, c.name, "--as", d.agent, "--wake", "--"), c.args...))
}

// openConnected connects all sessions of a CLI as the agent builder, and starts one.
func (c realCLI) openConnected(t *testing.T, settings string) *desk {
	t.Helper()
	d, command := c.prepare(t, settings)
	d.connect(command)
	if c.name == "codex" { // its sessions are in a daemon that outlives the window, and so does the waiter
		d.cli.first = true // a launch asks the server of its own for the session
		t.Cleanup(func() {
			for _, e := range command { // the daemon's program and that of its updater are in the home
				if home, ok := strings.CutPrefix(e, "HOME="); ok {
					endPrograms(t, home)
				}
			}
			d.await("the end of the waiter", func() bool {
				return !launch.Waits(d.home)
			})
		})
	}
	return d.show(append(append(command, c.name), c.args...))
}

// endPrograms kills the processes whose program is below a folder.
func endPrograms(t *testing.T, dir string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, dir+"/") {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				syscall.Kill(pid, syscall.SIGKILL) // fails if it has ended
			}
		}
	}
}

// show runs a command in a window and waits until the CLI takes a prompt.
func (d *desk) show(command []string) *desk {
	t, c := d.t, d.cli
	t.Helper()
	// A window stays when its program has ended, so that its last words can be read.
	d.tmux(append([]string{"start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";", "new-session", "-d", "-s", "w", "-x", "150", "-y", "50", "-c", d.dir}, command...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", d.screen())
			t.Logf("the requests:\n%s", strings.Join(d.summary(), "\n"))
		}
		launched := launch.Identities(d.home)
		pid, _ := exec.Command("tmux", "-S", d.socket, "display-message", "-p", "-t", "w", "#{pane_pid}").Output() // fails if the last window has ended
		shell, _ := strconv.Atoi(strings.TrimSpace(string(pid)))                                                   // of the CLI; 0 if it has ended
		exec.Command("tmux", "-S", d.socket, "kill-server").Run()                                                  // fails if the last window has ended
		for _, i := range launched {
			if string(i.Agent) != d.agent {
				continue // another window of the same hub
			}
			d.await("the end of the launch", func() bool { return !process.Alive(i.Process) })
		}
		d.await("the end of the CLI", func() bool { return shell == 0 || !process.Alive(shell) })
	})
	d.await("the CLI", func() bool {
		screen := d.screen()
		d.answer(screen)
		return strings.Contains(screen, c.ready)
	})
	if c.dialogs != nil { // one may come up while the CLI already takes a prompt
		last := time.Now()
		d.await("the end of the dialogs", func() bool {
			if d.answer(d.screen()) {
				last = time.Now()
			}
			return time.Since(last) > 8*time.Second
		})
	}
	if d.cli.first {
		d.types("hello")
		d.await("the first answer", func() bool {
			d.answer(d.screen())
			return len(d.exchanges()) > 0 && d.idle()
		})
	}
	return d
}

// answer answers a dialog on the screen, and reports whether there was one. Codex shows
// its own at the first prompt.
func (d *desk) answer(screen string) bool {
	for _, q := range d.cli.dialogs {
		if strings.Contains(screen, q.shows) {
			for _, key := range q.keys {
				d.tmux("send-keys", "-t", "w", key)
				<-time.After(time.Second) // keys that come at once are taken for pasted text
			}
			for range 50 { // the same keys again would answer the next dialog
				if !strings.Contains(d.screen(), q.shows) {
					break
				}
				<-time.After(100 * time.Millisecond)
			}
			return true
		}
	}
	return false
}

func (d *desk) tmux(args ...string) string {
	d.t.Helper()
	r := do(d.t, exec.Command("tmux", append([]string{"-S", d.socket, "-f", "/dev/null"}, args...)...))
	if r.code != 0 {
		d.t.Fatalf("tmux %q: %s", args, r.err)
	}
	return r.out
}

// screen returns the text in the window, "" if it has ended.
func (d *desk) screen() string {
	out, err := exec.Command("tmux", "-S", d.socket, "capture-pane", "-p", "-t", "w").Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// await waits for something that gives no sign when it happens.
func (d *desk) await(what string, happened func() bool) {
	d.t.Helper()
	tick, timeout := time.NewTicker(100*time.Millisecond), time.After(slow)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-timeout:
			d.t.Fatalf("%s did not come in %s", what, d.cli.name)
		}
	}
}

// draft types a text and waits until it is on the screen. A CLI that is not ready
// loses keys, so the text is typed again until it is there.
func (d *desk) draft(text string) {
	d.t.Helper()
	var typed time.Time
	d.await("the typed text", func() bool {
		screen := d.screen()
		if strings.Contains(strings.Join(strings.Fields(screen), ""), strings.Join(strings.Fields(text), "")) {
			return true
		}
		if d.answer(screen) { // a dialog took the keys
			return false
		}
		if time.Since(typed) > 5*time.Second {
			d.tmux("send-keys", "-t", "w", "-l", text)
			typed = time.Now()
		}
		return false
	})
}

// types gives the CLI a prompt.
func (d *desk) types(text string) {
	d.t.Helper()
	d.draft(text)
	d.tmux("send-keys", "-t", "w", "Enter")
}

// exchanges returns the requests of the CLI to the model.
func (d *desk) exchanges() []model.Exchange {
	d.t.Helper()
	res, err := http.Get(d.model.URL + "/_log")
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	var log struct{ Requests []model.Exchange }
	if err := json.NewDecoder(res.Body).Decode(&log); err != nil {
		d.t.Fatal(err)
	}
	return log.Requests
}

func (d *desk) summary() (out []string) {
	for _, x := range d.exchanges() {
		out = append(out, fmt.Sprintf("%d side %v results %d prompt %.300q answer %.60q", x.Seq, x.Side, x.Results, tail(x.Prompt, 300), x.Answer))
	}
	return out
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

var wakeID = regexp.MustCompile(`w_[0-9]{12}`)

// wakes returns the ids of the wakes that began a turn, one for each model request
// whose prompt has one. Requests that a CLI makes for itself and further requests of
// the same turn, after a call of a tool or a search for one, do not count.
func (d *desk) wakes() (ids []string) {
	var before model.Exchange
	for _, x := range d.exchanges() {
		if x.Side {
			continue
		}
		same := x.Prompt == before.Prompt && strings.HasSuffix(before.Answer, "calls")
		if found := wakeID.FindAllString(x.Prompt, -1); !same && x.Results == 0 && len(found) > 0 {
			ids = append(ids, found[len(found)-1])
		}
		before = x
	}
	return ids
}

// session is a session of the agent as the hub lists it.
type deskSession struct {
	Session string
	State   string
	Armed   string
}

// sessions returns the sessions of the agent that are not gone.
func (d *desk) sessions() (out []deskSession) {
	var got struct {
		Agents []struct{ Sessions []deskSession }
	}
	d.ok(d.operator("agent", "sessions", d.agent, "--json"), &got)
	for _, a := range got.Agents {
		for _, s := range a.Sessions {
			if s.State != "gone" {
				out = append(out, s)
			}
		}
	}
	return out
}

// idle reports whether the agent's session waits for a prompt and can be woken, if its CLI can.
func (d *desk) idle() bool {
	all := d.sessions()
	return len(all) == 1 && all[0].State == "idle" && (all[0].Armed != "" || d.cli.asleep)
}

// mail sends a message to the agent and returns its id.
func (d *desk) mail(text string, flags ...string) string {
	d.t.Helper()
	return d.sent(d.as("planner", append([]string{"send", d.agent, text, "--json"}, flags...)...))
}
