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

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/run"
	"github.com/parley-agents/parley/jsonrpc"
	"github.com/parley-agents/parley/sandbox"
)

func (a *app) acpCommand() *cobra.Command {
	return group("acp", "Talk to an agent over the Agent Client Protocol", a.acpExecCommand(), a.acpInspectCommand())
}

func (a *app) acpExecCommand() *cobra.Command {
	var policy, dir, method string
	var v2 bool
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARGUMENT...] PROMPT",
		Short: "Start an agent, give it one prompt and print its answer",
		Long: `Start an agent, give it one prompt and print its answer.

The text of the agent goes to standard output; its thoughts and actions go to
standard error. With --json every message in both directions is a line on
standard output instead: {"direction", "time", "frame"}, or "text" in place of
"frame" for a line that is not a message.

The policy limits the actions of the agent: none, read, write, yolo, or ask,
which needs a terminal and is the default there; elsewhere it is read.

Ctrl-C asks the agent to stop, a second one kills it. Exit code 1 means that the
agent ended for another reason than success.`,
		Example: `  parley acp exec -- claude-code-acp "what does this repository do?"
  parley acp exec --policy write --dir ~/src/app -- gemini --experimental-acp "fix the build"`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts := &acp.Options{V2: v2, Name: "parley", Version: version(), Ask: a.asker()}
			var err error
			if opts.Policy, err = a.policy(policy); err != nil {
				return err
			}
			last := len(args) - 1
			return a.acpExec(cmd.Context(), args[:last], args[last], dir, method, opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	policyFlag(cmd, &policy)
	cmd.Flags().StringVar(&dir, "dir", ".", "the folder that it works in")
	cmd.Flags().StringVar(&method, "auth", "", "log in by this method first; parley acp inspect lists them")
	cmd.Flags().BoolVar(&v2, "v2", false, "offer version 2 of the protocol, a draft")
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
		return "", usagef("--policy ask needs a terminal to ask on").WithHint("use none, read, write or yolo")
	}
	return policy, nil
}

// policyFlag adds the flag for the permissions of an agent.
func policyFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "policy", "", "permissions of the agent: none, read, write, yolo or ask (default ask on a terminal, else read)")
	choices(cmd, "policy", sandbox.Policies()...)
}

// asker returns a function that asks the person at the terminal, one question at a time.
func (a *app) asker() sandbox.Asker {
	var mu sync.Mutex
	in := bufio.NewReader(a.in)
	return func(ctx context.Context, r sandbox.Request) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(a.err, "\nThe agent asks: %s\n", visible(r.Title))
		for i, o := range r.Options {
			fmt.Fprintf(a.err, "  %d  %s\n", i+1, visible(o.Name))
		}
		fmt.Fprint(a.err, "Number, or nothing to refuse: ")
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
	if a.json {
		opts.Tap = a.frameTap()
	} else {
		opts.OnProblem = func(err error) {
			fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "33", "warning:"), visible(err.Error()))
		}
	}
	client, kill, err := a.acpStart(ctx, command, dir, opts)
	if err != nil {
		return err
	}
	defer kill()
	defer client.Close()
	defer onSecondSignal(kill)()
	if method != "" {
		if err := client.Authenticate(ctx, method); err != nil {
			return err
		}
	}
	session, err := client.NewSession(ctx, dir, nil)
	if errors.Is(err, acp.ErrAuthRequired) {
		return hub.Errorf(hub.CodeUnauthenticated, "parley", "%w", err).WithHint("give --auth METHOD; parley acp inspect lists the methods")
	}
	if err != nil {
		return err
	}
	turn, err := session.Prompt(ctx, acp.Text(prompt))
	if err != nil {
		return err
	}
	if !a.json {
		a.printTurn(turn)
	}
	result, err := turn.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !result.StopReason.Success():
		fmt.Fprintf(a.err, "the agent stopped: %s\n", visible(string(result.StopReason)))
		return errCheck
	}
	return nil
}

// acpStart starts an agent in a folder. kill ends it at once.
func (a *app) acpStart(ctx context.Context, command []string, dir string, opts *acp.Options) (_ *acp.Client, kill func(), err error) {
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(alive, command[0], command[1:]...)
	cmd.Dir = dir
	client, err := acp.Start(ctx, cmd, opts)
	if err != nil {
		kill()
		return nil, nil, err
	}
	return client, kill, nil
}

// onSecondSignal calls f when the user interrupts twice: the first time is for
// being polite. It returns a function that ends the wait.
func onSecondSignal(f func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2 {
			select {
			case <-signals:
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
func (a *app) printTurn(turn *acp.Turn) {
	p := a.narrator()
	for u := range turn.Updates() {
		p.tell(u)
	}
	p.end()
}

// A narrator prints the words and actions of an agent.
type narrator struct {
	*app
	titles  map[string]string // of tool calls
	printed map[string]bool   // messages of which something was
	said    string            // the last thing on standard output
}

func (a *app) narrator() *narrator {
	return &narrator{app: a, titles: map[string]string{}, printed: map[string]bool{}}
}

// tell prints an update.
func (n *narrator) tell(u *acp.Update) {
	if kind := u.Kind(); kind != acp.KindAgentMessage && isTerminal(n.out) {
		n.end() // actions stand on lines of their own
	}
	switch u.Kind() {
	case acp.KindAgentMessage:
		id, whole := u.Message()
		if whole && n.printed[id] {
			return // the line on the terminal cannot be replaced
		}
		if len(n.printed) < 1000 {
			n.printed[id] = true
		}
		if text := visible(u.Text()); text != "" {
			n.said = text
			io.WriteString(n.out, text)
		}
	case acp.KindThought:
		fmt.Fprint(n.err, n.paint(n.err, "2", visible(u.Text())))
	case acp.KindToolCall:
		call := u.ToolCall()
		if call.Title != "" && len(n.titles) < 1000 {
			n.titles[call.ID] = call.Title
		}
		if call.Status != "" {
			fmt.Fprintf(n.err, "%s %s\n", n.paint(n.err, "36", visible(call.Status)+":"), visible(cmp.Or(n.titles[call.ID], call.Kind, call.ID)))
		}
		for _, d := range call.Diffs {
			n.diff(d)
		}
	case acp.KindPlan:
		for _, e := range u.Plan() {
			fmt.Fprintf(n.err, "%s %s\n", n.paint(n.err, "36", "plan, "+visible(e.Status)+":"), visible(e.Content))
		}
	case acp.KindNotice:
		fmt.Fprintf(n.err, "%s %s\n", n.paint(n.err, "33", "notice:"), visible(u.Text()))
	}
}

// maxDiff is how many lines of a change are printed.
const maxDiff = 20

// diff prints the lines between the common beginning and the common end of two texts.
func (n *narrator) diff(d acp.Diff) {
	old, now := strings.Split(d.Old, "\n"), strings.Split(d.New, "\n")
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	fmt.Fprintf(n.err, "  %s\n", visible(d.Path))
	for _, part := range []struct {
		lines        []string
		sign, colour string
	}{{old, "-", "31"}, {now, "+", "32"}} {
		for i, line := range part.lines {
			if i == maxDiff {
				fmt.Fprintf(n.err, "  %s %d more lines\n", part.sign, len(part.lines)-i)
				break
			}
			fmt.Fprintf(n.err, "  %s\n", n.paint(n.err, part.colour, part.sign+" "+visible(line)))
		}
	}
}

// end ends the last line.
func (n *narrator) end() {
	if n.said != "" && !strings.HasSuffix(n.said, "\n") {
		fmt.Fprintln(n.out)
	}
	n.said = ""
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
		Short: "Show the capabilities of an agent in each version of the protocol",
		Long: `Show the capabilities of an agent in each version of the protocol, and its ways to
log in. The agent is started twice and given no work. Exit code 1 means that it
answered neither time.`,
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
	client, kill, err := a.acpStart(ctx, command, dir, &acp.Options{V2: offer == 2, Version: version(), Name: "parley", TerminalAuth: true})
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	defer kill()
	defer client.Close()
	p := client.Agent()
	answer.Version, answer.Name, answer.Title, answer.Release, answer.Capabilities = p.Version, p.Name, p.Title, p.Release, p.Capabilities
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
			fmt.Fprintf(t, "\t%s", visible(cell(answer)))
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
	for _, x := range answers {
		for _, m := range x.AuthMethods {
			fmt.Fprintf(w, "version %d: log in by %s (%s): %s\n", x.Version, visible(m.ID), visible(m.Type), visible(strings.TrimSpace(m.Name+" "+m.Description)))
		}
		if x.Error != "" {
			fmt.Fprintf(w, "version %d: %s\n", x.Offer, visible(x.Error))
		}
	}
}
