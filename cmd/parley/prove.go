package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/proof"
)

func (a *app) proveCommand() *cobra.Command {
	var p api.ProveParams
	var out string
	var yes bool
	cmd := &cobra.Command{
		Use:   "prove ID",
		Short: "Write a file that proves what the hub says",
		Long: `Write a file with which a stranger checks what the hub says about a landing, a review, a
check result, a handoff, a run, a decision or a message: "parley verify FILE" needs no
hub, no account and no network. The file has the hub's signed statements, the rows of its
journal from which they follow, and the proof that a signed checkpoint has those rows.

First you see which folders, machines, names and texts leave with the file, and you are
asked. Without a terminal, --yes is required. The text of a message and the package of a
handoff stay on the hub unless --with-text is given.`,
		Example: `  parley prove l7
  parley prove h3 -o h3.proof.json --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.ID = args[0]
			return a.prove(cmd.Context(), p, out, yes)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "out", "o", "", "file to write (default ID.proof.json; - for standard output)")
	f.BoolVar(&p.WithText, "with-text", false, "include the text of a message, and the package of a handoff")
	f.BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// prove makes a file, shows what leaves with it, asks, and writes it.
func (a *app) prove(ctx context.Context, p api.ProveParams, out string, yes bool) error {
	if !yes && !isTerminal(a.in) {
		return usagef("--yes is required without a terminal").WithHint("run it in a terminal first: it shows which folders, machines, names and texts leave")
	}
	if out == "" {
		out = filepath.Base(p.ID) + ".proof.json"
	}
	got, err := call(ctx, a, api.Prove, p)
	if err != nil {
		return err
	}
	writeLeaves(a.err, got)
	if !yes {
		ok, err := a.askYes(ctx, "Write them to "+out+"?")
		if err != nil || !ok {
			fmt.Fprintln(a.err, "nothing was written")
			return err
		}
	}

	raw, err := json.MarshalIndent(got.File, "", " ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if out == "-" {
		_, err := a.out.Write(raw)
		return err
	}
	if err := durable.WriteFile(out, raw, 0o644); err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) {
		fmt.Fprintf(w, "wrote %s: %s %s, %s, as of row %d of the journal, %s\n", out, got.Noun, got.File.Of, strings.ReplaceAll(got.State, "_", " "), got.Rows, utc(got.AsOf))
		fmt.Fprintf(w, "check it with: parley verify %s --key KEYFILE (parley audit key prints the key)\n", out)
	})
}

// writeLeaves writes what strangers read in a file.
func writeLeaves(w io.Writer, got proof.Made) {
	fmt.Fprintf(w, "With the file these leave the hub, beside ids, times and hashes:\n")
	for _, part := range []struct {
		name  string
		texts []string
	}{{"folders", got.Leaves.Folders}, {"machines", got.Leaves.Machines}, {"names", got.Leaves.Names}, {"texts", got.Leaves.Texts}} {
		if len(part.texts) == 0 {
			fmt.Fprintf(w, "  %s: none\n", part.name)
			continue
		}
		if part.name != "texts" {
			fmt.Fprintf(w, "  %s: %s\n", part.name, plaintext.Line(strings.Join(part.texts, ", ")))
			continue
		}
		fmt.Fprintln(w, "  texts:")
		for _, text := range part.texts {
			fmt.Fprintf(w, "    %s\n", plaintext.Line(text))
		}
	}
	for _, text := range got.LeftOut {
		fmt.Fprintf(w, "not in the file: %s\n", plaintext.Line(text))
	}
}

func (a *app) auditKeyCommand() *cobra.Command {
	return operation(a, &cobra.Command{
		Use:   "key",
		Short: "Print the public key with which the hub signs proofs",
		Long: `Print the public key with which the hub signs checkpoints of its journal and the files of
parley prove, in the form of C2SP signed notes. Give it to those who check such files: as
a file for --key, or as .parley/keys in the repository. A hub that was made from an export
has a key of its own; the keys from before follow.`,
		Example: `  parley audit key > hub.key
  parley verify l7.proof.json --key hub.key`,
		Args: cobra.NoArgs,
	}, api.ListProofKeys, new(api.None), func(w io.Writer, got api.ProofKeys) {
		for _, k := range got.Keys {
			fmt.Fprintln(w, k)
		}
	})
}
