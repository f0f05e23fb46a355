package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/desk/initrepo"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/check"
)

// An initialization is one call of init.
type initialization struct {
	yes, print, undo bool

	wishes initrepo.Wishes
	repo   initrepo.Repository
	home   string
	hook   repositoryHook
}

func (a *app) initCommand() *cobra.Command {
	var i initialization
	var check string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Set up the repository you are in",
		Long: `Set up the git repository you are in, so that agents can work in it and only good work
lands. The command shows a plan and asks once: the hub starts, the repository's folder is
allowed, its test command becomes a required check, changes land in its branch when the
check passes and you approve, and commits of agents are checked.

The test command is the one that parley.yaml proposes, else "make test", .ci/run, or the
usual one of the language. It runs once on the newest commit; landing is switched on only
if it passes. Nothing is written into the repository but the block in git's pre-commit
hook. A second run changes nothing, and --undo takes back what init added.`,
		Example: `  parley init
  parley init --print
  parley init --check "npm run test:ci" --into main --yes --as-operator`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check != "" {
				i.wishes.Checks = []initrepo.Check{initrepo.Line(check)}
			}
			return a.initialize(cmd.Context(), &i)
		},
	}

	f := cmd.Flags()
	f.BoolVar(&i.yes, "yes", false, "do not ask for confirmation")
	f.BoolVar(&i.print, "print", false, "print the plan, and change nothing")
	f.BoolVar(&i.undo, "undo", false, "take back what init added")
	f.StringVar(&check, "check", "", "line of a shell that tests the repository (default: what is found)")
	f.BoolVar(&i.wishes.NoChecks, "no-check", false, "without a check, and so without landing")
	f.StringVar(&i.wishes.Into, "into", "", "branch that changes land in (default: the one that is checked out)")
	f.BoolVar(&i.wishes.NoLanding, "no-landing", false, "without a landing queue")
	f.BoolVar(&i.wishes.NoGuard, "no-guard", false, "without the check of agents' commits")
	cmd.MarkFlagsMutuallyExclusive("check", "no-check")
	cmd.MarkFlagsMutuallyExclusive("into", "no-landing")
	cmd.MarkFlagsMutuallyExclusive("yes", "print")
	return cmd
}

// A repositoryHook is the pre-commit hook of a repository, whose changes the home records.
type repositoryHook struct {
	guard.GitHook
	home string
}

func (h repositoryHook) State() (installed bool, problem string) {
	return h.GitHook.State == guard.HookInstalled, h.Problem
}

func (h repositoryHook) Install() (bool, error) { return h.change(guard.GitHook.Install, true) }

func (h repositoryHook) Remove() (bool, error) { return h.change(guard.GitHook.Remove, false) }

func (h repositoryHook) change(do func(guard.GitHook) (bool, error), on bool) (bool, error) {
	changed, err := do(h.GitHook)
	if err != nil {
		return false, err
	}
	return changed, guard.Note(h.home, h.GitHook, on)
}

// initialize plans the set-up of the repository around the working folder, asks, and carries it out.
func (a *app) initialize(ctx context.Context, i *initialization) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if i.repo, err = initrepo.Find(ctx, dir); err != nil {
		return err
	}
	if i.home, err = a.homeDir(); err != nil {
		return err
	}
	found, err := a.gitHook(ctx, []string{i.repo.Path})
	if err != nil {
		return err
	}
	i.hook = repositoryHook{found, i.home}

	// A hub that does not run is planned; its home is read only after the person agreed.
	c, err := a.clientForPlan(ctx, i.home)
	if err != nil {
		return err
	}
	if i.undo {
		return a.undoInit(ctx, i, c)
	}
	plan, err := a.planInit(ctx, i, c)
	if err != nil {
		return err
	}
	if i.print || plan.IsIdle() {
		return a.print(plan, func(w io.Writer) { writeInit(w, plan); a.writeInitEnd(w, plan) })
	}

	// Only a person, or a script that says so, sets a repository up.
	if !a.mayInit(i.yes) {
		line := fmt.Sprintf("parley init --yes --as-operator   (in %s)", i.repo.Path)
		return a.check(false, plan, func(w io.Writer) {
			writeInit(w, plan)
			fmt.Fprintf(w, "nothing was changed; the operator sets it up with:\n  %s\n", line)
		})
	}
	if !a.json {
		writeInit(a.err, plan)
	}
	for !i.yes {
		switch word, err := a.askInit(ctx, "Set it up? [Y/n/e] "); {
		case err != nil:
			return err
		case word == "n" || word == "no":
			return nil
		case word == "e" || word == "edit":
			if err := a.editInit(ctx, i, plan); err != nil {
				return err
			}
			if plan, err = a.planInit(ctx, i, c); err != nil {
				return err
			}
			writeInit(a.err, plan)
		case word == "" || word == "y" || word == "yes":
			i.yes = true
		}
	}
	return a.applyInit(ctx, i, c, plan)
}

// mayInit reports whether the caller may set up a repository: the operator at a terminal, or a
// script that passes both --yes and --as-operator. A caller with the key of an agent may not.
func (a *app) mayInit(yes bool) bool {
	if a.asOperator {
		return yes || isTerminal(a.in)
	}
	hasKey := cmp.Or(a.keyFile, os.Getenv("PARLEY_KEY"), os.Getenv(launch.Variable)) != ""
	return isTerminal(a.in) && !hasKey
}

// clientForPlan returns a client of the hub in a home, or nil if none runs there.
func (a *app) clientForPlan(ctx context.Context, home string) (*rpc.Client, error) {
	link, err := a.runningHub(ctx, home)
	if err != nil || link == nil {
		return nil, err
	}
	return link.Client, nil
}

// planInit plans with the hub of a client, or without a hub.
func (a *app) planInit(ctx context.Context, i *initialization, c *rpc.Client) (initrepo.Plan, error) {
	plan, err := initrepo.Prepare(ctx, c, i.repo, i.wishes, i.hook)
	if err != nil {
		return plan, err
	}
	if c == nil {
		plan.Hub = i.home
	}
	user, err := os.UserHomeDir()
	if err != nil {
		user = ""
	}
	for _, one := range cli.Agents() {
		if _, err := one.Find(user); err == nil {
			plan.Agents = append(plan.Agents, one.Name)
		}
	}
	return plan, nil
}

// applyInit carries out a plan that was agreed.
func (a *app) applyInit(ctx context.Context, i *initialization, c *rpc.Client, plan initrepo.Plan) error {
	if c == nil {
		settings, err := a.loadConfig(i.home)
		if err != nil {
			return err
		}
		link, err := a.hubForRun(ctx, i.home, settings)
		if err != nil {
			return err
		}

		// A home with a hub of before may know the repository.
		c = link.Client
		agents := plan.Agents
		if plan, err = initrepo.Prepare(ctx, c, i.repo, i.wishes, i.hook); err != nil {
			return err
		}
		plan.Hub = i.home
		plan.Agents = agents
	}
	err := plan.Apply(ctx, c, i.home, func(line string) {
		if !a.json {
			fmt.Fprintln(a.err, line)
		}
	})
	if err != nil {
		return err
	}
	return a.print(plan, func(w io.Writer) { a.writeInitEnd(w, plan) })
}

// askInit asks a question and returns the answer in lower case. The end of input is a no.
func (a *app) askInit(ctx context.Context, question string) (string, error) {
	line, err := a.askLine(ctx, question)
	return strings.ToLower(line), err
}

// askLine asks a question and returns the answer. The end of input without an answer is an error.
func (a *app) askLine(ctx context.Context, question string) (string, error) {
	fmt.Fprint(a.err, question)
	line, err := await(ctx, func() (string, error) { return bufio.NewReader(a.in).ReadString('\n') })
	if err != nil && (err != io.EOF || line == "") {
		fmt.Fprintln(a.err)
		return "", invalid(fmt.Errorf("no answer: %w", err))
	}
	return strings.TrimSpace(line), nil
}

// editInit asks for each line of a plan that can be changed.
func (a *app) editInit(ctx context.Context, i *initialization, plan initrepo.Plan) error {
	fmt.Fprintln(a.err, "Enter keeps a line, - leaves it out.")
	now := "none"
	if len(plan.Checks) > 0 {
		now = "as above"
	}
	switch line, err := a.askLine(ctx, fmt.Sprintf("check [%s]: ", now)); {
	case err != nil:
		return err
	case line == "-":
		i.wishes.NoChecks = true
	case line != "":
		i.wishes.NoChecks = false
		i.wishes.Checks = []initrepo.Check{initrepo.Line(line)}
	}
	switch line, err := a.askLine(ctx, fmt.Sprintf("landing, into the branch [%s]: ", cmp.Or(i.wishes.Into, i.repo.Branch))); {
	case err != nil:
		return err
	case line == "-":
		i.wishes.NoLanding = true
	case line != "":
		i.wishes.NoLanding = false
		i.wishes.Into = line
	}
	line, err := a.askLine(ctx, "guard of agents' commits [on]: ")
	i.wishes.NoGuard = line == "-"
	return err
}

// undoInit takes back what init added.
func (a *app) undoInit(ctx context.Context, i *initialization, c *rpc.Client) error {
	if c == nil {
		return hub.Errorf(hub.CodeDegraded, "parley", "%w: no hub is running in %s", rpc.ErrUnreachable, i.home).WithHint(rpc.StartHint)
	}
	if !a.mayInit(i.yes) {
		return hub.Errorf(hub.CodeDenied, "parley", "only the operator takes a set-up back").WithHint("parley init --undo --yes --as-operator")
	}
	if !i.yes {
		ok, err := a.askYes(ctx, fmt.Sprintf("Take back what init added for %s?", i.repo.Path))
		if err != nil || !ok {
			return err
		}
	}
	done, err := initrepo.Undo(ctx, c, i.home, i.repo, i.hook)
	if err != nil {
		return err
	}
	return a.print(done, func(w io.Writer) {
		for _, one := range done.Removed {
			fmt.Fprintf(w, "removed: %s\n", plaintext.Line(one))
		}
		fmt.Fprintf(w, "%s is as it was before parley init\n", plaintext.Line(i.repo.Name))
	})
}

// writeInit writes a plan, one line for each part.
func writeInit(w io.Writer, p initrepo.Plan) {
	title := fmt.Sprintf("%s, %s", p.Repository.Name, p.Repository.Path)
	if p.Repository.Branch != "" {
		title += ", branch " + p.Repository.Branch
	}
	fmt.Fprintln(w, plaintext.Line(title))
	line := func(name, text string) { fmt.Fprintf(w, "  %-9s %s\n", name, plaintext.Line(text)) }
	if p.Hub != "" {
		line("hub", "starts now, and with your agents; data in "+p.Hub)
	} else {
		line("hub", "runs")
	}
	step := func(name string, s initrepo.Step) {
		text := s.Text
		switch s.State {
		case initrepo.There:
			text += "   (as it was)"
		case initrepo.Off:
			text = "off: " + text
		}
		line(name, text)
	}
	step("folder", p.Folder)
	for _, s := range p.Checks {
		s.Text = s.Name + ": " + s.Text
		step("check", s)
	}
	if len(p.Checks) == 0 {
		line("check", "none")
	}
	writeProposed(w, p)
	step("landing", p.Landing)
	step("guard", p.Guard)
	switch n := len(p.Agents); n {
	case 0:
		line("agents", "no agent CLI is installed")
	case 1:
		line("agents", p.Agents[0]+" is installed")
	default:
		line("agents", strings.Join(p.Agents[:n-1], ", ")+" and "+p.Agents[n-1]+" are installed")
	}
}

// writeProposed writes everything that parley.yaml proposes, because the yes to the plan allows it.
func writeProposed(w io.Writer, p initrepo.Plan) {
	if len(p.Proposed) == 0 {
		return
	}
	fmt.Fprintln(w, "  parley.yaml proposes, and your yes allows:")
	all := make([]check.Proposal, len(p.Proposed))
	for i, c := range p.Proposed {
		all[i] = check.Proposal{Name: c.Name, Command: c.Command, Check: c}
	}
	writeProposals(w, all)
	for _, name := range slices.Sorted(maps.Keys(p.Tests)) {
		fmt.Fprintf(w, "  the test of contract %s: %s\n", plaintext.Line(name), plaintext.Line(p.Tests[name]))
	}
}

// writeInitEnd says what is done and what to type next.
func (a *app) writeInitEnd(w io.Writer, p initrepo.Plan) {
	if p.Landing.State == initrepo.Off {
		fmt.Fprintf(w, "landing is off: %s\n", plaintext.Line(p.Landing.Text))
	}
	if p.IsDone() {
		next := "claude"
		if len(p.Agents) > 0 {
			next = p.Agents[0]
		}
		fmt.Fprintf(w, "Done. Next: parley %s\n", next)
	}
}

// hintInit mentions init in a repository that it did not set up, once a day.
func (a *app) hintInit(ctx context.Context, home, dir string) {
	r, err := initrepo.Find(ctx, dir)
	if err != nil || !isTerminal(a.in) {
		return
	}
	if initrepo.TakeHint(home, r, time.Now().Format(time.DateOnly)) {
		a.note(`"parley init" sets up the check, landing and guard of this repository`)
	}
}
