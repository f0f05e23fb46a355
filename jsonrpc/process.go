package jsonrpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// ProcessOptions changes how a Process works. The zero value works.
type ProcessOptions struct {
	MaxStderr int // bytes of standard error that are kept, the last ones; default 64 KiB

	// Started, if not nil, is told the number of the process, which is also that
	// of its group, before anything is said to it.
	Started func(pid int)

	// How long Close waits for the end after each step; default 2 s each.
	InputGrace  time.Duration // after standard input was closed
	SignalGrace time.Duration // after the signal to end
	KillGrace   time.Duration // after the kill

	// OrphanGrace is how long processes that the program leaves in its group may
	// go on before they are killed; default not at all.
	OrphanGrace time.Duration
}

// A Step is how far Close went.
type Step string

// The steps, in their order.
const (
	StepNone   Step = ""       // it ended by itself
	StepInput  Step = "input"  // it ended after its standard input was closed
	StepSignal Step = "signal" // it had to be told to end
	StepKill   Step = "kill"   // it had to be killed
)

// settleTime is how long is waited for what should follow at once: the end of
// the output after the end of the process, and the other way round.
const settleTime = time.Second

// orphanPause is how long is waited between two looks at what a program left in
// its group: nothing tells when that ends.
const orphanPause = 5 * time.Millisecond

// A Process is a program that is spoken to over its standard input and output.
// It has a process group of its own where there are such, and when it ends, by
// itself or by Close, what it left in that group is killed. A Process can be
// the reader and the writer of a Conn, or be used without one.
type Process struct {
	opts   ProcessOptions
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr tail
	exited chan struct{} // closed when the program has ended
	done   chan struct{} // closed when, after that, everything is cleaned up
	step   atomic.Value  // the last Step that Close took
	left   atomic.Bool   // a process of the group outlived the program
	close  func() error  // closes once
}

// Start starts a program. The command must have been neither started nor given
// standard streams. If it was made with a context, the end of that kills it
// with its group. Whoever starts a process must close it. opts may be nil.
func Start(cmd *exec.Cmd, opts *ProcessOptions) (*Process, error) {
	if cmd.Stdin != nil || cmd.Stdout != nil || cmd.Stderr != nil {
		return nil, errors.New("jsonrpc: start: the command has standard streams already")
	}
	p := &Process{cmd: cmd, exited: make(chan struct{}), done: make(chan struct{})}
	if opts != nil {
		p.opts = *opts
	}
	for _, grace := range []*time.Duration{&p.opts.InputGrace, &p.opts.SignalGrace, &p.opts.KillGrace} {
		if *grace <= 0 {
			*grace = 2 * time.Second
		}
	}
	if p.stderr.limit = p.opts.MaxStderr; p.stderr.limit <= 0 {
		p.stderr.limit = 64 << 10
	}
	p.step.Store(StepNone)
	p.close = sync.OnceValue(p.shut)

	var pipes [6]*os.File // for each stream, what is read and what is written
	var err error
	for i := 0; i < len(pipes) && err == nil; i += 2 {
		pipes[i], pipes[i+1], err = os.Pipe()
	}
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0], pipes[3], pipes[5]
		ownGroup(cmd)
		if cmd.Cancel != nil {
			cmd.Cancel = func() error { return killGroup(cmd.Process) }
		}
		err = cmd.Start()
	}
	if err != nil {
		closeAll(pipes[:]...)
		return nil, fmt.Errorf("jsonrpc: start: %w", err)
	}
	closeAll(pipes[0], pipes[3], pipes[5])
	p.stdin, p.stdout = pipes[1], pipes[2]
	if p.opts.Started != nil {
		p.opts.Started(p.Pid())
	}
	go p.wait(pipes[4])
	return p, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// wait is the goroutine that waits for the end and cleans up.
func (p *Process) wait(stderr *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(&p.stderr, stderr)
	}()
	p.cmd.Wait() // what it says is in ProcessState
	// The number of the group cannot have gone to another one yet: for that all
	// other numbers would have to be used up first.
	for end := time.Now().Add(p.opts.OrphanGrace); groupAlive(p.cmd.Process) && time.Now().Before(end); {
		time.Sleep(orphanPause)
	}
	p.left.Store(groupAlive(p.cmd.Process))
	killGroup(p.cmd.Process)
	close(p.exited)
	p.stdin.Close()
	// A program outside the group may still hold the streams.
	p.stdout.SetReadDeadline(time.Now().Add(settleTime))
	stderr.SetReadDeadline(time.Now().Add(settleTime))
	<-read
	stderr.Close()
	close(p.done)
}

// Read reads from standard output. At its end it returns an *ExitError if the
// program has ended, and io.EOF if it only closed its output.
func (p *Process) Read(b []byte) (int, error) {
	for {
		exited := p.Exited()
		if exited { // what it wrote is there; more can only come from elsewhere
			p.stdout.SetReadDeadline(time.Now().Add(settleTime))
		}
		n, err := p.stdout.Read(b)
		if n > 0 || err == nil {
			return n, nil
		}
		if exited || !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, p.ending(io.EOF)
		}
	}
}

// Write writes to standard input. It returns an *ExitError if the program has
// ended.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.stdin.Write(b)
	if err != nil {
		err = p.ending(err)
	}
	return n, err
}

// CloseInput closes standard input, which tells the program to end.
func (p *Process) CloseInput() error { return p.stdin.Close() }

// ending returns how the program ended. If it does not end soon, err it is.
func (p *Process) ending(err error) error {
	if p.within(settleTime) {
		return p.exitError()
	}
	return err
}

// within reports whether the program ends in the given time.
func (p *Process) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// Exited reports whether the program has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Left reports whether the program has ended and left a process in its group
// that had to be killed. It is false where there are no groups.
func (p *Process) Left() bool { return p.left.Load() }

// Pid returns the number of the process, which is also that of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended, and what it left is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end, and returns an *ExitError unless the program ended
// with status zero.
func (p *Process) Wait() error {
	<-p.done
	if p.cmd.ProcessState.Success() {
		return nil
	}
	return p.exitError()
}

// Stderr returns the end of what the program has written to standard error.
func (p *Process) Stderr() []byte { return p.stderr.bytes() }

// Close ends the program: it closes its standard input, then sends its group a
// signal, then kills the group, and waits after each step. It returns nil if
// the program ended with status zero, and otherwise an *ExitError that tells
// which step it took. It is safe to call more than once.
func (p *Process) Close() error { return p.close() }

func (p *Process) shut() error {
	for _, s := range []struct {
		step  Step
		take  func() error
		grace time.Duration
	}{
		{StepInput, p.CloseInput, p.opts.InputGrace},
		{StepSignal, func() error { return endGroup(p.cmd.Process) }, p.opts.SignalGrace},
		{StepKill, func() error { return killGroup(p.cmd.Process) }, p.opts.KillGrace},
	} {
		if p.Exited() {
			break
		}
		p.step.Store(s.step)
		s.take() // the wait shows whether it helped
		if p.within(s.grace) {
			break
		}
	}
	ended := p.Exited() && p.within(p.opts.KillGrace)
	p.stdout.Close()
	if !ended {
		return fmt.Errorf("jsonrpc: close: process %d could not be killed", p.Pid())
	}
	return p.Wait()
}
