package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/watch"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/records"
)

func (a *app) hubJournalCommand() *cobra.Command {
	var p api.AuditParams
	var follow bool
	cmd := &cobra.Command{
		Use: "journal", Short: "Print the journal",
		Long: `Print the journal: the time, actor, action, subject and outcome of every call that
changed something or was refused. Auditors see all entries, other agents only those
that concern them. The newest entries come last.`,
		Example: `  parley hub journal --limit 20
  parley hub journal --follow --actor builder
  parley hub verify`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			// Without --after the newest entries are shown.
			p.Last = !cmd.Flags().Changed("after")
			got, err := rpc.Call(cmd.Context(), c, api.Audit, p)
			if err != nil {
				return err
			}
			if follow {
				return a.followAudit(cmd.Context(), p, got)
			}

			return a.print(got, func(w io.Writer) {
				for _, e := range got.Entries {
					writeEntry(w, e)
				}
				if got.Next > 0 {
					fmt.Fprintf(w, "more: add --after %d\n", got.Next)
				}
			})
		},
	}

	f := cmd.Flags()
	f.BoolVar(&follow, "follow", false, "keep printing new entries until Ctrl-C")
	f.StringVar((*string)(&p.Actor), "actor", "", "only entries by this agent")
	f.StringVar((*string)(&p.Action), "action", "", "only entries with this action, such as message.sent")
	f.Int64Var(&p.After, "after", 0, "only entries after this number")
	f.Var(&p.Limit, "limit", "maximum number of entries (default 50)")
	return cmd
}

func writeEntry(w io.Writer, e hub.Entry) {
	fmt.Fprintf(w, "%6d  %-12s  %-10s %-22s %s", e.Seq, when(e.At), e.Actor, e.Action, localTimes(cutHashes(e.Subject)))
	if e.Outcome != hub.OutcomeOK {
		fmt.Fprintf(w, "  %s", e.Outcome)
	}
	if text := factsText(e.Facts, nil); len(e.Facts) > 0 && text != "" {
		fmt.Fprintf(w, "  %s", plaintext.Line(text))
	}
	fmt.Fprintln(w)
}

// followAudit shows the entries so far and then each entry as it happens, also over
// a restart of the hub.
func (a *app) followAudit(ctx context.Context, p api.AuditParams, page api.AuditPage) error {
	enc := encoder(a.out)
	show := func(e hub.Entry) error {
		otherActor := p.Actor != "" && e.Actor != p.Actor
		otherAction := p.Action != "" && e.Action != p.Action
		if otherActor || otherAction {
			return nil
		}
		if a.json {
			return enc.Encode(e)
		}
		writeEntry(a.out, e)
		return nil
	}
	for _, e := range page.Entries {
		if err := show(e); err != nil {
			return err
		}
	}
	seq := page.Head.Seq
	if page.Next > 0 {
		seq = page.Next
	}
	return watch.Follow(ctx, a.client, seq, a.away(ctx), func(_ *rpc.Client, e hub.Entry) error { return show(e) })
}

func (a *app) hubVerifyCommand() *cobra.Command {
	var resume, rebuild bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Verify the hub's records against the journal",
		Long: `Verify the hub's records against the journal: the chain of hashes, messages, handoffs
and their history, runs, contracts, agents and keys, the archives and the trail of
JSONL files, the tree over the journal and the checkpoints that the hub signed. It also works while no hub is running. The exit code is 1 if something
does not match.

Progress is printed, and the position is stored every few seconds in verify.json in
the hub's home. After Ctrl-C (exit code 130), --resume continues from there. The
stored position is trusted; a verification from the beginning trusts nothing.

--rebuild-tree first makes the tree over the journal again. It is refused if a checkpoint
that the hub signed contradicts the journal: then the journal was changed, not the tree.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rebuild {
				got, err := fromRecords(cmd.Context(), a, api.RebuildTree, api.None{}, func(r api.Records) (api.RebuiltTree, error) {
					n, err := r.RebuildTree(cmd.Context())
					return api.RebuiltTree{Leaves: n}, err
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(a.err, "made the tree over %d rows of the journal again\n", got.Leaves)
			}
			got, err := a.verify(cmd.Context(), resume)
			if err != nil {
				return err
			}
			return a.check(got.Clean(), struct {
				OK bool `json:"ok"`
				records.Audit
			}{got.Clean(), got}, func(w io.Writer) { a.writeAudit(w, got) })
		},
	}
	cmd.Flags().BoolVar(&resume, "resume", false, "continue the last interrupted verification")
	cmd.Flags().BoolVar(&rebuild, "rebuild-tree", false, "make the tree over the journal again")
	return cmd
}

// verifyPart is how long a verification goes on before it reports and stores its
// position.
var verifyPart = 2 * time.Second

// verify verifies the records part by part, and prints the progress between.
func (a *app) verify(ctx context.Context, resume bool) (records.Audit, error) {
	p := api.VerifyParams{ForMS: verifyPart.Milliseconds()}
	if resume {
		p.Resume = records.LastVerification
	}
	for stored := resume; ; stored = true {
		got, err := fromRecords(ctx, a, api.Verify, p, func(r api.Records) (records.Audit, error) {
			return r.VerifyFor(ctx, verifyPart, p.Resume)
		})
		if ctx.Err() != nil && stored {
			fmt.Fprintln(a.err, "interrupted; run \"parley hub verify --resume\" to continue")
		}
		if err != nil || got.Progress == nil {
			return got, cmp.Or(ctx.Err(), err)
		}
		p.Resume = got.Progress.ID
		a.writeProgress(*got.Progress)
	}
}

// writeProgress prints how far a verification has come.
func (a *app) writeProgress(p records.Progress) {
	text := fmt.Sprintf("verifying: %s, %d", p.Part, p.Done)
	if p.Of > 0 {
		text += fmt.Sprintf(" of %d", p.Of)
	}
	fmt.Fprintln(a.err, text)
}

func (a *app) writeAudit(w io.Writer, got records.Audit) {
	for _, f := range got.Findings {
		fmt.Fprintf(w, "%s %s\n", a.paint(w, "31", "FOUND"), f.String())
	}
	if got.More > 0 {
		fmt.Fprintf(w, "and %d more\n", got.More)
	}
	for _, u := range got.Unchecked {
		fmt.Fprintf(w, "%s %s\n", a.paint(w, "33", "not checked:"), u)
	}
	fmt.Fprintf(w, "checked %d journal entries (%d archived), %d messages, %d handoffs, %d agents, %d keys, %d reservations, %d turns, %d continuations, %d checks with %d results, %d landings, %d lines of JSONL\n",
		got.Entries, got.Archived, got.Messages, got.Handoffs, got.Agents, got.Keys, got.Reservations, got.Usage, got.Continuations, got.Checks, got.Results, got.Landings, got.Lines)
	if got.Clean() {
		fmt.Fprintf(w, "%s the journal holds up to entry %d, %s\n", a.paint(w, "32", "ok"), got.Head.Seq, got.Head.Hash)
	}
}
