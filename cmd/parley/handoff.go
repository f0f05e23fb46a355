package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) handoffCommand() *cobra.Command {
	cmd := group("handoff", "Hand tasks over, with proof",
		a.handoffInitiateCommand(),
		a.handoffMove("accept", "Take a task over, if what its package claims is there", "detail", "a word to the sender"),
		a.handoffRejectCommand(),
		a.handoffMove("withdraw", "Take a proposal back before it is accepted", "detail", "why"),
		a.handoffCompleteCommand(),
		a.handoffMove("activate", "Confirm that a task was moved in a queue outside the hub", "", ""),
		a.handoffMove("close", "Put away a handoff that was rejected", "", ""),
		a.handoffMove("release", "Free a task from a handoff (operator)", "detail", "why"),
		a.handoffMove("show", "Show a handoff with its package, checks and history", "", ""),
		a.handoffListCommand(),
	)
	cmd.Long = `Hand tasks over, with proof. The package says what the next owner must know and
what was made; the hub looks at files, hashes, branches and commits before it
lets the receiver take over.`
	return cmd
}

// handoffMove returns a command that needs no more than an id and, if text is a
// flag's name, a text.
func (a *app) handoffMove(action, short, text, usage string) *cobra.Command {
	p := api.HandoffParams{Action: action}
	cmd := &cobra.Command{
		Use: action + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ID = hub.HandoffID(args[0])
			return a.handoff(cmd.Context(), p)
		},
	}
	if text != "" {
		cmd.Flags().StringVar(&p.Detail, text, "", usage)
	}
	return cmd
}

func (a *app) handoffRejectCommand() *cobra.Command {
	p := api.HandoffParams{Action: "reject"}
	cmd := &cobra.Command{
		Use: "reject ID --reason REASON --detail TEXT", Short: "Turn a task down, and say why",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ID = hub.HandoffID(args[0])
			return a.handoff(cmd.Context(), p)
		},
	}
	var reasons []string
	for _, r := range hub.RejectReasons {
		reasons = append(reasons, string(r))
	}
	cmd.Flags().StringVar(&p.Reason, "reason", "", "one of "+strings.Join(reasons, ", "))
	cmd.Flags().StringVar(&p.Detail, "detail", "", "what the sender should know")
	cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(reasons, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) handoffCompleteCommand() *cobra.Command {
	p := api.HandoffParams{Action: "complete"}
	var artifacts []string
	cmd := &cobra.Command{
		Use: "complete ID", Short: "Say that a task is done, and prove it",
		Long: `Say that a task is done. Files that are named are hashed here and checked by the
hub. If the package names a worktree in which nothing has changed since the task
was accepted, "done" is refused, unless --no-changes says that there was nothing
to change.`,
		Example: `  parley handoff complete 0199... --summary "avatar is nullable" --artifact migrations/7.sql`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.ID = hub.HandoffID(args[0])
			if p.Artifacts, err = localArtifacts(cmd.Context(), artifacts); err != nil {
				return err
			}
			return a.handoff(cmd.Context(), p)
		},
	}
	cmd.Flags().StringVar(&p.Summary, "summary", "", "what was done")
	cmd.Flags().StringArrayVar(&artifacts, "artifact", nil, "file that was made (repeatable)")
	cmd.Flags().BoolVar(&p.NoChanges, "no-changes", false, "there was nothing to change")
	return cmd
}

func (a *app) handoffInitiateCommand() *cobra.Command {
	p := api.HandoffParams{Action: "initiate"}
	var to, pkg, deadline, priority string
	var artifacts []string
	var restricted bool
	cmd := &cobra.Command{
		Use: "initiate --to AGENT (--package FILE | --task ID --title ... --summary ... --next ... --criterion ...)", Short: "Offer a task to another agent",
		Long: `Offer a task to another agent. The package is a JSON file, or is made from the
flags; the hub fills in ids, provenance, the chain of owners and the hash. Files
named with --artifact are hashed here.`,
		Example: `  parley handoff initiate --to builder --package pkg.json
  parley handoff initiate --to builder --task T-1 --title "Nullable avatar" \
    --summary "schema is frozen, migration is written" --next "run it on staging" \
    --criterion "old rows still load" --artifact migrations/7.sql --worktree .`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			p.To, p.Priority = hub.AgentID(to), hub.Priority(priority)
			if restricted {
				p.Classification = hub.ClassRestricted
			}
			if p.Deadline, err = moment("deadline", deadline, 1); err != nil {
				return err
			}
			if pkg != "" {
				if pkg != "-" && !strings.HasPrefix(strings.TrimSpace(pkg), "{") && !strings.HasPrefix(pkg, "@") {
					pkg = "@" + pkg
				}
				if p.Package, err = a.object(cmd.Context(), "--package", pkg); err != nil {
					return err
				}
			}
			if p.Worktree != "" {
				if p.Worktree, err = filepath.Abs(p.Worktree); err != nil {
					return err
				}
			}
			if p.Artifacts, err = localArtifacts(cmd.Context(), artifacts); err != nil {
				return err
			}
			if p.IdempotencyKey == "" {
				// Lets the call be repeated when its answer was lost.
				p.IdempotencyKey = "cli-" + string(hub.NewIDs(now).Next())
			}
			return a.handoff(cmd.Context(), p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "who takes the task over")
	f.StringVar(&pkg, "package", "", "the package: FILE, '{...}', or - for standard input")
	f.StringVar(&p.TaskID, "task", "", "the task's id")
	f.StringVar(&p.Title, "title", "", "what it is called")
	f.StringVar(&p.Objective, "objective", "", "what it is for (default the title)")
	f.StringVar(&p.Summary, "summary", "", "what one must know")
	f.StringVar(&p.NextStep, "next", "", "the next step")
	f.StringArrayVar(&p.Criteria, "criterion", nil, "how to tell that it is done (repeatable, at least one)")
	f.StringArrayVar(&artifacts, "artifact", nil, "file that belongs to it (repeatable)")
	f.StringVar(&p.Worktree, "worktree", "", "folder in which the work is done")
	f.StringVar(&p.Branch, "branch", "", "branch on which the work is done")
	f.StringVar(&priority, "priority", "", "low, normal, high or critical")
	f.StringVar(&deadline, "deadline", "", "a span like 4h, or an ISO 8601 time")
	f.StringVar(&p.Reason, "reason", "", "why it changes hands (default requested)")
	f.BoolVar(&p.NeedsHuman, "needs-approval", false, "the operator must approve before it can be accepted")
	f.BoolVar(&restricted, "restricted", false, "the package must not leave the hub")
	f.StringVar(&p.ThreadID, "thread", "", "thread to go on with")
	f.StringVar(&p.IdempotencyKey, "idempotency-key", "", "same key, same handoff: safe to repeat")
	return cmd
}

func (a *app) handoffListCommand() *cobra.Command {
	p := api.HandoffParams{Action: "list"}
	var state, cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List handoffs, newest first",
		Long:    `List handoffs, newest first: your own, or all of them for those who audit.`,
		Example: `  parley handoff list --mine --state proposed`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.State, p.Cursor = hub.HandoffState(state), hub.HandoffID(cursor)
			return answer(cmd.Context(), a, api.Handoff, p, func(w io.Writer, got api.HandoffAnswer) { writeHandoffs(w, *got.Listing) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&p.Mine, "mine", false, "only those you give or take")
	f.StringVar(&state, "state", "", "draft, proposed, validating, accepted, rejected, activated, completed or closed")
	f.StringVar(&p.TaskID, "task", "", "those of one task")
	f.IntVar(&p.Limit, "limit", 0, "how many at most (default 50)")
	f.StringVar(&cursor, "cursor", "", "go on after a page: its next")
	var states []string
	for _, s := range hub.HandoffStates {
		states = append(states, string(s))
	}
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func writeHandoffs(w io.Writer, page handoff.Listing) {
	if len(page.Handoffs) == 0 {
		fmt.Fprintln(w, "no handoffs")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tTASK\tFROM\tTO\tTITLE")
	for _, h := range page.Handoffs {
		state := string(h.Status)
		if h.Ownership == hub.OwnershipManual {
			state += " (" + string(h.Ownership) + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", h.ID, state, visible(h.TaskID), h.From, h.To, visible(h.Title))
	}
	t.Flush()
	if page.Next != "" {
		fmt.Fprintf(w, "more: add --cursor %s\n", page.Next)
	}
}

// handoff does something with one handoff and prints how it stands. A handoff
// that was to be accepted and is rejected ends the command with exitCheck.
func (a *app) handoff(ctx context.Context, p api.HandoffParams) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := rpc.Call(ctx, c, api.Handoff, p)
	if errors.Is(err, rpc.ErrUnreachable) && p.IdempotencyKey != "" {
		got, err = rpc.Call(ctx, c, api.Handoff, p)
	}
	if err != nil {
		return err
	}
	if err := a.print(got, func(w io.Writer) { io.WriteString(w, handoff.Render(*got.Report)) }); err != nil {
		return err
	}
	if p.Action == "accept" && got.Report.Status == hub.HandoffRejected {
		return errCheck
	}
	return nil
}

// maxLocalArtifact is how large a file may be that is hashed here; the hub
// would not look at a larger one either.
const maxLocalArtifact = 1 << 30

// localArtifacts hashes files for a package.
func localArtifacts(ctx context.Context, names []string) ([]hub.ArtifactRef, error) {
	var refs []hub.ArtifactRef
	for _, name := range names {
		ref, err := localArtifact(ctx, name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func localArtifact(ctx context.Context, name string) (hub.ArtifactRef, error) {
	fail := func(format string, args ...any) (hub.ArtifactRef, error) {
		return hub.ArtifactRef{}, hub.Errorf(hub.CodeInvalid, "parley", "--artifact: "+format, args...)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return fail("%v", err)
	}
	// Only a regular file is opened: another kind could wait for ever.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fail("%v", err)
	case !info.Mode().IsRegular():
		return fail("%s is not a regular file", path)
	case info.Size() > maxLocalArtifact:
		return fail("%s has %d bytes; files of more than %d are not checked", path, info.Size(), int64(maxLocalArtifact))
	}
	f, err := os.Open(path)
	if err != nil {
		return fail("%v", err)
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, &untilDone{ctx, io.LimitReader(f, maxLocalArtifact+1)})
	if err != nil {
		return hub.ArtifactRef{}, err
	}
	return hub.ArtifactRef{Type: "file", Path: path, SHA256: hex.EncodeToString(h.Sum(nil)), SizeBytes: &size}, nil
}

// An untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
