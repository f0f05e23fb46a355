package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/protocol/comply/model"
)

// quickWakes are settings under which a test does not wait for half a minute between
// wakes. Ten mails in five seconds are within one gap.
const quickWakes = "wakes:\n  gap: 10s\n"

// TestWake has a real CLI in a terminal woken by mail, through parley launch. make
// test runs one CLI, make test-real all.
func TestWake(t *testing.T) {
	for _, c := range realCLIs {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "claude" && os.Getenv("PARLEY_REAL") == "" {
				t.Skip("make test-real runs it")
			}
			if c.asleep {
				testAsleep(t, c)
				return
			}
			testWake(t, c)
		})
	}
}

// TestWakeConnected has mail wake a session that the user started without Parley, after
// parley connect --wake.
func TestWakeConnected(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		if c.stays == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.ready = c.stays
			if c.name == "copilot" {
				c.args = append(slices.Clone(c.args), "--experimental")
			}
			d := c.openConnected(t, quickWakes)
			d.await("an armed session", d.idle)
			id := d.mail("are you there?")
			d.await("a turn", func() bool { return len(d.wakes()) > 0 && d.idle() })
			quiet()
			if n := len(d.wakes()); n != 1 {
				t.Errorf("one mail: got %d turns, want 1", n)
			}
			d.ledger(id, "inbox:offered session:accepted")
		})
	}
}

// TestNewcomers opens two windows, tells the agent in the first to hand a task to the one in
// the second, in which nobody types anything, and waits until the work is checked.
func TestNewcomers(t *testing.T) {
	onlyReal(t)
	claude := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == "claude" })]
	for _, c := range realCLIs {
		if c.asleep {
			continue
		}
		t.Run("claude hands over to "+c.name, func(t *testing.T) {
			if c.name == "claude" { // its auto mode asks its maker about commands
				c.args = append(slices.Clone(c.args), "--permission-mode", "default")
			}
			second, start := c.prepare(t, quickWakes)
			inGit(t, second.dir, "init", "-q", "-b", "main")
			inGit(t, second.dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first")
			second.model.Config.Handler = model.New(c.worker(t))
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			second.show(append(append(start, self, c.name, "--as", second.agent, "--wake", "--"), c.args...))

			first := &desk{house: second.house, cli: claude, agent: "planner", dir: second.dir}
			start = first.furnish(delegates(second.dir))
			first.show(append(append(start, self, "claude", "--as", first.agent, "--wake", "--"), claude.args...))
			first.types("hand this to builder")

			var got struct {
				State string `json:"status"`
				Proof string `json:"proof"`
			}
			second.await("the end of the task", func() bool {
				r := second.operator("show", "h1", "--json")
				return r.code == 0 && json.Unmarshal([]byte(r.out), &got) == nil && got.State == "closed"
			})
			if got.Proof != "verified" {
				t.Errorf("got %+v\n%s", got, second.operator("show", "h1").out)
			}
			if n := len(second.wakes()); n != 1 {
				t.Errorf("builder had %d turns, want 1", n)
			}
			t.Logf("%d model requests of claude, %d of %s", requests(first), requests(second), c.name)
		})
	}
}

// TestNameOnScreen holds that a person reads on the screen which agent a window is, in CLIs that have a place
// for it, after a turn has painted over the first lines.
func TestNameOnScreen(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		if c.name != "claude" && c.name != "qwen" && c.name != "pi" {
			continue // docs/agents-running.md says what the others show
		}
		t.Run(c.name, func(t *testing.T) {
			d := c.open(t, quickWakes)
			name := string(d.agent) + " on Parley"
			d.await("the agent's name on the screen", func() bool { return strings.Contains(d.screen(), name) })
			d.types("hello")
			d.await("a turn", func() bool { return requests(d) > 0 && d.idle() })
			if screen := d.screen(); !strings.Contains(screen, name) {
				t.Errorf("after a turn %q is not on the screen:\n%s", name, screen)
			}
		})
	}
}

// requests counts the requests of a CLI to its model, without those for itself.
func requests(d *desk) (n int) {
	for _, x := range d.exchanges() {
		if !x.Side {
			n++
		}
	}
	return n
}

// delegates returns the script of a model that hands a task in a folder to builder.
func delegates(dir string) *model.Script {
	task, err := json.Marshal(map[string]any{
		"action": "initiate", "to": "builder", "task_id": "T-1", "title": "make made.txt", "summary": "nothing is there yet", "next_step": "write the file",
		"success_criteria": []string{"made.txt is committed"}, "worktree_path": dir,
	})
	if err != nil {
		panic(err) // they are strings
	}
	s := model.Default()
	s.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile("hand this to builder")},
		Do:   []model.Step{{Do: model.MCP, Server: "parley", Name: "acp_handoff", Args: task}, {Do: model.Say, Text: "Handed over."}},
	}}
	return s
}

// worker returns the script of a model that takes the first task of the hub when it is
// woken, does the work and completes the task.
func (c realCLI) worker(t *testing.T) *model.Script {
	t.Helper()
	call := c.caller(t)
	s := model.Default()
	s.Rules = []model.Rule{{
		When: model.Condition{Prompt: regexp.MustCompile(`\[parley wake w_`)},
		Do: []model.Step{
			call("acp_inbox", `{}`, "inbox"),
			call("acp_handoff", `{"action":"accept","handoff_id":"h1"}`, "handoff accept h1"),
			{Do: model.Shell, Command: "echo made > made.txt && git add made.txt && git -c user.name=builder -c user.email=builder@example.org commit -q -m made"},
			call("acp_handoff", `{"action":"complete","handoff_id":"h1","summary":"made.txt is there"}`, "handoff complete h1 --summary there"),
			{Do: model.Say, Text: "Done."},
		},
	}}
	return s
}

// caller returns a function that makes the step with which the model of the CLI uses a tool of the hub: a
// call of the tool, or a command of the shell for a CLI without MCP.
func (c realCLI) caller(t *testing.T) func(tool, args, command string) model.Step {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func(tool, args, command string) model.Step {
		if c.name == "pi" {
			return model.Step{Do: model.Shell, Command: asParley + "=1 " + self + " " + command}
		}
		return model.Step{Do: model.MCP, Server: "parley", Name: tool, Args: json.RawMessage(args)}
	}
}

// TestKilledWindow has mail come after the kill of a window, and wake the next window of the
// same agent.
func TestKilledWindow(t *testing.T) {
	onlyReal(t)
	for _, c := range realCLIs {
		t.Run(c.name, func(t *testing.T) {
			if c.asleep {
				t.Skip("it cannot be woken")
			}
			d, start := c.prepare(t, quickWakes)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			command := append(append(start, self, c.name, "--as", d.agent, "--wake", "--"), c.args...)
			d.show(command)
			d.await("an armed session", d.idle)
			pid, err := strconv.Atoi(strings.TrimSpace(d.tmux("display-message", "-p", "-t", "w", "#{pane_pid}")))
			if err != nil {
				t.Fatal(err)
			}
			syscall.Kill(-pid, syscall.SIGKILL)
			d.await("the end of the window", func() bool { return !process.Alive(pid) })

			id := d.mail("after the kill")
			if all := d.sessions(); len(all) != 0 {
				t.Errorf("the killed window is listed: %+v", all)
			}
			d.ledger(id, "inbox:stored session:skipped")
			d.tmux("kill-server")
			d.socket += "2"
			d.show(command)
			d.await("an armed session", func() bool {
				return slices.ContainsFunc(d.sessions(), func(s deskSession) bool { return s.Armed != "" })
			})
			armed := time.Now()
			d.await("a turn", func() bool { return len(d.wakes()) > 0 })
			t.Logf("woken %s after the new window was armed", time.Since(armed).Round(100*time.Millisecond))
			d.await("the proof of the turn", func() bool { return strings.Contains(d.rows(id), "session:accepted") })
			if n := len(d.wakes()); n != 1 {
				t.Errorf("got %d turns, want 1", n)
			}
		})
	}
}

func testWake(t *testing.T, c realCLI) {
	d := c.open(t, quickWakes)
	d.await("an armed session", d.idle)
	turns := 0
	// more waits for the turns of wakes and checks that between least and most came
	// since the last call. A turn that should not come would have begun before the
	// session was idle for a while.
	more := func(least, most int) {
		d.t.Helper()
		d.await("a turn", func() bool { return len(d.wakes()) >= turns+least && d.idle() })
		quiet()
		if got := len(d.wakes()) - turns; got < least || got > most {
			d.t.Errorf("%d turns, want %d to %d\n%s", got, least, most, strings.Join(d.summary(), "\n"))
		}
		turns = len(d.wakes())
	}
	whole := d.t
	step := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			d.t = t
			defer func() { d.t = whole }()
			do(t)
		})
		if t.Failed() {
			t.FailNow() // the next step would begin in another state
		}
	}
	step("R3-087 R3-112 one mail to an idle agent is one turn, and the message is processed once", func(t *testing.T) {
		id := d.mail("are you there?")
		more(1, 1)
		d.ledger(id, "inbox:offered session:accepted")
		for range 2 {
			d.ok(d.as(d.agent, "inbox", "--ack-id", id), nil)
		}
		d.ledger(id, "inbox:read session:accepted")
	})
	step("R3-086 mail of low priority starts no turn", func(t *testing.T) {
		id := d.mail("no hurry", "--priority", "low")
		quiet()
		more(0, 0)
		d.ledger(id, "inbox:stored")
		d.ok(d.as(d.agent, "inbox"), nil)
	})
	step("R3-088 mail of high priority beside a draft is one turn, and the draft stays", func(t *testing.T) {
		d.draft("half a thought")
		id := d.mail("with a draft", "--priority", "high")
		more(1, 1)
		d.ledger(id, "inbox:offered session:accepted")
		if !strings.Contains(d.screen(), "half a thought") {
			t.Errorf("the draft is gone:\n%s", d.screen())
		}
		d.clear("half a thought")
	})
	step("R3-089 critical mail is one turn, and the ledger says which channels are off", func(t *testing.T) {
		id := d.mail("at once", "--priority", "critical")
		more(1, 1)
		d.ledger(id, "channel:skipped inbox:offered session:accepted wake:skipped")
	})
	step("ten mails in five seconds are one or two turns", func(t *testing.T) {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for i := range 10 {
			d.mail(fmt.Sprintf("burst %d", i))
			<-tick.C
		}
		d.await("the last of the burst", func() bool { return d.unread() == 0 })
		more(1, 2)
	})

	over := "" // the file that a tool call leaves at its end
	tasks := 0
	busy := func() {
		d.t.Helper()
		tasks++
		over = filepath.Join(d.dir, fmt.Sprint("over", tasks))
		d.types(fmt.Sprintf(`parley:shell command="%s; touch over%d"`, cmp.Or(c.pause, "sleep 12"), tasks))
		d.await("a turn of the user", func() bool { return !d.idle() })
	}
	finished := func() {
		d.t.Helper()
		d.await("the end of the tool call", func() bool { _, err := os.Stat(over); return err == nil })
		d.await("the end of the turn", d.idle)
	}
	step("R3-085 five mails to a busy agent cancel nothing and are at most one turn, and a notice is no delivery", func(t *testing.T) {
		busy()
		var ids []string
		for i := range 5 {
			ids = append(ids, d.mail(fmt.Sprintf("busy %d", i)))
		}
		finished()
		more(0, 1)
		if d.unread() > 0 && d.status(ids[0]) != "pending" {
			t.Errorf("a message that was announced and not fetched is %s", d.status(ids[0]))
		}
		d.ok(d.as(d.agent, "inbox"), nil)
	})
	step("mail that the recipient fetched first is no turn", func(t *testing.T) {
		busy()
		id := d.mail("read it yourself")
		d.ok(d.as(d.agent, "inbox"), nil)
		finished()
		more(0, 0)
		d.ledger(id, "inbox:offered session:skipped")
	})
	step("R3-083 a hub that is killed between mail and wake wakes once", func(t *testing.T) {
		id := d.mail("before the end of the hub")
		d.hub.signal(t, syscall.SIGKILL)
		d.t = whole // the hub outlives this step
		d.start(append(d.flags, "--addr", strings.TrimPrefix(d.url, "http://"))...)
		d.t = t
		more(1, 1)
		d.ledger(id, "inbox:offered session:accepted")
	})
	step("R3-125 a probe is one turn, with mechanism and seconds", func(t *testing.T) {
		var got struct {
			Proven    bool
			Mechanism string
			Seconds   float64
		}
		d.ok(d.operator("agent", "test", d.agent, "--json"), &got)
		if !got.Proven || got.Mechanism == "" || got.Seconds <= 0 {
			t.Errorf("got %+v", got)
		}
		more(1, 1)
	})
	step("R3-095 R3-116 a CLI that has ended leaves mail in the inbox, and the ledger says why", func(t *testing.T) {
		d.tmux("kill-session", "-t", "w")
		d.await("the end of the session", func() bool { return len(d.sessions()) == 0 })
		id := d.mail("too late")
		d.ledger(id, "inbox:stored session:skipped")
		contains(t, d.operator("show", id).out, "no live session")
	})
}

// testAsleep has a CLI that no mechanism wakes: the sender is told, and the agent is
// told with its next prompt.
func testAsleep(t *testing.T, c realCLI) {
	d := c.open(t, quickWakes)
	d.await("a session", func() bool { return len(d.sessions()) == 1 })
	r := d.as("planner", "send", d.agent, "are you there?", "--json")
	d.ok(r, nil)
	contains(t, r.out, "cannot be woken")
	quiet()
	if got := d.wakes(); len(got) > 0 {
		t.Errorf("it was woken: %q", got)
	}
	d.types("what now?")
	d.await("the notice", func() bool {
		return slices.ContainsFunc(d.summary(), func(line string) bool { return strings.Contains(line, "what now?") }) && d.told()
	})
}

// TestHeadless has claude -p, with the hooks of every session, end: a hook that waited
// for mail would hold it up.
func TestHeadless(t *testing.T) {
	c := realCLIs[0]
	d, start := c.prepare(t, quickWakes)
	d.connect(start)
	d.mail("are you there?")
	ctx, cancel := context.WithTimeout(t.Context(), slow)
	defer cancel()
	cmd := exec.CommandContext(ctx, start[0], append(slices.Clone(start[1:]), c.name, "-p", "hello")...)
	cmd.Dir = d.dir
	r := do(t, cmd)
	if r.code != 0 || ctx.Err() != nil {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if !d.told() {
		t.Errorf("its hooks did not run:\n%s", strings.Join(d.summary(), "\n"))
	}
}

// quiet waits while a turn that should not come would come: longer than the hub waits
// for a burst to end and than a CLI takes to begin a turn.
func quiet() { <-time.After(5 * time.Second) }

// clear removes a draft.
func (d *desk) clear(text string) {
	for range len(text) {
		d.tmux("send-keys", "-t", "w", "BSpace")
	}
}

// told reports whether a request of the CLI has a notice anywhere.
func (d *desk) told() bool {
	for _, x := range d.exchanges() {
		if wakeID.Match(x.Body) {
			return true
		}
	}
	return false
}

// ledger waits until the rows of a message are these.
func (d *desk) ledger(id, want string) {
	d.t.Helper()
	got := ""
	defer func() {
		if d.t.Failed() {
			d.t.Logf("the ledger of %s: %s", id, got)
		}
	}()
	d.await("the ledger "+want, func() bool {
		got = d.rows(id)
		return got == want
	})
}

// rows returns the rows of a message.
func (d *desk) rows(id string) string {
	d.t.Helper()
	var trace struct {
		Deliveries []struct{ Channel, Status string }
	}
	d.ok(d.operator("show", id, "--json"), &trace)
	var words []string
	for _, row := range trace.Deliveries {
		words = append(words, row.Channel+":"+row.Status)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// status returns the status of a message.
func (d *desk) status(id string) string {
	d.t.Helper()
	var trace struct{ Message struct{ Status string } }
	d.ok(d.operator("show", id, "--json"), &trace)
	return trace.Message.Status
}

// unread counts the messages of the agent that nobody has fetched.
func (d *desk) unread() int {
	d.t.Helper()
	var got struct{ Messages []struct{ ID string } }
	d.ok(d.as(d.agent, "inbox", "--peek", "--new", "--json"), &got)
	return len(got.Messages)
}
