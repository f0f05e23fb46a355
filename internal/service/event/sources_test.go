package event_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/event"
)

func TestSettings(t *testing.T) {
	t.Run("only the operator changes sources", func(t *testing.T) {
		w := newWorld(t)
		builder := hub.Caller{Kind: hub.CallerAgent, ID: "builder"}
		_, added := w.Add(t.Context(), builder, event.Setting{Name: "mine", Vendor: hub.VendorGitHub, Secret: secret})
		_, polled := w.SetPoll(t.Context(), builder, event.PollSetting{Name: "hooks", Repository: "acme/shop"})
		_, shown := w.Show(t.Context(), builder, "hooks")
		for what, err := range map[string]error{"add": added, "poll": polled, "show": shown, "remove": w.Remove(t.Context(), builder, "hooks")} {
			if hub.CodeOf(err) != hub.CodeDenied {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if all, err := w.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("got %+v, %v", all, err)
		}
	})
	t.Run("settings that could not work are refused", func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(*event.Setting)
			code   hub.Code
		}{
			"a name that is no name":        {func(s *event.Setting) { s.Name = "My Hooks" }, hub.CodeInvalid},
			"an unknown vendor":             {func(s *event.Setting) { s.Vendor = "sourceforge" }, hub.CodeInvalid},
			"a short secret":                {func(s *event.Setting) { s.Secret = secret[:15] }, hub.CodeInvalid},
			"a long secret":                 {func(s *event.Setting) { s.Secret = strings.Repeat("x", 513) }, hub.CodeInvalid},
			"unknown actors":                {func(s *event.Setting) { s.Actors = "friends" }, hub.CodeInvalid},
			"a rule for an unknown kind":    {func(s *event.Setting) { s.Rules = []hub.EventRule{{Kind: "gossip"}} }, hub.CodeInvalid},
			"too many rules":                {func(s *event.Setting) { s.Rules = make([]hub.EventRule, 101) }, hub.CodeTooLarge},
			"fields of a vendor":            {func(s *event.Setting) { s.Fields = map[string]string{"kind": "/kind"} }, hub.CodeInvalid},
			"an unknown target":             {func(s *event.Setting) { s.To = "ghost" }, hub.CodeUnknownRecipient},
			"an unknown target of a rule":   {func(s *event.Setting) { s.Rules = []hub.EventRule{{To: "team:ghosts"}} }, hub.CodeUnknownRecipient},
			"an unknown team as the target": {func(s *event.Setting) { s.To = "team:ghosts" }, hub.CodeUnknownRecipient},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				set := event.Setting{Name: "new", Vendor: hub.VendorGitHub, Secret: secret}
				c.change(&set)
				if _, err := w.Add(t.Context(), operator, set); hub.CodeOf(err) != c.code {
					t.Errorf("got %v, want %s", err, c.code)
				}
				if all, err := w.List(t.Context()); err != nil || len(all) != 1 {
					t.Errorf("got %+v, %v", all, err)
				}
			})
		}
	})
	t.Run("a source is shown without its secret", func(t *testing.T) {
		w := newWorld(t)
		w.poll(func(p *event.PollSetting) { p.Token = "a token of the vendor" })
		got, err := w.Show(t.Context(), operator, "hooks")
		raw, _ := json.Marshal(got)
		if err != nil || strings.Contains(string(raw), secret) || strings.Contains(string(raw), "a token") {
			t.Errorf("got %s, %v", raw, err)
		}
	})
	t.Run("a source that is added again keeps its polls, unless its vendor is another", func(t *testing.T) {
		w := newWorld(t)
		w.poll(func(*event.PollSetting) {})
		if got := w.source(func(s *event.Setting) { s.To = "builder" }); len(got.Polls) != 1 || got.To != "builder" {
			t.Errorf("got %+v", got)
		}
		if got := w.source(func(s *event.Setting) { s.Vendor = hub.VendorGitLab }); len(got.Polls) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a hub has at most 100 sources", func(t *testing.T) {
		w := newWorld(t)
		for i := range 99 {
			w.source(func(s *event.Setting) { s.Name = fmt.Sprintf("s%d", i) })
		}
		_, err := w.Add(t.Context(), operator, event.Setting{Name: "more", Vendor: hub.VendorGitHub, Secret: secret})
		if hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("got %v", err)
		}
		w.source(func(s *event.Setting) { s.Name = "s7" }) // a known one is replaced
	})
	t.Run("a removed source has no door and receives nothing", func(t *testing.T) {
		w := newWorld(t)
		if d, err := w.Door(t.Context(), "hooks"); err != nil || d.Secret != secret {
			t.Fatalf("got %+v, %v", d, err)
		}
		w.must(w.Remove(t.Context(), operator, "hooks"))
		if _, err := w.Door(t.Context(), "hooks"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("door: %v", err)
		}
		if err := w.Remove(t.Context(), operator, "hooks"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestCounts(t *testing.T) {
	counts := func(w *world) map[hub.EventOutcome]int64 {
		w.Helper()
		got, err := w.Show(w.Context(), operator, "hooks")
		w.must(err)
		return got.Counts
	}
	t.Run("what was refused is counted at once, and once after it was stored", func(t *testing.T) {
		w := newWorld(t)
		w.Count("hooks", hub.EventForged)
		w.Count("hooks", hub.EventForged)
		w.receive(comment(func(*hub.Event) {}))
		for range 2 {
			if got := counts(w); got[hub.EventForged] != 2 || got[hub.EventStored] != 1 {
				t.Errorf("got %v", got)
			}
			w.must(w.StoreCounts(t.Context()))
		}
	})
	t.Run("counts of a source that is gone are dropped", func(t *testing.T) {
		w := newWorld(t)
		w.Count("ghost", hub.EventForged)
		w.must(w.StoreCounts(t.Context()))
	})
	t.Run("counts that could not be stored are stored the next time", func(t *testing.T) {
		w := newWorld(t)
		w.Count("hooks", hub.EventTooMany)
		if err := w.StoreCounts(ended(t)); err == nil {
			t.Fatal("a call that has ended stored counts")
		}
		w.Count("hooks", hub.EventTooMany)
		w.must(w.StoreCounts(t.Context()))
		if got := counts(w); got[hub.EventTooMany] != 2 {
			t.Errorf("got %v", got)
		}
	})
}

// poll makes the hub ask about acme/shop.
func (w *world) poll(change func(*event.PollSetting)) {
	w.Helper()
	set := event.PollSetting{Name: "hooks", Repository: "acme/shop", API: "https://api.example.com"}
	change(&set)
	_, err := w.SetPoll(w.Context(), operator, set)
	w.must(err)
}

// polls returns the only poll.
func (w *world) polls() event.Poll {
	w.Helper()
	all, err := w.Polls(w.Context())
	w.must(err)
	if len(all) != 1 {
		w.Fatalf("got %+v", all)
	}
	return all[0]
}

func TestPolls(t *testing.T) {
	t.Run("a poll begins now, goes on at its position, and has its token", func(t *testing.T) {
		w := newWorld(t)
		began := w.now
		w.poll(func(p *event.PollSetting) { p.Token = "token" })
		got := w.polls()
		if got.Token != "token" || got.Every != time.Minute || got.Position != nil || got.Since.Before(began) || got.Vendor != hub.VendorGitHub {
			t.Errorf("got %+v", got)
		}
		w.must(w.Polled(t.Context(), got, json.RawMessage(`{"page":3}`)))
		if got := w.polls(); string(got.Position) != `{"page":3}` {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a poll that is set again reads its lists anew", func(t *testing.T) {
		w := newWorld(t)
		w.poll(func(*event.PollSetting) {})
		first := w.polls()
		w.must(w.Polled(t.Context(), first, json.RawMessage(`{"page":3}`)))
		w.poll(func(p *event.PollSetting) { p.Seconds = 90 })
		if got := w.polls(); got.Position != nil || got.Every != 90*time.Second || !got.Since.Equal(first.Since.Time) {
			t.Errorf("got %+v, want the events since %s", got, first.Since)
		}
	})
	t.Run("events older than deliveries are known for are not wanted", func(t *testing.T) {
		w := newWorld(t)
		w.poll(func(*event.PollSetting) {})
		w.now = w.now.Add(30 * 24 * time.Hour)
		if got := w.polls(); w.now.Sub(got.Since.Time) > 6*24*time.Hour+time.Minute {
			t.Errorf("got events since %s, now it is %s", got.Since, w.now)
		}
	})
	t.Run("only events that were not received are fresh", func(t *testing.T) {
		w := newWorld(t)
		known := comment(func(*hub.Event) {})
		fresh := comment(func(e *hub.Event) { e.Deliveries = []string{"d-2"} })
		w.receive(known)
		got, err := w.Unknown(t.Context(), "hooks", []hub.Event{known, fresh})
		if err != nil || len(got) != 1 || !slices.Equal(got[0].Deliveries, fresh.Deliveries) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("what cannot be polled is refused", func(t *testing.T) {
		w := newWorld(t)
		w.source(func(s *event.Setting) { s.Name, s.Vendor = "plain", hub.VendorGeneric })
		for name, c := range map[string]struct {
			set  event.PollSetting
			code hub.Code
		}{
			"no source":              {event.PollSetting{Name: "ghost", Repository: "acme/shop"}, hub.CodeNotFound},
			"a generic source":       {event.PollSetting{Name: "plain", Repository: "acme/shop"}, hub.CodeInvalid},
			"a path":                 {event.PollSetting{Name: "hooks", Repository: "acme/../shop"}, hub.CodeInvalid},
			"a name without owner":   {event.PollSetting{Name: "hooks", Repository: "shop"}, hub.CodeInvalid},
			"a query":                {event.PollSetting{Name: "hooks", Repository: "acme/shop?x=1"}, hub.CodeInvalid},
			"the stop of no poll":    {event.PollSetting{Name: "hooks", Repository: "acme/shop", Stop: true}, hub.CodeNotFound},
			"a token of 513 letters": {event.PollSetting{Name: "hooks", Repository: "acme/shop", Token: strings.Repeat("x", 513)}, hub.CodeInvalid},
		} {
			if _, err := w.SetPoll(t.Context(), operator, c.set); hub.CodeOf(err) != c.code {
				t.Errorf("%s: got %v, want %s", name, err, c.code)
			}
		}
	})
	t.Run("a source polls at most 20 repositories, and a stop makes room", func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			w.poll(func(p *event.PollSetting) { p.Repository = fmt.Sprintf("acme/shop%d", i) })
		}
		set := event.PollSetting{Name: "hooks", Repository: "acme/more"}
		if _, err := w.SetPoll(t.Context(), operator, set); hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("got %v", err)
		}
		w.poll(func(p *event.PollSetting) { p.Repository, p.Stop = "acme/shop3", true })
		w.poll(func(p *event.PollSetting) { p.Repository = "acme/more" })
	})
}
