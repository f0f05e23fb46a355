package hubtest

import (
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/parley-agents/parley/hub"
)

// aUsage returns the usage of a call whose every member is set.
func aUsage(id string, record int64, agent hub.AgentID) hub.Usage {
	return hub.Usage{
		ModelCall: hub.ModelCall{
			ID: id, Model: "m", Tokens: hub.Tokens{Input: 1, Output: 20, CachedRead: 300, CachedWrite: 4000, Reasoning: 5},
			Cost: 60, Currency: "USD", At: epoch.Add(time.Duration(record) * 24 * time.Hour),
		},
		Record: record, Source: hub.UsageTranscript, Agent: agent, CLI: "claude", Session: "s", Run: "r", Handoff: "h", Task: "T-1", Team: "core", Wake: "w_1", Thread: "t",
	}
}

// addUsage stores usage and reports whether each is new.
func addUsage(w *world, all ...hub.Usage) (isNew []bool) {
	w.update(func(tx hub.Tx) error {
		isNew = nil
		for _, u := range all {
			added, err := tx.WriteUsage().Add(u)
			if err != nil {
				return err
			}
			isNew = append(isNew, added)
		}
		return nil
	})
	return isNew
}

var usageTests = []storeTest{
	{"a call is counted once for its agent and id, and summed up by every kind", func(w *world) {
		first, second := aUsage("a", 1, "builder"), aUsage("b", 2, "planner")
		other := aUsage("a", 2, "planner")
		other.CLI, other.Model, other.Currency, other.Cost = "codex", "n", "", 0
		plain := hub.Usage{ModelCall: hub.ModelCall{ID: "c", At: epoch}, Record: 3, Source: hub.UsageACP, Agent: "builder", CLI: "acp"}
		again := first
		again.Input = 99
		if got := addUsage(w, first, second, other, plain, again); !reflect.DeepEqual(got, []bool{true, true, true, true, false}) {
			w.Errorf("new: %v", got)
		}

		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			for by, want := range map[hub.UsageKind]int{"": 3, hub.ByAgent: 4, hub.ByTask: 3, hub.ByHandoff: 3, hub.ByTeam: 3, hub.ByModel: 3, hub.ByDay: 4, hub.ByRun: 3} {
				got, err := r.Usage().Sums(hub.UsageQuery{By: by})
				if err != nil {
					return err
				}
				if len(got) != want {
					w.Errorf("by %q: got %+v, want %d sums", by, got, want)
				}
			}
			got, err := r.Usage().Sums(hub.UsageQuery{By: hub.ByTask, Agent: "builder"})
			want := []hub.UsageSum{
				{Key: "T-1", Model: "m", Currency: "USD", Calls: 1, Tokens: first.Tokens, Cost: 60, Said: 4321},
				{Key: hub.OwnWork, Calls: 1},
			}
			if !reflect.DeepEqual(got, want) {
				w.Errorf("got %+v, want %+v", got, want)
			}
			return err
		})
	}},
	{"turns are records, and usage is restricted by every member of a query", func(w *world) {
		addUsage(w, aUsage("a", 1, "builder"), aUsage("b", 1, "builder"), aUsage("c", 2, "planner"))
		w.view(func(r hub.Reader) error {
			turns, err := r.Usage().Turns(hub.UsageQuery{By: hub.ByAgent})
			if err == nil && !maps.Equal(turns, map[string]int64{"builder": 1, "planner": 1}) {
				w.Errorf("turns: %v", turns)
			}
			for _, q := range []struct {
				hub.UsageQuery
				calls int64
			}{
				{hub.UsageQuery{Handoff: "h", Task: "T-1", Team: "core", Run: "r"}, 3}, {hub.UsageQuery{Agent: "planner"}, 1},
				{hub.UsageQuery{Since: epoch.Add(36 * time.Hour)}, 1}, {hub.UsageQuery{Team: "other"}, 0}, {hub.UsageQuery{Handoff: "g"}, 0},
			} {
				sums, err := r.Usage().Sums(q.UsageQuery)
				if err != nil {
					return err
				}
				var calls int64
				for _, s := range sums {
					calls += s.Calls
				}
				if calls != q.calls {
					w.Errorf("%+v: %d calls, want %d", q.UsageQuery, calls, q.calls)
				}
			}
			return err
		})
	}},
	{"the sums of records are read in order", func(w *world) {
		u := aUsage("a", 1, "builder")
		addUsage(w, u, aUsage("b", 1, "builder"), aUsage("c", 7, "planner"))
		w.view(func(r hub.Reader) error {
			last, err := r.Usage().LastRecord()
			if err != nil || last != 7 {
				w.Errorf("the last record is %d (%v), want 7", last, err)
			}
			got, err := r.Usage().Records(0, 1)
			if want := (hub.UsageRecord{Record: 1, Agent: "builder", Calls: 2, Tokens: u.Tokens.Plus(u.Tokens), Cost: 120}); len(got) != 1 || got[0] != want {
				w.Errorf("got %+v, want %+v", got, want)
			}
			if one, err := r.Usage().First(7); err != nil || one != aUsage("c", 7, "planner") {
				w.Errorf("of record 7: %+v, %v", one, err)
			}
			if all, err := r.Usage().Calls("a"); err != nil || !reflect.DeepEqual(all, []hub.Usage{u}) {
				w.Errorf("call a: %+v, %v", all, err)
			}
			if _, err := r.Usage().First(2); hub.CodeOf(err) != hub.CodeNotFound {
				w.Errorf("of record 2: %v", err)
			}
			if all, err := r.Usage().Calls("z"); err != nil || len(all) > 0 {
				w.Errorf("call z: %+v, %v", all, err)
			}
			if got, _ := r.Usage().Records(1, 9); len(got) != 1 || got[0].Record != 7 {
				w.Errorf("after record 1: %+v", got)
			}
			return err
		})
	}},
	{"a call may be replaced by other counts, and what is known is summed up apart", func(w *world) {
		u, other := aUsage("a", 1, "builder"), aUsage("a", 2, "planner")
		addUsage(w, u, other)
		u.Tokens = hub.Tokens{Input: 7}
		u.Source, u.Model, u.Cost, u.Currency, u.Known = hub.UsageACP, "", 0, "", true
		w.update(func(tx hub.Tx) error { return tx.WriteUsage().Replace(u) })
		w.view(func(r hub.Reader) error {
			all, err := r.Usage().Calls("a")
			if !reflect.DeepEqual(all, []hub.Usage{u, other}) {
				w.Errorf("got %+v, want %+v and %+v", all, u, other)
			}
			sums, err2 := r.Usage().Sums(hub.UsageQuery{Known: true})
			if want := []hub.UsageSum{{Calls: 1, Tokens: u.Tokens}}; !reflect.DeepEqual(sums, want) {
				w.Errorf("known: got %+v, want %+v", sums, want)
			}
			turns, err3 := r.Usage().Turns(hub.UsageQuery{Known: true})
			if turns[""] != 1 {
				w.Errorf("known: %d turns, want 1", turns[""])
			}
			return errors.Join(err, err2, err3)
		})
		other.ID = "b"
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.WriteUsage().Replace(other) })
	}},
	{"budgets are read as they were stored, replaced and removed", func(w *world) {
		b := hub.Budget{
			ID: "b1", N: 1, Of: "team:core", Limit: 5, Unit: hub.BudgetMoney, Currency: "USD", Per: hub.PerDay, Hard: true,
			SetAt: epoch, SetBy: hub.Operator, WarnedFor: epoch.Add(time.Hour), SpentFor: epoch.Add(2 * time.Hour), Unpriced: true,
		}
		w.update(func(tx hub.Tx) error { return tx.WriteUsage().PutBudget(b) })
		b.Limit, b.WarnedFor = 6, hub.Time{}
		w.update(func(tx hub.Tx) error { return tx.WriteUsage().PutBudget(b) })
		w.view(func(r hub.Reader) error {
			got, err := r.Usage().Budgets()
			if !reflect.DeepEqual(got, []hub.Budget{b}) {
				w.Errorf("got %+v, want %+v", got, b)
			}
			return err
		})
		w.update(func(tx hub.Tx) error { return tx.WriteUsage().RemoveBudget(1) })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error { return tx.WriteUsage().RemoveBudget(1) })
	}},
}
