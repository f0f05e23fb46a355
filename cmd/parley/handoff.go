package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/git"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/handoff"
)

func (a *app) handoffCommand() *cobra.Command {
	cmd := noun("handoff", "Hand over tasks, with proof", a.handoffListCommand(),
		a.handoffNewCommand(),
		a.handoffMove("accept", "Accept a task if its package checks out", "note to the sender"),
		a.handoffRejectCommand(),
		a.handoffMove("withdraw", "Withdraw a proposal before it is accepted", "reason"),
		a.handoffCompleteCommand(),
		a.handoffMove("activate", "Resume a handoff after its queue did not answer", ""),
		a.handoffWorkqCommand(),
		a.handoffMove("close", "Close a rejected handoff", ""),
		a.handoffMove("release", "Free a task from a handoff (operator)", "reason"),
	)
	cmd.Long = `Hand over tasks, with proof. The package holds what the next owner needs to know and
the results so far. The hub checks files, hashes, branches and commits before the
receiver takes over.`
	return cmd
}

// handoffMove returns a command that needs an id and, if detail describes one, a
// text.
func (a *app) handoffMove(action, short, detail string) *cobra.Command {
	p := api.HandoffParams{Action: action}
	cmd := &cobra.Command{Use: action + " ID", Short: short, Args: cobra.ExactArgs(1)}
	if detail != "" {
		cmd.Flags().StringVar(&p.Detail, "detail", "", detail)
	}
	return a.handoff(cmd, &p, argument(0, &p.ID))
}

func (a *app) handoffWorkqCommand() *cobra.Command {
	p := api.HandoffParams{Action: "workq"}
	cmd := &cobra.Command{
		Use: "workq ID", Short: "Settle the owner of a queue item (operator)",
		Long: `Settle the owner of a task's queue item, for a handoff whose ownership is
manual_required or degraded. The hub tries the transfer again; --done states that you
moved the item by hand.`,
		Example: "  parley handoff workq h1 --done",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&p.Done, "done", false, "the item has been moved by hand")
	return a.handoff(cmd, &p, argument(0, &p.ID))
}

func (a *app) handoffRejectCommand() *cobra.Command {
	p := api.HandoffParams{Action: "reject"}
	cmd := &cobra.Command{Use: "reject ID --reason REASON --detail TEXT", Short: "Reject a task", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "reason: "+strings.Join(words(hub.RejectReasons), ", "))
	cmd.Flags().StringVar(&p.Detail, "detail", "", "explanation for the sender")
	choices(cmd, "reason", hub.RejectReasons...)
	return a.handoff(cmd, &p, argument(0, &p.ID))
}

func (a *app) handoffCompleteCommand() *cobra.Command {
	p := api.HandoffParams{Action: "complete"}
	cmd := &cobra.Command{
		Use: "complete ID", Short: "Report that a task is done, and prove it",
		Long: `Report that a task is done. The files that you name are hashed here and checked by the
hub. If the package names a worktree and nothing has changed there since the task was
accepted, the report is refused unless --no-changes states that nothing had to change.
A change of only whitespace, line ends, modes or empty files is no proof unless
--trivial explains why that is the task. The answer lists the changes, and says whether
the work is verified or unproven, and why.

Then the checks run that the package asks for, and those that the repository requires, on
the commit that has the work. If one fails, the task stays yours and the exit code is 1. If
they take longer than --wait, you and the sender get a message with the result.`,
		Example: `  parley handoff complete 0199... --summary "avatar is nullable" --artifact migrations/7.sql`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Summary, "summary", "", "summary of the work")
	cmd.Flags().StringVar(&p.Commit, "commit", "", "commit that has the work (default: the one that is checked out in the worktree)")
	wait := cmd.Flags().Duration("wait", check.DefaultWait, "time to wait for the checks, at most 100s; later results come as a message")
	cmd.Flags().BoolVar(&p.NoChanges, "no-changes", false, "nothing had to change")
	cmd.Flags().StringVar(&p.CommitMessage, "commit-message", "", "let the hub commit the named files (or all that changed) with this message")
	cmd.Flags().StringVar((*string)(&p.SameChangeAs), "same-change-as", "", "id of another of your completed tasks that was done by the same change")
	cmd.Flags().StringVar(&p.Trivial, "trivial", "", "why a change of whitespace, line ends, modes or empty files is the task")
	return a.handoff(cmd, &p, argument(0, &p.ID), artifactFlag(cmd, &p.Artifacts, "file produced by the task (repeatable)"), func(context.Context, []string) error {
		if *wait < 0 || *wait > check.MaxWait {
			return usagef("--wait must be between 0s and %s, got %s", check.MaxWait, *wait)
		}
		seconds := int((*wait + time.Second - 1) / time.Second)
		p.Wait = &seconds
		return nil
	})
}

func (a *app) handoffNewCommand() *cobra.Command {
	p := api.HandoffParams{Action: "initiate"}
	var pkg string
	var restricted bool
	cmd := &cobra.Command{
		Use: "new [AGENT TITLE]", Short: "Offer a task to another agent",
		Long: `Offer a task to another agent. The package is a JSON file, or is built from the flags;
the hub fills in ids, provenance, the chain of owners and the hash. Files named with
--artifact are hashed here. Worktrees and files must be below a root (see "parley hub folder
list"), unless --unproven explains why they are not.

An agent and a title are enough: the folder is the one you are in, its summary is the
title, and the next step is to ask the sender. The answer shows each of them.`,
		Example: `  parley handoff new builder "Make avatar nullable"
  parley handoff new --to builder --package pkg.json
  parley handoff new --to builder --task T-1 --title "Nullable avatar" \
    --summary "schema is frozen, migration is written" --next "run it on staging" \
    --criterion "old rows still load" --artifact migrations/7.sql --worktree .`,
		Args: cobra.MaximumNArgs(2),
	}

	f := cmd.Flags()
	f.StringVar((*string)(&p.To), "to", "", "agent that takes over the task")
	f.StringVar(&pkg, "package", "", "package: FILE, '{...}', or - for standard input")
	f.StringVar(&p.TaskID, "task", "", "id of the task")
	f.StringVar((*string)(&p.Team), "team", "", "team that the task belongs to; a member must approve the handoff first")
	f.StringVar(&p.Title, "title", "", "title of the task")
	f.StringVar(&p.Objective, "objective", "", "purpose of the task (default the title)")
	f.StringVar(&p.Summary, "summary", "", "summary for the next owner")
	f.StringVar(&p.NextStep, "next", "", "next step")
	f.StringArrayVar((*[]string)(&p.Criteria), "criterion", nil, "success criterion (repeatable, at least one)")

	f.StringVar(&p.Worktree, "worktree", "", "folder of the work")
	f.StringVar(&p.Branch, "branch", "", "branch of the work")
	f.StringVar((*string)(&p.Priority), "priority", "", "priority: low, normal, high or critical")
	f.StringVar(&p.Reason, "reason", "", "reason for the handoff (default requested)")
	f.StringVar(&p.Unproven, "unproven", "", "reason why the files are not below a root, so the hub cannot check them")
	f.StringArrayVar(&p.Expect.Paths, "expect", nil, "file, folder or pattern in the worktree that must change (repeatable)")
	f.StringArrayVar(&p.Scope, "scope", nil, "file, folder or pattern in the worktree that is reserved for the new owner (repeatable)")
	f.StringArrayVar(&p.Checks, "check", nil, "check of the repository that must pass (repeatable); see \"parley check list\"")
	f.StringVar(&p.Review, "review", "", "reviewer of the work: an agent, role:ROLE or operator")
	f.BoolVar(&p.Expect.Merge, "expect-merge", false, "the task is a merge: existing commits count")
	f.BoolVar(&p.NeedsHuman, "needs-approval", false, "require the operator's approval before it can be accepted")
	f.BoolVar(&restricted, "restricted", false, "keep the package on this hub")
	f.StringVar(&p.ThreadID, "thread", "", "thread to continue")
	f.StringVar(&p.IdempotencyKey, "idempotency-key", "", "key that makes it safe to repeat the call")

	return a.handoff(cmd, &p, momentFlag(cmd, &p.Deadline, 1, "deadline", "deadline: a duration such as 4h, or an ISO 8601 time"),
		artifactFlag(cmd, &p.Artifacts, "file that belongs to the task (repeatable)"),
		func(ctx context.Context, args []string) (err error) {
			if err := shortTask(ctx, &p, args); err != nil {
				return err
			}
			if restricted {
				p.Classification = shape.ClassRestricted
			}

			// --package is the name of a file, with or without @, or the JSON itself.
			if pkg != "" {
				if pkg != "-" && !strings.HasPrefix(strings.TrimSpace(pkg), "{") && !strings.HasPrefix(pkg, "@") {
					pkg = "@" + pkg
				}
				if p.Package, err = a.object(ctx, "--package", pkg); err != nil {
					return err
				}
			}

			if p.Worktree != "" {
				if p.Worktree, err = realPath(p.Worktree); err != nil {
					return err
				}
			}

			p.IdempotencyKey = cmp.Or(p.IdempotencyKey, newIdempotencyKey())
			return nil
		})
}

// shortTask completes a handoff that was given as an agent and a title: each part that is missing has
// a default.
func shortTask(ctx context.Context, p *api.HandoffParams, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case p.To != "" && len(args) == 2:
		return usagef("the agent is given both with --to and as the first argument")
	case len(args) == 1 && p.To == "" && p.Title == "":
		return usagef("the title of the task is missing").WithHint(`for example: parley handoff new %s "Make avatar nullable"`, args[0])
	}
	if len(args) == 2 || p.To == "" {
		p.To = hub.AgentID(args[0])
		args = args[1:]
	}
	if len(args) == 1 {
		p.Title = args[0]
	}

	p.TaskID = cmp.Or(p.TaskID, string(hub.NewIDs(now).Next()))
	p.Summary = cmp.Or(p.Summary, p.Title)
	p.NextStep = cmp.Or(p.NextStep, "ask the sender")
	if len(p.Criteria) == 0 {
		p.Criteria = []string{p.Title}
	}
	if p.Worktree == "" && p.Unproven == "" {
		p.Worktree, _ = git.Top(ctx, ".") // outside of a repository there is none
	}
	return nil
}

func (a *app) handoffListCommand() *cobra.Command {
	p := api.HandoffParams{Action: "list"}
	cmd := &cobra.Command{
		Use: "list", Short: "List handoffs, newest first",
		Long:    `List handoffs, newest first: your own, or all of them for auditors.`,
		Example: `  parley handoff list --mine --state proposed`,
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.BoolVar(&p.Mine, "mine", false, "only handoffs from or to you")
	f.StringVar((*string)(&p.State), "state", "", "only handoffs in this state: draft, proposed, validating, accepted, rejected, activated, completed or closed")
	f.StringVar(&p.TaskID, "task", "", "only handoffs of this task")
	f.StringVar((*string)(&p.To), "to", "", "only handoffs to this agent")
	from := f.String("from", "", "only handoffs from this agent")
	f.Var(&p.Limit, "limit", "maximum number of handoffs (default 50)")
	f.StringVar((*string)(&p.Cursor), "cursor", "", "continue from the cursor printed by the previous page")
	choices(cmd, "state", hub.HandoffStates...)
	return operation(a, cmd, api.Handoff, &p, func(w io.Writer, got api.HandoffAnswer) { writeHandoffs(w, *got.Listing) },
		func(context.Context, []string) (err error) {
			if *from != "" {
				p.From, err = json.Marshal(*from)
			}
			return err
		})
}

func writeHandoffs(w io.Writer, page handoff.Listing) {
	writeList(w, "handoffs", "ID, STATE, STAGE, PROOF, CHANGE, TASK, FROM, TO, TITLE", page.Handoffs, func(h handoff.Report) []any {
		text := h.StateText()
		if h.Ownership.NeedsOperator() {
			text += " (" + string(h.Ownership) + ")"
		}
		return []any{h.Name(), state(text), cmp.Or(h.StageCell(), "-"), state(h.ProofCell()), h.ChangeCell(), h.TaskID, h.From, h.To, h.Title}
	})
	if page.Next != "" {
		fmt.Fprintf(w, "more: add --cursor %s\n", page.Next)
	}
}

// handoff completes a command that performs an action on one handoff and prints
// its state. A handoff that was to be accepted and is rejected fails the check.
func (a *app) handoff(cmd *cobra.Command, p *api.HandoffParams, preparations ...preparation) *cobra.Command {
	return prepared(cmd, func(ctx context.Context) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		send := rpc.Call[*api.Services, api.HandoffParams, api.HandoffAnswer]
		if p.IdempotencyKey != "" {
			send = retry
		}
		got, err := send(ctx, c, api.Handoff, *p)
		if err != nil {
			return err
		}
		rejected := p.Action == "accept" && got.Report.Status == hub.HandoffRejected
		returned := p.Action == "complete" && got.Report.Checks == hub.ChecksFailed
		return a.check(!rejected && !returned, got, func(w io.Writer) {
			writeHandoff(w, *got.Report)
			writeCost(w, got.Spend)
		})
	}, preparations...)
}

// maxLocalArtifact is the size of the largest file that is hashed here; the hub
// checks no larger one either.
const maxLocalArtifact = 1 << 30

// artifactFlag adds the flag that names files, which are hashed when the command
// runs.
func artifactFlag(cmd *cobra.Command, into *[]hub.ArtifactRef, usage string) preparation {
	names := cmd.Flags().StringArray("artifact", nil, usage)
	return func(ctx context.Context, _ []string) error {
		for _, name := range *names {
			ref, err := await(ctx, func() (hub.ArtifactRef, error) { return localArtifact(name) })
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return invalid(fmt.Errorf("--artifact: %w", err))
			}
			*into = append(*into, ref)
		}
		return nil
	}
}

// realPath returns the absolute path of a file without links, because a root has none
// in its path. A file that does not exist keeps its name.
func realPath(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	return path, nil
}

// localArtifact hashes a file. Only a regular file is opened: another kind could
// block for ever.
func localArtifact(name string) (hub.ArtifactRef, error) {
	path, err := realPath(name)
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return hub.ArtifactRef{}, err
	case !info.Mode().IsRegular():
		return hub.ArtifactRef{}, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxLocalArtifact:
		return hub.ArtifactRef{}, fmt.Errorf("%s has %d bytes; files larger than %d bytes are not checked", path, info.Size(), int64(maxLocalArtifact))
	}
	f, err := os.Open(path)
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, io.LimitReader(f, maxLocalArtifact+1))
	return hub.ArtifactRef{Type: "file", Path: path, SHA256: hex.EncodeToString(h.Sum(nil)), SizeBytes: &size}, err
}
