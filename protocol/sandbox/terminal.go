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
	output *outputTail
	stop   func()        // requests the end; may be called again
	ending chan struct{} // closed by stop
	done   chan struct{} // closed when the command has ended and its output is complete
	exit   Exit          // set before done is closed

	released, ended bool // guarded by Terminals.mu
}

func newTerminal(outputLimit int) *terminal {
	t := &terminal{output: newTail(outputLimit), ending: make(chan struct{}), done: make(chan struct{})}
	t.stop = sync.OnceFunc(func() { close(t.ending) })
	return t
}

// start starts cmd with its output on a pipe and returns the reading end.
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

// supervise waits until cmd has ended and its output is read, and sets exit. After
// stop the command has the grace to end before it is killed. After its end the output
// has the grace to end, too: a process outside the group may hold it open.
func (t *terminal) supervise(cmd *exec.Cmd, output *os.File, grace time.Duration) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(t.output, output)
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		cmd.Wait() // its error is in cmd.ProcessState, too
		kill(cmd.Process)
	}()

	// The command ends by itself, or because of the signals after stop.
	select {
	case <-exited:
	case <-t.ending:
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
