package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/work/keeper"
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

// maxKeptWait bounds the wait for the next line or event of a kept agent.
const maxKeptWait = 30 * time.Second

func keptLog(ctx context.Context, s *Services, a hub.Caller, p KeptLogParams) (KeptLog, error) {
	if p.WaitS < 0 || p.WaitS > int(maxKeptWait/time.Second) {
		return KeptLog{}, hub.Errorf(hub.CodeInvalid, "parley/agent/log", "wait_s must be between 0 and %d, got %d", maxKeptWait/time.Second, p.WaitS)
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
	_, err := s.Keeper.Prompt(ctx, a, p.Agent, p.Text)
	return None{}, err
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

// WindowParams name a window of a kept agent.
type WindowParams struct {
	Agent hub.AgentID `json:"agent"`
	Name  string      `json:"name,omitempty"` // default editor
}

// A WindowKey is the key of a new window, which is shown once.
type WindowKey struct {
	Agent hub.AgentID `json:"agent"`
	Name  string      `json:"name"`
	Key   string      `json:"key"`
}

func windowAdd(ctx context.Context, s *Services, a hub.Caller, p WindowParams) (WindowKey, error) {
	if err := s.Keeper.Keeps(ctx, p.Agent); err != nil {
		return WindowKey{}, err
	}
	key, secret, err := s.Keys.MintWindow(ctx, a, p.Agent, p.Name)
	return WindowKey{p.Agent, strings.TrimPrefix(key.Label, hub.WindowKeyLabel), secret}, err
}

func windowRemove(ctx context.Context, s *Services, a hub.Caller, p WindowParams) (WindowParams, error) {
	if p.Name == "" {
		return p, hub.Errorf(hub.CodeInvalid, "parley/agent/window/remove", "the name of a window is required")
	}
	_, err := s.Keys.RevokeKeys(ctx, a, p.Agent, hub.WindowKeyLabel+p.Name)
	return p, err
}

// KeptSessionsParams name a kept agent, or all.
type KeptSessionsParams struct {
	Agent hub.AgentID `json:"agent,omitempty"`
}

// KeptSessions lists the sessions of kept agents.
type KeptSessions struct {
	Sessions []keeper.Session `json:"sessions"`
}

func keptSessions(ctx context.Context, s *Services, a hub.Caller, p KeptSessionsParams) (KeptSessions, error) {
	all, err := s.Keeper.SessionsOf(ctx, a, p.Agent)
	return KeptSessions{all}, err
}

// OpenSessionParams describe a further session of a kept agent.
type OpenSessionParams struct {
	Agent   hub.AgentID     `json:"agent"`
	Dir     string          `json:"dir"`
	Servers json.RawMessage `json:"mcp_servers,omitempty"` // in version 2 of ACP
	Session string          `json:"session,omitempty"`     // the id of one that is opened again
}

func openSession(ctx context.Context, s *Services, a hub.Caller, p OpenSessionParams) (keeper.Session, error) {
	if p.Session != "" {
		return s.Keeper.ReopenSession(ctx, a, p.Agent, p.Session, p.Dir, p.Servers)
	}
	return s.Keeper.OpenSession(ctx, a, p.Agent, p.Dir, p.Servers)
}

// SessionParams name a session of a kept agent, and a turn of it where one is needed.
type SessionParams struct {
	Agent   hub.AgentID `json:"agent"`
	Session string      `json:"session,omitempty"` // default the kept one
	Turn    string      `json:"turn,omitempty"`
}

func closeSession(ctx context.Context, s *Services, a hub.Caller, p SessionParams) (None, error) {
	return None{}, s.Keeper.CloseSession(ctx, a, p.Agent, p.Session)
}

func cancelTurn(ctx context.Context, s *Services, a hub.Caller, p SessionParams) (None, error) {
	return None{}, s.Keeper.CancelTurn(ctx, a, p.Agent, p.Session, p.Turn)
}

// SessionEventsParams name a session and the events to return.
type SessionEventsParams struct {
	Agent   hub.AgentID `json:"agent"`
	Session string      `json:"session,omitempty"` // default the kept one
	After   int64       `json:"after,omitempty"`   // events after this number
	WaitS   int         `json:"wait_s,omitempty"`  // seconds to wait for an event if there is none; at most 30
}

// SessionEvents has some events of a session.
type SessionEvents struct {
	Events []keeper.Event `json:"events"`
}

func sessionEvents(ctx context.Context, s *Services, a hub.Caller, p SessionEventsParams) (SessionEvents, error) {
	if p.WaitS < 0 || p.WaitS > int(maxKeptWait/time.Second) {
		return SessionEvents{}, hub.Errorf(hub.CodeInvalid, "parley/agent/session/events", "wait_s must be between 0 and %d, got %d", maxKeptWait/time.Second, p.WaitS)
	}
	all, err := s.Keeper.Events(ctx, a, p.Agent, p.Session, p.After, time.Duration(p.WaitS)*time.Second)
	return SessionEvents{all}, err
}

// SessionPromptParams are a prompt for a session of a kept agent.
type SessionPromptParams struct {
	Agent   hub.AgentID `json:"agent"`
	Session string      `json:"session,omitempty"` // default the kept one
	Text    string      `json:"text"`
}

// A SessionTurn names the turn of a prompt.
type SessionTurn struct {
	Turn string `json:"turn"`
}

func promptSession(ctx context.Context, s *Services, a hub.Caller, p SessionPromptParams) (SessionTurn, error) {
	turn, err := s.Keeper.PromptSession(ctx, a, p.Agent, p.Session, p.Text)
	return SessionTurn{turn}, err
}
