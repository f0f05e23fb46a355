package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/records"
)

func (a *app) forgetCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget ID",
		Short: "Remove the text of a message (operator)",
		Long: `Remove the text of a message, such as a pasted secret, from everything that the hub
stores: the database and its word index, the trail, archives, inbox files, and
artifacts that nothing else refers to. The sender, recipients, times and the hash of
the text stay, and the journal records the removal, so "parley hub verify" still
proves the rest. On a terminal the message is shown and you are asked to confirm.

The hub cannot remove copies elsewhere: backups and exports that you made, recordings
of runs, and anything kept by an agent that read the message. If others have read a
secret, change it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			// On a terminal the message is shown before its text is removed.
			id := hub.EnvelopeID(args[0])
			if ok, err := a.confirm(cmd, c, id, "Remove this text permanently?", yes); err != nil || !ok {
				return err
			}

			return answer(cmd.Context(), a, api.Forget, api.IDParams{ID: id}, func(w io.Writer, got records.ForgetReport) {
				fmt.Fprintf(w, "removed the text of message %s from %s; its SHA-256 stays: %s\n", id, got.From, cutHashes(got.SHA256))
				for _, file := range got.Files {
					fmt.Fprintf(w, "  %s was written again\n", file)
				}
				for _, sum := range got.Artifacts {
					fmt.Fprintf(w, "  artifact %s was removed\n", cutHashes(sum))
				}
				fmt.Fprintln(a.err, "Backups, exports, recordings of runs and agents that read the message may still have the text; change any secret in it.")
			})
		},
	}

	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}
