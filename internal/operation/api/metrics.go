package api

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/metrics"
)

// MetricsParams choose figures.
type MetricsParams struct {
	PeriodS int64       `json:"period_s,omitempty"` // seconds before now; default a day
	Agent   hub.AgentID `json:"agent,omitempty"`
	Team    hub.TeamID  `json:"team,omitempty"`
}

func showMetrics(ctx context.Context, s *Services, a hub.Caller, p MetricsParams) (metrics.Report, error) {
	if limit := int64(metrics.MaxPeriod / time.Second); p.PeriodS < 0 || p.PeriodS > limit {
		return metrics.Report{}, hub.Errorf(hub.CodeInvalid, "parley/metrics", "period_s must be between 3600 and %d, got %d", limit, p.PeriodS)
	}
	return s.Metrics.Show(ctx, a, metrics.Query{Period: time.Duration(p.PeriodS) * time.Second, Agent: p.Agent, Team: p.Team})
}
