package mailroom_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func TestRates(t *testing.T) {
	t.Run("R3-091 ten direct messages a minute pass, the eleventh does not", func(t *testing.T) {
		o := open(t, nil)
		for i := range 10 {
			o.send(planner, say(fmt.Sprint("message ", i), "builder"))
			o.pass(time.Second)
		}
		e := o.refuse(planner, say("one more", "tester"), hub.CodeRateLimited)
		if e.RetryAfter != 50*time.Second {
			t.Errorf("got retry after %s, want 50s: the first was sent 10 seconds ago", e.RetryAfter)
		}
		o.send(builder, say("others are not concerned", "planner"))
		o.pass(50*time.Second - time.Millisecond)
		o.refuse(planner, say("still too early", "tester"), hub.CodeRateLimited)
		o.pass(time.Millisecond)
		o.send(planner, say("now", "tester"))
		o.refuse(planner, say("the second is 59 seconds old", "tester"), hub.CodeRateLimited)
	})
	t.Run("R3-091 a restart does not reset the count", func(t *testing.T) {
		o := open(t, nil)
		for i := range 10 {
			o.send(planner, say(fmt.Sprint("message ", i), "builder"))
		}
		o.restart(nil)
		o.refuse(planner, say("one more", "builder"), hub.CodeRateLimited)
	})
	t.Run("R3-092 five broadcasts an hour pass, the sixth does not", func(t *testing.T) {
		o := open(t, nil)
		for i := range 5 {
			o.send(planner, say(fmt.Sprint("broadcast ", i), hub.Everyone))
			o.pass(time.Minute)
		}
		e := o.refuse(planner, say("one more", hub.Everyone), hub.CodeRateLimited)
		if e.RetryAfter != 55*time.Minute {
			t.Errorf("got retry after %s, want 55m", e.RetryAfter)
		}
		o.send(planner, say("direct is another matter", "builder"))
		o.pass(55 * time.Minute)
		o.send(planner, say("one more", hub.Everyone))
	})
	t.Run("R3-093 a broadcast needs a coordinator or a high priority", func(t *testing.T) {
		o := open(t, nil)
		d := say("x", hub.Everyone)
		o.refuse(builder, d, hub.CodeDenied)
		d.Priority = hub.PriorityLow
		o.refuse(builder, d, hub.CodeDenied)
		d.Priority = hub.PriorityHigh
		o.send(builder, d)
		d.Priority = hub.PriorityCritical
		o.send(builder, d)
		o.send(planner, say("x", hub.Everyone))
		o.send(operator, say("x", hub.Everyone))
	})
	t.Run("R3-012 a broadcast goes to all others who are there now", func(t *testing.T) {
		o := open(t, nil)
		r := o.send(planner, say("x", hub.Everyone))
		to := map[hub.AgentID]bool{}
		for _, l := range r.Deliveries {
			to[l.Recipient] = true
		}
		if len(to) != 4 || to["planner"] || !to["builder"] || !to["operator"] {
			t.Errorf("got %v", to)
		}
		if !o.message(r.ID).Broadcast() {
			t.Error("the envelope keeps to: [\"*\"]")
		}
	})
	t.Run("R3-094 limits can be tightened", func(t *testing.T) {
		o := open(t, func(opts *mailroom.Options) { opts.Limits.DirectPerMinute = 2 })
		o.send(planner, say("1", "builder"))
		o.send(planner, say("2", "builder"))
		o.refuse(planner, say("3", "builder"), hub.CodeRateLimited)
	})
	for name, l := range map[string]mailroom.Limits{
		"direct": {DirectPerMinute: 20}, "broadcast": {BroadcastPerHour: 6}, "recipients": {Recipients: 11}, "hops": {ThreadHops: 51},
		"repeats": {Repeats: 4}, "trips": {TripsPerDay: 4},
		"window": {RepeatWindow: time.Second}, "suspension": {SuspendFor: time.Minute}, "cause": {CauseWindow: time.Minute}, "negative": {DirectPerMinute: -1},
	} {
		t.Run("R3-094 a looser limit is refused: "+name, func(t *testing.T) {
			if _, err := mailroom.New(nil, nil, &mailroom.Options{Limits: l}); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("unsafe limits lift rates and the breaker and say so in every answer", func(t *testing.T) {
		o := open(t, func(opts *mailroom.Options) { opts.Limits.Unsafe = true })
		for range 30 {
			if r := o.send(planner, say("same", "builder")); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "unsafe-limits") {
				t.Fatalf("got warnings %q", r.Warnings)
			}
		}
	})
}

func TestBreaker(t *testing.T) {
	loop := func(o *office) { // sends the same until it is suspended
		for range 3 {
			o.send(builder, say("same", "planner"))
		}
		o.refuse(builder, say("same", "planner"), hub.CodeCircuitOpen)
	}
	t.Run("R3-109 the fourth message with the same content suspends the sender for 5 minutes", func(t *testing.T) {
		o := open(t, nil)
		loop(o)
		o.refuse(builder, say("something else", "tester"), hub.CodeCircuitOpen)
		o.send(tester, say("others go on", "planner"))
		o.pass(5*time.Minute - time.Millisecond)
		o.refuse(builder, say("something else", "tester"), hub.CodeCircuitOpen)
		o.pass(time.Millisecond)
		o.send(builder, say("something else", "tester"))
	})
	t.Run("R3-109 other content, recipients or types do not count together", func(t *testing.T) {
		o := open(t, nil)
		for i := range 3 {
			o.send(builder, say("same", "planner"))
			o.send(builder, say(fmt.Sprint("other ", i), "planner"))
			o.send(builder, say("same", "tester"))
		}
	})
	t.Run("R3-109 a suspension survives a restart", func(t *testing.T) {
		o := open(t, nil)
		loop(o)
		o.restart(nil)
		o.refuse(builder, say("x", "tester"), hub.CodeCircuitOpen)
	})
	t.Run("R3-109 the third suspension within a day lasts until the operator lifts it", func(t *testing.T) {
		o := open(t, nil)
		for range 3 {
			loop(o)
			o.pass(10 * time.Minute)
		}
		o.pass(48 * time.Hour)
		o.refuse(builder, say("x", "tester"), hub.CodeCircuitOpen)
		if _, err := o.Reset(t.Context(), planner, "builder"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("only the operator may lift it, got %v", err)
		}
		if _, err := o.Reset(t.Context(), operator, "builder"); err != nil {
			t.Fatal(err)
		}
		o.send(builder, say("x", "tester"))
	})
	t.Run("R3-109 three suspensions spread over days do not lock", func(t *testing.T) {
		o := open(t, nil)
		for range 4 {
			loop(o)
			o.pass(13 * time.Hour)
		}
		o.send(builder, say("x", "tester"))
	})
	t.Run("R3-109 the coordinators are told, once, and cannot answer the hub", func(t *testing.T) {
		o := open(t, nil)
		loop(o)
		stop := o.run()
		in := o.inbox(planner, mailroom.InboxRequest{Wait: mailroom.MaxWait, NewOnly: true, AckAll: true})
		for len(in.Messages) > 0 && in.Messages[len(in.Messages)-1].Type != hub.TypeSystemError {
			in = o.inbox(planner, mailroom.InboxRequest{Wait: mailroom.MaxWait, NewOnly: true, AckAll: true})
		}
		stop()
		e := in.Messages[len(in.Messages)-1]
		if _, err := o.Respond(t.Context(), planner, mailroom.Draft{ReplyTo: e.ID, Text: "thank you"}); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("an answer to a message of the hub: got %v, want %s", err, hub.CodePolicy)
		}
		reply := say("thank you", "builder")
		reply.ReplyTo = e.ID
		o.refuse(planner, reply, hub.CodePolicy)
		if e.From != hub.Self || !strings.Contains(string(e.Payload), "builder") {
			t.Errorf("got %s from %s", e.Payload, e.From)
		}
		o.run()()
		if in := o.inbox(planner, mailroom.InboxRequest{NewOnly: true}); len(in.Messages) != 0 {
			t.Errorf("got %v again", texts(in.Messages))
		}
	})
	t.Run("R3-109 two sends at once are one suspension", func(t *testing.T) {
		o := open(t, nil)
		store := &watchedStore{Store: o.store}
		o.store = store
		o.restart(nil)
		for range mailroom.DefaultLimits.TripsPerDay - 1 {
			for range mailroom.DefaultLimits.Repeats {
				o.send(builder, say("same", "planner"))
			}
			// Both sends are refused before one of them suspends the sender.
			var both sync.WaitGroup
			both.Add(2)
			store.before = func(d hub.Durability) {
				if d == hub.SurvivesPowerLoss {
					both.Done()
					both.Wait()
				}
			}
			refusals := make(chan error, 2)
			for range cap(refusals) {
				go func() {
					_, err := o.Send(t.Context(), builder, say("same", "planner"))
					refusals <- err
				}()
			}
			for range cap(refusals) {
				if err := <-refusals; hub.CodeOf(err) != hub.CodeCircuitOpen {
					t.Fatalf("got %v, want %s", err, hub.CodeCircuitOpen)
				}
			}
			store.before = nil
			o.pass(10 * time.Minute)
		}
		o.send(builder, say("one suspension less than locks it", "tester"))
	})
	t.Run("R3-109 a plain count of one type can be limited too", func(t *testing.T) {
		o := open(t, func(opts *mailroom.Options) { opts.Limits.SameType = 2 })
		o.send(builder, say("1", "planner"))
		o.send(builder, say("2", "planner"))
		o.refuse(builder, say("3", "planner"), hub.CodeCircuitOpen)
	})
}

// A watchedStore calls before with the durability of each update.
type watchedStore struct {
	hub.Store
	before func(hub.Durability)
}

func (s *watchedStore) Update(ctx context.Context, d hub.Durability, fn func(hub.Tx) error) error {
	if s.before != nil {
		s.before(d)
	}
	return s.Store.Update(ctx, d, fn)
}

func TestDurability(t *testing.T) {
	o := open(t, nil)
	store := &watchedStore{Store: o.store}
	o.store = store
	o.restart(nil)
	for _, c := range []struct {
		rule     string
		priority hub.Priority
		gate     hub.HumanGate
		want     hub.Durability
	}{
		{"a message of low priority survives a kill", hub.PriorityLow, hub.GateNone, hub.SurvivesKill},
		{"a message of normal priority survives a kill", hub.PriorityNormal, hub.GateNone, hub.SurvivesKill},
		{"a message of high priority survives a loss of power", hub.PriorityHigh, hub.GateNone, hub.SurvivesPowerLoss},
		{"a message of critical priority survives a loss of power", hub.PriorityCritical, hub.GateNone, hub.SurvivesPowerLoss},
		{"a message that waits for the operator survives a loss of power", hub.PriorityNormal, hub.GateRequired, hub.SurvivesPowerLoss},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var got []hub.Durability
			store.before = func(d hub.Durability) { got = append(got, d) }
			draft := say(c.rule, "planner")
			draft.Priority = c.priority
			draft.Policy = &hub.Policy{HumanGate: c.gate}
			o.send(builder, draft)
			if !slices.Equal(got, []hub.Durability{c.want}) {
				t.Errorf("got updates with %v, want one with %v", got, c.want)
			}
		})
	}
}

func TestLoops(t *testing.T) {
	answer := func(o *office, who hub.Caller, id hub.EnvelopeID, i int) (mailroom.Receipt, error) {
		return o.Respond(o.t.Context(), who, mailroom.Draft{ReplyTo: id, Text: fmt.Sprint("no, you ", i)})
	}
	t.Run("R3-110 two agents that answer each other stop at 50 messages", func(t *testing.T) {
		o := open(t, nil)
		r := o.send(planner, say("you", "builder"))
		for i := 1; ; i++ {
			o.pass(10 * time.Second) // below every rate
			next, err := answer(o, []hub.Caller{planner, builder}[i%2], r.ID, i)
			if err != nil {
				if hub.CodeOf(err) != hub.CodeLoop || i != 50 {
					t.Errorf("message %d: got %v, want %s for message 50", i, err, hub.CodeLoop)
				}
				break
			}
			r = next
		}
	})
	t.Run("R3-110 a circle over three agents and ever new threads stops too", func(t *testing.T) {
		o := open(t, func(opts *mailroom.Options) { opts.Limits.ThreadHops = 7 })
		ring := []hub.Caller{planner, builder, tester}
		o.send(ring[0], say("round 0", ring[1].ID))
		for i := 1; ; i++ {
			o.pass(10 * time.Second)
			me := ring[i%3]
			if in := o.inbox(me, mailroom.InboxRequest{AckAll: true}); len(in.Messages) != 1 {
				t.Fatalf("round %d: %s got %v", i, me.ID, texts(in.Messages))
			}
			_, err := o.Send(t.Context(), me, say(fmt.Sprint("round ", i), ring[(i+1)%3].ID))
			if err != nil {
				if hub.CodeOf(err) != hub.CodeLoop || i != 7 {
					t.Errorf("round %d: got %v, want %s in round 7", i, err, hub.CodeLoop)
				}
				break
			}
		}
		t.Run("and a message from the operator begins anew", func(t *testing.T) {
			o.send(operator, say("go on", "tester"))
			in := o.inbox(tester, mailroom.InboxRequest{AckAll: true})
			if hop := o.message(in.Messages[len(in.Messages)-1].ID).Hop; hop != 0 {
				t.Errorf("got hop %d, want 0", hop)
			}
		})
	})
	t.Run("R3-110 what was read long ago, or in another session, is not a cause", func(t *testing.T) {
		o := open(t, nil)
		r := o.send(planner, say("x", "builder"))
		one, two := builder, builder
		one.Session, two.Session = "one", "two"
		o.inbox(one, mailroom.InboxRequest{})
		if m := o.message(o.send(one, say("a", "tester")).ID); m.Cause != r.ID || m.Hop != 1 {
			t.Errorf("same session: got cause %q, hop %d", m.Cause, m.Hop)
		}
		if m := o.message(o.send(two, say("b", "tester")).ID); m.Cause != "" || m.Hop != 0 {
			t.Errorf("other session: got cause %q, hop %d", m.Cause, m.Hop)
		}
		if m := o.message(o.send(builder, say("b by a command, which has no session", "tester")).ID); m.Cause != r.ID || m.Hop != 1 {
			t.Errorf("no session: got cause %q, hop %d", m.Cause, m.Hop)
		}
		o.pass(10 * time.Minute)
		if m := o.message(o.send(one, say("c", "tester")).ID); m.Cause != "" || m.Hop != 0 {
			t.Errorf("later: got cause %q, hop %d", m.Cause, m.Hop)
		}
	})
}
