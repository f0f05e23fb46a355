package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A Proxy stands between a client that speaks version 1 and an agent that speaks version 2
// alone. Frames are converted one by one with [acpv2.ToV1] and [acpv2.Bridge], in lossy mode
// unless Strict is set; methods and notifications of extensions pass unchanged.
//
// A Proxy has two connections, one to each side, and handles the frames of each in
// the order of arrival where the protocol depends on it: initialize, session/prompt
// and all notifications. The main difference that it hides is the end of a turn. In
// version 1 it is the answer to session/prompt; in version 2 the prompt is answered
// at once and the end is an update. The Proxy therefore keeps each session/prompt
// of the client open until [acpv2.Bridge] finds its end in the agent's updates.
//
// A message that version 1 does not express whole carries the agent's own in its _meta, where
// [acpv2.RestoreUpdate] finds that of an update; a strict proxy, which loses nothing, adds
// nothing. A Proxy serves one client, once, and has one direction: none puts a client of version 2
// before an agent of version 1.
type Proxy struct {
	// OnLoss is told about each message of the agent that the client does not get, and about each
	// value in a message that is dropped or replaced because version 1 cannot express it. OnNote
	// is told about the parts of messages that are left out because version 1 implies them. They
	// are called one after the other, and may be nil.
	OnLoss, OnNote func(error)

	// Strict makes the proxy fail where it would lose something: a request is answered with an
	// error that names the value, and an update of the agent ends Serve with one.
	Strict bool

	// The connections are set by connect before any handler runs, and do not
	// change.
	client, agent *jsonrpc.Conn
	telling       sync.Mutex // one call of OnLoss or OnNote at a time
	failed        chan error // the first loss of a strict proxy; has room for it
	over          bool       // a strict proxy has failed; of the goroutine that reads from the agent

	mu     sync.Mutex    // guards all below
	agreed chan struct{} // closed when initialize is answered; nil before it came
	caps   acpv1.ClientCapabilities
	bridge *acpv2.Bridge // nil before initialize
	// prompts has the request of the client that waits in each session. A channel
	// has room for its one answer, so the sender never blocks.
	prompts map[SessionID]chan *acpv2.Answer
}

// Serve starts the agent and serves the client that writes to r and reads from w until one of
// them ends. The standard error of the agent is in the error if the agent ended first. The
// command must have no standard streams.
func (p *Proxy) Serve(ctx context.Context, cmd *exec.Cmd, r io.Reader, w io.Writer) error {
	process, err := jsonrpc.Start(cmd, nil)
	if err != nil {
		return err
	}
	err = p.connect(ctx, process, process, r, w)
	// The agent's exit status tells more than the end of its output, if there is
	// one.
	ended := process.Close()
	var exit *jsonrpc.ExitError
	switch {
	case errors.Is(err, errAgentEnded) && errors.As(ended, &exit):
		return &StartError{Err: fmt.Errorf("%w: %w", err, ended), Stderr: process.Stderr()}
	case errors.Is(err, errAgentEnded):
		return &StartError{Err: err, Stderr: process.Stderr()}
	}
	return err
}

// errAgentEnded says that the agent ended before its client did.
var errAgentEnded = errors.New("acp: the agent ended while the client was connected")

// connect serves a client with an agent that writes to fromAgent and reads from toAgent.
func (p *Proxy) connect(ctx context.Context, fromAgent io.Reader, toAgent io.Writer, r io.Reader, w io.Writer) error {
	p.prompts = map[SessionID]chan *acpv2.Answer{}
	p.failed = make(chan error, 1)
	ready := make(chan struct{}) // closed when both connections are set

	// A frame may come before both connections are set, so each handler waits for ready.
	p.agent = jsonrpc.Open(fromAgent, toAgent, &jsonrpc.Options{
		Request: func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			<-ready
			return withCode(ctx, func() (any, error) { return p.askClient(ctx, r) })
		},
		Notification: func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
			<-ready
			p.fromAgent(ctx, r)
		},
		MaxRequests: maxRequests,
	})

	p.client = jsonrpc.Open(r, w, &jsonrpc.Options{
		Request: func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			<-ready
			return withCode(ctx, func() (any, error) { return p.askAgent(ctx, r) })
		},
		Ordered: map[string]jsonrpc.OrderedHandler{
			acpv1.MethodInitialize: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) func(context.Context) (any, error) {
				<-ready
				done := make(chan struct{})
				p.mu.Lock()
				p.agreed = done
				p.mu.Unlock()
				return func(ctx context.Context) (any, error) {
					defer close(done)
					return withCode(ctx, func() (any, error) { return p.initialize(ctx, r.Params) })
				}
			},
			acpv1.MethodSessionPrompt: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) func(context.Context) (any, error) {
				<-ready
				wait, err := p.prompt(r.Params)
				return func(ctx context.Context) (any, error) {
					if err != nil {
						return nil, err
					}
					return withCode(ctx, func() (any, error) { return wait(ctx) })
				}
			},
		},
		Notification: func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
			<-ready
			if r.Method == acpv1.MethodSessionCancel || isExtension(r.Method) {
				_ = p.agent.Notify(ctx, r.Method, r.Params) // fails only with the connection, whose end is seen below
			}
		},
		AnswerUnreadable: true,
		MaxRequests:      maxRequests,
	})
	close(ready)

	// A client that ends its input still gets its last answers; the end of the agent is an error.
	var err error
	select {
	case <-p.client.Done():
		err = p.finish(ctx)
		select {
		case <-p.agent.Done():
			err = errAgentEnded
		default:
		}
	case <-p.agent.Done():
		err = errAgentEnded
	case err = <-p.failed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}

	p.agent.Close() // the end of each is known by now
	p.client.Close()
	return err
}

// finishGrace is how long the answers to the last requests of a client may take after it ended
// its input.
const finishGrace = 2 * time.Second

// finish ends the turns of a client that sends nothing more, and waits for the last answers.
// Turns are cancelled first, because the client can no longer do so. Answers that
// take longer than finishGrace are given up; that is not an error, for the client
// has left.
func (p *Proxy) finish(ctx context.Context) error {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.prompts))
	p.mu.Unlock()
	for _, session := range open {
		p.cancel(ctx, session)
	}
	answered := make(chan error, 1)
	go func() { answered <- p.client.Wait() }() // ends with the connection
	select {
	case err := <-answered:
		if err != nil {
			return fmt.Errorf("acp: proxy: %w", err)
		}
	case <-time.After(finishGrace):
	}
	return nil
}

// cancel asks the agent to end the turn of a session.
func (p *Proxy) cancel(ctx context.Context, session SessionID) {
	m := &acpv2.CancelSessionNotification{SessionID: session}
	if raw, err := encoded(m); err == nil {
		_ = p.agent.Notify(ctx, m.Method(), raw) // fails only with the connection
	}
}

// options returns how messages are converted for the client.
// Each call has a copy of the capabilities, which converted messages may refer to.
func (p *Proxy) options(session SessionID, replayed bool) *acpv2.V1Options {
	p.mu.Lock()
	defer p.mu.Unlock()
	caps := p.caps
	return &acpv2.V1Options{Client: &caps, SessionID: session, Replayed: replayed, Lossy: !p.Strict, Carry: true}
}

// converter returns the bridge, or an error before initialize.
func (p *Proxy) converter() (*acpv2.Bridge, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bridge == nil {
		return nil, invalidRequest("send initialize first")
	}
	return p.bridge, nil
}

// awaitInitialize is converter for requests of the client, which may have been sent before
// initialize was answered.
// In the handler of session/prompt it blocks the goroutine that reads from the client
// until initialize is answered.
func (p *Proxy) awaitInitialize() (*acpv2.Bridge, error) {
	p.mu.Lock()
	agreed := p.agreed
	p.mu.Unlock()
	if agreed != nil {
		<-agreed
	}
	return p.converter()
}

// lost tells the caller about a message that the client does not get. It ends a strict proxy.
// It is called by fromAgent alone, for one notification after the other.
func (p *Proxy) lost(err error) {
	p.tell(p.OnLoss, err)
	if p.Strict && !p.over {
		p.over = true
		p.failed <- fmt.Errorf("acp: proxy: the client cannot get a message of the agent: %w", err)
	}
}

// noted tells the caller about parts that are left out of a message, and about the values among
// them that version 1 cannot express.
func (p *Proxy) noted(notes, losses []*acpv2.Problem) {
	for _, n := range notes {
		if slices.Contains(losses, n) {
			p.tell(p.OnLoss, n)
		} else {
			p.tell(p.OnNote, n)
		}
	}
}

func (p *Proxy) tell(f func(error), err error) {
	if f != nil {
		p.telling.Lock()
		defer p.telling.Unlock()
		f(err)
	}
}

// askAgent answers a request of the client with the answer of the agent to the same request
// in version 2.
// A session that is closed or deleted answers its open prompt: no update will come
// for it any more.
func (p *Proxy) askAgent(ctx context.Context, r jsonrpc.Request) (any, error) {
	bridge, err := p.awaitInitialize()
	if err != nil {
		return nil, err
	}

	if isExtension(r.Method) {
		return remoteError(p.agent.Call(ctx, r.Method, r.Params))
	}

	// The decoder of the agent side is used for its conversion to version 2.
	rc := &remoteClient{profile: ClientProfile{Version: 1}}
	request, m, err := rc.readRequest(r)
	if err != nil {
		return nil, err
	}
	if _, mode := request.(*acpv1.SetSessionModeRequest); mode {
		return nil, jsonrpc.MethodNotFound(r.Method) // version 2 has options in place of modes
	}

	method, _ := acpv2.LookupMethod(m.Method())
	answer := method.NewResult()
	if err := call(ctx, p.agent, m, answer); err != nil {
		return nil, err
	}

	var session SessionID
	replayed, isNew := false, false
	switch m := m.(type) {
	case *acpv2.ResumeSessionRequest:
		session, replayed = m.SessionID, m.ReplayFrom.IsSet()
	case *acpv2.NewSessionRequest:
		isNew = true
	case *acpv2.CloseSessionRequest:
		p.answer(m.SessionID, bridge.Forget(m.SessionID))
	case *acpv2.DeleteSessionRequest:
		p.answer(m.SessionID, bridge.Forget(m.SessionID))
	}

	converted, err := acpv2.ToV1(answer, p.options(session, replayed))
	if err != nil {
		return nil, err
	}
	p.noted(converted.Notes, converted.Losses)
	result, err := encoded(converted.Message)
	if err != nil {
		return nil, err
	}

	// A client of version 1 does not know the session before its answer.
	if isNew {
		return jsonrpc.Answer{Result: result, After: func(error) { p.notify(context.WithoutCancel(ctx), converted.Then) }}, nil
	}
	p.notify(ctx, converted.Then)
	return result, nil
}

// notify sends notifications to the client. They fail only with the connection.
func (p *Proxy) notify(ctx context.Context, list []acpv1.Message) {
	for _, m := range list {
		if raw, err := encoded(m); err == nil {
			_ = p.client.Notify(ctx, m.Method(), raw)
		}
	}
}

// initialize introduces the client to the agent in version 2.
// It offers version 2 alone. Files and terminals of the client are not offered,
// because version 2 has no methods for them.
func (p *Proxy) initialize(ctx context.Context, params json.RawMessage) (any, error) {
	rc := &remoteClient{}
	if err := rc.readProfileV1(params); err != nil {
		return nil, invalidParams(err)
	}

	offer := &acpv2.InitializeRequest{ProtocolVersion: 2, Info: acpv2.Implementation{Name: cmp.Or(rc.profile.Name, "client"), Version: rc.profile.Release}}
	caps := acpv2.ClientCapabilities{Elicitation: rc.caps.Elicitation, Meta: rc.caps.Meta}
	if rc.profile.TerminalAuth {
		caps.Auth = acpv2.Set(acpv2.ClientAuthCapabilities{Terminal: acpv2.Set(acpv2.TerminalAuthCapabilities{})})
	}
	offer.Capabilities = acpv2.Set(caps)

	raw, err := offer.MarshalJSON()
	if err != nil {
		return nil, err
	}
	result, err := p.agent.Call(ctx, acpv2.MethodInitialize, json.RawMessage(raw))
	if err != nil {
		return remoteError(result, err)
	}

	var head struct {
		Version int `json:"protocolVersion"`
	}
	if json.Unmarshal(result, &head) == nil && head.Version == 1 {
		return nil, invalidRequest("the agent already speaks version 1 of the protocol: start it without the proxy")
	}

	answer := &acpv2.InitializeResponse{}
	if err := answer.UnmarshalJSON(result); err != nil {
		return nil, unreadable(err)
	}

	// Only the first initialize that succeeds makes the bridge.
	p.mu.Lock()
	again := p.bridge != nil
	if !again {
		p.caps = rc.caps
		p.bridge = acpv2.NewBridge(&acpv2.V1Options{Client: &rc.caps, Lossy: !p.Strict, Carry: true})
	}
	p.mu.Unlock()
	if again {
		return nil, invalidRequest("initialize was already answered")
	}

	// A capability that the agent lacks and version 1 requires is no value that could be lost:
	// it is told, and does not fail a strict proxy.
	opts := p.options("", false)
	opts.Lossy = true
	opts.Carry = !p.Strict
	converted, err := acpv2.ToV1(answer, opts)
	if err != nil {
		return nil, err
	}
	p.noted(converted.Notes, converted.Losses)
	for _, loss := range converted.Losses {
		if p.Strict && loss.Value != "" {
			return nil, loss
		}
	}
	return encoded(converted.Message)
}

// prompt gives the agent a prompt, and returns the function that waits for the end of the
// work. The bridge hears of the prompt and of the agent's acceptance in the order of the
// frames: done runs before the update that follows the response is handled.
func (p *Proxy) prompt(params json.RawMessage) (wait func(context.Context) (any, error), err error) {
	bridge, err := p.awaitInitialize()
	if err != nil {
		return nil, err
	}

	var m acpv1.PromptRequest
	if err := m.UnmarshalJSON(params); err != nil {
		return nil, invalidParams(err)
	}

	upgraded, err := upgrade(&m)
	if err != nil {
		return nil, invalidParams(err)
	}
	raw, err := encoded(upgraded)
	if err != nil {
		return nil, err
	}

	if err := bridge.Prompt(m.SessionID); err != nil {
		return nil, invalidRequest("%v", err)
	}
	answers := make(chan *acpv2.Answer, 1) // has room for the one answer
	p.mu.Lock()
	p.prompts[m.SessionID] = answers
	p.mu.Unlock()

	// The function runs on the goroutine that reads from the agent. If the agent
	// refuses the prompt, the bridge makes the refusal the answer of the turn.
	_, err = p.agent.Begin(acpv2.MethodSessionPrompt, raw, func(_ json.RawMessage, err error) {
		if err == nil {
			err = bridge.Accepted(m.SessionID)
		}
		if err != nil {
			answer, failed := bridge.Refused(m.SessionID, rpcError(err))
			if failed == nil {
				p.answer(m.SessionID, answer)
			}
		}
	})
	if err != nil {
		bridge.Forget(m.SessionID)
		return nil, err
	}

	return func(ctx context.Context) (any, error) {
		select {
		case answer := <-answers:
			if answer.Error != nil {
				return nil, &jsonrpc.Error{Code: int(answer.Error.Code), Message: answer.Error.Message, Data: answer.Error.Data}
			}
			return encoded(answer.Result)
		case <-ctx.Done():
			// The client gave the request up; the agent ends the turn when it is asked to.
			p.cancel(context.WithoutCancel(ctx), m.SessionID)
			return nil, context.Cause(ctx)
		}
	}, nil
}

// answer hands the answer to the prompt of a session to the request that waits for it. A nil
// answer is none.
func (p *Proxy) answer(session SessionID, answer *acpv2.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waiting := p.prompts[session]; waiting != nil && answer != nil {
		waiting <- answer
		delete(p.prompts, session)
	}
}

// prompting reports whether a prompt of the session waits for its answer.
func (p *Proxy) prompting(session SessionID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prompts[session] != nil
}

// fromAgent converts a notification of the agent.
// A notification before initialize, or of an unknown method, has no form in version
// 1 and is dropped.
func (p *Proxy) fromAgent(ctx context.Context, r jsonrpc.Request) {
	if p.over {
		return // the turn must not seem to end well
	}
	if isExtension(r.Method) {
		_ = p.client.Notify(ctx, r.Method, r.Params)
		return
	}

	bridge, err := p.converter()
	method, ok := acpv2.LookupMethod(r.Method)
	isConvertible := err == nil && ok && method.Notification() && r.Method != acpv2.MethodCancelRequest
	if !isConvertible {
		return
	}

	m := method.NewParams()
	if err := m.UnmarshalJSON(r.Params); err != nil {
		p.lost(fmt.Errorf("acp: %s: %w", r.Method, err))
		return
	}

	update, ok := m.(*acpv2.UpdateSessionNotification)
	if !ok {
		if converted, err := acpv2.ToV1(m, p.options("", false)); err != nil {
			p.lost(err)
		} else {
			p.noted(converted.Notes, converted.Losses)
			p.notify(ctx, []acpv1.Message{converted.Message})
		}
		return
	}

	// The agent repeats a prompt; a client of version 1 shows its own.
	if p.prompting(update.SessionID) && (update.Update.UserMessage != nil || update.Update.UserMessageChunk != nil) {
		return
	}

	step, err := bridge.Update(update)
	if err != nil {
		p.lost(err)
		return
	}
	p.noted(step.Notes, step.Losses)
	for _, u := range step.Updates {
		p.notify(ctx, []acpv1.Message{u})
	}
	p.answer(update.SessionID, step.Answer)
}

// askClient answers a request of the agent with the answer of the client to the same request
// in version 1.
func (p *Proxy) askClient(ctx context.Context, r jsonrpc.Request) (any, error) {
	if isExtension(r.Method) {
		return remoteError(p.client.Call(ctx, r.Method, r.Params))
	}
	if _, err := p.converter(); err != nil {
		return nil, err
	}
	method, ok := acpv2.LookupMethod(r.Method)
	if !ok || method.Side != acpv2.SideClient || method.Notification() {
		return nil, jsonrpc.MethodNotFound(r.Method)
	}
	m := method.NewParams()
	if err := m.UnmarshalJSON(r.Params); err != nil {
		return nil, invalidParams(err)
	}
	converted, err := acpv2.ToV1(m, p.options("", false))
	if err != nil {
		return nil, invalidParams(err)
	}
	p.noted(converted.Notes, converted.Losses)
	// The answers of clients have the same form in both versions.
	answer := method.NewResult()
	if err := call(ctx, p.client, converted.Message, answer); err != nil {
		return nil, err
	}
	return encoded(answer)
}

// call sends a request and decodes the answer.
// A result of null is read as one without members, which some programs send.
func call(ctx context.Context, to *jsonrpc.Conn, m, answer acpv1.Message) error {
	raw, err := encoded(m)
	if err != nil {
		return err
	}
	result, err := to.Call(ctx, m.Method(), raw)
	if err != nil {
		_, err = remoteError(nil, err)
		return err
	}
	if string(result) == "null" {
		result = json.RawMessage("{}")
	}
	if err := answer.UnmarshalJSON(result); err != nil {
		return fmt.Errorf("acp: cannot read the answer to %s: %w", m.Method(), err)
	}
	return nil
}

// remoteError returns an error of the other side as it came, so that it is handed on with its code.
func remoteError(result json.RawMessage, err error) (any, error) {
	var refusal *jsonrpc.Error
	if errors.As(err, &refusal) {
		return nil, refusal
	}
	return result, err
}

// rpcError returns the error of a call in the form of version 2.
func rpcError(err error) *acpv2.Error {
	var refusal *jsonrpc.Error
	if errors.As(err, &refusal) {
		return &acpv2.Error{Code: acpv2.ErrorCode(refusal.Code), Message: refusal.Message, Data: refusal.Data}
	}
	return &acpv2.Error{Code: acpv2.ErrorCode(jsonrpc.CodeInternal), Message: err.Error()}
}
