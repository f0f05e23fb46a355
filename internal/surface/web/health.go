package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/metrics"
)

// Figures are what the hub has counted since it started.
type Figures struct {
	Calls   float64   // answered
	Refused float64   // of them, with an error of the caller
	Failed  float64   // of them, with an error of the hub
	Bounds  []float64 // upper bounds in seconds of the classes of durations; the last class has none
	Took    []float64 // calls in each class
	Memory  int64     // bytes that the process holds
	Disk    int64     // bytes of the database with its log
	Free    int64     // bytes that are free on the disk; -1 if that is not known
	Streams int       // event streams of pages; counted here
}

const (
	sampleEvery = 10 * time.Second
	maxSamples  = 8640 // a day
)

// A sample is the figures at one time.
type sample struct {
	at      time.Time
	journal int64
	Figures
}

// samples holds the newest samples.
type samples struct {
	mu   sync.Mutex
	list []sample
}

func (s *samples) add(x sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == maxSamples {
		s.list = s.list[1:]
	}
	s.list = append(s.list, x)
}

func (s *samples) since(t time.Time) []sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.list, t, func(x sample, t time.Time) int { return x.at.Compare(t) })
	return slices.Clone(s.list[max(0, i-1):])
}

// Run takes samples for the Health page until ctx ends.
func (h *Handler) Run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		h.sample(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Handler) sample(ctx context.Context) {
	head, err := h.Head(ctx)
	if err != nil {
		return // the log of the store says why
	}
	figures := h.Figures()
	figures.Streams = h.live.count()
	h.history.add(sample{time.Now(), head.Seq, figures})
}

// spans are the windows of time that the Health page can show.
var spans = []struct {
	Name string
	For  time.Duration
}{{"15 min", 15 * time.Minute}, {"1 h", time.Hour}, {"6 h", 6 * time.Hour}, {"24 h", 24 * time.Hour}}

type healthData struct {
	Span     string
	Spans    []string
	Charts   []chart
	Channels []channelRow
	Targets  []notify.TargetState // for operators
	Sessions api.WakeList
	Newest   hub.Time // time of the newest and oldest entry behind the deliveries
	Oldest   hub.Time
	Facts    []field
	Features []feature
	Limits   []field
	Metrics  []metricRow
}

// A metricRow is a figure of the last day.
type metricRow struct{ Name, Of, Value string }

// A feature is one channel or limit as the hub tells of it.
type feature struct {
	Name   string
	On     bool   `json:"enabled"`
	State  string `json:"state"`
	Detail string `json:"detail"`
}

// A channelRow counts deliveries over one channel.
type channelRow struct {
	Channel string
	Counts  []stateCount
	Total   int
}

type stateCount struct {
	State string
	N     int
}

func health(ctx context.Context, v *visit) (string, any, error) {
	d := healthData{Span: spans[0].Name}
	length := spans[0].For
	for _, s := range spans {
		d.Spans = append(d.Spans, s.Name)
		if v.r.URL.Query().Get("span") == s.Name {
			d.Span, length = s.Name, s.For
		}
	}

	// A sample of this moment ends every chart.
	v.sample(ctx)
	list := v.history.since(time.Now().Add(-length))
	now := list[len(list)-1]

	d.Charts = []chart{
		newChart("Calls per second", list, func(a, b sample, s float64) float64 { return (b.Calls - a.Calls) / s }, number),
		newChart("Journal entries per second", list, func(a, b sample, s float64) float64 { return float64(b.journal-a.journal) / s }, number),
		newChart("Call duration, 95th percentile", list, func(a, b sample, _ float64) float64 { return 1000 * quantile(a, b, 0.95) }, milliseconds),
		newChart("Refused calls per minute", list, func(a, b sample, s float64) float64 { return 60 * (b.Refused - a.Refused) / s }, number),
		newChart("Process memory", list, func(_, b sample, _ float64) float64 { return float64(b.Memory) }, func(f float64) string { return byteCount(int64(f)) }),
		newChart("Database on disk", list, func(_, b sample, _ float64) float64 { return float64(b.Disk) }, func(f float64) string { return byteCount(int64(f)) }),
	}

	free := "unknown"
	if now.Free >= 0 {
		free = byteCount(now.Free)
	}
	d.Facts = []field{
		{Name: "calls", Text: number(now.Calls)}, {Name: "refused", Text: number(now.Refused)}, {Name: "failed", Text: number(now.Failed)},
		{Name: "journal entries", Text: fmt.Sprint(now.journal)}, {Name: "free on disk", Text: free}, {Name: "open pages", Text: fmt.Sprint(now.Streams)},
	}
	d.Limits = limitFields(v.Limits)

	// A capability is an object with its state, or a plain value, which is shown as it is.
	who, err := perform(ctx, v, api.Whoami, api.None{})
	if err != nil {
		return "", nil, err
	}
	raw, err := json.Marshal(who.Capabilities)
	if err != nil {
		return "", nil, err
	}
	var features map[string]json.RawMessage
	if json.Unmarshal(raw, &features) == nil {
		for _, name := range slices.Sorted(maps.Keys(features)) {
			f := feature{Name: strings.ReplaceAll(name, "_", " ")}
			if json.Unmarshal(features[name], &f) != nil {
				f.On, f.State = true, string(features[name])
			}
			d.Features = append(d.Features, f)
		}
	}

	if d.Sessions, err = perform(ctx, v, api.ListSessions, api.AgentNameParams{}); err != nil {
		return "", nil, err
	}
	if v.operator() {
		targets, err := perform(ctx, v, api.ListTargets, api.None{})
		if err != nil {
			return "", nil, err
		}
		d.Targets = targets.Targets
	}

	entries, err := perform(ctx, v, api.Audit, api.AuditParams{Last: true, Limit: 1000})
	if err != nil {
		return "", nil, err
	}
	d.count(entries.Entries)
	report, err := perform(ctx, v, api.Metrics, api.MetricsParams{})
	if err != nil {
		return "", nil, err
	}
	d.Metrics = metricRows(report)
	return "Health", d, nil
}

// metricRows returns figures in words.
func metricRows(r metrics.Report) (rows []metricRow) {
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		for _, f := range r.Metrics[name] {
			row := metricRow{Name: strings.ReplaceAll(strings.TrimSuffix(name, "_total"), "_", " "), Value: number(f.Value)}
			for _, label := range slices.Sorted(maps.Keys(f.Labels)) {
				row.Of = strings.TrimSpace(row.Of + " " + f.Labels[label])
			}
			if metrics.Describe(name).Timed {
				row.Value = fmt.Sprintf("median %.3g s, 95th percentile %.3g s, %s in total", f.Value, f.P95, number(f.Count))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// limitFields returns the limits of senders and conversations in words.
func limitFields(l mailroom.Limits) []field {
	if l.Unsafe {
		return []field{{Name: "rate limits and breaker", Text: "off"}, {Name: "messages per thread", Text: fmt.Sprint(l.ThreadHops)}}
	}
	return []field{
		{Name: "messages per minute, per sender", Text: fmt.Sprint(l.DirectPerMinute)}, {Name: "broadcasts per hour, per sender", Text: fmt.Sprint(l.BroadcastPerHour)},
		{Name: "recipients per message", Text: fmt.Sprint(l.Recipients)}, {Name: "messages per thread", Text: fmt.Sprint(l.ThreadHops)},
		{Name: "identical messages before a suspension", Text: fmt.Sprintf("%d within %v", l.Repeats, l.RepeatWindow)}, {Name: "suspensions per day before the operator must lift one", Text: fmt.Sprint(l.TripsPerDay)},
	}
}

// count counts the deliveries among entries of the journal.
func (d *healthData) count(entries []hub.Entry) {
	byChannel := map[string]map[string]int{}
	add := func(channel, state string) {
		if byChannel[channel] == nil {
			byChannel[channel] = map[string]int{}
		}
		byChannel[channel][state]++
	}

	for _, e := range entries {
		var f struct {
			Channel string `json:"channel"`
			State   string `json:"state"`
		}
		json.Unmarshal(e.Facts, &f) // facts of another form name no channel
		switch e.Action {
		case actions.MessageSent:
			add("inbox", "stored")
		case actions.MessageHeld:
			add("inbox", "held")
		case actions.MessageDelivered:
			add("inbox", "fetched")
		case actions.MessageRead:
			add("inbox", "read")
		case actions.DeliveryMoved, actions.ChannelTried:
			if f.Channel != "" {
				add(f.Channel, cmp.Or(f.State, "tried"))
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(byChannel)) {
		row := channelRow{Channel: name}
		for _, state := range slices.Sorted(maps.Keys(byChannel[name])) {
			n := byChannel[name][state]
			row.Counts = append(row.Counts, stateCount{state, n})
			row.Total += n
		}
		d.Channels = append(d.Channels, row)
	}

	if len(entries) > 0 {
		d.Oldest, d.Newest = entries[0].At, entries[len(entries)-1].At
	}
}

// quantile returns the bound in seconds below which a part of the calls between two
// samples lie.
func quantile(a, b sample, part float64) float64 {
	var total float64
	classes := make([]float64, len(b.Took))
	for i, n := range b.Took {
		classes[i] = n
		if i < len(a.Took) {
			classes[i] -= a.Took[i]
		}
		total += classes[i]
	}
	sum := 0.0
	for i, n := range classes {
		if sum += n; total > 0 && sum >= part*total {
			return b.Bounds[min(i, len(b.Bounds)-1)]
		}
	}
	return 0
}

// A chart is a line over time.
type chart struct {
	Title       string
	Line, Area  string // paths
	Now, Max    string
	Text        string // in words
	From, Until hub.Time
}

const (
	chartWidth, chartHeight = 360.0, 90.0
	chartPoints             = 120
)

// newChart draws a value that follows from two samples and the seconds between them.
func newChart(title string, list []sample, value func(a, b sample, seconds float64) float64, write func(float64) string) chart {
	c := chart{Title: title, From: hub.At(list[0].at), Until: hub.At(list[len(list)-1].at)}
	step := max(1, (len(list)-1)/chartPoints)

	// Each point compares two samples that lie step apart; a line needs two points.
	var ys []float64
	for i := step; i < len(list); i += step {
		a, b := list[i-step], list[i]
		ys = append(ys, math.Max(0, value(a, b, math.Max(0.001, b.at.Sub(a.at).Seconds()))))
	}
	if len(ys) == 0 {
		ys = []float64{math.Max(0, value(list[0], list[0], 1))}
	}
	if len(ys) == 1 {
		ys = append(ys, ys[0])
	}

	top := slices.Max(ys)
	c.Now, c.Max = write(ys[len(ys)-1]), write(top)

	var line strings.Builder
	for i, y := range ys {
		x := chartWidth * float64(i) / float64(len(ys)-1)
		h := chartHeight - 4
		if top > 0 {
			h -= (chartHeight - 8) * y / top
		}
		fmt.Fprintf(&line, "%c%.1f %.1f", map[bool]byte{true: 'M', false: 'L'}[i == 0], x, h)
	}

	c.Line = line.String()
	c.Area = c.Line + fmt.Sprintf("L%.0f %.0fL0 %.0fZ", chartWidth, chartHeight, chartHeight)
	c.Text = fmt.Sprintf("%s: now %s, peak %s", title, c.Now, c.Max)
	return c
}

func number(f float64) string { return trim(f) }

func milliseconds(f float64) string { return trim(f) + " ms" }
