package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A post counts the messages of the hub.
type post struct {
	mu   sync.Mutex // guards told
	told []hub.AgentID
}

func (p *post) Notify(_ hub.Tx, e hub.Envelope) (hub.Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, e.To...)
	return hub.Message{}, nil
}

func (p *post) TellOperator(hub.Tx, any) (hub.Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, hub.Operator)
	return hub.Message{}, nil
}

func (p *post) Announce(...hub.Message) {}

// A till is a service over a real store with some agents.
type till struct {
	*Service
	t      *testing.T
	store  hub.Store
	mail   *post
	prices string

	mu    sync.Mutex // guards spent
	spent [][]hub.AgentID
}

// agents are on the hub of a till.
var agents = []hub.AgentID{"ada", "ben", "cleo", "dan"}

func openTill(t *testing.T) *till {
	t.Helper()
	l := &till{t: t, store: storetest.Open(t, t.TempDir()), mail: &post{}, prices: filepath.Join(t.TempDir(), "prices.json")}
	l.Service = New(l.store, l.mail, &Options{
		Clock: func() time.Time { return at(30).Time }, Prices: l.prices,
		Spent: func(_ hub.Budget, agents []hub.AgentID) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.spent = append(l.spent, agents)
		},
	})
	l.update(func(tx hub.Tx) error {
		for _, name := range agents {
			if err := tx.PutAgent(hub.Agent{ID: name, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: at(0)}, ""); err != nil {
				return err
			}
		}
		return nil
	})
	return l
}

func (l *till) update(fn func(hub.Tx) error) {
	l.t.Helper()
	if err := l.store.Update(l.t.Context(), hub.SurvivesKill, fn); err != nil {
		l.t.Fatal(err)
	}
}

// write writes the operator's prices.
func (l *till) write(text string) {
	l.t.Helper()
	if err := os.WriteFile(l.prices, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// set sets a budget.
func (l *till) set(limit Limit) (BudgetRow, error) {
	return l.SetBudget(l.t.Context(), hub.Caller{ID: hub.Operator}, limit)
}

// turn records a turn of an agent with one call.
func (l *till) turn(agent hub.AgentID, id, model string) (Receipt, error) {
	call := hub.ModelCall{ID: id, Model: model, Tokens: hub.Tokens{Input: 100}}
	return l.Record(l.t.Context(), hub.Caller{ID: agent}, Report{Source: hub.UsageTranscript, CLI: "claude", Ended: true, Calls: []hub.ModelCall{call}})
}

// blocked returns why no turn of an agent may begin.
func (l *till) blocked(agent hub.AgentID) string {
	l.t.Helper()
	reason, err := hub.Read(l.t.Context(), l.store, func(rd hub.Reader) (string, error) {
		reason, _, err := l.Blocked(rd, agent)
		return reason, err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return reason
}

// TestBudgetRace has several agents spend the budget of the hub at the same moment. It becomes spent
// once, the operator is told once of each step, and every count is right.
func TestBudgetRace(t *testing.T) {
	l := openTill(t)
	const turns = 10
	all := int64(len(agents) * turns)
	if _, err := l.set(Limit{Of: wholeHub, Turns: all, Per: hub.PerTotal}); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, agent := range agents {
		running.Go(func() {
			for i := range turns {
				r := Report{Agent: agent, Source: hub.UsageACP, CLI: "claude", Ended: true, Calls: []hub.ModelCall{{ID: fmt.Sprintf("%s-%d", agent, i)}}}
				if _, err := l.Record(t.Context(), hub.Caller{ID: hub.Self}, r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()

	list, err := l.Budgets(t.Context(), hub.Caller{ID: hub.Operator})
	if err != nil || list.Budgets[0].Used != float64(all) || list.Budgets[0].State != hub.BudgetSpent {
		t.Errorf("got %+v, %v", list, err)
	}
	if len(l.mail.told) != 2 || len(l.spent) != 1 || l.spent[0] != nil {
		t.Errorf("told %v, spent %v: want the operator told of 80 and of 100 %%, and all agents stopped once", l.mail.told, l.spent)
	}
	for _, agent := range agents {
		if !strings.Contains(l.blocked(agent), "40 turns of 40 turns in total used; no turn begins") {
			t.Errorf("%s: %q", agent, l.blocked(agent))
		}
	}
}

// TestBudgetOfEmptyTeam spends the budget of a team without members: it concerns no agent.
func TestBudgetOfEmptyTeam(t *testing.T) {
	l := openTill(t)
	l.update(func(tx hub.Tx) error {
		b := hub.Budget{N: 1, ID: "b1", Of: "team:core", Limit: 1, Unit: hub.BudgetTurns, Per: hub.PerTotal, Hard: true, SetAt: at(0), SetBy: hub.Operator}
		_, err := l.judge(tx, at(30), b)
		if err != nil {
			return err
		}
		if _, err := tx.WriteUsage().Add(hub.Usage{ModelCall: hub.ModelCall{ID: "c", At: at(20)}, Record: 1, Source: hub.UsageACP, Agent: "ada", CLI: "acp", Team: "core", Known: true}); err != nil {
			return err
		}
		c, err := l.judge(tx, at(30), b)
		if len(c.spent) != 1 || c.spent[0].agents == nil || len(c.spent[0].agents) != 0 {
			t.Errorf("got %+v, want no agent to stop", c.spent)
		}
		return err
	})
}

// TestBudgetOfMoney bounds costs that are not known: it stops turns, and does not allow all.
func TestBudgetOfMoney(t *testing.T) {
	l := openTill(t)
	if _, err := l.set(Limit{Of: "ada", Money: 5, Currency: "chf", Per: hub.PerDay}); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), "CHF") {
		t.Errorf("a currency in which nothing costs anything: %v", err)
	}
	if _, err := l.set(Limit{Of: "ada", Money: 5, Per: hub.PerDay}); err != nil {
		t.Fatal(err)
	}
	l.write("{")
	if reason := l.blocked("ada"); reason != "" {
		t.Errorf("before any usage: %s", reason)
	}
	if _, err := l.turn("ada", "a", "gpt-5"); err != nil {
		t.Fatal(err)
	}
	if reason := l.blocked("ada"); !strings.Contains(reason, "budget b1 of ada: it is not known how much is used") || !strings.Contains(reason, "prices.json") {
		t.Errorf("with a mistake in the prices: %q", reason)
	}
	if reason := l.blocked("ben"); reason != "" {
		t.Errorf("an agent without a budget: %s", reason)
	}
	if _, err := l.set(Limit{Of: "ben", Money: 5, Per: hub.PerDay}); hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), "prices.json") {
		t.Errorf("a new budget with a mistake in the prices: %v", err)
	}
	l.write(`{"as_of":"2026-11-01","currency":"CHF","models":{"gpt-5":{"input":50000,"output":0,"cached_read":0,"cached_write":0}}}`)
	if reason := l.blocked("ada"); reason != "" {
		t.Errorf("with right prices, in another currency: %s", reason)
	}
	if row, err := l.set(Limit{Of: "ada", Money: 5, Currency: "chf", Per: hub.PerDay}); err != nil || row.State != hub.BudgetSpent || row.Estimated != 5 {
		t.Errorf("got %+v, %v", row, err)
	}
}

// TestRefusedReport holds that a report that is refused changes nothing, also not the texts of the hub
// that were counted before it.
func TestRefusedReport(t *testing.T) {
	l := openTill(t)
	l.Count("ada", Notices, 1, 400)
	r := Report{Source: hub.UsageTranscript, CLI: "claude", Run: "r1", Record: "u1", Calls: []hub.ModelCall{{ID: "a"}}}
	l.update(func(tx hub.Tx) error {
		return tx.PutRun(hub.Run{ID: "r1", Agent: "ben", By: "ben", Task: "t", ThreadID: "r1", State: hub.RunStarting, StartedAt: at(0), ExpiresAt: at(59)}, "")
	})
	if _, err := l.Record(t.Context(), hub.Caller{ID: "ada"}, r); hub.CodeOf(err) != hub.CodeDenied {
		t.Fatalf("usage for a run of another agent: %v", err)
	}
	r.Run = "r2"
	if _, err := l.Record(t.Context(), hub.Caller{ID: "ada"}, r); hub.CodeOf(err) != hub.CodeDenied {
		t.Fatalf("usage for a run that the hub does not have: %v", err)
	}
	got, err := l.Coordination(t.Context(), hub.Caller{ID: "ada"}, Query{})
	if err != nil || got.Total.Input != 100 || got.Total.Turns != 0 {
		t.Errorf("got %+v, %v, want the notice and no turn", got, err)
	}
}
