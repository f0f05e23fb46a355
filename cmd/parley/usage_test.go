package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An error about a command line names the missing thing or the nearest flag, with a line to type,
// and ends with exit code 2.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	env := []string{"PARLEY_HOME=" + t.TempDir(), "PARLEY_KEY=parley_agent_x"}
	for _, tt := range []struct{ line, says string }{
		{"ask builder", "QUESTION is missing\n  type: parley ask AGENT QUESTION"},
		{"agent add", "NAME is missing"},
		{"files reserve", "PATTERN... is missing"},
		{"schedule add 1h", "TEXT is missing"},
		{"land a b", `surplus word "b"`},
		{"doctor now", `surplus word "now"`},
		{"log --lmit 3", "parley log has no flag --lmit\n  did you mean --limit?"},
		{"inbox --frobnicate", "parley inbox has no flag --frobnicate\n  parley inbox --help lists the flags"},
		{"inbox -x", "unknown flag -x"},
		{"log --limit", "--limit needs a value"},
		{"init --yes --print", "--print and --yes exclude each other"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			r := do(t, parley(t, env, strings.Fields(tt.line)...))
			if r.code != exitUsage || !strings.Contains(r.err, tt.says) {
				t.Errorf("exit %d\n%s", r.code, r.err)
			}
			for _, foreign := range []string{"arg(s)", "flags in the group", "shorthand"} {
				if strings.Contains(r.err, foreign) {
					t.Errorf("the words of a library: %s", r.err)
				}
			}
		})
	}
}

// Each command that takes arguments says by name which one is missing, and which word is too many.
func TestArgumentsHaveNames(t *testing.T) {
	a := &app{out: newPrinter(new(strings.Builder)), err: newPrinter(new(strings.Builder)), in: strings.NewReader("")}
	words := strings.Fields("a b c d e f g h i j k l")
	for _, cmd := range leaves(a.root()) {
		for _, given := range [][]string{nil, words} {
			err := cmd.Args(cmd, given)
			if err != nil && strings.Contains(err.Error(), "arg(s)") {
				t.Errorf("%s %s: %v: its usage line %q does not name its arguments", cmd.CommandPath(), strings.Join(given, " "), err, cmd.Use)
			}
		}
	}
}

// Without a hub the first line of everybody names the home, and how to begin.
func TestNoHubYet(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		name string
		env  []string
		args string
	}{
		{"without a terminal", []string{"PARLEY_HOME=" + home}, "inbox"},
		{"the operator", []string{"PARLEY_HOME=" + home}, "handoff --as-operator"},
		{"a home that is named", nil, "--home " + home + " inbox"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := do(t, parley(t, tt.env, strings.Fields(tt.args)...))
			contains(t, r.err, "no hub has been started here: "+home+" does not exist", "parley init in a repository")
			if r.code != exitDegraded {
				t.Errorf("exit %d", r.code)
			}
			if _, err := os.Stat(home); err == nil {
				t.Error("the home was made")
			}
		})
	}
	t.Run("with a hub, without a terminal", func(t *testing.T) {
		h := newHouse(t)
		r := h.as("nobody", "inbox")
		contains(t, r.err, "this is not a terminal, so you are not taken for the operator", "--as-operator")
	})
	t.Run("a home without a running hub is no other hub", func(t *testing.T) {
		empty := t.TempDir()
		r := do(t, parley(t, []string{"PARLEY_KEY=parley_agent_x"}, "--home", empty, "inbox"))
		contains(t, r.err, "no hub is running in "+empty)
	})
}

// leaves returns the commands below cmd that check their arguments.
func leaves(cmd *cobra.Command) (out []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Args != nil && sub.Runnable() {
			out = append(out, sub)
		}
		out = append(out, leaves(sub)...)
	}
	return out
}
