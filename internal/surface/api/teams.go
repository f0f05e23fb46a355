package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/strictjson"
)

// teams returns the service of teams, or that this hub has none.
func (s *Services) teams(op string) (*team.Service, error) {
	if s.Teams == nil {
		return nil, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not have teamspaces")
	}
	return s.Teams, nil
}

func teamwork(ctx context.Context, s *Services, a hub.Caller, r team.Request) (team.Answer, error) {
	const op = "acp/team"
	teams, err := s.teams(op)
	if err != nil {
		return team.Answer{}, err
	}
	if a.Kind == hub.CallerViewer && r.Changes() {
		return team.Answer{}, hub.Errorf(hub.CodeDenied, op, "a viewer reads teams and changes none")
	}
	out, err := teams.Perform(ctx, a, r)
	if err != nil {
		return out, err
	}
	var warnings []string
	out.Unread, out.Capabilities, warnings = s.standing(ctx, a)
	out.Warnings = append(out.Warnings, warnings...)
	return out, nil
}

// TeamPolicyParams name a team, and the cells of its matrix that the operator changes.
type TeamPolicyParams struct {
	Team hub.TeamID  `json:"team"`
	Set  []team.Cell `json:"set,omitempty"`
}

func teamPolicy(ctx context.Context, s *Services, a hub.Caller, p TeamPolicyParams) (team.Grid, error) {
	teams, err := s.teams("parley/team/policy")
	if err != nil {
		return team.Grid{}, err
	}
	return teams.Authority(ctx, a, p.Team, p.Set)
}

// TeamLogParams choose journal entries about a team.
type TeamLogParams struct {
	Team  hub.TeamID       `json:"team"`
	After int64            `json:"after,omitempty"`
	Limit strictjson.Count `json:"limit,omitzero"`
}

func teamLog(ctx context.Context, s *Services, a hub.Caller, p TeamLogParams) (team.Log, error) {
	teams, err := s.teams("parley/team/log")
	if err != nil {
		return team.Log{}, err
	}
	return teams.Log(ctx, a, p.Team, p.After, int(p.Limit))
}
