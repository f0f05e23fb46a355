package comply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/parley-agents/parley/internal/ground/text/tail"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A Stdio has the streams and variables of an agent that runs in this process.
type Stdio struct {
	In       io.Reader // its end asks the agent to return
	Out, Err io.Writer
	Env      []string // NAME=VALUE; HOME is an empty folder
}

// A program is a running agent: a process, or a function of this process. Reading
// returns its output and writing goes to its input. Close ends it, by force if need
// be, and may be called more than once.
type program interface {
	io.ReadWriter
	CloseInput() error
	Done() <-chan struct{} // closed at its end
	Wait() error           // nil if it ended with success
	HadOrphans() bool      // whether a process that it started outlived it
	Stderr() []byte        // the last bytes of standard error
	Terminate() error      // sends SIGTERM
	Close() error
}

// start starts the agent with the given variables.
func (a Agent) start(env []string) (program, error) {
	if a.Serve != nil {
		return startInProcess(a.Serve, a.environ(env)), nil
	}
	cmd, err := a.command(env)
	if err != nil {
		return nil, err
	}
	return startProcess(cmd)
}

// startProcess starts an agent as the leader of a process group.
func startProcess(cmd *exec.Cmd) (program, error) {
	p, err := jsonrpc.Start(cmd, &jsonrpc.ProcessOptions{InputGrace: closeGrace, SignalGrace: closeGrace, OrphanGrace: orphanGrace})
	if err != nil {
		return nil, err
	}
	return childProcess{p}, nil
}

// A childProcess is an agent that is a process.
type childProcess struct{ *jsonrpc.Process }

// Terminate sends SIGTERM to the process, not to its group.
func (c childProcess) Terminate() error {
	p, err := os.FindProcess(c.Pid())
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGTERM)
}

// A inProcess is an agent that is a function of this process.
type inProcess struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	cancel context.CancelFunc
	stderr *tail.Buffer
	done   chan struct{}
	err    error // of the function; read after done
	close  func() error
}

// startInProcess runs a function as an agent.
func startInProcess(serve func(context.Context, *Stdio) error, env []string) *inProcess {
	ctx, cancel := context.WithCancel(context.Background())
	in, writeIn := io.Pipe()
	readOut, out := io.Pipe()
	g := &inProcess{in: writeIn, out: readOut, cancel: cancel, stderr: tail.NewBuffer(64 << 10), done: make(chan struct{})}
	g.close = sync.OnceValue(g.shut)
	// The streams are closed when the function returns, as those of a process are.
	go func() {
		defer close(g.done)
		g.err = serve(ctx, &Stdio{In: in, Out: out, Err: g.stderr, Env: env})
		in.Close()
		out.Close()
	}()
	return g
}

func (g *inProcess) Read(b []byte) (int, error)  { return g.out.Read(b) }
func (g *inProcess) Write(b []byte) (int, error) { return g.in.Write(b) }
func (g *inProcess) CloseInput() error           { return g.in.Close() }
func (g *inProcess) HadOrphans() bool            { return false }
func (g *inProcess) Done() <-chan struct{}       { return g.done }

// Stderr returns the end of the text that the function has written so far.
func (g *inProcess) Stderr() []byte {
	last, _ := g.stderr.Bytes()
	return last
}

// Terminate ends the function's context, as a signal would end a process.
func (g *inProcess) Terminate() error {
	g.cancel()
	return nil
}

// Wait returns the error of the function in place of an exit status.
func (g *inProcess) Wait() error {
	<-g.done
	return g.err
}

func (g *inProcess) Close() error { return g.close() }

// shut ends the function in the steps in which a process is ended: its input, a signal,
// its output.
// A function cannot be killed. One that ignores all three steps is left behind with
// an error, and its goroutine leaks.
func (g *inProcess) shut() error {
	defer g.cancel()
	for _, step := range []func(){
		func() { g.in.Close() },
		g.cancel,
		func() { g.out.CloseWithError(errors.New("the output of the agent is closed")) },
	} {
		step()
		if g.within(closeGrace) {
			g.out.Close()
			return g.err
		}
	}
	return fmt.Errorf("comply: stop the agent: its function did not return after its streams were closed")
}

// within reports whether the function returns in time.
func (g *inProcess) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.done:
		return true
	case <-timer.C:
		return false
	}
}
