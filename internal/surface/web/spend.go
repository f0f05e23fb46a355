package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/usage"
)

const (
	spendDays  = 30  // that the plot has
	spendRows  = 200 // of the table
	plotWidth  = 360
	plotHeight = 90
)

// spendData is the page of tokens, costs and budgets.
type spendData struct {
	By      hub.UsageKind
	Kinds   []hub.UsageKind
	Here    string
	Bars    []spendBar
	Text    string // the plot in words
	Peak    string
	Rows    []spendRow
	Total   spendRow
	More    int // rows that are not shown
	Budgets []budgetLine
	Problem string // why some costs are not known
}

// A spendBar is the usage of one day in the plot.
type spendBar struct {
	X, Y, Width, Height string
	Title               string
}

// A spendRow is a row of the table.
type spendRow struct {
	Key                        string
	Turns                      int64
	Input, Read, Write, Output string
	Cost                       string
}

// A budgetLine is a budget with its use.
type budgetLine struct {
	usage.BudgetRow
	UsedText, LimitText string
}

func spendPage(ctx context.Context, v *visit) (string, any, error) {
	by := hub.UsageKind(v.r.URL.Query().Get("by"))
	if !by.Known() {
		by = hub.ByAgent
	}
	now := time.Now().UTC()
	since := hub.At(now.Truncate(24*time.Hour).AddDate(0, 0, 1-spendDays))
	days, err := perform(ctx, v, api.ShowSpend, usage.Query{By: hub.ByDay, Since: since})
	if err != nil {
		return "", nil, err
	}
	sums, err := perform(ctx, v, api.ShowSpend, usage.Query{By: by, Since: since})
	if err != nil {
		return "", nil, err
	}
	budgets, err := perform(ctx, v, api.ListBudgets, api.None{})
	if err != nil {
		return "", nil, err
	}

	d := spendData{By: by, Kinds: hub.UsageKinds, Here: v.r.URL.RequestURI(), Problem: sums.Problem}
	d.plot(days, since)
	for _, r := range sums.Rows[:min(len(sums.Rows), spendRows)] {
		d.Rows = append(d.Rows, newSpendRow(r.Key, r.Turns, r.Tokens, r.Cost))
	}
	d.More = len(sums.Rows) - len(d.Rows)
	d.Total = newSpendRow("total", sums.Total.Turns, sums.Total.Tokens, sums.Total.Cost)
	for _, b := range budgets.Budgets {
		line := budgetLine{BudgetRow: b, UsedText: budgetText(b, b.Used), LimitText: budgetText(b, b.Limit)}
		if b.Estimated > 0 {
			line.UsedText = "~" + line.UsedText
		}
		if b.Problem != "" {
			line.UsedText = "not known"
			d.Problem = b.Problem
		}
		d.Budgets = append(d.Budgets, line)
	}
	return "Spend", d, nil
}

// plot makes the bars of the days, also of those without usage.
func (d *spendData) plot(days usage.Spend, since hub.Time) {
	tokens := map[string]int64{}
	peak := int64(1)
	for _, r := range days.Rows {
		tokens[r.Key] = r.Tokens.Sum()
		peak = max(peak, r.Tokens.Sum())
	}
	width := float64(plotWidth) / spendDays
	var told []string
	for i := range spendDays {
		day := since.AddDate(0, 0, i).Format(time.DateOnly)
		height := float64(plotHeight) * float64(tokens[day]) / float64(peak)
		title := day + ": " + grouped(tokens[day]) + " tokens"
		d.Bars = append(d.Bars, spendBar{
			X: decimal(float64(i)*width + 1), Y: decimal(plotHeight - height), Width: decimal(width - 2), Height: decimal(height), Title: title,
		})
		if tokens[day] > 0 {
			told = append(told, title)
		}
	}
	d.Peak = grouped(peak)
	d.Text = "Tokens by day: " + strings.Join(told, ", ")
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// newSpendRow returns a row with its numbers as people read them.
func newSpendRow(key string, turns int64, t hub.Tokens, costs []usage.Cost) spendRow {
	return spendRow{Key: key, Turns: turns, Input: grouped(t.Input), Read: grouped(t.CachedRead), Write: grouped(t.CachedWrite), Output: grouped(t.Output), Cost: costText(costs)}
}

// grouped returns a number with commas.
func grouped(n int64) string {
	digits := []byte(strconv.FormatInt(n, 10))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = slices.Insert(digits, i, ',')
	}
	return string(digits)
}

// costText returns money by currency: the stated sum, and the estimate with its mark.
func costText(costs []usage.Cost) string {
	var parts []string
	for _, c := range costs {
		if c.Stated > 0 {
			parts = append(parts, fmt.Sprintf("%.2f %s", c.Stated, c.Currency))
		}
		if c.Estimated > 0 {
			parts = append(parts, fmt.Sprintf("~%.2f %s", c.Estimated, c.Currency))
		}
	}
	return strings.Join(parts, " and ")
}

// budgetText returns an amount of a budget with its unit.
func budgetText(b usage.BudgetRow, n float64) string {
	if b.Unit == hub.BudgetMoney {
		return fmt.Sprintf("%.2f %s", n, b.Currency)
	}
	return grouped(int64(n)) + " " + string(b.Unit)
}

// spendText returns the cost of some work in words; "" if none was recorded.
func spendText(t *usage.Total) string {
	if t == nil || t.Turns == 0 {
		return ""
	}
	turns := "1 turn"
	if t.Turns != 1 {
		turns = grouped(t.Turns) + " turns"
	}
	text := turns + ", " + grouped(t.Tokens.Sum()) + " tokens"
	if cost := costText(t.Cost); cost != "" {
		text += ", " + cost
	}
	return text
}

// spendOf returns the cost of some work in words, as the visitor may see it.
func (v *visit) spendOf(ctx context.Context, q usage.Query) (string, error) {
	got, err := perform(ctx, v, api.ShowSpend, q)
	return spendText(&got.Total), err
}

// spendByTask returns the cost of each task of a team in words.
func (v *visit) spendByTask(ctx context.Context, team hub.TeamID) (map[hub.TaskID]string, error) {
	got, err := perform(ctx, v, api.ShowSpend, usage.Query{By: hub.ByTask, Team: team})
	out := map[hub.TaskID]string{}
	for _, r := range got.Rows {
		out[hub.TaskID(r.Key)] = spendText(&usage.Total{Turns: r.Turns, Tokens: r.Tokens, Cost: r.Cost})
	}
	return out, err
}

// stopNow pauses all agents and ends their turns.
func stopNow(ctx context.Context, f form) (string, error) {
	p := api.StopTurnsParams{Of: f.Get("agent"), All: f.Get("agent") == ""}
	got, err := perform(ctx, f.visit, api.StopTurns, p)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, one := range got.Agents {
		if one.Turn != api.TurnNone {
			parts = append(parts, fmt.Sprintf("%s: %s", one.Agent, one.Turn))
		}
	}
	if parts == nil {
		return "The agents are paused; no turn ran.", nil
	}
	return "The agents are paused. Turns: " + strings.Join(parts, ", ") + ". Those that the hub ended go on when wakes resume.", nil
}
