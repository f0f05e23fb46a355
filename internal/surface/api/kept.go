package api

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/keeper"
	"github.com/parley-agents/parley/internal/reach/wake"
)

// A KeptAgent is an agent that the hub runs.
type KeptAgent = keeper.Status

// KeepParams describe an agent that the hub is to run.
type KeepParams struct {
	keeper.Definition
	Worktree bool     `json:"worktree,omitempty"` // work in a git worktree that is made for the agent
	Role     hub.Role `json:"role,omitempty"`     // of an agent that is added
	Can      []string `json:"can,omitempty"`      // its abilities
}

// keep keeps an agent. That is the yes of its user to turns that mail starts.
func keep(ctx context.Context, s *Services, a hub.Caller, p KeepParams) (KeptAgent, error) {
	permission := wake.Permission{Agent: p.Agent, Allow: true, PerHour: p.PerHour}
	if err := permission.Check("parley/agent/keep"); err != nil {
		return KeptAgent{}, err
	}
	out, err := s.Keeper.Keep(ctx, a, p.Definition, hub.Agent{Role: p.Role, Can: p.Can}, p.Worktree)
	if err != nil {
		return out, err
	}
	return out, s.Wakes.Allow(ctx, a, permission)
}

// KeptList lists the agents that the hub runs.
type KeptList struct {
	Agents []KeptAgent `json:"agents"`
}

func keptList(ctx context.Context, s *Services, _ hub.Caller, _ None) (KeptList, error) {
	agents, err := s.Keeper.List(ctx)
	return KeptList{agents}, err
}

// StopParams name a kept agent.
type StopParams struct {
	Agent  hub.AgentID `json:"agent"`
	Forget bool        `json:"forget,omitempty"` // do not keep it any more
}

func keptStop(ctx context.Context, s *Services, a hub.Caller, p StopParams) (None, error) {
	return None{}, s.Keeper.Stop(ctx, a, p.Agent, p.Forget)
}

// RestartParams name a kept agent.
type RestartParams struct {
	Agent hub.AgentID `json:"agent"`
	Fresh bool        `json:"fresh,omitempty"` // begin a new session
}

func keptRestart(ctx context.Context, s *Services, a hub.Caller, p RestartParams) (KeptAgent, error) {
	return s.Keeper.Restart(ctx, a, p.Agent, p.Fresh)
}

// KeptLogParams name a kept agent and the lines to return.
type KeptLogParams struct {
	Agent hub.AgentID `json:"agent"`
	After int64       `json:"after,omitempty"`  // lines after this number
	WaitS int         `json:"wait_s,omitempty"` // seconds to wait for a line if there is none; at most 30
}

// KeptLog is a part of the log of a kept agent.
type KeptLog struct {
	Lines []keeper.Line `json:"lines"`
}

func keptLog(ctx context.Context, s *Services, a hub.Caller, p KeptLogParams) (KeptLog, error) {
	if p.WaitS < 0 || p.WaitS > 30 {
		return KeptLog{}, hub.Errorf(hub.CodeInvalid, "parley/agent/log", "wait_s must be between 0 and 30")
	}
	lines, err := s.Keeper.Log(ctx, a, p.Agent, p.After, time.Duration(p.WaitS)*time.Second)
	return KeptLog{lines}, err
}

// PromptParams are words of the operator for a kept agent.
type PromptParams struct {
	Agent hub.AgentID `json:"agent"`
	Text  string      `json:"text"`
}

func keptPrompt(ctx context.Context, s *Services, a hub.Caller, p PromptParams) (None, error) {
	return None{}, s.Keeper.Prompt(ctx, a, p.Agent, p.Text)
}

// AnswerParams answer a question of a kept agent.
type AnswerParams struct {
	Agent    hub.AgentID `json:"agent"`
	Question int         `json:"question"`
	Choice   string      `json:"choice,omitempty"` // empty to deny it
}

// A GivenAnswer is the answer that a kept agent got.
type GivenAnswer struct {
	Choice keeper.Choice `json:"choice,omitzero"` // zero for a denial
}

func keptAnswer(ctx context.Context, s *Services, a hub.Caller, p AnswerParams) (GivenAnswer, error) {
	chosen, err := s.Keeper.Answer(ctx, a, p.Agent, p.Question, p.Choice)
	return GivenAnswer{chosen}, err
}
