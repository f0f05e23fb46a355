package usage

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

// at returns a moment of the test's day.
func at(minute int) hub.Time {
	return hub.At(time.Date(2026, 11, 18, 9, minute, 0, 0, time.UTC))
}

// TestAttribution holds the rule that says for which work a call was made.
func TestAttribution(t *testing.T) {
	accepted := hub.Handoff{ID: "h1", To: "builder", AcceptedAt: at(10), ThreadID: "t1", Team: "core"}
	done := hub.Handoff{ID: "h2", To: "builder", AcceptedAt: at(5), ResolvedAt: at(20), ThreadID: "t2"}
	task := hub.Task{ID: "T-1", Team: "core", Owner: "builder", State: hub.TaskInProgress, StartedAt: at(12)}
	brought := hub.Task{ID: "T-2", Team: "docs", Owner: "builder", State: hub.TaskInProgress, StartedAt: at(1), Handoff: "h1"}

	for _, tt := range []struct {
		name string
		work work
		at   hub.Time
		want hub.Usage
	}{
		{"a run, and nothing else", work{run: &hub.Run{ID: "r1"}, handoffs: []hub.Handoff{accepted}}, at(30), hub.Usage{}},
		{"a run for a handoff", work{run: &hub.Run{ID: "r1", Handoff: "h2"}, handoffs: []hub.Handoff{accepted, done}}, at(30), hub.Usage{Handoff: "h2"}},
		{"the handoff that was accepted last", work{handoffs: []hub.Handoff{done, accepted}}, at(15), hub.Usage{Handoff: "h1", Team: "core"}},
		{"the one that the tools named last", work{handoffs: []hub.Handoff{done, accepted}, points: []focusPoint{{At: at(11), Handoff: "h1"}, {At: at(12), Handoff: "h2"}}}, at(15), hub.Usage{Handoff: "h2"}},
		{"a turn is split by calls", work{handoffs: []hub.Handoff{done, accepted}, points: []focusPoint{{At: at(11), Handoff: "h1"}, {At: at(14), Handoff: "h2"}}}, at(13), hub.Usage{Handoff: "h1", Team: "core"}},
		{"after its end the handoff gets nothing", work{handoffs: []hub.Handoff{done}, points: []focusPoint{{At: at(6), Handoff: "h2"}}}, at(21), hub.Usage{}},
		{"before it was accepted its conversation counts", work{handoffs: []hub.Handoff{accepted}, thread: "t1", wake: "w_1"}, at(9), hub.Usage{Handoff: "h1", Team: "core", Thread: "t1", Wake: "w_1"}},
		{"a task", work{tasks: []hub.Task{task}}, at(13), hub.Usage{Task: "T-1", Team: "core"}},
		{"the task that a handoff brought", work{handoffs: []hub.Handoff{accepted}, tasks: []hub.Task{brought}}, at(13), hub.Usage{Handoff: "h1", Task: "T-2", Team: "docs"}},
		{"the conversation of a wake", work{thread: "t9", team: "core", wake: "w_1"}, at(13), hub.Usage{Thread: "t9", Team: "core", Wake: "w_1"}},
		{"own work", work{}, at(13), hub.Usage{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := hub.Usage{ModelCall: hub.ModelCall{At: tt.at}}
			tt.work.attribute(&got)
			tt.want.At = tt.at
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// million is a million tokens of each kind.
var million = hub.Tokens{Input: 1_000_000, Output: 1_000_000, CachedRead: 1_000_000, CachedWrite: 1_000_000, Reasoning: 1_000_000}

func TestPrices(t *testing.T) {
	p := readPrices("")
	for model, want := range map[string]int64{
		"claude-sonnet-4-5": 22_050_000, "claude-sonnet-4-5-20250929": 22_050_000, "anthropic/claude-sonnet-4-5": 22_050_000, "Claude-Sonnet-4-5[1m]": 22_050_000,
		"claude-sonnet-4.5": 22_050_000, "gpt-5-codex": 12_625_000,
	} {
		if got, currency, ok := p.estimate(model, usd, million); got != want || !ok || currency != usd {
			t.Errorf("%q: %d %s %t, want %d", model, got, currency, ok, want)
		}
	}
	for name := range p.models {
		if VendorOf(name) == "" {
			t.Errorf("%s has no vendor", name)
		}
	}
}

// TestUnpriced holds that a model without a price is not free.
func TestUnpriced(t *testing.T) {
	p := &Prices{models: map[string]Price{}}
	p.put(priceFile{Currency: usd, Models: map[string]Price{
		"claude-small": {Input: 1, Output: 5, CachedRead: 1, CachedWrite: 2}, "claude-large": {Input: 5, Output: 25, CachedRead: 0.5, CachedWrite: 6},
		"gpt-large": {Input: 30, Output: 180, CachedRead: 30, CachedWrite: 30}, "local": {},
	}}, false)
	p.put(priceFile{Currency: "CHF", Models: map[string]Price{"mistral-small": {Input: 1, Output: 1, CachedRead: 1, CachedWrite: 1}}}, true)

	anthropic := int64((5 + 25 + 1 + 6) * hub.Million)
	all := int64((30 + 180 + 30 + 30) * hub.Million)
	for _, tt := range []struct {
		model, currency string
		want            int64
	}{
		{"claude-next", usd, anthropic},            // member by member, of its vendor
		{"anthropic/next", usd, anthropic},         // the vendor is named by the service
		{"unheard-of", usd, all},                   // of the whole list
		{"", usd, all},                             // a call without a name
		{"gemini-next", usd, all},                  // a vendor without any price
		{"mistral-next", usd, all},                 // a vendor without a price in this currency
		{"mistral-next", "CHF", 4 * hub.Million},   // with one
		{"local", usd, 0},                          // a price of nothing is a price
		{"ollama/claude-next[1m]", usd, anthropic}, // by its name, whatever serves it
	} {
		got, currency, ok := p.estimate(tt.model, tt.currency, million)
		if got != tt.want || currency != tt.currency || !ok {
			t.Errorf("%q in %s: %d %s %t, want %d", tt.model, tt.currency, got, currency, ok, tt.want)
		}
	}
	if _, _, ok := p.estimate("claude-next", "EUR", million); ok {
		t.Error("a model without a price has one in a currency without any")
	}
}

func TestListProblem(t *testing.T) {
	day, err := time.Parse(time.DateOnly, readPrices("").list.AsOf)
	if err != nil {
		t.Fatal(err)
	}
	if got := ListProblem("", day.Add(listTime)); got != "" {
		t.Errorf("120 days later: %s", got)
	}
	if got := ListProblem("", day.Add(listTime+24*time.Hour)); !strings.Contains(got, "121 days old") {
		t.Errorf("121 days later: %q", got)
	}
}

// TestPurse holds that estimates and stated sums stay apart, and that currencies do.
func TestPurse(t *testing.T) {
	p := purse{}
	prices := readPrices("")
	p.add(hub.UsageSum{Model: "gpt-5", Tokens: hub.Tokens{Input: 1_000_000}}, prices, usd)
	p.add(hub.UsageSum{Model: "gpt-5", Currency: "USD", Cost: 500_000, Tokens: hub.Tokens{Input: 1_000_000}}, prices, usd)
	p.add(hub.UsageSum{Model: "m", Currency: "EUR", Cost: 7}, prices, usd)
	p.add(hub.UsageSum{Model: "unknown"}, prices, usd)
	want := []Cost{{"EUR", 0.000007, 0}, {"USD", 0.5, 1.25}}
	if got := p.costs(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBudgetStates(t *testing.T) {
	b := hub.Budget{Limit: 10}
	for used, want := range map[int64]hub.BudgetState{0: hub.BudgetOpen, 7: hub.BudgetOpen, 8: hub.BudgetWarned, 9: hub.BudgetWarned, 10: hub.BudgetSpent, 11: hub.BudgetSpent} {
		if got := b.State(used); got != want {
			t.Errorf("%d of 10: %s, want %s", used, got, want)
		}
	}
	for per, want := range map[hub.BudgetPeriod]hub.Time{hub.PerHour: at(0), hub.PerDay: at(0).Add(-9 * time.Hour), hub.PerTotal: at(3)} {
		b := hub.Budget{Per: per, SetAt: at(3)}
		if from, _ := b.Period(at(59)); !from.Equal(want.Time) {
			t.Errorf("per %s: from %s, want %s", per, from, want)
		}
	}
	for name, l := range map[string]Limit{
		"nothing": {Per: hub.PerDay}, "two": {Tokens: 1, Turns: 1, Per: hub.PerDay}, "negative": {Tokens: -1, Per: hub.PerDay},
		"no period": {Tokens: 1}, "no currency": {Money: 5, Currency: "dollars", Per: hub.PerDay},
	} {
		if _, err := newBudget("test", l); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
