package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/work/fleet"
)

// execute runs the CLI in the foreground, with the server of its own beside it if it
// has one.
func (l *Launch) execute(ctx context.Context, binary string, plan cli.Plan) error {
	env := append(fleet.Environment(""), plan.Env...)
	if plan.Beside != nil {
		stop, err := l.beside(ctx, binary, plan, env)
		if err != nil {
			return err
		}
		defer stop()
	}
	if l.CLI.Asks() && plan.Launch.Wake {
		opening, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		asking.Go(func() { l.awaitSessions(opening, plan.Launch, env) })
		defer asking.Wait()
		defer cancel()
	}
	return l.foreground(ctx, binary, plan.Args, env)
}

const (
	openingEvery = 300 * time.Millisecond // between two questions for the first session of a CLI
	leavingEvery = 3 * time.Second        // between two questions for a further one
	openingTime  = 10 * time.Second       // for one answer
)

// awaitSessions asks the CLI for its session until there is one, and starts the waiter of it:
// mail wakes the session before its first prompt, of which the hooks tell. Then it asks for
// sessions that the user begins in the same window: the hub is told that the window left the
// one before. Without an answer the hub knows a session after its first prompt.
func (l *Launch) awaitSessions(ctx context.Context, launch cli.Launch, env []string) {
	lookup := func(name string) (value string, ok bool) {
		for _, e := range env { // the last counts
			if v, found := strings.CutPrefix(e, name+"="); found {
				value, ok = v, true
			}
		}
		return value, ok
	}

	seen := map[string]bool{}
	for every := openingEvery; ctx.Err() == nil; {
		asking, cancel := context.WithTimeout(ctx, openingTime)
		got, err := l.CLI.Opened(asking, launch, seen)
		cancel()
		if err == nil && got.Session != "" {
			key := wake.Key{CLI: l.CLI.Name, ID: got.Session, Process: launch.Process}
			if every == leavingEvery {
				left := wake.Report{Key: key, Stamp: process.Stamp(launch.Process), Event: wake.EventStart, Quiet: true, Only: true}
				rpc.Call(ctx, l.agent, api.ReportWake, left) // else the first prompt tells it
			}
			every = leavingEvery
			w := Waiter{CLI: l.CLI, Dir: l.Dir, Transcript: got.Transcript, Home: l.Home, Flags: l.Flags, Client: l.Client, key: key, launch: launch}
			w.detach(lookup)
		}
		pause(ctx, every)
	}
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// foreground runs the CLI at the terminal of this process. Keys such as Ctrl-C belong
// to the CLI; other signals are passed on to it.
func (l *Launch) foreground(ctx context.Context, binary string, args, env []string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	cmd.Env = env
	cmd.Stdin = l.Stdin
	cmd.Stdout = l.Stdout
	cmd.Stderr = l.Stderr

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	l.introduce()
	if err := cmd.Start(); err != nil {
		return hub.Errorf(hub.CodeDegraded, "launch.Run", "cannot start %s: %w", l.CLI.Title, err)
	}

	// The launch ends when the CLI ends, with its exit code.
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt { // the terminal sends it to the CLI, too
				cmd.Process.Signal(s) // fails if the CLI has ended
			}
		case err := <-done:
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return ExitError(max(exit.ExitCode(), 1))
			}
			return err
		}
	}
}

// introduce tells the name of the agent, also as the title of the terminal, and the other agents
// in this folder.
func (l *Launch) introduce() {
	fmt.Fprintf(l.Text, "%s is %s on the hub\n", l.CLI.Title, l.identity.Agent)
	if len(l.neighbours) > 0 {
		fmt.Fprintf(l.Text, "also here: %s\n", strings.Join(l.neighbours, ", "))
	}
	if l.Attended {
		fmt.Fprintf(l.Stderr, "\x1b]0;%s\x07", l.identity.Agent)
	}
}

const (
	besideTime = time.Minute           // that the server of a CLI has to listen
	besideEnd  = 3 * time.Second       // that it has to end
	besideLook = 20 * time.Millisecond // between two looks for its socket
)

// beside starts the server of the CLI's own and returns when it listens.
func (l *Launch) beside(ctx context.Context, binary string, plan cli.Plan, env []string) (stop func(), err error) {
	log, err := os.OpenFile(filepath.Join(l.folder, "server.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the server has its own copy

	cmd := exec.Command(binary, plan.Beside...)
	cmd.Env = env
	cmd.Stdout = log
	cmd.Stderr = log
	fleet.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, "launch.Run", "cannot start the server of %s: %w", l.CLI.Title, err)
	}

	done := make(chan struct{})
	go func() {
		cmd.Wait() // its log says why it ended
		close(done)
	}()

	// stop asks the server to end, and kills it if it takes too long.
	stop = func() {
		cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		select {
		case <-done:
		case <-time.After(besideEnd):
			cmd.Process.Kill()
			<-done
		}
	}

	if err := l.awaitSocket(ctx, strings.TrimPrefix(plan.Launch.Socket, "unix://"), log.Name(), done); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// awaitSocket returns when the server of the CLI has made its socket. It reports
// CodeDegraded if the server ends before, or takes too long.
func (l *Launch) awaitSocket(ctx context.Context, socket, log string, done <-chan struct{}) error {
	for giveUp := time.Now().Add(besideTime); ; {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case <-done:
			raw, _ := os.ReadFile(log) // without it the message is shorter
			return hub.Errorf(hub.CodeDegraded, "launch.Run", "the server of %s ended: %s", l.CLI.Title, lastLines(string(raw)))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(besideLook):
		}
		if time.Now().After(giveUp) {
			return hub.Errorf(hub.CodeDegraded, "launch.Run", "the server of %s did not listen within %s", l.CLI.Title, besideTime)
		}
	}
}

// lastLines returns the last three lines of a text in one.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
