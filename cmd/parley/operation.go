package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// A preparation completes the parameters of an operation when its command runs:
// with an argument, or with a flag that has to be read, checked or looked up.
type preparation = func(ctx context.Context, args []string) error

// operation completes a command that calls one operation of the hub: it prepares
// the parameters, calls, and prints the result as JSON or with write.
func operation[S, P, R any](a *app, cmd *cobra.Command, o rpc.Operation[S, P, R], p *P, write func(io.Writer, R), preparations ...preparation) *cobra.Command {
	return prepared(cmd, func(ctx context.Context) error { return answer(ctx, a, o, *p, write) }, preparations...)
}

// prepared completes a command that prepares its parameters and then runs.
func prepared(cmd *cobra.Command, run func(context.Context) error, preparations ...preparation) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, prepare := range preparations {
			if err := prepare(cmd.Context(), args); err != nil {
				return err
			}
		}
		return run(cmd.Context())
	}
	return cmd
}

// argument stores the argument with an index, if it was given.
func argument[T ~string](i int, into *T) preparation {
	return func(_ context.Context, args []string) error {
		if i < len(args) {
			*into = T(args[i])
		}
		return nil
	}
}

// jsonFlag adds a flag whose value is JSON, @FILE, or - for standard input.
func (a *app) jsonFlag(cmd *cobra.Command, into *json.RawMessage, name, usage string) preparation {
	value := cmd.Flags().String(name, "", usage)
	return func(ctx context.Context, _ []string) (err error) {
		*into, err = a.object(ctx, "--"+name, *value)
		return err
	}
}

// momentFlag adds a flag whose value is a time, or a span before now (sign -1) or
// after it (sign 1).
func momentFlag(cmd *cobra.Command, into *hub.Time, sign time.Duration, name, usage string) preparation {
	value := cmd.Flags().String(name, "", usage)
	return func(context.Context, []string) (err error) {
		*into, err = moment(name, *value, sign)
		return err
	}
}

// secondsFlag adds a flag whose value is a span that the hub takes in seconds.
func secondsFlag[T ~int64](cmd *cobra.Command, into *T, name, usage string) preparation {
	value := cmd.Flags().Duration(name, 0, usage)
	return func(context.Context, []string) error {
		*into = T(*value / time.Second)
		return nil
	}
}

// listFlag adds a flag whose values are separated by commas.
func listFlag[T ~string](cmd *cobra.Command, into *[]T, name, usage string) preparation {
	values := cmd.Flags().StringSlice(name, nil, usage)
	return func(context.Context, []string) error {
		for _, v := range *values {
			*into = append(*into, T(v))
		}
		return nil
	}
}

// choices makes the shell complete a flag with fixed values.
func choices[T ~string](cmd *cobra.Command, flag string, values ...T) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words(values), cobra.ShellCompDirectiveNoFileComp))
}

// words returns values of a string type as strings.
func words[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// check prints a result and returns errCheck unless it is good.
func (a *app) check(good bool, result any, text func(io.Writer)) error {
	if err := a.print(result, text); err != nil {
		return err
	}
	if !good {
		return errCheck
	}
	return nil
}
