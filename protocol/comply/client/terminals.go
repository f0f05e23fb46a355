package client

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/protocol/comply/rules"
)

// terminalScenarios are about commands that the agent runs in terminals of the client.
var terminalScenarios = []*Scenario{
	{
		ID: "client.terminal.run", Title: "a command runs and ends", Area: "Terminals", Protocol: 1,
		Rules: []string{"CL-CAP-07", "CL-TERM-02", "CL-TERM-03", "CL-TERM-10", "CL-TERM-12"}, Press: "allow the command if the client asks",
		turn: withTerminal(playCommand),
	},
	{
		ID: "client.terminal.kill", Title: "a running command is read and killed", Area: "Terminals", Protocol: 1,
		Rules: []string{"CL-CAP-07", "CL-TERM-01", "CL-TERM-03", "CL-TERM-06", "CL-TERM-11", "CL-TERM-12"}, Press: "allow the command if the client asks",
		turn: withTerminal(playKill),
	},
	{
		ID: "client.terminal.release", Title: "a terminal is released while its command runs", Area: "Terminals", Protocol: 1,
		Rules: []string{"CL-CAP-07", "CL-TERM-07", "CL-TERM-08"}, Press: "allow the command if the client asks",
		turn: withTerminal(playRelease),
	},
	{
		ID: "client.terminal.limit", Title: "a command prints more than the limit", Area: "Terminals", Protocol: 1,
		Rules: []string{"CL-TERM-03", "CL-TERM-04", "CL-TERM-05"}, Press: "allow the commands if the client asks",
		turn: withTerminal(playLimit),
	},
	{
		ID: "client.terminal.signal", Title: "a command is ended by a signal", Area: "Terminals", Protocol: 1,
		Rules: []string{"CL-TERM-09"}, Press: "allow the command if the client asks",
		turn: withTerminal(playSignal),
	},
}

// withTerminal returns a turn for clients with terminals. The commands are for a POSIX shell.
func withTerminal(turn func(c *conversation, dir string)) func(*conversation, *rules.Entry) {
	inFolder := withFolder("terminal", turn)
	return func(c *conversation, prompt *rules.Entry) {
		if runtime.GOOS == "windows" {
			c.skip("the commands of this test need a POSIX shell")
			return
		}
		inFolder(c, prompt)
	}
}

// A terminal is a terminal of the client.
type terminal struct {
	c       *conversation
	id      string
	created *rules.Entry // the answer
}

// newTerminal starts a script in a terminal; nil if the client refused it or broke a rule.
func (c *conversation) newTerminal(dir, script string, further object) *terminal {
	p := object{"sessionId": c.sessionID(), "command": "sh", "args": []any{"-c", script}, "cwd": dir}
	for name, value := range further {
		p[name] = value
	}
	k := c.ask("terminal/create", p)
	e := c.require("CL-TERM-01", "the id of the terminal, before the command ends", k)
	switch {
	case e == nil:
		return nil
	case codeOf(e) == codeNoMethod:
		c.broke("CL-CAP-07", "terminal/create works, because the client announced it", "the answer is "+clipped(string(e.Raw)), c.called("initialize"), k.request, e)
		return nil
	case isError(e):
		c.skip("the client refused to run a command: %s", clipped(shown(e.Failure())))
		return nil
	}
	id := text(resultOf(e), "terminalId")
	if id == "" {
		c.broke("CL-CAP-07", "the id of the terminal", "the answer is "+clipped(string(e.Raw)), k.request, e)
		return nil
	}
	c.meet()
	return &terminal{c, id, e}
}

// use calls a method of the terminal and returns the answer; nil if a rule was broken.
func (t *terminal) use(method, rule, expected string) *rules.Entry {
	k := t.c.ask("terminal/"+method, object{"sessionId": t.c.sessionID(), "terminalId": t.id})
	e := t.c.require(rule, expected, k)
	if e != nil && codeOf(e) == codeNoMethod {
		t.c.broke("CL-CAP-07", "terminal/"+method+" works, because the client announced terminal", "the answer is "+clipped(string(e.Raw)), t.c.called("initialize"), k.request, e)
		return nil
	}
	return e
}

// release releases the terminal.
func (t *terminal) release() *rules.Entry {
	return t.use("release", "CL-TERM-07", "an answer to terminal/release")
}

// outputUntil reads the output until it contains a text, and returns the last answer. The end
// of the output may come a little after that of the command.
func (t *terminal) outputUntil(want, rule string) *rules.Entry {
	for end := time.Now().Add(t.c.limit); ; t.c.pause(settle / 10) {
		e := t.use("output", rule, "the output so far")
		if e == nil || isError(e) || strings.Contains(text(resultOf(e), "output"), want) {
			return e
		}
		if time.Now().After(end) || t.c.over() {
			return e
		}
	}
}

// playCommand runs a command to its end.
func playCommand(c *conversation, dir string) {
	t := c.newTerminal(dir, `echo "out $COLOUR"; echo "dir $(basename "$PWD")"; echo err >&2; exit 7`, object{
		"env": []any{object{"name": "COLOUR", "value": "blue"}},
	})
	if t == nil {
		return
	}
	e := t.use("wait_for_exit", "CL-TERM-02", "the exit code of the command")
	if e == nil {
		return
	}
	if code := number(resultOf(e)["exitCode"]); isError(e) || code != 7 {
		c.broke("CL-TERM-02", "the exit code 7", "the answer is "+clipped(string(e.Raw)), t.created, e)
	}

	e = t.outputUntil("dir ", "CL-TERM-03")
	if e == nil {
		return
	}
	out := text(resultOf(e), "output")
	switch {
	case isError(e) || !strings.Contains(out, "out "):
		c.broke("CL-TERM-03", `an output that contains "out"`, "the answer is "+clipped(string(e.Raw)), t.created, e)
	case !strings.Contains(out, "out blue"):
		c.broke("CL-TERM-10", "the variable COLOUR with the value blue", "the output is "+shown(out), t.created, e)
	case !strings.Contains(out, "dir "+filepath.Base(dir)):
		c.broke("CL-TERM-10", "the folder "+filepath.Base(dir), "the output is "+shown(out), t.created, e)
	}
	if _, ok := resultOf(e)["exitStatus"].(object); strings.Contains(out, "out ") && !ok {
		c.broke("CL-TERM-12", "exitStatus, because the command has ended", "the answer is "+clipped(string(e.Raw)), e)
	}
	t.release()
}

// playKill reads the output of a running command and kills it.
func playKill(c *conversation, dir string) {
	t := c.newTerminal(dir, "echo ready; exec sleep 600", nil)
	if t == nil {
		return
	}
	running := t.outputUntil("ready", "CL-TERM-11")
	if running == nil {
		return
	}
	if resultOf(running)["exitStatus"] != nil {
		c.broke("CL-TERM-12", "no exitStatus, because the command runs", "the answer is "+clipped(string(running.Raw)), running)
	}

	kill := t.use("kill", "CL-TERM-06", "an answer to terminal/kill")
	if kill == nil {
		return
	}
	e := t.use("wait_for_exit", "CL-TERM-06", "the exit status of the killed command")
	if e == nil {
		return
	}
	if isError(e) {
		c.broke("CL-TERM-06", "the exit status of the killed command", "the answer is "+clipped(string(e.Raw)), kill, e)
		return
	}
	if e = t.use("output", "CL-TERM-06", "the output of the killed command"); e == nil {
		return
	}
	before := strings.Contains(text(resultOf(running), "output"), "ready")
	after := strings.Contains(text(resultOf(e), "output"), "ready")
	switch {
	case !before && !after && !isError(e):
		c.broke("CL-TERM-03", "the output of the command", "the answer is "+clipped(string(e.Raw)), t.created, e)
	case !before:
		c.broke("CL-TERM-11", "the output of the running command", "the answer is "+clipped(string(running.Raw)), t.created, running)
	case !after:
		c.broke("CL-TERM-06", "the output of the killed command", "the answer is "+clipped(string(e.Raw)), kill, e)
	}
	t.release()
}

// playRelease releases a terminal whose command writes to a file all the time.
func playRelease(c *conversation, dir string) {
	beat := filepath.Join(dir, "beat")
	t := c.newTerminal(dir, `while :; do echo beat >> beat; sleep 0.05; done`, nil)
	if t == nil {
		return
	}
	if !c.grows(beat, true) {
		c.skip("the command did not write its file")
		return
	}
	released := t.release()
	if released == nil {
		return
	}
	if isError(released) {
		c.broke("CL-TERM-07", "terminal/release succeeds", "the answer is "+clipped(string(released.Raw)), t.created, released)
	}
	if !c.grows(beat, false) {
		f := c.finding("CL-TERM-07", "the command ends with its terminal", "the command went on to write its file", t.created, released)
		f.Timed = true
		c.note(f)
	}
	e := t.use("output", "CL-TERM-08", "an error, because the terminal was released")
	if e != nil && !isError(e) {
		c.broke("CL-TERM-08", "an error, because the terminal was released", "the answer is "+clipped(string(e.Raw)), released, e)
	}
}

// stillLooks is how often in a row a file must have the same size before its writer counts as
// ended: a writer on a busy machine pauses, too.
const stillLooks = 3

// grows waits until a file grows, or until it does not grow any more.
func (c *conversation) grows(path string, want bool) bool {
	last, still := int64(-1), 0
	for end := time.Now().Add(c.limit); time.Now().Before(end) && !c.over(); c.pause(settle) {
		info, err := os.Stat(path)
		size := int64(0)
		if err == nil {
			size = info.Size()
		}

		if want && size > 0 {
			return true
		}
		if size == last {
			still++
		} else {
			still = 0
		}
		if !want && still == stillLooks {
			return true
		}
		last = size
	}
	return false
}

// playLimit runs two commands that print more than the client may return.
func playLimit(c *conversation, dir string) {
	const limit = 100
	whole := strings.Repeat("0123456789", 30) + "the end"
	t := c.newTerminal(dir, fmt.Sprintf("printf '%%s' '%s'", whole), object{"outputByteLimit": limit})
	if t == nil {
		return
	}
	t.use("wait_for_exit", "CL-TERM-02", "the exit code of the command")
	e := t.outputUntil("the end", "CL-TERM-04")
	if e == nil {
		return
	}
	out := text(resultOf(e), "output")
	if out == "" && !isError(e) {
		c.broke("CL-TERM-03", "the output of the command", "the answer is "+clipped(string(e.Raw)), t.created, e)
		return
	}
	cut := len(out) <= limit && strings.HasSuffix(whole, out)
	if isError(e) || !cut || resultOf(e)["truncated"] != true {
		c.broke("CL-TERM-04", fmt.Sprintf("the last %d bytes at most, and truncated", limit), "the answer is "+clipped(string(e.Raw)), t.created, e)
	}
	t.release()

	// Two bytes for each character and an odd limit: the cut falls into a character.
	t = c.newTerminal(dir, fmt.Sprintf("printf '%%s' '%s.'", strings.Repeat("é", 40)), object{"outputByteLimit": 10})
	if t == nil {
		return
	}
	t.use("wait_for_exit", "CL-TERM-02", "the exit code of the command")
	if e = t.outputUntil(".", "CL-TERM-05"); e == nil {
		return
	}
	out = text(resultOf(e), "output")
	rest := strings.TrimLeft(out, "é")
	if !isError(e) && (strings.ContainsRune(out, utf8.RuneError) || rest != ".") {
		c.broke("CL-TERM-05", "whole characters only", "the output is "+shown(out), t.created, e)
	}
	t.release()
}

// playSignal runs a command that kills itself.
func playSignal(c *conversation, dir string) {
	t := c.newTerminal(dir, "kill -9 $$", nil)
	if t == nil {
		return
	}
	e := t.use("wait_for_exit", "CL-TERM-09", "the exit status of the command")
	if e == nil {
		return
	}
	if signal, _ := resultOf(e)["signal"].(string); signal == "" {
		c.broke("CL-TERM-09", "the signal in the exit status", "the answer is "+clipped(string(e.Raw)), t.created, e)
	}
	t.release()
}
