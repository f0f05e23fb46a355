package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parley-agents/parley/hub"
)

// meters counts calls and their durations, for Prometheus.
type meters struct {
	http.Handler
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newMeters(store hub.Store) *meters {
	reg := prometheus.NewRegistry()
	m := &meters{
		Handler: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
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
	return m
}

func (m *meters) observe(method string, code hub.Code, took time.Duration) {
	m.calls.WithLabelValues(method, string(code)).Inc()
	m.took.WithLabelValues(method).Observe(took.Seconds())
}
