package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/check"
)

func (a *app) checkCommand() *cobra.Command {
	cmd := noun("check", "Allow commands that judge commits, and run them", a.checkListCommand(),
		a.checkAddCommand(), a.checkShowCommand(), a.checkRemoveCommand(), a.checkTrustCommand(), a.checkRequireCommand(), a.checkRunCommand(), a.checkResultsCommand())
	cmd.Long = `A check is a command that you allow for one repository, such as its tests. The hub runs it
on a commit, in a clean copy of the repository, confined and with limits. Completions of
handoffs can ask for checks. Nothing that an agent writes becomes a command: a repository
can propose checks in its parley.yaml, and they are used when you trust them.`
	cmd.Example = `  parley check
  parley check add test --repo . --required -- go test ./...
  parley check run test
  parley check trust`
	return cmd
}

// repoFlag adds the flag that names a folder of a repository.
func repoFlag(cmd *cobra.Command, into *string, standard string) preparation {
	value := cmd.Flags().String("repo", standard, "folder in the repository")
	return func(context.Context, []string) (err error) {
		if *value != "" {
			*into, err = realPath(*value)
		}
		return err
	}
}

func (a *app) checkAddCommand() *cobra.Command {
	var p api.AddCheckParams
	var timeout time.Duration
	var env []string
	var setup string
	var offline bool
	cmd := &cobra.Command{
		Use:   "add NAME -- COMMAND...",
		Short: "Allow a command for a repository",
		Long: `Allow a command for a repository (operator). The command is everything after "--"; write
"sh -c LINE" for a line of a shell. It runs in a clean copy of a commit: uncommitted work is
not there. A required check runs for every completion in the repository; --when restricts
that to changes of some paths.`,
		Example: `  parley check add test --required -- go test ./...
  parley check add web --when web --setup "npm ci" --setup-key package-lock.json --keep node_modules -- npm test`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case at == 1 && len(args) > 1:
				return nil
			case at < 0 && len(args) > 1:
				return usagef("write -- before the command").WithHint("parley check add %s -- %s", args[0], shellLine(args[1:]))
			}
			return usagef("a name and a command are required").WithHint("parley check add NAME -- COMMAND...")
		},
	}
	f := cmd.Flags()
	f.DurationVar(&timeout, "timeout", check.DefaultTimeout, "time after which the command is ended")
	f.BoolVar(&p.Required, "required", false, "run it for every completion in the repository")
	f.StringArrayVar(&p.When, "when", nil, "path or pathspec of git: required only for changes of such files (repeatable)")
	f.StringVar(&setup, "setup", "", "line of a shell that runs before the command; its result is cached")
	f.StringArrayVar(&p.SetupKey, "setup-key", nil, "file on which the result of the setup depends (repeatable)")
	f.StringArrayVar(&p.Keep, "keep", nil, "folder, such as node_modules, that later runs get a copy of (repeatable)")
	f.StringArrayVar(&env, "env", nil, "variable of the environment, as NAME=VALUE (repeatable)")
	f.StringArrayVar(&p.Writable, "writable", nil, "folder outside of the worktree that the command may write to (repeatable)")
	f.BoolVar(&offline, "no-network", false, "without the network, where the system can do it")
	f.StringVar(&p.JUnit, "junit", "", "file in the worktree to which the command writes results of tests as JUnit XML")
	f.BoolVar(&p.InPlace, "in-place", false, "run it in the agent's own working tree; such a result never counts for landing")
	f.BoolVar(&p.Unconfined, "unconfined", false, "also run it where the system cannot keep it from your files")
	return operation(a, cmd, api.AddCheck, &p, func(w io.Writer, got api.CheckAnswer) {
		fmt.Fprintf(w, "added the check %s of %s: %s\n", got.Check.Name, got.Check.Path, plaintext.Line(got.Check.CommandText()))
	}, repoFlag(cmd, &p.Repository, "."), func(_ context.Context, args []string) (err error) {
		for i, folder := range p.Writable {
			if p.Writable[i], err = realPath(folder); err != nil {
				return err
			}
		}
		p.Name = args[0]
		p.Command = args[1:]
		p.Timeout = timeout.String()
		if setup != "" {
			p.Setup = []string{"sh", "-c", setup}
		}
		if offline {
			network := false
			p.Network = &network
		}
		for _, v := range env {
			name, value, ok := strings.Cut(v, "=")
			if !ok {
				return usagef("--env must be NAME=VALUE, got %q", v)
			}
			if p.Env == nil {
				p.Env = map[string]string{}
			}
			p.Env[name] = value
		}
		return nil
	})
}

// shellLine returns words as one line of a shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shell.Word(w)
	}
	return strings.Join(quoted, " ")
}

func (a *app) checkListCommand() *cobra.Command {
	var p api.RepositoryParams
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the checks of a repository",
		Long: `List the checks of a repository, and those in its parley.yaml that are not trusted: they are
not used.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&all, "all", false, "the checks of all repositories")
	return operation(a, cmd, api.ListChecks, &p, writeChecks, repoFlag(cmd, &p.Repository, "."), func(context.Context, []string) error {
		if all {
			p.Repository = ""
		}
		return nil
	})
}

// writeChecks writes checks as a table, and names those that are not trusted.
func writeChecks(w io.Writer, got check.Listing) {
	if len(got.Checks) == 0 {
		fmt.Fprintln(w, "no checks")
	} else {
		repositories := map[string]bool{}
		for _, c := range got.Checks {
			repositories[c.Path] = true
		}
		for i, path := range slices.Sorted(maps.Keys(repositories)) {
			if len(repositories) > 1 && i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintln(w, path)
			of := slices.DeleteFunc(slices.Clone(got.Checks), func(c hub.RepositoryCheck) bool { return c.Path != path })
			writeTable(w, "NAME, REQUIRED, TIMEOUT, COMMAND", of, func(c hub.RepositoryCheck) []any {
				return []any{c.Name, requiredText(c), c.Timeout, plaintext.Line(c.CommandText())}
			})
		}
	}
	if got.Policy != nil && got.Policy.Require {
		fmt.Fprintln(w, "completions in this repository need passed checks")
	}
	if len(got.Tests) > 0 {
		fmt.Fprintf(w, "%s parley.yaml names tests of contracts that are not trusted: read and allow them with \"parley check trust\"\n", paint(w, "33", "warning:"))
	}
	if len(got.Untrusted) > 0 {
		fmt.Fprintf(w, "%s parley.yaml has checks that are not trusted and not used: %s; read and allow them with \"parley check trust\"\n",
			paint(w, "33", "warning:"), strings.Join(proposalNames(got.Untrusted), ", "))
	}
}

func requiredText(c hub.RepositoryCheck) string {
	switch {
	case !c.Required:
		return "no"
	case len(c.When) > 0:
		return "for " + plaintext.Line(strings.Join(c.When, ", "))
	}
	return "yes"
}

func proposalNames(all []check.Proposal) (names []string) {
	for _, p := range all {
		names = append(names, plaintext.Line(p.Name))
	}
	return names
}

func (a *app) checkShowCommand() *cobra.Command {
	var p api.CheckParams
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a check and its newest results",
		Args:  cobra.ExactArgs(1),
	}
	return operation(a, cmd, api.ShowCheck, &p, writeShownCheck, repoFlag(cmd, &p.Repository, "."), argument(0, &p.Name))
}

func writeShownCheck(w io.Writer, got check.Shown) {
	var f facts
	c := got.Check
	f.add("name", c.Name)
	f.add("repository", c.Path)
	f.add("command", plaintext.Line(c.CommandText()))
	if len(c.Setup) > 0 {
		f.add("setup", plaintext.Line(hub.CommandText(c.Setup)))
	}
	for _, list := range []struct {
		name  string
		paths []string
	}{{"setup key", c.SetupKey}, {"keeps", c.Keep}, {"may write to", c.Writable}, {"when", c.When}} {
		if len(list.paths) > 0 {
			f.add(list.name, plaintext.Line(strings.Join(list.paths, ", ")))
		}
	}
	f.add("required", requiredText(c))
	f.add("timeout", c.Timeout.String())
	f.add("digest", c.Digest)
	f.write(w)
	if len(got.Results) > 0 {
		fmt.Fprintln(w)
		writeResults(w, check.Page{Results: got.Results})
	}
}

func (a *app) checkRemoveCommand() *cobra.Command {
	var p api.CheckParams
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a check; its results stay",
		Args:  cobra.ExactArgs(1),
	}
	return operation(a, cmd, api.RemoveCheck, &p, func(w io.Writer, _ check.Listing) { fmt.Fprintf(w, "removed the check %s\n", p.Name) },
		repoFlag(cmd, &p.Repository, "."), argument(0, &p.Name))
}

func (a *app) checkTrustCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Allow the checks in a repository's parley.yaml",
		Long: `Allow the checks that a repository proposes in its parley.yaml (operator), as the commit that
is checked out has them. You see the commands and are asked. A file that changes later is
not used until you trust it again; the checks that you trusted stay in use. contract_tests
in the file, such as {User: contract-tests}, name tests of contracts, as parley contract
test does.`,
		Example: `  parley check trust
  parley check trust ~/src/shop --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trust(cmd.Context(), strings.Join(append(args, "")[:1], ""), yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// trust shows the checks that a repository proposes, asks, and allows them.
func (a *app) trust(ctx context.Context, folder string, yes bool) error {
	if folder == "" {
		folder = "."
	}
	folder, err := realPath(folder)
	if err != nil {
		return err
	}
	at := api.RepositoryParams{Repository: folder}
	seen, err := call(ctx, a, api.ListChecks, at)
	if err != nil {
		return err
	}
	hasNew := len(seen.Untrusted) > 0 || seen.Digest != ""
	isTrusted := seen.Policy != nil && seen.Policy.Trusted != ""
	if !hasNew && isTrusted {
		return a.print(seen, func(w io.Writer) { fmt.Fprintln(w, "the checks in parley.yaml are trusted already") })
	}
	proposes := len(seen.Untrusted)+len(seen.Tests) > 0
	if proposes && !a.json {
		fmt.Fprintf(a.err, "the commit %.12s of %s proposes:\n", seen.Commit, folder)
		writeProposals(a.err, seen.Untrusted)
		for _, name := range slices.Sorted(maps.Keys(seen.Tests)) {
			fmt.Fprintf(a.err, "  the test of contract %s: %s\n", plaintext.Line(name), plaintext.Line(seen.Tests[name]))
		}
	}
	if !yes && proposes {
		if !isTerminal(a.in) {
			return usagef("the commands need confirmation, and there is no terminal to ask on").WithHint("pass --yes to allow them")
		}
		if ok, err := a.askYes(ctx, "Allow the hub to run these commands on commits of this repository?"); err != nil || !ok {
			return err
		}
	}
	got, err := call(ctx, a, api.TrustChecks, api.TrustParams{RepositoryParams: at, Digest: seen.Digest})
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { writeChecks(w, got) })
}

// writeProposals writes everything that proposed checks may do.
func writeProposals(w io.Writer, all []check.Proposal) {
	for _, p := range all {
		c := p.Check
		fmt.Fprintf(w, "  %s: %s\n", plaintext.Line(p.Name), plaintext.Line(c.CommandText()))
		if len(c.Setup) > 0 {
			fmt.Fprintf(w, "    before it: %s\n", plaintext.Line(hub.CommandText(c.Setup)))
		}
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			fmt.Fprintf(w, "    with %s=%s\n", plaintext.Line(name), plaintext.Line(c.Env[name]))
		}
		for _, folder := range c.Writable {
			fmt.Fprintf(w, "    may write to %s\n", plaintext.Line(folder))
		}
		if c.InPlace {
			fmt.Fprintln(w, "    runs in the agent's own working tree")
		}
		if c.Required {
			fmt.Fprintf(w, "    required: %s\n", requiredText(c))
		}
	}
}

func (a *app) checkRequireCommand() *cobra.Command {
	p := api.RequireParams{Require: true}
	var off bool
	cmd := &cobra.Command{
		Use:   "require [DIR]",
		Short: "Require passed checks for every completion in a repository",
		Long: `Refuse completions of handoffs in a repository whose checks did not pass, and those without
any check (operator). "parley serve --require-checks" does so for all repositories.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&off, "off", false, "accept completions without checks again")
	return operation(a, cmd, api.RequireChecks, &p, writeChecks, func(_ context.Context, args []string) (err error) {
		p.Require = !off
		p.Repository, err = realPath(strings.Join(append(args, ".")[:1], ""))
		return err
	})
}

func (a *app) checkRunCommand() *cobra.Command {
	var p api.RunCheckParams
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a check on a commit",
		Long: `Run an allowed check on a commit and print its result. A result that is kept for the same
files and the same check is used; --again runs the check anew. With --contract the variable
PARLEY_CONTRACT names a file with the content of that version. The exit code is 0 if the
check passed, else 1.`,
		Example: `  parley check run test
  parley check run test --commit feature/login --again
  parley check run contract-tests --contract User@2`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Commit, "commit", "", "commit, branch or tag (default: the commit that is checked out)")
	cmd.Flags().BoolVar(&p.Again, "again", false, "run it though there is a kept result")
	cmd.Flags().StringVar(&p.Contract, "contract", "", "version of a contract to test, such as User@2 (default: the one in the lock file of the commit, else the one in force)")
	return prepared(cmd, func(ctx context.Context) error { return a.runCheck(ctx, p) }, repoFlag(cmd, &p.Repository, "."), argument(0, &p.Name))
}

// runCheck runs a check and writes its output as it comes.
func (a *app) runCheck(ctx context.Context, p api.RunCheckParams) error {
	none, second := 0, 1
	p.Wait = &none
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := rpc.Call(ctx, c, api.RunCheck, p)
	if err != nil {
		return err
	}

	shown := ""
	for !got.Result.State.Over() {
		if !a.json {
			shown = writeNewOutput(a.err, shown, got.Result.Output.Tail)
		}
		if got, err = rpc.Call(ctx, c, api.ShowResult, api.ResultParams{ID: got.Result.ID, Wait: &second}); err != nil {
			return err
		}
	}
	if !a.json {
		writeNewOutput(a.err, shown, got.Result.Output.Tail)
	}
	return a.check(got.Result.State == hub.ResultPassed, got, func(w io.Writer) { writeResult(w, got.Result) })
}

// writeNewOutput writes the part of an output's end that was not shown yet, and returns that end.
func writeNewOutput(w io.Writer, shown, tail string) string {
	rest, ok := strings.CutPrefix(tail, shown)
	if !ok { // more came than the hub keeps
		rest = tail
	}
	io.WriteString(w, plaintext.Text(rest))
	return tail
}

// writeResult writes the result of a run in one line.
func writeResult(w io.Writer, r hub.CheckResult) {
	notes := append([]string{string(r.ID)}, resultNotes(r)...)
	fmt.Fprintf(w, "%s %s on %.12s (%s)\n", r.Name, paintState(w, r), r.Commit, strings.Join(notes, "; "))
}

// paintState colors the state of a result.
func paintState(w io.Writer, r hub.CheckResult) string {
	color := "31"
	if r.State == hub.ResultPassed {
		color = "32"
	}
	return paint(w, color, strings.ReplaceAll(string(r.State), "_", " "))
}

// resultNotes returns what else there is to know about a result.
func resultNotes(r hub.CheckResult) (notes []string) {
	if r.State == hub.ResultFailed {
		notes = append(notes, fmt.Sprintf("exit code %d", r.ExitCode))
	}
	if r.State.Over() {
		notes = append(notes, (time.Duration(r.Millis) * time.Millisecond).Round(10*time.Millisecond).String())
	}
	if r.Tests != nil {
		notes = append(notes, fmt.Sprintf("%s, %d failed, %d skipped", counted(r.Tests.Total, "test"), r.Tests.Failed, r.Tests.Skipped))
	}
	for _, n := range []struct {
		holds bool
		text  string
	}{
		{r.Note != "", r.Note},
		{r.Kept, "kept from an earlier run"},
		{r.Flaky, "flaky: it failed and passed on these files"},
		{r.Confinement() != "", r.Confinement()},
		{r.InPlace, "in place"},
		{r.Reason != "", r.Reason},
	} {
		if n.holds {
			notes = append(notes, plaintext.Line(n.text))
		}
	}
	return notes
}

func (a *app) checkResultsCommand() *cobra.Command {
	var p api.ResultsParams
	cmd := &cobra.Command{
		Use:   "results [ID]",
		Short: "List the results of checks, or show one with its output",
		Args:  cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&p.Name, "name", "", "only of this check")
	f.StringVar((*string)(&p.Handoff), "handoff", "", "only for the completion of this handoff")
	f.StringVar((*string)(&p.State), "state", "", "only in this state, such as failed")
	f.StringVar((*string)(&p.Cursor), "cursor", "", "continue after a page of the list")
	f.Var(&p.Limit, "limit", "number of results")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return answer(cmd.Context(), a, api.ListResults, p, writeResults)
		}
		return answer(cmd.Context(), a, api.ShowResult, api.ResultParams{ID: hub.CheckResultID(args[0])}, func(w io.Writer, got api.ResultAnswer) {
			io.WriteString(w, plaintext.Text(got.Result.Output.Tail))
			writeResult(w, got.Result)
		})
	}
	return cmd
}

// writeResults writes results as a table.
func writeResults(w io.Writer, got check.Page) {
	if len(got.Results) == 0 {
		fmt.Fprintln(w, "no results")
		return
	}
	writeTable(w, "ID, CHECK, COMMIT, STATE, AT, NOTE", got.Results, func(r hub.CheckResult) []any {
		return []any{r.ID, r.Name, r.Commit[:min(len(r.Commit), 12)], strings.ReplaceAll(string(r.State), "_", " "), r.QueuedAt, strings.Join(resultNotes(r), "; ")}
	})
	if got.Next != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", got.Next)
	}
}
