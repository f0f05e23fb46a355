package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
	"github.com/parley-agents/parley/protocol/sandbox"
)

func (a *app) acpCommand() *cobra.Command {
	return group("acp", "Talk to an agent over the Agent Client Protocol", a.acpExecCommand(), a.acpInspectCommand(), a.acpProxyCommand(), a.acpServeCommand(), a.acpValidateCommand())
}

func (a *app) acpExecCommand() *cobra.Command {
	var policy, dir, method string
	var v2 bool
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT...] PROMPT",
		Short: "Send an agent one prompt and print the answer",
		Long: `Start an agent, send it one prompt and print the answer.

The agent's text goes to standard output; its thoughts and actions go to standard
error. With --json, standard output has one line for each message in either
direction: {"direction", "time", "frame"}, or "text" instead of "frame" for a line
that is not a message.

The policy limits what the agent may do: none, read, write, yolo or ask. The
default is ask on a terminal and read elsewhere; ask needs a terminal.

Ctrl-C asks the agent to stop; a second Ctrl-C kills it. SIGTERM asks it to stop and
kills it three seconds later. The exit code is 1 if the agent stops for any reason
other than success.`,
		Example: `  parley acp exec -- claude-code-acp "what does this repository do?"
  parley acp exec --policy write --dir ~/src/app -- gemini --experimental-acp "fix the build"`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := &acp.Options{V2: v2, Name: "parley", Version: version()}
			var err error
			if opts.Policy, err = a.policy(policy); err != nil {
				return err
			}

			// The last argument is the prompt, the others are the agent's command.
			last := len(args) - 1
			return a.acpExec(cmd.Context(), args[:last], args[last], dir, method, opts)
		},
	}

	cmd.Flags().SetInterspersed(false)
	policyFlag(cmd, &policy)
	cmd.Flags().StringVar(&dir, "dir", ".", "the agent's working folder")
	cmd.Flags().StringVar(&method, "auth", "", "log in with this method first; \"parley acp inspect\" lists the methods")
	cmd.Flags().BoolVar(&v2, "v2", false, "offer protocol version 2 (draft)")
	return cmd
}

// policy returns the permissions of an agent.
func (a *app) policy(name string) (sandbox.Policy, error) {
	switch {
	case name != "":
	case isTerminal(a.in):
		name = string(sandbox.PolicyAsk)
	default:
		name = string(sandbox.PolicyRead)
	}
	policy, err := sandbox.ParsePolicy(name)
	if err != nil {
		return "", usagef("--policy: %w", err)
	}
	if policy == sandbox.PolicyAsk && !isTerminal(a.in) {
		return "", usagef("--policy ask needs a terminal").WithHint("use none, read, write or yolo")
	}
	return policy, nil
}

// policyFlag adds the flag for the permissions of an agent.
func policyFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "policy", "", "the agent's permissions: none, read, write, yolo or ask (default ask on a terminal, otherwise read)")
	choices(cmd, "policy", sandbox.Policies()...)
}

// asker returns a function that asks the person at the terminal, one question at a time.
func (a *app) asker() sandbox.Asker {
	var mu sync.Mutex
	in := bufio.NewReader(a.in)
	return func(ctx context.Context, r sandbox.Request) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(a.err, "\nThe agent asks: %s\n", r.Title)
		if r.Warning != "" {
			fmt.Fprintf(a.err, "  %s %s\n", a.paint(a.err, "33", "warning:"), r.Warning)
		}
		for i, o := range r.Options {
			fmt.Fprintf(a.err, "  %d  %s\n", i+1, o.Label())
		}
		fmt.Fprint(a.err, "Enter a number, or press Enter to refuse: ")
		line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
		if err != nil {
			return "", err
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n < 1 || n > len(r.Options) {
			return "", nil
		}
		return r.Options[n-1].ID, nil
	}
}

// acpExec gives an agent one prompt.
func (a *app) acpExec(ctx context.Context, command []string, prompt, dir, method string, opts *acp.Options) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}

	told := a.narrator()
	defer told.stop()
	opts.Ask = told.asker()
	if a.json {
		opts.Tap = a.frameTap()
	} else {
		told.setState("starting")
		opts.OnProblem = func(err error) {
			told.print(func() { fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "33", "warning:"), err) })
		}
	}

	// The mode keeps a known CLI from acting beyond the policy without asking.
	mode, _ := cli.ModeOf(command, opts.Policy)
	client, kill, err := a.acpStart(ctx, slices.Concat(command, mode.Args), dir, mode.Env, opts)
	if err != nil {
		return explained(err)
	}
	defer kill()
	defer client.Close()
	defer onSecondSignal(kill, termGrace)()

	if method != "" {
		if err := client.Authenticate(ctx, method); err != nil {
			return err
		}
	}
	session, err := client.NewSession(ctx, dir, &acp.SessionOptions{Meta: mode.Meta})
	if err == nil && mode.Session != "" {
		err = session.SetMode(ctx, mode.Session)
	}
	if err != nil {
		client.Close() // its standard error is complete after that
		return explained(&acp.StartError{Err: err, Stderr: client.Stderr()})
	}

	told.setState("running")
	failed := func(err error) error {
		client.Close() // its standard error is complete after that
		return explained(&fleet.TurnError{Err: err, Stderr: client.Stderr()})
	}
	turn, err := session.Prompt(ctx, acp.Text(prompt))
	if err != nil {
		return failed(err)
	}
	if !a.json {
		a.printTurn(told, turn)
	}

	result, err := turn.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return failed(err)
	case !result.StopReason.Success():
		fmt.Fprintf(a.err, "the agent stopped: %s\n", result.StopReason)
		return errCheck
	}
	return nil
}

// explained returns the error for an agent that failed, with all that is known about
// the cause.
func explained(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	code := hub.CodeDegraded
	if errors.Is(err, acp.ErrAuthRequired) {
		code = hub.CodeUnauthenticated
	}
	text, hint := run.Explain(err)
	return hub.Errorf(code, "parley", "%s", text).WithHint("%s", hint)
}

// acpStart starts an agent in a folder, with further variables. kill ends it at once.
func (a *app) acpStart(ctx context.Context, command []string, dir string, env []string, opts *acp.Options) (_ *acp.Client, kill func(), err error) {
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(alive, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(fleet.Environment(""), env...)
	client, err := acp.Start(ctx, cmd, opts)
	if err != nil {
		kill()
		return nil, nil, err
	}
	return client, kill, nil
}

// termGrace is how long an agent may take to stop after its client got SIGTERM, which is
// often sent once and by a program.
const termGrace = 3 * time.Second

// onSecondSignal calls f when the user interrupts twice: the first time is for
// being polite. If grace is not 0, it also calls f that long after SIGTERM. It returns a
// function that ends the wait.
func onSecondSignal(f func(), grace time.Duration) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var late <-chan time.Time
		for range 2 {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM && grace > 0 {
					late = time.After(grace)
				}
			case <-late:
				f()
				return
			case <-done:
				return
			}
		}
		f()
	})
	return func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
	}
}

// frameTap returns a function that writes every frame as a line of JSON.
func (a *app) frameTap() func(jsonrpc.Direction, jsonrpc.Frame) {
	var mu sync.Mutex // both directions write
	enc := encoder(a.out)
	return func(d jsonrpc.Direction, f jsonrpc.Frame) {
		mu.Lock()
		defer mu.Unlock()
		enc.Encode(run.NewRecordedFrame(d, f)) // the reader may be away; the turn goes on
	}
}

// printTurn prints the words and actions of an agent, as they come.
func (a *app) printTurn(p *narrator, turn *acp.Turn) {
	for u := range turn.Updates() {
		p.tell(u)
	}
	p.stop()
	writeTokens(a.err, (*run.Tokens)(p.usage))
}

// An acpAnswer is how an agent answers the offer of a version.
type acpAnswer struct {
	Offer        int              `json:"offer"`             // the highest version that was offered
	Version      int              `json:"version,omitempty"` // that was agreed on
	Name         string           `json:"name,omitempty"`
	Title        string           `json:"title,omitempty"`
	Release      string           `json:"release,omitempty"`
	Capabilities []acp.Capability `json:"capabilities,omitempty"`
	AuthMethods  []acpAuthMethod  `json:"auth_methods,omitempty"`
	Error        string           `json:"error,omitempty"`
}

type acpAuthMethod struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Type        string   `json:"type"`
	Args        []string `json:"args,omitempty"`
}

func (a *app) acpInspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect [flags] -- COMMAND [ARGUMENT...]",
		Short: "Show an agent's protocol capabilities",
		Long: `Show an agent's capabilities in each version of the protocol, and its login methods.
The agent is started twice and given no work. The exit code is 1 if it answers
neither time.`,
		Example: `  parley acp inspect -- claude-code-acp
  parley acp inspect --json -- gemini --experimental-acp`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var answers []acpAnswer
			good := false
			for _, offer := range []int{1, 2} {
				answer := a.ask(cmd.Context(), args, offer)
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				good = good || answer.Error == ""
				answers = append(answers, answer)
			}
			return a.check(good, map[string]any{"answers": answers}, func(w io.Writer) { writeAnswers(w, answers) })
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// ask starts an agent and offers it a version.
func (a *app) ask(ctx context.Context, command []string, offer int) acpAnswer {
	answer := acpAnswer{Offer: offer}
	dir, err := os.Getwd()
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	client, kill, err := a.acpStart(ctx, command, dir, nil, &acp.Options{V2: offer == 2, Version: version(), Name: "parley", TerminalAuth: true})
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	defer kill()
	defer client.Close()
	p := client.Agent()
	answer.Version = p.Version
	answer.Name = p.Name
	answer.Title = p.Title
	answer.Release = p.Release
	answer.Capabilities = p.Capabilities
	for _, m := range p.AuthMethods {
		answer.AuthMethods = append(answer.AuthMethods, acpAuthMethod(m))
	}
	return answer
}

// writeAnswers writes the answers side by side.
func writeAnswers(w io.Writer, answers []acpAnswer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, cell func(acpAnswer) string) {
		fmt.Fprint(t, name)
		for _, answer := range answers {
			fmt.Fprintf(t, "\t%s", cell(answer))
		}
		fmt.Fprintln(t)
	}

	row("offered version", func(x acpAnswer) string { return strconv.Itoa(x.Offer) })
	row("agreed version", func(x acpAnswer) string {
		if x.Error != "" {
			return "none"
		}
		return strconv.Itoa(x.Version)
	})
	row("agent", func(x acpAnswer) string { return cmp.Or(strings.TrimSpace(x.Name+" "+x.Release), "-") })
	for _, c := range acp.Capabilities() {
		row(string(c), func(x acpAnswer) string {
			if slices.Contains(x.Capabilities, c) {
				return "yes"
			}
			return "-"
		})
	}
	t.Flush() // as with every other output, the reader may be away

	// The ways to log in and the errors are lines below the table, because they are long.
	for _, x := range answers {
		for _, m := range x.AuthMethods {
			fmt.Fprintf(w, "version %d: log in by %s (%s): %s\n", x.Version, m.ID, m.Type, strings.TrimSpace(m.Name+" "+m.Description))
		}
		if x.Error != "" {
			fmt.Fprintf(w, "version %d: %s\n", x.Offer, x.Error)
		}
	}
}
