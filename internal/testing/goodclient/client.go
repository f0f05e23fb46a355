package goodclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// object is a JSON object.
type object = map[string]any

// A message is any message of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
}

// A failure is the error of an answer.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (f *failure) Error() string { return fmt.Sprintf("%s (%d)", f.Message, f.Code) }

// Main runs the client with the arguments of a command line and returns its exit code. The
// arguments are flags, the command of the agent, and the prompt.
func Main(args []string, stderr io.Writer) int {
	c := &client{waiting: map[string]chan message{}, terminals: map[string]*terminal{}, ended: make(chan struct{}), idle: make(chan string, 64), stderr: stderr}
	flags := flag.NewFlagSet("goodclient", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.mutant, "mutant", "", "the rule to break")
	flags.StringVar(&c.load, "load", "", "the session to load")
	flags.StringVar(&c.mode, "mode", "", "the mode to set")
	flags.StringVar(&c.option, "option", "", "the option to set")
	flags.StringVar(&c.value, "value", "", "the value of the option")
	flags.StringVar(&c.login, "login", "", "the login method to use")
	flags.IntVar(&c.offer, "protocol", 1, "the version to offer")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() < 2 {
		fmt.Fprintln(stderr, "usage: goodclient [flags] AGENT [ARGUMENT...] PROMPT")
		return 2
	}
	last := flags.NArg() - 1
	if err := c.run(flags.Args()[:last], flags.Arg(last)); err != nil {
		fmt.Fprintln(stderr, "goodclient:", err)
		return 1
	}
	return 0
}

// A client is a running client.
type client struct {
	mutant               string
	load, mode, login    string
	offer                int         // the version to offer
	version              int         // that was agreed
	idle                 chan string // gets the reason when a turn of version 2 ends
	option, value        string
	stderr               io.Writer
	agent                *exec.Cmd
	in                   io.WriteCloser
	ended                chan struct{} // closed when nothing more comes from the agent
	turn                 sync.Once
	mu                   sync.Mutex // guards the rest and writes to the agent
	lastID               int
	waiting              map[string]chan message // requests of the client, by id
	session              string
	cancelled            bool
	cwd                  string
	terminals            map[string]*terminal
	permissions, unknown int
	withdrawn            map[string]bool
}

// breaks reports whether the client is the mutant that breaks a rule.
func (c *client) breaks(rule string) bool { return c.mutant == rule }

// run starts the agent, plays one turn and ends.
func (c *client) run(agent []string, prompt string) error {
	if err := c.start(agent); err != nil {
		return err
	}
	defer c.shut()
	go c.watchSignals()
	if err := c.open(); err != nil {
		return err
	}
	return c.sendPrompt(prompt)
}

// start starts the agent and reads from it.
func (c *client) start(agent []string) (err error) {
	if c.cwd, err = os.Getwd(); err != nil {
		return err
	}
	c.withdrawn = map[string]bool{}
	c.agent = exec.Command(agent[0], agent[1:]...)
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	c.agent.Stdin, c.in = r, w
	out, err := c.agent.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := c.agent.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.agent.Start(); err != nil {
		return err
	}
	r.Close()
	if !c.breaks("CL-PROC-04") {
		go io.Copy(io.Discard, stderr)
	}
	if c.breaks("CL-SHUT-01") {
		keep := exec.Command("sleep", "30")
		keep.ExtraFiles = []*os.File{w}
		if err := keep.Start(); err != nil {
			return err
		}
	}
	go c.read(out)
	return nil
}

// shut ends the agent: its input, then signals.
func (c *client) shut() {
	c.in.Close()
	if c.breaks("CL-SHUT-01") || c.breaks("CL-SHUT-02") {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.agent.Wait()
	}()
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return c.agent.Process.Signal(syscall.SIGTERM) },
		c.agent.Process.Kill,
	} {
		step() // the wait shows whether it worked
		select {
		case <-gone:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// watchSignals cancels the turn at an interrupt, and ends at the signal to end.
func (c *client) watchSignals() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	for s := range signals {
		switch {
		case s == os.Interrupt:
			c.cancel()
		case !c.breaks("CL-PROC-02"):
			c.shut()
			os.Exit(1)
		}
	}
}

// cancel cancels the turn.
func (c *client) cancel() {
	c.mu.Lock()
	c.cancelled = true
	session := c.session
	c.mu.Unlock()
	m := object{"method": "session/cancel", "params": object{"sessionId": session}}
	if c.breaks("CL-CAN-01") {
		m["id"] = 9999
	}
	c.send(m)
	if c.breaks("CL-CAN-02") {
		os.Exit(70)
	}
}

// die ends the client at once, as a crash does.
func (c *client) die() {
	c.agent.Process.Kill()
	os.Exit(70)
}

// hang never returns. The process ends by a signal alone.
func (c *client) hang() { select {} }

// send sends a message to the agent.
func (c *client) send(m object) {
	m["jsonrpc"] = "2.0"
	if c.breaks("CL-RPC-01") {
		delete(m, "jsonrpc")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // messages consist of JSON values
	}
	if c.breaks("CL-TRN-02") {
		var lines bytes.Buffer
		json.Indent(&lines, raw, "", "  ")
		raw = lines.Bytes()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn.Do(func() {
		if c.breaks("CL-TRN-01") {
			io.WriteString(c.in, "hello agent\n")
		}
		if c.breaks("CL-TRN-03") {
			io.WriteString(c.in, "\ufeff")
		}
	})
	c.in.Write(append(raw, '\n')) // an agent that is gone is noticed by the reader
}

// begin sends a request and returns the channel of its answer.
func (c *client) begin(method string, params any) chan message {
	c.mu.Lock()
	c.lastID++
	var id any = c.lastID
	if c.breaks("CL-RPC-02") && method == "session/new" {
		id = []any{c.lastID}
	}
	key, _ := json.Marshal(id) // it is a number or a list
	answer := make(chan message, 4)
	c.waiting[string(key)] = answer
	c.mu.Unlock()
	c.send(object{"id": id, "method": method, "params": params})
	if c.breaks("CL-RPC-03") && method == "session/prompt" {
		c.send(object{"id": id, "method": "_vendor/status"})
		<-answer // of the second request
	}
	return answer
}

// call sends a request and waits for its answer.
func (c *client) call(method string, params any) (object, error) {
	return c.wait(c.begin(method, params))
}

// wait waits for an answer.
func (c *client) wait(answer chan message) (object, error) {
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, m.Error
		}
		result := object{}
		if len(m.Result) > 0 && string(m.Result) != "null" {
			if err := json.Unmarshal(m.Result, &result); err != nil {
				return nil, err
			}
		}
		return result, nil
	case <-c.ended:
		return nil, errors.New("the agent closed the connection")
	}
}

// read reads the messages of the agent.
func (c *client) read(out io.Reader) {
	defer close(c.ended)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if c.breaks("CL-TRN-04") && len(line) > 1<<20 {
			c.die()
		}
		if len(bytes.TrimSpace(line)) > 0 && err == nil {
			c.take(line)
		}
		if err != nil {
			if c.breaks("CL-PROC-01") || c.breaks("CL-PROC-05") {
				c.hang()
			}
			return
		}
	}
}

// take takes one line of the agent.
func (c *client) take(line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		if c.breaks("CL-PROC-03") {
			c.hang()
		}
		return
	}
	switch {
	case m.Method == "" || c.mistaken(m):
		c.deliver(m)
	case m.ID != nil:
		if string(m.ID) == "null" && c.breaks("CL-RPC-12") {
			c.die()
		}
		if m.Method == "session/request_permission" && c.breaks("CL-PERM-07") {
			c.hang() // nothing is read until the user has answered
		}
		if c.breaks("CL-RPC-14") && c.unopened() {
			return
		}
		go c.serve(m)
	default:
		c.notice(m)
	}
}

// unopened reports whether the client has no session yet.
func (c *client) unopened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session == ""
}

// mistaken reports whether a mutant takes a request for an answer.
func (c *client) mistaken(m message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.breaks("CL-RPC-11") && c.waiting[string(m.ID)] != nil
}

// deliver gives an answer to the request that waits for it.
func (c *client) deliver(m message) {
	c.mu.Lock()
	answer := c.waiting[string(m.ID)]
	if !c.breaks("CL-RPC-03") {
		delete(c.waiting, string(m.ID))
	}
	c.mu.Unlock()
	if answer == nil {
		if c.breaks("CL-RPC-09") {
			c.die()
		}
		return
	}
	answer <- m
}
