package comply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/parley-agents/parley/jsonrpc"
)

// Stdio is what an agent in this process has in place of a process of its own.
type Stdio struct {
	In       io.Reader // ends when the agent should
	Out, Err io.Writer
	Env      []string // as of a process; HOME is an empty folder
}

// A program is an agent that runs.
type program interface {
	io.ReadWriter
	CloseInput() error
	Done() <-chan struct{} // closed when it has ended
	Wait() error           // nil if it ended well
	Close() error
}

// start starts the agent with the given variables.
func (a Agent) start(env []string) (program, error) {
	if a.Serve != nil {
		return serveHere(a.Serve, a.environ(env)), nil
	}
	cmd, err := a.command(env)
	if err != nil {
		return nil, err
	}
	return startProcess(cmd)
}

func startProcess(cmd *exec.Cmd) (program, error) {
	p, err := jsonrpc.Start(cmd, &jsonrpc.ProcessOptions{InputGrace: closeGrace, SignalGrace: closeGrace})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// A guest is an agent that is a function of this process.
type guest struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the function; read after done
	close  func() error
}

// serveHere runs a function as an agent.
func serveHere(serve func(context.Context, *Stdio) error, env []string) *guest {
	ctx, cancel := context.WithCancel(context.Background())
	in, writeIn := io.Pipe()
	readOut, out := io.Pipe()
	g := &guest{in: writeIn, out: readOut, cancel: cancel, done: make(chan struct{})}
	g.close = sync.OnceValue(g.shut)
	go func() {
		defer close(g.done)
		g.err = serve(ctx, &Stdio{In: in, Out: out, Err: io.Discard, Env: env})
		in.Close()
		out.Close()
	}()
	return g
}

func (g *guest) Read(b []byte) (int, error)  { return g.out.Read(b) }
func (g *guest) Write(b []byte) (int, error) { return g.in.Write(b) }
func (g *guest) CloseInput() error           { return g.in.Close() }
func (g *guest) Done() <-chan struct{}       { return g.done }

func (g *guest) Wait() error {
	<-g.done
	return g.err
}

func (g *guest) Close() error { return g.close() }

// shut ends the function in steps, as a process is ended.
func (g *guest) shut() error {
	defer g.cancel()
	for _, step := range []func(){
		func() { g.in.Close() },
		g.cancel,
		func() { g.out.CloseWithError(errors.New("nobody reads any more")) },
	} {
		step()
		if g.within(closeGrace) {
			g.out.Close()
			return g.err
		}
	}
	return fmt.Errorf("comply: the agent does not return although its streams are closed")
}

func (g *guest) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.done:
		return true
	case <-timer.C:
		return false
	}
}
