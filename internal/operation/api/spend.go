package api

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/usage"
)

func spendRecord(ctx context.Context, s *Services, a hub.Caller, r usage.Report) (usage.Receipt, error) {
	return s.Usage.Record(ctx, a, r)
}

func spendShow(ctx context.Context, s *Services, a hub.Caller, q usage.Query) (usage.Spend, error) {
	const op = "parley/spend/show"
	if q.Coordination {
		return s.Usage.Coordination(ctx, a, q)
	}
	if q.Handoff != "" {
		id, err := s.Handoffs.Resolve(ctx, op, a, q.Handoff)
		if err != nil {
			return usage.Spend{}, err
		}
		q.Handoff = id
	}
	return s.Usage.Spend(ctx, a, q)
}

// spendOf returns the sum of some usage that the caller may see; nil if there is none.
func (s *Services) spendOf(ctx context.Context, a hub.Caller, q usage.Query) (*usage.Total, error) {
	if s.Usage == nil {
		return nil, nil
	}
	got, err := s.Usage.Spend(ctx, a, q)
	if err != nil || got.Total.Turns == 0 {
		return nil, err
	}
	return &got.Total, nil
}

func spendPrices(_ context.Context, s *Services, _ hub.Caller, _ None) (usage.PriceList, error) {
	return s.Usage.Prices(), nil
}

func spendSetPrices(ctx context.Context, s *Services, a hub.Caller, c usage.PriceChange) (usage.PriceList, error) {
	return s.Usage.SetPrices(ctx, a, c)
}

// A ReadText counts texts of the hub that a model read.
type ReadText struct {
	Part  usage.Part `json:"part"`
	Times int        `json:"times"`
	Bytes int        `json:"bytes"`
}

// ReadTexts are the parameters of parley/spend/read.
type ReadTexts struct {
	Texts []ReadText `json:"texts"`
}

// Bounds of the texts of one part that a program counts at once.
const (
	maxReads     = 1_000_000
	maxReadBytes = 1 << 30
)

// spendRead counts the texts that the program between an agent and the hub wrote for the model.
func spendRead(_ context.Context, s *Services, a hub.Caller, p ReadTexts) (None, error) {
	const op = "parley/spend/read"
	if len(p.Texts) > len(usage.Parts) {
		return None{}, hub.Errorf(hub.CodeTooLarge, op, "too many texts: %d, limit %d", len(p.Texts), len(usage.Parts))
	}
	for i, t := range p.Texts {
		isCount := t.Times > 0 && t.Times <= maxReads && t.Bytes >= 0 && t.Bytes <= maxReadBytes
		if !isCount || !slices.Contains(usage.Parts, t.Part) {
			return None{}, hub.Errorf(hub.CodeInvalid, op, "texts[%d] is not a number of texts of a part: %.30q, %d times, %d bytes", i, t.Part, t.Times, t.Bytes)
		}
	}
	for _, t := range p.Texts {
		s.Usage.Count(a.ID, t.Part, t.Times, t.Bytes)
	}
	return None{}, nil
}

func budgetSet(ctx context.Context, s *Services, a hub.Caller, l usage.Limit) (usage.BudgetRow, error) {
	const op = "parley/budget/set"
	if short, ok := strings.CutPrefix(l.Of, "handoff:"); ok {
		id, err := s.Handoffs.Resolve(ctx, op, a, hub.HandoffID(short))
		if err != nil {
			return usage.BudgetRow{}, err
		}
		l.Of = "handoff:" + string(id)
	}
	return s.Usage.SetBudget(ctx, a, l)
}

func budgetList(ctx context.Context, s *Services, a hub.Caller, _ None) (usage.BudgetList, error) {
	out, err := s.Usage.Budgets(ctx, a)
	if err != nil || s.Wakes == nil {
		return out, err
	}
	wakes, err := s.wakeBudgets(ctx, a)
	out.Budgets = append(out.Budgets, wakes...)
	return out, err
}

// wakeBudget begins the id of the budget of turns that mail may start.
const wakeBudget = "wakes:"

// wakeBudgets returns the limits of turns that mail may start for agents, as budgets.
func (s *Services) wakeBudgets(ctx context.Context, a hub.Caller) ([]usage.BudgetRow, error) {
	return hub.Read(ctx, s.Store, func(rd hub.Reader) (out []usage.BudgetRow, err error) {
		agents, err := rd.Agents()
		for _, agent := range agents {
			isVisible := a.Audits() || a.ID == agent.ID
			if err != nil || !isVisible {
				continue
			}
			standing, readErr := s.Wakes.Standing(rd, agent.ID)
			if readErr != nil {
				return nil, readErr
			}
			if standing.PerHour == 0 {
				continue
			}
			b := hub.Budget{Limit: int64(standing.PerHour)}
			out = append(out, usage.BudgetRow{
				ID: wakeBudget + string(agent.ID), Of: string(agent.ID), Limit: float64(standing.PerHour), Unit: hub.BudgetTurns, Per: hub.PerHour,
				Used: float64(standing.LastHour), State: b.State(int64(standing.LastHour)),
			})
		}
		return out, err
	})
}

// removeWakeBudget gives an agent the hub's limit of turns that mail may start.
func (s *Services) removeWakeBudget(ctx context.Context, a hub.Caller, agent hub.AgentID) error {
	standing, err := hub.Read(ctx, s.Store, func(rd hub.Reader) (wake.Standing, error) { return s.Wakes.Standing(rd, agent) })
	if err != nil {
		return err
	}
	return s.Wakes.Allow(ctx, a, wake.Permission{Agent: agent, Allow: standing.Allowed, Interrupt: standing.Interrupt, WithText: standing.WithText})
}

// BudgetParams are the parameters of parley/budget/remove.
type BudgetParams struct {
	ID string `json:"id"`
}

func budgetRemove(ctx context.Context, s *Services, a hub.Caller, p BudgetParams) (None, error) {
	if agent, ok := strings.CutPrefix(p.ID, wakeBudget); ok {
		return None{}, s.removeWakeBudget(ctx, a, hub.AgentID(agent))
	}
	return None{}, s.Usage.RemoveBudget(ctx, a, p.ID)
}

// focus notes that an agent named a handoff or a task: its usage from now on is for that work.
func (s *Services) focus(ctx context.Context, a hub.Caller, handoff hub.HandoffID, task hub.TaskID) {
	if s.Usage != nil && a.Kind == hub.CallerAgent {
		s.Usage.Focus(ctx, a.ID, handoff, task)
	}
}
