package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
	"github.com/parley-agents/parley/protocol/comply"
)

// complyFlags are the flags of parley comply.
type complyFlags struct {
	agents, baseline, format string
	resume                   string
	profile, requirements    string
	dir, writeSuite          string
	only, tests, rules, env  []string
	listTests, listRules     bool
	listAgents, withModel    bool
	summary, verbose, asMe   bool
	script                   string
	run                      comply.Options
}

func (a *app) complyCommand() *cobra.Command {
	var f complyFlags
	cmd := &cobra.Command{
		Use:   "comply [flags] -- COMMAND [ARG...]",
		Short: "Test an agent against the Agent Client Protocol",
		Long: `Start an agent once for each test, and report the protocol rules that it breaks, with
the frames that prove it. The report goes to standard output, progress to standard
error.

The agent gets a few variables and an empty home folder; --env passes on more
variables, --real-home lets it use your home folder. --with-model provides a scripted
model that follows the prompts of the tests, so the agent needs no account.
--list-agents lists the agents that Parley can start.

A run fails (exit code 1) because of:
  - a broken MUST of the protocol, in any test or frame, unless the baseline accepts
    it. A broken SHOULD, advice, and members that an SDK of the protocol published as
    unstable never fail a run
  - a test that could not be run
  - a baseline entry that is no longer true

--profile selects the tests: full (the default) has all of them, core those that every
client needs, editor and headless those for such clients. --requirements selects the
rules that can fail the run: v1 and v2 are lists that never grow, FILE has one id per
line. --rule runs the tests of one rule, and only that rule can fail the run.

An agent that needs a login does not fail: its tests are NA until it gets one with
--auth METHOD, --env or --real-home. A slow agent does not fail: it may take four times
as long as measured, and a finding based on time alone is reported only if it recurs
when the test runs alone with three times the time.

Exit codes: 0 the run passed, 1 it failed, 2 usage error, invalid file, or an agent that
cannot be started.`,
		Example: `  parley comply -- my-agent --acp
  parley comply --agents agents.json --summary
  parley comply --test required.prompt.cancel --verbose -- node dist/agent.js
  parley comply --agent qwen-code --agent opencode --summary
  parley comply --with-model --env 'OPENAI_BASE_URL=${modelURL}/v1' -- my-agent --acp
  parley comply --tests my-tests --format junit -- my-agent > report.xml`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.comply(cmd, f, args) },
	}

	flags := cmd.Flags()
	flags.StringVar(&f.agents, "agents", "", `file with agents in the "agent_servers" format of editors`)
	flags.StringArrayVar(&f.only, "agent", nil, "only the agent with this name, from the file or from --list-agents")
	flags.BoolVar(&f.listAgents, "list-agents", false, "list the agents that Parley can start, and exit")
	flags.BoolVar(&f.withModel, "with-model", false, "start a scripted model; ${modelURL} in the agent's arguments, variables and files is its address")
	flags.StringVar(&f.script, "model-script", "", "file with the model's script (default: obey directives in prompts)")

	// The tests that run, the rules that count, and the way in which the tests run.
	flags.StringVar(&f.dir, "tests", "", "folder with .jsont files to use instead of the built-in tests")
	flags.StringVar(&f.writeSuite, "write-suite", "", "write the built-in tests to this folder as a starting point for your own, and exit")
	flags.StringSliceVar(&f.tests, "test", nil, "only the test with this id")
	flags.StringSliceVar(&f.rules, "rule", nil, "only the tests of the rule with this id (all tests if it is checked in every frame); other rules do not fail the run")
	flags.StringVar(&f.profile, "profile", "full", "tests to run: "+strings.Join(comply.Profiles(), ", "))
	flags.StringVar(&f.requirements, "requirements", "", "rules that can fail the run: v1, v2, or a file with ids (default all)")
	flags.StringVar(&f.run.Auth, "auth", "", `log in with this method first; "parley acp inspect" lists the methods`)
	flags.Var((*strictyaml.Period)(&f.run.Startup), "start-timeout", "time limit for an agent's first start, including downloads (default 3m0s)")
	flags.BoolVar(&f.listTests, "list-tests", false, "list the tests, and exit")
	flags.BoolVar(&f.listRules, "list-rules", false, "list the rules and their tests, and exit")
	flags.IntVar(&f.run.Protocol, "protocol", 1, "protocol version: 1 or 2")
	flags.Var((*strictjson.Count)(&f.run.Jobs), "jobs", "number of tests to run in parallel (default the number of processors)")
	flags.Float64Var(&f.run.TimeoutScale, "timeout-scale", 1, "factor for all timeouts, for slow agents and machines")

	// The report, and the parts of this machine that the agent may see.
	f.formatFlags(cmd)
	flags.StringVar(&f.resume, "resume", "", "JSON report of an interrupted run of the same agents and tests; only the missing tests are run")
	flags.StringVar(&f.run.Record, "record", "", "folder for recordings of all conversations")
	flags.StringVar(&f.baseline, "baseline", "", "file with accepted deviations, one per line: ID [AGENT] [until=YYYY-MM-DD] # REASON")
	flags.StringArrayVar(&f.env, "env", nil, "variable to pass to the agent: NAME, or NAME=VALUE")
	flags.BoolVar(&f.asMe, "real-home", false, "let the agent use your home folder and its logins")
	flags.BoolVar(&f.verbose, "verbose", false, "print every frame to standard error")

	cmd.AddCommand(a.complyClientCommand(), a.complyRelayCommand(), a.complyAgentsCommand(), a.complyServerCommand(), a.complyRulesCommand(), a.complyExplainCommand(), a.complyCompareCommand(), a.complyRenderCommand())
	return cmd
}

// formatFlags adds the flags that choose the form of a report.
func (f *complyFlags) formatFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "md", "format of the report: md, pr (a summary for a pull request), json, junit, sarif, html (one page) or badge (SVG)")
	cmd.Flags().BoolVar(&f.summary, "summary", false, "print one table of all tests and agents instead of a section for each test")
}

// checkFormat refuses a form that there is not.
func (f *complyFlags) checkFormat() error {
	if !slices.Contains([]string{"md", "pr", "json", "junit", "sarif", "html", "badge"}, f.format) {
		return usagef("--format: unknown format %q", f.format).WithHint("use md, pr, json, junit, sarif, html or badge")
	}
	return nil
}

// comply runs the command.
func (a *app) comply(cmd *cobra.Command, f complyFlags, args []string) error {
	if a.json {
		f.format = "json"
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.writeSuite != "" {
		return a.writeSuite(f.writeSuite)
	}

	tests, err := f.selectTests()
	if err != nil {
		return err
	}

	// A list is printed as JSON if the report would be.
	a.json = a.json || (f.format == "json" && (f.listAgents || f.listTests || f.listRules))
	switch {
	case f.listAgents:
		return a.listAgents()
	case f.listTests:
		return a.listTests(tests)
	case f.listRules:
		return a.listRules(tests)
	}

	// Every input is read before the first agent is started.
	asked, err := f.selectRequirements()
	if err != nil {
		return err
	}
	agents, err := a.selectAgents(f, args)
	if err != nil {
		return err
	}
	known, err := f.readBaseline()
	if err != nil {
		return err
	}
	if err := f.prepare(agents); err != nil {
		return err
	}

	report, err := a.runComply(cmd.Context(), f, agents, tests)
	if err != nil {
		return err
	}

	// The requirements and the baseline decide which findings fail the run.
	report.Selected = f.profile != "full" || len(f.tests)+len(f.rules) > 0
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

// check refuses flags that make no sense in any run.
func (f *complyFlags) check() error {
	if err := f.checkFormat(); err != nil {
		return err
	}
	if f.run.Protocol != 1 && f.run.Protocol != 2 {
		return usagef("--protocol: unknown version %d", f.run.Protocol).WithHint("use 1 or 2")
	}
	if f.run.TimeoutScale <= 0 {
		return usagef("--timeout-scale must be greater than 0")
	}
	return nil
}

// writeSuite writes the built-in tests into a folder.
func (a *app) writeSuite(dir string) error {
	n, err := comply.WriteSuite(dir)
	if err != nil {
		return invalid(err)
	}
	return a.print(map[string]any{"folder": dir, "files": n}, func(w io.Writer) { fmt.Fprintf(w, "%d tests are in %s\n", n, dir) })
}

// readBaseline returns the accepted deviations, none without a file of them.
func (f *complyFlags) readBaseline() (*comply.Baseline, error) {
	if f.baseline == "" {
		return &comply.Baseline{}, nil
	}
	text, err := os.ReadFile(f.baseline)
	if err != nil {
		return nil, invalid(err)
	}
	known, err := comply.ParseBaseline(f.baseline, text)
	if err != nil {
		return nil, invalid(err)
	}
	return known, nil
}

// prepare reads the report to go on with and finds the home folder of the agents.
func (f *complyFlags) prepare(agents []comply.Agent) (err error) {
	if f.resume != "" {
		if f.run.Resume, err = readReport(f.resume); err != nil {
			return err
		}
	}
	if !f.asMe {
		return nil
	}
	if f.run.Home, err = os.UserHomeDir(); err != nil {
		return invalid(err)
	}
	if slices.ContainsFunc(agents, func(g comply.Agent) bool { return len(g.Files) > 0 }) {
		return usagef("--real-home: an agent needs files in its home folder, and Parley does not write to your real one").WithHint("leave out --real-home for that agent")
	}
	return nil
}

// runComply runs the tests, with progress on standard error. An interrupt ends the tests that
// run; the report has those that ran before.
func (a *app) runComply(parent context.Context, f complyFlags, agents []comply.Agent, tests []*comply.Test) (*comply.Report, error) {
	// Remarks on the tests come before the progress.
	for _, t := range tests {
		for _, remark := range t.Remarks {
			fmt.Fprintf(a.err, "%s: %s\n", t.Path, remark)
		}
	}

	var wall, waited time.Duration
	f.run.Progress = func(e comply.Event) {
		wall += e.Wall
		waited += e.Waited
		a.showProgress(e)
	}
	if f.verbose {
		f.run.Trace = func(agent, test string, frame comply.Frame) {
			fmt.Fprintf(a.err, "%s %s %s: %s\n", agent, test, frame.Direction, frame.Text)
		}
	}

	endModel, err := f.startModel(parent, agents)
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt)
	defer stop()
	report, err := comply.Run(ctx, agents, tests, &f.run)
	if unstarted := (*comply.StartError)(nil); errors.As(err, &unstarted) {
		err = invalid(err)
	}
	if report != nil && report.Interrupted {
		err = nil
		fmt.Fprintln(a.err, "interrupted: the report has the tests that ran; the others are marked ERROR")
	}
	if err := errors.Join(err, endModel()); err != nil {
		return nil, err
	}

	report.Tool = "parley " + version()
	if f.verbose && wall > 0 {
		own := wall - waited
		fmt.Fprintf(a.err, "the tests took %v in total; the runner itself used %v (%.1f percent), the rest was spent waiting for agents and on delays in tests\n",
			wall.Round(time.Millisecond), own.Round(time.Millisecond), 100*own.Seconds()/wall.Seconds())
	}
	return report, nil
}

// showProgress prints the result of one test.
func (a *app) showProgress(e comply.Event) {
	if e.Result == nil {
		return
	}
	again := ""
	if e.Again {
		again = " (again, alone)"
	}
	fmt.Fprintf(a.err, "%-7s %s: %s %.1fs%s\n", e.Result.Status, e.Agent, e.Test, e.Wall.Seconds(), again)
}

// selectRequirements returns the rules that may fail the run, nil for all.
func (f *complyFlags) selectRequirements() (comply.Requirements, error) {
	if len(f.rules) > 0 {
		asked := comply.Requirements{}
		for _, id := range f.rules {
			asked[id] = true
		}
		return asked, nil
	}
	switch f.requirements {
	case "":
		return nil, nil
	case "v1", "v2":
		return comply.BuiltinRequirements(f.requirements)
	}
	text, err := os.ReadFile(f.requirements)
	if err != nil {
		return nil, invalid(err)
	}
	asked, err := comply.ParseRequirements(f.requirements, text)
	if err != nil {
		return nil, invalid(err)
	}
	return asked, nil
}

func (f *complyFlags) write(w io.Writer, report *comply.Report) error {
	switch f.format {
	case "json":
		return report.JSON(visibleWriter{w})
	case "junit":
		return report.JUnit(w)
	case "pr":
		return report.PullRequest(w)
	case "sarif":
		return report.SARIF(visibleWriter{w})
	case "html":
		return report.HTML(w)
	case "badge":
		return report.Badge(w)
	}
	return report.Markdown(w, &comply.MarkdownOptions{Summary: f.summary})
}

// selectTests returns the tests to run.
func (f *complyFlags) selectTests() ([]*comply.Test, error) {
	load := comply.Suite
	if f.dir != "" {
		if info, err := os.Stat(f.dir); err != nil || !info.IsDir() {
			return nil, usagef("--tests: %s is not a readable folder", f.dir)
		}
		load = func() ([]*comply.Test, error) { return comply.Load(f.dir) }
	}

	all, err := load()
	if err != nil {
		return nil, invalid(err)
	}

	// An id that no test or rule has is an error, not an empty selection.
	for _, id := range f.tests {
		if !slices.ContainsFunc(all, func(t *comply.Test) bool { return t.ID == id }) {
			return nil, usagef("--test: no test with id %q", id).WithHint(`run "parley comply --list-tests" to list the tests`)
		}
	}
	for _, id := range f.rules {
		if !slices.ContainsFunc(comply.Rules(), func(r comply.Rule) bool { return r.ID == id }) &&
			!slices.ContainsFunc(all, func(t *comply.Test) bool { return slices.Contains(t.Rules, id) }) {
			return nil, usagef("--rule: no rule with id %q", id).WithHint(`run "parley comply --list-rules" to list the rules`)
		}
	}
	if !slices.Contains(comply.Profiles(), f.profile) {
		return nil, usagef("--profile: unknown profile %q", f.profile).WithHint("use %s", strings.Join(comply.Profiles(), ", "))
	}

	// A rule that every frame is checked for keeps all tests: any of them may break it.
	byFrame := slices.ContainsFunc(f.rules, comply.CheckedInFrames)
	chosen := slices.DeleteFunc(all, func(t *comply.Test) bool {
		switch {
		case !comply.InProfile(f.profile, t.ID):
			return true
		case len(f.tests) > 0 && !slices.Contains(f.tests, t.ID):
			return true
		case len(f.rules) > 0 && !byFrame && !slices.ContainsFunc(t.Rules, func(id string) bool { return slices.Contains(f.rules, id) }):
			return true
		}
		return len(t.Protocols) > 0 && !slices.Contains(t.Protocols, f.run.Protocol)
	})

	if len(chosen) == 0 {
		return nil, usagef("no test matches all of --test, --rule, --profile and --protocol").WithHint(`run "parley comply --list-tests" to list the tests for protocol version %d`, f.run.Protocol)
	}
	return chosen, nil
}

func (a *app) listTests(tests []*comply.Test) error {
	type item struct {
		ID       string          `json:"id"`
		Title    string          `json:"title"`
		Severity comply.Severity `json:"severity"`
		Rules    []string        `json:"rules"`
	}
	items := []item{}
	for _, t := range tests {
		items = append(items, item{t.ID, t.Title, t.Severity, append([]string{}, t.Rules...)})
	}
	return a.print(map[string]any{"tests": items}, func(w io.Writer) {
		for _, t := range items {
			fmt.Fprintf(w, "%-44s %-8s %s\n", t.ID, t.Severity, t.Title)
		}
	})
}

// listRules lists the rules of the table and those that only tests name.
func (a *app) listRules(tests []*comply.Test) error {
	type item struct {
		comply.Rule
		Tests []string `json:"tests"`
	}
	items := []item{}
	for _, r := range comply.Rules() {
		items = append(items, item{r, []string{}})
	}
	for _, t := range tests {
		for _, id := range t.Rules {
			i := slices.IndexFunc(items, func(x item) bool { return x.ID == id })
			if i < 0 {
				items = append(items, item{Rule: comply.Rule{ID: id, Level: comply.Must}})
				i = len(items) - 1
			}
			items[i].Tests = append(items[i].Tests, t.ID)
		}
	}
	return a.print(map[string]any{"rules": items}, func(w io.Writer) {
		for _, r := range items {
			by := strings.Join(r.Tests, ", ")
			if by == "" {
				by = "checked in every frame"
			}
			fmt.Fprintf(w, "%-8s %-6s %s [%s]\n", r.ID, r.Level, r.Text, by)
		}
	})
}
