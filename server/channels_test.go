package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/server"
)

// A pipe is a channel that another program wrote; the test decides what it does.
type pipe struct {
	name  hub.Channel
	check error
	away  bool
	state channel.State
	fail  func() error
	got   chan channel.Batch
}

func newPipe(name hub.Channel) *pipe {
	return &pipe{name: name, state: channel.Accepted, got: make(chan channel.Batch, 100)}
}

func (p *pipe) Name() hub.Channel           { return p.name }
func (p *pipe) Check(context.Context) error { return p.check }
func (p *pipe) Reach(context.Context, hub.AgentID) channel.Reach {
	if p.away {
		return channel.Reach{When: hub.ReachUnreachable, Reason: "no live session"}
	}
	return channel.Reach{When: hub.ReachNow, Reason: "it is there"}
}

func (p *pipe) Deliver(_ context.Context, b channel.Batch) (channel.Outcome, error) {
	if p.fail != nil {
		if err := p.fail(); err != nil {
			return channel.Outcome{}, err
		}
	}
	p.got <- b
	return channel.Outcome{State: p.state, Mechanism: "pipe"}, nil
}

// piped starts a hub with channels of another program, and an agent that may be woken.
func piped(t *testing.T, pipes ...*pipe) *wakeHub {
	t.Helper()
	o := server.Options{}
	for _, p := range pipes {
		o.Channels = append(o.Channels, p)
	}
	return startWakes(t, o, "planner", "builder")
}

// ends waits until no row of a message is pending and returns the ledger.
func (w *wakeHub) ends(id hub.EnvelopeID) string {
	w.t.Helper()
	var words []string
	w.until("no row is pending", func() bool {
		words = nil
		for _, d := range mustCall(w.t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Deliveries {
			words = append(words, fmt.Sprintf("%s:%s", d.Channel, d.Status))
		}
		slices.Sort(words)
		return !strings.Contains(strings.Join(words, " "), "pending")
	}, func() any { return words })
	return strings.Join(words, " ")
}

func TestChannels(t *testing.T) {
	builder := api.Recipients{"builder"}
	for _, c := range []struct {
		id       string
		priority hub.Priority
		on, away string // the ledger with all channels, and when the recipient has no live session
	}{
		{"R3-086", hub.PriorityLow, "inbox:stored", "inbox:stored"},
		{"R3-087", hub.PriorityNormal, "inbox:stored session:accepted", "inbox:stored session:skipped wake:accepted"},
		{"R3-088", hub.PriorityHigh, "channel:accepted inbox:stored session:accepted", "channel:accepted inbox:stored session:skipped wake:accepted"},
		{"R3-089", hub.PriorityCritical, "channel:accepted inbox:stored session:accepted wake:accepted", "channel:accepted inbox:stored session:skipped wake:accepted"},
	} {
		for name, want := range map[string]string{"on": c.on, "on, recipient away": c.away} {
			t.Run(fmt.Sprintf("%s %s with all channels %s: %s", c.id, c.priority, name, want), func(t *testing.T) {
				session := newPipe(hub.ChannelSession)
				session.away = name != "on"
				w := piped(t, session, newPipe(hub.ChannelNotify), newPipe(hub.ChannelWake))
				if got := w.ends(w.send("planner", api.SendParams{To: builder, Priority: c.priority})); got != want {
					t.Errorf("got %s", got)
				}
			})
		}
	}
	t.Run("R3-084 channels are off on a new hub, and one that starts turns until a user allows it", func(t *testing.T) {
		r := start(t, server.Options{NoInboxFiles: true, Channels: []channel.Channel{newPipe(hub.ChannelWake)}})
		for _, name := range []hub.Channel{hub.ChannelSession, hub.ChannelWake, hub.ChannelNotify} {
			if c := mustCall(t, r.as(r.operator), api.Whoami, api.None{}).Capabilities[string(name)]; c.Enabled || c.State != hub.Unverified {
				t.Errorf("%s: got %+v", name, c)
			}
		}
		r.add(t, "builder")
		mustCall(t, r.as(r.operator), api.AllowWake, api.WakeAllowParams{Agent: "builder", Allow: true})
		if c := mustCall(t, r.as(r.operator), api.Whoami, api.None{}).Capabilities["wake"]; !c.Enabled || c.State != hub.Verified {
			t.Errorf("allowed: got %+v", c)
		}
	})
	t.Run("R3-095 a channel whose check fails stays off, the hub starts, and the inbox works", func(t *testing.T) {
		p := newPipe(hub.ChannelNotify)
		p.check = errors.New("no such method")
		w := piped(t, p)
		got := mustCall(t, w.as(w.keys["planner"]), api.Send, api.SendParams{To: builder, Text: "x", Priority: hub.PriorityCritical})
		if c := got.Capabilities["channel"]; c.Enabled || c.State != hub.Failed || !strings.Contains(c.Detail, "no such method") {
			t.Errorf("got %+v", c)
		}
		if in := mustCall(t, w.as(w.keys["builder"]), api.Inbox, api.InboxParams{}); len(in.Messages) != 1 {
			t.Errorf("got %d messages", len(in.Messages))
		}
		s, err := server.New(t.Context(), server.Options{Home: t.TempDir(), Addr: "127.0.0.1:0", Channels: []channel.Channel{p}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if off := s.FailedChannels(); len(off) != 1 || off["channel"] != "no such method" {
			t.Errorf("for the start lines: got %v", off)
		}
		if body := string(w.do(t, "GET", "/health", "", nil).body); !strings.Contains(body, `"failed_channels":["channel"]`) || strings.Contains(body, "no such method") {
			t.Errorf("/health: got %s", body)
		}
	})
	t.Run("R3-116 a channel that fails, or breaks, leaves the message in the inbox and is off until it is checked again", func(t *testing.T) {
		for name, fail := range map[string]func() error{
			"fails": func() error { return errors.New("gone") }, "breaks": func() error { panic("gone") },
		} {
			p := newPipe(hub.ChannelNotify)
			p.fail = fail
			w := piped(t, p)
			id := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityHigh})
			if got := w.ends(id); got != "channel:failed inbox:stored session:skipped" {
				t.Errorf("%s: got %s", name, got)
			}
			if c := mustCall(t, w.as(w.operator), api.Whoami, api.None{}).Capabilities["channel"]; c.State != hub.Failed || !strings.Contains(c.Detail, "gone") {
				t.Errorf("%s: got %+v", name, c)
			}
			if in := mustCall(t, w.as(w.keys["builder"]), api.Inbox, api.InboxParams{}); len(in.Messages) != 1 {
				t.Errorf("%s: got %d messages in the inbox", name, len(in.Messages))
			}
		}
	})
	t.Run("R3-085 a notice in a session is neither delivery nor processing", func(t *testing.T) {
		for _, state := range []channel.State{channel.Offered, channel.Accepted} {
			p := newPipe(hub.ChannelSession)
			p.state = state
			w := piped(t, p)
			id := w.send("planner", api.SendParams{To: builder})
			w.ends(id)
			if got := mustCall(t, w.as(w.operator), api.Trace, api.IDParams{ID: id}).Message.Status; got != hub.StatusPending {
				t.Errorf("%s: got %s, want pending", state, got)
			}
		}
	})
	t.Run("R3-083 every attempt has a row, also after a restart", func(t *testing.T) {
		p := newPipe(hub.ChannelNotify)
		w := piped(t, p)
		id := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityHigh})
		w.restart()
		if got := w.ends(id); got != "channel:accepted inbox:stored session:skipped" {
			t.Errorf("got %s", got)
		}
		if b := <-p.got; b.Recipient != "builder" || b.Messages[0].ID != id || len(p.got) > 0 && (<-p.got).ID != b.ID {
			t.Errorf("got %+v", b)
		}
	})
	t.Run("R3-083 a row of a channel that the hub does not have any more is skipped", func(t *testing.T) {
		p := newPipe(hub.ChannelNotify)
		p.away = true
		w := piped(t, p)
		w.opts.Channels = nil
		id := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityHigh})
		w.restart()
		if got := w.ends(id); got != "channel:skipped inbox:stored session:skipped" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("R3-121 a message of high sensitivity is announced to people without any text of it", func(t *testing.T) {
		notify, session := newPipe(hub.ChannelNotify), newPipe(hub.ChannelSession)
		w := piped(t, notify, session)
		w.send("planner", api.SendParams{To: builder, Text: "the password is hunter-two", Topic: "passwords", Policy: json.RawMessage(`{"sensitivity":"high"}`)})
		for _, p := range []*pipe{notify, session} {
			raw, err := json.Marshal(<-p.got)
			if err != nil || strings.Contains(string(raw), "hunter-two") || strings.Contains(string(raw), "passwords") {
				t.Errorf("%s: got %s, %v", p.name, raw, err)
			}
		}
	})
	t.Run("R3-112 a message that a channel reports as read is processed once", func(t *testing.T) {
		p := newPipe(hub.ChannelSession)
		p.state = channel.Read
		w := piped(t, p)
		id := w.send("planner", api.SendParams{To: builder})
		if got := w.ends(id); got != "inbox:read session:read" {
			t.Errorf("got %s", got)
		}
		in := mustCall(t, w.as(w.keys["builder"]), api.Inbox, api.InboxParams{Ack: api.AckSet{IDs: []hub.EnvelopeID{id}}})
		if len(in.Messages) != 0 || in.Acked[0].First {
			t.Errorf("got %d messages, acked %+v", len(in.Messages), in.Acked)
		}
	})
	t.Run("a channel of another name is refused", func(t *testing.T) {
		_, err := server.New(t.Context(), server.Options{Home: t.TempDir(), Addr: "127.0.0.1:0", Channels: []channel.Channel{newPipe("pigeon")}})
		if hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}

// TestPeopleAreToldOfEveryMessage has messages that come while the notice of an earlier one is on
// its way to people.
func TestPeopleAreToldOfEveryMessage(t *testing.T) {
	t.Parallel()
	builder := api.Recipients{"builder"}
	told := func(t *testing.T, batch time.Duration) *wakeHub {
		return startWakes(t, server.Options{Notify: []server.NotifyTarget{{Name: "desk", Command: []string{"true"}, Events: []string{"message"}, Batch: batch}}}, "planner", "builder")
	}
	t.Run("a critical message does not wait for the batch of another one", func(t *testing.T) {
		w := told(t, time.Hour)
		first := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityHigh})
		w.untilStep(first, "channel: waiting")
		second := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityCritical})
		for _, id := range []hub.EnvelopeID{second, first} {
			w.untilStep(id, "channel: accepted")
		}
	})
	t.Run("the next message is announced when the notice before it was taken", func(t *testing.T) {
		w := told(t, 2*time.Second)
		for range 2 {
			first := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityHigh})
			w.untilStep(first, "channel: waiting")
			second := w.send("planner", api.SendParams{To: builder, Priority: hub.PriorityHigh})
			for _, id := range []hub.EnvelopeID{first, second} {
				w.untilStep(id, "channel: accepted")
			}
		}
	})
}
