//go:build unix

package jsonrpc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// agentMode is the environment variable that makes the test binary an agent.
const agentMode = "JSONRPC_TEST_AGENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(agentMode); mode != "" {
		agents[mode]()
		return
	}
	os.Exit(m.Run())
}

// agents behave well and badly. The extra file 3 is open as long as one of
// their processes lives, and 4 ends with the test.
var agents = map[string]func(){
	"good": serve,
	"fails": func() {
		readLine()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":"bye"}`)
		fmt.Fprintln(os.Stderr, "loading\nno model configured")
		os.Exit(3)
	},
	"leaves": func() {
		readLine()
	},
	"hangs": func() {
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		hang()
	},
	"ignores": func() {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		hang()
	},
	"mutes": func() {
		os.Stdout.Close()
		io.Copy(io.Discard, os.Stdin)
	},
	"floods": func() {
		for {
			if _, err := fmt.Println(`{"jsonrpc":"2.0","method":"u"}`); err != nil {
				return
			}
		}
	},
	"chats": func() {
		fmt.Println("Welcome!\n\nWhat shall we build today?")
		serve()
	},
	"screams": func() {
		for i := range 100_000 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
	},
	"litters": func() { // leaves a child in its group that holds all its streams
		child(nil)
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		readLine()
		fmt.Println(`{"jsonrpc":"2.0","method":"last words"}`)
	},
	"escapes": func() { // leaves a child in a group of its own that holds all its streams
		child(&syscall.SysProcAttr{Setpgid: true})
		fmt.Println(`{"jsonrpc":"2.0","method":"last words"}`)
	},
	"child": func() {
		signal.Ignore(syscall.SIGTERM)
		hang()
	},
}

func serve() {
	jsonrpc.Open(os.Stdin, os.Stdout, &jsonrpc.Options{
		Request: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) { return r.Params, nil },
	}).Wait()
}

// hang waits for the end of the test.
func hang() { io.Copy(io.Discard, os.NewFile(4, "")) }

func readLine() { bufio.NewReader(os.Stdin).ReadString('\n') }

func child(attr *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), agentMode+"=child")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(3, ""), os.NewFile(4, "")}
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// start starts an agent. The file ends when all its processes have.
func start(t *testing.T, ctx context.Context, mode string, opts *jsonrpc.ProcessOptions) (*jsonrpc.Process, *os.File) {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), agentMode+"="+mode, "GORACE=atexit_sleep_ms=0") // else each takes a second to end
	alive, held := pipe(t)
	ends, end := pipe(t)
	cmd.ExtraFiles = []*os.File{held, ends}
	p, err := jsonrpc.Start(cmd, opts)
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	ends.Close()
	t.Cleanup(func() {
		p.Close()
		end.Close() // and with it what has escaped
		io.Copy(io.Discard, alive)
		alive.Close()
	})
	return p, alive
}

func TestProcess(t *testing.T) {
	t.Run("calls are answered and the end of input ends it", func(t *testing.T) {
		p, alive := start(t, t.Context(), "good", nil)
		c := jsonrpc.Open(p, p, nil)
		for range 10 {
			if got, err := c.Call(t.Context(), "m", []int{1}); err != nil || string(got) != "[1]" {
				t.Errorf("got %s, %v, want [1]", got, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		gone(t, alive)
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	})

	t.Run("the last answer is delivered, then the exit status and the last words", func(t *testing.T) {
		p, _ := start(t, t.Context(), "fails", nil)
		c := jsonrpc.Open(p, p, nil)
		defer c.Close()
		if got, err := c.Call(t.Context(), "m", nil); err != nil || string(got) != `"bye"` {
			t.Errorf("got %s, %v", got, err)
		}
		_, err := c.Call(t.Context(), "m", nil)
		var exit *jsonrpc.ExitError
		if !errors.Is(err, jsonrpc.ErrClosed) || !errors.As(err, &exit) || exit.State.ExitCode() != 3 || exit.Step != jsonrpc.StepNone {
			t.Fatalf("got %v, want the exit status", err)
		}
		if got, want := exit.Error(), `the program ended with exit status 3; the last line of its standard error: "no model configured"`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := p.Wait(); !errors.As(err, &exit) || errors.Is(err, io.EOF) {
			t.Errorf("got %v, want an *ExitError that is not io.EOF", err)
		}
	})

	t.Run("leaving with a call open is an error, leaving itself is not", func(t *testing.T) {
		p, _ := start(t, t.Context(), "leaves", nil)
		c := jsonrpc.Open(p, p, nil)
		_, err := c.Call(t.Context(), "m", nil)
		if want := "m: the connection is closed: the program ended with exit status 0"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if err := errors.Join(c.Wait(), c.Close()); err != nil {
			t.Error(err)
		}
	})

	short := &jsonrpc.ProcessOptions{InputGrace: 1, SignalGrace: time.Minute}
	kill := &jsonrpc.ProcessOptions{InputGrace: 1, SignalGrace: 1, KillGrace: time.Minute}
	for _, c := range []struct {
		name, mode string
		opts       *jsonrpc.ProcessOptions
		step       jsonrpc.Step
		text       string
	}{
		{"one that ignores the end of its input gets a signal", "hangs", short, jsonrpc.StepSignal, "the program was ended by signal: terminated after ignoring the end of its input"},
		{"one that ignores the signal is killed", "ignores", kill, jsonrpc.StepKill, "the program was ended by signal: killed after ignoring the end of its input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, alive := start(t, t.Context(), c.mode, c.opts)
			ready := make(chan struct{})
			conn := jsonrpc.Open(p, p, &jsonrpc.Options{Notification: func(context.Context, *jsonrpc.Conn, jsonrpc.Request) { close(ready) }})
			<-ready
			ctx, cancel := context.WithCancel(t.Context())
			a := call(ctx, conn, "m")
			cancel()
			if got := <-a; !errors.Is(got.err, context.Canceled) {
				t.Errorf("got %v, want %v", got.err, context.Canceled)
			}
			err := conn.Close()
			var exit *jsonrpc.ExitError
			if !errors.As(err, &exit) || exit.Step != c.step || err.Error() != c.text {
				t.Errorf("got %v, want %s", err, c.text)
			}
			gone(t, alive)
		})
	}

	t.Run("one that floods is held up, and ended", func(t *testing.T) {
		p, alive := start(t, t.Context(), "floods", &jsonrpc.ProcessOptions{InputGrace: 1, SignalGrace: time.Minute})
		started := make(chan struct{}, 1)
		c := jsonrpc.Open(p, p, &jsonrpc.Options{Notification: func(ctx context.Context, _ *jsonrpc.Conn, _ jsonrpc.Request) {
			select {
			case started <- struct{}{}:
			default:
			}
			<-ctx.Done()
		}})
		<-started
		c.Close()
		gone(t, alive)
	})

	t.Run("prose is reported and does no harm", func(t *testing.T) {
		p, _ := start(t, t.Context(), "chats", nil)
		var problems problems
		c := jsonrpc.Open(p, p, &jsonrpc.Options{Problem: problems.add})
		if _, err := c.Call(t.Context(), "m", nil); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := problems.codes(); len(got) != 2 || got[0] != jsonrpc.ProblemNotJSON {
			t.Errorf("got %v, want two lines that are no JSON", got)
		}
	})

	t.Run("one that closes its output has ended the connection", func(t *testing.T) {
		p, _ := start(t, t.Context(), "mutes", nil)
		c := jsonrpc.Open(p, p, nil)
		if _, err := c.Call(t.Context(), "m", nil); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("the end of standard error is kept", func(t *testing.T) {
		p, _ := start(t, t.Context(), "screams", &jsonrpc.ProcessOptions{MaxStderr: 100})
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
		got := string(p.Stderr())
		if len(got) != 100 || !strings.HasSuffix(got, "line 99998\nline 99999\n") {
			t.Errorf("got %q, want the last 100 bytes", got)
		}
	})

	t.Run("children go with it, and hold nothing up", func(t *testing.T) {
		p, alive := start(t, t.Context(), "litters", nil)
		r := jsonrpc.NewReader(p, 0)
		r.Next() // it is ready
		io.WriteString(p, "\n")
		if f, err := r.Next(); err != nil || !strings.Contains(string(f.Raw), "last words") {
			t.Errorf("got %s, %v", f.Raw, err)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end", err)
		}
		gone(t, alive)
	})

	t.Run("a child that left the group holds nothing up for long", func(t *testing.T) {
		p, _ := start(t, t.Context(), "escapes", nil)
		r := jsonrpc.NewReader(p, 0)
		if f, err := r.Next(); err != nil || !strings.Contains(string(f.Raw), "last words") {
			t.Errorf("got %s, %v", f.Raw, err)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end", err)
		}
		<-p.Done()
		if _, err := io.WriteString(p, "x"); err == nil {
			t.Error("one that has ended can be written to")
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("the end of the context kills it with its children", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, alive := start(t, ctx, "litters", nil)
		jsonrpc.NewReader(p, 0).Next() // it is ready
		cancel()
		if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("got %v, want it killed", err)
		}
		gone(t, alive)
	})

	t.Run("a process need not be spoken to through a Conn", func(t *testing.T) {
		p, _ := start(t, t.Context(), "good", nil)
		io.WriteString(p, `{"jsonrpc":"2.0",`)
		io.WriteString(p, `"id":7.0,"method":"m","params":[]}`+"\r\n")
		r := jsonrpc.NewReader(p, 0)
		if f, err := r.Next(); err != nil || string(f.Raw) != `{"jsonrpc":"2.0","id":7.0,"result":[]}` || f.Time.IsZero() {
			t.Errorf("got %s, %v", f.Raw, err)
		}
		p.CloseInput()
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// gone waits until no process of the agent is left.
func gone(t *testing.T, alive *os.File) {
	t.Helper()
	if _, err := alive.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v, want the end of all processes", err)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := jsonrpc.Start(exec.Command("/nowhere/agent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Stdin = strings.NewReader("")
	if _, err := jsonrpc.Start(cmd, nil); err == nil {
		t.Error("a command with a standard input of its own was started")
	}
}
