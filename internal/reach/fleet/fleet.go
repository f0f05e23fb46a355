// Package fleet runs agents: it starts one over the Agent Client Protocol, gives
// it the hub's tools under a key of its own, hands it work and reads the report
// that it answers with.
//
// An [Agent] is a process and a session in it. It can be given one task after
// the other, so that one that is kept running is no different from one that is
// started for a single task. What an agent says and does is handed on as it
// comes; every frame in both directions goes through a [Recorder], which keeps
// keys and tokens out of what it writes.
//
// A [Ledger] holds what is known of runs in files, so that nothing is lost when
// the process that watches over one is killed: the next one that looks finds the
// run, ends what is left of its processes, and says that it was interrupted. A
// process is ended only if it is surely the one that was written down: its
// number must belong to a process that began at the same instant, or that
// carries the mark of the run in its environment.
//
// The package believes nothing that an agent reports: whether it is true is for
// others to find out.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/sandbox"
)

// RunVariable is set in the environment of everything that is started for a run,
// to the id of the run.
const RunVariable = "PARLEY_RUN"

// private are the variables that an agent never gets: they say who called.
var private = []string{"PARLEY_KEY", "PARLEY_SESSION", RunVariable}

// A Spec says which agent is started, and where.
type Spec struct {
	Command []string // program and arguments; it speaks ACP on its standard streams
	Dir     string   // absolute; where it works
	Run     hub.RunID
	Tools   *Tools // nil if it gets none of the hub's tools
}

// Options changes how an agent is run. The zero value works: it offers nothing
// and refuses what the agent asks for.
type Options struct {
	Name, Version string // of this program, as the agent is told

	Policy sandbox.Policy // what the agent may do
	Ask    sandbox.Asker  // who is asked under sandbox.PolicyAsk

	Auth string // log in by this method before a session is opened
	V2   bool   // offer version 2 of the protocol, a draft

	// OnUpdate is told what the agent says and does in its turns, OnProblem what
	// went wrong and the conversation survives. Both may be nil.
	OnUpdate  func(*acp.Update)
	OnProblem func(error)

	Record *Recorder // gets every frame; may be nil

	// Track is told the process group of the agent, and of each command that it
	// runs through us, when it runs and when it has ended; may be nil.
	Track func(group int, running bool)

	StartTimeout time.Duration // until initialize is answered; default 1 min
	CancelGrace  time.Duration // from a cancellation to the end of the turn; default 30 s
}

// An Agent is an agent that runs, with a session in it.
type Agent struct {
	client  *acp.Client
	session *acp.Session
	kill    context.CancelFunc
	opts    Options
	tracked int // the process group that Track was told
}

// Launch starts an agent and opens a session. ctx limits the start; the end of
// alive kills the agent, whatever it is at. Whoever gets an Agent must close it.
// opts may be nil.
func Launch(ctx, alive context.Context, spec Spec, opts *Options) (_ *Agent, err error) {
	a := &Agent{}
	if opts != nil {
		a.opts = *opts
	}
	if len(spec.Command) == 0 {
		return nil, errors.New("fleet: no command was given")
	}
	alive, a.kill = context.WithCancel(alive)
	cmd := exec.CommandContext(alive, spec.Command[0], spec.Command[1:]...)
	cmd.Dir, cmd.Env = spec.Dir, Environment(spec.Run)
	dieWithParent(cmd)
	if a.client, err = acp.Start(ctx, cmd, a.options(spec)); err != nil {
		a.kill()
		a.ended()
		return nil, fmt.Errorf("fleet: %w", err)
	}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.opts.Auth != "" {
		if err := a.client.Authenticate(ctx, a.opts.Auth); err != nil {
			return nil, fmt.Errorf("fleet: log in: %w", err)
		}
	}
	var session acp.SessionOptions
	if spec.Tools != nil {
		session.MCPServers = []acpv2.MCPServer{spec.Tools.server(a.client.Agent())}
	}
	if a.session, err = a.client.NewSession(ctx, spec.Dir, &session); err != nil {
		return nil, fmt.Errorf("fleet: open a session: %w", err)
	}
	return a, nil
}

// options are what the client is made with.
func (a *Agent) options(spec Spec) *acp.Options {
	o := &acp.Options{
		V2: a.opts.V2, Name: a.opts.Name, Version: a.opts.Version, Policy: a.opts.Policy, Ask: a.opts.Ask,
		OnProblem: a.opts.OnProblem, StartTimeout: a.opts.StartTimeout, CancelGrace: a.opts.CancelGrace,
	}
	if a.opts.Record != nil {
		o.Tap = a.opts.Record.Frame
	}
	o.Process.Started = func(pid int) {
		a.tracked = pid
		a.track(pid, true)
	}
	o.Terminal.Track = a.track
	o.Terminal.Env = append(sandbox.Environment(), RunVariable+"="+string(spec.Run))
	return o
}

func (a *Agent) track(group int, running bool) {
	if a.opts.Track != nil {
		a.opts.Track(group, running)
	}
}

// ended tells that the agent's processes are gone.
func (a *Agent) ended() {
	if a.tracked != 0 {
		a.track(a.tracked, false)
		a.tracked = 0
	}
}

// Profile returns what the agent says about itself.
func (a *Agent) Profile() *acp.Profile { return a.client.Agent() }

// Session returns the id of the session.
func (a *Agent) Session() string { return string(a.session.ID) }

// Close ends the agent and everything that it left in its group.
func (a *Agent) Close() error {
	err := a.client.Close()
	a.kill()
	a.ended()
	return err
}

// Environment returns the environment of what is started for a run: that of this
// process, without what says who called it, and with the mark of the run.
func Environment(run hub.RunID) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(private, name)
	})
	return append(env, RunVariable+"="+string(run))
}
