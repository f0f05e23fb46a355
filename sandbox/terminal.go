package sandbox

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A terminal is one command and the end of its output.
type terminal struct {
	output *tail
	stop   func()        // asks for the end; may be called again
	asked  chan struct{} // closed by stop
	done   chan struct{} // closed when the command has ended and its output is complete
	exit   Exit          // set before done is closed

	released, ended bool // guarded by Terminals.mu
}

func newTerminal(outputLimit int) *terminal {
	t := &terminal{output: newTail(outputLimit), asked: make(chan struct{}), done: make(chan struct{})}
	t.stop = sync.OnceFunc(func() { close(t.asked) })
	return t
}

// start starts cmd with its output on a pipe, whose other end it returns.
func start(cmd *exec.Cmd) (output *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// supervise returns when the started cmd has ended and its output is read, and
// sets exit. Once asked to stop, the command has the time of grace before it is
// killed. Once it has ended, its output has as long to arrive, in case a
// process that left the group holds on to it.
func (t *terminal) supervise(cmd *exec.Cmd, output *os.File, grace time.Duration) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(t.output, output)
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // how it ended is in cmd.ProcessState
		kill(cmd.Process)
	}()

	select {
	case <-exited:
	case <-t.asked:
		interrupt(cmd.Process)
		select {
		case <-exited:
		case <-time.After(grace):
			kill(cmd.Process)
			<-exited
		}
	}
	select {
	case <-read:
	case <-time.After(grace):
	}
	output.Close()
	<-read
	t.exit = exitOf(cmd.ProcessState)
}
