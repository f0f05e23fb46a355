// Package fleet starts agents over the Agent Client Protocol, gives them the hub's
// tools under a key of their own, hands them tasks and reads the reports that they
// answer with.
//
// An [Agent] is a process and a session in it. It takes one task after the other,
// so that an agent that is kept running is no different from one that is started
// for a single task. Updates are passed on as they come.
//
// The package does not check reports: evidence does.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// RunVariable is the environment variable that holds the id of the run in every
// process that is started for one.
const RunVariable = "PARLEY_RUN"

// LaunchVariable is the environment variable that names the folder of the launch in
// every process below a CLI that a user has started in a terminal.
const LaunchVariable = "PARLEY_LAUNCH"

// private are the variables that identify the caller. An agent never gets them.
var private = []string{"PARLEY_KEY", "PARLEY_SESSION", LaunchVariable, RunVariable}

// A Spec describes an agent to start.
type Spec struct {
	Command []string // program and arguments; it speaks ACP on its standard streams
	Dir     string   // absolute path of the working folder
	Run     hub.RunID
	Tools   *Tools            // nil without the hub's tools
	Servers []acpv2.MCPServer // further MCP servers for the session
	Session string            // to take up again if the agent can; else, or if it is empty, a new one is opened
	Env     []string          // NAME=value, besides that of this process

	// Mode is the mode that a session gets when it is open, and Meta the _meta of the
	// request for it. An agent whose mode cannot be set is not started.
	Mode string
	Meta json.RawMessage
}

// Options changes how an agent is started. The zero value works: it offers nothing
// to the agent and refuses every request.
type Options struct {
	acp.Options // of the client; Launch sets the environment of commands

	Auth     string            // authentication method to use before a session is opened
	OnUpdate func(*acp.Update) // gets the updates of the agent's turns; may be nil
}

// An Agent is the process of an agent, with a session in it.
type Agent struct {
	client  *acp.Client
	session *acp.Session
	resumed bool
	refusal error // why the session of the spec was not taken up; nil if it was, or none was given
	pid     int
	kill    context.CancelFunc
	opts    Options

	meter     meter           // of the prompt that runs
	used      []hub.ModelCall // in prompts that ended; see TakeUsage
	cost      float64         // of the session, as the agent told it last
	costKnown bool
}

// Launch starts an agent and opens a session. ctx limits the start; the end of
// alive kills the agent at any time. The caller closes the Agent. opts may be nil.
func Launch(ctx, alive context.Context, spec Spec, opts *Options) (_ *Agent, err error) {
	a := &Agent{}
	if opts != nil {
		a.opts = *opts
	}
	if len(spec.Command) == 0 {
		return nil, errors.New("fleet: a command is required to start the agent")
	}

	alive, a.kill = context.WithCancel(alive)
	cmd := exec.CommandContext(alive, spec.Command[0], spec.Command[1:]...)
	cmd.Dir, cmd.Env = spec.Dir, append(Environment(spec.Run), spec.Env...)
	DieWithParent(cmd)
	client := a.opts.Options
	client.Terminal.Env = append(sandbox.Environment(), RunVariable+"="+string(spec.Run))
	if a.client, err = acp.Start(ctx, cmd, &client); err != nil {
		a.kill()
		return nil, fmt.Errorf("fleet: %w", err)
	}
	a.pid = cmd.Process.Pid

	// From here on a failure closes the agent and is reported with its standard error.
	defer func() {
		if err != nil {
			a.Close() // its standard error is complete after that
			err = &acp.StartError{Err: err, Stderr: a.client.Stderr()}
		}
	}()

	if a.opts.Auth != "" {
		if err := a.client.Authenticate(ctx, a.opts.Auth); err != nil {
			return nil, fmt.Errorf("fleet: authenticate: %w", err)
		}
	}

	// An agent that cannot resume the session gets a new one.
	session := acp.SessionOptions{Meta: spec.Meta, MCPServers: spec.Servers}
	if spec.Tools != nil {
		session.MCPServers = append(slices.Clone(spec.Servers), spec.Tools.server(a.client.Agent()))
	}
	if spec.Session != "" {
		a.resume(ctx, spec, &session)
	}
	if a.session == nil {
		if a.session, err = a.client.NewSession(ctx, spec.Dir, &session); err != nil {
			return nil, fmt.Errorf("fleet: open a session: %w", err)
		}
	}

	if spec.Mode != "" {
		if err := a.session.SetMode(ctx, spec.Mode); err != nil {
			return nil, fmt.Errorf("fleet: set mode %q for the policy: %w", spec.Mode, err)
		}
	}
	return a, nil
}

// resume takes up the session of the spec, if the agent can and still has it.
func (a *Agent) resume(ctx context.Context, spec Spec, opts *acp.SessionOptions) {
	for _, way := range []struct {
		needs acp.Capability
		take  func(context.Context, acp.SessionID, string, *acp.SessionOptions) (*acp.Session, error)
	}{{acp.CanResume, a.client.ResumeSession}, {acp.CanLoad, a.client.LoadSession}} {
		if !a.client.Agent().Can(way.needs) {
			continue
		}
		s, err := way.take(ctx, acp.SessionID(spec.Session), spec.Dir, opts)
		if a.refusal = err; err == nil {
			a.session, a.resumed = s, true
			return
		}
	}
	if a.refusal == nil {
		a.refusal = errors.New("the agent cannot resume sessions")
	}
}

// Resumed reports whether the session is one that was taken up again. If one was given
// and was not, the error says why.
func (a *Agent) Resumed() (bool, error) { return a.resumed, a.refusal }

// Done is closed when the connection to the agent has ended.
func (a *Agent) Done() <-chan struct{} { return a.client.Done() }

// Pid returns the number of the agent's process.
func (a *Agent) Pid() int { return a.pid }

// OnUpdate sets the function that gets the updates of the next turns.
func (a *Agent) OnUpdate(f func(*acp.Update)) { a.opts.OnUpdate = f }

// Profile returns the agent's answer to initialize.
func (a *Agent) Profile() *acp.Profile { return a.client.Agent() }

// Session returns the id of the session.
func (a *Agent) Session() string { return string(a.session.ID) }

// Close ends the agent and every process of its group.
func (a *Agent) Close() error {
	err := a.client.Close()
	a.kill()
	return err
}

// A TurnError is the failure of a turn.
type TurnError struct {
	Err    error
	Stderr []byte // the end of the agent's standard error, which often says why
}

// Error returns the text of the cause.
func (e *TurnError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TurnError) Unwrap() error { return e.Err }

// Fail closes the agent, so that its standard error is complete, and returns the error of
// its turn with the end of that.
func (a *Agent) Fail(err error) *TurnError {
	a.Close() // the turn has failed already
	return &TurnError{Err: err, Stderr: a.client.Stderr()}
}

// Environment returns the environment of a process that is started for a run: that
// of this process, without the variables that identify its caller, and with
// RunVariable if there is a run.
func Environment(run hub.RunID) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(private, name)
	})
	if run == "" {
		return env
	}
	return append(env, RunVariable+"="+string(run))
}
