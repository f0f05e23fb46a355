package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/errand"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/internal/surface/api"
)

func (a *app) runsCommand() *cobra.Command {
	return group("runs", "Look at the runs of agents", a.runsListCommand(), a.runsShowCommand(), a.runsReplayCommand())
}

// ledger returns the records of runs, after it has seen to those that nobody
// watches over any more.
func (a *app) ledger(ctx context.Context) (*fleet.Ledger, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	ledger := fleet.NewLedger(home)
	untold, err := ledger.Recover(hub.At(now()))
	if err != nil || len(untold) == 0 {
		return ledger, err
	}
	c, err := a.loadConfig(home)
	if err != nil {
		return nil, err
	}
	var client *api.Client
	link, stop, err := a.hubForRun(ctx, home, c)
	if err == nil {
		defer stop()
		client = link.Client
	}
	if err == nil {
		err = errand.Recover(ctx, ledger, client, hub.At(now()))
	}
	if err != nil {
		fmt.Fprintf(a.err, "%s the hub has not heard yet how some runs ended: %v\n", a.paint(a.err, "33", "note:"), visible(err.Error()))
	}
	return ledger, nil
}

// recordOf returns the record of a run, and the records that it is from.
func (a *app) recordOf(ctx context.Context, id string) (*fleet.Ledger, fleet.Record, error) {
	ledger, err := a.ledger(ctx)
	if err != nil {
		return nil, fleet.Record{}, err
	}
	r, err := ledger.Record(hub.RunID(id))
	if hub.CodeOf(err) == hub.CodeNotFound { // the hub keeps what the files do no longer
		if client, unable := a.client(); unable == nil {
			if kept, missing := client.Run(ctx, hub.RunID(id)); missing == nil {
				return ledger, fleet.Record{Run: kept.Run, Hub: true, Told: true}, nil
			}
		}
	}
	return ledger, r, err
}

func (a *app) runsListCommand() *cobra.Command {
	var agent string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs on this machine, newest first",
		Long: `List the runs whose files are in the home, newest first. Runs that nobody
watches over any more are recorded as interrupted, and what is left of their
processes is ended. With --json reports and evidence are left out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit: %d is not positive", limit)
			}
			ledger, err := a.ledger(cmd.Context())
			if err != nil {
				return err
			}
			all, err := ledger.Records()
			if err != nil {
				return err
			}
			list := []fleet.Record{}
			for _, r := range all {
				if (agent == "" || string(r.Agent) == agent) && len(list) < limit {
					r.Report, r.Evidence = nil, nil
					list = append(list, r)
				}
			}
			return a.print(map[string]any{"runs": list}, func(w io.Writer) {
				tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				for _, r := range list {
					task := strings.Join(strings.Fields(readable(r.Task)), " ")
					if runes := []rune(task); len(runes) > 60 {
						task = string(runes[:59]) + "…"
					}
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.StartedAt, r.Agent, r.State, r.Verdict, task)
				}
				tw.Flush()
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only runs of this agent")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most")
	return cmd
}

func (a *app) runsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: claim, evidence and verdict",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ledger, r, err := a.recordOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(runResult{Record: r, Frames: ledger.Frames(r.ID)}, func(w io.Writer) {
				fmt.Fprintf(w, "%s, by %s in %s\n", readable(r.Task), r.Agent, readable(r.Dir))
				fmt.Fprintf(w, "from %s", r.StartedAt)
				if !r.EndedAt.IsZero() {
					fmt.Fprintf(w, " to %s", r.EndedAt)
				}
				fmt.Fprintln(w)
				a.writeRun(w, r, "")
			})
		},
	}
}

func (a *app) runsReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay RUN",
		Short: "Show again what an agent said and did",
		Long: `Show again what an agent said and did, as it was recorded. With --json every
frame is a line. Keys and tokens are not in the recording.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ledger, r, err := a.recordOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f, err := os.Open(ledger.Frames(r.ID))
			if err != nil {
				return hub.Errorf(hub.CodeNotFound, "parley", "there is no recording of run %s: %v", r.ID, err)
			}
			defer f.Close()
			told, out := a.narrator(), bufio.NewWriter(a.out)
			enc := json.NewEncoder(out)
			enc.SetEscapeHTML(false)
			err = fleet.Replay(f, func(l fleet.Line, u *acp.Update) error {
				switch {
				case cmd.Context().Err() != nil:
					return cmd.Context().Err()
				case a.json:
					return enc.Encode(l)
				case u != nil:
					told.tell(u)
				}
				return nil
			})
			told.end()
			if flushed := out.Flush(); err == nil {
				err = flushed
			}
			return err
		},
	}
}
