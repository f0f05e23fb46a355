package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
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

// TestGuardRounds has four CLIs in one working tree change one file in every round, each its own
// line, and commit it, while CLIs and the hub are killed. No line may fall behind, and an agent
// that nobody disturbs may not be refused. PARLEY_ROUNDS sets the number of rounds; make test-real
// runs 200, which are 800 edits.
func TestGuardRounds(t *testing.T) {
	onlyReal(t)
	rounds, err := strconv.Atoi(os.Getenv("PARLEY_ROUNDS"))
	if err != nil {
		rounds = 200
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newCrew(t, rand.New(rand.NewPCG(seed, 0)))
	for n := 1; n <= rounds; n++ {
		begun := time.Now()
		w.round(n)
		w.check(n)
		w.checkMail(n, begun)
		t.Logf("round %d: %d refused, %d kills of CLIs, %d of the hub", n, w.refused, w.killed, w.hubKills)
		if t.Failed() {
			t.Fatalf("in round %d", n)
		}
	}
	t.Logf("%d rounds: %d edits, %d refused while another agent was changing the file, %d kills of CLIs, %d of the hub", rounds, w.edits, w.refused, w.killed, w.hubKills)
}

// sharedFile has one line for each agent: its name and the number of the last round.
const sharedFile = "shared.txt"

// A crew is four CLIs that work in one repository.
type crew struct {
	*workshop
	random *rand.Rand
	desks  []*desk
	starts [][]string    // the command of each desk
	flags  []string      // of the hub
	read   map[*desk]int // how often the model of a desk has read that it is refused

	edits, refused   int
	killed, hubKills int
}

func newCrew(t *testing.T, random *rand.Rand) *crew {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &crew{random: random, read: map[*desk]int{}}
	for i, name := range []string{"claude", "codex", "opencode", "copilot"} {
		c := realCLIs[slices.IndexFunc(realCLIs, func(c realCLI) bool { return c.name == name })]
		if name == "claude" {
			c.args = append(slices.Clone(c.args), "--permission-mode", "acceptEdits")
		}
		var d *desk
		var start []string
		if i == 0 {
			d, start = c.prepare(t, quickWakes)
			w.workshop = &workshop{d.house, d.dir}
			w.flags = d.flags
		} else {
			d = &desk{house: w.house, cli: c, dir: w.dir}
			start = d.furnish(c.obedient(t))
		}
		d.agent = "agent-" + name
		w.desks = append(w.desks, d)
		w.starts = append(w.starts, append(append(start, self, name, "--as", d.agent, "--wake", "--"), c.args...))
	}

	var lines []string
	for _, d := range w.desks {
		lines = append(lines, d.agent+" 0.")
	}
	if err := os.WriteFile(filepath.Join(w.dir, sharedFile), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.repository()
	w.ok(w.operator("files", "guard", "on", w.dir), nil)
	for i, d := range w.desks {
		d.show(w.starts[i])
		d.await("an armed session", d.idle)
	}
	return w
}

// prompt is the text that a person types for a try of a round. Each is a text of its own, also on the screen.
func prompt(n, try int) string { return fmt.Sprintf("round %d try %d.", n, try) }

// give gives the model of a desk the steps of a round. They come before mail: a prompt that also
// announces mail is the work of the round, and the mail is announced again when the turn ends.
func (w *crew) give(d *desk, n, try int) {
	w.t.Helper()
	script := d.cli.obedient(w.t)
	commit := fmt.Sprintf("git -c user.name=%[1]s -c user.email=%[1]s@example.com commit -q -m '%[1]s %[2]d' -- %[3]s", d.agent, n, sharedFile)
	work := model.Rule{
		When: model.Condition{Prompt: regexp.MustCompile(regexp.QuoteMeta(prompt(n, try)))},
		Do: []model.Step{
			{Do: model.Read, Path: filepath.Join(w.dir, sharedFile)},
			{Do: model.Edit, Path: filepath.Join(w.dir, sharedFile), Old: fmt.Sprintf("%s %d.", d.agent, n-1), New: fmt.Sprintf("%s %d.", d.agent, n)},
			{Do: model.Shell, Command: commit},
			{Do: model.Say, Text: "Done."},
		},
	}
	script.Rules = slices.Insert(script.Rules, 0, work)
	d.model.Config.Handler = model.New(script)
}

// isDone reports whether the turn of a try has ended. A CLI may give a prompt that is typed while it
// reads mail to the turn that runs: then the mail was read, and the work was not done.
func (d *desk) isDone(n, try int) bool {
	return slices.ContainsFunc(d.exchanges(), func(x model.Exchange) bool {
		return bytes.Contains(x.Body, []byte(prompt(n, try))) && !x.Side && !strings.HasSuffix(x.Answer, "calls")
	})
}

// wasRefused reports whether the model of a desk has read that another agent is changing the file,
// since the last call. A request has the whole conversation.
func (w *crew) wasRefused(d *desk) bool {
	read := 0
	for _, x := range d.exchanges() {
		read = max(read, bytes.Count(x.Body, []byte(sharedFile+" is being changed by")))
	}
	isNew := read > w.read[d]
	w.read[d] = read
	return isNew
}

// round has all agents change the file at once, and then those alone that were refused or killed.
func (w *crew) round(n int) {
	w.t.Helper()
	for _, d := range w.desks {
		w.give(d, n, 1)
		d.draft(prompt(n, 1))
	}
	for _, d := range w.desks {
		d.tmux("send-keys", "-t", "w", "Enter")
	}
	victim := w.kill()
	for i, d := range w.desks {
		if i == victim {
			continue
		}
		d.await("the end of a turn", func() bool {
			d.answer(d.screen())
			return d.isDone(n, 1) && d.idle()
		})
		if w.wasRefused(d) {
			w.refused++
		}
	}

	if victim >= 0 {
		w.reopen(victim)
	}
	for _, d := range w.desks {
		w.alone(d, n)
	}
	w.edits += len(w.desks)
}

// kill kills a CLI or the hub in some rounds, in the middle of the turns. It returns the desk whose
// CLI was killed, -1 if none was.
func (w *crew) kill() int {
	w.t.Helper()
	dice := w.random.IntN(10)
	if dice > 1 {
		return -1
	}
	<-time.After(time.Duration(w.random.IntN(4000)) * time.Millisecond)
	if dice == 0 {
		w.hubKills++
		w.hub.signal(w.t, syscall.SIGKILL)
		w.start(append(w.flags, "--addr", strings.TrimPrefix(w.url, "http://"))...)
		return -1
	}

	w.killed++
	victim := w.random.IntN(len(w.desks))
	d := w.desks[victim]
	pid, err := strconv.Atoi(strings.TrimSpace(d.tmux("display-message", "-p", "-t", "w", "#{pane_pid}")))
	if err != nil {
		w.t.Fatal(err)
	}
	syscall.Kill(-pid, syscall.SIGKILL)
	d.await("the end of the window", func() bool { return !process.Alive(pid) })
	return victim
}

// reopen opens a new window for a CLI that was killed.
func (w *crew) reopen(i int) {
	w.t.Helper()
	d := w.desks[i]
	d.tmux("kill-server")
	delete(w.read, d) // a new conversation
	d.socket += "2"
	d.show(w.starts[i])
	d.await("an armed session", d.idle)
}

// alone has an agent whose line is not committed try again, while no other one is at work. Another
// agent may not be named as the one that is changing the file.
func (w *crew) alone(d *desk, n int) {
	w.t.Helper()
	for try := 2; w.line("HEAD:"+sharedFile, d.agent) != n; try++ {
		if try > 6 {
			w.t.Fatalf("%s cannot commit its line in round %d:\n%s\n%s\n%s", d.agent, n, w.git(nil, "diff").out, w.operator("log", "--whole", "--to", d.agent, "--limit", "20").out, w.operator("files").out)
		}
		w.give(d, n, try)
		d.types(prompt(n, try))
		d.await("the end of a turn", func() bool {
			d.answer(d.screen())
			return d.isDone(n, try) && d.idle()
		})
		if w.wasRefused(d) {
			w.t.Errorf("%s was refused in round %d while nobody else was at work:\n%s", d.agent, n, w.operator("files").out)
		}
	}
}

// line returns the number on the line of an agent in a version of the file.
func (w *crew) line(version, agent string) int {
	w.t.Helper()
	text := w.git(nil, "show", version).out
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, agent+" "); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(number), "."))
			if err != nil {
				w.t.Fatalf("%s: %q", version, line)
			}
			return n
		}
	}
	w.t.Fatalf("%s has no line of %s:\n%s", version, agent, text)
	return 0
}

// check looks for a line that fell behind in a commit, and for changes that are not committed.
func (w *crew) check(n int) {
	w.t.Helper()
	if out := w.git(nil, "status", "--porcelain", "-uno").out; out != "" {
		w.t.Errorf("changes are left after round %d: %s", n, out)
	}
	commits := strings.Fields(w.git(nil, "log", "--reverse", "--format=%h", "-n", strconv.Itoa(4*len(w.desks)), "--", sharedFile).out)
	for _, d := range w.desks {
		last := 0
		for _, c := range commits {
			now := w.line(c+":"+sharedFile, d.agent)
			if now < last {
				w.t.Errorf("an edit of %s was lost in commit %s: %d after %d", d.agent, c, now, last)
			}
			last = now
		}
		if last != n {
			w.t.Errorf("the line of %s says %d after round %d", d.agent, last, n)
		}
	}
}

// maxMail is the most messages of the hub for one agent in a round: three others wait for a file of
// the agent, and a file that it waited for is free, each twice if the hub or a CLI was killed.
const maxMail = 8

// checkMail looks for an agent that the hub wrote to again and again in a round.
func (w *crew) checkMail(n int, begun time.Time) {
	w.t.Helper()
	for _, d := range w.desks {
		mail := w.operator("log", "--whole", "--to", d.agent, "--topic", "reservations", "--since", begun.UTC().Format(time.RFC3339))
		if got := strings.Count(mail.out, " is free") + strings.Count(mail.out, " waits for "); mail.code != exitDone || got > maxMail {
			w.t.Errorf("the hub wrote %d messages to %s in round %d:\n%s%s", got, d.agent, n, mail.out, mail.err)
		}
	}
}
