package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/internal/operation/api"
)

func (a *app) hubOperatorCommand() *cobra.Command {
	cmd := noun("operator", "Manage the operators of this hub", a.operatorListCommand(), a.operatorAddCommand(), a.operatorRemoveCommand())
	cmd.Long = `Manage the people who operate this hub besides its owner. Each has their own key, and
the journal names the person behind each approval and each change.`
	return cmd
}

func (a *app) operatorAddCommand() *cobra.Command {
	var p api.OperatorParams
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add an operator and print their key (operator)",
		Long: `Create a key for another operator. It is printed once: keep it in a file that only that
person can read, and pass the file with --key-file. The key is never sent over a port:
the command proves to the hub that it has the key, and gets a token for a few minutes.`,
		Example: `  parley hub operator add ana
  parley --key-file ana.key approve MESSAGE`,
		Args: cobra.ExactArgs(1),
	}
	return operation(a, cmd, api.AddOperator, &p, func(w io.Writer, got api.OperatorKey) {
		fmt.Fprintf(w, "%s is an operator of this hub\nkey: %s\n", got.Name, got.Key)
	}, func(_ context.Context, args []string) error {
		p.Name = args[0]
		return nil
	})
}

func (a *app) operatorListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List operators (operator)", Args: cobra.NoArgs}
	return operation(a, cmd, api.ListOperators, &api.None{}, func(w io.Writer, got api.OperatorList) {
		writeList(w, "operators", "NAME, KEY ENDS IN, SINCE", got.Operators, func(o api.OperatorRow) []any {
			return []any{cmp.Or(o.Name, "(the key in the hub's home)"), o.Hint, o.Since}
		})
	})
}

func (a *app) operatorRemoveCommand() *cobra.Command {
	var p api.OperatorParams
	cmd := &cobra.Command{Use: "remove NAME", Short: "Remove an operator and revoke their key (operator)", Args: cobra.ExactArgs(1)}
	return operation(a, cmd, api.RemoveOperator, &p, func(w io.Writer, got api.OperatorParams) {
		fmt.Fprintf(w, "%s is no longer an operator\n", got.Name)
	}, func(_ context.Context, args []string) error {
		p.Name = args[0]
		return nil
	})
}
