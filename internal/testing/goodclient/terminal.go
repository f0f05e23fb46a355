package goodclient

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unicode/utf8"
)

// A terminal is a command that runs for the agent.
type terminal struct {
	cmd   *exec.Cmd
	limit int           // bytes of output that are kept; -1 for all
	done  chan struct{} // closed when the command has ended

	mu        sync.Mutex
	output    []byte
	truncated bool
	early     bool // a mutant keeps the beginning
	splits    bool // a mutant cuts inside of characters
}

// Write keeps output of the command.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.output = append(t.output, b...)
	if t.limit < 0 || len(t.output) <= t.limit {
		return len(b), nil
	}
	t.truncated = true
	if t.early {
		t.output = t.output[:t.limit]
		return len(b), nil
	}
	cut := len(t.output) - t.limit
	for !t.splits && cut < len(t.output) && !utf8.RuneStart(t.output[cut]) {
		cut++
	}
	t.output = t.output[cut:]
	return len(b), nil
}

// createTerminal answers terminal/create.
func (c *client) createTerminal(p params) (any, *failure) {
	if p.Command == "" {
		return nil, &failure{-32602, "command is missing"}
	}
	t := &terminal{cmd: exec.Command(p.Command, p.Args...), limit: -1, done: make(chan struct{}), early: c.breaks("CL-TERM-04"), splits: c.breaks("CL-TERM-05")}
	if p.OutputByteLimit != nil {
		t.limit = *p.OutputByteLimit
	}
	t.cmd.Stdout, t.cmd.Stderr = t, t
	if c.breaks("CL-TERM-03") {
		t.cmd.Stdout, t.cmd.Stderr = nil, nil
	}
	if !c.breaks("CL-TERM-10") {
		t.cmd.Dir = p.Cwd
		t.cmd.Env = os.Environ()
		for _, v := range p.Env {
			t.cmd.Env = append(t.cmd.Env, v.Name+"="+v.Value)
		}
	}
	ownGroup(t.cmd)
	if err := t.cmd.Start(); err != nil {
		return nil, &failure{-32603, "the command cannot be started"}
	}
	go func() {
		defer close(t.done)
		t.cmd.Wait() // its error is in ProcessState, too
	}()
	c.mu.Lock()
	id := fmt.Sprintf("terminal-%d", len(c.terminals)+1)
	c.terminals[id] = t
	c.mu.Unlock()
	if c.breaks("CL-TERM-01") {
		<-t.done
	}
	return object{"terminalId": id}, nil
}

// useTerminal answers the other methods of terminals.
func (c *client) useTerminal(method string, p params) (any, *failure) {
	c.mu.Lock()
	t := c.terminals[p.TerminalID]
	c.mu.Unlock()
	if t == nil {
		return nil, &failure{-32602, "there is no such terminal"}
	}
	switch method {
	case "terminal/output":
		return c.output(t), nil
	case "terminal/wait_for_exit":
		select {
		case <-t.done:
		case <-c.ended:
		}
		return c.status(t), nil
	case "terminal/kill":
		killGroup(t.cmd)
		if c.breaks("CL-TERM-06") {
			c.forget(p.TerminalID)
		}
	case "terminal/release":
		if !c.breaks("CL-TERM-07") {
			killGroup(t.cmd)
		}
		if !c.breaks("CL-TERM-08") {
			c.forget(p.TerminalID)
		}
	}
	return object{}, nil
}

// forget removes a terminal. The number of terminals gives the ids, so the entry stays.
func (c *client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminals[id] = nil
}

// output returns the output of a terminal so far.
func (c *client) output(t *terminal) object {
	if c.breaks("CL-TERM-11") {
		<-t.done
	}
	ended := false
	select {
	case <-t.done:
		ended = true
	default:
	}
	t.mu.Lock()
	out := object{"output": string(t.output), "truncated": t.truncated}
	t.mu.Unlock()
	if ended {
		out["exitStatus"] = c.status(t)
	} else if c.breaks("CL-TERM-12") {
		out["exitStatus"] = object{"exitCode": 0}
	}
	return out
}

// status returns how the command ended.
func (c *client) status(t *terminal) object {
	state := t.cmd.ProcessState
	if state == nil || c.breaks("CL-TERM-02") {
		return object{"exitCode": 0, "signal": nil}
	}
	if name, ok := signalOf(state); ok && !c.breaks("CL-TERM-09") {
		return object{"exitCode": nil, "signal": name}
	}
	return object{"exitCode": max(state.ExitCode(), 0), "signal": nil}
}

// signalName returns the name of a signal as agents know it.
func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT"}
	if name := names[s]; name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
