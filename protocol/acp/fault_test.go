package acp_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// agents behave badly, each as a process of its own.
var agents = map[string]func(){
	"exits at once": func() {
		fmt.Fprintln(os.Stderr, "starting\nno API key: set MODEL_KEY")
		os.Exit(3)
	},
	"exits in a turn": func() {
		beginAsProcess()
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(1)
	},
	"hangs": func() {
		fmt.Fprintln(os.Stderr, "waiting for the browser")
		for readLine() != "" {
		}
	},
	"writes prose": func() {
		fmt.Println("Welcome to Agent 3000!\nType your request:")
		for readLine() != "" {
		}
	},
	"writes prose and exits": func() {
		fmt.Println("usage: agent [--acp]")
		os.Exit(2)
	},
	"floods with prose": func() {
		line := strings.Repeat("x", 1000) + "\n"
		for {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return
			}
		}
	},
	"floods with updates": func() {
		beginAsProcess()
		line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 10_000) + `"}}}}` + "\n"
		for {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return
			}
		}
	},
	"floods with permissions": func() {
		beginAsProcess()
		for i := range 300 {
			fmt.Printf(`{"jsonrpc":"2.0","id":"p%d","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}`+"\n", i)
		}
		answered, refused := 0, 0
		for answered+refused < 300 {
			switch line := readLine(); {
			case strings.Contains(line, `"error"`):
				refused++
			case strings.Contains(line, `"result"`):
				answered++
			}
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","_meta":{"answered":%d,"refused":%d}}}`+"\n", answered, refused)
		for readLine() != "" {
		}
	},
	"talks between": func() {
		fmt.Println("loading the model")
		beginAsProcess()
		fmt.Println("thinking hard")
		fmt.Println(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","title":"no id"}}}`)
		fmt.Println(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`)
		for readLine() != "" {
		}
	},
}

var stdin = bufio.NewReader(os.Stdin)

func readLine() string {
	line, _ := stdin.ReadString('\n')
	return line
}

// beginAsProcess answers initialize and session/new, and reads the prompt.
func beginAsProcess() {
	readLine()
	fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`)
	readLine()
	fmt.Println(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}`)
	readLine()
}

// wantFault checks that err is a Fault with the code, and that its text has all
// parts.
func wantFault(t *testing.T, err error, code acp.FaultCode, parts ...string) {
	t.Helper()
	var fault *acp.Fault
	if !errors.As(err, &fault) || fault.Code != code {
		t.Fatalf("got %v, want a fault with the code %s", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want it to contain %q", err, part)
		}
	}
}

// soon ends processes that do not end by themselves.
var soon = jsonrpc.ProcessOptions{InputGrace: 100 * time.Millisecond, SignalGrace: 100 * time.Millisecond}

func TestBadStart(t *testing.T) {
	for _, test := range []struct {
		mode    string
		timeout time.Duration
		code    acp.FaultCode
		parts   []string
	}{
		{"exits at once", waitTime, acp.FaultExit, []string{"the agent has ended", "exit status 3", "no API key: set MODEL_KEY"}},
		{"writes prose and exits", waitTime, acp.FaultExit, []string{"usage: agent [--acp]", "exit status 2"}},
		{"hangs", time.Second, acp.FaultSilent, []string{"does not answer", "waiting for the browser"}},
		{"writes prose", time.Second, acp.FaultProse, []string{"Welcome to Agent 3000!", "needs a flag"}},
		{"floods with prose", time.Second, acp.FaultProse, []string{"xxxx"}},
	} {
		t.Run("an agent that "+test.mode, func(t *testing.T) {
			t.Parallel()
			_, err := acp.Start(within(t), self(t, test.mode), &acp.Options{StartTimeout: test.timeout, Process: soon})
			wantFault(t, err, test.code, test.parts...)
		})
	}
	t.Run("a command that does not exist", func(t *testing.T) {
		cmd := self(t, "hangs")
		cmd.Path += "-not-there"
		if _, err := acp.Start(within(t), cmd, nil); err == nil || !strings.Contains(err.Error(), "start the agent") {
			t.Errorf("got %v, want that it cannot be started", err)
		}
	})
}

func TestBadTurn(t *testing.T) {
	start := func(t *testing.T, mode string, opts acp.Options) (*acp.Client, *acp.Session) {
		t.Helper()
		opts.Process = soon
		c, err := acp.Start(within(t), self(t, mode), &opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, open(t, c)
	}
	t.Run("an agent that exits in a turn", func(t *testing.T) {
		_, s := start(t, "exits in a turn", acp.Options{})
		_, err := prompt(t, s, "go").Wait()
		wantFault(t, err, acp.FaultExit, "session/prompt", "exit status 1", "out of memory")
	})
	t.Run("an agent that exits in a turn of version 2", func(t *testing.T) {
		c := played(t, &acp.Options{V2: true}, func(s *script) {
			s.beginV2()
			s.answer(s.next(), `{"messageId":"m1"}`)
			s.leave()
		})
		_, err := prompt(t, open(t, c), "go").Wait()
		wantFault(t, err, acp.FaultExit, "the agent has ended")
	})
	t.Run("an agent that floods with updates has to wait", func(t *testing.T) {
		c, s := start(t, "floods with updates", acp.Options{CancelGrace: time.Second})
		turn := prompt(t, s, "go")
		taken := 0
		for range turn.Updates() {
			if taken++; taken == 2000 { // 20 MB, more than is ever kept
				break
			}
		}
		s.Cancel(within(t))
		_, err := turn.Wait()
		wantFault(t, err, acp.FaultSilent)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("an agent that floods while a call waits behind its updates fails the turn", func(t *testing.T) {
		c, s := start(t, "floods with updates", acp.Options{})
		turn, err := s.Prompt(t.Context(), acp.Text("go")) // 64 MiB take their time on a busy machine
		if err != nil {
			t.Fatal(err)
		}
		for range turn.Updates() {
			called := make(chan struct{})
			go func() { defer close(called); c.Call(within(t), "_ping", nil) }()
			<-turn.Done()
			c.Close()
			<-called
		}
		_, err = turn.Wait()
		wantFault(t, err, acp.FaultFlood, "faster than they are read")
	})
	t.Run("an agent that floods with requests has some refused", func(t *testing.T) {
		_, s := start(t, "floods with permissions", acp.Options{})
		r, err := prompt(t, s, "go").Wait()
		if err != nil || !r.StopReason.Success() {
			t.Errorf("got %v, %v; want that all were answered", r.StopReason, err)
		}
	})
	t.Run("prose and malformed updates are reported and survived", func(t *testing.T) {
		problems := make(chan error, 10)
		_, s := start(t, "talks between", acp.Options{OnProblem: func(err error) { problems <- err }})
		text, r, err := prompt(t, s, "go").Text()
		if err != nil || text != "hello" || !r.StopReason.Success() {
			t.Errorf("got %q, %v, %v; want hello", text, r.StopReason, err)
		}
		for _, want := range []string{"loading the model", "thinking hard", "toolCallId"} {
			if got := (<-problems).Error(); !strings.Contains(got, want) {
				t.Errorf("got the problem %q, want it to contain %q", got, want)
			}
		}
	})
	t.Run("an answer that cannot be read is a fault", func(t *testing.T) {
		c := played(t, nil, func(s *script) {
			s.answer(s.next(), `{"protocolVersion":1}`)
			s.answer(s.next(), `{"sessionID":"s1"}`)
		})
		_, err := c.NewSession(within(t), t.TempDir(), nil)
		wantFault(t, err, acp.FaultMalformed, "session/new", "sessionId")
	})
}
