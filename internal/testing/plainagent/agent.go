// Package plainagent is a second agent that keeps every rule of the Agent Client Protocol. It
// shares no code with package goodagent, which stands on package acp: it reads and
// writes JSON by hand, has no optional capability, gives messages no ids, has other
// names for its tools, and asks for permission between two updates of a tool call. What
// the compliance tests say about both is not about one of them.
//
// Like the good agent it does what directives in its prompts say. Only tests and tools
// import this package.
//
// It is tested by package proof, which runs every compliance test against it.
package plainagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"
)

type object = map[string]any

// The codes of errors.
const (
	parseError     = -32700
	invalidRequest = -32600
	unknownMethod  = -32601
	invalidParams  = -32602
	internalError  = -32603
	notFound       = -32002
	cancelled      = -32800
)

// A failure is an error with a code.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

func fail(code int, format string, args ...any) error {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// An agent is one process of the agent.
type agent struct {
	work sync.WaitGroup // turns

	mu       sync.Mutex // guards the fields below and the output
	out      io.Writer
	ready    bool // initialize was answered
	canRead  bool // the client reads and writes files
	canWrite bool
	sessions map[string]*session
	waiting  map[string]chan object        // answers to own requests, by id
	running  map[string]context.CancelFunc // turns, by the id of their request
	asked    int
}

// A session is an open session.
type session struct {
	id, dir string
	cancel  context.CancelFunc // of the turn; nil if none runs
	known   []string           // what was said and read
	servers []*server
	always  bool // the user has allowed everything
}

// Serve runs the agent until its input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	a := &agent{out: out, sessions: map[string]*session{}, waiting: map[string]chan object{}, running: map[string]context.CancelFunc{}}
	if c, ok := in.(io.Closer); ok {
		defer context.AfterFunc(ctx, func() { c.Close() })() // the end of ctx ends the read
	}
	lines := bufio.NewReader(in)
	var err error
	for err == nil {
		var line []byte
		line, err = lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			a.hear(ctx, line)
		}
	}
	stop()
	a.work.Wait()
	for _, s := range a.sessions {
		s.close()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// hear takes one line of the client.
func (a *agent) hear(ctx context.Context, line []byte) {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  *string         `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}

	if !utf8.Valid(line) || !json.Valid(line) {
		a.answer(json.RawMessage("null"), nil, fail(parseError, "the line is not JSON"))
		return
	}
	if line[0] != '{' || json.Unmarshal(line, &m) != nil || m.Version != "2.0" || (m.Method == nil && m.Result == nil && m.Error == nil) {
		a.answer(json.RawMessage("null"), nil, fail(invalidRequest, "the line is no request"))
		return
	}

	// A frame without a method answers a request of the agent.
	if m.Method == nil {
		a.mu.Lock()
		wait := a.waiting[string(m.ID)]
		delete(a.waiting, string(m.ID))
		a.mu.Unlock()
		if wait != nil {
			var reply object
			json.Unmarshal(line, &reply) // it is an object
			wait <- reply
		}
		return
	}

	if m.ID != nil && string(m.ID) != "null" && m.ID[0] != '"' && strings.ContainsAny(string(m.ID), "{[tf") {
		a.answer(json.RawMessage("null"), nil, fail(invalidRequest, "the id is no text and no number"))
		return
	}

	var params object
	if len(m.Params) > 0 && json.Unmarshal(m.Params, &params) != nil {
		if m.ID != nil {
			a.answer(m.ID, nil, fail(invalidParams, "params must be an object"))
		}
		return
	}

	if m.ID == nil {
		a.notice(*m.Method, params)
		return
	}
	a.request(ctx, m.ID, *m.Method, params)
}

// notice takes a notification. Those that are not known are ignored.
func (a *agent) notice(method string, params object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch method {
	case "session/cancel":
		if s := a.sessions[text(params, "sessionId")]; s != nil && s.cancel != nil {
			s.cancel()
		}
	case "$/cancel_request":
		id, _ := json.Marshal(params["requestId"])
		if cancel := a.running[string(id)]; cancel != nil {
			cancel()
		}
	}
}

// request answers a request, a prompt on a goroutine of its own.
func (a *agent) request(ctx context.Context, id json.RawMessage, method string, params object) {
	switch {
	case method == "initialize":
		result, err := a.initialize(params)
		a.answer(id, result, err)
	case !a.ready && strings.HasPrefix(method, "session/"):
		a.answer(id, nil, fail(invalidRequest, "initialize comes first"))

	case method == "session/new":
		result, err := a.open(ctx, params)
		a.answer(id, result, err)

	case method == "session/prompt":
		s, prompt, err := a.prompt(params)
		if err != nil {
			a.answer(id, nil, err)
			return
		}

		// The turn is registered before it runs, so that a cancellation that follows finds it.
		turnCtx, cancel := context.WithCancel(ctx)
		a.mu.Lock()
		s.cancel, a.running[string(id)] = cancel, cancel
		a.mu.Unlock()

		a.work.Go(func() {
			result, err := (&turn{agent: a, session: s}).run(turnCtx, prompt)
			cancel()
			a.mu.Lock()
			s.cancel = nil
			delete(a.running, string(id))
			a.mu.Unlock()
			if ctx.Err() == nil {
				a.answer(id, result, err)
			}
		})

	default:
		a.answer(id, nil, fail(unknownMethod, "there is no method %s", method))
	}
}

func (a *agent) initialize(params object) (object, error) {
	if version, ok := params["protocolVersion"].(float64); !ok || version < 0 || version != float64(int(version)) {
		return nil, fail(invalidParams, "protocolVersion must be a number")
	}
	caps, ok := params["clientCapabilities"].(object)
	if !ok && params["clientCapabilities"] != nil {
		return nil, fail(invalidParams, "clientCapabilities must be an object")
	}
	files, _ := caps["fs"].(object)
	a.ready = true
	a.canRead = files["readTextFile"] == true
	a.canWrite = files["writeTextFile"] == true
	return object{
		"protocolVersion": 1, "authMethods": []any{},
		"agentInfo":         object{"name": "plainagent", "title": "Plain agent", "version": "0.1.0"},
		"agentCapabilities": object{"loadSession": false, "promptCapabilities": object{}, "mcpCapabilities": object{}},
	}, nil
}

func (a *agent) open(ctx context.Context, params object) (object, error) {
	dir := text(params, "cwd")
	if !filepath.IsAbs(dir) {
		return nil, fail(invalidParams, "cwd must be an absolute path")
	}
	list, ok := params["mcpServers"].([]any)
	if !ok {
		return nil, fail(invalidParams, "mcpServers must be a list")
	}
	a.mu.Lock()
	s := &session{id: fmt.Sprintf("plain-%d", len(a.sessions)+1), dir: dir}
	a.sessions[s.id] = s
	a.mu.Unlock()
	for _, item := range list {
		if config, ok := item.(object); ok && text(config, "command") != "" {
			if server := startServer(ctx, config); server != nil {
				s.servers = append(s.servers, server)
			}
		}
	}
	return object{"sessionId": s.id}, nil
}

// prompt returns the session and the text of a prompt.
func (a *agent) prompt(params object) (*session, string, error) {
	a.mu.Lock()
	s := a.sessions[text(params, "sessionId")]
	busy := s != nil && s.cancel != nil
	a.mu.Unlock()

	blocks, ok := params["prompt"].([]any)
	switch {
	case text(params, "sessionId") == "" || !ok:
		return nil, "", fail(invalidParams, "a prompt has a sessionId and a list of blocks")
	case s == nil:
		return nil, "", fail(notFound, "there is no session %s", text(params, "sessionId"))
	case busy:
		return nil, "", fail(invalidRequest, "the session is busy with another prompt")
	}

	// Text and links are the blocks that every agent takes; this agent takes no others.
	var words []string
	for _, item := range blocks {
		block, _ := item.(object)
		switch text(block, "type") {
		case "text":
			if _, ok := block["text"].(string); !ok {
				return nil, "", fail(invalidParams, "a block of text has no text")
			}
			words = append(words, text(block, "text"))
		case "resource_link":
			if text(block, "uri") == "" {
				return nil, "", fail(invalidParams, "a link has no uri")
			}
			words = append(words, text(block, "name")+" "+text(block, "uri"))
		default:
			return nil, "", fail(invalidParams, "blocks of the type %q are not supported", text(block, "type"))
		}
	}
	return s, strings.Join(words, "\n"), nil
}

// send writes one message.
func (a *agent) send(m object) {
	m["jsonrpc"] = "2.0"
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(m) != nil {
		return // a message is made of JSON
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out.Write(b.Bytes()) // a client that has gone is noticed by the reader
}

// answer answers a request.
func (a *agent) answer(id json.RawMessage, result object, err error) {
	if err == nil {
		a.send(object{"id": id, "result": result})
		return
	}
	f := &failure{internalError, err.Error()}
	errors.As(err, &f)
	a.send(object{"id": id, "error": object{"code": f.code, "message": f.text}})
}

// call asks the client something and waits for the answer.
func (a *agent) call(ctx context.Context, method string, params object) (object, error) {
	reply := make(chan object, 1)
	a.mu.Lock()
	a.asked++
	id := fmt.Sprintf(`"ask-%d"`, a.asked)
	a.waiting[id] = reply
	a.mu.Unlock()
	a.send(object{"id": json.RawMessage(id), "method": method, "params": params})
	select {
	case m := <-reply:
		if e, ok := m["error"].(object); ok {
			return nil, errors.New(text(e, "message"))
		}
		result, _ := m["result"].(object)
		return result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}
