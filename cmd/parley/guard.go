package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/connect"
	"github.com/parley-agents/parley/internal/desk/guard"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/server"
)

func (a *app) guardCommand() *cobra.Command {
	return group("guard", "Ask the hub before edits and commits (for hooks)", a.guardCommitCommand(), a.guardHookCommand())
}

func (a *app) filesGuardCommand() *cobra.Command {
	cmd := noun("guard", "Keep agents in one folder out of each other's files", a.guardStatusCommand(), a.guardInstallCommand(), a.guardRemoveCommand())
	cmd.Long = `Keep agents in one folder out of each other's files. The guard asks the hub before an
agent edits a file, runs a command or commits. Agent CLIs that "parley launch" starts, or
that "parley connect --wake" connects, ask before edits and commands; the pre-commit hook
of a repository asks before commits. The guard keeps honest agents apart: an agent that
wants to can get around it. People are never refused.`
	return cmd
}

// guardProgram returns the command line with which hooks of git call parley.
func (a *app) guardProgram() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program := []string{self}
	if a.home == "" && os.Getenv("PARLEY_HOME") == "" {
		return program, nil
	}
	home, err := a.homeDir()
	return append(program, "--home", home), err
}

// gitHook returns the pre-commit hook of the repository that an argument names, by default the
// one of the working folder.
func (a *app) gitHook(ctx context.Context, args []string) (guard.GitHook, error) {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return guard.GitHook{}, invalid(err)
	}
	program, err := a.guardProgram()
	if err != nil {
		return guard.GitHook{}, err
	}
	return guard.FindHook(ctx, dir, program)
}

// A guardChange is the answer of guard install and guard remove with --json.
type guardChange struct {
	guard.GitHook
	Changed bool `json:"changed"`
}

func (a *app) guardInstallCommand() *cobra.Command {
	return &cobra.Command{
		Use: "on [REPO]", Short: "Check the commits of agents in a repository",
		Long: `Check the commits of agents in a repository: staged files that another agent is changing
are refused. The command adds one marked block to the pre-commit hook that git runs, or
makes that hook; every other byte of it stays. A hook that is not a shell script is not
changed. "parley files guard off" takes the block out.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHook(cmd.Context(), args, true, guard.GitHook.Install)
		},
	}
}

func (a *app) guardRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "off [REPO]", Short: "Stop checking the commits of agents in a repository",
		Long: `Stop checking the commits of agents in a repository: the block that "parley files guard on"
added to the pre-commit hook is removed. Every other byte of the hook stays.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeHook(cmd.Context(), args, false, guard.GitHook.Remove)
		},
	}
}

// changeHook changes the pre-commit hook of a repository, and prints and records the change.
func (a *app) changeHook(ctx context.Context, args []string, on bool, change func(guard.GitHook) (bool, error)) error {
	found, err := a.gitHook(ctx, args)
	if err != nil {
		return err
	}
	home, err := a.homeDir()
	if err != nil {
		return err
	}
	changed, err := change(found)
	if err != nil {
		return err
	}
	if err := guard.Note(home, found, on); err != nil {
		a.note(fmt.Sprintf("the home does not record it: %v", err))
	}

	now, err := a.gitHook(ctx, args)
	if err != nil {
		return err
	}
	return a.print(guardChange{now, changed}, func(w io.Writer) { a.writeHookChange(w, now, changed, on) })
}

// writeHookChange prints a change of a hook.
func (a *app) writeHookChange(w io.Writer, h guard.GitHook, changed, on bool) {
	switch {
	case on && changed:
		fmt.Fprintf(w, "%s now checks the commits of agents\n", h.File)
	case on:
		fmt.Fprintf(w, "%s checks the commits of agents already\n", h.File)
	case changed:
		fmt.Fprintf(w, "%s no longer checks the commits of agents\n", h.File)
	default:
		fmt.Fprintf(w, "%s does not check the commits of agents\n", h.File)
	}
	if on && h.Shared {
		a.note("git uses this folder for other repositories, too")
	}
	if on && h.Tracked {
		a.note("the hook is under version control: do not commit the block, it names a program of this machine")
	}
}

// A guardState is the answer of guard status with --json.
type guardState struct {
	Hook guard.GitHook `json:"hook"`
	CLIs []guardedCLI  `json:"clis"`
}

// A guardedCLI is an agent CLI that asks before edits.
type guardedCLI struct {
	CLI   string `json:"cli"`
	State string `json:"state"`
}

func (a *app) guardStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status [REPO]", Short: "Show where the guard is active",
		Long: `Show whether the pre-commit hook of a repository checks the commits of agents, and which
agent CLIs of this home ask before edits and commands.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := a.gitHook(cmd.Context(), args)
			if err != nil {
				return err
			}
			home, err := a.homeDir()
			if err != nil {
				return err
			}
			state := guardState{Hook: found, CLIs: guardedCLIs(home)}
			return a.print(state, func(w io.Writer) { writeGuardState(w, state) })
		},
	}
}

// guardedCLIs returns the CLIs that were launched, or are connected with hooks, in a home.
func guardedCLIs(home string) []guardedCLI {
	names := launch.CLIs(home)
	for _, r := range connect.Records(home) {
		if r.Wake {
			names = append(names, r.CLI)
		}
	}
	slices.Sort(names)

	out := []guardedCLI{}
	for _, name := range slices.Compact(names) {
		known, err := cli.Lookup(name)
		if err != nil || !known.Guards() {
			continue
		}
		state := "asks before edits and commands"
		if known.Trust != "" {
			state += "; " + known.Trust
		}
		out = append(out, guardedCLI{CLI: name, State: state})
	}
	return out
}

// writeGuardState prints where the guard is active.
func writeGuardState(w io.Writer, s guardState) {
	switch s.Hook.State {
	case guard.HookInstalled:
		fmt.Fprintf(w, "commits: %s checks the commits of agents\n", s.Hook.File)
	case guard.HookOutdated:
		fmt.Fprintf(w, "commits: %s calls another program; run \"parley files guard on\" again\n", s.Hook.File)
	case guard.HookBlocked:
		fmt.Fprintf(w, "commits: not checked: %s\n", s.Hook.Problem)
	default:
		fmt.Fprintf(w, "commits: not checked; run \"parley files guard on %s\"\n", s.Hook.Tree)
	}
	for _, c := range s.CLIs {
		fmt.Fprintf(w, "%s: %s\n", c.CLI, c.State)
	}
	if len(s.CLIs) == 0 {
		fmt.Fprintln(w, "no agent CLI was launched, or is connected with --wake")
	}
}

func (a *app) guardCheckCommand() *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use: "check [--agent AGENT] FILE...", Short: "Check whether other agents are changing files",
		Long: `Check whether other agents are changing files, and print their holders. The exit code is 1
if there is one. The command reserves nothing. It is for programs that have no hooks.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if agent != "" && !hub.AgentID(agent).Valid() {
				return hub.Errorf(hub.CodeInvalid, "parley", "--agent: %q is not a valid agent name", agent)
			}
			return a.guardCheck(cmd.Context(), hub.AgentID(agent), args)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "agent that is about to change the files; its own files are free")
	return cmd
}

// guardCheck prints the holders of files.
func (a *app) guardCheck(ctx context.Context, agent hub.AgentID, files []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	var trees []string
	for _, file := range files {
		trees = append(trees, guard.Tree(dir, file))
	}
	slices.Sort(trees)

	held := []guard.Held{}
	for _, tree := range slices.Compact(trees) {
		list, err := call(ctx, a, api.ListFiles, reservation.Filter{Tree: tree, State: hub.ReservationHeld})
		if err != nil {
			return err
		}
		held = append(held, guard.HeldBy(dir, files, list.Reservations, agent)...)
	}
	return a.check(len(held) == 0, map[string]any{"held": held}, func(w io.Writer) {
		for _, h := range held {
			fmt.Fprintf(w, "%s is changing %s\n", h.Holder, h.Path)
		}
	})
}

func (a *app) guardCommitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "commit", Short: "Check a commit (for git's pre-commit hook)",
		Long: `Check the commit that git is about to make. For an agent that was launched, or that the
hub runs, the exit code is 1 if another agent is changing a staged file. A person reads
one line and is never refused. Files that a merge carries from its parents are not
checked. If the hub does not answer within two seconds, the commit goes on, unless the
operator wants it to wait.`,
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, cancel := context.WithTimeout(cmd.Context(), guard.Patience)
			defer cancel()
			defer func() {
				if recover() != nil {
					err = nil // an error of the guard must not refuse a commit
				}
			}()
			return a.guardCommit(ctx)
		},
	}
}

// guardCommit returns errCheck if an agent commits files of another.
func (a *app) guardCommit(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	commit, err := guard.ReadCommit(ctx, dir)
	if err != nil || len(commit.Files) == 0 {
		return nil
	}

	// A launch has a key of its agent; a run is known by its id; everything else is a person.
	switch run := hub.RunID(os.Getenv(fleet.RunVariable)); {
	case os.Getenv(launch.Variable) != "":
		return a.refuseCommit(commit.Judge(ctx, a.askFiles, a.closed))
	case run != "":
		held, err := a.heldInCommit(ctx, commit, run)
		if err != nil || len(held) == 0 {
			return nil
		}
		return a.refuseCommit(guard.Verdict{Denied: true, Text: guard.Refusal(held)})
	}
	if held, err := a.heldInCommit(ctx, commit, ""); err == nil && len(held) > 0 {
		a.note(guard.Hint(held))
	}
	return nil
}

// refuseCommit prints the reason of a denial and returns errCheck for it.
func (a *app) refuseCommit(v guard.Verdict) error {
	if !v.Denied {
		return nil
	}
	fmt.Fprintf(a.err, "%s %s\n", a.paint(a.err, "31", "parley:"), v.Text)
	return errCheck
}

// askFiles asks the hub about files as the caller.
func (a *app) askFiles(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
	return call(ctx, a, api.AskFiles, q)
}

// closed reports whether the operator wants edits in a folder to be denied while the hub does
// not answer. Without a configuration that can be read, edits go on.
func (a *app) closed(dir string) bool {
	rules, err := a.reservationsIn(dir)
	return err == nil && rules.Unreachable == server.UnreachableDeny
}

// reservationsIn returns the rules of the configuration for the files of a folder. A linked
// working tree follows the rules of its repository, unless a path of the configuration is above it.
func (a *app) reservationsIn(dir string) (server.Reservations, error) {
	home, err := a.homeDir()
	if err != nil {
		return server.Reservations{}, err
	}
	config, err := a.loadConfig(home)
	if err != nil {
		return server.Reservations{}, err
	}
	settings, err := config.settings("reservations.unreachable", "reservations.guard", "repositories")
	if err != nil {
		return server.Reservations{}, err
	}

	folder := guard.MainTree(dir)
	for i, r := range settings.Repositories {
		if real, err := filepath.EvalSymlinks(r.Path); err == nil {
			settings.Repositories[i].Path = real
		}
		if rel, err := filepath.Rel(settings.Repositories[i].Path, dir); err == nil && filepath.IsLocal(rel) {
			folder = dir
		}
	}
	return settings.ReservationsIn(folder), nil
}

// heldInCommit returns the files of a commit that agents hold, without those of the agent of a
// run. It reads as the operator, whose key is in the home: neither a person at git nor a run has
// a key of its own.
func (a *app) heldInCommit(ctx context.Context, c guard.Commit, run hub.RunID) ([]guard.Held, error) {
	operator := *a
	operator.asOperator = true
	operator.keyFile = ""
	client, err := operator.client()
	if err != nil {
		return nil, err
	}
	list, err := rpc.Call(ctx, client, api.ListFiles, reservation.Filter{Tree: c.Dir, State: hub.ReservationHeld})
	if err != nil {
		return nil, err
	}
	if run == "" {
		return guard.HeldBy(c.Dir, c.Files, list.Reservations, ""), nil
	}
	shown, err := rpc.Call(ctx, client, api.ShowRun, api.RunIDParams{ID: run})
	if err != nil {
		return nil, err
	}
	return guard.HeldBy(c.Dir, c.Files, list.Reservations, shown.Run.Agent), nil
}

func (a *app) guardHookCommand() *cobra.Command {
	return &cobra.Command{
		Use: "hook CLI", Short: "Ask before and after a tool call (for hooks)",
		Long: `Ask the hub before and after a tool call of an agent CLI that reads or changes files, or
runs a command. The CLI passes the hook's input on standard input; the output is what that
CLI wants: a denial with a reason for the model, notes after a call, or nothing. If the
hub does not answer, the call goes on, unless the operator wants it to wait. The command
answers within two seconds and its exit code is always 0.`,
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), hookTime)
			defer cancel()
			defer func() { recover() }() // a panic would end with exit code 2, by which a CLI refuses
			if len(args) == 1 && !a.displaced() {
				a.guardHook(ctx, args[0])
			}
			return nil
		},
	}
}

// guardHook answers a hook about a tool call. It fails without a word.
func (a *app) guardHook(ctx context.Context, name string) {
	known, err := cli.Lookup(name)
	if err != nil {
		return
	}
	raw, err := launch.ReadBytes(ctx, a.in)
	if err != nil {
		return
	}
	h, ok := known.HookOf(raw)
	if !ok {
		return
	}
	w := launch.Waiter{CLI: known}
	a.attach(&w)
	a.out.Write(w.Guard(ctx, h, raw)) // a CLI that does not read it loses nothing
}
