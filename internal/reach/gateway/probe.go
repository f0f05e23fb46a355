package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Report is the result of a probe of the gateway: one finding for each way of using
// it. A probe starts no turn of an agent.
type Report struct {
	At       hub.Time  `json:"at,omitzero"`
	URL      string    `json:"url"`
	Version  string    `json:"version,omitempty"` // of the gateway
	Protocol int       `json:"protocol,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Findings []Finding `json:"findings"`
}

// A Finding says whether one way works.
type Finding struct {
	Name     string   `json:"name"` // session-injection, wake or workq
	State    string   `json:"state"`
	Steps    []string `json:"steps"` // made at the gateway, in order
	Seconds  float64  `json:"seconds"`
	Detail   string   `json:"detail,omitempty"`
	Fallback string   `json:"fallback"` // the page about the way without it
}

// The states of a finding.
const (
	Feasible = "feasible"
	Failed   = "failed"
	Off      = "off" // the configuration does not ask for it
)

// probed is a probe of one way.
type probed struct {
	*Client
	ctx   context.Context
	steps []string
}

// try makes one step.
func (p *probed) try(method string, params map[string]any, out any) error {
	p.steps = append(p.steps, method)
	return p.call(p.ctx, method, params, out)
}

// Probe tries every way that the options switch on: it adds a line to the transcript of
// a session that it makes and deletes, asks for a wake at the next heartbeat, and claims
// and releases an item. at is the time of the report, which names the item.
func (c *Client) Probe(ctx context.Context, at hub.Time) Report {
	out := Report{At: at, URL: c.o.URL}
	if c.o.Token != "" {
		if l, err := c.connect(ctx); err == nil {
			out.Version = l.hello.Server.Version
			out.Protocol = l.hello.Protocol
			out.Scopes = l.hello.Auth.Scopes
		}
	}
	for _, way := range []struct {
		name, fallback string
		on             bool
		probe          func(*probed) (string, error)
	}{
		{"session-injection", "inbox-only", c.o.Session != "", (*probed).session},
		{"wake", "no-wake", c.o.Wake, (*probed).wake},
		{"workq", "manual-ownership", c.o.Workq, func(p *probed) (string, error) { return p.workq(at) }},
	} {
		f := Finding{Name: way.name, State: Off, Steps: []string{}, Fallback: "docs/fallbacks/" + way.fallback + ".md"}
		if way.on {
			p, began := &probed{Client: c, ctx: ctx}, time.Now()
			detail, err := way.probe(p)
			f.State = Feasible
			f.Detail = detail
			f.Steps = append(f.Steps, p.steps...)
			f.Seconds = time.Since(began).Seconds()
			if err != nil {
				f.State, f.Detail = Failed, err.Error()
			}
		}
		out.Findings = append(out.Findings, f)
	}
	return out
}

// session probes the session channel.
func (p *probed) session() (_ string, err error) {
	name, scope := sessionChannel{p.Client}.method()
	if err := p.usable(p.ctx, name, scope); err != nil || p.o.Session == ModeRun {
		return "the method exists and its scope is granted; parley agent test AGENT starts a turn with it", err
	}

	// A session of its own is made and deleted, so that no transcript of a user gets the line.
	const key, text = "agent:main:parley-probe", "[parley agent test] no message waits"
	if err := p.try("sessions.create", map[string]any{"key": key}, nil); err != nil {
		return "", err
	}
	defer func() {
		if gone := p.try("sessions.delete", map[string]any{"key": key, "deleteTranscript": true}, nil); err == nil {
			err = gone
		}
	}()

	if err := p.try(methodInject, map[string]any{"sessionKey": key, "message": text}, nil); err != nil {
		return "", err
	}
	var raw json.RawMessage
	if err := p.try(methodHistory, map[string]any{"sessionKey": key, "limit": 10}, &raw); err != nil {
		return "", err
	}

	var state struct {
		Info struct {
			Running bool `json:"hasActiveRun"`
		} `json:"sessionInfo"`
	}
	switch json.Unmarshal(raw, &state); {
	case !bytes.Contains(raw, []byte(text)):
		return "", fmt.Errorf("the line is not in the transcript")
	case state.Info.Running:
		return "", fmt.Errorf("the line started a turn")
	}
	return "the line is in the transcript, and no turn began: a wake is a separate step", nil
}

// wake probes the wake channel.
func (p *probed) wake() (string, error) {
	w := wakeChannel{p.Client}
	if err := w.Check(p.ctx); err != nil {
		return "", err
	}
	params := map[string]any{"mode": "next-heartbeat", "text": "[parley agent test] no message waits"}
	if w.hooks() {
		p.steps = append(p.steps, w.mechanism())
		return "accepted by the hooks; this does not prove a turn", p.hook(p.ctx, params)
	}
	return "accepted by the gateway; this does not prove a turn", p.try(methodWake, params, nil)
}

// workq probes the queue, with an item of its own.
func (p *probed) workq(at hub.Time) (string, error) {
	item := "parley-probe-" + fmt.Sprint(at.UnixMilli())
	one := "parley-probe"
	two := "parley-probe-2"
	var got struct {
		Status string `json:"status"`
	}
	for _, s := range []struct {
		method, agent, want string
	}{{methodClaim, one, "claimed"}, {methodClaim, two, "conflict"}, {methodRelease, one, "dropped"}} {
		got.Status = ""
		if err := p.try(s.method, map[string]any{"issue_ref": item, "agent_id": s.agent}, &got); err != nil {
			return "", err
		}
		if got.Status != s.want {
			return "", fmt.Errorf("%s for %s: %q, not %q", s.method, s.agent, got.Status, s.want)
		}
	}
	p.steps = append(p.steps, methodQuery)
	if i, _, err := p.find(p.ctx, item); err != nil || i.active() {
		return "", fmt.Errorf("%s: the released item has the state %q: %w", methodQuery, i.Status, err)
	}
	return "an item was claimed, refused to a second agent as a success with the status conflict, and released", nil
}

// Markdown returns a finding as a part of the page about its spike.
func (r Report) Markdown(f Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**OpenClaw gateway:** %s", f.State)
	if r.Version != "" {
		fmt.Fprintf(&b, ", probed %s on version %s, protocol %d, with the scopes %s", r.At.Format(time.DateOnly), r.Version, r.Protocol, strings.Join(r.Scopes, ", "))
	} else {
		fmt.Fprintf(&b, ", probed %s", r.At.Format(time.DateOnly))
	}
	fmt.Fprintf(&b, ".\n")
	if len(f.Steps) > 0 {
		fmt.Fprintf(&b, "Steps: `%s`.\n", strings.Join(f.Steps, "`, `"))
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, "Result: %s (%.1f s).\n", f.Detail, f.Seconds)
	}
	return b.String()
}
