package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A Query selects the usage that is summed up.
type Query struct {
	By      hub.UsageKind `json:"by,omitempty"`    // default agent
	Since   hub.Time      `json:"since,omitzero"`  // default all
	Agent   hub.AgentID   `json:"agent,omitempty"` // and the members below: only usage of or for it
	Handoff hub.HandoffID `json:"handoff,omitempty"`
	Task    hub.TaskID    `json:"task,omitempty"`
	Team    hub.TeamID    `json:"team,omitempty"`
	Run     hub.RunID     `json:"run,omitempty"`

	// Coordination asks for the texts of the hub that models read, by part, in place of By.
	Coordination bool `json:"coordination,omitempty"`
}

// A Cost is money of one currency. Stated is what agents said; Estimated comes from the table of
// prices. The two are never added up without saying so.
type Cost struct {
	Currency  string  `json:"currency"`
	Stated    float64 `json:"stated"`
	Estimated float64 `json:"estimated"`
}

// A Row is the sum of the usage of one key.
type Row struct {
	Key   string `json:"key"`
	Turns int64  `json:"turns"`
	hub.Tokens
	Cost []Cost `json:"cost"` // by currency; empty if no price is known

	// Said is the number of the tokens that only the agent's word says.
	Said int64 `json:"said,omitempty"`
}

// A Total is the sum of all rows.
type Total struct {
	Turns int64 `json:"turns"`
	hub.Tokens
	Cost []Cost `json:"cost"`
	Said int64  `json:"said,omitempty"`

	// Unpriced are the models without a price. They count at the highest price of their vendor.
	Unpriced []string `json:"unpriced,omitempty"`
}

// A Spend is usage summed up.
type Spend struct {
	Since hub.Time      `json:"since,omitzero"`
	By    hub.UsageKind `json:"by"`
	Rows  []Row         `json:"rows"`
	Total Total         `json:"total"`

	// Problem says why calls without a stated cost have no estimate; empty if they have one, or if
	// their models have no price.
	Problem string `json:"problem,omitempty"`
}

// usd is the currency of the list, and of budgets that name none.
const usd = "USD"

// A purse adds up the money of several sums by currency, in millionths.
type purse map[string]*struct{ stated, estimated int64 }

// add adds the cost of a sum: the stated one, or an estimate if no cost was stated. The estimate of a
// model without a price is in the currency that is given.
func (p purse) add(s hub.UsageSum, prices *Prices, unpriced string) {
	currency := s.Currency
	estimated := int64(0)
	if currency == "" {
		var ok bool
		estimated, currency, ok = prices.estimate(s.Model, unpriced, s.Tokens)
		if !ok || s.Tokens.Sum() == 0 {
			return
		}
	}
	if p[currency] == nil {
		p[currency] = &struct{ stated, estimated int64 }{}
	}
	p[currency].stated += s.Cost
	p[currency].estimated += estimated
}

// costs returns the money by currency.
func (p purse) costs() []Cost {
	out := []Cost{}
	for currency, m := range p {
		out = append(out, Cost{currency, float64(m.stated) / hub.Million, float64(m.estimated) / hub.Million})
	}
	slices.SortFunc(out, func(a, b Cost) int { return strings.Compare(a.Currency, b.Currency) })
	return out
}

// Spend sums up usage. Agents that do not audit see their own.
func (s *Service) Spend(ctx context.Context, actor hub.Caller, q Query) (Spend, error) {
	const op = "usage.Spend"
	if q.By == "" {
		q.By = hub.ByAgent
	}
	if !q.By.Known() {
		return Spend{}, hub.Errorf(hub.CodeInvalid, op, "usage is not summed up by %.30q", q.By).WithHint("use one of %s", hub.JoinWords(hub.UsageKinds))
	}
	if !actor.Audits() {
		if q.Agent != "" && q.Agent != actor.ID {
			return Spend{}, hub.Errorf(hub.CodeDenied, op, "only the operator and auditors see the usage of %s", q.Agent)
		}
		q.Agent = actor.ID
	}
	out, err := hub.Read(ctx, s.store, func(rd hub.Reader) (Spend, error) { return s.sum(rd, q) })
	if err != nil {
		return Spend{}, fmt.Errorf("usage: %w", err)
	}
	return out, nil
}

// sum sums up usage in a snapshot.
func (s *Service) sum(rd hub.Reader, q Query) (out Spend, err error) {
	stored := hub.UsageQuery{By: q.By, Since: q.Since, Agent: q.Agent, Handoff: q.Handoff, Task: q.Task, Team: q.Team, Run: q.Run}
	sums, err := rd.Usage().Sums(stored)
	if err != nil {
		return out, err
	}
	turns, err := rd.Usage().Turns(stored)
	if err != nil {
		return out, err
	}
	stored.By = ""
	all, err := rd.Usage().Turns(stored)
	if err != nil {
		return out, err
	}

	// The sums come by key, each with one line for a model and a currency.
	out = Spend{Since: q.Since, By: q.By, Rows: []Row{}}
	out.Total.Turns = all[""]
	prices := s.currentPrices()
	total, money := purse{}, purse{}
	last := ""
	for _, line := range sums {
		isEmpty := line.Model == "" && line.Tokens == hub.Tokens{} // of turns without counts
		if q.By == hub.ByModel && isEmpty {
			continue
		}
		isFirst := len(out.Rows) == 0 || last != line.Key
		last = line.Key
		if isFirst {
			out.Rows = append(out.Rows, Row{Key: rowKey(rd, q.By, line.Key), Turns: turns[line.Key]})
			money = purse{}
		}
		row := &out.Rows[len(out.Rows)-1]
		row.Tokens = row.Tokens.Plus(line.Tokens)
		row.Said += line.Said
		money.add(line, prices, usd)
		row.Cost = money.costs()
		if prices.lacks(line) {
			out.Problem = prices.list.Problem
		}
		total.add(line, prices, usd)
		out.Total.Tokens = out.Total.Tokens.Plus(line.Tokens)
		out.Total.Said += line.Said
		out.Total.Unpriced = prices.addUnpriced(out.Total.Unpriced, line)
	}
	out.Total.Cost = total.costs()
	return out, nil
}

// rowKey returns the key of a row: the short id of a handoff or conversation, where there is
// one. Usage without a value is named.
func rowKey(rd hub.Reader, by hub.UsageKind, key string) string {
	if hub.EnvelopeID(key).Valid() {
		if short, err := rd.ShortID(key); err == nil {
			return string(short)
		}
	}
	switch {
	case key != "":
		return key
	case by == hub.ByModel:
		return UnknownModel
	}
	return "none"
}
