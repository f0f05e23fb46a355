package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/protocol/sandbox"
)

// A Mode starts a CLI over ACP so that it does not act beyond a policy without asking.
// Most CLIs have looser defaults, or take looser ones from their user's settings.
type Mode struct {
	Args    []string        // after the arguments of ACP
	Env     []string        // NAME=value
	Session string          // the mode to set in a session when it is open; empty for none
	Meta    json.RawMessage // the _meta of the request for a session; nil for none
}

// modes are the modes of a CLI by policy. A policy without one, as sandbox.PolicyYolo,
// leaves the CLI as it is.
type modes map[sandbox.Policy]Mode

// careful returns the same mode for each policy that does not allow everything.
func careful(m Mode) modes {
	return modes{sandbox.PolicyNone: m, sandbox.PolicyRead: m, sandbox.PolicyWrite: m, sandbox.PolicyAsk: m}
}

// with returns the modes with the arguments and the meta of another one for a policy
// added.
func (m modes) with(p sandbox.Policy, more Mode) modes {
	was := m[p]
	was.Args = slices.Concat(was.Args, more.Args)
	if more.Meta != nil {
		was.Meta = more.Meta
	}
	m[p] = was
	return m
}

// ModeOf returns the mode for the agent that a command starts: one whose program has the
// name of a CLI, or of its adapter. Of any other program no mode is known, and ok is
// false.
func ModeOf(command []string, p sandbox.Policy) (_ Mode, ok bool) {
	c, ok := agentOf(command)
	return c.modes[p], ok
}

// NoReject reports whether a refused permission does not help to keep the agent that a command
// starts from a file: it ends the turn, so that the model cannot go on with something else, or
// the agent writes through its client, whose error tells the model the reason. Other agents, also
// those that are not in the table, go on after a refusal.
func NoReject(command []string) bool {
	c, _ := agentOf(command)
	return c.noReject
}

// AgentName returns the name of the CLI that a command starts over ACP; acp for an unknown one.
func AgentName(command []string) string {
	if c, ok := agentOf(command); ok {
		return c.Name
	}
	return "acp"
}

// TellsLastCall reports whether the agent that a command starts over ACP tells the tokens of the
// last model call of a turn only. Its cost is that of all.
func TellsLastCall(command []string) bool {
	c, _ := agentOf(command)
	return c.lastCall
}

// TellsLevels reports whether the agent that a command starts over ACP tells the fill level of its
// context after each model call, so that the levels of a turn are its tokens.
func TellsLevels(command []string) bool {
	c, _ := agentOf(command)
	return c.levels
}

// RunsBoxed reports whether the agent that a command starts over ACP runs commands in a sandbox of
// its own without a question, so that a command which may not write fails there.
func RunsBoxed(command []string) bool {
	c, _ := agentOf(command)
	return c.boxed
}

// agentOf returns the CLI whose program, or that of its adapter, a command starts over ACP.
func agentOf(command []string) (CLI, bool) {
	if len(command) == 0 {
		return CLI{}, false
	}
	name := strings.ToLower(filepath.Base(command[0]))
	for _, c := range Agents() {
		if name == c.ACP[0] || name == c.ACP[0]+".exe" || name == c.ACP[0]+".cmd" {
			return c, true
		}
	}
	return CLI{}, false
}
