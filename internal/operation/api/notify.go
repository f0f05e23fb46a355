package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/notify"
	"github.com/parley-agents/parley/internal/service/attention"
)

// TargetParams name a target; all of them if empty.
type TargetParams struct {
	Target string `json:"target,omitempty"`
}

// TargetList lists the targets that tell people.
type TargetList struct {
	Targets []notify.TargetState `json:"targets"`
}

func targetList(ctx context.Context, s *Services, a hub.Caller, _ None) (TargetList, error) {
	targets, err := s.Notify.States(ctx, a)
	return TargetList{targets}, err
}

// TargetTest has the result of a test for each target.
type TargetTest struct {
	Targets []notify.TestReport `json:"targets"`
}

func targetTest(ctx context.Context, s *Services, a hub.Caller, p TargetParams) (TargetTest, error) {
	reports, err := s.Notify.Test(ctx, a, p.Target)
	return TargetTest{reports}, err
}

// Replayed says how many things go out again.
type Replayed struct {
	Count int `json:"count"`
}

func targetReplay(ctx context.Context, s *Services, a hub.Caller, p TargetParams) (Replayed, error) {
	count, err := s.Notify.Replay(ctx, a, p.Target)
	return Replayed{count}, err
}

// WaitingItems returns what waits for the operator, for those who tell people of it.
func (s *Services) WaitingItems(ctx context.Context) (notify.Waiting, error) {
	now, err := overview(ctx, s, hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}, None{})
	var out notify.Waiting
	for _, i := range now.Waiting.Items() {
		out.Items = append(out.Items, notify.Wait{Kind: string(i.Kind), ID: i.ID, Agent: i.Agent, Fact: i.Fact, Text: i.Title, Private: i.Private, Command: i.Command})
	}
	if now.Waiting.More > 0 {
		out.Partial = []string{string(attention.KindMail), string(attention.KindViolation)}
	}
	return out, err
}
