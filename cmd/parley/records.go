package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/server"
)

// fromRecords returns the result of offline on the records in the hub's home, if the
// caller is the operator and no hub is running there. Else it calls the operation.
func fromRecords[S, P, R any](ctx context.Context, a *app, o rpc.Operation[S, P, R], params P, offline func(api.Records) (R, error)) (R, error) {
	var none R
	operator := a.asOperator || (a.keyFile == "" && os.Getenv("PARLEY_KEY") == "" && isTerminal(a.in))
	if operator && os.Getenv("PARLEY_URL") == "" {
		// The home says whether a hub is running. A call to its address could
		// give the key to another program that listens there.
		home, err := a.homeDir()
		if err != nil {
			return none, err
		}
		switch r, err := server.OpenRecords(home, nil); {
		case err == nil:
			got, err := offline(r)
			return got, errors.Join(err, r.Close())
		case hub.CodeOf(err) != hub.CodeConflict: // a conflict says that a hub uses it
			return none, err
		}
	}
	return call(ctx, a, o, params)
}

// answerFromRecords prints the result of fromRecords.
func answerFromRecords[S, P, R any](ctx context.Context, a *app, o rpc.Operation[S, P, R], params P, write func(io.Writer, R), offline func(api.Records) (R, error)) error {
	got, err := fromRecords(ctx, a, o, params, offline)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { write(w, got) })
}

func (a *app) exportCommand() *cobra.Command {
	var p api.CopyParams
	cmd := &cobra.Command{
		Use: "export --jsonl DIR", Short: "Export the hub's data as JSONL",
		Long: `Write all the hub's data into a new folder: one JSONL file with the rows of every table
at one moment, sealed by a hash, and the archives. Packages of restricted handoffs are
left out unless --restricted is given. It also works while no hub is running.`,
		Example: `  parley hub export --jsonl /var/backups/parley-export`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Path == "" {
				return usagef("--jsonl is required").WithHint("name a folder that does not exist yet: --jsonl DIR")
			}
			if p.Path, err = filepath.Abs(p.Path); err != nil {
				return err
			}
			write := func(w io.Writer, got records.Manifest) { writeManifest(w, "exported to "+p.Path, got) }
			return answerFromRecords(cmd.Context(), a, api.Export, p, write, func(r api.Records) (records.Manifest, error) {
				return r.Export(cmd.Context(), p.Path, p.Restricted)
			})
		},
	}
	cmd.Flags().StringVar(&p.Path, "jsonl", "", "new folder to write to")
	cmd.Flags().BoolVar(&p.Restricted, "restricted", false, "include the packages of restricted handoffs")
	return cmd
}

func writeManifest(w io.Writer, what string, m records.Manifest) {
	rows := 0
	for _, t := range m.Tables {
		rows += t.Rows
	}
	fmt.Fprintf(w, "%s: %d rows in %d tables, %d archives, journal up to entry %d\n", what, rows, len(m.Tables), len(m.Archives), m.Head.Seq)
}

func (a *app) importCommand() *cobra.Command {
	var into string
	cmd := &cobra.Command{
		Use: "import DIR --into NEW_HOME", Short: "Create a hub's home from an export",
		Long: `Create a hub's home from an export. The folder must not hold a hub yet; the home is
created completely or not at all. The operator gets a new key when the hub starts there.`,
		Example: `  parley hub import /var/backups/parley-export --into ~/.parley-2
  parley serve --home ~/.parley-2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if into == "" {
				return usagef("--into is required").WithHint("name a folder that does not hold a hub yet: --into NEW_HOME")
			}
			got, err := server.Import(cmd.Context(), args[0], into)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { writeManifest(w, "imported into "+into, got) })
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "the new home")
	return cmd
}

func (a *app) archiveCommand() *cobra.Command {
	var p api.ArchiveParams
	var keep time.Duration
	cmd := &cobra.Command{
		Use: "archive", Short: "Archive old messages and journal entries",
		Long: `Move messages and journal entries older than 90 days from the database into a JSONL file
in the hub's home. The hub does this automatically once a day. Handoffs, their history
and the messages about them are never archived.`,
		Example: `  parley hub archive --dry-run`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.KeepS = strictjson.Count(keep / time.Second)
			return answerFromRecords(cmd.Context(), a, api.Archive, p, writeArchive, func(r api.Records) (records.ArchiveReport, error) {
				return r.Archive(cmd.Context(), hub.Caller{ID: hub.Operator}, records.ArchiveOptions{Keep: keep, DryRun: p.DryRun})
			})
		},
	}
	cmd.Flags().BoolVar(&p.DryRun, "dry-run", false, "print what would be archived, and change nothing")
	cmd.Flags().Var((*strictyaml.Period)(&keep), "keep", "keep messages and entries younger than this, at least 24h (default 2160h, 90 days)")
	return cmd
}

func writeArchive(w io.Writer, got records.ArchiveReport) {
	switch {
	case got.File == "":
		fmt.Fprintf(w, "nothing is older than %s\n", when(got.Cutoff))
	case got.DryRun:
		fmt.Fprintf(w, "would archive %d journal entries and %d messages older than %s\n", got.Entries, got.Messages, when(got.Cutoff))
	default:
		fmt.Fprintf(w, "archived %d journal entries and %d messages older than %s in %s\n", got.Entries, got.Messages, when(got.Cutoff), got.File)
	}
	if got.HeldBackBy != "" {
		fmt.Fprintf(w, "more waits for %s\n", got.HeldBackBy)
	}
}

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backup DIR", Short: "Copy the hub's home into a new folder",
		Long: `Copy the hub's home into a new folder: the database as it is at one moment, the records,
artifacts and key files. The hub may be in use. The copy contains secrets. It is itself
a home: to restore it, copy it back and start the hub there with --home.`,
		Example: `  parley hub backup /var/backups/parley
  parley serve --home /var/backups/parley`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			write := func(w io.Writer, _ api.BackupCopy) { fmt.Fprintf(w, "copied the hub to %s\n", path) }
			return answerFromRecords(cmd.Context(), a, api.Backup, api.CopyParams{Path: path}, write, func(r api.Records) (api.BackupCopy, error) {
				return api.BackupCopy{Path: path}, r.Backup(cmd.Context(), path)
			})
		},
	}
}
