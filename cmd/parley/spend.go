package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/usage"
)

func (a *app) spendCommand() *cobra.Command {
	return noun("spend", "Show the tokens, costs, budgets and prices of agents", a.spendListCommand(), a.budgetCommand(), a.pricesCommand())
}

// spendListCommand returns the command that shows tokens and costs.
func (a *app) spendListCommand() *cobra.Command {
	var q usage.Query
	var asCSV bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show the tokens and costs of agents",
		Long: `Show the tokens and costs of model calls, by agent, task, handoff, team, model, day or
run. Input counts tokens that were not in the model's cache; cached tokens are counted
apart. A cost with ~ is an estimate by the prices that "parley spend prices" lists; others were
stated by the agents. Usage that belongs to no task is "own work".`,
		Example: `  parley spend --since 7d
  parley spend --by task --json
  parley spend --by day --csv`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar((*string)(&q.By), "by", string(hub.ByAgent), "sum up by agent, task, handoff, team, model, day or run")
	cmd.Flags().StringVar((*string)(&q.Agent), "agent", "", "only this agent")
	cmd.Flags().StringVar((*string)(&q.Handoff), "handoff", "", "only this handoff")
	cmd.Flags().StringVar((*string)(&q.Task), "task", "", "only this task")
	cmd.Flags().StringVar((*string)(&q.Team), "team", "", "only this team")
	cmd.Flags().BoolVar(&q.Coordination, "coordination", false, "show what Parley itself costs: the texts of the hub that models read")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write the rows as CSV")
	since := momentFlag(cmd, &q.Since, -1, "since", "only usage since this time, or a span such as 7d")

	return prepared(cmd, func(ctx context.Context) error {
		got, err := call(ctx, a, api.ShowSpend, q)
		if err != nil {
			return err
		}
		if asCSV {
			return writeSpendCSV(a.out, got)
		}
		return a.print(got, func(w io.Writer) { writeSpend(w, got) })
	}, since)
}

// writeSpend writes usage as a table, with the sum at the end.
func writeSpend(w io.Writer, got usage.Spend) {
	if got.By == usage.ByCoordination {
		writeCoordination(w, got)
		return
	}
	if len(got.Rows) == 0 {
		fmt.Fprintln(w, "no usage was recorded")
		return
	}
	rows := append(slices.Clone(got.Rows), usage.Row{Key: "total", Turns: got.Total.Turns, Tokens: got.Total.Tokens, Cost: got.Total.Cost})
	defer func() {
		writeUnpriced(w, "", got.Total.Unpriced, "and counts at the highest price of its vendor")
		if got.Total.Said > 0 {
			fmt.Fprintf(w, "%s tokens are the word of agents alone; they count for the budgets of these agents, not for those of a team or the hub\n", count(got.Total.Said))
		}
		writeProblem(w, got.Problem)
	}()
	writeTable(w, strings.ToUpper(string(got.By))+", TURNS, INPUT, CACHE READ, CACHE WRITE, OUTPUT, COST", rows, func(r usage.Row) []any {
		return []any{r.Key, r.Turns, count(r.Input), count(r.CachedRead), count(r.CachedWrite), count(r.Output), costText(r.Cost)}
	})
}

// writeProblem writes why a cost is not known, if it is not.
func writeProblem(w io.Writer, problem string) {
	if problem != "" {
		fmt.Fprintf(w, "%s %s\n", paint(w, "31", "problem:"), problem)
	}
}

// writeCoordination writes the texts of the hub that models read.
func writeCoordination(w io.Writer, got usage.Spend) {
	writeTable(w, "TEXT, TIMES, TOKENS", got.Rows, func(r usage.Row) []any { return []any{r.Key, r.Turns, "~" + count(r.Input)} })
	total := got.Total.Tokens.Sum()
	fmt.Fprintf(w, "total ~%s tokens in %s", count(total), counted(int(got.Total.Turns), "turn"))
	if got.Total.Turns > 0 {
		fmt.Fprintf(w, ", ~%s for each", count(total/got.Total.Turns))
	}
	fmt.Fprintln(w, "; the definitions of tools count for every call of a model, and most of them are read from its cache")
}

// count returns a number of tokens as people read it.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// costText returns money by currency: the stated sum, and the estimate with its mark.
func costText(costs []usage.Cost) string {
	var parts []string
	for _, c := range costs {
		if c.Stated > 0 || c.Estimated == 0 {
			parts = append(parts, fmt.Sprintf("%.2f %s", c.Stated, c.Currency))
		}
		if c.Estimated > 0 {
			parts = append(parts, fmt.Sprintf("~%.2f %s", c.Estimated, c.Currency))
		}
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, " and ")
}

// writeCost writes the cost of some work, if one was recorded.
func writeCost(w io.Writer, t *usage.Total) {
	if t == nil {
		return
	}
	fmt.Fprintf(w, "spend: %d turns, %s tokens in, %s from cache, %s out, cost %s\n", t.Turns, count(t.Input+t.CachedWrite), count(t.CachedRead), count(t.Output), costText(t.Cost))
}

// writeSpendCSV writes the rows as CSV, one line for each currency of a row.
func writeSpendCSV(out io.Writer, got usage.Spend) error {
	w := csv.NewWriter(out)
	w.Write([]string{string(got.By), "turns", "input", "output", "cached_read", "cached_write", "reasoning", "currency", "stated", "estimated"}) // an error stays until Flush
	for _, r := range got.Rows {
		costs := r.Cost
		if len(costs) == 0 {
			costs = []usage.Cost{{}}
		}
		for i, c := range costs {
			line := []string{plainCell(r.Key), "", "", "", "", "", "", c.Currency, amountCell(c.Currency, c.Stated), amountCell(c.Currency, c.Estimated)}
			if i == 0 { // further currencies add no tokens
				for j, n := range []int64{r.Turns, r.Input, r.Output, r.CachedRead, r.CachedWrite, r.Reasoning} {
					line[j+1] = strconv.FormatInt(n, 10)
				}
			}
			w.Write(line)
		}
	}
	w.Flush()
	return w.Error()
}

// plainCell returns a text that no spreadsheet takes for a formula.
func plainCell(text string) string {
	if strings.ContainsAny(text[:min(len(text), 1)], "=+-@\t\r") {
		return "'" + text
	}
	return text
}

// amountCell returns an amount of money; "" without a currency.
func amountCell(currency string, amount float64) string {
	if currency == "" {
		return ""
	}
	return strconv.FormatFloat(amount, 'f', -1, 64)
}

// pricesCommand returns the command that lists prices.
func (a *app) pricesCommand() *cobra.Command {
	list := operation(a, &cobra.Command{
		Use: "list", Short: "List the prices that estimates use",
		Long: `List the prices of models, for a million tokens each. They are list prices of the date
that is shown, and estimates by them are marked with ~. The file prices.json in the hub's
home adds models and replaces prices; "parley spend prices set" writes it. A model without a price
counts at the highest price of its vendor, or of the whole list if its vendor is unknown.`,
		Args: cobra.NoArgs,
	}, api.ListPrices, &api.None{}, writePrices)
	return noun("prices", "List or set the prices that estimates use", list, a.pricesSetCommand())
}

// writePrices writes a list of prices as a table.
func writePrices(w io.Writer, got usage.PriceList) {
	fmt.Fprintf(w, "list prices of %s (%s); your own: %s\n", got.AsOf, got.Source, got.File)
	if got.Problem != "" {
		writeProblem(w, got.Problem)
		return
	}
	writeTable(w, "MODEL, INPUT, OUTPUT, CACHE READ, CACHE WRITE, CURRENCY, OWN", got.Prices, func(p usage.Price) []any {
		own := ""
		if p.Own {
			own = "yes"
		}
		return []any{p.Model, price(p.Input), price(p.Output), price(p.CachedRead), price(p.CachedWrite), p.Currency, own}
	})
}

// pricesSetCommand returns the command that sets prices.
func (a *app) pricesSetCommand() *cobra.Command {
	var c usage.PriceChange
	return operation(a, &cobra.Command{
		Use: "set MODEL=PRICE... | FILE", Short: "Set prices of models, or load a list of prices",
		Long: `Set prices of models, for a million tokens. A price is one amount for all tokens (0usd for a
model of your own machine), or amounts for input and output, and for input that is read from
and written to the model's cache: 3/15usd or 3/15/0.3/3.75usd. With two amounts, cached input
costs as much as other input. FILE is a list that replaces your own prices:
{"as_of": "2026-01-31", "currency": "USD", "models": {"my-model": {"input": 1, "output": 5,
"cached_read": 0.1, "cached_write": 1.25}}}.`,
		Example: `  parley spend prices set llama-local=0usd
  parley spend prices set my-model=3/15usd
  parley spend prices set prices.json`,
		Args: cobra.MinimumNArgs(1),
	}, api.SetPrices, &c, func(w io.Writer, got usage.PriceList) {
		own := slices.DeleteFunc(got.Prices, func(p usage.Price) bool { return !p.Own })
		writePrices(w, usage.PriceList{AsOf: got.AsOf, Source: got.Source, File: got.File, Prices: own})
	}, func(_ context.Context, args []string) (err error) {
		c, err = parsePriceChange(args)
		return err
	})
}

// parsePriceChange reads prices of models such as my-model=3/15usd, or a file with a list.
func parsePriceChange(args []string) (c usage.PriceChange, err error) {
	if len(args) == 1 && !strings.Contains(args[0], "=") {
		raw, err := os.ReadFile(args[0])
		if err == nil && !json.Valid(raw) {
			err = usagef("%s is no JSON file with a list of prices", args[0])
		}
		return usage.PriceChange{List: raw}, err
	}
	c.Models = map[string]usage.Price{}
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		p, ok := parsePrice(text)
		if !ok || name == "" {
			return c, usagef("a price must be of the form MODEL=0usd, MODEL=3/15usd or MODEL=3/15/0.3/3.75usd, got %q", arg)
		}
		c.Models[name] = p
	}
	return c, nil
}

// parsePrice reads a price such as 3/15usd.
func parsePrice(text string) (p usage.Price, ok bool) {
	i := strings.LastIndexAny(text, "0123456789.")
	p.Currency = strings.ToUpper(text[i+1:])
	var amounts []float64
	for part := range strings.SplitSeq(text[:i+1], "/") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || v < 0 {
			return p, false
		}
		amounts = append(amounts, v)
	}
	switch len(amounts) {
	case 1: // the same for all tokens
		amounts = append(amounts, amounts[0], amounts[0], amounts[0])
	case 2: // cached input as other input
		amounts = append(amounts, amounts[0], amounts[0])
	case 4:
	default:
		return p, false
	}
	p.Input = amounts[0]
	p.Output = amounts[1]
	p.CachedRead = amounts[2]
	p.CachedWrite = amounts[3]
	return p, len(p.Currency) == 3
}

func price(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// budgetCommand returns the commands for budgets.
func (a *app) budgetCommand() *cobra.Command {
	return noun("budget", "Bound the tokens, money and turns of agents", a.budgetListCommand(), a.budgetSetCommand(), a.budgetRemoveCommand())
}

func (a *app) budgetSetCommand() *cobra.Command {
	var l usage.Limit
	var tokens, money string
	cmd := &cobra.Command{
		Use:   "set AGENT|team:NAME|handoff:ID|hub",
		Short: "Set a budget",
		Long: `Bound the tokens, money or turns of an agent, a team, a handoff or the whole hub, for an
hour, a day (both in UTC) or in total. At 80 % the agents concerned and you are told. At
100 % no turn and no run begins: mail waits and says why, and a running turn of a kept agent
is asked to stop at its next tool call. At most one turn of each agent goes beyond the budget.`,
		Example: `  parley spend budget set builder --tokens 2M --per day
  parley spend budget set team:core --money 5usd --per day --hard
  parley spend budget set hub --turns 20 --per hour`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&tokens, "tokens", "", "tokens of all kinds, such as 500k or 2M")
	cmd.Flags().StringVar(&money, "money", "", "money with its currency, such as 5usd; estimates count, too")
	cmd.Flags().Int64Var(&l.Turns, "turns", 0, "turns")
	cmd.Flags().StringVar((*string)(&l.Per), "per", string(hub.PerDay), "hour, day or total")
	cmd.Flags().BoolVar(&l.Hard, "hard", false, "cancel running turns of kept agents")
	cmd.Flags().StringVar(&l.Unpriced, "unpriced", "", "allow: models without a price are free for a budget of money (default: they count at the highest price of their vendor)")
	return operation(a, cmd, api.SetBudget, &l, func(w io.Writer, b usage.BudgetRow) { writeBudgets(w, []usage.BudgetRow{b}) }, argument(0, &l.Of),
		func(context.Context, []string) (err error) {
			if tokens != "" {
				if l.Tokens, err = parseTokens(tokens); err != nil {
					return err
				}
			}
			if money != "" {
				l.Money, l.Currency, err = parseMoney(money)
			}
			return err
		})
}

// parseTokens reads a number of tokens such as 2M or 500k.
func parseTokens(text string) (int64, error) {
	number, factor := text, 1.0
	switch text[len(text)-1] {
	case 'k', 'K':
		number, factor = text[:len(text)-1], 1e3
	case 'm', 'M':
		number, factor = text[:len(text)-1], 1e6
	case 'g', 'G', 'b', 'B':
		number, factor = text[:len(text)-1], 1e9
	}
	n, err := strconv.ParseFloat(number, 64)
	isCount := err == nil && n > 0 && n*factor < 1e15
	if !isCount {
		return 0, usagef("--tokens must be a number such as 500k or 2M, got %q", text)
	}
	return int64(n * factor), nil
}

// parseMoney reads an amount with its currency such as 5usd.
func parseMoney(text string) (float64, string, error) {
	text = strings.ReplaceAll(text, " ", "")
	i := strings.LastIndexAny(text, "0123456789.")
	amount, err := strconv.ParseFloat(text[:i+1], 64)
	currency := strings.ToUpper(text[i+1:])
	isMoney := err == nil && amount > 0 && len(currency) == 3
	if !isMoney {
		return 0, "", usagef("--money must be an amount with its currency such as 5usd, got %q", text)
	}
	return amount, currency, nil
}

func (a *app) budgetListCommand() *cobra.Command {
	return operation(a, &cobra.Command{Use: "list", Short: "List budgets and how much of them is used", Args: cobra.NoArgs}, api.ListBudgets, &api.None{}, func(w io.Writer, got usage.BudgetList) {
		if len(got.Budgets) == 0 {
			fmt.Fprintln(w, "no budgets")
			return
		}
		writeBudgets(w, got.Budgets)
	})
}

// writeBudgets writes budgets as a table.
func writeBudgets(w io.Writer, budgets []usage.BudgetRow) {
	writeTable(w, "BUDGET, OF, USED, LIMIT, PER, STATE, RESETS", budgets, func(b usage.BudgetRow) []any {
		used := budgetAmount(b, b.Used)
		if b.Estimated > 0 {
			used = "~" + used
		}
		resets := "-"
		if !b.ResetsAt.IsZero() {
			resets = when(b.ResetsAt)
		}
		if b.Problem != "" {
			used = "not known"
		}
		return []any{b.ID, b.Of, used, budgetAmount(b, b.Limit), b.Per, state(b.State), resets}
	})
	if i := slices.IndexFunc(budgets, func(b usage.BudgetRow) bool { return b.Problem != "" }); i >= 0 {
		writeProblem(w, budgets[i].Problem)
	}
	for _, b := range budgets {
		writeBudgetNotes(w, b)
	}
}

// writeBudgetNotes writes what a budget does not count, or counts at a price that is not the model's own.
func writeBudgetNotes(w io.Writer, b usage.BudgetRow) {
	if b.UnpricedFree {
		fmt.Fprintf(w, "%s: models without a price are free (--unpriced allow: %s, %s)\n", b.ID, b.SetBy, when(b.SetAt))
	}
	if len(b.Unpriced) > 0 {
		rule := "and counts at the highest price of its vendor"
		if b.UnpricedFree {
			rule = "and counts for nothing"
		}
		writeUnpriced(w, b.ID+": ", b.Unpriced, rule)
	}
	if b.Said > 0 {
		fmt.Fprintf(w, "%s: %s that agents reported and the hub could not read itself are not counted here, but in budgets of these agents\n", b.ID, budgetAmount(b, b.Said))
	}
}

// maxUnpriced is the number of models without a price that are named.
const maxUnpriced = 5

// writeUnpriced names models without a price, with the line that prices each.
func writeUnpriced(w io.Writer, before string, models []string, rule string) {
	for i, model := range models {
		if i == maxUnpriced {
			fmt.Fprintf(w, "%s%d more models have no price\n", before, len(models)-i)
			return
		}
		if model == usage.UnknownModel {
			fmt.Fprintf(w, "%scalls without the name of a model have no price, %s\n", before, rule)
			continue
		}
		fmt.Fprintf(w, "%s%s has no price, %s; set one, also 0: parley spend prices set %[2]s=0usd\n", before, model, rule)
	}
}

// budgetAmount returns an amount of a budget with its unit.
func budgetAmount(b usage.BudgetRow, n float64) string {
	if b.Unit == hub.BudgetMoney {
		return fmt.Sprintf("%.2f %s", n, b.Currency)
	}
	return count(int64(n)) + " " + string(b.Unit)
}

func (a *app) budgetRemoveCommand() *cobra.Command {
	var p api.BudgetParams
	return operation(a, &cobra.Command{Use: "remove BUDGET", Short: "Remove a budget", Args: cobra.ExactArgs(1), Example: "  parley spend budget remove b1"},
		api.RemoveBudget, &p, func(w io.Writer, _ api.None) { fmt.Fprintf(w, "budget %s is removed\n", p.ID) }, argument(0, &p.ID))
}
