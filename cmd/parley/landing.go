package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/landing"
)

func (a *app) landPolicyCommand() *cobra.Command {
	cmd := noun("policy", "Show or set how changes land in a branch", a.landingShowCommand(), a.landingSetCommand(), a.landingOffCommand())
	cmd.Long = `Show or set how changes land in a branch of a repository. A branch with a landing policy has
a queue: the hub merges each change onto the branch in a copy of its own, runs the checks on
the result, and moves the branch only if they pass. Landing is off by default.`
	return cmd
}

func (a *app) landingSetCommand() *cobra.Command {
	var p api.LandingParams
	var noChecks, noReview, noContracts, unconcerned bool
	var repeat int
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Let changes land in a branch",
		Long: `Let changes land in a branch, or change how they do: only the flags that you give change
the policy. The checks run on the state that the branch will have: those of the policy, all
that the repository requires, and those that the work asks for. The reviewer is another agent
than the authors of the change. By auto, completed handoffs are queued as soon as their
proof, checks and review are complete; by operator, an agent's change waits for your yes.

A repository without any check needs --no-checks, and --by auto needs --review or
--no-review: what is open was opened by name, and is shown as long as it is.`,
		Example: `  parley land policy set --repo . --into main --check test --review role:reviewer --by auto
  parley land policy set --repo . --batch 8`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&p.Into, "into", "", "branch that changes land in; not needed if one has a policy")
	f.StringArrayVar(&p.Checks, "check", nil, "check that must pass (repeatable)")
	f.BoolVar(&noChecks, "no-checks", false, "let changes land where no check is asked for")
	f.StringVar(&p.Review, "review", "", "reviewer: an agent, role:ROLE, @ABILITY, other-vendor or operator")
	f.BoolVar(&noReview, "no-review", false, "let changes land without a review")
	f.StringVar((*string)(&p.By), "by", "", "who queues changes: auto or operator (default operator)")
	f.Var(&p.Batch, "batch", "most changes that are tried together (default 4)")
	f.IntVar(&repeat, "repeat", 0, "times that a check that failed is run again, which the result names")
	f.BoolVar(&unconcerned, "unconcerned-lands", false, "let a change land that concerns no check")
	f.BoolVar(&noContracts, "no-contracts", false, "do not ask contracts")
	f.BoolVar(&p.Reset, "reset", false, "begin with the defaults")
	cmd.MarkFlagsMutuallyExclusive("check", "no-checks")
	cmd.MarkFlagsMutuallyExclusive("review", "no-review")
	return operation(a, cmd, api.SetLanding, &p, writeLanding, repoFlag(cmd, &p.Repo, "."), func(context.Context, []string) error {
		if noReview {
			p.Review = hub.ReviewerNone
		}
		if f.Changed("repeat") {
			p.Repeat = &repeat
		}
		for name, flag := range map[string]struct {
			value bool
			to    **bool
		}{"no-checks": {noChecks, &p.NoChecks}, "unconcerned-lands": {unconcerned, &p.UnconcernedLands}, "no-contracts": {noContracts, &p.NoContracts}} {
			if f.Changed(name) {
				*flag.to = &flag.value
			}
		}
		return nil
	})
}

func writeLanding(w io.Writer, got api.LandingAnswer) {
	l := got.Landing
	fmt.Fprintf(w, "changes land in %s of %s\n", l.Into, plaintext.Line(l.Repository))
	checks := strings.Join(l.Checks, ", ")
	if checks == "" {
		checks = "none"
	}
	if len(l.Required) > 0 {
		checks += " and the required " + strings.Join(l.Required, ", ")
	}
	fmt.Fprintf(w, "checks %s; review %s; by %s; up to %d together\n", checks, l.Review, l.By, l.Batch)
	if l.Repeat > 0 {
		fmt.Fprintf(w, "a check that fails is run again, at most %s\n", counted(l.Repeat, "time"))
	}
	if l.UnconcernedLands {
		fmt.Fprintln(w, "a change that concerns no check lands")
	}
	for _, n := range l.Notes() {
		fmt.Fprintf(w, "%s, %s\n", plaintext.Line(n.Text), when(n.At))
	}
	if len(got.Changed) > 0 {
		fmt.Fprintf(w, "changed: %s\n", strings.Join(got.Changed, ", "))
	}
}

func (a *app) landingShowCommand() *cobra.Command {
	var p api.LandingParams
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show how changes land in a branch",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Into, "into", "", "branch, if several have a queue")
	return operation(a, cmd, api.ShowLanding, &p, writeLanding, repoFlag(cmd, &p.Repo, "."))
}

func (a *app) landingOffCommand() *cobra.Command {
	var p api.LandingParams
	cmd := &cobra.Command{
		Use:   "off",
		Short: "End the queue of a branch",
		Long:  `End the queue of a branch. Changes that wait in it are cancelled; the branch stays as it is.`,
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Into, "into", "", "branch, if several have a queue")
	return operation(a, cmd, api.LandingOff, &p, func(w io.Writer, got api.LandingAnswer) {
		fmt.Fprintf(w, "landing is off for %s of %s\n", got.Landing.Into, plaintext.Line(got.Landing.Repository))
	}, repoFlag(cmd, &p.Repo, "."))
}

func (a *app) landCommand() *cobra.Command {
	var p api.LandParams
	cmd := &cobra.Command{
		Use:   "land REF",
		Short: "Queue a change to land",
		Long: `Queue a change to land in the branch that the landing policy names: the work of a
completed handoff, a branch or a commit. The hub tries it together with others, and moves
the branch if the checks pass; else the change goes back with the reason. A new commit on
the branch queues it again.`,
		Example: `  parley land h3
  parley land feature/login --repo .`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Into, "into", "", "branch, if several have a queue")
	cmd.Flags().StringVar((*string)(&p.Priority), "priority", "", "low, normal, high or critical, which goes first (operator)")
	repo := repoFlag(cmd, &p.Repo, ".")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p.Ref = args[0]
		if err := repo(cmd.Context(), args); err != nil {
			return err
		}
		return answerOfGate(cmd.Context(), a, api.Land, p)
	}
	return nounVerb(cmd, a.landListCommand(), a.landApproveCommand(), a.landingCancelCommand(), a.landingRetryCommand(), a.undoLandingCommand(), a.reviewCommand(), a.landPolicyCommand())
}

// answerOfGate performs an operation on an entry and prints it. The exit code is 1 if a part is missing
// that the hub does not supply by itself.
func answerOfGate[P any](ctx context.Context, a *app, o rpc.Operation[*api.Services, P, landing.Listing], p P) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := rpc.Call(ctx, c, o, p)
	if err != nil {
		return err
	}
	isOpen := !slices.ContainsFunc(got.Entries, func(e hub.LandingEntry) bool { return len(e.Missing) > 0 })
	return a.check(isOpen, got, func(w io.Writer) { writeEntries(w, got) })
}

func (a *app) landApproveCommand() *cobra.Command {
	var p api.WaiveParams
	cmd := &cobra.Command{
		Use:   "approve ID --without WHAT --because TEXT",
		Short: "Let one change land without a check, its review or its contracts",
		Long: `Let one change land without a check, its review or its contracts. Your word counts for its
commit alone, and is shown in the entry and in the journal. Only the operator can do that.`,
		Example: `  parley land approve l7 --without test --because "hotfix: the test server is down"`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Without, "without", "", "the name of a check, checks, review or contracts")
	cmd.Flags().StringVar(&p.Because, "because", "", "reason, which is stored")
	return operation(a, cmd, api.ApproveEntry, &p, writeEntries, argument(0, &p.ID), func(context.Context, []string) error {
		if p.Without == "" || p.Because == "" {
			return usagef("--without and --because are required").WithHint("to say yes to a change that waits for you: parley approve %s", p.ID)
		}
		return nil
	})
}

// writeEntries writes entries of landing queues as a table.
func writeEntries(w io.Writer, got landing.Listing) {
	if len(got.Entries) == 0 {
		fmt.Fprintln(w, "no landings")
		return
	}
	writeTable(w, "ID, STATE, REF, COMMIT, OWNER, INTO, NOTE", got.Entries, func(e hub.LandingEntry) []any {
		return []any{e.ID, state(e.State), e.Ref, shortCommit(e.Commit), e.Owner, e.Into, entryNote(e)}
	})
	for _, e := range got.Entries {
		for _, m := range e.Missing {
			if m.Next != "" {
				fmt.Fprintf(w, "%s waits for %s: %s\n", e.ID, m.Who, plaintext.Line(m.Next))
			}
		}
	}
	if t := got.Target; t != nil && len(got.Entries) > 0 {
		fmt.Fprintf(w, "%s is %s at %s since %s\n", got.Entries[0].Into, t.State, shortCommit(t.Commit), when(t.Since))
	}
	if got.Next != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", got.Next)
	}
}

// shortCommit returns the beginning of the name of a commit.
func shortCommit(id string) string { return id[:min(len(id), 12)] }

// entryNote returns the reason of an entry's state, or the commit that landed.
func entryNote(e hub.LandingEntry) string {
	if e.State == hub.EntryLanded && e.Reason == "" {
		return "as " + shortCommit(e.LandedCommit)
	}
	return e.Reason
}

func (a *app) landListCommand() *cobra.Command {
	var p api.LandingsParams
	var reviews bool
	var r api.ReviewsParams
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the changes that land",
		Long: `List the changes that wait to land, are tried, have landed or were returned, in the order
of the queue.`,
		Example: `  parley land list --repo . --state queued
  parley land --reviews`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&p.Into, "into", "", "branch, if several have a queue")
	cmd.Flags().StringVar((*string)(&p.State), "state", "", "only entries in this state: "+hub.JoinWords(hub.LandingStates))
	cmd.Flags().StringVar((*string)(&p.Owner), "owner", "", "only entries of this agent")
	cmd.Flags().StringVar((*string)(&p.Cursor), "cursor", "", "continue after a page of the list")
	cmd.Flags().BoolVar(&reviews, "reviews", false, "list the reviews that wait")
	cmd.Flags().BoolVar(&r.All, "all", false, "with --reviews: answered reviews, too")
	operation(a, cmd, api.ListLandings, &p, writeEntries, repoFlag(cmd, &p.Repo, ""))
	entries := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if reviews {
			return answer(cmd.Context(), a, api.ListReviews, r, writeReviews)
		}
		return entries(cmd, args)
	}
	return cmd
}

func writeLandingDetail(w io.Writer, got landing.Detail) {
	writeEntries(w, landing.Listing{Entries: got.Entries})
	for _, e := range got.Entries {
		for _, v := range e.Asked {
			fmt.Fprintf(w, "asked: %s, %s by %s\n", plaintext.Line(v.What), plaintext.Line(v.Evidence), v.By)
		}
		for _, text := range e.NotAsked {
			fmt.Fprintf(w, "not asked: %s\n", plaintext.Line(text))
		}
	}
	for _, v := range got.Reviews {
		fmt.Fprintf(w, "review %s of %s by %s: %s\n", v.ID, shortCommit(v.Commit), v.Reviewer, v.State)
		for _, f := range v.Findings {
			fmt.Fprintf(w, "  %s:%d: %s\n", plaintext.Line(f.Path), f.Line, plaintext.Line(f.Text))
		}
	}
	for _, h := range got.History {
		fmt.Fprintf(w, "%s %s by %s\n", when(h.At), h.Action, h.Actor)
	}
	if got.Live != nil && got.Live.Output != "" {
		fmt.Fprintf(w, "\nrunning since %s:\n%s\n", when(got.Live.Since), plaintext.Text(got.Live.Output))
	}
	for _, e := range got.Entries {
		if e.LandedCommit != "" {
			fmt.Fprintf(w, "download the proof: parley prove %s\n", e.ID)
		}
	}
	if got.Difference != "" {
		fmt.Fprintf(w, "\n%s\n", plaintext.Text(got.Difference))
	}
}

func (a *app) landingCancelCommand() *cobra.Command {
	var p api.EntryParams
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Take a change out of the queue",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Reason, "because", "", "reason, which its owner reads")
	return operation(a, cmd, api.CancelLanding, &p, writeEntries, argument(0, &p.ID))
}

func (a *app) landingRetryCommand() *cobra.Command {
	var p api.EntryParams
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Queue a change again that was returned or waits",
		Args:  cobra.ExactArgs(1),
	}
	return operation(a, cmd, api.RetryLanding, &p, writeEntries, argument(0, &p.ID))
}

func (a *app) undoLandingCommand() *cobra.Command {
	var p api.EntryParams
	cmd := &cobra.Command{
		Use:   "undo ID",
		Short: "Take back a change that landed",
		Long: `Take back a change that landed: the hub makes a commit that reverts it, and queues that as
a new entry. The history of the branch is never rewritten.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&p.Reason, "because", "", "reason, which the owner of the change reads")
	return prepared(cmd, func(ctx context.Context) error { return answerOfGate(ctx, a, api.UndoLanding, p) }, argument(0, &p.ID))
}

func (a *app) reviewCommand() *cobra.Command {
	var p api.ReviewParams
	var findings []string
	cmd := &cobra.Command{
		Use:   "review ID approve|changes",
		Short: "Answer the review of a change",
		Long: `Answer the review of a change, by the id of its handoff, its landing or the review itself.
Changes need at least one finding: a path, a line of the new text and what to change.`,
		Example: `  parley land review h3 approve
  parley land review l2 changes --finding src/a.go:12:"close the file"`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringArrayVar(&findings, "finding", nil, "PATH:LINE:TEXT (repeatable)")
	return operation(a, cmd, api.GiveReview, &p, writeReview, argument(0, &p.ID), argument(1, &p.Verdict), func(context.Context, []string) error {
		for _, text := range findings {
			f, err := landing.ParseFinding(text)
			if err != nil {
				return err
			}
			p.Findings = append(p.Findings, f)
		}
		return nil
	})
}

func writeReview(w io.Writer, got api.ReviewAnswer) {
	v := got.Review
	fmt.Fprintf(w, "%s: %s for %s of %s, %s\n", v.ID, v.Verdict, shortCommit(v.Commit), v.Subject(), counted(len(v.Findings), "finding"))
}

func writeReviews(w io.Writer, got api.ReviewList) {
	if len(got.Reviews) == 0 {
		fmt.Fprintln(w, "no reviews")
		return
	}
	writeTable(w, "ID, STATE, OF, COMMIT, REVIEWER, ASKED, BY", got.Reviews, func(v hub.Review) []any {
		return []any{v.ID, state(v.State), v.Subject(), shortCommit(v.Commit), v.Reviewer, v.AskedAt, v.By}
	})
}
