package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/service/handoff"
)

// ClaimParams name an item of the hub's own queue.
type ClaimParams struct {
	Item string `json:"item"`
}

// ClaimsParams choose claims.
type ClaimsParams struct {
	Owner hub.AgentID `json:"owner,omitempty"` // default all agents
}

// A ClaimList lists claims by item, and free items, oldest first.
type ClaimList struct {
	Claims []hub.ItemClaim      `json:"claims"`
	Free   []handoff.QueuedItem `json:"free"`
}

func claimItem(ctx context.Context, s *Services, a hub.Caller, p ClaimParams) (hub.ItemClaim, error) {
	return s.Handoffs.ClaimItem(ctx, a, p.Item)
}

func releaseItem(ctx context.Context, s *Services, a hub.Caller, p ClaimParams) (hub.ItemClaim, error) {
	return s.Handoffs.ReleaseItem(ctx, a, p.Item)
}

func claimList(ctx context.Context, s *Services, _ hub.Caller, p ClaimsParams) (ClaimList, error) {
	out := ClaimList{Claims: []hub.ItemClaim{}, Free: []handoff.QueuedItem{}}
	all, err := s.Handoffs.ItemClaims(ctx, p.Owner)
	if out.Claims = append(out.Claims, all...); err != nil || p.Owner != "" {
		return out, err
	}
	free, err := s.Handoffs.FreeItems(ctx)
	out.Free = append(out.Free, free...)
	return out, err
}

func addItem(ctx context.Context, s *Services, a hub.Caller, p ClaimParams) (handoff.QueuedItem, error) {
	return s.Handoffs.AddItem(ctx, a, p.Item)
}

func nextItem(ctx context.Context, s *Services, a hub.Caller, _ None) (hub.ItemClaim, error) {
	return s.Handoffs.NextItem(ctx, a)
}

func finishItem(ctx context.Context, s *Services, a hub.Caller, p ClaimParams) (hub.ItemClaim, error) {
	return s.Handoffs.FinishItem(ctx, a, p.Item)
}

// gatewayReport is the key of the newest report of a probe of the gateway.
const gatewayReport = "gateway/report"

// gatewayProbe probes the gateway and stores the report.
func gatewayProbe(ctx context.Context, s *Services, a hub.Caller, _ None) (gateway.Report, error) {
	const op = "parley/gateway/probe"
	if s.Gateway == nil {
		return gateway.Report{}, hub.Errorf(hub.CodeNotEnabled, op, "this hub uses no gateway").WithHint("name one under gateway in config.yaml")
	}
	got := s.Gateway.Probe(ctx, s.Clock.Now())
	err := s.Store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		if err := hub.WriteMeta(tx, gatewayReport, got); err != nil {
			return err
		}
		states := map[string]any{}
		for _, f := range got.Findings {
			states[f.Name] = f.State
		}
		_, err := tx.Append(a.Entry(got.At, actions.GatewayProbed, got.URL, states))
		return err
	})
	return got, err
}
