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

	"github.com/parley-agents/parley/internal/ground/text/tail"
)

// ProcessOptions changes how a Process works. The zero value works.
type ProcessOptions struct {
	MaxStderr int // bytes of standard error that are kept, the last ones; default 64 KiB

	// How long Close waits for the end after each step; default 2 s each.
	InputGrace  time.Duration // after standard input was closed
	SignalGrace time.Duration // after the signal to end
	KillGrace   time.Duration // after the kill

	// OrphanGrace is how long processes that the program left in its group may run
	// before they are killed; default 0.
	OrphanGrace time.Duration
}

// A Step says how far Close had to go to end a process.
type Step string

// The steps, in their order.
const (
	StepNone   Step = ""       // the program ended by itself
	StepInput  Step = "input"  // it ended after its standard input was closed
	StepSignal Step = "signal" // it ended after the signal
	StepKill   Step = "kill"   // it was killed
)

// endGrace is how long the end of the output may come after the end of the process,
// and the other way round.
const endGrace = time.Second

// orphanPause is the time between two checks for orphans: the system does not report
// the end of a process group.
const orphanPause = 5 * time.Millisecond

// A Process is a program with pipes to its standard input and output. On Unix it has
// a process group of its own, and when it ends, by itself or by Close, the processes
// that it left in that group are killed. A Process can be the reader and the writer
// of a Conn, or be used without one.
type Process struct {
	opts   ProcessOptions
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *tail.Buffer
	exited chan struct{} // closed when the program has ended
	done   chan struct{} // closed when, after that, its group and its pipes are cleaned up
	step   atomic.Value  // the last Step of Close
	orphan atomic.Bool   // a process of the group outlived the program
	close  func() error  // closes once
}

// Start starts a program. The command must have been neither started nor given
// standard streams. If it was made with a context, the end of that kills it with
// its group. The caller must close the Process. opts may be nil.
func Start(cmd *exec.Cmd, opts *ProcessOptions) (*Process, error) {
	if cmd.Stdin != nil || cmd.Stdout != nil || cmd.Stderr != nil {
		return nil, errors.New("jsonrpc: start: the command already has standard streams: leave Stdin, Stdout and Stderr nil")
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
	if p.opts.MaxStderr <= 0 {
		p.opts.MaxStderr = 64 << 10
	}
	p.stderr = tail.NewBuffer(p.opts.MaxStderr)
	p.step.Store(StepNone)
	p.close = sync.OnceValue(p.shut)

	// The program gets one end of each pipe, and this process keeps the other.
	var pipes [6]*os.File // the reading and the writing end for each stream
	var err error
	for i := 0; i < len(pipes) && err == nil; i += 2 {
		pipes[i], pipes[i+1], err = os.Pipe()
	}
	if err == nil {
		cmd.Stdin = pipes[0]
		cmd.Stdout = pipes[3]
		cmd.Stderr = pipes[5]
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
		io.Copy(p.stderr, stderr)
	}()
	p.cmd.Wait() // its error is in ProcessState, too
	// The id of the group cannot belong to another group yet: the system reuses an
	// id only after all others.
	for end := time.Now().Add(p.opts.OrphanGrace); groupAlive(p.cmd.Process) && time.Now().Before(end); {
		time.Sleep(orphanPause)
	}
	p.orphan.Store(groupAlive(p.cmd.Process))
	killGroup(p.cmd.Process)
	close(p.exited)
	p.stdin.Close()
	// A program outside the group may still hold the streams.
	p.stdout.SetReadDeadline(time.Now().Add(endGrace))
	stderr.SetReadDeadline(time.Now().Add(endGrace))
	<-read
	stderr.Close()
	close(p.done)
}

// Read reads from standard output. At its end it returns an *ExitError if the
// program has ended, and io.EOF if it only closed its output.
func (p *Process) Read(b []byte) (int, error) {
	for {
		exited := p.Exited()
		if exited { // its output is in the pipe; a process outside the group may add to it
			p.stdout.SetReadDeadline(time.Now().Add(endGrace))
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

// ending returns the exit error of the program, or err if it does not end soon.
func (p *Process) ending(err error) error {
	if within(p.done, endGrace) {
		return p.exitError()
	}
	return err
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

// HadOrphans reports whether the program has ended and left a process in its group,
// which was killed. It is false where there are no process groups.
func (p *Process) HadOrphans() bool { return p.orphan.Load() }

// Pid returns the id of the process, which is also that of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended and its group is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done. It returns an *ExitError unless the exit status is zero.
func (p *Process) Wait() error {
	<-p.done
	if p.cmd.ProcessState.Success() {
		return nil
	}
	return p.exitError()
}

// Stderr returns the end of the program's standard error.
func (p *Process) Stderr() []byte {
	last, _ := p.stderr.Bytes()
	return last
}

// Close ends the program: it closes its standard input, then sends its group
// SIGTERM, then kills the group, and waits after each step. It returns nil if the
// exit status is zero, and else an *ExitError with the last step. It is safe to call
// more than once.
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
		s.take() // the wait shows whether it worked
		if within(p.done, s.grace) {
			break
		}
	}
	ended := p.Exited() && within(p.done, p.opts.KillGrace)
	p.stdout.Close()
	if !ended {
		return fmt.Errorf("jsonrpc: close: process %d did not end after it was killed", p.Pid())
	}
	return p.Wait()
}
