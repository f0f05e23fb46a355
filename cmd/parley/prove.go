package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/attest"
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
check result, a handoff, a run, a decision, a contract or a message: "parley verify FILE"
needs no hub, no account and no network. The file has the hub's signed statements, the rows of its
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
		fmt.Fprintf(w, "check it with: parley verify %s --key KEYFILE (parley hub key prints the key)\n", out)
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

func (a *app) hubKeyCommand() *cobra.Command {
	var renew, yes bool
	cmd := operation(a, &cobra.Command{
		Use:   "key",
		Short: "Print the public key with which the hub signs proofs",
		Long: `Print the public key with which the hub signs checkpoints of its journal and the files of
parley prove, in the form of C2SP signed notes. Give it to people who check such files: as
a file for --key, or as .parley/keys in the repository. The keys from before follow, and
those of witnesses (parley peer add --witness) after a # with their name.

--new begins a new log over the same journal, with a name and a key of its own. Do that
after you restored a backup that is older than a checkpoint that others have. It does not
help after the key file in the home was read by others: each log's key follows from it.
The first row of the new log names the last checkpoint of the old one. People who check
files need the new key; older files stay as they are.`,
		Example: `  parley hub key > hub.key
  parley verify l7.proof.json --key hub.key
  parley hub key --new`,
		Args: cobra.NoArgs,
	}, api.ListProofKeys, new(api.None), func(w io.Writer, got api.ProofKeys) {
		for _, k := range got.Keys {
			fmt.Fprintln(w, k)
		}
		for _, x := range got.Witnesses {
			for _, k := range x.Keys {
				fmt.Fprintf(w, "%s # witness %s\n", k, x.AID)
			}
		}
	})
	f := cmd.Flags()
	f.BoolVar(&renew, "new", false, "begin a new log, with a new key (operator)")
	f.BoolVar(&yes, "yes", false, "do not ask for confirmation")

	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !renew {
			return list(cmd, args)
		}
		if !yes {
			if !isTerminal(a.in) {
				return usagef("--yes is required without a terminal")
			}
			ok, err := a.askYes(cmd.Context(), "Begin a new log with a new key? People who check your proofs need the new key.")
			if err != nil || !ok {
				fmt.Fprintln(a.err, "nothing was changed")
				return err
			}
		}
		return answer(cmd.Context(), a, api.RenewLog, api.None{}, func(w io.Writer, got api.RenewedLog) { fmt.Fprintln(w, got.Key) })
	}
	return cmd
}

// checkpointsFile is the file of a folder to which checkpoints are appended.
const checkpointsFile = "parley-checkpoints"

func (a *app) hubWitnessCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "witness DIR",
		Short: "Append the newest checkpoint to a file in a folder",
		Long: `Append the newest signed checkpoint of the hub's journal to the file parley-checkpoints in a
folder, such as a repository that others can read. Nothing is committed: do that yourself.
Before that, the hub must prove that its log goes on from the last checkpoint in the file.
If it does not, both notes are printed, nothing is written, and the exit code is 1: the
hub shows two histories, or was restored from an older backup.`,
		Example: `  parley hub witness ~/notes && git -C ~/notes commit -am checkpoint`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.witness(cmd.Context(), filepath.Join(args[0], checkpointsFile))
		},
	}
}

// A witnessed is the result of parley hub witness.
type witnessed struct {
	OK         bool     `json:"ok"`
	File       string   `json:"file"`
	Checkpoint string   `json:"checkpoint"`
	Rows       int64    `json:"rows"` // of the journal, up to the checkpoint
	More       int64    `json:"more"` // of them after the last checkpoint in the file
	Problem    string   `json:"problem,omitempty"`
	Notes      []string `json:"notes,omitempty"` // that contradict each other
}

// witness appends the newest checkpoint to a file, if it continues the last one there.
func (a *app) witness(ctx context.Context, file string) error {
	address, err := a.hubURL()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return invalid(err)
	}
	keys, err := fetch(ctx, address, "/.well-known/parley-keys")
	if err != nil {
		return hub.Errorf(hub.CodeUnreachable, "parley", "%w", err)
	}
	trusted, err := attest.ParseKeys(string(keys))
	if err != nil || len(trusted) == 0 {
		return hub.Errorf(hub.CodeDegraded, "parley", "the hub at %s has no key for its log", address)
	}

	// The last checkpoint of the log in the file. Checkpoints of logs before it stay in the file.
	var last string
	since := int64(0)
	for _, note := range attest.SplitNotes(string(raw)) {
		if c, err := trusted[0].OpenCheckpoint(note); err == nil {
			last, since = note, c.Size
		}
	}
	out := witnessed{OK: true, File: file}
	text, err := fetch(ctx, address, fmt.Sprintf("/checkpoint?since=%d", since))
	if err != nil && since > 0 { // it ends before that
		text, err = fetch(ctx, address, "/checkpoint?since=0")
	}
	if err != nil {
		return hub.Errorf(hub.CodeUnreachable, "parley", "%w", err)
	}
	growing, err := attest.ParseGrowing(string(text))
	if err != nil {
		return hub.Errorf(hub.CodeDegraded, "parley", "the hub's checkpoint: %w", err)
	}
	newest, err := trusted[0].OpenCheckpoint(growing.Note)
	if err != nil {
		return hub.Errorf(hub.CodeDegraded, "parley", "the hub's checkpoint: %w", err)
	}
	out.Checkpoint = growing.Note
	out.Rows = newest.Size
	out.More = newest.Size
	if last != "" {
		more, err := proof.ContinueTo(proof.File{Key: trusted[0].Text, Checkpoint: last}, text)
		out.More = more.More
		if err != nil {
			out.OK = false
			out.Problem = err.Error()
			out.Notes = []string{last, growing.Note}
		}
	}
	if out.OK && out.More > 0 {
		if err := durable.WriteFile(file, append(raw, growing.Note+"\n"...), 0o644); err != nil {
			return err
		}
	}
	return a.check(out.OK, out, func(w io.Writer) {
		if !out.OK {
			for _, note := range out.Notes {
				fmt.Fprintf(w, "%s\n", plaintext.Text(note))
			}
			fmt.Fprintf(w, "%s %s; both notes are signed by the hub\n", a.paint(w, "31", "NOT WRITTEN:"), plaintext.Line(out.Problem))
			return
		}
		fmt.Fprintf(w, "%s has the checkpoint of row %d: %s more than before; nothing was committed\n", file, out.Rows, counted(int(out.More), "row"))
	})
}
