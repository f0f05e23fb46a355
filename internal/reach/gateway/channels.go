package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// proofTime is the time that an agent has to fetch a message after a wake: the gateway
// may wait for the end of a turn, and starts at most one turn in half a minute.
const proofTime = 3 * time.Minute

// Channels returns the channels that the options switch on.
func (c *Client) Channels() (out []channel.Channel) {
	if c.o.Session != "" {
		out = append(out, sessionChannel{c})
	}
	if c.o.Wake {
		out = append(out, wakeChannel{c})
	}
	if c.o.Notify != nil {
		out = append(out, notifyChannel{c})
	}
	return out
}

// usable reports why a method cannot be called; nil if it can.
func (c *Client) usable(ctx context.Context, method, scope string) error {
	l, err := c.connect(ctx)
	if err != nil {
		return err
	}
	return l.usable(method, scope)
}

// usable reports why a method cannot be called over the connection; nil if it can.
func (l *link) usable(method, scope string) error {
	switch {
	case !l.hello.grants(scope):
		return hub.Errorf(hub.CodeDenied, "gateway", "%s needs the scope %s, and the gateway grants %s", method, scope, strings.Join(l.hello.Auth.Scopes, " ")).
			WithHint("give the hub a token with this scope")
	case method != methodInject && !slices.Contains(l.hello.Features.Methods, method): // the gateway does not list that one
		return hub.Errorf(hub.CodeNotEnabled, "gateway", "the gateway has no method %s", method)
	}
	return nil
}

// place forecasts for an agent with a place at the gateway, while the gateway is
// connected.
func (c *Client) place(to hub.AgentID, mechanism string, connected bool) channel.Reach {
	if _, ok := c.o.Agents[to]; !ok {
		return channel.Reach{When: hub.ReachUnreachable, Reason: "gateway.agents does not name it"}
	}
	if s := c.State(); connected && s.State != hub.Verified {
		return channel.Reach{When: hub.ReachUnreachable, Reason: s.Detail}
	}
	return channel.Reach{When: hub.ReachNow, Reason: "by the gateway", Mechanism: mechanism}
}

// outcome returns the outcome of a request that failed. A refused request showed
// nothing; one without an answer may have.
func outcome(mechanism string, err error) channel.Outcome {
	var f *Fault
	state := channel.Failed
	if errors.As(err, &f) {
		state = channel.Refused
	}
	return channel.Outcome{State: state, Mechanism: mechanism, Detail: err.Error()}
}

// inboxTool is the name of the inbox tool in the notice.
const inboxTool = "acp_inbox"

const (
	methodSend    = "chat.send"
	methodInject  = "chat.inject"
	methodHistory = "chat.history"
	methodWake    = "wake"
	methodNotify  = "send"
)

// A sessionChannel brings notices into the sessions of agents.
type sessionChannel struct{ *Client }

func (c sessionChannel) Name() hub.Channel { return hub.ChannelSession }

func (c sessionChannel) method() (name, scope string) {
	if c.o.Session == ModeAppend {
		return methodInject, scopeAdmin
	}
	return methodSend, scopeWrite
}

// Check reports why notices cannot be brought into sessions.
func (c sessionChannel) Check(ctx context.Context) error {
	name, scope := c.method()
	return c.usable(ctx, name, scope)
}

// Reach forecasts from the connection.
func (c sessionChannel) Reach(_ context.Context, to hub.AgentID) channel.Reach {
	name, _ := c.method()
	return c.place(to, name, true)
}

// Deliver brings a notice into the session of the recipient. The gateway knows the id
// of a batch that starts a turn; for a transcript the hub looks there first.
func (c sessionChannel) Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error) {
	name, _ := c.method()
	key, text := c.o.Agents[b.Recipient].Session, b.Notice(inboxTool)
	if c.o.Session == ModeRun {
		var got struct {
			Status string `json:"status"`
		}
		err := c.call(ctx, name, map[string]any{"sessionKey": key, "message": text, "idempotencyKey": b.ID, "deliver": false}, &got)
		if err != nil {
			return outcome(name, err), nil
		}
		return channel.Outcome{State: channel.Accepted, Mechanism: name, Detail: "the turn is " + strings.ReplaceAll(got.Status, "_", " ")}, nil
	}
	var history json.RawMessage
	if err := c.call(ctx, methodHistory, map[string]any{"sessionKey": key, "limit": 50}, &history); err != nil {
		return outcome(name, err), nil
	}
	if !bytes.Contains(history, []byte(b.ID)) {
		if err := c.call(ctx, name, map[string]any{"sessionKey": key, "message": text, "label": "parley"}, nil); err != nil {
			return outcome(name, err), nil
		}
	}
	return channel.Outcome{State: channel.Accepted, Mechanism: name, Detail: "added to the transcript; no turn begins for it"}, nil
}

// A wakeChannel asks the gateway for a turn of an agent.
type wakeChannel struct{ *Client }

func (c wakeChannel) Name() hub.Channel { return hub.ChannelWake }

// hooks reports whether wakes go over the hooks: their token allows nothing else.
func (c wakeChannel) hooks() bool { return c.o.HooksToken != "" }

// mechanism returns the name of the way.
func (c wakeChannel) mechanism() string {
	if c.hooks() {
		return "hooks/wake"
	}
	return methodWake
}

// Check reports why agents cannot be woken.
func (c wakeChannel) Check(ctx context.Context) error {
	if !c.hooks() {
		return c.usable(ctx, methodWake, scopeWrite)
	}
	// A wake without a text is refused, and shows that the token is good.
	err := c.hook(ctx, map[string]any{})
	if f := (*Fault)(nil); errors.As(err, &f) && f.Code == "400" {
		return nil
	}
	if err == nil {
		err = errors.New("hooks/wake: a wake without a text was accepted")
	}
	return err
}

// Reach forecasts from the connection. A gateway of protocol 3 wakes its default agent
// alone.
func (c wakeChannel) Reach(_ context.Context, to hub.AgentID) channel.Reach {
	out := c.place(to, c.mechanism(), !c.hooks())
	if out.When == hub.ReachNow && !c.hooks() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.link != nil && c.link.hello.Protocol == 3 && !c.link.isDefault(c.o.Agents[to].ID) {
			return channel.Reach{When: hub.ReachUnreachable, Reason: "a gateway of protocol 3 wakes its default agent alone"}
		}
	}
	return out
}

// isDefault reports whether an agent is the one that a gateway of protocol 3 wakes.
func (l *link) isDefault(agent string) bool {
	if d := l.hello.Snapshot.SessionDefaults.DefaultAgent; d != "" {
		return agent == d
	}
	return agent == "main"
}

// Deliver asks for a turn. That the gateway accepted it proves nothing: the agent may
// be busy, or its heartbeats may be off.
func (c wakeChannel) Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error) {
	a := c.o.Agents[b.Recipient]
	params := map[string]any{"mode": "now", "text": b.Notice(inboxTool)}
	var err error
	if c.hooks() {
		params["agentId"] = a.ID
		err = c.hook(ctx, params)
	} else {
		var l *link
		if l, err = c.connect(ctx); err == nil {
			if l.hello.Protocol > 3 {
				params["agentId"], params["sessionKey"] = a.ID, a.Session
			}
			err = c.call(ctx, methodWake, params, nil)
		}
	}
	if err != nil {
		return outcome(c.mechanism(), err), nil
	}
	return channel.Outcome{State: channel.Handed, Mechanism: c.mechanism(), Detail: "accepted by the gateway; this does not prove a turn", Proof: proofTime}, nil
}

// hook posts a wake to the hooks of the gateway.
func (c *Client) hook(ctx context.Context, params map[string]any) error {
	const name = "hooks/wake"
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()

	body, err := json.Marshal(params)
	if err != nil {
		return err
	}

	address := "http" + strings.TrimSuffix(strings.TrimPrefix(c.o.URL, "ws"), "/") + "/" + name
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.o.HooksToken)
	req.Header.Set("Content-Type", "application/json")

	resp, err := c.http.Do(req)
	if err != nil {
		return hub.Errorf(hub.CodeUnreachable, "gateway.hook", "%s: %w", name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return hub.Errorf(hub.CodeUnreachable, "gateway.hook", "%s: cannot read its answer: %w", name, err)
	}
	if resp.StatusCode/100 == 2 {
		return nil
	}

	// The gateway may explain its refusal in JSON.
	f := &Fault{Method: name, Code: fmt.Sprint(resp.StatusCode), Message: http.StatusText(resp.StatusCode)}
	var plain struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(raw, &plain) == nil && plain.Error != "" {
		f.Message = plain.Error
	}
	return f
}

// A notifyChannel tells people in a chat room.
type notifyChannel struct{ *Client }

func (c notifyChannel) Name() hub.Channel { return hub.ChannelNotify }

// Check reports why people cannot be told.
func (c notifyChannel) Check(ctx context.Context) error {
	return c.usable(ctx, methodNotify, scopeWrite)
}

// Reach forecasts from the connection: people are told about the mail of every agent.
func (c notifyChannel) Reach(_ context.Context, _ hub.AgentID) channel.Reach {
	if s := c.State(); s.State != hub.Verified {
		return channel.Reach{When: hub.ReachUnreachable, Reason: s.Detail}
	}
	return channel.Reach{When: hub.ReachNow, Reason: "people are notified in " + c.o.Notify.Channel, Mechanism: methodNotify}
}

// Deliver tells people that messages wait for an agent.
func (c notifyChannel) Deliver(ctx context.Context, b channel.Batch) (channel.Outcome, error) {
	params := map[string]any{"to": c.o.Notify.To, "channel": c.o.Notify.Channel, "message": headline(b), "idempotencyKey": b.ID}
	if c.o.Notify.Account != "" {
		params["accountId"] = c.o.Notify.Account
	}
	if err := c.call(ctx, methodNotify, params, nil); err != nil {
		return outcome(methodNotify, err), nil
	}
	return channel.Outcome{State: channel.Accepted, Mechanism: methodNotify, Detail: "announced in " + c.o.Notify.Channel}, nil
}

// headline returns the text for people: how many messages wait, of which kinds, and
// the command that shows them.
func headline(b channel.Batch) string {
	kinds := map[string]int{}
	for _, e := range b.Messages {
		kinds[string(e.Priority)+" "+string(e.Type)]++
	}
	var parts []string
	for kind, n := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(parts)
	return fmt.Sprintf("[parley %s] messages are waiting for %s: %s. Read them with parley inbox %s.", b.ID, b.Recipient, strings.Join(parts, ", "), b.Recipient)
}
