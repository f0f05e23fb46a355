package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-agents/parley/hub"
)

const (
	connectTime = 10 * time.Second // for the connection and the handshake
	callTime    = 20 * time.Second // for one request
	defaultTick = 30 * time.Second // between two signs of life, if the gateway does not say
	maxFrame    = 32 << 20         // the gateway sends 25 MiB at most
	maxRetries  = 30               // the longest pause, in first pauses
)

// minProtocol and maxProtocol are the versions of the gateway's protocol that a Client
// speaks.
const minProtocol, maxProtocol = 3, 4

// A Client keeps a connection to a gateway. It is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client  // follows no redirect: a token is for one gateway
	kick chan struct{} // receives when a connection was made by a call
	made chan struct{} // receives after a connection; holds one that nobody took yet
	wg   sync.WaitGroup

	dialing chan struct{} // holds a value while a connection is made

	mu      sync.Mutex // guards the fields below
	link    *link      // nil while there is no connection
	closed  bool
	failure error     // of the last attempt; nil after a success
	retryAt time.Time // no attempt before
	pause   time.Duration
}

// New returns a client of the gateway in o. It connects when it is first used, or when
// Run runs.
func New(o Options) (*Client, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{o: o, http: &http.Client{CheckRedirect: stay}, kick: make(chan struct{}, 1), made: make(chan struct{}, 1), dialing: make(chan struct{}, 1)}, nil
}

// Run keeps the connection until ctx ends. It connects again after each failure, with
// pauses that grow.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil && c.o.Token != "" {
		l, err := c.connect(ctx)
		rest := time.NewTimer(time.Hour)
		var over <-chan struct{}
		if err == nil {
			over = l.done
		} else {
			c.mu.Lock()
			rest.Reset(time.Until(c.retryAt))
			c.mu.Unlock()
		}
		select {
		case <-over:
		case <-rest.C:
		case <-c.kick:
		case <-ctx.Done():
		}
		rest.Stop()
	}
}

// Connected returns a channel that receives after a connection was made. Connections that
// are made before the reader took the last value count as one.
func (c *Client) Connected() <-chan struct{} { return c.made }

// Close ends the connection. Calls after it fail.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.conn.CloseNow()
	}
	c.wg.Wait()
}

// connect returns the connection, which it makes unless there is one. After a failure
// it reports the same failure until the pause is over.
func (c *Client) connect(ctx context.Context) (*link, error) {
	// One caller dials at a time; the others then find its connection or its failure.
	select {
	case c.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.dialing }()

	c.mu.Lock()
	l := c.link
	failure := c.failure
	early := time.Now().Before(c.retryAt)
	c.mu.Unlock()
	switch {
	case l != nil:
		return l, nil
	case failure != nil && early:
		return nil, failure
	}

	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	l, err := c.dial(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.closed {
		l.conn.CloseNow()
		err = errors.New("the client is closed")
	}
	if err != nil {
		c.failed(hub.Errorf(hub.CodeUnreachable, "gateway.connect", "the gateway at %s: %w", c.o.URL, err))
		return nil, c.failure
	}

	c.link = l
	c.failure = nil
	c.pause = 0
	c.o.Log.Info("connected to the gateway", "protocol", l.hello.Protocol, "version", l.hello.Server.Version)

	// The reader lives as long as the connection and records why it ended.
	c.wg.Go(func() {
		select {
		case c.made <- struct{}{}:
		default: // one is there already
		}
		l.cause = l.read()
		defer close(l.done)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.link = nil
		if !c.closed {
			c.failed(hub.Errorf(hub.CodeUnreachable, "gateway", "the connection to the gateway at %s ended: %w", c.o.URL, l.cause))
		}
	})

	select {
	case c.kick <- struct{}{}: // Run watches the new connection
	default:
	}
	return l, nil
}

// awaitTime is how long a transfer that was cut off waits for a new connection.
const awaitTime = 20 * time.Second

// await waits for a connection.
func (c *Client) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := c.connect(ctx); err == nil {
			return
		}
		c.mu.Lock()
		rest := time.NewTimer(time.Until(c.retryAt))
		c.mu.Unlock()
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
		rest.Stop()
	}
}

// failed records a failure and the time of the next attempt. The caller holds mu.
func (c *Client) failed(err error) {
	c.pause = min(max(2*c.pause, c.o.Retry), maxRetries*c.o.Retry)
	wait := c.pause
	var f *Fault
	if errors.As(err, &f) && f.RetryAfter > wait {
		wait = f.RetryAfter
	}
	if c.failure == nil || c.failure.Error() != err.Error() {
		c.o.Log.Warn("no connection to the gateway", "err", err)
	}
	c.failure, c.retryAt = err, time.Now().Add(wait)
}

// A request is a frame of the client. The gateway refuses members that it does not
// know.
type request struct {
	Type   string `json:"type"` // req
	ID     string `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
}

// A frame comes from the gateway: the response to a request, or an event.
type frame struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	Error   *struct {
		Code         string `json:"code"`
		Message      string `json:"message"`
		RetryAfterMs int64  `json:"retryAfterMs"`
		Details      struct {
			Code         string `json:"code"`
			MissingScope string `json:"missingScope"`
			Expected     int    `json:"expectedProtocol"`
		} `json:"details"`
	} `json:"error"`
}

// A Fault is a refusal of the gateway or of a plugin in it.
type Fault struct {
	Method     string
	Code       string // such as INVALID_REQUEST; "" from a plugin that names none
	Reason     string // such as MISSING_SCOPE; may be empty
	Message    string
	RetryAfter time.Duration
}

func (f *Fault) Error() string {
	return f.Method + ": " + strings.TrimPrefix(f.Code+": ", ": ") + f.Message
}

// fault returns the refusal in a response, nil if there is none. A plugin may put its
// text into the payload.
func (f frame) fault(method string) error {
	if f.OK {
		return nil
	}
	out := &Fault{Method: method, Message: "unknown"}
	var plugin struct {
		Error string `json:"error"`
	}
	switch {
	case f.Error != nil:
		out.Code = f.Error.Code
		out.Reason = f.Error.Details.Code
		out.Message = f.Error.Message
		out.RetryAfter = time.Duration(f.Error.RetryAfterMs) * time.Millisecond
	case json.Unmarshal(f.Payload, &plugin) == nil && plugin.Error != "":
		out.Message = plugin.Error
	}
	return out
}

// A hello is the gateway's answer to connect.
type hello struct {
	Protocol int `json:"protocol"`
	Server   struct {
		Version string `json:"version"`
	} `json:"server"`
	Features struct {
		Methods []string `json:"methods"`
	} `json:"features"`
	Snapshot struct {
		SessionDefaults struct {
			DefaultAgent string `json:"defaultAgentId"`
		} `json:"sessionDefaults"`
	} `json:"snapshot"`
	Auth struct {
		Scopes []string `json:"scopes"`
	} `json:"auth"`
	Policy struct {
		TickMs int64 `json:"tickIntervalMs"`
	} `json:"policy"`
}

// grants reports whether the connection has a scope.
func (h hello) grants(scope string) bool {
	return slices.Contains(h.Auth.Scopes, scope) || slices.Contains(h.Auth.Scopes, scopeAdmin)
}

// A link is one connection after its handshake.
type link struct {
	conn  *websocket.Conn
	hello hello
	tick  time.Duration
	done  chan struct{} // closed when the connection is over
	cause error         // why; readable after done

	mu    sync.Mutex // guards the fields below
	last  int
	calls map[string]chan frame // the calls that wait for a response
}

// dial connects, answers the challenge and reads the hello.
func (c *Client) dial(ctx context.Context) (_ *link, err error) {
	conn, resp, err := websocket.Dial(ctx, c.o.URL, &websocket.DialOptions{HTTPClient: c.http})
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	if err != nil {
		return nil, err
	}

	defer func() {
		if err != nil {
			conn.CloseNow()
		}
	}()
	conn.SetReadLimit(maxFrame)

	question, err := readChallenge(ctx, conn)
	if err != nil {
		return nil, err
	}
	const id = "0"
	if err := writeFrame(ctx, conn, request{"req", id, methodConnect, c.hail(question.Nonce, question.At)}); err != nil {
		return nil, err
	}
	l := &link{conn: conn, done: make(chan struct{}), calls: map[string]chan frame{}}
	if l.hello, err = readHello(ctx, conn, id); err != nil {
		return nil, err
	}

	// The gateway may set another interval for its ticks.
	l.tick = defaultTick
	if ms := l.hello.Policy.TickMs; ms > 0 {
		l.tick = time.Duration(ms) * time.Millisecond
	}
	return l, nil
}

// methodConnect is the method of the request that answers the challenge.
const methodConnect = "connect"

// A challenge is the first event of the gateway, which the client signs.
type challenge struct {
	Nonce string `json:"nonce"`
	At    int64  `json:"ts"`
}

// readChallenge waits for the challenge. Other frames are skipped.
func readChallenge(ctx context.Context, conn *websocket.Conn) (out challenge, err error) {
	for {
		f, err := readFrame(ctx, conn)
		if err != nil {
			return out, err
		}
		if f.Event != "connect.challenge" {
			continue
		}
		if err := json.Unmarshal(f.Payload, &out); err != nil || out.Nonce == "" {
			return out, errors.New("its challenge cannot be read")
		}
		return out, nil
	}
}

// readHello waits for the response to the request to connect with an id. Other frames are
// skipped. It refuses a gateway that speaks another protocol.
func readHello(ctx context.Context, conn *websocket.Conn, id string) (out hello, err error) {
	f, err := readFrame(ctx, conn)
	for err == nil && (f.Type != "res" || f.ID != id) {
		f, err = readFrame(ctx, conn)
	}
	if err != nil {
		return out, err
	}

	if err := f.fault(methodConnect); err != nil {
		if f.Error != nil && f.Error.Details.Code == "PROTOCOL_MISMATCH" {
			return out, fmt.Errorf("it speaks protocol %d, and this hub %d to %d: %w", f.Error.Details.Expected, minProtocol, maxProtocol, err)
		}
		return out, err
	}
	if err := json.Unmarshal(f.Payload, &out); err != nil {
		return out, errors.New("its hello cannot be read")
	}
	if p := out.Protocol; p < minProtocol || p > maxProtocol {
		return out, fmt.Errorf("it speaks protocol %d, and this hub %d to %d", p, minProtocol, maxProtocol)
	}
	return out, nil
}

// The identity of the client. The gateway knows a closed list of ids and modes.
const clientID, clientMode, role = "gateway-client", "backend", "operator"

type connectParams struct {
	Min    int `json:"minProtocol"`
	Max    int `json:"maxProtocol"`
	Client struct {
		ID          string `json:"id"`
		DisplayName string `json:"displayName"`
		Version     string `json:"version"`
		Platform    string `json:"platform"`
		Mode        string `json:"mode"`
	} `json:"client"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
	Caps   []string `json:"caps"`
	Auth   struct {
		Token string `json:"token"`
	} `json:"auth"`
	Device struct {
		ID        string `json:"id"`
		PublicKey string `json:"publicKey"`
		Signature string `json:"signature"`
		SignedAt  int64  `json:"signedAt"`
		Nonce     string `json:"nonce"`
	} `json:"device"`
}

// hail returns the parameters of connect. The device is signed always: a gateway of an
// earlier version takes the scopes from a client without one.
func (c *Client) hail(nonce string, at int64) (p connectParams) {
	p.Min = minProtocol
	p.Max = maxProtocol
	p.Role = role
	p.Scopes = c.o.scopes()
	p.Caps = []string{}
	p.Client.ID = clientID
	p.Client.Mode = clientMode
	p.Client.DisplayName = "parley"
	p.Client.Platform = runtime.GOOS
	if p.Client.Version = c.o.Version; p.Client.Version == "" {
		p.Client.Version = "devel"
	}
	p.Auth.Token = c.o.Token
	public := c.o.Device.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	id := hex.EncodeToString(sum[:])
	text := strings.Join([]string{"v2", id, clientID, clientMode, role, strings.Join(p.Scopes, ","), strconv.FormatInt(at, 10), c.o.Token, nonce}, "|")
	encode := base64.RawURLEncoding.EncodeToString
	p.Device.ID = id
	p.Device.PublicKey = encode(public)
	p.Device.Signature = encode(ed25519.Sign(c.o.Device, []byte(text)))
	p.Device.SignedAt, p.Device.Nonce = at, nonce
	return p
}

func readFrame(ctx context.Context, conn *websocket.Conn) (f frame, err error) {
	_, raw, err := conn.Read(ctx)
	if err == nil {
		if json.Unmarshal(raw, &f) != nil {
			err = errors.New("it sent a frame that is not a JSON object")
		}
	}
	return f, err
}

func writeFrame(ctx context.Context, conn *websocket.Conn, r request) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageText, raw)
}

// read hands responses to their calls until the connection is over: it broke, or no
// frame came during two ticks. Events are signs of life and nothing else.
func (l *link) read() error {
	defer l.conn.CloseNow()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*l.tick)
		f, err := readFrame(ctx, l.conn)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("it was silent for %s", 2*l.tick)
		}
		cancel()
		if err != nil {
			return err
		}
		if f.Type != "res" {
			continue
		}
		l.mu.Lock()
		if answer := l.calls[f.ID]; answer != nil {
			delete(l.calls, f.ID)
			answer <- f // it has room
		}
		l.mu.Unlock()
	}
}

// call calls a method and decodes its payload into out, which may be nil. It reports a
// *Fault for a refusal, and CodeUnreachable if no answer came: then the gateway may
// have acted or not.
func (c *Client) call(ctx context.Context, method string, params, out any) error {
	const op = "gateway.call"
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()

	l, err := c.connect(ctx)
	if err != nil {
		return err
	}

	// The reader of the connection finds the call by its id.
	l.mu.Lock()
	l.last++
	id, answer := strconv.Itoa(l.last), make(chan frame, 1)
	l.calls[id] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.calls, id)
		l.mu.Unlock()
	}()

	if err := writeFrame(ctx, l.conn, request{"req", id, method, params}); err != nil {
		return hub.Errorf(hub.CodeUnreachable, op, "%s: the request could not be sent: %w", method, err)
	}

	select {
	case f := <-answer:
		if err := f.fault(method); err != nil {
			return err
		}
		if out == nil {
			return nil
		}
		if err := json.Unmarshal(f.Payload, out); err != nil {
			return hub.Errorf(hub.CodeUnreachable, op, "%s: cannot read its answer: %w", method, err)
		}
		return nil
	case <-l.done:
		return hub.Errorf(hub.CodeUnreachable, op, "%s: no answer, because the connection ended: %w", method, l.cause)
	case <-ctx.Done():
		return hub.Errorf(hub.CodeUnreachable, op, "%s: no answer: %w", method, ctx.Err())
	}
}

// State returns the connection as a capability.
func (c *Client) State() hub.Capability {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.o.Token == "":
		return hub.Capability{State: hub.Unverified, Detail: "wakes by hooks only; test them with parley doctor --gateway"}
	case c.link != nil:
		h := c.link.hello
		return hub.Capability{State: hub.Verified, Enabled: true, Detail: fmt.Sprintf("OpenClaw %s, protocol %d, %s", h.Server.Version, h.Protocol, strings.Join(h.Auth.Scopes, " "))}
	case c.failure != nil:
		return hub.Capability{State: hub.Failed, Detail: c.failure.Error()}
	}
	return hub.Capability{State: hub.Unverified, Detail: "not connected yet"}
}
