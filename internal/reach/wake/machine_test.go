package wake

import (
	"context"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
)

// TestWords holds the table of the outcomes of channels and the words of the ledger.
func TestWords(t *testing.T) {
	want := map[channel.State]hub.DeliveryStatus{
		channel.Waiting: "pending", channel.Handed: "pending", channel.Offered: "offered", channel.Accepted: "accepted",
		channel.TurnStarted: "accepted", channel.TurnEnded: "accepted", channel.Read: "read", channel.Held: "held",
		channel.Refused: "skipped", channel.Failed: "failed",
	}
	for outcome, word := range want {
		state := stateOf[outcome]
		if statusOf[state] != word || outcomeOf(state) != outcome {
			t.Errorf("%s: got %s, %s, want %s", outcome, statusOf[state], outcomeOf(state), word)
		}
	}
	if len(stateOf) != len(want) {
		t.Errorf("got %d outcomes, want %d", len(stateOf), len(want))
	}
}

func TestLimits(t *testing.T) {
	got, err := Limits{PerHour: 7}.complete()
	if err != nil || got != (Limits{Gap: 30 * time.Second, PerHour: 7, PairPerHour: 20}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, l := range []Limits{{Gap: -1}, {PerHour: -1}, {PairPerHour: -1}} {
		if _, err := New(nil, nil, Options{Limits: l}); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%+v: got %v", l, err)
		}
	}
}

// named is a channel with a name and nothing else.
type named struct {
	channel.Channel
	name hub.Channel
}

func (n named) Name() hub.Channel { return n.name }

func TestNewRefusesOtherChannels(t *testing.T) {
	for _, name := range []hub.Channel{hub.ChannelInbox, "pigeon", ""} {
		if _, err := New(nil, []channel.Channel{named{name: name}}, Options{}); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// broken is a channel whose methods panic.
type broken struct{ named }

func (broken) Check(context.Context) error                      { panic("check") }
func (broken) Reach(context.Context, hub.AgentID) channel.Reach { panic("reach") }

func TestBrokenChannel(t *testing.T) {
	now := time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)
	r, err := New(nil, []channel.Channel{broken{named{name: hub.ChannelNotify}}}, Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.best(nil, hub.ChannelNotify, "builder"); err != nil || got.reach != unasked {
		t.Errorf("before a survey: got %+v, %v", got, err)
	}
	if err := r.Survey(t.Context(), "builder"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.best(nil, hub.ChannelNotify, "builder"); err != nil || got.over != nil || got.reach.When != hub.ReachUnreachable || got.reach.Reason == "" {
		t.Errorf("got %+v, %v", got, err)
	}
	r.check(t.Context(), hub.ChannelNotify, r.channels[hub.ChannelNotify])
	if got := r.Capability(hub.ChannelNotify); got.Enabled || got.State != hub.Failed {
		t.Errorf("got %+v", got)
	}
}

func TestBudget(t *testing.T) {
	start := hub.At(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	a := &agentRecord{Machine: &Machine{o: Options{Limits: Limits{PerHour: 4, PairPerHour: 2}}}}
	for i, w := range []*hub.Wake{
		{Cost: 1, Senders: []hub.AgentID{"ada"}},
		{Cost: 0, Senders: []hub.AgentID{"ada"}}, // context costs nothing
		{Cost: 1, Senders: []hub.AgentID{"ada", "bob"}},
	} {
		w.ID, w.At, w.State = string(rune('a'+i)), start.Add(time.Duration(i)*time.Minute), hub.WakeEnded
		a.wakes.add(w)
	}
	a.now = start.Add(10 * time.Minute)
	for sender, spent := range map[hub.AgentID]bool{"ada": true, "bob": false, "": false} {
		reason, until := a.budget(sender)
		if (reason != "") != spent || spent && until != start.Add(time.Hour) {
			t.Errorf("%q: got %q until %s", sender, reason, until)
		}
	}
	a.wakes.add(&hub.Wake{ID: "d", Cost: 2, At: a.now, State: hub.WakeFailed}) // one that led to nothing
	if reason, _ := a.budget("bob"); reason == "" {
		t.Error("the budget of the agent is not spent")
	}
	a.now = start.Add(time.Hour)
	if reason, _ := a.budget(""); reason != "" {
		t.Errorf("after an hour: %s", reason)
	}
	a.wakes.add(&hub.Wake{ID: "e", At: start.Add(3 * time.Hour), State: hub.WakeReserved})
	if len(a.wakes) != 1 {
		t.Errorf("%d wakes are kept, want those of the last hour", len(a.wakes))
	}
}

func TestWakesAreBounded(t *testing.T) {
	var h history
	at := hub.At(time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC))
	for range 2 * maxWakes {
		at = at.Add(time.Second)
		h.add(&hub.Wake{ID: at.String(), At: at, State: hub.WakeEnded})
	}
	if len(h) != maxWakes || h.find(at.String()) == nil {
		t.Errorf("%d wakes are kept, want the last %d", len(h), maxWakes)
	}
	h.add(&hub.Wake{ID: "open", Channel: hub.ChannelSession, At: at, State: hub.WakeOffered, Cost: 1})
	h.add(&hub.Wake{ID: "open", Channel: hub.ChannelSession, At: at, State: hub.WakeReserved})
	if w := h.find("open"); len(h) != maxWakes || w.Cost != 1 || w.N != h[len(h)-2].N+1 {
		t.Errorf("a wake of the same id: got %+v among %d", w, len(h))
	}
	if h.open(hub.ChannelWake) == nil || h.open(hub.ChannelNotify) != nil {
		t.Error("a wake that starts a turn bars the others, and none that tells people")
	}
}
