package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

// agentMode in the environment makes the test binary be one of the agents.
const agentMode = "PARLEY_TEST_ACP_AGENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(agentMode); mode != "" {
		agents[mode]()
		return
	}
	os.Exit(m.Run())
}

// waitTime is how long anything that has to happen may take.
var waitTime = patience.For(30 * time.Second)

// within returns a context that ends with the test, or when it takes too long.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	t.Cleanup(cancel)
	return ctx
}

// self returns the command that starts the test binary as an agent.
func self(t testing.TB, mode string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), agentMode+"="+mode, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// connect returns a client that is connected to an agent in this process. Both end
// with the test.
func connect(t testing.TB, agent *acp.Agent, opts *acp.Options) *acp.Client {
	t.Helper()
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- acp.Serve(context.Background(), agent, fromClient, toClient)
		toClient.Close()
	}()
	c, err := acp.Connect(within(t), fromAgent, toAgent, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
	})
	return c
}

// both runs a test in both versions of the protocol.
func both(t *testing.T, f func(t *testing.T, v2 bool)) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("version 2 %v", v2), func(t *testing.T) { f(t, v2) })
	}
}

// open opens a session in a new folder.
func open(t testing.TB, c *acp.Client) *acp.Session {
	t.Helper()
	s, err := c.NewSession(within(t), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// prompt starts a turn.
func prompt(t testing.TB, s *acp.Session, text string) *acp.Turn {
	t.Helper()
	turn, err := s.Prompt(within(t), acp.Text(text))
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// echo is an agent that repeats what it is told, word by word.
func echo(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
	for _, word := range strings.SplitAfter(t.Text(), " ") {
		if err := t.Say(ctx, word); err != nil {
			return "", err
		}
	}
	return acpv2.StopReasonEndTurn, nil
}

// untilCancelled is an agent that works until it is told to stop.
func untilCancelled(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// A script is an agent that is played line by line.
type script struct {
	t     testing.TB
	lines *bufio.Scanner
	out   io.WriteCloser
}

// A frame is a message of the client.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// next returns the next message of the client; its method is "" if the client is
// gone.
func (s *script) next() (f frame) {
	if s.lines.Scan() {
		if err := json.Unmarshal(s.lines.Bytes(), &f); err != nil {
			s.t.Errorf("the client wrote %q: %v", s.lines.Text(), err)
		}
	}
	return f
}

// say writes a line.
func (s *script) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// answer answers a request.
func (s *script) answer(f frame, result string) {
	s.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, f.ID, result)
}

// update sends an update of the session s1.
func (s *script) update(update string) {
	s.say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%s}}`, update)
}

// leave ends the agent's output.
func (s *script) leave() { s.out.Close() }

// begin answers initialize in version 1 and session/new with the session s1.
func (s *script) begin() {
	s.answer(s.next(), `{"protocolVersion":1}`)
	s.answer(s.next(), `{"sessionId":"s1"}`)
}

// beginV2 is begin in version 2.
func (s *script) beginV2() {
	s.answer(s.next(), `{"protocolVersion":2,"info":{"name":"script","version":"1"},"capabilities":{"session":{}}}`)
	s.answer(s.next(), `{"sessionId":"s1"}`)
}

// play connects a client to an agent that is played.
func play(t testing.TB, opts *acp.Options, f func(s *script)) (*acp.Client, error) {
	t.Helper()
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer toClient.Close()
		lines := bufio.NewScanner(fromClient)
		lines.Buffer(nil, 16<<20)
		f(&script{t, lines, toClient})
		io.Copy(io.Discard, fromClient)
	})
	c, err := acp.Connect(within(t), fromAgent, toAgent, opts)
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		toAgent.Close()
		wg.Wait()
	})
	return c, err
}

// played is play for an agent that can be connected to.
func played(t testing.TB, opts *acp.Options, f func(s *script)) *acp.Client {
	t.Helper()
	c, err := play(t, opts, f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
