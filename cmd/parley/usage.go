package main

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/nearest"
)

// plainErrors makes the commands below cmd say what is wrong with a command line in the words of
// this program: a missing argument by its name, a surplus word, an unknown flag with its neighbour.
func plainErrors(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagError)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error { return argumentError(cmd, given, check(cmd, given)) }
	}
	for _, sub := range cmd.Commands() {
		plainErrors(sub)
	}
}

// argumentError returns an error about the number of arguments in place of cobra's. Errors of the
// commands themselves stay.
func argumentError(cmd *cobra.Command, given []string, err error) error {
	if _, own := errors.AsType[*hub.Error](err); own || err == nil {
		return err
	}
	names, isOpen := argumentNames(cmd)
	required := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(name, "[") })
	line := strings.Join(strings.Fields(flagGroup.ReplaceAllString(cmd.UseLine(), "")), " ")
	switch {
	case len(given) < len(required):
		return usagef("%s is missing", required[len(given)]).WithHint("type: %s; %s --help has examples", line, cmd.CommandPath())
	case !isOpen && len(given) > len(names):
		return usagef("surplus word %q", given[len(names)]).WithHint("type: %s; put a text of several words into quotes", line)
	}
	return usagef("%w", err)
}

// flagGroup is a flag in brackets in the usage line of a command.
var flagGroup = regexp.MustCompile(`\[-[^\]]*\]|\[flags\]`)

// argumentNames returns the names of a command's arguments, by its usage line, optional ones in
// brackets. isOpen reports whether the last one may be repeated.
func argumentNames(cmd *cobra.Command) (names []string, isOpen bool) {
	for _, word := range strings.Fields(flagGroup.ReplaceAllString(cmd.Use, ""))[1:] {
		if word == "--" {
			continue // before the command line of an agent
		}
		if strings.HasPrefix(word, "-") || word == "|" {
			break // flags end the arguments, and so does another form of the command
		}
		repeats := strings.HasSuffix(strings.TrimRight(word, "]"), "...")
		isList := strings.Contains(word, ",") // one argument with several values
		isOpen = isOpen || (repeats && !isList)
		names = append(names, word)
	}
	return names, isOpen
}

// flagError returns an error about a flag in place of pflag's.
func flagError(cmd *cobra.Command, err error) error {
	unknown, isUnknown := errors.AsType[*pflag.NotExistError](err)
	empty, isEmpty := errors.AsType[*pflag.ValueRequiredError](err)
	wrong, isWrong := errors.AsType[*pflag.InvalidValueError](err)
	switch {
	case isUnknown && unknown.GetSpecifiedShortnames() != "":
		return usagef("unknown flag -%s", unknown.GetSpecifiedName()).WithHint("%s --help lists the flags, which have long names", cmd.CommandPath())
	case isUnknown:
		return unknownFlag(cmd, unknown.GetSpecifiedName())
	case isEmpty:
		return usagef("--%s needs a value: --%[1]s %s", empty.GetFlag().Name, strings.ToUpper(valueOf(empty.GetFlag())))
	case isWrong:
		return usagef("--%s: %q is no %s", wrong.GetFlag().Name, wrong.GetValue(), valueOf(wrong.GetFlag())).
			WithHint("%s", wrong.Unwrap())
	}
	return usagef("%w", err)
}

// unknownFlag returns the error of a flag that a command does not have.
func unknownFlag(cmd *cobra.Command, name string) error {
	known := map[string]bool{}
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			known[f.Name] = true
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	err := usagef("%s has no flag --%s", cmd.CommandPath(), name)
	if near := nearest.Name(name, slices.Values(slices.Sorted(maps.Keys(known)))); near != "" {
		return err.WithHint("did you mean --%s?", near)
	}
	return err.WithHint("%s --help lists the flags", cmd.CommandPath())
}

// valueOf returns the kind of value that a flag takes.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64", "uint", "count":
		return "number"
	case "duration":
		return "duration"
	case "bool":
		return "yes or no"
	case "string", "stringArray", "stringSlice":
		return "value"
	}
	return f.Value.Type()
}

// groupError returns an error about flags that exclude or need each other in place of cobra's. Other
// errors stay.
func groupError(err error) error {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "if any flags in the group ["); ok {
		_, set, isExclusive := strings.Cut(rest, "none of the others can be; [")
		if names, _, ok := strings.Cut(set, "]"); ok && isExclusive {
			return usagef("%s exclude each other", flagNames(names, " and "))
		}
		if group, missing, ok := strings.Cut(rest, "] are set they must all be set; missing ["); ok {
			return usagef("%s belong together: %s is missing", flagNames(group, " and "), flagNames(strings.TrimSuffix(missing, "]"), " and "))
		}
	}
	if rest, ok := strings.CutPrefix(text, `required flag(s) "`); ok {
		names, _, _ := strings.Cut(rest, `" not set`)
		return usagef("%s is missing", flagNames(strings.ReplaceAll(names, `", "`, " "), " and "))
	}
	if rest, ok := strings.CutPrefix(text, "at least one of the flags in the group ["); ok {
		names, _, _ := strings.Cut(rest, "]")
		return usagef("one of %s is needed", flagNames(names, ", "))
	}
	return err
}

// flagNames returns names, which blanks separate, as flags.
func flagNames(names, between string) string {
	all := strings.Fields(names)
	for i, name := range all {
		all[i] = "--" + name
	}
	return strings.Join(all, between)
}
