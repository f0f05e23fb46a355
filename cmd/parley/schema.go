package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/shape"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

func (a *app) schemaCommand() *cobra.Command {
	print := &cobra.Command{
		Use:       "print NAME",
		Short:     "Print a schema: envelope, handoff-package, teamspace, payload/TYPE",
		Args:      cobra.ExactArgs(1),
		ValidArgs: schema.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := schema.Text(args[0])
			if err != nil {
				return hub.Errorf(hub.CodeNotFound, "parley", "%w", err).WithHint("parley schema list shows them all")
			}
			_, err = a.out.Write(text)
			return err
		},
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the schemas",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.print(map[string]any{"schemas": schema.Names()}, func(w io.Writer) {
				for _, n := range schema.Names() {
					fmt.Fprintln(w, n)
				}
			})
		},
	}
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Check whether a file (or - ) is a valid envelope; exit 1 if not",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := a.read(cmd.Context(), args[0], maxContent, errContent)
			if err != nil {
				return err
			}
			_, err = shape.DecodeEnvelope(raw)
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
	return group("schema", "Print the published JSON Schemas, or check an envelope", print, list, check)
}
