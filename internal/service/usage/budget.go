package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

const (
	maxBudgets = 1000
	maxTeams   = 200 // of one agent, and members of one team, that are considered

	teamPrefix    = "team:"
	handoffPrefix = "handoff:"
	wholeHub      = "hub"
	noticeTopic   = "budgets"
	unpricedAllow = "allow"
)

// A Limit is a budget as people set it. Exactly one of Tokens, Money and Turns is set.
type Limit struct {
	Of       string           `json:"of"` // an agent, team:NAME, handoff:ID or hub
	Tokens   int64            `json:"tokens,omitempty"`
	Money    float64          `json:"money,omitempty"`
	Currency string           `json:"currency,omitempty"` // of Money; default USD
	Turns    int64            `json:"turns,omitempty"`
	Per      hub.BudgetPeriod `json:"per"`
	Hard     bool             `json:"hard,omitempty"`

	// Unpriced is "allow" for a budget of money for which models without a price are free.
	Unpriced string `json:"unpriced,omitempty"`
}

// A BudgetRow is a budget with its use.
type BudgetRow struct {
	ID       string           `json:"id"`
	Of       string           `json:"of"`
	Limit    float64          `json:"limit"`
	Unit     hub.BudgetUnit   `json:"unit"`
	Currency string           `json:"currency,omitempty"`
	Per      hub.BudgetPeriod `json:"per"`
	Hard     bool             `json:"hard,omitempty"`
	Used     float64          `json:"used"`
	// Estimated is the part of Used that comes from the table of prices.
	Estimated float64 `json:"estimated,omitempty"`
	// Said is what only the word of agents says, beside Used: it counts for budgets of the agents
	// themselves and of their handoffs.
	Said float64 `json:"said,omitempty"`
	// Unpriced are models without a price, in use where a budget of money counts. They count at the
	// highest price of their vendor, or for nothing if UnpricedFree says so.
	Unpriced     []string    `json:"unpriced,omitempty"`
	UnpricedFree bool        `json:"unpriced_free,omitempty"`
	SetBy        hub.AgentID `json:"set_by"`
	SetAt        hub.Time    `json:"set_at,omitzero"`
	// Problem says why Used is not known; no turn begins then.
	Problem  string          `json:"problem,omitempty"`
	State    hub.BudgetState `json:"state"`
	ResetsAt hub.Time        `json:"resets_at,omitzero"`
}

// OpenText says that a budget of money was opened for models without a price, "" if it was not.
func (b BudgetRow) OpenText() string {
	if !b.UnpricedFree {
		return ""
	}
	return fmt.Sprintf("models without a price are free for budget %s of %s: %s", b.ID, b.Of, b.SetBy)
}

// A BudgetList is a list of budgets.
type BudgetList struct {
	Budgets []BudgetRow `json:"budgets"`
}

// SetBudget sets a budget. One of the same name, unit and period is replaced. Only the operator
// sets budgets.
func (s *Service) SetBudget(ctx context.Context, actor hub.Caller, l Limit) (BudgetRow, error) {
	const op = "usage.SetBudget"
	if err := actor.OperatorOnly(op); err != nil {
		return BudgetRow{}, err
	}
	b, err := newBudget(op, l)
	if err != nil {
		return BudgetRow{}, err
	}

	var out BudgetRow
	var c consequences
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		c = consequences{}
		now := s.o.Clock.Now()
		b.SetAt = now
		b.SetBy = actor.ID
		if err := exists(tx, op, b.Of); err != nil {
			return err
		}
		if err := s.checkCurrency(tx, op, b); err != nil {
			return err
		}
		if err := numberBudget(tx, op, &b); err != nil {
			return err
		}

		if err := tx.WriteUsage().PutBudget(b); err != nil {
			return err
		}
		facts := map[string]any{"of": b.Of, "limit": b.Limit, "unit": b.Unit, "per": b.Per}
		if b.Unpriced {
			facts["unpriced"] = unpricedAllow
		}
		if _, err := tx.Append(actor.Entry(now, actions.BudgetSet, b.ID, facts)); err != nil {
			return err
		}
		if c, err = s.judge(tx, now, b); err != nil {
			return err
		}
		out, err = s.budgetRow(tx, b)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("usage: %w", err)
	}
	s.follow(c)
	s.opened()
	return out, nil
}

// checkCurrency refuses a budget of money in a currency in which nothing costs anything: it would never
// be spent.
func (s *Service) checkCurrency(rd hub.Reader, op string, b hub.Budget) error {
	prices := s.currentPrices()
	if b.Unit != hub.BudgetMoney || prices.has(b.Currency) {
		return nil
	}
	sums, err := rd.Usage().Sums(hub.UsageQuery{})
	isStated := slices.ContainsFunc(sums, func(line hub.UsageSum) bool { return line.Currency == b.Currency })
	if err != nil || isStated {
		return err
	}
	if prices.list.Problem != "" {
		return hub.Errorf(hub.CodeInvalid, op, "no cost is known in %s: %s", b.Currency, prices.list.Problem)
	}
	return hub.Errorf(hub.CodeInvalid, op, "no model has a price in %s, and no agent stated a cost in it: the budget would never be spent", b.Currency).
		WithHint("use the currency of parley spend prices, or write prices in %s into prices.json", b.Currency)
}

// numberBudget gives a budget its id: a new one, or that of the budget which it replaces. A total that is
// replaced goes on from its beginning.
func numberBudget(tx hub.Tx, op string, b *hub.Budget) error {
	all, err := tx.Usage().Budgets()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(o hub.Budget) bool {
		return o.Of == b.Of && o.Unit == b.Unit && o.Per == b.Per && o.Currency == b.Currency
	})
	switch {
	case i >= 0:
		b.N = all[i].N
		b.SetAt = all[i].SetAt
	case len(all) >= maxBudgets:
		return hub.Errorf(hub.CodeTooLarge, op, "the hub has %d budgets already", len(all)).WithHint("remove one: parley spend budget remove ID")
	default:
		if b.N, err = nextNumber(tx, budgetKey); err != nil {
			return err
		}
	}
	b.ID = hub.NewBudgetID(b.N)
	return nil
}

// opened tells that a budget was changed.
func (s *Service) opened() {
	if s.o.Opened != nil {
		s.o.Opened()
	}
}

// newBudget returns the budget of a limit.
func newBudget(op string, l Limit) (b hub.Budget, err error) {
	b = hub.Budget{Of: l.Of, Per: l.Per, Hard: l.Hard, Unpriced: l.Unpriced == unpricedAllow}
	units := 0
	if l.Tokens != 0 {
		units++
		b.Unit, b.Limit = hub.BudgetTokens, l.Tokens
	}
	if l.Turns != 0 {
		units++
		b.Unit, b.Limit = hub.BudgetTurns, l.Turns
	}
	if l.Money != 0 {
		units++
		b.Unit, b.Limit = hub.BudgetMoney, int64(math.Round(l.Money*hub.Million))
		b.Currency = strings.ToUpper(l.Currency)
		if b.Currency == "" {
			b.Currency = usd
		}
		if !currencyForm().MatchString(b.Currency) || math.IsNaN(l.Money) || l.Money > 1e9 {
			return b, hub.Errorf(hub.CodeInvalid, op, "money must be an amount with a currency such as 5usd")
		}
	}
	isKnownRule := l.Unpriced == "" || (b.Unpriced && b.Unit == hub.BudgetMoney)
	isPeriod := slices.Contains([]hub.BudgetPeriod{hub.PerHour, hub.PerDay, hub.PerTotal}, l.Per)
	switch {
	case units != 1:
		return b, hub.Errorf(hub.CodeInvalid, op, "a budget needs one of tokens, money and turns")
	case b.Limit <= 0 || b.Limit > math.MaxInt64/4:
		return b, hub.Errorf(hub.CodeInvalid, op, "the limit of a budget must be positive")
	case !isKnownRule:
		return b, hub.Errorf(hub.CodeInvalid, op, "unpriced must be %q, for a budget of money, got %.20q", unpricedAllow, l.Unpriced)
	case !isPeriod:
		return b, hub.Errorf(hub.CodeInvalid, op, "a budget is per hour, day or total, got %.20q", l.Per)
	}
	return b, nil
}

// exists refuses a budget of something that is not on this hub.
func exists(rd hub.Reader, op, of string) error {
	var err error
	team, isTeam := strings.CutPrefix(of, teamPrefix)
	handoff, isHandoff := strings.CutPrefix(of, handoffPrefix)
	switch {
	case of == wholeHub:
		return nil
	case isTeam:
		_, err = rd.Teamspaces().Team(hub.TeamID(team))
	case isHandoff:
		_, err = rd.Handoff(hub.HandoffID(handoff))
	default:
		_, err = rd.Agent(hub.AgentID(of))
	}
	if hub.CodeOf(err) == hub.CodeNotFound {
		return hub.Errorf(hub.CodeNotFound, op, "nothing named %.80q on this hub", of).WithHint("give an agent, team:NAME, handoff:ID or hub")
	}
	return err
}

// RemoveBudget removes a budget. Only the operator does.
func (s *Service) RemoveBudget(ctx context.Context, actor hub.Caller, id string) error {
	const op = "usage.RemoveBudget"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := tx.Usage().Budgets()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(b hub.Budget) bool { return b.ID == id })
		if i < 0 {
			return hub.Errorf(hub.CodeNotFound, op, "no budget %.30q", id).WithHint("parley spend budget shows the budgets")
		}
		if err := tx.WriteUsage().RemoveBudget(all[i].N); err != nil {
			return err
		}
		_, err = tx.Append(actor.Entry(s.o.Clock.Now(), actions.BudgetSet, id, map[string]any{"of": all[i].Of, "removed": true}))
		return err
	})
	if err == nil {
		s.opened()
	}
	return err
}

// Budgets returns the budgets with their use.
func (s *Service) Budgets(ctx context.Context, actor hub.Caller) (BudgetList, error) {
	out, err := hub.Read(ctx, s.store, func(rd hub.Reader) (BudgetList, error) {
		out := BudgetList{Budgets: []BudgetRow{}}
		all, err := rd.Usage().Budgets()
		for _, b := range all {
			isVisible := actor.Audits() || b.Of == string(actor.ID) || b.Of == wholeHub
			if !isVisible {
				continue
			}
			row, err := s.budgetRow(rd, b)
			if err != nil {
				return out, err
			}
			out.Budgets = append(out.Budgets, row)
		}
		return out, err
	})
	if err != nil {
		return BudgetList{}, fmt.Errorf("usage: %w", err)
	}
	return out, nil
}

// budgetRow returns a budget with its use now.
func (s *Service) budgetRow(rd hub.Reader, b hub.Budget) (BudgetRow, error) {
	now := s.o.Clock.Now()
	q := scope(b, now)
	u, err := s.usedIn(rd, b, q)
	if err != nil {
		return BudgetRow{}, err
	}
	all := u
	if q.Known {
		q.Known = false
		if all, err = s.usedIn(rd, b, q); err != nil {
			return BudgetRow{}, err
		}
	}
	_, until := b.Period(now)
	scale := 1.0
	if b.Unit == hub.BudgetMoney {
		scale = hub.Million
	}
	row := BudgetRow{
		ID: b.ID, Of: nameOf(rd, b.Of), Limit: float64(b.Limit) / scale, Unit: b.Unit, Currency: b.Currency, Per: b.Per, Hard: b.Hard,
		Used: float64(u.used) / scale, Estimated: float64(u.estimated) / scale, Said: float64(all.used-u.used) / scale,
		UnpricedFree: b.Unpriced, SetBy: b.SetBy, SetAt: b.SetAt, Problem: u.problem, State: b.State(u.used), ResetsAt: until,
	}
	if b.Unit == hub.BudgetMoney {
		row.Unpriced, err = s.unpriced(rd, b, now)
	}
	return row, err
}

// unpriced returns the models without a price that the agents of a budget have used, in any period.
func (s *Service) unpriced(rd hub.Reader, b hub.Budget, now hub.Time) (out []string, err error) {
	q := scope(b, now)
	q.Since = hub.Time{}
	sums, err := rd.Usage().Sums(q)
	prices := s.currentPrices()
	for _, line := range sums {
		out = prices.addUnpriced(out, line)
	}
	return out, err
}

// scope returns the usage that a budget counts at a time. Where several agents share a budget, only what
// the hub read itself counts: the word of one must not spend what belongs to others.
func scope(b hub.Budget, now hub.Time) hub.UsageQuery {
	from, _ := b.Period(now)
	q := hub.UsageQuery{Since: from}
	team, isTeam := strings.CutPrefix(b.Of, teamPrefix)
	handoff, isHandoff := strings.CutPrefix(b.Of, handoffPrefix)
	switch {
	case b.Of == wholeHub:
		q.Known = true
	case isTeam:
		q.Team = hub.TeamID(team)
		q.Known = true
	case isHandoff:
		q.Handoff = hub.HandoffID(handoff)
	default:
		q.Agent = hub.AgentID(b.Of)
	}
	return q
}

// nameOf returns what a budget is of, a handoff by its short id.
func nameOf(rd hub.Reader, of string) string {
	id, isHandoff := strings.CutPrefix(of, handoffPrefix)
	if !isHandoff {
		return of
	}
	short, err := rd.ShortID(id)
	if err != nil { // it keeps its long one
		return of
	}
	return handoffPrefix + string(short)
}

// A use is how much of a budget is used in its period, in its unit.
type use struct {
	used      int64
	estimated int64  // the part that is an estimate
	problem   string // why more may be used; "" if all is known
}

// used returns how much of a budget is used in its period.
func (s *Service) used(rd hub.Reader, b hub.Budget, now hub.Time) (u use, err error) {
	return s.usedIn(rd, b, scope(b, now))
}

// usedIn returns how much some usage takes of a budget.
func (s *Service) usedIn(rd hub.Reader, b hub.Budget, q hub.UsageQuery) (u use, err error) {
	if b.Unit == hub.BudgetTurns {
		turns, err := rd.Usage().Turns(q)
		return use{used: turns[""]}, err
	}
	sums, err := rd.Usage().Sums(q)
	if err != nil {
		return use{}, err
	}
	if b.Unit == hub.BudgetTokens {
		for _, line := range sums {
			u.used += line.Tokens.Sum()
		}
		return u, nil
	}

	money := purse{}
	prices := s.currentPrices()
	for _, line := range sums {
		if b.Unpriced && prices.lacksPrice(line) {
			continue
		}
		money.add(line, prices, b.Currency)
		if prices.lacks(line) {
			u.problem = prices.list.Problem
		}
	}
	if m := money[b.Currency]; m != nil {
		u.used = m.stated + m.estimated
		u.estimated = m.estimated
	}
	return u, nil
}

// A consequence is what follows from usage after its transaction committed.
type consequences struct {
	messages []hub.Message
	spent    []spentBudget
}

// A spentBudget is a budget that became spent, with the agents that must stop.
type spentBudget struct {
	budget hub.Budget
	agents []hub.AgentID
}

// follow announces messages and tells of spent budgets.
func (s *Service) follow(c consequences) {
	s.mail.Announce(c.messages...)
	for _, b := range c.spent {
		if s.o.Spent != nil {
			s.o.Spent(b.budget, b.agents)
		}
	}
	if s.o.Bus != nil {
		s.o.Bus.Publish(hub.TopicJournal)
	}
}

// compare compares the budgets that some usage counts against with their limits.
func (s *Service) compare(tx hub.Tx, now hub.Time, added []hub.Usage) (out consequences, err error) {
	budgets, err := tx.Usage().Budgets()
	if err != nil {
		return out, err
	}
	for _, b := range budgets {
		q := scope(b, now)
		counts := slices.ContainsFunc(added, func(u hub.Usage) bool {
			isBound := (q.Agent == "" || q.Agent == u.Agent) && (q.Team == "" || q.Team == u.Team) && (q.Handoff == "" || q.Handoff == u.Handoff)
			return isBound && (u.Known || !q.Known)
		})
		if !counts {
			continue
		}
		c, err := s.judge(tx, now, b)
		if err != nil {
			return out, err
		}
		out.messages = append(out.messages, c.messages...)
		out.spent = append(out.spent, c.spent...)
	}
	return out, nil
}

// judge tells the holders and the operator, once in each period, that 80 % of a budget are used,
// and that all of it is.
func (s *Service) judge(tx hub.Tx, now hub.Time, b hub.Budget) (out consequences, err error) {
	u, err := s.used(tx, b, now)
	if err != nil {
		return out, err
	}
	from, until := b.Period(now)
	state := b.State(u.used)
	isTold := state == hub.BudgetOpen || b.WarnedFor.Equal(from.Time)
	isSpentTold := state != hub.BudgetSpent || b.SpentFor.Equal(from.Time)
	if isTold && isSpentTold {
		return out, nil
	}

	agents, err := holders(tx, b)
	if err != nil {
		return out, err
	}
	action := actions.BudgetWarned
	b.WarnedFor = from
	if state == hub.BudgetSpent {
		action = actions.BudgetSpent
		b.SpentFor = from
		out.spent = append(out.spent, spentBudget{b, agents})
	}
	if err := tx.WriteUsage().PutBudget(b); err != nil {
		return out, err
	}
	facts := map[string]any{"of": b.Of, "used": u.used, "limit": b.Limit, "unit": b.Unit, "per": b.Per}
	if _, err := tx.Append(hub.Caller{ID: hub.Self}.Entry(now, action, b.ID, facts)); err != nil {
		return out, err
	}
	b.Of = nameOf(tx, b.Of)
	out.messages, err = s.tell(tx, b, agents, budgetText(b, state, u, until))
	return out, err
}

// tell writes a notice about a budget to its holders and the operator.
func (s *Service) tell(tx hub.Tx, b hub.Budget, agents []hub.AgentID, text string) (out []hub.Message, err error) {
	payload, err := json.Marshal(map[string]any{"message": text, "budget": b.ID})
	if err != nil {
		return nil, err
	}
	for _, agent := range agents {
		m, err := s.mail.Notify(tx, hub.Envelope{To: []hub.AgentID{agent}, Type: hub.TypeStatusUpdate, Topic: noticeTopic, Payload: payload})
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	m, err := s.mail.TellOperator(tx, map[string]any{"code": hub.CodeDegraded, "message": text})
	if err == nil && m.ID != "" {
		out = append(out, m)
	}
	return out, err
}

// budgetText says how much of a budget is used.
func budgetText(b hub.Budget, state hub.BudgetState, u use, until hub.Time) string {
	mark := ""
	if u.estimated > 0 {
		mark = "~"
	}
	text := fmt.Sprintf("budget %s of %s: %s%s of %s %s used", b.ID, b.Of, mark, amount(b, u.used), amount(b, b.Limit), per(b))
	if state == hub.BudgetSpent {
		text += "; no turn begins"
		if !until.IsZero() {
			text += " before " + until.String()
		}
		text += "; change it with parley spend budget set or parley spend budget remove " + b.ID
	}
	return text
}

// amount returns an amount of a budget with its unit.
func amount(b hub.Budget, n int64) string {
	if b.Unit == hub.BudgetMoney {
		return fmt.Sprintf("%.2f %s", float64(n)/hub.Million, b.Currency)
	}
	return fmt.Sprintf("%d %s", n, b.Unit)
}

// per returns the period of a budget in words.
func per(b hub.Budget) string {
	if b.Per == hub.PerTotal {
		return "in total"
	}
	return "per " + string(b.Per)
}

// holders returns the agents whose turns a budget bounds, nil for the whole hub: there the operator
// is told.
func holders(rd hub.Reader, b hub.Budget) ([]hub.AgentID, error) {
	team, isTeam := strings.CutPrefix(b.Of, teamPrefix)
	handoff, isHandoff := strings.CutPrefix(b.Of, handoffPrefix)
	switch {
	case b.Of == wholeHub:
		return nil, nil
	case isTeam:
		members, err := rd.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(team), Limit: maxTeams})
		out := []hub.AgentID{} // nil would be all agents
		for _, m := range members {
			if m.Until.IsZero() && m.Agent != hub.Operator {
				out = append(out, m.Agent)
			}
		}
		return out, err
	case isHandoff:
		h, err := rd.Handoff(hub.HandoffID(handoff))
		return []hub.AgentID{h.To}, err
	}
	return []hub.AgentID{hub.AgentID(b.Of)}, nil
}

// Blocked returns why no turn of an agent may begin, and until when; "" if one may. The time is
// zero if only a change of the budget helps.
func (s *Service) Blocked(rd hub.Reader, agent hub.AgentID) (reason string, until hub.Time, err error) {
	return s.blocked(rd, agent, false)
}

// Exceeded returns why a turn of an agent that runs must end; "" if it may go on. The last turn of a
// budget of turns counts from its first model call on, and may go on.
func (s *Service) Exceeded(rd hub.Reader, agent hub.AgentID) (reason string, err error) {
	reason, _, err = s.blocked(rd, agent, true)
	return reason, err
}

// blocked is Blocked, and with inTurn Exceeded.
func (s *Service) blocked(rd hub.Reader, agent hub.AgentID, inTurn bool) (reason string, until hub.Time, err error) {
	budgets, err := rd.Usage().Budgets()
	if err != nil {
		return "", hub.Time{}, err
	}
	now := s.o.Clock.Now()
	for _, b := range budgets {
		isBound, err := bounds(rd, b, agent)
		if err != nil {
			return "", hub.Time{}, err
		}
		if !isBound {
			continue
		}
		u, err := s.used(rd, b, now)
		if err != nil {
			return "", hub.Time{}, err
		}
		b.Of = nameOf(rd, b.Of)
		isLastTurn := inTurn && b.Unit == hub.BudgetTurns && u.used <= b.Limit
		switch {
		case isLastTurn:
		case b.State(u.used) == hub.BudgetSpent:
			_, until := b.Period(now)
			return budgetText(b, hub.BudgetSpent, u, until), until, nil
		case u.problem != "":
			return fmt.Sprintf("budget %s of %s: it is not known how much is used; no turn begins: %s", b.ID, b.Of, u.problem), hub.Time{}, nil
		}
	}
	return "", hub.Time{}, nil
}

// bounds reports whether a budget bounds the turns of an agent. That of a handoff does while the
// agent owns its task.
func bounds(rd hub.Reader, b hub.Budget, agent hub.AgentID) (bool, error) {
	if b.Of == wholeHub || b.Of == string(agent) {
		return true, nil
	}
	if id, ok := strings.CutPrefix(b.Of, handoffPrefix); ok {
		h, err := rd.Handoff(hub.HandoffID(id))
		if hub.CodeOf(err) == hub.CodeNotFound {
			return false, nil
		}
		return h.To == agent && !h.Status.Ended(), err
	}
	if id, ok := strings.CutPrefix(b.Of, teamPrefix); ok {
		members, err := rd.Teamspaces().Members(hub.MemberQuery{Team: hub.TeamID(id), Agent: agent, Limit: 1})
		return slices.ContainsFunc(members, func(m hub.Member) bool { return m.Until.IsZero() }), err
	}
	return false, nil
}
