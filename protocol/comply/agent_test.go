package comply_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/fixture"
)

// asAgent makes the test binary an agent. Its value names the flaw of the agent,
// "none" for a polite one.
const asAgent = "COMPLY_TEST_AGENT"

// countFile names a file to which the agent appends a line for each initialize.
const countFile = "COMPLY_TEST_COUNT"

func TestMain(m *testing.M) {
	if flaw := os.Getenv(asAgent); flaw != "" {
		newFakeAgent(flaw).serve()
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "comply" && os.Args[2] == "mcp-server" { // also a child of the good agent
		serveFixture(os.Args[3:])
		return
	}
	if id, ok := os.LookupEnv(asGoodAgent); ok {
		os.Exit(serveGoodAgent(id))
	}
	if flag.Parse(); flag.Lookup("test.fuzz").Value.String() == "" {
		flag.Set("test.parallel", "24") // tests wait for agents, mostly
	}
	os.Exit(m.Run())
}

// serveFixture makes the test binary the MCP server that tests give to agents.
func serveFixture(args []string) {
	flags := flag.NewFlagSet("mcp-server", flag.ExitOnError)
	fault := flags.String("fault", "", "")
	flags.String("note", "", "")
	record := flags.String("record", "", "")
	flags.Parse(args) // exits when it fails
	if fixture.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, fixture.Fault(*fault), *record) != nil {
		os.Exit(1)
	}
}

// agent returns the test binary as an agent with a flaw.
func agent(t *testing.T, flaw string) comply.Agent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return comply.Agent{Name: flaw, Command: self, Env: map[string]string{asAgent: flaw, "GORACE": "atexit_sleep_ms=0"}}
}

// A fakeAgent does what its prompts say:
//
//	call METHOD PARAMS   asks the client, and reports the whole response
//	terminal PARAMS      makes a terminal and uses it up to its release, and after it
//	linger METHOD        asks the client, and waits until it is cancelled
//	notify N             sends N chunks of text
//	later                sends a chunk soon after the turn has ended
//	slow                 waits until it is cancelled
//	never                never ends the turn
//	raw TEXT             writes a line as it is
//	exit N               ends the program
//	child                starts a process that never ends, and reports its number
//	env                  reports its environment
//	where                reports its working folder
//	link TARGET NAME     makes a symbolic link
//	escape               starts a process in a session of its own that keeps the streams open
//	deep N               writes a message with N objects in each other
//	ask N                makes N requests and reads no answer
//	garbage              writes bytes that mean nothing
//	complain N           writes N MiB to standard error
//
// What is anything else makes it read greeting.txt through the client, if it
// may, or wait to be cancelled if it starts with Think or Count.
type fakeAgent struct {
	flaw string
	out  sync.Mutex

	mu      sync.Mutex
	caps    map[string]any
	cwd     string
	waiting map[string]chan json.RawMessage
	turns   map[string]chan struct{}
	next    int
}

func newFakeAgent(flaw string) *fakeAgent {
	return &fakeAgent{flaw: flaw, waiting: map[string]chan json.RawMessage{}, turns: map[string]chan struct{}{}}
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (a *fakeAgent) serve() {
	switch a.flaw {
	case "banner":
		a.line("Welcome to the agent!")
	case "huge":
		a.line(`{"jsonrpc":"2.0","method":"x","params":{"text":"` + strings.Repeat("x", 33<<20) + `"}}`)
	case "flood":
		lines := strings.Repeat(`{"jsonrpc":"2.0","method":"x"}`+"\n", 1000)
		for range 40 {
			os.Stdout.WriteString(lines)
		}
	case "deaf":
		<-time.After(time.Hour)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		raw, err := in.ReadBytes('\n')
		if err == io.EOF {
			if a.flaw == "stays" {
				<-time.After(time.Hour)
			}
			os.Exit(0)
		}
		if err != nil {
			os.Exit(1)
		}
		var m message
		if json.Unmarshal(raw, &m) != nil {
			a.line(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}`)
			continue
		}
		a.take(m, raw)
	}
}

func (a *fakeAgent) take(m message, raw []byte) {
	switch {
	case m.Method == "":
		a.mu.Lock()
		if c := a.waiting[string(m.ID)]; c != nil {
			c <- json.RawMessage(raw)
		}
		a.mu.Unlock()
	case m.ID == nil:
		a.notified(m)
	case m.Method == "session/prompt":
		a.prompt(m)
	default:
		a.answer(m.ID, a.asked(m))
	}
}

func (a *fakeAgent) line(s string) {
	a.out.Lock()
	defer a.out.Unlock()
	os.Stdout.WriteString(s + "\n")
}

func (a *fakeAgent) answer(id json.RawMessage, result any) {
	if a.flaw == "string-ids" {
		id, _ = json.Marshal(string(id))
	}
	part := "result"
	if e, ok := result.(failure); ok {
		part, result = "error", map[string]any{"code": int(e), "message": "no"}
	}
	body, _ := json.Marshal(result)
	s := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"%s":%s}`, id, part, body)
	a.line(s)
	if a.flaw == "twice" {
		a.line(s)
	}
}

type failure int

func (a *fakeAgent) asked(m message) any {
	var p struct {
		Caps    map[string]any  `json:"clientCapabilities"`
		Version json.RawMessage `json:"protocolVersion"`
		Cwd     string          `json:"cwd"`
	}
	json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "initialize":
		return a.initialize(p.Version, p.Caps, m)
	case "session/new":
		return a.newSession(p.Cwd, m)
	case "test/echo":
		return m.Params
	case "test/fail":
		return failure(-32000)
	}
	if a.flaw == "unknown-ok" {
		return map[string]any{}
	}
	return failure(-32601)
}

func (a *fakeAgent) initialize(version json.RawMessage, caps map[string]any, m message) any {
	if path := os.Getenv(countFile); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			f.WriteString("initialize\n")
			f.Close()
		}
	}
	switch a.flaw {
	case "crash":
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(3)
	case "hang":
		<-time.After(time.Hour)
	case "wrong-version":
		version = json.RawMessage("7")
	}
	a.mu.Lock()
	a.caps = caps
	a.mu.Unlock()
	if string(version) == "2" {
		return map[string]any{"protocolVersion": version, "capabilities": map[string]any{"session": map[string]any{}}, "info": map[string]any{"name": "fake", "version": "1"}}
	}
	return map[string]any{
		"protocolVersion": version,
		"agentCapabilities": map[string]any{
			"loadSession": false, "mcpCapabilities": map[string]any{"http": true}, "sessionCapabilities": map[string]any{"list": map[string]any{}},
		},
		"agentInfo": map[string]any{"name": "fake", "version": "1"},
		"_meta":     map[string]any{"params": m.Params},
	}
}

func (a *fakeAgent) newSession(cwd string, m message) any {
	a.mu.Lock()
	a.cwd = cwd
	a.next++
	id := "s." + strconv.Itoa(a.next)
	a.mu.Unlock()
	switch a.flaw {
	case "no-session-id":
		return map[string]any{}
	case "same-session-id":
		id = "s.1"
	case "no-session":
		return failure(-32000)
	}
	a.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"plan","description":"x"}]}}}`, id))
	return map[string]any{
		"sessionId": id,
		"modes":     map[string]any{"currentModeId": "ask", "availableModes": []any{map[string]any{"id": "ask", "name": "Ask"}, map[string]any{"id": "code", "name": "Code"}}},
		"_meta":     map[string]any{"params": m.Params},
	}
}

func (a *fakeAgent) notified(m message) {
	var p struct {
		SessionID string `json:"sessionId"`
	}
	json.Unmarshal(m.Params, &p)
	if m.Method == "session/cancel" {
		a.mu.Lock()
		if c := a.turns[p.SessionID]; c != nil {
			close(c)
			delete(a.turns, p.SessionID)
		}
		a.mu.Unlock()
	}
}

// call asks the client and returns the whole response.
func (a *fakeAgent) call(method, params string) json.RawMessage {
	c := make(chan json.RawMessage, 1)
	a.mu.Lock()
	a.next++
	id := strconv.Itoa(a.next)
	a.waiting[id] = c
	a.mu.Unlock()
	a.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return <-c
}

func (a *fakeAgent) say(session, text string) {
	body, _ := json.Marshal(text)
	a.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}`, session, body))
}

func (a *fakeAgent) prompt(m message) {
	var p struct {
		SessionID string `json:"sessionId"`
		Prompt    []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	}
	json.Unmarshal(m.Params, &p)
	cancelled := make(chan struct{})
	a.mu.Lock()
	a.turns[p.SessionID] = cancelled
	a.mu.Unlock()
	text := ""
	if len(p.Prompt) > 0 {
		text = p.Prompt[0].Text
	}
	go func() { a.answer(m.ID, a.turn(p.SessionID, text, cancelled)) }()
}

func (a *fakeAgent) turn(session, text string, cancelled chan struct{}) any {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "call":
		method, params, _ := strings.Cut(rest, " ")
		a.say(session, string(a.call(method, params)))
	case "terminal":
		var created struct {
			Result struct {
				ID string `json:"terminalId"`
			} `json:"result"`
		}
		json.Unmarshal(a.call("terminal/create", rest), &created)
		for _, method := range []string{"wait_for_exit", "output", "kill", "release", "output"} {
			a.say(session, string(a.call("terminal/"+method, fmt.Sprintf(`{"sessionId":%q,"terminalId":%q}`, session, created.Result.ID))))
		}
	case "notify":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			a.say(session, fmt.Sprintf("chunk %d", i+1))
		}
	case "later":
		defer time.AfterFunc(10*time.Millisecond, func() { a.say(session, "late") })
	case "raw":
		a.line(rest)
	case "exit":
		code, _ := strconv.Atoi(rest)
		os.Exit(code)
	case "never":
		<-time.After(time.Hour)
	case "child":
		cmd := exec.Command("sleep", "1000")
		cmd.Start()
		a.say(session, strconv.Itoa(cmd.Process.Pid))
	case "link":
		target, name, _ := strings.Cut(rest, " ")
		if err := os.Symlink(target, name); err != nil {
			a.say(session, err.Error())
		}
	case "escape":
		cmd := exec.Command("setsid", "sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Start()
		a.say(session, strconv.Itoa(cmd.Process.Pid))
	case "deep":
		n, _ := strconv.Atoi(rest)
		a.line(`{"jsonrpc":"2.0","method":"_deep","params":{"_meta":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + `}}`)
	case "ask":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			a.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask-%d","method":"terminal/create","params":{"sessionId":%q,"command":"sleep","args":["1000"]}}`, i, session))
		}
	case "garbage":
		for i := range 256 {
			a.line(strings.Repeat(string([]byte{byte(i), 0, '{', '"', byte(255 - i)}), 50))
		}
	case "complain":
		n, _ := strconv.Atoi(rest)
		for range n {
			os.Stderr.WriteString(strings.Repeat("no!\n", 1<<18))
		}
	case "env":
		a.say(session, strings.Join(os.Environ(), "\n"))
	case "where":
		dir, _ := os.Getwd()
		a.say(session, dir)
	case "linger", "slow", "Think", "Count":
		if word == "linger" {
			a.call(rest, "{}")
		}
		<-cancelled
		switch a.flaw {
		case "no-cancel":
			return map[string]any{"stopReason": "end_turn"}
		case "cancel-error":
			return failure(-32603)
		}
		return map[string]any{"stopReason": "cancelled"}
	default:
		a.work(session)
	}
	return map[string]any{"stopReason": "end_turn"}
}

// work uses what the client offers, or all of it with a flaw.
func (a *fakeAgent) work(session string) {
	a.mu.Lock()
	files, _ := a.caps["fs"].(map[string]any)
	terminal, _ := a.caps["terminal"].(bool)
	path, _ := json.Marshal(a.cwd + "/greeting.txt")
	a.mu.Unlock()
	if read, _ := files["readTextFile"].(bool); read || a.flaw == "ignores-caps" {
		a.call("fs/read_text_file", fmt.Sprintf(`{"sessionId":%q,"path":%s}`, session, path))
	}
	if terminal || a.flaw == "ignores-caps" {
		var created struct {
			Result struct {
				ID string `json:"terminalId"`
			} `json:"result"`
		}
		json.Unmarshal(a.call("terminal/create", fmt.Sprintf(`{"sessionId":%q,"command":"echo","args":["hello"]}`, session)), &created)
		if id := created.Result.ID; id != "" {
			a.call("terminal/release", fmt.Sprintf(`{"sessionId":%q,"terminalId":%q}`, session, id))
		}
	}
}
