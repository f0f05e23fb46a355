package routes

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	dto "github.com/prometheus/client_model/go"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/metrics"
	"github.com/parley-agents/parley/internal/surface/web"
)

// Meters counts calls and their durations, for Prometheus. The counters begin at
// zero with the process; figures of the work itself come from the journal and
// survive it.
type Meters struct {
	http.Handler
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

// NewMeters returns meters for a hub. The registry is its own: a program that embeds a hub keeps the default one to
// itself.
func NewMeters(store hub.Store, journal *metrics.Service) *Meters {
	reg := prometheus.NewRegistry()
	m := &Meters{
		registry: reg,
		Handler:  promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_calls_total", Help: "Calls answered, by method and code; code is empty for success.",
		}, []string{"method", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_call_seconds", Help: "Time from the start of a call to its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
		}, []string{"method"}),
	}
	reg.MustRegister(m.calls, m.took, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_journal_entries", Help: "Number of the newest journal entry, or -1 while the store cannot be read.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var head hub.Head
		if store.View(ctx, func(r hub.Reader) (err error) { head, err = hub.HeadOf(r); return err }) != nil {
			return -1
		}
		return float64(head.Seq)
	}))
	reg.MustRegister(collector{journal}, spendCollector{store})
	return m
}

// A collector gives Prometheus the figures that are computed from the journal.
type collector struct{ *metrics.Service }

// Describe names none: the names depend on the labels that occurred.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the totals. While they cannot be computed they are missing.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := c.Totals(ctx)
	if err != nil {
		return
	}
	for name, list := range all {
		d := metrics.Describe(name)
		for _, f := range list {
			values := make([]string, len(d.Labels))
			for i, l := range d.Labels {
				values[i] = f.Labels[l]
			}
			desc := prometheus.NewDesc("parley_"+name, d.Help, d.Labels, nil)
			switch {
			case d.Timed:
				out <- prometheus.MustNewConstHistogram(desc, uint64(f.Count), f.Sum, f.Buckets(), values...)
			case strings.HasSuffix(name, "_total"):
				out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, f.Value, values...)
			default:
				out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, f.Value, values...)
			}
		}
	}
}

// Figures returns what was counted, for the hub's page.
// Refusals that are the caller's mistake and failures of the hub are counted apart.
func (m *Meters) Figures() (out web.Figures) {
	families, err := m.registry.Gather()
	if err != nil {
		return out // a part of the figures is missing on a page
	}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			switch f.GetName() {
			case "parley_calls_total":
				n := x.GetCounter().GetValue()
				out.Calls += n
				for _, l := range x.GetLabel() {
					switch code := hub.Code(l.GetValue()); {
					case l.GetName() != "code" || code == "":
					case code == hub.CodeInternal || code == hub.CodeDegraded || code == hub.CodeOverloaded:
						out.Failed += n
					default:
						out.Refused += n
					}
				}
			case "parley_call_seconds":
				addClasses(&out, x.GetHistogram())
			case "process_resident_memory_bytes":
				out.Memory = int64(x.GetGauge().GetValue())
			}
		}
	}
	return out
}

// addClasses adds the counts of a histogram, which are cumulative.
// All methods have the same bounds, so their classes can be added.
func addClasses(out *web.Figures, h *dto.Histogram) {
	if out.Took == nil {
		out.Took = make([]float64, len(h.GetBucket())+1)
	}
	before := uint64(0)
	for i, b := range h.GetBucket() {
		if len(out.Bounds) <= i {
			out.Bounds = append(out.Bounds, b.GetUpperBound())
		}
		out.Took[i] += float64(b.GetCumulativeCount() - before)
		before = b.GetCumulativeCount()
	}
	out.Took[len(out.Took)-1] += float64(h.GetSampleCount() - before)
}

// Observe counts one call that was answered. Methods are those of the tables, so a
// caller cannot make new labels.
func (m *Meters) Observe(method string, code hub.Code, took time.Duration) {
	m.calls.WithLabelValues(method, string(code)).Inc()
	m.took.WithLabelValues(method).Observe(took.Seconds())
}

// A spendCollector gives Prometheus the tokens and stated costs of all agents.
type spendCollector struct{ store hub.Store }

var (
	tokensDesc = prometheus.NewDesc("parley_tokens_total", "Tokens of model calls, by kind; the kinds do not overlap.", []string{"kind"}, nil)
	turnsDesc  = prometheus.NewDesc("parley_turns_total", "Turns whose usage was recorded.", nil, nil)
	costDesc   = prometheus.NewDesc("parley_stated_cost_total", "Cost of model calls that agents stated, without estimates.", []string{"currency"}, nil)
)

// Describe implements prometheus.Collector.
func (spendCollector) Describe(out chan<- *prometheus.Desc) {
	out <- tokensDesc
	out <- turnsDesc
	out <- costDesc
}

// Collect sends the totals. While they cannot be read they are missing.
func (c spendCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var sums []hub.UsageSum
	var turns map[string]int64
	err := c.store.View(ctx, func(r hub.Reader) (err error) {
		if sums, err = r.Usage().Sums(hub.UsageQuery{}); err != nil {
			return err
		}
		turns, err = r.Usage().Turns(hub.UsageQuery{})
		return err
	})
	if err != nil {
		return
	}

	var all hub.Tokens
	costs := map[string]int64{}
	for _, s := range sums {
		all = all.Plus(s.Tokens)
		if s.Currency != "" {
			costs[s.Currency] += s.Cost
		}
	}
	for kind, n := range map[string]int64{"input": all.Input, "output": all.Output, "cached_read": all.CachedRead, "cached_write": all.CachedWrite} {
		out <- prometheus.MustNewConstMetric(tokensDesc, prometheus.CounterValue, float64(n), kind)
	}
	out <- prometheus.MustNewConstMetric(turnsDesc, prometheus.CounterValue, float64(turns[""]))
	for currency, n := range costs {
		out <- prometheus.MustNewConstMetric(costDesc, prometheus.CounterValue, float64(n)/hub.Million, currency)
	}
}
