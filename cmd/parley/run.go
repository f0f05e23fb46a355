package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/errand"
	"github.com/parley-agents/parley/internal/reach/catalog"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/report"
)

// runFlags are the flags of run.
type runFlags struct {
	order                   errand.Order
	name, repo, policy      string
	task, context, handoff  string
	scope, acceptance       []string
	verify, done, rules     string
	noHub, v2               bool
	auth                    string
	verifyTimeout           time.Duration
	startTimeout, stopGrace time.Duration
}

// defaultDone is how an agent shall answer unless it is told otherwise.
const defaultDone = "answer with a report: STATUS, FILES_CREATED, FILES_MODIFIED, TESTS, BUILD, ERROR, LEARNED"

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] AGENT TASK | --task TASK [flags] -- COMMAND [ARGUMENT...]",
		Short: "Give one task to one agent, and check what it reports",
		Long: `Start an agent over ACP, give it one task and the hub's tools, read the report
that it answers with, and compare that with the repository. AGENT is one of those
that parley agents detect lists; any other that speaks ACP is given as a command.

What the agent says goes to standard output, what it thinks and does to standard
error; with --json every message and every change of state is a line on standard
output, and the last line is the result. VERIFY and BUILD are run by us, after
the agent, in the folder where it worked.

The verdict is confirmed if everything claimed was checked and is so,
contradicted if something is not, and unverified if something could not be
checked. Exit code 0 means confirmed, and that the agent says ok or no_changes; 1
anything else that ran; 5 that the agent could not be run; 130 that it was
interrupted. Ctrl-C asks the agent to stop, a second one kills it.

The run is recorded on the hub: the one that runs, else one that is started in
the home for the time of the run. --no-hub keeps it in files only.`,
		Example: `  parley run claude "Add a nullable avatar field" --scope src/ --verify "go test ./..."
  parley run --task "fix the build" --build "make" --policy write --worktree -- gemini --experimental-acp`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.read(cmd, args); err != nil {
				return err
			}
			return a.run(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.task, "task", "", "what to do, where the agent is given as a command")
	flags.StringVar(&f.name, "name", "", "who the agent is on the hub (default the name of the agent or its program)")
	flags.StringVar(&f.repo, "repo", ".", "the folder that it works in")
	flags.StringArrayVar(&f.scope, "scope", nil, "beginning of the paths that it may touch (repeatable; default all)")
	flags.StringVar(&f.verify, "verify", "", "command that shows that the task is done, and that TESTS is compared with")
	flags.StringVar(&f.order.Build, "build", "", "command that BUILD is compared with")
	flags.StringVar(&f.context, "context", "", "what the agent should know")
	flags.StringArrayVar(&f.acceptance, "accept", nil, "when the task is done (repeatable)")
	flags.StringVar(&f.rules, "rules", "", "what else holds")
	flags.StringVar(&f.done, "done", defaultDone, "how to answer")
	flags.StringVar(&f.handoff, "handoff", "", "the handoff that the task came by: the evidence is attached to it")
	flags.BoolVar(&f.order.Worktree, "worktree", false, "work in a git worktree made for the run, on a branch of its own")
	policyFlag(cmd, &f.policy)
	flags.DurationVar(&f.order.Timeout, "timeout", 20*time.Minute, "how long the agent may take")
	flags.DurationVar(&f.verifyTimeout, "verify-timeout", 10*time.Minute, "how long VERIFY and BUILD may take each")
	flags.DurationVar(&f.startTimeout, "start-timeout", time.Minute, "how long the agent may take to answer at all")
	flags.DurationVar(&f.stopGrace, "stop-grace", 30*time.Second, "how long it may take to stop when it is asked to")
	flags.StringVar(&f.auth, "auth", "", "log in by this method first; parley acp inspect lists them")
	flags.BoolVar(&f.v2, "v2", false, "offer version 2 of the protocol, a draft")
	flags.BoolVar(&f.noHub, "no-hub", false, "record in files only, and give the agent none of the hub's tools")
	return cmd
}

// read makes an order of the command line.
func (f *runFlags) read(cmd *cobra.Command, args []string) error {
	o := &f.order
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0 && len(args) == 2 && f.task == "":
		f.name = cmp.Or(f.name, args[0])
		f.task = args[1]
		command, err := agentCommand(args[0])
		if err != nil {
			return err
		}
		o.Command = command
	case dash < 0 && len(args) == 1 && f.task != "":
		f.name = cmp.Or(f.name, args[0])
		command, err := agentCommand(args[0])
		if err != nil {
			return err
		}
		o.Command = command
	case dash == 0 && len(args) > 0 && f.task != "":
		o.Command = args
		f.name = cmp.Or(f.name, agentName(args[0]))
	case dash == 0 && len(args) > 0:
		return usagef("what shall the agent do?").WithHint("say it with --task, before the two dashes")
	default:
		return usagef("run wants an agent and a task, or --task and a command behind two dashes")
	}
	o.Agent, o.Dir, o.Verify, o.Handoff = hub.AgentID(f.name), f.repo, f.verify, hub.HandoffID(f.handoff)
	if !o.Agent.Valid() {
		return usagef("%q cannot be an agent's name", f.name).WithHint("give one with --name: lower-case letters, digits, dots, dashes and underscores")
	}
	if strings.TrimSpace(f.task) == "" {
		return usagef("the task is empty")
	}
	if o.Handoff != "" && (!o.Handoff.Valid() || f.noHub) {
		return usagef("--handoff: %q is not a handoff on a hub", f.handoff)
	}
	if o.Timeout <= 0 || f.verifyTimeout <= 0 || f.startTimeout <= 0 || f.stopGrace <= 0 {
		return usagef("a time must be more than nothing")
	}
	if info, err := os.Stat(f.repo); err != nil || !info.IsDir() {
		return usagef("--repo: %s is not a folder", f.repo)
	}
	o.Dispatch = report.Dispatch{Task: f.task, Context: f.context, Acceptance: f.acceptance, Scope: f.scope, Rules: f.rules, Done: f.done}
	if f.verify != "" {
		o.Dispatch.Verify = []string{f.verify}
	}
	return nil
}

// agentCommand returns how a known agent is started.
func agentCommand(name string) ([]string, error) {
	cli, err := catalog.Lookup(name)
	if err != nil {
		return nil, hub.Errorf(hub.CodeDegraded, "parley", "%w", err).
			WithHint("parley agents detect lists those that are known; others are given as a command: parley run --task TASK -- COMMAND")
	}
	if _, err := exec.LookPath(cli.ACP[0]); err != nil {
		e := hub.Errorf(hub.CodeDegraded, "parley", "%s is not installed: there is no %s on the PATH", cli.Title, cli.ACP[0])
		if cli.Adapter != "" {
			return nil, e.WithHint("it comes with the npm package %s", cli.Adapter)
		}
		return nil, e.WithHint("install it, or put it on the PATH")
	}
	return cli.ACP, nil
}

// agentName makes a name of the program that an agent is.
func agentName(program string) string {
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
	return cmp.Or(name[:min(len(name), 64)], "agent")
}

// run gives a task to an agent.
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
	if c.Runs.Keep < 0 || c.Runs.MaxAge < 0 {
		return hub.Errorf(hub.CodeInvalid, "parley", "runs: keep and max_age cannot be less than nothing")
	}
	opts := &errand.Options{
		Name: "parley", Version: version(), Policy: policy, Ask: a.asker(), Auth: f.auth, V2: f.v2,
		Retention: fleet.Retention{Keep: c.Runs.Keep, MaxAge: c.Runs.MaxAge}, VerifyTimeout: f.verifyTimeout, StartTimeout: f.startTimeout, CancelGrace: f.stopGrace,
	}
	if !f.noHub {
		link, stop, err := a.hubForRun(ctx, home, c)
		if err != nil {
			return err
		}
		defer stop()
		opts.Hub = link
	}
	show := a.spectator()
	opts.On = show.listener()
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	opts.Kill = alive
	defer onSecondSignal(kill)()
	result, err := errand.Run(ctx, home, f.order, opts)
	if err != nil {
		return err
	}
	show.end(result, fleet.NewLedger(home).Frames(result.ID))
	switch {
	case result.State == hub.RunInterrupted:
		return context.Canceled
	case errors.Is(result.Err, acp.ErrAuthRequired):
		return hub.Errorf(hub.CodeDegraded, "parley", "the agent could not be run: %w", result.Err).WithHint("give --auth METHOD; parley acp inspect lists the methods")
	case result.Reason == hub.RunNotStarted:
		return hub.Errorf(hub.CodeDegraded, "parley", "the agent could not be run: %w", result.Err)
	case !result.OK():
		return errCheck
	}
	return nil
}

// A spectator shows a run as it goes on.
type spectator struct {
	*app
	told *narrator
	mu   sync.Mutex // one line at a time, whoever writes it
}

func (a *app) spectator() *spectator { return &spectator{app: a, told: a.narrator()} }

// listener is what the run tells things to.
func (s *spectator) listener() errand.Listener {
	l := errand.Listener{State: s.state, Problem: s.problem, Command: s.command, Place: s.place}
	if s.json {
		l.Frame = func(line []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.out.Write(line) // who reads may be gone; the run goes on
		}
	} else {
		l.Update = func(u *acp.Update) { s.told.tell(u) }
	}
	return l
}

// event writes something that happened as a line of JSON.
func (s *spectator) event(name string, members map[string]any) {
	members["event"] = name
	s.mu.Lock()
	defer s.mu.Unlock()
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	enc.Encode(members) // as with frames
}

// unsecret returns what an error says without secrets: it may quote the agent.
func unsecret(err error) string { return string(fleet.NewRedactor().Redact([]byte(err.Error()))) }

// say writes a line for people.
func (s *spectator) say(colour, what, text string) {
	s.told.end()
	fmt.Fprintf(s.err, "%s %s\n", s.paint(s.err, colour, what), readable(text))
}

func (s *spectator) state(r hub.Run) {
	switch {
	case s.json:
		s.event("state", map[string]any{"run_id": r.ID, "state": r.State})
	case r.State == hub.RunStarting:
		s.say("36", "run "+string(r.ID)+":", fmt.Sprintf("%s works in %s", r.Agent, r.Dir))
	case r.State == hub.RunChecking:
		s.say("36", "checking", "what the agent reports")
	}
}

func (s *spectator) problem(err error) {
	text := unsecret(err)
	if s.json {
		s.event("problem", map[string]any{"message": text})
		return
	}
	s.say("33", "warning:", text)
}

func (s *spectator) command(what, line string) {
	if s.json {
		s.event("command", map[string]any{"what": what, "command": line})
		return
	}
	s.say("36", what+":", line)
}

func (s *spectator) place(worktree, branch string) {
	if s.json {
		s.event("worktree", map[string]any{"worktree": worktree, "branch": branch})
		return
	}
	s.say("36", "worktree:", worktree+" on branch "+branch)
}

// A runResult is the object that a run ends with.
type runResult struct {
	fleet.Record
	Owner  *struct{} `json:"owner,omitempty"`  // of no use to anybody when it is over
	Groups *struct{} `json:"groups,omitempty"` // likewise
	Frames string    `json:"frames"`
	Error  string    `json:"error,omitempty"`
}

// end prints how the run ended.
func (s *spectator) end(r errand.Result, frames string) {
	s.told.end()
	out := runResult{Record: r.Record, Frames: frames}
	if r.Err != nil && !errors.Is(r.Err, context.Canceled) {
		out.Error = unsecret(r.Err)
	}
	s.print(out, func(w io.Writer) { s.writeRun(w, r.Record, out.Error) })
}

// verdictColour is how a verdict looks on a terminal.
var verdictColour = map[hub.RunVerdict]string{hub.RunConfirmed: "32", hub.RunContradicted: "31", hub.RunUnverified: "33"}

// writeRun writes how a run ended, for people.
func (a *app) writeRun(w io.Writer, r fleet.Record, problem string) {
	fmt.Fprintf(w, "\nrun %s: %s", r.ID, r.State)
	if r.Reason != "" {
		fmt.Fprintf(w, " (%s)", r.Reason)
	}
	if r.Verdict != "" {
		fmt.Fprintf(w, ", %s", a.paint(w, verdictColour[r.Verdict], string(r.Verdict)))
	}
	fmt.Fprintln(w)
	if problem != "" {
		fmt.Fprintf(w, "  %s\n", readable(problem))
	}
	var claim struct {
		report.Report
	}
	if json.Unmarshal(r.Report, &claim.Report) == nil && claim.Status != "" {
		text, err := claim.Text()
		if err == nil {
			fmt.Fprintf(w, "  reported: %s\n", readable(strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n            ")))
		}
	}
	for _, c := range r.Contradictions {
		fmt.Fprintf(w, "  %s %s; found: %s\n", a.paint(w, "31", c.Kind+":"), readable(c.Claim), readable(c.Found))
	}
	a.writeEvidence(w, r.Evidence)
	if r.Worktree != "" {
		fmt.Fprintf(w, "  worktree: %s on branch %s\n", readable(r.Worktree), r.Branch)
	}
}

// writeEvidence writes the evidence, for people.
func (a *app) writeEvidence(w io.Writer, raw json.RawMessage) {
	type outcome struct {
		Command  string `json:"command"`
		ExitCode int    `json:"exit_code"`
		TimedOut bool   `json:"timed_out"`
		Failure  string `json:"failure"`
	}
	type finding struct{ Kind, Claim, Found string }
	var e struct {
		Diff struct {
			Files, Insertions, Deletions int
		}
		Verify, Build     *outcome
		Unverified, Notes []finding
	}
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &e) != nil {
		return
	}
	fmt.Fprintf(w, "  changed: %d files, +%d -%d lines\n", e.Diff.Files, e.Diff.Insertions, e.Diff.Deletions)
	for _, c := range []struct {
		what string
		*outcome
	}{{"VERIFY", e.Verify}, {"BUILD", e.Build}} {
		switch {
		case c.outcome == nil:
		case c.Failure != "":
			fmt.Fprintf(w, "  %s: %s: %s\n", c.what, readable(c.Command), readable(c.Failure))
		case c.TimedOut:
			fmt.Fprintf(w, "  %s: %s: took too long\n", c.what, readable(c.Command))
		default:
			fmt.Fprintf(w, "  %s: %s: exit code %d\n", c.what, readable(c.Command), c.ExitCode)
		}
	}
	for _, part := range []struct {
		colour string
		list   []finding
	}{{"33", e.Unverified}, {"2", e.Notes}} {
		for _, f := range part.list {
			fmt.Fprintf(w, "  %s %s; %s\n", a.paint(w, part.colour, f.Kind+":"), readable(f.Claim), readable(f.Found))
		}
	}
}
