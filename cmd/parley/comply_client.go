package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/comply/client"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// complyClientFlags are the flags of parley comply client.
type complyClientFlags struct {
	complyFlags // format, summary, baseline, tests, rules, env, verbose and the home of the user

	file, name, answer string
	when               []string
	wait               bool
	opts               client.Options
}

func (a *app) complyClientCommand() *cobra.Command {
	var f complyClientFlags
	cmd := &cobra.Command{
		Use:   "client [flags] -- COMMAND [ARG...]",
		Short: "Test a client against the Agent Client Protocol",
		Long: `Start a client once for each test, play an agent for it, and report the protocol rules
that the client breaks, with the frames that prove it. The report goes to standard
output, progress to standard error.

COMMAND must start the client, have it start the agent and send one prompt:
  {agent}    is replaced by the command of the scripted agent. It is also in the
             variable PARLEY_AGENT_COMMAND, and as an "agent_servers" file at
             {servers}, which is also in PARLEY_AGENT_SERVERS
  {prompt}   is replaced by the prompt. Without it, the prompt is written to the
             client's standard input as a line
  {cwd}      is replaced by the working folder

Some tests need the client to do something that only its user asks for. --when gives
a command for it: load (with {session}), mode ({mode}), option ({option} and {value})
and login ({method}). A client that is not brought to the point of a test gets NA,
not a failure. Cancelling is tested with an interrupt (SIGINT).

--wait is for clients with a window: it prints the command to enter in the client,
tells you what to do, and judges what the client sends.

Exit codes: 0 the run passed, 1 it failed because of a broken MUST, 2 usage error,
invalid file, or a client that does not start the agent.`,
		Example: `  parley comply client -- my-client --agent {agent} --prompt {prompt}
  parley comply client --summary -- parley acp exec --policy yolo -- {agent} {prompt}
  parley comply client --when 'load=my-client --resume {session} {agent} {prompt}' -- my-client {agent} {prompt}
  parley comply client --wait --name my-editor`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.complyClient(cmd.Context(), f, args) },
	}

	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", `file with the client: {"name", "command", "when", "env", "answer"}`)
	flags.StringVar(&f.name, "name", "", "name of the client in the report (default the program's name)")
	flags.StringArrayVar(&f.when, "when", nil, "command for tests that need something: NEED=COMMAND, where NEED is load, mode, option or login")
	flags.StringVar(&f.answer, "answer", "", "line to write to the client's standard input when the agent asks the user something")
	flags.IntVar(&f.opts.Protocol, "protocol", 1, "protocol version to test: 1 or 2 (draft)")
	flags.BoolVar(&f.wait, "wait", false, "wait for a client with a window, which you start and use")
	flags.StringSliceVar(&f.tests, "test", nil, "only the test with this id")
	flags.StringSliceVar(&f.rules, "rule", nil, "only the tests of the rule with this id; other rules do not fail the run")
	flags.BoolVar(&f.listTests, "list-tests", false, "list the tests, and exit")
	flags.BoolVar(&f.listRules, "list-rules", false, "list the rules and their tests, and exit")
	flags.Var((*strictjson.Count)(&f.opts.Jobs), "jobs", "number of tests to run in parallel (default the number of processors)")
	flags.Float64Var(&f.opts.TimeoutScale, "timeout-scale", 1, "factor for all timeouts, for slow clients and machines")
	f.formatFlags(cmd)
	flags.StringVar(&f.baseline, "baseline", "", "file with accepted deviations, one per line: ID [CLIENT] [until=YYYY-MM-DD] # REASON")
	flags.StringArrayVar(&f.env, "env", nil, "variable to pass to the client: NAME, or NAME=VALUE")
	flags.BoolVar(&f.asMe, "real-home", false, "let the client use your home folder and its logins")
	flags.BoolVar(&f.verbose, "verbose", false, "print every frame to standard error")
	return cmd
}

// complyRelayCommand is the agent that a client under test starts.
func (a *app) complyRelayCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "client-agent SOCKET",
		Short:  "Run the scripted agent of a client test",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, ok := a.out.raw.(io.WriteCloser) // standard output
			if !ok {
				return invalid(errors.New("standard output cannot be closed"))
			}
			code, err := client.Relay(cmd.Context(), args[0], a.in, out, a.err.raw)
			if err != nil {
				return invalid(err)
			}
			os.Exit(code) // any code that the test wants
			return nil
		},
	}
}

// complyClient runs the command.
func (a *app) complyClient(ctx context.Context, f complyClientFlags, args []string) error {
	if a.json {
		f.format = "json"
	}
	if err := f.checkFormat(); err != nil {
		return err
	}
	if f.opts.TimeoutScale <= 0 {
		return usagef("--timeout-scale must be greater than 0")
	}
	if f.opts.Protocol != 1 && f.opts.Protocol != 2 {
		return usagef("--protocol: unknown version %d", f.opts.Protocol).WithHint("use 1 or 2")
	}
	scenarios, err := f.selectScenarios()
	if err != nil {
		return err
	}
	a.json = a.json || (f.format == "json" && (f.listTests || f.listRules))
	switch {
	case f.listTests:
		return a.listScenarios(scenarios)
	case f.listRules:
		return a.listClientRules(scenarios)
	}

	// Every input is read before the client is started.
	known, err := f.readBaseline()
	if err != nil {
		return err
	}
	c, err := f.readClient(args)
	if err != nil {
		return err
	}
	report, err := a.runClient(ctx, f, c, scenarios)
	if err != nil {
		return err
	}

	report.Tool = "parley " + version()
	asked := comply.Requirements(nil)
	if len(f.rules) > 0 {
		asked = comply.Requirements{}
		for _, id := range f.rules {
			asked[id] = true
		}
	}
	asked.Apply(report)
	known.Apply(report, time.Now())
	if err := f.write(a.out, report); err != nil {
		return err
	}
	if report.Failed() {
		return errCheck
	}
	return nil
}

// selectScenarios returns the tests to run.
func (f *complyClientFlags) selectScenarios() ([]*client.Scenario, error) {
	all := client.Applicable(client.Scenarios(), f.opts.Protocol)
	for _, id := range f.tests {
		if !slices.ContainsFunc(all, func(s *client.Scenario) bool { return s.ID == id }) {
			return nil, usagef("--test: no test with id %q for version %d of the protocol", id, f.opts.Protocol).WithHint(`run "parley comply client --list-tests" to list the tests`)
		}
	}
	for _, id := range f.rules {
		if !slices.ContainsFunc(rules.ForClients(), func(r comply.Rule) bool { return r.ID == id }) {
			return nil, usagef("--rule: no rule with id %q", id).WithHint(`run "parley comply client --list-rules" to list the rules`)
		}
	}
	return client.Select(all, f.tests, f.rules), nil
}

// readClient returns the client to test.
func (f *complyClientFlags) readClient(args []string) (c client.Client, err error) {
	switch {
	case f.wait && (len(args) > 0 || f.file != ""):
		return c, usagef("--wait takes no command: you start the client yourself")
	case f.wait:
		c.Name = "client"
	case f.file != "" && len(args) > 0:
		return c, usagef("--file and a command after -- cannot be combined").WithHint("use one of the two")
	case f.file != "":
		text, err := os.ReadFile(f.file)
		if err != nil {
			return c, invalid(err)
		}
		if c, err = client.ParseClient(f.file, text); err != nil {
			return c, invalid(err)
		}
	case len(args) == 0:
		return c, usagef("no client to test").WithHint("pass its command after --, a file with --file, or --wait for a client with a window")
	default:
		c = client.Client{Name: filepath.Base(args[0]), Command: args}
	}

	// The flags add to what the file has.
	if f.name != "" {
		c.Name = f.name
	}
	if f.answer != "" {
		c.Answer = f.answer
	}
	if c.When == nil {
		c.When = map[client.Need][]string{}
	}
	for _, w := range f.when {
		name, line, _ := strings.Cut(w, "=")
		words := shell.Commands(line)
		if !slices.Contains(client.Needs(), client.Need(name)) || len(words) != 1 {
			return c, usagef("--when: %q is not NEED=COMMAND", w).WithHint("the needs are load, mode, option and login")
		}
		c.When[client.Need(name)] = words[0]
	}
	holder := comply.Agent{Env: c.Env}
	addEnv(&holder, f.env)
	c.Env = holder.Env
	return c, nil
}

// runClient plays the tests, with progress on standard error.
func (a *app) runClient(parent context.Context, f complyClientFlags, c client.Client, scenarios []*client.Scenario) (*comply.Report, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.opts.Relay = []string{own, "comply", "client-agent"}
	if f.asMe {
		if f.opts.Home, err = os.UserHomeDir(); err != nil {
			return nil, invalid(err)
		}
	}
	if f.verbose {
		f.opts.Trace = func(test string, frame comply.Frame) {
			fmt.Fprintf(a.err, "%s %s: %s\n", test, frame.Direction, frame.Text)
		}
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt)
	defer stop()
	if f.wait {
		return client.Wait(ctx, c.Name, scenarios, &f.opts, a.showNotice)
	}

	f.opts.Progress = func(e client.Event) {
		again := ""
		if e.Again {
			again = " (again, alone)"
		}
		fmt.Fprintf(a.err, "%-7s %s: %s %.1fs%s\n", e.Result.Status, c.Name, e.Result.ID, e.Wall.Seconds(), again)
	}
	report, err := client.Run(ctx, c, scenarios, &f.opts)
	if unstarted := (*client.StartError)(nil); errors.As(err, &unstarted) {
		return nil, invalid(err)
	}
	if report != nil && report.Interrupted {
		fmt.Fprintln(a.err, "interrupted: the report has the tests that ran; the others are marked ERROR")
	}
	return report, err
}

// showNotice tells the person at a client with a window what to do.
func (a *app) showNotice(n client.Notice) {
	if n.Agent != nil {
		fmt.Fprintf(a.err, "Enter this command as the command of an agent in the client:\n\n  %s\n\nor use this agent_servers file: %s\nPress Ctrl-C to end and get the report.\n\n", n.CommandLine(), n.Servers)
	}
	if n.Played != nil {
		fmt.Fprintf(a.err, "%-7s %s %s\n", n.Played.Status, n.Played.ID, n.Played.Reason)
	}
	if n.Next == nil {
		fmt.Fprintln(a.err, "All tests were played.")
		return
	}
	how := ""
	if n.Restart {
		how = "open a new thread, so that the client starts the agent anew, then "
	}
	fmt.Fprintf(a.err, "Next, %s (%s): %s%s\n", n.Next.ID, n.Next.Title, how, n.Next.Task())
}

// listScenarios lists the tests of clients.
func (a *app) listScenarios(scenarios []*client.Scenario) error {
	type item struct {
		ID    string      `json:"id"`
		Title string      `json:"title"`
		Need  client.Need `json:"need,omitempty"`
		Rules []string    `json:"rules"`
	}
	items := []item{}
	for _, s := range scenarios {
		items = append(items, item{s.ID, s.Title, s.Need, append([]string{}, s.Rules...)})
	}
	return a.print(map[string]any{"tests": items}, func(w io.Writer) {
		for _, t := range items {
			fmt.Fprintf(w, "%-32s %s [%s]\n", t.ID, t.Title, strings.Join(t.Rules, ", "))
		}
	})
}

// listClientRules lists the rules for clients.
func (a *app) listClientRules(scenarios []*client.Scenario) error {
	type item struct {
		comply.Rule
		Tests []string `json:"tests"`
	}
	items := []item{}
	for _, r := range rules.ForClients() {
		x := item{r, []string{}}
		for _, s := range scenarios {
			if slices.Contains(s.Rules, r.ID) {
				x.Tests = append(x.Tests, s.ID)
			}
		}
		items = append(items, x)
	}
	return a.print(map[string]any{"rules": items}, func(w io.Writer) {
		for _, r := range items {
			by := strings.Join(r.Tests, ", ")
			if client.InLedger(r.ID) {
				by = strings.TrimPrefix(by+", every frame", ", ")
			}
			fmt.Fprintf(w, "%-11s %-6s %s [%s]\n", r.ID, r.Level, r.Text, by)
		}
	})
}
