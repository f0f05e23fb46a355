package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/metrics"
)

func (a *app) hubFiguresCommand() *cobra.Command {
	var p api.MetricsParams
	cmd := &cobra.Command{
		Use: "figures", Short: "Show figures about the agents' work",
		Long: `Show figures about handoffs, tasks, blockers, gates, refusals, deliveries, wakes and
runs for a period of at most a week. They are computed from the journal, by the hour.
With --json the names are those of the metrics endpoint without parley_.`,
		Example: `  parley hub figures --period 24h
  parley hub figures --agent builder --json`,
		Args: cobra.NoArgs,
	}
	period := secondsFlag(cmd, &p.PeriodS, "period", "length of the period until now, from 1h to 168h (default 24h)")
	cmd.Flags().StringVar((*string)(&p.Agent), "agent", "", "only this agent")
	cmd.Flags().StringVar((*string)(&p.Team), "team", "", "only this team")
	return operation(a, cmd, api.Metrics, &p, writeMetrics, period)
}

func writeMetrics(w io.Writer, r metrics.Report) {
	fmt.Fprintf(w, "since %s\n", when(r.Since))
	type row struct {
		name string
		metrics.Figure
	}
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		for _, f := range r.Metrics[name] {
			rows = append(rows, row{name, f})
		}
	}
	writeList(w, "figures", "METRIC, OF, VALUE", rows, func(x row) []any {
		value := fmt.Sprintf("%g", x.Value)
		if d := metrics.Describe(x.name); d.Timed {
			value = fmt.Sprintf("median %s, p95 %s, %g in all", span(x.Value), span(x.P95), x.Count)
		}
		var of []string
		for _, name := range slices.Sorted(maps.Keys(x.Labels)) {
			of = append(of, x.Labels[name])
		}
		return []any{x.name, strings.Join(of, " "), value}
	})
}

// span returns seconds as people read them.
func span(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}
