package usage

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/testing/doctable"
)

// told is a report of calls by an agent, in its own words.
func (l *till) said(agent hub.AgentID, calls ...hub.ModelCall) Receipt {
	l.t.Helper()
	r, err := l.Record(l.t.Context(), hub.Caller{ID: agent}, Report{Source: hub.UsageTranscript, CLI: "claude", Session: "s", Calls: calls})
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// known is a report of the hub itself about calls of an agent.
func (l *till) known(agent hub.AgentID, calls ...hub.ModelCall) Receipt {
	l.t.Helper()
	r, err := l.Record(l.t.Context(), hub.Caller{ID: hub.Self}, Report{Agent: agent, Source: hub.UsageACP, CLI: "claude", Session: "s", Calls: calls})
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// inputs returns the input tokens of each agent, and of all those that the hub knows.
func (l *till) inputs() (of map[string]int64, known int64) {
	l.t.Helper()
	got, err := l.Spend(l.t.Context(), hub.Caller{ID: hub.Operator, Kind: hub.CallerOperator, Auditor: true}, Query{})
	if err != nil {
		l.t.Fatal(err)
	}
	of = map[string]int64{}
	for _, r := range got.Rows {
		if r.Input > 0 {
			of[r.Key] = r.Input
		}
	}
	return of, got.Total.Input - got.Total.Said
}

// call is a model call with some input tokens.
func call(id string, input int64) hub.ModelCall {
	return hub.ModelCall{ID: id, Model: "gpt-5", Tokens: hub.Tokens{Input: input}}
}

// TestSaid holds who may say what about a call.
func TestSaid(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reports func(*till)
		of      map[string]int64
		known   int64
		told    int // messages to the operator
	}{
		{"of two words about one call the larger counts, in either order", func(l *till) {
			l.said("ada", call("a", 1))
			l.said("ada", call("a", 900_000))
			l.said("ada", call("b", 900_000))
			l.said("ada", call("b", 1))
		}, map[string]int64{"ada": 1_800_000}, 0, 0},
		{"of two readings of one call the larger counts", func(l *till) {
			l.known("ada", call("a", 10))
			l.known("ada", call("a", 30))
			l.known("ada", call("a", 20))
		}, map[string]int64{"ada": 30}, 30, 0},
		{"the hub's reading replaces a word, smaller or larger", func(l *till) {
			l.said("ada", call("a", 1), call("b", 900))
			l.known("ada", call("a", 50), call("b", 50))
		}, map[string]int64{"ada": 100}, 100, 0},
		{"a word never replaces the hub's reading", func(l *till) {
			l.known("ada", call("a", 50))
			l.said("ada", call("a", 900))
		}, map[string]int64{"ada": 50}, 50, 0},
		{"a word about another agent's call never hides it", func(l *till) {
			l.said("ben", call("a", 1))
			l.known("ada", call("a", 900))
		}, map[string]int64{"ada": 900}, 900, 1},
		{"a word about a call that another agent made is dropped, and the operator is told once a day", func(l *till) {
			l.known("ada", call("a", 50))
			l.said("ben", call("a", 900))
			l.said("ben", call("a", 901))
		}, map[string]int64{"ada": 50}, 50, 1},
		{"two agents that only say so each count for themselves", func(l *till) {
			l.said("ada", call("a", 5))
			l.said("ben", call("a", 7))
		}, map[string]int64{"ada": 5, "ben": 7}, 0, 0},
		{"a copy of a transcript counts once, without a word about it", func(l *till) {
			l.known("ada", call("a", 5))
			l.known("ben", call("a", 5))
		}, map[string]int64{"ada": 5}, 5, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := openTill(t)
			tt.reports(l)
			of, known := l.inputs()
			if !reflect.DeepEqual(of, tt.of) || known != tt.known {
				t.Errorf("got %v, %d known; want %v, %d known", of, known, tt.of, tt.known)
			}
			if len(l.mail.told) != tt.told {
				t.Errorf("told %v, want %d messages to the operator", l.mail.told, tt.told)
			}
			if err := l.sumsAgree(); err != "" {
				t.Error(err)
			}
		})
	}
}

// sumsAgree compares the sums of records with those of the journal.
func (l *till) sumsAgree() string {
	l.t.Helper()
	journal, stored := map[string]int64{}, map[string]int64{}
	err := l.store.View(l.t.Context(), func(rd hub.Reader) error {
		records, err := rd.Usage().Records(0, 100)
		for _, r := range records {
			stored[hub.NewUsageID(r.Record)] = r.Input
		}
		if err != nil {
			return err
		}
		entries, err := rd.Journal(hub.JournalQuery{Limit: 1000})
		for _, e := range entries {
			var f hub.UsageRecord
			if json.Unmarshal(e.Facts, &f) == nil && e.Action == actions.UsageRecorded {
				journal[e.Subject] += f.Input
			}
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if !reflect.DeepEqual(journal, stored) {
		return "the journal has other sums than the records"
	}
	return ""
}

// TestReadCalls holds that what the hub finds in a transcript is known, with the counts that it read.
func TestReadCalls(t *testing.T) {
	l := openTill(t)
	l.o.Read = func(_ context.Context, r Report) map[string]hub.ModelCall {
		if len(r.Files) != 1 || r.Files[0].Path != "/t.jsonl" {
			t.Errorf("asked to read %+v", r.Files)
		}
		return map[string]hub.ModelCall{"a": call("a", 40)}
	}
	r := Report{Source: hub.UsageTranscript, CLI: "claude", Calls: []hub.ModelCall{call("a", 1), call("b", 1)}, Files: []TranscriptPart{{Path: "/t.jsonl"}}}
	if _, err := l.Record(t.Context(), hub.Caller{ID: "ada"}, r); err != nil {
		t.Fatal(err)
	}
	if of, known := l.inputs(); of["ada"] != 41 || known != 40 {
		t.Errorf("got %v, %d known, want 41 and 40", of, known)
	}
}

// TestMoneyGate has every kind of evidence against the budgets of ada, of a handoff and of the hub: what
// spends each, and what honest users rely on.
func TestMoneyGate(t *testing.T) {
	dear := hub.ModelCall{ID: "c", Model: "gpt-5", Tokens: hub.Tokens{Input: 1000}, Cost: 99_999 * hub.Million, Currency: "USD"}
	priced := call("c", 4_000_000) // 5 USD
	unpriced := priced
	unpriced.Model = "gpt-unheard-of"
	nameless := priced
	nameless.Model = ""
	foreign := priced
	foreign.Cost, foreign.Currency = 1, "XTS"
	cheap := priced
	cheap.Cost, cheap.Currency = 10, "USD"

	word := map[bool]string{true: "spent", false: "open"}
	var table strings.Builder
	table.WriteString("| what is reported | budget of ada | budget of the hub |\n|---|---|---|\n")
	for _, tt := range []struct {
		name           string
		reports        func(*till)
		unpriced       string
		own, hubBudget bool // spent
	}{
		{"lie: 99,999 USD by one word, for 1,000 tokens", func(l *till) { l.said("ada", dear) }, "", false, false},
		{"lie: the same of another agent", func(l *till) { l.said("ben", dear) }, "", false, false},
		{"lie: many tokens of another agent", func(l *till) { l.said("ben", call("c", 900_000_000)) }, "", false, false},
		{"lie: 1 token first, then the true ones", func(l *till) { l.said("ada", call("c", 1)); l.known("ada", priced) }, "", true, true},
		{"lie: 1 token first by another agent", func(l *till) { l.said("ben", call("c", 1)); l.known("ada", priced) }, "", true, true},
		{"lie: 1 token after the true ones", func(l *till) { l.known("ada", priced); l.said("ada", call("c", 1)) }, "", true, true},
		{"lie: a cost in a currency that has no price", func(l *till) { l.said("ada", foreign) }, "", true, false},
		{"closed: a model without a price", func(l *till) { l.known("ada", unpriced) }, "", true, true},
		{"closed: a call without a model", func(l *till) { l.known("ada", nameless) }, "", true, true},
		{"closed: a word about a model without a price", func(l *till) { l.said("ada", unpriced) }, "", true, false},
		{"opened by name: a model without a price", func(l *till) { l.known("ada", unpriced) }, unpricedAllow, false, false},
		{"opened by name: a model with a price counts as before", func(l *till) { l.known("ada", priced) }, unpricedAllow, true, true},

		{"honest: a local model that costs nothing", func(l *till) {
			l.free("llama")
			l.known("ada", hub.ModelCall{ID: "c", Model: "llama", Tokens: hub.Tokens{Input: 900_000_000}})
		}, "", false, false},
		{"honest: a model that the operator priced at nothing after its turn", func(l *till) { l.known("ada", unpriced); l.free("gpt-unheard-of") }, "", false, false},
		{"honest: a cost that the protocol states", func(l *till) { l.known("ada", cheap) }, "", false, false},
		{"honest: a cost that an agent states within its prices", func(l *till) { l.said("ada", cheap) }, "", false, false},
		{"honest: another agent spends its own", func(l *till) { l.said("ben", priced) }, "", false, false},
		{"honest: a turn without tokens", func(l *till) { l.known("ada", hub.ModelCall{ID: "c"}) }, "", false, false},
		{"honest: little of a priced model", func(l *till) { l.known("ada", call("c", 1000)) }, "", false, false},
	} {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", tt.name, word[tt.own], word[tt.hubBudget])
		t.Run(tt.name, func(t *testing.T) {
			l := openTill(t)
			tt.reports(l)
			for of, want := range map[string]bool{"ada": tt.own, wholeHub: tt.hubBudget} {
				row, err := l.set(Limit{Of: of, Money: 5, Per: hub.PerDay, Unpriced: tt.unpriced})
				if err != nil {
					t.Fatal(err)
				}
				if got := row.State == hub.BudgetSpent; got != want {
					t.Errorf("the budget of %s: got %+v, want it spent: %t", of, row, want)
				}
			}
			if blocked := l.blocked("ada") != ""; blocked != (tt.own || tt.hubBudget) {
				t.Errorf("a turn of ada: %q", l.blocked("ada"))
			}
			if reason := l.blocked("cleo"); (reason != "") != tt.hubBudget {
				t.Errorf("a turn of another agent: %q", reason)
			}
		})
	}
	doctable.Check(t, "../../../docs/spend.md", "money", table.String(), *updateTable)
}

// updateTable is set to write the table of TestMoneyGate.
var updateTable = flag.Bool("update", false, "write the table in docs/spend.md")

// free prices a model at nothing.
func (l *till) free(model string) {
	l.t.Helper()
	if _, err := l.SetPrices(l.t.Context(), hub.Caller{ID: hub.Operator}, PriceChange{Models: map[string]Price{model: {Currency: usd}}}); err != nil {
		l.t.Fatal(err)
	}
}

// TestUnpricedBudget holds what the answer to a new budget says.
func TestUnpricedBudget(t *testing.T) {
	l := openTill(t)
	l.known("ada", call("a", 1000), hub.ModelCall{ID: "b", Model: "gpt-9", Tokens: hub.Tokens{Input: 10}})
	l.said("ben", hub.ModelCall{ID: "c", Model: "gpt-8", Tokens: hub.Tokens{Input: 10}})
	row, err := l.set(Limit{Of: wholeHub, Money: 5, Per: hub.PerDay})
	if err != nil || !reflect.DeepEqual(row.Unpriced, []string{"gpt-9"}) || row.UnpricedFree || row.Said == 0 {
		t.Errorf("got %+v, %v", row, err)
	}
	row, err = l.set(Limit{Of: wholeHub, Money: 5, Per: hub.PerDay, Unpriced: unpricedAllow})
	if err != nil || !row.UnpricedFree || row.SetBy != hub.Operator || row.SetAt.IsZero() {
		t.Errorf("got %+v, %v", row, err)
	}
	l.free("gpt-9")
	if row, err = l.set(Limit{Of: wholeHub, Money: 5, Per: hub.PerDay}); err != nil || row.Unpriced != nil || row.UnpricedFree {
		t.Errorf("with a price, and set anew: got %+v, %v", row, err)
	}
	for _, bad := range []Limit{{Of: "ada", Money: 5, Per: hub.PerDay, Unpriced: "yes"}, {Of: "ada", Tokens: 5, Per: hub.PerDay, Unpriced: unpricedAllow}} {
		if _, err := l.set(bad); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), "unpriced") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestSetPrices holds how the operator's file changes.
func TestSetPrices(t *testing.T) {
	l := openTill(t)
	set := func(c PriceChange) error {
		_, err := l.SetPrices(t.Context(), hub.Caller{ID: hub.Operator}, c)
		return err
	}
	for name, c := range map[string]PriceChange{
		"nothing": {}, "negative": {Models: map[string]Price{"m": {Input: -1}}}, "no currency": {Models: map[string]Price{"m": {Currency: "dollars"}}},
		"no name": {Models: map[string]Price{"": {}}}, "a list without a date": {List: []byte(`{"currency":"USD","models":{}}`)},
		"both": {Models: map[string]Price{"m": {}}, List: []byte(`{"as_of":"2026-11-01","currency":"USD","models":{}}`)},
	} {
		if err := set(c); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.SetPrices(t.Context(), hub.Caller{ID: "ada"}, PriceChange{Models: map[string]Price{"m": {}}}); hub.CodeOf(err) != hub.CodeDenied {
		t.Errorf("prices by an agent: %v", err)
	}

	if err := set(PriceChange{List: []byte(`{"as_of":"2026-11-01","currency":"EUR","models":{"m":{"input":1,"output":2,"cached_read":3,"cached_write":4}}}`)}); err != nil {
		t.Fatal(err)
	}
	if err := set(PriceChange{Models: map[string]Price{"N": {Input: 7, Currency: "USD"}, "M": {Input: 9}}}); err != nil {
		t.Fatal(err)
	}
	own := map[string]Price{}
	for _, p := range l.Prices().Prices {
		if p.Own {
			own[p.Model] = p
		}
	}
	want := map[string]Price{"m": {Model: "m", Input: 9, Currency: "EUR", Own: true}, "n": {Model: "n", Input: 7, Currency: "USD", Own: true}}
	if !reflect.DeepEqual(own, want) {
		t.Errorf("got %+v, want %+v", own, want)
	}
}
