package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
)

// runFiles returns the files of runs, after it recovered those of killed runs and
// told the hub of their ends.
func (a *app) runFiles(ctx context.Context) (*run.Files, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	files := run.NewFiles(home)
	unreported, err := files.Recover(hub.At(now()))
	if err != nil || len(unreported) == 0 {
		return files, err
	}
	c, err := a.loadConfig(home)
	if err != nil {
		return nil, err
	}
	h, err := a.hubForRun(ctx, home, c)
	if err == nil {
		err = files.Report(ctx, h, unreported)
	}
	if err != nil {
		fmt.Fprintf(a.err, "%s cannot report the end of some runs to the hub: %v\n", a.paint(a.err, "33", "note:"), err)
	}
	return files, nil
}

// runRecord returns the record of a run, and the files that it is from. Of a run
// whose files were removed it returns the hub's record.
func (a *app) runRecord(ctx context.Context, id string) (*run.Files, run.Record, error) {
	files, err := a.runFiles(ctx)
	if err != nil {
		return nil, run.Record{}, err
	}
	r, err := files.Record(hub.RunID(id))
	if hub.CodeOf(err) == hub.CodeNotFound {
		if client, unable := a.client(); unable == nil {
			if kept, missing := rpc.Call(ctx, client, api.ShowRun, api.RunIDParams{ID: hub.RunID(id)}); missing == nil {
				return files, run.Record{Run: kept.Run, Hub: true, Told: true}, nil
			}
		}
	}
	return files, r, err
}

func (a *app) runListCommand() *cobra.Command {
	var agent string
	limit := strictjson.Count(50)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs on this machine, newest first",
		Long: `List the runs whose files are in the home, newest first. A run whose parley process was
killed is recorded as interrupted, and its remaining processes are ended. With --json,
reports and evidence are left out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := a.runFiles(cmd.Context())
			if err != nil {
				return err
			}
			all, err := files.Records()
			if err != nil {
				return err
			}

			// The list leaves out reports and evidence, which are long.
			list := []run.Record{}
			for _, r := range all {
				if (agent == "" || string(r.Agent) == agent) && len(list) < int(limit) {
					r.Report, r.Evidence = nil, nil
					list = append(list, r)
				}
			}

			return a.print(map[string]any{"runs": list}, func(w io.Writer) {
				writeList(w, "runs", "RUN, STARTED, AGENT, STATE, VERDICT, TASK", list, func(r run.Record) []any {
					task := strings.Join(strings.Fields(r.Task), " ")
					if runes := []rune(task); len(runes) > 60 {
						task = string(runes[:59]) + "…"
					}
					return []any{r.ID, r.StartedAt, r.Agent, state(r.State), state(r.VerdictText()), task}
				})
			})
		},
	}

	cmd.Flags().StringVar(&agent, "agent", "", "only runs of this agent")
	cmd.Flags().Var(&limit, "limit", "maximum number of runs")
	return cmd
}

func (a *app) runReplayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay RUN",
		Short: "Replay the recording of a run",
		Long: `Print the agent's text and actions again, from the recording of the run. With --json,
every frame is a line. Keys and tokens are not in the recording.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, r, err := a.runRecord(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f, err := os.Open(files.Frames(r.ID))
			if err != nil {
				return hub.Errorf(hub.CodeNotFound, "parley", "cannot open the recording of run %s: %v", r.ID, err)
			}
			defer f.Close()

			told, out := a.narrator(), bufio.NewWriter(a.out)
			enc := encoder(out)
			err = run.Replay(f, func(frame run.RecordedFrame, u *acp.Update) error {
				switch {
				case cmd.Context().Err() != nil:
					return cmd.Context().Err()
				case a.json:
					return enc.Encode(frame)
				case u != nil:
					told.tell(u)
				}
				return nil
			})

			told.stop()
			if flushed := out.Flush(); err == nil {
				err = flushed
			}
			return err
		},
	}
}
