package wake

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
)

// An orderModel is a machine with a channel of people that keeps every notice until the test says
// that people took it. Its steps are the events that can meet a notice on its way.
type orderModel struct {
	t      *testing.T
	store  *sqlite.Store
	ids    *hub.IDs
	now    time.Time
	agent  hub.AgentID
	r      *runner
	during []hub.Priority // of messages that arrive while the channel takes the next notice

	sent   []hub.EnvelopeID
	urgent []hub.EnvelopeID // those of them that are critical
	queue  []string         // notices that people did not take yet, oldest first
	shown  []hub.EnvelopeID // in notices, in order
}

func (m *orderModel) Name() hub.Channel           { return hub.ChannelNotify }
func (m *orderModel) Check(context.Context) error { return nil }
func (m *orderModel) Reach(context.Context, hub.AgentID) channel.Reach {
	return channel.Reach{When: hub.ReachNow}
}

func (m *orderModel) Deliver(_ context.Context, b channel.Batch) (channel.Outcome, error) {
	for _, p := range m.during {
		m.send(p)
	}
	m.during = nil
	m.queue = append(m.queue, b.ID)
	for _, e := range b.Messages {
		m.shown = append(m.shown, e.ID)
	}
	return channel.Outcome{State: channel.Waiting, Proof: 24 * time.Hour}, nil
}

func (m *orderModel) update(f func(hub.Tx) error) {
	m.t.Helper()
	if err := m.store.Update(m.t.Context(), hub.SurvivesKill, f); err != nil {
		m.t.Fatal(err)
	}
}

// start makes a machine, as a hub does when it starts.
func (m *orderModel) start() {
	m.t.Helper()
	g, err := New(m.store, []channel.Channel{m}, Options{Clock: func() time.Time { return m.now }, Bus: new(bus.Local)})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := g.Check(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	m.r = &runner{Machine: g, started: true}
	g.Visit(m.agent)
}

func (m *orderModel) send(p hub.Priority) {
	id := m.ids.Next()
	m.sent = append(m.sent, id)
	if p == hub.PriorityCritical {
		m.urgent = append(m.urgent, id)
	}
	e := hub.Message{Envelope: hub.Envelope{
		ID: id, Protocol: hub.Protocol, Version: hub.Version, From: "planner", To: []hub.AgentID{m.agent}, ThreadID: string(id), Type: hub.TypeStatusUpdate,
		Priority: p, Status: hub.StatusPending, Payload: json.RawMessage(`{}`), Policy: hub.DefaultPolicy, CreatedAt: hub.At(m.now),
	}}
	m.update(func(tx hub.Tx) error {
		if err := tx.AddMessage(e, []hub.Party{{Agent: "planner", State: hub.PartySender}, {Agent: m.agent, State: hub.PartyUnread}}); err != nil {
			return err
		}
		if err := tx.AddDelivery(hub.Delivery{MessageID: id, Recipient: m.agent, Channel: hub.ChannelNotify, Status: hub.DeliveryPending}); err != nil {
			return err
		}
		_, err := tx.Append(hub.Caller{ID: "planner"}.Entry(hub.At(m.now), actions.MessageSent, string(id), nil))
		return err
	})
}

// take records an outcome of the oldest notice that people did not take yet.
func (m *orderModel) take(o channel.State) {
	if len(m.queue) == 0 {
		return
	}
	m.update(func(tx hub.Tx) error { return m.r.Record(tx, m.agent, m.queue[0], channel.Outcome{State: o}) })
	m.queue = m.queue[1:]
}

// work does all that the machine does by itself until nothing is due in the next seconds.
func (m *orderModel) work() {
	m.t.Helper()
	for range 3 {
		for more := true; more; {
			var err error
			if more, err = m.r.work(m.t.Context(), m.store); err != nil {
				m.t.Fatal(err)
			}
			m.r.wg.Wait()
		}
		m.now = m.now.Add(time.Second)
	}
}

// status returns the rows of the ledger of a message over the channel.
func (m *orderModel) status(id hub.EnvelopeID) string {
	m.t.Helper()
	rows, err := hub.Read(m.t.Context(), m.store, func(rd hub.Reader) ([]hub.Delivery, error) { return rd.Deliveries(id) })
	if err != nil {
		m.t.Fatal(err)
	}
	var words []string
	for _, d := range rows {
		words = append(words, string(d.Status))
	}
	return strings.Join(words, " ")
}

// orderSteps are the events that can meet a notice on its way.
var orderSteps = []struct {
	name string
	do   func(*orderModel)
}{
	{"high", func(m *orderModel) { m.send(hub.PriorityHigh) }},
	{"critical", func(m *orderModel) { m.send(hub.PriorityCritical) }},
	{"high in the next delivery", func(m *orderModel) { m.during = append(m.during, hub.PriorityHigh) }},
	{"taken", func(m *orderModel) { m.take(channel.Accepted) }},
	{"given up", func(m *orderModel) { m.take(channel.Failed) }},
	{"restart", func(m *orderModel) { m.start() }},
}

// TestOrdersOfNotices runs every sequence of four events that can meet a notice to people on its
// way. Every message is announced once, without another message or a restart, and a critical one
// at once.
func TestOrdersOfNotices(t *testing.T) {
	const depth = 4
	store, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m := &orderModel{t: t, store: store, ids: hub.NewIDs(time.Now), now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}

	sequences := 1
	for range depth {
		sequences *= len(orderSteps)
	}
	failures := 0
	for n := range sequences {
		m.agent = hub.AgentID(fmt.Sprintf("agent-%d", n))
		m.sent, m.urgent, m.queue, m.shown, m.during = nil, nil, nil, nil, nil
		m.start()
		m.work()

		var names []string
		fail := func(format string, args ...any) {
			failures++
			t.Errorf("%s: %s", strings.Join(names, ", "), fmt.Sprintf(format, args...))
		}
		for i, rest := 0, n; i < depth; i, rest = i+1, rest/len(orderSteps) {
			step := orderSteps[rest%len(orderSteps)]
			names = append(names, step.name)
			step.do(m)
			m.work()
			if slices.ContainsFunc(m.urgent, func(id hub.EnvelopeID) bool { return !slices.Contains(m.shown, id) }) {
				fail("a critical message waits for another notice")
			}
		}

		// People take everything that is on its way.
		for len(m.queue) > 0 {
			m.take(channel.Accepted)
			m.work()
		}
		for _, id := range m.sent {
			if got := m.status(id); got != "accepted" && got != "failed" {
				fail("message %d of %d: the ledger has %s", slices.Index(m.sent, id)+1, len(m.sent), got)
			}
		}
		if len(m.shown) != len(m.sent) {
			fail("%d messages, %d announced", len(m.sent), len(m.shown))
		}
		if failures > 5 {
			t.Fatal("and more")
		}
	}
}
