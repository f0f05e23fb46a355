package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// asAgent in the environment makes the test binary be an agent, before it can be
// anything else.
const asAgent = "PARLEY_TEST_AS_AGENT"

func init() {
	mode := os.Getenv(asAgent)
	if mode == "" {
		return
	}
	noCredits := func() error {
		fmt.Fprintln(os.Stderr, "reading settings\n\x1b[31mno credits\x1b[0m for sk-0123456789abcdefghij\ngiving up")
		return &jsonrpc.Error{Code: -32603, Message: "Internal error", Data: json.RawMessage(`{"details":"the account has no credits"}`)}
	}
	agent := &acp.Agent{
		Name: "tester", Version: "1.2.3", V2: true, Prompt: testAgent,
		Capabilities: []acp.Capability{acp.CanImage},
		Authenticate: func(_ context.Context, method string) error { mode = "good"; return nil },
		AuthMethods:  []acpv2.AuthMethod{{Agent: &acpv2.AuthMethodAgent{MethodID: "key", Name: "API key"}}},
		NewSession: func(context.Context, *acp.AgentSession) error {
			switch mode {
			case "locked":
				return authRequired
			case "refusing":
				return noCredits()
			}
			return nil
		},
	}
	switch mode {
	case "ahead":
		aheadAgent()
	case "novel":
		novelAgent()
	case "failing": // opens a session, and fails in each turn
		agent.Prompt = func(context.Context, *acp.AgentTurn) (acp.StopReason, error) { return "", noCredits() }
	case "broken":
		fmt.Fprintln(os.Stderr, "no model")
		os.Exit(7)
	case "stubborn": // tells that it works, and never stops
		agent.Prompt = func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			if err := t.Say(ctx, "working\n"); err != nil {
				return "", err
			}
			<-ctx.Done()
			if err := t.Say(context.WithoutCancel(ctx), "no\n"); err != nil {
				return "", err
			}
			select {}
		}
	}
	if err := acp.Serve(context.Background(), agent, os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func testAgent(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
	switch t.Text() {
	case "wait":
		err := t.Say(ctx, "working\n")
		<-ctx.Done()
		return acpv2.StopReasonEndTurn, err
	case "env":
		return acpv2.StopReasonEndTurn, t.Say(ctx, "key "+os.Getenv("PARLEY_KEY")+", path "+strconv.FormatBool(os.Getenv("PATH") != ""))
	case "refuse":
		return acpv2.StopReasonRefusal, nil
	case "write":
		files := t.Files()
		if files == nil {
			return acpv2.StopReasonRefusal, t.Say(ctx, "no files")
		}
		return acpv2.StopReasonEndTurn, files.Write(ctx, t.Dir+"/out.txt", "written")
	}
	return acpv2.StopReasonEndTurn, errors.Join(
		t.Think(ctx, "hmm"),
		t.ToolCall(ctx, acpv2.ToolCallUpdate{ToolCallID: "c", Title: acpv2.Set("Look around"), Status: acpv2.Set(acpv2.ToolCallStatusCompleted)}),
		t.Say(ctx, "you said "), t.Say(ctx, "\x1b[2J"+t.Text()),
	)
}

// novelAgent is an agent of a later version of the protocol: it sends values that this
// one does not know, and says how the client answered.
func novelAgent() {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	update := func(u string) {
		say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}`, u)
	}
	prompt := ""
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Result struct{ Outcome json.RawMessage }
			Params struct{ Prompt []struct{ Text string } }
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			os.Exit(1)
		}
		switch {
		case m.Method == "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"authMethods":[{"id":"m","name":"n","type":"retina"}]}}`, m.ID)
		case m.Method == "session/new":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s"}}`, m.ID)
		case m.Method == "session/prompt" && m.Params.Prompt[0].Text == "fail":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-31999,"message":"the moon is full","data":{"phase":"full"}}}`, m.ID)
		case m.Method == "session/prompt" && m.Params.Prompt[0].Text == "stop":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"vacation"}}`, m.ID)
		case m.Method == "session/prompt":
			prompt = string(m.ID)
			update(`{"sessionUpdate":"hologram","light":1}`)
			update(`{"sessionUpdate":"tool_call","toolCallId":"c","title":"Look around","kind":"other","status":"levitating"}`)
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"scent","smell":"rose"}}`)
			say(`{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"Look around"},"options":[{"optionId":"o","name":"n","kind":"allow_everywhere"}]}}`)
		case string(m.ID) == "9":
			said, _ := json.Marshal("the client answered " + string(m.Result.Outcome))
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(said) + `}}`)
			say(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, prompt)
		}
	}
	os.Exit(0)
}

// aheadUpdates are updates of an agent that speaks version 2 alone, with values and kinds that
// version 1 does not have, some of them twice.
var aheadUpdates = []string{
	`{"sessionUpdate":"hologram_update","light":1}`, `{"sessionUpdate":"hologram_update","light":2}`, `{"sessionUpdate":"scent_update"}`,
	`{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"a","priority":"urgent","status":"skipped"},{"content":"b","priority":"urgent","status":"pending"}]}}`,
	`{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"t","annotations":{"audience":["robots"]}}}`,
	`{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Look","kind":"knit","status":"levitating"}`,
}

// aheadAgent is an agent that speaks version 2 alone and sends aheadUpdates in each turn.
func aheadAgent() {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	update := func(u string) {
		say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}`, u)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			os.Exit(1)
		}
		switch m.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":2,"info":{"name":"ahead","version":"1"},"capabilities":{"session":{"mcp":{"stdio":{}}}}}}`, m.ID)
		case "session/new":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s"}}`, m.ID)
		case "session/prompt":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"messageId":"u"}}`, m.ID)
			for _, u := range aheadUpdates {
				update(u)
			}
			update(`{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
		}
	}
	os.Exit(0)
}

// authRequired is what an agent answers that wants a login first.
var authRequired = &jsonrpc.Error{Code: -32000, Message: "log in first"}

// acpCommandLine returns a call of parley acp with the test binary as the agent.
func acpCommandLine(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range args {
		if args[i] == "AGENT" {
			args[i] = self
		}
	}
	// The command is the parley of this test until it starts the agent: env sets
	// the variable for that one only.
	at := slices.Index(args, self)
	args = slices.Insert(args, at, "env", asAgent+"="+mode)
	return parley(t, nil, append([]string{"acp"}, args...)...)
}

func TestACPExec(t *testing.T) {
	for _, version := range []string{"--v2=false", "--v2=true"} {
		got := do(t, acpCommandLine(t, "good", "exec", version, "--", "AGENT", "hello"))
		if got.code != 0 || got.out != "you said [2Jhello\n" {
			t.Errorf("%s: exit %d, got %q; want what the agent said, without control characters", version, got.code, got.out)
		}
		contains(t, got.err, "hmm", "completed: Look around")
	}
	t.Run("the key of the caller is kept from the agent", func(t *testing.T) {
		cmd := acpCommandLine(t, "good", "exec", "--", "AGENT", "env")
		cmd.Env = append(cmd.Env, "PARLEY_KEY=cacp_sk_live_secret")
		if got := do(t, cmd); got.code != 0 || got.out != "key , path true\n" {
			t.Errorf("exit %d, got %q %s", got.code, got.out, got.err)
		}
	})
	for _, test := range []struct {
		name, mode string
		args       []string
		code       int
		parts      []string
	}{
		{"another end than success is exit code 1", "good", []string{"exec", "--", "AGENT", "refuse"}, exitCheck, []string{"the agent stopped: refusal"}},
		{"an agent that cannot start is told with its last words", "broken", []string{"exec", "--", "AGENT", "x"}, exitDegraded, []string{"exit status 7", "no model"}},
		{"an agent that refuses a session is told with its data, its last words and a hint", "refusing", []string{"exec", "--", "AGENT", "x"}, exitDegraded,
			[]string{"Internal error", "the account has no credits", "its standard error ends with:\n  reading settings\n  [31mno credits[0m for [redacted]\n  giving up", "start it by hand"}},
		{"an agent that fails in its turn is told in the same way", "failing", []string{"exec", "--", "AGENT", "x"}, exitDegraded,
			[]string{"Internal error", "the account has no credits", "its standard error ends with:\n  reading settings\n  [31mno credits[0m for [redacted]\n  giving up", "start it by hand"}},
		{"a login that is needed is named", "locked", []string{"exec", "--", "AGENT", "x"}, exitRefused, []string{"log in first", "--auth METHOD"}},
		{"a login is done", "locked", []string{"exec", "--auth", "key", "--", "AGENT", "x"}, exitDone, nil},
		{"a policy that does not exist is a usage error", "good", []string{"exec", "--policy", "maybe", "--", "AGENT", "x"}, exitUsage, []string{"maybe"}},
		{"nobody can be asked without a terminal", "good", []string{"exec", "--policy", "ask", "--", "AGENT", "x"}, exitUsage, []string{"needs a terminal"}},
		{"a command without a prompt is a usage error", "good", []string{"exec", "--"}, exitUsage, []string{"COMMAND is missing"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var cmd *exec.Cmd
			if slices.Contains(test.args, "AGENT") {
				cmd = acpCommandLine(t, test.mode, test.args...)
			} else {
				cmd = parley(t, nil, append([]string{"acp"}, test.args...)...)
			}
			got := do(t, cmd)
			if got.code != test.code {
				t.Errorf("exit %d, want %d: %s", got.code, test.code, got.err)
			}
			contains(t, got.err, test.parts...)
		})
	}
	t.Run("R2-007 values of a later version are ignored, shown or refused, as the table of fallbacks says", func(t *testing.T) {
		got := do(t, acpCommandLine(t, "novel", "exec", "--policy", "yolo", "--v2=false", "--", "AGENT", "hello"))
		if got.code != 0 {
			t.Errorf("exit %d: %s", got.code, got.err)
		}
		contains(t, got.err, "levitating: Look around")                              // a status is shown, and is not completed
		contains(t, got.out, "scent", `the client answered {"outcome":"cancelled"}`) // content has a placeholder, an option of an unknown kind is no approval
		if strings.Contains(got.out+got.err, "hologram") {
			t.Errorf("an update of an unknown kind was shown: %s%s", got.out, got.err)
		}
		stopped := do(t, acpCommandLine(t, "novel", "exec", "--v2=false", "--", "AGENT", "stop"))
		if stopped.code != exitCheck {
			t.Errorf("an unknown stop reason: exit %d, want %d", stopped.code, exitCheck)
		}
		contains(t, stopped.err, "vacation")
		failed := do(t, acpCommandLine(t, "novel", "exec", "--v2=false", "--", "AGENT", "fail"))
		if failed.code == 0 {
			t.Error("an error with an unknown code was taken for a success")
		}
		contains(t, failed.err, "the moon is full")
	})
	t.Run("the policy decides about files", func(t *testing.T) {
		for policy, want := range map[string]int{"read": exitDegraded, "write": exitDone} {
			dir := t.TempDir()
			got := do(t, acpCommandLine(t, "good", "exec", "--policy", policy, "--dir", dir, "--", "AGENT", "write"))
			_, err := os.Stat(dir + "/out.txt")
			if got.code != want || (err == nil) != (want == exitDone) {
				t.Errorf("%s: exit %d, %v, %s", policy, got.code, err, got.err)
			}
		}
	})
	t.Run("with --json there is every frame and nothing else", func(t *testing.T) {
		got := do(t, acpCommandLine(t, "good", "exec", "--json", "--", "AGENT", "hello"))
		var methods []string
		for line := range strings.Lines(got.out) {
			var l struct {
				Direction string
				Frame     struct{ Method string }
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			methods = append(methods, strings.TrimSpace(l.Direction+" "+l.Frame.Method))
		}
		want := []string{"out initialize", "in", "out session/new", "in", "out session/prompt", "in session/update", "in session/update", "in session/update", "in session/update", "in"}
		if !slices.Equal(methods, want) {
			t.Errorf("got %q\nwant %q", methods, want)
		}
	})
}

func TestACPExecInterrupted(t *testing.T) {
	start := func(t *testing.T, mode string) (*exec.Cmd, *bufio.Reader) {
		t.Helper()
		cmd := acpCommandLine(t, mode, "exec", "--", "AGENT", "wait")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(waitTime, func() { cmd.Process.Kill() })
		t.Cleanup(func() { stop.Stop() })
		return cmd, bufio.NewReader(out)
	}
	line := func(r *bufio.Reader) string { s, _ := r.ReadString('\n'); return s }

	t.Run("once asks the agent to stop", func(t *testing.T) {
		cmd, out := start(t, "good")
		if got := line(out); got != "working\n" {
			t.Fatalf("got %q", got)
		}
		cmd.Process.Signal(syscall.SIGINT)
		for line(out) != "" {
		}
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != exitSignal {
			t.Errorf("exit %d, want %d", got, exitSignal)
		}
	})
	t.Run("twice kills it", func(t *testing.T) {
		cmd, out := start(t, "stubborn")
		if got := line(out); got != "working\n" {
			t.Fatalf("got %q", got)
		}
		cmd.Process.Signal(syscall.SIGINT)
		if got := line(out); got != "no\n" {
			t.Fatalf("got %q", got)
		}
		cmd.Process.Signal(syscall.SIGINT)
		for line(out) != "" {
		}
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != exitSignal {
			t.Errorf("exit %d, want %d", got, exitSignal)
		}
	})
}

func TestACPProxy(t *testing.T) {
	frames := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}
`
	cmd := acpCommandLine(t, "good", "proxy", "--", "AGENT")
	cmd.Stdin = strings.NewReader(frames)
	got := do(t, cmd)
	if got.code != exitDone {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	contains(t, got.out, `"protocolVersion":1`, `"agentInfo":{"name":"tester","version":"1.2.3"}`, `"sessionId":`)
	t.Run("R2-024 the proxy names each loss once, and carries all of it", func(t *testing.T) {
		const prompt = `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}` + "\n"
		in, out := frames, ""
		cmd := acpCommandLine(t, "ahead", "proxy", "--", "AGENT")
		// The second turn begins when the first one is over: a session has one at a time.
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		await := func(part string) {
			t.Helper()
			for lines.Scan() {
				if out += lines.Text() + "\n"; strings.Contains(lines.Text(), part) {
					return
				}
			}
			t.Fatalf("no %s in %s; %s", part, out, stderr.String())
		}
		io.WriteString(stdin, in)
		await(`"id":2`)
		for id := 3; id <= 4; id++ {
			fmt.Fprintf(stdin, prompt, id)
			await(fmt.Sprintf(`"id":%d`, id))
		}
		stdin.Close()
		for lines.Scan() {
		}
		cmd.Wait()

		value := func(raw []byte) (v any) {
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		for _, lost := range []string{"hologram_update", "scent_update", "urgent", "skipped", "robots", "knit", "levitating"} {
			if n := strings.Count(stderr.String(), `"`+lost+`"`); n != 1 {
				t.Errorf("%s is named %d times: %s", lost, n, stderr.String())
			}
		}
		var back, want []any
		for line := range strings.Lines(out) {
			var frame struct {
				Method string
				Params acpv1.SessionNotification
			}
			if json.Unmarshal([]byte(line), &frame) != nil || frame.Method != "session/update" {
				continue
			}
			restored, err := acpv2.RestoreUpdate(&frame.Params)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := restored.Update.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, value(raw))
		}
		for _, u := range slices.Concat(aheadUpdates, aheadUpdates) {
			want = append(want, value([]byte(u)))
		}
		if !reflect.DeepEqual(back, want) {
			t.Errorf("came back as %v, want %v", back, want)
		}
		r := do(t, parley(t, nil, "acp", "validate", write(t, "frames.jsonl", out)))
		if strings.Contains(r.out, "/params of session/update") {
			t.Errorf("the updates are not valid in version 1: %s", r.out)
		}
	})
	t.Run("the answers of the proxy are valid in version 1", func(t *testing.T) {
		r := do(t, parley(t, nil, "acp", "validate", write(t, "frames.jsonl", frames+got.out)))
		if r.code != exitDone || r.out != "4 frames, 0 invalid\n" {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("an agent that does not start is an error with its words", func(t *testing.T) {
		cmd := acpCommandLine(t, "broken", "proxy", "--", "AGENT")
		cmd.Stdin = strings.NewReader(frames)
		r := do(t, cmd)
		if r.code == exitDone || !strings.Contains(r.err, "no model") {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
	})
}

func TestACPValidate(t *testing.T) {
	recorded := `{"direction":"out","frame":{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}}
{"direction":"in","text":"hello"}
{"direction":"in","frame":{"jsonrpc":"2.0","id":1,"result":{}}}
`
	cmd := parley(t, nil, "acp", "validate", "--json")
	cmd.Stdin = strings.NewReader(recorded)
	r := do(t, cmd)
	var got struct {
		Frames  int `json:"frames"`
		Invalid []struct {
			File, Error string
			Frame       int
		} `json:"invalid"`
	}
	if strict(t, r.out, &got); r.code != exitCheck || got.Frames != 3 || len(got.Invalid) != 2 || got.Invalid[0].Frame != 2 || !strings.Contains(got.Invalid[1].Error, "/result of session/new") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if r := do(t, parley(t, nil, "acp", "validate", "/does/not/exist")); r.code != exitUsage {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func TestACPInspect(t *testing.T) {
	t.Run("both versions stand side by side", func(t *testing.T) {
		got := do(t, acpCommandLine(t, "good", "inspect", "--", "AGENT"))
		if got.code != 0 {
			t.Fatalf("exit %d: %s", got.code, got.err)
		}
		contains(t, got.out, "offered version           1             2\n", "agreed version            1             2\n", "agent                     tester 1.2.3  tester 1.2.3\n",
			"session/list              -             yes\n", "prompt: image             yes           yes\n", "version 1: log in by key (agent): API key\n")
	})
	t.Run("as JSON", func(t *testing.T) {
		got := do(t, acpCommandLine(t, "good", "inspect", "--json", "--", "AGENT"))
		var result struct{ Answers []acpAnswer }
		if err := json.Unmarshal([]byte(got.out), &result); err != nil || len(result.Answers) != 2 || result.Answers[1].Version != 2 || result.Answers[0].AuthMethods[0].ID != "key" {
			t.Errorf("got %s, %v", got.out, err)
		}
	})
	t.Run("an agent that answers nothing is exit code 1", func(t *testing.T) {
		got := do(t, acpCommandLine(t, "broken", "inspect", "--", "AGENT"))
		if got.code != exitCheck {
			t.Errorf("exit %d, want %d", got.code, exitCheck)
		}
		contains(t, got.out, "none", "no model")
	})
	t.Run("an agent of somebody else", func(t *testing.T) {
		cmd := acptest.TypeScriptDual.Command(t)
		got := do(t, parley(t, nil, append([]string{"acp", "inspect", "--"}, cmd.Args...)...))
		contains(t, got.out, "agreed version            1    2\n", "session/resume            -    yes\n")
	})
}
