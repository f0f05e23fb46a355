package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// maxDocument is the size of the largest document that is checked: a report on many agents.
const maxDocument = 64 << 20

var errDocument = hub.Errorf(hub.CodeTooLarge, "parley", "the document is larger than %d bytes", maxDocument)

func (a *app) schemaCommand() *cobra.Command {
	print := &cobra.Command{
		Use:       "print NAME",
		Short:     "Print a schema",
		Args:      cobra.ExactArgs(1),
		ValidArgs: schema.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := schema.Text(args[0])
			if err != nil {
				return hub.Errorf(hub.CodeNotFound, "parley", "%w", err).WithHint(`run "parley schema list" to list the schemas`)
			}
			_, err = a.out.Write(text)
			return err
		},
	}

	list := &cobra.Command{
		Use:   "list",
		Short: "List schemas",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.print(map[string]any{"schemas": schema.Names()}, func(w io.Writer) {
				for _, n := range schema.Names() {
					fmt.Fprintln(w, n)
				}
			})
		},
	}

	var name string
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a document against a schema",
		Long: `Check whether a file, or standard input for -, is a valid envelope or a document of
another schema. The exit code is 1 if it is not.`,
		Example: `  parley schema check envelope.json
  parley schema check --schema handoff-package package.json
  parley comply --format json -- my-agent | parley schema check --schema comply-report -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(schema.Names(), name) {
				return usagef("--schema: no schema named %q", name).WithHint(`run "parley schema list" to list the schemas`)
			}

			raw, err := a.read(cmd.Context(), args[0], maxDocument, errDocument)
			if err != nil {
				return err
			}

			err = shape.Check(name, raw)
			result := map[string]any{"valid": err == nil}
			if err != nil {
				result["error"] = rpc.Describe(err, rpc.Commands)
			}
			return a.check(err == nil, result, func(w io.Writer) {
				if err != nil {
					fmt.Fprintf(w, "not valid: %v\n", err)
				} else {
					fmt.Fprintln(w, "valid")
				}
			})
		},
	}

	check.Flags().StringVar(&name, "schema", "envelope", `name of the schema; "parley schema list" lists them`)
	choices(check, "schema", schema.Names()...)
	return noun("schema", "Print JSON Schemas, or check a document", list, print, check)
}
