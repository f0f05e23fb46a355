package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/report"
)

// runFlags are the flags of run that are not part of the spec.
type runFlags struct {
	run.Spec
	policy, auth                           string
	noHub, v2                              bool
	verifyTimeout, startTimeout, stopGrace time.Duration
}

// defaultDone is the default of --done.
const defaultDone = "answer with a report: STATUS, FILES_CREATED, FILES_MODIFIED, TESTS, BUILD, ERROR, LEARNED"

func (a *app) runCommand() *cobra.Command {
	return nounVerb(a.runTaskCommand(), a.runListCommand(), a.runReplayCommand())
}

func (a *app) runTaskCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] AGENT TASK | --task TASK [flags] -- COMMAND [ARGUMENT...]",
		Short: "Give an agent a task and check its report",
		Long: `Start an agent over ACP, give it one task and the hub's tools, read its report, and
compare the report with the repository. AGENT is one of the agents listed by "parley
agents detect"; any other agent that speaks ACP can be given as a command.

The agent's text goes to standard output, its thoughts and actions to standard error.
With --json, every frame and every change of state is a line on standard output, and
the last line is the result. Parley runs VERIFY and BUILD after the agent, in the
agent's working folder.

The verdict is confirmed if every claim was checked and holds, contradicted if one does
not hold, and unverified if one could not be checked. It is also unverified if the agent
reports ok but did nothing, or if it changed a test, script or makefile that VERIFY and
BUILD depend on, unless --allow-test-changes states that this is the task.

Exit codes: 0 the verdict is confirmed and the agent reports ok or no_changes, 1 any
other completed run, 5 the agent could not be started, 130 interrupted. Ctrl-C asks the
agent to stop; a second Ctrl-C kills it.

The run is recorded on the running hub. If there is none, a hub is started in the home
and keeps running until "parley stop". --no-hub records the run in files only.`,
		Example: `  parley run claude "Add a nullable avatar field" --scope src/ --verify "go test ./..."
  parley run --task "fix the build" --build "make" --policy write --worktree -- gemini --experimental-acp`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			// A CLI that is connected runs as the agent of its connection.
			if f.Agent == "" && cmd.ArgsLenAtDash() < 0 && len(args) > 0 {
				f.Agent = a.connectedAgent(args[0])
			}
			if err := f.read(cmd.ArgsLenAtDash(), args); err != nil {
				return err
			}
			return a.run(cmd.Context(), f)
		},
	}

	flags, d := cmd.Flags(), &f.Dispatch
	flags.StringVar(&d.Task, "task", "", "task for an agent given as a command; or the id of a team task that the agent owns, such as T-12")
	flags.StringVar((*string)(&f.Agent), "name", "", "name of the agent on the hub (default the CLI's connected agent, or its name)")
	flags.StringVar(&f.Dir, "repo", ".", "the agent's working folder")
	flags.StringArrayVar(&d.Scope, "scope", nil, "path prefix that the agent may touch (repeatable; default all)")
	flags.StringVar(&f.Verify, "verify", "", "command that proves that the task is done; the report's TESTS is compared with it")
	flags.StringVar(&f.Build, "build", "", "build command; the report's BUILD is compared with it")
	flags.BoolVar(&f.AllowTestChanges, "allow-test-changes", false, "the task is to change tests or files that VERIFY and BUILD run")
	flags.StringVar(&d.Context, "context", "", "background information for the agent")
	flags.StringArrayVar(&d.Acceptance, "accept", nil, "success criterion (repeatable)")
	flags.StringVar(&d.Rules, "rules", "", "additional rules for the agent")
	flags.StringVar(&d.Done, "done", defaultDone, "instructions for the answer")
	flags.StringVar((*string)(&f.Handoff), "handoff", "", "handoff of the task; the evidence is attached to it")
	flags.BoolVar(&f.Worktree, "worktree", false, "work in a separate git worktree, on its own branch")

	policyFlag(cmd, &f.policy)
	flags.DurationVar(&f.Timeout, "timeout", 20*time.Minute, "time limit for the agent")
	flags.DurationVar(&f.verifyTimeout, "verify-timeout", 10*time.Minute, "time limit for each of VERIFY and BUILD")
	flags.DurationVar(&f.startTimeout, "start-timeout", time.Minute, "time limit for the agent's first answer")
	flags.DurationVar(&f.stopGrace, "stop-grace", 30*time.Second, "time for the agent to stop when asked to")
	flags.StringVar(&f.auth, "auth", "", `log in with this method first; "parley acp inspect" lists the methods`)
	flags.BoolVar(&f.v2, "v2", false, "offer protocol version 2 (draft)")
	flags.BoolVar(&f.noHub, "no-hub", false, "record in files only, and do not give the agent the hub's tools")
	return cmd
}

// read completes the spec with the arguments and checks it.
func (f *runFlags) read(dash int, args []string) error {
	if err := f.readCommand(dash, args); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.Verify != "" {
		f.Dispatch.Verify = []string{f.Verify}
	}
	return nil
}

// readCommand takes the agent, its command and the task from the arguments: the name of an
// agent, with the task unless --task has it, or a command behind two dashes.
func (f *runFlags) readCommand(dash int, args []string) (err error) {
	task := &f.Dispatch.Task
	withTask := len(args) == 2 && *task == ""
	nameAlone := len(args) == 1 && *task != ""
	switch {
	case dash < 0 && (withTask || nameAlone):
		if withTask {
			*task = args[1]
		}
		f.Agent = cmp.Or(f.Agent, hub.AgentID(args[0]))
		if f.Command, err = cli.Command(args[0]); err != nil {
			return err
		}
	case dash == 0 && len(args) > 0 && *task != "":
		f.Command = args
		f.Agent = cmp.Or(f.Agent, agentName(args[0]))
	case dash == 0 && len(args) > 0:
		return usagef("a task is required").WithHint("pass it with --task, before --")
	default:
		return usagef("an agent and a task are required, or --task and a command after --")
	}
	return nil
}

// check refuses a spec that cannot be run.
func (f *runFlags) check() error {
	if !f.Agent.Valid() {
		return usagef("%q is not a valid agent name", f.Agent).WithHint("pass a name with --name: lowercase letters, digits, dots, dashes and underscores")
	}
	if strings.TrimSpace(f.Dispatch.Task) == "" {
		return usagef("the task is empty")
	}

	isHandoff := f.Handoff.Valid() || hub.ShortID(f.Handoff).Is(hub.ShortHandoff)
	if f.Handoff != "" && (f.noHub || !isHandoff) {
		return usagef("--handoff: %q is not a handoff on a hub", f.Handoff)
	}
	shortest := min(f.Timeout, f.verifyTimeout, f.startTimeout, f.stopGrace)
	if shortest <= 0 {
		return usagef("--timeout, --verify-timeout, --start-timeout and --stop-grace must be positive")
	}
	if info, err := os.Stat(f.Dir); err != nil || !info.IsDir() {
		return usagef("--repo: %s is not a folder", f.Dir)
	}
	return nil
}

// connectedAgent returns the agent as which a CLI is connected in the current folder or
// for the user, else "".
func (a *app) connectedAgent(cli string) hub.AgentID {
	home, err := a.homeDir()
	if err != nil {
		return ""
	}
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return connect.AgentOf(home, dir, cli)
}

// agentName makes a name for an agent from the path of its program.
func agentName(program string) hub.AgentID {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, filepath.Base(program))
	name = strings.TrimLeft(name, ".-_")
	return hub.AgentID(cmp.Or(name[:min(len(name), 64)], "agent"))
}

// run executes a run and prints it.
func (a *app) run(ctx context.Context, f runFlags) error {
	policy, err := a.policy(f.policy)
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	c, err := a.loadConfig(home)
	if err != nil {
		return err
	}
	settings, err := c.settings("runs.keep", "runs.max_age", "reservations.unreachable", "repositories")
	if err != nil {
		return err
	}

	opts := &run.Options{
		Agent: fleet.Options{Auth: f.auth, Options: acp.Options{
			Name: "parley", Version: version(), Policy: policy, V2: f.v2,
			StartTimeout: f.startTimeout, CancelGrace: f.stopGrace,
		}},
		Retention: settings.Runs, CommandTimeout: f.verifyTimeout, Alone: true,
	}

	// A task of a team moves by the result of the run; other tasks have nothing to finish.
	finished := func(context.Context, bool) error { return nil }
	if !f.noHub {
		link, err := a.hubForRun(ctx, home, c)
		if err != nil {
			return err
		}
		opts.Hub = link
		opts.Ask = link.askFiles
		opts.OnCommit = link.checkCommit
		opts.DenyUnanswered = settings.deniesUnanswered(f.Dir)
		if err := a.offerRoot(ctx, link.Client, f.Dir); err != nil {
			return err
		}
		if done, err := takeTask(ctx, link.Client, &f.Spec); err != nil {
			return err
		} else if done != nil {
			finished = done
		}
	}

	show := &runPrinter{app: a, narrator: a.narrator()}
	defer show.narrator.stop()
	opts.Agent.Ask = show.narrator.asker()
	opts.On = show.events()
	if !a.json {
		opts.Agent.OnUpdate = show.narrator.tell
	}

	// The first interrupt ends ctx, which asks the agent to stop; the second one kills it.
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	opts.Kill = alive
	defer onSecondSignal(kill, 0)()

	result, err := run.Execute(ctx, home, f.Spec, opts)
	if err != nil {
		return err
	}
	if err := finished(context.WithoutCancel(ctx), result.OK()); err != nil {
		opts.On.Problem(err)
	}
	show.end(result, run.NewFiles(home).Frames(result.ID))

	switch {
	case result.State == hub.RunInterrupted:
		return context.Canceled
	case result.Reason == hub.RunNotStarted:
		return hub.Errorf(hub.CodeDegraded, "parley", "cannot start the agent: %s", result.Problem).WithHint("%s", result.Hint)
	case !result.OK():
		return errCheck
	}
	return nil
}

// A runPrinter prints a run as it proceeds.
type runPrinter struct {
	*app
	narrator *narrator
	mu       sync.Mutex // guards out: one line at a time
}

func (p *runPrinter) events() run.Events {
	on := run.Events{
		State: p.state,
		Problem: func(err error) {
			text := redacted(err)
			p.tell("problem", map[string]any{"message": text}, "33", "warning:", text)
		},
		Command: func(field, line string) {
			p.tell("command", map[string]any{"what": field, "command": line}, "36", field+":", line)
		},
		Worktree: func(folder, branch string) {
			p.tell("worktree", map[string]any{"worktree": folder, "branch": branch}, "36", "worktree:", folder+" on branch "+branch)
		},
	}
	if p.json {
		on.Frame = func(line []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.out.Write(line) // the reader may have ended; the run goes on
		}
	}
	return on
}

func (p *runPrinter) state(r hub.Run) {
	label, text := "", ""
	switch r.State {
	case hub.RunStarting:
		label, text = "run "+string(r.ID)+":", fmt.Sprintf("%s works in %s", r.Agent, r.Dir)
	case hub.RunChecking:
		label, text = "checking", "the agent's report"
	}
	if !p.json && !r.State.Over() {
		defer p.narrator.setState(string(r.State))
	}
	p.tell("state", map[string]any{"run_id": r.ID, "state": r.State}, "36", label, text)
}

// tell prints an event: as a line of JSON, or as a line for people unless the label
// is empty.
func (p *runPrinter) tell(event string, members map[string]any, colour, label, text string) {
	switch {
	case p.json:
		members["event"] = event
		p.mu.Lock()
		defer p.mu.Unlock()
		encoder(p.out).Encode(members) // as with frames
	case label != "":
		p.narrator.print(func() { fmt.Fprintf(p.err, "%s %s\n", p.paint(p.err, colour, label), text) })
	}
}

// redacted returns the text of an error without secrets: it may quote the agent.
func redacted(err error) string { return string(run.NewRedactor().Redact([]byte(err.Error()))) }

// A runResult is the last line of run --json.
type runResult struct {
	run.Record
	Owner  *struct{} `json:"owner,omitempty"`  // hidden: of no use once the run is over
	Groups *struct{} `json:"groups,omitempty"` // likewise
	Frames string    `json:"frames"`
}

// end prints the result.
func (p *runPrinter) end(r run.Result, frames string) {
	p.narrator.stop()
	p.print(runResult{Record: r.Record, Frames: frames}, func(w io.Writer) {
		if r.Reason == hub.RunNotStarted {
			r.Problem, r.Hint = "", "" // the error of the command says it
		}
		p.writeRun(w, r.Record)
	})
}

// verdictColour is the colour of a verdict on a terminal.
var verdictColour = map[hub.RunVerdict]string{hub.RunConfirmed: "32", hub.RunContradicted: "31", hub.RunUnverified: "33", hub.RunClaimed: "33"}

// writeRun prints the end of a run for people.
func (a *app) writeRun(w io.Writer, r run.Record) {
	fmt.Fprintf(w, "\nrun %s: %s", r.ID, r.State)
	if r.Reason != "" {
		fmt.Fprintf(w, " (%s)", r.Reason)
	}
	if r.Verdict != "" {
		fmt.Fprintf(w, ", %s", a.paint(w, verdictColour[r.Verdict], r.VerdictText()))
	}
	fmt.Fprintln(w)

	if r.Problem != "" {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(r.Problem, "\n", "\n  "))
	}
	if r.Hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", r.Hint)
	}

	// The claims of the agent come before the findings about them.
	var claim report.Report
	if json.Unmarshal(r.Report, &claim) == nil && claim.Status != "" {
		if text, err := claim.Text(); err == nil {
			fmt.Fprintf(w, "  reported: %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n            "))
		}
	}

	if r.Verdict == hub.RunClaimed {
		fmt.Fprintf(w, "  %s\n", a.paint(w, "33", "evidence ("+r.Note()+"):"))
	}
	for _, c := range r.Contradictions {
		fmt.Fprintf(w, "  %s %s; found: %s\n", a.paint(w, "31", c.Kind+":"), c.Claim, c.Found)
	}
	a.writeEvidence(w, r.Evidence)
	writeTokens(w, r.Tokens)
	if r.Worktree != "" {
		fmt.Fprintf(w, "  worktree: %s on branch %s\n", r.Worktree, r.Branch)
	}
}

// maxNames is how many files of each kind are listed.
const maxNames = 10

// writeNames lists files that were changed in one way.
func writeNames(w io.Writer, sign string, names []string) {
	for i, name := range names {
		if i == maxNames {
			fmt.Fprintf(w, "    %s %d more\n", sign, len(names)-i)
			return
		}
		fmt.Fprintf(w, "    %s %s\n", sign, name)
	}
}

// outcomeText returns the outcome of a command with the place where it ran, if that was a commit.
func outcomeText(o run.Outcome) string {
	if o.Check == nil {
		return o.String()
	}
	text := fmt.Sprintf("%s on %.12s in a clean worktree (result %s", o, o.Check.Commit, o.Check.Result)
	if o.Check.Kept {
		text += ", kept"
	}
	return text + ")"
}

// writeEvidence prints the evidence for people.
func (a *app) writeEvidence(w io.Writer, raw json.RawMessage) {
	var e run.Evidence
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &e) != nil {
		return
	}
	fmt.Fprintf(w, "  changed: %d files, +%d -%d lines\n", e.Diff.Files, e.Diff.Insertions, e.Diff.Deletions)
	writeNames(w, "+", e.Diff.Created)
	writeNames(w, "~", e.Diff.Modified)
	writeNames(w, "-", e.Diff.Deleted)
	if e.Verify != nil {
		fmt.Fprintf(w, "  VERIFY: %s: %s\n", e.Verify.Command, outcomeText(*e.Verify))
	}
	if e.Build != nil {
		fmt.Fprintf(w, "  BUILD: %s: %s\n", e.Build.Command, outcomeText(*e.Build))
	}
	for _, f := range e.Unverified {
		fmt.Fprintf(w, "  %s %s; %s\n", a.paint(w, "33", string(f.Kind)+":"), f.Claim, f.Found)
	}
	if e.TestsChanged() {
		fmt.Fprintln(w, "  hint: if the task is to change them, run it with --allow-test-changes")
	}
	for _, f := range e.Notes {
		colour := "2"
		if f.Kind == run.PolicyBreach {
			colour = "31"
		}
		fmt.Fprintf(w, "  %s %s; %s\n", a.paint(w, colour, string(f.Kind)+":"), f.Claim, f.Found)
	}
}
