package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// maxRequests is the largest number of requests that are handled at once.
const maxRequests = 128

// A Client is a connection to an agent. It is safe for concurrent use. It lives
// until Close, even if the agent ends earlier: calls then fail with [FaultExit].
type Client struct {
	opts    Options
	conn    *jsonrpc.Conn
	process *jsonrpc.Process // nil for Connect
	profile Profile          // set by initialize, before Start or Connect returns
	version atomic.Int32     // of the protocol; 0 until initialize is answered
	// backlog bounds the updates that wait in the queues of all turns.
	backlog *backlog
	// closing is set once, by Close. It tells the end of a closed connection from
	// the end of an agent that exited by itself.
	closing atomic.Bool
	work    sync.WaitGroup // goroutines of turns

	// mu comes before Session.mu in the lock order, and no lock of a Turn is held
	// when either is taken.
	mu       sync.Mutex // guards the fields below
	sessions map[SessionID]*Session
	opening  int       // calls in flight whose answer names a new session
	early    []*Update // updates of sessions that no answer has named yet
	problems []error
}

// maxEarly is the largest number of early updates that are kept.
// An agent that sends more before it answers session/new loses the rest, each with
// a report as an update of an unknown session.
const maxEarly = 256

// Start starts an agent and agrees with it on a version. The command must have
// been neither started nor given standard streams; if it was made with a context,
// the end of that kills the agent. ctx limits the start only. opts may be nil. The
// caller must close the Client.
// The agent gets a process group of its own, and Close ends the whole group in the
// steps of [jsonrpc.ProcessOptions]. The error of a failed start is a [StartError]
// with the end of the agent's standard error.
func Start(ctx context.Context, cmd *exec.Cmd, opts *Options) (*Client, error) {
	c := newClient(opts)
	process, err := jsonrpc.Start(cmd, &c.opts.Process)
	if err != nil {
		return nil, fmt.Errorf("acp: start the agent: %w", err)
	}
	c.process = process
	if _, err := c.open(ctx, process, process); err != nil {
		return nil, &StartError{Err: err, Stderr: process.Stderr()}
	}
	return c, nil
}

// Connect agrees on a version with a running agent that writes to r and reads from
// w. Close closes them if they are an io.Closer.
func Connect(ctx context.Context, r io.Reader, w io.Writer, opts *Options) (*Client, error) {
	return newClient(opts).open(ctx, r, w)
}

// newClient returns a client with its options filled in.
func newClient(opts *Options) *Client {
	c := &Client{backlog: newBacklog(), sessions: map[SessionID]*Session{}}
	if opts != nil {
		c.opts = *opts
	}
	c.opts.fill()
	return c
}

// open starts to read from the agent and agrees on a version.
func (c *Client) open(ctx context.Context, r io.Reader, w io.Writer) (*Client, error) {
	c.conn = jsonrpc.Open(r, w, &jsonrpc.Options{
		Request:      c.handle,
		Notification: c.notice,
		Problem:      func(p *jsonrpc.Problem) { c.reportProblem(p) },
		Tap:          c.opts.Tap,
		MaxFrame:     c.opts.MaxFrame,
		MaxRequests:  maxRequests,
	})
	if err := c.initialize(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Agent describes the agent.
func (c *Client) Agent() *Profile { return &c.profile }

// Done is closed when nothing more comes from the agent.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// Stderr returns the end of the agent's standard error.
func (c *Client) Stderr() []byte {
	if c.process == nil {
		return nil
	}
	return c.process.Stderr()
}

// Close ends the connection, and the agent if Start started it. Running turns fail.
// It is safe to call more than once.
// The order matters: turns are failed first, so their callers wait for nothing;
// then the connection ends, and with it the handlers of the agent's requests; the
// workspaces are closed last, because those handlers use them.
func (c *Client) Close() error {
	c.closing.Store(true)
	c.mu.Lock()
	sessions := c.sessions
	c.sessions = map[SessionID]*Session{}
	c.mu.Unlock()
	for _, s := range sessions {
		s.end(fmt.Errorf("acp: %w", jsonrpc.ErrClosed))
	}
	err := c.conn.Close()
	var exit *jsonrpc.ExitError
	if errors.As(err, &exit) {
		err = nil // the status of an agent that was ended is not a failure of Close
	}
	c.work.Wait()
	for _, s := range sessions { // after the handlers that use it
		err = errors.Join(err, s.workspace.close())
	}
	return err
}

// Authenticate logs in with one of the agent's login methods.
func (c *Client) Authenticate(ctx context.Context, methodID string) error {
	_, err := c.request(ctx, &acpv2.LoginAuthRequest{MethodID: acpv2.AuthMethodID(methodID)})
	return err
}

// Logout logs out.
func (c *Client) Logout(ctx context.Context) error {
	if !c.profile.Can(CanLogout) {
		return unsupported(CanLogout)
	}
	_, err := c.request(ctx, &acpv2.LogoutAuthRequest{})
	return err
}

// Call makes a request of an extension, whose method must begin with _. The params
// are an object that is encoded with encoding/json.
// The answer is as the agent sent it. A call in flight lifts the lower bound of the
// update queues; see backlog.
func (c *Client) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := extensionMethod(method); err != nil {
		return nil, err
	}
	c.backlog.addCall()
	defer c.backlog.removeCall()
	result, err := c.conn.Call(ctx, method, params)
	if err != nil {
		return nil, c.explain(method, err)
	}
	return result, nil
}

// Notify sends a notification of an extension, whose method must begin with _.
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	if err := extensionMethod(method); err != nil {
		return err
	}
	if err := c.conn.Notify(ctx, method, params); err != nil {
		return c.explain(method, err)
	}
	return nil
}

// extensionMethod refuses a method that belongs to the protocol.
func extensionMethod(method string) error {
	if isExtension(method) {
		return nil
	}
	return fmt.Errorf("acp: %q is not an extension method: use a name that begins with _", method)
}

// isExtension reports whether a method belongs to an implementation, not to the
// protocol.
func isExtension(method string) bool { return strings.HasPrefix(method, "_") }

// unsupported returns the error for a capability that the agent does not have.
func unsupported(what Capability) error {
	return fmt.Errorf("acp: %s: %w", what, ErrUnsupported)
}

// request converts m to the agreed version and makes the call. The answer is in the
// agreed version.
func (c *Client) request(ctx context.Context, m acpv2.Message) (acpv1.Message, error) {
	m, err := c.outgoing(m)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, m)
}

// call makes a call with a message of the agreed version.
func (c *Client) call(ctx context.Context, m acpv1.Message) (acpv1.Message, error) {
	raw, err := m.MarshalJSON()
	if err != nil {
		return nil, err
	}
	c.backlog.addCall()
	defer c.backlog.removeCall()
	answer, err := c.conn.Call(ctx, m.Method(), json.RawMessage(raw))
	if err != nil {
		return nil, c.explain(m.Method(), err)
	}
	return c.readAnswer(m.Method(), answer)
}

// outgoing converts a message if the agent speaks version 1.
// The capabilities of the agent decide what version 1 can express: a prompt with an
// image, for example, fails here if the agent does not take images.
func (c *Client) outgoing(m acpv2.Message) (acpv2.Message, error) {
	if c.profile.Version != 1 {
		return m, nil
	}
	caps := c.profile.V1.AgentCapabilities.Or(acpv1.AgentCapabilities{})
	converted, err := acpv2.ToV1(m, &acpv2.V1Options{Agent: &caps})
	if err != nil {
		return nil, fmt.Errorf("acp: the agent's protocol version 1 cannot express this: %w", err)
	}
	return converted.Message, nil
}

// readAnswer decodes the result of a method.
func (c *Client) readAnswer(method string, raw json.RawMessage) (acpv1.Message, error) {
	lookup := acpv2.LookupMethod
	if c.profile.Version == 1 {
		lookup = acpv1.LookupMethod
	}
	m, ok := lookup(method)
	if !ok || m.Notification() {
		return nil, fmt.Errorf("acp: version %d of the protocol has no method %s", c.profile.Version, method)
	}
	if string(raw) == "null" { // agents send null for a result without members
		raw = json.RawMessage("{}")
	}
	answer := m.NewResult()
	if err := answer.UnmarshalJSON(raw); err != nil {
		return nil, &Fault{Code: FaultMalformed, Text: method + ": cannot read the agent's answer", Err: err}
	}
	return answer, nil
}

// notice handles a notification of the agent.
// It runs on the goroutine that reads from the agent, so that updates keep their
// order. A notification that cannot be read is reported and dropped.
func (c *Client) notice(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
	switch {
	case r.Method == acpv1.MethodSessionUpdate:
		version := int(c.version.Load())
		if version == 0 {
			c.reportProblem(errors.New("acp: the agent sent session/update before answering initialize"))
			return
		}
		u, err := decodeUpdate(version, r.Params)
		if err != nil {
			c.reportProblem(fmt.Errorf("acp: cannot read %s; it was dropped: %w", r.Method, err))
			return
		}
		c.update(u, len(r.Params))
	case r.Method == acpv1.MethodElicitationComplete:
		var m acpv2.CompleteElicitationNotification
		if err := m.UnmarshalJSON(r.Params); err != nil {
			c.reportProblem(fmt.Errorf("acp: cannot read %s: %w", r.Method, err))
		} else if c.opts.ElicitDone != nil {
			c.opts.ElicitDone(string(m.ElicitationID))
		}
	case isExtension(r.Method) && c.opts.ExtensionNotice != nil:
		c.opts.ExtensionNotice(ctx, r.Method, r.Params)
	}
}

// update hands an update to its session. While a session/new is in flight, an
// update of an unknown session is kept until its answer names the session.
// size is the length of the message in bytes, which the queue of the turn counts.
func (c *Client) update(u *Update, size int) {
	c.mu.Lock()
	s := c.sessions[u.SessionID()]
	if s == nil && c.opening > 0 && len(c.early) < maxEarly {
		c.early = append(c.early, u)
		c.mu.Unlock()
		if c.opts.OnUpdate != nil {
			c.opts.OnUpdate(u)
		}
		return
	}
	c.mu.Unlock()
	if s == nil {
		c.reportProblem(fmt.Errorf("acp: the agent sent %s for session %q, which is not open", u.Tag(), u.SessionID()))
		return
	}
	s.update(u, size)
}

// handle answers a request of the agent.
// It runs on a goroutine of its own, at most maxRequests at once.
func (c *Client) handle(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
	version := int(c.version.Load())
	if isExtension(r.Method) {
		if c.opts.Extension == nil {
			return nil, jsonrpc.MethodNotFound(r.Method)
		}
		return c.opts.Extension(ctx, r.Method, r.Params)
	}
	handler, ok := clientMethods[r.Method]
	isRemoved := version != 1 && handler.onlyV1
	if !ok || version == 0 || isRemoved {
		return nil, jsonrpc.MethodNotFound(r.Method)
	}
	return handler.do(c, ctx, version, r.Params)
}

// A clientMethod handles a request of the agent.
// Methods of version 1 alone are files and terminals, which version 2 left to the
// agent.
type clientMethod struct {
	onlyV1 bool
	do     func(c *Client, ctx context.Context, version int, params json.RawMessage) (any, error)
}

// clientMethods holds the handlers of all requests that the protocol lets agents
// make.
var clientMethods = map[string]clientMethod{
	acpv1.MethodSessionRequestPermission: {do: (*Client).permission},
	acpv1.MethodElicitationCreate:        {do: (*Client).elicitation},
	acpv1.MethodFSReadTextFile:           service((*Options).offersRead, (*Session).readFile),
	acpv1.MethodFSWriteTextFile:          service((*Options).offersWrite, (*Session).writeFile),
	acpv1.MethodTerminalCreate:           service((*Options).offersTerminals, (*Session).createTerminal),
	acpv1.MethodTerminalOutput:           service((*Options).offersTerminals, (*Session).terminalOutput),
	acpv1.MethodTerminalWaitForExit:      service((*Options).offersTerminals, (*Session).waitForExit),
	acpv1.MethodTerminalKill:             service((*Options).offersTerminals, (*Session).killTerminal),
	acpv1.MethodTerminalRelease:          service((*Options).offersTerminals, (*Session).releaseTerminal),
}

// invalidParams returns the error that answers params that cannot be decoded.
func invalidParams(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}

// encoded encodes a message as a result.
func encoded(m acpv1.Value) (any, error) {
	raw, err := acpv1.Marshal(m)
	return json.RawMessage(raw), err
}
